//! The local server, by the numbers of TRUST: who gets in, what is answered, and how it begins and ends.
//!
//! What it does to slow and to many clients stands in `serve_load`, what its pages show in `serve_pages`.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::home::{Home, wait_until};
use crate::scripts::{command, fence, runs};
use crate::server::{read_answer, read_head};

/// A command that keeps its arguments, each on a line of its own in one string.
const KEEP: &str = "#!/bin/sh\n[ $# -gt 0 ] || { echo 'usage: x <words>' >&2; exit 2; }\nprintf '{\"name\":\"a.b\",\"payload\":{\"text\":\"'\nprintf '%s|' \
                    \"$@\" | tr '\\n' '~'\nprintf '\"}}\\n'\n";

/// A home with the command `x`, which keeps its arguments, and the page `notes` over `a.b`.
pub fn with_page(script: &str) -> Home {
    let home = Home::new();
    let page = r#"{"name":"projector.declared","payload":{"name":"notes","description":"d","consumes":["a.b"]}}"#;
    home.hear(&format!("{}{page}\n{}{}", command("x"), fence("command/x", script), fence("projector/notes", PAGE)));
    assert_eq!(home.count("script.compiled"), 2, "{:?}", home.reasons());
    home
}

/// A page that shows what its events hold, escaped.
pub const PAGE: &str = "#!/bin/sh\necho '<h1>Notes</h1>'\nsed 's/&/\\&amp;/g; s/</\\&lt;/g; s/>/\\&gt;/g' | while read -r line; do printf '<p>%s</p>\\n' \"$line\"; done\n";

fn keeping() -> Home {
    with_page(KEEP)
}

const ROUTES: [&str; 12] = [
    "/",
    "/notes",
    "/kernel",
    "/kernel.json",
    "/brief",
    "/events",
    "/-/today",
    "/-/capability",
    "/-/capability/command/x",
    "/-/self.css",
    "/nosuch",
    "/run/x",
];

#[test]
fn w1_a_foreign_name_is_answered_nowhere() {
    let home = keeping();
    let server = home.serve();
    let port = server.address.port();
    for path in ROUTES {
        for hosts in [
            "Host: evil.example\r\n".to_owned(),
            format!("Host: evil.example:{port}\r\n"),
            "Host: 127.0.0.1\r\n".to_owned(),
            format!("Host: 127.0.0.1.evil.example:{port}\r\n"),
            format!("Host: 127.0.0.1:{port}\r\nHost: 127.0.0.1:{port}\r\n"),
            format!("Host: 127.0.0.1:{port}\r\nHost: evil.example\r\n"),
            String::new(),
        ] {
            let answer = server.raw(format!("GET {path} HTTP/1.1\r\n{hosts}\r\n"));
            assert_eq!(answer.status, 421, "{path} {hosts}");
        }
    }
    let answer = server.raw(format!("GET http://evil.example/notes HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"));
    assert_eq!(answer.status, 421);
    let answer = server.raw(format!("POST /run/x HTTP/1.1\r\nHost: evil.example:{port}\r\nContent-Length: 3\r\n\r\na=1"));
    assert_eq!(answer.status, 421);
    assert_eq!(server.raw(format!("GET /notes HTTP/1.1\r\nhost: LOCALHOST:{port}\r\n\r\n")).status, 200);
    assert_eq!(home.count("a.b"), 0);
}

