//! The host's end of one transaction. NVMe Base 2.0, 8.13.5.

use zerocopy::IntoBytes;
use zerocopy::little_endian::U32;

use super::group::DhGroup;
use super::hash::{Digest, Hash};
use super::hosts::{HostKeys, Random};
use super::message::{
    Challenge, DHCHAP_PROTOCOL, Descriptor, Explanation, Failure, Header, Kind, LIST_LEN,
    NO_SECURE_CHANNEL, Negotiate, Reply, Success1, Success2, read,
};
use super::response::{Agreed, Challenged, Names, Prover};

/// The next step of the host.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Next {
    /// Sends this message, then receives the next one.
    Send(Vec<u8>),
    /// Nothing: the queue is authenticated.
    Done,
    /// Sends this last message; the queue is authenticated.
    SendLast(Vec<u8>),
}

/// The transaction has failed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum HostError {
    /// The controller has refused the host.
    #[error("the controller refused the host: {0}: check the host's key on both sides")]
    Refused(Explanation),
    /// The controller has not proved its key.
    #[error("the controller did not prove its key: check the controller's key on both sides")]
    NotProved,
    /// The message of the controller is not the next one, or not valid.
    #[error("the controller sent an invalid message")]
    Invalid,
}

impl HostError {
    /// The reason for the controller; `None` if it knows.
    fn explanation(self) -> Option<Explanation> {
        match self {
            Self::Refused(_) => None,
            Self::NotProved => Some(Explanation::FAILED),
            Self::Invalid => Some(Explanation::INCORRECT_PAYLOAD),
        }
    }
}

#[derive(Clone, Debug)]
enum State {
    AwaitingChallenge,
    /// With the response that the controller must send, if it was challenged.
    AwaitingSuccess1 {
        hash: Hash,
        expected: Option<Digest>,
    },
    Over,
}

/// The host's end of one transaction.
#[derive(Clone, Debug)]
pub struct HostEnd {
    names: Names,
    keys: HostKeys,
    transaction: u16,
    state: State,
}

impl HostEnd {
    /// A transaction with this number. The policy of the keys restricts what the host offers. With a key of
    /// the controller, the controller must authenticate, too.
    pub fn new(names: Names, keys: HostKeys, transaction: u16) -> Self {
        Self { names, keys, transaction, state: State::AwaitingChallenge }
    }

    /// The first message.
    pub fn negotiate(&self) -> Vec<u8> {
        let policy = self.keys.policy;
        let hashes = Hash::ALL.into_iter().filter(|it| policy.hash.is_none_or(|only| only == *it));
        let (hashes, hash_ids) = list(hashes.map(Hash::id));
        let groups =
            DhGroup::ALL.into_iter().filter(|it| policy.group.is_none_or(|only| only == *it));
        let (groups, group_ids) = list(groups.map(DhGroup::id));
        let head = Negotiate {
            header: Kind::NEGOTIATE.header(self.transaction),
            secure_channel: NO_SECURE_CHANNEL,
            descriptors: 1,
        };
        let protocol = DHCHAP_PROTOCOL;
        let offer = Descriptor { protocol, reserved: 0, hashes, groups, hash_ids, group_ids };
        [head.as_bytes(), offer.as_bytes()].concat()
    }

    /// Handles a message of the controller. With a group this takes milliseconds.
    ///
    /// # Errors
    /// If the transaction has failed.
    pub fn handle_message(&mut self, message: &[u8], random: &Random) -> Result<Next, HostError> {
        let (header, _) = read::<Header>(message).ok_or(HostError::Invalid)?;
        if header.kind == Kind::FAILURE1 {
            self.state = State::Over;
            let (failure, _) = read::<Failure>(message).ok_or(HostError::Invalid)?;
            return Err(HostError::Refused(Explanation(failure.explanation)));
        }
        if header.transaction.get() != self.transaction {
            return Err(HostError::Invalid);
        }
        match (std::mem::replace(&mut self.state, State::Over), header.kind) {
            (State::AwaitingChallenge, Kind::CHALLENGE) => self.reply(message, random),
            (State::AwaitingSuccess1 { hash, expected }, Kind::SUCCESS1) => {
                self.check_success(message, hash, expected.as_ref())
            }
            _ => Err(HostError::Invalid),
        }
    }

