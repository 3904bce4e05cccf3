//! An inquiry: another program is asked for a short answer, and waited for until a deadline.
//!
//! It reads nothing, and what it says on stderr goes nowhere. The invariant: when an answer is there, or none came in time, the
//! program and all that it started in its process group are gone.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};

/// The longest answer, in bytes.
const ANSWER_BYTES_MAX: usize = 8 << 10;

/// Starts a program and reads what it prints; `None` if that had no end in time, or was longer than [`ANSWER_BYTES_MAX`]. The end of
/// what it prints is the end of the answer: its exit is not waited for, so its status says nothing.
pub(crate) fn ask(mut command: Command, deadline: Instant) -> io::Result<Option<Vec<u8>>> {
    let (mut answer, theirs) = io::pipe()?;
    let mut child = command.stdin(Stdio::null()).stdout(theirs).stderr(Stdio::null()).process_group(0).spawn()?;
    // It holds the end that the program writes to.
    drop(command);
    let mut bytes = Vec::new();
    let is_whole = loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        let came = poll(&mut [PollFd::new(&answer, PollFlags::IN)], Some(&timeout));
        if left.is_zero() || bytes.len() > ANSWER_BYTES_MAX || matches!(came, Ok(0)) {
            break false;
        }
        let mut buffer = [0; 1024];
        match answer.read(&mut buffer) {
            Ok(0) => break true,
            Ok(length) => bytes.extend(&buffer[..length]),
            Err(fault) if fault.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break false,
        }
    };
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    child.wait()?;
    Ok(is_whole.then_some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn asked(line: &str, wait: Duration) -> Option<Vec<u8>> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", line]);
        ask(command, Instant::now() + wait).unwrap()
    }

    #[test]
    fn an_answer_is_all_that_is_printed() {
        assert_eq!(asked("echo a; echo b; echo c >&2; cat", Duration::from_secs(60)).as_deref(), Some(&b"a\nb\n"[..]));
    }

    #[test]
    fn one_that_does_not_end_is_none() {
        let begun = Instant::now();
        assert_eq!(asked("echo a; sleep 60", Duration::from_millis(50)), None);
        assert_eq!(asked("yes", Duration::from_secs(60)), None);
        assert!(begun.elapsed() < Duration::from_secs(50));
    }
}
