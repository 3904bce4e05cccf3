//! Installing: the gate that every script from a mind passes.
//!
//! A script is tried before it is signed, and only what was signed is put in place. The invariant: a receipt is written only for
//! a script that passed, under the declaration it was tried under.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use crate::batch::{Close, Unstamped};
use crate::capability::{Capability, Kind};
use crate::event::{Door, Event};
use crate::feed::Wanted;
use crate::hear::{Attempt, Rejected, Trial, examine};
use crate::interpreter;
use crate::kernel::{Error, Kernel, View};
use crate::log::{LogError, io_error};
use crate::markup;
use crate::payload::Payload;
use crate::receipt::sign;
use crate::rendering::Setting;
use crate::roster::Roster;
use crate::trial;
use crate::vocabulary::Word;

/// How long the second run of a projector starts behind the first, so that a page that reads the clock differs.
const APART: Duration = Duration::from_millis(1_100);

/// How many of the newest events a projector is tried over.
const TRIAL_EVENTS_MAX: usize = 1_000;

/// How many bytes of them.
const TRIAL_BYTES_MAX: usize = 16 << 20;

/// A projector's trial under way.
struct Page {
    /// Its place among the attempts.
    at: usize,
    input: Vec<u8>,
    first: Vec<u8>,
}

impl Kernel {
    /// Judges what was sent as scripts, in order, and records receipts and rejections as one batch. Gives what landed.
    pub(crate) fn install(&self, view: &mut View, attempts: Vec<Attempt>) -> Result<Vec<Event<'static>>, Error> {
        let mut tried: Vec<_> = attempts.into_iter().map(|attempt| examine(&view.state, attempt)).collect();
        let found = self.find_interpreters(&mut tried, &mut view.words);
        self.try_pages(view, &mut tried)?;
        self.make_key(view)?;
        let secret = self.home.secret()?;
        let author = self.caller.author();
        let close = if tried.iter().any(Result::is_ok) { Close::Sealed } else { Close::Open };
        let landed = self.commit_with(view, close, |view, first, _| {
            let seal = |(at, tried): (usize, Result<Trial, Rejected>)| {
                let trial = match tried {
                    Ok(trial) => trial,
                    Err(rejected) => return rejection(&rejected),
                };
                let declared = view.state.standing(&trial.capability).and_then(|standing| standing.declared());
                match &secret {
                    Some(secret) if declared.is_some_and(|declared| declared.digest == trial.digest) => {
                        let receipt = sign(secret, &trial.capability, &trial.script, author, first + at as u64, &trial.digest);
                        Unstamped::word(Word::ScriptCompiled, Door::Kernel, Payload::of(&receipt))
                    }
                    _ => rejection(&trial.rejected("declared anew meanwhile".to_owned())),
                }
            };
            Ok(tried.into_iter().enumerate().map(seal).collect())
        })?;
        let roster = Roster::of(&self.home.own());
        for (event, (capability, interpreter)) in landed.iter().zip(found).filter_map(|(event, it)| Some((event, it?))) {
            if event.name == Word::ScriptCompiled.name()
                && let Err(fault) = roster.note(&capability, &interpreter)
            {
                view.words.push(format!("could not note the interpreter of {capability}: {fault}"));
            }
        }
        Ok(landed)
    }

    /// Finds each script's interpreter; what has none is rejected.
    fn find_interpreters(
        &self,
        tried: &mut [Result<Trial, Rejected>],
        words: &mut Vec<String>,
    ) -> Vec<Option<(Capability, PathBuf)>> {
        let mut all = Vec::new();
        for outcome in tried {
            let Ok(trial) = &outcome else {
                all.push(None);
                continue;
            };
            let found = interpreter::shebang(trial.script.as_bytes()).map_err(|fault| fault.to_string()).and_then(|shebang| {
                interpreter::resolve(&shebang, &self.caller.path, self.home.root()).map_err(|fault| fault.to_string())
            });
            match found {
                Ok(found) => {
                    let told = |shim: PathBuf| format!("passed over `{}`: no manager says what it stands for", shim.display());
                    words.extend(found.passed_over.into_iter().map(told));
                    all.push(Some((trial.capability.clone(), found.path)));
                }
                Err(reason) => {
                    *outcome = Err(trial.rejected(reason));
                    all.push(None);
                }
            }
        }
        all
    }

    /// Runs each projector twice, in settings that differ, and compares the bytes. All of a body share one wait.
    fn try_pages(&self, view: &View, tried: &mut [Result<Trial, Rejected>]) -> Result<(), Error> {
        let mut pages = Vec::new();
        for (at, outcome) in tried.iter_mut().enumerate() {
            let Ok(trial) = &outcome else { continue };
            if trial.capability.kind == Kind::Command {
                continue;
            }
            let input = trial_input(view, trial)?;
            match self.project(&trial.capability, &trial.script, &input, Setting::Usual)? {
                Ok(first) => pages.push(Page { at, input, first }),
                Err(reason) => *outcome = Err(trial.rejected(reason)),
            }
        }
        if !pages.is_empty() {
            sleep(APART);
        }
        for page in pages {
            let Ok(trial) = &tried[page.at] else { continue };
            let second = self.project(&trial.capability, &trial.script, &page.input, Setting::Odd)?;
            let fault = match second {
                Err(reason) => Some(reason),
                Ok(second) if second != page.first => Some(difference(&page.first, &second)),
                Ok(_) => markup::check(&page.first).err().map(|fault| fault.to_string()),
            };
            if let Some(reason) = fault {
                tried[page.at] = Err(trial.rejected(reason));
            }
        }
        Ok(())
    }
}

