//! One run of one script under limits: the only place from which the kernel starts one.
//!
//! The script is a copy of the given bytes in a scratch folder of its own, read by its interpreter, below a launcher (`launch`)
//! that lets nothing of it live on. Knows neither log nor home. Input is asked for as the script takes it, while both outputs are
//! drained, so nothing the script does or leaves undone can block the kernel. The invariant: when [`run`] returns, whatever it
//! returns, the scratch folder is gone, and so is every process of the run, or the error says that their end takes longer.

use std::ffi::OsString;
use std::io::{self, IoSlice, PipeReader, PipeWriter, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::net::{AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, SocketFlags, SocketType};

use crate::feed::Piece;
use crate::launch::DEPTH;
use crate::level::Level;
pub use crate::limit::{ERROR_BYTES_KEPT, Ending, FILE_BYTES_MAX, Limit, Limits, WALL_SECONDS};
use crate::orders::{ENDS, Grant, Orders, Report, Role};
use crate::scratch::{Scratch, ScratchError};

/// How long after the script's end its outputs are still read.
const DRAIN: Duration = Duration::from_millis(200);

/// How long the launcher may take to kill and reap everything.
const END_WAITS: Duration = Duration::from_secs(10);

/// The longest time in which a wish to stop goes unseen.
const TICK: Duration = Duration::from_millis(50);

/// How much is read at a time, in bytes.
const READ_BYTES: usize = 64 << 10;

/// How large the pipe that the script reads is made, in bytes.
const INPUT_PIPE_BYTES: usize = 1 << 20;

/// How much the script is given before its outputs are looked at again, in bytes.
const FED_BYTES_MAX: usize = INPUT_PIPE_BYTES;

/// How often a pipe whose writers are dead is read at most: it holds 1 MiB at most, unless root made it larger.
const PIPE_READS_MAX: usize = (1 << 20) / READ_BYTES + 1;

/// The longest report of the launcher, in bytes.
const REPORT_BYTES_MAX: usize = 8 << 10;

/// The signal of a process that wrote a file larger than it may.
const SIGXFSZ: i32 = 25;

/// A run: what is run, on what, and how far it may go.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// This program, to be started as the launcher: `/proc/self/exe` holds through an upgrade in mid-run.
    pub launcher: &'a Path,
    /// The script's bytes, its first line mended.
    pub script: &'a [u8],
    /// The words in front of the script's path: what [`crate::interpreter::Shebang::words`] gives.
    pub interpreter: &'a [OsString],
    /// The script's arguments.
    pub arguments: &'a [OsString],
    /// Its whole environment, but for `HOME`, `TMPDIR` and `SELF_DEPTH`, which are set here.
    pub environment: &'a [(OsString, OsString)],
    /// Its working directory; `None` is its scratch folder.
    pub folder: Option<&'a Path>,
    /// Where its scratch folder is made: an absolute path.
    pub scratch_parent: &'a Path,
    /// What that is called: `self-` and 32 random hex digits.
    pub scratch_name: &'a str,
    /// How far it may go.
    pub limits: Limits,
    /// How far it is held to what it is granted, and to what.
    pub hold: Hold<'a>,
    /// How many process numbers are used up before it starts, so that its own differs.
    pub strays: u32,
    /// Becomes true when the caller wants the run ended.
    pub stop: &'a AtomicBool,
}

/// How far a script is held to what it is granted, and to what.
#[derive(Debug, Clone, Copy)]
pub struct Hold<'a> {
    /// The highest level to run at; what the machine has not is left out.
    pub most: Level,
    /// The lowest level to run at; where the machine has less, nothing runs.
    pub least: Level,
    /// What it may touch beside its scratch folder.
    pub grants: &'a [Grant],
    /// Whether it may use the network.
    pub net: bool,
    /// Links in its scratch folder: the path there, and where it leads.
    pub links: &'a [(PathBuf, PathBuf)],
}

