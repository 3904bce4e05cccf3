//! Tellings: an event in a line that a person reads.
//!
//! What somebody said is told by its words, what the kernel did by a sentence, and anything else by its fields; never by raw JSON or
//! encoded data. Pure; what it gives is text, not yet escaped. The invariant: a telling is one line of bounded length, without a live
//! control character, whatever the payload holds.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::event::{Door, Event};
use crate::moment;
use crate::quotation::{on_one_line, straight};
use crate::record::{object, string};
use crate::vocabulary::Word;

/// The longest telling, in characters.
pub const TELLING_CHARS_MAX: usize = 240;

/// How much of a name, a speaker, a door or a moment is told, in characters.
pub const CLAIM_CHARS_MAX: usize = 128;

/// How many fields are told of an event that says nothing in words.
const FIELDS_MAX: usize = 6;

/// How much of such a field is told, in characters.
const FIELD_CHARS_MAX: usize = 60;

/// From how many bytes on a string without a blank is data and no text.
const DATA_BYTES_MIN: usize = 64;

/// The fields that hold what somebody said, beside which others need not be told, the most telling first.
const SAYING: [&str; 4] = ["text", "content", "message", "summary"];

/// An event, short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Told {
    /// Its number.
    pub seq: u64,
    /// Its name.
    pub name: String,
    /// Who the caller said it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The text of its door; empty where the record does not say.
    pub via: String,
    /// Its moment, as it is stored.
    pub occurred_at: String,
    /// What it tells.
    pub text: String,
    /// Whether it is the kernel's own bookkeeping, which nobody looks for.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub quiet: bool,
    /// Its moment, if that is one.
    #[serde(skip)]
    pub moment: Option<Timestamp>,
}

impl Told {
    /// Tells an event.
    #[must_use]
    pub fn of(event: &Event<'_>) -> Told {
        let word = acting(&event.name, event.via.as_ref());
        Told {
            seq: event.seq,
            name: claim(&event.name),
            by: event.by.as_deref().filter(|by| !by.trim().is_empty()).map(claim),
            via: event.via.as_ref().map(Door::text).map(|via| claim(&via)).unwrap_or_default(),
            occurred_at: claim(&event.occurred_at),
            text: text(word, &event.payload),
            quiet: is_quiet(word),
            moment: moment::read(&event.occurred_at),
        }
    }
}

fn claim(text: &str) -> String {
    line(text, CLAIM_CHARS_MAX)
}

/// The kernel's word for an event, if it acts on it.
fn acting(name: &str, via: Option<&Door<'_>>) -> Option<Word> {
    Word::of(name).filter(|word| word.counts_through(via))
}

fn is_quiet(word: Option<Word>) -> bool {
    matches!(word, Some(Word::KernelInitialized | Word::LogSealed | Word::ScriptCompiled | Word::SelfReflected))
}

/// What an event of this name and door tells, and whether it is the kernel's own bookkeeping.
#[must_use]
pub fn telling(name: &str, via: Option<&Door<'_>>, payload: &RawValue) -> (String, bool) {
    let word = acting(name, via);
    (text(word, payload), is_quiet(word))
}

/// A text on one line, its runs of blanks as one, cut.
fn line(text: &str, chars: usize) -> String {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        // A character may yet become several when it is shown; the cut behind this loop is the one that holds.
        if line.len() > 4 * chars {
            break;
        }
    }
    let shown = straight(&on_one_line(&line[..line.floor_char_boundary(4 * chars + 4)]));
    match shown.char_indices().nth(chars) {
        Some((at, _)) => format!("{}…", &shown[..at]),
        None => shown,
    }
}

/// The fields of a payload.
struct Fields<'p>(Vec<(Cow<'p, str>, &'p RawValue)>);

impl Fields<'_> {
    /// A field as text; empty if it is not there.
    fn get(&self, key: &str) -> String {
        let field = self.0.iter().find(|(own, _)| own == key).map(|(_, raw)| *raw);
        field.map(|raw| string(raw).map_or_else(|| raw.get().to_owned(), Cow::into_owned)).unwrap_or_default()
    }

    /// `command/note`
    fn capability(&self) -> String {
        [self.get("type"), self.get("name")].join("/").trim_matches('/').to_owned()
    }

    /// How many events it speaks of.
    fn events(&self) -> String {
        let count = self.get("events");
        if count == "1" { "1 event".to_owned() } else { format!("{count} events") }
    }

    /// A head, and behind it a field if it says anything.
    fn with(&self, head: String, key: &str) -> String {
        let said = self.get(key);
        if said.trim().is_empty() { head } else { format!("{head}: {said}") }
    }
}

