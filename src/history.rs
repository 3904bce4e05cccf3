//! The history of a capability: what the log tells of it, in order of time.
//!
//! A fold over the events of a few of the kernel's names, which come in with the highest number in front of them; whoever reads the log
//! chooses them by [`History::wants`]. What it holds has bounds, and says what it left out. The invariant: a version counts here
//! exactly if the state counts it.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::capability::{Capability, Declaration, Kind};
use crate::event::{Door, Event};
use crate::quotation::cut;
use crate::receipt::{Before, Form, Receipt, Secret, sha256, verify};
use crate::saying::{death, declared, rejection, target};
use crate::standing::At;
use crate::vocabulary::Word;

/// How much of the scripts' text is held in all, the newest versions first, in bytes.
pub const SCRIPTS_BYTES_MAX: usize = 1 << 20;

/// How many versions, and how many declarations, are held, the newest.
pub const VERSIONS_MAX: usize = 200;

/// How many steps are held, the newest.
pub const STEPS_MAX: usize = 500;

/// How much of a reason, an excerpt or a stderr is held, in bytes.
const TELLING_BYTES_MAX: usize = 4096;

/// What a receipt is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Proof {
    /// It was signed here, for this place and a declaration that stood.
    Verified,
    /// It was signed here, but no declaration that it seals stood.
    Undeclared,
    /// The key did not sign this for this place.
    Unverified,
    /// There is no key to check it with.
    Unproven,
}

/// A receipt of the capability.
#[derive(Debug, Clone, Serialize)]
pub struct Version {
    /// Which one it is, from 1.
    pub number: u64,
    /// Its own number in the log.
    pub seq: u64,
    /// When, as stored.
    pub occurred_at: String,
    /// Who wrote the script.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// What the receipt is worth.
    pub proof: Proof,
    /// Whether it is of the older program's form.
    pub is_older: bool,
    /// How many lines the script has.
    pub lines: usize,
    /// How many bytes it has.
    pub bytes: usize,
    /// Its SHA-256, as hex digits.
    pub sha256: String,
    /// The number of the declaration it was installed under, as far as that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub declaration: Option<u64>,
    /// The script; left out where the texts of newer versions take all the room.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
}

/// A declaration of the capability.
#[derive(Debug, Clone)]
pub struct Announced {
    /// Its number.
    pub seq: u64,
    /// The SHA-256 of its payload.
    pub digest: String,
    /// What it says.
    pub declaration: Declaration,
    /// Whether no retirement came since.
    stands: bool,
}

/// What happened to a capability.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Step {
    /// It was declared.
    Declared,
    /// A script for it was installed.
    Installed {
        /// Which version it became.
        version: u64,
        /// What the receipt is worth.
        proof: Proof,
    },
    /// A script for it was not installed.
    Rejected {
        /// Why.
        reason: String,
        /// The start of the script.
        excerpt: String,
        /// The script's SHA-256.
        sha256: String,
    },
    /// A run of it failed.
    Died {
        /// How it ended.
        exit: String,
        /// The end of what it said.
        stderr: String,
        /// The script's SHA-256.
        sha256: String,
    },
    /// It was taken off the surface.
    Retired,
}

/// Something that happened, and where it stands in the log.
#[derive(Debug, Clone, Serialize)]
pub struct Happened {
    /// The event's number.
    pub seq: u64,
    /// When, as stored.
    pub occurred_at: String,
    /// Through which door; empty where the record does not say.
    pub via: String,
    /// Who the caller said it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// What.
    #[serde(flatten)]
    pub step: Step,
}

/// What the log tells of a capability.
#[derive(Debug)]
pub struct History {
    capability: Capability,
    secret: Option<Secret>,
    /// The versions whose texts are held whatever room they take.
    compared: BTreeSet<u64>,
    has_v3: bool,
    numbered: u64,
    versions: Vec<Version>,
    declarations: Vec<Announced>,
    steps: Vec<Happened>,
    older_steps: u64,
}

impl History {
    /// The history of a capability before any event. Without a secret every receipt is unproven.
    #[must_use]
    pub fn new(capability: Capability, secret: Option<Secret>, compared: BTreeSet<u64>) -> History {
        History {
            capability,
            secret,
            compared,
            has_v3: false,
            numbered: 0,
            versions: Vec::new(),
            declarations: Vec::new(),
            steps: Vec::new(),
            older_steps: 0,
        }
    }

