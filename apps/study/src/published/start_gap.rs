//! Qureshi and others: Start-Gap, 2009, which QuickSAN's memory uses.

use super::Paper;

/// The paper.
pub const PAPER: Paper = Paper {
    name: "start-gap",
    authors: "M. K. Qureshi, J. Karidis, M. Franceschini, V. Srinivasan, L. Lastras, B. Abali",
    title: "Enhancing Lifetime and Security of PCM-Based Main Memory with Start-Gap Wear Leveling",
    published: "MICRO 2009",
    hardware: "simulated: 16 GB of phase-change memory, lines of 256 bytes",
};

/// Share of the ideal life, in per cent, as stated in the abstract: without wear levelling, and with
/// start-gap and randomised addresses.
pub const LIFE_PERCENT: [f64; 2] = [5.0, 97.0];
