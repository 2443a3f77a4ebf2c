//! The commands of one connection, by a slot number that is also the request's tag and half of the
//! target transfer tag.
//!
//! Invariants: there are as many slots as the session's window and the immediate commands need;
//! nothing is allocated per command in the common case.

use std::ops::{Deref, DerefMut};

use nearflash_request::{BlockRange, BufferId, ChangeKind, VolumeId};
use nearflash_scsi::{ChangeTask, Failure, RequestTask, Series};
use nearflash_session::SlotTable;

use crate::pdu::Serial;

/// The maximum number of immediate commands and functions of a connection, which the window does
/// not count.
pub(super) const IMMEDIATE_MAX: u32 = 16;

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Stage {
    /// Its unsolicited data is being received: in the command's PDU, or after it.
    Unsolicited,
    /// All its unsolicited data has arrived, but commands with lower numbers have not.
    AwaitingTurn,
    /// It needs a buffer before it requests its data.
    AwaitingBuffer,
    /// Its data is coming: an R2T was sent.
    Solicited,
    /// It can be handed out, or was handed out.
    #[default]
    Submitted,
}

/// The kind of a command, as far as its slot needs it.
#[derive(Debug)]
pub(super) enum Kind {
    /// A read of the common form.
    Read { volume: VolumeId, range: BlockRange },
    /// Its data goes to the volume.
    Write { volume: VolumeId, range: BlockRange, force_unit_access: bool },
    /// Every other request of the engine.
    Request { volume: VolumeId, task: Box<RequestTask> },
    /// A request that goes piece by piece: one is handed out, or collects its data.
    Series(Box<Series>),
    /// Its data are parameters.
    Parameters { cdb: [u8; 16], data: Vec<u8> },
    /// For the control side.
    Change { volume: VolumeId, task: ChangeTask },
    /// A task management function or a logout, for the control side.
    Function(FunctionTask),
    /// Answered by the session itself, once its data has arrived.
    Ready { data: Vec<u8> },
}

impl Kind {
    /// Whether it changes blocks of its unit. Parameters are judged when they have arrived.
    pub(super) fn changes_blocks(&self) -> bool {
        match self {
            Self::Write { .. } => true,
            Self::Request { task, .. } => task.action.changes_blocks(),
            Self::Series(series) => series.piece.task.action.changes_blocks(),
            Self::Read { .. }
            | Self::Parameters { .. }
            | Self::Change { .. }
            | Self::Function(_)
            | Self::Ready { .. } => false,
        }
    }
}

impl Default for Kind {
    fn default() -> Self {
        Self::Ready { data: Vec::new() }
    }
}

/// The answer to a command that ends between two pieces.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Cut {
    /// None: the initiator itself gave up the command.
    Silently,
    /// TASK ABORTED: another initiator ended it.
    TaskAborted,
}

/// The change that the control side makes for a task management function, or a logout.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct FunctionTask {
    pub(super) volume: VolumeId,
    pub(super) kind: ChangeKind,
    pub(super) after: After,
}

/// The step after the control side's answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum After {
    /// The function is over.
    Nothing,
    /// The function has completed, and ends the session.
    BeginAnew,
    /// A logout that waited for requests of closed connections. With `goes`, this one closes too.
    Logout { goes: bool },
}

/// The destination of a command's data from the initiator.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Buffers {
    ids: [Option<BufferId>; 2],
    count: u8,
    /// The length of each buffer, in bytes.
    pub(super) len: u32,
}

impl Buffers {
    /// The need for `count` buffers of `len` bytes, none of which is provided yet.
    pub(super) const fn wanted(count: u8, len: u32) -> Self {
        Self { ids: [None; 2], count, len }
    }

    #[inline]
    pub(super) fn are_missing(&self) -> bool {
        self.missing().is_some()
    }

    #[inline]
    fn missing(&self) -> Option<usize> {
        (0..usize::from(self.count)).find(|index| self.ids[*index].is_none())
    }

