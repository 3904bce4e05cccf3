//! Entries: an event in a list of the server's pages, as data and as a line of a page.
//!
//! Pure. As data it is the stored record, its payload the bytes that stand in the log. On a page its text is cut, escaped, and can
//! neither turn round what stands beside it nor end its line. The invariant: what a page shows of an event is bounded, and what is
//! left out is said.

use std::borrow::Cow;
use std::ops::Range;

use jiff::Timestamp;
use maud::{Markup, html};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::event::{Door, Event};
use crate::filters::{Filter, Filters, LOG};
use crate::moment;
use crate::quotation::shown;
use crate::record::string;
use crate::vocabulary::Word;

/// How much of an event's payload a line shows, in characters.
const EXCERPT_CHARS_MAX: usize = 240;

/// How much stands in front of a text that was sought, in characters.
const LEAD_CHARS_MAX: usize = 60;

/// How much of a name, a door or a speaker a line shows, in characters.
const CLAIM_CHARS_MAX: usize = 64;

/// From so many bytes on it is said how much of a payload is left out.
const REST_BYTES_MIN: usize = 1 << 10;

/// An event of a list, with the keys of its record.
#[derive(Debug, Serialize)]
pub struct Entry<'e> {
    /// Its id; empty where the record has none.
    pub id: &'e str,
    /// Its number.
    pub seq: u64,
    /// What happened.
    pub name: &'e str,
    /// When, as text.
    pub occurred_at: &'e str,
    /// The text of its door.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<Cow<'e, str>>,
    /// Who the caller said it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<&'e str>,
    /// Its particulars, as they are stored.
    pub payload: &'e RawValue,
}

impl<'e> Entry<'e> {
    /// The entry of an event.
    #[must_use]
    pub fn of(event: &'e Event<'_>) -> Entry<'e> {
        Entry {
            id: &event.id,
            seq: event.seq,
            name: &event.name,
            occurred_at: &event.occurred_at,
            via: event.via.as_ref().map(Door::text),
            by: event.by.as_deref(),
            payload: &event.payload,
        }
    }

    /// When it happened, if that is known.
    #[must_use]
    pub fn moment(&self) -> Option<Timestamp> {
        moment::read(self.occurred_at)
    }

    /// Whether it is a record of the kernel's own keeping, and tells nothing of what somebody did.
    fn is_quiet(&self) -> bool {
        self.via.as_deref() == Some("kernel") && matches!(Word::of(self.name), Some(Word::LogSealed | Word::KernelInitialized))
    }
}

/// The address of an event's page.
#[must_use]
pub fn address(seq: u64) -> String {
    format!("/-/event/{seq}")
}

/// A text of the log over many lines, with its control characters and those that turn text round shown.
#[must_use]
pub fn lines(text: &str) -> String {
    let text = shown(text);
    let turns = |char: char| matches!(char, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if !text.contains(turns) {
        return text;
    }
    let show = |char: char| if turns(char) { format!("\\u{:04x}", u32::from(char)) } else { char.to_string() };
    text.chars().map(show).collect()
}

/// A name, a door, a speaker or another short text of the log, on one line and cut.
#[must_use]
pub fn claim(text: &str) -> String {
    match text.char_indices().nth(CLAIM_CHARS_MAX) {
        Some((end, _)) => on_one(&text[..end]) + "…",
        None => on_one(text),
    }
}

fn on_one(text: &str) -> String {
    lines(text).replace('\n', "\\x0a").replace('\t', "\\x09")
}

/// The fields that tell most of an event.
#[derive(Default, Deserialize)]
struct Told<'e> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'e RawValue>,
    name: Option<&'e RawValue>,
    text: Option<&'e RawValue>,
    content: Option<&'e RawValue>,
    message: Option<&'e RawValue>,
    summary: Option<&'e RawValue>,
    reason: Option<&'e RawValue>,
    stderr: Option<&'e RawValue>,
    description: Option<&'e RawValue>,
    title: Option<&'e RawValue>,
    intent: Option<&'e RawValue>,
    script: Option<&'e RawValue>,
}

