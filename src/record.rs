//! Records: an event as one line of JSON, and a line as an event.
//!
//! The reader takes what the older program wrote too: envelope keys in any case and order, unknown keys, missing ones. The
//! writer has one form only: `id seq name occurred_at via by payload`, in this order. Never fails on any bytes: a line is a
//! record, or it is blank, or it is damaged. The invariant: what [`write`] prints, [`Record::read`] reads as the same event.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::event::{Door, Event};
use crate::payload::{mend_surrogates, quoted};

/// The largest record that is written, in bytes without its newline.
pub const RECORD_BYTES_MAX: usize = 8 << 20;

/// The largest record that is read: the older program wrote lines of up to 64 MiB.
pub const RECORD_BYTES_READ_MAX: usize = 65 << 20;

/// The largest `seq` that counts: 2^53 − 1, the last integer that every JSON reader holds exactly.
pub const SEQ_MAX: u64 = (1 << 53) - 1;

/// A byte order mark, which is no part of the record at the start of a file.
pub const BOM: &[u8] = b"\xEF\xBB\xBF";

/// The keys of the envelope.
pub const KEYS: [&str; 7] = ["id", "seq", "name", "occurred_at", "via", "by", "payload"];

/// What a line of the log is.
#[derive(Debug)]
pub enum Line<'a> {
    /// White space or nothing: passed over.
    Blank,
    /// A record, its `seq` as it claims.
    Record(Record<'a>),
    /// Anything else.
    Damaged,
}

/// A line that is a record, before its place in the file gave it a number.
#[derive(Debug)]
pub struct Record<'a> {
    id: Cow<'a, str>,
    /// The number the line claims, if it claims a usable one.
    pub seq: Option<u64>,
    name: Cow<'a, str>,
    occurred_at: Cow<'a, str>,
    via: Option<Cow<'a, str>>,
    by: Option<Cow<'a, str>>,
    payload: Cow<'a, RawValue>,
}

