//! Connections with TLS over real sockets, against a server that uses the same library.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nearflash_request::BufferId;
use nearflash_session::{Chunk, Receiving, RequestingEnd};
use nearflash_tls::{
    KeySource, Opened, PskKey, RECORD_LEN, RECORD_OVERHEAD, Server, Stream, Suite,
};
use nearflash_units::Nanos;
use proptest::prelude::*;

use super::secured::BATCH_LEN;
use super::{Connection, LinkError, Memory, TlsError, TlsKey, connect_tcp, connect_tls};

/// The length of the header of a frame: the buffer and the length of the payload.
const HEADER_LEN: usize = 8;
const PATIENCE: Duration = Duration::from_secs(30);

/// The key of `a`.
#[derive(Debug)]
struct Keys;

impl KeySource for Keys {
    fn key(&self, identity: &[u8]) -> Option<PskKey> {
        (identity == b"a").then(|| key(1))
    }
}

fn key(byte: u8) -> PskKey {
    PskKey::new(Suite::Aes128Sha256, &[byte; 32])
}

fn tls(identity: &[u8], byte: u8) -> TlsKey {
    TlsKey { identity: identity.to_vec(), key: key(byte) }
}

/// The server's end of one connection.
struct Far {
    socket: TcpStream,
    stream: Stream,
}

impl Far {
    /// Accepts and shakes hands; `None` if it refuses.
    fn accept(listener: &TcpListener) -> Option<Self> {
        let (socket, _) = listener.accept().unwrap();
        socket2::SockRef::from(&socket).set_send_buffer_size(4096).unwrap();
        let stream = Server::new(Arc::new(Keys)).unwrap().accept().unwrap();
        let mut far = Self { socket, stream };
        let mut input = vec![0; 4096];
        while !far.stream.is_ready() {
            let len = far.socket.read(&mut input).unwrap();
            assert!(len > 0, "the client stays");
            let result = far.stream.handshake(&input[..len]);
            far.send();
            result.ok()?;
        }
        Some(far)
    }

    fn send(&mut self) {
        self.socket.write_all(&self.stream.take_output(Vec::new())).unwrap();
    }

    /// Receives until the end. Also returns whether the client has announced it by TLS.
    fn receive_all(&mut self) -> (Vec<u8>, bool) {
        let (mut all, mut room, mut input) = (Vec::new(), vec![0; 5000], vec![0; 3000]);
        loop {
            let len = match self.stream.holds_input() {
                true => 0,
                false => self.socket.read(&mut input).unwrap(),
            };
            if len == 0 && !self.stream.holds_input() {
                return (all, false);
            }
            match self.stream.open(&input[..len], [&mut room, &mut []]).unwrap() {
                Opened::Closed => return (all, true),
                Opened::Bytes(len) => all.extend_from_slice(&room[..len]),
            }
        }
    }
}

fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

fn connect(address: SocketAddr) -> OwnedFd {
    connect_tcp(address, PATIENCE).unwrap()
}

/// Buffers of any lengths.
struct Buffers(Vec<Vec<u8>>);

fn index(buffer: BufferId) -> usize {
    usize::try_from(buffer.0).unwrap()
}

impl Memory for Buffers {
    fn bytes(&self, buffer: BufferId) -> &[u8] {
        &self.0[index(buffer)]
    }

    fn bytes_mut(&mut self, buffer: BufferId) -> &mut [u8] {
        &mut self.0[index(buffer)]
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.0.iter_mut().map(Vec::as_mut_slice)
    }
}

/// Sends bytes and buffers, and receives frames.
#[derive(Default)]
struct Frames {
    output: VecDeque<Piece>,
    /// The sent part of the first piece.
    sent: usize,
    header: Vec<u8>,
    /// The buffer of the payload, the length that has arrived and the length that has not.
    payload: Option<(BufferId, usize, usize)>,
    arrived: usize,
}

enum Piece {
    Bytes(Vec<u8>),
    Buffer(BufferId, usize),
}

impl Piece {
    fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Buffer(_, len) => *len,
        }
    }
}

impl RequestingEnd for Frames {
    type PeerError = Infallible;
    const HEADER_LEN: usize = HEADER_LEN;

    fn receiving(&self) -> Receiving {
        self.payload.map_or(Receiving::Bytes, |(buffer, offset, len)| Receiving::Payload {
            buffer,
            offset,
            len,
        })
    }

