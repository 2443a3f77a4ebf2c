//! Trivedi and others: Understanding the Performance of Networked Flash Storage, 2016.

use super::{Paper, Stated};

/// The paper.
pub const PAPER: Paper = Paper {
    name: "networked-flash study",
    authors: "A. Trivedi, B. Metzler, J. Pfefferle, P. Stuedi, N. Ioannou, I. Koltsidas, T. Gross",
    title: "Understanding the Performance of Networked Flash Storage",
    published: "IBM Research Report RZ 3906, 2016",
    hardware: "dual Xeon E5-2690 machines, Linux 3.13, 1, 10 and 40 Gb/s Ethernet; \
               a SATA SSD, a PCIe flash card, an HS4 card as block device and as RDMA device",
};

/// A local device in table 1. Pairs hold sequential and random order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Device {
    /// The paper's name for it.
    pub name: &'static str,
    /// Latency of 1 KiB reads, in microseconds.
    pub read_us: [f64; 2],
    /// Rate of 1 KiB reads, in thousands per second.
    pub read_kiops: [f64; 2],
    /// Throughput of 64 KiB reads, in MB/s.
    pub read_mb_s: [f64; 2],
    /// Latency of 1 KiB writes, in microseconds.
    pub write_us: [f64; 2],
    /// Rate of 1 KiB writes, in thousands per second.
    pub write_kiops: [f64; 2],
    /// Throughput of 64 KiB writes, in MB/s.
    pub write_mb_s: [f64; 2],
}

/// Table 1.
pub const DEVICES: [Device; 4] = [
    Device {
        name: "dev-SATA",
        read_us: [61.0, 117.4],
        read_kiops: [155.0, 51.0],
        read_mb_s: [271.0, 258.0],
        write_us: [1218.2, 89.1],
        write_kiops: [139.0, 36.0],
        write_mb_s: [220.0, 189.0],
    },
    Device {
        name: "dev-PCIe",
        read_us: [34.7, 77.6],
        read_kiops: [731.0, 605.0],
        read_mb_s: [1350.0, 1350.0],
        write_us: [15.1, 25.3],
        write_kiops: [776.0, 56.0],
        write_mb_s: [642.0, 714.0],
    },
    Device {
        name: "HS4-blk",
        read_us: [108.2, 118.0],
        read_kiops: [265.0, 323.0],
        read_mb_s: [2300.0, 2700.0],
        write_us: [668.2, 2018.0],
        write_kiops: [1.6, 1.7],
        write_mb_s: [1500.0, 1600.0],
    },
    Device {
        name: "HS4-DSA",
        read_us: [66.1, 66.5],
        read_kiops: [556.0, 531.0],
        read_mb_s: [3100.0, 3200.0],
        write_us: [522.1, 522.1],
        write_kiops: [84.0, 113.0],
        write_mb_s: [2000.0, 2000.0],
    },
];

/// A bare network in table 2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Network {
    /// Its name.
    pub name: &'static str,
    /// Latency of TCP sockets, in microseconds.
    pub tcp_us: f64,
    /// Rate of exchanges over TCP sockets, in thousands per second.
    pub tcp_kiops: f64,
    /// Latency and rate of RDMA send and receive, if the card supports it.
    pub rdma: Option<(f64, f64)>,
}

/// Table 2.
pub const NETWORKS: [Network; 3] = [
    Network { name: "1 GbE", tcp_us: 49.0, tcp_kiops: 365.0, rdma: None },
    Network { name: "10 GbE", tcp_us: 16.4, tcp_kiops: 549.0, rdma: Some((13.3, 750.0)) },
    Network { name: "40 GbE", tcp_us: 12.0, tcp_kiops: 620.0, rdma: Some((8.8, 1500.0)) },
];

