//! The transport of a queue pair's operations to the node, and of the answers back.
//!
//! A link is a TCP or Unix connection with a session: the handshake is done, and a volume is open.
//! It moves whole batches, and does not interpret them.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nearflash_direct::client::{
    ClientCompletion, ClientConfig, ClientEvent, ClientOperation, ClientSession, SubmitError,
    VolumeHandle, VolumeInfo,
};
use nearflash_direct::wire::IDENTITY_LEN;
use nearflash_direct::{Digests, PeerError, Seal, Status, segments};
use nearflash_request::BufferId;
use nearflash_ring::ShortPath;
use nearflash_session::RequestingEnd;
use nearflash_units::Nanos;
use rustix::io::fcntl_dupfd_cloexec;
use rustix::rand::{GetRandomFlags, getrandom};

use super::buffer::Buffer;
use super::error::{Error, Lost};
use super::ring::{Attached, Refused, Ring};
use super::secured;
use super::session::Connection;
use super::shared::Shared;
use super::slots::{Slot, Slots, slot_of};
use super::url::Place;
use crate::resolve::resolve;
use crate::stream::{self, LinkError, Memory as _};

/// The maximum number of bytes received in addition to expected payload: 60 answers of 4 KiB, which
/// still fit the second-level cache.
const STAGING_LEN: usize = 256 * 1024;

/// The identity that consecutive links of one queue pair share: before a new link is ready, the
/// operations of the earlier ones have ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkIdentity {
    bytes: [u8; IDENTITY_LEN],
    /// Whether the application chose it, and relies on the claim.
    is_given: bool,
}

impl LinkIdentity {
    /// A new identity.
    pub(super) fn draw() -> Result<Self, Error> {
        Ok(Self { bytes: draw()?, is_given: false })
    }

    /// The given identity, or a new one.
    pub(super) fn given_or_drawn(identity: Option<[u8; IDENTITY_LEN]>) -> Result<Self, Error> {
        identity.map_or_else(Self::draw, |bytes| Ok(Self { bytes, is_given: true }))
    }
}

/// A connection to a node.
pub(super) struct Link {
    connection: Connection,
    /// The rings, if the node shares memory with the client.
    ring: Option<Ring>,
    /// Events that came while another one was awaited.
    passed: VecDeque<ClientEvent>,
}

impl Link {
    /// Connects, authenticates, and waits until no operation of an earlier link with this identity
    /// is under way. On the node's own machine, requests rings with a data area of `shared_len`
    /// bytes, unless that is 0.
    pub(super) fn connect(
        shared: &Shared,
        identity: LinkIdentity,
        slots: Slots,
        shared_len: usize,
    ) -> Result<Self, Error> {
        let rings = matches!(shared.url.place, Place::Local(_)) && shared_len > 0;
        let socket = open_socket(&shared.url.place, shared.options.silence_max)?;
        let config = ClientConfig {
            key: shared.credentials.key(),
            digests: Digests { header: shared.url.header_digest, data: shared.url.data_digest },
            rings,
            nonce: draw()?,
        };
        let session = ClientSession::new(config);
        let connection = match shared.url.place {
            Place::Tls { .. } => secured::connect(shared, socket, session, slots, STAGING_LEN)?,
            Place::Tcp { .. } | Place::Local(_) => {
                Connection::new(socket, session, slots, STAGING_LEN)
            }
        };
        let mut link = Self { connection, ring: None, passed: VecDeque::new() };
        let hello =
            link.await_event(shared, "HELLO", |event| (*event == ClientEvent::Ready).then_some(()));
        hello.map_err(|error| unanswered(error, &shared.url.place))?;
        let agreed = link.connection.session.agreed().expect("the handshake is over");
        let wanted = (shared.url.header_digest, shared.url.data_digest);
        if wanted != (agreed.digests.header, agreed.digests.data) {
            return Err(Error::NoDigests { place: shared.url.place.to_string() });
        }
        link.claim(shared, identity)?;
        if rings {
            let timeout = shared.options.silence_max;
            let attached = Ring::attach(&mut link.connection, shared_len, timeout);
            match attached.map_err(Error::ConnectionLost)? {
                Attached::Yes(ring) => link.ring = Some(ring),
                Attached::No => {}
                Attached::Unusable => {
                    let slots = link.slots().successor();
                    link.goodbye();
                    return Self::connect(shared, identity, slots, 0);
                }
            }
        }
        Ok(link)
    }

