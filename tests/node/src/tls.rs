//! Hosts and clients with TLS: a host or client without it, and an end of TLS between it and the node.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use nearflash_direct::{self as direct, Secret};
use nearflash_nvme::Nqn;
use nearflash_nvme::auth::Hash;
use nearflash_nvme::tls::{self, Derivation, Psk, PskIdentity, Version};
use nearflash_tls::{Client, Failure, Opened, PskKey, Stream, Suite};

use crate::Place;

/// A PSK of these bytes, for SHA-256.
///
/// # Panics
/// Never: the length is that of the hash.
pub fn psk(byte: u8) -> Psk {
    Psk::new(Some(Hash::Sha256), &[byte; 32]).expect("32 bytes are a PSK")
}

/// Writes a PSK into a file. Returns its path.
///
/// # Panics
/// If the file cannot be written.
pub fn psk_file(place: &Place, name: &str, psk: &Psk) -> String {
    let file = place.text(name);
    std::fs::write(&file, psk.to_text().as_bytes()).expect("the place can be written");
    file
}

/// The PSK of a host, and the names that its identity has.
#[derive(Clone, Debug)]
pub struct TlsIdentity {
    /// The PSK.
    pub psk: Psk,
    /// The derivation.
    pub derivation: Derivation,
    /// The identity's version.
    pub version: Version,
    /// The host.
    pub host: Nqn,
    /// The subsystem.
    pub subsystem: Nqn,
}

impl TlsIdentity {
    /// The identity as the host sends it.
    ///
    /// # Panics
    /// If the names are too long.
    pub fn identity(&self) -> PskIdentity {
        let Self { psk, derivation, version, host, subsystem } = self;
        psk.identity(*derivation, *version, host, subsystem).expect("the names are short")
    }

    fn key(&self) -> PskKey {
        let key = self.psk.tls_key(self.derivation, &self.identity());
        let suite = match self.psk.suite() {
            tls::Suite::Aes128Sha256 => Suite::Aes128Sha256,
            tls::Suite::Aes256Sha384 => Suite::Aes256Sha384,
        };
        PskKey::new(suite, key.expect("the identity is that of the PSK").bytes())
    }

    /// Connects to the node and shakes hands.
    ///
    /// # Errors
    /// If the node refuses.
    ///
    /// # Panics
    /// If the node cannot be reached.
    pub fn connect(&self, node: SocketAddr) -> Result<(TcpStream, Stream), Failure> {
        shake_hands(node, &self.identity().to_string(), self.key())
    }
}

/// Connects to the node and shakes hands as a direct client with this key and secret.
///
/// # Errors
/// If the node refuses.
///
/// # Panics
/// If the node cannot be reached.
pub fn shake_hands_as_client(
    node: SocketAddr,
    key: &str,
    secret: [u8; 32],
) -> Result<(TcpStream, Stream), Failure> {
    let identity = direct::TlsIdentity::of(key).expect("the key has a short name");
    let psk = identity.tls_key(&Secret::new(secret));
    shake_hands(node, &identity.to_string(), PskKey::new(Suite::Aes128Sha256, psk.bytes()))
}

fn shake_hands(
    node: SocketAddr,
    identity: &str,
    key: PskKey,
) -> Result<(TcpStream, Stream), Failure> {
    let mut socket = TcpStream::connect(node).expect("the node listens");
    socket.set_nodelay(true).expect("it is a TCP connection");
    let client = Client::new().expect("the test has OpenSSL");
    let stream = client.connect(identity.as_bytes(), key);
    let mut stream = stream.expect("the test has memory");
    let mut input = vec![0; 16 * 1024];
    let mut len = 0;
    loop {
        let result = stream.handshake(&input[..len]);
        // The node may have closed the connection.
        let _ = socket.write_all(&stream.take_output(Vec::new()));
        if result? {
            return Ok((socket, stream));
        }
        len = socket.read(&mut input).unwrap_or_default();
        assert!(len > 0, "the node closed the connection without an alert");
    }
}

/// An address for hosts and clients without TLS, whose connections continue to the node with TLS.
#[derive(Debug)]
pub struct TlsProxy {
    address: SocketAddr,
}

impl TlsProxy {
    /// An address whose connections have this identity at the node.
    ///
    /// # Panics
    /// If the system has no port or thread left.
    pub fn start(node: SocketAddr, identity: TlsIdentity) -> Self {
        Self::start_with(move || identity.connect(node))
    }

    /// The same, for direct clients: whose connections have this key and secret at the node.
    ///
    /// # Panics
    /// If the system has no port or thread left.
    pub fn for_clients(node: SocketAddr, key: &'static str, secret: [u8; 32]) -> Self {
        Self::start_with(move || shake_hands_as_client(node, key, secret))
    }

    fn start_with(
        connect: impl Fn() -> Result<(TcpStream, Stream), Failure> + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("the system has a free port");
        let address = listener.local_addr().expect("it is bound");
        // The thread ends with the test's process.
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                // A connection that the node refuses is closed.
                if let Ok((far, stream)) = connect() {
                    carry(near, far, stream);
                }
            }
        });
        Self { address }
    }

    /// The address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Carries both directions of a connection, each in a thread of its own.
fn carry(near: TcpStream, far: TcpStream, stream: Stream) {
    near.set_nodelay(true).expect("it is a TCP connection");
    let stream = Arc::new(Mutex::new(stream));
    let other = Arc::clone(&stream);
    let copy = |socket: &TcpStream| socket.try_clone().expect("the system has descriptors");
    let (from_near, to_far) = (copy(&near), copy(&far));
    thread::spawn(move || to_node(from_near, to_far, &stream));
    thread::spawn(move || to_host(far, near, &other));
}

fn to_node(mut near: TcpStream, mut far: TcpStream, stream: &Mutex<Stream>) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(len @ 1..) = near.read(&mut bytes) {
        let sealed = {
            let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
            stream.seal(&bytes[..len]).map(|()| stream.take_output(Vec::new()))
        };
        if !sealed.is_ok_and(|sealed| far.write_all(&sealed).is_ok()) {
            break;
        }
    }
    let _ = far.shutdown(Shutdown::Write);
}

fn to_host(mut far: TcpStream, mut near: TcpStream, stream: &Mutex<Stream>) {
    let (mut input, mut bytes) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    let (mut len, mut is_open) = (0, true);
    while is_open {
        let (opened, holds_input) = {
            let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
            (stream.open(&input[..len], [&mut bytes, &mut []]), stream.holds_input())
        };
        len = 0;
        let Ok(Opened::Bytes(opened)) = opened else { break };
        is_open = near.write_all(&bytes[..opened]).is_ok();
        if is_open && !holds_input {
            len = far.read(&mut input).unwrap_or_default();
            is_open = len > 0;
        }
    }
    let _ = near.shutdown(Shutdown::Both);
    let _ = far.shutdown(Shutdown::Both);
}