    /// Whether events of this name can be of any capability's history.
    #[must_use]
    #[allow(clippy::wildcard_enum_match_arm, reason = "six of twenty")]
    pub fn wants(name: &str) -> bool {
        matches!(
            Word::of(name),
            Some(
                Word::CommandDeclared
                    | Word::ProjectorDeclared
                    | Word::CapabilityRetired
                    | Word::ScriptCompiled
                    | Word::ScriptRejected
                    | Word::CapabilityDied
            )
        )
    }

    /// Takes the next event; `highest` is the highest number in front of it.
    #[allow(clippy::wildcard_enum_match_arm, reason = "six of twenty")]
    pub fn take(&mut self, event: &Event<'_>, highest: u64) {
        let Some(word) = Word::of(&event.name).filter(|word| word.counts_through(event.via.as_ref())) else { return };
        match word {
            Word::CommandDeclared => self.declare(Kind::Command, event),
            Word::ProjectorDeclared => self.declare(Kind::Projector, event),
            Word::CapabilityRetired if self.is_of(event) => {
                self.declarations.iter_mut().for_each(|announced| announced.stands = false);
                self.step(event, Step::Retired);
            }
            Word::ScriptCompiled => self.install(event, highest),
            Word::ScriptRejected if self.is_of(event) => {
                if let Some(rejection) = rejection(event, At::default()) {
                    let [reason, excerpt, sha256] = [rejection.reason, rejection.excerpt, rejection.sha256].map(short);
                    self.step(event, Step::Rejected { reason, excerpt, sha256 });
                }
            }
            Word::CapabilityDied if self.is_of(event) => {
                if let Some(death) = death(event, At::default()) {
                    let [exit, stderr, sha256] = [death.exit, death.stderr, death.sha256].map(short);
                    self.step(event, Step::Died { exit, stderr, sha256 });
                }
            }
            _ => {}
        }
    }

    fn is_of(&self, event: &Event<'_>) -> bool {
        target(event).is_some_and(|target| target == self.capability)
    }

    fn declare(&mut self, kind: Kind, event: &Event<'_>) {
        if kind != self.capability.kind {
            return;
        }
        let Some((declared, _)) = declared(kind, event, At::default()) else { return };
        if declared.declaration.capability != self.capability {
            return;
        }
        let (seq, digest, declaration) = (event.seq, declared.digest, declared.declaration);
        self.declarations.push(Announced { seq, digest, declaration, stands: true });
        if self.declarations.len() > VERSIONS_MAX {
            self.declarations.remove(0);
        }
        self.step(event, Step::Declared);
    }

    fn install(&mut self, event: &Event<'_>, highest: u64) {
        let is_ours = self.is_of(event);
        // Receipts of other capabilities matter until the first of our own form: from then on older forms do not count.
        if !is_ours && self.has_v3 {
            return;
        }
        let before = Before { highest, has_v3: self.has_v3 };
        let verified = self.secret.as_ref().map(|secret| verify(secret, event, before));
        let form = verified.as_ref().and_then(|verified| verified.as_ref().map(|verified| verified.form()));
        self.has_v3 |= form == Some(Form::V3);
        let Some(receipt) = event.parse::<Receipt>().filter(|_| is_ours) else { return };
        let mut standing = self.declarations.iter().rev().filter(|announced| announced.stands);
        let declaration = match &receipt.declaration {
            Some(digest) => standing.find(|announced| announced.digest == *digest),
            None => standing.next(),
        }
        .map(|announced| announced.seq);
        let proof = match (verified, form) {
            (None, _) => Proof::Unproven,
            (Some(None), _) | (Some(_), None) => Proof::Unverified,
            (Some(Some(_)), Some(Form::V3)) if declaration.is_none() => Proof::Undeclared,
            (Some(Some(_)), Some(_)) => Proof::Verified,
        };
        self.numbered += 1;
        self.versions.push(Version {
            number: self.numbered,
            seq: event.seq,
            occurred_at: short(event.occurred_at.as_ref().to_owned()),
            author: receipt.by.map(short),
            proof,
            is_older: receipt.seq.is_none(),
            lines: receipt.script.lines().count(),
            bytes: receipt.script.len(),
            sha256: sha256(receipt.script.as_bytes()),
            declaration,
            script: Some(receipt.script),
        });
        self.make_room();
        self.step(event, Step::Installed { version: self.numbered, proof });
    }

