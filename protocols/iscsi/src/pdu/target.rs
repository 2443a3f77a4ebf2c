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
        pub flags: u8 = "Bit 7, and the residual flags";
        pub response: u8 = "0: the command was completed at the target";
        pub status: u8 = "SCSI status";
        lengths; reserved0: [u8; 8]; itt;
        pub snack_tag: U32 = "SNACK tag";
        serials;
        pub exp_data_sn: U32 = "ExpDataSN: the number of Data-In and R2T PDUs of the command";
        pub bidirectional_residual: U32 = "Residual of the read half of a bidirectional command";
        pub residual: U32 = "Residual count";
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
        pub flags: u8 = "Bit 7";
        pub response: TaskResult = "How it ended";
        reserved0: [u8; 1]; lengths; reserved1: [u8; 8]; itt; reserved2: [u8; 4]; serials;
        reserved3: [u8; 12];
    }
}

header! {
    /// SCSI Data-In. RFC 7143, 11.7.
    pub struct DataIn {
        pub flags: u8 = "F, A, O, U and S";
        reserved0: [u8; 1];
        pub status: u8 = "SCSI status, with S";
        lengths; lun; itt; ttt; serials;
        pub data_sn: U32 = "DataSN: its number among the command's Data-In";
        pub offset: U32 = "Buffer offset of its data";
        pub residual: U32 = "Residual count, with S";
    }
}

impl DataIn {
    /// S: status, StatSN and residual are valid; no response follows.
    pub const STATUS: u8 = 0x01;
    /// U: the residual count tells how much of the expected transfer length was not used.
    pub const UNDERFLOW: u8 = 0x02;

    /// F: the last of its sequence.
    pub const fn is_final(&self) -> bool {
        self.flags & FINAL != 0
    }

    /// S.
    pub const fn has_status(&self) -> bool {
        self.flags & Self::STATUS != 0
    }
}

header! {
    /// Ready To Transfer. RFC 7143, 11.8.
    pub struct R2t {
        pub flags: u8 = "Bit 7";
        reserved0: [u8; 2]; lengths; lun; itt; ttt; serials;
        pub r2t_sn: U32 = "R2TSN: its number among the command's R2Ts";
        pub offset: U32 = "Buffer offset of the requested data";
        pub desired_len: U32 = "Desired data transfer length";
    }
}

header! {
    /// Asynchronous Message. RFC 7143, 11.9.
    pub struct Async {
        pub flags: u8 = "Bit 7";
        reserved0: [u8; 2]; lengths; lun; itt; reserved1: [u8; 4]; serials;
        pub event: AsyncEvent = "AsyncEvent";
        pub vendor_code: u8 = "AsyncVCode";
        pub parameter1: U16 = "Depends on the event: CID, or Time2Wait's seconds of a logout";
        pub parameter2: U16 = "Time2Wait";
        pub parameter3: U16 = "Time2Retain";
        reserved2: [u8; 4];
    }
}

header! {
    /// Text Response. RFC 7143, 11.11.
    pub struct TextResponse {
        pub flags: u8 = "F and C";
        reserved0: [u8; 2]; lengths; lun; itt; ttt; serials; reserved1: [u8; 12];
    }
}

header! {
    /// Login Response. RFC 7143, 11.13.
    pub struct LoginResponse {
        pub flags: LoginFlags = "T, C, CSG and NSG";
        pub version_max: u8 = "The highest version that the target speaks";
        pub version_active: u8 = "The version of this connection";
        lengths;
        pub isid: [u8; 6] = "ISID, as in the request";
        pub tsih: U16 = "TSIH: the session's, in the last response";
        itt; reserved0: [u8; 4]; serials;
        pub status_class: u8 = "Status-Class";
        pub status_detail: u8 = "Status-Detail";
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
        pub flags: u8 = "Bit 7";
        pub response: LogoutResult = "How it ended";
        reserved0: [u8; 1]; lengths; reserved1: [u8; 8]; itt; reserved2: [u8; 4]; serials;
        reserved3: [u8; 4];
        pub time_to_wait: U16 = "Time2Wait, in seconds";
        pub time_to_retain: U16 = "Time2Retain, in seconds";
        reserved4: [u8; 4];
    }
}

header! {
    /// Reject. RFC 7143, 11.17. The header at fault follows as data.
    pub struct Reject {
        pub flags: u8 = "Bit 7";
        pub reason: RejectReason = "Why";
        reserved0: [u8; 1]; lengths; reserved1: [u8; 8]; itt; reserved2: [u8; 4]; serials;
        pub data_sn: U32 = "DataSN or R2TSN, for some reasons";
        reserved3: [u8; 8];
    }
}

header! {
    /// NOP-In. RFC 7143, 11.19.
    pub struct NopIn {
        pub flags: u8 = "Bit 7";
        reserved0: [u8; 2]; lengths; lun; itt; ttt; serials; reserved1: [u8; 12];
    }
}
