# shellcheck shell=bash
# A kernel that is a program: Debian's User-Mode Linux, for tests of devices that this machine's own kernel may lack (VRF, dummy). It is
# unpacked into a prefix with the C library that it wants; nothing is installed, and the machine's own kernel is not touched.

# Since 7 it needs no ptrace, which is twice as fast; Debian 14 is the first with it.
uml_minimum=7.0
uml_suite=forky
# Raise the last number when the prefix's content changes: it names the folder.
uml_prefix=$cache/uml-$uml_suite-$machine-2

# What the tests load, with what that needs.
uml_modules=(llc stp bridge veth dummy tun vrf udp_tunnel ip6_udp_tunnel vxlan)

setup_uml() {
    part=uml
    [ "$machine" = x86_64 ] || {
        say "there is no User-Mode Linux for $machine: tests that need it are not built here"
        return 0
    }
    ! given linux.uml || return 0
    whole "$uml_prefix" || alone uml uml_install
    link "$programs" "$uml_prefix/cell/linux.uml"
}

uml_install() {
    ! whole "$uml_prefix" || return 0 # somebody else did it while we waited
    local work version name
    work=$(scratch uml)
    say "fetching User-Mode Linux from Debian $uml_suite (36 MB)"
    instead="Put linux.uml >= $uml_minimum into a folder with all other programs, as scripts/lib/uml.sh does, and name it in CAUSEWAY_PROGRAMS."
    open_suite "$work" $uml_suite debconf init-system-helpers
    fetch_packages "$work" user-mode-linux kmod ethtool
    take "$work/root" "$work/fresh" '' insmod ethtool
    mv "$work/packages" "$work/fresh/"
    uml_cell "$work/root" "$work/fresh/cell"
    mkdir "$work/fresh/modules"
    for name in "${uml_modules[@]}"; do
        # One that is built in has no file.
        find "$work/root/usr/lib/uml/modules" -name "$name.ko*" -exec cp {} "$work/fresh/modules/" \;
    done
    version=$(find "$work/root/usr/lib/uml/modules" -mindepth 1 -maxdepth 1 -printf '%f\n' | head -n1)
    at_least "$version" $uml_minimum || die "Debian $uml_suite has User-Mode Linux $version, and $uml_minimum is needed"
    publish "$work/fresh" "$uml_prefix"
    rm -rf "$work"
    say "User-Mode Linux $version is ready in $uml_prefix"
}

# uml_cell ROOT CELL: a root for the kernel's own process alone. It starts itself again by /proc/self/exe, so no wrapper can give it its
# C library.
uml_cell() {
    local root=$1 cell=$2 name
    mkdir -p "$cell"/{host,dev,proc,tmp,lib64,lib/x86_64-linux-gnu}
    cp "$root/usr/bin/linux.uml" "$cell/"
    cp -L "$(find "$root"/usr/lib* -name 'ld-linux-x86-64.so.2' | head -n1)" "$cell/lib64/"
    for name in libc.so.6 libgcc_s.so.1; do
        cp -L "$(find "$root/usr/lib" -name "$name" | head -n1)" "$cell/lib/x86_64-linux-gnu/"
    done
}
