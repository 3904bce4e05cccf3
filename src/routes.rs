//! Routes: what the local server answers to a request that the gate let in.
//!
//! Async, so part of the server; whatever takes time is done by `serving` in a thread of its own. No route hears, learns or approves.
//! The invariant: a path names an installed projection or a page of the kernel, never a file.

use std::ffi::OsString;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use axum::routing::get;
use axum::{Extension, Router};
use maud::PreEscaped;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::timeout;

use crate::brief::brief;
use crate::capability::{Capability, CapabilityName, Kind};
use crate::event::Speaker;
use crate::form::{Field, FormFault, back, decoded, fields, is_page};
use crate::gate::{Gate, host_of};
use crate::kernel::{Error, View};
use crate::log::LogError;
use crate::page;
use crate::rendering::installed;
use crate::serving::{Page, Site};
use crate::shell::{self, Frame};
use crate::span::Span;
use crate::stream::{Stretch, live};
use crate::today::{EVENTS_MAX, Visit, today};

/// The largest body of a request, in bytes.
pub const BODY_BYTES_MAX: usize = 64 << 10;

/// How long a body may take.
pub const BODY_WAITS: Duration = Duration::from_secs(5);

/// How much of a body that is too large is read past, so that its sender reads the answer.
const EXCESS_BYTES_MAX: usize = 1 << 20;

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
    seq: watch::Sender<u64>,
    grew: Notify,
    streams: Arc<Semaphore>,
    workers: Semaphore,
    runs: Semaphore,
}

/// The client's address.
#[derive(Clone, Copy)]
pub(crate) struct Peer(pub(crate) IpAddr);

type Shares = State<Arc<Shared>>;
type Answer = Response<Body>;

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
    async fn work<T: Send + 'static>(&self, job: impl FnOnce(&Site) -> Result<T, Error> + Send + 'static) -> Result<T, Refusal> {
        let _permit = self.workers.acquire().await.map_err(|_| Refusal::closing())?;
        let site = Arc::clone(&self.site);
        let done = tokio::task::spawn_blocking(move || job(&site)).await;
        done.map_err(|_| Refusal::new(500, "the server failed at this"))?.map_err(|fault| Refusal::of(&fault))
    }

    /// What the log says now.
    async fn view(&self) -> Result<Arc<View>, Refusal> {
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

/// Why a request gets no page.
struct Refusal {
    status: u16,
    words: Vec<String>,
}

impl Refusal {
    fn new(status: u16, words: impl Into<String>) -> Refusal {
        Refusal { status, words: vec![words.into()] }
    }

    fn closing() -> Refusal {
        Refusal::new(503, "the server is about to end")
    }

    fn of(fault: &Error) -> Refusal {
        #[allow(clippy::wildcard_enum_match_arm, reason = "what is nobody's fault is the server's")]
        let status = match fault {
            Error::NoCommand(_) | Error::NoScript(_) | Error::NoProjection(_) => 404,
            Error::Argument(_) => 400,
            Error::Running(_) | Error::Stopped(_) | Error::Log(LogError::Busy(_) | LogError::Unknown { .. }) => 503,
            _ => 500,
        };
        let hint = fault.hint().map(|hint| format!("hint: {hint}"));
        Refusal { status, words: [Some(fault.to_string()), hint].into_iter().flatten().collect() }
    }

    fn title(&self) -> &'static str {
        match self.status {
            404 => "There is no such page",
            405 => "Not this way",
            413 => "Too large",
            415 => "Not a form",
            503 => "Try again",
            400 | 408 | 416 => "Not understood",
            _ => "It failed",
        }
    }
}

/// A short answer as text.
pub(crate) fn plain(status: u16, text: impl Into<String>) -> Answer {
    let mut answer = Response::new(Body::from(text.into()));
    *answer.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    set(&mut answer, header::CONTENT_TYPE, "text/plain; charset=utf-8");
    answer
}

pub(crate) fn set(answer: &mut Answer, name: header::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        answer.headers_mut().insert(name, value);
    }
}

fn file(kind: &'static str, text: impl Into<Body>) -> Answer {
    let mut answer = Response::new(text.into());
    set(&mut answer, header::CONTENT_TYPE, kind);
    answer
}

fn document(status: u16, frame: &Frame<'_>, body: &shell::Body<'_>) -> Answer {
    let mut answer = file("text/html; charset=utf-8", shell::document(frame, body));
    *answer.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer
}

/// A refusal, as a page for who reads pages.
fn refused(view: Option<&View>, headers: &HeaderMap, refusal: &Refusal) -> Answer {
    let words = refusal.words.join("\n");
    let Some(view) = view.filter(|_| reads_pages(headers)) else { return plain(refusal.status, words + "\n") };
    let frame = Frame { title: refusal.title(), here: "", state: &view.state, words: &[], live: false };
    document(refusal.status, &frame, &shell::Body::Ours(shell::refusal(refusal.title(), &words)))
}

