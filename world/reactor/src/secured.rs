//! A connection to an address with TLS: the decision whether it uses TLS, the handshake, and the records.
//!
//! The kernel handles the records behind the handshake, if it can. The socket then carries plaintext, and this module has
//! no further part in it. Otherwise, the records are handled here, in the turn of the connection's core: plaintext is
//! copied and encrypted in batches, and the shard is told that plaintext was sent when its records were, so that it
//! waits for room in the socket as it does without TLS.
//!
//! Invariant: a batch is part of the output that the shard presents. The shard presents its unsent output again,
//! from the same byte on, until it is told that it was sent.

use std::mem;
use std::sync::Arc;

use nearflash_session::DoorTls;
use nearflash_shard::{Notice, Peer, Received, Sent, SocketId, TlsFault, TlsIdentity};
use nearflash_tls::{Failure, HANDSHAKE_BYTE, Opened, RECORD_LEN, RECORD_OVERHEAD, Stream};

use crate::acceptor::{Acceptor, Identities};
use crate::handshake_input::HandshakeInput;
use crate::kernel_tls::{self, NotInKernel};
use crate::sockets;

/// The most bytes that one call receives. It is the most input that a connection holds.
const INPUT_LEN: usize = 128 * 1024;

/// The most plaintext of one batch.
const BATCH_LEN: usize = 16 * RECORD_LEN;

/// Memory that the connections of a core share: a connection has none of its own between two calls unless
/// its peer does not read.
#[derive(Debug)]
pub(crate) struct Scratch {
    input: Box<[u8]>,
    /// Gathers plaintext for one record.
    pub(crate) record: Vec<u8>,
    /// For the output of a batch.
    output: Vec<u8>,
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            input: vec![0; INPUT_LEN].into_boxed_slice(),
            record: Vec::with_capacity(RECORD_LEN),
            output: Vec::with_capacity(BATCH_LEN + BATCH_LEN / RECORD_LEN * RECORD_OVERHEAD),
        }
    }
}

/// A connection to an address with TLS.
#[derive(Debug)]
pub(crate) struct Secured {
    peer: Peer,
    policy: DoorTls,
    /// For its protocol.
    acceptor: Arc<Acceptor>,
    state: State,
    batch: Batch,
}

#[derive(Debug)]
enum State {
    /// Nothing has arrived.
    Undecided,
    Handshake(Box<Stream>, HandshakeInput),
    Open(Box<Stream>, TlsIdentity),
    /// The kernel handles the records.
    InKernel(TlsIdentity),
    Failed,
}

/// Records that are being sent.
#[derive(Debug, Default)]
struct Batch {
    records: Vec<u8>,
    sent: usize,
    /// The length of their plaintext, and the part of it that the shard knows to be sent.
    len: usize,
    told: usize,
}

/// The result of looking at a connection whose handshake may not be over.
pub(crate) enum Look {
    /// Nothing has arrived.
    Nothing,
    /// A step of the handshake was computed, and more must arrive.
    Computed,
    /// The connection must be closed.
    Closed,
    /// It uses TLS and is open.
    Open,
    /// It does not use TLS.
    Plain,
}

impl Secured {
    pub(crate) fn new(peer: Peer, policy: DoorTls, acceptor: Arc<Acceptor>) -> Self {
        Self { peer, policy, acceptor, state: State::Undecided, batch: Batch::default() }
    }

    /// The identity that the peer has proved.
    pub(crate) fn identity(&self) -> Option<&TlsIdentity> {
        match &self.state {
            State::Open(_, identity) | State::InKernel(identity) => Some(identity),
            State::Undecided | State::Handshake(..) | State::Failed => None,
        }
    }

    /// Whether plaintext can be received without anything arriving.
    pub(crate) fn holds_input(&self) -> bool {
        matches!(&self.state, State::Open(stream, _) if stream.holds_input())
    }

    /// At most how much of what was read from the socket was not received, if so much more waits in the socket.
    /// The kernel may hold a record that the socket does not count.
    pub(crate) fn held_max(&self, unread: usize) -> usize {
        match &self.state {
            State::Open(stream, _) if unread == 0 && !stream.holds_input() => 0,
            State::Open(..) => INPUT_LEN,
            State::InKernel(_) => RECORD_LEN + RECORD_OVERHEAD,
            _ => 0,
        }
    }

    /// Whether its socket carries plaintext.
    pub(crate) fn is_in_kernel(&self) -> bool {
        matches!(self.state, State::InKernel(_))
    }

    /// Whether a call of [`Self::look`] computes for as long as a handshake takes.
    pub(crate) fn is_shaking_hands(&self) -> bool {
        matches!(self.state, State::Undecided | State::Handshake(..))
    }