    #[inline]
    pub(super) fn put(&mut self, buffer: BufferId) {
        let place = self.missing().expect("a buffer is provided only when one is wanted");
        self.ids[place] = Some(buffer);
    }

    /// The place of the data at `offset`, and its room; `None` while that buffer is missing.
    #[inline]
    pub(super) fn place(&self, offset: u32) -> Option<(BufferId, u32, u32)> {
        let (index, within) = match offset < self.len {
            true => (0, offset),
            false => (1, offset - self.len),
        };
        Some((self.ids[index]?, within, self.len - within))
    }

    /// Takes the buffers out: for a request, or because they are no longer needed.
    #[inline]
    pub(super) fn take(&mut self) -> [Option<BufferId>; 2] {
        std::mem::take(&mut self.ids)
    }
}

#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) itt: u32,
    pub(super) stage: Stage,
    pub(super) is_immediate: bool,
    /// Commands with lower numbers are there.
    pub(super) is_due: bool,
    /// Which unit, if the address is one.
    pub(super) lun: Option<u16>,
    /// CmdSN.
    pub(super) number: Serial,
    /// Expected data transfer length: the length of the initiator's buffer.
    pub(super) expected: u32,
    /// The length of the command's data by its CDB.
    pub(super) wanted: u32,
    /// The length of the data that it takes from the initiator.
    pub(super) takes: u32,
    /// How much data has come.
    pub(super) received: u32,
    /// The offset of the current piece: the length of the data for earlier pieces.
    pub(super) base: u32,
    /// Set if the command must end between two pieces.
    pub(super) cut_short: Option<Cut>,
    /// The end of the sequence that is being received.
    pub(super) burst_end: u32,
    /// DataSN of the next Data-Out.
    pub(super) data_sn: u32,
    /// How many R2Ts were sent.
    pub(super) r2t_sn: u32,
    pub(super) buffers: Buffers,
    /// The failure that the command will be answered with.
    pub(super) failed: Option<Failure>,
    pub(super) kind: Kind,
}

impl Slot {
    /// The length of the expected data that is kept.
    #[inline]
    pub(super) fn room(&self) -> u32 {
        if self.failed.is_some() { 0 } else { self.takes.saturating_sub(self.received) }
    }

    /// The length to request next: at most to the end of the current piece.
    #[inline]
    pub(super) fn room_of_piece(&self) -> u32 {
        match self.kind {
            Kind::Series(_) => {
                let piece_end = self.base + u32::from(self.buffers.count) * self.buffers.len;
                self.room().min(piece_end.saturating_sub(self.received))
            }
            _ => self.room(),
        }
    }

    /// The destination of the next data, and the room there; `None` while the buffer is missing.
    #[inline]
    pub(super) fn place(&self) -> Option<(BufferId, u32, u32)> {
        self.buffers.place(self.received - self.base)
    }
}

/// The fields of a new command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begin {
    pub(super) itt: u32,
    /// CmdSN.
    pub(super) number: Serial,
    pub(super) is_immediate: bool,
    pub(super) lun: Option<u16>,
    pub(super) expected: u32,
    pub(super) wanted: u32,
}

/// None before the login.
#[derive(Debug, Default)]
pub(super) struct Slots {
    table: SlotTable<Slot>,
}

impl Slots {
    /// The slots of a connection of a session with this window.
    pub(super) fn new(count: u32) -> Self {
        let count = u16::try_from(count).expect("a window has fewer than 65,536 commands");
        Self { table: SlotTable::new(count, Slot::default) }
    }

    /// Puts a command into a free slot. Its stage, kind and buffers are for the caller to set.
    ///
    /// # Panics
    /// When no slot is free: the caller checks this first.
    #[inline]
    pub(super) fn take(&mut self, begin: Begin) -> u16 {
        let index = self.table.take().expect("the caller has found a free slot");
        let slot = &mut self.table[index];
        slot.itt = begin.itt;
        slot.is_immediate = begin.is_immediate;
        slot.is_due = true;
        slot.lun = begin.lun;
        slot.number = begin.number;
        slot.expected = begin.expected;
        slot.wanted = begin.wanted;
        slot.takes = 0;
        slot.stage = Stage::Submitted;
        index
    }

