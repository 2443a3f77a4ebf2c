//! The commands of working initiators: the same operations as NVMe/TCP hosts', on the same blocks,
//! as SCSI commands.

use nearflash_iscsi::initiator::CommandData;
use nearflash_iscsi::initiator::cdb::{self, Cdb, FORCE_UNIT_ACCESS};

use crate::Dice;
use crate::initiator::connection::{Connection, Task};
use crate::judge::{Checks, Io, StepState, What};
use crate::outside::Outside;
use crate::stamp::Value;
use crate::workload::{Kind, Run, Workload, io};

/// ORWRITE (16).
const ORWRITE: u8 = 0x8B;
/// VERIFY (16) with the expected data.
const VERIFY: u8 = 0x8F;
const COMPARE_BYTES: u8 = 1 << 1;

/// One command of an initiator: its destination and parameters common to all commands.
pub(crate) struct Begin<'a> {
    pub(crate) connection: &'a mut Connection,
    pub(crate) dice: &'a mut Dice,
    pub(crate) checks: &'a mut Checks,
    pub(crate) outside: &'a mut Outside,
}

fn lun(run: Run) -> u16 {
    u16::try_from(run.nsid.0 - 1).expect("few namespaces")
}

fn count(run: Run) -> u32 {
    u32::try_from(run.count).expect("commands are bounded")
}

