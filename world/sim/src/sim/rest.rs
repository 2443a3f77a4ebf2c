//! The end of a run: all work ends, all peers rest, and the node must hold nothing more.

use nearflash_shard::IscsiConfig;
use nearflash_units::Nanos;

use crate::disk::Disk;
use crate::history::Block;
use crate::machine::NodeId;
use crate::node::node_of;
use crate::outside::{Happening, Outside};
use crate::sim::{PATIENCE, Sim};
use crate::stamp::Value;

impl Sim {
    /// Whether every working host has done all its commands.
    pub fn is_work_done(&self) -> bool {
        self.workers.iter().all(|worker| worker.commands_left() == 0 && worker.in_flight() == 0)
            && self.initiators.iter().all(|it| it.commands_left() == 0 && it.in_flight() == 0)
            && self.clients.iter().all(|client| {
                client.is_deaf() || (client.requests_left() == 0 && client.in_flight() == 0)
            })
    }

    /// Runs until all work is done.
    ///
    /// # Panics
    /// When a command is never answered.
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

    /// From now on no fault occurs, partitions are over, and hung operations are answered.
    pub fn calm(&mut self) {
        let calmed = self.plan.faults.calmed();
        self.outside.network.faults = calmed.network;
        let now = self.outside.now;
        self.outside.network.heal_all(now);
        self.outside.settle_network();
        let Outside { machines, agenda, .. } = &mut self.outside;
        for (node, machine) in machines.iter_mut().enumerate() {
            for (index, disk) in machine.disks.iter_mut().enumerate() {
                for number in disk.recover() {
                    agenda.push(now, Happening::DiskDone(NodeId(node), index, number));
                }
                disk.faults = calmed.disk;
            }
        }
    }

    /// From now on a volume's operations hang, until [`Self::calm`].
    pub fn hang(&mut self, volume: u32) {
        self.outside.note("hang", &[u64::from(volume)]);
        let node = node_of(volume);
        for (index, disk) in self.outside.machine_mut(node).disks.iter_mut().enumerate() {
            disk.faults.hung = self.nodes[node.0].bytes_of(volume, index);
        }
    }

    /// Whether some operation of a device hangs.
    pub fn hangs(&self) -> bool {
        self.outside.machines.iter().flat_map(|machine| &machine.disks).any(Disk::hangs)
    }

    /// The number of unanswered changes of reservations and modes.
    pub fn changes_left(&self) -> usize {
        self.changes.len()
    }

    /// All peers start nothing new; operations under way end.
    ///
    /// # Panics
    /// When a command is never answered, or a connection that should have ended is left.
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

    /// The node must have closed silent connections, once their time-outs have passed.
    ///
    /// # Panics
    /// When such a connection is left.
    pub fn check_silence_ends(&mut self) {
        let node = &self.plan.node;
        // The longest keep-alive time-out that hosts request. For a silent initiator, the node
        // needs several rounds: one in which it still saw input, one in which it saw none, then a
        // NOP-In.
        let stall = node.stall_timeout;
        let initiators = IscsiConfig::default().session.login_timeout.plus(stall).plus(stall);
        let longest = Nanos::from_secs(5).max(initiators).max(node.session.handshake_timeout);
        // Plus a second or two for each check.
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

    /// The nodes have nothing under way: every block holds a possible value, and counters include
    /// every step.
    ///
    /// # Panics
    /// When a block does not.
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
        self.node_ids().for_each(|node| self.check_places(node));
        self.check_replicas();
        self.check_clients_at_rest();
    }
    /// The content of a block on its device.
    pub(super) fn block_bytes(&self, block: Block) -> Vec<u8> {
        let node = node_of(block.volume);
        let piece = self.nodes[node.0].locate(block.volume, block.lba);
        let piece = piece.expect("the block is the volume's");
        let disk = usize::try_from(piece.device.0).expect("few devices");
        self.outside.machine(node).disks[disk].bytes(piece.offset, piece.len).to_vec()
    }
}
