//! From a request to its response: who asks, what for, whether that is permitted, and the answer.

use std::sync::Arc;
use std::time::Duration;

use axum::RequestPartsExt;
use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, RawPathParams};
use axum::http::header::{CONTENT_TYPE, ETAG, LOCATION};
use axum::http::{HeaderMap, HeaderValue, Request as HttpRequest, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, get, on};
use nearflash_api::{
    ErrorCode, JobShow, OneGrant, OneJob, OneVolume, RefusalReason, Request, rule,
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::time::Instant;

use crate::RefusedCaller;
use crate::body;
use crate::caller::{Caller, caller};
use crate::calling::Asked;
use crate::events;
use crate::openapi;
use crate::page;
use crate::places::Seat;
use crate::refusal::{Refusal, document};
use crate::repeat::{Answered, parse};
use crate::routes::{ROUTES, Route, Success, Verb};
use crate::shared::Shared;

/// The characters that a name has in a path without being encoded. RFC 3986, 2.3.
const ENCODED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

/// The router of all resources.
pub(crate) fn router(shared: &Arc<Shared>) -> Router {
    let mut router = Router::new();
    for route in &ROUTES {
        let shared = Arc::clone(shared);
        let handler = move |request: HttpRequest<Body>| handle(shared, route, request);
        router = router.route(route.path, on(filter(route.method), handler));
    }
    page::route(router)
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/openapi.json", permitted(shared, |_| async { described() }))
        .route("/metrics", permitted(shared, metrics))
        .route("/v1/events", permitted(shared, events::stream))
        .fallback(|| async { Refusal::of_http(StatusCode::NOT_FOUND, "there is no such path") })
        .method_not_allowed_fallback(|| async {
            let message = "the resource does not have this method: see Allow";
            Refusal::of_http(StatusCode::METHOD_NOT_ALLOWED, message)
        })
}

/// A resource that is not a call, for every valid token.
fn permitted<F>(
    shared: &Arc<Shared>,
    answer: impl Fn(Arc<Shared>) -> F + Clone + Send + Sync + 'static,
) -> MethodRouter
where
    F: Future<Output = Response> + Send,
{
    let shared = Arc::clone(shared);
    get(move |Extension(seat): Extension<Arc<Seat>>, uri: Uri, headers: HeaderMap| async move {
        match admitted(&shared, &seat, uri.path(), &headers) {
            Ok(_) => answer(shared).await,
            Err(refusal) => refusal.into_response(),
        }
    })
}

/// The caller of a request, whose connection counts as one of a known caller from then on.
fn admitted(
    shared: &Shared,
    seat: &Seat,
    what: &str,
    headers: &HeaderMap,
) -> Result<Caller, Refusal> {
    let face = &*shared.calls.face;
    let refuse = |who: &str, reason, refusal: &Refusal| {
        let text = &refusal.error.message;
        face.refused(&RefusedCaller { peer: seat.peer, who, what, reason, text });
    };
    let caller = caller(face, seat.peer, headers).inspect_err(|refusal| {
        let reason = match refusal.error.code {
            ErrorCode::TokenRefused => RefusalReason::NotProved,
            _ => RefusalReason::NotAdmitted,
        };
        refuse("", reason, refusal);
    })?;
    if seat.prove() {
        return Ok(caller);
    }
    let message = "all connections for callers with a token are in use: close some, or try again";
    let refusal = Refusal::of_http(StatusCode::SERVICE_UNAVAILABLE, message);
    refuse(&caller.name, RefusalReason::Limit, &refusal);
    Err(refusal)
}

/// The media type of OpenMetrics 1.0.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

async fn metrics(shared: Arc<Shared>) -> Response {
    match shared.calls.metrics().await {
        Ok(text) => ([(CONTENT_TYPE, OPENMETRICS)], text).into_response(),
        Err(refusal) => refusal.into_response(),
    }
}

fn described() -> Response {
    document(StatusCode::OK, openapi::document())
}

fn filter(method: Verb) -> MethodFilter {
    match method {
        Verb::Get => MethodFilter::GET,
        Verb::Post => MethodFilter::POST,
        Verb::Patch => MethodFilter::PATCH,
        Verb::Delete => MethodFilter::DELETE,
    }
}

async fn handle(
    shared: Arc<Shared>,
    route: &'static Route,
    request: HttpRequest<Body>,
) -> Response {
    match answer(&shared, route, request).await {
        Ok(response) => response,
        Err(refusal) => refusal.into_response(),
    }
}

async fn answer(
    shared: &Shared,
    route: &'static Route,
    request: HttpRequest<Body>,
) -> Result<Response, Refusal> {
    let (mut parts, body) = request.into_parts();
    let seat = parts.extensions.get::<Arc<Seat>>().expect("every connection has a seat");
    // Before the body is read: a peer without a token costs no memory.
    let caller = admitted(shared, seat, parts.uri.path(), &parts.headers)?;
    let in_path = match route.field {
        None => None,
        Some(_) => {
            let refused = |_| Refusal::invalid("the path is not valid");
            let params: RawPathParams = parts.extract().await.map_err(refused)?;
            params.iter().next().map(|(_, text)| text.to_owned())
        }
    };
    let body = body::read(body).await?;
    let query = parts.uri.query().unwrap_or_default();
    let (request, wait) = body::request(route, in_path.as_deref(), query, &body)?;
    drop(body);
    let (scope, subject) = rule(&request);
    if let Err(refusal) = caller.check(scope) {
        let what = format!("{} {subject}", request.name());
        let (peer, who) = (caller.peer, caller.name.as_str());
        let (reason, text) = (RefusalReason::Scope, refusal.error.message.as_str());
        let refused = RefusedCaller { peer, who, what: what.trim_end(), reason, text };
        shared.calls.face.refused(&refused);
        return Err(refusal);
    }
    let expected = if route.is_query() { None } else { body::expected(&parts.headers)? };
    // Read before the call: the tag of an answer is never newer than its content.
    let generation = shared.calls.face.generation();
    let asked = Asked { caller, request, subject: subject.clone(), expected };
    let answered = match (wait, &asked.request) {
        (Some(wait), Request::JobShow(JobShow { id })) => {
            let id = *id;
            wait_for_job(shared, asked.caller, id, wait).await?
        }
        _ => shared.calls.ask(asked).await?,
    };
    let mut response = respond(route, &subject, answered);
    if route.is_query() {
        let tag = HeaderValue::try_from(body::etag(generation)).expect("digits are a tag");
        response.headers_mut().insert(ETAG, tag);
    }
    Ok(response)
}

/// Shows a job once it has ended, or the time is up.
async fn wait_for_job(
    shared: &Shared,
    caller: Caller,
    id: u64,
    wait: Duration,
) -> Result<Answered, Refusal> {
    let deadline = Instant::now() + wait;
    let (mut changes, mut ending) = (shared.changes.clone(), shared.ending.clone());
    loop {
        changes.mark_unchanged();
        let request = Request::JobShow(JobShow { id });
        let subject = id.to_string();
        let asked = Asked { caller: caller.clone(), request, subject, expected: None };
        let answered = shared.calls.ask(asked).await?;
        let is_over = parse::<OneJob>(&answered.text).is_none_or(|it| it.job.state.is_over());
        if is_over || Instant::now() >= deadline || *ending.borrow() {
            return Ok(answered);
        }
        tokio::select! {
            _ = changes.changed() => {}
            _ = ending.changed() => {}
            () = tokio::time::sleep_until(deadline) => {}
        }
    }
}

/// The response to a call that succeeded: its document, its status, and the location of a new resource
/// or of the job that completes the change.
fn respond(route: &Route, subject: &str, answered: Answered) -> Response {
    let Answered { text, is_repeated } = answered;
    let job = match route.is_query() {
        true => None,
        false => parse::<OneVolume>(&text).and_then(|it| it.job),
    };
    let job = job.filter(|job| !job.state.is_over());
    let created = match route.success {
        Success::Ok => None,
        Success::Created => Some(utf8_percent_encode(subject, ENCODED).to_string()),
        Success::CreatedGrant => parse::<OneGrant>(&text).map(|it| it.grant.number.to_string()),
    };
    let created = created.map(|name| format!("{}/{name}", route.path));
    let (status, location) = match (job, created) {
        (Some(job), _) => (StatusCode::ACCEPTED, Some(format!("/v1/jobs/{}", job.id))),
        (None, Some(location)) if !is_repeated => (StatusCode::CREATED, Some(location)),
        (None, location) => (StatusCode::OK, location),
    };
    let mut response = document(status, format!("{}\n", *text));
    let location = location.and_then(|location| HeaderValue::try_from(location).ok());
    if let Some(location) = location {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}
