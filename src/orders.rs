//! What the kernel, the launcher and the cell of a run tell each other: orders down as arguments, reports up as lines.
//!
//! Pure text and values; starts nothing. The invariant: what is read is what was written, byte for byte, whatever a path or an
//! argument holds.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use crate::level::Level;

/// How many descriptors travel over the socket: the script's stdin, stdout and stderr.
pub(crate) const ENDS: usize = 3;

/// Who orders are for, by the hidden first argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The process that outlives the script and kills what it leaves.
    Launcher,
    /// The process that confines itself and becomes the script, or the init above it.
    Cell,
}

/// What may be done with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Read and execute.
    Read,
    /// That, and write, make and remove.
    Write,
    /// Read and write a device.
    Device,
}

/// A path that a script is granted: absolute, and without a link on its way.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grant {
    /// The file or folder.
    pub path: PathBuf,
    /// What may be done with it.
    pub access: Access,
}

/// What the launcher is told, and hands on to the cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orders {
    /// `RLIMIT_DATA`, in bytes.
    pub(crate) data_bytes: u64,
    /// `RLIMIT_FSIZE`, in bytes.
    pub(crate) file_bytes: u64,
    /// `RLIMIT_NOFILE`.
    pub(crate) descriptors: u64,
    /// How many processes the script may be, itself counted.
    pub(crate) processes: u32,
    /// How many process numbers are used up before the script starts.
    pub(crate) strays: u32,
    /// The highest level to run at; for the cell, the level that was made ready.
    pub(crate) most: Level,
    /// The lowest level to run at.
    pub(crate) least: Level,
    /// Whether the network may be used.
    pub(crate) net: bool,
    /// This program.
    pub(crate) program: PathBuf,
    /// The working directory.
    pub(crate) folder: PathBuf,
    /// What may be touched.
    pub(crate) grants: Vec<Grant>,
    /// The interpreter, its arguments, the script's path, the script's arguments.
    pub(crate) words: Vec<OsString>,
}

/// What launcher and cell say, as a line each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Report {
    /// The script runs at this level from here on.
    Level(Level),
    /// The script exited.
    Exited(i32),
    /// A signal ended the script.
    Signal(i32),
    /// The script became too many processes.
    Processes,
    /// The script could not be started, in words.
    Fault(String),
    /// The script could not be confined as it has to be, in words.
    Unconfined(String),
    /// Namespaces were made and are of no use, and this launcher cannot leave them: another has to do without.
    NoNamespaces,
}

impl Role {
    fn word(self) -> &'static str {
        match self {
            Role::Launcher => "--self-launch",
            Role::Cell => "--self-cell",
        }
    }
}

impl Access {
    fn letter(self) -> u8 {
        match self {
            Access::Read => b'r',
            Access::Write => b'w',
            Access::Device => b'd',
        }
    }
}

impl Grant {
    /// A path that may be read and executed.
    #[must_use]
    pub fn read(path: impl Into<PathBuf>) -> Grant {
        Grant { path: path.into(), access: Access::Read }
    }

    /// A path that may be written too.
    #[must_use]
    pub fn write(path: impl Into<PathBuf>) -> Grant {
        Grant { path: path.into(), access: Access::Write }
    }

    fn word(&self) -> OsString {
        OsString::from_vec([&[self.access.letter()], self.path.as_os_str().as_bytes()].concat())
    }

    fn parse(word: &OsStr) -> Option<Grant> {
        let (letter, path) = word.as_bytes().split_first()?;
        let access = [Access::Read, Access::Write, Access::Device].into_iter().find(|access| access.letter() == *letter)?;
        Some(Grant { path: OsStr::from_bytes(path).into(), access })
    }
}

impl Orders {
    /// The arguments that say this to a `self`.
    pub(crate) fn arguments(&self, role: Role) -> Vec<OsString> {
        let numbers = [self.data_bytes, self.file_bytes, self.descriptors, self.processes.into(), self.strays.into()];
        let numbers = numbers.map(|number| OsString::from(number.to_string()));
        let levels = [self.most.word(), self.least.word(), if self.net { "net" } else { "-" }].map(OsString::from);
        let paths = [&self.program, &self.folder].map(|path| path.clone().into_os_string());
        let count = OsString::from(self.grants.len().to_string());
        let head = [OsString::from(role.word())].into_iter().chain(numbers).chain(levels).chain(paths).chain([count]);
        head.chain(self.grants.iter().map(Grant::word)).chain(self.words.iter().cloned()).collect()
    }

