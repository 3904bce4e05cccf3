//! The local server while something takes long: what is slow keeps out nothing that does not need it.

use std::fs::OpenOptions;
use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use crate::home::{Home, wait_until};
use crate::scripts::{command, fence, runs};
use crate::serve::with_page;
use crate::server::Answer;

const KEEP: &str = "#!/bin/sh\nprintf '{\"name\":\"a.b\",\"payload\":{\"text\":\"%s\"}}\\n' \"$1\"\n";

/// How long the slow page takes, as its script says it.
const SLOW_SECONDS: &str = "3.125";

/// A home with the command `x`, the page `notes` over what it emits, and the page `slow`, which is so once it is fed the word.
fn with_slow_page() -> Home {
    let home = with_page(KEEP);
    let declared = r#"{"name":"projector.declared","payload":{"name":"slow","consumes":["slow.made"]}}"#;
    let script = format!("#!/bin/sh\ncase \"$(cat)\" in *SLOW*) sleep {SLOW_SECONDS};; esac\necho '<h1>Slow</h1><p>made</p>'\n");
    home.hear(&format!("{declared}\n{}", fence("projector/slow", &script)));
    assert_eq!(home.count("script.compiled"), 3, "{:?}", home.reasons());
    home
}

/// Appends an event as another program does, which renders no page.
fn append(home: &Home, name: &str, payload: &str) {
    let seq = home.records().len() + 1;
    let line = format!(
        "{{\"id\":\"other-{seq}\",\"seq\":{seq},\"name\":\"{name}\",\"occurred_at\":\"2026-11-30T10:00:00Z\",\"via\":\"cli\",\"payload\":{payload}}}\n"
    );
    let mut log = OpenOptions::new().append(true).open(home.join("events.jsonl")).unwrap();
    log.write_all(line.as_bytes()).unwrap();
}

#[test]
fn a_slow_page_keeps_out_nobody_who_wants_another() {
    let home = with_slow_page();
    let server = home.serve();
    assert_eq!(server.get("/slow").status, 200);
    append(&home, "slow.made", r#""SLOW""#);
    let begun = Instant::now();
    let answers: Vec<Answer> = thread::scope(|scope| {
        let waiting: Vec<_> = (0..20).map(|_| scope.spawn(|| server.get("/slow"))).collect();
        wait_until("the slow page is being made", || runs(SLOW_SECONDS));
        for path in ["/-/self.css", "/brief", "/notes", "/kernel", "/", "/-/today", "/events"] {
            assert_eq!(server.get(path).status, 200, "{path}");
            assert!(runs(SLOW_SECONDS), "{path} waited for the slow page");
        }
        assert_eq!(server.form("/run/x", "a=quick").status, 200);
        assert!(runs(SLOW_SECONDS), "a run waited for the slow page");
        assert!(server.get("/notes").text().contains("quick"));
        assert!(runs(SLOW_SECONDS), "what the run changed waited for the slow page");
        waiting.into_iter().map(|client| client.join().unwrap()).collect()
    });
    assert!(answers.iter().all(|answer| answer.status == 200 && answer.text().contains("<p>made</p>")), "{answers:?}");
    let once = Duration::from_secs_f64(SLOW_SECONDS.parse().unwrap());
    assert!(begun.elapsed() < once * 2, "it was made once for all: {:?}", begun.elapsed());
}

#[test]
fn eight_slow_commands_keep_out_no_page() {
    let home = with_page(KEEP);
    let names: Vec<_> = (1..=8).map(|n| format!("slow-{n}")).collect();
    let slow = "#!/bin/sh\nsleep 2.375\nprintf '{\"name\":\"a.b\",\"payload\":{\"text\":\"slow\"}}\\n'\n";
    home.hear(&names.iter().map(|name| command(name) + &fence(&format!("command/{name}"), slow)).collect::<String>());
    assert_eq!(home.count("script.compiled"), 10, "{:?}", home.reasons());
    let server = home.serve();
    server.get("/notes");
    thread::scope(|scope| {
        let server = &server;
        let running: Vec<_> = names.iter().map(|name| scope.spawn(move || server.form(&format!("/run/{name}"), ""))).collect();
        wait_until("a slow command runs", || runs("2.375"));
        for path in ["/-/self.css", "/brief", "/notes", "/kernel", "/", "/-/today.json", "/events"] {
            assert_eq!(server.get(path).status, 200, "{path}");
        }
        assert!(!running.iter().all(thread::ScopedJoinHandle::is_finished), "they waited for the slow commands");
        assert!(running.into_iter().all(|client| client.join().unwrap().status == 200));
    });
    assert_eq!(home.count("a.b"), 8);
}

#[test]
fn who_waits_for_a_command_that_runs_keeps_out_no_other() {
    let home = with_page("#!/bin/sh\nsleep 2.125\nprintf '{\"name\":\"a.b\",\"payload\":{}}\\n'\n");
    home.hear(&(command("quick") + &fence("command/quick", KEEP)));
    let server = home.serve();
    server.get("/notes");
    // More than may run at the same time, all of one command.
    let waiting: Vec<_> = (0..10)
        .map(|_| {
            let mut client = server.connect();
            client.write_all(request(&server.host()).as_bytes()).unwrap();
            client
        })
        .collect();
    wait_until("the slow command runs", || runs("2.125"));
    assert_eq!(server.form("/run/quick", "a=now").status, 200);
    assert!(server.get("/notes").text().contains("now"));
    assert!(home.count("a.b") < 9, "it waited for those who wait");
    drop(waiting);
}

/// A run of the slow command.
fn request(host: &str) -> String {
    format!("POST /run/x HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n")
}

#[test]
fn the_files_show_what_a_run_recorded_though_nobody_asks_for_a_page() {
    let home = with_page(KEEP);
    let server = home.serve();
    assert_eq!(server.form("/run/x", "a=written").status, 200);
    let holds = |path: &str, word: &str| std::fs::read_to_string(home.join(path)).is_ok_and(|text| text.contains(word));
    wait_until("site/ shows it", || holds("site/notes.html", "written") && holds("site/brief.md", "a.b"));
}
