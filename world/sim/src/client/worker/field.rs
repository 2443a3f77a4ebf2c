//! A client's requests on the blocks that hosts and initiators share: whole blocks, written and
//! checked as theirs are.

use nearflash_direct::client::ClientOperation;
use nearflash_direct::{Status, segments};

use super::{Client, Pending};
use crate::history::WriteId;
use crate::judge::{Answer, Checks, Io, What};
use crate::outside::Outside;
use crate::stamp::Value;
use crate::workload::{Kind, Run, io};

impl Client {
    /// The next request there.
    pub(super) fn draw_on_field(
        &mut self,
        durable: bool,
        checks: &mut Checks,
        outside: &mut Outside,
    ) -> Option<(Pending, ClientOperation)> {
        let kind = self.workload.draw_kind(&mut self.dice);
        let run = self.workload.hot_run(&mut self.dice);
        let (io, operation) = match kind {
            Kind::Read | Kind::Compare | Kind::Tail => self.read(run, outside)?,
            Kind::Step => {
                let run = self.workload.counter(&mut self.dice);
                self.read(run, outside)?
            }
            Kind::Write => self.write(run, durable, checks, outside)?,
            Kind::Overwrite => self.write(self.workload.overwritten(), durable, checks, outside)?,
            Kind::Zeroes => self.zero(run, durable, checks, outside)?,
            Kind::Advice => self.discard(run, checks, outside)?,
            Kind::Flush => {
                let flush = What::Flush(vec![run.block.volume]);
                (self.io(run, None, flush, outside)?, ClientOperation::Flush)
            }
            Kind::Touch => self.touch(durable, outside)?,
        };
        Some((Pending::Field(io), operation))
    }

    fn io(
        &self,
        run: Run,
        buffer: Option<nearflash_request::BufferId>,
        what: What,
        outside: &mut Outside,
    ) -> Option<Io> {
        Some(io(self.field_asker(run)?, run, buffer, what, outside))
    }

    /// The offset and length of some blocks, in bytes.
    fn place(&self, run: Run) -> (u64, u32) {
        (run.block.lba.0 * self.ground.block_len, self.workload.bytes_len(run))
    }

    fn read(&mut self, run: Run, outside: &mut Outside) -> Option<(Io, ClientOperation)> {
        let (offset, len) = self.place(run);
        self.field_asker(run)?;
        let buffer = self.take(len.into());
        let io = self.io(run, Some(buffer), What::Read, outside)?;
        Some((io, ClientOperation::Read { buffer, offset, len }))
    }

    fn write(
        &mut self,
        run: Run,
        durable: bool,
        checks: &mut Checks,
        outside: &mut Outside,
    ) -> Option<(Io, ClientOperation)> {
        let writer = self.field_asker(run)?.writer;
        let sequence = self.connection.as_mut()?.next_sequence();
        let (stamps, bytes) = self.workload.fill(writer, run, (sequence, 0));
        let values = stamps.into_iter().map(Value::Written).collect();
        let what = self.sent(run, values, durable, checks, outside)?;
        let (offset, len) = self.place(run);
        let buffer = self.connection.as_mut()?.memory.hold(bytes);
        let in_parts = segments::count(offset, len) > 1;
        let io = Io { in_parts, ..self.io(run, Some(buffer), What::Write(what), outside)? };
        Some((io, ClientOperation::Write { buffer, offset, len, durable }))
    }

    fn zero(
        &mut self,
        run: Run,
        durable: bool,
        checks: &mut Checks,
        outside: &mut Outside,
    ) -> Option<(Io, ClientOperation)> {
        let values = run.blocks().map(|_| Value::Zero).collect();
        let what = self.sent(run, values, durable, checks, outside)?;
        let (offset, len) = self.place(run);
        let io = self.io(run, None, What::Write(what), outside)?;
        let io = Io { in_parts: self.is_in_two_runs(io.asker, run), ..io };
        // By the place, and not by the dice: both kinds occur, and other draws stay as they were.
        let deallocate = run.block.lba.0.is_multiple_of(2);
        Some((io, ClientOperation::Zero { offset, len, deallocate, durable }))
    }

    fn sent(
        &self,
        run: Run,
        values: Vec<Value>,
        durable: bool,
        checks: &mut Checks,
        outside: &mut Outside,
    ) -> Option<Vec<WriteId>> {
        let by = self.field_asker(run)?.sends(outside.tick(), durable);
        let sent = |(block, value)| checks.history.write_sent(block, value, by);
        Some(run.blocks().zip(values).map(sent).collect())
    }

    fn discard(
        &mut self,
        run: Run,
        checks: &mut Checks,
        outside: &mut Outside,
    ) -> Option<(Io, ClientOperation)> {
        let values = run.blocks().map(|_| Value::Zero).collect();
        let what = self.sent(run, values, false, checks, outside)?;
        let (offset, len) = self.place(run);
        let io = self.io(run, None, What::Advice(what), outside)?;
        Some((io, ClientOperation::Discard { offset, len }))
    }

    /// Adds zero to a word. The block keeps its content, even if others write it meanwhile.
    fn touch(&mut self, durable: bool, outside: &mut Outside) -> Option<(Io, ClientOperation)> {
        let run = self.workload.one_block(&mut self.dice);
        let (offset, len) = self.place(run);
        let io = self.io(run, None, What::Touch, outside)?;
        outside.witness.touches(run.block, io.asker.writer);
        let offset = offset + 8 * self.dice.between(0, u64::from(len / 8) - 1);
        Some((io, ClientOperation::FetchAdd { offset, addend: 0, durable }))
    }
}

impl Answer {
    /// The answer that corresponds to a status of a direct request.
    pub(crate) fn of_direct(status: Status) -> Self {
        match status {
            Status::OK => Self::Done,
            Status::RESERVED => Self::Conflict,
            Status::NOT_GRANTED | Status::NO_SUCH_VOLUME => Self::NotLetIn,
            Status::STALE_EPOCH => Self::Stale,
            Status::UNRECOVERED_READ
            | Status::WRITE_FAULT
            | Status::CAPACITY_EXCEEDED
            | Status::DEVICE_UNAVAILABLE => Self::DeviceFailed,
            status => Self::Unexpected(status.0.into()),
        }
    }
}