    /// Decides whether it uses TLS, and proceeds with its handshake.
    pub(crate) fn look(
        &mut self,
        socket: SocketId,
        scratch: &mut Scratch,
        notices: &mut dyn FnMut(Notice),
    ) -> Look {
        if matches!(self.state, State::Undecided) {
            let first = match sockets::peek(socket) {
                Ok(first) => first,
                Err(Received::Closed) => return self.fail(),
                Err(_) => return Look::Nothing,
            };
            if first != HANDSHAKE_BYTE {
                return self.look_plain(notices);
            }
            match self.acceptor.accept() {
                Ok(stream) => {
                    self.state = State::Handshake(Box::new(stream), HandshakeInput::default());
                }
                Err(error) => {
                    self.report(None, TlsFault::Library(error.to_string()), notices);
                    return self.fail();
                }
            }
        }
        match mem::replace(&mut self.state, State::Failed) {
            State::Handshake(stream, input) => {
                self.shake_hands((stream, input), socket, scratch, notices)
            }
            open @ (State::Open(..) | State::InKernel(_)) => {
                self.state = open;
                Look::Open
            }
            State::Undecided | State::Failed => self.fail(),
        }
    }

    /// Its first byte is not that of a handshake.
    fn look_plain(&mut self, notices: &mut dyn FnMut(Notice)) -> Look {
        if self.policy == DoorTls::Allowed {
            return Look::Plain;
        }
        self.report(None, TlsFault::NotUsed, notices);
        self.fail()
    }

    /// Reports a failure, with the identity that the peer has sent and its hash.
    fn report(&self, offered: Option<&[u8]>, fault: TlsFault, notices: &mut dyn FnMut(Notice)) {
        let identity = offered.and_then(|bytes| self.acceptor.identities().read(bytes));
        let hash = identity.and_then(|identity| identity.hash());
        let protocol = self.acceptor.identities().protocol();
        let identity = offered.map(|it| it.escape_ascii().to_string().into());
        notices(Notice::TlsFailed { peer: self.peer, protocol, identity, hash, fault });
    }

    fn fail(&mut self) -> Look {
        self.state = State::Failed;
        Look::Closed
    }

    fn shake_hands(
        &mut self,
        (mut stream, mut input): (Box<Stream>, HandshakeInput),
        socket: SocketId,
        scratch: &mut Scratch,
        notices: &mut dyn FnMut(Notice),
    ) -> Look {
        let len = match input.receive(socket, &mut scratch.input) {
            Received::Bytes(len) => len,
            Received::Closed => return self.fail(),
            Received::Nothing => {
                self.state = State::Handshake(stream, input);
                return Look::Nothing;
            }
        };
        let result = stream.handshake(&scratch.input[..len]);
        // A few hundred bytes, which fit into the socket of a new connection.
        let answer = stream.take_output(Vec::new());
        let is_sent = sockets::send_bytes(socket, &answer) == Sent::Bytes(answer.len());
        let offered = stream.identity().map(|it| it.bytes.clone());
        let identities = self.acceptor.identities();
        let identity = offered.as_deref().and_then(|bytes| identities.read(bytes));
        match (result, identity) {
            (Ok(true), Some(identity)) if is_sent || answer.is_empty() => {
                if let Some(host) = identities.host_of_previous(&identity) {
                    notices(Notice::PreviousPsk { peer: self.peer, host });
                }
                match open(stream, identity, socket) {
                    Ok(state) => {
                        self.state = state;
                        return Look::Open;
                    }
                    Err(fault) => self.report(offered.as_deref(), fault, notices),
                }
            }
            (Ok(false), _) if is_sent || answer.is_empty() => {
                self.state = State::Handshake(stream, input);
                return Look::Computed;
            }
            (Ok(_), _) => {}
            (Err(failure), _) => {
                let fault = fault_of(failure, offered.as_deref(), identities);
                self.report(offered.as_deref(), fault, notices);
            }
        }
        self.fail()
    }

    /// Receives plaintext of an open connection, into both parts.
    pub(crate) fn receive(
        &mut self,
        socket: SocketId,
        scratch: &mut Scratch,
        [first, second]: [&mut [u8]; 2],
        notices: &mut dyn FnMut(Notice),
    ) -> Received {
        let State::Open(stream, _) = &mut self.state else { return Received::Closed };
        let len = if stream.holds_input() {
            0
        } else {
            match sockets::receive_bytes(socket, &mut scratch.input) {
                Received::Bytes(len) => len,
                other => return other,
            }
        };
        match stream.open(&scratch.input[..len], [first, second]) {
            Ok(Opened::Bytes(0)) => Received::Nothing,
            Ok(Opened::Bytes(len)) => Received::Bytes(len),
            Ok(Opened::Closed) => Received::Closed,
            Err(failure) => {
                // The peer learns the reason from an alert, if there is room for it.
                let _ = sockets::send_bytes(socket, stream.output());
                self.state = State::Failed;
                self.report(None, TlsFault::Library(failure.to_string()), notices);
                Received::Closed
            }
        }
    }

    /// Sends what is left of a batch; `None` if there is no batch.
    pub(crate) fn send_batch(&mut self, socket: SocketId, scratch: &mut Scratch) -> Option<Sent> {
        if self.batch.records.is_empty() {
            return None;
        }
        Some(self.batch.send(socket, scratch))
    }

