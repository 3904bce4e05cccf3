//! Reading the log by the rows of its index: it shows what a whole reading shows, whatever the log holds, and where the rows do not fit.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use self_kernel::append::Disk;
use self_kernel::browsing::Shape;
use self_kernel::feed::{Piece, Wanted};
use self_kernel::home::Home as Place;
use self_kernel::index::Index;
use self_kernel::kernel::{Caller, Kernel, World};
use self_kernel::level::{Level, Reach, Sandbox};
use self_kernel::log::{Log, Places, Position};
use self_kernel::query::{Query, Span, Typed};
use self_kernel::receipt::Secret;
use self_kernel::seeking::Seek;
use self_kernel::state::State;

use crate::home::{Home, line};
use crate::index::Dice;

const KEY: &str = "0707070707070707070707070707070707070707070707070707070707070707";

const NOW: &str = "2026-06-30T00:00:00Z";

const SPEAKERS: [&str; 4] = ["ada", "", "bob", "a \\u00e9"];

const DOORS: [&str; 7] = ["cli", "pipe", "kernel", "http:127.0.0.1", "http:[::1]", "learn:tides", "telnet"];

const NAMES: [&str; 6] = ["note.taken", "note.taken", "note.dropped", "tide.high", "lineage.self.asked", "a name"];

/// What kind of log is made.
#[derive(Clone, Copy)]
struct Kind {
    events: u64,
    /// Odd numbers, missing ones, damaged and blank lines.
    is_odd: bool,
    /// Lines that are no records, though every event claims its place.
    is_damaged: bool,
    /// More days, doors and speakers than are counted, more names than have an entry.
    is_wide: bool,
}

fn moment(dice: &mut Dice, seq: u64, kind: Kind) -> String {
    let day = |day: u64| format!("2026-{:02}-{:02}", 1 + day / 28 % 12, 1 + day % 28);
    let hour = dice.below(24);
    match dice.below(20) {
        0 => String::new(),
        1 => "yesterday".to_owned(),
        2 => format!("{} 10:00:00Z", day(seq)),
        3 => format!("{}T{hour:02}:30:00+{:02}:59", day(dice.below(330)), dice.below(24)),
        4 => format!("{}T{hour:02}:30:00-{:02}:59", day(seq / 40), dice.below(24)),
        5 if kind.is_wide => format!("{:04}-03-01T{hour:02}:00:00Z", dice.below(3000)),
        _ => format!("{}T{hour:02}:00:00.000000001Z", day(seq / 40)),
    }
}

/// A line of an event that claims this place.
fn entry(dice: &mut Dice, seq: u64, kind: Kind) -> String {
    let moment = moment(dice, seq, kind);
    let name = match dice.below(400) {
        0 => "rare.made".to_owned(),
        1..200 if kind.is_wide => format!("wide.n{}", dice.below(9000)),
        _ => dice.of(&NAMES).to_owned(),
    };
    let via = if kind.is_wide && dice.below(9) == 0 { format!("learn:{}", dice.below(400)) } else { dice.of(&DOORS).to_owned() };
    let by = if kind.is_wide && dice.below(9) == 0 { format!("mind {}", dice.below(400)) } else { dice.of(&SPEAKERS).to_owned() };
    let by = if by.is_empty() { String::new() } else { format!(",\"by\":\"{by}\"") };
    let payload =
        dice.of(&[",\"payload\":{\"text\":\"tea\"}", ",\"payload\":null", "", ",\"payload\":{\"text\":\"salt\",\"n\":1}"]);
    format!(
        "{{\"id\":\"{seq:032x}\",\"seq\":{seq},\"name\":\"{name}\",\"occurred_at\":\"{moment}\",\"via\":\"{via}\"{by}{payload}}}\n"
    )
}

fn log(dice: &mut Dice, kind: Kind) -> String {
    let mut log = String::new();
    for seq in 1..=kind.events {
        if kind.is_damaged && dice.below(kind.events / 20 + 2) == 0 {
            log.push_str(dice.of(&["damaged\n", "\n", "{\"name\":\n"]));
        }
        let line = entry(dice, seq, kind);
        match dice.below(50) {
            0 if kind.is_odd => log.push_str(&line.replace(&format!("\"seq\":{seq},"), "")),
            1 if kind.is_odd => log.push_str(&line.replace(&format!("\"seq\":{seq},"), &format!("\"seq\":{},", dice.below(60)))),
            2 if kind.is_damaged => log.push_str(&line.replace('\n', "\r\n")),
            _ => log.push_str(&line),
        }
    }
    match dice.below(4) {
        0 if kind.is_damaged => format!("\u{feff}{}", log.trim_end()),
        _ => log,
    }
}

