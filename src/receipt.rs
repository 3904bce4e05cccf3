//! The secret, the keys derived from it, and receipts: what proves that a script was installed here.
//!
//! [`Verified`] comes only from [`verify`] and is the only proof that installs. Never touches the disk and never prints the
//! secret. Byte formats: one key for each purpose, K(label) = HMAC-SHA256(secret, label); a MAC runs over the label, a NUL and
//! each field as `<decimal length>:<bytes>`, so that no two lists of fields have the same bytes.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::capability::{Capability, CapabilityName, Kind};
use crate::event::{Door, Event};

/// The length of a home's secret, in bytes.
pub const SECRET_BYTES: usize = 32;

/// What a derived key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Receipts of installed scripts.
    Receipt,
    /// Signed checkpoints of the log.
    Seal,
    /// The cache over the log.
    Index,
    /// The note, outside the home, of how long the log has been.
    Head,
}

impl Purpose {
    /// The label that separates this purpose's key from the others'.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Purpose::Receipt => "self.receipt.v3",
            Purpose::Seal => "self.seal.v1",
            Purpose::Index => "self.index.v1",
            Purpose::Head => "self.head.v1",
        }
    }
}

/// The bytes of `.secret`. They leave memory when the value is dropped, and its `Debug` prints nothing of them.
#[derive(Clone)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Secret")
    }
}

/// Why a text is no secret; says nothing of the text itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SecretFault {
    /// It holds something other than hex digits.
    #[error("it is not hexadecimal")]
    NotHex,
    /// It is too short.
    #[error("it is too short")]
    Short,
}

impl Secret {
    /// Takes random bytes as a new secret.
    #[must_use]
    pub fn new(bytes: [u8; SECRET_BYTES]) -> Secret {
        Secret(Zeroizing::new(bytes.to_vec()))
    }

    /// Reads the text of `.secret`: hex digits of either case, white space behind them; at least 32 bytes.
    pub fn read(text: &[u8]) -> Result<Secret, SecretFault> {
        let bytes = Zeroizing::new(hex::decode(text.trim_ascii_end()).map_err(|_| SecretFault::NotHex)?);
        if bytes.len() < SECRET_BYTES { Err(SecretFault::Short) } else { Ok(Secret(bytes)) }
    }

    /// The text of `.secret`: hex digits and a newline.
    #[must_use]
    pub fn text(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(hex::encode(&*self.0));
        text.push('\n');
        text
    }

    /// MAC(label; fields) under the key of this purpose, as 64 hex digits.
    #[must_use]
    pub fn mac(&self, purpose: Purpose, fields: &[&[u8]]) -> String {
        hex::encode(self.fields(purpose, fields).finalize().into_bytes())
    }

    /// Compares a MAC in constant time.
    #[must_use]
    pub fn holds(&self, purpose: Purpose, fields: &[&[u8]], mac: &str) -> bool {
        is_mac(self.fields(purpose, fields), mac)
    }

    fn fields(&self, purpose: Purpose, fields: &[&[u8]]) -> Hmac<Sha256> {
        let key = keyed(&self.0, &[purpose.label().as_bytes()]).finalize().into_bytes();
        let key = Zeroizing::new(<[u8; 32]>::from(key));
        let mut mac = keyed(&*key, &[purpose.label().as_bytes(), b"\0"]);
        update_fields(&mut mac, fields);
        mac
    }
}

/// The payload of `script.compiled`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Receipt {
    /// `command` or `projector`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The capability's name.
    pub name: String,
    /// The script's bytes.
    pub script: String,
    /// Who wrote the script's bytes; missing in receipts of the first form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The receipt's own number; missing in older forms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// The SHA-256 of the declaration's payload, as hex digits; missing in older forms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declaration: Option<String>,
    /// The signature, as hex digits.
    pub sig: String,
}

/// A receipt that was signed here: the only proof that installs a script.
#[derive(Debug, Clone)]
pub struct Verified {
    receipt: Receipt,
    capability: Capability,
    form: Form,
}

/// Which form of receipt it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// Without an author; the older program's first.
    V1,
    /// Length-prefixed; the older program's second.
    V2,
    /// Ours: sealed to its place in the log and to its declaration.
    V3,
}

impl Verified {
    /// What was installed.
    #[must_use]
    pub fn capability(&self) -> &Capability {
        &self.capability
    }

    /// The script's bytes.
    #[must_use]
    pub fn script(&self) -> &str {
        &self.receipt.script
    }

    /// Who wrote them.
    #[must_use]
    pub fn author(&self) -> Option<&str> {
        self.receipt.by.as_deref()
    }

    /// The digest of the declaration it was installed under; `None` for older forms.
    #[must_use]
    pub fn declaration(&self) -> Option<&str> {
        self.receipt.declaration.as_deref()
    }

    /// The receipt's form.
    #[must_use]
    pub fn form(&self) -> Form {
        self.form
    }
}

