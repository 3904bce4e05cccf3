//! Processes as `/proc` shows them: which pipes each one reads and writes.
//!
//! Reads what a walk needs and nothing else; never writes, never waits. What cannot be read, of another user or gone meanwhile,
//! is not there. The invariant: one look reads at most [`PROCESSES_MAX`] processes in full.

use std::cell::RefCell;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;

use crate::walk::{
    ANCESTORS_MAX, ASIDE_MIN, End, Executable, PROCESSES_MAX, Pipe, Process, Side, downstream, find, root, under, upstream,
};

/// How many ancestors beyond the stage are looked at: its parent, that one's parent, and one whose own side is redirected.
const BEYOND_STAGE: usize = 3;

/// How many descriptors of one process are looked at.
const DESCRIPTORS_MAX: usize = 256;

/// Shells whose background ignores SIGINT where there is no job control.
const POSIX_SHELLS: [&str; 11] = ["sh", "ash", "bash", "busybox", "dash", "ksh", "mksh", "oksh", "posh", "yash", "zsh"];

const SIGINT: u32 = 2;

/// Never part of a walk.
const STDERR: u32 = 2;

/// How much of a file of `/proc` is read, in bytes.
const READ_BYTES_MAX: usize = 16 << 10;

/// `O_CLOEXEC` in `/proc/<pid>/fdinfo`, octal on every architecture but alpha, parisc and sparc.
const CLOEXEC: u32 = 0o2_000_000;

/// This process, as `/proc` knows it.
#[derive(Debug, Clone)]
pub(crate) struct Here {
    me: u32,
    exe: Option<Executable>,
    /// Whether this process's own face may print a prompt.
    prompts: bool,
    /// Whether the kernel lists children; else every process is asked for its parent.
    lists_children: bool,
    /// Which processes, running what, are POSIX shells: a look follows the other within a millisecond.
    shells: RefCell<BTreeMap<(u32, Option<Executable>), bool>>,
}

/// What one look has read of `stat`, by process.
type Stats = RefCell<BTreeMap<u32, Stat>>;

impl Here {
    /// Finds this process in `/proc`; `None` if there is no usable `/proc`.
    pub(crate) fn find() -> Option<Here> {
        fs::read_dir("/proc/self/fd").ok()?;
        let me = fs::read_link("/proc/self").ok()?.to_str()?.parse().ok()?;
        let lists_children = fs::exists(format!("/proc/{me}/task/{me}/children")).unwrap_or(false);
        let exe = executable(me);
        let prompts = exe.is_some() && may_prompt(&read(&format!("/proc/{me}/cmdline")).unwrap_or_default());
        Some(Here { me, exe, prompts, lists_children, shells: RefCell::default() })
    }

    /// This process's number.
    pub(crate) fn me(&self) -> u32 {
        self.me
    }

    /// The inode of the pipe that a descriptor of this process is an end of; `None` if it is anything else.
    pub(crate) fn pipe(&self, fd: BorrowedFd<'_>) -> Option<Pipe> {
        pipe_of(self.me, &fd.as_raw_fd().to_string())
    }

    /// Reads the processes that a walk from `pipe` needs, and walks: the pipes, nearest first, and the table they were read
    /// off. Where the walk reaches a pipe that an ancestor has on the same side, it goes on one level further out.
    pub(crate) fn survey(&self, pipe: Pipe, side: Side) -> (Vec<Pipe>, Vec<Process>) {
        let mut table = Vec::new();
        let mut pipes = vec![pipe];
        let mut roots = Vec::new();
        let stats = Stats::default();
        let parents = (!self.lists_children).then(parents);
        loop {
            self.read_ancestors(&mut table, &stats, &pipes, side);
            let Some(root) = root(&table, self.me, &pipes, side).filter(|root| !roots.contains(root)) else { break };
            roots.push(root);
            self.read_under(root, &mut table, &stats, parents.as_deref());
            pipes = match side {
                Side::Stdin => upstream(&table, self.me, pipe),
                Side::Stdout => downstream(&table, self.me, pipe),
            };
        }
        (pipes, table)
    }

