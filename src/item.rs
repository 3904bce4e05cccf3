//! Items: what a body from a mind is made of, in order.
//!
//! Values only, without a way to make them from text; that is the wire's. A draft here has no door, no number and no id: what a
//! body claims of those is kept apart, in [`Quotes`], and only to recognise a quotation of the log.

use std::fmt;

use crate::event::Draft;

/// A part of a body.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// Prose as it came: whole lines with their newlines; the last one may lack it.
    Prose(String),
    /// An event that the mind asks for.
    Draft(Sent),
    /// A script that the mind wrote.
    Script(Authored),
    /// What begins like an event or a script and is neither.
    NearMiss(NearMiss),
}

/// A draft, and what makes it a quotation if the log has that record.
#[derive(Debug, Clone, PartialEq)]
pub struct Sent {
    /// What to append.
    pub draft: Draft,
    /// The record that the object claims to be, if it bore both a `seq` and an `id`.
    pub quotes: Option<Quotes>,
}

/// The record of the log that an object claims to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quotes {
    /// Its number.
    pub seq: u64,
    /// Its id.
    pub id: String,
    /// The text as it stood, which is prose if the log has that record.
    pub text: String,
}

/// A script as it was written; nothing of it is checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authored {
    /// The kind's word, blanks around it removed; may be blank.
    pub kind: String,
    /// The capability's name, blanks around it removed; may be blank.
    pub name: String,
    /// The script, verbatim.
    pub script: String,
}

/// What begins like an event or a script and is neither.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NearMiss {
    /// What it begins like.
    pub of: Like,
    /// What to mend, as one sentence.
    pub reason: String,
    /// The text as it stood, in whole lines: it is prose in the reply too.
    pub text: String,
}

/// What a near miss begins like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Like {
    /// An event; the name is empty where it cannot be read.
    Event {
        /// The event's name, as it stands.
        name: String,
    },
    /// A script; what cannot be read is empty.
    Script {
        /// The kind's word.
        kind: String,
        /// The capability's name.
        name: String,
    },
}

/// Something that the reader mended or left out, in words for stderr.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// Bytes that are no UTF-8 became U+FFFD at this many places.
    Utf8(usize),
    /// This many lone surrogates in events and scripts became U+FFFD.
    Surrogates(usize),
    /// Keys that are not the record's were dropped from events.
    Dropped {
        /// The first few of them.
        keys: Vec<String>,
        /// Whether there were others.
        more: bool,
    },
    /// A block of reasoning that nothing closes took in the rest of the body.
    Swallowed {
        /// The line it opens on, counted from 1.
        line: usize,
        /// How much of the body is gone.
        bytes: usize,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = |count: usize| if count == 1 { "1 place".to_owned() } else { format!("{count} places") };
        match self {
            Note::Utf8(count) => write!(out, "the input is no UTF-8 in {}; mended with U+FFFD", places(*count)),
            Note::Surrogates(count) => write!(out, "lone surrogates in {}; mended with U+FFFD", places(*count)),
            Note::Dropped { keys, more } => {
                out.write_str("dropped from events:")?;
                for (at, key) in keys.iter().enumerate() {
                    write!(out, "{} `{}`", if at == 0 { "" } else { "," }, shown(key))?;
                }
                out.write_str(if *more { " and more" } else { "" })
            }
            Note::Swallowed { line, bytes } => {
                write!(out, "a <think> on line {line} is never closed; the {bytes} bytes from there count for nothing")
            }
        }
    }
}

/// The most characters of a name or key that a message repeats.
pub const SHOWN_CHARACTERS_MAX: usize = 48;

/// The start of a text that somebody else chose, fit for a message: short, on one line, without control characters.
#[must_use]
pub fn shown(text: &str) -> String {
    let mut short: String = text.chars().take(SHOWN_CHARACTERS_MAX).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short.escape_debug().collect::<String>().replace("\\\"", "\"").replace("\\'", "'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(note: &Note, expect: &str) {
        assert_eq!(note.to_string(), expect);
    }

    #[test]
    fn a_note_says_what_was_mended_or_left_out() {
        check(&Note::Utf8(1), "the input is no UTF-8 in 1 place; mended with U+FFFD");
        check(&Note::Surrogates(2), "lone surrogates in 2 places; mended with U+FFFD");
        check(
            &Note::Dropped { keys: vec!["type".into(), "a\n\x1b[m".into()], more: true },
            "dropped from events: `type`, `a\\n\\u{1b}[m` and more",
        );
        check(
            &Note::Swallowed { line: 3, bytes: 40 },
            "a <think> on line 3 is never closed; the 40 bytes from there count for nothing",
        );
    }

    #[test]
    fn what_a_message_repeats_is_short() {
        assert_eq!(shown("say \"it's\""), "say \"it's\"");
        assert_eq!(shown(&"é".repeat(60)), format!("{}…", "é".repeat(48)));
    }
}
