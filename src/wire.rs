//! The wire: what a mind sends back, as ordered items.
//!
//! One pure function from bytes to prose, drafts, scripts and near misses. It never fails, whatever the bytes, and takes
//! near-linear time. Whether a name is a mind's to send is not judged here. The invariant: each line of a body is in an item, or
//! it is reasoning, a mark of a fence whose lines were all taken, or a blank line beside a taken one.

use std::borrow::Cow;

use crate::ansi;
use crate::element::{Judged, Mending, Verdict};
pub use crate::item::{Authored, Item, Like, NearMiss, Note, Quotes, Sent};
use crate::piece::{Inside, Kind, Piece, Pieces, QUOTE};

/// The most dropped keys that a note names.
pub const DROPPED_KEYS_MAX: usize = 5;

/// How much of a body shows whether it is UTF-16, in bytes.
pub const ENCODING_BYTES: usize = 1024;

const BOM: char = '\u{feff}';

/// How many near misses of a body are told one by one.
pub const MISSES_MAX: usize = 4096;

/// A body as it was read.
#[derive(Debug, Default, PartialEq)]
pub struct Reading {
    /// What it is made of, in order.
    pub items: Vec<Item>,
    /// What was mended or left out.
    pub notes: Vec<Note>,
    /// How many near misses beyond [`MISSES_MAX`] there were; their text is prose.
    pub more_misses: usize,
}

impl Reading {
    /// Whether it holds event material: a draft or a script.
    #[must_use]
    pub fn has_material(&self) -> bool {
        self.items.iter().any(is_material)
    }

    /// Whether it holds nothing but blank lines.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.items.iter().all(is_blank)
    }

    /// The prose and the near misses, in order.
    #[must_use]
    pub fn prose(&self) -> String {
        let text = |item| match item {
            &Item::Prose(ref text) | &Item::NearMiss(NearMiss { ref text, .. }) => text.as_str(),
            Item::Draft(_) | Item::Script(_) => "",
        };
        self.items.iter().map(text).collect()
    }
}

/// Reads a body.
#[must_use]
pub fn read(body: &[u8]) -> Reading {
    let (text, mended) = decode(body);
    let text = text.strip_prefix(BOM).unwrap_or(&text);
    let mut sink = Sink::default();
    let mut swallowed = None;
    let mut pieces = Pieces::of(text);
    loop {
        let start = pieces.at();
        let Some(piece) = pieces.next() else { break };
        match piece.kind {
            Kind::Reasoning { closed: true } => sink.end_line(),
            Kind::Reasoning { closed: false } => {
                let line = 1 + memchr::memchr_iter(b'\n', &text.as_bytes()[..start]).count();
                swallowed = Some(Note::Swallowed { line, bytes: piece.text.len() });
            }
            Kind::Unopened => sink = Sink::default(),
            Kind::Fence(inside) => sink.fence(*inside),
            Kind::Prose | Kind::Values(_) | Kind::Missed(..) | Kind::Script(_) => sink.piece(piece),
        }
    }
    let mut notes: Vec<Note> = (mended > 0).then_some(Note::Utf8(mended)).into_iter().collect();
    notes.extend((sink.surrogates > 0).then_some(Note::Surrogates(sink.surrogates)));
    notes.extend((!sink.dropped.is_empty()).then(|| Note::Dropped { keys: std::mem::take(&mut sink.dropped), more: sink.more }));
    notes.extend(swallowed);
    let more_misses = sink.more_misses;
    Reading { items: sink.finish(), notes, more_misses }
}

/// Whether a body is UTF-16: by its byte order mark, or because every other byte at its start is NUL.
#[must_use]
pub fn is_utf16(body: &[u8]) -> bool {
    if body.starts_with(&[0xFF, 0xFE]) || body.starts_with(&[0xFE, 0xFF]) {
        return true;
    }
    let pairs = || body[..body.len().min(ENCODING_BYTES)].chunks_exact(2);
    let all = |nul: usize, letter: usize| pairs().all(|pair| pair[nul] == 0 && pair[letter] != 0);
    body.len() >= 4 && (all(0, 1) || all(1, 0))
}

/// Puts `| ` in front of each line of a text that the wire would take or record as a near miss, and of each line with a tag
/// that would hide others as reasoning. A reading of the result finds nothing but prose. A BOM in front goes.
#[must_use]
pub fn quote_material(text: &str) -> String {
    let mut quoted = text.trim_start_matches(BOM).to_owned();
    loop {
        let mut next = String::with_capacity(quoted.len());
        if !quote(&mut next, Pieces::of(&quoted)) {
            return quoted;
        }
        quoted = next;
    }
}

/// Copies pieces with their material quoted; says whether there was any.
fn quote(out: &mut String, mut pieces: Pieces<'_>) -> bool {
    let mut found = false;
    loop {
        let start = pieces.at();
        let Some(piece) = pieces.next() else { return found };
        let lines = match piece.kind {
            Kind::Prose => {
                out.push_str(piece.text);
                continue;
            }
            Kind::Fence(inside) => {
                out.push_str(inside.opening);
                found |= quote(out, inside.pieces);
                out.push_str(inside.closing);
                continue;
            }
            Kind::Values(_) | Kind::Missed(..) | Kind::Script(_) => piece.text,
            Kind::Reasoning { .. } | Kind::Unopened => {
                // A block may start behind words of its line: the mark belongs in front of them.
                let words = out.split_off(out.rfind('\n').map_or(0, |newline| newline + 1));
                out.extend([QUOTE, &words, pieces.skip_line(start)]);
                found = true;
                continue;
            }
        };
        for line in lines.split_inclusive('\n') {
            out.push_str(QUOTE);
            out.push_str(line);
        }
        found = true;
    }
}

