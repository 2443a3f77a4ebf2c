//! The simulated world as one core sees it.

use std::collections::VecDeque;
use std::net::SocketAddr;

use nearflash_device::{DeviceOperation, DeviceRequest};
use nearflash_engine::{CoreId, Pool};
use nearflash_session::Chunk;
use nearflash_shard::{
    Door, Event, Interest, Message, Notice, PeerState, Place, Received, RingBroken, RingEntry,
    RingId, RingRefused, RingSpec, Sent, SocketId, Submitted, World,
};
use nearflash_units::{ByteLen, MIB, Nanos};

use crate::disk::touches;
use crate::machine::{Machine, NodeId};
use crate::memory::gather;
use crate::network::{LinkId, Side};
use crate::outside::{Happening, Noted, Outside, SCRIBBLE};

/// The longest data area that a simulated client gets.
const RING_DATA_MAX: ByteLen = ByteLen(2 * MIB);

/// One core's world for one turn.
#[derive(Debug)]
pub(crate) struct SimWorld<'a> {
    pub(crate) node: NodeId,
    pub(crate) core: CoreId,
    /// The time on the machine's own clock.
    pub(crate) now: Nanos,
    pub(crate) pool: &'a mut Pool,
    pub(crate) outside: &'a mut Outside,
}

impl SimWorld<'_> {
    fn inbox(&mut self) -> &mut VecDeque<Event> {
        let core = usize::from(self.core.0);
        &mut self.machine().inboxes[core]
    }

    fn machine(&mut self) -> &mut Machine {
        self.outside.machine_mut(self.node)
    }

    /// The link behind a socket, and its end here.
    fn link_at(&self, socket: SocketId) -> (LinkId, Side) {
        self.outside.network.link_at(self.node, self.core, socket)
    }

    /// No event for this socket follows.
    fn forget_events(&mut self, socket: SocketId) {
        self.inbox().retain(|event| !matches!(event, Event::Ready(ready) if *ready == socket));
    }

    /// The data of a write. A read's buffer is filled with bytes that differ from its earlier
    /// content.
    fn bytes_for(&mut self, request: &DeviceRequest) -> Vec<u8> {
        let len = request.len.to_usize();
        match request.operation {
            DeviceOperation::Read { buffer: Some(buffer), buffer_offset } => {
                let start = buffer_offset.to_usize();
                self.outside.machines[self.node.0]
                    .rings
                    .memory(self.pool, buffer, start, len)
                    .fill(SCRIBBLE);
                vec![SCRIBBLE; len]
            }
            DeviceOperation::Write { buffer, buffer_offset, .. } => {
                let start = buffer_offset.to_usize();
                let rings = &mut self.outside.machines[self.node.0].rings;
                let bytes = rings.memory(self.pool, buffer, start, len).to_vec();
                let Outside { witness, machines, block_len, turns, network, now, .. } =
                    &mut *self.outside;
                let disk = &machines[self.node.0].disks
                    [usize::try_from(request.device.0).expect("few devices")];
                let on_disk = usize::try_from(request.device.0).expect("few devices");
                let is_shared = self.pool.foreign(buffer).is_some();
                let is_unsafe = is_shared && machines[self.node.0].is_on_mirror(on_disk, request);
                assert!(!is_unsafe, "{request:?} writes memory that a client can change");
                if machines[self.node.0].is_on_copy(on_disk, request) {
                    self.outside.note("replica written", &[request.offset.0]);
                    return bytes;
                }
                let has_larger_blocks =
                    !disk.properties.block_size.divides(ByteLen::from_usize(*block_len));
                // A read that is repaired writes back what the device holds and cannot read.
                let may_be_there =
                    has_larger_blocks || machines[self.node.0].is_on_mirror(on_disk, request);
                let before = may_be_there.then(|| disk.bytes(request.offset, request.len));
                let over_for = |link| network.over_since(link).map(|since| now.since(since));
                witness.submitted(&bytes, before, *block_len, *turns, over_for);
                bytes
            }
            DeviceOperation::Flush | DeviceOperation::Allocation => Vec::new(),
            DeviceOperation::Read { buffer: None, .. }
            | DeviceOperation::WriteZeroes { .. }
            | DeviceOperation::Deallocate => vec![0; len],
        }
    }
}

