//! Rows: where each event of a log stands, 16 bytes an event, in file order.
//!
//! ```text
//! 0        6      8        12      16     little-endian
//! | offset | name | length | before |
//! ```
//!
//! `before` is the row of the event before it with the same name, counted from 1; 0 where there is none. What lies behind the
//! rows that are counted is garbage. Never trusted: whoever reads a record looks whether it stands there, and each row is held
//! against the one that leads to it. The invariant: what is chosen comes in file order, or newest first, and no row of a name is
//! left out without an error, which comes before any row behind the one that was lost.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::names::{NAMES_MAX, NameId, Names, REST};
use crate::state::Counts;

/// How long a row is, in bytes.
pub const ROW_BYTES: usize = 16;

/// How much is read at a time where all rows are looked through, in bytes.
const PAGE_BYTES: usize = 64 << 10;

/// How many rows are read at a time.
const PAGE_ROWS: u64 = (PAGE_BYTES / ROW_BYTES) as u64;

/// Names that bear less than one event in so many are followed from row to row; for others all rows are looked through.
const RARE: u64 = 64;

/// Where an event stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Where its record starts, in bytes.
    pub offset: u64,
    /// The entry of its name.
    pub name: NameId,
    /// How long its record is, in bytes.
    pub bytes: u32,
    /// The row before it with the same name.
    pub before: Option<u64>,
}

impl Row {
    /// The row's bytes; `None` for a place that they cannot hold.
    #[must_use]
    pub fn encode(self) -> Option<[u8; ROW_BYTES]> {
        let before = u32::try_from(self.before.map_or(0, |before| before + 1)).ok()?;
        let at = (self.offset < 1 << 48).then_some(self.offset | u64::from(self.name) << 48)?;
        let mut bytes = [0; ROW_BYTES];
        bytes[..8].copy_from_slice(&at.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[12..].copy_from_slice(&before.to_le_bytes());
        Some(bytes)
    }

    /// Reads a row's bytes.
    #[must_use]
    pub fn decode(bytes: [u8; ROW_BYTES]) -> Row {
        let all = u128::from_le_bytes(bytes);
        #[allow(clippy::cast_possible_truncation, reason = "each is cut out of its own bits")]
        let (at, length, before) = (all as u64, (all >> 64) as u32, (all >> 96) as u32);
        #[allow(clippy::cast_possible_truncation, reason = "16 bits are left")]
        let name = (at >> 48) as NameId;
        Row { offset: at & ((1 << 48) - 1), name, bytes: length, before: u64::from(before).checked_sub(1) }
    }

    /// Where its record ends, in bytes.
    #[must_use]
    pub fn end(self) -> u64 {
        self.offset + u64::from(self.bytes)
    }
}

/// The rows of a log, as a file.
#[derive(Debug, Clone)]
pub struct Rows {
    pub(crate) file: Arc<File>,
    pub(crate) count: u64,
    pub(crate) names: Arc<Names>,
    /// Between which of them the events of a day, a door and a speaker stand.
    pub(crate) counts: Arc<Counts>,
    /// Whether each event's number is its row and 1.
    pub(crate) is_regular: bool,
    /// What is removed when they turn out wrong, so that they are made anew.
    pub(crate) slots: PathBuf,
    /// Whether they turned out wrong.
    pub(crate) wrong: Arc<AtomicBool>,
}

impl Rows {
    /// One row.
    pub fn row(&self, at: u64) -> io::Result<Row> {
        let mut bytes = [0; ROW_BYTES];
        if at >= self.count {
            return Err(self.wrong());
        }
        self.file.read_exact_at(&mut bytes, at * ROW_BYTES as u64)?;
        Ok(Row::decode(bytes))
    }

    /// The rows do not fit the log: the index is thrown away, so that it is made anew, and nobody uses them any more.
    pub(crate) fn wrong(&self) -> io::Error {
        if !self.wrong.swap(true, Ordering::Relaxed) {
            let _ = std::fs::remove_file(&self.slots);
        }
        io::Error::new(io::ErrorKind::InvalidData, "its index does not fit it")
    }

