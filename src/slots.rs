//! Slots: two places for the index's state, written in turn, so that one is always whole.
//!
//! ```text
//! 0     64           72       76        80             little-endian; the second slot starts at SLOT_BYTES_MAX
//! | mac | generation | length | version | state … |
//! ```
//!
//! `mac` = MAC(`self.index.v1`; generation, version, state), as 64 hex digits. Pure layout. The invariant: a state that is read
//! was written whole, with this home's key, by a program that lays it out as this one does.

use crate::receipt::{Purpose, Secret};

/// How long a slot is, in bytes. A state that does not fit is not kept.
pub const SLOT_BYTES_MAX: usize = 4 << 20;

/// How long what stands in front of the state is, in bytes.
pub const HEAD_BYTES: usize = 80;

/// The layout of the state; another one is made anew.
const VERSION: u32 = 3;

/// How long the mac is, in bytes.
const MAC_BYTES: usize = 64;

/// What stands in front of a slot's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotHead {
    mac: String,
    /// The slot of the higher generation was written later.
    pub generation: u64,
    /// How long the state is, in bytes.
    pub bytes: usize,
}

impl SlotHead {
    /// Reads what stands in front of a state; `None` if it is of another layout.
    #[must_use]
    pub fn read(head: &[u8; HEAD_BYTES]) -> Option<SlotHead> {
        let number = |from: usize, to: usize| head[from..to].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let mac = std::str::from_utf8(&head[..MAC_BYTES]).ok()?.to_owned();
        let bytes = usize::try_from(number(72, 76)).ok().filter(|bytes| HEAD_BYTES + bytes <= SLOT_BYTES_MAX)?;
        (number(76, 80) == u64::from(VERSION)).then_some(SlotHead { mac, generation: number(64, 72), bytes })
    }

    /// Whether it was written with this key in front of this state.
    #[must_use]
    pub fn fits(&self, secret: &Secret, state: &[u8]) -> bool {
        let (generation, version) = (self.generation.to_le_bytes(), VERSION.to_le_bytes());
        self.bytes == state.len() && secret.holds(Purpose::Index, &[&generation, &version, state], &self.mac)
    }
}

/// A slot's bytes; `None` if the state does not fit.
#[must_use]
pub fn slot(secret: &Secret, generation: u64, state: &[u8]) -> Option<Vec<u8>> {
    let (generation, version) = (generation.to_le_bytes(), VERSION.to_le_bytes());
    let bytes = u32::try_from(state.len()).ok().filter(|_| HEAD_BYTES + state.len() <= SLOT_BYTES_MAX)?;
    let mac = secret.mac(Purpose::Index, &[&generation, &version, state]);
    Some([mac.as_bytes(), &generation, &bytes.to_le_bytes(), &version, state].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_whole_or_none() {
        let secret = Secret::new([7; 32]);
        let bytes = slot(&secret, 5, b"the state").unwrap();
        let read = |bytes: &[u8], secret: &Secret| {
            let head = SlotHead::read(bytes[..HEAD_BYTES].try_into().unwrap())?;
            head.fits(secret, &bytes[HEAD_BYTES..]).then_some(head.generation)
        };
        assert_eq!((read(&bytes, &secret), read(&bytes, &Secret::new([8; 32]))), (Some(5), None));
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert_eq!(read(&other, &secret), None, "byte {at}");
        }
        assert_eq!(read(&bytes[..bytes.len() - 1], &secret), None);
        assert_eq!(slot(&secret, 1, &vec![0; SLOT_BYTES_MAX]), None);
    }
}
