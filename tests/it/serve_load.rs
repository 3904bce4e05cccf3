//! The local server under clients that are slow, many, or gone.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::home::{Home, wait_until};
use crate::serve::with_page;
use crate::server::{Answer, Server, read_answer, read_head};

/// How long a slow client is put up with, in seconds.
const PATIENCE_SECONDS: u64 = 6;

/// A command that says how many bytes its argument has.
const COUNT: &str = "#!/bin/sh\nprintf '{\"name\":\"a.b\",\"payload\":{\"n\":%s}}\\n' \"${#1}\"\n";

/// Reads until the connection is closed, and tells how long that took; what was answered before.
#[track_caller]
fn until_closed(mut stream: TcpStream) -> (Duration, Vec<u8>) {
    let begun = Instant::now();
    let mut answer = Vec::new();
    if let Err(fault) = stream.read_to_end(&mut answer) {
        assert_eq!(fault.kind(), ErrorKind::ConnectionReset, "{fault}");
    }
    (begun.elapsed(), answer)
}

#[test]
fn w7_slow_headers_and_slow_bodies_are_closed() {
    let home = with_page(COUNT);
    let server = home.serve();
    let host = server.host();
    let length = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 50\r\n\r\n";
    let opened: Vec<_> = [
        String::new(),
        format!("GET /notes HTTP/1.1\r\nHost: {host}\r\n"),
        format!("POST /run/x HTTP/1.1\r\nHost: {host}\r\n{length}a=half an arg"),
    ]
    .into_iter()
    .map(|start| {
        let mut stream = server.connect();
        stream.write_all(start.as_bytes()).unwrap();
        thread::spawn(move || until_closed(stream))
    })
    .collect();
    // One that drips a byte every half second is slow too.
    let mut drip = server.connect();
    let dripping = thread::spawn(move || {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(20) {
            if drip.write_all(b"G").is_err() {
                break;
            }
            thread::park_timeout(Duration::from_millis(500));
        }
        begun.elapsed()
    });
    for (at, closed) in opened.into_iter().enumerate() {
        let (took, answer) = closed.join().unwrap();
        assert!(took < Duration::from_secs(PATIENCE_SECONDS), "{at}: {took:?}");
        let answer = String::from_utf8_lossy(&answer);
        assert!(if at == 2 { answer.starts_with("HTTP/1.1 408 ") } else { answer.is_empty() }, "{at}: {answer}");
    }
    assert!(dripping.join().unwrap() < Duration::from_secs(PATIENCE_SECONDS + 2));
    assert_eq!(home.count("a.b"), 0, "half a body runs nothing");
}

