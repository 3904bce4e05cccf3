//! Today: the front page of a home without a welcome: what happened since somebody looked, what waits, when it was busy, and what
//! this home is.
//!
//! A model of the state and of the newest events, and a view of the model; every text of the log is escaped and cut. Time comes in as a
//! value. The invariant: it costs the same at any size of the log.

use jiff::civil::Date;
use maud::{Markup, html};
use serde::Serialize;

use crate::calendar::{self, Course, Year};
use crate::capability::{Capability, Kind};
use crate::changes::{Changes, changes};
use crate::page;
use crate::quotation::on_one_line;
use crate::shell;
use crate::standing::Installed;
use crate::state::State;
use crate::telling::Told;
use crate::waits::{Waits, cut, waits};

/// The page, as values.
#[derive(Debug, Serialize)]
pub struct Today {
    /// Up to which event.
    pub seq: u64,
    /// How many events there are.
    pub events: u64,
    /// The day, by UTC.
    pub day: String,
    /// What happened since.
    pub changes: Changes,
    /// What waits.
    pub waits: Waits,
    /// How busy the days of a year were.
    pub year: Year,
    /// How busy the hours of the day were.
    pub course: Course,
    /// What this home is.
    pub home: Home,
}

/// What this home is.
#[derive(Debug, Serialize)]
pub struct Home {
    /// Its folder.
    pub path: String,
    /// The commands that are installed.
    pub commands: Vec<Known>,
    /// The projections that are installed.
    pub projections: Vec<Known>,
}

/// A capability that is installed.
#[derive(Debug, Serialize)]
pub struct Known {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Where its page is, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
    /// Where it is described.
    pub about: String,
}

impl Today {
    /// The model: of what the log says, how many of its lines are damaged, and its newest events, newest first; for who saw all up to
    /// `since`, on this day, of the home in this folder.
    #[must_use]
    pub fn of(state: &State, damaged: usize, newest: &[Told], since: u64, day: Date, path: &str) -> Today {
        let days = &state.counts().days;
        Today {
            seq: state.seq(),
            events: state.events(),
            day: day.to_string(),
            changes: Changes::of(state, newest, since),
            waits: Waits::of(state, damaged),
            year: Year::of(days, day),
            course: Course::of(days, day, newest.iter().filter_map(|told| told.moment)),
            home: Home {
                path: on_one_line(path),
                commands: known(state, Kind::Command),
                projections: known(state, Kind::Projector),
            },
        }
    }
}

fn known(state: &State, kind: Kind) -> Vec<Known> {
    let known = |(capability, installed): (&Capability, &Installed)| Known {
        name: on_one_line(capability.name.as_str()),
        description: installed.declaration.as_ref().map(|declared| cut(&declared.declaration.description)).unwrap_or_default(),
        page: (kind == Kind::Projector).then(|| page::path(capability)),
        about: about(capability),
    };
    page::installed(state, kind).into_iter().map(known).collect()
}

/// Where the server describes a capability.
fn about(capability: &Capability) -> String {
    format!("/-/capability/{}{}", capability.kind.word(), page::path(capability))
}

/// The page.
#[must_use]
pub fn today(today: &Today, state: &State) -> Markup {
    html! {
        h1 { "Today" }
        p.muted {
            (today.day) ". Times are UTC. "
            @match today.waits.count() {
                0 => "Nothing waits.",
                1 => a href="#waits" { "One thing waits." },
                count => a href="#waits" { (count) " things wait." },
            }
        }
        (changes(&today.changes, &today.day))
        (waits(&today.waits))
        section {
            h2 { "When" }
            h3 { "This day" }
            (calendar::course(&today.course))
            h3 { "A year of days" }
            (calendar::year(&today.year))
        }
        section { h2 { "Run a command" } div.commands { (shell::command_forms(state)) } }
        (home(&today.home))
    }
}

fn home(home: &Home) -> Markup {
    html! {
        section {
            h2 { "This home" }
            dl.home {
                dt { "Folder" }
                dd { code { (home.path) } }
                dt { "In it" }
                dd {
                    code { "events.jsonl" } ", the log and the only truth; " code { ".secret" } ", its key; " code { "capabilities/" } " and "
                    code { "site/" } ", rebuilt from them"
                }
                dt { "Commands" }
                dd {
                    @if home.commands.is_empty() { "None is installed." } @else {
                        ul.row { @for command in &home.commands { li { a href=(command.about) title=(command.description) { (command.name) } } } }
                    }
                }
                dt { "Projections" }
                dd { (projections(&home.projections)) }
            }
            p { a href="/kernel" { "This instance, whole" } }
        }
    }
}

fn projections(known: &[Known]) -> Markup {
    html! {
        @if known.is_empty() { "None is installed." } @else {
            ul { @for known in known { li {
                @if let Some(page) = &known.page { a href=(page) { (known.name) } " " }
                a.seq href=(known.about) aria-label=(format!("About {}", known.name)) { "about" }
                @if !known.description.is_empty() { " " span.muted { bdi { (known.description) } } }
            } } }
        }
    }
}
