//! The owner's end of calls on files: requests of clients become calls of [`FileSystem`].
//!
//! `docs/files-calls.md` has the rules. The caller brings each request with its connection and the right to
//! write, and reports the end of connections. Threads may share a server.
//!
//! Invariant: an inode is retained as often as the clients that have a connection have it open.

mod handlers;
mod scope;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nearflash_files::{InodeNumber, NameError};
use nearflash_files_calls::{Answer, CLIENT_LEN, MessageError, OPEN_MAX, Operation, Request};
use rustix::io::Errno;

use crate::{FileSystem, FilesError};
pub use scope::{Allowed, Below};
use scope::{Found, Use};

/// A connection of a client, by a number that its caller never uses again.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct ConnectionId {
    /// The core of its connection.
    pub core: u16,
    /// Its number there.
    pub number: u64,
}

/// The number that a client has generated.
type ClientId = [u8; CLIENT_LEN];

/// Serves the files of a volume to clients.
#[derive(Debug)]
pub struct FilesServer {
    files: FileSystem,
    /// Distinguishes this life of the owner from others.
    life: u64,
    clients: Mutex<Clients>,
}

#[derive(Debug, Default)]
struct Clients {
    by_connection: HashMap<ConnectionId, ClientId>,
    clients: HashMap<ClientId, ClientState>,
}

#[derive(Debug, Default)]
struct ClientState {
    connections: usize,
    /// How often each inode is open.
    open: HashMap<InodeNumber, u64>,
    /// The sum of these numbers.
    open_count: u64,
    /// Of a client whose grants are on directories.
    found: Found,
}

/// A request, and who has sent it.
struct Asked<'a> {
    connection: ConnectionId,
    allowed: &'a Allowed,
    request: Request<'a>,
}

/// A request was carried out.
struct Done {
    value: u64,
    payload: Vec<u8>,
}

/// A request has failed.
struct Failed {
    errno: Errno,
    message: String,
}

impl Failed {
    fn new(errno: Errno, message: impl Into<String>) -> Self {
        Self { errno, message: message.into() }
    }

    fn not_open() -> Self {
        Self::new(Errno::BADF, "the inode is not open")
    }
}

impl From<FilesError> for Failed {
    fn from(error: FilesError) -> Self {
        Self::new(error.errno(), error.to_string())
    }
}

impl From<MessageError> for Failed {
    fn from(error: MessageError) -> Self {
        Self::new(Errno::INVAL, error.to_string())
    }
}

impl From<NameError> for Failed {
    fn from(error: NameError) -> Self {
        let errno = match error {
            NameError::TooLong(_) | NameError::PathTooLong(_) => Errno::NAMETOOLONG,
            NameError::Empty | NameError::Byte | NameError::Dots => Errno::INVAL,
        };
        Self::new(errno, error.to_string())
    }
}

impl FilesServer {
    /// Serves these files. `life` is another number for each server of a volume.
    pub fn new(files: FileSystem, life: u64) -> Self {
        Self { files, life, clients: Mutex::default() }
    }

    /// The files.
    pub fn files(&self) -> &FileSystem {
        &self.files
    }

    /// The number of clients that are connected.
    pub fn client_count(&self) -> usize {
        self.clients().clients.len()
    }

    /// Carries out a request, and returns the answer.
    pub fn serve(&self, connection: ConnectionId, allowed: &Allowed, request: &[u8]) -> Vec<u8> {
        let done = Request::decode(request).map_err(Failed::from).and_then(|request| {
            let asked = Asked { connection, allowed, request };
            self.carry_out(&asked)
        });
        let answer = match &done {
            Ok(done) => Answer::done(done.value, &done.payload).encode(),
            Err(failed) => failure(failed),
        };
        answer.unwrap_or_else(|error| {
            failure(&error.into()).expect("the message of an error is short")
        })
    }

