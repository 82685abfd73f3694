# shellcheck shell=bash
# Rust, and a C compiler: rustc links with it, and the TLS library has C parts. With rustup the toolchain is the one that
# rust-toolchain.toml pins. Without any Rust it is Debian's, unpacked: newer than the pin, so clippy may know more.

rust_prefix=$cache/rust-debian-$machine-1
rust_programs=(cargo cargo-clippy cargo-fmt clippy-driver rustc rustdoc rustfmt)

setup_rust() {
    part=rust
    local pinned version
    pinned=$(sed -n 's/^channel = "\(.*\)"/\1/p' "$here/../rust-toolchain.toml")
    need cc gcc libc6-dev
    if command -v rustup >/dev/null; then
        rustup run "$pinned" rustc --version >/dev/null 2>&1 || install_toolchain "$pinned"
    elif command -v cargo >/dev/null; then
        version=$(version_of rustc --version)
        at_least "${version:-0}" "$pinned" || die "this needs Rust $pinned, and cargo here has ${version:-none}" \
            "Get rustup from https://rustup.rs: it brings the right one."
    else
        whole "$rust_prefix" || alone rust install_rust "$pinned"
        link "$programs" "${rust_programs[@]/#/$rust_prefix/bin/}"
    fi
}

install_toolchain() {
    say "installing Rust $1 with rustup"
    rustup toolchain install --profile minimal --component rustfmt,clippy -- "$1" >&2 ||
        die "rustup could not install Rust $1, see above" "Run this again when its server is reachable."
}

install_rust() {
    ! whole "$rust_prefix" || return 0 # somebody else did it while we waited
    local work version
    work=$(scratch rust)
    say "no Rust on this machine: fetching Debian's (if there is one: is ~/.cargo/bin on the PATH?)"
    instead="Get rustup from https://rustup.rs, then run this again."
    open_suite "$work" trixie,trixie-backports binutils gcc libc-dev
    fetch_packages "$work" cargo rustc rustfmt rust-clippy
    # shellcheck disable=SC2016 # the wrapper fills in $prefix
    take "$work/root" "$work/fresh" 'export CARGO="$prefix/bin/cargo"' "${rust_programs[@]}"
    mv "$work/root/usr/lib/rustlib" "$work/fresh/lib/"
    # cargo-clippy and cargo-fmt look for these beside themselves, and take the loader for themselves.
    ln -s ../bin/clippy-driver ../bin/rustfmt "$work/fresh/lib/"
    mv "$work/packages" "$work/fresh/"
    version=$(version_of "$work/fresh/bin/rustc" --version)
    at_least "${version:-0}" "$1" || die "Debian has Rust ${version:-none}, and $1 is needed" "$instead"
    publish "$work/fresh" "$rust_prefix"
    rm -rf "$work"
    say "Rust $version is ready in $rust_prefix"
}
