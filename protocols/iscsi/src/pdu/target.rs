//! The PDUs that a target sends.

use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::codes::{AsyncEvent, LogoutResult, RejectReason, TaskResult};
use super::fields::{DataSegmentLen, LoginFlags, LunField, Opcode, OpcodeByte, Serial};
use super::{FINAL, HEADER_LEN, NO_TAG};

/// The serial numbers that everything a target sends tells.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Serials {
    /// StatSN, of the connection.
    pub stat_sn: Serial,
    /// ExpCmdSN, of the session.
    pub exp_cmd_sn: Serial,
    /// MaxCmdSN, of the session.
    pub max_cmd_sn: Serial,
}

/// SCSI Response. RFC 7143, 11.4.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ScsiResponse {
    /// What it is.
    pub opcode: OpcodeByte,
    /// Bit 7, and where there is a residual.
    pub flags: u8,
    /// 0: the command was completed at the target.
    pub response: u8,
    /// SCSI status.
    pub status: u8,
    /// TotalAHSLength, in words of four bytes.
    pub ahs_words: u8,
    /// DataSegmentLength.
    pub data_len: DataSegmentLen,
    reserved0: [u8; 8],
    /// Initiator task tag.
    pub itt: U32,
    /// SNACK tag.
    pub snack_tag: U32,
    /// StatSN.
    pub stat_sn: U32,
    /// ExpCmdSN: the next command that the target expects.
    pub exp_cmd_sn: U32,
    /// MaxCmdSN: the last command that the target takes now.
    pub max_cmd_sn: U32,
    /// ExpDataSN: how many Data-In and R2T there were.
    pub exp_data_sn: U32,
    /// Residual of the read half of a bidirectional command.
    pub bidirectional_residual: U32,
    /// Residual count.
    pub residual: U32,
}
const _: () = assert!(size_of::<ScsiResponse>() == HEADER_LEN);

impl ScsiResponse {
    /// O: the transfer length was too short by the residual.
    pub const OVERFLOW: u8 = 0x04;
    /// U: so much of the transfer length was not used.
    pub const UNDERFLOW: u8 = 0x02;

    /// How a command ended at the target.
    #[inline]
    pub fn new(itt: u32, status: u8, serials: Serials) -> Self {
        Self {
            opcode: OpcodeByte::new(Opcode::SCSI_RESPONSE),
            flags: FINAL,
            status,
            itt: U32::new(itt),
            stat_sn: serials.stat_sn.field(),
            exp_cmd_sn: serials.exp_cmd_sn.field(),
            max_cmd_sn: serials.max_cmd_sn.field(),
            ..Self::new_zeroed()
        }
    }
}

/// Task Management Function Response. RFC 7143, 11.6.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct TaskResponse {
    /// What it is.
    pub opcode: OpcodeByte,
    /// Bit 7.
    pub flags: u8,
    /// How it ended.
    pub response: TaskResult,
    reserved0: [u8; 1],
    /// TotalAHSLength, in words of four bytes.
    pub ahs_words: u8,
    /// DataSegmentLength.
    pub data_len: DataSegmentLen,
    reserved1: [u8; 8],
    /// Initiator task tag.
    pub itt: U32,
    reserved2: [u8; 4],
    /// StatSN.
    pub stat_sn: U32,
    /// ExpCmdSN: the next command that the target expects.
    pub exp_cmd_sn: U32,
    /// MaxCmdSN: the last command that the target takes now.
    pub max_cmd_sn: U32,
    reserved3: [u8; 12],
}
const _: () = assert!(size_of::<TaskResponse>() == HEADER_LEN);

impl TaskResponse {
    /// How a function ended.
    pub fn new(response: TaskResult, itt: u32, serials: Serials) -> Self {
        Self {
            opcode: OpcodeByte::new(Opcode::TASK_RESPONSE),
            flags: FINAL,
            response,
            itt: U32::new(itt),
            stat_sn: serials.stat_sn.field(),
            exp_cmd_sn: serials.exp_cmd_sn.field(),
            max_cmd_sn: serials.max_cmd_sn.field(),
            ..Self::new_zeroed()
        }
    }
}

