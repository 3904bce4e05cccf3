//! Routes: what the local server answers to a request that the gate let in.
//!
//! Async, so part of the server; whatever takes time is done by `serving` in a thread of its own. No route hears, learns or approves.
//! The invariant: a path names an installed projection or a page of the kernel, never a file.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::routing::get;
use axum::{Extension, Router};
use jiff::tz::TimeZone;
use maud::{PreEscaped, html};

use crate::address::{Asked, Nowhere};
use crate::answer::{Answer, HTML, JSON, Refusal, TEXT, allowing, document, file, json, plain, reads_pages, refused, set};
use crate::brief::brief;
use crate::capability::{Capability, CapabilityName, Kind};
use crate::catalogue::{self, Catalogue, Instance};
use crate::chronicle;
use crate::form::decoded;
use crate::kernel::View;
use crate::page;
use crate::posting::{done, run};
use crate::rendering::installed;
use crate::serving::Page;
use crate::shared::{Peer, STREAMS_MAX, Shared, Shares};
use crate::shell::{self, Frame};
use crate::span::Span;
use crate::stream::{Stretch, live};
use crate::today::today;
use crate::visit::Visit;

/// The routes.
pub(crate) fn routes(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/", get(home))
        .route("/kernel", get(kernel))
        .route("/kernel.json", get(kernel_json))
        .route("/brief", get(brief_text))
        .route("/events", get(events))
        .route("/-/today", get(today_page))
        .merge(chronicle::routes())
        .route("/-/capability", get(capabilities))
        .route("/-/capability.json", get(capabilities))
        .route("/-/capability/{*below}", get(capability))
        .route("/-/today.json", get(today_json))
        .route("/-/live", get(live_stream))
        .route("/-/self.css", get(async || file("text/css; charset=utf-8", shell::STYLE)))
        .route("/-/self.js", get(async || file("text/javascript; charset=utf-8", shell::MODULE)))
        .route("/-/self.svg", get(async || file("image/svg+xml", shell::ICON)))
        // The kernel's other pages have their place under `/-/`.
        .method_not_allowed_fallback(async || allowing(plain(405, "a page is only read\n"), "GET, HEAD"))
        .fallback(rest)
        .with_state(shared)
}

/// The projection that takes the place of the front page, if it is installed.
fn welcome() -> Option<Capability> {
    CapabilityName::inherited(shell::WELCOME).map(|name| Capability { kind: Kind::Projector, name })
}

async fn home(State(shared): Shares, uri: Uri, headers: HeaderMap) -> Answer {
    match (shared.view().await, welcome()) {
        (Err(refusal), _) => refused(None, &headers, &refusal),
        (Ok(view), Some(welcome)) if installed(&view, &welcome).is_some() => {
            projection(&shared, &view, &welcome, ("/", uri.query()), &headers).await
        }
        (Ok(view), _) => today_of(&shared, &view, &uri, &headers, HTML).await,
    }
}

async fn today_page(State(shared): Shares, uri: Uri, headers: HeaderMap) -> Answer {
    match shared.view().await {
        Err(refusal) => refused(None, &headers, &refusal),
        Ok(view) => today_of(&shared, &view, &uri, &headers, HTML).await,
    }
}

async fn today_json(State(shared): Shares, uri: Uri, headers: HeaderMap) -> Answer {
    match shared.view().await {
        Err(refusal) => refused(None, &headers, &refusal),
        Ok(view) => today_of(&shared, &view, &uri, &headers, JSON).await,
    }
}

