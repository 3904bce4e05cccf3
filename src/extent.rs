//! Extents: how far a value reaches that starts on one line and ends on another.
//!
//! Counts brackets and quotes; never parses. The look-ahead is bounded in lines, bytes and nesting, so that a hostile body is
//! read in near-linear time.

use std::collections::{BTreeMap, VecDeque};

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

/// Where values end that start on one line and end on another. Each line of a text is looked at once, however many values start
/// and do not end.
#[derive(Debug, Default)]
pub struct Lookahead {
    /// How far the text was looked at: to the end of a line.
    seen: usize,
    /// How many lines that were.
    lines: usize,
    /// The brackets that are open there, by where they stand, each with its line; at most [`LOOKAHEAD_NESTING_MAX`].
    open: VecDeque<(usize, usize)>,
    /// Where brackets close that opened on a line before, by where they stand.
    closed: BTreeMap<usize, usize>,
}

impl Lookahead {
    /// Where the last line ends of a value whose first bracket stands at a byte of the line that starts, or is read from, at
    /// another, if it may be valid JSON and reaches over that line.
    pub fn value(&mut self, text: &str, line: usize, bracket: usize) -> Option<usize> {
        if line >= self.seen {
            *self = Lookahead { seen: line, ..Lookahead::default() };
        }
        while self.closed.first_key_value().is_some_and(|(at, _)| *at < bracket) {
            self.closed.pop_first();
        }
        loop {
            if let Some(close) = self.closed.get(&bracket) {
                let rest = text[*close..].split_inclusive('\n').next().unwrap_or("");
                return ansi::trim_start(rest).is_empty().then_some(close + rest.len());
            }
            if self.seen > line {
                let place = self.open.binary_search_by_key(&bracket, |(at, _)| *at).ok()?;
                let lines = self.lines - self.open[place].1;
                if lines >= LOOKAHEAD_LINES_MAX || self.seen - line > LOOKAHEAD_BYTES_MAX {
                    return None;
                }
            }
            if self.seen == text.len() {
                return None;
            }
            self.see_line(text);
        }
    }

    /// Looks at the next line. No string of JSON reaches over its end, so what is open around one is no value.
    fn see_line(&mut self, text: &str) {
        let rest = &text[self.seen..];
        let line = &rest[..memchr::memchr(b'\n', rest.as_bytes()).map_or(rest.len(), |end| end + 1)];
        let in_string = brackets(line, false, |at, opens| {
            if !opens {
                let opened = self.open.pop_back();
                self.closed.extend(opened.filter(|(_, line)| *line < self.lines).map(|(opened, _)| (opened, self.seen + at + 1)));
                return true;
            }
            if self.open.len() == LOOKAHEAD_NESTING_MAX {
                self.open.pop_front();
            }
            self.open.push_back((self.seen + at, self.lines));
            true
        });
        if in_string {
            self.open.clear();
        }
        self.seen += line.len();
        self.lines += 1;
    }
}

/// Measures something that begins like a value and is none, in whole lines from the start of a text: to where its brackets
/// close, by either reading of a quote that its line leaves open; else to the next blank line. A line that `stops` ends it; it
/// is given all the text from that line.
#[must_use]
pub fn broken(text: &str, stops: impl Fn(&str) -> bool) -> Extent {
    let mut readings = [true, false].map(|strings_span_lines| Depth { strings_span_lines, ..Depth::default() });
    let (mut bytes, mut first_lines) = (0, None);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        if number > 0 && stops(&text[bytes..]) {
            return Extent::Open(first_lines.unwrap_or(bytes));
        }
        if number > 0 && line.trim().is_empty() {
            first_lines.get_or_insert(bytes);
        }
        bytes += line.len();
        if number >= LOOKAHEAD_LINES_MAX || bytes > LOOKAHEAD_BYTES_MAX && number > 0 {
            return Extent::TooLong(first_lines.unwrap_or(bytes - line.len()));
        }
        let closed = readings.each_mut().map(|depth| depth.closes_on(line));
        if closed.contains(&true) {
            return Extent::Closed(bytes);
        }
    }
    Extent::Open(first_lines.unwrap_or(bytes))
}

/// How many brackets are open at the end of a line.
#[derive(Default)]
struct Depth {
    open: usize,
    in_string: bool,
    strings_span_lines: bool,
}

impl Depth {
    /// Goes on over a line; says whether the last open bracket closes in it.
    fn closes_on(&mut self, line: &str) -> bool {
        let mut closed = false;
        let in_string = brackets(line, self.in_string, |_, opens| {
            self.open = if opens { self.open + 1 } else { self.open.saturating_sub(1) };
            closed = self.open == 0;
            !closed
        });
        self.in_string = in_string && self.strings_span_lines;
        closed
    }
}

/// Calls back for each bracket of a line outside strings, with its place and whether it opens, until told to stop. Says whether
/// a string is open at the end.
fn brackets(line: &str, mut in_string: bool, mut each: impl FnMut(usize, bool) -> bool) -> bool {
    let bytes = line.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let mut width = 1;
        match bytes[at] {
            b'"' => in_string = !in_string,
            b'\\' if in_string => width = 2,
            0x1B => width = ansi::code(&line[at..]).max(1),
            b'{' | b'[' if !in_string && !each(at, true) => return false,
            b'}' | b']' if !in_string && !each(at, false) => return false,
            _ => {}
        }
        at += width;
    }
    in_string
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The length of the value at the start of a text.
    fn value(text: &str) -> Option<usize> {
        Lookahead::default().value(text, 0, 0)
    }

    #[test]
    fn a_value_ends_with_the_line_of_its_last_bracket() {
        assert_eq!(value("{\n\"a\": [\"}\\\"\"]\n} \nx"), Some(18));
        assert_eq!(value("{\x1b[0m\n}\x1b[0m\r\n"), Some(13));
        assert_eq!(value("[\n]"), Some(3));
        for none in ["{}", "{}\nx", "{\n} x", "{\n", "{\"a\n\"}", "{\n\"a\n}", ""] {
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
        assert_eq!(value(&format!("[\n\"{}\"\n\n]", "x".repeat(LOOKAHEAD_BYTES_MAX))), None);
    }

    #[test]
    fn what_was_seen_answers_for_the_values_inside() {
        let text = "{\n[\n]\n{\n[\n] x\n]\n[ \"\n]\n[\n]";
        let mut ahead = Lookahead::default();
        let found: Vec<Option<usize>> = [0, 2, 6, 8, 16].map(|at| ahead.value(text, at, at)).into();
        assert_eq!(found, [None, Some(6), Some(16), None, None]);
        assert_eq!(Lookahead::default().value(text, 22, 22), Some(text.len()));
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
    }
}
