//! Turns: whether the pipeline that a self stands in has an open prompt.
//!
//! A prompt leaves a [`Mark`] before it is printed; the [`Ear`] of a bare `self` finds it if its stdin descends from the pipe
//! the prompt was printed into. That is read off the system, never guessed from time or terminals. Touches `.self/turns` and
//! `/proc` only. The invariant: an ear takes a prompt for its own only if a chain of processes, or without `/proc` a common
//! job, joins the two.

use std::fmt;
use std::fs;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{FileType, fstat};

use crate::job;
use crate::marker::{self, Marker, System, Word};
use crate::proc::Here;
use crate::walk::{self, Pipe, Process, Readers, Side};

/// How long a prompt sleeps between two looks downstream.
const LOOK: Duration = Duration::from_micros(200);

/// How many looks running must find every pipe read.
const SETTLED_LOOKS: u32 = 2;

/// How many looks running may find a pipe held by a caller that sleeps: about 3 ms.
const CAPTURED_LOOKS: u32 = 8;

/// How long a prompt looks on while a shell is at work on the pipeline.
const FORMING_MAX: Duration = Duration::from_secs(5);

/// How long that shell may have run meanwhile, in clock ticks (1/100 s). A fork takes it less than one, however busy the machine
/// is: one that runs longer is doing something else, and captures the output.
const FORMING_TICKS_MAX: u64 = 10;

/// From this many looks on, a prompt sleeps ten times as long between them.
const PATIENT_LOOKS: u32 = 50;

/// How long a self that could leave no marker stays.
const LINGER: Duration = Duration::from_millis(50);

/// How long an ear at the end of its input waits for a prompt upstream that is still being made.
const FORMING_WAITS: Duration = Duration::from_secs(12);

/// How long it sleeps between two looks.
const MAKING_LOOK: Duration = Duration::from_millis(1);

/// What the prompt was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// None was made: its self failed or died on the way.
    Failed,
    /// A question; the seq of its `self.asked`.
    Ask(u64),
    /// Pending work, or a reflection.
    Work,
    /// An account to learn from.
    Learn,
}

impl Kind {
    fn words(self) -> (Word, Option<u64>) {
        match self {
            Kind::Failed => (Word::Failed, None),
            Kind::Ask(seq) => (Word::Ask, Some(seq)),
            Kind::Work => (Word::Work, None),
            Kind::Learn => (Word::Learn, None),
        }
    }

    fn of(marker: &Marker) -> Kind {
        match (marker.kind, marker.ask) {
            (Word::Ask, Some(seq)) => Kind::Ask(seq),
            (Word::Work, _) => Kind::Work,
            (Word::Learn, _) => Kind::Learn,
            (Word::Failed | Word::Ask, _) => Kind::Failed,
        }
    }
}

/// A marker that could not be left.
#[derive(Debug)]
pub struct TurnError {
    /// The marker's file or its directory.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

impl fmt::Display for TurnError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "could not write the turn marker `{}`: {}", self.path.display(), self.source)
    }
}

impl std::error::Error for TurnError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

impl TurnError {
    /// The remedy.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        "`.self` holds nothing that the log cannot rebuild: make it writable, or remove it"
    }

    fn at(path: &Path) -> impl Fn(io::Error) -> TurnError + '_ {
        |source| TurnError { path: path.to_owned(), source }
    }
}

/// What a prompt leaves behind for the self that will hear its answer.
#[derive(Debug)]
pub struct Mark {
    turns: PathBuf,
    way: Way,
}

#[derive(Debug)]
enum Way {
    Walk { here: Here, path: PathBuf, marker: Marker },
    Job(job::Prompt),
}

