//! The PDUs that an initiator sends.

use zerocopy::FromZeros;
use zerocopy::big_endian::{U16, U32};

use super::codes::{LogoutReason, TaskFunction};
use super::fields::{DataSegmentLen, LoginFlags, LunField, Opcode, OpcodeByte};
use super::{FINAL, HEADER_LEN};

header! {
    /// SCSI Command. RFC 7143, 11.3.
    pub struct ScsiCommand {
        pub flags: u8 = "F, R, W and ATTR";
        reserved0: [u8; 2]; lengths; lun; itt;
        pub transfer_len: U32 = "Expected data transfer length";
        cmd_sn; exp_stat_sn;
        pub cdb: [u8; 16] = "Command descriptor block, shorter ones padded";
    }
}

impl ScsiCommand {
    /// R: the initiator expects data.
    pub const READ: u8 = 0x40;
    /// W: the initiator has data.
    pub const WRITE: u8 = 0x20;

    /// A command, for delivery in order.
    #[inline]
    pub fn new(flags: u8, itt: u32) -> Self {
        Self {
            opcode: OpcodeByte::new(Opcode::SCSI_COMMAND),
            flags,
            itt: U32::new(itt),
            ..Self::new_zeroed()
        }
    }

    /// F: no unsolicited data follows.
    pub const fn is_final(&self) -> bool {
        self.flags & FINAL != 0
    }

    /// R.
    pub const fn is_read(&self) -> bool {
        self.flags & Self::READ != 0
    }

    /// W.
    pub const fn is_write(&self) -> bool {
        self.flags & Self::WRITE != 0
    }
}

header! {
    /// Task Management Function Request. RFC 7143, 11.5.
    pub struct TaskRequest {
        pub flags: u8 = "Bit 7, and the function";
        reserved0: [u8; 2]; lengths; lun; itt;
        pub referenced_itt: U32 = "Referenced task tag";
        cmd_sn; exp_stat_sn;
        pub ref_cmd_sn: U32 = "RefCmdSN: the referenced task's CmdSN";
        pub exp_data_sn: U32 = "ExpDataSN, for a reassignment";
        reserved1: [u8; 8];
    }
}

impl TaskRequest {
    /// A function, for immediate delivery.
    pub fn new(function: TaskFunction, lun: LunField, itt: u32, referenced_itt: u32) -> Self {
        Self {
            opcode: OpcodeByte::immediate(Opcode::TASK_REQUEST),
            flags: FINAL | function.0,
            lun,
            itt: U32::new(itt),
            referenced_itt: U32::new(referenced_itt),
            ..Self::new_zeroed()
        }
    }

    /// Which function.
    pub const fn function(&self) -> TaskFunction {
        TaskFunction(self.flags & 0x7F)
    }
}

header! {
    /// SCSI Data-Out. RFC 7143, 11.7.
    pub struct DataOut {
        pub flags: u8 = "F: the last of its sequence";
        reserved0: [u8; 2]; lengths; lun; itt; ttt; reserved1: [u8; 4]; exp_stat_sn;
        reserved2: [u8; 4];
        pub data_sn: U32 = "DataSN: its number in its sequence";
        pub offset: U32 = "Buffer offset of its data";
        reserved3: [u8; 4];
    }
}

impl DataOut {
    /// Data of a command: unsolicited with [`super::NO_TAG`], otherwise for an R2T.
    #[inline]
    pub fn new(lun: LunField, itt: u32, ttt: u32) -> Self {
        Self {
            opcode: OpcodeByte::new(Opcode::DATA_OUT),
            lun,
            itt: U32::new(itt),
            ttt: U32::new(ttt),
            ..Self::new_zeroed()
        }
    }

    /// F: the last of its sequence.
    pub const fn is_final(&self) -> bool {
        self.flags & FINAL != 0
    }
}

