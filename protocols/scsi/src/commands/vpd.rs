//! Vital product data: designators, limits and provisioning of a unit.
//!
//! Spec: SPC-4, 7.8; SBC-4, 6.6.

use super::copy::third_party_page;
use super::data_in::{ascii, len_u8, len_u16};
use super::names::{CodeSet, DISK, Of, Type, VENDOR, local_name, serial, uuid_name};
use crate::call::Asked;
use crate::{LogicalUnit, LogicalUnits, Provisioning, Sense, limits};

/// Returns the body of a page, which follows its header.
type Page = fn(&LogicalUnit, &LogicalUnits) -> Vec<u8>;

/// All pages, in the order of their codes.
const PAGES: [(u8, Page); 7] = [
    (0x00, supported_pages),
    (0x80, serial_number),
    (0x83, identification),
    (0x8F, |unit, _| third_party_page(unit)),
    (0xB0, block_limits),
    (0xB1, characteristics),
    (0xB2, provisioning),
];

pub(super) fn page(asked: &Asked<'_>, code: u8) -> Result<Vec<u8>, Sense> {
    let unit = asked.unit.ok_or(Sense::NO_SUCH_UNIT)?;
    let found = PAGES.iter().find(|&&(listed, _)| listed == code);
    let &(_, write) = found.ok_or(Sense::cdb_field(2, 7))?;
    let body = write(unit, asked.units);
    let mut data = Vec::with_capacity(4 + body.len());
    data.extend([DISK, code]);
    data.extend(len_u16(body.len()));
    data.extend(body);
    Ok(data)
}

fn supported_pages(_: &LogicalUnit, _: &LogicalUnits) -> Vec<u8> {
    PAGES.iter().map(|&(code, _)| code).collect()
}

fn serial_number(unit: &LogicalUnit, _: &LogicalUnits) -> Vec<u8> {
    serial(unit).into_bytes()
}

/// PROTOCOL IDENTIFIER iSCSI, and PIV, shifted to their positions.
const ISCSI: u8 = 5 << 4;
const PROTOCOL_VALID: u8 = 1 << 7;

fn designator(data: &mut Vec<u8>, of: Of, set: CodeSet, kind: Type, name: &[u8]) {
    let protocol = if matches!(of, Of::Unit) { (0, 0) } else { (ISCSI, PROTOCOL_VALID) };
    let association = len_u8(of as usize) << 4;
    let name = &name[..name.len().min(usize::from(u8::MAX))];
    data.push(protocol.0 | len_u8(set as usize));
    data.push(protocol.1 | association | len_u8(kind as usize));
    data.extend([0, len_u8(name.len())]);
    data.extend(name);
}

/// The unit's NAA, vendor and UUID designators, and those of its target port and target device.
fn identification(unit: &LogicalUnit, units: &LogicalUnits) -> Vec<u8> {
    let mut data = Vec::new();
    designator(&mut data, Of::Unit, CodeSet::Binary, Type::Naa, &local_name(unit));
    let mut vendor = ascii::<8>(VENDOR).to_vec();
    vendor.extend(serial(unit).as_bytes());
    designator(&mut data, Of::Unit, CodeSet::Ascii, Type::Vendor, &vendor);
    designator(&mut data, Of::Unit, CodeSet::Binary, Type::Uuid, &uuid_name(unit));
    let [high, low] = units.portal_group().to_be_bytes();
    let number = [0, 0, high, low];
    designator(&mut data, Of::Port, CodeSet::Binary, Type::RelativePort, &number);
    designator(&mut data, Of::Port, CodeSet::Binary, Type::PortGroup, &number);
    let port = format!("{},t,0x{:04x}", units.target(), units.portal_group());
    designator(&mut data, Of::Port, CodeSet::Utf8, Type::Name, &name_string(&port));
    designator(&mut data, Of::Target, CodeSet::Utf8, Type::Name, &name_string(units.target()));
    data
}

/// A SCSI name string: terminated by a zero, and padded to a multiple of four bytes.
fn name_string(name: &str) -> Vec<u8> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.resize(bytes.len() / 4 * 4 + 4, 0);
    bytes
}

/// A count for a field of four bytes. A larger value becomes the maximum, which means no limit.
fn count(blocks: u64) -> [u8; 4] {
    u32::try_from(blocks).unwrap_or(u32::MAX).to_be_bytes()
}

fn block_limits(unit: &LogicalUnit, _: &LogicalUnits) -> Vec<u8> {
    let size = unit.block_size;
    let transfer = limits::transfer_blocks_max(size).0;
    let compare = match unit.support.compound {
        true => limits::compare_and_write_blocks_max(size).0,
        false => 0, // COMPARE AND WRITE is not supported
    };
    let (unmap_blocks, unmap_descriptors) = match unit.unmaps() {
        true => (limits::UNMAP_BLOCKS_MAX, limits::UNMAP_DESCRIPTORS_MAX),
        false => (0, 0),
    };
    let granularity = 1_u64 << unit.blocks_per_physical_shift();
    let mut body = Vec::with_capacity(60);
    body.extend([0, u8::try_from(compare).unwrap_or(u8::MAX)]); // WSNZ = 0
    body.extend(len_u16(usize::try_from(granularity).unwrap_or(0)));
    body.extend(count(transfer));
    body.extend(count(limits::buffer_blocks_max(size).0)); // OPTIMAL TRANSFER LENGTH
    body.extend(count(0)); // MAXIMUM PREFETCH LENGTH: no limit
    body.extend(count(unmap_blocks));
    body.extend(count(unmap_descriptors));
    body.extend(count(if unit.unmaps() { granularity } else { 0 }));
    body.extend(if unit.unmaps() { [0x80, 0, 0, 0] } else { [0; 4] }); // UGAVALID, aligned at 0
    body.extend(limits::write_same_blocks_max(size).0.to_be_bytes());
    body.resize(60, 0); // no atomic writes
    body
}

fn characteristics(_: &LogicalUnit, _: &LogicalUnits) -> Vec<u8> {
    let mut body = vec![0, 1]; // MEDIUM ROTATION RATE: none
    body.resize(60, 0);
    body
}

fn provisioning(unit: &LogicalUnit, _: &LogicalUnits) -> Vec<u8> {
    /// LBPU and LBPWS: UNMAP and WRITE SAME (16) unmap blocks.
    const UNMAPS: u8 = 0b110 << 5;
    /// LBPRZ: released blocks read as zeroes.
    const READS_ZEROES: u8 = 0b001 << 2;
    /// ANC_SUP: anchored blocks are supported. Unmapped blocks of such a unit are anchored.
    const ANCHORS: u8 = 1 << 1;
    /// PROVISIONING TYPE: resource, thin.
    const RESOURCE: u8 = 1;
    const THIN: u8 = 2;
    match unit.provisioning {
        Provisioning::Full => vec![0; 4],
        Provisioning::Resource => vec![0, UNMAPS | READS_ZEROES | ANCHORS, RESOURCE, 0],
        Provisioning::Thin => vec![0, UNMAPS | READS_ZEROES, THIN, 0],
    }
}
