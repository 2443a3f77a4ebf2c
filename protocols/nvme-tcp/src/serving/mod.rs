//! The controller's end of one connection: bytes of the stream in, requests for the engine and
//! commands for the controller out; their answers in, bytes and payload buffers of the stream out.
//!
//! Spec: NVMe/TCP 1.1, 3; queues: NVMe Base 2.0, 3.3 and 6.3. What admin commands mean, who may
//! connect and what a controller is, is [`nearflash_nvme`]'s; this end carries them. Knows nothing
//! of sockets, of memory of payload, or of volumes beyond their number.
//!
//! It is driven as a [`ServingEnd`]; its demands are taken with [`TargetSession::poll_demand`].
//!
//! Invariants: every command is answered once or the connection is closing; answers leave in the
//! order they were given; memory is bounded by the queue's entries.

mod answers;
mod changes;
mod commands;
mod config;
mod data;
mod demands;
mod end;
mod fused;
mod input;
mod operation;
mod slots;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use nearflash_nvme::NamespaceTable;
use nearflash_units::Nanos;
use zerocopy::IntoBytes;

pub use nearflash_session::ServingEnd;

pub use config::{AdminDemand, Asker, ConnectDemand, Demand, Granted, QueueKind, SessionConfig};

use crate::digest::Digests;
use crate::error::PeerError;
use crate::framer::{Accepted, Framer, Rules};
use crate::length;
use crate::pdu::{DataAlignment, PduType, TermReq};
use answers::Answering;
use demands::Ready;
use fused::Waiting;
use nearflash_session::{BufferQueue, Outbox};
use slots::Slots;

/// The most data of a command that is not payload: what hosts may put into an admin queue's
/// capsule (NVMe/TCP 1.1, 3.3.2.1), and twice what 256 ranges to deallocate take.
pub const SMALL_DATA_LEN_MAX: u32 = 8 * 1024;

/// Own bytes waiting to be sent, past which no further command is taken: far more than a queue of
/// commands can be answered with unless the host does not read.
const OUTPUT_BYTES_MAX: usize = 1024 * 1024;

/// Commands about reservations that wait for the control side. Each may be answered with a report of
/// every registration; a host that sends more is told to try again.
pub(crate) const CHANGES_IN_FLIGHT_MAX: usize = 16;

/// What the connection is, and so which PDUs may come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    /// Nothing was agreed yet.
    AwaitingIcReq,
    /// The transport is agreed; no queue was asked for.
    AwaitingConnect,
    /// A Connect waits for its data or its answer.
    Connecting,
    /// An admin queue.
    Admin,
    /// An I/O queue.
    Io,
    /// What is queued is sent, nothing more is received.
    Closing,
}

/// Where the data of the current PDU goes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Sink {
    /// Nowhere: its command was refused.
    Drop,
    /// To the command in this slot.
    Slot(u16),
}

/// The controller's end of one connection.
#[derive(Debug)]
pub struct TargetSession {
    config: SessionConfig,
    state: State,
    /// When the handshake must be over.
    handshake_until: Option<Nanos>,
    framer: Framer,
    sink: Sink,
    slots: Slots,
    /// The first command of a fused operation, whose second must be next.
    waiting: Waiting,
    /// Commands whose data is not asked for before there is a buffer, oldest first.
    awaiting_buffer: BufferQueue<u16>,
    /// Commands to be handed out, oldest first.
    ready: VecDeque<Ready>,
    namespaces: Option<Arc<NamespaceTable>>,
    asker: Option<Asker>,
    /// Changes handed out, or about to be.
    changes_in_flight: usize,
    answering: Answering,
    output: Outbox,
}

/// What a controller receives.
const ACCEPTED: &[PduType] =
    &[PduType::CAPSULE_CMD, PduType::H2C_DATA, PduType::IC_REQ, PduType::H2C_TERM_REQ];

impl TargetSession {
    /// The end of a connection that was just accepted.
    ///
    /// # Panics
    /// When a limit is not what its field of the configuration says.
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
            namespaces: None,
            asker: None,
            changes_in_flight: 0,
            answering: Answering::new(Digests::NONE, DataAlignment(0)),
            output: Outbox::default(),
        }
    }

    /// The volumes changed. Commands that come from now on see these.
    pub fn set_namespaces(&mut self, namespaces: Arc<NamespaceTable>) {
        self.namespaces = Some(namespaces);
    }

    /// How many commands are in flight: taken and not answered.
    pub(crate) fn commands_in_flight(&self) -> usize {
        self.slots.in_use()
    }

    /// Ends the connection for `error`, telling the host what the specification has for it.
    /// [`Self::handle_input`] and [`Self::handle_timeout`] do so by themselves.
    pub fn terminate(&mut self, error: PeerError) {
        self.close(&error, &[]);
    }

    /// Nothing more is received. What was received is still handed out, as if it had been polled
    /// before.
    fn stop(&mut self) {
        self.state = State::Closing;
        self.handshake_until = None;
    }

    /// The last words: a termination request with the header at fault, if the error has one.
    fn close(&mut self, error: &PeerError, header: &[u8]) {
        if self.state == State::Closing {
            return;
        }
        self.stop();
        if let Some((status, information)) = error.fatal_status() {
            let header = &header[..header.len().min(TermReq::DATA_LEN_MAX)];
            let header_len = u8::try_from(header.len()).expect("at most 128 bytes");
            let request = TermReq::new(PduType::C2H_TERM_REQ, status, information, header_len);
            self.output.push_bytes(request.as_bytes());
            self.output.push_bytes(header);
        }
    }
}
