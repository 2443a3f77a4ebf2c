//! One core: a shard with its pool, and when it takes its turns.
//!
//! It behaves as the reactor does: it takes turns while there is work, continues for a while
//! without work, and then sleeps until an event or the shard's deadline.

use nearflash_engine::{CoreId, Pool};
use nearflash_shard::Shard;
use nearflash_units::{ByteLen, Nanos};

use crate::machine::NodeId;
use crate::outside::{Happening, Outside};
use crate::world::SimWorld;

#[derive(Debug)]
pub(super) struct Core {
    node: NodeId,
    pub(super) id: CoreId,
    shard: Shard,
    pub(super) pool: Pool,
    /// The free bytes of the pool at the start, after the engine had taken its reserves.
    free_at_first: (ByteLen, ByteLen),
    awake: bool,
    worked_at: Nanos,
    /// The number of the turn that it waits for.
    ticket: u64,
}

impl Core {
    pub(super) fn new((node, id): (NodeId, CoreId), shard: Shard, pool: Pool) -> Self {
        let free_at_first = (pool.free_len(), pool.reserved_free_len());
        let worked_at = Nanos(0);
        Self { node, id, shard, pool, free_at_first, awake: true, worked_at, ticket: 0 }
    }

    /// Starts to take turns.
    pub(super) fn begin(&mut self, outside: &mut Outside) {
        self.awake = true;
        self.worked_at = outside.now;
        self.schedule(outside.now, outside);
    }

    pub(super) fn is_awake(&self) -> bool {
        self.awake
    }

    /// Takes a turn, if the number is still that of the turn it waits for.
    pub(super) fn turn_if_due(&mut self, ticket: u64, outside: &mut Outside) {
        if self.ticket == ticket {
            self.turn(outside);
        }
    }

    /// Whether every buffer is free again, except the engine's reserves.
    pub(super) fn pool_is_whole(&self) -> bool {
        let free = (self.pool.free_len(), self.pool.reserved_free_len());
        free == self.free_at_first && self.pool.foreign_count() == 0
    }

    fn schedule(&mut self, at: Nanos, outside: &mut Outside) {
        self.ticket += 1;
        let faults = outside.machine(self.node).cores;
        let mut at = at.plus(outside.dice.span(faults.turn));
        if outside.dice.permille(faults.pause_permille) {
            at = at.plus(Nanos(outside.dice.between(0, faults.pause.0)));
        }
        outside.agenda.push(at, Happening::Turn(self.node, self.id, self.ticket));
    }

    fn turn(&mut self, outside: &mut Outside) {
        self.awake = true;
        let (node, core, now) = (self.node, self.id, outside.now);
        let machine = outside.machine(node);
        let (spin, own_now) = (machine.cores.spin, machine.clock.at(now));
        outside.turns += 1;
        let mut world = SimWorld { node, core, now: own_now, pool: &mut self.pool, outside };
        let moved = self.shard.turn(&mut world);
        if moved > 0 {
            self.worked_at = now;
            let (core, moved) = (u64::from(core.0), ByteLen::from_usize(moved).0);
            outside.note("turn", &[core, moved, self.pool.free_len().0]);
        } else if now.since(self.worked_at) >= spin {
            self.shard.prepare_to_sleep(&mut world);
            let machine = outside.machine(node);
            let has_work = machine.rings.has_work(core);
            if machine.inboxes[usize::from(core.0)].is_empty() && !has_work {
                return self.sleep(outside);
            }
        }
        self.schedule(now, outside);
    }

    fn sleep(&mut self, outside: &mut Outside) {
        self.awake = false;
        self.ticket += 1;
        if let Some(at) = self.shard.poll_timeout() {
            let at = outside.machine(self.node).clock.moment_of(at);
            let at = at.max(outside.now.plus(Nanos::from_micros(1)));
            outside.agenda.push(at, Happening::Turn(self.node, self.id, self.ticket));
        }
    }
}
