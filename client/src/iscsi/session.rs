//! A session of one connection or several: operations in, completions out, polled by the thread
//! that owns it.
//!
//! A buffer belongs to a connection, and an operation goes over its buffer's.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

use nearflash_iscsi::Digests;
use nearflash_iscsi::initiator::cdb::{self, Cdb, FORCE_UNIT_ACCESS};
use nearflash_iscsi::initiator::{SubmitError, TaskCompletion, TaskData, TaskId};
use nearflash_iscsi::login::SessionKind;
use nearflash_iscsi::pdu::LogoutReason;
use nearflash_request::BufferId;
use nearflash_units::{BlockSize, Blocks, ByteLen, Lba, Nanos};

use super::connection::{Connection, SessionSeat, draw_isid, log_in, turn_until};
use super::error::InitiatorError;
use super::options::{ConnectionOptions, Options};
use super::status::TaskStatus;
use super::unit::{self, LogicalUnit};
use crate::memory::{Memory, index};
use crate::stream::{Memory as _, Place, wait_any};

/// The caller's own number for an operation; comes back with its completion.
pub type Token = u64;

/// How much is received beside payload that is awaited: what 60 answers of 4 KiB take, and still
/// in the second-level cache.
const STAGING_LEN: usize = 256 * 1024;
/// Questions beside operations: they come one after the other.
const QUESTIONS_MAX: u16 = 1;
/// A unit has so many things to say at most before it answers a question.
const ATTENTIONS_MAX: usize = 16;

/// A place for an operation's payload: a connection's, page-aligned.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Buffer {
    connection: u16,
    id: BufferId,
}

/// What is asked of a logical unit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Io {
    /// Blocks into a buffer.
    Read {
        /// The first block.
        start: Lba,
        /// How many.
        count: Blocks,
        /// Holds at least that many.
        buffer: Buffer,
    },
    /// Blocks from a buffer.
    Write {
        /// The first block.
        start: Lba,
        /// How many.
        count: Blocks,
        /// Holds at least that many.
        buffer: Buffer,
        /// On stable media before the completion.
        force_unit_access: bool,
    },
    /// All that was completed before is on stable media before the completion.
    Flush,
}

/// An operation is over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct IoCompletion {
    /// The caller's.
    pub token: Token,
    /// How it ended.
    pub status: TaskStatus,
}

/// What is remembered of a task.
#[derive(Clone, Copy, Debug, Default)]
struct InFlight {
    token: Token,
    /// Of a read.
    read_into: Option<BufferId>,
}

/// A task that the command window keeps back.
#[derive(Clone, Debug)]
struct Waiting {
    link: usize,
    token: Token,
    lun: u16,
    cdb: Cdb,
    data: TaskData,
}

/// A connection and what is in flight on it.
struct Link {
    connection: Connection,
    /// By task.
    tasks: Box<[InFlight]>,
    /// How many may be in flight, and how many are or wait for it.
    depth: usize,
    load: usize,
}

/// The session. One thread's; dropping it closes its connections.
pub struct Session {
    links: Vec<Link>,
    waiting: VecDeque<Waiting>,
    /// What ended while a question was asked.
    early: Vec<IoCompletion>,
    options: Options,
    connection_options: ConnectionOptions,
    seat: SessionSeat,
}

impl Session {
    /// Logs in with as many connections as the options say.
    ///
    /// # Errors
    /// When the target cannot be reached, or refuses a connection.
    pub fn connect(
        options: &Options,
        connection_options: ConnectionOptions,
    ) -> Result<Self, InitiatorError> {
        let (links, seat) = open(options, connection_options, draw_isid()?)?;
        Ok(Self {
            links,
            waiting: VecDeque::new(),
            early: Vec::new(),
            options: options.clone(),
            connection_options,
            seat,
        })
    }

    /// Connects again, after a connection was lost, in the old session's place: the target ends
    /// what is left of that before it answers. Operations that were in flight are lost: their tokens
    /// are returned, and whether a write among them took effect is unknown until it is written
    /// again. Buffers keep neither number nor contents.
    ///
    /// # Errors
    /// When the target cannot be reached or refuses; the session is as it was.
    pub fn reconnect(&mut self) -> Result<Vec<Token>, InitiatorError> {
        let (links, seat) = open(&self.options, self.connection_options, self.seat.isid)?;
        let lost = self.in_flight();
        (self.links, self.seat) = (links, seat);
        self.waiting.clear();
        Ok(lost)
    }

