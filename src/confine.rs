//! Confinement: what a process does to itself before it becomes a script, so that the script touches only what was granted.
//!
//! Namespaces in the launcher, then in the cell no privileges, Landlock and the filters of `syscalls`: each only ever takes away.
//! Without root, without another program, without unsafe code. The invariant: a step that fails is told, never passed over; a
//! path that changed into a link since it was granted is not granted.

use std::io;
use std::thread::sleep;
use std::time::Duration;

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible, LandlockStatus, PathBeneath, RestrictionStatus, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};
use nix::sched::{CloneFlags, unshare};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::level::{Level, Reach, Sandbox};
use crate::orders::{Access, Grant};
use crate::syscalls;

/// What has to be held, or it is no confinement: with this version a file cannot be cut to nothing.
const LANDLOCK: ABI = ABI::V3;

/// The first version that holds signals.
const HOLDS_SIGNALS: ABI = ABI::V6;

/// The least that the highest process number of a namespace may be; also where the numbers begin anew.
const PROCESS_NUMBERS_RESERVED: u32 = 300;

/// How often, and after how long, namespaces are tried again: a thread that was joined may not be quite gone.
const TRIES: u32 = 100;
const TRY_AGAIN: Duration = Duration::from_micros(100);

/// Why a process could not be confined.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unconfined {
    /// The system has no Landlock, or an old one.
    #[error("this system has no Landlock of version 3 or newer (Linux 6.2)")]
    NoLandlock,
    /// Landlock is there, and did not take what was asked.
    #[error("Landlock did not take the grants: {0}")]
    Landlock(RulesetError),
    /// Landlock is there, and did not take hold.
    #[error("Landlock did not take hold")]
    Loose,
    /// System calls cannot be filtered.
    #[error("system calls cannot be filtered: {0}")]
    NoFilter(#[from] syscalls::NoFilter),
    /// The system took no filter.
    #[error("system calls cannot be filtered: {0}")]
    Filter(#[from] seccompiler::Error),
    /// There are no namespaces for this user.
    #[error("this user gets no namespaces: {0}")]
    Namespaces(nix::errno::Errno),
    /// A user namespace could not be set up for want of `/proc`.
    #[error("there is no /proc to set up a user namespace with")]
    NoProc,
    /// A namespace was made, and could not be set up; some distributions let everybody make one and use none.
    #[error("a user namespace could not be set up: {0}")]
    Mapping(io::Error),
    /// Privileges could not be given up.
    #[error("privileges could not be given up: {0}")]
    Privileges(rustix::io::Errno),
}

impl Unconfined {
    /// Whether the process is as it was, and can run at a lower level.
    pub(crate) fn leaves_all_as_it_was(&self) -> bool {
        matches!(self, Unconfined::Namespaces(_) | Unconfined::NoProc)
    }
}

/// Makes a ruleset that handles all that is asked for; without a rule it grants nothing.
fn ruleset() -> Result<RulesetCreated, Unconfined> {
    let made = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(LANDLOCK))
        .and_then(|set| set.set_compatibility(CompatLevel::BestEffort).handle_access(AccessFs::IoctlDev))
        .and_then(|set| set.scope(Scope::AbstractUnixSocket | Scope::Signal))
        .and_then(Ruleset::create);
    made.map_err(|_| Unconfined::NoLandlock)
}

/// Whether this system can hold a script to its files and calls.
pub(crate) fn can_restrict() -> Result<(), Unconfined> {
    syscalls::are_known()?;
    ruleset().map(drop)
}

/// Takes this process into namespaces of its own, so that its children are; the network's is left out where that may be used.
/// Only a process of one thread can, and it can make no thread afterwards.
pub(crate) fn enter_namespaces(net: bool) -> Result<(), Unconfined> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let mut flags = CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWIPC;
    if !net {
        flags |= CloneFlags::CLONE_NEWNET;
    }
    // Without /proc the user of the namespace cannot be named.
    std::fs::metadata("/proc/self/uid_map").map_err(|_| Unconfined::NoProc)?;
    let mut tries = 0;
    loop {
        match unshare(flags) {
            Ok(()) => break,
            Err(nix::errno::Errno::EINVAL) if tries < TRIES => {
                tries += 1;
                sleep(TRY_AGAIN);
            }
            Err(fault) => return Err(Unconfined::Namespaces(fault)),
        }
    }
    for (file, line) in
        [("setgroups", "deny".to_owned()), ("uid_map", format!("{uid} {uid} 1")), ("gid_map", format!("{gid} {gid} 1"))]
    {
        std::fs::write(format!("/proc/self/{file}"), line).map_err(Unconfined::Mapping)?;
    }
    // Of all that the namespace gives, the init keeps what bounds its process numbers, through its start. Without it they have
    // the bound of the user's other processes.
    let bound = CapabilitySet::SYS_ADMIN;
    if let Ok(sets) = rustix::thread::capabilities(None) {
        let kept = rustix::thread::set_capabilities(None, CapabilitySets { inheritable: bound, ..sets });
        let _ = kept.and_then(|()| rustix::thread::configure_capability_in_ambient_set(bound, true));
    }
    Ok(())
}

