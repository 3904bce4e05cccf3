//! The pages of capabilities: how one stands, each of its scripts and what changed in them, what happened to it; all of them; and the
//! navigation that leads there.

use std::fs;

use rustix::process::Pid;
use serde_json::Value;

use crate::home::Home;
use crate::older_home::{declared, older_home, receipt, v2};
use crate::scripts::{command, fence};
use crate::server::Server;

const ONE: &str = "#!/bin/sh\nprintf '{\"name\":\"a.b\",\"payload\":{}}\\n'\n";
const TWO: &str = "#!/bin/sh\n# counts\n[ \"$1\" = boom ] && exit 3\nprintf '{\"name\":\"a.b\",\"payload\":{}}\\n'\n";
const PAGE: &str = "#!/bin/sh\nprintf '<p>%s</p>\\n' \"$(grep -c .)\"\n";

/// A declaration of the command `note` with these params and needs.
fn note(params: &str, needs: &str) -> String {
    format!(
        r#"{{"name":"command.declared","payload":{{"name":"note","description":"Take a note.","params":{params},"event":{{"name":"a.b","fields":{{"text":"string"}}}},"needs":{needs}}}}}"#
    ) + "\n"
}

/// A home whose command `note` was declared (2), rejected (3), installed (4), declared anew (6), installed (7), and died (9).
fn with_history() -> Home {
    let home = Home::new();
    home.hear(&note(r#"{"text":"string"}"#, "[]"));
    home.run(["hear"]).env("SELF_MIND_ID", "haiku").stdin(fence("command/note", "no shebang\n")).stderr_any().check();
    home.run(["hear"]).env("SELF_MIND_ID", "opus").stdin(fence("command/note", ONE)).stderr_any().check();
    home.hear(&note(r#"{"text":"string","mood":"good|bad, optional"}"#, r#"["net"]"#));
    home.run(["hear"]).env("SELF_MIND_ID", "codex").stdin(fence("command/note", TWO)).stderr_any().check();
    home.run(["run", "note", "boom"]).status(1).stderr_any().check();
    home
}

fn json(server: &Server, path: &str) -> Value {
    let answer = server.get(path);
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")), "{path}");
    serde_json::from_slice(&answer.body).unwrap()
}

#[track_caller]
fn has(page: &str, parts: &[&str]) {
    for part in parts {
        assert!(page.contains(part), "{part} in {page}");
    }
}

/// Text of a page, its tags left out and its blanks as one.
fn text_of(page: &str) -> String {
    let page = &page[page.find("<main").unwrap()..page.find("</main>").unwrap()];
    let plain: String =
        page.split('<').map(|piece| piece.split_once('>').map_or(piece, |(_, text)| text)).collect::<Vec<_>>().join(" ");
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_capability_has_a_page_of_how_it_stands_and_what_happened_to_it() {
    let home = with_history();
    let names: Vec<_> = home.records().iter().map(|record| record.name.clone()).collect();
    let told = ["command.declared", "script.rejected", "script.compiled", "log.sealed", "command.declared", "script.compiled"];
    assert_eq!(names[1..7], told);
    let server = home.serve();
    let page = server.get("/-/capability/command/note").text();
    let text = text_of(&page);
    has(
        &page,
        &["<title>command note</title>", r#"<a href="/-/event/7">event 7</a>"#, r#"<form action="/run/note" method="post">"#],
    );
    has(
        &text,
        &[
            "note command Take a note. installed version 2 by codex ,",
            "receipt verified , event 7",
            "Arguments text string mood good|bad, optional",
            "Records a.b text string",
            "May use the network ( net )",
            "takes every event",
            "gives a.b 0",
            "Version 2 by codex ,",
            "in force 4 lines",
            "Version 1 by opus ,",
        ],
    );
    let history = &text[text.find("History").unwrap()..];
    let places: Vec<_> = [
        "a run failed , exit 3 through kernel, event 9",
        "version 2 installed through kernel, event 7",
        "declared through pipe, event 6",
        "version 1 installed through kernel, event 4",
        "a script rejected through kernel, event 3 the script has no shebang",
        "declared through pipe, event 2",
    ]
    .iter()
    .map(|part| history.find(part).unwrap_or_else(|| panic!("{part} in {history}")))
    .collect();
    assert!(places.is_sorted(), "the newest first: {history}");
    assert!(page.contains("aria-current=\"true\">capabilities</a>"), "{page}");
}

#[test]
fn the_twin_of_a_page_says_the_same_as_json() {
    let home = with_history();
    let server = home.serve();
    let profile = json(&server, "/-/capability/command/note.json");
    for (pointer, expect) in [
        ("/type", "\"command\""),
        ("/name", "\"note\""),
        ("/stands", "\"installed\""),
        ("/installed/seq", "7"),
        ("/installed/author", "\"codex\""),
        ("/declaration/needs", "[\"net\"]"),
        ("/declaration/params/1", r#"{"name":"mood","optional":true,"type":"good|bad, optional"}"#),
        ("/versions/0/script", &serde_json::to_string(ONE).unwrap()),
        ("/versions/0/proof", "\"verified\""),
        ("/versions/1/number", "2"),
        ("/versions/1/lines", "4"),
        ("/versions/1/declaration", "6"),
        ("/history/1/what", "\"rejected\""),
        ("/history/5/exit", "\"3\""),
        ("/flow/gives/0/name", "\"a.b\""),
    ] {
        let found = profile.pointer(pointer).map(ToString::to_string);
        assert_eq!(found.as_deref(), Some(expect), "{pointer} of {profile}");
    }
    assert_eq!(profile.pointer("/compared"), None);
    let compared = json(&server, "/-/capability/command/note.json?from=4&to=7");
    assert_eq!(compared.pointer("/compared/script/came").unwrap(), 2);
}

#[test]
fn two_versions_are_compared_line_by_line_with_what_their_declarations_say() {
    let home = with_history();
    let server = home.serve();
    let page = server.get("/-/capability/command/note?from=4&to=7").text();
    has(
        &page,
        &[
            "From version 1 to version 2",
            "<caption>Script: 0 gone, 2 new</caption>",
            r##"<tr><td class="num">1</td><td class="num">1</td><td><code>  #!/bin/sh</code></td></tr>"##,
            r##"<tr><td class="num"></td><td class="num">2</td><td><ins><code>+ # counts</code></ins></td></tr>"##,
            "<caption>Declaration: 0 gone, 2 new</caption>",
            "<ins><code>+ argument mood: good|bad, optional</code></ins>",
            "<ins><code>+ needs net</code></ins>",
            r#"<a href="?from=4&amp;to=7#versions">diff to the one before</a>"#,
            r#"<option value="4" selected>version 1, event 4</option>"#,
        ],
    );
    let back = server.get("/-/capability/command/note?from=7&to=4").text();
    has(&back, &["From version 2 to version 1", "<caption>Script: 2 gone, 0 new</caption>"]);
    for same in ["?to=7", "?from=4", "?from=&to=", "?from=4&to=7&done=3"] {
        has(&server.get(&format!("/-/capability/command/note{same}")).text(), &["From version 1 to version 2"]);
    }
    has(&server.get("/-/capability/command/note?from=7&to=7").text(), &["The scripts are the same."]);
    for (bad, words) in [
        ("?from=x", "`from` is the number of a version's receipt, such as ?from=12&to=34\n"),
        ("?to=-1", "`to` is the number of a version's receipt, such as ?from=12&to=34\n"),
        ("?from=5&to=7", "no version has its receipt at 5; such are 7, 4\n"),
    ] {
        let answer = server.get(&format!("/-/capability/command/note{bad}"));
        assert_eq!((answer.status, answer.text().as_str()), (400, words), "{bad}");
    }
}

#[test]
fn what_waits_was_rejected_or_was_retired_says_so() {
    let home = Home::new();
    home.hear(&command("waits"));
    home.hear(&(command("bad") + &fence("command/bad", "no shebang\n")));
    home.hear(&fence("command/stray", "#!/bin/sh\n"));
    home.hear(&(command("gone") + &fence("command/gone", ONE)));
    home.run(["retire", "command/gone"]).stdout_any().stderr_any().check();
    let server = home.serve();
    for (name, stands, words) in [
        ("waits", "pending", "and waits for a script."),
        ("bad", "pending", "The last script sent for it was rejected,"),
        ("stray", "rejected", "The last script sent for it was rejected,"),
        ("gone", "retired", "retired 20"),
    ] {
        let page = text_of(&server.get(&format!("/-/capability/command/{name}")).text());
        assert!(page.contains(words), "{words} in {page}");
        assert_eq!(json(&server, &format!("/-/capability/command/{name}.json"))["stands"], stands, "{name}");
    }
    let gone = server.get("/-/capability/command/gone").text();
    assert!(!gone.contains("method=\"post\""), "what was retired is not run: {gone}");
    has(&gone, &["printf '{"]);
}

#[test]
fn a_capability_that_is_not_there_is_named_with_those_that_are_near() {
    let home = with_history();
    let server = home.serve();
    for (path, words) in [
        ("command/nota", "the log tells of no capability `command/nota`; near it is command/note\n"),
        ("projector/note", "the log tells of no capability `projector/note`; near it is command/note\n"),
        ("command/zzz", "the log tells of no capability `command/zzz`\n"),
        ("note", "the log tells of no capability `note`; near it is command/note\n"),
        ("command/", "the log tells of no capability `command/`\n"),
        ("command/../note", "the log tells of no capability `command/../note`; near it is command/note\n"),
        ("command/%00", "the log tells of no capability ``\n"),
    ] {
        let answer = server.get(&format!("/-/capability/{path}"));
        assert_eq!((answer.status, answer.text().as_str()), (404, words), "{path}");
    }
    let answer = server.send("GET", "/-/capability/command/%3Cscript%3E", &[("Accept", "text/html")], "");
    assert_eq!(answer.status, 404);
    has(&answer.text(), &["The log tells of no capability <code>command/&lt;script&gt;</code>."]);
    assert_eq!(server.form("/-/capability/command/note", "a=1").status, 405);
}

#[test]
fn a_receipt_that_does_not_verify_is_told_as_such() {
    let home = with_history();
    let mut lines = home.log();
    let seq = home.records().len() + 1;
    let real: Value = serde_json::from_str(&home.payloads("script.compiled")[0]).unwrap();
    let mut forged = real.clone();
    forged["script"] = "#!/bin/sh\necho evil\n".into();
    forged["seq"] = seq.into();
    lines.extend_from_slice(crate::home::line(seq as u64, "kernel", "script.compiled", &forged.to_string()).as_bytes());
    home.write_log(lines);
    let server = home.serve();
    let page = server.get("/-/capability/command/note").text();
    has(
        &page,
        &[
            "Version 3 by",
            "not verified",
            "does not verify: the key did not sign this for this place",
            "version 3 recorded, and not in force",
        ],
    );
    let profile = json(&server, "/-/capability/command/note.json");
    assert_eq!((&profile["installed"]["seq"], &profile["versions"][2]["proof"]), (&7.into(), &"unverified".into()));
}

#[test]
fn names_of_the_older_grammar_have_pages() {
    let names = ["Größe/ß", "a <b> & c", "twin.json", "50%25 \"x\""];
    let lines: Vec<_> = names.iter().flat_map(|name| [declared("command", name), receipt(&v2("command", name, "ada"))]).collect();
    let home = older_home(&lines);
    let server = home.serve();
    let catalogue = json(&server, "/-/capability.json");
    let entries = catalogue["capabilities"].as_array().unwrap();
    assert_eq!(entries.len(), names.len());
    for entry in entries {
        let path = entry["path"].as_str().unwrap();
        let page = server.get(path);
        assert_eq!(page.status, 200, "{path}");
        has(&page.text(), &["a receipt of an older form", "receipt verified"]);
        assert_eq!(json(&server, &format!("{path}.json"))["name"], entry["name"]);
        assert!(!page.text().contains("<b>"), "{path}");
    }
}

/// How many bytes a process has read so far.
fn read_by(pid: Pid) -> u64 {
    let counted = fs::read_to_string(format!("/proc/{}/io", pid.as_raw_nonzero())).unwrap();
    counted.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
}

#[test]
fn reading_a_capabilitys_page_does_not_cost_the_whole_history() {
    let home = with_history();
    let mut log = home.log();
    let first = home.records().len() as u64 + 1;
    for seq in first..first + 20_000 {
        log.extend_from_slice(crate::home::line(seq, "pipe", "c.d", &format!("\"{}\"", "x".repeat(200))).as_bytes());
    }
    home.write_log(&log);
    let server = home.serve();
    assert!(server.get("/-/capability").status == 200 && log.len() > 6 << 20);
    let before = read_by(server.pid());
    assert_eq!(server.get("/-/capability/command/note?from=4&to=7").status, 200);
    let read = read_by(server.pid()) - before;
    assert!(read < 1 << 20, "{read} bytes of {} were read", log.len());
}

#[test]
fn the_list_of_all_and_the_instance_have_twins() {
    let home = with_history();
    let page =
        r#"{"name":"projector.declared","payload":{"name":"notes","description":"All <notes>.","consumes":["a.b"],"last":5}}"#;
    home.hear(&format!("{page}\n{}{}", fence("projector/notes", PAGE), command("waits")));
    let server = home.serve();
    let page = server.get("/-/capability").text();
    has(
        &page,
        &[
            r#"<a href="/-/capability/command/note"><code>note</code></a>"#,
            "<span class=\"tag warn\">waits for a script</span>",
            "All &lt;notes&gt;.",
            r#"<a href="/notes">its page</a>"#,
            r#"<a href="/-/capability" aria-current="page">capabilities</a>"#,
        ],
    );
    let catalogue = json(&server, "/-/capability.json");
    let names: Vec<_> =
        catalogue["capabilities"].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["note", "waits", "notes"]);
    let instance = json(&server, "/kernel.json");
    assert_eq!(instance["capabilities"], catalogue["capabilities"]);
    assert_eq!(instance["events"], home.records().len());
    has(&server.get("/kernel").text(), &[r#"<a href="/-/capability">All capabilities</a>"#]);
    let notes = json(&server, "/-/capability/projector/notes.json");
    assert_eq!(notes["page"]["path"], "/notes");
    assert_eq!(notes["flow"]["takes"][0]["by"], serde_json::json!(["command/note"]));
    home.run(["run", "note", "x"]).stdout_any().check();
    let page = text_of(&server.get("/-/capability/projector/notes").text());
    assert!(page.contains(&format!("Its page , up to event {}", home.records().len())), "{page}");
}

#[test]
fn a_declaration_of_any_size_has_a_page_that_is_bounded() {
    let home = Home::new();
    let many = |item: &dyn Fn(usize) -> String| (0..20_000).map(item).collect::<Vec<_>>().join(",");
    let (params, names) = (many(&|at| format!(r#""p{at}":"string, optional""#)), many(&|at| format!(r#""a.b{at}""#)));
    let projector = format!(r#"{{"name":"projector.declared","payload":{{"name":"wide","consumes":[{names}]}}}}"#);
    home.hear(&format!("{}{projector}\n{}", note(&format!("{{{params}}}"), "[]"), fence("command/note", ONE)));
    let server = home.serve();
    let page = server.get("/-/capability/command/note").text();
    has(&page, &["19900 more", "The first 64 of its 20000 arguments."]);
    assert!(page.len() < 64 << 10, "{}", page.len());
    let page = server.get("/-/capability/projector/wide").text();
    has(&page, &["The first 200 of 20000 names.", "19900 more"]);
    assert!(page.len() < 128 << 10, "{}", page.len());
    assert!(server.get("/-/capability").text().len() < 64 << 10);
}

/// Text that acts wherever it is not escaped.
const HOSTILE: &str = r#"</title></p><script>alert(1)</script><img src=x onerror=alert(1)>' \" onclick=x --> \u202e"#;

#[test]
fn w5_hostile_text_is_text_on_the_pages_of_capabilities() {
    let home = Home::new();
    let declared = format!(
        r#"{{"name":"command.declared","payload":{{"name":"hostile","description":"{HOSTILE}","params":{{"{HOSTILE}":"{HOSTILE}"}},"event":{{"name":"{HOSTILE}","fields":{{"{HOSTILE}":"{HOSTILE}"}}}},"needs":["read:/{HOSTILE}"]}}}}"#
    );
    let script = format!("#!/bin/sh\n# {HOSTILE}\u{202e}\ncat <<'E' >&2\n{HOSTILE}\nE\nexit 3\n");
    let claim = HOSTILE.replace('\\', "");
    home.run(["hear"])
        .env("SELF_CALLER", &claim)
        .stdin(declared + "\n" + &fence("command/hostile", &script))
        .stderr_any()
        .check();
    home.run(["run", "hostile"]).status(1).stderr_any().check();
    let server = home.serve();
    for path in ["/-/capability/command/hostile", "/-/capability", "/-/capability/command/hostile?from=0&to=0"] {
        let page = server.get(path).text();
        assert!(page.contains("alert(1)"), "{path}: {page}");
        assert_eq!(page.matches("<script").count(), 1, "{path}: {page}");
        assert!(!page.contains("<img") && !text_of(&page).contains('\u{202e}'), "{path}: {page}");
    }
}

#[test]
fn many_projections_are_folded_in_the_navigation_but_for_the_one_that_is_shown() {
    let home = Home::new();
    let bodies: String = (0..14)
        .map(|at| {
            let name = format!("p{at:02}");
            format!(r#"{{"name":"projector.declared","payload":{{"name":"{name}","consumes":["a.b"]}}}}"#)
                + "\n"
                + &fence(&format!("projector/{name}"), PAGE)
        })
        .collect();
    home.hear(&bodies);
    let server = home.serve();
    let nav = |path: &str| {
        let page = server.get(path).text();
        page[page.find("<nav").unwrap()..page.find("</nav>").unwrap()].to_owned()
    };
    let row = nav("/p03");
    has(
        &row,
        &[
            r#"<a href="/p03" aria-current="page">p03</a>"#,
            r#"<a href="/p11">p11</a></li><li><details><summary>2 more</summary><ul><li><a href="/p12">p12</a></li><li><a href="/p13">p13</a></li></ul></details></li>"#,
        ],
    );
    has(&nav("/p13"), &[r#"<a href="/p13" aria-current="page">p13</a></li><li><details><summary>1 more</summary>"#]);
    let footer = server.get("/kernel").text();
    has(&footer, &[r#"<a href="/kernel" aria-current="page">This instance</a>"#]);
}
