//! What a capability takes and what it gives, drawn: the events on its left, what comes of them on its right.
//!
//! A value made from the state, and its drawing: shapes without a link, without a style of their own, and with their meaning in words. The
//! invariant: what is drawn stands in the table below it too, whole.

use maud::{Markup, html};
use serde::Serialize;

use crate::capability::{Capability, Declaration, Kind};
use crate::effect::pages_of;
use crate::form::encoded;
use crate::names::REST;
use crate::page::{path, word};
use crate::state::State;

/// How many of a projector's names are looked at; the others are counted.
pub const STREAMS_MAX: usize = 200;

/// How many streams are drawn on each side; the others stand in the table.
const DRAWN_MAX: usize = 8;

/// How much of a name is drawn beside the middle, in characters.
const NAME_CHARS_MAX: usize = 17;

/// How much of the capability's own name is drawn, in characters.
const OWN_CHARS_MAX: usize = 40;

/// The drawing's width and the height of a row, in its own units.
const WIDTH: usize = 320;
const ROW: usize = 36;

/// The room above the rows, for the capability's own name.
const HEAD: usize = 30;

/// What flows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Stream {
    /// All events.
    Log {
        /// How many there are.
        count: u64,
    },
    /// The events of a name.
    Event {
        /// The name.
        name: String,
        /// How many there are, if they are counted.
        #[serde(skip_serializing_if = "Option::is_none")]
        count: Option<u64>,
        /// The commands that say that they emit it, or the projectors that consume it.
        by: Vec<String>,
    },
    /// A page.
    Page {
        /// Where the server has it.
        path: String,
    },
}

/// What a capability takes and gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Flow {
    /// What it takes.
    pub takes: Vec<Stream>,
    /// What it gives.
    pub gives: Vec<Stream>,
    /// How many of the names that it takes are left out.
    pub left_out: usize,
}

impl Flow {
    /// What flows through a capability, as its declaration has it.
    #[must_use]
    pub fn of(state: &State, capability: &Capability, declaration: Option<&Declaration>) -> Flow {
        match capability.kind {
            Kind::Command => {
                let event = declaration.and_then(|declaration| declaration.event.as_ref());
                let fed =
                    |name: &str| pages_of(state, |consumed| consumed == name, true).iter().map(ToString::to_string).collect();
                let gives = event.map(|event| Stream::Event {
                    name: event.name.clone(),
                    count: count(state, &event.name),
                    by: fed(&event.name),
                });
                Flow { takes: vec![Stream::Log { count: state.events() }], gives: gives.into_iter().collect(), left_out: 0 }
            }
            Kind::Projector => {
                let names = declaration.map_or(&[][..], |declaration| &declaration.consumes);
                let event =
                    |name: &String| Stream::Event { name: name.clone(), count: count(state, name), by: emitters(state, name) };
                let takes: Vec<_> = match names {
                    [] => vec![Stream::Log { count: state.events() }],
                    names => names.iter().take(STREAMS_MAX).map(event).collect(),
                };
                let left_out = names.len().saturating_sub(STREAMS_MAX);
                Flow { takes, gives: vec![Stream::Page { path: path(capability) }], left_out }
            }
        }
    }
}

/// How many events there are of a name; `None` if it has no entry of its own among very many.
fn count(state: &State, name: &str) -> Option<u64> {
    let names = state.named();
    match names.id(name) {
        REST if names.entry(REST).count > 0 => None,
        REST => Some(0),
        id => Some(names.entry(id).count),
    }
}

/// The installed commands that say that they emit events of this name.
fn emitters(state: &State, name: &str) -> Vec<String> {
    let emits = |capability: &Capability| {
        let declared = state.standing(capability)?.installed()?.declaration.as_ref()?;
        declared.declaration.event.as_ref().filter(|event| event.name == name).map(|_| capability.to_string())
    };
    state.capabilities().filter_map(|(capability, _)| emits(capability)).collect()
}

impl Stream {
    fn name(&self) -> String {
        match self {
            Stream::Log { .. } => "every event".to_owned(),
            Stream::Event { name, .. } => word(name),
            Stream::Page { path } => word(path),
        }
    }

