//! The discovery log page: the subsystems that a host can reach, and their addresses. NVMe Base
//! 2.0, 5.16.1.23.

use nearflash_session::wire;
use zerocopy::little_endian::{U16, U64};

use crate::{Ascii, NqnField};

wire! {
    /// TRTYPE. NVMe Base 2.0, 5.16.1.23.
    pub struct TransportType(pub u8);
}

#[allow(missing_docs, reason = "the names are the specification's")]
impl TransportType {
    pub const RDMA: Self = Self(1);
    pub const TCP: Self = Self(3);
}

wire! {
    /// ADRFAM. NVMe Base 2.0, 5.16.1.23.
    pub struct AddressFamily(pub u8);
}

#[allow(missing_docs, reason = "the names are the specification's")]
impl AddressFamily {
    pub const IPV4: Self = Self(1);
    pub const IPV6: Self = Self(2);
}

wire! {
    /// SUBTYPE. NVMe Base 2.0, 5.16.1.23.
    pub struct SubsystemType(pub u8);
}

impl SubsystemType {
    /// A subsystem with namespaces.
    pub const NVM: Self = Self(2);
    /// The discovery subsystem that returns the log.
    pub const CURRENT_DISCOVERY: Self = Self(3);
}

wire! {
    /// The header of the discovery log page. NVMe Base 2.0, 5.16.1.23.
    pub struct DiscoveryHeader: [u8; 1024] {
        /// GENCTR: incremented when the log changes. A reader that finds another value starts over.
        pub generation: U64,
        pub entries: U64 = "NUMREC: the number of entries that follow",
        pub record_format: U16 = "RECFMT: 0",
        pub(crate) reserved: [u8; 1006],
    }
}

impl DiscoveryHeader {
    /// The header of a log with `entries` entries.
    pub fn new(generation: u64, entries: u64) -> Self {
        Self {
            generation: generation.into(),
            entries: entries.into(),
            record_format: 0.into(),
            reserved: [0; 1006],
        }
    }
}

wire! {
    /// One address of one subsystem. NVMe Base 2.0, 5.16.1.23.
    pub struct DiscoveryEntry: [u8; 1024] {
        pub transport: TransportType = "TRTYPE",
        pub family: AddressFamily = "ADRFAM",
        pub subsystem_type: SubsystemType = "SUBTYPE",
        /// TREQ: whether a secure channel is required (bits 1:0), SQ flow control may be disabled (bit 2).
        pub requirements: u8,
        pub port_id: U16 = "PORTID: the listener",
        pub controller_id: U16 = "CNTLID: FFFFh, the dynamic controller model",
        pub admin_queue_entries_max: U16 = "ASQSZ: the maximum number of entries of an admin queue",
        pub flags: U16 = "EFLAGS, see [`Self::SAME_INFORMATION`]",
        pub(crate) reserved: [u8; 20],
        pub service: Ascii<32> = "TRSVCID: the TCP port, in decimal",
        pub(crate) reserved2: [u8; 192],
        pub subsystem: NqnField = "SUBNQN",
        pub address: Ascii<256> = "TRADDR: the IP address",
        /// TSAS: for TCP, byte 0 is SECTYPE, the security type, 0 for none.
        pub transport_specific: [u8; 256],
    }
}

impl DiscoveryEntry {
    /// TREQ: SQ flow control may be disabled.
    pub const SQ_FLOW_CONTROL_OPTIONAL: u8 = 1 << 2;
    /// TREQ: a secure channel is required.
    pub const SECURE_CHANNEL_REQUIRED: u8 = 0b01;
    /// EFLAGS bit 0 (DUPRETINFO): every entry with this flag leads to the same log.
    pub const SAME_INFORMATION: u16 = 1;
    /// EFLAGS bit 1 (EPCSD): a host may stay connected, with a keep-alive time-out.
    pub const PERSISTENT_CONNECTIONS: u16 = 1 << 1;
    /// SECTYPE: TLS 1.3. NVMe/TCP Transport 1.0, 3.1.1.
    pub const TLS_1_3: u8 = 2;
}