    /// Moves the descriptors to numbers from `min` on, as far as there are free ones.
    pub(super) fn raise_descriptors(&mut self, min: u32) {
        let Some(min) = i32::try_from(min).ok().filter(|min| *min > 0) else { return };
        if let Ok(raised) = fcntl_dupfd_cloexec(self.connection.socket(), min) {
            self.connection.replace_socket(raised);
        }
        if let Some(ring) = &mut self.ring
            && let Ok(raised) = fcntl_dupfd_cloexec(ring.bell(), min)
        {
            ring.replace_bell(raised);
        }
    }

    /// Guards the descriptors of a link with shared memory: [`Ring::guard`].
    pub(super) fn guard_descriptors(&mut self) {
        if let Some(ring) = &mut self.ring {
            ring.guard(&self.connection);
        }
    }

    /// Whether the descriptors of a link with shared memory are the guarded ones.
    pub(super) fn has_descriptors(&self) -> bool {
        self.ring.as_ref().is_none_or(|ring| ring.has_descriptors(&self.connection))
    }

    /// Ends the operations of earlier links.
    fn claim(&mut self, shared: &Shared, identity: LinkIdentity) -> Result<(), Error> {
        let claim = self.connection.session.claim(identity.bytes);
        claim.map_err(|_| Error::ConnectionLost(Lost::Closed))?;
        let claimed = self.await_event(shared, "CLAIM", |event| match event {
            ClientEvent::Claimed(result) => Some(*result),
            _ => None,
        })?;
        match claimed {
            Ok(()) => Ok(()),
            // A node of an older version does not support CLAIM.
            Err(Status::INVALID_OPCODE) if !identity.is_given => Ok(()),
            Err(status) => Err(Error::Status(status)),
        }
    }

    pub(super) fn open(&mut self, shared: &Shared, volume: &str) -> Result<VolumeInfo, Error> {
        let open = self.connection.session.open(volume);
        let number = open.map_err(|_| Error::ConnectionLost(Lost::Closed))?;
        let opened = self.await_event(shared, "OPEN", |event| match event {
            ClientEvent::Opened { number: of, result } if *of == number => Some(*result),
            _ => None,
        })?;
        opened.map_err(|status| Error::Open { volume: volume.to_owned(), status })
    }

    /// Opens a sealed object, in place of a handle or as a new one.
    pub(super) fn open_sealed(
        &mut self,
        shared: &Shared,
        seal: &Seal,
        into: Option<VolumeHandle>,
    ) -> Result<VolumeInfo, Error> {
        let open = self.connection.session.open_sealed(seal, into);
        let number = open.map_err(Self::unasked)?;
        let opened = self.await_event(shared, "OPEN_SEALED", |event| match event {
            ClientEvent::Opened { number: of, result } if *of == number => Some(*result),
            _ => None,
        })?;
        opened.map_err(Error::Status)
    }

    pub(super) fn close(&mut self, volume: VolumeHandle) -> Result<(), SubmitError> {
        self.connection.session.close(volume)
    }

    /// The error of a message that the session does not send.
    pub(super) fn unasked(error: SubmitError) -> Error {
        match error {
            SubmitError::NotAgreed => Error::Status(Status::INVALID_OPCODE),
            SubmitError::NotOpen => Error::Status(Status::NO_SUCH_VOLUME),
            SubmitError::Length(_) => Error::Status(Status::INVALID_FIELD),
            _ => Error::ConnectionLost(Lost::Closed),
        }
    }

    pub(super) fn session_mut(&mut self) -> &mut ClientSession {
        &mut self.connection.session
    }

    /// Waits for an event. The others are kept.
    pub(super) fn await_event<T>(
        &mut self,
        shared: &Shared,
        what: &'static str,
        wanted: impl Fn(&ClientEvent) -> Option<T>,
    ) -> Result<T, Error> {
        let timeout = nanos(shared.options.silence_max);
        let mut found = None;
        let passed = &mut self.passed;
        let is_found = self.connection.turn_until(timeout, |connection| {
            while let Some(event) = connection.session.poll_event() {
                match wanted(&event) {
                    Some(it) => found = Some(it),
                    None => passed.push_back(event),
                }
            }
            found.is_some()
        });
        let place = || shared.url.place.to_string();
        match is_found {
            Ok(_) => found.ok_or_else(|| {
                let within = shared.options.silence_max;
                Error::Silent { place: place(), what, within }
            }),
            Err(LinkError::Peer(source)) => Err(Error::Refused { place: place(), source }),
            Err(error) => Err(Error::ConnectionLost(error.into())),
        }
    }

