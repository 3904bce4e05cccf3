//! The state: what the log says is so, as a pure fold over its events.
//!
//! The only way anything is known to be declared, installed, pending, rejected, retired or said. [`State::apply`] is total: an
//! unknown or malformed event changes nothing but the count. Never touches the world. The invariant: folding a log in two
//! parts gives what folding it whole gives.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::capability::{Capability, CapabilityName, Declaration, Kind};
use crate::event::{Door, Event};
use crate::receipt::{Before, Form, Secret, sha256, verify};
use crate::record::{Frame, string};
use crate::standing::{Death, Declared, Installed, Notice, Origin, Rejection, Standing, keep_newest};
use crate::vocabulary::{CHAT_MESSAGE, Word, speaks_through};

/// How many turns of the conversation are kept: eight for a prompt, and the ask that it is made for.
pub const TURNS_MAX: usize = 9;

/// How much of a turn is kept, in characters.
pub const TURN_CHARS_MAX: usize = 300;

/// How many asks without a reply are kept.
pub const OPEN_ASKS_MAX: usize = 1024;

/// Who speaks in a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A question through the pipe.
    Asked,
    /// A mind's answer.
    Replied,
    /// A chat message of the user.
    User,
    /// A chat message of the assistant.
    Assistant,
}

/// A turn of the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Where it stands.
    pub origin: Origin,
    /// Who speaks.
    pub role: Role,
    /// What was said: at most [`TURN_CHARS_MAX`] characters on one line, but whole for a message that waits.
    pub text: String,
}

/// What the log says is so.
#[derive(Debug, Clone, Default)]
pub struct State {
    verifier: Option<Secret>,
    before: Before,
    events: u64,
    signed: bool,
    /// Receipts behind the kernel's door that the key does not prove, and those it does.
    doubted: u64,
    proven: u64,
    capabilities: BTreeMap<Capability, Standing>,
    /// Declarations under names of the older rule, which count once an older receipt does.
    inherited: BTreeMap<(Kind, String), Vec<Declared>>,
    notices: Vec<Notice>,
    turns: VecDeque<Turn>,
    asks: BTreeSet<u64>,
    waiting: Option<Turn>,
    /// The newest event of each name.
    newest: BTreeMap<String, u64>,
}

impl State {
    /// The state of an empty log. Without a secret every receipt stays unproven: nothing installs.
    #[must_use]
    pub fn new(verifier: Option<Secret>) -> State {
        State { verifier, ..State::default() }
    }

    /// Forgets all events, for a log that is another than before.
    pub fn start_over(&mut self) {
        *self = State::new(self.verifier.take());
    }

    /// Trusts a secret that was made just now; no receipt can have been signed with it yet.
    pub fn trust(&mut self, secret: Secret) {
        self.verifier = Some(secret);
    }