    fn count(&self) -> String {
        match self {
            Stream::Log { count: 1 } | Stream::Event { count: Some(1), .. } => "1 event".to_owned(),
            Stream::Log { count } | Stream::Event { count: Some(count), .. } => format!("{count} events"),
            Stream::Event { count: None, .. } => "not counted".to_owned(),
            Stream::Page { .. } => "a page".to_owned(),
        }
    }
}

/// A text that fits, its end left out.
fn fitting(text: &str, chars: usize) -> String {
    if text.chars().count() <= chars { text.to_owned() } else { text.chars().take(chars - 1).chain(['…']).collect() }
}

impl Flow {
    /// The drawing, and what it shows as a table.
    #[must_use]
    pub fn view(&self, capability: &Capability) -> Markup {
        html! {
            figure { (self.drawing(capability)) }
            @if self.left_out > 0 { p.muted { "The first " (STREAMS_MAX) " of " (STREAMS_MAX + self.left_out) " names." } }
            table.flows {
                thead { tr { th scope="col" { "It" } th scope="col" { "what" } th.num scope="col" { "events" } th scope="col" { "other end" } } }
                tbody {
                    @for stream in &self.takes { (row("takes", stream)) }
                    @for stream in &self.gives { (row("gives", stream)) }
                }
            }
        }
    }

    fn drawing(&self, capability: &Capability) -> Markup {
        let rows = self.takes.len().max(self.gives.len()).clamp(1, DRAWN_MAX + 1);
        let height = HEAD + rows * ROW + 4;
        let middle = HEAD + rows * ROW / 2;
        let in_words = |streams: &[Stream]| match streams {
            [] => "nothing that it names".to_owned(),
            streams => {
                let all: Vec<_> = streams
                    .iter()
                    .take(DRAWN_MAX)
                    .map(|stream| format!("{} ({})", fitting(&stream.name(), OWN_CHARS_MAX), stream.count()))
                    .collect();
                let more = streams.len().saturating_sub(DRAWN_MAX);
                all.join(", ") + &if more > 0 { format!(" and {more} more") } else { String::new() }
            }
        };
        let label =
            format!("{} takes {} and gives {}", word(&capability.to_string()), in_words(&self.takes), in_words(&self.gives));
        let centre = WIDTH / 2;
        html! {
            svg.flow role="img" aria-label=(label) viewBox=(format!("0 0 {WIDTH} {height}")) width=(WIDTH) height=(height) {
                text x=(centre) y="14" text-anchor="middle" { (fitting(&word(&capability.to_string()), OWN_CHARS_MAX)) }
                @for (y, name, count) in placed(&self.takes, rows) {
                    path d=(format!("M130 {y} C146 {y} 140 {middle} 152 {middle}")) {}
                    text x="126" y=(y - 2) text-anchor="end" { (name) }
                    text.soft x="126" y=(y + 12) text-anchor="end" { (count) }
                }
                @for (y, name, count) in placed(&self.gives, rows) {
                    path d=(format!("M168 {middle} C180 {middle} 174 {y} 187 {y}")) {}
                    polygon points=(format!("185,{} 191,{y} 185,{}", y - 4, y + 4)) {}
                    text x="194" y=(y - 2) { (name) }
                    text.soft x="194" y=(y + 12) { (count) }
                }
                circle cx=(centre) cy=(middle) r="8" {}
            }
        }
    }
}

/// Where each stream of a side stands, what it is called, and how many events it has.
fn placed(streams: &[Stream], rows: usize) -> Vec<(usize, String, String)> {
    let mut shown: Vec<_> =
        streams.iter().take(DRAWN_MAX).map(|stream| (fitting(&stream.name(), NAME_CHARS_MAX), stream.count())).collect();
    if streams.len() > DRAWN_MAX {
        shown.push((format!("{} more", streams.len() - DRAWN_MAX), "in the table".to_owned()));
    }
    let top = HEAD + (rows - shown.len().min(rows)) * ROW / 2 + ROW / 2;
    shown.into_iter().enumerate().map(|(at, (name, count))| (top + at * ROW, name, count)).collect()
}

