//! The interpreter of a script: what its first line asks for, and where that is on this machine.
//!
//! Reads the first line as the kernel of the operating system does, and of `env` what finds the program. Starts nothing but
//! version managers, to ask what their shims stand for. The invariant: what is found is a file that can be executed now, by an
//! absolute path, and is no shim.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::fs::{Access, AtFlags, FileType, Mode, OFlags, access, accessat, fstat, statat};

use crate::inquiry;

/// How long a version manager may take to say what a shim stands for.
const MANAGER_WAITS: Duration = Duration::from_secs(2);

/// The folder of which every executable is a shim.
const SHIMS: &str = "shims";

/// The version managers that answer `which NAME`.
const MANAGERS: [&str; 6] = ["pyenv", "rbenv", "nodenv", "asdf", "mise", "volta"];

/// The interpreters that are looked for on behalf of whoever writes a script, by name.
const KNOWN: [&str; 12] = ["sh", "bash", "python3", "node", "perl", "ruby", "awk", "jq", "lua", "php", "deno", "bun"];

/// What the first line of a script asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shebang {
    /// The program, by its path.
    pub program: String,
    /// Everything behind it, as one argument.
    pub argument: Option<String>,
}

/// Why a script's first line asks for nothing that could be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShebangFault {
    /// It does not begin with `#!`.
    #[error("the script has no shebang: its first line must begin with `#!` and an interpreter")]
    Missing,
    /// A byte order mark stands in front.
    #[error("the script begins with a byte order mark; `#!` must be its first two bytes")]
    ByteOrderMark,
    /// There is nothing behind `#!`.
    #[error("the shebang names no interpreter")]
    Empty,
    /// The line is not plain text.
    #[error("the shebang is not UTF-8, or holds a NUL")]
    NotText,
    /// The interpreter is not named by its whole path.
    #[error("the shebang names `{0}`, which is not an absolute path")]
    Relative(String),
    /// `env` is not told what to start.
    #[error("the shebang gives env nothing to start")]
    EnvEmpty,
    /// `env` gets its words as one.
    #[error("env would look for a program called `{0}`; several words need `env -S`")]
    EnvWords(String),
}

/// Why there is no interpreter on this machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InterpreterFault {
    /// There is no such program in `PATH`.
    #[error("the interpreter `{0}` is nowhere in PATH")]
    NotInPath(String),
    /// The path names nothing that can be executed.
    #[error("the interpreter `{}` is not there, or cannot be executed", .0.display())]
    NotThere(PathBuf),
    /// There are only shims, and no manager says what they stand for.
    #[error("the interpreter `{}` is a shim, and no version manager says what it stands for", .0.display())]
    Shim(PathBuf),
}

/// An interpreter that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Where it is.
    pub path: PathBuf,
    /// Shims that were passed over because no manager answered for them.
    pub passed_over: Vec<PathBuf>,
}

/// What is to be looked for.
#[derive(Debug, PartialEq, Eq)]
enum Sought<'a> {
    /// A file.
    File(&'a str),
    /// A program in `PATH`. The words behind it are there if they can be read without being `env`.
    Name { name: &'a str, behind: Option<Vec<&'a str>> },
}

/// Reads the first line: `#! /bin/sh -eu` asks for `/bin/sh` with the argument `-eu`.
///
/// # Errors
/// When it asks for nothing that could be started on any machine.
pub fn shebang(script: &[u8]) -> Result<Shebang, ShebangFault> {
    let line = script.split(|&byte| byte == b'\n').next().unwrap_or_default();
    if line.starts_with(b"\xef\xbb\xbf#!") {
        return Err(ShebangFault::ByteOrderMark);
    }
    let line = line.strip_prefix(b"#!").ok_or(ShebangFault::Missing)?;
    let line = std::str::from_utf8(line).ok().filter(|line| !line.contains('\0')).ok_or(ShebangFault::NotText)?;
    let line = line.trim_matches([' ', '\t', '\r']);
    let (program, argument) = line.split_once([' ', '\t']).unwrap_or((line, ""));
    if program.is_empty() {
        return Err(ShebangFault::Empty);
    }
    if !program.starts_with('/') {
        return Err(ShebangFault::Relative(program.to_owned()));
    }
    let argument = Some(argument.trim_start_matches([' ', '\t'])).filter(|argument| !argument.is_empty());
    let shebang = Shebang { program: program.to_owned(), argument: argument.map(str::to_owned) };
    shebang.sought()?;
    Ok(shebang)
}