impl<'a> Line<'a> {
    /// Reads one line, without its newline; a CR before the newline is white space.
    #[must_use]
    pub fn read(line: &'a [u8]) -> Line<'a> {
        let line = line.trim_ascii();
        if line.is_empty() {
            return Line::Blank;
        }
        let Ok(text) = std::str::from_utf8(line) else { return Line::Damaged };
        match Record::as_written(text).or_else(|| Record::read(text)) {
            Some(record) => Line::Record(record),
            None => Line::Damaged,
        }
    }

    /// Reads one line as it stands in the file, whose first line may open with a byte order mark.
    #[must_use]
    pub fn of(line: &'a [u8], is_first: bool) -> Line<'a> {
        Line::read(if is_first { line.strip_prefix(BOM).unwrap_or(line) } else { line })
    }
}

impl<'a> Record<'a> {
    /// Reads a line of the form that [`write`] prints, and no other; [`Record::read`] reads such a line as the same record, but
    /// takes twice as long.
    fn as_written(text: &'a str) -> Option<Record<'a>> {
        let mut rest = Front { rest: text };
        let id = rest.text("{\"id\":\"")?;
        let seq = rest.number(",\"seq\":")?;
        let name = rest.text(",\"name\":\"").filter(|name| !name.trim().is_empty())?;
        let occurred_at = rest.text(",\"occurred_at\":\"")?;
        let [via, by] = [",\"via\":\"", ",\"by\":\""].map(|key| rest.text(key).filter(|text| !text.is_empty()));
        let payload = rest.rest.strip_prefix(",\"payload\":")?.strip_suffix('}')?;
        let payload = serde_json::from_str::<&RawValue>(payload).ok()?;
        Some(Record {
            id: Cow::Borrowed(id),
            seq: Some(seq).filter(|seq| (1..=SEQ_MAX).contains(seq)),
            name: Cow::Borrowed(name),
            occurred_at: Cow::Borrowed(occurred_at),
            via: via.map(Cow::Borrowed),
            by: by.map(Cow::Borrowed),
            payload: Cow::Borrowed(payload),
        })
    }

    /// Reads a line that is one JSON object with a non-blank string `name` and no envelope key twice.
    fn read(text: &'a str) -> Option<Record<'a>> {
        let mut fields: [Option<&'a RawValue>; KEYS.len()] = [None; KEYS.len()];
        for (key, value) in object(text)? {
            if let Some(at) = KEYS.iter().position(|name| key.eq_ignore_ascii_case(name))
                && fields[at].replace(value).is_some()
            {
                return None;
            }
        }
        let [id, seq, name, occurred_at, via, by, payload] = fields;
        let name = string(name?).filter(|name| !name.trim().is_empty())?;
        let claim = |value: Option<&'a RawValue>| value.and_then(string).filter(|text| !text.is_empty());
        Some(Record {
            id: claim(id).unwrap_or_default(),
            seq: seq.and_then(|seq| seq.get().parse().ok()).filter(|seq| (1..=SEQ_MAX).contains(seq)),
            name,
            occurred_at: claim(occurred_at).unwrap_or_default(),
            via: claim(via),
            by: claim(by),
            payload: payload.map_or_else(|| Cow::Owned(empty()), Cow::Borrowed),
        })
    }

    /// The line's id; empty if it has none.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The line's event name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where the payload stands in the line that this record was read from; `None` if the line has none.
    #[must_use]
    pub fn payload_in(&self, line: &[u8]) -> Option<Range<usize>> {
        let Cow::Borrowed(payload) = &self.payload else { return None };
        let start = (payload.get().as_ptr() as usize).checked_sub(line.as_ptr() as usize)?;
        let end = start + payload.get().len();
        (end <= line.len()).then_some(start..end)
    }

    /// The event this record is at its place in the file.
    #[must_use]
    pub fn at(self, seq: u64) -> Event<'a> {
        Event {
            seq,
            id: self.id,
            name: self.name,
            occurred_at: self.occurred_at,
            via: self.via.map(Door::read),
            by: self.by,
            payload: self.payload,
        }
    }
}

/// The start of a line of the form that [`write`] prints.
struct Front<'a> {
    rest: &'a str,
}

impl<'a> Front<'a> {
    /// A string without escapes behind this key and its opening quote; where it is none, nothing is taken.
    fn text(&mut self, key: &str) -> Option<&'a str> {
        let behind = self.rest.strip_prefix(key)?;
        let end = behind.bytes().position(|byte| byte == b'"' || byte == b'\\' || byte < b' ')?;
        let (text, rest) = behind.split_at(end);
        self.rest = rest.strip_prefix('"')?;
        Some(text)
    }

    /// A number without a sign, a fraction or a leading zero behind this key.
    fn number(&mut self, key: &str) -> Option<u64> {
        let behind = self.rest.strip_prefix(key)?;
        let end = behind.bytes().position(|byte| !byte.is_ascii_digit())?;
        let (digits, rest) = behind.split_at(end);
        self.rest = rest;
        digits.parse().ok().filter(|_| !digits.starts_with('0'))
    }
}

/// Whether a line that is known to be a record has a name that is picked. Reads no more of it than it must.
#[must_use]
pub fn has_name(line: &[u8], is_it: impl FnOnce(&str) -> bool) -> bool {
    match name_in_front(line).and_then(|name| std::str::from_utf8(name).ok()) {
        Some(name) => is_it(name),
        None => matches!(Line::read(line), Line::Record(record) if is_it(record.name())),
    }
}

/// The name of a line whose front is of the form that [`write`] prints, with an id and a name without escapes.
fn name_in_front(line: &[u8]) -> Option<&[u8]> {
    let rest = behind_the_seq(line)?.1.strip_prefix(b",\"name\":\"")?;
    let name = memchr::memchr2(b'"', b'\\', rest).filter(|end| rest[*end] == b'"')?;
    Some(&rest[..name])
}

/// The number that a line claims whose front is of the form that [`write`] prints, with an id without escapes; `None` for any other.
#[must_use]
pub fn seq_in_front(line: &[u8]) -> Option<u64> {
    let (digits, rest) = behind_the_seq(line)?;
    let seq = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (rest.starts_with(b",\"name\":\"") && !digits.starts_with(b"0")).then_some(seq)
}

/// The digits of the number of a line whose front is of that form, and what stands behind them.
fn behind_the_seq(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = line.strip_prefix(b"{\"id\":\"")?;
    let id = memchr::memchr2(b'"', b'\\', rest)?;
    let rest = rest[id..].strip_prefix(b"\",\"seq\":")?;
    Some(rest.split_at(rest.iter().position(|byte| !byte.is_ascii_digit())?))
}

/// What stands at the start of a damaged line.
#[derive(Debug)]
pub enum Start<'a> {
    /// A whole record, this many bytes long, and junk behind it: the line of a record whose newline was lost.
    Record(Record<'a>, usize),
    /// Two records on one line.
    Glued,
    /// No record.
    Junk,
}

impl<'a> Start<'a> {
    /// Looks at the start of a line that is no record as a whole.
    #[must_use]
    pub fn of(line: &'a [u8]) -> Start<'a> {
        let valid = match std::str::from_utf8(line) {
            Ok(text) => text.len(),
            Err(fault) => fault.valid_up_to(),
        };
        let mut values = serde_json::Deserializer::from_slice(&line[..valid]).into_iter::<&'a RawValue>();
        let first = values.next().and_then(Result::ok);
        let length = values.byte_offset();
        let second = values.next().and_then(Result::ok);
        match (first.and_then(|first| Record::read(first.get())), second.and_then(|second| Record::read(second.get()))) {
            (Some(first), None) => Start::Record(first, length),
            (Some(_), Some(_)) => Start::Glued,
            (None, _) => Start::Junk,
        }
    }
}

/// Prints an event as a record and a newline behind `out`.
pub fn write(out: &mut Vec<u8>, event: &Event<'_>) {
    out.extend_from_slice(front(event).as_bytes());
    out.extend_from_slice(event.payload.get().as_bytes());
    out.extend_from_slice(b"}\n");
}

/// The part of an event's record in front of its payload.
#[must_use]
pub fn front(event: &Event<'_>) -> String {
    let mut line = format!(
        "{{\"id\":{},\"seq\":{},\"name\":{},\"occurred_at\":{}",
        quoted(&event.id),
        event.seq,
        quoted(&event.name),
        quoted(&event.occurred_at)
    );
    for (key, value) in [("via", event.via.as_ref().map(Door::text)), ("by", event.by.as_deref().map(Cow::Borrowed))] {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            line.push_str(&format!(",\"{key}\":{}", quoted(&value)));
        }
    }
    line.push_str(",\"payload\":");
    line
}

/// The place of a record in its batch, read off an id of the form `<32 hex>.<k>-<n>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The 32 hex digits that the batch shares.
    pub batch: &'a str,
    /// The record's place, 1 to `n`.
    pub k: u64,
    /// How many records the batch has, at least 2.
    pub n: u64,
}

impl<'a> Frame<'a> {
    /// Reads a framed id; `None` for the id of an event that is a batch by itself.
    #[must_use]
    pub fn read(id: &'a str) -> Option<Frame<'a>> {
        let (batch, place) = id.split_once('.')?;
        let (k, n) = place.split_once('-')?;
        let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let number = |text: &str| -> Option<u64> {
            (text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0')).then(|| text.parse().ok())?
        };
        let (k, n) = (number(k)?, number(n)?);
        (batch.len() == 32 && batch.bytes().all(hex) && k <= n && n > 1).then_some(Frame { batch, k, n })
    }

    /// The id of the `k`-th of `n` records: framed if there are several.
    #[must_use]
    pub fn id(batch: &str, k: usize, n: usize) -> String {
        if n > 1 { format!("{batch}.{k}-{n}") } else { batch.to_owned() }
    }
}

/// Splits a text that is one JSON object into its keys, unescaped, and its values, as they stand. `None` for anything else.
#[must_use]
pub fn object(text: &str) -> Option<Vec<(Cow<'_, str>, &RawValue)>> {
    struct Pairs;
    impl<'de> Visitor<'de> for Pairs {
        type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("an object")
        }

        fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
            let mut pairs = Vec::with_capacity(KEYS.len());
            while let Some(Key(key)) = map.next_key()? {
                pairs.push((key, map.next_value()?));
            }
            Ok(pairs)
        }
    }
    let mut parser = serde_json::Deserializer::from_str(text);
    let pairs = parser.deserialize_map(Pairs).ok()?;
    parser.end().ok()?;
    Some(pairs)
}

/// A raw value as a string, if it is one; a lone surrogate in it reads as U+FFFD.
#[must_use]
pub fn string(raw: &RawValue) -> Option<Cow<'_, str>> {
    match serde_json::from_str(raw.get()) {
        Ok(Key(text)) => Some(text),
        Err(_) => mend_surrogates(raw.get()).and_then(|mended| serde_json::from_str(&mended).ok()).map(Cow::Owned),
    }
}

