//! What the doctor found: a home as facts, and each fault with the command that mends it.
//!
//! Pure: facts in, text or JSON out. The invariant: a fault never stands without its remedy.

use serde::Serialize;

use crate::level::Level;
use crate::quotation::on_one_line;

/// A home, as it was found.
#[derive(Debug, Clone, Serialize)]
pub struct Checkup {
    /// The home's directory.
    pub home: String,
    /// How many events the log holds: its highest number.
    pub events: u64,
    /// The log, as far as reading it shows.
    pub log: LogHealth,
    /// Whether the log has been longer, as far as that is remembered, in words.
    pub head: String,
    /// What the home lies on; and the log, if that lies on another.
    pub file_systems: Vec<FileSystem>,
    /// The program that copies the home between machines.
    pub copied_by: Option<&'static str>,
    /// The key: what is there, in words.
    pub key: String,
    /// What git makes of the key, in words; nothing where there is no git or no work tree.
    pub git: Option<&'static str>,
    /// How many markers of prompts that nobody will answer any more lie there.
    pub stale_markers: usize,
    /// How far scripts are held to what they need.
    pub confinement: Confinement,
    /// The interpreters that are here.
    pub interpreters: Vec<Interpreter>,
    /// The capabilities that have a script, by name.
    pub capabilities: Vec<Examined>,
    /// What is wrong.
    pub faults: Vec<Fault>,
}

/// A log, as far as reading it shows.
#[derive(Debug, Clone, Serialize)]
pub struct LogHealth {
    /// Its length up to the end of its last whole batch.
    pub bytes: u64,
    /// How many bytes lie behind that.
    pub torn_bytes: u64,
    /// How many lines are no records.
    pub damaged: usize,
    /// How many records have another number than the one that was due.
    pub misnumbered: u64,
}

/// A file system.
#[derive(Debug, Clone, Serialize)]
pub struct FileSystem {
    /// What of the home lies on it.
    pub holds: &'static str,
    /// Its name.
    pub name: String,
    /// Whether it is lost at a reboot.
    pub is_memory: bool,
    /// How many bytes are free for this user, if it counts them.
    pub free_bytes: Option<u64>,
}

/// How far scripts are held to what they need.
#[derive(Debug, Clone, Serialize)]
pub struct Confinement {
    /// The level's word.
    pub level: &'static str,
    /// Why it is not higher; empty at the highest.
    pub why: String,
    /// What `SELF_SANDBOX` says.
    pub sandbox: &'static str,
    /// Whether a script cannot signal processes that are not its own.
    pub holds_signals: bool,
}

/// An interpreter by its name.
#[derive(Debug, Clone, Serialize)]
pub struct Interpreter {
    /// What a first line calls it.
    pub name: String,
    /// Where it is.
    pub path: String,
}

/// A capability that has a script.
#[derive(Debug, Clone, Serialize)]
pub struct Examined {
    /// `command/x` or `projector/x`.
    pub name: String,
    /// The interpreter it was given; none if it has not run since that was forgotten.
    pub interpreter: Option<String>,
    /// What it may touch beyond the default, as its declaration spells it.
    pub needs: Vec<String>,
}

/// Something that is wrong, and what mends it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Fault {
    /// What is wrong.
    pub fault: String,
    /// The command that mends it, or what to do.
    pub mend: String,
}

impl Checkup {
    /// Notes a fault.
    pub fn add(&mut self, fault: impl Into<String>, mend: impl Into<String>) {
        self.faults.push(Fault { fault: fault.into(), mend: mend.into() });
    }

    /// The facts as one line of JSON.
    #[must_use]
    pub fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }

    /// The facts as lines; what came from the log or the machine cannot make another.
    #[must_use]
    pub fn text(&self) -> String {
        let mut lines =
            vec![format!("home: {}, {} events", self.home, self.events), self.log_line(), format!("head: {}", self.head)];
        for FileSystem { holds, name, is_memory, free_bytes } in &self.file_systems {
            let free = free_bytes.map_or_else(|| "room not known".to_owned(), |bytes| format!("{} free for you", amount(bytes)));
            let lost = if *is_memory { "; it is lost at a reboot" } else { "" };
            lines.push(format!("file system of the {holds}: {name}, {free}{lost}"));
        }
        lines.push(format!("key: {}", self.key));
        lines.extend(self.git.map(|git| format!("git: {git}")));
        if self.stale_markers > 0 {
            lines.push(format!("stale turn markers: {}; the next prompt sweeps them", self.stale_markers));
        }
        let Confinement { level, why, sandbox, holds_signals } = &self.confinement;
        let meaning = Level::read(level).map_or("", Level::meaning);
        lines.push(format!("confinement: level {level} (SELF_SANDBOX={sandbox}); of scripts: {meaning}"));
        if !why.is_empty() {
            lines.push(format!("  not higher, for {why}"));
        }
        if !holds_signals && *level != Level::Limits.word() {
            lines.push("  not held at this level of this system: signals to other processes of yours".to_owned());
        }
        let known: Vec<_> = self.interpreters.iter().map(|it| format!("{} → {}", it.name, it.path)).collect();
        lines
            .push(format!("interpreters: {}", if known.is_empty() { "none that is known".to_owned() } else { known.join(", ") }));
        for Examined { name, interpreter, needs } in &self.capabilities {
            let needs = if needs.is_empty() { "needs nothing".to_owned() } else { format!("needs {}", needs.join(", ")) };
            lines.push(format!("{name}: {needs}; {}", interpreter.as_deref().unwrap_or("no interpreter yet")));
        }
        for Fault { fault, mend } in &self.faults {
            lines.extend([format!("fault: {fault}"), format!("  mend: {mend}")]);
        }
        if self.faults.is_empty() {
            lines.push("no fault was found".to_owned());
        }
        lines.iter().fold(String::new(), |text, line| text + &on_one_line(line) + "\n")
    }

    fn log_line(&self) -> String {
        let LogHealth { bytes, torn_bytes, damaged, misnumbered } = self.log;
        match torn_bytes == 0 && damaged == 0 && misnumbered == 0 {
            true => format!("log: {bytes} bytes, every line a record in its order; self verify proves more"),
            false => {
                format!(
                    "log: {bytes} bytes; torn bytes {torn_bytes}, damaged lines {damaged}, odd numbers {misnumbered}; self verify has each"
                )
            }
        }
    }
}

