//! The shell: what the local server puts around a page.
//!
//! Head, navigation, `main`, one stylesheet and one module, both files of their own; views of the state, every text of the log
//! escaped. Pages on disk stay bare: this is added when one is sent. The invariant: every page works without script and without
//! style, and holds neither inline.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde::Serialize;

use crate::capability::{Capability, CapabilityName, Declaration, Kind, Need};
use crate::entry::address;
use crate::event::{Door, Event};
use crate::form::{Field, encoded};
use crate::input::Input;
use crate::moment;
use crate::page::{self, told, word};
use crate::record;
use crate::state::State;
use crate::wash::Washed;

/// The stylesheet, served as `/-/self.css`.
pub const STYLE: &str = include_str!("../assets/self.css");

/// The module, served as `/-/self.js`.
pub const MODULE: &str = include_str!("../assets/self.js");

/// The icon, served as `/-/self.svg`.
pub const ICON: &str = include_str!("../assets/self.svg");

/// The projection that takes the place of the front page.
pub const WELCOME: &str = "welcome";

/// How many inputs a form has; the arguments behind them are for a terminal.
const INPUTS_MAX: usize = 64;

/// How many projections the navigation shows in its row; the others are folded.
const PAGES_SHOWN_MAX: usize = 12;

/// The class words that the stylesheet gives a look to, for projections to use; LESSONS.md and the script contract list them.
pub const CLASS_WORDS: [&str; 10] = ["card", "row", "tag", "num", "msg", "who", "muted", "good", "warn", "danger"];

/// What stands around a page.
pub struct Frame<'f> {
    /// The document's title.
    pub title: &'f str,
    /// The path of the page, as the navigation has it.
    pub here: &'f str,
    /// What the log says.
    pub state: &'f State,
    /// What the reader should be told above the page.
    pub words: &'f [String],
    /// Whether the page can be fetched anew at its own address.
    pub live: bool,
}

/// The page itself.
pub enum Body<'b> {
    /// One of the kernel's own.
    Ours(Markup),
    /// A projection.
    Washed(&'b Washed),
    /// A projection, below what a run recorded.
    Below(Markup, &'b Washed),
}

/// The whole document.
#[must_use]
pub fn document(frame: &Frame<'_>, body: &Body<'_>) -> String {
    let inner = html! {
        @if !frame.words.is_empty() {
            section.words aria-label="What the kernel says" { @for line in frame.words { p { (told(line)) } } }
        }
        @match body {
            Body::Ours(page) => (page),
            Body::Washed(page) => (PreEscaped(&page.html)),
            Body::Below(done, page) => { (done) (PreEscaped(&page.html)) }
        }
    };
    let has_main = matches!(body, Body::Washed(page) | Body::Below(_, page) if page.has_main);
    let whole = html! {
        (DOCTYPE)
        html lang="en" data-seq=(frame.state.seq()) {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (word(frame.title)) }
                link rel="stylesheet" href="/-/self.css";
                link rel="icon" type="image/svg+xml" href="/-/self.svg";
                @if frame.live { script type="module" src="/-/self.js" {} }
            }
            body {
                a.skip href="#page" { "Skip to the page" }
                header.bar { (navigation(frame)) }
                @if has_main { div #page tabindex="-1" { (inner) } } @else { main #page tabindex="-1" { (inner) } }
                footer.bar {
                    p {
                        a href="/kernel" aria-current=[standing(frame, "/kernel")] { "This instance" } " · "
                        a href="/-/today" aria-current=[standing(frame, "/-/today")] { "Today" } " · " (as_of(frame.state.seq()))
                    }
                    (search_box())
                }
            }
        }
    };
    whole.into_string()
}

/// How far the page takes the log into account.
fn as_of(seq: u64) -> Markup {
    html! { "as of " @if seq == 0 { "event 0" } @else { a href=(address(seq)) { "event " (seq) } } }
}

fn search_box() -> Markup {
    html! {
        form.find action="/-/search" method="get" role="search" aria-label="This home" {
            label for="find" { "Search" } input #find name="q" type="search" required; button type="submit" { "Search" }
        }
    }
}

fn navigation(frame: &Frame<'_>) -> Markup {
    let installed = page::installed(frame.state, Kind::Projector);
    let top = installed.into_iter().map(|(capability, _)| capability);
    let top = top.filter(|capability| !capability.name.as_str().contains('/') && capability.name.as_str() != WELCOME);
    let pages: Vec<_> = top.map(|capability| (page::path(capability), word(capability.name.as_str()))).collect();
    let folds = pages.len() > PAGES_SHOWN_MAX;
    // The page that is shown keeps its place in the row.
    let (shown, folded): (Vec<_>, Vec<_>) = pages
        .into_iter()
        .enumerate()
        .partition(|(at, (path, _))| !folds || *at < PAGES_SHOWN_MAX || standing(frame, path).is_some());
    let own = [("/brief", "brief"), ("/-/log", "log"), ("/events", "events"), ("/-/capability", "capabilities")];
    html! {
        nav aria-label="This home" {
            ul {
                (entry(frame, "/", "Home"))
                @for (_, (path, label)) in &shown { (entry(frame, path, label)) }
                @if !folded.is_empty() {
                    li { details { summary { (folded.len()) " more" } ul { @for (_, (path, label)) in &folded { (entry(frame, path, label)) } } } }
                }
                @for (path, label) in own { (entry(frame, path, label)) }
            }
        }
    }
}

