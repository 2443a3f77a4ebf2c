//! Commands for any LUN, even without a unit: REPORT LUNS and REQUEST SENSE.
//!
//! Spec: SPC-4, 6.33 and 6.39.

use nearflash_request::Attention;

use super::data_in::{answer, len_u32};
use crate::call::{Asked, Command};
use crate::{Sense, Task, lun, sense_of_attention};

pub(super) const COMMANDS: &[Command] = &[
    Command::always(&[0x03, 0x01, 0, 0, 0xFF, 0x04], request_sense),
    Command::always(&[0xA0, 0, 0xFF, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0x04], report_luns),
];

/// The minimum ALLOCATION LENGTH of a REPORT LUNS.
const REPORT_LEN_MIN: u32 = 16;

fn report_luns(asked: &Asked<'_>) -> Result<Task, Sense> {
    let cdb = asked.cdb;
    let allocation_len = cdb.double(6);
    if allocation_len < REPORT_LEN_MIN {
        return Err(Sense::cdb_field(6, 7));
    }
    let listed = match cdb.byte(2) {
        0x00 | 0x02 => asked.units.len(),
        0x01 => 0, // well-known logical units: none
        _ => return Err(Sense::cdb_field(2, 7)),
    };
    let mut data = Vec::with_capacity(8 + listed * 8);
    data.extend(len_u32(listed * 8));
    data.extend([0; 4]);
    data.extend(asked.units.iter().take(listed).flat_map(|unit| lun::to_bytes(unit.lun)));
    // SPC-4, 6.33: this clears REPORTED LUNS DATA HAS CHANGED.
    asked.attentions.withdraw_all(Attention::UnitsChanged);
    Ok(answer(data, allocation_len))
}

/// Errors are reported with their command (autosense), so only a unit attention can be pending.
fn request_sense(asked: &Asked<'_>) -> Result<Task, Sense> {
    let sense = match asked.unit {
        None => Sense::NO_SUCH_UNIT,
        Some(unit) => asked.attentions.take(unit.lun).map_or(Sense::NONE, sense_of_attention),
    };
    let descriptors = asked.cdb.bit(1, 0);
    Ok(answer(sense.to_bytes(descriptors), u32::from(asked.cdb.byte(4))))
}
