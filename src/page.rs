//! The kernel's own pages: HTML views of the state.
//!
//! Bare semantic HTML, as projections are: no head, no style, no script; every text of the log is escaped and shows its control
//! characters. Pure views: the same log and key give the same bytes, whatever the path, the version or the moment. The
//! invariant: what stands here passes [`crate::markup::check`], whatever the log holds.

use maud::{Markup, html};

use crate::capability::{Capability, Kind, argument};
use crate::form::encoded;
use crate::quotation::{origin, straight};
use crate::standing::{Declared, Installed, Rejection, STALLED_AT, Standing};
use crate::state::State;

/// How much of a text of the log the page shows, in characters.
pub const TEXT_CHARS_MAX: usize = 2_000;

/// Describes the instance, for a person and for a mind: `kernel.html`.
#[must_use]
pub fn kernel(state: &State) -> String {
    let page = html! {
        article {
            h1 { "This instance" }
            p {
                "A home of " code { "self" } ": one append-only log, and what is rebuilt from it. What is not in the log did not "
                "happen. " code { "self protocol" } " tells how to add to it."
            }
            (instance(state))
        }
    };
    // A tag a line, for `grep` and `diff`: what came from the log holds no bare `<`.
    page.into_string().replace("><", ">\n<") + "\n"
}

/// What stands in a home, in sections under headings of the second rank.
pub(crate) fn instance(state: &State) -> Markup {
    html! {
        (commands(state))
        (projections(state))
        (pending(state))
        (rejected(state))
        (notices(state))
        (unproven(state))
    }
}

/// The installed capabilities of a kind, in order of name.
pub(crate) fn installed(state: &State, kind: Kind) -> Vec<(&Capability, &Installed)> {
    let of_kind = state.capabilities().filter(|(capability, _)| capability.kind == kind);
    of_kind.filter_map(|(capability, standing)| Some((capability, standing.installed()?))).collect()
}

fn commands(state: &State) -> Markup {
    let installed = installed(state, Kind::Command);
    html! {
        section {
            h2 { "Commands" }
            @if installed.is_empty() { p { "None is installed." } }
            @for (capability, installed) in installed {
                section {
                    h3 { code { (word(capability.name.as_str())) } }
                    @if let Some(declared) = &installed.declaration { (description(declared)) }
                    dl {
                        dt { "Run" }
                        dd { code { (usage(capability, installed)) } }
                        @if let Some(declared) = &installed.declaration { (terms(declared)) }
                        (receipt(installed))
                    }
                }
            }
        }
    }
}

fn projections(state: &State) -> Markup {
    let installed = installed(state, Kind::Projector);
    html! {
        section {
            h2 { "Projections" }
            @if installed.is_empty() { p { "None is installed." } }
            @for (capability, installed) in installed {
                section {
                    h3 { a href=(path(capability)) { (word(capability.name.as_str())) } }
                    @if let Some(declared) = &installed.declaration { (description(declared)) }
                    dl {
                        @match &installed.declaration {
                            Some(declared) => (terms(declared)),
                            None => (consumes(&[], None)),
                        }
                        (receipt(installed))
                    }
                }
            }
        }
    }
}

fn description(declared: &Declared) -> Markup {
    let description = &declared.declaration.description;
    html! { @if !description.is_empty() { p { (told(description)) } } }
}

/// What a declaration says beside its name and description, as terms of a list.
fn terms(declared: &Declared) -> Markup {
    let declaration = &declared.declaration;
    match declaration.capability.kind {
        Kind::Command => html! {
            @if !declaration.params.is_empty() { dt { "Arguments" } dd { (words(declaration.params.iter().map(|(name, word)| (name, word)))) } }
            @if let Some(event) = &declaration.event {
                dt { "Event" }
                dd {
                    code { (word(&event.name)) }
                    @if !event.fields.is_empty() { " with " (words(&event.fields)) }
                }
            }
            dt { "Needs" }
            dd {
                @if declaration.needs.is_empty() { "nothing" }
                @for (at, need) in declaration.needs.iter().enumerate() {
                    @if at > 0 { ", " }
                    code { (word(&need.to_string())) }
                }
            }
        },
        Kind::Projector => consumes(&declaration.consumes, declaration.last),
    }
}

fn consumes(names: &[String], last: Option<u64>) -> Markup {
    html! {
        dt { "Consumes" }
        dd {
            @if names.is_empty() { "every event" }
            @for (at, name) in names.iter().enumerate() {
                @if at > 0 { ", " }
                code { (word(name)) }
            }
            @if let Some(last) = last { ", the newest " (last) @if !names.is_empty() { " of each" } }
        }
    }
}

