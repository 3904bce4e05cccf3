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
    /// The key: what is there, in words.
    pub key: String,
    /// How far scripts are held to what they need.
    pub confinement: Confinement,
    /// The interpreters that are here.
    pub interpreters: Vec<Interpreter>,
    /// The capabilities that have a script, by name.
    pub capabilities: Vec<Examined>,
    /// What is wrong.
    pub faults: Vec<Fault>,
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
        let mut lines = vec![format!("home: {}, {} events", self.home, self.events), format!("key: {}", self.key)];
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkup() -> Checkup {
        Checkup {
            home: "/h".to_owned(),
            events: 3,
            key: "mode 0600".to_owned(),
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
            "home: /h, 3 events\nkey: mode 0600\nconfinement: level full (SELF_SANDBOX=auto); of scripts: they touch only what \
             their needs say, and reach no other process\ninterpreters: sh → /bin/sh\ncommand/x: needs net; no interpreter yet\n\
             no fault was found\n"
        );
    }

    #[test]
    fn a_name_cannot_make_a_line() {
        let mut checkup = checkup();
        checkup.capabilities[0].name = "command/x\nno fault was found\u{1b}[2J".to_owned();
        assert_eq!(checkup.text().lines().count(), 6, "{}", checkup.text());
        assert!(!checkup.text().contains('\u{1b}'));
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
