//! The bytes of a pulse: its handshake, and its messages.
//!
//! The opener sends a [`Hello`]. The acceptor answers with a nonce and its proof, the opener sends its
//! own. A proof is the HMAC-SHA256 under the secret of the cluster's nodes, over a label, the hello and
//! the acceptor's nonce. The labels differ, so that neither end's proof is valid as the other's, nor as
//! one of the direct protocol, which has the same secret.
//!
//! A message is its length, as four bytes, little-endian, and a [`Pulse`] in JSON. A length of zero is a
//! *beat*, which says nothing.

use std::io;
use std::net::{Ipv6Addr, SocketAddr};

use hmac::{Hmac, KeyInit, Mac};
use nearflash_access::Secret;
use nearflash_mirror::membership::{NodeKey, Pulse};
use rustix::rand::{GetRandomFlags, getrandom};
use sha2::Sha256;
use uuid::Uuid;

const MAGIC: [u8; 8] = *b"nf-pulse";
const VERSION: u32 = 1;
const NONCE_LEN: usize = 16;

pub(super) const HELLO_LEN: usize = 120;
pub(super) const PROOF_LEN: usize = 32;
pub(super) const ANSWER_LEN: usize = NONCE_LEN + PROOF_LEN;

/// The length of the number that precedes a message.
pub(super) const PREFIX_LEN: usize = 4;

/// The longest message.
pub(super) const MESSAGE_LEN_MAX: usize = 1 << 20;

/// A message that says nothing.
pub(super) const BEAT: [u8; PREFIX_LEN] = [0; PREFIX_LEN];

pub(super) type Nonce = [u8; NONCE_LEN];

/// Error: a pulse has ended, or has not begun.
#[derive(Debug, thiserror::Error)]
pub(super) enum PulseError {
    #[error("{0}: check that the node runs, and that its address can be reached")]
    Io(#[from] io::Error),
    #[error("no answer within 2 s: check that the node runs, and that its address can be reached")]
    Late,
    #[error("nothing valid has come within 2 s: let only the cluster's nodes reach this port")]
    Slow,
    #[error(
        "other connections took its place before it proved anything: let only the cluster's nodes reach this port"
    )]
    Crowded,
    #[error("no pulse of nearflash comes from there: let only the cluster's nodes reach this port")]
    NotAPulse,
    #[error(
        "it has version {0} of pulses, this node version {VERSION}: run one version of nearflash"
    )]
    Version(u32),
    #[error("it is of cluster {0}: correct its address, or join its machine to this cluster")]
    Cluster(Uuid),
    #[error("it expects node {0} at this node's address: correct the address of one of them")]
    Node(Uuid),
    #[error("it has the identity of this node: no two nodes may use copies of one data directory")]
    Itself,
    #[error("it does not know the cluster's secret: join its machine to the cluster again")]
    Secret,
    #[error("it has refused this node: its log has the reason")]
    Refused,
    #[error("a newer pulse of that node is there")]
    Older,
    #[error("pulses of {0} nodes have come, which is the limit: restart this node")]
    TooMany(usize),
    #[error("it takes no bytes")]
    Stalled,
    #[error("too many messages wait")]
    Full,
    #[error("it has ended the connection")]
    Ended,
    #[error("it sends on a connection on which it only receives: run one version of nearflash")]
    Talks,
    #[error("nothing has come for 5 s: check the network, and that the node runs")]
    Silent,
    #[error("the connection ended inside a message")]
    Cut,
    #[error(
        "a message of {0} bytes, and {MESSAGE_LEN_MAX} are allowed: run one version of nearflash"
    )]
    Oversize(usize),
    #[error("a message is not valid ({0}): run one version of nearflash on all nodes")]
    Undecodable(#[from] serde_json::Error),
    #[error(
        "the nodes see different addresses: remove the address translation or the proxy between them"
    )]
    Indirect,
    #[error("its first message is not the hello of its process: run one version of nearflash")]
    NoHello,
}

impl PulseError {
    /// The error of an end that waits for the other one's proof.
    pub(super) fn of_handshake(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => Self::Refused,
            _ => error.into(),
        }
    }
}

/// The opener's first bytes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Hello {
    pub(super) cluster: Uuid,
    pub(super) from: NodeKey,
    pub(super) to: NodeKey,
    pub(super) run: u64,
    /// The opener's address and the acceptor's, as the opener sees them.
    pub(super) addresses: (SocketAddr, SocketAddr),
    pub(super) nonce: Nonce,
}

impl Hello {
    pub(super) fn encode(&self) -> [u8; HELLO_LEN] {
        let mut bytes = Vec::with_capacity(HELLO_LEN);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(self.cluster.as_bytes());
        bytes.extend(self.from);
        bytes.extend(self.to);
        bytes.extend(self.run.to_le_bytes());
        for address in [self.addresses.0, self.addresses.1] {
            let ip = match address.ip() {
                std::net::IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                std::net::IpAddr::V6(ip) => ip,
            };
            bytes.extend(ip.octets());
            bytes.extend(address.port().to_le_bytes());
        }
        bytes.extend(self.nonce);
        bytes.try_into().expect("the length of the fields is that of the hello")
    }

