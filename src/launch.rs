//! The launcher: a process between the kernel and one script, from whose end nothing of the script survives.
//!
//! `self` starts itself anew as this, with a hidden first argument, because what a child has to do before it becomes a script
//! cannot be done in one that `Command` makes without unsafe code. It takes the script's three ends off a socket that is its
//! stdin, cuts itself off from the caller, bounds itself, starts the interpreter, reports how the script ended, and kills and
//! reaps every descendant as soon as the socket's other side closes, however that comes about. It never reads or writes what a
//! script says. The invariant: it exits only when it has no child left, and it becomes the parent of every orphan below it.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::Mode;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, Signal, WaitOptions, WaitStatus};

use crate::proc;

/// The hidden first argument.
const LAUNCH: &str = "--self-launch";

/// Set for every script; a `self` that sees it does nothing.
pub const DEPTH: &str = "SELF_DEPTH";

/// How many descriptors travel over the socket: the script's stdin, stdout and stderr.
pub(crate) const ENDS: usize = 3;

/// How often descendants are counted and orphans reaped, in nanoseconds.
const TICK_NANOSECONDS: i64 = 20_000_000;

/// How many times the limit of processes the system lets a user have beyond those that are there.
const BEHIND: u64 = 16;

/// How many of the dead are buried before the living are looked at again: a fork bomb makes them faster than they can be.
const REAPED_MAX: usize = 1024;

/// Where the descriptors cannot be listed, those below this one are closed.
const DESCRIPTORS_CLOSED: u32 = 4096;

/// What the launcher is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orders {
    /// `RLIMIT_DATA`, in bytes.
    pub(crate) data_bytes: u64,
    /// `RLIMIT_FSIZE`, in bytes.
    pub(crate) file_bytes: u64,
    /// `RLIMIT_NOFILE`.
    pub(crate) descriptors: u64,
    /// How many processes the script may be, itself counted.
    pub(crate) processes: u32,
    /// How many process numbers are used up before the script starts.
    pub(crate) strays: u32,
    /// The working directory.
    pub(crate) folder: PathBuf,
    /// The interpreter, its arguments, the script's path, the script's arguments.
    pub(crate) words: Vec<OsString>,
}

/// What the launcher says, as a line each: one of these, or `Processes` behind the script's own end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Report {
    /// The script exited.
    Exited(i32),
    /// A signal ended the script.
    Signal(i32),
    /// The script became too many processes.
    Processes,
    /// The script could not be started, in words.
    Fault(String),
}

impl Orders {
    /// The arguments that say this to a `self`.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let numbers = [self.data_bytes, self.file_bytes, self.descriptors, self.processes.into(), self.strays.into()];
        let numbers = numbers.map(|number| OsString::from(number.to_string()));
        let head = [OsString::from(LAUNCH)].into_iter().chain(numbers).chain([self.folder.clone().into_os_string()]);
        head.chain(self.words.iter().cloned()).collect()
    }

    /// Reads arguments, those after the program's name; `None` if they are not for the launcher.
    #[must_use]
    pub fn read(arguments: &[OsString]) -> Option<Orders> {
        let [launch, data, file, descriptors, processes, strays, folder, words @ ..] = arguments else { return None };
        if launch != LAUNCH || words.is_empty() {
            return None;
        }
        let number = |text: &OsStr| text.to_str()?.parse::<u64>().ok();
        Some(Orders {
            data_bytes: number(data)?,
            file_bytes: number(file)?,
            descriptors: number(descriptors)?,
            processes: number(processes)?.try_into().ok()?,
            strays: number(strays)?.try_into().ok()?,
            folder: folder.into(),
            words: words.to_vec(),
        })
    }
}

impl Report {
    fn line(&self) -> String {
        match self {
            Report::Exited(status) => format!("exited {status}\n"),
            Report::Signal(signal) => format!("signal {signal}\n"),
            Report::Processes => "processes\n".to_owned(),
            Report::Fault(words) => format!("fault {}\n", words.replace('\n', " ")),
        }
    }