fn text(word: Option<Word>, payload: &RawValue) -> String {
    let fields = Fields(object(payload.get()).unwrap_or_default());
    let told = match word {
        None => plain(&fields, payload),
        Some(Word::KernelInitialized) => "this home was made".to_owned(),
        Some(Word::LogRecovered) => format!("a torn end of {} bytes was set aside in .self/torn/", fields.get("bytes")),
        Some(Word::LogSealed) => format!("sealed through event {}", fields.get("through")),
        Some(Word::SelfReflected) => "a mind was asked to reflect".to_owned(),
        Some(Word::CommandDeclared) => fields.with(format!("declared command/{}", fields.get("name")), "description"),
        Some(Word::ProjectorDeclared) => fields.with(format!("declared projector/{}", fields.get("name")), "description"),
        Some(Word::CapabilityRetired) => format!("retired {}", fields.capability()),
        Some(Word::ScriptCompiled) => format!("installed {}", fields.capability()),
        Some(Word::ScriptRejected) => fields.with(format!("rejected a script for {}", fields.capability()), "reason"),
        Some(Word::EventRefused) => fields.with(format!("refused {}", fields.get("name")), "reason"),
        Some(Word::CapabilityDied) => fields.with(format!("{} failed ({})", fields.capability(), fields.get("exit")), "stderr"),
        Some(Word::IntentDeclared) => fields.with(format!("the telling of {}", fields.get("name")), "intent"),
        Some(Word::AccountGiven) => format!("gave {}: {}", fields.get("selector"), fields.events()),
        Some(Word::LessonLearned) => format!("learned {}: {}", fields.get("lesson"), fields.events()),
        Some(
            Word::SelfAsked
            | Word::SelfReplied
            | Word::ScriptAuthored
            | Word::LearnOrchestrated
            | Word::CapabilityRevisionRequested
            | Word::KernelUpgraded,
        ) => plain(&fields, payload),
    };
    line(&told, TELLING_CHARS_MAX)
}