fn entry(frame: &Frame<'_>, path: &str, label: &str) -> Markup {
    html! { li { a href=(path) aria-current=[standing(frame, path)] { (label) } } }
}

/// Whether an entry is the page that is shown, or the one that it belongs to.
fn standing(frame: &Frame<'_>, path: &str) -> Option<&'static str> {
    let is_below = path != "/" && frame.here.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
    if path == frame.here { Some("page") } else { is_below.then_some("true") }
}

/// The twin of a page for programs: its model as JSON, on one line.
#[must_use]
pub fn twin(model: &impl Serialize) -> String {
    serde_json::to_string(model).expect("a model has keys that are text, and payloads that are JSON") + "\n"
}

/// A page that says why there is none.
#[must_use]
pub fn refusal(title: &str, words: &str) -> Markup {
    html! {
        h1 { (title) }
        p { (told(&begun(words))) }
    }
}

/// Words that begin as a sentence does.
fn begun(words: &str) -> String {
    let mut chars = words.chars();
    chars.next().map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + chars.as_str())
}

/// What became of a run that failed, with what was typed kept; `from` is the page it was typed on.
#[must_use]
pub fn failed(state: &State, name: &str, words: &[String], stderr: &str, typed: &[Field], from: &str) -> Markup {
    let params = declaration_of(state, name).map_or(&[][..], |declaration| &declaration.params);
    let fields: Vec<_> = (0..typed.len().max(params.len().min(INPUTS_MAX)))
        .map(|at| {
            let (field, param) = (typed.get(at), params.get(at));
            let label = field.map(|field| field.name.as_str()).or(param.map(|(name, _)| name.as_str())).unwrap_or_default();
            (format!("field-{at}"), label, param, field.map_or("", |field| &field.value))
        })
        .collect();
    let mut inputs: Vec<_> = fields
        .iter()
        .map(|(id, name, param, value)| Input { id, name, param: *param, typed: Some(value), said: Some("fault"), first: false })
        .collect();
    let first = inputs.iter_mut().find(|input| input.is_amiss()).map(|input| input.first = true);
    html! {
        h1 { code { (word(name)) } " failed" }
        // What went wrong has the focus, if no field is sure to be the one.
        div.msg.danger #fault role="alert" tabindex="-1" autofocus[first.is_none()] {
            @for line in words { p { (told(line)) } }
            @if !stderr.trim().is_empty() { pre { (told(stderr)) } }
        }
        @if is_plain(name) {
            section {
                h2 { "What you typed" }
                form action=(format!("/run/{}?from={}", encoded(name), encoded(from))) method="post" {
                    @for input in &inputs { (input.paragraph()) }
                    p { button type="submit" { "Run it again" } }
                }
            }
        }
        p { a href=(from) { "Back" } }
    }
}

/// What became of a run that recorded nothing.
#[must_use]
pub fn idle(name: &str, words: &[String], stderr: &str, from: &str) -> Markup {
    html! {
        h1 { code { (word(name)) } " ran" }
        div.msg role="status" {
            p { "No event of it was recorded." }
            @for line in words { p { (told(line)) } }
            @if !stderr.trim().is_empty() { pre { (told(stderr)) } }
        }
        p { a href=(from) { "Back" } }
    }
}

/// What a run recorded, above the page that it led back to: an event through the server's own door, and how many landed with it.
/// `None` for any other event: what an address says is no more than a number.
#[must_use]
pub fn done(event: &Event<'_>) -> Option<Markup> {
    let Some(Door::Http(_)) = event.via else { return None };
    let behind = record::Frame::read(&event.id).map_or(0, |frame| frame.n.saturating_sub(frame.k));
    let moment = moment::read(&event.occurred_at).map(|moment| moment.strftime("%Y-%m-%d %H:%M UTC").to_string());
    Some(html! {
        p.done role="status" {
            "Recorded " code { (word(&event.name)) } " as " a href=(address(event.seq)) { "event " (event.seq) }
            @if behind > 0 { ", and " (behind) " more with it" }
            @if let Some(moment) = moment { span.muted { ", " (moment) } }
        }
    })
}

/// A form for each command.
#[must_use]
pub fn command_forms(state: &State) -> Markup {
    let commands = page::installed(state, Kind::Command);
    let commands: Vec<_> = commands.into_iter().filter(|(capability, _)| is_plain(capability.name.as_str())).collect();
    html! {
        @if commands.is_empty() { p.muted { "No command is installed yet." } }
        @for (which, (capability, installed)) in commands.iter().enumerate() {
            @let declaration = installed.declaration.as_ref().map(|declared| &declared.declaration);
            details.card {
                summary {
                    code { (word(capability.name.as_str())) }
                    @if let Some(declaration) = declaration { " " span.muted { (word(&declaration.description)) } }
                }
                (command_form(capability, declaration, &format!("command-{which}")))
            }
        }
    }
}

