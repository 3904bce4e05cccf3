//! Verifying: the verb that proves a home, from its log to its pages.
//!
//! Reads the log once; pages are rendered in scratch and compared, never in place. Changes nothing, unless it is asked for a seal.
//! The invariant: what is reported as proven was checked just now, against the bytes on the disk.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::path::Path;

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::audit::{Audit, FAULTS_NAMED_MAX, Fault, Place, SetAside};
use crate::batch::Close;
use crate::capability::{Capability, Kind};
use crate::effect::{self, Held, page_path, script_path};
use crate::head::{Head, Memory};
use crate::kernel::{Error, Kernel, Key, View};
use crate::lines::copy;
use crate::log::Log;
use crate::pace::Pace;
use crate::quotation::on_one_line;
use crate::rendering::{Unrendered, installed, own_pages};
use crate::seal::Chain;
use crate::standing::Installed;
use crate::state::State;

/// After how many bytes of the log it looks at the clock.
const STRIDE_BYTES: u64 = 1 << 20;

/// What verifying found.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Whether there is no fault.
    pub ok: bool,
    /// How many records, lines and bytes the log has, up to the end of its last whole batch.
    pub events: u64,
    /// Its lines.
    pub lines: u64,
    /// Its bytes.
    pub bytes: u64,
    /// The newest seal up to which nothing was changed.
    pub proven: Option<Place>,
    /// How many records stand behind the newest seal.
    pub unsealed: u64,
    /// How many seals hold.
    pub seals: u64,
    /// How many receipts are genuine.
    pub receipts: u64,
    /// How many seals and receipts cannot be proven for want of the key.
    pub unproven: u64,
    /// How many scripts and pages are on disk as they must be.
    pub derived: u64,
    /// The pages that are behind the log; the next command that needs them renders them.
    pub stale: Vec<String>,
    /// What is worth knowing, and no fault.
    pub notes: Vec<String>,
    /// The faults; of very many, the first.
    pub faults: Vec<Fault>,
    /// How many faults there are.
    pub faults_found: u64,
}

impl Report {
    /// The report as a person reads it.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("log: events {}, lines {}, bytes {}\n", self.events, self.lines, self.bytes);
        let mut line = |line: String| {
            let _ = writeln!(text, "{}", on_one_line(&line));
        };
        line(match self.proven {
            Some(Place { seq, line, offset }) => {
                format!("proven: all lines in front of the seal at seq {seq}, line {line}, byte {offset}")
            }
            None => "proven: nothing; no seal covers these lines".to_owned(),
        });
        line(format!("not sealed yet: events {}", self.unsealed));
        line(format!(
            "seals that hold: {}, genuine receipts: {}, derived files as they must be: {}",
            self.seals, self.receipts, self.derived
        ));
        self.stale.iter().for_each(|page| line(format!("stale: {page}")));
        self.notes.iter().for_each(|note| line(format!("note: {note}")));
        for Fault { line: number, offset, fault } in &self.faults {
            line(match number.zip(*offset) {
                Some((number, offset)) => format!("fault: line {number}, byte {offset}: {fault}"),
                None => format!("fault: {fault}"),
            });
        }
        if self.faults_found > FAULTS_NAMED_MAX as u64 {
            line(format!("fault: and {} more", self.faults_found - FAULTS_NAMED_MAX as u64));
        }
        line(match self.faults_found {
            0 => "no fault".to_owned(),
            found => format!("faults: {found}"),
        });
        text
    }

    /// The report as one line of JSON.
    #[must_use]
    pub fn json(&self) -> String {
        serde_json::to_string(self).map(|line| line + "\n").unwrap_or_default()
    }
}

/// A log that was gone through.
struct Read {
    audit: Audit,
    view: View,
    lines: u64,
    bytes: u64,
    notes: Vec<String>,
    /// Whether the log is as long as it is remembered to have been.
    is_all_there: bool,
}

