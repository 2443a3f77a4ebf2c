//! From bytes to handlers: the loop over received bytes, and the PDUs that each state allows.

use nearflash_scsi::limits;
use nearflash_session::Head;
use zerocopy::{FromBytes, IntoBytes};

use super::numbers::Turn;
use super::{OUTPUT_BYTES_MAX, Sink, State, TargetSession};
use crate::error::PeerError;
use crate::framer::basic_header;
use crate::pdu::{
    BasicHeader, DataOut, HEADER_LEN, LogoutRequest, NO_TAG, NopOut, Opcode, RejectReason,
    ScsiCommand, Serial, TaskRequest, TextRequest,
};

const _: () = assert!(limits::TRANSFER_LEN_MAX.0 < 1 << 24, "data of a command fits one segment");

impl TargetSession {
    #[inline]
    pub(super) fn take_input(&mut self, bytes: &[u8]) -> Result<usize, PeerError> {
        let mut rest = bytes;
        loop {
            if !self.link.framer.body.is_over()
                && (self.is_stopped() || !self.consume_body(&mut rest)?)
            {
                break;
            }
            if self.is_paused() {
                break;
            }
            let Some(head) = self.link.framer.take_head(&mut rest)? else { break };
            match head {
                Head::InPlace(head) => self.dispatch(basic_header(head))?,
                Head::Gathered => self.dispatch(basic_header(&self.link.framer.gathered()))?,
            }
        }
        Ok(bytes.len() - rest.len())
    }

    /// Whether nothing is received: output or a login's answer is awaited, or it is stopping.
    #[inline]
    pub(super) fn is_paused(&self) -> bool {
        // More parts than the answers to all commands have. The byte limit bounds the requests that
        // never have a slot.
        self.link.output.exceeds(16 * self.tasks.slots.count() + 64, OUTPUT_BYTES_MAX)
            || matches!(
                self.state,
                State::Granting | State::Refusing | State::LoggingOut | State::Closing
            )
    }

    /// One header. Its data, if any, is still to come.
    #[inline]
    fn dispatch(&mut self, head: &[u8; HEADER_LEN]) -> Result<(), PeerError> {
        let header: &BasicHeader = zerocopy::transmute_ref!(head);
        let opcode = header.opcode.opcode();
        if self.is_fenced() {
            self.look_at_fence(head);
        }
        if self.state != State::FullFeature || self.names.is_discovery {
            return self.dispatch_other(opcode, head);
        }
        match opcode {
            Opcode::SCSI_COMMAND => {
                let command: &ScsiCommand = zerocopy::transmute_ref!(head);
                if self.link.params.digests.data {
                    self.link.current = *head;
                }
                self.on_command(command)
            }
            Opcode::DATA_OUT => {
                let data: &DataOut = zerocopy::transmute_ref!(head);
                if self.link.params.digests.data {
                    self.link.current = *head;
                }
                self.on_data(data)
            }
            _ => self.dispatch_other(opcode, head),
        }
    }

    /// Everything but commands and their data.
    #[cold]
    fn dispatch_other(&mut self, opcode: Opcode, head: &[u8; HEADER_LEN]) -> Result<(), PeerError> {
        let is_in = self.state == State::FullFeature;
        match opcode {
            Opcode::LOGIN_REQUEST if !is_in => self.begin_small(head),
            Opcode::TASK_REQUEST if is_in && !self.names.is_discovery => self.begin_small(head),
            Opcode::NOP_OUT | Opcode::TEXT_REQUEST | Opcode::LOGOUT_REQUEST if is_in => {
                self.begin_small(head)
            }
            // Other requests in a wrong state end the connection. RFC 7143, 7.5 and 6.3.
            Opcode::LOGIN_REQUEST
            | Opcode::SCSI_COMMAND
            | Opcode::DATA_OUT
            | Opcode::TASK_REQUEST => Err(PeerError::Sequence(opcode)),
            _ if !is_in => Err(PeerError::Sequence(opcode)),
            _ => {
                self.link.sink = Sink::Drop;
                self.reject(RejectReason::NOT_SUPPORTED, head);
                Ok(())
            }
        }
    }

