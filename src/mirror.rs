//! Mirrors: programs that copy a folder between machines, and the copies they make where two machines wrote one file.
//!
//! Reads the names in folders and no file. The invariant: what is taken for a copy of a file has that file's name, but for what such
//! a program puts into it.

use std::fs;
use std::path::{Path, PathBuf};

/// How many names of a folder are read.
const NAMES_MAX: usize = 10_000;

/// What lies at the top of a folder that a program copies.
const MARKS: [(&str, &str); 4] = [
    (".stfolder", "Syncthing"),
    (".dropbox.cache", "Dropbox"),
    (".nextcloudsync.log", "Nextcloud"),
    (".owncloudsync.log", "ownCloud"),
];

/// What such a folder is called, whole or in front of a space.
const NAMES: [(&str, &str); 8] = [
    ("Dropbox", "Dropbox"),
    (ONEDRIVE, ONEDRIVE),
    ("Nextcloud", "Nextcloud"),
    ("ownCloud", "ownCloud"),
    ("iCloudDrive", "iCloud"),
    ("iCloud Drive", "iCloud"),
    ("Mobile Documents", "iCloud"),
    ("Google Drive", "Google Drive"),
];

/// The program that puts nothing but a machine's name into a copy's.
const ONEDRIVE: &str = "OneDrive";

/// The nearest folder around this one that a program copies between machines, and the program.
#[must_use]
pub fn around(folder: &Path) -> Option<(PathBuf, &'static str)> {
    folder.ancestors().find_map(|above| Some((above.to_owned(), by_name(above).or_else(|| by_mark(above))?)))
}

fn by_name(folder: &Path) -> Option<&'static str> {
    let name = folder.file_name()?.to_str()?;
    let called = |of: &str| name.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
    NAMES.iter().find(|(of, _)| called(of)).map(|(_, program)| *program)
}

fn by_mark(folder: &Path) -> Option<&'static str> {
    let mark = MARKS.iter().find(|(mark, _)| fs::symlink_metadata(folder.join(mark)).is_ok());
    let is_journal = |name: &String| (name.starts_with(".sync_") || name.starts_with("._sync_")) && name.ends_with(".db");
    mark.map(|(_, program)| *program).or_else(|| names(folder).iter().any(is_journal).then_some("Nextcloud"))
}

/// The copies that lie beside a file, in order of name. `program` is the one that copies the folder, if one does.
#[must_use]
pub fn copies(file: &Path, program: Option<&str>) -> Vec<PathBuf> {
    let (Some(folder), Some(name)) = (file.parent(), file.file_name().and_then(|name| name.to_str())) else { return Vec::new() };
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let entries = entries.take(NAMES_MAX).filter_map(Result::ok);
    let is_one = |entry: &fs::DirEntry| is_copy(&entry.file_name().to_string_lossy(), name, program == Some(ONEDRIVE));
    let mut copies: Vec<_> = entries.filter(is_one).map(|entry| entry.path()).collect();
    copies.sort();
    copies
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().take(NAMES_MAX).filter_map(Result::ok);
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Whether a name is another's with something put into it, in front of its last dot or behind it.
fn is_copy(name: &str, of: &str, is_onedrive: bool) -> bool {
    let stem = &of[..of.rfind('.').unwrap_or(of.len())];
    [(stem, &of[stem.len()..]), (of, "")].into_iter().any(|(front, end)| {
        let put_in = name.strip_prefix(front).and_then(|rest| rest.strip_suffix(end));
        put_in.is_some_and(|put_in| is_of_a_copy(put_in, is_onedrive))
    })
}

/// Whether this is what a program puts into a copy's name: a word with `conflict`, as nearly all do, a number as iCloud (` 2`) and
/// Google Drive (` (1)`) do, or a machine's name as OneDrive does (`-machine`).
fn is_of_a_copy(put_in: &str, is_onedrive: bool) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.len() <= 3 && text.bytes().all(|byte| byte.is_ascii_digit());
    let counted = put_in.strip_prefix(' ').unwrap_or_default();
    let bare = counted.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(counted);
    put_in.to_lowercase().contains("conflict")
        || is_number(bare)
        || is_onedrive && put_in.strip_prefix('-').is_some_and(|machine| !machine.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(of: &str, name: &str, expect: bool) {
        assert_eq!(is_copy(name, of, false), expect, "{name:?}");
    }

    #[test]
    fn copies_are_known_by_what_each_program_puts_into_their_names() {
        for name in [
            "events (ada's conflicted copy 2026-01-01).jsonl",
            "events (conflicted copy 2026-01-01 120000).jsonl",
            "events.sync-conflict-20260101-120000-ABCDEFG.jsonl",
            "events_conflict-20260101-120000.jsonl",
            "events (SFConflict ada@host 2026-01-01).jsonl",
            "events.jsonl (Case Conflict)",
            "events 2.jsonl",
            "events (1).jsonl",
            "events\n(conflicted copy)\u{1b}[2J.jsonl",
        ] {
            check("events.jsonl", name, true);
        }
        for name in [
            ".sync-conflict-20260101-120000-ABCDEFG.secret",
            ".secret.sync-conflict-20260101-120000-ABCDEFG",
            ".secret (ada's conflicted copy 2026-01-01)",
            ".secret 2",
        ] {
            check(".secret", name, true);
        }
    }

    #[test]
    fn other_names_are_no_copies() {
        for name in
            ["events.jsonl", "events.jsonl.bak", "events-2026.jsonl", "events 2026.jsonl", "conflict.jsonl", "events.json", ""]
        {
            check("events.jsonl", name, false);
        }
        for name in [".secret", ".secrets", ".secret.pub", "secret", ".self"] {
            check(".secret", name, false);
        }
        assert!(is_copy("events-LAPTOP.jsonl", "events.jsonl", true) && !is_copy("events-.jsonl", "events.jsonl", true));
    }

    #[test]
    fn a_folder_that_is_copied_is_known_by_its_name_or_a_mark() {
        let folder = tempfile::tempdir().unwrap();
        let found = |path: &Path| around(path).map(|(_, program)| program);
        let marked = |mark: &str| {
            let top = folder.path().join(mark.replace('.', "x"));
            fs::create_dir_all(top.join("deep/er")).unwrap();
            fs::write(top.join(mark), "").unwrap();
            around(&top.join("deep/er")).map(|(at, program)| (at == top, program))
        };
        assert_eq!(marked(".stfolder"), Some((true, "Syncthing")));
        assert_eq!(marked(".dropbox.cache"), Some((true, "Dropbox")));
        assert_eq!(marked(".sync_0123456789ab.db"), Some((true, "Nextcloud")));
        assert_eq!(marked("_sync.db"), None);
        assert_eq!(found(&folder.path().join("Dropbox/x")), Some("Dropbox"));
        assert_eq!(found(&folder.path().join("OneDrive - Firm/x")), Some("OneDrive"));
        assert_eq!(found(&folder.path().join("Library/Mobile Documents/x")), Some("iCloud"));
        assert_eq!(found(&folder.path().join("Dropboxes")), None);
    }
}
