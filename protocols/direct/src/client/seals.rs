//! Seals: the key to mint them, handles by them, and their end.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use super::ClientSession;
use super::config::{GrantedKey, SubmitError, VolumeHandle, VolumeInfo};
use super::volumes::Asked;
use crate::error::PeerError;
use crate::wire::{
    AnswerHeader, NEW_HANDLE, Opcode, RevokeRequest, Seal, SealKey, SealKeyAnswer, Status,
};

/// Which seals of a minter for a volume become void.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Void {
    /// Those of an object below a version.
    Object {
        /// The object's number.
        object: u64,
        /// The lowest version that stays valid. Not 0.
        version: u32,
    },
    /// All that were minted under keys of older generations.
    Keys {
        /// The lowest generation that stays valid. Not 0.
        generation: u32,
    },
}

impl ClientSession {
    /// Requests the key under which this client mints seals for a volume that it may write.
    /// [`super::ClientEvent::SealKey`] will have the returned number.
    ///
    /// # Errors
    /// When the session is not connected, the volume not open, or the node is older than seals.
    pub fn seal_key(&mut self, volume: VolumeHandle) -> Result<u32, SubmitError> {
        self.check_seals()?;
        let uuid = self.volumes.get(volume).ok_or(SubmitError::NotOpen)?.uuid;
        self.ask(Opcode::SEAL_KEY, volume.0, &[], Asked::SealKey { volume: uuid })
    }

    /// Opens a sealed object, under a new handle or in place of `into`. [`super::ClientEvent::Opened`] will
    /// have the returned number.
    ///
    /// # Errors
    /// When the session is not connected, the handle not open, or the node is older than seals.
    pub fn open_sealed(
        &mut self,
        seal: &Seal,
        into: Option<VolumeHandle>,
    ) -> Result<u32, SubmitError> {
        self.check_seals()?;
        if into.is_some_and(|handle| self.volumes.get(handle).is_none()) {
            return Err(SubmitError::NotOpen);
        }
        let place = into.map_or(NEW_HANDLE, |handle| handle.0);
        self.ask(Opcode::OPEN_SEALED, place, &seal.encode(), Asked::OpenSealed { into })
    }

    /// Revokes seals that this client's key has minted for a volume. [`super::ClientEvent::Revoked`] will have
    /// the returned number.
    ///
    /// # Errors
    /// When the session is not connected, the volume not open, or the node is older than seals.
    pub fn revoke(&mut self, volume: VolumeHandle, void: Void) -> Result<u32, SubmitError> {
        self.check_seals()?;
        self.volumes.get(volume).ok_or(SubmitError::NotOpen)?;
        let (object, version, what) = match void {
            Void::Object { object, version } => (object, version, RevokeRequest::OBJECT),
            Void::Keys { generation } => (0, generation, RevokeRequest::KEYS),
        };
        let request = RevokeRequest {
            object: U64::new(object),
            version: U32::new(version),
            what: U32::new(what),
        };
        self.ask(Opcode::REVOKE, volume.0, request.as_bytes(), Asked::Revoke)
    }

    fn check_seals(&self) -> Result<(), SubmitError> {
        match self.agreed {
            Some(agreed) if agreed.seals => Ok(()),
            Some(_) => Err(SubmitError::NotAgreed),
            None => Err(SubmitError::NotConnected),
        }
    }

    pub(super) fn unsealed(
        &mut self,
        into: Option<VolumeHandle>,
        info: VolumeInfo,
    ) -> Result<VolumeInfo, Status> {
        if into.is_some_and(|handle| handle != info.handle || self.volumes.get(handle).is_none()) {
            // It was closed meanwhile.
            return Err(Status::NO_SUCH_VOLUME);
        }
        self.volumes.put(None, info);
        Ok(info)
    }

    pub(super) fn granted_key(
        &self,
        volume: [u8; 16],
        header: &AnswerHeader,
        payload: &[u8],
    ) -> Result<Result<GrantedKey, Status>, PeerError> {
        let status = header.status();
        if !status.is_ok() {
            return Ok(Err(status));
        }
        let refused = PeerError::PayloadField { opcode: Opcode::SEAL_KEY, offset: 0 };
        let (answer, _) = SealKeyAnswer::ref_from_prefix(payload).map_err(|_| refused)?;
        let minter = self.key.as_ref().map(|(name, secret)| (&**name, secret));
        let key = SealKey::derive(minter, answer.generation.get(), volume, answer.salt);
        Ok(Ok(GrantedKey { key, seconds: answer.seconds.get() }))
    }
}
