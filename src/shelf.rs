//! The shelf: `capabilities/` and `site/`, the files that are derived from the log.
//!
//! Each file is put in place whole, by a rename, and recorded in `.self/pages` with what tells whether somebody touched it since.
//! Never deletes what it did not write: that moves to `.self/aside/`. The invariant: after a crash a file is old or new, never
//! half, and a record that does not fit its file only makes it be written again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use walkdir::WalkDir;

use crate::effect::{Held, Written};
use crate::lock::{Lock, LockFault, WRITER_WAITS};

/// The folders that hold derived files.
const FOLDERS: [&str; 2] = ["capabilities", "site"];

/// The derived files of one home.
#[derive(Debug)]
pub struct Shelf<'h> {
    root: &'h Path,
    own: PathBuf,
}

/// A file to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Book {
    /// Its path in the home.
    pub path: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The receipt it comes from; 0 for the kernel's own pages.
    pub receipt: u64,
    /// The number of the newest event it takes into account.
    pub position: u64,
}

/// A derived file could not be written, read or taken away.
#[derive(Debug, thiserror::Error)]
#[error("could not {act} `{}`: {source}", path.display())]
pub struct ShelfError {
    act: &'static str,
    path: PathBuf,
    /// Why it failed.
    pub source: io::Error,
}

impl ShelfError {
    /// Whether it is the name that no file can have here: too long, or a folder of another's.
    fn is_of_the_name(&self) -> bool {
        let kinds = [io::ErrorKind::InvalidFilename, io::ErrorKind::NotADirectory, io::ErrorKind::IsADirectory];
        kinds.contains(&self.source.kind()) || self.source.kind() == io::ErrorKind::AlreadyExists
    }
}

/// What a rebuild came to.
#[derive(Debug)]
pub struct Rebuilt {
    /// Where strangers' files are now.
    pub moved: Vec<PathBuf>,
    /// What could not be put in place, because no file can have its name here.
    pub unplaced: Vec<ShelfError>,
}

fn failed<'p>(act: &'static str, path: &'p Path) -> impl Fn(io::Error) -> ShelfError + use<'p> {
    move |source| ShelfError { act, path: path.to_owned(), source }
}

type Records = BTreeMap<String, Written>;

/// Whether a path is one of a file in the derived folders; a record of any other is not this kernel's.
fn is_derived(path: &str) -> bool {
    let mut parts = Path::new(path).components();
    let first = parts.next();
    let is_below = FOLDERS.iter().any(|folder| first == Some(Component::Normal(folder.as_ref())));
    is_below && parts.all(|part| matches!(part, Component::Normal(_)))
}