    /// The tokens of the operations that are not over.
    pub fn in_flight(&self) -> Vec<Token> {
        let sent = self.links.iter().flat_map(|link| {
            let ids = link.connection.session.in_flight();
            ids.map(|id| link.tasks[usize::from(id.0)].token)
        });
        sent.chain(self.waiting.iter().map(|waiting| waiting.token)).collect()
    }

    /// How many connections it has.
    pub fn connections(&self) -> usize {
        self.links.len()
    }

    /// How many commands more the target takes now, over all connections. Some begin with few and
    /// take more once they have answered some, as in [`Self::logical_unit`].
    pub fn window(&self) -> u32 {
        self.seat.window.width()
    }

    /// The digests in use.
    pub fn digests(&self) -> Digests {
        self.links[0].connection.session.digests()
    }

    /// A page-aligned buffer of at least `len` of a connection, from 0; `None` when that one's
    /// memory is used up.
    pub fn take_buffer(&mut self, connection: usize, len: ByteLen) -> Option<Buffer> {
        let link = self.links.get_mut(connection)?;
        let id = link.connection.memory.take(len)?;
        Some(Buffer { connection: u16::try_from(connection).expect("connections are few"), id })
    }

    /// Gives a buffer back that is not in flight.
    pub fn give_back(&mut self, buffer: Buffer) {
        self.links[usize::from(buffer.connection)].connection.memory.give_back(buffer.id);
    }

    /// A buffer's bytes.
    pub fn bytes(&self, buffer: Buffer) -> &[u8] {
        self.links[usize::from(buffer.connection)].connection.memory.bytes(buffer.id)
    }

    /// A buffer's bytes, to fill while it is not in flight.
    pub fn bytes_mut(&mut self, buffer: Buffer) -> &mut [u8] {
        self.links[usize::from(buffer.connection)].connection.memory.bytes_mut(buffer.id)
    }

    /// Queues an operation; [`Self::poll`] sends it, as soon as the target's window is open.
    ///
    /// # Errors
    /// When as many operations are in flight as the connection holds, or it is no longer connected.
    ///
    /// # Panics
    /// When the range is longer than its buffer, or than 4 GiB: a mistake of the caller, who knows
    /// [`LogicalUnit::transfer_len_max`].
    #[inline]
    pub fn submit(&mut self, token: Token, unit: &LogicalUnit, io: Io) -> Result<(), SubmitError> {
        let (link, cdb, data) = encode(unit.block_size, io);
        let Link { connection, load, depth, .. } = &mut self.links[link];
        if load == depth {
            return Err(SubmitError::QueueFull);
        }
        if !connection.session.is_ready() {
            return Err(SubmitError::NotReady);
        }
        *load += 1;
        let waiting = Waiting { link, token, lun: unit.lun, cdb, data };
        if self.waiting.is_empty() && self.links[link].try_submit(&waiting).is_ok() {
            return Ok(());
        }
        // Behind those that wait already: nothing overtakes.
        self.waiting.push_back(waiting);
        Ok(())
    }

    /// One turn: sends what is queued, takes what has arrived, and appends what is over to
    /// `completions`. Never waits. Whether anything moved.
    ///
    /// # Errors
    /// When a connection is lost, and with it the session. Completions that came before are there
    /// all the same; what is left is [`Self::in_flight`].
    #[inline]
    pub fn poll(&mut self, completions: &mut Vec<IoCompletion>) -> Result<bool, InitiatorError> {
        self.submit_waiting();
        completions.append(&mut self.early);
        let (mut moved, mut failed) = (false, None);
        for link in &mut self.links {
            match link.connection.turn() {
                Ok(moves) => moved |= moves,
                Err(error) => failed = Some(error),
            }
            link.take_completions(completions);
        }
        match failed {
            None => Ok(moved),
            Some(error) => Err(self.lost(error.into())),
        }
    }

    /// Sends what is queued and fits the target's window, for who will not poll at once.
    ///
    /// # Errors
    /// When a connection is lost, and with it the session.
    #[inline]
    pub fn send(&mut self) -> Result<(), InitiatorError> {
        self.submit_waiting();
        let mut sends = self.links.iter_mut().map(|link| link.connection.send());
        match sends.find_map(Result::err) {
            None => Ok(()),
            Some(error) => Err(self.lost(error.into())),
        }
    }

