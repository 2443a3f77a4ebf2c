//! A client's connection: a link, a session over it, and what is in flight on it.

use std::collections::BTreeMap;

use nearflash_direct::client::{
    ClientConfig, ClientOperation, ClientSession, RequestTag, VolumeHandle,
};
use nearflash_direct::{PeerError, Status};
use nearflash_shard::Door;

use crate::client::worker::Pending;
use crate::judge::Asker;
use crate::line::{Fate, Line, Spoken, Trouble};
use crate::memory::Memory;
use crate::misbehaviour::Crook;
use crate::network::{LinkId, Route};
use crate::outside::Outside;
use crate::witness::Tick;

/// The direct listener of the simulated node.
pub(crate) fn door(anonymous: bool, local: bool) -> Door {
    Door::Direct { anonymous, local }
}

/// Slots for requests in the data area.
#[derive(Debug)]
pub(crate) struct Places {
    free: Vec<u32>,
    /// For each tag: where its slot begins, and the offset of the request's bytes in it.
    taken: BTreeMap<u32, (u32, u32)>,
}

/// Room before a request's bytes, so that they can be misaligned for devices.
pub(crate) const SKEW_MAX: u32 = 4096;

impl Places {
    /// Makes `count` slots for requests of at most `len_max` bytes, and returns them with the
    /// length of the data area.
    pub(crate) fn new(count: u32, len_max: u64) -> (Self, u64) {
        let len_max = u32::try_from(len_max).expect("short requests");
        let step = len_max.next_multiple_of(4096) + SKEW_MAX;
        let free = (0..count).map(|number| number * step).collect();
        (Self { free, taken: BTreeMap::new() }, u64::from(count) * u64::from(step))
    }

    fn place(&self, tag: u32) -> Option<u64> {
        self.taken.get(&tag).map(|(_, place)| u64::from(*place))
    }

    fn give_back(&mut self, tag: u32) {
        let place = self.taken.remove(&tag);
        self.free.extend(place.map(|(start, _)| start));
    }
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) link: LinkId,
    pub(crate) session: ClientSession,
    pub(crate) memory: Memory,
    pub(crate) asker: Asker,
    /// The number of its writes.
    sequence: u32,
    /// The volumes that it has open.
    pub(crate) volumes: BTreeMap<u32, VolumeHandle>,
    /// Volumes that it has asked for, by the request's number, with the time of the request.
    pub(crate) asked: BTreeMap<u32, (u32, Tick)>,
    pub(crate) pending: BTreeMap<u32, Pending>,
    /// Its side of the rings, if it has any.
    pub(crate) places: Option<Places>,
    /// It has entered with a bearer.
    pub(crate) is_bearers: bool,
    /// It receives no more answers.
    pub(crate) is_deaf: bool,
    /// The misbehaviour of a client that violates the protocol.
    crook: Option<Crook>,
    /// Received bytes that the session has not taken yet.
    leftover: Vec<u8>,
}

impl Connection {
    pub(crate) fn new(
        config: ClientConfig,
        (crook, asker): (Option<Crook>, Asker),
        (route, anonymous): (Route, bool),
        outside: &mut Outside,
    ) -> Self {
        let door = door(anonymous, config.rings);
        let link = outside.network.connect(outside.now, route, door);
        outside.settle_network();
        Self {
            link,
            session: ClientSession::new(config),
            memory: Memory::default(),
            asker,
            sequence: 0,
            volumes: BTreeMap::new(),
            asked: BTreeMap::new(),
            pending: BTreeMap::new(),
            places: None,
            is_bearers: false,
            is_deaf: false,
            crook,
            leftover: Vec::new(),
        }
    }

    /// The number of the next command.
    pub(crate) fn next_sequence(&mut self) -> u32 {
        self.sequence += 1;
        self.sequence
    }

    pub(crate) fn pending_of(&mut self, tag: RequestTag) -> Pending {
        if let Some(places) = &mut self.places {
            places.give_back(tag.0);
        }
        self.pending.remove(&tag.0).expect("a request is answered once, and was made")
    }

    /// Takes all input that has arrived, and sends as much output as fits.
    pub(crate) fn pump(&mut self, outside: &mut Outside) -> Fate {
        if !self.is_deaf && self.take_entries(outside) == Fate::Lost {
            return Fate::Lost;
        }
        let is_deaf = self.is_deaf;
        self.line().pump(is_deaf, outside)
    }

    fn line(&mut self) -> Line<'_, ClientSession> {
        let Self { link, session, memory, leftover, crook, .. } = self;
        Line { link: *link, session, memory, leftover, crook: crook.as_mut(), take_max: None }
    }

    /// Takes all entries of the completion ring.
    fn take_entries(&mut self, outside: &mut Outside) -> Fate {
        let Some(places) = &self.places else { return Fate::Lives };
        // When the node has released the rings, the socket ends, too.
        let Some(ring) = outside.ring_of(self.link) else { return Fate::Lives };
        while let Some(entry) = ring.take_completion() {
            let [_, _, _, _, a, b, c, d, ..] = entry;
            let tag = u32::from_le_bytes([a, b, c, d]);
            let buffer = self.pending.get(&tag).and_then(Pending::read_buffer);
            if let (Some(buffer), Some(place)) = (buffer, places.place(tag)) {
                let bytes = self.memory.bytes_mut(buffer);
                bytes.copy_from_slice(&ring.at(place)[..bytes.len()]);
            }
            if let Err(error) = self.session.handle_entry(&entry) {
                self.line().judge(&ClientSession::trouble_of(error), outside);
                return Fate::Lost;
            }
        }
        Fate::Lives
    }

    /// Makes a request over the rings. `skew` is the distance of its bytes from an aligned place.
    pub(crate) fn submit_entry(
        &mut self,
        volume: VolumeHandle,
        (pending, operation): (Pending, &ClientOperation),
        skew: u32,
        outside: &mut Outside,
    ) {
        let places = self.places.as_mut().expect("a client submits entries once it has rings");
        let place = places.free.pop().expect("as many places as entries") + skew;
        let submitted = self.session.submit_entry(volume, operation, place);
        let (tag, entry) = submitted.expect("a request within the credits is taken");
        places.taken.insert(tag.0, (place - skew, place));
        let payload = pending.buffer().map(|buffer| self.memory.bytes(buffer).to_vec());
        self.pending.insert(tag.0, pending);
        let Some(ring) = outside.ring_of(self.link) else { return };
        if let ClientOperation::Write { .. } = operation {
            let bytes = payload.expect("a write has its payload");
            ring.at(u64::from(place))[..bytes.len()].copy_from_slice(&bytes);
        }
        let (operands, len) = operation.operands();
        ring.at(u64::from(place))[..len].copy_from_slice(&operands[..len]);
        assert!(ring.submit(entry), "there is room for as many as may be in flight");
        let core = ring.core;
        let node = outside.network.node_of(self.link);
        outside.machine_mut(node).woken.insert(core);
    }
}

impl Spoken for ClientSession {
    /// The node never breaks the protocol, and ends a connection that keeps it only when the node shuts
    /// down or a time-out passed.
    fn trouble_of(error: PeerError) -> Trouble {
        match error {
            PeerError::Goodbye(Status::SHUTTING_DOWN) => Trouble::Ended,
            PeerError::Goodbye(Status::TIMEOUT | Status::OK) => Trouble::GivenUp,
            error => Trouble::Broken(error.to_string()),
        }
    }
}
