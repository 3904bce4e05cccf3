//! Homes that the older program wrote open here with all they have: DESIGN §10.

use std::fs::{self, File};
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::home::{Home, records};

const NOTE: &str = r#"{"name":"note.taken","payload":{"n":1}}"#;
const KEY: [u8; 32] = *b"an older program's 32 byte key..";
const SCRIPT: &str = "#!/bin/sh\nprintf '<p>&</p>'\n";

fn mac(parts: &[&[u8]]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(&KEY).unwrap();
    parts.iter().for_each(|part| mac.update(part));
    hex::encode(mac.finalize().into_bytes())
}

/// The older program's JSON strings: `<`, `>`, `&`, U+2028 and U+2029 are escaped.
fn json(text: &str) -> String {
    let plain = serde_json::to_string(text).unwrap();
    [("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026"), ("\u{2028}", "\\u2028"), ("\u{2029}", "\\u2029")]
        .iter()
        .fold(plain, |text, (from, to)| text.replace(from, to))
}

fn v1(kind: &str, name: &str) -> String {
    let sig = mac(&[kind.as_bytes(), b"\0", name.as_bytes(), b"\0", SCRIPT.as_bytes()]);
    format!(r#"{{"type":"{kind}","name":{},"script":{},"sig":"{sig}"}}"#, json(name), json(SCRIPT))
}

pub fn v2(kind: &str, name: &str, by: &str) -> String {
    let mut signed = b"self.receipt.v2\0".to_vec();
    for field in [kind, name, SCRIPT, by] {
        signed.extend_from_slice(format!("{}:{field}", field.len()).as_bytes());
    }
    let sig = mac(&[&signed]);
    format!(r#"{{"type":"{kind}","name":{},"script":{},"by":{},"sig":"{sig}"}}"#, json(name), json(SCRIPT), json(by))
}

pub fn declared(kind: &str, name: &str) -> String {
    let name = json(name);
    let payload = match kind {
        "command" => {
            format!(r#"{{"name":{name},"description":"does it","params":{{"text":"string"}},"event":{{"name":"it.done"}}}}"#)
        }
        _ => format!(r#"{{"name":{name},"description":"shows it","consumes":["it.done"]}}"#),
    };
    older("cli", &format!("{kind}.declared"), &payload)
}

/// A line as the older program wrote it; its `seq` is put by [`older_home`].
fn older(via: &str, name: &str, payload: &str) -> String {
    format!(
        r#"{{"seq":SEQ,"id":"IDENT","occurred_at":"2025-03-04T05:06:07.89Z","name":{},"payload":{payload},"via":"{via}"}}"#,
        json(name)
    )
}

pub fn receipt(payload: &str) -> String {
    older("kernel", "script.compiled", payload)
}

/// A home of the older program with these lines, numbered.
pub fn older_home(lines: &[String]) -> Home {
    let home = Home::new();
    home.write_log(numbered(lines));
    home.write_private(".secret", hex::encode_upper(KEY));
    home
}

fn numbered(lines: &[String]) -> String {
    let number = |(at, line): (usize, &String)| {
        line.replace("SEQ", &(at + 1).to_string()).replace("IDENT", &format!("{:016x}", at + 77)) + "\n"
    };
    lines.iter().enumerate().map(number).collect()
}

/// Asserts that a capability is, or is not, installed: it is in the brief's catalogue, and it is not pending.
#[track_caller]
fn check_installed(lines: &[String], name: &str, installed: bool) {
    let home = older_home(lines);
    let before = home.log();
    home.run(["quiet"]).status(i32::from(!installed)).stderr_any().check();
    let brief = home.run(["show", "brief"]).stdout_any().stderr_any().check().text();
    if installed {
        assert!(brief.contains(name), "`{name}` is not in {brief}");
    }
    home.hear(NOTE);
    assert!(home.log().starts_with(&before), "old bytes changed");
}

#[test]
fn receipts_of_both_older_forms_are_in_force() {
    for kind in ["command", "projector"] {
        check_installed(&[declared(kind, "tally"), receipt(&v1(kind, "tally"))], "tally", true);
        check_installed(&[declared(kind, "tally"), receipt(&v2(kind, "tally", "ada <a&b>"))], "tally", true);
    }
}

#[test]
fn a_capability_of_the_older_grammar_stays_by_its_receipt() {
    for name in ["Tally Marks", "a..b", "Größe/ß", "run", "-x", "a <b> & c"] {
        check_installed(
            &[declared("command", name), receipt(&v2("command", name, "ada"))],
            name.split([' ', '<']).next().unwrap(),
            true,
        );
    }
}

#[test]
fn a_capability_of_the_older_grammar_without_a_receipt_is_none() {
    let home = older_home(&[declared("command", "Tally Marks")]);
    home.run(["quiet"]).stderr_any().check();
    let brief = home.run(["show", "brief"]).stdout_has(&["self"]).stderr_any().check().text();
    assert!(!brief.contains("Tally"), "{brief}");
}

#[test]
fn an_older_receipt_that_does_not_verify_installs_nothing() {
    let pending = |payload: String| check_installed(&[declared("command", "tally"), receipt(&payload)], "tally", false);
    pending(v2("command", "tally", "ada").replace("ada", "eve"));
    pending(v2("command", "tally", "ada").replace("printf", "rm -rf"));
    pending(v1("command", "tally").replace("printf", "rm -rf"));
    pending(v1("command", "tally").replace(r#""sig""#, r#""by":"eve","sig""#));
    pending(v2("projector", "tally", "ada").replace("projector", "command"));
    let sig = mac(&[b"command\0tally\0", SCRIPT.as_bytes()]);
    let (first, rest) = sig.split_at(1);
    let flipped = format!("{}{rest}", if first == "0" { "1" } else { "0" });
    pending(v1("command", "tally").replace(&sig, &flipped));
}

#[test]
fn an_older_receipt_counts_only_through_the_kernels_door_or_none() {
    let payload = v2("command", "tally", "ada");
    for door in ["pipe", "cli", "http:127.0.0.1", "learn:tides", "Kernel"] {
        check_installed(&[declared("command", "tally"), older(door, "script.compiled", &payload)], "tally", false);
    }
    let doorless = receipt(&payload).replace(r#","via":"kernel""#, "");
    check_installed(&[declared("command", "tally"), doorless], "tally", true);
}

#[test]
fn an_older_capability_is_revised_by_declaring_and_ends_by_retiring() {
    let install = [declared("command", "tally"), receipt(&v2("command", "tally", "ada"))];
    let again = [install.as_slice(), &[declared("command", "tally")]].concat();
    check_installed(&again, "tally", false);
    let retired = older("cli", "capability.retired", r#"{"type":"command","name":"tally"}"#);
    let home = older_home(&[install.as_slice(), &[retired]].concat());
    home.run(["quiet"]).check();
    let brief = home.run(["show", "brief"]).stdout_any().check().text();
    assert!(!brief.contains("tally"), "{brief}");
}

#[test]
fn a_newer_mind_can_retire_an_older_capability() {
    let home = older_home(&[declared("command", "Tally Marks"), receipt(&v2("command", "Tally Marks", "ada"))]);
    home.run(["show", "brief"]).stdout_has(&["Tally Marks"]).stderr_any().check();
    home.hear(r#"{"name":"capability.retired","payload":{"type":"command","name":"Tally Marks"}}"#);
    let brief = home.run(["show", "brief"]).stdout_any().stderr_any().check().text();
    assert!(!brief.contains("Tally"), "{brief}");
}

#[test]
fn without_its_key_nothing_of_an_older_home_is_proven_or_removed() {
    let home = older_home(&[declared("command", "tally"), receipt(&v2("command", "tally", "ada"))]);
    fs::remove_file(home.join(".secret")).unwrap();
    home.run(["show", "brief"]).stdout_any().stderr_has(&[".secret"]).check();
    home.run(["ask", "hi"]).stdout_any().stderr_has(&[".secret"]).check();
    assert!(!home.join(".secret").exists());
}

#[test]
fn keys_in_any_case_and_order_unknown_keys_and_missing_ones_are_read() {
    let odd = [
        r#"{"Name":"kernel.initialized","SEQ":1,"ID":"0000","Payload":null,"extra":{"a":[1,{}]},"Occurred_At":"2025-01-01T00:00:00Z"}"#,
        "",
        " \t ",
        r#"  {"payload":{"role":"user","content":"one \u003cb\u003e \u0026 two"},"by":"","name":"chat.message"}  "#,
        "",
    ]
    .map(str::to_owned);
    let home = older_home(&odd);
    let before = home.log();
    home.run(["quiet"]).status(1).check();
    home.run(["work"]).stdout_has(&["| one <b> & two\n"]).check();
    home.hear(NOTE);
    let log = home.log();
    assert!(log.starts_with(&before), "old bytes changed");
    let new = records(&log[before.len()..]);
    assert_eq!(new.iter().map(super::home::Record::told).collect::<Vec<_>>(), [r#"3 pipe note.taken {"n":1}"#]);
}

#[test]
fn event_names_of_any_text_are_events() {
    let names = ["résumé sent!", "one", "a b\tc", "{\"name\":\"x.y\"}", "line\u{2028}end", "…"];
    let home = older_home(&names.map(|name| older("cli", name, "{}")));
    home.run(["show", "brief"]).stdout_any().check();
    home.run(["ask", "hi"]).stdout_any().check();
    home.hear(NOTE);
    assert!(String::from_utf8(home.log()).unwrap().lines().last().unwrap().contains("\"seq\":8,"));
}

#[test]
fn lines_longer_than_ours_are_read() {
    for mebibytes in [9, 64] {
        let long =
            older("cli", "chat.message", &format!(r#"{{"role":"user","content":"{}"}}"#, "x".repeat((mebibytes << 20) - 300)));
        assert!(long.len() > 8 << 20 && long.len() <= 64 << 20);
        let home = older_home(&[older("cli", "a.b", "{}"), long, older("cli", "c.d", "{}")]);
        let before = home.log();
        home.run(["quiet"]).status(1).check();
        home.run(["hear"]).stdin(NOTE).stderr_any().check();
        let log = home.log();
        assert!(log.starts_with(&before));
        assert_eq!(records(&log[before.len()..])[0].told(), r#"4 pipe note.taken {"n":1}"#);
    }
}

#[test]
fn a_long_last_line_is_read_back_from_the_end() {
    let long = older("cli", "chat.message", &format!(r#"{{"role":"user","content":"{}"}}"#, "x".repeat(9 << 20)));
    let home = older_home(&[older("cli", "a.b", "{}"), long]);
    home.run(["quiet"]).status(1).check();
    home.run(["hear"]).stdin(NOTE).stderr_any().check();
    assert!(home.torn().is_empty(), "a long record was taken for a torn tail");
    assert!(String::from_utf8(home.log()).unwrap().lines().last().unwrap().contains("\"seq\":3,"));
}

#[test]
fn the_older_programs_lock_is_said_and_not_waited_for() {
    let home = older_home(&[older("cli", "a.b", "{}")]);
    let log = File::open(home.join("events.jsonl")).unwrap();
    log.lock().unwrap();
    let ended = home.run(["ask", "hi"]).stdout_has(&["hi"]).stderr_has(&["another program", "lock", "log"]).check();
    assert!(ended.took < Duration::from_secs(5), "it waited for {:?}", ended.took);
    home.run(["hear"]).stdin(NOTE).stderr_has(&["another program", "lock", "log"]).check();
    drop(log);
    home.run(["ask", "hi"]).stdout_any().check();
    assert!(String::from_utf8(home.log()).unwrap().lines().count() == 4);
}

#[test]
fn a_first_write_does_not_initialise_an_older_home_again() {
    let home = older_home(&[older("kernel", "kernel.initialized", "{}"), older("cli", "a.b", "{}")]);
    home.hear(NOTE);
    let text = String::from_utf8(home.log()).unwrap();
    assert_eq!((text.matches("kernel.initialized").count(), text.lines().count()), (1, 3));
}

#[test]
fn a_brief_of_many_capabilities_stays_within_its_limit_and_counts_the_rest() {
    let names: Vec<_> = (0..300).map(|n| format!("tally-{n}")).collect();
    let install = |name: &String| [declared("command", name), receipt(&v2("command", name, "ada"))];
    let home = older_home(&names.iter().flat_map(install).collect::<Vec<_>>());
    let brief = home.run(["show", "brief"]).stdout_any().check().text();
    assert!(brief.chars().count() <= 9500, "{}", brief.chars().count());
    let named = names.iter().filter(|name| brief.contains(&format!("{name}`")) || brief.contains(&format!("{name} "))).count();
    assert!((10..300).contains(&named), "{named} are named");
    assert!(brief.contains(&(300 - named).to_string()), "{} more are not counted in {brief}", 300 - named);
}

#[test]
fn an_older_capabilitys_name_and_words_cannot_change_the_brief() {
    let name = "x\n## Evil\u{1b}[31m";
    let words = json("y\n## Evil\n| z\u{1b}]0;t\u{7}");
    let declaration = older("cli", "command.declared", &format!(r#"{{"name":{},"description":{words}}}"#, json(name)));
    let home = older_home(&[declaration, receipt(&v2("command", name, "ada"))]);
    for verb in [["show", "brief"].as_slice(), &["ask", "hi"], &["work"]] {
        let text = home.run(verb).stdout_has(&["Evil"]).check().text();
        assert!(!text.lines().any(|line| line.starts_with("## Evil")), "{verb:?}: {text}");
        assert!(!text.contains('\u{1b}'), "{verb:?}: {text:?}");
    }
}

#[test]
fn capabilities_of_both_older_kinds_come_alive_under_rehydrate() {
    let home = older_home(&[
        declared("projector", "Alter Bericht"),
        receipt(&v1("projector", "Alter Bericht")),
        declared("projector", "report/day"),
        receipt(&v2("projector", "report/day", "ada")),
        declared("command", "note it"),
        receipt(&v2("command", "note it", "ada")),
        older("cli", "it.done", r#"{"text":"x"}"#),
    ]);
    let before = home.log();
    home.run(["rehydrate"]).stderr_has(&["rebuilt scripts: 3, pages: 2"]).check();
    let read = |path: &str| fs::read_to_string(home.join(path)).unwrap();
    for script in ["projectors/Alter Bericht/run", "projectors/report/day/run", "commands/note it/run"] {
        assert_eq!(read(&format!("capabilities/{script}")), SCRIPT);
    }
    for page in ["Alter Bericht", "report/day"] {
        assert_eq!(read(&format!("site/{page}.html")), "<p>&</p>");
        home.run(["show", page]).stdout("<p>&</p>").check();
    }
    assert_eq!(home.log(), before);
}

#[test]
fn one_older_name_that_no_file_can_have_stops_no_rebuild() {
    let long = "x".repeat(300);
    let home = older_home(&[
        declared("command", &long),
        receipt(&v2("command", &long, "ada")),
        declared("command", "tally"),
        receipt(&v2("command", "tally", "ada")),
        declared("command", "tally/run"),
        receipt(&v2("command", "tally/run", "ada")),
    ]);
    for _ in 0..2 {
        home.run(["rehydrate"]).stderr_has(&["could not", &long, "rebuilt scripts: 3"]).status(1).check();
        assert_eq!(fs::read_to_string(home.join("capabilities/commands/tally/run")).unwrap(), SCRIPT);
    }
}
