//! The listing: an event of the log as a line for a person, and one event whole with what it means.
//!
//! Pure views; the moment and the time zone come in as values. The invariant: an event is one line, whatever its text holds, and
//! no control character of the log is live in it.

use std::fmt::Write;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::event::{Door, Event};
use crate::meaning::{claim, door_in_words, id_in_words, meaning, speaker_in_words};
use crate::moment;
use crate::quotation::{ORIGIN_CHARS_MAX, on_one_line, start};

/// How much of a payload its line shows, in characters.
pub const PAYLOAD_CHARS_MAX: usize = 160;

/// How much of a moment's text is shown, in characters.
const MOMENT_CHARS_MAX: usize = 40;

/// For whom it is listed.
#[derive(Debug, Clone)]
pub struct Manner {
    /// A person at a terminal; `None` for a pipe.
    pub person: Option<Person>,
}

/// Who reads along at a terminal.
#[derive(Debug, Clone)]
pub struct Person {
    /// The moment.
    pub now: Timestamp,
    /// The time zone of the place.
    pub zone: TimeZone,
    /// Whether colour is wanted.
    pub colour: bool,
}

/// The colours of a line.
#[derive(Debug, Clone, Copy)]
enum Ink {
    Dim,
    Name,
    Plain,
}

impl Manner {
    /// An event as one line: number, moment, door, speaker, name, start of the payload. In a pipe a tab stands between two of
    /// them, and the moment is the stored text.
    #[must_use]
    pub fn line(&self, event: &Event<'_>) -> String {
        let door = event.via.as_ref().map(Door::text);
        let (door, by) = (claim(door.as_deref()), claim(event.by.as_deref()));
        let (name, payload) = (start(&event.name, ORIGIN_CHARS_MAX), start(event.payload.get(), PAYLOAD_CHARS_MAX));
        let Some(person) = &self.person else {
            return format!("{}\t{}\t{door}\t{by}\t{name}\t{payload}\n", event.seq, moment_text(&event.occurred_at));
        };
        let mut line = person.inked(Ink::Dim, &format!("{:>6}  {}", event.seq, person.moment(&event.occurred_at)));
        let _ = write!(line, "  {}", person.inked(Ink::Dim, &format!("{door:<6}  {by:<8}")));
        let _ = writeln!(line, "  {}  {}", person.inked(Ink::Name, &name), person.inked(Ink::Plain, &payload));
        line
    }

    /// One event whole, a line each for what it has and what that means. `receipt` says what is proven, if it is a receipt.
    #[must_use]
    pub fn sheet(&self, event: &Event<'_>, receipt: Option<&str>) -> String {
        let mut rows = vec![
            ("seq", event.seq.to_string()),
            ("name", on_one_line(&event.name)),
            ("means", meaning(event)),
            ("moment", self.full_moment(&event.occurred_at)),
            ("door", door_in_words(event.via.as_ref())),
            ("speaker", speaker_in_words(event)),
            ("id", id_in_words(&event.id)),
        ];
        rows.extend(receipt.map(|receipt| ("receipt", on_one_line(receipt))));
        rows.push(("payload", on_one_line(event.payload.get())));
        let colour = |word: &str| match &self.person {
            Some(person) => person.inked(Ink::Dim, word),
            None => word.to_owned(),
        };
        rows.iter().map(|(word, text)| format!("{}  {text}\n", colour(&format!("{word:<7}")))).collect()
    }

    fn full_moment(&self, occurred_at: &str) -> String {
        match &self.person {
            Some(person) if moment::read(occurred_at).is_some() => {
                format!("{}, stored as {}", person.moment(occurred_at).trim_end(), on_one_line(occurred_at))
            }
            Some(_) | None if occurred_at.is_empty() => "not recorded".to_owned(),
            Some(_) | None => on_one_line(occurred_at),
        }
    }
}

