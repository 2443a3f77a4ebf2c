//! The commands: a table of small handlers, each with the CDB bits that it evaluates. REPORT
//! SUPPORTED OPERATION CODES reports this table.

#[macro_use]
mod blocks;
mod copy;
mod data_in;
mod defects;
mod inquiry;
pub(crate) mod lba_status;
mod luns;
mod mode;
mod names;
mod opcodes;
mod read_write;
pub(crate) mod reserve_in;
mod reserve_out;
mod unit;
mod unmap;
mod verify;
mod vpd;
mod write_same;

use crate::call::Command;
use crate::{Cdb, LogicalUnit};

/// All commands, sorted by operation code within each group.
pub(crate) const GROUPS: [&[Command]; 13] = [
    read_write::COMMANDS,
    verify::COMMANDS,
    write_same::COMMANDS,
    unmap::COMMANDS,
    unit::COMMANDS,
    inquiry::COMMANDS,
    luns::COMMANDS,
    mode::COMMANDS,
    opcodes::COMMANDS,
    defects::COMMANDS,
    copy::COMMANDS,
    reserve_in::COMMANDS,
    reserve_out::COMMANDS,
];

/// The group and index of the first command of each operation code, for a single lookup.
const FIRST: [Option<(usize, usize)>; 256] = {
    let mut first = [None; 256];
    let mut group = 0;
    while group < GROUPS.len() {
        let mut place = 0;
        while place < GROUPS[group].len() {
            let opcode = GROUPS[group][place].opcode();
            // Not `usize::from`, which is not const.
            let index = opcode as usize;
            if first[index].is_none() {
                first[index] = Some((group, place));
            }
            place += 1;
        }
        group += 1;
    }
    first
};

/// The commands of an operation code, which are adjacent.
fn of_opcode(opcode: u8) -> impl Iterator<Item = &'static Command> {
    let (group, place) = FIRST[usize::from(opcode)].unwrap_or((0, GROUPS[0].len()));
    GROUPS[group][place..].iter().take_while(move |command| command.opcode() == opcode)
}

pub(crate) fn find(cdb: &Cdb) -> Option<&'static Command> {
    of_opcode(cdb.opcode()).find(|command| {
        command.service_action().is_none_or(|action| action == cdb.service_action())
    })
}

/// Whether a unit supports an operation code that has several commands.
pub(crate) fn has_service_actions(opcode: u8, unit: &LogicalUnit) -> bool {
    of_opcode(opcode).any(|command| command.has_service_action && command.is_of(unit))
}
