//! Payloads: one JSON value, carried as the bytes that came.
//!
//! Numbers keep their spelling and keys their order, because a payload is never parsed into a generic value and printed
//! again. The invariant: a `Payload` is one valid JSON text on one line, without insignificant white space, nested at most
//! [`NESTING_MAX`] deep, whose strings hold no character that any reader takes for a line end.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;

/// The deepest nesting of a payload; its outermost bracket counts as 1.
pub const NESTING_MAX: usize = 128;

/// A JSON value as the log stores it.
#[derive(Debug, Clone)]
pub struct Payload(Box<RawValue>);

/// Why a text is no payload.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PayloadFault {
    /// It is no JSON value; the parser's words, without a position.
    #[error("{0}")]
    NotJson(String),
    /// It is nested too deeply.
    #[error("nested {0} deep; the limit is {NESTING_MAX}")]
    TooDeep(usize),
}

impl Payload {
    /// Takes one JSON value: drops insignificant white space, escapes what a reader could take for a line end, and puts
    /// U+FFFD in the place of lone surrogates. Fails if the text is no JSON value or is nested deeper than [`NESTING_MAX`].
    pub fn read(text: &str) -> Result<Payload, PayloadFault> {
        let not_json = |fault: serde_json::Error| PayloadFault::NotJson(cause(&fault));
        serde_json::from_str::<&RawValue>(text).map_err(not_json)?;
        let (squeezed, depth) = squeeze(text);
        if depth > NESTING_MAX {
            return Err(PayloadFault::TooDeep(depth));
        }
        RawValue::from_string(squeezed).map(Payload).map_err(not_json)
    }

    /// Makes the payload of a typed value. Fails only for values that JSON cannot hold, which the kernel's own are not.
    #[must_use]
    pub fn of(value: &impl Serialize) -> Payload {
        let text = serde_json::to_string(value).expect("the kernel's payloads have string keys");
        Payload::read(&text).expect("serde_json prints valid JSON, and the kernel's payloads are flat")
    }

    /// The empty object, which stands for a payload that was left out.
    #[must_use]
    pub fn empty() -> Payload {
        Payload(RawValue::from_string("{}".into()).expect("an empty object is valid JSON"))
    }

    /// The JSON text.
    #[must_use]
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// The JSON text as a raw value, given up.
    #[must_use]
    pub fn into_raw(self) -> Box<RawValue> {
        self.0
    }

    /// Reads the payload as a typed value, if it has that shape.
    #[must_use]
    pub fn parse<T: DeserializeOwned>(&self) -> Option<T> {
        parse(&self.0)
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Payload) -> bool {
        self.get() == other.get()
    }
}

impl AsRef<RawValue> for Payload {
    fn as_ref(&self) -> &RawValue {
        &self.0
    }
}

/// Reads a raw value as a typed one, if it has that shape. Lone surrogates, which older logs may hold, read as U+FFFD.
#[must_use]
pub fn parse<T: DeserializeOwned>(raw: &RawValue) -> Option<T> {
    serde_json::from_str(raw.get()).ok().or_else(|| serde_json::from_str(&mend_surrogates(raw.get())?).ok())
}

/// Prints a text as a JSON string with the log's escapes.
#[must_use]
pub fn quoted(text: &str) -> String {
    let plain = serde_json::to_string(text).expect("a string is always printable as JSON");
    squeeze(&plain).0
}

/// Replaces lone surrogates in a JSON text by `\ufffd`; `None` if it has none.
#[must_use]
pub fn mend_surrogates(text: &str) -> Option<String> {
    memchr::memmem::find(text.as_bytes(), b"\\u").filter(|_| text.contains("\\ud") || text.contains("\\uD"))?;
    let bytes = text.as_bytes();
    let mut mended = String::with_capacity(text.len());
    let (mut at, mut kept, mut found) = (0, 0, false);
    while at < bytes.len() {
        if bytes[at] != b'\\' {
            at += 1;
            continue;
        }
        match surrogate(&bytes[at..]) {
            Surrogate::Lone => {
                mended.push_str(&text[kept..at]);
                mended.push_str("\\ufffd");
                at += 6;
                kept = at;
                found = true;
            }
            Surrogate::Pair => at += 12,
            Surrogate::No => at += 2,
        }
    }
    if !found {
        return None;
    }
    mended.push_str(&text[kept..]);
    Some(mended)
}

