//! The kernel of `self`: a filter with a memory.
//!
//! A mind proposes, the kernel judges and records, everything else replays. ARCHITECTURE.md has the map.

pub mod capability;
pub mod event;
pub mod moment;
pub mod payload;
pub mod record;
pub mod vocabulary;
