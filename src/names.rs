//! Names: the event names of a log, how many events bear each, and where the newest of them stands.
//!
//! Rows are events counted from 0, in file order. The first [`NAMES_MAX`] names have an entry each, all others share one: whoever wants
//! one of those looks at the records. The invariant: the rows of an entry are its count, each linked to the one before it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How many names have an entry of their own.
pub const NAMES_MAX: usize = 4096;

/// The number of a name's entry.
pub type NameId = u16;

/// The entry that all other names share.
#[allow(clippy::cast_possible_truncation, reason = "4096 fits")]
pub const REST: NameId = NAMES_MAX as NameId;

/// What is known of a name's events.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// The name; empty for the shared entry.
    pub name: String,
    /// How many events there are.
    pub count: u64,
    /// The row of the newest one.
    pub head: u64,
    /// The number of the newest one.
    pub newest: u64,
}

/// The names of a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    own: Vec<Named>,
    rest: Named,
    ids: BTreeMap<String, NameId>,
}

impl Names {
    /// Puts names together from their entries, the shared one last.
    #[must_use]
    pub fn from(own: Vec<Named>, rest: Named) -> Names {
        let ids = own.iter().zip(0..).map(|(named, id)| (named.name.clone(), id)).collect();
        Names { own, rest, ids }
    }

    /// The entries, in the order of their numbers, and the shared one.
    #[must_use]
    pub fn entries(&self) -> (&[Named], &Named) {
        (&self.own, &self.rest)
    }

    /// Takes the next event: its row and its number. Gives its entry and the row before it there.
    pub fn take(&mut self, name: &str, row: u64, seq: u64) -> (NameId, Option<u64>) {
        let id = self.ids.get(name).copied().unwrap_or_else(|| self.enter(name));
        let named = self.own.get_mut(usize::from(id)).unwrap_or(&mut self.rest);
        let before = (named.count > 0).then_some(named.head);
        named.count += 1;
        (named.head, named.newest) = (row, seq);
        (id, before)
    }

    fn enter(&mut self, name: &str) -> NameId {
        match NameId::try_from(self.own.len()) {
            Ok(id) if id < REST => {
                self.ids.insert(name.to_owned(), id);
                self.own.push(Named { name: name.to_owned(), ..Named::default() });
                id
            }
            _ => REST,
        }
    }

    /// The names that have an entry, in order.
    pub fn in_order(&self) -> impl Iterator<Item = &str> {
        self.ids.keys().map(String::as_str)
    }

    /// The number of a name's entry.
    #[must_use]
    pub fn id(&self, name: &str) -> NameId {
        self.ids.get(name).copied().unwrap_or(REST)
    }

    /// An entry by its number.
    #[must_use]
    pub fn entry(&self, id: NameId) -> &Named {
        self.own.get(usize::from(id)).unwrap_or(&self.rest)
    }

    /// The number of the newest event of a name, 0 if there is none; of a name without an entry, that of the newest such event.
    #[must_use]
    pub fn newest(&self, name: &str) -> u64 {
        self.entry(self.id(name)).newest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_events_of_a_name_are_linked() {
        let mut names = Names::default();
        let took: Vec<_> =
            ["a.b", "c.d", "a.b", "a.b"].iter().zip(0..).map(|(name, row)| names.take(name, row, row + 7)).collect();
        assert_eq!(took, [(0, None), (1, None), (0, Some(0)), (0, Some(2))]);
        assert_eq!((names.newest("a.b"), names.newest("c.d"), names.newest("e.f"), names.entry(0).count), (10, 8, 0, 3));
        let (own, rest) = names.entries();
        assert_eq!(Names::from(own.to_vec(), rest.clone()), names);
    }

    #[test]
    fn names_beyond_the_limit_share_one_entry() {
        let mut names = Names::default();
        for row in 0..NAMES_MAX as u64 + 2 {
            names.take(&format!("n.n{row}"), row, row + 1);
        }
        let last = NAMES_MAX as u64;
        assert_eq!(names.take("n.n4097", last + 2, last + 3), (REST, Some(last + 1)));
        assert_eq!((names.newest("n.n4096"), names.newest("n.n4095"), names.newest("x.y")), (last + 3, last, last + 3));
        assert_eq!((names.entries().0.len(), names.entry(REST).count), (NAMES_MAX, 3));
    }
}
