//! The fields of PDUs. The sets of values are open: an unknown value decodes, and is refused in one
//! place.

use nearflash_scsi::lun;
use nearflash_session::{codes, wire};
use zerocopy::big_endian::U32;

/// A PDU's opcode without the I bit; 20h and above from the target. RFC 7143, 11.2.1.2.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Opcode(pub u8);

codes! { Opcode {
    /// A ping, or the answer to one.
    NOP_OUT = 0x00, "NOP-Out";
    SCSI_COMMAND = 0x01, "SCSI Command";
    TASK_REQUEST = 0x02, "Task Management Function Request";
    LOGIN_REQUEST = 0x03, "Login Request";
    TEXT_REQUEST = 0x04, "Text Request";
    /// Data of a write.
    DATA_OUT = 0x05, "SCSI Data-Out";
    LOGOUT_REQUEST = 0x06, "Logout Request";
    /// Requests a retransmission. Not at error recovery level 0.
    SNACK_REQUEST = 0x10, "SNACK Request";
    /// A ping, or the answer to one.
    NOP_IN = 0x20, "NOP-In";
    /// How a command ended.
    SCSI_RESPONSE = 0x21, "SCSI Response";
    TASK_RESPONSE = 0x22, "Task Management Function Response";
    LOGIN_RESPONSE = 0x23, "Login Response";
    TEXT_RESPONSE = 0x24, "Text Response";
    /// Data of a read, perhaps with how it ended.
    DATA_IN = 0x25, "SCSI Data-In";
    LOGOUT_RESPONSE = 0x26, "Logout Response";
    /// The target is ready to receive data.
    R2T = 0x31, "R2T";
    /// A message that answers no request.
    ASYNC = 0x32, "Asynchronous Message";
    /// The target does not accept a PDU.
    REJECT = 0x3F, "Reject";
} }

impl Opcode {
    /// Its name, for messages.
    pub fn name(self) -> &'static str {
        self.known().map_or("unknown PDU", |(_, name)| name)
    }
}

wire! {
    /// The first byte of a PDU.
    pub struct OpcodeByte(pub u8);
}

impl OpcodeByte {
    const IMMEDIATE: u8 = 0x40;

    /// For delivery in order.
    pub const fn new(opcode: Opcode) -> Self {
        Self(opcode.0)
    }

    /// For immediate delivery, the I bit.
    pub const fn immediate(opcode: Opcode) -> Self {
        Self(opcode.0 | Self::IMMEDIATE)
    }

    /// The opcode. The reserved bit is kept, so that an opcode with this bit set is unknown.
    pub const fn opcode(self) -> Opcode {
        Opcode(self.0 & !Self::IMMEDIATE)
    }

    /// Whether the I bit is set.
    pub const fn is_immediate(self) -> bool {
        self.0 & Self::IMMEDIATE != 0
    }
}

wire! {
    /// DataSegmentLength: three bytes.
    pub struct DataSegmentLen([u8; 3]);
}

impl DataSegmentLen {
    /// The highest value of the field.
    pub const MAX: u32 = (1 << 24) - 1;

    /// A length in bytes.
    ///
    /// # Panics
    /// When it exceeds [`Self::MAX`], which no caller does.
    #[inline]
    pub const fn new(len: u32) -> Self {
        assert!(len <= Self::MAX, "a data segment is below 16 MiB");
        let [_, high, middle, low] = len.to_be_bytes();
        Self([high, middle, low])
    }

    /// The length in bytes.
    #[inline]
    pub const fn get(self) -> u32 {
        let [high, middle, low] = self.0;
        u32::from_be_bytes([0, high, middle, low])
    }
}

wire! {
    /// LUN in SAM's format: eight bytes. RFC 7143, 11.2.1.7.
    pub struct LunField(pub [u8; 8]);
}

impl LunField {
    /// The LUN of a logical unit.
    pub const fn new(number: u16) -> Self {
        Self(lun::to_bytes(number))
    }

    /// The unit's number; `None` for another format, which addresses no unit here.
    pub const fn number(self) -> Option<u16> {
        lun::from_bytes(self.0)
    }
}

/// CmdSN, StatSN, DataSN or R2TSN, compared modulo 2^32. RFC 7143, 4.2.2.1 and RFC 1982.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Serial(pub u32);

impl Serial {
    /// Reads a field.
    pub const fn of(field: U32) -> Self {
        Self(field.get())
    }

    /// As a field.
    pub const fn field(self) -> U32 {
        U32::new(self.0)
    }

    /// The number `count` after this one.
    #[must_use]
    pub const fn plus(self, count: u32) -> Self {
        Self(self.0.wrapping_add(count))
    }

