//! The commands in flight of one queue. The slot number is also the request's tag and the R2T's
//! transfer tag.
//!
//! Invariants: each slot in use belongs to exactly one command identifier in flight. The submission
//! queue's entries bound the number of slots in use. After Connect no command allocates a slot's
//! memory.

use std::ops::{Deref, DerefMut};

use nearflash_nvme::auth::ControllerEnd;
use nearflash_nvme::reservation::ReservationCommand;
use nearflash_nvme::{CommandId, Status};
use nearflash_request::{BlockRange, BufferId, ChangeKind, Operation, VolumeId};
use nearflash_session::SlotTable;

use super::config::AdminDemand;

/// The progress of a command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Stage {
    /// The data is not requested yet, because no buffer is available.
    AwaitingBuffer,
    /// The capsule's data is being received.
    ReceivingCapsule,
    /// An R2T was sent, and the data is being received.
    ReceivingRequested,
    /// The data has arrived. The other command of the fused operation is not ready yet.
    Held,
    /// Handed out.
    Submitted {
        /// The number of outstanding requests: more than one for a flush of all namespaces.
        pending: u32,
    },
}

/// The use of a volume that the namespaces of a queue allow.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Allowed {
    /// The volume is in no namespace.
    Nothing,
    /// The namespace is write protected.
    Reads,
    Writes,
}

/// The use of a command's payload.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum PayloadUse {
    Write { force_unit_access: bool },
    Compare,
}

/// A message of an authentication.
#[derive(Clone, Debug, Default)]
pub(super) struct AuthenticationSend {
    pub(super) message: Vec<u8>,
    /// The end that handles it, once it has arrived.
    pub(super) end: ControllerEnd,
}

/// The kind of a command, with the parameters that its slot needs.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// A read, which returns data from a buffer or zeroes.
    Read { volume: VolumeId, range: BlockRange },
    /// A command without data, or whose data was processed.
    Plain { volume: VolumeId, range: BlockRange, operation: Operation },
    /// A flush of each of these volumes.
    FlushAll { volumes: Vec<VolumeId> },
    /// A command whose data is received into a pool buffer.
    Payload { volume: VolumeId, range: BlockRange, payload_use: PayloadUse },
    /// A Dataset Management: `len` bytes of its data list ranges, to deallocate or as a hint.
    Ranges { volume: VolumeId, deallocate: bool, len: u32, data: Vec<u8> },
    /// A reservation command whose data holds keys.
    Reservation { volume: VolumeId, command: ReservationCommand, data: Vec<u8> },
    /// A change to hand out to the control side.
    Change { volume: VolumeId, change: ChangeKind },
    /// A change that was handed out to the control side.
    Changing,
    /// An admin command, with the data received so far.
    Admin(Box<AdminDemand>),
    /// The Connect, with the data received so far.
    Connect(Box<AdminDemand>),
    /// Nothing: the parameters were moved out of the slot.
    Taken,
    /// An Authentication Send, with the data received so far.
    Authentication(Box<AuthenticationSend>),
    /// An admin command or an Authentication Send that was handed out.
    AdminHandedOut,
    /// The Connect that was handed out, and whether the host uses SQ flow control.
    ConnectHandedOut { flow_control: bool },
}

impl Kind {
    /// The vector that receives its data, if the data does not go into a pool buffer.
    pub(super) fn small_data(&mut self) -> Option<&mut Vec<u8>> {
        match self {
            Self::Ranges { data, .. } | Self::Reservation { data, .. } => Some(data),
            Self::Admin(demand) | Self::Connect(demand) => Some(&mut demand.data),
            Self::Authentication(send) => Some(&mut send.message),
            Self::Read { .. }
            | Self::Plain { .. }
            | Self::FlushAll { .. }
            | Self::Payload { .. }
            | Self::Change { .. }
            | Self::Changing
            | Self::Taken
            | Self::AdminHandedOut
            | Self::ConnectHandedOut { .. } => None,
        }
    }

    /// The volume of a command with data from the host, and whether the command changes blocks.
    const fn use_of_volume(&self) -> Option<(VolumeId, bool)> {
        match self {
            Self::Payload { volume, payload_use, .. } => {
                Some((*volume, matches!(payload_use, PayloadUse::Write { .. })))
            }
            Self::Ranges { volume, deallocate, .. } => Some((*volume, *deallocate)),
            Self::Reservation { volume, .. } => Some((*volume, false)),
            _ => None,
        }
    }

    /// Whether its data is received into a pool buffer.
    pub(super) const fn has_payload(&self) -> bool {
        matches!(self, Self::Payload { .. })
    }
}

/// A command's part in a fused operation. NVMe Base 2.0, 3.4.2.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Part {
    Alone,
    /// The compare, and the slot of its write once that has arrived.
    First(Option<u16>),
    /// The write, and the slot of its compare.
    Second(u16),
}

/// One command in flight.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) cid: CommandId,
    pub(super) stage: Stage,
    pub(super) part: Part,
    /// The length of the data, in either direction.
    pub(super) len: u32,
    /// The length of the data received from the host.
    pub(super) received: u32,
    /// The buffer for payload from the host.
    pub(super) buffer: Option<BufferId>,
    /// The status with which it completes, if it has already failed.
    pub(super) failed: Option<Status>,
    pub(super) kind: Kind,
}

impl Slot {
    const FREE: Self = Self {
        cid: CommandId(0),
        stage: Stage::Held,
        part: Part::Alone,
        len: 0,
        received: 0,
        buffer: None,
        failed: None,
        kind: Kind::Taken,
    };

