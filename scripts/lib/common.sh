# shellcheck shell=bash
# What every part of the set-up shares: where things lie, how it speaks, locks, versions, links.

cache=${XDG_CACHE_HOME:-$HOME/.cache}/causeway
programs=${CAUSEWAY_PROGRAMS:-$cache/bin}
schemas=$(dirname -- "$programs")/share
machine=$(uname -m)

# Our own links must never be taken for the machine's own programs.
PATH=:$PATH:
# One by one: two that stand side by side share a colon.
while [[ $PATH == *":$programs:"* ]]; do PATH=${PATH/":$programs:"/:}; done
PATH=${PATH#:} PATH=${PATH%:}

say() { printf '%s: %s\n' "$part" "$*" >&2; }

die() {
    printf '%s: error: %s\n' "$part" "$1" >&2
    shift
    [ $# -eq 0 ] || printf '    %s\n' "$@" >&2
    exit 1
}

# at_least VERSION MINIMUM: compares as versions, not as text.
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n1)" = "$2" ]; }

# version_of COMMAND...: the first thing in its output that looks like a version.
version_of() { "$@" 2>/dev/null | grep -oE '[0-9]+\.[0-9]+(\.[0-9]+)?' | head -n1; }

# alone NAME COMMAND...: one process at a time does NAME, whoever starts it; the others wait and find it done. The
# lock belongs to an open file, so a killed process never leaves it behind.
alone() {
    local name=$1
    shift
    mkdir -p "$cache"
    (
        flock --nonblock 9 || {
            say "another set-up is doing this already, waiting for it"
            flock 9
        }
        "$@"
    ) 9>"$cache/.lock-$name"
}

# scratch NAME: a fresh folder next to the final place, so that the last step is a rename. What an interrupted run left
# is removed: the caller holds the lock.
scratch() {
    rm -rf "$cache/.tmp-$1"
    mkdir -p "$cache/.tmp-$1"
    printf %s "$cache/.tmp-$1"
}

# publish FRESH FINAL: FRESH becomes FINAL in one step, with the checksum and size of each file noted. So FINAL is
# either whole or not there.
publish() {
    (cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum) >"$1.sums"
    sizes "$1" >"$1.sizes"
    mv "$1.sums" "$1/SHA256SUMS"
    mv "$1.sizes" "$1/SIZES"
    rm -rf "$2"
    mv -T "$1" "$2"
}

# whole FOLDER: is it there, with every file at its size? Asked in each run, so it must cost nothing.
whole() { [ -s "$1/SIZES" ] && [ "$(sizes "$1")" = "$(cat "$1/SIZES")" ]; }

sizes() { find "$1" -type f ! -name SIZES ! -name SHA256SUMS -printf '%s %P\n' | sort; }

# verify: does every file of the cache still have its checksum?
verify() {
    local sums folder failed=0
    for sums in "$cache"/*/SHA256SUMS; do
        folder=${sums%/*}
        if [ -e "$sums" ] && ! (cd "$folder" && sha256sum --quiet --strict -c SHA256SUMS >&2); then
            say "$folder is damaged: remove it and run scripts/setup again"
            failed=1
        fi
    done
    return $failed
}

# link FOLDER TARGET...: links the files into FOLDER, each replaced in one step.
link() {
    local folder=$1 target name
    shift
    mkdir -p "$folder"
    for target; do
        name=${target##*/}
        [ "$(readlink "$folder/$name" || true)" != "$target" ] || continue
        ln -sfn "$target" "$folder/.$name.$$"
        mv -fT "$folder/.$name.$$" "$folder/$name"
    done
}

# given PROGRAM...: with CAUSEWAY_PROGRAMS the user brings every program; we only look whether they are there.
given() {
    [ -n "${CAUSEWAY_PROGRAMS:-}" ] || return 1
    local name missing=()
    for name; do [ -x "$programs/$name" ] || missing+=("$name"); done
    [ ${#missing[@]} -eq 0 ] || die "CAUSEWAY_PROGRAMS=$CAUSEWAY_PROGRAMS lacks: ${missing[*]}" \
        "Put them there, or unset CAUSEWAY_PROGRAMS and let this script bring them."
}

# patiently COMMAND...: runs it, and says every minute that it is still at work.
patiently() {
    local ticker status=0
    tick &
    ticker=$!
    "$@" || status=$?
    kill "$ticker" 2>/dev/null || true
    return "$status"
}

# watched COMMAND...: runs a build on a terminal that names each package it has done, on lines of its own. They become one
# line that counts; whatever else it says stays.
watched() {
    local status=0
    "$@" 2>&1 | awk -v part="$part" '
        /^[a-zA-Z0-9_.\/~-]+$/ { printf "\r\033[K%s: %d packages built, now %s", part, ++count, substr($0, 1, 60); fflush(); next }
        { printf "%s%s\n", count ? "\r\033[K" : "", $0; fflush() }
        END { if (count) printf "\r\033[K%s: %d packages built\n", part, count }' >&2 || status=$?
    return "$status"
}

# The ticker ends with its set-up, however that ends, and its sleep holds no file open that somebody may wait for.
tick() {
    local start=$SECONDS
    trap exit TERM
    while sleep 60 9>&- >/dev/null 2>&1 & wait $! && kill -0 $$ 2>/dev/null; do
        say "still at work, $(((SECONDS - start) / 60)) min"
    done
}
