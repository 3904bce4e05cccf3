//! The bench: that it measures, beside another program too, and says by how much a target is missed.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::home::{Home, SELF, has, skipped};

#[test]
fn the_bench_prints_every_verb_and_the_peer_beside_it() {
    if !has("python3") {
        return skipped("the_bench_prints_every_verb_and_the_peer_beside_it", "no python3 here");
    }
    let home = Home::new();
    let peer = home.beside("bin/peer");
    fs::write(&peer, "#!/bin/sh\ncat >> \"$SELF_HOME/heard\"\n").unwrap();
    fs::set_permissions(&peer, fs::Permissions::from_mode(0o755)).unwrap();
    let bench = concat!(env!("CARGO_MANIFEST_DIR"), "/bench/bench.py");
    let call = home.program("python3", [bench, SELF, "--small", "--peer", peer.to_str().unwrap()]);
    let told = call.env("TMPDIR", home.beside("user")).stdout_any().check().text();
    let row = |start: &str| told.lines().filter(|line| line.starts_with(start)).count();
    for verb in [
        "append, nobody consumes it  ",
        "ask  ",
        "run, the script drains the log",
        "show, 28 % of the log",
        "log -n 20",
        "log --name 'note.*' --since 2d -n 20",
        "log --name rare.made -n 5",
        "first command, no index",
        "after another program's append",
        "peer: ask",
    ] {
        assert_eq!(row(verb), 2, "{verb}:\n{told}");
    }
    // A peer that only keeps what it hears costs too little for the target.
    let ratio = "ask: the peer's CPU / ours at 1,000 ";
    assert!(told.lines().any(|line| line.starts_with(ratio) && line.contains(">= 15   MISSED, ")), "{told}");
    assert_eq!(row("feed of one name, "), 1, "{told}");
    assert_eq!(fs::read_dir(home.beside("user")).unwrap().count(), 0, "something is left over");
}