/// What a run left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// How it ended.
    pub ending: Ending,
    /// What it printed.
    pub stdout: Vec<u8>,
    /// The end of what it said on stderr.
    pub stderr: Vec<u8>,
    /// How far it was held to what it was granted.
    pub level: Level,
}

/// Why a script could not be run; what it does itself is an [`Ending`].
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The scratch folder could not be made, filled or removed.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
    /// The launcher could not be started.
    #[error("could not start `{}` as the launcher of a script: {source}", path.display())]
    Launcher {
        /// The program.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The launcher could not start the script.
    #[error("{0}")]
    Start(String),
    /// The script could not be confined.
    #[error("the script was not run, for it could not be confined: {0}")]
    Unconfined(String),
    /// There are namespaces, and they are of no use.
    #[error("the script was not run, for its namespaces could not be set up")]
    NoNamespaces,
    /// The launcher ended without a word.
    #[error("the launcher of the script was killed; processes of the script may be left")]
    Lost,
    /// Processes of the script could not be killed.
    #[error("processes of the script did not end within {} s; they are still being killed", END_WAITS.as_secs())]
    Survivors,
    /// The input could not be read.
    #[error("could not read the script's input: {0}")]
    Input(io::Error),
    /// A pipe to or from the script failed.
    #[error("could not pass the script's input and output: {0}")]
    Pipes(io::Error),
}

impl ScriptError {
    /// The remedy, as a line.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            ScriptError::Scratch(_) => Some("set TMPDIR to a folder that you can write and that has room".to_owned()),
            ScriptError::Unconfined(_) => Some("self doctor; SELF_SANDBOX=off runs scripts unconfined".to_owned()),
            ScriptError::Launcher { .. } => Some("scripts need /proc, by which this program finds itself".to_owned()),
            ScriptError::NoNamespaces
            | ScriptError::Start(_)
            | ScriptError::Lost
            | ScriptError::Survivors
            | ScriptError::Input(_)
            | ScriptError::Pipes(_) => None,
        }
    }
}

/// Runs a script. `feed` gives the next piece of its input, `None` at the end; it is asked only when the script has taken the
/// last one, and not again once the script has closed its stdin.
///
/// # Errors
/// When the script could not be run or its input could not be read. Nothing of it is left then either.
pub fn run(run: &Run<'_>, feed: &mut dyn FnMut() -> io::Result<Option<Piece>>) -> Result<Ran, ScriptError> {
    let scratch = Scratch::make(run.scratch_parent.join(run.scratch_name), run.script, run.hold.links)?;
    let mut launched = Launched::start(run, &scratch)?;
    let ending = match launched.attend(run, feed) {
        Err(ScriptError::NoNamespaces) if run.hold.most == Level::Full => {
            let without = Run { hold: Hold { most: Level::Landlock, ..run.hold }, ..*run };
            launched = Launched::start(&without, &scratch)?;
            launched.attend(&without, feed)?
        }
        ended => ended?,
    };
    launched.end()?;
    let ran = Ran {
        ending,
        stdout: std::mem::take(&mut launched.output),
        stderr: launched.errors_kept(run.limits),
        level: launched.level.unwrap_or(Level::Limits),
    };
    drop(launched);
    scratch.remove()?;
    Ok(ran)
}

/// A started launcher and the kernel's ends of the script's pipes. Dropped, it ends the script and everything of it.
struct Launched {
    child: Child,
    control: OwnedFd,
    stdin: Option<PipeWriter>,
    stdout: Option<PipeReader>,
    stderr: Option<PipeReader>,
    begun: Instant,
    /// What was taken from the feed, and what of it the script has not taken.
    piece: Piece,
    output: Vec<u8>,
    errors: Vec<u8>,
    /// What the launcher has said so far.
    said: Vec<u8>,
    /// The level that the script was started at; `None` until then.
    level: Option<Level>,
    is_gone: bool,
    /// It took too long to end, and nobody waits for it.
    is_left: bool,
}

