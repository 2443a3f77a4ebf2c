//! A loss of power of a machine: its peers' connections are gone, and its disks must still hold all
//! durable data. Other machines run on.

use crate::client::worker::Client;
use crate::host::worker::Leaving;
use crate::machine::NodeId;
use crate::node::disk_number;
use crate::sim::Sim;
use crate::stamp::Value;

impl Sim {
    /// The power of all machines goes.
    ///
    /// # Panics
    /// When something durable is lost.
    pub fn lose_power(&mut self) {
        self.node_ids().for_each(|node| self.lose_power_of(node));
    }

    /// The power of a machine goes: what is left on its disks is checked, and its node starts again.
    ///
    /// # Panics
    /// When something durable is lost.
    pub fn lose_power_of(&mut self, node: NodeId) {
        self.drop_peers(node);
        self.outside.lose_node(node);
        self.forget_changes(node);
        self.files.forget(node);
        self.judge_steps();
        self.outside.note("power lost", &[]);
        self.check_disks_after_power_loss(node);
        let now = self.outside.tick();
        self.checks.history.owes_nothing(node, now);
        for disk in 0..self.outside.machine(node).disks.len() {
            let now = self.outside.tick();
            self.outside.failures.cleared(disk_number(node, disk), now);
        }
        self.nodes[node.0].confirmed.start_again();
        self.nodes[node.0].start(&mut self.outside);
    }

    /// All peers of a node lose their connections.
    fn drop_peers(&mut self, node: NodeId) {
        self.hosts_of(node).for_each(|host| self.leave(host, Leaving::Resetting));
        let clients = self.clients.iter_mut().filter(|client| client.route.node == node);
        clients.for_each(Client::forget);
    }

    fn check_disks_after_power_loss(&mut self, node: NodeId) {
        let volatile = self.plan.node.volatile_cache;
        let blocks = self.checks.history.blocks();
        for block in blocks.into_iter().filter(|block| node.volumes().contains(&block.volume)) {
            let bytes = self.block_bytes(block);
            if matches!(Value::of(&bytes), Value::Other(_)) {
                self.outside.note("torn block", &[block.lba.0]);
            }
            self.checks.history.power_lost(block, &bytes, volatile, &self.outside.witness);
        }
        self.check_places(node);
        self.checks.history.forget_flushes(node);
        self.check_clients_after_power_loss(node);
        self.checks.increments.restart(node);
    }
}
