//! Serving: a home kept at hand for many requests at once.
//!
//! What was read of the log stays in memory and is brought up to date by one look at the file a request; pages are rendered when
//! their events came, washed once, and kept. Knows no network, and leaves to its caller that a page is made once for all who ask. The
//! invariant: what is answered is never older than the log was when the request came, and no lock is held while a script runs.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};

use jiff::civil::Date;
use jiff::{SignedDuration, Timestamp};

use crate::address::{Asked, Nowhere};
use crate::batch::Close;
use crate::capability::Capability;
use crate::changes::EVENTS_MAX;
use crate::effect::{newest_consumed, page_path};
use crate::event::{Door, Speaker};
use crate::history::History;
use crate::kernel::{Caller, Error, Kernel, View};
use crate::profile::Profile;
use crate::rendering::installed;
use crate::running::Outcome;
use crate::stop::Stop;
use crate::telling::Told;
use crate::today::Today;
use crate::wash::{Washed, wash};

/// How much mark-up is kept in memory, in bytes.
pub const PAGES_BYTES_MAX: usize = 16 << 20;

/// How long a page that could not be rendered is not tried again, in seconds.
const FAILED_SECONDS: i64 = 5;

/// A home at hand.
pub struct Site {
    kernel: Kernel,
    seen: Mutex<Seen>,
    pages: Mutex<BTreeMap<String, Arc<Page>>>,
    /// The newest events, told, and of which view they are.
    newest: Mutex<(Weak<View>, Arc<[Told]>)>,
    recorded: AtomicBool,
}

/// What was read of the log, and what its file looked like then.
struct Seen {
    view: Arc<View>,
    facts: Option<Facts>,
}

/// What tells a file from what it was: device, inode, size, and when it was changed.
type Facts = (u64, u64, u64, i64, i64);

/// A page that may be sent.
pub struct Page {
    /// Its mark-up, or why there is none.
    pub made: Result<Washed, String>,
    /// What the reader should be told above it.
    pub words: Vec<String>,
    receipt: u64,
    consumed: u64,
    /// When it is worth another try.
    until: Option<Timestamp>,
}

impl Page {
    fn bytes(&self) -> usize {
        self.made.as_ref().map_or(0, |washed| washed.html.len())
    }
}

/// A lock that a panic elsewhere does not spoil: what it guards is replaced whole.
fn locked<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Kernel {
    /// The same home for another caller, who stands in it and speaks for himself.
    fn beside(&self, speaker: Option<Speaker>, stop: Stop) -> Kernel {
        let folder = self.home.root().to_owned();
        let caller = Caller { speaker, mind: None, folder, ..self.caller.clone() };
        let mut beside = Kernel::new(self.home.clone(), caller, self.world);
        beside.stop = Some(stop);
        beside.convoy = self.convoy.clone();
        beside
    }
}

impl Site {
    /// Opens a home to be served: makes it if it is none, and rebuilds what is derived. `stop` ends its scripts. Gives what the
    /// caller should be told; a home that cannot be written is served as it stands.
    ///
    /// # Errors
    /// When the home can be neither read nor made, or a signal came.
    pub fn open(kernel: &Kernel, stop: Stop, progress: impl Fn(&str)) -> Result<(Site, Vec<String>), Error> {
        let mut kernel = kernel.beside(None, stop);
        kernel.convoy = Some(Arc::default());
        let mut view = kernel.look()?;
        if view.position.highest == 0 {
            kernel.commit_with(&mut view, Close::Opening, |_, _, _| Ok(Vec::new()))?;
        }
        let mut words = std::mem::take(&mut view.words);
        match kernel.rehydrate(progress) {
            Ok(kept) => words.extend(kept.words.into_iter().filter(|line| !words.contains(line)).collect::<Vec<_>>()),
            Err(fault @ Error::Stopped(_)) => return Err(fault),
            Err(fault) if fault.is_of_the_disk() || matches!(fault, Error::Shelf(_)) => words.push(fault.to_string()),
            Err(fault) => return Err(fault),
        }
        words.extend(kernel.missing());
        words.extend(kernel.unconfined());
        let seen = Mutex::new(Seen { view: Arc::new(view), facts: None });
        let newest = Mutex::new((Weak::new(), Arc::from([])));
        let site = Site { kernel, seen, pages: Mutex::default(), newest, recorded: AtomicBool::new(false) };
        Ok((site, words))
    }

