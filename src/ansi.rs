//! ANSI codes: colours, cursor moves and titles that a program wraps around its text.
//!
//! The wire looks through them; prose keeps them. Never interprets one. The invariant: a code lies within one line, and what
//! [`code`] measures ends on a character.

use std::borrow::Cow;

const ESC: u8 = 0x1B;
const BEL: u8 = 0x07;

/// The length of the code that a text starts with, in bytes; 0 if it starts with none. Knows CSI, OSC (ended by BEL or by
/// ST) and the short sequences; an OSC without an end is its two first bytes.
#[must_use]
pub fn code(text: &str) -> usize {
    let bytes = text.as_bytes();
    if bytes.first() != Some(&ESC) {
        return 0;
    }
    match bytes.get(1) {
        Some(b'[') => {
            let arguments = bytes[2..].iter().take_while(|byte| (0x20..=0x3F).contains(*byte)).count();
            match bytes.get(2 + arguments) {
                Some(0x40..=0x7E) => 3 + arguments,
                _ => 2,
            }
        }
        Some(b']') => {
            let end = memchr::memchr3(BEL, ESC, b'\n', &bytes[2..]).map_or(bytes.len(), |words| 2 + words);
            match bytes[end..] {
                [BEL, ..] => end + 1,
                [ESC, b'\\', ..] => end + 2,
                _ => 2,
            }
        }
        Some(0x20..=0x2F) => {
            let middle = bytes[1..].iter().take_while(|byte| (0x20..=0x2F).contains(*byte)).count();
            match bytes.get(1 + middle) {
                Some(0x30..=0x7E) => 2 + middle,
                _ => 0,
            }
        }
        Some(0x30..=0x7E) => 2,
        _ => 0,
    }
}

/// The text without white space and codes in front.
#[must_use]
pub fn trim_start(text: &str) -> &str {
    let mut rest = text.trim_start();
    loop {
        match code(rest) {
            0 => return rest,
            length => rest = rest[length..].trim_start(),
        }
    }
}

/// The text without its codes.
#[must_use]
pub fn strip(text: &str) -> Cow<'_, str> {
    let Some(mut at) = memchr::memchr(ESC, text.as_bytes()) else { return Cow::Borrowed(text) };
    let mut plain = String::with_capacity(text.len());
    let mut kept = 0;
    loop {
        let length = code(&text[at..]);
        if length > 0 {
            plain.push_str(&text[kept..at]);
            kept = at + length;
        }
        let next = at + length.max(1);
        match memchr::memchr(ESC, &text.as_bytes()[next..]) {
            Some(gap) => at = next + gap,
            None => break,
        }
    }
    plain.push_str(&text[kept..]);
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &str) {
        assert_eq!(strip(text), expect);
    }

    #[test]
    fn colours_titles_and_short_sequences_go() {
        check("\x1b[1;31mred\x1b[0m \x1b[?25l", "red ");
        check("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b\x1b]8;;\x1b\\", "ab");
        check("\x1b(Ba\x1b7b\x1b=\x1bMc", "abc");
        check("é\x1b[mü", "éü");
    }

    #[test]
    fn what_is_cut_off_goes_no_further_than_its_line() {
        check("\x1b]0;title", "0;title");
        check("\x1b]0;a\nb\x07", "0;a\nb\x07");
        check("\x1b]0;a\x1b[mb", "0;ab");
        check("\x1b[1;3", "1;3");
        check("a\x1b", "a\x1b");
        check("\x1b\u{e9}", "\x1b\u{e9}");
    }

    #[test]
    fn a_start_is_found_behind_blanks_and_codes() {
        assert_eq!(trim_start(" \x1b[2m\t\x1b]0;x\x07 y \x1b[0m"), "y \x1b[0m");
        assert_eq!(trim_start("\x1b[m"), "");
    }
}
