//! The head: how long a log has been, remembered outside of its home.
//!
//! One small file for each log, in the folder where programs keep their state, overwritten in place and never synced: it is there
//! only to warn that a log has been longer. It never changes what is written to the log, and losing it costs the warning. Failures
//! are silent. The invariant: what is read was written with this home's key for this log's path.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::receipt::{Purpose, Secret};

/// The longest head that is read, in bytes.
const HEAD_BYTES_MAX: u64 = 256;

/// How long a log is, or has been.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Its highest number.
    pub seq: u64,
    /// Its length.
    pub bytes: u64,
}

impl Head {
    /// Whether a log that had this head is longer than one that has the other.
    #[must_use]
    pub fn is_beyond(self, other: Head) -> bool {
        self.seq > other.seq || self.bytes > other.bytes
    }

    /// What is missing in a log that has the other head, in words.
    #[must_use]
    pub fn missing_in(self, other: Head) -> String {
        let missing = match (self.seq.saturating_sub(other.seq), self.bytes.saturating_sub(other.bytes)) {
            (0, 1) => "1 byte is missing".to_owned(),
            (0, bytes) => format!("{bytes} bytes are missing"),
            (1, _) => "1 event is missing".to_owned(),
            (events, _) => format!("{events} events are missing"),
        };
        let Head { seq, bytes } = self;
        format!(
            "this log has been longer: {missing}; it ended with seq {seq} at byte {bytes}, now with seq {} at byte {}",
            other.seq, other.bytes
        )
    }
}

#[derive(Serialize, Deserialize)]
struct Line {
    seq: u64,
    bytes: u64,
    mac: String,
}

/// Where the head of one log is remembered.
#[derive(Debug, Clone)]
pub struct Memory {
    path: PathBuf,
    secret: Secret,
}

impl Memory {
    /// The memory of the log at this path, in this folder of programs' state.
    #[must_use]
    pub fn of(state: &Path, secret: &Secret, log: &Path) -> Memory {
        let above = || Some(log.parent()?.canonicalize().ok()?.join(log.file_name()?));
        let real = log.canonicalize().ok().or_else(above).unwrap_or_else(|| log.to_owned());
        let name = secret.mac(Purpose::Head, &[real.as_os_str().as_bytes()]);
        Memory { path: state.join("self/heads").join(name), secret: secret.clone() }
    }

    /// What is remembered, if anything is.
    #[must_use]
    pub fn recall(&self) -> Option<Head> {
        let mut text = Vec::new();
        File::open(&self.path).ok()?.take(HEAD_BYTES_MAX).read_to_end(&mut text).ok()?;
        let line = text.split(|byte| *byte == b'\n').next()?;
        let Line { seq, bytes, mac } = serde_json::from_slice(line).ok()?;
        let head = Head { seq, bytes };
        self.with_fields(head, |fields| self.secret.holds(Purpose::Head, fields, &mac)).then_some(head)
    }

    /// Remembers a head; where that cannot be written, nothing is remembered.
    pub fn keep(&self, head: Head) {
        let mac = self.with_fields(head, |fields| self.secret.mac(Purpose::Head, fields));
        if let Ok(mut line) = serde_json::to_vec(&Line { seq: head.seq, bytes: head.bytes, mac }) {
            line.push(b'\n');
            let _ = self.write(&line);
        }
    }

    fn write(&self, line: &[u8]) -> io::Result<()> {
        let open = || OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&self.path);
        let file = match open() {
            Err(fault) if fault.kind() == io::ErrorKind::NotFound => {
                let folder = self.path.parent().unwrap_or(Path::new("/"));
                DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
                open()?
            }
            opened => opened?,
        };
        file.write_all_at(line, 0)?;
        file.set_len(line.len() as u64)
    }

    fn with_fields<T>(&self, head: Head, then: impl Fn(&[&[u8]]) -> T) -> T {
        then(&[head.seq.to_string().as_bytes(), head.bytes.to_string().as_bytes()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_head_is_remembered_for_its_log_and_key() {
        let folder = tempfile::tempdir().unwrap();
        let (state, log) = (folder.path().join("a/state"), folder.path().join("events.jsonl"));
        let memory = Memory::of(&state, &Secret::new([7; 32]), &log);
        assert_eq!(memory.recall(), None);
        for head in [Head { seq: 12, bytes: 3400 }, Head { seq: 9, bytes: 99 }] {
            memory.keep(head);
            assert_eq!(memory.recall(), Some(head));
        }
        for path in [memory.path.as_path(), memory.path.parent().unwrap(), &state] {
            let mode = std::fs::metadata(path).unwrap().mode() & 0o777;
            assert_eq!(mode, if path == memory.path { 0o600 } else { 0o700 }, "{}", path.display());
        }
        let line = std::fs::read_to_string(&memory.path).unwrap();
        assert!(line.starts_with("{\"seq\":9,\"bytes\":99,\"mac\":\"") && line.ends_with("\"}\n"), "{line}");
        assert_eq!(Memory::of(&state, &Secret::new([8; 32]), &log).recall(), None);
        assert_eq!(Memory::of(&state, &Secret::new([7; 32]), &folder.path().join("other")).recall(), None);
        std::fs::write(&memory.path, line.replace("\"seq\":9", "\"seq\":8")).unwrap();
        assert_eq!(memory.recall(), None, "forged");
    }

    #[test]
    fn where_nothing_can_be_written_nothing_is_remembered() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), "").unwrap();
        let memory = Memory::of(&folder.path().join("file"), &Secret::new([7; 32]), &folder.path().join("log"));
        memory.keep(Head { seq: 1, bytes: 1 });
        assert_eq!(memory.recall(), None);
    }

    #[test]
    fn what_is_missing_is_counted() {
        let head = |seq, bytes| Head { seq, bytes };
        let check = |was: Head, is: Head, expect: Option<&str>| {
            let said = was.is_beyond(is).then(|| was.missing_in(is));
            assert_eq!(said.as_deref().map(|said| said.split(';').next().unwrap()), expect);
        };
        check(head(12, 3400), head(9, 2700), Some("this log has been longer: 3 events are missing"));
        check(head(12, 3400), head(11, 3400), Some("this log has been longer: 1 event is missing"));
        check(head(12, 3400), head(12, 3399), Some("this log has been longer: 1 byte is missing"));
        check(head(12, 3400), head(12, 3400), None);
        check(head(12, 3400), head(13, 3500), None);
    }
}
