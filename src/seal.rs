//! Seals: signed checkpoints over all lines of the log so far.
//!
//! [`Chain`] is a digest over lines as they stand, whatever they are; each payload enters by a digest of its own, so that it can be
//! taken out one day and the seals still hold. A [`Seal`] signs a chain's digest and its own envelope. Never touches the disk. The
//! invariant: two stretches of lines that differ in any byte, or in the order of two lines, have different digests.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::receipt::{Purpose, Secret};
use crate::record::Line;

/// How long a digest is, in bytes.
const DIGEST_BYTES: usize = 32;

/// The digest over the lines from the start of the log to some place, and that place: whoever keeps it can go on from there.
///
/// For each line without its newline, with `a` the bytes in front of its payload, `p` the payload and `z` the bytes behind it:
/// h = SHA-256(h ‖ u64 LE len(a) ‖ a ‖ SHA-256(p) ‖ u64 LE len(z) ‖ z), from 32 zero bytes on. Of a line without a payload `a` is
/// the line, and `p` and `z` are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chain {
    h: [u8; DIGEST_BYTES],
    offset: u64,
    lines: u64,
}

impl Chain {
    /// Where the next line starts, in bytes.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// How many lines were taken in.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// The digest, as 64 hex digits.
    #[must_use]
    pub fn digest(&self) -> String {
        hex::encode(self.h)
    }

    /// Goes on from a digest that is proven otherwise, so that what follows a changed line is judged by itself. `false` if the
    /// text is no digest.
    pub fn go_on_from(&mut self, digest: &str) -> bool {
        hex::decode_to_slice(digest, &mut self.h).is_ok()
    }

    /// Takes in the next line, whose payload stands at this range of it.
    pub fn take(&mut self, line: &[u8], payload: Option<Range<usize>>) {
        let payload = payload.unwrap_or(line.len()..line.len());
        let (before, behind) = (&line[..payload.start], &line[payload.end..]);
        let mut link = self.link(before.len() as u64);
        link.update(before);
        self.close(link, &line[payload], behind);
        self.pass(line.len() as u64);
    }

    /// Takes in the next line, whatever it is.
    pub fn take_line(&mut self, line: &[u8], is_first: bool) {
        self.take(line, payload_of(line, is_first));
    }

    /// Takes in a line of so many bytes that is too long to be held; `read` hands its bytes on, piece by piece.
    pub fn take_long<E>(&mut self, bytes: u64, read: impl FnOnce(&mut dyn FnMut(&[u8])) -> Result<(), E>) -> Result<(), E> {
        let mut link = self.link(bytes);
        read(&mut |piece| link.update(piece))?;
        self.close(link, b"", b"");
        self.pass(bytes);
        Ok(())
    }

    fn link(&self, before: u64) -> Sha256 {
        let mut link = Sha256::new();
        link.update(self.h);
        link.update(before.to_le_bytes());
        link
    }

    fn close(&mut self, mut link: Sha256, payload: &[u8], behind: &[u8]) {
        link.update(Sha256::digest(payload));
        link.update((behind.len() as u64).to_le_bytes());
        link.update(behind);
        self.h = link.finalize().into();
    }

    fn pass(&mut self, bytes: u64) {
        self.offset += bytes + 1;
        self.lines += 1;
    }
}

/// Where the payload of a line stands in it; `None` where there is none, or where the line is no record.
fn payload_of(line: &[u8], is_first: bool) -> Option<Range<usize>> {
    match Line::of(line, is_first) {
        Line::Record(record) => record.payload_in(line),
        Line::Blank | Line::Damaged => None,
    }
}

/// The payload of `log.sealed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seal {
    /// The highest number in front of it.
    pub through: u64,
    /// The digest over all lines in front of it, as hex digits.
    pub digest: String,
    /// The signature, as hex digits.
    pub mac: String,
}

impl Seal {
    /// Seals the lines of a chain. `envelope` is the part of the seal's own line in front of its payload.
    #[must_use]
    pub fn sign(secret: &Secret, chain: &Chain, through: u64, envelope: &[u8]) -> Seal {
        let digest = chain.digest();
        let mac = secret.mac(Purpose::Seal, &[through.to_string().as_bytes(), digest.as_bytes(), envelope]);
        Seal { through, digest, mac }
    }

    /// Whether it was signed with this secret, for a line with this envelope. Says nothing of the lines in front of it.
    #[must_use]
    pub fn is_signed(&self, secret: &Secret, envelope: &[u8]) -> bool {
        let is_spelled_as_written = |hex: &str| !hex.bytes().any(|byte| byte.is_ascii_uppercase());
        let through = self.through.to_string();
        let fields = [through.as_bytes(), self.digest.as_bytes(), envelope];
        is_spelled_as_written(&self.mac) && secret.holds(Purpose::Seal, &fields, &self.mac)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(lines: &[&str]) -> String {
        let mut chain = Chain::default();
        lines.iter().enumerate().for_each(|(at, line)| chain.take_line(line.as_bytes(), at == 0));
        chain.digest()
    }

    /// Digests computed by another implementation: Python's hashlib over FORMATS §2.
    #[test]
    fn a_chain_is_as_documented() {
        assert_eq!(digest(&[]), "00".repeat(32));
        assert_eq!(
            digest(&["\u{feff}{\"name\":\"a.b\",\"payload\":{\"n\":1}}\r", "", "not a record", "{\"name\":\"c.d\"}"]),
            "3a2458b6c9cdcc2aaec41e71561ba2d56cd55b492c82ea7007f7e2614a711e64"
        );
    }

    #[test]
    fn a_line_in_pieces_is_the_same_line() {
        let mut whole = Chain::default();
        whole.take(b"a very long line", None);
        let mut pieces = Chain::default();
        let read = |each: &mut dyn FnMut(&[u8])| -> Result<(), ()> {
            [&b"a very "[..], b"long", b" line"].into_iter().for_each(each);
            Ok(())
        };
        pieces.take_long(16, read).unwrap();
        assert_eq!(pieces, whole);
        assert_eq!((whole.offset(), whole.lines()), (17, 1));
    }

    #[test]
    fn lines_that_differ_in_any_way_have_other_digests() {
        let lines = ["{\"name\":\"a.b\",\"payload\":1}", "{\"name\":\"a.b\",\"payload\":2}", "x"];
        let others: [&[&str]; 6] = [
            &[lines[1], lines[0], lines[2]],
            &[lines[0], lines[2]],
            &[lines[0], lines[0], lines[1], lines[2]],
            &["{\"name\":\"a.b\",\"payload\":12}", "x"],
            &[lines[0], lines[1], "x", ""],
            &[lines[0], lines[1], "x\r"],
        ];
        for other in others {
            assert_ne!(digest(other), digest(&lines), "{other:?}");
        }
    }

    #[test]
    fn a_seal_holds_for_its_own_fields_and_envelope_only() {
        let secret = Secret::new([7; 32]);
        let mut chain = Chain::default();
        chain.take(b"x", None);
        let seal = Seal::sign(&secret, &chain, 3, b"envelope");
        assert!(seal.is_signed(&secret, b"envelope"));
        assert!(!seal.is_signed(&secret, b"envelopf"));
        assert!(!seal.is_signed(&Secret::new([8; 32]), b"envelope"));
        assert!(!Seal { through: 4, ..seal.clone() }.is_signed(&secret, b"envelope"));
        assert!(!Seal { digest: seal.digest.to_uppercase(), ..seal.clone() }.is_signed(&secret, b"envelope"));
        assert!(!Seal { mac: seal.mac.to_uppercase(), ..seal }.is_signed(&secret, b"envelope"));
    }
}
