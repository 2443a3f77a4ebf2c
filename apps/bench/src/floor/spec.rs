//! The parameters of a floor.

use std::num::NonZeroUsize;

use nearflash_units::Nanos;

use super::exchange::Exchange;
use crate::placement::CoreId;

/// How the sides of a floor wait.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Waits {
    /// They spin, each on a core of its own.
    #[default]
    Spinning,
    /// They sleep at once, so that several can share a core.
    Asleep,
}

/// The cores of the sides.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FloorCores {
    /// The server's core.
    pub server: CoreId,
    /// The client's core.
    pub client: CoreId,
    /// The core of the third party, if there is one; `None` for the client's.
    pub third: Option<CoreId>,
}

impl Default for FloorCores {
    fn default() -> Self {
        Self { server: CoreId(0), client: CoreId(1), third: None }
    }
}

/// Parameters of the loops, whose best values depend on the machine; see [`Tuning::default`].
#[derive(Clone, Debug)]
pub struct Tuning {
    /// Maximum length of one receive.
    pub receive_len: usize,
    /// Maximum number of receives per turn, as long as they fill the buffer.
    pub receives_max: usize,
    /// Maximum length of one send.
    pub send_len: usize,
    /// Length of the buffer that a send repeats.
    pub send_buffer_len: usize,
    /// SO_RCVBUF and SO_SNDBUF; `None` for the kernel's autotuning.
    pub socket_buffer_len: Option<usize>,
    /// TCP_NODELAY.
    pub no_delay: bool,
    /// TCP_CONGESTION.
    pub congestion: Option<&'static str>,
}

impl Default for Tuning {
    /// Values found by measurement with near cores; medians of few runs of about 100 ms each:
    ///
    /// - 128 KiB answers at depth 16: 39 k/s with sends of up to 256 KiB, 46 k/s with 1 MiB, 53 k/s
    ///   with 2 MiB and with 4 MiB. One call for everything that is due lets the other side copy at
    ///   the same time. Repeating a small buffer, which stays in the cache, makes little
    ///   difference, with 32 KiB as with 128 KiB.
    /// - Receiving until nothing is left before answering: 2 to 3 % more at 128 KiB.
    /// - Receives of 64 KiB to 2 MiB: no difference beyond the noise at any length and depth; with
    ///   32 KiB, 4 KiB answers at depth 32 fall from 1.0 M/s to 0.7 M/s. With far cores: 128 KiB
    ///   answers at 14 k/s with 256 KiB, 17 k/s with 1 MiB.
    /// - Socket buffers of 256 KiB to 4 MiB are no better than the kernel's autotuning.
    /// - TCP_NODELAY makes no difference: a turn's bytes are sent in one call.
    /// - cubic instead of bbr, where bbr is the system's default: 1 to 5 % more at 4 KiB, 52 k/s
    ///   instead of 39 k/s at 128 KiB, since pacing does not help on a loopback. reno equals cubic.
    fn default() -> Self {
        Self {
            receive_len: 1 << 20,
            receives_max: 2,
            send_len: 2 << 20,
            send_buffer_len: 64 << 10,
            socket_buffer_len: None,
            no_delay: true,
            congestion: Some("cubic"),
        }
    }
}

/// The parameters of a floor.
#[derive(Clone, Debug)]
pub struct FloorSpec {
    /// Lengths of request and answer.
    pub exchange: Exchange,
    /// Number of connections. Each side has one thread for all of them.
    pub connections: u32,
    /// Requests in flight per connection.
    pub depth: u32,
    /// Time before counting starts.
    pub ramp: Nanos,
    /// Time counted.
    pub runtime: Nanos,
    /// The exchange of the server with a third party, for each request and before its answer;
    /// `None` if the server answers by itself.
    pub relayed: Option<Exchange>,
    /// The cores of the sides.
    pub cores: FloorCores,
    /// How the sides wait.
    pub waits: Waits,
    /// Maximum number of answers taken before as many requests are sent, in a call of their own;
    /// `None` for all that have arrived. Like [`DriveSpec::batch`](crate::job::DriveSpec::batch).
    pub batch: Option<NonZeroUsize>,
    /// Parameters of the loops.
    pub tuning: Tuning,
}
