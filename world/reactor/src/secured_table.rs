//! The connections of a core to addresses with TLS, by socket.
//!
//! A connection that turns out not to use TLS leaves the table.

use std::sync::Arc;

use nearflash_engine::Pool;
use nearflash_session::{Chunk, DoorTls};
use nearflash_shard::{
    Door, Event, Interest, Notice, Peer, Place, Received, Sent, SocketId, TlsIdentity,
};
use nearflash_units::index;

use crate::secured::{Look, Scratch, Secured};
use crate::sockets::{self, ZEROES};
use crate::tls::Tls;

/// The most steps of handshakes in one turn: each one computes for up to 200 µs, and other connections of the core
/// wait meanwhile.
const HANDSHAKES_PER_TURN_MAX: usize = 1;

/// The state of a socket after a receive that brought less than there was room for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Drains {
    /// Nothing waits any more.
    Plain,
    /// Only a receive that brings nothing shows it: the kernel returns whole records.
    Records,
    /// Nothing: bytes may wait behind a part of a record.
    Unknown,
}

#[derive(Debug, Default)]
pub(crate) struct SecuredTable {
    tls: Option<Arc<Tls>>,
    by_socket: Vec<Option<Box<Secured>>>,
    len: usize,
    /// Watched connections for which input is held.
    ready: Vec<SocketId>,
    scratch: Option<Box<Scratch>>,
    /// The steps of handshakes that this turn may still take.
    handshakes_left: usize,
}

impl SecuredTable {
    pub(crate) fn new(tls: Option<Arc<Tls>>) -> Self {
        Self { tls, ..Self::default() }
    }

    /// A connection was accepted at a listener with this policy.
    pub(crate) fn begin(&mut self, socket: SocketId, peer: Peer, (door, policy): (Door, DoorTls)) {
        if policy == DoorTls::Off {
            return;
        }
        let acceptor = self.tls.as_ref().and_then(|tls| tls.acceptor(door));
        let acceptor = acceptor.expect("a listener with TLS has keys");
        self.insert(socket, Box::new(Secured::new(peer, policy, Arc::clone(acceptor))));
    }

    fn insert(&mut self, socket: SocketId, connection: Box<Secured>) {
        let index = index(socket.0);
        if self.by_socket.len() <= index {
            self.by_socket.resize_with(index + 1, || None);
        }
        self.by_socket[index] = Some(connection);
        self.len += 1;
    }

    fn remove(&mut self, socket: SocketId) -> Option<Box<Secured>> {
        if self.len == 0 {
            return None;
        }
        let removed = self.by_socket.get_mut(index(socket.0))?.take()?;
        self.len -= 1;
        self.ready.retain(|ready| *ready != socket);
        Some(removed)
    }

    fn get(&self, socket: SocketId) -> Option<&Secured> {
        self.by_socket.get(index(socket.0))?.as_deref()
    }

    /// The connection is closed.
    pub(crate) fn forget(&mut self, socket: SocketId) {
        drop(self.remove(socket));
    }

    /// Another core takes the connection over.
    pub(crate) fn detach(&mut self, socket: SocketId) {
        if let Some(connection) = self.remove(socket)
            && let Some(tls) = &self.tls
        {
            tls.give(socket.0, connection);
        }
    }

    /// Takes over a connection that another core detached.
    pub(crate) fn attach(&mut self, socket: SocketId) {
        if let Some(connection) = self.tls.as_ref().and_then(|tls| tls.take(socket.0)) {
            self.insert(socket, connection);
        }
    }

    /// The identity that the peer has proved by TLS.
    pub(crate) fn identity(&self, socket: SocketId) -> Option<&TlsIdentity> {
        self.get(socket)?.identity()
    }

    /// The state of a socket after a receive.
    #[inline]
    pub(crate) fn drains(&self, socket: SocketId) -> Drains {
        if self.len == 0 {
            return Drains::Plain;
        }
        match self.get(socket) {
            None => Drains::Plain,
            Some(connection) if connection.is_in_kernel() => Drains::Records,
            Some(_) => Drains::Unknown,
        }
    }

    /// At most how much of what was read from a socket was not received, if so much more waits in it.
    pub(crate) fn held_max(&self, socket: SocketId, unread: usize) -> usize {
        self.get(socket).map_or(0, |connection| connection.held_max(unread))
    }

