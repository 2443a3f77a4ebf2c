//! From a command to its PDU, with as much unsolicited data as allowed.
//!
//! Spec: RFC 7143, 4.2.5.2 (immediate and unsolicited data) and 11.3.

use nearflash_session::{CommandData, Data};
use zerocopy::big_endian::U32;

use super::config::{SubmitError, TaskId};
use super::data_out::{DataPart, Source};
use super::{InitiatorSession, State, Task, cdb::Cdb};
use crate::pdu::{DataSegmentLen, FINAL, LunField, NO_TAG, ScsiCommand};

/// ATTR: simple.
const SIMPLE: u8 = 1;

/// A command as it goes out.
#[derive(Debug)]
struct Begun {
    data: Data,
    len: u32,
    task: Task,
}

impl InitiatorSession {
    /// Queues a command. Its number, which the session chooses, is returned with its completion.
    /// `payload` is the content of [`CommandData::Outgoing`]'s buffer, read only with data
    /// digests.
    ///
    /// # Errors
    /// When no place is free, the window is closed or the connection is not ready.
    #[inline]
    pub fn submit(
        &mut self,
        lun: u16,
        cdb: &Cdb,
        data: CommandData,
        payload: &[u8],
    ) -> Result<TaskId, SubmitError> {
        if !matches!(self.state, State::Ready) {
            return Err(SubmitError::NotReady);
        }
        if self.posted.is_full() {
            return Err(SubmitError::QueueFull);
        }
        let cmd_sn = self.window.take(self.is_shared).ok_or(SubmitError::WindowClosed)?;
        let task = Task::new(LunField::new(lun), cmd_sn);
        let (flags, data, len) = match data {
            CommandData::None => (0, Data::None, 0),
            CommandData::Incoming { buffer, len } => {
                (ScsiCommand::READ, Data::Incoming(buffer), len)
            }
            CommandData::SmallIncoming(len) => {
                (ScsiCommand::READ, Data::SmallIncoming(Vec::new()), len)
            }
            CommandData::Outgoing { buffer, len } => {
                let begun = Begun { data: Data::Outgoing(buffer), len, task };
                return Ok(self.queue_write(cdb, begun, Source::Buffer(buffer), payload));
            }
            CommandData::SmallOutgoing(bytes) => {
                return Ok(self.queue_small(cdb, task, bytes));
            }
        };
        let id = self.put_in_flight(Begun { data, len, task });
        self.push_command(id, FINAL | flags, cdb, 0);
        Ok(id)
    }

    /// The lengths of a command's immediate data, and of all its unsolicited data together.
    #[inline]
    fn unsolicited_lens(&self, len: u32) -> (u32, u32) {
        let first_burst = len.min(self.session.first_burst_len & !3);
        let immediate =
            if self.session.immediate_data { first_burst.min(self.part_len_max()) } else { 0 };
        let all = if self.session.initial_r2t { immediate } else { first_burst };
        (immediate, all)
    }

    /// Queues a command with data from the initiator. `payload` is the data.
    fn queue_write(
        &mut self,
        cdb: &Cdb,
        begun: Begun,
        source: Source<'_>,
        payload: &[u8],
    ) -> TaskId {
        let (immediate, unsolicited) = self.unsolicited_lens(begun.len);
        let id = self.put_in_flight(begun);
        let is_final = if unsolicited == immediate { FINAL } else { 0 };
        self.push_command(id, is_final | ScsiCommand::WRITE, cdb, immediate);
        if immediate > 0 {
            self.push_payload(source, 0, immediate, payload);
        }
        let mut next = immediate;
        let mut data_sn = 0;
        while next < unsolicited {
            let len = (unsolicited - next).min(self.part_len_max());
            let is_final = next + len == unsolicited;
            let part = DataPart { ttt: NO_TAG, offset: next, len, data_sn, is_final };
            self.push_part(id, part, source, payload);
            next += len;
            data_sn += 1;
        }
        let slot = &mut self.posted[id.0];
        slot.moved = unsolicited;
        if unsolicited > 0 && matches!(source, Source::Buffer(_)) {
            slot.sent_until = self.output.end_position();
        }
        id
    }

    /// Puts a command with its number in flight. The caller has checked that there is room.
    #[inline]
    fn put_in_flight(&mut self, begun: Begun) -> TaskId {
        let id = self.posted.take().expect("the caller has checked that there is room");
        self.posted.begin(id, begun.data, begun.len).answer = begun.task;
        TaskId(id)
    }

    #[cold]
    fn queue_small(&mut self, cdb: &Cdb, task: Task, bytes: Vec<u8>) -> TaskId {
        let len = u32::try_from(bytes.len()).expect("small data is shorter than 4 GiB");
        let begun = Begun { data: Data::None, len, task };
        let id = self.queue_write(cdb, begun, Source::Bytes(&bytes), &bytes);
        self.posted[id.0].data = Data::SmallOutgoing(bytes);
        id
    }

    #[inline]
    fn push_command(&mut self, id: TaskId, flags: u8, cdb: &Cdb, immediate: u32) {
        let slot = &self.posted[id.0];
        let mut command = ScsiCommand::new(flags | SIMPLE, self.tag(id));
        command.data_len = DataSegmentLen::new(immediate);
        command.lun = slot.answer.lun;
        command.transfer_len = U32::new(slot.len);
        command.cmd_sn = slot.answer.cmd_sn.field();
        command.exp_stat_sn = self.exp_stat_sn.field();
        command.cdb = *cdb;
        self.output.push_header(command.to_words(), self.connection.digests);
    }

    #[inline]
    pub(super) const fn tag(&self, id: TaskId) -> u32 {
        // Widening: `From` is not usable in a const function.
        self.tag_base | id.0 as u32
    }
}
