//! The PDUs of iSCSI as structs over bytes.
//!
//! Spec: RFC 7143, 11. Every PDU begins with a basic header of 48 bytes, big-endian; additional
//! headers, a header digest, data, its padding to 4 bytes and a data digest may follow. This module
//! knows nothing about sessions or the content of a command.

#[macro_use]
mod header;
mod codes;
mod fields;
mod initiator;
mod login_status;
mod target;
mod words;

use zerocopy::big_endian::U32;

pub use codes::{AsyncEvent, LogoutReason, LogoutResult, RejectReason, TaskFunction, TaskResult};
pub use fields::{DataSegmentLen, LoginFlags, LunField, Opcode, OpcodeByte, Serial, Stage};
pub use initiator::{
    DataOut, LoginRequest, LogoutRequest, NopOut, ScsiCommand, SnackRequest, TaskRequest,
    TextRequest,
};
pub use login_status::LoginStatus;
pub use target::{
    Async, DataIn, LoginResponse, LogoutResponse, NopIn, R2t, Reject, ScsiResponse, Serials,
    TaskResponse, TextResponse,
};
pub(crate) use words::word;

/// The basic header of every PDU, in bytes.
pub const HEADER_LEN: usize = 48;
/// The most additional headers, in bytes: skipped, as extended CDBs are not supported.
pub const AHS_LEN_MAX: usize = 256;
/// The reserved tag: ITT or TTT of PDUs that belong to no task.
pub const NO_TAG: u32 = 0xFFFF_FFFF;
/// The F bit of every PDU that has one, and bit 7 of those where it is always 1.
pub const FINAL: u8 = 0x80;
/// The C bit of login and text PDUs: the text continues in the next one.
pub const CONTINUE: u8 = 0x40;

header! {
    /// The fields that all basic headers share. RFC 7143, 11.2.1.
    pub struct BasicHeader {
        pub flags: u8 = "Depends on the opcode";
        pub specific: [u8; 2] = "Depends on the opcode";
        lengths; lun; itt;
        pub rest: [u8; 28] = "Depends on the opcode";
    }
}

impl BasicHeader {
    /// The length of the additional headers, in bytes.
    pub fn ahs_len(&self) -> usize {
        usize::from(self.ahs_words) * 4
    }
}

/// The padding after `data_len` bytes of data, in bytes.
pub const fn padding_len(data_len: usize) -> usize {
    data_len.wrapping_neg() & 3
}

#[cfg(test)]
mod tests {
    use zerocopy::FromBytes;

    use super::*;

    #[test]
    fn padding_fills_up_to_words() {
        let lens: Vec<usize> = (0..6).map(padding_len).collect();
        assert_eq!(lens, [0, 3, 2, 1, 0, 3]);
    }

    #[test]
    fn additional_headers_are_counted_in_words() {
        let mut bytes = [0; HEADER_LEN];
        bytes[4] = 3;
        assert_eq!(BasicHeader::read_from_bytes(&bytes).unwrap().ahs_len(), 12);
    }
}
