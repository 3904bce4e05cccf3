//! The audit: what a log's lines prove of themselves, and each fault with its place.
//!
//! One pass over the lines in file order, in memory that grows by 16 bytes a record. Finds damaged lines, ids that stand twice,
//! batches with holes, numbers out of order, receipts and seals that do not hold. Never touches the disk and never stops at a
//! fault. The invariant: what [`Audit::proven`] names is covered by a seal of this key, and nothing in front of it was changed.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::event::{Door, Event};
use crate::log::Stood;
use crate::receipt::{Before, Form, Secret, verify};
use crate::record::{Frame, Line, Record};
use crate::seal::{Chain, Seal};
use crate::state::State;
use crate::vocabulary::Word;

/// How many faults are kept with their words; the others are counted.
pub const FAULTS_NAMED_MAX: usize = 1000;

/// How many bytes of an id's digest are kept.
const ID_BYTES: usize = 16;

/// A fault, and where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// The line's number, from 1; none for a fault outside of the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// Where the line starts, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// What is wrong.
    pub fault: String,
}

/// A place in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The event's number.
    pub seq: u64,
    /// Its line's number, from 1.
    pub line: u64,
    /// Where its line starts, in bytes.
    pub offset: u64,
}

/// A tail that was set aside, as its record tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetAside {
    /// Where it is told of.
    pub place: Place,
    /// Its name under `.self/torn/`.
    pub name: String,
    /// Its length, in bytes.
    pub bytes: u64,
    /// Its SHA-256, as hex digits.
    pub sha256: String,
}

/// The audit of one log.
#[derive(Debug)]
pub struct Audit {
    /// What the log says is so.
    pub state: State,
    /// How many records there are.
    pub events: u64,
    /// The highest number.
    pub highest: u64,
    /// The faults, in file order; the first [`FAULTS_NAMED_MAX`].
    pub faults: Vec<Fault>,
    /// How many faults there are.
    pub faults_found: u64,
    /// The newest seal up to which all seals hold.
    pub proven: Option<Place>,
    /// How many records stand behind the newest seal that holds.
    pub unsealed: u64,
    /// How many seals, and how many receipts, hold.
    pub seals: u64,
    /// How many receipts are genuine.
    pub receipts: u64,
    /// How many seals and receipts cannot be proven for want of the key.
    pub unproven: u64,
    /// Whether a seal does not hold: sealed lines were changed.
    pub is_broken: bool,
    /// The tails that were set aside.
    pub set_aside: Vec<SetAside>,
    secret: Option<Secret>,
    has_v3: bool,
    ids: HashSet<[u8; ID_BYTES]>,
    open: Option<Batch>,
    /// Where the stretch that the next seal covers starts.
    stretch: (u64, u64),
}

/// A batch whose end was not seen yet.
#[derive(Debug)]
struct Batch {
    id: String,
    k: u64,
    n: u64,
    line: u64,
    offset: u64,
}

#[derive(Deserialize)]
struct Recovered {
    offset: u64,
    bytes: u64,
    sha256: String,
}

impl Audit {
    /// An audit of a log from its start; without a secret no receipt and no seal can be proven.
    #[must_use]
    pub fn new(secret: Option<Secret>) -> Audit {
        Audit {
            state: State::new(secret.clone()),
            events: 0,
            highest: 0,
            faults: Vec::new(),
            faults_found: 0,
            proven: None,
            unsealed: 0,
            seals: 0,
            receipts: 0,
            unproven: 0,
            is_broken: false,
            set_aside: Vec::new(),
            secret,
            has_v3: false,
            ids: HashSet::new(),
            open: None,
            stretch: (1, 0),
        }
    }

    /// Takes the next line into account; `chain` stands in front of it.
    pub fn take(&mut self, stood: Stood<'_>, chain: &mut Chain) {
        let Stood { number, offset, whole, line } = stood;
        match line {
            Line::Blank => {}
            Line::Damaged => self.fault_at(number, offset, "damaged: neither a record nor blank".to_owned()),
            Line::Record(record) => self.record(record, (number, offset), whole, chain),
        }
    }

    /// Ends the audit at the end of the lines; the ids are needed no more.
    pub fn end(&mut self) {
        self.close_batch();
        self.ids = HashSet::new();
    }

    /// Adds a fault at a line.
    pub fn fault_at(&mut self, line: u64, offset: u64, fault: String) {
        self.add(Fault { line: Some(line), offset: Some(offset), fault });
    }

    /// Adds a fault outside of the log's lines.
    pub fn fault(&mut self, fault: String) {
        self.add(Fault { line: None, offset: None, fault });
    }

    fn add(&mut self, fault: Fault) {
        self.faults_found += 1;
        if self.faults.len() < FAULTS_NAMED_MAX {
            self.faults.push(fault);
        }
    }

