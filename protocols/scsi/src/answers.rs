//! Converts completions of the engine and results of the control side to SCSI data and failures.

use nearflash_request::{ChangeResult, Completion, Outcome, Payload, Refusal};
use nearflash_units::{Blocks, Lba};

use crate::commands::{lba_status, reserve_in};
use crate::task::{Action, ChangeTask, Reply, RequestTask};
use crate::{Failure, Sense, SenseKey};

/// INTERNAL TARGET FAILURE.
const INTERNAL_FAILURE: Sense = Sense::new(SenseKey::HARDWARE_ERROR, 0x4400);

impl RequestTask {
    /// The data for the initiator, except for data that was read, which is in the completion.
    ///
    /// # Errors
    /// The status and sense data of a request that failed.
    pub fn answer(&self, completion: &Completion) -> Result<Vec<u8>, Failure> {
        if completion.outcome != Outcome::Success {
            return Err(of_outcome(self, completion));
        }
        let (range, reply) = (self.range, &self.reply);
        Ok(match (reply, completion.payload) {
            (Reply::Status, _) => Vec::new(),
            (Reply::Data(data), _) => data.clone(),
            (&Reply::LbaStatus { allocation_len }, Payload::Allocation { mapped, blocks }) => {
                lba_status::format(range.start, mapped, blocks, allocation_len)
            }
            (&Reply::LbaStatus { allocation_len }, _) => {
                lba_status::format(range.start, true, range.count, allocation_len)
            }
        })
    }
}

impl ChangeTask {
    /// The data for the initiator.
    ///
    /// # Errors
    /// The status and sense data of a change that was refused.
    pub fn answer(&self, result: &ChangeResult) -> Result<Vec<u8>, Failure> {
        match result {
            ChangeResult::Done => Ok(Vec::new()),
            ChangeResult::Report(report) => Ok(reserve_in::format(self.reply, report)),
            ChangeResult::Conflict => Err(Failure::Conflict),
            ChangeResult::Refused(refusal) => Err(of_refusal(*refusal)),
        }
    }
}

fn of_outcome(task: &RequestTask, completion: &Completion) -> Failure {
    let start = task.range.start;
    let sense = match completion.outcome {
        Outcome::ReservationConflict => return Failure::Conflict,
        Outcome::Aborted => return Failure::Aborted,
        Outcome::Success => Sense::NONE,
        Outcome::OutOfRange => Sense::LBA_OUT_OF_RANGE.with_information(start.0),
        Outcome::VolumeGone => Sense::NO_SUCH_UNIT,
        Outcome::CapacityExceeded => Sense::SPACE_EXHAUSTED,
        Outcome::Miscompare => return Failure::Check(of_miscompare(task, completion.payload)),
        Outcome::UnrecoveredRead => Sense::UNRECOVERED_READ.with_information(start.0),
        Outcome::WriteFault => Sense::WRITE_ERROR.with_information(start.0),
        Outcome::DeviceUnavailable => Sense::NOT_READY,
        Outcome::PathLost => Sense::COMMUNICATION_FAILURE,
        Outcome::Unsupported => Sense::INVALID_OPCODE,
        Outcome::WriteProtected => Sense::SOFTWARE_WRITE_PROTECTED,
    };
    Failure::Check(sense)
}

/// INFORMATION is the differing byte for COMPARE AND WRITE (SBC-4, 5.3), otherwise the block.
fn of_miscompare(task: &RequestTask, payload: Payload) -> Sense {
    let Payload::Differs(offset) = payload else { return Sense::MISCOMPARE };
    if matches!(task.action, Action::CompareAndWrite { .. }) {
        return Sense::MISCOMPARE.with_information(offset);
    }
    let before = Blocks(offset >> task.block_size.shift());
    let Lba(lba) = task.range.start.checked_add(before).unwrap_or(task.range.start);
    Sense::MISCOMPARE.with_information(lba)
}

const fn of_refusal(refusal: Refusal) -> Failure {
    Failure::Check(match refusal {
        Refusal::Busy => return Failure::Busy,
        // SERVICE ACTION RESERVATION KEY of PERSISTENT RESERVE OUT.
        Refusal::InvalidKey => Sense::parameter_field(8, 7),
        Refusal::WrongType => Sense::INVALID_RELEASE,
        Refusal::TooManyRegistrations => Sense::NO_ROOM_TO_REGISTER,
        Refusal::VolumeGone => Sense::NO_SUCH_UNIT,
        Refusal::NotRecorded => INTERNAL_FAILURE,
        Refusal::Unsupported => Sense::INVALID_OPCODE,
    })
}
