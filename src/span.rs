//! Spans: which bytes of the log a request asks for, as an HTTP range (RFC 9110 §14) says it.
//!
//! Pure. The invariant: a span lies within the length it was cut from.

use std::ops::Range;

/// What a `Range` header comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Span {
    /// All of it: no range was asked for, or one of a form that may be passed over.
    Whole,
    /// These bytes.
    Part(Range<u64>),
    /// None of the bytes there are.
    Outside,
}

impl Span {
    /// Cuts what a `Range` header asks for out of a length. Of several ranges none is taken: then the answer is whole.
    #[must_use]
    pub fn of(header: Option<&[u8]>, length: u64) -> Span {
        let text = header.and_then(|header| str::from_utf8(header).ok());
        let Some(range) = text.and_then(|text| text.trim().strip_prefix("bytes=")) else { return Span::Whole };
        let Some((first, last)) = range.split_once('-') else { return Span::Whole };
        let number = |text: &str| {
            let text = text.trim();
            let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            plain.then(|| text.parse().unwrap_or(u64::MAX))
        };
        match (number(first), number(last)) {
            (Some(first), Some(last)) if first > last => Span::Whole,
            (Some(first), _) if first >= length && (last.trim().is_empty() || number(last).is_some()) => Span::Outside,
            (Some(first), Some(last)) => Span::Part(first..length.min(last.saturating_add(1))),
            (Some(first), None) if last.trim().is_empty() => Span::Part(first..length),
            (None, Some(0)) if first.trim().is_empty() => Span::Outside,
            (None, Some(_)) if first.trim().is_empty() && length == 0 => Span::Outside,
            (None, Some(count)) if first.trim().is_empty() => Span::Part(length.saturating_sub(count)..length),
            _ => Span::Whole,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_cut_from_the_length() {
        for (header, expect) in [
            ("bytes=0-3", Span::Part(0..4)),
            ("bytes=2-", Span::Part(2..10)),
            ("bytes=-4", Span::Part(6..10)),
            ("bytes=-40", Span::Part(0..10)),
            ("bytes=9-99", Span::Part(9..10)),
            ("bytes=0-18446744073709551615", Span::Part(0..10)),
            ("bytes=0-99999999999999999999999", Span::Part(0..10)),
            ("bytes=10-", Span::Outside),
            ("bytes=10-12", Span::Outside),
            ("bytes=-0", Span::Outside),
            ("bytes=5-2", Span::Whole),
            ("bytes=0-1,4-5", Span::Whole),
            ("bytes=", Span::Whole),
            ("bytes=-", Span::Whole),
            ("bytes=x-y", Span::Whole),
            ("bytes=+1-2", Span::Whole),
            ("lines=0-3", Span::Whole),
        ] {
            assert_eq!(Span::of(Some(header.as_bytes()), 10), expect, "{header}");
        }
        assert_eq!(Span::of(None, 10), Span::Whole);
        assert_eq!(Span::of(Some(b"bytes=0-"), 0), Span::Outside);
        assert_eq!(Span::of(Some(b"bytes=-5"), 0), Span::Outside);
    }
}