    /// The stream for a new batch; `None` if nothing can be sent.
    pub(crate) fn begin_batch(&mut self, scratch: &mut Scratch) -> Option<BatchWriter<'_>> {
        let State::Open(stream, _) = &mut self.state else { return None };
        if stream.output().is_empty() {
            stream.take_output(mem::take(&mut scratch.output));
        }
        scratch.record.clear();
        Some(BatchWriter { stream, batch: &mut self.batch, is_broken: false })
    }

    /// Tells the peer that nothing follows, and sends nothing more.
    pub(crate) fn shut_down_output(&mut self, socket: SocketId) {
        // Without room, the end of the connection tells the peer.
        match &mut self.state {
            State::InKernel(_) => return kernel_tls::send_close(socket),
            State::Open(stream, _) if self.batch.records.is_empty() => {
                stream.close();
                let _ = sockets::send_bytes(socket, stream.output());
            }
            State::Open(..) | State::Undecided | State::Handshake(..) | State::Failed => {}
        }
        sockets::shut_down_output(socket);
    }
}

/// The handshake is over. Hands the records over to the kernel, if it can handle them.
fn open(
    mut stream: Box<Stream>,
    identity: TlsIdentity,
    socket: SocketId,
) -> Result<State, TlsFault> {
    let handed_over = match stream.take_traffic_keys() {
        Some(keys) => kernel_tls::hand_over(socket, &keys),
        None => Err(NotInKernel::Unavailable),
    };
    match handed_over {
        Ok(()) => Ok(State::InKernel(identity)),
        Err(NotInKernel::Unavailable) => Ok(State::Open(stream, identity)),
        Err(NotInKernel::Halfway) => {
            let reason = "the kernel decrypts records, but does not encrypt them: use --ktls off";
            Err(TlsFault::Library(reason.to_owned()))
        }
    }
}

impl Batch {
    fn send(&mut self, socket: SocketId, scratch: &mut Scratch) -> Sent {
        let Sent::Bytes(sent) = sockets::send_bytes(socket, &self.records[self.sent..]) else {
            return Sent::Closed;
        };
        self.sent += sent;
        let told = self.plaintext_sent();
        let news = Sent::Bytes(told - self.told);
        self.told = told;
        if self.sent == self.records.len() {
            self.records.clear();
            scratch.output = mem::take(&mut self.records);
            *self = Self::default();
        }
        news
    }

    /// The plaintext of the records that were sent; less than all of it until the last byte was sent, so that the
    /// shard goes on sending.
    fn plaintext_sent(&self) -> usize {
        if self.sent == self.records.len() {
            return self.len;
        }
        let whole = self.sent / (RECORD_LEN + RECORD_OVERHEAD) * RECORD_LEN;
        whole.min(self.len.saturating_sub(1)).max(self.told)
    }
}

/// Gathers plaintext, and encrypts it record by record.
pub(crate) struct BatchWriter<'a> {
    stream: &'a mut Stream,
    batch: &'a mut Batch,
    is_broken: bool,
}

impl BatchWriter<'_> {
    /// The bytes that the batch takes at most from here on.
    pub(crate) fn room(&self, scratch: &Scratch) -> usize {
        if self.is_broken { 0 } else { BATCH_LEN - self.batch.len - scratch.record.len() }
    }

    /// Adds plaintext, at most as much as there is room for.
    pub(crate) fn push(&mut self, mut bytes: &[u8], scratch: &mut Scratch) {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(RECORD_LEN - scratch.record.len()));
            scratch.record.extend_from_slice(now);
            bytes = later;
            if scratch.record.len() == RECORD_LEN {
                self.seal(scratch);
            }
        }
    }

    fn seal(&mut self, scratch: &mut Scratch) {
        self.is_broken |= self.stream.seal(&scratch.record).is_err();
        self.batch.len += scratch.record.len();
        scratch.record.clear();
    }

    /// Sends the records.
    pub(crate) fn send(mut self, socket: SocketId, scratch: &mut Scratch) -> Sent {
        if !scratch.record.is_empty() {
            self.seal(scratch);
        }
        if self.is_broken {
            return Sent::Closed;
        }
        self.batch.records = self.stream.take_output(Vec::new());
        if self.batch.records.is_empty() {
            return Sent::Bytes(0);
        }
        self.batch.send(socket, scratch)
    }
}

/// The fault of a handshake. Some identities without a key fail like those with another one.
fn fault_of(failure: Failure, offered: Option<&[u8]>, identities: &dyn Identities) -> TlsFault {
    let refused = offered.and_then(|bytes| identities.refusal(bytes));
    match (failure, refused) {
        (Failure::NoKey | Failure::WrongKey, Some(refused)) => TlsFault::NoKey(refused),
        (Failure::NoKey, None) if offered.is_none() => TlsFault::NoIdentity,
        (Failure::WrongKey, None) => identities.wrong_key(),
        (failure, _) => TlsFault::Library(failure.to_string()),
    }
}