    /// The maximum number of operations that may be in flight.
    pub(super) fn credits_max(&self) -> u32 {
        let agreed = self.connection.session.agreed().map_or(0, |agreed| agreed.credits_max);
        self.ring.as_ref().map_or(agreed, |ring| agreed.min(ring.entries_max()))
    }

    /// The length of the longest operation.
    pub(super) fn len_max(&self) -> u32 {
        self.connection.session.agreed().map_or(0, |agreed| agreed.len_max)
    }

    /// The number by which the node tells whether it may have lost writes; 0 if it does not.
    pub(super) fn boot(&self) -> u64 {
        self.connection.session.agreed().map_or(0, |agreed| agreed.boot)
    }

    /// Whether the node knows the operation that zeroes blocks.
    pub(super) fn can_zero(&self) -> bool {
        self.connection.session.agreed().is_some_and(|agreed| agreed.zero)
    }

    #[inline]
    pub(super) fn slots(&self) -> &Slots {
        &self.connection.memory
    }

    #[inline]
    pub(super) fn slots_mut(&mut self) -> &mut Slots {
        &mut self.connection.memory
    }

    /// Queues a slot's operation.
    #[inline]
    pub(super) fn submit(&mut self, volume: VolumeHandle, slot: BufferId) -> Result<(), Refused> {
        if let Some(ring) = &mut self.ring {
            return ring.submit(&mut self.connection, volume, slot);
        }
        let Connection { session, memory, forecast, .. } = &mut self.connection;
        let operation = memory.get(slot).operation;
        let payload = match operation {
            ClientOperation::Write { .. } => memory.bytes(slot),
            _ => &[],
        };
        let tag = session.submit(volume, &operation, payload)?;
        memory.tagged(tag, slot);
        if let ClientOperation::Read { buffer, offset, len } = operation
            && segments::count(offset, len) == 1
        {
            let len = usize::try_from(len).expect("usize is at least 32 bits wide");
            forecast.asked(stream::Place { buffer, len });
        }
        Ok(())
    }

    /// Sends what is queued (rings the doorbell).
    #[inline]
    pub(super) fn send(&mut self) -> Result<bool, Lost> {
        if let Some(ring) = &mut self.ring {
            ring.publish();
            if self.connection.session.output_len() > 0 {
                ring.check_socket(&self.connection)?;
            }
        }
        Ok(self.connection.send()?)
    }

    /// Sends what is queued and takes what has arrived. Returns whether there was progress. Never
    /// waits.
    #[inline]
    pub(super) fn turn(&mut self) -> Result<bool, Lost> {
        match &mut self.ring {
            Some(ring) => ring.turn(&mut self.connection),
            None => Ok(self.connection.turn()?),
        }
    }

    /// The next completed operation: its slot and its result.
    #[inline]
    pub(super) fn poll_completion(&mut self) -> Option<(BufferId, ClientCompletion)> {
        let done = self.connection.session.poll_completion()?;
        let slot = self.connection.memory.of_tag(done.tag);
        if let Some(ring) = &mut self.ring {
            ring.completed(&mut self.connection.memory, slot);
            return Some((slot, done));
        }
        if let ClientOperation::Read { buffer, .. } = self.connection.memory.get(slot).operation {
            self.connection.forecast.answered(buffer);
        }
        Some((slot, done))
    }

    #[inline]
    pub(super) fn poll_event(&mut self) -> Option<ClientEvent> {
        self.passed.pop_front().or_else(|| self.connection.session.poll_event())
    }

    /// Requests the current properties of the volume. Returns the number of the answer.
    pub(super) fn refresh(&mut self, volume: VolumeHandle) -> Result<u32, SubmitError> {
        self.connection.session.refresh(volume)
    }

    /// Sends a PING.
    pub(super) fn ping(&mut self) {
        // The next turn reports a session that has ended.
        let _ = self.connection.session.ping();
    }

    /// Sleeps until data has arrived or queued data can be sent, at most for `span`. Returns
    /// `false` after that time.
    pub(super) fn wait(&mut self, span: Duration) -> Result<bool, Lost> {
        match &mut self.ring {
            Some(ring) => ring.wait(&self.connection, span),
            None => Ok(self.connection.wait(nanos(span))?),
        }
    }