fn reads_pages(headers: &HeaderMap) -> bool {
    let accept = headers.get_all(header::ACCEPT);
    accept.iter().any(|accept| accept.to_str().is_ok_and(|accept| accept.contains("text/html")))
}

/// The routes.
pub(crate) fn routes(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/", get(home))
        .route("/kernel", get(kernel))
        .route("/brief", get(brief_text))
        .route("/events", get(events))
        .route("/-/today", get(today_page))
        .route("/-/live", get(live_stream))
        .route("/-/self.css", get(async || file("text/css; charset=utf-8", shell::STYLE)))
        .route("/-/self.js", get(async || file("text/javascript; charset=utf-8", shell::MODULE)))
        .route("/-/self.svg", get(async || file("image/svg+xml", shell::ICON)))
        // The kernel's other pages have their place under `/-/`.
        .method_not_allowed_fallback(async || allowing(plain(405, "a page is only read\n"), "GET, HEAD"))
        .fallback(rest)
        .with_state(shared)
}

fn allowing(mut answer: Answer, methods: &str) -> Answer {
    set(&mut answer, header::ALLOW, methods);
    answer
}

async fn home(State(shared): Shares, headers: HeaderMap) -> Answer {
    let welcome = CapabilityName::inherited(shell::WELCOME).map(|name| Capability { kind: Kind::Projector, name });
    match (shared.view().await, welcome) {
        (Err(refusal), _) => refused(None, &headers, &refusal),
        (Ok(view), Some(welcome)) if installed(&view, &welcome).is_some() => {
            projection(&shared, &view, &welcome, "/", &headers).await
        }
        (Ok(view), _) => today_of(&shared, &view, &headers).await,
    }
}

async fn today_page(State(shared): Shares, headers: HeaderMap) -> Answer {
    match shared.view().await {
        Err(refusal) => refused(None, &headers, &refusal),
        Ok(view) => today_of(&shared, &view, &headers).await,
    }
}

async fn today_of(shared: &Shared, view: &View, headers: &HeaderMap) -> Answer {
    let newest = match shared.work(|site| site.recent(EVENTS_MAX)).await {
        Ok(newest) => newest,
        Err(refusal) => return refused(Some(view), headers, &refusal),
    };
    let was = Visit::read(headers.get_all(header::COOKIE).iter().map(HeaderValue::as_bytes));
    let (visit, is_new) = Visit::at(was, view.state.seq(), shared.site.now());
    let body = today(&view.state, view.position.damage.len(), &newest, visit.since());
    let frame = Frame { title: "Today", here: "/", state: &view.state, words: &[], live: true };
    let mut answer = document(200, &frame, &shell::Body::Ours(body));
    if is_new {
        set(&mut answer, header::SET_COOKIE, &visit.cookie());
    }
    answer
}

async fn kernel(State(shared): Shares, headers: HeaderMap) -> Answer {
    match shared.view().await {
        Err(refusal) => refused(None, &headers, &refusal),
        Ok(view) => {
            let frame = Frame { title: "This instance", here: "/kernel", state: &view.state, words: &[], live: true };
            document(200, &frame, &shell::Body::Ours(PreEscaped(page::kernel(&view.state))))
        }
    }
}

async fn brief_text(State(shared): Shares, headers: HeaderMap) -> Answer {
    match shared.view().await {
        Err(refusal) => refused(None, &headers, &refusal),
        Ok(view) => file("text/plain; charset=utf-8", brief(&view.state)),
    }
}

/// A whole number out of the query.
fn number(query: Option<&str>, key: &str) -> Result<Option<u64>, Refusal> {
    let mut pairs = query.unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    let Some((_, value)) = pairs.find(|(name, _)| *name == key) else { return Ok(None) };
    value.parse().map(Some).map_err(|_| Refusal::new(400, format!("`{key}` is a whole number: /events?{key}=12")))
}

