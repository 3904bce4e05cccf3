//! Connections: one client each, under limits on what it sends, on how long it takes, and on how many there are.
//!
//! Async, so part of the server. Every answer gets its headers here, those that the HTTP library gives by itself too. The invariant:
//! a client that sends nothing, or reads nothing, keeps nobody else out.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderName, HeaderValue, Request, Response, header};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{Sleep, sleep};

use crate::answer::{plain, set};
use crate::gate::{HEADERS, Knock, Verdict};
use crate::shared::{Peer, Shared};

/// How many connections there may be.
pub const CONNECTIONS_MAX: usize = 64;

/// How long a request's header may take; as long a connection may be idle.
pub const HEADER_WAITS: Duration = Duration::from_secs(5);

/// The largest header block, in bytes.
pub const HEADER_BYTES_MAX: usize = 16 << 10;

/// How long a client may take to read what was sent.
pub const WRITE_WAITS: Duration = Duration::from_secs(10);

/// The longest answer that the HTTP library gives by itself, in bytes.
const AUTOMATIC_BYTES_MAX: usize = 256;

/// What a connection is about.
#[derive(Debug, Default)]
struct Slot {
    /// 0 while a request is answered; else a number that is the lower the longer it has been idle.
    idle: AtomicU64,
    cut: Notify,
}

/// All connections.
#[derive(Debug, Default)]
pub(crate) struct Board {
    slots: Mutex<BTreeMap<u64, Arc<Slot>>>,
    ticks: AtomicU64,
    freed: Notify,
}

