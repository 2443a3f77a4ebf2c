//! SEAL_KEY, OPEN_SEALED and REVOKE, and the seal keys of bearers.
//!
//! A session knows neither the time nor the seals that are void: its driver has both, and answers
//! [`Demand::Seals`] at once. A revocation concerns the sessions of all cores, so the driver answers
//! [`Demand::Revoke`] when no request that the seals allowed is under way on any of them. Meanwhile the
//! session takes further messages.

use nearflash_units::Nanos;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use super::handles::{Handle, Who};
use super::revoked::{KeyName, Revocation, Revoked, Void, seconds};
use super::volumes::open_answer;
use super::{Demand, ServingEnd, State, TargetSession};
use crate::error::PeerError;
use crate::wire::{
    NEW_HANDLE, Opcode, OpenAnswer, RequestHeader, RevokeRequest, Rights, Seal, SealKey,
    SealKeyAnswer, Status,
};

/// The most revocations of a session that are not answered; a further one is refused as BUSY.
pub const REVOCATIONS_MAX: usize = 64;

/// A message that the driver helps to answer at once.
#[derive(Debug)]
pub(super) enum Sealing {
    Key(RequestHeader, KeyName),
    Open(RequestHeader, Box<Seal>),
}

/// A demand to revoke seals on all cores.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RevokeDemand {
    /// The number that the answer names: [`TargetSession::handle_revoked`].
    pub number: u32,
    /// Which seals.
    pub revocation: Revocation,
}

/// The revocations of a session.
#[derive(Debug, Default)]
pub(super) struct Revocations {
    made: Vec<RevokeDemand>,
    unanswered: usize,
}

impl TargetSession {
    /// SEAL_KEY. Its handle is a volume's.
    pub(super) fn on_seal_key(&mut self, header: &RequestHeader) -> Result<(), PeerError> {
        match self.key_name(header) {
            Ok((name, rights, _)) if rights.has(Rights::WRITE) => {
                self.begin_sealing(Sealing::Key(*header, name));
            }
            Ok(_) => self.answer_session(header, Status::NOT_GRANTED, 0, &[]),
            Err(status) => self.answer_session(header, status, 0, &[]),
        }
        Ok(())
    }

    pub(super) fn on_open_sealed(
        &mut self,
        header: &RequestHeader,
        payload: &[u8],
    ) -> Result<(), PeerError> {
        let number = header.volume.get();
        let is_place = number == NEW_HANDLE || self.handles.get(number).is_some();
        match Seal::decode(payload) {
            Ok(seal) if is_place => self.begin_sealing(Sealing::Open(*header, Box::new(seal))),
            _ => self.answer_session(header, Status::INVALID_FIELD, 0, &[]),
        }
        Ok(())
    }

    /// REVOKE. Its handle is a volume's.
    pub(super) fn on_revoke(
        &mut self,
        header: &RequestHeader,
        payload: &[u8],
    ) -> Result<(), PeerError> {
        match self.revocation(header, payload) {
            Ok(revocation) => {
                let number = header.tag.get();
                self.revocations.unanswered += 1;
                self.revocations.made.push(RevokeDemand { number, revocation });
            }
            Err(status) => self.answer_session(header, status, 0, &[]),
        }
        Ok(())
    }

    fn revocation(&self, header: &RequestHeader, payload: &[u8]) -> Result<Revocation, Status> {
        let (key, _, volume) = self.key_name(header)?;
        let asked = RevokeRequest::read_from_bytes(payload).map_err(|_| Status::INVALID_FIELD)?;
        let (object, version) = (asked.object.get(), asked.version.get());
        let void = match asked.what.get() {
            _ if version == 0 => return Err(Status::INVALID_FIELD),
            RevokeRequest::OBJECT => Void::Object { object, version },
            RevokeRequest::KEYS if object == 0 => Void::Keys { generation: version },
            _ => return Err(Status::INVALID_FIELD),
        };
        if self.revocations.unanswered >= REVOCATIONS_MAX {
            return Err(Status::BUSY);
        }
        Ok(Revocation { key, volume, void })
    }

    /// The seal key of this client for the volume of a message.
    fn key_name(
        &self,
        header: &RequestHeader,
    ) -> Result<(KeyName, Rights, nearflash_request::VolumeId), Status> {
        if self.state.who().is_some_and(Who::is_bearer) {
            return Err(Status::NOT_GRANTED);
        }
        let handle = self.handles.get(header.volume.get()).ok_or(Status::NO_SUCH_VOLUME)?;
        let export = &handle.export;
        if !handle.is_volume() || export.face.is_some() || export.is_remote {
            return Err(Status::UNSUPPORTED);
        }
        let minter = self.key().unwrap_or_default().into();
        Ok((KeyName { minter, volume: export.uuid }, handle.rights(), export.volume))
    }

    fn begin_sealing(&mut self, sealing: Sealing) {
        let State::Ready(who) = std::mem::replace(&mut self.state, State::Closing) else {
            unreachable!("the dispatch has looked")
        };
        self.state = State::Sealing(who, sealing);
    }

