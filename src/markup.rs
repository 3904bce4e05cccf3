//! The mark-up of projections: what a page may hold, as one table, and the reader that holds a page to it.
//!
//! Pages are written by scripts that minds authored, from text that anyone may have put into the log. [`check`] reads a page as
//! a browser does, so entities are decoded before a value is judged, and never touches the world. The invariant: a page that
//! passes holds no script, no style, no comment and nothing from outside, ends in plain text, and has its SVG so well-formed
//! that no reader takes an element of it for HTML, or the other way round.

use std::cell::RefCell;
use std::collections::BTreeMap;

use html5ever::Attribute;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts};

use crate::capability::CapabilityName;
use crate::quotation::flattened;

/// How much of a name or a value a fault shows, in characters.
pub const SHOWN_CHARS_MAX: usize = 48;

/// How many blanks, slashes and quotes one tag may hold: the tokenizer compares each attribute with all before it.
pub const SEPARATORS_MAX: usize = 32 << 10;

/// How much is read at a time, in bytes; the first fault ends the reading.
const PIECE_BYTES: usize = 4 << 10;

/// Where an element may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Outside `<svg>`.
    Html,
    /// Inside `<svg>`.
    Svg,
    /// In both.
    Both,
}

/// A row of the table: elements that may stand in one place and bear the same attributes.
#[derive(Debug)]
pub struct Row {
    elements: &'static str,
    /// Where they may stand.
    pub place: Place,
    attributes: &'static str,
}

/// The attributes that every element may bear.
pub const EVERYWHERE: [&str; 8] = ["class", "id", "lang", "dir", "role", "title", "hidden", "tabindex"];

/// How the other attributes start that every element may bear.
pub const EVERYWHERE_PREFIX: &str = "aria-";

const PLAIN: &str = "abbr article aside b bdi bdo blockquote br caption cite code dd del dfn div dl dt em fieldset figcaption figure \
    footer h1 h2 h3 h4 h5 h6 header hr i ins kbd legend main mark nav output p pre q rp rt ruby s samp section small span strong \
    sub summary sup table tbody tfoot thead tr u ul var wbr";

const SHAPES: &str = "g path circle ellipse line polyline polygon rect text tspan";

const DRAWING: &str = "viewBox width height x y x1 y1 x2 y2 cx cy r rx ry d points transform fill stroke stroke-width opacity \
    text-anchor";

const INPUT: &str = "type name value placeholder required checked min max step pattern list minlength maxlength autocomplete";

const TEXTAREA: &str = "name rows cols placeholder required minlength maxlength readonly disabled wrap autocomplete";

/// The elements a page may hold, and the attributes each may bear. Values are judged by [`judge`].
pub const TABLE: [Row; 24] = [
    row(PLAIN, Place::Html, ""),
    row("a", Place::Both, "href download"),
    row("img", Place::Html, "src alt width height"),
    row("form", Place::Html, "action method"),
    row("input", Place::Html, INPUT),
    row("button", Place::Html, "type name value"),
    row("textarea", Place::Html, TEXTAREA),
    row("select", Place::Html, "name multiple required size disabled autocomplete"),
    row("option", Place::Html, "value label selected disabled"),
    row("optgroup", Place::Html, "label disabled"),
    row("label", Place::Html, "for"),
    row("td", Place::Html, "colspan rowspan headers"),
    row("th", Place::Html, "colspan rowspan headers scope abbr"),
    row("col", Place::Html, "span"),
    row("colgroup", Place::Html, "span"),
    row("ol", Place::Html, "start reversed type"),
    row("li", Place::Html, "value"),
    row("time", Place::Html, "datetime"),
    row("data", Place::Html, "value"),
    row("meter", Place::Html, "value min max low high optimum"),
    row("progress", Place::Html, "value max"),
    row("details", Place::Html, "open name"),
    row("svg", Place::Both, DRAWING),
    row(SHAPES, Place::Svg, DRAWING),
];

const fn row(elements: &'static str, place: Place, attributes: &'static str) -> Row {
    Row { elements, place, attributes }
}

