//! Caulfield and Swanson: QuickSAN, 2013.

use super::{Paper, ReadWrite, Stated};

/// The paper.
pub const PAPER: Paper = Paper {
    name: "QuickSAN",
    authors: "A. M. Caulfield, S. Swanson",
    title: "QuickSAN: A Storage Area Network for Fast, Distributed, Solid State Disks",
    published: "ISCA 2013",
    hardware: "dual Xeon E5520, CentOS 5.8, 10 Gb/s Ethernet; SSDs of emulated phase-change memory \
               with the network in their own hardware (BEE3)",
};

const fn pair(read: f64, write: f64) -> ReadWrite {
    ReadWrite { read, write }
}

/// The latency of a 4 KiB request outside the medium, table 1, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stack {
    /// Its name.
    pub name: &'static str,
    /// System call and block layer.
    pub system: ReadWrite,
    /// The shared file system, for stacks that have one.
    pub file_system: Option<ReadWrite>,
    /// Block transport: software and wire.
    pub transport: ReadWrite,
    /// The printed sum.
    pub total: ReadWrite,
}

/// Table 1. The numbers for Fibre Channel are the paper's own estimate; its upper layers are those
/// of iSCSI.
pub const STACKS: [Stack; 4] = [
    Stack {
        name: "iSCSI",
        system: pair(4.0, 3.4),
        file_system: Some(pair(0.1, 1.5)),
        transport: pair(284.0, 207.7),
        total: pair(288.1, 212.6),
    },
    Stack {
        name: "Fibre Channel (estimate)",
        system: pair(4.0, 3.4),
        file_system: Some(pair(0.1, 1.5)),
        transport: pair(86.0, 85.9),
        total: pair(90.1, 90.8),
    },
    Stack {
        name: "QuickSAN-OS",
        system: pair(3.8, 3.4),
        file_system: Some(pair(1.4, 2.3)),
        transport: pair(17.0, 16.9),
        total: pair(22.2, 22.6),
    },
    Stack {
        name: "QuickSAN-D",
        system: pair(0.3, 0.3),
        file_system: None,
        transport: pair(17.0, 16.9),
        total: pair(17.2, 17.1),
    },
];

/// Latency of 4 KiB requests, table 2, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latency {
    /// The stack.
    pub name: &'static str,
    /// To storage of the same machine.
    pub local: ReadWrite,
    /// To storage of another machine.
    pub remote: ReadWrite,
}

/// Table 2.
pub const LATENCIES: [Latency; 3] = [
    Latency { name: "iSCSI", local: pair(92.3, 111.7), remote: pair(296.7, 236.5) },
    Latency { name: "QuickSAN-OS", local: pair(15.8, 17.5), remote: pair(27.0, 28.6) },
    Latency { name: "QuickSAN-D", local: pair(8.3, 9.7), remote: pair(19.5, 20.7) },
];

/// The reduction of latency from iSCSI to QuickSAN-OS. The text states it for writes, but with the
/// numbers of reads.
pub const LATENCY_CUT: Stated =
    Stated::new("latency saved, iSCSI to QuickSAN-OS", 92.0, "%", "section 5.2");

/// The gain in bandwidth of small accesses over iSCSI, for which the paper has three different
/// numbers.
pub const SMALL_ACCESS_GAIN: [Stated; 3] = [
    Stated::new("bandwidth of small accesses over iSCSI", 163.0, "times", "abstract"),
    Stated::new("bandwidth of 512 B writes over iSCSI", 164.4, "times", "section 5.3"),
    Stated::new("bandwidth of small requests over iSCSI", 167.0, "times", "section 6"),
];

/// Gain of distributed QuickSAN-D over iSCSI at 512 B, as stated in the text of figure 5.
pub const GAIN_512: ReadWrite = pair(72.7, 164.4);
/// The same gain at 256 KiB.
pub const GAIN_256K: ReadWrite = pair(4.6, 4.4);
/// The request size at which most curves of figure 5 peak.
pub const PEAK_LEN: u64 = 4096;

/// Energy of a 4 KiB operation over iSCSI relative to QuickSAN-OS and to QuickSAN-D: range of the
/// factor.
pub const ENERGY_OF_ISCSI: [(&str, [f64; 2]); 2] =
    [("QuickSAN-OS", [6.2, 12.7]), ("QuickSAN-D", [13.2, 27.4])];

/// Energy of writes saved by direct access, compared with access through the kernel.
pub const ENERGY_SAVED_DIRECT: Stated =
    Stated::new("energy of writes, QuickSAN-OS to QuickSAN-D", 76.0, "%", "figure 10");

/// The assumed power of an SSD and of a switch.
pub const ASSUMED_WATTS: [Stated; 2] = [
    Stated::new("an SSD", 24.0, "W", "section 5.7"),
    Stated::new("a switch", 150.0, "W", "section 5.7"),
];

/// Growth of the total bandwidth of mixed reads and writes from two to eight nodes. The text states
/// both numbers.
pub const SCALING_TWO_TO_EIGHT: [Stated; 2] = [
    Stated::new("total bandwidth, two to eight nodes", 2.0, "times", "section 5.4, first"),
    Stated::new("total bandwidth, two to eight nodes", 2.5, "times", "section 5.4, second"),
];
