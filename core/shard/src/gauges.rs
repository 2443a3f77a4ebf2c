//! The figures of one core that any thread reads at any time, without asking the core.
//!
//! Invariant: only the core writes, at the end of each turn, with plain stores. So a core that hangs
//! shows the figures of its last turn, and its count of turns stands still.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nearflash_units::{ByteLen, Nanos};

use crate::session::Session;
use crate::shard::Shard;
use crate::world::World;

/// A protocol of connections.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Protocol {
    /// NVMe/TCP.
    NvmeTcp,
    /// iSCSI.
    Iscsi,
    /// The direct protocol.
    Direct,
}

impl Protocol {
    /// Every protocol.
    pub const ALL: [Self; 3] = [Self::NvmeTcp, Self::Iscsi, Self::Direct];

    /// Its name in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NvmeTcp => "nvme-tcp",
            Self::Iscsi => "iscsi",
            Self::Direct => "direct",
        }
    }

    pub(crate) const fn of(session: &Session) -> Self {
        match session {
            Session::NvmeTcp(_) => Self::NvmeTcp,
            Session::Iscsi(_) => Self::Iscsi,
            Session::Direct(_) => Self::Direct,
        }
    }
}

/// The figures of a core. A cache line of their own, so that no other core waits for it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Gauges {
    turns: AtomicU64,
    busy: AtomicU64,
    pool_free: AtomicU64,
    connections: [AtomicU64; 3],
    answered: [AtomicU64; 3],
    standstills: AtomicU64,
    gave_way: AtomicU64,
    copies: AtomicU64,
    left_to_copy: AtomicU64,
}

/// The figures of a core at one moment.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Reading {
    /// Turns since the start.
    pub turns: u64,
    /// The time of the turns that moved something, since the start.
    pub busy: Nanos,
    /// The free bytes of the buffer pool.
    pub pool_free: ByteLen,
    /// Connections, by [`Protocol`].
    pub connections: [u64; 3],
    /// Requests of connections that were answered since the start, by [`Protocol`].
    pub answered: [u64; 3],
    /// How often the core took no turn for longer than [`crate::STANDSTILL_MIN`].
    pub standstills: u64,
    /// How often the core slept instead of spinning, because a client whose memory it shares runs on its
    /// processor.
    pub gave_way: u64,
    /// The mirrors that the core copies to a replica that returns.
    pub copies: u64,
    /// The bytes that these copies have not gone through yet.
    pub left_to_copy: ByteLen,
}

impl Gauges {
    /// The figures now.
    pub fn read(&self) -> Reading {
        let load = |gauge: &AtomicU64| gauge.load(Ordering::Relaxed);
        Reading {
            turns: load(&self.turns),
            busy: Nanos(load(&self.busy)),
            pool_free: ByteLen(load(&self.pool_free)),
            connections: self.connections.each_ref().map(load),
            answered: self.answered.each_ref().map(load),
            standstills: load(&self.standstills),
            gave_way: load(&self.gave_way),
            copies: load(&self.copies),
            left_to_copy: ByteLen(load(&self.left_to_copy)),
        }
    }

    /// Replaces the figures. Only the core calls this.
    pub(crate) fn write(&self, now: &Reading) {
        let Reading { turns, busy, pool_free, connections, answered, .. } = now;
        let Reading { standstills, gave_way, copies, left_to_copy, .. } = now;
        let store = |gauge: &AtomicU64, value: u64| gauge.store(value, Ordering::Relaxed);
        store(&self.turns, *turns);
        store(&self.busy, busy.0);
        store(&self.pool_free, pool_free.0);
        for (gauge, value) in self.connections.iter().zip(connections) {
            store(gauge, *value);
        }
        for (gauge, value) in self.answered.iter().zip(answered) {
            store(gauge, *value);
        }
        store(&self.standstills, *standstills);
        store(&self.gave_way, *gave_way);
        store(&self.copies, *copies);
        store(&self.left_to_copy, left_to_copy.0);
    }
}

/// The core's own side of its [`Gauges`].
#[derive(Debug, Default)]
pub(crate) struct Published {
    gauges: Arc<Gauges>,
    reading: Reading,
    /// The start of the latest turn, if that turn moved something.
    busy_since: Option<Nanos>,
}

impl Published {
    pub(crate) fn new(gauges: Arc<Gauges>) -> Self {
        Self { gauges, ..Self::default() }
    }

    /// A turn begins. After a turn that moved something the next one follows at once, so its start
    /// is that turn's end.
    #[inline]
    pub(crate) fn begin_turn(&mut self, now: Nanos) {
        if let Some(since) = self.busy_since.take() {
            self.reading.busy = self.reading.busy.plus(now.since(since));
        }
    }

    /// A turn that began at `began` is over.
    #[inline]
    pub(crate) fn end_turn(&mut self, began: Nanos, moved: usize) {
        self.busy_since = (moved > 0).then_some(began);
        self.reading.turns += 1;
        self.gauges.write(&self.reading);
    }

    #[inline]
    pub(crate) fn connected(&mut self, session: &Session) {
        self.reading.connections[Protocol::of(session) as usize] += 1;
    }

    #[inline]
    pub(crate) fn disconnected(&mut self, session: &Session) {
        self.reading.connections[Protocol::of(session) as usize] -= 1;
    }

    pub(crate) fn stood_still(&mut self) {
        self.reading.standstills += 1;
    }

    #[inline]
    pub(crate) fn answered(&mut self, session: &Session) {
        self.reading.answered[Protocol::of(session) as usize] += 1;
    }
}

impl Shard {
    /// The core sleeps now instead of spinning, because a client on its processor waits for that processor.
    pub fn gives_way(&mut self) {
        self.published.reading.gave_way += 1;
    }

    /// Shows the figures of the core at the end of a turn.
    #[inline]
    pub(crate) fn publish<W: World>(&mut self, began: Nanos, moved: usize, world: &mut W) {
        let reading = &mut self.published.reading;
        reading.pool_free = world.pool().free_len();
        if self.mirroring.is_used() {
            (reading.copies, reading.left_to_copy) = self.mirroring.mirrors.left_to_copy();
        }
        self.published.end_turn(began, moved);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_turn_counts_as_busy_only_if_it_moved_something() {
        let gauges = Arc::new(Gauges::default());
        let mut published = Published::new(Arc::clone(&gauges));
        for (began, moved) in [(100, 0), (110, 3), (150, 1), (170, 0), (900, 0)] {
            published.begin_turn(Nanos(began));
            published.end_turn(Nanos(began), moved);
        }
        let Reading { turns, busy, .. } = gauges.read();
        assert_eq!((turns, busy), (5, Nanos(60)));
    }

    #[test]
    fn every_figure_that_is_written_is_read() {
        let gauges = Gauges::default();
        let reading = Reading {
            turns: 1,
            busy: Nanos(2),
            pool_free: ByteLen(3),
            connections: [4, 5, 6],
            answered: [7, 8, 9],
            standstills: 10,
            gave_way: 11,
            copies: 12,
            left_to_copy: ByteLen(13),
        };
        gauges.write(&reading);
        assert_eq!(gauges.read(), reading);
    }
}
