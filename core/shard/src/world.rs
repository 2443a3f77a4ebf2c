//! The interface of a shard to the outside: sockets, devices, time and other cores. The reactor
//! implements it in production, the simulator in tests.
//!
//! Every call returns at once. An operation that takes time is answered by an [`Event`] in a later
//! turn.

use std::net::SocketAddr;

use nearflash_device::{DeviceRequest, DeviceResult, OperationId};
use nearflash_engine::{CoreId, Pool};
use nearflash_request::BufferId;
use nearflash_session::{Chunk, Origin};
use nearflash_units::{ByteLen, Nanos};

use crate::door::{Door, Peer};
use crate::message::Message;
use crate::notice::Notice;
use crate::tls::TlsIdentity;

/// A connected socket: the world's number, the same on every core, used again once closed.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct SocketId(pub u32);

/// A part of a pool buffer that received bytes go to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Place {
    /// The buffer.
    pub buffer: BufferId,
    /// The offset in the buffer.
    pub offset: usize,
    /// The maximum number of bytes to receive.
    pub len: usize,
}

/// An event since the last poll.
#[derive(Debug)]
#[allow(missing_docs, reason = "the names say what the fields are")]
pub enum Event {
    /// A host connected. Only on the first core.
    Accepted {
        socket: SocketId,
        door: Door,
        peer: Peer,
        /// The local address of the connection; unspecified for a Unix socket.
        local: SocketAddr,
    },
    /// A watched socket can be read or written, or was closed by its peer. The watch is over.
    Ready(SocketId),
    /// A device operation ended.
    Device(OperationId, DeviceResult),
    /// A message from another core or the control plane.
    Message(Message),
}

/// The result of a receive.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Received {
    /// The number of bytes received, first into the place, then into the staging area.
    Bytes(usize),
    /// Nothing yet.
    Nothing,
    /// The peer sends no more, or the connection is broken.
    Closed,
}

/// The result of a send.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Sent {
    /// The number of bytes accepted for sending; zero if there is no room.
    Bytes(usize),
    /// The connection is broken.
    Closed,
}

/// The events that a socket is watched for. The end of the connection is always one of them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Interest {
    /// Bytes to receive.
    Input,
    /// Room to send, or bytes to receive.
    Both,
    /// Room to send.
    Output,
    /// Nothing but the end of the connection.
    End,
}

/// The system's knowledge of the other end of a connection.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PeerState {
    /// It has closed or reset the connection. Bytes from before may not have been received yet.
    pub is_over: bool,
    /// Something that was sent has not reached it yet.
    pub owes: bool,
    /// The number of sent bytes that have reached it.
    pub reached: u64,
}

/// The result of submitting a device operation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Submitted {
    /// It ended at once; no event follows.
    Done(DeviceResult),
    /// An [`Event::Device`] follows.
    Queued,
}

/// Rings in memory that a client shares with this core. Also the region of the foreign buffers that
/// lie in their data area ([`nearflash_engine::Pool`]). Used again once detached.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct RingId(pub u32);

/// An entry of a ring: a header of the direct protocol.
pub type RingEntry = [u8; 32];

/// The sizes that a client asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RingSpec {
    /// The entries of the submission ring.
    pub entries: u32,
    /// The length of the data area.
    pub data_len: ByteLen,
    /// The user of the client's process, whose other processes share rings and memory with it.
    pub owner: Origin,
}

/// The reason why a client gets no rings; it continues without them.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RingRefused {
    /// The world has no memory to share.
    #[error("this platform does not support shared memory")]
    Unsupported,
    /// The requested size is not valid.
    #[error("the size of the rings is invalid")]
    Size,
    /// The core already has the maximum number of rings.
    #[error("the core has the maximum number of rings")]
    TooMany,
    /// The system's error.
    #[error("the system refused shared memory: {0}")]
    System(std::io::ErrorKind),
}

/// The content of a client's rings is invalid; its connection must be closed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the client broke its rings")]
pub struct RingBroken;

/// The outside world, as one core sees it.
pub trait World {
    /// The time at which [`Self::poll`] collected the events.
    fn now(&self) -> Nanos;

    /// The time at this moment. It is not before anything that this core has been told yet, while
    /// [`Self::now`] may be. A machine that is suspended does not stop it.
    fn clock(&self) -> Nanos {
        self.now()
    }

    /// Unpredictable bytes that never repeat: for one handshake.
    fn nonce(&mut self) -> [u8; 16];

    /// This core's buffers.
    fn pool(&mut self) -> &mut Pool;

    /// Appends the events since the last poll: a bounded number, the rest next time.
    fn poll(&mut self, events: &mut Vec<Event>);

    /// Connects to another node; `None` if that is impossible at once. Until the first
    /// [`Event::Ready`] of [`Interest::Output`], nothing is sent or received. A connection that fails
    /// later is closed by its peer.
    fn connect(&mut self, to: SocketAddr) -> Option<SocketId> {
        let _ = to;
        None
    }

