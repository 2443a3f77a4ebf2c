//! Actions of the control side while hosts are at work: it resizes a volume, or drains the nodes.

use std::ops::Range;

use nearflash_engine::{TraceOrder, Traced};
use nearflash_shard::{Event, Message, Notice};
use nearflash_units::{Blocks, Lba, Nanos};

use crate::disk::Disk;
use crate::history::{Block, Ending, Sent};
use crate::network::LinkId;
use crate::node::{Node, disk_number, node_of};
use crate::outside::Noted;
use crate::sim::{PATIENCE, Sim};
use crate::stamp::{Value, Writer};

/// How long an operator waits for a device to become suspect.
const CLEAR_SPAN: Nanos = Nanos::from_millis(200);

impl Sim {
    /// Changes the size of the first volume of a node as the control plane does: in one publication.
    ///
    /// # Panics
    /// When the cores do not confirm.
    pub fn resize(&mut self) {
        let seam = self.plan.node.block_size.blocks_in(nearflash_space::GRANULE).0;
        let drawn = self.dice.between(2 * seam + 8, 2 * seam + 40);
        // A size is a multiple of the device's block.
        let unit = self.plan.node.device_block_size().bytes() / self.plan.node.block_size.bytes();
        let blocks = Blocks(drawn.next_multiple_of(u64::from(unit)));
        self.outside.note("resize", &[blocks.0]);
        let id = self.draw_node();
        let volume = id.first_id();
        self.commons[id.0].epochs_change = true;
        self.outside.machine_mut(id).size = None;
        let gained = self.nodes[id.0].blocks(volume)..blocks.0;
        self.zero_gained(volume, gained);
        let number = self.nodes[id.0].resize(volume, blocks, &mut self.outside);
        let is_over = self.run_until(PATIENCE, |sim| sim.nodes[id.0].has_quiesced(number));
        assert!(is_over, "every core takes the volumes, and hosts see the new size");
        let size = (self.outside.tick(), blocks.0);
        self.outside.machine_mut(id).size = Some(size);
    }

    /// Blocks that a volume gains read as zeroes, durably, before a core knows of them.
    fn zero_gained(&mut self, volume: u32, gained: Range<u64>) {
        let sent = Sent { writer: Writer(0), at: self.outside.tick(), durable: true };
        for lba in gained.map(Lba) {
            let node = node_of(volume);
            let piece = self.nodes[node.0].locate(volume, lba);
            let piece = piece.expect("its extents hold the new end");
            let disk = usize::try_from(piece.device.0).expect("few devices");
            self.outside.machine_mut(node).disks[disk].zero(piece.offset, piece.len);
            let copy = self.nodes[node.0].copy_of(disk, piece.offset);
            if let Some((node, disk, offset)) = copy {
                self.outside.machine_mut(node).disks[disk].zero(offset, piece.len);
            }
            let write = self.checks.history.write_sent(Block { volume, lba }, Value::Zero, sent);
            self.checks.history.write_ended(write, Ending::Done, self.outside.tick());
        }
    }

    /// All mirrors get another term, and each core of each node learns it at another time. Then each node
    /// waits until what it has accepted for replicas is on its devices.
    ///
    /// # Panics
    /// When the cores do not confirm.
    pub fn change_terms(&mut self) {
        self.outside.note("terms changed", &[]);
        let outside = &mut self.outside;
        let shown: Vec<u64> =
            self.nodes.iter_mut().map(|node| node.change_terms(outside)).collect();
        self.await_all(&shown);
        let outside = &mut self.outside;
        let drained: Vec<u64> =
            self.nodes.iter_mut().map(|node| node.await_mirrors(outside)).collect();
        self.await_all(&drained);
    }

    /// Waits until all cores of each node have confirmed its number.
    fn await_all(&mut self, numbers: &[u64]) {
        let have_all = |sim: &Self| {
            sim.nodes.iter().zip(numbers).all(|(node, number)| node.has_followed(*number))
        };
        assert!(self.run_until(PATIENCE, have_all), "every core confirms {numbers:?}");
    }

