//! Learning: the verb that takes an account in.
//!
//! All of the account is read and checked before anything of it lands. A record larger than [`DEPOSIT_BYTES`] lands in several
//! batches, so that memory and the time under the lock stay flat; the last one says that it was learned. The invariant: learning
//! again completes what was cut short, and deposits nothing twice.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::account::{Ledger, Occurrence};
use crate::asking::{Prompted, prompted};
use crate::batch::{Close, Own, Unstamped};
use crate::directory::{Account, AccountError, Deposits};
use crate::effect;
use crate::event::{Door, Event};
use crate::kernel::{Error, Kernel, View};
use crate::log::{Log, LogError, Position};
use crate::pace::Pace;
use crate::payload::Payload;
use crate::prompt::{self, Evidence, Lesson};
use crate::turn;
use crate::vocabulary::Word;

/// From how many bytes on a batch of a deposit is full; its last record may be as large as any.
const DEPOSIT_BYTES: usize = 4 << 20;

/// What a record takes beside its name and payload, in bytes, more or less.
const ENVELOPE_BYTES: usize = 256;

/// How many pages a dry run names.
const PAGES_NAMED_MAX: usize = 64;

#[derive(Serialize, Deserialize, PartialEq)]
struct Intent {
    name: String,
    intent: String,
}

#[derive(Serialize, Deserialize)]
struct Learned {
    lesson: String,
    events: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    skipped: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    record_sha256: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    manifest_sha256: Option<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What the log already knows of an account.
struct Past {
    ledger: Ledger,
    position: Position,
    intent: Intent,
    /// Where the newest telling of this name stands, if it is this one.
    told: Option<u64>,
    /// The digests that the newest learning of this name saw.
    learned: Option<(Option<String>, Option<String>)>,
}

impl Past {
    /// Reads what the log knows of it, and stands at its end.
    fn recall(&mut self, view: &View) -> Result<(), LogError> {
        let Some(log) = &view.log else { return Ok(()) };
        let names = self.ledger.names.clone();
        let words = [Word::IntentDeclared, Word::LessonLearned];
        let matters = |name: &str| names.contains_key(name) || Word::of(name).is_some_and(|word| words.contains(&word));
        log.picked(matters, |event, _| self.hold(&event))?;
        self.position = view.position.clone();
        Ok(())
    }

    /// Reads on in the log.
    fn take_in(&mut self, log: &Log) -> Result<(), LogError> {
        let mut position = std::mem::take(&mut self.position);
        let read = log.resume(&mut position, &mut |event| self.hold(&event));
        self.position = position;
        read
    }

    fn hold(&mut self, event: &Event<'_>) {
        let Past { ledger, intent, told, learned, .. } = self;
        match Word::of(&event.name).filter(|word| word.counts_through(event.via.as_ref())) {
            Some(Word::IntentDeclared) => {
                if let Some(before) = event.parse::<Intent>().filter(|before| before.name == intent.name) {
                    *told = (before == *intent).then_some(event.seq);
                }
            }
            Some(Word::LessonLearned) => {
                if let Some(before) = event.parse::<Learned>().filter(|before| before.lesson == intent.name) {
                    *learned = Some((before.record_sha256, before.manifest_sha256));
                }
            }
            Some(_) | None => ledger.hold(event),
        }
    }
}

/// An event of a record that the log does not hold yet.
struct Candidate {
    occurrence: Occurrence,
    entry: Unstamped,
}

/// An account on its way into the log.
struct Deposit<'a> {
    account: &'a Account,
    rest: Option<Deposits<'a>>,
    deposited: u64,
    skipped: u64,
}

