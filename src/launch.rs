//! The launcher: a process between the kernel and one script, from whose end nothing of the script survives.
//!
//! `self` starts itself anew as this, with a hidden first argument, because what a child has to do before it becomes a script
//! cannot be done in one that `Command` makes without unsafe code. It cuts itself off from the caller, bounds itself, goes into
//! namespaces, starts the cell (which takes the script's three ends off the socket that is stdin to both), reports how a script
//! that took the cell's place ended, and kills and reaps every descendant as soon as the socket's other side closes, however that
//! comes about. It never reads or writes what a script says. The invariant: it exits only when it has no child left, and it
//! becomes the parent of every orphan below it.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, RawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::Mode;
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, Signal, WaitOptions, WaitStatus};

use crate::confine;
use crate::level::{Level, Reach, Sandbox};
use crate::orders::{Orders, Report, Role};
use crate::proc;

/// The hidden first argument of a process that only tries out how far a script can be held.
pub const PROBE: &str = "--self-probe";

/// Set for every script; a `self` that sees it does nothing.
pub const DEPTH: &str = "SELF_DEPTH";

/// How often descendants are counted and orphans reaped, in nanoseconds.
const TICK_NANOSECONDS: i64 = 20_000_000;

/// How many times the limit of processes the system lets a user have beyond those that are there.
const BEHIND: u64 = 16;

/// How many of the dead are buried before the living are looked at again: a fork bomb makes them faster than they can be.
pub(crate) const REAPED_MAX: usize = 1024;

/// Where the descriptors cannot be listed, those below this one are closed.
const DESCRIPTORS_CLOSED: u32 = 4096;

/// This program, whatever its file was replaced with meanwhile, and past folders that a namespace may not look into.
const ITSELF: &str = "/proc/self/exe";

impl Report {
    pub(crate) fn of(status: WaitStatus) -> Report {
        match (status.exit_status(), status.terminating_signal()) {
            (Some(status), _) => Report::Exited(status),
            (None, Some(signal)) => Report::Signal(signal),
            (None, None) => Report::Fault("the script neither exited nor was killed".to_owned()),
        }
    }
}

/// The cell as the launcher sees it.
struct Cell {
    pid: Pid,
    /// Whether it stays above the script, as the init of its namespace; else it becomes the script.
    is_init: bool,
}

/// Is the launcher. stdin must be the socket that `script` made.
#[must_use]
pub fn launch(orders: &Orders) -> ExitCode {
    close_inherited();
    let input = io::stdin();
    if rustix::net::sockopt::socket_type(&input).is_err() {
        return ExitCode::from(2);
    }
    match start(orders, &input) {
        Ok(cell) => {
            outrun();
            attend(&input, &cell, orders.processes);
        }
        Err(report) => say(&input, &report),
    }
    end_all();
    ExitCode::SUCCESS
}