impl<'e> Told<'e> {
    fn of(payload: &'e RawValue) -> Told<'e> {
        serde_json::from_str(payload.get()).unwrap_or_default()
    }

    /// What is said, that which tells most first.
    fn sayings(&self) -> impl Iterator<Item = Cow<'e, str>> {
        let Told { text, content, message, summary, reason, stderr, description, title, intent, .. } = self;
        texts([*text, *content, *message, *summary, *reason, *stderr, *description, *title, *intent])
    }
}

fn texts<'e, const N: usize>(fields: [Option<&'e RawValue>; N]) -> impl Iterator<Item = Cow<'e, str>> {
    fields.into_iter().flatten().filter_map(string).filter(|text| !text.trim().is_empty())
}

/// What an event says in words: the first of its telling fields that is a text and not empty, whole; else its script.
#[must_use]
pub fn said(payload: &RawValue) -> Option<Cow<'_, str>> {
    let told = Told::of(payload);
    told.sayings().chain(texts([told.script])).next()
}

/// What an event tells in a line: who or what it speaks of, and what it says; else its payload as it is stored.
fn telling(payload: &RawValue) -> Cow<'_, str> {
    let told = Told::of(payload);
    let subject = match (texts([told.kind]).next(), texts([told.name]).next()) {
        (Some(kind), Some(name)) => Some(Cow::Owned(format!("{kind}/{name}"))),
        (None, name) => name,
        (Some(_), None) => None,
    };
    match (subject, told.sayings().next()) {
        (Some(subject), Some(said)) => Cow::Owned(format!("{subject}: {said}")),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) if payload.get() == "{}" => Cow::Borrowed(""),
        (None, None) => Cow::Borrowed(payload.get()),
    }
}

/// The text of a payload in which something that is sought reads best, and where it is in there. `None` if it is nowhere.
fn holding<'e>(payload: &'e RawValue, sought: &str) -> Option<(Cow<'e, str>, Range<usize>)> {
    let told = Told::of(payload);
    let readable = [telling(payload)].into_iter().chain(told.sayings()).chain(texts([told.script]));
    let all = readable.chain([Cow::Borrowed(payload.get())]);
    all.filter_map(|text| text.find(sought).map(|at| (text, at..at + sought.len()))).next()
}

/// Part of what an event tells.
#[derive(Debug, PartialEq, Eq)]
struct Excerpt {
    lead: String,
    /// What was sought, if it is in there.
    found: String,
    tail: String,
    /// How many bytes are left out behind it.
    rest: usize,
}

/// Cuts out of a payload what a line shows: its start, or what stands around a text that is sought.
fn excerpt(payload: &RawValue, sought: Option<&str>) -> Excerpt {
    let held = sought.and_then(|sought| holding(payload, sought));
    let (text, found) = held.unwrap_or_else(|| (telling(payload), 0..0));
    let from = text[..found.start].char_indices().rev().nth(LEAD_CHARS_MAX - 1).map_or(0, |(at, _)| at);
    let until = text[from..].char_indices().nth(EXCERPT_CHARS_MAX).map_or(text.len(), |(at, _)| from + at);
    let middle = found.end.min(until);
    let before = if from > 0 { "… " } else { "" };
    Excerpt {
        lead: before.to_owned() + &on_one(&run_together(&text[from..found.start])),
        found: on_one(&run_together(&text[found.start..middle])),
        tail: on_one(&run_together(&text[middle..until])),
        rest: text.len() - until,
    }
}

/// The same text with one blank for each run of white space.
fn run_together(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        let char = if char.is_whitespace() { ' ' } else { char };
        if char != ' ' || !out.ends_with(' ') {
            out.push(char);
        }
    }
    out
}

/// A line of a page for an event; its name leads to all of that name that the filters let through.
#[must_use]
pub fn line(entry: &Entry<'_>, filters: &Filters) -> Markup {
    let named = filters.with(Filter::Name, Some(entry.name)).address(LOG);
    html! {
        li class=[entry.is_quiet().then_some("quiet")] {
            (time(entry))
            a.name href=(named) { code { (claim(entry.name)) } }
            @if let Some(by) = entry.by { " " span.who { (claim(by)) } }
            @if !entry.is_quiet() { " " (shown_excerpt(&excerpt(entry.payload, filters.q.as_deref()))) }
            " " span.place {
                @if let Some(via) = &entry.via { span.via { (claim(via)) } " " }
                a href=(address(entry.seq)) { span.unseen { "event " } "#" (entry.seq) }
            }
        }
    }
}

