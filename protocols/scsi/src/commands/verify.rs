//! VERIFY, PRE-FETCH and SYNCHRONIZE CACHE: commands on blocks that return no data to the
//! initiator.
//!
//! Spec: SBC-4, 5.

use nearflash_request::Access;
use nearflash_units::ByteLen;

use super::blocks::{Form, check_protect, check_range, to_the_end, transferred};
use crate::call::{Call, Command};
use crate::task::{Action, RequestTask};
use crate::{Sense, Task};

const SECS: u32 = 60;

pub(super) const COMMANDS: &[Command] = &[
    of_blocks!(Ten, 0x2F, 0xF6, verify).within_secs(SECS),
    of_blocks!(Ten, 0x34, 0x02, prefetch).admitted_for(Access::Read),
    of_blocks!(Ten, 0x35, 0x02, synchronize).within_secs(SECS),
    of_blocks!(Sixteen, 0x8F, 0xF6, verify).within_secs(SECS),
    of_blocks!(Sixteen, 0x90, 0x02, prefetch).admitted_for(Access::Read),
    of_blocks!(Sixteen, 0x91, 0x02, synchronize).within_secs(SECS),
    of_blocks!(Twelve, 0xAF, 0xF6, verify).within_secs(SECS),
];

/// BYTCHK: 0 reads the medium, 1 compares it with as many blocks, 3 with one repeated block.
fn verify(call: &Call<'_>, form: Form) -> Result<Task, Sense> {
    check_protect(call.cdb)?;
    let range = form.range(call.cdb);
    let block_size = call.unit.block_size;
    let (action, data_out) = match call.cdb.byte(1) >> 1 & 0b11 {
        0b00 => (Action::Verify, ByteLen(0)),
        0b01 => (Action::Compare, transferred(call, form)?.1),
        0b11 => (Action::CompareSame, ByteLen(u64::from(block_size.bytes()))),
        _ => return Err(Sense::cdb_field(1, 2)),
    };
    check_range(call.unit, range)?;
    if range.count.0 == 0 {
        return Ok(call.nothing(Access::Read));
    }
    let is_one_block = matches!(action, Action::CompareSame);
    let exact = is_one_block.then_some(Sense::INVALID_INFORMATION_UNIT);
    let task = RequestTask::new(action, range, block_size);
    Ok(Task::Request(RequestTask { data_out, exact, ..task }))
}

/// Nothing is prefetched. Unlike CONDITION MET, GOOD promises nothing about the cache.
fn prefetch(call: &Call<'_>, form: Form) -> Result<Task, Sense> {
    let range = form.range(call.cdb);
    check_range(call.unit, to_the_end(call.unit, range))?;
    Ok(Task::Good)
}

/// A flush covers the whole volume. IMMED allows an early status but does not require it.
fn synchronize(call: &Call<'_>, form: Form) -> Result<Task, Sense> {
    let range = form.range(call.cdb);
    check_range(call.unit, to_the_end(call.unit, range))?;
    Ok(call.flush())
}