impl Kernel {
    /// Proves the home; with `seal`, seals what holds and is not sealed yet. `progress` hears a line now and then.
    pub fn verify(&self, seal: bool, progress: impl Fn(&str)) -> Result<Report, Error> {
        let mut pace = Pace::from(self.world.now, &progress);
        let mut read = self.read_through(&mut pace)?;
        if seal {
            let told = self.seal_up(&read)?;
            if let Some(seq) = told.sealed {
                read = self.read_through(&mut pace)?;
                read.notes.push(format!("sealed: seq {seq}"));
            }
            read.notes.extend(told.unsealed_for);
        }
        self.check_set_aside(&mut read);
        let (mut derived, mut stale) = (0, Vec::new());
        if read.view.can_judge() {
            self.check_scripts(&mut read, &mut derived)?;
            self.check_pages(&mut read, &mut derived, &mut stale, &mut pace)?;
        } else {
            read.notes.push("scripts and pages were not compared: without the key no receipt is in force".to_owned());
        }
        let Read { audit, lines, bytes, notes, .. } = read;
        Ok(Report {
            ok: audit.faults_found == 0,
            events: audit.events,
            lines,
            bytes,
            proven: audit.proven,
            unsealed: audit.unsealed,
            seals: audit.seals,
            receipts: audit.receipts,
            unproven: audit.unproven,
            derived,
            stale,
            notes,
            faults: audit.faults,
            faults_found: audit.faults_found,
        })
    }

    /// Goes through the log, line by line.
    fn read_through(&self, pace: &mut Pace<'_>) -> Result<Read, Error> {
        let mut view = self.unread();
        // Recalled before the log is opened: what is appended from here on cannot be missed.
        let remembered = self.memory(view.secret.as_ref()).as_ref().and_then(Memory::recall);
        let log = Log::open(&self.home.places())?.ok_or_else(|| Error::NoHome(self.home.root().to_owned()))?;
        let tail = log.tail();
        let (mut audit, mut chain, mut told) = (Audit::new(view.secret.clone()), Chain::default(), STRIDE_BYTES);
        log.chain(&mut chain, |stood, chain| {
            if stood.offset >= told {
                pace.tell(|| format!("verified {} of {} MiB of the log", stood.offset >> 20, tail.whole >> 20));
                told = stood.offset + STRIDE_BYTES;
            }
            audit.take(stood, chain);
        })?;
        audit.end();
        let mut notes = Vec::new();
        if tail.torn_bytes() > 0 {
            let line = chain.lines() + u64::from(!tail.lacks_newline);
            let what = format!("{} bytes from here on are no whole batch", tail.torn_bytes());
            match log.steady() {
                true => audit.fault_at(line, tail.whole, format!("torn: {what}; the next append sets them aside")),
                false => notes.push(format!("byte {}: {what}; a write may be under way", tail.whole)),
            }
        }
        let is = Head { seq: audit.highest, bytes: tail.size };
        let was = remembered.filter(|was| was.is_beyond(is));
        if let Some(was) = was {
            audit.fault(was.missing_in(is));
        }
        let words = std::mem::take(&mut view.words);
        match view.key {
            Key::Here => {}
            Key::Refused => audit.fault(words.join("; ")),
            Key::Missing if audit.state.is_signed() => {
                let unproven = audit.unproven;
                audit.fault(format!("the key `.secret` is missing: seals and receipts that cannot be proven: {unproven}"));
            }
            Key::Missing => notes.push("there is no key yet, and nothing that was signed with one".to_owned()),
        }
        view.position.highest = audit.highest;
        view.log = Some(log);
        view.state = std::mem::replace(&mut audit.state, State::new(None));
        Ok(Read { audit, view, lines: chain.lines(), bytes: tail.whole, notes, is_all_there: was.is_none() })
    }

    /// Seals the log, unless it is sealed to its end, or something says that what it holds was changed.
    fn seal_up(&self, read: &Read) -> Result<Sealing, Error> {
        let for_want = |why: &str| Ok(Sealing { sealed: None, unsealed_for: Some(format!("nothing was sealed: {why}")) });
        if read.audit.is_broken || !read.is_all_there {
            return for_want("lines that were sealed, or remembered, are not there as they were");
        }
        if !read.view.can_judge() {
            return for_want("the key is not here");
        }
        if read.audit.unsealed == 0 && read.audit.seals > 0 {
            return for_want("all is sealed already");
        }
        let mut view = self.look()?;
        self.commit_with(&mut view, Close::Seal, |_, _, _| Ok(Vec::new()))?;
        Ok(Sealing { sealed: Some(view.position.highest), unsealed_for: None })
    }

    fn check_set_aside(&self, read: &mut Read) {
        let folder = self.home.places().torn;
        for SetAside { place, name, bytes, sha256 } in std::mem::take(&mut read.audit.set_aside) {
            match digest(&folder.join(&name)) {
                Ok(found) if found == (bytes, sha256) => {}
                Ok(_) => {
                    let fault = format!("`.self/torn/{name}` is not the tail that was set aside");
                    read.audit.fault_at(place.line, place.offset, fault);
                }
                Err(fault) if fault.kind() == io::ErrorKind::NotFound => {
                    read.notes.push(format!("`.self/torn/{name}`, set aside by seq {}, is not here", place.seq));
                }
                Err(fault) => {
                    read.audit.fault_at(place.line, place.offset, format!("`.self/torn/{name}` cannot be read: {fault}"));
                }
            }
        }
    }

