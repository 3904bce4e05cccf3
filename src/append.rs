//! The log, written: one batch at a time, under the home's lock.
//!
//! The steps and their order are those of a database's commit: lock, look at the tail, set a torn one aside, write everything at
//! once, sync, unlock. Never retries a sync that failed. The invariant: an append either puts its whole batch on the disk,
//! synced, or leaves the file as it was; and no byte is cut off that does not lie in `.self/torn/`.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::lines::copy;
use crate::lock::{Lock, LockFault, WRITER_WAITS};
use crate::log::{BATCH_BYTES_MAX, Facts, Log, LogError, Places, io_error};
use crate::tail::Tail;

/// How bytes reach the disk; tests put failing ones here.
#[derive(Debug, Clone, Copy)]
pub struct Disk {
    /// Writes some of the bytes at the end of a file that was opened to append, and says how many.
    pub write: fn(&File, &[u8]) -> io::Result<usize>,
    /// Waits until what was written is on the disk.
    pub sync: fn(&File) -> io::Result<()>,
}

impl Disk {
    /// The real one.
    #[must_use]
    pub fn real() -> Disk {
        Disk { write: |mut file, bytes| io::Write::write(&mut file, bytes), sync: File::sync_data }
    }
}

/// A torn tail, before it is set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Torn {
    /// Where it starts.
    pub offset: u64,
    /// How long it is.
    pub bytes: u64,
    /// The SHA-256 of its bytes, as hex digits.
    pub sha256: String,
}

impl Torn {
    /// Where it is kept.
    fn path(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}-{}", self.offset, &self.sha256[..8]))
    }
}

/// The log opened for one batch, its lock held.
#[derive(Debug)]
pub struct Writer {
    log: Log,
    disk: Disk,
    places: Places,
    torn: Option<Torn>,
    rival: bool,
    lock: Lock,
}

impl Writer {
    /// Takes the lock and opens the log, making it, 0600, if there is none. Nothing of an existing file is changed yet. If the
    /// file is what is known, its end is known too.
    pub fn open(places: &Places, disk: Disk, known: Option<(Facts, Tail)>) -> Result<Writer, LogError> {
        let lock = Lock::exclusive(&places.lock, WRITER_WAITS).map_err(|fault| match fault {
            LockFault::Busy => LogError::Busy(places.lock.clone()),
            LockFault::Io(fault) => io_error("lock", &places.lock)(fault),
        })?;
        let path = &places.log;
        if std::fs::metadata(path).is_ok_and(|facts| !facts.is_file()) {
            return Err(LogError::NotAFile(path.clone()));
        }
        let file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path);
        let file = file.map_err(io_error("open", path))?;
        let rival = matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
        if !rival {
            file.unlock().map_err(io_error("unlock", path))?;
        }
        let facts = Facts::of(&file.metadata().map_err(io_error("read", path))?);
        if facts.size == 0 {
            // Made just now, or by somebody who died before it was on the disk.
            file.sync_all().and_then(|()| sync_folder(&path.canonicalize()?)).map_err(io_error("make", path))?;
        }
        let log = match known {
            Some((known, tail)) if known == facts => Log::whole(file.into(), path, tail),
            Some(_) | None => Log::classify(file.into(), path, facts.size, true)?,
        };
        let torn = log.torn()?;
        Ok(Writer { log, disk, places: places.clone(), torn, rival, lock })
    }

    /// The log as it stands under the lock.
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The torn tail that the append will set aside; its batch records it.
    #[must_use]
    pub fn torn(&self) -> Option<&Torn> {
        self.torn.as_ref()
    }

    /// Whether another program holds a lock on the log itself, as the older program did while it wrote.
    #[must_use]
    pub fn rival(&self) -> bool {
        self.rival
    }

    /// Appends a batch of whole lines: sets a torn tail aside, writes everything at once, and syncs. On an error the file is as it
    /// was, or the error says otherwise. Hands the lock on, for what has to be noted before the next writer comes, and the log
    /// with its new end.
    pub fn append(self, batch: &[u8]) -> Result<(Lock, Log), LogError> {
        if batch.len() > BATCH_BYTES_MAX {
            return Err(LogError::BatchTooLarge { bytes: batch.len() });
        }
        if let Some(torn) = &self.torn {
            self.log.set_aside(torn, &self.places.torn)?;
        }
        let newline: &[u8] = if self.log.tail.lacks_newline { b"\n" } else { b"" };
        let bytes = [newline, batch].concat();
        let written = self.write_all(&bytes);
        let path = || self.log.path.clone();
        if let (written, Err(source)) = written {
            let mount = mount_of(&self.log.path);
            return Err(match self.cut_back(written) && self.put_back() {
                true => LogError::Write { path: path(), mount, source },
                false => LogError::Damage { path: path(), mount, base: self.log.tail.whole, source },
            });
        }
        (self.disk.sync)(&self.log.file).map_err(|source| {
            let _ = self.cut_back(bytes.len()) && self.put_back();
            LogError::Unknown { path: path(), source }
        })?;
        let whole = self.log.tail.whole + bytes.len() as u64;
        let tail = Tail { whole, size: whole, lacks_newline: !batch.ends_with(b"\n") };
        Ok((self.lock, Log::whole(self.log.file, &self.log.path, tail)))
    }

    fn write_all(&self, bytes: &[u8]) -> (usize, io::Result<()>) {
        let mut written = 0;
        while written < bytes.len() {
            match (self.disk.write)(&self.log.file, &bytes[written..]) {
                Ok(0) => return (written, Err(io::ErrorKind::WriteZero.into())),
                Ok(more) => written += more,
                Err(fault) if fault.kind() == io::ErrorKind::Interrupted => {}
                Err(fault) => return (written, Err(fault)),
            }
        }
        (written, Ok(()))
    }

    /// Puts a torn tail that was set aside back, so that the log is as it was and the next append records it.
    fn put_back(&self) -> bool {
        let Some(torn) = &self.torn else { return true };
        let back = || -> io::Result<()> {
            let mut tail = File::open(torn.path(&self.places.torn))?;
            io::copy(&mut tail, &mut &*self.log.file)?;
            self.log.file.sync_data()
        };
        back().is_ok()
    }

    /// Cuts a batch that was not acknowledged off again, if the file ends where it does.
    fn cut_back(&self, written: usize) -> bool {
        let base = self.log.tail.whole;
        let ours = |length: u64| length == base + written as u64;
        let cut = || self.log.file.set_len(base).and_then(|()| self.log.file.sync_data());
        self.log.file.metadata().is_ok_and(|facts| ours(facts.len())) && cut().is_ok()
    }
}