    /// Whether they turned out wrong.
    pub(crate) fn are_wrong(&self) -> bool {
        self.wrong.load(Ordering::Relaxed)
    }

    /// The rows from one to another, as bytes.
    fn read(&self, page: &mut Vec<u8>, rows: Range<u64>) -> io::Result<()> {
        if rows.end > self.count {
            return Err(self.wrong());
        }
        page.resize(usize::try_from(rows.end - rows.start).unwrap_or_default() * ROW_BYTES, 0);
        self.file.read_exact_at(page, rows.start * ROW_BYTES as u64)
    }

    /// The newest rows of an entry, oldest first.
    pub fn newest(&self, id: NameId, most: u64) -> io::Result<Vec<Row>> {
        let mut back = self.back(&[id], 0..self.count)?;
        let mut rows = Vec::new();
        while rows.len() as u64 != most
            && let Some((_, row)) = back.next_row()?
        {
            rows.push(row);
        }
        rows.reverse();
        Ok(rows)
    }

    /// Chooses the rows of these entries, of each only the newest so many.
    pub fn choose(&self, ids: &[NameId], most: Option<u64>) -> io::Result<Chosen> {
        let most = most.unwrap_or(u64::MAX);
        let wanted: u64 = ids.iter().map(|id| self.names.entry(*id).count.min(most)).sum();
        if wanted.saturating_mul(RARE) <= self.count {
            let mut rows = Vec::new();
            for id in ids {
                rows.extend(self.newest(*id, most)?);
            }
            rows.sort_unstable_by_key(|row| row.offset);
            return Ok(Chosen::Listed(rows.into_iter()));
        }
        let skip = |id: NameId| self.names.entry(id).count.saturating_sub(most);
        self.sought(&self.ends(ids, self.count)?, 0..self.count, skip)
    }

    /// Chooses the rows of these entries between two rows.
    pub fn between(&self, ids: &[NameId], rows: Range<u64>) -> io::Result<Chosen> {
        let wanted: u64 = ids.iter().map(|id| self.names.entry(*id).count).sum();
        if wanted.saturating_mul(RARE) <= self.count {
            let mut back = self.back(ids, rows)?;
            let mut listed = Vec::new();
            while let Some((_, row)) = back.next_row()? {
                listed.push(row);
            }
            listed.reverse();
            return Ok(Chosen::Listed(listed.into_iter()));
        }
        self.sought(&self.ends(ids, rows.end)?, rows, |_| 0)
    }

    /// The rows of these entries between two rows, newest first.
    pub fn back(&self, ids: &[NameId], rows: Range<u64>) -> io::Result<Back> {
        let mut ends = vec![None; NAMES_MAX + 1];
        for (id, end) in self.ends(ids, rows.end)? {
            ends[usize::from(id)] = Some(end);
        }
        Ok(Back { rows: self.clone(), from: rows.start, at: rows.end, ends, end: u64::MAX, page: Vec::new(), met: Vec::new() })
    }

    /// All rows between two, looked through once before any is given.
    fn sought(&self, ends: &[(NameId, End)], within: Range<u64>, skip: impl Fn(NameId) -> u64) -> io::Result<Chosen> {
        let mut strands = vec![None; NAMES_MAX + 1];
        for (id, end) in ends {
            let newest = end.row.filter(|row| *row >= within.start);
            strands[usize::from(*id)] = Some(Strand { skip: skip(*id), last: None, newest });
        }
        let page = Vec::new();
        let sought =
            Sought { rows: self.clone(), next: within.start, from: within.start, to: within.end, page, at: 0, strands, end: 0 };
        let mut first = sought.clone();
        while first.next_row()?.is_some() {}
        Ok(Chosen::Sought(Box::new(sought)))
    }

