//! MODE SENSE and MODE SELECT: the parameters of a unit, a few of which are changeable.
//!
//! Spec: SPC-4, 6.13 to 6.16 and 7.5; SBC-4, 6.5. Changes apply to all initiators until a reset.
//! None is saved.

use nearflash_request::{Access, ChangeKind, Modes};
use nearflash_units::ByteLen;

use super::data_in::{answer, len_u8, len_u16};
use crate::call::{Call, Command};
use crate::task::{ChangeTask, ReportReply};
use crate::{LogicalUnit, Sense, Task, limits};

pub(super) const COMMANDS: &[Command] = &[
    Command::of_unit(&[0x15, 0x11, 0, 0, 0xFF, 0x04], |call| {
        select(call, u64::from(call.cdb.byte(4)), HEADER_6_LEN)
    })
    .with_parameters(take_6)
    .within_secs(10),
    Command::of_unit(&[0x1A, 0x08, 0xFF, 0xFF, 0xFF, 0x04], sense_6).admitted_for(Access::Read),
    Command::of_unit(&[0x55, 0x11, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0x04], |call| {
        select(call, u64::from(call.cdb.word(7)), HEADER_10_LEN)
    })
    .with_parameters(take_10)
    .within_secs(10),
    Command::of_unit(&[0x5A, 0x18, 0xFF, 0xFF, 0, 0, 0, 0xFF, 0xFF, 0x04], sense_10)
        .admitted_for(Access::Read),
];

/// A mode page: its code and subpage code, its contents, and its changeable bits.
struct Page {
    code: u8,
    subpage: u8,
    current: fn(&LogicalUnit) -> Vec<u8>,
    /// See [`Page::changeable`].
    changeable: &'static [u8],
}

/// All pages, in the order in which they are returned.
const PAGES: [Page; 5] = [
    Page { code: 0x01, subpage: 0, current: error_recovery, changeable: &[0; 10] },
    Page { code: 0x08, subpage: 0, current: caching, changeable: &[0; 18] },
    Page { code: CONTROL, subpage: 0, current: control, changeable: &CONTROL_CHANGEABLE },
    Page { code: CONTROL, subpage: 1, current: |_| vec![0; 28], changeable: &[0; 28] },
    Page { code: 0x1C, subpage: 0, current: |_| vec![0; 10], changeable: &[0; 10] },
];

/// PAGE CODE of the control page.
const CONTROL: u8 = 0x0A;
/// PAGE CODE for all pages, and SUBPAGE CODE for all subpages.
const ALL_PAGES: u8 = 0x3F;
const ALL_SUBPAGES: u8 = 0xFF;

/// D_SENSE, in byte 2 of the control page, which is the first byte after the page's header.
const D_SENSE: u8 = 1 << 2;
/// SWP, in byte 4.
const SWP: u8 = 1 << 3;
/// The bits that MODE SELECT can change.
const CONTROL_CHANGEABLE: [u8; 10] = [D_SENSE, 0, SWP, 0, 0, 0, 0, 0, 0, 0];

