//! Visits: what a browser's owner has seen of a home, kept by the browser.
//!
//! Pure: cookies and the moment come in as values. Knows nothing of who visits. The invariant: what a visit shows as new stays new
//! until the next visit begins, however often the page is looked at.

use jiff::Timestamp;

/// How often a visit is noted at most, in minutes.
const VISIT_MINUTES: i64 = 30;

/// What the browser keeps of the last visit: `<since>.<then>.<minute>`: what was seen before it began, what there was when it began,
/// and when that was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Visit {
    since: u64,
    then: u64,
    minute: i64,
}

impl Visit {
    /// Reads the cookie `seen` out of the `Cookie` headers.
    #[must_use]
    pub fn read<'c>(cookies: impl Iterator<Item = &'c [u8]>) -> Option<Visit> {
        let mut pairs = cookies.filter_map(|line| str::from_utf8(line).ok()).flat_map(|line| line.split(';'));
        let value = pairs.find_map(|pair| pair.trim().strip_prefix("seen="))?;
        let mut parts = value.split('.');
        let visit =
            Visit { since: parts.next()?.parse().ok()?, then: parts.next()?.parse().ok()?, minute: parts.next()?.parse().ok()? };
        parts.next().is_none().then_some(visit)
    }

    /// The visit that this request belongs to, and whether it is a new one: one begins when the last began half an hour ago.
    #[must_use]
    pub fn at(was: Option<Visit>, seq: u64, now: Timestamp) -> (Visit, bool) {
        let minute = now.as_second().div_euclid(60);
        match was {
            Some(was) if was.since > seq || was.then > seq => (Visit { since: seq, then: seq, minute }, true),
            Some(was) if (0..VISIT_MINUTES).contains(&(minute - was.minute)) => (was, false),
            Some(was) => (Visit { since: was.then, then: seq, minute }, true),
            None => (Visit { since: 0, then: seq, minute }, true),
        }
    }

    /// The number of the newest event seen before this visit; 0 for somebody's first.
    #[must_use]
    pub fn since(self) -> u64 {
        self.since
    }

    /// The value of `Set-Cookie`.
    #[must_use]
    pub fn cookie(self) -> String {
        let Visit { since, then, minute } = self;
        format!("seen={since}.{then}.{minute}; Path=/; Max-Age=31536000; HttpOnly; SameSite=Strict")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_visit_is_noted_at_most_every_half_hour() {
        let at = |minute: i64| Timestamp::from_second(minute * 60 + 7).unwrap();
        let (first, set) = Visit::at(None, 10, at(1000));
        assert_eq!((first.since(), set), (0, true));
        assert_eq!(first.cookie(), "seen=0.10.1000; Path=/; Max-Age=31536000; HttpOnly; SameSite=Strict");
        let again = Visit::read([&b"a=b; seen=0.10.1000"[..]].into_iter());
        assert_eq!(again, Some(first));
        assert_eq!(Visit::at(again, 12, at(1029)), (first, false), "a look again shows the same changes");
        let (second, set) = Visit::at(again, 12, at(1030));
        assert_eq!((second.since(), second.then, set), (10, 12, true));
        assert_eq!(
            Visit::at(Some(second), 3, at(1031)),
            (Visit { since: 3, then: 3, minute: 1031 }, true),
            "a log that is shorter now"
        );
        for odd in ["", "seen=", "seen=1.2", "seen=1.2.3.4", "seen=-1.2.3", "xseen=1.2.3", "seen=99999999999999999999.1.1"] {
            assert_eq!(Visit::read([odd.as_bytes()].into_iter()), None, "{odd}");
        }
    }
}