/// What stands in the log in front of a receipt, as far as its validity depends on it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Before {
    /// The highest number.
    pub highest: u64,
    /// Whether a receipt of our own form stands there: from then on older forms do not count.
    pub has_v3: bool,
}

/// Signs a receipt of our own form for its place in the log.
#[must_use]
pub fn sign(secret: &Secret, capability: &Capability, script: &str, by: &str, seq: u64, declaration: &str) -> Receipt {
    let mut receipt = Receipt {
        kind: capability.kind.word().to_owned(),
        name: capability.name.as_str().to_owned(),
        script: script.to_owned(),
        by: Some(by.to_owned()),
        seq: Some(seq),
        declaration: Some(declaration.to_owned()),
        sig: String::new(),
    };
    receipt.sig = with_fields(&receipt, seq, by, declaration, |fields| secret.mac(Purpose::Receipt, fields));
    receipt
}

/// Verifies a `script.compiled` at its place in the log: its signature, its door, its own number, and that nothing of a higher
/// number stands in front of it.
#[must_use]
pub fn verify(secret: &Secret, event: &Event<'_>, before: Before) -> Option<Verified> {
    let receipt: Receipt = event.parse()?;
    let kind = Kind::read(&receipt.kind)?;
    let form = match (receipt.seq, &receipt.declaration, &receipt.by) {
        (Some(_), Some(_), Some(_)) => Form::V3,
        (None, None, Some(_)) => Form::V2,
        (None, None, None) => Form::V1,
        _ => return None,
    };
    let (holds, name) = match form {
        Form::V3 => (
            event.via == Some(Door::Kernel) && event.seq > before.highest && is_v3(secret, &receipt, event.seq),
            CapabilityName::new(kind, &receipt.name).ok().or_else(|| CapabilityName::inherited(&receipt.name))?,
        ),
        Form::V1 | Form::V2 => (
            matches!(event.via, None | Some(Door::Kernel)) && !before.has_v3 && is_older(secret, &receipt),
            CapabilityName::inherited(&receipt.name)?,
        ),
    };
    holds.then_some(Verified { receipt, capability: Capability { kind, name }, form })
}

fn is_v3(secret: &Secret, receipt: &Receipt, seq: u64) -> bool {
    let (Some(by), Some(declaration)) = (&receipt.by, &receipt.declaration) else { return false };
    receipt.seq == Some(seq)
        && with_fields(receipt, seq, by, declaration, |fields| secret.holds(Purpose::Receipt, fields, &receipt.sig))
}

fn with_fields<T>(receipt: &Receipt, seq: u64, by: &str, declaration: &str, then: impl Fn(&[&[u8]]) -> T) -> T {
    let seq = seq.to_string();
    then(&[&receipt.kind, &receipt.name, &receipt.script, by, &seq, declaration].map(str::as_bytes))
}

/// Checks the older program's two forms, which are signed with the secret itself.
fn is_older(secret: &Secret, receipt: &Receipt) -> bool {
    let [kind, name, script] = [&receipt.kind, &receipt.name, &receipt.script].map(|text| text.as_bytes());
    let mac = match &receipt.by {
        Some(by) => {
            let mut mac = keyed(&secret.0, &[b"self.receipt.v2\0"]);
            update_fields(&mut mac, &[kind, name, script, by.as_bytes()]);
            mac
        }
        None => keyed(&secret.0, &[kind, b"\0", name, b"\0", script]),
    };
    is_mac(mac, &receipt.sig)
}

fn keyed(key: &[u8], parts: &[&[u8]]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac
}

fn update_fields(mac: &mut Hmac<Sha256>, fields: &[&[u8]]) {
    for field in fields {
        mac.update(format!("{}:", field.len()).as_bytes());
        mac.update(field);
    }
}

fn is_mac(mac: Hmac<Sha256>, text: &str) -> bool {
    hex::decode(text).is_ok_and(|bytes| mac.verify_slice(&bytes).is_ok())
}

