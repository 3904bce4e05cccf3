//! What a script is granted: by default, for its interpreter, and by its needs.
//!
//! Turns names into paths without links, and folders on whose way something must stay hidden into their other entries. Makes what a
//! `write:` lacks; opens nothing. The invariant: no grant contains the home or the user's folder as a whole unless a need names it,
//! and none, ever, carries the key.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};

use crate::capability::{Capability, Kind, Need};
use crate::home::{Home, of_user, resolved};
use crate::orders::{Access, Grant};

/// What every script may read and execute, and, beside these, all in `/` whose name starts with `lib`.
const ROOTS: [&str; 5] = ["/usr", "/bin", "/etc", "/opt", "/nix"];

/// The devices that every script may read and write.
const DEVICES: [&str; 3] = ["/dev/null", "/dev/zero", "/dev/urandom"];

/// What of a home a command may read, each by itself.
const OF_HOME: [&str; 3] = ["events.jsonl", "site", "capabilities"];

/// The folder in which Homebrew keeps what it links together one level above.
const CELLAR: &str = "Cellar";

/// Where the network's names are looked up.
const RESOLVER: &str = "/etc/resolv.conf";

/// What a script is granted beside its scratch folder.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Granted {
    /// Paths, and what may be done with each.
    pub grants: Vec<Grant>,
    /// Links for its scratch folder: the path there, and where it leads.
    pub links: Vec<(PathBuf, PathBuf)>,
    /// Whether it may use the network.
    pub net: bool,
}

/// Why a need could not be granted for a run.
#[derive(Debug, thiserror::Error)]
pub enum GrantError {
    /// It would carry the key, or let the log be written; in words.
    #[error("{0}")]
    Forbidden(String),
    /// An argument would carry the key.
    #[error("argument {at} is not granted: {why}")]
    Argument {
        /// Which, from 1 on.
        at: usize,
        /// Why not.
        why: &'static str,
    },
    /// It is neither a folder nor a file.
    #[error("`{0}` is not granted: it is neither a folder nor a file")]
    Odd(Need),
    /// The folder of a `write:` could not be made.
    #[error("`{need}` is not granted: its folder could not be made: {source}")]
    Make {
        /// The need.
        need: Need,
        /// Why it failed.
        source: io::Error,
    },
}

/// Where a script runs, and for whom.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The home.
    pub home: &'a Home,
    /// What `~` stands for.
    pub user: &'a Path,
    /// Where programs keep their state, if anywhere.
    pub state: Option<&'a Path>,
    /// Where the caller stands.
    pub folder: &'a Path,
}

/// What a failed script says on stderr when it was held back.
const HELD_BACK: [&str; 8] = [
    "permission denied",
    "not permitted",
    "permissionerror",
    "eacces",
    "eperm",
    "socket",
    "name resolution",
    "network is unreachable",
];

/// A word of help after a run that failed while its stderr speaks of a permission or a socket: what the script was granted, how a
/// need is spelled, and what adds one.
#[must_use]
pub fn help(capability: &Capability, needs: &[Need], said: &str) -> Option<String> {
    let said = said.to_lowercase();
    if !HELD_BACK.iter().any(|sign| said.contains(sign)) {
        return None;
    }
    if capability.kind == Kind::Projector {
        return Some(format!("{capability} is granted its input and nothing else: a projector has no needs"));
    }
    let may: Vec<_> = needs.iter().map(Need::words).collect();
    let may = if may.is_empty() { "has no needs".to_owned() } else { format!("may {}", may.join(", ")) };
    Some(format!(
        "{capability} reads the log, site/ and capabilities/, writes its own TMPDIR, and {may}; a need is read:<path>, write:<path>, \
         read:args or net, and a new declaration with its script adds one"
    ))
}

