//! A node as its hosts and its users meet it: a `nearflash serve` process, over real sockets.
//!
//! Here is the stand: [`Node`] starts, signals and kills the process; [`Wire`] sends it bytes made
//! by hand; [`Host`] is the real client, [`Initiator`] that for iSCSI; [`DirectWire`] and [`Door`] are the same for direct; [`refused`] is for starts that must fail. The tests are in
//! `tests/`, one file for each side that a node has.
//!
//! Knows the node by its command line, its control socket and its port alone. Nothing here waits for
//! a span of time: [`eventually`] waits until something has become true.

mod binary;
mod direct;
mod direct_wire;
mod host;
mod initiator;
mod node;
mod pdu;
mod process;
mod refusal;
mod stamp;
mod wire;

use std::time::{Duration, Instant};

pub use binary::nearflash;
pub use direct::{Door, Key, assert_serves_direct};
pub use direct_wire::{DirectWire, open_request, request};
pub use host::{Host, assert_serves};
pub use initiator::{Initiator, Who, assert_serves_iscsi};
pub use node::{Node, Place};
pub use pdu::Pdu;
pub use process::Usage;
pub use refusal::{Refusal, refused};
pub use stamp::Stamp;
pub use wire::{Admin, Wire, connect_command, numbered, subsystem};

/// How long anything may take that should take a moment: for machines that are busy otherwise.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The first two processors that a test may use, as `--cores` takes them; one twice is none.
///
/// # Panics
/// When the system does not say which it may use.
pub fn two_cores() -> Option<String> {
    let set = rustix::thread::sched_getaffinity(None).expect("a process knows its processors");
    let allowed: Vec<usize> = (0..1024).filter(|core| set.is_set(*core)).take(2).collect();
    match allowed[..] {
        [first, second] => Some(format!("{first},{second}")),
        _ => None,
    }
}

/// Waits until `is_true`.
///
/// # Panics
/// When it does not become so.
pub fn eventually(what: &str, mut is_true: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_true() {
        assert!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