/// The body as text, and at how many places it was no UTF-8.
fn decode(body: &[u8]) -> (Cow<'_, str>, usize) {
    if let Ok(text) = std::str::from_utf8(body) {
        return (Cow::Borrowed(text), 0);
    }
    let (mut text, mut mended) = (String::with_capacity(body.len()), 0);
    for chunk in body.utf8_chunks() {
        text.push_str(chunk.valid());
        if !chunk.invalid().is_empty() {
            text.push(char::REPLACEMENT_CHARACTER);
            mended += 1;
        }
    }
    (Cow::Owned(text), mended)
}

fn is_material(item: &Item) -> bool {
    match item {
        Item::Draft(_) | Item::Script(_) => true,
        Item::Prose(_) | Item::NearMiss(_) => false,
    }
}

fn is_blank(item: &Item) -> bool {
    match item {
        Item::Prose(text) => ansi::trim_start(text).is_empty(),
        Item::Draft(_) | Item::Script(_) | Item::NearMiss(_) => false,
    }
}

/// The items so far.
#[derive(Default)]
struct Sink {
    items: Vec<Item>,
    /// Prose that is not yet an item.
    prose: String,
    /// Where the blank lines start that the prose ends with.
    blanks: usize,
    /// Whether nothing but blank lines came since something was taken.
    taken: bool,
    surrogates: usize,
    dropped: Vec<String>,
    more: bool,
    misses: usize,
    more_misses: usize,
}

impl Sink {
    /// Adds a near miss; beyond [`MISSES_MAX`] only its text and that there was one more.
    fn miss(&mut self, of: Like, reason: String, text: String) {
        if self.misses == MISSES_MAX {
            self.more_misses += 1;
            return self.prose(&text);
        }
        self.misses += 1;
        self.item(Item::NearMiss(NearMiss { of, reason, text }));
    }

    /// Adds whole lines of prose; a blank line behind a taken one goes with it.
    fn prose(&mut self, text: &str) {
        let blank = ansi::trim_start(text).is_empty();
        if blank && self.taken {
            return;
        }
        self.prose.push_str(text);
        if !blank {
            self.blanks = self.prose.len();
            self.taken = false;
        }
    }

    /// Ends a line whose rest was reasoning.
    fn end_line(&mut self) {
        if !self.prose.is_empty() && !self.prose.ends_with('\n') {
            self.prose.push('\n');
            self.blanks = self.prose.len();
        }
    }

    /// Adds an item; blank lines before material go with it.
    fn item(&mut self, item: Item) {
        self.taken = is_material(&item);
        if self.taken {
            self.prose.truncate(self.blanks);
        }
        self.flush();
        self.items.push(item);
    }

    fn flush(&mut self) {
        if !self.prose.is_empty() {
            self.items.push(Item::Prose(std::mem::take(&mut self.prose)));
        }
        self.blanks = 0;
    }

    fn finish(mut self) -> Vec<Item> {
        self.flush();
        self.items
    }

    /// Adds a piece that is no reasoning and no fence of events.
    fn piece(&mut self, piece: Piece<'_>) {
        match piece.kind {
            Kind::Prose => self.prose(piece.text),
            Kind::Values(judged) => judged.into_iter().for_each(|judged| self.judged(piece.text, judged)),
            Kind::Missed(of, reason) => self.miss(of, reason, piece.text.to_owned()),
            Kind::Script(script) => self.item(Item::Script(script)),
            Kind::Fence(_) | Kind::Reasoning { .. } | Kind::Unopened => {}
        }
    }

    fn judged(&mut self, whole: &str, judged: Judged) {
        let text = || judged.text.unwrap_or_else(|| whole.to_owned());
        match judged.verdict {
            Verdict::Draft { draft, record, mending } => {
                self.note(mending);
                let quotes = record.map(|(seq, id)| Quotes { seq, id, text: text() });
                self.item(Item::Draft(Sent { draft, quotes }));
            }
            Verdict::Script(script, mending) => {
                self.note(mending);
                self.item(Item::Script(script));
            }
            Verdict::Miss(of, reason) => self.miss(of, reason, text()),
            Verdict::Prose => self.prose(&text()),
        }
    }

    fn note(&mut self, mending: Mending) {
        self.surrogates += mending.surrogates;
        for key in mending.dropped {
            if self.dropped.contains(&key) {
                continue;
            }
            if self.dropped.len() < DROPPED_KEYS_MAX {
                self.dropped.push(key);
            } else {
                self.more = true;
            }
        }
    }