    /// The next one.
    #[inline]
    #[must_use]
    pub const fn next(self) -> Self {
        self.plus(1)
    }

    /// The distance from `earlier`; meaningful only if this number is not before `earlier`.
    pub const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }

    /// Whether it is before `other`, by less than half of the number space.
    #[inline]
    pub const fn is_before(self, other: Self) -> bool {
        let ahead = other.since(self);
        ahead != 0 && ahead < 1 << 31
    }
}

/// CSG and NSG: the stages of a login. RFC 7143, 11.12.3.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Stage {
    /// SecurityNegotiation.
    Security,
    /// LoginOperationalNegotiation.
    Operational,
    /// FullFeaturePhase.
    FullFeature,
}

impl Stage {
    const fn code(self) -> u8 {
        match self {
            Self::Security => 0,
            Self::Operational => 1,
            Self::FullFeature => 3,
        }
    }

    const fn of(code: u8) -> Option<Self> {
        match code & 3 {
            0 => Some(Self::Security),
            1 => Some(Self::Operational),
            3 => Some(Self::FullFeature),
            _ => None,
        }
    }
}

wire! {
    /// The flags of a login PDU: T, C, CSG, NSG. RFC 7143, 11.12 and 11.13.
    pub struct LoginFlags(pub u8);
}

impl LoginFlags {
    const TRANSIT: u8 = 0x80;
    const CONTINUE: u8 = 0x40;

    /// Staying in a stage.
    pub const fn within(stage: Stage) -> Self {
        Self(stage.code() << 2)
    }

    /// The text continues in the next PDU.
    pub const fn continued(stage: Stage) -> Self {
        Self(stage.code() << 2 | Self::CONTINUE)
    }

    /// Going on to another stage.
    pub const fn transit(from: Stage, to: Stage) -> Self {
        Self(Self::TRANSIT | from.code() << 2 | to.code())
    }

    /// T.
    pub const fn is_transit(self) -> bool {
        self.0 & Self::TRANSIT != 0
    }

    /// C.
    pub const fn is_continued(self) -> bool {
        self.0 & Self::CONTINUE != 0
    }

    /// CSG; `None` for the reserved value.
    pub const fn current(self) -> Option<Stage> {
        Stage::of(self.0 >> 2)
    }

    /// NSG, valid only with T; `None` for the reserved value.
    pub const fn next(self) -> Option<Stage> {
        Stage::of(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_opcode_with_the_reserved_bit_is_unknown() {
        assert_eq!(OpcodeByte(0x81).opcode().name(), "unknown PDU");
        assert_eq!(OpcodeByte(0x41).opcode(), Opcode::SCSI_COMMAND);
        assert!(OpcodeByte(0x41).is_immediate() && !OpcodeByte(0x01).is_immediate());
    }

    #[test]
    fn luns_are_read_by_both_methods_and_no_other() {
        assert_eq!(LunField([0, 7, 0, 0, 0, 0, 0, 0]).number(), Some(7));
        assert_eq!(LunField([0x40, 7, 0, 0, 0, 0, 0, 0]).number(), Some(7));
        assert_eq!(LunField([0x41, 0, 0, 0, 0, 0, 0, 0]).number(), Some(256));
        for other in
            [[1, 7, 0, 0, 0, 0, 0, 0], [0, 7, 0, 1, 0, 0, 0, 0], [0xC1, 1, 0, 0, 0, 0, 0, 0]]
        {
            assert_eq!(LunField(other).number(), None, "{other:?}");
        }
    }

    #[test]
    fn serial_numbers_are_compared_across_their_wrap() {
        let last = Serial(u32::MAX);
        assert!(last.is_before(last.next()) && !last.next().is_before(last));
        assert!(!last.is_before(last));
        assert_eq!(last.plus(5).since(last), 5);
    }

    proptest! {
        #[test]
        fn a_lun_reads_back(number in 0u16..1 << 14) {
            prop_assert_eq!(LunField::new(number).number(), Some(number));
        }

        #[test]
        fn a_data_segment_length_reads_back(len in 0..=DataSegmentLen::MAX) {
            prop_assert_eq!(DataSegmentLen::new(len).get(), len);
        }

        #[test]
        fn stages_read_back(bits in 0u8..) {
            let flags = LoginFlags(bits);
            if let (Some(current), Some(next)) = (flags.current(), flags.next()) {
                let transit = LoginFlags::transit(current, next);
                prop_assert_eq!((transit.current(), transit.next()), (Some(current), Some(next)));
                prop_assert!(transit.is_transit() && !transit.is_continued());
            }
        }
    }
}
