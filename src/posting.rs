//! Posting: a form becomes the run of a command.
//!
//! Async, so part of the server. The only way in which the server asks for something to be recorded. The invariant: a body that is
//! short, late, too large or no form runs nothing.

use std::ffi::OsString;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, header};
use maud::Markup;
use tokio::time::timeout;

use crate::answer::{Answer, Refusal, document, plain, reads_pages, set};
use crate::capability::{Capability, CapabilityName, Kind};
use crate::event::Speaker;
use crate::form::{Field, FormFault, back, decoded, fields, is_page, recorded, returning};
use crate::gate::host_of;
use crate::input::arguments;
use crate::kernel::{Error, View};
use crate::quotation::shown;
use crate::shared::{Peer, Shared};
use crate::shell::{self, Frame};

/// The largest body of a request, in bytes.
pub const BODY_BYTES_MAX: usize = 64 << 10;

/// How long a body may take.
pub const BODY_WAITS: Duration = Duration::from_secs(5);

/// How much of a body that is too large is read past, so that its sender reads the answer.
const EXCESS_BYTES_MAX: usize = 1 << 20;

/// Runs a command with the fields of a form.
pub(crate) async fn run(
    shared: &Arc<Shared>,
    view: &View,
    name: &str,
    parts: &Parts,
    body: Body,
    peer: Peer,
) -> Result<Answer, Refusal> {
    let unknown = || Refusal::of(&Error::NoCommand(name.to_owned()));
    let name = decoded(name.as_bytes(), false).ok_or_else(unknown)?;
    let known = CapabilityName::inherited(&name).map(|name| Capability { kind: Kind::Command, name });
    let command = known.filter(|command| view.state.standing(command).is_some()).ok_or_else(unknown)?;
    let body = read_body(body, &parts.headers).await?;
    let kind = parts.headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let typed = fields(kind, &body).map_err(|fault| match fault {
        FormFault::Type(_) | FormFault::Multipart => Refusal::new(415, fault.to_string()),
        FormFault::Text(_) => Refusal::new(400, fault.to_string()),
    })?;
    let claim = parts.headers.get("x-self-caller").map(|claim| String::from_utf8_lossy(claim.as_bytes()).into_owned());
    let declaration = shell::declaration_of(&view.state, &name);
    let arguments: Vec<OsString> = arguments(declaration, &typed).into_iter().map(OsString::from).collect();
    let ran = shared.run(host_of(peer.0), Speaker::claimed(claim), command, arguments).await?;
    let from = came_from(parts);
    let outcome = match ran {
        Ok(outcome) => outcome,
        Err(fault) => {
            let Refusal { status, words } = Refusal::of(&fault);
            return Ok(failure(view, parts, status, &name, &words, "", &typed, from.as_deref()));
        }
    };
    if outcome.status != 0 {
        let said = String::from_utf8_lossy(&outcome.stderr);
        let mut words = outcome.words;
        if words.is_empty() {
            // Only wrong usage comes without words.
            words.push(format!("{name} was not used as it asks to be: it exited with status {}", outcome.status));
        }
        return Ok(failure(view, parts, 500, &name, &words, &said, &typed, from.as_deref()));
    }
    let Some(from) = from else {
        let words: String = outcome.words.iter().map(|line| format!("{line}\n")).collect();
        let text = outcome.text + &words;
        return Ok(plain(200, if text.is_empty() { "done; nothing was recorded\n".to_owned() } else { text }));
    };
    if outcome.landed.is_none() && reads_pages(&parts.headers) {
        let title = format!("{name} ran");
        let frame = Frame { title: &title, here: "", state: &view.state, words: &[], live: false };
        let said = String::from_utf8_lossy(&outcome.stderr);
        return Ok(document(200, &frame, &shell::Body::Ours(shell::idle(&name, &outcome.words, &said, &from))));
    }
    let mut answer = plain(303, "");
    set(&mut answer, header::LOCATION, &returning(&from, outcome.landed));
    Ok(answer)
}

/// What the run recorded that led to this address.
pub(crate) async fn done(shared: &Shared, view: &Arc<View>, query: Option<&str>) -> Option<Markup> {
    let seq = recorded(query)?;
    let view = Arc::clone(view);
    let event = shared.work(move |_| Ok(view.log.as_ref().map(|log| log.at(seq)).transpose()?.flatten())).await;
    shell::done(&event.ok()??)
}

/// The page that a form was typed on: where it says so itself, or where the browser says so.
fn came_from(parts: &Parts) -> Option<String> {
    let query = parts.uri.query().and_then(|query| query.strip_prefix("from="));
    let said = query.and_then(|from| decoded(from.as_bytes(), false)).filter(|from| is_page(from));
    let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let from = said.or_else(|| back(parts.headers.get(header::REFERER).map(HeaderValue::as_bytes), host));
    from.map(|from| returning(&from, None))
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
        // It may go to a terminal.
        let mut text = words.join("\n") + "\n";
        text.push_str(&shown(said));
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
