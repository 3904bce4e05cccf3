//! The sheet: a page of one event, whole: its record, what it means, what is proven of it, and what stands around it.
//!
//! A model, which as JSON is the page's twin, and a view of it; pure. The payload is laid out, and no token of it changes. The
//! invariant: what the kernel witnessed stands apart from what somebody claimed.

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde::{Deserialize, Serialize};

use crate::capability::{Capability, CapabilityName, Kind};
use crate::entry::{self, Entry, claim};
use crate::event::Event;
use crate::filters::{Filter, Filters, LOG};
use crate::form::encoded;
use crate::meaning::{door_in_words, meaning, speaker_in_words};
use crate::page;
use crate::quotation::{cut, straight};
use crate::record::Frame;
use crate::spot::Spot;
use crate::spread::spread;
use crate::state::State;
use crate::vocabulary::{LINEAGE, Word};

/// How much of a payload the page shows, in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 64 << 10;

/// How many events are looked at on either side for those of the same batch.
pub const BATCH_EVENTS_MAX: usize = 20;

/// How many events behind an ask are looked at for its answer.
pub const ANSWER_EVENTS_MAX: usize = 200;

/// How much of the log is looked at on either side, in bytes.
pub const AROUND_BYTES_MAX: u64 = 1 << 20;

/// What was read of the log for a sheet.
#[derive(Debug)]
pub struct Read {
    /// The event.
    pub spot: Spot,
    /// Those in front of it, newest first.
    pub before: Vec<Event<'static>>,
    /// Those behind it, oldest first.
    pub behind: Vec<Event<'static>>,
    /// What is proven of it, if it is a receipt.
    pub receipt: Option<String>,
}

/// A page of one event.
#[derive(Debug, Serialize)]
pub struct Sheet<'s> {
    /// Its record.
    pub event: Entry<'s>,
    /// What it is to the kernel.
    pub means: String,
    /// What the kernel witnessed.
    pub door: String,
    /// What was claimed.
    pub speaker: String,
    /// What is proven of it, if it is a receipt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt: Option<&'s str>,
    /// How many other events claim its number.
    pub others_of_its_number: u64,
    /// The capability that it speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capability: Option<Linked>,
    /// The installed projectors that read it.
    pub read_by: Vec<Linked>,
    /// The installed commands that promise events of its name.
    pub emitted_by: Vec<Linked>,
    /// The ask that it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answers: Option<u64>,
    /// What answered it, if that stands near.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<u64>,
    /// Whether it is an ask that waits for a reply.
    pub waits: bool,
    /// Its place in its batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<Batch<'s>>,
    /// The event in front of it.
    pub previous: Option<u64>,
    /// The event behind it.
    pub next: Option<u64>,
}

/// A capability and its page.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Linked {
    /// `command/note`.
    pub capability: String,
    /// Where its page is.
    pub path: String,
}

/// An event's batch.
#[derive(Debug, Serialize)]
pub struct Batch<'s> {
    /// The event's place, from 1.
    pub place: u64,
    /// How many events it has.
    pub events: u64,
    /// Those of the others that stand near, by their numbers.
    pub near: BTreeMap<u64, &'s str>,
}

impl Linked {
    /// A capability's page.
    #[must_use]
    pub fn of(capability: &Capability) -> Linked {
        let path = format!("/-/capability/{}/{}", capability.kind.word(), encoded(capability.name.as_str()));
        Linked { capability: capability.to_string(), path }
    }
}

/// What an event may say of a capability, and of the ask that it answers.
#[derive(Default, Deserialize)]
struct Spoken {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    name: String,
}

/// The ask that a reply names.
#[derive(Deserialize)]
struct Answer {
    ask: u64,
}

