//! The initiator session of the protocol crate, with any command, one or several at a time:
//! blocking, with a socket for each connection.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use nearflash_iscsi::chap::{Account, CHALLENGE_LEN, Challenge, Credential, Secret};
use nearflash_iscsi::initiator::cdb::{self, Cdb};
use nearflash_iscsi::initiator::{
    CommandData, CommandWindow, Ending, Event, InitiatorConfig, InitiatorSession, Managing,
    RequestingEnd, Status, TaskCompletion, TaskId,
};
use nearflash_iscsi::login::{LoginConfig, SessionKind};
use nearflash_iscsi::params::{DigestWish, Offer, SessionParams};
use nearflash_iscsi::pdu::{LoginStatus, LogoutReason, TaskFunction, TaskResult};
use nearflash_iscsi::{Chunk, PeerError, Receiving};

use crate::PATIENCE;
use crate::node::Node;

/// The block size of the volumes of tests, in bytes.
const BLOCK_LEN: u32 = 4096;
/// The maximum number of commands in flight of an initiator.
const TASKS: u16 = 256;
/// The maximum number of connections of a session.
const CONNECTIONS: u32 = 4;
/// The maximum number of unit attentions before a unit answers.
const ATTENTIONS_MAX: usize = 8;

/// The identity of an initiator.
#[derive(Clone, Debug)]
pub struct Who {
    /// InitiatorName.
    pub name: String,
    /// The last byte of the ISID.
    pub isid: u8,
    /// CHAP user and secret.
    pub account: Option<(String, String)>,
    /// The user and secret of the node, for mutual CHAP.
    pub mutual: Option<(String, String)>,
}

impl Who {
    /// An initiator whose name ends with `name`, without an account.
    pub fn named(name: &str) -> Self {
        let name = format!("iqn.2026-11.test:{name}");
        Self { name, isid: 1, account: None, mutual: None }
    }

    /// The same initiator with a CHAP account.
    #[must_use]
    pub fn with_account(self, user: &str, secret: &str) -> Self {
        Self { account: Some((user.to_owned(), secret.to_owned())), ..self }
    }

    /// The same initiator with mutual CHAP.
    #[must_use]
    pub fn with_mutual(self, user: &str, secret: &str) -> Self {
        Self { mutual: Some((user.to_owned(), secret.to_owned())), ..self }
    }

    fn account(&self) -> Option<Arc<Account>> {
        let credential = |(user, secret): &(String, String)| Credential {
            user: user.clone(),
            secret: Secret::new(secret.as_bytes().to_vec()).expect("a secret has its length"),
        };
        let target = self.mutual.as_ref().map(credential);
        let account = self.account.as_ref().map(|own| Account::new(credential(own), target));
        account.map(|account| Arc::new(account.expect("the secrets differ")))
    }
}

/// An initiator that is logged in to a volume's target.
#[derive(Debug)]
pub struct Initiator {
    socket: TcpStream,
    session: InitiatorSession,
    window: Arc<CommandWindow>,
}

impl Initiator {
    /// Logs in to the target of this volume.
    ///
    /// # Errors
    /// When the node refuses the login.
    pub fn login(node: &Node<'_>, volume: &str, who: &Who) -> Result<Self, PeerError> {
        Self::connect(node, volume, who, (0, 0), &Arc::new(CommandWindow::new(1)))
    }

    /// Adds a connection to the session, with this CID.
    ///
    /// # Errors
    /// When the node refuses the login.
    ///
    /// # Panics
    /// When this connection is not logged in.
    pub fn join(
        &self,
        node: &Node<'_>,
        volume: &str,
        who: &Who,
        cid: u16,
    ) -> Result<Self, PeerError> {
        let tsih = self.session.established().expect("it is logged in").tsih;
        Self::connect(node, volume, who, (tsih, cid), &self.window)
    }

    fn connect(
        node: &Node<'_>,
        volume: &str,
        who: &Who,
        (tsih, cid): (u16, u16),
        window: &Arc<CommandWindow>,
    ) -> Result<Self, PeerError> {
        let socket = TcpStream::connect(node.iscsi_address()).expect("the node listens");
        socket.set_nodelay(true).expect("a TCP option");
        socket.set_read_timeout(Some(PATIENCE)).expect("a socket option");
        socket.set_write_timeout(Some(PATIENCE)).expect("a socket option");
        let target = format!("iqn.2026-11.io.nearflash:{volume}");
        let login = LoginConfig {
            initiator: who.name.clone(),
            initiator_alias: None,
            isid: [0x80, 0, 0, 0, 0, who.isid],
            tsih,
            cid,
            kind: SessionKind::Normal { target },
            account: who.account(),
            challenge: Challenge { identifier: 7, bytes: [0x5A; CHALLENGE_LEN] },
            offer: Offer {
                session: SessionParams { max_connections: CONNECTIONS, ..SessionParams::default() },
                receive_len_max: 256 << 10,
                header_digest: DigestWish::None,
                data_digest: DigestWish::None,
            },
        };
        let window = Arc::clone(window);
        let config = InitiatorConfig { login, window: Arc::clone(&window), task_count: TASKS };
        let mut initiator = Self { socket, session: InitiatorSession::new(config), window };
        while !initiator.session.is_ready() {
            initiator.turn()?;
        }
        Ok(initiator)
    }

