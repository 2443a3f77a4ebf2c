//! Trivedi and others: FlashNet, 2018.

use super::Paper;

/// The paper.
pub const PAPER: Paper = Paper {
    name: "FlashNet",
    authors: "A. Trivedi, N. Ioannou, B. Metzler, P. Stuedi, J. Pfefferle, K. Kourtis, \
              I. Koltsidas, T. R. Gross",
    title: "FlashNet: Flash/Network Stack Co-Design",
    published: "ACM Transactions on Storage 14 (4), 2018",
    hardware: "a software stack with a flash controller of its own; the abstract names no machine",
};

/// Gain in flash lifetime under writes, as stated in the abstract: lowest and highest factor. The
/// abstract does not name the workloads.
pub const LIFETIME_GAIN: [f64; 2] = [1.6, 5.9];
