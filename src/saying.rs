//! Sayings: what the kernel's own events say, and the messages of a conversation, read out of their payloads.
//!
//! Pure. Each reader gives `None` for a payload that does not say it. The invariant: what is read is a function of the event alone.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::capability::{Capability, CapabilityName, Declaration, Kind};
use crate::event::Event;
use crate::receipt::sha256;
use crate::record::{Frame, string};
use crate::standing::{At, Death, Declared, Notice, Origin, Rejection};
use crate::vocabulary::Word;

/// How much of a turn is kept, in characters.
pub const TURN_CHARS_MAX: usize = 300;

/// Who speaks in a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A question through the pipe.
    Asked,
    /// A mind's answer.
    Replied,
    /// A chat message of the user.
    User,
    /// A chat message of the assistant.
    Assistant,
}

/// A turn of the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Where it stands.
    pub origin: Origin,
    /// Who speaks.
    pub role: Role,
    /// What was said: at most [`TURN_CHARS_MAX`] characters on one line, but whole for a message that waits.
    pub text: String,
}

/// The batch that an event is of: what its id shares with the others.
pub(crate) fn batch_of<'e>(event: &'e Event<'_>) -> &'e str {
    Frame::read(&event.id).map_or(&*event.id, |frame| frame.batch)
}

/// What a declaration declares, and whether only by the older rule for names.
pub(crate) fn declared(kind: Kind, event: &Event<'_>, at: At) -> Option<(Declared, bool)> {
    let payload = &event.payload;
    let (declaration, is_older) = match Declaration::read(kind, payload) {
        Ok(declaration) => (declaration, false),
        Err(_) => (Declaration::inherited(kind, payload)?, true),
    };
    let (payload, digest) = (payload.get().to_owned(), sha256(payload.get().as_bytes()));
    Some((Declared { origin: Origin::of(event, at), payload, digest, declaration }, is_older))
}

/// The capability that an event speaks of.
pub(crate) fn target(event: &Event<'_>) -> Option<Capability> {
    event.parse::<Target>().and_then(|target| target.capability())
}

/// A rejection of a script.
pub(crate) fn rejection(event: &Event<'_>, at: At) -> Option<Rejection> {
    let Rejected { reason, excerpt, sha256, .. } = event.parse()?;
    Some(Rejection { origin: Origin::of(event, at), reason, excerpt, sha256 })
}

/// A refusal, or a rejection that names no capability.
pub(crate) fn notice(event: &Event<'_>, at: At) -> Option<Notice> {
    let (subject, reason, excerpt) = if Word::of(&event.name) == Some(Word::EventRefused) {
        let Refused { name, reason, excerpt } = event.parse()?;
        (name, reason, excerpt)
    } else {
        let Rejected { kind, name, reason, excerpt, .. } = event.parse()?;
        ([&*kind, &*name].join("/").trim_matches('/').to_owned(), reason, excerpt)
    };
    Some(Notice { origin: Origin::of(event, at), subject, reason, excerpt, batch: batch_of(event).to_owned() })
}

/// A run that failed.
pub(crate) fn death(event: &Event<'_>, at: At) -> Option<Death> {
    let Died { exit, stderr, sha256 } = event.parse()?;
    let exit = string(&exit).map_or_else(|| exit.get().to_owned(), Into::into);
    Some(Death { origin: Origin::of(event, at), exit, stderr, sha256 })
}

/// What was said.
pub(crate) fn turn(event: &Event<'_>, at: At) -> Option<Turn> {
    let (role, text) = match Word::of(&event.name) {
        Some(word) => {
            let Said { text, .. } = event.parse()?;
            (if word == Word::SelfAsked { Role::Asked } else { Role::Replied }, text)
        }
        None => {
            let message: Message = event.parse()?;
            (message.role()?, message.content)
        }
    };
    Some(Turn { origin: Origin::of(event, at), role, text: on_one_line(&text) })
}

/// A chat message that waits, whole; `None` for one that is an answer.
pub(crate) fn waiting(event: &Event<'_>, at: At) -> Option<Turn> {
    let message: Message = event.parse()?;
    let role = message.role().filter(|role| *role == Role::User)?;
    Some(Turn { origin: Origin::of(event, at), role, text: message.content })
}

/// The start of a text, its line breaks as one space each.
fn on_one_line(text: &str) -> String {
    let mut line = String::new();
    let mut chars = text.trim().chars().peekable();
    for _ in 0..TURN_CHARS_MAX {
        match chars.next() {
            None => return line,
            Some('\r') if chars.peek() == Some(&'\n') => {}
            Some('\n' | '\r') => line.push(' '),
            Some(char) => line.push(char),
        }
    }
    if chars.next().is_some() {
        line.push('…');
    }
    line
}

#[derive(Deserialize)]
struct Target {
    #[serde(rename = "type")]
    kind: String,
    name: String,
}

impl Target {
    /// The capability that is meant; a name of the older rule is one too, though nothing new may bear it.
    fn capability(&self) -> Option<Capability> {
        let kind = Kind::read(self.kind.trim())?;
        let name = self.name.trim();
        let name = CapabilityName::new(kind, name).ok().or_else(|| CapabilityName::inherited(name))?;
        Some(Capability { kind, name })
    }
}

#[derive(Deserialize)]
struct Rejected {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    excerpt: String,
    #[serde(default)]
    sha256: String,
}

#[derive(Deserialize)]
struct Died {
    exit: Box<RawValue>,
    #[serde(default)]
    stderr: String,
    #[serde(default)]
    sha256: String,
}

#[derive(Deserialize)]
struct Refused {
    #[serde(default)]
    name: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    excerpt: String,
}

#[derive(Deserialize)]
pub(crate) struct Said {
    pub(crate) text: String,
    /// The ask that it answers.
    pub(crate) ask: Option<u64>,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    content: String,
}

impl Message {
    fn role(&self) -> Option<Role> {
        match self.role.as_str() {
            "user" => Some(Role::User),
            "assistant" => Some(Role::Assistant),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_one_short_line() {
        assert_eq!(on_one_line(" a\r\nb\n\nc\rd "), "a b  c d");
        assert_eq!(on_one_line(&"é".repeat(300)), "é".repeat(300));
        assert_eq!(on_one_line(&"é".repeat(301)), format!("{}…", "é".repeat(300)));
    }
}
