//! Elements: one JSON object, judged for what it is to the wire.
//!
//! Judges shape only: whether the name is a mind's to send is not asked here. Payloads are carried as the bytes that came. The
//! invariant: what is not exactly an event is never made one; it is a near miss with its reason, or prose.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::ansi;
use crate::envelope::Envelope;
use crate::event::{Draft, EventName, NAME_BYTES_MAX};
use crate::item::{Authored, Like, shown};
use crate::payload::{Payload, PayloadFault, mend_surrogates};
use crate::record::{RECORD_BYTES_MAX, object, string};
use crate::slip;
use crate::vocabulary::Word;

/// What an object is to the wire.
#[derive(Debug)]
pub enum Verdict {
    /// An event.
    Draft {
        /// What it asks for.
        draft: Draft,
        /// The `seq` and `id` it bears, if it bears both.
        record: Option<(u64, String)>,
        /// What was left out or mended.
        mending: Mending,
    },
    /// A script.
    Script(Authored, Mending),
    /// It begins like an event or a script; the reason it is none.
    Miss(Like, String),
    /// Nothing of the kind.
    Prose,
}

/// What was left out of an object that was taken, or mended in it.
#[derive(Debug, Default)]
pub struct Mending {
    /// Keys that are not the record's.
    pub dropped: Vec<String>,
    /// How many lone surrogates became U+FFFD.
    pub surrogates: usize,
}

/// A verdict on a part of a text.
#[derive(Debug)]
pub struct Judged {
    /// The element's own text and a newline, if the text is an array; `None` if the element is all of it, or a draft that is
    /// no quotation.
    pub text: Option<String>,
    /// What it is.
    pub verdict: Verdict,
}

/// Judges a text that is one JSON object or array. `None` if it is neither; nothing in the list if all of it is prose.
#[must_use]
pub fn judge(text: &str) -> Option<Vec<Judged>> {
    if !text.ends_with(['}', ']']) {
        return None;
    }
    if text.starts_with('{') {
        let verdict = verdict(text)?.0;
        return Some(match verdict {
            Verdict::Prose => Vec::new(),
            Verdict::Draft { .. } | Verdict::Script(..) | Verdict::Miss(..) => vec![Judged { text: None, verdict }],
        });
    }
    let elements: Vec<&RawValue> = serde_json::from_str(text).ok()?;
    let mut has_event = false;
    let mut all = Vec::with_capacity(elements.len());
    for element in elements {
        let (verdict, is_event) = verdict(element.get()).unwrap_or((Verdict::Prose, false));
        has_event |= is_event;
        let plain = matches!(verdict, Verdict::Draft { record: None, .. } | Verdict::Script(..));
        all.push(Judged { text: (!plain).then(|| format!("{}\n", element.get())), verdict });
    }
    Some(if has_event { all } else { Vec::new() })
}

/// Whether a text begins like an event: behind blanks, a bracket and a backtick, `{` and one of the keys that only events
/// have, in whatever quotes.
#[must_use]
pub fn begins_like_event(text: &str) -> bool {
    let mut rest = ansi::trim_start(text);
    if let Some(behind) = rest.strip_prefix(['[', '`']) {
        let other = if rest.starts_with('[') { '`' } else { '[' };
        let behind = ansi::trim_start(behind);
        rest = behind.strip_prefix(other).map_or(behind, ansi::trim_start);
    }
    let Some(inside) = rest.strip_prefix('{').map(ansi::trim_start) else { return false };
    let quote = ['"', '\'', '“', '”', '‘', '’'];
    let inside = inside.strip_prefix(quote).unwrap_or(inside);
    ["name", "payload", "id", "seq"].iter().any(|key| {
        let found = inside.get(..key.len()).is_some_and(|start| start.eq_ignore_ascii_case(key));
        let behind = if found { &inside[key.len()..] } else { "" };
        ansi::trim_start(behind.strip_prefix(quote).unwrap_or(behind)).starts_with(':')
    })
}

