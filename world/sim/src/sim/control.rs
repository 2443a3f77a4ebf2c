//! Actions of the control side while hosts are at work: it resizes a volume, or drains the node.

use std::ops::Range;

use nearflash_shard::{Event, Message};
use nearflash_units::{Blocks, Lba, Nanos};

use crate::disk::Disk;
use crate::history::{Block, Ending, Sent};
use crate::network::LinkId;
use crate::sim::{PATIENCE, Sim};
use crate::stamp::{Value, Writer};

/// How long an operator waits for a device to become suspect.
const CLEAR_SPAN: Nanos = Nanos::from_millis(200);

impl Sim {
    /// Changes the size of the first volume as the control plane does: it tells every core first,
    /// and then the hosts.
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
        self.common.epochs_change = true;
        self.outside.size = None;
        let gained = self.node.blocks(0)..blocks.0;
        self.zero_gained(0, gained);
        let number = self.node.resize(0, blocks, &mut self.outside);
        let cores = self.node.core_count();
        assert!(
            self.run_until(PATIENCE, |sim| sim.confirmed.quiesced(number) == cores),
            "every core takes the volumes"
        );
        let number = self.node.export(&mut self.outside);
        let exported = self.run_until(PATIENCE, |sim| {
            let confirmed = &sim.confirmed;
            confirmed.namespaces_since(number) && confirmed.quiesced(number) == cores
        });
        assert!(exported, "hosts see the new size");
        self.export_direct();
        self.node.tell_of_capacity(&mut self.outside);
        self.outside.size = Some((self.outside.tick(), blocks.0));
    }

    /// Blocks that a volume gains read as zeroes, durably, before a core knows of them.
    fn zero_gained(&mut self, volume: u32, gained: Range<u64>) {
        let sent = Sent { writer: Writer(0), at: self.outside.tick(), durable: true };
        for lba in gained.map(Lba) {
            let piece = self.node.locate(volume, lba).expect("its extents hold the new end");
            let disk = usize::try_from(piece.device.0).expect("few devices");
            self.outside.disks[disk].zero(piece.offset, piece.len);
            let write = self.checks.history.write_sent(Block { volume, lba }, Value::Zero, sent);
            self.checks.history.write_ended(write, Ending::Done, self.outside.tick());
        }
    }

    /// An operator clears the devices that are suspect, with what was volatile on them lost.
    pub(crate) fn clear_suspects(&mut self) {
        let is_known = |sim: &Self| {
            sim.outside.inboxes.iter().flatten().all(|event| !matches!(event, Event::Device(..)))
        };
        // A failure that a core has not taken yet would come after the operator.
        let is_suspect = |sim: &Self| is_known(sim) && sim.node.suspects().next().is_some();
        if !self.run_until(CLEAR_SPAN, |sim| is_suspect(sim) || sim.is_work_done()) {
            return;
        }
        let suspects: Vec<usize> = self.node.suspects().filter(|_| is_known(self)).collect();
        for disk in suspects {
            self.node.clear(disk);
            let now = self.outside.tick();
            self.outside.note("device cleared", &[]);
            self.outside.failures.cleared(disk, now);
            self.checks.history.cleared(now);
            self.clients.iter_mut().for_each(|client| client.owned.cleared());
        }
    }

    /// Tells the node to drain, and waits until it has. Hosts may be at work.
    ///
    /// # Panics
    /// When it does not drain, or keeps a connection or a buffer.
    pub fn drain(&mut self) {
        let what = if self.is_work_done() { "drain" } else { "drain under load" };
        self.outside.note(what, &[]);
        self.outside.is_draining = true;
        self.node.tell_all(&mut self.outside, || Message::Drain);
        let cores = self.node.core_count();
        let drained = self.run_until(PATIENCE, |sim| sim.confirmed.drained().len() == cores);
        assert!(drained, "the node is told to drain and does: {:?}", self.confirmed.drained());
        // A connection in transit, to the first core or between cores, is closed on arrival.
        self.run_until(Nanos::from_secs(10), |sim| sim.connections() == 0);
        let open: Vec<LinkId> = self.outside.network.open_at_node().collect();
        assert!(open.is_empty(), "a drained node has no connections: {open:?}");
        assert_eq!(self.outside.rings.count(), 0, "no memory is shared without a connection");
        assert!(self.node.pools_are_whole(), "all buffers are back once all connections are gone");
        let in_flight: usize = self.outside.disks.iter().map(Disk::in_flight).sum();
        assert_eq!(in_flight, 0, "a drained node has nothing on its devices");
    }
}
