//! Receipts as FORMATS §2 writes them, made here by other code than the kernel's: what is in force, and what is inert.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::home::{Home, first_line, line};

const SECRET: [u8; 32] = [7; 32];
const SCRIPT: &str = "#!/bin/sh\necho '{}'\n";
const DECLARATION: &str = r#"{"name":"tally","description":"counts","event":{"name":"tally.made"}}"#;

fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

/// MAC(label; fields) = HMAC(HMAC(secret, label), label 00 len:field …), in hex.
fn mac(label: &str, fields: &[&str]) -> String {
    let key = hmac(&SECRET, &[label.as_bytes()]);
    let mut message = format!("{label}\0");
    for field in fields {
        message += &format!("{}:{field}", field.len());
    }
    hex::encode(hmac(&key, &[message.as_bytes()]))
}

/// A receipt of the third form for `command/tally` at this seq, sealing a declaration.
fn receipt(seq: u64, declaration: &str) -> String {
    receipt_of("command", seq, declaration)
}

fn receipt_of(kind: &str, seq: u64, declaration: &str) -> String {
    let digest = hex::encode(Sha256::digest(declaration));
    let sig = mac("self.receipt.v3", &[kind, "tally", SCRIPT, "ada", &seq.to_string(), &digest]);
    let script = serde_json::to_string(SCRIPT).unwrap();
    format!(
        r#"{{"type":"{kind}","name":"tally","script":{script},"by":"ada","seq":{seq},"declaration":"{digest}","sig":"{sig}"}}"#
    )
}