impl Shebang {
    fn sought(&self) -> Result<Sought<'_>, ShebangFault> {
        if !self.program.ends_with("/env") {
            return Ok(Sought::File(&self.program));
        }
        let argument = self.argument.as_deref().ok_or(ShebangFault::EnvEmpty)?;
        let split = argument.strip_prefix("-S").or_else(|| argument.strip_prefix("--split-string="));
        let Some(split) = split else {
            let is_one_word = !argument.contains([' ', '\t']) && !argument.starts_with('-') && !argument.contains('=');
            let name = is_one_word.then_some(argument).ok_or_else(|| ShebangFault::EnvWords(argument.to_owned()))?;
            return Ok(Sought::Name { name, behind: Some(Vec::new()) });
        };
        let mut words = split.split_ascii_whitespace();
        let mut is_plain = !split.contains(['"', '\'', '\\', '$', '#']);
        loop {
            let word = words.next().ok_or(ShebangFault::EnvEmpty)?;
            if matches!(word, "-u" | "-C" | "--unset" | "--chdir") {
                words.next();
            } else if !word.starts_with('-') && !word.contains('=') {
                let name = word.trim_matches(['"', '\'']);
                return Ok(Sought::Name { name, behind: is_plain.then(|| words.collect()) });
            }
            is_plain = false;
        }
    }

    /// The words that the script's path is put behind to start it: those with which the kernel of the operating system would,
    /// but with the interpreter that was found in the place of `env` and its search.
    #[must_use]
    pub fn words(&self, found: &Path) -> Vec<OsString> {
        match self.sought() {
            Ok(Sought::Name { behind: Some(behind), .. }) => {
                [found.as_os_str().to_owned()].into_iter().chain(behind.into_iter().map(OsString::from)).collect()
            }
            Ok(Sought::Name { behind: None, .. }) | Err(_) => {
                [&self.program].into_iter().chain(&self.argument).map(OsString::from).collect()
            }
            Ok(Sought::File(_)) => {
                [found.as_os_str().to_owned()].into_iter().chain(self.argument.iter().map(OsString::from)).collect()
            }
        }
    }
}

/// A script's interpreter in words: what its first line asks for, and what that is here.
#[must_use]
pub fn shown_as(script: &str, path: &Path) -> String {
    let shebang = shebang(script.as_bytes()).ok();
    let asked = shebang.as_ref().and_then(|shebang| match shebang.sought().ok()? {
        Sought::Name { name, .. } => Some(name),
        Sought::File(file) => Path::new(file).file_name()?.to_str(),
    });
    format!("{} → {}", asked.unwrap_or("it"), path.display())
}

/// Finds the interpreter on this machine; `path` is the caller's `PATH`. A shim is asked for what it stands for in `folder`: what
/// it answers may depend on where one stands.
///
/// # Errors
/// When there is none.
pub fn resolve(shebang: &Shebang, path: &OsStr, folder: &Path) -> Result<Found, InterpreterFault> {
    let (name, candidates) = match shebang.sought() {
        Ok(Sought::Name { name, .. }) if !name.contains('/') => (name, in_path(name, path)),
        Ok(Sought::File(file) | Sought::Name { name: file, .. }) => (file, vec![PathBuf::from(file)]),
        Err(_) => (shebang.program.as_str(), vec![PathBuf::from(&shebang.program)]),
    };
    let mut passed_over = Vec::new();
    for candidate in candidates.iter().filter(|candidate| is_executable(candidate)) {
        if !is_shim(candidate) {
            return Ok(Found { path: candidate.clone(), passed_over });
        }
        match stands_for(candidate, path, folder) {
            Some(path) => return Ok(Found { path, passed_over }),
            None => passed_over.push(candidate.clone()),
        }
    }
    Err(match passed_over.into_iter().next() {
        Some(shim) => InterpreterFault::Shim(shim),
        None if name.contains('/') => InterpreterFault::NotThere(PathBuf::from(name)),
        None => InterpreterFault::NotInPath(name.to_owned()),
    })
}