impl Row {
    /// The elements.
    pub fn elements(&self) -> impl Iterator<Item = &'static str> {
        self.elements.split_ascii_whitespace()
    }

    /// What they may bear beside [`EVERYWHERE`], spelled as in a parsed tree.
    pub fn attributes(&self) -> impl Iterator<Item = &'static str> {
        self.attributes.split_ascii_whitespace()
    }

    /// Whether they may bear an attribute, by its name alone.
    #[must_use]
    pub fn bears(&self, attribute: &str) -> bool {
        EVERYWHERE.contains(&attribute)
            || attribute.starts_with(EVERYWHERE_PREFIX)
            || self.attributes().any(|name| name.eq_ignore_ascii_case(attribute))
    }
}

/// What may follow `data:` in a link that bears `download`.
pub const DOWNLOADS: [&str; 10] = [
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
    "text/plain",
    "text/csv",
    "application/json",
    "application/pdf",
    "application/zip",
    "application/octet-stream",
];

/// What may follow `data:` in an image.
pub const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

const LINK_RULE: &str =
    "a link is http, https, mailto, `#…`, a path that starts with one `/` or none, or `data:` of a type that can only be kept";
const DOWNLOAD_RULE: &str = "a link to `data:` needs the attribute `download`";
const IMAGE_RULE: &str = "an image is `data:` of image/png, image/jpeg, image/gif or image/webp";
const ACTION_RULE: &str = "a form runs a command, `/run/<name>`";
const METHOD_RULE: &str = "a form's method is post";
const INPUT_RULE: &str = "an input is neither an image nor a file";
const PAINT_RULE: &str = "a colour is a word, `#…` or a function of numbers";

/// Judges the value of an attribute that its element may bear; `Err` bears the rule it breaks.
pub fn judge(element: &str, attribute: &str, value: &str) -> Result<(), &'static str> {
    let (holds, rule) = match (element, attribute) {
        ("a", "href") => (is_link(value), LINK_RULE),
        ("img", "src") => (is_data(value, &IMAGES), IMAGE_RULE),
        ("form", "action") => (is_action(value), ACTION_RULE),
        ("form", "method") => (value.eq_ignore_ascii_case("post"), METHOD_RULE),
        ("input", "type") => (!["image", "file"].contains(&value.trim().to_ascii_lowercase().as_str()), INPUT_RULE),
        (_, "fill" | "stroke") => (is_paint(value), PAINT_RULE),
        _ => return Ok(()),
    };
    if holds { Ok(()) } else { Err(rule) }
}

/// An address as a browser reads it (URL standard, "basic URL parser"): without the control characters and blanks around it,
/// without tabs and line ends anywhere.
fn address(value: &str) -> String {
    value.trim_matches(|char| char <= ' ').chars().filter(|char| !matches!(char, '\t' | '\n' | '\r')).collect()
}

/// The scheme of an address in lower case, and what follows its colon.
fn scheme(address: &str) -> Option<(String, &str)> {
    let (scheme, rest) = address.split_once(':')?;
    let plain = scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    let starts = scheme.starts_with(|first: char| first.is_ascii_alphabetic());
    (plain && starts).then(|| (scheme.to_ascii_lowercase(), rest))
}

fn is_link(value: &str) -> bool {
    let address = address(value);
    match scheme(&address) {
        Some((scheme, _)) if scheme == "data" => is_data(value, &DOWNLOADS),
        Some((scheme, _)) => ["http", "https", "mailto"].contains(&scheme.as_str()),
        // A browser takes a backslash for a slash, and what follows two of them for a host.
        None => !address.starts_with('\\') && !address.starts_with("//") && !address.starts_with("/\\"),
    }
}

fn is_data(value: &str, types: &[&str]) -> bool {
    let address = address(value);
    let Some((scheme, rest)) = scheme(&address) else { return false };
    let Some((kind, _)) = rest.split_once(',') else { return false };
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    scheme == "data" && types.contains(&kind.as_str())
}

/// A command's name, of this program's rule or the older one's, in letters that stand for themselves in an address.
fn is_action(value: &str) -> bool {
    value.strip_prefix("/run/").is_some_and(|name| {
        let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte));
        plain && CapabilityName::inherited(name).is_some()
    })
}

/// A colour that fetches nothing: `url(…)`, however it is escaped, is none.
fn is_paint(value: &str) -> bool {
    let plain = value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b" #(),.%+-/".contains(&byte));
    let mut before: Vec<_> = value.split('(').collect();
    before.pop();
    let functions = ["rgb", "rgba", "hsl", "hsla"];
    plain && before.iter().all(|before| functions.iter().any(|name| before.trim_start().eq_ignore_ascii_case(name)))
}

