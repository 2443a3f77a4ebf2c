//! The files of one volume, and the thread that keeps them open.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use nearflash::Client;
use nearflash_direct::Status;
use nearflash_files_calls::{Answer, Operation, Request};
use nearflash_files_service::{
    Allowed, ConnectionId, FileSystem, FilesError, FilesServer, FormatOptions, Taker, VolumeDisk,
    format,
};
use uuid::Uuid;

/// The interval at which changes become durable that no client has synchronised, and at which a volume
/// that could not be opened is tried again.
const PERIOD: Duration = Duration::from_secs(5);

/// Connects to this node.
pub(super) type Connect = Box<dyn Fn() -> Result<Client, nearflash::Error> + Send + Sync>;

/// The files of a volume.
pub(super) struct Volume {
    name: String,
    connect: Connect,
    files: RwLock<Files>,
    tasks: Mutex<Tasks>,
    changed: Condvar,
}

/// The state of the files.
enum Files {
    /// The volume is being taken.
    Opening,
    /// They are served.
    Open(Box<FilesServer>),
    /// They cannot be served for this reason, with an error number. Without a fault, the volume only waits to be
    /// formatted.
    Closed { errno: i32, reason: String, is_fault: bool },
    /// The node ends.
    Ended,
}

/// The tasks of the thread that keeps the files open.
#[derive(Debug, Default)]
struct Tasks {
    is_ending: bool,
    /// They can be opened again.
    opens: bool,
}

