//! Both ends of a connection, in memory.

use std::ffi::CStr;
use std::sync::Arc;

use proptest::prelude::*;

use crate::{
    Client, DirectionKeys, Failure, HANDSHAKE_BYTE, KeySource, Opened, PskKey, RECORD_LEN,
    RECORD_OVERHEAD, Server, Stream, Suite,
};

const SUITES: [Suite; 2] = [Suite::Aes128Sha256, Suite::Aes256Sha384];

/// The keys of `a`, for the first suite, and `b`, for the second.
#[derive(Debug)]
struct Keys;

impl KeySource for Keys {
    fn key(&self, identity: &[u8]) -> Option<PskKey> {
        match identity {
            b"a" => Some(key(Suite::Aes128Sha256, 1)),
            b"b" => Some(key(Suite::Aes256Sha384, 2)),
            _ => None,
        }
    }
}

fn key(suite: Suite, byte: u8) -> PskKey {
    let len = if suite == Suite::Aes128Sha256 { 32 } else { 48 };
    PskKey::new(suite, &vec![byte; len])
}

fn identity(suite: Suite) -> (&'static [u8], PskKey) {
    match suite {
        Suite::Aes128Sha256 => (b"a", key(suite, 1)),
        Suite::Aes256Sha384 => (b"b", key(suite, 2)),
    }
}

struct Pair {
    client: Stream,
    server: Stream,
}

impl Pair {
    fn new(identity: &[u8], key: PskKey) -> Self {
        let client = Client::new().unwrap().connect(identity, key).unwrap();
        let server = Server::new(Arc::new(Keys)).unwrap().accept().unwrap();
        Self { client, server }
    }

    /// A pair whose handshake is over.
    fn ready(suite: Suite) -> Self {
        let (identity, key) = identity(suite);
        let mut pair = Self::new(identity, key);
        assert_eq!(pair.shake_hands(), (Ok(true), Ok(true)));
        pair
    }

    /// The whole handshake, and the last results of the client and the server.
    fn shake_hands(&mut self) -> (Result<bool, Failure>, Result<bool, Failure>) {
        assert_eq!(self.client.handshake(&[]), Ok(false));
        let hello = sent(&mut self.client);
        assert_eq!(hello[0], HANDSHAKE_BYTE);
        let first = self.server.handshake(&hello);
        let client = self.client.handshake(&sent(&mut self.server));
        let finished = sent(&mut self.client);
        (client, first.and_then(|_| self.server.handshake(&finished)))
    }
}

fn sent(stream: &mut Stream) -> Vec<u8> {
    stream.take_output(Vec::new())
}

/// Opens everything, into parts of these lengths.
fn open(stream: &mut Stream, input: &[u8], lens: [usize; 2]) -> Result<Vec<u8>, Failure> {
    let (mut plaintext, mut input) = (Vec::new(), input);
    loop {
        let [mut first, mut second] = lens.map(|len| vec![0; len]);
        let opened = stream.open(std::mem::take(&mut input), [&mut first, &mut second])?;
        let Opened::Bytes(len) = opened else { return Ok(plaintext) };
        first.append(&mut second);
        plaintext.extend_from_slice(&first[..len]);
        if !stream.holds_input() {
            return Ok(plaintext);
        }
    }
}

#[test]
fn both_suites_carry_bytes_in_both_directions() {
    for suite in SUITES {
        let Pair { mut client, mut server } = Pair::ready(suite);
        assert_eq!(&*server.identity().unwrap().bytes, identity(suite).0);
        let bytes: Vec<u8> = (0..=255).cycle().take(3 * RECORD_LEN + 5).collect();
        server.seal(&bytes).unwrap();
        assert_eq!(server.output().len(), bytes.len() + 4 * RECORD_OVERHEAD);
        assert_eq!(open(&mut client, &sent(&mut server), [7, 100]), Ok(bytes.clone()));
        client.seal(&bytes).unwrap();
        assert_eq!(open(&mut server, &sent(&mut client), [RECORD_LEN, 0]), Ok(bytes));
    }
}

