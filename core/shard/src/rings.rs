//! Clients with rings in shared memory: their requests and answers travel as ring entries; only the
//! session's own messages use the socket.
//!
//! Rings are polled in every turn, at the cost of reading one word each; their sockets are only
//! watched. Payload of whole blocks goes straight between devices and the client's memory: the
//! world keeps it until the last device operation of the connection has ended.

use nearflash_direct::serving::{AttachDemand, CopyInDemand, Demand, LendDemand, RingOutput};
use nearflash_direct::{PeerError, Status};
use nearflash_engine::{Accounts, Foreign};
use nearflash_session::length;
use nearflash_units::ByteLen;

use crate::arrival::Arrivals;
use crate::connection::{Connection, Phase};
use crate::connections::Key;
use crate::shard::Shard;
use crate::trace;
use crate::world::{Place, RingEntry, RingId, RingRefused, RingSpec, World};

/// The clients of a core that have rings.
#[derive(Debug, Default)]
pub(crate) struct Rings {
    keys: Vec<Key>,
    /// Scratch space for incoming and outgoing entries.
    entries: Vec<RingEntry>,
}

impl Shard {
    /// Takes the entries that clients have submitted. Returns the number of clients that had any.
    #[inline]
    pub(crate) fn receive_rings<W: World>(&mut self, world: &mut W) -> usize {
        let mut busy = 0;
        let mut at = 0;
        while let Some(&key) = self.rings.keys.get(at) {
            match self.receive_entries(key, world) {
                Some(moved) => {
                    busy += usize::from(moved);
                    at += 1;
                }
                None => {
                    self.rings.keys.swap_remove(at);
                }
            }
        }
        busy
    }

    /// Takes entries once. Returns `None` if the connection's rings are no longer polled.
    #[inline]
    fn receive_entries<W: World>(&mut self, key: Key, world: &mut W) -> Option<bool> {
        let connection = self.connections.get_mut(key)?;
        if connection.phase != Phase::Open {
            return None;
        }
        let (ring, session) = (connection.ring?, connection.session.direct_mut()?);
        if !session.takes_entries() {
            return Some(false);
        }
        let mut entries = std::mem::take(&mut self.rings.entries);
        entries.clear();
        let taken = world.take_entries(ring, &mut entries);
        note_arrival(connection, ring, entries.len(), world);
        if !entries.is_empty() {
            trace::note_receipt(&mut self.engine, world);
            if self.is_given_up(key, world) {
                self.rings.entries = entries;
                self.kill(key, world);
                return None;
            }
        }
        let connection = self.connections.get_mut(key)?;
        if connection.phase != Phase::Open {
            self.rings.entries = entries;
            return None;
        }
        let session = connection.session.direct_mut()?;
        let handled = match taken {
            Ok(()) => entries.iter().try_for_each(|entry| {
                session.handle_entry(entry, &mut |offset, into| {
                    world.copy_from_ring(ring, offset, into);
                })
            }),
            Err(_) => {
                session.terminate(PeerError::RingBroken);
                Err(PeerError::RingBroken)
            }
        };
        let moved = !entries.is_empty();
        self.rings.entries = entries;
        if moved || handled.is_err() {
            connection.progress.begins(world.now());
            self.take_demands(key, world);
            self.mark_dirty(key);
        }
        if let Err(error) = handled {
            self.peer_error(key, error.into(), world);
        }
        Some(moved)
    }

    /// Handles a demand of a direct session.
    pub(crate) fn ring_demand<W: World>(&mut self, key: Key, demand: Demand, world: &mut W) {
        match demand {
            Demand::Request(request) => self.submit(key, request, world),
            Demand::Claim(identity) => self.claim(key, identity, world),
            Demand::Attach(demand) => self.attach_ring(key, demand, world),
            Demand::Seals => self.tell_seals(key, world),
            Demand::Revoke(demand) => self.ask_to_revoke(key, demand, world),
            Demand::Files(demand) => self.ask_owner_of_files(key, demand, world),
            Demand::Refused(volume) => self.report_refused(key, &volume, world),
            Demand::Lend(demand) => self.lend(key, demand, world),
            Demand::CopyIn(demand) => self.copy_in(key, demand, world),
        }
    }

