//! Joining: what several runs of one server want recorded lands as one batch, with one sync.
//!
//! Only a kernel beside others of the same process has a convoy; any other commits by itself. The invariant: what each run asked for
//! stands together and in order, lands whole or not at all, and is acknowledged only once it is synced.

use crate::batch::{Arrival, Own, Unstamped};
use crate::event::{Door, Event};
use crate::kernel::{Error, Kernel, View};
use crate::log::LogError;

impl Kernel {
    /// Appends what one run asks for; with others' at the same time, if there is a convoy.
    pub(crate) fn commit_joined(&self, view: &mut View, asked: Vec<Unstamped>) -> Result<Vec<Event<'static>>, Error> {
        let Some(convoy) = &self.convoy else { return self.commit(view, asked) };
        let mut led = false;
        let spoken = asked.into_iter().map(|entry| self.spoken(entry)).collect();
        let arrival = convoy.join(spoken, |loads| {
            led = true;
            self.commit_all(view, loads)
        });
        match arrival {
            Some(Arrival::Landed(events)) if led => Ok(events),
            Some(Arrival::Landed(events)) => {
                // Another one's view has it. What landed has landed: a reading that fails here is told by the next one.
                if let Ok(mut newer) = self.look() {
                    newer.words.splice(0..0, std::mem::take(&mut view.words));
                    *view = newer;
                }
                Ok(events)
            }
            Some(Arrival::Failed(fault)) => Err(fault.into()),
            Some(Arrival::Parted(asked)) => self.commit(view, asked),
            None => Err(LogError::Unknown {
                path: self.home.places().log,
                source: std::io::Error::other("whoever wrote it for several runs failed"),
            }
            .into()),
        }
    }

    /// An entry that keeps its own speaker, whoever commits it.
    fn spoken(&self, entry: Unstamped) -> Unstamped {
        if entry.own.is_some() || entry.door == Door::Kernel {
            return entry;
        }
        let by = self.caller.speaker.as_ref().map(|by| by.as_str().to_owned());
        Unstamped { own: Some(Own { occurred_at: None, by }), ..entry }
    }

    /// Commits the loads as one batch. If it surely did not land, each goes by itself, and hears what was wrong.
    fn commit_all(&self, view: &mut View, loads: Vec<Vec<Unstamped>>) -> Vec<Arrival> {
        let lengths: Vec<usize> = loads.iter().map(Vec::len).collect();
        match self.commit(view, loads.concat()) {
            Ok(events) => {
                let mut events = events.into_iter();
                lengths.iter().map(|length| Arrival::Landed(events.by_ref().take(*length).collect())).collect()
            }
            Err(Error::Log(fault)) if !fault.is_before_the_write() => {
                loads.iter().map(|_| Arrival::Failed(fault.again())).collect()
            }
            Err(_) => loads.into_iter().map(Arrival::Parted).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::fs::File;
    use std::io;
    use std::path::Path;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};
    use std::thread::scope;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::append::Disk;
    use crate::batch::Batches;
    use crate::event::Speaker;
    use crate::home::Home;
    use crate::kernel::{Caller, World};
    use crate::level::{Level, Reach, Sandbox};
    use crate::payload::Payload;

    const RUNS: usize = 8;

    /// One test at a time has the disk.
    static DISK: Mutex<()> = Mutex::new(());
    static SYNCS: AtomicUsize = AtomicUsize::new(0);
    static COMING: AtomicUsize = AtomicUsize::new(0);
    static FAILS_AT: AtomicUsize = AtomicUsize::new(usize::MAX);

    /// The first sync ends only when all the others are on their way.
    fn sync(file: &File) -> io::Result<()> {
        let nth = SYNCS.fetch_add(1, Ordering::SeqCst);
        let until = Instant::now() + Duration::from_secs(20);
        while nth == 0 && COMING.load(Ordering::SeqCst) < RUNS && Instant::now() < until {
            std::thread::yield_now();
        }
        if nth == FAILS_AT.load(Ordering::SeqCst) { Err(io::Error::from_raw_os_error(5)) } else { file.sync_data() }
    }

    fn kernel(folder: &Path, speaker: usize, disk: Disk, convoy: &Arc<Batches>) -> Kernel {
        let world = World {
            now: || "2026-11-30T10:34:18.5Z".parse().unwrap(),
            random: |bytes| getrandom::fill(bytes).map_err(io::Error::from),
            disk,
            reach: |_, _, _| Reach { level: Level::Full, why: String::new(), holds_signals: true },
            tell: |_| {},
            offered: |_| Vec::new(),
        };
        let caller = Caller {
            speaker: Speaker::claimed(Some(format!("run {speaker}"))),
            mind: None,
            folder: folder.to_owned(),
            path: "/usr/bin:/bin".into(),
            scratch: std::env::temp_dir(),
            executable: "/nonexistent".into(),
            script_seconds: 10,
            sandbox: Sandbox::Auto,
            user: "/nonexistent".into(),
            state: None,
        };
        let mut kernel = Kernel::new(Home::at(folder.to_owned()), caller, world);
        kernel.convoy = Some(Arc::clone(convoy));
        kernel
    }

    fn note(run: usize, at: usize) -> Unstamped {
        let payload = Payload::of(&(run, at));
        Unstamped { name: Cow::Borrowed("note.made"), payload, door: Door::Http("127.0.0.1".into()), own: None }
    }

    /// Runs that all want three events recorded: the first is being synced when the others come. What each was told.
    fn race(folder: &Path, fails_at: usize) -> Vec<Result<Vec<Event<'static>>, Error>> {
        let convoy = Arc::default();
        let opener = kernel(folder, 0, Disk::real(), &Arc::default());
        opener.commit(&mut opener.look().unwrap(), vec![note(99, 0)]).unwrap();
        for (count, start) in [(&SYNCS, 0), (&COMING, 0), (&FAILS_AT, fails_at)] {
            count.store(start, Ordering::SeqCst);
        }
        scope(|scope| {
            let runs: Vec<_> = (0..RUNS)
                .map(|run| {
                    let disk = Disk { sync, ..Disk::real() };
                    let kernel = kernel(folder, run, disk, &convoy);
                    let running = scope.spawn(move || {
                        let mut view = kernel.look().unwrap();
                        COMING.fetch_add(1, Ordering::SeqCst);
                        let told = kernel.commit_joined(&mut view, (0..3).map(|at| note(run, at)).collect());
                        if let Ok(events) = &told {
                            let newest = events.iter().map(|event| event.seq).max().unwrap();
                            assert!(view.position.highest >= newest, "its own events are in its view");
                        }
                        told
                    });
                    let until = Instant::now() + Duration::from_secs(20);
                    while run == 0 && SYNCS.load(Ordering::SeqCst) == 0 && Instant::now() < until {
                        std::thread::yield_now();
                    }
                    running
                })
                .collect();
            runs.into_iter().map(|run| run.join().unwrap()).collect()
        })
    }

    fn written(folder: &Path) -> Vec<(u64, String, String)> {
        let view = kernel(folder, 0, Disk::real(), &Arc::default()).look().unwrap();
        let mut found = Vec::new();
        let log = view.log.unwrap();
        log.named(&["note.made"], |event| {
            found.push((event.seq, event.by.as_deref().unwrap_or_default().to_owned(), event.payload.get().to_owned()));
        })
        .unwrap();
        found.split_off(1)
    }

    #[test]
    fn runs_that_end_together_share_a_sync_and_each_stands_by_itself() {
        let _disk = DISK.lock();
        let folder = tempfile::tempdir().unwrap();
        let told = race(folder.path(), usize::MAX);
        let syncs = SYNCS.load(Ordering::SeqCst);
        assert!((2..=RUNS / 2).contains(&syncs), "{syncs} syncs for {RUNS} runs");
        let found = written(folder.path());
        assert_eq!(found.len(), RUNS * 3);
        for (run, told) in told.into_iter().enumerate() {
            let seqs: Vec<u64> = told.unwrap().iter().map(|event| event.seq).collect();
            assert_eq!(seqs, [seqs[0], seqs[0] + 1, seqs[0] + 2]);
            for (at, seq) in seqs.into_iter().enumerate() {
                assert!(found.contains(&(seq, format!("run {run}"), format!("[{run},{at}]"))), "{run} {at}: {found:?}");
            }
        }
    }

    #[test]
    fn a_shared_sync_that_fails_acknowledges_none_of_them() {
        let _disk = DISK.lock();
        let folder = tempfile::tempdir().unwrap();
        let told = race(folder.path(), 1);
        let (landed, failed): (Vec<_>, Vec<_>) = told.into_iter().partition(Result::is_ok);
        assert_eq!(written(folder.path()).len(), landed.len() * 3);
        assert!(!failed.is_empty());
        for fault in failed {
            let fault = fault.unwrap_err().to_string();
            assert!(fault.starts_with("outcome unknown: could not sync `"), "{fault}");
        }
    }

    #[test]
    fn what_is_too_large_together_goes_by_itself() {
        let _disk = DISK.lock();
        let folder = tempfile::tempdir().unwrap();
        let kernel = kernel(folder.path(), 1, Disk::real(), &Arc::default());
        let mut view = kernel.look().unwrap();
        let large = || Unstamped { payload: Payload::of(&"x".repeat(7 << 20)), ..note(0, 0) };
        let loads: Vec<Vec<_>> = (0..2).map(|_| (0..5).map(|_| large()).collect()).collect();
        let arrivals = kernel.commit_all(&mut view, loads);
        assert!(matches!(&arrivals[..], [Arrival::Parted(one), Arrival::Parted(other)] if one.len() + other.len() == 10));
        assert_eq!(view.position.highest, 0);
    }
}
