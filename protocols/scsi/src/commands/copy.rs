//! EXTENDED COPY and RECEIVE COPY RESULTS, with list identifiers of one byte (LID1).
//!
//! Spec: SPC-4, 6.4, 6.18, 7.8.17. Copies are from block device to block device, between the units
//! of one target. The units are identified by the designators of VPD page 83h. The whole list is
//! checked before anything is copied.

use nearflash_request::Access;
use nearflash_units::{Blocks, ByteLen, Lba};

use super::blocks::check_writable;
use super::data_in::{answer, len_u8, len_u16, len_u32};
use super::names::is_named;
use crate::call::{Call, Command};
use crate::copy::{CopyEnd, CopyId, CopyProgress, CopySegment, CopyTask};
use crate::limits::{
    BUFFER_LEN_MAX, COPIES_MAX, COPY_DESCRIPTORS_LEN_MAX, COPY_ENDS_MAX, COPY_SEGMENT_LEN_MAX,
    COPY_SEGMENTS_MAX,
};
use crate::{LogicalUnit, Sense, Task};

pub(super) const COMMANDS: &[Command] = &[
    Command::of_unit(
        &[0x83, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0x04],
        extended_copy,
    )
    .with_service_action()
    .with_parameters(parameters)
    .within_secs(120),
    Command::of_unit(
        &[0x84, 0, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0x04],
        copy_status,
    )
    .with_service_action()
    .admitted_for(Access::Manage),
    Command::of_unit(
        &[0x84, 0x03, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0x04],
        operating_parameters,
    )
    .with_service_action()
    .admitted_for(Access::Manage),
];

/// Length of the parameter list's header.
const HEADER_LEN: usize = 16;
/// Length of a target descriptor.
const END_LEN: usize = 32;
/// Length of a block-to-block segment descriptor.
const SEGMENT_LEN: usize = 28;
/// Length of a segment descriptor's header, up to and including its length field.
const SEGMENT_HEAD_LEN: usize = 4;

/// DESCRIPTOR TYPE CODE of block-to-block segments and of identification target descriptors. These
/// are the supported codes in ascending order.
const BLOCK_TO_BLOCK: u8 = 0x02;
const IDENTIFICATION: u8 = 0xE4;
const DESCRIPTORS: [u8; 2] = [BLOCK_TO_BLOCK, IDENTIFICATION];

fn extended_copy(call: &Call<'_>) -> Result<Task, Sense> {
    let len = ByteLen(u64::from(call.cdb.double(10)));
    match len.to_usize() {
        0 => Ok(call.nothing(Access::Manage)),
        HEADER_LEN.. if len.to_usize() <= HEADER_LEN + COPY_DESCRIPTORS_LEN_MAX => {
            Ok(Task::Parameters(len))
        }
        _ => Err(Sense::PARAMETER_LIST_LENGTH),
    }
}

fn parameters(call: &Call<'_>, bytes: &[u8]) -> Result<Task, Sense> {
    let (header, rest) =
        bytes.split_first_chunk::<HEADER_LEN>().ok_or(Sense::PARAMETER_LIST_LENGTH)?;
    let id = id_of(call, header)?;
    let [_, _, a, b, ..] = *header;
    let [.., c, d, e, f, g, h, i, j] = *header;
    let ends_len = usize::from(u16::from_be_bytes([a, b]));
    let segments_len = ByteLen(u64::from(u32::from_be_bytes([c, d, e, f]))).to_usize();
    if ends_len.saturating_add(segments_len) > COPY_DESCRIPTORS_LEN_MAX {
        return Err(Sense::PARAMETER_LIST_LENGTH);
    }
    let listed = rest.get(..ends_len + segments_len).ok_or(Sense::PARAMETER_LIST_LENGTH)?;
    if u32::from_be_bytes([g, h, i, j]) != 0 {
        return Err(Sense::INLINE_DATA_TOO_LONG);
    }
    let (ends, segments) = listed.split_at(ends_len);
    let ends = ends_of(call, ends)?;
    let segments = segments_of(&ends, segments)?;
    if segments.iter().all(|segment| segment.len.0 == 0) {
        return Ok(call.nothing(Access::Manage));
    }
    id.map_or(Ok(()), |id| call.copies.begin(id))?;
    Ok(Task::Copy(CopyTask { id, segments: segments.into() }))
}

