//! Checks on direct clients: revocation, and the content of their volume.

use std::ops::Range;

use nearflash_units::{ByteLen, Lba, Nanos};

use crate::client::worker::Client;
use crate::host::worker::Leaving;
use crate::machine::NodeId;
use crate::node::NodeConfig;
use crate::sim::{PATIENCE, Sim};
use crate::witness::Tick;

impl Sim {
    /// The content of a node's shared volume on its devices.
    fn shared_bytes(&self, node: NodeId, range: &Range<u64>) -> Vec<u8> {
        let block_len = u64::from(self.plan.node.block_size.bytes());
        let first = range.start / block_len;
        let mut bytes = Vec::new();
        for block in first..range.end.div_ceil(block_len) {
            let piece = self.nodes[node.0].locate(node.shared_id(), Lba(block));
            let piece = piece.expect("within the volume");
            let disk = usize::try_from(piece.device.0).expect("few devices");
            let disk = &self.outside.machine(node).disks[disk];
            bytes.extend_from_slice(disk.bytes(piece.offset, piece.len));
        }
        let skip = ByteLen(range.start - first * block_len).to_usize();
        bytes[skip..skip + ByteLen(range.end - range.start).to_usize()].to_vec()
    }

    fn owned_bytes(&self, client: &Client) -> Vec<Vec<u8>> {
        let node = client.route.node;
        client.owned.ranges().iter().map(|range| self.shared_bytes(node, range)).collect()
    }

    /// The device blocks that only one client touches: those within its stretch, if any. They are in
    /// one extent.
    fn own_blocks(&self, client: &Client) -> (usize, Range<u64>) {
        let NodeConfig { block_size, .. } = self.plan.node;
        let unit = u64::from(self.plan.node.device_block_size().bytes());
        let stretch = client.owned.ranges().last().expect("each has a stretch");
        let bytes = stretch.start.next_multiple_of(unit)..stretch.end / unit * unit;
        let first = Lba(bytes.start / u64::from(block_size.bytes()));
        let node = client.route.node;
        let piece = self.nodes[node.0].locate(node.shared_id(), first);
        let piece = piece.expect("within the volume");
        let disk = usize::try_from(piece.device.0).expect("few devices");
        let start = piece.offset.0;
        (disk, start..start + bytes.end.saturating_sub(bytes.start))
    }

    /// Tells all cores of a node the grants of direct clients, and waits until they have confirmed.
    pub(crate) fn export_direct(&mut self, node: NodeId) {
        let number = self.nodes[node.0].export_direct(&mut self.outside);
        let confirmed = self.run_until(PATIENCE, |sim| sim.nodes[node.0].has_quiesced(number));
        assert!(confirmed, "every core takes what direct clients may reach");
    }

    /// Revokes a direct client's grants for a while. Once all cores have confirmed, none of its
    /// requests, earlier or later, has any effect.
    ///
    /// # Panics
    /// When a request has an effect.
    pub fn revoke(&mut self) {
        let keeps = |client: &Client| client.plan.crooked.is_none();
        let victims: Vec<usize> =
            (0..self.clients.len()).filter(|client| keeps(&self.clients[*client])).collect();
        if victims.is_empty() {
            return;
        }
        let victim = self.dice.pick(&victims);
        self.clients[victim].refusable_until = Tick::NEVER;
        let node = self.clients[victim].route.node;
        self.nodes[node.0].grants.revoked.insert(victim);
        self.outside.note("revoke", &[]);
        self.export_direct(node);
        self.clients[victim].revoked_at = Some(self.outside.tick());
        self.set_revoked(victim, true);
        let (disk, bytes) = self.own_blocks(&self.clients[victim]);
        let is_busy = self.outside.machine(node).disks[disk].is_busy_in(&bytes);
        assert!(!is_busy, "something of client {victim} is under way without any right");
        self.outside.machine_mut(node).forbidden = Some((disk, bytes));
        let before = self.owned_bytes(&self.clients[victim]);
        let span = Nanos::from_micros(self.dice.between(10, 100_000));
        self.run_for(span);
        let after = self.owned_bytes(&self.clients[victim]);
        assert!(before == after, "client {victim} has changed something without any right");
        self.outside.machine_mut(node).forbidden = None;
        self.clients[victim].revoked_at = None;
        self.set_revoked(victim, false);
        self.nodes[node.0].grants.revoked.remove(&victim);
        if self.dice.coin() {
            self.nodes[node.0].grants.epoch += 1;
            self.commons[node.0].epochs_change = true;
        }
        self.export_direct(node);
        self.clients[victim].refusable_until = self.outside.tick();
    }

    /// Revokes or restores its access to the hosts' blocks. Revoked, none of its writes there takes
    /// effect.
    fn set_revoked(&mut self, client: usize, is_revoked: bool) {
        let Client { route, .. } = self.clients[client];
        let who = self.clients[client].who();
        self.outside.witness.set_revoked(who, is_revoked);
        route.node.field_ids().into_iter().for_each(|volume| self.rights_changed(volume));
    }

    /// The nodes have nothing under way.
    pub(crate) fn check_clients_at_rest(&mut self) {
        // A client that receives nothing does not learn that its connection is gone.
        for client in self.clients.iter_mut().filter(|client| client.is_deaf()) {
            let (checks, outside) = (&mut self.checks, &mut self.outside);
            let common = &mut self.commons[client.route.node.0];
            client.leave(Leaving::Resetting, common, checks, outside);
        }
        self.node_ids().for_each(|node| self.check_clients(node, false));
    }

    /// A node is gone, and with it all requests under way.
    pub(crate) fn check_clients_after_power_loss(&mut self, node: NodeId) {
        self.check_clients(node, true);
    }

    fn check_clients(&mut self, node: NodeId, power_lost: bool) {
        for number in 0..self.clients.len() {
            if self.clients[number].route.node != node {
                continue;
            }
            let owned = self.owned_bytes(&self.clients[number]);
            let client = &mut self.clients[number];
            let starts: Vec<u64> = client.owned.ranges().iter().map(|range| range.start).collect();
            for (start, bytes) in starts.into_iter().zip(owned) {
                if power_lost {
                    client.owned.power_lost(number, start, &bytes);
                } else {
                    client.owned.at_rest(number, start, &bytes);
                }
            }
        }
        for (word, kind) in self.ground.words() {
            let bytes = self.shared_bytes(node, &(word..word + 8));
            let found = u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
            if power_lost {
                self.commons[node.0].words.power_lost(word, kind, found);
            } else {
                self.commons[node.0].words.at_rest(word, kind, found);
            }
        }
    }
}
