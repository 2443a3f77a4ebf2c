//! A TCP connection on which a test sends arbitrary PDUs.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use nearflash_nvme::fabrics::{Connect, ConnectData};
use nearflash_nvme::property::{Configuration, offset};
use nearflash_nvme::{
    Command, CommandId, CompletionEntry, ControllerId, Nqn, NqnField, QueueId, Status,
};
use nearflash_nvme_tcp::Digests;
use nearflash_nvme_tcp::pdu::{
    CapsuleCmd, CommonHeader, DataAlignment, DataIds, DataPdu, FatalStatus, InitPdu, PduFlags,
    PduType,
};
use uuid::Uuid;
use zerocopy::{FromBytes, IntoBytes};

use crate::PATIENCE;
use crate::node::Node;
use crate::pdu::Pdu;

/// The NQN of a volume's subsystem.
pub fn subsystem(volume: &str) -> Nqn {
    let name = format!("nqn.2026-11.io.nearflash:{volume}");
    name.parse().expect("a volume's name makes an NQN")
}

/// A Connect command for this queue with this number of entries, and no keep-alive.
pub fn connect_command(queue: u16, entries: u16) -> Connect {
    let queue = QueueId(queue);
    Connect { queue, queue_entries_zero_based: entries - 1, ..Connect::default() }
}

/// A TCP connection to a node.
#[derive(Debug)]
pub struct Wire {
    stream: TcpStream,
    digests: Digests,
}

