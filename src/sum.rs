//! Sums: whether a stretch of lines still is what it was, at memory speed.
//!
//! A sum runs over lines without their newlines, whatever they are, and goes on from where it stands, so that an append costs what it
//! appends. It is keyed: who does not know the key cannot make other lines of the same sum. Far weaker than a seal, and no proof.
//! The invariant: the same lines have the same sum, however they were taken in.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{Xxh3, xxh3_128_with_seed};

/// What sums are made with.
#[derive(Clone, Copy)]
pub struct SumKey {
    seed: u64,
    factor: u128,
}

impl std::fmt::Debug for SumKey {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("SumKey")
    }
}

impl SumKey {
    /// Takes the first 24 bytes of a derived key.
    #[must_use]
    pub fn of(key: &[u8; 32]) -> SumKey {
        let seed = key.iter().take(8).fold(0, |seed, byte| seed << 8 | u64::from(*byte));
        let factor = key.iter().skip(8).take(16).fold(0, |factor, byte| factor << 8 | u128::from(*byte));
        SumKey { seed, factor: factor | 1 }
    }
}

/// The sum over the lines from the start of the log to some place: s = s × factor + XXH3-128(line) + 1, modulo 2^128.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum(u128);

impl Sum {
    /// Takes in the next line.
    pub fn take(&mut self, key: SumKey, line: &[u8]) {
        self.add(key, xxh3_128_with_seed(line, key.seed));
    }

    /// Takes in a line that is too long to be held; `read` hands its bytes on, piece by piece.
    pub fn take_long<E>(&mut self, key: SumKey, read: impl FnOnce(&mut dyn FnMut(&[u8])) -> Result<(), E>) -> Result<(), E> {
        let mut hash = Xxh3::with_seed(key.seed);
        read(&mut |piece| hash.update(piece))?;
        self.add(key, hash.digest128());
        Ok(())
    }

    fn add(&mut self, key: SumKey, hash: u128) {
        self.0 = self.0.wrapping_mul(key.factor).wrapping_add(hash).wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(key: &[u8; 32], lines: &[&str]) -> Sum {
        let mut sum = Sum::default();
        lines.iter().for_each(|line| sum.take(SumKey::of(key), line.as_bytes()));
        sum
    }

    #[test]
    fn lines_that_differ_in_any_way_have_other_sums() {
        let one = sum(&[7; 32], &["a", "b"]);
        assert_eq!(one, sum(&[7; 32], &["a", "b"]));
        for lines in [&["b", "a"][..], &["a"], &["ab"], &["a", "b", ""], &["", "a", "b"], &["a", "c"]] {
            assert_ne!(sum(&[7; 32], lines), one, "{lines:?}");
        }
        assert_ne!(sum(&[8; 32], &["a", "b"]), one);
    }

    #[test]
    fn a_line_in_pieces_is_the_same_line() {
        let key = SumKey::of(&[9; 32]);
        let (mut whole, mut pieces) = (Sum::default(), Sum::default());
        whole.take(key, &[5; 3000]);
        let read = |each: &mut dyn FnMut(&[u8])| -> Result<(), ()> {
            [&[5; 1000][..], &[5; 2000]].into_iter().for_each(each);
            Ok(())
        };
        pieces.take_long(key, read).unwrap();
        assert_eq!(whole, pieces);
    }
}