/// What every script is granted; a command the open part of its home too.
#[must_use]
pub fn by_default(place: Place<'_>, interpreter: &Path, is_command: bool) -> Granted {
    // The key may lie elsewhere than in the home, where a link leads to.
    let hidden = [place.user.to_owned(), place.home.root().to_owned(), place.home.key_path()].map(|path| resolved(&path));
    let libraries = fs::read_dir("/").into_iter().flatten().flatten();
    let libraries = libraries.filter(|entry| entry.file_name().to_string_lossy().starts_with("lib")).map(|entry| entry.path());
    let mut grants = Vec::new();
    for root in ROOTS.into_iter().map(PathBuf::from).chain(libraries) {
        if let Ok(root) = root.canonicalize() {
            all_but(&root, &hidden, &mut grants);
        }
    }
    grants.extend(tree(interpreter, place.user, &hidden).map(Grant::read));
    let devices = DEVICES.into_iter().filter_map(|device| Path::new(device).canonicalize().ok());
    grants.extend(devices.map(|path| Grant { path, access: Access::Device }));
    if is_command {
        let open = OF_HOME.into_iter().filter_map(|name| place.home.root().join(name).canonicalize().ok());
        grants.extend(open.filter(|path| place.home.carries(path, false, None).is_none()).map(Grant::read));
    }
    grants.sort();
    grants.dedup();
    Granted { grants, ..Granted::default() }
}

/// Adds what these needs say; `arguments` are the script's.
///
/// # Errors
/// When one of them may not be granted, or cannot be.
pub fn by_needs(granted: &mut Granted, place: Place<'_>, needs: &[Need], arguments: &[OsString]) -> Result<(), GrantError> {
    for need in needs {
        if let Some(why) = place.home.forbids(need, place.user, place.state) {
            return Err(GrantError::Forbidden(why));
        }
        match need {
            Need::Read(path) => {
                if let Ok(real) = of_user(path, place.user).canonicalize() {
                    link(granted, path, &real);
                    granted.grants.push(Grant::read(real));
                }
            }
            Need::Write(path) => {
                let real = writable(place, need, &of_user(path, place.user))?;
                link(granted, path, &real);
                granted.grants.push(Grant::write(real));
            }
            Need::ReadArgs => {
                for (at, argument) in arguments.iter().enumerate() {
                    let Ok(real) = place.folder.join(argument).canonicalize() else { continue };
                    if real.is_file() {
                        let why = place.home.carries(&real, false, None);
                        why.map_or(Ok(()), |why| Err(GrantError::Argument { at: at + 1, why }))?;
                        granted.grants.push(Grant::read(real));
                    }
                }
            }
            Need::Net => {
                granted.net = true;
                granted.grants.extend(Path::new(RESOLVER).canonicalize().ok().map(Grant::read));
            }
        }
    }
    Ok(())
}

/// The folder or file of a `write:`; a folder that is missing is made, for the owner alone.
fn writable(place: Place<'_>, need: &Need, path: &Path) -> Result<PathBuf, GrantError> {
    let failed = |source| GrantError::Make { need: need.clone(), source };
    if !path.exists() {
        DirBuilder::new().recursive(true).mode(0o700).create(resolved(path)).map_err(failed)?;
    }
    let real = path.canonicalize().map_err(failed)?;
    // What was made may lie elsewhere than what was asked about, if a link came between.
    if let Some(why) = place.home.forbids(need, place.user, place.state) {
        return Err(GrantError::Forbidden(why));
    }
    let is_plain = fs::metadata(&real).is_ok_and(|facts| facts.is_dir() || facts.is_file());
    is_plain.then_some(real).ok_or_else(|| GrantError::Odd(need.clone()))
}

/// What is granted under `~` appears at the same place in the script's own `HOME`.
fn link(granted: &mut Granted, path: &str, real: &Path) {
    if let Some(rest) = path.strip_prefix("~/") {
        let plain: PathBuf = Path::new(rest).components().filter(|part| *part != Component::CurDir).collect();
        let climbs = plain.components().any(|part| !matches!(part, Component::Normal(_)));
        if !climbs && !plain.as_os_str().is_empty() {
            granted.links.push((plain, real.to_owned()));
        }
    }
}

/// Grants a folder to be read: whole, or, where something hidden lies in it, every other entry on the way down to that. A link is
/// no entry: it may lead to what is hidden.
fn all_but(path: &Path, hidden: &[PathBuf], grants: &mut Vec<Grant>) {
    if !hidden.iter().any(|hidden| hidden.starts_with(path)) {
        grants.push(Grant::read(path));
    } else if !hidden.iter().any(|hidden| hidden == path) {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
                all_but(&entry.path(), hidden, grants);
            }
        }
    }
}

