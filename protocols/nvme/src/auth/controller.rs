//! The controller's end of the authentications of one queue. NVMe Base 2.0, 8.13.5.
//!
//! A message that is not the next one, or is not valid, fails the transaction: the next message to the host is
//! AUTH_Failure1. A host begins a new transaction with AUTH_Negotiate at any time. A queue that is
//! authenticated remains so until a transaction fails.

use zerocopy::IntoBytes;
use zerocopy::little_endian::U32;

use super::group::{DhGroup, PrivateValue};
use super::hash::{Digest, Hash};
use super::hosts::{HostKeys, Random};
use super::key::Key;
use super::message::{
    Challenge, DHCHAP_PROTOCOL, Descriptor, Explanation, Failure, Header, Kind, NO_SECURE_CHANNEL,
    Negotiate, Reply, Success1, read,
};
use super::response::{Agreed, Challenged, Names, Prover};
use crate::Status;

/// The progress of a transaction.
#[derive(Clone, Debug)]
enum State {
    /// None has begun, or the last one is over.
    Idle,
    /// The host has not fetched the challenge yet.
    Challenging(Box<Sent>),
    /// The host has the challenge.
    AwaitingReply(Box<Sent>),
    /// The host has proved its key and has not fetched the answer yet.
    Succeeding { transaction: u16, hash_len: u8, response: Option<Digest>, uses_previous: bool },
    /// The host checks the controller's response.
    AwaitingSuccess2 { transaction: u16 },
    /// The host has not fetched the failure yet.
    Failing { transaction: u16, explanation: Explanation },
}

/// The parameters of a challenge.
#[derive(Clone, Debug)]
struct Sent {
    transaction: u16,
    hash: Hash,
    group: DhGroup,
    private: PrivateValue,
    public: Vec<u8>,
    challenge: Digest,
    sequence: u32,
}

/// The controller's end of the authentications of one queue.
#[derive(Clone, Debug)]
pub struct ControllerEnd {
    state: State,
    is_authenticated: bool,
    /// The transactions that have begun since the host proved its key last.
    unproved: u8,
}

/// The most transactions of a queue that begin without a proof: each one costs the node milliseconds.
const UNPROVED_MAX: u8 = 4;

impl Default for ControllerEnd {
    fn default() -> Self {
        Self { state: State::Idle, is_authenticated: false, unproved: 0 }
    }
}

impl ControllerEnd {
    /// Whether the host has authenticated, and no later transaction has failed.
    pub fn is_authenticated(&self) -> bool {
        self.is_authenticated
    }

    /// Why the current transaction failed, until the host has fetched the reason.
    pub fn failure(&self) -> Option<Explanation> {
        match self.state {
            State::Failing { explanation, .. } => Some(explanation),
            _ => None,
        }
    }

    /// Whether the last message has proved that the host knows its key.
    pub fn has_proof(&self) -> bool {
        matches!(self.state, State::Succeeding { .. })
    }

    /// Whether the key of that proof is the previous one, which a new key has replaced.
    pub fn has_previous_key(&self) -> bool {
        matches!(self.state, State::Succeeding { uses_previous: true, .. })
    }

