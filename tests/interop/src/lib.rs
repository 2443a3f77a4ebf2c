//! Real peers against a real node: the Linux kernel's NVMe/TCP host, in a QEMU guest.
//!
//! A test boots a [`Guest`] with a script from `guest/scripts`, starts a [`Node`] on this machine,
//! and acts on the node at the marks that the script sets. The script decides: the test passes if
//! the script ends with status 0. The README of this crate describes the guest.
//!
//! This crate knows only nearflash's command line and ready line.

mod cluster;
mod conformance;
mod guest;
mod node;
mod place;

pub use cluster::Cluster;
pub use conformance::{Finding, Verdict, run_conformance_suite};
pub use guest::{Guest, Outcome, Script, offer};
pub use node::{Account, HostKeys, Node, stripped_program};
pub use place::Scratch;

/// Whether the guests connect to the target of their own kernel instead of a node.
#[must_use]
pub fn is_self_check() -> bool {
    std::env::var_os("NEARFLASH_SELF_CHECK").is_some_and(|value| value == "1")
}
