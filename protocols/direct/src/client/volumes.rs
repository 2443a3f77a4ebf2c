//! The volumes that a session has open, and the session's messages about them.

use zerocopy::FromBytes;

use super::ClientSession;
use super::config::{ClientEvent, SubmitError, VolumeHandle, VolumeInfo};
use crate::error::PeerError;
use crate::wire::{
    AnswerHeader, FILES_LEN_MAX, NEW_HANDLE, Opcode, OpenAnswer, SMALL_LEN_MAX, Status,
};

/// The request of a message of the session.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Asked {
    Open { name: Box<str> },
    Refresh { volume: VolumeHandle },
    Close,
    Ping,
    Attach { entries: u32 },
    Claim,
    OpenSealed { into: Option<VolumeHandle> },
    SealKey { volume: [u8; 16] },
    Revoke,
    Files,
}

impl Asked {
    const fn opcode(&self) -> Opcode {
        match self {
            Self::Open { .. } | Self::Refresh { .. } => Opcode::OPEN,
            Self::Close => Opcode::CLOSE,
            Self::Ping => Opcode::PING,
            Self::Attach { .. } => Opcode::ATTACH,
            Self::Claim => Opcode::CLAIM,
            Self::OpenSealed { .. } => Opcode::OPEN_SEALED,
            Self::SealKey { .. } => Opcode::SEAL_KEY,
            Self::Revoke => Opcode::REVOKE,
            Self::Files => Opcode::FILES,
        }
    }
}

#[derive(Debug)]
struct Volume {
    /// `None` for a sealed object.
    name: Option<Box<str>>,
    info: VolumeInfo,
}

/// The open volumes and sealed objects, by handle.
#[derive(Debug, Default)]
pub(super) struct Volumes(Vec<Option<Volume>>);

impl Volumes {
    #[inline]
    pub(super) fn get(&self, volume: VolumeHandle) -> Option<&VolumeInfo> {
        self.0.get(usize::from(volume.0))?.as_ref().map(|volume| &volume.info)
    }

    fn name(&self, volume: VolumeHandle) -> Option<&str> {
        self.0.get(usize::from(volume.0))?.as_ref()?.name.as_deref()
    }

    pub(super) fn put(&mut self, name: Option<Box<str>>, info: VolumeInfo) {
        let index = usize::from(info.handle.0);
        if self.0.len() <= index {
            self.0.resize_with(index + 1, || None);
        }
        self.0[index] = Some(Volume { name, info });
    }

    fn take(&mut self, volume: VolumeHandle) -> Option<Volume> {
        self.0.get_mut(usize::from(volume.0))?.take()
    }
}

impl ClientSession {
    /// Opens a volume by name. [`ClientEvent::Opened`] will have the returned number.
    ///
    /// # Errors
    /// When the session is not connected, or the name is not valid.
    pub fn open(&mut self, name: &str) -> Result<u32, SubmitError> {
        if name.len() > crate::length(SMALL_LEN_MAX) {
            return Err(SubmitError::Length(SMALL_LEN_MAX));
        }
        self.ask(Opcode::OPEN, NEW_HANDLE, name.as_bytes(), Asked::Open { name: name.into() })
    }

    /// Sends a message to the owner of the files of a volume. [`ClientEvent::Files`] will have the returned
    /// number.
    ///
    /// # Errors
    /// When the session is not connected, the volume not open, or the message is too long.
    pub fn files(&mut self, volume: VolumeHandle, message: &[u8]) -> Result<u32, SubmitError> {
        if message.is_empty() || message.len() > crate::length(FILES_LEN_MAX) {
            return Err(SubmitError::Length(FILES_LEN_MAX));
        }
        self.volumes.get(volume).ok_or(SubmitError::NotOpen)?;
        self.ask(Opcode::FILES, volume.0, message, Asked::Files)
    }

    /// Requests a volume's properties again, after [`Status::STALE_EPOCH`]. Its handle stays, and
    /// requests submitted after the event carry the new epoch. If another volume has the name by
    /// now, the event reports [`Status::NO_SUCH_VOLUME`], and the handle is closed.
    ///
    /// # Errors
    /// When the session is not connected or the volume not open.
    pub fn refresh(&mut self, volume: VolumeHandle) -> Result<u32, SubmitError> {
        let name: Box<str> = self.volumes.name(volume).ok_or(SubmitError::NotOpen)?.into();
        self.ask(Opcode::OPEN, volume.0, name.as_bytes(), Asked::Refresh { volume })
    }

