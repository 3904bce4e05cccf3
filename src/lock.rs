//! The home's lock: one writer at a time, waited for with a deadline.
//!
//! The lock is a file of its own, because the log itself can be held by anybody who can read it and splits in two when it is
//! replaced. The kernel of the operating system lets go of it when its holder dies, however it dies. The invariant: who holds
//! a [`Lock`] holds the file that the path names.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a writer waits.
pub const WRITER_WAITS: Duration = Duration::from_secs(10);

/// How long a reader waits for the moment in which no write is under way.
pub const READER_WAITS: Duration = Duration::from_millis(100);

/// The longest pause between two tries.
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// A held lock; it ends when the value is dropped.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// Why there is no lock.
#[derive(Debug)]
pub enum LockFault {
    /// Somebody else held it until the deadline.
    Busy,
    /// The file could not be opened, made or locked.
    Io(io::Error),
}

impl From<io::Error> for LockFault {
    fn from(fault: io::Error) -> LockFault {
        LockFault::Io(fault)
    }
}

impl Lock {
    /// Takes the lock alone; makes its file, 0600, if there is none.
    pub fn exclusive(path: &Path, wait: Duration) -> Result<Lock, LockFault> {
        let open = || OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
        Lock::take(path, wait, open, File::try_lock)
    }

    /// Takes the lock of a folder alone.
    pub fn folder(path: &Path, wait: Duration) -> Result<Lock, LockFault> {
        Lock::take(path, wait, || File::open(path), File::try_lock)
    }

    /// Takes the lock beside other readers; never makes its file.
    pub fn shared(path: &Path, wait: Duration) -> Result<Lock, LockFault> {
        Lock::take(path, wait, || File::open(path), File::try_lock_shared)
    }

    fn take(
        path: &Path,
        wait: Duration,
        open: impl Fn() -> io::Result<File>,
        lock: impl Fn(&File) -> Result<(), TryLockError>,
    ) -> Result<Lock, LockFault> {
        let deadline = Instant::now() + wait;
        let mut pause = Duration::from_micros(50);
        loop {
            let file = open()?;
            match lock(&file) {
                Ok(()) if is_named(&file, path)? => return Ok(Lock { _file: file }),
                Ok(()) => {}
                Err(TryLockError::Error(fault)) => return Err(fault.into()),
                Err(TryLockError::WouldBlock) if Instant::now() >= deadline => return Err(LockFault::Busy),
                Err(TryLockError::WouldBlock) => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
        }
    }
}

/// Whether the path still names this file: somebody may have removed or replaced it while we waited.
fn is_named(file: &File, path: &Path) -> io::Result<bool> {
    let held = file.metadata()?;
    match std::fs::metadata(path) {
        Ok(named) => Ok((named.dev(), named.ino()) == (held.dev(), held.ino())),
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(fault) => Err(fault),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d8_a_lock_held_elsewhere_is_busy_at_the_deadline() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let held = Lock::exclusive(&path, WRITER_WAITS).unwrap();
        let begun = Instant::now();
        assert!(matches!(Lock::exclusive(&path, Duration::from_millis(30)), Err(LockFault::Busy)));
        assert!(matches!(Lock::shared(&path, Duration::from_millis(30)), Err(LockFault::Busy)));
        assert!(begun.elapsed() >= Duration::from_millis(60));
        drop(held);
        let _one = Lock::shared(&path, READER_WAITS).unwrap();
        let _two = Lock::shared(&path, READER_WAITS).unwrap();
    }

    #[test]
    fn a_lock_file_that_was_replaced_meanwhile_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let held = Lock::exclusive(&path, WRITER_WAITS).unwrap();
        std::fs::remove_file(&path).unwrap();
        let _new = Lock::exclusive(&path, WRITER_WAITS).unwrap();
        assert!(!is_named(&held._file, &path).unwrap());
    }

    #[test]
    fn a_reader_makes_no_lock_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        assert!(
            matches!(Lock::shared(&path, READER_WAITS), Err(LockFault::Io(fault)) if fault.kind() == io::ErrorKind::NotFound)
        );
        assert!(!path.exists());
    }
}