impl<'a> Deposit<'a> {
    fn of(account: &'a Account) -> Deposit<'a> {
        let rest = account.record.as_ref().map(|record| record.deposits());
        Deposit { account, rest, deposited: 0, skipped: 0 }
    }

    /// Reads what may be the next batch, and how that ends: the last one with a seal. What the log holds already is passed by.
    fn next_batch(&mut self, ledger: &mut Ledger) -> Result<(Vec<Candidate>, Close), AccountError> {
        let (mut candidates, mut bytes) = (Vec::new(), 0);
        while bytes < DEPOSIT_BYTES {
            let Some(next) = self.rest.as_mut().map(Deposits::next_deposit).transpose()?.flatten() else {
                return Ok((candidates, Close::Sealed));
            };
            // Every line was read before.
            let record = || self.account.record.as_ref().map(|record| record.path.clone()).unwrap_or_default();
            let deposit = next.map_err(|_| AccountError::Changed(record()))?;
            let occurrence = ledger.meet(&deposit);
            if ledger.holds(occurrence) {
                self.skipped += 1;
                continue;
            }
            bytes += ENVELOPE_BYTES + deposit.name.as_str().len() + deposit.payload.get().len();
            let door = Door::Learn(self.account.name.clone().into());
            let own = Own { occurred_at: deposit.occurred_at, by: deposit.by };
            let name = deposit.name.as_str().to_owned().into();
            candidates.push(Candidate { occurrence, entry: Unstamped { name, payload: deposit.payload, door, own: Some(own) } });
        }
        Ok((candidates, Close::Open))
    }

    /// The next batch, under the log's lock: the telling first, if it is new; that it was learned last, if anything was new. What
    /// somebody else deposited meanwhile is left out.
    fn batch(&mut self, past: &Past, candidates: Vec<Candidate>, close: Close) -> Result<Vec<Unstamped>, AccountError> {
        let mut batch = Vec::new();
        if past.told.is_none() {
            batch.push(Unstamped::word(Word::IntentDeclared, Door::Cli, Payload::of(&past.intent)));
        }
        for Candidate { occurrence, entry } in candidates {
            if past.ledger.holds(occurrence) {
                self.skipped += 1;
            } else {
                self.deposited += 1;
                batch.push(entry);
            }
        }
        if close == Close::Open {
            return Ok(batch);
        }
        if let Some(record) = &self.account.record {
            record.is_as_it_was()?;
        }
        let record_sha256 = self.account.record.as_ref().map(|record| record.sha256.clone());
        let manifest = self.account.manifest.as_ref().and_then(|manifest| manifest.as_ref().ok());
        let manifest_sha256 = manifest.map(|manifest| manifest.record_sha256.clone());
        let seen = (record_sha256, manifest_sha256);
        if !batch.is_empty() || self.deposited > 0 || past.learned.as_ref() != Some(&seen) {
            let lesson = past.intent.name.clone();
            let (record_sha256, manifest_sha256) = seen;
            let learned = Learned { lesson, events: self.deposited, skipped: self.skipped, record_sha256, manifest_sha256 };
            batch.push(Unstamped::word(Word::LessonLearned, Door::Kernel, Payload::of(&learned)));
        }
        Ok(batch)
    }
}

impl Kernel {
    /// Takes an account in, and makes the prompt to learn from it. Learning again makes the prompt again. `progress` hears a line
    /// now and then while it takes long.
    pub fn learn(&self, account: &Path, out: BorrowedFd<'_>, progress: impl Fn(&str)) -> Result<Prompted, Error> {
        let pace = Pace::from(self.world.now, &progress);
        let (account, mut past) = self.survey(account, pace.clone())?;
        let mut view = self.look()?;
        let mark = self.mark(&mut view, out);
        past.recall(&view)?;
        let (mut deposit, mut pace) = (Deposit::of(&account), pace);
        loop {
            let (candidates, close) = deposit.next_batch(&mut past.ledger)?;
            let landed = self.commit_with(&mut view, close, |_, _, log| {
                past.take_in(log)?;
                Ok(deposit.batch(&past, candidates, close)?)
            })?;
            if let Some(told) = landed.iter().find(|event| Word::of(&event.name) == Some(Word::IntentDeclared)) {
                past.told = Some(told.seq);
            }
            if close == Close::Sealed {
                break;
            }
            pace.tell(|| format!("deposited {} events of {}", deposit.deposited, past.ledger.events()));
        }
        view.words.extend(remarks(&account, &past.ledger));
        if past.ledger.events() > 0 {
            view.words.push(format!("events deposited: {}, here already: {}", deposit.deposited, deposit.skipped));
        }
        let told = self.told_at(&view, past.told.unwrap_or_default())?;
        let names = &past.ledger.names;
        let evidence = account.record.as_ref().map(|record| Evidence { path: &record.path, names });
        let lesson = Lesson { name: &past.intent.name, intent: &past.intent.intent, evidence };
        let text = prompt::learn(&view.state, self.scene(&self.offer()), &told, &lesson);
        let derived = self.derive(&view);
        view.words.extend(derived.words);
        prompted(view, text, mark, turn::Kind::Learn)
    }

