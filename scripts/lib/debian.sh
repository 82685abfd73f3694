# shellcheck shell=bash
# Debian packages: installed on the machine where a tool is missing, or unpacked into a folder of ours. Nothing here
# names a mirror: the archive is the one that the machine's own apt uses, with its proxies and passwords.

# need COMMAND PACKAGE...: installs the packages if the command is missing.
need() {
    local command=$1 as_root=()
    shift
    command -v "$command" >/dev/null && return
    command -v apt-get >/dev/null || die "$command is missing" "Install it with your system's package manager."
    if [ "$(id -u)" -ne 0 ]; then
        as_root=(sudo)
        [ -t 0 ] || as_root=(sudo -n)
        { command -v sudo >/dev/null && "${as_root[@]}" true; } ||
            die "$command is missing, and installing it needs root" "Run: apt-get install $*"
    fi
    say "installing $* with apt"
    "${as_root[@]}" apt-get -qq update >&2
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get -qq -y -o Dpkg::Use-Pty=0 --no-install-recommends install "$@" </dev/null >&2
}

# own_apt WORK ARGUMENT...: apt with the machine's sources. Where they were never fetched (a fresh container), they are
# fetched into WORK, which needs no root.
own_apt() {
    local work=$1 lists=()
    shift
    if [ -d "$work/own/lists" ]; then lists=(-o "Dir::State::lists=$work/own/lists"); fi
    apt-get "${lists[@]}" "$@"
}

