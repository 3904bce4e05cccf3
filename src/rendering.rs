//! Rendering: `capabilities/` and `site/` brought in line with the log, and pages shown.
//!
//! A page renders again only when events it consumes arrived since it was made, or its script changed. One failing projector stops
//! neither the others nor what called for them. The invariant: what runs is the receipt's bytes, never a file of the home.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::brief::brief;
use crate::capability::{Capability, CapabilityName, Kind};
use crate::effect::{self, Held, page_path, script_path};
use crate::feed::{Piece, Wanted};
use crate::grant::help;
use crate::kernel::{Error, Kernel, View};
use crate::level::Level;
use crate::page;
use crate::script::{Ending, Ran, ScriptError};
use crate::shelf::{Book, Shelf};
use crate::standing::Installed;
use crate::starting::{Input, Order, USUAL};

/// The surroundings a projector runs in; a page that differs between them is no pure function of its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Setting {
    /// As always.
    Usual,
    /// Another time zone, locale, hash seed and scratch path, and other process ids.
    Odd,
}

/// How many idle processes are started and reaped in front of an odd run, so that process ids differ.
const STRAY_PROCESSES: u32 = 8;

/// What bringing the disk in line came to.
#[derive(Debug, Default)]
pub struct Derived {
    /// What the caller should be told, a line each.
    pub words: Vec<String>,
    /// Whether anything failed.
    pub failed: bool,
    /// The signal that ended it, if one did; what was not rendered yet is, by the next command.
    pub stopped: Option<u8>,
}

impl Derived {
    fn tell(&mut self, outcome: Result<Option<PathBuf>, String>) {
        match outcome {
            Ok(None) => {}
            Ok(Some(moved)) => self.words.push(moved_aside(&moved)),
            Err(fault) => {
                self.words.push(fault);
                self.failed = true;
            }
        }
    }
}

/// Why a page could not be rendered.
pub(crate) enum Unrendered {
    /// In words.
    Failed(String),
    /// A signal ended the run.
    Stopped(u8),
}

impl From<String> for Unrendered {
    fn from(words: String) -> Unrendered {
        Unrendered::Failed(words)
    }
}

