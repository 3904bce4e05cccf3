//! The home: a directory, its key, and where in it things lie.
//!
//! Makes what is missing, readable by the owner only; never changes what it finds. The invariant: a home has one key, made
//! once whatever starts at the same time, and a key that others could read is not used.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::append::sync_folder;
use crate::capability::Need;
use crate::log::Places;
use crate::receipt::{SECRET_BYTES, Secret, SecretFault};

/// The largest key file that is read, in bytes.
const KEY_BYTES_MAX: u64 = 4096;

/// How old a draft in `.self/` must be to be one that nobody finishes, in seconds.
const DRAFT_SECONDS_MIN: i64 = 60;

/// A home directory; it may not be one yet.
#[derive(Debug, Clone)]
pub struct Home {
    root: PathBuf,
}

/// What went wrong with a home.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
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
    /// Others can read or change the key.
    #[error("could not use `{}`: mode {mode:04o} lets others at it", path.display())]
    KeyOpen {
        /// The key file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// The key belongs to somebody else.
    #[error("could not use `{}`: it belongs to user {owner}", path.display())]
    KeyOwner {
        /// The key file.
        path: PathBuf,
        /// Who owns it.
        owner: u32,
    },
    /// The key is no regular file.
    #[error("could not use `{}`: it is not a regular file", .0.display())]
    KeyNotAFile(PathBuf),
    /// The key file holds no key.
    #[error("could not use `{}`: {fault}", path.display())]
    KeyFault {
        /// The key file.
        path: PathBuf,
        /// What is wrong with its text.
        fault: SecretFault,
    },
}

impl HomeError {
    /// The remedy, as a line.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            HomeError::Io { .. } => None,
            HomeError::KeyOpen { path, .. } => Some(format!("chmod 600 {}", shell_word(path))),
            HomeError::KeyOwner { path, .. } => Some(format!("chown \"$(id -u)\" {}", shell_word(path))),
            HomeError::KeyNotAFile(path) | HomeError::KeyFault { path, .. } => {
                Some(format!("restore {} from a backup; without it no script of this home can be proven", shell_word(path)))
            }
        }
    }
}

/// A path with its links resolved, as far as it exists.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    for above in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (above.canonicalize(), path.strip_prefix(above)) {
            return if rest.as_os_str().is_empty() { real } else { real.join(rest) };
        }
    }
    path.to_owned()
}

/// The path of a need, with what `~` stands for.
pub(crate) fn of_user(path: &str, user: &Path) -> PathBuf {
    path.strip_prefix("~/").map_or_else(|| PathBuf::from(path), |rest| user.join(rest))
}

/// A path as one word of a shell line.
pub(crate) fn shell_word(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', "'\\''"))
}

fn io_error<'p>(act: &'static str, path: &'p Path) -> impl FnOnce(io::Error) -> HomeError + use<'p> {
    move |source| HomeError::Io { act, path: path.to_owned(), source }
}

impl Home {
    /// Names a home by its directory.
    #[must_use]
    pub fn at(root: PathBuf) -> Home {
        Home { root }
    }

    /// The directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where the log and what belongs to it lie.
    #[must_use]
    pub fn places(&self) -> Places {
        let own = self.own();
        Places { log: self.root.join("events.jsonl"), lock: own.join("lock"), torn: own.join("torn") }
    }

    /// Where the markers of open prompts lie.
    #[must_use]
    pub fn turns(&self) -> PathBuf {
        self.own().join("turns")
    }

    /// `.self/`, the kernel's own folder.
    #[must_use]
    pub fn own(&self) -> PathBuf {
        self.root.join(".self")
    }

    /// The permission bits of a file in the home, its links followed.
    #[must_use]
    pub fn mode(&self, name: &str) -> Option<u32> {
        std::fs::metadata(self.root.join(name)).ok().map(|facts| facts.mode() & 0o7777)
    }