/// The first thing a page holds that it may not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} on line {line} {why}")]
pub struct MarkupFault {
    /// The thing, cut to [`SHOWN_CHARS_MAX`].
    pub what: String,
    /// Its line, from 1; for a tag, where it starts.
    pub line: u64,
    /// The rule it breaks, as the end of the sentence.
    pub why: String,
}

const FORBIDDEN: &str = "is not allowed";

fn fault(what: impl Into<String>, line: u64, why: impl Into<String>) -> MarkupFault {
    MarkupFault { what: what.into(), line, why: why.into() }
}

/// Checks that a page is UTF-8 and holds nothing but the allowed mark-up; fails with the first thing it may not hold.
///
/// Takes time linear in the page's length. A tag must fit [`SEPARATORS_MAX`].
pub fn check(html: &[u8]) -> Result<(), MarkupFault> {
    let line = |at: usize| 1 + memchr::memchr_iter(b'\n', &html[..at]).count() as u64;
    let text = str::from_utf8(html).map_err(|bad| fault("a byte", line(bad.valid_up_to()), "is not UTF-8"))?;
    let nul = memchr::memchr(0, html).map(|at| fault("a NUL", line(at), FORBIDDEN));
    match (read(text), nul) {
        (Err(fault), Some(nul)) if fault.line < nul.line => Err(fault),
        (_, Some(nul)) => Err(nul),
        (result, None) => result,
    }
}

fn read(text: &str) -> Result<(), MarkupFault> {
    let tokenizer = Tokenizer::new(Inspection::default(), TokenizerOpts::default());
    let queue = BufferQueue::default();
    let mut rest = text;
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(rest.floor_char_boundary(PIECE_BYTES));
        rest = behind;
        tokenizer.sink.0.borrow_mut().count_separators(piece);
        queue.push_back(StrTendril::from_slice(piece));
        // The inspection asks for no script and names no encoding, so the tokenizer has no reason to stop.
        let _ = tokenizer.feed(&queue);
        if let Some(fault) = tokenizer.sink.0.borrow_mut().fault.take() {
            return Err(fault);
        }
    }
    tokenizer.sink.0.borrow_mut().expect_probe()?;
    queue.push_back(StrTendril::from_slice(PROBE));
    let _ = tokenizer.feed(&queue);
    let inspection = tokenizer.sink.0.borrow();
    if inspection.probe == Probe::Seen { Ok(()) } else { Err(fault("a tag", inspection.line, "never ends")) }
}

/// A tag put behind a page: if it is not read as a tag, the page ends inside one.
const PROBE: &str = "<wbr>";

#[derive(Debug, Default, PartialEq, Eq)]
enum Probe {
    #[default]
    Later,
    Next,
    Seen,
}

/// What the tokenizer hands its tokens to.
#[derive(Default)]
struct Inspection(RefCell<Progress>);

impl TokenSink for Inspection {
    type Handle = ();

    fn process_token(&self, token: Token, line: u64) -> TokenSinkResult<()> {
        self.0.borrow_mut().take(token, line)
    }
}

/// How far a page has been inspected.
struct Progress {
    rows: BTreeMap<&'static str, &'static Row>,
    fault: Option<MarkupFault>,
    /// Where the last token ended, so where the next one starts.
    line: u64,
    separators: usize,
    /// The open elements from `<svg>` inwards, each with its line.
    svg: Vec<(String, u64)>,
    textarea: Option<u64>,
    probe: Probe,
}

impl Default for Progress {
    fn default() -> Progress {
        let rows = TABLE.iter().flat_map(|row| row.elements().map(move |name| (name, row))).collect();
        Progress { rows, fault: None, line: 1, separators: 0, svg: Vec::new(), textarea: None, probe: Probe::Later }
    }
}

impl Progress {
    fn count_separators(&mut self, piece: &str) {
        self.separators += piece.bytes().filter(|byte| b" \t\n\r\x0c/\"'".contains(byte)).count();
        if self.separators > SEPARATORS_MAX {
            self.fault = Some(fault(
                "a tag",
                self.line,
                format!("is too long: it has more than {SEPARATORS_MAX} blanks, slashes and quotes"),
            ));
        }
    }

