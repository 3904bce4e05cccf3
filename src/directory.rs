//! The directory of an account: `intent.md`, `record.jsonl`, `manifest.json`, read and written.
//!
//! Follows no link to one of the three files, so an account shows no other file of its reader's, and a giver writes over none.
//! Never runs anything. The invariant: what is written is there whole or not at all, and an intent that is there stays.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use sha2::{Digest, Sha256};

use crate::account::{ACCOUNT_NAME_BYTES_MAX, Deposit, Ledger, LineFault, Manifest, Selector};
use crate::append::sync_folder;
use crate::lines::{Lines, READ_BYTES};
use crate::lock::{Lock, WRITER_WAITS};
use crate::payload::quoted;
use crate::quotation::cut;
use crate::record::{RECORD_BYTES_MAX, RECORD_BYTES_READ_MAX};

/// The telling.
const INTENT: &str = "intent.md";

/// The evidence.
const RECORD: &str = "record.jsonl";

/// The attestation.
const MANIFEST: &str = "manifest.json";

/// The largest intent, in bytes.
const INTENT_BYTES_MAX: u64 = RECORD_BYTES_MAX as u64 / 2;

/// The same as a record holds it, escaped; what is left of the record is for its envelope, and for a speaker of any length.
const INTENT_ESCAPED_BYTES_MAX: usize = RECORD_BYTES_MAX - (1 << 20);

/// The largest manifest that is read, in bytes.
const MANIFEST_BYTES_MAX: u64 = 64 << 10;

/// Why an account could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// An ordinary failure to read or make something.
    #[error("could not {act} `{}`: {source}", path.display())]
    Io {
        /// What was attempted.
        act: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The directory has no name to be called by.
    #[error("could not learn from `{}`: the directory has no name", .0.display())]
    Unnamed(PathBuf),
    /// A file is not what an account holds; in words.
    #[error("could not use `{}`: {reason}", path.display())]
    Odd {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A line of the record is no event that could be taken in.
    #[error("could not learn from `{}`, line {line}: {fault}{}; nothing was recorded", path.display(), more(*others))]
    Line {
        /// The record.
        path: PathBuf,
        /// The first line that is wrong.
        line: u64,
        /// What is wrong with it.
        fault: LineFault,
        /// How many more lines are wrong.
        others: u64,
    },
    /// The record was changed while it was read.
    #[error("could not learn from `{}`: it was changed while it was read", .0.display())]
    Changed(PathBuf),
    /// The record is not the one that was given into this directory.
    #[error("could not give into `{}`: {reason}", path.display())]
    Curated {
        /// The directory.
        path: PathBuf,
        /// What is not as it was left.
        reason: String,
    },
}

fn more(others: u64) -> String {
    if others == 0 { String::new() } else { format!(" (and {others} more lines)") }
}

impl AccountError {
    /// Whether what the account holds was refused, rather than out of reach.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        match self {
            AccountError::Odd { .. } | AccountError::Line { .. } | AccountError::Unnamed(_) => true,
            AccountError::Io { .. } | AccountError::Changed(_) | AccountError::Curated { .. } => false,
        }
    }

    /// The remedy, as a line.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            AccountError::Line { .. } => Some("take the line out of the record, or mend it; then learn again".to_owned()),
            AccountError::Changed(_) => Some("learn again when nobody writes it".to_owned()),
            AccountError::Curated { .. } => Some("give into another directory, or with --force to write over it".to_owned()),
            AccountError::Io { .. } | AccountError::Unnamed(_) | AccountError::Odd { .. } => None,
        }
    }
}

fn io_error<'p>(act: &'static str, path: &'p Path) -> impl Fn(io::Error) -> AccountError + use<'p> {
    move |source| AccountError::Io { act, path: path.to_owned(), source }
}

fn odd(path: &Path, reason: impl Into<String>) -> AccountError {
    AccountError::Odd { path: path.to_owned(), reason: reason.into() }
}

/// Opens a file of an account, without following a link; `None` if there is none.
fn open(path: &Path) -> Result<Option<File>, AccountError> {
    match fs::symlink_metadata(path) {
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(fault) => return Err(io_error("read", path)(fault)),
        Ok(facts) if facts.is_symlink() => return Err(odd(path, "it is a link; an account holds its own files")),
        Ok(facts) if !facts.is_file() => return Err(odd(path, "it is not a regular file")),
        Ok(_) => {}
    }
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path);
    file.map(Some).map_err(io_error("read", path))
}

/// Reads a small text, without a byte order mark.
fn text(path: &Path, bytes_max: u64) -> Result<Option<String>, AccountError> {
    let Some(file) = open(path)? else { return Ok(None) };
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes).map_err(io_error("read", path))?;
    if bytes.len() as u64 > bytes_max {
        return Err(odd(path, format!("it is larger than {bytes_max} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|_| odd(path, "it is not UTF-8"))?;
    Ok(Some(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text)))
}

/// Reads the manifest of an account, or why it cannot be read; `None` if there is none.
fn manifest(folder: &Path) -> Option<Result<Manifest, String>> {
    match text(&folder.join(MANIFEST), MANIFEST_BYTES_MAX) {
        Ok(text) => text.map(|text| Manifest::read(&text)),
        Err(fault) => Some(Err(fault.to_string())),
    }
}

/// The SHA-256 of a file, as hex digits.
fn sha256(mut file: &File) -> io::Result<String> {
    let mut digest = Sha256::new();
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex::encode(digest.finalize())),
            read => digest.update(&buffer[..read]),
        }
    }
}

