//! Receives: the loop over received bytes, and the check of each PDU against the state.

use std::sync::Arc;

use nearflash_nvme::NamespaceTable;
use nearflash_nvme::auth::ControllerEnd;
use nearflash_nvme::serving::{Connected, QueueKind};
use nearflash_session::offset;
use zerocopy::{FromBytes, IntoBytes};

use super::answers::Answering;
use super::slots::Slots;
use super::{OUTPUT_BYTES_MAX, SMALL_DATA_LEN_MAX, Sink, State, TargetSession};
use crate::digest::Digests;
use crate::error::PeerError;
use crate::framer::header_at_fault;
use crate::length;
use crate::pdu::{CapsuleCmd, CommonHeader, DataPdu, InitPdu, PduType};

impl TargetSession {
    /// Whether the session receives nothing more, until output is sent or because it is closing.
    #[inline]
    pub(super) fn is_paused(&self) -> bool {
        // One part for a command's completion, one for its R2T, and as many again.
        self.output.exceeds(4 * self.slots.count() + 4, OUTPUT_BYTES_MAX)
            || self.state == State::Closing
    }

    /// Handles a PDU's header. Data that follows is dropped unless a handler sets a destination.
    #[inline]
    pub(super) fn dispatch(&mut self, head: &[u8]) -> Result<(), PeerError> {
        self.sink = Sink::Drop;
        let (common, _) = CommonHeader::ref_from_prefix(head).expect("a head has its header");
        let handled = match (self.state, common.pdu_type) {
            (State::Io, PduType::CAPSULE_CMD) => self.on_io_command(&capsule(head).command),
            (State::Admin, PduType::CAPSULE_CMD) => self.on_admin_command(&capsule(head).command),
            (State::AwaitingConnect, PduType::CAPSULE_CMD) => {
                self.on_first_command(&capsule(head).command)
            }
            (State::Connecting, PduType::CAPSULE_CMD) => {
                self.on_early_command(&capsule(head).command)
            }
            (State::Authenticating, PduType::CAPSULE_CMD) => {
                self.on_unauthenticated_command(&capsule(head).command)
            }
            (
                State::Io | State::Admin | State::Connecting | State::Authenticating,
                PduType::H2C_DATA,
            ) => self.on_data(data_pdu(head)),
            (State::AwaitingIcReq, PduType::IC_REQ) => self.on_ic_req(head),
            (_, PduType::H2C_TERM_REQ) => Err(PeerError::of_request(head)),
            (_, pdu) => Err(PeerError::Sequence(pdu)),
        };
        handled.inspect_err(|error| self.close(error, &head[..usize::from(common.header_len)]))
    }

    #[cold]
    pub(super) fn refuse_head(&mut self, error: PeerError, rest: &[u8]) -> PeerError {
        let header = header_at_fault(&self.framer, rest).to_vec();
        self.close(&error, &header);
        error
    }

    /// NVMe/TCP 1.1, 3.3: negotiates the transport's parameters.
    fn on_ic_req(&mut self, head: &[u8]) -> Result<(), PeerError> {
        let (request, _) = InitPdu::ref_from_prefix(head).expect("the framer checked the length");
        let pdu = PduType::IC_REQ;
        if request.format_version.get() != 0 {
            let offset = offset!(InitPdu, format_version);
            return Err(PeerError::UnsupportedParameter { pdu, offset });
        }
        if !request.alignment.is_valid() {
            return Err(PeerError::HeaderField { pdu, offset: offset!(InitPdu, alignment) });
        }
        let digests = Digests::from(request.digests).and(self.config.digests);
        let response =
            InitPdu::response(self.config.alignment, digests.into(), self.config.h2c_data_len_max);
        self.output.push_bytes(response.as_bytes());
        self.framer.rules.digests = digests;
        self.answering = Answering::new(digests, request.alignment);
        self.state = State::AwaitingConnect;
        Ok(())
    }

    /// Turns the connection into a queue.
    pub(super) fn become_queue(&mut self, queue: Connected, flow_control: bool) {
        let entries = u16::try_from(queue.sq_entries).unwrap_or(u16::MAX);
        assert!(entries >= 2, "a queue has at least two entries");
        self.slots = Slots::for_queue(entries);
        self.awaiting_buffer.reserve(usize::from(entries));
        self.ready.reserve(usize::from(entries));
        self.answering.become_queue(entries, flow_control);
        let capsule_data_max = match queue.kind {
            QueueKind::Admin | QueueKind::Discovery => SMALL_DATA_LEN_MAX,
            QueueKind::Io => self.config.in_capsule_len_max,
        };
        self.framer.rules.capsule_data_max = length(capsule_data_max);
        let authenticates = queue.authentication.is_some();
        self.queue = Some(queue);
        if authenticates {
            self.authentication = Some(ControllerEnd::default());
            self.state = State::Authenticating;
        } else {
            self.open_queue();
        }
    }

    /// Accepts the commands of the queue.
    pub(super) fn open_queue(&mut self) {
        self.handshake_until = None;
        let queue = self.queue.as_ref().expect("the connection is a queue");
        self.state = match queue.kind {
            QueueKind::Admin | QueueKind::Discovery => State::Admin,
            QueueKind::Io => State::Io,
        };
    }

    /// The namespaces of an I/O queue.
    ///
    /// # Panics
    /// If the connection is not an I/O queue.
    #[inline]
    pub(super) fn namespaces(&self) -> &Arc<NamespaceTable> {
        &self.queue.as_ref().expect("only an I/O queue has namespaces").namespaces
    }
}

#[inline]
fn capsule(head: &[u8]) -> &CapsuleCmd {
    CapsuleCmd::ref_from_prefix(head).expect("the framer checked the length").0
}

#[inline]
fn data_pdu(head: &[u8]) -> &DataPdu {
    DataPdu::ref_from_prefix(head).expect("the framer checked the length").0
}