/// What an interpreter needs of itself: the folder above its `bin`, Homebrew's above its cellar; the file alone where that would
/// be or contain something hidden, or is where programs of all kinds are put.
fn tree(interpreter: &Path, user: &Path, hidden: &[PathBuf]) -> Option<PathBuf> {
    let real = interpreter.canonicalize().ok()?;
    let cellar = real.ancestors().find(|above| above.file_name().is_some_and(|name| name == CELLAR)).and_then(Path::parent);
    let above_bin = real.parent().filter(|folder| folder.file_name().is_some_and(|name| name == "bin")).and_then(Path::parent);
    let all = resolved(&user.join(".local"));
    let is_open = |tree: &&Path| **tree != all && !hidden.iter().any(|hidden| hidden.starts_with(tree));
    let tree = cellar.filter(is_open).or(above_bin.filter(is_open));
    Some(tree.map_or_else(|| real.clone(), Path::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn place(folder: &Path, names: &[&str]) {
        for name in names {
            fs::create_dir_all(folder.join(name).parent().unwrap()).unwrap();
            fs::write(folder.join(name), "").unwrap();
        }
    }

    fn paths(grants: &[Grant], folder: &Path) -> Vec<String> {
        let mut paths: Vec<_> = grants.iter().map(|it| it.path.strip_prefix(folder).unwrap().display().to_string()).collect();
        paths.sort();
        paths
    }

    #[test]
    fn a_folder_with_something_hidden_is_granted_by_its_other_entries() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        place(&root, &["a/x", "b/home/.secret", "b/other/y", "b/file", "c"]);
        symlink(root.join("b/home"), root.join("b/link")).unwrap();
        symlink(root.join("b"), root.join("link")).unwrap();
        let granted = |hidden: &[&str]| {
            let hidden: Vec<_> = hidden.iter().map(|path| root.join(path)).collect();
            let mut grants = Vec::new();
            all_but(&root, &hidden, &mut grants);
            paths(&grants, &root)
        };
        assert_eq!(granted(&[]), [""]);
        assert_eq!(granted(&["elsewhere/x"]), ["a", "b", "c"]);
        assert_eq!(granted(&["b/home"]), ["a", "b/file", "b/other", "c"]);
        assert_eq!(granted(&["b/home", "a"]), ["b/file", "b/other", "c"]);
        assert_eq!(granted(&[""]), [""; 0]);
    }

    #[test]
    fn an_interpreters_tree_lies_above_its_bin() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let user = root.join("user");
        place(
            &root,
            &[
                "user/.pyenv/versions/3.11/bin/python3.11",
                "user/.local/bin/lang",
                "user/bin/lang",
                "user/lang",
                "brew/Cellar/python/3.12/bin/python3",
                "bin/sh",
            ],
        );
        symlink("python3.11", user.join(".pyenv/versions/3.11/bin/python3")).unwrap();
        symlink(user.join(".pyenv/versions/3.11/bin/python3"), user.join(".local/bin/python")).unwrap();
        symlink("../Cellar/python/3.12/bin/python3", root.join("brew/python3")).unwrap();
        let hidden = [user.clone(), user.join("home")];
        let check = |interpreter: &str, expect: &str| {
            let found = tree(&root.join(interpreter), &user, &hidden).unwrap();
            assert_eq!(found, root.join(expect), "{interpreter}");
        };
        check("user/.pyenv/versions/3.11/bin/python3", "user/.pyenv/versions/3.11");
        check("user/.local/bin/python", "user/.pyenv/versions/3.11");
        check("user/.local/bin/lang", "user/.local/bin/lang");
        check("user/bin/lang", "user/bin/lang");
        check("user/lang", "user/lang");
        check("bin/sh", "bin/sh");
        std::fs::remove_file(root.join("brew/python3")).unwrap();
        symlink("Cellar/python/3.12/bin/python3", root.join("brew/python3")).unwrap();
        check("brew/python3", "brew");
        assert_eq!(tree(&root.join("gone"), &user, &hidden), None);
    }

    #[test]
    fn a_need_under_the_users_folder_has_a_link_at_the_same_place() {
        let mut granted = Granted::default();
        for path in ["~/a/b", "~/./c//d", "/x", "~/", "~/../e", "~/a/../f"] {
            link(&mut granted, path, Path::new("/real"));
        }
        let links: Vec<_> = granted.links.iter().map(|(link, _)| link.to_str().unwrap()).collect();
        assert_eq!(links, ["a/b", "c/d"]);
    }
}
