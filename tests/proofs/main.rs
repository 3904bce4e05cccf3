//! The long proofs: loops, shells and power cuts. `cargo test --features proofs --test proofs`; only `.ci/run` builds them.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a proof says what went wrong by failing, and prints what it saw")]

mod accounts;
mod confined;
mod heal;
mod pipes;
mod speed;
