//! Changes: what happened since somebody looked, by whom and through which door.
//!
//! A model of the newest events, and a view of it. What one speaker did through one door stands together, the newest first, and runs of
//! one kind are folded. Pure; knows neither cookies nor the clock. The invariant: what is left out is counted.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use maud::{Markup, html};
use serde::Serialize;

use crate::entry::address;
use crate::form::encoded;
use crate::state::State;
use crate::telling::Told;

/// How many of the newest events changes are made of.
pub const EVENTS_MAX: usize = 1_000;

/// How many events somebody's first visit shows.
const FIRST_MAX: usize = 24;

/// How many groups are shown.
const GROUPS_MAX: usize = 8;

/// How many runs of a group are shown.
const RUNS_MAX: usize = 6;

/// From how many events of one kind on a run is folded.
const FOLDS_AT: usize = 3;

/// How much of a speaker's name stands in a heading, in characters.
const WHO_CHARS_MAX: usize = 40;

/// How many events of a run that is folded are shown.
const FOLDED_MAX: usize = 20;

/// What happened since somebody looked.
#[derive(Debug, Serialize)]
pub struct Changes {
    /// The number of the newest event that was seen then; 0 for a first visit.
    pub since: u64,
    /// How many events came since.
    pub events: u64,
    /// How many of them, the newest, the groups are made of.
    pub looked_at: usize,
    /// By whom and through which door; whoever did something last is first.
    pub groups: Vec<Group>,
    /// How many groups are left out.
    pub groups_left_out: usize,
}

/// What somebody did through one door.
#[derive(Debug, Serialize)]
pub struct Group {
    /// Who the caller said it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The text of the door; empty where the records do not say.
    pub via: String,
    /// How many events.
    pub events: usize,
    /// The oldest of them.
    pub oldest: Told,
    /// The events, runs of one name together, newest first.
    pub runs: Vec<Run>,
    /// How many events are left out.
    pub left_out: usize,
}

/// Events of one name, one behind the other.
#[derive(Debug, Serialize)]
pub struct Run {
    /// The name.
    pub name: String,
    /// How many.
    pub events: usize,
    /// The newest of them, newest first.
    pub newest: Vec<Told>,
}

impl Changes {
    /// What happened since the event of this number: of what the log says, and its newest events, newest first.
    #[must_use]
    pub fn of(state: &State, newest: &[Told], since: u64) -> Changes {
        let most = if since == 0 { FIRST_MAX } else { EVENTS_MAX };
        let fresh: Vec<&Told> = newest.iter().filter(|told| told.seq > since).take(most).collect();
        let mut by_whom: BTreeMap<(&Option<String>, &str), Vec<&Told>> = BTreeMap::new();
        for told in &fresh {
            by_whom.entry((&told.by, &told.via)).or_default().push(told);
        }
        let mut groups: Vec<Vec<&Told>> = by_whom.into_values().collect();
        groups.sort_by_key(|group| Reverse(group.first().map(|told| told.seq)));
        let groups_left_out = groups.len().saturating_sub(GROUPS_MAX);
        groups.truncate(GROUPS_MAX);
        Changes {
            since,
            events: if since == 0 { state.events() } else { state.seq().saturating_sub(since) },
            looked_at: fresh.len(),
            groups: groups.iter().filter_map(|group| grouped(group)).collect(),
            groups_left_out,
        }
    }
}

/// The events of one speaker through one door, newest first, as a group.
fn grouped(events: &[&Told]) -> Option<Group> {
    let (newest, oldest) = (events.first()?, events.last()?);
    let (mut runs, mut shown): (Vec<Run>, usize) = (Vec::new(), 0);
    for told in events {
        let is_full = runs.len() == RUNS_MAX;
        match runs.last_mut().filter(|run| run.name == told.name) {
            Some(run) => {
                run.events += 1;
                if run.newest.len() < FOLDED_MAX {
                    run.newest.push((*told).clone());
                }
            }
            None if is_full => break,
            None => runs.push(Run { name: told.name.clone(), events: 1, newest: vec![(*told).clone()] }),
        }
        shown += 1;
    }
    Some(Group {
        by: newest.by.clone(),
        via: newest.via.clone(),
        events: events.len(),
        oldest: (*oldest).clone(),
        runs,
        left_out: events.len() - shown,
    })
}

