//! Meanings: what an event of the log is to the kernel, and what its door, its speaker and its id say, in words.
//!
//! Pure. What the kernel witnessed is told from what somebody claimed. The invariant: each meaning is one line, and no control
//! character of the log is live in it.

use crate::event::{Door, Event};
use crate::quotation::{ORIGIN_CHARS_MAX, on_one_line, start};
use crate::record::Frame;
use crate::vocabulary::{CHAT_MESSAGE, LINEAGE, Word, speaks_through};

/// A claim, cut; a dash for none.
#[must_use]
pub fn claim(text: Option<&str>) -> String {
    text.filter(|text| !text.is_empty()).map_or_else(|| "-".to_owned(), |text| start(text, ORIGIN_CHARS_MAX))
}

/// What the kernel witnessed of where an event came from.
#[must_use]
pub fn door_in_words(via: Option<&Door<'_>>) -> String {
    match via {
        None => "not recorded: an older program did not always say".to_owned(),
        Some(Door::Cli) => "cli: a verb of the command line".to_owned(),
        Some(Door::Pipe) => "pipe: a question or an answer on stdin".to_owned(),
        Some(Door::Kernel) => "kernel: the kernel itself".to_owned(),
        Some(door @ Door::Http(_)) => format!("{}: the local server, for a client at this address", shown(door)),
        Some(door @ Door::Learn(_)) => {
            format!("{}: an account that was learned; its moment and speaker are of the home it comes from", shown(door))
        }
        Some(door @ Door::Other(_)) => format!("{}: no door of this kernel; another program wrote it", shown(door)),
    }
}

fn shown(door: &Door<'_>) -> String {
    claim(Some(&door.text()))
}

/// Who the caller said it was, and what that is worth.
#[must_use]
pub fn speaker_in_words(event: &Event<'_>) -> String {
    match event.by.as_deref() {
        Some(by) => format!("{}: a claim, kept verbatim and never believed", on_one_line(by)),
        None if event.via == Some(Door::Kernel) => "none: the kernel speaks for itself".to_owned(),
        None => "none: the caller did not say".to_owned(),
    }
}

/// What an event's id says of its batch.
#[must_use]
pub fn id_in_words(id: &str) -> String {
    match Frame::read(id) {
        Some(frame) => format!("{id}: {} of {} in its batch, which landed whole", frame.k, frame.n),
        None if id.is_empty() => "none".to_owned(),
        None => on_one_line(id),
    }
}

/// What kind of event it is for the kernel.
#[must_use]
pub fn meaning(event: &Event<'_>) -> String {
    let via = event.via.as_ref();
    let Some(word) = Word::of(&event.name) else {
        return if event.name.starts_with(LINEAGE) {
            "lineage: an event of the kernel's vocabulary in another home; it travelled as text and does nothing here".to_owned()
        } else if event.name == CHAT_MESSAGE && speaks_through(via) {
            "a turn of a conversation; a user's waits for an answer".to_owned()
        } else {
            "an event of this home; the kernel keeps it and does not act on it".to_owned()
        };
    };
    let words = in_words(word);
    if word.counts_through(via) {
        words.to_owned()
    } else {
        format!("{words}; but not through a door where that counts: it does nothing")
    }
}

fn in_words(word: Word) -> &'static str {
    match word {
        Word::KernelInitialized => "this home was made",
        Word::LogRecovered => "a torn tail was set aside in .self/torn/, and cut",
        Word::LogSealed => "a seal: a signed digest over all lines in front of it",
        Word::SelfAsked => "a question to a mind",
        Word::SelfReflected => "a mind was asked to reflect, since nothing waited",
        Word::SelfReplied => "a mind's answer",
        Word::CommandDeclared => "a command was declared",
        Word::ProjectorDeclared => "a projector was declared",
        Word::CapabilityRetired => "a capability was taken off the surface",
        Word::ScriptAuthored => "a script on the wire; never in a log of this kernel",
        Word::ScriptCompiled => "a receipt: the record of a script's installation",
        Word::ScriptRejected => "a script that the kernel would not install",
        Word::EventRefused => "something that the kernel would not take",
        Word::CapabilityDied => "a command's run failed; nothing of it was appended",
        Word::IntentDeclared => "the telling of an account that was learned",
        Word::AccountGiven => "an account was written for another home",
        Word::LessonLearned => "an account was taken in, whole",
        Word::LearnOrchestrated | Word::CapabilityRevisionRequested | Word::KernelUpgraded => {
            "a reserved name; the kernel does not act on it"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Line;

    fn event(line: &str) -> Event<'_> {
        match Line::read(line.as_bytes()) {
            Line::Record(record) => record.at(7),
            Line::Blank | Line::Damaged => panic!("{line}"),
        }
    }

    #[test]
    fn a_word_through_another_door_does_nothing() {
        let check = |name: &str, via: &str, expect: &str| {
            let line = format!(r#"{{"name":"{name}","via":"{via}"}}"#);
            assert_eq!(meaning(&event(&line)), expect, "{name} through {via}");
        };
        check("Self.Asked", "pipe", "a question to a mind");
        check("self.asked", "learn:x", "a question to a mind; but not through a door where that counts: it does nothing");
        check("chat.message", "pipe", "a turn of a conversation; a user's waits for an answer");
        check("chat.message", "learn:x", "an event of this home; the kernel keeps it and does not act on it");
        check("note.taken", "pipe", "an event of this home; the kernel keeps it and does not act on it");
        let lineage = "lineage: an event of the kernel's vocabulary in another home; it travelled as text and does nothing here";
        check("lineage.script.compiled", "learn:x", lineage);
    }
}
