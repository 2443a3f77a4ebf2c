//! The target's side of authentication. RFC 7143, 12.1.

use std::sync::Arc;

use super::keys::Keys;
use crate::chap::{Account, Algorithm, Challenge, Response, Secret, decode, encode};
use crate::pdu::LoginStatus;
use crate::text::Outgoing;

/// The initiators that may log in.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Whether initiators may log in without authentication.
    pub is_open: bool,
    /// The accounts of initiators that authenticate by CHAP.
    pub accounts: Vec<Arc<Account>>,
}

impl Access {
    fn account(&self, user: &str) -> Option<&Arc<Account>> {
        self.accounts.iter().find(|account| account.initiator().user == user)
    }

    /// The first of the initiator's methods that is accepted.
    fn method(&self, list: &str) -> Option<Method> {
        list.split(',').find_map(|name| match name {
            "CHAP" if !self.accounts.is_empty() => Some(Method::Chap),
            "None" if self.is_open => Some(Method::None),
            _ => None,
        })
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Method {
    None,
    Chap,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    /// No method is agreed on.
    Begun,
    /// CHAP is agreed on; CHAP_A is next.
    AwaitingAlgorithm,
    /// The challenge was sent; CHAP_N and CHAP_R come next.
    Challenged(Algorithm),
    /// Authentication is complete: the initiator may log in.
    Over,
}

/// The target's side of one login's authentication.
#[derive(Debug)]
pub(super) struct Authenticator {
    state: State,
    challenge: Challenge,
    user: Option<String>,
    /// The user of CHAP_N, whether known or not.
    claimed_user: Option<String>,
}

const FAILURE: LoginStatus = LoginStatus::AUTHENTICATION_FAILURE;

impl Authenticator {
    pub(super) const fn new(challenge: Challenge) -> Self {
        Self { state: State::Begun, challenge, user: None, claimed_user: None }
    }

    /// Whether this initiator may enter the next stage.
    pub(super) fn is_over(&self, access: &Access) -> bool {
        match self.state {
            State::Over => true,
            // The initiator sent no AuthMethod.
            State::Begun => access.is_open,
            State::AwaitingAlgorithm | State::Challenged(_) => false,
        }
    }

    /// Whether an exchange is under way, which must end first.
    pub(super) const fn is_under_way(&self) -> bool {
        matches!(self.state, State::AwaitingAlgorithm | State::Challenged(_))
    }

    /// The user as which the initiator authenticated.
    pub(super) fn user(&self) -> Option<String> {
        self.user.clone()
    }

    /// The user as which the initiator wants to log in.
    pub(super) fn claimed_user(&self) -> Option<&str> {
        self.claimed_user.as_deref()
    }

    /// Handles the keys of one text, which must be the expected ones.
    pub(super) fn handle(
        &mut self,
        access: &Access,
        keys: &Keys<'_>,
        out: &mut Outgoing,
    ) -> Result<(), LoginStatus> {
        if keys.is_empty() {
            return Ok(());
        }
        if let Some(list) = keys.method {
            self.choose_method(access, list, out)?;
        }
        match self.state {
            State::AwaitingAlgorithm => self.send_challenge(keys, out),
            State::Challenged(algorithm) => self.check_response(access, algorithm, keys, out),
            State::Over if keys.is_method_only() => Ok(()),
            State::Begun | State::Over => Err(LoginStatus::INITIATOR_ERROR),
        }
    }

    fn choose_method(
        &mut self,
        access: &Access,
        list: &str,
        out: &mut Outgoing,
    ) -> Result<(), LoginStatus> {
        if self.state != State::Begun {
            return Err(LoginStatus::INITIATOR_ERROR);
        }
        let (state, name) = match access.method(list).ok_or(FAILURE)? {
            Method::None => (State::Over, "None"),
            Method::Chap => (State::AwaitingAlgorithm, "CHAP"),
        };
        self.state = state;
        out.push("AuthMethod", name);
        Ok(())
    }

    fn send_challenge(&mut self, keys: &Keys<'_>, out: &mut Outgoing) -> Result<(), LoginStatus> {
        let Some(list) = keys.algorithm else {
            // With the method alone, the algorithms come in the next request.
            return if keys.is_method_only() { Ok(()) } else { Err(FAILURE) };
        };
        let algorithm = Algorithm::strongest_of(list).ok_or(FAILURE)?;
        out.push("CHAP_A", algorithm.code());
        out.push("CHAP_I", &self.challenge.identifier.to_string());
        out.push("CHAP_C", &encode(self.challenge.bytes_for(algorithm)));
        self.state = State::Challenged(algorithm);
        Ok(())
    }

    fn check_response(
        &mut self,
        access: &Access,
        algorithm: Algorithm,
        keys: &Keys<'_>,
        out: &mut Outgoing,
    ) -> Result<(), LoginStatus> {
        self.claimed_user = keys.name.map(str::to_owned);
        let (user, response) = keys.name.zip(keys.response).ok_or(FAILURE)?;
        let response = decode(response).ok_or(FAILURE)?;
        let account = access.account(user);
        let Challenge { identifier, .. } = self.challenge;
        let challenge = self.challenge.bytes_for(algorithm);
        // Refusing an unknown user takes as long as refusing a known one.
        let nobody = nobody();
        let secret = account.map_or(&nobody, |account| &account.initiator().secret);
        let is_right = Response::new(algorithm, identifier, secret, challenge).is(&response);
        let account = account.filter(|_| is_right).ok_or(FAILURE)?;
        self.prove_target(account, algorithm, keys, out)?;
        self.user = Some(user.to_owned());
        self.state = State::Over;
        Ok(())
    }

    /// Answers the initiator's challenge, if there is one.
    fn prove_target(
        &self,
        account: &Account,
        algorithm: Algorithm,
        keys: &Keys<'_>,
        out: &mut Outgoing,
    ) -> Result<(), LoginStatus> {
        let (identifier, challenge) = match (keys.identifier, keys.challenge) {
            (None, None) => return Ok(()),
            (Some(identifier), Some(challenge)) => (identifier, challenge),
            _ => return Err(FAILURE),
        };
        let identifier: u8 = identifier.parse().map_err(|_| FAILURE)?;
        let challenge = decode(challenge).ok_or(FAILURE)?;
        // RFC 7143, 12.1.3: the initiator reflects this end's challenge.
        if challenge == self.challenge.bytes_for(algorithm) {
            return Err(FAILURE);
        }
        let credential = account.target().ok_or(FAILURE)?;
        let response = Response::new(algorithm, identifier, &credential.secret, &challenge);
        out.push("CHAP_N", &credential.user);
        out.push("CHAP_R", &encode(response.bytes()));
        Ok(())
    }
}

/// A secret of no user, for an equal running time.
fn nobody() -> Secret {
    Secret::new(vec![0; 16]).expect("16 bytes are a valid length of a secret")
}
