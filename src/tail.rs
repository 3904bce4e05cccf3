//! The tail of the log: where its last whole batch ends.
//!
//! Looks at the file from its end, so the cost is that of the last batch and not of the history. Never writes. The invariant:
//! what lies in front of [`Tail::whole`] is never part of an unfinished batch, and what lies behind it holds no whole batch.

use std::io;

use crate::backwards::Backwards;
use crate::record::{BOM, Frame, Line, Start};

/// The end of a log, classified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tail {
    /// Where facts end: from here on the bytes are torn, if there are any.
    pub whole: u64,
    /// Where the file ends.
    pub size: u64,
    /// Whether the byte in front of `whole` is no newline, so that the next append has to write one first.
    pub lacks_newline: bool,
}

impl Tail {
    /// How many bytes are torn.
    #[must_use]
    pub fn torn_bytes(&self) -> u64 {
        self.size - self.whole
    }

    /// Classifies the end of a file of this size; `read` fills a buffer from an offset.
    pub fn find(size: u64, read: impl FnMut(&mut [u8], u64) -> io::Result<()>) -> io::Result<Tail> {
        let mut lines = Backwards::from(size, read);
        let whole = whole_end(&mut lines, size)?;
        let lacks_newline = whole > 0 && lines.byte(whole - 1)? != b'\n';
        Ok(Tail { whole, size, lacks_newline })
    }
}

/// What the walk from the end sees of a line.
enum Seen {
    Blank,
    Damaged,
    /// A record; its place in its batch, and where it ends if junk follows it on its line.
    Record(Option<Place>, Option<u64>),
}

struct Place {
    batch: String,
    k: u64,
    n: u64,
}

fn whole_end<R: FnMut(&mut [u8], u64) -> io::Result<()>>(lines: &mut Backwards<R>, size: u64) -> io::Result<u64> {
    let mut torn_from = size;
    let last = loop {
        match back(lines)? {
            None => return Ok(torn_from),
            Some((_, Seen::Blank)) => {}
            Some((start, Seen::Damaged)) => torn_from = start,
            Some((start, Seen::Record(place, end))) => {
                torn_from = end.unwrap_or(torn_from);
                match place {
                    None => return Ok(torn_from),
                    Some(place) => break (start, place),
                }
            }
        }
    };
    Ok(unfinished_from(lines, last.0, &last.1)?.unwrap_or(torn_from))
}

/// Where the batch of the last record starts, if it is not all there.
fn unfinished_from<R: FnMut(&mut [u8], u64) -> io::Result<()>>(
    lines: &mut Backwards<R>,
    start: u64,
    last: &Place,
) -> io::Result<Option<u64>> {
    let (mut from, mut k, mut whole) = (start, last.k, last.k == last.n);
    loop {
        match back(lines)? {
            Some((_, Seen::Blank)) => {}
            Some((start, Seen::Damaged)) if k > 1 => (from, whole) = (start, false),
            Some((start, Seen::Record(Some(place), None))) if place.batch == last.batch => {
                if place.k >= k {
                    // Lines of the batch stand twice. If they are all there in front, the ones behind are events of their own.
                    return unfinished_from(lines, start, &place);
                }
                whole &= place.k == k - 1 && place.n == last.n;
                (from, k) = (start, place.k);
            }
            Some((_, Seen::Record(..) | Seen::Damaged)) | None => return Ok((!whole || k > 1).then_some(from)),
        }
    }
}

/// Moves to the line in front, and says where it starts and what it is.
fn back<R: FnMut(&mut [u8], u64) -> io::Result<()>>(lines: &mut Backwards<R>) -> io::Result<Option<(u64, Seen)>> {
    if !lines.step()? {
        return Ok(None);
    }
    let start = lines.start();
    Ok(Some((start, lines.whole().map_or(Seen::Damaged, |line| seen(line, start)))))
}