/// LIST IDENTIFIER, if LIST ID USAGE has one.
fn id_of(call: &Call<'_>, header: &[u8; HEADER_LEN]) -> Result<Option<CopyId>, Sense> {
    let (list, usage) = (header[0], header[1] >> 3 & 0b11);
    match (usage, list) {
        (0b00 | 0b10, _) => Ok(Some(CopyId { lun: call.unit.lun, list })),
        (0b11, 0) => Ok(None),
        (0b11, _) => Err(Sense::parameter_field(0, 7)),
        _ => Err(Sense::parameter_field(1, 4)),
    }
}

/// The units that the target descriptors identify; `None` for a unit that is not in this target.
fn ends_of<'a>(call: &Call<'a>, bytes: &[u8]) -> Result<Vec<Option<&'a LogicalUnit>>, Sense> {
    let (descriptors, rest) = bytes.as_chunks::<END_LEN>();
    if !rest.is_empty() {
        return Err(Sense::PARAMETER_LIST_LENGTH);
    }
    if descriptors.len() > COPY_ENDS_MAX {
        return Err(Sense::TOO_MANY_TARGET_DESCRIPTORS);
    }
    let starts = (HEADER_LEN..).step_by(END_LEN);
    descriptors.iter().zip(starts).map(|(descriptor, at)| end_of(call, descriptor, at)).collect()
}

/// The unit of one identification descriptor. LU ID TYPE is ignored, and NUL is obsolete.
fn end_of<'a>(
    call: &Call<'a>,
    descriptor: &[u8; END_LEN],
    at: usize,
) -> Result<Option<&'a LogicalUnit>, Sense> {
    let [kind, peripheral, _, _, code_set, of, _, len, designator @ .., _, a, b, c] = descriptor;
    let field = |byte: usize| Sense::parameter_field(u16::try_from(at + byte).unwrap_or(0), 7);
    if *kind != IDENTIFICATION {
        return Err(Sense::UNSUPPORTED_TARGET_DESCRIPTOR);
    }
    if peripheral & 0x1F != 0 {
        return Err(Sense::INCORRECT_COPY_TARGET_TYPE);
    }
    let designator = designator.get(..usize::from(*len)).ok_or(field(7))?;
    let (code_set, of) = (code_set & 0x0F, of & 0x3F);
    let unit = call.units.iter().find(|unit| is_named(unit, code_set, of, designator));
    match unit {
        // DISK BLOCK LENGTH.
        Some(unit) if u32::from_be_bytes([0, *a, *b, *c]) != unit.block_size.bytes() => {
            Err(field(29))
        }
        _ => Ok(unit),
    }
}

fn segments_of(ends: &[Option<&LogicalUnit>], bytes: &[u8]) -> Result<Vec<CopySegment>, Sense> {
    let mut segments = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let &[kind, _, high, low, ..] = rest else { return Err(Sense::PARAMETER_LIST_LENGTH) };
        if segments.len() == COPY_SEGMENTS_MAX {
            return Err(Sense::TOO_MANY_SEGMENT_DESCRIPTORS);
        }
        if kind != BLOCK_TO_BLOCK {
            return Err(Sense::UNSUPPORTED_SEGMENT_DESCRIPTOR);
        }
        let is_whole =
            usize::from(u16::from_be_bytes([high, low])) + SEGMENT_HEAD_LEN == SEGMENT_LEN;
        let Some((descriptor, behind)) = rest.split_first_chunk().filter(|_| is_whole) else {
            return Err(Sense::INVALID_FIELD_IN_PARAMETERS);
        };
        segments.push(segment_of(ends, descriptor)?);
        rest = behind;
    }
    Ok(segments)
}