/// What a text begins like that is no JSON at all, and why it is none.
#[must_use]
pub fn unreadable(text: &str) -> (Like, String) {
    let name = glimpse(text, "\"name\"").unwrap_or("");
    let like = if Word::of(name) == Some(Word::ScriptAuthored) {
        let inside = text.find("\"payload\"").map_or("", |at| &text[at..]);
        let part = |key| glimpse(inside, key).unwrap_or("").trim().to_owned();
        Like::Script { kind: part("\"type\""), name: part("\"name\"") }
    } else {
        Like::Event { name: EventName::new(name).map_or_else(String::new, |name| name.as_str().to_owned()) }
    };
    (like, slip::no_json(text))
}

/// The plain string behind the first `"key":` of a text that is no JSON.
fn glimpse<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let behind = text[text.find(key)? + key.len()..].trim_start().strip_prefix(':')?;
    let value = behind.trim_start().strip_prefix('"')?;
    value.get(..value.find(['"', '\\', '\n'])?)
}

/// Judges one object, and says whether it is meant as an event: it has a name of the grammar and a payload, or it was taken,
/// or it is a script. `None` if the text is no JSON object.
fn verdict(text: &str) -> Option<(Verdict, bool)> {
    let mended = mend_surrogates(text);
    let json = mended.as_deref().unwrap_or(text);
    let Envelope { fields: [id, seq, name, _, _, _, payload], fault, others } = Envelope::read(json)?;
    let has_name = name.is_some();
    let name = name.and_then(string).unwrap_or_default();
    let mending = |dropped| Mending { dropped, surrogates: mended.as_ref().map_or(0, |mended| replaced(text, mended)) };
    if Word::of(&name) == Some(Word::ScriptAuthored) {
        let script = fault.map_or_else(|| authored(payload), |fault| Err((unnamed(payload), fault)));
        return Some(match script {
            Ok(script) => (Verdict::Script(script, mending(others)), true),
            Err((like, reason)) => (Verdict::Miss(like, reason), true),
        });
    }
    let of_grammar = EventName::new(&name);
    let meant = of_grammar.is_some() && payload.is_some();
    let begins = || (has_name && payload.is_some()) || begins_like_event(text);
    let miss = |reason: String| {
        let end = (0..=name.len().min(NAME_BYTES_MAX)).rfind(|end| name.is_char_boundary(*end)).unwrap_or(0);
        let like = || Like::Event { name: name[..end].to_owned() };
        Some((if begins() { Verdict::Miss(like(), reason) } else { Verdict::Prose }, meant))
    };
    if let Some(fault) = fault {
        return miss(fault);
    }
    let Some(event_name) = of_grammar else {
        return if payload.is_some() { miss(bad_name(has_name, &name)) } else { Some((Verdict::Prose, false)) };
    };
    if payload.is_none() && !others.is_empty() {
        return miss(format!("there is no `payload`; put `{}` and all the rest inside one", shown(&others[0])));
    }
    let payload = match payload.map_or_else(|| Ok(Payload::empty()), |payload| Payload::read(payload.get())) {
        Ok(payload) => payload,
        Err(fault @ (PayloadFault::TooDeep(_) | PayloadFault::NotJson(_))) => return miss(format!("the payload is {fault}")),
    };
    let bytes = event_name.as_str().len() + payload.get().len();
    if bytes > RECORD_BYTES_MAX {
        return miss(format!("the event has {bytes} bytes; the limit of a record is {RECORD_BYTES_MAX}"));
    }
    let record = seq.and_then(|seq| seq.get().parse().ok()).zip(id.and_then(string).map(Cow::into_owned));
    Some((Verdict::Draft { draft: Draft { name: event_name, payload }, record, mending: mending(others) }, true))
}

/// How many lone surrogates a mending replaced.
fn replaced(text: &str, mended: &str) -> usize {
    let count = |text: &str| text.matches("\\ufffd").count();
    count(mended) - count(text)
}

fn bad_name(has_name: bool, name: &str) -> String {
    match (has_name, name) {
        (false, _) => "there is no `name`".to_owned(),
        (true, "") => "`name` is no string that names an event".to_owned(),
        (true, _) if name.len() > NAME_BYTES_MAX => format!("`{}` is no event name: at most {NAME_BYTES_MAX} bytes", shown(name)),
        (true, _) => format!("`{}` is no event name: two or more dot-separated segments of A-Z a-z 0-9 _ -", shown(name)),
    }
}