    /// Publishes the ring's requests, and requests wake-ups on [`Self::bell`] and the socket from
    /// now on. Returns whether there is no answer yet, as far as that is known without receiving.
    pub(super) fn doze(&mut self) -> bool {
        match &mut self.ring {
            Some(ring) => ring.doze(),
            None => !self.connection.holds_input(),
        }
    }

    /// Whether the node's core cannot answer while the calling thread spins.
    #[inline]
    pub(super) fn shares_processor(&mut self) -> bool {
        self.ring.as_mut().is_some_and(Ring::shares_processor)
    }

    /// Whether requests use shared memory.
    #[inline]
    pub(super) fn has_rings(&self) -> bool {
        self.ring.is_some()
    }

    /// The descriptor that signals answers, on a link with shared memory.
    pub(super) fn bell(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.ring.as_ref().map(Ring::bell)
    }

    /// Ends the sleep.
    pub(super) fn awake(&mut self) {
        if let Some(ring) = &mut self.ring {
            ring.awake();
        }
    }

    pub(super) fn socket(&self) -> std::os::fd::BorrowedFd<'_> {
        self.connection.socket()
    }

    pub(super) fn has_unsent(&self) -> bool {
        self.connection.has_unsent()
    }

    /// Whether a turn can receive without anything arriving at the socket.
    #[cfg(feature = "tokio")]
    pub(super) fn holds_input(&self) -> bool {
        self.connection.holds_input()
    }

    /// A buffer in shared memory, if there is any; `None` when that has no `len` bytes left.
    pub(super) fn buffer(&mut self, len: usize) -> Option<Buffer> {
        match &mut self.ring {
            Some(ring) => ring.buffer(len),
            None => Some(Buffer::new(len)),
        }
    }

    /// Ends every operation in flight after the connection is lost. Returns them in the order of
    /// their posts. Memory that a node may still write to is out of reach from now on.
    pub(super) fn give_up(&mut self) -> Vec<Slot> {
        let mut slots = self.connection.memory.empty_all();
        if let Some(ring) = &mut self.ring {
            for lost in &mut slots {
                ring.abandon(slot_of(lost.token), lost);
            }
        }
        slots
    }

    /// Sends a goodbye, without waiting until the node receives it.
    pub(super) fn goodbye(mut self) {
        self.connection.session.goodbye();
        let _ = self.connection.send();
    }
}

impl From<LinkError<PeerError>> for Lost {
    fn from(error: LinkError<PeerError>) -> Self {
        match error {
            LinkError::Closed => Self::Closed,
            LinkError::Socket(source) => Self::System(source.kind()),
            LinkError::Peer(error) => Self::Peer(error),
        }
    }
}

/// The error of a HELLO. A node closes connections without TLS at once where it requires TLS.
fn unanswered(error: Error, place: &Place) -> Error {
    match (error, place) {
        (Error::ConnectionLost(Lost::Closed), Place::Tcp { .. }) => {
            Error::ConnectionLost(Lost::Unanswered)
        }
        (error, _) => error,
    }
}

fn open_socket(place: &Place, timeout: Duration) -> Result<OwnedFd, Error> {
    let unreachable =
        |source| Error::Unreachable { place: place.to_string(), source: Arc::new(source) };
    match place {
        Place::Tcp { host, port } | Place::Tls { host, port } => {
            let resolved = resolve(host, *port).map_err(|source| {
                let (host, source) = (host.to_string(), Arc::new(source));
                Error::Resolve { host, source }
            })?;
            let mut failure = None;
            for address in resolved {
                match stream::connect_tcp(address, timeout) {
                    Ok(socket) => return Ok(socket),
                    Err(error) => failure = Some(error),
                }
            }
            Err(unreachable(failure.unwrap_or_else(|| io::ErrorKind::NotFound.into())))
        }
        Place::Local(path) => open_local(path).map_err(unreachable),
    }
}

fn open_local(path: &Path) -> io::Result<OwnedFd> {
    let stream = UnixStream::connect(ShortPath::to(path)?.path())?;
    stream.set_nonblocking(true)?;
    Ok(stream.into())
}

/// Random bytes from the kernel.
fn draw<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < bytes.len() {
        let drawn = getrandom(&mut bytes[filled..], GetRandomFlags::empty());
        filled += drawn
            .map_err(|errno| Error::ConnectionLost(Lost::System(io::Error::from(errno).kind())))?;
    }
    Ok(bytes)
}

fn nanos(span: Duration) -> Nanos {
    Nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}
