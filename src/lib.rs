//! The kernel of `self`: a filter with a memory.
//!
//! A mind proposes, the kernel judges and records, everything else replays. ARCHITECTURE.md has the map.

mod ansi;
pub mod append;
pub mod brief;
pub mod capability;
pub mod cli;
pub mod contract;
mod element;
pub mod event;
mod extent;
pub mod face;
mod fence;
pub mod hear;
pub mod home;
pub mod interpreter;
mod item;
mod job;
pub mod kernel;
pub mod launch;
pub mod lock;
pub mod log;
mod marker;
pub mod markup;
pub mod moment;
pub mod page;
pub mod payload;
mod piece;
mod proc;
pub mod prompt;
pub mod quotation;
mod reasoning;
pub mod receipt;
pub mod record;
pub mod script;
mod slip;
pub mod standing;
pub mod state;
pub mod tail;
pub mod task;
pub mod trial;
pub mod turn;
pub mod vocabulary;
mod walk;
pub mod wire;
