//! What a unit is called: by INQUIRY, by its pages, and by those who name it in a copy.
//!
//! Spec: SPC-4, 6.6 and 7.8.6.

use super::data_in::len_u8;
use crate::LogicalUnit;

/// T10 VENDOR IDENTIFICATION.
pub(super) const VENDOR: &str = "NEARFLSH";
/// PERIPHERAL QUALIFIER and DEVICE TYPE: a disk.
pub(super) const DISK: u8 = 0x00;

/// The volume's identifier as 32 hexadecimal digits.
pub(super) fn serial(unit: &LogicalUnit) -> String {
    format!("{:032x}", u128::from_be_bytes(unit.uuid))
}

/// What a designator is the name of.
#[derive(Clone, Copy)]
pub(super) enum Of {
    Unit = 0,
    Port = 1,
    Target = 2,
}

/// How a designator is written.
#[derive(Clone, Copy)]
pub(super) enum CodeSet {
    Binary = 1,
    Ascii = 2,
    Utf8 = 3,
}

/// The parts of DESIGNATOR TYPE that are used here.
#[derive(Clone, Copy)]
pub(super) enum Type {
    Vendor = 1,
    Naa = 3,
    RelativePort = 4,
    PortGroup = 5,
    Name = 8,
    Uuid = 0xA,
}

pub(super) fn u8_of(small: usize) -> u8 {
    len_u8(small)
}

/// Whether a designator of a target descriptor, with its code set, its association and its type,
/// names the unit. Those that fit there are the ones in binary.
pub(super) fn is_named(unit: &LogicalUnit, code_set: u8, of: u8, designator: &[u8]) -> bool {
    let is = |kind: Type, name: &[u8]| {
        of == u8_of(Of::Unit as usize) << 4 | u8_of(kind as usize) && designator == name
    };
    code_set == u8_of(CodeSet::Binary as usize)
        && (is(Type::Naa, &local_name(unit)) || is(Type::Uuid, &uuid_name(unit)))
}

/// The identifier, behind the kind that it is.
pub(super) fn uuid_name(unit: &LogicalUnit) -> Vec<u8> {
    [&[0x10, 0][..], &unit.uuid].concat()
}

/// NAA 3h, locally assigned: 60 of the identifier's bits. It has no vendor's part, as there is no
/// vendor's number to put there.
pub(super) fn local_name(unit: &LogicalUnit) -> [u8; 8] {
    let bits = u128::from_be_bytes(unit.uuid) & ((1 << 60) - 1);
    let [.., a, b, c, d, e, f, g, h] = bits.to_be_bytes();
    [0x30 | a, b, c, d, e, f, g, h]
}