# debian_archive WORK: the address of Debian's main archive, as this machine's apt knows it.
debian_archive() {
    local work=$1 uri
    # shellcheck disable=SC2016 # apt fills in $(REPO_URI)
    local ask=(indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian')
    uri=$(own_apt "$work" "${ask[@]}" | head -n1)
    if [ -z "$uri" ]; then
        mkdir -p "$work/own/lists/partial"
        own_apt "$work" -qq -o APT::Sandbox::User=root update >"$work/log" 2>&1 || cat "$work/log" >&2
        uri=$(own_apt "$work" "${ask[@]}" | head -n1)
    fi
    printf %s "$uri"
}

# archive_keys WORK: a key ring that knows the newest Debian. The machine's own may be older than that release; the
# package that renews it comes through the machine's apt, so the chain of trust holds.
archive_keys() {
    local work=$1
    say "this machine's archive keys are too old for the packages needed, fetching newer ones"
    mkdir -p "$work/keys"
    (cd "$work/keys" && own_apt "$work" -qq -o APT::Sandbox::User=root download debian-archive-keyring >&2)
    dpkg-deb -x "$work"/keys/debian-archive-keyring_*.deb "$work/keys"
}

# open_suite WORK SUITE [INSTALLED...]: an apt of our own in WORK that sees only SUITE (or several, in one word with
# commas; the last is preferred). It believes that nothing is installed but the packages named, so it resolves everything else down to the C library. Sets `suite_apt`. Where there
# is no Debian archive it stops with the advice that the caller left in `instead`.
open_suite() {
    local work=$1 suite=$2 archive keys package
    shift 2
    command -v apt-get >/dev/null || die "this needs apt, and this machine has none" "$instead"
    archive=$(debian_archive "$work")
    [ -n "$archive" ] || die "there is no Debian archive among this machine's apt sources" "$instead"
    mkdir -p "$work"/{state/lists/partial,cache/archives/partial}
    for package; do
        printf 'Package: %s\nStatus: install ok installed\nVersion: 99:1\nArchitecture: %s\nMulti-Arch: allowed\n' \
            "$package" "$(dpkg --print-architecture)"
        printf 'Maintainer: nobody\nDescription: the host has its own\n\n'
    done >"$work/status"
    suite_apt=(apt-get -qq -o "Dir::State=$work/state" -o "Dir::State::status=$work/status" -o "Dir::Cache=$work/cache"
        -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::Etc::preferences=/dev/null
        -o Dir::Etc::preferencesparts=/dev/null -o APT::Sandbox::User=root -o APT::Install-Recommends=false
        -o APT::Update::Error-Mode=any -o APT::Default-Release="${suite##*,}" -o Acquire::Languages=none)
    keys=/usr/share/keyrings/debian-archive-keyring.gpg
    fetch_suite "$work" "$archive" "$suite" "$keys" 2>"$work/log" && return
    if [ ! -e "$keys" ] || grep -q NO_PUBKEY "$work/log"; then
        archive_keys "$work"
        fetch_suite "$work" "$archive" "$suite" "$work/keys$keys" 2>"$work/log" && return
    fi
    cat "$work/log" >&2
    die "cannot read $suite from $archive, the archive of this machine's apt" \
        "Check that it is reachable and carries that release, then run this again."
}

fetch_suite() {
    local suites
    IFS=, read -ra suites <<<"$3"
    printf "deb [target=Packages signed-by=$4] $2 %s main\n" "${suites[@]}" >"$1/sources.list"
    "${suite_apt[@]}" update
}

# fetch_packages WORK PACKAGE...: fetches them and what they need, and unpacks it all into WORK/root. The name, version
# and checksum of each go into WORK/packages.
fetch_packages() {
    local work=$1
    shift
    "${suite_apt[@]}" -y --download-only install "$@" </dev/null >"$work/log" 2>&1 || {
        cat "$work/log" >&2
        die "apt could not fetch $*, see above" "Run this again when the archive is reachable."
    }
    local debs=("$work"/cache/archives/*.deb)
    say "unpacking ${#debs[@]} packages"
    unpack "$work/root" "${debs[@]}" >"$work/packages"
}

unpack() {
    local folder=$1 deb
    shift
    mkdir -p "$folder"
    for deb; do
        dpkg-deb -x "$deb" "$folder"
        # shellcheck disable=SC2016 # dpkg-deb fills these in
        printf '%s %s\n' "$(sha256sum <"$deb" | cut -c-64)" "$(dpkg-deb -W --showformat='${Package} ${Version}' "$deb")"
    done
}

# take ROOT PREFIX ENVIRONMENT PROGRAM...: moves programs from an unpacked ROOT into PREFIX, each with exactly the
# libraries that it loads, and a wrapper in PREFIX/bin that sets ENVIRONMENT (shell text, may use $prefix).
take() {
    local root=$1 prefix=$2 environment=$3 libraries name file
    shift 3
    mkdir -p "$prefix"/{bin,lib,libexec}
    libraries=$(dirname "$(find "$root/usr/lib" -name libc.so.6)")
    cp -L "$(find "$root"/usr/lib* -name 'ld-linux*.so*' | head -n1)" "$prefix/lib/ld.so"
    for name; do
        file=$(find "$root"/usr/{bin,sbin,lib/openvswitch-switch,lib/frr} -name "$name" 2>/dev/null | head -n1) || true
        [ -n "$file" ] || die "Debian's packages have no $name" "This script needs to learn where it went."
        if [ "$(head -c4 "$file" | tail -c3)" != ELF ]; then
            cp -L "$file" "$prefix/bin/$name"
            continue
        fi
        # FRR keeps its own libraries in a folder of their own.
        "$prefix/lib/ld.so" --library-path "$libraries:$libraries/frr" --list "$file" |
            awk -v folder="$libraries/" 'index($3, folder) == 1 {print $3}' | xargs cp -Lt "$prefix/lib"
        cp -L "$file" "$prefix/libexec/$name"
        wrapper "$name" "$environment" >"$prefix/bin/$name"
        chmod +x "$prefix/bin/$name"
    done
}

# The loader is called by name, so no LD_LIBRARY_PATH reaches the program's children, and the prefix may be moved.
wrapper() {
    cat <<WRAPPER
#!/bin/sh
self=\$0
[ ! -L "\$self" ] || self=\$(readlink -f "\$self")
prefix=\${self%/*}/..
$2
exec "\$prefix/lib/ld.so" --argv0 $1 --library-path "\$prefix/lib" "\$prefix/libexec/$1" "\$@"
WRAPPER
}