impl Wire {
    /// Connects, and sends nothing.
    ///
    /// # Panics
    /// When no node listens.
    pub fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the node listens");
        stream.set_nodelay(true).expect("a TCP option");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket option");
        stream.set_write_timeout(Some(PATIENCE)).expect("a socket option");
        Self { stream, digests: Digests::NONE }
    }

    /// Connects and initializes the transport (ICReq and ICResp), with these digests.
    ///
    /// # Panics
    /// When the node does not agree.
    pub fn agree(address: SocketAddr, digests: Digests) -> Self {
        let mut wire = Self::open(address);
        let request = InitPdu::request(DataAlignment(0), digests.into(), 0);
        wire.send(request.as_bytes());
        let Pdu::IcResp(response) = wire.receive() else { panic!("an ICReq has its answer") };
        assert_eq!(Digests::from(response.digests), digests);
        wire.digests = digests;
        wire
    }

    /// The socket.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Sends bytes as they are. The node may close the connection before it has received all of
    /// them.
    pub fn send(&mut self, bytes: &[u8]) {
        match self.stream.write_all(bytes) {
            Ok(()) => {}
            Err(error) if is_end(error.kind()) => {}
            Err(error) => panic!("the node takes no more bytes: {error}"),
        }
    }

    /// A command capsule with the negotiated digests, to be sent or corrupted.
    pub fn capsule(&self, command: &Command, data: &[u8]) -> Vec<u8> {
        let mut common = self.common(PduType::CAPSULE_CMD, 72);
        self.lay_out(&mut common, data);
        let capsule = CapsuleCmd { common, command: *command };
        self.with_data(capsule.as_bytes(), data)
    }

    /// An H2CData PDU with the negotiated digests, to be sent or corrupted.
    pub fn data(&self, ids: DataIds, offset: u32, data: &[u8], is_last: bool) -> Vec<u8> {
        let mut common = self.common(PduType::H2C_DATA, 24);
        if is_last {
            common.flags = common.flags.with(PduFlags::LAST);
        }
        self.lay_out(&mut common, data);
        self.with_data(DataPdu::new(common, ids, offset, len_u32(data)).as_bytes(), data)
    }

    fn common(&self, pdu_type: PduType, header_len: u8) -> CommonHeader {
        let mut common = CommonHeader::bare(pdu_type, header_len);
        if self.digests.header {
            common.flags = common.flags.with(PduFlags::HEADER_DIGEST);
            common.pdu_len = (u32::from(header_len) + 4).into();
        }
        common
    }

    fn lay_out(&self, common: &mut CommonHeader, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        let head_len = common.pdu_len.get();
        let digest_len = if self.digests.data { 4 } else { 0 };
        common.data_offset = u8::try_from(head_len).expect("headers are short");
        common.pdu_len = (head_len + len_u32(data) + digest_len).into();
        if self.digests.data {
            common.flags = common.flags.with(PduFlags::DATA_DIGEST);
        }
    }

    fn with_data(&self, header: &[u8], data: &[u8]) -> Vec<u8> {
        let mut bytes = header.to_vec();
        if self.digests.header {
            bytes.extend(crc32c::crc32c(header).to_le_bytes());
        }
        bytes.extend(data);
        if self.digests.data && !data.is_empty() {
            bytes.extend(crc32c::crc32c(data).to_le_bytes());
        }
        bytes
    }

    /// Sends a command with in-capsule data.
    pub fn submit(&mut self, command: &Command, data: &[u8]) {
        let capsule = self.capsule(command, data);
        self.send(&capsule);
    }

    /// Sends a command without data, and waits for its answer.
    pub fn run(&mut self, command: &Command) -> CompletionEntry {
        self.submit(command, &[]);
        self.response()
    }

    /// Sends a command with in-capsule data, and waits for its status.
    pub fn run_with(&mut self, command: &Command, data: &[u8]) -> Status {
        self.submit(command, data);
        self.response().status()
    }

    /// Sends a command and, after an R2T, its data; waits for its status.
    ///
    /// # Panics
    /// When any other PDU comes.
    pub fn run_asked(&mut self, command: &Command, data: &[u8]) -> Status {
        self.submit(command, &[]);
        match self.receive() {
            Pdu::Response(entry) => entry.status(),
            Pdu::R2t(r2t) => {
                let (command_id, transfer_tag) = (r2t.command_id.get(), r2t.transfer_tag.get());
                let data = self.data(DataIds { command_id, transfer_tag }, 0, data, true);
                self.send(&data);
                self.response().status()
            }
            other => panic!("an R2T or a response, not {other:?}"),
        }
    }

    /// Sends a command, and waits for its status and the data before it.
    pub fn read(&mut self, command: &Command) -> (Status, Vec<u8>) {
        self.submit(command, &[]);
        self.answer()
    }

    /// Waits for the end of a command: its status, and its data.
    ///
    /// # Panics
    /// When any other PDU comes.
    pub fn answer(&mut self) -> (Status, Vec<u8>) {
        let mut all = Vec::new();
        loop {
            match self.receive() {
                Pdu::Data { success, bytes, .. } => {
                    all.extend(bytes);
                    if success {
                        return (Status::SUCCESS, all);
                    }
                }
                Pdu::Response(entry) => return (entry.status(), all),
                other => panic!("an answer, not {other:?}"),
            }
        }
    }

    /// Receives the next PDU. A reset also counts as the end of the connection.
    ///
    /// # Panics
    /// When no PDU comes, or an invalid one.
    pub fn receive(&mut self) -> Pdu {
        let mut bytes = vec![0; size_of::<CommonHeader>()];
        if !self.fill(&mut bytes) {
            return Pdu::Closed;
        }
        let (common, _) = CommonHeader::read_from_prefix(&bytes).expect("as long as a header");
        let len = usize::try_from(common.pdu_len.get()).expect("it fits in memory");
        let read = bytes.len();
        bytes.resize(len, 0);
        assert!(self.fill(&mut bytes[read..]), "the connection ended within {common:?}");
        Pdu::read(&bytes, self.digests)
    }

    /// Fills the buffer; `false` when the connection ends before.
    fn fill(&mut self, bytes: &mut [u8]) -> bool {
        match self.stream.read_exact(bytes) {
            Ok(()) => true,
            Err(error) if is_end(error.kind()) => false,
            Err(error) => panic!("the node is silent: {error}"),
        }
    }

    /// Receives the next PDU, which must be a response.
    ///
    /// # Panics
    /// When it is not.
    pub fn response(&mut self) -> CompletionEntry {
        match self.receive() {
            Pdu::Response(entry) => entry,
            other => panic!("a response, not {other:?}"),
        }
    }

    /// Receives the next PDU, which must be an R2T.
    ///
    /// # Panics
    /// When it is not.
    pub fn r2t(&mut self) -> DataPdu {
        match self.receive() {
            Pdu::R2t(r2t) => r2t,
            other => panic!("an R2T, not {other:?}"),
        }
    }

    /// Receives a termination request: FES and FEI. Answers that come before are skipped.
    ///
    /// # Panics
    /// When it does not come, or anything follows.
    pub fn terminated(&mut self) -> (FatalStatus, u32) {
        loop {
            match self.receive() {
                Pdu::Term { status, information, .. } => {
                    assert!(matches!(self.receive(), Pdu::Closed), "nothing follows");
                    return (status, information);
                }
                Pdu::Response(_) | Pdu::Data { .. } => {}
                other => panic!("a termination request, not {other:?}"),
            }
        }
    }

    /// Checks that the node closes this connection without sending anything.
    ///
    /// # Panics
    /// When it does not.
    pub fn closed(&mut self) {
        let next = self.receive();
        assert!(matches!(next, Pdu::Closed), "the end, not {next:?}");
    }

    /// Sends a Connect command, which makes this connection a queue.
    pub fn connect(&mut self, connect: Connect, data: &ConnectData) -> CompletionEntry {
        self.submit(&connect.to_command(), data.as_bytes());
        self.response()
    }
}