/// The form that runs a command, an input for each parameter; `prefix` sets its ids apart from those of other forms of the page.
#[must_use]
pub fn command_form(command: &Capability, declaration: Option<&Declaration>, prefix: &str) -> Markup {
    let params = declaration.map_or(&[][..], |declaration| &declaration.params);
    let reads_files = declaration.is_some_and(|declaration| declaration.needs.contains(&Need::ReadArgs));
    html! {
        form action=(format!("/run/{}", encoded(command.name.as_str()))) method="post" {
            @if reads_files { p.muted { "Through a browser it reads no file of this machine; in a terminal it does." } }
            @if params.len() > INPUTS_MAX { p.muted { "The first " (INPUTS_MAX) " of its " (params.len()) " arguments." } }
            @for (at, param) in params.iter().enumerate().take(INPUTS_MAX) {
                @let id = format!("{prefix}-{at}");
                (Input { id: &id, name: &param.0, param: Some(param), typed: None, said: None, first: false }.paragraph())
            }
            p { button type="submit" { "Run" } }
        }
    }
}

/// Whether a command's name stands for itself in an address.
fn is_plain(name: &str) -> bool {
    CapabilityName::inherited(name).is_some()
}

/// The declaration that the script of a command in force was installed under.
pub(crate) fn declaration_of<'s>(state: &'s State, name: &str) -> Option<&'s Declaration> {
    let capability = Capability { kind: Kind::Command, name: CapabilityName::inherited(name)? };
    Some(&state.standing(&capability)?.installed()?.declaration.as_ref()?.declaration)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The custom properties of one part of the stylesheet.
    fn colours(part: &str) -> Vec<(&str, [f64; 3])> {
        let hex = |value: &str, at: usize| f64::from(u8::from_str_radix(&value[at..at + 2], 16).unwrap());
        let pairs = part.lines().filter_map(|line| line.trim().strip_prefix("--")?.strip_suffix(';')?.split_once(": #"));
        pairs.map(|(name, value)| (name, [0, 2, 4].map(|at| hex(value, at)))).collect()
    }

    /// How well one colour stands out from another (WCAG 2.2, contrast ratio).
    fn contrast(one: [f64; 3], other: [f64; 3]) -> f64 {
        let light = |colour: [f64; 3]| {
            let [r, g, b] = colour.map(|part| {
                let part = part / 255.0;
                if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
            });
            0.2126 * r + 0.7152 * g + 0.0722 * b
        };
        let (one, other) = (light(one), light(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn text_stands_out_in_light_and_in_dark() {
        let (light, rest) = STYLE.split_once("@media (prefers-color-scheme: dark)").unwrap();
        let dark = rest.split_once("*, *::before").unwrap().0;
        for (scheme, part) in [("light", light), ("dark", dark)] {
            let colours = colours(part);
            assert_eq!(colours.len(), 16, "{scheme}");
            let of = |name: &str| colours.iter().find(|(own, _)| *own == name).unwrap().1;
            for text in ["ink", "soft", "link", "good", "warn", "danger"] {
                for ground in ["paper", "sheet", "field", "wash", "tag"] {
                    let ratio = contrast(of(text), of(ground));
                    assert!(ratio >= 4.5, "{scheme}: {text} on {ground}: {ratio:.2}");
                }
            }
            assert!(contrast(of("on-key"), of("key")) >= 4.5, "{scheme}: a button");
            for (edge, ground) in
                [("edge", "paper"), ("edge", "field"), ("edge", "sheet"), ("focus", "paper"), ("focus", "sheet")]
            {
                assert!(contrast(of(edge), of(ground)) >= 3.0, "{scheme}: {edge} on {ground}");
            }
        }
        assert!((contrast([0.0; 3], [255.0; 3]) - 21.0).abs() < 1e-9);
    }

    #[test]
    fn class_words_have_a_look_and_are_told() {
        for word in CLASS_WORDS {
            assert!(STYLE.contains(&format!("\n.{word} {{")) || STYLE.contains(&format!("\n.{word} ")), "{word} has no look");
            assert!(crate::contract::SCRIPT.contains(&format!("`{word}`")), "{word} is not in the script contract");
            assert!(include_str!("../LESSONS.md").contains(&format!("`{word}`")), "{word} is not in LESSONS.md");
        }
    }

    #[test]
    fn the_files_load_nothing_from_elsewhere() {
        assert!(MODULE.len() < 4 << 10, "{} bytes", MODULE.len());
        for file in [STYLE, MODULE, ICON] {
            let plain = file.replace("http://www.w3.org/2000/svg", "");
            for word in ["http:", "https:", "//cdn", "@import", "url(", "eval(", "innerHTML"] {
                assert!(!plain.contains(word), "{word}");
            }
        }
    }
}
