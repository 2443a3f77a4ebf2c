//! HELLO and PROVE, from the client's side.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, IntoBytes};

use super::config::{Agreed, ClientConfig, ClientEvent};
use super::{ClientSession, State};
use crate::error::PeerError;
use crate::proof::{client_proof, is_node_proof};
use crate::wire::{
    AnswerHeader, CREDITS_MAX, Features, HelloAnswer, HelloRequest, LEN_MAX, Opcode, RequestHeader,
    SEGMENT_LEN_MAX, VERSION, key_len_max,
};
use nearflash_session::Posted;

/// The first message, and the features that it requests.
pub(super) fn hello(config: &ClientConfig) -> (Vec<u8>, u32) {
    let key = config.key.as_ref().map_or("", |(key, _)| key);
    let is_named = config.key.is_some();
    assert!(!is_named || !key.is_empty(), "a key has a name");
    let len_max = key_len_max(key.as_bytes());
    assert!(key.len() <= len_max, "a key's name has at most {len_max} bytes");
    let rings = if config.rings { Features::RINGS } else { 0 };
    let wanted = Features::of(config.digests) | Features::ZERO | Features::SEALS | rings;
    let payload = HelloRequest {
        magic: HelloRequest::MAGIC,
        version_min: U16::new(VERSION),
        version_max: U16::new(VERSION),
        features: Features(U32::new(wanted)),
        nonce: config.nonce,
    };
    let len = size_of::<HelloRequest>() + key.len();
    let header = RequestHeader {
        opcode: Opcode::HELLO.0,
        len: u32::try_from(len).expect("a short message").into(),
        ..RequestHeader::default()
    };
    ([header.as_bytes(), payload.as_bytes(), key.as_bytes()].concat(), wanted)
}

impl ClientSession {
    /// Handles the answer to HELLO, which has the agreed features and limits.
    pub(super) fn on_hello(
        &mut self,
        header: &AnswerHeader,
        payload: &[u8],
    ) -> Result<(), PeerError> {
        let State::AwaitingHello(said) = &mut self.state else {
            return Err(PeerError::Sequence(Opcode::HELLO));
        };
        let mut transcript = std::mem::take(said);
        transcript.extend_from_slice(header.as_bytes());
        transcript.extend_from_slice(payload);
        let (answer, _) =
            HelloAnswer::ref_from_prefix(payload).map_err(|_| refused(payload.len()))?;
        let agreed = self.read_answer(answer)?;
        self.posted = Posted::new(agreed.slots());
        self.credits = agreed.credits_max;
        self.stream.rules.digests = agreed.digests;
        self.agreed = Some(agreed);
        match (&self.key, answer.proof_wanted != 0) {
            (None, false) => self.become_ready(),
            (None, true) => return Err(PeerError::Unauthenticated),
            // A node that requests no proof gives none.
            (Some(_), false) => return Err(PeerError::Impostor),
            (Some((_, secret)), true) => {
                let proof = client_proof(secret, &transcript);
                self.state = State::AwaitingProof(transcript);
                self.push_message(Opcode::PROVE, 0, 0, &proof);
            }
        }
        Ok(())
    }

    /// The limits of the node, reduced to those of a session.
    fn read_answer(&self, answer: &HelloAnswer) -> Result<Agreed, PeerError> {
        let version = answer.version.get();
        if version != VERSION {
            return Err(PeerError::Version { min: version, max: version });
        }
        let (len_max, credits_max) = (answer.len_max.get(), answer.credits_max.get());
        let features = answer.features;
        let checks = [
            (features.0.get() & !self.wanted == 0, 4),
            ((1..=LEN_MAX).contains(&len_max), 8),
            (answer.segment_len_max.get() == SEGMENT_LEN_MAX, 12),
            ((1..=CREDITS_MAX).contains(&credits_max), 16),
        ];
        if let Some((_, offset)) = checks.iter().find(|(holds, _)| !holds) {
            return Err(refused(*offset));
        }
        Ok(Agreed {
            digests: features.digests(),
            rings: features.has(Features::RINGS),
            zero: features.has(Features::ZERO),
            seals: features.has(Features::SEALS),
            boot: answer.boot.get(),
            len_max,
            credits_max,
        })
    }

    /// The node's own proof.
    pub(super) fn on_prove(&mut self, payload: &[u8]) -> Result<(), PeerError> {
        let (State::AwaitingProof(transcript), Some((_, secret))) = (&self.state, &self.key) else {
            return Err(PeerError::Sequence(Opcode::PROVE));
        };
        if !is_node_proof(secret, transcript, payload) {
            return Err(PeerError::Impostor);
        }
        self.become_ready();
        Ok(())
    }

    fn become_ready(&mut self) {
        self.state = State::Ready;
        self.events.push_back(ClientEvent::Ready);
    }
}

fn refused(offset: usize) -> PeerError {
    let offset = u32::try_from(offset).expect("payload is small");
    PeerError::PayloadField { opcode: Opcode::HELLO, offset }
}
