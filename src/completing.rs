//! Completing: what a shell offers for the word that is being typed.
//!
//! The shell's script calls `self` at each Tab, which answers from the command line's own table and, for names of capabilities and
//! events, from the home. Never writes to the home, and says nothing on stderr. The invariant: what is offered from a home is a
//! word that no shell reads as anything else.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;

use clap::{Command, ValueEnum, ValueHint};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::{Bash, EnvCompleter, Fish, Zsh};

use crate::capability::Kind;
use crate::kernel::Kernel;
use crate::state::State;

/// The variable by which a shell's script asks.
pub const VARIABLE: &str = "SELF_COMPLETE";

/// The program's name, for which a shell completes and which its script calls.
const PROGRAM: &str = "self";

/// Pages that are in every home.
const PAGES: [&str; 2] = ["brief", "kernel"];

/// The doors that `self log --via` knows.
const DOORS: [&str; 5] = ["cli", "pipe", "kernel", "http", "learn"];

/// A shell that can be told how to complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// bash 4.4 or newer
    Bash,
    /// zsh
    Zsh,
    /// fish
    Fish,
}

impl Shell {
    fn completer(self) -> &'static dyn EnvCompleter {
        match self {
            Shell::Bash => &Bash,
            Shell::Zsh => &Zsh,
            Shell::Fish => &Fish,
        }
    }

    /// The script that makes this shell ask.
    pub fn script(self) -> io::Result<Vec<u8>> {
        let mut script = Vec::new();
        self.completer().write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script)?;
        Ok(script)
    }

    /// The answer to a shell that asks about these words, in its own form.
    pub fn answer(self, command: &mut Command, words: Vec<OsString>, folder: &Path) -> io::Result<Vec<u8>> {
        let mut answer = Vec::new();
        command.build();
        self.completer().write_complete(command, words, Some(folder), &mut answer)?;
        Ok(answer)
    }
}

/// The command line, with what its arguments can be in this home.
#[must_use]
pub fn informed(command: Command, kernel: Kernel) -> Command {
    let kernel = Arc::new(kernel);
    let offer = |names: fn(&State) -> Vec<String>| {
        let kernel = Arc::clone(&kernel);
        ArgValueCandidates::new(move || candidates(kernel.look().map(|view| names(&view.state)).unwrap_or_default()))
    };
    command.mut_subcommands(|verb| {
        let name = verb.get_name().to_owned();
        verb.mut_args(|argument| match (name.as_str(), argument.get_id().as_str()) {
            ("run", "command") => argument.add(offer(commands)),
            ("show", "projection") => argument.add(offer(pages)),
            ("retire", "capability") => argument.add(offer(capabilities)),
            ("give", "selector") => argument.add(offer(selectors)),
            ("run", "arguments") => argument.value_hint(ValueHint::AnyPath),
            ("learn", "account") | ("give", "dir") => argument.value_hint(ValueHint::DirPath),
            ("log", "name") => argument.add(offer(events)),
            ("log", "via") => argument.add(ArgValueCandidates::new(|| candidates(DOORS.map(str::to_owned).into()))),
            ("log" | "ask", _) if argument.get_action().takes_values() => argument.value_hint(ValueHint::Other),
            _ => argument,
        })
    })
}

fn candidates(names: Vec<String>) -> Vec<CompletionCandidate> {
    names.into_iter().map(CompletionCandidate::new).collect()
}

/// Whether a shell reads a name as one plain word.
fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with('-')
        && name.chars().all(|char| char.is_alphanumeric() || matches!(char, '.' | '_' | '-' | '/'))
}

fn installed(state: &State, kind: Kind) -> impl Iterator<Item = String> {
    let standing = state.capabilities().filter(move |(capability, standing)| {
        capability.kind == kind && standing.installed().is_some() && is_plain(capability.name.as_str())
    });
    standing.map(|(capability, _)| capability.name.as_str().to_owned())
}

fn commands(state: &State) -> Vec<String> {
    installed(state, Kind::Command).collect()
}

fn pages(state: &State) -> Vec<String> {
    let all: BTreeSet<_> = installed(state, Kind::Projector).chain(PAGES.map(str::to_owned)).collect();
    all.into_iter().collect()
}

fn capabilities(state: &State) -> Vec<String> {
    state.capabilities().map(|(capability, _)| capability.to_string()).filter(|name| is_plain(name)).collect()
}

fn events(state: &State) -> Vec<String> {
    state.names().filter(|name| is_plain(name)).map(str::to_owned).collect()
}

/// Capabilities, names of events, and their first segments with the dot behind.
fn selectors(state: &State) -> Vec<String> {
    let mut all: BTreeSet<String> = capabilities(state).into_iter().chain(events(state)).collect();
    all.extend(events(state).iter().filter_map(|name| name.split_once('.')).map(|(segment, _)| format!("{segment}.")));
    all.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Line;

    #[test]
    fn only_plain_words_are_offered_from_a_home() {
        let mut state = State::new(None);
        for name in ["note.taken", "note.a", "x $(rm).y", "a\n.b", "-n.x", "é.b", "`x`.y", "a'b.c"] {
            let line = serde_json::json!({ "seq": 1, "name": name }).to_string();
            let Line::Record(record) = Line::read(line.as_bytes()) else { panic!("{line}") };
            state.apply(&record.at(1));
        }
        assert_eq!(events(&state), ["note.a", "note.taken", "é.b"]);
        assert_eq!(selectors(&state), ["note.", "note.a", "note.taken", "é.", "é.b"]);
        assert_eq!(pages(&state), PAGES);
    }
}