    /// The socket.
    pub fn stream(&self) -> &TcpStream {
        &self.socket
    }

    /// The status of a login that the node must refuse.
    ///
    /// # Panics
    /// When the node accepts it, or gives no status.
    pub fn refused(node: &Node<'_>, volume: &str, who: &Who) -> LoginStatus {
        match Self::login(node, volume, who) {
            Err(PeerError::Login(status)) => status,
            Err(other) => panic!("refused otherwise: {other}"),
            Ok(_) => panic!("{who:?} is let in"),
        }
    }

    /// Executes one command, with any result.
    ///
    /// # Errors
    /// When the connection is lost.
    pub fn try_command(
        &mut self,
        cdb: &Cdb,
        data: CommandData,
    ) -> Result<TaskCompletion, PeerError> {
        let task = self.session.submit(0, cdb, data, &[]).expect("there is room for one command");
        loop {
            if let Some(done) = self.session.poll_completion() {
                assert_eq!(done.id, task, "one command is in flight");
                return Ok(done);
            }
            self.turn()?;
        }
    }

    /// Queues a command, and sends nothing yet.
    ///
    /// # Panics
    /// When the queue is full.
    pub fn begin(&mut self, cdb: &Cdb, data: CommandData) -> TaskId {
        self.session.submit(0, cdb, data, &[]).expect("there is room for a command")
    }

    /// Sends queued bytes, but no more than `len` of them.
    ///
    /// # Panics
    /// When the connection is lost.
    pub fn send_at_most(&mut self, len: usize) {
        let mut bytes = self.unsent();
        bytes.truncate(len);
        self.socket.write_all(&bytes).expect("the node takes it");
        self.session.advance_output(bytes.len());
    }

    /// The next completion.
    ///
    /// # Errors
    /// When the connection is lost.
    pub fn next_done(&mut self) -> Result<TaskCompletion, PeerError> {
        loop {
            if let Some(done) = self.session.poll_completion() {
                return Ok(done);
            }
            self.turn()?;
        }
    }

    /// Executes one command, after the unit's pending unit attentions.
    ///
    /// # Panics
    /// When the connection is lost.
    pub fn command(&mut self, cdb: &Cdb, data: &CommandData) -> TaskCompletion {
        for _ in 0..ATTENTIONS_MAX {
            let done = self.try_command(cdb, data.clone()).expect("the connection stays");
            if done.sense.is_none_or(|sense| sense.key != 6) {
                return done;
            }
        }
        panic!("the unit has something to say without end")
    }

    /// The code and qualifier of a pending unit attention, if there is one.
    ///
    /// # Panics
    /// When the connection is lost.
    pub fn attention(&mut self) -> Option<(u8, u8)> {
        let done = self.try_command(&cdb::test_unit_ready(), CommandData::None);
        let done = done.expect("the connection stays");
        done.sense.filter(|sense| sense.key == 6).map(|sense| (sense.asc, sense.ascq))
    }

    /// Waits for an asynchronous event of the target.
    ///
    /// # Panics
    /// When the connection is lost.
    pub fn event(&mut self) -> Event {
        loop {
            if let Some(event) = self.session.poll_event() {
                return event;
            }
            self.turn().expect("the connection stays");
        }
    }

    /// Begins a task management function, and sends it.
    ///
    /// # Panics
    /// When another one is under way, or the connection is lost.
    pub fn begin_function(&mut self, function: TaskFunction) -> Managing {
        let managing = self.session.manage(function, 0, None).expect("none is under way");
        self.send_at_most(usize::MAX);
        managing
    }

    /// Waits for the end of the task management function. Returns its result.
    ///
    /// # Panics
    /// When the connection is lost.
    pub fn end_function(&mut self) -> TaskResult {
        loop {
            // The connection may end directly after the answer.
            let lost = self.turn().err();
            match (self.session.poll_event(), lost) {
                (Some(Event::Managed(result)), _) => return result,
                (_, Some(error)) => panic!("lost before the function was over: {error}"),
                (_, None) => {}
            }
        }
    }

    /// Ends a function that another connection of the session has begun.
    pub fn conclude(&mut self, managing: &Managing, result: TaskResult) {
        self.session.conclude(managing, result);
    }

    /// Processes the next input, and sends the answer that it requires.
    ///
    /// # Errors
    /// When the connection is lost.
    pub fn hear(&mut self) -> Result<(), PeerError> {
        self.take_input()?;
        self.send_all();
        Ok(())
    }

