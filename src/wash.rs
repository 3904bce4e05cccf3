//! Washing: a projection made safe to send, whatever its script made of whatever stood in the log.
//!
//! An allow-list, the table of `markup`, over a parsed tree. Pages were checked when their projector was installed, and only then, so
//! each is washed before it is sent. Never touches the world. The invariant: nothing leaves that the table does not have.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use ammonia::{Builder, UrlRelative};

use crate::depth::{Tangle, measure};
use crate::markup::{EVERYWHERE, EVERYWHERE_PREFIX, TABLE, judge};

/// The largest page that is sent, in bytes.
pub const PAGE_BYTES_MAX: usize = 8 << 20;

/// How much of a heading becomes the title, in characters.
pub const TITLE_CHARS_MAX: usize = 120;

/// Why a page is not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WashFault {
    /// It is too large.
    #[error("it has {0} bytes; the limit is {PAGE_BYTES_MAX}")]
    Large(usize),
    /// It is too tangled to be read in a bounded time.
    #[error(transparent)]
    Tangled(#[from] Tangle),
}

/// A page that may be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Washed {
    /// Its mark-up.
    pub html: String,
    /// The text of its first `h1`.
    pub title: Option<String>,
    /// Whether it has a `main` of its own.
    pub has_main: bool,
}

static BUILDER: LazyLock<Builder<'static>> = LazyLock::new(|| {
    let mut builder = Builder::empty();
    builder.tags(TABLE.iter().flat_map(|row| row.elements()).collect());
    let mut attributes: HashMap<&str, HashSet<&str>> = HashMap::new();
    for row in &TABLE {
        for element in row.elements() {
            attributes.entry(element).or_default().extend(row.attributes());
        }
    }
    builder.tag_attributes(attributes);
    builder.generic_attributes(EVERYWHERE.into());
    builder.generic_attribute_prefixes([EVERYWHERE_PREFIX].into());
    builder.clean_content_tags(["script", "style", "title", "noscript", "template", "iframe"].into());
    builder.url_schemes(["http", "https", "mailto", "data"].into());
    builder.link_rel(None);
    builder.url_relative(UrlRelative::PassThrough);
    builder
        .attribute_filter(|element, attribute, value| judge(element, attribute, value).is_ok().then_some(Cow::Borrowed(value)));
    builder
});

/// Washes a page.
///
/// # Errors
/// When it is too large, or too tangled.
pub fn wash(page: &[u8]) -> Result<Washed, WashFault> {
    if page.len() > PAGE_BYTES_MAX {
        return Err(WashFault::Large(page.len()));
    }
    let page = String::from_utf8_lossy(page);
    measure(&page)?;
    let html = BUILDER.clean(&page).to_string();
    let (title, has_main) = (heading(&html), html.contains("<main"));
    Ok(Washed { html, title, has_main })
}