impl Board {
    fn slots(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Arc<Slot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tick(&self) -> u64 {
        1 + self.ticks.fetch_add(1, Ordering::SeqCst)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots().is_empty()
    }

    /// Waits until a connection ended, or has nothing to do.
    pub(crate) async fn freed(&self) {
        self.freed.notified().await;
    }

    /// Whether there is room for one more, if need be by closing the one that has been idle, or in its header, for longest.
    pub(crate) fn makes_room(&self) -> bool {
        let mut slots = self.slots();
        if slots.len() < CONNECTIONS_MAX {
            return true;
        }
        let idle =
            slots.iter().filter_map(|(id, slot)| Some((slot.idle.load(Ordering::SeqCst), *id)).filter(|(idle, _)| *idle > 0));
        let Some((_, oldest)) = idle.min() else { return false };
        if let Some(slot) = slots.remove(&oldest) {
            slot.cut.notify_one();
        }
        true
    }
}

/// A connection's place on the board, until it ends.
pub(crate) struct Seat {
    board: Arc<Board>,
    id: u64,
    slot: Arc<Slot>,
}

impl Seat {
    pub(crate) fn take(board: &Arc<Board>) -> Seat {
        let board = Arc::clone(board);
        let id = board.tick();
        let slot = Arc::new(Slot { idle: AtomicU64::new(id), cut: Notify::new() });
        board.slots().insert(id, Arc::clone(&slot));
        Seat { board, id, slot }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.board.slots().remove(&self.id);
        self.board.freed.notify_one();
    }
}

/// A request under way; when it is dropped its connection is idle again.
struct Busy {
    board: Arc<Board>,
    slot: Arc<Slot>,
}

impl Busy {
    fn begin(board: &Arc<Board>, slot: &Arc<Slot>) -> Busy {
        slot.idle.store(0, Ordering::SeqCst);
        Busy { board: Arc::clone(board), slot: Arc::clone(slot) }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.slot.idle.store(self.board.tick(), Ordering::SeqCst);
        self.board.freed.notify_one();
    }
}

/// Serves one connection to its end.
pub(crate) async fn serve(seat: Seat, stream: TcpStream, peer: SocketAddr, shared: Arc<Shared>, router: Router) {
    let Seat { board, slot, .. } = &seat;
    let respond = service_fn(|request| {
        let busy = Busy::begin(board, slot);
        let (shared, router) = (Arc::clone(&shared), router.clone());
        async move { Ok::<_, Infallible>(respond(&shared, router, peer, request).await.map(|body| Held { body, _busy: busy })) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADER_WAITS).max_buf_size(HEADER_BYTES_MAX);
    let line = Line { stream, slot: Arc::clone(slot), stalled: None, mended: None };
    let mut connection = pin!(http.serve_connection(TokioIo::new(line), respond));
    let mut closing = shared.closing.subscribe();
    let mut is_closing = false;
    loop {
        tokio::select! {
            // How a connection ends is its client's business.
            _ = connection.as_mut() => return,
            () = slot.cut.notified() => return,
            _ = closing.wait_for(|closing| *closing), if !is_closing => {
                is_closing = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

/// Passes the gate, then the routes; the answer bears every header.
async fn respond(shared: &Shared, router: Router, peer: SocketAddr, request: Request<Incoming>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let headers: Vec<_> = parts.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    let knock = Knock {
        method: parts.method.as_str(),
        authority: parts.uri.authority().map(axum::http::uri::Authority::as_str),
        path: parts.uri.path(),
        query: parts.uri.query(),
        headers: &headers,
    };
    let mut answer = match shared.gate.judge(&knock) {
        Verdict::Pass => {
            let mut request = Request::from_parts(parts, Body::new(body));
            request.extensions_mut().insert(Peer(peer.ip()));
            match TowerToHyperService::new(router).call(request).await {
                Ok(answer) => answer,
                Err(never) => match never {},
            }
        }
        Verdict::Swap(cookie) => {
            let mut answer = plain(303, "");
            set(&mut answer, header::LOCATION, "/");
            set(&mut answer, header::SET_COOKIE, &cookie);
            answer
        }
        Verdict::Refuse(status, words) => {
            let mut answer = plain(status, format!("{words}\n"));
            if status == 405 {
                set(&mut answer, header::ALLOW, "GET, HEAD, POST");
            }
            if status == 401 {
                set(&mut answer, header::WWW_AUTHENTICATE, "Bearer");
            }
            answer
        }
    };
    for (name, value) in HEADERS {
        answer.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    answer
}

/// The body of an answer, and the request it belongs to.
struct Held {
    body: Body,
    _busy: Busy,
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A client's stream. A write that does not come through in time ends it, and an answer that the HTTP library gives by itself is
/// given with the headers of every other.
struct Line {
    stream: TcpStream,
    slot: Arc<Slot>,
    stalled: Option<Pin<Box<Sleep>>>,
    mended: Option<(Vec<u8>, usize)>,
}

impl Line {
    fn patiently(&mut self, context: &mut Context<'_>, bytes: Option<&[u8]>) -> Poll<io::Result<usize>> {
        let done = match bytes {
            Some(bytes) => Pin::new(&mut self.stream).poll_write(context, bytes),
            None => Pin::new(&mut self.stream).poll_flush(context).map_ok(|()| 0),
        };
        if done.is_ready() {
            self.stalled = None;
            return done;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(WRITE_WAITS)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

/// The status line of an answer that came from the HTTP library alone, to a request that no route saw.
fn automatic(bytes: &[u8]) -> Option<&str> {
    let text = str::from_utf8(bytes).ok().filter(|text| text.len() <= AUTOMATIC_BYTES_MAX)?;
    let is_bare = text.starts_with("HTTP/1.1 4") && text.contains("\r\ncontent-length: 0\r\n") && text.ends_with("\r\n\r\n");
    is_bare.then(|| text.split("\r\n").next()).flatten()
}

fn mended(status: &str) -> Vec<u8> {
    let words = format!("{}\n", status.trim_start_matches("HTTP/1.1 "));
    let length = words.len();
    let headers: String = HEADERS.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("{status}\r\n{headers}content-type: text/plain; charset=utf-8\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{words}")
        .into_bytes()
}

impl AsyncWrite for Line {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.mended.is_none() && self.slot.idle.load(Ordering::SeqCst) > 0 {
            self.mended = automatic(bytes).map(|status| (mended(status), 0));
        }
        while let Some((answer, at)) = self.mended.take() {
            match self.patiently(context, Some(&answer[at..])) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(more)) if at + more == answer.len() => return Poll::Ready(Ok(bytes.len())),
                Poll::Ready(Ok(more)) => self.mended = Some((answer, at + more)),
                Poll::Ready(Err(fault)) => return Poll::Ready(Err(fault)),
                Poll::Pending => {
                    self.mended = Some((answer, at));
                    return Poll::Pending;
                }
            }
        }
        self.patiently(context, Some(bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.patiently(context, None).map_ok(drop)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl AsyncRead for Line {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_bare_answer_is_taken_for_an_automatic_one() {
        let bare = "HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\ndate: x\r\n\r\n";
        assert_eq!(automatic(bare.as_bytes()), Some("HTTP/1.1 431 Request Header Fields Too Large"));
        for other in [
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 404 Not Found\r\ncontent-length: 3\r\n\r\n",
            "HTTP/1.1 4",
            "",
        ] {
            assert_eq!(automatic(other.as_bytes()), None, "{other:?}");
        }
        let whole = String::from_utf8(mended("HTTP/1.1 400 Bad Request")).unwrap();
        assert!(whole.starts_with("HTTP/1.1 400 Bad Request\r\ncontent-security-policy: default-src 'none'; "), "{whole}");
        assert!(whole.ends_with("content-length: 16\r\nconnection: close\r\n\r\n400 Bad Request\n"), "{whole}");
    }
}