    /// The highest number.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.before.highest
    }

    /// What stands in the log so far, as far as the validity of a receipt depends on it.
    #[must_use]
    pub fn before(&self) -> Before {
        self.before
    }

    /// The names of the events, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.newest.keys().map(String::as_str)
    }

    /// The number of the newest event of a name; 0 if there is none.
    #[must_use]
    pub fn newest(&self, name: &str) -> u64 {
        self.newest.get(name).copied().unwrap_or(0)
    }

    /// How many events there are.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Whether the log holds a receipt or a seal through the kernel's door: a key was here.
    #[must_use]
    pub fn is_signed(&self) -> bool {
        self.signed
    }

    /// Whether the key proves none of the log's receipts: it is not the one they were signed with.
    #[must_use]
    pub fn fits_no_receipt(&self) -> bool {
        self.doubted > 0 && self.proven == 0
    }

    /// How a capability stands, if it is declared, installed or openly rejected.
    #[must_use]
    pub fn standing(&self, capability: &Capability) -> Option<&Standing> {
        self.capabilities.get(capability)
    }

    /// All capabilities on the surface, in order of kind and name.
    pub fn capabilities(&self) -> impl Iterator<Item = (&Capability, &Standing)> {
        self.capabilities.iter()
    }

    /// The pending capabilities, those declared first in front.
    #[must_use]
    pub fn pending(&self) -> Vec<(&Capability, &Standing)> {
        let mut pending: Vec<_> = self.capabilities().filter(|(_, standing)| standing.is_pending()).collect();
        pending.sort_by_key(|(_, standing)| standing.declared().map(|declared| declared.origin.seq));
        pending
    }

    /// The fields of an event, name and type word, as the newest declaration of a command on the surface that has any gives them.
    #[must_use]
    pub fn fields_of(&self, event: &str) -> Option<&BTreeMap<String, String>> {
        let commands = self.capabilities().filter(|(capability, _)| capability.kind == Kind::Command);
        let declarations = commands.flat_map(|(_, standing)| &standing.declarations);
        let giving = declarations.filter_map(|declared| {
            let emits = declared.declaration.event.as_ref()?;
            (emits.name == event && !emits.fields.is_empty()).then_some((declared.origin.seq, &emits.fields))
        });
        giving.max_by_key(|(seq, _)| *seq).map(|(_, fields)| fields)
    }

    /// Refusals, and rejections that name no capability, since the last heard batch.
    #[must_use]
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// The last turns of the conversation, oldest first.
    pub fn turns(&self) -> impl DoubleEndedIterator<Item = &Turn> {
        self.turns.iter()
    }

    /// The chat message of a user that no assistant answered yet, whole.
    #[must_use]
    pub fn waiting(&self) -> Option<&Turn> {
        self.waiting.as_ref()
    }

    /// The newest ask that no later reply names.
    #[must_use]
    pub fn open_ask(&self) -> Option<u64> {
        self.asks.last().copied()
    }

    /// Takes the next event of the log into account.
    pub fn apply(&mut self, event: &Event<'_>) {
        let batch = Frame::read(&event.id).map_or(&*event.id, |frame| frame.batch);
        let via = event.via.as_ref();
        match Word::of(&event.name) {
            Some(word) if word.counts_through(via) => self.apply_word(word, event, batch),
            None if event.name == CHAT_MESSAGE && speaks_through(via) => self.chat(event),
            Some(_) | None => {}
        }
        let asks = matches!(Word::of(&event.name), Some(Word::SelfAsked | Word::SelfReflected));
        if via == Some(&Door::Pipe) && !asks {
            self.notices.retain(|notice| notice.batch == batch);
        }
        match self.newest.get_mut(&*event.name) {
            Some(newest) => *newest = event.seq,
            None => drop(self.newest.insert(event.name.clone().into_owned(), event.seq)),
        }
        self.before.highest = self.before.highest.max(event.seq);
        self.events += 1;
    }

    fn apply_word(&mut self, word: Word, event: &Event<'_>, batch: &str) {
        match word {
            Word::CommandDeclared => self.declare(Kind::Command, event),
            Word::ProjectorDeclared => self.declare(Kind::Projector, event),
            Word::CapabilityRetired => self.retire(event),
            Word::ScriptCompiled => self.install(event),
            Word::ScriptRejected => self.reject(event, batch),
            Word::EventRefused => self.refuse(event, batch),
            Word::CapabilityDied => self.die(event),
            Word::SelfAsked => self.ask(event),
            Word::SelfReplied => self.reply(event),
            Word::LogSealed => self.signed = true,
            Word::KernelInitialized
            | Word::LogRecovered
            | Word::SelfReflected
            | Word::ScriptAuthored
            | Word::IntentDeclared
            | Word::AccountGiven
            | Word::LessonLearned
            | Word::LearnOrchestrated
            | Word::CapabilityRevisionRequested
            | Word::KernelUpgraded => {}
        }
    }

    fn declare(&mut self, kind: Kind, event: &Event<'_>) {
        let payload = &event.payload;
        let declared = |declaration| Declared {
            origin: Origin::of(event),
            payload: payload.get().to_owned(),
            digest: sha256(payload.get().as_bytes()),
            declaration,
        };
        if let Ok(declaration) = Declaration::read(kind, payload) {
            self.stand(declaration.capability.clone(), declared(declaration));
        } else if let Some(declaration) = Declaration::inherited(kind, payload) {
            if self.capabilities.contains_key(&declaration.capability) {
                self.stand(declaration.capability.clone(), declared(declaration));
            } else {
                let key = (kind, declaration.capability.name.as_str().to_owned());
                self.inherited.entry(key).or_default().push(declared(declaration));
            }
        }
    }

    fn stand(&mut self, capability: Capability, declared: Declared) {
        let standing = self.capabilities.entry(capability).or_default();
        standing.starts_anew();
        standing.declarations.push(declared);
    }

    fn retire(&mut self, event: &Event<'_>) {
        if let Some(capability) = event.parse::<Target>().and_then(|target| target.capability()) {
            self.inherited.remove(&(capability.kind, capability.name.as_str().to_owned()));
            self.capabilities.remove(&capability);
        }
    }

    fn install(&mut self, event: &Event<'_>) {
        self.signed = true;
        let Some(verifier) = &self.verifier else {
            if let Some(capability) = event.parse::<Target>().and_then(|target| target.capability()) {
                self.capabilities.entry(capability).or_default().unproven = Some(event.seq);
            }
            return;
        };
        let Some(receipt) = verify(verifier, event, self.before) else {
            self.doubted += 1;
            return;
        };
        self.proven += 1;
        let capability = receipt.capability().clone();
        let key = (capability.kind, capability.name.as_str().to_owned());
        let inherited = self.inherited.remove(&key).unwrap_or_default();
        let known = self.capabilities.get(&capability).map(|standing| &*standing.declarations).unwrap_or_default();
        let declaration = match receipt.declaration() {
            Some(digest) => known.iter().chain(&inherited).rev().find(|declared| declared.digest == digest),
            None => known.last().or(inherited.last()),
        }
        .cloned();
        self.before.has_v3 |= receipt.form() == Form::V3;
        if receipt.form() == Form::V3 && declaration.is_none() {
            return;
        }
        let standing = self.capabilities.entry(capability).or_default();
        standing.declarations.extend(inherited);
        standing.install(Installed { seq: event.seq, receipt, declaration });
    }

    fn reject(&mut self, event: &Event<'_>, batch: &str) {
        let Some(rejected) = event.parse::<Rejected>() else { return };
        let Rejected { kind, name, reason, excerpt, sha256 } = rejected;
        let target = Target { kind, name };
        let known = |capability: &Capability| {
            CapabilityName::new(capability.kind, capability.name.as_str()).is_ok() || self.capabilities.contains_key(capability)
        };
        let Some(capability) = target.capability().filter(known) else {
            let subject = [&*target.kind, &*target.name].join("/").trim_matches('/').to_owned();
            return self.notice(Notice { origin: Origin::of(event), subject, reason, excerpt, batch: batch.to_owned() });
        };
        self.capabilities.entry(capability).or_default().reject(Rejection { origin: Origin::of(event), reason, excerpt, sha256 });
    }

    fn die(&mut self, event: &Event<'_>) {
        let Some(Died { exit, stderr, sha256 }) = event.parse() else { return };
        let capability = event.parse::<Target>().and_then(|target| target.capability());
        if let Some(standing) = capability.and_then(|capability| self.capabilities.get_mut(&capability)) {
            let exit = string(&exit).map_or_else(|| exit.get().to_owned(), Into::into);
            standing.die(Death { origin: Origin::of(event), exit, stderr, sha256 });
        }
    }

    fn refuse(&mut self, event: &Event<'_>, batch: &str) {
        if let Some(Refused { name, reason, excerpt }) = event.parse() {
            self.notices.retain(|notice| notice.batch == batch);
            self.notice(Notice { origin: Origin::of(event), subject: name, reason, excerpt, batch: batch.to_owned() });
        }
    }

    fn notice(&mut self, notice: Notice) {
        self.notices.push(notice);
        keep_newest(&mut self.notices);
    }

    fn ask(&mut self, event: &Event<'_>) {
        let Some(Said { text, .. }) = event.parse() else { return };
        self.turn(event, Role::Asked, &text);
        self.asks.insert(event.seq);
        if self.asks.len() > OPEN_ASKS_MAX {
            self.asks.pop_first();
        }
    }

    fn reply(&mut self, event: &Event<'_>) {
        let Some(Said { text, ask }) = event.parse() else { return };
        self.turn(event, Role::Replied, &text);
        if let Some(ask) = ask {
            self.asks.remove(&ask);
        }
    }

    fn chat(&mut self, event: &Event<'_>) {
        let Some(Message { role, content }) = event.parse() else { return };
        match role.as_str() {
            "user" => {
                self.turn(event, Role::User, &content);
                self.waiting = Some(Turn { origin: Origin::of(event), role: Role::User, text: content });
            }
            "assistant" => {
                self.turn(event, Role::Assistant, &content);
                self.waiting = None;
            }
            _ => {}
        }
    }

    fn turn(&mut self, event: &Event<'_>, role: Role, text: &str) {
        self.turns.push_back(Turn { origin: Origin::of(event), role, text: on_one_line(text) });
        if self.turns.len() > TURNS_MAX {
            self.turns.pop_front();
        }
    }
}

