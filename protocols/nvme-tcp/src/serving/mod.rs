//! The controller's end of one connection: the incoming stream goes in, and requests for the engine
//! and commands for the controller come out; their completions go in, and the outgoing stream comes
//! out.
//!
//! Spec: NVMe/TCP 1.1, 3; queues: NVMe Base 2.0, 3.3 and 6.3. [`nearflash_nvme`] executes admin
//! commands, checks Connects and manages controllers; a session only transports them. It has no
//! sockets and no payload memory, and knows volumes only by number.
//!
//! A driver uses it as a [`ServingEnd`] and takes its demands with [`TargetSession::poll_demand`].
//!
//! Invariants: every command completes once, or the connection is closing. Completions are sent in
//! the order in which they were passed in. The queue's entries bound the memory.

mod answers;
mod authentication;
mod changes;
mod commands;
mod config;
mod data;
mod demands;
mod end;
mod fused;
mod input;
mod slots;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use nearflash_nvme::NamespaceTable;
use nearflash_nvme::auth::ControllerEnd;
use nearflash_nvme::serving::Connected;
use nearflash_units::Nanos;

pub use nearflash_session::ServingEnd;

pub use config::{AdminDemand, ConnectDemand, Demand, SessionConfig};

use crate::digest::Digests;
use crate::error::PeerError;
use crate::framer::{Accepted, Framer, Rules};
use crate::length;
use crate::pdu::{DataAlignment, PduType};
use answers::Answering;
use demands::Ready;
use fused::Waiting;
use nearflash_session::{BufferQueue, Outbox};
use slots::{Allowed, Slots};

/// The maximum length of data that is not payload. Hosts may send this much in a capsule of an
/// admin queue (NVMe/TCP 1.1, 3.3.2.1); 256 ranges to deallocate need half of it.
pub const SMALL_DATA_LEN_MAX: u32 = 8 * 1024;

/// The limit of unsent output, apart from payload, above which no command is accepted. A full queue
/// of completions stays far below it unless the host does not read.
const OUTPUT_BYTES_MAX: usize = 1024 * 1024;

/// The maximum number of reservation commands that wait for the control side. Each may return a
/// report of every registration. Further commands fail with a status that allows a retry.
pub(crate) const CHANGES_IN_FLIGHT_MAX: usize = 16;

/// The connection's state, which determines the PDUs that are allowed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    /// No ICReq was received yet.
    AwaitingIcReq,
    /// The transport's parameters are negotiated, and no Connect was received yet.
    AwaitingConnect,
    /// A Connect waits for its data or its completion.
    Connecting,
    /// A queue whose host must authenticate first.
    Authenticating,
    /// An admin queue.
    Admin,
    /// An I/O queue.
    Io,
    /// Pending output is sent, and nothing more is received.
    Closing,
}

/// The destination of the current PDU's data.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Sink {
    /// Dropped, because the command was refused.
    Drop,
    /// The command in this slot.
    Slot(u16),
}

/// The controller's end of one connection.
#[derive(Debug)]
pub struct TargetSession {
    config: SessionConfig,
    state: State,
    /// The deadline of the handshake.
    handshake_until: Option<Nanos>,
    framer: Framer,
    sink: Sink,
    slots: Slots,
    /// The first command of a fused operation, if it was the previous command.
    waiting: Waiting,
    /// Commands that wait for a buffer before their data is requested, oldest first.
    awaiting_buffer: BufferQueue<u16>,
    /// Commands to hand out, oldest first.
    ready: VecDeque<Ready>,
    /// The queue that the connection is, once it is one.
    queue: Option<Connected>,
    /// The controller's end of its authentications; `None` while a step is handed out.
    authentication: Option<ControllerEnd>,
    /// The number of changes handed out or to hand out.
    changes_in_flight: usize,
    answering: Answering,
    output: Outbox,
}

/// The PDU types that a controller receives.
const ACCEPTED: &[PduType] =
    &[PduType::CAPSULE_CMD, PduType::H2C_DATA, PduType::IC_REQ, PduType::H2C_TERM_REQ];

impl TargetSession {
    /// A session for a connection that was just accepted.
    ///
    /// # Panics
    /// If a limit violates the bounds that its field of the configuration documents.
    pub fn new(config: SessionConfig, now: Nanos) -> Self {
        let h2c_max = config.h2c_data_len_max;
        assert!(h2c_max >= 4096 && h2c_max.is_multiple_of(4), "MAXH2CDATA is a multiple of 4");
        assert!(config.alignment.is_valid(), "an alignment is at most 128 bytes");
        let rules = Rules {
            digests: Digests::NONE,
            alignment: config.alignment,
            capsule_data_max: length(config.in_capsule_len_max.max(SMALL_DATA_LEN_MAX)),
            data_max: length(config.h2c_data_len_max),
            accepted: Accepted::only(ACCEPTED),
        };
        Self {
            config,
            state: State::AwaitingIcReq,
            handshake_until: Some(now.plus(config.handshake_timeout)),
            framer: Framer::new(rules),
            sink: Sink::Drop,
            slots: Slots::for_connect(),
            waiting: Waiting::Nothing,
            awaiting_buffer: BufferQueue::default(),
            ready: VecDeque::new(),
            queue: None,
            authentication: None,
            changes_in_flight: 0,
            answering: Answering::new(Digests::NONE, DataAlignment(0)),
            output: Outbox::default(),
        }
    }

    /// Replaces the namespaces. Commands received from now on use the new ones. A command whose data is still
    /// on the way fails once the data has arrived, if the new ones do not allow it: a host must not keep a
    /// right by holding data back. Commands whose data has arrived are not affected.
    pub fn set_namespaces(&mut self, namespaces: Arc<NamespaceTable>) {
        let Some(queue) = &mut self.queue else { return };
        queue.namespaces = namespaces;
        let table = &queue.namespaces;
        let allows = |volume| {
            let entry = table.iter().map(|(_, entry)| entry).find(|entry| entry.volume == volume);
            entry.map_or(Allowed::Nothing, |entry| match entry.write_protected {
                true => Allowed::Reads,
                false => Allowed::Writes,
            })
        };
        self.slots.fail_incoming(allows);
    }

    /// The number of commands in flight: received and not completed.
    pub(crate) fn commands_in_flight(&self) -> usize {
        self.slots.in_use()
    }

    /// Ends the connection because of `error`, with the termination request that the specification
    /// defines. [`Self::handle_input`] and [`Self::handle_timeout`] do this by themselves.
    pub fn terminate(&mut self, error: PeerError) {
        self.close(&error, &[]);
    }

    /// Stops receiving. Commands that were received completely can still be polled.
    fn stop(&mut self) {
        self.state = State::Closing;
        self.handshake_until = None;
    }

    /// Closes the session. Its last output is a termination request with the invalid header, if the
    /// error has one.
    fn close(&mut self, error: &PeerError, header: &[u8]) {
        if self.state == State::Closing {
            return;
        }
        self.stop();
        error.push_request(&mut self.output, PduType::C2H_TERM_REQ, header);
    }
}