impl Kernel {
    pub(crate) fn shelf(&self) -> Shelf<'_> {
        Shelf::of(self.home.root(), self.home.own())
    }

    /// Brings the derived files in line with the log: scripts placed or taken away, pages rendered, the kernel's own pages.
    pub(crate) fn derive(&self, view: &View) -> Derived {
        let (stale, mut derived) = self.derive_but_pages(view);
        let moment = self.aside_moment();
        for capability in &stale {
            match self.render(view, capability) {
                Ok(book) => derived.tell(self.shelf().put(&book, &moment).map_err(|fault| fault.to_string())),
                Err(Unrendered::Failed(fault)) => derived.tell(Err(fault)),
                Err(Unrendered::Stopped(signal)) => {
                    derived.stopped = Some(signal);
                    return derived;
                }
            }
        }
        derived
    }

    /// The same but for the pages of projectors: gives those that have to be rendered.
    pub(crate) fn derive_but_pages(&self, view: &View) -> (Vec<Capability>, Derived) {
        let mut derived = Derived::default();
        if !view.can_judge() {
            return (Vec::new(), derived);
        }
        let shelf = self.shelf();
        let held = self.held(view);
        let plan = effect::plan(&view.state, &held);
        let moment = self.aside_moment();
        let put = |book: Book| shelf.put(&book, &moment).map_err(|fault| fault.to_string());
        for capability in &plan.place {
            if let Some(installed) = installed(view, capability) {
                derived.tell(put(script_book(capability, installed)));
            }
        }
        for path in &plan.remove {
            derived.tell(shelf.remove(path, &moment).map_err(|fault| fault.to_string()));
        }
        for book in own_pages(view) {
            let is_intact = held.get(&book.path).is_some_and(|held| held.is_intact);
            if !is_intact || shelf.read(&book.path).is_none_or(|bytes| bytes != book.bytes) {
                derived.tell(put(book));
            }
        }
        (plan.render, derived)
    }

    /// What is recorded of the derived files. Records from ahead of the log's end are forgotten: an older log was put back.
    fn held(&self, view: &View) -> BTreeMap<String, Held> {
        let mut held = self.shelf().held();
        let ahead_of = |held: &BTreeMap<String, Held>, seq| held.values().any(|one| one.written.position > seq);
        // Another process may only know more than this view; the log as it is now decides.
        if ahead_of(&held, view.state.seq())
            && let Ok(now) = self.look()
            && ahead_of(&held, now.state.seq())
            && self.shelf().forget_after(now.state.seq()).is_ok()
        {
            held.retain(|_, one| one.written.position <= now.state.seq());
        }
        held
    }

    /// The page of an installed projector.
    pub(crate) fn render(&self, view: &View, capability: &Capability) -> Result<Book, Unrendered> {
        let failed = |cause: String| Unrendered::Failed(format!("could not render {capability}: {cause}"));
        let Some(installed) = installed(view, capability) else { return Err(failed("it is not installed".to_owned())) };
        let wanted = Wanted { names: installed.consumes().to_vec(), last: installed.last() };
        let ran = match &view.log {
            None => self.run_projector(Some(capability), installed.receipt.script(), Setting::Usual, &mut || Ok(None)),
            Some(log) => {
                let mut feed = log.feed(wanted).map_err(|fault| failed(fault.to_string()))?;
                let mut next = || feed.next_piece().map_err(io::Error::other);
                self.run_projector(Some(capability), installed.receipt.script(), Setting::Usual, &mut next)
            }
        };
        let bytes = match ran {
            Err(Error::Stopped(signal)) => return Err(Unrendered::Stopped(signal)),
            Err(fault) => {
                let hint = fault.hint().map_or_else(String::new, |hint| format!("; {hint}"));
                return Err(failed(format!("{fault}{hint}")));
            }
            Ok(ran) => page_of(capability, ran).map_err(failed)?,
        };
        let path = page_path(capability.name.as_str());
        Ok(Book { path, bytes, receipt: installed.seq, position: view.state.seq() })
    }

    /// Runs a projector over bytes in memory; the page, or why its script gives none. An error is no fault of the script.
    pub(crate) fn project(
        &self,
        capability: &Capability,
        script: &str,
        input: &[u8],
        setting: Setting,
    ) -> Result<Result<Vec<u8>, String>, Error> {
        let mut rest = Some(input.to_vec());
        match self.run_projector(None, script, setting, &mut || Ok(rest.take().map(Piece::of))) {
            Ok(ran) => Ok(page_of(capability, ran)),
            Err(Error::Script(fault @ (ScriptError::Start(_) | ScriptError::Lost | ScriptError::Survivors))) => {
                Ok(Err(fault.to_string()))
            }
            Err(fault) => Err(fault),
        }
    }

    fn run_projector(&self, of: Option<&Capability>, script: &str, setting: Setting, feed: Input<'_>) -> Result<Ran, Error> {
        let (settings, strays) = match setting {
            Setting::Usual => (USUAL, 0),
            Setting::Odd => ([("TZ", "Pacific/Kiritimati"), ("LANG", "C"), ("PYTHONHASHSEED", "1")], STRAY_PROCESSES),
        };
        self.start(&Order { script, of, arguments: &[], settings, needs: None, strays }, feed)
    }

    /// A page by its name: rendered if events came since, the kernel's own, or a file of `site/`.
    pub fn show(&self, name: &str) -> Result<(String, Vec<String>), Error> {
        let mut view = self.look()?;
        let mut words = std::mem::take(&mut view.words);
        match name {
            "brief" => return Ok((brief(&view.state), words)),
            "kernel" => return Ok((page::kernel(&view.state), words)),
            _ => {}
        }
        let projector = CapabilityName::inherited(name).map(|name| Capability { kind: Kind::Projector, name });
        let projector = projector.filter(|capability| installed(&view, capability).is_some());
        let is_installed = projector.is_some();
        let page = match projector {
            Some(capability) => self.live_page(&view, &capability, &mut words)?,
            None => {
                let stands = |path: String| self.shelf().read(&path);
                let safe = CapabilityName::inherited(name).is_some() && !name.contains('/');
                safe.then(|| stands(format!("site/{name}")).or_else(|| stands(page_path(name)))).flatten()
            }
        };
        let bytes = page.ok_or_else(|| match words.pop() {
            Some(fault) if is_installed => Error::NoPage(fault),
            _ => Error::NoProjection(name.to_owned()),
        })?;
        Ok((String::from_utf8_lossy(&bytes).into_owned(), words))
    }

    /// The page as of now. If its script was changed on disk, or it fails, the page that stands.
    pub(crate) fn live_page(
        &self,
        view: &View,
        capability: &Capability,
        words: &mut Vec<String>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let shelf = self.shelf();
        let path = page_path(capability.name.as_str());
        if let Some(altered) = self.altered(view, capability) {
            words.push(altered);
            return Ok(shelf.read(&path));
        }
        let held = self.held(view);
        let current = installed(view, capability)
            .zip(held.get(&path))
            .is_some_and(|(installed, held)| effect::is_current(&view.state, installed, held));
        if current && let Some(bytes) = shelf.read(&path) {
            return Ok(Some(bytes));
        }
        match self.render(view, capability) {
            Ok(book) => {
                let placed = self.place_script(view, capability);
                let put = placed.and_then(|()| shelf.put(&book, &self.aside_moment()).map_err(|fault| fault.to_string()));
                match put {
                    Ok(moved) => words.extend(moved.map(|path| moved_aside(&path))),
                    Err(fault) => words.push(fault),
                }
                Ok(Some(book.bytes))
            }
            Err(Unrendered::Stopped(signal)) => Err(Error::Stopped(signal)),
            Err(Unrendered::Failed(fault)) => {
                words.push(fault);
                Ok(shelf.read(&path))
            }
        }
    }

    /// Puts a script in place that never was, after a crash or without a `.self/`.
    pub(crate) fn place_script(&self, view: &View, capability: &Capability) -> Result<(), String> {
        let Some(installed) = installed(view, capability) else { return Ok(()) };
        if self.was_placed(capability, installed) {
            return Ok(());
        }
        self.shelf().put(&script_book(capability, installed), &self.aside_moment()).map(drop).map_err(|fault| fault.to_string())
    }

    /// Whether the script of this receipt was put in place once.
    fn was_placed(&self, capability: &Capability, installed: &Installed) -> bool {
        self.shelf().held().get(&script_path(capability)).is_some_and(|held| held.written.receipt == installed.seq)
    }

    /// Whether a script that was put in place is missing on disk now, or another; in words, with both ways out.
    pub(crate) fn altered(&self, view: &View, capability: &Capability) -> Option<String> {
        let installed = installed(view, capability)?;
        if !self.was_placed(capability, installed) {
            return None;
        }
        let path = script_path(capability);
        let what = match self.shelf().read(&path) {
            Some(bytes) if bytes == installed.receipt.script().as_bytes() => return None,
            Some(_) => "is not what was signed",
            None => "is missing, or no plain file",
        };
        Some(format!(
            "`{path}` {what}; `self rehydrate` puts the signed script back, or declare {capability} and have it authored anew"
        ))
    }

    /// The name of the folder for what is moved aside now: `YYYYMMDDTHHMMSSZ`.
    pub(crate) fn aside_moment(&self) -> String {
        (self.world.now)().strftime("%Y%m%dT%H%M%SZ").to_string()
    }
}

