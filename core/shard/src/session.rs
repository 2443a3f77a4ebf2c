//! One interface to the sessions of all protocols.
//!
//! An enum, not a trait object: the branch on the protocol goes the same way for the whole life of
//! a connection, and calls on the request path need no second pointer.

use nearflash_direct::serving as direct;
use nearflash_iscsi::serving as iscsi;
use nearflash_nvme_tcp::serving as nvme_tcp;
use nearflash_request::{BufferId, Completion, Due, VolumeId};
use nearflash_session::{Outbox, Receiving, ServingEnd};
use nearflash_units::{ByteLen, Nanos};

/// The peer violated its protocol, or ended the connection as the protocol allows.
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
    /// Whether the peer has missed a deadline.
    pub fn is_silence(self) -> bool {
        self == Self::NvmeTcp(nearflash_nvme_tcp::PeerError::Silent)
            || self == Self::Direct(nearflash_direct::PeerError::Silent)
            || self == Self::Iscsi(nearflash_iscsi::PeerError::Silent)
    }

    /// Whether the authentication of an initiator failed.
    pub(crate) fn is_failed_proof(self) -> bool {
        let status = nearflash_iscsi::pdu::LoginStatus::AUTHENTICATION_FAILURE;
        self == Self::Iscsi(nearflash_iscsi::PeerError::Login(status))
    }

    /// Whether the peer ended the connection in an orderly way.
    pub fn is_goodbye(self) -> bool {
        let status = nearflash_direct::Status::OK;
        self == Self::Direct(nearflash_direct::PeerError::Goodbye(status))
    }
}

/// The node's end of a connection, in the protocol of its listener.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "lies in its connection, which has a box of its own")]
pub(crate) enum Session {
    NvmeTcp(nvme_tcp::TargetSession),
    Direct(direct::TargetSession),
    Iscsi(iscsi::TargetSession),
}

/// Calls the same method on the session of any protocol.
macro_rules! each {
    ($self:expr, $session:ident => $call:expr) => {
        match $self {
            Session::NvmeTcp($session) => $call,
            Session::Direct($session) => $call,
            Session::Iscsi($session) => $call,
        }
    };
}

/// Methods that call the same one of the session.
macro_rules! forward {
    ($(fn $name:ident(&$self:ident $(, $argument:ident: $type:ty)*) -> $result:ty;)*) => {
        $(
            #[inline]
            fn $name(&$self $(, $argument: $type)*) -> $result {
                each!($self, session => session.$name($($argument),*))
            }
        )*
    };
    ($(mut fn $name:ident(&mut $self:ident $(, $argument:ident: $type:ty)*) $(-> $result:ty)?;)*) => {
        $(
            #[inline]
            fn $name(&mut $self $(, $argument: $type)*) $(-> $result)? {
                each!($self, session => session.$name($($argument),*))
            }
        )*
    };
}

impl ServingEnd for Session {
    type PeerError = PeerError;

    #[inline]
    fn handle_input(&mut self, bytes: &[u8]) -> Result<usize, PeerError> {
        Ok(each!(self, session => session.handle_input(bytes)?))
    }

    fn handle_timeout(&mut self, now: Nanos) -> Result<(), PeerError> {
        each!(self, session => session.handle_timeout(now)?);
        Ok(())
    }

    forward! {
        fn receiving(&self) -> Receiving;
        fn awaits_data(&self) -> bool;
        fn wants(&self, due: Due) -> Option<ByteLen>;
        fn wants_buffer(&self) -> Option<ByteLen>;
        fn volume_of_want(&self, due: Due) -> Option<VolumeId>;
        fn wants_payload_bytes(&self) -> bool;
        fn asks_on(&self) -> bool;
        fn outbox(&self) -> &Outbox;
        fn is_closing(&self) -> bool;
    }

    forward! {
        mut fn handle_payload(&mut self, bytes: &[u8]);
        mut fn provide(&mut self, due: Due, buffer: BufferId);
        mut fn give_way(&mut self) -> bool;
        mut fn handle_completion(&mut self, done: Completion, payload: &[u8]);
        mut fn outbox_mut(&mut self) -> &mut Outbox;
        mut fn shut_down(&mut self);
        mut fn release_incoming(&mut self, released: &mut impl FnMut(BufferId));
        mut fn release_all(&mut self, released: &mut impl FnMut(BufferId));
    }
}

impl Session {
    pub(crate) fn nvme_tcp_mut(&mut self) -> Option<&mut nvme_tcp::TargetSession> {
        if let Self::NvmeTcp(session) = self { Some(session) } else { None }
    }

    pub(crate) fn direct(&self) -> Option<&direct::TargetSession> {
        if let Self::Direct(session) = self { Some(session) } else { None }
    }

    pub(crate) fn direct_mut(&mut self) -> Option<&mut direct::TargetSession> {
        if let Self::Direct(session) = self { Some(session) } else { None }
    }

    pub(crate) fn iscsi(&self) -> Option<&iscsi::TargetSession> {
        if let Self::Iscsi(session) = self { Some(session) } else { None }
    }

    pub(crate) fn iscsi_mut(&mut self) -> Option<&mut iscsi::TargetSession> {
        if let Self::Iscsi(session) = self { Some(session) } else { None }
    }

    /// The refusal that its peer is still to receive, because a failed login is answered late.
    pub(crate) fn delayed_refusal(&self) -> Option<PeerError> {
        self.iscsi().and_then(iscsi::TargetSession::delayed_refusal).map(PeerError::Iscsi)
    }

    /// Whether it can ever proceed without a buffer for the next payload of its stream.
    pub(crate) const fn may_give_way(&self) -> bool {
        matches!(self, Self::Iscsi(_))
    }

    /// Whether this connection may have unblocked other connections of the same session.
    #[inline]
    pub(crate) fn concerns_siblings(&mut self) -> bool {
        self.iscsi_mut().is_some_and(iscsi::TargetSession::concerns_siblings)
    }
}
