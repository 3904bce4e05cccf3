//! Today, the front page of the local server: what it tells, its twin for programs, and what it costs.

use serde_json::Value;

use crate::home::Home;
use crate::scripts::{command, fence};
use crate::serve::with_page;
use crate::server::Server;

const KEEP: &str = "#!/bin/sh\nprintf '{\"name\":\"a.b\",\"payload\":{\"text\":\"%s\"}}\\n' \"$1\"\n";

#[track_caller]
fn twin(server: &Server, query: &str) -> Value {
    let answer = server.get(&format!("/-/today.json{query}"));
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    assert_eq!(answer.header("set-cookie"), None, "a program is no visitor");
    serde_json::from_slice(&answer.body).unwrap()
}

#[test]
fn the_twin_of_today_holds_what_the_page_shows() {
    let home = with_page(KEEP);
    let server = home.serve();
    let seq = home.records().len();
    for word in ["one", "two", "three", "four"] {
        home.run(["run", "x", word]).env("SELF_CALLER", "ada").stdout_any().check();
    }
    let twin = twin(&server, &format!("?since={seq}"));
    let changes = &twin["changes"];
    assert_eq!((&changes["since"], &changes["events"], &changes["looked_at"]), (&seq.into(), &4.into(), &4.into()));
    let group = &changes["groups"][0];
    assert_eq!((group["by"].as_str(), group["via"].as_str(), &group["events"]), (Some("ada"), Some("cli"), &4.into()));
    let run = &group["runs"][0];
    let texts: Vec<_> = run["newest"].as_array().unwrap().iter().map(|told| told["text"].as_str().unwrap()).collect();
    assert_eq!((&run["events"], texts), (&4.into(), vec!["four", "three", "two", "one"]));
    assert_eq!((&twin["year"]["events"], &twin["course"]["counted"]), (&(seq + 4).into(), &(seq + 4).into()));
    let page = server.get(&format!("/-/today?since={seq}")).text();
    for part in [
        "4 events.",
        "× 4",
        "four",
        "one",
        "Nothing waits.",
        "role=\"img\"",
        "href=\"/-/capability/command/x\"",
        "action=\"/run/x\"",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    assert_eq!(page.matches("<h1>").count(), 1);
}

#[test]
fn a_bad_number_is_refused_with_an_example() {
    let server = with_page(KEEP).serve();
    for path in ["/-/today?since=x", "/-/today.json?since=-1"] {
        let answer = server.get(path);
        assert_eq!((answer.status, answer.text().as_str()), (400, "`since` is a whole number: /-/today?since=12\n"));
    }
    assert_eq!(server.get("/-/today?since=").status, 400);
    assert_eq!(server.get("/-/today?since=99999").status, 200, "nothing happened since");
}

#[test]
fn today_is_never_older_than_the_log() {
    let home = with_page(KEEP);
    let server = home.serve();
    for word in ["first", "second", "third"] {
        home.run(["run", "x", word]).stdout_any().check();
        for path in ["/", "/-/today", "/-/today.json", "/-/today?since=1"] {
            assert!(server.get(path).text().contains(word), "{word} on {path}");
        }
        server.form("/run/x", &format!("a=served-{word}"));
        assert!(server.get("/").text().contains(&format!("served-{word}")));
    }
}

#[test]
fn what_waits_stands_on_today_with_what_to_do() {
    let home = with_page(KEEP);
    home.hear(&command("waits"));
    home.hear(&fence("command/waits", "no script\n"));
    home.hear(r#"{"name":"chat.message","payload":{"role":"user","content":"is anybody there?"}}"#);
    let server = home.serve();
    let page = server.get("/").text();
    for part in [
        "2 things wait.",
        "<code>command/waits</code>",
        "is anybody there?",
        "sealed through event",
        "<code>self work | &lt;mind&gt; | self</code>",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    let twin = twin(&server, "");
    let kinds: Vec<_> = twin["waits"].as_array().unwrap().iter().map(|wait| wait["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["message", "pending"]);
}

#[test]
fn no_payload_stands_on_today_raw() {
    let home = with_page(KEEP);
    home.hear(&format!(r#"{{"name":"big.said","payload":{{"text":"{}"}}}}"#, "word ".repeat(1 << 18)));
    let data = "QUJD".repeat(100_000);
    home.hear(&format!(r#"{{"name":"file.added","payload":{{"name":"a.png","content":"{data}"}}}}"#));
    let server = home.serve();
    let page = server.get("/").text();
    assert!(page.len() < 64 << 10, "{} bytes", page.len());
    assert!(page.contains("name: a.png, content: 400000 bytes of data") && !page.contains("QUJDQUJD"), "{page}");
    assert!(page.contains("word word word"), "{page}");
}

#[test]
fn an_empty_home_has_a_today() {
    let home = Home::new();
    let page = home.serve().get("/").text();
    for part in ["Nothing waits.", "this home was made", "None is installed.", "No command is installed yet."] {
        assert!(page.contains(part), "{part} in {page}");
    }
}

/// How many bytes a server read so far, from files and from clients.
fn read_so_far(server: &Server) -> u64 {
    let io = std::fs::read_to_string(format!("/proc/{}/io", server.pid().as_raw_nonzero())).unwrap();
    io.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
}

#[test]
fn the_log_is_read_once_for_as_long_as_it_is_the_same() {
    let home = with_page(KEEP);
    home.hear(&format!(r#"{{"name":"big.said","payload":{{"text":"{}"}}}}"#, "word ".repeat(100_000)));
    let server = home.serve();
    let paths = ["/", "/-/today", "/-/today.json", "/kernel", "/brief", "/notes"];
    let look = || paths.map(|path| server.get(path).body);
    let first = look();
    let before = read_so_far(&server);
    for _ in 0..10 {
        assert!(look() == first, "the same is answered to the same");
    }
    let read = read_so_far(&server) - before;
    assert!(read < 64 << 10, "{read} bytes were read for 60 requests of some hundred bytes each");
}
