//! The reactor's interface for a shard.

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};

use io_uring::{opcode, types};
use nearflash_device::{DeviceRequest, DeviceResult};
use nearflash_engine::{CoreId, Pool};
use nearflash_session::Chunk;
use nearflash_shard::{
    Event, Interest, Message, Notice, PeerState, Place, Received, RingBroken, RingEntry, RingId,
    RingRefused, RingSpec, Sent, SocketId, Submitted, TlsIdentity, World,
};
use nearflash_units::Nanos;
use rustix::rand::{GetRandomFlags, getrandom};

use super::{
    Armed, FIRST_SUBMISSION_LEN, MESSAGES_PER_TURN_MAX, Reactor, Watch, index, poll_bits, push,
};
use crate::rings::Buffers;
use crate::secured_table::Drains;
use crate::sockets;
use crate::token::{GENERATION_MASK, Token};

impl World for Reactor {
    #[inline]
    fn now(&self) -> Nanos {
        self.now
    }

    #[inline]
    fn clock(&self) -> Nanos {
        self.epoch.elapsed()
    }

    fn nonce(&mut self) -> [u8; 16] {
        let mut nonce = [0; 16];
        let mut filled = 0;
        while filled < nonce.len() {
            // This fails only when interrupted: every kernel with io_uring has the call.
            filled += getrandom(&mut nonce[filled..], GetRandomFlags::empty()).unwrap_or_default();
        }
        nonce
    }

    #[inline]
    fn pool(&mut self) -> &mut Pool {
        &mut self.pool
    }

    #[inline]
    fn poll(&mut self, events: &mut Vec<Event>) {
        self.submission_len = FIRST_SUBMISSION_LEN;
        self.secured.begin_turn(events);
        // The end of the last sleep, or the beginning of the last turn: the call finds all that was ready then.
        let before = self.now;
        self.enter();
        // The call may take longer than the rest of a turn, and what it completes ends now.
        self.tick();
        self.settled_at.0 = self.settled_at.1;
        if self.take_completions(events) {
            self.settled_at.1 = before;
        }
        while let Some((id, result)) = self.devices.take_due(self.now) {
            events.push(Event::Device(id, result));
        }
        if !self.unsent.is_empty() {
            self.unsent.retry(&self.peers);
        }
        if !self.resting.is_empty() {
            self.end_rests();
        }
        for _ in 0..MESSAGES_PER_TURN_MAX {
            let Some(message) = self.mailbox.take() else { break };
            events.push(Event::Message(message));
        }
    }

    fn connect(&mut self, to: SocketAddr) -> Option<SocketId> {
        let socket = sockets::release(sockets::connect(to).ok()?);
        self.attach(socket);
        Some(socket)
    }

    #[inline]
    fn receive(&mut self, socket: SocketId, place: Option<Place>, staging: &mut [u8]) -> Received {
        if self.unsent.is_full() {
            return Received::Nothing;
        }
        let tools = (&mut self.pool, &mut *self.notices as &mut dyn FnMut(Notice));
        if let Some(received) = self.secured.receive(socket, place, staging, tools) {
            return received;
        }
        sockets::receive(socket, place, staging, &mut self.pool)
    }

    #[inline]
    fn is_drained(&self, socket: SocketId, len: usize, room: usize) -> bool {
        match self.secured.drains(socket) {
            _ if self.unsent.is_full() => false,
            Drains::Plain => len < room,
            Drains::Records => len == 0,
            Drains::Unknown => false,
        }
    }

    fn unread(&self, socket: SocketId) -> usize {
        let unread = sockets::unread(socket);
        unread + self.secured.held_max(socket, unread)
    }

    fn peer_state(&mut self, socket: SocketId) -> PeerState {
        sockets::peer_state(socket)
    }

    fn settled_at(&self) -> Nanos {
        self.settled_at.0
    }