    /// What becomes readable when there may be something to poll, for who waits by other means than
    /// [`Self::wait_any`]; of each connection, and whether it has something to send that its socket
    /// did not take.
    pub fn sockets(&self) -> impl Iterator<Item = (BorrowedFd<'_>, bool)> {
        let connections = self.links.iter().map(|link| &link.connection);
        connections.map(|connection| (connection.socket(), connection.session.output_len() > 0))
    }

    /// Sleeps until something has arrived for one of the sessions, or for `span`. May return early.
    /// For a caller that has spun for as long as it pays.
    ///
    /// # Errors
    /// When the system cannot wait.
    pub fn wait_any(sessions: &[Self], span: Nanos) -> Result<(), InitiatorError> {
        let links = sessions.iter().flat_map(|session| &session.links);
        wait_any(links.map(|link| &link.connection), span)?;
        Ok(())
    }

    /// A logical unit's geometry.
    ///
    /// # Errors
    /// When there is no such unit, or the session is lost.
    pub fn logical_unit(&mut self, lun: u16) -> Result<LogicalUnit, InitiatorError> {
        let (_, status) = self.ask(lun, cdb::test_unit_ready(), TaskData::None)?;
        if status.is_no_unit() {
            return Err(self.no_unit(lun));
        }
        let data = TaskData::SmallToInitiator { len: 32 };
        let (done, status) = self.ask(lun, cdb::read_capacity(), data)?;
        if !status.is_good() {
            return Err(InitiatorError::Task { what: "READ CAPACITY", status });
        }
        let capacity = cdb::capacity(&done.data).and_then(|(blocks, block_len)| {
            Some((Blocks(blocks), BlockSize::from_bytes(block_len)?))
        });
        let Some((blocks, block_size)) = capacity else { return Err(self.no_unit(lun)) };
        let page = cdb::inquiry(Some(unit::BLOCK_LIMITS_PAGE), unit::BLOCK_LIMITS_LEN);
        let data = TaskData::SmallToInitiator { len: u32::from(unit::BLOCK_LIMITS_LEN) };
        // A unit without such a page says no limit.
        let (limits, _) = self.ask(lun, page, data)?;
        let transfer_len_max = unit::transfer_len_max(&limits.data, block_size);
        Ok(LogicalUnit { lun, blocks, block_size, transfer_len_max })
    }

    /// The logical units that there are.
    ///
    /// # Errors
    /// When the target refuses, or the session is lost.
    pub fn luns(&mut self) -> Result<Vec<u16>, InitiatorError> {
        let data = TaskData::SmallToInitiator { len: unit::LUNS_LEN };
        let (done, status) = self.ask(0, cdb::report_luns(unit::LUNS_LEN), data)?;
        match status.is_good() {
            true => Ok(unit::parse_luns(&done.data)),
            false => Err(InitiatorError::Task { what: "REPORT LUNS", status }),
        }
    }

    /// Leaves in good order: what is in flight is given up, and the connections are closed.
    ///
    /// # Errors
    /// When the target is gone already, or does not answer.
    pub fn log_out(mut self) -> Result<(), InitiatorError> {
        let timeout = self.options.timeout;
        let leading = &mut self.links[0].connection;
        leading.session.logout(LogoutReason::SESSION)?;
        turn_until(leading, "the logout", timeout, |connection| connection.session.is_closing())
    }

    fn no_unit(&mut self, lun: u16) -> InitiatorError {
        let there = match self.luns() {
            Ok(luns) if luns.is_empty() => "there is none".to_owned(),
            Ok(luns) => {
                let luns: Vec<String> = luns.iter().map(u16::to_string).collect();
                format!("there are {}", luns.join(", "))
            }
            Err(error) => error.to_string(),
        };
        InitiatorError::NoUnit { lun, there }
    }

    /// Asks over the leading connection and waits for the answer. What the unit has to say first is
    /// heard, and the question asked again.
    fn ask(
        &mut self,
        lun: u16,
        cdb: Cdb,
        data: TaskData,
    ) -> Result<(TaskCompletion, TaskStatus), InitiatorError> {
        let mut attentions = 0;
        loop {
            let done = self.ask_once(lun, cdb, data.clone())?;
            let status = TaskStatus::of(&done);
            if !status.is_unit_attention() || attentions == ATTENTIONS_MAX {
                return Ok((done, status));
            }
            attentions += 1;
        }
    }