fn typed(dice: &mut Dice, events: u64) -> Typed {
    let mut typed = Typed::default();
    let some = |text: &str| Some(text.to_owned());
    for _ in 0..=dice.below(3) {
        match dice.below(9) {
            0 | 1 => {
                let glob = ["note.*", "rare.made", "wide.n7*", "*", "no.such", "tide.?igh", "wide.n42", "a name", "lineage.*"];
                typed.name.push(dice.of(&glob).to_owned());
            }
            2 => typed.by = some(dice.of(&["ada", "", "bob", "nobody", "mind 7", "a é"])),
            3 => typed.via = some(dice.of(&["cli", "http", "http:[::1]", "learn", "learn:tides", "telnet", "learn:7", "none"])),
            4 => typed.since = some(dice.of(&["2026-01-05", "100d", "2026-03-01T12:00:00+05:00", "2027-01-01", "1900-01-01"])),
            5 => typed.until = some(dice.of(&["2026-01-05", "100d", "2026-03-01T12:00:00+05:00", "1900-01-01", "1000-01-01"])),
            6 => typed.after = Some(dice.below(events + 3).to_string()),
            7 => typed.grep = some(dice.of(&["tea", "salt", "{}", "{", "null", "not there"])),
            _ => {}
        }
    }
    typed
}

fn query(typed: &Typed) -> Query {
    typed.query(NOW.parse().unwrap()).unwrap()
}

/// A home with this log and a key, and one without.
fn homes(log: &str) -> [Home; 2] {
    let [indexed, plain] = [Home::with_log(log), Home::with_log(log)];
    fs::create_dir(indexed.join(".self")).unwrap();
    indexed.write_private(".secret", KEY);
    [indexed, plain]
}

/// The log with its rows, if there is a key.
fn opened(home: &Home) -> Log {
    let path = |name: &str| home.join(name);
    let places = Places { log: path("events.jsonl"), lock: path(".self/lock"), torn: path(".self/torn") };
    let secret = home.join(".secret").exists().then(|| Secret::new([7; 32]));
    let (mut state, mut position) = (State::new(secret.clone()), Position::default());
    Index::of(&places, secret).open(&places, &mut state, &mut position, &mut |_, _| {}).unwrap().unwrap()
}

fn kernel(home: &Home) -> Kernel {
    let reach = |_: &Path, _, _: Option<&Path>| Reach { level: Level::Full, why: String::new(), holds_signals: true };
    let world = World {
        now: || NOW.parse().unwrap(),
        random: |bytes| {
            bytes.fill(1);
            Ok(())
        },
        disk: Disk::real(),
        reach,
        tell: |_| {},
        offered: |_| Vec::new(),
    };
    let caller = Caller {
        speaker: None,
        mind: None,
        folder: home.path().to_owned(),
        path: "/usr/bin:/bin".into(),
        scratch: std::env::temp_dir(),
        executable: env!("CARGO_BIN_EXE_self").into(),
        script_seconds: 10,
        sandbox: Sandbox::Auto,
        user: "/home/of/ada".into(),
        state: None,
    };
    Kernel::new(Place::at(home.path().to_owned()), caller, world)
}

/// What `self log` shows, and what it says on stderr.
fn shown(kernel: &Kernel, query: &Query, span: Span) -> (String, Vec<String>) {
    let mut out = Vec::new();
    let words = kernel.browse(query, span, &Shape::Stored { terminal: false }, &mut out, &|| true).unwrap();
    (String::from_utf8(out).unwrap(), words)
}