    /// The newest row of each of these entries in front of a row.
    fn ends(&self, ids: &[NameId], to: u64) -> io::Result<Vec<(NameId, End)>> {
        let (mut ends, mut common) = (Vec::with_capacity(ids.len()), vec![false; NAMES_MAX + 1]);
        let mut left = 0;
        for id in ids {
            let named = self.names.entry(*id);
            if named.count == 0 {
                continue;
            }
            if named.head < to {
                ends.push((*id, End { row: Some(named.head), left: Some(named.count) }));
            } else if named.count.saturating_mul(PAGE_ROWS) < self.count {
                let (mut back, mut end) = (self.back(&[*id], 0..self.count)?, End { row: None, left: Some(0) });
                let mut left = named.count;
                while let Some((at, _)) = back.next_row()? {
                    if at < to {
                        end = End { row: Some(at), left: Some(left) };
                        break;
                    }
                    left -= 1;
                }
                ends.push((*id, end));
            } else {
                common[usize::from(*id)] = true;
                left += 1;
            }
        }
        let (mut page, mut first) = (Vec::new(), to);
        while left > 0 {
            let next = (first + PAGE_ROWS).min(self.count);
            if next == first {
                return Err(self.wrong());
            }
            self.read(&mut page, first..next)?;
            for row in page.as_chunks().0.iter().map(|bytes| Row::decode(*bytes)) {
                if let Some(is_sought) = common.get_mut(usize::from(row.name)).filter(|is_sought| **is_sought) {
                    if row.before.is_some_and(|before| before >= to) {
                        return Err(self.wrong());
                    }
                    ends.push((row.name, End { row: row.before, left: None }));
                    *is_sought = false;
                    left -= 1;
                }
            }
            first = next;
        }
        Ok(ends)
    }

    /// The entries of the names that are picked; the shared one too, if there is anything in it.
    #[must_use]
    pub fn ids(&self, pick: impl Fn(&str) -> bool) -> Vec<NameId> {
        let (own, rest) = self.names.entries();
        let picked = own.iter().zip(0..).filter(|(named, _)| pick(&named.name)).map(|(_, id)| id);
        picked.chain((rest.count > 0).then_some(REST)).collect()
    }
}

/// Rows that were chosen, in file order.
#[derive(Debug)]
pub enum Chosen {
    /// One by one.
    Listed(std::vec::IntoIter<Row>),
    /// Out of all.
    Sought(Box<Sought>),
}

impl Chosen {
    /// The next one.
    pub fn next_row(&mut self) -> io::Result<Option<Row>> {
        match self {
            Chosen::Listed(rows) => Ok(rows.next()),
            Chosen::Sought(sought) => sought.next_row(),
        }
    }
}

/// Where the rows of an entry end.
#[derive(Debug, Clone, Copy)]
struct End {
    /// The newest row.
    row: Option<u64>,
    /// How many there are from it back, where that is known.
    left: Option<u64>,
}

/// The rows of entries, newest first: each leads to the one before it.
#[derive(Debug)]
pub struct Back {
    rows: Rows,
    /// Rows in front of this one are left out.
    from: u64,
    /// What stands behind was looked through.
    at: u64,
    /// For each entry that is wanted, which row is due.
    ends: Vec<Option<End>>,
    /// Where the record behind starts.
    end: u64,
    page: Vec<u8>,
    /// What was found and not yet given, the newest last.
    met: Vec<(u64, Row)>,
}

impl Back {
    /// The next one, and which it is, counted from 0.
    pub fn next_row(&mut self) -> io::Result<Option<(u64, Row)>> {
        while self.met.is_empty() {
            let due = self.ends.iter().flatten().filter_map(|end| end.row).max();
            let Some(newest) = due.filter(|row| *row >= self.from) else { return Ok(None) };
            if newest >= self.at {
                return Err(self.rows.wrong());
            }
            self.look_through((newest + 1).saturating_sub(PAGE_ROWS).max(self.from)..newest + 1)?;
        }
        Ok(self.met.pop())
    }