    /// Whether files can be made in the home.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        rustix::fs::access(&self.root, rustix::fs::Access::WRITE_OK).is_ok()
    }

    /// The path of a file in the home as one word of a shell line.
    #[must_use]
    pub fn word(&self, name: &str) -> String {
        shell_word(&self.root.join(name))
    }

    /// The drafts in `.self/` that were left behind: of files that were to be put in place, of a key, of the list of interpreters.
    /// `now` is in seconds since 1970.
    #[must_use]
    pub fn drafts_left(&self, now: i64) -> Vec<PathBuf> {
        let is_draft = |name: &str| {
            name.starts_with("draft-")
                || name.starts_with("secret.")
                || (name.starts_with("interpreters.") && name.ends_with(".new"))
        };
        let entries = std::fs::read_dir(self.own()).into_iter().flatten().filter_map(Result::ok);
        let drafts = entries.filter(|entry| is_draft(&entry.file_name().to_string_lossy()));
        let is_left = |entry: &std::fs::DirEntry| {
            entry.metadata().is_ok_and(|facts| facts.is_file() && now.saturating_sub(facts.mtime()) >= DRAFT_SECONDS_MIN)
        };
        let mut left: Vec<_> = drafts.filter(is_left).map(|entry| entry.path()).collect();
        left.sort();
        left
    }

    /// Where the key lies.
    pub(crate) fn key_path(&self) -> PathBuf {
        self.root.join(".secret")
    }

    /// Why a need may not be granted in this home: its path, links resolved, would carry the key or let the log be written.
    /// `user` is what `~` stands for, `state` the folder, if there is one, that remembers how long the log has been.
    #[must_use]
    pub fn forbids(&self, need: &Need, user: &Path, state: Option<&Path>) -> Option<String> {
        let (path, writes) = match need {
            Need::Read(path) => (path, false),
            Need::Write(path) => (path, true),
            Need::ReadArgs | Need::Net => return None,
        };
        let why = self.carries(&resolved(&of_user(path, user)), writes, state)?;
        Some(format!("`{need}` is not granted: {why}"))
    }

    /// Why a path, its links resolved, may not be granted: it would carry the key or, to be written, let the log be written.
    /// `state` is the folder, if there is one, that remembers how long the log has been.
    pub(crate) fn carries(&self, path: &Path, writes: bool, state: Option<&Path>) -> Option<&'static str> {
        let root = resolved(&self.root);
        let lies_in = |folder: &Path| path.starts_with(folder);
        if root.starts_with(path) {
            Some("it contains this home")
        } else if resolved(&self.key_path()).starts_with(path) {
            Some("it carries the key")
        } else if writes && resolved(&self.places().log).starts_with(path) {
            Some("it carries the log")
        } else if writes && (lies_in(&root) || state.is_some_and(|state| lies_in(&resolved(&state.join("self"))))) {
            Some("it lies in this home, or where the log's length is remembered")
        } else if lies_in(&root.join(".secret")) || lies_in(&root.join(".self")) {
            Some("it is the key, or the kernel's own folder")
        } else {
            None
        }
    }

    /// Makes the directory and `.self/` if they are missing.
    pub fn make(&self) -> Result<(), HomeError> {
        self.make_folder(&self.own())
    }

    /// Makes a folder, `.self/` or one below it, with those above it that are missing; what was made is on the disk.
    pub fn make_folder(&self, folder: &Path) -> Result<(), HomeError> {
        let missing: Vec<&Path> = folder.ancestors().take_while(|above| !above.exists()).collect();
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(io_error("make", folder))?;
        for made in missing.iter().rev() {
            // A folder that may be passed through but not read cannot be synced; it was not made here.
            let _ = sync_folder(made);
        }
        Ok(())
    }

    /// An error of this home.
    #[must_use]
    pub fn failed(&self, act: &'static str, path: &Path, source: io::Error) -> HomeError {
        io_error(act, path)(source)
    }

    /// Reads the key; `None` if there is no key file.
    pub fn secret(&self) -> Result<Option<Secret>, HomeError> {
        let path = self.key_path();
        let facts = match std::fs::metadata(&path) {
            Err(fault) if fault.kind() == io::ErrorKind::NotFound && path.is_symlink() => {
                return Err(HomeError::KeyNotAFile(path));
            }
            Err(fault) if fault.kind() == io::ErrorKind::NotFound => return Ok(None),
            facts => facts.map_err(io_error("read", &path))?,
        };
        if !facts.is_file() {
            return Err(HomeError::KeyNotAFile(path));
        }
        let (mode, owner) = (facts.mode() & 0o7777, facts.uid());
        if mode & 0o077 != 0 {
            return Err(HomeError::KeyOpen { path, mode });
        }
        if owner != rustix::process::geteuid().as_raw() {
            return Err(HomeError::KeyOwner { path, owner });
        }
        let mut text = Zeroizing::new(Vec::new());
        let file = File::open(&path).map_err(io_error("read", &path))?;
        io::Read::read_to_end(&mut io::Read::take(file, KEY_BYTES_MAX), &mut text).map_err(io_error("read", &path))?;
        Secret::read(&text).map(Some).map_err(|fault| HomeError::KeyFault { path, fault })
    }

    /// Makes the key out of random bytes, unless somebody else makes it first, and reads it back. A link puts the finished file
    /// in place, so that nobody ever sees an empty one; `tag` tells that file from others under way.
    pub fn make_secret(&self, random: [u8; SECRET_BYTES], tag: &str) -> Result<Option<Secret>, HomeError> {
        let path = self.key_path();
        let secret = Secret::new(random);
        let draft = self.own().join(format!("secret.{tag}"));
        let write = || -> io::Result<()> {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
            file.write_all(secret.text().as_bytes())?;
            file.sync_all()
        };
        let made = write().and_then(|()| match std::fs::hard_link(&draft, &path) {
            Err(fault) if fault.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            linked => linked,
        });
        let _ = std::fs::remove_file(&draft);
        made.and_then(|()| sync_folder(&path)).map_err(io_error("make", &path))?;
        self.secret()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn home() -> (tempfile::TempDir, Home) {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path().to_owned());
        home.make().unwrap();
        (folder, home)
    }

    #[test]
    fn k1_racing_first_runs_make_one_key() {
        let (_folder, home) = home();
        let keys: Vec<String> = std::thread::scope(|scope| {
            let makers: Vec<_> = (0..32_u8)
                .map(|n| {
                    let home = &home;
                    scope.spawn(move || home.make_secret([n; SECRET_BYTES], &n.to_string()).unwrap().unwrap().text().to_string())
                })
                .collect();
            makers.into_iter().map(|maker| maker.join().unwrap()).collect()
        });
        assert!(keys.iter().all(|key| *key == keys[0]));
        assert_eq!(std::fs::read_dir(home.own()).unwrap().count(), 0, "no draft is left");
    }

    #[test]
    fn k2_a_key_that_is_not_right_is_refused_with_the_cause() {
        let (_folder, home) = home();
        home.make_secret([7; SECRET_BYTES], "x").unwrap();
        let path = home.key_path();
        let fault = || home.secret().unwrap_err();
        for mode in [0o644, 0o640, 0o604, 0o610, 0o601] {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            let fault = fault();
            assert_eq!(fault.to_string(), format!("could not use `{}`: mode {mode:04o} lets others at it", path.display()));
            assert_eq!(fault.hint(), Some(format!("chmod 600 '{}'", path.display())));
        }
        for mode in [0o400, 0o600] {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            assert_eq!(home.secret().unwrap().unwrap().text().trim(), "07".repeat(32));
        }
        for (text, cause) in [("", "it is too short"), ("0707", "it is too short"), (&"x".repeat(64), "it is not hexadecimal")] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(fault().to_string(), format!("could not use `{}`: {cause}", path.display()));
        }
        std::fs::remove_file(&path).unwrap();
        assert!(home.secret().unwrap().is_none());
        std::fs::create_dir(&path).unwrap();
        assert_eq!(fault().to_string(), format!("could not use `{}`: it is not a regular file", path.display()));
        std::fs::remove_dir(&path).unwrap();
        std::os::unix::fs::symlink("/nonexistent/key", &path).unwrap();
        assert_eq!(fault().to_string(), format!("could not use `{}`: it is not a regular file", path.display()));
    }

    #[test]
    fn k5_no_error_shows_the_keys_text() {
        let (_folder, home) = home();
        let path = home.key_path();
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)
            .unwrap()
            .write_all(b"5ec2e7zz")
            .unwrap();
        let fault = home.secret().unwrap_err();
        assert!(!format!("{fault} {fault:?} {:?}", fault.hint()).contains("5ec2e7"));
    }

    #[test]
    fn s11_a_need_that_would_carry_the_key_or_write_the_log_is_forbidden() {
        let (folder, home) = home();
        let root = home.root().to_owned();
        let above = root.parent().unwrap().to_owned();
        std::os::unix::fs::symlink(&root, folder.path().join("link")).unwrap();
        let forbidden = |need: &str| home.forbids(&Need::read(need).unwrap(), &root, Some(Path::new("/state")));
        let path = |tail: &str| format!("{}{tail}", root.display());
        for need in ["", "/", "/.secret", "/.self", "/.self/turns", "/link", "/link/.secret"] {
            assert!(forbidden(&format!("read:{}", path(need))).is_some(), "read {need:?}");
        }
        assert!(forbidden(&format!("read:{}", above.display())).is_some() && forbidden("read:/").is_some());
        for need in ["read:/usr", &format!("read:{}", path("/notes")), "read:~/notes", "net", "read:args", "write:/elsewhere"] {
            assert_eq!(forbidden(need), None, "{need}");
        }
        for need in [&format!("write:{}", path("/notes")), "write:~/new/folder", "write:/state/self/heads", "write:/"] {
            assert!(forbidden(need).is_some(), "{need}");
        }
    }

    #[test]
    fn what_is_made_is_the_owners_alone() {
        let (_folder, home) = home();
        let home = Home::at(home.root().join("a/b"));
        home.make().unwrap();
        for path in [home.root().to_owned(), home.own()] {
            assert_eq!(std::fs::metadata(path).unwrap().mode() & 0o777, 0o700);
        }
    }
}