    fn expect_probe(&mut self) -> Result<(), MarkupFault> {
        if let Some(line) = self.textarea {
            return Err(fault("`<textarea>`", line, "is never closed"));
        }
        if let Some((name, line)) = self.svg.pop() {
            return Err(fault(format!("`<{name}>`"), line, "is never closed"));
        }
        self.probe = Probe::Next;
        Ok(())
    }

    fn take(&mut self, token: Token, line: u64) -> TokenSinkResult<()> {
        let start = self.line;
        let mut next = TokenSinkResult::Continue;
        match token {
            // A word about the token that is being read, which has yet to come.
            Token::ParseError(_) => return TokenSinkResult::Continue,
            Token::TagToken(tag) if self.probe == Probe::Next => {
                let whole = tag.kind == TagKind::StartTag && &*tag.name == "wbr" && tag.attrs.is_empty();
                self.probe = if whole { Probe::Seen } else { Probe::Later };
                return TokenSinkResult::Continue;
            }
            Token::TagToken(tag) => {
                let result = self.tag(&tag, start);
                self.fail(result);
                if tag.kind == TagKind::StartTag && self.textarea.is_some() {
                    next = TokenSinkResult::RawData(RawKind::Rcdata);
                }
            }
            Token::CommentToken(_) => self.fail(Err(fault("a comment", start, FORBIDDEN))),
            Token::DoctypeToken(_) => self.fail(Err(fault("a doctype", start, FORBIDDEN))),
            Token::CharacterTokens(_) | Token::NullCharacterToken | Token::EOFToken => {}
        }
        self.line = line;
        self.separators = 0;
        next
    }

    fn fail(&mut self, result: Result<(), MarkupFault>) {
        if let Err(fault) = result {
            self.fault.get_or_insert(fault);
        }
    }

    fn tag(&mut self, tag: &Tag, line: u64) -> Result<(), MarkupFault> {
        let is_end = tag.kind == TagKind::EndTag;
        let told = || format!("`<{}{}>`", if is_end { "/" } else { "" }, shown(&tag.name));
        let row = *self.rows.get(&*tag.name).ok_or_else(|| fault(told(), line, FORBIDDEN))?;
        let side = match (row.place, self.svg.is_empty()) {
            (Place::Html, false) => Some("inside"),
            (Place::Svg, true) => Some("outside"),
            (Place::Html, true) | (Place::Svg, false) | (Place::Both, _) => None,
        };
        if let Some(side) = side {
            return Err(fault(told(), line, format!("{FORBIDDEN} {side} `<svg>`")));
        }
        for attribute in &tag.attrs {
            judge_attribute(row, &tag.name, attribute, tag, line)?;
        }
        if tag.had_duplicate_attributes {
            return Err(fault(told(), line, "has an attribute twice"));
        }
        if is_end {
            return self.end(&tag.name, line);
        }
        self.start(tag, line)
    }

