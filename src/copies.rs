//! Copies: answers that say the same for as long as the log does, kept as they were sent.
//!
//! Knows neither what they are nor who asks: a copy has a name, and what it was made of. The invariant: what is given was made of the
//! very view that is asked for, and all copies together stay below a bound.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use axum::body::Bytes;

/// How many copies are kept.
pub const COPIES_MAX: usize = 32;

/// How much all copies may hold together, in bytes.
pub const COPIES_BYTES_MAX: usize = 4 << 20;

/// The copies that were made of one view.
pub(crate) struct Copies<V>(Mutex<Made<V>>);

struct Made<V> {
    /// Weak, so that a view which was replaced is let go, log and all.
    of: Weak<V>,
    copies: BTreeMap<String, Bytes>,
    bytes: usize,
}

impl<V> Default for Copies<V> {
    fn default() -> Copies<V> {
        Copies(Mutex::new(Made::of(Weak::new())))
    }
}

impl<V> Made<V> {
    fn of(of: Weak<V>) -> Made<V> {
        Made { of, copies: BTreeMap::new(), bytes: 0 }
    }
}

impl<V> Copies<V> {
    /// The copy of this name, if it was made of this view.
    pub(crate) fn kept(&self, view: &Arc<V>, name: &str) -> Option<Bytes> {
        let made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if std::ptr::eq(made.of.as_ptr(), Arc::as_ptr(view)) { made.copies.get(name).cloned() } else { None }
    }

    /// Keeps a copy; those of another view are let go, and all of them where there would be too many.
    pub(crate) fn keep(&self, view: &Arc<V>, name: String, copy: &Bytes) {
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_another = !std::ptr::eq(made.of.as_ptr(), Arc::as_ptr(view));
        if is_another || made.copies.len() >= COPIES_MAX || made.bytes + copy.len() > COPIES_BYTES_MAX {
            *made = Made::of(Arc::downgrade(view));
        }
        if copy.len() <= COPIES_BYTES_MAX {
            let replaced = made.copies.insert(name, copy.clone()).map_or(0, |replaced| replaced.len());
            made.bytes = made.bytes + copy.len() - replaced;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_given_for_the_view_it_was_made_of_alone() {
        let copies = Copies::default();
        let (one, same) = (Arc::new(1), Arc::new(1));
        copies.keep(&one, "/a".to_owned(), &Bytes::from_static(b"a"));
        assert_eq!(copies.kept(&one, "/a"), Some(Bytes::from_static(b"a")));
        assert_eq!((copies.kept(&one, "/b"), copies.kept(&same, "/a")), (None, None));
        copies.keep(&same, "/b".to_owned(), &Bytes::from_static(b"b"));
        assert_eq!((copies.kept(&one, "/a"), copies.kept(&same, "/b")), (None, Some(Bytes::from_static(b"b"))));
    }

    #[test]
    fn copies_together_stay_below_a_bound() {
        let copies = Copies::default();
        let view = Arc::new(());
        let held = |copies: &Copies<()>| {
            let made = copies.0.lock().unwrap();
            assert_eq!(made.bytes, made.copies.values().map(Bytes::len).sum::<usize>());
            (made.copies.len(), made.bytes)
        };
        for at in 0..100 {
            copies.keep(&view, format!("/{at}"), &Bytes::from(vec![0; COPIES_BYTES_MAX / 5]));
            assert!(held(&copies).0 <= 5, "by bytes");
        }
        for at in 0..100 {
            copies.keep(&view, format!("/{at}"), &Bytes::from_static(b"small"));
            assert!(held(&copies).0 <= COPIES_MAX, "by number");
        }
        copies.keep(&view, "/huge".to_owned(), &Bytes::from(vec![0; COPIES_BYTES_MAX + 1]));
        assert_eq!(held(&copies), (0, 0), "what is too large alone is not kept");
    }
}