    /// Says what learning would record, and which pages would change. Records nothing.
    pub fn learn_dry(&self, account: &Path, progress: impl Fn(&str)) -> Result<(String, Vec<String>), Error> {
        let pace = Pace::from(self.world.now, &progress);
        let (account, mut past) = self.survey(account, pace)?;
        let mut view = self.look()?;
        past.recall(&view)?;
        let mut new = BTreeMap::<String, u64>::new();
        let mut deposits = account.record.as_ref().map(|record| record.deposits());
        while let Some(Ok(deposit)) = deposits.as_mut().map(Deposits::next_deposit).transpose()?.flatten() {
            let occurrence = past.ledger.meet(&deposit);
            if !past.ledger.holds(occurrence) {
                *new.entry(deposit.name.as_str().to_owned()).or_default() += 1;
            }
        }
        let mut words = std::mem::take(&mut view.words);
        words.extend(remarks(&account, &past.ledger));
        Ok((foretold(&view, &past, &new), words))
    }

    /// Opens an account and reads all of it.
    fn survey(&self, account: &Path, mut pace: Pace<'_>) -> Result<(Account, Past), Error> {
        let account = Account::open(account)?;
        let ledger = match &account.record {
            Some(record) => record.survey(&mut |line| {
                if line % 1024 == 0 {
                    pace.tell(|| format!("read {line} lines of {}", record.path.display()));
                }
            })?,
            None => Ledger::default(),
        };
        let intent = Intent { name: account.name.clone(), intent: account.intent.clone() };
        Ok((account, Past { ledger, position: Position::default(), intent, told: None, learned: None }))
    }
}

/// What is odd about an account, and no reason to refuse it.
fn remarks(account: &Account, ledger: &Ledger) -> Vec<String> {
    let mut words = Vec::new();
    match (&account.manifest, &account.record) {
        (Some(Err(reason)), _) => words.push(format!("the account's manifest cannot be read: {reason}")),
        (Some(Ok(manifest)), Some(record)) => {
            if manifest.record_sha256 != record.sha256 {
                words.push(format!(
                    "the record was edited since it was given: its sha256 is {}, its manifest says {}",
                    record.sha256, manifest.record_sha256
                ));
            }
            if manifest.events != ledger.events() {
                words.push(format!("the record holds {} events, its manifest says {}", ledger.events(), manifest.events));
            }
        }
        (Some(Ok(manifest)), None) => {
            words.push(format!("the account has no record, but its manifest speaks of {} events", manifest.events));
        }
        (None, _) => {}
    }
    if ledger.mended > 0 {
        let lines = if ledger.mended == 1 { "line" } else { "lines" };
        words.push(format!("lone surrogates in {} {lines} of the record; mended with U+FFFD", ledger.mended));
    }
    words
}

/// What a dry run says.
fn foretold(view: &View, past: &Past, new: &BTreeMap<String, u64>) -> String {
    let mut text = format!("learning `{}` would record:\n", past.intent.name);
    text.push_str(match past.told {
        Some(_) => "  its intent: told here already\n",
        None => "  its intent\n",
    });
    for (name, all) in &past.ledger.names {
        let fresh = new.get(name).copied().unwrap_or(0);
        let held = match all - fresh {
            0 => String::new(),
            held => format!(", {held} here already"),
        };
        text.push_str(&format!("  {name}: {fresh} new{held}\n"));
    }
    let pages = effect::pages_of(&view.state, |name| new.contains_key(name), past.told.is_none() || !new.is_empty());
    if pages.is_empty() {
        text.push_str("no page would change\n");
    } else {
        let named: Vec<_> = pages.iter().take(PAGES_NAMED_MAX).map(|page| page.name.as_str()).collect();
        let more = pages.len() - named.len();
        let rest = if more == 0 { String::new() } else { format!(", and {more} more") };
        text.push_str(&format!("pages that would change: {}{rest}\n", named.join(", ")));
    }
    text + "nothing was recorded\n"
}