/// Today's page, or its twin, for this visit; `since` stands for what an earlier visit saw.
async fn today_of(shared: &Shared, view: &Arc<View>, uri: &Uri, headers: &HeaderMap, kind: &'static str) -> Answer {
    let asked = match number("/-/today", uri.query(), "since") {
        Ok(asked) => asked,
        Err(refusal) => return refused(Some(view), headers, &refusal),
    };
    let now = shared.site.now();
    let was = Visit::read(headers.get_all(header::COOKIE).iter().map(HeaderValue::as_bytes));
    let (visit, is_new) = Visit::at(was, view.state.seq(), now);
    let (since, day) = (asked.unwrap_or(visit.since()), TimeZone::UTC.to_datetime(now).date());
    let done = if kind == HTML { done(shared, view, uri.query()).await.unwrap_or_default() } else { PreEscaped::default() };
    let copy = shared.copy(view, format!("/-/today {kind} {since} {day} {}", done.0), move |site, view| {
        let model = site.today(view, since, day)?;
        if kind == JSON {
            return Ok(shell::twin(&model));
        }
        let welcome = welcome().is_some_and(|welcome| installed(view, &welcome).is_some());
        let here = if welcome { "/-/today" } else { "/" };
        let frame = Frame { title: "Today", here, state: &view.state, words: &[], live: true };
        Ok(shell::document(&frame, &shell::Body::Ours(html! { (done) (today(&model, &view.state)) })))
    });
    let mut answer = match copy.await {
        Ok(copy) => file(kind, copy),
        Err(refusal) => return refused(Some(view), headers, &refusal),
    };
    if is_new && kind == HTML && asked.is_none() {
        set(&mut answer, header::SET_COOKIE, &visit.cookie());
    }
    answer
}

async fn kernel(State(shared): Shares, headers: HeaderMap) -> Answer {
    copied(&shared, &headers, HTML, "/kernel", |view| {
        let frame = Frame { title: "This instance", here: "/kernel", state: &view.state, words: &[], live: true };
        let body = html! {
            p.lead { a href=(catalogue::PATH) { "All capabilities" } ", each with its scripts and its history." }
            (PreEscaped(page::kernel(&view.state)))
        };
        shell::document(&frame, &shell::Body::Ours(body))
    })
    .await
}

async fn kernel_json(State(shared): Shares, headers: HeaderMap) -> Answer {
    match shared.view().await {
        Err(refusal) => refused(None, &headers, &refusal),
        Ok(view) => json(&Instance::of(&view.state)),
    }
}

async fn capabilities(State(shared): Shares, uri: Uri, headers: HeaderMap) -> Answer {
    let view = match shared.view().await {
        Ok(view) => view,
        Err(refusal) => return refused(None, &headers, &refusal),
    };
    let catalogue = Catalogue::of(&view.state);
    if uri.path() != catalogue::PATH {
        return json(&catalogue);
    }
    let frame = Frame { title: "Capabilities", here: catalogue::PATH, state: &view.state, words: &[], live: true };
    document(200, &frame, &shell::Body::Ours(catalogue.view()))
}

/// A capability, all there is to tell of it.
async fn capability(State(shared): Shares, uri: Uri, headers: HeaderMap) -> Answer {
    let view = match shared.view().await {
        Ok(view) => view,
        Err(refusal) => return refused(None, &headers, &refusal),
    };
    let below = uri.path().strip_prefix("/-/capability/").unwrap_or_default();
    let asked = match Asked::read(&view.state, below, uri.query()) {
        Ok(asked) => asked,
        Err(nowhere) => return no_profile(&view, &headers, &nowhere),
    };
    let (of, wanted) = (Arc::clone(&view), asked.clone());
    let told = shared.work(move |site| {
        let profile = site.profile(&of, &wanted)?;
        Ok(profile.map(|profile| if wanted.json { Err(Box::new(json(&profile))) } else { Ok((profile.title(), profile.view())) }))
    });
    match told.await {
        Err(refusal) => refused(Some(&view), &headers, &refusal),
        Ok(Err(nowhere)) => no_profile(&view, &headers, &nowhere),
        Ok(Ok(Err(json))) => *json,
        Ok(Ok(Ok((title, body)))) => {
            let done = done(&shared, &view, uri.query()).await;
            let body = html! { @if let Some(done) = done { (done) } (body) };
            let frame = Frame { title: &title, here: uri.path(), state: &view.state, words: &[], live: true };
            document(200, &frame, &shell::Body::Ours(body))
        }
    }
}

