# shellcheck shell=bash
# The Rust toolchain that rust-toolchain.toml pins, and a C compiler: rustc links with it, and the TLS library has C parts.

setup_rust() {
    part=rust
    local pinned version
    pinned=$(sed -n 's/^channel = "\(.*\)"/\1/p' "$here/../rust-toolchain.toml")
    need cc gcc libc6-dev
    command -v cargo >/dev/null || install_rustup
    if command -v rustup >/dev/null; then
        rustup run "$pinned" rustc --version >/dev/null 2>&1 || install_toolchain "$pinned"
        return
    fi
    version=$(version_of rustc --version) || true
    at_least "${version:-0}" "$pinned" || die "this needs Rust $pinned, and this machine has ${version:-none}" \
        "Get rustup from https://rustup.rs: it brings the right one."
}

install_toolchain() {
    say "installing Rust $1 with rustup"
    rustup toolchain install --profile minimal --component rustfmt,clippy -- "$1" >&2 ||
        die "rustup could not install Rust $1, see above" "Run this again when its server is reachable."
}

# Debian has a rustup package since version 13. Before that only Rust's own installer remains, and that one is the
# user's to run.
install_rustup() {
    if command -v apt-cache >/dev/null && apt-cache policy rustup | grep -q 'Candidate: [0-9]'; then
        need rustup rustup
        return
    fi
    die "there is no Rust on this machine" "Get rustup from https://rustup.rs, then run this again." \
        "If it is installed already: is ~/.cargo/bin on the PATH?"
}
