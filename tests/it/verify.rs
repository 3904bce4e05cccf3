//! `self verify`: what it proves of a home, what it finds, and that it changes nothing. FORMATS §9.

use std::fs;
use std::path::PathBuf;

use self_kernel::audit::Audit;
use self_kernel::log::{Log, Places};
use self_kernel::receipt::Secret;
use self_kernel::seal::Chain;
use serde_json::Value;

use crate::home::{Home, batch, first_line, line, line_as};

const NOTE: &str = r#"{"name":"note.taken","payload":{"n":1}}"#;
const GROWN: &str = r#"{"name":"command.declared","payload":{"name":"x","event":{"name":"a.b"}}}
{"name":"projector.declared","payload":{"name":"count","consumes":["a.b"]}}
```self command/x
#!/bin/sh
echo '{"name":"a.b","payload":{"n":1}}'
```
```self projector/count
#!/bin/sh
n=0; while read -r line; do n=$((n + 1)); done; printf '<p>%s</p>\n' "$n"
```
"#;

/// A home with a command, a page and a seal: seven events, the last one the seal.
fn grown() -> Home {
    let home = Home::new();
    home.hear(GROWN);
    assert_eq!(home.count("log.sealed"), 1, "{:?}", home.told());
    home
}

fn report(home: &Home) -> Value {
    serde_json::from_slice(&home.run(["verify", "--json"]).end().stdout).unwrap()
}

/// The faults, each as `line@byte fault`, or only the fault.
fn faults(home: &Home) -> Vec<String> {
    let told = |fault: &Value| match fault["line"].as_u64() {
        Some(line) => format!("{line}@{} {}", fault["offset"], fault["fault"].as_str().unwrap()),
        None => fault["fault"].as_str().unwrap().to_owned(),
    };
    report(home)["faults"].as_array().unwrap().iter().map(told).collect()
}

