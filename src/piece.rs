//! Pieces: a body cut into what the wire reads as one thing.
//!
//! Cuts and judges; never drops or reorders. The invariant: the texts of the pieces, put together, are the body.

use crate::ansi;
use crate::element::{self, Judged};
use crate::extent::{self, Extent, LOOKAHEAD_BYTES_MAX, LOOKAHEAD_LINES_MAX, Lookahead};
use crate::fence::{Fence, Use};
use crate::item::{Authored, Like, shown};
use crate::reasoning;

/// A stretch of a body.
#[derive(Debug)]
pub struct Piece<'a> {
    /// Whole lines, but where a tag of reasoning cuts a line.
    pub text: &'a str,
    /// What they are.
    pub kind: Kind<'a>,
}

/// What a piece is.
#[derive(Debug)]
pub enum Kind<'a> {
    /// Nothing that the wire takes.
    Prose,
    /// An object, or an array of them, of which something is no prose.
    Values(Vec<Judged>),
    /// It begins like an event or a script; the reason it is none.
    Missed(Like, String),
    /// A script in its fence.
    Script(Authored),
    /// A fence whose inside is read for events.
    Fence(Box<Inside<'a>>),
    /// A block of reasoning, with its closing tag if it has one.
    Reasoning {
        /// Whether it has.
        closed: bool,
    },
    /// A closing tag that nothing opened: all before it was reasoning.
    Unopened,
}

/// A fence that is read for events, cut at its marks.
#[derive(Debug)]
pub struct Inside<'a> {
    /// The opening line.
    pub opening: &'a str,
    /// The pieces inside.
    pub pieces: Pieces<'a>,
    /// The closing line; empty where the body ends first.
    pub closing: &'a str,
}

/// The pieces of a text, in order.
#[derive(Debug)]
pub struct Pieces<'a> {
    text: &'a str,
    at: usize,
    /// Where the line ends that `at` is on, once it was looked for.
    line_end: usize,
    /// The first closing tag behind the first place that was looked from: where from, and where it ends.
    closing: Option<(usize, Option<usize>)>,
    /// What is known of values that reach over several lines.
    ahead: Lookahead,
    /// The blanks in front of the fence that the text stands in; `None` outside fences.
    indent: Option<usize>,
}

impl<'a> Pieces<'a> {
    /// Cuts a body.
    #[must_use]
    pub fn of(text: &'a str) -> Pieces<'a> {
        Pieces { text, at: 0, line_end: 0, closing: None, ahead: Lookahead::default(), indent: None }
    }

    /// Where the next piece starts, in bytes.
    #[must_use]
    pub fn at(&self) -> usize {
        self.at
    }

    /// Goes on behind the line that a byte stands on, and gives the line from that byte.
    pub fn skip_line(&mut self, from: usize) -> &'a str {
        self.at = from;
        self.line_end = 0;
        let line = self.line();
        self.at += line.len();
        line
    }

