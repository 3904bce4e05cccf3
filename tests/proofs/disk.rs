//! A disk of our own: an ext4 image on a loop device, to be filled, and to have its power cut.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use tempfile::TempDir;

/// An image, mounted while this value lives.
pub struct Disk {
    folder: TempDir,
}

fn works(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
}

impl Disk {
    /// Makes and mounts one; `None` where that is not allowed.
    pub fn new(mebibytes: u64) -> Option<Disk> {
        let disk = Disk { folder: tempfile::tempdir().unwrap() };
        std::fs::create_dir(disk.path()).unwrap();
        std::fs::File::create(disk.image()).unwrap().set_len(mebibytes << 20).unwrap();
        let made = works("mkfs.ext4", &["-q", "-F", disk.image().to_str().unwrap()]);
        (made && disk.mount()).then_some(disk)
    }

    /// Where it is mounted.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    /// A path beside it, on the disk below.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn image(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    fn mount(&self) -> bool {
        works("mount", &["-o", "loop", self.image().to_str().unwrap(), self.path().to_str().unwrap()])
    }

    fn unmount(&self) -> bool {
        let path = self.path();
        (0..50).any(|_| {
            works("umount", &[path.to_str().unwrap()]) || {
                sleep(Duration::from_millis(100));
                false
            }
        })
    }

    /// Puts a hand on the switch.
    pub fn switch(&self) -> Switch {
        // FS_IOC_SHUTDOWN = _IOR('X', 125, u32), with EXT4_GOING_FLAGS_NOLOGFLUSH = 2.
        let line = "import fcntl, os, struct, sys\ndisk = os.open(sys.argv[1], os.O_RDONLY)\nprint('ready', flush=True)\n\
                    sys.stdin.read()\nfcntl.ioctl(disk, 0x8004587d, struct.pack('I', 2))";
        let mut python = Command::new("python3");
        python.args(["-c", line, self.path().to_str().unwrap()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut hand = python.spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(hand.stdout.as_mut().unwrap()).read_line(&mut ready).unwrap();
        assert_eq!(ready, "ready\n");
        Switch { hand }
    }

    /// Turns it on again, as after a power cut.
    pub fn turn_on(&self) {
        assert!(self.unmount(), "the disk is still in use");
        assert!(self.mount(), "the disk does not mount again");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if Path::new(&self.path()).exists() {
            self.unmount();
        }
    }
}

/// A hand on the switch of a disk.
pub struct Switch {
    hand: Child,
}

impl Switch {
    /// Cuts the power: nothing more reaches the image, not even the journal that is in memory.
    ///
    /// What a sync reports while this runs does not count: an `fdatasync` of ext4 may return 0 though the shutdown just dropped its
    /// transaction (seen without self, too). With the power gone nobody would have been told.
    pub fn cut(mut self) {
        drop(self.hand.stdin.take());
        assert!(self.hand.wait().unwrap().success(), "the ioctl failed");
    }
}
