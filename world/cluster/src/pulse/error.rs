//! The errors of pulses.

use std::io;

use nearflash_mirror::membership::wire::WireError;

/// Error: a pulse has ended, or has not begun.
#[derive(Debug, thiserror::Error)]
pub enum PulseError {
    /// The connection failed.
    #[error("{0}: check that the node runs, and that its address can be reached")]
    Io(#[from] io::Error),
    /// The other end's bytes are not those of a pulse to this node.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The other end did not answer in time.
    #[error("no answer within 2 s: check that the node runs, and that its address can be reached")]
    Late,
    /// The other end proved nothing in time.
    #[error("nothing valid has come within 2 s: let only the cluster's nodes reach this port")]
    Slow,
    /// Too many connections had proved nothing.
    #[error(
        "other connections took its place before it proved anything: let only the cluster's nodes reach this port"
    )]
    Crowded,
    /// The other end has ended the handshake.
    #[error("it has refused this node: its log has the reason")]
    Refused,
    /// It is not the newest pulse of its node.
    #[error("a newer pulse of that node is there")]
    Older,
    /// Too many nodes have sent pulses.
    #[error("pulses of {0} nodes have come, which is the limit: restart this node")]
    TooMany(usize),
    /// The other end takes no bytes.
    #[error("it takes no bytes")]
    Stalled,
    /// Too many messages wait for it.
    #[error("too many messages wait")]
    Full,
    /// The other end has ended the connection.
    #[error("it has ended the connection")]
    Ended,
    /// The acceptor sends after its answer.
    #[error("it sends on a connection on which it only receives: run one version of nearflash")]
    Talks,
    /// Nothing comes any more.
    #[error("nothing has come for 5 s: check the network, and that the node runs")]
    Silent,
    /// The connection ended inside a message.
    #[error("the connection ended inside a message")]
    Cut,
    /// The ends see different addresses.
    #[error(
        "the nodes see different addresses: remove the address translation or the proxy between them"
    )]
    Indirect,
    /// The first message is another one.
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
