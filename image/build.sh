#!/usr/bin/env bash
# Builds the static binary that the image holds, and checks it: the Dockerfile runs this, and so
# does `make image-binary`.
#
#   image/build.sh [DIR]    puts DIR/berth there; target/image by default
#
# The C library is musl, so that names are resolved without files of a distribution. That needs the
# musl target of Rust and musl-gcc (Debian: musl-tools). Where either can't be had, a static glibc
# is taken instead, which says so, unless BERTH_MUSL=required.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly limit=$((25 * 1024 * 1024))
out=${1:-target/image}
machine=$(uname -m)
musl=$machine-unknown-linux-musl

has_target() {
    local sysroot
    sysroot=$(rustc --print sysroot)
    [ -d "$sysroot/lib/rustlib/$1/lib" ] ||
        { command -v rustup >/dev/null && rustup target add "$1" >/dev/null 2>&1; }
}

if command -v musl-gcc >/dev/null && has_target "$musl"; then
    target=$musl
elif [ "${BERTH_MUSL:-}" = required ]; then
    echo "image/build.sh: needs musl-gcc (Debian: musl-tools) and 'rustup target add $musl'" >&2
    exit 1
else
    target=$machine-unknown-linux-gnu
    export RUSTFLAGS="${RUSTFLAGS:-} -C target-feature=+crt-static"
    echo "image/build.sh: no musl here: checking a static glibc build instead" >&2
fi

"${CARGO:-cargo}" build --release --locked --package berth --bin berth --target "$target"
mkdir -p "$out"
cp "${CARGO_TARGET_DIR:-target}/$target/release/berth" "$out/berth"
strip "$out/berth"

# In an empty root nothing could be loaded beside it, so it must need nothing.
needs=$(readelf --wide --program-headers --dynamic "$out/berth" | grep -E 'INTERP|\(NEEDED\)' || true)
if [ -n "$needs" ]; then
    echo "image/build.sh: $out/berth is not static" >&2
    exit 1
fi
size=$(stat --format=%s "$out/berth")
if [ "$size" -gt "$limit" ]; then
    echo "image/build.sh: $out/berth has $size bytes; the limit is $limit" >&2
    exit 1
fi
# It runs with nothing around it.
env --ignore-environment "$out/berth" --version
env --ignore-environment "$out/berth" config check manifests/second/config.yaml
echo "$out/berth: $target, $size bytes, static"