    /// Finds the rows of a page, all of them before any is given.
    fn look_through(&mut self, page: Range<u64>) -> io::Result<()> {
        self.rows.read(&mut self.page, page.clone())?;
        for (bytes, at) in self.page.as_chunks().0.iter().rev().zip((page.start..page.end).rev()) {
            let row = Row::decode(*bytes);
            let Some(Some(due)) = self.ends.get_mut(usize::from(row.name)) else { continue };
            let goes_on = match row.before {
                Some(before) => before < at && due.left != Some(1),
                None => due.left.is_none_or(|left| left == 1),
            };
            if due.row != Some(at) || row.bytes == 0 || row.end() > self.end || !goes_on {
                return Err(self.rows.wrong());
            }
            *due = End { row: row.before, left: due.left.map(|left| left - 1) };
            self.end = row.offset;
            self.met.push((at, row));
        }
        if self.ends.iter().flatten().any(|end| end.row.is_some_and(|row| row >= page.start)) {
            return Err(self.rows.wrong());
        }
        self.at = page.start;
        self.met.reverse();
        Ok(())
    }
}

/// Rows between two, looked through page by page.
#[derive(Debug, Clone)]
pub struct Sought {
    rows: Rows,
    next: u64,
    from: u64,
    to: u64,
    page: Vec<u8>,
    at: usize,
    /// For each entry that is wanted, how far it was followed.
    strands: Vec<Option<Strand>>,
    /// Where the last record ended.
    end: u64,
}

/// How far the rows of an entry were followed.
#[derive(Debug, Clone, Copy)]
struct Strand {
    /// How many are still to be passed over.
    skip: u64,
    last: Option<u64>,
    /// The last one that there is.
    newest: Option<u64>,
}

impl Sought {
    fn next_row(&mut self) -> io::Result<Option<Row>> {
        loop {
            if self.at == self.page.len() {
                let next = (self.next + PAGE_ROWS).min(self.to);
                if next <= self.next {
                    let is_short = self.strands.iter().flatten().any(|strand| strand.last != strand.newest);
                    return if is_short { Err(self.rows.wrong()) } else { Ok(None) };
                }
                self.rows.read(&mut self.page, self.next..next)?;
                (self.next, self.at) = (next, 0);
            }
            let mut bytes = [0; ROW_BYTES];
            bytes.copy_from_slice(&self.page[self.at..self.at + ROW_BYTES]);
            let number = self.next - ((self.page.len() - self.at) / ROW_BYTES) as u64;
            self.at += ROW_BYTES;
            let row = Row::decode(bytes);
            let Some(Some(strand)) = self.strands.get_mut(usize::from(row.name)) else { continue };
            let is_linked = match strand.last {
                Some(last) => row.before == Some(last),
                None => row.before.is_none_or(|before| before < self.from),
            };
            if !is_linked || row.bytes == 0 || row.offset < self.end {
                return Err(self.rows.wrong());
            }
            strand.last = Some(number);
            self.end = row.end();
            if strand.skip == 0 {
                return Ok(Some(row));
            }
            strand.skip -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_as_drawn() {
        let row = Row { offset: 0x0102_0304_0506, name: 0x0a0b, bytes: 0x1112_1314, before: Some(0x2122_2323) };
        let bytes = [6, 5, 4, 3, 2, 1, 0x0b, 0x0a, 0x14, 0x13, 0x12, 0x11, 0x24, 0x23, 0x22, 0x21];
        assert_eq!((row.encode(), Row::decode(bytes)), (Some(bytes), row));
        let first = Row { before: None, ..row };
        assert_eq!(first.encode().map(Row::decode), Some(first));
        assert_eq!((Row { offset: 1 << 48, ..row }.encode(), Row { before: Some(1 << 32), ..row }.encode()), (None, None));
    }

    /// A file of rows for events of these names, ten bytes each.
    fn rows(names: &[&str]) -> (tempfile::TempDir, Rows) {
        let folder = tempfile::tempdir().unwrap();
        let mut all = Names::default();
        let mut bytes = Vec::new();
        for (name, row) in names.iter().zip(0..) {
            let (id, before) = all.take(name, row, row + 1);
            bytes.extend(Row { offset: row * 10, name: id, bytes: 9, before }.encode().unwrap());
        }
        std::fs::write(folder.path().join("rows"), &bytes).unwrap();
        let file = File::options().read(true).write(true).open(folder.path().join("rows")).unwrap().into();
        let slots = folder.path().join("slots");
        (
            folder,
            Rows {
                file,
                count: names.len() as u64,
                names: all.into(),
                counts: Arc::default(),
                is_regular: true,
                slots,
                wrong: Arc::default(),
            },
        )
    }

    #[track_caller]
    fn check(rows: &Rows, ids: &[NameId], most: Option<u64>, expect: &[u64]) {
        let mut chosen = rows.choose(ids, most).unwrap();
        let mut found = Vec::new();
        while let Some(row) = chosen.next_row().unwrap() {
            found.push(row.offset / 10);
        }
        assert_eq!(found, expect);
    }

    #[test]
    fn what_is_chosen_comes_in_file_order_however_it_is_found() {
        let (_folder, few) = rows(&["a", "b", "a", "c", "a", "b"]);
        check(&few, &[0], None, &[0, 2, 4]);
        check(&few, &[1, 0], Some(2), &[1, 2, 4, 5]);
        check(&few, &[2], Some(9), &[3]);
        check(&few, &[], None, &[]);
        let mut names = vec!["x"; 10_000];
        for at in [17, 5_000, 9_998] {
            names[at] = "rare";
        }
        let (_folder, many) = rows(&names);
        let rare = many.names.id("rare");
        check(&many, &[rare], None, &[17, 5_000, 9_998]);
        check(&many, &[rare], Some(2), &[5_000, 9_998]);
        check(&many, &[0, rare], Some(1), &[9_998, 9_999]);
    }

    #[test]
    fn the_rows_between_two_are_the_same_from_either_end() {
        let name = |at| if [17, 5_000, 8_998].contains(&at) { "rare" } else { ["x", "often"][usize::from(at % 7 == 0)] };
        let names: Vec<_> = (0..9_000).map(name).collect();
        let (_folder, many) = rows(&names);
        for wanted in [&["rare"][..], &["often"], &["rare", "often"], &["x", "rare"], &[]] {
            let ids: Vec<_> = wanted.iter().map(|name| many.names.id(name)).collect();
            for (from, to) in [(0, 9_000), (18, 5_000), (17, 5_001), (4_000, 8_998), (5_001, 8_000), (9_000, 9_000)] {
                let expect: Vec<u64> = (from..to).filter(|at| wanted.contains(&name(*at))).collect();
                let (mut onward, mut back) = (many.between(&ids, from..to).unwrap(), many.back(&ids, from..to).unwrap());
                let ahead: Vec<_> = std::iter::from_fn(|| onward.next_row().unwrap().map(|row| row.offset / 10)).collect();
                let mut behind: Vec<_> = std::iter::from_fn(|| back.next_row().unwrap().map(|(at, _)| at)).collect();
                behind.reverse();
                assert_eq!((&ahead, &behind), (&expect, &expect), "{wanted:?}, {from}..{to}");
            }
        }
    }

    #[test]
    fn a_row_that_was_lost_is_an_error_and_throws_the_index_away() {
        for sought in [false, true] {
            for at in [17_u64, 9_998] {
                let mut names = vec!["x"; 10_000];
                for rare in [17, 5_000, 9_998] {
                    names[rare] = "rare";
                }
                let (_folder, many) = rows(&names);
                std::fs::write(&many.slots, "x").unwrap();
                many.file.write_all_at(&[0; ROW_BYTES], at * ROW_BYTES as u64).unwrap();
                let ids = if sought { vec![0, many.names.id("rare")] } else { vec![many.names.id("rare")] };
                let all = many.choose(&ids, None).and_then(|mut chosen| {
                    while chosen.next_row()?.is_some() {}
                    Ok(())
                });
                assert_eq!((all.unwrap_err().kind(), many.slots.exists()), (io::ErrorKind::InvalidData, false));
            }
        }
    }
}