    /// Receives into `place`, then into `staging`.
    fn receive(&mut self, socket: SocketId, place: Option<Place>, staging: &mut [u8]) -> Received;

    /// Whether nothing waited any more when `len` bytes were received into `room`, or none. `false` if that is
    /// not known.
    fn is_drained(&self, socket: SocketId, len: usize, room: usize) -> bool {
        let _ = socket;
        len < room
    }

    /// At most how many bytes have arrived and were not received.
    fn unread(&self, socket: SocketId) -> usize {
        let _ = socket;
        0
    }

    /// The other end of a connection.
    fn peer_state(&mut self, socket: SocketId) -> PeerState {
        let _ = socket;
        PeerState::default()
    }

    /// The time at which nothing had happened but the events of earlier polls: a socket that was watched before
    /// it, and is ready only in this poll, had no input then.
    fn settled_at(&self) -> Nanos {
        Nanos(0)
    }

    /// Sends as many of the chunks, in order, as there is room for.
    fn send<'a>(&mut self, socket: SocketId, chunks: impl Iterator<Item = Chunk<'a>>) -> Sent;

    /// The identity that the peer has proved by TLS; `None` for a connection without TLS. It is of the protocol
    /// of the connection's listener.
    fn tls_identity(&self, socket: SocketId) -> Option<TlsIdentity> {
        let _ = socket;
        None
    }

    /// Asks for one [`Event::Ready`], of one interest at a time: asking again replaces it.
    fn watch(&mut self, socket: SocketId, interest: Interest);

    /// Shuts down the sending side. Bytes already sent still arrive.
    fn shut_down_output(&mut self, socket: SocketId);

    /// Ends the connection and forgets the socket.
    fn close(&mut self, socket: SocketId);

    /// Releases the socket and its events to another core, which calls [`Self::watch`].
    fn detach(&mut self, socket: SocketId);

    /// Takes over a socket that another core detached.
    fn attach(&mut self, socket: SocketId);

    /// Announces an operation that may follow, so that its data can be fetched into the cache.
    fn prepare(&mut self, next: &DeviceRequest) {
        let _ = next;
    }

    /// Submits a device operation. Its buffer must stay taken until it ends.
    fn submit(&mut self, request: DeviceRequest) -> Submitted;

    /// Sends a message to another core. Messages between two cores arrive in order.
    fn post(&mut self, core: CoreId, message: Message);

    /// Creates rings for the client at the other end of a Unix socket. Their descriptors accompany
    /// the next bytes that are sent. From then on, the world wakes up for them as for a socket,
    /// until they are detached.
    ///
    /// # Errors
    /// If no rings are available. The client gets this answer, and continues on its stream.
    fn attach_ring(&mut self, socket: SocketId, spec: RingSpec) -> Result<RingId, RingRefused> {
        let _ = (socket, spec);
        Err(RingRefused::Unsupported)
    }

    /// Appends the entries that the client has submitted: a bounded number, the rest next time.
    ///
    /// # Errors
    /// When the ring is broken.
    fn take_entries(
        &mut self,
        ring: RingId,
        entries: &mut Vec<RingEntry>,
    ) -> Result<(), RingBroken> {
        let _ = (ring, entries);
        Err(RingBroken)
    }

    /// How many entries the client has submitted that were not taken.
    fn untaken_entries(&self, ring: RingId) -> usize {
        let _ = ring;
        0
    }

    /// Puts answers into the completion ring, and wakes the client if it sleeps.
    ///
    /// # Errors
    /// When the ring is broken, or full: a client makes room before it submits.
    fn put_entries(&mut self, ring: RingId, entries: &[RingEntry]) -> Result<(), RingBroken> {
        let _ = (ring, entries);
        Err(RingBroken)
    }

    /// Copies bytes out of the data area, each once: the client may change them at any time.
    ///
    /// # Panics
    /// If they are not within the data area, as with the other copies: the session ensures
    /// that they are.
    fn copy_from_ring(&mut self, ring: RingId, offset: u64, into: &mut [u8]) {
        let _ = (ring, offset, into);
    }

    /// Copies bytes out of the data area into a pool buffer.
    fn fill_from_ring(&mut self, ring: RingId, offset: u64, to: Place) {
        let _ = (ring, offset, to);
    }

    /// Copies bytes of a pool buffer into the data area.
    fn copy_to_ring(&mut self, ring: RingId, from: Place, offset: u64) {
        let _ = (ring, from, offset);
    }

    /// Makes bytes of the data area zeroes.
    fn zero_in_ring(&mut self, ring: RingId, offset: u64, len: usize) {
        let _ = (ring, offset, len);
    }

    /// The connection is closed, and no device operation is left: the memory is given up.
    fn detach_ring(&mut self, ring: RingId) {
        let _ = ring;
    }

    /// Takes no more connections.
    fn stop_listening(&mut self);

    /// Reports a notice to the control plane.
    fn notice(&mut self, notice: Notice);
}