    /// Logs out.
    ///
    /// # Panics
    /// When the target does not answer properly.
    pub fn log_out(mut self) {
        self.session.logout(LogoutReason::SESSION).expect("the session is ready");
        while !self.session.is_closing() {
            self.turn().expect("a logout is answered");
        }
    }

    /// Clears all pending unit attentions.
    ///
    /// # Panics
    /// When there is no end of them.
    pub fn hear_all(&mut self) {
        assert!(self.command(&cdb::test_unit_ready(), &CommandData::None).is_good());
    }

    /// Reads one block.
    ///
    /// # Panics
    /// When the read fails.
    pub fn read(&mut self, lba: u64) -> Vec<u8> {
        let done = self.command(&cdb::read(lba, 1), &CommandData::SmallIncoming(BLOCK_LEN));
        assert!(done.is_good(), "{done:?}");
        done.data
    }

    /// Writes one block.
    pub fn write(&mut self, lba: u64, block: &[u8]) -> Status {
        let data = CommandData::SmallOutgoing(block.to_vec());
        status(&self.command(&cdb::write(0, lba, 1), &data))
    }

    /// Writes one block; returns sense key, code and qualifier if that fails.
    pub fn write_refused(&mut self, lba: u64, block: &[u8]) -> Option<(u8, u8, u8)> {
        let data = CommandData::SmallOutgoing(block.to_vec());
        let sense = self.command(&cdb::write(0, lba, 1), &data).sense;
        sense.map(|sense| (sense.key, sense.asc, sense.ascq))
    }

    /// Sends PERSISTENT RESERVE OUT, with its two keys. SPC-4, 6.16.
    pub fn reserve_out(
        &mut self,
        action: u8,
        kind: u8,
        (key, service_key): (u64, u64),
        persist: bool,
    ) -> Status {
        let mut cdb: Cdb = [0; 16];
        (cdb[0], cdb[1], cdb[2], cdb[8]) = (0x5F, action, kind, 24);
        let mut parameters = [key.to_be_bytes(), service_key.to_be_bytes(), [0; 8]].concat();
        parameters[20] = u8::from(persist);
        status(&self.command(&cdb, &CommandData::SmallOutgoing(parameters)))
    }

    /// The keys that PERSISTENT RESERVE IN returns. SPC-4, 6.15.
    ///
    /// # Panics
    /// When the command fails.
    pub fn keys(&mut self) -> Vec<u64> {
        let mut cdb: Cdb = [0; 16];
        (cdb[0], cdb[7]) = (0x5E, 1);
        let done = self.command(&cdb, &CommandData::SmallIncoming(256));
        assert!(done.is_good(), "{done:?}");
        let (keys, _) = done.data[8..].as_chunks::<8>();
        keys.iter().map(|key| u64::from_be_bytes(*key)).collect()
    }

    fn unsent(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for chunk in self.session.output() {
            match chunk {
                Chunk::Bytes(part) => bytes.extend_from_slice(part),
                Chunk::Zeroes(len) => bytes.resize(bytes.len() + len, 0),
                Chunk::Buffer { .. } => unreachable!("all data here is small"),
            }
        }
        bytes
    }

    /// Sends the queued output, and processes the next input.
    fn turn(&mut self) -> Result<(), PeerError> {
        self.send_all();
        self.take_input()
    }

    fn send_all(&mut self) {
        while self.session.output_len() > 0 {
            let bytes = self.unsent();
            // A node that closes the connection has sent the reason, or the next receive reports
            // the end.
            let _ = self.socket.write_all(&bytes);
            self.session.advance_output(bytes.len());
        }
    }

    fn take_input(&mut self) -> Result<(), PeerError> {
        let mut bytes = [0; 64 << 10];
        let len = self.socket.read(&mut bytes).unwrap_or(0);
        if len == 0 {
            return Err(PeerError::Silent);
        }
        let mut rest = &bytes[..len];
        while !rest.is_empty() {
            assert_eq!(self.session.receiving(), Receiving::Bytes, "all data here is small");
            let taken = self.session.handle_input(rest)?;
            rest = &rest[taken..];
        }
        Ok(())
    }
}

/// The SCSI status of a command.
fn status(done: &TaskCompletion) -> Status {
    match done.ending {
        Ending::Answered(status) => status,
        _ => panic!("it is answered: {done:?}"),
    }
}

/// Checks that a new initiator can log in to volume `data`, write and read.
///
/// # Panics
/// When it cannot.
pub fn assert_serves_iscsi(node: &Node<'_>) {
    let who = Who::named("newcomer");
    let mut initiator = Initiator::login(node, "data", &who).expect("the node lets it in");
    let block = [0x3C; BLOCK_LEN as usize];
    assert_eq!(initiator.write(3, &block), Status::GOOD);
    assert_eq!(initiator.read(3), block);
}
