//! The workload on the blocks that the hosts and initiators of all protocols share.

use nearflash_nvme::NamespaceId;
use nearflash_units::{BlockSize, Blocks, Lba};

use crate::Dice;
use crate::history::Block;
use crate::judge::{Asker, Io, Seen, What};
use crate::outside::Outside;
use crate::stamp::{Stamp, Writer};

/// The blocks that hosts work on.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) block_size: BlockSize,
    /// The volumes' numbers, and their namespaces.
    pub(crate) volumes: Vec<(u32, NamespaceId)>,
    /// Hot blocks, which all peers use; two extents meet in the middle.
    pub(crate) hot: (u64, u64),
    /// Counter blocks: the first is changed by compare-and-write only, the second is sometimes
    /// overwritten.
    pub(crate) counters: [u64; 2],
    /// Blocks of the first volume that come and go as its size changes.
    pub(crate) tail: (u64, u64),
    /// The shortest read or write, and the longest.
    pub(crate) blocks: (u64, u64),
}

/// A kind of command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    Read,
    Write,
    Zeroes,
    Advice,
    Flush,
    Compare,
    Step,
    Overwrite,
    Touch,
    Tail,
}

/// The relative frequency of each kind of command.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Mix {
    /// Reads.
    pub reads: u32,
    /// Writes, some with force unit access.
    pub writes: u32,
    /// Write Zeroes, some with force unit access, some that deallocate.
    pub zeroes: u32,
    /// Deallocations.
    pub deallocations: u32,
    /// Flushes of one volume or of all.
    pub flushes: u32,
    /// Compares with what was last read.
    pub compares: u32,
    /// Increments of a counter, by compare-and-write.
    pub steps: u32,
    /// Other writes to a counter block.
    pub overwrites: u32,
    /// Commands that rewrite a block with its own content: ORs of zeroes, additions of zero.
    /// Protocols without such a command read instead.
    pub touches: u32,
    /// Reads and writes around the end of a volume that changes its size.
    pub tails: u32,
}

impl Mix {
    /// Some of everything.
    pub const USUAL: Self = Self {
        reads: 30,
        writes: 30,
        zeroes: 6,
        deallocations: 4,
        flushes: 8,
        compares: 4,
        steps: 12,
        overwrites: 4,
        touches: 6,
        tails: 4,
    };

    /// Drawn from the seed: each kind at its usual rate, or never, or less often, or more often.
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        let usual = Self::USUAL;
        let mut draw = |weight: u32| weight * dice.pick(&[1, 1, 1, 0, 1, 4]);
        Self {
            reads: draw(usual.reads).max(5),
            writes: draw(usual.writes),
            zeroes: draw(usual.zeroes),
            deallocations: draw(usual.deallocations),
            flushes: draw(usual.flushes),
            compares: draw(usual.compares),
            steps: draw(usual.steps),
            overwrites: draw(usual.overwrites),
            touches: draw(usual.touches),
            tails: draw(usual.tails),
        }
    }

    fn weights(&self) -> [(Kind, u32); 10] {
        [
            (Kind::Read, self.reads),
            (Kind::Write, self.writes),
            (Kind::Zeroes, self.zeroes),
            (Kind::Advice, self.deallocations),
            (Kind::Flush, self.flushes),
            (Kind::Compare, self.compares),
            (Kind::Step, self.steps),
            (Kind::Overwrite, self.overwrites),
            (Kind::Touch, self.touches),
            (Kind::Tail, self.tails),
        ]
    }
}

/// The knowledge and the plan of one host.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) mix: Mix,
    pub(crate) field: Field,
    /// The content of blocks when this host last read them.
    pub(crate) known: std::collections::BTreeMap<Block, Vec<u8>>,
}

/// Some blocks of a volume.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) block: Block,
    pub(crate) nsid: NamespaceId,
    pub(crate) count: u64,
    /// Blocks around the end of a volume that changes its size.
    pub(crate) in_tail: bool,
}

impl Run {
    pub(crate) fn blocks(self) -> impl Iterator<Item = Block> {
        let Block { volume, lba } = self.block;
        (lba.0..lba.0 + self.count).map(move |lba| Block { volume, lba: Lba(lba) })
    }
}