/// SCSI Data-In. RFC 7143, 11.7.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct DataIn {
    /// What it is.
    pub opcode: OpcodeByte,
    /// F, A, O, U and S.
    pub flags: u8,
    reserved0: [u8; 1],
    /// SCSI status, with S.
    pub status: u8,
    /// TotalAHSLength, in words of four bytes.
    pub ahs_words: u8,
    /// DataSegmentLength.
    pub data_len: DataSegmentLen,
    /// LUN.
    pub lun: LunField,
    /// Initiator task tag.
    pub itt: U32,
    /// Target transfer tag.
    pub ttt: U32,
    /// StatSN.
    pub stat_sn: U32,
    /// ExpCmdSN: the next command that the target expects.
    pub exp_cmd_sn: U32,
    /// MaxCmdSN: the last command that the target takes now.
    pub max_cmd_sn: U32,
    /// DataSN: its number among the command's Data-In.
    pub data_sn: U32,
    /// Buffer offset of its data.
    pub offset: U32,
    /// Residual count, with S.
    pub residual: U32,
}
const _: () = assert!(size_of::<DataIn>() == HEADER_LEN);

impl DataIn {
    /// S: status, StatSN and residual are valid; no response follows.
    pub const STATUS: u8 = 0x01;
    /// U: so much of the transfer length was not used.
    pub const UNDERFLOW: u8 = 0x02;
    /// O: the transfer length was too short by the residual.
    pub const OVERFLOW: u8 = 0x04;
    /// A: an acknowledgement is asked for. Not at error recovery level 0.
    pub const ACKNOWLEDGE: u8 = 0x40;

    /// Data of a read. StatSN is told with [`Self::STATUS`] only.
    #[inline]
    pub fn new(flags: u8, itt: u32, serials: Serials) -> Self {
        Self {
            opcode: OpcodeByte::new(Opcode::DATA_IN),
            flags,
            itt: U32::new(itt),
            ttt: U32::new(NO_TAG),
            stat_sn: serials.stat_sn.field(),
            exp_cmd_sn: serials.exp_cmd_sn.field(),
            max_cmd_sn: serials.max_cmd_sn.field(),
            ..Self::new_zeroed()
        }
    }

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

/// Ready To Transfer. RFC 7143, 11.8.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct R2t {
    /// What it is.
    pub opcode: OpcodeByte,
    /// Bit 7.
    pub flags: u8,
    reserved0: [u8; 2],
    /// TotalAHSLength, in words of four bytes.
    pub ahs_words: u8,
    /// DataSegmentLength.
    pub data_len: DataSegmentLen,
    /// LUN.
    pub lun: LunField,
    /// Initiator task tag.
    pub itt: U32,
    /// Target transfer tag.
    pub ttt: U32,
    /// StatSN.
    pub stat_sn: U32,
    /// ExpCmdSN: the next command that the target expects.
    pub exp_cmd_sn: U32,
    /// MaxCmdSN: the last command that the target takes now.
    pub max_cmd_sn: U32,
    /// R2TSN: its number among the command's R2Ts.
    pub r2t_sn: U32,
    /// Buffer offset of what is asked for.
    pub offset: U32,
    /// Desired data transfer length.
    pub desired_len: U32,
}
const _: () = assert!(size_of::<R2t>() == HEADER_LEN);

impl R2t {
    /// Leave to send data. StatSN is the next one, and is not used up.
    #[inline]
    pub fn new(lun: LunField, itt: u32, ttt: u32, serials: Serials) -> Self {
        Self {
            opcode: OpcodeByte::new(Opcode::R2T),
            flags: FINAL,
            lun,
            itt: U32::new(itt),
            ttt: U32::new(ttt),
            stat_sn: serials.stat_sn.field(),
            exp_cmd_sn: serials.exp_cmd_sn.field(),
            max_cmd_sn: serials.max_cmd_sn.field(),
            ..Self::new_zeroed()
        }
    }
}

/// Asynchronous Message. RFC 7143, 11.9.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Async {
    /// What it is.
    pub opcode: OpcodeByte,
    /// Bit 7.
    pub flags: u8,
    reserved0: [u8; 2],
    /// TotalAHSLength, in words of four bytes.
    pub ahs_words: u8,
    /// DataSegmentLength.
    pub data_len: DataSegmentLen,
    /// LUN.
    pub lun: LunField,
    /// Initiator task tag.
    pub itt: U32,
    reserved1: [u8; 4],
    /// StatSN.
    pub stat_sn: U32,
    /// ExpCmdSN: the next command that the target expects.
    pub exp_cmd_sn: U32,
    /// MaxCmdSN: the last command that the target takes now.
    pub max_cmd_sn: U32,
    /// What happened.
    pub event: AsyncEvent,
    /// AsyncVCode.
    pub vendor_code: u8,
    /// Depends on the event: CID, or Time2Wait's seconds of a logout.
    pub parameter1: U16,
    /// Time2Wait.
    pub parameter2: U16,
    /// Time2Retain.
    pub parameter3: U16,
    reserved2: [u8; 4],
}
const _: () = assert!(size_of::<Async>() == HEADER_LEN);

