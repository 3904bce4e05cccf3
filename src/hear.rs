//! Hearing: what becomes of a mind's answer.
//!
//! [`judge`] takes the items that the wire reader found and returns what is to be recorded; [`examine`] looks at each script once
//! that has landed, for a body may declare what it sends a script for. They write nothing and run nothing. The invariant: whatever a mind sends, it ends as an event, as a refusal or a rejection with its reason, or as
//! part of the reply; nothing is dropped.

use serde::{Deserialize, Serialize};

use crate::capability::{Capability, CapabilityName, Declaration, Kind};
use crate::event::{Draft, EventName};
use crate::payload::Payload;
use crate::quotation::cut;
use crate::receipt::sha256;
use crate::record::RECORD_BYTES_MAX;
use crate::state::State;
use crate::vocabulary::{Sender, Word, admit};
use crate::wire::{Authored, Item, Like, NearMiss, Reading};

/// How much of a refused line or a rejected script is kept, in bytes.
pub const EXCERPT_BYTES_MAX: usize = 1024;

/// How many refusals of one body are recorded; the last one tells how many more there were.
pub const REFUSALS_MAX: usize = 256;

/// What the envelope of a record takes at least, in bytes.
const RECORD_BYTES_MIN: usize = 120;

/// The largest script, in bytes.
pub const SCRIPT_BYTES_MAX: usize = 1 << 20;

/// What is to be recorded of an answer, and what is to be printed.
#[derive(Debug, Default)]
pub struct Hearing {
    /// The first batch, in order; the kernel's own record of the reply is last.
    pub entries: Vec<Entry>,
    /// The scripts, in order, to be examined when the first batch has landed.
    pub attempts: Vec<Attempt>,
    /// The prose and the texts of `self.replied`, in order, without the white space around them; may be empty.
    pub reply: String,
}

/// An entry of the first batch.
#[derive(Debug)]
pub enum Entry {
    /// A mind's draft, through the pipe.
    Draft(Draft),
    /// A refusal, through the kernel.
    Refused(Refused),
}

impl Entry {
    /// The least that its record takes, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        RECORD_BYTES_MIN
            + match self {
                Entry::Draft(draft) => draft.name.as_str().len() + draft.payload.get().len(),
                Entry::Refused(refused) => refused.name.len() + refused.reason.len() + refused.excerpt.len(),
            }
    }
}

/// A script that was sent, or what was meant as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attempt {
    /// A script.
    Script(Authored),
    /// What begins like a script and is none.
    Broken(Rejected),
}

/// The payload of `event.refused`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The name of the event that was refused; empty where it could not be read.
    pub name: String,
    /// Why.
    pub reason: String,
    /// The start of what was refused, at most [`EXCERPT_BYTES_MAX`] bytes.
    pub excerpt: String,
}

impl Refused {
    /// Makes a refusal of this text.
    #[must_use]
    pub fn new(name: &str, reason: String, text: &str) -> Refused {
        Refused { name: cut(name, EXCERPT_BYTES_MAX).to_owned(), reason, excerpt: cut(text, EXCERPT_BYTES_MAX).to_owned() }
    }
}

/// The payload of `script.rejected`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// `command` or `projector`, or what stood in its place.
    #[serde(rename = "type")]
    pub kind: String,
    /// The capability's name, or what stood in its place.
    pub name: String,
    /// Why.
    pub reason: String,
    /// The start of the script, at most [`EXCERPT_BYTES_MAX`] bytes.
    pub excerpt: String,
    /// The SHA-256 of the script, as hex digits.
    pub sha256: String,
}

impl Rejected {
    fn new(kind: &str, name: &str, reason: String, script: &str) -> Rejected {
        Rejected {
            kind: cut(kind, EXCERPT_BYTES_MAX).to_owned(),
            name: cut(name, EXCERPT_BYTES_MAX).to_owned(),
            reason,
            excerpt: cut(script, EXCERPT_BYTES_MAX).to_owned(),
            sha256: sha256(script.as_bytes()),
        }
    }
}

/// The payload of a `self.replied` that the kernel records.
#[derive(Debug, Serialize)]
struct Replied<'a> {
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ask: Option<u64>,
}

/// The prompt that an answer belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answered {
    /// The ask it was made for; none for a work or a learning prompt.
    pub ask: Option<u64>,
}