#[test]
fn w2_a_page_of_another_origin_drives_nothing() {
    let home = keeping();
    let server = home.serve();
    let own = format!("http://{}", server.host());
    let before = home.log();
    for headers in [
        [("Origin", "http://evil.example"), ("X-A", "b")],
        [("Origin", "null"), ("X-A", "b")],
        [("Origin", "http://127.0.0.1:1"), ("X-A", "b")],
        [("Origin", &own), ("Sec-Fetch-Site", "cross-site")],
        [("Sec-Fetch-Site", "same-site"), ("Sec-Fetch-Mode", "navigate")],
    ] {
        let mut headers = headers.to_vec();
        headers.push(("Content-Type", "application/x-www-form-urlencoded"));
        assert_eq!(server.send("POST", "/run/x", &headers, "text=evil").status, 403, "{headers:?}");
    }
    assert_eq!(home.log(), before, "the log is unchanged");
    assert_eq!(server.form("/run/x", "text=honest").text(), format!("appended seq {} a.b\n", home.records().len()));
    let headers =
        [("Origin", own.as_str()), ("Sec-Fetch-Site", "same-origin"), ("Content-Type", "application/x-www-form-urlencoded")];
    assert_eq!(server.send("POST", "/run/x", &headers, "text=own").status, 200);
    assert_eq!(home.payloads("a.b"), [r#"{"text":"honest|"}"#, r#"{"text":"own|"}"#]);
}

#[test]
fn w3_a_command_is_run_by_a_form_and_in_no_other_way() {
    let home = keeping();
    let server = home.serve();
    let answer = server.get("/run/x");
    assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")));
    let mut stream = server.connect();
    write!(stream, "HEAD /run/x HTTP/1.1\r\nHost: {}\r\n\r\n", server.host()).unwrap();
    assert_eq!(read_head(&mut stream).status, 405);
    for unknown in ["/run/y", "/run/notes", "/run/", "/run/x/", "/run/%2e%2e/x", "/run/x%00", "/run//x"] {
        assert_eq!(server.form(unknown, "a=1").status, 404, "{unknown}");
    }
    for (kind, words) in [
        ("text/plain", "not `text/plain`"),
        ("application/json", "not `application/json`"),
        ("multipart/form-data; boundary=x", "takes no files"),
    ] {
        let answer = server.send("POST", "/run/x", &[("Content-Type", kind)], "a=1");
        assert_eq!(answer.status, 415, "{kind}");
        assert!(answer.text().contains(words), "{}", answer.text());
    }
    assert_eq!(server.send("POST", "/run/x", &[], "a=1").status, 415);
    assert_eq!(server.form("/run/x", "a=%FF").status, 400);
    assert_eq!(server.form("/notes", "a=1").status, 405);
    assert_eq!(server.form("/", "a=1").status, 405);
    for method in ["PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"] {
        assert_eq!(server.send(method, "/notes", &[], "").status, 405, "{method}");
    }
    assert_eq!(home.count("a.b"), 0);
}

#[test]
fn fields_become_arguments_in_the_order_of_the_document() {
    let home = keeping();
    let server = home.serve();
    assert_eq!(server.form("/run/x", "z=two+words&a=&z=%C3%A9%0D%0Ab&m=%2B").status, 200);
    assert_eq!(home.payloads("a.b"), ["{\"text\":\"two words||é~b|+|\"}"]);
    let record = home.records().pop().unwrap();
    assert_eq!((record.via.as_deref(), record.by), (Some("http:127.0.0.1"), None));
    let headers = [("X-Self-Caller", "ada"), ("Content-Type", "application/x-www-form-urlencoded")];
    assert_eq!(server.send("POST", "/run/x", &headers, "a=1").status, 200);
    assert_eq!(home.records().pop().unwrap().by.as_deref(), Some("ada"));
    assert_eq!(server.send("POST", "/run/x", &[], "").status, 500, "an empty body is no argument");
}

#[test]
fn after_a_run_the_browser_goes_back_to_where_it_was() {
    let home = keeping();
    let server = home.serve();
    let own = format!("http://{}", server.host());
    for (referer, expect) in [
        (format!("{own}/notes?x=1"), Some("/notes?x=1&done=")),
        (format!("{own}/notes?done=3"), Some("/notes?done=")),
        (format!("{own}/"), Some("/?done=")),
        ("http://evil.example/notes".to_owned(), None),
        (format!("{own}//evil.example"), None),
        (format!("{own}/run/x"), None),
    ] {
        let headers = [("Referer", referer.as_str()), ("Content-Type", "application/x-www-form-urlencoded")];
        let answer = server.send("POST", "/run/x", &headers, "a=1");
        let expect = expect.map(|expect| format!("{expect}{}", home.records().len()));
        let (status, expect) = (if expect.is_some() { 303 } else { 200 }, expect.as_deref());
        assert_eq!((answer.status, answer.header("location")), (status, expect), "{referer}");
    }
    for (from, expect) in [("%2Fnotes", Some("/notes?done=")), ("%2F%2Fevil", None), ("http%3A%2F%2Fevil", None)] {
        let answer = server.form(&format!("/run/x?from={from}"), "a=1");
        let expect = expect.map(|expect| format!("{expect}{}", home.records().len()));
        assert_eq!(answer.header("location"), expect.as_deref(), "{from}");
    }
}

#[test]
fn a_command_that_fails_says_so_on_a_page_and_keeps_what_was_typed() {
    let home = with_page("#!/bin/sh\necho \"no <b>$1</b>\" >&2\nexit 3\n");
    let server = home.serve();
    let headers = [
        ("Accept", "text/html"),
        ("Referer", &format!("http://{}/notes", server.host())),
        ("Content-Type", "application/x-www-form-urlencoded"),
    ];
    let answer = server.send("POST", "/run/x", &headers, "text=%3Ci%3Elong%3C%2Fi%3E%0D%0Atext&other=b");
    assert_eq!(answer.status, 500);
    let page = answer.text();
    for part in [
        "<h1><code>x</code> failed</h1>",
        "command/x failed, and nothing of it was appended: it exited with status 3",
        "no &lt;b&gt;&lt;i&gt;long&lt;/i&gt;\ntext&lt;/b&gt;",
        "<form action=\"/run/x?from=/notes\" method=\"post\">",
        "\n&lt;i&gt;long&lt;/i&gt;\ntext</textarea>",
        "value=\"b\"",
        "<a href=\"/notes\">Back</a>",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    assert!(!page.contains("<script"), "the address of this page is none to fetch anew");
    assert_eq!(home.count("a.b"), 0);
    let answer = server.form("/run/x", "a=1");
    assert_eq!(answer.status, 500);
    assert!(answer.text().ends_with("it exited with status 3\nno <b>1</b>\n"), "{}", answer.text());
}

#[test]
fn an_argument_over_http_opens_no_file() {
    let script = "#!/bin/sh\ncat \"$1\" >&2 || exit 4\nprintf '{\"name\":\"a.b\",\"payload\":{}}\\n'\n";
    let home = crate::scripts::with_needs(r#"["read:args"]"#, script);
    let secret = home.beside("user/private");
    fs::write(&secret, "private words").unwrap();
    let server = home.serve();
    if home.run(["run", "x"]).end().said().contains("unconfined") {
        crate::home::skipped("an_argument_over_http_opens_no_file", "scripts are not confined here");
        return;
    }
    let answer = server.form("/run/x", &format!("a={}", secret.display()));
    assert_eq!(answer.status, 500, "{}", answer.text());
    assert!(!answer.text().contains("private words"));
    home.run(["run", "x", secret.to_str().unwrap()]).stdout_any().stderr_has(&["private words"]).check();
}

#[test]
fn w4_every_answer_bears_its_headers_whatever_it_is() {
    let home = with_page("#!/bin/sh\nexit 1\n");
    let server = home.serve();
    let host = server.host();
    // The client holds every answer to its headers.
    for (request, status) in [
        (format!("GET /notes HTTP/1.1\r\nHost: {host}\r\n\r\n"), 200),
        (format!("GET /-/self.css HTTP/1.1\r\nHost: {host}\r\n\r\n"), 200),
        (format!("GET /events HTTP/1.1\r\nHost: {host}\r\nRange: bytes=0-3\r\n\r\n"), 206),
        (format!("GET /events HTTP/1.1\r\nHost: {host}\r\nRange: bytes=99999999-\r\n\r\n"), 416),
        (format!("GET /events?after=x HTTP/1.1\r\nHost: {host}\r\n\r\n"), 400),
        (format!("GET /no HTTP/1.1\r\nHost: {host}\r\n\r\n"), 404),
        (format!("BREW / HTTP/1.1\r\nHost: {host}\r\n\r\n"), 405),
        (format!("POST /run/x HTTP/1.1\r\nHost: {host}\r\nContent-Length: 70000\r\n\r\n{}", "a".repeat(70_000)), 413),
        (format!("POST /run/x HTTP/1.1\r\nHost: {host}\r\nContent-Length: 1\r\n\r\na"), 415),
        (format!("POST /run/x HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n"), 500),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), 421),
        (format!("GET / HTTP/1.1\r\nHost: {host}\r\nX: {}\r\n\r\n", "a".repeat(20_000)), 431),
        (format!("GET / HTTP/1.1\r\nHost: {host}\r\n{}\r\n", "x: y\r\n".repeat(200)), 431),
        (format!("GET / HTTP/1.1\r\nHost {host}\r\n\r\n"), 400),
        ("nonsense\r\n\r\n".to_owned(), 400),
    ] {
        let line = request.lines().next().unwrap().to_owned();
        assert_eq!(server.raw(request).status, status, "{line}");
    }
    let headers = [("Referer", &*format!("http://{host}/notes")), ("Content-Type", "application/x-www-form-urlencoded")];
    drop(server);
    let home = keeping();
    let server = home.serve();
    let referer = format!("http://{}/notes", server.host());
    assert_eq!(server.send("POST", "/run/x", &[("Referer", &referer), headers[1]], "a=1").status, 303);
}

#[test]
fn a_head_is_a_get_without_its_body() {
    let home = keeping();
    let server = home.serve();
    for path in ["/", "/notes", "/events", "/-/self.js"] {
        let mut stream = server.connect();
        write!(stream, "HEAD {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", server.host()).unwrap();
        let head = read_head(&mut stream);
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        assert_eq!((head.status, rest.len()), (200, 0), "{path}");
        assert_eq!(head.header("content-length"), server.get(path).header("content-length"), "{path}");
    }
}

#[test]
fn w6_no_path_leaves_the_pages() {
    let home = keeping();
    fs::write(home.join("site/stray.html"), "<p>stray</p>").unwrap();
    let server = home.serve();
    let key = fs::read_to_string(home.join(".secret")).unwrap();
    for path in [
        "/../.secret",
        "/..%2f.secret",
        "/%2e%2e/.secret",
        "/%2e%2e%2f.secret",
        "/%252e%252e/.secret",
        "/notes/../../.secret",
        "/notes/..",
        "/./notes",
        "//notes",
        "/notes/",
        "/notes.html",
        "/site/notes.html",
        "/.secret",
        "/.self/pages",
        "/.self/lock",
        "/events.jsonl",
        "/..%5c.secret",
        "/..\\.secret",
        "/notes%00",
        "/%00",
        "/notes%00.html",
        "//etc/passwd",
        "/%2fetc%2fpasswd",
        "/file:///etc/passwd",
        "/stray",
        "/stray.html",
        "/brief.md",
        "/kernel.html",
        "/capabilities/commands/x/run",
        "/%ff",
        "/-/",
        "/-",
        "/-/../.secret",
        "/-/self.css/../../.secret",
        "/run",
        "/%6eotes/../.secret",
        "/notes%2f..%2f..%2f.secret",
        "/*",
        "/NOTES",
    ] {
        let answer = server.get(path);
        assert_eq!(answer.status, 404, "{path}: {}", answer.text());
        assert!(
            !answer.text().contains(key.trim()) && !answer.text().contains("stray") && !answer.text().contains("root:"),
            "{path}"
        );
    }
    for path in ["/notes", "/%6eotes", "/notes?x=../.."] {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
}

#[test]
fn w8_a_port_in_use_is_named_with_the_way_out() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let bind = taken.local_addr().unwrap().to_string();
    let port = taken.local_addr().unwrap().port();
    let home = Home::made();
    home.run(["serve"])
        .env("SELF_BIND", &bind)
        .status(1)
        .stderr_has(&[&format!("could not listen on {bind}: port {port} is in use"), "SELF_BIND="])
        .check();
    for odd in ["8080", ":80", "127.0.0.1:x", "0"] {
        home.run(["serve"]).env("SELF_BIND", odd).status(2).stderr_has(&["SELF_BIND"]).check();
    }
}

#[test]
fn w8_no_script_keeps_the_port() {
    let home = with_page("#!/bin/sh\nls -l /proc/self/fd >&2\nsleep 300 </dev/null >/dev/null 2>&1 &\nexit 1\n");
    let mut server = home.serve();
    let told = server.form("/run/x", "").text();
    assert!(!told.contains("socket:"), "a script holds no socket: {told}");
    let address = server.address;
    server.signal(Signal::KILL);
    wait_until("the server is gone", || !server.runs());
    TcpListener::bind(address).unwrap();
}

#[test]
fn w8_a_signal_ends_the_server_and_the_run_whole() {
    for (signal, sleep) in [(Signal::TERM, "61.25"), (Signal::INT, "62.25"), (Signal::HUP, "63.25")] {
        let home = with_page(&format!("#!/bin/sh\necho '{{\"name\":\"a.b\",\"payload\":{{}}}}'\nexec sleep {sleep}\n"));
        let server = home.serve();
        let address = server.address;
        let host = server.host();
        let client = thread::spawn(move || {
            let mut stream = TcpStream::connect(address).unwrap();
            write!(stream, "POST /run/x HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n").unwrap();
            read_answer(&mut stream)
        });
        wait_until("the command runs", || runs(sleep));
        let (status, words, took) = server.end(signal);
        assert_eq!(status, 128 + signal.as_raw());
        assert!(took < Duration::from_secs(2), "{took:?}");
        assert_eq!(client.join().unwrap().status, 503, "{words}");
        assert_eq!(home.count("a.b") + home.count("capability.died"), 0);
        wait_until("nothing of the command is left", || !runs(sleep));
        home.run(["verify"]).stdout_any().check();
    }
}

#[test]
fn w8_an_idle_server_ends_at_once_with_connections_open() {
    let home = keeping();
    let server = home.serve();
    let idle = server.connect();
    let mut kept = server.connect();
    write!(kept, "GET /notes HTTP/1.1\r\nHost: {}\r\n\r\n", server.host()).unwrap();
    read_answer(&mut kept);
    let (status, words, took) = server.end(Signal::TERM);
    assert_eq!((status, words.contains("panicked")), (143, false), "{words}");
    assert!(took < Duration::from_secs(2), "{took:?}");
    drop(idle);
}

#[test]
fn a_serve_that_recorded_something_ends_with_a_seal() {
    let home = keeping();
    let seals = home.count("log.sealed");
    home.serve().end(Signal::TERM);
    assert_eq!(home.count("log.sealed"), seals, "nothing was recorded");
    let server = home.serve();
    server.form("/run/x", "a=1");
    server.end(Signal::INT);
    assert_eq!(home.count("log.sealed"), seals + 1);
    assert_eq!(home.records().pop().unwrap().name, "log.sealed");
}

#[test]
fn serving_makes_a_home() {
    let home = Home::new();
    let server = home.serve();
    assert_eq!(server.get("/").status, 200);
    let (_, words, _) = server.end(Signal::TERM);
    assert!(words.contains("made a home in"), "{words}");
    assert_eq!(home.told(), ["1 kernel kernel.initialized {}"]);
}

#[test]
fn w10_beyond_this_machine_there_is_a_token() {
    let home = keeping();
    let server = home.serve_with(&[], |command| {
        command.env("SELF_BIND", "0.0.0.0:0");
    });
    let token = server.link.split("?t=").nth(1).unwrap().to_owned();
    assert_eq!(token.len(), 64);
    for path in ROUTES {
        assert_eq!(server.get(path).status, 401, "{path}");
    }
    assert_eq!(server.form("/run/x", "a=1").status, 401);
    assert_eq!(server.get(&format!("/?t={}", "0".repeat(64))).status, 401);
    let answer = server.get(&format!("/?t={token}"));
    assert_eq!((answer.status, answer.header("location")), (303, Some("/")));
    let cookie = answer.header("set-cookie").unwrap().to_owned();
    assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let page = server.send("GET", "/", &[("Cookie", &cookie)], "");
    assert_eq!(page.status, 200);
    assert!(!page.text().contains(&token), "in no page");
    let bearer = format!("Bearer {token}");
    let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/x-www-form-urlencoded")];
    assert_eq!(server.send("POST", "/run/x", &headers, "a=1").status, 200);
    let machine = machine_address();
    if let Some(machine) = machine {
        let mut stream = TcpStream::connect((machine, server.address.port())).unwrap();
        let host = format!("{machine}:{}", server.address.port());
        write!(stream, "GET / HTTP/1.1\r\nHost: {host}\r\nAuthorization: {bearer}\r\n\r\n").unwrap();
        assert_eq!(read_answer(&mut stream).status, 200);
    }
    let arguments = fs::read_to_string(format!("/proc/{}/cmdline", server.pid().as_raw_nonzero())).unwrap();
    assert!(!arguments.contains(&token), "in no list of arguments");
    let (_, words, _) = server.end(Signal::TERM);
    assert!(!words.contains(&token), "{words}");
    assert!(!String::from_utf8(home.log()).unwrap().contains(&token), "in no log");
}

/// An address of this machine that is not loopback, if it has one: the one it would speak from.
fn machine_address() -> Option<std::net::IpAddr> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|ip| !ip.is_unspecified() && !ip.is_loopback())
}