    /// Every core begins to trace one in so many requests.
    pub fn begin_trace(&mut self, every: u32) {
        for node in &self.nodes {
            let order = || Message::Trace(Box::new(TraceOrder::new(0, every, None, 4096)));
            node.tell_all(&mut self.outside, order);
        }
    }

    /// Every core ends its trace. Returns the records of all cores.
    ///
    /// # Panics
    /// When a core does not answer.
    pub fn end_trace(&mut self) -> Vec<Traced> {
        let mut cores = 0;
        for node in &self.nodes {
            cores += usize::from(self.plan.node.cores);
            node.tell_all(&mut self.outside, || Message::EndTrace(0));
        }
        let traced = |sim: &Self| -> Vec<Traced> {
            let notices = sim.outside.notices.iter();
            let traced = |noted: &Noted| match &noted.notice {
                Notice::Traced(_, _, traced) => Some((**traced).clone()),
                _ => None,
            };
            notices.filter_map(traced).collect()
        };
        let all = self.run_until(PATIENCE, |sim| traced(sim).len() == cores);
        assert!(all, "every core returns its records");
        traced(self)
    }

    /// An operator clears the devices that are suspect, with what was volatile on them lost.
    pub(crate) fn clear_suspects(&mut self) {
        let is_known = |sim: &Self, node: &Node| {
            let mut events = sim.outside.machine(node.id).inboxes.iter().flatten();
            events.all(|event| !matches!(event, Event::Device(..)))
        };
        // A failure that a core has not taken yet would come after the operator.
        let is_suspect =
            |sim: &Self, node: &Node| is_known(sim, node) && node.suspects().next().is_some();
        let is_any = |sim: &Self| sim.nodes.iter().any(|node| is_suspect(sim, node));
        if !self.run_until(CLEAR_SPAN, |sim| is_any(sim) || sim.is_work_done()) {
            return;
        }
        for id in self.node_ids() {
            let node = &self.nodes[id.0];
            let suspects: Vec<usize> = node.suspects().filter(|_| is_known(self, node)).collect();
            for disk in suspects {
                self.nodes[id.0].clear(disk);
                let now = self.outside.tick();
                self.outside.note("device cleared", &[]);
                self.outside.failures.cleared(disk_number(id, disk), now);
                self.checks.history.cleared(id, now);
                let clients = self.clients.iter_mut().filter(|client| client.route.node == id);
                clients.for_each(|client| client.owned.cleared(now));
                self.commons[id.0].words.cleared(now);
            }
        }
    }

    /// Tells the nodes to drain, and waits until they have. Hosts may be at work.
    ///
    /// # Panics
    /// When a node does not drain, or keeps a connection or a buffer.
    pub fn drain(&mut self) {
        let what = if self.is_work_done() { "drain" } else { "drain under load" };
        self.outside.note(what, &[]);
        for node in self.node_ids() {
            self.outside.machine_mut(node).is_draining = true;
            self.nodes[node.0].tell_all(&mut self.outside, || Message::Drain);
        }
        let drained = self.run_until(PATIENCE, |sim| sim.nodes.iter().all(Node::has_drained));
        let states: Vec<_> = self.nodes.iter().map(|node| node.confirmed.drained()).collect();
        assert!(drained, "a node is told to drain and does: {states:?}");
        // A connection in transit, to the first core or between cores, is closed on arrival.
        self.run_until(Nanos::from_secs(10), |sim| sim.connections() == 0);
        assert_eq!(self.files.callers_left(), 0, "owners of files hear of each connection's end");
        for (node, machine) in self.nodes.iter().zip(&self.outside.machines) {
            let open: Vec<LinkId> = self.outside.network.open_at(node.id).collect();
            assert!(open.is_empty(), "a drained node has no connections: {open:?}");
            let rings = machine.rings.count();
            assert_eq!(rings, 0, "no memory is shared without a connection");
            let is_whole = node.pools_are_whole();
            assert!(is_whole, "all buffers are back once all connections are gone");
            let in_flight: usize = machine.disks.iter().map(Disk::in_flight).sum();
            assert_eq!(in_flight, 0, "a drained node has nothing on its devices");
        }
    }
}
