//! Rows: where each event of a log stands, 16 bytes an event, in file order.
//!
//! ```text
//! 0        6      8        12      16     little-endian
//! | offset | name | length | before |
//! ```
//!
//! `before` is the row of the event before it with the same name, counted from 1; 0 where there is none. What lies behind the
//! rows that are counted is garbage. Never trusted: whoever feeds a record looks whether it stands there. The invariant: what is
//! chosen comes in file order, and no row of a name is left out without an error.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::names::{NAMES_MAX, NameId, Names, REST};

/// How long a row is, in bytes.
pub const ROW_BYTES: usize = 16;

/// How much is read at a time where all rows are looked through, in bytes.
const PAGE_BYTES: usize = 64 << 10;

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
    /// Whether each event's number is its row and 1.
    pub(crate) is_regular: bool,
    /// What is removed when they turn out wrong, so that they are made anew.
    pub(crate) slots: PathBuf,
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

    /// The rows do not fit the log: the index is thrown away, and the next command makes it anew.
    pub(crate) fn wrong(&self) -> io::Error {
        let _ = std::fs::remove_file(&self.slots);
        io::Error::new(io::ErrorKind::InvalidData, "its index does not fit it; the next command makes it anew, try again")
    }

    /// The newest rows of an entry, oldest first.
    pub fn newest(&self, id: NameId, most: u64) -> io::Result<Vec<Row>> {
        let named = self.names.entry(id);
        let wanted = named.count.min(most);
        let mut rows = Vec::with_capacity(usize::try_from(wanted.min(PAGE_BYTES as u64)).unwrap_or_default());
        let (mut at, mut end) = (named.head, u64::MAX);
        for left in (0..named.count).rev().take(usize::try_from(wanted).unwrap_or(usize::MAX)) {
            let row = self.row(at)?;
            let goes_on = match row.before {
                Some(before) => before < at && left > 0,
                None => left == 0,
            };
            if row.name != id || row.bytes == 0 || row.end() > end || !goes_on {
                return Err(self.wrong());
            }
            rows.push(row);
            (at, end) = (row.before.unwrap_or_default(), row.offset);
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
        let mut quotas = vec![None; NAMES_MAX + 1];
        for id in ids {
            let count = self.names.entry(*id).count;
            quotas[usize::from(*id)] = Some((count.saturating_sub(most), count));
        }
        Ok(Chosen::Sought(Box::new(Sought { rows: self.clone(), next: 0, page: Vec::new(), at: 0, quotas, end: 0 })))
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

/// All rows, looked through page by page.
#[derive(Debug)]
pub struct Sought {
    rows: Rows,
    next: u64,
    page: Vec<u8>,
    at: usize,
    /// For each entry that is wanted, how many rows are still to be passed over, and how many there still are.
    quotas: Vec<Option<(u64, u64)>>,
    /// Where the last record ended.
    end: u64,
}

impl Sought {
    fn next_row(&mut self) -> io::Result<Option<Row>> {
        loop {
            if self.at == self.page.len() {
                let left = (self.rows.count - self.next).min((PAGE_BYTES / ROW_BYTES) as u64);
                if left == 0 {
                    let is_short = self.quotas.iter().flatten().any(|(_, left)| *left > 0);
                    return if is_short { Err(self.rows.wrong()) } else { Ok(None) };
                }
                self.page.resize(usize::try_from(left).unwrap_or_default() * ROW_BYTES, 0);
                self.rows.file.read_exact_at(&mut self.page, self.next * ROW_BYTES as u64)?;
                (self.next, self.at) = (self.next + left, 0);
            }
            let mut bytes = [0; ROW_BYTES];
            bytes.copy_from_slice(&self.page[self.at..self.at + ROW_BYTES]);
            self.at += ROW_BYTES;
            let row = Row::decode(bytes);
            let Some(Some((skip, left))) = self.quotas.get_mut(usize::from(row.name)) else { continue };
            if *left == 0 || row.bytes == 0 || row.offset < self.end {
                return Err(self.rows.wrong());
            }
            *left -= 1;
            self.end = row.end();
            if *skip == 0 {
                return Ok(Some(row));
            }
            *skip -= 1;
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
        (folder, Rows { file, count: names.len() as u64, names: all.into(), is_regular: true, slots })
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
