//! Backwards: the lines of a file from the last to the first.
//!
//! What is read grows with what is asked for and not with the file. Bytes split on 0x0A only; a line longer than any record is
//! passed by without being held. Never opens a file: `read` fills a buffer from an offset. The invariant: it gives the same lines,
//! at the same places, as reading on from the start does.

use std::io;
use std::ops::Range;

use crate::record::{BOM, Line, RECORD_BYTES_READ_MAX};

/// How much is read at a time, in bytes, unless a line is longer.
const WINDOW_BYTES: u64 = 64 << 10;

/// The lines of a file from the last to the first, one at a time through one buffer.
pub struct Backwards<R> {
    read: R,
    /// The end of what was not yet given out.
    at: u64,
    window: Vec<u8>,
    /// Where the window starts.
    start: u64,
    line: Range<u64>,
    newline: bool,
}

impl<R: FnMut(&mut [u8], u64) -> io::Result<()>> Backwards<R> {
    /// The lines in front of a place, which is the end of a line or of the file.
    #[must_use]
    pub fn from(end: u64, read: R) -> Backwards<R> {
        Backwards { read, at: end, window: Vec::new(), start: end, line: end..end, newline: false }
    }

    /// Moves to the line in front; `false` at the start of the file.
    pub fn step(&mut self) -> io::Result<bool> {
        if self.at == 0 {
            return Ok(false);
        }
        self.newline = self.byte(self.at - 1)? == b'\n';
        let end = self.at - u64::from(self.newline);
        let start = self.line_start(end)?;
        self.at = start;
        self.line = start..end;
        Ok(true)
    }