/// AWRE and ARRE: the device reallocates defective blocks automatically.
fn error_recovery(_: &LogicalUnit) -> Vec<u8> {
    vec![0xC0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
}

fn caching(unit: &LogicalUnit) -> Vec<u8> {
    let mut body = vec![0; 18];
    body[0] = if unit.volatile_cache { 1 << 2 } else { 0 };
    body
}

/// One task set for all initiators, unrestricted reordering, and an unlimited busy timeout.
fn control(unit: &LogicalUnit) -> Vec<u8> {
    /// GLTSD: logging is not implicitly enabled.
    const NO_LOG: u8 = 1 << 1;
    /// QUEUE ALGORITHM MODIFIER: unrestricted.
    const ANY_ORDER: u8 = 1 << 4;
    /// TAS: commands that another initiator aborts end with TASK ABORTED.
    const SAYS_ABORTED: u8 = 1 << 6;
    let d_sense = if unit.descriptor_sense { D_SENSE } else { 0 };
    let swp = if unit.software_write_protected { SWP } else { 0 };
    vec![NO_LOG | d_sense, ANY_ORDER, swp, SAYS_ABORTED, 0, 0, 0xFF, 0xFF, 0, 0]
}

fn by_default(unit: &LogicalUnit) -> LogicalUnit {
    LogicalUnit { software_write_protected: false, descriptor_sense: false, ..unit.clone() }
}

impl Page {
    /// The page with its header, whose format depends on the subpage code. SPC-4.
    fn with_header(&self, body: &[u8]) -> Vec<u8> {
        let mut bytes = match self.subpage {
            0 => vec![self.code, len_u8(body.len())],
            subpage => {
                let [high, low] = len_u16(body.len());
                vec![0x40 | self.code, subpage, high, low]
            }
        };
        bytes.extend(body);
        bytes
    }

    /// The bits that MODE SELECT can change. Other nodes would not know a change of a unit that they serve, too.
    fn changeable(&self, unit: &LogicalUnit) -> Vec<u8> {
        match unit.support.reservations {
            true => self.changeable.to_vec(),
            false => vec![0; self.changeable.len()],
        }
    }

    const fn is_asked(&self, code: u8, subpage: u8) -> bool {
        let subpage_fits = subpage == ALL_SUBPAGES || subpage == self.subpage;
        (code == ALL_PAGES || code == self.code) && subpage_fits
    }
}

/// The pages of a MODE SENSE. PC selects current, changeable, default or saved values.
fn pages(call: &Call<'_>) -> Result<Vec<u8>, Sense> {
    let (control, code) = (call.cdb.byte(2) >> 6, call.cdb.byte(2) & 0x3F);
    let body: &dyn Fn(&Page) -> Vec<u8> = match control {
        0 => &|page| (page.current)(call.unit),
        1 => &|page| page.changeable(call.unit),
        2 => &|page| (page.current)(&by_default(call.unit)),
        _ => return Err(Sense::SAVING_NOT_SUPPORTED),
    };
    let subpage = call.cdb.byte(3);
    if code == ALL_PAGES && !matches!(subpage, 0 | ALL_SUBPAGES) {
        return Err(Sense::cdb_field(3, 7));
    }
    let asked = PAGES.iter().filter(|page| page.is_asked(code, subpage));
    let bytes: Vec<u8> = asked.flat_map(|page| page.with_header(&body(page))).collect();
    match bytes.is_empty() {
        true if PAGES.iter().any(|page| page.code == code) => Err(Sense::cdb_field(3, 7)),
        true => Err(Sense::cdb_field(2, 5)),
        false => Ok(bytes),
    }
}

/// DEVICE-SPECIFIC PARAMETER: WP and DPOFUA.
fn device_specific(unit: &LogicalUnit) -> u8 {
    let protected = if unit.is_read_only() { 1 << 7 } else { 0 };
    protected | 1 << 4
}

/// The block descriptor with a block count of four bytes.
fn short_descriptor(unit: &LogicalUnit) -> [u8; 8] {
    let [a, b, c, d] = u32::try_from(unit.blocks.0).unwrap_or(u32::MAX).to_be_bytes();
    let [_, e, f, g] = unit.block_size.bytes().to_be_bytes();
    [a, b, c, d, 0, e, f, g]
}

/// The block descriptor with a block count of eight bytes.
fn long_descriptor(unit: &LogicalUnit) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&unit.blocks.0.to_be_bytes());
    bytes[12..].copy_from_slice(&unit.block_size.bytes().to_be_bytes());
    bytes
}

/// The block descriptor of a MODE SENSE; empty if DBD is set.
fn descriptor(call: &Call<'_>, long: bool) -> Vec<u8> {
    match (call.cdb.bit(1, 3), long) {
        (true, _) => Vec::new(),
        (false, true) => long_descriptor(call.unit).to_vec(),
        (false, false) => short_descriptor(call.unit).to_vec(),
    }
}

fn sense_6(call: &Call<'_>) -> Result<Task, Sense> {
    let pages = pages(call)?;
    let descriptor = descriptor(call, false);
    let rest = 3 + descriptor.len() + pages.len(); // MODE DATA LENGTH: the length after it
    let mut data = vec![len_u8(rest), 0, device_specific(call.unit), len_u8(descriptor.len())];
    data.extend(descriptor);
    data.extend(pages);
    Ok(answer(data, u32::from(call.cdb.byte(4))))
}

fn sense_10(call: &Call<'_>) -> Result<Task, Sense> {
    let pages = pages(call)?;
    let long = call.cdb.bit(1, 4) && !call.cdb.bit(1, 3); // LLBAA
    let descriptor = descriptor(call, long);
    let mut data = len_u16(6 + descriptor.len() + pages.len()).to_vec();
    data.extend([0, device_specific(call.unit), u8::from(long), 0]);
    data.extend(len_u16(descriptor.len()));
    data.extend(descriptor);
    data.extend(pages);
    Ok(answer(data, u32::from(call.cdb.word(7))))
}

/// Length of the mode parameter header of MODE SELECT (6), and of (10).
const HEADER_6_LEN: usize = 4;
const HEADER_10_LEN: usize = 8;

fn select(call: &Call<'_>, len: u64, header_len: usize) -> Result<Task, Sense> {
    if call.cdb.bit(1, 0) {
        return Err(Sense::cdb_field(1, 0)); // SP
    }
    match ByteLen(len) {
        ByteLen(0) => Ok(change(call.unit, modes_of(call.unit))),
        len if len.to_usize() < header_len => Err(Sense::PARAMETER_LIST_LENGTH),
        len if len > limits::PARAMETERS_LEN_MAX => Err(Sense::PARAMETER_LIST_LENGTH),
        len => Ok(Task::Parameters(len)),
    }
}