    fn handle_input(&mut self, bytes: &[u8]) -> Result<usize, Infallible> {
        let len = bytes.len().min(HEADER_LEN - self.header.len());
        self.header.extend_from_slice(&bytes[..len]);
        if self.header.len() == HEADER_LEN {
            let word = |at: usize| u32::from_le_bytes(self.header[at..][..4].try_into().unwrap());
            self.payload = Some((BufferId(word(0)), 0, usize::try_from(word(4)).unwrap()));
            self.header.clear();
        }
        Ok(len)
    }

    fn handle_payload(&mut self, bytes: &[u8]) {
        let (buffer, offset, left) = self.payload.take().unwrap();
        self.payload = Some((buffer, offset + bytes.len(), left - bytes.len()));
        if left == bytes.len() {
            (self.payload, self.arrived) = (None, self.arrived + 1);
        }
    }

    fn output(&self) -> impl Iterator<Item = Chunk<'_>> {
        let mut skipped = self.sent;
        self.output.iter().map(move |piece| {
            let from = std::mem::take(&mut skipped);
            match piece {
                Piece::Bytes(bytes) => Chunk::Bytes(&bytes[from..]),
                Piece::Buffer(buffer, len) => {
                    Chunk::Buffer { buffer: *buffer, offset: from, len: len - from }
                }
            }
        })
    }

    fn output_len(&self) -> usize {
        self.output.iter().map(Piece::len).sum::<usize>() - self.sent
    }

    fn advance_output(&mut self, sent: usize) {
        self.sent += sent;
        while let Some(first) = self.output.front()
            && self.sent >= first.len()
        {
            self.sent -= first.len();
            self.output.pop_front();
        }
    }

    fn is_closing(&self) -> bool {
        false
    }

    fn has_digests(&self) -> bool {
        false
    }
}

fn bytes(seed: usize, len: usize) -> Vec<u8> {
    (0..=250).cycle().skip(seed % 251).take(len).collect()
}

/// Accepts, sends these frames in records of these lengths, and then returns all that arrives.
fn serve(listener: TcpListener, lens: Vec<usize>, cuts: Vec<usize>) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut far = Far::accept(&listener).unwrap();
        let mut all = Vec::new();
        for (number, len) in lens.into_iter().enumerate() {
            all.extend_from_slice(&u32::try_from(number).unwrap().to_le_bytes());
            all.extend_from_slice(&u32::try_from(len).unwrap().to_le_bytes());
            all.extend_from_slice(&bytes(number, len));
        }
        let (mut cuts, mut rest) = (cuts.iter().cycle(), &all[..]);
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(*cuts.next().unwrap()));
            far.stream.seal(now).unwrap();
            far.send();
            rest = later;
        }
        far.receive_all().0
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn all_data_arrives_in_both_directions_however_it_is_cut(
        incoming in prop::collection::vec(1..90_000_usize, 1..10),
        outgoing in prop::collection::vec((any::<bool>(), 1..300_000_usize), 1..8),
        cuts in prop::collection::vec(1..40_000_usize, 1..6),
        staging_len in prop_oneof![1..200_usize, 4000..300_000_usize],
    ) {
        let (listener, address) = listen();
        let server = serve(listener, incoming.clone(), cuts);
        let socket = connect(address);
        socket2::SockRef::from(&socket.as_fd()).set_send_buffer_size(4096).unwrap();
        let secured = connect_tls(socket, &tls(b"a", 1), PATIENCE).unwrap();
        let mut buffers: Vec<_> = incoming.iter().map(|len| vec![0xA5; *len]).collect();
        let (mut session, mut expected) = (Frames::default(), Vec::new());
        for (number, (is_buffer, len)) in outgoing.into_iter().enumerate() {
            let piece = bytes(number, len);
            expected.extend_from_slice(&piece);
            session.output.push_back(if is_buffer {
                buffers.push(piece);
                Piece::Buffer(BufferId(u32::try_from(buffers.len() - 1).unwrap()), len)
            } else {
                Piece::Bytes(piece)
            });
        }
        let mut connection =
            Connection::secured(secured, session, Buffers(buffers), staging_len);
        let count = incoming.len();
        let is_done = connection.turn_until(Nanos::from_secs(30), |connection| {
            connection.session.arrived == count && !connection.has_unsent()
        });
        prop_assert!(matches!(is_done, Ok(true)), "{is_done:?}");
        for (number, len) in incoming.into_iter().enumerate() {
            prop_assert!(connection.memory.0[number] == bytes(number, len), "frame {number}");
        }
        drop(connection);
        prop_assert!(server.join().unwrap() == expected);
    }
}