    fn attach_ring<W: World>(&mut self, key: Key, demand: AttachDemand, world: &mut W) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let Some(session) = connection.session.direct_mut() else { return };
        let AttachDemand { entries, data_len } = demand;
        let owner = connection.peer.origin();
        let spec = RingSpec { entries, data_len: ByteLen(data_len), owner };
        let made = world.attach_ring(connection.socket, spec);
        session.handle_attached(made.map(drop).map_err(status_of));
        if let Ok(ring) = made {
            connection.ring = Some(ring);
            connection.ring_arrivals = Arrivals::new(world.now());
            self.rings.keys.push(key);
        }
        self.mark_dirty(key);
    }

    #[inline]
    fn lend<W: World>(&mut self, key: Key, demand: LendDemand, world: &mut W) {
        let Some(ring) = self.ring_of(key) else { return };
        let (offset, len) = (demand.place.offset, demand.place.len);
        let buffer = world.pool().lend(Foreign { region: ring.0, offset, len });
        self.submit(key, demand.into_request(buffer), world);
    }

    fn copy_in<W: World>(&mut self, key: Key, demand: CopyInDemand, world: &mut W) {
        let Some(ring) = self.ring_of(key) else { return };
        let CopyInDemand { place, buffer, offset, request } = demand;
        let to = Place { buffer, offset, len: length(place.len) };
        world.fill_from_ring(ring, place.offset, to);
        self.submit(key, request, world);
    }

    /// The connection's rings. Only a session that has rings makes such demands.
    fn ring_of(&self, key: Key) -> Option<RingId> {
        let connection = self.connections.get(key)?;
        Some(connection.ring.expect("only a session with rings asks for its client's memory"))
    }

    /// Performs a session's ring outputs, answers at once. Returns whether there were any.
    #[inline]
    pub(crate) fn send_by_ring<W: World>(&mut self, key: Key, world: &mut W) -> bool {
        let Some(connection) = self.connections.get_mut(key) else { return false };
        let Some(ring) = connection.ring else { return false };
        let mut entries = std::mem::take(&mut self.rings.entries);
        entries.clear();
        let moved = drain_outputs(connection, ring, &mut entries, self.engine.accounts(), world);
        let put = if entries.is_empty() { Ok(()) } else { world.put_entries(ring, &entries) };
        self.rings.entries = entries;
        if moved {
            trace::note_sent(&mut self.engine, key, world);
        }
        if put.is_err()
            && let Some(session) = connection.session.direct_mut()
        {
            session.terminate(PeerError::RingBroken);
            self.peer_error(key, PeerError::RingBroken.into(), world);
        }
        moved
    }
}

/// So many entries were taken.
#[inline]
fn note_arrival<W: World>(connection: &mut Connection, ring: RingId, len: usize, world: &mut W) {
    let (now, arrivals) = (world.now(), &mut connection.ring_arrivals);
    if len > 0 {
        arrivals.took(len);
        connection.came_since = arrivals.since();
    }
    let waiting = world.untaken_entries(ring);
    if waiting == 0 {
        arrivals.seen_empty(now);
    } else if arrivals.wants_mark(now) {
        arrivals.mark(now, waiting);
    }
}

/// Performs the session's outputs, and collects its entries.
#[inline]
fn drain_outputs<W: World>(
    connection: &mut Connection,
    ring: RingId,
    entries: &mut Vec<RingEntry>,
    accounts: &mut Accounts,
    world: &mut W,
) -> bool {
    let account = connection.account();
    let Some(session) = connection.session.direct_mut() else { return false };
    let mut moved = false;
    while let Some(output) = session.poll_ring() {
        moved = true;
        match output {
            RingOutput::Entry(entry) => entries.push(entry),
            RingOutput::Copy { buffer, offset, place } => {
                let from = Place { buffer, offset, len: length(place.len) };
                world.copy_to_ring(ring, from, place.offset);
                accounts.give_back(account, world.pool().len_of(buffer));
                world.pool().give_back(buffer);
            }
            // The engine's buffers, of requests that failed, may be the pool's, too.
            RingOutput::Release(buffer) => {
                accounts.give_back(account, world.pool().len_of(buffer));
                world.pool().give_back(buffer);
            }
            RingOutput::Zeroes(place) => {
                world.zero_in_ring(ring, place.offset, length(place.len));
            }
        }
    }
    if moved {
        connection.progress.begins(world.now());
    }
    moved
}

fn status_of(refused: RingRefused) -> Status {
    match refused {
        RingRefused::Unsupported => Status::UNSUPPORTED,
        RingRefused::Size => Status::INVALID_FIELD,
        RingRefused::TooMany | RingRefused::System(_) => Status::BUSY,
    }
}
