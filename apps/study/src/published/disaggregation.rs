//! Trivedi: Networked NVM Storage, a lecture of 2020 that draws on Klimovic and others on flash
//! over iSCSI (2016) and on FlashNet (2018).

use super::{Paper, Stated};

/// The lecture.
pub const PAPER: Paper = Paper {
    name: "flash disaggregation",
    authors: "A. Trivedi; after A. Klimovic and others, and A. Trivedi and others",
    title: "Storage Systems, lecture 7: Networked NVM Storage",
    published: "Vrije Universiteit Amsterdam, 2020; EuroSys 2016; ACM TOS 14 (4), 2018",
    hardware: "dual Xeon servers with 64 GB behind 10 Gb/s, PCIe flash of 250 k IOPS, \
               the Linux iSCSI stack",
};

/// IOPS of one iSCSI tenant before any tuning.
pub const BASELINE_IOPS: Stated = Stated::new(
    "one tenant over iSCSI, untuned",
    10_500.0,
    "IOPS",
    "slide on network optimizations",
);

/// Gain from several threads per session: lower and upper bound of the factor.
pub const THREADS_GAIN: [f64; 2] = [4.0, 5.0];

/// IOPS of eight tuned tenants, which equal the device's.
pub const EIGHT_TENANTS_IOPS: Stated =
    Stated::new("eight tenants over tuned iSCSI", 250_000.0, "IOPS", "slide on threads");

/// The increase of the application's 95th percentile due to remote flash.
pub const P95_ADDED: Stated = Stated::new(
    "95th percentile added by remote flash, RocksDB",
    260.0,
    "µs",
    "slide on application-level performance",
);

/// Application throughput lost when tenants share remote flash.
pub const THROUGHPUT_LOSS: Stated =
    Stated::new("queries per second lost", 20.0, "%", "slide on loaded latency");

/// Overhead of disaggregation in the cost model, as a fraction of the cost of flash.
pub const OVERHEAD: f64 = 0.20;

/// The categories of [`CPU_SHARES`].
pub const CPU_SHARE_OF: [&str; 7] =
    ["network", "storage", "I/O drivers", "scheduling", "kernel", "application", "other"];

/// Shares of processor time in per cent with sockets and files, and with FlashNet, in the order of
/// [`CPU_SHARE_OF`].
pub const CPU_SHARES: [(&str, [f64; 7]); 2] = [
    ("sockets and files", [19.3, 7.3, 6.7, 15.8, 40.1, 4.7, 6.1]),
    ("FlashNet", [20.6, 0.8, 6.4, 8.4, 46.7, 11.7, 5.4]),
];
