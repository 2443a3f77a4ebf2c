//! Sense data, in fixed and in descriptor format.
//!
//! Spec: SPC-4, 4.5. D_SENSE in the unit's control mode page selects the format.

use nearflash_session::codes;

/// SENSE KEY.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SenseKey(pub u8);

codes! { SenseKey {
    NO_SENSE = 0x0, "nothing to report";
    NOT_READY = 0x2, "the logical unit cannot be accessed now";
    MEDIUM_ERROR = 0x3, "an error of the medium";
    HARDWARE_ERROR = 0x4, "a failure of the device";
    ILLEGAL_REQUEST = 0x5, "the command or its parameters are not valid";
    UNIT_ATTENTION = 0x6, "a unit attention condition";
    DATA_PROTECT = 0x7, "the unit is write protected";
    COPY_ABORTED = 0xA, "a third-party copy ended with an error";
    ABORTED_COMMAND = 0xB, "the target aborted the command; a retry may succeed";
    MISCOMPARE = 0xE, "the data differs from the medium";
} }

/// ADDITIONAL SENSE CODE in the high byte, ADDITIONAL SENSE CODE QUALIFIER in the low byte.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SenseCode(pub u16);

/// The invalid field of an ILLEGAL REQUEST.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FieldPointer {
    /// C/D: the field is in the CDB, otherwise in the parameter list.
    pub in_cdb: bool,
    /// The field's first byte.
    pub byte: u16,
    /// The field's highest bit, if the byte alone does not identify the field.
    pub bit: Option<u8>,
}

/// Why a command ended with CHECK CONDITION.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Sense {
    /// The sense key.
    pub key: SenseKey,
    /// The additional sense code and qualifier.
    pub code: SenseCode,
    /// INFORMATION: a block address, or the offset of a difference.
    pub information: Option<u64>,
    /// The invalid field.
    pub field: Option<FieldPointer>,
}

/// Length of sense data in fixed format.
const FIXED_LEN: usize = 18;
/// Response code of current errors, in fixed format.
const CURRENT_FIXED: u8 = 0x70;
/// Response code of current errors, in descriptor format.
const CURRENT_DESCRIPTOR: u8 = 0x72;
/// INFORMATION is valid.
const VALID: u8 = 1 << 7;
/// The sense key specific bytes are valid (SKSV).
const SPECIFIC_VALID: u8 = 1 << 7;

