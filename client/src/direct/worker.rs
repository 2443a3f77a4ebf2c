//! A queue pair that serves blocking calls, one after the other.
//!
//! A call is cut into pieces, several of which are in flight at a time. A call that fails waits for
//! its pieces in flight first, so that none of them takes effect afterwards. A call that is late
//! gives its connection up instead: until the next connection is ready, no other call begins.

use std::io::IoSliceMut;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nearflash_direct::{Seal, Status};

use super::buffer::Buffer;
use super::completion::{Completion, Token};
use super::error::{Error, LATE, Lost};
use super::objects::Objects;
use super::pieces::{Piece, Pieces, ZERO_LEN, part, step_of, whole_blocks};
use super::queue_pair::QueuePair;
use super::slices::{Source, len_of, scatter};
use super::volume_info::VolumeInfo;

/// The most pieces in flight.
pub(super) const WORKER_DEPTH: u32 = 8;
/// The length of pieces, where the protocol cuts payload.
const PIECE_LEN: u32 = 1 << 20;
/// The shortest buffer: buffers are kept between calls, and this length makes them fit the next
/// call.
const BUFFER_LEN_MIN: usize = 16 * 1024;
/// The maximum number of repetitions of a read over new connections.
const REPEATS_MAX: u32 = 8;
/// The number of polls without a completion between two looks at the clock.
const IDLE_POLLS_PER_CLOCK: u32 = 16;

/// An operation without payload.
#[derive(Clone, Copy, Debug)]
pub(super) enum Job {
    Flush,
    Discard { offset: u64, len: u64 },
    Zero { offset: u64, len: u64 },
    CompareAndSwap { offset: u64, expected: u64, new: u64 },
    FetchAdd { offset: u64, addend: u64 },
}

/// How a worker replaces a lost connection.
pub(super) enum Reconnection {
    /// It connects again.
    Free,
    /// Every call after the loss fails.
    #[cfg(feature = "ownership")]
    Never,
    /// It connects again if the application still owns the volume.
    #[cfg(feature = "ownership")]
    AsOwner(Box<dyn Owner>),
}

/// The owner of a volume, as a worker asks it.
#[cfg(feature = "ownership")]
pub(super) trait Owner: Send + Sync {
    /// Refuses every call once another owner is known.
    fn check(&self, deadline: Option<Instant>) -> Result<(), Error>;
    /// Connects again, if the volume is still this process's.
    fn reconnect(&self, pair: &mut QueuePair, deadline: Option<Instant>) -> Result<(), Error>;
}

/// The queue pair, and the state that is kept between calls.
pub(super) struct Worker {
    pair: QueuePair,
    reconnection: Reconnection,
    spin_max: Duration,
    /// The end of the current call's time.
    deadline: Option<Instant>,
    buffers: Vec<Buffer>,
    done: Vec<Completion>,
    /// The pieces in flight, by token index.
    pieces: Vec<Piece>,
    /// The number of lost connections that were replaced, since the last look.
    replaced: u64,
    /// Those of them with which writes may have been lost.
    losses: u64,
    /// The node's number at the last connection that could be used.
    boot: u64,
    /// The sealed objects that are open.
    objects: Objects,
}

impl Worker {
    pub(super) fn new(pair: QueuePair, spin_max: Duration, reconnection: Reconnection) -> Self {
        let idle = Piece { start: 0, len: 0 };
        let pieces = vec![idle; usize::try_from(WORKER_DEPTH).expect("a small constant")];
        Self {
            boot: pair.boot(),
            pair,
            reconnection,
            spin_max,
            deadline: None,
            buffers: Vec::new(),
            done: Vec::new(),
            pieces,
            replaced: 0,
            losses: 0,
            objects: Objects::default(),
        }
    }

    pub(super) fn info(&self) -> VolumeInfo {
        self.pair.info()
    }

    /// The number of lost connections that were replaced since the last call of this function.
    pub(super) fn take_replaced(&mut self) -> u64 {
        std::mem::take(&mut self.replaced)
    }

    /// The number of them with which writes may have been lost, since the last call of this function.
    pub(super) fn take_losses(&mut self) -> u64 {
        std::mem::take(&mut self.losses)
    }

