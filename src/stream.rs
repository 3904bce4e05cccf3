//! Streams: the bodies of answers that are longer than a moment: the log, and what is live.
//!
//! Async, so part of the server. The invariant: a body holds at most a piece of what it sends, and one that nobody reads any more
//! ends.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::lines::READ_BYTES;
use crate::log::Log;

/// After how much silence a live stream says that it is still there.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// After how long a browser should come back to a live stream that broke, in milliseconds.
const RETRY_MILLISECONDS: u32 = 2_000;

/// A stretch of the log, read piece by piece as it is sent.
pub(crate) struct Stretch {
    log: Arc<Log>,
    at: u64,
    end: u64,
    reading: Option<JoinHandle<io::Result<Vec<u8>>>>,
}

impl Stretch {
    pub(crate) fn of(log: Log, at: u64, end: u64) -> Stretch {
        Stretch { log: Arc::new(log), at, end, reading: None }
    }
}

impl HttpBody for Stretch {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.at >= self.end {
            return Poll::Ready(None);
        }
        let (from, log) = (self.at, Arc::clone(&self.log));
        let bytes = usize::try_from(self.end - from).unwrap_or(usize::MAX).min(READ_BYTES);
        let reading = self.reading.get_or_insert_with(|| {
            tokio::task::spawn_blocking(move || log.in_front_of(from + bytes as u64, bytes as u64).map_err(io::Error::other))
        });
        let read = ready!(Pin::new(reading).poll(context));
        self.reading = None;
        let piece = read.map_err(io::Error::other).and_then(|piece| piece);
        self.at = match &piece {
            Ok(piece) => from + piece.len() as u64,
            Err(_) => self.end,
        };
        Poll::Ready(Some(piece.map(|piece| Frame::data(piece.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.at >= self.end
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.end - self.at)
    }
}

/// What comes out of a channel.
struct Channel(mpsc::Receiver<Bytes>);

impl HttpBody for Channel {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

/// Server-sent events: a message whenever the log grew, its id the highest number, so that whoever comes back with the last id misses
/// nothing. Ends when nobody reads it, or `closing` becomes true; holds its permit as long.
pub(crate) fn live(
    after: u64,
    mut seq: watch::Receiver<u64>,
    mut closing: watch::Receiver<bool>,
    permit: OwnedSemaphorePermit,
) -> Body {
    let (send, receive) = mpsc::channel(4);
    tokio::spawn(async move {
        let _permit = permit;
        let mut told = after;
        let mut next = Bytes::from(format!("retry: {RETRY_MILLISECONDS}\n\n"));
        loop {
            let sent = tokio::select! {
                sent = send.send(next) => sent.is_ok(),
                _ = closing.wait_for(|closing| *closing) => false,
            };
            if !sent {
                return;
            }
            let now = tokio::select! {
                now = timeout(HEARTBEAT, seq.wait_for(|seq| *seq != told)) => now.map(|now| now.map(|now| *now)),
                () = send.closed() => return,
                _ = closing.wait_for(|closing| *closing) => return,
            };
            next = match now {
                Err(_) => Bytes::from_static(b": still here\n\n"),
                Ok(Err(_)) => return,
                Ok(Ok(now)) => {
                    let new = now.saturating_sub(told);
                    told = now;
                    Bytes::from(format!("id: {now}\ndata: {{\"seq\":{now},\"new\":{new}}}\n\n"))
                }
            };
        }
    });
    Body::new(Channel(receive))
}
