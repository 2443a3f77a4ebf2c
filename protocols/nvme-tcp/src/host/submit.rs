//! Sends: command capsules, and H2CData for R2Ts.
//!
//! Spec: NVMe/TCP 1.1, 3.3.2.1 (in-capsule data) and 3.3.2.2 (R2T and H2CData).

use nearflash_nvme::fabrics::{Connect, ConnectData};
use nearflash_nvme::{Command, CommandId, SglDescriptor};
use nearflash_request::BufferId;
use nearflash_session::{Data, PayloadPart};
use zerocopy::IntoBytes;

use super::config::SubmitError;
use super::{CommandData, HostSession, State};
use crate::digest::digest;
use crate::length;
use crate::pdu::{CapsuleCmd, CommonHeader, DataIds, DataPdu, PADDING, PduFlags, PduType};

/// The maximum length of in-capsule data on an admin queue.
const ADMIN_CAPSULE_LEN_MAX: u32 = 8 * 1024;

/// A part of a command's payload, which becomes one H2CData once its digest is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingPart {
    cid: u16,
    buffer: BufferId,
    part: DataPart,
}

/// The part of a command's data in one H2CData, and its R2T.
#[derive(Clone, Copy, Debug)]
struct DataPart {
    transfer_tag: u16,
    offset: u32,
    len: u32,
    is_last: bool,
}

/// The in-capsule data of a command.
#[derive(Clone, Copy, Debug)]
enum CapsuleData<'a> {
    Buffer(BufferId, u32),
    Bytes(&'a [u8]),
}

impl CapsuleData<'_> {
    #[inline]
    fn len(self) -> u32 {
        match self {
            Self::Buffer(_, len) => len,
            Self::Bytes(bytes) => u32::try_from(bytes.len()).expect("small data is small"),
        }
    }
}

impl HostSession {
    /// Submits a command. The session chooses its identifier, which its completion has too, and its
    /// SGL. `payload` is the contents of [`CommandData::Outgoing`]'s buffer and is only read with data
    /// digests.
    ///
    /// # Errors
    /// If the queue is full or not connected. The command is not submitted.
    #[inline]
    pub fn submit(
        &mut self,
        command: &Command,
        data: CommandData,
        payload: &[u8],
    ) -> Result<CommandId, SubmitError> {
        if self.state != State::Ready {
            return Err(SubmitError::NotConnected);
        }
        let cid = self.posted.take().ok_or(SubmitError::QueueFull)?;
        self.queue_command(cid, *command, data, payload);
        Ok(CommandId(cid))
    }

    /// Sends the Connect that turns the connection into a queue. NVMe Base 2.0, 6.3.
    pub(super) fn submit_connect(&mut self) {
        let config = &self.config;
        let command = Connect {
            record_format: 0,
            queue: config.queue,
            queue_entries_zero_based: config.sq_entries - 1,
            attributes: if config.flow_control { 0 } else { Connect::DISABLE_SQ_FLOW_CONTROL },
            keep_alive_ms: config.keep_alive_ms,
        };
        let data =
            ConnectData::new(config.host_id, config.controller, &config.subsystem, &config.host);
        let data = CommandData::SmallOutgoing(data.as_bytes().to_vec());
        let cid = self.posted.take().expect("nothing was submitted before");
        self.queue_command(cid, command.to_command(), data, &[]);
    }

    #[inline]
    fn queue_command(&mut self, cid: u16, command: Command, data: CommandData, payload: &[u8]) {
        let (data, len) = match data {
            CommandData::None => (Data::None, 0),
            CommandData::Incoming { buffer, len } => (Data::Incoming(buffer), len),
            CommandData::Outgoing { buffer, len } => (Data::Outgoing(buffer), len),
            CommandData::SmallIncoming(len) => (Data::SmallIncoming(Vec::new()), len),
            CommandData::SmallOutgoing(bytes) => return self.queue_small(cid, command, bytes),
        };
        let buffer = match data {
            Data::Outgoing(buffer) if len > 0 && len <= self.config.in_capsule_len_max => buffer,
            _ => {
                self.posted.begin(cid, data, len);
                return self.push_bare_capsule(cid, command, len);
            }
        };
        self.posted.begin(cid, data, len);
        self.push_capsule(cid, command, CapsuleData::Buffer(buffer, len), payload);
        self.posted[cid].sent_until = self.output.end_position();
    }

    /// Queues a command with small data: in the capsule if it fits, otherwise kept for an R2T.
    #[cold]
    fn queue_small(&mut self, cid: u16, command: Command, bytes: Vec<u8>) {
        let len = u32::try_from(bytes.len()).expect("small data is small");
        let is_admin = self.config.queue.is_admin() || self.state != State::Ready;
        let in_capsule_len_max =
            if is_admin { ADMIN_CAPSULE_LEN_MAX } else { self.config.in_capsule_len_max };
        if len > 0 && len <= in_capsule_len_max {
            self.push_capsule(cid, command, CapsuleData::Bytes(&bytes), &bytes);
        } else {
            self.push_bare_capsule(cid, command, len);
        }
        self.posted.begin(cid, Data::SmallOutgoing(bytes), len);
    }

