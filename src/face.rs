//! The face: what the bare filter does with its input.
//!
//! A pure choice from what the body holds and whether this pipeline has an open prompt; never from time, and never from what
//! stdout is. The invariant: the same body in the same pipeline gives the same face.

use crate::wire::{Item, Reading};

/// What the filter does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Face {
    /// Record a question and print a prompt.
    Ask,
    /// Record what a mind sent, events and all.
    Hear,
    /// Record a mind's prose as the reply.
    Reply,
    /// Print a prompt about what waits.
    Work,
    /// Say that the mind said nothing.
    Silence,
}

impl Face {
    /// Chooses the face for a body.
    #[must_use]
    pub fn of(reading: &Reading, has_open_prompt: bool) -> Face {
        let misses = reading.items.iter().any(|item| matches!(item, Item::NearMiss(_)));
        match (reading.has_material(), reading.is_nothing(), has_open_prompt) {
            (true, _, _) => Face::Hear,
            (_, true, true) => Face::Silence,
            (_, true, false) => Face::Work,
            (_, _, true) if misses => Face::Hear,
            (_, _, true) => Face::Reply,
            (_, _, false) => Face::Ask,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::read;

    #[track_caller]
    fn check(body: &str, open: Face, closed: Face) {
        let reading = read(body.as_bytes());
        assert_eq!((Face::of(&reading, true), Face::of(&reading, false)), (open, closed), "{body:?}");
    }

    #[test]
    fn the_body_and_the_open_prompt_choose_the_face() {
        check("All quiet.\n", Face::Reply, Face::Ask);
        check("{\"name\":\"a.b\"}\n", Face::Hear, Face::Hear);
        check("Hm.\n```self command/x\n#!/bin/sh\n```\n", Face::Hear, Face::Hear);
        check("", Face::Silence, Face::Work);
        check(" \n\t\n", Face::Silence, Face::Work);
        check("<think>hm</think>\n", Face::Silence, Face::Work);
        check("{\"name\":\"a.b\",}\n", Face::Hear, Face::Ask);
        check("{\"name\":\"left-pad\",\"version\":\"1.0.0\"}\n", Face::Reply, Face::Ask);
    }
}
