//! The initiator's side of authentication. RFC 7143, 12.1.

use std::sync::Arc;

use super::keys::Keys;
use crate::chap::{Account, Algorithm, Challenge, Response, decode, encode};
use crate::error::PeerError;
use crate::pdu::LoginStatus;
use crate::text::Outgoing;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    /// AuthMethod is offered.
    Offered,
    /// CHAP_A is offered.
    AwaitingChallenge,
    /// The target's challenge is answered; the target must prove itself, too.
    AwaitingProof(Algorithm),
    /// Nothing is left to do.
    Over,
}

/// The initiator's side of one login's authentication.
#[derive(Debug)]
pub(super) struct Prover {
    account: Option<Arc<Account>>,
    /// The challenge that the target must answer in mutual CHAP.
    challenge: Challenge,
    state: State,
}

const FAILURE: PeerError = PeerError::Login(LoginStatus::AUTHENTICATION_FAILURE);

impl Prover {
    pub(super) fn begin(
        account: Option<Arc<Account>>,
        challenge: Challenge,
        out: &mut Outgoing,
    ) -> Self {
        // With one-way CHAP, the initiator also accepts a target that asks for no authentication.
        let methods = match &account {
            None => "None",
            Some(account) if account.target().is_none() => "CHAP,None",
            Some(_) => "CHAP",
        };
        out.push("AuthMethod", methods);
        let state = if account.is_some() { State::Offered } else { State::Over };
        Self { account, challenge, state }
    }

    /// Whether this end has sent all its keys before the next stage.
    pub(super) const fn has_said_all(&self) -> bool {
        matches!(self.state, State::Over | State::AwaitingProof(_))
    }

    /// Whether the target must prove itself too.
    fn is_mutual(&self) -> bool {
        self.account.as_ref().is_some_and(|account| account.target().is_some())
    }

    /// Whether both ends have given the required proofs.
    pub(super) fn is_over(&self) -> bool {
        self.state == State::Over
    }

    pub(super) fn handle(&mut self, keys: &Keys<'_>, out: &mut Outgoing) -> Result<(), PeerError> {
        match (self.state, keys) {
            (State::Offered, Keys { method: Some("CHAP"), .. }) => {
                out.push("CHAP_A", Algorithm::OFFER);
                self.state = State::AwaitingChallenge;
                Ok(())
            }
            (State::Offered, Keys { method: Some("None"), .. }) if !self.is_mutual() => {
                self.state = State::Over;
                Ok(())
            }
            (State::Offered, Keys { method: Some(_), .. }) => Err(FAILURE),
            (State::AwaitingChallenge, Keys { algorithm: Some(algorithm), .. }) => {
                self.answer(algorithm, keys, out)
            }
            (State::AwaitingProof(algorithm), Keys { response: Some(response), .. }) => {
                self.check_target(algorithm, keys.name, response)
            }
            (State::Over, Keys { method: Some("None") | None, .. }) => Ok(()),
            (State::Over, _) => Err(FAILURE),
            (State::Offered | State::AwaitingChallenge | State::AwaitingProof(_), _) => Ok(()),
        }
    }

    fn answer(
        &mut self,
        algorithm: &str,
        keys: &Keys<'_>,
        out: &mut Outgoing,
    ) -> Result<(), PeerError> {
        let algorithm = Algorithm::of(algorithm).ok_or(FAILURE)?;
        let identifier = keys.identifier.and_then(|text| text.parse::<u8>().ok());
        let challenge = keys.challenge.and_then(decode);
        let (identifier, challenge) = identifier.zip(challenge).ok_or(FAILURE)?;
        let own_challenge = self.challenge.bytes_for(algorithm);
        let account = self.account.as_ref().ok_or(FAILURE)?;
        let initiator = account.initiator();
        let response = Response::new(algorithm, identifier, &initiator.secret, &challenge);
        out.push("CHAP_N", &initiator.user);
        out.push("CHAP_R", &encode(response.bytes()));
        self.state = State::Over;
        if account.target().is_some() {
            // RFC 7143, 12.1.3: two equal challenges would have equal answers.
            if challenge == own_challenge {
                return Err(PeerError::Impostor);
            }
            out.push("CHAP_I", &self.challenge.identifier.to_string());
            out.push("CHAP_C", &encode(own_challenge));
            self.state = State::AwaitingProof(algorithm);
        }
        Ok(())
    }

    fn check_target(
        &mut self,
        algorithm: Algorithm,
        name: Option<&str>,
        response: &str,
    ) -> Result<(), PeerError> {
        let credential = self.account.as_ref().and_then(|account| account.target());
        let credential = credential.ok_or(PeerError::Impostor)?;
        let received = decode(response).ok_or(PeerError::Impostor)?;
        let Challenge { identifier, .. } = self.challenge;
        let challenge = self.challenge.bytes_for(algorithm);
        let right = Response::new(algorithm, identifier, &credential.secret, challenge);
        if name == Some(&credential.user) && right.is(&received) {
            self.state = State::Over;
            return Ok(());
        }
        Err(PeerError::Impostor)
    }
}
