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
use crate::quotation::straight;
use crate::record::string;
use crate::telling::telling;

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
    /// What it tells, in a line.
    #[serde(skip)]
    told: String,
    /// Whether it is the kernel's own bookkeeping.
    #[serde(skip)]
    is_quiet: bool,
}

impl<'e> Entry<'e> {
    /// The entry of an event.
    #[must_use]
    pub fn of(event: &'e Event<'_>) -> Entry<'e> {
        let (told, is_quiet) = telling(&event.name, event.via.as_ref(), &event.payload);
        Entry {
            id: &event.id,
            seq: event.seq,
            name: &event.name,
            occurred_at: &event.occurred_at,
            via: event.via.as_ref().map(Door::text),
            by: event.by.as_deref(),
            payload: &event.payload,
            told,
            is_quiet,
        }
    }

    /// When it happened, if that is known.
    #[must_use]
    pub fn moment(&self) -> Option<Timestamp> {
        moment::read(self.occurred_at)
    }
}

/// The address of an event's page.
#[must_use]
pub fn address(seq: u64) -> String {
    format!("/-/event/{seq}")
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
    straight(text).replace('\n', "\\x0a").replace('\t', "\\x09")
}

/// The fields that tell most of an event.
#[derive(Default, Deserialize)]
struct Told<'e> {
    #[serde(borrow)]
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

/// The text of a payload in which something that is sought reads best, and where it is in there. `None` if it is nowhere.
fn holding<'e>(payload: &'e RawValue, sought: &str) -> Option<(Cow<'e, str>, Range<usize>)> {
    let told = Told::of(payload);
    let all = told.sayings().chain(texts([told.script])).chain([Cow::Borrowed(payload.get())]);
    all.filter_map(|text| text.find(sought).map(|at| (text, at..at + sought.len()))).next()
}

/// Part of what an event says, around a text that is sought.
#[derive(Debug, PartialEq, Eq)]
struct Excerpt {
    lead: String,
    found: String,
    tail: String,
    /// How many bytes are left out behind it.
    rest: usize,
}

/// Cuts what stands around a text that is sought out of a payload; `None` if it is not in there.
fn excerpt(payload: &RawValue, sought: &str) -> Option<Excerpt> {
    let (text, found) = holding(payload, sought)?;
    let from = text[..found.start].char_indices().rev().nth(LEAD_CHARS_MAX - 1).map_or(0, |(at, _)| at);
    let until = text[from..].char_indices().nth(EXCERPT_CHARS_MAX).map_or(text.len(), |(at, _)| from + at);
    let middle = found.end.min(until);
    let before = if from > 0 { "… " } else { "" };
    Some(Excerpt {
        lead: before.to_owned() + &on_one(&run_together(&text[from..found.start])),
        found: on_one(&run_together(&text[found.start..middle])),
        tail: on_one(&run_together(&text[middle..until])),
        rest: text.len() - until,
    })
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
        li class=[entry.is_quiet.then_some("quiet")] {
            (time(entry))
            a.name href=(named) { code { (claim(entry.name)) } }
            @if let Some(by) = entry.by { " " span.who { (claim(by)) } }
            " " @match filters.q.as_deref().and_then(|sought| excerpt(entry.payload, sought)) {
                Some(excerpt) => (shown_excerpt(&excerpt)),
                None => {
                    span.telling { (entry.told) }
                    @if entry.payload.get().len() >= REST_BYTES_MIN { " " span.muted { (entry.payload.get().len()) " bytes" } }
                },
            }
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
            mark { (excerpt.found) }
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
    fn check(payload: &str, sought: &str, expect: [&str; 3], rest: usize) {
        let payload = Payload::read(payload).unwrap();
        let Excerpt { lead, found, tail, rest: left } = excerpt(payload.as_ref(), sought).unwrap();
        assert_eq!(([&*lead, &found, &tail], left), (expect, rest), "{}", payload.get());
    }

    #[test]
    fn an_excerpt_is_cut_and_says_how_much_is_left() {
        let long = format!(r#"{{"text":"{}"}}"#, "é".repeat(300));
        let found = format!(r#"{{"text":"{}needle{}"}}"#, "a".repeat(100), "b".repeat(1000));
        check(&found, "needle", [&format!("… {}", "a".repeat(60)), "needle", &"b".repeat(174)], 826);
        check(&long, &"é".repeat(299), ["", &"é".repeat(240), ""], 120);
        let far = format!(r#"{{"text":"{}"}}"#, "x".repeat(9) + &"é".repeat(280));
        check(&far, &"é".repeat(280), [&"x".repeat(9), &"é".repeat(231), ""], 98);
    }

    #[test]
    fn what_was_sought_is_shown_where_it_is() {
        check(r#"{"text":"tea at four","n":1}"#, "at", ["tea ", "at", " four"], 0);
        check(r#"{"text":"tea","n":1}"#, "\"n\":1", [r#"{"text":"tea","#, "\"n\":1", "}"], 0);
        assert_eq!(excerpt(Payload::read(r#"{"text":"tea"}"#).unwrap().as_ref(), "no"), None);
        check(r##"{"type":"command","name":"x","script":"#!/bin/sh\necho tea\n"}"##, "tea", ["#!/bin/sh echo ", "tea", " "], 0);
    }
}
