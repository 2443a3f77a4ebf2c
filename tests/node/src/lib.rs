//! A node as its hosts and its users see it: a `nearflash serve` process, over real sockets.
//!
//! The test harness: [`Node`] starts, signals and kills the process; [`Wire`] sends it handmade
//! bytes; [`Host`] is the NVMe/TCP host of the client crate, and [`Initiator`] the one for iSCSI;
//! [`DirectWire`] and [`Door`] are the counterparts for the direct protocol; [`refused`] is for
//! starts that must fail. The tests are in `tests/`, one file for each aspect of a node.
//!
//! The harness uses only the node's command line, control socket and ports. No test waits for a
//! fixed time: [`eventually`] waits until a condition holds.

mod binary;
mod copies;
mod direct;
mod direct_wire;
mod etcd;
mod held;
mod host;
mod initiator;
mod machine;
mod mirrors;
mod mounted;
mod network;
mod node;
mod path;
mod pdu;
mod process;
mod recorder;
mod refusal;
mod tls;
mod wire;

use std::time::{Duration, Instant};

pub use binary::nearflash;
pub use copies::{copy_file, copy_folder};
pub use direct::{Door, Key, assert_serves_direct};
pub use direct_wire::{DirectWire, open_request, request};
pub use etcd::Etcd;
pub use held::Held;
pub use host::{Host, assert_serves};
pub use initiator::{Initiator, Who, assert_serves_iscsi};
pub use machine::Machine;
pub use mirrors::{Mirror, Mirrored, Replica};
pub use mounted::{MountBench, Mounted, done, refused_command};
pub use nearflash_bench::consistency::{Kind, Load, LoadSize, Stamp, Violations};
pub use network::Network;
pub use node::{Node, Place};
pub use path::{Cut, Path, Protocol};
pub use pdu::Pdu;
pub use process::{Usage, freeze};
pub use recorder::Recorder;
pub use refusal::{Refusal, refused};
pub use tls::{TlsIdentity, TlsProxy, psk, psk_file, shake_hands_as_client};
pub use wire::{Admin, Wire, connect_command, numbered, subsystem};

/// The time-out of an operation that should take a moment, long enough for a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The first two processors that a test may use, in the form of `--cores`; `None` if there is only
/// one.
///
/// # Panics
/// When the system does not return the allowed processors.
pub fn two_cores() -> Option<String> {
    let set = rustix::thread::sched_getaffinity(None).expect("a process knows its processors");
    let allowed: Vec<usize> = (0..1024).filter(|core| set.is_set(*core)).take(2).collect();
    match allowed[..] {
        [first, second] => Some(format!("{first},{second}")),
        _ => None,
    }
}

/// Waits until `is_true` returns `true`.
///
/// # Panics
/// When it does not within [`PATIENCE`].
pub fn eventually(what: &str, mut is_true: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_true() {
        let waited = begun.elapsed();
        assert!(waited < PATIENCE, "{what}: not within {PATIENCE:?}");
        // A long wait polls less often, because one poll may start a program.
        std::thread::sleep((waited / 16).max(Duration::from_millis(2)));
    }
}
