//! A session with one or more connections: the owning thread submits operations and polls
//! completions.
//!
//! A buffer belongs to a connection, and an operation uses the connection of its buffer. The
//! session sends an operation again after BUSY, TASK SET FULL or a unit attention (`retries`): it
//! completes once, and its time counts from its submission.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use nearflash_iscsi::Digests;
use nearflash_iscsi::initiator::cdb::{self, Cdb};
use nearflash_iscsi::initiator::{CommandData, SubmitError, TaskCompletion, TaskId};
use nearflash_iscsi::pdu::LogoutReason;
use nearflash_session::RequestingEnd;
use nearflash_units::{BlockSize, Blocks, ByteLen, Nanos};

use super::connection::{SessionSeat, draw_isid, turn_until};
use super::error::InitiatorError;
use super::io::{Buffer, Io, IoCompletion, Token};
use super::link::{Link, Operation, open};
use super::options::{ConnectionOptions, Options};
use super::retries::{self, Retries};
use super::status::{NO_ROOM_SPAN_MAX, TaskStatus};
use super::unit::{self, LogicalUnit};
use crate::stream::{Memory as _, wait_any};

/// A session. One thread uses it at a time; dropping it closes its connections.
pub struct Session {
    links: Vec<Link>,
    /// Operations held back by the command window or by the target's lack of room, in order; those
    /// that were sent before come first.
    waiting: VecDeque<Operation>,
    /// The number of those that were sent before.
    again: usize,
    retries: Retries,
    /// The origin of the session's time.
    began: Instant,
    /// Completions that arrived during a command of the session itself.
    early: Vec<IoCompletion>,
    options: Options,
    connection_options: ConnectionOptions,
    seat: SessionSeat,
}

impl Session {
    /// Logs in with the number of connections in the options.
    ///
    /// # Errors
    /// When the target cannot be reached, or refuses a connection.
    pub fn connect(
        options: &Options,
        connection_options: ConnectionOptions,
    ) -> Result<Self, InitiatorError> {
        let (links, seat) = open(options, connection_options, draw_isid()?)?;
        let depth = links.iter().map(Link::depth).sum();
        Ok(Self {
            links,
            waiting: VecDeque::with_capacity(depth),
            again: 0,
            retries: Retries::new(depth),
            began: Instant::now(),
            early: Vec::new(),
            options: options.clone(),
            connection_options,
            seat,
        })
    }

    /// Connects again after a connection was lost, and reinstates the session: the target ends the
    /// old one before it answers. Operations that were in flight are lost: their tokens are
    /// returned, and it is unknown whether a write among them took effect, until it is written
    /// again. Buffers keep neither their numbers nor their contents.
    ///
    /// # Errors
    /// When the target cannot be reached or refuses; the session is unchanged.
    pub fn reconnect(&mut self) -> Result<Vec<Token>, InitiatorError> {
        let (links, seat) = open(&self.options, self.connection_options, self.seat.isid)?;
        let lost = self.in_flight();
        self.retries = Retries::new(links.iter().map(Link::depth).sum());
        (self.links, self.seat, self.again) = (links, seat, 0);
        self.waiting.clear();
        Ok(lost)
    }

    /// The tokens of the operations that have not completed.
    pub fn in_flight(&self) -> Vec<Token> {
        let sent = self.links.iter().flat_map(Link::in_flight);
        sent.chain(self.waiting.iter().map(Operation::token)).collect()
    }

    /// The number of connections.
    pub fn connections(&self) -> usize {
        self.links.len()
    }

    /// The number of further commands that the target's command window admits, over all
    /// connections. Some targets start with a small window and open it after a few answers, for
    /// example those of [`Self::logical_unit`].
    pub fn window(&self) -> u32 {
        self.seat.window.width()
    }

    /// The number of operations sent again, after a refusal for lack of room or a unit attention.
    pub fn sent_again(&self) -> u64 {
        self.retries.again()
    }

    /// Takes the LUN of a unit whose capacity has changed since it was read; the caller should read
    /// it again. Meanwhile, operations were executed where possible.
    pub fn poll_resized(&mut self) -> Option<u16> {
        self.retries.poll_resized()
    }

