//! The profile of a capability: how it stands, what it says, every script it had, and what happened to it.
//!
//! A value made from the state and the history, as a page and as JSON; every text of the log is escaped. Scripts are shown, never run. The
//! invariant: what is shown cut says how much is left out, and where the whole is.

use maud::{Markup, html};
use serde::Serialize;

use crate::address::{Asked, Nowhere};
use crate::capability::{Capability, Declaration, Kind};
use crate::catalogue::{self, Stands, near};
use crate::difference::{Difference, LINES_MAX};
use crate::effect::newest_consumed;
use crate::entry::address;
use crate::flow::{Flow, page_of};
use crate::history::{Announced, Happened, History, Proof, SCRIPTS_BYTES_MAX, Step, Version};
use crate::moment;
use crate::page::{path, told, word};
use crate::quotation::{cut, straight};
use crate::shell::command_form;
use crate::state::State;
use crate::terms::Terms;

/// How much of a script the page shows, in bytes.
const SCRIPT_BYTES_MAX: usize = 64 << 10;

/// How much of a digest the page shows, in characters.
const DIGEST_CHARS: usize = 12;

/// The script in force.
#[derive(Debug, Serialize)]
pub struct InForce {
    /// The number of its receipt.
    pub seq: u64,
    /// Which version it is; 0 where the history does not have it.
    pub version: u64,
    /// Who wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// When it was installed, as stored.
    pub occurred_at: String,
}

/// A script that was not installed, and nothing came of it since.
#[derive(Debug, Serialize)]
pub struct Open {
    /// The number of its rejection.
    pub seq: u64,
    /// Why.
    pub reason: String,
}

/// A projector's page.
#[derive(Debug, Serialize)]
pub struct PageOf {
    /// Where the server has it.
    pub path: String,
    /// Up to which event the page on disk takes the log into account, if one stands there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// The newest event it is fed.
    pub newest: u64,
}

/// Two versions compared.
#[derive(Debug, Serialize)]
pub struct Versions {
    /// The number of the older one's receipt.
    pub from: u64,
    /// The number of the newer one's.
    pub to: u64,
    /// What changed in the script; left out where a text is too long to be compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<Difference>,
    /// What changed in what the declaration says; left out where there are no two, or they say the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub declaration: Option<Difference>,
}

/// What there is to tell of a capability.
#[derive(Debug, Serialize)]
pub struct Profile {
    /// `command` or `projector`.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// How it stands.
    pub stands: Stands,
    /// What is in force says, or, where no script is, what was declared last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub declaration: Option<Terms>,
    /// What was declared anew, and waits for a script.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits: Option<u64>,
    /// The script in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub installed: Option<InForce>,
    /// The newest script that was not installed since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rejected: Option<Open>,
    /// Its page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<PageOf>,
    /// What it takes and gives.
    pub flow: Flow,
    /// Its versions, oldest first.
    pub versions: Vec<Version>,
    /// How many versions there are in all.
    pub versions_in_all: u64,
    /// Two of them compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compared: Option<Versions>,
    /// What happened, oldest first.
    pub history: Vec<Happened>,
    /// How many steps came before those.
    pub older_steps: u64,
    #[serde(skip)]
    capability: Capability,
    #[serde(skip)]
    form: Option<Declaration>,
}