/// An account as it was found.
#[derive(Debug)]
pub struct Account {
    /// Its name.
    pub name: String,
    /// Its telling, without the white space around it.
    pub intent: String,
    /// Its evidence, if it has any.
    pub record: Option<Record>,
    /// Its attestation, or why that cannot be read.
    pub manifest: Option<Result<Manifest, String>>,
}

/// The evidence of an account, to be read as often as needed.
#[derive(Debug)]
pub struct Record {
    /// Where it lies.
    pub path: PathBuf,
    /// The SHA-256 of its bytes, as hex digits.
    pub sha256: String,
    file: File,
    /// Its size and when it was changed last, when it was opened.
    facts: (u64, i64, i64),
}

impl Account {
    /// Opens an account. The record's lines are not read yet.
    pub fn open(path: &Path) -> Result<Account, AccountError> {
        let folder = path.canonicalize().map_err(io_error("learn from", path))?;
        if !folder.is_dir() {
            return Err(odd(&folder, "it is not a directory"));
        }
        let name = folder.file_name().ok_or_else(|| AccountError::Unnamed(folder.clone()))?.to_string_lossy();
        let name: String = name.chars().map(|char| if char.is_control() { '\u{fffd}' } else { char }).collect();
        let path = folder.join(INTENT);
        let intent = text(&path, INTENT_BYTES_MAX)?;
        let intent = intent.ok_or_else(|| odd(&path, "it is missing, and an account begins with it"))?.trim().to_owned();
        if intent.is_empty() {
            return Err(odd(&path, "it is empty"));
        }
        let escaped = quoted(&intent).len();
        if escaped > INTENT_ESCAPED_BYTES_MAX {
            let limit = INTENT_ESCAPED_BYTES_MAX;
            return Err(odd(
                &path,
                format!("it is too large for a record: {escaped} bytes with its escapes; the limit is {limit}"),
            ));
        }
        let path = folder.join(RECORD);
        let record = open(&path)?.map(|file| Record::take(path, file)).transpose()?;
        let manifest = manifest(&folder);
        Ok(Account { name: cut(&name, ACCOUNT_NAME_BYTES_MAX).to_owned(), intent, record, manifest })
    }
}

impl Record {
    fn take(path: PathBuf, file: File) -> Result<Record, AccountError> {
        let failed = io_error("read", &path);
        let facts = facts(&file).map_err(&failed)?;
        let sha256 = sha256(&file).map_err(&failed)?;
        drop(failed);
        Ok(Record { path, sha256, file, facts })
    }

    /// Reads and checks every line, and tells what they bring. `progress` hears how many lines were read.
    pub fn survey(&self, progress: &mut dyn FnMut(u64)) -> Result<Ledger, AccountError> {
        let mut ledger = Ledger::default();
        let mut deposits = self.deposits();
        let mut first = None;
        let mut faults = 0;
        while let Some(read) = deposits.next_deposit()? {
            match read {
                Ok(deposit) => ledger.tell(&deposit),
                Err(fault) => {
                    faults += 1;
                    first.get_or_insert((deposits.line, fault));
                }
            }
            progress(deposits.line);
        }
        match first {
            Some((line, fault)) => Err(AccountError::Line { path: self.path.clone(), line, fault, others: faults - 1 }),
            None => Ok(ledger),
        }
    }

    /// The record's events, from the first on.
    #[must_use]
    pub fn deposits(&self) -> Deposits<'_> {
        Deposits { record: self, lines: Lines::from(&self.file, 0, self.facts.0), line: 0 }
    }

    /// Why no more could be read; a file that became shorter was changed.
    fn unread(&self, fault: io::Error) -> AccountError {
        match fault.kind() == io::ErrorKind::UnexpectedEof {
            true => AccountError::Changed(self.path.clone()),
            false => io_error("read", &self.path)(fault),
        }
    }

    /// Fails if the file is not as it was when it was opened.
    pub fn is_as_it_was(&self) -> Result<(), AccountError> {
        match facts(&self.file).map_err(io_error("read", &self.path))? == self.facts {
            true => Ok(()),
            false => Err(AccountError::Changed(self.path.clone())),
        }
    }
}

fn facts(file: &File) -> io::Result<(u64, i64, i64)> {
    file.metadata().map(|facts| (facts.len(), facts.mtime(), facts.mtime_nsec()))
}

/// The events of a record, one at a time.
pub struct Deposits<'r> {
    record: &'r Record,
    lines: Lines<'r>,
    /// The line that was read last, from 1.
    pub line: u64,
}

