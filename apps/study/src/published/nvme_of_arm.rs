//! Jia, Anger and Chen: When NVMe over Fabrics Meets Arm, 2019.

use super::{Paper, Stated};

/// The talk.
pub const PAPER: Paper = Paper {
    name: "NVMe-oF on Arm",
    authors: "Y. Jia, E. Anger, F. Chen",
    title: "When NVMe over Fabrics Meets Arm: Performance and Implications",
    published: "MSST 2019",
    hardware: "target: Broadcom Stingray, 8 Cortex-A72 cores at 3 GHz, Intel P3600; host: Core \
               i7-6700; RoCEv2 at 50 Gb/s",
};

/// The number of jobs from which bandwidth no longer grows.
pub const PLATEAU_JOBS: Stated =
    Stated::new("jobs at which bandwidth reaches its plateau", 4.0, "jobs", "finding 1");

/// Increase of the host's processor time from local to remote flash, at 4 KiB.
pub const HOST_CPU_ADDED: Stated =
    Stated::new("processor time of the host added, 4 KiB", 31.5, "%", "finding 2");

/// The kernel's part of that increase.
pub const HOST_KERNEL_ADDED: Stated =
    Stated::new("of it in the kernel, 4 KiB", 26.9, "%", "finding 2");

/// Queue depth in the studies of jobs and of request sizes.
pub const DEPTH: u32 = 128;
/// Jobs in the studies of queue depth and of request sizes.
pub const JOBS: u32 = 8;

/// The bare network, with each side as the server.
pub const WIRE: [Stated; 4] = [
    Stated::new("network bandwidth, Arm serves", 45.42, "Gb/s", "experimental setup"),
    Stated::new("network bandwidth, x86 serves", 45.40, "Gb/s", "experimental setup"),
    Stated::new("network latency, Arm serves", 3.26, "µs", "experimental setup"),
    Stated::new("network latency, x86 serves", 3.17, "µs", "experimental setup"),
];
