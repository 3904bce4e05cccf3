//! Pace: what takes long says how far it is, now and then.
//!
//! Clock and voice come in as values. The invariant: what is done within [`PROGRESS_EVERY`] says nothing.

use std::time::Duration;

use jiff::Timestamp;

/// How long something takes before it tells how far it is, and how often it tells.
pub const PROGRESS_EVERY: Duration = Duration::from_secs(2);

/// Says how far something is, now and then.
#[derive(Clone)]
pub struct Pace<'p> {
    now: fn() -> Timestamp,
    last: Timestamp,
    every: Duration,
    say: &'p dyn Fn(&str),
}

impl<'p> Pace<'p> {
    /// Starts the clock.
    #[must_use]
    pub fn from(now: fn() -> Timestamp, say: &'p dyn Fn(&str)) -> Pace<'p> {
        Pace::every(PROGRESS_EVERY, now, say)
    }

    /// Starts a clock that says a line so often.
    #[must_use]
    pub fn every(every: Duration, now: fn() -> Timestamp, say: &'p dyn Fn(&str)) -> Pace<'p> {
        Pace { now, last: now(), every, say }
    }

    /// Says this line, if it is time to say one.
    pub fn tell(&mut self, line: impl FnOnce() -> String) {
        let now = (self.now)();
        if now.duration_since(self.last).unsigned_abs() >= self.every {
            self.last = now;
            (self.say)(&line());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    thread_local!(static SECOND: Cell<i64> = const { Cell::new(0) });

    #[test]
    fn it_says_a_line_every_two_seconds_at_most() {
        let said = RefCell::new(Vec::new());
        let say = |line: &str| said.borrow_mut().push(line.to_owned());
        let mut pace = Pace::from(|| Timestamp::from_second(SECOND.get()).unwrap(), &say);
        for second in [0, 1, 2, 3, 3, 4, 9] {
            SECOND.set(second);
            pace.tell(|| second.to_string());
        }
        assert_eq!(*said.borrow(), ["2", "4", "9"]);
    }
}
