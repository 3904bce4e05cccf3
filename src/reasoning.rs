//! Reasoning: the tags in which a mind thinks aloud.
//!
//! What stands in a block is nothing to the wire: neither prose nor event. Never decides what a block swallows; it only finds
//! tags, in any case and through ANSI codes.

use crate::ansi;

const OPENING: [&str; 2] = ["<think>", "<thinking>"];
const CLOSING: [&str; 2] = ["</think>", "</thinking>"];

/// Where the opening tag ends that a line starts with, behind blanks and codes.
#[must_use]
pub fn opening(line: &str) -> Option<usize> {
    starts(line, OPENING)
}

/// Where the closing tag ends that a line starts with, behind blanks and codes.
#[must_use]
pub fn closing(line: &str) -> Option<usize> {
    starts(line, CLOSING)
}

/// Whether a line, trimmed and without codes, ends with a closing tag.
#[must_use]
pub fn ends_with_closing(plain: &str) -> bool {
    CLOSING.iter().any(|tag| {
        let start = plain.len().checked_sub(tag.len());
        start.and_then(|start| plain.as_bytes().get(start..)).is_some_and(|end| end.eq_ignore_ascii_case(tag.as_bytes()))
    })
}

/// Where the first closing tag of a text ends.
#[must_use]
pub fn find_closing(text: &str) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr::memchr2(b'<', 0x1B, &text.as_bytes()[at..])?;
        let rest = &text[at..];
        if let Some(length) = tag(rest, CLOSING) {
            return Some(at + length);
        }
        at += ansi::code(rest).max(1);
    }
}

/// Where the first opening tag of a line starts.
#[must_use]
pub fn find_opening(line: &str) -> Option<usize> {
    memchr::memchr_iter(b'<', line.as_bytes()).find(|at| tag(&line[*at..], OPENING).is_some())
}

fn starts(line: &str, tags: [&str; 2]) -> Option<usize> {
    let rest = ansi::trim_start(line);
    tag(rest, tags).map(|length| line.len() - rest.len() + length)
}

/// The length of the tag that a text starts with; codes may stand inside it.
fn tag(text: &str, tags: [&str; 2]) -> Option<usize> {
    if !text.starts_with('<') {
        return None;
    }
    tags.iter().find_map(|tag| {
        let mut at = 0;
        for expected in tag.bytes() {
            loop {
                match ansi::code(&text[at..]) {
                    0 => break,
                    length => at += length,
                }
            }
            if !text.as_bytes().get(at)?.eq_ignore_ascii_case(&expected) {
                return None;
            }
            at += 1;
        }
        Some(at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_counts_at_the_start_of_a_line() {
        assert_eq!(opening("<think>x"), Some(7));
        assert_eq!(opening(" \x1b[2m<THINKing>"), Some(15));
        assert_eq!(opening("<th\x1b[mink>x"), Some(10));
        assert_eq!(closing("\t</Think> x"), Some(9));
        for other in ["a <think>", "<thinker>", "<think", "think>", "`<think>`", ""] {
            assert_eq!((opening(other), closing(other)), (None, None), "{other}");
        }
    }

    #[test]
    fn a_closing_tag_is_found_wherever_it_stands() {
        assert_eq!(find_closing("a < b <think> é</thinking>x"), Some(27));
        assert_eq!(find_closing("a\n\x1b]0;</think>\x07</THINK>"), Some(23));
        assert_eq!(find_closing("a </thinks>"), None);
        assert_eq!(find_opening("a < b <thinker> <THINKING>x"), Some(16));
        assert_eq!(find_opening("a </think>"), None);
        assert!(ends_with_closing("so be it </Thinking>"));
        assert!(!ends_with_closing("so be it </think>."));
        assert!(!ends_with_closing("think>"));
    }
}
