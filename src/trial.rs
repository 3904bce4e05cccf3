//! The trial input of a projector: the made events it is fed behind those of the log before it is installed.
//!
//! A pure function of the state and the declaration, so a new home proves as much as an old one. One of each three events bears
//! text that is forbidden mark-up when it is shown unescaped. The invariant: each line is a record as the log would hold it, but
//! for its id, which no log holds.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::capability::Declaration;
use crate::event::{Door, Event};
use crate::payload::{Payload, quoted};
use crate::record::write;
use crate::state::State;

/// How many events are made for each consumed name.
pub const MADE_PER_NAME: u64 = 3;

/// The name of the events that are made for a projector that consumes all.
pub const NAME_FOR_ALL: &str = "note.made";

/// Who the made events say they are by.
pub const SPEAKER: &str = "trial";

/// A text that is shown as it is only by a script that escapes it.
const HOSTILE: &str = "<script>trial</script> & \"quotes\"";

/// Makes the events for a projector's trial, as lines of JSON; their numbers follow `seq`, the highest of the log.
#[must_use]
pub fn made(state: &State, declaration: &Declaration, seq: u64) -> Vec<u8> {
    let plain = BTreeMap::from([("text".to_owned(), "string".to_owned())]);
    let mut lines = Vec::new();
    let mut seq = seq;
    for name in names(declaration) {
        let fields = state.fields_of(name).unwrap_or(&plain);
        for k in 1..=MADE_PER_NAME {
            seq += 1;
            let occurred_at = format!("2000-01-01T00:00:0{k}Z");
            let payload = payload(fields, k, &occurred_at);
            let event = Event {
                seq,
                id: Cow::Owned(format!("{k:032}")),
                name: Cow::Borrowed(name),
                occurred_at: Cow::Borrowed(&occurred_at),
                via: Some(Door::Cli),
                by: Some(Cow::Borrowed(SPEAKER)),
                payload: Cow::Borrowed(payload.as_ref()),
            };
            write(&mut lines, &event);
        }
    }
    lines
}

/// The consumed names, each once, in the declaration's order. A blank one names no event.
fn names(declaration: &Declaration) -> Vec<&str> {
    let mut names = Vec::new();
    for name in declaration.consumes.iter().map(String::as_str) {
        if !name.trim().is_empty() && !names.contains(&name) {
            names.push(name);
        }
    }
    if declaration.consumes.is_empty() {
        names.push(NAME_FOR_ALL);
    }
    names
}

fn payload(fields: &BTreeMap<String, String>, k: u64, occurred_at: &str) -> Payload {
    let pairs: Vec<_> = fields.iter().map(|(key, word)| format!("{}:{}", quoted(key), value(word, k, occurred_at))).collect();
    Payload::read(&format!("{{{}}}", pairs.join(","))).expect("quoted keys with flat values are an object")
}