/// Defines the constants by name, key, code and documentation.
macro_rules! senses {
    ($($name:ident = $key:ident, $code:literal, $words:literal;)*) => {
        impl Sense {
            $(#[doc = $words] pub const $name: Self = Self::new(SenseKey::$key, $code);)*
        }
    };
}
senses! {
    NONE = NO_SENSE, 0x0000, "Nothing to report.";
    INVALID_OPCODE = ILLEGAL_REQUEST, 0x2000, "INVALID COMMAND OPERATION CODE.";
    INVALID_FIELD_IN_CDB = ILLEGAL_REQUEST, 0x2400, "INVALID FIELD IN CDB, with no word on which.";
    NO_SUCH_UNIT = ILLEGAL_REQUEST, 0x2500, "LOGICAL UNIT NOT SUPPORTED.";
    INVALID_FIELD_IN_PARAMETERS = ILLEGAL_REQUEST, 0x2600,
        "INVALID FIELD IN PARAMETER LIST, with no word on which.";
    PARAMETER_LIST_LENGTH = ILLEGAL_REQUEST, 0x1A00, "PARAMETER LIST LENGTH ERROR.";
    LBA_OUT_OF_RANGE = ILLEGAL_REQUEST, 0x2100, "LOGICAL BLOCK ADDRESS OUT OF RANGE.";
    INVALID_INFORMATION_UNIT = ILLEGAL_REQUEST, 0x0E03,
        "INVALID FIELD IN COMMAND INFORMATION UNIT: other data came than the CDB asks for.";
    INVALID_RELEASE = ILLEGAL_REQUEST, 0x2604, "INVALID RELEASE OF PERSISTENT RESERVATION.";
    NO_ROOM_TO_REGISTER = ILLEGAL_REQUEST, 0x5504, "INSUFFICIENT REGISTRATION RESOURCES.";
    SAVING_NOT_SUPPORTED = ILLEGAL_REQUEST, 0x3900, "SAVING PARAMETERS NOT SUPPORTED.";
    WRITE_PROTECTED = DATA_PROTECT, 0x2700, "WRITE PROTECTED.";
    SOFTWARE_WRITE_PROTECTED = DATA_PROTECT, 0x2702,
        "SOFTWARE WRITE PROTECTED: by the control mode page.";
    SPACE_EXHAUSTED = DATA_PROTECT, 0x2707, "SPACE ALLOCATION FAILED WRITE PROTECT.";
    MISCOMPARE = MISCOMPARE, 0x1D00, "MISCOMPARE DURING VERIFY OPERATION.";
    UNRECOVERED_READ = MEDIUM_ERROR, 0x1100, "UNRECOVERED READ ERROR.";
    WRITE_ERROR = MEDIUM_ERROR, 0x0C00, "WRITE ERROR.";
    OPERATION_IN_PROGRESS = ILLEGAL_REQUEST, 0x0016,
        "OPERATION IN PROGRESS: a copy of that name is under way.";
    INSUFFICIENT_RESOURCES = ILLEGAL_REQUEST, 0x5503, "INSUFFICIENT RESOURCES.";
    TOO_MANY_TARGET_DESCRIPTORS = ILLEGAL_REQUEST, 0x2606, "TOO MANY TARGET DESCRIPTORS.";
    UNSUPPORTED_TARGET_DESCRIPTOR = ILLEGAL_REQUEST, 0x2607,
        "UNSUPPORTED TARGET DESCRIPTOR TYPE CODE.";
    TOO_MANY_SEGMENT_DESCRIPTORS = ILLEGAL_REQUEST, 0x2608, "TOO MANY SEGMENT DESCRIPTORS.";
    UNSUPPORTED_SEGMENT_DESCRIPTOR = ILLEGAL_REQUEST, 0x2609,
        "UNSUPPORTED SEGMENT DESCRIPTOR TYPE CODE.";
    INLINE_DATA_TOO_LONG = ILLEGAL_REQUEST, 0x260B, "INLINE DATA LENGTH EXCEEDED.";
    COPY_ABORTED = COPY_ABORTED, 0x0000,
        "A copy stopped, with no word on why: what it names is not all there.";
    COPY_DEVICE_FAILURE = COPY_ABORTED, 0x0D01, "THIRD PARTY DEVICE FAILURE.";
    COPY_TARGET_NOT_REACHABLE = COPY_ABORTED, 0x0D02, "COPY TARGET DEVICE NOT REACHABLE.";
    INCORRECT_COPY_TARGET_TYPE = COPY_ABORTED, 0x0D03, "INCORRECT COPY TARGET DEVICE TYPE.";
    INEXACT_SEGMENT = COPY_ABORTED, 0x260A, "UNEXPECTED INEXACT SEGMENT.";
    NOT_READY = NOT_READY, 0x0400, "LOGICAL UNIT NOT READY, CAUSE NOT REPORTABLE.";
    COMMUNICATION_FAILURE = ABORTED_COMMAND, 0x0800, "LOGICAL UNIT COMMUNICATION FAILURE.";
    DATA_DIGEST = ABORTED_COMMAND, 0x4705,
        "PROTOCOL SERVICE CRC ERROR: data arrived damaged (a wrong data digest).";
    UNEXPECTED_DATA = ABORTED_COMMAND, 0x0C0C, "UNEXPECTED UNSOLICITED DATA.";
}

impl Sense {
    /// Sense data with only a key and a code.
    pub const fn new(key: SenseKey, code: u16) -> Self {
        Self { key, code: SenseCode(code), information: None, field: None }
    }

    /// INVALID FIELD IN CDB, for the field that begins at `byte` and whose highest bit is `bit`.
    pub const fn cdb_field(byte: u16, bit: u8) -> Self {
        let field = FieldPointer { in_cdb: true, byte, bit: Some(bit) };
        Self { field: Some(field), ..Self::INVALID_FIELD_IN_CDB }
    }

    /// INVALID FIELD IN PARAMETER LIST, for the field at `byte` whose highest bit is `bit`.
    pub const fn parameter_field(byte: u16, bit: u8) -> Self {
        let field = FieldPointer { in_cdb: false, byte, bit: Some(bit) };
        Self { field: Some(field), ..Self::INVALID_FIELD_IN_PARAMETERS }
    }

    /// The same sense data with INFORMATION.
    #[must_use]
    pub const fn with_information(self, information: u64) -> Self {
        Self { information: Some(information), ..self }
    }

    /// Encodes the sense data, in descriptor format if `d_sense` is set.
    pub fn to_bytes(self, d_sense: bool) -> Vec<u8> {
        if d_sense { self.to_descriptors() } else { self.to_fixed().to_vec() }
    }

    /// SPC-4, 4.5.3. INFORMATION that does not fit into four bytes is omitted.
    fn to_fixed(self) -> [u8; FIXED_LEN] {
        let mut bytes = [0; FIXED_LEN];
        bytes[0] = CURRENT_FIXED;
        bytes[2] = self.key.0;
        if let Some(information) = self.information.and_then(|wide| u32::try_from(wide).ok()) {
            bytes[0] |= VALID;
            bytes[3..7].copy_from_slice(&information.to_be_bytes());
        }
        bytes[7] = 10; // ADDITIONAL SENSE LENGTH: after byte 7
        bytes[12..14].copy_from_slice(&self.code.0.to_be_bytes());
        if let Some(field) = self.field {
            bytes[15..18].copy_from_slice(&field.to_bytes());
        }
        bytes
    }

    /// SPC-4, 4.5.2.
    fn to_descriptors(self) -> Vec<u8> {
        let [code, qualifier] = self.code.0.to_be_bytes();
        let mut bytes = vec![CURRENT_DESCRIPTOR, self.key.0, code, qualifier, 0, 0, 0, 0];
        if let Some(information) = self.information {
            bytes.extend([0x00, 0x0A, VALID, 0]);
            bytes.extend(information.to_be_bytes());
            bytes[7] += 12;
        }
        if let Some(field) = self.field {
            bytes.extend([0x02, 0x06, 0, 0]);
            bytes.extend(field.to_bytes());
            bytes.push(0);
            bytes[7] += 8;
        }
        bytes
    }
}

impl FieldPointer {
    /// The three sense key specific bytes.
    fn to_bytes(self) -> [u8; 3] {
        let mut first = SPECIFIC_VALID;
        if self.in_cdb {
            first |= 1 << 6;
        }
        if let Some(bit) = self.bit {
            first |= 1 << 3 | (bit & 0x7);
        }
        let [high, low] = self.byte.to_be_bytes();
        [first, high, low]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_field_is_pointed_at_in_both_formats() {
        let sense = Sense::cdb_field(2, 5);
        let fixed = sense.to_bytes(false);
        assert_eq!((fixed[0], fixed[2], fixed[7]), (0x70, 0x5, 10));
        assert_eq!(fixed[12..14], [0x24, 0x00]);
        assert_eq!(fixed[15..18], [0xCD, 0, 2]);
        let described = sense.to_bytes(true);
        assert_eq!(described[..8], [0x72, 0x5, 0x24, 0, 0, 0, 0, 8]);
        assert_eq!(described[8..], [0x02, 0x06, 0, 0, 0xCD, 0, 2, 0]);
    }

    #[test]
    fn information_is_valid_where_it_fits() {
        let small = Sense::LBA_OUT_OF_RANGE.with_information(0x0102_0304);
        assert_eq!(small.to_bytes(false)[..7], [0xF0, 0, 0x5, 1, 2, 3, 4]);
        let large = Sense::LBA_OUT_OF_RANGE.with_information(1 << 32);
        assert_eq!(large.to_bytes(false)[..7], [0x70, 0, 0x5, 0, 0, 0, 0]);
        let described = large.to_bytes(true);
        assert_eq!(described[7], 12);
        assert_eq!(described[8..], [0x00, 0x0A, 0x80, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
    }

    #[test]
    fn the_lengths_are_those_of_what_follows() {
        let all = [Sense::NONE, Sense::cdb_field(1, 7), Sense::MISCOMPARE.with_information(3)];
        for sense in all {
            for d_sense in [false, true] {
                let bytes = sense.to_bytes(d_sense);
                assert_eq!(usize::from(bytes[7]) + 8, bytes.len());
            }
        }
    }
}
