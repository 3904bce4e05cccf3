//! The chronicle: the pages of the server that show the log itself: the timeline, one event, and what a text finds.
//!
//! Async, so part of the server; what is read of the log is read in a thread of its own. Each page has a twin in JSON at the same path
//! with `.json` behind it. No route hears, learns or approves. The invariant: a page and its twin are made of one model.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::routing::get;
use maud::Markup;
use serde::Serialize;

use crate::answer::{Answer, Refusal, TEXT, document, file, json, refused};
use crate::entry;
use crate::filters::{FilterFault, Filters, LOG, SEARCH};
use crate::finding::{Finding, finding};
use crate::kernel::View;
use crate::log::LogError;
use crate::query::Query;
use crate::seeking::{Seek, Sought};
use crate::shared::{Shared, Shares};
use crate::sheet::{ANSWER_EVENTS_MAX, AROUND_BYTES_MAX, BATCH_EVENTS_MAX, Read, Sheet, sheet};
use crate::shell::{self, Frame};
use crate::timeline::{EVENTS_MAX, Further, LOOKED_BYTES_MAX, Timeline, timeline};
use crate::vocabulary::Word;

/// What is asked for.
struct Asked {
    path: String,
    query: Option<String>,
    is_json: bool,
}

fn odd(fault: &FilterFault) -> Refusal {
    Refusal::new(400, fault.to_string())
}

fn failed(fault: LogError) -> Refusal {
    Refusal::of(&fault.into())
}

/// The routes.
pub(crate) fn routes() -> Router<Arc<Shared>> {
    let log = async |State(shared): Shares, request: Request| answered(&shared, request, log).await;
    let search = async |State(shared): Shares, request: Request| answered(&shared, request, search).await;
    let event = async |State(shared): Shares, request: Request| answered(&shared, request, event).await;
    Router::new()
        .route("/-/log", get(log))
        .route("/-/log.json", get(log))
        .route("/-/search", get(search))
        .route("/-/search.json", get(search))
        .route("/-/event/{which}", get(event))
}

async fn answered(shared: &Shared, request: Request, make: fn(&View, &Asked) -> Result<Answer, Refusal>) -> Answer {
    let view = match shared.view().await {
        Ok(view) => view,
        Err(refusal) => return refused(None, request.headers(), &refusal),
    };
    let path = request.uri().path();
    let (path, is_json) = path.strip_suffix(".json").map_or((path, false), |path| (path, true));
    let asked = Asked { path: path.to_owned(), query: request.uri().query().map(str::to_owned), is_json };
    let seen = Arc::clone(&view);
    let made = shared.work(move |_| Ok(make(&seen, &asked))).await;
    made.flatten().unwrap_or_else(|refusal| refused(Some(&view), request.headers(), &refusal))
}

/// A page, or its twin.
fn twin<M: Serialize>(view: &View, asked: &Asked, title: &str, live: bool, model: &M, page: impl FnOnce(&M) -> Markup) -> Answer {
    if asked.is_json {
        return json(model);
    }
    let frame = Frame { title, here: &asked.path, state: &view.state, words: &[], live };
    document(200, &frame, &shell::Body::Ours(page(model)))
}

/// Seeks the events that filters ask for, and where it goes on.
fn sought(view: &View, filters: &Filters, path: &'static str) -> Result<(Sought, Further), Refusal> {
    let Some(log) = &view.log else { return Ok((Sought::default(), Further::default())) };
    if let Some(place) = filters.before
        && !log.starts_line(place).map_err(failed)?
    {
        return Err(odd(&FilterFault::Before { given: place.to_string(), path }));
    }
    let query = filters.query();
    let found = log
        .sought(Seek { query: &query, before: filters.before, most: EVENTS_MAX, bytes_max: LOOKED_BYTES_MAX })
        .map_err(failed)?;
    let looked_back_to = match found.next {
        Some(place) if found.events.len() < EVENTS_MAX => {
            log.behind_place(place, 1, 1).map_err(failed)?.first().map(|event| event.seq)
        }
        Some(_) | None => None,
    };
    let further = Further { before: found.next, looked_back_to };
    Ok((found, further))
}

fn log(view: &View, asked: &Asked) -> Result<Answer, Refusal> {
    let filters = Filters::read(LOG, asked.query.as_deref()).map_err(|fault| odd(&fault))?;
    let (found, further) = sought(view, &filters, LOG)?;
    let model = Timeline::of(&view.state, view.position.damaged, &filters, &found, further);
    // An older page stays as it is.
    Ok(twin(view, asked, "Log", filters.before.is_none(), &model, timeline))
}

fn search(view: &View, asked: &Asked) -> Result<Answer, Refusal> {
    let filters = Filters::read(SEARCH, asked.query.as_deref()).map_err(|fault| odd(&fault))?;
    let (found, further) =
        if filters.q.is_some() { sought(view, &filters, SEARCH)? } else { (Sought::default(), Further::default()) };
    let model = Finding::of(&view.state, &filters, &found, further);
    Ok(twin(view, asked, "Search", false, &model, finding))
}

fn event(view: &View, asked: &Asked) -> Result<Answer, Refusal> {
    let which = asked.path.rsplit('/').next().unwrap_or_default();
    let (which, is_line) = which.strip_suffix(".txt").map_or((which, false), |which| (which, true));
    let seq = Some(which).filter(|which| which.bytes().all(|byte| byte.is_ascii_digit())).and_then(|which| which.parse().ok());
    let Some(seq) = seq else {
        return Err(Refusal::new(404, format!("an event has a whole number: {}", entry::address(view.state.seq()))));
    };
    let none = || Refusal::new(404, format!("no event has the number {seq}; the newest has {}", view.state.seq()));
    let log = view.log.as_ref().ok_or_else(none)?;
    let spot = log.spot(seq).map_err(failed)?.ok_or_else(none)?;
    if is_line {
        return Ok(file(TEXT, [&*spot.text, b"\n"].concat()));
    }
    let seek = Seek { query: &Query::default(), before: Some(spot.start), most: BATCH_EVENTS_MAX, bytes_max: AROUND_BYTES_MAX };
    let is_ask = Word::of(&spot.event.name) == Some(Word::SelfAsked);
    let most = if is_ask { ANSWER_EVENTS_MAX } else { BATCH_EVENTS_MAX };
    let read = Read {
        before: log.sought(seek).map_err(failed)?.events,
        behind: log.behind_place(spot.next, most, AROUND_BYTES_MAX).map_err(failed)?,
        receipt: view.receipt_in_words(log, &spot.event).map_err(failed)?,
        spot,
    };
    let title = format!("Event {seq}");
    Ok(twin(view, asked, &title, false, &Sheet::of(&view.state, &read), sheet))
}
