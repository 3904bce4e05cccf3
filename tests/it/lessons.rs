//! The lessons, and `examples/mind-shelf`, a mind without a model that has read them.
//!
//! Most tests here go over every folder of `lessons/`, so a lesson that is added is held to all of them. The last section of an
//! intent, "What good looks like", is run as it stands (LESSONS.md has its form), in a home that learned the lesson through the
//! shelf. Pages are held against `tests/lessons/`: of each lesson a story, `<lesson>.jsonl`, and what its pages show of it,
//! `<lesson>-<page>.html`; `BLESS=1 cargo test --test it lessons` writes those anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use self_kernel::level::Level;
use self_kernel::markup;
use self_kernel::quotation::quoted;
use self_kernel::wire::{Item, read};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::attacks::at;
use crate::home::{Home, MOMENT};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// A lesson, and what the shelf knows of it.
pub struct Lesson {
    pub name: String,
    pub intent: String,
    pub declarations: Vec<Declaration>,
}

/// A line of a lesson's `declare.jsonl`.
pub struct Declaration {
    /// `command` or `projector`.
    pub kind: String,
    pub name: String,
    /// The payload's bytes.
    pub payload: String,
    pub params: Vec<String>,
    pub fields: Vec<String>,
    pub consumes: Vec<String>,
    pub script: PathBuf,
}

#[derive(Deserialize)]
struct Sent {
    name: String,
    payload: Box<RawValue>,
}

#[derive(Deserialize)]
struct Declared {
    name: String,
    description: String,
    #[serde(default)]
    params: BTreeMap<String, String>,
    event: Option<Event>,
    #[serde(default)]
    also: Vec<Event>,
    #[serde(default)]
    consumes: Vec<String>,
}

#[derive(Deserialize)]
struct Event {
    fields: BTreeMap<String, String>,
}

impl Lesson {
    /// The lesson of this name.
    #[track_caller]
    pub fn read(name: &str) -> Lesson {
        let intent = fs::read_to_string(format!("{ROOT}/lessons/{name}/intent.md")).unwrap();
        let shelf = PathBuf::from(format!("{ROOT}/examples/shelf/{name}"));
        let lines =
            fs::read_to_string(shelf.join("declare.jsonl")).unwrap_or_else(|fault| panic!("{}: {fault}", shelf.display()));
        let declarations = lines.lines().map(|line| Declaration::read(line, &shelf)).collect();
        Lesson { name: name.to_owned(), intent, declarations }
    }

    /// The script of this command or projector.
    #[track_caller]
    pub fn script(&self, what: &str) -> &Path {
        let found = self.declarations.iter().find(|it| it.what() == what);
        &found.unwrap_or_else(|| panic!("{} declares no {what}", self.name)).script
    }

    fn projectors(&self) -> impl Iterator<Item = &Declaration> {
        self.declarations.iter().filter(|it| it.kind == "projector")
    }

    fn commands(&self) -> impl Iterator<Item = &Declaration> {
        self.declarations.iter().filter(|it| it.kind == "command")
    }
}

