//! What confinement costs: `sh -c :` by itself, and as a script at each level (TRUST §2, S12).

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use self_kernel::grant::{Place, by_default};
use self_kernel::home::Home;
use self_kernel::level::{Level, Sandbox};
use self_kernel::script::{Ending, Hold, Limits, Run, run};

const ROUNDS: usize = 60;

/// How often it is measured anew while others are busy.
const BATCHES: usize = 3;

/// How much a level may add, in the middle of all rounds.
const ADDED_MAX: Duration = Duration::from_millis(10);

const LIMITS: Duration = Duration::from_secs(60);

fn time(work: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    work();
    begun.elapsed()
}

fn plain() {
    let status = Command::new("/bin/sh").args(["-c", ":"]).stdin(Stdio::null()).status().unwrap();
    assert!(status.success());
}

/// One run, with all that a command's run has to find out first.
fn confined(home: &Home, scratch: &Path, most: Level, round: usize) {
    let place = Place { home, user: scratch, state: None, folder: scratch };
    let granted = by_default(place, Path::new("/bin/sh"), true);
    let name = format!("self-{}-{round}", most.word());
    let interpreter: [OsString; 1] = ["/bin/sh".into()];
    let stop = AtomicBool::new(false);
    let order = Run {
        launcher: Path::new(env!("CARGO_BIN_EXE_self")),
        script: b"#!/bin/sh\n:\n",
        interpreter: &interpreter,
        arguments: &[],
        environment: &[],
        folder: None,
        scratch_parent: scratch,
        scratch_name: &name,
        limits: Limits::within(LIMITS),
        hold: Hold { most, least: most, grants: &granted.grants, net: false, links: &[] },
        strays: 0,
        stop: &stop,
    };
    let ran = run(&order, &mut || Ok(None)).unwrap();
    assert_eq!((ran.ending, ran.level), (Ending::Exited(0), most));
}

/// What each level takes, after what `sh -c :` by itself takes: the least and the middle of all rounds.
fn measured(home: &Home, scratch: &Path, levels: &[Level], batch: usize) -> Vec<[Duration; 2]> {
    let mut taken = vec![Vec::new(); levels.len() + 1];
    for round in 0..ROUNDS {
        taken[0].push(time(plain));
        for (at, level) in levels.iter().enumerate() {
            taken[at + 1].push(time(|| confined(home, scratch, *level, batch * ROUNDS + round)));
        }
    }
    let cell = |mut taken: Vec<Duration>| {
        taken.sort();
        [taken[0], taken[taken.len() / 2]]
    };
    taken.into_iter().map(cell).collect()
}

#[test]
fn s12_confinement_adds_less_than_ten_milliseconds() {
    let folder = tempfile::tempdir().unwrap();
    let scratch = folder.path().canonicalize().unwrap();
    let home = Home::at(scratch.join("home"));
    let reach = self_kernel::launch::try_out(Path::new(env!("CARGO_BIN_EXE_self")), Sandbox::Auto);
    let levels: Vec<_> = [Level::Limits, Level::Landlock, Level::Full].into_iter().filter(|it| *it <= reach.level).collect();
    let ms = |taken: Duration| taken.as_secs_f64() * 1000.0;
    let names: Vec<_> = ["sh -c :"].into_iter().chain(levels.iter().map(|level| level.word())).collect();
    // Others may be busy on this machine: one quiet batch is what counts.
    for batch in 0..BATCHES {
        let cells = measured(&home, &scratch, &levels, batch);
        println!("cost of a run, {ROUNDS} rounds      least  median   added to both, ms");
        for (name, cell) in names.iter().zip(&cells) {
            let [least, middle] = [0, 1].map(|at| ms(cell[at].saturating_sub(cells[0][at])));
            println!("  {name:<30} {:>5.2}   {:>5.2}   {least:>5.2} {middle:>5.2}", ms(cell[0]), ms(cell[1]));
        }
        if cells.iter().all(|cell| cell[1].saturating_sub(cells[0][1]) < ADDED_MAX) {
            return;
        }
    }
    if reach.level < Level::Full {
        println!("  above {} not measured: {}", reach.level, reach.why);
    }
    // A build for debugging is several times as large and as slow.
    if !cfg!(debug_assertions) {
        panic!("a level adds {ADDED_MAX:?} or more in the middle of each of {BATCHES} batches");
    }
}
