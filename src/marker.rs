//! Turn markers: the files in `.self/turns` that a prompt leaves for the self that will hear its answer.
//!
//! Reads, writes and sweeps those files and no others; what is not a marker of this form is passed over. A marker appears whole
//! (temp file and rename) or not at all. FORMATS.md §3 has the form.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use serde::{Deserialize, Serialize};

use crate::proc;
use crate::walk::Pipe;

/// The largest file that can be a marker, in bytes.
const MARKER_BYTES_MAX: u64 = 64 << 10;

/// How many markers may stand before a sweep looks whether anybody still holds their pipes.
const MARKERS_MAX: usize = 64;

/// How old a marker may get.
const AGE_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// What a marker says of its prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Word {
    /// None was made, or not yet.
    Failed,
    Ask,
    Work,
    Learn,
}

/// The line of a marker file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Marker {
    pub(crate) boot: String,
    pub(crate) pidns: u64,
    /// The pipe that the prompt is printed into.
    pub(crate) pipe: Pipe,
    /// That pipe and those downstream of it.
    pub(crate) down: Vec<Pipe>,
    pub(crate) kind: Word,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ask: Option<u64>,
    /// Where there is no `/proc`: the job that the prompt was printed in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) job: Option<String>,
}

/// Which system this is: a pipe's inode means something within one boot only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct System {
    pub(crate) boot: String,
    pub(crate) pidns: u64,
}

impl System {
    /// Reads the boot id and the pid namespace off `/proc`; what is not there is empty or 0.
    pub(crate) fn read() -> System {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned();
        let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        let inode = |text: &str| text.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok();
        System { boot, pidns: namespace.to_str().and_then(inode).unwrap_or(0) }
    }
}

/// Makes the directory of the markers, for the owner only; its parent too, if that is missing.
pub(crate) fn make(turns: &Path) -> io::Result<()> {
    if turns.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(turns)
}

/// Reads one marker; `None` if it is gone, foreign or bad.
pub(crate) fn read(path: &Path) -> Option<Marker> {
    parse(&read_bytes(path)?)
}

fn parse(bytes: &[u8]) -> Option<Marker> {
    let marker: Marker = serde_json::from_slice(bytes).ok()?;
    ((marker.kind == Word::Ask) == marker.ask.is_some() && marker.down.contains(&marker.pipe)).then_some(marker)
}

/// Reads a small regular file; never follows a link, never waits for a writer.
pub(crate) fn read_bytes(path: &Path) -> Option<Vec<u8>> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MARKER_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Writes a marker file, mode 0600, in the place of the one that stands there. The file comes back locked if `locked`.
pub(crate) fn write(path: &Path, line: &impl Serialize, locked: bool) -> io::Result<File> {
    let (temp, file) = write_beside(path, line, locked)?;
    fs::rename(&temp, path).inspect_err(|_| drop(fs::remove_file(&temp)))?;
    Ok(file)
}

/// Writes a marker anew only if it still stands: one that was taken stays away. Tells whether it stood.
pub(crate) fn rewrite(path: &Path, line: &impl Serialize) -> io::Result<bool> {
    let (temp, _) = write_beside(path, line, false)?;
    let swapped = match renameat_with(CWD, &temp, CWD, path, RenameFlags::EXCHANGE) {
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::NOTSUP) if path.exists() => {
            return fs::rename(&temp, path).map(|()| true);
        }
        swapped => swapped.is_ok(),
    };
    fs::remove_file(&temp)?;
    Ok(swapped)
}

/// Writes a line into a new file beside `path`; the name begins with a dot, so that no reader takes it for a marker.
fn write_beside(path: &Path, line: &impl Serialize, locked: bool) -> io::Result<(PathBuf, File)> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temp = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let _ = fs::remove_file(&temp);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temp)?;
    let mut bytes = serde_json::to_vec(line)?;
    bytes.push(b'\n');
    let written = if locked { file.lock() } else { Ok(()) }.and_then(|()| file.write_all(&bytes));
    written.inspect_err(|_| drop(fs::remove_file(&temp)))?;
    Ok((temp, file))
}

/// All markers of the directory, with their files.
pub(crate) fn all(turns: &Path) -> Vec<(PathBuf, Marker)> {
    files(turns).into_iter().filter_map(|path| Some((path.clone(), read(&path)?))).collect()
}

/// The files of the directory whose names can be a marker's.
pub(crate) fn files(turns: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(turns) else { return Vec::new() };
    let visible = |entry: &fs::DirEntry| !entry.file_name().as_encoded_bytes().starts_with(b".");
    entries.filter_map(Result::ok).filter(visible).map(|entry| entry.path()).collect()
}

/// Removes stale files. Its faults are nobody's: what stays is swept another time.
pub(crate) fn sweep(turns: &Path, system: &System, now: SystemTime) {
    for path in stale(turns, system, now) {
        let _ = fs::remove_file(&path);
    }
}