/// Judges an answer. `answered` is the open prompt: with one, prose is recorded as the reply unless the mind sent its own.
#[must_use]
pub fn judge(reading: Reading, answered: Option<Answered>) -> Hearing {
    let mut hearing = Hearing::default();
    let (mut replied, mut refused) = (false, 0_usize);
    let refuse = |hearing: &mut Hearing, refused: &mut usize, refusal: Refused| {
        *refused += 1;
        if *refused <= REFUSALS_MAX {
            hearing.entries.push(Entry::Refused(refusal));
        }
    };
    for item in reading.items {
        match item {
            Item::Prose(text) => hearing.reply.push_str(&text),
            Item::Script(script) => hearing.attempts.push(Attempt::Script(script)),
            Item::Draft(sent) => match admit(sent.draft.name.as_str(), &sent.draft.payload, Sender::Mind) {
                Ok(word) => {
                    if word == Some(Word::SelfReplied) {
                        replied = true;
                        add_paragraph(&mut hearing.reply, &sent.draft.payload);
                    }
                    hearing.entries.push(Entry::Draft(Draft { name: spelled(word, sent.draft.name), ..sent.draft }));
                }
                Err(reason) => {
                    let refusal = Refused::new(sent.draft.name.as_str(), reason, sent.draft.payload.get());
                    refuse(&mut hearing, &mut refused, refusal);
                }
            },
            Item::NearMiss(NearMiss { of, reason, text }) => {
                hearing.reply.push_str(&text);
                match of {
                    Like::Script { kind, name } => {
                        hearing.attempts.push(Attempt::Broken(Rejected::new(&kind, &name, reason, &text)))
                    }
                    Like::Event { name } => refuse(&mut hearing, &mut refused, Refused::new(&name, reason, text.trim())),
                }
            }
        }
    }
    refused += reading.more_misses;
    let last = hearing.entries.iter_mut().rev().find_map(|entry| match entry {
        Entry::Refused(last) => Some(last),
        Entry::Draft(_) => None,
    });
    if let Some(last) = last.filter(|_| refused > REFUSALS_MAX) {
        last.reason.push_str(&format!(" (and {} more refusals in the same body)", refused - REFUSALS_MAX));
    }
    hearing.reply = hearing.reply.trim().to_owned();
    if let Some(answered) = answered.filter(|_| !replied && !hearing.reply.is_empty()) {
        hearing.entries.push(record_reply(&hearing.reply, answered));
    }
    hearing
}

/// What the kernel records of prose that answers a prompt.
fn record_reply(text: &str, answered: Answered) -> Entry {
    let name = Word::SelfReplied.name();
    if text.len() > RECORD_BYTES_MAX {
        let reason = format!("the reply is {} bytes; the limit of a record is {RECORD_BYTES_MAX}", text.len());
        return Entry::Refused(Refused::new(name, reason, text));
    }
    let payload = Payload::of(&Replied { text, ask: answered.ask });
    Entry::Draft(Draft { name: EventName::new(name).expect("the vocabulary is of the grammar"), payload })
}

/// A vocabulary name is stored in the vocabulary's spelling.
#[must_use]
pub fn spelled(word: Option<Word>, name: EventName) -> EventName {
    word.and_then(|word| EventName::new(word.name())).unwrap_or(name)
}

fn add_paragraph(reply: &mut String, payload: &Payload) {
    #[derive(serde::Deserialize)]
    struct Said {
        text: String,
    }
    if let Some(Said { text }) = payload.parse() {
        if !reply.is_empty() && !reply.ends_with('\n') {
            reply.push('\n');
        }
        reply.push_str(&text);
        reply.push('\n');
    }
}

/// A script that is to be tried: it is for a capability that is declared here.
#[derive(Debug, Clone)]
pub struct Trial {
    /// What it is for.
    pub capability: Capability,
    /// What that says of itself.
    pub declaration: Declaration,
    /// The digest of the declaration.
    pub digest: String,
    /// The script, its line ends mended.
    pub script: String,
}

impl Trial {
    /// The rejection of this script for a reason.
    #[must_use]
    pub fn rejected(&self, reason: String) -> Rejected {
        Rejected::new(self.capability.kind.word(), self.capability.name.as_str(), reason, &self.script)
    }
}

