//! The PDUs that a target sends.

use zerocopy::FromZeros;
use zerocopy::big_endian::{U16, U32};

use super::codes::{AsyncEvent, LogoutResult, RejectReason, TaskResult};
use super::fields::{DataSegmentLen, LoginFlags, LunField, Opcode, OpcodeByte, Serial};
use super::{FINAL, HEADER_LEN};

/// The serial numbers in every PDU of a target.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Serials {
    /// StatSN, of the connection.
    pub stat_sn: Serial,
    /// ExpCmdSN, of the session.
    pub exp_cmd_sn: Serial,
    /// MaxCmdSN, of the session.
    pub max_cmd_sn: Serial,
}

header! {
    /// SCSI Response. RFC 7143, 11.4.
    pub struct ScsiResponse {
        /// Bit 7, and the residual flags.
        pub flags: u8;
        /// 0: the command was completed at the target.
        pub response: u8;
        /// SCSI status.
        pub status: u8;
        lengths; reserved0: [u8; 8]; itt;
        /// SNACK tag.
        pub snack_tag: U32;
        serials;
        /// ExpDataSN: the number of Data-In and R2T PDUs of the command.
        pub exp_data_sn: U32;
        /// Residual of the read half of a bidirectional command.
        pub bidirectional_residual: U32;
        /// Residual count.
        pub residual: U32;
    }
}

impl ScsiResponse {
    /// O: the expected transfer length was too short, by the residual count.
    pub const OVERFLOW: u8 = 0x04;
    /// U: the residual count tells how much of the expected transfer length was not used.
    pub const UNDERFLOW: u8 = 0x02;
}

header! {
    /// Task Management Function Response. RFC 7143, 11.6.
    pub struct TaskResponse {
        /// Bit 7.
        pub flags: u8;
        /// How it ended.
        pub response: TaskResult;
        reserved0: [u8; 1]; lengths; reserved1: [u8; 8]; itt; reserved2: [u8; 4]; serials;
        reserved3: [u8; 12];
    }
}

header! {
    /// SCSI Data-In. RFC 7143, 11.7.
    pub struct DataIn {
        /// F, A, O, U and S.
        pub flags: u8;
        reserved0: [u8; 1];
        /// SCSI status, with S.
        pub status: u8;
        lengths; lun; itt; ttt; serials;
        /// DataSN: its number among the command's Data-In.
        pub data_sn: U32;
        /// Buffer offset of its data.
        pub offset: U32;
        /// Residual count, with S.
        pub residual: U32;
    }
}

impl DataIn {
    /// S: status, StatSN and residual are valid; no response follows.
    pub const STATUS: u8 = 0x01;
    /// U: the residual count tells how much of the expected transfer length was not used.
    pub const UNDERFLOW: u8 = 0x02;

    /// F: the last of its sequence.
    #[inline]
    pub const fn is_final(&self) -> bool {
        self.flags & FINAL != 0
    }

    /// S.
    #[inline]
    pub const fn has_status(&self) -> bool {
        self.flags & Self::STATUS != 0
    }
}

header! {
    /// Ready To Transfer. RFC 7143, 11.8.
    pub struct R2t {
        /// Bit 7.
        pub flags: u8;
        reserved0: [u8; 2]; lengths; lun; itt; ttt; serials;
        /// R2TSN: its number among the command's R2Ts.
        pub r2t_sn: U32;
        /// Buffer offset of the requested data.
        pub offset: U32;
        /// Desired data transfer length.
        pub desired_len: U32;
    }
}

header! {
    /// Asynchronous Message. RFC 7143, 11.9.
    pub struct Async {
        /// Bit 7.
        pub flags: u8;
        reserved0: [u8; 2]; lengths; lun; itt; reserved1: [u8; 4]; serials;
        /// AsyncEvent.
        pub event: AsyncEvent;
        /// AsyncVCode.
        pub vendor_code: u8;
        /// Depends on the event: CID, or Time2Wait's seconds of a logout.
        pub parameter1: U16;
        /// Time2Wait.
        pub parameter2: U16;
        /// Time2Retain.
        pub parameter3: U16;
        reserved2: [u8; 4];
    }
}

header! {
    /// Text Response. RFC 7143, 11.11.
    pub struct TextResponse {
        /// F and C.
        pub flags: u8;
        reserved0: [u8; 2]; lengths; lun; itt; ttt; serials; reserved1: [u8; 12];
    }
}

header! {
    /// Login Response. RFC 7143, 11.13.
    pub struct LoginResponse {
        /// T, C, CSG and NSG.
        pub flags: LoginFlags;
        /// The highest version that the target speaks.
        pub version_max: u8;
        /// The version of this connection.
        pub version_active: u8;
        lengths;
        /// ISID, as in the request.
        pub isid: [u8; 6];
        /// TSIH: the session's, in the last response.
        pub tsih: U16;
        itt; reserved0: [u8; 4]; serials;
        /// Status-Class.
        pub status_class: u8;
        /// Status-Detail.
        pub status_detail: u8;
        reserved1: [u8; 10];
    }
}

impl LoginResponse {
    /// A login response of version 0, without an error.
    pub fn new(flags: LoginFlags, itt: u32, serials: Serials) -> Self {
        Self {
            flags,
            opcode: OpcodeByte::new(Opcode::LOGIN_RESPONSE),
            itt: U32::new(itt),
            stat_sn: serials.stat_sn.field(),
            exp_cmd_sn: serials.exp_cmd_sn.field(),
            max_cmd_sn: serials.max_cmd_sn.field(),
            ..Self::new_zeroed()
        }
    }
}

header! {
    /// Logout Response. RFC 7143, 11.15.
    pub struct LogoutResponse {
        /// Bit 7.
        pub flags: u8;
        /// How it ended.
        pub response: LogoutResult;
        reserved0: [u8; 1]; lengths; reserved1: [u8; 8]; itt; reserved2: [u8; 4]; serials;
        reserved3: [u8; 4];
        /// Time2Wait, in seconds.
        pub time_to_wait: U16;
        /// Time2Retain, in seconds.
        pub time_to_retain: U16;
        reserved4: [u8; 4];
    }
}

header! {
    /// Reject. RFC 7143, 11.17. The header at fault follows as data.
    pub struct Reject {
        /// Bit 7.
        pub flags: u8;
        /// Why.
        pub reason: RejectReason;
        reserved0: [u8; 1]; lengths; reserved1: [u8; 8]; itt; reserved2: [u8; 4]; serials;
        /// DataSN or R2TSN, for some reasons.
        pub data_sn: U32;
        reserved3: [u8; 8];
    }
}

header! {
    /// NOP-In. RFC 7143, 11.19.
    pub struct NopIn {
        /// Bit 7.
        pub flags: u8;
        reserved0: [u8; 2]; lengths; lun; itt; ttt; serials; reserved1: [u8; 12];
    }
}