    /// Reads arguments, those after the program's name; `None` if they are no orders.
    #[must_use]
    pub fn read(arguments: &[OsString]) -> Option<(Role, Orders)> {
        let (role, rest) = arguments.split_first()?;
        let role = [Role::Launcher, Role::Cell].into_iter().find(|known| role == known.word())?;
        let [data, file, descriptors, processes, strays, most, least, net, program, folder, count, rest @ ..] = rest else {
            return None;
        };
        let number = |text: &OsStr| text.to_str()?.parse::<u64>().ok();
        let level = |text: &OsStr| Level::read(text.to_str()?);
        let (grants, words) = rest.split_at_checked(usize::try_from(number(count)?).ok()?)?;
        if words.is_empty() {
            return None;
        }
        let orders = Orders {
            data_bytes: number(data)?,
            file_bytes: number(file)?,
            descriptors: number(descriptors)?,
            processes: number(processes)?.try_into().ok()?,
            strays: number(strays)?.try_into().ok()?,
            most: level(most)?,
            least: level(least)?,
            net: net == "net",
            program: program.into(),
            folder: folder.into(),
            grants: grants.iter().map(|word| Grant::parse(word)).collect::<Option<_>>()?,
            words: words.to_vec(),
        };
        Some((role, orders))
    }
}

impl Report {
    pub(crate) fn line(&self) -> String {
        match self {
            Report::Level(level) => format!("level {level}\n"),
            Report::Exited(status) => format!("exited {status}\n"),
            Report::Signal(signal) => format!("signal {signal}\n"),
            Report::Processes => "processes\n".to_owned(),
            Report::NoNamespaces => "no-namespaces\n".to_owned(),
            Report::Fault(words) => format!("fault {}\n", words.replace('\n', " ")),
            Report::Unconfined(words) => format!("unconfined {}\n", words.replace('\n', " ")),
        }
    }

    /// Reads a line, without its newline.
    pub(crate) fn read(line: &str) -> Option<Report> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "level" => Level::read(rest).map(Report::Level),
            "exited" => rest.parse().ok().map(Report::Exited),
            "signal" => rest.parse().ok().map(Report::Signal),
            "processes" => Some(Report::Processes),
            "no-namespaces" => Some(Report::NoNamespaces),
            "fault" => Some(Report::Fault(rest.to_owned())),
            "unconfined" => Some(Report::Unconfined(rest.to_owned())),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orders() -> Orders {
        Orders {
            data_bytes: 1 << 30,
            file_bytes: 2,
            descriptors: 3,
            processes: 4,
            strays: 8,
            most: Level::Full,
            least: Level::Landlock,
            net: true,
            program: "/bin/self".into(),
            folder: "/a folder\n".into(),
            grants: vec![
                Grant::read("/usr"),
                Grant::write("/a\nb"),
                Grant { path: OsStr::from_bytes(b"/\xff").into(), access: Access::Device },
            ],
            words: vec!["/bin/sh".into(), "-eu".into(), String::new().into()],
        }
    }

    #[test]
    fn orders_arrive_as_they_were_given() {
        for role in [Role::Launcher, Role::Cell] {
            assert_eq!(Orders::read(&orders().arguments(role)), Some((role, orders())));
        }
        let none = Orders { grants: Vec::new(), net: false, ..orders() };
        assert_eq!(Orders::read(&none.arguments(Role::Cell)), Some((Role::Cell, none)));
    }

    #[test]
    fn other_arguments_are_no_orders() {
        let whole = orders().arguments(Role::Launcher);
        assert_eq!(Orders::read(&[]), None);
        for length in 1..whole.len() - 2 {
            assert_eq!(Orders::read(&whole[..length]), None, "{length}");
        }
        for (at, word) in [(0, "ask"), (1, "x"), (6, "top"), (11, "99"), (11, "-1"), (12, "x/usr"), (12, "")] {
            let mut odd = whole.clone();
            odd[at] = word.into();
            assert_eq!(Orders::read(&odd), None, "{at} {word:?}");
        }
    }

    #[test]
    fn a_report_is_one_line() {
        for report in [
            Report::Level(Level::Landlock),
            Report::Exited(3),
            Report::Signal(9),
            Report::Processes,
            Report::NoNamespaces,
            Report::Fault("could not start `x`: no".into()),
            Report::Unconfined("no Landlock".into()),
        ] {
            assert_eq!(Report::read(report.line().strip_suffix('\n').unwrap()), Some(report));
        }
        assert_eq!(Report::Fault("a\nb".into()).line(), "fault a b\n");
        assert_eq!((Report::read("exited"), Report::read("level x")), (None, None));
    }
}
