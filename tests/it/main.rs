//! The promises of `self`, held against the real executable and against a kernel over a fixed world: one test each.
#![allow(clippy::unwrap_used, reason = "a test says what went wrong by failing")]

mod accounts;
mod attacks;
mod confinement;
mod crashes;
mod faces;
mod git_history;
mod heads;
mod home;
mod keys;
mod lesson_chat;
mod lesson_files;
mod lesson_memory;
mod lesson_work;
mod lessons;
mod log_follow;
mod log_on_disk;
mod log_verb;
mod mind_sends;
mod mind_stub;
mod older_home;
mod pages;
mod pipes;
mod prompts;
mod readme;
mod receipts;
mod script_runner;
mod scripts;
mod seals;
mod shell_completion;
mod shell_machine;
mod terminal;
mod tidy;
mod torn_tail;
mod verify;
mod writers;
