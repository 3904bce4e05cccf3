//! The catalogue: every capability of a home, how it stands and what it says of itself.
//!
//! Values made from the state, as a page and as JSON; the page `kernel`, too, has its twin here. Every text of the log is escaped. The
//! invariant: what stands on the surface is in it, once.

use maud::{Markup, html};
use serde::Serialize;
use similar::get_close_matches;

use crate::capability::{Capability, Kind, argument};
use crate::flow::page_of;
use crate::page::{path, told, word};
use crate::standing::{Notice, Origin, Standing};
use crate::state::State;
use crate::terms::Terms;
use crate::vocabulary::Word;

/// Where the server has the catalogue.
pub const PATH: &str = "/-/capability";

/// How many arguments of a command stand behind its name.
const PARAMS_MAX: usize = 8;

/// How many near names are offered for one that is not there.
const NEAR_MAX: usize = 5;

/// How near they are at least: twice what two names share, over what both have.
const NEAR_LEAST: f32 = 0.5;

/// How much of a name is compared, in characters, and with how many names.
const COMPARED_CHARS_MAX: usize = 64;
const COMPARED_MAX: usize = 2_000;

/// How a capability stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stands {
    /// Its script is in force.
    Installed,
    /// Its script is in force, and it was declared anew since.
    Revised,
    /// It waits for a script.
    Pending,
    /// It waits for a script, and is no longer offered as work.
    Stalled,
    /// A script was sent that was not installed, and it is not declared.
    Rejected,
    /// Its receipt could not be checked, for want of the key.
    Unproven,
    /// It was taken off the surface.
    Retired,
}

impl Stands {
    /// How a capability on the surface stands.
    #[must_use]
    pub fn of(standing: &Standing) -> Stands {
        match (standing.installed().is_some(), standing.is_pending()) {
            _ if standing.is_unproven() => Stands::Unproven,
            (true, false) => Stands::Installed,
            (true, true) => Stands::Revised,
            (false, true) if standing.is_stalled() => Stands::Stalled,
            (false, true) => Stands::Pending,
            (false, false) => Stands::Rejected,
        }
    }

    /// In a few words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Stands::Installed => "installed",
            Stands::Revised => "installed, declared anew",
            Stands::Pending => "waits for a script",
            Stands::Stalled => "no longer offered",
            Stands::Rejected => "rejected",
            Stands::Unproven => "unproven",
            Stands::Retired => "retired",
        }
    }

    /// As a short label.
    #[must_use]
    pub fn tag(self) -> Markup {
        let class = match self {
            Stands::Installed => "tag good",
            Stands::Revised | Stands::Pending | Stands::Stalled => "tag warn",
            Stands::Rejected | Stands::Unproven => "tag danger",
            Stands::Retired => "tag muted",
        };
        html! { span class=(class) { (self.words()) } }
    }
}

/// A capability in the catalogue.
#[derive(Debug, Clone, Serialize)]
pub struct Entry {
    /// `command` or `projector`.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// How it stands.
    pub stands: Stands,
    /// The number of the receipt in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// Who wrote its script.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// What is in force says, or, where no script is, what was declared last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub declaration: Option<Terms>,
    /// Why the newest script that was not installed was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rejection: Option<String>,
    /// Where the server tells all of it.
    pub path: String,
    /// Where the server has its page, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
}

impl Entry {
    fn of(capability: &Capability, standing: &Standing) -> Entry {
        let installed = standing.installed();
        let declaration = installed.and_then(|installed| installed.declaration.as_ref()).or(standing.declared());
        Entry {
            kind: capability.kind,
            name: capability.name.as_str().to_owned(),
            stands: Stands::of(standing),
            seq: installed.map(|installed| installed.seq),
            author: installed.and_then(|installed| installed.receipt.author()).map(str::to_owned),
            declaration: declaration.map(|declared| Terms::of(&declared.declaration)),
            rejection: standing.rejections().last().map(|rejection| rejection.reason.clone()),
            path: page_of(&capability.to_string()),
            page: installed.filter(|_| capability.kind == Kind::Projector).map(|_| path(capability)),
        }
    }
}

/// Every capability on the surface, in order of kind and name.
#[derive(Debug, Serialize)]
pub struct Catalogue {
    /// The number of the newest event it takes into account.
    pub seq: u64,
    /// The capabilities.
    pub capabilities: Vec<Entry>,
}