    fn record(&mut self, record: Record<'_>, (line, offset): (u64, u64), whole: &[u8], chain: &mut Chain) {
        let due = self.highest + 1;
        match record.seq {
            None => self.fault_at(line, offset, format!("no usable seq; it counts as {due}")),
            Some(seq) if seq != due => self.fault_at(line, offset, format!("seq {seq} where {due} is due")),
            Some(_) => {}
        }
        self.id(record.id(), line, offset);
        let front = record.payload_in(whole).map_or(whole, |payload| &whole[..payload.start]);
        let seq = record.seq.unwrap_or(due);
        let event = record.at(seq);
        let place = Place { seq, line, offset };
        let is_kernels = event.via == Some(Door::Kernel);
        self.events += 1;
        self.unsealed += 1;
        self.state.apply(&event);
        match Word::of(&event.name) {
            Some(Word::LogSealed) => self.seal(&event, place, front, chain),
            Some(Word::ScriptCompiled) if Word::ScriptCompiled.counts_through(event.via.as_ref()) => {
                self.receipt(&event, place, Before { highest: self.highest, has_v3: self.has_v3 });
            }
            Some(Word::LogRecovered) if is_kernels => self.recovered(&event, place),
            None if is_kernels => {
                self.fault_at(line, offset, format!("`{}` through the kernel's door is none of its names", event.name));
            }
            Some(_) | None => {}
        }
        self.highest = self.highest.max(seq);
    }

    fn id(&mut self, id: &str, line: u64, offset: u64) {
        if !id.is_empty() {
            let digest = Sha256::digest(id.as_bytes());
            let mut short = [0; ID_BYTES];
            short.copy_from_slice(&digest[..ID_BYTES]);
            if !self.ids.insert(short) {
                self.fault_at(line, offset, format!("the id `{}` stands in front of it already", shortened(id)));
            }
        }
        self.frame(Frame::read(id), line, offset);
    }

    fn frame(&mut self, frame: Option<Frame<'_>>, line: u64, offset: u64) {
        if let Some(open) = &mut self.open {
            let goes_on = frame.is_some_and(|next| next.batch == open.id && (next.k, next.n) == (open.k + 1, open.n));
            if goes_on {
                open.k += 1;
                if open.k == open.n {
                    self.open = None;
                }
                return;
            }
        }
        self.close_batch();
        let Some(Frame { batch, k, n }) = frame else { return };
        if k != 1 {
            self.fault_at(line, offset, format!("record {k} of a batch of {n}, and the one before it is not in front of it"));
        }
        if k < n {
            self.open = Some(Batch { id: batch.to_owned(), k, n, line, offset });
        }
    }

    /// A batch that is still open ends without its last records.
    fn close_batch(&mut self) {
        if let Some(Batch { k, n, line, offset, .. }) = self.open.take() {
            self.fault_at(line, offset, format!("a batch of {n} begins or goes on here, and record {} does not follow", k + 1));
        }
    }

    fn seal(&mut self, event: &Event<'_>, place: Place, front: &[u8], chain: &mut Chain) {
        let Place { line, offset, .. } = place;
        let (from, from_offset) = std::mem::replace(&mut self.stretch, (line, offset));
        if event.via != Some(Door::Kernel) {
            return self.fault_at(line, offset, "a seal, but not through the kernel's door".to_owned());
        }
        let Some(secret) = &self.secret else {
            self.unproven += 1;
            return;
        };
        let seal = event.parse::<Seal>().filter(|seal| seal.is_signed(secret, front));
        let fault = match &seal {
            None => "this seal is not one of this key".to_owned(),
            Some(seal) if seal.digest != chain.digest() => {
                format!("lines {from} to {}, from byte {from_offset} on, are not those that this seal covers", line - 1)
            }
            Some(seal) if seal.through != self.highest => {
                format!("this seal is over seq {}, but the highest in front of it is {}", seal.through, self.highest)
            }
            Some(_) => {
                self.seals += 1;
                self.unsealed = 0;
                if !self.is_broken {
                    self.proven = Some(place);
                }
                return;
            }
        };
        self.is_broken = true;
        self.fault_at(line, offset, fault);
        // What follows is judged by itself: a seal of this key says what the digest here was.
        if let Some(seal) = seal {
            chain.go_on_from(&seal.digest);
            self.unsealed = 0;
        }
    }

    /// Checks a receipt that the state has taken in.
    fn receipt(&mut self, event: &Event<'_>, place: Place, before: Before) {
        let Some(secret) = &self.secret else {
            self.unproven += 1;
            return;
        };
        let Some(verified) = verify(secret, event, before) else {
            return self.fault_at(place.line, place.offset, "this receipt does not verify at its place: it is inert".to_owned());
        };
        self.has_v3 |= verified.form() == Form::V3;
        self.receipts += 1;
        let installed = self.state.standing(verified.capability()).and_then(|standing| standing.installed());
        if installed.is_none_or(|installed| installed.seq != event.seq) {
            let capability = verified.capability();
            let fault =
                format!("the declaration that this receipt of {capability} seals is not in front of it: it is not in force");
            self.fault_at(place.line, place.offset, fault);
        }
    }

    fn recovered(&mut self, event: &Event<'_>, place: Place) {
        let is_digest = |text: &str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        match event.parse::<Recovered>().filter(|recovered| is_digest(&recovered.sha256)) {
            None => self.fault_at(place.line, place.offset, "it names no tail that was set aside".to_owned()),
            Some(Recovered { offset, bytes, sha256 }) => {
                let name = format!("{offset}-{}", &sha256[..8]);
                self.set_aside.push(SetAside { place, name, bytes, sha256 });
            }
        }
    }
}

/// The start of an id of another program, which may be of any length.
fn shortened(id: &str) -> String {
    id.chars().take(64).collect()
}
