//! The errors of pulses.

use std::io;

use nearflash_mirror::membership::wire::WireError;

/// Error: a pulse has ended, or has not begun.
#[derive(Debug, thiserror::Error)]
pub(super) enum PulseError {
    #[error("{0}: check that the node runs, and that its address can be reached")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error("no answer within 2 s: check that the node runs, and that its address can be reached")]
    Late,
    #[error("nothing valid has come within 2 s: let only the cluster's nodes reach this port")]
    Slow,
    #[error(
        "other connections took its place before it proved anything: let only the cluster's nodes reach this port"
    )]
    Crowded,
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
