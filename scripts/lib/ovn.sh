# shellcheck shell=bash
# OVN and Open vSwitch: the machine's own where they are new enough, else Debian 13's, unpacked into a prefix. The
# programs of the prefix run with its own loader and libraries, so the machine's stay untouched and unused.

ovn_minimum=25.03
ovn_suite=trixie
# Raise the last number when the prefix's content or wrappers change: it names the folder.
ovn_prefix=$cache/ovn-$ovn_minimum-$ovn_suite-$machine-1

ovn_programs=(ovsdb-server ovsdb-client ovsdb-tool ovs-vsctl ovs-vswitchd ovs-appctl ovs-ofctl ovs-dpctl ovs-pki
    ovn-nbctl ovn-sbctl ovn-northd ovn-controller ovn-trace ovn-appctl)
ovn_schemas=(ovn-nb.ovsschema ovn-sb.ovsschema vswitch.ovsschema)
# Interpreters and service plumbing that the packages ask for and none of these programs uses.
ovn_unused=(python3 perl debconf init-system-helpers kmod lsb-release netbase procps uuid-runtime)

setup_ovn() {
    part=ovn
    ! given "${ovn_programs[@]}" nft || return 0
    need openssl openssl # ovs-pki calls it
    need nft nftables    # the node's own packet filter is part of what it plans
    link "$programs" "$(type -P nft)"
    if ovn_on_path; then
        link "$programs" "${ovn_found_programs[@]}"
        link "$schemas" "${ovn_found_schemas[@]}"
        return
    fi
    whole "$ovn_prefix" || alone ovn ovn_install
    link "$programs" "${ovn_programs[@]/#/$ovn_prefix/bin/}"
    link "$schemas" "${ovn_schemas[@]/#/$ovn_prefix/share/}"
}

# ovn_on_path: does the machine have all of it, new enough, schemas included? Sets `ovn_found_*`.
ovn_on_path() {
    local version schema folder
    command -v ovn-northd >/dev/null || return 1
    version=$(version_of ovn-northd --version)
    at_least "${version:-0}" $ovn_minimum || {
        say "this machine's OVN is ${version:-of unknown version}, older than $ovn_minimum: leaving it alone"
        return 1
    }
    mapfile -t ovn_found_programs < <(type -P "${ovn_programs[@]}")
    [ ${#ovn_found_programs[@]} -eq ${#ovn_programs[@]} ] || {
        say "this machine's OVN $version lacks some of ${ovn_programs[*]}: leaving it alone"
        return 1
    }
    ovn_found_schemas=()
    for schema in "${ovn_schemas[@]}"; do
        for folder in /usr/share/{ovn,openvswitch} /usr/local/share/{ovn,openvswitch}; do
            [ ! -e "$folder/$schema" ] || { ovn_found_schemas+=("$folder/$schema") && break; }
        done
    done
    [ ${#ovn_found_schemas[@]} -eq ${#ovn_schemas[@]} ]
}

ovn_install() {
    ! whole "$ovn_prefix" || return 0 # somebody else did it while we waited
    local work name
    work=$(scratch ovn)
    say "no OVN >= $ovn_minimum on this machine: fetching Debian $ovn_suite's"
    instead="Install OVN >= $ovn_minimum with Open vSwitch, so that ovn-northd and ovsdb-server are on the PATH."
    open_suite "$work" $ovn_suite "${ovn_unused[@]}"
    fetch_packages "$work" ovn-central ovn-host openvswitch-switch
    # shellcheck disable=SC2016 # the wrapper fills in $prefix
    take "$work/root" "$work/fresh" \
        'export OVS_PKGDATADIR="${OVS_PKGDATADIR:-$prefix/share}" OVN_PKGDATADIR="${OVN_PKGDATADIR:-$prefix/share}"' \
        "${ovn_programs[@]}"
    mkdir "$work/fresh/share"
    for name in "${ovn_schemas[@]}"; do find "$work/root/usr/share" -name "$name" -exec cp -t "$work/fresh/share" {} +; done
    mv "$work/packages" "$work/fresh/"
    ovn_try "$work/fresh"
    publish "$work/fresh" "$ovn_prefix"
    rm -rf "$work"
    say "OVN $(version_of "$ovn_prefix/bin/ovn-northd" --version) is ready in $ovn_prefix"
}

# ovn_try PREFIX: every program starts, and OVN is new enough.
ovn_try() {
    local name version
    for name in "${ovn_programs[@]}"; do
        "$1/bin/$name" --help >/dev/null 2>&1 || die "the unpacked $name does not start: $("$1/bin/$name" --help 2>&1 | tail -n1)"
    done
    version=$(version_of "$1/bin/ovn-northd" --version)
    at_least "$version" $ovn_minimum || die "Debian $ovn_suite has OVN $version, and $ovn_minimum is needed"
}
