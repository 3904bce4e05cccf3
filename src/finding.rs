//! Findings: a page of what the home has by a text: its commands and projectors by name or description, and its newest events.
//!
//! A model, which as JSON is the page's twin, and a view of it; pure. Without a text it is a box to type one. The invariant: events are
//! sought and paged as the timeline is.

use maud::{Markup, html};
use serde::Serialize;

use crate::entry::{Entry, claim};
use crate::filters::{Filter, Filters, LOG, SEARCH};
use crate::page::word;
use crate::seeking::Sought;
use crate::sheet::Linked;
use crate::standing::Standing;
use crate::state::State;
use crate::timeline::{Further, Within, days, further};

/// How many capabilities a page names.
const CAPABILITIES_MAX: usize = 50;

/// How much of a description is shown, in characters.
const DESCRIPTION_CHARS_MAX: usize = 200;

/// A page of what was found.
#[derive(Debug, Serialize)]
pub struct Finding<'f> {
    /// The number of the newest event of the log.
    pub as_of: u64,
    /// What is sought.
    pub q: &'f str,
    /// The capabilities whose name or description holds it, in whatever case.
    pub capabilities: Vec<Known>,
    /// How many more there are.
    pub more_capabilities: usize,
    /// The events whose payload holds it as it is stored, newest first.
    pub events: Vec<Entry<'f>>,
    /// Where it goes on.
    #[serde(flatten)]
    pub further: Further,
    #[serde(skip)]
    filters: &'f Filters,
}

/// A capability that was found.
#[derive(Debug, Serialize)]
pub struct Known {
    /// What it is, and where its page is.
    #[serde(flatten)]
    pub linked: Linked,
    /// What it is for.
    pub description: String,
    /// How it stands: `installed`, `pending` or `neither`.
    pub stands: &'static str,
}

impl<'f> Finding<'f> {
    /// The page of what was found. Capabilities stand on the first page alone.
    #[must_use]
    pub fn of(state: &State, filters: &'f Filters, sought: &'f Sought, further: Further) -> Finding<'f> {
        let mut known = if filters.before.is_none() { known(state, filters) } else { Vec::new() };
        let more_capabilities = known.len().saturating_sub(CAPABILITIES_MAX);
        known.truncate(CAPABILITIES_MAX);
        Finding {
            as_of: state.seq(),
            q: filters.q.as_deref().unwrap_or_default(),
            capabilities: known,
            more_capabilities,
            events: sought.events.iter().map(Entry::of).collect(),
            further,
            filters,
        }
    }
}

fn known(state: &State, filters: &Filters) -> Vec<Known> {
    let Some(sought) = filters.q.as_deref().map(str::to_lowercase) else { return Vec::new() };
    let all = state.capabilities().map(|(capability, standing)| {
        let description = description(standing).to_owned();
        (capability, Known { linked: Linked::of(capability), description, stands: stands(standing) })
    });
    let fits =
        |known: &Known| [&known.linked.capability, &known.description].iter().any(|text| text.to_lowercase().contains(&sought));
    all.map(|(_, known)| known).filter(fits).collect()
}

fn description(standing: &Standing) -> &str {
    let installed = standing.installed().and_then(|installed| installed.declaration.as_ref());
    standing.declared().or(installed).map_or("", |declared| &declared.declaration.description)
}

fn stands(standing: &Standing) -> &'static str {
    if standing.is_pending() {
        "pending"
    } else if standing.installed().is_some() {
        "installed"
    } else {
        "neither"
    }
}

/// The page.
#[must_use]
pub fn finding(page: &Finding<'_>) -> Markup {
    html! {
        h1 { "Search" }
        form.fields.one action=(SEARCH) method="get" {
            p {
                label for="q" { "A name, or a text as it is stored" }
                input #q name="q" type="search" value=(page.q) required;
            }
            p { button type="submit" { "Search" } }
        }
        @if page.q.is_empty() {
            p.muted { "Events are sought from the newest back, with case; capabilities whatever the case. Whole names and more filters: " a href=(LOG) { "the log" } "." }
        } @else {
            @if page.filters.before.is_none() { (capabilities(page)) }
            section {
                h2 { "Events" }
                @if page.filters.before.is_some() || !page.events.is_empty() {
                    p {
                        @if page.filters.before.is_some() { a href=(page.filters.before(None).address(SEARCH)) { "Back to the newest" } " · " }
                        a href=(Filters::default().with(Filter::Text, Some(page.q)).address(LOG)) { "Filter these in the log" }
                    }
                }
                (days(&page.events, page.filters, Within::Section))
                (further(page.further, page.filters, SEARCH, page.events.is_empty()))
            }
        }
    }
}

fn capabilities(page: &Finding<'_>) -> Markup {
    html! {
        section {
            h2 { "Commands and projectors" }
            @if page.capabilities.is_empty() { p.muted { "None has this in its name or description." } }
            @if !page.capabilities.is_empty() {
                ul.counts {
                    @for known in &page.capabilities {
                        li {
                            a href=(known.linked.path) { code { (claim(&known.linked.capability)) } }
                            @if known.stands != "installed" { " " span.tag { (known.stands) } }
                            " " (start(&known.description))
                        }
                    }
                }
            }
            @if page.more_capabilities > 0 { p.muted { (page.more_capabilities) " more" } }
        }
    }
}

fn start(description: &str) -> String {
    let line = word(description);
    match line.char_indices().nth(DESCRIPTION_CHARS_MAX) {
        Some((end, _)) => line[..end].to_owned() + "…",
        None => line,
    }
}
