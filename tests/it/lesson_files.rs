//! The lesson `files`: what is kept of a file, its limits, and what of it a page shows.

use std::fs;

use crate::home::{Home, line};
use crate::lessons::{Came, Lesson, learned, page, run};

const MIB: usize = 1 << 20;

/// A line of the log that adds a file of these zeros.
fn zeros(seq: u64, name: &str, bytes: usize) -> String {
    assert_eq!(bytes % 3, 0);
    let content = "AAAA".repeat(bytes / 3);
    line(seq, "cli", "file.added", &format!(r#"{{"name":"{name}","bytes":{bytes},"type":"text/plain","content":"{content}"}}"#))
}

fn shown(log: &[String]) -> String {
    page(Lesson::read("files").script("projector/files"), &log.concat())
}

#[test]
fn a_file_is_kept_under_the_last_part_of_its_path() {
    let lesson = Lesson::read("files");
    let beside = Home::new();
    let add = |name: &str, bytes: &[u8], note: &[&str]| {
        fs::write(beside.join(name), bytes).unwrap();
        let path = beside.join(name);
        let came = run(lesson.script("command/file/add"), &[&[path.to_str().unwrap()], note].concat(), "");
        assert_eq!((came.stderr.as_str(), came.status), ("", 0));
        let digest = came.stdout.split_once("\"sha256\":\"").unwrap().1[..64].to_owned();
        came.stdout.replace(&digest, "…").trim_end().to_owned()
    };
    let kept = |name: &str, bytes: usize, kind: &str, rest: &str| {
        format!(
            r#"{{"name":"file.added","payload":{{"name":"{name}","sha256":"…","bytes":{bytes},"type":"{kind}","content":{rest}}}}}"#
        )
    };
    assert_eq!(add("a \"b\".TXT", b"hi\n", &[]), kept("a \\\"b\\\".TXT", 3, "text/plain", "\"aGkK\""));
    let note = r#""","note":"a <b> \"c\"""#;
    assert_eq!(add("<b>\n\u{2028}é", b"", &["a", "<b> \"c\""]), kept("<b>\\n\u{2028}é", 0, "application/octet-stream", note));
    assert_eq!(add(".png", b"\0\xff", &[" "]), kept(".png", 2, "image/png", "\"AP8=\""));
}

#[test]
fn what_is_no_file_or_too_large_is_refused_with_words() {
    let lesson = Lesson::read("files");
    let beside = Home::new();
    let add = |path: &str| run(lesson.script("command/file/add"), &[path, "note"], "");
    let large = beside.join("large");
    fs::write(&large, vec![b'x'; MIB]).unwrap();
    assert_eq!(add(large.to_str().unwrap()).status, 0);
    fs::write(&large, vec![b'x'; MIB + 1]).unwrap();
    let large = large.to_str().unwrap();
    let words = format!("file/add: \"{large}\" has 1048577 bytes; a file has at most 1048576");
    assert_eq!(add(large), Came::refused(&words));
    let folder = beside.path().to_str().unwrap();
    assert_eq!(add(folder), Came::refused(&format!("file/add: \"{folder}\" is no file")));
    assert_eq!(add("no\n\"such\""), Came::refused(r#"file/add: "no\n\"such\"" is no file"#));
    assert_eq!(add("/dev/zero"), Came::refused("file/add: \"/dev/zero\" is no file"));
    assert_eq!(add(""), Came::refused("usage: file/add <path> [note…]"));
}

#[test]
fn only_what_stands_can_be_dropped() {
    let lesson = Lesson::read("files");
    let drop = |args: &[&str], log: &str| run(lesson.script("command/file/drop"), args, log);
    let name = r#"a "b""#;
    let added = line(2, "cli", "file.added", r#"{"name":"a \"b\""}"#);
    let dropped = line(3, "cli", "file.dropped", r#"{"name":"a \"b\""}"#);
    let odd = ["7", "null", r#"{"name":["a"]}"#].map(|payload| line(4, "cli", "file.added", payload)).concat();
    let kept = Came::printed(&[r#"{"name":"file.dropped","payload":{"name":"a \"b\""}}"#]);
    let refused = Came::refused(r#"file/drop: no file is called "a \"b\"""#);
    assert_eq!(drop(&[name], &added), kept);
    assert_eq!(drop(&[name], &format!("{added}{dropped}{odd}")), refused);
    assert_eq!(drop(&[name], &format!("{added}{dropped}{added}")), kept);
    assert_eq!(drop(&[name], &odd), refused);
    for wrong in [&[][..], &[" "], &["a", "b"]] {
        assert_eq!(drop(wrong, &added), Came::refused("usage: file/drop <name>"));
    }
}

#[test]
fn the_newest_four_mebibytes_are_at_hand() {
    let large = MIB - 1;
    let files: Vec<_> = (1..=6).map(|n| zeros(n, &format!("f{n}."), large)).collect();
    let told = |log: &[String]| {
        let shown = shown(log);
        let (inline, list) = shown.split_once("In the log only").unwrap_or((&shown, ""));
        let of = |text: &str| (1..=9).filter(|n| text.contains(&format!("f{n}."))).collect::<Vec<_>>();
        (of(inline), of(list))
    };
    assert_eq!(told(&files), (vec![3, 4, 5, 6], vec![1, 2]));
    let small = [files.clone(), vec![zeros(7, "f7.", 3), zeros(8, "f8.", 3)]].concat();
    assert_eq!(told(&small), (vec![4, 5, 6, 7, 8], vec![1, 2, 3]));
    let dropped = [files, vec![line(7, "cli", "file.dropped", r#"{"name":"f5."}"#), zeros(8, "f1.", 6)]].concat();
    assert_eq!(told(&dropped), (vec![1, 3, 4, 6], vec![2]));
}

#[test]
fn many_files_are_listed_up_to_a_number() {
    let large = zeros(1, "large", 3 * (MIB / 2) * 2);
    let log: Vec<_> = (2..=600).map(|n| line(n, "cli", "file.added", &format!(r#"{{"name":"{n}"}}"#))).chain([large]).collect();
    let shown = shown(&log);
    assert_eq!(shown.matches("<li>").count(), 501);
    assert!(shown.contains("<li>and 99 older</li>"), "{shown}");
}

#[test]
fn a_kept_file_comes_back_byte_for_byte() {
    let home = learned("files");
    let bytes: Vec<u8> = (0..=255).cycle().take(MIB).collect();
    fs::write(home.beside("all.bin"), &bytes).unwrap();
    home.run(["run", "file/add", "../all.bin"]).stdout_any().stderr_any().check();
    let save = "self show files | grep -o 'base64,[^\"]*' | cut -d , -f 2 | base64 -d";
    let ended = home.sh(save).stdout_any().check();
    assert!(ended.stdout == bytes, "{} bytes", ended.stdout.len());
}
