//! The pager: a program that shows a long text a screen at a time.
//!
//! `$PAGER` through the shell, else `less -R` where there is one. Never started but for a person at a terminal. The invariant: it
//! outlives nothing and is outlived by nothing: who starts it waits for its end.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::SIGINT;

/// What `less` is told where `LESS` is not set: leave at the end of what fits the screen, pass colours on, leave it on the screen.
const LESS: &str = "FRX";

/// The statuses of a shell that found no such program, or could not run it.
const NOT_RUN: [i32; 2] = [126, 127];

/// What the environment says of pagers and terminals.
#[derive(Debug, Clone, Default)]
pub struct Screen {
    /// `PAGER`.
    pub pager: Option<OsString>,
    /// `LESS`.
    pub less: Option<OsString>,
    /// `TERM`.
    pub term: Option<OsString>,
    /// Whether `NO_COLOR` is set.
    pub no_colour: bool,
}

impl Screen {
    /// Whether the terminal can do more than print.
    #[must_use]
    pub fn is_able(&self) -> bool {
        self.term.as_deref().is_some_and(|term| !term.is_empty() && term != "dumb")
    }

    /// Whether colour is wanted and can be had.
    #[must_use]
    pub fn has_colour(&self) -> bool {
        !self.no_colour && self.is_able()
    }

    /// The program that pages; `None` for none.
    fn program(&self) -> Option<Command> {
        let mut command = match self.pager.as_deref() {
            Some(pager) if pager.is_empty() || pager == "cat" => return None,
            Some(pager) => {
                let mut shell = Command::new("sh");
                shell.arg("-c").arg(pager);
                shell
            }
            None if self.is_able() => {
                let mut less = Command::new("less");
                less.arg("-R");
                less
            }
            None => return None,
        };
        if self.less.is_none() {
            command.env("LESS", OsStr::new(LESS));
        }
        Some(command)
    }
}

/// Where a text for a person goes: to a pager, which starts with the text's first byte, or past it to stdout.
pub struct Paged<'s> {
    screen: &'s Screen,
    begun: bool,
    child: Option<Child>,
    interrupted: Arc<AtomicBool>,
}

impl Paged<'_> {
    /// Starts nothing yet.
    #[must_use]
    pub fn on(screen: &Screen) -> Paged<'_> {
        Paged { screen, begun: false, child: None, interrupted: Arc::new(AtomicBool::new(false)) }
    }

    /// Tells whether nobody interrupted it.
    pub fn watch(&self) -> impl Fn() -> bool + use<> {
        let interrupted = Arc::clone(&self.interrupted);
        move || !interrupted.load(Ordering::Relaxed)
    }

    /// Starts the pager, if there is one. From here on Ctrl-C is the pager's: here it only ends the text.
    fn begin(&mut self) {
        self.begun = true;
        let started = self.screen.program().map(|mut program| program.stdin(Stdio::piped()).spawn());
        self.child = started.and_then(Result::ok);
        if self.child.is_some() {
            let _ = signal_hook::flag::register(SIGINT, Arc::clone(&self.interrupted));
        }
    }

    /// Lets the pager know that nothing more comes, and waits for its end; `false` if it could not be run.
    #[must_use]
    pub fn end(self) -> bool {
        let Some(mut child) = self.child else { return true };
        drop(child.stdin.take());
        !child.wait().is_ok_and(|status| status.code().is_some_and(|code| NOT_RUN.contains(&code)))
    }

    /// Whether the text goes to a pager.
    #[must_use]
    pub fn is_paging(&self) -> bool {
        self.child.is_some()
    }
}

impl Write for Paged<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.begun {
            self.begin();
        }
        match self.child.as_mut().and_then(|child| child.stdin.as_mut()) {
            Some(input) => input.write(bytes),
            None => io::stdout().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.child.as_mut().and_then(|child| child.stdin.as_mut()) {
            Some(input) => input.flush(),
            None => io::stdout().flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pager_is_the_users_else_less_at_an_able_terminal() {
        let check = |pager: Option<&str>, term: &str, expect: Option<&str>| {
            let screen = Screen { pager: pager.map(Into::into), term: Some(term.into()), ..Screen::default() };
            let line = screen.program().map(|command| {
                let words = std::iter::once(command.get_program()).chain(command.get_args());
                words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
            });
            assert_eq!(line.as_deref(), expect, "{pager:?} {term}");
        };
        check(None, "xterm", Some("less -R"));
        check(None, "dumb", None);
        check(None, "", None);
        check(Some("less -S"), "dumb", Some("sh -c less -S"));
        check(Some(""), "xterm", None);
        check(Some("cat"), "xterm", None);
    }

    #[test]
    fn colour_is_for_a_terminal_that_has_it_and_a_user_who_wants_it() {
        let screen = |term: &str, no_colour| Screen { term: Some(term.into()), no_colour, ..Screen::default() };
        assert!(screen("xterm", false).has_colour());
        assert!(!screen("xterm", true).has_colour());
        assert!(!screen("dumb", false).has_colour());
        assert!(!Screen::default().has_colour());
    }
}
