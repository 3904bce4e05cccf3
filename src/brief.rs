//! The brief and the margin: where you are, for whoever starts cold.
//!
//! Pure views of the state. The brief is the same bytes for the same log, whatever the path or the moment; what depends on the
//! machine stands in the margin. The invariant: the brief has at most [`BRIEF_CHARS_MAX`] characters, whatever the log holds.

use std::fmt::Write;

use crate::capability::{Capability, Kind, argument};
use crate::contract::FINDING;
use crate::level::Level;
use crate::log::Position;
use crate::quotation::{flattened, origin};
use crate::standing::{Installed, STALLED_AT, Standing};
use crate::state::State;
use crate::task::Task;

/// The longest brief, in characters.
pub const BRIEF_CHARS_MAX: usize = 9_500;

/// How much of one catalogue line is shown, in characters.
const LINE_CHARS_MAX: usize = 400;

/// How many capabilities of a kind the margin names.
const MARGIN_LINES_MAX: usize = 8;

const GUIDE: &str = "\
# The brief

This directory is a home of `self`: one append-only log, `events.jsonl`, and what is rebuilt from it. What is not in the log did \
not happen.

- **Say who you are**: set `SELF_CALLER`, and `SELF_MIND_ID` if you write scripts. Without them your entries bear no name, and nobody \
can weigh or ask after what you said.
- **Read** through projections, `self show <name>`; the log itself is one JSON object a line, for `grep` and `jq`. Never read by running \
a command: what it prints is logged.
- **Write** through commands, `self run <name> [args…]`; where none fits, send one event a line to `self hear`.
- **Extend**: declare a command or a page that is missing; the next mind is asked for its script.
- **Summarise** when a thread has served: one event that says what it came to.
- **The loop**: `echo \"…\" | self | <mind> | self`. A first `self` makes a prompt, a mind answers, the second records the answer. \
`self quiet` says whether work waits.
";

/// No count of events stands here: the brief changes only when the surface does, so an ask writes no page.
const DEPTH: &str = "\n## Depth\n\n`self protocol` has the contracts. ";

/// Writes the brief.
#[must_use]
pub fn brief(state: &State) -> String {
    let mut text = GUIDE.to_owned();
    let room = BRIEF_CHARS_MAX - [GUIDE, DEPTH, FINDING].iter().map(|part| part.chars().count()).sum::<usize>();
    text.push_str(&catalogue(state, room));
    text.push_str(DEPTH);
    text.push_str(FINDING);
    text
}

fn catalogue(state: &State, room: usize) -> String {
    let mut text = String::new();
    for (kind, title, none) in [
        (Kind::Command, "\n## Commands\n\n", "None is installed.\n"),
        (Kind::Projector, "\n## Projections\n\n", "None is installed.\n"),
    ] {
        text.push_str(title);
        let installed: Vec<_> = state
            .capabilities()
            .filter(|(capability, _)| capability.kind == kind)
            .filter_map(|(capability, standing)| Some(entry(capability, standing.installed()?)))
            .collect();
        if installed.is_empty() {
            text.push_str(none);
        }
        let share = if kind == Kind::Command { room / 2 } else { room.saturating_sub(text.chars().count()) };
        text.push_str(&fitting(&installed, share.saturating_sub(200)));
    }
    text
}

/// As many lines as fit, and a word on how many more there are.
fn fitting(lines: &[String], room: usize) -> String {
    let mut text = String::new();
    let mut used = 0;
    for (at, line) in lines.iter().enumerate() {
        used += line.chars().count();
        if used > room {
            let _ = writeln!(text, "- … and {} more: their declarations stand in the log", lines.len() - at);
            break;
        }
        text.push_str(line);
    }
    text
}

/// One line of the catalogue.
fn entry(capability: &Capability, installed: &Installed) -> String {
    let mut line = format!("- `{}`", flattened(capability.name.as_str()));
    if let Some(declared) = &installed.declaration {
        let declaration = &declared.declaration;
        for (param, type_word) in &declaration.params {
            let _ = write!(line, " {}", argument(param, type_word, flattened));
        }
        if let Some(event) = &declaration.event {
            let fields: Vec<_> = event.fields.keys().map(|field| flattened(field)).collect();
            let _ = write!(line, " → {} {{{}}}", flattened(&event.name), fields.join(", "));
        }
        if capability.kind == Kind::Projector {
            let names: Vec<_> = declaration.consumes.iter().map(|name| flattened(name)).collect();
            let _ = write!(line, " reads {}", if names.is_empty() { "everything".to_owned() } else { names.join(", ") });
        }
        if !declaration.needs.is_empty() {
            let needs: Vec<_> = declaration.needs.iter().map(|need| flattened(&need.to_string())).collect();
            let _ = write!(line, " [needs {}]", needs.join(", "));
        }
        if !declaration.description.is_empty() {
            let _ = write!(line, ": {}", flattened(&declaration.description));
        }
    }
    let mut cut: String = line.chars().take(LINE_CHARS_MAX).collect();
    if cut.len() < line.len() {
        cut.push('…');
    }
    cut.push('\n');
    cut
}

/// Writes the margin: what waits, what is wrong, and the next line to type.
#[must_use]
pub fn margin(state: &State, position: &Position, level: Level) -> String {
    let mut text = String::new();
    let pending = state.pending();
    for (capability, standing) in pending.iter().take(MARGIN_LINES_MAX) {
        let _ = writeln!(text, "pending: {} waits for a script{}", flattened(&capability.to_string()), stalled(standing));
    }
    if pending.len() > MARGIN_LINES_MAX {
        let _ = writeln!(text, "pending: and {} more", pending.len() - MARGIN_LINES_MAX);
    }
    let open = state.capabilities().filter_map(|(capability, standing)| Some((capability, standing.rejections().last()?)));
    for (capability, rejection) in open.take(MARGIN_LINES_MAX) {
        let _ = writeln!(text, "rejected: {}: {}", flattened(&capability.to_string()), flattened(&rejection.reason));
    }
    for notice in state.notices().iter().rev().take(MARGIN_LINES_MAX) {
        let subject = if notice.subject.is_empty() { "a line" } else { &notice.subject };
        let _ = writeln!(text, "refused: {} {}: {}", origin(&notice.origin), flattened(subject), flattened(&notice.reason));
    }
    if let Some(turn) = state.waiting() {
        let _ = writeln!(text, "waiting: a chat message {} has no answer", origin(&turn.origin));
    }
    let unproven = state.capabilities().filter(|(_, standing)| standing.is_unproven()).count();
    if unproven > 0 {
        let _ = writeln!(text, "unproven: {unproven} capabilities, for want of the key; restore .secret");
    }
    if let Some(first) = position.damage.first() {
        let more = position.damaged - 1;
        let more = if more == 0 { String::new() } else { format!(", and {more} more") };
        let _ = writeln!(text, "damaged: line {} at byte {}{more}; it is passed over and kept", first.line, first.offset);
    }
    let _ = writeln!(text, "scripts: at level {level} of confinement, {}", level.meaning());
    text.push_str(if Task::of(state) == Task::Reflect {
        "next: echo \"…\" | self | <mind> | self\n"
    } else {
        "next: self | <mind> | self\n"
    });
    text
}

fn stalled(standing: &Standing) -> String {
    match standing.is_stalled() {
        true => format!(", and is no longer offered after {STALLED_AT} rejections; declare it anew"),
        false => String::new(),
    }
}
