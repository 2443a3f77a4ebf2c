//! The only fused operation: Compare and Write, two consecutive commands that are executed as one.
//!
//! Spec: NVMe Base 2.0, 3.4.2; NVM Command Set 1.0, 3.3.1. Neither command completes before the
//! data of both has arrived. If one fails, the other fails too.

use nearflash_nvme::io::IoCommand;
use nearflash_nvme::{Command, Fused, Status};
use nearflash_request::Outcome;

use super::TargetSession;
use super::commands::Prepared;
use super::slots::{Kind, Part, PayloadUse, Stage};

/// The state that the previous command of the queue left for the next one.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Waiting {
    #[default]
    Nothing,
    /// The previous command is the first of a fused operation, in this slot.
    First(u16),
    /// The previous command was the first of a fused operation and was refused.
    Refused,
}

impl Waiting {
    pub(super) const fn is_something(self) -> bool {
        !matches!(self, Self::Nothing)
    }
}

/// The statuses of the two commands.
pub(super) fn statuses(outcome: Outcome) -> (Status, Status) {
    match outcome {
        Outcome::Success => (Status::SUCCESS, Status::SUCCESS),
        // The compare succeeded or was not executed, and the write failed.
        Outcome::WriteFault
        | Outcome::CapacityExceeded
        | Outcome::ReservationConflict
        | Outcome::WriteProtected => (Status::ABORTED_FUSED_FAILED, outcome.into()),
        _ => (outcome.into(), Status::ABORTED_FUSED_FAILED),
    }
}

impl TargetSession {
    /// Handles a command that is part of a fused operation or follows the first command of one.
    #[cold]
    pub(super) fn on_fused_command(&mut self, command: &Command) {
        let cid = command.command_id();
        match (std::mem::take(&mut self.waiting), command.fused()) {
            (Waiting::First(first), Fused::Second) => return self.on_second(first, command),
            (Waiting::Refused, Fused::Second) => {
                return self.refuse(cid, Status::ABORTED_FUSED_FAILED);
            }
            (Waiting::Nothing, Fused::Second) => {
                return self.refuse(cid, Status::ABORTED_FUSED_MISSING.dnr());
            }
            (Waiting::First(first), _) => self.fail(first, Status::ABORTED_FUSED_MISSING.dnr()),
            (Waiting::Nothing | Waiting::Refused, _) => {}
        }
        match command.fused() {
            Fused::First => self.on_first(command),
            Fused::Normal => self.on_single_command(command),
            Fused::Reserved | Fused::Second => self.refuse(cid, Status::INVALID_FIELD.dnr()),
        }
    }

    fn on_first(&mut self, command: &Command) {
        self.waiting = match self.prepare_part(command, is_compare) {
            Ok(prepared) => {
                let first = self.begin(prepared);
                self.slots[first].part = Part::First(None);
                Waiting::First(first)
            }
            Err(status) => {
                self.refuse(command.command_id(), status);
                Waiting::Refused
            }
        };
    }

    fn on_second(&mut self, first: u16, command: &Command) {
        let compared = self.slots[first].kind.clone();
        match self.prepare_part(command, |kind| is_write_over(kind, &compared)) {
            Ok(prepared) => {
                let second = self.begin(prepared);
                self.slots[first].part = Part::First(Some(second));
                self.slots[second].part = Part::Second(first);
            }
            Err(status) => {
                self.fail(first, Status::ABORTED_FUSED_FAILED);
                self.refuse(command.command_id(), status);
            }
        }
    }

    fn prepare_part(
        &self,
        command: &Command,
        is_allowed: impl FnOnce(&Kind) -> bool,
    ) -> Result<Prepared, Status> {
        let IoCommand::Volume(decoded) = self.read_command(command)? else {
            return Err(Status::INVALID_FIELD.dnr());
        };
        let prepared = self.prepare(command, decoded)?;
        if is_allowed(&prepared.kind) { Ok(prepared) } else { Err(Status::INVALID_FIELD.dnr()) }
    }

    /// Fails a first fused command without a second one with `status`, once its data has arrived.
    fn fail(&mut self, index: u16, status: Status) {
        let slot = &mut self.slots[index];
        slot.part = Part::Alone;
        slot.failed = slot.failed.or(Some(status));
        let status = slot.failed.unwrap_or(status);
        match slot.stage {
            Stage::AwaitingBuffer => {
                self.awaiting_buffer.cancel(|waiting| waiting == index);
                self.answer(index, status);
            }
            Stage::Held => self.answer(index, status),
            Stage::ReceivingCapsule | Stage::ReceivingRequested => {}
            Stage::Submitted { .. } => unreachable!("a first command waits for its second"),
        }
    }

    /// Records that one command's data has arrived. With the data of both, submits the commands, or
    /// completes them if one has failed.
    pub(super) fn settle_fused(&mut self, index: u16) {
        let (first, second) = match self.slots[index].part {
            Part::First(Some(second)) => (index, second),
            Part::Second(first) => (first, index),
            Part::First(None) | Part::Alone => return,
        };
        if self.slots[first].stage != Stage::Held || self.slots[second].stage != Stage::Held {
            return;
        }
        let (failed_first, failed_second) = (self.slots[first].failed, self.slots[second].failed);
        if failed_first.is_some() || failed_second.is_some() {
            self.answer(first, failed_first.unwrap_or(Status::ABORTED_FUSED_FAILED));
            self.answer(second, failed_second.unwrap_or(Status::ABORTED_FUSED_FAILED));
        } else {
            self.submit_fused(first, second);
        }
    }

    /// Submits the fused operation as one request of the first command, with the second's payload.
    fn submit_fused(&mut self, first: u16, second: u16) {
        for index in [first, second] {
            self.slots[index].stage = Stage::Submitted { pending: 1 };
        }
        self.hand_out(first);
    }
}

fn is_compare(kind: &Kind) -> bool {
    matches!(kind, Kind::Payload { payload_use: PayloadUse::Compare, .. })
}

/// Whether both commands address the same blocks.
fn is_write_over(kind: &Kind, compared: &Kind) -> bool {
    match (kind, compared) {
        (
            Kind::Payload { volume, range, payload_use: PayloadUse::Write { .. } },
            Kind::Payload { volume: compared_volume, range: compared_range, .. },
        ) => volume == compared_volume && range == compared_range,
        _ => false,
    }
}
