//! Completing: what a shell offers for the word that is being typed.
//!
//! The shell's script calls `self` at each Tab, which answers from the command line's own table and, for names of capabilities and
//! events, from the home's index as it was written last; the log itself is read only where there is none. Never appends to the log,
//! and says nothing on stderr. The invariant: what is offered from a home is a word that no shell reads as anything else.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;

use clap::{Command, ValueEnum, ValueHint};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::{Bash, EnvCompleter, Fish, Zsh};

use crate::capability::Kind;
use crate::kernel::{Kernel, View};
use crate::snapshot::Snapshot;

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
    let offer = |names: fn(&Snapshot) -> Vec<String>| {
        let kernel = Arc::clone(&kernel);
        ArgValueCandidates::new(move || candidates(known(&kernel).map(|known| names(&known)).unwrap_or_default()))
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

/// What is known of the home; what was appended by another program since is not waited for.
fn known(kernel: &Kernel) -> Option<Snapshot> {
    let View { mut index, .. } = kernel.unread();
    index.remembered(&kernel.home.places()).or_else(|| Some(Snapshot::of(&kernel.look().ok()?.state)))
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

fn installed(known: &Snapshot, kind: Kind) -> impl Iterator<Item = String> {
    let of_kind = known.capabilities().filter(move |(own, name, is_installed)| *own == kind && *is_installed && is_plain(name));
    of_kind.map(|(_, name, _)| name.to_owned())
}

fn commands(known: &Snapshot) -> Vec<String> {
    installed(known, Kind::Command).collect()
}

fn pages(known: &Snapshot) -> Vec<String> {
    let all: BTreeSet<_> = installed(known, Kind::Projector).chain(PAGES.map(str::to_owned)).collect();
    all.into_iter().collect()
}

fn capabilities(known: &Snapshot) -> Vec<String> {
    let all = known.capabilities().map(|(kind, name, _)| format!("{}/{name}", kind.word()));
    all.filter(|name| is_plain(name)).collect()
}

fn events(known: &Snapshot) -> Vec<String> {
    known.names().into_iter().filter(|name| is_plain(name)).map(str::to_owned).collect()
}

/// Capabilities, names of events, and their first segments with the dot behind.
fn selectors(known: &Snapshot) -> Vec<String> {
    let mut all: BTreeSet<String> = capabilities(known).into_iter().chain(events(known)).collect();
    all.extend(events(known).iter().filter_map(|name| name.split_once('.')).map(|(segment, _)| format!("{segment}.")));
    all.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Line;
    use crate::state::State;

    #[test]
    fn only_plain_words_are_offered_from_a_home() {
        let mut state = State::new(None);
        for name in ["note.taken", "note.a", "x $(rm).y", "a\n.b", "-n.x", "é.b", "`x`.y", "a'b.c"] {
            let line = serde_json::json!({ "seq": 1, "name": name }).to_string();
            let Line::Record(record) = Line::read(line.as_bytes()) else { panic!("{line}") };
            state.apply(&record.at(1));
        }
        let known = Snapshot::of(&state);
        assert_eq!(events(&known), ["note.a", "note.taken", "é.b"]);
        assert_eq!(selectors(&known), ["note.", "note.a", "note.taken", "é.", "é.b"]);
        assert_eq!(pages(&known), PAGES);
    }
}