fn row(verb: &str, stream: &Stream) -> Markup {
    let count = match stream {
        Stream::Log { count } => Some(*count),
        Stream::Event { count, .. } => *count,
        Stream::Page { .. } => None,
    };
    let by = match stream {
        Stream::Event { by, .. } => &by[..],
        Stream::Log { .. } | Stream::Page { .. } => &[],
    };
    html! {
        tr {
            th scope="row" { (verb) }
            td {
                @match stream {
                    Stream::Log { .. } => "every event",
                    Stream::Event { name, .. } => a href=(format!("/-/log?name={}", encoded(name))) { code { (word(name)) } },
                    Stream::Page { path } => a href=(path) { "the page " code { (word(path)) } },
                }
            }
            td.num { @if let Some(count) = count { (count) } }
            td { @for (at, other) in by.iter().enumerate() { @if at > 0 { ", " } a href=(page_of(other)) { (word(other)) } } }
        }
    }
}

/// Where the page of a capability is, as the log speaks of it: `command/note`.
#[must_use]
pub fn page_of(capability: &str) -> String {
    format!("/-/capability/{}", encoded(capability))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::CapabilityName;

    fn capability(kind: Kind, name: &str) -> Capability {
        Capability { kind, name: CapabilityName::inherited(name).unwrap() }
    }

    fn event(name: &str, count: u64) -> Stream {
        Stream::Event { name: name.to_owned(), count: Some(count), by: vec!["command/x".to_owned()] }
    }

    #[test]
    fn a_drawing_says_in_words_what_it_shows() {
        let flow = Flow {
            takes: vec![event("a.b", 1), event("c.d", 20)],
            gives: vec![Stream::Page { path: "/notes".to_owned() }],
            left_out: 0,
        };
        let view = flow.view(&capability(Kind::Projector, "notes")).into_string();
        for part in [
            r#"role="img" aria-label="projector/notes takes a.b (1 event), c.d (20 events) and gives /notes (a page)""#,
            r#"viewBox="0 0 320 106""#,
            r#"<a href="/-/log?name=c.d"><code>c.d</code></a></td><td class="num">20</td><td><a href="/-/capability/command/x">command/x</a>"#,
        ] {
            assert!(view.contains(part), "{part} in {view}");
        }
    }

    #[test]
    fn many_long_and_hostile_names_are_cut_in_the_drawing_and_whole_in_the_table() {
        let long = "<script>\"'&".to_owned() + &"n".repeat(100);
        let takes: Vec<_> = (0..30).map(|at| event(&format!("{long}.{at}"), at)).collect();
        let flow = Flow { takes, gives: Vec::new(), left_out: 0 };
        let view = flow.view(&capability(Kind::Projector, "<b>")).into_string();
        let (drawing, table) = view.split_once("</svg>").unwrap();
        assert!(drawing.contains(">&lt;script&gt;&quot;'&amp;nnnnn…</text>") && drawing.contains(">22 more</text>"), "{drawing}");
        assert!(drawing.contains("and gives nothing that it names"), "{drawing}");
        assert_eq!(table.matches(&format!(".{}</code>", 29)).count(), 1);
        assert!(!view.contains("<script>") && !view.contains("<b>"), "{view}");
        let height: usize = drawing.split("height=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap();
        let ys = drawing.split(" y=\"").skip(1).map(|rest| rest.split('"').next().unwrap().parse::<usize>().unwrap());
        assert!(ys.max().unwrap() < height, "{drawing}");
    }

    #[test]
    fn a_command_takes_the_log_and_a_page_what_it_consumes() {
        let state = State::new(None);
        let flow = Flow::of(&state, &capability(Kind::Command, "x"), None);
        assert_eq!(flow, Flow { takes: vec![Stream::Log { count: 0 }], gives: Vec::new(), left_out: 0 });
        let flow = Flow::of(&state, &capability(Kind::Projector, "a b"), None);
        assert_eq!(flow.gives, [Stream::Page { path: "/a%20b".to_owned() }]);
    }
}
