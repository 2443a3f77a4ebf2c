//! The thread of the HTTP interface, its listeners and its connections, each with a bound.

use std::io;
use std::net::{SocketAddr, TcpListener as StdTcpListener};
use std::os::unix::net::UnixListener as StdUnixListener;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Extension, Request};
use axum::http::HeaderValue;
use axum::http::header::{CONNECTION, STRICT_TRANSPORT_SECURITY};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use nearflash_api::RefusalReason;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::caller::Peer;
use crate::calling::{CALLS_MAX, Calls};
use crate::events::STREAMS_MAX;
use crate::handler::router;
use crate::host;
use crate::places::{PROVED_MAX, Places, Seat, UNPROVED_MAX};
use crate::shared::Shared;
use crate::timed::Timed;
use crate::tls::Certified;
use crate::{Face, RefusedCaller};

/// The maximum number of connections of a listener at a time. A further one waits until another
/// closes. One place more than the callers have: the connection that takes the place of another.
const CONNECTIONS_MAX: usize = PROVED_MAX + UNPROVED_MAX + 1;

/// The value with which browsers use TLS alone for a year. RFC 6797, 6.1.
const TLS_ONLY: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// The maximum length of a request's head.
const HEAD_LEN_MAX: usize = 16 << 10;

/// The time for a request's head, from the end of the last request on, and for the handshake of TLS.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// The time for requests in progress once the node ends.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// The pause after a failed `accept`, so that a lasting cause (no descriptors left) does not fill the
/// log.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The bound listeners.
#[derive(Debug, Default)]
pub struct Listeners {
    /// For the operator of this machine: who can connect needs no token.
    pub local: Option<StdUnixListener>,
    /// For the network: with TLS, and a token for each request.
    pub network: Option<(StdTcpListener, Certified)>,
}

/// A running HTTP interface.
#[derive(Debug)]
pub struct HttpServer {
    thread: JoinHandle<()>,
    ending: watch::Sender<bool>,
}

impl HttpServer {
    /// Serves on these listeners.
    ///
    /// # Errors
    /// When the system has no thread or no descriptor left.
    pub fn start(listeners: Listeners, face: Arc<dyn Face>) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .thread_name("http-call")
            .max_blocking_threads(CALLS_MAX)
            .build()?;
        let (ending, told) = watch::channel(false);
        let listeners = {
            let _inside = runtime.enter();
            Bound::new(listeners)?
        };
        let thread = Builder::new().name("http".to_owned()).spawn(move || {
            runtime.block_on(run(listeners, face, told));
            runtime.shutdown_timeout(END_TIMEOUT);
        })?;
        Ok(Self { thread, ending })
    }

    /// Ends streams of events, and waits a bounded time for requests in progress. A change that is cut
    /// off then has no effect or its whole effect.
    pub fn stop(self) {
        self.ending.send_replace(true);
        if self.thread.join().is_err() {
            tracing::error!("the HTTP thread has panicked");
        }
    }
}

/// The listeners, of the runtime.
struct Bound {
    local: Option<UnixListener>,
    network: Option<(TcpListener, Certified)>,
}

impl Bound {
    fn new(listeners: Listeners) -> io::Result<Self> {
        let Listeners { local, network } = listeners;
        let local = local.map(|local| {
            local.set_nonblocking(true)?;
            UnixListener::from_std(local)
        });
        let network = network.map(|(listener, tls)| {
            listener.set_nonblocking(true)?;
            Ok::<_, io::Error>((TcpListener::from_std(listener)?, tls))
        });
        Ok(Self { local: local.transpose()?, network: network.transpose()? })
    }
}

async fn run(listeners: Bound, face: Arc<dyn Face>, ending: watch::Receiver<bool>) {
    let (tell, changes) = watch::channel(0_u64);
    face.on_change(Box::new(move || tell.send_modify(|count| *count = count.wrapping_add(1))));
    let shared = Arc::new(Shared {
        calls: Calls::new(Arc::clone(&face)),
        changes,
        ending: ending.clone(),
        streams: Arc::new(Semaphore::new(STREAMS_MAX)),
    });
    let router = router(&shared);
    drop(shared);
    let Bound { local, network } = listeners;
    let serving = |router| Door {
        router,
        ending: ending.clone(),
        open: Door::places(),
        face: Arc::clone(&face),
    };
    let (at_local, at_network) = (serving(router.clone()), serving(router));
    tokio::join!(
        async {
            if let Some(listener) = local {
                at_local.serve_local(&listener).await;
            }
        },
        async {
            if let Some((listener, mut tls)) = network {
                at_network.serve_network(&listener, &mut tls).await;
            }
        },
    );
}

/// Waits for the end of the node.
async fn end_of(ending: &mut watch::Receiver<bool>) {
    // An error means that the node has gone.
    let _ = ending.wait_for(|ending| *ending).await;
}

/// A listener's connections.
struct Door {
    router: Router,
    ending: watch::Receiver<bool>,
    open: Arc<Semaphore>,
    face: Arc<dyn Face>,
}

