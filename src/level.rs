//! Levels of confinement: how far a script is held to what was granted, and how far the user wants that.
//!
//! Only words and their order; what a level does stands in `confine`. The invariant: a level further down holds nothing that one
//! above it does not hold.

use std::fmt;

/// How far a script is held to what was granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Time, output, memory, processes: nothing is contained.
    Limits,
    /// Files and system calls too.
    Landlock,
    /// And it reaches no process, network or shared memory but its own.
    Full,
}

impl Level {
    /// Every level, the highest first.
    pub const ALL: [Level; 3] = [Level::Full, Level::Landlock, Level::Limits];

    /// Reads a level's word.
    #[must_use]
    pub fn read(word: &str) -> Option<Level> {
        Level::ALL.into_iter().find(|level| level.word() == word)
    }

    /// The level's word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Level::Limits => "limits",
            Level::Landlock => "landlock",
            Level::Full => "full",
        }
    }

    /// What it means for whoever writes or runs a script, as the end of a sentence.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Level::Limits => "they are not confined, and can touch all that you can",
            Level::Landlock => "they touch only what their needs say",
            Level::Full => "they touch only what their needs say, and reach no other process",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.word())
    }
}

/// What the user wants: `SELF_SANDBOX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sandbox {
    /// The best that the machine has.
    #[default]
    Auto,
    /// The same, but below [`Level::Landlock`] nothing runs.
    Require,
    /// Limits, and no confinement.
    Off,
}

impl Sandbox {
    /// Reads a value; an empty one counts as unset.
    #[must_use]
    pub fn read(text: &str) -> Option<Sandbox> {
        match text {
            "" | "auto" => Some(Sandbox::Auto),
            "require" => Some(Sandbox::Require),
            "off" => Some(Sandbox::Off),
            _ => None,
        }
    }

    /// The value's word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Sandbox::Auto => "auto",
            Sandbox::Require => "require",
            Sandbox::Off => "off",
        }
    }

    /// The highest and the lowest level at which a script may run.
    #[must_use]
    pub fn range(self) -> (Level, Level) {
        match self {
            Sandbox::Auto => (Level::Full, Level::Limits),
            Sandbox::Require => (Level::Full, Level::Landlock),
            Sandbox::Off => (Level::Limits, Level::Limits),
        }
    }
}

/// What a machine holds a script to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    /// The highest level it offers, within what the user wants.
    pub level: Level,
    /// Why it is not higher, in words; empty at the highest.
    pub why: String,
    /// Whether a script cannot signal processes that are not its own.
    pub holds_signals: bool,
}

impl Reach {
    /// Reads what [`Reach::text`] wrote.
    #[must_use]
    pub fn read(text: &str) -> Option<Reach> {
        let mut lines = text.lines();
        let level = lines.next().and_then(Level::read)?;
        let holds_signals = lines.next()? == "signals";
        Some(Reach { level, holds_signals, why: lines.next().unwrap_or_default().to_owned() })
    }

    /// Three lines: the level, whether signals are held, and why it is not higher.
    #[must_use]
    pub fn text(&self) -> String {
        let signals = if self.holds_signals { "signals" } else { "-" };
        format!("{}\n{signals}\n{}\n", self.level, self.why.replace('\n', " "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_read_as_it_is_written() {
        for level in Level::ALL {
            assert_eq!(Level::read(level.word()), Some(level));
        }
        for sandbox in [Sandbox::Auto, Sandbox::Require, Sandbox::Off] {
            assert_eq!(Sandbox::read(sandbox.word()), Some(sandbox));
        }
        assert_eq!((Sandbox::read(""), Sandbox::read("on"), Sandbox::read("OFF")), (Some(Sandbox::Auto), None, None));
        for (why, holds_signals) in [("", true), ("no user namespaces: EPERM", false)] {
            let reach = Reach { level: Level::Full, why: why.to_owned(), holds_signals };
            assert_eq!(Reach::read(&reach.text()), Some(reach));
        }
        assert_eq!((Reach::read(""), Reach::read("full")), (None, None));
    }

    #[test]
    fn require_never_runs_below_landlock() {
        assert!(Sandbox::Require.range().1 > Level::Limits && Level::Full > Level::Landlock && Level::Landlock > Level::Limits);
    }
}