/// Names and their type words.
fn words<'w>(pairs: impl IntoIterator<Item = (&'w String, &'w String)>) -> Markup {
    html! {
        @for (at, (name, kind)) in pairs.into_iter().enumerate() {
            @if at > 0 { ", " }
            code { (word(name)) } " (" (word(kind)) ")"
        }
    }
}

fn receipt(installed: &Installed) -> Markup {
    html! {
        dt { "Author" }
        dd {
            @match installed.receipt.author() {
                Some(author) => (word(author)),
                None => "unknown",
            }
            ", installed at seq " (installed.seq)
        }
    }
}

fn pending(state: &State) -> Markup {
    let pending = state.pending();
    html! {
        section {
            h2 { "Pending" }
            @if pending.is_empty() { p { "Nothing waits for a script." } }
            @for (capability, standing) in pending {
                section {
                    h3 { code { (word(&capability.to_string())) } }
                    @if let Some(declared) = standing.declared() {
                        p { "Declared: " (word(&origin(&declared.origin))) }
                        (description(declared))
                        dl { (terms(declared)) }
                    }
                    @if standing.is_stalled() {
                        p { "It is no longer offered after " (STALLED_AT) " rejections; declare it anew." }
                    }
                    (last_rejection(standing))
                }
            }
        }
    }
}

fn rejected(state: &State) -> Markup {
    let open = |(_, standing): &(&Capability, &Standing)| !standing.is_pending() && !standing.rejections().is_empty();
    let rejected: Vec<_> = state.capabilities().filter(open).collect();
    html! {
        @if !rejected.is_empty() {
            section {
                h2 { "Rejected" }
                @for (capability, standing) in rejected {
                    section {
                        h3 { code { (word(&capability.to_string())) } }
                        (last_rejection(standing))
                    }
                }
            }
        }
    }
}

fn last_rejection(standing: &Standing) -> Markup {
    html! {
        @if let Some(Rejection { origin: from, reason, .. }) = standing.rejections().last() {
            p { "Last rejected: " (word(&origin(from))) " " (told(reason)) }
        }
    }
}

fn notices(state: &State) -> Markup {
    html! {
        @if !state.notices().is_empty() {
            section {
                h2 { "Refused since the last answer" }
                ul {
                    @for notice in state.notices() {
                        li {
                            (word(&origin(&notice.origin))) " "
                            @if notice.subject.is_empty() { "a line" } @else { code { (word(&notice.subject)) } }
                            ": " (told(&notice.reason))
                            @if !notice.excerpt.is_empty() { pre { (told(&notice.excerpt)) } }
                        }
                    }
                }
            }
        }
    }
}

fn unproven(state: &State) -> Markup {
    let unproven: Vec<_> = state.capabilities().filter(|(_, standing)| standing.is_unproven()).collect();
    html! {
        @if !unproven.is_empty() {
            section {
                h2 { "Unproven" }
                p { "Their receipts could not be checked, for want of the key:" }
                ul { @for (capability, _) in unproven { li { code { (word(&capability.to_string())) } } } }
            }
        }
    }
}

/// The line that runs a command.
fn usage(capability: &Capability, installed: &Installed) -> String {
    let mut line = format!("self run {}", word(capability.name.as_str()));
    for (param, type_word) in installed.declaration.iter().flat_map(|declared| &declared.declaration.params) {
        line.push_str(&format!(" {}", argument(param, type_word, word)));
    }
    line
}

/// Where the server has a projection. A name of the older rule may hold any character.
pub(crate) fn path(capability: &Capability) -> String {
    format!("/{}", encoded(capability.name.as_str()))
}

/// A text of the log, cut.
pub(crate) fn told(text: &str) -> String {
    cut(straight(text))
}

/// A name or another short text of the log, on one line.
pub(crate) fn word(text: &str) -> String {
    cut(straight(text).replace('\n', "\\x0a").replace('\t', "\\x09"))
}