    fn start(&mut self, tag: &Tag, line: u64) -> Result<(), MarkupFault> {
        match &*tag.name {
            "form" => {
                for (attribute, rule) in [("action", ACTION_RULE), ("method", METHOD_RULE)] {
                    if !has(tag, attribute) {
                        return Err(fault("`<form>`", line, format!("needs `{attribute}`: {rule}")));
                    }
                }
            }
            "textarea" => self.textarea = Some(line),
            name if (name == "svg" || !self.svg.is_empty()) && !tag.self_closing => self.svg.push((name.to_owned(), line)),
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, name: &str, line: u64) -> Result<(), MarkupFault> {
        if name == "textarea" {
            self.textarea = None;
        }
        let crosses = match self.svg.pop() {
            Some((open, _)) => open != name,
            None => name == "svg",
        };
        if crosses { Err(fault(format!("`</{name}>`"), line, "ends nothing that is open there")) } else { Ok(()) }
    }
}

fn judge_attribute(row: &Row, element: &str, attribute: &Attribute, tag: &Tag, line: u64) -> Result<(), MarkupFault> {
    let name = &*attribute.name.local;
    if !row.bears(name) {
        return Err(fault(format!("attribute `{}` of `<{element}>`", shown(name)), line, FORBIDDEN));
    }
    let value = &*attribute.value;
    let broken = |rule| fault(format!("{name} `{}`", shown(value)), line, format!("{FORBIDDEN}: {rule}"));
    judge(element, name, value).map_err(broken)?;
    let is_kept = name != "href" || has(tag, "download") || !is_data(value, &DOWNLOADS);
    if is_kept { Ok(()) } else { Err(broken(DOWNLOAD_RULE)) }
}

fn has(tag: &Tag, attribute: &str) -> bool {
    tag.attrs.iter().any(|own| &*own.name.local == attribute)
}

/// The start of a text of the page, on one line.
fn shown(text: &str) -> String {
    let mut chars = text.chars();
    let mut short = flattened(&chars.by_ref().take(SHOWN_CHARS_MAX).collect::<String>());
    if chars.next().is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(html: &str, expect: &str) {
        let told = super::check(html.as_bytes()).err().map_or_else(String::new, |fault| fault.to_string());
        assert_eq!(told, expect, "{html:?}");
    }

    #[track_caller]
    fn passes(html: &str) {
        check(html, "");
    }

    #[test]
    fn the_table_holds_the_documented_elements_and_no_other() {
        let documented = "a abbr article aside b bdi bdo blockquote br button caption cite code col colgroup data dd del details \
            dfn div dl dt em fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header hr i img input ins kbd label legend li \
            main mark meter nav ol optgroup option output p pre progress q rp rt ruby s samp section select small span strong sub \
            summary sup table tbody td textarea tfoot th thead time tr u ul var wbr svg g path circle ellipse line polyline \
            polygon rect text tspan";
        let mut documented: Vec<_> = documented.split_whitespace().collect();
        let mut listed: Vec<_> = TABLE.iter().flat_map(Row::elements).collect();
        documented.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, documented);
        for row in &TABLE {
            for attribute in row.attributes() {
                let runs = attribute.starts_with("on") || attribute.starts_with("form") || attribute == "style";
                assert!(!runs, "{attribute}");
            }
        }
    }

    #[test]
    fn ordinary_pages_pass() {
        passes("");
        passes("a < b && c > d, 1 &lt; 2, &nosuch; \u{feff}é <");
        passes("\u{feff}<h1 class=x id=\"y\">T</h1>\r\n<p lang='en' HIDDEN aria-label=\"a\" tabindex=0>a<br/>b</P>");
        passes("<table><tr><th scope=col colspan=2>a<td headers=x>b</table><ol start=3 reversed><li value=4>x</ol>");
        passes("<details open><summary>s</summary><time datetime=\"2000-01-01\">t</time><meter value=1 max=2></meter></details>");
        passes(
            "<form action=\"/run/timer/set\" method=POST><label for=a>A</label><input id=a name=a required pattern='[a-z]+'>\
             <select name=s><optgroup label=o><option value=1 selected>x</optgroup></select>\
             <textarea name=t rows=3>\n<script>alert(1)</script> <a title=\"</textarea><button type=submit>Go</button></form>",
        );
        passes(
            "<svg viewBox=\"0 0 10 10\" width=10 height=10 role=img aria-label=chart><g transform=\"scale(2)\">\
             <path d=\"M0 0L1 1\" fill=none stroke='rgb(1, 2, 3)' stroke-width=2 /><a href=\"#x\"><rect x=1 y=1 width=1 height=1 /></a>\
             <text x=1 y=2 text-anchor=middle>a<tspan>b</tspan></text></g></svg>",
        );
        passes("<pre>&lt;script&gt;alert(1)&lt;/script&gt;</pre><img alt=x src=\"data:image/png;base64,AAAA\">");
    }

    #[test]
    fn the_first_forbidden_thing_is_named_with_its_line() {
        check("<p>a\n</p>\n<script>alert(1)</script>\n<style>", "`<script>` on line 3 is not allowed");
        check("<p>\n<a\nclass=x\nonclick=\"f()\">x</a>", "attribute `onclick` of `<a>` on line 2 is not allowed");
        check("\r\n\r\n<IFRAME src=x>", "`<iframe>` on line 3 is not allowed");
        check("a</script>", "`</script>` on line 1 is not allowed");
        check("<p>\n<!-- x -->", "a comment on line 2 is not allowed");
        check("<?php x ?>", "a comment on line 1 is not allowed");
        check("<!DOCTYPE html>", "a doctype on line 1 is not allowed");
        check("a\n\0<script>", "a NUL on line 2 is not allowed");
        check("<b>\n<scr\0ipt>", "a NUL on line 2 is not allowed");
        check("<script>\n\0", "`<script>` on line 1 is not allowed");
        let not_utf8 = super::check(b"<p>\n\xff").unwrap_err().to_string();
        assert_eq!(not_utf8, "a byte on line 2 is not UTF-8");
        let long = format!("<p>{}\n<{}>", "x\n".repeat(20_000), "z".repeat(200));
        check(&long, &format!("`<{}…>` on line 20002 is not allowed", "z".repeat(48)));
    }