impl Launched {
    fn start(run: &Run<'_>, scratch: &Scratch) -> Result<Launched, ScriptError> {
        let flags = SocketFlags::CLOEXEC;
        let (control, theirs) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(pipes)?;
        let (script_in, stdin) = io::pipe().map_err(ScriptError::Pipes)?;
        let (stdout, script_out) = io::pipe().map_err(ScriptError::Pipes)?;
        let (stderr, script_err) = io::pipe().map_err(ScriptError::Pipes)?;
        // Room for what is spliced at once; where the system gives no more, less goes at once.
        let _ = rustix::pipe::fcntl_setpipe_size(&stdin, INPUT_PIPE_BYTES);
        for end in [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()] {
            rustix::fs::fcntl_setfl(end, OFlags::NONBLOCK).map_err(pipes)?;
        }
        let path = scratch.file.clone().into_os_string();
        let own = Grant::write(&scratch.folder);
        let orders = Orders {
            data_bytes: run.limits.data_bytes,
            file_bytes: run.limits.file_bytes,
            descriptors: run.limits.descriptors,
            processes: run.limits.processes,
            strays: run.strays,
            most: run.hold.most,
            least: run.hold.least,
            net: run.hold.net,
            program: run.launcher.to_owned(),
            grants: [own].into_iter().chain(run.hold.grants.iter().cloned()).collect(),
            folder: run.folder.unwrap_or(&scratch.folder).to_owned(),
            words: run.interpreter.iter().cloned().chain([path]).chain(run.arguments.iter().cloned()).collect(),
        };
        let begun = Instant::now();
        let child = Command::new(run.launcher)
            .args(orders.arguments(Role::Launcher))
            .env_clear()
            .envs(run.environment.iter().map(|(name, value)| (name, value)))
            .env("HOME", &scratch.folder)
            .env("TMPDIR", &scratch.folder)
            .env(DEPTH, "1")
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|source| ScriptError::Launcher { path: run.launcher.to_owned(), source })?;
        let launched = Launched {
            child,
            control,
            stdin: Some(stdin),
            stdout: Some(stdout),
            stderr: Some(stderr),
            begun,
            piece: Piece::default(),
            output: Vec::new(),
            errors: Vec::new(),
            said: Vec::new(),
            level: None,
            is_gone: false,
            is_left: false,
        };
        launched.hand_over([script_in.as_fd(), script_out.as_fd(), script_err.as_fd()])?;
        Ok(launched)
    }

    /// Passes the script's ends to the cell, past every other process that is started meanwhile.
    fn hand_over(&self, ends: [BorrowedFd<'_>; ENDS]) -> Result<(), ScriptError> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(ENDS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&ends));
        match rustix::net::sendmsg(&self.control, &[IoSlice::new(b"\n")], &mut ancillary, SendFlags::NOSIGNAL) {
            // A launcher that is gone already has said why, or is told as lost.
            Ok(_) | Err(rustix::io::Errno::PIPE) => Ok(()),
            Err(fault) => Err(pipes(fault)),
        }
    }

    /// Feeds and drains until the script has ended and its outputs have, or a limit, the caller or an error ends the run.
    fn attend(&mut self, run: &Run<'_>, feed: &mut dyn FnMut() -> io::Result<Option<Piece>>) -> Result<Ending, ScriptError> {
        let deadline = self.begun + run.limits.wall;
        let mut ended: Option<(Ending, Instant)> = None;
        loop {
            let now = Instant::now();
            let until = match ended {
                Some((ending, until)) if now >= until || (self.stdout.is_none() && self.stderr.is_none()) => return Ok(ending),
                Some((_, until)) => until,
                None if run.stop.load(Ordering::Relaxed) => return Ok(Ending::Stopped),
                None if now >= deadline => return Ok(Ending::Limit(Limit::Time(run.limits.wall))),
                None => deadline,
            };
            self.pass(until.saturating_duration_since(now).min(TICK), feed)?;
            self.cut_errors(run.limits);
            if self.output.len() as u64 > run.limits.output_bytes {
                return Ok(Ending::Limit(Limit::Output(run.limits.output_bytes)));
            }
            while let Some(report) = self.report() {
                if let Report::Level(level) = report {
                    self.level = Some(level);
                    continue;
                }
                let ending = Launched::ending(report, run.limits)?;
                if ending == Ending::Limit(Limit::Processes(run.limits.processes)) {
                    return Ok(ending);
                }
                ended = ended.or_else(|| Some((ending, Instant::now() + DRAIN)));
                self.stdin = None;
            }
            if ended.is_none() && self.is_gone {
                return Err(ScriptError::Lost);
            }
        }
    }

    fn ending(report: Report, limits: Limits) -> Result<Ending, ScriptError> {
        match report {
            Report::Exited(status) => Ok(Ending::Exited(status)),
            Report::Signal(SIGXFSZ) => Ok(Ending::Limit(Limit::File(limits.file_bytes))),
            Report::Signal(signal) => Ok(Ending::Signal(signal)),
            Report::Processes => Ok(Ending::Limit(Limit::Processes(limits.processes))),
            Report::Fault(words) => Err(ScriptError::Start(words)),
            Report::Unconfined(words) => Err(ScriptError::Unconfined(words)),
            Report::NoNamespaces => Err(ScriptError::NoNamespaces),
            Report::Level(_) => Err(ScriptError::Lost),
        }
    }

    /// Waits for something to pass on, and passes it on.
    fn pass(&mut self, wait: Duration, feed: &mut dyn FnMut() -> io::Result<Option<Piece>>) -> Result<(), ScriptError> {
        let [control, stdin, stdout, stderr] = self.ready(wait)?;
        if stdin {
            self.feed(feed)?;
        }
        if stdout {
            read(&mut self.stdout, &mut self.output).map_err(ScriptError::Pipes)?;
        }
        if stderr {
            read(&mut self.stderr, &mut self.errors).map_err(ScriptError::Pipes)?;
        }
        if control {
            self.listen();
        }
        Ok(())
    }

    /// Which of the control socket and the three pipes has something to do.
    fn ready(&self, wait: Duration) -> Result<[bool; 1 + ENDS], ScriptError> {
        let control = (!self.is_gone).then(|| (self.control.as_fd(), PollFlags::IN));
        // Nothing is fed before the script is about to start: until then another launcher may have to.
        let stdin = self.stdin.as_ref().filter(|_| self.level.is_some()).map(|end| (end.as_fd(), PollFlags::OUT));
        let stdout = self.stdout.as_ref().map(|end| (end.as_fd(), PollFlags::IN));
        let stderr = self.stderr.as_ref().map(|end| (end.as_fd(), PollFlags::IN));
        let ends = [control, stdin, stdout, stderr];
        let open: Vec<_> = ends.iter().flatten().collect();
        let mut polled: Vec<_> = open.iter().map(|(end, flags)| PollFd::from_borrowed_fd(*end, *flags)).collect();
        let timeout = Timespec { tv_sec: wait.as_secs().cast_signed(), tv_nsec: wait.subsec_nanos().into() };
        match poll(&mut polled, Some(&timeout)) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok([false; 1 + ENDS]),
            Err(fault) => return Err(pipes(fault)),
        }
        let mut revents = polled.iter().map(|end| !end.revents().is_empty());
        Ok(ends.map(|end| end.is_some() && revents.next().unwrap_or(false)))
    }

    /// Gives the script what it has room for. A script that closed its stdin wants no more.
    fn feed(&mut self, feed: &mut dyn FnMut() -> io::Result<Option<Piece>>) -> Result<(), ScriptError> {
        let mut left = FED_BYTES_MAX;
        while left > 0 {
            let Some(stdin) = &mut self.stdin else { return Ok(()) };
            if self.piece.is_empty() {
                match feed().map_err(ScriptError::Input)? {
                    Some(piece) => self.piece = piece,
                    None => self.stdin = None,
                }
                continue;
            }
            match self.piece.pour(stdin) {
                Ok(poured) => left = left.saturating_sub(poured),
                Err(fault) if fault.kind() == io::ErrorKind::BrokenPipe => self.stdin = None,
                Err(fault) if is_for_later(&fault) => return Ok(()),
                Err(fault) => return Err(ScriptError::Pipes(fault)),
            }
        }
        Ok(())
    }

    /// Takes in what the launcher says.
    fn listen(&mut self) {
        let mut buffer = [0; 1024];
        match rustix::net::recv(&self.control, &mut buffer, rustix::net::RecvFlags::DONTWAIT) {
            Ok((0, _)) => self.is_gone = true,
            Ok((length, _)) if self.said.len() < REPORT_BYTES_MAX => self.said.extend(&buffer[..length]),
            Ok(_) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(_) => self.is_gone = true,
        }
    }

    /// Takes the next whole line of what the launcher has said.
    fn report(&mut self) -> Option<Report> {
        let end = self.said.iter().position(|&byte| byte == b'\n')?;
        let line: Vec<u8> = self.said.drain(..=end).collect();
        Report::read(String::from_utf8_lossy(&line).trim_end())
    }

    /// Lets go of what is more than twice the stderr that is kept.
    fn cut_errors(&mut self, limits: Limits) {
        if self.errors.len() > 2 * limits.error_bytes_kept {
            self.errors.drain(..self.errors.len() - limits.error_bytes_kept);
        }
    }

    fn errors_kept(&mut self, limits: Limits) -> Vec<u8> {
        let mut errors = std::mem::take(&mut self.errors);
        errors.drain(..errors.len().saturating_sub(limits.error_bytes_kept));
        errors
    }

    /// Ends everything of the script, and then takes what is still in the pipes: a pipe's worth, since nobody writes any more.
    fn end(&mut self) -> Result<(), ScriptError> {
        self.stdin = None;
        self.kill()?;
        for (pipe, bytes) in [(&mut self.stdout, &mut self.output), (&mut self.stderr, &mut self.errors)] {
            let mut left = PIPE_READS_MAX;
            while left > 0 && read(pipe, bytes).map_err(ScriptError::Pipes)? > 0 {
                left -= 1;
            }
            *pipe = None;
        }
        Ok(())
    }

    /// Tells the launcher to kill, and waits for its end. It is never killed itself: without it, a fork bomb has no bound and
    /// no end. One that takes too long goes on alone.
    fn kill(&mut self) -> Result<(), ScriptError> {
        if self.is_left {
            return Err(ScriptError::Survivors);
        }
        let _ = rustix::net::shutdown(&self.control, Shutdown::Write);
        let deadline = Instant::now() + END_WAITS;
        while !self.is_gone {
            let now = Instant::now();
            if now >= deadline {
                self.is_left = true;
                return Err(ScriptError::Survivors);
            }
            let control = PollFd::new(&self.control, PollFlags::IN);
            let _ = poll(&mut [control], Some(&Timespec { tv_sec: 0, tv_nsec: TICK.subsec_nanos().into() }));
            self.listen();
        }
        self.child.wait().map(drop).map_err(ScriptError::Pipes)
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        (self.stdin, self.stdout, self.stderr) = (None, None, None);
        let _ = self.kill();
    }
}

/// Reads once from an open pipe, and closes it at its end. Returns how much came.
fn read(pipe: &mut Option<PipeReader>, bytes: &mut Vec<u8>) -> io::Result<usize> {
    let Some(reader) = pipe else { return Ok(0) };
    let there = bytes.len();
    bytes.resize(there + READ_BYTES, 0);
    let came = reader.read(&mut bytes[there..]);
    bytes.truncate(there + came.as_ref().copied().unwrap_or(0));
    match came {
        Ok(0) => *pipe = None,
        Ok(_) => {}
        Err(fault) if is_for_later(&fault) => return Ok(0),
        Err(fault) => return Err(fault),
    }
    Ok(bytes.len() - there)
}

fn is_for_later(fault: &io::Error) -> bool {
    matches!(fault.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

fn pipes(fault: rustix::io::Errno) -> ScriptError {
    ScriptError::Pipes(fault.into())
}
