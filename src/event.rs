//! Events and drafts: what stands in the log, and what somebody asks for.
//!
//! A [`Draft`] has no door, no number and no id, so nothing from outside can forge them; an [`Event`] comes only from a line of
//! the log or from `Kernel::commit`. Never touches the world: ids and moments come in as values.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::payload::{self, Payload};

/// The longest event name, in bytes.
pub const NAME_BYTES_MAX: usize = 128;

/// An event name of the grammar: dot-separated segments of `[A-Za-z0-9_-]+`, at least two, at most [`NAME_BYTES_MAX`] bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventName(String);

impl EventName {
    /// Takes a name if it is of the grammar.
    #[must_use]
    pub fn new(name: &str) -> Option<EventName> {
        let mut segments = 0;
        let all = name.split('.').all(|segment| {
            segments += 1;
            !segment.is_empty() && segment.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
        });
        (all && segments >= 2 && name.len() <= NAME_BYTES_MAX).then(|| EventName(name.to_owned()))
    }

    /// The name's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What somebody asks the log to keep: a name and a payload, not yet stamped.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// What happened.
    pub name: EventName,
    /// Its particulars.
    pub payload: Payload,
}

/// The channel that the kernel witnessed an event come through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Door<'a> {
    /// A verb of the command line.
    Cli,
    /// The filter: a mind's answer or a question on stdin.
    Pipe,
    /// The kernel itself.
    Kernel,
    /// The local server; the client's address.
    Http(Cow<'a, str>),
    /// An account; its name.
    Learn(Cow<'a, str>),
    /// A text that this kernel does not write, from another program's log.
    Other(Cow<'a, str>),
}

impl<'a> Door<'a> {
    /// Reads the text of `via`.
    #[must_use]
    pub fn read(text: Cow<'a, str>) -> Door<'a> {
        match text.as_ref() {
            "cli" => return Door::Cli,
            "pipe" => return Door::Pipe,
            "kernel" => return Door::Kernel,
            _ => {}
        }
        let rest = |text: Cow<'a, str>, prefix: usize| match text {
            Cow::Borrowed(text) => Cow::Borrowed(&text[prefix..]),
            Cow::Owned(text) => Cow::Owned(text[prefix..].to_owned()),
        };
        if text.starts_with("http:") {
            Door::Http(rest(text, 5))
        } else if text.starts_with("learn:") {
            Door::Learn(rest(text, 6))
        } else {
            Door::Other(text)
        }
    }

    /// The text of `via`.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Door::Cli => Cow::Borrowed("cli"),
            Door::Pipe => Cow::Borrowed("pipe"),
            Door::Kernel => Cow::Borrowed("kernel"),
            Door::Http(client) => Cow::Owned(format!("http:{client}")),
            Door::Learn(account) => Cow::Owned(format!("learn:{account}")),
            Door::Other(text) => Cow::Borrowed(text),
        }
    }

    /// The same door, owning its text.
    #[must_use]
    pub fn into_owned(self) -> Door<'static> {
        match self {
            Door::Cli => Door::Cli,
            Door::Pipe => Door::Pipe,
            Door::Kernel => Door::Kernel,
            Door::Http(client) => Door::Http(Cow::Owned(client.into_owned())),
            Door::Learn(account) => Door::Learn(Cow::Owned(account.into_owned())),
            Door::Other(text) => Door::Other(Cow::Owned(text.into_owned())),
        }
    }
}

/// Who the caller says it is: a claim, kept verbatim and never believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Speaker(String);

impl Speaker {
    /// Takes a claim; a blank one is none.
    #[must_use]
    pub fn claimed(claim: Option<String>) -> Option<Speaker> {
        claim.filter(|claim| !claim.trim().is_empty()).map(Speaker)
    }

    /// The claim's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A record of the log, stamped.
#[derive(Debug, Clone)]
pub struct Event<'a> {
    /// Its number: 1, 2, 3 … in file order. A record without one counts as the highest before it and 1.
    pub seq: u64,
    /// Its id; empty where the record has none.
    pub id: Cow<'a, str>,
    /// What happened; of the grammar, but for logs that another program wrote.
    pub name: Cow<'a, str>,
    /// When, as text; RFC 3339 for our own, empty where the record has none.
    pub occurred_at: Cow<'a, str>,
    /// Through which door it came; `None` where the record does not say.
    pub via: Option<Door<'a>>,
    /// Who the caller said it was.
    pub by: Option<Cow<'a, str>>,
    /// Its particulars, as they stand in the line.
    pub payload: Cow<'a, RawValue>,
}

impl Event<'_> {
    /// Reads the payload as a typed value, if it has that shape.
    #[must_use]
    pub fn parse<T: DeserializeOwned>(&self) -> Option<T> {
        payload::parse(&self.payload)
    }

    /// The same event, owning its text.
    #[must_use]
    pub fn into_owned(self) -> Event<'static> {
        Event {
            seq: self.seq,
            id: Cow::Owned(self.id.into_owned()),
            name: Cow::Owned(self.name.into_owned()),
            occurred_at: Cow::Owned(self.occurred_at.into_owned()),
            via: self.via.map(Door::into_owned),
            by: self.by.map(|by| Cow::Owned(by.into_owned())),
            payload: Cow::Owned(self.payload.into_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_two_segments_of_plain_letters() {
        for good in ["note.added", "a.b", "A-1._x.y", &format!("a.{}", "b".repeat(126))] {
            assert_eq!(EventName::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "note", ".", "a.", ".b", "a..b", "a b.c", "é.x", "a/b.c", " a.b", &format!("a.{}", "b".repeat(127))] {
            assert_eq!(EventName::new(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_door_reads_back_as_it_was_written() {
        for text in ["cli", "pipe", "kernel", "http:127.0.0.1", "http:[::1]", "learn:tides", "learn:", "telnet", ""] {
            assert_eq!(Door::read(Cow::Borrowed(text)).text(), text);
            assert_eq!(Door::read(Cow::Owned(text.to_owned())).into_owned().text(), text);
        }
        assert_eq!(Door::read("Kernel".into()), Door::Other("Kernel".into()));
    }

    #[test]
    fn a_blank_speaker_is_none() {
        assert_eq!(Speaker::claimed(None), None);
        assert_eq!(Speaker::claimed(Some(" \t".into())), None);
        assert_eq!(Speaker::claimed(Some(" ada".into())).unwrap().as_str(), " ada");
    }
}