/// The start of a text, its line breaks as one space each.
fn on_one_line(text: &str) -> String {
    let mut line = String::new();
    let mut chars = text.trim().chars().peekable();
    for _ in 0..TURN_CHARS_MAX {
        match chars.next() {
            None => return line,
            Some('\r') if chars.peek() == Some(&'\n') => {}
            Some('\n' | '\r') => line.push(' '),
            Some(char) => line.push(char),
        }
    }
    if chars.next().is_some() {
        line.push('…');
    }
    line
}

#[derive(Deserialize)]
struct Target {
    #[serde(rename = "type")]
    kind: String,
    name: String,
}

impl Target {
    /// The capability that is meant; a name of the older rule is one too, though nothing new may bear it.
    fn capability(&self) -> Option<Capability> {
        let kind = Kind::read(self.kind.trim())?;
        let name = self.name.trim();
        let name = CapabilityName::new(kind, name).ok().or_else(|| CapabilityName::inherited(name))?;
        Some(Capability { kind, name })
    }
}

#[derive(Deserialize)]
struct Rejected {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    excerpt: String,
    #[serde(default)]
    sha256: String,
}

#[derive(Deserialize)]
struct Died {
    exit: Box<RawValue>,
    #[serde(default)]
    stderr: String,
    #[serde(default)]
    sha256: String,
}

