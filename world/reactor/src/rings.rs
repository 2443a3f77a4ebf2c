//! Rings that clients on this machine share with this core, and the memory of their payload.
//!
//! While the core turns, the shard polls the rings. Before the core sleeps, it asks every client to
//! ring its bell on a submission, and watches the bells through its io_uring.

use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::ptr::NonNull;

use nearflash_engine::{Foreign, Pool};
use nearflash_request::BufferId;
use nearflash_ring::{Geometry, Handover, NodeEnd, Processor, send_passing};
use nearflash_session::{Chunk, Origin};
use nearflash_shard::{RingBroken, RingEntry, RingId, RingRefused, RingSpec, Sent, SocketId};
use nearflash_units::ByteLen;
use slab::Slab;

use crate::arena::Mapped;
use crate::sockets;
use crate::token::{GENERATION_MASK, Token};

/// The maximum number of rings of one core. A user has half of them at most.
pub const RINGS_MAX: usize = 256;

/// The maximum number of bytes of all data areas of one core. A page is charged to the process that
/// touches it first, and a client can make the node that process. A user has half of them at most.
pub const SHARED_LEN_MAX: ByteLen = ByteLen(4 << 30);

/// The maximum number of entries taken from one ring in one turn.
const ENTRIES_PER_TURN_MAX: u32 = 256;

/// The rings of one core.
#[derive(Debug, Default)]
pub(crate) struct Rings {
    rings: Slab<Ring>,
    /// The total length of their data areas.
    shared_len: ByteLen,
    /// Descriptors that have not been sent to their clients yet.
    handovers: Vec<(SocketId, Handover)>,
    /// Distinguishes the watch on a bell from an earlier one in the same slot.
    generation: u32,
    /// Rings whose bells rang. They are watched again when the core sleeps, because a core that is awake
    /// polls the rings: that saves a system call for each time that a client wakes it.
    unwatched: Vec<RingId>,
    /// The core's processor, as its clients know it.
    processor: Processor,
    /// Whether a client that runs on this processor was served since the last look.
    has_neighbour: bool,
}

#[derive(Debug)]
struct Ring {
    end: NodeEnd,
    generation: u32,
    data_len: ByteLen,
    owner: Origin,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct BellWatch {
    pub(crate) fd: RawFd,
    pub(crate) token: Token,
}

impl Rings {
    /// Creates rings, to be handed over with the next bytes to `socket`.
    pub(crate) fn attach(
        &mut self,
        socket: SocketId,
        spec: RingSpec,
    ) -> Result<RingId, RingRefused> {
        if self.rings.len() >= RINGS_MAX {
            return Err(RingRefused::TooMany);
        }
        let geometry = Geometry::new(spec.entries, spec.data_len.0).ok_or(RingRefused::Size)?;
        if self.shared_len.0 + spec.data_len.0 > SHARED_LEN_MAX.0 || !self.has_share(spec) {
            return Err(RingRefused::TooMany);
        }
        let made = NodeEnd::new(geometry).map_err(|error| RingRefused::System(error.kind()))?;
        let (end, handover) = made;
        self.state_processor();
        end.state_processor(self.processor);
        self.shared_len.0 += spec.data_len.0;
        self.handovers.push((socket, handover));
        self.generation = self.generation.wrapping_add(1) & GENERATION_MASK;
        let (generation, RingSpec { data_len, owner, .. }) = (self.generation, spec);
        let slot = self.rings.insert(Ring { end, generation, data_len, owner });
        Ok(RingId(u32::try_from(slot).expect("rings are at most RINGS_MAX")))
    }

    /// Whether the user may have these rings besides its others.
    fn has_share(&self, spec: RingSpec) -> bool {
        let of_owner = || self.rings.iter().filter(|(_, ring)| ring.owner == spec.owner);
        let len: u64 = of_owner().map(|(_, ring)| ring.data_len.0).sum();
        of_owner().count() < RINGS_MAX / 2 && len + spec.data_len.0 <= SHARED_LEN_MAX.0 / 2
    }

    /// Unmaps rings. Returns the token of the watch on their bell, which must end.
    pub(crate) fn detach(&mut self, ring: RingId) -> Token {
        let Ring { generation, data_len, .. } = self.rings.remove(slot(ring));
        self.shared_len.0 -= data_len.0;
        self.unwatched.retain(|it| *it != ring);
        Token::Bell { ring: ring.0, generation }
    }

    pub(crate) fn bell(&self, ring: RingId) -> BellWatch {
        let Ring { end, generation, .. } = &self.rings[slot(ring)];
        let token = Token::Bell { ring: ring.0, generation: *generation };
        BellWatch { fd: end.bell().as_raw_fd(), token }
    }

    /// Takes the end of a watch on a bell.
    pub(crate) fn rang(&mut self, ring: RingId, generation: u32) {
        let rang = self.rings.get(slot(ring)).filter(|it| it.generation == generation);
        // A client that has closed its end either has ended, or has only itself to blame for lost
        // wake-ups.
        if rang.is_some_and(|it| it.end.silence_bell()) {
            self.unwatched.push(ring);
        }
    }

