//! A connection of a session, and the operations in flight on it.

use nearflash_iscsi::initiator::cdb::{self, Cdb, FORCE_UNIT_ACCESS};
use nearflash_iscsi::initiator::{CommandData, SubmitError, TaskId};
use nearflash_iscsi::login::SessionKind;
use nearflash_request::BufferId;
use nearflash_units::{BlockSize, Blocks};

use super::connection::{Connection, SessionSeat, log_in};
use super::error::InitiatorError;
use super::io::{Io, Token};
use super::options::{ConnectionOptions, Options};
use super::retries::Trials;
use super::unit::LogicalUnit;
use crate::memory::{Memory, index};
use crate::stream::{Memory as _, Place};

/// The maximum number of bytes received in addition to expected payload: 60 answers of 4 KiB, which
/// still fit the second-level cache.
const STAGING_LEN: usize = 256 * 1024;
/// The maximum number of commands of the session itself, which it sends one after the other.
const QUESTIONS_MAX: u16 = 1;

/// An operation, which may be sent more than once. It is copied into its task's slot, and no longer
/// than a cache line.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Operation {
    token: Token,
    cdb: Cdb,
    payload: Payload,
    pub(super) lun: u16,
    link: u16,
    pub(super) trials: Trials,
}

const _: () = assert!(size_of::<Operation>() <= 64);

/// The direction, the buffer and the length of an operation's data.
#[derive(Clone, Copy, Debug, Default)]
enum Payload {
    #[default]
    None,
    Read(BufferId, u32),
    Write(BufferId, u32),
    /// A command of the session itself.
    Question,
}

/// A connection and the operations in flight on it.
pub(super) struct Link {
    pub(super) connection: Connection,
    tasks: Box<[Operation]>,
    /// The maximum number of operations in flight, and the number that are in flight or wait.
    depth: usize,
    load: usize,
}

impl Operation {
    #[inline]
    pub(super) fn new(token: Token, unit: &LogicalUnit, io: Io) -> Self {
        let (link, cdb, payload) = encode(unit.block_size, io);
        Self { token, cdb, payload, lun: unit.lun, link, trials: Trials::default() }
    }

    /// The index of its connection.
    #[inline]
    pub(super) fn link(&self) -> usize {
        usize::from(self.link)
    }

    /// The caller's token.
    pub(super) fn token(&self) -> Token {
        self.token
    }
}

impl Link {
    /// The maximum number of operations in flight.
    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    /// The tokens of the operations that were sent and not answered.
    pub(super) fn in_flight(&self) -> impl Iterator<Item = Token> {
        let tasks = self.connection.session.in_flight().map(|id| &self.tasks[usize::from(id.0)]);
        tasks.filter(|task| !matches!(task.payload, Payload::Question)).map(|task| task.token)
    }

    /// Sends a command of the session itself.
    pub(super) fn ask(
        &mut self,
        lun: u16,
        cdb: &Cdb,
        data: CommandData,
    ) -> Result<TaskId, SubmitError> {
        let id = self.connection.session.submit(lun, cdb, data, &[])?;
        self.tasks[usize::from(id.0)] =
            Operation { payload: Payload::Question, ..Operation::default() };
        Ok(id)
    }

    /// Reserves room for one more operation.
    #[inline]
    pub(super) fn admit(&mut self) -> Result<(), SubmitError> {
        if self.load == self.depth {
            return Err(SubmitError::QueueFull);
        }
        if !self.connection.session.is_ready() {
            return Err(SubmitError::NotReady);
        }
        self.load += 1;
        Ok(())
    }

    /// Releases the room of an ended operation.
    #[inline]
    pub(super) fn leave(&mut self) {
        self.load -= 1;
    }

