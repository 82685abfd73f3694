# shellcheck shell=bash
# FRR, which speaks BGP: Debian 13's, unpacked into a prefix, never installed: its package starts services. The machine's own is
# left alone, running or not.

frr_minimum=10.3
frr_suite=trixie
# Raise the last number when the prefix's content or wrappers change: it names the folder.
frr_prefix=$cache/frr-$frr_minimum-$frr_suite-$machine-1

frr_programs=(mgmtd zebra bgpd vtysh)
# Interpreters and service plumbing that the package asks for and none of these programs uses.
frr_unused=(python3 perl debconf init-system-helpers lsb-base procps adduser logrotate)

setup_frr() {
    part=frr
    ! given "${frr_programs[@]}" || return 0
    whole "$frr_prefix" || alone frr frr_install
    link "$programs" "${frr_programs[@]/#/$frr_prefix/bin/}"
}

frr_install() {
    ! whole "$frr_prefix" || return 0 # somebody else did it while we waited
    local work name version
    work=$(scratch frr)
    say "fetching FRR from Debian $frr_suite"
    instead="Put ${frr_programs[*]} of FRR >= $frr_minimum into a folder with all other programs, and name it in CAUSEWAY_PROGRAMS."
    open_suite "$work" $frr_suite "${frr_unused[@]}"
    fetch_packages "$work" frr
    take "$work/root" "$work/fresh" '' "${frr_programs[@]}"
    mv "$work/packages" "$work/fresh/"
    for name in "${frr_programs[@]}"; do
        "$work/fresh/bin/$name" --help >/dev/null 2>&1 ||
            die "the unpacked $name does not start: $("$work/fresh/bin/$name" --help 2>&1 | tail -n1)"
    done
    version=$(version_of "$work/fresh/bin/bgpd" --version)
    at_least "$version" $frr_minimum || die "Debian $frr_suite has FRR $version, and $frr_minimum is needed"
    publish "$work/fresh" "$frr_prefix"
    rm -rf "$work"
    say "FRR $version is ready in $frr_prefix"
}
