#!/bin/sh
# Builds the release as one static file and prints its sha256 and size: for musl where the toolchain has that target, else for glibc.
set -eu
cd "$(dirname "$0")/.."
machine=$(uname -m)
target=$machine-unknown-linux-musl
if ! ls "$(rustc --print sysroot)/lib/rustlib/$target/lib" >/dev/null 2>&1; then
    echo "the toolchain has no $target; building for glibc, static" >&2
    target=$machine-unknown-linux-gnu
fi
RUSTFLAGS="-C target-feature=+crt-static -C relocation-model=static" cargo build --locked --release --quiet --target "$target"
cd "${CARGO_TARGET_DIR:-target}/$target/release"
sha256sum self
echo "$(wc -c < self) bytes, $target"
