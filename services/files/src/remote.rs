//! The client's end of calls on files: the files of a volume whose owner is its node.
//!
//! A call is a message over one of the client's connections. Calls of several threads use several. If a
//! connection is lost, calls that only read are repeated over another one. A change whose answer was lost
//! fails, since it is unknown whether it was made. The client then takes a new number, so that the owner
//! closes everything that the former one had open, and opens its inodes again.
//!
//! If the owner has started again, changes that were not synchronised may be lost: the next sync of each
//! inode that had such changes fails, once. Programs that have the file open cannot read what it has lost.

mod calls;
mod growth;
mod nameless;
mod passing;
mod places;
mod sealed;
mod unsynced;
mod writes;

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nearflash::direct::{Options, QueuePair, Status};
use nearflash::{Client, QueueOptions};
use nearflash_files::{Inode, InodeNumber, Name};
use nearflash_files_calls::answer::InodeRecord;
use nearflash_files_calls::{Answer, CLIENT_LEN, MessageError, Operation, Request};
use rustix::io::Errno;
use uuid::Uuid;
use zerocopy::little_endian::U64;

use crate::taking::refuse_seal;
use crate::{FilesError, wire};
use growth::Growth;
use places::Places;
use sealed::SealedFiles;
use unsynced::Unsynced;
use writes::Writes;

/// The connections that are kept while no call uses them.
const IDLE_MAX: usize = 16;

/// The time between two tries to reach a node, or an owner that is busy.
const RETRY_PERIOD: Duration = Duration::from_millis(50);

/// A connection to the owner of the files of a volume.
pub trait AskOwner: Send {
    /// Sends a message, and returns the answer.
    ///
    /// # Errors
    /// When the node refuses the message, or the connection is lost.
    fn ask(&mut self, message: &[u8]) -> Result<Box<[u8]>, nearflash::Error>;
}

impl AskOwner for QueuePair {
    fn ask(&mut self, message: &[u8]) -> Result<Box<[u8]>, nearflash::Error> {
        self.ask_owner(message)
    }
}

/// Makes connections to the owner of the files of a volume.
pub type Connect = Box<dyn Fn() -> Result<Box<dyn AskOwner>, nearflash::Error> + Send + Sync>;

/// The files of a volume whose owner is its node. All calls may come from any thread.
pub struct RemoteFiles {
    volume: String,
    connect: Connect,
    /// The time for which a lost node is tried to be reached.
    patience: Duration,
    state: Mutex<State>,
    /// `None` if all bytes pass the owner.
    sealed: Option<SealedFiles>,
    writes: Writes,
    /// Whether an open file has ever lost bytes: most clients' reads need not look.
    has_lost: AtomicBool,
}

struct State {
    /// The number of this client, which changes when a connection is lost.
    id: [u8; CLIENT_LEN],
    idle: Vec<Link>,
    /// How often each inode is open.
    open: HashMap<InodeNumber, u64>,
    places: Places,
    /// Whether the owner knows the open ones.
    is_known: bool,
    unsynced: Unsynced,
    /// The inodes that other processes may write at any time, through seals of this client. They count as
    /// changed.
    handed_over: HashSet<InodeNumber>,
    growth: Growth,
    /// The life of the owner that this client is connected to; `None` before the first connection.
    life: Option<u64>,
    may_write: bool,
}

impl State {
    /// An inode was found in this directory, under this name.
    fn found(&mut self, number: InodeNumber, place: (InodeNumber, &Name)) {
        self.places.found(number, place, &self.open);
    }

    /// An open file got bytes up to the end of this range, of an owner in this life.
    fn grew(&mut self, number: InodeNumber, written: &Range<u64>, life: u64) {
        if self.open.contains_key(&number) {
            self.growth.wrote(number, written);
            if Some(life) != self.life {
                self.growth.lose(number, written);
            }
        }
    }
}

/// A connection of a client.
struct Link {
    owner: Box<dyn AskOwner>,
    id: [u8; CLIENT_LEN],
    /// The life of the owner.
    life: u64,
}

/// An answer of the owner.
#[derive(Debug)]
struct Answered {
    value: u64,
    payload: Vec<u8>,
    /// The life of the owner that has answered.
    life: u64,
    id: [u8; CLIENT_LEN],
}

/// Whether a call is repeated after its answer was lost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Repeat {
    Yes,
    No,
}

