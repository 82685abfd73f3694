# shellcheck shell=bash
# The Rust toolchain that rust-toolchain.toml pins, and a C compiler: rustc links with it, and the TLS library has C parts.

setup_rust() {
    part=rust
    local pinned version
    need cc gcc libc6-dev
    pinned=$(sed -n 's/^channel = "\(.*\)"/\1/p' "$here/../rust-toolchain.toml")
    command -v cargo >/dev/null || install_rustup "$pinned"
    # With rustup this installs the pinned toolchain, if it is missing, and prints its version.
    version=$(cd "$here/.." && version_of rustc --version) || true
    at_least "${version:-0}" "$pinned" || die "this needs Rust $pinned, and cargo here has ${version:-none}" \
        "With rustup: rustup toolchain install $pinned" "Without it: get it from https://rustup.rs"
}

# Debian has a rustup package since version 13; before that only Rust's own installer remains, and that is the user's
# to run.
install_rustup() {
    if command -v apt-cache >/dev/null && apt-cache show rustup >/dev/null 2>&1; then
        need rustup rustup
        say "installing Rust $1 with rustup"
        rustup toolchain install --profile minimal -c rustfmt -c clippy "$1" >&2 && return
    fi
    die "there is no Rust on this machine" "Get rustup from https://rustup.rs, then run this again." \
        "If it is installed already: is ~/.cargo/bin on the PATH?"
}