fn cut(mut text: String) -> String {
    if let Some((at, _)) = text.char_indices().nth(TEXT_CHARS_MAX) {
        text.truncate(at);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Door, Event};
    use crate::markup;
    use crate::payload::{Payload, quoted};
    use crate::receipt::{Secret, sha256, sign};
    use crate::vocabulary::Word;
    use std::borrow::Cow;

    fn add(state: &mut State, via: &str, by: Option<&str>, word: Word, payload: &Payload) {
        state.apply(&Event {
            seq: state.seq() + 1,
            id: "".into(),
            name: word.name().into(),
            occurred_at: "".into(),
            via: Some(Door::read(Cow::Borrowed(via))),
            by: by.map(Cow::Borrowed),
            payload: Cow::Borrowed(payload.as_ref()),
        });
    }

    /// A state with one of all that the page shows, each text field holding `text`.
    fn state(text: &str) -> State {
        let secret = Secret::new([7; 32]);
        let mut state = State::new(Some(secret.clone()));
        let json = quoted(text);
        for (kind, word, name) in [
            (Kind::Command, Word::CommandDeclared, "note"),
            (Kind::Projector, Word::ProjectorDeclared, "notes"),
            (Kind::Command, Word::CommandDeclared, "waits"),
        ] {
            let needs = if kind == Kind::Command { quoted(&format!("read:/{}", text.replace('\0', ""))) } else { String::new() };
            let payload = format!(
                "{{\"name\":\"{name}\",\"description\":{json},\"params\":{{{json}:{json}}},\"event\":{{\"name\":{json},\
                 \"fields\":{{{json}:{json}}}}},\"needs\":[{needs}],\"consumes\":[{json}],\"last\":9}}"
            );
            let payload = Payload::read(&payload).unwrap();
            add(&mut state, "pipe", Some(text), word, &payload);
            if name != "waits" {
                let capability = state.pending()[0].0.clone();
                let digest = sha256(payload.get().as_bytes());
                let receipt = sign(&secret, &capability, "#!/bin/sh", text, state.seq() + 1, &digest);
                add(&mut state, "kernel", None, Word::ScriptCompiled, &Payload::of(&receipt));
            }
        }
        for target in ["\"type\":\"command\",\"name\":\"waits\"", "\"type\":\"command\",\"name\":\"stray\""] {
            let payload = format!("{{{target},\"reason\":{json},\"excerpt\":{json},\"sha256\":\"00\"}}");
            add(&mut state, "kernel", None, Word::ScriptRejected, &Payload::read(&payload).unwrap());
        }
        let payload = format!("{{\"name\":{json},\"reason\":{json},\"excerpt\":{json}}}");
        add(&mut state, "kernel", None, Word::EventRefused, &Payload::read(&payload).unwrap());
        state
    }

    #[track_caller]
    fn check(text: &str, expect: &str) {
        let page = kernel(&state(text));
        assert_eq!(markup::check(page.as_bytes()), Ok(()), "{page}");
        let whole = format!("<p>{expect}</p>");
        assert_eq!(page.matches(&whole).count(), 3, "{whole} as a description in {page}");
    }

    #[test]
    fn hostile_text_is_inert_in_every_field() {
        check("plain", "plain");
        check("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;");
        check("\" onclick=\"x\" '", "&quot; onclick=&quot;x&quot; '");
        check("&lt;b&gt; &#0;", "&amp;lt;b&amp;gt; &amp;#0;");
        check("</p></dd><!--<svg><style>", "&lt;/p&gt;&lt;/dd&gt;&lt;!--&lt;svg&gt;&lt;style&gt;");
        check("\0\u{1b}[2J\u{9b}\r\n\u{2028}", "\\x00\\x1b[2J\\x9b\\x0d\n\\u2028");
        check("\u{202e}gpj.exe\u{2069}", "\\u202egpj.exe\\u2069");
        check(&"é".repeat(3_000), &format!("{}…", "é".repeat(2_000)));
    }

    #[test]
    fn hostile_text_leaves_the_structure_as_it_was() {
        let tags = |text: &str| kernel(&state(text)).chars().filter(|char| matches!(char, '<' | '>')).count();
        for text in ["<script>", "<p>\n</p>", "\">", "\0", "]"] {
            assert_eq!(tags(text), tags("plain"), "{text:?}");
        }
    }

    #[test]
    fn an_empty_log_has_a_page() {
        let page = kernel(&State::new(None));
        assert_eq!(markup::check(page.as_bytes()), Ok(()));
        assert_eq!(page.matches("<p>None is installed.</p>").count(), 2);
        assert_eq!(page, kernel(&State::new(None)));
    }

    #[test]
    fn the_path_of_a_projection_stays_on_this_server() {
        for (name, expect) in
            [("notes", "/notes"), ("a/b", "/a/b"), ("a b?#%:é", "/a%20b%3F%23%25%3A%C3%A9"), ("javascript:x", "/javascript%3Ax")]
        {
            let name = crate::capability::CapabilityName::inherited(name).unwrap();
            assert_eq!(path(&Capability { kind: Kind::Projector, name }), expect);
        }
    }

    #[test]
    fn without_the_key_it_says_what_is_unproven() {
        let mut state = State::new(None);
        add(&mut state, "kernel", None, Word::ScriptCompiled, &Payload::read(r#"{"type":"command","name":"note"}"#).unwrap());
        let page = kernel(&state);
        assert!(page.contains("<h2>Unproven</h2>"), "{page}");
        assert!(page.contains("<code>command/note</code>"), "{page}");
    }
}