fn is_end(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}

fn len_u32(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("tests send little")
}

/// An admin queue with an enabled controller, and the identity that its I/O queues share.
#[derive(Debug)]
pub struct Admin {
    /// The queue's connection.
    pub wire: Wire,
    address: SocketAddr,
    subsystem: Nqn,
    host: NqnField,
    host_id: Uuid,
    controller: ControllerId,
}

impl Admin {
    /// Connects to the subsystem of a volume as a new host.
    pub fn join(node: &Node<'_>, volume: &str) -> Self {
        Self::join_with(node, volume, connect_command(0, 32), Digests::NONE)
    }

    /// [`Self::join`] with a Connect command and digests of the caller's choice.
    ///
    /// # Panics
    /// When the node refuses.
    pub fn join_with(node: &Node<'_>, volume: &str, connect: Connect, digests: Digests) -> Self {
        Self::join_by(node, subsystem(volume), Uuid::new_v4(), connect, digests)
    }

    /// Connects as a host that has neither an NQN nor an identifier.
    pub fn join_unnamed(node: &Node<'_>, volume: &str) -> Self {
        let connect = connect_command(0, 32);
        let (subsystem, wire) = (subsystem(volume), Wire::agree(node.address(), Digests::NONE));
        Self::enter(node, wire, connect, subsystem, (Uuid::nil(), NqnField::EMPTY))
    }

    /// Connects the same host again, to this node or to its successor.
    pub fn join_again(&self, node: &Node<'_>) -> Self {
        let connect = connect_command(0, 32);
        Self::join_by(node, self.subsystem.clone(), self.host_id, connect, Digests::NONE)
    }

    fn join_by(
        node: &Node<'_>,
        subsystem: Nqn,
        host_id: Uuid,
        connect: Connect,
        digests: Digests,
    ) -> Self {
        let host: Nqn = nqn_of(host_id).parse().expect("the form is the specification's own");
        let wire = Wire::agree(node.address(), digests);
        Self::enter(node, wire, connect, subsystem, (host_id, NqnField::from(&host)))
    }

    fn enter(
        node: &Node<'_>,
        mut wire: Wire,
        connect: Connect,
        subsystem: Nqn,
        (host_id, host): (Uuid, NqnField),
    ) -> Self {
        let data = connect_data(host_id, ControllerId::DYNAMIC, &subsystem, host);
        let entry = wire.connect(connect, &data);
        assert!(entry.status().is_success(), "{}", entry.status());
        let controller = u16::try_from(entry.dw0.get()).expect("CNTLID is 16 bits");
        let enable = Command::property_set(offset::CONFIGURATION, Configuration::ENABLE.0);
        assert!(wire.run(&enable).status().is_success());
        let (controller, address) = (ControllerId(controller), node.address());
        Self { wire, address, subsystem, host, host_id, controller }
    }

    /// Connects the same host to the subsystem of another volume.
    pub fn join_also(&self, node: &Node<'_>, volume: &str) -> Self {
        let connect = connect_command(0, 32);
        Self::join_by(node, subsystem(volume), self.host_id, connect, Digests::NONE)
    }

    /// The host's NQN, unless it is unnamed.
    pub fn host_nqn(&self) -> String {
        nqn_of(self.host_id)
    }

    /// The Connect data of its queues.
    pub fn connect_data(&self) -> ConnectData {
        connect_data(self.host_id, self.controller, &self.subsystem, self.host)
    }

    /// Connects an I/O queue with this number of entries.
    pub fn io(&self, queue: u16, entries: u16) -> Wire {
        self.io_with(queue, entries, Digests::NONE)
    }

    /// [`Self::io`] with digests.
    ///
    /// # Panics
    /// When the node refuses.
    pub fn io_with(&self, queue: u16, entries: u16, digests: Digests) -> Wire {
        let mut wire = Wire::agree(self.address, digests);
        let entry = wire.connect(connect_command(queue, entries), &self.connect_data());
        assert!(entry.status().is_success(), "{}", entry.status());
        wire
    }
}

fn nqn_of(host_id: Uuid) -> String {
    format!("nqn.2014-08.org.nvmexpress:uuid:{}", host_id.hyphenated())
}

fn connect_data(
    id: Uuid,
    controller: ControllerId,
    subsystem: &Nqn,
    host: NqnField,
) -> ConnectData {
    let mut data = ConnectData::new(id, controller, subsystem, subsystem);
    data.host = host;
    data
}

/// The command with this command identifier.
pub fn numbered(command: Command, cid: u16) -> Command {
    command.with_command_id(CommandId(cid))
}
