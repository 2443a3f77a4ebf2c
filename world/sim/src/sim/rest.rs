//! The end of a run: work is done, everybody rests, and then nothing is left that should not be.

use nearflash_shard::IscsiConfig;
use nearflash_units::Nanos;

use crate::disk::Disk;
use crate::history::Block;
use crate::outside::Happening;
use crate::sim::{PATIENCE, Sim};
use crate::stamp::Value;

impl Sim {
    /// Whether every working host has done all that it had to do.
    pub fn is_work_done(&self) -> bool {
        self.workers.iter().all(|worker| worker.commands_left() == 0 && worker.in_flight() == 0)
            && self.initiators.iter().all(|it| it.commands_left() == 0 && it.in_flight() == 0)
            && self.clients.iter().all(|client| {
                client.is_deaf() || (client.requests_left() == 0 && client.in_flight() == 0)
            })
    }

    /// Goes on until all work is done.
    ///
    /// # Panics
    /// When some command is never answered.
    pub fn finish_work(&mut self) {
        let is_done = self.run_until(PATIENCE, Self::is_work_done);
        let left: Vec<_> =
            self.workers.iter().map(|w| (w.life, w.commands_left(), w.in_flight())).collect();
        let clients: Vec<_> =
            self.clients.iter().map(|c| (c.requests_left(), c.in_flight(), c.link())).collect();
        let initiators: Vec<_> = self
            .initiators
            .iter()
            .map(|initiator| (initiator.life, initiator.commands_left(), initiator.in_flight()))
            .collect();
        let now = self.now();
        assert!(is_done, "not done at {now:?}: {left:?}, {clients:?}, {initiators:?}");
    }

    /// From now on nothing is lost and nothing fails, and what hung is answered.
    pub fn calm(&mut self) {
        let calmed = self.plan.faults.calmed();
        self.outside.network.faults = calmed.network;
        let now = self.outside.now;
        for (index, disk) in self.outside.disks.iter_mut().enumerate() {
            for number in disk.recover() {
                self.outside.agenda.push(now, Happening::DiskDone(index, number));
            }
            disk.faults = calmed.disk;
        }
    }

    /// From now on a volume's operations are not answered, until the world is calm.
    pub fn hang(&mut self, volume: u32) {
        self.outside.note("hang", &[u64::from(volume)]);
        for (index, disk) in self.outside.disks.iter_mut().enumerate() {
            disk.faults.hung = self.node.bytes_of(volume, index);
        }
    }

    /// Whether a device does not answer some operation.
    pub fn hangs(&self) -> bool {
        self.outside.disks.iter().any(Disk::hangs)
    }

    /// The number of unanswered changes of reservations and modes.
    pub fn changes_left(&self) -> usize {
        self.changes.len()
    }

    /// Everybody stops doing anything new; what is under way ends.
    ///
    /// # Panics
    /// When some command is never answered, or a connection that should have ended is there.
    pub fn rest(&mut self) {
        for worker in &mut self.workers {
            worker.resting = true;
        }
        for misfit in &mut self.misfits {
            misfit.stop();
        }
        for client in &mut self.clients {
            client.resting = true;
        }
        for initiator in &mut self.initiators {
            initiator.resting = true;
        }
        let idle = self.run_until(PATIENCE, |sim| {
            sim.workers.iter().all(|w| w.in_flight() == 0)
                && sim.initiators.iter().all(|initiator| initiator.in_flight() == 0)
                && sim.clients.iter().all(|client| client.in_flight() == 0)
        });
        assert!(idle, "every command is answered, or its connection lost");
    }

    /// Connections on which the node hears nothing have been closed, once there was time for it.
    ///
    /// # Panics
    /// When one is there.
    pub fn check_silence_ends(&mut self) {
        let node = &self.plan.node;
        // The longest keep-alive time-out that hosts ask for. An initiator's session notices when its
        // time for the login is over that it has said something since, then that it has not, and asks.
        let stall = node.stall_timeout;
        let initiators = IscsiConfig::default().session.login_timeout.plus(stall).plus(stall);
        let longest = Nanos::from_secs(5).max(initiators).max(node.session.handshake_timeout);
        // And a second or two for each look.
        self.run_for(longest.plus(Nanos::from_secs(15)));
        let of_hosts = self.workers.iter().flat_map(|worker| &worker.silenced);
        let of_initiators = self.initiators.iter().flat_map(|initiator| &initiator.silenced);
        let silenced = of_hosts.chain(of_initiators);
        for (since, link) in silenced.chain(self.misfits.iter().flat_map(|misfit| &misfit.links)) {
            let is_closed = self.outside.network.is_closed_by_node(*link);
            assert!(
                is_closed,
                "{link:?} is silent since {since:?}, and the node has not closed it"
            );
        }
    }

    /// The node has nothing under way: every block holds what it may, and counters count all.
    ///
    /// # Panics
    /// When one does not.
    pub fn check_disks(&mut self) {
        let now = self.outside.tick();
        self.checks.history.all_ended(now);
        let (sent, now) = (self.outside.tick(), self.outside.tick());
        for block in self.checks.history.blocks() {
            let value = Value::of(&self.block_bytes(block));
            self.checks.history.read(block, value, (sent, now), &self.outside.witness);
            if block.lba.0 == self.counter {
                self.checks.increments.check(block, value);
            }
        }
        self.check_places();
        self.check_clients_at_rest();
    }
    /// The content of a block on its device.
    pub(super) fn block_bytes(&self, block: Block) -> Vec<u8> {
        let piece = self.node.locate(block.volume, block.lba).expect("the block is the volume's");
        let disk = usize::try_from(piece.device.0).expect("few devices");
        self.outside.disks[disk].bytes(piece.offset, piece.len).to_vec()
    }
}
