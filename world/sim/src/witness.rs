//! Sees every write that is given to a device, and judges when that may be.
//!
//! A write whose connection is lost without an answer may take effect until the device operation
//! that carries it has ended; and that operation must have begun before the node closed the
//! connection's socket, unless the write is the second half of a compare-and-write, which waits for
//! its fence first. So once a connection is closed and its device operations have ended, what it
//! left behind never changes again.
//!
//! And a host that comes back, after its old controller ended, finds that nothing of its old
//! connections is under way.
//!
//! Invariant checked: each write is given to a device at most once.

use std::collections::BTreeMap;

use nearflash_units::Lba;

use crate::network::LinkId;
use crate::stamp::{Stamp, Value, Writer};

/// A moment in the order of everything that hosts and devices do. No two are the same.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Tick(pub u64);

impl Tick {
    /// Later than every moment.
    pub(crate) const NEVER: Self = Self(u64::MAX);
}

/// One write of one block, on its device.
#[derive(Clone, Copy, Debug)]
struct Fate {
    ended: Tick,
}

/// A queue on which a host writes.
#[derive(Clone, Copy, Debug)]
struct Opened {
    link: LinkId,
    admin: LinkId,
    /// Its host was told that nothing of it is under way any more.
    silent: bool,
}

type Place = (u32, Lba, Writer, u32);

#[derive(Debug, Default)]
pub(crate) struct Witness {
    fates: BTreeMap<Place, Fate>,
    writers: BTreeMap<Writer, Opened>,
    /// Whose admin queue a link is.
    admins: BTreeMap<LinkId, u32>,
    /// In which turn of a core a link was closed by the node.
    closed: BTreeMap<LinkId, u64>,
}

fn place(stamp: &Stamp) -> Place {
    (stamp.volume, stamp.lba, stamp.writer, stamp.sequence)
}

impl Witness {
    /// A host connects an admin queue.
    pub(crate) fn joins(&mut self, host: u32, admin: LinkId) {
        self.admins.insert(admin, host);
    }

    /// A host opens an I/O queue of the controller that it reached by `admin`.
    pub(crate) fn opens(&mut self, writer: Writer, link: LinkId, admin: LinkId) {
        self.writers.insert(writer, Opened { link, admin, silent: false });
    }

    /// The node grants a controller to whoever is at `admin`. What that host left behind on a
    /// controller that is no more has ended, and stays so: the host may write anew what was not
    /// answered.
    pub(crate) fn granted(&mut self, admin: LinkId) {
        let Some(host) = self.admins.get(&admin) else { return };
        let (admins, closed) = (&self.admins, &self.closed);
        let is_left = |queue: &Opened| {
            admins.get(&queue.admin) == Some(host) && closed.contains_key(&queue.admin)
        };
        for (writer, queue) in self.writers.iter_mut().filter(|(_, queue)| is_left(queue)) {
            queue.silent = true;
            let of_writer = self.fates.iter().filter(|((_, _, of, _), _)| of == writer);
            let mut under_way = of_writer.filter(|(_, fate)| fate.ended == Tick::NEVER);
            let under_way = under_way.next();
            assert!(under_way.is_none(), "{under_way:?} is under way and its host is back");
        }
    }

    /// The node closes a link.
    pub(crate) fn closed(&mut self, link: LinkId, turn: u64) {
        self.closed.insert(link, turn);
    }

    /// Blocks are given to a device.
    pub(crate) fn submitted(&mut self, bytes: &[u8], block_len: usize, turn: u64) {
        for block in bytes.chunks_exact(block_len) {
            let Value::Written(stamp) = Value::of(block) else { continue };
            let twin = self.fates.insert(place(&stamp), Fate { ended: Tick::NEVER });
            assert!(twin.is_none(), "{stamp:?} was given to a device twice");
            let queue = self.writers.get(&stamp.writer);
            let is_silent = queue.is_some_and(|queue| queue.silent);
            assert!(!is_silent, "{stamp:?} began after its host was back");
            let closed = queue.and_then(|queue| self.closed.get(&queue.link));
            let is_late = stamp.count == 0 && closed.is_some_and(|closed| *closed < turn);
            assert!(!is_late, "{stamp:?} began after its connection was closed");
        }
    }

    /// The operation that writes these blocks has ended.
    pub(crate) fn ended(&mut self, bytes: &[u8], block_len: usize, now: Tick) {
        for block in bytes.chunks_exact(block_len) {
            let Value::Written(stamp) = Value::of(block) else { continue };
            if let Some(fate) = self.fates.get_mut(&place(&stamp)) {
                fate.ended = now;
            }
        }
    }

    /// Until when a write may take effect, whatever becomes of its connection.
    pub(crate) fn end_of(&self, stamp: &Stamp) -> Tick {
        self.fates.get(&place(stamp)).map_or(Tick::NEVER, |fate| fate.ended)
    }

    /// Nothing that was under way ever ends.
    pub(crate) fn lose_power(&mut self, now: Tick) {
        for fate in self.fates.values_mut() {
            fate.ended = fate.ended.min(now);
        }
    }
}
