//! Queries: which events of a log are asked for, as typed and as decided.
//!
//! Pure: the moment comes in as a value, and what matches is a function of the event alone. The invariant: a query that was read
//! never fails, and each of its filters must hold.

use clap::Args;
use jiff::{SignedDuration, Timestamp};

use crate::event::{Door, Event};
use crate::moment;
use crate::record::SEQ_MAX;

/// The units of a time before now, with their seconds.
const UNITS: [(char, i64); 5] = [('s', 1), ('m', 60), ('h', 3600), ('d', 86_400), ('w', 604_800)];

/// What was typed behind `self log`.
#[derive(Debug, Clone, Default, Args)]
pub struct Typed {
    /// One event, whole, with what it means
    #[arg(conflicts_with_all = ["name", "by", "via", "since", "until", "after", "newest", "grep", "reverse", "follow"])]
    pub seq: Option<String>,
    /// Events of this name; `*` is any run of characters, `?` one; several are alternatives
    #[arg(long, value_name = "GLOB")]
    pub name: Vec<String>,
    /// What this speaker said, exactly; an empty one is none
    #[arg(long, value_name = "SPEAKER")]
    pub by: Option<String>,
    /// What came through this door, exactly; `http` and `learn` stand for all of their kind
    #[arg(long, value_name = "DOOR")]
    pub via: Option<String>,
    /// From this moment on: RFC 3339, YYYY-MM-DD (00:00 UTC), or a time before now such as 90s, 15m, 2h, 3d, 1w
    #[arg(long, value_name = "MOMENT", allow_hyphen_values = true)]
    pub since: Option<String>,
    /// Before this moment, itself left out
    #[arg(long, value_name = "MOMENT", allow_hyphen_values = true)]
    pub until: Option<String>,
    /// Events with a higher number
    #[arg(long, value_name = "SEQ", allow_hyphen_values = true)]
    pub after: Option<String>,
    /// Only the newest N that match
    #[arg(short = 'n', value_name = "N", allow_hyphen_values = true)]
    pub newest: Option<String>,
    /// Events that have this text in their payload, as it is stored
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub grep: Option<String>,
    /// Newest first
    #[arg(long, conflicts_with = "follow")]
    pub reverse: bool,
    /// Go on with what arrives; what is there already comes first only behind -n, --after or --since
    #[arg(long)]
    pub follow: bool,
    /// The lines of the log as they are stored, byte for byte
    #[arg(long)]
    pub json: bool,
}

/// Why what was typed is no query.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryFault {
    /// No number of an event.
    #[error("`{0}` is no event's number: a whole number from 1 on")]
    Seq(String),
    /// No number to come after.
    #[error("`--after {0}` is no number: it takes a whole number from 0 on")]
    After(String),
    /// No count.
    #[error("`-n {0}` is no count: it takes a whole number from 0 on")]
    Count(String),
    /// No moment.
    #[error("`{option} {text}` is no moment: it takes 2026-11-30T10:34:18Z, 2026-11-30, or a time before now such as 2h or 3d")]
    Moment {
        /// The option.
        option: &'static str,
        /// Its value.
        text: String,
    },
    /// No text to look for.
    #[error("`--grep` takes a text that is not empty")]
    Text,
    /// No name to look for.
    #[error("`--name` takes a name that is not empty")]
    Name,
}

/// Which events are asked for.
#[derive(Debug, Clone, Default)]
pub struct Query {
    pub(crate) names: Vec<Glob>,
    pub(crate) by: Option<String>,
    pub(crate) via: Option<String>,
    pub(crate) since: Option<Timestamp>,
    pub(crate) until: Option<Timestamp>,
    pub(crate) after: Option<u64>,
    text: Option<memchr::memmem::Finder<'static>>,
}

/// How many of the events that match, and in which order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Span {
    /// Only the newest so many; `None` means all.
    pub newest: Option<u64>,
    /// Newest first.
    pub reverse: bool,
}

impl Typed {
    /// The number of the one event that is asked for, if it is one.
    pub fn one(&self) -> Result<Option<u64>, QueryFault> {
        let read = |text: &String| number(text).filter(|seq| (1..=SEQ_MAX).contains(seq)).ok_or(QueryFault::Seq(text.clone()));
        self.seq.as_ref().map(read).transpose()
    }