    #[test]
    fn every_other_element_is_forbidden() {
        for name in [
            "html",
            "head",
            "body",
            "title",
            "style",
            "script",
            "link",
            "meta",
            "base",
            "iframe",
            "object",
            "embed",
            "template",
            "noscript",
            "plaintext",
            "xmp",
            "math",
            "foreignobject",
            "use",
            "image",
            "animate",
            "set",
            "video",
            "audio",
            "source",
            "frameset",
            "font",
            "center",
            "marquee",
            "dialog",
            "slot",
            "datalist",
            "desc",
            "x-y",
            "a\u{b}b",
        ] {
            check(&format!("<{name}>"), &format!("`<{}>` on line 1 is not allowed", flattened(name)));
        }
        check("<a<script>", "`<a<script>` on line 1 is not allowed");
    }

    #[test]
    fn every_other_attribute_is_forbidden() {
        for (element, attribute) in [
            ("a", "target"),
            ("a", "ping"),
            ("a", "rel"),
            ("p", "style"),
            ("p", "onmouseover"),
            ("img", "srcset"),
            ("img", "onerror"),
            ("button", "formaction"),
            ("button", "form"),
            ("input", "formmethod"),
            ("form", "enctype"),
            ("form", "target"),
            ("p", "data-x"),
            ("svg", "xmlns"),
            ("svg", "onload"),
            ("p", "href"),
            ("p", "contenteditable"),
            ("p", "xlink:href"),
            ("p", "is"),
            ("p", "accesskey"),
            ("p", "autofocus"),
            ("li", "width"),
            ("input", "src"),
        ] {
            check(
                &format!("<{element} {attribute}=x>"),
                &format!("attribute `{attribute}` of `<{element}>` on line 1 is not allowed"),
            );
        }
        check("<svg><a xlink:href='javascript:x'>", "attribute `xlink:href` of `<a>` on line 1 is not allowed");
        check("<p/onclick=x>", "attribute `onclick` of `<p>` on line 1 is not allowed");
        check("<p title=a\"onclick=x\"b onclick=y>", "attribute `onclick` of `<p>` on line 1 is not allowed");
        check("<p title='a'onclick=x>", "attribute `onclick` of `<p>` on line 1 is not allowed");
        check("</p onclick=x>", "attribute `onclick` of `<p>` on line 1 is not allowed");
        check("<a href=\"#\" HREF=\"javascript:x\">", "`<a>` on line 1 has an attribute twice");
    }

    #[test]
    fn a_link_leads_to_what_is_listed() {
        for good in [
            "",
            "#",
            "#x",
            "/",
            "/a//b",
            "a/b",
            "../x?y=http://z",
            "?a:b",
            "http://a",
            "HTTPS://a",
            " mailto:a@b",
            "./a:b",
            "%6aavascript:x",
        ] {
            passes(&format!("<a href=\"{good}\">x</a>"));
        }
        for bad in [
            "javascript:x",
            "JaVaScRiPt:x",
            "vbscript:x",
            "file:///etc/passwd",
            "ftp://a",
            "//evil",
            "/\\evil",
            "\\evil",
            "\\\\evil",
            "blob:x",
            "about:blank",
            "view-source:x",
            "data:text/html,x",
            "c:/x",
            "a:b",
            "data:image/svg+xml,x",
            "data:,x",
            "data:text/plain",
        ] {
            check(&format!("<p>\n<a href=\"{bad}\">"), &format!("href `{bad}` on line 2 is not allowed: {LINK_RULE}"));
        }
    }