    /// Lets go of what is over the bounds: the oldest texts, and the oldest versions.
    fn make_room(&mut self) {
        let mut left = SCRIPTS_BYTES_MAX;
        let newest = self.versions.last().map(|version| version.seq);
        for version in self.versions.iter_mut().rev() {
            let fits = left.checked_sub(version.bytes);
            if fits.is_none() && !self.compared.contains(&version.seq) && newest != Some(version.seq) {
                version.script = None;
            }
            left = fits.unwrap_or(0);
        }
        let surplus = self.versions.len().saturating_sub(VERSIONS_MAX);
        let mut at = 0;
        self.versions.retain(|version| {
            at += 1;
            at > surplus || self.compared.contains(&version.seq)
        });
    }

    fn step(&mut self, event: &Event<'_>, step: Step) {
        let via = event.via.as_ref().map(Door::text).unwrap_or_default().into_owned();
        self.steps.push(Happened {
            seq: event.seq,
            occurred_at: short(event.occurred_at.as_ref().to_owned()),
            via: short(via),
            by: event.by.as_deref().map(str::to_owned).map(short),
            step,
        });
        if self.steps.len() > STEPS_MAX {
            self.steps.remove(0);
            self.older_steps += 1;
        }
    }

    /// The versions, oldest first: the newest [`VERSIONS_MAX`], and those that are compared.
    #[must_use]
    pub fn versions(&self) -> &[Version] {
        &self.versions
    }

    /// How many versions there are in all.
    #[must_use]
    pub fn numbered(&self) -> u64 {
        self.numbered
    }

    /// The declarations, oldest first: the newest [`VERSIONS_MAX`].
    #[must_use]
    pub fn declarations(&self) -> &[Announced] {
        &self.declarations
    }

    /// What happened, oldest first: the newest [`STEPS_MAX`].
    #[must_use]
    pub fn steps(&self) -> &[Happened] {
        &self.steps
    }

    /// How many steps came before those.
    #[must_use]
    pub fn older_steps(&self) -> u64 {
        self.older_steps
    }
}

