//! Commands that address a range of blocks: the CDB fields, and the checks that all of them share.
//!
//! Spec: SBC-4, 4.7 and 5. Protection information is not supported, so every protect field must be
//! zero.

use nearflash_request::BlockRange;
use nearflash_units::{Blocks, ByteLen, Lba};

use crate::call::Call;
use crate::{Cdb, LogicalUnit, Sense, limits};

/// The CDB length, which locates LOGICAL BLOCK ADDRESS and the block count.
#[derive(Clone, Copy)]
pub(super) enum Form {
    Six,
    Ten,
    Twelve,
    Sixteen,
}

/// A command on a range of blocks: its form, opcode, evaluated bits of byte 1, and handler.
macro_rules! of_blocks {
    ($form:ident, $opcode:literal, $flags:literal, $handler:ident) => {
        Command::of_unit(usage_of_blocks!($form, $opcode, $flags), |call| {
            $handler(call, Form::$form)
        })
    };
}

/// The CDB usage data of a command that addresses a range of blocks.
#[rustfmt::skip]
macro_rules! usage_of_blocks {
    (Ten, $opcode:literal, $flags:literal) => {
        &[$opcode, $flags, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0xFF, 0xFF, 0x04]
    };
    (Twelve, $opcode:literal, $flags:literal) => {
        &[$opcode, $flags, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0x04]
    };
    (Sixteen, $opcode:literal, $flags:literal) => {
        &[
            $opcode, $flags, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
            0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0x04,
        ]
    };
}

impl Form {
    /// The addressed blocks. In a six-byte command a count of zero means 256.
    pub(super) fn range(self, cdb: &Cdb) -> BlockRange {
        let (start, count) = match self {
            Self::Six => {
                let count = if cdb.byte(4) == 0 { 256 } else { u32::from(cdb.byte(4)) };
                (u64::from(cdb.three(1) & 0x001F_FFFF), count)
            }
            Self::Ten => (u64::from(cdb.double(2)), u32::from(cdb.word(7))),
            Self::Twelve => (u64::from(cdb.double(2)), cdb.double(6)),
            Self::Sixteen => (cdb.quad(2), cdb.double(10)),
        };
        BlockRange { start: Lba(start), count: Blocks(u64::from(count)) }
    }

    /// The offset of the count, for the field pointer of sense data.
    pub(super) const fn count_at(self) -> u16 {
        match self {
            Self::Six => 4,
            Self::Ten => 7,
            Self::Twelve => 6,
            Self::Sixteen => 10,
        }
    }
}

/// RDPROTECT, WRPROTECT, VRPROTECT or ORPROTECT: bits 7 to 5 of byte 1.
pub(super) fn check_protect(cdb: &Cdb) -> Result<(), Sense> {
    if cdb.byte(1) >> 5 == 0 { Ok(()) } else { Err(Sense::cdb_field(1, 7)) }
}

/// A write-protected unit refuses every write command, even for zero blocks.
pub(super) const fn check_writable(unit: &LogicalUnit) -> Result<(), Sense> {
    match (unit.write_protected, unit.software_write_protected) {
        (true, _) => Err(Sense::WRITE_PROTECTED),
        (_, true) => Err(Sense::SOFTWARE_WRITE_PROTECTED),
        _ => Ok(()),
    }
}

/// Checks that the range lies within the unit. An empty range may begin at its end.
pub(super) fn check_range(unit: &LogicalUnit, range: BlockRange) -> Result<(), Sense> {
    if unit.blocks.contains(range.start, range.count) {
        Ok(())
    } else {
        Err(Sense::LBA_OUT_OF_RANGE.with_information(range.start.0))
    }
}

/// Extends a range whose count is zero to the end of the unit.
pub(super) fn to_the_end(unit: &LogicalUnit, range: BlockRange) -> BlockRange {
    if range.count.0 != 0 {
        return range;
    }
    BlockRange { count: Blocks(unit.blocks.0.saturating_sub(range.start.0)), ..range }
}

/// The range of a command that transfers all of its blocks, and its length.
pub(super) fn transferred(call: &Call<'_>, form: Form) -> Result<(BlockRange, ByteLen), Sense> {
    let range = form.range(call.cdb);
    check_range(call.unit, range)?;
    let len = len_at_most(call.unit, range, limits::TRANSFER_LEN_MAX);
    Ok((range, len.ok_or(Sense::cdb_field(form.count_at(), 7))?))
}

pub(super) fn len_at_most(unit: &LogicalUnit, range: BlockRange, max: ByteLen) -> Option<ByteLen> {
    unit.block_size.len(range.count).filter(|len| *len <= max)
}