impl Declaration {
    #[track_caller]
    fn read(line: &str, shelf: &Path) -> Declaration {
        let sent: Sent = serde_json::from_str(line).unwrap_or_else(|fault| panic!("{fault}: {line}"));
        let payload = sent.payload.get().to_owned();
        assert_eq!(line, format!(r#"{{"name":"{}","payload":{payload}}}"#, sent.name), "a declaration is one compact line");
        let value: serde_json::Value = serde_json::from_str(&payload).unwrap();
        assert_eq!(payload.len(), value.to_string().len(), "without white space, and nothing escaped that need not be: {line}");
        let declared: Declared = serde_json::from_str(&payload).unwrap();
        assert!(declared.description.ends_with('.'), "a description is a sentence: {line}");
        let kind = sent.name.strip_suffix(".declared").unwrap().to_owned();
        let script = shelf.join(format!("{kind}s")).join(&declared.name);
        let events = declared.event.into_iter().chain(declared.also);
        Declaration {
            kind,
            name: declared.name,
            payload,
            params: declared.params.into_iter().map(|(name, word)| format!("{name}: {word}")).collect(),
            fields: events.flat_map(|event| event.fields.into_keys()).collect(),
            consumes: declared.consumes,
            script,
        }
    }

    fn what(&self) -> String {
        format!("{}/{}", self.kind, self.name)
    }
}

/// Every lesson that ships.
pub fn lessons() -> Vec<Lesson> {
    let folders = fs::read_dir(format!("{ROOT}/lessons")).unwrap().map(|entry| entry.unwrap().path());
    let mut names: Vec<_> = folders.filter(|path| path.is_dir()).collect();
    names.sort();
    names.iter().map(|path| Lesson::read(path.file_name().unwrap().to_str().unwrap())).collect()
}

/// Does something for every lesson, each in a thread of its own.
fn for_each(act: impl Fn(&Lesson) + Sync) {
    let lessons = lessons();
    let act = &act;
    std::thread::scope(|scope| {
        for lesson in &lessons {
            std::thread::Builder::new().name(lesson.name.clone()).spawn_scoped(scope, move || act(lesson)).unwrap();
        }
    });
}

/// Learns an account through the shelf, in one pass; nothing may be left to do.
#[track_caller]
pub fn learn(home: &Home, account: &Path) {
    let line = format!("self learn '{}' | '{ROOT}/examples/mind-shelf' | self", account.display());
    let ended = home.sh(&line).env("SELF_MIND_ID", "mind-shelf").stdout_any().stderr_any().check();
    assert_eq!(home.count("event.refused") + home.count("script.rejected"), 0, "{}", ended.said());
    home.run(["quiet"]).check();
}

/// A home that learned a lesson through the shelf.
#[track_caller]
pub fn learned(lesson: &str) -> Home {
    let home = Home::new();
    learn(&home, &Path::new(ROOT).join("lessons").join(lesson));
    home
}

/// What a rebuild of the log and the key in another home gives is what this home shows, byte for byte.
#[track_caller]
pub fn assert_rebuilds(home: &Home) {
    let copy = Home::new();
    copy.write_log(home.log());
    copy.write_private(".secret", fs::read(home.join(".secret")).unwrap());
    copy.run(["rehydrate"]).stderr_any().check();
    let derived = |home: &Home| -> BTreeMap<PathBuf, String> {
        let files = home.files().into_iter().filter(|path| path.starts_with("capabilities") || path.starts_with("site"));
        files.map(|path| (path.clone(), String::from_utf8(fs::read(home.join(&path)).unwrap()).unwrap())).collect()
    };
    let (expect, rebuilt) = (derived(home), derived(&copy));
    assert!(expect.len() > 3, "{:?}", expect.keys());
    assert_eq!(rebuilt, expect);
}

/// What a script came to.
#[derive(Debug, PartialEq, Eq)]
pub struct Came {
    pub stdout: String,
    pub stderr: String,
    pub status: i32,
}

impl Came {
    /// It printed these lines and said nothing.
    pub fn printed(lines: &[&str]) -> Came {
        Came { stdout: lines.iter().map(|line| format!("{line}\n")).collect(), stderr: String::new(), status: 0 }
    }

    /// It printed nothing, said this line, and called it wrong usage.
    pub fn refused(line: &str) -> Came {
        Came { stdout: String::new(), stderr: format!("{line}\n"), status: 2 }
    }
}

/// The interpreter itself: where `python3` is a shim, each start of it would look anew.
fn python() -> &'static str {
    static PATH: OnceLock<String> = OnceLock::new();
    PATH.get_or_init(|| {
        let ended = Home::new().program("python3", ["-c", "import sys; print(sys.executable)"]).stdout_any().check();
        ended.text().trim().to_owned()
    })
}

/// Runs a file of Python by hand, in a home of its own.
#[track_caller]
pub fn run(script: &Path, args: &[&str], stdin: impl AsRef<[u8]>) -> Came {
    run_with(script, args, stdin, &[("LANG", "C.UTF-8")])
}

#[track_caller]
fn run_with(script: &Path, args: &[&str], stdin: impl AsRef<[u8]>, environment: &[(&str, &str)]) -> Came {
    let home = Home::new();
    let mut call = home.program(python(), [&[script.to_str().unwrap()], args].concat()).stdin(stdin);
    for (name, value) in environment {
        call = call.env(name, value);
    }
    let ended = call.end();
    Came {
        stdout: String::from_utf8(ended.stdout).unwrap(),
        stderr: String::from_utf8(ended.stderr).unwrap(),
        status: ended.status,
    }
}

/// Runs a projector in two surroundings; both must be the same page of allowed mark-up.
#[track_caller]
pub fn page(script: &Path, events: &str) -> String {
    let [one, other] = [[("LANG", "C.UTF-8"), ("TZ", "UTC")], [("LANG", "C"), ("TZ", "Pacific/Kiritimati")]].map(|environment| {
        let came = run_with(script, &[], events, &environment);
        assert_eq!(
            (came.stderr.as_str(), came.status),
            ("", 0),
            "{} over\n{}",
            script.display(),
            &events[..events.len().min(2000)]
        );
        came.stdout
    });
    assert_eq!(one, other, "{} gives two pages", script.display());
    if let Err(fault) = markup::check(one.as_bytes()) {
        panic!("{}: {fault}\n{one}", script.display());
    }
    assert!(one.starts_with("<h1>"), "{}: a page starts with its title\n{one}", script.display());
    one
}

// --- every lesson -----------------------------------------------------------------------------------------------------------

#[test]
fn every_lesson_is_learned_in_one_pass() {
    for_each(|lesson| {
        let home = learned(&lesson.name);
        let told = |kind: &str| home.payloads(&format!("{kind}.declared"));
        for kind in ["command", "projector"] {
            let declared = lesson.declarations.iter().filter(|it| it.kind == kind).map(|it| it.payload.clone());
            assert_eq!(told(kind), declared.collect::<Vec<_>>());
        }
        assert_eq!(home.count("script.compiled"), lesson.declarations.len());
        for page in lesson.projectors() {
            home.run(["show", &page.name]).stdout_has(&["<h1>"]).check();
        }
        assert_rebuilds(&home);
        let length = home.log().len();
        let again = format!("self learn '{ROOT}/lessons/{}' | '{ROOT}/examples/mind-shelf'", lesson.name);
        let stands = lesson.declarations.iter().map(|it| format!("{} stands already.\n", it.what()));
        let told = format!("I know this lesson: {}.\n{}", lesson.name, stands.collect::<String>());
        home.sh(&again).stdout(told).stderr_any().check();
        assert_eq!(home.log().len(), length, "what is learned already adds nothing");
    });
}

#[test]
fn every_lesson_looks_good_as_its_intent_says() {
    for_each(|lesson| {
        let home = learned(&lesson.name);
        looks_good(&home, &lesson.intent);
        assert_rebuilds(&home);
    });
}

/// A machine that gives this user no namespaces holds scripts to what they need all the same, and every lesson lives with that.
#[test]
fn every_lesson_looks_good_without_namespaces() {
    for_each(|lesson| at(Level::Landlock, || looks_good(&learned(&lesson.name), &lesson.intent)));
}

#[test]
fn a_lesson_looks_good_whoever_realised_it() {
    let home = Home::new();
    let stub = format!("'{ROOT}/examples/mind-stub'");
    let line = format!("self learn '{ROOT}/lessons/journal' | {stub} | self && self < /dev/null | {stub} | self && self quiet");
    home.sh(&line).stdout_any().stderr_any().check();
    looks_good(&home, &journal());
}

/// Runs what an intent says good looks like.
#[track_caller]
fn looks_good(home: &Home, intent: &str) {
    let mut bound = BTreeMap::new();
    let steps = steps(intent);
    assert!(steps.len() > 3, "its intent has lines to run");
    for step in steps {
        let line = with_numbers(&step.line, &bound);
        let ended = home.sh(&format!("exec 2>&1\n{line}")).end();
        let (text, expect) = (ended.text(), step.expect.join("\n"));
        let seen: Vec<_> = text.lines().collect();
        assert!(
            ended.status == step.status && lines_match(&step.expect, &seen, &mut bound),
            "$ {line}\nexpected, with status {}:\n{expect}\nseen, with status {}:\n{text}",
            step.status,
            ended.status
        );
    }
}

#[test]
fn the_shelf_holds_the_lessons_and_nothing_else() {
    let mut listed = BTreeSet::new();
    for lesson in lessons() {
        listed.insert(format!("{}/declare.jsonl", lesson.name));
        for it in &lesson.declarations {
            listed.insert(format!("{}/{}s/{}", lesson.name, it.kind, it.name));
            let script = fs::read_to_string(&it.script).unwrap_or_else(|fault| panic!("{}: {fault}", it.script.display()));
            assert!(script.starts_with("#!/usr/bin/env python3\n\"\"\"") && script.ends_with('\n'), "{}", it.script.display());
        }
    }
    let shelf = Path::new(ROOT).join("examples/shelf");
    let there: BTreeSet<_> = walkdir::WalkDir::new(&shelf)
        .into_iter()
        .map(Result::unwrap)
        .filter(|entry| entry.file_type().is_file())
        .map(|entry| entry.path().strip_prefix(&shelf).unwrap().to_str().unwrap().to_owned())
        .collect();
    assert_eq!(there, listed);
}

#[test]
fn the_guide_lists_every_lesson() {
    let guide = fs::read_to_string(format!("{ROOT}/LESSONS.md")).unwrap();
    let rows = guide.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let listed: Vec<_> = rows.map(|(name, rest)| (name.to_owned(), rest)).collect();
    let mut names: Vec<_> = listed.iter().map(|(name, _)| name.clone()).collect();
    names.sort();
    assert_eq!(names, lessons().into_iter().map(|lesson| lesson.name).collect::<Vec<_>>());
    for (name, row) in listed {
        for it in Lesson::read(&name).declarations {
            assert!(row.contains(&format!("`{}`", it.name)), "the row of {name} leaves out `{}`", it.name);
        }
    }
}

#[test]
fn every_page_shows_its_story() {
    let folder = Path::new(ROOT).join("tests/lessons");
    let mut used = BTreeSet::new();
    for lesson in lessons() {
        let story = folder.join(format!("{}.jsonl", lesson.name));
        let events = fs::read_to_string(&story).unwrap_or_else(|fault| panic!("{}: {fault}", story.display()));
        used.insert(story);
        for projector in lesson.projectors() {
            let fed = fed(projector, &events);
            assert!(!fed.is_empty(), "the story of {} has nothing for {}", lesson.name, projector.name);
            let shown = page(&projector.script, &fed);
            let path = folder.join(format!("{}-{}.html", lesson.name, projector.name.replace('/', "-")));
            if std::env::var_os("BLESS").is_some() {
                fs::write(&path, &shown).unwrap();
            }
            let expect = fs::read_to_string(&path).unwrap_or_default();
            assert_eq!(shown, expect, "{}; if the change is meant: BLESS=1 cargo test --test it lessons", path.display());
            used.insert(path);
        }
    }
    let there: BTreeSet<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(there, used, "a file that no test uses");
}

/// The lines of a log that a projector is fed.
fn fed(projector: &Declaration, events: &str) -> String {
    let name = |line: &str| serde_json::from_str::<Sent>(line).unwrap_or_else(|fault| panic!("{fault}: {line}")).name;
    let consumed = |line: &&str| projector.consumes.is_empty() || projector.consumes.contains(&name(line));
    events.lines().filter(consumed).map(|line| format!("{line}\n")).collect()
}

/// Payloads and fields of every kind but the right one.
const ODD: [&str; 18] = [
    "null",
    "true",
    "7",
    "-1",
    "1e999",
    "123456789012345678901234567890.5",
    r#""""#,
    r#"" \n\t""#,
    r#""trial 1""#,
    r#""<script>trial</script> & \"quotes\" 'x' `y`""#,
    r#""\u0000\u0001\u001b[1m\u007f\u0085\u2028\u2029\ud800\udfff\ufffe""#,
    r#""2026-13-45T99:99:99Z""#,
    r#""2026-01-01T00:00:00Z\n<script>""#,
    "[]",
    "{}",
    r#"[null,[{"<script>":["<script>"]}],"<script>",7]"#,
    r#"{"name":7,"occurred_at":[],"by":{}}"#,
    r#"{"name":"<script>","occurred_at":"<script>","by":"<script>","x":"<script>"}"#,
];

#[test]
fn every_page_takes_any_payload() {
    for_each(|lesson| {
        let fields: BTreeSet<_> = lesson.declarations.iter().flat_map(|it| it.fields.clone()).collect();
        let objects = ODD.iter().flat_map(|odd| {
            let one = fields.iter().map(move |field| format!(r#"{{"{field}":{odd}}}"#));
            let all: Vec<_> = fields.iter().map(|field| format!(r#""{field}":{odd}"#)).collect();
            one.chain([format!("{{{}}}", all.join(","))])
        });
        let long = format!(r#"{{"{}":{}}}"#, fields.first().unwrap(), "7".repeat(5000));
        let payloads: Vec<_> = ODD.iter().map(|odd| (*odd).to_owned()).chain(objects).chain([long]).collect();
        for projector in lesson.projectors() {
            page(&projector.script, "");
            for reversed in [false, true] {
                let mut names = projector.consumes.clone();
                if reversed {
                    names.reverse();
                }
                let events: Vec<_> = names.iter().flat_map(|name| payloads.iter().map(move |payload| (name, payload))).collect();
                let lines =
                    events.iter().enumerate().flat_map(|(at, (name, payload))| odd_lines(at as u64 * 3 + 1, name, payload));
                let shown = page(&projector.script, &lines.collect::<String>());
                assert!(!shown.contains("<script"), "{shown}");
            }
        }
    });
}

/// Records of one payload: as ours, with claims that are mark-up, and with as little as an older home's line may have.
fn odd_lines(seq: u64, name: &str, payload: &str) -> [String; 3] {
    [
        format!(
            r#"{{"id":"a","seq":{seq},"name":"{name}","occurred_at":"{MOMENT}","via":"cli","by":"trial","payload":{payload}}}"#
        ),
        format!(
            r#"{{"id":"b","seq":{},"name":"{name}","occurred_at":"<script>","via":"<script>","by":"<script>\n\ud800","payload":{payload}}}"#,
            seq + 1
        ),
        format!(r#"{{"name":"{name}","payload":{payload}}}"#),
    ]
    .map(|line| line + "\n")
}

#[test]
fn every_command_says_in_one_line_how_it_is_used() {
    for lesson in lessons() {
        let needing = lesson.commands().filter(|it| it.params.iter().any(|param| !param.contains("optional")));
        for command in needing {
            let came = run(&command.script, &[], "");
            assert_eq!((came.stdout.as_str(), came.status), ("", 2), "{}", command.name);
            let usage = format!("usage: {} ", command.name);
            assert!(came.stderr.starts_with(&usage) && came.stderr.lines().count() == 1, "{}", came.stderr);
        }
    }
}

// --- what good looks like ---------------------------------------------------------------------------------------------------

/// A line to run, and what must then be seen.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    line: String,
    expect: Vec<String>,
    status: i32,
}

/// The lines to run of an intent's last section.
#[track_caller]
fn steps(intent: &str) -> Vec<Step> {
    let (_, section) = intent.split_once("\n## What good looks like\n").expect("an intent says what good looks like");
    assert!(!section.contains("\n## "), "what good looks like is the last section");
    let mut steps: Vec<Step> = Vec::new();
    for line in section.lines().filter_map(|line| line.strip_prefix("    ")) {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(line), _) => steps.push(Step { line: line.to_owned(), expect: Vec::new(), status: 0 }),
            (None, Some(step)) => match line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')?.parse().ok()) {
                Some(status) => step.status = status,
                None => step.expect.push(line.to_owned()),
            },
            (None, None) => panic!("a line that follows no `$ `: {line}"),
        }
    }
    steps
}

/// A line in which each letter that stands for a number is that number.
fn with_numbers(line: &str, bound: &BTreeMap<char, String>) -> String {
    let in_word = |char: Option<char>| char.is_some_and(|char| char.is_alphanumeric() || "_$".contains(char));
    let chars: Vec<_> = line.chars().collect();
    let of = |at: usize| {
        let before = at.checked_sub(1).and_then(|at| chars.get(at).copied());
        let alone = !in_word(before) && !in_word(chars.get(at + 1).copied());
        bound.get(&chars[at]).filter(|_| alone).cloned().unwrap_or_else(|| chars[at].to_string())
    };
    (0..chars.len()).map(of).collect()
}

fn lines_match(expect: &[String], seen: &[&str], bound: &mut BTreeMap<char, String>) -> bool {
    match (expect.split_first(), seen.split_first()) {
        (None, None) => true,
        (Some((first, rest)), _) if first == "…" => (0..=seen.len()).any(|skipped| lines_match(rest, &seen[skipped..], bound)),
        (Some((first, expect)), Some((line, seen))) => line_matches(first, line, bound) && lines_match(expect, seen, bound),
        (Some(_), None) | (None, Some(_)) => false,
    }
}

/// Whether a line looks as expected: `…` is anything, and a capital behind `seq ` a number, for which it stands from then on.
fn line_matches(expect: &str, line: &str, bound: &mut BTreeMap<char, String>) -> bool {
    let Some(first) = expect.chars().next() else { return line.is_empty() };
    let rest = &expect[first.len_utf8()..];
    if first == '…' {
        return (0..=line.len()).filter(|at| line.is_char_boundary(*at)).any(|at| line_matches(rest, &line[at..], bound));
    }
    let letter = expect.strip_prefix("seq ").and_then(|rest| rest.chars().next()).filter(char::is_ascii_uppercase);
    if let (Some(letter), Some(number)) = (letter, line.strip_prefix("seq ")) {
        let digits = number.bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 {
            bound.insert(letter, number[..digits].to_owned());
        }
        return digits > 0 && line_matches(&expect[5..], &number[digits..], bound);
    }
    line.strip_prefix(first).is_some_and(|line| line_matches(rest, line, bound))
}

#[test]
fn what_good_looks_like_is_read_as_it_stands() {
    let intent = "# X\n\n    $ not this\n\n## What good looks like\n\nWords.\n\n    $ a N\n    seq N\n    …\n    $ b\n    [2]\n";
    let step = |line: &str, expect: &[&str], status| Step {
        line: line.to_owned(),
        expect: expect.iter().map(|line| (*line).to_owned()).collect(),
        status,
    };
    assert_eq!(steps(intent), [step("a N", &["seq N", "…"], 0), step("b", &[], 2)]);
    let mut bound = BTreeMap::new();
    let expect = ["appended seq N a.b", "…", "x … z"].map(str::to_owned);
    assert!(lines_match(&expect, &["appended seq 17 a.b", "x y z"], &mut bound));
    assert!(lines_match(&expect, &["appended seq 18 a.b", "", "w", "x  z"], &mut bound));
    assert!(!lines_match(&expect, &["appended seq 18 a.b", "x y z", "w"], &mut bound));
    assert!(!lines_match(&expect, &["appended seq x a.b", "x y z"], &mut bound));
    assert_eq!(with_numbers("x N,N --from=N $N No M", &bound), "x 18,18 --from=18 $N No M");
}

// --- the shelf --------------------------------------------------------------------------------------------------------------

/// What the shelf says when it can do nothing else.
fn can() -> String {
    let names: Vec<_> = lessons().into_iter().map(|lesson| lesson.name).collect();
    format!("I am a mind without a model. I have read these lessons, and declare and write what they name: {}.", names.join(", "))
}

/// What the shelf answers, in a directory and an environment that hold nothing.
#[track_caller]
fn answer(prompt: impl AsRef<[u8]>) -> String {
    let came = run(&Path::new(ROOT).join("examples/mind-shelf"), &[], prompt);
    assert_eq!((came.stderr.as_str(), came.status), ("", 0));
    came.stdout
}

/// An answer in short: its prose, its events, and which scripts are in it; each must be one of the shelf's own.
#[track_caller]
fn told(answer: &str) -> Vec<String> {
    let reading = read(answer.as_bytes());
    assert_eq!(reading.notes, []);
    let own: Vec<_> = lessons().into_iter().flat_map(|lesson| lesson.declarations).collect();
    let item = |item: &Item| match item {
        Item::Prose(text) => text.trim().lines().map(str::to_owned).collect(),
        Item::Draft(sent) => {
            let payload = sent.draft.payload.get();
            assert!(own.iter().any(|it| it.payload == payload), "an event that is none of the shelf's: {payload}");
            vec![sent.draft.name.as_str().to_owned()]
        }
        Item::Script(authored) => {
            let what = format!("{}/{}", authored.kind, authored.name);
            let script = own.iter().find(|it| it.what() == what).map(|it| fs::read_to_string(&it.script).unwrap());
            assert_eq!(script.as_ref(), Some(&authored.script), "{what}");
            vec![format!("script {what}")]
        }
        Item::NearMiss(miss) => panic!("a near miss: {miss:?}"),
    };
    reading.items.iter().flat_map(item).collect()
}

/// What a new home prints when it learns this intent, from a folder of this name.
#[track_caller]
fn learning(folder: &str, intent: &str) -> String {
    let home = Home::new();
    fs::create_dir(home.beside(folder)).unwrap();
    fs::write(home.beside(folder).join("intent.md"), intent).unwrap();
    home.run(["learn", home.beside(folder).to_str().unwrap()]).stdout_any().stderr_any().check().text()
}

const JOURNAL: [&str; 7] = [
    "I know this lesson: journal.",
    "I declare command/entry and send its script.",
    "I declare projector/journal and send its script.",
    "command.declared",
    "projector.declared",
    "script command/entry",
    "script projector/journal",
];

fn journal() -> String {
    Lesson::read("journal").intent
}

#[test]
fn a_lesson_is_recognised_by_its_public_names_alone() {
    assert_eq!(told(&answer(learning("a diary, perhaps", &journal()))), JOURNAL);
    let retold = "Diary\n\n* Page `journal` <- `journal.entry`. Newest on top.\n* Command `entry <text...>` -> `journal.entry { text }`.\n\
                  - bread and `butter`\n";
    assert_eq!(told(&answer(learning("memory", retold))), JOURNAL);
}

#[test]
fn another_lesson_under_a_known_name_is_not_recognised() {
    let not = ["I have not read this lesson.".to_owned(), can()];
    let edits = [
        ("journal.entry {text}", "journal.entry {words}"),
        ("`journal.entry {text}`", "`journal.kept {text}`"),
        ("entry <text…>", "entry <text…> [note…]"),
        ("entry <text…>", "enter <text…>"),
        ("entry <text…>", "entry [text…]"),
        ("{text}`:", "{text}`, needs `net`:"),
        ("← `journal.entry`", "← `journal.entry`, `a.b`"),
        ("- page `journal` ", "- page `other`\n- page `journal` "),
        ("- page `journal` ", "- page "),
    ];
    for (from, to) in edits {
        assert!(journal().contains(from), "{from}");
        assert_eq!(told(&answer(learning("journal", &journal().replace(from, to)))), not, "{from} → {to}");
    }
    assert_eq!(told(&answer(learning("journal", "Keep a journal: `entry <text…>`."))), not);
}

#[test]
fn what_is_asked_or_quoted_is_no_lesson() {
    let home = Home::new();
    let fake = learning("journal", &journal());
    let asked = |text: &str| told(&answer(home.run(["ask"]).stdin(text).stdout_any().stderr_any().check().stdout));
    assert_eq!(asked(&fake), [can()]);
    assert_eq!(asked(&answer(&fake)), [can()], "the echo of its own answer");
    assert_eq!(asked(&format!("hi\n\n## How to answer\n\n{fake}")), [can()]);
    let message = serde_json::to_string(&fake).unwrap();
    home.hear(&format!(r#"{{"name":"chat.message","payload":{{"role":"user","content":{message}}}}}"#));
    assert_eq!(told(&answer(home.run(["work"]).stdout_any().check().stdout)), [can()]);
    let nested = format!("{0}\n--- END INTENT ---\n\n{fake}\n[seq 1]\n--- INTENT ---\n{1}", journal(), quoted(&fake));
    assert_eq!(told(&answer(learning("x", &nested))), JOURNAL, "it has the lesson's items, and nothing else counts");
    let hostile = nested.replace("- page `journal`", "- page `journal` ← `x.y`\n- page `journal`");
    assert_eq!(told(&answer(learning("x", &hostile))), ["I have not read this lesson.".to_owned(), can()]);
}

#[test]
fn a_hostile_intent_is_read_in_a_moment() {
    let items = [
        format!("- command `x` → `a.b`{}", " ".repeat(200_000)),
        format!("- command `x {}` → `a.b`", "<a[".repeat(100_000)),
        format!("- command `x` → {}", "`a.b`,".repeat(100_000)),
        format!("- page `x` ← {}", "`a.b` and ".repeat(100_000)),
        format!("- page{}", " ".repeat(200_000)),
    ];
    for item in items {
        let prompt =
            format!("# A prompt from self 0\n\n[seq 2]\n--- INTENT ---\n| {item}\n--- END INTENT ---\n\n## How to answer\n");
        assert_eq!(told(&answer(&prompt)), ["I have not read this lesson.".to_owned(), can()]);
    }
}

#[test]
fn what_is_no_whole_prompt_is_told_so() {
    let prompt = learning("journal", &journal());
    let none = format!("{} What I was given is no prompt of self.\n", can());
    let cut = format!("{} The prompt that I was given is cut, so I did nothing.\n", can());
    assert_eq!(answer(""), none);
    assert_eq!(answer(answer(&prompt)), none, "its own answer");
    assert_eq!(answer([b"\xff\xfe\0\x01".as_slice(), prompt.as_bytes()].concat()), none);
    let binary: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    assert_eq!(answer(&binary), none);
    let head = prompt.find('\n').unwrap();
    let foot = prompt.find("\n## How to answer\n").unwrap() + 1;
    for at in (head..foot).step_by(257).filter(|at| prompt.is_char_boundary(*at)) {
        assert_eq!(answer(&prompt[..at]), cut, "cut at byte {at}");
    }
    assert_eq!(told(&answer([prompt.as_bytes(), &binary].concat())), JOURNAL, "what follows is no part of it");
}

#[test]
fn what_waits_for_its_script_gets_it() {
    let home = Home::new();
    let lesson = Lesson::read("journal");
    let [entry, journal] = &lesson.declarations[..] else { panic!("two declarations") };
    let send = |it: &Declaration| home.hear(&format!(r#"{{"name":"{}.declared","payload":{}}}"#, it.kind, it.payload));
    let work = || told(&answer(home.run(["work"]).stdout_any().check().stdout));
    send(entry);
    home.hear(r#"{"name":"command.declared","payload":{"name":"other","params":{},"event":{"name":"a.b","fields":{}}}}"#);
    assert_eq!(
        work(),
        [
            "I send the script of command/entry.",
            "I cannot write command/other: its declaration is none of mine.",
            "script command/entry"
        ]
    );
    home.run(["retire", "command/other"]).stdout_any().stderr_any().check();

    let learns =
        || told(&answer(home.run(["learn", &format!("{ROOT}/lessons/journal")]).stdout_any().stderr_any().check().stdout));
    let rest = [
        "I declare projector/journal and send its script.",
        "projector.declared",
        "script command/entry",
        "script projector/journal",
    ];
    let wrote = "I send the script of command/entry.";
    assert_eq!(learns(), ["I know this lesson: journal.", rest[0], wrote, rest[1], rest[3], rest[2]]);

    home.sh(&format!("self work | '{ROOT}/examples/mind-shelf' | self")).stdout_any().stderr_any().check();
    let stands = ["I know this lesson: journal.", "command/entry stands already.", rest[0], rest[1], rest[3]];
    assert_eq!(learns(), stands);
    send(journal);
    assert_eq!(work(), ["I send the script of projector/journal.", "script projector/journal"]);
    let other = entry.payload.replace("Keep", "Hold");
    home.hear(&format!(r#"{{"name":"command.declared","payload":{other}}}"#));
    let told = work();
    assert!(told.contains(&"I cannot write command/entry: its declaration is none of mine.".to_owned()), "{told:?}");
}

#[test]
fn its_own_rejected_script_is_not_sent_again() {
    let home = Home::new();
    let lesson = Lesson::read("journal");
    let entry = &lesson.declarations[0];
    let send = || home.hear(&format!(r#"{{"name":"command.declared","payload":{}}}"#, entry.payload));
    let work = || told(&answer(home.run(["work"]).stdout_any().check().stdout));
    let rejected = |script: &str| {
        let record = serde_json::json!({"type": "command", "name": "entry", "reason": "no `python3`\nhere", "excerpt": script,
            "sha256": "0"});
        let seq = home.records().last().unwrap().seq + 1;
        home.append(crate::home::line(seq, "kernel", "script.rejected", &record.to_string()));
    };
    let wrote = ["I send the script of command/entry.", "script command/entry"];
    let script = fs::read_to_string(&entry.script).unwrap();
    let excerpt = &script[..script.floor_char_boundary(1024)];
    send();
    rejected("#!/bin/sh\necho other");
    assert_eq!(work(), wrote, "another mind's script");
    rejected(excerpt);
    assert_eq!(work(), ["My script of command/entry was rejected here; I have no other, so I do not send it again."]);
    let learning = home.run(["learn", &format!("{ROOT}/lessons/journal")]).stdout_any().stderr_any().check();
    assert_eq!(
        told(&answer(learning.stdout))[2],
        "My script of command/entry was rejected here; I have no other, so I do not send it again."
    );
    send();
    assert_eq!(work(), wrote, "declared anew since");
}

#[test]
fn the_shelf_is_found_from_anywhere() {
    let home = Home::new();
    std::os::unix::fs::symlink(format!("{ROOT}/examples/mind-shelf"), home.beside("bin/mind-shelf")).unwrap();
    home.sh(&format!("self learn '{ROOT}/lessons/journal' | mind-shelf | self")).stdout_any().stderr_any().check();
    home.sh("self run entry a && self show journal").stdout_has(&["<p>a</p>"]).stderr_any().check();
}

// --- journal ----------------------------------------------------------------------------------------------------------------

#[test]
fn an_entry_keeps_any_text() {
    let lesson = Lesson::read("journal");
    let entry = |args: &[&str]| run(lesson.script("command/entry"), args, "");
    let kept = |text: &str| Came::printed(&[&format!(r#"{{"name":"journal.entry","payload":{{"text":"{text}"}}}}"#)]);
    assert_eq!(entry(&["the", "kettle", "is  on"]), kept("the kettle is  on"));
    assert_eq!(entry(&["<script>", "\"q\" $(id) \\n é😀", "--help"]), kept(r#"<script> \"q\" $(id) \\n é😀 --help"#));
    assert_eq!(entry(&["a\nb\u{1b}\u{2028}"]), kept("a\\nb\\u001b\u{2028}"));
    assert_eq!(entry(&["", " \n"]), Came::refused("usage: entry <text…>"));
}

#[test]
fn a_long_journal_ends_early_and_says_so() {
    let lesson = Lesson::read("journal");
    let line = |n: usize, text: &str| format!(r#"{{"seq":{n},"name":"journal.entry","payload":{{"text":"{text}"}}}}"#) + "\n";
    let many: String = (1..=1002).map(|n| line(n, &format!("entry {n}."))).collect();
    let shown = page(lesson.script("projector/journal"), &many);
    assert!(shown.contains("<p>entry 1002.</p>") && shown.contains("<p>entry 503.</p>") && !shown.contains("entry 502."));
    assert!(shown.ends_with("<p>And 502 older, in the log.</p>\n"));
    let long = page(lesson.script("projector/journal"), &line(2, &"&".repeat(4001)));
    assert!(long.contains(&format!("<p>{} <small>… and 1 more characters</small></p>", "&amp;".repeat(4000))));
}

#[test]
fn one_account_has_two_expressions() {
    let [shelf, stub] = [Home::new(), Home::new()];
    let account = shelf.beside("five thousand entries");
    fs::create_dir(&account).unwrap();
    fs::write(account.join("intent.md"), journal()).unwrap();
    let line = |n: usize| {
        let moment = format!("2025-01-{:02}T00:{:02}:{:02}Z", 1 + n / 3600, n / 60 % 60, n % 60);
        format!(r#"{{"name":"journal.entry","occurred_at":"{moment}","by":"ada","payload":{{"text":"entry <{n}>."}}}}"#) + "\n"
    };
    fs::write(account.join("record.jsonl"), (1..=5000).map(line).collect::<String>()).unwrap();
    learn(&shelf, &account);
    let mind = format!("'{ROOT}/examples/mind-stub'");
    let passes = format!("self learn '{}' | {mind} | self && self < /dev/null | {mind} | self && self quiet", account.display());
    stub.sh(&passes).stdout_any().stderr_any().check();
    let pages = [&shelf, &stub].map(|home| {
        assert_eq!(home.count("journal.entry"), 5000);
        home.run(["show", "journal"]).stdout_has(&["entry &lt;5000&gt;.", "entry &lt;4501&gt;."]).check().text()
    });
    assert!(pages[0] != pages[1], "each in its own words");
    assert!(pages[0].ends_with("<p>And 4500 older, in the log.</p>\n"), "the shelf's");
}