/// Says where a stranger's file went.
pub(crate) fn moved_aside(to: &Path) -> String {
    format!("moved a file that self did not write to {}", to.display())
}

/// The script in force.
pub(crate) fn installed<'v>(view: &'v View, capability: &Capability) -> Option<&'v Installed> {
    view.state.standing(capability).and_then(|standing| standing.installed())
}

pub(crate) fn script_book(capability: &Capability, installed: &Installed) -> Book {
    let bytes = installed.receipt.script().as_bytes().to_vec();
    Book { path: script_path(capability), bytes, receipt: installed.seq, position: installed.seq }
}

/// The kernel's own pages.
pub(crate) fn own_pages(view: &View) -> [Book; 2] {
    let [brief_path, kernel_path] = effect::OWN_PAGES.map(str::to_owned);
    let position = view.state.seq();
    [(brief_path, brief(&view.state)), (kernel_path, page::kernel(&view.state))].map(|(path, text)| Book {
        path,
        bytes: text.into_bytes(),
        receipt: 0,
        position,
    })
}

/// A projector's page, or why there is none.
fn page_of(projector: &Capability, ran: Ran) -> Result<Vec<u8>, String> {
    if ran.ending != Ending::Exited(0) {
        let said = String::from_utf8_lossy(&ran.stderr);
        let help = help(projector, &[], &said).filter(|_| ran.level > Level::Limits);
        let help = help.map_or_else(String::new, |help| format!("; {help}"));
        return Err(format!("{}: {}", ran.ending, said.trim()).trim_end_matches(": ").to_owned() + &help);
    }
    match String::from_utf8(ran.stdout) {
        Ok(page) => Ok(page.into_bytes()),
        Err(_) => Err("the page is not UTF-8".to_owned()),
    }
}
