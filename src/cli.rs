//! The command line: arguments as typed, and what is printed.
//!
//! stdout carries the product, stderr the words, each line behind `self: `. Decides nothing about the log. The invariant: a
//! closed stdout is a quiet end, and at a terminal no control character of the log is live.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{CommandFactory, Parser, Subcommand, ValueEnum};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::asking::Prompted;
use crate::browser;
use crate::browsing::BrowseFault;
use crate::completing::{Shell, informed};
use crate::contract::{ACCOUNT, FINDING, SCRIPT, WIRE, card};
use crate::face::Face;
use crate::hear::Answered;
use crate::hearing::{Answers, Heard};
use crate::keeping::Kept;
use crate::kernel::{BODY_BYTES_MAX, Error, Kernel};
use crate::logbook::{Desk, Sight};
use crate::query::Typed;
use crate::quotation::{on_one_line, shown};
use crate::running::Outcome;
use crate::serve::{self, Wishes};
use crate::shared::Say;
use crate::turn::{Ear, Found, Kind};
use crate::wire::{self, Reading};

/// How long the filter waits for input before it says that it is reading.
const SILENCE_SECONDS: i64 = 2;

const AFTER_HELP: &str = "\
The loop:
  echo \"what's going on today?\" | self | claude -p | self
  A first self turns prose into a prompt, a mind answers it, the second hears the answer.
  self < /dev/null | claude -p | self            let a mind do what waits
  self quiet                                     ask whether anything waits

Bare self reads stdin: events are heard; prose is the reply if this pipeline has an open prompt,
else a question; nothing is a request for work. At a terminal it says where you are.

Environment:
  SELF_HOME      the home directory; else the current one
  SELF_BIND      where self serve listens, a host or host:port (127.0.0.1:7777)
  SELF_CALLER    who speaks: kept with every event, never believed
  SELF_MIND_ID   which model writes: sealed in the receipts of its scripts
  SELF_SCRIPT_SECONDS  how long a script may run, 1 to 3600 (10)
  SELF_SANDBOX   auto: scripts are confined as far as the machine can; require: or do not run; off
  PAGER          what shows `self log` at a terminal; else less -R; empty or cat for none
  TZ             in which time zone `self log` shows moments at a terminal
  NO_COLOR       no colour, ever

Exit status: 0 done, 1 failed or not there, 2 usage, 65 refused input of which nothing was recorded,
75 try again, 141 stdout closed.";

/// A filter with a memory: prose in, a situated prompt out, every answer kept in one log.
#[derive(Debug, Parser)]
#[command(name = "self", version, after_help = AFTER_HELP, max_term_width = 110)]
struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,
}