#[test]
fn unsent_records_are_bounded_by_one_batch() {
    let (listener, address) = listen();
    let server = thread::spawn(move || Far::accept(&listener).unwrap());
    let secured = connect_tls(connect(address), &tls(b"a", 1), PATIENCE).unwrap();
    let mut session = Frames::default();
    let len = 32 << 20;
    session.output.push_back(Piece::Buffer(BufferId(0), len));
    let mut connection = Connection::secured(secured, session, Buffers(vec![vec![7; len]]), 4096);
    let mut far = server.join().unwrap();
    // The server does not read, so that its socket fills up.
    while connection.turn().unwrap() {}
    assert!(connection.has_unsent() && connection.session.output_len() > 0);
    let unsent_len = connection.secured.as_ref().unwrap().unsent_len();
    assert!(unsent_len <= BATCH_LEN + BATCH_LEN / RECORD_LEN * RECORD_OVERHEAD, "{unsent_len}");
    let reader = thread::spawn(move || far.receive_all());
    let is_done = connection.turn_until(Nanos::from_secs(30), |it| !it.has_unsent());
    assert!(is_done.unwrap());
    drop(connection);
    assert_eq!(reader.join().unwrap().0.len(), len);
}

#[test]
fn a_connection_announces_its_end() {
    let (listener, address) = listen();
    let server = thread::spawn(move || Far::accept(&listener).unwrap().receive_all());
    let secured = connect_tls(connect(address), &tls(b"a", 1), PATIENCE).unwrap();
    let mut session = Frames::default();
    session.output.push_back(Piece::Bytes(b"last".to_vec()));
    let mut connection = Connection::secured(secured, session, Buffers(Vec::new()), 4096);
    connection.turn().unwrap();
    drop(connection);
    assert_eq!(server.join().unwrap(), (b"last".to_vec(), true));
}

#[test]
fn a_changed_record_and_an_end_without_tls_break_the_connection() {
    for sent in [&b"\x17\x03\x03\x00\x20aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"[..], b""] {
        let (listener, address) = listen();
        let server = thread::spawn(move || Far::accept(&listener).unwrap());
        let secured = connect_tls(connect(address), &tls(b"a", 1), PATIENCE).unwrap();
        let mut connection =
            Connection::secured(secured, Frames::default(), Buffers(Vec::new()), 4096);
        let mut far = server.join().unwrap();
        far.socket.write_all(sent).unwrap();
        drop(far);
        let broken = connection.turn_until(Nanos::from_secs(30), |_| false).unwrap_err();
        assert_eq!(matches!(broken, LinkError::Closed), sent.is_empty(), "{broken:?}");
    }
}

#[test]
fn a_refused_key_or_identity_is_an_alert_with_a_name() {
    for (key, alert) in [(tls(b"a", 2), None), (tls(b"b", 1), Some("115, unknown_psk_identity"))] {
        let (listener, address) = listen();
        let server = thread::spawn(move || assert!(Far::accept(&listener).is_none()));
        let refused = connect_tls(connect(address), &key, PATIENCE).unwrap_err();
        assert!(matches!(refused, TlsError::Refused { .. }), "{refused}");
        assert!(alert.is_none_or(|alert| refused.to_string().contains(alert)), "{refused}");
        server.join().unwrap();
    }
}

#[test]
fn a_server_without_tls_an_end_and_silence_have_errors_of_their_own() {
    for answer in [Some(&b"\x03\x00\x18\x00"[..]), Some(b""), None] {
        let (listener, address) = listen();
        let timeout = if answer.is_some() { PATIENCE } else { Duration::ZERO };
        let socket = connect(address);
        let (mut far, _) = listener.accept().unwrap();
        let server = thread::spawn(move || {
            let Some(answer) = answer else { return Some(far) };
            // The whole ClientHello, without which the end would be a reset.
            let mut hello = [0; 5];
            far.read_exact(&mut hello).unwrap();
            let len = u16::from_be_bytes([hello[3], hello[4]]);
            far.read_exact(&mut vec![0; usize::from(len)]).unwrap();
            far.write_all(answer).unwrap();
            None
        });
        let error = connect_tls(socket, &tls(b"a", 1), timeout).unwrap_err();
        match answer {
            Some(b"") => assert!(matches!(error, TlsError::Closed), "{error}"),
            Some(_) => assert!(matches!(error, TlsError::NoTls), "{error}"),
            None => assert!(matches!(error, TlsError::Silent { .. }), "{error}"),
        }
        drop(server.join().unwrap());
    }
}
