//! HELLO and PROVE: the client's identity, and the agreed parameters.
//!
//! A client with an unknown key is asked for its proof like any other, and then refused, so that
//! nobody learns which keys exist. The same holds for a bearer, which the driver helps to check.

use nearflash_session::offset;
use nearflash_units::Nanos;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use super::handles::{Handles, Opener, Who};
use super::revoked::Revoked;
use super::slots::Slots;
use super::{PEER_HANDLES_MAX, State, TargetSession};
use crate::error::PeerError;
use crate::proof::{is_client_proof, node_proof};
use crate::secret::{SECRET_LEN, Secret};
use crate::wire::{
    BearerId, Features, HEADER_LEN, HelloAnswer, HelloRequest, Opcode, PROOF_LEN, RequestHeader,
    SEGMENT_LEN_MAX, Status, VERSION, key_len_max,
};

/// The HELLO of a client that has not yet proved its identity.
#[derive(Debug)]
pub(super) struct Hello {
    key: Box<str>,
    /// HELLO and its answer, as sent on the wire.
    transcript: Vec<u8>,
}

/// The proof of a client with a bearer. Its driver knows the node's time and the void keys.
#[derive(Debug)]
pub(super) struct Proving {
    header: RequestHeader,
    id: BearerId,
    transcript: Vec<u8>,
    proof: [u8; PROOF_LEN],
}

impl TargetSession {
    /// The first message: versions, features, limits.
    pub(super) fn on_hello(
        &mut self,
        header: &RequestHeader,
        payload: &[u8],
    ) -> Result<(), PeerError> {
        let (hello, key) =
            HelloRequest::ref_from_prefix(payload).map_err(|_| PeerError::NotDirect)?;
        if hello.magic != HelloRequest::MAGIC {
            return Err(PeerError::NotDirect);
        }
        let (min, max) = (hello.version_min.get(), hello.version_max.get());
        if !(min..=max).contains(&VERSION) {
            return Err(PeerError::Version { min, max });
        }
        if key.len() > key_len_max(key) {
            return Err(PeerError::HeaderField {
                opcode: Opcode::HELLO,
                offset: offset!(RequestHeader, len),
            });
        }
        // Bytes that are not valid UTF-8 cannot match any key id.
        let key_id: Box<str> = String::from_utf8_lossy(key).into();
        self.claimed_key = (!key.is_empty()).then(|| key_id.clone());
        if !self.is_proved_by_tls(key) {
            return Err(PeerError::OtherTlsKey);
        }
        let is_anonymous = key.is_empty();
        if is_anonymous && !self.admits_anonymous() {
            return Err(PeerError::Unauthenticated);
        }
        let boot = self.exports.boot_of(key);
        if boot.is_some() {
            self.handles = Handles::new(PEER_HANDLES_MAX.max(self.config.handles_max));
        }
        let boot = boot.unwrap_or(self.config.boot);
        let answer = self.hello_answer(hello.features, !is_anonymous, boot);
        let mut transcript = [header.as_bytes(), payload].concat();
        self.answer_session(header, Status::OK, 0, answer.as_bytes());
        transcript.extend_from_slice(self.output.last_bytes(HEADER_LEN + answer.as_bytes().len()));
        self.stream.rules.digests = answer.features.digests();
        if is_anonymous {
            self.let_in(Who::Anonymous);
        } else {
            self.state = State::AwaitingProof(Box::new(Hello { key: key_id, transcript }));
        }
        Ok(())
    }

    fn admits_anonymous(&self) -> bool {
        self.config.anonymous && self.exports.is_open()
    }

    fn hello_answer(&self, wanted: Features, proof_wanted: bool, boot: u64) -> HelloAnswer {
        let rings = if self.config.local { Features::RINGS } else { 0 };
        let offered = Features::of(self.config.digests) | Features::ZERO | Features::SEALS | rings;
        HelloAnswer {
            version: U16::new(VERSION),
            proof_wanted: u8::from(proof_wanted),
            reserved0: 0,
            features: Features(U32::new(wanted.0.get() & offered)),
            len_max: U32::new(self.config.len_max),
            segment_len_max: U32::new(SEGMENT_LEN_MAX),
            credits_max: U32::new(self.config.credits),
            handles_max: U32::new(self.handles.max().into()),
            boot: U64::new(boot),
            nonce: self.config.nonce,
        }
    }

    /// The client's proof, and ours in answer.
    pub(super) fn on_prove(
        &mut self,
        header: &RequestHeader,
        payload: &[u8],
    ) -> Result<(), PeerError> {
        let State::AwaitingProof(hello) = &self.state else {
            return Err(PeerError::Sequence(Opcode::PROVE));
        };
        let Hello { key, transcript } = &**hello;
        if let (Ok(id), Ok(proof)) = (key.parse(), <[u8; PROOF_LEN]>::try_from(payload)) {
            let transcript = transcript.clone();
            let proving = Proving { header: *header, id, transcript, proof };
            self.state = State::Proving(Box::new(proving));
            return Ok(());
        }
        let credential = self.exports.credential(key);
        // Refusing an unknown key takes as long as refusing a wrong proof.
        let nobody = Secret::new([0; SECRET_LEN]);
        let secret = credential.map_or(&nobody, |credential| &credential.secret);
        let is_proven = is_client_proof(secret, transcript, payload);
        let Some(credential) = credential.filter(|_| is_proven) else {
            return Err(PeerError::Unauthenticated);
        };
        if credential.expired {
            return Err(PeerError::CredentialExpired);
        }
        let proof = node_proof(secret, transcript);
        let who = Who::Key(key.clone(), credential.secret.clone());
        self.answer_session(header, Status::OK, 0, &proof);
        self.let_in(who);
        Ok(())
    }

    /// The proof of a client with a bearer, whose secret the node derives.
    pub(super) fn prove_bearer(
        &mut self,
        proving: Proving,
        revoked: &Revoked,
        now: Nanos,
    ) -> Result<(), PeerError> {
        let Proving { header, id, transcript, proof } = proving;
        let (key, minter) = self.seal_key_of(&id.minter, id.generation, id.volume, revoked);
        let secret = key.bearer_secret(&id);
        let is_proven = is_client_proof(&secret, &transcript, &proof);
        let minter = minter.filter(|_| is_proven).ok_or(PeerError::Unauthenticated)?;
        if minter.key().is_none() && !self.admits_anonymous() {
            return Err(PeerError::Unauthenticated);
        }
        revoked.check_bearer(&id, now)?;
        if !minter.is_admitted(&self.exports) {
            return Err(PeerError::CredentialExpired);
        }
        let proof = node_proof(&secret, &transcript);
        self.answer_session(&header, Status::OK, 0, &proof);
        self.let_in(Who::Bearer(Box::new(Opener { minter, volume: id.volume })));
        Ok(())
    }

    fn let_in(&mut self, who: Who) {
        self.handshake_until = None;
        self.slots = Slots::new(self.credits);
        self.ready.reserve(self.slots.count());
        self.state = State::Ready(who);
    }
}
