//! Extents: how far a value reaches that starts on one line and ends on another.
//!
//! Counts brackets and quotes; never parses. The look-ahead is bounded in lines, bytes and nesting, so that a hostile body is
//! read in near-linear time.

use crate::ansi;
use crate::payload::NESTING_MAX;

/// The most lines of a value that is printed over several.
pub const LOOKAHEAD_LINES_MAX: usize = 10_000;

/// The most bytes of a value that is printed over several lines.
pub const LOOKAHEAD_BYTES_MAX: usize = 8 << 20;

/// The deepest nesting of a value that is printed over several lines: a payload, its event and an array around it.
pub const LOOKAHEAD_NESTING_MAX: usize = NESTING_MAX + 2;

/// How far something reaches that begins like a value and is none.
#[derive(Debug, PartialEq, Eq)]
pub enum Extent {
    /// Its brackets close on the last of these bytes' lines.
    Closed(usize),
    /// They do not close; these bytes are its first lines.
    Open(usize),
    /// They do not close within the look-ahead; these bytes are its first lines.
    TooLong(usize),
}

/// Measures a value in whole lines from the start of a text, if it may be valid JSON and reaches over its first line.
#[must_use]
pub fn value(text: &str) -> Option<usize> {
    let mut brackets = Brackets { strings_span_lines: true, ..Brackets::default() };
    let mut bytes = 0;
    for (number, line) in text.split_inclusive('\n').enumerate().take(LOOKAHEAD_LINES_MAX) {
        let closed = brackets.feed(line);
        bytes += line.len();
        match closed {
            Some(end) => return (number > 0 && ansi::trim_start(&line[end..]).is_empty()).then_some(bytes),
            None if brackets.in_string || brackets.depth > LOOKAHEAD_NESTING_MAX || bytes > LOOKAHEAD_BYTES_MAX => return None,
            None => {}
        }
    }
    None
}

/// Measures something that begins like a value and is none, in whole lines from the start of a text: to where its brackets
/// close, by either reading of a quote that its line leaves open; else to the next blank line. A line that `stops` ends it.
#[must_use]
pub fn broken(text: &str, stops: impl Fn(&str) -> bool) -> Extent {
    let mut readings = [true, false].map(|strings_span_lines| Brackets { strings_span_lines, ..Brackets::default() });
    let is_array = ansi::trim_start(text).starts_with('[');
    let (mut bytes, mut first_lines) = (0, None);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        if number > 0 && stops(line) {
            return Extent::Open(first_lines.unwrap_or(bytes));
        }
        if number > 0 && line.trim().is_empty() {
            first_lines.get_or_insert(bytes);
        }
        bytes += line.len();
        if number >= LOOKAHEAD_LINES_MAX || bytes > LOOKAHEAD_BYTES_MAX && number > 0 {
            return Extent::TooLong(first_lines.unwrap_or(bytes - line.len()));
        }
        let closed = readings.each_mut().map(|brackets| brackets.feed(line).is_some());
        if closed.contains(&true) {
            return Extent::Closed(bytes);
        }
        if is_array && readings.iter().all(|brackets| brackets.depth > LOOKAHEAD_NESTING_MAX) {
            return Extent::Open(first_lines.unwrap_or(bytes));
        }
    }
    Extent::Open(first_lines.unwrap_or(bytes))
}

/// The brackets that are open at a place in a text.
#[derive(Default)]
struct Brackets {
    depth: usize,
    in_string: bool,
    strings_span_lines: bool,
}

impl Brackets {
    /// Goes on over a line; says where in it the last open bracket closes, if one does.
    fn feed(&mut self, line: &str) -> Option<usize> {
        let bytes = line.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            let mut width = 1;
            match bytes[at] {
                b'"' => self.in_string = !self.in_string,
                b'\\' if self.in_string => width = 2,
                0x1B => width = ansi::code(&line[at..]).max(1),
                b'{' | b'[' if !self.in_string => self.depth += 1,
                b'}' | b']' if !self.in_string => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return Some(at + 1);
                    }
                }
                _ => {}
            }
            at += width;
        }
        self.in_string &= self.strings_span_lines;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_ends_with_the_line_of_its_last_bracket() {
        assert_eq!(value("{\n\"a\": [\"}\\\"\"]\n} \nx"), Some(18));
        assert_eq!(value("{\x1b[0m\n}\x1b[0m\r\n"), Some(13));
        assert_eq!(value("[\n]"), Some(3));
        for none in ["{}", "{}\nx", "{\n} x", "{\n", "{\"a\n\"}", ""] {
            assert_eq!(value(none), None, "{none:?}");
        }
    }

    #[test]
    fn the_look_ahead_is_bounded() {
        let lines = |count: usize| format!("[\n{}]", "\n".repeat(count));
        assert_eq!(value(&lines(LOOKAHEAD_LINES_MAX - 2)), Some(LOOKAHEAD_LINES_MAX + 1));
        assert_eq!(value(&lines(LOOKAHEAD_LINES_MAX - 1)), None);
        let deep = |depth: usize| format!("{}\n{}", "[\n".repeat(depth), "]".repeat(depth));
        assert_eq!(value(&deep(LOOKAHEAD_NESTING_MAX)), Some(3 * LOOKAHEAD_NESTING_MAX + 1));
        assert_eq!(value(&deep(LOOKAHEAD_NESTING_MAX + 1)), None);
        assert_eq!(value(&format!("[\n\"{}\"\n]", "x".repeat(LOOKAHEAD_BYTES_MAX))), None);
    }

    #[track_caller]
    fn check(text: &str, expect: Extent) {
        assert_eq!(broken(text, |line| line.starts_with('|')), expect);
    }

    #[test]
    fn a_broken_value_ends_where_its_brackets_close() {
        check("{\n'a'\n\n}\nx", Extent::Closed(9));
        check("{'a'} x\n}", Extent::Closed(8));
        check("{\"a\":\"b}\nc\"}\nx", Extent::Closed(13));
        check("{\"a\":\"b,\n}\nx", Extent::Closed(11));
    }

    #[test]
    fn a_broken_value_without_an_end_is_its_first_lines() {
        check("{\na\n\nb\n", Extent::Open(4));
        check("{\na\n| b\n}", Extent::Open(4));
        check("{\na", Extent::Open(3));
        check(&format!("{{\na\n\n{}", "x\n".repeat(LOOKAHEAD_LINES_MAX)), Extent::TooLong(4));
        check(&format!("[\n{}", "[\n".repeat(LOOKAHEAD_NESTING_MAX)), Extent::Open(2 * LOOKAHEAD_NESTING_MAX + 2));
    }
}
