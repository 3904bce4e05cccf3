//! Filters: which events a page lists, as the query of its address.
//!
//! Pure. Reads a query into filters and prints filters as an address. The invariant: an address that filters print is read as the same
//! filters, and every odd value is named with an example.

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::form::{encoded, fields};
use crate::meaning::claim;
use crate::moment;
use crate::query::{Query, Typed};

/// The page of the whole log.
pub const LOG: &str = "/-/log";

/// The page that seeks a text.
pub const SEARCH: &str = "/-/search";

/// A filter of the timeline, each the parameter of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filter {
    /// The event's name, or a pattern.
    Name,
    /// Who the caller said it was.
    By,
    /// The door.
    Via,
    /// A day of UTC.
    Day,
    /// A text in the payload as it is stored.
    Text,
}

impl Filter {
    /// All of them, in the order of an address.
    pub const ALL: [Filter; 5] = [Filter::Name, Filter::By, Filter::Via, Filter::Day, Filter::Text];

    /// Its parameter.
    #[must_use]
    pub fn param(self) -> &'static str {
        match self {
            Filter::Name => "name",
            Filter::By => "by",
            Filter::Via => "via",
            Filter::Day => "day",
            Filter::Text => "q",
        }
    }

    /// What it filters by, in words.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Filter::Name => "Name",
            Filter::By => "Speaker",
            Filter::Via => "Door",
            Filter::Day => "Day",
            Filter::Text => "Text",
        }
    }
}

/// Which events are listed, and from which place back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Filters {
    /// A name; `*` is any run of characters, `?` one.
    pub name: Option<String>,
    /// A speaker, exactly; an empty one is none.
    pub by: Option<String>,
    /// A door, exactly, or `http` or `learn` for all of their kind; an empty one is none.
    pub via: Option<String>,
    /// A day of UTC, `YYYY-MM-DD`.
    pub day: Option<String>,
    /// A text that the payload holds, as it is stored.
    pub q: Option<String>,
    /// Only what stands in front of this byte of the log.
    pub before: Option<u64>,
}

/// Why a query gives no filters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FilterFault {
    /// A parameter that there is not.
    #[error("`{param}` is no parameter of {path}: it takes {known}, as in {path}?q=tea")]
    Unknown {
        /// The parameter.
        param: String,
        /// The page.
        path: &'static str,
        /// What it takes.
        known: String,
    },
    /// A parameter that is given twice.
    #[error("`{param}` stands in the query twice: once is enough, as in {path}?{param}={example}")]
    Twice {
        /// The parameter.
        param: String,
        /// The page.
        path: &'static str,
        /// A value that it could have.
        example: &'static str,
    },
    /// Some parameter is no text.
    #[error("parameter {at} of the query is not UTF-8, or holds a NUL: a text is written as in {path}?q=caf%C3%A9")]
    Text {
        /// Which one, from 1.
        at: usize,
        /// The page.
        path: &'static str,
    },
    /// No day.
    #[error("`day` is a day of UTC, and not `{0}`: /-/log?day=2026-11-30")]
    Day(String),
    /// No place.
    #[error(
        "`before` is a byte of the log at which a line starts, and not `{given}`; the links of the page have it: {path}?before=0"
    )]
    Before {
        /// What was given.
        given: String,
        /// The page.
        path: &'static str,
    },
    /// Nothing that could be left out.
    #[error("`without` is `by` or `via`, and not `{0}`: /-/log?without=by")]
    Without(String),
}

/// A value that a parameter could have.
fn example(param: &str) -> &'static str {
    match param {
        "name" => "note.*",
        "by" => "ada",
        "via" => "pipe",
        "day" => "2026-11-30",
        "before" => "0",
        "without" => "by",
        _ => "tea",
    }
}