    /// Reads a line, without its newline.
    pub(crate) fn read(line: &str) -> Option<Report> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "exited" => rest.parse().ok().map(Report::Exited),
            "signal" => rest.parse().ok().map(Report::Signal),
            "processes" => Some(Report::Processes),
            "fault" => Some(Report::Fault(rest.to_owned())),
            _ => None,
        }
    }

    fn of(status: WaitStatus) -> Report {
        match (status.exit_status(), status.terminating_signal()) {
            (Some(status), _) => Report::Exited(status),
            (None, Some(signal)) => Report::Signal(signal),
            (None, None) => Report::Fault("the script neither exited nor was killed".to_owned()),
        }
    }
}

/// Is the launcher. stdin must be the socket that `script` made.
#[must_use]
pub fn launch(orders: &Orders) -> ExitCode {
    close_inherited();
    let input = io::stdin();
    let Ok(ends) = take_ends(&input) else { return ExitCode::from(2) };
    match start(orders, ends) {
        Ok(script) => {
            outrun();
            attend(&input, script, orders.processes);
        }
        Err(words) => say(&input, &Report::Fault(words)),
    }
    end_all();
    ExitCode::SUCCESS
}

/// Closes every descriptor but the first three. Nothing of this process owns one yet: they came with it.
fn close_inherited() {
    let all = proc::descriptors().unwrap_or_else(|| (0..DESCRIPTORS_CLOSED).collect());
    for descriptor in all.into_iter().filter(|&descriptor| descriptor > 2) {
        if let Ok(descriptor) = RawFd::try_from(descriptor) {
            let _ = nix::unistd::close(descriptor);
        }
    }
}

fn take_ends(control: impl AsFd) -> io::Result<[OwnedFd; ENDS]> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(ENDS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    recvmsg(control, &mut [IoSliceMut::new(&mut [0])], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let mut ends = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            ends.extend(descriptors);
        }
    }
    ends.try_into().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
}

/// Cuts this process off from the caller, bounds it, and starts the script as its child; in words why that cannot be.
fn start(orders: &Orders, [stdin, stdout, stderr]: [OwnedFd; ENDS]) -> Result<Pid, String> {
    let put = |act: &str, fault: rustix::io::Errno| format!("could not {act}: {fault}");
    rustix::process::setsid().map_err(|fault| put("begin a session", fault))?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).map_err(|fault| put("become a subreaper", fault))?;
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    let act = format!("enter `{}`", orders.folder.display());
    rustix::process::chdir(&orders.folder).map_err(|fault| put(&act, fault))?;
    for (resource, most) in [
        (Resource::Core, 0),
        (Resource::Data, orders.data_bytes),
        (Resource::Fsize, orders.file_bytes),
        (Resource::Nofile, orders.descriptors),
    ] {
        bound(resource, most).map_err(|fault| put("set the limits", fault))?;
    }
    bound_processes(orders.processes);
    for _ in 0..orders.strays {
        use_up_a_number();
    }
    let Some((program, rest)) = orders.words.split_first() else { return Err("there is nothing to start".to_owned()) };
    let mut command = Command::new(program);
    command.args(rest).stdin(Stdio::from(stdin)).stdout(Stdio::from(stdout)).stderr(Stdio::from(stderr)).process_group(0);
    let child = command.spawn().map_err(|fault| format!("could not start `{}`: {fault}", program.display()))?;
    i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or_else(|| "the script has no process number".to_owned())
}

/// Sets a limit, or keeps the caller's own if that is tighter.
fn bound(resource: Resource, most: u64) -> rustix::io::Result<()> {
    let there = rustix::process::getrlimit(resource);
    let most = Some(there.maximum.map_or(most, |maximum| maximum.min(most)));
    rustix::process::setrlimit(resource, Rlimit { current: most, maximum: most })
}

/// Bounds the threads of this user, far behind the limit: at the limit itself a fork bomb would die of failing forks between two
/// counts, and nothing could name what ended it. Does not bind uid 0. In a container the user may have processes that cannot be
/// seen here; where they use the bound up, it is taken back, and the count alone holds.
fn bound_processes(processes: u32) {
    let uid = rustix::process::getuid();
    if uid.is_root() {
        return;
    }
    let there = rustix::process::getrlimit(Resource::Nproc);
    let most = proc::threads_of_user(uid.as_raw()) + BEHIND * u64::from(processes);
    let soft = Some(there.maximum.map_or(most, |maximum| maximum.min(most)));
    let set = rustix::process::setrlimit(Resource::Nproc, Rlimit { current: soft, maximum: there.maximum });
    if set.is_ok() {
        let hard = if use_up_a_number() { Rlimit { current: soft, maximum: soft } } else { there };
        let _ = rustix::process::setrlimit(Resource::Nproc, hard);
    }
}

