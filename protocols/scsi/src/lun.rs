//! Logical unit numbers in their eight-byte format.
//!
//! Spec: SAM-5, 4.7: one level, peripheral addressing up to 255, flat space addressing from 256.

/// ADDRESS METHOD of flat space addressing, shifted to its position.
const FLAT: u8 = 0b01 << 6;
/// The mask of ADDRESS METHOD.
const METHOD: u8 = 0b11 << 6;

/// Encodes a LUN.
#[inline]
pub const fn to_bytes(lun: u16) -> [u8; 8] {
    let [high, low] = lun.to_be_bytes();
    let first = if high == 0 { 0 } else { FLAT | (high & !METHOD) };
    [first, low, 0, 0, 0, 0, 0, 0]
}

/// Decodes a LUN; `None` for another format, which addresses no unit here.
#[inline]
pub const fn from_bytes(bytes: [u8; 8]) -> Option<u16> {
    let [first, low, 0, 0, 0, 0, 0, 0] = bytes else { return None };
    match first & METHOD {
        0 if first == 0 => Some(u16::from_be_bytes([0, low])), // bus 0 alone
        FLAT => Some(u16::from_be_bytes([first & !METHOD, low])),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_up_to_14_bits_go_there_and_back() {
        for lun in [0, 1, 255, 256, 1023, 0x3FFF] {
            assert_eq!(from_bytes(to_bytes(lun)), Some(lun));
        }
        assert_eq!(to_bytes(7), [0, 7, 0, 0, 0, 0, 0, 0]);
        assert_eq!(to_bytes(0x123), [0x41, 0x23, 0, 0, 0, 0, 0, 0]);
        assert_eq!(from_bytes([0x40, 7, 0, 0, 0, 0, 0, 0]), Some(7));
    }

    #[test]
    fn other_forms_name_nothing() {
        for bytes in
            [[1, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 1, 0, 0, 0, 0], [0xC1, 1, 0, 0, 0, 0, 0, 0]]
        {
            assert_eq!(from_bytes(bytes), None);
        }
    }
}
