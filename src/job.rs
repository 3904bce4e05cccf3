//! Jobs: how a prompt and its ear find each other where there is no `/proc`.
//!
//! They belong together when their lifetimes overlap in one job: a marker is locked while its prompt is being made and until an
//! ear of the job waits, an ear's `<pid>.waits` is locked while it waits. Two pipelines of one job at once can be mistaken for
//! each other; with `/proc` this file is not used. Touches the markers' directory only.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{getpgid, getpgrp, getppid};
use serde::{Deserialize, Serialize};

use crate::marker::{self, Marker, Word};

/// How long a prompt stays for an ear that has yet to start.
const STAY_MAX: Duration = Duration::from_millis(250);

/// How long it sleeps between two looks.
const LOOK: Duration = Duration::from_millis(1);

const WAITS: &str = "waits";

/// The job of this process: its group, or, where that is its parent's too, its parent.
pub(crate) fn own() -> String {
    let (group, parent) = (getpgrp(), getppid());
    match parent {
        Some(parent) if getpgid(Some(parent)).is_ok_and(|theirs| theirs == group) => format!("parent {}", parent.as_raw_pid()),
        Some(_) | None => format!("group {}", group.as_raw_pid()),
    }
}

/// A prompt's marker, locked as long as this value lives.
#[derive(Debug)]
pub(crate) struct Prompt {
    path: PathBuf,
    marker: Marker,
    lock: File,
}

impl Prompt {
    /// Writes the marker as failed.
    pub(crate) fn leave(turns: &Path, pipe: u64) -> io::Result<Prompt> {
        sweep(turns);
        let path = turns.join(format!("{}.job", std::process::id()));
        let (boot, job) = (String::new(), Some(own()));
        let marker = Marker { boot, pidns: 0, pipe, down: vec![pipe], kind: Word::Failed, ask: None, job };
        let lock = marker::write(&path, &marker, true)?;
        Ok(Prompt { path, marker, lock })
    }

    /// The marker's file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the marker anew. The new file is locked before the old one is let go.
    pub(crate) fn promise(&mut self, kind: Word, ask: Option<u64>) -> io::Result<()> {
        self.marker = Marker { kind, ask, ..self.marker.clone() };
        self.lock = marker::write(&self.path, &self.marker, true)?;
        Ok(())
    }

    /// Stays until an ear of the job waits, at most [`STAY_MAX`], then unlocks. stdout must be closed by now: the mind answers
    /// when it has read to the end.
    pub(crate) fn stay(self, turns: &Path) {
        let until = Instant::now() + STAY_MAX;
        while Instant::now() < until && !self.heard(turns) {
            sleep(LOOK);
        }
    }

