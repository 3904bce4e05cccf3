//! The roster: which interpreter each script was given, in `.self/interpreters`.
//!
//! One JSON object, `command/x` → path. Says nothing of whether a path still holds an interpreter. The invariant: it can be deleted
//! whenever no `self` runs; a script without an entry gets one at its next run.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::capability::Capability;

/// The interpreters of one home's scripts.
#[derive(Debug)]
pub struct Roster {
    path: PathBuf,
}

impl Roster {
    /// The roster in this folder, a home's `.self/`.
    #[must_use]
    pub fn of(own: &Path) -> Roster {
        Roster { path: own.join("interpreters") }
    }

    /// The interpreter that a script was given.
    #[must_use]
    pub fn given(&self, capability: &Capability) -> Option<PathBuf> {
        self.entries().remove(&capability.to_string()).map(PathBuf::from)
    }

    /// Every entry.
    fn entries(&self) -> BTreeMap<String, String> {
        fs::read(&self.path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    /// Notes the interpreter of a script. What another process notes at the same time may be lost; it is noted at the next run.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn note(&self, capability: &Capability, interpreter: &Path) -> io::Result<()> {
        let mut entries = self.entries();
        let word = interpreter.to_string_lossy().into_owned();
        if entries.get(&capability.to_string()) == Some(&word) {
            return Ok(());
        }
        entries.insert(capability.to_string(), word);
        self.save(&entries)
    }

    /// Writes the roster anew, with these entries alone.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn replace<'c>(&self, all: impl IntoIterator<Item = (&'c Capability, PathBuf)>) -> io::Result<()> {
        let word = |(capability, path): (&Capability, PathBuf)| (capability.to_string(), path.to_string_lossy().into_owned());
        self.save(&all.into_iter().map(word).collect())
    }

    fn save(&self, entries: &BTreeMap<String, String>) -> io::Result<()> {
        let draft = self.path.with_extension(format!("{}.new", std::process::id()));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        let mut text = serde_json::to_vec(entries)?;
        text.push(b'\n');
        let written = file.write_all(&text).and_then(|()| fs::rename(&draft, &self.path));
        if written.is_err() {
            let _ = fs::remove_file(&draft);
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::{CapabilityName, Kind};

    #[test]
    fn an_entry_is_read_as_it_was_noted() {
        let folder = tempfile::tempdir().unwrap();
        let roster = Roster::of(folder.path());
        let capability = |kind, name| Capability { kind, name: CapabilityName::new(kind, name).unwrap() };
        let [x, y] = [capability(Kind::Command, "x"), capability(Kind::Projector, "x")];
        assert_eq!(roster.given(&x), None);
        roster.note(&x, Path::new("/bin/sh")).unwrap();
        roster.note(&y, Path::new("/a b/\"py")).unwrap();
        assert_eq!(fs::read_to_string(&roster.path).unwrap(), "{\"command/x\":\"/bin/sh\",\"projector/x\":\"/a b/\\\"py\"}\n");
        assert_eq!(roster.given(&y), Some("/a b/\"py".into()));
        roster.replace([(&y, PathBuf::from("/z"))]).unwrap();
        assert_eq!((roster.given(&x), roster.given(&y)), (None, Some("/z".into())));
        fs::write(&roster.path, "{").unwrap();
        assert_eq!(roster.given(&y), None);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");
    }
}
