//! The NVMe commands of working hosts on the shared blocks.

use nearflash_nvme::{Command, DsmRange, Fused, NamespaceId};
use nearflash_nvme_tcp::host::CommandData;
use nearflash_request::BlockRange;
use nearflash_units::{Blocks, Lba};
use zerocopy::IntoBytes;

use crate::Dice;
use crate::history::{Block, WriteId};
use crate::host::pending::Pending;
use crate::host::queue::Queue;
use crate::judge::{Checks, Io, StepId, StepState, What};
use crate::node::node_of;
use crate::outside::Outside;
use crate::stamp::Value;
use crate::workload::{Kind, Run, Workload, io};

impl Run {
    fn zero_based(self) -> u16 {
        u16::try_from(self.count - 1).expect("commands are bounded")
    }
}

impl Workload {
    /// Submits one command, or the two of a compare-and-write: there is room for two.
    pub(crate) fn begin(
        &mut self,
        queue: &mut Queue,
        dice: &mut Dice,
        checks: &mut Checks,
        outside: &mut Outside,
    ) {
        match self.draw_kind(dice) {
            Kind::Read | Kind::Touch => self.read(queue, self.hot_run(dice), outside),
            Kind::Write => self.write(queue, self.hot_run(dice), dice, checks, outside),
            Kind::Zeroes => self.zeroes(queue, self.hot_run(dice), dice, checks, outside),
            Kind::Advice => self.advise(queue, self.hot_run(dice), checks, outside),
            Kind::Flush => self.flush(queue, dice, outside),
            Kind::Compare => self.compare(queue, self.hot_run(dice), outside),
            Kind::Step => self.step(queue, dice, checks, outside),
            Kind::Overwrite => self.overwrite(queue, dice, checks, outside),
            Kind::Tail => self.tail(queue, dice, checks, outside),
        }
    }

    fn read(&self, queue: &mut Queue, run: Run, outside: &mut Outside) {
        let len = self.bytes_len(run);
        let buffer = queue.memory.take(usize::try_from(len).expect("commands are bounded"));
        let command = Command::read(run.nsid, run.block.lba, run.zero_based(), len);
        let pending = Pending::Io(io(queue.asker, run, Some(buffer), What::Read, outside));
        queue.submit(&command, CommandData::Incoming { buffer, len }, pending);
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
        queue.submit(&command, CommandData::Outgoing { buffer, len }, pending);
    }

    /// Repeats a write that was not answered over another path.
    pub(crate) fn repeat(
        &self,
        queue: &mut Queue,
        (run, lost): (Run, Vec<WriteId>),
        checks: &mut Checks,
        outside: &mut Outside,
    ) {
        let sequence = queue.next_sequence();
        let (stamps, bytes) = self.fill(queue.asker.writer, run, (sequence, 0));
        let now = outside.tick();
        let (history, by) = (&mut checks.history, queue.asker.sends(now, false));
        let sent = |(block, stamp)| history.write_sent(block, Value::Written(stamp), by);
        let writes = run.blocks().zip(stamps).map(sent).collect();
        let command = Command::write(run.nsid, run.block.lba, run.zero_based(), 0);
        let len = self.bytes_len(run);
        let buffer = queue.memory.hold(bytes);
        let io = io(queue.asker, run, Some(buffer), What::Write(writes), outside);
        let pending = Pending::Io(Io { repeats: lost, ..io });
        queue.submit(&command, CommandData::Outgoing { buffer, len }, pending);
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
        queue.submit(&command, CommandData::None, pending);
    }

    /// Deallocates a range as two ranges, the second perhaps empty.
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
        let data = CommandData::SmallOutgoing(ranges.as_bytes().to_vec());
        let pending = Pending::Io(io(queue.asker, run, None, What::Advice(writes), outside));
        queue.submit(&Command::deallocate(run.nsid, 1), data, pending);
    }

    fn flush(&self, queue: &mut Queue, dice: &mut Dice, outside: &mut Outside) {
        let (volume, nsid) = self.field.volumes[dice.index(self.field.volumes.len())];
        let all = dice.permille(300);
        let volumes = self.field.volumes.iter().map(|(volume, _)| *volume);
        // All volumes of the subsystem, of which hosts do not write the one that direct clients share.
        // It is not among the volumes of another node.
        let is_near = outside.witness.over(queue.asker.writer).is_none();
        let shared = is_near.then(|| node_of(volume).shared_id());
        let flushed = if all { volumes.chain(shared).collect() } else { vec![volume] };
        let command = Command::flush(if all { NamespaceId::ALL } else { nsid });
        let block = Block { volume, lba: Lba(0) };
        let run = Run { block, nsid, count: 1, in_tail: false };
        let pending = Pending::Io(io(queue.asker, run, None, What::Flush(flushed), outside));
        queue.submit(&command, CommandData::None, pending);
    }

    /// Compares a block with what the host last read, if it has read the block.
    fn compare(&self, queue: &mut Queue, run: Run, outside: &mut Outside) {
        let run = Run { count: 1, ..run };
        let Some(bytes) = self.known.get(&run.block).cloned() else {
            return self.read(queue, run, outside);
        };
        let len = self.bytes_len(run);
        let value = Value::of(&bytes);
        let buffer = queue.memory.hold(bytes);
        let command = Command::compare(run.nsid, run.block.lba, 0, len);
        let pending =
            Pending::Io(io(queue.asker, run, Some(buffer), What::Compare(value), outside));
        queue.submit(&command, CommandData::Outgoing { buffer, len }, pending);
    }

    /// Increments a counter from the value that the host last read; reads first if it has not.
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
            return self.read(queue, run, outside);
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
            queue.submit(&command, CommandData::Outgoing { buffer, len }, pending);
        }
    }

    /// Overwrites a counter, regardless of other hosts.
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

    /// Reads or writes around the end of a volume that changes its size.
    fn tail(&self, queue: &mut Queue, dice: &mut Dice, checks: &mut Checks, outside: &mut Outside) {
        let run = self.tail_run(dice);
        match dice.coin() {
            true => self.read(queue, run, outside),
            false => self.write(queue, run, dice, checks, outside),
        }
    }
}