impl Filters {
    /// Reads the query of an address of the log's page, or of the page that seeks a text; a parameter without a value is left out.
    /// `without=by` and `without=via` stand for events that bear none; a value of the same parameter goes before them.
    ///
    /// # Errors
    /// When a parameter is unknown there, is given twice, or has a value that it cannot have.
    pub fn read(path: &'static str, query: Option<&str>) -> Result<Filters, FilterFault> {
        let known: &[&str] =
            if path == SEARCH { &["q", "before"] } else { &["name", "by", "via", "day", "q", "before", "without"] };
        let text = query.unwrap_or_default();
        let form = Some(&b"application/x-www-form-urlencoded"[..]);
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).enumerate();
        let mut filters = Filters::default();
        let (mut seen, mut without) = (Vec::new(), Vec::new());
        for (at, pair) in pairs {
            let field = fields(form, pair.as_bytes()).map_err(|_| FilterFault::Text { at: at + 1, path })?;
            let Some(field) = field.into_iter().next() else { continue };
            let (param, value) = (field.name, field.value);
            if !known.contains(&param.as_str()) {
                let known = known.iter().map(|param| format!("`{param}`")).collect::<Vec<_>>().join(", ");
                return Err(FilterFault::Unknown { param: claim(Some(&param)), path, known });
            }
            if value.is_empty() {
                continue;
            }
            if seen.contains(&param) && param != "without" {
                return Err(FilterFault::Twice { example: example(&param), param, path });
            }
            match param.as_str() {
                "name" => filters.name = Some(value),
                "by" => filters.by = Some(value),
                "via" => filters.via = Some(value),
                "day" if is_day(&value) => filters.day = Some(value),
                "day" => return Err(FilterFault::Day(claim(Some(&value)))),
                "q" => filters.q = Some(value),
                "without" if value == "by" || value == "via" => without.push(value),
                "without" => return Err(FilterFault::Without(claim(Some(&value)))),
                _ => match value.parse() {
                    Ok(place) if value.bytes().all(|byte| byte.is_ascii_digit()) => filters.before = Some(place),
                    Ok(_) | Err(_) => return Err(FilterFault::Before { given: claim(Some(&value)), path }),
                },
            }
            seen.push(param);
        }
        for param in without {
            let filter = if param == "by" { &mut filters.by } else { &mut filters.via };
            filter.get_or_insert_default();
        }
        Ok(filters)
    }

    /// What is asked of the log.
    #[must_use]
    pub fn query(&self) -> Query {
        let day = self.day.as_deref().and_then(first_of);
        let next = day.and_then(|day| day.checked_add(SignedDuration::from_hours(24)).ok());
        let typed = Typed {
            name: self.name.iter().cloned().collect(),
            by: self.by.clone(),
            via: self.via.clone(),
            since: day.map(|day| day.to_string()),
            until: next.map(|next| next.to_string()),
            grep: self.q.clone(),
            ..Typed::default()
        };
        typed.query(Timestamp::UNIX_EPOCH).expect("a name and a text are not empty, and moments are printed whole")
    }

    /// The value of a filter.
    #[must_use]
    pub fn get(&self, filter: Filter) -> Option<&str> {
        match filter {
            Filter::Name => self.name.as_deref(),
            Filter::By => self.by.as_deref(),
            Filter::Via => self.via.as_deref(),
            Filter::Day => self.day.as_deref(),
            Filter::Text => self.q.as_deref(),
        }
    }

    /// Whether there is a filter.
    #[must_use]
    pub fn is_set(&self) -> bool {
        Filter::ALL.into_iter().any(|filter| self.get(filter).is_some())
    }

    /// The same with a filter set, or removed, from the newest on.
    #[must_use]
    pub fn with(&self, filter: Filter, value: Option<&str>) -> Filters {
        let mut with = Filters { before: None, ..self.clone() };
        let place = match filter {
            Filter::Name => &mut with.name,
            Filter::By => &mut with.by,
            Filter::Via => &mut with.via,
            Filter::Day => &mut with.day,
            Filter::Text => &mut with.q,
        };
        *place = value.map(str::to_owned);
        with
    }

    /// The same from another place back; `None` means from the newest.
    #[must_use]
    pub fn before(&self, before: Option<u64>) -> Filters {
        Filters { before, ..self.clone() }
    }

    /// The address of a page with these filters.
    #[must_use]
    pub fn address(&self, path: &str) -> String {
        let mut address = path.to_owned();
        let mut add = |param: &str, value: &str| {
            address.push(if address.contains('?') { '&' } else { '?' });
            address.push_str(&format!("{param}={}", encoded(value)));
        };
        for filter in Filter::ALL {
            match self.get(filter) {
                Some("") => add("without", filter.param()),
                Some(value) => add(filter.param(), value),
                None => {}
            }
        }
        if let Some(before) = self.before {
            add("before", &before.to_string());
        }
        address
    }
}

