//! WRITE SAME: writes one block to a range of blocks, or unmaps the range.
//!
//! Spec: SBC-4, 5.50 and 5.51. Unmapped blocks read as zeroes, so a block that is not zero is
//! written even with UNMAP. Only WRITE SAME (16) supports UNMAP, since initiators that use it know
//! the longer command.

use nearflash_request::Access;
use nearflash_units::ByteLen;

use super::blocks::{Form, check_protect, check_range, check_writable, to_the_end};
use crate::call::{Call, Command};
use crate::task::{Action, RequestTask};
use crate::{Provisioning, Sense, Task, limits};

const SECS: u32 = 60;

pub(super) const COMMANDS: &[Command] = &[
    of_blocks!(Ten, 0x41, 0xFE, write_same).within_secs(SECS),
    of_blocks!(Sixteen, 0x93, 0xFF, write_same).within_secs(SECS),
];

fn write_same(call: &Call<'_>, form: Form) -> Result<Task, Sense> {
    check_protect(call.cdb)?;
    check_flags(call, form)?;
    check_writable(call.unit)?;
    let range = form.range(call.cdb);
    check_range(call.unit, range)?;
    let range = to_the_end(call.unit, range);
    if range.count > limits::write_same_blocks_max(call.unit.block_size) {
        return Err(Sense::cdb_field(form.count_at(), 7));
    }
    if range.count.0 == 0 {
        return Ok(call.nothing(Access::Write));
    }
    let block_size = call.unit.block_size;
    if without_data(call, form) {
        let action = Action::WriteZeroes { deallocate: unmap(call) };
        return Ok(Task::Request(RequestTask::new(action, range, block_size)));
    }
    let data_out = ByteLen(u64::from(block_size.bytes()));
    let task = RequestTask::new(Action::WriteSame, range, block_size);
    let exact = Some(Sense::INVALID_INFORMATION_UNIT);
    Ok(Task::Request(RequestTask { data_out, exact, ..task }))
}

fn unmap(call: &Call<'_>) -> bool {
    call.cdb.bit(1, 3)
}

/// NDOB: the command has no data, and zeroes are written.
fn without_data(call: &Call<'_>, form: Form) -> bool {
    matches!(form, Form::Sixteen) && call.cdb.bit(1, 0)
}

/// Checks the flags. UNMAP needs WRITE SAME (16) and a unit with unmapping. ANCHOR needs UNMAP and
/// a unit whose unmapped blocks are anchored. The obsolete PBDATA and LBDATA are refused.
fn check_flags(call: &Call<'_>, form: Form) -> Result<(), Sense> {
    let cdb = call.cdb;
    let unmaps = call.unit.unmaps() && matches!(form, Form::Sixteen);
    let anchors = call.unit.provisioning == Provisioning::Resource && unmap(call);
    let refused = [
        (4, cdb.bit(1, 4) && !anchors),
        (3, unmap(call) && !unmaps),
        (2, cdb.bit(1, 2)),
        (1, cdb.bit(1, 1)),
    ];
    match refused.into_iter().find(|&(_, refused)| refused) {
        Some((bit, _)) => Err(Sense::cdb_field(1, bit)),
        None => Ok(()),
    }
}
