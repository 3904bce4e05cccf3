//! Accounts: what travels between homes, as values.
//!
//! A record's line from outside becomes a [`Deposit`], an event of the log a line of a record; a [`Ledger`] knows which deposits a
//! log already holds. Nothing in an account is ever run: a name of the vocabulary leaves as `lineage.<name>`, and none is taken in.
//! The invariant: what is given and learned again keeps its name, its moment's text, its speaker and its payload's bytes.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::capability::{Capability, CapabilityName, Kind};
use crate::envelope::Envelope;
use crate::event::{Door, Event, EventName};
use crate::moment::is_moment;
use crate::payload::{Payload, mend_surrogates, quoted};
use crate::record::{RECORD_BYTES_MAX, string, write};
use crate::vocabulary::{LINEAGE, Word};

/// The longest name of an account, in bytes.
pub const ACCOUNT_NAME_BYTES_MAX: usize = 128;

/// What the envelope of a deposit takes at most beside its name, moment and speaker, in bytes: keys, id, number and door.
const ENVELOPE_BYTES_MAX: usize = 256 + 6 * ACCOUNT_NAME_BYTES_MAX;

/// What is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selector {
    /// Every event whose name starts so.
    Prefix(String),
    /// The declarations and the verified receipts of a capability.
    Capability(Capability),
}

impl Selector {
    /// Reads `command/<name>`, `projector/<name>` or a prefix; `None` if there is nothing to read.
    #[must_use]
    pub fn read(text: &str) -> Option<Selector> {
        let capability = text
            .split_once('/')
            .and_then(|(kind, name)| Some(Capability { kind: Kind::read(kind)?, name: CapabilityName::inherited(name)? }));
        match capability {
            Some(capability) => Some(Selector::Capability(capability)),
            None => (!text.is_empty()).then(|| Selector::Prefix(text.to_owned())),
        }
    }

    /// The text that reads as this selector.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Selector::Prefix(prefix) => prefix.clone(),
            Selector::Capability(capability) => capability.to_string(),
        }
    }
}

/// What an account's `manifest.json` says it holds.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Manifest {
    /// How many events.
    pub events: u64,
    /// The SHA-256 of `record.jsonl`, as hex digits.
    pub record_sha256: String,
    /// What was given, if by a prefix.
    pub prefix: Option<String>,
    /// What was given, if a capability.
    pub capability: Option<String>,
}

impl Manifest {
    /// Reads a manifest; the reason why a text is none.
    pub fn read(text: &str) -> Result<Manifest, String> {
        let manifest: Manifest = serde_json::from_str(text.trim_start_matches('\u{feff}')).map_err(|fault| fault.to_string())?;
        let is_digest = |text: &str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_digest(&manifest.record_sha256) {
            Ok(Manifest { record_sha256: manifest.record_sha256.to_ascii_lowercase(), ..manifest })
        } else {
            Err("its record_sha256 is not 64 hex digits".to_owned())
        }
    }

    /// Prints the manifest of what was given.
    #[must_use]
    pub fn print(selector: &Selector, events: u64, record_sha256: &str) -> String {
        let key = match selector {
            Selector::Prefix(_) => "prefix",
            Selector::Capability(_) => "capability",
        };
        format!("{{\"events\":{events},\"record_sha256\":\"{record_sha256}\",\"{key}\":{}}}\n", quoted(&selector.text()))
    }

    /// What was given, as the selector that gave it.
    #[must_use]
    pub fn selector(&self) -> Option<&str> {
        self.capability.as_deref().or(self.prefix.as_deref())
    }
}

/// An event that an account brings.
#[derive(Debug, Clone, PartialEq)]
pub struct Deposit {
    /// What happened.
    pub name: EventName,
    /// When, as its own text; `None` where the line does not say.
    pub occurred_at: Option<String>,
    /// Who said so; never invented.
    pub by: Option<String>,
    /// Its particulars.
    pub payload: Payload,
    /// Whether lone surrogates in its line became U+FFFD.
    pub is_mended: bool,
}