#[test]
fn a_client_agrees_on_a_group_that_costs_little_or_on_none() {
    let shake_hands = |groups: &CStr| {
        let (identity, key) = identity(Suite::Aes128Sha256);
        let client = Client::with_groups(groups).connect(identity, key).unwrap();
        let server = Server::new(Arc::new(Keys)).unwrap().accept().unwrap();
        Pair { client, server }.shake_hands().1
    };
    for cheap in [c"X25519", c"P-256", c"P-256:ffdhe8192"] {
        assert_eq!(shake_hands(cheap), Ok(true), "{cheap:?}");
    }
    for dear in [c"P-384", c"P-521", c"X448", c"ffdhe2048", c"ffdhe8192"] {
        assert!(shake_hands(dear).is_err(), "{dear:?}");
    }
}

#[test]
fn no_ticket_follows_the_handshake() {
    for suite in SUITES {
        let Pair { mut client, mut server } = Pair::ready(suite);
        assert!(server.output().is_empty());
        server.seal(b"answer").unwrap();
        assert_eq!(server.output().len(), b"answer".len() + RECORD_OVERHEAD);
        assert_eq!(open(&mut client, &sent(&mut server), [16, 16]), Ok(b"answer".to_vec()));
    }
}

#[test]
fn a_client_with_another_key_is_refused() {
    for suite in SUITES {
        let mut pair = Pair::new(identity(suite).0, key(suite, 9));
        let (client, server) = pair.shake_hands();
        assert_eq!(server, Err(Failure::WrongKey));
        assert!(matches!(client, Err(Failure::Protocol(_))), "it learns that from an alert");
        assert!(pair.server.identity().unwrap().has_key);
    }
}

#[test]
fn a_client_with_an_unknown_identity_or_a_key_of_another_suite_is_refused() {
    let mut pair = Pair::new(b"c", key(Suite::Aes128Sha256, 1));
    let (client, server) = pair.shake_hands();
    assert_eq!(server, Err(Failure::NoKey));
    let offered = pair.server.identity().unwrap();
    assert_eq!((&*offered.bytes, offered.has_key), (&b"c"[..], false));
    let Err(Failure::Protocol(reason)) = client else { panic!("refused without a reason") };
    assert!(reason.to_string().contains("unknown psk identity"), "{reason}");
    assert_eq!((Failure::Protocol(reason).alert(), Failure::NoKey.alert()), (Some(115), None));

    let mut pair = Pair::new(b"a", key(Suite::Aes256Sha384, 1));
    assert!(pair.shake_hands().1.is_err());
}

#[test]
fn input_behind_the_handshake_is_not_lost() {
    let (identity, key) = identity(Suite::Aes128Sha256);
    let mut pair = Pair::new(identity, key);
    pair.client.handshake(&[]).unwrap();
    pair.server.handshake(&sent(&mut pair.client)).unwrap();
    assert_eq!(pair.client.handshake(&sent(&mut pair.server)), Ok(true));
    pair.client.seal(b"request").unwrap();
    assert_eq!(pair.server.handshake(&sent(&mut pair.client)), Ok(true));
    assert!(pair.server.holds_input());
    assert_eq!(open(&mut pair.server, &[], [3, 2]), Ok(b"request".to_vec()));
}

#[test]
fn the_end_of_a_connection_arrives_behind_its_bytes() {
    let Pair { mut client, mut server } = Pair::ready(Suite::Aes128Sha256);
    client.seal(b"last").unwrap();
    client.close();
    let input = sent(&mut client);
    let mut room = [0; 16];
    assert_eq!(server.open(&input, [&mut room, &mut []]), Ok(Opened::Bytes(4)));
    assert!(server.holds_input());
    assert_eq!(server.open(&[], [&mut room, &mut []]), Ok(Opened::Closed));
}

#[test]
fn a_changed_record_is_refused() {
    let Pair { mut client, mut server } = Pair::ready(Suite::Aes256Sha384);
    client.seal(b"request").unwrap();
    let mut input = sent(&mut client);
    input[7] ^= 1;
    assert!(open(&mut server, &input, [16, 16]).is_err());
    assert!(!server.output().is_empty(), "an alert");
}