impl Catalogue {
    /// The catalogue of a home.
    #[must_use]
    pub fn of(state: &State) -> Catalogue {
        let capabilities = state.capabilities().map(|(capability, standing)| Entry::of(capability, standing)).collect();
        Catalogue { seq: state.seq(), capabilities }
    }

    /// As a page.
    #[must_use]
    pub fn view(&self) -> Markup {
        html! {
            h1 { "Capabilities" }
            p { "What this home can do: commands record events, projectors make pages of them. Each has a page of its own with its scripts and its history." }
            @for (kind, title) in [(Kind::Command, "Commands"), (Kind::Projector, "Projectors")] {
                @let entries: Vec<_> = self.capabilities.iter().filter(|entry| entry.kind == kind).collect();
                section {
                    h2 { (title) }
                    @if entries.is_empty() { p.muted { "There is none." } }
                    @else { ul.shelf { @for entry in entries { li { (item(entry)) } } } }
                }
            }
            p.muted { "What was retired is still in the log: " a href=(format!("/-/log?name={}", Word::CapabilityRetired.name())) { "its retirements" } ". " a href="/-/capability.json" { "As JSON" } }
        }
    }
}

fn item(entry: &Entry) -> Markup {
    html! {
        p {
            a href=(entry.path) { code { (word(&entry.name)) } }
            @for term in entry.declaration.iter().flat_map(|terms| &terms.params).take(PARAMS_MAX) { " " code.muted { (argument(&term.name, &term.type_word, word)) } }
            " " (entry.stands.tag())
            @if let Some(page) = &entry.page { " " a href=(page) { "its page" } }
        }
        @if let Some(terms) = &entry.declaration {
            @if !terms.description.is_empty() { p { (told(&terms.description)) } }
        }
        @if let Some(reason) = &entry.rejection { p.danger { "Last rejected: " (told(reason)) } }
    }
}

/// A refusal, or a rejection that names no capability.
#[derive(Debug, Serialize)]
pub struct Refused {
    /// Its number.
    pub seq: u64,
    /// Through which door it came; empty where the record does not say.
    pub via: String,
    /// What was refused.
    pub subject: String,
    /// Why.
    pub reason: String,
    /// Its start.
    pub excerpt: String,
}

impl Refused {
    fn of(Notice { origin: Origin { seq, via, .. }, subject, reason, excerpt, .. }: &Notice) -> Refused {
        let [via, subject, reason, excerpt] = [via, subject, reason, excerpt].map(Clone::clone);
        Refused { seq: *seq, via, subject, reason, excerpt }
    }
}

/// The instance described, as JSON.
#[derive(Debug, Serialize)]
pub struct Instance {
    /// How many events there are.
    pub events: u64,
    /// Its capabilities.
    #[serde(flatten)]
    pub catalogue: Catalogue,
    /// What was refused since the last answer.
    pub refused: Vec<Refused>,
}

impl Instance {
    /// A home described.
    #[must_use]
    pub fn of(state: &State) -> Instance {
        let refused = state.notices().iter().map(Refused::of).collect();
        Instance { events: state.events(), catalogue: Catalogue::of(state), refused }
    }
}

/// The capabilities whose names are near to one that is not there, the nearest first.
#[must_use]
pub fn near(state: &State, name: &str) -> Vec<String> {
    let start = |text: &str| text.chars().take(COMPARED_CHARS_MAX).collect::<String>();
    let known: Vec<_> = state.capabilities().take(COMPARED_MAX).map(|(capability, _)| capability.to_string()).collect();
    let starts: Vec<_> = known.iter().map(|name| start(name.split_once('/').map_or("", |(_, name)| name))).collect();
    let mut texts: Vec<_> = starts.iter().map(String::as_str).collect();
    texts.dedup();
    let near = get_close_matches(&*start(name), &texts, NEAR_MAX, NEAR_LEAST);
    let mut found: Vec<String> = Vec::new();
    for text in near {
        let same = known.iter().zip(&starts).filter(|(_, start)| *start == text).map(|(name, _)| name.clone());
        found.extend(same.filter(|name| !found.contains(name)).collect::<Vec<_>>());
    }
    found.truncate(NEAR_MAX);
    found
}
