//! The state: what the log says is so, as a pure fold over its events.
//!
//! The only way anything is known to be declared, installed, pending, rejected, retired or said. [`State::apply`] is total: an
//! unknown or malformed event changes nothing but the count. Never touches the world. The invariant: folding a log in two
//! parts gives what folding it whole gives.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::capability::{Capability, CapabilityName, Kind};
use crate::event::{Door, Event};
use crate::names::{NameId, Names};
use crate::receipt::{Before, Form, Secret, verify};
use crate::saying::{Said, Turn, batch_of, death, declared, notice, rejection, target, turn, waiting};
use crate::standing::{At, Declared, Installed, Notice, Standing, keep_newest};
use crate::tally::{Tally, Yields};
use crate::vocabulary::{CHAT_MESSAGE, Word, speaks_through};

/// How many turns of the conversation are kept: eight for a prompt, and the ask that it is made for.
pub const TURNS_MAX: usize = 9;

/// How many asks without a reply are kept.
pub const OPEN_ASKS_MAX: usize = 1024;

/// What the log says is so.
#[derive(Debug, Clone, Default)]
pub struct State {
    pub(crate) verifier: Option<Secret>,
    pub(crate) before: Before,
    pub(crate) events: u64,
    pub(crate) signed: bool,
    /// Receipts behind the kernel's door that the key does not prove, and those it does.
    pub(crate) doubted: u64,
    pub(crate) proven: u64,
    pub(crate) capabilities: BTreeMap<Capability, Standing>,
    /// Declarations under names of the older rule, which count once an older receipt does.
    pub(crate) inherited: BTreeMap<(Kind, String), Vec<Declared>>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) turns: VecDeque<Turn>,
    pub(crate) asks: BTreeSet<u64>,
    pub(crate) waiting: Option<Turn>,
    /// Whoever reads the log by its names shares them.
    pub(crate) names: Arc<Names>,
    pub(crate) counts: Arc<Counts>,
}

/// How many events there are of each day, month, door and speaker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// By the first ten characters of their moments.
    pub days: Tally,
    /// By the first seven, for the days that are not held.
    pub months: Tally,
    /// By the texts of their doors.
    pub doors: Tally,
    /// By who the caller said it was.
    pub speakers: Tally,
}

impl Default for Counts {
    fn default() -> Counts {
        Counts {
            days: Tally::of(Yields::First),
            months: Tally::of(Yields::First),
            doors: Tally::default(),
            speakers: Tally::default(),
        }
    }
}

/// The door under which all clients of the server are counted.
pub const HTTP: &str = "http";

/// The longest claim that is counted under its own name, in bytes.
const COUNTED_BYTES_MAX: usize = 128;

impl Counts {
    /// Under which key a claim is counted.
    #[must_use]
    pub fn key(claim: &str) -> &str {
        &claim[..claim.floor_char_boundary(COUNTED_BYTES_MAX)]
    }

    fn take(&mut self, event: &Event<'_>, row: u64) {
        let door = match &event.via {
            None => Cow::Borrowed(""),
            Some(Door::Http(_)) => Cow::Borrowed(HTTP),
            Some(door @ (Door::Cli | Door::Pipe | Door::Kernel | Door::Learn(_) | Door::Other(_))) => door.text(),
        };
        self.days.take(event.occurred_at.get(..DAY_BYTES).unwrap_or_default(), row);
        self.months.take(event.occurred_at.get(..MONTH_BYTES).unwrap_or_default(), row);
        self.doors.take(Counts::key(&door), row);
        self.speakers.take(Counts::key(event.by.as_deref().unwrap_or_default()), row);
    }
}

/// How much of a moment names its day, in bytes.
const DAY_BYTES: usize = 10;