    /// Handles a message of the host. `keys` are the host's, if it has any. With a group this takes
    /// milliseconds.
    pub fn handle_message(
        &mut self,
        message: &[u8],
        names: &Names,
        keys: Option<&HostKeys>,
        random: &Random,
    ) {
        let Some((header, _)) = read::<Header>(message) else {
            return self.fail(0, Explanation::INCORRECT_PAYLOAD);
        };
        let transaction = header.transaction.get();
        let state = std::mem::replace(&mut self.state, State::Idle);
        let handled = match (state, header.kind) {
            (_, Kind::NEGOTIATE) if self.unproved >= UNPROVED_MAX => Err(Explanation::FAILED),
            (_, Kind::NEGOTIATE) => {
                self.unproved += 1;
                challenge(message, keys, random)
            }
            (State::AwaitingReply(sent), Kind::REPLY) if sent.transaction == transaction => {
                check_reply(message, &sent, names, keys)
            }
            (State::AwaitingReply(_), Kind::REPLY) => Err(Explanation::INCORRECT_PAYLOAD),
            (State::AwaitingSuccess2 { transaction: ours }, Kind::SUCCESS2) => {
                match ours == transaction {
                    true => {
                        self.note_proof();
                        Ok(State::Idle)
                    }
                    false => Err(Explanation::INCORRECT_PAYLOAD),
                }
            }
            // The host does not accept the controller.
            (State::AwaitingSuccess2 { .. } | State::AwaitingReply(_), Kind::FAILURE2) => {
                self.is_authenticated = false;
                Ok(State::Idle)
            }
            _ => Err(Explanation::INCORRECT_MESSAGE),
        };
        match handled {
            Ok(state) => self.state = state,
            Err(explanation) => self.fail(transaction, explanation),
        }
    }

    fn note_proof(&mut self) {
        self.is_authenticated = true;
        self.unproved = 0;
    }

    fn fail(&mut self, transaction: u16, explanation: Explanation) {
        self.is_authenticated = false;
        self.state = State::Failing { transaction, explanation };
    }

    /// The next message for the host, at most `len` bytes. Without one, it is a failure.
    ///
    /// # Errors
    /// If the message is longer. The host can fetch it again.
    pub fn next_message(&mut self, len: usize) -> Result<Vec<u8>, Status> {
        let message = self.message();
        if message.len() > len {
            return Err(Status::INVALID_FIELD.dnr());
        }
        self.state = match std::mem::replace(&mut self.state, State::Idle) {
            State::Challenging(sent) => State::AwaitingReply(sent),
            State::Succeeding { transaction, response: Some(_), .. } => {
                State::AwaitingSuccess2 { transaction }
            }
            State::Succeeding { response: None, .. } => {
                self.note_proof();
                State::Idle
            }
            State::Idle | State::Failing { .. } => State::Idle,
            State::AwaitingReply(_) | State::AwaitingSuccess2 { .. } => {
                self.is_authenticated = false;
                State::Idle
            }
        };
        Ok(message)
    }

    fn message(&self) -> Vec<u8> {
        match &self.state {
            State::Challenging(sent) => sent.message(),
            State::Succeeding { transaction, hash_len, response, .. } => {
                success(*transaction, *hash_len, response.as_ref())
            }
            State::Failing { transaction, explanation } => failure(*transaction, *explanation),
            State::Idle => failure(0, Explanation::INCORRECT_MESSAGE),
            State::AwaitingReply(sent) => failure(sent.transaction, Explanation::INCORRECT_MESSAGE),
            State::AwaitingSuccess2 { transaction } => {
                failure(*transaction, Explanation::INCORRECT_MESSAGE)
            }
        }
    }
}

impl Sent {
    fn message(&self) -> Vec<u8> {
        let head = Challenge {
            header: Kind::CHALLENGE.header(self.transaction),
            hash_len: digest_len(self.hash),
            reserved: 0,
            hash_id: self.hash.id(),
            group_id: self.group.id(),
            value_len: u16::try_from(self.public.len()).expect("at most 1024 bytes").into(),
            sequence: U32::new(self.sequence),
        };
        [head.as_bytes(), self.challenge.bytes(), &self.public].concat()
    }
}

fn success(transaction: u16, hash_len: u8, response: Option<&Digest>) -> Vec<u8> {
    let head = Success1 {
        header: Kind::SUCCESS1.header(transaction),
        hash_len,
        reserved: 0,
        response_valid: response.is_some().into(),
        reserved2: [0; 7],
    };
    [head.as_bytes(), response.map_or(&[], Digest::bytes)].concat()
}

fn failure(transaction: u16, explanation: Explanation) -> Vec<u8> {
    Failure::new(Kind::FAILURE1, transaction, explanation).as_bytes().to_vec()
}

fn digest_len(hash: Hash) -> u8 {
    hash.digest_len().try_into().expect("at most 64 bytes")
}