    /// Returns a handle: nothing more is submitted on it.
    ///
    /// # Errors
    /// When the session is not connected or the volume not open.
    pub fn close(&mut self, volume: VolumeHandle) -> Result<(), SubmitError> {
        if !self.is_ready() {
            return Err(SubmitError::NotConnected);
        }
        self.volumes.take(volume).ok_or(SubmitError::NotOpen)?;
        self.ask(Opcode::CLOSE, volume.0, &[], Asked::Close)?;
        Ok(())
    }

    /// An open volume.
    #[inline]
    pub fn volume(&self, volume: VolumeHandle) -> Option<&VolumeInfo> {
        self.volumes.get(volume)
    }

    pub(super) fn on_session_answer(
        &mut self,
        header: &AnswerHeader,
        payload: &[u8],
    ) -> Result<(), PeerError> {
        let (opcode, number) = (Opcode(header.opcode), header.tag.get());
        let found = self.asked.iter().position(|(asked_number, asked)| {
            *asked_number == number && asked.opcode().answer() == opcode
        });
        let (_, asked) = self.asked.swap_remove(found.ok_or(PeerError::Unasked(opcode))?);
        match asked {
            Asked::Open { name } => {
                let result = opened(header, payload)?;
                if let Ok(info) = result {
                    self.volumes.put(Some(name), info);
                }
                self.events.push_back(ClientEvent::Opened { number, result });
            }
            Asked::Refresh { volume } => {
                let result = opened(header, payload)?;
                let result = result.and_then(|info| self.refreshed(volume, info));
                self.events.push_back(ClientEvent::Opened { number, result });
            }
            Asked::Close => {}
            Asked::Ping => self.events.push_back(ClientEvent::Pong),
            Asked::Attach { entries } => self.attached(entries, header.status()),
            Asked::Claim => {
                let status = header.status();
                let result = if status.is_ok() { Ok(()) } else { Err(status) };
                self.events.push_back(ClientEvent::Claimed(result));
            }
            Asked::OpenSealed { into } => {
                let result = opened(header, payload)?;
                let result = result.and_then(|info| self.unsealed(into, info));
                self.events.push_back(ClientEvent::Opened { number, result });
            }
            Asked::SealKey { volume } => {
                let result = self.granted_key(volume, header, payload)?;
                self.events.push_back(ClientEvent::SealKey { number, result });
            }
            Asked::Revoke => {
                let status = header.status();
                let result = if status.is_ok() { Ok(()) } else { Err(status) };
                self.events.push_back(ClientEvent::Revoked { number, result });
            }
            Asked::Files => {
                let status = header.status();
                let result = if status.is_ok() { Ok(payload.into()) } else { Err(status) };
                self.events.push_back(ClientEvent::Files { number, result });
            }
        }
        Ok(())
    }

    fn refreshed(&mut self, volume: VolumeHandle, info: VolumeInfo) -> Result<VolumeInfo, Status> {
        // It may have been closed meanwhile.
        let name = self.volumes.name(volume).ok_or(Status::NO_SUCH_VOLUME)?;
        let is_same = self.volumes.get(volume).is_some_and(|old| old.uuid == info.uuid);
        if is_same && info.handle == volume {
            let name = name.into();
            self.volumes.put(Some(name), info);
            return Ok(info);
        }
        let _ = self.close(volume);
        Err(Status::NO_SUCH_VOLUME)
    }
}

fn opened(header: &AnswerHeader, payload: &[u8]) -> Result<Result<VolumeInfo, Status>, PeerError> {
    let status = header.status();
    if !status.is_ok() {
        return Ok(Err(status));
    }
    let refused = PeerError::PayloadField { opcode: Opcode::OPEN, offset: 0 };
    let (answer, _) = OpenAnswer::ref_from_prefix(payload).map_err(|_| refused)?;
    let handle = u16::try_from(header.value.get()).ok().filter(|handle| *handle != NEW_HANDLE);
    Ok(Ok(VolumeInfo {
        handle: VolumeHandle(handle.ok_or(refused)?),
        bytes: answer.bytes.get(),
        block_size: answer.block_size.get(),
        epoch: answer.epoch.get(),
        uuid: answer.uuid,
        rights: answer.rights,
    }))
}