    pub(crate) fn begin_turn(&mut self, events: &mut Vec<Event>) {
        self.handshakes_left = HANDSHAKES_PER_TURN_MAX;
        events.extend(self.ready.drain(..).map(Event::Ready));
    }

    /// Whether the core can sleep.
    pub(crate) fn begin_sleep(&self) -> bool {
        self.ready.is_empty()
    }

    /// The socket is watched: input that is held does not arrive again.
    pub(crate) fn watch(&mut self, socket: SocketId, interest: Interest) {
        if self.len == 0 || matches!(interest, Interest::Output | Interest::End) {
            return;
        }
        if self.get(socket).is_some_and(Secured::holds_input) {
            self.ready.push(socket);
        }
    }

    /// Receives, if the records of the socket's connection are or may be handled here.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        socket: SocketId,
        place: Option<Place>,
        staging: &mut [u8],
        (pool, notices): (&mut Pool, &mut dyn FnMut(Notice)),
    ) -> Option<Received> {
        if self.len == 0 {
            return None;
        }
        self.receive_secured(socket, place, staging, (pool, notices))
    }

    fn receive_secured(
        &mut self,
        socket: SocketId,
        place: Option<Place>,
        staging: &mut [u8],
        (pool, notices): (&mut Pool, &mut dyn FnMut(Notice)),
    ) -> Option<Received> {
        let Self { by_socket, scratch, handshakes_left, .. } = self;
        let connection = by_socket.get_mut(index(socket.0))?.as_deref_mut()?;
        if connection.is_in_kernel() {
            return None;
        }
        let scratch = scratch.get_or_insert_default();
        if connection.is_shaking_hands() {
            if *handshakes_left == 0 {
                return Some(Received::Nothing);
            }
            match connection.look(socket, scratch, notices) {
                Look::Nothing => return Some(Received::Nothing),
                Look::Computed => {
                    *handshakes_left -= 1;
                    return Some(Received::Nothing);
                }
                Look::Closed => return Some(Received::Closed),
                Look::Open => {
                    *handshakes_left -= 1;
                    if connection.is_in_kernel() {
                        return None;
                    }
                }
                Look::Plain => {
                    drop(self.remove(socket));
                    return None;
                }
            }
        }
        let place = match place {
            Some(Place { buffer, offset, len }) => {
                &mut pool.bytes_mut(buffer)[offset..offset + len]
            }
            None => &mut [],
        };
        Some(connection.receive(socket, scratch, [place, staging], notices))
    }

    /// Sends, if the records of the socket's connection are or may be handled here.
    #[inline]
    pub(crate) fn send<'a, I: Iterator<Item = Chunk<'a>>>(
        &mut self,
        socket: SocketId,
        chunks: I,
        pool: &Pool,
    ) -> Result<Sent, I> {
        let Some(connection) =
            self.by_socket.get_mut(index(socket.0)).and_then(Option::as_deref_mut)
        else {
            return Err(chunks);
        };
        if connection.is_in_kernel() {
            return Err(chunks);
        }
        let scratch = self.scratch.get_or_insert_default();
        if let Some(sent) = connection.send_batch(socket, scratch) {
            return Ok(sent);
        }
        let Some(mut batch) = connection.begin_batch(scratch) else { return Ok(Sent::Closed) };
        for chunk in chunks {
            let room = batch.room(scratch);
            if room == 0 {
                break;
            }
            match chunk {
                Chunk::Bytes(bytes) => batch.push(&bytes[..bytes.len().min(room)], scratch),
                Chunk::Buffer { buffer, offset, len } => {
                    let len = len.min(room);
                    batch.push(&pool.bytes(buffer)[offset..offset + len], scratch);
                }
                Chunk::Zeroes(len) => {
                    let mut left = len.min(room);
                    while left > 0 {
                        let now = left.min(ZEROES.len());
                        batch.push(&ZEROES[..now], scratch);
                        left -= now;
                    }
                }
            }
        }
        Ok(batch.send(socket, scratch))
    }

    pub(crate) fn shut_down_output(&mut self, socket: SocketId) {
        match self.by_socket.get_mut(index(socket.0)).and_then(Option::as_mut) {
            Some(connection) => connection.shut_down_output(socket),
            None => sockets::shut_down_output(socket),
        }
    }
}

#[cfg(test)]
mod tests;
