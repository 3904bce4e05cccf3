//! The cell: the process that confines itself and becomes a script, or the init above one that has namespaces of its own.
//!
//! The launcher starts `self` as this, with a hidden first argument. Takes the script's three ends off the socket that is its
//! stdin, gives up what the script is not to have, and starts the interpreter. As an init it reaps, reports the script's end, and
//! lives until it is killed or has no child left. The invariant: no script starts before everything that its level holds is in
//! force.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{Pid, Signal, WaitOptions};

use crate::confine;
use crate::launch::{bound_processes, say, use_up_a_number};
use crate::level::Level;
use crate::orders::{ENDS, Orders, Report};

/// Is the cell. stdin must be the launcher's.
#[must_use]
pub fn enter(orders: &Orders) -> ExitCode {
    // It stays when stdin becomes the script's, and is closed when the script starts.
    let Ok(control) = io::stdin().as_fd().try_clone_to_owned() else { return ExitCode::from(2) };
    match become_script(orders, &control) {
        Ok(()) => ExitCode::SUCCESS,
        Err(report) => {
            say(&control, &report);
            ExitCode::from(2)
        }
    }
}

/// Comes back when an init has no child left; a cell that becomes the script comes back only if it cannot.
fn become_script(orders: &Orders, control: &OwnedFd) -> Result<(), Report> {
    let fault = |words: String| Report::Fault(words);
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(|errno| fault(errno.to_string()))?;
    let [stdin, stdout, stderr] = take_ends(control).map_err(|cause| fault(format!("the script got no pipes: {cause}")))?;
    if orders.most == Level::Full {
        confine::bound_process_numbers(orders.processes);
        bound_processes(orders.processes);
        for _ in 0..orders.strays {
            use_up_a_number();
        }
    }
    if orders.most > Level::Limits {
        let unconfined = |cause: confine::Unconfined| Report::Unconfined(cause.to_string());
        confine::give_up_privileges().map_err(unconfined)?;
        confine::restrict(&orders.grants, orders.net).map_err(unconfined)?;
    }
    say(control, &Report::Level(orders.most));
    let Some((program, rest)) = orders.words.split_first() else { return Err(fault("there is nothing to start".to_owned())) };
    let mut command = Command::new(program);
    command.args(rest).stdin(Stdio::from(stdin)).stdout(Stdio::from(stdout)).stderr(Stdio::from(stderr)).process_group(0);
    let failed = |cause: io::Error| fault(format!("could not start `{}`: {cause}", program.display()));
    if orders.most < Level::Full {
        return Err(failed(command.exec()));
    }
    let child = command.spawn().map_err(failed)?;
    drop(command);
    let script = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    reap(control, script);
    Ok(())
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

/// Buries the dead of the namespace until none can come any more, and says how the script ended.
fn reap(control: &OwnedFd, script: Option<Pid>) {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if Some(pid) == script => {
                let ended = Report::of(status);
                // A script that could not become more ends of that, and its own words say less.
                let is_full = ended != Report::Exited(0) && !use_up_a_number();
                say(control, if is_full { &Report::Processes } else { &ended });
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
}