impl Profile {
    /// What there is to tell; `page` says up to which event the page on disk takes the log into account.
    ///
    /// # Errors
    /// When the log tells of no such capability, or a version that is to be compared is none.
    pub fn of(state: &State, history: &History, page: Option<u64>, asked: &Asked) -> Result<Profile, Nowhere> {
        let capability = &asked.capability;
        let standing = state.standing(capability);
        if standing.is_none() && history.steps().is_empty() {
            let name = capability.to_string();
            return Err(Nowhere::Unknown { near: near(state, capability.name.as_str()), name });
        }
        let installed = standing.and_then(|standing| standing.installed());
        let declared = installed.and_then(|installed| installed.declaration.as_ref());
        let declared = declared.or(standing.and_then(|standing| standing.declared())).map(|declared| &declared.declaration);
        // What was retired is told by what it last said.
        let declaration = declared.or(history.declarations().last().map(|announced| &announced.declaration));
        let version_of = |seq: u64| history.versions().iter().find(|version| version.seq == seq);
        Ok(Profile {
            kind: capability.kind,
            name: capability.name.as_str().to_owned(),
            stands: standing.map_or(Stands::Retired, Stands::of),
            declaration: declaration.map(Terms::of),
            waits: standing.filter(|standing| standing.is_pending()).and_then(|standing| Some(standing.declared()?.origin.seq)),
            installed: installed.map(|installed| InForce {
                seq: installed.seq,
                version: version_of(installed.seq).map_or(0, |version| version.number),
                author: installed.receipt.author().map(str::to_owned),
                occurred_at: version_of(installed.seq).map(|version| version.occurred_at.clone()).unwrap_or_default(),
            }),
            rejected: standing
                .and_then(|standing| standing.rejections().last())
                .map(|rejection| Open { seq: rejection.origin.seq, reason: rejection.reason.clone() }),
            page: installed.filter(|_| capability.kind == Kind::Projector).map(|installed| PageOf {
                path: path(capability),
                position: page,
                newest: newest_consumed(state, installed),
            }),
            flow: Flow::of(state, capability, declaration),
            compared: asked.compared.map(|compared| compare(history, compared)).transpose()?,
            versions: history.versions().to_vec(),
            versions_in_all: history.numbered(),
            history: history.steps().to_vec(),
            older_steps: history.older_steps(),
            capability: capability.clone(),
            form: installed.filter(|_| capability.kind == Kind::Command).and(declared.cloned()),
        })
    }
}

fn compare(history: &History, (from, to): (u64, u64)) -> Result<Versions, Nowhere> {
    let versions = history.versions();
    let none = |seq: u64| {
        let known: Vec<_> = versions.iter().rev().take(8).map(|version| version.seq.to_string()).collect();
        let known = if known.is_empty() { "it has none".to_owned() } else { format!("such are {}", known.join(", ")) };
        Nowhere::NoVersion(format!("no version has its receipt at {seq}; {known}"))
    };
    let at = |seq: u64| versions.iter().position(|version| version.seq == seq).ok_or_else(|| none(seq));
    let to = if to == 0 { versions.len().checked_sub(1).ok_or_else(|| none(0))? } else { at(to)? };
    let from = if from == 0 { to.saturating_sub(1) } else { at(from)? };
    let (old, new) = (&versions[from], &versions[to]);
    let script = old.script.as_deref().zip(new.script.as_deref()).and_then(|(old, new)| Difference::of(old, new));
    let said = |version: &Version| {
        let is_it = |announced: &&Announced| Some(announced.seq) == version.declaration;
        history.declarations().iter().find(is_it).map(|announced| Terms::of(&announced.declaration).lines())
    };
    let declaration = said(old).zip(said(new)).and_then(|(old, new)| Difference::of(&old, &new));
    Ok(Versions { from: old.seq, to: new.seq, script, declaration: declaration.filter(|difference| !difference.is_empty()) })
}

impl Profile {
    /// The title of its page.
    #[must_use]
    pub fn title(&self) -> String {
        format!("{} {}", self.kind.word(), self.name)
    }

    /// As a page.
    #[must_use]
    pub fn view(&self) -> Markup {
        html! {
            h1 { code { (word(&self.name)) } " " small.muted { (self.kind.word()) } }
            @if let Some(terms) = &self.declaration {
                @if !terms.description.is_empty() { p { (told(&terms.description)) } }
            }
            (self.standing())
            @if let Some(terms) = &self.declaration { (terms.view(self.kind)) }
            @if let Some(declaration) = &self.form {
                section { h2 { "Run it" } (command_form(&self.capability, Some(declaration), "run")) }
            }
            section { h2 { "What it takes and gives" } (self.flow.view(&self.capability)) }
            (self.scripts())
            (self.told())
            p.muted { a href=(format!("{}.json", page_of(&self.capability.to_string()))) { "As JSON" } " · " a href=(catalogue::PATH) { "All capabilities" } }
        }
    }