    fn carry_out(&self, asked: &Asked<'_>) -> Result<Done, Failed> {
        let operation = asked.request.head.operation();
        // The caller formats, and only for clients with all rights.
        let is_allowed = asked.allowed.may_write_some() && operation != Operation::FORMAT;
        if operation.is_change() && !is_allowed {
            return Err(self.no_right(operation));
        }
        let handler = handlers::of(operation).ok_or_else(|| {
            let message = format!("the node does not know operation {} on files", operation.0);
            Failed::new(Errno::NOSYS, message)
        })?;
        // An owner that has opened the files again knows no connection from before, and does nothing for it.
        if operation != Operation::HELLO {
            self.clients().of(asked.connection)?;
        }
        if !asked.allowed.allows(operation)
            && self.admit(asked)? == Some(Use::Pass)
            && operation == Operation::LIST
        {
            return handlers::list_steps(self, asked);
        }
        let partings = self.partings(asked);
        let done = handler(self, asked)?;
        partings.into_iter().for_each(|parting| self.note_parted(parting));
        if !asked.allowed.below.is_empty() {
            self.note_found(asked, &done.payload)?;
        }
        Ok(done)
    }

    /// The answer to a client without the right to write.
    fn no_right(&self, operation: Operation) -> Failed {
        let message = format!(
            "files of volume '{}': {} needs a grant with --rights rw for the whole volume",
            self.files.volume(),
            operation.name()
        );
        Failed::new(Errno::ACCESS, message)
    }

    /// Refuses a client that does not have the inode open.
    fn check_open(&self, connection: ConnectionId, number: InodeNumber) -> Result<(), Failed> {
        match self.clients().of(connection)?.open.contains_key(&number) {
            true => Ok(()),
            false => Err(Failed::not_open()),
        }
    }

    /// A connection has ended. With the last one of a client, everything is closed that it has open.
    pub fn gone(&self, connection: ConnectionId) {
        let mut clients = self.clients();
        let Some(id) = clients.by_connection.remove(&connection) else { return };
        let Some(client) = clients.clients.get_mut(&id) else { return };
        client.connections -= 1;
        if client.connections > 0 {
            return;
        }
        let client = clients.clients.remove(&id).unwrap_or_default();
        drop(clients);
        for (number, count) in client.open {
            (0..count).for_each(|_| self.files.release(number));
        }
    }

    fn clients(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection is one of this client. Returns whether the client had another one.
    fn join(&self, connection: ConnectionId, id: ClientId) -> Result<bool, Failed> {
        let mut clients = self.clients();
        if clients.by_connection.contains_key(&connection) {
            return Err(Failed::new(Errno::INVAL, "the connection belongs to a client already"));
        }
        clients.by_connection.insert(connection, id);
        let client = clients.clients.entry(id).or_default();
        client.connections += 1;
        Ok(client.connections > 1)
    }

    fn retain(
        &self,
        connection: ConnectionId,
        number: InodeNumber,
        count: u64,
    ) -> Result<(), Failed> {
        let mut clients = self.clients();
        let client = clients.of(connection)?;
        let max = u64::try_from(OPEN_MAX).unwrap_or(u64::MAX);
        let sum = client.open_count.checked_add(count).filter(|sum| *sum <= max);
        let Some(sum) = sum.filter(|_| count > 0) else {
            let message = format!("a client has at most {OPEN_MAX} inodes open: close some");
            return Err(Failed::new(Errno::NFILE, message));
        };
        self.files.retain(number)?;
        // It exists now as long as it is open.
        for _ in 1..count {
            self.files.retain(number)?;
        }
        *client.open.entry(number).or_default() += count;
        client.open_count = sum;
        Ok(())
    }

    fn release(&self, connection: ConnectionId, number: InodeNumber) -> Result<(), Failed> {
        let mut clients = self.clients();
        let client = clients.of(connection)?;
        let count = client.open.get_mut(&number);
        let count = count.ok_or_else(Failed::not_open)?;
        *count -= 1;
        if *count == 0 {
            client.open.remove(&number);
        }
        client.open_count -= 1;
        drop(clients);
        self.files.release(number);
        Ok(())
    }
}

impl Clients {
    fn of(&mut self, connection: ConnectionId) -> Result<&mut ClientState, Failed> {
        let id = self.by_connection.get(&connection);
        let client = id.and_then(|id| self.clients.get_mut(id));
        client.ok_or_else(|| {
            let message = format!("a connection begins with {}", Operation::HELLO.name());
            Failed::new(Errno::PROTO, message)
        })
    }
}

fn failure(failed: &Failed) -> Result<Vec<u8>, MessageError> {
    let errno = u32::try_from(failed.errno.raw_os_error()).unwrap_or_default();
    Answer::failed(errno, &failed.message).encode()
}