/// What an event says that the kernel does not act on.
fn plain(fields: &Fields<'_>, payload: &RawValue) -> String {
    let said = SAYING.iter().find_map(|key| {
        let (_, raw) = fields.0.iter().find(|(own, _)| own == key)?;
        string(raw).filter(|said| !said.trim().is_empty() && !is_data(said))
    });
    if let Some(said) = said {
        return said.into_owned();
    }
    if let [(_, only)] = fields.0[..]
        && string(only).is_some()
    {
        return value(only, TELLING_CHARS_MAX);
    }
    if fields.0.is_empty() {
        return value(payload, TELLING_CHARS_MAX);
    }
    let field =
        |(key, raw): &(Cow<'_, str>, &RawValue)| format!("{}: {}", line(key, FIELD_CHARS_MAX), value(raw, FIELD_CHARS_MAX));
    let mut told: Vec<_> = fields.0.iter().take(FIELDS_MAX).map(field).collect();
    if fields.0.len() > FIELDS_MAX {
        told.push(format!("{} more", fields.0.len() - FIELDS_MAX));
    }
    told.join(", ")
}

/// A value in a few words.
fn value(raw: &RawValue, chars: usize) -> String {
    if let Some(said) = string(raw) {
        return if is_data(&said) { format!("{} bytes of data", said.len()) } else { line(&said, chars) };
    }
    let text = raw.get();
    match text.as_bytes().first() {
        Some(b'{') => match object(text).map_or(0, |pairs| pairs.len()) {
            0 => String::new(),
            1 => "1 field".to_owned(),
            fields => format!("{fields} fields"),
        },
        Some(b'[') => match serde_json::from_str::<Vec<&RawValue>>(text).map_or(0, |values| values.len()) {
            0 => "none".to_owned(),
            1 => "1 value".to_owned(),
            values => format!("{values} values"),
        },
        Some(_) | None => line(text, chars),
    }
}

/// Whether a string is encoded data: long, without a blank, and of the letters that encodings have.
fn is_data(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'-' | b'_' | b'\n' | b'\r');
    text.len() >= DATA_BYTES_MIN && text.bytes().all(is_letter) && !text.bytes().all(|byte| byte == b'-' || byte == b'=')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Line;

    #[track_caller]
    fn told(name: &str, via: &str, payload: &str) -> Told {
        let text = format!(r#"{{"seq":7,"name":"{name}","via":"{via}","payload":{payload}}}"#);
        match Line::read(text.as_bytes()) {
            Line::Record(record) => Told::of(&record.at(7)),
            Line::Blank | Line::Damaged => panic!("{text}"),
        }
    }

    #[test]
    fn what_somebody_said_is_told_by_its_words() {
        let check = |payload: &str, expect: &str| assert_eq!(told("a.b", "cli", payload).text, expect, "{payload}");
        check(r#"{"role":"user","content":"hello\n there"}"#, "hello there");
        check(r#"{"title":"t","text":"the text"}"#, "the text");
        check(r#"{"name":"ada"}"#, "ada");
        check(r#"{"note":"from the mill","amount":1.25,"kind":"beech"}"#, "note: from the mill, amount: 1.25, kind: beech");
        check(r#"{"name":"tests","passed":true,"n":1.50}"#, "name: tests, passed: true, n: 1.50");
        check(r#""a string""#, "a string");
        check("\"a\u{202e}b\u{2066}c\"", "a\\u202eb\\u2066c");
        check("12.0", "12.0");
        check("null", "null");
        check("{}", "");
        check("[1,2,3]", "3 values");
        check(r#"{"a":{"b":1,"c":2},"d":[],"e":""}"#, "a: 2 fields, d: none, e:");
        check(r#"{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8}"#, "a: 1, b: 2, c: 3, d: 4, e: 5, f: 6, 2 more");
    }

    #[test]
    fn what_the_kernel_did_is_told_in_a_sentence() {
        let check = |name: &str, payload: &str, expect: (&str, bool)| {
            let told = told(name, "kernel", payload);
            assert_eq!((told.text.as_str(), told.quiet), expect, "{name}");
        };
        check(Word::LogSealed.name(), r#"{"through":12,"digest":"00","mac":"00"}"#, ("sealed through event 12", true));
        let receipt = r#"{"type":"command","name":"x","script":"IyEvYmluL3NoCg=="}"#;
        check(Word::ScriptCompiled.name(), receipt, ("installed command/x", true));
        let death = r#"{"type":"command","name":"x","exit":"limit:time","stderr":"","sha256":""}"#;
        check(Word::CapabilityDied.name(), death, ("command/x failed (limit:time)", false));
        check(Word::EventRefused.name(), r#"{"name":"a","reason":"no name"}"#, ("refused a: no name", false));
        let given = told(Word::AccountGiven.name(), "cli", r#"{"selector":"note.","events":1}"#);
        assert_eq!(given.text, "gave note.: 1 event");
        check(Word::LessonLearned.name(), r#"{"lesson":"ada","events":1}"#, ("learned ada: 1 event", false));
        check(Word::LessonLearned.name(), r#"{"lesson":"ada","events":0}"#, ("learned ada: 0 events", false));
        // Behind another door it is an event like any other.
        let stray = told(Word::LogSealed.name(), "learn:x", r#"{"through":12}"#);
        assert_eq!((stray.text.as_str(), stray.quiet), ("through: 12", false));
    }

    #[test]
    fn data_is_told_by_its_size() {
        let data = "QUJD".repeat(2_000);
        let text = told("file.added", "cli", &format!(r#"{{"name":"a.png","content":"{data}"}}"#)).text;
        assert_eq!(text, "name: a.png, content: 8000 bytes of data");
        assert_eq!(told("a.b", "cli", &format!("\"{data}\"")).text, "8000 bytes of data");
    }

    #[test]
    fn a_telling_is_one_short_line_whatever_the_payload_holds() {
        for text in ["x ".repeat(1 << 20), "é".repeat(1 << 20), "\\u0000".repeat(5_000), "a\\u001b[2J\\u2028b\\r\\n".repeat(500)]
        {
            let told = told("a.b", "cli", &format!(r#"{{"text":"{text}"}}"#)).text;
            assert_eq!(told.chars().count(), TELLING_CHARS_MAX + 1, "{told}");
            assert!(told.ends_with('…') && !told.chars().any(|char| char.is_control() || char == '\u{2028}'), "{told}");
        }
    }
}