/// A receipt of the second form for `command/tally`, as the older program signed them.
fn older_receipt() -> String {
    let mut signed = "self.receipt.v2\0".to_owned();
    for field in ["command", "tally", SCRIPT, "ada"] {
        signed += &format!("{}:{field}", field.len());
    }
    let sig = hex::encode(hmac(&SECRET, &[signed.as_bytes()]));
    let script = serde_json::to_string(SCRIPT).unwrap();
    format!(r#"{{"type":"command","name":"tally","script":{script},"by":"ada","sig":"{sig}"}}"#)
}

fn home_of(lines: &[String]) -> Home {
    let home = Home::with_log(lines.concat());
    home.write_private(".secret", hex::encode(SECRET) + "\n");
    home
}

fn declared(seq: u64) -> String {
    line(seq, "pipe", "command.declared", DECLARATION)
}

fn compiled(seq: u64, payload: &str) -> String {
    line(seq, "kernel", "script.compiled", payload)
}

fn retired(seq: u64) -> String {
    line(seq, "cli", "capability.retired", r#"{"type":"command","name":"tally"}"#)
}

/// How `command/tally` stands: its script waits, it is on the surface, or neither.
#[derive(Debug, PartialEq, Eq)]
enum Stands {
    Pending,
    Installed,
    Gone,
}

#[track_caller]
fn check(lines: &[String], expect: Stands) {
    let home = home_of(lines);
    let quiet = home.run(["quiet"]).end();
    let brief = home.run(["show", "brief"]).stdout_has(&["## Commands"]).stderr_any().check().text();
    let stands = match (quiet.status, brief.contains("tally")) {
        (1, _) => Stands::Pending,
        (0, true) => Stands::Installed,
        (0, false) => Stands::Gone,
        (status, _) => panic!("quiet exits {status}: {}", quiet.said()),
    };
    assert_eq!(stands, expect);
    assert!(home.log().starts_with(lines.concat().as_bytes()));
}

#[test]
fn a_receipt_made_from_the_documents_alone_is_in_force() {
    check(&[first_line(), declared(2)], Stands::Pending);
    check(&[first_line(), declared(2), compiled(3, &receipt(3, DECLARATION))], Stands::Installed);
    check(&[first_line(), declared(2), compiled(3, &receipt(3, DECLARATION)), retired(4)], Stands::Gone);
    check(&[first_line(), declared(2), compiled(3, &receipt(3, DECLARATION)), retired(4), declared(5)], Stands::Pending);
}

#[test]
fn k4_one_changed_field_of_a_receipt_fails() {
    let genuine = receipt(3, DECLARATION);
    for (from, to) in [
        ("echo", "ecko"),
        ("\"by\":\"ada\"", "\"by\":\"adb\""),
        ("\"by\":\"ada\",", ""),
        ("\"sig\":\"", "\"sig\":\"0"),
        ("\"seq\":3", "\"seq\":4"),
        ("\"declaration\":\"", "\"declaration\":\"0"),
        ("\"type\":\"command\"", "\"type\":\"projector\""),
    ] {
        let forged = genuine.replace(from, to);
        assert_ne!(forged, genuine, "{from}");
        check(&[first_line(), declared(2), compiled(3, &forged)], Stands::Pending);
    }
    let sig = genuine.split("\"sig\":\"").nth(1).unwrap().trim_end_matches("\"}");
    for at in [0, 31, 63] {
        let digit = if sig.as_bytes()[at] == b'0' { "1" } else { "0" };
        let flipped = format!("{}{digit}{}", &sig[..at], &sig[at + 1..]);
        check(&[first_line(), declared(2), compiled(3, &genuine.replace(sig, &flipped))], Stands::Pending);
    }
}

#[test]
fn d11_an_old_receipt_copied_to_the_end_revives_nothing() {
    let genuine = receipt(3, DECLARATION);
    let start = [first_line(), declared(2), compiled(3, &genuine), retired(4)];
    let with = |more: &[String]| [start.as_slice(), more].concat();
    check(&with(&[compiled(5, &genuine)]), Stands::Gone);
    check(&with(&[declared(5), compiled(6, &genuine)]), Stands::Pending);
    // The very line again, with the number it had: that number is no longer the highest.
    check(&with(&[declared(5), compiled(3, &genuine)]), Stands::Pending);
}

#[test]
fn d11_an_older_receipt_behind_the_first_v3_receipt_revives_nothing() {
    check(&[first_line(), declared(2), compiled(3, &older_receipt())], Stands::Installed);
    let start = [first_line(), declared(2), compiled(3, &older_receipt()), declared(4), compiled(5, &receipt(5, DECLARATION))];
    check(&start, Stands::Installed);
    check(&[start.as_slice(), &[retired(6), compiled(7, &older_receipt())]].concat(), Stands::Gone);
    check(&[start.as_slice(), &[declared(6), compiled(7, &older_receipt())]].concat(), Stands::Pending);
}

#[test]
fn d11_a_genuine_receipt_that_is_piped_in_is_refused() {
    let home = home_of(&[first_line(), declared(2)]);
    let body = format!("{{\"name\":\"script.compiled\",\"payload\":{}}}\n", receipt(3, DECLARATION));
    home.run(["hear"]).stdin(body).stdout_any().stderr_has(&["refused"]).check();
    assert_eq!((home.count("script.compiled"), home.count("event.refused")), (0, 1));
    home.run(["quiet"]).status(1).stderr_any().check();
}

#[test]
fn a_receipt_counts_only_through_the_kernels_own_door() {
    for door in ["pipe", "cli", "http:127.0.0.1", "learn:tides", "KERNEL"] {
        let through = line(3, door, "script.compiled", &receipt(3, DECLARATION));
        check(&[first_line(), declared(2), through], Stands::Pending);
    }
    let doorless = compiled(3, &receipt(3, DECLARATION)).replace("\"via\":\"kernel\",", "");
    check(&[first_line(), declared(2), doorless], Stands::Pending);
}

#[test]
fn a_receipt_counts_only_where_its_seq_is_the_highest_so_far() {
    let high = line(900, "pipe", "note.taken", "{}");
    check(&[first_line(), declared(2), high.clone(), compiled(3, &receipt(3, DECLARATION))], Stands::Pending);
    check(&[first_line(), declared(2), high, compiled(901, &receipt(901, DECLARATION))], Stands::Installed);
}

#[test]
fn a_receipt_that_seals_no_declaration_of_this_log_is_not_in_force() {
    let other = DECLARATION.replace("counts", "counts all");
    check(&[first_line(), declared(2), compiled(3, &receipt(3, &other))], Stands::Pending);
}

#[test]
fn the_installed_declaration_is_the_sealed_one_until_a_new_script_is_installed() {
    let old = r#"{"name":"tally","description":"d","consumes":["old.event"]}"#;
    let new = r#"{"name":"tally","description":"d","consumes":["new.event"]}"#;
    let home = home_of(&[
        first_line(),
        line(2, "pipe", "projector.declared", old),
        compiled(3, &receipt_of("projector", 3, old)),
        line(4, "pipe", "projector.declared", new),
    ]);
    home.run(["quiet"]).status(1).check();
    let brief = home.run(["show", "brief"]).stdout_has(&["old.event"]).check().text();
    assert!(!brief.contains("new.event"), "{brief}");
    home.run(["ask", "hi"]).stdout_has(&["DECLARATION (projector \"tally\"):\n", new]).check();
}

#[test]
fn an_open_rejection_ends_with_a_receipt_or_a_retirement() {
    let rejected = r#"{"type":"command","name":"tally","reason":"no shebang","excerpt":"","sha256":""}"#;
    let start = [first_line(), line(2, "kernel", "script.rejected", rejected)];
    let home = home_of(&start);
    home.run(["quiet"]).status(1).check();
    home.run(["work"]).stdout_has(&["tally", "no shebang"]).check();
    check(&[start.as_slice(), &[retired(3)]].concat(), Stands::Gone);
    check(&[start.as_slice(), &[declared(3), compiled(4, &receipt(4, DECLARATION))]].concat(), Stands::Installed);
}
