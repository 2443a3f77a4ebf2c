//! The bytes of a pulse: its handshake, and its messages.
//!
//! The opener sends a [`Hello`]. The acceptor answers with a nonce and its proof, the opener sends its
//! own. A proof is the HMAC-SHA256 under the secret of the cluster's nodes, over a label, the hello and
//! the acceptor's nonce. The labels differ, so that neither end's proof is valid as the other's, nor as
//! one of the direct protocol, which has the same secret.
//!
//! A message is its length, as four bytes, little-endian, and a [`Pulse`] in JSON. A length of zero is a
//! *beat*, which says nothing.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use uuid::Uuid;

use super::{NodeKey, Pulse};

const MAGIC: [u8; 8] = *b"nf-pulse";
const VERSION: u32 = 1;

/// The length of a nonce.
pub const NONCE_LEN: usize = 16;

/// The length of a [`Hello`].
pub const HELLO_LEN: usize = 120;

/// The length of a proof.
pub const PROOF_LEN: usize = 32;

/// The length of the acceptor's answer.
pub const ANSWER_LEN: usize = NONCE_LEN + PROOF_LEN;

/// The length of the number that precedes a message.
pub const PREFIX_LEN: usize = 4;

/// The longest message.
pub const MESSAGE_LEN_MAX: usize = 1 << 20;

/// A message that says nothing.
pub const BEAT: [u8; PREFIX_LEN] = [0; PREFIX_LEN];

/// Random bytes of one handshake.
pub type Nonce = [u8; NONCE_LEN];

/// Error: the bytes of the other end are not those of a pulse to this node.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The first bytes are something else.
    #[error("no pulse of nearflash comes from there: let only the cluster's nodes reach this port")]
    NotAPulse,
    /// It has another version.
    #[error(
        "it has version {0} of pulses, this node version {VERSION}: run one version of nearflash"
    )]
    Version(u32),
    /// It is of another cluster.
    #[error("it is of cluster {0}: correct its address, or join its machine to this cluster")]
    Cluster(Uuid),
    /// It is meant for another node.
    #[error("it expects node {0} at this node's address: correct the address of one of them")]
    Node(Uuid),
    /// It comes from the node that receives it.
    #[error("it has the identity of this node: no two nodes may use copies of one data directory")]
    Itself,
    /// Its proof is wrong.
    #[error("it does not know the cluster's secret: join its machine to the cluster again")]
    Secret,
    /// A message is too long.
    #[error(
        "a message of {0} bytes, and {MESSAGE_LEN_MAX} are allowed: run one version of nearflash"
    )]
    Oversize(usize),
    /// A message is not a [`Pulse`].
    #[error("a message is not valid ({0}): run one version of nearflash on all nodes")]
    Undecodable(#[from] serde_json::Error),
}

/// The opener's first bytes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Hello {
    /// The cluster of both nodes.
    pub cluster: Uuid,
    /// The opener's node.
    pub from: NodeKey,
    /// The acceptor's node.
    pub to: NodeKey,
    /// The number of the opener's process.
    pub run: u64,
    /// The opener's address and the acceptor's, as the opener sees them.
    pub addresses: (SocketAddr, SocketAddr),
    /// The opener's random bytes.
    pub nonce: Nonce,
}

impl Hello {
    /// Its bytes.
    ///
    /// # Panics
    /// Never: the length of the fields is fixed.
    pub fn encode(&self) -> [u8; HELLO_LEN] {
        let mut bytes = Vec::with_capacity(HELLO_LEN);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(self.cluster.as_bytes());
        bytes.extend(self.from);
        bytes.extend(self.to);
        bytes.extend(self.run.to_le_bytes());
        for address in [self.addresses.0, self.addresses.1] {
            let ip = match address.ip() {
                IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                IpAddr::V6(ip) => ip,
            };
            bytes.extend(ip.octets());
            bytes.extend(address.port().to_le_bytes());
        }
        bytes.extend(self.nonce);
        bytes.try_into().expect("the length of the fields is that of the hello")
    }

