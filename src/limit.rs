//! Limits of a run, and how a run ends.
//!
//! Values and words; holds nobody to anything. The invariant: an ending has one word in payloads and one in messages, and the limit
//! that was passed first is named in both.

use std::fmt;
use std::time::Duration;

/// How long a script may take, unless the caller says otherwise, in seconds.
pub const WALL_SECONDS: u64 = 10;

/// How much a script may print, in bytes.
pub const OUTPUT_BYTES_MAX: u64 = 64 << 20;

/// How much of the end of its stderr is kept, in bytes.
pub const ERROR_BYTES_KEPT: usize = 64 << 10;

/// How many processes a script may be at a time.
pub const PROCESSES_MAX: u32 = 256;

/// How much data memory each of its processes may have, in bytes.
pub const DATA_BYTES_MAX: u64 = 1 << 30;

/// How large a file it may write, in bytes.
pub const FILE_BYTES_MAX: u64 = 64 << 20;

/// How many descriptors each of its processes may have.
pub const DESCRIPTORS_MAX: u64 = 256;

/// How far a script may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The time it may take.
    pub wall: Duration,
    /// What it may print, in bytes.
    pub output_bytes: u64,
    /// What is kept of the end of its stderr, in bytes.
    pub error_bytes_kept: usize,
    /// The processes it may be at a time.
    pub processes: u32,
    /// The data memory of each process, in bytes.
    pub data_bytes: u64,
    /// The size of a file it writes, in bytes.
    pub file_bytes: u64,
    /// The descriptors of each process.
    pub descriptors: u64,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The script exited with this status.
    Exited(i32),
    /// This signal ended it.
    Signal(i32),
    /// It passed a limit.
    Limit(Limit),
    /// The caller wanted it ended.
    Stopped,
}

/// A limit, and where it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// The time.
    Time(Duration),
    /// What it printed, in bytes.
    Output(u64),
    /// How many processes it was.
    Processes(u32),
    /// The size of a file it wrote, in bytes.
    File(u64),
}

impl Limits {
    /// The limits that every script has, with this time.
    #[must_use]
    pub fn within(wall: Duration) -> Limits {
        Limits {
            wall,
            output_bytes: OUTPUT_BYTES_MAX,
            error_bytes_kept: ERROR_BYTES_KEPT,
            processes: PROCESSES_MAX,
            data_bytes: DATA_BYTES_MAX,
            file_bytes: FILE_BYTES_MAX,
            descriptors: DESCRIPTORS_MAX,
        }
    }
}

impl Limit {
    /// Its name, as a payload has it behind `limit:`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Limit::Time(_) => "time",
            Limit::Output(_) => "output",
            Limit::Processes(_) => "processes",
            Limit::File(_) => "file",
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::Time(wall) => write!(f, "the time limit of {} s", wall.as_secs_f64()),
            Limit::Output(bytes) => write!(f, "the output limit of {}", size(*bytes)),
            Limit::Processes(count) => write!(f, "the limit of {count} processes"),
            Limit::File(bytes) => write!(f, "the limit of {} for a file", size(*bytes)),
        }
    }
}

fn size(bytes: u64) -> String {
    if bytes > 0 && bytes.is_multiple_of(1 << 20) { format!("{} MiB", bytes >> 20) } else { format!("{bytes} bytes") }
}

impl Ending {
    /// The ending as the JSON value that `capability.died` has for `exit`: `3`, `"signal:9"`, `"limit:time"`. A run that the
    /// caller stopped is no death, and has none.
    #[must_use]
    pub fn json(self) -> Option<String> {
        match self {
            Ending::Exited(status) => Some(status.to_string()),
            Ending::Signal(signal) => Some(format!("\"signal:{signal}\"")),
            Ending::Limit(limit) => Some(format!("\"limit:{}\"", limit.name())),
            Ending::Stopped => None,
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::Exited(status) => write!(f, "it exited with status {status}"),
            Ending::Signal(signal) => write!(f, "signal {signal} ended it"),
            Ending::Limit(limit) => write!(f, "it passed {limit}"),
            Ending::Stopped => write!(f, "it was stopped"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ending_has_its_word_and_its_value() {
        let second = Duration::from_millis(1500);
        for (ending, words, json) in [
            (Ending::Exited(3), "it exited with status 3", Some("3")),
            (Ending::Signal(9), "signal 9 ended it", Some("\"signal:9\"")),
            (Ending::Limit(Limit::Time(second)), "it passed the time limit of 1.5 s", Some("\"limit:time\"")),
            (Ending::Limit(Limit::Output(OUTPUT_BYTES_MAX)), "it passed the output limit of 64 MiB", Some("\"limit:output\"")),
            (Ending::Limit(Limit::Processes(256)), "it passed the limit of 256 processes", Some("\"limit:processes\"")),
            (Ending::Limit(Limit::File(5)), "it passed the limit of 5 bytes for a file", Some("\"limit:file\"")),
            (Ending::Stopped, "it was stopped", None),
        ] {
            assert_eq!((ending.to_string().as_str(), ending.json().as_deref()), (words, json));
        }
    }
}
