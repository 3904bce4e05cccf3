//! A pseudoterminal, for what the kernel does only at a terminal.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::process::Stdio;

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// Both ends of a pseudoterminal: ours, and the one that a program takes for a terminal.
pub struct Terminal {
    ours: OwnedFd,
    theirs: OwnedFd,
}

impl Terminal {
    /// Opens a new one, which becomes nobody's controlling terminal.
    pub fn open() -> Terminal {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let theirs = open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        Terminal { ours, theirs }
    }

    /// The program's end.
    pub fn end(&self) -> Stdio {
        self.theirs.try_clone().unwrap().into()
    }

    /// Our end, which reports its close once the program has let go of the other.
    pub fn into_reader(self) -> File {
        File::from(self.ours)
    }
}
