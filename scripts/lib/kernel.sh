# shellcheck shell=bash
# The kernel of `make kernel`: User-Mode Linux built from Debian's source, with the zones of connection tracking that Debian's own build
# of it lacks and that OVN asks of the kernel's Open vSwitch. Nothing is installed.

# Raise the last number when the configuration or the prefix's content changes: it names the folder.
kernel_prefix=$cache/kernel-$uml_suite-$machine-1

setup_kernel() {
    part=kernel
    [ "$machine" = x86_64 ] || {
        say "there is no User-Mode Linux for $machine: tests that need it are not built here"
        return 0
    }
    ! given linux.own || return 0
    whole "$kernel_prefix" || alone kernel kernel_install
    link "$programs" "$kernel_prefix/linux.own"
}

kernel_install() {
    ! whole "$kernel_prefix" || return 0 # somebody else did it while we waited
    local work name source
    for name in gcc:gcc make:make bc:bc xz:xz-utils; do need "${name%:*}" "${name#*:}"; done
    [ -e "$(gcc -print-file-name=libc.a)" ] || die "the C library for static programs is missing" "Run: apt-get install libc6-dev"
    work=$(scratch kernel)
    say "fetching the source of Linux from Debian $uml_suite (170 MB)"
    instead="Put a User-Mode Linux with zones of connection tracking into a folder with all other programs as linux.own, and name it in CAUSEWAY_PROGRAMS."
    open_suite "$work" "$uml_suite" binutils xz-utils
    fetch_packages "$work" linux-source flex bison
    take "$work/root" "$work/tools" '' flex bison m4
    source=$(find "$work/root/usr/src" -name 'linux-source-*.tar.xz' | head -n1)
    say "unpacking $(basename "$source")"
    mkdir "$work/source" "$work/build" "$work/fresh"
    tar -xJf "$source" --strip-components=1 -C "$work/source"
    rm "$source"
    say "building it, once (15 minutes of a processor)"
    patiently kernel_build "$work" >"$work/log" 2>&1 || {
        tail -n30 "$work/log" >&2
        die "the kernel could not be built, see above" "The whole log is $work/log."
    }
    mv "$work/packages" "$work/build/linux" "$work/fresh/"
    mv "$work/fresh/linux" "$work/fresh/linux.own"
    publish "$work/fresh" "$kernel_prefix"
    rm -rf "$work"
    say "a kernel with zones is ready in $kernel_prefix"
}

# kernel_build WORK: as make ARCH=um wants it, with the flex and bison that were unpacked.
kernel_build() (
    # shellcheck disable=SC2030 # for this build alone
    export PATH=$1/tools/bin:$PATH BISON_PKGDATADIR=$1/root/usr/share/bison M4=$1/tools/bin/m4
    cd "$1/source"
    make ARCH=um O="$1/build" x86_64_defconfig
    (cd "$1/build" && "$1/source/scripts/kconfig/merge_config.sh" -m .config "$here/lib/kernel.config")
    make ARCH=um O="$1/build" olddefconfig
    kernel_has_all "$1/build/.config"
    make ARCH=um O="$1/build" -j"${CAUSEWAY_JOBS:-$(nproc)}" linux
    strip "$1/build/linux"
)

# A name that this source does not know any more is left out silently, and found by a test an hour later.
kernel_has_all() {
    local line missing=()
    while read -r line; do
        case $line in CONFIG_*=y) grep -qx "$line" "$1" || missing+=("$line") ;; esac
    done <"$here/lib/kernel.config"
    [ ${#missing[@]} -eq 0 ] || die "this source does not take: ${missing[*]}" "Change scripts/lib/kernel.config."
}
