//! `self log`: which events it shows, in which order and form, and what it reads for that.

use std::collections::BTreeSet;
use std::fs;

use crate::home::{Ends, Home, MOMENT, batch, first_line, line};

const TERMINAL: Ends = Ends { stdin: true, stdout: true, stderr: true };
const OUT: Ends = Ends { stdin: false, stdout: true, stderr: false };

/// A line of a log, written by hand.
fn entry(seq: u64, moment: &str, via: &str, by: &str, name: &str, payload: &str) -> String {
    let by = if by.is_empty() { String::new() } else { format!(",\"by\":\"{by}\"") };
    format!(
        "{{\"id\":\"{seq:032x}\",\"seq\":{seq},\"name\":\"{name}\",\"occurred_at\":\"{moment}\",\"via\":\"{via}\"{by},\"payload\":{payload}}}\n"
    )
}

/// Twelve events through all doors, of several speakers and days.
fn lines() -> Vec<String> {
    let day = |day: u64| format!("2026-03-{day:02}T12:00:00.000000000Z");
    let mut lines = vec![first_line()];
    for (at, (via, by, name, payload)) in [
        ("pipe", "ada", "note.taken", r#"{"text":"the kettle is on"}"#),
        ("pipe", "ada", "note.taken", r#"{"text":"tea","n":1.10}"#),
        ("cli", "bob", "note.dropped", r#"{"text":"tea"}"#),
        ("http:127.0.0.1", "", "visit.made", "{}"),
        ("http:[::1]", "", "visit.made", "{}"),
        ("learn:tides", "moon", "tide.high", r#"{"text":"tea and salt"}"#),
        ("learn:harbour", "", "tide.low", "null"),
        ("kernel", "", "event.refused", r#"{"name":"x","reason":"y","excerpt":"z"}"#),
        ("pipe", "Ada", "chat.message", r#"{"role":"assistant","content":"kettle"}"#),
        ("pipe", "ada", "note.taken", r#"{"text":"last"}"#),
        ("cli", "", "note.taken", "[]"),
    ]
    .into_iter()
    .enumerate()
    {
        let seq = at as u64 + 2;
        lines.push(entry(seq, &day(seq), via, by, name, payload));
    }
    lines
}

fn home() -> Home {
    Home::with_log(lines().concat())
}

/// The stored lines of these numbers, in this order.
fn stored(seqs: &[usize]) -> String {
    seqs.iter().map(|seq| lines()[seq - 1].clone()).collect()
}

#[test]
fn the_log_is_listed_newest_last_with_the_stored_moments() {
    let home = Home::with_log(lines()[..5].concat());
    home.run(["log"])
        .stdout(format!(
            "1\t{MOMENT}\tkernel\t-\tkernel.initialized\t{{}}\n\
             2\t2026-03-02T12:00:00.000000000Z\tpipe\tada\tnote.taken\t{{\"text\":\"the kettle is on\"}}\n\
             3\t2026-03-03T12:00:00.000000000Z\tpipe\tada\tnote.taken\t{{\"text\":\"tea\",\"n\":1.10}}\n\
             4\t2026-03-04T12:00:00.000000000Z\tcli\tbob\tnote.dropped\t{{\"text\":\"tea\"}}\n\
             5\t2026-03-05T12:00:00.000000000Z\thttp:127.0.0.1\t-\tvisit.made\t{{}}\n"
        ))
        .check();
    assert_eq!(home.files(), [std::path::PathBuf::from("events.jsonl")], "a look makes nothing");
}

#[test]
fn each_filter_and_their_combinations_take_what_they_say() {
    let home = home();
    let check = |args: &[&str], seqs: &[usize]| {
        let all = [&["log", "--json"], args].concat();
        home.run(&all).stdout(stored(seqs)).check();
        // However they are counted and ordered, they are the same ones.
        let backwards: Vec<usize> = seqs.iter().rev().copied().collect();
        home.run([&all[..], &["--reverse"]].concat()).stdout(stored(&backwards)).check();
        for newest in [0, 1, 2, 100] {
            let count = newest.to_string();
            let some = &seqs[seqs.len().saturating_sub(newest)..];
            home.run([&all[..], &["-n", &count]].concat()).stdout(stored(some)).check();
            let some = &backwards[..newest.min(seqs.len())];
            home.run([&all[..], &["-n", &count, "--reverse"]].concat()).stdout(stored(some)).check();
        }
    };
    check(&[], &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    check(&["--name", "note.taken"], &[2, 3, 11, 12]);
    check(&["--name", "note.*"], &[2, 3, 4, 11, 12]);
    check(&["--name", "tide.?igh"], &[7]);
    check(&["--name", "tide.low", "--name", "visit.*"], &[5, 6, 8]);
    check(&["--name", "nobody"], &[]);
    check(&["--by", "ada"], &[2, 3, 11]);
    check(&["--by", ""], &[1, 5, 6, 8, 9, 12]);
    check(&["--via", "pipe"], &[2, 3, 10, 11]);
    check(&["--via", "http"], &[5, 6]);
    check(&["--via", "http:[::1]"], &[6]);
    check(&["--via", "learn"], &[7, 8]);
    check(&["--via", "learn:tides"], &[7]);
    check(&["--since", "2026-03-10"], &[10, 11, 12]);
    check(&["--since", "2026-03-10T12:00:00Z", "--until", "2026-03-11T14:00:00+02:00"], &[10]);
    check(&["--until", "2026-01-02"], &[1]);
    check(&["--after", "10"], &[11, 12]);
    check(&["--after", "12"], &[]);
    check(&["--grep", "tea"], &[3, 4, 7]);
    check(&["--grep", "1.10"], &[3]);
    check(&["--grep", "[]"], &[12]);
    check(&["--name", "note.*", "--by", "ada", "--after", "2", "--grep", "t"], &[3, 11]);
}

#[test]
fn a_text_to_look_for_may_look_like_an_option() {
    let home = Home::with_log(first_line() + &line(2, "pipe", "note.taken", r#"{"n":-1,"text":"--json"}"#));
    for text in ["-1", "--json"] {
        let listed = home.run(["log", "--grep", text]).stdout_any().check().text();
        assert_eq!(listed.lines().count(), 1, "{text}: {listed}");
    }
}

#[test]
fn a_time_before_now_is_counted_from_now() {
    let home = Home::made();
    home.run(["log", "--since", "1h", "--name", "home.made", "--json"]).stdout(&home.log()[first_of(&home)..]).check();
    home.run(["log", "--until", "1h"]).check();
}

/// Where the second line starts.
fn first_of(home: &Home) -> usize {
    home.log().iter().position(|byte| *byte == b'\n').unwrap() + 1
}

#[test]
fn an_odd_value_is_one_clear_line_and_exits_2() {
    let home = home();
    for (args, said) in [
        (["log", "--since", "yesterday"].as_slice(), "`--since yesterday` is no moment"),
        (&["log", "--until", "1y"], "`--until 1y` is no moment"),
        (&["log", "-n", "x"], "`-n x` is no count"),
        (&["log", "-n", "1.5"], "`-n 1.5` is no count"),
        (&["log", "-n", "-5"], "`-n -5` is no count"),
        (&["log", "--after", "x"], "`--after x` is no number"),
        (&["log", "--after", "-1"], "`--after -1` is no number"),
        (&["log", "--since", "-2d"], "`--since -2d` is no moment"),
        (&["log", "--grep", ""], "`--grep` takes a text"),
        (&["log", "--name", ""], "`--name` takes a name"),
        (&["log", "0"], "`0` is no event's number"),
        (&["log", "x"], "`x` is no event's number"),
    ] {
        let ended = home.run(args).status(2).stderr_has(&[said]).check();
        assert_eq!(ended.said().lines().count(), 1, "{args:?}: {}", ended.said());
        assert!(ended.said().starts_with("self: "), "{args:?}: {}", ended.said());
    }
    for args in [["log", "3", "--json", "--reverse"].as_slice(), &["log", "3", "-n", "1"], &["log", "--follow", "--reverse"]] {
        home.run(args).status(2).stderr_any().check();
    }
}

#[test]
fn what_is_not_there_exits_1() {
    let empty = Home::new();
    for args in [["log"].as_slice(), &["log", "1"], &["log", "--json"], &["log", "--follow"]] {
        empty.run(args).status(1).stderr_has(&["there is no home in"]).check();
    }
    assert!(empty.files().is_empty());
    home().run(["log", "13"]).status(1).stderr_has(&["there is no event 13"]).check();
}

#[test]
fn one_event_is_shown_whole_with_what_it_means() {
    let home = home();
    home.run(["log", "7"])
        .stdout(
            "seq      7\n\
             name     tide.high\n\
             means    an event of this home; the kernel keeps it and does not act on it\n\
             moment   2026-03-07T12:00:00.000000000Z\n\
             door     learn:tides: an account that was learned; its moment and speaker are of the home it comes from\n\
             speaker  moon: a claim, kept verbatim and never believed\n\
             id       00000000000000000000000000000007\n\
             payload  {\"text\":\"tea and salt\"}\n",
        )
        .check();
    home.run(["log", "7", "--json"]).stdout(stored(&[7])).check();
}

/// The row of a sheet.
fn row(home: &Home, seq: u64, word: &str) -> String {
    let text = home.run(["log", &seq.to_string()]).stdout_any().stderr_any().check().text();
    let line = text.lines().find(|line| line.starts_with(word)).unwrap_or_else(|| panic!("no {word} in {text}"));
    line[9..].to_owned()
}

#[test]
fn a_receipt_says_whether_it_is_proven_and_in_force() {
    let home = Home::made();
    let script = |text: &str| format!("```self command/note\n#!/bin/sh\necho {text} >&2\n```");
    home.hear(r#"{"name":"command.declared","payload":{"name":"note"}}"#);
    home.hear(&script("one"));
    let receipts = || home.records().iter().filter(|record| record.name == "script.compiled").map(|record| record.seq).collect();
    let [first]: [u64; 1] = <Vec<u64>>::try_into(receipts()).unwrap();
    assert_eq!(row(&home, first, "receipt"), "verified, in force; for command/note, written by pipe");
    assert_eq!(row(&home, first, "door"), "kernel: the kernel itself");
    home.hear(&script("two"));
    let [_, second]: [u64; 2] = <Vec<u64>>::try_into(receipts()).unwrap();
    assert_eq!(
        row(&home, first, "receipt"),
        format!("verified, not in force: the receipt at seq {second} is; for command/note, written by pipe")
    );
    home.run(["retire", "command/note"]).stderr_any().check();
    assert_eq!(row(&home, second, "receipt"), "verified, not in force: it was retired; for command/note, written by pipe");

    // The same record at the end, under its own number and under the next one.
    let stored = String::from_utf8(home.log()).unwrap();
    let copied = stored.lines().find(|line| line.contains("script.compiled")).unwrap();
    let next = home.records().len() as u64 + 1;
    let own = copied.replace(&format!("\"seq\":{first},\"name\""), &format!("\"seq\":{next},\"name\""));
    home.append(own.replace(".1-2\",", "\",") + "\n");
    assert_eq!(
        row(&home, next, "receipt"),
        "not verified: the key did not sign this for this place in the log, and nothing is installed by it"
    );
    fs::rename(home.join(".secret"), home.join("key")).unwrap();
    assert_eq!(row(&home, first, "receipt"), "not proven: the key `.secret` is missing; nothing is installed by it");
}

#[test]
fn a_log_of_another_program_is_shown_with_its_damage_named_once() {
    let lines = [
        "\u{feff}{\"name\":\"a.b\",\"occurred_at\":\"t\",\"payload\":1}\r\n",
        "\n \r\n",
        "{\"NAME\":\"older name\",\"seq\":7}\n",
        "damaged\n",
        " {\"name\":\"c.d\"} \n",
        "{\"name\":\"e.f\",\"seq\":2}\n",
        "{\"name\":\"g.h\"}",
    ];
    let home = Home::with_log(lines.concat());
    let offset = lines[..3].concat().len();
    let damage = format!("self: the log is damaged at line 5, byte {offset}: passed over, and kept as it is\n");
    let listed = [
        "1\tt\t-\t-\ta.b\t1\n",
        "7\t-\t-\t-\tolder name\t{}\n",
        "8\t-\t-\t-\tc.d\t{}\n",
        "2\t-\t-\t-\te.f\t{}\n",
        "9\t-\t-\t-\tg.h\t{}\n",
    ];
    let reversed: String = listed.iter().rev().copied().collect();
    home.run(["log"]).stdout(listed.concat()).stderr_has(&[&damage]).check();
    home.run(["log", "--reverse"]).stdout(&reversed).stderr_any().check();
    for newest in 0..=6 {
        let count = newest.to_string();
        let some = listed[5_usize.saturating_sub(newest)..].concat();
        home.run(["log", "-n", &count]).stdout(some).stderr_any().check();
        let some: String = listed.iter().rev().take(newest).copied().collect();
        home.run(["log", "-n", &count, "--reverse"]).stdout(some).stderr_any().check();
    }
    assert_eq!(home.run(["log", "-n", "3"]).stdout_any().stderr_any().check().said(), "");
    assert_eq!(home.run(["log", "-n", "4"]).stdout_any().stderr_any().check().said(), damage);
    home.run(["log", "--after", "7"]).stdout([listed[2], listed[4]].concat()).stderr_any().check();
    let stored = "{\"name\":\"a.b\",\"occurred_at\":\"t\",\"payload\":1}\n{\"NAME\":\"older name\",\"seq\":7}\n {\"name\":\"c.d\"} \n{\"name\":\"e.f\",\"seq\":2}\n{\"name\":\"g.h\"}\n";
    home.run(["log", "--json"]).stdout(stored).stderr_any().check();
    home.run(["log", "9", "--json"]).stdout("{\"name\":\"g.h\"}\n").stderr_any().check();
}

#[test]
fn part_of_the_last_batch_is_not_shown() {
    let parts = batch(2, &[("a.b", "1"), ("c.d", "2")]);
    for torn in [parts[0].clone(), parts.concat()[..parts.concat().len() - 9].to_owned(), "\0\0\0".to_owned()] {
        let home = Home::with_log(first_line() + &torn);
        let at = first_line().len();
        for args in [["log", "--json"].as_slice(), &["log", "--json", "-n", "5"], &["log", "--json", "--reverse"]] {
            let said = format!("the log's last {} bytes, from byte {at} on, are passed over", torn.len());
            home.run(args).stdout(first_line()).stderr_has(&[&said]).check();
        }
    }
    let home = Home::with_log(first_line() + &parts.concat());
    home.run(["log", "--json", "-n", "2"]).stdout(parts.concat()).check();
}

#[test]
fn w11_nothing_in_the_log_is_live_at_a_terminal() {
    let evil = "a\\u001b]52;c;ZXZpbA==\\u0007\\u001b[2J\\nforged\\r\\u009b2J\\u0085\\u2028";
    let raw = "\u{9b}2J\u{7f}\u{85}\u{2028}\u{90}q";
    let home = Home::with_log(format!(
        "{{\"seq\":1,\"id\":\"{evil}\",\"name\":\"{evil}\",\"occurred_at\":\"{evil}\",\"via\":\"{evil}\",\"by\":\"{evil}\",\"payload\":\"{raw}{evil}\"}}\n"
    ));
    for args in [["log"].as_slice(), &["log", "1"], &["log", "--json"], &["log", "1", "--json"], &["log", "-n", "1", "--reverse"]]
    {
        let shown = home.run(args).terminal(TERMINAL).stdout_any().check().text().replace("\r\n", "\n");
        let live: BTreeSet<_> = shown.chars().filter(|char| char.is_control() && *char != '\n').collect();
        assert!(live.is_empty() && shown.contains("\\x9b2J") && !shown.contains('\u{2028}'), "{args:?}: {live:?}: {shown:?}");
        if args.len() == 1 || args.contains(&"--json") {
            assert_eq!(shown.lines().count(), 1, "{args:?}: {shown}");
        }
    }
    let piped = home.run(["log"]).stdout_any().check().text();
    assert_eq!((piped.lines().count(), piped.split('\t').count()), (1, 6), "a line in a pipe is a line, too: {piped:?}");
}

#[test]
fn at_a_terminal_moments_are_local_and_colour_is_a_choice() {
    let home = home();
    let listed = |term: &str, no_colour: &str| {
        let call = home.run(["log", "-n", "1"]).env("TERM", term).env("NO_COLOR", no_colour).env("TZ", "Pacific/Kiritimati");
        call.env("PAGER", "cat").terminal(OUT).stdout_any().check().text()
    };
    let plain = listed("xterm", "1");
    assert!(plain.starts_with("    12  2026-03-13 02:00:00 ("), "{plain}");
    assert!(plain.ends_with("  cli     -         note.taken  []\r\n"), "{plain}");
    assert_eq!(listed("dumb", ""), plain);
    let coloured = listed("xterm", "");
    assert_eq!(coloured.replace("\x1b[2m", "").replace("\x1b[36m", "").replace("\x1b[0m", ""), plain);
    assert!(coloured.contains("\x1b[36mnote.taken\x1b[0m"), "{coloured}");
    let sheet = home.run(["log", "12"]).env("TZ", "UTC").terminal(OUT).stdout_any().check().text();
    assert!(
        sheet.contains("moment   2026-03-12 12:00:00 (") && sheet.contains(", stored as 2026-03-12T12:00:00.000000000Z\r\n"),
        "{sheet}"
    );
}

#[test]
fn at_a_terminal_the_users_pager_shows_it() {
    let home = home();
    let pager = "sed 's/^/paged: /'";
    let paged = |args: &[&str], pager: &str| home.run(args).env("PAGER", pager).terminal(OUT).stdout_any();
    for args in [["log", "-n", "1"].as_slice(), &["log", "12"]] {
        assert!(paged(args, pager).check().text().starts_with("paged: "), "{args:?}");
        assert!(!paged(args, "").check().text().contains("paged"), "{args:?}");
        home.run(args).env("PAGER", pager).stdout_any().check();
    }
    assert!(!paged(&["log", "-n", "1", "--json"], pager).check().text().contains("paged: "));
    // Nothing to show, nothing to page.
    paged(&["log", "99"], "touch paged; cat").status(1).stderr_any().check();
    assert!(!home.join("paged").exists());
    paged(&["log"], "no-such-pager").status(1).stderr_any().check();
}

#[test]
fn who_leaves_the_pager_has_seen_enough() {
    let many: String = (1..=20_000).map(|seq| line(seq, "pipe", "note.taken", "{}")).collect();
    let home = Home::with_log(many);
    let shown = home.run(["log"]).env("PAGER", "head -n 1").terminal(OUT).stdout_any().check().text();
    assert_eq!(shown.lines().count(), 1, "{shown}");
}

#[test]
fn a_megabyte_is_shortened_in_its_line_and_whole_elsewhere() {
    let payload = format!("\"{}\"", "é".repeat(500_000));
    let lines = [first_line(), line(2, "pipe", "note.taken", &payload), line(3, "pipe", "note.taken", &payload)];
    let home = Home::with_log(lines.concat());
    let listed = home.run(["log", "-n", "1"]).stdout_any().check().text();
    assert_eq!(listed, format!("3\t{MOMENT}\tpipe\t-\tnote.taken\t\"{}…\n", "é".repeat(159)));
    home.run(["log", "-n", "2", "--json"]).stdout(lines[1..].concat()).check();
    home.run(["log", "--json", "--reverse"]).stdout([&*lines[2], &lines[1], &lines[0]].concat()).check();
    let sheet = home.run(["log", "2"]).stdout_any().check().text();
    assert!(sheet.ends_with(&format!("payload  {payload}\n")));
}

#[test]
fn a_log_that_has_been_longer_is_named_by_log_too() {
    let home = Home::made();
    let log = home.log();
    home.hear(r#"{"name":"note.taken","payload":{}}"#);
    home.run(["log"]).stdout_any().check();
    home.write_log(&log);
    home.run(["log", "-n", "1"]).stdout_any().stderr_has(&["this log has been longer: 1 event is missing"]).check();
    home.run(["log", "-n", "1"]).stdout_any().check();
}

#[test]
fn a_log_that_is_closed_on_is_a_quiet_end() {
    let many: String = (1..=20_000).map(|seq| line(seq, "pipe", "note.taken", "{}")).collect();
    let home = Home::with_log(many);
    for args in ["log", "log --json", "log --reverse", "log -n 19999"] {
        let ended = home.sh(&format!("{{ self {args}; echo $? >status; }} | head -n 1")).stdout_any().check();
        assert_eq!(ended.text().lines().count(), 1, "{args}");
        assert_eq!(fs::read_to_string(home.join("status")).unwrap(), "141\n", "{args}");
    }
}
