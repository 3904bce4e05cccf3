//! The task: what a mind that is asked nothing in particular should do next.
//!
//! A pure choice from the state. The invariant: what is chosen goes away when it is done or has failed often enough, so the
//! loop `self | mind | self` comes to rest.

use crate::capability::Capability;
use crate::standing::Standing;
use crate::state::State;

/// What to do next; the first that applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Write the scripts of pending declarations.
    Author,
    /// Declare and write anew what was rejected without a declaration, or dismiss it.
    Mend,
    /// Answer a chat message.
    Answer,
    /// Look back.
    Reflect,
}

impl Task {
    /// Chooses the task.
    #[must_use]
    pub fn of(state: &State) -> Task {
        if state.pending().iter().any(|(_, standing)| !standing.is_stalled()) {
            Task::Author
        } else if to_mend(state).next().is_some() {
            Task::Mend
        } else if state.waiting().is_some() {
            Task::Answer
        } else {
            Task::Reflect
        }
    }
}

/// The capabilities with an open rejection that are not pending, but for those that failed too often.
pub fn to_mend(state: &State) -> impl Iterator<Item = (&Capability, &Standing)> {
    state
        .capabilities()
        .filter(|(_, standing)| !standing.is_pending() && !standing.is_stalled() && !standing.rejections().is_empty())
}
