//! Showing: `self log SEQ`, one event whole with what it means.
//!
//! Reads the event and no other; all of the log only where its rows are not known, or its events do not claim their places. Never
//! writes to the home but for the cache in `.self/index`. The invariant: of several events that claim the number, the first is told.

use std::io::Write;
use std::ops::ControlFlow;

use crate::browsing::{BrowseFault, Shape};
use crate::event::Event;
use crate::kernel::{Error, Kernel};
use crate::log::{Log, LogError};
use crate::record::Line;

impl Kernel {
    /// Shows one event whole, with what it means; or its stored line.
    pub fn tell(&self, seq: u64, shape: &Shape, out: &mut dyn Write) -> Result<Vec<String>, BrowseFault> {
        let view = self.look()?;
        let log = view.log.as_ref().ok_or_else(|| Error::NoHome(self.home.root().to_owned()))?;
        let Some((event, text)) = find(log, seq)? else { return Err(Error::NoEvent(seq).into()) };
        match shape {
            Shape::Stored { .. } => shape.write(&event, &text, out).map_err(BrowseFault::Out)?,
            Shape::Listed(manner) => {
                let receipt = view.receipt_in_words(log, &event)?;
                out.write_all(manner.sheet(&event, receipt.as_deref()).as_bytes()).map_err(BrowseFault::Out)?;
            }
        }
        Ok(view.words)
    }
}

/// The event of this number, the first if several claim it, and its stored line.
fn find(log: &Log, seq: u64) -> Result<Option<(Event<'static>, Vec<u8>)>, LogError> {
    if let Some(rows) = log.regular_rows() {
        let Some(at) = seq.checked_sub(1).filter(|at| *at < rows.count) else { return Ok(None) };
        match log.nth(rows, at) {
            Ok((event, row)) => return Ok(Some((event, log.in_front_of(row.end(), row.bytes.into())?))),
            Err(_) => drop(rows.wrong()),
        }
    }
    let (mut highest, mut found) = (0, None);
    log.onward(0, |met| {
        let Line::Record(record) = met.line else { return ControlFlow::Continue(()) };
        let own = record.seq.unwrap_or(highest + 1);
        highest = highest.max(own);
        if own != seq {
            return ControlFlow::Continue(());
        }
        found = Some((record.at(own).into_owned(), met.text.to_vec()));
        ControlFlow::Break(())
    })?;
    Ok(found)
}