#[test]
fn a_home_is_proven_up_to_its_last_seal() {
    let home = grown();
    let log = home.log();
    let last = log[..log.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    let place = format!("proven: all lines in front of the seal at seq 6, line 6, byte {last}\n");
    let (lines, bytes) = (home.records().len(), log.len());
    assert_eq!(lines, 6);
    let text = format!(
        "log: events 6, lines 6, bytes {bytes}\n{place}not sealed yet: events 0\n\
         seals that hold: 1, genuine receipts: 2, derived files as they must be: 5\nno fault\n"
    );
    home.run(["verify"]).stdout(text).check();
    home.run(["run", "x"]).stdout_any().check();
    home.run(["verify"]).stdout_has(&[&place, "not sealed yet: events 1\n", "no fault\n"]).check();
    let report = report(&home);
    assert_eq!(
        (report["ok"].as_bool(), report["unsealed"].as_u64(), report["proven"]["line"].as_u64()),
        (Some(true), Some(1), Some(6))
    );
}

#[test]
fn verifying_changes_nothing() {
    let home = grown();
    home.append("{\"torn");
    fs::write(home.join("site/count.html"), "edited").unwrap();
    let all = || -> Vec<(PathBuf, Vec<u8>)> {
        home.files().into_iter().map(|path| (path.clone(), fs::read(home.join(path)).unwrap())).collect()
    };
    let before = all();
    home.run(["verify"]).status(1).stdout_any().check();
    assert_eq!(all(), before);
}

#[test]
fn what_is_no_home_is_not_verified() {
    let home = Home::new();
    home.run(["verify"]).status(1).stderr_has(&["there is no home in"]).check();
    assert_eq!(home.files(), Vec::<PathBuf>::new());
}

#[test]
fn a_log_without_a_key_is_read_and_nothing_of_it_is_proven() {
    let home = Home::with_log(first_line());
    home.run(["verify"]).stdout_has(&["proven: nothing", "not sealed yet: events 1", "there is no key yet", "no fault"]).check();
    assert!(!home.join(".secret").exists());
}

#[test]
fn k3_without_the_key_it_says_what_cannot_be_proven() {
    let home = grown();
    let key = fs::read(home.join(".secret")).unwrap();
    fs::remove_file(home.join(".secret")).unwrap();
    let said = "the key `.secret` is missing: seals and receipts that cannot be proven: 3";
    home.run(["verify"]).status(1).stdout_has(&["proven: nothing", said, "were not compared"]).check();
    home.run(["verify", "--seal"]).status(1).stdout_has(&["nothing was sealed: the key is not here"]).check();
    home.write_private(".secret", "00".repeat(32));
    assert_eq!(faults(&home).iter().filter(|fault| fault.contains("this key") || fault.contains("inert")).count(), 3);
    home.write_private(".secret", &key);
    home.run(["verify"]).stdout_any().check();
}

#[test]
fn a_seal_is_written_only_when_asked_for_and_only_once() {
    let home = Home::made();
    home.run(["verify"]).stdout_has(&["proven: nothing", "not sealed yet: events 2"]).check();
    home.run(["verify", "--seal"])
        .stdout_has(&["seal at seq 3, line 3", "not sealed yet: events 0", "note: sealed: seq 3"])
        .check();
    home.run(["verify", "--seal"]).stdout_has(&["nothing was sealed: all is sealed already"]).check();
    assert_eq!(home.count("log.sealed"), 1);
    home.hear(NOTE);
    home.run(["verify", "--seal"]).stdout_has(&["seal at seq 5", "seals that hold: 2"]).check();
}

#[test]
fn a_log_of_another_program_seals_and_its_faults_stay_named() {
    let log = "\u{feff}".to_owned()
        + &first_line().replace('\n', "\r\n")
        + "\n \r\nnot a record\n"
        + "{\"NAME\":\"no payload\",\"seq\":2}\n"
        + &line(3, "pipe", "a.b", "{ \"x\" : 1.10 }");
    let home = Home::with_log(log.trim_end());
    let sealed =
        home.run(["verify", "--seal"]).status(1).stdout_has(&["note: sealed: seq 4", "not sealed yet: events 0"]).check();
    assert!(sealed.text().contains("fault: line 4, byte"), "{}", sealed.text());
    assert_eq!(faults(&home).len(), 1);
    let changed = String::from_utf8(home.log()).unwrap().replace(" \r\n", "\r\n");
    home.write_log(changed);
    assert!(
        faults(&home).iter().any(|fault| fault.contains("lines 1 to 6, from byte 0 on, are not those")),
        "{:?}",
        faults(&home)
    );
}

#[test]
fn each_fault_of_a_log_is_named_by_line_and_byte() {
    let one = first_line();
    let at = one.len();
    let same = format!("{:032x}", 1);
    let hole = batch(2, &[("a.b", "{}"), ("c.d", "{}"), ("e.f", "{}")]);
    let check = |rest: &str, expect: &[&str]| {
        let home = Home::with_log(one.clone() + rest);
        assert_eq!(faults(&home), expect, "{rest}");
        assert_eq!(home.run(["verify"]).end().status, i32::from(!expect.is_empty()));
    };
    check("", &[]);
    check(&line(2, "pipe", "a.b", "{}"), &[]);
    check(&format!("bad\n{}", line(2, "pipe", "a.b", "{}")), &[&format!("2@{at} damaged: neither a record nor blank")]);
    check(&line_as(&same, 2, "pipe", "a.b", "{}"), &[&format!("2@{at} the id `{same}` stands in front of it already")]);
    check(&line(900, "pipe", "a.b", "{}"), &[&format!("2@{at} seq 900 where 2 is due")]);
    check("{\"name\":\"a.b\"}\n", &[&format!("2@{at} no usable seq; it counts as 2")]);
    check("{\"name\":\"a.b\",\"seq\":\"2\"}\n", &[&format!("2@{at} no usable seq; it counts as 2")]);
    check(&hole.concat(), &[]);
    let begins = format!("2@{at} a batch of 3 begins or goes on here, and record 2 does not follow");
    let third = at + hole[0].len();
    let stray = format!("3@{third} record 3 of a batch of 3, and the one before it is not in front of it");
    let seq = format!("3@{third} seq 4 where 3 is due");
    check(&[&hole[0], &hole[2], &line(5, "pipe", "a.b", "{}")].map(String::as_str).concat(), &[&seq, &begins, &stray]);
    check(
        &line(2, "kernel", "log.sealee", "{}"),
        &[&format!("2@{at} `log.sealee` through the kernel's door is none of its names")],
    );
    check(&line(2, "pipe", "log.sealed", "{}"), &[&format!("2@{at} a seal, but not through the kernel's door")]);
    check("{\"torn", &[&format!("2@{at} torn: 6 bytes from here on are no whole batch; the next append sets them aside")]);
}

#[test]
fn d10_a_line_that_was_deleted_inserted_or_moved_is_found() {
    let home = grown();
    let log = String::from_utf8(home.log()).unwrap();
    let lines: Vec<&str> = log.split_inclusive('\n').collect();
    for at in 0..lines.len() - 1 {
        let mut deleted = lines.clone();
        deleted.remove(at);
        let mut moved = lines.clone();
        moved.swap(at, at + 1);
        let mut twice = lines.clone();
        twice.insert(at, lines[at]);
        let mut blank = lines.clone();
        blank.insert(at, "\n");
        for (what, changed) in [("deleted", deleted), ("moved", moved), ("twice", twice), ("blank", blank)] {
            home.write_log(changed.concat());
            home.run(["verify"]).status(1).stdout_any().check();
            assert!(!faults(&home).is_empty(), "{what} {at}");
        }
    }
    home.write_log(&log);
    home.run(["verify"]).stdout_any().check();
}

/// Goes through these bytes as a log, in this process; the faults as their lines, or as the lines that a broken seal covers.
fn audited(places: &Places, secret: &Secret, log: &[u8]) -> Vec<(u64, u64)> {
    fs::write(&places.log, log).unwrap();
    let log = Log::open(places).unwrap().unwrap();
    let (mut audit, mut chain) = (Audit::new(Some(secret.clone())), Chain::default());
    log.chain(&mut chain, |stood, chain| audit.take(stood, chain)).unwrap();
    audit.end();
    if log.tail().torn_bytes() > 0 {
        audit.fault_at(chain.lines() + 1, log.tail().whole, "torn".into());
    }
    let covered = |fault: &self_kernel::audit::Fault| {
        let numbers: Vec<u64> = fault.fault.split(' ').filter_map(|word| word.parse().ok()).collect();
        let line = fault.line.unwrap();
        if fault.fault.starts_with("lines ") { (numbers[0], line) } else { (line, line) }
    };
    audit.faults.iter().map(covered).collect()
}

#[test]
fn d10_any_flipped_bit_in_a_sealed_log_is_found_and_its_line_is_named() {
    let home = grown();
    let log = home.log();
    let secret = Secret::read(&fs::read(home.join(".secret")).unwrap()).unwrap();
    let path = |name: &str| home.beside(name);
    let places = Places { log: path("flipped"), lock: path("no lock"), torn: path("no torn") };
    assert_eq!(audited(&places, &secret, &log), []);
    let seal = log[..log.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap();
    let mut line = 1;
    for at in 0..log.len() {
        // Every bit of the seal's own line, one bit of each byte in front of it.
        for bit in (0..8).filter(|bit| at >= seal || *bit == at % 8) {
            let mut flipped = log.clone();
            flipped[at] ^= 1 << bit;
            let faults = audited(&places, &secret, &flipped);
            // What is left of the last batch, three lines, is torn from its first line on: that names the line too.
            let named = faults.iter().any(|(from, to)| (from.saturating_sub(2)..=*to + 2).contains(&line));
            assert!(named, "byte {at}, bit {bit}, line {line}: {faults:?}");
        }
        line += u64::from(log[at] == b'\n');
    }
}

#[test]
fn behind_a_changed_stretch_the_next_seals_are_judged_by_themselves() {
    let home = Home::made();
    for _ in 0..3 {
        home.hear(NOTE);
        home.run(["verify", "--seal"]).stdout_any().check();
    }
    let log = String::from_utf8(home.log()).unwrap();
    home.write_log(log.replacen("\"n\":1", "\"n\":2", 1));
    let faults = faults(&home);
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(
        faults[0].starts_with("4@") && faults[0].ends_with("lines 1 to 3, from byte 0 on, are not those that this seal covers")
    );
    home.run(["verify", "--seal"]).status(1).stdout_has(&["proven: nothing", "seals that hold: 2", "nothing was sealed"]).check();
}

#[test]
fn d11_an_old_receipt_copied_to_the_end_is_named() {
    let home = grown();
    let log = String::from_utf8(home.log()).unwrap();
    let receipt = log.lines().find(|line| line.contains("\"script.compiled\"")).unwrap().to_owned() + "\n";
    home.append(&receipt);
    assert!(faults(&home).iter().any(|fault| fault.ends_with("this receipt does not verify at its place: it is inert")));
}

#[test]
fn a_tail_that_was_set_aside_is_compared_and_a_missing_one_is_said() {
    let home = Home::made();
    home.append("{\"torn");
    home.hear(NOTE);
    home.run(["verify"]).stdout_has(&["no fault"]).check();
    let name = home.torn().remove(0).0;
    let path = home.join(".self/torn").join(&name);
    fs::write(&path, "{\"tarn").unwrap();
    let fault = format!("`.self/torn/{name}` is not the tail that was set aside");
    assert!(faults(&home)[0].ends_with(&fault) && faults(&home)[0].starts_with("3@"), "{:?}", faults(&home));
    fs::remove_file(&path).unwrap();
    home.run(["verify"])
        .stdout_has(&[&format!("note: `.self/torn/{name}`, set aside by seq 3, is not here"), "no fault"])
        .check();
}

#[test]
fn scripts_on_disk_are_those_in_force() {
    let home = grown();
    let script = home.join("capabilities/commands/x/run");
    let bytes = fs::read(&script).unwrap();
    fs::write(&script, "#!/bin/sh\n").unwrap();
    assert_eq!(faults(&home), ["`capabilities/commands/x/run` is not the script that was signed for command/x"]);
    fs::remove_file(&script).unwrap();
    assert_eq!(faults(&home), ["`capabilities/commands/x/run` is missing, or no plain file"]);
    fs::write(&script, &bytes).unwrap();
    fs::write(home.join("capabilities/commands/stray"), "").unwrap();
    assert_eq!(faults(&home), ["`capabilities/commands/stray` is no script in force"]);
}

#[test]
fn a_copied_home_is_sound_before_it_is_rebuilt() {
    let home = grown();
    home.sh("mkdir ../copy && cp -p events.jsonl .secret ../copy && cd ../copy && self verify")
        .stdout_has(&["not in place yet", "no fault"])
        .check();
    home.sh("cd ../copy && self rehydrate && self verify").stdout_has(&["as they must be: 5", "no fault"]).stderr_any().check();
}

#[test]
fn a_page_is_what_a_new_rendering_gives_and_one_that_is_behind_is_stale() {
    let home = grown();
    let page = home.join("site/count.html");
    fs::write(&page, "<p>0</p>\n").unwrap();
    home.run(["verify"]).stdout_has(&["no fault"]).check();
    fs::write(&page, "<p>7</p>\n").unwrap();
    assert_eq!(faults(&home), ["`site/count.html` is not what a new rendering gives"]);
    fs::remove_file(&page).unwrap();
    assert_eq!(faults(&home), ["`site/count.html` is missing, or no plain file"]);
    home.run(["show", "count"]).stdout("<p>0</p>\n").check();
    home.append(line(7, "pipe", "a.b", "{}"));
    home.run(["verify"]).stdout_has(&["stale: site/count.html\n", "no fault"]).check();
    assert_eq!(fs::read_to_string(&page).unwrap(), "<p>0</p>\n", "rendered in scratch, never in place");
    fs::write(home.join("site/brief.md"), "edited").unwrap();
    home.hear(NOTE);
    assert_eq!(faults(&home), Vec::<String>::new());
}

#[test]
fn a_log_that_has_been_longer_is_a_fault_until_another_command_took_note() {
    let home = Home::made();
    let old = home.log();
    home.hear(NOTE);
    home.write_log(&old);
    for _ in 0..2 {
        assert!(faults(&home)[0].contains("1 event is missing"), "{:?}", faults(&home));
    }
    home.run(["verify", "--seal"]).status(1).stdout_has(&["nothing was sealed"]).check();
    home.run(["quiet"]).stderr_has(&["1 event is missing"]).check();
    home.run(["verify"]).stdout_has(&["no fault"]).check();
}
