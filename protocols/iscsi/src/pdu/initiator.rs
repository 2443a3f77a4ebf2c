//! The PDUs that an initiator sends.

use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::codes::{LogoutReason, TaskFunction};
use super::fields::{DataSegmentLen, LoginFlags, LunField, Opcode, OpcodeByte};
use super::{FINAL, HEADER_LEN, NO_TAG};

/// SCSI Command. RFC 7143, 11.3.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ScsiCommand {
    /// What it is.
    pub opcode: OpcodeByte,
    /// F, R, W and ATTR.
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
    /// Expected data transfer length.
    pub transfer_len: U32,
    /// CmdSN.
    pub cmd_sn: U32,
    /// ExpStatSN: the next status that the initiator expects.
    pub exp_stat_sn: U32,
    /// Command descriptor block, shorter ones padded.
    pub cdb: [u8; 16],
}
const _: () = assert!(size_of::<ScsiCommand>() == HEADER_LEN);

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
    #[inline]
    pub const fn is_final(&self) -> bool {
        self.flags & FINAL != 0
    }

    /// R.
    #[inline]
    pub const fn is_read(&self) -> bool {
        self.flags & Self::READ != 0
    }

    /// W.
    #[inline]
    pub const fn is_write(&self) -> bool {
        self.flags & Self::WRITE != 0
    }

    /// ATTR: 0 untagged, 1 simple, 2 ordered, 3 head of queue, 4 ACA.
    #[inline]
    pub const fn attribute(&self) -> u8 {
        self.flags & 7
    }
}

/// Task Management Function Request. RFC 7143, 11.5.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct TaskRequest {
    /// What it is.
    pub opcode: OpcodeByte,
    /// Bit 7, and the function.
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
    /// Referenced task tag.
    pub referenced_itt: U32,
    /// CmdSN.
    pub cmd_sn: U32,
    /// ExpStatSN: the next status that the initiator expects.
    pub exp_stat_sn: U32,
    /// RefCmdSN: the referenced task's CmdSN.
    pub ref_cmd_sn: U32,
    /// ExpDataSN, for a reassignment.
    pub exp_data_sn: U32,
    reserved1: [u8; 8],
}
const _: () = assert!(size_of::<TaskRequest>() == HEADER_LEN);

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

/// SCSI Data-Out. RFC 7143, 11.7.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct DataOut {
    /// What it is.
    pub opcode: OpcodeByte,
    /// F: the last of its sequence.
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
    reserved1: [u8; 4],
    /// ExpStatSN: the next status that the initiator expects.
    pub exp_stat_sn: U32,
    reserved2: [u8; 4],
    /// DataSN: its number in its sequence.
    pub data_sn: U32,
    /// Buffer offset of its data.
    pub offset: U32,
    reserved3: [u8; 4],
}
const _: () = assert!(size_of::<DataOut>() == HEADER_LEN);

impl DataOut {
    /// Data of a command: unsolicited with [`NO_TAG`], otherwise for an R2T.
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
    #[inline]
    pub const fn is_final(&self) -> bool {
        self.flags & FINAL != 0
    }

    /// Whether no R2T asked for it.
    #[inline]
    pub const fn is_unsolicited(&self) -> bool {
        self.ttt.get() == NO_TAG
    }
}

/// Text Request. RFC 7143, 11.10.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct TextRequest {
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
    /// CmdSN.
    pub cmd_sn: U32,
    /// ExpStatSN: the next status that the initiator expects.
    pub exp_stat_sn: U32,
    reserved1: [u8; 16],
}
const _: () = assert!(size_of::<TextRequest>() == HEADER_LEN);

impl TextRequest {
    /// Text, for immediate delivery, that begins an exchange ([`NO_TAG`]) or continues one.
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

/// Login Request. RFC 7143, 11.12.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct LoginRequest {
    /// What it is.
    pub opcode: OpcodeByte,
    /// T, C, CSG and NSG.
    pub flags: LoginFlags,
    /// The highest version that the initiator speaks.
    pub version_max: u8,
    /// The lowest.
    pub version_min: u8,
    /// TotalAHSLength, in words of four bytes.
    pub ahs_words: u8,
    /// DataSegmentLength.
    pub data_len: DataSegmentLen,
    /// ISID: the initiator's part of the session's identifier.
    pub isid: [u8; 6],
    /// TSIH: the target's part; 0 for a new session.
    pub tsih: U16,
    /// Initiator task tag.
    pub itt: U32,
    /// CID: the connection's number in its session.
    pub cid: U16,
    reserved0: [u8; 2],
    /// CmdSN.
    pub cmd_sn: U32,
    /// ExpStatSN: the next status that the initiator expects.
    pub exp_stat_sn: U32,
    reserved1: [u8; 16],
}
const _: () = assert!(size_of::<LoginRequest>() == HEADER_LEN);

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

/// Logout Request. RFC 7143, 11.14.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct LogoutRequest {
    /// What it is.
    pub opcode: OpcodeByte,
    /// Bit 7, and the reason.
    pub flags: u8,
    reserved0: [u8; 2],
    /// TotalAHSLength, in words of four bytes.
    pub ahs_words: u8,
    /// DataSegmentLength.
    pub data_len: DataSegmentLen,
    reserved1: [u8; 8],
    /// Initiator task tag.
    pub itt: U32,
    /// CID of the connection that is closed.
    pub cid: U16,
    reserved2: [u8; 2],
    /// CmdSN.
    pub cmd_sn: U32,
    /// ExpStatSN: the next status that the initiator expects.
    pub exp_stat_sn: U32,
    reserved3: [u8; 16],
}
const _: () = assert!(size_of::<LogoutRequest>() == HEADER_LEN);

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

/// NOP-Out. RFC 7143, 11.18.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct NopOut {
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
    /// CmdSN.
    pub cmd_sn: U32,
    /// ExpStatSN: the next status that the initiator expects.
    pub exp_stat_sn: U32,
    reserved1: [u8; 16],
}
const _: () = assert!(size_of::<NopOut>() == HEADER_LEN);

impl NopOut {
    /// A ping, for immediate delivery ([`NO_TAG`] as TTT), or the answer to one ([`NO_TAG`] as ITT).
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

/// SNACK Request. RFC 7143, 11.16. Refused at error recovery level 0.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct SnackRequest {
    /// What it is.
    pub opcode: OpcodeByte,
    /// Bit 7, and the type.
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
    reserved1: [u8; 4],
    /// ExpStatSN: the next status that the initiator expects.
    pub exp_stat_sn: U32,
    reserved2: [u8; 8],
    /// BegRun: the first that is asked for.
    pub run_begin: U32,
    /// RunLength: how many; 0 for all.
    pub run_len: U32,
}
const _: () = assert!(size_of::<SnackRequest>() == HEADER_LEN);