/// Why a line of a record refuses the whole account.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineFault {
    /// It is no JSON object.
    #[error("it is no event: one JSON object with a `name` and a `payload`")]
    NotAnEvent,
    /// A key of the record is odd, or its value is.
    #[error("{0}")]
    Odd(String),
    /// Its name is the kernel's.
    #[error("`{0}` is a name that the kernel acts on; such a name travels as `{LINEAGE}{0}` only")]
    Vocabulary(&'static str),
    /// It is too large.
    #[error("the record would be {0} bytes; the limit is {RECORD_BYTES_MAX}")]
    TooLarge(usize),
}

impl Deposit {
    /// Reads a line of a record.
    pub fn read(line: &[u8]) -> Result<Deposit, LineFault> {
        let odd = |reason: &str| LineFault::Odd(reason.to_owned());
        let text = std::str::from_utf8(line).map_err(|_| odd("it is not UTF-8"))?.trim();
        let mended = mend_surrogates(text);
        let envelope = Envelope::read(mended.as_deref().unwrap_or(text)).ok_or(LineFault::NotAnEvent)?;
        let [_, _, name, occurred_at, _, by, payload] = envelope.fields;
        if let Some(fault) = envelope.fault {
            return Err(LineFault::Odd(fault));
        }
        let name = name.and_then(string).ok_or_else(|| odd("there is no `name`"))?;
        if let Some(word) = Word::of(&name) {
            return Err(LineFault::Vocabulary(word.name()));
        }
        let name = EventName::new(&name).ok_or_else(|| {
            odd("its name is no event name: two or more dot-separated segments of A-Z a-z 0-9 _ -, at most 128 bytes")
        })?;
        let claim = |value: Option<&serde_json::value::RawValue>, key: &str| match value.map(string) {
            None => Ok(None),
            Some(Some(text)) => Ok(Some(text.into_owned()).filter(|text| !text.is_empty())),
            Some(None) => Err(odd(&format!("its `{key}` is no string"))),
        };
        let occurred_at = claim(occurred_at, "occurred_at")?;
        if occurred_at.as_deref().is_some_and(|text| !is_moment(text)) {
            return Err(odd("its `occurred_at` is no RFC 3339 moment"));
        }
        let by = claim(by, "by")?;
        let payload = payload.map_or_else(|| Ok(Payload::empty()), |payload| Payload::read(payload.get()));
        let payload = payload.map_err(|fault| LineFault::Odd(format!("its payload is {fault}")))?;
        let deposit = Deposit { name, occurred_at, by, payload, is_mended: mended.is_some() };
        match deposit.bytes() {
            bytes if bytes > RECORD_BYTES_MAX => Err(LineFault::TooLarge(bytes)),
            _ => Ok(deposit),
        }
    }

    /// What its record takes at most, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let claims = [&self.occurred_at, &self.by].into_iter().flatten().map(|claim| quoted(claim).len()).sum::<usize>();
        ENVELOPE_BYTES_MAX + self.name.as_str().len() + self.payload.get().len() + claims
    }

    fn key(&self) -> Key {
        key(self.name.as_str(), self.occurred_at.as_deref(), self.by.as_deref(), self.payload.get())
    }
}

/// The line of a record that an event leaves as, without its newline: the stored one, byte for byte, unless its name is the
/// kernel's or no home would read it so. Fails if none would read it in any form.
pub fn given<'a>(event: Event<'_>, line: &'a [u8]) -> Result<Cow<'a, [u8]>, LineFault> {
    let word = Word::of(&event.name);
    if word.is_none() && Deposit::read(line).is_ok() {
        return Ok(Cow::Borrowed(line));
    }
    let name = word.map_or_else(|| event.name.clone(), |word| Cow::Owned(format!("{LINEAGE}{}", word.name())));
    let mut anew = Vec::new();
    write(&mut anew, &Event { name, ..event });
    anew.pop();
    Deposit::read(&anew).map(|_| Cow::Owned(anew))
}

/// What tells equal events: a digest of name, moment, speaker and payload.
type Key = [u8; 16];

