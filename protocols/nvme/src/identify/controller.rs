//! Identify Controller. NVMe Base 2.0, 5.17.2.1, with its Fabrics fields.

use nearflash_session::wire;
use zerocopy::little_endian::{U16, U32};

use crate::{Ascii, NqnField};

wire! {
    /// CNTRLTYPE. NVMe Base 2.0, 5.17.2.1.
    pub struct ControllerType(pub u8);
}

impl ControllerType {
    /// I/O controller.
    pub const IO: Self = Self(1);
    /// Discovery controller.
    pub const DISCOVERY: Self = Self(2);
}

wire! {
    /// Identify Controller data structure, CNS 01h. NVMe Base 2.0, 5.17.2.1.
    pub struct IdentifyController: [u8; super::IDENTIFY_LEN] {
        pub reserved0: [u8; 4] = "VID to SSVID",
        pub serial: Ascii<20> = "SN: serial number",
        pub model: Ascii<40> = "MN: model number",
        pub firmware: Ascii<8> = "FR: firmware revision",
        pub reserved72: [u8; 4] = "RAB to IEEE",
        pub multi_path: u8 = "CMIC: sharing and asymmetry between controllers",
        pub transfer_shift_max: u8 = "MDTS: exponent of two, in units of 4 KiB; 0 is no limit",
        pub controller_id: U16 = "CNTLID",
        pub version: U32 = "VER",
        pub reserved84: [u8; 8] = "RTD3R to RTD3E",
        pub notices: U32 = "OAES: the notices that the controller can send, see [`crate::Notices`]",
        pub attributes: U32 = "CTRATT",
        pub reserved100: [u8; 11] = "RRLS and what follows it",
        pub controller_type: ControllerType = "CNTRLTYPE",
        pub reserved112: [u8; 144] = "FGUID and what follows it",
        pub admin_commands: U16 = "OACS: optional admin commands",
        pub abort_limit: u8 = "ACL, 0's based: the maximum number of concurrent Abort commands",
        /// AERL, 0's based: the maximum number of outstanding Asynchronous Event Requests.
        pub async_event_limit: u8,
        pub firmware_updates: u8 = "FRMW",
        pub log_page_attributes: u8 = "LPA",
        pub error_log_entries: u8 = "ELPE, 0's based: the number of error log entries",
        pub reserved263: [u8; 57] = "NPSS to FWUG",
        /// KAS, in 100 ms: granularity of the keep-alive timer; 0 if it is not supported.
        pub keep_alive_granularity: U16,
        pub reserved322: [u8; 20] = "HCTMA to ENDGIDMAX",
        /// ANATT, in seconds: the longest time that an ANA transition may take.
        pub ana_transition_time: u8,
        pub ana_capabilities: u8 = "ANACAP: the ANA states that the controller reports",
        pub ana_group_max: U32 = "ANAGRPMAX: the largest ANA group identifier",
        pub ana_groups: U32 = "NANAGRPID: the number of ANA groups",
        pub reserved352: [u8; 160] = "PELS to reserved",
        /// SQES: required (bits 3:0) and largest (7:4) command size, exponents of two.
        pub command_len_shifts: u8,
        pub completion_len_shifts: u8 = "CQES: the same for completions",
        pub commands_max: U16 = "MAXCMD: the maximum number of outstanding commands",
        pub namespaces: U32 = "NN: the largest namespace number",
        pub nvm_commands: U16 = "ONCS: optional NVM commands",
        pub fused_operations: U16 = "FUSES: fused operations",
        pub format_attributes: u8 = "FNA",
        pub volatile_cache: u8 = "VWC: volatile write cache",
        pub reserved526: [u8; 6] = "AWUN to NWPC",
        /// ACWU, 0's based: the maximum number of blocks of a fused compare and write.
        pub atomic_compare_blocks: U16,
        pub copy_formats: U16 = "OCFS",
        pub sgl_support: U32 = "SGLS",
        pub namespaces_max: U32 = "MNAN: the maximum number of namespaces",
        pub reserved544: [u8; 224] = "MAXDNA to reserved",
        pub subsystem: NqnField = "SUBNQN",
        pub(crate) reserved1024: [u8; 768],
        pub io_command_capsule_len: U32 = "IOCCSZ, in 16 bytes: size of an I/O command capsule",
        pub io_response_capsule_len: U32 = "IORCSZ, in 16 bytes: size of an I/O response capsule",
        /// ICDOFF, in 16 bytes: the offset of in-capsule data after the command.
        pub in_capsule_data_offset: U16,
        pub fabrics_attributes: u8 = "FCATT: bit 0 is set by the static controller model",
        pub sgl_descriptors_max: u8 = "MSDBD: the maximum number of SGL descriptors in a capsule",
        pub fabrics_commands: U16 = "OFCS: optional Fabrics commands",
        pub reserved1806: [u8; 242] = "DCTYPE and what follows it",
        pub reserved2048: [u8; 2048] = "Power state descriptors, and vendor specific",
    }
}
const _: () = {
    use std::mem::offset_of;
    assert!(offset_of!(IdentifyController, controller_type) == 111);
    assert!(offset_of!(IdentifyController, admin_commands) == 256);
    assert!(offset_of!(IdentifyController, keep_alive_granularity) == 320);
    assert!(offset_of!(IdentifyController, ana_transition_time) == 342);
    assert!(offset_of!(IdentifyController, command_len_shifts) == 512);
    assert!(offset_of!(IdentifyController, sgl_support) == 536);
    assert!(offset_of!(IdentifyController, subsystem) == 768);
    assert!(offset_of!(IdentifyController, io_command_capsule_len) == 1792);
    assert!(offset_of!(IdentifyController, reserved2048) == 2048);
};