/// Reads the payload of `script.authored`.
fn authored(payload: Option<&RawValue>) -> Result<Authored, (Like, String)> {
    let miss = |reason: &str| Err((unnamed(payload), format!("`script.authored` needs {reason}")));
    let Some(payload) = payload else { return miss("a payload with the strings `type`, `name` and `script`") };
    if let Err(fault @ PayloadFault::TooDeep(_)) = Payload::read(payload.get()) {
        return Err((unnamed(Some(payload)), format!("the payload is {fault}")));
    }
    let Some(pairs) = object(payload.get()) else { return miss("an object for a payload") };
    let mut parts: [Option<&RawValue>; 3] = [None; 3];
    for (key, value) in pairs {
        if let Some(at) = ["type", "name", "script"].iter().position(|known| *known == key)
            && parts[at].replace(value).is_some()
        {
            return miss(&format!("one `{key}` in its payload, not two"));
        }
    }
    let [kind, name, script] = parts.map(|part| part.map(string));
    match (kind, name, script) {
        (Some(None), _, _) => miss("a string for a `type`"),
        (_, Some(None), _) => miss("a string for a `name`"),
        (_, _, Some(None) | None) => miss("a string `script` in its payload"),
        (kind, name, Some(Some(script))) => {
            let trimmed =
                |part: Option<Option<Cow<'_, str>>>| part.flatten().map_or_else(String::new, |text| text.trim().to_owned());
            Ok(Authored { kind: trimmed(kind), name: trimmed(name), script: script.into_owned() })
        }
    }
}

/// The kind and name of a script that was not taken, as far as they can be read.
fn unnamed(payload: Option<&RawValue>) -> Like {
    let pairs = payload.and_then(|payload| object(payload.get())).unwrap_or_default();
    let part = |wanted: &str| {
        let value = pairs.iter().find(|(key, _)| key == wanted).and_then(|(_, value)| string(value));
        value.map_or_else(String::new, |text| text.trim().to_owned())
    };
    Like::Script { kind: part("type"), name: part("name") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_like_an_event_is_known_by_its_first_key() {
        for like in [
            r#"{"name":"#,
            " [ `{ name : 1",
            "`[{'PAYLOAD':",
            "{“id”:",
            "{\n\n\"seq\"\n:",
            "\x1b[1m{\x1b[0m\x1b[34m\"name\"\x1b[0m:",
            "{’name‘:",
        ] {
            assert!(begins_like_event(like), "{like}");
        }
        for other in ["{", "{}", r#"{"named":1}"#, r#"{"x":1,"name":2}"#, "[[{name:", "``{name:", "name:", "{\"name\"", "{é:", ""]
        {
            assert!(!begins_like_event(other), "{other}");
        }
    }

    #[track_caller]
    fn check(text: &str, expect: Like) {
        assert_eq!(unreadable(text), (expect, "no valid JSON: trailing comma".to_owned()));
    }

    #[test]
    fn a_name_is_read_off_what_does_not_parse() {
        let event = |name: &str| Like::Event { name: name.into() };
        check(r#"{"id":"x","name" : "a.b",}"#, event("a.b"));
        check(r#"{"name":"note",}"#, event(""));
        check(r#"{"payload":1,}"#, event(""));
        check(r#"{"name":1,}"#, event(""));
        let script = r#"{"name":"Script.Authored","payload":{"type":"command","name":" x","script":"",}}"#;
        check(script, Like::Script { kind: "command".into(), name: "x".into() });
        check(r#"{"name":"script.authored",}"#, Like::Script { kind: String::new(), name: String::new() });
    }

    #[test]
    fn an_element_of_an_array_bears_its_own_text() {
        let texts = |text| judge(text).map(|all| all.into_iter().map(|judged| judged.text).collect::<Vec<_>>());
        let own = |text: &str| Some(format!("{text}\n"));
        assert_eq!(texts(r#"[{"name":"a.b"}, 1]"#), Some(vec![None, own("1")]));
        assert_eq!(texts(r#"[{"id":"x","seq":1,"name":"a.b"}]"#), Some(vec![own(r#"{"id":"x","seq":1,"name":"a.b"}"#)]));
        assert_eq!(texts(r#"{"name":"a.b"}"#), Some(vec![None]));
        assert_eq!(texts("[1]"), Some(Vec::new()));
        for none in ["", "{", "[1,]", "1", "{}x", "nul]"] {
            assert_eq!(texts(none), None, "{none}");
        }
    }
}
