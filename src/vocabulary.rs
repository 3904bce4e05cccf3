//! The vocabulary: the names the kernel acts on, and who may send each.
//!
//! One table, [`TABLE`]; no other file spells such a name. Names compare trimmed and without case. The set only grows. The
//! invariant: a name of the table lands in the log only through the doors and senders of its row.

use serde::Deserialize;

use crate::capability::{Declaration, Kind};
use crate::event::Door;
use crate::payload::Payload;

/// What travelled between homes is renamed by this prefix, and is inert.
pub const LINEAGE: &str = "lineage.";

/// A turn of a conversation that a command or a mind records; no vocabulary, but the kernel waits for its answer.
pub const CHAT_MESSAGE: &str = "chat.message";

/// A name the kernel acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// A home was made.
    KernelInitialized,
    /// A torn tail was set aside.
    LogRecovered,
    /// A signed checkpoint.
    LogSealed,
    /// A question to a mind.
    SelfAsked,
    /// A reflection was asked for.
    SelfReflected,
    /// A mind's answer.
    SelfReplied,
    /// A command was announced.
    CommandDeclared,
    /// A projector was announced.
    ProjectorDeclared,
    /// A capability left the surface.
    CapabilityRetired,
    /// A script from a mind; wire only.
    ScriptAuthored,
    /// A receipt.
    ScriptCompiled,
    /// A script the kernel would not install.
    ScriptRejected,
    /// A wire line or event the kernel would not take.
    EventRefused,
    /// A command's run failed.
    CapabilityDied,
    /// The telling of an account.
    IntentDeclared,
    /// An account was written.
    AccountGiven,
    /// An account was taken in.
    LessonLearned,
    /// Reserved.
    LearnOrchestrated,
    /// Reserved.
    CapabilityRevisionRequested,
    /// Reserved.
    KernelUpgraded,
}

/// A kind of door, as the table names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// `cli`
    Cli,
    /// `pipe`
    Pipe,
    /// `http:<addr>`
    Http,
    /// `kernel`
    Kernel,
}

/// A row of the vocabulary.
#[derive(Debug)]
pub struct Row {
    /// The word.
    pub word: Word,
    /// How it is spelled.
    pub name: &'static str,
    /// The doors it may come through.
    pub doors: &'static [Gate],
    /// Whether a mind may send it over the wire.
    pub mind: bool,
    /// Whether a command may emit it.
    pub command: bool,
}

const KERNEL: &[Gate] = &[Gate::Kernel];
const GROWING: &[Gate] = &[Gate::Pipe, Gate::Cli, Gate::Http];

/// The vocabulary, in the order of the documentation.
pub const TABLE: [Row; 20] = [
    row(Word::KernelInitialized, "kernel.initialized", KERNEL, false, false),
    row(Word::LogRecovered, "log.recovered", KERNEL, false, false),
    row(Word::LogSealed, "log.sealed", KERNEL, false, false),
    row(Word::SelfAsked, "self.asked", &[Gate::Pipe], false, false),
    row(Word::SelfReflected, "self.reflected", &[Gate::Pipe], false, false),
    row(Word::SelfReplied, "self.replied", &[Gate::Pipe], true, false),
    row(Word::CommandDeclared, "command.declared", GROWING, true, true),
    row(Word::ProjectorDeclared, "projector.declared", GROWING, true, true),
    row(Word::CapabilityRetired, "capability.retired", GROWING, true, true),
    row(Word::ScriptAuthored, "script.authored", &[], true, false),
    row(Word::ScriptCompiled, "script.compiled", KERNEL, false, false),
    row(Word::ScriptRejected, "script.rejected", KERNEL, false, false),
    row(Word::EventRefused, "event.refused", KERNEL, false, false),
    row(Word::CapabilityDied, "capability.died", KERNEL, false, false),
    row(Word::IntentDeclared, "intent.declared", &[Gate::Cli], false, false),
    row(Word::AccountGiven, "account.given", &[Gate::Cli], false, false),
    row(Word::LessonLearned, "lesson.learned", KERNEL, false, false),
    row(Word::LearnOrchestrated, "learn.orchestrated", &[], false, false),
    row(Word::CapabilityRevisionRequested, "capability.revision.requested", &[], false, false),
    row(Word::KernelUpgraded, "kernel.upgraded", &[], false, false),
];

