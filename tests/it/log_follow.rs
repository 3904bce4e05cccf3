//! `self log --follow`: what arrives is shown, soon, once, whole, and nothing else is read for it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::home::{Home, batch, first_line, line, status_of, wait_until};

/// How soon what another process appended must be shown; the promise is a second, the rest is a busy machine's.
const SOON: Duration = Duration::from_secs(5);

/// A `self log --follow` that runs.
struct Following {
    child: Child,
    lines: Receiver<String>,
}

impl Following {
    /// Starts one, and waits until it looks at the log.
    fn start(home: &Home, args: &[&str]) -> Following {
        let mut command = home.run([&["log", "--follow"], args].concat()).into_command();
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = lines(child.stdout.take().unwrap());
        let following = Following { child, lines };
        // It is in its pause between two looks once it has opened the log and sleeps.
        wait_until("it follows", || following.has_opened() && following.sleeps());
        following
    }

    /// How many bytes it has read so far.
    fn read_bytes(&self) -> u64 {
        let io = fs::read_to_string(format!("/proc/{}/io", self.child.id())).unwrap();
        io.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
    }

    /// Whether it holds the log.
    fn has_opened(&self) -> bool {
        let files = fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap();
        files.filter_map(|file| fs::read_link(file.ok()?.path()).ok()).any(|file| file.ends_with("events.jsonl"))
    }

    /// Whether it waits for something; it does nothing else that waits once the log is open.
    fn sleeps(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('S'))
    }

    /// The next line it shows.
    #[track_caller]
    fn next(&self) -> String {
        self.lines.recv_timeout(SOON).expect("nothing was shown")
    }

    /// Asserts that it shows these lines next, byte for byte.
    #[track_caller]
    fn shows(&self, expect: &[&str]) {
        let found: Vec<_> = expect.iter().map(|_| self.next()).collect();
        assert_eq!(found, expect);
    }

    fn end(mut self, signal: Signal) -> i32 {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        status_of(self.child.wait().unwrap())
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn lines(out: ChildStdout) -> Receiver<String> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        let mut out = BufReader::new(out);
        let mut line = String::new();
        while out.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
            drop(send.send(std::mem::take(&mut line)));
        }
    });
    receive
}

fn note(seq: u64) -> String {
    line(seq, "pipe", "note.taken", &format!("{{\"n\":{seq}}}"))
}

