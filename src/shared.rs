//! What all connections of a server share: the home at hand, the gate, and how much may be done at the same time.
//!
//! Async, so part of the server. Reading, rendering and running have a limit each, and whoever waits for what another makes waits
//! without a thread. The invariant: whatever takes time is done in a thread of its own, and what is slow keeps out only what needs it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use tokio::sync::{Mutex as Turn, Notify, OwnedMutexGuard, Semaphore, watch};

use crate::answer::Refusal;
use crate::capability::Capability;
use crate::copies::Copies;
use crate::event::Speaker;
use crate::gate::Gate;
use crate::kernel::{Error, View};
use crate::running::Outcome;
use crate::serving::{Page, Site};

/// How many live streams there may be.
pub const STREAMS_MAX: usize = 32;

/// How many readings of the log may be under way at the same time.
const READINGS_MAX: usize = 8;

/// How many pages may be made at the same time.
const RENDERINGS_MAX: usize = 6;

/// How many commands may run at the same time.
const RUNS_MAX: usize = 8;

/// How many threads that takes.
pub const WORKERS_MAX: usize = READINGS_MAX + RENDERINGS_MAX + RUNS_MAX;

/// How often the log is looked at while a live stream is open.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Says lines to whoever started the server.
pub type Say = Arc<dyn Fn(&[String]) + Send + Sync>;

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) site: Arc<Site>,
    pub(crate) gate: Gate,
    pub(crate) say: Say,
    /// Whether the server is about to end.
    pub(crate) closing: watch::Sender<bool>,
    /// The number of the newest event that was seen.
    pub(crate) seq: watch::Sender<u64>,
    /// Told when an event may have come.
    pub(crate) grew: Notify,
    pub(crate) streams: Arc<Semaphore>,
    copies: Copies<View>,
    /// Told when a run was recorded, and files have to show it.
    recorded: Notify,
    readings: Arc<Semaphore>,
    renderings: Arc<Semaphore>,
    runs: Arc<Semaphore>,
    turns: Turns,
}

/// A turn for each thing that one caller makes for all who ask for it.
#[derive(Default)]
struct Turns(Mutex<BTreeMap<String, Arc<Turn<()>>>>);

impl Turns {
    /// Waits for the turn of this name, without a thread.
    async fn take(&self, name: String) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(turns.entry(name).or_default())
        };
        turn.lock_owned().await
    }
}

/// The client's address.
#[derive(Clone, Copy)]
pub(crate) struct Peer(pub(crate) IpAddr);

pub(crate) type Shares = State<Arc<Shared>>;

impl Shared {
    pub(crate) fn new(site: Site, gate: Gate, say: Say) -> Shared {
        Shared {
            site: Arc::new(site),
            gate,
            say,
            closing: watch::Sender::new(false),
            seq: watch::Sender::new(0),
            grew: Notify::new(),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            copies: Copies::default(),
            recorded: Notify::new(),
            readings: Arc::new(Semaphore::new(READINGS_MAX)),
            renderings: Arc::new(Semaphore::new(RENDERINGS_MAX)),
            runs: Arc::new(Semaphore::new(RUNS_MAX)),
            turns: Turns::default(),
        }
    }

    /// Does work that may take time, in a thread of its own. What it holds, and its place, are its own until it ends, even if the
    /// client is gone by then.
    async fn work_in<T: Send + 'static>(
        &self,
        room: &Arc<Semaphore>,
        held: impl Send + 'static,
        job: impl FnOnce(&Site) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Refusal> {
        let place = Arc::clone(room).acquire_owned().await.map_err(|_| Refusal::closing())?;
        let site = Arc::clone(&self.site);
        let done = tokio::task::spawn_blocking(move || {
            let done = job(&site);
            drop((held, place));
            done
        });
        done.await.map_err(|_| Refusal::new(500, "the server failed at this"))?.map_err(|fault| Refusal::of(&fault))
    }