impl<'s> Sheet<'s> {
    /// The page of an event.
    #[must_use]
    pub fn of(state: &State, read: &'s Read) -> Sheet<'s> {
        let event = &read.spot.event;
        let word = Word::of(&event.name).filter(|word| word.counts_through(event.via.as_ref()));
        let is_ask = word == Some(Word::SelfAsked);
        Sheet {
            event: Entry::of(event),
            means: meaning(event),
            door: door_in_words(event.via.as_ref()),
            speaker: speaker_in_words(event),
            receipt: read.receipt.as_deref(),
            others_of_its_number: read.spot.others,
            capability: capability(event).map(|capability| Linked::of(&capability)),
            read_by: read_by(state, &event.name),
            emitted_by: emitted_by(state, &event.name),
            answers: (word == Some(Word::SelfReplied)).then(|| ask(event)).flatten(),
            answered_by: if is_ask { answer_to(event.seq, &read.behind) } else { None },
            waits: is_ask && state.waits_for_reply(event.seq),
            batch: batch(read),
            previous: read.before.first().map(|event| event.seq),
            next: read.behind.first().map(|event| event.seq),
        }
    }
}

fn ask(event: &Event<'_>) -> Option<u64> {
    event.parse::<Answer>().map(|answer| answer.ask)
}

fn answer_to(seq: u64, behind: &[Event<'_>]) -> Option<u64> {
    let is_reply = |event: &&Event<'_>| Word::of(&event.name) == Some(Word::SelfReplied) && ask(event) == Some(seq);
    behind.iter().find(is_reply).map(|event| event.seq)
}

/// The capability that an event of the vocabulary speaks of.
fn capability(event: &Event<'_>) -> Option<Capability> {
    let spoken = || event.parse::<Spoken>().unwrap_or_default();
    let (kind, name) = match Word::of(&event.name)? {
        Word::CommandDeclared => (Kind::Command, spoken().name),
        Word::ProjectorDeclared => (Kind::Projector, spoken().name),
        Word::CapabilityRetired | Word::ScriptCompiled | Word::ScriptRejected | Word::CapabilityDied => {
            let Spoken { kind, name } = spoken();
            (Kind::read(&kind)?, name)
        }
        Word::KernelInitialized
        | Word::LogRecovered
        | Word::LogSealed
        | Word::SelfAsked
        | Word::SelfReflected
        | Word::SelfReplied
        | Word::ScriptAuthored
        | Word::EventRefused
        | Word::IntentDeclared
        | Word::AccountGiven
        | Word::LessonLearned
        | Word::LearnOrchestrated
        | Word::CapabilityRevisionRequested
        | Word::KernelUpgraded => return None,
    };
    Some(Capability { kind, name: CapabilityName::new(kind, &name).ok()? })
}

fn read_by(state: &State, name: &str) -> Vec<Linked> {
    let projectors = page::installed(state, Kind::Projector).into_iter();
    let reads = projectors.filter(|(_, installed)| {
        let names = installed.consumes();
        names.is_empty() || names.iter().any(|own| own == name)
    });
    reads.map(|(capability, _)| Linked::of(capability)).collect()
}

fn emitted_by(state: &State, name: &str) -> Vec<Linked> {
    let commands = page::installed(state, Kind::Command).into_iter();
    let emits = commands.filter(|(_, installed)| {
        let promised = installed.declaration.as_ref().and_then(|declared| declared.declaration.event.as_ref());
        promised.is_some_and(|event| event.name == name)
    });
    emits.map(|(capability, _)| Linked::of(capability)).collect()
}

fn batch(read: &Read) -> Option<Batch<'_>> {
    let own = Frame::read(&read.spot.event.id)?;
    let is_of_it = |event: &&Event<'_>| Frame::read(&event.id).is_some_and(|frame| frame.batch == own.batch && frame.n == own.n);
    let near = read.before.iter().take(BATCH_EVENTS_MAX).take_while(is_of_it);
    let near = near.chain(read.behind.iter().take(BATCH_EVENTS_MAX).take_while(is_of_it));
    Some(Batch { place: own.k, events: own.n, near: near.map(|event| (event.seq, &*event.name)).collect() })
}

/// The page.
#[must_use]
pub fn sheet(page: &Sheet<'_>) -> Markup {
    let event = &page.event;
    html! {
        (around(page))
        h1 { "Event " (event.seq) }
        p.lead {
            a href=(Filters::default().with(Filter::Name, Some(event.name)).address(LOG)) { code { (claim(event.name)) } }
            ": " (plain(&page.means)) "."
        }
        @if page.others_of_its_number > 0 {
            p.msg.danger {
                (page.others_of_its_number) " more claim this number; this is the first of them. " code { "self verify" } " names them."
            }
        }
        (record(page))
        (relations(page))
        (payload(event))
        p {
            a href=(format!("{}.txt", entry::address(event.seq))) { "The line as it is stored" } " · "
            a href=(format!("{}.json", entry::address(event.seq))) { "This page as JSON" }
        }
    }
}

fn around(page: &Sheet<'_>) -> Markup {
    html! {
        nav aria-label="Events" {
            ul.row {
                @if let Some(seq) = page.previous { li { a rel="prev" href=(entry::address(seq)) { "← event " (seq) } } }
                @if let Some(seq) = page.next { li { a rel="next" href=(entry::address(seq)) { "event " (seq) " →" } } }
                li { a href=(LOG) { "Log" } }
            }
        }
    }
}

/// What stands in its record but for its payload.
fn record(page: &Sheet<'_>) -> Markup {
    let event = &page.event;
    html! {
        dl.facts {
            dt { "Moment" }
            dd {
                @match event.moment() {
                    Some(moment) => {
                        time datetime=(moment.strftime("%Y-%m-%dT%H:%M:%SZ")) { (moment.strftime("%A, %Y-%m-%d, %H:%M:%S UTC")) }
                        " " span.muted { "stored as " (claim(event.occurred_at)) }
                    }
                    None if event.occurred_at.is_empty() => "not recorded",
                    None => { "no moment: " (claim(event.occurred_at)) }
                }
            }
            dt { "Door, witnessed" }
            dd { (plain(&page.door)) }
            dt { "Speaker, claimed" }
            dd { (plain(&page.speaker)) }
            @if let Some(receipt) = page.receipt { dt { "Receipt" } dd { (plain(receipt)) } }
            dt { "Id" }
            dd { @if event.id.is_empty() { "none" } @else { code { (claim(event.id)) } } }
        }
    }
}

/// A sentence that may hold text of the log.
fn plain(sentence: &str) -> String {
    page::word(sentence)
}

/// What it has to do with others.
fn relations(page: &Sheet<'_>) -> Markup {
    let list = |linked: &[Linked]| {
        html! {
            @for (at, one) in linked.iter().enumerate() {
                @if at > 0 { ", " }
                a href=(one.path) { code { (claim(&one.capability)) } }
            }
        }
    };
    let is_lineage = page.event.name.starts_with(LINEAGE);
    html! {
        dl.facts {
            @if let Some(capability) = &page.capability { dt { "Speaks of" } dd { (list(std::slice::from_ref(capability))) } }
            @if let Some(ask) = page.answers { dt { "Answers" } dd { a href=(entry::address(ask)) { "event " (ask) } } }
            @if let Some(reply) = page.answered_by { dt { "Answered by" } dd { a href=(entry::address(reply)) { "event " (reply) } } }
            @if page.waits { dt { "Answered by" } dd { "nobody yet" } }
            @if !page.read_by.is_empty() { dt { "Read by" } dd { (list(&page.read_by)) } }
            @if !page.emitted_by.is_empty() { dt { "Its name is emitted by" } dd { (list(&page.emitted_by)) } }
            @if page.read_by.is_empty() && !is_lineage { dt { "Read by" } dd.muted { "no installed projector" } }
            @if let Some(batch) = &page.batch { dt { "Batch" } dd { (in_batch(page.event.seq, batch)) } }
        }
    }
}

fn in_batch(seq: u64, batch: &Batch<'_>) -> Markup {
    let link = |(seq, name): (&u64, &&str)| html! { a href=(entry::address(*seq)) { "#" (seq) " " code { (claim(name)) } } };
    html! {
        (batch.place) " of " (batch.events) ", which landed whole"
        ul.row {
            @for near in batch.near.range(..seq) { li { (link(near)) } }
            li { span.muted { "this one" } }
            @for near in batch.near.range(seq..) { li { (link(near)) } }
        }
    }
}

/// What it says, laid out.
fn payload(event: &Entry<'_>) -> Markup {
    let (said, laid_out) = (entry::said(event.payload), spread(event.payload.get(), PAYLOAD_BYTES_MAX));
    // A short text on one line reads as well in the payload.
    let said = said.filter(|said| said.contains('\n') || said.len() > 120);
    html! {
        @if let Some(said) = &said {
            @let shown = cut(said, PAYLOAD_BYTES_MAX);
            section {
                h2 { "What it says" }
                pre.said { (straight(shown)) }
                (left_out(event.seq, said.len() - shown.len()))
            }
        }
        section {
            h2 { "Payload" }
            pre { code { (straight(&laid_out.text)) } }
            (left_out(event.seq, laid_out.rest))
        }
    }
}

fn left_out(seq: u64, bytes: usize) -> Markup {
    html! {
        @if bytes > 0 {
            p { "… " (bytes) " bytes more: " a href=(format!("{}.txt", entry::address(seq))) { "the line as it is stored" } }
        }
    }
}
