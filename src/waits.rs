//! Waits: what a home waits for, and what to do about each.
//!
//! A model of the state, and a view of it. Pure. The invariant: nothing is said to wait without a way on, and what is not told one by one
//! is counted.

use maud::{Markup, html};
use serde::Serialize;

use crate::capability::Capability;
use crate::entry::address;
use crate::quotation::{on_one_line, straight};
use crate::standing::{Origin, STALLED_AT, Standing};
use crate::state::State;

/// How much of a text that waits is shown, in characters.
const TEXT_CHARS_MAX: usize = 400;

/// How much of a speaker's name is shown, in characters.
const WHO_CHARS_MAX: usize = 40;

/// How many refusals are told one by one.
const REFUSALS_MAX: usize = 5;

/// What of a home waits.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Waits(Vec<Wait>);

/// Something that waits.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Wait {
    /// What kind of thing: `damage`, `message`, `pending`, `rejection`, `refusal`, `unproven`.
    pub kind: &'static str,
    /// What it is about: a capability, a name; may be empty.
    pub subject: String,
    /// What is so.
    pub words: String,
    /// What was said: a message, a reason; may be empty.
    pub text: String,
    /// What to do.
    #[serde(flatten)]
    pub remedy: Remedy,
    /// The event that says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
}

/// What to do about something that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Remedy {
    /// In words.
    pub remedy: &'static str,
    /// What to type; may be empty.
    pub command: &'static str,
}

const MIND: Remedy = Remedy { remedy: "a mind takes it on", command: "self work | <mind> | self" };
const VERIFY: Remedy = Remedy { remedy: "have each line named", command: "self verify" };
const KEY: Remedy = Remedy { remedy: "put the key back; what it says of itself", command: "self doctor" };
const ANEW: Remedy = Remedy { remedy: "declare it anew to have it authored again", command: "" };
const FIRST: Remedy = Remedy { remedy: "declare it, then have it authored", command: "" };
const TOLD: Remedy = Remedy { remedy: "the next mind is told, once", command: "" };

impl Waits {
    /// What waits, of what the log says and how many of its lines are damaged.
    #[must_use]
    pub fn of(state: &State, damaged: usize) -> Waits {
        let mut waits = Vec::new();
        let wait = |kind, subject: String, words: String, text: &str, remedy, origin: Option<&Origin>| Wait {
            kind,
            subject: cut(&subject),
            words,
            text: cut(text),
            remedy,
            seq: origin.map(|origin| origin.seq),
        };
        if damaged > 0 {
            let words = if damaged == 1 {
                "1 line of the log is damaged".to_owned()
            } else {
                format!("{damaged} lines of the log are damaged")
            };
            let words = format!("{words}; reading goes on past that, and nothing rewrites it");
            waits.push(wait("damage", String::new(), words, "", VERIFY, None));
        }
        if let Some(turn) = state.waiting() {
            let who = turn.origin.by.as_deref().map_or_else(String::new, |by| format!(" of {}", cut_at(by, WHO_CHARS_MAX)));
            let words = format!("A message{who} waits for an answer");
            waits.push(wait("message", String::new(), words, &turn.text, MIND, Some(&turn.origin)));
        }
        for (capability, standing) in state.pending() {
            waits.push(pending(capability, standing));
        }
        for (capability, standing) in state.capabilities().filter(|(_, standing)| !standing.is_pending()) {
            if let Some(rejection) = standing.rejections().last() {
                let (words, remedy) = match standing.installed() {
                    Some(_) => ("had its last script rejected; the one before it stays in force", ANEW),
                    None => ("had its script rejected, and nothing declares it", FIRST),
                };
                let (subject, origin) = (capability.to_string(), Some(&rejection.origin));
                waits.push(wait("rejection", subject, words.to_owned(), &rejection.reason, remedy, origin));
            }
            if standing.is_unproven() {
                let words = "has a receipt that could not be checked, for want of the key".to_owned();
                waits.push(wait("unproven", capability.to_string(), words, "", KEY, None));
            }
        }
        let notices = state.notices();
        for notice in notices.iter().rev().take(REFUSALS_MAX) {
            let subject = if notice.subject.is_empty() { "a line".to_owned() } else { notice.subject.clone() };
            let origin = Some(&notice.origin);
            waits.push(wait("refusal", subject, "was refused".to_owned(), &notice.reason, TOLD, origin));
        }
        if notices.len() > REFUSALS_MAX {
            let words = format!("{} more were refused", notices.len() - REFUSALS_MAX);
            waits.push(wait("refusal", String::new(), words, "", TOLD, None));
        }
        Waits(waits)
    }
}