impl<'h> Shelf<'h> {
    /// The shelf of the home with this root; `own` is its `.self/`.
    #[must_use]
    pub fn of(root: &'h Path, own: PathBuf) -> Shelf<'h> {
        Shelf { root, own }
    }

    /// What is recorded, and whether each file still is what was written.
    #[must_use]
    pub fn held(&self) -> BTreeMap<String, Held> {
        let held = |(path, written): (String, Written)| {
            let is_intact = self.is_intact(&path, &written);
            (path, Held { written, is_intact })
        };
        self.records().into_iter().map(held).collect()
    }

    /// Whether a script is recorded: a receipt was proven here once.
    #[must_use]
    pub fn holds_scripts(&self) -> bool {
        self.records().keys().any(|path| path.starts_with(FOLDERS[0]))
    }

    /// The paths in the home of what lies in one of the derived folders, but for folders.
    pub fn found(&self, folder: &str) -> Result<Vec<String>, ShelfError> {
        let top = self.root.join(folder);
        let mut found = Vec::new();
        if fs::symlink_metadata(&top).is_ok() {
            for entry in WalkDir::new(&top).follow_root_links(false).sort_by_file_name() {
                let entry = entry.map_err(|fault| failed("read", &top)(fault.into()))?;
                if !entry.file_type().is_dir() {
                    found.push(entry.path().strip_prefix(self.root).unwrap_or(entry.path()).to_string_lossy().into_owned());
                }
            }
        }
        Ok(found)
    }

    /// Reads a file; `None` if there is none, or it is no regular file, or a link leads to it.
    pub fn read(&self, path: &str) -> Option<Vec<u8>> {
        let folders = Path::new(path).ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
        if folders.map(|folder| self.root.join(folder)).any(|folder| folder.is_symlink()) {
            return None;
        }
        let path = self.root.join(path);
        fs::symlink_metadata(&path).ok().filter(fs::Metadata::is_file).and_then(|_| fs::read(&path).ok())
    }

    /// Puts a file in place, unless a newer one is there. Gives the place to which a stranger's file was moved, if one stood in
    /// the way; `moment` names that place.
    pub fn put(&self, book: &Book, moment: &str) -> Result<Option<PathBuf>, ShelfError> {
        let _lock = self.lock()?;
        let mut records = self.records();
        let old = records.get(&book.path).filter(|old| self.is_intact(&book.path, old));
        if old.is_some_and(|old| old.position > book.position && old.receipt >= book.receipt) {
            return Ok(None);
        }
        let is_same = old.is_some() && self.read(&book.path).is_some_and(|bytes| bytes == book.bytes);
        let mut moved = None;
        if !is_same {
            if old.is_none() {
                moved = self.make_way(book, moment)?;
            }
            self.write(&self.root.join(&book.path), &book.bytes)?;
        }
        records.insert(book.path.clone(), self.record(book)?);
        self.save(&records)?;
        Ok(moved)
    }

    /// Takes a file away; one that somebody changed since is moved aside.
    pub fn remove(&self, path: &str, moment: &str) -> Result<Option<PathBuf>, ShelfError> {
        let _lock = self.lock()?;
        let mut records = self.records();
        let written = records.remove(path);
        let target = self.root.join(path);
        let moved = match fs::symlink_metadata(&target) {
            Err(_) => None,
            Ok(_) if written.is_some_and(|written| self.is_intact(path, &written)) => {
                fs::remove_file(&target).map_err(failed("remove", &target))?;
                None
            }
            Ok(_) => Some(self.set_aside(Path::new(path), moment)?),
        };
        self.prune(&target);
        self.save(&records)?;
        Ok(moved)
    }

    /// Forgets the records of files that take more into account than the events up to this one.
    pub fn forget_after(&self, seq: u64) -> Result<(), ShelfError> {
        let _lock = self.lock()?;
        let mut records = self.records();
        records.retain(|_, written| written.position <= seq);
        self.save(&records)
    }

    /// Puts both folders in place anew, whole, with these files and no others. Gives the places to which strangers' files moved.
    pub fn rebuild(&self, books: &[Book], moment: &str) -> Result<Rebuilt, ShelfError> {
        let _lock = self.lock()?;
        let records = self.records();
        let fresh = self.own.join("rebuild");
        let _ = fs::remove_dir_all(&fresh);
        for folder in FOLDERS {
            self.make_folder(&fresh.join(folder))?;
        }
        let (mut placed, mut unplaced) = (Vec::new(), Vec::new());
        for book in books {
            match self.write(&fresh.join(&book.path), &book.bytes) {
                Ok(()) => placed.push(book),
                Err(fault) if fault.is_of_the_name() => unplaced.push(ShelfError { path: self.root.join(&book.path), ..fault }),
                Err(fault) => return Err(fault),
            }
        }
        let books = placed;
        let wanted: BTreeMap<&str, &[u8]> = books.iter().map(|book| (book.path.as_str(), book.bytes.as_slice())).collect();
        let mut moved = Vec::new();
        for path in self.strangers(&wanted, &records)? {
            moved.push(self.set_aside(&path, moment)?);
        }
        for folder in FOLDERS {
            let (new, old) = (fresh.join(folder), self.root.join(folder));
            let exchanged = renameat_with(CWD, &new, CWD, &old, RenameFlags::EXCHANGE);
            if exchanged.is_err() {
                let _ = fs::rename(&old, fresh.join(format!("old-{folder}")));
                fs::rename(&new, &old).map_err(failed("put in place", &old))?;
            }
        }
        fs::remove_dir_all(&fresh).map_err(failed("remove", &fresh))?;
        let records = books.iter().map(|book| Ok((book.path.clone(), self.record(book)?))).collect::<Result<_, ShelfError>>()?;
        self.save(&records)?;
        Ok(Rebuilt { moved, unplaced })
    }

    /// The files in both folders that this kernel did not write: neither recorded as they are nor equal to what is wanted. A link in
    /// a folder's place is such a file itself; what it leads to is nobody's business here.
    fn strangers(&self, wanted: &BTreeMap<&str, &[u8]>, records: &Records) -> Result<Vec<PathBuf>, ShelfError> {
        let mut strangers = Vec::new();
        let is_ours = |path: &str| {
            let recorded = records.get(path).is_some_and(|written| self.is_intact(path, written));
            recorded || self.read(path).is_some_and(|bytes| wanted.get(path) == Some(&&*bytes))
        };
        for top in FOLDERS.map(|folder| self.root.join(folder)).into_iter().filter(|top| fs::symlink_metadata(top).is_ok()) {
            for entry in WalkDir::new(&top).follow_root_links(false).sort_by_file_name() {
                let entry = entry.map_err(|fault| failed("read", &top)(fault.into()))?;
                let path = entry.path().strip_prefix(self.root).unwrap_or(entry.path());
                if !entry.file_type().is_dir() && !path.to_str().is_some_and(is_ours) {
                    strangers.push(path.to_owned());
                }
            }
        }
        Ok(strangers)
    }

    /// Moves what stands in a new file's way aside: the file of that name, or a file where a folder has to be.
    fn make_way(&self, book: &Book, moment: &str) -> Result<Option<PathBuf>, ShelfError> {
        let mut path = Path::new(&book.path);
        let mut above: Vec<&Path> = path.ancestors().filter(|above| !above.as_os_str().is_empty()).collect();
        above.reverse();
        for part in above {
            path = part;
            match fs::symlink_metadata(self.root.join(part)) {
                Err(_) => return Ok(None),
                Ok(facts) if facts.is_dir() && part != Path::new(&book.path) => {}
                Ok(facts) if facts.is_file() && self.read(&book.path).is_some_and(|bytes| bytes == book.bytes) => {
                    return Ok(None);
                }
                Ok(_) => break,
            }
        }
        self.set_aside(path, moment).map(Some)
    }

    fn set_aside(&self, path: &Path, moment: &str) -> Result<PathBuf, ShelfError> {
        let from = self.root.join(path);
        let mut to = self.own.join("aside").join(moment).join(path);
        let mut n = 1;
        while fs::symlink_metadata(&to).is_ok() {
            n += 1;
            to = self.own.join("aside").join(format!("{moment}-{n}")).join(path);
        }
        self.make_folder(to.parent().unwrap_or(&self.own))?;
        fs::rename(&from, &to).map_err(failed("move aside", &from))?;
        Ok(to)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), ShelfError> {
        self.make_folder(path.parent().unwrap_or(self.root))?;
        let draft = self.own.join(format!("draft-{}", std::process::id()));
        let is_script = path.file_name().is_some_and(|name| name == "run");
        let _ = fs::remove_file(&draft);
        let write = || -> io::Result<()> {
            let mode = if is_script { 0o700 } else { 0o600 };
            let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&draft)?;
            file.write_all(bytes)?;
            if is_script {
                file.sync_all()?;
            }
            fs::rename(&draft, path)
        };
        write().map_err(|fault| {
            let _ = fs::remove_file(&draft);
            failed("write", path)(fault)
        })
    }

