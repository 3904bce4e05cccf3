#!/bin/sh
# Fuzzes each target for so many seconds (60 unless told), on stable Rust. Exits non-zero on a crash; the input that crashed
# lies in fuzz/artifacts.
set -eu
cd "$(dirname "$0")"
seconds=${1:-60}
target=${CARGO_TARGET_DIR:-target}/fuzz
host=$(rustc -vV | sed -n 's/^host: //p')
export RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions -Ccodegen-units=1"
# An explicit target keeps the flags away from build scripts.
cargo build --quiet --release --target "$host" --target-dir "$target"
for name in wire record receipt account; do
    mkdir -p "corpus/$name" "artifacts/$name"
    "$target/$host/release/$name" -max_total_time="$seconds" -timeout=10 -max_len=4096 -dict="$name.dict" \
        -artifact_prefix="artifacts/$name/" -verbosity=0 -print_final_stats=1 "corpus/$name" "seeds/$name"
done
