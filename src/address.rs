//! The address of a capability's profile: what it asks for, and what is said where it leads nowhere.
//!
//! Reads the path and the query as they came. Never looks into the log. The invariant: an address names a capability, or it is refused with
//! those whose names are near.

use std::collections::BTreeSet;

use maud::{Markup, html};

use crate::capability::{Capability, CapabilityName, Kind};
use crate::catalogue::{self, near};
use crate::flow::page_of;
use crate::form::decoded;
use crate::page::{told, word};
use crate::state::State;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Whose profile.
    pub capability: Capability,
    /// Whether as JSON.
    pub json: bool,
    /// The versions that are compared, the older one in front, by the numbers of their receipts; 0 for the one before, or the newest.
    pub compared: Option<(u64, u64)>,
}

/// Why there is no profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Nowhere {
    /// The log tells of no such capability; those whose names are near.
    Unknown {
        /// What was asked for.
        name: String,
        /// What is near.
        near: Vec<String>,
    },
    /// A version that was to be compared is none; in words.
    NoVersion(String),
}

impl Nowhere {
    /// In a line.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Nowhere::Unknown { name, near } if near.is_empty() => format!("the log tells of no capability `{}`", word(name)),
            Nowhere::Unknown { name, near } => {
                let verb = if near.len() == 1 { "is" } else { "are" };
                format!("the log tells of no capability `{}`; near it {verb} {}", word(name), word(&near.join(", ")))
            }
            Nowhere::NoVersion(words) => words.clone(),
        }
    }

    /// As a page.
    #[must_use]
    pub fn view(&self) -> Markup {
        match self {
            Nowhere::Unknown { name, near } => html! {
                h1 { "There is no such capability" }
                p { "The log tells of no capability " code { (word(name)) } "." }
                @if !near.is_empty() {
                    p { "Names that are near:" }
                    ul { @for name in near { li { a href=(page_of(name)) { code { (word(name)) } } } } }
                }
                p { a href=(catalogue::PATH) { "All capabilities" } }
            },
            Nowhere::NoVersion(words) => html! { h1 { "Not understood" } p { (told(words)) } },
        }
    }
}

impl Asked {
    /// Reads an address below the catalogue's, still encoded, and its query. `.json` behind a name asks for its twin, unless the name
    /// itself ends so.
    ///
    /// # Errors
    /// When it names no capability, or a number is none.
    pub fn read(state: &State, below: &str, query: Option<&str>) -> Result<Asked, Nowhere> {
        let text = decoded(below.as_bytes(), false).unwrap_or_default();
        let named = |text: &str| {
            let (kind, name) = text.split_once('/')?;
            Some(Capability { kind: Kind::read(kind)?, name: CapabilityName::inherited(name)? })
        };
        let whole = named(&text);
        let is_whole = whole.as_ref().is_some_and(|capability| state.standing(capability).is_some());
        let bare = text.strip_suffix(".json").filter(|_| !is_whole);
        let Some(capability) = bare.map_or(whole, named) else {
            let name = text.split_once('/').filter(|(kind, _)| Kind::read(kind).is_some()).map_or(&*text, |(_, name)| name);
            return Err(Nowhere::Unknown { near: near(state, name), name: text.clone() });
        };
        Ok(Asked { capability, json: bare.is_some(), compared: compared(query)? })
    }

    /// The numbers of the receipts whose scripts are needed whatever room they take.
    #[must_use]
    pub fn receipts(&self) -> BTreeSet<u64> {
        self.compared.into_iter().flat_map(|(from, to)| [from, to]).filter(|seq| *seq > 0).collect()
    }
}

/// The versions to compare, out of `from=12&to=34`; a missing one, or one left empty, is 0.
fn compared(query: Option<&str>) -> Result<Option<(u64, u64)>, Nowhere> {
    let pairs: Vec<_> = query.unwrap_or_default().split('&').filter_map(|pair| pair.split_once('=')).collect();
    let number = |key: &str| {
        let Some((_, value)) = pairs.iter().find(|(name, _)| *name == key) else { return Ok(None) };
        let words = format!("`{key}` is the number of a version's receipt, such as ?from=12&to=34");
        if value.is_empty() { Ok(Some(0)) } else { value.parse().map(Some).map_err(|_| Nowhere::NoVersion(words)) }
    };
    Ok(match (number("from")?, number("to")?) {
        (None, None) => None,
        (from, to) => Some((from.unwrap_or(0), to.unwrap_or(0))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name, whether its twin is meant, and what is compared.
    type Read<'r> = (&'r str, bool, Option<(u64, u64)>);

    #[track_caller]
    fn check(below: &str, query: Option<&str>, expect: Result<Read<'_>, &str>) {
        let asked = Asked::read(&State::new(None), below, query);
        let found =
            asked.map(|asked| (asked.capability.to_string(), asked.json, asked.compared)).map_err(|nowhere| nowhere.words());
        assert_eq!(
            found,
            expect.map(|(name, json, compared)| (name.to_owned(), json, compared)).map_err(str::to_owned),
            "{below}"
        );
    }

    #[test]
    fn an_address_names_a_capability_and_what_is_compared() {
        check("command/note", None, Ok(("command/note", false, None)));
        check("projector/a/b.json", None, Ok(("projector/a/b", true, None)));
        check("command/a%20b%2Fc%C3%A9", Some(""), Ok(("command/a b/cé", false, None)));
        check("command/note", Some("from=3&to=7"), Ok(("command/note", false, Some((3, 7)))));
        check("command/note", Some("to=7&x=1"), Ok(("command/note", false, Some((0, 7)))));
        check("command/note", Some("from="), Ok(("command/note", false, Some((0, 0)))));
    }

    #[test]
    fn an_address_that_names_none_is_refused() {
        for below in ["", "command", "command/", "tool/note", "command/../x", "command//x", "command/.x", "command/a%5Cb"] {
            let words = format!("the log tells of no capability `{}`", below.replace("%5C", "\\"));
            check(below, None, Err(&words));
        }
        check("command/%FF", None, Err("the log tells of no capability ``"));
        check("command/x", Some("from=1.5"), Err("`from` is the number of a version's receipt, such as ?from=12&to=34"));
    }
}
