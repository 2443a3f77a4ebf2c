//! Server-sent events: what changes on the node, as long as the client listens.
//!
//! A stream begins with the present state, so a client that reconnects misses nothing and needs no
//! `Last-Event-ID`. `state` has the generation after a change: the client reads the resources that it
//! shows. `job` has a job whenever its state or its progress changes. Changes that happen in quick
//! succession are one event.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use nearflash_api::{Document, JobInfo, JobList, Jobs, OneJob, Request, TokenScope};
use serde::Serialize;
use tokio::sync::mpsc::{Sender, channel};
use tokio_stream::wrappers::ReceiverStream;

use crate::caller::{Caller, Peer};
use crate::calling::Asked;
use crate::refusal::Refusal;
use crate::repeat::parse;
use crate::shared::Shared;

/// The maximum number of streams at a time; a further one is refused as busy.
pub(crate) const STREAMS_MAX: usize = 16;

/// The pause between two looks at the node.
const PAUSE: Duration = Duration::from_millis(100);

/// The time after which a stream reports the progress of jobs, and shows that it is alive.
const PERIOD: Duration = Duration::from_secs(2);

/// Events that wait for a slow client. Further ones become one.
const QUEUE_LEN: usize = 4;

/// The generation after a change.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
struct State {
    generation: u64,
}

/// A response that lasts until the client closes it, or the node ends.
pub(crate) async fn stream(shared: Arc<Shared>) -> Response {
    let Ok(permit) = Arc::clone(&shared.streams).try_acquire_owned() else {
        return Refusal::busy("the node has too many streams of events: close one").into_response();
    };
    let (sender, receiver) = channel(QUEUE_LEN);
    tokio::spawn(async move {
        tell(&shared, &sender).await;
        drop(permit);
    });
    let body = Body::from_stream(ReceiverStream::new(receiver));
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")];
    (headers, body).into_response()
}

async fn tell(shared: &Shared, sender: &Sender<Result<Bytes, Infallible>>) {
    let (mut changes, mut ending) = (shared.changes.clone(), shared.ending.clone());
    let (mut generation, mut jobs) = (None, Vec::new());
    while !*ending.borrow() {
        changes.mark_unchanged();
        let events = news(shared, &mut generation, &mut jobs).await;
        if sender.send(Ok(Bytes::from(events))).await.is_err() {
            return;
        }
        tokio::select! {
            changed = changes.changed() => {
                if changed.is_err() {
                    return;
                }
                tokio::time::sleep(PAUSE).await;
            }
            _ = ending.changed() => return,
            () = tokio::time::sleep(PERIOD) => {}
            () = sender.closed() => return,
        }
    }
}

/// The events since the last look; a comment if there are none, which shows that the node is there.
async fn news(shared: &Shared, generation: &mut Option<u64>, jobs: &mut Vec<JobInfo>) -> String {
    let mut events = String::new();
    let now = shared.calls.face.generation();
    if generation.replace(now) != Some(now) {
        events += &event("state", State { generation: now });
    }
    let asked = Asked {
        caller: Caller {
            name: "events".to_owned(),
            peer: Peer::Local { uid: None },
            scope: TokenScope::Read,
        },
        request: Request::JobList(JobList {}),
        subject: String::new(),
        expected: None,
    };
    // A node that is busy tells at the next look.
    let answered = shared.calls.ask(asked).await.ok();
    if let Some(Jobs { jobs: found }) = answered.and_then(|it| parse(&it.text)) {
        for job in found.iter().filter(|job| !jobs.contains(job)) {
            events += &event("job", OneJob { job: job.clone() });
        }
        *jobs = found;
    }
    if events.is_empty() { ":\n\n".to_owned() } else { events }
}

/// An event. A document is one line, as the format needs it.
fn event(name: &str, content: impl Serialize) -> String {
    format!("event: {name}\ndata: {}\n\n", Document::new(content).to_line())
}
