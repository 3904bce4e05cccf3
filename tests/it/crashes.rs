//! Random sequences of verbs on a disk that may lose, at each crash, any of the sectors that were not synced.
//!
//! A model beside the kernel knows what was acknowledged. After every step all of it is there, in order; the one batch whose
//! outcome nobody was told is there whole or not at all; and no byte that was cut off is lost. Seeded: a failure names its seed.

use std::cell::{Cell, RefCell};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};

use self_kernel::append::Disk;
use self_kernel::hearing::Answers;
use self_kernel::home::Home;
use self_kernel::kernel::{Caller, Kernel, World};
use self_kernel::level::{Level, Reach, Sandbox};
use self_kernel::log::Log;
use self_kernel::wire;

const SECTOR_BYTES: u64 = 512;
const STEPS: usize = 14;

/// What the disk does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mood {
    Works,
    /// The process dies after so many bytes of a write.
    DiesWriting(usize),
    /// The process dies before the sync.
    DiesBeforeSync,
    /// The process dies behind the sync, before anybody is told.
    DiesBehindSync,
    /// There is room for so many bytes.
    Full(usize),
    /// The sync fails.
    SyncFails,
}

thread_local! {
    static MOOD: Cell<Mood> = const { Cell::new(Mood::Works) };
    /// How long the log is known to be on the disk: what is behind that may be lost.
    static SYNCED: Cell<u64> = const { Cell::new(0) };
    static WRITTEN: Cell<bool> = const { Cell::new(false) };
    /// Whether the disk has what it says it has.
    static HONEST: Cell<bool> = const { Cell::new(true) };
    static RANDOM: RefCell<Random> = const { RefCell::new(Random(1)) };
}

/// What a process that dies unwinds with.
struct Died;

/// So much of the log is on the disk now, if the disk is honest.
fn keep(length: u64) {
    if HONEST.get() {
        SYNCED.set(length);
    }
}

fn write(mut file: &File, bytes: &[u8]) -> io::Result<usize> {
    if !WRITTEN.replace(true) {
        // What stands in front of a batch was synced, a cut tail too.
        keep(file.metadata()?.len());
    }
    match MOOD.get() {
        Mood::DiesWriting(room) => {
            file.write_all(&bytes[..room.min(bytes.len())])?;
            resume_unwind(Box::new(Died));
        }
        Mood::Full(0) => Err(io::ErrorKind::StorageFull.into()),
        Mood::Full(room) => {
            let more = room.min(bytes.len());
            MOOD.set(Mood::Full(room - more));
            file.write_all(&bytes[..more]).map(|()| more)
        }
        Mood::Works | Mood::DiesBeforeSync | Mood::DiesBehindSync | Mood::SyncFails => {
            file.write_all(bytes).map(|()| bytes.len())
        }
    }
}

fn sync(file: &File) -> io::Result<()> {
    match MOOD.get() {
        Mood::DiesBeforeSync => resume_unwind(Box::new(Died)),
        Mood::SyncFails => return Err(io::Error::from_raw_os_error(5)),
        Mood::Works | Mood::DiesWriting(_) | Mood::DiesBehindSync | Mood::Full(_) => {}
    }
    keep(file.metadata()?.len());
    if MOOD.get() == Mood::DiesBehindSync {
        resume_unwind(Box::new(Died));
    }
    Ok(())
}

/// A small generator: xorshift64*.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 33).unwrap() % end.max(1)
    }
}

fn below(end: usize) -> usize {
    RANDOM.with_borrow_mut(|random| random.below(end))
}

/// What must be in the log: the payloads of the notes that were acknowledged, a batch each, and the one nobody was told of.
#[derive(Debug, Default)]
struct Model {
    told: Vec<Vec<u64>>,
    untold: Option<Vec<u64>>,
    noted: u64,
}

struct Scene {
    folder: tempfile::TempDir,
    model: Model,
}

