//! The pulses that this node opens: one task for each partner.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use nearflash_mirror::membership::wire::{self, ANSWER_LEN, BEAT, End, Hello, Transcript};
use nearflash_mirror::membership::{NodeKey, Pulse};
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

use super::error::PulseError;
use super::{CONNECT_TIMEOUT, HANDSHAKE_TIMEOUT, PulseEvent, Shared, nonce};

/// The time for which a partner may take no bytes, or its machine acknowledge none.
const STALL: Duration = Duration::from_secs(2);

/// After this time without a message, a beat is sent.
const BEAT_PERIOD: Duration = Duration::from_secs(1);

/// The time between two attempts: at first, and at most.
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_millis(500);

/// The bytes of messages that may wait for one partner.
const QUEUE_LEN_MAX: usize = 4 << 20;

/// A connection that this node has opened. While the process lives, it ends with RST: an orderly end
/// would prove the death of the process.
///
/// `SO_LINGER` is set only then, because the kernel obeys it when the process dies, too. The stream
/// must not be split with `into_split`, whose half for writing sends FIN when it is dropped.
struct Own(Option<TcpStream>);

impl Own {
    fn stream(&mut self) -> &mut TcpStream {
        self.0.as_mut().expect("it is there until the end")
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let Some(stream) = self.0.take() else { return };
        if SockRef::from(&stream).set_linger(Some(Duration::ZERO)).is_err() {
            // Rather a socket that stays open than a false proof.
            std::mem::forget(stream);
        }
    }
}

/// The pulse to a partner.
pub(super) struct Link {
    node: NodeKey,
    addresses: RefCell<Vec<SocketAddr>>,
    /// The address of the connection, or of the attempt.
    current: Cell<Option<SocketAddr>>,
    queue: RefCell<Queue>,
    /// A message waits, or too many do.
    wake: Notify,
    /// The next attempt is due.
    retry: Notify,
    hurried: Cell<Option<Instant>>,
}

#[derive(Default)]
struct Queue {
    state: State,
    messages: VecDeque<Vec<u8>>,
    len: usize,
}

#[derive(Clone, Copy, Default, Eq, PartialEq)]
enum State {
    /// There is no connection.
    #[default]
    Down,
    /// The hello of the process is the first message.
    Up,
    Greeted,
    /// A message did not fit. It is lost with its connection.
    Full,
}

impl Link {
    pub(super) fn new(node: NodeKey, addresses: Vec<SocketAddr>) -> Self {
        Self {
            node,
            addresses: RefCell::new(addresses),
            current: Cell::new(None),
            queue: RefCell::default(),
            wake: Notify::new(),
            retry: Notify::new(),
            hurried: Cell::new(None),
        }
    }

    /// Takes the partner's addresses. Returns false if the connection goes to another one, and must be
    /// replaced.
    pub(super) fn set_addresses(&self, addresses: Vec<SocketAddr>) -> bool {
        let stays = self.current.get().is_none_or(|current| addresses.contains(&current));
        if stays && *self.addresses.borrow() != addresses {
            self.addresses.replace(addresses);
            self.hurry();
        }
        stays
    }

    /// Whether the partner is at that address.
    pub(super) fn is_at(&self, address: IpAddr) -> bool {
        let addresses = self.addresses.borrow();
        addresses.iter().any(|it| it.ip().to_canonical() == address.to_canonical())
    }

    /// Makes the next attempt at once, but not more often than the others.
    pub(super) fn hurry(&self) {
        let is_early = self.hurried.get().is_some_and(|at| at.elapsed() < RETRY_MAX);
        if self.queue.borrow().state == State::Down && !is_early {
            self.hurried.set(Some(Instant::now()));
            self.retry.notify_one();
        }
    }

    /// Queues a message. It is dropped if there is no connection.
    pub(super) fn send(&self, pulse: &Pulse) -> Result<(), PulseError> {
        let queue = &mut *self.queue.borrow_mut();
        match (queue.state, pulse) {
            (State::Down | State::Full, _) => return Ok(()),
            (State::Up, Pulse::Hello { .. }) | (State::Greeted, _) => {}
            (State::Up, _) => return Ok(()),
        }
        let message = wire::encode(pulse)?;
        if queue.len + message.len() > QUEUE_LEN_MAX {
            queue.state = State::Full;
        } else {
            queue.state = State::Greeted;
            queue.len += message.len();
            queue.messages.push_back(message);
        }
        self.wake.notify_one();
        Ok(())
    }

