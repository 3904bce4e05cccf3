//! Keeping: the verbs that look after a home: retire, rehydrate.
//!
//! The invariant: a rebuild reads the log and the key and nothing else, and puts both folders in place whole.

use serde::Serialize;

use crate::batch::Unstamped;
use crate::capability::{Capability, CapabilityName, Kind};
use crate::effect::{self, page_path};
use crate::event::Door;
use crate::kernel::{Error, Kernel};
use crate::payload::Payload;
use crate::rendering::{Unrendered, installed, moved_aside, own_pages, script_book};
use crate::shelf::Book;
use crate::vocabulary::Word;

/// What a verb did, a line each, and whether part of it failed.
#[derive(Debug, Default)]
pub struct Kept {
    /// What the caller should be told.
    pub words: Vec<String>,
    /// Whether part of it failed.
    pub failed: bool,
}

#[derive(Serialize)]
struct Retired<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    name: &'a str,
}

impl Kernel {
    /// Takes a capability, `command/<name>` or `projector/<name>`, off the surface.
    pub fn retire(&self, target: &str) -> Result<Kept, Error> {
        let nothing = || Error::NothingToRetire(target.to_owned());
        let mut view = self.look()?;
        if view.position.highest == 0 {
            return Err(Error::NoHome(self.home.root().to_owned()));
        }
        let (kind, name) = target.split_once('/').ok_or_else(nothing)?;
        let kind = Kind::read(kind).ok_or_else(nothing)?;
        let capability = Capability { kind, name: CapabilityName::inherited(name).ok_or_else(nothing)? };
        view.state.standing(&capability).ok_or_else(nothing)?;
        let mut words = std::mem::take(&mut view.words);
        // What `.self/` forgot is recorded again, lest the script stay behind as a stranger's.
        if !self.shelf().held().contains_key(&effect::script_path(&capability)) {
            words.extend(self.derive(&view).words);
        }
        let payload = Payload::of(&Retired { kind: kind.word(), name });
        let landed = self.commit_sealed(&mut view, vec![Unstamped::word(Word::CapabilityRetired, Door::Cli, payload)])?;
        words.append(&mut view.words);
        words.extend(landed.iter().map(|event| format!("retired {capability}: seq {}", event.seq)));
        let derived = self.derive(&view);
        words.extend(derived.words);
        Ok(Kept { words, failed: derived.failed })
    }

    /// Rebuilds `capabilities/` and `site/` from the log and the key. A page whose projector fails keeps its old bytes.
    pub fn rehydrate(&self, progress: impl Fn(&str)) -> Result<Kept, Error> {
        let mut view = self.look()?;
        if view.log.is_none() {
            return Err(Error::NoHome(self.home.root().to_owned()));
        }
        self.home.make()?;
        let mut kept = Kept { words: std::mem::take(&mut view.words), failed: false };
        if !view.can_judge() {
            kept.words.push("nothing was rebuilt or removed: without the key no receipt can be proven".to_owned());
            return Ok(Kept { failed: true, ..kept });
        }
        let shelf = self.shelf();
        let held = shelf.held();
        let plan = effect::plan(&view.state, &Default::default());
        let mut books: Vec<Book> = own_pages(&view).into();
        let script = |capability: &Capability| Some(script_book(capability, installed(&view, capability)?));
        books.extend(plan.place.iter().filter_map(script));
        self.find_interpreters_anew(&view);
        let mut rendered = 0;
        for (at, capability) in plan.render.iter().enumerate() {
            progress(&format!("page {} of {}: {capability}", at + 1, plan.render.len()));
            match self.render(&view, capability) {
                Ok(book) => {
                    rendered += 1;
                    books.push(book);
                }
                Err(Unrendered::Stopped(signal)) => return Err(Error::Stopped(signal)),
                Err(Unrendered::Failed(fault)) => {
                    kept.words.push(fault);
                    kept.failed = true;
                    let path = page_path(capability.name.as_str());
                    let old = held.get(&path).filter(|held| held.is_intact).zip(shelf.read(&path));
                    books.extend(old.map(|(held, bytes)| Book {
                        path,
                        bytes,
                        receipt: held.written.receipt,
                        position: held.written.position,
                    }));
                }
            }
        }
        let rebuilt = shelf.rebuild(&books, &self.aside_moment())?;
        kept.words.extend(rebuilt.moved.iter().map(|path| moved_aside(path)));
        kept.words.extend(rebuilt.unplaced.iter().map(ToString::to_string));
        kept.failed |= !rebuilt.unplaced.is_empty();
        kept.words.push(format!("rebuilt scripts: {}, pages: {rendered}", plan.place.len()));
        Ok(kept)
    }
}
