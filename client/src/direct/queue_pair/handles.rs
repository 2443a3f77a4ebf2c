//! The volumes and sealed objects that a queue pair has open. The first is its own.
//!
//! Handles of the node end with a connection. After a reconnect, volumes are opened again by their names,
//! and sealed objects by their seals, as long as these are good.

use std::sync::Arc;
use std::time::Instant;

use nearflash_direct::client::{
    ClientEvent, SubmitError, Void, VolumeHandle, VolumeInfo as OpenVolume,
};
use nearflash_direct::{Seal, Status};

use super::super::error::{Error, Lost};
use super::super::handle::Handle;
use super::super::link::Link;
use super::super::seal_key::SealKey;
use super::super::shared::Shared;
use super::{QueuePair, same_volume};

/// The key of an open object.
#[derive(Clone, Debug)]
pub(in super::super) enum Source {
    /// A volume, by its name.
    Name(Box<str>),
    /// An object, by its seal.
    Seal(Arc<Seal>),
}

impl Source {
    /// The volume's name; empty for an object.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Name(name) => name,
            Self::Seal(_) => "",
        }
    }

    pub(super) fn open(
        &self,
        link: &mut Link,
        shared: &Shared,
        into: Option<VolumeHandle>,
    ) -> Result<OpenVolume, Error> {
        match self {
            Self::Name(name) => link.open(shared, name),
            Self::Seal(seal) => link.open_sealed(shared, seal, into),
        }
    }
}

#[derive(Clone, Debug)]
struct Entry {
    source: Source,
    info: OpenVolume,
    serial: u32,
    /// Why it could not be opened again.
    ended: Option<Status>,
    /// The message that asks for its properties, after its layout has changed.
    refreshing: Option<u32>,
}

/// The entries of a queue pair, in any order but for its own.
#[derive(Debug)]
pub(super) struct Handles {
    entries: Vec<Option<Entry>>,
    serials: u32,
}

impl Handles {
    pub(super) fn new(source: Source, info: OpenVolume) -> Self {
        let entry = Entry { source, info, serial: 0, ended: None, refreshing: None };
        Self { entries: vec![Some(entry)], serials: 0 }
    }

    #[inline]
    fn entry(&self, handle: Handle) -> Option<&Entry> {
        let entry = self.entries.get(usize::from(handle.index))?.as_ref();
        entry.filter(|entry| entry.serial == handle.serial)
    }

    fn entry_mut(&mut self, handle: Handle) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(usize::from(handle.index))?.as_mut();
        entry.filter(|entry| entry.serial == handle.serial)
    }

    fn own(&self) -> &Entry {
        self.entries[0].as_ref().expect("the own volume stays open")
    }

    pub(super) fn own_source(&self) -> &Source {
        &self.own().source
    }

    #[inline]
    pub(super) fn own_info(&self) -> &OpenVolume {
        &self.own().info
    }

    #[inline]
    pub(super) fn of_node(&self, handle: Handle) -> Result<VolumeHandle, Status> {
        let entry = self.entry(handle).ok_or(Status::NO_SUCH_VOLUME)?;
        entry.ended.map_or(Ok(entry.info.handle), Err)
    }

    /// The size of the blocks of what a handle is of; `None` when it is closed.
    pub(super) fn block_size_of(&self, handle: Handle) -> Option<u32> {
        self.entry(handle).map(|entry| entry.info.block_size)
    }

    fn insert(&mut self, source: Source, info: OpenVolume) -> Option<Handle> {
        let free = self.entries.iter().position(Option::is_none).unwrap_or(self.entries.len());
        let index = u16::try_from(free).ok()?;
        if free == self.entries.len() {
            self.entries.push(None);
        }
        self.serials = self.serials.wrapping_add(1).max(1);
        let serial = self.serials;
        self.entries[free] = Some(Entry { source, info, serial, ended: None, refreshing: None });
        Some(Handle { index, serial })
    }

    /// Whether requests refused as stale are repeated: those on a volume, whose layout has changed. The
    /// owner of an object gives another seal, and only the application can ask for it.
    pub(super) fn repeats(&self, handle: Handle) -> bool {
        self.entry(handle)
            .is_some_and(|entry| matches!(entry.source, Source::Name(_)) && entry.ended.is_none())
    }

    /// Whether its properties are being asked for.
    pub(super) fn is_refreshing(&self, handle: Handle) -> bool {
        self.entry(handle).is_some_and(|entry| entry.refreshing.is_some())
    }

    /// Asks for the properties of a volume, unless it was asked.
    pub(super) fn refresh(&mut self, handle: Handle, link: &mut Link) {
        if let Some(entry) = self.entry_mut(handle)
            && entry.refreshing.is_none()
        {
            // The next turn reports a session that has ended.
            entry.refreshing = link.refresh(entry.info.handle).ok();
        }
    }

    /// The answer to such a question. Returns the handle with the reason when it has ended.
    pub(super) fn refreshed(
        &mut self,
        number: u32,
        result: Result<OpenVolume, Status>,
    ) -> Option<(Handle, Status)> {
        for (index, entry) in (0..).zip(&mut self.entries) {
            let Some(entry) = entry.as_mut().filter(|it| it.refreshing == Some(number)) else {
                continue;
            };
            entry.refreshing = None;
            match result {
                Ok(info) => entry.info = info,
                Err(status) => return Some((Handle { index, serial: entry.serial }, status)),
            }
        }
        None
    }

    /// The connection is lost.
    pub(super) fn lose(&mut self) {
        self.entries.iter_mut().flatten().for_each(|entry| entry.refreshing = None);
    }

    /// Opens everything again over a new connection.
    pub(super) fn reopened(&self, link: &mut Link, shared: &Shared) -> Result<Self, Error> {
        let mut entries = self.entries.clone();
        for (index, entry) in entries.iter_mut().enumerate() {
            let Some(entry) = entry else { continue };
            let opened = entry.source.open(link, shared, None).and_then(|info| {
                same_volume(entry.source.name(), entry.info.uuid, info.uuid)?;
                Ok(info)
            });
            match opened {
                Ok(info) => (entry.info, entry.ended) = (info, None),
                Err(error) => {
                    let status = error.status().filter(|_| index > 0).ok_or(error)?;
                    // Whatever has ended a seal, another one helps.
                    let is_seal = matches!(entry.source, Source::Seal(_));
                    entry.ended = Some(if is_seal { Status::STALE_EPOCH } else { status });
                }
            }
        }
        Ok(Self { entries, serials: self.serials })
    }
}