header! {
    /// Text Request. RFC 7143, 11.10.
    pub struct TextRequest {
        pub flags: u8 = "F and C";
        reserved0: [u8; 2]; lengths; lun; itt; ttt; cmd_sn; exp_stat_sn; reserved1: [u8; 16];
    }
}

impl TextRequest {
    /// Text, for immediate delivery, that begins an exchange ([`super::NO_TAG`]) or continues one.
    pub fn new(flags: u8, itt: u32, ttt: u32) -> Self {
        Self {
            opcode: OpcodeByte::immediate(Opcode::TEXT_REQUEST),
            flags,
            itt: U32::new(itt),
            ttt: U32::new(ttt),
            ..Self::new_zeroed()
        }
    }
}

header! {
    /// Login Request. RFC 7143, 11.12.
    pub struct LoginRequest {
        pub flags: LoginFlags = "T, C, CSG and NSG";
        pub version_max: u8 = "The highest version that the initiator speaks";
        pub version_min: u8 = "The lowest";
        lengths;
        pub isid: [u8; 6] = "ISID: the initiator's part of the session's identifier";
        pub tsih: U16 = "TSIH: the target's part; 0 for a new session";
        itt;
        pub cid: U16 = "CID: the connection's number in its session";
        reserved0: [u8; 2]; cmd_sn; exp_stat_sn; reserved1: [u8; 16];
    }
}

impl LoginRequest {
    /// A login request of version 0.
    pub fn new(flags: LoginFlags, isid: [u8; 6], tsih: u16, cid: u16) -> Self {
        Self {
            opcode: OpcodeByte::immediate(Opcode::LOGIN_REQUEST),
            flags,
            isid,
            tsih: U16::new(tsih),
            cid: U16::new(cid),
            ..Self::new_zeroed()
        }
    }
}

header! {
    /// Logout Request. RFC 7143, 11.14.
    pub struct LogoutRequest {
        pub flags: u8 = "Bit 7, and the reason";
        reserved0: [u8; 2]; lengths; reserved1: [u8; 8]; itt;
        pub cid: U16 = "CID of the connection that is closed";
        reserved2: [u8; 2]; cmd_sn; exp_stat_sn; reserved3: [u8; 16];
    }
}

impl LogoutRequest {
    /// A request, for immediate delivery.
    pub fn new(reason: LogoutReason, itt: u32, cid: u16) -> Self {
        Self {
            opcode: OpcodeByte::immediate(Opcode::LOGOUT_REQUEST),
            flags: FINAL | reason.0,
            itt: U32::new(itt),
            cid: U16::new(cid),
            ..Self::new_zeroed()
        }
    }

    /// Why.
    pub const fn reason(&self) -> LogoutReason {
        LogoutReason(self.flags & 0x7F)
    }
}

header! {
    /// NOP-Out. RFC 7143, 11.18.
    pub struct NopOut {
        pub flags: u8 = "Bit 7";
        reserved0: [u8; 2]; lengths; lun; itt; ttt; cmd_sn; exp_stat_sn; reserved1: [u8; 16];
    }
}

impl NopOut {
    /// A ping, for immediate delivery ([`super::NO_TAG`] as TTT), or the answer to one (as ITT).
    pub fn new(lun: LunField, itt: u32, ttt: u32) -> Self {
        Self {
            opcode: OpcodeByte::immediate(Opcode::NOP_OUT),
            flags: FINAL,
            lun,
            itt: U32::new(itt),
            ttt: U32::new(ttt),
            ..Self::new_zeroed()
        }
    }
}

header! {
    /// SNACK Request. RFC 7143, 11.16. Refused at error recovery level 0.
    pub struct SnackRequest {
        pub flags: u8 = "Bit 7, and the type";
        reserved0: [u8; 2]; lengths; lun; itt; ttt; reserved1: [u8; 4]; exp_stat_sn;
        reserved2: [u8; 8];
        pub run_begin: U32 = "BegRun: the first that is asked for";
        pub run_len: U32 = "RunLength: how many; 0 for all";
    }
}
