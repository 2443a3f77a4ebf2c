//! Connections over socket pairs, with a client of the same library at the other end.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use nearflash_direct::serving::{CredentialExport, Exports, TlsKeyRefused as ClientRefused};
use nearflash_direct::{Secret, TlsIdentity as ClientIdentity};
use nearflash_nvme::Nqn;
use nearflash_nvme::tls::{Demand, Derivation, Psk, TlsHost, TlsHosts, Version};
use nearflash_shard::{TlsFault, TlsKeyRefused};
use nearflash_tls::{Client, Opened, PskKey, Stream, Suite};
use nearflash_units::ByteLen;

use super::*;
use crate::acceptor::Records;
use crate::sockets::socket_id;

const STAGING_LEN: usize = 64 * 1024;

fn nqn(name: &str) -> Nqn {
    Nqn::new(&format!("nqn.2026-11.test:{name}")).unwrap()
}

fn tls_host() -> TlsHost {
    let psk = Psk::new(None, &[7; 32]).unwrap();
    let (derivation, demand) = (Derivation::Standard, Demand::Required);
    TlsHost { psk, previous: None, derivation, demand }
}

const NVME: Door = Door::NvmeTcp { anonymous: false };
const DIRECT: Door = Door::Direct { anonymous: false, local: false };
const KEY: &str = "app";
const SECRET: [u8; 32] = [9; 32];

/// TLS with one host and one credential.
fn tls() -> Arc<Tls> {
    let hosts: TlsHosts = [(nqn("host"), tls_host())].into_iter().collect();
    let credential = CredentialExport {
        secret: Secret::new(SECRET),
        expired: false,
        access: std::collections::HashMap::new(),
    };
    let exports = Arc::new(Exports::new([], [(KEY.into(), credential)]));
    Arc::new(Tls::new(hosts, exports, [1; 16], Records::Kernel).unwrap())
}

/// The end of the host.
fn host() -> Stream {
    let host = tls_host();
    let identity =
        host.psk.identity(host.derivation, Version::One, &nqn("host"), &nqn("data")).unwrap();
    let key = host.psk.tls_key(host.derivation, &identity).unwrap();
    client(&identity.to_string(), key.bytes())
}

/// The end of a direct client with this key and secret.
fn direct_client(key: &str, secret: [u8; 32]) -> Stream {
    let identity = ClientIdentity::of(key).unwrap();
    client(&identity.to_string(), identity.tls_key(&Secret::new(secret)).bytes())
}

fn client(identity: &str, key: &[u8]) -> Stream {
    let key = PskKey::new(Suite::Aes128Sha256, key);
    Client::new().unwrap().connect(identity.as_bytes(), key).unwrap()
}

/// Both ends of a connection.
struct Bench {
    table: SecuredTable,
    pool: Pool,
    ours: UnixStream,
    theirs: UnixStream,
    client: Stream,
    notices: Vec<Notice>,
}

impl Bench {
    /// A new connection of a host to an address with this policy.
    fn new(policy: DoorTls) -> Self {
        Self::with(NVME, policy, host())
    }

    /// A new connection of this client.
    fn with(door: Door, policy: DoorTls, client: Stream) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        let mut table = SecuredTable::new(Some(tls()));
        let peer = Peer::Address(SocketAddr::from(([192, 0, 2, 7], 4420)));
        table.begin(socket_id(ours.as_raw_fd()), peer, (door, policy));
        let pool = Pool::new(ByteLen(1 << 20));
        Self { table, pool, ours, theirs, client, notices: Vec::new() }
    }

    /// A connection whose handshake is over.
    fn open() -> Self {
        let bench = Self::new(DoorTls::Required).shake_hands();
        let identity = bench.table.identity(bench.socket());
        assert!(matches!(identity, Some(TlsIdentity::Nvme(it)) if it.host == nqn("host")));
        bench
    }

    fn shake_hands(mut self) -> Self {
        let bench = &mut self;
        bench.client.handshake(&[]).unwrap();
        while !bench.client.is_ready() {
            bench.client_sends();
            assert_eq!(bench.turn_and_receive(None).0, Some(Received::Nothing));
            let mut input = [0; 4096];
            let len = bench.theirs.read(&mut input).unwrap();
            bench.client.handshake(&input[..len]).unwrap();
        }
        bench.client_sends();
        assert_eq!(bench.turn_and_receive(None).0, Some(Received::Nothing));
        self
    }

    /// The fault that ends the handshake.
    fn fault(mut self) -> TlsFault {
        self.client.handshake(&[]).unwrap();
        self.client_sends();
        assert_eq!(self.turn_and_receive(None).0, Some(Received::Closed));
        match self.notices.pop() {
            Some(Notice::TlsFailed { fault, identity: Some(_), .. }) => fault,
            other => panic!("{other:?}"),
        }
    }

    fn socket(&self) -> SocketId {
        socket_id(self.ours.as_raw_fd())
    }

    fn client_sends(&mut self) {
        let output = self.client.take_output(Vec::new());
        self.theirs.write_all(&output).unwrap();
    }

    /// The events of a turn.
    fn turn(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        self.table.begin_turn(&mut events);
        events
    }

    /// Receives in a new turn. Returns the bytes of the staging area, too.
    fn turn_and_receive(&mut self, place: Option<Place>) -> (Option<Received>, Vec<u8>) {
        self.turn();
        let socket = self.socket();
        let mut staging = vec![0; STAGING_LEN];
        let Self { table, pool, notices, .. } = self;
        let mut note = |notice| notices.push(notice);
        let received = table.receive(socket, place, &mut staging, (pool, &mut note));
        (received, staging)
    }

    /// The plaintext that has arrived at the client.
    fn client_opens(&mut self, input_len: usize) -> Vec<u8> {
        let (mut input, mut plaintext) = (vec![0; input_len], vec![0; 4 * input_len + (1 << 20)]);
        let len = match self.theirs.read(&mut input) {
            Ok(len) => len,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(error) => panic!("{error}"),
        };
        let opened = self.client.open(&input[..len], [&mut plaintext, &mut []]).unwrap();
        let Opened::Bytes(len) = opened else { panic!("the connection is open") };
        plaintext.truncate(len);
        plaintext
    }
}