    /// How many events are asked for, and in which order.
    pub fn span(&self) -> Result<Span, QueryFault> {
        let newest = self.newest.as_ref().map(|text| number(text).ok_or(QueryFault::Count(text.clone()))).transpose()?;
        Ok(Span { newest, reverse: self.reverse })
    }

    /// Whether something that is there already is asked for, though it is to go on with what arrives.
    #[must_use]
    pub fn starts_earlier(&self) -> bool {
        self.newest.is_some() || self.after.is_some() || self.since.is_some()
    }

    /// The filters, decided at this moment.
    pub fn query(&self, now: Timestamp) -> Result<Query, QueryFault> {
        let moment = |option: &'static str, text: &Option<String>| {
            let fault = |text: &String| QueryFault::Moment { option, text: text.clone() };
            text.as_ref().map(|text| read_moment(text, now).ok_or_else(|| fault(text))).transpose()
        };
        let after = self.after.as_ref().map(|text| number(text).ok_or(QueryFault::After(text.clone())));
        if self.grep.as_deref() == Some("") {
            return Err(QueryFault::Text);
        }
        if self.name.iter().any(String::is_empty) {
            return Err(QueryFault::Name);
        }
        Ok(Query {
            names: self.name.iter().map(|pattern| Glob::new(pattern)).collect(),
            by: self.by.clone(),
            via: self.via.clone(),
            since: moment("--since", &self.since)?,
            until: moment("--until", &self.until)?,
            after: after.transpose()?,
            text: self.grep.as_ref().map(|text| memchr::memmem::Finder::new(text).into_owned()),
        })
    }
}

impl Query {
    /// Whether an event is asked for.
    #[must_use]
    pub fn takes(&self, event: &Event<'_>) -> bool {
        self.after.is_none_or(|after| event.seq > after)
            && (self.names.is_empty() || self.names.iter().any(|glob| glob.fits(&event.name)))
            && self.by.as_deref().is_none_or(|by| by == event.by.as_deref().unwrap_or_default())
            && self.via.as_deref().is_none_or(|via| is_through(via, event.via.as_ref()))
            && self.text.as_ref().is_none_or(|text| text.find(event.payload.get().as_bytes()).is_some())
            && self.is_within(&event.occurred_at)
    }

    /// Whether a record can be asked for, as far as its bytes tell in a moment.
    pub(crate) fn may_take(&self, record: &[u8]) -> bool {
        // An absent payload is read as an empty object.
        self.text.as_ref().is_none_or(|text| b"{}".starts_with(text.needle()) || text.find(record).is_some())
    }

    fn is_within(&self, occurred_at: &str) -> bool {
        if self.since.is_none() && self.until.is_none() {
            return true;
        }
        let Some(moment) = moment::read(occurred_at) else { return false };
        self.since.is_none_or(|since| moment >= since) && self.until.is_none_or(|until| moment < until)
    }
}

fn is_through(wanted: &str, via: Option<&Door<'_>>) -> bool {
    let of_kind = match via {
        Some(Door::Http(_)) => wanted == "http",
        Some(Door::Learn(_)) => wanted == "learn",
        Some(Door::Cli | Door::Pipe | Door::Kernel | Door::Other(_)) | None => false,
    };
    of_kind || via.map(Door::text).unwrap_or_default() == wanted
}

/// A whole number, in digits only.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// A moment as a person types it.
fn read_moment(text: &str, now: Timestamp) -> Option<Timestamp> {
    if let Some(moment) = moment::read(text) {
        return Some(moment);
    }
    let is_day = text.len() == 10
        && text.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    if is_day {
        return moment::read(&format!("{text}T00:00:00Z"));
    }
    let (unit, seconds) = UNITS.iter().find(|(unit, _)| text.ends_with(*unit))?;
    let count = text.strip_suffix(*unit).filter(|count| !count.is_empty())?;
    let seconds = i64::try_from(number(count)?).ok()?.saturating_mul(*seconds);
    Some(now.checked_sub(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MIN))
}

