#!/bin/sh
# How fast: one table of ratios, measured in one run. bench/run.sh [--peer PATH] [--big] [--small]
#
#   --peer PATH   the older program, measured beside this one
#   --big         10,000,000 events too, and the peer at 1,000,000
#   --small       100 and 1,000 events, each verb once: whether the bench itself works
#
# Needs python3, about 1 GB below $TMPDIR (12 GB with --big), and under four minutes without --big.
set -eu
cd "$(dirname "$0")/.."
cargo build --release --locked --quiet
exec python3 bench/bench.py "${CARGO_TARGET_DIR:-target}/release/self" "$@"
