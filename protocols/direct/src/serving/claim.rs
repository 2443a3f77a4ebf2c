//! CLAIM: a client has reconnected, and its earlier requests must not take effect after its new
//! ones.
//!
//! A session does not know the others. The driver ends those that claimed the same identity
//! earlier, and answers once none of their requests is in flight.

use super::{Demand, ServingEnd, State, TargetSession};
use crate::error::PeerError;
use crate::wire::{IDENTITY_LEN, Opcode, RequestHeader, Status};

/// An identity that a client has generated. It belongs to the client's key, so it ends no
/// connection of another key. Clients with bearers of a key end none of the minter. The last connection that claims it replaces the earlier ones.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct ClientIdentity {
    key: Option<Box<str>>,
    identity: [u8; IDENTITY_LEN],
}

impl ClientIdentity {
    /// The identity of a key's holder, or of an anonymous client.
    pub fn new(key: Option<&str>, identity: [u8; IDENTITY_LEN]) -> Self {
        Self { key: key.map(Into::into), identity }
    }
}

/// The state of a session's claim.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Claim {
    /// No claim has come.
    None,
    /// The claim is to be handed out.
    Made([u8; IDENTITY_LEN]),
    HandedOut,
}

impl TargetSession {
    /// CLAIM. No other message is taken until it is answered.
    pub(super) fn on_claim(
        &mut self,
        header: &RequestHeader,
        payload: &[u8],
    ) -> Result<(), PeerError> {
        let Ok(identity) = <[u8; IDENTITY_LEN]>::try_from(payload) else {
            self.answer_session(header, Status::INVALID_FIELD, 0, &[]);
            return Ok(());
        };
        if self.claim != Claim::None || self.handles.is_any_open() {
            return Err(PeerError::Sequence(Opcode::CLAIM));
        }
        let State::Ready(who) = std::mem::replace(&mut self.state, State::Closing) else {
            unreachable!("the dispatch has looked")
        };
        self.state = State::Claiming(who, header.tag.get());
        self.claim = Claim::Made(identity);
        Ok(())
    }

    /// The claim that is to be handed out.
    pub(super) fn claim_demand(&mut self) -> Option<Demand> {
        let (State::Claiming(who, _), Claim::Made(identity)) = (&self.state, self.claim) else {
            return None;
        };
        let identity = ClientIdentity::new(who.name_in_claims().as_deref(), identity);
        self.claim = Claim::HandedOut;
        Some(Demand::Claim(identity))
    }

    /// The answer to [`Demand::Claim`]: no request of the earlier connections is under way any
    /// more.
    ///
    /// # Panics
    /// When no claim was demanded.
    pub fn handle_claimed(&mut self) {
        if self.is_closing() {
            return;
        }
        let State::Claiming(who, tag) = std::mem::replace(&mut self.state, State::Closing) else {
            panic!("a claim is answered only when demanded")
        };
        self.state = State::Ready(who);
        let opcode = Opcode::CLAIM.0;
        let asked = RequestHeader { opcode, tag: tag.into(), ..RequestHeader::default() };
        self.answer_session(&asked, Status::OK, 0, &[]);
    }
}