/// A list without a change of a unit that cannot change succeeds.
fn change(unit: &LogicalUnit, modes: Modes) -> Task {
    match unit.support.reservations {
        true => {
            let kind = ChangeKind::SetModes(modes);
            Task::Change(ChangeTask { kind, reply: ReportReply::Status })
        }
        false => Task::Good,
    }
}

const fn modes_of(unit: &LogicalUnit) -> Modes {
    Modes {
        write_protected: unit.software_write_protected,
        descriptor_sense: unit.descriptor_sense,
    }
}

fn take_6(call: &Call<'_>, bytes: &[u8]) -> Result<Task, Sense> {
    let header = bytes.first_chunk::<HEADER_6_LEN>().ok_or(Sense::PARAMETER_LIST_LENGTH)?;
    take(call, bytes, HEADER_6_LEN, usize::from(header[3]), false)
}

fn take_10(call: &Call<'_>, bytes: &[u8]) -> Result<Task, Sense> {
    let header = bytes.first_chunk::<HEADER_10_LEN>().ok_or(Sense::PARAMETER_LIST_LENGTH)?;
    let descriptors_len = usize::from(u16::from_be_bytes([header[6], header[7]]));
    take(call, bytes, HEADER_10_LEN, descriptors_len, header[4] & 1 != 0)
}

/// Checks the whole list before anything is changed.
fn take(
    call: &Call<'_>,
    bytes: &[u8],
    header_len: usize,
    descriptors_len: usize,
    long: bool,
) -> Result<Task, Sense> {
    let pages_at = header_len + descriptors_len;
    let descriptors = bytes.get(header_len..pages_at).ok_or(Sense::PARAMETER_LIST_LENGTH)?;
    check_descriptor(call.unit, descriptors, header_len, long)?;
    let mut modes = modes_of(call.unit);
    let mut at = pages_at;
    while at < bytes.len() {
        at += take_page(call.unit, bytes, at, &mut modes)?;
    }
    Ok(change(call.unit, modes))
}

/// Checks a block descriptor. It must have the unit's block size, and the unit's block count, zero
/// or the maximum value.
fn check_descriptor(
    unit: &LogicalUnit,
    descriptors: &[u8],
    at: usize,
    long: bool,
) -> Result<(), Sense> {
    let (count, all, size) = match (descriptors, long) {
        ([], _) => return Ok(()),
        (&[a, b, c, d, _, e, f, g], false) => {
            let count = u64::from(u32::from_be_bytes([a, b, c, d]));
            (count, u64::from(u32::MAX), u32::from_be_bytes([0, e, f, g]))
        }
        (&[a, b, c, d, e, f, g, h, _, _, _, _, i, j, k, l], true) => {
            let count = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
            (count, u64::MAX, u32::from_be_bytes([i, j, k, l]))
        }
        _ => return Err(field(at.saturating_sub(1), 7)), // BLOCK DESCRIPTOR LENGTH
    };
    if ![0, all, unit.blocks.0].contains(&count) {
        return Err(field(at, 7));
    }
    let size_at = at + descriptors.len() - if long { 4 } else { 3 };
    if size == unit.block_size.bytes() { Ok(()) } else { Err(field(size_at, 7)) }
}

fn field(at: usize, bit: u8) -> Sense {
    Sense::parameter_field(u16::try_from(at).unwrap_or(u16::MAX), bit)
}

/// Applies one page of a list to `modes`, and returns its length.
fn take_page(
    unit: &LogicalUnit,
    bytes: &[u8],
    at: usize,
    modes: &mut Modes,
) -> Result<usize, Sense> {
    let rest = bytes.get(at..).unwrap_or_default();
    let (code, subpage, header_len, len) = match *rest {
        [first, subpage, high, low, ..] if first & 0x40 != 0 => {
            (first & 0x3F, subpage, 4, usize::from(u16::from_be_bytes([high, low])))
        }
        [first, len, ..] if first & 0x40 == 0 => (first & 0x3F, 0, 2, usize::from(len)),
        _ => return Err(Sense::PARAMETER_LIST_LENGTH),
    };
    let page = PAGES.iter().find(|page| page.code == code && page.subpage == subpage);
    let page = page.ok_or(field(at, 5))?;
    let (current, changeable) = ((page.current)(unit), page.changeable(unit));
    if len != current.len() {
        return Err(field(at + header_len - if subpage == 0 { 1 } else { 2 }, 7));
    }
    let body = rest.get(header_len..header_len + len).ok_or(Sense::PARAMETER_LIST_LENGTH)?;
    for (index, byte) in body.iter().enumerate() {
        let refused = (byte ^ current[index]) & !changeable[index];
        if refused != 0 {
            let highest = u8::try_from(refused.ilog2()).unwrap_or(7);
            return Err(field(at + header_len + index, highest));
        }
    }
    if (code, subpage) == (CONTROL, 0) {
        modes.descriptor_sense = body[0] & D_SENSE != 0;
        modes.write_protected = body[2] & SWP != 0;
    }
    Ok(header_len + len)
}