const fn row(word: Word, name: &'static str, doors: &'static [Gate], mind: bool, command: bool) -> Row {
    Row { word, name, doors, mind, command }
}

impl Word {
    /// Finds the word a name means, trimmed and without case; `None` if the kernel does not act on it.
    #[must_use]
    pub fn of(name: &str) -> Option<Word> {
        let name = name.trim();
        TABLE.iter().find(|row| row.name.eq_ignore_ascii_case(name)).map(|row| row.word)
    }

    /// The word's row.
    #[must_use]
    pub fn row(self) -> &'static Row {
        TABLE.iter().find(|row| row.word == self).expect("the table has a row for each word")
    }

    /// How the word is spelled.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The kind of capability that an event of this name announces, if it announces one.
    #[must_use]
    #[allow(clippy::wildcard_enum_match_arm, reason = "two of twenty")]
    pub fn declares(self) -> Option<Kind> {
        match self {
            Word::CommandDeclared => Some(Kind::Command),
            Word::ProjectorDeclared => Some(Kind::Projector),
            _ => None,
        }
    }

    /// Whether an event of this name counts when it stands in the log behind this door. Older homes have records that do not
    /// say their door; those count.
    #[must_use]
    pub fn counts_through(self, via: Option<&Door<'_>>) -> bool {
        let gate = match via {
            None => return true,
            Some(Door::Cli) => Gate::Cli,
            Some(Door::Pipe) => Gate::Pipe,
            Some(Door::Kernel) => Gate::Kernel,
            Some(Door::Http(_)) => Gate::Http,
            Some(Door::Learn(_) | Door::Other(_)) => return false,
        };
        self.row().doors.contains(&gate)
    }
}

/// Whether a `chat.message` behind this door is a turn of the conversation: never one that an account brought.
#[must_use]
pub fn speaks_through(via: Option<&Door<'_>>) -> bool {
    match via {
        None | Some(Door::Cli | Door::Pipe | Door::Http(_)) => true,
        Some(Door::Kernel | Door::Learn(_) | Door::Other(_)) => false,
    }
}

/// Who sends a draft.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// A mind, over the wire.
    Mind,
    /// A command's script.
    Command,
}

/// Checks a draft's name and payload against the vocabulary. `Ok` bears the spelling to store for a vocabulary name, `Err` the
/// reason for a refusal.
pub fn admit(name: &str, payload: &Payload, sender: Sender) -> Result<Option<Word>, String> {
    let Some(word) = Word::of(name) else { return Ok(None) };
    let row = word.row();
    let (may, who) = match sender {
        Sender::Mind => (row.mind, "a mind"),
        Sender::Command => (row.command, "a command"),
    };
    if !may {
        let reserved = row.doors.is_empty() && !row.mind;
        return Err(if reserved { format!("`{}` is reserved", row.name) } else { format!("{who} may not send `{}`", row.name) });
    }
    fits(word, payload).map(|()| Some(word))
}

/// Checks that a payload has what the word's row names. The other words have no payload that comes from outside.
fn fits(word: Word, payload: &Payload) -> Result<(), String> {
    let declares = |kind| Declaration::read(kind, payload.as_ref()).map(drop).map_err(|fault| fault.to_string());
    if word == Word::SelfReplied && payload.parse::<Text>().is_none() {
        return Err("`self.replied` needs a payload with a string `text`".into());
    }
    if word == Word::CapabilityRetired {
        let target =
            payload.parse::<Target>().ok_or("`capability.retired` needs a payload with the strings `type` and `name`")?;
        Kind::read(target.kind.trim())
            .ok_or_else(|| format!("`capability.retired` needs the type `command` or `projector`, not `{}`", target.kind))?;
    }
    match word.declares() {
        Some(kind) => declares(kind),
        None => Ok(()),
    }
}

#[derive(Deserialize)]
struct Text {
    #[allow(dead_code, reason = "its presence is what is checked")]
    text: String,
}