    /// A bell to watch again.
    pub(crate) fn take_unwatched(&mut self) -> Option<BellWatch> {
        self.unwatched.pop().map(|ring| self.bell(ring))
    }

    /// Asks every client to ring its bell. `false` when there is an entry to take already.
    pub(crate) fn begin_sleep(&self) -> bool {
        self.rings.iter().all(|(_, ring)| ring.end.begin_sleep())
    }

    pub(crate) fn end_sleep(&mut self) {
        for (_, ring) in &self.rings {
            ring.end.end_sleep();
        }
        if !self.rings.is_empty() {
            self.state_processor();
        }
    }

    /// Tells the clients the processor of this core, if it has changed.
    fn state_processor(&mut self) {
        let here = Processor::current();
        if here != self.processor {
            self.processor = here;
            self.rings.iter().for_each(|(_, ring)| ring.end.state_processor(here));
        }
    }

    /// Whether a client that runs on this core's processor was served since the last call.
    #[inline]
    pub(crate) fn take_neighbour(&mut self) -> bool {
        std::mem::take(&mut self.has_neighbour)
    }

    #[inline]
    pub(crate) fn take(
        &mut self,
        ring: RingId,
        entries: &mut Vec<RingEntry>,
    ) -> Result<(), RingBroken> {
        let end = &mut self.rings[slot(ring)].end;
        let count = end.take(ENTRIES_PER_TURN_MAX, entries).map_err(|_| RingBroken)?;
        self.has_neighbour |= count > 0 && end.is_client_on(self.processor);
        Ok(())
    }

    /// The entries that the client has submitted and that were not taken.
    #[inline]
    pub(crate) fn untaken(&self, ring: RingId) -> usize {
        self.rings[slot(ring)].end.untaken()
    }

    #[inline]
    pub(crate) fn put(&mut self, ring: RingId, entries: &[RingEntry]) -> Result<(), RingBroken> {
        let end = &mut self.rings[slot(ring)].end;
        self.has_neighbour |= end.is_client_on(self.processor);
        end.put(entries).map_err(|_| RingBroken)
    }

    pub(crate) fn end(&self, ring: RingId) -> &NodeEnd {
        &self.rings[slot(ring)].end
    }

    /// Whether descriptors must go with the next bytes to `socket`.
    #[inline]
    pub(crate) fn has_handover(&self, socket: SocketId) -> bool {
        !self.handovers.is_empty() && self.handovers.iter().any(|(to, _)| *to == socket)
    }

    /// Sends the first of the chunks together with the descriptors.
    pub(crate) fn hand_over<'a>(
        &mut self,
        socket: SocketId,
        mut chunks: impl Iterator<Item = Chunk<'a>>,
    ) -> Sent {
        let Some(at) = self.handovers.iter().position(|(to, _)| *to == socket) else {
            return Sent::Bytes(0);
        };
        // The answer to a request for rings is a header, before anything else is sent.
        let Some(Chunk::Bytes(bytes)) = chunks.next() else { return Sent::Closed };
        // SAFETY: the shard that sends on a socket owns it, and closes it later.
        let fd = unsafe { BorrowedFd::borrow_raw(sockets::raw_fd(socket)) };
        match send_passing(fd, bytes, &self.handovers[at].1.descriptors()) {
            Ok(len) => {
                self.handovers.swap_remove(at);
                Sent::Bytes(len)
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Sent::Bytes(0),
            Err(_) => Sent::Closed,
        }
    }

    /// Drops the descriptors for a closed socket.
    pub(crate) fn forget(&mut self, socket: SocketId) {
        self.handovers.retain(|(to, _)| *to != socket);
    }
}

/// The locations of a buffer's bytes: the pool or a client's memory.
#[derive(Debug)]
pub(crate) struct Buffers<'a> {
    pub(crate) pool: &'a Pool,
    pub(crate) arena: &'a Mapped,
    pub(crate) rings: &'a Rings,
}

impl Buffers<'_> {
    /// A pointer to `len` bytes from `start` on. A client may write to its memory at any time, so
    /// the pointer is for devices and raw copies only.
    ///
    /// # Panics
    /// When the range is not within the buffer, which is a bug of the node.
    #[inline]
    pub(crate) fn memory(&self, buffer: BufferId, start: usize, len: usize) -> NonNull<u8> {
        match self.pool.foreign(buffer) {
            None => {
                let place = self.pool.place(buffer);
                assert!(start + len <= place.len(), "an operation stays within its buffer");
                self.arena.pointer(place.start + start..place.start + start + len)
            }
            Some(foreign) => self.client_memory(foreign, start, len),
        }
    }

    fn client_memory(&self, foreign: Foreign, start: usize, len: usize) -> NonNull<u8> {
        let within = start.checked_add(len).is_some_and(|end| end <= index(foreign.len));
        assert!(within, "an operation stays within the memory that was lent for it");
        let start = foreign.offset + u64::try_from(start).expect("less than a data area");
        let memory = self.rings.end(RingId(foreign.region)).data(start, len);
        memory.expect("what is lent lies within the data area: the session checked it")
    }
}

fn slot(ring: RingId) -> usize {
    index(ring.0)
}

fn index(raw: u32) -> usize {
    usize::try_from(raw).expect("usize is at least 32 bits wide")
}