/// A pattern for whole names, with case: `*` is any run of characters, `?` one.
#[derive(Debug, Clone)]
pub(crate) struct Glob(Vec<char>);

impl Glob {
    fn new(pattern: &str) -> Glob {
        Glob(pattern.chars().collect())
    }

    /// Whether a name fits. A star that took too little takes one character more; only the last one is ever asked.
    pub(crate) fn fits(&self, name: &str) -> bool {
        let (mut at, mut rest) = (0, name.chars());
        let mut star = None;
        loop {
            let before = rest.clone();
            let Some(char) = rest.next() else { return self.0[at..].iter().all(|wanted| *wanted == '*') };
            match self.0.get(at) {
                Some('*') => {
                    at += 1;
                    rest = before.clone();
                    star = Some((at, before));
                }
                Some(wanted) if *wanted == '?' || *wanted == char => at += 1,
                Some(_) | None => {
                    let Some((behind, mut taken)) = star else { return false };
                    taken.next();
                    (at, rest) = (behind, taken.clone());
                    star = Some((behind, taken));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Line;

    fn now() -> Timestamp {
        "2026-11-30T10:34:18Z".parse().unwrap()
    }

    #[test]
    fn a_glob_is_for_whole_names_with_case() {
        let check = |pattern: &str, fit: &[&str], miss: &[&str]| {
            for name in fit {
                assert!(Glob::new(pattern).fits(name), "{pattern} should fit {name:?}");
            }
            for name in miss {
                assert!(!Glob::new(pattern).fits(name), "{pattern} should not fit {name:?}");
            }
        };
        check("note.taken", &["note.taken"], &["note.take", "note.taken2", "Note.taken", "xnote.taken", ""]);
        check("note.*", &["note.taken", "note.", "note.a.b"], &["note", "notes.x"]);
        check("*", &["", "x", "a.b", "é\n"], &[]);
        check("*.taken", &["note.taken", ".taken", "a.taken.taken"], &["taken", "a.taken.b"]);
        check("a*b*c", &["abc", "axxbxxc", "abcbc", "abbcc"], &["ab", "abcd", "acb"]);
        check("a**b", &["ab", "axb"], &["a", "b"]);
        check("?.b", &["a.b", "é.b"], &[".b", "aa.b"]);
        check("*?", &["a", "ab"], &[""]);
        check("[a].b", &["[a].b"], &["a.b"]);
        check("a*", &[&"a".repeat(10_000)], &[]);
        check(&"*a".repeat(50), &[&"a".repeat(200)], &[&"b".repeat(2_000)]);
    }

    #[test]
    fn a_moment_is_a_time_a_day_or_a_while_ago() {
        let check = |text: &str, expect: Option<&str>| {
            let expect = expect.map(|expect| expect.parse::<Timestamp>().unwrap());
            assert_eq!(read_moment(text, now()), expect, "{text}");
        };
        check("2026-11-30T10:00:00.5+02:00", Some("2026-11-30T08:00:00.5Z"));
        check("2026-11-30", Some("2026-11-30T00:00:00Z"));
        check("0s", Some("2026-11-30T10:34:18Z"));
        check("90s", Some("2026-11-30T10:32:48Z"));
        check("15m", Some("2026-11-30T10:19:18Z"));
        check("2h", Some("2026-11-30T08:34:18Z"));
        check("3d", Some("2026-11-27T10:34:18Z"));
        check("1w", Some("2026-11-23T10:34:18Z"));
        check("9223372036854775807w", Some(&Timestamp::MIN.to_string()));
        for odd in [
            "",
            "d",
            "yesterday",
            "2026-13-01",
            "2026-11-30T10:34:18",
            "-1d",
            "+1d",
            "1.5h",
            "1 d",
            "1D",
            "20261130",
            "7",
            "2026-11-30 10:34:18Z",
            "2026-11-30T10:34Z",
        ] {
            check(odd, None);
        }
    }

    #[track_caller]
    fn check(typed: Typed, expect: [bool; 4]) {
        let lines = [
            r#"{"seq":1,"name":"note.taken","occurred_at":"2026-11-30T10:00:00Z","via":"http:[::1]","by":"ada","payload":{"text":"tea \u00e9"}}"#,
            r#"{"seq":2,"name":"note.taken","occurred_at":"2026-11-29T00:00:00+00:00","via":"learn:tides","payload":{"n":1.10}}"#,
            r#"{"seq":3,"name":"chat.message","occurred_at":"yesterday","via":"pipe","by":"Ada","payload":null}"#,
            r#"{"seq":4,"name":"x"}"#,
        ];
        let query = typed.query(now()).unwrap();
        let found = lines.map(|line| match Line::read(line.as_bytes()) {
            Line::Record(record) => {
                let seq = record.seq.unwrap();
                query.takes(&record.at(seq))
            }
            Line::Blank | Line::Damaged => panic!("{line}"),
        });
        assert_eq!(found, expect, "{typed:?}");
    }

    #[test]
    fn each_filter_takes_what_it_says() {
        let some = |text: &str| Some(text.to_owned());
        let none = Typed::default;
        check(none(), [true; 4]);
        check(Typed { name: vec!["note.*".into()], ..none() }, [true, true, false, false]);
        check(Typed { name: vec!["x".into(), "chat.*".into()], ..none() }, [false, false, true, true]);
        check(Typed { by: some("ada"), ..none() }, [true, false, false, false]);
        check(Typed { by: some(""), ..none() }, [false, true, false, true]);
        check(Typed { via: some("http"), ..none() }, [true, false, false, false]);
        check(Typed { via: some("http:[::1]"), ..none() }, [true, false, false, false]);
        check(Typed { via: some("learn"), ..none() }, [false, true, false, false]);
        check(Typed { via: some("learn:t"), ..none() }, [false; 4]);
        check(Typed { via: some("pipe"), ..none() }, [false, false, true, false]);
        check(Typed { via: some(""), ..none() }, [false, false, false, true]);
        check(Typed { since: some("2026-11-29"), ..none() }, [true, true, false, false]);
        check(Typed { until: some("2026-11-30T10:00:00Z"), ..none() }, [false, true, false, false]);
        check(Typed { since: some("1h"), until: some("0s"), ..none() }, [true, false, false, false]);
        check(Typed { after: some("2"), ..none() }, [false, false, true, true]);
        check(Typed { grep: some("1.10"), ..none() }, [false, true, false, false]);
        check(Typed { grep: some("\\u00e9"), ..none() }, [true, false, false, false]);
        check(Typed { grep: some("é"), ..none() }, [false; 4]);
        check(Typed { grep: some("{}"), ..none() }, [false, false, false, true]);
        check(Typed { name: vec!["note.*".into()], grep: some("te"), via: some("learn"), ..none() }, [false; 4]);
    }

    #[test]
    fn an_odd_value_is_named_in_a_line() {
        let said = |typed: Typed| {
            let fault = typed.one().map(drop).and_then(|()| typed.span().map(drop)).and_then(|()| typed.query(now()).map(drop));
            fault.unwrap_err().to_string()
        };
        let some = |text: &str| Some(text.to_owned());
        let none = Typed::default;
        for odd in ["0", "-1", "x", "", "9007199254740992", "99999999999999999999999"] {
            let line = format!("`{odd}` is no event's number: a whole number from 1 on");
            assert_eq!(said(Typed { seq: some(odd), ..none() }), line);
        }
        assert_eq!(said(Typed { newest: some("x"), ..none() }), "`-n x` is no count: it takes a whole number from 0 on");
        assert_eq!(said(Typed { after: some(""), ..none() }), "`--after ` is no number: it takes a whole number from 0 on");
        assert!(said(Typed { since: some("soon"), ..none() }).starts_with("`--since soon` is no moment: it takes "));
        assert!(said(Typed { until: some("1y"), ..none() }).starts_with("`--until 1y` is no moment: it takes "));
        assert_eq!(said(Typed { grep: some(""), ..none() }), "`--grep` takes a text that is not empty");
        assert_eq!(said(Typed { name: vec![String::new()], ..none() }), "`--name` takes a name that is not empty");
    }
}
