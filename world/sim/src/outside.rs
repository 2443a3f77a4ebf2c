//! Everything outside the cores: network, devices, mail between cores, and the agenda of events.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use nearflash_device::{DeviceOperation, DeviceResult};
use nearflash_engine::{CoreId, Pool};
use nearflash_shard::{Event, Message, Notice, Peer};
use nearflash_units::Nanos;

use crate::agenda::Agenda;
use crate::disk::{Disk, DiskOperation};
use crate::failures::Failures;
use crate::faults::CoreFaults;
use crate::network::{Delivery, LinkId, Network, Signal};
use crate::ring::Rings;
use crate::witness::{Tick, Witness};
use crate::{Dice, Trace};

/// An event at some moment.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Happening {
    /// Something arrives over the network.
    Wire(Delivery),
    /// Some blocks of a device operation take effect.
    DiskPart(usize, u64),
    /// A device operation ends.
    DiskDone(usize, u64),
    /// The oldest message of a channel arrives.
    Mail(Road),
    /// A core takes a turn, if the number is still that of the turn it waits for.
    Turn(CoreId, u64),
    /// A host takes a step, if the moment is still the one it waits for.
    Host(usize),
}

/// The sender of a message (`None`: the control plane) and the receiving core.
pub(crate) type Road = (Option<CoreId>, CoreId);

#[derive(Debug, Default)]
struct Mailbag {
    messages: VecDeque<Message>,
    last_arrival: Nanos,
}

/// A notice, and the core that gave it.
#[derive(Debug)]
pub(crate) struct Noted {
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
    pub(crate) rings: Rings,
    pub(crate) disks: Vec<Disk>,
    pub(crate) cores: CoreFaults,
    pub(crate) inboxes: Vec<VecDeque<Event>>,
    /// Cores that have a new event in their inbox.
    pub(crate) woken: BTreeSet<CoreId>,
    pub(crate) signalled: BTreeSet<LinkId>,
    pub(crate) notices: Vec<Noted>,
    pub(crate) witness: Witness,
    pub(crate) failures: Failures,
    /// Turns that cores took.
    pub(crate) turns: u64,
    /// Block length of the volumes.
    pub(crate) block_len: usize,
    /// The size of the first volume in blocks, and since when; `None` while it changes.
    pub(crate) size: Option<(Tick, u64)>,
    /// Bytes of a device that nobody may touch: their owner has no grants.
    pub(crate) forbidden: Option<(usize, Range<u64>)>,
    /// The number of starts of the node.
    pub(crate) starts: u32,
    /// The node was told to drain.
    pub(crate) is_draining: bool,
    /// A peer has requested a reset that ends all sessions.
    pub(crate) ends_sessions: bool,
    mail: BTreeMap<Road, Mailbag>,
    tick: u64,
    nonces: u64,
}

impl Outside {
    /// Whether the node has a reason to end connections that keep the protocol.
    pub(crate) fn may_end_connections(&self) -> bool {
        self.is_draining || self.ends_sessions
    }

    pub(crate) fn new(
        dice: Dice,
        network: Network,
        disks: Vec<Disk>,
        cores: CoreFaults,
        block_len: usize,
    ) -> Self {
        Self {
            now: Nanos(0),
            agenda: Agenda::new(),
            trace: Trace::default(),
            dice,
            network,
            rings: Rings::default(),
            disks,
            cores,
            inboxes: Vec::new(),
            woken: BTreeSet::new(),
            signalled: BTreeSet::new(),
            notices: Vec::new(),
            witness: Witness::default(),
            failures: Failures::default(),
            turns: 0,
            block_len,
            size: None,
            forbidden: None,
            starts: 0,
            is_draining: false,
            ends_sessions: false,
            mail: BTreeMap::new(),
            tick: 0,
            nonces: 0,
        }
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

    pub(crate) fn note(&mut self, what: &'static str, details: &[u64]) {
        self.trace.note(self.now, what, details);
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
                Signal::Ready(core, socket) => self.drop_in(core, Event::Ready(socket)),
                Signal::Accepted(socket, door, peer) => {
                    let local = ([192, 0, 2, 1], 4420).into();
                    let peer = Peer::Address(peer);
                    self.drop_in(CoreId::FIRST, Event::Accepted { socket, door, peer, local });
                }
            }
        }
    }

    /// Puts an event into a core's inbox.
    pub(crate) fn drop_in(&mut self, core: CoreId, event: Event) {
        self.inboxes[usize::from(core.0)].push_back(event);
        self.woken.insert(core);
    }

    /// Sends a message to a core. Messages of one channel arrive in order.
    pub(crate) fn post(&mut self, from: Option<CoreId>, to: CoreId, message: Message) {
        let road = (from, to);
        let at = self.now.plus(self.dice.span(self.cores.mail));
        let bag = self.mail.entry(road).or_default();
        bag.last_arrival = bag.last_arrival.max(at);
        bag.messages.push_back(message);
        self.agenda.push(bag.last_arrival, Happening::Mail(road));
    }

    pub(crate) fn deliver_mail(&mut self, road: Road) {
        let bag = self.mail.get_mut(&road).expect("mail is on a road");
        let message = bag.messages.pop_front().expect("a message arrives once");
        self.drop_in(road.1, Event::Message(message));
    }

    /// Ends a device operation; the data of a read is in its buffer.
    pub(crate) fn end_operation(
        &mut self,
        disk: usize,
        number: u64,
        pool: &mut Pool,
    ) -> DiskOperation {
        let operation = self.disks[disk].end(number);
        let tick = self.tick();
        finish(&operation, pool, &mut self.rings);
        if matches!(operation.request.operation, DeviceOperation::Write { .. }) {
            self.witness.ended(&operation.bytes, self.block_len, tick);
        }
        if !operation.result.is_done() {
            self.failures.note(disk, &operation.request, operation.result, tick);
        }
        let what = if operation.result.is_done() { "disk" } else { "device failed" };
        self.note(what, &[u64::from(operation.request.id.io), operation.request.offset.0]);
        operation
    }

    /// The node is gone: all events that concerned it are dropped.
    pub(crate) fn lose_node(&mut self) {
        let tick = self.tick();
        self.network.lose_node(self.now);
        self.settle_network();
        self.agenda
            .retain(|happening| matches!(happening, Happening::Wire(_) | Happening::Host(_)));
        self.mail.clear();
        self.woken.clear();
        self.rings.lose_node();
        for disk in &mut self.disks {
            disk.lose_power();
        }
        self.witness.lose_power(tick);
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