/// Starts and ends a thread: it takes a number out of the same row as a process, for less.
fn use_up_a_number() -> bool {
    std::thread::Builder::new().spawn(|| ()).is_ok_and(|thread| thread.join().is_ok())
}

/// Goes before everything that the script starts, where that is allowed: who has to stop a fork bomb must get to run.
fn outrun() {
    if rustix::process::getuid().is_root() {
        let _ = rustix::process::setpriority_process(None, -20);
    }
}

/// Waits for the script's end, reports it, and stays until the other side closes or nothing is left to be killed.
fn attend(control: &io::Stdin, script: Pid, processes: u32) {
    let me = std::process::id();
    let watch = rustix::process::pidfd_open(script, PidfdFlags::empty()).ok();
    let mut running = true;
    loop {
        let mut polled = vec![PollFd::new(control, PollFlags::IN)];
        polled.extend(watch.iter().filter(|_| running).map(|watch| PollFd::new(watch, PollFlags::IN)));
        let _ = poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: TICK_NANOSECONDS }));
        let is_told = !polled[0].revents().is_empty();
        for _ in 0..REAPED_MAX {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == script => {
                    running = false;
                    say(control, &Report::of(status));
                }
                Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
                Ok(None) => break,
                Err(_) => return,
            }
        }
        if is_told {
            return;
        }
        if proc::has_more_descendants(me, processes as usize) {
            say(control, &Report::Processes);
            return;
        }
    }
}

/// Says it to a kernel that may be gone.
fn say(control: &io::Stdin, report: &Report) {
    let _ = rustix::net::send(control, report.line().as_bytes(), rustix::net::SendFlags::NOSIGNAL);
}

/// Kills and reaps until there is no child. A parent's orphans are ours before it can be reaped, so having none means that no
/// descendant is left. A group dies at one stroke, those being forked too, and is told once a round: telling it takes as long as
/// it is large. Of our own group, which a script can join, each is killed by itself. Only children are killed by number: until
/// we reap them, nobody else can have it.
fn end_all() {
    let me = std::process::id();
    let pid = |number: u32| i32::try_from(number).ok().and_then(Pid::from_raw);
    loop {
        let children = proc::children(me);
        let groups: BTreeSet<u32> =
            children.iter().filter_map(|&child| proc::group(child)).filter(|&group| group != me).collect();
        for group in groups.into_iter().filter_map(pid) {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
        for child in children.into_iter().filter_map(pid) {
            let _ = rustix::process::kill_process(child, Signal::KILL);
        }
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
        let reaped = || matches!(rustix::process::wait(WaitOptions::NOHANG), Ok(Some(_)));
        (0..REAPED_MAX).take_while(|_| reaped()).for_each(drop);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_arrive_as_they_were_given() {
        let orders = Orders {
            data_bytes: 1 << 30,
            file_bytes: 2,
            descriptors: 3,
            processes: 4,
            strays: 8,
            folder: "/a folder\n".into(),
            words: vec!["/bin/sh".into(), "-eu".into(), String::new().into()],
        };
        assert_eq!(Orders::read(&orders.arguments()), Some(orders));
    }

    #[test]
    fn other_arguments_are_no_orders() {
        for arguments in
            [&[][..], &["ask"], &[LAUNCH], &[LAUNCH, "1", "1", "1", "1", "1", "/"], &[LAUNCH, "x", "1", "1", "1", "1", "/", "w"]]
        {
            assert_eq!(Orders::read(&arguments.iter().map(OsString::from).collect::<Vec<_>>()), None, "{arguments:?}");
        }
    }

    #[test]
    fn a_report_is_one_line() {
        for report in [Report::Exited(3), Report::Signal(9), Report::Processes, Report::Fault("could not start `x`: no".into())] {
            assert_eq!(Report::read(report.line().strip_suffix('\n').unwrap()), Some(report));
        }
        assert_eq!(Report::Fault("a\nb".into()).line(), "fault a b\n");
        assert_eq!(Report::read("exited"), None);
    }
}