#[derive(Deserialize)]
struct Refused {
    #[serde(default)]
    name: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    excerpt: String,
}

#[derive(Deserialize)]
struct Said {
    text: String,
    ask: Option<u64>,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    content: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::Payload;
    use crate::receipt::{Receipt, sign};
    use crate::record::{Line, write};
    use std::borrow::Cow;

    fn secret() -> Secret {
        Secret::new([7; 32])
    }

    /// A log in memory, folded as it grows.
    struct Story {
        state: State,
        lines: Vec<u8>,
        seq: u64,
    }

    impl Story {
        fn new() -> Story {
            Story { state: State::new(Some(secret())), lines: Vec::new(), seq: 0 }
        }

        fn add(&mut self, via: &str, name: &str, payload: &str) -> &mut Story {
            self.add_in(&format!("{}", self.seq + 1), via, name, payload)
        }

        fn add_in(&mut self, id: &str, via: &str, name: &str, payload: &str) -> &mut Story {
            self.seq += 1;
            let payload = Payload::read(payload).unwrap();
            let event = Event {
                seq: self.seq,
                id: Cow::Borrowed(id),
                name: Cow::Borrowed(name),
                occurred_at: "".into(),
                via: Some(Door::read(Cow::Borrowed(via))),
                by: None,
                payload: Cow::Borrowed(payload.as_ref()),
            };
            self.state.apply(&event);
            write(&mut self.lines, &event);
            self
        }

        fn install(&mut self, name: &str, script: &str) -> &mut Story {
            let receipt = self.receipt(name, script);
            self.add("kernel", "script.compiled", Payload::of(&receipt).get())
        }

        fn receipt(&self, name: &str, script: &str) -> Receipt {
            let capability = command(name);
            let digest = self.state.standing(&capability).and_then(Standing::declared).map(|declared| declared.digest.clone());
            sign(&secret(), &capability, script, "ada", self.seq + 1, &digest.unwrap_or_default())
        }

        fn reject(&mut self, name: &str, sha256: &str) -> &mut Story {
            self.add(
                "kernel",
                "script.rejected",
                &format!(r#"{{"type":"command","name":"{name}","reason":"r","excerpt":"e","sha256":"{sha256}"}}"#),
            )
        }
    }

    fn command(name: &str) -> Capability {
        Capability { kind: Kind::Command, name: CapabilityName::new(Kind::Command, name).unwrap() }
    }

    fn pending(state: &State) -> Vec<String> {
        state.pending().iter().map(|(capability, _)| capability.to_string()).collect()
    }

    fn installed(state: &State) -> Vec<(String, String)> {
        let scripts = state.capabilities().filter_map(|(capability, standing)| Some((capability, standing.installed()?)));
        scripts.map(|(capability, installed)| (capability.to_string(), installed.receipt.script().to_owned())).collect()
    }