    fn make_folder(&self, path: &Path) -> Result<(), ShelfError> {
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed("make", path))
    }

    /// Removes the folders above a file that are empty now.
    fn prune(&self, file: &Path) {
        let tops: BTreeSet<PathBuf> = FOLDERS.iter().map(|folder| self.root.join(folder)).collect();
        let inner = file.ancestors().skip(1).take_while(|folder| folder.starts_with(self.root) && !tops.contains(*folder));
        for folder in inner {
            if fs::remove_dir(folder).is_err() {
                return;
            }
        }
    }

    fn lock(&self) -> Result<Lock, ShelfError> {
        self.make_folder(&self.own)?;
        let path = self.own.join("pages.lock");
        Lock::exclusive(&path, WRITER_WAITS).map_err(|fault| match fault {
            LockFault::Busy => failed("lock", &path)(io::ErrorKind::WouldBlock.into()),
            LockFault::Io(source) => failed("lock", &path)(source),
        })
    }

    fn records(&self) -> Records {
        let read = fs::read(self.own.join("pages")).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let mut records: Records = read.unwrap_or_default();
        records.retain(|path, _| is_derived(path));
        records
    }

    fn save(&self, records: &Records) -> Result<(), ShelfError> {
        let path = self.own.join("pages");
        let bytes = serde_json::to_vec(records).map_err(|fault| failed("write", &path)(fault.into()))?;
        self.write(&path, &bytes)
    }

    fn record(&self, book: &Book) -> Result<Written, ShelfError> {
        let path = self.root.join(&book.path);
        let facts = fs::symlink_metadata(&path).map_err(failed("read", &path))?;
        let mtime = facts.mtime().wrapping_mul(1_000_000_000).wrapping_add(facts.mtime_nsec());
        Ok(Written { receipt: book.receipt, position: book.position, size: facts.size(), mtime, inode: facts.ino() })
    }

    fn is_intact(&self, path: &str, written: &Written) -> bool {
        let Ok(facts) = fs::symlink_metadata(self.root.join(path)) else { return false };
        let mtime = facts.mtime().wrapping_mul(1_000_000_000).wrapping_add(facts.mtime_nsec());
        facts.is_file() && (facts.size(), mtime, facts.ino()) == (written.size, written.mtime, written.inode)
    }
}
