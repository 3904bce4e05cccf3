//! What the pages of the local server show: the shell around a projection, hostile text, what is new, and what moves by itself.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::home::{Home, records};
use crate::scripts::{command, fence};
use crate::serve::{PAGE, with_page};
use crate::server::{Server, read_head};

const KEEP: &str = "#!/bin/sh\nprintf '{\"name\":\"a.b\",\"payload\":{\"text\":\"%s\"}}\\n' \"$1\"\n";

/// A page that prints what its events hold as it is: no projector is installed that does so at its trial, so this one waits for a word.
const RAW: &str = "#!/bin/sh\ntext=$(sed -n 's/.*\"text\":\"\\(.*\\)\"}}$/\\1/p' | tail -n 1)\ncase \"$text\" in *RAW*) printf '%s\\n' \"$text\" | sed 's/RAW//; s/\\\\\"/\"/g';; *) echo '<p>calm</p>';; esac\n";

/// What stands between `main` and its end.
fn main_of(page: &str) -> &str {
    let from = page.find("<main id=\"page\" tabindex=\"-1\">").unwrap_or_else(|| panic!("{page}"));
    &page[from..page.find("</main>").unwrap()]
}

#[test]
fn a_projection_gets_a_shell_around_it_and_stays_bare_on_disk() {
    let home = with_page(KEEP);
    let server = home.serve();
    server.form("/run/x", "a=hello");
    let page = server.get("/notes").text();
    let seq = home.records().len();
    for part in [
        "<!DOCTYPE html><html lang=\"en\" data-seq=\"",
        "<title>Notes</title>",
        "<a class=\"skip\" href=\"#page\">",
        "<link rel=\"stylesheet\" href=\"/-/self.css\">",
        "<script type=\"module\" src=\"/-/self.js\"></script>",
        "<li><a href=\"/\">Home</a></li><li><a href=\"/notes\" aria-current=\"page\">notes</a></li><li><a href=\"/brief\">brief</a></li><li><a href=\"/-/log\">log</a></li><li><a href=\"/events\">events</a></li>",
        &format!("data-seq=\"{seq}\""),
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    let bare = fs::read_to_string(home.join("site/notes.html")).unwrap();
    assert_eq!(main_of(&page), format!("<main id=\"page\" tabindex=\"-1\">{bare}"));
    assert!(!bare.contains("<html") && bare.contains("hello"));
}

#[test]
fn a_projection_with_a_main_of_its_own_keeps_it() {
    let home = Home::new();
    let page = r#"{"name":"projector.declared","payload":{"name":"own","consumes":["a.b"]}}"#;
    let script = "#!/bin/sh\necho '<main><p>own</p></main>'\n";
    home.hear(&format!("{page}\n{}", fence("projector/own", script)));
    let page = home.serve().get("/own").text();
    assert_eq!(page.matches("<main").count(), 1, "{page}");
    assert!(page.contains("<title>own</title>") && page.contains("<div id=\"page\" tabindex=\"-1\"><main>"), "{page}");
}

#[test]
fn the_front_page_is_the_welcome_if_there_is_one() {
    let home = with_page(KEEP);
    let server = home.serve();
    assert!(server.get("/").text().contains("<title>Today</title>"));
    let page = r#"{"name":"projector.declared","payload":{"name":"welcome","consumes":["a.b"]}}"#;
    home.hear(&format!("{page}\n{}", fence("projector/welcome", "#!/bin/sh\necho '<h1>Come in</h1>'\n")));
    let page = server.get("/").text();
    assert!(page.contains("<title>Come in</title>") && page.contains("<a href=\"/\" aria-current=\"page\">Home</a>"), "{page}");
    assert!(!page.contains(">welcome</a>"), "it is no entry beside Home");
    let today = server.get("/-/today").text();
    assert!(
        today.contains("<title>Today</title>") && today.contains("<a href=\"/\">Home</a>"),
        "Today is not Home then: {today}"
    );
}

#[test]
fn w5_what_a_projector_lets_through_is_washed_away() {
    let home = Home::new();
    let page = r#"{"name":"projector.declared","payload":{"name":"raw","consumes":["a.b"]}}"#;
    home.hear(&format!("{}{page}\n{}{}", command("x"), fence("command/x", KEEP), fence("projector/raw", RAW)));
    assert_eq!(home.count("script.compiled"), 2, "{:?}", home.reasons());
    let server = home.serve();
    for (text, expect) in [
        ("<script>alert(1)</script>", ""),
        ("<img src=x onerror=alert(1)>", "<img>"),
        ("<form action=//evil method=post><button>x</button></form>", "<form method=\"post\"><button>x</button></form>"),
        ("<meta http-equiv=refresh content=0>", ""),
        ("<a href=javascript:alert(1)>x</a>", "<a>x</a>"),
        ("</main></body><style>*{}</style><title>t</title>", ""),
        ("<svg onload=alert(1)><script>x</script></svg>", "<svg></svg>"),
    ] {
        home.hear(&format!(r#"{{"name":"a.b","payload":{{"text":"RAW{text}"}}}}"#));
        let page = server.get("/raw").text();
        assert_eq!(main_of(&page), format!("<main id=\"page\" tabindex=\"-1\">{expect}\n"), "{text}");
        assert_eq!(page.matches("<script").count(), 1, "the module alone: {page}");
        let on_disk = fs::read_to_string(home.join("site/raw.html")).unwrap();
        assert_eq!(on_disk, format!("{text}\n"), "on disk it is as its projector wrote it");
    }
    home.hear(&format!(r#"{{"name":"a.b","payload":{{"text":"RAW{}"}}}}"#, "<div>".repeat(300)));
    let answer = server.get("/raw");
    assert_eq!(
        (answer.status, answer.text()),
        (500, "the page `raw` is not shown: it nests deeper than 256 elements\n".to_owned())
    );
}

/// Text that acts wherever it is not escaped.
const HOSTILE: &str = r#"</title></p><script>alert(1)</script><img src=x onerror=alert(1)>' \" onclick=x -->"#;

#[test]
fn w5_hostile_text_is_text_on_every_page_of_the_kernel() {
    let home = with_page(KEEP);
    let event = |name: &str, payload: &str| format!(r#"{{"name":"{name}","payload":{payload}}}"#) + "\n";
    let declared = format!(r#"{{"name":"hostile","description":"{HOSTILE}","params":{{"{HOSTILE}":"{HOSTILE}"}}}}"#);
    let body = event("command.declared", &declared)
        + &event("chat.message", &format!(r#"{{"role":"user","content":"{HOSTILE}"}}"#))
        + &event("a.b", &format!(r#"{{"text":"{HOSTILE}"}}"#))
        + &event("command.declared", &format!(r#"{{"name":"../{HOSTILE}"}}"#));
    home.run(["hear"]).env("SELF_CALLER", HOSTILE.replace('\\', "")).stdin(body).stderr_any().check();
    home.hear(&fence("command/hostile", "#!/bin/sh\ncat >&2; echo \"$@\" >&2; exit 1\n"));
    let server = home.serve();
    for path in ["/", "/notes", "/kernel"] {
        let page = server.get(path).text();
        assert!(page.contains("alert(1)"), "{path} shows it: {page}");
        assert_eq!(page.matches("<script").count(), 1, "{path}: {page}");
        assert!(!page.contains("<img") && !page.contains("onclick=x -->\""), "{path}: {page}");
    }
    let typed = "text=%3C%2Ftextarea%3E%3Cscript%3Ealert(1)%3C%2Fscript%3E&%22%3E%3Cscript%3E=%22%3E%3Cscript%3E";
    let headers = [("Accept", "text/html"), ("Content-Type", "application/x-www-form-urlencoded")];
    let page = server.send("POST", "/run/hostile", &headers, typed).text();
    assert!(page.contains("alert(1)") && !page.contains("<script"), "{page}");
    let page = server.send("GET", "/%3Cscript%3Ealert(1)%3C/script%3E", &headers[..1], "").text();
    assert!(!page.contains("<script>"), "{page}");
}

#[test]
fn the_way_from_the_instance_to_all_capabilities_is_one_sentence() {
    let home = Home::new();
    let page = home.serve().get("/kernel").text();
    let sentence = "<p class=\"lead\"><a href=\"/-/capability\">All capabilities</a>, each with its scripts and its history.</p>";
    assert!(main_of(&page).contains(sentence), "{page}");
    assert!(!page.contains("beside"), "it is no layout of two columns: {page}");
}

#[test]
fn a_refusal_for_a_reader_begins_as_a_sentence_does() {
    let server = with_page(KEEP).serve();
    let main = |path: &str| main_of(&server.send("GET", path, &[("Accept", "text/html")], "").text()).to_owned();
    assert!(main("/nosuch").ends_with("<h1>There is no such page</h1><p>No projection of this home has this name</p>"));
    assert!(main("/-/log?day=x").contains("<p>`day` is a day of UTC"));
    assert_eq!(server.get("/nosuch").text(), "no projection of this home has this name\n");
}

#[test]
fn today_tells_what_is_new_since_the_last_visit() {
    let home = with_page(KEEP);
    let server = home.serve();
    let first = server.get("/");
    assert!(first.text().contains("<h2>What happened</h2>"), "{}", first.text());
    let cookie = first.header("set-cookie").unwrap();
    assert!(cookie.starts_with("seen=0.") && cookie.ends_with("; HttpOnly; SameSite=Strict"), "{cookie}");
    let seq = home.records().len();
    home.run(["run", "x", "news"]).env("SELF_CALLER", "ada").stdout_any().check();
    let visit = |value: &str| server.send("GET", "/", &[("Cookie", &format!("a=b; seen={value}"))], "");
    // Long ago the visitor saw all but the last event.
    let later = visit(&format!("0.{seq}.1"));
    let page = later.text();
    for part in ["Since your last visit", "1 event.", "<bdi class=\"who\">ada</bdi>", "news", "at the command line"] {
        assert!(page.contains(part), "{part} in {page}");
    }
    let cookie = later.header("set-cookie").unwrap().strip_prefix("seen=").unwrap().split(';').next().unwrap().to_owned();
    assert!(cookie.starts_with(&format!("{seq}.{}.", seq + 1)), "{cookie}");
    let again = visit(&cookie);
    assert_eq!(again.header("set-cookie"), None, "at most once in half an hour");
    assert!(again.text().contains("1 event."), "a look again shows the same");
    home.hear(&command("waits"));
    assert!(server.get("/").text().contains("<code>command/waits</code> waits for its script."));
}

/// The messages of a live stream.
struct Live(BufReader<TcpStream>);

impl Live {
    fn open(server: &Server, path: &str, headers: &str) -> Live {
        let mut stream = server.connect();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\n{headers}\r\n", server.host()).unwrap();
        let head = read_head(&mut stream);
        assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
        Live(BufReader::new(stream))
    }

    /// The next message: its id and its data.
    fn next(&mut self) -> (String, String) {
        let mut id = String::new();
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the stream ended");
            if let Some(value) = line.strip_prefix("id: ") {
                id = value.trim().to_owned();
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return (id, data.trim().to_owned());
            }
        }
    }
}

#[test]
fn a_live_stream_tells_of_every_append_and_misses_nothing_when_it_comes_back() {
    let home = with_page(KEEP);
    let server = home.serve();
    let seq = home.records().len();
    let message = |seq: usize, new: usize| (seq.to_string(), format!("{{\"seq\":{seq},\"new\":{new}}}"));
    let mut live = Live::open(&server, "/-/live", "");
    home.run(["run", "x", "a"]).stdout_any().check();
    assert_eq!(live.next(), message(seq + 1, 1), "by another process");
    server.form("/run/x", "a=b");
    assert_eq!(live.next(), message(seq + 2, 1), "by the server");
    drop(live);
    home.hear("{\"name\":\"a.b\",\"payload\":1}\n{\"name\":\"a.b\",\"payload\":2}");
    let mut back = Live::open(&server, "/-/live?after=1", &format!("Last-Event-ID: {}\r\n", seq + 2));
    assert_eq!(back.next(), message(seq + 4, 2), "what came while it was away");
    let mut page = Live::open(&server, &format!("/-/live?after={seq}"), "");
    assert_eq!(page.next(), message(seq + 4, 4), "what came since the page was made");
    assert_eq!(records(&home.log()).len(), seq + 4);
}

#[test]
fn a_live_stream_that_comes_back_to_a_new_server_misses_nothing() {
    let home = with_page(KEEP);
    let server = home.serve();
    let mut live = Live::open(&server, "/-/live", "");
    server.form("/run/x", "a=1");
    let (id, _) = live.next();
    // Killed, not ended: it seals nothing.
    drop(server);
    home.run(["run", "x", "a"]).stdout_any().check();
    home.run(["run", "x", "b"]).stdout_any().check();
    let server = home.serve();
    let mut back = Live::open(&server, "/-/live?after=1", &format!("Last-Event-ID: {id}\r\n"));
    let seq = id.parse::<usize>().unwrap() + 2;
    assert_eq!(back.next(), (seq.to_string(), format!("{{\"seq\":{seq},\"new\":2}}")));
    assert_eq!(records(&home.log()).len(), seq);
}

#[test]
fn a_live_stream_counts_each_event_once_while_many_read() {
    const APPENDS: usize = 200;
    let home = Home::made();
    let server = home.serve();
    let seq = home.records().len();
    let mut live = Live::open(&server, "/-/live", "");
    let (is_over, until) = (AtomicBool::new(false), Instant::now() + Duration::from_secs(60));
    std::thread::scope(|scope| {
        let (is_over, server) = (&is_over, &server);
        for path in ["/events", "/-/log", "/events?after=1", "/"].repeat(3) {
            scope.spawn(move || {
                while !is_over.load(Ordering::SeqCst) && Instant::now() < until {
                    server.get(path);
                }
            });
        }
        for n in 0..APPENDS {
            home.hear(&format!(r#"{{"name":"a.b","payload":{n}}}"#));
        }
        let (mut told, mut counted) = (seq, 0);
        while told < seq + APPENDS {
            let (id, data) = live.next();
            let now: usize = id.parse().unwrap();
            assert!(now > told, "{now} behind {told}");
            let new = data.split("\"new\":").nth(1).unwrap().trim_end_matches('}');
            (told, counted) = (now, counted + new.parse::<usize>().unwrap());
        }
        is_over.store(true, Ordering::SeqCst);
        assert_eq!(counted, APPENDS);
    });
}

#[test]
fn a_projector_that_fails_leaves_the_page_that_stands_and_says_so() {
    let home = Home::new();
    let page = r#"{"name":"projector.declared","payload":{"name":"fragile","consumes":["a.b"]}}"#;
    let fragile = "#!/bin/sh\ncase \"$(cat)\" in *boom*) echo alas >&2; exit 1;; esac\necho '<p>calm</p>'\n";
    let other = r#"{"name":"projector.declared","payload":{"name":"notes","consumes":["a.b"]}}"#;
    home.hear(&format!("{page}\n{other}\n{}{}", fence("projector/fragile", fragile), fence("projector/notes", PAGE)));
    let server = home.serve();
    assert!(server.get("/fragile").text().contains("<p>calm</p>"));
    home.hear(r#"{"name":"a.b","payload":"boom"}"#);
    let page = server.get("/fragile").text();
    assert!(page.contains("<p>calm</p>") && page.contains("could not render projector/fragile"), "{page}");
    assert!(server.get("/notes").text().contains("boom"));
}