impl Workload {
    /// Remembers the content that was read.
    pub(crate) fn learn(&mut self, seen: Seen) {
        let of_interest = |block: &Block| {
            let (start, end) = self.field.hot;
            (start..end).contains(&block.lba.0) || self.field.counters.contains(&block.lba.0)
        };
        self.known.extend(seen.into_iter().filter(|(block, _)| of_interest(block)));
    }

    pub(crate) fn draw_kind(&self, dice: &mut Dice) -> Kind {
        let weights = self.mix.weights();
        let total: u32 = weights.iter().map(|(_, weight)| weight).sum();
        let mut left = dice.between(0, u64::from(total.max(1)) - 1);
        for (kind, weight) in weights {
            match left.checked_sub(u64::from(weight)) {
                Some(rest) => left = rest,
                None => return kind,
            }
        }
        Kind::Read
    }

    pub(crate) fn hot_run(&self, dice: &mut Dice) -> Run {
        let (start, end) = self.field.hot;
        let (volume, nsid) = self.field.volumes[dice.index(self.field.volumes.len())];
        // Mostly short, sometimes of maximum length; a long one begins far before the hot blocks.
        let (least, most) = self.field.blocks;
        let count_max = dice.pick(&[1, 2, 4, 4, 16, most]);
        let count = dice.between(1, count_max.min(most)).max(least);
        let last = dice.between(start, end - 1);
        let first = (last + 1).saturating_sub(count);
        Run { block: Block { volume, lba: Lba(first) }, nsid, count, in_tail: false }
    }

    /// A counter block.
    pub(crate) fn counter(&self, dice: &mut Dice) -> Run {
        let (volume, nsid) = self.field.volumes[0];
        let block = Block { volume, lba: Lba(dice.pick(&self.field.counters)) };
        Run { block, nsid, count: 1, in_tail: false }
    }

    /// The counter that is sometimes overwritten.
    pub(crate) fn overwritten(&self) -> Run {
        let (volume, nsid) = self.field.volumes[0];
        let block = Block { volume, lba: Lba(self.field.counters[1]) };
        Run { block, nsid, count: 1, in_tail: false }
    }

    /// Some blocks around the end of the volume that changes its size.
    pub(crate) fn tail_run(&self, dice: &mut Dice) -> Run {
        let (volume, nsid) = self.field.volumes[0];
        let (start, end) = self.field.tail;
        let block = Block { volume, lba: Lba(dice.between(start, end)) };
        Run { block, nsid, count: dice.between(1, 3), in_tail: true }
    }

    /// Any of the hot blocks.
    pub(crate) fn one_block(&self, dice: &mut Dice) -> Run {
        if dice.coin() { self.counter(dice) } else { Run { count: 1, ..self.hot_run(dice) } }
    }

    pub(crate) fn bytes_len(&self, run: Run) -> u32 {
        let len = self.field.block_size.len(Blocks(run.count)).expect("commands are bounded");
        u32::try_from(len.0).expect("commands are bounded")
    }

    /// The bytes of a write, each block stamped.
    pub(crate) fn fill(
        &self,
        writer: Writer,
        run: Run,
        (sequence, count): (u32, u32),
    ) -> (Vec<Stamp>, Vec<u8>) {
        let len = usize::try_from(self.bytes_len(run)).expect("commands are bounded");
        let mut bytes = vec![0; len];
        let block_len = len / usize::try_from(run.count).expect("commands are bounded");
        let mut stamps = Vec::new();
        for (block, place) in run.blocks().zip(bytes.chunks_exact_mut(block_len)) {
            let Block { volume, lba } = block;
            let stamp = Stamp { volume, lba, writer, sequence, count };
            stamp.write(place);
            stamps.push(stamp);
        }
        (stamps, bytes)
    }
}

pub(crate) fn io(
    asker: Asker,
    run: Run,
    buffer: Option<nearflash_request::BufferId>,
    what: What,
    outside: &mut Outside,
) -> Io {
    let (sent, first) = (outside.tick(), run.block);
    let began = outside.now;
    Io {
        asker,
        sent,
        began,
        first,
        buffer,
        in_tail: run.in_tail,
        in_parts: false,
        repeats: Vec::new(),
        what,
    }
}
