//! Moments: the text form of a point in time.
//!
//! Never asks for the time: a moment comes in as a value. The invariant: what [`text`] prints, [`is_moment`] accepts, and it
//! sorts as text in the order of time.

use jiff::civil::DateTime;
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

/// Tells whether a text is an RFC 3339 moment (RFC 3339 §5.6: a full date, `T`, a full time and an offset). The parser alone
/// takes more: other forms of ISO 8601, and names of time zones.
#[must_use]
pub fn is_moment(text: &str) -> bool {
    let Some((date_time, rest)) = text.split_at_checked("2026-11-30T10:34:18".len()) else { return false };
    let offset = match rest.strip_prefix('.') {
        Some(fraction) => fraction.trim_start_matches(|char: char| char.is_ascii_digit()),
        None => rest,
    };
    let fraction = rest.len() - offset.len();
    has_form(date_time, "0000-00-00T00:00:00")
        && date_time.parse::<DateTime>().is_ok()
        && fraction != 1
        && (has_form(offset, "Z") || (has_form(offset, "+00:00") && offset[1..3] < *"24" && offset[4..] < *"60"))
}

/// Reads an RFC 3339 moment; `None` for any other text, and for a moment outside of the calendar.
#[must_use]
pub fn read(text: &str) -> Option<Timestamp> {
    is_moment(text).then(|| text.parse().ok())?
}

/// Whether a text is like a form, where `0` stands for any digit and `+` for either sign; letters compare without case.
fn has_form(text: &str, form: &str) -> bool {
    text.len() == form.len()
        && text.bytes().zip(form.bytes()).all(|(byte, form)| match form {
            b'0' => byte.is_ascii_digit(),
            b'+' => matches!(byte, b'+' | b'-'),
            form => byte.eq_ignore_ascii_case(&form),
        })
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
    fn a_moment_is_read_if_it_is_one() {
        assert_eq!(read("2026-11-30T12:34:18.5+02:00"), "2026-11-30T10:34:18.5Z".parse().ok());
        assert_eq!(read("2026-11-30 10:34:18Z"), None);
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

    #[test]
    fn a_moment_is_one_to_every_reader_of_rfc_3339() {
        for good in [
            "2026-11-30t10:34:18z",
            "2026-11-30T10:34:18-00:00",
            "2026-11-30T10:34:18.123456789012+23:59",
            "0000-02-29T00:00:00+01:00",
            "9999-12-31T23:59:59.999999999Z",
            "2016-12-31T23:59:60Z",
        ] {
            assert!(is_moment(good), "{good}");
        }
        for bad in [
            "2026-11-30 10:34:18Z",
            "2026-11-30T10:34Z",
            "20261130T103418Z",
            "2026-11-30T10:34:18,5Z",
            "2026-11-30T10:34:18.Z",
            "2026-11-30T10:34:18+02",
            "2026-11-30T10:34:18+0200",
            "2026-11-30T10:34:18+24:00",
            "2026-11-30T10:34:18+01:60",
            "2026-11-30T10:34:18+01:00:00",
            "2026-11-30T10:34:18Z[UTC]",
            "2026-11-30T10:34:18+01:00[Europe/Paris]",
            "+002026-11-30T10:34:18Z",
            "2026-02-29T10:34:18Z",
            "2026-11-30T24:00:00Z",
            "2026-11-30T10:34:18Z ",
            "2026-11-30T10:34:1é",
            "2026-11-30T10:34:18é",
        ] {
            assert!(!is_moment(bad), "{bad}");
        }
    }
}