fn empty() -> Box<RawValue> {
    RawValue::from_string("{}".into()).expect("an empty object is valid JSON")
}

/// A string that borrows where it has no escapes.
#[derive(serde::Deserialize)]
#[serde(transparent)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn read(line: &str) -> Event<'_> {
        match Line::read(line.as_bytes()) {
            Line::Record(record) => {
                let seq = record.seq.unwrap_or(0);
                record.at(seq)
            }
            Line::Blank | Line::Damaged => panic!("no record: {line}"),
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        let line =
            r#"{"id":"x","seq":7,"name":"note.added","occurred_at":"t","via":"learn:a\u2028","by":"Åda","payload":{"n":1.10}}"#;
        let mut out = Vec::new();
        write(&mut out, &read(line));
        assert_eq!(String::from_utf8(out).unwrap(), format!("{line}\n"));
    }

    #[test]
    fn a_payload_is_found_in_its_line() {
        let check = |line: &str, expect: Option<&str>| {
            let Line::Record(record) = Line::read(line.as_bytes()) else { panic!("no record: {line}") };
            assert_eq!(record.payload_in(line.as_bytes()).map(|range| &line[range]), expect, "{line}");
        };
        check(" {\"name\":\"a.b\", \"Payload\" : {\"n\": 1 } ,\"x\":2}\r", Some("{\"n\": 1 }"));
        check("{\"payload\":null,\"name\":\"a.b\"}", Some("null"));
        check("{\"name\":\"a.b\"}", None);
    }

    #[test]
    fn an_older_record_has_keys_in_any_case_and_order() {
        let event = read(r#" {"Payload":null,"NAME":"a b","extra":[{}],"SEQ":3} "#);
        assert_eq!((event.seq, &*event.name, event.payload.get(), &*event.id), (3, "a b", "null", ""));
        assert_eq!((event.via, event.by), (None, None));
        assert_eq!(read(r#"{"name":"x"}"#).payload.get(), "{}");
    }

    #[test]
    fn a_seq_that_is_no_usable_integer_counts_as_missing() {
        for seq in ["0", "-1", "1.0", "\"1\"", "null", "9007199254740992", "1e2"] {
            assert_eq!(read(&format!(r#"{{"name":"x","seq":{seq}}}"#)).seq, 0, "{seq}");
        }
        assert_eq!(read(r#"{"name":"x","seq":9007199254740991}"#).seq, SEQ_MAX);
    }

    #[test]
    fn other_lines_are_damaged_or_blank() {
        for bad in
            ["x", "{}", "[]", r#"{"name":" "}"#, r#"{"name":1}"#, r#"{"name":"a","Name":"b"}"#, r#"{"name":"a"} x"#, "\0\0"]
        {
            assert!(matches!(Line::read(bad.as_bytes()), Line::Damaged), "{bad}");
        }
        assert!(matches!(Line::read(b"{\"name\":\"\xff\"}"), Line::Damaged));
        for blank in ["", "\r", " \t "] {
            assert!(matches!(Line::read(blank.as_bytes()), Line::Blank), "{blank:?}");
        }
    }

    #[test]
    fn a_frame_is_exact() {
        let batch = "0123456789abcdef0123456789abcdef";
        assert_eq!(Frame::read(&Frame::id(batch, 2, 3)), Some(Frame { batch, k: 2, n: 3 }));
        assert_eq!(Frame::id(batch, 1, 1), batch);
        for bad in [
            "",
            batch,
            &format!("{batch}.1-1"),
            &format!("{batch}.0-2"),
            &format!("{batch}.3-2"),
            &format!("{batch}.01-2"),
            &format!("{batch}.1-2x"),
            "abc.1-2",
        ] {
            assert_eq!(Frame::read(bad), None, "{bad}");
        }
    }
}