    fn standing(&self) -> Markup {
        let retired = self.history.iter().rev().find(|happened| matches!(happened.step, Step::Retired));
        html! {
            p.row {
                (self.stands.tag())
                @if let Some(InForce { seq, version, author, occurred_at }) = &self.installed {
                    span {
                        @if *version > 0 { "version " (version) " by " } @else { "by " }
                        span.who { (author.as_deref().map_or_else(|| "unknown".to_owned(), word)) }
                        ", " (when(occurred_at)) ", " span.good { "receipt verified" } ", " (event(*seq))
                    }
                }
                @if let (Stands::Retired, Some(retired)) = (self.stands, retired) { span { (when(&retired.occurred_at)) ", " (event(retired.seq)) } }
            }
            @if let Some(waits) = self.waits {
                p.warn { "Declared at " (event(waits)) ", and waits for a script" @if self.stands == Stands::Stalled { ", but is no longer offered after five rejections: declare it anew" } "." }
            }
            @if let Some(Open { seq, reason }) = &self.rejected {
                div.msg.danger { p { "The last script sent for it was rejected, " (event(*seq)) ":" } pre { (told(reason)) } }
            }
            @if self.stands == Stands::Unproven { p.danger { "Its receipts could not be checked, for want of the key." } }
            @if let Some(PageOf { path, position, newest }) = &self.page {
                p {
                    a href=(path) { "Its page" }
                    span.muted {
                        @match position {
                            Some(position) if position >= newest => { ", up to event " (position) },
                            Some(position) => { ", up to event " (position) "; event " (newest) " is not in it yet: it is made anew when it is opened" },
                            None => ", made when it is opened",
                        }
                    }
                }
            }
        }
    }