impl Scene {
    fn kernel(&self) -> Kernel {
        let world = World {
            now: || "2026-11-30T10:34:18.5Z".parse().unwrap(),
            random: |bytes| {
                bytes.iter_mut().for_each(|byte| *byte = u8::try_from(below(256)).unwrap());
                Ok(())
            },
            disk: Disk { write, sync },
            reach: |_, _, _| Reach { level: Level::Full, why: String::new(), holds_signals: true },
            tell: |_| {},
            offered: |_| Vec::new(),
        };
        let caller = Caller {
            speaker: None,
            mind: None,
            folder: self.folder.path().to_owned(),
            path: "/usr/bin:/bin".into(),
            scratch: std::env::temp_dir(),
            executable: PathBuf::from("/nonexistent"),
            script_seconds: 10,
            sandbox: Sandbox::Auto,
            user: "/nonexistent".into(),
            state: Some(self.folder.path().join("state")),
        };
        Kernel::new(Home::at(self.home()), caller, world)
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    fn log(&self) -> PathBuf {
        self.home().join("events.jsonl")
    }

    /// One verb under this mood: whether it was acknowledged, was refused, or died.
    fn act(&mut self, mood: Mood) -> Result<bool, Died> {
        let notes: Vec<u64> = (0..=below(4) as u64).map(|n| self.model.noted + n).collect();
        self.model.noted += notes.len() as u64;
        let pad = "x".repeat([0, 0, 40, 700, 3000][below(5)]);
        let body: String =
            notes.iter().map(|n| format!("{{\"name\":\"note.taken\",\"payload\":{{\"n\":{n},\"pad\":\"{pad}\"}}}}\n")).collect();
        MOOD.set(mood);
        WRITTEN.set(false);
        let kernel = self.kernel();
        let verb = below(8);
        let done = catch_unwind(AssertUnwindSafe(|| match verb {
            0 => kernel.ask("what is going on?", File::open("/dev/null").unwrap().as_fd()).is_ok(),
            1 => kernel.verify(true, |_| {}).is_ok(),
            _ => kernel.hear(wire::read(body.as_bytes()), Answers::Nothing).failure.is_none(),
        }));
        MOOD.set(Mood::Works);
        match done {
            Ok(done) if verb > 1 && done => self.model.told.push(notes),
            Err(_) if verb > 1 => self.model.untold = Some(notes),
            Ok(_) | Err(_) => {}
        }
        done.map_err(|_| Died)
    }

    /// The power goes: of what was not synced each sector is there or not, and the file ends anywhere.
    fn lose_power(&self) {
        let Ok(file) = OpenOptions::new().read(true).write(true).open(self.log()) else { return };
        let (synced, length) = (SYNCED.get(), file.metadata().unwrap().len());
        if length <= synced {
            return;
        }
        let end = match below(3) {
            0 => length,
            _ => synced + below(usize::try_from(length - synced).unwrap() + 1) as u64,
        };
        file.set_len(end).unwrap();
        for sector in synced / SECTOR_BYTES..=end / SECTOR_BYTES {
            let (from, to) = ((sector * SECTOR_BYTES).max(synced), ((sector + 1) * SECTOR_BYTES).min(end));
            if from < to && below(3) == 0 {
                file.write_all_at(&vec![0; usize::try_from(to - from).unwrap()], from).unwrap();
            }
        }
        keep(end);
    }

    /// Another hand leaves junk behind.
    fn litter(&self) {
        let junk: &[u8] = [&b"\0\0\0\0"[..], b"\xff\xfe", b"{\"id\":\"x\",\"se", b"garbage\n"][below(4)];
        if let Ok(mut file) = OpenOptions::new().append(true).open(self.log()) {
            file.write_all(junk).unwrap();
            keep(file.metadata().unwrap().len());
        }
    }

    /// What a reader sees that must not be, in words.
    fn fault(&mut self) -> Option<String> {
        let log = Log::open(&Home::at(self.home()).places()).unwrap()?;
        let (mut notes, mut seqs) = (Vec::new(), Vec::new());
        let position = log.all(|event| {
            seqs.push(event.seq);
            if event.name == "note.taken" {
                let payload: serde_json::Value = serde_json::from_str(event.payload.get()).unwrap();
                notes.push(payload["n"].as_u64().unwrap());
            }
        });
        let told = self.model.told.concat();
        if let Some(untold) = self.model.untold.take()
            && notes.len() > told.len()
        {
            self.model.told.push(untold);
        }
        let (expected, damage) = (self.model.told.concat(), position.unwrap().damage);
        if notes != expected {
            return Some(format!("there are {notes:?}, and should be {expected:?}"));
        }
        let has_gaps = seqs.iter().zip(1..).any(|(seq, due)| *seq != due);
        (has_gaps || !damage.is_empty()).then(|| format!("numbers {seqs:?}, damage {damage:?}"))
    }

    /// Whether all that was there is there still, or set aside from where it was cut off.
    fn has_all_of(&self, before: &[u8]) -> bool {
        let after = fs::read(self.log()).unwrap_or_default();
        let torn = fs::read_dir(self.home().join(".self/torn")).into_iter().flatten();
        let is_here = |entry: fs::DirEntry| {
            let name = entry.file_name().into_string().unwrap();
            let cut: usize = name.split('-').next().unwrap().parse().unwrap();
            after.get(..cut) == before.get(..cut) && before.get(cut..) == fs::read(entry.path()).ok().as_deref()
        };
        after.starts_with(before) || torn.map(Result::unwrap).any(is_here)
    }
}

/// Runs one sequence; gives how often the process died, and how many notes were acknowledged, or what is wrong.
fn sequence(seed: u64, parent: &Path) -> Result<(u64, u64), String> {
    RANDOM.set(Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1));
    SYNCED.set(0);
    let mut scene = Scene { folder: tempfile::tempdir_in(parent).unwrap(), model: Model::default() };
    let mut deaths = 0;
    for step in 0..STEPS {
        let mood = match below(9) {
            0 | 1 => Mood::DiesWriting(below(3000)),
            2 => Mood::DiesBeforeSync,
            3 => Mood::DiesBehindSync,
            4 => Mood::Full(below(1500)),
            5 => Mood::SyncFails,
            _ => Mood::Works,
        };
        let wrong = |what: String| format!("seed {seed}, step {step}, {mood:?}: {what}");
        let before = fs::read(scene.log()).unwrap_or_default();
        match scene.act(mood) {
            Ok(true) if !scene.has_all_of(&before) => return Err(wrong("bytes disappeared".to_owned())),
            Ok(false) if fs::read(scene.log()).unwrap_or_default() != before => return Err(wrong("the log changed".to_owned())),
            Ok(_) => {}
            Err(Died) => {
                deaths += 1;
                if below(4) > 0 {
                    scene.lose_power();
                }
            }
        }
        if below(6) == 0 {
            scene.litter();
        }
        scene.fault().map_or(Ok(()), |fault| Err(wrong(fault)))?;
    }
    let report = scene.kernel().verify(false, |_| {});
    let faults = report.map(|report| report.faults).unwrap_or_default();
    match faults.iter().find(|fault| !fault.fault.starts_with("torn")) {
        Some(fault) => Err(format!("seed {seed}: {fault:?}")),
        None => Ok((deaths, scene.model.told.concat().len() as u64)),
    }
}

