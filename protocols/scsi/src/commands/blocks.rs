//! Commands that name a run of blocks: how they name it, and what is checked before anything else.
//!
//! Spec: SBC-4, 4.7 and 5; protection information is not there, so that every protect field has to
//! be zero.

use nearflash_request::BlockRange;
use nearflash_units::{Blocks, ByteLen, Lba};

use crate::call::Call;
use crate::{Cdb, LogicalUnit, Sense, limits};

/// Where a CDB has LOGICAL BLOCK ADDRESS and the count of blocks: it depends on its length alone.
#[derive(Clone, Copy)]
pub(super) enum Form {
    Six,
    Ten,
    Twelve,
    Sixteen,
}

/// A command that names a run of blocks: how, its operation code, the bits of byte 1 that it looks
/// at, its handler.
macro_rules! of_blocks {
    ($form:ident, $opcode:literal, $flags:literal, $handler:ident) => {
        Command::of_unit(usage_of_blocks!($form, $opcode, $flags), |call| {
            $handler(call, Form::$form)
        })
    };
}

/// The CDB usage data of such a command.
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
    /// The blocks. Six-byte commands know no count of zero: they mean 256 by it.
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

    /// The count's first byte, for what sense data points at.
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

/// Nothing is written to a unit that is protected, however little it would be.
pub(super) const fn check_writable(unit: &LogicalUnit) -> Result<(), Sense> {
    match (unit.write_protected, unit.software_write_protected) {
        (true, _) => Err(Sense::WRITE_PROTECTED),
        (_, true) => Err(Sense::SOFTWARE_WRITE_PROTECTED),
        _ => Ok(()),
    }
}

/// The unit ends where it ends; a run of no blocks may begin there.
pub(super) fn check_range(unit: &LogicalUnit, range: BlockRange) -> Result<(), Sense> {
    if unit.blocks.contains(range.start, range.count) {
        Ok(())
    } else {
        Err(Sense::LBA_OUT_OF_RANGE.with_information(range.start.0))
    }
}

/// A count of zero means all blocks up to the end.
pub(super) fn to_the_end(unit: &LogicalUnit, range: BlockRange) -> BlockRange {
    if range.count.0 != 0 {
        return range;
    }
    BlockRange { count: Blocks(unit.blocks.0.saturating_sub(range.start.0)), ..range }
}

/// The run of a command that moves as much data as the run is long.
pub(super) fn transferred(call: &Call<'_>, form: Form) -> Result<(BlockRange, ByteLen), Sense> {
    let range = form.range(call.cdb);
    check_range(call.unit, range)?;
    let len = len_at_most(call.unit, range, limits::TRANSFER_LEN_MAX);
    Ok((range, len.ok_or(Sense::cdb_field(form.count_at(), 7))?))
}

/// How long a run is, if it is no longer than `max`.
pub(super) fn len_at_most(unit: &LogicalUnit, range: BlockRange, max: ByteLen) -> Option<ByteLen> {
    unit.block_size.len(range.count).filter(|len| *len <= max)
}