impl Mark {
    /// Leaves a marker of kind failed, if `out` is a pipe; `Ok(None)` if it is none. To be called before the append. Makes
    /// `turns` (mode 0700) if it is missing and sweeps stale markers.
    pub fn leave(turns: &Path, out: BorrowedFd<'_>) -> Result<Option<Mark>, TurnError> {
        let here = Here::find();
        let Some(pipe) = pipe(here.as_ref(), out) else { return Ok(None) };
        marker::make(turns).map_err(TurnError::at(turns))?;
        let system = System::read();
        marker::sweep(turns, &system, SystemTime::now());
        let way = match here {
            None => Way::Job(job::Prompt::leave(turns, pipe).map_err(TurnError::at(turns))?),
            Some(here) => {
                let path = turns.join(pipe.to_string());
                let (down, _) = here.survey(pipe, Side::Stdout);
                let System { boot, pidns } = system;
                let marker = Marker { boot, pidns, pipe, down, kind: Word::Failed, ask: None, job: None };
                marker::write(&path, &marker, false).map_err(TurnError::at(&path))?;
                Way::Walk { here, path, marker }
            }
        };
        Ok(Some(Mark { turns: turns.to_owned(), way }))
    }

    /// Writes the marker anew with its kind. To be called before the prompt is printed.
    pub fn promise(&mut self, kind: Kind) -> Result<(), TurnError> {
        let (word, seq) = kind.words();
        match &mut self.way {
            Way::Job(prompt) => prompt.promise(word, seq).map_err(TurnError::at(&self.turns)),
            Way::Walk { path, marker, .. } => {
                (marker.kind, marker.ask) = (word, seq);
                marker::write(path, marker, false).map(drop).map_err(TurnError::at(path))
            }
        }
    }

    /// Keeps the marker true until the pipeline stands. To be called after the prompt is printed and flushed, also if printing
    /// it failed.
    ///
    /// With `/proc` it looks downstream every 0.2 ms and writes the marker anew when it sees more, while stdout stays open: a
    /// mind that reads to the end cannot be gone before its place was seen. It ends when two looks running find a reader for
    /// each pipe downstream; when a caller captures the output, after about 3 ms; and not while a shell is still forking, at
    /// most [`FORMING_MAX`]. Without `/proc` it calls `close`, which must close stdout (`rustix::stdio::dup2_stdout` of
    /// `/dev/null`), and stays until an ear of the job waits, at most 250 ms.
    pub fn follow(self, close: impl FnOnce()) -> Result<(), TurnError> {
        match self.way {
            Way::Walk { here, path, marker } => watch(&here, &path, marker).map_err(TurnError::at(&path)),
            Way::Job(prompt) => {
                close();
                prompt.stay(&self.turns);
                Ok(())
            }
        }
    }

    /// Removes the marker: nothing will be printed after all.
    pub fn withdraw(self) {
        let _ = fs::remove_file(match &self.way {
            Way::Walk { path, .. } => path,
            Way::Job(prompt) => prompt.path(),
        });
    }
}

/// Looks downstream until the pipeline stands. The bounds count looks and not time, so that they mean the same under load.
fn watch(here: &Here, path: &Path, mut marker: Marker) -> io::Result<()> {
    let until = Instant::now() + FORMING_MAX;
    let (mut looks, mut settled, mut captured) = (0, 0, 0);
    let mut begun = None;
    loop {
        let (down, table) = here.survey(marker.pipe, Side::Stdout);
        let new: Vec<Pipe> = down.into_iter().filter(|pipe| !marker.down.contains(pipe)).collect();
        let grew = !new.is_empty();
        marker.down.extend(new);
        if grew && !marker::rewrite(path, &marker)? {
            return Ok(());
        }
        match walk::readers(&table, here.me(), &marker.down) {
            Readers::Settled => (settled, captured) = (if grew { 1 } else { settled + 1 }, captured + 1),
            Readers::Captured => (settled, captured) = (0, captured + 1),
            Readers::Forming => (settled, captured) = (0, 0),
        }
        looks += 1;
        let ticks = walk::shell_ticks(&table, here.me(), &[marker.pipe]);
        let ran = ticks.saturating_sub(*begun.get_or_insert(ticks));
        let is_over = ran >= FORMING_TICKS_MAX || Instant::now() > until;
        if settled >= SETTLED_LOOKS || captured >= CAPTURED_LOOKS || is_over {
            return Ok(());
        }
        sleep(if looks < PATIENT_LOOKS { LOOK } else { LOOK * 10 });
    }
}