    /// Sends an operation. Returns whether it was sent; it is not while the command window is
    /// closed.
    #[inline]
    pub(super) fn try_send(&mut self, operation: &Operation) -> bool {
        let connection = &mut self.connection;
        let mut read = None;
        let (data, bytes) = match operation.payload {
            Payload::None | Payload::Question => (CommandData::None, &[][..]),
            Payload::Write(buffer, len) => {
                let bytes = &connection.memory.bytes(buffer)[..index(len)];
                (CommandData::Outgoing { buffer, len }, bytes)
            }
            Payload::Read(buffer, len) => {
                let place = Place { buffer, len: index(len) };
                assert!(place.len <= connection.memory.bytes(buffer).len(), "it fits");
                read = Some(place);
                (CommandData::Incoming { buffer, len }, &[][..])
            }
        };
        let Ok(id) = connection.session.submit(operation.lun, &operation.cdb, data, bytes) else {
            return false;
        };
        self.tasks[usize::from(id.0)] = *operation;
        if let Some(place) = read {
            connection.forecast.asked(place);
        }
        true
    }

    /// Records the answer to a task. Returns its token; `None` for a command of the session itself
    /// that is no longer waited for.
    #[inline]
    pub(super) fn answered(&mut self, id: TaskId) -> Option<Token> {
        let operation = &self.tasks[usize::from(id.0)];
        match operation.payload {
            Payload::Read(buffer, _) => self.connection.forecast.answered(buffer),
            Payload::Question => return None,
            Payload::Write(..) | Payload::None => {}
        }
        Some(operation.token)
    }

    /// The last operation of a task.
    pub(super) fn operation(&self, id: TaskId) -> Operation {
        self.tasks[usize::from(id.0)]
    }
}

/// Logs in with all connections. Returns them, and their shared parameters.
pub(super) fn open(
    options: &Options,
    connection_options: ConnectionOptions,
    isid: [u8; 6],
) -> Result<(Vec<Link>, SessionSeat), InitiatorError> {
    let ConnectionOptions { depth, buffer_count, buffer_len } = connection_options;
    let task_count = depth.saturating_add(QUESTIONS_MAX);
    let seat = SessionSeat::new(isid, SessionKind::Normal { target: options.target.clone() });
    let mut links = Vec::new();
    for cid in 0..options.connections.max(1) {
        let memory = Memory::new(buffer_count, buffer_len);
        let room = (memory, STAGING_LEN);
        let (connection, established) = log_in(options, &seat, cid, task_count, room)?;
        let granted = established.session.max_connections;
        if u32::from(options.connections) > granted {
            let (target, wanted) = (options.target.clone(), options.connections);
            return Err(InitiatorError::TooManyConnections { target, wanted, granted });
        }
        let tasks = vec![Operation::default(); usize::from(task_count)].into_boxed_slice();
        links.push(Link { connection, tasks, depth: usize::from(depth), load: 0 });
    }
    Ok((links, seat))
}

#[inline]
fn encode(block_size: BlockSize, io: Io) -> (u16, Cdb, Payload) {
    match io {
        Io::Read { start, count, buffer } => {
            let (blocks, len) = extent(block_size, count);
            let payload = Payload::Read(buffer.id, len);
            (buffer.connection, cdb::read(start.0, blocks), payload)
        }
        Io::Write { start, count, buffer, force_unit_access } => {
            let (blocks, len) = extent(block_size, count);
            let payload = Payload::Write(buffer.id, len);
            let flags = if force_unit_access { FORCE_UNIT_ACCESS } else { 0 };
            (buffer.connection, cdb::write(flags, start.0, blocks), payload)
        }
        Io::Flush => (0, cdb::synchronize_cache(), Payload::None),
    }
}

/// A number of blocks as the command encodes it, and in bytes.
#[inline]
fn extent(block_size: BlockSize, count: Blocks) -> (u32, u32) {
    let len = block_size.len(count).and_then(|len| u32::try_from(len.0).ok());
    let len = len.expect("a command's data is below 4 GiB");
    (u32::try_from(count.0).expect("fewer blocks than bytes"), len)
}