/// The log as text: all of it, what is behind a number, or a range of bytes of either.
async fn events(State(shared): Shares, request: Request) -> Answer {
    let after = match number(request.uri().query(), "after") {
        Ok(after) => after,
        Err(refusal) => return refused(None, request.headers(), &refusal),
    };
    let opened = shared.work(move |site| {
        let log = site.log()?;
        let start = log.as_ref().zip(after).map(|(log, after)| log.behind(after)).transpose()?;
        Ok(log.map(|log| (log, start.unwrap_or(0))))
    });
    let (log, start) = match opened.await {
        Ok(Some(opened)) => opened,
        Ok(None) => return plain(404, "there is no log\n"),
        Err(refusal) => return refused(None, request.headers(), &refusal),
    };
    let length = log.tail().whole - start;
    let range = request.headers().get(header::RANGE).map(HeaderValue::as_bytes);
    let span = Span::of(range, length);
    let (status, part) = match &span {
        Span::Whole => (StatusCode::OK, 0..length),
        Span::Part(part) => (StatusCode::PARTIAL_CONTENT, part.clone()),
        Span::Outside => {
            let mut answer = plain(416, format!("there are {length} bytes\n"));
            set(&mut answer, header::CONTENT_RANGE, &format!("bytes */{length}"));
            return answer;
        }
    };
    let body = Body::new(Stretch::of(log, start + part.start, start + part.end));
    let mut answer = file("text/plain; charset=utf-8", body);
    *answer.status_mut() = status;
    set(&mut answer, header::ACCEPT_RANGES, "bytes");
    if let Span::Part(part) = &span {
        set(&mut answer, header::CONTENT_RANGE, &format!("bytes {}-{}/{length}", part.start, part.end - 1));
    }
    answer
}

/// What is new, as it comes: server-sent events.
async fn live_stream(State(shared): Shares, request: Request) -> Answer {
    let last = request.headers().get("last-event-id").and_then(|id| id.to_str().ok()).and_then(|id| id.trim().parse().ok());
    let after = match number(request.uri().query(), "after") {
        Ok(after) => last.or(after),
        Err(refusal) => return refused(None, request.headers(), &refusal),
    };
    let Ok(permit) = Arc::clone(&shared.streams).try_acquire_owned() else {
        return plain(503, format!("there are {STREAMS_MAX} live streams; close one\n"));
    };
    let view = match shared.view().await {
        Ok(view) => view,
        Err(refusal) => return refused(None, request.headers(), &refusal),
    };
    // Somebody has to begin to look at the log.
    shared.grew.notify_one();
    let after = after.unwrap_or(view.state.seq());
    file("text/event-stream", live(after, shared.seq.subscribe(), shared.closing.subscribe(), permit))
}

/// Runs a command, or shows a projection.
async fn rest(State(shared): Shares, Extension(peer): Extension<Peer>, request: Request) -> Answer {
    let path = request.uri().path().to_owned();
    let (parts, body) = request.into_parts();
    let view = match shared.view().await {
        Ok(view) => view,
        Err(refusal) => return refused(None, &parts.headers, &refusal),
    };
    if let Some(name) = path.strip_prefix("/run/") {
        if parts.method != Method::POST {
            return allowing(refused(Some(&view), &parts.headers, &Refusal::new(405, "a command is run by POST")), "POST");
        }
        let done = run(&shared, &view, name, &parts, body, peer).await;
        return done.unwrap_or_else(|refusal| refused(Some(&view), &parts.headers, &refusal));
    }
    if parts.method == Method::POST {
        return allowing(refused(Some(&view), &parts.headers, &Refusal::new(405, "a page is only read")), "GET, HEAD");
    }
    let name = path.strip_prefix('/').and_then(|name| decoded(name.as_bytes(), false));
    let projector = name.as_deref().and_then(CapabilityName::inherited).map(|name| Capability { kind: Kind::Projector, name });
    match projector.filter(|projector| installed(&view, projector).is_some()) {
        Some(projector) => projection(&shared, &view, &projector, &page::path(&projector), &parts.headers).await,
        None => refused(Some(&view), &parts.headers, &Refusal::new(404, "no projection of this home has this name")),
    }
}

async fn projection(shared: &Shared, view: &Arc<View>, projector: &Capability, here: &str, headers: &HeaderMap) -> Answer {
    let page = match shared.site.kept(view, projector) {
        Some(page) => Ok(page),
        None => {
            let (view, projector) = (Arc::clone(view), projector.clone());
            shared.work(move |site| site.page(&view, &projector)).await
        }
    };
    match page.as_deref() {
        Err(refusal) => refused(Some(view), headers, refusal),
        Ok(Page { made: Err(words), .. }) => refused(Some(view), headers, &Refusal::new(500, words)),
        Ok(Page { made: Ok(washed), words, .. }) => {
            let title = washed.title.as_deref().unwrap_or(projector.name.as_str());
            document(200, &Frame { title, here, state: &view.state, words, live: true }, &shell::Body::Washed(washed))
        }
    }
}

