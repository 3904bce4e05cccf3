//! Effects: what has to change on disk so that it shows what the log says.
//!
//! [`plan`] compares the state with what is recorded of `capabilities/` and `site/` and names what to place, to remove and to
//! render; a rebuild is the same plan over nothing recorded. Writes nothing. The invariant: planning again after a plan was
//! carried out gives an empty one.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::capability::{Capability, Kind};
use crate::standing::{Installed, Standing};
use crate::state::State;

/// What is recorded of a derived file when it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// The receipt it comes from; 0 for the kernel's own pages.
    pub receipt: u64,
    /// The number of the newest event it takes into account.
    pub position: u64,
    /// Its size, in bytes.
    pub size: u64,
    /// When it was changed last, in nanoseconds since 1970.
    pub mtime: i64,
    /// Its inode.
    pub inode: u64,
}

/// A recorded file, and whether it still is what was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// What was recorded.
    pub written: Written,
    /// Whether size, time and inode are still those.
    pub is_intact: bool,
}

/// What is to be done.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Scripts to put in place.
    pub place: Vec<Capability>,
    /// Files to take away, by their path in the home.
    pub remove: Vec<String>,
    /// Projectors to run.
    pub render: Vec<Capability>,
}

/// The path in the home of a capability's script.
#[must_use]
pub fn script_path(capability: &Capability) -> String {
    format!("capabilities/{}s/{}/run", capability.kind.word(), capability.name.as_str())
}

/// The path in the home of a projector's page.
#[must_use]
pub fn page_path(name: &str) -> String {
    format!("site/{name}.html")
}

/// The kernel's own pages, which no plan takes away.
pub const OWN_PAGES: [&str; 2] = ["site/brief.md", "site/kernel.html"];

/// Plans. A script that was put in place and is missing or differs now is left alone: a run names it.
#[must_use]
pub fn plan(state: &State, held: &BTreeMap<String, Held>) -> Plan {
    let mut plan = Plan::default();
    let mut wanted: BTreeSet<String> = OWN_PAGES.map(str::to_owned).into();
    for (capability, standing) in state.capabilities() {
        let Some(installed) = standing.installed() else {
            if standing.is_unproven() {
                wanted.extend([script_path(capability), page_path(capability.name.as_str())]);
            }
            continue;
        };
        let script = script_path(capability);
        if held.get(&script).is_none_or(|held| held.written.receipt != installed.seq) {
            plan.place.push(capability.clone());
        }
        wanted.insert(script);
        if capability.kind == Kind::Projector {
            let page = page_path(capability.name.as_str());
            if held.get(&page).is_none_or(|held| !is_current(state, installed, held)) {
                plan.render.push(capability.clone());
            }
            wanted.insert(page);
        }
    }
    // What is newer than this state was put there by somebody who knows more.
    let is_over = |(path, held): &(&String, &Held)| !wanted.contains(*path) && held.written.position <= state.seq();
    plan.remove = held.iter().filter(is_over).map(|(path, _)| path.clone()).collect();
    plan
}

/// Whether a page takes into account all that its projector would be fed.
#[must_use]
pub fn is_current(state: &State, installed: &Installed, held: &Held) -> bool {
    held.is_intact && is_recorded_current(state, installed, held)
}

/// Whether a page was recorded as taking into account all that its projector would be fed, whatever became of it since.
#[must_use]
pub fn is_recorded_current(state: &State, installed: &Installed, held: &Held) -> bool {
    held.written.receipt == installed.seq && held.written.position >= newest_consumed(state, installed)
}

/// The installed projectors that are fed any of the events named, or, if there is `any` event at all, every event.
pub fn pages_of(state: &State, named: impl Fn(&str) -> bool, any: bool) -> Vec<&Capability> {
    let is_fed = |(capability, standing): &(&Capability, &Standing)| {
        let installed = standing.installed().filter(|_| capability.kind == Kind::Projector);
        installed.is_some_and(|installed| match installed.consumes() {
            [] => any,
            names => names.iter().any(|name| named(name)),
        })
    };
    state.capabilities().filter(is_fed).map(|(capability, _)| capability).collect()
}

/// The number of the newest event that a projector is fed.
pub(crate) fn newest_consumed(state: &State, installed: &Installed) -> u64 {
    match installed.consumes() {
        [] => state.seq(),
        names => names.iter().map(|name| state.newest(name)).max().unwrap_or(0),
    }
}
