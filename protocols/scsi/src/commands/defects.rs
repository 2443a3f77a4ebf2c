//! READ DEFECT DATA: the defect lists are always empty.
//!
//! Spec: SBC-4, 5.21 and 5.22.

use nearflash_request::Access;

use super::data_in::answer;
use crate::call::{Call, Command};
use crate::{Sense, Task};

pub(super) const COMMANDS: &[Command] = &[
    Command::of_unit(&[0x37, 0, 0x1F, 0, 0, 0, 0, 0xFF, 0xFF, 0x04], read_10)
        .admitted_for(Access::Read),
    Command::of_unit(&[0xB7, 0x1F, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0x04], read_12)
        .admitted_for(Access::Read),
];

fn read_10(call: &Call<'_>) -> Result<Task, Sense> {
    // Empty lists are available in every format, so the response repeats the requested ones.
    let asked = call.cdb.byte(2) & 0x1F;
    Ok(answer(vec![0, asked, 0, 0], u32::from(call.cdb.word(7))))
}

fn read_12(call: &Call<'_>) -> Result<Task, Sense> {
    let asked = call.cdb.byte(1) & 0x1F;
    Ok(answer(vec![0, asked, 0, 0, 0, 0, 0, 0], call.cdb.double(6)))
}