    fn heard(&self, turns: &Path) -> bool {
        let own = waits_path(turns);
        let of_job = |path: &PathBuf| Waits::read(path).is_some_and(|waits| Some(waits.job) == self.marker.job);
        marker::files(turns).into_iter().any(|path| path != own && of_job(&path) && is_locked(&path))
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Waits {
    job: String,
}

impl Waits {
    fn read(path: &Path) -> Option<Waits> {
        path.extension().filter(|extension| *extension == WAITS)?;
        serde_json::from_slice(&marker::read_bytes(path)?).ok()
    }
}

fn waits_path(turns: &Path) -> PathBuf {
    turns.join(format!("{}.{WAITS}", std::process::id()))
}

/// A self of the job that waits for an answer.
#[derive(Debug)]
pub(crate) struct Waiting {
    turns: PathBuf,
    job: String,
    /// Markers that were already unlocked when this self started: their pipelines are over.
    over: BTreeSet<PathBuf>,
    sign: Option<File>,
}

impl Waiting {
    /// Notes which prompts are over, and only then shows itself: a prompt that sees it may unlock at once.
    pub(crate) fn start(turns: &Path) -> Waiting {
        let job = own();
        let over = prompts(turns, &job).filter(|(path, _)| !is_locked(path)).map(|(path, _)| path).collect();
        let mut waiting = Waiting { turns: turns.to_owned(), job, over, sign: None };
        waiting.show();
        waiting
    }

    /// Shows itself to the prompts of the job, if there is a home by now: a look makes none.
    pub(crate) fn show(&mut self) {
        if self.sign.is_none() && self.turns.parent().is_some_and(Path::is_dir) && marker::make(&self.turns).is_ok() {
            self.sign = marker::write(&waits_path(&self.turns), &Waits { job: self.job.clone() }, true).ok();
        }
    }

    /// No longer waits: what this self prints itself must not be kept for it.
    pub(crate) fn stop(&mut self) {
        if self.sign.take().is_some() {
            let _ = fs::remove_file(waits_path(&self.turns));
        }
    }

    /// The newest prompt of the job that is not over, and whether it is still being made.
    pub(crate) fn prompt(&self) -> Option<(PathBuf, Marker, bool)> {
        let open = prompts(&self.turns, &self.job).filter(|(path, _)| !self.over.contains(path));
        let written = |path: &Path| fs::symlink_metadata(path).and_then(|meta| meta.modified()).ok();
        let (path, _) = open.max_by_key(|(path, _)| written(path))?;
        let making = is_locked(&path);
        let marker = marker::read(&path)?;
        let making = making && marker.kind == Word::Failed;
        Some((path, marker, making))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.stop();
    }
}

fn prompts<'a>(turns: &Path, job: &'a str) -> impl Iterator<Item = (PathBuf, Marker)> + use<'a> {
    marker::all(turns).into_iter().filter(move |(_, marker)| marker.job.as_deref() == Some(job))
}

/// Whether the owner of a file still holds its lock.
fn is_locked(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// Removes what a killed ear left behind; markers stay for the ears that must know them as over.
fn sweep(turns: &Path) {
    let dead = |path: &PathBuf| Waits::read(path).is_some() && !is_locked(path);
    for path in marker::files(turns).into_iter().filter(dead) {
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_that_overlap_belong_together() {
        let home = tempfile::tempdir().unwrap();
        let turns = home.path().join("turns");
        marker::make(&turns).unwrap();
        let mut waiting = Waiting::start(&turns);
        assert!(waiting.prompt().is_none());
        let mut prompt = Prompt::leave(&turns, 5).unwrap();
        assert!(waiting.prompt().unwrap().2, "it is still being made");
        prompt.promise(Word::Ask, Some(7)).unwrap();
        let (path, marker, making) = waiting.prompt().unwrap();
        assert_eq!((path.as_path(), marker.kind, marker.ask, making), (prompt.path(), Word::Ask, Some(7), false));
        waiting.stop();
        drop(prompt);
        assert!(waiting.prompt().is_some(), "it overlapped");
        assert!(Waiting::start(&turns).prompt().is_none(), "it was over before that one started");
    }

    #[test]
    fn a_prompt_stays_for_an_ear_of_its_job_only() {
        let home = tempfile::tempdir().unwrap();
        let turns = home.path();
        let prompt = Prompt::leave(turns, 5).unwrap();
        let _own = Waiting::start(turns);
        assert!(!prompt.heard(turns), "not for itself");
        let mut signs = Vec::new();
        for (pid, job, expect) in [(1, "group 0", false), (2, own().as_str(), true)] {
            let path = turns.join(format!("{pid}.{WAITS}"));
            signs.push(marker::write(&path, &Waits { job: job.into() }, true).unwrap());
            assert_eq!(prompt.heard(turns), expect, "{job}");
        }
        drop(signs);
        assert!(!prompt.heard(turns), "a dead ear does not wait");
        let begun = Instant::now();
        prompt.stay(turns);
        assert!(begun.elapsed() >= STAY_MAX);
        sweep(turns);
        assert_eq!(marker::files(turns).len(), 2, "what dead ears left is swept");
    }

    #[test]
    fn a_look_makes_no_home() {
        let home = tempfile::tempdir().unwrap();
        drop(Waiting::start(&home.path().join(".self/turns")));
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
    }
}
