//! Snapshots: a state as something small, from which it is made again.
//!
//! What is big (declarations, receipts, rejections, what was said) is kept as the place of its record in the log, and is read
//! there again: a receipt is verified again each time. Never reads the log itself. The invariant: a state that was made again
//! equals the one that the snapshot was taken of, or none is made.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::capability::{Capability, CapabilityName, Kind};
use crate::event::Event;
use crate::names::{Named, Names};
use crate::receipt::{Before, Secret, verify};
use crate::record::Line;
use crate::saying::{Turn, death, declared, notice, rejection, turn, waiting};
use crate::standing::{At, Declared, Installed, Origin, Standing};
use crate::state::{Counts, State};

/// Where a record stands, and its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    offset: u64,
    bytes: u32,
    seq: u64,
}

impl Kept {
    fn of(origin: &Origin) -> Kept {
        Kept { offset: origin.at.offset, bytes: origin.at.bytes, seq: origin.seq }
    }

    fn at(self) -> At {
        At { offset: self.offset, bytes: self.bytes }
    }
}

/// How a capability stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Stood {
    is_command: bool,
    name: String,
    declarations: Vec<Kept>,
    /// The receipt, and the declaration it was installed under.
    installed: Option<(Kept, Option<Kept>)>,
    unproven: Option<u64>,
    rejections: Vec<Kept>,
    deaths: Vec<Kept>,
    failures: u32,
    scripts: BTreeMap<String, u32>,
}

/// A state, but for what stands in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    highest: u64,
    has_v3: bool,
    events: u64,
    signed: bool,
    doubted: u64,
    proven: u64,
    capabilities: Vec<Stood>,
    inherited: Vec<(bool, String, Vec<Kept>)>,
    notices: Vec<Kept>,
    turns: Vec<Kept>,
    asks: Vec<u64>,
    waiting: Option<Kept>,
    names: Vec<Named>,
    other_names: Named,
    counts: Counts,
}

impl Snapshot {
    /// Takes a snapshot of a state.
    #[must_use]
    pub fn of(state: &State) -> Snapshot {
        let declared = |all: &[Declared]| all.iter().map(|declared| Kept::of(&declared.origin)).collect::<Vec<_>>();
        let stood = |(capability, standing): (&Capability, &Standing)| Stood {
            is_command: capability.kind == Kind::Command,
            name: capability.name.as_str().to_owned(),
            declarations: declared(&standing.declarations),
            installed: standing.installed.as_ref().map(|Installed { seq, at, declaration, .. }| {
                let receipt = Kept { offset: at.offset, bytes: at.bytes, seq: *seq };
                (receipt, declaration.as_ref().map(|declared| Kept::of(&declared.origin)))
            }),
            unproven: standing.unproven,
            rejections: standing.rejections.iter().map(|rejection| Kept::of(&rejection.origin)).collect(),
            deaths: standing.deaths.iter().map(|death| Kept::of(&death.origin)).collect(),
            failures: standing.failures,
            scripts: standing.scripts.clone(),
        };
        let inherited =
            |((kind, name), all): (&(Kind, String), &Vec<Declared>)| (*kind == Kind::Command, name.clone(), declared(all));
        let (names, other_names) = state.names.entries();
        Snapshot {
            highest: state.before.highest,
            has_v3: state.before.has_v3,
            events: state.events,
            signed: state.signed,
            doubted: state.doubted,
            proven: state.proven,
            capabilities: state.capabilities.iter().map(stood).collect(),
            inherited: state.inherited.iter().map(inherited).collect(),
            notices: state.notices.iter().map(|notice| Kept::of(&notice.origin)).collect(),
            turns: state.turns.iter().map(|turn| Kept::of(&turn.origin)).collect(),
            asks: state.asks.iter().copied().collect(),
            waiting: state.waiting.as_ref().map(|turn| Kept::of(&turn.origin)),
            names: names.to_vec(),
            other_names: other_names.clone(),
            counts: Counts::clone(&state.counts),
        }
    }