fn key(name: &str, occurred_at: Option<&str>, by: Option<&str>, payload: &str) -> Key {
    let mut digest = Sha256::new();
    for field in [Some(name), occurred_at, by, Some(payload)] {
        match field.filter(|field| !field.is_empty()) {
            Some(field) => {
                digest.update((field.len() as u64).to_le_bytes());
                digest.update(field);
            }
            None => digest.update(u64::MAX.to_le_bytes()),
        }
    }
    let digest: [u8; 32] = digest.finalize().into();
    std::array::from_fn(|at| digest[at])
}

/// How often an event stands in the record, in the log, and in what was read of the record so far.
#[derive(Debug, Default)]
struct Tally {
    told: u32,
    held: u32,
    seen: u32,
}

/// One of equal events in a record, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occurrence {
    key: Key,
    nth: u32,
}

/// What an account's record brings and which of it a log already holds. Of k equal events in the record as many are held as the
/// log has; an event without a moment of its own equals one that came through learning, whatever moment it got then.
#[derive(Debug, Default)]
pub struct Ledger {
    tallies: HashMap<Key, Tally>,
    /// How many events of each name the record has.
    pub names: BTreeMap<String, u64>,
    /// How many of its lines were mended.
    pub mended: u64,
}

impl Ledger {
    /// How many events the record has.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.names.values().sum()
    }

    /// Takes in that the record brings this.
    pub fn tell(&mut self, deposit: &Deposit) {
        self.tallies.entry(deposit.key()).or_default().told += 1;
        self.mended += u64::from(deposit.is_mended);
        match self.names.get_mut(deposit.name.as_str()) {
            Some(count) => *count += 1,
            None => drop(self.names.insert(deposit.name.as_str().to_owned(), 1)),
        }
    }

    /// Takes in that the log holds this.
    pub fn hold(&mut self, event: &Event<'_>) {
        if !self.names.contains_key(&*event.name) {
            return;
        }
        let payload = Payload::read(event.payload.get());
        let payload = payload.as_ref().map_or_else(|_| event.payload.get(), Payload::get);
        let by = event.by.as_deref();
        let own = self.tallies.get_mut(&key(&event.name, Some(&event.occurred_at), by, payload));
        if let Some(tally) = own.filter(|tally| tally.held < tally.told) {
            tally.held += 1;
        } else if let Some(Door::Learn(_)) = event.via
            && let Some(tally) = self.tallies.get_mut(&key(&event.name, None, by, payload))
        {
            tally.held += 1;
        }
    }

    /// Starts to read the record again.
    pub fn start_over(&mut self) {
        self.tallies.values_mut().for_each(|tally| tally.seen = 0);
    }

    /// Takes the record's next event: the how manieth of its equals it is.
    pub fn meet(&mut self, deposit: &Deposit) -> Occurrence {
        let key = deposit.key();
        let tally = self.tallies.entry(key).or_default();
        tally.seen += 1;
        Occurrence { key, nth: tally.seen }
    }

    /// Whether the log, as far as it was taken in, already holds so many equal events. What it holds it holds for good.
    #[must_use]
    pub fn holds(&self, occurrence: Occurrence) -> bool {
        self.tallies.get(&occurrence.key).is_some_and(|tally| occurrence.nth <= tally.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Line;

    const MOMENT: &str = "2026-01-01T00:00:00Z";

    fn event(line: &str) -> Event<'_> {
        match Line::read(line.as_bytes()) {
            Line::Record(record) => record.at(1),
            Line::Blank | Line::Damaged => panic!("no record: {line}"),
        }
    }

    #[track_caller]
    fn refuses(line: &str, reason: &str) {
        assert_eq!(Deposit::read(line.as_bytes()).unwrap_err().to_string(), reason, "{line}");
    }

    #[test]
    fn a_selector_is_a_capability_or_a_prefix() {
        assert_eq!(Selector::read(""), None);
        for text in ["note.", " ", "command", "command/", "tool/x", "command/../x"] {
            assert_eq!(Selector::read(text), Some(Selector::Prefix(text.to_owned())), "{text}");
        }
        for text in ["command/note", "projector/a/b"] {
            assert!(matches!(Selector::read(text), Some(Selector::Capability(_))), "{text}");
            assert_eq!(Selector::read(text).unwrap().text(), text);
        }
    }

    #[test]
    fn a_manifest_reads_back_and_an_odd_one_is_told() {
        let sha256 = "ab".repeat(32);
        for (text, selector) in [("note \"x\"", "prefix"), ("command/note", "capability")] {
            let printed = Manifest::print(&Selector::read(text).unwrap(), 3, &sha256);
            assert!(printed.contains(&format!("\"{selector}\":")), "{printed}");
            let manifest = Manifest::read(&printed).unwrap();
            assert_eq!((manifest.selector(), manifest.events, &manifest.record_sha256), (Some(text), 3, &sha256));
        }
        for odd in ["", "{}", "[]", r#"{"events":1,"record_sha256":"abc"}"#, r#"{"events":-1,"record_sha256":""}"#] {
            assert!(Manifest::read(odd).is_err(), "{odd}");
        }
        assert!(Manifest::read(&format!("\u{feff}{{\"events\":0,\"record_sha256\":\"{sha256}\"}}")).is_ok());
    }

    #[test]
    fn a_line_keeps_name_moment_speaker_and_payload_and_no_more() {
        let line = r#" {"id":"x","seq":9,"name":"note.added","occurred_at":"2026-01-01T01:00:00+01:00","via":"kernel","by":"ada","payload":{"n": 1.10}} "#;
        let deposit = Deposit::read(line.as_bytes()).unwrap();
        assert_eq!(deposit.name.as_str(), "note.added");
        assert_eq!(deposit.occurred_at.as_deref(), Some("2026-01-01T01:00:00+01:00"));
        assert_eq!((deposit.by.as_deref(), deposit.payload.get()), (Some("ada"), r#"{"n":1.10}"#));
        let bare = Deposit::read(br#"{"name":"note.added","by":""}"#).unwrap();
        assert_eq!((bare.occurred_at, bare.by, bare.payload.get()), (None, None, "{}"));
    }

    #[test]
    fn every_name_of_the_vocabulary_is_refused_in_any_case() {
        for row in &crate::vocabulary::TABLE {
            let reason = format!("`{0}` is a name that the kernel acts on; such a name travels as `lineage.{0}` only", row.name);
            for name in [row.name.to_owned(), row.name.to_uppercase(), format!(" {}\\t", row.name)] {
                refuses(&format!(r#"{{"name":"{name}","payload":{{}}}}"#), &reason);
            }
        }
    }

    #[test]
    fn a_line_that_is_no_event_is_refused_in_words() {
        refuses("nonsense", "it is no event: one JSON object with a `name` and a `payload`");
        refuses("[]", "it is no event: one JSON object with a `name` and a `payload`");
        refuses(r#"{"payload":1}"#, "there is no `name`");
        refuses(r#"{"Name":"a.b"}"#, "key `Name` is spelled `name`");
        refuses(r#"{"name":"a.b","by":"x","by":"y"}"#, "key `by` stands twice");
        refuses(r#"{"name":"a.b","by":1}"#, "its `by` is no string");
        refuses(r#"{"name":"a.b","occurred_at":"yesterday"}"#, "its `occurred_at` is no RFC 3339 moment");
        refuses(
            r#"{"name":"note"}"#,
            "its name is no event name: two or more dot-separated segments of A-Z a-z 0-9 _ -, at most 128 bytes",
        );
        let deep = format!(r#"{{"name":"a.b","payload":{}{}}}"#, "[".repeat(129), "]".repeat(129));
        refuses(&deep, "its payload is nested 129 deep; the limit is 128");
        let huge = format!(r#"{{"name":"a.b","payload":"{}"}}"#, "x".repeat(RECORD_BYTES_MAX));
        assert!(matches!(Deposit::read(huge.as_bytes()), Err(LineFault::TooLarge(_))));
        assert_eq!(Deposit::read(b"{\"name\":\"a.b\",\"payload\":\"\xff\"}"), Err(LineFault::Odd("it is not UTF-8".into())));
    }

    #[track_caller]
    fn leaves(line: &str, expect: Option<&str>) {
        let left = given(event(line), line.as_bytes());
        assert_eq!(left.ok().map(|left| String::from_utf8(left.into_owned()).unwrap()).as_deref(), expect);
    }

    #[test]
    fn an_event_leaves_as_it_stands_and_a_name_of_the_kernel_as_lineage() {
        let plain = r#"{"seq":1,"id":"x","name":"note.added","payload":{"n": 1.10},"more":1}"#;
        leaves(plain, Some(plain));
        let lineage = r#"{"id":"","seq":1,"name":"lineage.script.compiled","occurred_at":"","payload":{}}"#;
        leaves(lineage, Some(lineage));
        leaves(
            r#"{"name":" Script.Compiled","occurred_at":"2026-01-01T00:00:00Z","via":"kernel","payload":{"a":1}}"#,
            Some(
                r#"{"id":"","seq":1,"name":"lineage.script.compiled","occurred_at":"2026-01-01T00:00:00Z","via":"kernel","payload":{"a":1}}"#,
            ),
        );
        // Older homes have keys in any case, which no home reads in a record.
        leaves(
            r#"{"NAME":"note.added","Payload":null}"#,
            Some(r#"{"id":"","seq":1,"name":"note.added","occurred_at":"","payload":null}"#),
        );
        leaves(r#"{"name":"note"}"#, None);
        leaves(r#"{"name":"a.b","occurred_at":"yesterday"}"#, None);
    }

    fn told(lines: &[String]) -> (Ledger, Vec<Deposit>) {
        let deposits: Vec<_> = lines.iter().map(|line| Deposit::read(line.as_bytes()).unwrap()).collect();
        let mut ledger = Ledger::default();
        deposits.iter().for_each(|deposit| ledger.tell(deposit));
        (ledger, deposits)
    }

    #[track_caller]
    fn holds(record: &[String], log: &[String], expect: &[bool]) {
        let (mut ledger, deposits) = told(record);
        log.iter().for_each(|line| ledger.hold(&event(line)));
        for _ in 0..2 {
            ledger.start_over();
            let met: Vec<_> = deposits.iter().map(|deposit| ledger.meet(deposit)).collect();
            assert_eq!(met.into_iter().map(|occurrence| ledger.holds(occurrence)).collect::<Vec<_>>(), expect);
        }
    }

    #[test]
    fn of_equal_events_those_that_are_held_are_counted() {
        let line = |via: &str, by: &str, n: u32| {
            format!(r#"{{"name":"note.added","occurred_at":"{MOMENT}","via":"{via}","by":"{by}","payload":{{"n":{n}}}}}"#)
        };
        let record = [line("cli", "ada", 1), line("cli", "ada", 1), line("cli", "ada", 2), line("cli", "bob", 1)];
        holds(&record, &[], &[false; 4]);
        holds(&record, &[line("pipe", "ada", 1)], &[true, false, false, false]);
        holds(&record, &[line("learn:x", "ada", 1), line("cli", "ada", 1), line("cli", "", 1)], &[true, true, false, false]);
        holds(&record, &record, &[true; 4]);
        holds(&record, &[line("cli", "ada", 3), line("cli", "eve", 1)], &[false; 4]);
    }

    #[test]
    fn an_event_without_a_moment_is_held_by_one_that_was_learned() {
        let line = |via: &str, moment: &str| {
            format!(r#"{{"name":"chat.message","occurred_at":"{moment}","via":"{via}","payload":{{"content":"hi"}}}}"#)
        };
        let record = [line("", ""), line("", MOMENT)];
        holds(&record, &[line("cli", "2026-05-05T00:00:00Z")], &[false, false]);
        holds(&record, &[line("learn:x", "2026-05-05T00:00:00Z")], &[true, false]);
        holds(&record, &[line("learn:x", MOMENT)], &[false, true]);
        holds(&record, &[line("learn:x", MOMENT), line("learn:x", "2026-05-05T00:00:00Z")], &[true, true]);
    }
}