/// The text of the first `h1` of a washed page, on one line.
fn heading(html: &str) -> Option<String> {
    let starts = |start: &str| html.match_indices(start).map(|(at, _)| at).next();
    let from = starts("<h1>").into_iter().chain(starts("<h1 ")).min()?;
    let inner = &html[from..];
    let inner = &inner[..inner.find("</h1>")?];
    let mut text = String::new();
    let (mut tag, mut quoted) = (false, false);
    for char in inner.chars() {
        match char {
            '<' if !tag => tag = true,
            '"' if tag => quoted = !quoted,
            '>' if tag && !quoted => tag = false,
            _ if tag => {}
            char => text.push(char),
        }
    }
    // What the serialiser writes in a text, and nothing else.
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&nbsp;", " ").replace("&amp;", "&");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let cut: String = text.chars().take(TITLE_CHARS_MAX).collect();
    (!cut.is_empty()).then_some(cut)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::markup;

    #[track_caller]
    fn check(page: &str, expect: &str) {
        let washed = wash(page.as_bytes()).unwrap();
        assert_eq!(washed.html, expect);
        assert_eq!(wash(washed.html.as_bytes()).unwrap().html, expect, "washed twice");
    }

    #[test]
    fn what_may_stand_stays() {
        for page in [
            "<h1 class=\"x\" id=\"y\">T</h1>\n<p lang=\"en\" aria-label=\"a\">a<br>b &amp; c</p>",
            "<form action=\"/run/timer/set\" method=\"post\"><label for=\"a\">A</label><input id=\"a\" name=\"a\" required=\"\">\
             <textarea name=\"t\" rows=\"3\">x</textarea><select name=\"s\"><option value=\"1\">x</option></select>\
             <button type=\"submit\">Go</button></form>",
            "<table><thead><tr><th scope=\"col\">a</th></tr></thead><tbody><tr><td>1</td></tr></tbody></table>",
            "<details open=\"\"><summary>s</summary><time datetime=\"2000-01-01\">t</time></details>",
            "<svg viewBox=\"0 0 10 10\" width=\"10\" role=\"img\"><g transform=\"scale(2)\"><path d=\"M0 0L1 1\" fill=\"none\">\
             </path><rect x=\"1\" y=\"1\" width=\"1\" height=\"1\"></rect><text x=\"1\">a<tspan>b</tspan></text></g></svg>",
            "<img alt=\"x\" src=\"data:image/png;base64,AAAA\">",
            "<a href=\"data:text/csv,a\" download=\"a.csv\">keep</a> <a href=\"/notes?x=1#y\">n</a> <a href=\"https://a/\">o</a>",
            "<nav aria-label=\"Pages\"><ul><li><a href=\"/chat\">c</a></li></ul></nav><main><p>x</p></main>",
        ] {
            check(page, page);
        }
    }

    #[test]
    fn w5_what_would_act_is_taken_away() {
        check("<p>a<script>alert(1)</script>b</p>", "<p>ab</p>");
        check("<img src=x onerror=alert(1)>", "<img>");
        check("<form action=//evil method=post><input name=a></form>", "<form method=\"post\"><input name=\"a\"></form>");
        check("<form action=\"/run/x?y\" method=get></form>", "<form></form>");
        check("<meta http-equiv=refresh content=0><link rel=stylesheet href=x><base href=//evil>a", "a");
        check("<a href=\" java\nscript:alert(1)\">x</a>", "<a>x</a>");
        check("<a href=\"data:text/html,x\">x</a><a href=\"//evil\">y</a><a href=\"/\\evil\">z</a>", "<a>x</a><a>y</a><a>z</a>");
        check("<a href=/x target=_blank ping=//evil style=x>x</a>", "<a href=\"/x\">x</a>");
        check("<title><b>x</b></title><style>*{}</style><noscript><p>x</p></noscript>y", "y");
        check(
            "<svg><style>a</style><script>x</script><foreignObject><p>y</p></foreignObject><g fill=\"url(//evil)\"></g></svg>",
            "<svg><g></g></svg>",
        );
        check("<svg><a xlink:href=\"javascript:x\"><text>a</text></a></svg>", "<svg><a><text>a</text></a></svg>");
        check("<math><mtext><table><mglyph><style><!--</style><img title=\"--&gt;&lt;img src=1 onerror=f()&gt;\">", "");
        check(
            "<input type=image src=x><input type=file><button formaction=//evil>x</button>",
            "<input><input><button>x</button>",
        );
        check("<iframe srcdoc=x></iframe><object data=x></object><embed src=x><!-- c -->z", "z");
        check("<p onclick=\"x\" data-x=y contenteditable>t</p>", "<p>t</p>");
    }

    #[test]
    fn what_is_washed_passes_the_check_of_an_installation() {
        for page in [
            "<p>a<b>b<i>c</b>d</i><table><td>x<p>y</table><li>z",
            "<svg><p><path/><title>x</title></svg><textarea>a</b></textarea>",
            "<!doctype html><html><head><title>t</title></head><body><h1>x</h1></body></html>",
            "<select><option>a<b>c</select><a><a>x",
            "\u{feff}\0<p>\0a &amp;lt; &#0;",
        ] {
            let washed = wash(page.as_bytes()).unwrap();
            assert_eq!(markup::check(washed.html.as_bytes()), Ok(()), "{page:?} became {:?}", washed.html);
        }
    }

    #[test]
    fn a_page_over_a_limit_is_refused_in_words() {
        let told = |page: &[u8]| wash(page).unwrap_err().to_string();
        assert_eq!(told(&vec![b'x'; PAGE_BYTES_MAX + 1]), "it has 8388609 bytes; the limit is 8388608");
        assert_eq!(told("<div>".repeat(300).as_bytes()), "it nests deeper than 256 elements");
    }

    #[test]
    fn the_first_heading_is_the_title() {
        for (page, expect) in [
            ("<p>x</p>", None),
            ("<h1></h1>", None),
            ("<h1>Notes</h1><h1>More</h1>", Some("Notes")),
            ("<header><h1 class=x title=\"a>b\">A <b title='>'>b</b>\n &lt;i&gt; &amp;amp;</h1></header>", Some("A b <i> &amp;")),
        ] {
            assert_eq!(wash(page.as_bytes()).unwrap().title.as_deref(), expect, "{page}");
        }
        assert!(wash(b"<main>x").unwrap().has_main);
        assert!(!wash(b"<p>&lt;main&gt;").unwrap().has_main);
    }
}