/// The SHA-256 of some bytes, as 64 hex digits.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::Payload;
    use std::borrow::Cow;

    fn secret() -> Secret {
        Secret::new(*b"0123456789abcdef0123456789abcdef")
    }

    fn note() -> Capability {
        Capability { kind: Kind::Command, name: CapabilityName::new(Kind::Command, "note").unwrap() }
    }

    fn event<'a>(seq: u64, via: Option<Door<'a>>, payload: &'a Payload) -> Event<'a> {
        Event {
            seq,
            id: "".into(),
            name: "script.compiled".into(),
            occurred_at: "".into(),
            via,
            by: None,
            payload: Cow::Borrowed(payload.as_ref()),
        }
    }

    #[test]
    fn k4_fields_are_length_prefixed() {
        let mac = |fields: &[&[u8]]| secret().mac(Purpose::Receipt, fields);
        assert_ne!(mac(&[b"a", b"bc"]), mac(&[b"ab", b"c"]));
        assert_ne!(mac(&[b"a", b""]), mac(&[b"a"]));
    }

    #[test]
    fn k4_one_flipped_bit_in_any_field_fails() {
        let receipt = sign(&secret(), &note(), "#!/bin/sh\n", "ada", 7, "d");
        let good = Payload::of(&receipt);
        let verify_at = |payload: &Payload, seq| {
            verify(&secret(), &event(seq, Some(Door::Kernel), payload), Before { highest: 6, has_v3: true })
        };
        assert_eq!(verify_at(&good, 7).unwrap().script(), "#!/bin/sh\n");
        let flips: [fn(&mut Receipt); 6] = [
            |receipt| receipt.kind = "projector".into(),
            |receipt| receipt.name = "nota".into(),
            |receipt| receipt.script = "#!/bin/si\n".into(),
            |receipt| receipt.by = Some("bda".into()),
            |receipt| receipt.declaration = Some("e".into()),
            |receipt| receipt.sig = receipt.sig.replacen(|digit: char| digit.is_ascii_hexdigit(), "x", 1),
        ];
        for (at, flip) in flips.iter().enumerate() {
            let mut receipt = receipt.clone();
            flip(&mut receipt);
            assert!(verify_at(&Payload::of(&receipt), 7).is_none(), "flip {at}");
        }
        assert!(verify_at(&good, 8).is_none(), "another place");
    }

    #[test]
    fn d11_a_receipt_counts_only_at_its_own_place_and_door() {
        let payload = Payload::of(&sign(&secret(), &note(), "x", "ada", 7, "d"));
        for (via, highest, expect) in [
            (Some(Door::Kernel), 6, true),
            (Some(Door::Kernel), 7, false),
            (Some(Door::Pipe), 6, false),
            (Some(Door::Learn("kernel".into())), 6, false),
            (None, 6, false),
        ] {
            let taken = verify(&secret(), &event(7, via.clone(), &payload), Before { highest, has_v3: false });
            assert_eq!(taken.is_some(), expect, "{via:?} behind {highest}");
        }
    }

    /// MACs computed with another implementation over the formats of the older program.
    #[test]
    fn older_receipts_verify_in_front_of_the_first_of_ours() {
        let v1 = r#"{"type":"command","name":"Note it","script":"x","sig":"V1"}"#;
        let v2 = r#"{"type":"command","name":"Note it","script":"x","by":"ada","sig":"V2"}"#;
        let sign = |parts: &[&[u8]]| hex::encode(keyed(b"0123456789abcdef0123456789abcdef", parts).finalize().into_bytes());
        let v1 = v1.replace("V1", &sign(&[b"command\0Note it\0x"]));
        let v2 = v2.replace("V2", &sign(&[b"self.receipt.v2\x007:command7:Note it1:x3:ada"]));
        for (text, form) in [(&v1, Form::V1), (&v2, Form::V2)] {
            let payload = Payload::read(text).unwrap();
            for (via, has_v3, expect) in
                [(None, false, true), (Some(Door::Kernel), false, true), (Some(Door::Pipe), false, false), (None, true, false)]
            {
                let taken = verify(&secret(), &event(3, via, &payload), Before { highest: 9, has_v3 });
                assert_eq!(taken.map(|verified| verified.form()), expect.then_some(form));
            }
        }
        let claimed = Payload::read(&v1.replace("\"sig\"", "\"by\":\"ada\",\"sig\"")).unwrap();
        assert!(verify(&secret(), &event(3, None, &claimed), Before::default()).is_none(), "the first form claims no author");
    }

    #[test]
    fn k6_the_secret_prints_nothing() {
        assert_eq!(format!("{:?}", secret()), "Secret");
    }

    #[test]
    fn k7_each_purpose_has_its_own_key() {
        let macs = [Purpose::Receipt, Purpose::Seal, Purpose::Index, Purpose::Head].map(|purpose| secret().mac(purpose, &[b"x"]));
        for (at, mac) in macs.iter().enumerate() {
            assert!(!macs[..at].contains(mac));
            assert!(secret().holds(Purpose::Receipt, &[b"x"], mac) == (at == 0));
        }
    }

    #[test]
    fn k2_a_secret_is_at_least_32_bytes_of_hex() {
        let text = "AB".repeat(32);
        assert_eq!(Secret::read(format!("{text}\n").as_bytes()).unwrap().text().as_str(), format!("{}\n", text.to_lowercase()));
        assert_eq!(Secret::read(b"").unwrap_err(), SecretFault::Short);
        assert_eq!(Secret::read(&text.as_bytes()[2..]).unwrap_err(), SecretFault::Short);
        assert_eq!(Secret::read(&text.as_bytes()[1..]).unwrap_err(), SecretFault::NotHex);
        assert_eq!(Secret::read(text.replace('A', "g").as_bytes()).unwrap_err(), SecretFault::NotHex);
    }
}
