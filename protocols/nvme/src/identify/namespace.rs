//! Identify Namespace. NVM Command Set 1.0, 4.1.5.1; NVMe Base 2.0, 5.17.2.8.

use nearflash_session::wire;
use nearflash_units::{BlockSize, Blocks};
use zerocopy::little_endian::{U16, U32, U64, U128};

wire! {
    /// One LBA format. NVM Command Set 1.0, 4.1.5.1.
    #[derive(Default)]
    pub struct LbaFormat: [u8; 4] {
        pub metadata_len: U16 = "MS: metadata bytes of a block",
        pub data_shift: u8 = "LBADS: the block size as an exponent of two",
        pub performance: u8 = "RP: relative performance",
    }
}

/// NSFEAT. NVM Command Set 1.0, 4.1.5.1.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct NamespaceFeatures(pub u8);

impl NamespaceFeatures {
    /// Bit 0: blocks are allocated when written, so that NUSE can be less than NSZE.
    pub const THIN: u8 = 1;
    /// Bit 1: NAWUN, NAWUPF and NACWU are valid.
    pub const ATOMICS: u8 = 1 << 1;
    /// Bit 4: NPWG to NOWS are valid.
    pub const OPTIMAL_SIZES: u8 = 1 << 4;
}

wire! {
    /// Identify Namespace data structure of the NVM command set, CNS 00h. NVM Command Set 1.0,
    /// 4.1.5.1.
    pub struct IdentifyNamespace: [u8; super::IDENTIFY_LEN] {
        pub blocks: U64 = "NSZE, in logical blocks",
        pub capacity: U64 = "NCAP, in logical blocks",
        pub used: U64 = "NUSE, in logical blocks",
        pub features: u8 = "NSFEAT, see [`NamespaceFeatures`]",
        pub formats: u8 = "NLBAF, 0's based",
        pub format: u8 = "FLBAS: the current format",
        pub reserved27: [u8; 3] = "MC to DPS",
        pub multi_path: u8 = "NMIC: bit 0, several controllers can attach the namespace",
        pub reservations: u8 = "RESCAP",
        pub format_progress: u8 = "FPI",
        /// DLFEAT: the value of deallocated blocks (bits 2:0); Write Zeroes can deallocate (bit 3).
        pub deallocate_features: u8,
        pub atomic_blocks: U16 = "NAWUN, 0's based",
        pub atomic_blocks_power_fail: U16 = "NAWUPF, 0's based",
        pub atomic_compare_blocks: U16 = "NACWU, 0's based",
        pub boundary_blocks: U16 = "NABSN",
        pub boundary_offset: U16 = "NABO",
        pub boundary_blocks_power_fail: U16 = "NABSPF",
        pub optimal_io_boundary: U16 = "NOIOB",
        pub nvm_capacity: U128 = "NVMCAP, in bytes",
        pub write_granularity: U16 = "NPWG, 0's based blocks",
        pub write_alignment: U16 = "NPWA, 0's based blocks",
        pub deallocate_granularity: U16 = "NPDG, 0's based blocks",
        pub deallocate_alignment: U16 = "NPDA, 0's based blocks",
        pub write_size: U16 = "NOWS, 0's based blocks",
        pub reserved74: [u8; 18] = "MSSRL to reserved",
        pub ana_group: U32 = "ANAGRPID",
        pub(crate) reserved96: [u8; 3],
        pub attributes: u8 = "NSATTR: bit 0, write protected",
        pub reserved100: [u8; 4] = "NVMSETID and ENDGID",
        pub nguid: [u8; 16] = "NGUID, big endian; zero if the namespace has none",
        pub eui64: [u8; 8] = "EUI64, big endian; zero if the namespace has none",
        pub lba_formats: [LbaFormat; 64] = "LBAF0 to LBAF63",
        pub vendor: [u8; 3712] = "Vendor specific",
    }
}
const _: () = {
    use std::mem::offset_of;
    assert!(offset_of!(IdentifyNamespace, multi_path) == 30);
    assert!(offset_of!(IdentifyNamespace, nvm_capacity) == 48);
    assert!(offset_of!(IdentifyNamespace, ana_group) == 92);
    assert!(offset_of!(IdentifyNamespace, nguid) == 104);
    assert!(offset_of!(IdentifyNamespace, lba_formats) == 128);
};

impl IdentifyNamespace {
    /// NMIC: shared by several controllers.
    pub const SHARED: u8 = 1;
    /// RESCAP: every type (bits 6:1), persistence (bit 0), IEKEY as of NVMe 1.3 (bit 7).
    pub const RESERVATIONS: u8 = 0xFF;
    /// NSATTR: write protected.
    pub const WRITE_PROTECTED: u8 = 1;
    /// DLFEAT bits 2:0 001b: deallocated blocks read as zeroes.
    pub const DEALLOCATED_READS_ZEROES: u8 = 0b001;
    /// DLFEAT bit 3: Write Zeroes may deallocate.
    pub const WRITE_ZEROES_DEALLOCATES: u8 = 1 << 3;

    /// NSZE.
    pub fn blocks(&self) -> Blocks {
        Blocks(self.blocks.get())
    }

    /// The current format: FLBAS bits 3:0 and, with more than 16 formats, bits 6:5.
    pub fn lba_format(&self) -> LbaFormat {
        let high = if self.formats > 15 { self.format >> 1 & 0b11_0000 } else { 0 };
        self.lba_formats[usize::from(self.format & 0xF | high)]
    }

    /// The logical block size; `None` if the namespace is inactive or the size is not supported.
    pub fn block_size(&self) -> Option<BlockSize> {
        let shift = u32::from(self.lba_format().data_shift);
        BlockSize::from_bytes(1_u32.checked_shl(shift)?)
    }
}

wire! {
    /// I/O command set independent Identify Namespace, CNS 08h. NVMe Base 2.0, 5.17.2.8.
    pub struct IndependentNamespace: [u8; super::IDENTIFY_LEN] {
        /// NSFEAT: bit 3 is UIDREUSE. The bits differ from those of [`NamespaceFeatures`].
        pub features: u8,
        pub multi_path: u8 = "NMIC",
        pub reservations: u8 = "RESCAP",
        pub format_progress: u8 = "FPI",
        pub ana_group: U32 = "ANAGRPID",
        pub attributes: u8 = "NSATTR",
        pub(crate) reserved9: [u8; 5],
        pub status: u8 = "NSTAT: bit 0, ready",
        pub(crate) reserved15: [u8; 4081],
    }
}

impl IndependentNamespace {
    /// NSFEAT bit 5: no volatile write cache, regardless of VWC. NVMe Base 2.1.
    pub const CACHE_NOT_PRESENT: u8 = 1 << 5;
    /// NSTAT: ready.
    pub const READY: u8 = 1;
}