async fn run(shared: &Shared, view: &View, name: &str, parts: &Parts, body: Body, peer: Peer) -> Result<Answer, Refusal> {
    let unknown = || Refusal::of(&Error::NoCommand(name.to_owned()));
    let name = decoded(name.as_bytes(), false).ok_or_else(unknown)?;
    let known = CapabilityName::inherited(&name).map(|name| Capability { kind: Kind::Command, name });
    known.filter(|command| view.state.standing(command).is_some()).ok_or_else(unknown)?;
    let body = read_body(body, &parts.headers).await?;
    let kind = parts.headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let typed = fields(kind, &body).map_err(|fault| match fault {
        FormFault::Type(_) | FormFault::Multipart => Refusal::new(415, fault.to_string()),
        FormFault::Text(_) => Refusal::new(400, fault.to_string()),
    })?;
    let claim = parts.headers.get("x-self-caller").map(|claim| String::from_utf8_lossy(claim.as_bytes()).into_owned());
    let arguments: Vec<OsString> = typed.iter().map(|field| field.value.clone().into()).collect();
    let (client, speaker, command) = (host_of(peer.0), Speaker::claimed(claim), name.clone());
    let permit = shared.runs.acquire().await.map_err(|_| Refusal::closing())?;
    let ran = shared.work(move |site| Ok(site.run(client, speaker, &command, &arguments))).await?;
    drop(permit);
    shared.grew.notify_one();
    let from = came_from(parts);
    let outcome = match ran {
        Ok(outcome) => outcome,
        Err(fault) => {
            let Refusal { status, words } = Refusal::of(&fault);
            return Ok(failure(view, parts, status, &name, &words, "", &typed, from.as_deref()));
        }
    };
    (shared.say)(&outcome.words);
    if outcome.status != 0 {
        let said = String::from_utf8_lossy(&outcome.stderr);
        let mut words = outcome.words;
        if words.is_empty() {
            words.push(format!("the command exited with status {}", outcome.status));
        }
        return Ok(failure(view, parts, 500, &name, &words, &said, &typed, from.as_deref()));
    }
    let Some(from) = from else {
        let words: String = outcome.words.iter().map(|line| format!("{line}\n")).collect();
        let text = outcome.text + &words;
        return Ok(plain(200, if text.is_empty() { "done; nothing was recorded\n".to_owned() } else { text }));
    };
    let mut answer = plain(303, "");
    set(&mut answer, header::LOCATION, &from);
    Ok(answer)
}

/// The page that a form was typed on: where it says so itself, or where the browser says so.
fn came_from(parts: &Parts) -> Option<String> {
    let query = parts.uri.query().and_then(|query| query.strip_prefix("from="));
    let said = query.and_then(|from| decoded(from.as_bytes(), false)).filter(|from| is_page(from));
    let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    said.or_else(|| back(parts.headers.get(header::REFERER).map(HeaderValue::as_bytes), host))
}

#[allow(clippy::too_many_arguments, reason = "what a page says of a run that failed")]
fn failure(
    view: &View,
    parts: &Parts,
    status: u16,
    name: &str,
    words: &[String],
    said: &str,
    typed: &[Field],
    from: Option<&str>,
) -> Answer {
    if !reads_pages(&parts.headers) {
        let mut text = words.join("\n") + "\n";
        text.push_str(said);
        return plain(status, text);
    }
    let title = format!("{name} failed");
    let frame = Frame { title: &title, here: "", state: &view.state, words: &[], live: false };
    document(status, &frame, &shell::Body::Ours(shell::failed(&view.state, name, words, said, typed, from.unwrap_or("/"))))
}

/// Reads the body of a request; a short one is none.
async fn read_body(mut body: Body, headers: &HeaderMap) -> Result<Vec<u8>, Refusal> {
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    let mut read = Vec::new();
    let mut excess = 0;
    let reading = async {
        while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
            let frame = frame.map_err(|_| Refusal::new(400, "the body ended before its length; nothing was run"))?;
            let piece = frame.into_data().unwrap_or_default();
            if excess > 0 || read.len() + piece.len() > BODY_BYTES_MAX {
                excess += piece.len().max(1);
            } else {
                read.extend_from_slice(&piece);
            }
            if excess > EXCESS_BYTES_MAX {
                break;
            }
        }
        Ok(())
    };
    let large = || Refusal::new(413, format!("a body has at most {BODY_BYTES_MAX} bytes; nothing was run"));
    if declared.is_some_and(|length| length > (BODY_BYTES_MAX + EXCESS_BYTES_MAX) as u64) {
        return Err(large());
    }
    match timeout(BODY_WAITS, reading).await {
        Ok(done) => done?,
        Err(_) if declared.is_some_and(|length| length > BODY_BYTES_MAX as u64) => return Err(large()),
        Err(_) => {
            return Err(Refusal::new(408, format!("the body took longer than {} s; nothing was run", BODY_WAITS.as_secs())));
        }
    }
    if excess > 0 { Err(large()) } else { Ok(read) }
}