/// A device behind a network in table 3: random 1 KiB reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Remote {
    /// Index into [`DEVICES`].
    pub device: usize,
    /// Index into [`NETWORKS`].
    pub network: usize,
    /// Measured latency, in microseconds.
    pub measured_us: f64,
    /// Printed sum of the device's and the network's latency, in microseconds.
    pub predicted_us: f64,
    /// Printed difference of the measured latency from the sum, in per cent.
    pub difference_percent: f64,
}

const fn remote(
    place: (usize, usize),
    measured_us: f64,
    predicted_us: f64,
    difference_percent: f64,
) -> Remote {
    let (device, network) = place;
    Remote { device, network, measured_us, predicted_us, difference_percent }
}

/// Table 3.
pub const REMOTE: [Remote; 9] = [
    remote((0, 0), 191.0, 166.4, 14.7),
    remote((0, 1), 183.0, 133.8, 36.7),
    remote((0, 2), 157.0, 129.4, 21.3),
    remote((1, 0), 130.0, 126.6, 2.6),
    remote((1, 1), 101.0, 94.0, 7.4),
    remote((1, 2), 92.0, 89.6, 2.6),
    remote((2, 0), 217.0, 167.0, 29.9),
    remote((2, 1), 142.0, 134.4, 5.6),
    remote((2, 2), 135.0, 130.0, 3.8),
];

/// Maximum excess over the sum, for PCIe flash over 10 and 40 Gb/s.
pub const SUM_EXCESS_MAX: Stated =
    Stated::new("remote latency above device + wire, at most", 8.0, "%", "section 2.1");

/// Peak IOPS, as stated in the text of figure 1.
pub const PEAK_IOPS: [Stated; 2] = [
    Stated::new("dev-SATA, whatever the network", 64_000.0, "IOPS", "figure 1, text"),
    Stated::new("dev-PCIe and HS4-blk over 1 GbE", 111_000.0, "IOPS", "figure 1, text"),
];

/// Maximum loss of peak IOPS to the network: a third in the summary, 32 % in the text.
pub const IOPS_LOSS_MAX: Stated =
    Stated::new("IOPS lost to the network, at most", 32.0, "%", "figure 1, text");

/// Peak bandwidths, as stated in the text of figure 2.
pub const PEAK_BANDWIDTH: [Stated; 4] = [
    Stated::new("anything over 1 GbE", 120.0, "MB/s", "figure 2, text"),
    Stated::new("dev-SATA", 245.0, "MB/s", "figure 2, text"),
    Stated::new("dev-PCIe", 1350.0, "MB/s", "figure 2, text"),
    Stated::new("HS4-blk", 2600.0, "MB/s", "figure 2, text"),
];

/// Maximum loss of bandwidth to the network, as long as the network is not saturated.
pub const BANDWIDTH_LOSS_MAX: Stated =
    Stated::new("bandwidth lost to the network, at most", 10.0, "%", "figure 2, text");

/// Block I/O of one core with 64 clients and a null device.
pub const CORE_IOPS: [Stated; 2] = [
    Stated::new("TCP and null device, one core", 59_000.0, "IOPS", "figure 4a, text"),
    Stated::new("RDMA and null device, one core", 195_000.0, "IOPS", "figure 4a, text"),
];

/// Sockets without block I/O, on one core.
pub const CORE_SOCKET_IOPS: Stated =
    Stated::new("TCP send and receive alone, one core", 170_000.0, "IOPS", "section 2.4");

/// Block I/O of all 32 cores with a null device.
pub const ALL_CORES_IOPS: [Stated; 2] = [
    Stated::new("TCP and null device, 32 cores", 510_000.0, "IOPS", "figure 4a, text"),
    Stated::new("RDMA and null device, 32 cores", 950_000.0, "IOPS", "figure 4a, text"),
];

/// Maximum gain of a transport that is offloaded to the network card, compared with sockets.
pub const OFFLOAD_GAIN_MAX: Stated =
    Stated::new("gain of RDMA over sockets, at most", 3.2, "times", "figure 4c, text");

/// The delays injected for figure 4b, in microseconds.
pub const INJECTED_DELAYS_US: [u64; 3] = [0, 10, 100];