/// Whether a text is a day of the calendar, `YYYY-MM-DD`.
#[must_use]
pub fn is_day(text: &str) -> bool {
    first_of(text).is_some()
}

/// The first moment of a day of UTC.
fn first_of(day: &str) -> Option<Timestamp> {
    (day.len() == "2026-11-30".len()).then(|| moment::read(&format!("{day}T00:00:00Z")))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_the_filters_that_printed_it() {
        let some = |text: &str| Some(text.to_owned());
        let evil = "a&b=c?#%+ \"<\u{1b}é\u{202e}";
        let filters = Filters {
            name: some("note.*"),
            by: some(evil),
            via: some(""),
            day: some("2026-11-30"),
            q: some(evil),
            before: Some(7),
        };
        for filters in [filters.clone(), Filters::default(), filters.with(Filter::By, Some("")).before(None)] {
            let address = filters.address(LOG);
            assert!(address.is_ascii() && !address.contains(['"', '<', ' ', '#']), "{address}");
            let query = address.split_once('?').map(|(_, query)| query);
            assert_eq!(Filters::read(LOG, query), Ok(filters), "{address}");
        }
        assert_eq!(filters.with(Filter::Day, None).address(LOG).matches('=').count(), 4, "another filter starts at the newest");
        let typed = Filters::read(LOG, Some("by=ada&without=by&name=&q=&&via"));
        assert_eq!(typed, Ok(Filters { by: some("ada"), ..Filters::default() }), "as a form sends it");
    }

    #[track_caller]
    fn check(path: &'static str, query: &str, expect: &str) {
        assert_eq!(Filters::read(path, Some(query)).unwrap_err().to_string(), expect);
    }

    #[test]
    fn an_odd_value_is_named_with_an_example() {
        for day in ["x", "2026-13-01", "2026-1-1", "20261130", "2026-11-30T00:00:00Z", "%1b%E2%80%AE"] {
            let given = claim(Some(&crate::form::decoded(day.as_bytes(), true).unwrap()));
            check(LOG, &format!("day={day}"), &format!("`day` is a day of UTC, and not `{given}`: /-/log?day=2026-11-30"));
        }
        for place in ["-1", "+1", "x", "1.5", "99999999999999999999"] {
            let given = place.replace('+', " ");
            check(
                SEARCH,
                &format!("before={place}"),
                &format!(
                    "`before` is a byte of the log at which a line starts, and not `{given}`; the links of the page have it: /-/search?before=0"
                ),
            );
        }
        check(
            LOG,
            "nane=x",
            "`nane` is no parameter of /-/log: it takes `name`, `by`, `via`, `day`, `q`, `before`, `without`, as in /-/log?q=tea",
        );
        check(SEARCH, "by=x", "`by` is no parameter of /-/search: it takes `q`, `before`, as in /-/search?q=tea");
        check(LOG, "name=a&name=b", "`name` stands in the query twice: once is enough, as in /-/log?name=note.*");
        check(
            LOG,
            "q=a&q=%FF",
            "parameter 2 of the query is not UTF-8, or holds a NUL: a text is written as in /-/log?q=caf%C3%A9",
        );
        check(LOG, "without=name", "`without` is `by` or `via`, and not `name`: /-/log?without=by");
    }
}