/// Decodes one segment descriptor. With DC the count is in blocks of the destination. The length
/// must be a whole number of blocks of both ends, because CAT and PAD, which handle the remainder,
/// are not supported.
fn segment_of(
    ends: &[Option<&LogicalUnit>],
    descriptor: &[u8; SEGMENT_LEN],
) -> Result<CopySegment, Sense> {
    let word = |at: usize| u16::from_be_bytes([descriptor[at], descriptor[at + 1]]);
    let lba = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&descriptor[at..at + 8]);
        Lba(u64::from_be_bytes(bytes))
    };
    let end = |index: u16| {
        let unit = ends.get(usize::from(index)).copied().flatten();
        unit.ok_or(Sense::COPY_TARGET_NOT_REACHABLE)
    };
    let (source, destination) = (end(word(4))?, end(word(6))?);
    let counted = if descriptor[1] & 1 << 1 != 0 { destination } else { source };
    let len = counted.block_size.len(Blocks(u64::from(word(10)))).unwrap_or_default();
    if !source.block_size.divides(len) || !destination.block_size.divides(len) {
        return Err(Sense::INEXACT_SEGMENT);
    }
    check_writable(destination)?;
    let place = |unit: &LogicalUnit, start| {
        let is_there = unit.blocks.contains(start, unit.block_size.blocks_in(len));
        let end = CopyEnd { volume: unit.volume, block_size: unit.block_size, start };
        is_there.then_some(end).ok_or(Sense::COPY_ABORTED)
    };
    let (source, destination) = (place(source, lba(12))?, place(destination, lba(20))?);
    Ok(CopySegment { source, destination, len })
}

fn copy_status(call: &Call<'_>) -> Result<Task, Sense> {
    let id = CopyId { lun: call.unit.lun, list: call.cdb.byte(2) };
    let progress = call.copies.get(id).ok_or(Sense::cdb_field(2, 7))?;
    let CopyProgress { state, segments, copied } = progress;
    let mut body = vec![state as u8];
    body.extend(segments.to_be_bytes());
    body.push(1); // TRANSFER COUNT UNITS: KiB
    body.extend(u32::try_from(copied.0 >> 10).unwrap_or(u32::MAX).to_be_bytes());
    let data = [&len_u32(body.len())[..], &body].concat();
    Ok(answer(data, call.cdb.double(10)))
}

/// OPERATING PARAMETERS: the limits of a list and the granularity of copies.
fn operating_parameters(call: &Call<'_>) -> Result<Task, Sense> {
    /// SNLID: lists without an identifier.
    const WITHOUT_ID: u8 = 1 << 0;
    let mut body = vec![WITHOUT_ID, 0, 0, 0];
    body.extend(len_u16(COPY_ENDS_MAX));
    body.extend(len_u16(COPY_SEGMENTS_MAX));
    body.extend(len_u32(COPY_DESCRIPTORS_LEN_MAX));
    body.extend(len_u32(COPY_SEGMENT_LEN_MAX.to_usize()));
    body.extend([0; 12]); // no inline data, no held data, no stream devices
    body.extend([0; 2]);
    body.extend(len_u16(COPIES_MAX));
    body.push(len_u8(COPIES_MAX));
    body.push(granularity());
    body.extend([0; 5]);
    body.push(len_u8(DESCRIPTORS.len()));
    body.extend(DESCRIPTORS);
    let data = [&len_u32(body.len())[..], &body].concat();
    Ok(answer(data, call.cdb.double(10)))
}

/// The length of the pieces that segments are copied in, as an exponent of two.
fn granularity() -> u8 {
    u8::try_from(BUFFER_LEN_MAX.0.trailing_zeros()).unwrap_or(0)
}

/// VPD page 8Fh, third-party copy: the same parameters, and the supported commands.
pub(super) fn third_party_page(_: &LogicalUnit) -> Vec<u8> {
    let mut page = Vec::new();
    // Each opcode, the number of its service actions, and the service actions.
    descriptor(&mut page, 0x0001, &[&[7, 0x83, 1, 0x00, 0x84, 2, 0x00, 0x03]]);
    let (ends, segments) = (len_u16(COPY_ENDS_MAX), len_u16(COPY_SEGMENTS_MAX));
    let list_len = len_u32(COPY_DESCRIPTORS_LEN_MAX);
    descriptor(&mut page, 0x0004, &[&[0; 4], &ends, &segments, &list_len, &[0; 16]]);
    descriptor(&mut page, 0x0008, &[&[len_u8(DESCRIPTORS.len())], &DESCRIPTORS]);
    let copies = len_u32(COPIES_MAX);
    let segment_len = len_u32(COPY_SEGMENT_LEN_MAX.to_usize());
    descriptor(&mut page, 0x8001, &[&copies, &copies, &segment_len, &[granularity()], &[0; 19]]);
    page
}

/// A descriptor of the page, padded to a multiple of four bytes.
fn descriptor(page: &mut Vec<u8>, kind: u16, parts: &[&[u8]]) {
    let mut body = parts.concat();
    body.resize(body.len().next_multiple_of(4), 0);
    page.extend(kind.to_be_bytes());
    page.extend(len_u16(body.len()));
    page.extend(body);
}
