//! The executable `self`: environment, clock and randomness, and nothing else.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use self_kernel::append::Disk;
use self_kernel::cell;
use self_kernel::cli;
use self_kernel::completing;
use self_kernel::event::Speaker;
use self_kernel::home::Home;
use self_kernel::interpreter;
use self_kernel::kernel::{Caller, Kernel, World};
use self_kernel::launch::{self, DEPTH, PROBE};
use self_kernel::level::Sandbox;
use self_kernel::logbook::Sight;
use self_kernel::orders::{Orders, Role};
use self_kernel::pager::Screen;
use self_kernel::script::WALL_SECONDS;

fn main() -> ExitCode {
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    match arguments.get(1..).and_then(Orders::read) {
        Some((Role::Launcher, orders)) => return launch::launch(&orders),
        Some((Role::Cell, orders)) => return cell::enter(&orders),
        None => {}
    }
    if let [_, probe, sandbox] = arguments.as_slice()
        && probe == PROBE
    {
        return launch::probe(sandbox.to_str().and_then(Sandbox::read).unwrap_or_default());
    }
    if std::env::var_os(DEPTH).is_some() {
        return cli::too_deep();
    }
    // A file-size limit is then an error of the write, and not a death in the middle of an append.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::new(AtomicBool::new(false)));
    let home = std::env::var_os("SELF_HOME").filter(|home| !home.is_empty()).map_or_else(|| PathBuf::from("."), PathBuf::from);
    let home = std::path::absolute(&home).unwrap_or(home);
    let seconds = match std::env::var("SELF_SCRIPT_SECONDS").map(|text| text.parse()) {
        Err(_) => WALL_SECONDS,
        Ok(Ok(seconds @ 1..=3600)) => seconds,
        Ok(_) => return cli::odd_setting("SELF_SCRIPT_SECONDS", "a whole number of seconds from 1 to 3600"),
    };
    let Some(sandbox) = std::env::var_os("SELF_SANDBOX").unwrap_or_default().to_str().and_then(Sandbox::read) else {
        return cli::odd_setting("SELF_SANDBOX", "one of auto, require and off");
    };
    let claim = |name: &str| Speaker::claimed(std::env::var_os(name).map(|claim| claim.to_string_lossy().into_owned()));
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caller = Caller {
        speaker: claim("SELF_CALLER"),
        mind: claim("SELF_MIND_ID"),
        folder: std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
        path: std::env::var_os("PATH").unwrap_or_default(),
        scratch: scratch(),
        executable: std::env::current_exe().unwrap_or_default(),
        script_seconds: seconds,
        user: std::env::var_os("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from),
        state: folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state"))),
        sandbox,
    };
    let world = World {
        now: Timestamp::now,
        random: |bytes| getrandom::fill(bytes).map_err(io::Error::from),
        disk: Disk::real(),
        reach: launch::reach,
        tell: cli::tell,
        offered: interpreter::offered,
    };
    let kernel = Kernel::new(Home::at(home), caller, world);
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(shell) = set(completing::VARIABLE).filter(|_| arguments.get(1).is_some_and(|argument| argument == "--")) {
        return cli::complete(&shell, arguments.split_off(2), kernel);
    }
    let screen = Screen {
        pager: std::env::var_os("PAGER"),
        less: std::env::var_os("LESS"),
        term: std::env::var_os("TERM"),
        no_colour: set("NO_COLOR").is_some(),
    };
    cli::run(arguments, &kernel, &Sight { screen, zone: TimeZone::system }, std::env::var_os("SELF_BIND"))
}

/// Where scratch folders are made: an absolute path, `TMPDIR` or `/tmp`.
fn scratch() -> PathBuf {
    let folder =
        std::env::var_os("TMPDIR").filter(|folder| !folder.is_empty()).map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
    std::path::absolute(&folder).unwrap_or(folder)
}