    #[inline]
    fn send<'a>(&mut self, socket: SocketId, chunks: impl Iterator<Item = Chunk<'a>>) -> Sent {
        if self.rings.has_handover(socket) {
            return self.rings.hand_over(socket, chunks);
        }
        match self.secured.send(socket, chunks, &self.pool) {
            Ok(sent) => sent,
            Err(chunks) => self.parts.send(socket, chunks, &self.pool),
        }
    }

    fn tls_identity(&self, socket: SocketId) -> Option<TlsIdentity> {
        self.secured.identity(socket).cloned()
    }

    fn watch(&mut self, socket: SocketId, interest: Interest) {
        self.secured.watch(socket, interest);
        self.disarm(socket);
        let watch = &mut self.watches[index(socket.0)];
        let generation = watch.generation & GENERATION_MASK;
        watch.armed = Some(Armed(generation));
        let events = match interest {
            Interest::Input => libc::POLLIN,
            Interest::Output => libc::POLLOUT,
            Interest::Both => libc::POLLIN | libc::POLLOUT,
            Interest::End => 0,
        };
        let events = events | libc::POLLRDHUP;
        let fd = types::Fd(sockets::raw_fd(socket));
        let entry = opcode::PollAdd::new(fd, poll_bits(events)).build();
        let token = Token::Watch { socket: socket.0, generation };
        push(&mut self.ring, &entry.user_data(token.pack()));
    }

    fn shut_down_output(&mut self, socket: SocketId) {
        self.secured.shut_down_output(socket);
    }

    fn close(&mut self, socket: SocketId) {
        self.disarm(socket);
        self.rings.forget(socket);
        self.secured.forget(socket);
        sockets::close(socket);
    }

    fn detach(&mut self, socket: SocketId) {
        self.disarm(socket);
        self.secured.detach(socket);
    }

    fn attach(&mut self, socket: SocketId) {
        let needed = index(socket.0) + 1;
        if self.watches.len() < needed {
            self.watches.resize(needed, Watch::default());
        }
        self.disarm(socket);
        self.secured.attach(socket);
    }

    #[inline]
    fn prepare(&mut self, next: &DeviceRequest) {
        self.devices.prepare(next);
    }

    #[inline]
    fn submit(&mut self, request: DeviceRequest) -> Submitted {
        let Self { devices, ring, pool, arena, rings, now, .. } = self;
        let buffers = Buffers { pool, arena, rings };
        let submitted = devices.submit(request, *now, buffers, |entry| push(ring, &entry));
        match submitted {
            Submitted::Queued => self.submit_early(),
            Submitted::Done(DeviceResult::WornOut) => {
                (self.notices)(Notice::DeviceWornOut(request.device));
            }
            Submitted::Done(result @ DeviceResult::MediumError)
                if self.devices.is_truncated(request.device) =>
            {
                let DeviceRequest { device, operation, offset, .. } = request;
                let loses = operation.loses(result);
                (self.notices)(Notice::DeviceFailed { device, offset, errno: 0, loses });
            }
            Submitted::Done(_) => {}
        }
        submitted
    }

    fn post(&mut self, core: CoreId, message: Message) {
        self.unsent.send(core, message, &self.peers);
    }

    fn attach_ring(&mut self, socket: SocketId, spec: RingSpec) -> Result<RingId, RingRefused> {
        let ring = self.rings.attach(socket, spec)?;
        self.arm_bell(self.rings.bell(ring));
        Ok(ring)
    }

    #[inline]
    fn take_entries(
        &mut self,
        ring: RingId,
        entries: &mut Vec<RingEntry>,
    ) -> Result<(), RingBroken> {
        if self.unsent.is_full() {
            return Ok(());
        }
        self.rings.take(ring, entries)
    }

    #[inline]
    fn untaken_entries(&self, ring: RingId) -> usize {
        self.rings.untaken(ring)
    }

    #[inline]
    fn put_entries(&mut self, ring: RingId, entries: &[RingEntry]) -> Result<(), RingBroken> {
        self.rings.put(ring, entries)
    }

    fn copy_from_ring(&mut self, ring: RingId, offset: u64, into: &mut [u8]) {
        self.rings.end(ring).copy_out(offset, into);
    }

    fn fill_from_ring(&mut self, ring: RingId, offset: u64, to: Place) {
        let into = &mut self.pool.bytes_mut(to.buffer)[to.offset..to.offset + to.len];
        self.rings.end(ring).copy_out(offset, into);
    }

    fn copy_to_ring(&mut self, ring: RingId, from: Place, offset: u64) {
        let bytes = &self.pool.bytes(from.buffer)[from.offset..from.offset + from.len];
        self.rings.end(ring).copy_in(offset, bytes);
    }

    #[inline]
    fn zero_in_ring(&mut self, ring: RingId, offset: u64, len: usize) {
        self.rings.end(ring).zero(offset, len);
    }

    fn detach_ring(&mut self, ring: RingId) {
        let watched = self.rings.detach(ring);
        self.unwatch(watched);
    }

    fn stop_listening(&mut self) {
        for listener in self.listeners.drain(..) {
            // Ends the accept that waits in the ring; the drop closes the descriptor.
            // SAFETY: the call takes no memory.
            let _ = unsafe { libc::shutdown(listener.socket.as_fd().as_raw_fd(), libc::SHUT_RDWR) };
        }
    }

    fn notice(&mut self, notice: Notice) {
        (self.notices)(notice);
    }
}