impl World for SimWorld<'_> {
    fn now(&self) -> Nanos {
        self.now
    }

    fn nonce(&mut self) -> [u8; 16] {
        self.outside.nonce()
    }

    fn pool(&mut self) -> &mut Pool {
        self.pool
    }

    fn poll(&mut self, events: &mut Vec<Event>) {
        let count = self.machine().cores.events_per_turn_max.min(self.inbox().len());
        events.extend(self.inbox().drain(..count));
        let (is_settled, now, core) = (self.inbox().is_empty(), self.now, usize::from(self.core.0));
        let settled_at = &mut self.machine().settled_at[core];
        settled_at.0 = settled_at.1;
        if is_settled {
            settled_at.1 = now;
        }
    }

    fn connect(&mut self, to: SocketAddr) -> Option<SocketId> {
        let network = &mut self.outside.network;
        let to = NodeId::at_address(to).filter(|to| to.0 < network.node_count())?;
        let door = Door::Direct { anonymous: true, local: false };
        let socket = network.connect_nodes(self.outside.now, (self.node, self.core), to, door);
        self.outside.settle_network();
        Some(socket)
    }

    fn receive(&mut self, socket: SocketId, place: Option<Place>, staging: &mut [u8]) -> Received {
        let (link, side) = self.link_at(socket);
        let mut total = 0;
        let now = self.outside.now;
        if let Some(Place { buffer, offset, len }) = place {
            let into = &mut self.pool.bytes_mut(buffer)[offset..offset + len];
            match self.outside.network.receive(now, link, side, into) {
                Received::Bytes(placed) => total = placed,
                other => return other,
            }
            if total < len {
                self.outside.settle_network();
                return Received::Bytes(total);
            }
        }
        match self.outside.network.receive(now, link, side, staging) {
            Received::Bytes(staged) => total += staged,
            Received::Nothing | Received::Closed if total > 0 => {}
            other => return other,
        }
        self.outside.settle_network();
        Received::Bytes(total)
    }

    fn is_drained(&self, socket: SocketId, _len: usize, _room: usize) -> bool {
        self.unread(socket) == 0
    }

    fn unread(&self, socket: SocketId) -> usize {
        let (link, side) = self.link_at(socket);
        self.outside.network.unread(link, side)
    }

    fn peer_state(&mut self, socket: SocketId) -> PeerState {
        let (link, side) = self.link_at(socket);
        let is_over = self.outside.network.is_over(link, side);
        if is_over {
            self.outside.note("end seen before execution", &[u64::from(link.0)]);
        }
        PeerState { is_over, owes: false, reached: 0 }
    }

    fn settled_at(&self) -> Nanos {
        self.outside.machine(self.node).settled_at[usize::from(self.core.0)].0
    }

    fn send<'a>(&mut self, socket: SocketId, chunks: impl Iterator<Item = Chunk<'a>>) -> Sent {
        let (link, side) = self.link_at(socket);
        let room = self.outside.network.room(link, side);
        let bytes = gather(chunks, room, |buffer| self.pool.bytes(buffer));
        let sent = self.outside.network.send(self.outside.now, link, side, &bytes);
        if let Sent::Bytes(len) = sent {
            self.outside.note("node sends", &[u64::from(link.0)]);
            self.outside.trace.note_bytes(&bytes[..len]);
        }
        self.outside.settle_network();
        sent
    }

    fn watch(&mut self, socket: SocketId, interest: Interest) {
        self.forget_events(socket);
        self.outside.network.watch(self.node, self.core, socket, interest);
        self.outside.settle_network();
    }

    fn shut_down_output(&mut self, socket: SocketId) {
        let (link, side) = self.link_at(socket);
        self.outside.network.send_end(self.outside.now, link, side);
        self.outside.settle_network();
    }

    fn close(&mut self, socket: SocketId) {
        let (link, side) = self.link_at(socket);
        self.forget_events(socket);
        self.outside.network.close(self.outside.now, link, side);
        let turns = self.outside.turns;
        self.outside.witness.closed(link, turns);
        self.outside.note("node closes", &[u64::from(link.0)]);
        self.outside.settle_network();
    }

    fn detach(&mut self, socket: SocketId) {
        self.forget_events(socket);
        self.outside.network.detach(self.node, self.core, socket);
    }

    fn attach(&mut self, socket: SocketId) {
        self.outside.network.attach(self.node, self.core, socket);
    }

    fn prepare(&mut self, next: &DeviceRequest) {
        let disks = self.outside.machine_mut(self.node).disks.len();
        let index = usize::try_from(next.device.0).expect("few devices");
        assert!(index < disks, "{next:?} is not on a device of this node");
    }

    fn submit(&mut self, request: DeviceRequest) -> Submitted {
        let bytes = self.bytes_for(&request);
        let index = usize::try_from(request.device.0).expect("few devices");
        let (node, now) = (self.node, self.outside.now);
        let machine = self.outside.machine_mut(node);
        if let Some((disk, bytes)) = &machine.forbidden {
            let is_forbidden = *disk == index && touches(&request, bytes);
            assert!(!is_forbidden, "{request:?} is of a client without any right");
        }
        let disk = &mut machine.disks[index];
        let is_at_once = disk.is_at_once();
        let moments = disk.submit(now, self.core, request, bytes);
        let number = moments.operation;
        if is_at_once {
            disk.take_part(number);
            let operation = self.outside.end_operation(node, index, number, self.pool);
            return Submitted::Done(operation.result);
        }
        if let Some(at) = moments.part_at {
            self.outside.agenda.push(at, Happening::DiskPart(node, index, number));
        }
        if moments.done_at != Nanos::NEVER {
            let done = Happening::DiskDone(node, index, number);
            self.outside.agenda.push(moments.done_at, done);
        }
        Submitted::Queued
    }

    fn post(&mut self, core: CoreId, message: Message) {
        assert_ne!(core, self.core, "a core's messages to itself take no mail");
        self.outside.post(self.node, Some(self.core), core, message);
    }

    fn attach_ring(&mut self, socket: SocketId, spec: RingSpec) -> Result<RingId, RingRefused> {
        if spec.data_len > RING_DATA_MAX {
            return Err(RingRefused::Size);
        }
        let (link, _) = self.link_at(socket);
        self.outside.note("ring", &[u64::from(link.0)]);
        let data_len = spec.data_len.to_usize();
        let core = self.core;
        Ok(self.machine().rings.attach(core, link, spec.entries, data_len))
    }

    fn take_entries(
        &mut self,
        ring: RingId,
        entries: &mut Vec<RingEntry>,
    ) -> Result<(), RingBroken> {
        self.machine().rings.get_mut(ring).take(entries);
        Ok(())
    }

    fn untaken_entries(&self, ring: RingId) -> usize {
        self.outside.machine(self.node).rings.untaken(ring)
    }

    fn put_entries(&mut self, ring: RingId, entries: &[RingEntry]) -> Result<(), RingBroken> {
        let ring = self.outside.machines[self.node.0].rings.get_mut(ring);
        self.outside.signalled.insert(ring.link);
        ring.put(entries)
    }

    fn copy_from_ring(&mut self, ring: RingId, offset: u64, into: &mut [u8]) {
        into.copy_from_slice(&self.machine().rings.get_mut(ring).at(offset)[..into.len()]);
    }

    fn fill_from_ring(&mut self, ring: RingId, offset: u64, to: Place) {
        let from = &self.outside.machines[self.node.0].rings.get_mut(ring).at(offset)[..to.len];
        self.pool.bytes_mut(to.buffer)[to.offset..to.offset + to.len].copy_from_slice(from);
    }

    fn copy_to_ring(&mut self, ring: RingId, from: Place, offset: u64) {
        let bytes = &self.pool.bytes(from.buffer)[from.offset..from.offset + from.len];
        let rings = &mut self.outside.machines[self.node.0].rings;
        rings.get_mut(ring).at(offset)[..from.len].copy_from_slice(bytes);
    }

    fn zero_in_ring(&mut self, ring: RingId, offset: u64, len: usize) {
        self.machine().rings.get_mut(ring).at(offset)[..len].fill(0);
    }

    fn detach_ring(&mut self, ring: RingId) {
        self.machine().rings.detach(ring);
    }

    fn stop_listening(&mut self) {
        if self.core == CoreId::FIRST {
            self.outside.network.stop_listening(self.node);
        }
    }

    fn notice(&mut self, notice: Notice) {
        let (node, core) = (self.node, self.core);
        let link_of = |peer| self.outside.network.link_of(peer).expect("peers have links");
        match notice {
            Notice::ControllerConnected { peer, .. } => {
                let link = link_of(peer);
                let tick = self.outside.tick();
                let Outside { witness, network, .. } = &mut *self.outside;
                witness.granted(link, |other| network.node_of(other) == node, tick);
            }
            Notice::ClientGone { peer, .. } => {
                let link = link_of(peer);
                let tick = self.outside.tick();
                self.outside.witness.is_gone(link, tick);
            }
            Notice::SessionOver { nexus, .. } => {
                let tick = self.outside.tick();
                self.outside.witness.is_over(nexus, tick);
            }
            _ => {}
        }
        self.outside.notices.push(Noted { node, core, notice });
    }
}
