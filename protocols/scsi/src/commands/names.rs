//! The designators of a unit, for INQUIRY, VPD pages and third-party copies.
//!
//! Spec: SPC-4, 6.6 and 7.8.6.

use super::data_in::len_u8;
use crate::LogicalUnit;

pub(super) const VENDOR: &str = "NEARFLSH";
/// PERIPHERAL QUALIFIER and DEVICE TYPE: a disk.
pub(super) const DISK: u8 = 0x00;

/// The volume's identifier as 32 hexadecimal digits.
pub(super) fn serial(unit: &LogicalUnit) -> String {
    format!("{:032x}", u128::from_be_bytes(unit.uuid))
}

/// ASSOCIATION: the object that a designator identifies.
#[derive(Clone, Copy)]
pub(super) enum Of {
    Unit = 0,
    Port = 1,
    Target = 2,
}

/// CODE SET: the encoding of a designator.
#[derive(Clone, Copy)]
pub(super) enum CodeSet {
    Binary = 1,
    Ascii = 2,
    Utf8 = 3,
}

/// DESIGNATOR TYPE: the values that are used here.
#[derive(Clone, Copy)]
pub(super) enum Type {
    Vendor = 1,
    Naa = 3,
    RelativePort = 4,
    PortGroup = 5,
    Name = 8,
    Uuid = 0xA,
}

/// Whether a target descriptor's designator, with its code set, association and type, identifies
/// the unit. Only the unit's binary designators fit into a target descriptor.
pub(super) fn is_named(unit: &LogicalUnit, code_set: u8, of: u8, designator: &[u8]) -> bool {
    let is = |kind: Type, name: &[u8]| {
        of == len_u8(Of::Unit as usize) << 4 | len_u8(kind as usize) && designator == name
    };
    code_set == len_u8(CodeSet::Binary as usize)
        && (is(Type::Naa, &local_name(unit)) || is(Type::Uuid, &uuid_name(unit)))
}

/// The UUID designator: its type, followed by the identifier.
pub(super) fn uuid_name(unit: &LogicalUnit) -> Vec<u8> {
    [&[0x10, 0][..], &unit.uuid].concat()
}

/// NAA 3h, locally assigned: 60 bits of the identifier. Other NAA formats need an IEEE company
/// identifier, which nearflash does not have.
pub(super) fn local_name(unit: &LogicalUnit) -> [u8; 8] {
    let bits = u128::from_be_bytes(unit.uuid) & ((1 << 60) - 1);
    let [.., a, b, c, d, e, f, g, h] = bits.to_be_bytes();
    [0x30 | a, b, c, d, e, f, g, h]
}