/// A text of the log that is no longer than the bound.
fn short(text: String) -> String {
    if text.len() <= TELLING_BYTES_MAX { text } else { format!("{}…", cut(&text, TELLING_BYTES_MAX)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::CapabilityName;
    use crate::payload::Payload;
    use crate::receipt::sign;
    use crate::state::State;
    use std::borrow::Cow;

    /// A log in memory, taken by a state and by the history of `command/note`.
    struct Story {
        state: State,
        history: History,
        seq: u64,
    }

    fn secret() -> Secret {
        Secret::new([7; 32])
    }

    fn note() -> Capability {
        Capability { kind: Kind::Command, name: CapabilityName::new(Kind::Command, "note").unwrap() }
    }

    impl Story {
        fn new(compared: &[u64]) -> Story {
            let history = History::new(note(), Some(secret()), compared.iter().copied().collect());
            Story { state: State::new(Some(secret())), history, seq: 0 }
        }

        fn add(&mut self, via: &str, word: Word, payload: &str) -> &mut Story {
            self.seq += 1;
            let payload = Payload::read(payload).unwrap();
            let event = Event {
                seq: self.seq,
                id: "".into(),
                name: word.name().into(),
                occurred_at: "".into(),
                via: Some(Door::read(Cow::Borrowed(via))),
                by: None,
                payload: Cow::Borrowed(payload.as_ref()),
            };
            self.history.take(&event, self.seq - 1);
            self.state.apply(&event);
            // The state and the history agree on what is in force, at every step.
            let installed = self.state.standing(&note()).and_then(|standing| standing.installed()).map(|installed| installed.seq);
            let verified = self.history.versions().iter().rev().find(|version| version.proof == Proof::Verified);
            let retired = self.history.steps().iter().rev().find(|step| matches!(step.step, Step::Retired)).map(|step| step.seq);
            assert_eq!(installed, verified.map(|version| version.seq).filter(|seq| Some(*seq) > retired), "at {}", self.seq);
            self
        }

        fn declare(&mut self, description: &str) -> &mut Story {
            self.add("pipe", Word::CommandDeclared, &format!(r#"{{"name":"note","description":"{description}"}}"#))
        }

        /// A receipt for the declaration of this description, signed for the place that is this much ahead.
        fn install(&mut self, script: &str, description: &str, ahead: u64) -> &mut Story {
            let digest = sha256(format!(r#"{{"name":"note","description":"{description}"}}"#).as_bytes());
            let receipt = sign(&secret(), &note(), script, "ada", self.seq + ahead, &digest);
            self.add("kernel", Word::ScriptCompiled, Payload::of(&receipt).get())
        }

        fn retire(&mut self) -> &mut Story {
            self.add("cli", Word::CapabilityRetired, r#"{"type":"command","name":"note"}"#)
        }

        fn proofs(&self) -> Vec<Proof> {
            self.history.versions().iter().map(|version| version.proof).collect()
        }
    }

    #[test]
    fn a_version_counts_exactly_if_the_state_counts_it() {
        let mut story = Story::new(&[]);
        story.declare("a").install("1", "a", 1).declare("b").install("2", "a", 1).install("3", "b", 1).install("4", "b", 9);
        story.retire().install("5", "b", 1).declare("b").install("6", "b", 1).install("7", "x", 1);
        let (good, none) = (Proof::Verified, Proof::Undeclared);
        assert_eq!(story.proofs(), [good, good, good, Proof::Unverified, none, good, none]);
        let declared: Vec<_> = story.history.versions().iter().map(|version| version.declaration).collect();
        assert_eq!(declared, [Some(1), Some(1), Some(3), Some(3), None, Some(9), None]);
        assert_eq!(story.history.steps().len(), 11);
    }

    #[test]
    fn what_does_not_count_is_no_step() {
        let mut story = Story::new(&[]);
        story.add("learn:x", Word::CommandDeclared, r#"{"name":"note"}"#);
        story.add("pipe", Word::ScriptCompiled, r#"{"type":"command","name":"note","script":"","sig":""}"#);
        story.add("pipe", Word::CommandDeclared, r#"{"name":"other"}"#);
        story.add("pipe", Word::ProjectorDeclared, r#"{"name":"note"}"#);
        story.add("kernel", Word::ScriptRejected, r#"{"type":"command","name":"other","reason":"r"}"#);
        story.add("kernel", Word::CapabilityDied, r#"{"type":"command","name":"note"}"#);
        assert!(story.history.steps().is_empty() && story.history.versions().is_empty());
        assert!(History::wants(" Script.Compiled ") && !History::wants("log.sealed") && !History::wants("note.taken"));
    }

    #[test]
    fn texts_of_older_versions_make_room_but_for_those_that_are_compared() {
        let mut story = Story::new(&[3]);
        let large = "x".repeat(SCRIPTS_BYTES_MAX / 2 + 1);
        story.declare("a");
        for _ in 0..4 {
            story.install(&large, "a", 1);
        }
        story.install("small", "a", 1);
        let held: Vec<_> = story.history.versions().iter().map(|version| (version.seq, version.script.is_some())).collect();
        assert_eq!(held, [(2, false), (3, true), (4, false), (5, true), (6, true)]);
        assert_eq!(story.history.versions()[0].bytes, large.len());
    }

    #[test]
    fn the_oldest_versions_and_steps_give_way_and_are_counted() {
        let mut story = Story::new(&[2]);
        story.declare("a");
        for _ in 0..=STEPS_MAX {
            story.install("s", "a", 1);
        }
        assert_eq!((story.history.numbered(), story.history.steps().len()), (STEPS_MAX as u64 + 1, STEPS_MAX));
        assert_eq!(story.history.older_steps(), 2);
        assert_eq!(story.history.versions().len(), VERSIONS_MAX + 1, "and the one that is compared");
        assert_eq!((story.history.versions()[0].seq, story.history.versions()[0].number), (2, 1));
    }
}
