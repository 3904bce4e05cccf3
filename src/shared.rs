//! What all connections of a server share: the home at hand, the gate, and how much may be done at the same time.
//!
//! Async, so part of the server. The invariant: whatever takes time is done in a thread of its own, under a limit.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use tokio::sync::{Notify, Semaphore, watch};

use crate::answer::Refusal;
use crate::gate::Gate;
use crate::kernel::{Error, View};
use crate::serving::Site;

/// How many live streams there may be.
pub const STREAMS_MAX: usize = 32;

/// How many requests may have work done for them at the same time.
const WORKERS_MAX: usize = 12;

/// How many commands may run at the same time.
const RUNS_MAX: usize = 8;

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
    workers: Semaphore,
    pub(crate) runs: Semaphore,
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
            workers: Semaphore::new(WORKERS_MAX),
            runs: Semaphore::new(RUNS_MAX),
        }
    }

    /// Does work that may take time, in a thread of its own.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Site) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Refusal> {
        let _permit = self.workers.acquire().await.map_err(|_| Refusal::closing())?;
        let site = Arc::clone(&self.site);
        let done = tokio::task::spawn_blocking(move || job(&site)).await;
        done.map_err(|_| Refusal::new(500, "the server failed at this"))?.map_err(|fault| Refusal::of(&fault))
    }

    /// What the log says now.
    pub(crate) async fn view(&self) -> Result<Arc<View>, Refusal> {
        let view = match self.site.at_hand() {
            Some(view) => view,
            None => self.work(Site::fresh).await?,
        };
        self.seq.send_if_modified(|seq| std::mem::replace(seq, view.state.seq()) != view.state.seq());
        Ok(view)
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
}
