//! What working hosts do: a few blocks that all of them want at once.

use nearflash_nvme::{Command, DsmRange, Fused, NamespaceId};
use nearflash_nvme_tcp::host::HostData;
use nearflash_request::BlockRange;
use nearflash_units::{BlockSize, Blocks, Lba};
use zerocopy::IntoBytes;

use crate::Dice;
use crate::history::Block;
use crate::host::pending::{Asker, Checks, Io, Pending, Seen, StepId, StepState, What};
use crate::host::queue::Queue;
use crate::outside::Outside;
use crate::stamp::{Stamp, Value, Writer};

/// Where hosts work.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) block_size: BlockSize,
    /// Volumes by number, and their namespaces.
    pub(crate) volumes: Vec<(u32, NamespaceId)>,
    /// Blocks that everybody wants; two extents meet in the middle.
    pub(crate) hot: (u64, u64),
    /// Blocks in which hosts count: the first by compare-and-write alone, the second is overwritten
    /// now and then.
    pub(crate) counters: [u64; 2],
    /// Blocks of the first volume that come and go.
    pub(crate) tail: (u64, u64),
    /// The longest command.
    pub(crate) blocks_max: u64,
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

/// How often each kind of command comes, in relation to the others.
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
    /// Steps of a counter, by compare-and-write.
    pub steps: u32,
    /// Other writes to a block in which hosts count.
    pub overwrites: u32,
    /// What reads a block and writes it back as it is: ORs of zeroes, additions of zero. By the doors
    /// that have such a thing; others read.
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

    /// From the seed: each kind as usual, or never, or less, or more.
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

/// What one host knows and wants.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) mix: Mix,
    pub(crate) field: Field,
    /// What blocks held when this host last read them.
    pub(crate) known: std::collections::BTreeMap<Block, Vec<u8>>,
}

/// Some blocks of a volume.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) block: Block,
    pub(crate) nsid: NamespaceId,
    pub(crate) count: u64,
}

impl Run {
    fn zero_based(self) -> u16 {
        u16::try_from(self.count - 1).expect("commands are bounded")
    }

    pub(crate) fn blocks(self) -> impl Iterator<Item = Block> {
        let Block { volume, lba } = self.block;
        (lba.0..lba.0 + self.count).map(move |lba| Block { volume, lba: Lba(lba) })
    }
}

impl Workload {
    /// What was read is known.
    pub(crate) fn learn(&mut self, seen: Seen) {
        let of_interest = |block: &Block| {
            let (start, end) = self.field.hot;
            (start..end).contains(&block.lba.0) || self.field.counters.contains(&block.lba.0)
        };
        self.known.extend(seen.into_iter().filter(|(block, _)| of_interest(block)));
    }

    /// Submits one command, or the two of a compare-and-write: there is room for two.
    pub(crate) fn begin(
        &mut self,
        queue: &mut Queue,
        dice: &mut Dice,
        checks: &mut Checks,
        outside: &mut Outside,
    ) {
        match self.draw_kind(dice) {
            Kind::Read | Kind::Touch => self.read(queue, self.hot_run(dice), false, outside),
            Kind::Write => self.write(queue, self.hot_run(dice), dice, checks, outside),
            Kind::Zeroes => self.zeroes(queue, self.hot_run(dice), dice, checks, outside),
            Kind::Advice => self.advise(queue, self.hot_run(dice), checks, outside),
            Kind::Flush => self.flush(queue, dice, outside),
            Kind::Compare => self.compare(queue, self.hot_run(dice), outside),
            Kind::Step => self.step(queue, dice, checks, outside),
            Kind::Overwrite => self.overwrite(queue, dice, checks, outside),
            Kind::Tail => self.tail(queue, dice, outside),
        }
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
        // Mostly short, sometimes as long as can be; a long one begins far before the hot blocks.
        let count_max = dice.pick(&[1, 2, 4, 4, 16, self.field.blocks_max]);
        let count = dice.between(1, count_max.min(self.field.blocks_max));
        let last = dice.between(start, end - 1);
        let first = (last + 1).saturating_sub(count);
        Run { block: Block { volume, lba: Lba(first) }, nsid, count }
    }

    /// A block in which hosts count.
    pub(crate) fn counter(&self, dice: &mut Dice) -> Run {
        let (volume, nsid) = self.field.volumes[0];
        let block = Block { volume, lba: Lba(dice.pick(&self.field.counters)) };
        Run { block, nsid, count: 1 }
    }

