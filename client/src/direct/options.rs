//! How patient a client is, and how large a queue pair.

use std::time::Duration;

/// How patient a client is.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// A node that owes an answer and says nothing for so long is given up: pending operations end
    /// with an error then.
    pub silence_max: Duration,
    /// For how long a lost connection is tried again, with growing waits.
    pub reconnect_max: Duration,
    /// A blocking call spins for so long before it sleeps: waking costs more than a whole exchange.
    pub spin_max: Duration,
}

impl Default for Options {
    /// A node is given up after 10 s of silence, a lost connection after 30 s; 100 µs of spinning.
    fn default() -> Self {
        Self {
            silence_max: Duration::from_secs(10),
            reconnect_max: Duration::from_secs(30),
            spin_max: Duration::from_micros(100),
        }
    }
}

/// How large a queue pair is.
#[derive(Clone, Copy, Debug)]
pub struct QueueOptions {
    /// Operations in flight. The node may allow fewer; [`super::QueuePair::depth`] says how many.
    pub depth: u32,
    /// Memory that is shared with a node of this machine, for buffers. With 0, or more than 256 MiB,
    /// none is shared, and the Unix socket carries the payload.
    pub shared_len: usize,
}

impl Default for QueueOptions {
    /// 128 operations, 16 MiB.
    fn default() -> Self {
        Self { depth: 128, shared_len: 16 << 20 }
    }
}
