//! The notes of a slice about its mirrors, while the slice is in use.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nearflash_device::MirrorKey;
use nearflash_space::slice::{MirrorNote, Notes, NotesFull};
use rustix::fs::fdatasync;

use crate::device::{Device, Kind};
use crate::file::write_at;

/// The notes of a slice that is open.
#[derive(Debug)]
pub struct SliceNotes {
    device: Arc<Device>,
    notes: Mutex<Notes>,
}

impl SliceNotes {
    pub(crate) fn new(device: Arc<Device>, notes: Notes) -> Self {
        Self { device, notes: Mutex::new(notes) }
    }

    /// The slice.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The note of a mirror.
    pub fn get(&self, mirror: &MirrorKey) -> Option<MirrorNote> {
        self.notes().get(mirror)
    }

    /// Changes the note of a mirror. It is durable after the next [`Self::write`]. If there is no room, the
    /// note of a mirror is replaced that is not current any more.
    ///
    /// # Errors
    /// When there are notes of as many current mirrors as possible.
    pub fn set(
        &self,
        mirror: MirrorKey,
        note: MirrorNote,
        is_current: impl Fn(&MirrorKey) -> bool,
    ) -> Result<(), NotesFull> {
        self.notes().set(mirror, note, is_current)
    }

    /// Makes all notes durable, with one flush. A device in memory keeps none.
    ///
    /// # Errors
    /// When the device cannot be written. What has changed is written again the next time.
    pub fn write(&self) -> io::Result<()> {
        let mut notes = self.notes();
        let pages = notes.changed();
        if let Kind::Uring(uring) = &self.device.kind
            && !pages.is_empty()
        {
            for page in &pages {
                write_at(&uring.fd, page.offset, &page.bytes[..])?;
            }
            fdatasync(&uring.fd)?;
        }
        notes.note_written();
        Ok(())
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