impl Begin<'_> {
    /// Submits one command of the workload's mix; there is room.
    pub(crate) fn work(mut self, workload: &mut Workload) {
        let kind = workload.draw_kind(self.dice);
        let run = workload.hot_run(self.dice);
        match kind {
            Kind::Read => self.read(workload, run),
            Kind::Write => self.write(workload, run),
            Kind::Zeroes => self.zeroes(workload, run),
            Kind::Advice => self.unmap(run),
            Kind::Flush => self.flush(run),
            Kind::Compare => self.compare(workload, Run { count: 1, ..run }),
            Kind::Step => self.step(workload),
            Kind::Overwrite => self.write(workload, workload.overwritten()),
            Kind::Touch => self.touch(workload),
            Kind::Tail => self.tail(workload),
        }
    }

    fn io(&mut self, run: Run, buffer: Option<nearflash_request::BufferId>, what: What) -> Io {
        io(self.connection.asker, run, buffer, what, self.outside)
    }

    fn submit(&mut self, run: Run, cdb: &Cdb, data: CommandData, io: Io) {
        self.connection.submit(lun(run), cdb, data, Task::Io(io));
    }

    fn sent(&mut self, run: Run, values: impl Iterator<Item = Value>, durable: bool) -> What {
        let now = self.outside.tick();
        let (history, by) = (&mut self.checks.history, self.connection.asker.sends(now, durable));
        let sent = |(block, value)| history.write_sent(block, value, by);
        What::Write(run.blocks().zip(values).map(sent).collect())
    }

    fn read(&mut self, workload: &Workload, run: Run) {
        let len = workload.bytes_len(run);
        let buffer =
            self.connection.memory.take(usize::try_from(len).expect("commands are bounded"));
        let io = self.io(run, Some(buffer), What::Read);
        let cdb = cdb::read(run.block.lba.0, count(run));
        self.submit(run, &cdb, CommandData::Incoming { buffer, len }, io);
    }

    fn write(&mut self, workload: &Workload, run: Run) {
        let durable = self.dice.permille(250);
        let sequence = self.connection.next_sequence();
        let (stamps, bytes) = workload.fill(self.connection.asker.writer, run, (sequence, 0));
        let what = self.sent(run, stamps.into_iter().map(Value::Written), durable);
        let flags = if durable { FORCE_UNIT_ACCESS } else { 0 };
        let len = workload.bytes_len(run);
        let buffer = self.connection.memory.hold(bytes);
        let io = self.io(run, Some(buffer), what);
        let cdb = cdb::write(flags, run.block.lba.0, count(run));
        self.submit(run, &cdb, CommandData::Outgoing { buffer, len }, io);
    }

    /// WRITE SAME, with a block of zeroes.
    fn zeroes(&mut self, workload: &Workload, run: Run) {
        let what = self.sent(run, std::iter::repeat(Value::Zero), false);
        let len = workload.bytes_len(Run { count: 1, ..run });
        let block = vec![0; usize::try_from(len).expect("a block")];
        let buffer = self.connection.memory.hold(block);
        let io = self.io(run, Some(buffer), what);
        let cdb = cdb::write_same(self.dice.coin(), run.block.lba.0, count(run));
        self.submit(run, &cdb, CommandData::Outgoing { buffer, len }, io);
    }

    /// UNMAP: released blocks read as zeroes, as the unit reports (LBPRZ). Sends two ranges, the
    /// second perhaps empty.
    fn unmap(&mut self, run: Run) {
        let what = self.sent(run, std::iter::repeat(Value::Zero), false);
        let half = count(run).div_ceil(2);
        let start = run.block.lba.0;
        let ranges = [(start, half), (start + u64::from(half), count(run) - half)];
        let (cdb, parameters) = cdb::unmap(&ranges);
        let io = self.io(run, None, what);
        self.submit(run, &cdb, CommandData::SmallOutgoing(parameters), io);
    }

    fn flush(&mut self, run: Run) {
        let io = self.io(run, None, What::Flush(vec![run.block.volume]));
        self.submit(run, &cdb::synchronize_cache(), CommandData::None, io);
    }

    /// Compares a block with what the host last read, if it has read the block.
    fn compare(&mut self, workload: &Workload, run: Run) {
        let Some(bytes) = workload.known.get(&run.block).cloned() else {
            return self.read(workload, run);
        };
        let len = workload.bytes_len(run);
        let value = Value::of(&bytes);
        let buffer = self.connection.memory.hold(bytes);
        let io = self.io(run, Some(buffer), What::Compare(value));
        let mut cdb = cdb::read(run.block.lba.0, 1);
        (cdb[0], cdb[1]) = (VERIFY, COMPARE_BYTES);
        self.submit(run, &cdb, CommandData::Outgoing { buffer, len }, io);
    }

    /// Increments a counter from the value that the host last read; reads first if it has not.
    fn step(&mut self, workload: &mut Workload) {
        let run = workload.counter(self.dice);
        let block = run.block;
        let Some(mut bytes) = workload.known.remove(&block) else {
            return self.read(workload, run);
        };
        let from = Value::of(&bytes);
        let sequence = self.connection.next_sequence();
        let asker = self.connection.asker;
        let (stamps, fresh) = workload.fill(asker.writer, run, (sequence, from.count() + 1));
        let (to, sent) = (stamps[0], self.outside.tick());
        let durable = self.dice.permille(250);
        let by = asker.sends(sent, durable);
        let write = self.checks.history.write_sent(block, Value::Written(to), by);
        self.checks.increments.sent(block, from, to);
        let state = StepState { block, from, to, write, sent, asker, first: None, second: None };
        bytes.extend_from_slice(&fresh);
        let len = u32::try_from(bytes.len()).expect("two blocks");
        let buffer = self.connection.memory.hold(bytes);
        let flags = if durable { FORCE_UNIT_ACCESS } else { 0 };
        let cdb = cdb::compare_and_write(flags, block.lba.0, 1);
        let data = CommandData::Outgoing { buffer, len };
        self.connection.submit(lun(run), &cdb, data, Task::Step(state, buffer));
    }

    /// ORWRITE of zeroes: the block keeps its content, even if others write it meanwhile.
    fn touch(&mut self, workload: &Workload) {
        let run = workload.one_block(self.dice);
        let len = workload.bytes_len(run);
        let zeroes = vec![0; usize::try_from(len).expect("a block")];
        let buffer = self.connection.memory.hold(zeroes);
        self.outside.witness.touches(run.block, self.connection.asker.writer);
        let io = self.io(run, Some(buffer), What::Touch);
        let mut cdb = cdb::read(run.block.lba.0, 1);
        cdb[0] = ORWRITE;
        self.submit(run, &cdb, CommandData::Outgoing { buffer, len }, io);
    }

    /// Reads or writes around the end of a volume that changes its size.
    fn tail(&mut self, workload: &Workload) {
        let run = workload.tail_run(self.dice);
        self.read(workload, run);
    }
}