/// The stale files: older than [`AGE_MAX`], of another boot, or, where more than [`MARKERS_MAX`] stand, of pipes that no process
/// holds.
pub(crate) fn stale(turns: &Path, system: &System, now: SystemTime) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(turns) else { return Vec::new() };
    let (mut stale, mut standing) = (Vec::new(), Vec::new());
    for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
        let old = |written: SystemTime| now.duration_since(written).is_ok_and(|age| age > AGE_MAX);
        let aged = fs::symlink_metadata(&path).and_then(|meta| meta.modified()).is_ok_and(old);
        let marker = read(&path).filter(|marker| marker.job.is_none());
        if aged || marker.as_ref().is_some_and(|marker| marker.boot != system.boot) {
            stale.push(path);
        } else {
            standing.extend(marker.map(|marker| (path, marker)));
        }
    }
    if standing.len() > MARKERS_MAX {
        let held = proc::held();
        let is_held = |marker: &Marker| marker.pidns != system.pidns || marker.down.iter().any(|pipe| held.contains(pipe));
        stale.extend(standing.into_iter().filter(|(_, marker)| !is_held(marker)).map(|(path, _)| path));
    }
    stale
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn marker(pipe: Pipe) -> Marker {
        Marker { boot: "b".into(), pidns: 3, pipe, down: vec![pipe, 9], kind: Word::Ask, ask: Some(7), job: None }
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_marker_is_one_line_for_the_owner() {
        let home = tempfile::tempdir().unwrap();
        let turns = home.path().join("turns");
        make(&turns).unwrap();
        make(&turns).unwrap();
        let path = turns.join("8");
        write(&path, &marker(8), false).unwrap();
        let line = r#"{"boot":"b","pidns":3,"pipe":8,"down":[8,9],"kind":"ask","ask":7}"#;
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{line}\n"));
        assert_eq!((mode(&turns), mode(&path)), (0o700, 0o600));
        assert_eq!(read(&path), Some(marker(8)));
        assert_eq!(fs::read_dir(&turns).unwrap().count(), 1, "no temp file stays");
        write(&path, &Marker { kind: Word::Work, ask: None, ..marker(8) }, false).unwrap();
        assert!(fs::read_to_string(&path).unwrap().ends_with("\"kind\":\"work\"}\n"));
    }

    #[test]
    fn what_is_no_marker_is_passed_over() {
        for bad in [
            "",
            "x",
            "{}",
            "[]",
            "\u{0}",
            r#"{"boot":"b","pidns":3,"pipe":8,"down":[8],"kind":"ask"}"#,
            r#"{"boot":"b","pidns":3,"pipe":8,"down":[8],"kind":"work","ask":7}"#,
            r#"{"boot":"b","pidns":3,"pipe":8,"down":[9],"kind":"work"}"#,
            r#"{"boot":"b","pidns":3,"pipe":-8,"down":[-8],"kind":"work"}"#,
            r#"{"boot":"b","pidns":3,"pipe":8,"down":[8],"kind":"answered"}"#,
        ] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad}");
        }
        let home = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("nowhere", home.path().join("1")).unwrap();
        fs::create_dir(home.path().join("2")).unwrap();
        fs::write(home.path().join("3"), vec![b' '; 1 << 20]).unwrap();
        rustix::fs::mknodat(CWD, home.path().join("4"), rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600), 0)
            .unwrap();
        assert_eq!(all(home.path()), []);
        assert_eq!(all(&home.path().join("missing")), []);
    }

    #[test]
    fn a_marker_that_was_taken_stays_away() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("8");
        assert!(!rewrite(&path, &marker(8)).unwrap());
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
        write(&path, &marker(1), false).unwrap();
        assert!(rewrite(&path, &marker(8)).unwrap());
        assert_eq!(read(&path), Some(marker(8)));
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    }

    #[test]
    fn stale_markers_are_swept() {
        let home = tempfile::tempdir().unwrap();
        let system = System { boot: "b".into(), pidns: 3 };
        let put = |name: &str, marker: &Marker| drop(write(&home.path().join(name), marker, false).unwrap());
        let names = || {
            let mut names: Vec<String> =
                files(home.path()).iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
            names.sort();
            names
        };
        put("8", &marker(8));
        put("other-boot", &Marker { boot: "a".into(), ..marker(8) });
        fs::write(home.path().join("foreign"), "x").unwrap();
        sweep(home.path(), &system, SystemTime::now());
        assert_eq!(names(), ["8", "foreign"], "few markers stand unread");
        sweep(home.path(), &system, SystemTime::now() + AGE_MAX + Duration::from_secs(60));
        assert_eq!(names(), [""; 0]);

        let Some(here) = proc::Here::find() else { return };
        let (reader, _writer) = std::io::pipe().unwrap();
        let pipe = here.pipe(std::os::fd::AsFd::as_fd(&reader)).unwrap();
        for number in 0..MARKERS_MAX as u64 {
            put(&number.to_string(), &Marker { down: vec![u64::MAX - number], pipe: u64::MAX - number, ..marker(8) });
        }
        put("held", &Marker { pipe, down: vec![pipe], ..marker(8) });
        put("elsewhere", &Marker { pidns: 4, pipe: u64::MAX, down: vec![u64::MAX], ..marker(8) });
        sweep(home.path(), &system, SystemTime::now());
        assert_eq!(names(), ["elsewhere", "held"]);
    }
}