/// Changes as a section; moments of this day are told by the hour alone.
#[must_use]
pub fn changes(changes: &Changes, day: &str) -> Markup {
    let Changes { since, events, looked_at, groups, groups_left_out } = changes;
    html! {
        section {
            h2 { @if *since == 0 { "What happened" } @else { "Since your last visit" } }
            p {
                @match (*since, *events) {
                    (0, 0) => "Nothing happened yet.",
                    (_, 0) => "Nothing happened since.",
                    (_, 1) => "1 event.",
                    (_, count) => { (count) " events" @if (*looked_at as u64) < count { "; of these the newest " (looked_at) } "." },
                }
                " " a href="/-/log" { "All of the log" }
            }
            @for group in groups { (group_of(group, day)) }
            @if *groups_left_out > 0 { p.muted { (groups_left_out) " more speakers and doors." } }
        }
    }
}

fn group_of(group: &Group, day: &str) -> Markup {
    let newest = group.runs.first().and_then(|run| run.newest.first());
    html! {
        section.group {
            h3 {
                (who(group))
                @if group.via != "kernel" { " " span.muted { (door(&group.via)) } }
            }
            p.muted {
                span.num { (group.events) } @if group.events == 1 { " event, " } @else { " events, " }
                @if newest.is_some_and(|newest| !at_once(&group.oldest, newest)) { (moment(&group.oldest, day)) " – " }
                @if let Some(newest) = newest { (moment(newest, day)) }
            }
            ol.happened {
                @for run in &group.runs {
                    @match run.newest.first() {
                        Some(newest) if run.events >= FOLDS_AT => li.folded.muted[run.newest.iter().all(|told| told.quiet)] { details {
                            summary { (moment(newest, day)) " " span.what { code { (run.name) } " " span.tag { "× " (run.events) } " " bdi { (newest.text) } } }
                            ol.happened {
                                @for told in &run.newest { (entry(told, day)) }
                                @if run.events > run.newest.len() { li.muted { (run.events - run.newest.len()) " more" } }
                            }
                        } },
                        Some(_) | None => @for told in &run.newest { (entry(told, day)) },
                    }
                }
            }
            @if group.left_out > 0 { p.muted { a href=(all_of(group)) { (group.left_out) " more" } } }
        }
    }
}

/// Where all that somebody did through a door is.
fn all_of(group: &Group) -> String {
    let by = group.by.as_deref().map(|by| format!("by={}&", encoded(by))).unwrap_or_default();
    format!("/-/log?{by}via={}", encoded(&group.via))
}

fn who(group: &Group) -> Markup {
    match &group.by {
        Some(by) => match by.char_indices().nth(WHO_CHARS_MAX) {
            Some((at, _)) => html! { bdi.who { (by[..at]) "…" } },
            None => html! { bdi.who { (by) } },
        },
        None if group.via == "kernel" => html! { "The kernel" },
        None => html! { "No name given" },
    }
}

/// A door in words.
fn door(via: &str) -> Markup {
    let (words, rest) = match (via, via.split_once(':')) {
        ("cli", _) => ("at the command line", ""),
        ("pipe", _) => ("through the pipe", ""),
        ("kernel", _) => ("", ""),
        ("", _) => ("through a door that is not recorded", ""),
        (_, Some(("http", client))) => ("through the server, from", client),
        (_, Some(("learn", account))) => ("learned from", account),
        (other, _) => ("through", other),
    };
    html! { (words) @if !rest.is_empty() { " " bdi { (rest) } } }
}

fn entry(told: &Told, day: &str) -> Markup {
    html! {
        li class=[told.quiet.then_some("muted")] {
            (moment(told, day)) " "
            span.what { code { (told.name) } " " bdi { (told.text) } }
            " " a.seq href=(address(told.seq)) aria-label=(format!("Event {}", told.seq)) { "#" (told.seq) }
        }
    }
}

/// Whether two events are of the same minute.
fn at_once(one: &Told, other: &Told) -> bool {
    let minute = |told: &Told| told.moment.map(|moment| moment.as_second().div_euclid(60));
    minute(one) == minute(other)
}

