//! UNMAP: deallocates blocks.
//!
//! Spec: SBC-4, 5.35. Only units with unmapping support it.

use nearflash_request::{Access, BlockRange};
use nearflash_units::{Blocks, ByteLen, Lba};

use super::blocks::{check_range, check_writable};
use crate::call::{Call, Command, Needs};
use crate::task::{Action, NO_BLOCKS, RequestTask};
use crate::{Provisioning, Sense, Task, limits};

pub(super) const COMMANDS: &[Command] =
    &[Command::of_unit(&[0x42, 0x01, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0x04], unmap)
        .with_parameters(descriptors)
        .needing(Needs::Unmapping)
        .within_secs(60)];

/// Length of the header before the block descriptors.
const HEADER_LEN: usize = 8;
/// Length of a block descriptor.
const DESCRIPTOR_LEN: usize = 16;

fn unmap(call: &Call<'_>) -> Result<Task, Sense> {
    // ANCHOR is only allowed if unmapped blocks are anchored.
    if call.cdb.bit(1, 0) && call.unit.provisioning != Provisioning::Resource {
        return Err(Sense::cdb_field(1, 0));
    }
    check_writable(call.unit)?;
    let len = ByteLen(u64::from(call.cdb.word(7)));
    match len {
        ByteLen(0) => Ok(call.nothing(Access::Write)),
        _ if len.to_usize() < HEADER_LEN => Err(Sense::PARAMETER_LIST_LENGTH),
        // More descriptors than VPD page B0h allows.
        _ if len > limits::PARAMETERS_LEN_MAX => Err(Sense::INVALID_FIELD_IN_PARAMETERS),
        _ => Ok(Task::Parameters(len)),
    }
}

fn descriptors(call: &Call<'_>, bytes: &[u8]) -> Result<Task, Sense> {
    let (header, rest) = bytes.split_at_checked(HEADER_LEN).ok_or(Sense::PARAMETER_LIST_LENGTH)?;
    let len = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let listed = rest.get(..len).ok_or(Sense::PARAMETER_LIST_LENGTH)?;
    let (listed, _) = listed.as_chunks::<DESCRIPTOR_LEN>(); // a partial one is ignored
    let mut ranges = Vec::with_capacity(listed.len());
    let mut sum = 0_u64;
    for (descriptor, at) in listed.iter().zip((HEADER_LEN..).step_by(DESCRIPTOR_LEN)) {
        let range = range_of(descriptor);
        check_range(call.unit, range)?;
        sum = sum.saturating_add(range.count.0);
        if sum > limits::UNMAP_BLOCKS_MAX {
            return Err(Sense::parameter_field(u16::try_from(at + 8).unwrap_or(u16::MAX), 7));
        }
        if range.count.0 != 0 {
            ranges.push(range);
        }
    }
    if ranges.is_empty() {
        return Ok(call.nothing(Access::Write));
    }
    let action = Action::Deallocate(ranges.into());
    Ok(Task::Request(RequestTask::new(action, NO_BLOCKS, call.unit.block_size)))
}

fn range_of(descriptor: &[u8; DESCRIPTOR_LEN]) -> BlockRange {
    let [a, b, c, d, e, f, g, h, i, j, k, l, ..] = *descriptor;
    BlockRange {
        start: Lba(u64::from_be_bytes([a, b, c, d, e, f, g, h])),
        count: Blocks(u64::from(u32::from_be_bytes([i, j, k, l]))),
    }
}