impl Door {
    fn places() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(CONNECTIONS_MAX))
    }

    async fn serve_local(&self, listener: &UnixListener) {
        while let Some((accepted, place)) = self.next(|| listener.accept()).await {
            let (stream, _) = accepted;
            let uid = stream.peer_cred().ok().map(|peer| peer.uid());
            self.begin(stream, Seat::local(Peer::Local { uid }), place);
        }
        self.wait_for_all().await;
    }

    async fn serve_network(&self, listener: &TcpListener, tls: &mut Certified) {
        let places = Arc::new(Places::new());
        while let Some((accepted, place)) = self.next(|| listener.accept()).await {
            let (stream, from) = accepted;
            let seat = places.take(from);
            let serving = self.another();
            let tls = TlsAcceptor::from(tls.current(Instant::now()));
            let handshake = tls.accept(stream);
            tokio::spawn(async move {
                let mut ending = serving.ending.clone();
                let shaken = tokio::select! {
                    shaken = timeout(HEAD_TIMEOUT, handshake) => shaken,
                    () = seat.is_evicted() => return serving.refuse_evicted(&seat),
                    () = end_of(&mut ending) => return,
                };
                match shaken {
                    Ok(Ok(stream)) => serving.serve(stream, seat, place).await,
                    Ok(Err(error)) => {
                        serving.refuse(from, RefusalReason::Tls, &format!("no TLS: {error}"));
                    }
                    Err(_) => {
                        let text = "the handshake of TLS takes too long";
                        serving.refuse(from, RefusalReason::TimedOut, text);
                    }
                }
            });
        }
        self.wait_for_all().await;
    }

    /// The next connection, and its place among those of the listener. `None` when the node ends.
    async fn next<T, F: Future<Output = io::Result<T>>>(
        &self,
        accept: impl Fn() -> F,
    ) -> Option<(T, OwnedSemaphorePermit)> {
        let mut ending = self.ending.clone();
        loop {
            let accepted = tokio::select! {
                () = end_of(&mut ending) => return None,
                accepted = async {
                    let place = Arc::clone(&self.open).acquire_owned().await;
                    (accept().await, place)
                } => accepted,
            };
            match accepted {
                (Ok(accepted), Ok(place)) => return Some((accepted, place)),
                (Err(error), _) => {
                    tracing::warn!("http: cannot accept: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
                // The semaphore is never closed.
                (_, Err(_)) => return None,
            }
        }
    }

    fn another(&self) -> Self {
        let Self { router, ending, open, face } = self;
        let (router, ending) = (router.clone(), ending.clone());
        Self { router, ending, open: Arc::clone(open), face: Arc::clone(face) }
    }

    fn refuse(&self, from: SocketAddr, reason: RefusalReason, text: &str) {
        let peer = Peer::Remote(from);
        self.face.refused(&RefusedCaller { peer, who: "", what: "", reason, text });
    }

    /// A connection gives its place to a newer one: the operator learns who fills the places.
    fn refuse_evicted(&self, seat: &Seat) {
        if let Peer::Remote(from) = seat.peer {
            let text = "it has shown no valid token, and gives its place to a newer connection";
            self.refuse(from, RefusalReason::Limit, text);
        }
    }

    fn begin(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        seat: Seat,
        place: OwnedSemaphorePermit,
    ) {
        let serving = self.another();
        tokio::spawn(async move { serving.serve(stream, seat, place).await });
    }

    async fn serve(
        self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        seat: Seat,
        place: OwnedSemaphorePermit,
    ) {
        let mut ending = self.ending.clone();
        let seat = Arc::new(seat);
        let router =
            self.router.clone().layer(from_fn(checked)).layer(Extension(Arc::clone(&seat)));
        let service = TowerToHyperService::new(router);
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            // A client may end its half once it has asked.
            .half_close(true)
            .header_read_timeout(HEAD_TIMEOUT)
            .max_buf_size(HEAD_LEN_MAX)
            .serve_connection(TokioIo::new(Timed::new(stream)), service);
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = seat.is_evicted() => return self.refuse_evicted(&seat),
            () = end_of(&mut ending) => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!("http connection: {error}");
        }
        drop(place);
    }

    /// Waits a bounded time until every connection is closed.
    async fn wait_for_all(&self) {
        let all = u32::try_from(CONNECTIONS_MAX).unwrap_or(u32::MAX);
        if timeout(END_TIMEOUT, self.open.acquire_many(all)).await.is_err() {
            tracing::warn!("http: abandoned requests that are still in progress");
        }
    }
}

/// The rules for every request: its `Host` is valid, and a connection whose caller is not known ends with the
/// response.
async fn checked(Extension(seat): Extension<Arc<Seat>>, request: Request, next: Next) -> Response {
    let mut response = match host::check(request.version(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    let headers = response.headers_mut();
    if !seat.is_proved() {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    if matches!(seat.peer, Peer::Remote(_)) {
        headers.insert(STRICT_TRANSPORT_SECURITY, TLS_ONLY);
    }
    response
}