/// A moment by UTC: of the day in question by the hour alone, of its year without the year.
fn moment(told: &Told, day: &str) -> Markup {
    let Some(moment) = told.moment else { return html! { span.muted { "no known time" } } };
    let whole = moment.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let form = match whole.get(..10) == Some(day) {
        true => "%H:%M",
        false if whole.get(..4) == day.get(..4) => "%b %-d, %H:%M",
        false => "%Y-%m-%d %H:%M",
    };
    html! { time datetime=(whole) { (moment.strftime(form)) } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    /// Events as told, the newest first, out of lines of a number, a speaker, a door and a name.
    fn told(lines: &str) -> Vec<Told> {
        let read = |line: &str| {
            let words: Vec<_> = line.split_whitespace().collect();
            let [seq, by, via, name] = words[..] else { panic!("{line}") };
            let occurred_at = format!("2026-11-30T10:{:02}:00Z", seq.parse::<u64>().unwrap() % 60);
            Told {
                seq: seq.parse().unwrap(),
                name: name.to_owned(),
                by: (by != "-").then(|| by.to_owned()),
                via: via.to_owned(),
                moment: occurred_at.parse().ok(),
                occurred_at,
                text: format!("told {seq}"),
                quiet: false,
            }
        };
        lines.lines().map(read).rev().collect()
    }

    /// The groups, a line each: who, how many, its runs, what is left out.
    fn shape(changes: &Changes) -> String {
        let mut shape = String::new();
        for group in &changes.groups {
            write!(shape, "{} {} {}:", group.by.as_deref().unwrap_or("-"), group.via, group.events).unwrap();
            group.runs.iter().for_each(|run| write!(shape, " {}x{}", run.name, run.events).unwrap());
            writeln!(shape, " +{}", group.left_out).unwrap();
        }
        shape
    }

    #[test]
    fn what_one_speaker_did_through_one_door_stands_together() {
        let newest = told(
            "1 ada cli a.b\n2 ada cli a.b\n3 bob cli a.b\n4 ada cli a.b\n5 ada pipe a.b\n6 - kernel c.d\n7 ada cli e.f\n8 bob cli a.b",
        );
        let changes = Changes::of(&State::new(None), &newest, 1);
        assert_eq!(
            shape(&changes),
            "bob cli 2: a.bx2 +0\nada cli 3: e.fx1 a.bx2 +0\n- kernel 1: c.dx1 +0\nada pipe 1: a.bx1 +0\n"
        );
        assert_eq!(changes.looked_at, 7);
    }

    #[test]
    fn what_is_left_out_is_counted() {
        let mixed: String = (1..=30).map(|seq| format!("{seq} ada cli n{}.x\n", seq % 2)).collect();
        let changes = Changes::of(&State::new(None), &told(&mixed), 10);
        assert_eq!(shape(&changes), "ada cli 20: n0.xx1 n1.xx1 n0.xx1 n1.xx1 n0.xx1 n1.xx1 +14\n");
        let many: String = (1..=30).map(|seq| format!("{seq} s{seq} cli a.b\n")).collect();
        let changes = Changes::of(&State::new(None), &told(&many), 1);
        assert_eq!((changes.groups.len(), changes.groups_left_out), (GROUPS_MAX, 29 - GROUPS_MAX));
        let alike: String = (1..=900).map(|seq| format!("{seq} ada cli a.b\n")).collect();
        let changes = Changes::of(&State::new(None), &told(&alike), 1);
        assert_eq!((shape(&changes).as_str(), changes.groups[0].runs[0].newest.len()), ("ada cli 899: a.bx899 +0\n", FOLDED_MAX));
        let page = super::changes(&changes, "2026-11-30").into_string();
        assert!(page.contains("× 899") && page.contains(&format!("{} more", 899 - FOLDED_MAX)), "{page}");
    }

    #[test]
    fn a_moment_is_as_short_as_it_is_clear() {
        let at = |day: &str| moment(&told("7 a cli b.c")[0], day).into_string();
        assert_eq!(at("2026-11-30"), r#"<time datetime="2026-11-30T10:07:00Z">10:07</time>"#);
        assert_eq!(at("2026-12-01"), r#"<time datetime="2026-11-30T10:07:00Z">Nov 30, 10:07</time>"#);
        assert_eq!(at("2027-01-01"), r#"<time datetime="2026-11-30T10:07:00Z">2026-11-30 10:07</time>"#);
    }
}