/// All that is sought, page by page.
fn sought(log: &Log, query: &Query, dice: &mut Dice) -> Vec<String> {
    let (mut before, mut found) = (None, Vec::new());
    loop {
        let most = usize::try_from(1 + dice.below(40)).unwrap();
        let bytes_max = [u64::MAX, 1 + dice.below(20_000)][usize::try_from(dice.below(2)).unwrap()];
        let page = log.sought(Seek { query, before, most, bytes_max }).unwrap();
        assert!(page.events.len() <= most);
        found.extend(page.events.iter().map(|event| format!("{event:?}")));
        assert!(page.next.is_none_or(|next| before.is_none_or(|before| next < before)), "a page that ends where it began");
        before = page.next;
        if before.is_none() {
            return found;
        }
    }
}

fn span(dice: &mut Dice, events: u64) -> Span {
    let newest = [None, Some(dice.below(9)), Some(dice.below(events + 2))][usize::try_from(dice.below(3)).unwrap()];
    Span { newest, reverse: dice.below(2) == 0 }
}

const KINDS: [Kind; 6] = [
    Kind { events: 60, is_odd: false, is_damaged: false, is_wide: false },
    Kind { events: 60, is_odd: true, is_damaged: true, is_wide: false },
    Kind { events: 900, is_odd: false, is_damaged: true, is_wide: false },
    Kind { events: 4_500, is_odd: false, is_damaged: false, is_wide: false },
    Kind { events: 5_000, is_odd: false, is_damaged: false, is_wide: true },
    Kind { events: 400, is_odd: true, is_damaged: false, is_wide: true },
];