    /// Reads this process and its ancestors, nearest first, up to [`BEYOND_STAGE`] ones that have none of the pipes.
    fn read_ancestors(&self, table: &mut Vec<Process>, stats: &Stats, pipes: &[Pipe], side: Side) {
        let (mut pid, mut child, mut beyond) = (self.me, None, 0);
        for _ in 0..ANCESTORS_MAX {
            if find(table, pid).is_none() {
                let Some(mut process) = stat_of(stats, pid).map(|stat| self.read(pid, &stat)) else { return };
                let is_shell = || *self.shells.borrow_mut().entry((pid, process.exe)).or_insert_with(|| is_posix_shell(pid));
                process.is_posix_shell = child.is_some() && is_shell();
                if let Some(forker) = child.and_then(|child| self.forker(&process, child)) {
                    (process.busy, process.ticks) = (forker.busy, forker.ticks);
                }
                table.push(process);
            }
            let Some(process) = find(table, pid) else { return };
            let has = process.side(side).is_some_and(|pipe| pipes.contains(&pipe));
            beyond = if has { 0 } else { beyond + 1 };
            if beyond == BEYOND_STAGE || process.parent == 0 {
                return;
            }
            (child, pid) = (Some(pid), process.parent);
        }
    }

    /// Reads what [`under`] chooses and the table does not have.
    fn read_under(&self, root: u32, table: &mut Vec<Process>, stats: &Stats, parents: Option<&[(u32, u32)]>) {
        let group = find(table, self.me).map_or(0, |process| process.group);
        let stat_of = |pid| stat_of(stats, pid);
        let children = |pid| match parents {
            None => stat_of(pid).map_or_else(Vec::new, |stat| children_of_all(pid, stat.threads)),
            Some(parents) => parents.iter().filter(|(_, parent)| *parent == pid).map(|(child, _)| *child).collect(),
        };
        for pid in under(root, group, children, |pid| stat_of(pid).map(|stat| stat.group)) {
            if find(table, pid).is_none() && table.len() < PROCESSES_MAX {
                table.extend(stat_of(pid).map(|stat| self.read(pid, &stat)));
            }
        }
    }

    /// The thread of a parent that forked `child`; `None` if it has one thread only.
    fn forker(&self, parent: &Process, child: u32) -> Option<Stat> {
        if parent.threads < 2 || !self.lists_children {
            return None;
        }
        let pid = parent.pid;
        let forker = threads(pid).into_iter().find(|&thread| children_of(pid, thread).contains(&child))?;
        Stat::read(&format!("/proc/{pid}/task/{forker}/stat"))
    }

    /// Whether a process that runs this may print a prompt.
    fn may_prompt(&self, pid: u32, exe: Option<Executable>) -> bool {
        exe.is_some() && exe == self.exe && may_prompt(&read(&format!("/proc/{pid}/cmdline")).unwrap_or_default())
    }

    fn read(&self, pid: u32, stat: &Stat) -> Process {
        let Stat { busy, parent, group, ticks, threads, ignores_interrupts } = *stat;
        let is_me = pid == self.me;
        let exe = if is_me { self.exe } else { executable(pid) };
        let prompts = if is_me { self.prompts } else { self.may_prompt(pid, exe) };
        Process {
            pid,
            parent,
            group,
            busy,
            ticks,
            ignores_interrupts,
            is_posix_shell: false,
            threads,
            exe,
            prompts,
            ends: ends(pid),
        }
    }
}

/// What `stat` says of a process in this look.
fn stat_of(stats: &Stats, pid: u32) -> Option<Stat> {
    match stats.borrow_mut().entry(pid) {
        Entry::Occupied(known) => Some(*known.get()),
        Entry::Vacant(new) => Stat::of(pid).map(|stat| *new.insert(stat)),
    }
}

/// Whether any process holds an end of one of the pipes; looks at all of them.
pub(crate) fn held() -> BTreeSet<Pipe> {
    numbers("/proc").into_iter().flat_map(ends).map(|end| end.pipe).collect()
}

/// Whether a command line of this executable is one of a face that may print a prompt: the bare filter, ask, work or learn.
fn may_prompt(cmdline: &[u8]) -> bool {
    match cmdline.split(|&byte| byte == 0).nth(1) {
        None | Some(b"" | b"ask" | b"work" | b"learn") => true,
        Some(_) => false,
    }
}

/// The numbers that name entries of a directory.
fn numbers(directory: &str) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

fn threads(pid: u32) -> Vec<u32> {
    numbers(&format!("/proc/{pid}/task"))
}