#[test]
fn plaintext_before_the_handshake_is_refused() {
    let mut pair = Pair::new(b"a", key(Suite::Aes128Sha256, 1));
    assert!(pair.server.seal(b"early").is_err());
}

/// The ClientHello of a client that supports only TLS 1.2: the extensions are missing.
#[test]
fn a_client_of_an_older_version_is_refused() {
    let mut hello = vec![HANDSHAKE_BYTE, 3, 1, 0, 45, 1, 0, 0, 41, 3, 3];
    hello.extend_from_slice(&[7; 32]);
    hello.extend_from_slice(&[0, 0, 2, 0xC0, 0x2F, 1, 0]);
    let mut server = Server::new(Arc::new(Keys)).unwrap().accept().unwrap();
    assert!(server.handshake(&hello).is_err());
    assert!(server.identity().is_none());
}

proptest! {
    #[test]
    fn any_bytes_are_refused_or_wait_for_more(bytes: Vec<u8>, hello: bool, cut: u8) {
        let mut server = Server::new(Arc::new(Keys)).unwrap().accept().unwrap();
        let mut input = bytes;
        if hello {
            let (identity, key) = identity(Suite::Aes128Sha256);
            let mut client = Client::new().unwrap().connect(identity, key).unwrap();
            client.handshake(&[]).unwrap();
            let mut valid = sent(&mut client);
            valid.truncate(valid.len().saturating_sub(usize::from(cut)));
            valid.append(&mut input);
            input = valid;
        }
        let refused = server.handshake(&input);
        prop_assert!(refused.is_err() || refused == Ok(false));
    }

    #[test]
    fn segmentation_and_room_do_not_matter(
        len in 0..70_000_usize,
        cuts in prop::collection::vec(1..9000_usize, 1..20),
        lens in [1..20_000_usize, 0..20_000_usize],
    ) {
        let Pair { mut client, mut server } = Pair::ready(Suite::Aes128Sha256);
        let bytes: Vec<u8> = (0..=250).cycle().take(len).collect();
        client.seal(&bytes).unwrap();
        let (input, mut rest, mut opened) = (sent(&mut client), 0, Vec::new());
        for cut in cuts.iter().cycle() {
            let end = input.len().min(rest + cut);
            opened.append(&mut open(&mut server, &input[rest..end], lens).unwrap());
            rest = end;
            if rest == input.len() {
                break;
            }
        }
        prop_assert!(opened == bytes);
    }
}

