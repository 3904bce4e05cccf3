//! The end of a log that a crash, a power cut or a hand cut off: nothing acknowledged is lost, no byte disappears, and no part
//! of a batch is read as fact.

use std::fs;
use std::thread;

use sha2::{Digest, Sha256};

use crate::home::{Home, batch, first_line, line, records};

const NOTE: &str = r#"{"name":"note.taken","payload":{"n":1}}"#;

fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// Asserts that a torn tail is passed over by a reader, with one warning, and set aside by the next append.
#[track_caller]
fn check_torn(kept: &str, torn: &[u8]) {
    let last = records(kept.as_bytes()).last().map_or(0, |record| record.seq);
    let home = Home::with_log([kept.as_bytes(), torn].concat());
    let before = home.log();
    let offset = kept.len().to_string();

    let read = home.run(["show", "brief"]).stdout_has(&["self"]).stderr_has(&[&offset]).check();
    assert_eq!(read.said().matches(&offset).count(), 1, "one warning: {}", read.said());
    assert_eq!(home.log(), before, "a reader wrote");
    assert!(home.torn().is_empty(), "a reader set something aside");

    home.run(["hear"]).stdin(NOTE).stderr_has(&[&offset]).check();
    let log = home.log();
    assert!(log.starts_with(kept.as_bytes()), "a kept byte changed");
    let new = records(&log[kept.len()..]);
    assert_eq!(
        new.iter().map(super::home::Record::told).collect::<Vec<_>>(),
        [
            format!(
                r#"{} kernel log.recovered {{"offset":{offset},"bytes":{},"sha256":"{}"}}"#,
                last + 1,
                torn.len(),
                sha256(torn)
            ),
            format!(r#"{} pipe note.taken {{"n":1}}"#, last + 2),
        ]
    );
    let (id, _, _) = new[0].frame();
    assert_eq!((new[0].frame(), new[1].frame()), ((id.clone(), 1, 2), (id, 2, 2)));
    let name = format!("{offset}-{}", &sha256(torn)[..8]);
    assert_eq!(home.torn(), [(name.clone(), torn.to_vec())]);
    assert_eq!(home.mode(&format!(".self/torn/{name}")), 0o600);

    home.run(["show", "brief"]).stdout_any().check();
}

fn two_lines() -> String {
    first_line() + &line(2, "pipe", "home.made", "{}")
}

#[test]
fn d3_no_byte_disappears() {
    let three = batch(3, &[("a.b", "{}"), ("c.d", "{}"), ("e.f", "{}")]);
    let whole = three.concat();
    check_torn(&two_lines(), &whole.as_bytes()[..whole.len() - 9]);
    check_torn(&two_lines(), &whole.as_bytes()[..three[0].len()]);
    check_torn(&two_lines(), &whole.as_bytes()[..three[0].len() - 1]);
    check_torn(&two_lines(), b"\xff\xfe\x00garbage");
    check_torn(&two_lines(), b"garbage\n");
    check_torn(&two_lines(), b"{\"name\":\"note.taken\",\"payl\r\n");
}

#[test]
fn a_last_record_cut_by_power_loss_is_passed_over_and_then_set_aside() {
    let cut = line(3, "pipe", "note.taken", r#"{"text":"about to be cut"}"#);
    check_torn(&two_lines(), &cut.as_bytes()[..cut.len() - 9]);
}

#[test]
fn four_kib_of_nuls_at_the_end_are_a_torn_tail() {
    check_torn(&two_lines(), &[0; 4096]);
    let cut = line(3, "pipe", "note.taken", "{}");
    check_torn(&two_lines(), &[&cut.as_bytes()[..20], &[0; 4096]].concat());
}

#[test]
fn a_log_cut_by_truncate_loses_only_the_torn_record() {
    let home = Home::made();
    for n in 0..5 {
        home.hear(&format!(r#"{{"name":"note.taken","payload":{{"n":{n}}}}}"#));
    }
    let whole = home.log();
    let last = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    home.sh("truncate -s -9 events.jsonl").check();

    home.run(["show", "brief"]).stdout_any().stderr_has(&[&last.to_string()]).check();
    home.run(["quiet"]).stderr_has(&[&last.to_string()]).check();
    home.run(["ask", "still there?"]).stdout_has(&["still there?"]).stderr_has(&[&last.to_string()]).check();

    let log = home.log();
    assert_eq!(log[..last], whole[..last]);
    let torn = &whole[last..whole.len() - 9];
    assert_eq!(home.torn(), [(format!("{last}-{}", &sha256(torn)[..8]), torn.to_vec())]);
    let names: Vec<_> = records(&log).into_iter().map(|record| (record.seq, record.name)).collect();
    assert_eq!(names[5..], [(6, "note.taken".into()), (7, "log.recovered".into()), (8, "self.asked".into())]);
}

#[test]
fn a_record_that_lacks_only_its_newline_counts() {
    let home = Home::with_log(two_lines().trim_end());
    home.run(["show", "brief"]).stdout_any().check();
    home.run(["hear"]).stdin(NOTE).stderr_any().check();
    let log = home.log();
    assert!(log.starts_with(two_lines().as_bytes()), "the next append writes the newline first");
    assert_eq!(home.told_from(2), ["2 pipe home.made {}", r#"3 pipe note.taken {"n":1}"#]);
    assert!(home.torn().is_empty());
}

#[test]
fn a_last_batch_that_lacks_only_its_newline_counts() {
    let three = batch(2, &[("a.b", "{}"), ("c.d", "{}"), ("e.f", "{}")]).concat();
    let home = Home::with_log((first_line() + &three).trim_end());
    home.run(["hear"]).stdin(NOTE).stderr_any().check();
    assert_eq!(home.told_from(4), ["4 pipe e.f {}", r#"5 pipe note.taken {"n":1}"#]);
}

#[test]
fn blank_lines_at_the_end_are_no_torn_tail() {
    for blank in ["\n", "\r\n", " \t\n\n"] {
        let home = Home::with_log(two_lines() + blank);
        home.run(["hear"]).stdin(NOTE).stderr_any().check();
        let log = home.log();
        let kept = two_lines() + blank;
        assert!(log.starts_with(kept.as_bytes()));
        let new = records(&log[kept.len()..]);
        assert_eq!(new.iter().map(super::home::Record::told).collect::<Vec<_>>(), [r#"3 pipe note.taken {"n":1}"#]);
        assert!(home.torn().is_empty());
    }
}

#[test]
fn two_recoveries_set_two_tails_aside() {
    let home = Home::made();
    home.append("{\"first");
    home.hear(NOTE);
    home.append("{\"second");
    home.hear(NOTE);
    let torn: Vec<_> = home.torn().into_iter().map(|(_, bytes)| bytes).collect();
    assert_eq!(torn.len(), 2);
    assert!(torn.contains(&b"{\"first".to_vec()) && torn.contains(&b"{\"second".to_vec()), "{torn:?}");
    assert_eq!(home.count("log.recovered"), 2);
}

/// The log of D2: one record, and a batch of three whose first record asks for an answer.
struct Cut {
    log: String,
    first: usize,
}

impl Cut {
    fn new() -> Cut {
        let first = "{\"id\":\"1\",\"seq\":1,\"name\":\"kernel.initialized\",\"payload\":{}}\n".to_owned();
        let mut log = first.clone();
        for (k, name) in [(1, "chat.message"), (2, "a.b"), (3, "c.d")] {
            let payload = if k == 1 { r#"{"role":"user","content":"?"}"# } else { "{}" };
            log += &format!("{{\"id\":\"{:032x}.{k}-3\",\"seq\":{},\"name\":\"{name}\",\"payload\":{payload}}}\n", 1, k + 1);
        }
        Cut { log, first: first.len() }
    }

    /// The lengths to which recovery may cut the log when it ends at `at` with `tail` behind it, and the seq that is the last
    /// then; the content's own length means that nothing is torn.
    fn kept(&self, at: usize, tail: &[u8]) -> Vec<(usize, u64)> {
        let blank = tail.iter().all(u8::is_ascii_whitespace);
        let mut ends = vec![(0, 0), (self.first, 1), (self.log.len(), 4)];
        ends.retain(|(end, _)| *end <= at + 1);
        let (end, seq) = *ends.last().unwrap();
        let length = at + tail.len();
        match () {
            () if blank && (at == end || at + 1 == end) => vec![(length, seq)],
            () if at + 1 == end => {
                let before = ends[ends.len() - 2];
                // Junk on the line of a record that lost its newline: the record may count, or go aside with the junk.
                vec![before, (at, seq)]
            }
            () => vec![(end, seq)],
        }
    }
}

/// One case of D2: the log is cut at this byte, with this behind it.
fn check_cut(home: &Home, cut: &Cut, at: usize, tail: &[u8]) {
    let case = format!("cut at {at}, then {:?}", tail.escape_ascii().to_string());
    let before = [&cut.log.as_bytes()[..at], tail].concat();
    home.write_log(&before);
    drop(fs::remove_dir_all(home.join(".self")));
    let kept = cut.kept(at, tail);

    let quiet = home.run(["quiet"]).without("HOME").without("XDG_STATE_HOME").end();
    assert_eq!(home.log(), before, "{case}: a reader wrote");
    let heard = home.run(["hear"]).without("HOME").without("XDG_STATE_HOME").stdin(NOTE).end();
    assert_eq!((heard.status, heard.text().as_str()), (0, ""), "{case}: {}", heard.said());

    let log = home.log();
    let torn = home.torn();
    let (length, last) = *kept
        .iter()
        .find(|(length, _)| *length == before.len() || torn.iter().any(|(name, _)| name.starts_with(&format!("{length}-"))))
        .unwrap_or_else(|| panic!("{case}: kept {kept:?}, but set aside {torn:?}"));
    assert!(log.starts_with(&before[..length]), "{case}: a kept byte changed");
    let fact = i32::from(last == 4);
    assert_eq!(quiet.status, fact, "{case}: an unfinished batch was read, or a finished one was not: {}", quiet.said());

    let rest = log[length..].strip_prefix(b"\n").unwrap_or(&log[length..]);
    let mut names: Vec<_> = records(rest).into_iter().map(|record| (record.seq, record.name)).collect();
    for (place, (seq, _)) in names.iter().enumerate() {
        assert_eq!(*seq, last + 1 + place as u64, "{case}: seq");
    }
    if last == 0 {
        names.retain(|(_, name)| name != "kernel.initialized");
    }
    let names: Vec<_> = names.iter().map(|(_, name)| name.as_str()).collect();
    if length == before.len() {
        assert_eq!((names.as_slice(), torn.len()), (["note.taken"].as_slice(), 0), "{case}");
        assert_eq!(quiet.said(), "", "{case}: a warning about nothing");
    } else {
        assert_eq!(names, ["log.recovered", "note.taken"], "{case}");
        let aside = &before[length..];
        assert_eq!(torn, [(format!("{length}-{}", &sha256(aside)[..8]), aside.to_vec())], "{case}");
        assert!(quiet.said().contains(&length.to_string()), "{case}: the warning names no offset: {}", quiet.said());
    }
}

#[test]
fn d2_every_cut_and_every_junk_tail_recovers() {
    let cut = Cut::new();
    let cut = &cut;
    let tails: [&[u8]; 5] = [b"", b"\0\0\0\0", b"\xff", b"\n", b"{\"id\":\"x\",\"se"];
    thread::scope(|scope| {
        for part in 0..2 {
            scope.spawn(move || {
                let home = Home::new();
                for at in (0..=cut.log.len()).filter(|at| at % 2 == part) {
                    for tail in tails {
                        check_cut(&home, cut, at, tail);
                    }
                }
            });
        }
    });
}