    /// AUTH_Failure2, which tells the controller of this error; `None` if the controller knows.
    pub fn failure(&self, error: HostError) -> Option<Vec<u8>> {
        let explanation = error.explanation()?;
        let failure = Failure::new(Kind::FAILURE2, self.transaction, explanation);
        Some(failure.as_bytes().to_vec())
    }

    fn reply(&mut self, message: &[u8], random: &Random) -> Result<Next, HostError> {
        let invalid = HostError::Invalid;
        let (challenge, mut values) = read::<Challenge>(message).ok_or(invalid)?;
        let policy = self.keys.policy;
        let hash = policy.hash_of(&[challenge.hash_id]).ok_or(invalid)?;
        let group = policy.group_of(&[challenge.group_id]).ok_or(invalid)?;
        if usize::from(challenge.hash_len) != hash.digest_len()
            || usize::from(challenge.value_len.get()) != group.value_len()
        {
            return Err(invalid);
        }
        let their_challenge = values.take(hash.digest_len()).ok_or(invalid)?;
        let their_public = values.take(group.value_len()).ok_or(invalid)?;
        let private = random.private_value();
        let public = group.public_value(&private);
        let secret = group.shared_secret(&private, their_public).ok_or(invalid)?;
        let agreed = Agreed { hash, secret: &secret };
        let (transaction, names) = (self.transaction, &self.names);
        let sequence = challenge.sequence.get();
        let challenged = Challenged { challenge: their_challenge, sequence, transaction };
        let key = self.keys.host().of_owner(&names.host);
        let response = agreed.response(Prover::Host, &key, challenged, names);
        let ours = random.challenge(hash);
        let sequence = random.sequence();
        let expected = self.keys.controller().map(|key| {
            let challenged = Challenged { challenge: ours.bytes(), sequence, transaction };
            agreed.response(Prover::Controller, &key.of_owner(&names.subsystem), challenged, names)
        });
        let head = Reply {
            header: Kind::REPLY.header(transaction),
            hash_len: challenge.hash_len,
            reserved: 0,
            challenge_valid: expected.is_some().into(),
            reserved2: 0,
            value_len: challenge.value_len,
            sequence: U32::new(if expected.is_some() { sequence } else { 0 }),
        };
        let none = Digest::new(&vec![0; hash.digest_len()]);
        let ours = if expected.is_some() { &ours } else { &none };
        let reply = [head.as_bytes(), response.bytes(), ours.bytes(), &public].concat();
        self.state = State::AwaitingSuccess1 { hash, expected };
        Ok(Next::Send(reply))
    }

    fn check_success(
        &self,
        message: &[u8],
        hash: Hash,
        expected: Option<&Digest>,
    ) -> Result<Next, HostError> {
        let (success, mut values) = read::<Success1>(message).ok_or(HostError::Invalid)?;
        let Some(expected) = expected else { return Ok(Next::Done) };
        if success.response_valid == 0 {
            return Err(HostError::NotProved);
        }
        let response = values.take(hash.digest_len()).ok_or(HostError::Invalid)?;
        if !expected.is(response) {
            return Err(HostError::NotProved);
        }
        let header = Kind::SUCCESS2.header(self.transaction);
        let last = Success2 { header, reserved: [0; 10] };
        Ok(Next::SendLast(last.as_bytes().to_vec()))
    }
}

/// The number of entries of a list, and the list.
fn list(ids: impl Iterator<Item = u8>) -> (u8, [u8; LIST_LEN]) {
    let mut list = [0; LIST_LEN];
    let mut count = 0;
    for (place, id) in list.iter_mut().zip(ids) {
        *place = id;
        count += 1;
    }
    (count, list)
}