    #[test]
    fn a_value_is_decoded_before_it_is_judged() {
        for (value, shown) in [
            ("&#106;avascript:x", "javascript:x"),
            ("&#x6A;avascript&colon;x", "javascript:x"),
            ("java&Tab;script&NewLine;:x", "java\\x09script\\x0a:x"),
            ("java\tscript:x", "java\\x09script:x"),
            ("&#1; javascript:x", "\\x01 javascript:x"),
            ("\u{1f}javascript:x", "\\x1fjavascript:x"),
            ("/\n/evil", "/\\x0a/evil"),
            ("&sol;&bsol;evil", "/\\evil"),
            ("javascript:x<y", "javascript:x<y"),
        ] {
            check(&format!("<a href='{value}'>"), &format!("href `{shown}` on line 1 is not allowed: {LINK_RULE}"));
        }
        check(
            &format!("<a href=javascript:{}>", "é".repeat(60)),
            &format!("href `javascript:{}…` on line 1 is not allowed: {LINK_RULE}", "é".repeat(37)),
        );
    }

    #[test]
    fn data_is_an_image_or_something_to_keep() {
        for kind in DOWNLOADS {
            passes(&format!("<a download href=\"data:{kind};base64,AAAA\">x</a>"));
            let link = format!("data:{kind},x");
            check(&format!("<a href='{link}'>"), &format!("href `{link}` on line 1 is not allowed: {DOWNLOAD_RULE}"));
        }
        for bad in
            ["data:text/html,x", "data:image/svg+xml,x", "data:TEXT/HTML;x,y", "data:application/xhtml+xml,x", "data:text/plain"]
        {
            check(&format!("<a download href='{bad}'>"), &format!("href `{bad}` on line 1 is not allowed: {LINK_RULE}"));
        }
        passes("<img src=' DATA:image/GIF;base64,AAAA'>");
        for bad in ["http://a/x.png", "/x.png", "", "data:image/svg+xml,x", "data:text/plain,x", "javascript:x"] {
            check(&format!("<img src='{bad}'>"), &format!("src `{bad}` on line 1 is not allowed: {IMAGE_RULE}"));
        }
    }

    #[test]
    fn a_form_posts_to_a_command_here() {
        for bad in [
            "/run/",
            "/run",
            "/run/../x",
            "/run/x?y",
            "/run/%2e%2e",
            "/run//x",
            "run/x",
            "/",
            "http://a/run/x",
            "/run/x#",
            " /run/x",
            "/run/x y",
        ] {
            check(
                &format!("<form action='{bad}' method=post>"),
                &format!("action `{bad}` on line 1 is not allowed: {ACTION_RULE}"),
            );
        }
        check("<form action=/run/x method=get>", &format!("method `get` on line 1 is not allowed: {METHOD_RULE}"));
        check("<form action=/run/x>", &format!("`<form>` on line 1 needs `method`: {METHOD_RULE}"));
        check("<form method=post>", &format!("`<form>` on line 1 needs `action`: {ACTION_RULE}"));
        check("<input type=IMAGE>", &format!("type `IMAGE` on line 1 is not allowed: {INPUT_RULE}"));
        check("<input type=' file'>", &format!("type ` file` on line 1 is not allowed: {INPUT_RULE}"));
        passes("<input type=hidden><input type=checkbox checked>");
    }

    #[test]
    fn a_colour_fetches_nothing() {
        for bad in ["url(//a)", "u\\72l(x)", "URL(#x)", "red url(x)", "rgb(url(x))", "var(--x)", "image(x)", "rgb(1) url (x)"] {
            check(&format!("<svg><g fill='{bad}'>"), &format!("fill `{bad}` on line 1 is not allowed: {PAINT_RULE}"));
        }
    }