/// A number of bytes as a person reads it, rounded down to a tenth.
#[must_use]
pub fn amount(bytes: u64) -> String {
    let (unit, word) = [(1_u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")]
        .into_iter()
        .find(|(unit, _)| bytes >= *unit)
        .unwrap_or((1, "bytes"));
    if unit == 1 { format!("{bytes} bytes") } else { format!("{}.{} {word}", bytes / unit, bytes % unit * 10 / unit) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkup() -> Checkup {
        Checkup {
            home: "/h".to_owned(),
            events: 3,
            log: LogHealth { bytes: 412, torn_bytes: 0, damaged: 0, misnumbered: 0 },
            head: "it has not been longer".to_owned(),
            file_systems: vec![FileSystem {
                holds: "home",
                name: "tmpfs".to_owned(),
                is_memory: true,
                free_bytes: Some((5 << 30) + (900 << 20)),
            }],
            copied_by: None,
            key: "mode 0600".to_owned(),
            git: None,
            stale_markers: 0,
            confinement: Confinement { level: "full", why: String::new(), sandbox: "auto", holds_signals: true },
            interpreters: vec![Interpreter { name: "sh".to_owned(), path: "/bin/sh".to_owned() }],
            capabilities: vec![Examined { name: "command/x".to_owned(), interpreter: None, needs: vec!["net".to_owned()] }],
            faults: Vec::new(),
        }
    }

    #[test]
    fn a_sound_home_is_told_in_a_few_lines() {
        assert_eq!(
            checkup().text(),
            "home: /h, 3 events\nlog: 412 bytes, every line a record in its order; self verify proves more\nhead: it has not been \
             longer\nfile system of the home: tmpfs, 5.8 GiB free for you; it is lost at a reboot\nkey: mode 0600\nconfinement: level full (SELF_SANDBOX=auto); of scripts: they touch only what \
             their needs say, and reach no other process\ninterpreters: sh → /bin/sh\ncommand/x: needs net; no interpreter yet\n\
             no fault was found\n"
        );
    }

    #[test]
    fn a_name_cannot_make_a_line() {
        let mut checkup = checkup();
        checkup.capabilities[0].name = "command/x\nno fault was found\u{1b}[2J".to_owned();
        checkup.file_systems[0].name = "fuse.x\nno fault was found".to_owned();
        assert_eq!(checkup.text().lines().count(), 9, "{}", checkup.text());
        assert!(!checkup.text().contains('\u{1b}'));
    }

    #[test]
    fn an_amount_is_rounded_down() {
        let told = [0, 1023, 1024, (64 << 20) - 1, 64 << 20, 3 << 40].map(amount);
        assert_eq!(told, ["0 bytes", "1023 bytes", "1.0 KiB", "63.9 MiB", "64.0 MiB", "3.0 TiB"]);
    }

    #[test]
    fn a_log_that_is_not_whole_is_counted() {
        let mut checkup = checkup();
        checkup.log = LogHealth { bytes: 412, torn_bytes: 5, damaged: 2, misnumbered: 1 };
        (checkup.git, checkup.stale_markers) = (Some("it ignores the key"), 3);
        let text = checkup.text();
        assert!(text.contains("log: 412 bytes; torn bytes 5, damaged lines 2, odd numbers 1; self verify has each\n"), "{text}");
        assert!(text.contains("git: it ignores the key\nstale turn markers: 3; the next prompt sweeps them\n"), "{text}");
    }

    #[test]
    fn a_lower_level_says_why_and_a_fault_what_mends_it() {
        let mut checkup = checkup();
        checkup.confinement =
            Confinement { level: "landlock", why: "no namespaces".to_owned(), sandbox: "auto", holds_signals: false };
        checkup.add("the key is open", "chmod 600 .secret");
        let text = checkup.text();
        assert!(text.contains("  not higher, for no namespaces\n  not held at this level of this system: signals"), "{text}");
        assert!(text.ends_with("fault: the key is open\n  mend: chmod 600 .secret\n"), "{text}");
        assert!(checkup.json().contains("\"mend\":\"chmod 600 .secret\""));
    }
}