    /// Queues a capsule without data. The small function keeps the command in registers.
    #[inline]
    fn push_bare_capsule(&mut self, cid: u16, command: Command, len: u32) {
        let sgl = SglDescriptor::transport(len);
        let command = Command { sgl, ..command.with_command_id(CommandId(cid)) };
        let digests = self.framer.rules.digests;
        let common = CommonHeader::bare(PduType::CAPSULE_CMD, 72).digested(digests);
        self.output.push_header(CapsuleCmd { common, command }.to_words(), digests);
    }

    /// Queues a capsule with its data. `payload` is the bytes of `data`, for the digest.
    fn push_capsule(&mut self, cid: u16, command: Command, data: CapsuleData<'_>, payload: &[u8]) {
        let data_len = data.len();
        let sgl = SglDescriptor::in_capsule(0, data_len);
        let command = Command { sgl, ..command.with_command_id(CommandId(cid)) };
        let mut common = CommonHeader::bare(PduType::CAPSULE_CMD, 72);
        let digests = self.framer.rules.digests;
        let padding = common.lay_out(digests, self.controller_alignment, data_len);
        self.output.push_header(CapsuleCmd { common, command }.to_words(), digests);
        if padding > 0 {
            self.output.push_bytes(&PADDING[..padding]);
        }
        match data {
            CapsuleData::Buffer(buffer, len) => self.output.push_buffer(buffer, 0, len),
            CapsuleData::Bytes(bytes) => self.output.push_bytes(bytes),
        }
        if digests.data {
            self.output.push_digest(digest(&payload[..length(data_len)]));
        }
    }

    /// Queues the data that an R2T requested, in H2CData PDUs of at most MAXH2CDATA. The caller has
    /// checked that the command has that data.
    pub(super) fn send_data(&mut self, cid: u16, transfer_tag: u16, offset: u32, len: u32) {
        let end = offset + len;
        let mut next = offset;
        while next < end {
            let len = (end - next).min(self.h2c_data_len_max);
            let is_last = next + len == end;
            self.send_part(cid, DataPart { transfer_tag, offset: next, len, is_last });
            next += len;
        }
    }

    fn send_part(&mut self, cid: u16, part: DataPart) {
        match std::mem::take(&mut self.posted[cid].data) {
            Data::Outgoing(buffer) => {
                self.posted[cid].data = Data::Outgoing(buffer);
                if self.framer.rules.digests.data {
                    self.parts.push_back(PendingPart { cid, buffer, part });
                    // The position in the stream is unknown until the digest is known.
                    self.posted[cid].sent_until = u64::MAX;
                } else {
                    self.push_part_header(cid, part);
                    self.output.push_buffer(buffer, part.offset, part.len);
                    self.posted[cid].sent_until = self.output.end_position();
                }
            }
            Data::SmallOutgoing(bytes) => {
                self.push_part_header(cid, part);
                let data = &bytes[length(part.offset)..][..length(part.len)];
                self.output.push_bytes(data);
                if self.framer.rules.digests.data {
                    self.output.push_digest(digest(data));
                }
                self.posted[cid].data = Data::SmallOutgoing(bytes);
            }
            Data::None | Data::Incoming(_) | Data::SmallIncoming(_) => {
                unreachable!("the caller has checked that the command has data from the host")
            }
        }
    }

    fn push_part_header(&mut self, cid: u16, part: DataPart) {
        let mut common = CommonHeader::bare(PduType::H2C_DATA, 24);
        if part.is_last {
            common.flags = PduFlags::LAST;
        }
        let digests = self.framer.rules.digests;
        let padding = common.lay_out(digests, self.controller_alignment, part.len);
        let ids = DataIds { command_id: cid, transfer_tag: part.transfer_tag };
        let words = DataPdu::new(common, ids, part.offset, part.len).to_words();
        self.output.push_header(words, digests);
        if padding > 0 {
            self.output.push_bytes(&PADDING[..padding]);
        }
    }

    /// The payload that waits for its digest, oldest first.
    #[inline]
    pub(super) fn pending_payload(&self) -> Option<PayloadPart> {
        let PendingPart { buffer, part, .. } = *self.parts.front()?;
        Some(PayloadPart { buffer, offset: length(part.offset), len: length(part.len) })
    }

    /// Queues the payload of [`Self::pending_payload`].
    pub(super) fn push_pending(&mut self, bytes: &[u8]) {
        let PendingPart { cid, buffer, part } =
            self.parts.pop_front().expect("payload comes only when wanted");
        assert_eq!(bytes.len(), length(part.len), "exactly the bytes that were named");
        self.push_part_header(cid, part);
        self.output.push_buffer(buffer, part.offset, part.len);
        self.output.push_digest(digest(bytes));
        let is_pending = self.parts.iter().any(|pending| pending.cid == cid);
        if !is_pending {
            self.posted[cid].sent_until = self.output.end_position();
        }
    }
}