    /// Frees the slot of an answered command, whose buffers the caller has taken.
    #[inline]
    pub(super) fn give_back(&mut self, index: u16) {
        self.table.give_back(index);
        let slot = &mut self.table[index];
        // A read uses none of these.
        if !matches!(slot.kind, Kind::Read { .. }) {
            assert!(slot.buffers.ids == [None; 2], "a buffer outlives its slot");
            slot.received = 0;
            slot.base = 0;
            slot.cut_short = None;
            slot.burst_end = 0;
            slot.data_sn = 0;
            slot.r2t_sn = 0;
            slot.buffers = Buffers::default();
            slot.kind = Kind::default();
        }
        slot.failed = None;
    }

    /// The command with the target transfer tag of a Data-Out, if it awaits solicited data.
    #[inline]
    pub(super) fn by_transfer_tag(&self, tag: u32) -> Option<u16> {
        let index = self.table.by_tag(tag)?;
        (self.table[index].stage == Stage::Solicited).then_some(index)
    }

    /// The command of an initiator task tag.
    pub(super) fn by_itt(&self, itt: u32) -> Option<u16> {
        self.iter().find(|(_, slot)| slot.itt == itt).map(|(index, _)| index)
    }

    /// The commands whose data is still being received, or was requested. None of them was handed
    /// out.
    pub(super) fn collecting(&self) -> impl Iterator<Item = (u16, &Slot)> {
        self.iter().filter(|(_, slot)| slot.stage != Stage::Submitted)
    }

    /// Whether a command that was not handed out holds a buffer.
    pub(super) fn any_holds_buffers(&self) -> bool {
        self.collecting().any(|(_, slot)| slot.buffers.ids.iter().any(Option::is_some))
    }

    /// Whether the initiator owes data of a command.
    pub(super) fn any_awaits_data(&self) -> bool {
        self.iter().any(|(_, slot)| matches!(slot.stage, Stage::Unsolicited | Stage::Solicited))
    }

    /// Takes every buffer that a command has received data into.
    pub(super) fn take_buffers(&mut self) -> impl Iterator<Item = BufferId> {
        self.table.iter_mut().flat_map(|(_, slot)| slot.buffers.take()).flatten()
    }
}

impl Deref for Slots {
    type Target = SlotTable<Slot>;

    fn deref(&self) -> &Self::Target {
        &self.table
    }
}

impl DerefMut for Slots {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: Begin = Begin {
        itt: 7,
        number: Serial(3),
        is_immediate: false,
        lun: Some(0),
        expected: 0,
        wanted: 0,
    };

    #[test]
    fn a_transfer_tag_is_good_for_one_use_of_its_slot() {
        let mut slots = Slots::new(1);
        let index = slots.take(BEGIN);
        slots[index].kind = Kind::Ready { data: Vec::new() };
        let tag = slots.tag(index);
        assert_eq!(slots.by_transfer_tag(tag), None, "nothing was asked for");
        slots[index].stage = Stage::Solicited;
        assert_eq!(slots.by_transfer_tag(tag), Some(index));
        slots.give_back(index);
        let index = slots.take(BEGIN);
        slots[index].stage = Stage::Solicited;
        assert_eq!(slots.by_transfer_tag(tag), None);
        assert_eq!(slots.by_transfer_tag(0xFFFF_FFFF), None);
    }

    #[test]
    fn two_buffers_are_filled_one_after_the_other() {
        let mut buffers = Buffers::wanted(2, 512);
        assert_eq!(buffers.place(0), None);
        buffers.put(BufferId(1));
        assert_eq!(buffers.place(100), Some((BufferId(1), 100, 412)));
        assert_eq!(buffers.place(512), None);
        assert!(buffers.are_missing());
        buffers.put(BufferId(2));
        assert_eq!(buffers.place(600), Some((BufferId(2), 88, 424)));
        assert!(!buffers.are_missing());
    }
}