impl std::fmt::Debug for RemoteFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteFiles").field("volume", &self.volume).finish_non_exhaustive()
    }
}

impl RemoteFiles {
    /// The files of a volume, if its node owns them; `None` if a process of its own must take them.
    ///
    /// # Errors
    /// When the node cannot be reached, refuses the volume, or cannot serve its files.
    pub fn open(client: &Client, volume: &str) -> Result<Option<Self>, FilesError> {
        refuse_seal(client, volume)?;
        let (of, name) = (client.clone(), volume.to_owned());
        let connect: Connect =
            Box::new(move || Ok(Box::new(of.queue_pair(&name, queue_options())?)));
        match Self::over(connect, volume, Options::default().reconnect_max) {
            Ok(files) => {
                let sealed = Some(SealedFiles::new(client.clone(), volume.to_owned()));
                Ok(Some(Self { sealed, ..files }))
            }
            Err(FilesError::Open(error)) if is_not_owned(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether the node owns the files of a volume.
    ///
    /// # Errors
    /// When the node cannot be reached, or refuses the volume.
    pub fn has_owner(client: &Client, volume: &str) -> Result<bool, FilesError> {
        let message = Request::new(Operation::USAGE, 0).encode();
        let message = message.expect("it has no parts");
        match client.queue_pair(volume, queue_options())?.ask_owner(&message) {
            Err(error) if is_not_owned(&error) => Ok(false),
            Err(error) if error.status() != Some(Status::BUSY) => Err(error.into()),
            _ => Ok(true),
        }
    }

    /// Formats a volume whose files its node owns, and which is blank unless `force`. Returns whether the
    /// node does.
    ///
    /// # Errors
    /// When the node cannot be reached, or the volume is not blank or cannot be written.
    pub fn format(client: &Client, volume: &str, force: bool) -> Result<bool, FilesError> {
        refuse_seal(client, volume)?;
        let mut request = Request::new(Operation::FORMAT, 0);
        request.head.variant = u8::from(force);
        let damaged = |source| FilesError::Message { volume: volume.to_owned(), source };
        let message = request.encode().map_err(damaged)?;
        let mut pair = client.queue_pair(volume, queue_options())?;
        let deadline = Instant::now() + Options::default().reconnect_max;
        loop {
            match pair.ask_owner(&message) {
                Ok(answer) => return read_answer(volume, &answer).map(|_| true),
                Err(error) if is_not_owned(&error) => return Ok(false),
                // A node that has just started still looks at the volume.
                Err(error) if error.status() == Some(Status::BUSY) && Instant::now() < deadline => {
                    std::thread::sleep(RETRY_PERIOD);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The files of a volume over connections of the caller's.
    ///
    /// # Errors
    /// When there is no connection, or the owner refuses the client.
    pub fn over(connect: Connect, volume: &str, patience: Duration) -> Result<Self, FilesError> {
        let state = State {
            id: drawn(),
            idle: Vec::new(),
            open: HashMap::new(),
            places: Places::default(),
            is_known: false,
            unsynced: Unsynced::default(),
            handed_over: HashSet::new(),
            growth: Growth::default(),
            life: None,
            may_write: false,
        };
        let (volume, state) = (volume.to_owned(), Mutex::new(state));
        let files = Self {
            volume,
            connect,
            patience,
            state,
            sealed: None,
            writes: Writes::default(),
            has_lost: AtomicBool::new(false),
        };
        let deadline = Instant::now() + patience;
        let link = loop {
            match files.connected() {
                // The owner opens the files: the node has just started, or they were formatted.
                Err(error) if is_busy(&error) && Instant::now() < deadline => {
                    std::thread::sleep(RETRY_PERIOD);
                }
                connected => break connected?,
            }
        };
        files.give_back(link);
        Ok(files)
    }

    /// Whether this client may change files.
    pub fn is_writable(&self) -> bool {
        self.state().may_write
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn damaged(&self, source: MessageError) -> FilesError {
        FilesError::Message { volume: self.volume.clone(), source }
    }

    /// Sends a request, and waits for its answer.
    fn call(&self, request: &Request<'_>, repeat: Repeat) -> Result<Answered, FilesError> {
        let message = request.encode().map_err(|error| self.damaged(error))?;
        let deadline = Instant::now() + self.patience;
        loop {
            let mut link = self.link(deadline)?;
            match link.owner.ask(&message) {
                // The owner has opened the files again, and has done nothing: a new connection says HELLO.
                Ok(bytes) if is_of_unknown_connection(&bytes) && Instant::now() < deadline => {
                    self.lose(&link);
                }
                Ok(bytes) => {
                    let answered = self.answered(&bytes, &link);
                    self.give_back(link);
                    return answered;
                }
                Err(nearflash::Error::Status(status)) => {
                    self.give_back(link);
                    if status != Status::BUSY || Instant::now() >= deadline {
                        return Err(nearflash::Error::Status(status).into());
                    }
                    std::thread::sleep(RETRY_PERIOD);
                }
                Err(source) => {
                    self.lose(&link);
                    if repeat == Repeat::No {
                        let volume = self.volume.clone();
                        return Err(FilesError::Unknown { volume, source });
                    }
                }
            }
        }
    }

    fn answered(&self, bytes: &[u8], link: &Link) -> Result<Answered, FilesError> {
        let answer = read_answer(&self.volume, bytes)?;
        let (value, payload) = (answer.value, answer.payload.to_vec());
        Ok(Answered { value, payload, life: link.life, id: link.id })
    }

    /// An idle connection, or a new one. A node that cannot be reached is tried until `deadline`.
    fn link(&self, deadline: Instant) -> Result<Link, FilesError> {
        loop {
            if let Some(link) = self.state().idle.pop() {
                return Ok(link);
            }
            match self.connected() {
                Err(error) if Instant::now() < deadline && may_come_back(&error) => {
                    std::thread::sleep(RETRY_PERIOD);
                }
                connected => return connected,
            }
        }
    }

    fn give_back(&self, link: Link) {
        let mut state = self.state();
        if link.id == state.id && state.idle.len() < IDLE_MAX {
            state.idle.push(link);
        }
    }

    /// An inode is open once less. Returns the client for which it was.
    fn forget(&self, number: InodeNumber) -> [u8; CLIENT_LEN] {
        let mut state = self.state();
        if let Some(count) = state.open.get_mut(&number) {
            *count -= 1;
            if *count == 0 {
                state.open.remove(&number);
                state.handed_over.remove(&number);
                state.growth.forget(number);
                self.writes.forget(number);
                if let Some(sealed) = &self.sealed {
                    sealed.forget(number);
                }
            }
        }
        state.id
    }

    /// A connection is lost. The others end when their calls have ended.
    fn lose(&self, link: &Link) {
        let mut state = self.state();
        if link.id == state.id {
            state.id = drawn();
            state.is_known = false;
            state.idle.clear();
        }
    }

    /// A new connection, over which the owner knows this client and the inodes that it has open.
    fn connected(&self) -> Result<Link, FilesError> {
        let id = self.state().id;
        let mut link = Link { owner: (self.connect)()?, id, life: 0 };
        let hello = Request { data: &id, ..Request::new(Operation::HELLO, 0) };
        let answer = self.ask_over(&mut link, &hello)?;
        link.life = answer.value;
        let mut state = self.state();
        state.may_write = answer.payload.first().is_some_and(|flags| flags & 2 != 0);
        if state.is_known || state.id != id {
            return Ok(link);
        }
        // No call of another thread opens or closes an inode meanwhile, for the counts are under the
        // lock.
        let opened = self.open_again(&mut state, &mut link);
        if let Err(error) = opened.and_then(|()| self.note_losses(&mut state, &mut link)) {
            // The owner may have some of them open for this client, and closes them with the connection.
            state.id = drawn();
            return Err(error);
        }
        state.is_known = true;
        Ok(link)
    }

    /// Opens the inodes that are open, for a client that the owner does not know yet.
    fn open_again(&self, state: &mut State, link: &mut Link) -> Result<(), FilesError> {
        let State { open, places, .. } = state;
        let mut lost = Vec::new();
        for (number, count) in &*open {
            let mut request = Request::new(Operation::RETAIN, number.0);
            request.head.len = U64::new(*count);
            let mut opened = self.ask_over(link, &request);
            if opened.as_ref().is_err_and(is_out_of_reach)
                && let Some((directory, name)) = places.of(*number)
            {
                // The owner has forgotten where this client has found it.
                let lookup = Request::new(Operation::LOOKUP, directory.0);
                let found = self.ask_over(link, &Request { name: name.as_bytes(), ..lookup });
                opened = found.and_then(|_| self.ask_over(link, &request));
            }
            match opened {
                Ok(_) => {}
                // One that does not exist any more, or that no grant covers, fails each of its calls.
                Err(FilesError::Remote { .. }) => lost.push(*number),
                Err(error) => return Err(error),
            }
        }
        for number in lost {
            open.remove(&number);
        }
        Ok(())
    }

    /// Another owner has the files as of the last commit: open files whose sizes nobody has synchronised may
    /// have lost bytes.
    fn note_losses(&self, state: &mut State, link: &mut Link) -> Result<(), FilesError> {
        if state.life.is_some_and(|life| life != link.life) {
            for number in state.growth.unsynced() {
                match self.ask_over(link, &Request::new(Operation::INODE, number.0)) {
                    Ok(answered) => {
                        state.growth.went_back(number, self.decoded(&answered)?.1.size.0);
                    }
                    // It does not exist any more.
                    Err(FilesError::Remote { .. }) => state.growth.forget(number),
                    Err(error) => return Err(error),
                }
            }
        }
        state.life = Some(link.life);
        self.note_lost(state);
        Ok(())
    }

    /// Lets reads look for lost bytes from now on, if there are some.
    fn note_lost(&self, state: &State) {
        if state.growth.has_any_lost() {
            self.has_lost.store(true, Ordering::Release);
        }
    }

    fn grew(&self, number: InodeNumber, written: &Range<u64>, life: u64) {
        let mut state = self.state();
        state.grew(number, written, life);
        self.note_lost(&state);
    }

    fn decoded(&self, answered: &Answered) -> Result<(InodeNumber, Inode), FilesError> {
        let record = InodeRecord::decode(&answered.payload);
        record.and_then(|record| wire::inode_of(&record)).map_err(|error| self.damaged(error))
    }

    fn ask_over(&self, link: &mut Link, request: &Request<'_>) -> Result<Answered, FilesError> {
        let message = request.encode().map_err(|error| self.damaged(error))?;
        let bytes = link.owner.ask(&message)?;
        self.answered(&bytes, link)
    }
}

/// Whether an answer says that the connection has not begun with HELLO.
fn is_of_unknown_connection(bytes: &[u8]) -> bool {
    let errno = u32::try_from(Errno::PROTO.raw_os_error()).ok();
    Answer::decode(bytes).is_ok_and(|answer| Some(answer.errno) == errno)
}

fn queue_options() -> QueueOptions {
    QueueOptions::default().depth(1).shared_len(0)
}

/// An answer, unless it reports a failure.
fn read_answer<'a>(volume: &str, bytes: &'a [u8]) -> Result<Answer<'a>, FilesError> {
    let damaged = |source| FilesError::Message { volume: volume.to_owned(), source };
    let answer = Answer::decode(bytes).map_err(damaged)?;
    if answer.errno != 0 {
        return Err(FilesError::Remote {
            errno: i32::try_from(answer.errno).unwrap_or(i32::MAX),
            message: String::from_utf8_lossy(answer.payload).into_owned(),
        });
    }
    Ok(answer)
}

fn is_busy(error: &FilesError) -> bool {
    matches!(error, FilesError::Open(error) if error.status() == Some(Status::BUSY))
}

/// Whether no grant covers the inode.
fn is_out_of_reach(error: &FilesError) -> bool {
    matches!(error, FilesError::Remote { .. }) && error.errno() == Errno::ACCESS
}

/// Whether the node does not own the files of the volume.
fn is_not_owned(error: &nearflash::Error) -> bool {
    matches!(error.status(), Some(Status::UNSUPPORTED | Status::INVALID_OPCODE))
}

/// Whether a node that is starting, or an owner that takes the volume, may mend this.
fn may_come_back(error: &FilesError) -> bool {
    match error {
        FilesError::Open(error) => {
            let passing = [Status::BUSY, Status::SHUTTING_DOWN, Status::DEVICE_UNAVAILABLE];
            error.is_transient() || error.status().is_some_and(|status| passing.contains(&status))
        }
        _ => false,
    }
}

fn drawn() -> [u8; CLIENT_LEN] {
    Uuid::new_v4().into_bytes()
}