    /// Collects the data of a PDU that belongs to no SCSI command: at most one PDU.
    fn begin_small(&mut self, head: &[u8; HEADER_LEN]) -> Result<(), PeerError> {
        self.link.current = *head;
        self.link.small.clear();
        self.link.sink = Sink::Small;
        if self.link.framer.body.is_over() { self.end_small() } else { Ok(()) }
    }

    /// Handles a PDU whose data was collected.
    pub(super) fn end_small(&mut self) -> Result<(), PeerError> {
        self.link.sink = Sink::Drop;
        let data = std::mem::take(&mut self.link.small);
        let header = self.link.current;
        let handled = self.on_small(&header, &data);
        self.link.small = data;
        self.link.small.clear();
        // A large ping must not make the session keep that much memory.
        self.link.small.shrink_to(SMALL_LEN_KEPT);
        handled
    }

    fn on_small(&mut self, header: &[u8; HEADER_LEN], data: &[u8]) -> Result<(), PeerError> {
        let basic: &BasicHeader = zerocopy::transmute_ref!(header);
        let opcode = basic.opcode.opcode();
        if let Some((received, computed)) = self.link.framer.body.damage() {
            self.reject(RejectReason::DATA_DIGEST, header);
            return Err(PeerError::DataDigest { opcode, received, computed });
        }
        if opcode == Opcode::LOGIN_REQUEST {
            return self.on_login(header, data);
        }
        if opcode == Opcode::NOP_OUT && basic.itt.get() == NO_TAG {
            // The answer to this end's ping, or an acknowledgement of StatSN: it uses no CmdSN.
            return Ok(());
        }
        if basic.opcode.is_immediate() {
            return if self.count_immediate(header) {
                self.on_request(header, data)
            } else {
                Ok(())
            };
        }
        let number = cmd_sn_of(header);
        match self.turn_of(number) {
            Turn::Now => {
                self.count_taken();
                self.on_request(header, data)?;
                self.take_early()
            }
            Turn::Later => self.hold_other(number, header, data),
            Turn::Never => Ok(()),
        }
    }

    /// A request whose turn it is, with its data.
    pub(super) fn on_request(
        &mut self,
        header: &[u8; HEADER_LEN],
        data: &[u8],
    ) -> Result<(), PeerError> {
        const LEN: &str = "every header has this length";
        let basic: &BasicHeader = zerocopy::transmute_ref!(header);
        match basic.opcode.opcode() {
            Opcode::NOP_OUT => self.on_ping(NopOut::ref_from_bytes(header).expect(LEN), data),
            Opcode::TASK_REQUEST => {
                self.on_function(TaskRequest::ref_from_bytes(header).expect(LEN));
            }
            Opcode::LOGOUT_REQUEST => {
                self.on_logout(LogoutRequest::ref_from_bytes(header).expect(LEN));
            }
            _ => self.on_text(TextRequest::ref_from_bytes(header).expect(LEN), data),
        }
        Ok(())
    }

    /// The PDU that is being received has damaged data.
    #[cold]
    pub(super) fn reject_damaged(&mut self) {
        let header = self.link.current;
        self.reject(RejectReason::DATA_DIGEST, header.as_bytes());
    }
}

/// The memory for small data that a session keeps, in bytes.
const SMALL_LEN_KEPT: usize = 16 * 1024;

/// CmdSN is at the same place in every request.
fn cmd_sn_of(header: &[u8; HEADER_LEN]) -> Serial {
    let [.., a, b, c, d] = *header.first_chunk::<28>().expect("a header is longer than 28 bytes");
    Serial(u32::from_be_bytes([a, b, c, d]))
}
