//! The long proofs: loops, shells and power cuts. `cargo test --features proofs --test proofs`; only `.ci/run` builds them.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a proof says what went wrong by failing, and prints what it saw")]

mod accounts;
mod confined;
#[path = "../it/crashes.rs"]
mod crashes;
mod disk;
mod flips;
mod heal;
mod kills;
mod pipes;
mod power;
mod races;
mod speed;

/// Says that a proof could not be given here; where all have to be, that is a failure.
fn skipped(proof: &str, why: &str) {
    println!("SKIPPED {proof}: {why}");
    assert!(std::env::var_os("PROOFS_ALL").is_none(), "{proof} was skipped, but PROOFS_ALL is set: {why}");
}