#[test]
fn a_body_that_ends_before_its_length_runs_nothing() {
    let home = with_page(COUNT);
    let server = home.serve();
    let mut stream = server.connect();
    let head = format!("POST /run/x HTTP/1.1\r\nHost: {}\r\nContent-Type: application/x-www-form-urlencoded\r\n", server.host());
    write!(stream, "{head}Content-Length: 50\r\n\r\na=cut off").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let (_, answer) = until_closed(stream);
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 400 "), "{}", String::from_utf8_lossy(&answer));
    let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n4\r\na=ab\r\n2\r\ncd\r\n0\r\n\r\n");
    assert_eq!(server.raw(chunked).status, 200, "a body without a length has its end");
    assert_eq!(home.payloads("a.b"), [r#"{"n":4}"#]);
}

#[test]
fn w7_two_hundred_idle_connections_keep_nobody_out() {
    let home = with_page(COUNT);
    let server = home.serve();
    let mut idle: Vec<_> = (0..200).map(|_| server.connect()).collect();
    idle.iter_mut().for_each(|stream| drop(stream.write_all(b"GET /notes HTTP/1.1\r\nHost: ")));
    let begun = Instant::now();
    assert_eq!(server.get("/notes").status, 200);
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    assert!(descriptors(&server) < 64 + 24, "{} descriptors", descriptors(&server));
}

#[test]
fn a_run_under_way_is_not_cut_for_a_newcomer() {
    let home = with_page("#!/bin/sh\nsleep 2\nprintf '{\"name\":\"a.b\",\"payload\":{}}\\n'\n");
    let server = home.serve();
    let mut runner = server.connect();
    write!(runner, "POST /run/x HTTP/1.1\r\nHost: {}\r\nContent-Length: 0\r\n\r\n", server.host()).unwrap();
    wait_until("the command runs", || crate::scripts::runs("2"));
    let idle: Vec<_> = (0..150).map(|_| server.connect()).collect();
    assert_eq!(read_answer(&mut runner).status, 200);
    assert_eq!(home.count("a.b"), 1);
    drop(idle);
}

#[test]
fn w9_after_many_requests_and_hang_ups_nothing_is_left() {
    let home = with_page(COUNT);
    let server = home.serve();
    let was = |server: &Server| (held(server), children(server));
    server.get("/notes");
    server.form("/run/x", "a=1");
    wait_until("threads without work are gone", || threads(&server) <= 2);
    let before = was(&server);
    for at in 0..500 {
        let path = ["/", "/notes", "/brief", "/events", "/nosuch", "/-/self.css"][at % 6];
        assert_eq!(server.get(path).status, if path == "/nosuch" { 404 } else { 200 });
        if at % 5 == 0 {
            let mut gone = server.connect();
            let start = ["", "GET /no", "GET /events HTTP/1.1\r\nHost: ", "POST /run/x HTTP/1.1\r\n"][at / 5 % 4];
            gone.write_all(start.as_bytes()).unwrap();
        }
        if at % 50 == 0 {
            let mut gone = server.connect();
            write!(gone, "GET /-/live HTTP/1.1\r\nHost: {}\r\n\r\n", server.host()).unwrap();
            read_head(&mut gone);
            server.form("/run/x", "a=1");
        }
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    // The connection of the last request before may still have been counted.
    while held(&server).len() > before.0.len() || children(&server) != before.1 || threads(&server) > 2 {
        assert!(Instant::now() < deadline, "{} threads, {:?}, before {before:?}", threads(&server), was(&server));
        thread::park_timeout(Duration::from_millis(20));
    }
}

#[test]
fn there_are_so_many_live_streams_and_no_more() {
    let home = with_page(COUNT);
    let server = home.serve();
    let request = format!("GET /-/live HTTP/1.1\r\nHost: {}\r\n\r\n", server.host());
    let open = || {
        let mut stream = server.connect();
        stream.write_all(request.as_bytes()).unwrap();
        let head = read_head(&mut stream);
        (stream, head)
    };
    let streams: Vec<_> = (0..32).map(|_| open()).collect();
    assert!(streams.iter().all(|(_, head)| head.status == 200));
    assert_eq!(open().1.status, 503);
    assert_eq!(server.get("/notes").status, 200);
    drop(streams);
    wait_until("streams that are closed make room", || open().1.status == 200);
}

#[test]
fn many_at_once_each_land_whole() {
    let home = with_page(COUNT);
    let server = home.serve();
    let answers: Vec<Answer> = thread::scope(|scope| {
        let clients: Vec<_> = (0..12)
            .map(|n| {
                scope.spawn({
                    let server = &server;
                    move || server.form("/run/x", &format!("a={}", "x".repeat(n)))
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    assert!(answers.iter().all(|answer| answer.status == 200), "{answers:?}");
    let mut counts = home.payloads("a.b");
    counts.sort_by_key(String::len);
    assert_eq!(counts.len(), 12);
    crate::home::assert_whole(&home.records());
}

/// How many entries a folder of the server's in `/proc` has.
fn entries(server: &Server, folder: &str) -> usize {
    fs::read_dir(format!("/proc/{}/{folder}", server.pid().as_raw_nonzero())).unwrap().count()
}

fn descriptors(server: &Server) -> usize {
    entries(server, "fd")
}

/// What its descriptors are, but for numbers that tell one socket or pipe from another.
fn held(server: &Server) -> Vec<String> {
    let folder = format!("/proc/{}/fd", server.pid().as_raw_nonzero());
    let kind = |entry: fs::DirEntry| fs::read_link(entry.path()).map(|to| to.display().to_string()).unwrap_or_default();
    let mut held: Vec<_> = fs::read_dir(folder).unwrap().flatten().map(kind).collect();
    held.iter_mut().for_each(|it| it.truncate(it.find('[').unwrap_or(it.len())));
    held.sort();
    held
}

fn threads(server: &Server) -> usize {
    entries(server, "task")
}

fn children(server: &Server) -> String {
    let pid = server.pid().as_raw_nonzero();
    fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap()
}

#[test]
fn a_client_that_reads_nothing_is_given_up() {
    let home = Home::made();
    let text = "x".repeat(4 << 20);
    for _ in 0..4 {
        home.hear(&format!(r#"{{"name":"big.event","payload":{{"text":"{text}"}}}}"#));
    }
    let server = home.serve();
    // From the first request on it holds the log.
    server.get("/brief");
    let before = descriptors(&server);
    let mut deaf = server.connect();
    write!(deaf, "GET /events HTTP/1.1\r\nHost: {}\r\n\r\n", server.host()).unwrap();
    assert!(deaf.peek(&mut [0]).unwrap() > 0, "it is answered");
    let deadline = Instant::now() + Duration::from_secs(20);
    while descriptors(&server) > before {
        assert!(Instant::now() < deadline, "it is still being written to");
        thread::park_timeout(Duration::from_millis(50));
    }
    drop(deaf);
}
