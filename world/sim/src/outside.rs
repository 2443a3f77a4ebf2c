//! Everything outside the cores: the machines, the network between them, and what all have in common:
//! the agenda of events, the trace, and the witness.

use std::collections::BTreeSet;

use nearflash_device::{DeviceOperation, DeviceResult};
use nearflash_engine::{CoreId, Pool};
use nearflash_shard::{AGE_MAX, Event, Message, Notice, Peer};
use nearflash_units::Nanos;

use crate::agenda::Agenda;
use crate::disk::DiskOperation;
use crate::failures::Failures;
use crate::machine::{Machine, NodeId, Road};
use crate::network::{Delivery, LinkId, Network, PartitionId, Signal};
use crate::node::disk_number;
use crate::ring::{Ring, Rings};
use crate::witness::{Tick, Witness};
use crate::{Dice, Trace};

/// An event at some moment.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Happening {
    /// Something arrives over the network.
    Wire(Delivery),
    /// An owner of files answers a message.
    FilesAnswer,
    /// Some blocks of a device operation take effect.
    DiskPart(NodeId, usize, u64),
    /// A device operation ends.
    DiskDone(NodeId, usize, u64),
    /// The oldest message of a channel arrives.
    Mail(NodeId, Road),
    /// A core takes a turn, if the number is still that of the turn it waits for.
    Turn(NodeId, CoreId, u64),
    /// A partition is over.
    Heal(PartitionId),
    /// A host takes a step, if the moment is still the one it waits for.
    Host(usize),
}

impl Happening {
    /// The machine on which it happens, if it is on one.
    fn node(self) -> Option<NodeId> {
        match self {
            Self::DiskPart(node, ..)
            | Self::DiskDone(node, ..)
            | Self::Mail(node, _)
            | Self::Turn(node, ..) => Some(node),
            Self::Wire(_) | Self::FilesAnswer | Self::Heal(_) | Self::Host(_) => None,
        }
    }
}

/// A notice, and the core that gave it.
#[derive(Debug)]
pub(crate) struct Noted {
    /// The node.
    pub node: NodeId,
    /// The core.
    pub core: CoreId,
    /// The notice.
    pub notice: Notice,
}

#[derive(Debug)]
pub(crate) struct Outside {
    pub(crate) now: Nanos,
    pub(crate) agenda: Agenda<Happening>,
    pub(crate) trace: Trace,
    pub(crate) dice: Dice,
    pub(crate) network: Network,
    /// By [`NodeId`].
    pub(crate) machines: Vec<Machine>,
    pub(crate) signalled: BTreeSet<LinkId>,
    pub(crate) notices: Vec<Noted>,
    pub(crate) witness: Witness,
    pub(crate) failures: Failures,
    /// Turns that cores took.
    pub(crate) turns: u64,
    /// Block length of the volumes.
    pub(crate) block_len: usize,
    /// The volumes that a node's peers share lie on mirrors.
    pub(crate) is_mirrored: bool,
    tick: u64,
    nonces: u64,
}

impl Outside {
    pub(crate) fn new(
        dice: Dice,
        network: Network,
        machines: Vec<Machine>,
        block_len: usize,
    ) -> Self {
        Self {
            now: Nanos(0),
            agenda: Agenda::new(),
            trace: Trace::default(),
            dice,
            network,
            machines,
            signalled: BTreeSet::new(),
            notices: Vec::new(),
            witness: Witness::default(),
            failures: Failures::default(),
            turns: 0,
            block_len,
            is_mirrored: false,
            tick: 0,
            nonces: 0,
        }
    }

    /// The machine of a node.
    pub(crate) fn machine(&self, node: NodeId) -> &Machine {
        &self.machines[node.0]
    }

    /// The machine of a node.
    pub(crate) fn machine_mut(&mut self, node: NodeId) -> &mut Machine {
        &mut self.machines[node.0]
    }

    /// Bytes that differ from all earlier ones.
    pub(crate) fn nonce(&mut self) -> [u8; 16] {
        self.nonces += 1;
        u128::from(self.nonces).to_le_bytes()
    }

    /// The next tick.
    pub(crate) fn tick(&mut self) -> Tick {
        self.tick += 1;
        Tick(self.tick)
    }