impl Volume {
    pub(super) fn new(name: String, connect: Connect) -> Self {
        let (tasks, changed) = (Mutex::default(), Condvar::new());
        Self { name, connect, files: RwLock::new(Files::Opening), tasks, changed }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Keeps the files open until [`Self::end`].
    pub(super) fn keep(&self) {
        std::thread::scope(|threads| {
            threads.spawn(|| self.tidy_by_and_by());
            self.keep_open();
        });
    }

    /// Moves files of several runs to one from time to time. No sync waits for that.
    fn tidy_by_and_by(&self) {
        loop {
            let goes_on = |tasks: &mut Tasks| !tasks.is_ending;
            let waited = self.changed.wait_timeout_while(self.tasks(), PERIOD, goes_on);
            if waited.unwrap_or_else(PoisonError::into_inner).0.is_ending {
                return;
            }
            if let Files::Open(server) = &*self.files.read().unwrap_or_else(PoisonError::into_inner)
            {
                server.files().tidy();
            }
        }
    }

    fn keep_open(&self) {
        loop {
            self.open_if_closed();
            let tasks = self.tasks();
            let idle = |tasks: &mut Tasks| !tasks.is_ending && !tasks.opens;
            let waited = self.changed.wait_timeout_while(tasks, PERIOD, idle);
            let (mut tasks, _) = waited.unwrap_or_else(PoisonError::into_inner);
            tasks.opens = false;
            let is_ending = tasks.is_ending;
            drop(tasks);
            self.sync();
            if is_ending {
                // Its last user ends with this thread, and releases the volume.
                *self.files.write().unwrap_or_else(PoisonError::into_inner) = Files::Ended;
                return;
            }
        }
    }

    fn open_if_closed(&self) {
        if let Files::Open(_) = &*self.files.read().unwrap_or_else(PoisonError::into_inner) {
            return;
        }
        // Nobody formats the volume meanwhile.
        let mut files = self.files.write().unwrap_or_else(PoisonError::into_inner);
        *files = match self.open() {
            Ok(server) => {
                tracing::info!(volume = self.name, "serving its files");
                Files::Open(Box::new(server))
            }
            Err(error) => {
                let (errno, reason) = (error.errno().raw_os_error(), error.to_string());
                if !matches!(&*files, Files::Closed { reason: known, .. } if *known == reason) {
                    tracing::warn!("cannot serve files: {reason}");
                }
                let is_fault = !matches!(error, FilesError::NotFormatted { .. });
                Files::Closed { errno, reason, is_fault }
            }
        };
    }

    fn open(&self) -> Result<FilesServer, FilesError> {
        let files = FileSystem::take(&(self.connect)()?, &self.name, &Taker::node())?;
        let (life, _) = Uuid::new_v4().as_u64_pair();
        Ok(FilesServer::new(files, life))
    }

    /// Makes all changes durable. Files that cannot be changed any more are opened again.
    fn sync(&self) {
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        let Files::Open(server) = &*files else { return };
        let Err(error) = server.files().sync_all() else { return };
        drop(files);
        tracing::error!("files are closed, and opened again: {error}");
        // The connection to the volume must end before the next one begins.
        *self.files.write().unwrap_or_else(PoisonError::into_inner) = Files::Opening;
        self.tasks().opens = true;
    }

    /// Ends [`Self::keep`].
    pub(super) fn end(&self) {
        self.tasks().is_ending = true;
        self.changed.notify_all();
    }

    fn tasks(&self) -> MutexGuard<'_, Tasks> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out a message.
    pub(super) fn serve(
        &self,
        connection: ConnectionId,
        allowed: &Allowed,
        message: &[u8],
    ) -> Result<Box<[u8]>, Status> {
        let request = Request::decode(message).ok();
        if let Some(request) = request.filter(|it| it.head.operation() == Operation::FORMAT)
            && allowed.may_write
        {
            return Ok(self.format(request.head.variant != 0));
        }
        match &*self.files.read().unwrap_or_else(PoisonError::into_inner) {
            Files::Open(server) => Ok(server.serve(connection, allowed, message).into()),
            Files::Closed { errno, reason, .. } => Ok(failure(*errno, reason)),
            Files::Opening | Files::Ended => Err(Status::BUSY),
        }
    }

    /// Voids the seals that clients were given, and returns whether they are void. They are after the files
    /// were opened again, too.
    pub(super) fn unseal_all(&self) -> bool {
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        let Files::Open(server) = &*files else { return true };
        let unsealed = server.files().unseal_all();
        unsealed.inspect_err(|error| tracing::error!("seals are not void: {error}")).is_ok()
    }

    /// A connection has ended.
    pub(super) fn gone(&self, connection: ConnectionId) {
        if let Files::Open(server) = &*self.files.read().unwrap_or_else(PoisonError::into_inner) {
            server.gone(connection);
        }
    }

    /// Formats the volume. Its files are closed meanwhile.
    fn format(&self, force: bool) -> Box<[u8]> {
        let mut files = self.files.write().unwrap_or_else(PoisonError::into_inner);
        if matches!(&*files, Files::Ended) {
            return failure(rustix::io::Errno::SHUTDOWN.raw_os_error(), "the node ends");
        }
        let formatted = (self.connect)().map_err(FilesError::from).and_then(|client| {
            let disk = VolumeDisk::new(client.open(&self.name)?);
            if force {
                *files = Files::Opening;
            }
            format(Arc::new(disk), FormatOptions { force })
        });
        if formatted.is_ok() {
            *files = Files::Opening;
        }
        drop(files);
        self.tasks().opens = true;
        self.changed.notify_all();
        match formatted {
            Ok(()) => Answer::done(0, &[]).encode().unwrap_or_default().into(),
            Err(error) => failure(error.errno().raw_os_error(), &error.to_string()),
        }
    }

    /// The state, for people.
    pub(super) fn state(&self) -> String {
        match &*self.files.read().unwrap_or_else(PoisonError::into_inner) {
            Files::Opening => "opening".to_owned(),
            Files::Open(server) => format!("served to {} clients", server.client_count()),
            Files::Closed { reason, .. } => reason.clone(),
            Files::Ended => "closed".to_owned(),
        }
    }

    /// Why the files are not served; `None` if they are, or were never formatted.
    pub(super) fn fault(&self) -> Option<String> {
        match &*self.files.read().unwrap_or_else(PoisonError::into_inner) {
            Files::Closed { reason, is_fault: true, .. } => Some(reason.clone()),
            _ => None,
        }
    }
}

fn failure(errno: i32, message: &str) -> Box<[u8]> {
    let errno = u32::try_from(errno).unwrap_or_default();
    Answer::failed(errno, message).encode().unwrap_or_default().into()
}