    /// The time until [`Self::poll`] has something to send even if the target sends nothing.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        Some(self.retries.opens_at()?.since(self.now()))
    }

    /// The digests in use.
    pub fn digests(&self) -> Digests {
        self.links[0].connection.session.digests()
    }

    /// Takes a page-aligned buffer of at least `len` from a connection, numbered from 0; `None`
    /// when its memory is used up.
    pub fn take_buffer(&mut self, connection: usize, len: ByteLen) -> Option<Buffer> {
        let link = self.links.get_mut(connection)?;
        let id = link.connection.memory.take(len)?;
        Some(Buffer { connection: u16::try_from(connection).expect("connections are few"), id })
    }

    /// Returns a buffer that is not in flight.
    pub fn give_back(&mut self, buffer: Buffer) {
        self.links[usize::from(buffer.connection)].connection.memory.give_back(buffer.id);
    }

    /// A buffer's bytes.
    pub fn bytes(&self, buffer: Buffer) -> &[u8] {
        self.links[usize::from(buffer.connection)].connection.memory.bytes(buffer.id)
    }

    /// A buffer's bytes, for writing while it is not in flight.
    pub fn bytes_mut(&mut self, buffer: Buffer) -> &mut [u8] {
        self.links[usize::from(buffer.connection)].connection.memory.bytes_mut(buffer.id)
    }

    /// Queues an operation; [`Self::poll`] sends it once the command window is open.
    ///
    /// # Errors
    /// When the connection's depth is reached, or it is closed.
    ///
    /// # Panics
    /// When the range is longer than its buffer, or than 4 GiB: the caller must respect
    /// [`LogicalUnit::transfer_len_max`].
    #[inline]
    pub fn submit(&mut self, token: Token, unit: &LogicalUnit, io: Io) -> Result<(), SubmitError> {
        let operation = Operation::new(token, unit, io);
        self.links[operation.link()].admit()?;
        if self.waiting.is_empty() && self.try_send(&operation) {
            return Ok(());
        }
        // It queues behind the waiting ones, so that the order is kept.
        self.waiting.push_back(operation);
        Ok(())
    }

    /// One turn: sends the queued operations, receives answers, and appends the completed
    /// operations to `completions`. Never waits. Returns whether there was progress.
    ///
    /// # Errors
    /// When a connection is lost, and with it the session. Earlier completions are appended all the
    /// same; the other operations are [`Self::in_flight`].
    #[inline]
    pub fn poll(&mut self, completions: &mut Vec<IoCompletion>) -> Result<bool, InitiatorError> {
        self.submit_waiting();
        completions.append(&mut self.early);
        let (mut moved, mut failed) = (false, None);
        for index in 0..self.links.len() {
            match self.links[index].connection.turn() {
                Ok(moves) => moved |= moves,
                Err(error) => failed = Some(error),
            }
            self.take_completions(index, completions);
        }
        match failed {
            None => Ok(moved),
            Some(error) => Err(self.lost(error.into())),
        }
    }

    /// Sends queued operations within the command window, for a caller that will not poll at once.
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

    /// The sockets, which become readable when there may be completions, for a caller that waits by
    /// other means than [`Self::wait_any`]. The flag of each says whether it has data to send that
    /// the socket has not accepted.
    pub fn sockets(&self) -> impl Iterator<Item = (BorrowedFd<'_>, bool)> {
        let connections = self.links.iter().map(|link| &link.connection);
        connections.map(|connection| (connection.socket(), connection.session.output_len() > 0))
    }

    /// Sleeps until data has arrived for one of the sessions, or for `span`; it may return early.
    /// It is for a caller that has spun as long as that pays.
    ///
    /// # Errors
    /// When the system call fails.
    pub fn wait_any(sessions: &[Self], span: Nanos) -> Result<(), InitiatorError> {
        let span = sessions.iter().filter_map(Self::poll_timeout).fold(span, Nanos::min);
        let links = sessions.iter().flat_map(|session| &session.links);
        wait_any(links.map(|link| &link.connection), span)?;
        Ok(())
    }

    /// Reads a logical unit's geometry.
    ///
    /// # Errors
    /// When the unit does not exist, or the session is lost.
    pub fn logical_unit(&mut self, lun: u16) -> Result<LogicalUnit, InitiatorError> {
        let (_, status) = self.ask(lun, cdb::test_unit_ready(), CommandData::None)?;
        if status.is_no_unit() {
            return Err(self.no_unit(lun));
        }
        self.retries.forget_resize(lun);
        let data = CommandData::SmallIncoming(32);
        let (done, status) = self.ask(lun, cdb::read_capacity(), data)?;
        if !status.is_good() {
            return Err(InitiatorError::Task { what: "READ CAPACITY", status });
        }
        let capacity = cdb::capacity(&done.data).and_then(|(blocks, block_len)| {
            Some((Blocks(blocks), BlockSize::from_bytes(block_len)?))
        });
        let Some((blocks, block_size)) = capacity else { return Err(self.no_unit(lun)) };
        let page = cdb::inquiry(Some(unit::BLOCK_LIMITS_PAGE), unit::BLOCK_LIMITS_LEN);
        let data = CommandData::SmallIncoming(u32::from(unit::BLOCK_LIMITS_LEN));
        // A unit without this page reports no limit.
        let (limits, _) = self.ask(lun, page, data)?;
        let transfer_len_max = unit::transfer_len_max(&limits.data, block_size);
        Ok(LogicalUnit { lun, blocks, block_size, transfer_len_max })
    }

    /// Reads the list of logical units.
    ///
    /// # Errors
    /// When the target refuses, or the session is lost.
    pub fn luns(&mut self) -> Result<Vec<u16>, InitiatorError> {
        let data = CommandData::SmallIncoming(unit::LUNS_LEN);
        let (done, status) = self.ask(0, cdb::report_luns(unit::LUNS_LEN), data)?;
        match status.is_good() {
            true => Ok(unit::parse_luns(&done.data)),
            false => Err(InitiatorError::Task { what: "REPORT LUNS", status }),
        }
    }

    /// Logs out: the target ends the operations in flight, and the connections are closed.
    ///
    /// # Errors
    /// When the connection is already lost, or the target does not answer.
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

    /// Sends a command of the session itself over the leading connection, and waits for the answer.
    /// After a unit attention, or a wait for lack of room, it sends the command again.
    fn ask(
        &mut self,
        lun: u16,
        cdb: Cdb,
        data: CommandData,
    ) -> Result<(TaskCompletion, TaskStatus), InitiatorError> {
        let (mut attentions, mut waits, began) = (0, retries::waits(), self.now());
        loop {
            let done = self.ask_once(lun, cdb, data.clone())?;
            let status = TaskStatus::of(&done);
            if status.is_unit_attention() && attentions < retries::ATTENTIONS_MAX {
                self.retries.hear(lun, status);
                attentions += 1;
            } else if status.is_no_room() && self.now().since(began) < NO_ROOM_SPAN_MAX {
                self.links[0].connection.turn_until(waits.next_wait(), |_| false)?;
            } else {
                return Ok((done, status));
            }
        }
    }

    fn ask_once(
        &mut self,
        lun: u16,
        cdb: Cdb,
        data: CommandData,
    ) -> Result<TaskCompletion, InitiatorError> {
        let timeout = self.options.timeout;
        let id = self.links[0].ask(lun, &cdb, data)?;
        let connection = &mut self.links[0].connection;
        let (mut answer, mut others) = (None, Vec::new());
        let turned = turn_until(connection, "a question", timeout, |connection| {
            while let Some(done) = connection.session.poll_completion() {
                if done.id == id { answer = Some(done) } else { others.push(done) }
            }
            answer.is_some()
        });
        let mut early = std::mem::take(&mut self.early);
        others.iter().for_each(|done| self.end(0, done, &mut early));
        self.early = early;
        turned?;
        Ok(answer.expect("it was awaited"))
    }

    /// Sends the operations that were held back, as far as window and target have room by now.
    #[inline]
    fn submit_waiting(&mut self) {
        if self.retries.opens_at().is_some() {
            self.retries.handle_timeout(self.now());
        }
        while let Some(operation) = self.waiting.front().copied() {
            if !self.try_send(&operation) {
                return;
            }
            self.waiting.pop_front();
            self.again = self.again.saturating_sub(1);
        }
    }

    #[inline]
    fn try_send(&mut self, operation: &Operation) -> bool {
        let is_sent = self.retries.admits() && self.links[operation.link()].try_send(operation);
        if is_sent {
            self.retries.sent();
        }
        is_sent
    }

    #[inline]
    fn take_completions(&mut self, link: usize, completions: &mut Vec<IoCompletion>) {
        while let Some(done) = self.links[link].connection.session.poll_completion() {
            self.end(link, &done, completions);
        }
        // The caller does not wait for asynchronous events; the answers to commands report all that
        // matters.
        while self.links[link].connection.session.poll_event().is_some() {}
    }

    /// Ends a task, and with it its operation, unless that is sent again.
    #[inline]
    fn end(&mut self, link: usize, done: &TaskCompletion, completions: &mut Vec<IoCompletion>) {
        let Some(token) = self.links[link].answered(done.id) else { return };
        let status = TaskStatus::of(done);
        if status.is_good() {
            self.retries.done();
        } else if self.keeps(link, done.id, status) {
            return;
        }
        self.links[link].leave();
        completions.push(IoCompletion { token, status });
    }

    /// Queues a failed operation to be sent again, before those that were never sent, if that may
    /// help. Returns whether it is queued.
    #[cold]
    fn keeps(&mut self, link: usize, id: TaskId, status: TaskStatus) -> bool {
        let (mut operation, now) = (self.links[link].operation(id), self.now());
        let is_again = self.retries.is_again(&mut operation.trials, operation.lun, status, now);
        if is_again {
            self.waiting.insert(self.again, operation);
            self.again += 1;
        }
        is_again
    }

    fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    #[cold]
    fn lost(&self, error: InitiatorError) -> InitiatorError {
        match self.in_flight().len() {
            0 => error,
            in_flight => InitiatorError::Lost { source: Box::new(error), in_flight },
        }
    }
}