/// Looks at a script before it is tried. One that names nothing is meant for the single pending declaration.
pub fn examine(state: &State, attempt: Attempt) -> Result<Trial, Rejected> {
    let script = match attempt {
        Attempt::Broken(rejected) => return Err(rejected),
        Attempt::Script(script) => script,
    };
    let reject = |kind: &str, name: &str, reason: String| Rejected::new(kind, name, reason, &script.script);
    let capability = target(state, &script.kind, &script.name).map_err(|reason| reject(&script.kind, &script.name, reason))?;
    let declared = state.standing(&capability).and_then(|standing| standing.declared());
    let reason = match (script.script.len(), declared) {
        (0, _) => "the script is empty".to_owned(),
        (bytes, _) if bytes > SCRIPT_BYTES_MAX => format!("the script is {bytes} bytes; the limit is {SCRIPT_BYTES_MAX}"),
        (_, None) => format!("`{capability}` is not declared here; declare it first"),
        (_, Some(declared)) => {
            let script = mended(&script.script);
            return Ok(Trial { capability, declaration: declared.declaration.clone(), digest: declared.digest.clone(), script });
        }
    };
    Err(reject(capability.kind.word(), capability.name.as_str(), reason))
}

/// The script with every CRLF made LF, if its first line ends in CRLF; else as it is.
#[must_use]
pub fn mended(script: &str) -> String {
    match script.split_once('\n') {
        Some((first, _)) if first.ends_with('\r') => script.replace("\r\n", "\n"),
        _ => script.to_owned(),
    }
}

