//! INQUIRY: the identification of a unit.
//!
//! Spec: SPC-4, 6.6.

use super::data_in::{answer, ascii};
use super::names::{DISK, VENDOR};
use super::vpd;
use crate::call::{Asked, Command};
use crate::{Sense, Task};

pub(super) const COMMANDS: &[Command] =
    &[Command::always(&[0x12, 0x01, 0xFF, 0xFF, 0xFF, 0x04], inquiry)];

const PRODUCT: &str = "nearflash volume";
/// PRODUCT REVISION LEVEL.
const REVISION: &str =
    concat!(env!("CARGO_PKG_VERSION_MAJOR"), ".", env!("CARGO_PKG_VERSION_MINOR"));

/// PERIPHERAL QUALIFIER and DEVICE TYPE of a number without a unit: 011b and 1Fh.
const NO_UNIT: u8 = 0x7F;

/// VERSION: SPC-4.
const VERSION: u8 = 0x06;
/// HISUP: LUNs have the format of REPORT LUNS; RESPONSE DATA FORMAT 2.
const FORMAT: u8 = 1 << 4 | 2;
/// CMDQUE: command queuing is supported.
const QUEUES: u8 = 1 << 1;
/// TPGS: implicit asymmetric access, which REPORT TARGET PORT GROUPS describes.
const IMPLICIT_GROUPS: u8 = 0b01 << 4;
/// 3PC: third-party copies.
const COPIES: u8 = 1 << 3;
/// VERSION DESCRIPTORs: SAM-5, iSCSI, SPC-4, SBC-3.
const VERSIONS: [u16; 4] = [0x00A0, 0x0960, 0x0460, 0x04C0];

/// Length of standard INQUIRY data.
const STANDARD_LEN: usize = 96;

fn inquiry(asked: &Asked<'_>) -> Result<Task, Sense> {
    let cdb = asked.cdb;
    let allocation_len = u32::from(cdb.word(3));
    let data = match (cdb.bit(1, 0), cdb.byte(2)) {
        (false, 0) => standard(asked),
        (false, _) => return Err(Sense::cdb_field(2, 7)),
        (true, page) => vpd::page(asked, page)?,
    };
    Ok(answer(data, allocation_len))
}

fn standard(asked: &Asked<'_>) -> Vec<u8> {
    let mut data = Vec::with_capacity(STANDARD_LEN);
    let kind = if asked.unit.is_some() { DISK } else { NO_UNIT };
    data.extend([kind, 0, VERSION, FORMAT]);
    data.extend([super::data_in::len_u8(STANDARD_LEN - 5), IMPLICIT_GROUPS | COPIES, 0, QUEUES]);
    data.extend(ascii::<8>(VENDOR));
    data.extend(ascii::<16>(PRODUCT));
    data.extend(ascii::<4>(REVISION));
    data.resize(58, 0);
    data.extend(VERSIONS.iter().flat_map(|version| version.to_be_bytes()));
    data.resize(STANDARD_LEN, 0);
    data
}
