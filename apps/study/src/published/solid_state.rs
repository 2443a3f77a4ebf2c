//! El-Harake and Schoenemeyer: Detailed Performance Analysis of Solid State Disks, 2011.

use super::{Paper, ReadWrite, Stated};

/// The paper.
pub const PAPER: Paper = Paper {
    name: "solid-state study",
    authors: "H. N. El-Harake, T. Schoenemeyer",
    title: "Detailed Performance Analysis of Solid State Disks",
    published: "Swiss National Supercomputing Centre, 2011",
    hardware: "dual Opteron 6128, PCIe 2.0, XFS; Virident TachIOn 400 GB in RAID 5, \
               FusionIO ioDrive Duo 320 GB, both SLC",
};

/// fio's queue depth and jobs, and the most tasks of IOR and those at which it was best.
pub const FIO_DEPTH: u32 = 256;
/// fio's jobs on one file.
pub const FIO_JOBS: u32 = 8;
/// IOR's tasks.
pub const IOR_TASKS: [u32; 6] = [4, 8, 16, 32, 64, 96];
/// The tasks with which IOR was best.
pub const IOR_TASKS_BEST: u32 = 64;

/// What the data sheets promise, in MB/s; one number where reads and writes are the same.
pub const DATA_SHEET_MB_S: [(&str, ReadWrite); 2] = [
    ("Virident", ReadWrite { read: 1440.0, write: 1200.0 }),
    ("FusionIO", ReadWrite { read: 1500.0, write: 1500.0 }),
];

/// Throughput that the text of figures 5 to 8 gives, random order.
pub const THROUGHPUT: [Stated; 3] = [
    Stated::new("Virident, fio, peak of writes", 1200.0, "MB/s", "figure 5, text"),
    Stated::new("Virident, fio, reads at 64 KiB", 1000.0, "MB/s", "figure 5, text"),
    Stated::new("FusionIO, writes at 1 MiB", 1400.0, "MB/s", "figure 7, text"),
];

/// Writes of 4 KiB to the FusionIO card lie between these.
pub const FUSION_4K_WRITE_MB_S: [f64; 2] = [400.0, 600.0];

/// From this block size on, both cards give about 1 GB/s.
pub const LARGE_BLOCK_LEN: u64 = 16 << 10;

/// By how much throughput at 4 KiB falls below the peak, at most.
pub const SMALL_BLOCK_LOSS: Stated =
    Stated::new("throughput lost at 4 KiB, at most", 50.0, "%", "figure 5, text");

/// By how much writes above 16 KiB to the FusionIO card are slower than reads.
pub const WRITE_LOSS: Stated =
    Stated::new("FusionIO, writes slower than reads above 16 KiB", 15.0, "%", "section 3a");

/// IOPS at 4 KiB that the text of figures 9 and 10 gives, Virident.
pub const IOPS: [Stated; 4] = [
    Stated::new("Virident, fio, reads", 200_000.0, "IOPS", "figure 9, text"),
    Stated::new("Virident, fio, writes", 160_000.0, "IOPS", "figure 9, text"),
    Stated::new("Virident, IOR, writes", 172_000.0, "IOPS", "figure 10, text"),
    Stated::new("Virident, IOR, reads", 41_000.0, "IOPS", "figure 10, text"),
];