impl Async {
    /// An event.
    pub fn new(event: AsyncEvent, serials: Serials) -> Self {
        Self {
            opcode: OpcodeByte::new(Opcode::ASYNC),
            flags: FINAL,
            itt: U32::new(NO_TAG),
            event,
            stat_sn: serials.stat_sn.field(),
            exp_cmd_sn: serials.exp_cmd_sn.field(),
            max_cmd_sn: serials.max_cmd_sn.field(),
            ..Self::new_zeroed()
        }
    }
}

/// Text Response. RFC 7143, 11.11.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct TextResponse {
    /// What it is.
    pub opcode: OpcodeByte,
    /// F and C.
    pub flags: u8,
    reserved0: [u8; 2],
    /// TotalAHSLength, in words of four bytes.
    pub ahs_words: u8,
    /// DataSegmentLength.
    pub data_len: DataSegmentLen,
    /// LUN.
    pub lun: LunField,
    /// Initiator task tag.
    pub itt: U32,
    /// Target transfer tag.
    pub ttt: U32,
    /// StatSN.
    pub stat_sn: U32,
    /// ExpCmdSN: the next command that the target expects.
    pub exp_cmd_sn: U32,
    /// MaxCmdSN: the last command that the target takes now.
    pub max_cmd_sn: U32,
    reserved1: [u8; 12],
}
const _: () = assert!(size_of::<TextResponse>() == HEADER_LEN);

impl TextResponse {
    /// Text. With [`NO_TAG`] as TTT, the exchange is over.
    pub fn new(flags: u8, itt: u32, ttt: u32, serials: Serials) -> Self {
        Self {
            opcode: OpcodeByte::new(Opcode::TEXT_RESPONSE),
            flags,
            itt: U32::new(itt),
            ttt: U32::new(ttt),
            stat_sn: serials.stat_sn.field(),
            exp_cmd_sn: serials.exp_cmd_sn.field(),
            max_cmd_sn: serials.max_cmd_sn.field(),
            ..Self::new_zeroed()
        }
    }
}

/// Login Response. RFC 7143, 11.13.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct LoginResponse {
    /// What it is.
    pub opcode: OpcodeByte,
    /// T, C, CSG and NSG.
    pub flags: LoginFlags,
    /// The highest version that the target speaks.
    pub version_max: u8,
    /// The version of this connection.
    pub version_active: u8,
    /// TotalAHSLength, in words of four bytes.
    pub ahs_words: u8,
    /// DataSegmentLength.
    pub data_len: DataSegmentLen,
    /// ISID, as in the request.
    pub isid: [u8; 6],
    /// TSIH: the session's, in the last response.
    pub tsih: U16,
    /// Initiator task tag.
    pub itt: U32,
    reserved0: [u8; 4],
    /// StatSN.
    pub stat_sn: U32,
    /// ExpCmdSN: the next command that the target expects.
    pub exp_cmd_sn: U32,
    /// MaxCmdSN: the last command that the target takes now.
    pub max_cmd_sn: U32,
    /// Whose fault it is, if one.
    pub status_class: u8,
    /// What exactly.
    pub status_detail: u8,
    reserved1: [u8; 10],
}
const _: () = assert!(size_of::<LoginResponse>() == HEADER_LEN);

impl LoginResponse {
    /// A login response of version 0, without an error.
    pub fn new(flags: LoginFlags, itt: u32, serials: Serials) -> Self {
        Self {
            opcode: OpcodeByte::new(Opcode::LOGIN_RESPONSE),
            flags,
            itt: U32::new(itt),
            stat_sn: serials.stat_sn.field(),
            exp_cmd_sn: serials.exp_cmd_sn.field(),
            max_cmd_sn: serials.max_cmd_sn.field(),
            ..Self::new_zeroed()
        }
    }
}

