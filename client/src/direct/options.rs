//! The time-outs of a client, and the size and identity of a queue pair.

use std::time::Duration;

use crate::builders::builders;

/// The time-outs of a client.
///
/// ```
/// use std::time::Duration;
/// use nearflash::Options;
///
/// let options = Options::default().silence_max(Duration::from_secs(2));
/// assert_eq!(options.reconnect_max, Duration::from_secs(30));
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The longest silence of a node that owes an answer: after it, pending operations end with an
    /// error.
    pub silence_max: Duration,
    /// The time for which reconnecting is tried after a lost connection, with increasing delays.
    pub reconnect_max: Duration,
    /// The time for which a blocking call spins before it sleeps: a wake-up costs more than a whole
    /// exchange.
    pub spin_max: Duration,
}

builders!(Options { silence_max: Duration, reconnect_max: Duration, spin_max: Duration });

impl Default for Options {
    /// 10 s of silence, 30 s of reconnects, 100 µs of spinning.
    fn default() -> Self {
        Self {
            silence_max: Duration::from_secs(10),
            reconnect_max: Duration::from_secs(30),
            spin_max: Duration::from_micros(100),
        }
    }
}

/// The size and identity of a queue pair.
///
/// ```
/// let options = nearflash::QueueOptions::default().depth(32);
/// assert_eq!(options.shared_len, 16 << 20);
/// ```
///
/// Later versions may add fields, so a program cannot name all of them:
///
/// ```compile_fail
/// let options = nearflash::QueueOptions { depth: 32, shared_len: 16 << 20 };
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct QueueOptions {
    /// The maximum number of operations in flight. The node may allow fewer;
    /// [`super::QueuePair::depth`] is the actual number.
    pub depth: u32,
    /// The length in bytes of the memory for buffers that is shared with a node on this machine.
    /// With 0, or more than 256 MiB, no memory is shared, and the Unix socket carries the payload.
    pub shared_len: usize,
    /// The identity that each of the queue pair's connections claims from the node; `None` draws a
    /// random one. Before a connection with this identity is ready, the node ends every other
    /// connection that claimed the same identity with the same key, and completes its requests. With
    /// an identity given here, a node that does not support claims is an error.
    pub identity: Option<[u8; 16]>,
    /// The lowest number that the queue pair's descriptors get, if as many are free from there on. It is
    /// for a library in a program that relies on the numbers of its own descriptors. 0 by default.
    pub descriptor_min: u32,
    /// Whether other code of the process may close the queue pair's descriptors. With shared memory, each
    /// system call on one of them is then preceded by a check that it is the one that was made, and the
    /// connection counts as lost otherwise. Most operations need no system call. `false` by default.
    pub guards_descriptors: bool,
}

builders!(QueueOptions {
    depth: u32,
    shared_len: usize,
    identity: Option<[u8; 16]>,
    descriptor_min: u32,
    guards_descriptors: bool
});

impl Default for QueueOptions {
    /// 128 operations, 16 MiB, a random identity.
    fn default() -> Self {
        Self {
            depth: 128,
            shared_len: 16 << 20,
            identity: None,
            descriptor_min: 0,
            guards_descriptors: false,
        }
    }
}
