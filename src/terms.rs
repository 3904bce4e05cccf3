//! Terms: what a declaration says, as values that a page and its JSON twin share.
//!
//! Made from a declaration; every text of the log is escaped. The invariant: what is left out on the page is counted there, and stands in
//! the twin.

use maud::{Markup, html};
use serde::Serialize;

use crate::capability::{Declaration, Kind, Need, is_optional};
use crate::page::word;

/// How many arguments, fields, needs or names of a declaration a page shows.
const SHOWN_MAX: usize = 100;

/// A parameter or a field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Term {
    /// Its name.
    pub name: String,
    /// Its type word.
    #[serde(rename = "type")]
    pub type_word: String,
    /// Whether it may be left out.
    pub optional: bool,
}

/// The event that a command says it emits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Promise {
    /// Its name.
    pub name: String,
    /// Its fields, in order of name.
    pub fields: Vec<Term>,
}

/// What a declaration says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Terms {
    /// What it is for.
    pub description: String,
    /// A command's arguments, in order.
    pub params: Vec<Term>,
    /// The event it emits, if it says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<Promise>,
    /// What it may touch, as the declaration spells it.
    pub needs: Vec<String>,
    /// The same in words.
    pub may: Vec<String>,
    /// The event names a projector is fed; empty means all.
    pub consumes: Vec<String>,
    /// How many of the newest events of each it is fed, if not all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<u64>,
}

fn terms<'t>(pairs: impl IntoIterator<Item = (&'t String, &'t String)>) -> Vec<Term> {
    let term = |(name, type_word): (&String, &String)| Term {
        name: name.clone(),
        type_word: type_word.clone(),
        optional: is_optional(type_word),
    };
    pairs.into_iter().map(term).collect()
}

impl Terms {
    /// What a declaration says.
    #[must_use]
    pub fn of(declaration: &Declaration) -> Terms {
        Terms {
            description: declaration.description.clone(),
            params: terms(declaration.params.iter().map(|(name, type_word)| (name, type_word))),
            event: declaration.event.as_ref().map(|event| Promise { name: event.name.clone(), fields: terms(&event.fields) }),
            needs: declaration.needs.iter().map(ToString::to_string).collect(),
            may: declaration.needs.iter().map(Need::words).collect(),
            consumes: declaration.consumes.clone(),
            last: declaration.last,
        }
    }

    /// A line for each thing it says, so that two can be compared.
    #[must_use]
    pub fn lines(&self) -> String {
        let mut lines: Vec<_> = self.description.lines().map(|line| format!("description: {line}")).collect();
        lines.extend(self.params.iter().map(|term| format!("argument {}: {}", term.name, term.type_word)));
        if let Some(event) = &self.event {
            lines.push(format!("event {}", event.name));
            lines.extend(event.fields.iter().map(|term| format!("field {}: {}", term.name, term.type_word)));
        }
        lines.extend(self.needs.iter().map(|need| format!("needs {need}")));
        lines.extend(self.consumes.iter().map(|name| format!("consumes {name}")));
        lines.extend(self.last.map(|last| format!("last {last}")));
        lines.iter().map(|line| line.replace(['\n', '\r'], " ") + "\n").collect()
    }

    /// In words, as terms of a list.
    #[must_use]
    pub fn view(&self, kind: Kind) -> Markup {
        let pairs: Vec<_> = self.may.iter().zip(&self.needs).collect();
        html! {
            section {
                h2 { "What it says of itself" }
                dl {
                    @match kind {
                        Kind::Command => {
                            dt { "Arguments" }
                            dd { @if self.params.is_empty() { "none" } @else { ol { (items(&self.params, of)) } } }
                            dt { "Records" }
                            dd {
                                @match &self.event {
                                    None => "what it likes: it names no event",
                                    Some(event) => {
                                        code { (word(&event.name)) }
                                        @if !event.fields.is_empty() { ul { (items(&event.fields, of)) } }
                                    },
                                }
                            }
                            dt { "May" }
                            dd {
                                @if self.may.is_empty() { "touch nothing beyond the log, the home's pages and a folder of its own" }
                                @else { ul { (items(&pairs, |(may, need)| html! { (word(may)) " " span.muted { "(" code { (word(need)) } ")" } })) } }
                            }
                        },
                        Kind::Projector => {
                            dt { "Is made of" }
                            dd {
                                @if self.consumes.is_empty() { "every event" }
                                @for (at, name) in self.consumes.iter().take(SHOWN_MAX).enumerate() { @if at > 0 { ", " } code { (word(name)) } }
                                @if self.consumes.len() > SHOWN_MAX { " and " (self.consumes.len() - SHOWN_MAX) " more" }
                                @if let Some(last) = self.last { ", the newest " (last) @if !self.consumes.is_empty() { " of each" } }
                            }
                        },
                    }
                }
            }
        }
    }
}

/// Items of a list, the first few.
fn items<T>(all: &[T], shown: impl Fn(&T) -> Markup) -> Markup {
    html! {
        @for one in all.iter().take(SHOWN_MAX) { li { (shown(one)) } }
        @if all.len() > SHOWN_MAX { li.muted { (all.len() - SHOWN_MAX) " more" } }
    }
}

fn of(term: &Term) -> Markup {
    html! {
        code { (word(&term.name)) }
        @if !term.type_word.is_empty() { " " span.muted { (word(&term.type_word)) } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::Payload;

    fn terms_of(kind: Kind, payload: &str) -> Terms {
        Terms::of(&Declaration::read(kind, Payload::read(payload).unwrap().as_ref()).unwrap())
    }

    #[test]
    fn what_a_declaration_says_is_a_line_each() {
        let terms = terms_of(
            Kind::Command,
            r#"{"name":"n","description":"one\ntwo","params":{"a\nb":"string"},"event":{"name":"a.b","fields":{"x":"integer"}},"needs":["net"]}"#,
        );
        assert_eq!(
            terms.lines(),
            "description: one\ndescription: two\nargument a b: string\nevent a.b\nfield x: integer\nneeds net\n"
        );
        let terms = terms_of(Kind::Projector, r#"{"name":"n","consumes":["a.b","c.d"],"last":7}"#);
        assert_eq!(terms.lines(), "consumes a.b\nconsumes c.d\nlast 7\n");
    }

    #[test]
    fn a_projector_is_made_of_what_it_consumes() {
        let check = |payload: &str, expect: &str| {
            let view = terms_of(Kind::Projector, payload).view(Kind::Projector).into_string();
            let whole =
                format!("<section><h2>What it says of itself</h2><dl><dt>Is made of</dt><dd>{expect}</dd></dl></section>");
            assert_eq!(view, whole);
        };
        check(r#"{"name":"n"}"#, "every event");
        check(r#"{"name":"n","last":7}"#, "every event, the newest 7");
        check(r#"{"name":"n","consumes":["a.b"],"last":7}"#, "<code>a.b</code>, the newest 7 of each");
    }

    #[test]
    fn what_is_over_the_bound_is_counted() {
        let params: Vec<_> = (0..SHOWN_MAX + 9).map(|at| format!(r#""p{at}":"string""#)).collect();
        let terms = terms_of(Kind::Command, &format!(r#"{{"name":"n","params":{{{}}}}}"#, params.join(",")));
        let view = terms.view(Kind::Command).into_string();
        assert!(
            view.contains(r#"<code>p99</code> <span class="muted">string</span></li><li class="muted">9 more</li>"#),
            "{view}"
        );
        assert_eq!(terms.params.len(), SHOWN_MAX + 9, "the twin has all");
    }
}