/// How many stale markers the next prompt will sweep; `now` is in seconds since 1970.
#[must_use]
pub fn stale(turns: &Path, now: u64) -> usize {
    marker::stale(turns, &System::read(), SystemTime::UNIX_EPOCH + Duration::from_secs(now)).len()
}

/// Stays for a moment if `out` is a pipe, for a prompt that could neither be made nor marked: the self downstream sees by its walk
/// that there was one.
pub fn linger(out: BorrowedFd<'_>) {
    if pipe(Here::find().as_ref(), out).is_some() {
        sleep(LINGER);
    }
}

/// The ear of a bare `self`.
#[derive(Debug)]
pub struct Ear {
    turns: PathBuf,
    sense: Sense,
}

#[derive(Debug)]
enum Sense {
    /// The input is no pipe: it descends from none.
    Deaf,
    /// Walks upstream; the pipes found so far, nearest first.
    Walk {
        here: Here,
        boot: String,
        pipe: Pipe,
        up: Vec<Pipe>,
        /// Whether a self that may make a prompt was seen among them.
        saw_self: bool,
    },
    Job(job::Waiting),
}

/// An open prompt.
#[derive(Debug)]
pub struct Found {
    /// What it was.
    pub kind: Kind,
    path: PathBuf,
}

impl Found {
    /// Removes the marker: the prompt is answered. A marker that is gone already is fine.
    pub fn take(self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Ear {
    /// Walks upstream from the input, at the start of this self. An input that is no pipe never has an open prompt.
    #[must_use]
    pub fn open(turns: &Path, input: BorrowedFd<'_>) -> Ear {
        let here = Here::find();
        let sense = match (pipe(here.as_ref(), input), here) {
            (None, _) => Sense::Deaf,
            (Some(_), None) => Sense::Job(job::Waiting::start(turns)),
            (Some(pipe), Some(here)) => {
                let (mut up, mut saw_self) = (Vec::new(), false);
                walk_again(&here, pipe, &mut up, &mut saw_self);
                Sense::Walk { here, boot: System::read().boot, pipe, up, saw_self }
            }
        };
        Ear { turns: turns.to_owned(), sense }
    }

    /// Walks again when the first byte has come: whoever wrote it is in its place.
    pub fn first_byte(&mut self) {
        match &mut self.sense {
            Sense::Deaf => {}
            Sense::Job(waiting) => waiting.show(),
            Sense::Walk { here, pipe, up, saw_self, .. } => drop(walk_again(here, *pipe, up, saw_self)),
        }
    }

    /// Finds the open prompt at the end of the input. Waits while a self upstream may still make one, since a mind may answer
    /// without reading it, and at most [`FORMING_WAITS`] for a process that was forked and may become one.
    pub fn prompt(&mut self) -> Option<Found> {
        let until = Instant::now() + FORMING_WAITS;
        loop {
            let (found, making) = self.look();
            let waits = match making {
                Making::Nothing => false,
                Making::Perhaps => Instant::now() < until,
                Making::Surely => true,
            };
            if !waits {
                if let Sense::Job(waiting) = &mut self.sense {
                    waiting.stop();
                }
                return found;
            }
            sleep(MAKING_LOOK);
        }
    }

    /// Whether a self that may make a prompt was seen upstream. It tells nothing where a marker was found.
    #[must_use]
    pub fn saw_self(&self) -> bool {
        matches!(self.sense, Sense::Walk { saw_self: true, .. })
    }

    /// Tells whether a prompt is open already, without waiting.
    #[must_use]
    pub fn has_open_prompt_now(&mut self) -> bool {
        match &self.sense {
            Sense::Deaf => false,
            Sense::Job(waiting) => waiting.prompt().is_some(),
            Sense::Walk { boot, up, .. } => nearest(marker::all(&self.turns), boot, up).is_some(),
        }
    }

    /// The open prompt, and whether one that counts is still being made. Who is at work is seen before the markers are read: a
    /// self that was gone by then has left what it will leave.
    fn look(&mut self) -> (Option<Found>, Making) {
        match &mut self.sense {
            Sense::Deaf => (None, Making::Nothing),
            Sense::Job(waiting) => match waiting.prompt() {
                None => (None, Making::Nothing),
                Some((path, marker, making)) => {
                    let making = if making { Making::Perhaps } else { Making::Nothing };
                    (Some(Found { kind: Kind::of(&marker), path }), making)
                }
            },
            Sense::Walk { here, boot, pipe, up, saw_self } => {
                let table = walk_again(here, *pipe, up, saw_self);
                let (me, up) = (here.me(), &*up);
                match nearest(marker::all(&self.turns), boot, up) {
                    None if walk::is_forming_above(&table, me, up) => (None, at_work(&table, me, up).max(Making::Perhaps)),
                    None => (None, at_work(&table, me, up)),
                    Some((path, marker)) => {
                        let is_made = marker.kind != Word::Failed;
                        let making = if is_made { Making::Nothing } else { at_work(&table, me, &[marker.pipe]) };
                        (Some(Found { kind: Kind::of(&marker), path }), making)
                    }
                }
            }
        }
    }
}

/// Whether a prompt is still being made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Making {
    Nothing,
    /// A process was forked that may become a self.
    Perhaps,
    /// A self is at work.
    Surely,
}

/// Whether a process that prints into one of the pipes is a self that may make a prompt, or may become one.
fn at_work(table: &[Process], me: u32, pipes: &[Pipe]) -> Making {
    let prints = |process: &&Process| process.pid != me && process.stdout().is_some_and(|pipe| pipes.contains(&pipe));
    let making = |process: &Process| match process.prompts {
        true => Making::Surely,
        false if walk::is_forming(table, process) => Making::Perhaps,
        false => Making::Nothing,
    };
    table.iter().filter(prints).map(making).max().unwrap_or(Making::Nothing)
}

/// Walks upstream and adds what is new; gives the processes it saw.
fn walk_again(here: &Here, pipe: Pipe, up: &mut Vec<Pipe>, saw_self: &mut bool) -> Vec<Process> {
    let (pipes, table) = here.survey(pipe, Side::Stdin);
    for pipe in pipes {
        if !up.contains(&pipe) {
            up.push(pipe);
        }
    }
    *saw_self |= at_work(&table, here.me(), up) == Making::Surely;
    table
}

/// The marker whose prompt the pipes descend from; of several the nearest one upstream.
fn nearest(markers: Vec<(PathBuf, Marker)>, boot: &str, up: &[Pipe]) -> Option<(PathBuf, Marker)> {
    let mine = |(path, marker): (PathBuf, Marker)| {
        if marker.job.is_some() || marker.boot != boot {
            return None;
        }
        let meets = up.iter().position(|pipe| marker.down.contains(pipe))?;
        let begins = up.iter().position(|pipe| *pipe == marker.pipe).unwrap_or(usize::MAX);
        Some(((begins, meets, marker.down.len()), path, marker))
    };
    let nearest = markers.into_iter().filter_map(mine).min_by_key(|(distance, ..)| *distance)?;
    Some((nearest.1, nearest.2))
}

/// The inode of the pipe a descriptor is an end of.
fn pipe(here: Option<&Here>, fd: BorrowedFd<'_>) -> Option<Pipe> {
    match here {
        Some(here) => here.pipe(fd),
        None => {
            let stat = fstat(fd).ok()?;
            #[allow(clippy::useless_conversion, reason = "the widths differ between systems")]
            (FileType::from_raw_mode(stat.st_mode) == FileType::Fifo).then(|| u64::from(stat.st_ino))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::slice;

    fn marker(pipe: Pipe, down: &[Pipe]) -> (PathBuf, Marker) {
        let (boot, down) = ("b".into(), down.to_vec());
        let marker = Marker { boot, pidns: 1, pipe, down, kind: Word::Work, ask: None, job: None };
        (PathBuf::from(pipe.to_string()), marker)
    }

    #[track_caller]
    fn check(markers: &[(PathBuf, Marker)], up: &[Pipe], expect: Option<Pipe>) {
        let found = nearest(markers.to_vec(), "b", up);
        assert_eq!(found.map(|(_, marker)| marker.pipe), expect);
    }

    #[test]
    fn a_prompt_is_open_where_downstream_and_upstream_meet() {
        let prompt = marker(1, &[1, 2]);
        check(slice::from_ref(&prompt), &[2], Some(1));
        check(slice::from_ref(&prompt), &[3, 2], Some(1));
        check(slice::from_ref(&prompt), &[4, 3, 1], Some(1));
        check(slice::from_ref(&prompt), &[4, 3], None);
        check(&[], &[1], None);
    }

    #[test]
    fn a_marker_of_another_boot_or_of_a_job_is_not_mine() {
        let (path, mut foreign) = marker(1, &[1]);
        foreign.boot = "a".into();
        check(&[(path.clone(), foreign.clone())], &[1], None);
        (foreign.boot, foreign.job) = ("b".into(), Some("group 1".into()));
        check(&[(path, foreign)], &[1], None);
    }

    #[test]
    fn of_two_prompts_upstream_the_nearer_one_counts() {
        let (far, near) = (marker(1, &[1, 2, 3, 4]), marker(3, &[3, 4]));
        check(&[far.clone(), near.clone()], &[4, 3, 2, 1], Some(3));
        check(&[near, far], &[4], Some(3));
    }

    #[test]
    fn a_kind_reads_back_from_its_marker() {
        for kind in [Kind::Failed, Kind::Ask(7), Kind::Work, Kind::Learn] {
            let (word, ask) = kind.words();
            let (_, marker) = marker(1, &[1]);
            assert_eq!(Kind::of(&Marker { kind: word, ask, ..marker }), kind);
        }
    }

    #[test]
    fn a_prompt_in_my_own_pipe_is_found_once() {
        let home = tempfile::tempdir().unwrap();
        let turns = home.path().join("turns");
        let (reader, writer) = io::pipe().unwrap();
        let mut ear = Ear::open(&turns, reader.as_fd());
        assert!(!ear.has_open_prompt_now() && !turns.exists());
        let mut mark = Mark::leave(&turns, writer.as_fd()).unwrap().unwrap();
        assert!(ear.has_open_prompt_now());
        assert_eq!(ear.look().0.unwrap().kind, Kind::Failed);
        mark.promise(Kind::Ask(7)).unwrap();
        mark.follow(|| {}).unwrap();
        ear.first_byte();
        let found = ear.prompt().unwrap();
        assert_eq!(found.kind, Kind::Ask(7));
        found.take();
        assert!(ear.prompt().is_none());
        assert_eq!(fs::read_dir(&turns).unwrap().count(), 0);
    }

    #[test]
    fn a_withdrawn_prompt_is_not_open() {
        let home = tempfile::tempdir().unwrap();
        let turns = home.path().join("turns");
        let (reader, writer) = io::pipe().unwrap();
        Mark::leave(&turns, writer.as_fd()).unwrap().unwrap().withdraw();
        assert!(Ear::open(&turns, reader.as_fd()).prompt().is_none());
    }

    #[test]
    fn what_is_no_pipe_neither_marks_nor_hears() {
        let home = tempfile::tempdir().unwrap();
        let turns = home.path().join("turns");
        let file = fs::File::create(home.path().join("out")).unwrap();
        assert!(Mark::leave(&turns, file.as_fd()).unwrap().is_none());
        assert!(Ear::open(&turns, file.as_fd()).prompt().is_none());
        assert!(!turns.exists());
    }

    #[test]
    fn a_marker_that_cannot_be_written_is_an_error_with_its_path() {
        let home = tempfile::tempdir().unwrap();
        let turns = home.path().join("turns");
        fs::write(&turns, "in the way").unwrap();
        let (_reader, writer) = io::pipe().unwrap();
        let error = Mark::leave(&turns, writer.as_fd()).unwrap_err();
        assert!(error.to_string().starts_with(&format!("could not write the turn marker `{}", turns.display())), "{error}");
    }
}