impl Arguments {
    /// What was typed, where it takes no parser to tell: no verb, or one of a loop's verbs alone.
    fn plain(arguments: &[OsString]) -> Option<Arguments> {
        let verb = match arguments {
            [] | [_] => None,
            [_, verb] => Some(match verb.to_str()? {
                "ask" => Verb::Ask { text: Vec::new() },
                "hear" => Verb::Hear { strict: false },
                "work" => Verb::Work,
                "quiet" => Verb::Quiet,
                _ => return None,
            }),
            [_, _, ..] => return None,
        };
        Some(Arguments { verb })
    }
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Record a question and print the prompt for a mind; without TEXT, stdin is the question
    Ask {
        /// The question; several words are joined by blanks
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        text: Vec<OsString>,
    },
    /// Hear a mind's answer on stdin, whatever pipeline it comes from: events land, prose is the reply
    Hear {
        /// Exit 65 if anything was rejected or refused
        #[arg(long)]
        strict: bool,
    },
    /// Print the prompt about what waits: scripts to write, a message to answer, else a reflection
    Work,
    /// Exit 0 if nothing but a reflection is left to do, 1 if work waits
    Quiet,
    /// Run a command: its script gets the log and these arguments, and what it emits is appended
    #[command(disable_help_flag = true)]
    Run {
        /// The command's name
        command: OsString,
        /// Its arguments, as they stand
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Print a page as of now; also `kernel`, `brief`, and the files of `site/`
    Show {
        /// The page's name
        projection: OsString,
    },
    /// List the log, newest last; or show one event whole, with what it means
    Log(Typed),
    /// Take an account in: its intent, and its record as evidence; print the prompt to learn from it
    Learn {
        /// The account's directory: intent.md, and perhaps record.jsonl and manifest.json
        account: PathBuf,
        /// Say what would be recorded and which pages would change, and record nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Write an account for another home: events of the log as evidence, never as code
    Give {
        /// How the events' names start; or `command/<name>`, `projector/<name>` for its declarations and scripts
        selector: OsString,
        /// The directory to write; it and its parents are made
        dir: PathBuf,
        /// Write over a record that somebody edited, or that was given from something else
        #[arg(long)]
        force: bool,
    },
    /// Take a capability off the surface; it stays in the log, and a new declaration revives it
    Retire {
        /// `command/<name>` or `projector/<name>`
        capability: OsString,
    },
    /// Rebuild `capabilities/` and `site/` from the log and the key
    Rehydrate,
    /// Serve the pages on this machine: to read, to fill in forms, to watch what comes in; SELF_BIND says where
    Serve {
        /// Ask for a token on the loopback address too; elsewhere one is always asked for
        #[arg(long)]
        token: bool,
        /// Open the front page in a browser
        #[arg(long)]
        open: bool,
    },
    /// Prove the home: every line, seal and receipt of the log, the scripts and the pages; exit 1 if anything is at fault
    Verify {
        /// Seal what holds and is not sealed yet
        #[arg(long)]
        seal: bool,
        /// Print the report as one line of JSON
        #[arg(long)]
        json: bool,
    },
    /// Say how a home is: log, disk, key, confinement, interpreters, needs, and each fault with what mends it
    Doctor {
        /// Print it as one line of JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the section to paste into an agent's instructions
    Card,
    /// Print the contracts: how a mind answers, what a script is, what an account is
    Protocol,
    /// Print the script that makes a shell complete verbs, options, and the names in the home
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// Where a verb prints, and whether a person reads along.
#[derive(Clone, Copy)]
struct Voice {
    out_is_terminal: bool,
    err_is_terminal: bool,
}

/// How a verb ended: its exit status, or that stdout was closed.
type Ended = Result<u8, io::Error>;

/// Runs one invocation: arguments as the system gave them, the first being the program's name; `bind` is `SELF_BIND`.
#[must_use]
pub fn run(arguments: impl IntoIterator<Item = OsString>, kernel: &Kernel, sight: &Sight, bind: Option<OsString>) -> ExitCode {
    let voice = Voice { out_is_terminal: io::stdout().is_terminal(), err_is_terminal: io::stderr().is_terminal() };
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let ended = match Arguments::plain(&arguments).map_or_else(|| Arguments::try_parse_from(arguments), Ok) {
        Err(usage) if usage.use_stderr() => {
            voice.raw(usage.to_string().as_bytes());
            Ok(2)
        }
        Err(help) => voice.print(&help.to_string()).map(|()| 0),
        Ok(arguments) => {
            let ended = voice.verb(arguments.verb, kernel, sight, bind);
            voice.say(&kernel.unconfined().into_iter().collect::<Vec<_>>());
            ended
        }
    };
    voice.say(&kernel.missing());
    match ended {
        Ok(status) => ExitCode::from(status),
        Err(fault) if fault.kind() == io::ErrorKind::BrokenPipe => ExitCode::from(141),
        Err(fault) => {
            voice.say(&[format!("could not write to stdout: {fault}")]);
            ExitCode::from(1)
        }
    }
}

/// Answers a shell that asks what the word can become that is being typed: its name, and the words it has behind `--`.
#[must_use]
pub fn complete(shell: &OsStr, words: Vec<OsString>, kernel: Kernel) -> ExitCode {
    let voice = Voice { out_is_terminal: false, err_is_terminal: false };
    let Some(shell) = shell.to_str().and_then(|shell| Shell::from_str(shell, false).ok()) else { return ExitCode::from(2) };
    let folder = kernel.caller.folder.clone();
    let mut command = informed(Arguments::command(), kernel);
    let answer = shell.answer(&mut command, words, &folder).and_then(|answer| voice.print(&String::from_utf8_lossy(&answer)));
    ExitCode::from(u8::from(answer.is_err()))
}

/// Says that a script tried to call self, which would wait for a lock that its own run holds.
#[must_use]
pub fn too_deep() -> ExitCode {
    Voice { out_is_terminal: false, err_is_terminal: io::stderr().is_terminal() }.say(&[
        "a script cannot call self".to_owned(),
        "hint: read the log on stdin, and print the events it should append".to_owned(),
    ]);
    ExitCode::from(1)
}

/// Says a line on stderr while something takes long.
pub fn tell(line: &str) {
    Voice { out_is_terminal: false, err_is_terminal: false }.say(&[line.to_owned()]);
}

/// Says that a variable of the environment has no usable value.
#[must_use]
pub fn odd_setting(name: &str, meaning: &str) -> ExitCode {
    Voice { out_is_terminal: false, err_is_terminal: io::stderr().is_terminal() }.say(&[format!("{name} is {meaning}")]);
    ExitCode::from(2)
}

impl Voice {
    fn verb(&self, verb: Option<Verb>, kernel: &Kernel, sight: &Sight, bind: Option<OsString>) -> Ended {
        match verb {
            None if io::stdin().is_terminal() && self.out_is_terminal => self.told(kernel.orient()),
            None if io::stdin().is_terminal() => self.prompt(kernel, kernel.work(io::stdout().as_fd())),
            None => self.filter(kernel),
            Some(Verb::Ask { text }) if text.is_empty() => match self.body(&mut None) {
                Ok(body) => self.ask(kernel, &body),
                Err(fault) => self.prompt(kernel, Err(fault)),
            },
            Some(Verb::Ask { text }) => {
                let words: Vec<_> = text.iter().map(|word| word.to_string_lossy()).collect();
                self.prompt(kernel, kernel.ask(&words.join(" "), io::stdout().as_fd()))
            }
            Some(Verb::Hear { strict }) => self.hear_outright(kernel, strict),
            Some(Verb::Work) => self.prompt(kernel, kernel.work(io::stdout().as_fd())),
            Some(Verb::Quiet) => match kernel.quiet() {
                Ok((quiet, words)) => {
                    self.say(&words);
                    Ok(u8::from(!quiet))
                }
                Err(fault) => self.fail(&fault).map(|_| 75),
            },
            Some(Verb::Run { command, arguments }) => self.run(kernel.run(&command.to_string_lossy(), &arguments)),
            Some(Verb::Show { projection }) => self.told(kernel.show(&projection.to_string_lossy())),
            Some(Verb::Log(typed)) => self.log(&typed, kernel, sight),
            Some(Verb::Learn { account, dry_run: true }) => self.told(kernel.learn_dry(&account, self.progress())),
            Some(Verb::Learn { account, dry_run: false }) => {
                self.prompt(kernel, kernel.learn(&account, io::stdout().as_fd(), self.progress()))
            }
            Some(Verb::Give { selector, dir, force }) => self.kept(kernel.give(&selector.to_string_lossy(), &dir, force)),
            Some(Verb::Retire { capability }) => self.kept(kernel.retire(&capability.to_string_lossy())),
            Some(Verb::Rehydrate) => self.kept(kernel.rehydrate(|line| {
                if self.err_is_terminal {
                    self.say(&[line.to_owned()]);
                }
            })),
            Some(Verb::Serve { token, open }) => self.serve(kernel, bind, token, open),
            Some(Verb::Verify { seal, json }) => match kernel.verify(seal, self.progress()) {
                Ok(report) => {
                    self.print(&if json { report.json() } else { report.text() })?;
                    Ok(u8::from(!report.ok))
                }
                Err(fault) => self.fail(&fault),
            },
            Some(Verb::Doctor { json }) => match kernel.doctor() {
                Ok(checkup) => {
                    let text = if json { checkup.json() } else { checkup.text() };
                    self.print(&text).map(|()| u8::from(!checkup.faults.is_empty()))
                }
                Err(fault) => self.fail(&fault),
            },
            Some(Verb::Card) => self.print(card()).map(|()| 0),
            Some(Verb::Completions { shell }) => self.print(&String::from_utf8_lossy(&shell.script()?)).map(|()| 0),
            Some(Verb::Protocol) => self
                .print(&format!(
                    "# How a mind answers\n\n{WIRE}\n# How facts are found\n\n{FINDING}\n# What a script is\n\n{SCRIPT}\n# What an account is\n\n{ACCOUNT}"
                ))
                .map(|()| 0),
        }
    }

    fn log(&self, typed: &Typed, kernel: &Kernel, sight: &Sight) -> Ended {
        let say = |lines: &[String]| self.say(lines);
        match (Desk { kernel, sight, is_terminal: self.out_is_terminal, say: &say }).log(typed) {
            Err(BrowseFault::Kernel(fault)) => self.fail(&fault),
            Err(BrowseFault::Out(fault)) => Err(fault),
            Ok(status) => Ok(status),
        }
    }

    fn serve(&self, kernel: &Kernel, bind: Option<OsString>, token: bool, open: bool) -> Ended {
        let voice = *self;
        let say: Say = Arc::new(move |lines| voice.say(lines));
        let print = |line: &str| {
            let mut out = io::stdout().lock();
            writeln!(out, "{line}").and_then(|()| out.flush())
        };
        let open: Option<fn(&str) -> io::Result<()>> = if open { Some(browser::open) } else { None };
        match serve::serve(kernel, &Wishes { bind, token, open, print, say, is_watched: self.err_is_terminal }) {
            Ok(signal) => Ok(128 + signal),
            Err(fault) => {
                let hint = fault.hint().map(|hint| format!("hint: {hint}"));
                self.say(&[Some(fault.to_string()), hint].into_iter().flatten().collect::<Vec<_>>());
                Ok(fault.status())
            }
        }
    }

    /// Says a line on stderr while something takes long.
    fn progress(&self) -> impl Fn(&str) {
        |line| self.say(&[line.to_owned()])
    }

    /// The bare filter: reads a body and shows the face that fits.
    fn filter(&self, kernel: &Kernel) -> Ended {
        let mut ear = Some(Ear::open(&kernel.home().turns(), io::stdin().as_fd()));
        let body = match self.body(&mut ear) {
            Ok(body) => body,
            Err(fault) => return self.prompt(kernel, Err(fault)),
        };
        let found = ear.as_mut().and_then(Ear::prompt);
        let reading = settled(kernel, &body);
        let found = match found {
            Some(failed) if failed.kind == Kind::Failed => return self.pass_on(reading, failed),
            found => found,
        };
        match Face::of(&reading, found.is_some()) {
            Face::Ask if ear.as_ref().is_some_and(Ear::saw_self) => self.ask_or_pass_on(kernel, &body, reading),
            Face::Ask => self.ask(kernel, &body),
            Face::Work => self.prompt(kernel, kernel.work(io::stdout().as_fd())),
            Face::Silence => self.silence(found),
            Face::Hear | Face::Reply => {
                let answers = answers(found.as_ref()).unwrap_or(Answers::Nothing);
                self.hear(kernel, reading, answers, found, false)
            }
        }
    }

    fn hear_outright(&self, kernel: &Kernel, strict: bool) -> Ended {
        let mut ear = Some(Ear::open(&kernel.home().turns(), io::stdin().as_fd()));
        let body = match self.body(&mut ear) {
            Ok(body) => body,
            Err(fault) => return self.fail(&fault),
        };
        let found = ear.as_mut().and_then(Ear::prompt);
        let reading = settled(kernel, &body);
        if reading.is_nothing() {
            return self.silence(found);
        }
        let answers = answers(found.as_ref()).unwrap_or(Answers::NewestAsk);
        self.hear(kernel, reading, answers, found, strict)
    }

    fn ask(&self, kernel: &Kernel, body: &[u8]) -> Ended {
        self.prompt(kernel, self.asked(kernel, body))
    }

    /// Asks what the body holds as text.
    fn asked(&self, kernel: &Kernel, body: &[u8]) -> Result<Prompted, Error> {
        let text = String::from_utf8_lossy(body);
        if let std::borrow::Cow::Owned(_) = text {
            self.say(&["the input was not all UTF-8; what was not is now U+FFFD".to_owned()]);
        }
        kernel.ask(text.trim_start_matches('\u{feff}'), io::stdout().as_fd())
    }

    /// Asks; but where nothing can be recorded and a self upstream had no luck with that either, what came is the answer to its
    /// empty prompt: it goes on as it is.
    fn ask_or_pass_on(&self, kernel: &Kernel, body: &[u8], reading: Reading) -> Ended {
        match self.asked(kernel, body) {
            Err(fault) if fault.is_of_the_disk() => {
                let status = self.fail(&fault)?;
                self.print(&format!("{}\n", Kernel::reply_of(reading)))?;
                Ok(status)
            }
            made => self.prompt(kernel, made),
        }
    }

    fn hear(&self, kernel: &Kernel, reading: Reading, answers: Answers, found: Option<Found>, strict: bool) -> Ended {
        let notes: Vec<_> = reading.notes.iter().map(ToString::to_string).collect();
        self.say(&notes);
        if let Some(found) = found {
            found.take();
        }
        let Heard { reply, words, objected, unjudged, failure } = kernel.hear(reading, answers);
        self.say(&words);
        let status = match &failure {
            Some(fault) => self.fail(fault)?,
            None if unjudged => 75,
            None if strict && objected => 65,
            None => 0,
        };
        if !reply.is_empty() {
            self.print(&format!("{reply}\n"))?;
        }
        Ok(status)
    }

    /// No prompt was made upstream, so what came is no answer to one: it goes on as it is.
    fn pass_on(&self, reading: Reading, failed: Found) -> Ended {
        failed.take();
        self.say(&["no prompt was made, so nothing of this was recorded".to_owned()]);
        let reply = Kernel::reply_of(reading);
        if !reply.is_empty() {
            self.print(&format!("{reply}\n"))?;
        }
        Ok(75)
    }

    fn silence(&self, found: Option<Found>) -> Ended {
        if let Some(found) = found {
            found.take();
        }
        self.say(&["the mind said nothing; nothing was recorded".to_owned()]);
        Ok(75)
    }

    /// Prints a prompt, and stays until whoever will hear its answer can find its marker.
    /// If none was made, leaves word of that, lest the answer to nothing be taken for a question.
    fn prompt(&self, kernel: &Kernel, made: Result<Prompted, Error>) -> Ended {
        let Prompted { text, mark, words } = match made {
            Ok(prompted) => prompted,
            Err(fault) => {
                kernel.make_no_prompt(io::stdout().as_fd());
                return self.fail(&fault);
            }
        };
        self.say(&words);
        let printed = self.print(&text);
        if let Some(Err(fault)) = mark.map(|mark| mark.follow(close_stdout)) {
            self.say(&[fault.to_string(), format!("hint: {}", fault.hint())]);
        }
        printed.map(|()| 0)
    }

    fn told(&self, page: Result<(String, Vec<String>), Error>) -> Ended {
        match page {
            Ok((text, words)) => {
                self.say(&words);
                self.print(&text).map(|()| 0)
            }
            Err(fault) => self.fail(&fault),
        }
    }

    /// Tells how a run ended. What its script said on stderr goes out as it came, but at a terminal.
    fn run(&self, ran: Result<Outcome, Error>) -> Ended {
        let Outcome { text, stderr, words, status, recorded: _, landed: _ } = match ran {
            Ok(outcome) => outcome,
            Err(fault) => return self.fail(&fault),
        };
        if self.err_is_terminal {
            self.raw(shown(&String::from_utf8_lossy(&stderr)).as_bytes());
        } else {
            self.raw(&stderr);
        }
        self.say(&words);
        self.print(&text).map(|()| status)
    }

    fn kept(&self, kept: Result<Kept, Error>) -> Ended {
        match kept {
            Ok(kept) => {
                self.say(&kept.words);
                Ok(u8::from(kept.failed))
            }
            Err(fault) => self.fail(&fault),
        }
    }

    fn fail(&self, fault: &Error) -> Ended {
        let hint = fault.hint().map(|hint| format!("hint: {hint}"));
        self.say(&[Some(fault.to_string()), hint].into_iter().flatten().collect::<Vec<_>>());
        Ok(fault.status())
    }

    /// Reads stdin to its end. If nothing comes for a while and a person may be waiting, says so.
    fn body(&self, ear: &mut Option<Ear>) -> Result<Vec<u8>, Error> {
        let input = io::stdin();
        let has_prompt = |ear: &mut Option<Ear>| ear.as_mut().is_some_and(Ear::has_open_prompt_now);
        if self.err_is_terminal && !comes_soon(input.as_fd()) && !has_prompt(ear) {
            self.say(&["reading stdin to its end; Ctrl-D ends it at a terminal".to_owned()]);
        }
        let mut body = vec![0; 1 << 16];
        let mut input = input.lock();
        let first = input.read(&mut body).map_err(Error::Input)?;
        body.truncate(first);
        if let Some(ear) = ear.as_mut().filter(|_| first > 0) {
            ear.first_byte();
        }
        input.take((BODY_BYTES_MAX + 1 - first) as u64).read_to_end(&mut body).map_err(Error::Input)?;
        if body.len() > BODY_BYTES_MAX {
            return Err(Error::BodyTooLarge);
        }
        if wire::is_utf16(&body) {
            return Err(Error::Utf16);
        }
        Ok(body)
    }

    /// Prints the product. At a terminal, control characters show.
    fn print(&self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        if self.out_is_terminal {
            out.write_all(shown(text).as_bytes())?;
        } else {
            out.write_all(text.as_bytes())?;
        }
        out.flush()
    }

    /// Says lines on stderr. Nobody can be told that stderr is closed.
    fn say(&self, lines: &[String]) {
        let text: String = lines.iter().map(|line| format!("self: {}\n", on_one_line(line))).collect();
        self.raw(text.as_bytes());
    }

    fn raw(&self, text: &[u8]) {
        let _ = io::stderr().lock().write_all(text);
    }
}

/// Reads a body and takes the quotations of the log out. Where the log cannot be read, hearing it will say so.
fn settled(kernel: &Kernel, body: &[u8]) -> Reading {
    let mut reading = wire::read(body);
    let _ = kernel.settle(&mut reading);
    reading
}

fn answers(found: Option<&Found>) -> Option<Answers> {
    let ask = match found?.kind {
        Kind::Ask(seq) => Some(seq),
        Kind::Work | Kind::Learn => None,
        Kind::Failed => return None,
    };
    Some(Answers::Prompt(Answered { ask }))
}

/// Whether input, or its end, comes within the silence that a person would wonder about.
fn comes_soon(input: std::os::fd::BorrowedFd<'_>) -> bool {
    let silence = Timespec { tv_sec: SILENCE_SECONDS, tv_nsec: 0 };
    !matches!(poll(&mut [PollFd::new(&input, PollFlags::IN)], Some(&silence)), Ok(0))
}

/// Gives stdout up, so that its reader sees the end while this process stays.
fn close_stdout() {
    if let Ok(null) = std::fs::OpenOptions::new().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(null);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_no_parser_is_read_as_the_parser_reads_it() {
        let typed = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        for words in [&["self"][..], &["self", "ask"], &["self", "hear"], &["self", "work"], &["self", "quiet"]] {
            let plain = Arguments::plain(&typed(words)).map(|plain| format!("{plain:?}"));
            assert_eq!(plain, Some(format!("{:?}", Arguments::try_parse_from(words).unwrap())));
        }
        for words in [&["self", "help"][..], &["self", "--version"], &["self", "asks"], &["self", "hear", "--strict"]] {
            assert!(Arguments::plain(&typed(words)).is_none(), "{words:?}");
        }
    }
}