    /// The line moved to, as what it is in a log.
    #[must_use]
    pub fn line(&self) -> Line<'_> {
        self.whole().map_or(Line::Damaged, |line| Line::of(line, self.line.start == 0))
    }

    /// Its bytes as they stand, without the newline; `None` if it is longer than [`RECORD_BYTES_READ_MAX`].
    #[must_use]
    pub fn whole(&self) -> Option<&[u8]> {
        let held = self.line.start >= self.start && !self.is_huge();
        held.then(|| &self.window[self.place(self.line.start)..self.place(self.line.end)])
    }

    /// Its bytes without what is no part of a record: a BOM at the start of the file and a CR at the end. Nothing of a line that
    /// is longer than [`RECORD_BYTES_READ_MAX`].
    #[must_use]
    pub fn text(&self) -> &[u8] {
        let line = self.whole().unwrap_or_default();
        let line = if self.line.start == 0 { line.strip_prefix(BOM).unwrap_or(line) } else { line };
        line.strip_suffix(b"\r").unwrap_or(line)
    }

    /// How many bytes at its start are no part of it: a BOM's.
    #[must_use]
    pub fn skipped(&self) -> usize {
        let is_marked = self.line.start == 0 && self.whole().is_some_and(|line| line.starts_with(BOM));
        if is_marked { BOM.len() } else { 0 }
    }

    /// Where it starts.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.line.start
    }

    /// Where the line behind it starts.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.line.end + u64::from(self.newline)
    }

    /// The byte at a place in front of what was given out.
    pub fn byte(&mut self, at: u64) -> io::Result<u8> {
        if at < self.start || at >= self.start + self.window.len() as u64 {
            (self.window, self.start) = (Vec::new(), at + 1);
            self.grow(at + 1)?;
        }
        Ok(self.window[self.place(at)])
    }

    fn is_huge(&self) -> bool {
        self.line.end - self.line.start > RECORD_BYTES_READ_MAX as u64
    }

    fn place(&self, at: u64) -> usize {
        usize::try_from(at - self.start).unwrap_or(usize::MAX)
    }

    /// Where the line starts that ends here. Its bytes are in the window then, but for a line that is longer than any record.
    fn line_start(&mut self, end: u64) -> io::Result<u64> {
        let mut searched = end;
        loop {
            let to = self.place(searched.max(self.start));
            if let Some(at) = memchr::memrchr(b'\n', &self.window[..to]) {
                return Ok(self.start + at as u64 + 1);
            }
            if self.start == 0 {
                return Ok(0);
            }
            searched = self.start;
            if end - self.start > RECORD_BYTES_READ_MAX as u64 {
                self.window.clear();
            }
            self.grow(end)?;
        }
    }

    /// Reads more in front of the window, as much as it holds in front of `end`, which is what stays of it.
    fn grow(&mut self, end: u64) -> io::Result<()> {
        let kept = if self.window.is_empty() { 0 } else { self.place(end) };
        self.window.truncate(kept);
        let more = (kept as u64).max(WINDOW_BYTES).min(self.start);
        let mut front = vec![0; usize::try_from(more).unwrap_or(usize::MAX)];
        (self.read)(&mut front, self.start - more)?;
        front.extend_from_slice(&self.window);
        self.window = front;
        self.start -= more;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of some bytes, last first: where each starts, what it holds, where the next one starts.
    fn lines(bytes: &[u8]) -> Vec<(u64, Vec<u8>, u64)> {
        let mut lines = Backwards::from(bytes.len() as u64, |buffer: &mut [u8], at| {
            let at = usize::try_from(at).unwrap();
            buffer.copy_from_slice(&bytes[at..at + buffer.len()]);
            Ok(())
        });
        let mut found = Vec::new();
        while lines.step().unwrap() {
            found.push((lines.start(), lines.whole().unwrap().to_vec(), lines.next()));
        }
        found
    }

    #[track_caller]
    fn check(bytes: &[u8]) {
        let mut at = 0;
        let mut expect: Vec<_> = bytes
            .split_inclusive(|byte| *byte == b'\n')
            .map(|line| {
                let start = at;
                at += line.len() as u64;
                (start, line.strip_suffix(b"\n").unwrap_or(line).to_vec(), at)
            })
            .collect();
        expect.reverse();
        assert_eq!(lines(bytes), expect);
    }

    #[test]
    fn the_lines_are_those_of_reading_on() {
        for bytes in [&b""[..], b"\n", b"a", b"a\n", b"a\nb", b"\n\na\n\n", b"a\r\nb\r\n", b"\0\n\xff"] {
            check(bytes);
        }
    }

    #[test]
    fn lines_of_any_length_fit_windows_of_any_place() {
        let window = usize::try_from(WINDOW_BYTES).unwrap();
        for length in [1, window - 2, window - 1, window, window + 1, 2 * window, 5 * window + 3] {
            let line = "x".repeat(length);
            check(format!("{line}\n{line}\nshort\n{line}").as_bytes());
            check(format!("short\n{line}\n{line}\n").as_bytes());
        }
        check("0123456789\n".repeat(30_000).as_bytes());
    }

    #[test]
    fn a_line_longer_than_any_record_is_damaged_and_not_held() {
        let long = RECORD_BYTES_READ_MAX as u64 + 10;
        let mut held_max = 0;
        let size = long + 4;
        let mut lines = Backwards::from(size, |buffer: &mut [u8], at| {
            held_max = held_max.max(buffer.len());
            for (place, byte) in buffer.iter_mut().enumerate() {
                let at = at + place as u64;
                *byte = if at == 1 || at == size - 2 || at == size - 1 { b'\n' } else { b'x' };
            }
            Ok(())
        });
        let mut found = Vec::new();
        while lines.step().unwrap() {
            found.push((lines.start(), lines.whole().map(<[u8]>::len), matches!(lines.line(), Line::Damaged)));
        }
        assert_eq!(found, [(size - 1, Some(0), false), (2, None, true), (0, Some(1), true)]);
        assert!(held_max <= RECORD_BYTES_READ_MAX);
    }

    #[test]
    fn a_byte_order_mark_and_a_carriage_return_are_no_part_of_a_record() {
        let bytes = "\u{feff}{\"name\":\"a.b\"}\r\n".as_bytes();
        let mut lines = Backwards::from(bytes.len() as u64, |buffer: &mut [u8], at| {
            let at = usize::try_from(at).unwrap();
            buffer.copy_from_slice(&bytes[at..at + buffer.len()]);
            Ok(())
        });
        assert!(lines.step().unwrap());
        assert_eq!((lines.text(), matches!(lines.line(), Line::Record(_))), (&b"{\"name\":\"a.b\"}"[..], true));
    }
}
