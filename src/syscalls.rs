//! The system calls that a confined script may not make, as filters: tables for x86_64 and aarch64.
//!
//! Landlock holds a script to its files; what it leaves open is shut here. Everything not named is allowed: this is no list of what
//! a script needs, but of what reaches past its files, its processes and its time. The invariant: a denied call fails, it never
//! kills; a call through another table of the system (x32, 32 bits) is denied whole.

use std::collections::BTreeMap;

use seccompiler::SeccompCmpArgLen::Dword;
use seccompiler::SeccompCmpOp::{Eq, MaskedEq, Ne};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch, sock_filter,
};

const EPERM: u32 = libc::EPERM.cast_unsigned();
const ENOSYS: u32 = libc::ENOSYS.cast_unsigned();

/// Calls whose number is the same on both architectures, and which `libc` does not have on both.
const FCHMODAT2: i64 = 452;
const SETXATTRAT: i64 = 463;
const REMOVEXATTRAT: i64 = 466;
const OPEN_TREE_ATTR: i64 = 467;
const FILE_SETATTR: i64 = 469;

/// Modes, owners and attributes, by path and by descriptor: Landlock does not know them.
const MODES: &[i64] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    SETXATTRAT,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    REMOVEXATTRAT,
    FILE_SETATTR,
];

/// Rings that make calls past every filter.
const RINGS: &[i64] = &[libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];

/// Looking into other processes, and into the system; watching folders that cannot be listed; keys of the session.
const KIN: &[i64] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    libc::SYS_perf_event_open,
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_fanotify_init,
    libc::SYS_inotify_add_watch,
    libc::SYS_open_by_handle_at,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_syslog,
];

/// Mounts, namespaces and what only an administrator does.
const MOUNTS: &[i64] = &[
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    OPEN_TREE_ATTR,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
];

/// Memory, queues and semaphores that processes of one user share by number or name.
const SHARED: &[i64] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];

/// Times of files: a touched log would spoil the check that nobody else wrote it. They succeed without effect.
const TIMES: &[i64] = &[libc::SYS_utimensat];

/// Calls of this kind that only x86_64 has.
#[cfg(target_arch = "x86_64")]
mod only_here {
    pub(super) const MODES: &[i64] = &[libc::SYS_chmod, libc::SYS_chown, libc::SYS_lchown];
    pub(super) const MOUNTS: &[i64] = &[libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_kexec_file_load];
    pub(super) const TIMES: &[i64] = &[libc::SYS_utime, libc::SYS_utimes, libc::SYS_futimesat];
}
#[cfg(not(target_arch = "x86_64"))]
mod only_here {
    pub(super) const MODES: &[i64] = &[];
    pub(super) const MOUNTS: &[i64] = &[];
    pub(super) const TIMES: &[i64] = &[];
}

/// Bits of `clone` that make a namespace: mount, cgroup, uts, ipc, user, pid, net.
const NAMESPACES: [u64; 7] = [0x2_0000, 0x200_0000, 0x400_0000, 0x800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000];

/// Requests of `ioctl` that put letters into a terminal, or change what a file is, or the whole file system: `TIOCSTI`,
/// `TIOCLINUX`, `FS_IOC_SETFLAGS` and its 32-bit form, `FS_IOC_FSSETXATTR`, `FS_IOC_ENABLE_VERITY`,
/// `FS_IOC_SET_ENCRYPTION_POLICY`, `FIFREEZE`, `FITHAW`, `FS_IOC_SHUTDOWN`.
const REQUESTS: [u64; 10] =
    [0x5412, 0x541c, 0x4008_6602, 0x4004_6602, 0x401c_5820, 0x4080_6685, 0x800c_6613, 0xc004_5877, 0xc004_5878, 0x8004_587d];

/// `fcntl`: a lease on the log makes the next append wait for whoever holds it.
const F_SETLEASE: u64 = 1024;

/// Numbers from here on are those of x32.
const X32: u32 = 0x4000_0000;

/// The architecture whose numbers stand in the tables here.
#[cfg(target_arch = "x86_64")]
const HERE: Option<TargetArch> = Some(TargetArch::x86_64);
#[cfg(target_arch = "aarch64")]
const HERE: Option<TargetArch> = Some(TargetArch::aarch64);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const HERE: Option<TargetArch> = None;