    #[test]
    fn svg_and_html_do_not_mix() {
        check("<svg>\n<style><a title=\"</style><img src=x onerror=f()>\">", "`<style>` on line 2 is not allowed");
        check("<svg><title><a title=\"</title><script>\">", "`<title>` on line 1 is not allowed");
        check("<svg><foreignObject><p>", "`<foreignobject>` on line 1 is not allowed");
        check("<svg><![CDATA[<script>x</script>]]>", "a comment on line 1 is not allowed");
        check("<svg></p>", "`</p>` on line 1 is not allowed inside `<svg>`");
        check("<svg><p>", "`<p>` on line 1 is not allowed inside `<svg>`");
        check("<svg><textarea><script>", "`<textarea>` on line 1 is not allowed inside `<svg>`");
        check("<path d=x>", "`<path>` on line 1 is not allowed outside `<svg>`");
        check("<svg>\n<g></svg>", "`</svg>` on line 2 ends nothing that is open there");
        check("</svg>", "`</svg>` on line 1 ends nothing that is open there");
        check("<svg>\n<svg><g/></svg>", "`<svg>` on line 1 is never closed");
        check(
            "<math><mtext><table><mglyph><style><!--</style><img title=\"--&gt;&lt;img src=1 onerror=f()&gt;\">",
            "`<math>` on line 1 is not allowed",
        );
        check("<svg><a>\n<rect></svg>", "`</svg>` on line 2 ends nothing that is open there");
        passes("<svg/><p>a</p>");
    }

    #[test]
    fn a_page_ends_in_plain_text() {
        check("<p>\n<a href=\"x>y</a>\n", "a tag on line 2 never ends");
        check("<p title='", "a tag on line 1 never ends");
        check("a\n<b", "a tag on line 2 never ends");
        check("a</", "a tag on line 1 never ends");
        check("a\n<!", "a tag on line 2 never ends");
        check("\n<textarea>a\n</b>", "`<textarea>` on line 2 is never closed");
        check("<textarea><a title=\"</textarea>\n<script>\">", "`<script>` on line 2 is not allowed");
        passes("a <");
        passes("a &am");
        passes("a &#x6");
    }

    #[test]
    fn a_tag_without_end_is_not_read_for_ever() {
        let long = "a tag on line 2 is too long: it has more than 32768 blanks, slashes and quotes";
        check(&format!("<p>\n<p{}>", " / ".repeat(20_000)), long);
        passes(&format!("<img src=\"data:image/png;base64,{}\">", "A".repeat(1 << 20)));
        passes(&"<p class=x>\n".repeat(40_000));
    }

    /// A small generator of numbers; the same seed gives the same ones.
    struct Dice(u64);

    impl Dice {
        fn roll(&mut self, sides: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as usize % sides
        }
    }

    const PARTS: &[&str] = &[
        "<",
        ">",
        "/",
        "</",
        "<!",
        "<!--",
        "-->",
        "<![CDATA[",
        "]]>",
        "<?",
        "=",
        "\"",
        "'",
        " ",
        "\n",
        "\r",
        "\r\n",
        "\t",
        "\0",
        "&",
        "&#",
        "&#x6a;",
        "&lt",
        "&amp;",
        ";",
        "a",
        "href",
        "svg",
        "g",
        "textarea",
        "script",
        "style",
        "title",
        "p",
        "math",
        "é",
        "\u{feff}",
        "<p>",
        "<svg>",
        "</svg>",
        "<textarea>",
        "</textarea>",
        "<a href=\"",
        "javascript:",
        "onclick",
        "<wbr>",
        "x",
    ];

    #[test]
    fn any_bytes_are_judged_and_always_alike() {
        for seed in 0..4_000 {
            let mut dice = Dice(seed);
            let mut bytes: Vec<u8> = (0..dice.roll(40)).flat_map(|_| PARTS[dice.roll(PARTS.len())].bytes()).collect();
            for _ in 0..dice.roll(3) {
                let at = dice.roll(bytes.len() + 1);
                bytes.insert(at, dice.roll(256) as u8);
            }
            assert_eq!(super::check(&bytes), super::check(&bytes), "seed {seed}");
        }
    }

    #[test]
    fn what_passes_holds_no_forbidden_thing_in_plain_sight() {
        let mut passed = 0;
        for seed in 0..20_000 {
            let mut dice = Dice(seed);
            let html: String = (0..dice.roll(8)).map(|_| PARTS[dice.roll(PARTS.len())]).collect();
            if super::check(html.as_bytes()).is_ok() {
                passed += 1;
                let text = html.split("<textarea>").map(|part| part.split_once("</textarea>").map_or(part, |(_, rest)| rest));
                let outside: String = text.collect();
                for bad in ["<script", "<style", "<title", "<math", "<!", "<?", "\0"] {
                    assert!(!outside.contains(bad), "seed {seed}: {html:?}");
                }
            }
        }
        assert!(passed > 1_000, "{passed}");
    }
}
