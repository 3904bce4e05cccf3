//! What becomes of a home's index before each call, by `TEST_INDEX` of whoever runs the tests.
//!
//! `deleted`: it is removed. `none`: a file stands in its place, so that none can be written once there is a `.self`. Unset: it
//! stays, and so it does for calls from a thread of a test's own, beside which another self may run. Tests that are about the
//! index itself always keep it, and are told.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::thread;

use crate::home::skipped;

/// Tests that are about the index itself, or compare a home's files around a call, by the start of their names.
const ABOUT_THE_INDEX: [&str; 3] = ["index::", "confinement::the_doctor_only_looks", "verify::verifying_changes_nothing"];

/// Which of them were told.
static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Does to a home's index what the run of the tests asks for.
pub fn before_a_call(home: &Path) {
    let Some(mode) = std::env::var_os("TEST_INDEX") else { return };
    let Some(test) = thread::current().name().map(str::to_owned) else { return };
    if ABOUT_THE_INDEX.iter().any(|about| test.starts_with(about)) {
        if TOLD.lock().unwrap().insert(test.clone()) {
            skipped(&test, "it is about the index, which is kept for it");
        }
        return;
    }
    let index = home.join(".self/index");
    // What stands in the way on purpose is left to the test.
    if fs::symlink_metadata(&index).is_ok_and(|facts| facts.is_dir()) {
        drop(fs::remove_dir_all(&index));
    }
    match mode.to_str() {
        Some("deleted") => {}
        Some("none") if home.join(".self").is_dir() => drop(fs::File::create_new(&index)),
        Some("none") => {}
        Some(_) | None => panic!("TEST_INDEX is `deleted` or `none`"),
    }
}
