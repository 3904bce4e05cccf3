//! Copies: answers that say the same for as long as the log does, kept as they were sent.
//!
//! Knows neither what they are nor who asks: a copy has a name, and the view that it was made of. The invariant: what is given was made
//! of the very view that is asked for, and all copies together stay below a bound.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use axum::body::Bytes;

use crate::kernel::View;

/// How many copies are kept.
pub const COPIES_MAX: usize = 32;

/// How much all copies may hold together, in bytes.
pub const COPIES_BYTES_MAX: usize = 4 << 20;

/// The copies that were made of one view.
#[derive(Default)]
pub(crate) struct Copies(Mutex<Made>);

#[derive(Default)]
struct Made {
    /// Weak, so that a view which was replaced is let go, log and all.
    of: Weak<View>,
    copies: BTreeMap<String, Bytes>,
    bytes: usize,
}

impl Copies {
    /// The copy of this name, if it was made of this view.
    pub(crate) fn kept(&self, view: &Arc<View>, name: &str) -> Option<Bytes> {
        let made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if std::ptr::eq(made.of.as_ptr(), Arc::as_ptr(view)) { made.copies.get(name).cloned() } else { None }
    }

    /// Keeps a copy; those of another view are let go, and all of them where there would be too many.
    pub(crate) fn keep(&self, view: &Arc<View>, name: String, copy: &Bytes) {
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_another = !std::ptr::eq(made.of.as_ptr(), Arc::as_ptr(view));
        if is_another || made.copies.len() >= COPIES_MAX || made.bytes + copy.len() > COPIES_BYTES_MAX {
            *made = Made { of: Arc::downgrade(view), ..Made::default() };
        }
        if copy.len() <= COPIES_BYTES_MAX && made.copies.insert(name, copy.clone()).is_none() {
            made.bytes += copy.len();
        }
    }
}