#[test]
fn bytes_arrive_in_order_although_the_socket_is_often_full() {
    let mut bench = Bench::open();
    let socket = bench.socket();
    let buffer = bench.pool.take(ByteLen(4096)).unwrap();
    bench.pool.bytes_mut(buffer).fill(9);
    let mut wanted: Vec<u8> = (0..=250).cycle().take(3 << 20).collect();
    let bytes_len = wanted.len();
    wanted.resize(bytes_len + 4096, 9);
    wanted.resize(bytes_len + 4096 + 300_000, 0);
    let (mut sent, mut arrived, mut was_full) = (0, Vec::new(), false);
    while sent < wanted.len() {
        let bytes = &wanted[sent.min(bytes_len)..bytes_len];
        let behind = sent.saturating_sub(bytes_len);
        let of_buffer = behind.min(4096);
        let zeroes = 300_000 - behind.saturating_sub(4096);
        let chunks = [
            Chunk::Bytes(bytes),
            Chunk::Buffer { buffer, offset: of_buffer, len: 4096 - of_buffer },
            Chunk::Zeroes(zeroes),
        ];
        let result = bench.table.send(socket, chunks.into_iter(), &bench.pool);
        let Ok(Sent::Bytes(len)) = result.map_err(|_| ()) else { panic!("the connection is open") };
        sent += len;
        was_full |= len == 0;
        if len == 0 {
            arrived.append(&mut bench.client_opens(10_007));
        }
    }
    while arrived.len() < wanted.len() {
        arrived.append(&mut bench.client_opens(1 << 20));
    }
    assert!(was_full && arrived == wanted);
}

#[test]
fn plaintext_goes_to_its_place_and_input_that_is_held_wakes_the_core() {
    let mut bench = Bench::open();
    let socket = bench.socket();
    let wanted: Vec<u8> = (0..=250).cycle().take(100_000).collect();
    bench.client.seal(&wanted).unwrap();
    bench.client_sends();
    let buffer = bench.pool.take(ByteLen(8192)).unwrap();
    let place = Place { buffer, offset: 1, len: 8000 };
    let (received, staging) = bench.turn_and_receive(Some(place));
    assert_eq!(received, Some(Received::Bytes(8000 + STAGING_LEN)));
    let mut arrived = bench.pool.bytes(buffer)[1..8001].to_vec();
    arrived.extend_from_slice(&staging);
    bench.table.watch(socket, Interest::Output);
    assert!(bench.table.begin_sleep(), "it waits for room only");
    bench.table.watch(socket, Interest::Input);
    assert!(!bench.table.begin_sleep());
    assert!(matches!(bench.turn()[..], [Event::Ready(ready)] if ready == socket));
    let (received, staging) = bench.turn_and_receive(None);
    let Some(Received::Bytes(len)) = received else { panic!("{received:?}") };
    arrived.extend_from_slice(&staging[..len]);
    assert!(arrived == wanted);
    bench.table.watch(socket, Interest::Input);
    assert!(bench.table.begin_sleep(), "nothing is held");
}