impl QueuePair {
    /// Opens a further volume.
    ///
    /// # Errors
    /// When the node refuses, or the connection is lost.
    pub fn open(&mut self, name: &str) -> Result<Handle, Error> {
        self.open_source(Source::Name(name.into()))
    }

    /// Opens the object of a seal. Its offsets begin at 0; the node finds its bytes in the volume.
    ///
    /// After [`Self::reconnect`], the object is opened again, if its seal is still good. Otherwise, posts on
    /// it fail with [`Status::STALE_EPOCH`], as they do when the seal was revoked: the owner of the object
    /// gives a new seal, and [`Self::renew`] takes it.
    ///
    /// # Errors
    /// When the node refuses: with [`Status::STALE_EPOCH`] if the seal has expired or was revoked; or when
    /// the connection is lost.
    pub fn open_sealed(&mut self, seal: &Seal) -> Result<Handle, Error> {
        self.open_source(Source::Seal(Arc::new(seal.clone())))
    }

    fn open_source(&mut self, source: Source) -> Result<Handle, Error> {
        self.check_connected()?;
        let shared = self.shared.until(self.deadline);
        let opened = source.open(&mut self.link, &shared, None);
        let info = self.answered(opened)?;
        let handle = info.handle;
        self.handles.insert(source, info).ok_or_else(|| {
            let _ = self.link.close(handle);
            Error::Status(Status::BUSY)
        })
    }

    /// Replaces the seal of an object, after the node or its owner has voided the earlier one. Operations in
    /// flight end by the earlier one.
    ///
    /// # Errors
    /// As [`Self::open_sealed`].
    pub fn renew(&mut self, handle: Handle, seal: &Seal) -> Result<(), Error> {
        self.check_connected()?;
        let into = self.handles.of_node(handle).ok();
        let source = Source::Seal(Arc::new(seal.clone()));
        let shared = self.shared.until(self.deadline);
        let opened = source.open(&mut self.link, &shared, into);
        let info = self.answered(opened)?;
        let entry = self.handles.entry_mut(handle).ok_or(Error::Status(Status::NO_SUCH_VOLUME))?;
        (entry.source, entry.info, entry.ended) = (source, info, None);
        Ok(())
    }

    /// Closes a handle. Operations in flight on it continue.
    pub fn close(&mut self, handle: Handle) {
        if handle == Handle::OWN {
            return;
        }
        if let Ok(of_node) = self.handles.of_node(handle) {
            // A connection that is lost has closed it.
            let _ = self.link.close(of_node);
        }
        if self.handles.entry(handle).is_some() {
            self.handles.entries[usize::from(handle.index)] = None;
        }
    }

