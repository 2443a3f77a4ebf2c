//! Decodes a command into a task, through the table of commands.

use nearflash_request::Access;
use nearflash_units::ByteLen;

use crate::call::{Act, Asked, Call, Command};
use crate::commands::{GROUPS, find, has_service_actions};
use crate::task::{Action, NO_BLOCKS, Reply, RequestTask};
use crate::{Cdb, LogicalUnit, Sense, Task, sense_of_attention};

/// Decodes a command. A pending unit attention is reported instead and cleared, except for INQUIRY,
/// REPORT LUNS and REQUEST SENSE. SAM-5, 5.14; SPC-4, 5.
///
/// # Errors
/// The sense data of CHECK CONDITION.
pub fn interpret(asked: &Asked<'_>) -> Result<Task, Sense> {
    let command = find(asked.cdb);
    if let Some(Command { act: Act::Always(act), .. }) = command {
        check_control(asked.cdb)?;
        return act(asked);
    }
    let unit = asked.unit.ok_or(Sense::NO_SUCH_UNIT)?;
    if let Some(attention) = asked.attentions.take(unit.lun) {
        return Err(sense_of_attention(attention));
    }
    let (command, act) = match command {
        Some(command @ Command { act: Act::OfUnit(act), .. }) if command.is_of(unit) => {
            (command, act)
        }
        _ => return Err(unknown(asked.cdb, unit)),
    };
    check_control(asked.cdb)?;
    let call =
        Call { cdb: asked.cdb, unit, units: asked.units, copies: asked.copies, table: &GROUPS };
    Ok(admitted(command, &call, act(&call)?))
}

/// Decodes a command whose parameter list, requested by [`Task::Parameters`], has arrived.
///
/// # Errors
/// The sense data of CHECK CONDITION.
pub fn parameters(asked: &Asked<'_>, bytes: &[u8]) -> Result<Task, Sense> {
    let unit = asked.unit.ok_or(Sense::NO_SUCH_UNIT)?;
    let command = find(asked.cdb).ok_or(Sense::INVALID_OPCODE)?;
    let take = command.parameters.ok_or(Sense::INVALID_OPCODE)?;
    let call =
        Call { cdb: asked.cdb, unit, units: asked.units, copies: asked.copies, table: &GROUPS };
    Ok(admitted(command, &call, take(&call, bytes)?))
}

/// Passes an immediate task through the engine if a reservation may conflict with the command.
fn admitted(command: &Command, call: &Call<'_>, task: Task) -> Task {
    let Some(access) = command.admit else { return task };
    match task {
        Task::Good => Task::Request(admission(access, call.unit, Reply::Status)),
        Task::DataIn(data) => Task::Request(admission(access, call.unit, Reply::Data(data))),
        Task::Parameters(_) | Task::Request(_) | Task::Copy(_) | Task::Change(_) => task,
    }
}

fn admission(access: Access, unit: &LogicalUnit, reply: Reply) -> RequestTask {
    let data_in = match &reply {
        Reply::Data(data) => ByteLen::of(data),
        Reply::Status | Reply::LbaStatus { .. } => ByteLen(0),
    };
    let task = RequestTask::new(Action::Admit(access), NO_BLOCKS, unit.block_size);
    RequestTask { reply, data_in, ..task }
}

/// If the unit supports the operation code with other service actions, the field is invalid.
fn unknown(cdb: &Cdb, unit: &LogicalUnit) -> Sense {
    let has_others = has_service_actions(cdb.opcode(), unit);
    if has_others { Sense::cdb_field(1, 4) } else { Sense::INVALID_OPCODE }
}

/// Checks that NACA of the CONTROL byte is clear: NORMACA in INQUIRY is 0. SAM-5, 5.2.
fn check_control(cdb: &Cdb) -> Result<(), Sense> {
    let last = match cdb.opcode() >> 5 {
        0 => 5,
        1 | 2 => 9,
        4 => 15,
        _ => 11,
    };
    if cdb.bit(last, 2) {
        Err(Sense::cdb_field(u16::try_from(last).unwrap_or(0), 2))
    } else {
        Ok(())
    }
}