#[test]
fn a_connection_goes_on_at_another_core() {
    let mut bench = Bench::open();
    let socket = bench.socket();
    let mut other = SecuredTable::new(bench.table.tls.clone());
    bench.table.detach(socket);
    assert!(bench.table.identity(socket).is_none());
    other.attach(socket);
    bench.table = other;
    bench.client.seal(b"request").unwrap();
    bench.client_sends();
    let (received, staging) = bench.turn_and_receive(None);
    assert_eq!((received, &staging[..7]), (Some(Received::Bytes(7)), &b"request"[..]));
    bench.table.shut_down_output(socket);
    let mut input = [0; 100];
    let len = bench.theirs.read(&mut input).unwrap();
    assert_eq!(bench.client.open(&input[..len], [&mut [0; 9], &mut []]), Ok(Opened::Closed));
    bench.table.forget(socket);
    assert_eq!(bench.table.len, 0);
}

#[test]
fn a_connection_without_tls_is_plain_where_that_is_allowed_and_otherwise_refused() {
    let mut bench = Bench::new(DoorTls::Allowed);
    assert_eq!(bench.turn_and_receive(None).0, Some(Received::Nothing), "nothing has arrived");
    bench.theirs.write_all(&[0, 0, 128, 0]).unwrap();
    assert_eq!(bench.turn_and_receive(None).0, None);
    assert_eq!(bench.table.len, 0);
    let mut bench = Bench::new(DoorTls::Required);
    bench.theirs.write_all(&[0, 0, 128, 0]).unwrap();
    assert_eq!(bench.turn_and_receive(None).0, Some(Received::Closed));
    let [Notice::TlsFailed { fault: TlsFault::NotUsed, .. }] = &bench.notices[..] else {
        panic!("{:?}", bench.notices);
    };
    let socket = bench.socket();
    let sent = bench.table.send(socket, [Chunk::Bytes(b"x")].into_iter(), &bench.pool);
    assert_eq!(sent.map_err(|_| ()), Ok(Sent::Closed), "and nothing is sent in the clear");
}

#[test]
fn a_direct_client_proves_the_key_of_its_identity() {
    let client = direct_client(KEY, SECRET);
    let bench = Bench::with(DIRECT, DoorTls::Required, client).shake_hands();
    let identity = bench.table.identity(bench.socket());
    assert!(matches!(identity, Some(TlsIdentity::Direct(it)) if it.key() == KEY));
}

#[test]
fn a_wrong_secret_and_an_unknown_key_fail_alike_and_are_told_apart_in_notices() {
    let refused = |client: Stream| Bench::with(DIRECT, DoorTls::Required, client).fault();
    let unknown = TlsFault::NoKey(TlsKeyRefused::Direct(ClientRefused::Unknown));
    assert_eq!(refused(direct_client(KEY, [1; 32])), TlsFault::WrongSecret);
    assert_eq!(refused(direct_client("nobody", SECRET)), unknown);
    assert_eq!(refused(direct_client("nobody", [0; 32])), unknown);
    let alert = |key: &str, secret| {
        let client = direct_client(key, secret);
        let mut bench = Bench::with(DIRECT, DoorTls::Required, client);
        bench.client.handshake(&[]).unwrap();
        bench.client_sends();
        bench.turn_and_receive(None);
        let mut alert = vec![0; 100];
        let len = bench.theirs.read(&mut alert).unwrap();
        alert[..len].to_vec()
    };
    assert_eq!(alert(KEY, [1; 32]), alert("nobody", SECRET));
}

#[test]
fn an_identity_of_one_protocol_opens_no_connection_of_another() {
    let fault = Bench::with(DIRECT, DoorTls::Required, host()).fault();
    assert!(matches!(fault, TlsFault::NoKey(TlsKeyRefused::Direct(ClientRefused::Identity(_)))));
    let fault = Bench::with(NVME, DoorTls::Required, direct_client(KEY, SECRET)).fault();
    assert!(matches!(fault, TlsFault::NoKey(TlsKeyRefused::Nvme(_))), "{fault}");
}

#[test]
fn handshakes_see_the_credentials_of_their_time() {
    let mut bench = Bench::with(DIRECT, DoorTls::Required, direct_client(KEY, SECRET));
    let tls = bench.table.tls.clone().unwrap();
    tls.set_exports(Arc::new(Exports::new([], [])));
    bench.client.handshake(&[]).unwrap();
    bench.client_sends();
    assert_eq!(bench.turn_and_receive(None).0, Some(Received::Closed));
}

#[test]
fn a_turn_takes_one_step_of_one_handshake() {
    let mut bench = Bench::new(DoorTls::Required);
    bench.client.handshake(&[]).unwrap();
    bench.client_sends();
    bench.turn();
    bench.table.handshakes_left = 0;
    let socket = bench.socket();
    let Bench { table, pool, notices, .. } = &mut bench;
    let mut note = |notice| notices.push(notice);
    let mut receive = || table.receive(socket, None, &mut [0; 100], (&mut *pool, &mut note));
    assert_eq!(receive(), Some(Received::Nothing));
    assert_eq!(bench.theirs.read(&mut [0; 100]).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(bench.turn_and_receive(None).0, Some(Received::Nothing));
    assert!(bench.theirs.read(&mut [0; 100]).unwrap() > 0);
}