    /// The counter that is overwritten now and then.
    pub(crate) fn overwritten(&self) -> Run {
        let (volume, nsid) = self.field.volumes[0];
        let block = Block { volume, lba: Lba(self.field.counters[1]) };
        Run { block, nsid, count: 1 }
    }

    /// One that everybody wants, of any kind.
    pub(crate) fn one_block(&self, dice: &mut Dice) -> Run {
        if dice.coin() { self.counter(dice) } else { Run { count: 1, ..self.hot_run(dice) } }
    }

    pub(crate) fn bytes_len(&self, run: Run) -> u32 {
        let len = self.field.block_size.len(Blocks(run.count)).expect("commands are bounded");
        u32::try_from(len.0).expect("commands are bounded")
    }

    fn read(&self, queue: &mut Queue, run: Run, in_tail: bool, outside: &mut Outside) {
        let len = self.bytes_len(run);
        let buffer = queue.memory.take(usize::try_from(len).expect("commands are bounded"));
        let command = Command::read(run.nsid, run.block.lba, run.zero_based(), len);
        let io = io(queue.asker, run, Some(buffer), What::Read, outside);
        let pending = Pending::Io(Io { in_tail, ..io });
        queue.submit(&command, HostData::ToHost { buffer, len }, pending);
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

    fn write(
        &self,
        queue: &mut Queue,
        run: Run,
        dice: &mut Dice,
        checks: &mut Checks,
        outside: &mut Outside,
    ) {
        let durable = dice.permille(250);
        let sequence = queue.next_sequence();
        let (stamps, bytes) = self.fill(queue.asker.writer, run, (sequence, 0));
        let now = outside.tick();
        let (history, by) = (&mut checks.history, queue.asker.sends(now, durable));
        let sent = |(block, stamp)| history.write_sent(block, Value::Written(stamp), by);
        let writes = run.blocks().zip(stamps).map(sent).collect();
        let mut command = Command::write(run.nsid, run.block.lba, run.zero_based(), 0);
        if durable {
            command = command.with_force_unit_access();
        }
        let len = self.bytes_len(run);
        let buffer = queue.memory.hold(bytes);
        let pending = Pending::Io(io(queue.asker, run, Some(buffer), What::Write(writes), outside));
        queue.submit(&command, HostData::FromHost { buffer, len }, pending);
    }

    fn zeroes(
        &self,
        queue: &mut Queue,
        run: Run,
        dice: &mut Dice,
        checks: &mut Checks,
        outside: &mut Outside,
    ) {
        let durable = dice.permille(250);
        let now = outside.tick();
        let (history, by) = (&mut checks.history, queue.asker.sends(now, durable));
        let sent = |block| history.write_sent(block, Value::Zero, by);
        let writes = run.blocks().map(sent).collect();
        let mut command = Command::write_zeroes(run.nsid, run.block.lba, run.zero_based());
        if durable {
            command = command.with_force_unit_access();
        }
        if dice.coin() {
            command = command.with_deallocate();
        }
        let pending = Pending::Io(io(queue.asker, run, None, What::Write(writes), outside));
        queue.submit(&command, HostData::None, pending);
    }

    /// As two ranges, the second perhaps empty.
    fn advise(&self, queue: &mut Queue, run: Run, checks: &mut Checks, outside: &mut Outside) {
        let now = outside.tick();
        let (history, by) = (&mut checks.history, queue.asker.sends(now, false));
        let sent = |block| history.write_sent(block, Value::Zero, by);
        let writes = run.blocks().map(sent).collect();
        let half = run.count.div_ceil(2);
        let ranges = [(run.block.lba.0, half), (run.block.lba.0 + half, run.count - half)];
        let ranges = ranges.map(|(start, count)| {
            let range = BlockRange { start: Lba(start), count: Blocks(count) };
            DsmRange::from_range(range).expect("commands are bounded")
        });
        let data = HostData::SmallFromHost(ranges.as_bytes().to_vec());
        let pending = Pending::Io(io(queue.asker, run, None, What::Advice(writes), outside));
        queue.submit(&Command::deallocate(run.nsid, 1), data, pending);
    }

    fn flush(&self, queue: &mut Queue, dice: &mut Dice, outside: &mut Outside) {
        let (volume, nsid) = self.field.volumes[dice.index(self.field.volumes.len())];
        let all = dice.permille(300);
        let volumes = self.field.volumes.iter().map(|(volume, _)| *volume);
        let flushed = if all { volumes.collect() } else { vec![volume] };
        let command = Command::flush(if all { NamespaceId::ALL } else { nsid });
        let run = Run { block: Block { volume, lba: Lba(0) }, nsid, count: 1 };
        let pending = Pending::Io(io(queue.asker, run, None, What::Flush(flushed), outside));
        queue.submit(&command, HostData::None, pending);
    }

    /// With what the host last read, if it has read the block.
    fn compare(&self, queue: &mut Queue, run: Run, outside: &mut Outside) {
        let run = Run { count: 1, ..run };
        let Some(bytes) = self.known.get(&run.block).cloned() else {
            return self.read(queue, run, false, outside);
        };
        let len = self.bytes_len(run);
        let value = Value::of(&bytes);
        let buffer = queue.memory.hold(bytes);
        let command = Command::compare(run.nsid, run.block.lba, 0, len);
        let pending =
            Pending::Io(io(queue.asker, run, Some(buffer), What::Compare(value), outside));
        queue.submit(&command, HostData::FromHost { buffer, len }, pending);
    }

    /// Counts one further, from what the host last read; it reads first if it has not.
    fn step(
        &mut self,
        queue: &mut Queue,
        dice: &mut Dice,
        checks: &mut Checks,
        outside: &mut Outside,
    ) {
        let run = self.counter(dice);
        let Run { block, nsid, .. } = run;
        let Some(bytes) = self.known.remove(&block) else {
            return self.read(queue, run, false, outside);
        };
        let from = Value::of(&bytes);
        let sequence = queue.next_sequence();
        let (stamps, fresh) = self.fill(queue.asker.writer, run, (sequence, from.count() + 1));
        let (to, durable) = (stamps[0], dice.permille(250));
        let sent = outside.tick();
        let asker = queue.asker;
        let by = asker.sends(sent, durable);
        let write = checks.history.write_sent(block, Value::Written(to), by);
        checks.increments.sent(block, from, to);
        let state = StepState { block, from, to, write, sent, asker, first: None, second: None };
        let id = StepId(sequence);
        queue.steps.insert(id, state);
        let len = self.bytes_len(run);
        let compare = Command::compare(nsid, block.lba, 0, len).with_fused(Fused::First);
        let mut second = Command::write(nsid, block.lba, 0, len).with_fused(Fused::Second);
        if durable {
            second = second.with_force_unit_access();
        }
        for (command, bytes, what) in
            [(compare, bytes, What::StepCompare(id)), (second, fresh, What::StepWrite(id))]
        {
            let buffer = queue.memory.hold(bytes);
            let pending = Pending::Io(io(queue.asker, run, Some(buffer), what, outside));
            queue.submit(&command, HostData::FromHost { buffer, len }, pending);
        }
    }

    /// Writes over a counter, whoever counts there.
    fn overwrite(
        &self,
        queue: &mut Queue,
        dice: &mut Dice,
        checks: &mut Checks,
        outside: &mut Outside,
    ) {
        let run = self.overwritten();
        match dice.between(0, 3) {
            0 => self.zeroes(queue, run, dice, checks, outside),
            1 => self.advise(queue, run, checks, outside),
            _ => self.write(queue, run, dice, checks, outside),
        }
    }

    /// Around the end of a volume that changes its size. What is written there is not judged.
    fn tail(&self, queue: &mut Queue, dice: &mut Dice, outside: &mut Outside) {
        let (volume, nsid) = self.field.volumes[0];
        let (start, end) = self.field.tail;
        let block = Block { volume, lba: Lba(dice.between(start, end)) };
        let run = Run { block, nsid, count: dice.between(1, 3) };
        if dice.coin() {
            return self.read(queue, run, true, outside);
        }
        let sequence = queue.next_sequence();
        let (_, bytes) = self.fill(queue.asker.writer, run, (sequence, 0));
        let len = self.bytes_len(run);
        let buffer = queue.memory.hold(bytes);
        let command = Command::write(nsid, block.lba, run.zero_based(), len);
        let io = io(queue.asker, run, Some(buffer), What::Write(Vec::new()), outside);
        let pending = Pending::Io(Io { in_tail: true, ..io });
        queue.submit(&command, HostData::FromHost { buffer, len }, pending);
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
    Io { asker, sent, first, buffer, in_tail: false, in_parts: false, what }
}