    /// Compares `capabilities/` with the receipts in force.
    fn check_scripts(&self, read: &mut Read, derived: &mut u64) -> Result<(), Error> {
        let Read { audit, view, notes, .. } = read;
        let shelf = self.shelf();
        let held = shelf.held();
        let mut wanted = BTreeMap::new();
        for (capability, standing) in view.state.capabilities() {
            if let Some(installed) = standing.installed() {
                wanted.insert(script_path(capability), (capability.clone(), installed));
            }
        }
        for (path, (capability, installed)) in &wanted {
            let was_placed = held.get(path).is_some_and(|held| held.written.receipt == installed.seq);
            let is_older = !was_placed && held.get(path).is_some_and(|held| held.is_intact);
            match shelf.read(path) {
                Some(bytes) if bytes == installed.receipt.script().as_bytes() => *derived += 1,
                Some(_) if !is_older => audit.fault(format!("`{path}` is not the script that was signed for {capability}")),
                None if was_placed => audit.fault(format!("`{path}` is missing, or no plain file")),
                Some(_) | None => notes.push(format!("`{path}` is not in place yet; the next command puts it there")),
            }
        }
        for path in shelf.found("capabilities")? {
            match held.get(&path).filter(|held| held.is_intact) {
                _ if wanted.contains_key(&path) => {}
                Some(held) if held.written.position > view.state.seq() => {}
                Some(_) => notes.push(format!("`{path}` is in force no more; the next command takes it away")),
                None => audit.fault(format!("`{path}` is no script in force")),
            }
        }
        Ok(())
    }

    /// Compares the pages that are recorded as current with new renderings.
    fn check_pages(&self, read: &mut Read, derived: &mut u64, stale: &mut Vec<String>, pace: &mut Pace<'_>) -> Result<(), Error> {
        let Read { audit, view, .. } = read;
        let shelf = self.shelf();
        let held = shelf.held();
        let now = view.state.seq();
        let mut compare = |path: &str, bytes: Result<Vec<u8>, String>| match (bytes, shelf.read(path)) {
            (Err(fault), _) => audit.fault(format!("`{path}` could not be compared: {fault}")),
            (Ok(bytes), Some(found)) if found == bytes => *derived += 1,
            (Ok(_), Some(_)) => audit.fault(format!("`{path}` is not what a new rendering gives")),
            (Ok(_), None) => audit.fault(format!("`{path}` is missing, or no plain file")),
        };
        for book in own_pages(view) {
            let Some(held) = held.get(&book.path).filter(|held| held.written.position <= now) else { continue };
            let is_same = shelf.read(&book.path).is_some_and(|found| found == book.bytes);
            if held.written.position == now || is_same || !held.is_intact {
                compare(&book.path, Ok(book.bytes));
            } else {
                stale.push(book.path);
            }
        }
        let projectors = view.state.capabilities().filter(|(capability, _)| capability.kind == Kind::Projector);
        let pages: Vec<(String, &Capability, &Installed)> = projectors
            .filter_map(|(capability, _)| Some((page_path(capability.name.as_str()), capability, installed(view, capability)?)))
            .collect();
        for (at, (path, capability, installed)) in pages.iter().enumerate() {
            match held.get(path) {
                Some(Held { written, .. }) if written.position > now => {}
                Some(held) if effect::is_recorded_current(&view.state, installed, held) => {
                    pace.tell(|| format!("page {} of {}: {capability}", at + 1, pages.len()));
                    match self.render(view, capability) {
                        Ok(book) => compare(path, Ok(book.bytes)),
                        Err(Unrendered::Stopped(signal)) => return Err(Error::Stopped(signal)),
                        Err(Unrendered::Failed(fault)) => compare(path, Err(fault)),
                    }
                }
                Some(_) | None => stale.push(path.clone()),
            }
        }
        Ok(())
    }
}

/// Whether a seal was written, or why not.
struct Sealing {
    sealed: Option<u64>,
    unsealed_for: Option<String>,
}

/// The length and the SHA-256 of a file.
fn digest(path: &Path) -> io::Result<(u64, String)> {
    let file = File::open(path)?;
    let bytes = file.metadata()?.len();
    let mut digest = Sha256::new();
    copy(&file, 0..bytes, |piece| {
        digest.update(piece);
        Ok(())
    })?;
    Ok((bytes, hex::encode(digest.finalize())))
}