impl Waits {
    /// How many things wait.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

fn pending(capability: &Capability, standing: &Standing) -> Wait {
    let rejected = standing.rejections().last();
    let declared = standing.declared();
    let (words, remedy) = match rejected {
        _ if standing.is_stalled() => {
            (format!("waits for its script, and is no longer offered after {STALLED_AT} rejections"), ANEW)
        }
        Some(_) => ("waits for its script; the last one was rejected".to_owned(), MIND),
        None => ("waits for its script".to_owned(), MIND),
    };
    let said = declared.map(|declared| declared.declaration.description.as_str()).unwrap_or_default();
    Wait {
        kind: "pending",
        subject: cut(&capability.to_string()),
        words,
        text: cut(rejected.map_or(said, |rejection| &rejection.reason)),
        remedy,
        seq: rejected.map(|rejection| &rejection.origin).or(declared.map(|declared| &declared.origin)).map(|origin| origin.seq),
    }
}

/// A text on one line, cut; what turns text round shows.
pub(crate) fn cut(text: &str) -> String {
    cut_at(text, TEXT_CHARS_MAX)
}

fn cut_at(text: &str, chars: usize) -> String {
    let start: String = text.chars().take(chars + 1).collect();
    let mut line = straight(&on_one_line(&start.split_whitespace().collect::<Vec<_>>().join(" ")));
    if let Some((at, _)) = line.char_indices().nth(chars) {
        line.truncate(at);
        line.push('…');
    }
    line
}

/// What waits, as a section.
#[must_use]
pub fn waits(waits: &Waits) -> Markup {
    html! {
        section #waits {
            h2 { "What waits" }
            @if waits.0.is_empty() { p.muted { "Nothing waits." } } @else {
                ul.waits { @for wait in &waits.0 { li class=[(wait.kind == "damage").then_some("danger")] {
                    p {
                        @if !wait.subject.is_empty() { code { (wait.subject) } " " }
                        (wait.words) "."
                        @if let Some(seq) = wait.seq { " " a.seq href=(address(seq)) aria-label=(format!("Event {seq}")) { "#" (seq) } }
                    }
                    @if !wait.text.is_empty() { blockquote { bdi { (wait.text) } } }
                    p.muted { "To do: " (wait.remedy.remedy) @if !wait.remedy.command.is_empty() { ": " code { (wait.remedy.command) } } "." }
                } } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Line;

    /// The state of a log without a key, its lines given by door, name and payload.
    fn state(lines: &[(&str, &str, &str)]) -> State {
        let mut state = State::new(None);
        for ((via, name, payload), seq) in lines.iter().zip(1..) {
            let line = format!(r#"{{"seq":{seq},"name":"{name}","via":"{via}","by":"ada","payload":{payload}}}"#);
            match Line::read(line.as_bytes()) {
                Line::Record(record) => state.apply(&record.at(seq)),
                Line::Blank | Line::Damaged => panic!("{line}"),
            }
        }
        state
    }

    #[test]
    fn what_waits_says_what_to_do() {
        assert_eq!(Waits::of(&State::new(None), 0), Waits(Vec::new()));
        let declared = r#"{"name":"note","description":"keeps a note"}"#;
        let rejected = r#"{"type":"command","name":"note","reason":"no words","excerpt":"","sha256":""}"#;
        let state = state(&[
            ("pipe", "command.declared", declared),
            ("kernel", "script.rejected", rejected),
            ("kernel", "script.rejected", &rejected.replace("note", "stray")),
            ("cli", "chat.message", r#"{"role":"user","content":"a\n<b>"}"#),
            ("kernel", "event.refused", r#"{"name":"x","reason":"no dot","excerpt":""}"#),
        ]);
        let told: Vec<_> = Waits::of(&state, 2)
            .0
            .iter()
            .map(|wait| {
                format!("{}|{}|{}|{}|{:?}|{}", wait.kind, wait.subject, wait.words, wait.text, wait.seq, wait.remedy.command)
            })
            .collect();
        assert_eq!(
            told,
            [
                "damage||2 lines of the log are damaged; reading goes on past that, and nothing rewrites it||None|self verify",
                "message||A message of ada waits for an answer|a <b>|Some(4)|self work | <mind> | self",
                "pending|command/note|waits for its script; the last one was rejected|no words|Some(2)|self work | <mind> | self",
                "rejection|command/stray|had its script rejected, and nothing declares it|no words|Some(3)|",
                "refusal|x|was refused|no dot|Some(5)|",
            ]
        );
    }

    #[test]
    fn what_turns_text_round_shows() {
        let declared = r#"{"name":"note","description":"c\u2066d"}"#;
        let state =
            state(&[("pipe", "command.declared", declared), ("cli", "chat.message", r#"{"role":"user","content":"e\u202ef"}"#)]);
        let told: Vec<_> = Waits::of(&state, 0).0.into_iter().map(|wait| (wait.subject, wait.text)).collect();
        let shown = [("", "e\\u202ef"), ("command/note", "c\\u2066d")];
        assert_eq!(told, shown.map(|(subject, text)| (subject.to_owned(), text.to_owned())));
    }

    #[test]
    fn many_refusals_are_counted() {
        let refused = ("kernel", "event.refused", r#"{"name":"x","reason":"no dot","excerpt":""}"#);
        let waits = Waits::of(&state(&[refused; 9]), 0);
        assert_eq!(
            (waits.count(), waits.0.last().map(|wait| wait.words.as_str())),
            (REFUSALS_MAX + 1, Some("4 more were refused"))
        );
    }
}