    /// Reads something, in a thread of its own.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Site) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Refusal> {
        self.work_in(&self.readings, (), job).await
    }

    /// What the log says now.
    pub(crate) async fn view(&self) -> Result<Arc<View>, Refusal> {
        if let Some(view) = self.site.at_hand() {
            return Ok(view);
        }
        let turn = self.turns.take("/".to_owned()).await;
        if let Some(view) = self.site.at_hand() {
            return Ok(view);
        }
        // Told while it is this one's turn: of two readings the older one would tell last.
        let seq = self.seq.clone();
        let read = move |site: &Site| {
            let view = site.fresh()?;
            seq.send_if_modified(|seq| std::mem::replace(seq, view.state.seq()) != view.state.seq());
            Ok(view)
        };
        self.work_in(&self.readings, turn, read).await
    }

    /// The page of an installed projector; rendered if events came since, by one caller for all that ask for it.
    pub(crate) async fn page(&self, view: &Arc<View>, projector: &Capability) -> Result<Arc<Page>, Refusal> {
        if let Some(page) = self.site.kept(view, projector) {
            return Ok(page);
        }
        let turn = self.turns.take(projector.to_string()).await;
        if let Some(page) = self.site.kept(view, projector) {
            return Ok(page);
        }
        let (view, projector) = (Arc::clone(view), projector.clone());
        self.work_in(&self.renderings, turn, move |site| site.page(&view, &projector)).await
    }

    /// A text that says the same for as long as the log does: made once, by one caller for all that ask for it. Its name tells it from
    /// all others, by all that it depends on beside the view.
    pub(crate) async fn copy(
        &self,
        view: &Arc<View>,
        name: String,
        make: impl FnOnce(&Site, &Arc<View>) -> Result<String, Error> + Send + 'static,
    ) -> Result<Bytes, Refusal> {
        if let Some(copy) = self.copies.kept(view, &name) {
            return Ok(copy);
        }
        let turn = self.turns.take(name.clone()).await;
        if let Some(copy) = self.copies.kept(view, &name) {
            return Ok(copy);
        }
        let read = Arc::clone(view);
        let made = self.work_in(&self.readings, turn, move |site| make(site, &read)).await?;
        let copy = Bytes::from(made);
        self.copies.keep(view, name, &copy);
        Ok(copy)
    }

    /// Runs a command, one run of it at a time. A run that began goes on to its end, whether its client waits for it or not.
    pub(crate) async fn run(
        self: &Arc<Self>,
        client: String,
        speaker: Option<Speaker>,
        command: Capability,
        arguments: Vec<OsString>,
    ) -> Result<Result<Outcome, Error>, Refusal> {
        let turn = self.turns.take(command.to_string()).await;
        let shared = Arc::clone(self);
        let run = tokio::spawn(async move {
            let name = command.name.as_str().to_owned();
            let job = move |site: &Site| Ok(site.run(client, speaker, &name, &arguments));
            let ran = shared.work_in(&shared.runs, turn, job).await;
            if let Ok(Ok(outcome)) = &ran {
                (shared.say)(&outcome.words);
            }
            shared.grew.notify_one();
            shared.recorded.notify_one();
            ran
        });
        run.await.map_err(|_| Refusal::new(500, "the server failed at this"))?
    }

    /// Looks at the log for as long as a live stream is open, for other processes append to it too.
    pub(crate) async fn watch(&self) {
        let mut closing = self.closing.subscribe();
        loop {
            let is_open = self.streams.available_permits() < STREAMS_MAX;
            tokio::select! {
                _ = closing.wait_for(|closing| *closing) => return,
                () = self.grew.notified() => {}
                () = tokio::time::sleep(LOOK_EVERY), if is_open => {}
            }
            // What cannot be read now is tried again; requests say why.
            let _ = self.view().await;
        }
    }

    /// Brings the derived files in line with the log after a run, whose client need not wait for pages that others look at.
    pub(crate) async fn derive(&self) {
        let mut closing = self.closing.subscribe();
        loop {
            tokio::select! {
                _ = closing.wait_for(|closing| *closing) => return,
                () = self.recorded.notified() => {}
            }
            let Ok(view) = self.view().await else { continue };
            let read = Arc::clone(&view);
            let Ok((stale, words)) = self.work(move |site| Ok(site.derive(&read))).await else { continue };
            (self.say)(&words);
            for projector in &stale {
                if let Ok(page) = self.page(&view, projector).await {
                    (self.say)(&page.words);
                    if let Err(words) = &page.made {
                        (self.say)(std::slice::from_ref(words));
                    }
                }
            }
        }
    }
}