    fn scripts(&self) -> Markup {
        html! {
            section #versions {
                h2 { "Scripts" }
                @if self.versions.is_empty() { p.muted { "None was ever installed." } }
                @if self.versions.len() > 1 { (self.chooser()) }
                @if let Some(compared) = &self.compared { (self.compared(compared)) }
                @if (self.versions.len() as u64) < self.versions_in_all {
                    p.muted { "The newest " (self.versions.len()) " of " (self.versions_in_all) "." }
                }
                @for (at, version) in self.versions.iter().enumerate().rev() {
                    (self.version(version, at.checked_sub(1).map(|before| &self.versions[before])))
                }
            }
        }
    }

    fn version(&self, version: &Version, before: Option<&Version>) -> Markup {
        let is_in_force = self.installed.as_ref().is_some_and(|installed| installed.seq == version.seq);
        let proof = match version.proof {
            Proof::Verified => None,
            Proof::Undeclared => Some("signed here, but the declaration it seals does not stand: not in force"),
            Proof::Unverified => {
                Some("does not verify: the key did not sign this for this place, and nothing is installed by it")
            }
            Proof::Unproven => Some("not proven: there is no key to check it with"),
        };
        html! {
            details.card open[is_in_force && self.compared.is_none()] {
                summary {
                    "Version " (version.number) " by " span.who { (version.author.as_deref().map_or_else(|| "unknown".to_owned(), word)) }
                    ", " (when(&version.occurred_at)) " "
                    @if is_in_force { span.tag.good { "in force" } " " }
                    @if proof.is_some() { span.tag.danger { "not verified" } " " }
                    span.muted { (version.lines) (if version.lines == 1 { " line" } else { " lines" }) }
                }
                p.row {
                    span { (event(version.seq)) }
                    @if version.is_older { span { "a receipt of an older form" } }
                    span { "sha256 " code { (word(&version.sha256)) } }
                    @if let Some(before) = before {
                        a href=(format!("?from={}&to={}#versions", before.seq, version.seq)) { "diff to the one before" }
                    }
                }
                @if let Some(proof) = proof { p.danger { (proof) } }
                @match &version.script {
                    Some(script) => {
                        pre.script tabindex="0" role="region" aria-label=(format!("Script of version {}", version.number)) { (straight(cut(script, SCRIPT_BYTES_MAX))) }
                        @if script.len() > SCRIPT_BYTES_MAX {
                            p { "… " (script.len() - cut(script, SCRIPT_BYTES_MAX).len()) " bytes more: " (event(version.seq)) }
                        }
                    }
                    None => { p.muted {
                        "Its " (version.bytes) " bytes are over the " (SCRIPTS_BYTES_MAX >> 20) " MiB that the newer ones share here: " (event(version.seq))
                    } },
                }
            }
        }
    }

    fn chooser(&self) -> Markup {
        let chosen = self.compared.as_ref().map(|compared| (compared.from, compared.to));
        let newest = self.versions.len() - 1;
        let (from, to) = chosen.unwrap_or((self.versions[newest - 1].seq, self.versions[newest].seq));
        let options = |selected: u64| {
            html! {
                @for version in self.versions.iter().rev() {
                    option value=(version.seq) selected[version.seq == selected] { "version " (version.number) ", event " (version.seq) }
                }
            }
        };
        html! {
            form.choose method="get" action="#versions" {
                p { label for="from" { "From" } select #from name="from" { (options(from)) } }
                p { label for="to" { "To" } select #to name="to" { (options(to)) } }
                p { button type="submit" { "Compare" } }
            }
        }
    }

    fn compared(&self, Versions { from, to, script, declaration }: &Versions) -> Markup {
        let number = |seq: u64| self.versions.iter().find(|version| version.seq == seq).map_or(0, |version| version.number);
        let (from, to) = (number(*from), number(*to));
        html! {
            h3 { "From version " (from) " to version " (to) }
            @match script {
                None => { p { "A script has more than " (LINES_MAX) " lines: both are shown whole below, and not compared." } },
                Some(script) if script.is_empty() => { p { "The scripts are the same." } },
                Some(script) => (script.table("Script")),
            }
            @if let Some(declaration) = declaration { (declaration.table("Declaration")) }
        }
    }

    fn told(&self) -> Markup {
        html! {
            section {
                h2 { "History" }
                @if self.older_steps > 0 { p.muted { "The newest " (self.history.len()) " of " (self.older_steps + self.history.len() as u64) " steps." } }
                ol.log { @for happened in self.history.iter().rev() { (self.step(happened)) } }
            }
        }
    }

    fn step(&self, Happened { seq, occurred_at, via, by, step }: &Happened) -> Markup {
        html! {
            li {
                (when(occurred_at)) " "
                @match step {
                    Step::Declared => "declared",
                    Step::Installed { version, proof: Proof::Verified } => { span.good { "version " (version) " installed" } },
                    Step::Installed { version, proof: Proof::Undeclared | Proof::Unverified | Proof::Unproven } => {
                        span.danger { "version " (version) " recorded, and not in force" }
                    },
                    Step::Rejected { .. } => span.danger { "a script rejected" },
                    Step::Died { exit, .. } => { span.danger { "a run failed" } ", " (ending(exit)) },
                    Step::Retired => span.warn { "retired" },
                }
                @if let Some(by) = by { " by " span.who { (word(by)) } }
                " " span.muted { @if !via.is_empty() { "through " (word(via)) ", " } (event(*seq)) }
                @match step {
                    Step::Rejected { reason, excerpt, sha256 } => {
                        p { (told(reason)) " " (digest(sha256)) }
                        @if !excerpt.is_empty() { details { summary { "How it began" } pre { (told(excerpt)) } } }
                    },
                    Step::Died { stderr, sha256, .. } => { pre { (told(stderr)) } p { (digest(sha256)) } },
                    Step::Declared | Step::Installed { .. } | Step::Retired => {},
                }
            }
        }
    }
}

fn digest(sha256: &str) -> Markup {
    html! { @if !sha256.is_empty() { span.muted { "script " code { (word(cut(sha256, DIGEST_CHARS))) } } } }
}

/// How a run ended: an exit status, or a word such as `limit:time`.
fn ending(exit: &str) -> Markup {
    html! { @if exit.parse::<i64>().is_ok() { "exit " (exit) } @else { code { (word(exit)) } } }
}

fn event(seq: u64) -> Markup {
    html! { a href=(address(seq)) { "event " (seq) } }
}

fn when(occurred_at: &str) -> Markup {
    html! {
        @match moment::read(occurred_at) {
            Some(moment) => time datetime=(moment.strftime("%Y-%m-%dT%H:%M:%SZ")) title="UTC" { (moment.strftime("%Y-%m-%d %H:%M")) },
            None if occurred_at.is_empty() => "at no known time",
            None => (word(occurred_at)),
        }
    }
}