fn children_of_all(pid: u32, count: u32) -> Vec<u32> {
    let threads = if count < 2 { vec![pid] } else { threads(pid) };
    threads.into_iter().flat_map(|thread| children_of(pid, thread)).collect()
}

fn children_of(pid: u32, thread: u32) -> Vec<u32> {
    let text = read(&format!("/proc/{pid}/task/{thread}/children")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// The children of a process, the dead ones that nobody has waited for too.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    if fs::exists(format!("/proc/{pid}/task/{pid}/children")).unwrap_or(false) {
        return children_of_all(pid, u32::MAX);
    }
    parents().into_iter().filter(|(_, parent)| *parent == pid).map(|(child, _)| child).collect()
}

/// Whether more than `most` processes descend from this one.
pub(crate) fn has_more_descendants(pid: u32, most: usize) -> bool {
    let mut found = children(pid);
    let mut at = 0;
    while at < found.len() && found.len() <= most {
        found.extend(children(found[at]));
        at += 1;
    }
    found.len() > most
}

/// The process group of a process.
pub(crate) fn group(pid: u32) -> Option<u32> {
    Stat::of(pid).map(|stat| stat.group)
}

/// How many threads the processes of a user have, as far as they can be seen: a folder `task` has two links and one for each.
pub(crate) fn threads_of_user(uid: u32) -> u64 {
    let task = |pid: u32| fs::metadata(format!("/proc/{pid}/task")).ok();
    numbers("/proc")
        .into_iter()
        .filter_map(task)
        .filter(|task| task.uid() == uid)
        .map(|task| task.nlink().saturating_sub(2))
        .sum()
}

/// The descriptors of this process; `None` if they cannot be listed.
pub(crate) fn descriptors() -> Option<Vec<u32>> {
    fs::exists("/proc/self/fd").is_ok_and(|there| there).then(|| numbers("/proc/self/fd"))
}

/// Every process and its parent, for a kernel without `CONFIG_PROC_CHILDREN`.
fn parents() -> Vec<(u32, u32)> {
    let parent = |pid: u32| Some((pid, Stat::of(pid)?.parent));
    numbers("/proc").into_iter().filter_map(parent).collect()
}

fn executable(pid: u32) -> Option<Executable> {
    let exe = fs::metadata(format!("/proc/{pid}/exe")).ok()?;
    Some((exe.dev(), exe.ino()))
}

fn is_posix_shell(pid: u32) -> bool {
    let exe = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    names_posix_shell(exe.file_name().and_then(|name| name.to_str()).unwrap_or_default())
}

/// Whether an executable of this name, with or without a version behind it, is a shell that keeps to POSIX.
fn names_posix_shell(name: &str) -> bool {
    let is_version = |letter: char| letter.is_ascii_digit() || letter == '.' || letter == '-';
    POSIX_SHELLS.contains(&name.trim_end_matches(is_version))
}

fn pipe_of(pid: u32, fd: &str) -> Option<Pipe> {
    let target = fs::read_link(format!("/proc/{pid}/fd/{fd}")).ok()?;
    target.to_str()?.strip_prefix("pipe:[")?.strip_suffix(']')?.parse().ok()
}

fn ends(pid: u32) -> Vec<End> {
    let mut fds = numbers(&format!("/proc/{pid}/fd"));
    fds.sort_unstable();
    fds.truncate(DESCRIPTORS_MAX);
    fds.into_iter().filter(|&fd| fd != STDERR).filter_map(|fd| end(pid, fd)).collect()
}

/// Reads one descriptor. The owner's bits of the link in `fd` tell which ways it is open; a stdin is there to be read, a stdout
/// to be written.
fn end(pid: u32, fd: u32) -> Option<End> {
    let pipe = pipe_of(pid, &fd.to_string())?;
    if fd < STDERR {
        return Some(End { fd, pipe, reads: fd == 0, writes: fd == 1, cloexec: false });
    }
    let mode = fs::symlink_metadata(format!("/proc/{pid}/fd/{fd}")).ok()?.mode();
    let (reads, writes) = (mode & 0o400 != 0, mode & 0o200 != 0);
    let cloexec = fd >= ASIDE_MIN && writes && flags(pid, fd)? & CLOEXEC != 0;
    Some(End { fd, pipe, reads, writes, cloexec })
}