#[test]
fn what_is_shown_and_sought_by_rows_is_what_a_whole_reading_shows() {
    for (seed, kind) in (1..).zip(KINDS) {
        let mut dice = Dice(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
        let [indexed, plain] = homes(&log(&mut dice, kind));
        let (by_rows, by_lines) = (opened(&indexed), opened(&plain));
        assert_eq!((by_rows.is_regular(), by_lines.is_regular()), (!kind.is_odd, false));
        let kernels = [kernel(&indexed), kernel(&plain)];
        for round in 0..if kind.events < 2_000 { 40 } else { 15 } {
            let typed = typed(&mut dice, kind.events);
            let (query, span, seed_of_pages) = (query(&typed), span(&mut dice, kind.events), dice.below(u64::MAX) | 1);
            let what = format!("seed {seed}, round {round}, {typed:?}, {span:?}");
            let [one, two] = kernels.each_ref().map(|kernel| shown(kernel, &query, span));
            assert_eq!(one, two, "{what}");
            if kind.events < 2_000 || round < 4 {
                let [one, two] = [&by_rows, &by_lines].map(|log| sought(log, &query, &mut Dice(seed_of_pages)));
                assert_eq!(one, two, "{what}");
            }
        }
        assert!(!by_rows.is_misread());
    }
}

#[test]
fn the_first_event_behind_a_byte_order_mark_is_among_the_newest() {
    let log: String = (1..=3).map(|seq| line(seq, "pipe", "note.taken", "{}")).collect();
    let [indexed, plain] = homes(&format!("\u{feff}{log}"));
    let kernels = [kernel(&indexed), kernel(&plain)];
    let query = query(&Typed { since: Some("1900-01-01".to_owned()), ..Typed::default() });
    for newest in [2, 3, 9] {
        let [one, two] = kernels.each_ref().map(|kernel| shown(kernel, &query, Span { newest: Some(newest), reverse: false }));
        assert_eq!(one, two, "the newest {newest}");
    }
}

type Deed = fn(&fs::File, u64);

/// What may befall the rows: so many of 16 bytes each.
const DEEDS: [(&str, Deed); 10] = [
    ("zeroes in front", |rows, _| rows.write_all_at(&[0; 48], 0).unwrap()),
    ("zeroes in the middle", |rows, count| rows.write_all_at(&[0; 48], count / 2 * 16).unwrap()),
    ("zeroes near the end", |rows, count| rows.write_all_at(&[0; 48], (count - 5) * 16).unwrap()),
    ("another place in front", |rows, _| flip(rows, 0, 0)),
    ("another name in the middle", |rows, count| flip(rows, count / 2, 6)),
    ("another length at the end", |rows, count| flip(rows, count - 1, 8)),
    ("another row before it", |rows, count| flip(rows, count * 3 / 4, 12)),
    ("neighbours swapped", |rows, count| swap(rows, count / 2, count / 2 + 1)),
    ("far ones swapped", |rows, count| swap(rows, 1, count - 2)),
    ("all swapped", |rows, count| (0..count / 2).for_each(|at| swap(rows, at, count - 1 - at))),
];

fn flip(rows: &fs::File, at: u64, byte: u64) {
    let mut one = [0];
    rows.read_exact_at(&mut one, at * 16 + byte).unwrap();
    rows.write_all_at(&[one[0] ^ 1], at * 16 + byte).unwrap();
}

fn swap(rows: &fs::File, one: u64, other: u64) {
    let (mut first, mut second) = ([0; 16], [0; 16]);
    rows.read_exact_at(&mut first, one * 16).unwrap();
    rows.read_exact_at(&mut second, other * 16).unwrap();
    rows.write_all_at(&second, one * 16).unwrap();
    rows.write_all_at(&first, other * 16).unwrap();
}

/// Makes the index anew, and does something to its rows.
fn damage_rows(home: &Home, deed: Deed) {
    let _ = fs::remove_dir_all(home.join(".self/index"));
    opened(home);
    let rows = fs::OpenOptions::new().read(true).write(true).open(home.join(".self/index/rows")).unwrap();
    deed(&rows, rows.metadata().unwrap().len() / 16);
}

type Reader = fn(&Log, &Query, &mut Dice) -> Vec<String>;

/// The ways in which a log is read by its rows.
const READERS: [Reader; 7] = [
    |log, query, dice| sought(log, query, dice),
    |log, _, dice| vec![format!("{:?}", log.at(1 + dice.below(160)).unwrap())],
    |log, _, dice| vec![format!("{:?}", log.behind(dice.below(165)).unwrap())],
    |log, _, dice| vec![format!("{:?}", log.last_of(dice.of(&NAMES), 3).unwrap())],
    |log, _, dice| {
        let mut named = Vec::new();
        let names = [dice.of(&NAMES), dice.of(&NAMES)];
        log.named(&names, |event| named.push(format!("{event:?}"))).unwrap();
        named
    },
    |log, _, dice| fed(log, dice, None),
    |log, _, dice| {
        let last = 1 + dice.below(20);
        fed(log, dice, Some(last))
    },
];

fn fed(log: &Log, dice: &mut Dice, last: Option<u64>) -> Vec<String> {
    let names = (0..dice.below(3)).map(|_| dice.of(&NAMES).to_owned()).collect();
    let mut feed = log.feed(Wanted { names, last }).unwrap();
    let mut pieces = Vec::new();
    while let Some(piece) = feed.next_piece().unwrap() {
        pieces.extend(match piece {
            Piece::Bytes(bytes) => Some(String::from_utf8(bytes.into_inner()).unwrap()),
            Piece::Stretch(..) => None,
        });
    }
    vec![pieces.concat()]
}

#[test]
fn rows_that_do_not_fit_the_log_change_nothing_that_is_read() {
    let kind = Kind { events: 160, is_odd: false, is_damaged: true, is_wide: false };
    for (at, (what, deed)) in (1..).zip(DEEDS) {
        let mut dice = Dice(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(at));
        let [indexed, plain] = homes(&log(&mut dice, kind));
        let by_lines = opened(&plain);
        let mut noticed = 0;
        for round in 1..=4 {
            let typed = typed(&mut dice, kind.events);
            let (query, span) = (query(&typed), span(&mut dice, kind.events));
            let told = format!("{what}, round {round}, {typed:?}, {span:?}");
            for (reader, read) in READERS.iter().enumerate() {
                damage_rows(&indexed, deed);
                let by_rows = opened(&indexed);
                let [one, two] = [&by_rows, &by_lines].map(|log| read(log, &query, &mut Dice(round)));
                assert_eq!(one, two, "{told}, reader {reader}");
                let again = read(&by_rows, &query, &mut Dice(round));
                assert_eq!(again, two, "{told}, reader {reader}, again");
                noticed += u64::from(by_rows.is_misread());
                assert_eq!(indexed.join(".self/index/slots").exists(), !by_rows.is_misread(), "{told}");
            }
            damage_rows(&indexed, deed);
            let [one, two] = [&indexed, &plain].map(|home| shown(&kernel(home), &query, span));
            assert_eq!(one, two, "{told}");
        }
        assert!(noticed > 0, "{what}");
    }
}

/// A home with a page and a command over its notes, in whose log a CR stands, so that scripts are fed by the rows.
fn noted() -> Home {
    let home = Home::made();
    let note = |n: u64| format!("{{\"name\":\"note.taken\",\"payload\":{{\"n\":{n}}}}}\n");
    home.hear(&(3..32).map(note).collect::<String>());
    home.append(line(32, "cli", "note.taken", r#"{"n":32}"#).replace('\n', "\r\n"));
    let declared = [
        r#"{"name":"projector.declared","payload":{"name":"notes","description":"d","consumes":["note.taken"]}}"#,
        r#"{"name":"command.declared","payload":{"name":"count","event":{"name":"count.made","fields":{"notes":"integer"}}}}"#,
    ];
    declared.iter().for_each(|declared| home.hear(declared));
    home.hear("```self projector/notes\n#!/bin/sh\nprintf '<p>%s</p>\\n' \"$(grep -c note.taken)\"\n```");
    let script = r#"printf '{"name":"count.made","payload":{"notes":%s}}\n' "$(grep -c '"name":"note.taken"')""#;
    home.hear(&format!("```self command/count\n#!/bin/sh\n{script}\n```"));
    home
}

fn copy(of: &Home) -> Home {
    let copy = Home::new();
    for file in of.files() {
        fs::create_dir_all(copy.join(&file).parent().unwrap()).unwrap();
        fs::copy(of.join(&file), copy.join(&file)).unwrap();
    }
    copy
}

#[test]
fn no_verb_fails_or_errs_over_rows_that_do_not_fit_the_log() {
    type Verb = fn(&Home, &Home);
    let verbs: [(&str, Verb); 9] = [
        ("log", |home, whole| {
            let expect = whole.run(["log", "--name", "note.*", "-n", "25"]).stdout_any().check().text();
            home.run(["log", "--name", "note.*", "-n", "25"]).stdout(expect).check();
        }),
        ("log of one", |home, whole| {
            for seq in ["3", "17", "31"] {
                let expect = whole.run(["log", seq]).stdout_any().check().text();
                home.run(["log", seq]).stdout(expect).check();
            }
        }),
        ("show", |home, _| {
            fs::remove_file(home.join("site/notes.html")).unwrap();
            home.run(["show", "notes"]).stdout("<p>30</p>\n").check();
        }),
        ("run", |home, _| {
            home.run(["run", "count"]).stdout_any().check();
            assert_eq!(home.payloads("count.made"), [r#"{"notes":30}"#]);
        }),
        ("hear", |home, _| {
            home.hear(r#"{"name":"note.taken","payload":{}}"#);
            assert_eq!(fs::read_to_string(home.join("site/notes.html")).unwrap(), "<p>31</p>\n");
        }),
        ("ask", |home, _| drop(home.run(["ask", "what now?"]).stdout_has(&["what now?"]).stderr_any().check())),
        ("give", |home, _| {
            home.run(["give", "note.", "given"]).stderr_has(&["gave events: 30,"]).check();
            assert_eq!(fs::read_to_string(home.join("given/record.jsonl")).unwrap().lines().count(), 30);
        }),
        ("learn", |home, whole| {
            let giver = copy(whole);
            giver.run(["give", "note.", "given"]).stderr_any().check();
            let account = giver.join("given");
            home.run(["learn".as_ref(), account.as_os_str()]).stdout_any().stderr_any().check();
            assert_eq!(home.count("note.taken"), 30, "what the log holds is not deposited again");
        }),
        ("serve", |home, _| {
            let server = home.serve();
            assert!(server.get("/notes").text().contains("<p>30</p>"));
            server.form("/run/count", "a=1");
            assert_eq!(home.payloads("count.made"), [r#"{"notes":30}"#]);
        }),
    ];
    let whole = noted();
    for (_, does) in verbs {
        for (_, deed) in DEEDS.into_iter().filter(|(what, _)| !what.contains("another")) {
            let home = copy(&whole);
            let rows = fs::OpenOptions::new().read(true).write(true).open(home.join(".self/index/rows")).unwrap();
            deed(&rows, rows.metadata().unwrap().len() / 16);
            does(&home, &whole);
            home.run(["verify"]).stdout_any().stderr_any().check();
        }
    }
}
