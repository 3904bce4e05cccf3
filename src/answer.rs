//! Answers: what the server sends back, and why a request gets no page.
//!
//! Part of the server; knows neither a socket nor the log. The invariant: a refusal says what, where and what to do, as a page for who
//! reads pages and as a line for who does not.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde::Serialize;

use crate::kernel::{Error, View};
use crate::log::LogError;
use crate::shell::{self, Frame};

/// The types of what is answered.
pub(crate) const HTML: &str = "text/html; charset=utf-8";
pub(crate) const JSON: &str = "application/json";
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";

/// What is answered.
pub(crate) type Answer = Response<Body>;

/// Why a request gets no page.
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) words: Vec<String>,
}

impl Refusal {
    pub(crate) fn new(status: u16, words: impl Into<String>) -> Refusal {
        Refusal { status, words: vec![words.into()] }
    }

    pub(crate) fn closing() -> Refusal {
        Refusal::new(503, "the server is about to end")
    }

    pub(crate) fn of(fault: &Error) -> Refusal {
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

    pub(crate) fn title(&self) -> &'static str {
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
    set(&mut answer, header::CONTENT_TYPE, TEXT);
    answer
}

pub(crate) fn set(answer: &mut Answer, name: header::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        answer.headers_mut().insert(name, value);
    }
}

pub(crate) fn file(kind: &'static str, text: impl Into<Body>) -> Answer {
    let mut answer = Response::new(text.into());
    set(&mut answer, header::CONTENT_TYPE, kind);
    answer
}

/// The twin of a page.
pub(crate) fn json(model: &impl Serialize) -> Answer {
    file(JSON, shell::twin(model))
}

pub(crate) fn document(status: u16, frame: &Frame<'_>, body: &shell::Body<'_>) -> Answer {
    let mut answer = file(HTML, shell::document(frame, body));
    *answer.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer
}

/// A refusal, as a page for who reads pages.
pub(crate) fn refused(view: Option<&View>, headers: &HeaderMap, refusal: &Refusal) -> Answer {
    let words = refusal.words.join("\n");
    let Some(view) = view.filter(|_| reads_pages(headers)) else { return plain(refusal.status, words + "\n") };
    let frame = Frame { title: refusal.title(), here: "", state: &view.state, words: &[], live: false };
    document(refusal.status, &frame, &shell::Body::Ours(shell::refusal(refusal.title(), &words)))
}

pub(crate) fn reads_pages(headers: &HeaderMap) -> bool {
    let accept = headers.get_all(header::ACCEPT);
    accept.iter().any(|accept| accept.to_str().is_ok_and(|accept| accept.contains("text/html")))
}

pub(crate) fn allowing(mut answer: Answer, methods: &str) -> Answer {
    set(&mut answer, header::ALLOW, methods);
    answer
}
