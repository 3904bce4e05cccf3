//! A git work tree: what git makes of a file in it.
//!
//! Asks `git` two questions that write nothing and start nothing: no lock is taken, no monitor of files started, nothing fetched.
//! Without git, or outside of a work tree, nothing is asked. The invariant: who cannot be asked has said nothing.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::inquiry;
use crate::interpreter::program;

/// How long git may take for its answers.
const GIT_WAITS: Duration = Duration::from_secs(2);

/// What of the environment would make git answer for another repository or index.
const OF_ANOTHER: [&str; 9] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_CONFIG",
    "GIT_CONFIG_PARAMETERS",
    "GIT_CONFIG_COUNT",
];

/// What git makes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It is in the index.
    Tracked,
    /// It is left out by a pattern.
    Ignored,
    /// Neither: the next `git add` of its folder takes it in.
    Open,
    /// Git gave no answer.
    Unknown,
}

impl Standing {
    /// What git makes of a file, named by its real path; `None` outside of a work tree, or where `path`, a `PATH`, offers no git.
    #[must_use]
    pub fn of(file: &Path, path: &OsStr) -> Option<Standing> {
        let (folder, name) = (file.parent()?, file.file_name()?);
        folder.ancestors().find(|above| above.join(".git").symlink_metadata().is_ok())?;
        let git = program("git", path)?;
        let deadline = Instant::now() + GIT_WAITS;
        let ask = |question: &[&str]| {
            let mut command = Command::new(&git);
            command.args(["--no-optional-locks", "--literal-pathspecs", "-c", "core.fsmonitor=false"]).args(question);
            command.arg("--").arg(name).current_dir(folder).env("PATH", path).env("GIT_NO_LAZY_FETCH", "1");
            for variable in OF_ANOTHER {
                command.env_remove(variable);
            }
            inquiry::ask(command, deadline).ok().flatten()
        };
        // Each answer names the file, so that no answer is none: `?` in front of what is in no index, another letter of what is.
        let listed = ask(&["ls-files", "-t", "-z", "--cached", "--others", "--exclude-standard"])
            .map(|answer| answer.first().map(|tag| if *tag == b'?' { Standing::Open } else { Standing::Tracked }));
        Some(match listed {
            Some(Some(standing)) => standing,
            Some(None) => match ask(&["ls-files", "-z", "--others", "--ignored", "--exclude-standard"]) {
                Some(answer) if !answer.is_empty() => Standing::Ignored,
                Some(_) | None => Standing::Unknown,
            },
            None => Standing::Unknown,
        })
    }
}