    /// Keeps a connection to the partner, until the task is aborted.
    pub(super) async fn run(self: Rc<Self>, shared: Rc<Shared>) {
        let mut delay = RETRY_MIN;
        for turn in 0.. {
            let address = {
                let addresses = self.addresses.borrow();
                addresses.get(turn % addresses.len().max(1)).copied()
            };
            if let Some(address) = address {
                self.current.set(Some(address));
                let begun = Instant::now();
                let error = match self.open(&shared, address).await {
                    Ok(pulse) => {
                        let error = self.serve(&shared, pulse).await;
                        if begun.elapsed() > RETRY_MAX {
                            delay = RETRY_MIN;
                        }
                        error
                    }
                    Err(error) => error,
                };
                self.queue.replace(Queue::default());
                self.current.set(None);
                let node = Uuid::from_bytes(self.node);
                shared.log.warn(&format!("no pulse to node {node} at {address}"), &error);
            }
            tokio::select! {
                () = sleep(delay) => delay = (2 * delay).min(RETRY_MAX),
                () = self.retry.notified() => delay = RETRY_MIN,
            }
        }
    }

    async fn open(&self, shared: &Shared, address: SocketAddr) -> Result<Own, PulseError> {
        let stream = tokio::select! {
            connected = timeout(CONNECT_TIMEOUT, TcpStream::connect(address)) => {
                connected.map_err(|_| PulseError::Late)??
            }
            // The machine may not have been there at the beginning of this attempt.
            () = self.retry.notified() => {
                let connected = timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await;
                connected.map_err(|_| PulseError::Late)??
            }
        };
        let mut own = Own(Some(stream));
        let shaken = timeout(HANDSHAKE_TIMEOUT, greet(shared, self.node, own.stream()));
        shaken.await.map_err(|_| PulseError::Late)??;
        Ok(own)
    }

    /// Sends what is queued, until the connection ends.
    async fn serve(&self, shared: &Shared, mut own: Own) -> PulseError {
        self.queue.replace(Queue { state: State::Up, ..Queue::default() });
        shared.report(PulseEvent::Connected(self.node));
        let (mut from, mut to) = own.stream().split();
        tokio::select! {
            error = end(&mut from) => error,
            error = self.pump(&mut to) => error,
        }
    }

    async fn pump(&self, to: &mut WriteHalf<'_>) -> PulseError {
        loop {
            let message = {
                let queue = &mut *self.queue.borrow_mut();
                if queue.state == State::Full {
                    return PulseError::Full;
                }
                let message = queue.messages.pop_front();
                queue.len -= message.as_ref().map_or(0, Vec::len);
                message
            };
            let written = match message {
                Some(message) => write(to, &message).await,
                None => match timeout(BEAT_PERIOD, self.wake.notified()).await {
                    Ok(()) => Ok(()),
                    Err(_) => write(to, &BEAT).await,
                },
            };
            if let Err(error) = written {
                return error;
            }
        }
    }
}

async fn write(to: &mut WriteHalf<'_>, mut bytes: &[u8]) -> Result<(), PulseError> {
    while !bytes.is_empty() {
        let count = timeout(STALL, to.write(bytes)).await.map_err(|_| PulseError::Stalled)??;
        if count == 0 {
            return Err(io::Error::from(io::ErrorKind::WriteZero).into());
        }
        bytes = &bytes[count..];
    }
    Ok(())
}

/// Waits for the end that the partner, or the network, makes.
async fn end(from: &mut ReadHalf<'_>) -> PulseError {
    match from.read(&mut [0]).await {
        Ok(0) => PulseError::Ended,
        Ok(_) => PulseError::Talks,
        Err(error) => error.into(),
    }
}

/// The opener's handshake. It reads every byte that the acceptor ever sends.
async fn greet(shared: &Shared, node: NodeKey, stream: &mut TcpStream) -> Result<(), PulseError> {
    stream.set_nodelay(true)?;
    SockRef::from(&*stream).set_tcp_user_timeout(Some(STALL))?;
    let hello = Hello {
        cluster: shared.cluster,
        from: shared.node,
        to: node,
        run: shared.run,
        addresses: (wire::canonical(stream.local_addr()?), wire::canonical(stream.peer_addr()?)),
        nonce: nonce()?,
    };
    let hello = hello.encode();
    stream.write_all(&hello).await?;
    let mut answer = [0; ANSWER_LEN];
    stream.read_exact(&mut answer).await.map_err(PulseError::of_handshake)?;
    let (nonce, proof) = wire::split_answer(&answer);
    let transcript = Transcript { secret: shared.secret.bytes(), hello: &hello, nonce };
    transcript.verify(End::Acceptor, &proof)?;
    stream.write_all(&transcript.proof(End::Opener)).await?;
    Ok(())
}