fn flags(pid: u32, fd: u32) -> Option<u32> {
    let info = read(&format!("/proc/{pid}/fdinfo/{fd}"))?;
    let octal = std::str::from_utf8(&info).ok()?.lines().find_map(|line| line.strip_prefix("flags:"))?;
    u32::from_str_radix(octal.trim(), 8).ok()
}

/// Reads a small file of `/proc` with as few calls as can be.
fn read(path: &str) -> Option<Vec<u8>> {
    let mut file = File::open(path).ok()?;
    let mut bytes = vec![0; READ_BYTES_MAX];
    let length = file.read(&mut bytes).ok()?;
    bytes.truncate(length);
    Some(bytes)
}

/// What a walk needs of `/proc/<pid>/stat` (proc_pid_stat(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    busy: bool,
    parent: u32,
    group: u32,
    ticks: u64,
    threads: u32,
    ignores_interrupts: bool,
}

impl Stat {
    fn of(pid: u32) -> Option<Stat> {
        Stat::read(&format!("/proc/{pid}/stat"))
    }

    fn read(path: &str) -> Option<Stat> {
        Stat::parse(&String::from_utf8_lossy(&read(path)?))
    }

    /// Parses `pid (name) state ppid pgrp …`: the time in user and system mode are the 14th and 15th field, the number of threads
    /// is the 20th, the ignored signals are the 33rd. The name may hold anything, brackets and blanks too.
    fn parse(text: &str) -> Option<Stat> {
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        let small = |field: usize| u32::try_from(number(field)?).ok();
        let ignores_interrupts = number(33)? & 1 << (SIGINT - 1) != 0;
        let busy = matches!(*fields.first()?, "R" | "D");
        let ticks = number(14)? + number(15)?;
        Some(Stat { busy, parent: small(4)?, group: small(5)?, ticks, threads: small(20)?, ignores_interrupts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_may_be_called_anything() {
        let text = "7 (a) R (b) S 3 4 5 6 -1 0 0 0 0 0 8 9 0 0 20 0 12 0 99 1 1 1 1 1 1 1 1 0 0 2";
        let expect = Stat { busy: false, parent: 3, group: 4, ticks: 17, threads: 12, ignores_interrupts: true };
        assert_eq!(Stat::parse(text), Some(expect));
        assert_eq!(Stat::parse("7 (a) R 3"), None);
        assert_eq!(Stat::parse(""), None);
    }

    #[test]
    fn a_posix_shell_is_known_by_its_name() {
        for name in ["sh", "bash", "zsh", "zsh-5.9", "zsh5", "bash-5.2.15", "ksh93", "busybox"] {
            assert!(names_posix_shell(name), "{name}");
        }
        for name in ["", "fish", "python3.11", "node", "make", "5", "bash-completion"] {
            assert!(!names_posix_shell(name), "{name}");
        }
    }

    #[test]
    fn only_the_prompting_faces_may_print_a_prompt() {
        for prompting in ["self\0", "self", "self\0ask\0q\0", "/x/self\0work\0", "self\0learn\0dir\0"] {
            assert!(may_prompt(prompting.as_bytes()), "{prompting:?}");
        }
        for other in ["self\0hear\0", "self\0log\0--follow\0", "self\0show\0ask\0"] {
            assert!(!may_prompt(other.as_bytes()), "{other:?}");
        }
    }

    #[test]
    fn this_process_is_in_proc() {
        let Some(here) = Here::find() else { return };
        let (reader, writer) = std::io::pipe().unwrap();
        let pipe = here.pipe(std::os::fd::AsFd::as_fd(&reader)).unwrap();
        assert_eq!(here.pipe(std::os::fd::AsFd::as_fd(&writer)), Some(pipe));
        let (pipes, table) = here.survey(pipe, Side::Stdin);
        assert_eq!(pipes, [pipe]);
        assert!(table.iter().any(|process| process.pid == std::process::id() && process.parent != 0));
        assert!(held().contains(&pipe));
    }

    #[test]
    fn parents_and_children_agree() {
        let Some(here) = Here::find() else { return };
        let parent = Stat::of(here.me).unwrap().parent;
        assert!(parents().contains(&(here.me, parent)));
        if here.lists_children {
            assert!(children_of_all(parent, 2).contains(&here.me));
        }
    }
}
