//! The lesson `chat`: who waits for whom, what is folded, and whose identity counts.

use serde_json::json;

use crate::home::line;
use crate::lessons::{Came, Lesson, page, run};

const WAITS: &str = "<p role=\"status\">A message waits: it is answered when a mind next passes by, and not before.</p>\n";

fn message(seq: u64, via: &str, role: &str, content: &str) -> String {
    let moment = format!("2026-01-01T00:00:{seq:02}Z");
    line(seq, via, "chat.message", &json!({"role": role, "content": content}).to_string()).replace(crate::home::MOMENT, &moment)
}

fn compacted(of: &str, summary: &str) -> String {
    line(90, "cli", "chat.compacted", &format!(r#"{{"of":{of},"summary":"{summary}"}}"#))
}

fn shows(what: &str, log: &[String]) -> String {
    page(Lesson::read("chat").script(what), &log.concat())
}

#[test]
fn what_is_said_is_kept_as_it_came() {
    let lesson = Lesson::read("chat");
    let hostile = "<script>\"q\"</script>\n\u{2028}\u{1b} $(id)";
    let kept = "<script>\\\"q\\\"</script>\\n\u{2028}\\u001b $(id)";
    let said = |what: &str, args: &[&str], log: &str| run(lesson.script(what), args, log);
    let chat = format!(r#"{{"name":"chat.message","payload":{{"role":"user","content":"a {kept}"}}}}"#);
    assert_eq!(said("command/chat", &["a", hostile], ""), Came::printed(&[&chat]));
    let identity = format!(r#"{{"name":"self.identity","payload":{{"text":"a {kept}"}}}}"#);
    assert_eq!(said("command/identity", &["a", hostile], ""), Came::printed(&[&identity]));
    let log =
        [message(2, "cli", "user", "\"seq\":3,"), message(3, "pipe", "assistant", "x"), line(4, "cli", "a.b", "{}")].concat();
    let of = r#"{"name":"chat.message","occurred_at":"2026-01-01T00:00:03Z"}"#;
    let folded = format!(r#"{{"name":"chat.compacted","payload":{{"of":{of},"summary":"a {kept}"}}}}"#);
    assert_eq!(said("command/compact", &["3", "a", hostile], &log), Came::printed(&[&folded]));
    assert_eq!(said("command/compact", &["4", "a"], &log), Came::refused("compact: seq 4 is no chat.message but a a.b"));
    assert_eq!(said("command/compact", &["5", "a"], &log), Came::refused("compact: no event has seq 5"));
    let nameless = Came::refused("compact: seq 5 is no chat.message but a nameless event");
    assert_eq!(said("command/compact", &["5", "a"], "{\"NAME\":\"chat.message\",\"seq\":5}\n"), nameless);
    for wrong in [&["x", "a"][..], &["3"], &["3", " "]] {
        assert_eq!(said("command/compact", wrong, &log), Came::refused("usage: compact <through-seq> <summary>"));
    }
}

#[test]
fn a_message_waits_for_an_answer_that_is_given_here() {
    let asked = message(2, "http:127.0.0.1", "user", "a?");
    let cases: [(&[String], bool); 7] = [
        (&[], false),
        (&[message(2, "learn:x", "user", "a?")], false),
        (std::slice::from_ref(&asked), true),
        (&[asked.clone(), message(3, "learn:x", "assistant", "b")], true),
        (&[asked.clone(), message(3, "pipe", "system", "b")], true),
        (&[asked.clone(), message(3, "pipe", "assistant", "b")], false),
        (&[asked.clone(), message(3, "pipe", "assistant", "b"), message(4, "cli", "user", "c?")], true),
    ];
    for (log, waits) in cases {
        for what in ["projector/chat", "projector/welcome"] {
            assert_eq!(shows(what, log).contains(WAITS), waits, "{what} {log:?}");
        }
    }
}

#[test]
fn the_fold_that_reaches_furthest_counts_in_any_home() {
    let of = |seq: u64| format!(r#"{{"name":"chat.message","occurred_at":"2026-01-01T00:00:{seq:02}Z"}}"#);
    let folds = [compacted(&of(4), "the most"), compacted(&of(3), "less"), compacted(&of(9), "nothing"), compacted("3", "odd")];
    let turns = |shift: u64| {
        (2..=5).map(move |seq| {
            message(seq, "cli", "user", &format!("turn {seq}."))
                .replace(&format!("\"seq\":{seq}"), &format!("\"seq\":{}", seq + shift))
        })
    };
    for shift in [0, 700] {
        let log: Vec<_> = turns(shift).chain(folds.clone()).collect();
        let welcome = shows("projector/welcome", &log);
        assert!(welcome.contains("<p>What was said before: the most</p>") && welcome.contains("turn 5."), "{welcome}");
        assert!(!["turn 4.", "less", "nothing", "odd"].iter().any(|word| welcome.contains(word)), "{welcome}");
        let chat = shows("projector/chat", &log);
        assert!(
            chat.contains("<p>the most</p>\n<details>\n<summary>Of 3 turns</summary>\n") && chat.contains("turn 2."),
            "{chat}"
        );
    }
}

#[test]
fn a_long_conversation_ends_early_and_says_so() {
    let log: Vec<_> =
        (2..=451).map(|seq| line(seq, "cli", "chat.message", &format!(r#"{{"role":"user","content":"{seq}."}}"#))).collect();
    let chat = shows("projector/chat", &log);
    assert!(chat.contains("<p>250 older, in the log.</p>") && chat.contains("<p>252.</p>") && !chat.contains("<p>251.</p>"));
    assert_eq!(shows("projector/welcome", &log).matches("<article>").count(), 8);
    assert!(shows("projector/welcome", &log).contains("<p><a href=\"/chat\">442 older</a></p>"));
}

#[test]
fn an_identity_from_elsewhere_counts_until_one_is_given_here() {
    let said = |via: &str, text: &str| line(2, via, "self.identity", &json!({"text": text}).to_string());
    let [one, two] = [said("learn:x", "one."), said("learn:y", "two.")];
    let own = said("cli", "own.");
    let cases: [(&[String], &str); 4] = [
        (&[one.clone(), two.clone()], "two."),
        (&[one.clone(), own.clone(), two.clone()], "own."),
        (&[own.clone(), one, two], "own."),
        (&[own, said("pipe", "newer.")], "newer."),
    ];
    for (log, expect) in cases {
        assert!(shows("projector/welcome", log).starts_with(&format!("<h1>Welcome</h1>\n<p>{expect}</p>\n")), "{log:?}");
        assert!(shows("projector/identity", log).starts_with(&format!("<h1>Identity</h1>\n<p>{expect}</p>\n")), "{log:?}");
    }
}