#[test]
fn w10_a_token_on_loopback_is_for_who_asks_and_is_not_handed_to_a_browser() {
    let home = keeping();
    let opener = home.beside("bin/xdg-open");
    fs::write(&opener, "#!/bin/sh\necho \"$1\" >\"$HOME/opened\"\n").unwrap();
    fs::set_permissions(&opener, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let opened = home.beside("user/opened");
    let server = home.serve_with(&["--token", "--open"], |_| {});
    assert_eq!(server.get("/notes").status, 401);
    let (_, words, _) = server.end(Signal::TERM);
    assert!(words.contains("the link is not opened for you"), "{words}");
    assert!(!opened.exists());
    let server = home.serve_with(&["--open"], |_| {});
    wait_until("the browser was called", || fs::read_to_string(&opened).is_ok_and(|text| text.ends_with('\n')));
    assert_eq!(fs::read_to_string(&opened).unwrap(), format!("{}\n", server.link));
    assert_eq!(server.get("/notes").status, 200);
}

#[test]
fn other_processes_appends_are_seen_at_the_next_request() {
    let home = keeping();
    let server = home.serve();
    for n in 1..=3 {
        home.run(["run", "x", &format!("word{n}")]).stdout_any().check();
        let page = server.get("/notes").text();
        assert!(page.contains(&format!("word{n}")), "{page}");
    }
    home.run(["retire", "projector/notes"]).stderr_any().check();
    assert_eq!(server.get("/notes").status, 404);
    assert!(!server.get("/").text().contains("href=\"/notes\""));
}

#[test]
fn the_log_is_read_whole_from_a_number_and_by_ranges() {
    let home = keeping();
    let server = home.serve();
    server.form("/run/x", "a=1");
    let log = home.log();
    let answer = server.get("/events");
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/plain; charset=utf-8")));
    assert_eq!(answer.body, log);
    let behind = |seq: u64| -> Vec<u8> {
        let lines = log.split_inclusive(|byte| *byte == b'\n');
        lines.skip(seq as usize).flatten().copied().collect()
    };
    for seq in [0, 3, home.records().len() as u64, 999] {
        assert_eq!(server.get(&format!("/events?after={seq}")).body, behind(seq), "after {seq}");
    }
    for (range, status, expect) in [
        ("bytes=0-9", 206, &log[..10]),
        ("bytes=-5", 206, &log[log.len() - 5..]),
        ("bytes=10-", 206, &log[10..]),
        ("lines=1-2", 200, &log[..]),
    ] {
        let answer = server.send("GET", "/events", &[("Range", range)], "");
        assert_eq!((answer.status, &*answer.body), (status, expect), "{range}");
    }
    // A torn tail is no part of it.
    home.append(b"{\"name\":\"torn");
    assert_eq!(server.get("/events").body, log);
}

#[test]
fn the_brief_over_http_is_the_brief() {
    let home = keeping();
    let server = home.serve();
    let brief = home.run(["show", "brief"]).stdout_any().check().stdout;
    assert_eq!(server.get("/brief").body, brief);
    assert_eq!(fs::read(home.join("site/brief.md")).unwrap(), brief);
}

#[test]
fn requests_on_one_connection_are_answered_in_turn() {
    let home = keeping();
    let server = home.serve();
    let mut stream = server.connect();
    let request = format!("GET /notes HTTP/1.1\r\nHost: {}\r\n\r\n", server.host());
    let begun = Instant::now();
    for _ in 0..200 {
        stream.write_all(request.as_bytes()).unwrap();
        assert_eq!(read_answer(&mut stream).status, 200);
    }
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}