impl Person {
    fn inked(&self, ink: Ink, text: &str) -> String {
        let code = match ink {
            Ink::Dim => "2",
            Ink::Name => "36",
            Ink::Plain => return text.to_owned(),
        };
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// A moment in the place's own time, and how long ago it was; a text that is no moment as it stands.
    fn moment(&self, occurred_at: &str) -> String {
        let Some(then) = moment::read(occurred_at) else { return moment_text(occurred_at) };
        let local = then.to_zoned_datetime(self.zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string();
        format!("{local} {:<10}", format!("({})", ago(then, self.now)))
    }
}

/// How long ago something was, in its largest unit.
fn ago(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(then).as_secs();
    let (count, unit) = match seconds.unsigned_abs() {
        0 => return "now".to_owned(),
        seconds @ ..60 => (seconds, "s"),
        seconds @ ..3_600 => (seconds / 60, "min"),
        seconds @ ..172_800 => (seconds / 3_600, "h"),
        seconds @ ..63_072_000 => (seconds / 86_400, "d"),
        seconds => (seconds / 31_536_000, "y"),
    };
    if seconds < 0 { format!("in {count} {unit}") } else { format!("{count} {unit} ago") }
}

/// The text of a moment; a dash for none.
fn moment_text(occurred_at: &str) -> String {
    if occurred_at.is_empty() { "-".to_owned() } else { start(occurred_at, MOMENT_CHARS_MAX) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Line;

    fn event(line: &str) -> Event<'_> {
        match Line::read(line.as_bytes()) {
            Line::Record(record) => {
                let seq = record.seq.unwrap_or(7);
                record.at(seq)
            }
            Line::Blank | Line::Damaged => panic!("{line}"),
        }
    }

    fn at_a_terminal(colour: bool) -> Manner {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        Manner { person: Some(Person { now: "2026-11-30T10:34:18Z".parse().unwrap(), zone, colour }) }
    }

    const NOTE: &str = r#"{"id":"x","seq":12,"name":"note.taken","occurred_at":"2026-11-30T10:30:00.5Z","via":"pipe","by":"ada","payload":{"n":1}}"#;

    #[test]
    fn a_line_in_a_pipe_has_the_stored_moment_between_tabs() {
        let pipe = Manner { person: None };
        assert_eq!(pipe.line(&event(NOTE)), "12\t2026-11-30T10:30:00.5Z\tpipe\tada\tnote.taken\t{\"n\":1}\n");
        assert_eq!(pipe.line(&event(r#"{"name":"x"}"#)), "7\t-\t-\t-\tx\t{}\n");
    }

    #[test]
    fn a_line_at_a_terminal_has_local_and_relative_time() {
        let line = "    12  2026-11-30 12:30:00 (4 min ago)  pipe    ada       note.taken  {\"n\":1}\n";
        assert_eq!(at_a_terminal(false).line(&event(NOTE)), line);
        let line = "\x1b[2m    12  2026-11-30 12:30:00 (4 min ago)\x1b[0m  \x1b[2mpipe    ada     \x1b[0m  \x1b[36mnote.taken\x1b[0m  {\"n\":1}\n";
        assert_eq!(at_a_terminal(true).line(&event(NOTE)), line);
    }

    #[test]
    fn nothing_in_an_event_breaks_its_line_or_is_live() {
        let evil =
            r#"{"name":"a\n\u001b]52;c;x\u0007","occurred_at":"\r\t","via":"\u009b2J","by":"\u2028\u0000","payload":"PAYLOAD"}"#;
        let evil = evil.replace("PAYLOAD", "\u{9b}2J\u{7f}");
        let lines = [Manner { person: None }, at_a_terminal(false)].map(|manner| manner.line(&event(&evil)));
        assert_eq!(lines[0], "7\t\\x0d\\x09\t\\x9b2J\t\\u2028\\x00\ta\\x0a\\x1b]52;c;x\\x07\t\"\\x9b2J\\x7f\"\n");
        assert_eq!(lines[1], "     7  \\x0d\\x09  \\x9b2J  \\u2028\\x00  a\\x0a\\x1b]52;c;x\\x07  \"\\x9b2J\\x7f\"\n");
        let sheet = at_a_terminal(false).sheet(&event(&evil), Some("\u{1b}"));
        assert_eq!(sheet.lines().count(), 9);
        assert!(!sheet.chars().any(|char| char.is_control() && char != '\n'), "{sheet}");
    }

    #[test]
    fn a_long_payload_is_shortened_in_its_line_and_whole_on_its_sheet() {
        let text = format!(r#"{{"seq":1,"name":"a.b","payload":"{}"}}"#, "é".repeat(1 << 20));
        let pipe = Manner { person: None };
        assert_eq!(pipe.line(&event(&text)), format!("1\t-\t-\t-\ta.b\t\"{}…\n", "é".repeat(PAYLOAD_CHARS_MAX - 1)));
        assert!(pipe.sheet(&event(&text), None).ends_with(&format!("\"{}\"\n", "é".repeat(1 << 20))));
    }

    #[test]
    fn how_long_ago_is_in_the_largest_unit() {
        let now: Timestamp = "2026-11-30T10:34:18Z".parse().unwrap();
        let check = |then: &str, expect: &str| assert_eq!(ago(then.parse().unwrap(), now), expect, "{then}");
        check("2026-11-30T10:34:17.5Z", "now");
        check("2026-11-30T10:33:19Z", "59 s ago");
        check("2026-11-30T10:33:18Z", "1 min ago");
        check("2026-11-30T09:34:18Z", "1 h ago");
        check("2026-11-28T10:34:19Z", "47 h ago");
        check("2026-11-28T10:34:18Z", "2 d ago");
        check("2024-11-29T10:34:18Z", "2 y ago");
        check("2026-11-30T10:39:18Z", "in 5 min");
    }

    #[test]
    fn a_sheet_says_what_an_event_means() {
        let line = r#"{"id":"0123456789abcdef0123456789abcdef.2-3","seq":12,"name":"script.compiled","occurred_at":"2026-11-30T10:30:00Z","via":"kernel","payload":{}}"#;
        let rest = "door     kernel: the kernel itself\nspeaker  none: the kernel speaks for itself\nid       0123456789abcdef0123456789abcdef.2-3: 2 of 3 in its batch, which landed whole\nreceipt  verified\npayload  {}\n";
        let head = "seq      12\nname     script.compiled\nmeans    a receipt: the record of a script's installation\n";
        assert_eq!(
            Manner { person: None }.sheet(&event(line), Some("verified")),
            format!("{head}moment   2026-11-30T10:30:00Z\n{rest}")
        );
        assert_eq!(
            at_a_terminal(false).sheet(&event(line), Some("verified")),
            format!("{head}moment   2026-11-30 12:30:00 (4 min ago), stored as 2026-11-30T10:30:00Z\n{rest}")
        );
    }
}