#[derive(Deserialize)]
struct Target {
    #[serde(rename = "type")]
    kind: String,
    #[allow(dead_code, reason = "its presence is what is checked")]
    name: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of DESIGN §1.1, told again so that a slip in the code shows: name, doors, mind, command.
    const ROWS: [(&str, &str, bool, bool); 20] = [
        ("kernel.initialized", "kernel", false, false),
        ("log.recovered", "kernel", false, false),
        ("log.sealed", "kernel", false, false),
        ("self.asked", "pipe", false, false),
        ("self.reflected", "pipe", false, false),
        ("self.replied", "pipe", true, false),
        ("command.declared", "pipe cli http:1", true, true),
        ("projector.declared", "pipe cli http:1", true, true),
        ("capability.retired", "pipe cli http:1", true, true),
        ("script.authored", "", true, false),
        ("script.compiled", "kernel", false, false),
        ("script.rejected", "kernel", false, false),
        ("event.refused", "kernel", false, false),
        ("capability.died", "kernel", false, false),
        ("intent.declared", "cli", false, false),
        ("account.given", "cli", false, false),
        ("lesson.learned", "kernel", false, false),
        ("learn.orchestrated", "", false, false),
        ("capability.revision.requested", "", false, false),
        ("kernel.upgraded", "", false, false),
    ];

    #[test]
    fn every_row_has_its_doors_and_senders() {
        assert_eq!(ROWS.len(), TABLE.len());
        for (name, doors, mind, command) in ROWS {
            let word = Word::of(name).unwrap();
            assert_eq!((word.name(), word.row().mind, word.row().command), (name, mind, command));
            for door in ["cli", "pipe", "kernel", "http:1", "learn:x", "telnet"] {
                let expect = doors.split_whitespace().any(|gate| gate == door);
                assert_eq!(word.counts_through(Some(&Door::read(door.into()))), expect, "{name} through {door}");
            }
        }
    }

    #[test]
    fn a_name_means_the_same_in_any_case_and_with_blanks() {
        for name in ["SCRIPT.compiled", " script.compiled", "Script.Compiled\t"] {
            assert_eq!(Word::of(name), Some(Word::ScriptCompiled), "{name}");
        }
        for name in ["chat.message", "lineage.script.compiled", "script", "script.compile"] {
            assert_eq!(Word::of(name), None, "{name}");
        }
    }

    #[track_caller]
    fn check(name: &str, payload: &str, sender: Sender, expect: Result<Option<Word>, &str>) {
        let payload = Payload::read(payload).unwrap();
        assert_eq!(admit(name, &payload, sender), expect.map_err(str::to_owned));
    }

    #[test]
    fn a_word_from_the_wrong_sender_is_refused() {
        for row in &TABLE {
            let payload = r#"{"text":"x","type":"command","name":"x"}"#;
            for (sender, may) in [(Sender::Mind, row.mind), (Sender::Command, row.command)] {
                let taken = admit(&row.name.to_uppercase(), &Payload::read(payload).unwrap(), sender);
                assert_eq!(taken.is_ok(), may, "{} from {sender:?}: {taken:?}", row.name);
            }
        }
        check("note.added", "null", Sender::Mind, Ok(None));
        check("Log.Sealed", "{}", Sender::Mind, Err("a mind may not send `log.sealed`"));
        check("kernel.upgraded", "{}", Sender::Command, Err("`kernel.upgraded` is reserved"));
    }

    #[test]
    fn a_payload_has_what_its_row_names() {
        check("self.replied", r#"{"text":"hi"}"#, Sender::Mind, Ok(Some(Word::SelfReplied)));
        check("self.replied", "{}", Sender::Mind, Err("`self.replied` needs a payload with a string `text`"));
        check("self.replied", r#"{"text":1}"#, Sender::Mind, Err("`self.replied` needs a payload with a string `text`"));
        check(
            "capability.retired",
            r#"{"type":"command"}"#,
            Sender::Mind,
            Err("`capability.retired` needs a payload with the strings `type` and `name`"),
        );
        check(
            "capability.retired",
            r#"{"type":"tool","name":"x"}"#,
            Sender::Mind,
            Err("`capability.retired` needs the type `command` or `projector`, not `tool`"),
        );
        check("command.declared", r#"{"name":"note"}"#, Sender::Command, Ok(Some(Word::CommandDeclared)));
    }
}