fn no_profile(view: &View, headers: &HeaderMap, nowhere: &Nowhere) -> Answer {
    let status = match nowhere {
        Nowhere::Unknown { .. } => 404,
        Nowhere::NoVersion(_) => 400,
    };
    if !reads_pages(headers) {
        return plain(status, nowhere.words() + "\n");
    }
    let frame = Frame { title: Refusal::new(status, "").title(), here: "", state: &view.state, words: &[], live: false };
    document(status, &frame, &shell::Body::Ours(nowhere.view()))
}

async fn brief_text(State(shared): Shares, headers: HeaderMap) -> Answer {
    copied(&shared, &headers, TEXT, "/brief", |view| brief(&view.state)).await
}

/// A page that is a function of the view alone.
async fn copied(
    shared: &Shared,
    headers: &HeaderMap,
    kind: &'static str,
    path: &'static str,
    make: fn(&View) -> String,
) -> Answer {
    let view = match shared.view().await {
        Ok(view) => view,
        Err(refusal) => return refused(None, headers, &refusal),
    };
    match shared.copy(&view, path.to_owned(), move |_, view| Ok(make(view))).await {
        Ok(copy) => file(kind, copy),
        Err(refusal) => refused(Some(&view), headers, &refusal),
    }
}

/// A whole number out of the query.
fn number(path: &str, query: Option<&str>, key: &str) -> Result<Option<u64>, Refusal> {
    let mut pairs = query.unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    let Some((_, value)) = pairs.find(|(name, _)| *name == key) else { return Ok(None) };
    value.parse().map(Some).map_err(|_| Refusal::new(400, format!("`{key}` is a whole number: {path}?{key}=12")))
}

/// The log as text: all of it, what is behind a number, or a range of bytes of either.
async fn events(State(shared): Shares, request: Request) -> Answer {
    let after = match number("/events", request.uri().query(), "after") {
        Ok(after) => after,
        Err(refusal) => return refused(None, request.headers(), &refusal),
    };
    let view = match shared.view().await {
        Ok(view) => view,
        Err(refusal) => return refused(None, request.headers(), &refusal),
    };
    let Some(log) = view.log.clone() else { return plain(404, "there is no log\n") };
    let start = match after {
        None => 0,
        Some(after) => {
            let sought = log.clone();
            match shared.work(move |_| Ok(sought.behind(after)?)).await {
                Ok(start) => start,
                Err(refusal) => return refused(Some(&view), request.headers(), &refusal),
            }
        }
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
    let mut answer = file(TEXT, body);
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
    let after = match number("/-/live", request.uri().query(), "after") {
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
        Some(projector) => {
            projection(&shared, &view, &projector, (&page::path(&projector), parts.uri.query()), &parts.headers).await
        }
        None => refused(Some(&view), &parts.headers, &Refusal::new(404, "no projection of this home has this name")),
    }
}

async fn projection(
    shared: &Shared,
    view: &Arc<View>,
    projector: &Capability,
    (here, query): (&str, Option<&str>),
    headers: &HeaderMap,
) -> Answer {
    let page = shared.page(view, projector).await;
    match page.as_deref() {
        Err(refusal) => refused(Some(view), headers, refusal),
        Ok(Page { made: Err(words), .. }) => refused(Some(view), headers, &Refusal::new(500, words)),
        Ok(Page { made: Ok(washed), words, .. }) => {
            let title = washed.title.as_deref().unwrap_or(projector.name.as_str());
            let body = match done(shared, view, query).await {
                Some(done) => shell::Body::Below(done, washed),
                None => shell::Body::Washed(washed),
            };
            document(200, &Frame { title, here, state: &view.state, words, live: true }, &body)
        }
    }
}
