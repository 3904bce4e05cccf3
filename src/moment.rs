//! Moments: the text form of a point in time.
//!
//! Never asks for the time: a moment comes in as a value. The invariant: what [`text`] prints, [`is_moment`] accepts, and it
//! sorts as text in the order of time.

use jiff::{SignedDuration, Timestamp};

/// Prints a moment as RFC 3339 in UTC with nine digits of a second, the form of every event that is born here.
#[must_use]
pub fn text(moment: Timestamp) -> String {
    format!("{moment:.9}")
}

/// The moment this many nanoseconds later.
#[must_use]
pub fn after(moment: Timestamp, nanoseconds: usize) -> Timestamp {
    let later = SignedDuration::from_nanos(i64::try_from(nanoseconds).unwrap_or(i64::MAX));
    moment.checked_add(later).unwrap_or(moment)
}

/// Tells whether a text is an RFC 3339 moment (RFC 3339 §5.6: a full date, a full time and an offset).
#[must_use]
pub fn is_moment(text: &str) -> bool {
    text.parse::<Timestamp>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_moments_have_nanoseconds_and_a_z() {
        let moment = Timestamp::new(1_796_034_858, 5).unwrap();
        assert_eq!(text(moment), "2026-11-30T10:34:18.000000005Z");
        assert_eq!(text(Timestamp::UNIX_EPOCH), "1970-01-01T00:00:00.000000000Z");
    }

    #[test]
    fn moments_of_a_batch_lie_a_nanosecond_apart() {
        let moment = Timestamp::new(1_796_034_858, 999_999_999).unwrap();
        assert_eq!(text(after(moment, 0)), "2026-11-30T10:34:18.999999999Z");
        assert_eq!(text(after(moment, 2)), "2026-11-30T10:34:19.000000001Z");
        assert_eq!(after(Timestamp::MAX, 1), Timestamp::MAX);
    }

    #[test]
    fn a_moment_without_date_or_offset_is_none() {
        for good in ["2026-11-30T10:34:18Z", "2026-11-30T10:34:18.5+02:00"] {
            assert!(is_moment(good), "{good}");
        }
        for bad in ["", "10:34", "2026-11-30", "2026-11-30T10:34:18", "yesterday"] {
            assert!(!is_moment(bad), "{bad}");
        }
    }
}