/// Where homes are made: in memory where there is some, for a real sync means nothing here.
fn parent() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if tempfile::tempdir_in(memory).is_ok() { memory.to_owned() } else { std::env::temp_dir() }
}

/// Runs these sequences; gives how often a process died, and how many notes were acknowledged.
pub fn sequences(seeds: std::ops::RangeInclusive<u64>) -> (u64, u64) {
    let parent = parent();
    let run = |seed| sequence(seed, &parent).unwrap_or_else(|wrong| panic!("{wrong}"));
    seeds.map(run).fold((0, 0), |(deaths, told), (more, also)| (deaths + more, told + also))
}

/// Runs these sequences on a disk that says it has what it has not; gives how many of them lost something.
pub fn sequences_on_a_disk_that_lies(seeds: std::ops::RangeInclusive<u64>) -> usize {
    HONEST.set(false);
    let parent = parent();
    let lost = seeds.filter(|seed| sequence(*seed, &parent).is_err()).count();
    HONEST.set(true);
    lost
}

#[test]
fn nothing_acknowledged_is_lost_whatever_sectors_a_crash_leaves() {
    let (deaths, acknowledged) = sequences(1..=60);
    assert!(deaths > 60 && acknowledged > 600, "the sequences show too little: {deaths} deaths, {acknowledged} acknowledged");
}

#[test]
fn a_disk_that_lies_about_its_sync_loses_some_so_the_model_has_teeth() {
    assert!(sequences_on_a_disk_that_lies(1..=12) > 3);
}