    /// How many events the state takes into account.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The event names that have an entry, in order.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.names.iter().map(|named| named.name.as_str()).collect();
        names.sort_unstable();
        names
    }

    /// The capabilities on the surface, in order of kind and name, and whether each is installed.
    pub fn capabilities(&self) -> impl Iterator<Item = (Kind, &str, bool)> {
        self.capabilities.iter().map(|stood| (kind(stood.is_command), stood.name.as_str(), stood.installed.is_some()))
    }

    /// Makes the state again; `fetch` reads a record of the log. `None` if something does not stand there any more.
    #[must_use]
    pub fn restore(self, verifier: Option<Secret>, fetch: impl FnMut(At) -> Option<Vec<u8>>) -> Option<State> {
        let mut shelf = Reading { verifier, fetch };
        let mut state = State::new(shelf.verifier.clone());
        state.before = Before { highest: self.highest, has_v3: self.has_v3 };
        (state.events, state.signed, state.doubted, state.proven) = (self.events, self.signed, self.doubted, self.proven);
        for stood in self.capabilities {
            let (capability, standing) = shelf.standing(stood)?;
            state.capabilities.insert(capability, standing);
        }
        for (is_command, name, all) in self.inherited {
            let kind = kind(is_command);
            let all = all.into_iter().map(|kept| shelf.declared(kind, kept)).collect::<Option<_>>()?;
            state.inherited.insert((kind, name), all);
        }
        for kept in self.notices {
            state.notices.push(shelf.read(kept, notice)?);
        }
        for kept in self.turns {
            state.turns.push_back(shelf.read(kept, turn)?);
        }
        state.asks = self.asks.into_iter().collect();
        state.waiting = self.waiting.map(|kept| shelf.read::<Turn>(kept, waiting)).map_or(Some(None), |turn| turn.map(Some))?;
        state.names = Names::from(self.names, self.other_names).into();
        state.counts = self.counts.into();
        Some(state)
    }
}

fn kind(is_command: bool) -> Kind {
    if is_command { Kind::Command } else { Kind::Projector }
}

/// The log, read at places that are known.
struct Reading<F> {
    verifier: Option<Secret>,
    fetch: F,
}

impl<F: FnMut(At) -> Option<Vec<u8>>> Reading<F> {
    fn read<T>(&mut self, kept: Kept, make: impl FnOnce(&Event<'_>, At) -> Option<T>) -> Option<T> {
        let line = (self.fetch)(kept.at())?;
        match Line::read(&line) {
            Line::Record(record) if record.seq.is_none_or(|seq| seq == kept.seq) => make(&record.at(kept.seq), kept.at()),
            Line::Record(_) | Line::Blank | Line::Damaged => None,
        }
    }

    fn declared(&mut self, kind: Kind, kept: Kept) -> Option<Declared> {
        self.read(kept, |event, at| declared(kind, event, at)).map(|(declared, _)| declared)
    }

    fn standing(&mut self, stood: Stood) -> Option<(Capability, Standing)> {
        let kind = kind(stood.is_command);
        let capability = Capability { kind, name: CapabilityName::inherited(&stood.name)? };
        let declarations = stood.declarations.into_iter().map(|kept| self.declared(kind, kept)).collect::<Option<Vec<_>>>()?;
        let installed = match stood.installed {
            None => None,
            Some((kept, under)) => {
                let verifier = self.verifier.clone()?;
                // What stood in front of it was judged when it was folded; the snapshot is authenticated.
                let before = Before { highest: kept.seq.saturating_sub(1), has_v3: false };
                let receipt = self.read(kept, |event, _| verify(&verifier, event, before))?;
                let declaration = match under {
                    None => None,
                    Some(under) => match declarations.iter().find(|declared| Kept::of(&declared.origin) == under) {
                        Some(declared) => Some(declared.clone()),
                        None => Some(self.declared(kind, under)?),
                    },
                };
                Some(Installed { seq: kept.seq, at: kept.at(), receipt, declaration })
            }
        };
        let standing = Standing {
            declarations,
            installed,
            unproven: stood.unproven,
            rejections: stood.rejections.into_iter().map(|kept| self.read(kept, rejection)).collect::<Option<_>>()?,
            deaths: stood.deaths.into_iter().map(|kept| self.read(kept, death)).collect::<Option<_>>()?,
            failures: stood.failures,
            scripts: stood.scripts,
        };
        Some((capability, standing))
    }
}