/// The value of a field by its type word, as JSON.
fn value(word: &str, k: u64, occurred_at: &str) -> String {
    match word {
        "integer" | "number" => k.to_string(),
        "boolean" => (k % 2 == 1).to_string(),
        "array" => "[]".to_owned(),
        "object" => "{}".to_owned(),
        "moment" | "date" | "time" => quoted(occurred_at),
        "base64" => quoted("c2VsZg=="),
        _ if k == MADE_PER_NAME => quoted(HOSTILE),
        _ => quoted(&format!("trial {k}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::Kind;
    use crate::record::Line;
    use crate::vocabulary::Word;

    /// Folds declarations of commands, then makes the trial of a projector.
    fn trial(commands: &[&str], projector: &str, seq: u64) -> String {
        let mut state = State::new(None);
        for (at, payload) in commands.iter().enumerate() {
            let payload = Payload::read(payload).unwrap();
            state.apply(&Event {
                seq: at as u64 + 1,
                id: "".into(),
                name: Word::CommandDeclared.name().into(),
                occurred_at: "".into(),
                via: Some(Door::Pipe),
                by: None,
                payload: Cow::Borrowed(payload.as_ref()),
            });
        }
        let declaration = Declaration::read(Kind::Projector, Payload::read(projector).unwrap().as_ref()).unwrap();
        String::from_utf8(made(&state, &declaration, seq)).unwrap()
    }

    #[track_caller]
    fn check(commands: &[&str], projector: &str, expect: &[&str]) {
        let lines = trial(commands, projector, 0);
        let payloads: Vec<_> = lines
            .lines()
            .map(|line| {
                let Line::Record(record) = Line::read(line.as_bytes()) else { panic!("no record: {line}") };
                let event = record.at(0);
                format!("{} {}", event.name, event.payload)
            })
            .collect();
        assert_eq!(payloads, expect);
    }

    const NOTE: &str = r#"{"name":"note","event":{"name":"note.added","fields":{"text":"string","n":"integer"}}}"#;
    const HOSTILE_JSON: &str = r#""<script>trial</script> & \"quotes\"""#;

    #[test]
    fn the_lines_are_records_behind_the_log() {
        let line = |seq, k, text: &str| {
            format!(
                "{{\"id\":\"{}{k}\",\"seq\":{seq},\"name\":\"note.made\",\"occurred_at\":\"2000-01-01T00:00:0{k}Z\",\"via\":\"cli\",\
                 \"by\":\"trial\",\"payload\":{{\"text\":{text}}}}}\n",
                "0".repeat(31)
            )
        };
        let expect = [line(8, 1, "\"trial 1\""), line(9, 2, "\"trial 2\""), line(10, 3, HOSTILE_JSON)].concat();
        assert_eq!(trial(&[NOTE], r#"{"name":"p"}"#, 7), expect);
        assert_eq!(trial(&[], r#"{"name":"p","consumes":["*"],"last":1}"#, 7), expect);
    }

    #[test]
    fn each_consumed_name_gets_three_in_order_with_its_fields() {
        let three = format!(r#"note.added {{"n":3,"text":{HOSTILE_JSON}}}"#);
        let other = format!(r#"b.c {{"text":{HOSTILE_JSON}}}"#);
        check(
            &[NOTE],
            r#"{"name":"p","consumes":["note.added"," ","b.c","note.added"]}"#,
            &[
                r#"note.added {"n":1,"text":"trial 1"}"#,
                r#"note.added {"n":2,"text":"trial 2"}"#,
                &three,
                r#"b.c {"text":"trial 1"}"#,
                r#"b.c {"text":"trial 2"}"#,
                &other,
            ],
        );
    }

    #[test]
    fn a_field_has_a_value_of_its_type_word() {
        let fields = r#"{"name":"c","event":{"name":"a.b","fields":{"a":"array","b":"boolean","c":"base64","d":"date","i":"integer",
            "m":"moment","n":"number","o":"object","t":"time","u":"Integer","v":7}}}"#;
        let line = |k: u64, even: bool, text: &str| {
            let at = format!("2000-01-01T00:00:0{k}Z");
            format!(
                r#"a.b {{"a":[],"b":{even},"c":"c2VsZg==","d":"{at}","i":{k},"m":"{at}","n":{k},"o":{{}},"t":"{at}","u":{text},"v":{text}}}"#
            )
        };
        let lines = [line(1, true, "\"trial 1\""), line(2, false, "\"trial 2\""), line(3, true, HOSTILE_JSON)];
        check(&[fields], r#"{"name":"p","consumes":"a.b"}"#, &lines.each_ref().map(String::as_str));
    }

    #[test]
    fn the_newest_declaration_that_gives_the_fields_counts() {
        let first = |commands: &[&str]| {
            let lines = trial(commands, r#"{"name":"p","consumes":["note.added"]}"#, 0);
            lines.lines().next().unwrap().split_once("\"payload\":").unwrap().1.to_owned()
        };
        let other = r#"{"name":"a","event":{"name":"note.added","fields":{"x":"number"}}}"#;
        assert_eq!(first(&[NOTE, other]), r#"{"x":1}}"#);
        assert_eq!(first(&[other, NOTE]), r#"{"n":1,"text":"trial 1"}}"#);
        assert_eq!(first(&[other, r#"{"name":"a","event":"note.added"}"#]), r#"{"x":1}}"#);
        assert_eq!(first(&[r#"{"name":"a","event":"note.added"}"#]), r#"{"text":"trial 1"}}"#);
        assert_eq!(first(&[other, r#"{"name":"a","event":{"name":"b.c","fields":{"y":"number"}}}"#]), r#"{"x":1}}"#);
    }

    #[test]
    fn odd_names_and_keys_stay_inside_their_strings() {
        let command = r#"{"name":"a","event":{"name":"x\n\"y\u2028","fields":{"k\n\"\u0000":"string"}}}"#;
        let lines = trial(&[command], r#"{"name":"p","consumes":["x\n\"y\u2028"]}"#, u64::from(u32::MAX));
        assert_eq!(lines.lines().count(), 3);
        for line in lines.lines() {
            assert!(matches!(Line::read(line.as_bytes()), Line::Record(_)), "{line}");
            assert!(line.contains(r#""k\n\"\u0000":"#), "{line}");
        }
    }

    #[test]
    fn shown_unescaped_it_is_forbidden_and_escaped_it_is_not() {
        let page = |text: &str| format!("<p>{text}</p>");
        let fault = crate::markup::check(page(HOSTILE).as_bytes()).unwrap_err();
        assert_eq!(fault.to_string(), "`<script>` on line 1 is not allowed");
        let escaped = HOSTILE.replace('&', "&amp;").replace('<', "&lt;");
        assert_eq!(crate::markup::check(page(&escaped).as_bytes()), Ok(()));
    }
}
