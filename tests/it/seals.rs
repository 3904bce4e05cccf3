//! Seals as FORMATS §2 writes them, checked here by other code than the kernel's: what they cover, and when they are written.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::home::{Home, Record, assert_whole, first_line, line, records};

const NOTE: &str = r#"{"name":"note.taken","payload":{"n":1}}"#;
const COMMAND: &str = "{\"name\":\"command.declared\",\"payload\":{\"name\":\"x\",\"event\":{\"name\":\"a.b\"}}}\n```self command/x\n#!/bin/sh\necho '{\"name\":\"a.b\"}'\n```";

fn hmac(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().to_vec()
}

/// MAC(self.seal.v1; through, digest, envelope), in hex.
fn mac(secret: &[u8], fields: [&[u8]; 3]) -> String {
    let label: &[u8] = b"self.seal.v1";
    let mut message = [label, b"\0"].concat();
    for field in fields {
        message.extend_from_slice(format!("{}:", field.len()).as_bytes());
        message.extend_from_slice(field);
    }
    hex::encode(hmac(&hmac(secret, &[label]), &[&message]))
}

/// The digest over these lines; where a payload stands is told by hand.
fn digest(log: &[u8]) -> String {
    let mut h = vec![0; 32];
    for line in log.strip_suffix(b"\n").unwrap_or(log).split(|byte| *byte == b'\n') {
        let key = b",\"payload\":".as_slice();
        let found = line.windows(key.len()).position(|window| window == key).map(|at| at + key.len());
        let payload = match found {
            Some(start) => start..line.len() - 1 - usize::from(line.ends_with(b"\r")),
            None => line.len()..line.len(),
        };
        let (before, behind) = (&line[..payload.start], &line[payload.end..]);
        let mut link = Sha256::new();
        link.update(&h);
        link.update((before.len() as u64).to_le_bytes());
        link.update(before);
        link.update(Sha256::digest(&line[payload]));
        link.update((behind.len() as u64).to_le_bytes());
        link.update(behind);
        h = link.finalize().to_vec();
    }
    hex::encode(h)
}

/// Asserts that the log's last record is a seal over all in front of it, the last of its batch.
#[track_caller]
fn check_sealed(home: &Home) {
    let log = home.log();
    let start = log[..log.len() - 1].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let (front, seal) = log.split_at(start);
    let record = records(seal).pop().unwrap();
    assert_eq!((record.name.as_str(), record.via.as_deref(), record.by.as_deref()), ("log.sealed", Some("kernel"), None));
    let secret = hex::decode(std::fs::read_to_string(home.join(".secret")).unwrap().trim_end()).unwrap();
    let (through, digest) = ((record.seq - 1).to_string(), digest(front));
    let envelope = &seal[..seal.len() - record.payload.get().len() - 2];
    let mac = mac(&secret, [through.as_bytes(), digest.as_bytes(), envelope]);
    assert_eq!(record.payload.get(), format!(r#"{{"through":{through},"digest":"{digest}","mac":"{mac}"}}"#));
}

#[test]
fn an_install_ends_with_a_seal_over_all_in_front_of_it() {
    let home = Home::made();
    home.hear(COMMAND);
    check_sealed(&home);
    let records = home.records();
    assert_whole(&records);
    let names: Vec<_> = records.iter().skip(2).map(|record| record.name.as_str()).collect();
    assert_eq!(names, ["command.declared", "script.compiled", "log.sealed"]);
    assert_eq!((records[3].frame().1, records[4].frame().1, records[4].frame().2), (1, 2, 2), "one batch");
}

#[test]
fn a_retirement_ends_with_a_seal() {
    let home = Home::made();
    home.hear(COMMAND);
    home.hear(NOTE);
    home.run(["retire", "command/x"]).stderr_has(&["retired command/x: seq 7"]).check();
    check_sealed(&home);
    assert_eq!(home.count("log.sealed"), 2);
}

#[test]
fn nothing_else_is_sealed() {
    let home = Home::made();
    home.hear(NOTE);
    home.hear("```self command/nowhere\n#!/bin/sh\n```");
    home.run(["ask", "hi"]).stdout_any().stderr_any().check();
    assert_eq!(home.count("log.sealed"), 0);
}

#[test]
fn a_log_of_another_program_is_sealed_as_it_stands() {
    let strange = [
        "\u{feff}".to_owned() + &first_line().replace('\n', "\r\n"),
        "\n \r\nnot a record\n{\"NAME\":\"no payload\",\"seq\":2}\n".to_owned(),
        "{\"seq\":3,\"name\":\"a b\",\"payload\":{ \"x\" : 1.10 }}\n".to_owned(),
        line(4, "pipe", "a.b", "\"\\u2028\""),
    ];
    let home = Home::with_log(strange.concat().trim_end());
    home.run(["hear"]).stdin(COMMAND).stderr_any().check();
    check_sealed(&home);
}

#[test]
fn a_torn_tail_is_no_part_of_what_is_sealed() {
    let home = Home::made();
    home.hear(COMMAND);
    home.append("{\"torn");
    home.run(["retire", "command/x"]).stderr_any().check();
    check_sealed(&home);
    let told: Vec<_> = home.records().iter().skip(5).map(Record::told).collect();
    assert!(told[0].contains("log.recovered") && told[1].contains("capability.retired"), "{told:?}");
}

#[test]
fn k3_without_the_key_nothing_is_sealed() {
    let home = Home::made();
    home.hear(COMMAND);
    std::fs::remove_file(home.join(".secret")).unwrap();
    home.run(["retire", "command/x"]).stderr_any().check();
    assert_eq!((home.count("capability.retired"), home.count("log.sealed")), (1, 1));
    assert!(!home.join(".secret").exists());
}