fn shown_excerpt(excerpt: &Excerpt) -> Markup {
    html! {
        span.telling {
            (excerpt.lead)
            @if !excerpt.found.is_empty() { mark { (excerpt.found) } }
            (excerpt.tail)
            @match excerpt.rest {
                0 => {},
                rest @ 1..REST_BYTES_MIN => { "…" span.unseen { " " (rest) " bytes more" } },
                rest => { "… " span.muted { (rest) " bytes more" } },
            }
        }
    }
}

/// When an event happened, as the time of its day in UTC.
#[must_use]
pub fn time(entry: &Entry<'_>) -> Markup {
    html! {
        @if let Some(moment) = entry.moment() {
            time.muted datetime=(moment.strftime("%Y-%m-%dT%H:%M:%SZ")) { (moment.strftime("%H:%M:%S")) }
            " "
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::Payload;

    #[track_caller]
    fn check(payload: &str, sought: Option<&str>, expect: [&str; 3], rest: usize) {
        let payload = Payload::read(payload).unwrap();
        let Excerpt { lead, found, tail, rest: left } = excerpt(payload.as_ref(), sought);
        assert_eq!(([&*lead, &found, &tail], left), (expect, rest), "{}", payload.get());
    }

    #[test]
    fn an_excerpt_is_what_tells_most() {
        check(r#"{"text":"tea\n\n at  four","n":1}"#, None, ["", "", "tea at four"], 0);
        check(r#"{"text":"","content":"c"}"#, None, ["", "", "c"], 0);
        check(r#"{"type":"command","name":"note","reason":"no shebang"}"#, None, ["", "", "command/note: no shebang"], 0);
        check(r#"{"name":"note"}"#, None, ["", "", "note"], 0);
        check(r#"{"text":7,"a":1.10}"#, None, ["", "", r#"{"text":7,"a":1.10}"#], 0);
        check("{}", None, ["", "", ""], 0);
        check("null", None, ["", "", "null"], 0);
        check(r#""a text""#, None, ["", "", "\"a text\""], 0);
        check(r#"{"text":"\u0000\u001b[2J\u202e<b>"}"#, None, ["", "", "\\x00\\x1b[2J\\u202e<b>"], 0);
    }

    #[test]
    fn an_excerpt_is_cut_and_says_how_much_is_left() {
        let long = format!(r#"{{"text":"{}"}}"#, "é".repeat(300));
        check(&long, None, ["", "", &"é".repeat(240)], 120);
        let found = format!(r#"{{"text":"{}needle{}"}}"#, "a".repeat(100), "b".repeat(1000));
        check(&found, Some("needle"), [&format!("… {}", "a".repeat(60)), "needle", &"b".repeat(174)], 826);
        check(&long, Some(&"é".repeat(299)), ["", &"é".repeat(240), ""], 120);
        let far = format!(r#"{{"text":"{}"}}"#, "x".repeat(9) + &"é".repeat(280));
        check(&far, Some(&"é".repeat(280)), [&"x".repeat(9), &"é".repeat(231), ""], 98);
    }

    #[test]
    fn what_was_sought_is_shown_where_it_is() {
        check(r#"{"text":"tea at four","n":1}"#, Some("at"), ["tea ", "at", " four"], 0);
        check(r#"{"text":"tea","n":1}"#, Some("\"n\":1"), [r#"{"text":"tea","#, "\"n\":1", "}"], 0);
        check(r#"{"text":"tea"}"#, Some("no"), ["", "", "tea"], 0);
        check(
            r##"{"type":"command","name":"x","script":"#!/bin/sh\necho tea\n"}"##,
            Some("tea"),
            ["#!/bin/sh echo ", "tea", " "],
            0,
        );
    }
}