    /// The rest of the line that the next piece starts on, with its newline.
    fn line(&mut self) -> &'a str {
        if self.line_end <= self.at {
            let newline = memchr::memchr(b'\n', &self.text.as_bytes()[self.at..]);
            self.line_end = newline.map_or(self.text.len(), |newline| self.at + newline + 1);
        }
        &self.text[self.at..self.line_end]
    }

    /// The piece that starts with this line outside fences.
    fn open_piece(&mut self, line: &'a str) -> Piece<'a> {
        if let Some(tag) = reasoning::opening(line) {
            return self.reasoning(self.at + tag);
        }
        if let Some(tag) = reasoning::closing(line) {
            return self.tagged(self.at + tag, Kind::Unopened);
        }
        match Fence::opening(&ansi::strip(line)) {
            Some(fence) => self.fence(&fence, line),
            None => self.value(line),
        }
    }

    /// A block of reasoning whose opening tag ends at this byte.
    fn reasoning(&mut self, inside: usize) -> Piece<'a> {
        let known = self.closing.filter(|(from, end)| *from <= inside && end.is_none_or(|end| end > inside));
        let end = match known {
            Some((_, end)) => end,
            None => reasoning::find_closing(&self.text[inside..]).map(|end| inside + end),
        };
        self.closing = Some((inside, end));
        match end {
            Some(end) => self.tagged(end, Kind::Reasoning { closed: true }),
            None => Piece { text: &self.text[self.at..], kind: Kind::Reasoning { closed: false } },
        }
    }

    /// A piece that ends with a tag; the rest of the tag's line belongs to it if it is blank.
    fn tagged(&self, tag_end: usize, kind: Kind<'a>) -> Piece<'a> {
        let mut end = tag_end;
        while let Some(next) = self.text[end..].chars().next() {
            end += match ansi::code(&self.text[end..]) {
                0 if next.is_whitespace() => next.len_utf8(),
                0 => {
                    end = tag_end;
                    break;
                }
                length => length,
            };
            if next == '\n' {
                break;
            }
        }
        Piece { text: &self.text[self.at..end], kind }
    }

    fn fence(&self, fence: &Fence<'_>, opening: &'a str) -> Piece<'a> {
        let rest = &self.text[self.at..];
        let (inside, closing) = fence.split(&rest[opening.len()..]);
        let text = &rest[..opening.len() + inside.len() + closing.map_or(0, str::len)];
        let script = |kind: &str, name: &str| Like::Script { kind: kind.to_owned(), name: name.to_owned() };
        let kind = match (fence.asks(), closing) {
            (Use::Text, _) => Kind::Prose,
            (Use::Events, _) => Kind::Fence(Box::new(Inside {
                opening,
                pieces: Pieces { indent: Some(fence.indent), ..Pieces::of(inside) },
                closing: closing.unwrap_or(""),
            })),
            (Use::Script(kind, name), Some(_)) => {
                Kind::Script(Authored { kind: kind.word().to_owned(), name: name.to_owned(), script: inside.to_owned() })
            }
            (Use::Script(kind, name), None) => {
                Kind::Missed(script(kind.word(), name), "the fence of the script is never closed".to_owned())
            }
            (Use::Unkind(words), _) => {
                let (kind, name) = words.split_once('/').unwrap_or((words, ""));
                let reason = format!(
                    "a script's fence is marked `self command/<name>` or `self projector/<name>`, not `self {}`",
                    shown(words)
                );
                Kind::Missed(script(kind.trim(), name.trim()), reason)
            }
        };
        Piece { text, kind }
    }

    /// The piece that starts with this line, which opens nothing.
    fn value(&mut self, line: &'a str) -> Piece<'a> {
        let plain = ansi::strip(line);
        let trimmed = plain.trim();
        let candidate = trimmed.starts_with(['{', '[', '`']);
        if candidate && let Some(judged) = element::judge(unticked(trimmed)) {
            return Piece::judged(line, judged);
        }
        if self.indent.is_none() && reasoning::ends_with_closing(trimmed) {
            return match reasoning::find_opening(line) {
                Some(block) => Piece { text: &line[..block], kind: Kind::Prose },
                None => Piece { text: line, kind: Kind::Unopened },
            };
        }
        if !candidate {
            return Piece { text: line, kind: Kind::Prose };
        }
        let rest = &self.text[self.at..];
        let at_line_start = self.starts_value(&plain);
        if at_line_start
            && let Some(length) = self.value_length(line)
            && let Some(judged) = element::judge(ansi::strip(&rest[..length]).trim())
        {
            return Piece::judged(&rest[..length], judged);
        }
        match element::begins_like_event(if at_line_start { rest } else { line }) {
            true if at_line_start => self.broken(rest),
            true => Piece::missed(line, element::unreadable(unticked(trimmed))),
            false => Piece { text: line, kind: Kind::Prose },
        }
    }

    /// How far the value reaches that starts with this line's first bracket, if it ends on another line.
    fn value_length(&mut self, line: &str) -> Option<usize> {
        let bracket = self.at + line.len() - ansi::trim_start(line).len();
        let before = &self.text.as_bytes()[..self.at];
        let line_start = memchr::memrchr(b'\n', before).map_or(0, |end| end + 1);
        // A quote in front of a tag on this line would turn strings inside out.
        let end = match before[line_start..].contains(&b'"') {
            false => self.ahead.value(self.text, self.at, bracket),
            true => Lookahead::default().value(self.text, self.at, bracket),
        };
        end.map(|end| end - self.at)
    }

    /// Whether a line without its codes may be the first of a value that is printed over several.
    fn starts_value(&self, plain: &str) -> bool {
        let blanks = plain.bytes().take(self.indent.unwrap_or(0)).take_while(|byte| *byte == b' ').count();
        plain[blanks..].starts_with(['{', '['])
    }

    /// A near miss that may reach over several lines.
    fn broken(&self, rest: &'a str) -> Piece<'a> {
        let is_array = ansi::trim_start(rest).starts_with('[');
        let extent = extent::broken(rest, |text| self.stops(text, is_array));
        let (Extent::Closed(length) | Extent::Open(length) | Extent::TooLong(length)) = extent;
        let text = &rest[..length];
        let plain = ansi::strip(text);
        if let Some(judged) = element::judge(plain.trim()) {
            return Piece::judged(text, judged);
        }
        let (like, mut reason) = element::unreadable(plain.trim());
        if matches!(extent, Extent::TooLong(_)) {
            reason = format!("it does not end within {LOOKAHEAD_LINES_MAX} lines or {LOOKAHEAD_BYTES_MAX} bytes");
        }
        Piece::missed(text, (like, reason))
    }

    /// Whether the line that a text starts with is a thing of its own, even if the brackets before it are open.
    fn stops(&self, text: &str, in_array: bool) -> bool {
        let line = text.split_inclusive('\n').next().unwrap_or("");
        let plain = ansi::strip(line);
        let tagged = || reasoning::opening(line).or_else(|| reasoning::closing(line)).is_some();
        let opens = || tagged() || reasoning::ends_with_closing(plain.trim()) || Fence::opening(&plain).is_some();
        let starts = || match in_array {
            true => self.starts_value(&plain) && ansi::trim_start(line).starts_with('['),
            false => self.starts_value(&plain) || plain.starts_with('`'),
        };
        is_quoted(line) || (self.indent.is_none() && opens()) || (starts() && element::begins_like_event(text))
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        if self.at >= self.text.len() {
            return None;
        }
        let line = self.line();
        let piece = match self.indent {
            _ if is_plain(line) || is_quoted(line) => Piece { text: line, kind: Kind::Prose },
            Some(_) => self.value(line),
            None => self.open_piece(line),
        };
        self.at += piece.text.len();
        Some(piece)
    }
}

impl<'a> Piece<'a> {
    fn judged(text: &'a str, judged: Vec<Judged>) -> Piece<'a> {
        Piece { text, kind: if judged.is_empty() { Kind::Prose } else { Kind::Values(judged) } }
    }

    fn missed(text: &'a str, (like, reason): (Like, String)) -> Piece<'a> {
        Piece { text, kind: Kind::Missed(like, reason) }
    }
}

const ESC: char = '\x1b';

/// What stands in front of each line of a quotation.
pub const QUOTE: &str = "| ";

/// Whether a line is prose by its first and last character, as most are.
fn is_plain(line: &str) -> bool {
    let words = line.trim_start();
    !words.starts_with(['{', '[', '`', '~', '<', '|', ESC]) && !words.trim_end().ends_with('>') && !words.contains(ESC)
}

/// Whether a line is a quotation: prose, whatever it holds.
fn is_quoted(line: &str) -> bool {
    let mut rest = line;
    while let length @ 1.. = ansi::code(rest) {
        rest = &rest[length..];
    }
    rest.starts_with(QUOTE)
}

/// A line without the single backticks around it, if it has them.
fn unticked(line: &str) -> &str {
    let inside = line.strip_prefix('`').and_then(|line| line.strip_suffix('`'));
    inside.map_or(line, str::trim)
}