fn target(state: &State, kind: &str, name: &str) -> Result<Capability, String> {
    if kind.is_empty() && name.is_empty() {
        return match state.pending()[..] {
            [(capability, _)] => Ok(capability.clone()),
            ref pending => {
                Err(format!("the script names no capability, and {} declarations are pending, not one", pending.len()))
            }
        };
    }
    let kind =
        Kind::read(kind).ok_or_else(|| format!("a script is for a `command` or a `projector`, not `{}`", cut(kind, 64)))?;
    let inherited = CapabilityName::inherited(name).map(|name| Capability { kind, name });
    match inherited.filter(|capability| state.standing(capability).is_some()) {
        Some(capability) => Ok(capability),
        None => CapabilityName::new(kind, name).map(|name| Capability { kind, name }).map_err(|fault| fault.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Door, Event};
    use crate::wire::read;

    fn state(declared: &[&str]) -> State {
        let mut state = State::new(None);
        for (at, name) in declared.iter().enumerate() {
            let payload = Payload::read(&format!(r#"{{"name":"{name}"}}"#)).unwrap();
            state.apply(&Event {
                seq: at as u64 + 1,
                id: "".into(),
                name: "command.declared".into(),
                occurred_at: "".into(),
                via: Some(Door::Pipe),
                by: None,
                payload: std::borrow::Cow::Borrowed(payload.as_ref()),
            });
        }
        state
    }

    /// The entries as `name payload`, refusals as `! name: reason`.
    fn entries(hearing: &Hearing) -> Vec<String> {
        let line = |entry: &Entry| match entry {
            Entry::Draft(draft) => format!("{} {}", draft.name.as_str(), draft.payload.get()),
            Entry::Refused(refused) => format!("! {}: {}", refused.name, refused.reason),
        };
        hearing.entries.iter().map(line).collect()
    }

    #[track_caller]
    fn check(body: &str, answered: Option<Answered>, expect: &[&str], reply: &str) {
        let hearing = judge(read(body.as_bytes()), answered);
        assert_eq!((entries(&hearing), &*hearing.reply), (expect.iter().map(|line| (*line).to_owned()).collect(), reply));
    }

    #[test]
    fn drafts_land_in_order_and_the_prose_is_the_reply() {
        let body = "Noted.\n{\"name\":\"a.b\",\"payload\":1}\n{\"name\":\"c.d\"}\nDone.\n";
        check(body, None, &["a.b 1", "c.d {}"], "Noted.\nDone.");
        check(
            body,
            Some(Answered { ask: Some(7) }),
            &["a.b 1", "c.d {}", r#"self.replied {"text":"Noted.\nDone.","ask":7}"#],
            "Noted.\nDone.",
        );
        check("All quiet.\n", Some(Answered { ask: None }), &[r#"self.replied {"text":"All quiet."}"#], "All quiet.");
    }

    #[test]
    fn a_mind_that_replies_itself_is_not_recorded_twice() {
        let body = "Hm.\n{\"name\":\"Self.Replied\",\"payload\":{\"text\":\"All quiet.\"}}\n";
        check(body, Some(Answered { ask: Some(7) }), &[r#"self.replied {"text":"All quiet."}"#], "Hm.\nAll quiet.");
    }

    #[test]
    fn a_word_that_a_mind_may_not_send_is_refused_at_its_place() {
        let body = "{\"name\":\"a.b\"}\n{\"name\":\"Script.Compiled\",\"payload\":{}}\n{\"name\":\"c.d\"}\n";
        check(body, None, &["a.b {}", "! Script.Compiled: a mind may not send `script.compiled`", "c.d {}"], "");
        let body = r#"{"name":"command.declared","payload":{"name":"../evil"}}"#;
        check(
            body,
            None,
            &["! command.declared: `../evil` is no name for a capability: each segment starts with a-z or 0-9"],
            "",
        );
    }

    #[test]
    fn a_near_miss_is_prose_and_recorded() {
        let body = "{\"name\":\"a.b\",\"payload\":{\"x\":1,}}\nHm.\n";
        let hearing = judge(read(body.as_bytes()), Some(Answered { ask: Some(1) }));
        assert_eq!(hearing.reply, body.trim());
        assert_eq!(hearing.entries.len(), 2);
        assert!(
            matches!(&hearing.entries[0], Entry::Refused(refused) if refused.excerpt == body.lines().next().unwrap()),
            "{hearing:?}"
        );
    }

    #[test]
    fn refusals_are_bounded_and_counted() {
        let hearing = judge(read("{\"name\":\"log.sealed\"}\n".repeat(300).as_bytes()), None);
        assert_eq!(hearing.entries.len(), REFUSALS_MAX);
        let last = entries(&hearing).pop().unwrap();
        assert_eq!(last, "! log.sealed: a mind may not send `log.sealed` (and 44 more refusals in the same body)");
    }

    fn examined(declared: &[&str], body: &str) -> Result<Trial, Rejected> {
        examine(&state(declared), judge(read(body.as_bytes()), None).attempts.pop().unwrap())
    }

    #[test]
    fn a_script_that_cannot_be_tried_is_rejected_with_the_reason() {
        let script = "#!/bin/sh\necho hi\n";
        let body = |info: &str| format!("```self {info}\n{script}```\n");
        assert_eq!(examined(&["note"], &body("command/note")).unwrap().script, script);
        for (info, reason) in [
            ("command/note", "`command/note` is not declared here; declare it first"),
            ("command/../x", "`../x` is no name for a capability: each segment starts with a-z or 0-9"),
        ] {
            let rejected = examined(&[], &body(info)).unwrap_err();
            assert_eq!((&*rejected.reason, &*rejected.excerpt), (reason, script));
            assert_eq!(rejected.sha256, sha256(script.as_bytes()));
        }
        assert_eq!(examined(&["note"], "```self command/note\n```\n").unwrap_err().reason, "the script is empty");
    }

    #[test]
    fn s14_a_script_with_crlf_in_its_first_line_is_mended() {
        assert_eq!(mended("#!/bin/sh\r\na\rb\r\n\r\n"), "#!/bin/sh\na\rb\n\n");
        for script in ["", "#!/bin/sh", "#!/bin/sh\r", "#!/bin/sh\na\r\n"] {
            assert_eq!(mended(script), script);
        }
    }

    #[test]
    fn a_script_that_names_nothing_is_for_the_single_pending_declaration() {
        let body = r##"{"name":"script.authored","payload":{"type":"","name":" ","script":"#!/bin/sh\r\n:\r\n"}}"##;
        let trial = examined(&["note"], body).unwrap();
        assert_eq!((trial.capability.to_string(), &*trial.script), ("command/note".into(), "#!/bin/sh\n:\n"));
        let reason = examined(&["a", "b"], body).unwrap_err().reason;
        assert_eq!(reason, "the script names no capability, and 2 declarations are pending, not one");
    }

    #[test]
    fn a_reply_larger_than_a_record_is_printed_and_recorded_as_refused() {
        let text = "x".repeat(RECORD_BYTES_MAX + 1);
        let hearing = judge(read(text.as_bytes()), Some(Answered { ask: Some(1) }));
        assert_eq!(hearing.reply.len(), text.len());
        assert!(
            matches!(&hearing.entries[..], [Entry::Refused(refused)] if refused.name == "self.replied" && refused.excerpt.len() == 1024)
        );
    }
}
