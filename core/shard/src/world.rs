//! The face of the outside: all that a shard can see and do of sockets, devices, time and other
//! cores. The reactor wears it in production, the simulator in tests.
//!
//! Every call returns at once. What takes time is answered by an [`Event`] in a later turn.

use std::net::SocketAddr;

use nearflash_engine::{CoreId, DeviceRequest, DeviceResult, OperationId, Pool};
use nearflash_request::BufferId;
use nearflash_session::Chunk;
use nearflash_units::Nanos;

use crate::door::{Door, Peer};
use crate::message::Message;
use crate::notice::Notice;

/// A connected socket. The number is the world's, the same on every core, and may be used again
/// once closed.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct SocketId(pub u32);

/// A part of a pool buffer that received bytes go to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Place {
    /// Which buffer.
    pub buffer: BufferId,
    /// From where in it.
    pub offset: usize,
    /// At most so many bytes.
    pub len: usize,
}

/// Something happened since the last look.
#[derive(Debug)]
pub enum Event {
    /// A host connected. Only on the first core.
    Accepted {
        /// The connection.
        socket: SocketId,
        /// Where it came in.
        door: Door,
        /// Who it is.
        peer: Peer,
        /// The address at which it reached us; unspecified for a Unix socket.
        local: SocketAddr,
    },
    /// A watched socket can be read or written, or was closed by its peer. The watch is over.
    Ready(SocketId),
    /// A device operation ended.
    Device(OperationId, DeviceResult),
    /// Another core has something to say.
    Message(Message),
}

/// What receiving brought.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Received {
    /// So many bytes, first into the place, then into the staging area.
    Bytes(usize),
    /// Nothing yet.
    Nothing,
    /// The peer sends no more, or the connection is broken.
    Closed,
}

/// What sending did.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Sent {
    /// So many bytes are on their way; zero when there is no room.
    Bytes(usize),
    /// The connection is broken.
    Closed,
}

/// What a socket is watched for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Interest {
    /// Bytes to receive.
    Input,
    /// Room to send, or bytes to receive.
    Both,
    /// Room to send.
    Output,
}

/// What became of a submitted device operation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Submitted {
    /// It ended at once; no event follows.
    Done(DeviceResult),
    /// An [`Event::Device`] follows.
    Queued,
}

/// The outside world, as one core sees it.
pub trait World {
    /// The time, as of the start of this turn.
    fn now(&self) -> Nanos;

    /// This core's buffers.
    fn pool(&mut self) -> &mut Pool;

    /// What happened since the last look; a bounded number, the rest next time.
    fn poll(&mut self, events: &mut Vec<Event>);

    /// Receives into `place`, then into `staging`.
    fn receive(&mut self, socket: SocketId, place: Option<Place>, staging: &mut [u8]) -> Received;

    /// Sends as many of the chunks, in order, as there is room for.
    fn send<'a>(&mut self, socket: SocketId, chunks: impl Iterator<Item = Chunk<'a>>) -> Sent;

    /// Asks for one [`Event::Ready`]. A socket is watched for one interest at a time; asking again
    /// replaces it.
    fn watch(&mut self, socket: SocketId, interest: Interest);

    /// Says that nothing more will be sent. What was sent still arrives.
    fn shut_down_output(&mut self, socket: SocketId);

    /// Ends the connection and forgets the socket.
    fn close(&mut self, socket: SocketId);

    /// Lets another core have the socket: no event for it comes here any more. (The other calls
    /// [`Self::watch`] when it wants to hear of it.)
    fn detach(&mut self, socket: SocketId);

    /// Takes over a socket that another core detached.
    fn attach(&mut self, socket: SocketId);

    /// Submits a device operation. Its buffer must stay taken until it ends.
    fn submit(&mut self, request: DeviceRequest) -> Submitted;

    /// Sends a message to another core. Messages between two cores arrive in order.
    fn post(&mut self, core: CoreId, message: Message);

    /// Takes no more connections.
    fn stop_listening(&mut self);

    /// Something that whoever runs the node may want to know.
    fn notice(&mut self, notice: Notice);
}
