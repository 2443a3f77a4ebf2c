//! READ, WRITE, WRITE AND VERIFY, ORWRITE, COMPARE AND WRITE.
//!
//! Spec: SBC-4, 5. DPO is ignored. The device manages its cache. FUA makes a write durable before
//! its status.

use nearflash_request::Access;
use nearflash_units::{Blocks, ByteLen};

use super::blocks::{Form, check_protect, check_range, check_writable, len_at_most, transferred};
use crate::call::{Call, Command, Needs};
use crate::task::{Action, RequestTask};
use crate::{Sense, Task, limits};

const SECS: u32 = 30;

pub(super) const COMMANDS: &[Command] = &[
    Command::of_unit(&[0x08, 0x1F, 0xFF, 0xFF, 0xFF, 0x04], |call| read_checked(call, Form::Six))
        .within_secs(SECS),
    Command::of_unit(&[0x0A, 0x1F, 0xFF, 0xFF, 0xFF, 0x04], |call| {
        write_checked(call, Form::Six, Action::Write { force_unit_access: false })
    })
    .within_secs(SECS),
    of_blocks!(Ten, 0x28, 0xF8, read).within_secs(SECS),
    of_blocks!(Ten, 0x2A, 0xF8, write).within_secs(SECS),
    of_blocks!(Ten, 0x2E, 0xF6, write_and_verify).within_secs(SECS).needing(Needs::Compound),
    of_blocks!(Sixteen, 0x88, 0xF8, read).within_secs(SECS),
    Command::of_unit(
        &[0x89, 0xF8, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0xFF, 0, 0x04],
        compare_and_write,
    )
    .within_secs(SECS)
    .needing(Needs::Compound),
    of_blocks!(Sixteen, 0x8A, 0xF8, write).within_secs(SECS),
    of_blocks!(Sixteen, 0x8B, 0xF8, or_write).within_secs(SECS).needing(Needs::Compound),
    of_blocks!(Sixteen, 0x8E, 0xF6, write_and_verify).within_secs(SECS).needing(Needs::Compound),
    of_blocks!(Twelve, 0xA8, 0xF8, read).within_secs(SECS),
    of_blocks!(Twelve, 0xAA, 0xF8, write).within_secs(SECS),
    of_blocks!(Twelve, 0xAE, 0xF6, write_and_verify).within_secs(SECS).needing(Needs::Compound),
];

/// FUA, in all forms except the six-byte commands.
fn force_unit_access(call: &Call<'_>) -> bool {
    call.cdb.bit(1, 3)
}

fn read(call: &Call<'_>, form: Form) -> Result<Task, Sense> {
    check_protect(call.cdb)?;
    read_checked(call, form)
}

fn read_checked(call: &Call<'_>, form: Form) -> Result<Task, Sense> {
    let (range, data_in) = transferred(call, form)?;
    if range.count.0 == 0 {
        return Ok(call.nothing(Access::Read));
    }
    let task = RequestTask::new(Action::Read, range, call.unit.block_size);
    Ok(Task::Request(RequestTask { data_in, ..task }))
}

fn write(call: &Call<'_>, form: Form) -> Result<Task, Sense> {
    check_protect(call.cdb)?;
    let force_unit_access = force_unit_access(call);
    write_checked(call, form, Action::Write { force_unit_access })
}

fn or_write(call: &Call<'_>, form: Form) -> Result<Task, Sense> {
    check_protect(call.cdb)?;
    let force_unit_access = force_unit_access(call);
    write_checked(call, form, Action::OrWrite { force_unit_access })
}

/// With BYTCHK 0 the medium is read back, with 1 it is also compared.
fn write_and_verify(call: &Call<'_>, form: Form) -> Result<Task, Sense> {
    check_protect(call.cdb)?;
    let compare = match call.cdb.byte(1) >> 1 & 0b11 {
        0b00 => false,
        0b01 => true,
        _ => return Err(Sense::cdb_field(1, 2)),
    };
    write_checked(call, form, Action::WriteAndVerify { compare })
}

fn write_checked(call: &Call<'_>, form: Form, action: Action) -> Result<Task, Sense> {
    check_writable(call.unit)?;
    let (range, data_out) = transferred(call, form)?;
    if range.count.0 == 0 {
        return Ok(call.nothing(Access::Write));
    }
    let task = RequestTask::new(action, range, call.unit.block_size);
    Ok(Task::Request(RequestTask { data_out, ..task }))
}

/// The data holds the compare instance and the write instance, twice the blocks. SBC-4, 5.3.
fn compare_and_write(call: &Call<'_>) -> Result<Task, Sense> {
    check_protect(call.cdb)?;
    check_writable(call.unit)?;
    let count = Blocks(u64::from(call.cdb.byte(13)));
    let range = nearflash_request::BlockRange { count, ..Form::Sixteen.range(call.cdb) };
    check_range(call.unit, range)?;
    if count > limits::compare_and_write_blocks_max(call.unit.block_size) {
        return Err(Sense::cdb_field(13, 7));
    }
    // Data of another length than the count requires is reported as an invalid count.
    let exact = Some(Sense::cdb_field(13, 7));
    if count.0 == 0 {
        let task = RequestTask::new(Action::Admit(Access::Write), range, call.unit.block_size);
        return Ok(Task::Request(RequestTask { exact, ..task }));
    }
    let half = len_at_most(call.unit, range, limits::TRANSFER_LEN_MAX);
    let half = half.ok_or(Sense::cdb_field(13, 7))?;
    let action = Action::CompareAndWrite { force_unit_access: force_unit_access(call) };
    let task = RequestTask::new(action, range, call.unit.block_size);
    Ok(Task::Request(RequestTask { data_out: ByteLen(half.0 * 2), exact, ..task }))
}