/// Why there are no filters.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoFilter {
    /// The architecture has no table.
    #[error("there is no table of system calls for this architecture")]
    Architecture,
    /// A table makes no filter.
    #[error("the table of system calls makes no filter: {0}")]
    Table(#[from] BackendError),
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Whether this architecture has a table.
pub(crate) fn are_known() -> Result<(), NoFilter> {
    HERE.map(|_| ()).ok_or(NoFilter::Architecture)
}

/// The filters, to be put in force in this order.
///
/// # Errors
/// On an architecture that has no table here.
pub(crate) fn filters(net: bool) -> Result<[BpfProgram; 4], NoFilter> {
    let here = HERE.ok_or(NoFilter::Architecture)?;
    let clone3 = Rules::from([(libc::SYS_clone3, Vec::new())]);
    let times = [TIMES, only_here::TIMES].concat().into_iter().map(|call| (call, Vec::new())).collect();
    Ok([filter(here, denied(net)?, EPERM)?, filter(here, clone3, ENOSYS)?, filter(here, times, 0)?, other_numbers()])
}

/// A filter by which these calls give this error; 0 is success without effect.
fn filter(here: TargetArch, rules: Rules, error: u32) -> Result<BpfProgram, BackendError> {
    SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(error), here)?.try_into()
}

/// What is not permitted, and under which conditions; no condition is always.
fn denied(net: bool) -> Result<Rules, BackendError> {
    let always = [MODES, only_here::MODES, RINGS, KIN, MOUNTS, only_here::MOUNTS, SHARED, &[libc::SYS_socketpair]].concat();
    let mut rules: Rules = always.into_iter().map(|call| (call, Vec::new())).collect();
    rules.insert(libc::SYS_socket, sockets(net)?);
    rules.insert(libc::SYS_clone, any(NAMESPACES.map(|bit| [(0, MaskedEq(bit), bit)]))?);
    rules.insert(libc::SYS_ioctl, any(REQUESTS.map(|request| [(1, Eq, request)]))?);
    rules.insert(libc::SYS_fcntl, any([[(1, Eq, F_SETLEASE)]])?);
    // Of its own process only: limits, priorities and processors of others of the same user are theirs.
    let of_others = [libc::SYS_prlimit64, libc::SYS_sched_setparam, libc::SYS_sched_setscheduler, libc::SYS_sched_setattr];
    for call in of_others.into_iter().chain([libc::SYS_sched_setaffinity]) {
        rules.insert(call, any([[(0, Ne, 0)]])?);
    }
    rules.insert(libc::SYS_setpriority, any([[(0, Ne, 0)], [(1, Ne, 0)]])?);
    rules.insert(libc::SYS_ioprio_set, any([[(0, Ne, 1)], [(1, Ne, 0)]])?);
    Ok(rules)
}

/// Every socket; with the network, every one but those of IPv4, IPv6 and the routing table's.
fn sockets(net: bool) -> Result<Vec<SeccompRule>, BackendError> {
    if !net {
        return Ok(Vec::new());
    }
    const INET: u64 = 2;
    const INET6: u64 = 10;
    const NETLINK: u64 = 16;
    const ROUTE: u64 = 0;
    let mut rules = any([[(0, Ne, INET), (0, Ne, INET6), (0, Ne, NETLINK)]])?;
    rules.extend(any([[(0, Eq, NETLINK), (2, Ne, ROUTE)]])?);
    Ok(rules)
}

/// One rule for each list of conditions; all of a list have to hold, over the low 32 bits of the argument of that number.
fn any<const N: usize, const M: usize>(lists: [[(u8, SeccompCmpOp, u64); N]; M]) -> Result<Vec<SeccompRule>, BackendError> {
    let condition = |(argument, op, value)| SeccompCondition::new(argument, Dword, op, value);
    let rule = |list: [_; N]| SeccompRule::new(list.into_iter().map(condition).collect::<Result<_, _>>()?);
    lists.into_iter().map(rule).collect()
}

/// The numbers of x32, which no table above has: load the number, from [`X32`] on deny, else allow. (linux/bpf_common.h,
/// linux/seccomp.h)
fn other_numbers() -> BpfProgram {
    const LOAD: u16 = 0x20;
    const JUMP_FROM: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const ALLOW: u32 = 0x7fff_0000;
    const ERROR: u32 = 0x0005_0000;
    let step = |code, jt, k| sock_filter { code, jt, jf: 0, k };
    vec![step(LOAD, 0, 0), step(JUMP_FROM, 1, X32), step(RETURN, 0, ALLOW), step(RETURN, 0, ERROR | EPERM)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_stands_in_two_tables() {
        let all = [MODES, only_here::MODES, RINGS, KIN, MOUNTS, only_here::MOUNTS, SHARED, TIMES, only_here::TIMES].concat();
        let once: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(once.len(), all.len());
        let conditional = [libc::SYS_socket, libc::SYS_clone, libc::SYS_ioctl, libc::SYS_fcntl, libc::SYS_clone3];
        assert!(conditional.iter().all(|call| !once.contains(call)));
    }

    #[test]
    fn the_filters_are_short_enough_for_the_system() {
        for net in [false, true] {
            for filter in filters(net).unwrap() {
                assert!((1..4096).contains(&filter.len()), "{}", filter.len());
            }
        }
    }
}
