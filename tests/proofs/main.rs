//! The long proofs: loops, shells and power cuts. `cargo test --features proofs --test proofs`; only `.ci/run` builds them.

mod pipes;