/// AUTH_Negotiate: selects a hash and a group of those that the host offers.
fn challenge(
    message: &[u8],
    keys: Option<&HostKeys>,
    random: &Random,
) -> Result<State, Explanation> {
    let (negotiate, mut values) =
        read::<Negotiate>(message).ok_or(Explanation::INCORRECT_PAYLOAD)?;
    if negotiate.secure_channel != NO_SECURE_CHANNEL {
        return Err(Explanation::SECURE_CHANNEL_MISMATCH);
    }
    let len = usize::from(negotiate.descriptors) * size_of::<Descriptor>();
    let descriptors = values.take(len).ok_or(Explanation::INCORRECT_PAYLOAD)?;
    let descriptors = descriptors.chunks_exact(size_of::<Descriptor>());
    let mut descriptors = descriptors.filter_map(|bytes| read::<Descriptor>(bytes)).map(|it| it.0);
    let offer = descriptors.find(|it| it.protocol == DHCHAP_PROTOCOL);
    let offer = offer.ok_or(Explanation::PROTOCOL_NOT_USABLE)?;
    let policy = keys.map(|keys| keys.policy).unwrap_or_default();
    let hash = policy.hash_of(offer.hash_ids()).ok_or(Explanation::HASH_NOT_USABLE)?;
    let group = policy.group_of(offer.group_ids()).ok_or(Explanation::GROUP_NOT_USABLE)?;
    let private = random.private_value();
    Ok(State::Challenging(Box::new(Sent {
        transaction: negotiate.header.transaction.get(),
        hash,
        group,
        public: group.public_value(&private),
        private,
        challenge: random.challenge(hash),
        sequence: random.sequence(),
    })))
}

/// DH-HMAC-CHAP_Reply: checks the host's response, and answers the host's challenge.
fn check_reply(
    message: &[u8],
    sent: &Sent,
    names: &Names,
    keys: Option<&HostKeys>,
) -> Result<State, Explanation> {
    let short = Explanation::INCORRECT_PAYLOAD;
    let (reply, mut values) = read::<Reply>(message).ok_or(short)?;
    let has_lengths = reply.hash_len == digest_len(sent.hash)
        && usize::from(reply.value_len.get()) == sent.group.value_len();
    if !has_lengths || reply.challenge_valid > 1 {
        return Err(short);
    }
    let response = values.take(sent.hash.digest_len()).ok_or(short)?;
    let their_challenge = values.take(sent.hash.digest_len()).ok_or(short)?;
    let public = values.take(sent.group.value_len()).ok_or(short)?;
    let keys = keys.ok_or(Explanation::FAILED)?;
    let secret = sent.group.shared_secret(&sent.private, public).ok_or(short)?;
    let agreed = Agreed { hash: sent.hash, secret: &secret };
    let transaction = sent.transaction;
    let challenged =
        Challenged { challenge: sent.challenge.bytes(), sequence: sent.sequence, transaction };
    let is_right = |key: &Key| {
        let key = key.of_owner(&names.host);
        agreed.response(Prover::Host, &key, challenged, names).is(response)
    };
    let uses_previous = match keys.previous() {
        _ if is_right(keys.host()) => false,
        Some(previous) if is_right(&previous.key) => true,
        _ => return Err(Explanation::FAILED),
    };
    let hash_len = digest_len(sent.hash);
    if reply.challenge_valid == 0 {
        return Ok(State::Succeeding { transaction, hash_len, response: None, uses_previous });
    }
    // A host that returns the controller's own challenge wants it to compute somebody's response.
    if sent.challenge.is(their_challenge) {
        return Err(Explanation::FAILED);
    }
    let key = keys.controller().ok_or(Explanation::FAILED)?.of_owner(&names.subsystem);
    let sequence = reply.sequence.get();
    let challenged = Challenged { challenge: their_challenge, sequence, transaction };
    let response = Some(agreed.response(Prover::Controller, &key, challenged, names));
    Ok(State::Succeeding { transaction, hash_len, response, uses_previous })
}