    /// When a node begins no more changes of a host from which nothing comes any more, if several nodes serve the
    /// volumes.
    pub(crate) fn too_old_at(&self) -> Nanos {
        // Its clock may be slow.
        self.now.plus(Nanos(AGE_MAX.0 + AGE_MAX.0 / 100))
    }

    pub(crate) fn note(&mut self, what: &'static str, details: &[u64]) {
        self.trace.note(self.now, what, details);
    }

    /// The rings of a link, if its node still has them.
    pub(crate) fn ring_of(&mut self, link: LinkId) -> Option<&mut Ring> {
        self.machines.iter_mut().find_map(|machine| machine.rings.of_link(link))
    }

    /// Takes over the network's future events, and notifies the peers and cores that have news.
    pub(crate) fn settle_network(&mut self) {
        for (at, delivery) in self.network.due.drain(..) {
            self.agenda.push(at, Happening::Wire(delivery));
        }
        for signal in std::mem::take(&mut self.network.signals) {
            match signal {
                Signal::Host(link) => {
                    self.signalled.insert(link);
                }
                Signal::Ready(node, core, socket) => {
                    self.machine_mut(node).drop_in(core, Event::Ready(socket));
                }
                Signal::Accepted(node, socket, door, peer) => {
                    let local = node.address(4420);
                    let peer = Peer::Address(peer);
                    let accepted = Event::Accepted { socket, door, peer, local };
                    self.machine_mut(node).drop_in(CoreId::FIRST, accepted);
                }
            }
        }
    }

    /// Sends a message to a core. Messages of one channel arrive in order.
    pub(crate) fn post(
        &mut self,
        node: NodeId,
        from: Option<CoreId>,
        to: CoreId,
        message: Message,
    ) {
        let road = (from, to);
        let machine = &mut self.machines[node.0];
        let at = self.now.plus(self.dice.span(machine.cores.mail));
        let at = machine.send(road, message, at);
        self.agenda.push(at, Happening::Mail(node, road));
    }

    /// Ends a device operation; the data of a read is in its buffer.
    pub(crate) fn end_operation(
        &mut self,
        node: NodeId,
        disk: usize,
        number: u64,
        pool: &mut Pool,
    ) -> DiskOperation {
        let machine = &mut self.machines[node.0];
        let operation = machine.disks[disk].end(number);
        finish(&operation, pool, &mut machine.rings);
        let tick = self.tick();
        let is_on_copy = self.machines[node.0].is_on_copy(disk, &operation.request);
        if matches!(operation.request.operation, DeviceOperation::Write { .. }) && !is_on_copy {
            self.witness.ended(&operation.bytes, self.block_len, tick);
        }
        if !operation.result.is_done() {
            let disk = disk_number(node, disk);
            self.failures.note(disk, &operation.request, operation.result, tick);
        }
        let what = if operation.result.is_done() { "disk" } else { "device failed" };
        self.note(what, &[u64::from(operation.request.id.io), operation.request.offset.0]);
        operation
    }

    /// A node is gone: all events that concerned it are dropped.
    pub(crate) fn lose_node(&mut self, node: NodeId) {
        let tick = self.tick();
        self.network.lose_node(self.now, node);
        self.settle_network();
        self.agenda.retain(|happening| happening.node() != Some(node));
        self.machine_mut(node).lose_power();
        self.witness.lose_power(node, tick);
    }
}

/// The byte that devices fill a read's buffer with before they write the data to it.
pub(crate) const SCRIBBLE: u8 = 0xA5;

/// Hands over a read's bytes, and checks that nobody used the buffer meanwhile.
fn finish(operation: &DiskOperation, pool: &mut Pool, rings: &mut Rings) {
    let len = operation.request.len.to_usize();
    match operation.request.operation {
        DeviceOperation::Read { buffer: Some(buffer), buffer_offset } => {
            let start = buffer_offset.to_usize();
            let place = rings.memory(pool, buffer, start, len);
            let untouched = place.iter().all(|byte| *byte == SCRIBBLE);
            assert!(untouched, "{buffer:?} was used while a device was reading into it");
            if operation.result == DeviceResult::Done {
                place.copy_from_slice(&operation.bytes);
            }
        }
        DeviceOperation::Write { buffer, buffer_offset, .. } => {
            let start = buffer_offset.to_usize();
            let same = *rings.memory(pool, buffer, start, len) == operation.bytes[..];
            assert!(same, "{buffer:?} was used while a device was writing from it");
        }
        _ => {}
    }
}