#[test]
fn what_another_process_appends_is_shown_soon_and_once() {
    let home = Home::made();
    let following = Following::start(&home, &["--json"]);
    for seq in 3..6 {
        let begun = Instant::now();
        home.hear(&format!(r#"{{"name":"note.taken","payload":{{"n":{seq}}}}}"#));
        let shown = following.next();
        assert_eq!(shown.as_bytes(), home.log().split_inclusive(|byte| *byte == b'\n').next_back().unwrap());
        assert!(begun.elapsed() < SOON);
    }
    assert!(following.lines.try_recv().is_err(), "and nothing of what was there before");
}

#[test]
fn only_what_matches_is_shown_and_what_is_there_only_if_asked_for() {
    let home = Home::with_log(first_line() + &note(2) + &note(3));
    let cases: [(&[&str], Vec<String>); 3] = [
        (&["--json", "-n", "1"], vec![note(3)]),
        (&["--json", "--after", "1"], vec![note(2), note(3)]),
        (&["--json", "--since", "2025-01-01", "--name", "note.*"], vec![note(2), note(3)]),
    ];
    let followings: Vec<_> = cases.iter().map(|(args, _)| Following::start(&home, args)).collect();
    let quiet = Following::start(&home, &["--json", "--name", "note.*", "--grep", "6"]);
    home.append(line(4, "pipe", "other.thing", "{}") + &note(5) + &note(6));
    for ((args, earlier), following) in cases.iter().zip(&followings) {
        let mut expect: Vec<&str> = earlier.iter().map(String::as_str).collect();
        let new = [line(4, "pipe", "other.thing", "{}"), note(5), note(6)];
        expect.extend(new.iter().map(String::as_str).skip(usize::from(args.contains(&"--name"))));
        following.shows(&expect);
    }
    quiet.shows(&[&note(6)]);
}

#[test]
fn bytes_that_may_yet_be_cut_are_not_shown() {
    let home = Home::made();
    let following = Following::start(&home, &["--json"]);
    let parts = batch(3, &[("a.b", "1"), ("c.d", "2")]);
    let (front, rest) = parts[1].split_at(20);
    let lock = fs::File::open(home.join(".self/lock")).unwrap();
    home.append(&parts[0]);
    home.append(front);
    // Whole, but under the lock of a writer that may yet take it back.
    lock.lock().unwrap();
    home.append(rest);
    assert!(following.lines.recv_timeout(Duration::from_millis(700)).is_err(), "shown before it was sure to stay");
    lock.unlock().unwrap();
    following.shows(&[&parts[0], &parts[1]]);
}

#[test]
fn it_steps_back_when_the_log_shrank() {
    let home = Home::with_log(first_line() + &note(2) + &note(3));
    let following = Following::start(&home, &["--json", "-n", "1"]);
    following.shows(&[&note(3)]);
    let size = (first_line() + &note(2)).len() as u64;
    let log = fs::OpenOptions::new().write(true).open(home.join("events.jsonl")).unwrap();
    let before = following.read_bytes();
    log.set_len(size).unwrap();
    wait_until("it noticed", || following.read_bytes() > before && following.sleeps());
    let other = line(3, "pipe", "other.thing", "{}");
    home.append(&other);
    following.shows(&[&other]);

    // Another file in its place: what comes behind the last number is new.
    fs::write(home.join("new"), first_line() + &note(2) + &note(3) + &note(4)).unwrap();
    fs::rename(home.join("new"), home.join("events.jsonl")).unwrap();
    following.shows(&[&note(4)]);
    fs::remove_file(home.join("events.jsonl")).unwrap();
    home.write_log(first_line() + &note(2) + &note(3) + &note(4) + &note(5));
    following.shows(&[&note(5)]);
}

#[test]
fn records_without_a_number_get_theirs() {
    let home = Home::with_log("{\"name\":\"a.b\"}\n{\"name\":\"c.d\",\"seq\":9}\n{\"name\":\"e.f\",\"seq\":2}\n");
    let following = Following::start(&home, &[]);
    home.append("{\"name\":\"g.h\"}\n");
    following.shows(&["10\t-\t-\t-\tg.h\t{}\n"]);
    home.append("{\"name\":\"i.j\"}\n");
    following.shows(&["11\t-\t-\t-\ti.j\t{}\n"]);
}

#[test]
fn it_ends_by_signals_and_when_nobody_reads() {
    let home = Home::made();
    assert_eq!(Following::start(&home, &[]).end(Signal::INT), 130);
    assert_eq!(Following::start(&home, &[]).end(Signal::TERM), 143);
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = home.run(["log", "--follow"]).into_command();
    let mut child = command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    // The command keeps its end of the pipe.
    drop(command);
    drop(reader);
    let mut status = None;
    wait_until("it ended", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status_of(status.unwrap()), 141);
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut said).unwrap();
    assert_eq!(said, "");
}

#[test]
fn the_newest_few_and_what_is_new_cost_what_they_are_and_not_what_the_log_is() {
    let padding = "x".repeat(2_000);
    let many: String = (1..=30_000).map(|seq| line(seq, "pipe", "note.taken", &format!("\"{padding}\""))).collect();
    let home = Home::with_log(&many);
    assert!(many.len() > 60 << 20);
    let following = Following::start(&home, &["-n", "20", "--json", "--since", "2025-01-01", "--name", "note.*"]);
    for seq in 29_981..=30_000 {
        following.shows(&[&line(seq, "pipe", "note.taken", &format!("\"{padding}\""))]);
    }
    let before = following.read_bytes();
    assert!(before < 1 << 20, "{before} bytes were read for 20 events");
    home.append(note(30_001));
    following.shows(&[&note(30_001)]);
    let more = following.read_bytes() - before;
    assert!(more < 256 << 10, "{more} bytes were read for one new event");
}