/// A server that ignores the PSK and has a certificate proves nothing that the client knows.
#[test]
fn a_server_with_a_certificate_instead_of_the_key_is_refused() {
    let signed = rcgen::generate_simple_self_signed(["node".to_owned()]).unwrap();
    let key =
        rustls::pki_types::PrivateKeyDer::try_from(signed.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![signed.cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    for suite in SUITES {
        let mut server = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
        let (identity, key) = identity(suite);
        let mut client = Client::new().unwrap().connect(identity, key).unwrap();
        let mut input = Vec::new();
        let refused = loop {
            match client.handshake(&input) {
                Ok(true) => panic!("the client trusts a server without the key"),
                Ok(false) => {}
                Err(failure) => break failure,
            }
            server.read_tls(&mut &*client.take_output(Vec::new())).unwrap();
            server.process_new_packets().unwrap();
            input.clear();
            server.write_tls(&mut input).unwrap();
        };
        assert!(matches!(refused, Failure::Protocol(_) | Failure::NotProved), "{refused:?}");
    }
}

/// The key of every identity, which can be replaced.
#[derive(Debug)]
struct Replaced(std::sync::atomic::AtomicU8);

impl KeySource for Replaced {
    fn key(&self, _: &[u8]) -> Option<PskKey> {
        Some(key(Suite::Aes128Sha256, self.0.load(std::sync::atomic::Ordering::Relaxed)))
    }
}

#[test]
fn a_key_that_is_replaced_during_the_handshake_proves_nothing() {
    for replaced in [1, 2] {
        let source = Arc::new(Replaced(1.into()));
        let mut server = Server::new(Arc::<Replaced>::clone(&source) as Arc<dyn KeySource>)
            .unwrap()
            .accept()
            .unwrap();
        let client = Client::new().unwrap().connect(b"a", key(Suite::Aes128Sha256, 1));
        let mut client = client.unwrap();
        assert_eq!(client.handshake(&[]), Ok(false));
        assert_eq!(server.handshake(&client.take_output(Vec::new())), Ok(false));
        assert_eq!(client.handshake(&server.take_output(Vec::new())), Ok(true));
        source.0.store(replaced, std::sync::atomic::Ordering::Relaxed);
        let finished = server.handshake(&client.take_output(Vec::new()));
        assert_eq!(finished, if replaced == 1 { Ok(true) } else { Err(Failure::NoKey) });
    }
}

/// Encrypts or decrypts the first record of a direction with exported keys. RFC 8446, 5.2 and 5.3.
fn record_key(suite: Suite, keys: &DirectionKeys) -> (ring::aead::LessSafeKey, ring::aead::Nonce) {
    let algorithm = match suite {
        Suite::Aes128Sha256 => &ring::aead::AES_128_GCM,
        Suite::Aes256Sha384 => &ring::aead::AES_256_GCM,
    };
    let key = ring::aead::UnboundKey::new(algorithm, &keys.key).unwrap();
    (ring::aead::LessSafeKey::new(key), ring::aead::Nonce::assume_unique_for_key(*keys.iv))
}

#[test]
fn exported_keys_are_those_of_the_records_that_follow() {
    const DATA: u8 = 23;
    for suite in SUITES {
        let (identity, key) = identity(suite);
        let server = Server::new(Arc::new(Keys)).unwrap().exporting_keys().accept().unwrap();
        let client = Client::new().unwrap().connect(identity, key).unwrap();
        let mut pair = Pair { client, server };
        assert!(pair.server.take_traffic_keys().is_none());
        assert_eq!(pair.shake_hands(), (Ok(true), Ok(true)));
        let keys = pair.server.take_traffic_keys().unwrap();
        assert_eq!(keys.suite, suite);

        pair.client.seal(b"request").unwrap();
        let mut input = sent(&mut pair.client);
        let (header, record) = input.split_at_mut(5);
        let (key, nonce) = record_key(suite, &keys.receive);
        let opened = key.open_in_place(nonce, ring::aead::Aad::from(&header), record).unwrap();
        assert_eq!(opened, [&b"request"[..], &[DATA]].concat());

        let mut record = [&b"answer"[..], &[DATA]].concat();
        let header = [DATA, 3, 3, 0, 7 + 16];
        let (key, nonce) = record_key(suite, &keys.send);
        key.seal_in_place_append_tag(nonce, ring::aead::Aad::from(&header), &mut record).unwrap();
        let input = [&header[..], &record].concat();
        assert_eq!(open(&mut pair.client, &input, [16, 16]), Ok(b"answer".to_vec()));
    }
}

#[test]
fn keys_are_not_exported_once_a_record_was_received_or_sent_or_without_request() {
    let exporting = || Server::new(Arc::new(Keys)).unwrap().exporting_keys().accept().unwrap();
    let pair_of = |server| {
        let (identity, key) = identity(Suite::Aes128Sha256);
        Pair { client: Client::new().unwrap().connect(identity, key).unwrap(), server }
    };

    let mut sender = pair_of(exporting());
    assert_eq!(sender.shake_hands(), (Ok(true), Ok(true)));
    sender.server.seal(b"answer").unwrap();
    assert!(sender.server.take_traffic_keys().is_none());

    let mut early = pair_of(exporting());
    early.client.handshake(&[]).unwrap();
    early.server.handshake(&sent(&mut early.client)).unwrap();
    assert_eq!(early.client.handshake(&sent(&mut early.server)), Ok(true));
    early.client.seal(b"request").unwrap();
    assert_eq!(early.server.handshake(&sent(&mut early.client)), Ok(true));
    assert!(early.server.take_traffic_keys().is_none());
    assert_eq!(open(&mut early.server, &[], [16, 16]), Ok(b"request".to_vec()));

    assert!(Pair::ready(Suite::Aes128Sha256).server.take_traffic_keys().is_none());
}
