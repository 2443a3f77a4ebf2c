//! The file system while it is open: calls pass, until it is closed.

use std::sync::RwLock;
use std::sync::mpsc::Sender;

use fuser::Errno;
use nearflash_files_service::{FileCalls, FilesError};

use crate::event::Event;

/// The file system, for the threads that answer the kernel.
#[derive(Debug)]
pub(crate) struct Gate {
    files: RwLock<Option<Box<dyn FileCalls>>>,
    events: Sender<Event>,
}

impl Gate {
    pub(crate) fn new(files: Box<dyn FileCalls>, events: Sender<Event>) -> Self {
        Self { files: RwLock::new(Some(files)), events }
    }

    /// Calls the file system. A failure that is not the caller's fault is logged.
    pub(crate) fn call<T>(
        &self,
        act: impl FnOnce(&dyn FileCalls) -> Result<T, FilesError>,
    ) -> Result<T, Errno> {
        // A thread that panics ends the process, so the lock is never poisoned.
        let Ok(files) = self.files.read() else { return Err(Errno::EIO) };
        let Some(files) = files.as_ref() else { return Err(Errno::ESTALE) };
        act(&**files).map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &FilesError) -> Errno {
        let is_fatal = error.is_superseded() || matches!(error, FilesError::Failed { .. });
        if is_fatal {
            // The receiver is gone when the mount ends anyway.
            let _ = self.events.send(Event::Failed(error.to_string()));
            return Errno::ESTALE;
        }
        let errno = Errno::from_i32(error.errno().raw_os_error());
        if errno == Errno::EIO {
            tracing::error!("{error}");
        }
        errno
    }

    /// Makes all changes durable, and ends the mount if that is not possible.
    pub(crate) fn sync(&self) {
        // The gate reports the failure.
        let _ = self.call(|files| files.sync_all());
    }

    /// Moves files to better places.
    pub(crate) fn tidy(&self) {
        let _ = self.call(|files| {
            files.tidy();
            Ok(())
        });
    }

    /// Tells an owner in another process of files that were written without it.
    pub(crate) fn tell_owner(&self) {
        let _ = self.call(|files| {
            files.tell_owner();
            Ok(())
        });
    }

    /// Waits for the calls under way, makes everything durable, and gives the volume back. Later calls
    /// fail with `ESTALE`.
    pub(crate) fn close(&self) -> Result<(), FilesError> {
        let files = self.files.write().ok().and_then(|mut files| files.take());
        files.map_or(Ok(()), FileCalls::close)
    }
}
