//! The log pages for errors, health and firmware. NVMe Base 2.0, 5.16.1.2 to 5.16.1.4.

use nearflash_session::wire;
use zerocopy::little_endian::{U16, U32, U64, U128};

use crate::Ascii;

wire! {
    /// An entry of the error log page. NVMe Base 2.0, 5.16.1.2.
    pub struct ErrorEntry: [u8; 64] {
        /// The error's number in the controller's lifetime, starting at 1; 0 marks an unused entry.
        pub count: U64,
        pub queue_id: U16 = "SQID",
        pub command_id: U16 = "CID",
        pub status: U16 = "Status with phase, as in the completion",
        /// The invalid byte (bits 7:0) and bit (bits 10:8) of the command; FFFFh for none.
        pub parameter_location: U16,
        pub(crate) reserved16: [u8; 8],
        pub nsid: U32 = "NSID",
        pub(crate) reserved28: u8,
        pub transport: u8 = "TRTYPE",
        pub(crate) reserved30: [u8; 34],
    }

    /// SMART / health information. NVMe Base 2.0, 5.16.1.3.
    pub struct HealthInformation: [u8; 512] {
        pub critical_warning: u8 = "Warnings, one bit each; 0 is no warning",
        pub temperature: U16 = "In kelvins",
        pub available_spare: u8 = "In per cent",
        pub spare_threshold: u8 = "In per cent",
        pub used: u8 = "In per cent, may exceed 100",
        pub endurance_group_warning: u8 = "Endurance group warnings, one bit each",
        pub(crate) reserved: [u8; 25],
        pub data_units_read: U128 = "In thousands of 512 bytes, rounded up",
        pub data_units_written: U128 = "In thousands of 512 bytes, rounded up",
        pub host_reads: U128 = "Read and Compare commands completed",
        pub host_writes: U128 = "Write commands completed",
        pub busy_minutes: U128 = "In minutes",
        pub power_cycles: U128 = "Power cycles",
        pub power_on_hours: U128 = "Power on hours",
        pub unsafe_shutdowns: U128 = "Power lost without a shutdown",
        pub media_errors: U128 = "Unrecovered errors of the medium",
        pub error_entries: U128 = "The number of error log entries in the controller's lifetime",
        /// Times above the temperature thresholds, sensors, thermal management counters.
        pub reserved192: [u8; 320],
    }
}

wire! {
    /// Firmware slot information. NVMe Base 2.0, 5.16.1.4.
    pub struct FirmwareSlots: [u8; 512] {
        pub active: u8 = "AFI: the active slot in bits 2:0",
        pub(crate) reserved: [u8; 7],
        pub revisions: [Ascii<8>; 7] = "FRS1 to FRS7; empty slots are zero",
        pub(crate) reserved2: [u8; 448],
    }
}

impl FirmwareSlots {
    /// One revision in slot 1, which is active.
    pub fn new(revision: Ascii<8>) -> Self {
        let mut revisions = [Ascii([0; 8]); 7];
        revisions[0] = revision;
        Self { active: 1, reserved: [0; 7], revisions, reserved2: [0; 448] }
    }
}
