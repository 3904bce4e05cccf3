//! The promises of `self`, held against the real executable and against a kernel over a fixed world.

mod git_history;
mod prompts;