    /// The demand about seals that the driver answers next.
    pub(super) fn seals_demand(&mut self) -> Option<Demand> {
        if let State::Sealing(..) | State::Proving(_) = self.state {
            return Some(Demand::Seals);
        }
        if self.revocations.made.is_empty() {
            return None;
        }
        Some(Demand::Revoke(self.revocations.made.remove(0)))
    }

    /// The answer to [`Demand::Seals`]: the seals that are void on this core.
    ///
    /// # Errors
    /// When a client with a bearer may not enter. The connection ends.
    ///
    /// # Panics
    /// When nothing about seals was demanded.
    pub fn handle_seals(&mut self, revoked: &mut Revoked, now: Nanos) -> Result<(), PeerError> {
        match std::mem::replace(&mut self.state, State::Closing) {
            State::Closing => Ok(()),
            State::Proving(proving) => {
                // It is undecided who the client is until `prove_bearer` says so.
                self.state = State::AwaitingHello;
                let proven = self.prove_bearer(*proving, revoked, now);
                proven.map_err(|error| self.terminate(error))
            }
            State::Sealing(who, sealing) => {
                self.state = State::Ready(who);
                self.answer_sealing(sealing, revoked, now);
                Ok(())
            }
            _ => panic!("seals come only when demanded"),
        }
    }

    fn answer_sealing(&mut self, sealing: Sealing, revoked: &mut Revoked, now: Nanos) {
        match sealing {
            Sealing::Key(header, name) => {
                let answer = SealKeyAnswer {
                    generation: U32::new(revoked.generation(&name)),
                    reserved: U32::new(0),
                    seconds: U64::new(seconds(now)),
                    salt: revoked.salt(),
                };
                self.answer_session(&header, Status::OK, 0, answer.as_bytes());
            }
            Sealing::Open(header, seal) => {
                match self.open_sealed(header.volume.get(), *seal, revoked, now) {
                    Ok((number, answer)) => {
                        let number = u64::from(number);
                        self.answer_session(&header, Status::OK, number, answer.as_bytes());
                    }
                    Err((status, value)) => self.answer_session(&header, status, value, &[]),
                }
            }
        }
    }

    fn open_sealed(
        &mut self,
        number: u16,
        seal: Seal,
        revoked: &mut Revoked,
        now: Nanos,
    ) -> Result<(u16, OpenAnswer), (Status, u64)> {
        let may_open = self.state.who().is_some_and(|who| who.opens(&seal));
        let minter = self.minter_of(&seal, revoked)?;
        if !may_open {
            return Err((Status::NOT_GRANTED, 0));
        }
        revoked.check(&seal, now)?;
        self.seals_opened = self.seals_opened.checked_add(1).ok_or((Status::BUSY, 0))?;
        let handle = Handle::open_sealed(seal, minter, &self.exports, self.seals_opened);
        let handle = handle.map_err(|status| (status, 0))?;
        let answer = open_answer(&handle);
        if number == NEW_HANDLE {
            let number = self.handles.insert(handle).ok_or((Status::BUSY, 0))?;
            return Ok((number, answer));
        }
        // Earlier requests on the handle are checked again.
        self.generation = self.generation.wrapping_add(1);
        self.handles.replace(number, handle);
        Ok((number, answer))
    }

    /// The client that has minted a seal. The refusal does not tell whether the key exists.
    fn minter_of(&self, seal: &Seal, revoked: &Revoked) -> Result<Who, (Status, u64)> {
        let (name, generation) = (seal.minter(), seal.generation());
        let (key, minter) = self.seal_key_of(name, generation, seal.volume(), revoked);
        let minter = minter.filter(|_| key.has_minted(seal));
        minter.ok_or((Status::NOT_GRANTED, 0))
    }

    /// A seal key, and its minter if there is one. The time does not depend on whether there is.
    pub(super) fn seal_key_of(
        &self,
        name: &str,
        generation: u32,
        volume: [u8; 16],
        revoked: &Revoked,
    ) -> (SealKey, Option<Who>) {
        self.exports.seal_key(name, generation, volume, revoked.salt())
    }

    /// Seals are void on this core. Requests that were handed out continue; those that have not begun
    /// are checked again. Returns whether it may have such requests.
    pub fn revoke(&mut self, revocation: &Revocation) -> bool {
        if !self.has_seals() {
            return false;
        }
        self.generation = self.generation.wrapping_add(1);
        self.handles.revoke(revocation);
        self.slots.in_use() > 0
    }

    /// Whether it has ever opened a seal.
    #[inline]
    pub const fn has_seals(&self) -> bool {
        self.seals_opened > 0
    }

    /// The answer to [`Demand::Revoke`]: on all cores, nothing that the seals allowed is under way, and
    /// no such seal can be opened; or why the revocation was refused.
    pub fn handle_revoked(&mut self, number: u32, result: Result<(), Status>) {
        self.revocations.unanswered -= 1;
        if self.is_closing() {
            return;
        }
        let opcode = Opcode::REVOKE.0;
        let asked = RequestHeader { opcode, tag: number.into(), ..RequestHeader::default() };
        self.answer_session(&asked, result.err().unwrap_or(Status::OK), 0, &[]);
    }
}