    /// Begins a call that has until `deadline`.
    pub(super) fn begin(&mut self, deadline: Option<Instant>) {
        self.deadline = deadline;
    }

    /// Fills all slices. Pieces lost with a connection are read again over the next.
    pub(super) fn read(&mut self, slices: &mut [IoSliceMut<'_>], offset: u64) -> Result<(), Error> {
        let mut pieces =
            Pieces::new(offset, len_of(slices.iter().map(|slice| &**slice)), PIECE_LEN);
        let mut again = Vec::new();
        let mut repeats = 0;
        loop {
            self.heal()?;
            let mut outcome = Outcome::default();
            while outcome.error.is_none() {
                let Some(piece) = again.pop().or_else(|| pieces.next()) else { break };
                match self.post_read(piece, offset) {
                    Ok(()) if !self.is_full() => continue,
                    Ok(()) => {}
                    Err(error) => {
                        again.push(piece);
                        outcome.not_posted(error, self.pair.in_flight());
                    }
                }
                self.finish_reads(slices, &mut again, &mut outcome);
            }
            while self.pair.in_flight() > 0 {
                self.finish_reads(slices, &mut again, &mut outcome);
            }
            match outcome.error {
                None => return Ok(()),
                Some(Error::ConnectionLost(lost))
                    if lost != Lost::TimedOut && repeats < REPEATS_MAX =>
                {
                    repeats += 1;
                }
                Some(error) => return Err(error),
            }
        }
    }

    /// Writes all of the source; no piece is written twice.
    pub(super) fn write(
        &mut self,
        source: Source<'_>,
        offset: u64,
        is_durable: bool,
    ) -> Result<(), Error> {
        self.heal()?;
        let mut outcome = Outcome::default();
        let mut pieces = Pieces::new(offset, source.len(), PIECE_LEN);
        let mut again = None;
        while outcome.error.is_none() {
            let Some(piece) = again.take().or_else(|| pieces.next()) else { break };
            match self.post_write(piece, source, offset, is_durable) {
                Ok(_) if !self.is_full() => continue,
                Ok(_) => {}
                Err(error) => {
                    again = Some(piece);
                    let error = error.after_changes(piece.start > 0);
                    outcome.not_posted(error, self.pair.in_flight());
                }
            }
            self.finish(&mut outcome);
        }
        self.finish_all(outcome).map(|_| ())
    }

    /// Zeroes a range. The bytes of whole blocks are not sent, if the node can do without them.
    pub(super) fn zero(&mut self, offset: u64, len: u64) -> Result<(), Error> {
        self.heal()?;
        let blocks = whole_blocks(offset, len, self.info().block_size);
        let Some(blocks) = blocks.filter(|_| self.pair.can_zero()) else {
            return self.write_zeroes(offset, len);
        };
        self.write_zeroes(offset, blocks.start - offset)?;
        let mut at = blocks.start;
        while at < blocks.end {
            let part = part(at, blocks.end - at, ZERO_LEN);
            let zeroed = self.one(Job::Zero { offset: at, len: part });
            zeroed.map_err(|error| error.after_changes(at > offset))?;
            at += part;
        }
        let rest = self.write_zeroes(blocks.end, offset + len - blocks.end);
        rest.map_err(|error| error.after_changes(true))
    }

    fn write_zeroes(&mut self, offset: u64, len: u64) -> Result<(), Error> {
        let out_of_range = |_| Error::Status(Status::OUT_OF_RANGE);
        let len = usize::try_from(len).map_err(out_of_range)?;
        self.write(Source::Zeroes(len), offset, false)
    }

    /// Discards a range in as many operations as necessary.
    pub(super) fn discard(&mut self, offset: u64, len: u64) -> Result<(), Error> {
        let step = step_of(self.pair.len_max());
        let mut done = 0;
        while done < len {
            let at = offset.saturating_add(done);
            let part = part(at, len - done, step);
            let discarded = self.one(Job::Discard { offset: at, len: part });
            discarded.map_err(|error| error.after_changes(done > 0))?;
            done += part;
        }
        Ok(())
    }

    /// Executes one operation. Returns the previous word of an atomic operation.
    pub(super) fn one(&mut self, job: Job) -> Result<u64, Error> {
        self.heal()?;
        match job {
            Job::Flush => self.pair.post_flush(),
            Job::Discard { offset, len } => self.pair.post_discard(offset, len),
            Job::Zero { offset, len } => self.pair.post_write_zeroes(offset, len),
            Job::CompareAndSwap { offset, expected, new } => {
                self.pair.post_compare_and_swap(offset, expected, new)
            }
            Job::FetchAdd { offset, addend } => self.pair.post_fetch_add(offset, addend),
        }?;
        self.finish_all(Outcome::default())
    }

    /// Asks the node something, such as to revoke a seal. A question that was lost with its connection is asked
    /// again over the next one: the same question twice has the effect of one.
    pub(super) fn ask<T>(
        &mut self,
        ask: impl Fn(&mut QueuePair) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut repeats = 0;
        loop {
            self.heal()?;
            match ask(&mut self.pair) {
                Err(_) if self.pair.is_lost() && repeats < REPEATS_MAX => repeats += 1,
                answer => return answer,
            }
        }
    }

    /// Works on a sealed object, which is opened if it is not open.
    pub(super) fn on_object<T>(
        &mut self,
        seal: &Arc<Seal>,
        work: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let handle = match self.objects.find(seal) {
            Some(handle) => handle,
            None => {
                let handle = self.ask(|pair| pair.open_sealed(seal))?;
                if let Some(oldest) = self.objects.add(seal, handle) {
                    self.pair.close(oldest);
                }
                handle
            }
        };
        let own = self.pair.aim(handle);
        let worked = work(self);
        self.pair.aim(own);
        // If the seal is still good, the next call opens it again.
        if matches!(worked, Err(Error::Status(_)))
            && let Some(handle) = self.objects.remove(seal)
        {
            self.pair.close(handle);
        }
        worked
    }

    /// Whether the connection is lost, so that operations may still be under way.
    pub(super) fn is_lost(&self) -> bool {
        self.pair.is_lost()
    }

    /// Connects again if the connection is lost.
    pub(super) fn heal(&mut self) -> Result<(), Error> {
        if self.is_late() {
            return Err(LATE);
        }
        self.check_ownership()?;
        if !self.pair.is_lost() {
            return Ok(());
        }
        // The buffers may be in memory that was shared over the old connection.
        self.buffers.clear();
        match &self.reconnection {
            Reconnection::Free => self.pair.reconnect_until(self.deadline),
            #[cfg(feature = "ownership")]
            Reconnection::Never => Err(Error::ConnectionLost(Lost::Closed)),
            #[cfg(feature = "ownership")]
            Reconnection::AsOwner(owner) => owner.reconnect(&mut self.pair, self.deadline),
        }?;
        self.replaced += 1;
        // A node that still has the number has lost nothing that it had answered.
        if self.boot == 0 || self.boot != self.pair.boot() {
            self.losses += 1;
        }
        self.boot = self.pair.boot();
        Ok(())
    }

    /// Refuses every call of an owner once another owner is known.
    #[cfg(feature = "ownership")]
    fn check_ownership(&self) -> Result<(), Error> {
        match &self.reconnection {
            Reconnection::AsOwner(owner) => owner.check(self.deadline),
            _ => Ok(()),
        }
    }

    #[cfg(not(feature = "ownership"))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "as with the feature")]
    fn check_ownership(&self) -> Result<(), Error> {
        Ok(())
    }

    fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    fn is_full(&self) -> bool {
        self.pair.in_flight() >= self.pair.depth()
    }

    fn post_read(&mut self, piece: Piece, offset: u64) -> Result<(), Error> {
        let buffer = self.take_buffer(piece.len)?;
        let token = self.pair.post_read_at(buffer, piece.offset(offset))?;
        self.pieces[token.index()] = piece;
        Ok(())
    }

    fn post_write(
        &mut self,
        piece: Piece,
        source: Source<'_>,
        offset: u64,
        is_durable: bool,
    ) -> Result<Token, Error> {
        let mut buffer = self.take_buffer(piece.len)?;
        source.copy(piece.start, &mut buffer);
        let offset = piece.offset(offset);
        Ok(match is_durable {
            true => self.pair.post_write_durable_at(buffer, offset),
            false => self.pair.post_write_at(buffer, offset),
        }?)
    }

    fn take_buffer(&mut self, len: usize) -> Result<Buffer, Error> {
        let kept = self.buffers.pop().filter(|buffer| buffer.capacity() >= len);
        let mut buffer = match kept {
            Some(buffer) => buffer,
            None => self.pair.buffer(len.next_power_of_two().max(BUFFER_LEN_MIN))?,
        };
        buffer.set_len(len);
        Ok(buffer)
    }

    /// Waits for some of the reads in flight, and copies their data to the call's slices. Lost reads
    /// are added to `again`.
    fn finish_reads(
        &mut self,
        slices: &mut [IoSliceMut<'_>],
        again: &mut Vec<Piece>,
        outcome: &mut Outcome,
    ) {
        outcome.note(self.await_some());
        for Completion { token, result, buffer, .. } in self.done.drain(..) {
            let piece = self.pieces[token.index()];
            match (&result, &buffer) {
                (Ok(_), Some(buffer)) => scatter(slices, piece.start, buffer),
                (Err(Error::ConnectionLost(_)), _) => again.push(piece),
                _ => {}
            }
            outcome.note(result.map(|_| ()));
            self.buffers.extend(buffer);
        }
    }

    /// Waits for some operations.
    fn finish(&mut self, outcome: &mut Outcome) {
        outcome.note(self.await_some());
        for Completion { result, buffer, .. } in self.done.drain(..) {
            outcome.value = result.as_ref().copied().unwrap_or(outcome.value);
            outcome.note(result.map(|_| ()));
            self.buffers.extend(buffer);
        }
    }

    fn finish_all(&mut self, mut outcome: Outcome) -> Result<u64, Error> {
        while self.pair.in_flight() > 0 {
            self.finish(&mut outcome);
        }
        outcome.error.map_or(Ok(outcome.value), Err)
    }

    /// Waits for completions: spins up to `spin_max`, then sleeps. It does not spin on the processor of the
    /// node's core. At the deadline it gives the connection up.
    fn await_some(&mut self) -> Result<(), Error> {
        let mut spinning_since = None;
        let mut idle = 0u32;
        while self.pair.in_flight() > 0 && self.pair.poll(&mut self.done)? == 0 {
            idle += 1;
            let gives_way = self.pair.shares_processor();
            if gives_way || idle.is_multiple_of(IDLE_POLLS_PER_CLOCK) {
                let now = Instant::now();
                let since = *spinning_since.get_or_insert(now);
                if self.is_late() {
                    self.pair.lose(Lost::TimedOut);
                } else if gives_way || now - since >= self.spin_max {
                    let left = |deadline: Instant| deadline.saturating_duration_since(now);
                    let left = self.deadline.map_or(Duration::MAX, left);
                    self.pair.wait(left)?;
                }
            }
        }
        Ok(())
    }
}

/// The outcome of a call's pieces.
#[derive(Default)]
struct Outcome {
    /// The gravest error.
    error: Option<Error>,
    value: u64,
}

impl Outcome {
    /// Records that a post was refused with `in_flight` operations in flight. A full queue (the
    /// node may have lowered its credits) or a lack of memory is not an error while there are
    /// operations to wait for.
    fn not_posted(&mut self, error: Error, in_flight: u32) {
        let may_pass = matches!(error, Error::QueueFull { .. } | Error::NoMemory { .. });
        if in_flight == 0 || !may_pass {
            self.note(Err(error));
        }
    }

    /// Records a result. An unknown outcome is the gravest error, and a lost connection the least
    /// grave.
    fn note(&mut self, result: Result<(), Error>) {
        let gravity = |error: &Error| match error {
            Error::Unknown(_) => 2,
            Error::ConnectionLost(_) => 0,
            _ => 1,
        };
        if let Err(error) = result
            && self.error.as_ref().is_none_or(|worst| gravity(worst) < gravity(&error))
        {
            self.error = Some(error);
        }
    }
}
