//! The lessons about work: timers, sessions, monitor, decisions. What every lesson promises is held in `lessons`; here stands what
//! is theirs alone. A story numbers its events from 7701, so that a test can give them other numbers and look for the same.

use std::fs;

use crate::home::{Home, MOMENT, line};
use crate::lessons::{Came, Lesson, assert_rebuilds, learned, page, run};

/// The story of a lesson, its events numbered from here on.
fn story(lesson: &str, from: &str) -> String {
    let path = format!("{}/tests/lessons/{lesson}.jsonl", env!("CARGO_MANIFEST_DIR"));
    let story = fs::read_to_string(path).unwrap();
    assert_eq!(story.matches("77").count(), story.lines().count() + story.matches(r#""of":"77"#).count(), "77 is for numbers");
    story.replace(r#""seq":77"#, &format!(r#""seq":{from}"#))
}

/// Runs a command of a lesson over a log.
#[track_caller]
fn runs(lesson: &str, command: &str, args: &[&str], log: &str) -> Came {
    run(Lesson::read(lesson).script(&format!("command/{command}")), args, log)
}

/// What the page of a lesson shows of these events.
#[track_caller]
fn shows(lesson: &str, events: &str) -> String {
    page(Lesson::read(lesson).script(&format!("projector/{lesson}")), events)
}

/// An event of a made-up log.
fn event(seq: usize, name: &str, moment: &str, by: &str, payload: &str) -> String {
    format!(
        r#"{{"id":"{seq}","seq":{seq},"name":"{name}","occurred_at":"{moment}","via":"cli","by":"{by}","payload":{payload}}}"#
    ) + "\n"
}

/// What a command prints: one event about another, and what is told of it.
fn about(name: &str, of: &str, rest: &str) -> Came {
    Came::printed(&[&format!(r#"{{"name":"{name}","payload":{{"of":{{{of}}},{rest}}}}}"#)])
}

#[test]
fn references_hit_whatever_the_numbers_of_the_log() {
    for lesson in ["sessions", "monitor", "decisions"] {
        let here = shows(lesson, &story(lesson, "77"));
        let there = shows(lesson, &story(lesson, "98"));
        assert_ne!(here, there, "a page tells the numbers of its own home");
        assert_eq!(there.replace("98", "77"), here, "{lesson}");
    }
}

#[test]
fn what_a_command_writes_does_not_depend_on_the_numbers_of_the_log() {
    let started = r#""name":"session.started","occurred_at":"2026-01-01T00:00:00.000000001Z","by":"ada""#;
    let nobodys = r#""name":"session.started","occurred_at":"2026-01-01T02:00:00.000000001Z""#;
    let done = r#""name":"session.ended","occurred_at":"2026-01-01T02:00:00.000000001Z","by":"ada""#;
    let made = r#""name":"decision.made","occurred_at":"2026-01-01T01:00:00.000000001Z","by":"ada""#;
    let spaces = r#""name":"decision.superseded","occurred_at":"2026-01-01T02:00:00.000000001Z","by":"bob""#;
    for (lesson, command, number, args, expect) in [
        ("sessions", "session/note", "01", &["a", "b"][..], about("session.noted", started, r#""note":"a b""#)),
        ("sessions", "session/note", "05", &["of a note"], about("session.noted", started, r#""note":"of a note""#)),
        ("sessions", "session/end", "03", &["é \"q\""], about("session.ended", nobodys, r#""outcome":"é \"q\"""#)),
        ("sessions", "session/end", "07", &["anew"], about("session.ended", started, r#""outcome":"anew""#)),
        ("sessions", "session/harvest", "01", &["x"], about("session.harvested", started, r#""note":"x""#)),
        ("sessions", "session/harvest", "07", &["x"], about("session.harvested", started, r#""note":"x""#)),
        ("monitor", "monitor/check", "07", &["accepted", "now"], about("monitor.verified", done, r#""why":"now""#)),
        ("monitor", "monitor/check", "08", &["rejected", "no"], about("monitor.rejected", done, r#""why":"no""#)),
        ("monitor", "monitor/retry", "07", &[], about("monitor.retried", done, r#""why":"""#)),
        ("decisions", "supersede", "02", &["t", "a", "b"], about("decision.superseded", made, r#""title":"t","because":"a b""#)),
        ("decisions", "supersede", "03", &["t", "b"], about("decision.superseded", spaces, r#""title":"t","because":"b""#)),
    ] {
        for from in ["77", "98"] {
            let seq = format!("{from}{number}");
            let args = [&[seq.as_str()], args].concat();
            assert_eq!(runs(lesson, command, &args, &story(lesson, from)), expect, "{command} {args:?}");
        }
    }
}

#[test]
fn a_number_that_is_not_there_or_of_the_wrong_kind_is_wrong_usage() {
    let other = event(1, "note.\\n\\\"added", MOMENT, "ada", r#"{"seq":2}"#);
    let odd = event(3, "session.noted", MOMENT, "ada", r#"{"of":{"name":"note.added"}}"#)
        + &event(4, "monitor.rejected", MOMENT, "ada", "null");
    let none = r#"seq 1 is "note.\n\"added", which is no"#;
    for (lesson, command, args, log, expect) in [
        ("sessions", "session/note", &["1", "x"][..], &other, format!("{none} event of a session")),
        ("sessions", "session/end", &["2", "x"], &other, "there is no seq 2 in this log".to_owned()),
        ("sessions", "session/harvest", &["2", "x"], &other, "there is no seq 2 in this log".to_owned()),
        ("sessions", "session/note", &["3", "x"], &odd, r#"seq 3 is "session.noted", which is no event of a session"#.to_owned()),
        ("monitor", "monitor/check", &["2", "accepted", "x"], &other, "there is no seq 2 in this log".to_owned()),
        (
            "monitor",
            "monitor/check",
            &["4", "accepted", "x"],
            &odd,
            r#"seq 4 is "monitor.rejected", which does not say what it is about"#.to_owned(),
        ),
        ("monitor", "monitor/retry", &["1"], &other, "seq 1 does not stand rejected: nobody has judged it".to_owned()),
        ("decisions", "supersede", &["1", "x", "y"], &other, format!("{none} decision")),
        ("decisions", "supersede", &["2", "x", "y"], &other, "there is no seq 2 in this log".to_owned()),
    ] {
        assert_eq!(runs(lesson, command, args, log), Came::refused(&expect), "{command} {args:?}");
    }
    let story = story("sessions", "77");
    let early = "the session of seq 7703 has not ended: session/end 7703 <outcome…>";
    assert_eq!(runs("sessions", "session/harvest", &["7703", "x"], &story), Came::refused(early));
    let verified = "seq 7705 does not stand rejected: it was verified";
    assert_eq!(runs("monitor", "monitor/retry", &["7705"], &self::story("monitor", "77")), Came::refused(verified));
    for seq in ["", "x", "-1", "1.0", "1e3", "٣", "12345678901234567", "1\n"] {
        let usage = Came::refused("usage: session/note <seq> <note…>");
        assert_eq!(runs("sessions", "session/note", &[seq, "x"], &other), usage, "{seq}");
    }
    assert_eq!(runs("monitor", "monitor/check", &["1", "Accepted", "x"], &other).status, 2);
}

#[test]
fn two_events_that_differ_only_in_their_moment_are_told_apart() {
    let (first, second) = ("2026-01-01T00:00:00.000000001Z", "2026-01-01T00:00:00.000000002Z");
    let of =
        |name: &str, moment: &str| format!(r#"{{"of":{{"name":"{name}","occurred_at":"{moment}","by":"ada"}},"outcome":"x"}}"#);
    let sessions = event(1, "session.started", first, "ada", r#"{"what":"same"}"#)
        + &event(2, "session.started", second, "ada", r#"{"what":"same"}"#)
        + &event(3, "session.ended", second, "ada", &of("session.started", second));
    let shown = shows("sessions", &sessions);
    assert!(shown.contains("session/harvest 2 ") && shown.contains("session/end 1 "), "{shown}");
    assert!(!shown.contains("session/harvest 1 ") && !shown.contains("session/end 2 "), "{shown}");
    let decisions = event(1, "decision.made", first, "ada", r#"{"title":"one"}"#)
        + &event(2, "decision.made", second, "ada", r#"{"title":"two"}"#)
        + &event(3, "decision.superseded", second, "ada", &of("decision.made", second));
    let shown = shows("decisions", &decisions);
    assert!(shown.contains("<del>two</del>") && shown.contains("<h2>one</h2>") && !shown.contains("<h2>two</h2>"), "{shown}");
}

#[test]
fn a_fact_that_came_before_what_it_is_about_still_hits() {
    for lesson in ["sessions", "decisions"] {
        let story = story(lesson, "77");
        let lines: Vec<_> = story.lines().rev().collect();
        let shown = shows(lesson, &(lines.join("\n") + "\n"));
        let hit = if lesson == "sessions" { "session/harvest 7701 " } else { "<del>Tabs</del>" };
        assert!(shown.contains(hit), "{shown}");
    }
}

/// Gives what starts with this, and learns it in the other home.
#[track_caller]
fn travels(prefix: &str, from: &Home, to: &Home) {
    let account = from.beside("account");
    let account = account.to_str().unwrap();
    from.run(["give", prefix, account]).stdout_any().stderr_any().check();
    to.run(["learn", account]).stdout_any().stderr_any().check();
}

#[test]
fn what_one_home_says_of_anothers_event_hits_there_when_it_comes_back() {
    for (lesson, prefix, first, command, words, name, before, after) in [
        (
            "sessions",
            "session.",
            "session/start x",
            "session/end",
            "y",
            "session.started",
            "session/end SEQ ",
            "session/harvest SEQ ",
        ),
        ("decisions", "decision.", "decide Tabs x", "supersede", "Spaces y", "decision.made", "<h2>Tabs</h2>", "<del>Tabs</del>"),
        (
            "monitor",
            "monitor.",
            "monitor/check 1 rejected x",
            "monitor/retry",
            "again",
            "monitor.rejected",
            "monitor/retry SEQ ",
            "Another try: again",
        ),
    ] {
        let (here, there) = (learned(lesson), learned(lesson));
        there.hear(r#"{"name":"note.added","payload":{}}"#);
        here.sh(&format!("self run {first}")).env("SELF_CALLER", "ada").stdout_any().check();
        let number = |home: &Home| home.records().iter().find(|record| record.name == name).unwrap().seq.to_string();
        let is_seen = |home: &Home, part: &str| {
            let part = part.replace("SEQ", &number(home));
            home.run(["show", lesson]).stdout_has(&[&part]).check();
        };
        travels(prefix, &here, &there);
        assert_ne!(number(&here), number(&there));
        is_seen(&here, before);
        is_seen(&there, before);
        there.sh(&format!("self run {command} {} {words}", number(&there))).stdout_any().check();
        is_seen(&there, after);
        travels(prefix, &there, &here);
        is_seen(&here, after);
        assert_rebuilds(&here);
        assert_rebuilds(&there);
    }
}

// --- timers -----------------------------------------------------------------------------------------------------------------

fn timer(seq: usize, name: &str, payload: &str) -> String {
    event(seq, name, MOMENT, "ada", payload)
}

#[test]
fn a_moment_is_kept_in_one_form() {
    let lesson = Lesson::read("timers");
    let set = |when: &str| run(lesson.script("command/timer/set"), &["tea", when, "a", " b"], "");
    for (when, at) in [
        ("2030-01-31", "2030-01-31T00:00:00Z"),
        ("2030-01-31T09:05", "2030-01-31T09:05:00Z"),
        ("2030-01-31T09:05:07Z", "2030-01-31T09:05:07Z"),
        ("2030-01-31T09:05:07.999Z", "2030-01-31T09:05:07Z"),
        ("2030-01-01T00:30:00+01:00", "2029-12-31T23:30:00Z"),
        ("2030-01-31T23:30:00-01:00", "2030-02-01T00:30:00Z"),
        ("2030-01-31t09:05:07z", "2030-01-31T09:05:07Z"),
        ("0999-01-31", "0999-01-31T00:00:00Z"),
    ] {
        let line = format!(r#"{{"name":"timer.set","payload":{{"name":"tea","at":"{at}","message":"a  b"}}}}"#);
        assert_eq!(set(when), Came::printed(&[&line]), "{when}");
    }
    for span in ["0s", "90s", "5m", "2h", "1d", "1w"] {
        let came = set(span);
        let at = came.stdout.split("\"at\":\"").nth(1).unwrap_or_default().get(..20).unwrap_or_default();
        assert!(at.ends_with('Z') && at.chars().nth(10) == Some('T'), "{span}: {came:?}");
    }
    let digits = "1".repeat(5000) + "s";
    for when in [
        "",
        "soon",
        "-5m",
        "5",
        "5 m",
        "1.5h",
        "٣s",
        "99999999999999w",
        &digits,
        "2030-02-30",
        "2030-1-1",
        "2030-01-31T25:00",
        "2030-01-31 09:00",
        "2030-01-31T09:00\n",
        "0001-01-01T00:00:00+23:00",
        "2030-01-31T09:00:00+99:99",
        "2030-01-31T09:00:00+24:00",
        "2030-01-31T09:00:00+01:60",
        "2030-01-31T09:00:00",
        "2030-01-31T09:00Z",
        "2030-01-31T09:00+01:00",
    ] {
        let came = set(when);
        assert_eq!((came.stdout.as_str(), came.status, came.stderr.lines().count()), ("", 2, 1), "{when:?}");
        assert!(came.stderr.starts_with("usage: timer/set <name> <when> [message…]; "), "{}", came.stderr);
    }
}

#[test]
fn a_tick_rings_once_what_is_due() {
    let lesson = Lesson::read("timers");
    let tick = |log: &str| run(lesson.script("command/timer/tick"), &[], log);
    let set = |seq, name: &str, at: &str| timer(seq, "timer.set", &format!(r#"{{"name":"{name}","at":"{at}","message":"m\n"}}"#));
    let rang = |name: &str, at: &str| format!(r#"{{"name":"timer.rang","payload":{{"name":"{name}","at":"{at}"}}}}"#);
    let (past, earlier) = ("2020-01-02T00:00:00Z", "2020-01-01T23:30:00-00:15");
    let log = set(1, "tea", past)
        + &set(2, "late", "2999-01-01T00:00:00Z")
        + &set(3, "off", past)
        + &set(4, "abroad", earlier)
        + &timer(5, "timer.cancelled", r#"{"name":"off"}"#)
        + &timer(6, "timer.rang", &format!(r#"{{"name":"tea","at":"{earlier}"}}"#));
    let due = Came {
        stdout: format!("{}\n{}\n", rang("abroad", earlier), rang("tea", past)),
        stderr: "rings: \"abroad\" \"m\\n\"\nrings: \"tea\" \"m\\n\"\n".to_owned(),
        status: 0,
    };
    assert_eq!(tick(&log), due);
    let ticked = log + &timer(7, "timer.rang", &format!(r#"{{"name":"tea","at":"{past}"}}"#));
    let ticked = ticked + &timer(8, "timer.rang", &format!(r#"{{"name":"abroad","at":"{earlier}"}}"#));
    assert_eq!(tick(&ticked), Came::printed(&[]), "a second tick");
    assert_eq!(tick(&(ticked.clone() + &set(9, "tea", past))), Came::printed(&[]), "it has rung for that moment");
    let anew = tick(&(ticked.clone() + &set(9, "tea", "2020-01-03T00:00:00Z")));
    assert_eq!(anew.stdout, rang("tea", "2020-01-03T00:00:00Z") + "\n");
    let replaced = set(9, "tea", "2020-01-03T00:00:00Z") + &set(10, "tea", "2999-01-01T00:00:00Z");
    assert_eq!(tick(&(ticked + &replaced)), Came::printed(&[]), "the newer one of a name counts");
    let odd: String = [
        "null",
        "7",
        r#"{"name":7,"at":7}"#,
        r#"{"name":"a"}"#,
        r#"{"name":"b","at":["x"]}"#,
        r#"{"name":"c","at":"2020-13-01T00:00:00Z"}"#,
    ]
    .iter()
    .enumerate()
    .map(|(at, payload)| timer(at + 1, "timer.set", payload) + &timer(at + 10, "timer.rang", payload))
    .collect();
    assert_eq!(tick(&odd), Came::printed(&[]));
}

#[test]
fn what_does_not_wait_cannot_be_cancelled() {
    let lesson = Lesson::read("timers");
    let cancel = |name: &str, log: &str| run(lesson.script("command/timer/cancel"), &[name], log);
    let set = timer(1, "timer.set", r#"{"name":"a \"b\"","at":"2030-01-01T00:00:00Z"}"#);
    let cancelled = Came::printed(&[r#"{"name":"timer.cancelled","payload":{"name":"a \"b\""}}"#]);
    let refused = Came::refused(r#"no timer "a \"b\"" waits"#);
    assert_eq!(cancel("a \"b\"", &set), cancelled);
    assert_eq!(cancel("a \"b\"", ""), refused);
    let gone = timer(2, "timer.cancelled", r#"{"name":"a \"b\""}"#);
    assert_eq!(cancel("a \"b\"", &(set.clone() + &gone)), refused);
    assert_eq!(cancel("a \"b\"", &(set.clone() + &gone + &set)), cancelled);
    let rang = timer(2, "timer.rang", r#"{"name":"a \"b\"","at":"2030-01-01T00:00:00Z"}"#);
    assert_eq!(cancel("a \"b\"", &(set + &rang)), refused);
}

#[test]
fn a_long_name_does_not_make_the_page_as_long() {
    let set = |name: &str| timer(1, "timer.set", &format!(r#"{{"name":"{name}","at":"2030-01-01T00:00:00Z"}}"#));
    let page = shows("timers", &(set("tea") + &set(&"x".repeat(1 << 20))));
    assert!(page.contains("more characters") && page.len() < 10_000, "{}", page.len());
    assert_eq!(page.matches("/run/timer/cancel").count(), 1);
}

#[test]
fn two_ticks_at_once_ring_a_timer_once() {
    let home = learned("timers");
    home.run(["run", "timer/set", "tea", "2020-01-01"]).stdout_any().check();
    let tick = || home.run(["run", "timer/tick"]).stdout_any().stderr_any();
    crate::home::at_once(vec![tick(), tick(), tick()]);
    assert_eq!(home.payloads("timer.rang"), [r#"{"name":"tea","at":"2020-01-01T00:00:00Z"}"#]);
}

// --- pages that would grow too long -----------------------------------------------------------------------------------------

/// A moment for each number.
fn nth(n: usize) -> String {
    format!("2026-01-01T00:00:00.{n:09}Z")
}

#[track_caller]
fn ends_early(lesson: &str, events: &str, parts: &[&str]) {
    let shown = shows(lesson, events);
    for part in parts {
        assert!(shown.contains(part), "{part} is missing in\n{}", &shown[shown.len().saturating_sub(3000)..]);
    }
}

#[test]
fn long_pages_end_early_and_say_so() {
    let timers: String = (1..=300)
        .map(|n| {
            let name = |suffix: &str| format!(r#"{{"name":"{suffix}{n}","at":"2030-01-01T00:00:00Z"}}"#);
            timer(n, "timer.set", &name("w"))
                + &timer(n, "timer.rang", &name("r"))
                + &timer(n, "timer.set", &name("c"))
                + &timer(n, "timer.cancelled", &name("c"))
        })
        .collect();
    ends_early("timers", &timers, &["And 100 more, in the log.", "And 250 more, in the log.", "And 280 more, in the log."]);

    let of = |n: usize, name: &str| format!(r#"{{"of":{{"name":"{name}","occurred_at":"{}","by":"ada"}},"why":"w"}}"#, nth(n));
    let started = |n: usize| event(n, "session.started", &nth(n), "ada", r#"{"what":"x"}"#);
    let said = |n: usize, name: &str| event(n, name, &nth(n), "ada", &of(n, "session.started"));
    let ended = |n: usize| started(n) + &said(n, "session.ended");
    let sessions: String =
        (1..=110).map(|n| started(n) + &ended(n + 1000) + &ended(n + 2000) + &said(n + 2000, "session.harvested")).collect();
    ends_early("sessions", &sessions, &["And 10 more, in the log.", "And 60 more, in the log."]);
    let notes: String = (1..=30).map(|_| said(1, "session.noted")).collect();
    ends_early("sessions", &(started(1) + &notes), &["<li>10 older notes, in the log</li>"]);

    let judged = |n: usize, name: &str| event(n, name, &nth(n), "eve", &of(n, "x.y"));
    let monitor: String = (1..=130)
        .map(|n| {
            judged(n, "monitor.rejected")
                + &judged(n + 1000, "monitor.rejected")
                + &judged(n + 1000, "monitor.retried")
                + &judged(n + 2000, "monitor.verified")
        })
        .collect();
    ends_early("monitor", &monitor, &["And 30 more, in the log.", "And 80 more, in the log."]);
    let again: String = (1..=25).map(|_| judged(1, "monitor.rejected")).collect();
    ends_early("monitor", &again, &["<li>5 older words, in the log</li>"]);

    let decisions: String = (1..=210).map(|n| event(n, "decision.made", &nth(n), "ada", r#"{"title":"t"}"#)).collect();
    ends_early("decisions", &decisions, &["<p>And 10 older that stand, in the log.</p>"]);
}

// --- decisions --------------------------------------------------------------------------------------------------------------

/// A decision that supersedes the one of that number, which is `decision.made` if it is 1.
fn superseding(n: usize, old: usize) -> String {
    let name = if old == 1 { "decision.made" } else { "decision.superseded" };
    let of = format!(r#"{{"name":"{name}","occurred_at":"{}","by":"ada"}}"#, nth(old));
    event(n, "decision.superseded", &nth(n), "ada", &format!(r#"{{"of":{of},"title":"d{n}","because":"b"}}"#))
}

#[test]
fn a_long_chain_of_decisions_folds_so_far_and_says_how_much_is_left() {
    let made = event(1, "decision.made", &nth(1), "ada", r#"{"title":"d1"}"#);
    let chain = |length: usize| made.clone() + &(2..=length).map(|n| superseding(n, n - 1)).collect::<String>();
    let shown = |events: &str| shows("decisions", events);
    let whole = shown(&chain(21));
    assert_eq!(whole.matches("<summary>Supersedes: ").count(), 20);
    assert!(whole.contains("<del>d1</del>") && !whole.contains("older"), "{whole}");
    let cut = shown(&chain(5000));
    assert_eq!((cut.matches("<summary>Supersedes: ").count(), cut.matches("<h2>d").count()), (20, 1));
    assert!(cut.contains("<p>And 4979 older, in the log.</p>"), "{cut}");
    let reversed: Vec<_> = chain(5000).lines().rev().map(|line| format!("{line}\n")).collect();
    assert_eq!(shown(&reversed.concat()), cut, "in whatever order they came");
}

#[test]
fn a_decision_with_many_successors_is_folded_under_each() {
    let made = event(1, "decision.made", &nth(1), "ada", r#"{"title":"d1"}"#);
    let many: String = (2..=30).map(|n| superseding(n, 1)).collect();
    let shown = shows("decisions", &(made + &many));
    assert_eq!((shown.matches("<del>d1</del>").count(), shown.matches("<h2>d").count()), (29, 29));
    assert!(shown.contains("19, 20, 21 and 8 more.</p>"), "{shown}");
}

#[test]
fn successions_in_a_circle_hide_no_decision() {
    for length in [1, 2, 3, 100] {
        let circle: String = (0..length).map(|n| superseding(n + 2, (n + 1) % length + 2)).collect();
        let shown = shows("decisions", &circle);
        assert_eq!(shown.matches("<h2>d").count(), 1, "{shown}");
        assert_eq!(shown.matches("<del>").count(), (length - 1).min(20), "{shown}");
    }
    let shown = shows("decisions", &(superseding(2, 3) + &superseding(3, 2) + &superseding(4, 3)));
    assert!(shown.contains("<h2>d4</h2>"), "{shown}");
    for title in ["d2", "d3"] {
        let there = [format!("<h2>{title}</h2>"), format!("<del>{title}</del>")];
        assert!(there.iter().any(|it| shown.contains(it.as_str())), "{title}: {shown}");
    }
}

#[test]
fn a_number_of_a_log_that_another_program_wrote_is_found() {
    let lesson = Lesson::read("decisions");
    let log = r#"{"name": "decision.made", "payload": {"seq": 2}, "occurred_at": "2026-01-01T00:00:00Z", "seq": 12}"#;
    let came = run(lesson.script("command/supersede"), &["0012", "t", "b"], log);
    let of = r#""name":"decision.made","occurred_at":"2026-01-01T00:00:00Z""#;
    assert_eq!(came, about("decision.superseded", of, r#""title":"t","because":"b""#));
    let home = Home::with_log(line(1, "cli", "decision.made", "{}"));
    let came = run(lesson.script("command/supersede"), &["1", "t", "b"], home.log());
    assert_eq!(
        came,
        about(
            "decision.superseded",
            &format!(r#""name":"decision.made","occurred_at":"{MOMENT}""#),
            r#""title":"t","because":"b""#
        )
    );
}