    pub(super) fn decode(bytes: &[u8; HELLO_LEN]) -> Result<Self, PulseError> {
        let bytes = &mut &bytes[..];
        if take(bytes) != MAGIC {
            return Err(PulseError::NotAPulse);
        }
        let version = u32::from_le_bytes(take(bytes));
        if version != VERSION {
            return Err(PulseError::Version(version));
        }
        Ok(Self {
            cluster: Uuid::from_bytes(take(bytes)),
            from: take(bytes),
            to: take(bytes),
            run: u64::from_le_bytes(take(bytes)),
            addresses: (take_address(bytes), take_address(bytes)),
            nonce: take(bytes),
        })
    }

    /// Whether a node of this cluster may take it.
    pub(super) fn check(&self, cluster: Uuid, node: NodeKey) -> Result<(), PulseError> {
        if self.cluster != cluster {
            return Err(PulseError::Cluster(self.cluster));
        }
        if self.to != node {
            return Err(PulseError::Node(Uuid::from_bytes(self.to)));
        }
        if self.from == node { Err(PulseError::Itself) } else { Ok(()) }
    }

    /// Whether both ends see the same addresses. If not, something between them ends connections of
    /// its own accord.
    pub(super) fn is_direct(&self, local: SocketAddr, peer: SocketAddr) -> bool {
        self.addresses == (canonical(peer), canonical(local))
    }
}

/// The address without what only one end knows.
pub(super) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn take<const LEN: usize>(bytes: &mut &[u8]) -> [u8; LEN] {
    let (head, rest) = bytes.split_first_chunk().expect("the length of a hello is fixed");
    *bytes = rest;
    *head
}

fn take_address(bytes: &mut &[u8]) -> SocketAddr {
    let ip = Ipv6Addr::from(take::<16>(bytes));
    SocketAddr::new(ip.to_canonical(), u16::from_le_bytes(take(bytes)))
}

/// An end of a pulse, as the one that proves.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Opener,
    Acceptor,
}

/// The bytes that both ends prove to have seen, under the secret.
pub(super) struct Transcript<'a> {
    pub(super) secret: &'a Secret,
    pub(super) hello: &'a [u8; HELLO_LEN],
    pub(super) nonce: Nonce,
}

impl Transcript<'_> {
    pub(super) fn proof(&self, end: End) -> [u8; PROOF_LEN] {
        self.mac(end).finalize().into_bytes().into()
    }

    /// Takes as long wherever the proofs differ.
    pub(super) fn verify(&self, end: End, proof: &[u8; PROOF_LEN]) -> Result<(), PulseError> {
        self.mac(end).verify_slice(proof).map_err(|_| PulseError::Secret)
    }

    fn mac(&self, end: End) -> Hmac<Sha256> {
        let secret = self.secret.bytes();
        let mut mac =
            Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes keys of any length");
        mac.update(match end {
            End::Opener => b"nearflash pulse 1 opener".as_slice(),
            End::Acceptor => b"nearflash pulse 1 acceptor".as_slice(),
        });
        mac.update(self.hello);
        mac.update(&self.nonce);
        mac
    }
}

/// The acceptor's bytes: its nonce, and its proof.
pub(super) fn answer(transcript: &Transcript<'_>) -> [u8; ANSWER_LEN] {
    let mut bytes = [0; ANSWER_LEN];
    bytes[..NONCE_LEN].copy_from_slice(&transcript.nonce);
    bytes[NONCE_LEN..].copy_from_slice(&transcript.proof(End::Acceptor));
    bytes
}

/// The acceptor's nonce and its proof.
pub(super) fn split_answer(answer: &[u8; ANSWER_LEN]) -> (Nonce, [u8; PROOF_LEN]) {
    let bytes = &mut &answer[..];
    (take(bytes), take(bytes))
}

/// Random bytes.
pub(super) fn nonce() -> io::Result<Nonce> {
    let mut nonce = Nonce::default();
    // The kernel returns up to 256 bytes at once.
    let count = getrandom(&mut nonce, GetRandomFlags::empty())?;
    if count == nonce.len() { Ok(nonce) } else { Err(io::ErrorKind::WouldBlock.into()) }
}

/// A message, with its length in front.
pub(super) fn encode(pulse: &Pulse) -> Result<Vec<u8>, PulseError> {
    let mut bytes = vec![0; PREFIX_LEN];
    serde_json::to_writer(&mut bytes, pulse)?;
    let len = bytes.len() - PREFIX_LEN;
    let prefix = u32::try_from(checked(len)?).map_err(|_| PulseError::Oversize(len))?;
    bytes[..PREFIX_LEN].copy_from_slice(&prefix.to_le_bytes());
    Ok(bytes)
}

/// The length of the message that follows.
pub(super) fn decode_len(prefix: [u8; PREFIX_LEN]) -> Result<usize, PulseError> {
    checked(usize::try_from(u32::from_le_bytes(prefix)).unwrap_or(usize::MAX))
}

fn checked(len: usize) -> Result<usize, PulseError> {
    if len > MESSAGE_LEN_MAX { Err(PulseError::Oversize(len)) } else { Ok(len) }
}
