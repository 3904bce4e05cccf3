//! Fences: the blocks of CommonMark that minds put code and events in.
//!
//! Knows where a fence opens and closes and what its info string asks for; never what stands inside. A fence that is not
//! closed reaches to the end of its text.

use crate::ansi;
use crate::capability::Kind;

/// The most blanks in front of a fence, in columns.
pub const INDENT_COLUMNS_MAX: usize = 3;

/// The fewest marks that make a fence.
pub const MARKS_MIN: usize = 3;

/// The line that opens a fence.
#[derive(Debug, PartialEq, Eq)]
pub struct Fence<'a> {
    /// The blanks in front of it, in columns.
    pub indent: usize,
    mark: u8,
    marks: usize,
    info: &'a str,
}

/// What a fence's info string asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum Use<'a> {
    /// Events: no word, `json`, `jsonl` or `ndjson`.
    Events,
    /// A script: `self <kind>/<name>`; the name may be blank.
    Script(Kind, &'a str),
    /// A script of a kind there is not: the words behind `self`.
    Unkind(&'a str),
    /// Text for people.
    Text,
}

impl<'a> Fence<'a> {
    /// Reads a line, without its newline and codes, as the opening of a fence.
    #[must_use]
    pub fn opening(plain: &'a str) -> Option<Fence<'a>> {
        let (indent, mark, marks) = run(plain)?;
        let info = &plain[indent + marks..];
        let clean = mark != b'`' || !info.contains('`');
        clean.then_some(Fence { indent, mark, marks, info: info.trim() })
    }

    /// What the info string asks for.
    #[must_use]
    pub fn asks(&self) -> Use<'a> {
        if let Some(words) = self.info.strip_prefix("self ") {
            let words = words.trim();
            let (kind, name) = words.split_once('/').unwrap_or((words, ""));
            return match Kind::read(kind.trim()) {
                Some(kind) => Use::Script(kind, name.trim()),
                None => Use::Unkind(words),
            };
        }
        let word = self.info.split_whitespace().next().unwrap_or("");
        match ["", "json", "jsonl", "ndjson"].iter().any(|known| known.eq_ignore_ascii_case(word)) {
            true => Use::Events,
            false => Use::Text,
        }
    }

    /// Splits the text behind the opening line into what stands inside and, if there is one, the closing line.
    #[must_use]
    pub fn split<'t>(&self, text: &'t str) -> (&'t str, Option<&'t str>) {
        let mut at = 0;
        for line in text.split_inclusive('\n') {
            if self.closes(line) {
                return (&text[..at], Some(line));
            }
            at += line.len();
        }
        (text, None)
    }

    fn closes(&self, line: &str) -> bool {
        let plain = ansi::strip(line);
        run(&plain).is_some_and(|(indent, mark, marks)| {
            mark == self.mark && marks >= self.marks && plain[indent + marks..].trim().is_empty()
        })
    }
}

/// The blanks in front of a line's run of marks, the mark, and how many there are.
fn run(plain: &str) -> Option<(usize, u8, usize)> {
    let bytes = plain.as_bytes();
    let indent = bytes.iter().take_while(|byte| **byte == b' ').count();
    let mark = *bytes.get(indent).filter(|mark| matches!(mark, b'`' | b'~'))?;
    let marks = bytes[indent..].iter().take_while(|byte| **byte == mark).count();
    (indent <= INDENT_COLUMNS_MAX && marks >= MARKS_MIN).then_some((indent, mark, marks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expect: Option<Use<'_>>) {
        assert_eq!(Fence::opening(line).map(|fence| fence.asks()), expect);
    }

    #[test]
    fn a_fence_opens_as_in_commonmark() {
        check("```", Some(Use::Events));
        check("   ~~~~ JSON lines", Some(Use::Events));
        check("```ndjson\r", Some(Use::Events));
        check("```bash", Some(Use::Text));
        check("~~~ a`b", Some(Use::Text));
        for other in ["``", "    ```", "\t```", "``` a`b", "```{}```", "~~`", "x```", ""] {
            check(other, None);
        }
    }

    #[test]
    fn a_script_is_asked_for_by_kind_and_name() {
        check("```self command/note", Some(Use::Script(Kind::Command, "note")));
        check("~~~  self  projector/ a/b ", Some(Use::Script(Kind::Projector, "a/b")));
        check("```self command/", Some(Use::Script(Kind::Command, "")));
        check("```self command", Some(Use::Script(Kind::Command, "")));
        check("```self tool/x", Some(Use::Unkind("tool/x")));
        check("```self /x", Some(Use::Unkind("/x")));
        check("```self ", Some(Use::Text));
        check("```selfish", Some(Use::Text));
    }

    #[track_caller]
    fn splits(opening: &str, text: &str, expect: (&str, Option<&str>)) {
        assert_eq!(Fence::opening(opening).unwrap().split(text), expect);
    }

    #[test]
    fn a_fence_closes_as_in_commonmark() {
        splits("```", "a\n```\nb", ("a\n", Some("```\n")));
        splits("````", "```\n`````  \r\n", ("```\n", Some("`````  \r\n")));
        splits("~~~", "```\n~~~ x\n    ~~~\n   ~~~", ("```\n~~~ x\n    ~~~\n", Some("   ~~~")));
        splits("```", "\x1b[2m```\x1b[0m\n", ("", Some("\x1b[2m```\x1b[0m\n")));
        splits("```", "a\nb", ("a\nb", None));
        splits("```", "", ("", None));
    }
}