impl Log {
    fn torn(&self) -> Result<Option<Torn>, LogError> {
        let (offset, bytes) = (self.tail.whole, self.tail.torn_bytes());
        if bytes == 0 {
            return Ok(None);
        }
        let mut digest = Sha256::new();
        copy(&self.file, offset..self.tail.size, |piece| {
            digest.update(piece);
            Ok(())
        })
        .map_err(io_error("read", &self.path))?;
        Ok(Some(Torn { offset, bytes, sha256: hex::encode(digest.finalize()) }))
    }

    /// Copies a torn tail to a file of its own, and only when that is on the disk cuts it off.
    fn set_aside(&self, torn: &Torn, folder: &Path) -> Result<(), LogError> {
        let path = torn.path(folder);
        let copy = || -> io::Result<()> {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
            copy(&self.file, torn.offset..torn.offset + torn.bytes, |piece| io::Write::write_all(&mut file, piece))?;
            file.sync_all()?;
            sync_folder(&path)?;
            sync_folder(folder)
        };
        copy().map_err(io_error("set a torn tail aside in", &path))?;
        let cut = self.file.set_len(torn.offset).and_then(|()| self.file.sync_data());
        cut.map_err(io_error("cut a torn tail off", &self.path))
    }
}

/// Syncs the folder that a file lies in, so that its name is on the disk too.
pub fn sync_folder(file: &Path) -> io::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