/// The cause of a JSON fault without the position, which means nothing to whoever wrote one line of many.
fn cause(fault: &serde_json::Error) -> String {
    let text = fault.to_string();
    match text.find(" at line ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

/// Removes white space outside strings, writes the escapes inside them, and measures the nesting. Works on any text; what it
/// makes of a text that is no JSON is no JSON either.
fn squeeze(text: &str) -> (String, usize) {
    let mended = mend_surrogates(text);
    let text = mended.as_deref().unwrap_or(text);
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len());
    let (mut at, mut kept, mut depth, mut deepest, mut in_string) = (0, 0, 0_usize, 0, false);
    while at < bytes.len() {
        let (width, instead) = match bytes[at] {
            b'"' => {
                in_string = !in_string;
                (1, None)
            }
            b'\\' if in_string => (2, None),
            0x7F if in_string => (1, Some("\\u007f")),
            0xC2 if in_string && bytes[at + 1] == 0x85 => (2, Some("\\u0085")),
            0xE2 if in_string && bytes[at + 1..].starts_with(&[0x80, 0xA8]) => (3, Some("\\u2028")),
            0xE2 if in_string && bytes[at + 1..].starts_with(&[0x80, 0xA9]) => (3, Some("\\u2029")),
            b' ' | b'\t' | b'\r' | b'\n' if !in_string => (1, Some("")),
            b'{' | b'[' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
                (1, None)
            }
            b'}' | b']' if !in_string => {
                depth = depth.saturating_sub(1);
                (1, None)
            }
            _ => (1, None),
        };
        if let Some(instead) = instead {
            out.push_str(&text[kept..at]);
            out.push_str(instead);
            kept = at + width;
        }
        at += width;
    }
    out.push_str(&text[kept..]);
    (out, deepest)
}

enum Surrogate {
    No,
    Lone,
    Pair,
}

/// Looks at an escape (`\` first) and says whether it is half of a surrogate pair, a whole one, or something else.
fn surrogate(escape: &[u8]) -> Surrogate {
    let unit = |at: usize| -> Option<u32> {
        let digits = escape.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    match unit(0) {
        Some(0xD800..=0xDBFF) if matches!(unit(6), Some(0xDC00..=0xDFFF)) => Surrogate::Pair,
        Some(0xD800..=0xDFFF) => Surrogate::Lone,
        _ => Surrogate::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &str) {
        assert_eq!(Payload::read(text).unwrap().get(), expect);
    }

    #[test]
    fn numbers_and_keys_stay_as_they_came() {
        let text = r#"{"b":9007199254740993,"a":123456789012345678901234567890,"c":1e400,"d":-0.0,"e":1.10}"#;
        check(text, text);
    }

    #[test]
    fn white_space_goes_outside_strings_only() {
        check("{ \"a b\" :\t[ 1 , \" x \" ]\r\n}", "{\"a b\":[1,\" x \"]}");
        check(" null ", "null");
    }

    #[test]
    fn line_ends_in_strings_are_escaped() {
        check("\"a\u{2028}b\u{2029}c\u{85}d\u{7f}e\"", r#""a\u2028b\u2029c\u0085d\u007fe""#);
        check(r#""\n\u2028 \" \\""#, r#""\n\u2028 \" \\""#);
        assert_eq!(quoted("tab\t\u{7f}"), r#""tab\t\u007f""#);
    }

    #[test]
    fn a_lone_surrogate_becomes_the_replacement_character() {
        check(r#""\ud99c""#, r#""\ufffd""#);
        check(r#""\uD99Cx""#, r#""\ufffdx""#);
        check(r#""\udc00\ud83d\ude00\ud83d""#, r#""\ufffd\ud83d\ude00\ufffd""#);
        check(r#""\\ud99c""#, r#""\\ud99c""#);
        assert_eq!(mend_surrogates(r#""\ud83d\ude00""#), None);
    }

    #[test]
    fn nesting_has_one_limit() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(Payload::read(&nested(128)).unwrap().get(), nested(128));
        assert_eq!(Payload::read(&nested(129)).unwrap_err(), PayloadFault::TooDeep(129));
        assert_eq!(Payload::read(&nested(200_000)).unwrap_err(), PayloadFault::TooDeep(200_000));
    }

    #[test]
    fn what_is_no_json_is_refused_with_the_cause() {
        for bad in ["", "{", "{\"a\":1,}", "'a'", "None", "\"\u{1}\"", "1 2", "tr ue", "\"\\", "\"\\ud8"] {
            assert!(matches!(Payload::read(bad), Err(PayloadFault::NotJson(_))), "{bad}");
        }
        assert_eq!(Payload::read("{\"a\":1,}").unwrap_err().to_string(), "key must be a string");
    }
}