impl IdentifyController {
    /// CMIC bit 1: the subsystem can have several controllers.
    pub const SEVERAL_CONTROLLERS: u8 = 1 << 1;
    /// CMIC bit 3: asymmetric namespace access is reported.
    pub const ANA_REPORTING: u8 = 1 << 3;
    /// CTRATT bit 0: 128-bit host identifiers.
    pub const HOST_ID_128: u32 = 1;
    /// LPA bit 0: the health log page per namespace.
    pub const NAMESPACE_HEALTH: u8 = 1;
    /// LPA bit 1: the commands supported and effects log page.
    pub const EFFECTS_LOG: u8 = 1 << 1;
    /// LPA bit 2: log pages can be read in parts.
    pub const EXTENDED_LOG: u8 = 1 << 2;
    /// LPA bit 5: the supported log pages and feature effects log pages.
    pub const SUPPORTED_PAGES_LOG: u8 = 1 << 5;
    /// ONCS bit 0: Compare.
    pub const COMPARE: u16 = 1;
    /// ONCS bit 2: Dataset Management.
    pub const DATASET_MANAGEMENT: u16 = 1 << 2;
    /// ONCS bit 3: Write Zeroes.
    pub const WRITE_ZEROES: u16 = 1 << 3;
    /// ONCS bit 4: the Save and Select fields of the feature commands.
    pub const SAVE_AND_SELECT: u16 = 1 << 4;
    /// ONCS bit 5: reservations.
    pub const RESERVATIONS: u16 = 1 << 5;
    /// ONCS bit 6: the Timestamp feature.
    pub const TIMESTAMP: u16 = 1 << 6;
    /// FUSES bit 0: compare and write.
    pub const COMPARE_AND_WRITE: u16 = 1;
    /// VWC bit 0: a volatile write cache is present.
    pub const CACHE_PRESENT: u8 = 1;
    /// VWC bits 2:1 11b: Flush supports NSID FFFFFFFFh.
    pub const FLUSH_ALL: u8 = 0b11 << 1;
    /// ANACAP bit 0: the optimized state is reported.
    pub const ANA_OPTIMIZED: u8 = 1;
    /// SGLS bits 1:0 01b: SGLs without alignment or granularity.
    pub const SGL: u32 = 0b01;
    /// SGLS bit 20: data may be in the capsule, at an offset.
    pub const SGL_OFFSET: u32 = 1 << 20;
    /// SGLS bit 21: the transport data block descriptor.
    pub const SGL_TRANSPORT: u32 = 1 << 21;
    /// OFCS bit 0: Disconnect.
    pub const DISCONNECT: u16 = 1;

    /// MDTS in bytes: the maximum data length of one command; `None` is no limit.
    pub fn transfer_len_max(&self) -> Option<u64> {
        let shift = u32::from(self.transfer_shift_max);
        (shift != 0).then(|| 4096_u64.checked_shl(shift).unwrap_or(u64::MAX))
    }

    /// The maximum length of an I/O command's in-capsule data, in bytes.
    pub fn in_capsule_len_max(&self) -> u32 {
        let capsule = self.io_command_capsule_len.get().saturating_mul(16);
        let before = 64 + u32::from(self.in_capsule_data_offset.get()) * 16;
        capsule.saturating_sub(before)
    }
}