    /// Adds a fence that is read for events. Its marks vanish if all inside was taken; else they stay around what was not.
    fn fence(&mut self, fence: Inside<'_>) {
        let mut inside = Sink { misses: self.misses, ..Sink::default() };
        fence.pieces.for_each(|piece| inside.piece(piece));
        self.note(Mending { dropped: std::mem::take(&mut inside.dropped), surrogates: inside.surrogates });
        self.more |= inside.more;
        (self.misses, self.more_misses) = (inside.misses, self.more_misses + inside.more_misses);
        let items = inside.finish();
        let vanishes = items.iter().any(is_material) && items.iter().all(|item| is_material(item) || is_blank(item));
        if !vanishes {
            self.prose(fence.opening);
        }
        for item in items {
            match item {
                Item::Prose(_) if vanishes => {}
                Item::Prose(text) => self.prose(&text),
                Item::Draft(_) | Item::Script(_) | Item::NearMiss(_) => self.item(item),
            }
        }
        if !vanishes && !fence.closing.is_empty() {
            self.prose(fence.closing);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_misses_beyond_the_limit_are_counted_and_stay_prose() {
        let line = "{\"name\":\n";
        for text in [line.repeat(MISSES_MAX + 7), format!("```json\n{}```\n", line.repeat(MISSES_MAX + 7))] {
            let reading = read(text.as_bytes());
            let told = reading.items.iter().filter(|item| matches!(item, Item::NearMiss(_))).count();
            assert_eq!((told, reading.more_misses), (MISSES_MAX, 7));
            assert_eq!(reading.prose(), text);
            assert!(!reading.has_material());
        }
    }

    const NOTE: &str = r#"{"name":"note.added","payload":{"text":"x"}}"#;
    const TOOK_NOTE: &str = r#"took note.added {"text":"x"}"#;

    /// A reading, told in one line for each item and note.
    fn told(reading: &Reading) -> Vec<String> {
        let like = |of: &Like| match of {
            Like::Event { name } => format!("event [{name}]"),
            Like::Script { kind, name } => format!("script [{kind}/{name}]"),
        };
        let item = |item: &Item| match item {
            Item::Prose(text) => format!("said {text}"),
            Item::Draft(Sent { draft, quotes }) => {
                let quotes =
                    quotes.as_ref().map_or_else(String::new, |quotes| format!(" = {} {} {}", quotes.seq, quotes.id, quotes.text));
                format!("took {} {}{quotes}", draft.name.as_str(), draft.payload.get())
            }
            Item::Script(Authored { kind, name, script }) => format!("script [{kind}/{name}] {script}"),
            Item::NearMiss(NearMiss { of, reason, text }) => format!("missed {}: {reason}: {text}", like(of)),
        };
        reading.items.iter().map(item).chain(reading.notes.iter().map(|note| format!("note {note}"))).collect()
    }

    #[track_caller]
    fn check(input: impl AsRef<[u8]>, expect: &[&str]) {
        assert_eq!(told(&read(input.as_ref())), expect);
    }

    #[test]
    fn prose_stays_as_it_came() {
        check("", &[]);
        check("a\r\n\n  b", &["said a\r\n\n  b"]);
        check("\u{feff}a\n", &["said a\n"]);
        check("\x1b[1mbold\x1b[0m\n", &["said \x1b[1mbold\x1b[0m\n"]);
        check("see note.added in {} and [1]\n", &["said see note.added in {} and [1]\n"]);
        check("{\"a\":1}\n[1,2]\n{\n[\n", &["said {\"a\":1}\n[1,2]\n{\n[\n"]);
    }

    #[test]
    fn a_pasted_package_line_is_prose() {
        for line in [
            r#"{"name":"left-pad","version":"1.0.0"}"#,
            r#"{"id":7,"title":"x"}"#,
            r#"{"version":"1","name":"a.b"}"#,
            r#"{"type":"x","payload":{}}"#,
            "{\n  \"name\": \"left-pad\",\n\n  \"version\": \"1.0.0\"\n}",
        ] {
            check(line, &[&format!("said {line}")]);
        }
    }

    #[test]
    fn a_line_that_is_an_event_is_taken() {
        check(NOTE, &[TOOK_NOTE]);
        check(r#"{"name":"a.b"}"#, &["took a.b {}"]);
        check(r#"{"via":"kernel","name":"a.b","by":"me","occurred_at":"t"}"#, &["took a.b {}"]);
        check(r#"{"payload":null,"name":"a.b"}"#, &["took a.b null"]);
        check(r#"{"n\u0061me":"a.b","payload":[1.10, 1e400]}"#, &["took a.b [1.10,1e400]"]);
        check(r#"{"name":"a.b","payload":{"t":"`x` ``` y"}}"#, &[r#"took a.b {"t":"`x` ``` y"}"#]);
        check(r#"{"name":"Script.Compiled","payload":{}}"#, &["took Script.Compiled {}"]);
    }

    #[test]
    fn decoration_around_a_line_does_not_matter() {
        for line in [
            format!("\u{feff}{NOTE}\n"),
            format!("{NOTE}\r\n"),
            format!(" \t{NOTE} \n"),
            format!("`{NOTE}`\n"),
            format!("\x1b[32m{NOTE}\x1b[0m\n"),
            format!("\x1b]0;working\x07{NOTE}\n"),
            format!("\x1b]8;;x\x1b\\`{NOTE}`\x1b]8;;\x1b\\\n"),
            NOTE.replace("note.added", "note\x1b[1m.added"),
        ] {
            check(&line, &[TOOK_NOTE]);
        }
        check(format!("``{NOTE}``"), &[&format!("said ``{NOTE}``")]);
        check(format!("- {NOTE}"), &[&format!("said - {NOTE}")]);
    }

    #[test]
    fn six_events_between_two_sentences() {
        let body = format!("First.\n\n{}\nLast.\n", format!("{NOTE}\n").repeat(6));
        let mut expect = vec!["said First.\n"];
        expect.extend([TOOK_NOTE; 6]);
        expect.push("said Last.\n");
        check(body, &expect);
    }

    #[test]
    fn blank_lines_go_with_the_taken_line_they_touch() {
        check(format!("a\n\nb\n \n\n{NOTE}\n\n\r\n{NOTE}\n\nc\n\nd"), &["said a\n\nb\n", TOOK_NOTE, TOOK_NOTE, "said c\n\nd"]);
        check(format!("\n{NOTE}\n\n"), &[TOOK_NOTE]);
        check(
            "a\n\n{name:1}\n\nb",
            &["said a\n\n", "missed event []: no valid JSON: a key without quotes: {name:1}\n", "said \nb"],
        );
    }

    #[test]
    fn an_event_may_be_pretty_printed() {
        let pretty = "{\n  \"name\": \"note.added\",\n  \"payload\": {\n    \"text\": \"x\"\n  }\n}\n";
        check(format!("Here:\n\n{pretty}\nDone.\n"), &["said Here:\n", TOOK_NOTE, "said Done.\n"]);
        check(pretty.replace('\n', "\r\n"), &[TOOK_NOTE]);
        check(pretty.replace("  ", ""), &[TOOK_NOTE]);
        check(pretty.replace('{', "\x1b[1;39m{\x1b[0m"), &[TOOK_NOTE]);
        check(format!("<think>[\"</think>{pretty}<think>\n</think>{pretty}"), &[TOOK_NOTE, TOOK_NOTE]);
        check(format!("```json\n{pretty}```\n"), &[TOOK_NOTE]);
        check(format!("  ```json\n  {}```\n", pretty.replace('\n', "\n  ")), &[TOOK_NOTE]);
    }

    #[test]
    fn a_value_over_several_lines_that_is_no_event_is_prose_as_a_whole() {
        let value = format!("{{\n\"log\": [\n{NOTE}\n]\n}}\n");
        check(format!("{value}{NOTE}"), &[&format!("said {value}"), TOOK_NOTE]);
    }

    #[test]
    fn an_array_holds_events() {
        let other = r#"{"name":"left-pad"}"#;
        check(format!("[{NOTE}, {NOTE}]"), &[TOOK_NOTE, TOOK_NOTE]);
        check(format!("[\n  {NOTE},\n  {other}\n]\n"), &[TOOK_NOTE, &format!("said {other}\n")]);
        check(
            format!("[{other}, {{\"name\":\"a\",\"payload\":1}}]"),
            &[&format!("said [{other}, {{\"name\":\"a\",\"payload\":1}}]")],
        );
        check(
            format!("[{NOTE},{{\"name\":\"a\",\"payload\":1}},7]"),
            &[
                TOOK_NOTE,
                "missed event [a]: `a` is no event name: two or more dot-separated segments of A-Z a-z 0-9 _ -: \
             {\"name\":\"a\",\"payload\":1}\n",
                "said 7\n",
            ],
        );
        check(r#"[{"name":"index.html","size":1}]"#, &[r#"said [{"name":"index.html","size":1}]"#]);
        check(
            r#"[{"name":"a.b","Payload":1}]"#,
            &["missed event [a.b]: key `Payload` is spelled `payload`: {\"name\":\"a.b\",\"Payload\":1}\n"],
        );
    }

    #[test]
    fn fences_of_events_vanish_and_others_stay() {
        for (open, close) in [("```json", "```"), ("~~~jsonl", "~~~~"), ("````", "````"), ("``` NDJSON x", "   ```  ")] {
            check(format!("a\n\n{open}\n\n{NOTE}\n\n{NOTE}\n{close}\n\nb"), &["said a\n", TOOK_NOTE, TOOK_NOTE, "said b"]);
        }
        let bash = format!("```bash\n{NOTE}\n<think>\n```\n");
        check(format!("{bash}```json\n{NOTE}\n```\n"), &[&format!("said {bash}"), TOOK_NOTE]);
        check(format!("{bash}```json\n{NOTE}\n"), &[&format!("said {bash}"), TOOK_NOTE]);
        check("```json\n\n{\"a\":1}\n\n```\n\n", &["said ```json\n\n{\"a\":1}\n\n```\n\n"]);
        check("```js\nx", &["said ```js\nx"]);
    }

    #[test]
    fn a_fence_that_holds_more_than_events_keeps_its_marks() {
        check(format!("```\nlog:\n\n{NOTE}\n\nend\n```\n"), &["said ```\nlog:\n", TOOK_NOTE, "said end\n```\n"]);
        check(format!("```\n| {NOTE}\n<think>\n```\n"), &[&format!("said ```\n| {NOTE}\n<think>\n```\n")]);
        check(
            format!("```json\n{NOTE}\n{{name:1}}\n```"),
            &["said ```json\n", TOOK_NOTE, "missed event []: no valid JSON: a key without quotes: {name:1}\n", "said ```"],
        );
    }

    #[test]
    fn a_script_comes_in_its_fence() {
        let script = "#!/bin/sh\n\n| x\n<think>\n{\"name\":\"a.b\"}\n  ~~~\n";
        check(
            format!("So:\n\n```self command/note\n{script}```\n\nDone"),
            &["said So:\n", &format!("script [command/note] {script}"), "said Done"],
        );
        check("~~~self projector/ \r\nx\r\n~~~", &["script [projector/] x\r\n"]);
        check("```self command/x\n```\n", &["script [command/x] "]);
        check(
            format!("```self command/x\n{NOTE}\n"),
            &[&format!("missed script [command/x]: the fence of the script is never closed: ```self command/x\n{NOTE}\n")],
        );
        check(
            "```self tool/x\na\n```\nb",
            &[
                "missed script [tool/x]: a script's fence is marked `self command/<name>` or `self projector/<name>`, \
             not `self tool/x`: ```self tool/x\na\n```\n",
                "said b",
            ],
        );
    }

    #[test]
    fn a_script_comes_as_an_event() {
        check(
            r#"{"name":" Script.Authored","payload":{"type":" command ","name":" x ","script":"a\nb ","why":1}}"#,
            &["script [command/x] a\nb "],
        );
        check(r#"[{"name":"script.authored","payload":{"script":""}}]"#, &["script [/] "]);
        for (payload, reason) in [
            ("", "`script.authored` needs a payload with the strings `type`, `name` and `script`"),
            (r#","payload":"x""#, "`script.authored` needs an object for a payload"),
            (r#","payload":{}"#, "`script.authored` needs a string `script` in its payload"),
            (r#","payload":{"script":["a"]}"#, "`script.authored` needs a string `script` in its payload"),
            (r#","payload":{"type":1,"script":""}"#, "`script.authored` needs a string for a `type`"),
            (r#","payload":{"script":"a","script":"b"}"#, "`script.authored` needs one `script` in its payload, not two"),
            (r#","payload":{},"Name":"x""#, "key `Name` is spelled `name`"),
        ] {
            let line = format!(r#"{{"name":"script.authored"{payload}}}"#);
            check(&line, &[&format!("missed script [/]: {reason}: {line}")]);
        }
        check(
            "{\"name\":\"script.authored\",\"payload\":{\"type\":\"command\",\"name\":\"x\",\"script\":\"a\n\n}b\"}}\nend",
            &[
                "missed script [command/x]: no valid JSON: a line end inside a string, where \\n belongs: \
             {\"name\":\"script.authored\",\"payload\":{\"type\":\"command\",\"name\":\"x\",\"script\":\"a\n\n}b\"}}\n",
                "said end",
            ],
        );
    }

    #[track_caller]
    fn misses(line: &str, name: &str, reason: &str) {
        check(format!("{line}\nend"), &[&format!("missed event [{name}]: {reason}: {line}\n"), "said end"]);
    }

    #[test]
    fn what_does_not_parse_is_named_and_never_guessed() {
        misses(r#"{"name":"a.b","payload":{"t":1,}}"#, "a.b", "no valid JSON: trailing comma");
        misses("{“name”: “a.b”}", "", "no valid JSON: curly quotes");
        misses("{'name': 'a.b', 'payload': {}}", "", "no valid JSON: single quotes");
        misses(r#"{"name":"a.b","payload":None}"#, "a.b", "no valid JSON: `None` where `null` belongs");
        misses(r#"`{"name":"a.b"} "#, "a.b", "no valid JSON: backticks for quotes");
        misses(r#"  {"Payload":{},}"#, "", "no valid JSON: trailing comma");
        misses(&format!("[{NOTE},]"), "note.added", "no valid JSON: trailing comma");
        misses(&format!("{NOTE} and {NOTE}"), "note.added", "no valid JSON: text behind the value");
        misses("{\n  \"name\": \"a.b\",\n\n  \"payload\": {},\n}", "a.b", "no valid JSON: trailing comma");
        misses("\x1b[1m{\x1b[0mid: 3}", "", "no valid JSON: a key without quotes");
    }

    #[test]
    fn an_event_that_is_cut_off_hides_no_other() {
        let cut = r#"{"name":"a.b","payload":{"t":"x}"#;
        let missed = "missed event [a.b]: no valid JSON: it ends before its last bracket: ";
        let whole = &format!("{missed}{cut}\n");
        check(format!("{cut}\n{NOTE}\n"), &[whole, TOOK_NOTE]);
        check(format!("{cut}\n```json\n{NOTE}\n```"), &[whole, TOOK_NOTE]);
        check(format!("{cut}\n`{NOTE}`"), &[whole, TOOK_NOTE]);
        check(format!("{cut}\n| x\n"), &[whole, "said | x\n"]);
        check(format!("{cut}\n<think>x</think>\n{NOTE}"), &[whole, TOOK_NOTE]);
        let missed = "missed event [a.b]: no valid JSON: a line end inside a string, where \\n belongs: ";
        check(format!("{cut}\nwords\n\n{NOTE}"), &[&format!("{missed}{cut}\nwords\n"), TOOK_NOTE]);
        let missed = "missed event [a.b]: no valid JSON: it ends before its last bracket: ";
        check(cut, &[&format!("{missed}{cut}")]);
    }

    #[test]
    fn envelope_keys_stand_once_and_in_lower_case() {
        misses(r#"{"name":"a.b","payload":{},"name":"a.c"}"#, "a.b", "key `name` stands twice");
        misses(r#"{"payload":{},"name":"a.b","n\u0061me":"a.c"}"#, "a.b", "key `name` stands twice");
        misses(r#"{"name":"a.b","Payload":{}}"#, "a.b", "key `Payload` is spelled `payload`");
        misses(r#"{"x":1,"NAME":"a.b","payload":{}}"#, "a.b", "key `NAME` is spelled `name`");
        misses(r#"{"name":"a.b","payload":{},"seq":1,"Seq":1}"#, "a.b", "key `Seq` is spelled `seq`");
        check(r#"{"title":"x","Id":1}"#, &[r#"said {"title":"x","Id":1}"#]);
    }

    #[test]
    fn a_payload_wants_a_name_and_a_name_its_payload() {
        let grammar = "two or more dot-separated segments of A-Z a-z 0-9 _ -";
        misses(r#"{"name":"note","payload":{}}"#, "note", &format!("`note` is no event name: {grammar}"));
        misses(r#"{"x":1,"payload":1,"name":" a.b"}"#, " a.b", &format!("` a.b` is no event name: {grammar}"));
        misses(r#"{"payload":{}}"#, "", "there is no `name`");
        misses(r#"{"name":7,"payload":{}}"#, "", "`name` is no string that names an event");
        let long = format!("a.{}", "b".repeat(127));
        let reason = format!("`{}…` is no event name: at most 128 bytes", &long[..48]);
        misses(&format!(r#"{{"name":"{long}","payload":{{}}}}"#), &long[..128], &reason);
        let reason = "there is no `payload`; put `text` and all the rest inside one";
        misses(r#"{"name":"a.b","text":"x"}"#, "a.b", reason);
    }

    #[test]
    fn a_passed_limit_is_named() {
        let nested = |depth: usize| format!(r#"{{"name":"a.b","payload":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
        check(nested(128), &[&format!("took a.b {}{}", "[".repeat(128), "]".repeat(128))]);
        misses(&nested(130), "a.b", "the payload is nested 130 deep; the limit is 128");
        misses(&nested(200_000), "a.b", "the payload is nested 200000 deep; the limit is 128");
        misses(&nested(130).replace('[', "[\n"), "a.b", "the payload is nested 130 deep; the limit is 128");
        let long = format!(r#"{{"name":"a.b","payload":"{}"}}"#, "x".repeat(8 << 20));
        misses(&long, "a.b", "the event has 8388613 bytes; the limit of a record is 8388608");
        let lines = format!("{{\"name\":\"a.b\",\n\"payload\":[{}0]}}", "0,\n".repeat(10_000));
        let reading = read(lines.as_bytes());
        let Some(Item::NearMiss(miss)) = reading.items.first() else { panic!("no near miss") };
        assert_eq!(miss.reason, "it does not end within 10000 lines or 8388608 bytes");
        assert_eq!(reading.prose(), lines);
    }

    #[test]
    fn reasoning_is_nothing() {
        check(format!("<think>\nno {NOTE}\n{NOTE}\n</think>\n\nYes.\n{NOTE}"), &["said \nYes.\n", TOOK_NOTE]);
        check(format!(" <THINKING>a</Think>{NOTE}\n<Thinking>b</think> c\n"), &[TOOK_NOTE, "said  c\n"]);
        check("a\n<think>b</think>\nc", &["said a\nc"]);
        check("<think>a</think> <think>b\n\n</think>c", &["said c"]);
        check(format!("a\nHm. <think>b</think> \n{NOTE}\nc"), &["said a\nHm. \n", TOOK_NOTE, "said c"]);
        check("a <think>b</think>\nc <Thinking>d\n</thinking>e", &["said e"]);
        check(r#"{"name":"a.b","payload":"<think>x</think>"}"#, &[r#"took a.b "<think>x</think>""#]);
        check("use <think> with care\n", &["said use <think> with care\n"]);
        check(
            "a\n<think>b\nc",
            &["said a\n", "note a <think> on line 2 is never closed; the 10 bytes from there count for nothing"],
        );
    }

    #[test]
    fn what_stands_before_a_lone_closing_tag_was_reasoning() {
        check(format!("hm\n{NOTE}\n</think>\n\nYes.\n"), &["said \nYes.\n"]);
        check(format!("hm\n{NOTE}\nso be it. </Thinking> \n{NOTE}"), &[TOOK_NOTE]);
        check(format!("hm\n</think>{NOTE}"), &[TOOK_NOTE]);
        check(format!("{}\n</think>a", NOTE.replace("{\"name", "{\"x\":1,\"name")), &["said a"]);
        check("{\"name\": broken\n</think>\na", &["said a"]);
        check("a\nsay </think> at the end\nb", &["said a\nsay </think> at the end\nb"]);
        check("a\n| b </think>\nc", &["said a\n| b </think>\nc"]);
        check("a\n```\n</think>\n```\n", &["said a\n```\n</think>\n```\n"]);
    }

    #[test]
    fn a_quoted_line_is_prose() {
        let quoted = format!("| {NOTE}\n| ```self command/x\n| <think>\n| </think>\n| {{name:\n");
        check(&quoted, &[&format!("said {quoted}")]);
        check(format!("|{NOTE}\n"), &[&format!("said |{NOTE}\n")]);
    }

    #[test]
    fn a_record_of_the_log_is_known_by_its_number_and_id() {
        let record = r#"{"id":"f0","seq":3,"name":"a.b","payload":{}}"#;
        check(record, &[&format!("took a.b {{}} = 3 f0 {record}")]);
        check(format!("[{NOTE},{record}]\n"), &[TOOK_NOTE, &format!("took a.b {{}} = 3 f0 {record}\n")]);
        check(r#"{"id":"f0","name":"a.b"}"#, &["took a.b {}"]);
        check(r#"{"id":7,"seq":3,"name":"a.b"}"#, &["took a.b {}"]);
        check(r#"{"id":"f0","seq":"3","name":"a.b"}"#, &["took a.b {}"]);
    }

    #[test]
    fn what_was_mended_or_left_out_is_noted() {
        check(
            b"a\xff\xfeb\xc3",
            &["said a\u{fffd}\u{fffd}b\u{fffd}", "note the input is no UTF-8 in 3 places; mended with U+FFFD"],
        );
        check(
            br#"{"name":"a.b","payload":["\ud99c","\ufffd\uDC00"]}"#,
            &[r#"took a.b ["\ufffd","\ufffd\ufffd"]"#, "note lone surrogates in 2 places; mended with U+FFFD"],
        );
        check(
            r#"{"name":"a.b","payload":1,"x":"\ud99c","t\udc00":1}"#,
            &["took a.b 1", "note lone surrogates in 2 places; mended with U+FFFD", "note dropped from events: `x`, `t\u{fffd}`"],
        );
        let keys = |from: usize| (from..from + 4).map(|at| format!(r#","k{at}":0"#)).collect::<String>();
        let line = |from: usize| format!(r#"{{"name":"a.b","payload":1{}}}"#, keys(from));
        check(
            format!("{}\n```\n{}\n```\n", line(0), line(3)),
            &["took a.b 1", "took a.b 1", "note dropped from events: `k0`, `k1`, `k2`, `k3`, `k4` and more"],
        );
        check(format!("{}\n</think>\n{NOTE}", line(0)), &[TOOK_NOTE]);
    }

    #[test]
    fn a_reading_knows_what_it_holds() {
        let holds = |body: &str| {
            let reading = read(body.as_bytes());
            (reading.has_material(), reading.is_nothing(), reading.prose())
        };
        assert_eq!(holds(" \n<think>a</think>\n\n"), (false, true, " \n\n".into()));
        assert_eq!(holds("\x1b[0m\n"), (false, true, "\x1b[0m\n".into()));
        assert_eq!(holds("a\n{name:1}\nb"), (false, false, "a\n{name:1}\nb".into()));
        assert_eq!(holds(&format!("a\n{NOTE}\nb")), (true, false, "a\nb".into()));
        assert_eq!(holds("```self command/x\n```"), (true, false, String::new()));
        assert_eq!(holds("{name:1}"), (false, false, "{name:1}".into()));
    }

    #[test]
    fn utf_16_is_known() {
        let wide = |text: &str, bytes: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(bytes).collect::<Vec<u8>>();
        for bytes in [u16::to_le_bytes, u16::to_be_bytes] {
            assert!(is_utf16(&wide("hi", bytes)));
            assert!(is_utf16(&wide("\u{feff}мир", bytes)));
            assert!(is_utf16(&wide(&"line\n".repeat(1000), bytes)));
        }
        for plain in [&b""[..], b"a\0", b"hi there", b"\0\0\0\0", b"a\0bc", "\u{feff}hi".as_bytes()] {
            assert!(!is_utf16(plain), "{plain:?}");
        }
    }

    #[track_caller]
    fn quotes(text: &str, expect: &str) {
        assert_eq!(quote_material(text), expect);
    }

    #[test]
    fn material_in_an_ask_is_quoted_and_the_rest_stands() {
        quotes("a\n\nb {} c", "a\n\nb {} c");
        quotes(&format!("a\n{NOTE}\nb"), &format!("a\n| {NOTE}\nb"));
        quotes("{\n\"name\":\"a.b\"\n}\n\u{feff}", "| {\n| \"name\":\"a.b\"\n| }\n\u{feff}");
        quotes(&format!("```json\nx\n{NOTE}\n```\n"), &format!("```json\nx\n| {NOTE}\n```\n"));
        quotes("```self command/x\n| a\n\n```\nb", "| ```self command/x\n| | a\n| \n| ```\nb");
        quotes("```self command/x\na", "| ```self command/x\n| a");
        quotes("{name: x}\n\u{feff}", "| {name: x}\n\u{feff}");
        quotes(&format!("\u{feff}{NOTE}"), &format!("| {NOTE}"));
        quotes(&format!("```bash\n{NOTE}\n```"), &format!("```bash\n{NOTE}\n```"));
    }

    #[test]
    fn tags_of_reasoning_in_an_ask_are_quoted_and_hide_nothing() {
        quotes("<think>a\nb\n</think>c\nd", "| <think>a\nb\n| </think>c\nd");
        quotes("<think>\n<think>\nend </think>\n</think>", "| <think>\n| <think>\n| end </think>\n| </think>");
        quotes("<think>a</think><think>b\nc", "| <think>a</think><think>b\nc");
        quotes("a <think> b", "a <think> b");
        quotes("a\nb <think>c</think>\nd", "a\n| b <think>c</think>\nd");
    }

    /// A small generator of numbers; the same seed gives the same ones.
    struct Dice(u64);

    impl Dice {
        fn roll(&mut self, sides: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as usize % sides
        }
    }

    /// What hostile and ordinary bodies are made of.
    const PARTS: &[&str] = &[
        "\n",
        "\n",
        "\n",
        "\n\n",
        "\r\n",
        " ",
        "x",
        "é",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "'",
        "“",
        "`",
        "\\",
        "```",
        "~~~",
        "````",
        "json",
        "bash",
        "self command/x",
        "self tool",
        "| ",
        "<think>",
        "</think>",
        "<thinking>",
        "</thinking>",
        "\x1b[1m",
        "\x1b]0;t\x07",
        "\x1b]",
        "\x1b",
        "\"name\":",
        "\"payload\":",
        "\"name\":\"a.b\"",
        "\"id\":\"f\",\"seq\":1,",
        "\"x\":1,",
        "{\"name\":\"a.b\",\"payload\":{}}",
        "{\"name\":\"a\",\"payload\":{}}",
        "{\n\"name\":\"a.b\"\n}",
        "{name:",
        "\\ud99c",
        "{\"name\":\"script.authored\",\"payload\":{\"script\":\"x\"}}",
        "\u{feff}",
        "\u{2028}",
        "\0",
    ];

    fn body(dice: &mut Dice) -> String {
        (0..dice.roll(30)).map(|_| PARTS[dice.roll(PARTS.len())]).collect()
    }

    fn seeds() -> impl Iterator<Item = (u64, String)> {
        (0..2_000).map(|seed| (seed, body(&mut Dice(seed))))
    }

    #[test]
    fn any_bytes_are_read_and_always_alike() {
        for (seed, text) in seeds() {
            let mut bytes = text.into_bytes();
            let mut dice = Dice(!seed);
            for _ in 0..dice.roll(3) {
                let at = dice.roll(bytes.len() + 1);
                bytes.insert(at, dice.roll(256) as u8);
            }
            assert_eq!(read(&bytes), read(&bytes), "seed {seed}");
        }
    }

    #[test]
    fn the_pieces_of_a_body_are_the_body() {
        for (seed, text) in seeds() {
            let mut whole = String::new();
            for piece in Pieces::of(&text) {
                assert!(!piece.text.is_empty(), "seed {seed}");
                if let Kind::Fence(inside) = piece.kind {
                    let lines: String = inside.pieces.map(|piece| piece.text).collect();
                    assert_eq!(format!("{}{lines}{}", inside.opening, inside.closing), piece.text, "seed {seed}");
                }
                whole.push_str(piece.text);
            }
            assert_eq!(whole, text, "seed {seed}");
        }
    }

    #[test]
    fn each_line_is_said_taken_or_missed_in_order() {
        for seed in 0..500 {
            let mut dice = Dice(seed);
            let (mut text, mut expect) = (String::new(), Vec::<String>::new());
            for number in 0..dice.roll(20) {
                let (line, item) = match dice.roll(4) {
                    0 => (format!("word {number}\n"), format!("said word {number}\n")),
                    1 => (format!("{{\"name\":\"a.b\",\"payload\":{number}}}\n"), format!("took a.b {number}")),
                    2 => (format!("```self command/c{number}\n{{\n```\n"), format!("script [command/c{number}] {{\n")),
                    _ => (
                        format!("{{\"name\":\"a.b\",{number}}}\n"),
                        format!("missed event [a.b]: no valid JSON: key must be a string: {{\"name\":\"a.b\",{number}}}\n"),
                    ),
                };
                text.push_str(&line);
                match expect.last_mut() {
                    Some(last) if item.starts_with("said") && last.starts_with("said") => last.push_str(&line),
                    _ => expect.push(item),
                }
            }
            assert_eq!(told(&read(text.as_bytes())), expect, "seed {seed}");
        }
    }

    #[test]
    fn a_quoted_text_holds_nothing_but_prose_wherever_it_stands() {
        for (seed, text) in seeds() {
            let quoted = quote_material(&text);
            let prompt = format!("Before.\n| x\n{quoted}\nBehind.\n");
            for body in [quoted.as_str(), &prompt] {
                let reading = read(body.as_bytes());
                let expect: Vec<Item> = (!body.is_empty()).then(|| Item::Prose(body.to_owned())).into_iter().collect();
                assert_eq!(reading, Reading { items: expect, ..Reading::default() }, "seed {seed}: {text:?}");
            }
            let unquoted = |text: &str| text.replace(QUOTE, "");
            assert_eq!(unquoted(&quoted), unquoted(text.trim_start_matches(BOM)), "seed {seed}");
            assert_eq!(quote_material(&quoted), quoted, "seed {seed}");
        }
    }
}
