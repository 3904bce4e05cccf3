//! The ground that a home stands on: the kind of its file system, and the room there.
//!
//! Asks the system, and reads `/proc/self/mountinfo` for the name of a kind that its number alone does not tell, as `fuse.sshfs`.
//! Writes nothing. The invariant: a kind is judged by its number, which the system gives, and not by a name.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Where the system tells what is mounted.
const MOUNTS: &str = "/proc/self/mountinfo";

/// What a file system's kind means for a home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A disk of this machine, as far as that is known.
    Local,
    /// Another machine's, over a network or into a virtual machine.
    Network,
    /// A program's.
    Fuse,
    /// Memory.
    Memory,
}

/// A file system, as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ground {
    /// Its name.
    pub name: String,
    /// What that means.
    pub kind: Kind,
    /// How many bytes are free for this user; `None` where it does not count them.
    pub free_bytes: Option<u64>,
}

/// The kinds by the number that the system gives them (linux/magic.h, and those of kinds that stand outside of it).
const KINDS: [(u64, &str, Kind); 33] = [
    (0x6969, "nfs", Kind::Network),
    (0x517b, "smb", Kind::Network),
    (0xff53_4d42, "cifs", Kind::Network),
    (0xfe53_4d42, "smb2", Kind::Network),
    (0x0102_1997, "9p", Kind::Network),
    (0x00c3_6400, "ceph", Kind::Network),
    (0x5346_414f, "afs", Kind::Network),
    (0x6b41_4653, "afs", Kind::Network),
    (0x7375_7245, "coda", Kind::Network),
    (0x0bd0_0bd0, "lustre", Kind::Network),
    (0x4750_4653, "gpfs", Kind::Network),
    (0x0116_1970, "gfs2", Kind::Network),
    (0x7461_636f, "ocfs2", Kind::Network),
    (0x1983_0326, "beegfs", Kind::Network),
    (0x2003_0528, "orangefs", Kind::Network),
    (0x786f_4256, "vboxsf", Kind::Network),
    (0xbacb_acbc, "vmhgfs", Kind::Network),
    (0x6573_5546, "fuse", Kind::Fuse),
    (0x0102_1994, "tmpfs", Kind::Memory),
    (0x8584_58f6, "ramfs", Kind::Memory),
    (0xef53, "ext4", Kind::Local),
    (0x5846_5342, "xfs", Kind::Local),
    (0x9123_683e, "btrfs", Kind::Local),
    (0x2fc1_2fc1, "zfs", Kind::Local),
    (0xf2f5_2010, "f2fs", Kind::Local),
    (0xca45_1a4e, "bcachefs", Kind::Local),
    (0x794c_7630, "overlay", Kind::Local),
    (0xf15f, "ecryptfs", Kind::Local),
    (0x4d44, "vfat", Kind::Local),
    (0x2011_bab0, "exfat", Kind::Local),
    (0x7366_746e, "ntfs3", Kind::Local),
    (0x7371_7368, "squashfs", Kind::Local),
    (0x3153_464a, "jfs", Kind::Local),
];

impl Ground {
    /// The file system that a folder or file lies on; `None` if the system does not say.
    #[must_use]
    pub fn of(path: &Path) -> Option<Ground> {
        let number = rustix::fs::statfs(path).ok()?.f_type as u64 & 0xffff_ffff;
        let room = rustix::fs::statvfs(path).ok().filter(|room| room.f_blocks > 0);
        let device = std::fs::metadata(path).ok()?.dev();
        let mounts = std::fs::read(MOUNTS).unwrap_or_default();
        let mounted = mounted(&String::from_utf8_lossy(&mounts), rustix::fs::major(device), rustix::fs::minor(device));
        let (name, kind) = kind(number);
        Some(Ground {
            name: mounted.unwrap_or(name),
            kind,
            free_bytes: room.map(|room| room.f_bavail.saturating_mul(room.f_frsize)),
        })
    }

    /// What the home's owner should know of it, if it is no disk of this machine.
    #[must_use]
    pub fn warning(&self) -> Option<&'static str> {
        match self.kind {
            Kind::Local | Kind::Memory => None,
            Kind::Network => Some("a network file system: its locks and syncs may not hold, and two hosts could write one log"),
            Kind::Fuse => Some("a program's file system (FUSE): its locks and syncs are what that program makes of them"),
        }
    }
}

fn kind(number: u64) -> (String, Kind) {
    let known = KINDS.iter().find(|(of, ..)| *of == number);
    known.map_or_else(|| (format!("unknown (0x{number:x})"), Kind::Local), |(_, name, kind)| ((*name).to_owned(), *kind))
}

/// The type of what is mounted from this device.
fn mounted(mounts: &str, major: u32, minor: u32) -> Option<String> {
    let device = format!("{major}:{minor}");
    let found =
        mounts.lines().filter_map(|line| line.split_once(" - ")).find(|(mount, _)| mount.split(' ').nth(2) == Some(&device));
    found.and_then(|(_, source)| source.split(' ').next()).filter(|name| !name.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_and_fuse_are_named() {
        let check = |number: u64, expect: &str, warns: &str| {
            let (name, kind) = kind(number);
            let ground = Ground { name, kind, free_bytes: None };
            assert_eq!(ground.name, expect);
            assert!(ground.warning().unwrap_or("none").starts_with(warns), "{expect}");
        };
        check(0x6969, "nfs", "a network");
        check(0xff53_4d42, "cifs", "a network");
        check(0xfe53_4d42, "smb2", "a network");
        check(0x0102_1997, "9p", "a network");
        check(0x00c3_6400, "ceph", "a network");
        check(0x6573_5546, "fuse", "a program's");
        check(0x0102_1994, "tmpfs", "none");
        check(0x794c_7630, "overlay", "none");
        check(0xef53, "ext4", "none");
        check(0x1234, "unknown (0x1234)", "none");
    }

    #[test]
    fn a_mount_is_found_by_its_device() {
        let mounts = "36 35 98:0 / /a\\040b rw,noatime master:1 - ext4 /dev/root rw\n40 35 0:52 / /mnt rw - fuse.sshfs ada@host:/ rw\n\
                      41 35 0:53 / /g rw shared:7 - fuse.glusterfs host:/v rw\nodd\n\n 0:54 - ";
        for (minor, expect) in [(52, Some("fuse.sshfs")), (53, Some("fuse.glusterfs")), (54, None), (5, None)] {
            assert_eq!(mounted(mounts, 0, minor).as_deref(), expect);
        }
        assert_eq!(mounted(mounts, 98, 0).as_deref(), Some("ext4"));
    }

    #[test]
    fn every_number_stands_once() {
        let numbers: std::collections::BTreeSet<_> = KINDS.iter().map(|(number, ..)| number).collect();
        assert_eq!(numbers.len(), KINDS.len());
    }

    #[test]
    fn a_folder_here_lies_on_something() {
        let folder = tempfile::tempdir().unwrap();
        let ground = Ground::of(folder.path()).unwrap();
        assert!(!ground.name.is_empty() && Ground::of(&folder.path().join("nothing")).is_none());
    }
}
