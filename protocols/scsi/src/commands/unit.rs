//! The state of a unit: readiness, capacity, start and stop.
//!
//! Spec: SPC-4, 6.47; SBC-4, 5.15 to 5.20 and 5.31.

use nearflash_request::Access;
use nearflash_units::Lba;

use super::data_in::{answer, cut};
use super::lba_status::run_from;
use crate::call::{Call, Command};
use crate::task::{Action, Reply, RequestTask};
use crate::{Sense, Task};

pub(super) const COMMANDS: &[Command] = &[
    // TEST UNIT READY: every existing unit is ready.
    Command::of_unit(&[0x00, 0, 0, 0, 0, 0x04], |_| Ok(Task::Good)).admitted_for(Access::Look),
    Command::of_unit(&[0x1B, 0x01, 0, 0x0F, 0xF7, 0x04], start_stop).within_secs(30),
    Command::of_unit(&[0x1E, 0, 0, 0, 0x03, 0x04], prevent_allow),
    Command::of_unit(&[0x25, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0x01, 0x04], read_capacity_10),
    Command::of_unit(
        &[
            0x9E, 0x10, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
            0x01, 0x04,
        ],
        read_capacity_16,
    )
    .with_service_action(),
    Command::of_unit(
        &[
            0x9E, 0x12, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0,
            0x04,
        ],
        get_lba_status,
    )
    .with_service_action()
    .within_secs(30),
];

/// PREVENT ALLOW MEDIUM REMOVAL: the medium is not removable. Under a reservation, preventing needs
/// `Access::Manage`, and allowing only `Access::Look`. SPC-4, 5.13.1.
fn prevent_allow(call: &Call<'_>) -> Result<Task, Sense> {
    let prevents = call.cdb.byte(4) & 0b11 != 0;
    Ok(call.nothing(if prevents { Access::Manage } else { Access::Look }))
}

fn read_capacity_10(call: &Call<'_>) -> Result<Task, Sense> {
    check_partial_medium(call)?;
    let last = call.unit.blocks.0.saturating_sub(1);
    let mut data = Vec::with_capacity(8);
    data.extend(u32::try_from(last).unwrap_or(u32::MAX).to_be_bytes());
    data.extend(call.unit.block_size.bytes().to_be_bytes());
    Ok(Task::DataIn(data))
}

/// Without PMI, the obsolete LOGICAL BLOCK ADDRESS must be zero; with it, it does not matter.
fn check_partial_medium(call: &Call<'_>) -> Result<(), Sense> {
    let asks_at = call.cdb.double(2) != 0;
    if asks_at && !call.cdb.bit(8, 0) { Err(Sense::cdb_field(2, 7)) } else { Ok(()) }
}

/// LBPME: unmapping is supported.
const MANAGED: u8 = 1 << 7;
/// LBPRZ: released blocks read as zeroes.
const READS_ZEROES: u8 = 1 << 6;

fn read_capacity_16(call: &Call<'_>) -> Result<Task, Sense> {
    if call.cdb.quad(2) != 0 && !call.cdb.bit(14, 0) {
        return Err(Sense::cdb_field(2, 7));
    }
    let unit = call.unit;
    let mut data = Vec::with_capacity(32);
    data.extend(unit.blocks.0.saturating_sub(1).to_be_bytes());
    data.extend(unit.block_size.bytes().to_be_bytes());
    data.extend([0, unit.blocks_per_physical_shift()]); // no protection
    data.extend([if unit.unmaps() { MANAGED | READS_ZEROES } else { 0 }, 0]);
    data.resize(32, 0);
    Ok(answer(data, call.cdb.double(10)))
}

fn get_lba_status(call: &Call<'_>) -> Result<Task, Sense> {
    let (unit, start) = (call.unit, Lba(call.cdb.quad(2)));
    if start.0 >= unit.blocks.0 {
        return Err(Sense::LBA_OUT_OF_RANGE.with_information(start.0));
    }
    let range = run_from(start, unit.blocks);
    let allocation_len = call.cdb.double(10);
    let reply = Reply::LbaStatus { allocation_len };
    let data_in = nearflash_units::ByteLen::of(&cut(vec![0; 24], allocation_len));
    let task = RequestTask::new(Action::Allocation, range, unit.block_size);
    Ok(Task::Request(RequestTask { reply, data_in, ..task }))
}

/// START STOP UNIT: a stop only makes all writes durable. SBC-4, 5.31. Load and eject are for
/// removable media and are refused. Under a reservation any initiator may start a unit, but other
/// power changes need `Access::Manage` (SBC-4, 4.17).
fn start_stop(call: &Call<'_>) -> Result<Task, Sense> {
    let cdb = call.cdb;
    let power_condition = cdb.byte(4) >> 4;
    let (load_eject, start) = (cdb.bit(4, 1), cdb.bit(4, 0));
    let no_flush = cdb.bit(4, 2);
    match power_condition {
        0 if load_eject => Err(Sense::cdb_field(4, 1)),
        0 if start => Ok(call.nothing(Access::Look)),
        0 if no_flush || call.unit.is_read_only() => Ok(call.nothing(Access::Manage)),
        0 => Ok(call.flush()),
        // ACTIVE, IDLE, STANDBY, LU_CONTROL, FORCE IDLE 0, FORCE STANDBY 0
        0x1..=0x3 | 0x7 | 0xA | 0xB => Ok(call.nothing(Access::Manage)),
        _ => Err(Sense::cdb_field(4, 7)),
    }
}
