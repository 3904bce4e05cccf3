//! The real server, started on a port of its own, and a client that speaks HTTP by hand.
//!
//! Every answer that is read here is held to the headers that every answer bears.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::home::{CALL_SECONDS_MAX, Home, status_of};

/// A server under test; killed when the test ends.
pub struct Server {
    child: Child,
    /// The line it printed.
    pub link: String,
    pub address: SocketAddr,
    words: Mutex<mpsc::Receiver<Vec<u8>>>,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }
}

impl Home {
    /// Starts a server over this home.
    #[track_caller]
    pub fn serve(&self) -> Server {
        self.serve_with(&[], |_| {})
    }

    /// Starts a server with these arguments, its command set up further.
    #[track_caller]
    pub fn serve_with(&self, arguments: &[&str], set: impl FnOnce(&mut Command)) -> Server {
        let mut command = self.run(["serve"].iter().chain(arguments)).env("SELF_BIND", "127.0.0.1:0").into_command();
        set(&mut command);
        Server::start(command)
    }
}

impl Server {
    #[track_caller]
    fn start(mut command: Command) -> Server {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let words = gather(child.stderr.take().unwrap());
        let (send, receive) = mpsc::channel();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            let mut line = String::new();
            drop(lines.read_line(&mut line));
            drop(send.send(line));
            drop(lines.read_to_end(&mut Vec::new()));
        });
        let link = receive.recv_timeout(Duration::from_secs(CALL_SECONDS_MAX)).unwrap().trim_end().to_owned();
        let Some(rest) = link.strip_prefix("http://") else {
            drop(child.kill());
            panic!("no address, but: {}", String::from_utf8_lossy(&words.recv().unwrap()));
        };
        let port = rest.split('/').next().unwrap().rsplit(':').next().unwrap().parse().unwrap();
        Server { child, link, address: SocketAddr::from(([127, 0, 0, 1], port)), words: Mutex::new(words) }
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// `127.0.0.1:<port>`, as a `Host` has it.
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    /// Sends bytes as they are, and reads one answer.
    #[track_caller]
    pub fn raw(&self, bytes: impl AsRef<[u8]>) -> Answer {
        let mut stream = self.connect();
        stream.write_all(bytes.as_ref()).unwrap();
        read_answer(&mut stream)
    }

    /// A request by this method, with these headers and this body.
    #[track_caller]
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut request = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.host());
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        if method == "POST" {
            request += &format!("Content-Length: {}\r\n", body.len());
        }
        self.raw(request + "\r\n" + body)
    }

    #[track_caller]
    pub fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], "")
    }

    /// Sends a form, as curl does.
    #[track_caller]
    pub fn form(&self, path: &str, body: &str) -> Answer {
        self.send("POST", path, &[("Content-Type", "application/x-www-form-urlencoded")], body)
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Ends it by a signal: its status, what it said, and how long that took.
    #[track_caller]
    pub fn end(mut self, signal: Signal) -> (i32, String, Duration) {
        let begun = Instant::now();
        self.signal(signal);
        let words = self.words.get_mut().unwrap().recv_timeout(Duration::from_secs(CALL_SECONDS_MAX)).unwrap();
        let status = status_of(self.child.wait().unwrap());
        (status, String::from_utf8_lossy(&words).into_owned(), begun.elapsed())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn gather(mut from: ChildStderr) -> mpsc::Receiver<Vec<u8>> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        drop(from.read_to_end(&mut bytes));
        drop(send.send(bytes));
    });
    receive
}

/// What every answer bears.
const HEADERS: [(&str, &str); 7] = [
    (
        "content-security-policy",
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; form-action 'self'; base-uri \
         'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cache-control", "no-store"),
];

/// Reads the head of an answer.
#[track_caller]
pub fn read_head(stream: &mut TcpStream) -> Answer {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        let read = stream.read(&mut byte).unwrap();
        assert!(read > 0, "closed behind {:?}", String::from_utf8_lossy(&head));
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.trim_end().split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let header = |line: &str| {
        let (name, value) = line.split_once(':').unwrap();
        (name.to_ascii_lowercase(), value.trim().to_owned())
    };
    let answer = Answer { status, headers: lines.map(header).collect(), body: Vec::new() };
    // W4: on every answer there is.
    for (name, value) in HEADERS {
        let found: Vec<_> = answer.headers.iter().filter(|(own, _)| own == name).map(|(_, value)| value.as_str()).collect();
        assert_eq!(found, [value], "{name} of {head}");
    }
    assert!(!answer.headers.iter().any(|(name, _)| name.starts_with("access-control-")), "{head}");
    answer
}

/// Reads one answer that says its length.
#[track_caller]
pub fn read_answer(stream: &mut TcpStream) -> Answer {
    let mut answer = read_head(stream);
    let length = answer.header("content-length").unwrap_or_else(|| panic!("{answer:?}")).parse().unwrap();
    answer.body = vec![0; length];
    stream.read_exact(&mut answer.body).unwrap();
    answer
}
