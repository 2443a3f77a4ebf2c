//! El-Harake and Schoenemeyer: Detailed Performance Analysis of Solid State Disks, 2011.

use super::{Paper, Stated};

/// The paper.
pub const PAPER: Paper = Paper {
    name: "solid-state study",
    authors: "H. N. El-Harake, T. Schoenemeyer",
    title: "Detailed Performance Analysis of Solid State Disks",
    published: "Swiss National Supercomputing Centre, 2011",
    hardware: "dual Opteron 6128, PCIe 2.0, XFS; Virident TachIOn 400 GB in RAID 5, \
               FusionIO ioDrive Duo 320 GB, both SLC",
};

/// fio's queue depth.
pub const FIO_DEPTH: u32 = 256;
/// fio's jobs on one file.
pub const FIO_JOBS: u32 = 8;
/// The numbers of IOR tasks.
pub const IOR_TASKS: [u32; 6] = [4, 8, 16, 32, 64, 96];
/// The number of tasks with which IOR was fastest.
pub const IOR_TASKS_BEST: u32 = 64;

/// Throughput in random order, as stated in the text of figures 5 to 8.
pub const THROUGHPUT: [Stated; 3] = [
    Stated::new("Virident, fio, peak of writes", 1200.0, "MB/s", "figure 5, text"),
    Stated::new("Virident, fio, reads at 64 KiB", 1000.0, "MB/s", "figure 5, text"),
    Stated::new("FusionIO, writes at 1 MiB", 1400.0, "MB/s", "figure 7, text"),
];

/// The block size from which both cards reach about 1 GB/s.
pub const LARGE_BLOCK_LEN: u64 = 16 << 10;

/// Maximum loss of throughput at 4 KiB, compared with the peak.
pub const SMALL_BLOCK_LOSS: Stated =
    Stated::new("throughput lost at 4 KiB, at most", 50.0, "%", "figure 5, text");

/// The loss of writes above 16 KiB, compared with reads, on the FusionIO card.
pub const WRITE_LOSS: Stated =
    Stated::new("FusionIO, writes slower than reads above 16 KiB", 15.0, "%", "section 3a");

/// IOPS of the Virident card at 4 KiB, as stated in the text of figures 9 and 10.
pub const IOPS: [Stated; 4] = [
    Stated::new("Virident, fio, reads", 200_000.0, "IOPS", "figure 9, text"),
    Stated::new("Virident, fio, writes", 160_000.0, "IOPS", "figure 9, text"),
    Stated::new("Virident, IOR, writes", 172_000.0, "IOPS", "figure 10, text"),
    Stated::new("Virident, IOR, reads", 41_000.0, "IOPS", "figure 10, text"),
];
