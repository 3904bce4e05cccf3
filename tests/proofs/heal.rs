//! A kill at any moment of a run leaves derived files old or new, never half, and the next command heals them.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

const ROUNDS: u64 = 120;
const STEP: Duration = Duration::from_millis(1);

const BODY: &str = r#"{"name":"command.declared","payload":{"name":"entry","event":{"name":"journal.entry","fields":{"n":"string"}}}}
{"name":"projector.declared","payload":{"name":"journal","consumes":["journal.entry"]}}
```self command/entry
#!/bin/sh
printf '{"name":"journal.entry","payload":{"n":"%s"}}\n' "$1"
```
```self projector/journal
#!/bin/sh
n=0; while read -r line; do n=$((n + 1)); done; printf '<p>%s</p>\n' "$n"
```
"#;

fn kernel(home: &Path, arguments: &[&str]) -> Command {
    let mut kernel = Command::new(env!("CARGO_BIN_EXE_self"));
    kernel.args(arguments).env("SELF_HOME", home).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    kernel
}

fn done(home: &Path, arguments: &[&str]) -> Output {
    let output = kernel(home, arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

#[test]
fn d13_a_kill_at_any_moment_of_a_run_is_healed_by_the_next_command() {
    let folder = tempfile::tempdir().unwrap();
    let (home, copy) = (folder.path().join("home"), folder.path().join("copy"));
    let body = folder.path().join("body");
    fs::write(&body, BODY).unwrap();
    assert!(kernel(&home, &["hear"]).stdin(fs::File::open(&body).unwrap()).status().unwrap().success());
    let mut killed = 0;
    for round in 0..ROUNDS {
        let mut child = kernel(&home, &["run", "entry", &round.to_string()]).spawn().unwrap();
        sleep(STEP * u32::try_from(round % 60).unwrap());
        child.kill().unwrap();
        killed += u64::from(child.wait().unwrap().code().is_none());
        let entries =
            fs::read_to_string(home.join("events.jsonl")).unwrap().matches(",\"name\":\"journal.entry\",\"occurred_at\"").count();
        let page = done(&home, &["show", "journal"]).stdout;
        assert_eq!(String::from_utf8(page).unwrap(), format!("<p>{entries}</p>\n"), "round {round}");
    }
    done(&home, &["run", "entry", "last"]);
    fs::create_dir(&copy).unwrap();
    for file in ["events.jsonl", ".secret"] {
        fs::copy(home.join(file), copy.join(file)).unwrap();
    }
    done(&copy, &["rehydrate"]);
    for derived in ["site", "capabilities"] {
        let diff = Command::new("diff").arg("-r").args([home.join(derived), copy.join(derived)]).output().unwrap();
        assert!(diff.status.success(), "{}", String::from_utf8_lossy(&diff.stdout));
    }
    println!("d13: {ROUNDS} rounds, {killed} killed in the middle; every page healed by the next command");
    assert!(killed > ROUNDS / 10, "the kills came too late to show anything: {killed}");
}
