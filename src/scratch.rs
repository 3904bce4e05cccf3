//! The scratch folder of a run: the script's file, its links, and whatever the script makes there.
//!
//! Made for the owner alone, at a path without links. The invariant: it is gone when its value is, whatever rights the script took
//! away in it.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The script's file in its scratch folder, and what it is called where a link has that name.
const FILE: &str = "run";
const FILE_ELSE: &str = "run.script";

/// A scratch folder could not be made, filled or removed.
#[derive(Debug, thiserror::Error)]
#[error("could not {act} `{}`: {source}", path.display())]
pub struct ScratchError {
    act: &'static str,
    path: PathBuf,
    source: io::Error,
}

/// A script's own folder; gone when the value is.
pub(crate) struct Scratch {
    pub(crate) folder: PathBuf,
    pub(crate) file: PathBuf,
    is_there: bool,
}

impl Scratch {
    /// Makes the folder, with the script in it and these links: each a path there, and where it leads.
    pub(crate) fn make(folder: PathBuf, script: &[u8], links: &[(PathBuf, PathBuf)]) -> Result<Scratch, ScratchError> {
        let failed = |act, path: &Path| {
            let path = path.to_owned();
            move |source| ScratchError { act, path, source }
        };
        DirBuilder::new().mode(0o700).create(&folder).map_err(failed("make", &folder))?;
        // By its own path, and not one that leads over links: that alone is granted.
        let folder = folder.canonicalize().unwrap_or(folder);
        let is_taken = links.iter().any(|(link, _)| link.starts_with(FILE));
        let file = folder.join(if is_taken { FILE_ELSE } else { FILE });
        let scratch = Scratch { folder, file, is_there: true };
        let written = OpenOptions::new().write(true).create_new(true).mode(0o700).open(&scratch.file);
        written.and_then(|mut file| file.write_all(script)).map_err(failed("write", &scratch.file))?;
        for (link, target) in outermost(links) {
            let link = scratch.folder.join(link);
            let above = link.parent().unwrap_or(&scratch.folder);
            let made = DirBuilder::new().recursive(true).mode(0o700).create(above);
            made.and_then(|()| std::os::unix::fs::symlink(target, &link)).map_err(failed("make", &link))?;
        }
        Ok(scratch)
    }

    /// Removes it, and says if that fails.
    pub(crate) fn remove(mut self) -> Result<(), ScratchError> {
        self.is_there = false;
        remove(&self.folder).map_err(|source| ScratchError { act: "remove", path: self.folder.clone(), source })
    }
}

/// The links that lie in no other: the way to the rest leads over these, into folders that are not the script's.
fn outermost(links: &[(PathBuf, PathBuf)]) -> BTreeMap<&Path, &Path> {
    let is_inner = |link: &Path| links.iter().any(|(other, _)| link != other && link.starts_with(other));
    links.iter().map(|(link, target)| (link.as_path(), target.as_path())).filter(|(link, _)| !is_inner(link)).collect()
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.is_there {
            let _ = remove(&self.folder);
        }
    }
}

/// Removes a folder and all below it, also where a script took its own rights away.
pub(crate) fn remove(folder: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(fault) if fault.kind() == io::ErrorKind::PermissionDenied => {
            open_up(folder)?;
            std::fs::remove_dir_all(folder)
        }
        removed => removed,
    }
}

fn open_up(folder: &Path) -> io::Result<()> {
    // What stands there may be a link of somebody else's: what it leads to is not ours to open.
    if !std::fs::symlink_metadata(folder)?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        std::fs::set_permissions(&folder, Permissions::from_mode(0o700))?;
        for entry in std::fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_link_leads_to_keeps_its_rights() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        std::fs::create_dir(&real).unwrap();
        std::fs::set_permissions(&real, Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert!(open_up(&link).is_err());
        assert_eq!(real.metadata().unwrap().permissions().mode() & 0o777, 0o755);
    }

    #[test]
    fn a_link_within_another_is_left_to_the_outer_one_and_nothing_is_made_there() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().join("real");
        std::fs::create_dir(&real).unwrap();
        let link = |link: &str, target: &str| (PathBuf::from(link), real.join(target));
        let links = [link("a/b/c", "gone"), link("a/b", ""), link("run", ""), link("a/b", ""), link("run/x", "gone")];
        let scratch = Scratch::make(folder.path().join("scratch"), b"it", &links).unwrap();
        assert!(scratch.file.ends_with("run.script"));
        for inner in ["a/b", "run"] {
            assert_eq!(std::fs::read_link(scratch.folder.join(inner)).unwrap(), real);
        }
        assert_eq!(std::fs::read_dir(&real).unwrap().count(), 0);
        scratch.remove().unwrap();
        assert!(real.exists() && !folder.path().join("scratch").exists());
    }
}