fn seen(line: &[u8], start: u64) -> Seen {
    let (line, start) = match line.strip_prefix(BOM) {
        Some(line) if start == 0 => (line, BOM.len() as u64),
        _ => (line, start),
    };
    let place = |id: &str| Frame::read(id).map(|frame| Place { batch: frame.batch.to_owned(), k: frame.k, n: frame.n });
    match Line::read(line) {
        Line::Blank => Seen::Blank,
        Line::Record(record) => Seen::Record(place(record.id()), None),
        Line::Damaged => match Start::of(line) {
            Start::Record(record, length) => Seen::Record(place(record.id()), Some(start + length as u64)),
            Start::Glued => Seen::Record(None, None),
            Start::Junk => Seen::Damaged,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BATCH: &str = "0123456789abcdef0123456789abcdef";

    fn find(log: &[u8]) -> Tail {
        Tail::find(log.len() as u64, |buffer, at| {
            let at = usize::try_from(at).unwrap();
            buffer.copy_from_slice(&log[at..at + buffer.len()]);
            Ok(())
        })
        .unwrap()
    }

    fn record(id: &str) -> String {
        format!("{{\"id\":\"{id}\",\"name\":\"a.b\"}}\n")
    }

    fn batch(n: u64) -> String {
        (1..=n).map(|k| record(&format!("{BATCH}.{k}-{n}"))).collect()
    }

    #[track_caller]
    fn check(parts: &[&str], whole_parts: usize) {
        let log = parts.concat();
        let whole = parts[..whole_parts].concat().len() as u64;
        let tail = find(log.as_bytes());
        assert_eq!((tail.whole, tail.size), (whole, log.len() as u64), "{log}");
    }

    #[test]
    fn a_whole_log_is_whole() {
        check(&[], 0);
        check(&[&record("x")], 1);
        check(&[&record("x"), &batch(3)], 2);
        check(&[&record("x"), "\n \n"], 2);
        check(&["damaged\n", &record("x")], 2);
    }

    #[test]
    fn part_of_the_last_batch_is_torn_from_the_batchs_start() {
        let lines: Vec<String> = (1..=3).map(|k| record(&format!("{BATCH}.{k}-3"))).collect();
        check(&[&record("x"), &lines[0], &lines[1]], 1);
        check(&[&record("x"), &lines[0], &lines[1], &lines[2][..20]], 1);
        check(&[&record("x"), &lines[0], "\0\0\0\n", &lines[2]], 1);
        check(&[&record("x"), "\0\0\0\n", &lines[2]], 1);
        check(&[&record("x"), "old damage\n", &lines[0], &lines[1]], 2);
        check(&[&lines[2]], 0);
        check(&[&lines[0], &lines[2]], 0);
    }

    #[test]
    fn a_hole_in_an_older_batch_is_not_the_tails_affair() {
        let cut = batch(3);
        let cut = &cut[..cut.len() / 2];
        check(&[cut, "\n", &record("x")], 3);
        check(&[cut, "\n", &record("x"), "junk"], 3);
    }

    #[test]
    fn a_line_of_the_last_batch_that_stands_twice_is_an_event_of_its_own() {
        let lines: Vec<String> = (1..=3).map(|k| record(&format!("{BATCH}.{k}-3"))).collect();
        for copy in &lines {
            check(&[&record("x"), &batch(3), copy], 3);
            check(&[&batch(3), copy, "junk"], 2);
            check(&[&batch(3), copy, copy], 3);
        }
        check(&[&record("x"), &lines[0], &lines[1], &lines[1]], 1);
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_record() {
        for log in [record("x"), batch(3)] {
            check(&["\u{feff}", &log], 2);
            check(&["\u{feff}", &log, "junk"], 2);
            check(&["\u{feff}", log.trim_end(), "\0\0"], 2);
        }
    }

    #[test]
    fn junk_behind_the_last_whole_record_is_torn() {
        for junk in ["\0\0\0\0", "x", "{\"id\":\"7\"", "x\n", "\n\nx\n\n", "{}\n"] {
            let log = [&record("x"), junk].concat();
            let tail = find(log.as_bytes());
            let blanks = junk.len() - junk.trim_start_matches('\n').len();
            assert_eq!(tail.whole, (record("x").len() + blanks) as u64, "{junk:?}");
        }
    }

    #[test]
    fn a_whole_record_without_its_newline_counts_whatever_follows() {
        let bare = record("x").trim_end().to_owned();
        for junk in ["", "\0\0", "{\"id\":\"7\"", "\u{fffd}"] {
            let tail = find([&batch(2), &bare, junk].concat().as_bytes());
            assert_eq!((tail.whole, tail.lacks_newline), ((batch(2).len() + bare.len()) as u64, true), "{junk:?}");
        }
        let glued = [bare.as_str(), &record("y")].concat();
        check(&[&glued], 1);
        check(&[&glued, "junk"], 1);
    }

    #[test]
    fn lines_longer_than_the_window_are_found() {
        let long = format!("{{\"id\":\"{BATCH}.2-2\",\"name\":\"a.b\",\"payload\":\"{}\"}}\n", "x".repeat(200_000));
        check(&[&record("x"), &record(&format!("{BATCH}.1-2")), &long], 3);
        check(&[&record("x"), &long], 1);
        check(&[&record("x"), &"\0".repeat(300_000)], 1);
    }
}