/// How much of a moment names its month, in bytes.
const MONTH_BYTES: usize = 7;

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
        self.names.in_order()
    }

    /// The number of the newest event of a name; 0 if there is none.
    #[must_use]
    pub fn newest(&self, name: &str) -> u64 {
        self.names.newest(name)
    }

    /// The event names of the log, with where their events stand.
    #[must_use]
    pub fn named(&self) -> &Arc<Names> {
        &self.names
    }

    /// How many events there are of each day, month, door and speaker.
    #[must_use]
    pub fn counts(&self) -> &Arc<Counts> {
        &self.counts
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

    /// Whether this is an ask that no later reply names; of the oldest of very many it is not known any more.
    #[must_use]
    pub fn waits_for_reply(&self, ask: u64) -> bool {
        self.asks.contains(&ask)
    }

    /// Takes the next event of the log into account, wherever it stands.
    pub fn apply(&mut self, event: &Event<'_>) {
        self.take(event, At::default());
    }

    /// Takes the next event of the log into account, which stands there. Gives the entry of its name, and the row of the event
    /// before it there.
    pub fn take(&mut self, event: &Event<'_>, at: At) -> (NameId, Option<u64>) {
        let batch = batch_of(event);
        let via = event.via.as_ref();
        let word = Word::of(&event.name);
        match word {
            Some(word) if word.counts_through(via) => self.apply_word(word, event, batch, at),
            None if event.name == CHAT_MESSAGE && speaks_through(via) => self.chat(event, at),
            Some(_) | None => {}
        }
        let asks = matches!(word, Some(Word::SelfAsked | Word::SelfReflected));
        if via == Some(&Door::Pipe) && !asks {
            self.notices.retain(|notice| notice.batch == batch);
        }
        Arc::make_mut(&mut self.counts).take(event, self.events);
        self.before.highest = self.before.highest.max(event.seq);
        self.events += 1;
        Arc::make_mut(&mut self.names).take(&event.name, self.events - 1, event.seq)
    }

    fn apply_word(&mut self, word: Word, event: &Event<'_>, batch: &str, at: At) {
        match word {
            Word::CommandDeclared => self.declare(Kind::Command, event, at),
            Word::ProjectorDeclared => self.declare(Kind::Projector, event, at),
            Word::CapabilityRetired => self.retire(event),
            Word::ScriptCompiled => self.install(event, at),
            Word::ScriptRejected => self.reject(event, at),
            Word::EventRefused => self.refuse(event, batch, at),
            Word::CapabilityDied => self.die(event, at),
            Word::SelfAsked => self.ask(event, at),
            Word::SelfReplied => self.reply(event, at),
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

    fn declare(&mut self, kind: Kind, event: &Event<'_>, at: At) {
        let Some((declared, is_older)) = declared(kind, event, at) else { return };
        let capability = declared.declaration.capability.clone();
        if !is_older || self.capabilities.contains_key(&capability) {
            self.stand(capability, declared);
        } else {
            self.inherited.entry((kind, capability.name.as_str().to_owned())).or_default().push(declared);
        }
    }

    fn stand(&mut self, capability: Capability, declared: Declared) {
        let standing = self.capabilities.entry(capability).or_default();
        standing.starts_anew();
        // A receipt seals what a declaration says: of the same said again, one is enough.
        standing.declarations.pop_if(|before| before.digest == declared.digest);
        standing.declarations.push(declared);
    }

    fn retire(&mut self, event: &Event<'_>) {
        if let Some(capability) = target(event) {
            self.inherited.remove(&(capability.kind, capability.name.as_str().to_owned()));
            self.capabilities.remove(&capability);
        }
    }

    fn install(&mut self, event: &Event<'_>, at: At) {
        self.signed = true;
        let Some(verifier) = &self.verifier else {
            if let Some(capability) = target(event) {
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
        standing.install(Installed { seq: event.seq, at, receipt, declaration });
    }

    fn reject(&mut self, event: &Event<'_>, at: At) {
        let known = |capability: &Capability| {
            CapabilityName::new(capability.kind, capability.name.as_str()).is_ok() || self.capabilities.contains_key(capability)
        };
        match target(event).filter(known) {
            Some(capability) => {
                if let Some(rejection) = rejection(event, at) {
                    self.capabilities.entry(capability).or_default().reject(rejection);
                }
            }
            None => {
                if let Some(notice) = notice(event, at) {
                    self.notice(notice);
                }
            }
        }
    }

    fn die(&mut self, event: &Event<'_>, at: At) {
        let standing = target(event).and_then(|capability| self.capabilities.get_mut(&capability));
        if let Some((standing, death)) = standing.zip(death(event, at)) {
            standing.die(death);
        }
    }

    fn refuse(&mut self, event: &Event<'_>, batch: &str, at: At) {
        if let Some(notice) = notice(event, at) {
            self.notices.retain(|notice| notice.batch == batch);
            self.notice(notice);
        }
    }

    fn notice(&mut self, notice: Notice) {
        self.notices.push(notice);
        keep_newest(&mut self.notices);
    }

    fn ask(&mut self, event: &Event<'_>, at: At) {
        let Some(turn) = turn(event, at) else { return };
        self.turn(turn);
        self.asks.insert(event.seq);
        if self.asks.len() > OPEN_ASKS_MAX {
            self.asks.pop_first();
        }
    }

    fn reply(&mut self, event: &Event<'_>, at: At) {
        let Some(turn) = turn(event, at) else { return };
        self.turn(turn);
        if let Some(ask) = event.parse::<Said>().and_then(|said| said.ask) {
            self.asks.remove(&ask);
        }
    }

    fn chat(&mut self, event: &Event<'_>, at: At) {
        let Some(turn) = turn(event, at) else { return };
        self.waiting = waiting(event, at);
        self.turn(turn);
    }

    fn turn(&mut self, turn: Turn) {
        self.turns.push_back(turn);
        if self.turns.len() > TURNS_MAX {
            self.turns.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::Payload;
    use crate::receipt::{Receipt, sign};
    use crate::record::{Line, write};

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
    fn a_declaration_that_is_said_again_is_kept_once() {
        let mut story = Story::new();
        let (plain, other) = (r#"{"name":"note"}"#, r#"{"name":"note","description":"d"}"#);
        for payload in [plain, plain, other, plain, plain, plain] {
            story.add("pipe", "command.declared", payload);
        }
        story.install("note", "x").add("pipe", "command.declared", plain);
        let standing = story.state.standing(&command("note")).unwrap();
        let kept: Vec<_> = standing.declarations.iter().map(|declared| declared.origin.seq).collect();
        let installed = standing.installed().unwrap().declaration.as_ref().unwrap();
        assert_eq!((kept, installed.origin.seq, standing.is_pending()), (vec![2, 3, 8], 6, true));
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
