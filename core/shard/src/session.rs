//! One face over the sessions of all doors.
//!
//! Which door it is, is a branch that goes the same way for all of a connection's life. What is
//! asked for each request of a connection is looked up once for it, not once more behind a pointer.

use std::sync::Arc;

use nearflash_direct::serving as direct;
use nearflash_iscsi::serving as iscsi;
use nearflash_nvme_tcp::serving as nvme_tcp;
use nearflash_request::{BufferId, Completion};
use nearflash_session::Receiving;
use nearflash_units::{ByteLen, Nanos};

use crate::world::{Sent, SocketId, World};

/// The peer broke its protocol, or ended the connection by it.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PeerError {
    /// A host, over NVMe/TCP.
    #[error(transparent)]
    NvmeTcp(#[from] nearflash_nvme_tcp::PeerError),
    /// A client, over direct.
    #[error(transparent)]
    Direct(#[from] nearflash_direct::PeerError),
    /// An initiator, over iSCSI.
    #[error(transparent)]
    Iscsi(#[from] nearflash_iscsi::PeerError),
}

impl PeerError {
    /// Whether it did not say in time what it wants.
    pub fn is_silence(self) -> bool {
        self == Self::NvmeTcp(nearflash_nvme_tcp::PeerError::Silent)
            || self == Self::Direct(nearflash_direct::PeerError::Silent)
            || self == Self::Iscsi(nearflash_iscsi::PeerError::Silent)
    }

    /// Whether an initiator did not prove who it is.
    pub(crate) fn is_failed_proof(self) -> bool {
        let status = nearflash_iscsi::login::LoginStatus::AUTHENTICATION_FAILURE;
        self == Self::Iscsi(nearflash_iscsi::PeerError::Login(status))
    }

    /// Whether it ended the connection in good order.
    pub fn is_goodbye(self) -> bool {
        let status = nearflash_direct::Status::OK;
        self == Self::Direct(nearflash_direct::PeerError::Goodbye { status })
    }
}

/// Our end of a connection, in the protocol of its door.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "lies in its connection, which has a box of its own")]
pub(crate) enum Session {
    NvmeTcp(nvme_tcp::TargetSession),
    Direct(direct::TargetSession),
    Iscsi(iscsi::TargetSession),
}

/// The same call on whichever session it is.
macro_rules! either {
    ($self:expr, $session:ident => $call:expr) => {
        match $self {
            Session::NvmeTcp($session) => $call,
            Session::Direct($session) => $call,
            Session::Iscsi($session) => $call,
        }
    };
}

impl Session {
    /// The session of a host. Only hosts become what has one.
    pub(crate) fn nvme_tcp_mut(&mut self) -> Option<&mut nvme_tcp::TargetSession> {
        match self {
            Self::NvmeTcp(session) => Some(session),
            Self::Direct(_) | Self::Iscsi(_) => None,
        }
    }

    pub(crate) fn direct(&self) -> Option<&direct::TargetSession> {
        match self {
            Self::Direct(session) => Some(session),
            Self::NvmeTcp(_) | Self::Iscsi(_) => None,
        }
    }

    pub(crate) fn direct_mut(&mut self) -> Option<&mut direct::TargetSession> {
        match self {
            Self::Direct(session) => Some(session),
            Self::NvmeTcp(_) | Self::Iscsi(_) => None,
        }
    }

    pub(crate) fn iscsi(&self) -> Option<&iscsi::TargetSession> {
        match self {
            Self::Iscsi(session) => Some(session),
            Self::NvmeTcp(_) | Self::Direct(_) => None,
        }
    }

    pub(crate) fn iscsi_mut(&mut self) -> Option<&mut iscsi::TargetSession> {
        match self {
            Self::Iscsi(session) => Some(session),
            Self::NvmeTcp(_) | Self::Direct(_) => None,
        }
    }

    /// Whether other connections of the same session may go on because of what this one did.
    #[inline]
    pub(crate) fn stirs(&mut self) -> bool {
        match self {
            Self::Iscsi(session) => session.stirs(),
            Self::NvmeTcp(_) | Self::Direct(_) => false,
        }
    }

    /// Whether an answer has made it ask for something: the next piece of what goes piece by piece,
    /// or what waited until commands were answered.
    #[inline]
    pub(crate) fn asks_on(&self) -> bool {
        match self {
            Self::Iscsi(session) => session.asks_on(),
            Self::NvmeTcp(_) | Self::Direct(_) => false,
        }
    }

    #[inline]
    pub(crate) fn receiving(&self) -> Receiving {
        either!(self, session => session.receiving())
    }

    #[inline]
    pub(crate) fn handle_input(&mut self, bytes: &[u8]) -> Result<usize, PeerError> {
        Ok(either!(self, session => session.handle_input(bytes)?))
    }

    #[inline]
    pub(crate) fn handle_payload(&mut self, bytes: &[u8]) {
        either!(self, session => session.handle_payload(bytes));
    }

    #[inline]
    pub(crate) fn wants_buffer(&self) -> Option<ByteLen> {
        either!(self, session => session.wants_buffer())
    }

    #[inline]
    pub(crate) fn stands_still(&self) -> bool {
        either!(self, session => session.stands_still())
    }

    /// There is no buffer for what is next in its stream: whether it makes do without.
    #[cold]
    pub(crate) fn give_way(&mut self) -> bool {
        match self {
            Self::Iscsi(session) => session.give_way(),
            Self::NvmeTcp(_) | Self::Direct(_) => false,
        }
    }

    #[inline]
    pub(crate) fn provide_buffer(&mut self, buffer: BufferId) {
        either!(self, session => session.provide_buffer(buffer));
    }

    pub(crate) fn awaits_data(&self) -> bool {
        either!(self, session => session.awaits_data())
    }

    #[inline]
    pub(crate) fn wants_payload_bytes(&self) -> bool {
        either!(self, session => session.wants_payload_bytes())
    }

    #[inline]
    pub(crate) fn handle_completion(&mut self, done: Completion, payload: &[u8]) {
        either!(self, session => session.handle_completion(done, payload));
    }

    #[inline]
    pub(crate) fn output_len(&self) -> usize {
        either!(self, session => session.output_len())
    }

    /// Sends what there is to send.
    #[inline]
    pub(crate) fn send<W: World>(&self, socket: SocketId, world: &mut W) -> Sent {
        either!(self, session => world.send(socket, session.output()))
    }

    #[inline]
    pub(crate) fn advance_output(&mut self, sent: usize, released: &mut impl FnMut(BufferId)) {
        either!(self, session => session.advance_output(sent, released));
    }

    pub(crate) fn handle_timeout(&mut self, now: Nanos) -> Result<(), PeerError> {
        either!(self, session => session.handle_timeout(now)?);
        Ok(())
    }

    #[inline]
    pub(crate) fn is_closing(&self) -> bool {
        either!(self, session => session.is_closing())
    }

    /// Ends a session that is in good order because this end goes down. Whether there is something
    /// to send about it: a host is told nothing.
    pub(crate) fn say_goodbye(&mut self) -> bool {
        match self {
            Self::Direct(session) if !session.is_closing() => {
                session.terminate(nearflash_direct::PeerError::ShuttingDown);
                session.output_len() > 0
            }
            Self::Iscsi(session) if !session.is_closing() => {
                session.shut_down();
                session.output_len() > 0
            }
            Self::Direct(_) | Self::NvmeTcp(_) | Self::Iscsi(_) => false,
        }
    }

    pub(crate) fn release_incoming(&mut self, released: &mut impl FnMut(BufferId)) {
        either!(self, session => session.release_incoming(released));
    }

    pub(crate) fn release_all(&mut self, released: &mut impl FnMut(BufferId)) {
        either!(self, session => session.release_all(released));
    }

    /// Volumes or grants of direct clients changed. Whether it concerns this session.
    pub(crate) fn set_exports(&mut self, exports: &Arc<direct::Exports>) -> bool {
        let session = self.direct_mut();
        let concerned = session.is_some();
        session.into_iter().for_each(|session| session.set_exports(Arc::clone(exports)));
        concerned
    }
}
