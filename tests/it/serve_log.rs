//! The pages of the server that show the log itself: the timeline, one event, and what a text finds, each with its twin in JSON.

use std::fs;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::home::{Home, MOMENT, batch, first_line, line, wait_until};
use crate::scripts::{command, fence};
use crate::serve::with_page;
use crate::server::Server;

/// A line of a log, written by hand.
fn entry(seq: u64, moment: &str, via: &str, by: &str, name: &str, payload: &str) -> String {
    let by = if by.is_empty() { String::new() } else { format!(",\"by\":\"{by}\"") };
    format!(
        "{{\"id\":\"{seq:032x}\",\"seq\":{seq},\"name\":\"{name}\",\"occurred_at\":\"{moment}\",\"via\":\"{via}\"{by},\"payload\":{payload}}}\n"
    )
}

/// Twelve events through all doors, of several speakers and days.
fn lines() -> Vec<String> {
    let mut lines = vec![first_line()];
    for (at, (via, by, name, payload)) in [
        ("pipe", "ada", "note.taken", r#"{"text":"the kettle is on"}"#),
        ("pipe", "ada", "note.taken", r#"{"text":"tea","n":1.10,"b":9007199254740993,"a":1e400}"#),
        ("cli", "bob", "note.dropped", r#"{"text":"tea"}"#),
        ("http:127.0.0.1", "", "visit.made", "{}"),
        ("http:[::1]", "", "visit.made", "{}"),
        ("learn:tides", "moon", "tide.high", r#"{"text":"tea and salt"}"#),
        ("learn:harbour", "", "tide.low", "null"),
        ("kernel", "", "event.refused", r#"{"name":"x","reason":"y","excerpt":"z"}"#),
        ("pipe", "Ada & Co", "chat.message", r#"{"role":"assistant","content":"kettle"}"#),
        ("pipe", "ada", "note.taken", r#"{"text":"last"}"#),
        ("cli", "", "note.taken", "[]"),
    ]
    .into_iter()
    .enumerate()
    {
        let (seq, day) = (at as u64 + 2, at / 2 + 2);
        lines.push(entry(seq, &format!("2026-03-{day:02}T12:00:00.000000000Z"), via, by, name, payload));
    }
    lines
}

/// The twin of a page, as far as these tests look at it.
#[derive(Deserialize)]
struct Twin {
    events: Vec<Box<RawValue>>,
    before: Option<u64>,
    looked_back_to: Option<u64>,
}

impl Twin {
    #[track_caller]
    fn get(server: &Server, path: &str) -> Twin {
        let answer = server.get(path);
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")), "{path}: {}", answer.text());
        serde_json::from_slice(&answer.body).unwrap()
    }

    fn lines(&self) -> String {
        self.events.iter().map(|event| format!("{}\n", event.get())).collect()
    }
}

/// All pages from the newest back, joined: the records, and how many pages there are.
#[track_caller]
fn walk(server: &Server, path: &str) -> (String, usize) {
    let (mut lines, mut pages, mut next) = (String::new(), 0, String::new());
    loop {
        let twin = Twin::get(server, &format!("{path}{next}"));
        lines += &twin.lines();
        pages += 1;
        let Some(before) = twin.before else { return (lines, pages) };
        next = format!("{}before={before}", if path.contains('?') { '&' } else { '?' });
    }
}

#[track_caller]
fn has(page: &str, parts: &[&str]) {
    for part in parts {
        assert!(page.contains(part), "{part} in {page}");
    }
}

#[test]
fn each_filter_finds_what_the_verb_finds_and_payloads_are_the_stored_bytes() {
    let home = Home::with_log(lines().concat());
    let server = home.serve();
    for (query, arguments) in [
        ("", &[][..]),
        ("?name=note.taken", &["--name", "note.taken"]),
        ("?name=*.%3Faken", &["--name", "*.?aken"]),
        ("?by=ada", &["--by", "ada"]),
        ("?by=Ada+%26+Co", &["--by", "Ada & Co"]),
        ("?without=by", &["--by", ""]),
        ("?via=http", &["--via", "http"]),
        ("?via=http:127.0.0.1", &["--via", "http:127.0.0.1"]),
        ("?via=learn", &["--via", "learn"]),
        ("?without=via", &["--via", ""]),
        ("?day=2026-03-03", &["--since", "2026-03-03", "--until", "2026-03-04"]),
        ("?q=tea", &["--grep", "tea"]),
        ("?q=%22n%22:1.10", &["--grep", "\"n\":1.10"]),
        (
            "?name=note.*&by=ada&via=pipe&day=2026-03-02&q=tea",
            &["--name", "note.*", "--by", "ada", "--via", "pipe", "--grep", "tea"],
        ),
        ("?name=nosuch.event", &["--name", "nosuch.event"]),
    ] {
        let all = home.run(["log", "--reverse", "--json"].iter().chain(arguments)).stdout_any().check().text();
        assert_eq!(Twin::get(&server, &format!("/-/log.json{query}")).lines(), all, "{query}");
        assert_eq!(server.get(&format!("/-/log{query}")).status, 200, "{query}");
    }
}

#[test]
fn all_pages_joined_are_the_log_from_the_newest_back() {
    let mut lines = vec![first_line()];
    for seq in 2..=451 {
        let text = "x".repeat(if seq % 50 == 0 { 400_000 } else { 40 });
        let name = if seq % 7 == 0 { "rare.made" } else { "note.taken" };
        lines.push(line(seq, "pipe", name, &format!("{{\"text\":\"{text}\"}}")));
    }
    lines.insert(100, "junk\n".to_owned());
    let home = Home::with_log(lines.concat());
    let server = home.serve();
    let whole = home.run(["log", "--reverse", "--json"]).stdout_any().stderr_any().check().text();
    assert_eq!(walk(&server, "/-/log.json"), (whole, 5));
    let rare = home.run(["log", "--reverse", "--json", "--name", "rare.made"]).stdout_any().stderr_any().check().text();
    assert_eq!(walk(&server, "/-/log.json?name=rare.made"), (rare, 1));
    let page = server.get("/-/log").text();
    let older = page.split("rel=\"next\" href=\"").nth(1).unwrap().split('"').next().unwrap();
    let second = server.get(&older.replace("&amp;", "&")).text();
    has(&page, &["<p class=\"warn\">Damaged lines, which are left out: 1. <code>self verify</code> names them.</p>"]);
    has(&second, &["<a href=\"/-/log\">Back to the newest</a>", "#351</a>", "#252</a>", ">Older</a>"]);
    assert!(!second.contains("#352</a>") && !second.contains("#251</a>") && !second.contains("<script"), "{second}");
}

#[test]
fn where_looking_ends_before_the_page_is_full_it_says_how_far_it_looked() {
    let text = "x".repeat(1 << 20);
    let mut lines = vec![first_line(), line(2, "pipe", "rare.made", r#"{"text":"needle"}"#)];
    lines.extend((3..=22).map(|seq| line(seq, "pipe", "note.taken", &format!("{{\"text\":\"{text}\"}}"))));
    let home = Home::with_log(lines.concat());
    let server = home.serve();
    for path in ["/-/log", "/-/search"] {
        let twin = Twin::get(&server, &format!("{path}.json?q=needle"));
        let page = server.get(&format!("{path}?q=needle")).text();
        if let Some(before) = twin.before {
            let seq = twin.looked_back_to.unwrap();
            assert!((13..=16).contains(&seq), "eight MiB were looked at, back to {seq}");
            let further = format!(
                "Looked back to <a href=\"/-/event/{seq}\">event {seq}</a>; <a rel=\"next\" href=\"{path}?q=needle&amp;before={before}\">go on</a>."
            );
            has(&page, &[&further]);
        }
        let found = walk(&server, &format!("{path}.json?q=needle")).0;
        assert_eq!(found, home.run(["log", "--json", "2"]).stdout_any().check().text());
    }
}

#[test]
fn a_link_sets_or_removes_one_filter_and_keeps_the_others() {
    let home = Home::with_log(lines().concat());
    let page = home.serve().get("/-/log?name=note.taken&by=ada&q=t").text();
    has(
        &page,
        &[
            "The log holds 12 events;",
            // Each that is set can be removed.
            "<li><a class=\"tag\" href=\"/-/log?by=ada&amp;q=t\">Name <b>note.taken</b>",
            "<li><a class=\"tag\" href=\"/-/log?name=note.taken&amp;q=t\">Speaker <b>ada</b>",
            "<li><a class=\"tag\" href=\"/-/log?name=note.taken&amp;by=ada\">Text <b>t</b>",
            "<li><a href=\"/-/log\">Remove all</a></li>",
            // The counts are of the whole log.
            "<aside id=\"counts\" aria-label=\"Counts of the whole log\"><h2>In the whole log</h2>",
            "<a href=\"/-/log?by=ada&amp;q=t\" aria-current=\"true\">note.taken<span class=\"unseen\">, remove</span></a> <span class=\"num\">4</span>",
            "<a href=\"/-/log?name=visit.made&amp;by=ada&amp;q=t\">visit.made</a> <span class=\"num\">2</span>",
            "<a href=\"/-/log?name=note.taken&amp;without=by&amp;q=t\">nobody named</a>",
            "<a href=\"/-/log?name=note.taken&amp;by=Ada%20%26%20Co&amp;q=t\">Ada &amp; Co</a> <span class=\"num\">1</span>",
            "<a href=\"/-/log?name=note.taken&amp;by=ada&amp;via=http&amp;q=t\">http, any address</a> <span class=\"num\">2</span>",
            "<a href=\"/-/log?name=note.taken&amp;by=ada&amp;day=2026-03-02&amp;q=t\">2026-03-02</a> <span class=\"num\">2</span>",
            // The form keeps what is set.
            "<input id=\"filter-name\" name=\"name\" type=\"text\" value=\"note.taken\">",
            "<mark>t</mark>",
        ],
    );
    let names = (0..20).map(|n| line(n + 2, "pipe", &format!("n.n{n:02}"), "{}"));
    let home = Home::with_log(std::iter::once(first_line()).chain(names).collect::<String>());
    has(&home.serve().get("/-/log").text(), &["<details id=\"more-name\"><summary>9 more</summary>"]);
}

#[test]
fn runs_of_one_kind_are_folded_under_their_day() {
    let mut lines = vec![first_line()];
    let mut add = |day: &str, via: &str, by: &str, name: &str, count: u64| {
        for _ in 0..count {
            let seq = lines.len() as u64 + 1;
            lines.push(entry(seq, &format!("{day}T10:00:{seq:02}Z"), via, by, name, r#"{"text":"t"}"#));
        }
    };
    add("2026-03-01", "pipe", "ada", "a.b", 3);
    add("2026-03-01", "pipe", "bob", "a.b", 1);
    add("2026-03-01", "kernel", "", "log.sealed", 1);
    add("2026-03-01", "pipe", "ada", "a.b", 2);
    add("2026-03-02", "pipe", "ada", "a.b", 5);
    let home = Home::with_log(lines.concat());
    let page = home.serve().get("/-/log").text();
    let list = &page[page.find("<h2>Monday, 2026-03-02</h2>").unwrap()..page.find("<aside").unwrap()];
    let time = |day: &str, seq: u64| format!("<time class=\"muted\" datetime=\"{day}T10:00:{seq:02}Z\">10:00:{seq:02}</time> ");
    let event = |day: &str, seq: u64, by: &str| {
        format!(
            "<li>{}<a class=\"name\" href=\"/-/log?name=a.b\"><code>a.b</code></a> <span class=\"who\">{by}</span> <span class=\"telling\">t</span> \
             <span class=\"place\"><span class=\"via\">pipe</span> <a href=\"/-/event/{seq}\"><span class=\"unseen\">event </span>#{seq}</a></span></li>",
            time(day, seq)
        )
    };
    let (first, second) = ("2026-03-01", "2026-03-02");
    let run: String = (9..=13).rev().map(|seq| event(second, seq, "ada")).collect();
    let quiet = |day: &str, name: &str, seq: u64, told: &str| {
        format!(
            "<li class=\"quiet\">{}<a class=\"name\" href=\"/-/log?name={name}\"><code>{name}</code></a> <span class=\"telling\">{told}</span> <span class=\"place\"><span class=\"via\">kernel</span> \
             <a href=\"/-/event/{seq}\"><span class=\"unseen\">event </span>#{seq}</a></span></li>",
            if seq == 1 {
                "<time class=\"muted\" datetime=\"2026-01-01T00:00:00Z\">00:00:00</time> ".to_owned()
            } else {
                time(day, seq)
            }
        )
    };
    let expect = format!(
        "<h2>Monday, 2026-03-02</h2><ol class=\"log line\"><li><details class=\"run\" id=\"run-9\"><summary>{}– {}<span class=\"num\">5</span> × \
         <code>a.b</code> <span class=\"who\">ada</span> <span class=\"via\">pipe</span></summary><ol class=\"log line\">{run}</ol></details></li></ol>\
         <h2>Sunday, 2026-03-01</h2><ol class=\"log line\">{}{}{}{}{}{}{}</ol><h2>Thursday, 2026-01-01</h2><ol class=\"log line\">{}</ol>\
         <p class=\"muted\">That is the beginning of the log.</p></div>",
        time(second, 9),
        time(second, 13),
        event(first, 8, "ada"),
        event(first, 7, "ada"),
        quiet(first, "log.sealed", 6, "sealed through event"),
        event(first, 5, "bob"),
        event(first, 4, "ada"),
        event(first, 3, "ada"),
        event(first, 2, "ada"),
        quiet(first, "kernel.initialized", 1, "this home was made"),
    );
    assert_eq!(list, expect);
}

#[test]
fn an_odd_value_is_refused_in_words_with_an_example() {
    let home = Home::with_log(lines().concat());
    let server = home.serve();
    for (path, words) in [
        ("/-/log?day=yesterday", "`day` is a day of UTC, and not `yesterday`: /-/log?day=2026-11-30\n"),
        (
            "/-/log.json?before=x",
            "`before` is a byte of the log at which a line starts, and not `x`; the links of the page have it: /-/log?before=0\n",
        ),
        (
            "/-/log?before=7",
            "`before` is a byte of the log at which a line starts, and not `7`; the links of the page have it: /-/log?before=0\n",
        ),
        (
            "/-/search?before=99999999",
            "`before` is a byte of the log at which a line starts, and not `99999999`; the links of the page have it: /-/search?before=0\n",
        ),
        (
            "/-/search?before=7&q=x",
            "`before` is a byte of the log at which a line starts, and not `7`; the links of the page have it: /-/search?before=0\n",
        ),
        ("/-/log?q=%FF", "parameter 1 of the query is not UTF-8, or holds a NUL: a text is written as in /-/log?q=caf%C3%A9\n"),
        ("/-/search?name=x", "`name` is no parameter of /-/search: it takes `q`, `before`, as in /-/search?q=tea\n"),
    ] {
        // Without a text nothing is sought.
        let path = path.replace("/-/search?before=9", "/-/search?q=a&before=9");
        let answer = server.get(&path);
        assert_eq!((answer.status, answer.text().as_str()), (400, words), "{path}");
    }
    for path in ["/-/event/0", "/-/event/13", "/-/event/13.json", "/-/event/13.txt"] {
        let number = path.trim_start_matches("/-/event/").split('.').next().unwrap();
        let answer = server.get(path);
        assert_eq!(
            (answer.status, answer.text()),
            (404, format!("no event has the number {number}; the newest has 12\n")),
            "{path}"
        );
    }
    for path in ["/-/event/x", "/-/event/+1", "/-/event/1.html", "/-/event/99999999999999999999"] {
        assert_eq!(server.get(path).text(), "an event has a whole number: /-/event/12\n", "{path}");
    }
    assert_eq!(server.form("/-/log", "q=x").status, 405);
}

#[test]
fn an_event_is_shown_whole_and_no_token_of_its_payload_changes() {
    let home = Home::with_log(lines().concat());
    let server = home.serve();
    let page = server.get("/-/event/3").text();
    has(
        &page,
        &[
            "<a rel=\"prev\" href=\"/-/event/2\">← event 2</a>",
            "<a rel=\"next\" href=\"/-/event/4\">event 4 →</a>",
            "<h1>Event 3</h1>",
            "<code>note.taken</code></a>: an event of this home; the kernel keeps it and does not act on it.",
            "<dd><time datetime=\"2026-03-02T12:00:00Z\">Monday, 2026-03-02, 12:00:00 UTC</time> <span class=\"muted\">stored as 2026-03-02T12:00:00.000000000Z</span></dd>",
            "<dd>pipe: a question or an answer on stdin</dd>",
            "<dd>ada: a claim, kept verbatim and never believed</dd>",
            "<pre><code>{\n  &quot;text&quot;: &quot;tea&quot;,\n  &quot;n&quot;: 1.10,\n  &quot;b&quot;: 9007199254740993,\n  &quot;a&quot;: 1e400\n}</code></pre>",
            "<a href=\"/-/event/3.txt\">",
        ],
    );
    assert_eq!(server.get("/-/event/3.txt").text(), lines()[2]);
    let twin = server.get("/-/event/3.json").text();
    let start = format!("{{\"event\":{},\"means\":\"an event of this home;", lines()[2].trim_end());
    assert!(twin.starts_with(&start), "{start} in {twin}");
    assert!(twin.ends_with("\"waits\":false,\"previous\":2,\"next\":4}\n"), "{twin}");
}

#[test]
fn a_long_payload_is_cut_with_a_way_to_the_whole() {
    let home = Home::made();
    let text = "a b\\n".repeat(45_000);
    home.hear(&format!(r#"{{"name":"big.event","payload":{{"text":"{text}","blob":"{}"}}}}"#, "QUJD".repeat(200_000)));
    let server = home.serve();
    let page = server.get("/-/event/3").text();
    let more = |bytes: usize| format!("<p>… {bytes} bytes more: <a href=\"/-/event/3.txt\">the line as it is stored</a></p>");
    let stored = home.payloads("big.event")[0].len();
    // In front of the text the layout adds a line end, two blanks of indent and one behind the colon.
    has(&page, &["<h2>What it says</h2>", &more(180_000 - 65_536), &more(stored - 65_536 + 4)]);
    assert!(page.len() < 200_000, "{} bytes", page.len());
    let line = server.get("/-/event/3.txt").text();
    assert_eq!(line.as_bytes(), home.log().split_inclusive(|byte| *byte == b'\n').nth(2).unwrap());
    let page = server.get("/-/log").text();
    has(&page, &[&format!("…</span> <span class=\"muted\">{stored} bytes</span>")]);
    assert!(page.len() < 20_000, "{} bytes", page.len());
}

#[test]
fn an_event_says_what_it_has_to_do_with_others() {
    let home = with_page("#!/bin/sh\nprintf '{\"name\":\"a.b\",\"payload\":{}}\\n'\n");
    home.hear(
        "{\"name\":\"a.b\",\"payload\":{\"text\":\"1\"}}\n{\"name\":\"c.d\",\"payload\":{}}\n{\"name\":\"e.f\",\"payload\":{}}",
    );
    let last = home.records().len();
    home.sh("echo why | self | sh -c 'cat >/dev/null; echo because' | self").stdout_any().stderr_any().check();
    home.sh("echo wherefore | self | sh -c 'cat >/dev/null'").stdout_any().stderr_any().end();
    let server = home.serve();
    let event = |seq: usize| server.get(&format!("/-/event/{seq}")).text();
    let link = |seq: usize, name: &str| format!("<a href=\"/-/event/{seq}\">#{seq} <code>{name}</code></a>");
    has(
        &event(last - 2),
        &[
            "<dt>Read by</dt><dd><a href=\"/-/capability/projector/notes\"><code>projector/notes</code></a></dd>",
            &format!(
                "<dt>Batch</dt><dd>1 of 3, which landed whole<ul class=\"row\"><li><span class=\"muted\">this one</span></li><li>{}</li><li>{}</li></ul>",
                link(last - 1, "c.d"),
                link(last, "e.f")
            ),
        ],
    );
    has(&event(last), &["3 of 3, which landed whole", &link(last - 2, "a.b"), &link(last - 1, "c.d")]);
    has(&event(last + 1), &[&format!("<dt>Answered by</dt><dd><a href=\"/-/event/{0}\">event {0}</a></dd>", last + 2)]);
    has(&event(last + 2), &[&format!("<dt>Answers</dt><dd><a href=\"/-/event/{0}\">event {0}</a></dd>", last + 1)]);
    has(&event(last + 3), &["<dt>Answered by</dt><dd>nobody yet</dd>"]);
    let declared = home.records().iter().position(|record| record.name == "command.declared").unwrap() + 1;
    has(&event(declared), &["<dt>Speaks of</dt><dd><a href=\"/-/capability/command/x\"><code>command/x</code></a></dd>"]);
    // A receipt is told in the words of `self log`.
    home.hear(&fence("command/x", "#!/bin/sh\ntrue\n"));
    let receipts: Vec<_> =
        home.records().iter().filter(|record| record.name == "script.compiled").map(|record| record.seq).collect();
    assert_eq!(receipts.len(), 3);
    for seq in receipts {
        let told = home.run(["log", &seq.to_string()]).stdout_any().check().text();
        let words = told.lines().find_map(|line| line.strip_prefix("receipt  ")).unwrap();
        assert!(words.starts_with("verified, "), "{words}");
        has(&event(usize::try_from(seq).unwrap()), &[&format!("<dt>Receipt</dt><dd>{words}</dd>")]);
    }
}

#[test]
fn of_several_events_of_a_number_the_first_is_shown_and_that_is_said() {
    let mut lines = lines();
    lines.push(line(3, "pipe", "second.one", "{}"));
    lines.extend(batch(14, &[("x.y", "{}")]));
    let home = Home::with_log(lines.concat());
    let server = home.serve();
    has(&server.get("/-/event/3").text(), &["<code>note.taken</code>", "1 more claim this number; this is the first of them."]);
    has(&server.get("/-/event/3.json").text(), &["\"others_of_its_number\":1"]);
    assert_eq!(server.get("/-/event/3.txt").text(), lines[2]);
    assert_eq!(server.get("/-/event/13").status, 404);
}

/// Text that acts wherever it is not escaped.
const HOSTILE: &str = r#"</title></p></mark><script>alert(1)</script><img src=x onerror=alert(1)>' \" onclick=x -->"#;

#[test]
fn w5_hostile_text_is_text_on_the_pages_of_the_log() {
    let home = Home::new();
    let event = |name: &str, payload: &str| format!(r#"{{"name":"{name}","payload":{payload}}}"#) + "\n";
    let body = event("a.b", &format!(r#"{{"text":"{HOSTILE}\u202e\u0000\u001b","name":"{HOSTILE}","type":"{HOSTILE}"}}"#))
        + &event("command.declared", &format!(r#"{{"name":"evil","description":"{HOSTILE}"}}"#))
        + &event("c.d", &format!(r#"["{HOSTILE}"]"#));
    home.run(["hear"]).env("SELF_CALLER", HOSTILE.replace('\\', "")).stdin(body).stderr_any().check();
    home.append(entry(5, "</time><script>", "</b>\\u202e<script>", "</b><script>", "<script>.x", "{}"));
    let server = home.serve();
    let sought = "q=%3Cscript%3Ealert";
    for (path, at_least) in [
        ("/-/log".to_owned(), 4),
        (format!("/-/log?{sought}&by=%3Cscript%3E"), 1),
        (format!("/-/log?{sought}"), 3),
        ("/-/event/2".to_owned(), 3),
        ("/-/event/3".to_owned(), 2),
        ("/-/event/5".to_owned(), 3),
        (format!("/-/search?{sought}"), 4),
    ] {
        let page = server.send("GET", &path, &[("Accept", "text/html")], "").text();
        let main = &page[page.find("<main").unwrap()..page.find("</main>").unwrap()];
        assert!(main.matches("&lt;script&gt;").count() >= at_least, "{path} shows it: {main}");
        assert!(!main.contains("<script") && !main.contains("<img") && !main.contains("onclick=x -->\""), "{path}: {main}");
        assert!(!main.contains(['\u{202e}', '\0', '\u{1b}']), "{path}: {main}");
    }
    has(&server.get(&format!("/-/log?{sought}")).text(), &["<mark>&lt;script&gt;alert</mark>"]);
}

#[test]
fn a_search_finds_capabilities_by_name_or_description_and_events_by_their_text() {
    let home = with_page("#!/bin/sh\ntrue\n");
    home.hear(&(command("waits") + r#"{"name":"a.b","payload":{"text":"A kettle of Tea"}}"#));
    let server = home.serve();
    let empty = server.get("/-/search").text();
    has(&empty, &["<h1>Search</h1>", "<input id=\"q\" name=\"q\" type=\"search\" value=\"\" required>"]);
    assert!(!empty.contains("<h2>"), "{empty}");
    has(
        &server.get("/-/search?q=NOTES").text(),
        &["<li><a href=\"/-/capability/projector/notes\"><code>projector/notes</code></a> d</li>", "No event matches."],
    );
    has(&server.get("/-/search?q=waits").text(), &["<code>command/waits</code></a> <span class=\"tag\">pending</span>"]);
    has(
        &server.get("/-/search?q=kettle").text(),
        &[
            "None has this in its name or description.",
            "A <mark>kettle</mark> of Tea",
            "<a href=\"/-/log?q=kettle\">Filter these in the log</a>",
        ],
    );
    let nothing = server.get("/-/search?q=nowhere").text();
    assert!(nothing.contains("No event matches.") && !nothing.contains("Filter these"), "{nothing}");
    let twin = server.get("/-/search.json?q=kettle").text();
    home.hear(&["{\"name\":\"a.b\",\"payload\":{\"text\":\"more of the kettle\"}}"; 5].join("\n"));
    let page = server.get("/-/search?q=kettle").text();
    assert!(
        page.matches("<mark>kettle</mark>").count() == 6 && !page.contains("class=\"run\""),
        "all that was found is seen: {page}"
    );
    has(&page, &["<h2>Events</h2>", "<h3>"]);
    has(&server.get("/-/log?q=kettle").text(), &["<details class=\"run\""]);
    has(&server.get("/-/log?q=kettle").text(), &["Nothing older matches."]);
    has(&twin, &["\"q\":\"kettle\",\"capabilities\":[],", r#""payload":{"text":"A kettle of Tea"}}],"before":null"#]);
}

#[test]
fn every_page_leads_to_the_log_and_to_the_event_it_is_as_of() {
    let home = with_page("#!/bin/sh\ntrue\n");
    let seq = home.records().len();
    let server = home.serve();
    for path in ["/", "/kernel", "/notes", "/-/log", "/-/event/1", "/-/search"] {
        let page = server.get(path).text();
        let current = if path == "/-/log" { " aria-current=\"page\"" } else { "" };
        has(
            &page,
            &[
                &format!("<li><a href=\"/-/log\"{current}>log</a></li>"),
                &format!("as of <a href=\"/-/event/{seq}\">event {seq}</a>"),
                "<form class=\"find\" action=\"/-/search\" method=\"get\"",
            ],
        );
    }
}

/// How many bytes a server has read so far, of files and of sockets.
fn bytes_read(server: &Server) -> u64 {
    let counts = fs::read_to_string(format!("/proc/{}/io", server.pid().as_raw_nonzero())).unwrap();
    counts.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
}

#[test]
fn what_a_page_reads_does_not_grow_with_the_log() {
    let read = |events: u64| {
        let home = Home::made();
        let mut lines = String::new();
        for seq in 3..=events {
            let name = ["note.taken", "check.passed", "task.done"][usize::try_from(seq % 3).unwrap()];
            lines += &entry(seq, MOMENT, "pipe", "ada", name, r#"{"text":"the kettle is on, and tea is at four o'clock"}"#);
        }
        home.append(lines);
        let server = home.serve();
        ["/-/log", "/-/log?name=note.taken&by=ada", "/-/event/1500", "/-/search?q=kettle"].map(|path| {
            server.get(path);
            let before = bytes_read(&server);
            assert_eq!(server.get(path).status, 200);
            let mut last = 0;
            // The connection's own last bytes are counted a moment later.
            wait_until("it has read what it reads", || std::mem::replace(&mut last, bytes_read(&server)) == bytes_read(&server));
            last - before
        })
    };
    let (short, long) = (read(2_000), read(200_000));
    for (short, long) in short.into_iter().zip(long) {
        // A line on the way on is read with what stands behind it, a quarter of a MiB at a time; a log of 2,000 has less.
        assert!(long <= short.max(576 << 10) + (64 << 10), "{long} bytes instead of {short}");
    }
    assert!(long[0] <= short[0] + (64 << 10) && long[0] < 200 << 10, "{} bytes instead of {}", long[0], short[0]);
}
