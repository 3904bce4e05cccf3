//! The kernel of `self`: a filter with a memory.
//!
//! A mind proposes, the kernel judges and records, everything else replays. ARCHITECTURE.md has the map.

pub mod append;
pub mod capability;
pub mod event;
mod job;
pub mod lock;
pub mod log;
mod marker;
pub mod moment;
pub mod payload;
mod proc;
pub mod receipt;
pub mod record;
pub mod state;
pub mod tail;
pub mod turn;
pub mod vocabulary;
mod walk;