/// Which of the interpreters that minds know are offered here. No shim is asked for what it stands for: that takes too long for a
/// prompt, and the gate asks before it installs.
#[must_use]
pub fn offered(path: &OsStr) -> Vec<String> {
    let folders = folders(path);
    let is_here = |name: &&str| folders.iter().any(|folder| holds_executable(folder, name));
    KNOWN.into_iter().filter(is_here).map(str::to_owned).collect()
}

/// The folders of a `PATH` that are there, each once.
fn folders(path: &OsStr) -> Vec<OwnedFd> {
    let mut known = BTreeSet::new();
    let open = |folder: PathBuf| {
        let folder = rustix::fs::open(folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let facts = fstat(&folder).ok()?;
        known.insert((facts.st_dev, facts.st_ino)).then_some(folder)
    };
    in_path("", path).into_iter().filter_map(open).collect()
}

fn holds_executable(folder: &OwnedFd, name: &str) -> bool {
    let is_file = || statat(folder, name, AtFlags::empty()).is_ok_and(|facts| FileType::from_raw_mode(facts.st_mode).is_file());
    accessat(folder, name, Access::EXEC_OK, AtFlags::empty()).is_ok() && is_file()
}

/// The first program of this name that a `PATH` offers.
pub(crate) fn program(name: &str, path: &OsStr) -> Option<PathBuf> {
    in_path(name, path).into_iter().find(|file| is_executable(file))
}

/// Where a program may be. Folders that are not absolute are not looked into: what they give depends on where one stands.
fn in_path(name: &str, path: &OsStr) -> Vec<PathBuf> {
    let folders = path.as_bytes().split(|&byte| byte == b':').map(|folder| Path::new(OsStr::from_bytes(folder)));
    folders.filter(|folder| folder.is_absolute()).map(|folder| folder.join(name)).collect()
}

fn is_executable(path: &Path) -> bool {
    path.is_absolute() && access(path, Access::EXEC_OK).is_ok() && path.is_file()
}

fn is_shim(path: &Path) -> bool {
    path.parent().and_then(Path::file_name).is_some_and(|folder| folder == SHIMS)
}

/// What a shim stands for, by the word of its version manager: that whose name is in its path, else whichever answers.
fn stands_for(shim: &Path, path: &OsStr, folder: &Path) -> Option<PathBuf> {
    let name = shim.file_name()?;
    let root = shim.parent()?.parent()?;
    let is_of = |manager: &str| {
        let called = |folder: Component<'_>| folder.as_os_str().as_bytes().ends_with(manager.as_bytes());
        root.components().any(called)
    };
    let own = MANAGERS.into_iter().filter(|manager| is_of(manager));
    let others = MANAGERS.into_iter().filter(|manager| !is_of(manager));
    let deadline = Instant::now() + MANAGER_WAITS;
    own.chain(others).find_map(|manager| {
        let beside = [root.join("bin").join(manager), root.join("libexec").join(manager)];
        let program =
            in_path(manager, path).into_iter().chain(beside).find(|program| is_executable(program) && !is_shim(program))?;
        let answer = ask(&program, name, [path, folder.as_os_str()], deadline).ok()??;
        Some(answer).filter(|answer| is_executable(answer) && !is_shim(answer))
    })
}

/// Asks a version manager; its first line is the answer.
fn ask(manager: &Path, name: &OsStr, [path, folder]: [&OsStr; 2], deadline: Instant) -> io::Result<Option<PathBuf>> {
    let mut command = Command::new(manager);
    command.arg("which").arg(name).env("PATH", path).current_dir(folder);
    let Some(mut answer) = inquiry::ask(command, deadline)? else { return Ok(None) };
    answer.truncate(memchr::memchr(b'\n', &answer).unwrap_or(answer.len()));
    Ok((!answer.is_empty()).then(|| PathBuf::from(OsString::from_vec(answer))))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[track_caller]
    fn check(line: &str, expect: Result<(&str, Option<&str>), ShebangFault>) {
        let expect =
            expect.map(|(program, argument)| Shebang { program: program.to_owned(), argument: argument.map(str::to_owned) });
        assert_eq!(shebang(line.as_bytes()), expect, "{line:?}");
    }

    #[test]
    fn what_is_offered_can_be_executed_in_a_folder_of_the_path() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        for folder in ["one", "two", "two/bash", "three"] {
            std::fs::create_dir(at(folder)).unwrap();
        }
        for (file, mode) in [("one/sh", 0o644), ("two/sh", 0o755), ("two/jq", 0o644), ("three/node", 0o755)] {
            std::fs::write(at(file), "").unwrap();
            std::fs::set_permissions(at(file), std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        }
        std::os::unix::fs::symlink(at("three"), at("four")).unwrap();
        std::os::unix::fs::symlink(at("two/sh"), at("one/lua")).unwrap();
        let offered_in = |folders: &[&str]| {
            let folders: Vec<_> = folders.iter().map(|folder| at(folder)).collect();
            offered(&std::env::join_paths(folders).unwrap())
        };
        assert_eq!(offered_in(&["one", "missing", "two", "two", "four", "three"]), ["sh", "node", "lua"]);
        assert_eq!(offered_in(&["four"]), ["node"]);
        assert_eq!(offered(OsStr::new("relative:.:")), Vec::<String>::new());
    }

    #[test]
    fn a_shebang_is_read_as_the_system_reads_it() {
        check("#!/bin/sh\n:\n", Ok(("/bin/sh", None)));
        check("#!/bin/sh", Ok(("/bin/sh", None)));
        check("#! \t/bin/sh  -e u \t\n", Ok(("/bin/sh", Some("-e u"))));
        check("#!/usr/bin/env python3\n", Ok(("/usr/bin/env", Some("python3"))));
        check("#!/usr/bin/env -S python3 -u\n", Ok(("/usr/bin/env", Some("-S python3 -u"))));
    }

    #[test]
    fn s14_a_shebang_that_starts_nothing_is_named() {
        check("", Err(ShebangFault::Missing));
        check("print(1)\n#!/bin/sh\n", Err(ShebangFault::Missing));
        check(" #!/bin/sh\n", Err(ShebangFault::Missing));
        check("\u{feff}#!/bin/sh\n", Err(ShebangFault::ByteOrderMark));
        check("#!\n", Err(ShebangFault::Empty));
        check("#! \t\r\n", Err(ShebangFault::Empty));
        check("#!/bin/s\0h\n", Err(ShebangFault::NotText));
        check("#!python3\n", Err(ShebangFault::Relative("python3".into())));
        check("#!/usr/bin/env\n", Err(ShebangFault::EnvEmpty));
        check("#!/usr/bin/env -S -i A=b\n", Err(ShebangFault::EnvEmpty));
        check("#!/usr/bin/env python3 -u\n", Err(ShebangFault::EnvWords("python3 -u".into())));
        assert_eq!(shebang(b"#!/bin/\xff\n"), Err(ShebangFault::NotText));
    }

    #[track_caller]
    fn check_words(line: &str, expect: &[&str]) {
        let words = shebang(line.as_bytes()).unwrap().words(Path::new("/found"));
        assert_eq!(words, expect, "{line:?}");
    }

    #[test]
    fn what_was_found_stands_in_for_env() {
        check_words("#!/bin/sh", &["/found"]);
        check_words("#!/bin/sh -e u", &["/found", "-e u"]);
        check_words("#!/usr/bin/env python3", &["/found"]);
        check_words("#!/usr/bin/env -S python3 -u  -B", &["/found", "-u", "-B"]);
        check_words("#!/usr/bin/env -Spython3", &["/found"]);
        check_words("#!/usr/bin/env -S A=b python3", &["/usr/bin/env", "-S A=b python3"]);
        check_words("#!/usr/bin/env -S python3 -c 'a b'", &["/usr/bin/env", "-S python3 -c 'a b'"]);
    }

    fn place(folder: &Path, name: &str, text: &str) -> PathBuf {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn found(line: &str, path: &[&Path]) -> Result<Found, InterpreterFault> {
        resolve(&shebang(line.as_bytes()).unwrap(), &std::env::join_paths(path).unwrap(), Path::new("/"))
    }

    #[test]
    fn an_interpreter_is_looked_for_in_path() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two] = [folder.path().join("one"), folder.path().join("a b")];
        place(&one, "lang/not-a-file", "");
        let lang = place(&two, "lang", "");
        let plain = |path: &Path| Ok(Found { path: path.to_owned(), passed_over: Vec::new() });
        assert_eq!(found("#!/usr/bin/env lang", &[Path::new("."), &one, &two]), plain(&lang));
        assert_eq!(found("#!/usr/bin/env -S -u X A=b lang -x", &[&two]), plain(&lang));
        assert_eq!(found("#!/bin/sh", &[&one]), plain(Path::new("/bin/sh")));
        let missing = found("#!/usr/bin/env nosuchlang", &[&one, &two]);
        assert_eq!(missing.unwrap_err().to_string(), "the interpreter `nosuchlang` is nowhere in PATH");
        let missing = found("#!/no/such/lang", &[&two]);
        assert_eq!(missing.unwrap_err().to_string(), "the interpreter `/no/such/lang` is not there, or cannot be executed");
        std::fs::set_permissions(&lang, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(found("#!/usr/bin/env lang", &[&two]), Err(InterpreterFault::NotInPath("lang".into())));
    }

    #[test]
    fn a_shim_is_asked_what_it_stands_for() {
        let folder = tempfile::tempdir().unwrap();
        let [root, plain] = [folder.path().join(".pyenv"), folder.path().join("plain")];
        let shim = place(&root, "shims/lang", "");
        let real = place(&root, "versions/3/bin/lang", "");
        let path = [root.join("shims"), plain.clone()];
        let path = [path[0].as_path(), &path[1]];
        assert_eq!(found("#!/usr/bin/env lang", &path), Err(InterpreterFault::Shim(shim.clone())));
        let fallback = plain.join("lang");
        std::fs::create_dir(&plain).unwrap();
        symlink(&real, &fallback).unwrap();
        let expect = Found { path: fallback, passed_over: vec![shim.clone()] };
        assert_eq!(found("#!/usr/bin/env lang", &path), Ok(expect));
        let manager = format!("#!/bin/sh\n[ \"$*\" = 'which lang' ] && echo '{}'\n", real.display());
        place(&root, "bin/pyenv", &manager);
        assert_eq!(found("#!/usr/bin/env lang", &path), Ok(Found { path: real, passed_over: Vec::new() }));
    }

    #[test]
    fn a_version_manager_that_hangs_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join(".asdf");
        let shim = place(&root, "shims/lang", "");
        place(&root, "bin/asdf", "#!/bin/sh\nsleep 60 & sleep 60\n");
        let begun = Instant::now();
        let path = [root.join("shims"), "/usr/bin".into(), "/bin".into()];
        let path = [path[0].as_path(), &path[1], &path[2]];
        assert_eq!(found("#!/usr/bin/env lang", &path), Err(InterpreterFault::Shim(shim)));
        assert!((MANAGER_WAITS..Duration::from_secs(30)).contains(&begun.elapsed()));
    }
}