    /// Sends a message to the owner of the files of the queue pair's own volume, and returns its answer. The
    /// node does not know the contents. The session's time-outs apply, so the owner answers within
    /// [`Options::silence_max`](crate::Options::silence_max).
    ///
    /// # Errors
    /// When the node refuses: with [`Status::UNSUPPORTED`] if it does not own the files of the volume, with
    /// [`Status::INVALID_OPCODE`] if it is older than the message, and with [`Status::BUSY`] if too many
    /// messages are not answered; or when the connection is lost. It is then unknown whether the owner has
    /// carried out the message.
    pub fn ask_owner(&mut self, message: &[u8]) -> Result<Box<[u8]>, Error> {
        let volume = self.handles.own_info().handle;
        let asked = |link: &mut Link| link.session_mut().files(volume, message);
        let answer = self.ask(asked, "FILES", |event, number| match event {
            ClientEvent::Files { number: of, result } if *of == number => Some(result.clone()),
            _ => None,
        })?;
        answer.map_err(Error::Status)
    }

    /// The key under which this client's credential mints seals for the queue pair's own volume. It needs
    /// the right to write to some of it. A seal gives at most the rights that the credential has at the time
    /// of each request.
    ///
    /// # Errors
    /// When the node refuses: with [`Status::UNSUPPORTED`] for a volume of a cluster or of another node, and
    /// with [`Status::INVALID_OPCODE`] if it is older than seals; or when the connection is lost.
    pub fn seal_key(&mut self) -> Result<SealKey, Error> {
        let volume = self.handles.own_info().handle;
        let asked = |link: &mut Link| link.session_mut().seal_key(volume);
        let granted = self.ask(asked, "SEAL_KEY", |event, number| match event {
            ClientEvent::SealKey { number: of, result } if *of == number => Some(result.clone()),
            _ => None,
        })?;
        let granted = granted.map_err(Error::Status)?;
        Ok(SealKey::new(granted, Instant::now()))
    }

    /// Revokes the seals of an object below a version, of this client's credential and for the queue pair's
    /// own volume. When this returns, nothing that they allowed is under way, and none of them can be opened.
    ///
    /// # Errors
    /// As [`Self::seal_key`]. After a lost connection, it is unknown whether they are revoked.
    pub fn revoke(&mut self, object: u64, version: u32) -> Result<(), Error> {
        self.revoke_all(Void::Object { object, version })
    }

    /// [`Self::revoke`] for all seals under keys of generations below this one. The key of the generation is
    /// valid from then on.
    ///
    /// # Errors
    /// As [`Self::revoke`].
    pub fn revoke_keys(&mut self, generation: u32) -> Result<(), Error> {
        self.revoke_all(Void::Keys { generation })
    }

    fn revoke_all(&mut self, void: Void) -> Result<(), Error> {
        let volume = self.handles.own_info().handle;
        let asked = |link: &mut Link| link.session_mut().revoke(volume, void);
        let revoked = self.ask(asked, "REVOKE", |event, number| match event {
            ClientEvent::Revoked { number: of, result } if *of == number => Some(*result),
            _ => None,
        })?;
        revoked.map_err(Error::Status)
    }

    fn ask<T>(
        &mut self,
        asked: impl FnOnce(&mut Link) -> Result<u32, SubmitError>,
        what: &'static str,
        wanted: impl Fn(&ClientEvent, u32) -> Option<T>,
    ) -> Result<T, Error> {
        self.check_connected()?;
        let number = asked(&mut self.link).map_err(Link::unasked)?;
        let shared = self.shared.until(self.deadline);
        let answer = self.link.await_event(&shared, what, |event| wanted(event, number));
        self.answered(answer)
    }

    fn check_connected(&self) -> Result<(), Error> {
        self.lost.map_or(Ok(()), |lost| Err(Error::ConnectionLost(lost)))
    }

    /// Records a connection that was lost, or given up, before an answer.
    fn answered<T>(&mut self, answer: Result<T, Error>) -> Result<T, Error> {
        let lost = match &answer {
            Err(Error::ConnectionLost(lost)) => *lost,
            Err(Error::Silent { within, .. }) => Lost::Silent { within: *within },
            Err(Error::Refused { source, .. }) => Lost::Peer(*source),
            _ => {
                // Other events and completions may have come meanwhile.
                self.has_more = true;
                self.handle_events();
                return answer;
            }
        };
        self.lose(lost);
        answer
    }
}