/// Tries out how far a script can be held, and writes it to stdout.
#[must_use]
pub fn probe(sandbox: Sandbox) -> ExitCode {
    close_inherited();
    let reach = confine::try_out(sandbox).text();
    match io::Write::write_all(&mut io::stdout(), reach.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// How far a script can be held here, as far as the user wants it: as a process of its own found out, or as one found before under
/// the same circumstances. `program` is this program, `memory` the file, if any, that keeps what was found; where that cannot be
/// kept it is found out again. What a run is held to does not hang on it.
#[must_use]
pub fn reach(program: &Path, sandbox: Sandbox, memory: Option<&Path>) -> Reach {
    let circumstances = circumstances(program, sandbox);
    let known = || {
        let text = std::fs::read_to_string(memory?).ok()?;
        let (then, reach) = text.split_once('\n')?;
        (Some(then) == circumstances.as_deref()).then(|| Reach::read(reach)).flatten()
    };
    known().unwrap_or_else(|| {
        let reach = try_out(program, sandbox);
        if let (Some(circumstances), Some(memory)) = (&circumstances, memory) {
            let _ = keep(memory, &format!("{circumstances}\n{}", reach.text()));
        }
        reach
    })
}

/// Finds out, by a process of its own, how far a script can be held here.
#[must_use]
pub fn try_out(program: &Path, sandbox: Sandbox) -> Reach {
    let asked = Command::new(program).args([PROBE, sandbox.word()]).env_clear().stdin(Stdio::null()).output();
    let told = asked.ok().and_then(|told| Reach::read(&String::from_utf8_lossy(&told.stdout)));
    let why = || "this program could not be started anew to try it out; is /proc mounted?".to_owned();
    told.unwrap_or_else(|| Reach { level: Level::Limits, why: why(), holds_signals: false })
}

/// What a reach hangs on, on one line: the system since it started, this user and what holds this process already, this program,
/// what the user wants. `None` where that cannot be told.
fn circumstances(program: &Path, sandbox: Sandbox) -> Option<String> {
    const OF_PROCESS: [&str; 5] = ["Uid:", "NoNewPrivs:", "Seccomp:", "Seccomp_filters:", "CapBnd:"];
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let held = status.lines().filter(|line| OF_PROCESS.iter().any(|key| line.starts_with(key)));
    let held: Vec<_> = held.flat_map(str::split_whitespace).collect();
    let namespaces = ["user", "pid", "mnt"].map(|name| std::fs::read_link(format!("/proc/self/ns/{name}")).ok());
    let facts = std::fs::metadata(program).ok()?;
    Some(format!(
        "{} {held:?} {namespaces:?} {}.{}.{} {}",
        boot.trim(),
        facts.ino(),
        facts.mtime(),
        facts.mtime_nsec(),
        sandbox.word()
    ))
}

/// Writes a small file beside others of the kernel's own, whole or not at all; makes no folder.
fn keep(path: &Path, text: &str) -> io::Result<()> {
    let draft = path.with_extension(std::process::id().to_string());
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    let kept = io::Write::write_all(&mut file, text.as_bytes()).and_then(|()| std::fs::rename(&draft, path));
    if kept.is_err() {
        let _ = std::fs::remove_file(&draft);
    }
    kept
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

/// Cuts this process off from the caller, bounds it, and starts the cell as its child; in words why that cannot be.
fn start(orders: &Orders, control: &io::Stdin) -> Result<Cell, Report> {
    let put = |act: &str, fault: rustix::io::Errno| Report::Fault(format!("could not {act}: {fault}"));
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
    let most = make_ready(orders)?;
    if most < Level::Full {
        bound_processes(orders.processes);
        for _ in 0..orders.strays {
            use_up_a_number();
        }
    }
    let program = if Path::new(ITSELF).exists() { Path::new(ITSELF) } else { &orders.program };
    let link = control.as_fd().try_clone_to_owned().map_err(|fault| Report::Fault(fault.to_string()))?;
    let mut command = Command::new(program);
    command.args(Orders { most, ..orders.clone() }.arguments(Role::Cell));
    command.stdin(Stdio::from(link)).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().map_err(|fault| Report::Fault(format!("could not start the script's cell: {fault}")))?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| Report::Fault("the script has no process number".to_owned()))?;
    Ok(Cell { pid, is_init: most == Level::Full })
}

/// Makes ready for the highest level that this machine has and the orders allow.
fn make_ready(orders: &Orders) -> Result<Level, Report> {
    if orders.most == Level::Limits {
        return Ok(Level::Limits);
    }
    match confine::can_restrict() {
        Err(fault) if orders.least > Level::Limits => return Err(Report::Unconfined(fault.to_string())),
        Err(_) => return Ok(Level::Limits),
        Ok(()) => {}
    }
    if orders.most == Level::Landlock {
        return Ok(Level::Landlock);
    }
    match confine::enter_namespaces(orders.net) {
        Ok(()) => Ok(Level::Full),
        Err(fault) if fault.leaves_all_as_it_was() => Ok(Level::Landlock),
        Err(_) => Err(Report::NoNamespaces),
    }
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
pub(crate) fn bound_processes(processes: u32) {
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
pub(crate) fn use_up_a_number() -> bool {
    std::thread::Builder::new().spawn(|| ()).is_ok_and(|thread| thread.join().is_ok())
}

/// Goes before everything that the script starts, where that is allowed: who has to stop a fork bomb must get to run.
fn outrun() {
    if rustix::process::getuid().is_root() {
        let _ = rustix::process::setpriority_process(None, -20);
    }
}

/// Waits for the cell's end, reports it if it became the script, and stays until the other side closes or nothing is left to be
/// killed.
fn attend(control: &io::Stdin, cell: &Cell, processes: u32) {
    let me = std::process::id();
    let watch = rustix::process::pidfd_open(cell.pid, PidfdFlags::empty()).ok();
    let mut running = true;
    loop {
        // The script's ends may still lie in the socket, for the cell to take: only its close is waited for.
        let mut polled = vec![PollFd::new(control, PollFlags::RDHUP)];
        polled.extend(watch.iter().filter(|_| running).map(|watch| PollFd::new(watch, PollFlags::IN)));
        let _ = poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: TICK_NANOSECONDS }));
        let is_told = !polled[0].revents().is_empty();
        for _ in 0..REAPED_MAX {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == cell.pid => {
                    running = false;
                    let ended = Report::of(status);
                    if !cell.is_init {
                        say(control, &ended);
                    } else if ended != Report::Exited(0) {
                        say(control, &Report::Fault("the init of the run was killed".to_owned()));
                    }
                }
                Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
                Ok(None) => break,
                Err(_) => return,
            }
        }
        if is_told {
            return;
        }
        if proc::has_more_descendants(me, processes as usize + usize::from(cell.is_init)) {
            say(control, &Report::Processes);
            return;
        }
    }
}

/// Says it to a kernel that may be gone.
pub(crate) fn say(control: impl AsFd, report: &Report) {
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
    fn what_was_found_out_once_is_kept_for_the_same_circumstances() {
        let folder = tempfile::tempdir().unwrap();
        let (program, memory) = (folder.path().join("self"), folder.path().join("reach"));
        let stub = |level: &str| {
            let script = format!("#!/bin/sh\nprintf '{level}\\nsignals\\n\\n'\n");
            let draft = folder.path().join("draft");
            std::fs::write(&draft, script).unwrap();
            std::fs::set_permissions(&draft, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
            std::fs::rename(&draft, &program).unwrap();
        };
        stub("landlock");
        assert_eq!(reach(&program, Sandbox::Auto, Some(&memory)).level, Level::Landlock);
        let kept = std::fs::read_to_string(&memory).unwrap();
        std::fs::write(&memory, kept.replace("\nlandlock\n", "\nlimits\n")).unwrap();
        assert_eq!(reach(&program, Sandbox::Auto, Some(&memory)).level, Level::Limits, "it was read, not found out");
        assert_eq!(reach(&program, Sandbox::Require, Some(&memory)).level, Level::Landlock);
        stub("full");
        assert_eq!(reach(&program, Sandbox::Require, Some(&memory)).level, Level::Full, "another program");
        std::fs::write(&memory, "nonsense").unwrap();
        assert_eq!(reach(&program, Sandbox::Require, Some(&memory)).level, Level::Full);
        assert_eq!(reach(&program, Sandbox::Require, None).level, Level::Full);
        assert_eq!(reach(&program, Sandbox::Require, Some(&folder.path().join("no/such"))).level, Level::Full);
    }
}