/// Bounds the process numbers of this namespace, where the system has that: so many processes can always be, and about twice as
/// many at the start. The least that the system takes is no bound to live with: once its numbers are used up, one process is
/// left.
pub(crate) fn bound_process_numbers(processes: u32) {
    let _ = std::fs::write("/proc/sys/kernel/pid_max", (PROCESS_NUMBERS_RESERVED + processes + 1).to_string());
}

/// Gives up every privilege, for this process and whatever it becomes, root or not.
pub(crate) fn give_up_privileges() -> Result<(), Unconfined> {
    let none = CapabilitySet::empty();
    rustix::thread::set_no_new_privs(true).map_err(Unconfined::Privileges)?;
    // Systems before ambient privileges have none to clear.
    let _ = rustix::thread::clear_ambient_capability_set();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, sets).map_err(Unconfined::Privileges)
}

/// Holds this process, and whatever it becomes, to these paths and calls.
pub(crate) fn restrict(grants: &[Grant], net: bool) -> Result<(), Unconfined> {
    let mut rules = ruleset()?;
    for rule in grants.iter().filter_map(rule) {
        rules = rules.add_rule(rule).map_err(Unconfined::Landlock)?;
    }
    held(rules)?;
    for filter in syscalls::filters(net)? {
        seccompiler::apply_filter(&filter)?;
    }
    Ok(())
}

fn held(rules: RulesetCreated) -> Result<RestrictionStatus, Unconfined> {
    let status = rules.restrict_self().map_err(Unconfined::Landlock)?;
    match (status.landlock, status.no_new_privs) {
        (LandlockStatus::Available { .. }, true) => Ok(status),
        (LandlockStatus::Available { .. } | LandlockStatus::NotEnabled | LandlockStatus::NotImplemented, _) => {
            Err(Unconfined::Loose)
        }
    }
}

/// The rule for a grant; `None` if its path is not there any more, or a link stands on its way.
fn rule(grant: &Grant) -> Option<PathBeneath<std::os::fd::OwnedFd>> {
    let fd = openat2(CWD, &grant.path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::NO_SYMLINKS).ok()?;
    let is_folder = FileType::from_raw_mode(fstat(&fd).ok()?.st_mode) == FileType::Directory;
    let all = if is_folder { AccessFs::from_all(LANDLOCK) } else { AccessFs::from_file(LANDLOCK) };
    let never: BitFlags<AccessFs> = AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::MakeSock;
    let access = match grant.access {
        Access::Read => all & AccessFs::from_read(LANDLOCK),
        Access::Write => all & !never,
        Access::Device => all & (AccessFs::ReadFile | AccessFs::WriteFile),
    };
    Some(PathBeneath::new(fd, access))
}

/// Tries, on this process, how far a script can be held here, as far as the user wants it.
pub(crate) fn try_out(sandbox: Sandbox) -> Reach {
    let (most, _) = sandbox.range();
    let below = |level, why: String| Reach { level, why, holds_signals: false };
    if most == Level::Limits {
        return below(Level::Limits, format!("SELF_SANDBOX is {}", sandbox.word()));
    }
    if let Err(fault) = can_restrict() {
        return below(Level::Limits, fault.to_string());
    }
    let namespaces = enter_namespaces(false);
    let status = match ruleset().and_then(held) {
        Ok(status) => status,
        Err(fault) => return below(Level::Limits, fault.to_string()),
    };
    let holds_signals = ABI::from(status.landlock) >= HOLDS_SIGNALS;
    match namespaces {
        Ok(()) => Reach { level: Level::Full, why: String::new(), holds_signals: true },
        Err(fault) => Reach { level: Level::Landlock, why: fault.to_string(), holds_signals },
    }
}