    fn ask_once(
        &mut self,
        lun: u16,
        cdb: Cdb,
        data: TaskData,
    ) -> Result<TaskCompletion, InitiatorError> {
        let (timeout, early) = (self.options.timeout, &mut self.early);
        let Link { connection, tasks, load, .. } = &mut self.links[0];
        let id = connection.session.submit(lun, &cdb, data, &[])?;
        let mut answer = None;
        turn_until(connection, "a question", timeout, |connection| {
            while let Some(done) = connection.session.poll_completion() {
                if done.id == id {
                    answer = Some(done);
                } else {
                    *load -= 1;
                    early.push(over(connection, tasks, &done));
                }
            }
            answer.is_some()
        })?;
        Ok(answer.expect("it was awaited"))
    }

    /// What the window kept back, as far as it is open by now.
    #[inline]
    fn submit_waiting(&mut self) {
        while let Some(waiting) = self.waiting.front() {
            if self.links[waiting.link].try_submit(waiting).is_err() {
                return;
            }
            self.waiting.pop_front();
        }
    }

    #[cold]
    fn lost(&self, error: InitiatorError) -> InitiatorError {
        match self.in_flight().len() {
            0 => error,
            in_flight => InitiatorError::Lost { source: Box::new(error), in_flight },
        }
    }
}

impl Link {
    /// Fails when the window is closed.
    #[inline]
    fn try_submit(&mut self, waiting: &Waiting) -> Result<(), SubmitError> {
        let Waiting { token, lun, cdb, data, .. } = waiting;
        let connection = &mut self.connection;
        let mut read = None;
        let payload = match *data {
            TaskData::FromInitiator { buffer, len } => {
                &connection.memory.bytes(buffer)[..index(len)]
            }
            TaskData::ToInitiator { buffer, len } => {
                let place = Place { buffer, len: index(len) };
                assert!(place.len <= connection.memory.bytes(buffer).len(), "it fits");
                read = Some(place);
                &[]
            }
            _ => &[][..],
        };
        let id: TaskId = connection.session.submit(*lun, cdb, data.clone(), payload)?;
        let read_into = read.map(|place| place.buffer);
        self.tasks[usize::from(id.0)] = InFlight { token: *token, read_into };
        if let Some(place) = read {
            connection.forecast.asked(place);
        }
        Ok(())
    }

    #[inline]
    fn take_completions(&mut self, completions: &mut Vec<IoCompletion>) {
        let connection = &mut self.connection;
        while let Some(done) = connection.session.poll_completion() {
            self.load -= 1;
            completions.push(over(connection, &self.tasks, &done));
        }
        // Nobody here waits for what a target reports unasked; commands are told what matters.
        while connection.session.poll_event().is_some() {}
    }
}

#[inline]
fn over(connection: &mut Connection, tasks: &[InFlight], done: &TaskCompletion) -> IoCompletion {
    let InFlight { token, read_into } = tasks[usize::from(done.id.0)];
    if let Some(buffer) = read_into {
        connection.forecast.answered(buffer);
    }
    IoCompletion { token, status: TaskStatus::of(done) }
}

/// Logs in with all connections; they, and what they have in common.
fn open(
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
        let tasks = vec![InFlight::default(); usize::from(task_count)].into_boxed_slice();
        links.push(Link { connection, tasks, depth: usize::from(depth), load: 0 });
    }
    Ok((links, seat))
}

#[inline]
fn encode(block_size: BlockSize, io: Io) -> (usize, Cdb, TaskData) {
    match io {
        Io::Read { start, count, buffer } => {
            let (blocks, len) = extent(block_size, count);
            let data = TaskData::ToInitiator { buffer: buffer.id, len };
            (usize::from(buffer.connection), cdb::read(start.0, blocks), data)
        }
        Io::Write { start, count, buffer, force_unit_access } => {
            let (blocks, len) = extent(block_size, count);
            let data = TaskData::FromInitiator { buffer: buffer.id, len };
            let flags = if force_unit_access { FORCE_UNIT_ACCESS } else { 0 };
            (usize::from(buffer.connection), cdb::write(flags, start.0, blocks), data)
        }
        Io::Flush => (0, cdb::synchronize_cache(), TaskData::None),
    }
}

/// A count of blocks as a command holds it, and in bytes.
#[inline]
fn extent(block_size: BlockSize, count: Blocks) -> (u32, u32) {
    let len = block_size.len(count).and_then(|len| u32::try_from(len.0).ok());
    let len = len.expect("a command's data is below 4 GiB");
    (u32::try_from(count.0).expect("fewer blocks than bytes"), len)
}