/// Logout Response. RFC 7143, 11.15.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct LogoutResponse {
    /// What it is.
    pub opcode: OpcodeByte,
    /// Bit 7.
    pub flags: u8,
    /// How it ended.
    pub response: LogoutResult,
    reserved0: [u8; 1],
    /// TotalAHSLength, in words of four bytes.
    pub ahs_words: u8,
    /// DataSegmentLength.
    pub data_len: DataSegmentLen,
    reserved1: [u8; 8],
    /// Initiator task tag.
    pub itt: U32,
    reserved2: [u8; 4],
    /// StatSN.
    pub stat_sn: U32,
    /// ExpCmdSN: the next command that the target expects.
    pub exp_cmd_sn: U32,
    /// MaxCmdSN: the last command that the target takes now.
    pub max_cmd_sn: U32,
    reserved3: [u8; 4],
    /// Time2Wait, in seconds.
    pub time_to_wait: U16,
    /// Time2Retain, in seconds.
    pub time_to_retain: U16,
    reserved4: [u8; 4],
}
const _: () = assert!(size_of::<LogoutResponse>() == HEADER_LEN);

impl LogoutResponse {
    /// How a logout ended.
    pub fn new(response: LogoutResult, itt: u32, serials: Serials) -> Self {
        Self {
            opcode: OpcodeByte::new(Opcode::LOGOUT_RESPONSE),
            flags: FINAL,
            response,
            itt: U32::new(itt),
            stat_sn: serials.stat_sn.field(),
            exp_cmd_sn: serials.exp_cmd_sn.field(),
            max_cmd_sn: serials.max_cmd_sn.field(),
            ..Self::new_zeroed()
        }
    }
}

/// Reject. RFC 7143, 11.17. The header at fault follows as data.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Reject {
    /// What it is.
    pub opcode: OpcodeByte,
    /// Bit 7.
    pub flags: u8,
    /// Why.
    pub reason: RejectReason,
    reserved0: [u8; 1],
    /// TotalAHSLength, in words of four bytes.
    pub ahs_words: u8,
    /// DataSegmentLength.
    pub data_len: DataSegmentLen,
    reserved1: [u8; 8],
    /// Initiator task tag.
    pub itt: U32,
    reserved2: [u8; 4],
    /// StatSN.
    pub stat_sn: U32,
    /// ExpCmdSN: the next command that the target expects.
    pub exp_cmd_sn: U32,
    /// MaxCmdSN: the last command that the target takes now.
    pub max_cmd_sn: U32,
    /// DataSN or R2TSN, for some reasons.
    pub data_sn: U32,
    reserved3: [u8; 8],
}
const _: () = assert!(size_of::<Reject>() == HEADER_LEN);

impl Reject {
    /// A PDU is not taken. Its header follows as data.
    pub fn new(reason: RejectReason, serials: Serials) -> Self {
        Self {
            opcode: OpcodeByte::new(Opcode::REJECT),
            flags: FINAL,
            reason,
            itt: U32::new(NO_TAG),
            data_len: DataSegmentLen::new(48),
            stat_sn: serials.stat_sn.field(),
            exp_cmd_sn: serials.exp_cmd_sn.field(),
            max_cmd_sn: serials.max_cmd_sn.field(),
            ..Self::new_zeroed()
        }
    }
}

/// NOP-In. RFC 7143, 11.19.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct NopIn {
    /// What it is.
    pub opcode: OpcodeByte,
    /// Bit 7.
    pub flags: u8,
    reserved0: [u8; 2],
    /// TotalAHSLength, in words of four bytes.
    pub ahs_words: u8,
    /// DataSegmentLength.
    pub data_len: DataSegmentLen,
    /// LUN.
    pub lun: LunField,
    /// Initiator task tag.
    pub itt: U32,
    /// Target transfer tag.
    pub ttt: U32,
    /// StatSN.
    pub stat_sn: U32,
    /// ExpCmdSN: the next command that the target expects.
    pub exp_cmd_sn: U32,
    /// MaxCmdSN: the last command that the target takes now.
    pub max_cmd_sn: U32,
    reserved1: [u8; 12],
}
const _: () = assert!(size_of::<NopIn>() == HEADER_LEN);

impl NopIn {
    /// A ping ([`NO_TAG`] as ITT), or the answer to one ([`NO_TAG`] as TTT).
    pub fn new(lun: LunField, itt: u32, ttt: u32, serials: Serials) -> Self {
        Self {
            opcode: OpcodeByte::new(Opcode::NOP_IN),
            flags: FINAL,
            lun,
            itt: U32::new(itt),
            ttt: U32::new(ttt),
            stat_sn: serials.stat_sn.field(),
            exp_cmd_sn: serials.exp_cmd_sn.field(),
            max_cmd_sn: serials.max_cmd_sn.field(),
            ..Self::new_zeroed()
        }
    }
}
