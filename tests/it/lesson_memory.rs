//! The lesson `memory`: what travels instead of numbers.

use std::fs;

use crate::home::{Home, line};
use crate::lessons::{Came, Lesson, learn, learned, page, run};

fn noted(seq: u64, moment: &str, by: Option<&str>, text: &str) -> String {
    let by = by.map(|by| format!(r#""by":"{by}","#)).unwrap_or_default();
    format!(
        r#"{{"id":"{seq:032x}","seq":{seq},"name":"memory.noted","occurred_at":"{moment}","via":"cli",{by}"payload":{{"text":"{text}"}}}}"#
    ) + "\n"
}

#[track_caller]
fn remember(args: &[&str], log: &str, expect: &Came) {
    assert_eq!(&run(Lesson::read("memory").script("command/remember"), args, log), expect);
}

#[track_caller]
fn retract(args: &[&str], log: &str, expect: &Came) {
    assert_eq!(&run(Lesson::read("memory").script("command/memory/retract"), args, log), expect);
}

const USAGE: &str = "usage: remember <text…> [--from seq,…]";

#[test]
fn a_fact_names_its_sources_by_what_travels() {
    let hostile = r#"<b>\"\\ \u2028é"#;
    let log = [
        noted(2, "A", Some("ada"), r#"\"seq\":3,"#),
        noted(3, "A", Some(hostile), "x"),
        line(4, "pipe", "commit.made", "7").replace(crate::home::MOMENT, "C"),
        format!("{}\n", r#"{"seq": 5,"name":"old.one","payload":null}"#),
        noted(33, "D", None, &format!("\"}}}}{}", "1".repeat(9000)).replace('"', "\\\"")),
    ]
    .concat();
    let of = [
        r#"{"name":"memory.noted","occurred_at":"A","by":"ada"}"#,
        "{\"name\":\"memory.noted\",\"occurred_at\":\"A\",\"by\":\"<b>\\\"\\\\ \u{2028}é\"}",
        r#"{"name":"commit.made","occurred_at":"C"}"#,
        r#"{"name":"old.one"}"#,
        r#"{"name":"memory.noted","occurred_at":"D"}"#,
    ];
    let printed = |text: &str, from: &[&str]| {
        let from = if from.is_empty() { String::new() } else { format!(r#","from":[{}]"#, from.join(",")) };
        Came::printed(&[&format!(r#"{{"name":"memory.noted","payload":{{"text":"{text}"{from}}}}}"#)])
    };
    remember(&["a", "--from", "3"], &log, &printed("a", &[of[1]]));
    remember(&["a", "b", "--from", "33,4,2, 5,03,3"], &log, &printed("a b", &[of[4], of[2], of[0], of[3], of[1]]));
    remember(&["it", "came", "--from", "her", "hand"], "", &printed("it came --from her hand", &[]));
    for wrong in
        [&["--from", "3"][..], &["a", "--from"], &["a", "--from", "3,"], &["a", "--from", "-1"], &["a", "--from", "٣"], &[" "]]
    {
        remember(wrong, &log, &Came::refused(USAGE));
    }
    remember(&["a", "--from", "2,77,99"], &log, &Came::refused("remember: no event has seq 77"));
}

#[test]
fn a_retraction_names_the_fact_by_what_travels() {
    let log =
        [noted(2, "A", Some("ada"), r#"\"seq\":4,"#), noted(3, "B", Some("ada"), "the same"), noted(22, "C", None, "x")].concat();
    let log = log + &line(4, "cli", "memory.retracted", r#"{"of":{},"seq":3,"why":"w"}"#);
    let printed =
        |of: &str| Came::printed(&[&format!(r#"{{"name":"memory.retracted","payload":{{"of":{of},"why":"not \"so\""}}}}"#)]);
    retract(&["3", "not", "\"so\""], &log, &printed(r#"{"name":"memory.noted","occurred_at":"B","by":"ada"}"#));
    retract(&["022", "not", "\"so\""], &log, &printed(r#"{"name":"memory.noted","occurred_at":"C"}"#));
    retract(&["5", "x"], &log, &Came::refused("memory/retract: no event has seq 5"));
    retract(&["4", "x"], &log, &Came::refused("memory/retract: seq 4 is no memory.noted but a memory.retracted"));
    // Older homes spell a key as they like; what is named by none cannot be named.
    let older = "{\"NAME\":\"memory.noted\",\"seq\":5}\n";
    retract(&["5", "x"], older, &Came::refused("memory/retract: seq 5 is no memory.noted but a nameless event"));
    for wrong in [&["x", "y"][..], &["2"], &["2", " "], &["", "x"], &["2x", "x"]] {
        retract(wrong, &log, &Came::refused("usage: memory/retract <seq> <why…>"));
    }
}

#[test]
fn a_retraction_hits_in_a_home_of_other_numbers_and_only_its_own_fact() {
    let lesson = Lesson::read("memory");
    let facts = |seq: u64| {
        [
            noted(seq, "A", Some("ada"), "one."),
            noted(seq + 1, "B", Some("ada"), "two."),
            noted(seq + 2, "B", Some("bob"), "three."),
        ]
    };
    let came = run(lesson.script("command/memory/retract"), &["3", "no"], facts(2).concat());
    let payload = came.stdout.trim_end().split_once("\"payload\":").unwrap().1.strip_suffix('}').unwrap();
    let shown = |seq: u64, order: [usize; 4]| {
        let [a, b, c] = facts(seq);
        let lines = [a, b, c, line(seq + 9, "learn:x", "memory.retracted", payload)];
        page(lesson.script("projector/memory"), &order.map(|at| lines[at].clone()).concat())
    };
    for (seq, order) in [(2, [0, 1, 2, 3]), (900, [0, 1, 2, 3]), (900, [3, 2, 1, 0])] {
        let shown = shown(seq, order);
        let (stands, gone) = shown.split_once("<h2>Taken back</h2>").unwrap();
        assert!(stands.contains("<li>one. ") && stands.contains("<li>three. ") && !shown.contains("not known here"), "{shown}");
        assert!(gone.contains("<li><s>two.</s> no <small>") && gone.matches("<li>").count() == 1, "{shown}");
    }
}

#[test]
fn a_long_memory_is_short_to_read() {
    let source = r#"[{"name":"journal.entry","occurred_at":"Z"}]"#;
    let sourced = |seq: u64| line(seq, "cli", "memory.noted", &format!(r#"{{"text":"sourced {seq}.","from":{source}}}"#));
    let bare = |seq: u64| line(seq, "cli", "memory.noted", &format!(r#"{{"text":"{} {seq}."}}"#, "bare".repeat(1000)));
    let log: String = (1..=500).map(|seq| if seq % 2 == 0 { sourced(seq) } else { bare(seq) }).collect();
    let shown = page(Lesson::read("memory").script("projector/memory"), &log);
    assert_eq!(shown.matches("<li>").count(), 200 + 1 + 50 + 1);
    assert!(shown.contains("<li>and 50 older, in the log</li>") && shown.contains("<li>and 200 older, in the log</li>"));
    assert!(shown.len() < 100_000, "{}", shown.len());
}

/// Gives what a home knows, with the lesson's own telling.
#[track_caller]
fn give(home: &Home, name: &str) -> std::path::PathBuf {
    let account = home.beside(name);
    fs::create_dir(&account).unwrap();
    fs::write(account.join("intent.md"), Lesson::read("memory").intent).unwrap();
    home.run(["give", "memory.", account.to_str().unwrap()]).stdout_any().stderr_any().check();
    account
}

#[track_caller]
fn note(home: &Home, by: &str, args: &[&str]) {
    home.run([&["run"], args].concat()).env("SELF_CALLER", by).stdout_any().stderr_any().check();
}

/// What a home's memory shows, its mark-up and its moments left out.
fn known(home: &Home) -> Vec<String> {
    let page = home.run(["show", "memory"]).stdout_any().check().text();
    let told = |line: &str| line.split(" <small>").next().unwrap().trim_start_matches("<li>").to_owned();
    page.lines().filter(|line| line.starts_with("<li>")).map(told).collect()
}

#[test]
fn a_retraction_hits_after_give_and_learn_both_ways() {
    let ada = learned("memory");
    for text in ["one", "two", "two"] {
        note(&ada, "ada", &["remember", text]);
    }
    let second = ada.records().last().unwrap().seq - 1;
    note(&ada, "bob", &["remember", "three", "--from", &format!("{},{second}", second - 1)]);
    note(&ada, "bob", &["memory/retract", &second.to_string(), "said", "twice"]);
    let expect = ["three", "two", "one", "<s>two</s> said twice"];
    assert_eq!(known(&ada), expect);

    let bob = Home::made();
    for n in 1..=20 {
        bob.hear(&format!(r#"{{"name":"a.b","payload":{n}}}"#));
    }
    let account = give(&ada, "from ada");
    learn(&bob, &account);
    assert_eq!(known(&bob), expect);
    let first = bob.records().into_iter().find(|record| record.payload.get().contains("\"one\"")).unwrap().seq;
    assert!(first > 20);
    note(&bob, "bob", &["memory/retract", &first.to_string(), "not", "so"]);
    let expect = ["three", "two", "<s>two</s> said twice", "<s>one</s> not so"];
    assert_eq!(known(&bob), expect);

    let back = give(&bob, "from bob");
    ada.run(["learn", back.to_str().unwrap()]).stdout_any().stderr_any().check();
    assert_eq!(known(&ada), expect);
    assert_eq!(ada.count("memory.noted"), 4, "nothing is deposited twice");
}
