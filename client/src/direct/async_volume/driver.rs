//! The task that drives the queue pair of an asynchronous volume, and the calls that wait for it.
//!
//! Invariant: a buffer that a call returns is not the operation's any more: an operation that
//! outlives its call has a copy.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;
use std::time::Duration;

use tokio::io::Interest;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::super::completion::{Completion, Token};
use super::super::error::{Error, LATE, Lost};
use super::super::queue_pair::QueuePair;
use super::super::readiness::Readiness;

/// The maximum number of turns of the queue pair before other tasks run.
const TURNS_MAX: usize = 16;

/// Stops the task with the last clone of the volume.
pub(super) struct Driver(AbortHandle);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The state of all clones.
pub(super) struct Shared {
    pub(super) name: Box<str>,
    state: Mutex<State>,
    /// The places in the queue pair.
    places: Arc<Semaphore>,
    /// An operation was posted.
    posted: Notify,
    /// A reconnect has succeeded or failed, or the last late operation has ended.
    settled: Arc<Notify>,
    /// A call needs the connection after a reconnect has failed.
    wanted: Notify,
}

pub(super) struct State {
    pub(super) pair: QueuePair,
    /// By token index.
    waiters: Vec<Option<Waiter>>,
    done: Vec<Completion>,
    /// The number of operations in flight that may change the volume and whose calls have ended. No
    /// call begins meanwhile.
    late: usize,
    settled: Arc<Notify>,
    /// The number of failed reconnects.
    failures: u64,
    /// The error of the last failed reconnect.
    failure: Option<Error>,
    /// Whether the driver reconnects only when a call needs a connection.
    is_given_up: bool,
}

/// The receiver of an operation's completion, which may have been dropped.
struct Waiter {
    to: oneshot::Sender<Completion>,
    /// Whether it is one of [`State::late`].
    is_late: bool,
    _place: OwnedSemaphorePermit,
}

/// An operation that a call waits for.
pub(super) struct Posted {
    token: Token,
    receiver: oneshot::Receiver<Completion>,
}

/// Waits for work until the deadline.
async fn until<T>(deadline: Option<Instant>, work: impl Future<Output = T>) -> Result<T, Error> {
    match deadline {
        Some(deadline) => tokio::time::timeout_at(deadline, work).await.map_err(|_| LATE),
        None => Ok(work.await),
    }
}

impl Shared {
    /// Drives the queue pair, until the driver is dropped.
    pub(super) fn start(name: &str, pair: QueuePair) -> Result<(Arc<Self>, Driver), Error> {
        let readiness = readiness(&pair)?;
        let depth = usize::try_from(pair.depth()).expect("usize is at least 32 bits wide");
        let waiters = (0..depth).map(|_| None).collect();
        let settled = Arc::new(Notify::new());
        let shared = Arc::new(Self {
            name: name.into(),
            state: Mutex::new(State::new(pair, waiters, Arc::clone(&settled))),
            places: Arc::new(Semaphore::new(depth)),
            posted: Notify::new(),
            settled,
            wanted: Notify::new(),
        });
        let driver = tokio::spawn(drive(Arc::clone(&shared), readiness));
        Ok((shared, Driver(driver.abort_handle())))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the queue pair")
    }

    /// A place in the queue pair, as soon as a call may begin.
    pub(super) async fn place(
        &self,
        deadline: Option<Instant>,
    ) -> Result<OwnedSemaphorePermit, Error> {
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(LATE);
        }
        self.ready(deadline).await?;
        let place = until(deadline, Arc::clone(&self.places).acquire_owned()).await?;
        Ok(place.expect("the semaphore is never closed"))
    }

    pub(super) fn post<E>(
        &self,
        place: OwnedSemaphorePermit,
        post: impl FnOnce(&mut QueuePair) -> Result<Token, E>,
    ) -> Result<Posted, E> {
        let (to, receiver) = oneshot::channel();
        let mut state = self.state();
        let token = post(&mut state.pair)?;
        state.waiters[token.index()] = Some(Waiter { to, is_late: false, _place: place });
        drop(state);
        self.posted.notify_one();
        Ok(Posted { token, receiver })
    }

    /// Waits for the completion of an operation. At the deadline, the call ends without it.
    pub(super) async fn completion(
        &self,
        mut posted: Posted,
        deadline: Option<Instant>,
    ) -> Completion {
        match until(deadline, &mut posted.receiver).await {
            Ok(done) => done.expect("every operation completes"),
            Err(_) => self.leave(posted),
        }
    }

    /// Ends a call whose time-out has passed. Its operation continues with a copy of the buffer.
    fn leave(&self, Posted { token, mut receiver }: Posted) -> Completion {
        let mut state = self.state();
        // The answer may have arrived. A lost connection is news for the driver.
        state.hand_over();
        self.posted.notify_one();
        if let Ok(done) = receiver.try_recv() {
            return done;
        }
        let (buffer, changes_volume) = state.pair.take_back(token);
        if changes_volume {
            state.late += 1;
            state.waiters[token.index()].as_mut().expect("it is in flight").is_late = true;
        }
        let result = Err(LATE.after_changes(changes_volume));
        Completion { token, result, buffer, buffers: Vec::new() }
    }

    /// Waits until a call may begin: after late operations that may change the volume, and after a
    /// lost connection is re-established, or one reconnect has failed. Starts a reconnect if the last
    /// one has already failed.
    #[inline]
    pub(super) async fn ready(&self, deadline: Option<Instant>) -> Result<(), Error> {
        let failures_before = {
            let state = self.state();
            if state.is_ready() {
                return Ok(());
            }
            state.failures
        };
        loop {
            let mut settled = pin!(self.settled.notified());
            settled.as_mut().enable();
            if let Some(result) = self.settlement(failures_before) {
                return result;
            }
            until(deadline, settled).await?;
        }
    }

    /// The state of the connection for a call that began after `failures_before` failures; `None`
    /// while it cannot begin.
    fn settlement(&self, failures_before: u64) -> Option<Result<(), Error>> {
        let mut state = self.state();
        if !state.pair.is_lost() {
            return state.is_ready().then_some(Ok(()));
        }
        if state.failures > failures_before {
            return state.failure.clone().map(Err);
        }
        if std::mem::take(&mut state.is_given_up) {
            self.wanted.notify_one();
        }
        None
    }
}