impl Deposits<'_> {
    /// The next event, or why the next line is none; `None` at the end. Blank lines are passed over.
    pub fn next_deposit(&mut self) -> Result<Option<Result<Deposit, LineFault>>, AccountError> {
        while self.lines.step().map_err(|fault| self.record.unread(fault))? {
            self.line += 1;
            if self.lines.is_huge() {
                return Ok(Some(Err(LineFault::TooLarge(RECORD_BYTES_READ_MAX))));
            }
            let line = self.lines.text();
            if !line.trim_ascii().is_empty() {
                return Ok(Some(Deposit::read(line)));
            }
        }
        Ok(None)
    }
}

/// A directory that an account is given into.
#[derive(Debug)]
pub struct Outbox {
    folder: PathBuf,
    out: BufWriter<File>,
    draft: PathBuf,
    manifest_draft: PathBuf,
    digest: Sha256,
    /// How many events were written.
    pub events: u64,
}

impl Outbox {
    /// Makes the directory where it is missing, and a draft of the record in it; `tag` tells the draft from others under way.
    /// Fails if a record is there that is not as it was given, or was given from something else, unless `force` is set.
    pub fn open(path: &Path, selector: &Selector, force: bool, tag: &str) -> Result<Outbox, AccountError> {
        // Without a trailing slash, behind which a link would be followed.
        let path: PathBuf = path.components().collect();
        if path.is_symlink() {
            return Err(odd(&path, "it is a link; nothing is written through one"));
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(io_error("make", &path))?;
        let folder = path.canonicalize().map_err(io_error("give into", &path))?;
        let turn = turn(&folder);
        let record = open(&folder.join(RECORD))?;
        open(&folder.join(MANIFEST))?;
        let manifest = manifest(&folder);
        open(&folder.join(INTENT))?;
        drop(turn);
        if let Some(record) = record.filter(|_| !force) {
            let curated = |reason: String| AccountError::Curated { path: folder.clone(), reason };
            let there = sha256(&record).map_err(io_error("read", &folder))?;
            let manifest = manifest.ok_or_else(|| curated("its record has no manifest, so somebody else wrote it".to_owned()))?;
            let manifest = manifest.map_err(|fault| curated(format!("its manifest cannot be read: {fault}")))?;
            if manifest.record_sha256 != there {
                let claimed = manifest.record_sha256;
                return Err(curated(format!("its record was edited since: it is {there}, its manifest says {claimed}")));
            }
            if manifest.selector() != Some(&*selector.text()) {
                let other = manifest.selector().unwrap_or_default();
                return Err(curated(format!("it holds the record of `{other}`")));
            }
        }
        let [draft, manifest_draft] = [RECORD, MANIFEST].map(|name| folder.join(format!(".{name}.{tag}")));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft).map_err(io_error("make", &draft))?;
        Ok(Outbox { folder, out: BufWriter::new(file), draft, manifest_draft, digest: Sha256::new(), events: 0 })
    }

    /// The directory, its links resolved.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Adds a line to the record.
    pub fn add(&mut self, line: &[u8]) -> Result<(), AccountError> {
        for piece in [line, b"\n"] {
            self.digest.update(piece);
            self.out.write_all(piece).map_err(io_error("write", &self.draft))?;
        }
        self.events += 1;
        Ok(())
    }

    /// Puts record and manifest in place, and an intent if there is none. Gives the SHA-256 of the record, as hex digits.
    pub fn close(mut self, selector: &Selector, intent: &str) -> Result<String, AccountError> {
        self.out.flush().and_then(|()| self.out.get_ref().sync_all()).map_err(io_error("write", &self.draft))?;
        let sha256 = hex::encode(std::mem::take(&mut self.digest).finalize());
        let printed = Manifest::print(selector, self.events, &sha256);
        write_new(&self.manifest_draft, &printed).map_err(io_error("write", &self.manifest_draft))?;
        // Both are on the disk before either is put in place: nothing is left between the two that takes time or could fail.
        let turn = turn(&self.folder);
        for (draft, name) in [(&self.draft, RECORD), (&self.manifest_draft, MANIFEST)] {
            let path = self.folder.join(name);
            fs::rename(draft, &path).map_err(io_error("write", &path))?;
        }
        drop(turn);
        let path = self.folder.join(INTENT);
        match write_new(&path, intent) {
            Err(fault) if fault.kind() != io::ErrorKind::AlreadyExists => return Err(io_error("write", &path)(fault)),
            Ok(()) | Err(_) => {}
        }
        sync_folder(&path).map_err(io_error("write", &self.folder))?;
        Ok(sha256)
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        // Gone already if they were put in place.
        for draft in [&self.draft, &self.manifest_draft] {
            let _ = fs::remove_file(draft);
        }
    }
}

/// One giver at a time looks at what is in a directory, or puts it there. Where a folder has no lock, they do without.
fn turn(folder: &Path) -> Option<Lock> {
    Lock::folder(folder, WRITER_WAITS).ok()
}

/// Writes a file that is not there yet.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