/// The topmost folder above a file that is on the same file system.
fn mount_of(file: &Path) -> PathBuf {
    let Ok(file) = file.canonicalize() else { return file.to_owned() };
    let device = |path: &Path| std::fs::metadata(path).map(|facts| facts.dev()).ok();
    let same = |folder: &&Path| device(folder) == device(&file);
    file.ancestors().skip(1).take_while(same).last().unwrap_or(&file).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::READ_BYTES;
    use crate::log::Position;
    use std::cell::Cell;

    thread_local! {
        /// How many more bytes the failing disk takes.
        static ROOM: Cell<usize> = const { Cell::new(0) };
    }

    fn places(folder: &tempfile::TempDir) -> Places {
        let path = |name: &str| folder.path().join(name);
        Places { log: path("events.jsonl"), lock: path("lock"), torn: path("torn") }
    }

    fn append(places: &Places, disk: Disk, batch: &str) -> Result<(), LogError> {
        Writer::open(places, disk, None)?.append(batch.as_bytes()).map(drop)
    }

    fn names(places: &Places) -> (Vec<(u64, String)>, Position) {
        let log = Log::open(places).unwrap().unwrap();
        let mut names = Vec::new();
        let position = log.all(|event| names.push((event.seq, event.name.into_owned()))).unwrap();
        (names, position)
    }

    /// Takes one byte at a time until there is no room.
    fn filling(mut file: &File, bytes: &[u8]) -> io::Result<usize> {
        match ROOM.get() {
            0 => Err(io::ErrorKind::StorageFull.into()),
            room => {
                ROOM.set(room - 1);
                io::Write::write(&mut file, &bytes[..1])
            }
        }
    }

    #[test]
    fn d4_a_write_that_fails_at_any_byte_leaves_the_log_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let places = places(&folder);
        append(&places, Disk::real(), "{\"name\":\"a.b\"}").unwrap();
        let before = std::fs::read(&places.log).unwrap();
        let batch = "{\"name\":\"c.d\"}\n{\"name\":\"e.f\"}\n";
        let failing = Disk { write: filling, ..Disk::real() };
        for room in 0..=batch.len() {
            ROOM.set(room);
            let fault = append(&places, failing, batch).unwrap_err();
            assert!(matches!(fault, LogError::Write { .. }), "{fault}");
            assert_eq!(std::fs::read(&places.log).unwrap(), before, "room for {room}");
        }
        ROOM.set(batch.len() + 1);
        append(&places, failing, batch).unwrap();
        assert_eq!(names(&places).0, [(1, "a.b".into()), (2, "c.d".into()), (3, "e.f".into())]);
    }

    #[test]
    fn d4_a_sync_that_fails_is_not_tried_again_and_acknowledges_nothing() {
        thread_local!(static SYNCS: Cell<u32> = const { Cell::new(0) });
        let folder = tempfile::tempdir().unwrap();
        let places = places(&folder);
        append(&places, Disk::real(), "{\"name\":\"a.b\"}\n").unwrap();
        let before = std::fs::read(&places.log).unwrap();
        let sync = |_: &File| {
            SYNCS.set(SYNCS.get() + 1);
            Err(io::Error::from_raw_os_error(5))
        };
        let fault = append(&places, Disk { sync, ..Disk::real() }, "{\"name\":\"c.d\"}\n").unwrap_err();
        assert!(fault.to_string().starts_with("outcome unknown: could not sync `"), "{fault}");
        assert_eq!((SYNCS.get(), std::fs::read(&places.log).unwrap()), (1, before));
    }

    #[test]
    fn d4_what_another_program_wrote_meanwhile_is_not_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let places = places(&folder);
        let meddling = |mut file: &File, bytes: &[u8]| {
            io::Write::write_all(&mut file, b"{\"name\":\"foreign.line\"}\n")?;
            io::Write::write(&mut file, &bytes[..3])?;
            Err(io::ErrorKind::StorageFull.into())
        };
        let fault = append(&places, Disk { write: meddling, ..Disk::real() }, "{\"name\":\"c.d\"}\n").unwrap_err();
        assert!(matches!(fault, LogError::Damage { base: 0, .. }), "{fault}");
        assert_eq!(names(&places).0, [(1, "foreign.line".into())]);
    }

    #[test]
    fn d3_a_torn_tail_is_set_aside_byte_for_byte() {
        let folder = tempfile::tempdir().unwrap();
        let places = places(&folder);
        std::fs::write(&places.log, "{\"name\":\"a.b\"}\n{\"name\":\0\0").unwrap();
        let writer = Writer::open(&places, Disk::real(), None).unwrap();
        let torn = writer.torn().unwrap().clone();
        assert_eq!((torn.offset, torn.bytes), (15, 10));
        drop(writer.append(b"{\"name\":\"c.d\"}\n").unwrap());
        let kept = places.torn.join(format!("15-{}", &torn.sha256[..8]));
        assert_eq!(std::fs::read(kept).unwrap(), b"{\"name\":\0\0");
        assert_eq!(std::fs::read(&places.log).unwrap(), b"{\"name\":\"a.b\"}\n{\"name\":\"c.d\"}\n");
    }

    #[test]
    fn d3_a_crash_between_setting_a_tail_aside_and_cutting_it_off_is_done_again() {
        let folder = tempfile::tempdir().unwrap();
        let places = places(&folder);
        let text = "{\"name\":\"a.b\"}\n{\"name\":\"torn";
        std::fs::write(&places.log, text).unwrap();
        let torn = Writer::open(&places, Disk::real(), None).unwrap().torn().unwrap().clone();
        for left in ["", "{\"na", "{\"name\":\"torn"] {
            std::fs::create_dir_all(&places.torn).unwrap();
            std::fs::write(torn.path(&places.torn), left).unwrap();
            std::fs::write(&places.log, text).unwrap();
            append(&places, Disk::real(), "{\"name\":\"c.d\"}\n").unwrap();
            assert_eq!(std::fs::read_to_string(torn.path(&places.torn)).unwrap(), "{\"name\":\"torn", "{left:?} was left");
            assert_eq!(std::fs::read_to_string(&places.log).unwrap(), "{\"name\":\"a.b\"}\n{\"name\":\"c.d\"}\n");
        }
    }

    #[test]
    fn d4_a_torn_tail_is_put_back_when_the_append_behind_it_fails() {
        let folder = tempfile::tempdir().unwrap();
        let places = places(&folder);
        let before = "{\"name\":\"a.b\"}\n{\"name\":\"torn";
        std::fs::write(&places.log, before).unwrap();
        ROOM.set(5);
        append(&places, Disk { write: filling, ..Disk::real() }, "{\"name\":\"c.d\"}\n").unwrap_err();
        assert_eq!(std::fs::read_to_string(&places.log).unwrap(), before);
        let sync = |_: &File| Err(io::Error::from_raw_os_error(5));
        append(&places, Disk { sync, ..Disk::real() }, "{\"name\":\"c.d\"}\n").unwrap_err();
        assert_eq!(std::fs::read_to_string(&places.log).unwrap(), before);
    }

    #[test]
    fn d5_damage_in_the_middle_is_passed_by_and_named() {
        let folder = tempfile::tempdir().unwrap();
        let places = places(&folder);
        let text = "\u{feff}{\"name\":\"a.b\",\"seq\":7}\r\nnonsense\n\n{\"name\":\"c.d\"}\n";
        std::fs::write(&places.log, text).unwrap();
        let (names, position) = names(&places);
        assert_eq!(names, [(7, "a.b".into()), (8, "c.d".into())]);
        let damage = crate::log::Damage { line: 2, offset: 27 };
        let first = crate::log::Misnumber { line: 1, offset: 0, seq: Some(7), due: 1 };
        let misnumbered = crate::log::Misnumbered { count: 2, first: Some(first) };
        assert_eq!(
            position,
            Position { offset: text.len() as u64, newlines: 4, highest: 8, damage: vec![damage], damaged: 1, misnumbered }
        );
    }

    #[test]
    fn reading_goes_on_where_it_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let places = places(&folder);
        let lines: Vec<String> =
            (0..40).map(|n| format!("{{\"name\":\"n.n{n}\",\"payload\":\"{}\"}}\n", "x".repeat(n * 997))).collect();
        let mut position = Position::default();
        let mut seen = Vec::new();
        let mut written = 0;
        for piece in lines.concat().as_bytes().chunks(10_007) {
            written += piece.len();
            std::fs::write(&places.log, &lines.concat().as_bytes()[..written]).unwrap();
            let log = Log::open(&places).unwrap().unwrap();
            log.resume(&mut position, &mut |event| seen.push(event.name.into_owned())).unwrap();
        }
        assert_eq!(seen, (0..40).map(|n| format!("n.n{n}")).collect::<Vec<_>>());
        assert_eq!((position.newlines, position.highest), (40, 40));
    }

    #[test]
    fn a_line_longer_than_any_record_is_damage_and_not_held_in_memory() {
        let folder = tempfile::tempdir().unwrap();
        let places = places(&folder);
        let huge = vec![b'x'; crate::record::RECORD_BYTES_READ_MAX + READ_BYTES];
        std::fs::write(&places.log, [&huge[..], b"\n{\"name\":\"a.b\"}\n"].concat()).unwrap();
        let (names, position) = names(&places);
        assert_eq!((names, position.damage.len(), position.newlines), (vec![(1, "a.b".into())], 1, 2));
    }
}