    #[test]
    fn a_declaration_is_pending_until_its_receipt_and_again_when_declared_anew() {
        let mut story = Story::new();
        story.add("pipe", "command.declared", r#"{"name":"note"}"#);
        assert_eq!((pending(&story.state), installed(&story.state)), (vec!["command/note".into()], vec![]));
        story.install("note", "one");
        assert_eq!((pending(&story.state), installed(&story.state)), (vec![], vec![("command/note".into(), "one".into())]));
        story.add("cli", "command.declared", r#"{"name":"note","description":"better"}"#);
        assert_eq!(
            (pending(&story.state), installed(&story.state)),
            (vec!["command/note".into()], vec![("command/note".into(), "one".into())])
        );
        let standing = story.state.standing(&command("note")).unwrap();
        assert_eq!(
            standing.installed().unwrap().declaration.as_ref().unwrap().origin.seq,
            1,
            "the old script keeps its own declaration"
        );
    }

    #[test]
    fn a_retirement_takes_a_capability_off_the_surface_and_a_declaration_revives_it_without_its_script() {
        let mut story = Story::new();
        story.add("pipe", "command.declared", r#"{"name":"note"}"#).install("note", "one");
        story.add("cli", "capability.retired", r#"{"type":"command","name":"note"}"#);
        assert_eq!(story.state.capabilities().count(), 0);
        story.add("pipe", "command.declared", r#"{"name":"note"}"#);
        assert_eq!((pending(&story.state), installed(&story.state)), (vec!["command/note".into()], vec![]));
    }

    #[test]
    fn d11_an_old_receipt_revives_nothing() {
        let mut story = Story::new();
        story.add("pipe", "command.declared", r#"{"name":"note"}"#);
        let receipt = Payload::of(&story.receipt("note", "one"));
        story.add("kernel", "script.compiled", receipt.get());
        story.add("cli", "capability.retired", r#"{"type":"command","name":"note"}"#);
        story.add("pipe", "command.declared", r#"{"name":"note"}"#);
        story.add("kernel", "script.compiled", receipt.get());
        story.add("pipe", "script.compiled", receipt.get());
        assert_eq!((pending(&story.state), installed(&story.state)), (vec!["command/note".into()], vec![]));
    }

    #[test]
    fn d12_a_word_behind_the_wrong_door_changes_nothing() {
        let mut story = Story::new();
        for via in ["learn:x", "kernel", "telnet"] {
            story.add(via, "command.declared", r#"{"name":"note"}"#);
        }
        story.add("learn:x", "self.asked", r#"{"text":"q"}"#).add("learn:x", "chat.message", r#"{"role":"user","content":"hi"}"#);
        story.add("pipe", "event.refused", r#"{"name":"x"}"#).add("pipe", "script.rejected", r#"{"type":"command","name":"x"}"#);
        assert_eq!((story.state.capabilities().count(), story.state.turns().count(), story.state.notices().len()), (0, 0, 0));
        assert_eq!((story.state.open_ask(), story.state.waiting(), story.state.events()), (None, None, 7));
    }

    #[test]
    fn five_rejections_stall_and_a_declaration_starts_anew() {
        let mut story = Story::new();
        story.add("pipe", "command.declared", r#"{"name":"note"}"#);
        for sha256 in ["a", "b", "a", "a"] {
            story.reject("note", sha256);
        }
        let standing = |story: &Story| story.state.standing(&command("note")).unwrap().clone();
        assert_eq!((standing(&story).is_stalled(), standing(&story).repeats()), (false, 3));
        story.reject("note", "c");
        assert_eq!(
            (standing(&story).is_stalled(), standing(&story).repeats(), standing(&story).rejections().len()),
            (true, 1, 5)
        );
        story.add("pipe", "command.declared", r#"{"name":"note"}"#);
        assert_eq!((standing(&story).is_stalled(), standing(&story).rejections().len()), (false, 5));
        story.install("note", "x");
        assert_eq!(standing(&story).rejections().len(), 0);
    }

    #[test]
    fn a_notice_rides_until_a_later_batch_is_heard() {
        let mut story = Story::new();
        let [one, two] = ["0", "1"].map(|digit| digit.repeat(32));
        story.add_in(&format!("{one}.1-2"), "kernel", "event.refused", r#"{"name":"x.y","reason":"r","excerpt":"e"}"#);
        story.add_in(&format!("{one}.2-2"), "pipe", "self.replied", r#"{"text":"hm"}"#);
        story.add("kernel", "script.rejected", r#"{"type":"","name":"","reason":"no single pending declaration"}"#);
        story.add("pipe", "self.asked", r#"{"text":"q"}"#).add("pipe", "self.reflected", "{}").add("cli", "note.added", "{}");
        assert_eq!(story.state.notices().iter().map(|notice| notice.subject.as_str()).collect::<Vec<_>>(), ["x.y", ""]);
        story.add_in(&two, "pipe", "note.added", "{}");
        assert_eq!(story.state.notices().len(), 0);
        story.add("kernel", "event.refused", r#"{"name":"y.z"}"#).add("kernel", "event.refused", r#"{"name":"z.z"}"#);
        assert_eq!(story.state.notices().iter().map(|notice| notice.subject.as_str()).collect::<Vec<_>>(), ["z.z"]);
    }

    #[test]
    fn the_newest_ask_without_a_reply_is_open() {
        let mut story = Story::new();
        story.add("pipe", "self.asked", r#"{"text":"one"}"#).add("pipe", "self.asked", r#"{"text":"two"}"#);
        assert_eq!(story.state.open_ask(), Some(2));
        story.add("pipe", "self.replied", r#"{"text":"a","ask":2}"#);
        assert_eq!(story.state.open_ask(), Some(1));
        story.add("pipe", "self.replied", r#"{"text":"no ask"}"#);
        assert_eq!(story.state.open_ask(), Some(1));
    }

    #[test]
    fn a_turn_is_one_short_line() {
        assert_eq!(on_one_line(" a\r\nb\n\nc\rd "), "a b  c d");
        assert_eq!(on_one_line(&"é".repeat(300)), "é".repeat(300));
        assert_eq!(on_one_line(&"é".repeat(301)), format!("{}…", "é".repeat(300)));
    }

    #[test]
    fn a_message_waits_until_an_assistant_answers() {
        let mut story = Story::new();
        story.add("cli", "chat.message", r#"{"role":"user","content":"a\nb"}"#);
        assert_eq!(story.state.waiting().unwrap().text, "a\nb");
        story.add("pipe", "chat.message", r#"{"role":"assistant","content":"c"}"#);
        assert_eq!((story.state.waiting(), story.state.turns().count()), (None, 2));
    }

    #[test]
    fn without_a_key_nothing_installs_and_nothing_is_pending_again() {
        let mut story = Story::new();
        story.add("pipe", "command.declared", r#"{"name":"note"}"#).install("note", "one");
        let mut blind = State::new(None);
        for (at, line) in story.lines.split(|byte| *byte == b'\n').enumerate() {
            if let Line::Record(record) = Line::read(line) {
                blind.apply(&record.at(at as u64 + 1));
            }
        }
        assert_eq!((pending(&blind), installed(&blind), blind.is_signed()), (vec![], vec![], true));
        assert!(blind.standing(&command("note")).unwrap().is_unproven());
    }

    #[test]
    fn folding_in_two_parts_is_folding_whole() {
        let mut story = Story::new();
        story.add("pipe", "command.declared", r#"{"name":"note"}"#).reject("note", "a").install("note", "x");
        story.add("pipe", "self.asked", r#"{"text":"q"}"#).add("cli", "chat.message", r#"{"role":"user","content":"hi"}"#);
        story.add("kernel", "event.refused", r#"{"name":"x.y"}"#).add(
            "cli",
            "capability.retired",
            r#"{"type":"command","name":"note"}"#,
        );
        let lines: Vec<&[u8]> = story.lines.split_inclusive(|byte| *byte == b'\n').collect();
        let fold = |mut state: State, lines: &[&[u8]]| {
            for line in lines {
                if let Line::Record(record) = Line::read(line) {
                    let seq = record.seq.unwrap();
                    state.apply(&record.at(seq));
                }
            }
            state
        };
        let whole = format!("{:?}", fold(State::new(Some(secret())), &lines));
        assert_eq!(whole, format!("{:?}", story.state));
        for cut in 0..=lines.len() {
            let state = fold(fold(State::new(Some(secret())), &lines[..cut]), &lines[cut..]);
            assert_eq!(format!("{state:?}"), whole, "cut at {cut}");
        }
    }
}