/// The driver's next step.
enum Next {
    /// Turn again: there may be more work.
    Again,
    /// Sleep until the socket is ready, an operation is posted, or the time has passed.
    Sleep(Interest, Option<Duration>),
    /// The connection is lost.
    Lost,
}

impl State {
    fn new(pair: QueuePair, waiters: Vec<Option<Waiter>>, settled: Arc<Notify>) -> Self {
        Self {
            pair,
            waiters,
            done: Vec::new(),
            late: 0,
            settled,
            failures: 0,
            failure: None,
            is_given_up: false,
        }
    }

    /// Whether a call may begin.
    fn is_ready(&self) -> bool {
        self.late == 0 && !self.pair.is_lost()
    }

    fn give_up(&mut self, error: Error) {
        self.failures += 1;
        self.failure = Some(error);
        self.is_given_up = true;
    }

    /// Makes a few turns, and passes completions to their receivers.
    fn advance(&mut self) -> Next {
        let mut moved = true;
        for _ in 0..TURNS_MAX {
            moved = !self.pair.is_lost() && self.pair.turn(&mut self.done, usize::MAX);
            if !moved {
                break;
            }
        }
        self.hand_over();
        if self.pair.is_lost() {
            Next::Lost
        } else if moved || self.pair.holds_input() {
            Next::Again
        } else {
            let interest = match self.pair.has_unsent() {
                true => Interest::READABLE | Interest::WRITABLE,
                false => Interest::READABLE,
            };
            Next::Sleep(interest, self.pair.patience_left())
        }
    }

    /// Passes completions to their receivers.
    fn hand_over(&mut self) {
        // If the connection is lost, this takes the completions that report it. An error means that
        // none are left.
        let _ = self.pair.poll(&mut self.done);
        for done in self.done.drain(..) {
            let waiter = self.waiters[done.token.index()].take().expect("somebody posted it");
            if waiter.is_late {
                self.late -= 1;
                if self.late == 0 {
                    self.settled.notify_waiters();
                }
            }
            // A future that was dropped needs no completion.
            let _ = waiter.to.send(done);
        }
    }
}

/// Drives the queue pair from connection to connection.
async fn drive(shared: Arc<Shared>, mut readiness: Readiness) {
    loop {
        drive_connection(&shared, &readiness).await;
        match reconnect(&shared).await {
            Ok(new) => {
                readiness = new;
                shared.settled.notify_waiters();
            }
            Err(error) => {
                shared.state().give_up(error);
                shared.settled.notify_waiters();
                shared.wanted.notified().await;
            }
        }
    }
}

/// Drives the queue pair until the connection is lost.
async fn drive_connection(shared: &Shared, readiness: &Readiness) {
    loop {
        match advance(shared, readiness) {
            Next::Lost => return,
            Next::Again => tokio::task::yield_now().await,
            Next::Sleep(interest, left) => sleep(shared, readiness, interest, left).await,
        }
    }
}

/// Turns until there is no progress, and then clears the socket's readiness.
fn advance(shared: &Shared, readiness: &Readiness) -> Next {
    let turns = || shared.state().advance();
    let sleeps = |next: &Next| matches!(next, Next::Sleep(..));
    let next = readiness.attempt(Interest::READABLE, turns, sleeps).unwrap_or_else(turns);
    match next {
        Next::Sleep(interest, _) if interest.is_writable() => {
            readiness.attempt(Interest::WRITABLE, turns, sleeps).unwrap_or(next)
        }
        _ => next,
    }
}

/// Sleeps until the socket is ready, an operation is posted, or the time has passed.
async fn sleep(shared: &Shared, readiness: &Readiness, interest: Interest, left: Option<Duration>) {
    let mut ready = pin!(readiness.ready(interest));
    let mut posted = pin!(shared.posted.notified());
    let mut over = pin!(tokio::time::sleep(left.unwrap_or_default()));
    std::future::poll_fn(|context| {
        let is_ready = ready.as_mut().poll(context).is_ready();
        let is_posted = posted.as_mut().poll(context).is_ready();
        let is_over = left.is_some() && over.as_mut().poll(context).is_ready();
        if is_ready || is_posted || is_over { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Makes the connection again.
async fn reconnect(shared: &Shared) -> Result<Readiness, Error> {
    let reconnector = shared.state().pair.reconnector();
    let pair = blocking(reconnector).await?;
    let readiness = readiness(&pair)?;
    shared.state().pair = pair;
    Ok(readiness)
}

fn readiness(pair: &QueuePair) -> Result<Readiness, Error> {
    let readiness = pair.socket().try_clone_to_owned().and_then(Readiness::of);
    readiness.map_err(|error| Error::ConnectionLost(Lost::System(error.kind())))
}

/// Runs blocking work on a thread of its own.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.expect("connecting does not panic")
}