    /// Whether it waits for the host, so that no part of it was handed out.
    const fn is_incoming(&self) -> bool {
        matches!(
            self.stage,
            Stage::AwaitingBuffer
                | Stage::ReceivingCapsule
                | Stage::ReceivingRequested
                | Stage::Held
        )
    }
}

/// The number of 64-bit words that hold one bit for each of 65,536 command identifiers.
const CID_WORDS: usize = 1024;

#[derive(Debug)]
pub(super) struct Slots {
    table: SlotTable<Slot>,
    /// One bit for each command identifier: set while it is in flight.
    cids: Box<[u64]>,
}

impl Slots {
    /// The slot for the Connect, before the connection is a queue.
    pub(super) fn for_connect() -> Self {
        Self { table: SlotTable::new(1, || Slot::FREE), cids: Box::default() }
    }

    pub(super) fn for_queue(entries: u16) -> Self {
        let cids = vec![0; CID_WORDS].into_boxed_slice();
        Self { table: SlotTable::new(entries, || Slot::FREE), cids }
    }

    /// Whether the identifier is in flight. Before Connect there is only one command.
    #[inline]
    pub(super) fn has(&self, cid: CommandId) -> bool {
        let (word, bit) = cid_place(cid);
        self.cids.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Stores a command in a free slot, at `stage`, before its data is received.
    ///
    /// # Panics
    /// If no slot is free. The caller checks this first.
    #[inline]
    pub(super) fn take(&mut self, cid: CommandId, kind: Kind, len: u32, stage: Stage) -> u16 {
        let index = self.take_free(cid, len, stage);
        self.table[index].kind = kind;
        index
    }

    /// Does the same for the most frequent command: registers are stored directly.
    #[inline]
    pub(super) fn take_read(
        &mut self,
        cid: CommandId,
        volume: VolumeId,
        range: BlockRange,
        len: u32,
    ) -> u16 {
        let index = self.take_free(cid, len, Stage::Submitted { pending: 1 });
        self.table[index].kind = Kind::Read { volume, range };
        index
    }

    #[inline]
    fn take_free(&mut self, cid: CommandId, len: u32, stage: Stage) -> u16 {
        let index = self.table.take().expect("the caller saw a free slot");
        let (word, bit) = cid_place(cid);
        if let Some(word) = self.cids.get_mut(word) {
            *word |= bit;
        }
        let slot = &mut self.table[index];
        slot.cid = cid;
        slot.stage = stage;
        slot.len = len;
        index
    }

    /// Frees the slot of a completed command, whose buffer the caller has taken.
    #[inline]
    pub(super) fn give_back(&mut self, index: u16) {
        self.table.give_back(index);
        let slot = &mut self.table[index];
        assert!(slot.buffer.is_none(), "a buffer outlives its slot");
        let (word, bit) = cid_place(slot.cid);
        if let Some(word) = self.cids.get_mut(word) {
            *word &= !bit;
        }
        slot.part = Part::Alone;
        slot.received = 0;
        slot.failed = None;
        // A read owns no memory, so nothing has to be dropped.
        if !matches!(slot.kind, Kind::Read { .. }) {
            slot.kind = Kind::Taken;
        }
    }

    /// Whether a command waits for data that an R2T requested.
    pub(super) fn any_awaits_data(&self) -> bool {
        self.table.iter().any(|(_, slot)| slot.stage == Stage::ReceivingRequested)
    }

    /// The slot of a command that was handed out with this identifier.
    pub(super) fn handed_out(&self, cid: CommandId) -> Option<u16> {
        let is_meant = |slot: &Slot| {
            let is_out = matches!(slot.kind, Kind::AdminHandedOut | Kind::ConnectHandedOut { .. });
            slot.cid == cid && is_out
        };
        self.table.iter().find(|(_, slot)| is_meant(slot)).map(|(index, _)| index)
    }

    /// Fails the commands whose data is still on the way and that are not allowed any more.
    pub(super) fn fail_incoming(&mut self, allowed: impl Fn(VolumeId) -> Allowed) {
        for (_, slot) in self.table.iter_mut().filter(|(_, slot)| slot.is_incoming()) {
            let Some((volume, changes_blocks)) = slot.kind.use_of_volume() else { continue };
            let status = match (allowed(volume), changes_blocks) {
                (Allowed::Nothing, _) => Status::INVALID_NAMESPACE.dnr(),
                (Allowed::Reads, true) => Status::NAMESPACE_WRITE_PROTECTED.dnr(),
                (Allowed::Reads | Allowed::Writes, _) => continue,
            };
            slot.failed.get_or_insert(status);
        }
    }

    /// Takes the buffers of commands that wait for data or for the other half of a fused one.
    pub(super) fn take_incoming_buffers(&mut self) -> impl Iterator<Item = BufferId> {
        let incoming = self.table.iter_mut().filter(|(_, slot)| slot.is_incoming());
        incoming.filter_map(|(_, slot)| slot.buffer.take())
    }

    /// Takes every buffer into which a command has received data.
    pub(super) fn take_buffers(&mut self) -> impl Iterator<Item = BufferId> {
        self.table.iter_mut().filter_map(|(_, slot)| slot.buffer.take())
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

#[inline]
fn cid_place(cid: CommandId) -> (usize, u64) {
    (usize::from(cid.0 >> 6), 1 << (cid.0 & 63))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_is_in_flight_from_its_command_to_its_answer() {
        let mut slots = Slots::for_queue(2);
        for cid in [0, 63, 64, 0xFFFF].map(CommandId) {
            assert!(!slots.has(cid));
            let index = slots.take(cid, Kind::Taken, 512, Stage::Submitted { pending: 1 });
            assert!(slots.has(cid));
            slots.give_back(index);
            assert!(!slots.has(cid));
        }
    }
}