fn rejection(rejected: &Rejected) -> Unstamped {
    Unstamped::word(Word::ScriptRejected, Door::Kernel, Payload::of(rejected))
}

/// What a projector is tried over: the newest events it consumes and, behind them, made ones.
fn trial_input(view: &View, trial: &Trial) -> Result<Vec<u8>, LogError> {
    let mut lines: VecDeque<Vec<u8>> = VecDeque::new();
    let mut bytes = 0;
    if let Some(log) = &view.log {
        // Of all names the newest are the newest of each, and of these the newest.
        let newest = TRIAL_EVENTS_MAX as u64;
        let last = trial.declaration.last.map_or(newest, |last| last.min(newest));
        let mut feed = log.feed(Wanted { names: trial.declaration.consumes.clone(), last: Some(last) })?;
        while let Some(piece) = feed.next_piece()? {
            let piece = piece.into_bytes().map_err(io_error("read", &log.path))?;
            for line in piece.split_inclusive(|byte| *byte == b'\n') {
                bytes += line.len();
                lines.push_back(line.to_vec());
                while lines.len() > TRIAL_EVENTS_MAX || bytes > TRIAL_BYTES_MAX {
                    bytes -= lines.pop_front().map_or(0, |line| line.len());
                }
            }
        }
    }
    let mut input = Vec::from(lines).concat();
    input.extend(trial::made(&view.state, &trial.declaration, view.state.seq()));
    Ok(input)
}

/// Says where two renderings of the same events differ.
fn difference(first: &[u8], second: &[u8]) -> String {
    let (first, second) = (String::from_utf8_lossy(first), String::from_utf8_lossy(second));
    let lines = first.lines().zip(second.lines()).enumerate().find(|(_, (one, other))| one != other);
    let short = |line: &str| line.chars().take(120).collect::<String>();
    let place = match lines {
        Some((at, (one, other))) => format!("line {}: `{}` and then `{}`", at + 1, short(one), short(other)),
        None => format!("{} bytes and then {}", first.len(), second.len()),
    };
    format!(
        "two runs over the same events gave different pages, {place}; a page reads no clock, time zone, locale, environment, \
         path, process id or random order"
    )
}
