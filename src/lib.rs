//! The kernel of `self`: a filter with a memory.
//!
//! A mind proposes, the kernel judges and records, everything else replays. ARCHITECTURE.md has the map.

pub mod append;
pub mod capability;
pub mod event;
pub mod lock;
pub mod log;
pub mod moment;
pub mod payload;
pub mod receipt;
pub mod record;
pub mod state;
pub mod tail;
pub mod vocabulary;