    /// The hello with these bytes.
    ///
    /// # Errors
    /// When they are not a hello of this version.
    pub fn decode(bytes: &[u8; HELLO_LEN]) -> Result<Self, WireError> {
        let bytes = &mut &bytes[..];
        if take(bytes) != MAGIC {
            return Err(WireError::NotAPulse);
        }
        let version = u32::from_le_bytes(take(bytes));
        if version != VERSION {
            return Err(WireError::Version(version));
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

    /// Checks that a node of this cluster may take it.
    ///
    /// # Errors
    /// When it may not.
    pub fn check(&self, cluster: Uuid, node: NodeKey) -> Result<(), WireError> {
        if self.cluster != cluster {
            return Err(WireError::Cluster(self.cluster));
        }
        if self.to != node {
            return Err(WireError::Node(Uuid::from_bytes(self.to)));
        }
        if self.from == node { Err(WireError::Itself) } else { Ok(()) }
    }

    /// Whether both ends see the same addresses. If not, something between them ends connections of
    /// its own accord.
    pub fn is_direct(&self, local: SocketAddr, peer: SocketAddr) -> bool {
        self.addresses == (canonical(peer), canonical(local))
    }
}

/// The address without what only one end knows.
pub fn canonical(address: SocketAddr) -> SocketAddr {
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
pub enum End {
    /// The node that connects.
    Opener,
    /// The node that listens.
    Acceptor,
}

/// The bytes that both ends prove to have seen, under the secret.
pub struct Transcript<'a> {
    /// The secret of the cluster's nodes.
    pub secret: &'a [u8; 32],
    /// The opener's hello.
    pub hello: &'a [u8; HELLO_LEN],
    /// The acceptor's nonce.
    pub nonce: Nonce,
}

impl Transcript<'_> {
    /// The proof of one end.
    ///
    /// # Panics
    /// Never: HMAC takes keys of any length.
    pub fn proof(&self, end: End) -> [u8; PROOF_LEN] {
        self.mac(end).finalize().into_bytes().into()
    }

    /// Checks the proof of the other end. Takes as long wherever the proofs differ.
    ///
    /// # Errors
    /// When it is wrong.
    ///
    /// # Panics
    /// Never: HMAC takes keys of any length.
    pub fn verify(&self, end: End, proof: &[u8; PROOF_LEN]) -> Result<(), WireError> {
        self.mac(end).verify_slice(proof).map_err(|_| WireError::Secret)
    }

    fn mac(&self, end: End) -> Hmac<Sha256> {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(self.secret).expect("HMAC takes keys of any length");
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
pub fn answer(transcript: &Transcript<'_>) -> [u8; ANSWER_LEN] {
    let mut bytes = [0; ANSWER_LEN];
    bytes[..NONCE_LEN].copy_from_slice(&transcript.nonce);
    bytes[NONCE_LEN..].copy_from_slice(&transcript.proof(End::Acceptor));
    bytes
}

/// The acceptor's nonce and its proof.
pub fn split_answer(answer: &[u8; ANSWER_LEN]) -> (Nonce, [u8; PROOF_LEN]) {
    let bytes = &mut &answer[..];
    (take(bytes), take(bytes))
}

/// A message, with its length in front.
///
/// # Errors
/// When it is too long.
pub fn encode(pulse: &Pulse) -> Result<Vec<u8>, WireError> {
    let mut bytes = vec![0; PREFIX_LEN];
    serde_json::to_writer(&mut bytes, pulse)?;
    let len = bytes.len() - PREFIX_LEN;
    let prefix = u32::try_from(checked(len)?).map_err(|_| WireError::Oversize(len))?;
    bytes[..PREFIX_LEN].copy_from_slice(&prefix.to_le_bytes());
    Ok(bytes)
}

/// The length of the message that follows.
///
/// # Errors
/// When it is too long.
pub fn decode_len(prefix: [u8; PREFIX_LEN]) -> Result<usize, WireError> {
    checked(usize::try_from(u32::from_le_bytes(prefix)).unwrap_or(usize::MAX))
}

/// The message of these bytes, which its length precedes. A beat has none.
///
/// # Errors
/// When they are not a message.
pub fn decode(message: &[u8]) -> Result<Option<Pulse>, WireError> {
    if message.is_empty() { Ok(None) } else { Ok(Some(serde_json::from_slice(message)?)) }
}

fn checked(len: usize) -> Result<usize, WireError> {
    if len > MESSAGE_LEN_MAX { Err(WireError::Oversize(len)) } else { Ok(len) }
}

#[cfg(test)]
mod tests {
    use nearflash_device::MirrorKey;
    use proptest::prelude::*;

    use super::super::{Element, Known, Question, Record, Token};
    use super::*;
    use crate::table::Term;

    fn hello() -> Hello {
        Hello {
            cluster: Uuid::from_u128(7),
            from: [1; 16],
            to: [2; 16],
            run: 5,
            addresses: ("127.0.0.1:1".parse().unwrap(), "[::1]:2".parse().unwrap()),
            nonce: [0; 16],
        }
    }

    fn ask(questions: usize) -> Pulse {
        let mirror = MirrorKey { volume: Uuid::from_bytes([255; 16]), number: 1 };
        let question = Question { mirror, term: Term(1), session: 1 };
        Pulse::Ask { sequence: 1, questions: vec![question; questions], heard: None }
    }

    #[test]
    fn a_length_or_a_message_over_the_bound_is_refused() {
        for len in [u32::MAX, (1 << 20) + 1] {
            assert!(matches!(decode_len(len.to_le_bytes()), Err(WireError::Oversize(_))));
        }
        assert_eq!(decode_len((1_u32 << 20).to_le_bytes()).unwrap(), 1 << 20);
        assert!(matches!(encode(&ask(20_000)), Err(WireError::Oversize(_))));
    }

    #[test]
    fn a_record_survives_the_way() {
        let element = Element { replica: 1, incarnation: u64::MAX };
        let (in_sync, kept_since, token) = (vec![element], Term(2), Token(u64::MAX));
        let record = Record { term: Term(3), primary: 1, in_sync, kept_since, token };
        let mirror = MirrorKey { volume: Uuid::from_bytes([255; 16]), number: u32::MAX };
        let pulse = Pulse::Tell(mirror, Known { record, revision: i64::MIN });
        let bytes = encode(&pulse).unwrap();
        assert_eq!(decode(&bytes[PREFIX_LEN..]).unwrap(), Some(pulse));
    }

    #[test]
    fn the_proof_of_one_end_is_not_that_of_the_other() {
        let bytes = hello().encode();
        let transcript = Transcript { secret: &[3; 32], hello: &bytes, nonce: [9; NONCE_LEN] };
        let (nonce, proof) = split_answer(&answer(&transcript));
        assert_eq!(nonce, [9; NONCE_LEN]);
        assert!(transcript.verify(End::Acceptor, &proof).is_ok());
        assert!(matches!(transcript.verify(End::Opener, &proof), Err(WireError::Secret)));
        let other = Transcript { secret: &[4; 32], ..transcript };
        assert!(matches!(other.verify(End::Acceptor, &proof), Err(WireError::Secret)));
    }

    #[test]
    fn only_a_hello_of_the_cluster_for_the_node_from_another_one_may_come_in() {
        let (cluster, node) = (hello().cluster, hello().to);
        assert!(hello().check(cluster, node).is_ok());
        let other = Uuid::from_u128(8);
        assert!(matches!(hello().check(other, node), Err(WireError::Cluster(it)) if it == cluster));
        assert!(matches!(hello().check(cluster, [3; 16]), Err(WireError::Node(_))));
        let own = Hello { from: node, ..hello() };
        assert!(matches!(own.check(cluster, node), Err(WireError::Itself)));
    }

    proptest! {
        #[test]
        fn a_hello_that_decodes_encodes_to_the_same_bytes(tail in any::<[[u8; 18]; 6]>()) {
            let mut bytes = hello().encode();
            bytes[12..].copy_from_slice(tail.as_flattened());
            let hello = Hello::decode(&bytes).unwrap();
            prop_assert_eq!(hello.encode(), bytes);
        }
    }
}
