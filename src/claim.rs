//! Claims: which scratch folders belong to runs of this home that are under way.
//!
//! A claim is a file in `.self/scratch/`, named as the folder, holding its path, and locked for as long as its run lasts. The system
//! lets go of the lock when its holder dies, however it dies: what is claimed by nobody was left behind, and the next run removes it.
//! Never removes a folder that no claim of this home names. The invariant: a claim is there before its folder, and is gone after it.

use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, read_dir, remove_file};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::lock::Lock;
use crate::scratch::remove;

/// The claim of a run on its scratch folder; gone when the value is.
#[derive(Debug)]
pub(crate) struct Claim {
    path: PathBuf,
    _lock: Lock,
}

impl Claim {
    /// Claims a folder that is to be made, and removes what earlier runs left behind. `None` where nothing can be written: then
    /// nothing is remembered, and nothing removed.
    pub(crate) fn take(claims: &Path, folder: &Path) -> Option<Claim> {
        match DirBuilder::new().mode(0o700).create(claims) {
            Err(fault) if fault.kind() != io::ErrorKind::AlreadyExists => return None,
            Ok(()) | Err(_) => {}
        }
        let lefts = read_dir(claims).ok()?.filter_map(Result::ok);
        // A pipe would keep its reader waiting.
        for left in lefts.filter(|left| left.file_type().is_ok_and(|kind| kind.is_file())) {
            clear(&left.path());
        }
        let path = claims.join(folder.file_name()?);
        let lock = Lock::exclusive(&path, Duration::ZERO).ok()?;
        let claim = Claim { path, _lock: lock };
        std::fs::write(&claim.path, folder.as_os_str().as_encoded_bytes()).ok()?;
        Some(claim)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let _ = remove_file(&self.path);
    }
}

/// Removes a folder that was left behind, and then its claim; leaves both where the run is under way, or what is left resists.
fn clear(claim: &Path) {
    let Ok(_lock) = Lock::exclusive(claim, Duration::ZERO) else { return };
    let folder = PathBuf::from(OsString::from_vec(std::fs::read(claim).unwrap_or_default()));
    let is_named = folder.is_absolute() && folder.file_name() == claim.file_name() && claim.file_name().is_some_and(is_scratch);
    let is_gone = !is_named || remove(&folder).is_ok() || !folder.exists();
    if is_gone {
        let _ = remove_file(claim);
    }
}

/// Whether a name is one that a run gives its folder.
fn is_scratch(name: &OsStr) -> bool {
    let digits = name.to_str().and_then(|name| name.strip_prefix("self-"));
    digits.is_some_and(|digits| digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    #[test]
    fn what_is_no_file_is_no_claim_and_keeps_nobody_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let claims = folder.path().join("claims");
        std::fs::create_dir(&claims).unwrap();
        let [pipe, link, left] = ["a", "b", "c"].map(|digit| claims.join(format!("self-{}", digit.repeat(32))));
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        std::os::unix::fs::symlink(folder.path(), &link).unwrap();
        std::fs::write(&left, "").unwrap();
        let (take, took) = std::sync::mpsc::channel();
        let scratch = folder.path().join(format!("self-{}", "d".repeat(32)));
        std::thread::spawn(move || take.send(Claim::take(&claims, &scratch).is_some()));
        assert!(took.recv_timeout(Duration::from_secs(20)).unwrap());
        assert_eq!([pipe, link, left].map(|path| path.symlink_metadata().is_ok()), [true, true, false]);
    }
}
