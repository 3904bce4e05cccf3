//! Envelopes: one JSON object from outside, its keys told apart.
//!
//! Stricter than the reader of the log: on the wire, in accounts and in script output the record's keys compare with case, and
//! none may stand twice. Judges nothing but keys. The invariant: of an envelope without a fault each key of the record was
//! spelled as in [`KEYS`], and stood once.

use serde_json::value::RawValue;

use crate::record::{KEYS, object};

/// An object's keys, sorted into those of the record and the others.
#[derive(Debug)]
pub struct Envelope<'a> {
    /// The values of the record's keys, in the order of [`KEYS`].
    pub fields: [Option<&'a RawValue>; KEYS.len()],
    /// The first fault among them, in words.
    pub fault: Option<String>,
    /// The keys that are not the record's.
    pub others: Vec<String>,
}

impl<'a> Envelope<'a> {
    /// Reads a text that is one JSON object; `None` for any other.
    #[must_use]
    pub fn read(json: &'a str) -> Option<Envelope<'a>> {
        let mut envelope = Envelope { fields: [None; KEYS.len()], fault: None, others: Vec::new() };
        for (key, value) in object(json)? {
            let Some(at) = KEYS.iter().position(|known| known.eq_ignore_ascii_case(&key)) else {
                envelope.others.push(key.into_owned());
                continue;
            };
            let fault = match envelope.fields[at] {
                _ if key != KEYS[at] => Some(format!("key `{key}` is spelled `{}`", KEYS[at])),
                Some(_) => Some(format!("key `{key}` stands twice")),
                None => None,
            };
            envelope.fields[at].get_or_insert(value);
            envelope.fault = envelope.fault.or(fault);
        }
        Some(envelope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(json: &str, fault: Option<&str>, others: &[&str]) {
        let envelope = Envelope::read(json).unwrap();
        assert_eq!((envelope.fault.as_deref(), envelope.others), (fault, others.iter().map(|key| (*key).to_owned()).collect()));
    }

    #[test]
    fn keys_compare_unescaped_and_with_case() {
        check(r#"{"name":"a.b","seq":1,"mood":2}"#, None, &["mood"]);
        check(r#"{"name":1,"n\u0061me":2}"#, Some("key `name` stands twice"), &[]);
        check(r#"{"Payload":1,"payload":2}"#, Some("key `Payload` is spelled `payload`"), &[]);
        assert!(Envelope::read("[1]").is_none());
    }
}
