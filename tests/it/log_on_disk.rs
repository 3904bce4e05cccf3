//! What happens to a log on a disk, and what the log does to what it is given: the rows of `CASES.md` "The log on disk" but for
//! torn tails and many writers, which have files of their own.

use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::home::{Home, Record, assert_whole, batch, first_line, has, is_root, line, line_as, records, skipped};

const NOTE: &str = r#"{"name":"note.taken","payload":{"n":1}}"#;
const COMMAND: &str = r#"{"name":"note","description":"keeps a note","params":{"text":"string"},"event":{"name":"note.added"}}"#;

/// Every verb that exists, with a body where it reads one.
fn verbs() -> Vec<(Vec<&'static str>, &'static str)> {
    vec![
        (vec!["ask", "what is going on?"], ""),
        (vec!["ask"], "from stdin"),
        (vec![], "an ask through the filter"),
        (vec![], r#"{"name":"note.taken","payload":{}}"#),
        (vec!["hear"], "prose\n{\"name\":\"note.taken\",\"payload\":{}}\n{\"name\":\"note.lost\",\"payload\":{,}}"),
        (vec!["hear", "--strict"], r#"{"name":"command.declared","payload":{"name":"note"}}"#),
        (vec!["hear"], "```self command/note\n#!/bin/sh\n```\n"),
        (vec!["work"], ""),
        (vec![], ""),
        (vec!["quiet"], ""),
        (vec!["show", "brief"], ""),
        (vec!["run", "note"], ""),
        (vec!["verify"], ""),
        (vec!["verify", "--seal"], ""),
        (vec!["retire", "command/note"], ""),
        (vec!["give", "note.", "given"], ""),
        (vec!["learn", "given"], ""),
        (vec!["rehydrate"], ""),
        (vec!["protocol"], ""),
        (vec!["help"], ""),
        (vec!["help", "ask"], ""),
        (vec!["no-such-verb"], ""),
    ]
}

#[test]
fn d9_old_bytes_stay_a_prefix_whatever_the_verb() {
    let odd = "\u{feff}{\"payload\":null,\"NAME\":\"a b\"}\r\n\nnot a record\n";
    for start in ["", odd] {
        let home = Home::with_log(start.to_owned() + &line(1, "cli", "note.taken", r#"{"x":1.10}"#));
        let inode = fs::metadata(home.join("events.jsonl")).unwrap().ino();
        for (verb, body) in verbs() {
            let before = home.log();
            home.run(&verb).stdin(body).end();
            let after = home.log();
            assert!(after.starts_with(&before), "{verb:?} changed old bytes");
            assert_eq!(fs::metadata(home.join("events.jsonl")).unwrap().ino(), inode, "{verb:?} replaced the log");
        }
        let lines = home.log().iter().filter(|byte| **byte == b'\n').count();
        assert!(lines >= 10, "the verbs that write wrote nothing: {lines} lines");
    }
}

#[test]
fn d5_one_bad_line_in_the_middle_is_named_and_passed() {
    for bad in ["not a record", "{\"name\":\"cut.short\",\"payl", "\0\0\0\0", "{\"name\":\"a.b\",\"name\":\"c.d\"}", "[1,2]"] {
        let home = Home::with_log(format!(
            "{}{bad}\n{}",
            first_line(),
            line(2, "pipe", "chat.message", r#"{"role":"user","content":"after the damage?"}"#)
        ));
        let before = home.log();
        let offset = first_line().len().to_string();
        for (verb, status) in [(["show", "brief"].as_slice(), 0), (&["quiet"], 1), (&["ask", "hm?"], 0), (&["work"], 0)] {
            let ended = home.run(verb).status(status).stdout_any().stderr_has(&[&offset]).check();
            let named: Vec<_> = ended.said().lines().filter(|line| line.contains(&offset)).map(str::to_owned).collect();
            assert_eq!(named.len(), 1, "{verb:?} names the damage once: {named:?}");
            assert!(named[0].contains("line 2"), "{verb:?} names no line: {named:?}");
        }
        home.run(["hear"]).stdin(NOTE).stderr_has(&["line 2", &offset]).check();
        let log = home.log();
        assert!(log.starts_with(&before), "the damage was touched");
        let last = records(&log[before.len()..]).pop().unwrap();
        assert_eq!((last.name.as_str(), last.payload.get()), ("note.taken", r#"{"n":1}"#));
        assert!(home.torn().is_empty());
    }
}

#[test]
fn invalid_utf8_in_the_middle_is_damage_like_any_other() {
    let home =
        Home::with_log([first_line().as_bytes(), b"{\"name\":\"a.\xff\"}\n", line(2, "pipe", "b.c", "{}").as_bytes()].concat());
    home.run(["hear"]).stdin(NOTE).stderr_has(&["line 2", &first_line().len().to_string()]).check();
    assert!(home.log().ends_with(b",\"via\":\"pipe\",\"payload\":{\"n\":1}}\n"));
}

#[test]
fn of_several_bad_lines_eight_are_named_and_the_others_are_counted() {
    let bad: String = (0..10).map(|n| format!("bad {n}\n")).collect();
    let home = Home::with_log(first_line() + &bad + &line(2, "pipe", "a.b", "{}"));
    let named: Vec<String> = (0..8).map(|n| format!("line {}, byte {}", n + 2, first_line().len() + n * 6)).collect();
    let named: Vec<&str> = named.iter().map(String::as_str).chain(["and 2 more"]).collect();
    let said = home.run(["show", "brief"]).stdout_any().stderr_has(&named).check().said();
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn a_hole_in_an_older_batch_is_damage_whose_whole_lines_count() {
    let three = batch(2, &[("a.b", "{}"), ("c.d", "{}"), ("chat.message", r#"{"role":"user","content":"?"}"#)]);
    let home = Home::with_log([first_line(), three[0].clone(), three[2].clone(), line(5, "pipe", "e.f", "{}")].concat());
    let before = home.log();
    home.run(["quiet"]).status(1).stderr_any().check();
    home.run(["hear"]).stdin(NOTE).stderr_any().check();
    assert!(home.log().starts_with(&before), "the hole was touched");
    assert!(home.torn().is_empty());
    assert_eq!(home.told().last().unwrap(), r#"6 pipe note.taken {"n":1}"#);
}

#[test]
fn an_unfinished_last_batch_is_no_fact() {
    let three = batch(2, &[("chat.message", r#"{"role":"user","content":"?"}"#), ("a.b", "{}"), ("c.d", "{}")]);
    for (lines, status) in [(1, 0), (2, 0), (3, 1)] {
        let home = Home::with_log(first_line() + &three[..lines].concat());
        home.run(["quiet"]).status(status).stderr_any().check();
    }
}

#[test]
fn numbers_keep_their_spelling() {
    let home = Home::made();
    let numbers = r#"{"n":12345678901234567890123,"x":1.10,"a":9007199254740993,"b":123456789012345678901234567890,"c":1e400,"d":-0.0,"e":1E+2}"#;
    home.hear(&format!(r#"{{"name":"note.taken","payload":{numbers}}}"#));
    home.filter(format!("{{ \"name\" : \"note.taken\" , \"payload\" : {} }}", numbers.replace(',', " ,\t"))).stderr_any().check();
    assert_eq!(home.payloads("note.taken"), [numbers, numbers]);
}

#[test]
fn keys_keep_their_order_and_repetitions_inside_a_payload() {
    let home = Home::made();
    home.hear(r#"{"payload":{"z":1,"a":{"q":2,"b":3},"z":4},"name":"note.taken"}"#);
    assert_eq!(home.payloads("note.taken"), [r#"{"z":1,"a":{"q":2,"b":3},"z":4}"#]);
}

#[test]
fn any_json_value_is_a_payload_and_an_absent_one_is_empty() {
    let home = Home::made();
    let values = ["null", "true", "0", "\"text\"", "[]", "[{\"a\":[]}]", "{}"];
    for value in values {
        home.hear(&format!(r#"{{"name":"note.taken","payload":{value}}}"#));
    }
    home.hear(r#"{"name":"note.taken"}"#);
    assert_eq!(home.payloads("note.taken"), [values.as_slice(), &["{}"]].concat());
}

#[test]
fn what_some_reader_takes_for_a_line_end_is_escaped() {
    let home = Home::made();
    home.hear(
        "{\"name\":\"note.taken\",\"payload\":{\"a\u{2028}\":\"b\u{2029}c\u{85}d\u{7f}e\",\"f\":\"\\u000b\\u2028 é\\u00e9\"}}",
    );
    let expect = "{\"a\\u2028\":\"b\\u2029c\\u0085d\\u007fe\",\"f\":\"\\u000b\\u2028 é\\u00e9\"}";
    assert_eq!(home.payloads("note.taken"), [expect]);
    home.run(["ask", "a\u{2028}b\u{85}c\x0bd\te\nf\x7f"]).stdout_any().stderr_any().check();
    assert_eq!(home.payloads("self.asked"), [r#"{"text":"a\u2028b\u0085c\u000bd\te\nf\u007f"}"#]);
    home.run(["ask", "who?"]).env("SELF_CALLER", "a\u{2028}da").stdout_any().stderr_any().check();
    let log = String::from_utf8(home.log()).unwrap();
    assert!(log.contains(r#""by":"a\u2028da""#), "{log}");
    assert_eq!(log.chars().filter(|c| c.is_control() || ['\u{2028}', '\u{2029}'].contains(c)).collect::<String>().trim(), "");
}

#[test]
fn a_lone_surrogate_becomes_u_fffd_with_a_word() {
    let home = Home::made();
    let body = r#"{"name":"note.taken","payload":{"a\udc00":"x\ud99cy","pair":"\ud83d\ude00"}}"#;
    let said = home.run(["hear"]).stdin(body).stderr_any().check().said();
    assert_eq!(home.payloads("note.taken"), [r#"{"a\ufffd":"x\ufffdy","pair":"\ud83d\ude00"}"#]);
    let quiet = home.run(["hear"]).stdin(body.replace(r"\udc00", "").replace(r"\ud99c", "")).stderr_any().check().said();
    assert!(said.lines().count() > quiet.lines().count(), "no word about the surrogate: {said}");
    assert!(said.contains("surrogate") || said.contains("FFFD"), "{said}");
}

#[test]
fn invalid_utf8_on_the_wire_is_repaired_with_a_word() {
    let home = Home::made();
    let body = b"{\"name\":\"note.taken\",\"payload\":{\"text\":\"caf\xe9\"}}\n";
    home.run(["hear"]).stdin(body).stderr_has(&["UTF-8"]).check();
    assert_eq!(home.payloads("note.taken"), ["{\"text\":\"caf\u{fffd}\"}"]);
    home.filter(b"caf\xe9?").stdout_has(&["caf\u{fffd}?"]).stderr_has(&["UTF-8"]).check();
    assert_eq!(home.payloads("self.asked"), ["{\"text\":\"caf\u{fffd}?\"}"]);
}

#[test]
fn invalid_utf8_in_the_speaker_and_in_an_argument_is_no_panic() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let home = Home::made();
    let bad = OsStr::from_bytes(b"ad\xe9a");
    home.run(["hear"]).env("SELF_CALLER", bad).stdin(NOTE).stderr_any().check();
    home.run([OsStr::new("ask"), bad]).stdout_any().stderr_any().check();
    assert_eq!(home.told_from(3), ["3 pipe/ad\u{fffd}a note.taken {\"n\":1}", "4 pipe self.asked {\"text\":\"ad\u{fffd}a\"}"]);
    let refused = home.run([OsStr::new("show"), bad]).stderr_any().status(1).check();
    assert!(!refused.said().is_empty());
}

#[test]
fn a_body_in_utf16_is_named_and_refused() {
    let home = Home::made();
    let before = home.log();
    for order in [u16::to_le_bytes as fn(u16) -> [u8; 2], u16::to_be_bytes] {
        let body: Vec<u8> = "\u{feff}what is going on?\n".encode_utf16().flat_map(order).collect();
        home.filter(&body).status(65).stderr_has(&["UTF-16"]).check();
        home.run(["hear"]).stdin(&body).status(65).stderr_has(&["UTF-16"]).check();
    }
    assert_eq!(home.log(), before);
}

/// Hears one line and asserts that it was refused and recorded as such.
#[track_caller]
fn refused(bad: &str) -> String {
    let home = Home::made();
    home.run(["hear"]).stdin(format!("{bad}\n{NOTE}\n")).stdout_any().stderr_any().check();
    let names: Vec<_> = home.records().into_iter().skip(2).map(|record| record.name).collect();
    let names: Vec<_> = names.iter().map(String::as_str).filter(|name| *name != "self.replied").collect();
    assert_eq!(names, ["event.refused", "note.taken"], "{}", &bad[..bad.len().min(200)]);
    home.payloads("event.refused").remove(0)
}

#[test]
fn repeated_or_differently_cased_envelope_keys_are_refused_with_the_reason() {
    for (bad, key) in [
        (r#"{"name":"a.b","payload":{},"payload":{}}"#, "payload"),
        (r#"{"name":"a.b","payload":{},"pa\u0079load":{}}"#, "payload"),
        (r#"{"name":"a.b","name":"c.d","payload":{}}"#, "name"),
        (r#"{"Name":"a.b","payload":{}}"#, "ame"),
        (r#"{"name":"a.b","PAYLOAD":{}}"#, "PAYLOAD"),
        (r#"{"name":"a.b","Seq":1,"payload":{}}"#, "eq"),
        (r#"{"id":"x","id":"y","name":"a.b","payload":{}}"#, "id"),
    ] {
        let reason = refused(bad);
        assert!(reason.contains(key), "{bad}: {reason}");
    }
}

#[test]
fn an_escaped_envelope_key_is_the_key() {
    let home = Home::made();
    home.hear(r#"{"n\u0061me":"note.taken","\u0070ayload":{"n":1}}"#);
    assert_eq!(home.payloads("note.taken"), [r#"{"n":1}"#]);
}

#[test]
fn nesting_has_one_limit_and_no_stack_overflow() {
    let nested = |depth: usize| format!(r#"{{"name":"note.taken","payload":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
    let home = Home::made();
    home.hear(&nested(128));
    assert_eq!(home.payloads("note.taken"), ["[".repeat(128) + &"]".repeat(128)]);
    for depth in [129, 130, 200_000] {
        let reason = refused(&nested(depth));
        assert!(reason.contains("128"), "the reason names the limit: {}", &reason[..reason.len().min(300)]);
    }
    let unclosed = refused(&format!(r#"{{"name":"note.taken","payload":{}"#, "[".repeat(200_000)));
    assert!(unclosed.len() < 3000, "{}", unclosed.len());
}

#[test]
fn a_record_of_any_size_up_to_8_mib_gets_in_and_can_be_read() {
    let home = Home::made();
    let of = |payload: usize| format!(r#"{{"name":"note.taken","payload":"{}"}}"#, "x".repeat(payload - 2));
    home.hear(&of(100));
    let length = |home: &Home| home.log().split(|byte| *byte == b'\n').rev().nth(1).unwrap().len();
    let envelope = length(&home) - 100;
    for bytes in [65_535, 65_536, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 8 << 20] {
        home.hear(&of(bytes - envelope));
        assert_eq!(length(&home), bytes);
        home.run(["quiet"]).check();
    }
    let before = home.log();
    home.run(["hear"]).stdin(of((8 << 20) + 1 - envelope) + "\n" + NOTE).stdout_any().stderr_any().check();
    let new = records(&home.log()[before.len()..]);
    let names: Vec<_> = new.iter().map(|record| record.name.as_str()).filter(|name| *name != "self.replied").collect();
    assert_eq!(names, ["event.refused", "note.taken"]);
    assert!(new[0].payload.get().len() < 3000, "an excerpt is at most 1,024 bytes");
    assert!(new[0].payload.get().contains("MiB") || new[0].payload.get().contains("8388608"), "{}", new[0].payload);
    assert_whole(&home.records());
    home.run(["show", "brief"]).stdout_any().check();
}

#[test]
fn an_ask_over_8_mib_and_a_body_over_64_mib_are_refused_whole() {
    let home = Home::made();
    let before = home.log();
    home.filter("what is this? ".repeat((8 << 20) / 14 + 1)).status(65).stderr_any().check();
    let mut body = format!("{NOTE}\n").into_bytes();
    body.resize((64 << 20) + 1, b'x');
    let said = home.run(["hear"]).stdin(body).status(65).stderr_has(&["67108864"]).stdout_any().check();
    assert_eq!(home.log(), before, "{}", said.said());
}

#[test]
fn a_reply_over_8_mib_is_printed_and_recorded_as_refused() {
    let home = Home::made();
    let reply = "a long answer. ".repeat((8 << 20) / 15 + 1);
    let printed = reply.trim_end().to_owned() + "\n";
    home.run(["hear"]).stdin(&reply).stdout(printed).stderr_any().check();
    let names: Vec<_> = home.records().into_iter().skip(2).map(|record| record.name).collect();
    assert_eq!(names, ["event.refused"]);
}

#[test]
fn file_order_rules_and_seq_goes_on_from_the_highest() {
    let home = Home::with_log(
        [
            line(1, "pipe", "a.b", "{}"),
            line(900, "pipe", "c.d", "{}"),
            line(3, "pipe", "e.f", "{}"),
            line_as(&format!("{:032x}", 3), 4, "pipe", "chat.message", r#"{"role":"user","content":"?"}"#),
        ]
        .concat(),
    );
    home.run(["quiet"]).status(1).stderr_any().check();
    home.run(["hear"]).stdin(NOTE).stderr_any().check();
    assert_eq!(home.told().last().unwrap(), r#"901 pipe note.taken {"n":1}"#);
    home.hear(NOTE);
    assert_eq!(home.told().last().unwrap(), r#"902 pipe note.taken {"n":1}"#);
}

#[test]
fn two_lines_with_one_id_are_two_events() {
    let user = r#"{"role":"user","content":"?"}"#;
    let assistant = r#"{"role":"assistant","content":"!"}"#;
    let same = "0123456789abcdef0123456789abcdef";
    let home = Home::with_log(
        first_line() + &line_as(same, 2, "pipe", "chat.message", user) + &line_as(same, 3, "pipe", "chat.message", assistant),
    );
    home.run(["quiet"]).stderr_any().check();
    let home = Home::with_log(
        first_line() + &line_as(same, 2, "pipe", "chat.message", assistant) + &line_as(same, 3, "pipe", "chat.message", user),
    );
    home.run(["quiet"]).status(1).stderr_any().check();
}

#[test]
fn a_bom_and_carriage_returns_are_no_part_of_a_record() {
    let user = line(2, "pipe", "chat.message", r#"{"role":"user","content":"?"}"#);
    let home = Home::with_log(format!("\u{feff}{}{}", first_line().replace('\n', "\r\n"), user.replace('\n', "\r\n")));
    let before = home.log();
    home.run(["quiet"]).status(1).check();
    home.run(["hear"]).stdin(NOTE).stderr_any().check();
    let log = home.log();
    assert!(log.starts_with(&before));
    assert_eq!(records(&log[before.len()..])[0].told(), r#"3 pipe note.taken {"n":1}"#);
}

#[test]
fn the_first_batch_of_a_home_begins_with_its_making() {
    let home = Home::new();
    home.run(["ask", "hi"]).env("SELF_CALLER", "ada").stdout_any().stderr_any().check();
    assert_eq!(home.told(), ["1 kernel kernel.initialized {}", r#"2 pipe/ada self.asked {"text":"hi"}"#]);
    let records = home.records();
    let (batch, ..) = records[0].frame();
    assert_eq!((records[0].frame(), records[1].frame()), ((batch.clone(), 1, 2), (batch, 2, 2)));
    for record in &records {
        let moment = &record.occurred_at;
        assert_eq!((moment.len(), moment.as_bytes()[19], moment.ends_with('Z')), (30, b'.', true), "{moment}");
    }
}

#[test]
fn a_single_event_is_not_framed() {
    let home = Home::made();
    home.hear(NOTE);
    let last = home.records().pop().unwrap();
    assert!(last.id.len() == 32 && last.id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{}", last.id);
}

#[test]
fn a_blank_speaker_is_none() {
    let home = Home::made();
    for claim in ["", "  \t"] {
        home.run(["hear"]).env("SELF_CALLER", claim).stdin(NOTE).stderr_any().check();
    }
    home.run(["hear"]).env("SELF_CALLER", " ada lovelace ").stdin(NOTE).stderr_any().check();
    let by: Vec<_> = home.records().into_iter().skip(2).map(|record| record.by).collect();
    assert_eq!(by, [None, None, Some(" ada lovelace ".to_owned())]);
}

#[test]
fn d4_a_short_write_leaves_the_log_byte_identical_and_the_reply_on_stdout() {
    let home = Home::made();
    let body = format!("One.\n{NOTE}\n{NOTE}\n{NOTE}\nTwo.\n");
    let before = home.log();
    home.run(["hear"]).stdin(&body).stdout("One.\nTwo.\n").stderr_any().check();
    let batch = home.log().len() - before.len();
    // A file limit binds every file the kernel writes, so the log must be the largest of them.
    let padding = format!(r#"{{"name":"note.taken","payload":"{}"}}"#, "x".repeat(20_000));
    home.hear(&padding);
    let before = home.log();
    for room in (0..batch).step_by(23) {
        let limit = (before.len() + room) as u64;
        let ended = home
            .run(["hear"])
            .stdin(&body)
            .file_limit(limit)
            .stdout("One.\nTwo.\n")
            .stderr_has(&["events.jsonl"])
            .status(1)
            .check();
        assert_eq!(home.log(), before, "{room} bytes of room: {}", ended.said());
    }
    home.hear(NOTE);
    assert_eq!(records(&home.log()[before.len()..])[0].told(), format!(r#"{} pipe note.taken {{"n":1}}"#, home.records().len()));
    assert!(home.torn().is_empty());
}

#[test]
fn a_full_disk_is_named_and_costs_nothing_that_was_there() {
    let test = "a_full_disk_is_named_and_costs_nothing_that_was_there";
    if !is_root() || !has("unshare") {
        return skipped(test, "needs root and unshare, to mount a small disk");
    }
    let home = Home::new();
    let line = r#"
        mount -t tmpfs -o size=128k tmpfs "$PWD" && cd "$PWD" || { echo no mount; exit 0; }
        printf '{"name":"note.taken","payload":{"n":1}}\n' | self hear 2>/dev/null || exit 9
        cp events.jsonl "$HOME/before"
        head -c 1048576 /dev/zero >filler 2>/dev/null
        { echo The answer.; seq -f '{"name":"note.taken","payload":{"text":"this is to fill what is left of the disk","n":%g}}' 2000; } | self hear 2>"$HOME/said"
        echo "status $?"
        cmp events.jsonl "$HOME/before" && echo untouched
    "#;

    let ended = home.program("unshare", ["-m", "sh", "-c", line]).stdout_any().stderr_any().check();
    if ended.text() == "no mount\n" {
        return skipped(test, "mounting is not allowed here");
    }
    assert_eq!(ended.text(), "The answer.\nstatus 1\nuntouched\n", "{}", ended.said());
    let said = fs::read_to_string(home.beside("user/said")).unwrap();
    assert!(said.contains("events.jsonl"), "{said}");
    assert!(said.contains(home.path().to_str().unwrap()), "the file system is named by where it is mounted: {said}");
}

#[test]
fn d6_the_sync_precedes_the_acknowledgement() {
    if !has("strace") {
        return skipped("d6_the_sync_precedes_the_acknowledgement", "strace is not installed; .ci/run installs it");
    }
    let home = Home::new();
    for (round, verb) in ["hear", "ask", "hear"].into_iter().enumerate() {
        let body = if verb == "hear" { format!("The answer.\n{NOTE}\n{NOTE}\n") } else { "what?".to_owned() };
        let trace = home.beside("trace");
        let calls = "trace=openat,write,writev,pwrite64,fsync,fdatasync,ftruncate";
        let args = ["-f", "-y", "-qq", "-e", calls, "-o", trace.to_str().unwrap(), "self", verb];
        home.program("strace", args).stdin(body).stdout_any().stderr_any().check();
        let trace = fs::read_to_string(trace).unwrap();
        let at = |what: &str, file: &str| {
            let file = format!("{file}>");
            trace.lines().position(|line| line.contains(&format!(" {what}(")) && line.split('(').nth(1).unwrap().contains(&file))
        };
        let written = at("write", "events.jsonl").unwrap_or_else(|| panic!("no write to the log in\n{trace}"));
        let synced = trace
            .lines()
            .enumerate()
            .skip(written)
            .find(|(_, line)| line.contains("sync(") && line.contains("events.jsonl>"))
            .unwrap_or_else(|| panic!("the batch was not synced:\n{trace}"))
            .0;
        let printed =
            trace.lines().position(|line| line.contains("write(1<")).unwrap_or_else(|| panic!("nothing printed:\n{trace}"));
        assert!(written < synced && synced < printed, "acknowledged before it was synced:\n{trace}");
        let writes = trace.lines().filter(|line| line.contains(" write(") && line.contains("events.jsonl>,")).count();
        assert_eq!(writes, 1, "a batch is one write:\n{trace}");
        if round == 0 {
            let created = trace.lines().position(|line| line.contains("events.jsonl\"") && line.contains("O_CREAT"));
            let created = created.unwrap_or_else(|| panic!("no log was made:\n{trace}"));
            let dir = format!("/{}>", home.path().file_name().unwrap().to_str().unwrap());
            for file in ["events.jsonl>", &dir] {
                let named = |(at, line): (usize, &str)| at > created && line.contains(" fsync(") && line.contains(file);
                let synced = trace.lines().enumerate().position(named);
                assert!(synced.is_some_and(|synced| synced < written), "{file} of a new log was not synced:\n{trace}");
            }
            let made = at("fsync", ".secret")
                .or_else(|| trace.lines().position(|line| line.contains("sync(") && line.contains("secret")));
            assert!(made.is_some_and(|made| made < printed), "the key was not synced:\n{trace}");
        }
    }
}

#[test]
fn a_log_of_ten_thousand_records_takes_an_append() {
    let home = Home::made();
    home.append((3..=10_002).map(|seq| line(seq, "pipe", "note.taken", r#"{"text":"one of ten thousand"}"#)).collect::<String>());
    home.hear(NOTE);
    assert_eq!(home.records().last().map(Record::told).unwrap(), r#"10003 pipe note.taken {"n":1}"#);
}

#[test]
fn a_retired_capability_waits_no_more_until_it_is_declared_anew() {
    let home = Home::made();
    home.hear(&format!(r#"{{"name":"command.declared","payload":{COMMAND}}}"#));
    home.run(["quiet"]).status(1).check();
    home.hear(r#"{"name":"capability.retired","payload":{"type":"command","name":"note"}}"#);
    home.run(["quiet"]).check();
    home.hear(&format!(r#"{{"name":"command.declared","payload":{COMMAND}}}"#));
    home.run(["quiet"]).status(1).check();
}

#[test]
fn malformed_events_of_the_kernels_names_change_nothing() {
    let names = self_kernel::vocabulary::TABLE.iter().map(|row| row.name).chain([
        "chat.message",
        "Command.Declared",
        " script.compiled ",
    ]);
    let payloads = [
        "null",
        "[]",
        "\"x\"",
        "1e999",
        "{}",
        r#"{"name":null,"type":7,"text":[]}"#,
        r#"{"type":"command","name":"../x","script":1,"role":"user"}"#,
        r#"{"role":"user","content":{"a":1},"name":"","type":""}"#,
    ];
    let mut log = String::new();
    let mut seq = 0;
    for name in names {
        for payload in payloads {
            for door in ["kernel", "pipe", "learn:x", "odd"] {
                seq += 1;
                log += &line(seq, door, name, payload);
            }
        }
    }
    let home = Home::with_log(log);
    home.write_private(".secret", "00".repeat(32));
    for verb in [["quiet"].as_slice(), &["show", "brief"], &["ask", "hi"], &["work"]] {
        let ended = home.run(verb).end();
        assert!(ended.status < 2, "{verb:?}: {}: {}", ended.status, ended.said());
    }
    home.run(["hear"]).stdin(NOTE).stderr_any().check();
    let prompt = home.run(["ask", "hi"]).stdout_any().check().text();
    assert!(!prompt.contains("DECLARATION ("), "{prompt}");
}

#[test]
fn the_events_of_a_batch_differ_in_their_moments() {
    let home = Home::made();
    home.hear(
        &r#"{"name":"note.added","payload":{"text":"the same"}}
"#
        .repeat(3),
    );
    let moments: std::collections::BTreeSet<_> = home.records().iter().map(|record| record.occurred_at.clone()).collect();
    assert_eq!(moments.len(), home.records().len(), "{moments:?}");
}
