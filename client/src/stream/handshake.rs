//! The handshake of TLS with a pre-shared key, over a new socket.
//!
//! Spec: RFC 8446, 2.2 and 4. Invariant: the handshake ends at its deadline.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use nearflash_tls::{Client, Failure, HANDSHAKE_BYTE, PskKey, RECORD_LEN, StartError, Stream};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::span::span;

/// The longest time that a handshake may take, so that its end is a moment that clocks have.
const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The first byte of an alert. RFC 8446, 5.1.
const ALERT_BYTE: u8 = 0x15;

/// A pre-shared key, and the identity by which the other end finds it.
#[derive(Clone, Debug)]
pub(crate) struct TlsKey {
    pub(crate) identity: Vec<u8>,
    pub(crate) key: PskKey,
}

/// The reason why a socket does not speak TLS.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum TlsError {
    /// This program cannot use TLS.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The other end has refused the key, its identity or the handshake, by an alert.
    #[error("it refuses the handshake (alert {})", alert_name(*.alert))]
    Refused {
        /// The alert. RFC 8446, 6.
        alert: u8,
    },
    /// The first bytes of the other end are not those of TLS.
    #[error("it does not answer with TLS")]
    NoTls,
    /// The other end closed the connection without an alert.
    #[error("it closed the connection during the handshake")]
    Closed,
    /// The other end did not answer in time.
    #[error("no answer to the handshake within {}", span(.within))]
    Silent { within: Duration },
    /// The other end violated the protocol.
    #[error("the handshake failed: {0}")]
    Failed(Failure),
    /// The socket failed.
    #[error("the connection failed: {0}")]
    Socket(#[from] io::Error),
}

impl From<Errno> for TlsError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::PIPE | Errno::CONNRESET => Self::Closed,
            errno => Self::Socket(errno.into()),
        }
    }
}

impl From<Failure> for TlsError {
    fn from(failure: Failure) -> Self {
        failure.alert().map_or(Self::Failed(failure), |alert| Self::Refused { alert })
    }
}

#[cfg(feature = "nvme-tcp")]
impl TlsError {
    /// Whether a new connection may help.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self, Self::Closed | Self::Silent { .. } | Self::Socket(_))
    }
}

/// The alert's name and number. RFC 8446, 6.
fn alert_name(alert: u8) -> String {
    const NAMES: [(u8, &str); 7] = [
        (40, "handshake_failure"),
        (47, "illegal_parameter"),
        (50, "decode_error"),
        (51, "decrypt_error"),
        (70, "protocol_version"),
        (109, "missing_extension"),
        (115, "unknown_psk_identity"),
    ];
    let found = NAMES.iter().find(|(number, _)| *number == alert);
    found.map_or_else(|| alert.to_string(), |(number, name)| format!("{number}, {name}"))
}

/// Shakes hands over a connected, non-blocking socket.
///
/// # Errors
/// When the other end has no TLS, refuses the key, or does not answer within `timeout`.
pub(crate) fn connect_tls(
    socket: OwnedFd,
    tls: &TlsKey,
    timeout: Duration,
) -> Result<(OwnedFd, Box<Stream>), TlsError> {
    let mut stream = Client::new()?.connect(&tls.identity, tls.key.clone())?;
    let timeout = timeout.min(TIMEOUT_MAX);
    let peer = Peer { socket: &socket, end: Instant::now() + timeout, timeout };
    let (mut input, mut len) = (vec![0; RECORD_LEN], 0);
    let mut is_first = true;
    loop {
        let result = stream.handshake(&input[..len]);
        // After a failure, this is the alert.
        let sent = peer.send(&stream.take_output(Vec::new()));
        let is_over = result?;
        sent?;
        if is_over {
            return Ok((socket, Box::new(stream)));
        }
        len = peer.receive(&mut input)?;
        if is_first && ![HANDSHAKE_BYTE, ALERT_BYTE].contains(&input[0]) {
            return Err(TlsError::NoTls);
        }
        is_first = false;
    }
}

/// The other end, until a deadline.
struct Peer<'a> {
    socket: &'a OwnedFd,
    end: Instant,
    timeout: Duration,
}

impl Peer<'_> {
    fn send(&self, mut bytes: &[u8]) -> Result<(), TlsError> {
        while !bytes.is_empty() {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match send(self.socket, bytes, flags) {
                Ok(len) => bytes = &bytes[len..],
                Err(Errno::AGAIN | Errno::INTR) => self.wait(PollFlags::OUT)?,
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Receives at least one byte.
    fn receive(&self, input: &mut [u8]) -> Result<usize, TlsError> {
        loop {
            self.wait(PollFlags::IN)?;
            match recv(self.socket, &mut *input, RecvFlags::DONTWAIT).map(|(len, _)| len) {
                Ok(0) => return Err(TlsError::Closed),
                Ok(len) => return Ok(len),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Waits for the socket until the deadline.
    fn wait(&self, flags: PollFlags) -> Result<(), TlsError> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(TlsError::Silent { within: self.timeout });
        }
        let timeout = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        match poll(&mut [PollFd::new(self.socket, flags)], Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}