    /// The moment.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        (self.kernel.world.now)()
    }

    /// Random bytes for a token.
    ///
    /// # Errors
    /// When the system gives none.
    pub fn random(&self) -> Result<[u8; 32], Error> {
        self.kernel.random()
    }

    fn facts(&self) -> Option<Facts> {
        let facts = fs::metadata(self.kernel.home.places().log).ok()?;
        Some((facts.dev(), facts.ino(), facts.size(), facts.mtime(), facts.mtime_nsec()))
    }

    /// What the log says, if nothing was appended since it was read; never waits.
    #[must_use]
    pub fn at_hand(&self) -> Option<Arc<View>> {
        let facts = self.facts();
        let seen = match self.seen.try_lock() {
            Ok(seen) => seen,
            Err(TryLockError::Poisoned(seen)) => seen.into_inner(),
            // It is being read: whoever asks here must not wait.
            Err(TryLockError::WouldBlock) => return None,
        };
        (seen.facts.is_some() && seen.facts == facts && !seen.view.is_misread()).then(|| Arc::clone(&seen.view))
    }

    /// What the log says now.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn fresh(&self) -> Result<Arc<View>, Error> {
        // Looked at before it is read: what is appended meanwhile is seen the next time.
        let facts = self.facts();
        let mut seen = locked(&self.seen);
        if seen.facts.is_some() && seen.facts == facts && !seen.view.is_misread() {
            return Ok(Arc::clone(&seen.view));
        }
        let mut view = self.kernel.look()?;
        view.words.clear();
        *seen = Seen { view: Arc::new(view), facts };
        Ok(Arc::clone(&seen.view))
    }

    /// A page that is kept and takes into account all that its projector would be fed.
    #[must_use]
    pub fn kept(&self, view: &View, capability: &Capability) -> Option<Arc<Page>> {
        let installed = installed(view, capability)?;
        let consumed = newest_consumed(&view.state, installed);
        let page = locked(&self.pages).get(capability.name.as_str()).map(Arc::clone)?;
        let is_current = page.receipt == installed.seq && page.consumed >= consumed;
        (is_current && page.until.is_none_or(|until| self.now() < until)).then_some(page)
    }

    /// The page of an installed projector; rendered if events came since.
    ///
    /// # Errors
    /// When a signal ended its run, or there is no such projector.
    pub fn page(&self, view: &View, capability: &Capability) -> Result<Arc<Page>, Error> {
        let name = capability.name.as_str();
        let Some(installed) = installed(view, capability) else { return Err(Error::NoProjection(name.to_owned())) };
        let mut words = Vec::new();
        let bytes = self.kernel.live_page(view, capability, &mut words)?;
        let washed = match bytes {
            Some(bytes) => wash(&bytes).map_err(|fault| format!("the page `{name}` is not shown: {fault}")),
            None => Err(words.pop().unwrap_or_else(|| format!("the page `{name}` could not be rendered"))),
        };
        let failed = washed.is_err() || !words.is_empty();
        let until = if failed { self.now().checked_add(SignedDuration::from_secs(FAILED_SECONDS)).ok() } else { None };
        let consumed = newest_consumed(&view.state, installed);
        let page = Arc::new(Page { made: washed, words, receipt: installed.seq, consumed, until });
        self.keep(name, &page);
        Ok(page)
    }

    fn keep(&self, name: &str, page: &Arc<Page>) {
        let mut pages = locked(&self.pages);
        pages.insert(name.to_owned(), Arc::clone(page));
        let mut bytes: usize = pages.values().map(|page| page.bytes()).sum();
        while bytes > PAGES_BYTES_MAX {
            let largest = pages.iter().max_by_key(|(_, page)| page.bytes()).map(|(name, _)| name.clone());
            let Some(gone) = largest.and_then(|name| pages.remove(&name)) else { break };
            bytes -= gone.bytes();
        }
    }

    /// The newest events, newest first, each in a line; read once for as long as the log is the same.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn newest(&self, view: &Arc<View>) -> Result<Arc<[Told]>, Error> {
        let mut newest = locked(&self.newest);
        if !std::ptr::eq(newest.0.as_ptr(), Arc::as_ptr(view)) {
            let events = view.log.as_ref().map(|log| log.recent(EVENTS_MAX)).transpose()?.unwrap_or_default();
            *newest = (Arc::downgrade(view), events.iter().rev().map(Told::of).collect());
        }
        Ok(Arc::clone(&newest.1))
    }

    /// The front page as values, for who saw all up to `since`.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn today(&self, view: &Arc<View>, since: u64, day: Date) -> Result<Today, Error> {
        let newest = self.newest(view)?;
        let path = self.kernel.home.root().to_string_lossy();
        Ok(Today::of(&view.state, view.position.damage.len(), &newest, since, day, &path))
    }

    /// What there is to tell of a capability. Of the log only the few events are read that can be of it, where its rows are known.
    ///
    /// # Errors
    /// When the log cannot be read; inside, when there is nothing to tell.
    pub fn profile(&self, view: &View, asked: &Asked) -> Result<Result<Profile, Nowhere>, Error> {
        let mut history = History::new(asked.capability.clone(), view.secret.clone(), asked.receipts());
        match &view.log {
            // In a regular log the number in front of an event is one less than its own.
            Some(log) if log.is_regular() => {
                log.picked(History::wants, |event, _| history.take(&event, event.seq.saturating_sub(1)))?;
            }
            Some(log) => {
                let mut highest = 0;
                log.all(|event| {
                    history.take(&event, highest);
                    highest = highest.max(event.seq);
                })?;
            }
            None => {}
        }
        let page = page_path(asked.capability.name.as_str());
        let page = self.kernel.shelf().held().get(&page).filter(|held| held.is_intact).map(|held| held.written.position);
        Ok(Profile::of(&view.state, &history, page, asked))
    }

    /// Runs a command for a client at this address, who says who he is.
    ///
    /// # Errors
    /// When it could not be run, or what it emits could not be recorded.
    pub fn run(&self, client: String, speaker: Option<Speaker>, name: &str, arguments: &[OsString]) -> Result<Outcome, Error> {
        let stop = self.kernel.stop.clone().unwrap_or_default();
        let outcome = self.kernel.beside(speaker, stop).run_through(&Door::Http(client.into()), name, arguments);
        let outcome = outcome.map(|(outcome, _)| outcome);
        if outcome.as_ref().is_ok_and(|outcome| outcome.recorded) {
            self.recorded.store(true, Ordering::SeqCst);
        }
        outcome
    }

    /// Brings the derived files in line with the log, but for pages: gives those that have to be made anew, and what to say.
    #[must_use]
    pub fn derive(&self, view: &View) -> (Vec<Capability>, Vec<String>) {
        let (stale, derived) = self.kernel.derive_but_pages(view);
        (stale, derived.words)
    }

    /// Seals the log, if anything was recorded through this site.
    ///
    /// # Errors
    /// When the seal could not be appended.
    pub fn seal(&self) -> Result<(), Error> {
        if !self.recorded.swap(false, Ordering::SeqCst) {
            return Ok(());
        }
        let mut view = self.kernel.look()?;
        if view.can_judge() {
            self.kernel.commit_with(&mut view, Close::Seal, |_, _, _| Ok(Vec::new()))?;
        }
        Ok(())
    }
}
