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
}

wire! {
    /// The header of the discovery log page. NVMe Base 2.0, 5.16.1.23.
    pub struct DiscoveryHeader: [u8; 1024] {
        /// GENCTR: incremented when the log changes. A reader that finds another value starts over.
        pub generation: U64,
        /// NUMREC: the number of entries that follow.
        pub entries: U64,
        /// RECFMT: 0.
        pub record_format: U16,
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
        /// TRTYPE.
        pub transport: TransportType,
        /// ADRFAM.
        pub family: AddressFamily,
        /// SUBTYPE.
        pub subsystem_type: SubsystemType,
        /// TREQ: secure channel not specified (00b), SQ flow control may be disabled (bit 2).
        pub requirements: u8,
        /// PORTID: the listener.
        pub port_id: U16,
        /// CNTLID: FFFFh, the dynamic controller model.
        pub controller_id: U16,
        /// ASQSZ: the maximum number of entries of an admin queue.
        pub admin_queue_entries_max: U16,
        /// EFLAGS.
        pub flags: U16,
        pub(crate) reserved: [u8; 20],
        /// TRSVCID: the TCP port, in decimal.
        pub service: Ascii<32>,
        pub(crate) reserved2: [u8; 192],
        /// SUBNQN.
        pub subsystem: NqnField,
        /// TRADDR: the IP address.
        pub address: Ascii<256>,
        /// TSAS: for TCP, byte 0 is the security type, 0 for none.
        pub transport_specific: [u8; 256],
    }
}

impl DiscoveryEntry {
    /// TREQ: SQ flow control may be disabled.
    pub const SQ_FLOW_CONTROL_OPTIONAL: u8 = 1 << 2;
}
