//! An I/O queue pair: the owning thread submits commands and polls completions.

use std::os::fd::BorrowedFd;

use nearflash_nvme::{Command, NamespaceId, QueueId, Status};
use nearflash_nvme_tcp::host::{CommandData, HostConfig, SubmitError};
use nearflash_nvme_tcp::pdu::DataAlignment;
use nearflash_request::BufferId;
use nearflash_units::{Blocks, ByteLen, Lba, Nanos};

use super::connection::{self, Connection, QueueSeat, join};
use super::controller::Controller;
use super::error::HostError;
use super::namespace::Namespace;
use super::options::QueueOptions;
use crate::memory::{Memory, index};
use crate::stream::{Memory as _, Place, wait_any};

/// The caller's number for a command, which its completion returns.
pub type Token = u64;

/// The maximum number of bytes received in addition to expected payload: 60 answers of 4 KiB, which
/// still fit the second-level cache.
const STAGING_LEN: usize = 256 * 1024;

/// A command for a namespace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[allow(missing_docs, reason = "the names say what the fields are")]
pub enum Io {
    /// Reads blocks into a buffer.
    Read {
        start: Lba,
        count: Blocks,
        /// The buffer, with room for all blocks.
        buffer: BufferId,
    },
    /// Writes blocks from a buffer.
    Write {
        start: Lba,
        count: Blocks,
        /// The buffer, with all blocks.
        buffer: BufferId,
        /// Whether the blocks are on stable media before the completion.
        force_unit_access: bool,
    },
    /// Compares blocks with a buffer; succeeds only if they are equal.
    Compare {
        start: Lba,
        count: Blocks,
        /// The buffer, with all blocks.
        buffer: BufferId,
    },
    /// Zeroes blocks.
    WriteZeroes {
        start: Lba,
        count: Blocks,
        /// Whether the device may deallocate the blocks.
        deallocate: bool,
    },
    /// Makes every command that has completed before durable on stable media.
    Flush,
}

/// The completion of a command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct IoCompletion {
    /// The caller's token.
    pub token: Token,
    /// The status.
    pub status: Status,
}

/// The record of a command in flight.
#[derive(Clone, Copy, Debug, Default)]
struct InFlight {
    token: Token,
    read_into: Option<BufferId>,
}

/// A queue pair. One thread uses it at a time; dropping it closes the connection.
pub struct QueuePair {
    connection: Connection,
    seat: QueueSeat,
    queue_options: QueueOptions,
    /// By command identifier.
    commands: Box<[InFlight]>,
}

impl QueuePair {
    /// Connects I/O queue `queue`, from 1, of a controller.
    ///
    /// # Errors
    /// When the target cannot be reached or refuses the queue.
    pub fn connect(
        controller: &Controller,
        queue: QueueId,
        options: QueueOptions,
    ) -> Result<Self, HostError> {
        let seat = controller.seat(queue);
        let connection = open(&seat, options)?;
        let commands = vec![InFlight::default(); usize::from(options.depth) + 1];
        let commands = commands.into_boxed_slice();
        Ok(Self { connection, seat, queue_options: options, commands })
    }

    /// Connects again after the connection was lost, to the same controller or, if that was lost
    /// too, to its successor. Commands that were in flight are lost: their tokens are returned, and
    /// it is unknown whether a write among them took effect, until it is written again. Buffers
    /// keep neither their numbers nor their contents.
    ///
    /// # Errors
    /// When the target cannot be reached or refuses the queue; the queue pair is unchanged.
    pub fn reconnect(&mut self, controller: &Controller) -> Result<Vec<Token>, HostError> {
        let seat = controller.seat(self.seat.queue);
        let connection = open(&seat, self.queue_options)?;
        let lost = self.in_flight();
        (self.connection, self.seat) = (connection, seat);
        Ok(lost)
    }

    /// The tokens of the commands in flight.
    pub fn in_flight(&self) -> Vec<Token> {
        let ids = self.connection.session.in_flight();
        ids.map(|cid| self.commands[usize::from(cid.0)].token).collect()
    }

    /// Takes a page-aligned buffer of at least `len`; `None` when the queue pair's memory is used
    /// up.
    pub fn take_buffer(&mut self, len: ByteLen) -> Option<BufferId> {
        self.connection.memory.take(len)
    }

    /// Returns a buffer that is not in flight.
    pub fn give_back(&mut self, buffer: BufferId) {
        self.connection.memory.give_back(buffer);
    }

    /// A buffer's bytes.
    pub fn bytes(&self, buffer: BufferId) -> &[u8] {
        self.connection.memory.bytes(buffer)
    }

    /// A buffer's bytes, for writing while it is not in flight.
    pub fn bytes_mut(&mut self, buffer: BufferId) -> &mut [u8] {
        self.connection.memory.bytes_mut(buffer)
    }

    /// Queues a command; [`Self::poll`] sends it.
    ///
    /// # Errors
    /// When the queue's depth is reached, or it is no longer connected.
    ///
    /// # Panics
    /// When the range is longer than its buffer, or than 65,536 blocks: the caller must respect
    /// [`Controller::transfer_len_max`].
    #[inline]
    pub fn submit(
        &mut self,
        token: Token,
        namespace: &Namespace,
        io: Io,
    ) -> Result<(), SubmitError> {
        let (command, data) = encode(namespace, io);
        let connection = &mut self.connection;
        let mut read = None;
        let payload = match data {
            CommandData::Outgoing { buffer, len } => &connection.memory.bytes(buffer)[..index(len)],
            CommandData::Incoming { buffer, len } => {
                let place = Place { buffer, len: index(len) };
                assert!(place.len <= connection.memory.bytes(buffer).len(), "it fits");
                read = Some(place);
                &[]
            }
            _ => &[][..],
        };
        let cid = connection.session.submit(&command, data, payload)?;
        let read_into = read.map(|place| place.buffer);
        self.commands[usize::from(cid.0)] = InFlight { token, read_into };
        if let Some(place) = read {
            connection.forecast.asked(place);
        }
        Ok(())
    }

    /// One turn: sends the queued commands, receives answers, and appends the completed commands to
    /// `completions`. Never waits. Returns whether there was progress.
    ///
    /// # Errors
    /// When the connection is lost. Earlier completions are appended all the same.
    #[inline]
    pub fn poll(&mut self, completions: &mut Vec<IoCompletion>) -> Result<bool, HostError> {
        let moved = self.connection.turn().map_err(HostError::from);
        while let Some(done) = self.connection.session.poll_completion() {
            let InFlight { token, read_into } = self.commands[usize::from(done.cid.0)];
            if let Some(buffer) = read_into {
                self.connection.forecast.answered(buffer);
            }
            completions.push(IoCompletion { token, status: done.entry.status() });
        }
        moved
    }

    /// Sends the queued commands, for a caller that will not poll at once.
    ///
    /// # Errors
    /// When the connection is lost.
    #[inline]
    pub fn send(&mut self) -> Result<(), HostError> {
        self.connection.send()?;
        Ok(())
    }

    /// The socket, which becomes readable when there may be completions, for a caller that waits by
    /// other means than [`Self::wait_any`]. With TLS, [`Self::holds_input`] must be `false` then.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.connection.socket()
    }

    /// Whether there is data to send that the socket has not accepted yet.
    pub fn has_unsent(&self) -> bool {
        self.connection.has_unsent()
    }

    /// Whether [`Self::poll`] may find completions although the socket is not readable: with TLS,
    /// input can be held that is not decrypted yet.
    pub fn holds_input(&self) -> bool {
        self.connection.holds_input()
    }

    /// Sleeps until data has arrived for one of the queue pairs, or for `span`; it may return
    /// early. It is for a caller that has spun as long as that pays.
    ///
    /// # Errors
    /// When the system call fails.
    pub fn wait_any(pairs: &[Self], span: Nanos) -> Result<(), HostError> {
        wait_any(pairs.iter().map(|pair| &pair.connection), span)?;
        Ok(())
    }

    /// The digests in use.
    pub fn digests(&self) -> nearflash_nvme_tcp::Digests {
        self.connection.session.digests()
    }
}

fn open(seat: &QueueSeat, options: QueueOptions) -> Result<Connection, HostError> {
    let sq_entries = options.depth.saturating_add(1).clamp(2, seat.entries_max.max(2));
    let config = HostConfig {
        digests: seat.options.digests,
        alignment: DataAlignment(0),
        queue: seat.queue,
        sq_entries,
        flow_control: false,
        in_capsule_len_max: seat.in_capsule_len_max,
        controller: seat.controller,
        keep_alive_ms: 0,
        host_id: seat.options.host.id,
        host: seat.options.host.nqn.clone(),
        subsystem: seat.options.subsystem.clone(),
    };
    let memory = Memory::new(options.buffer_count, options.buffer_len);
    let mut connection = connection::open(&seat.options, config, memory, STAGING_LEN)?;
    join(&mut connection, &seat.options)?;
    Ok(connection)
}

#[inline]
fn encode(namespace: &Namespace, io: Io) -> (Command, CommandData) {
    let nsid = namespace.id;
    match io {
        Io::Read { start, count, buffer } => {
            let (blocks, len) = extent(namespace, count);
            (Command::read(nsid, start, blocks, len), CommandData::Incoming { buffer, len })
        }
        Io::Write { start, count, buffer, force_unit_access } => {
            let (blocks, len) = extent(namespace, count);
            let command = Command::write(nsid, start, blocks, len);
            let command =
                if force_unit_access { command.with_force_unit_access() } else { command };
            (command, CommandData::Outgoing { buffer, len })
        }
        Io::Compare { start, count, buffer } => {
            let (blocks, len) = extent(namespace, count);
            (Command::compare(nsid, start, blocks, len), CommandData::Outgoing { buffer, len })
        }
        Io::WriteZeroes { start, count, deallocate } => {
            (write_zeroes(nsid, start, count, deallocate), CommandData::None)
        }
        Io::Flush => (Command::flush(nsid), CommandData::None),
    }
}

fn write_zeroes(nsid: NamespaceId, start: Lba, count: Blocks, deallocate: bool) -> Command {
    let command = Command::write_zeroes(nsid, start, zero_based(count));
    if deallocate { command.with_deallocate() } else { command }
}

/// A number of blocks as the command encodes it, and in bytes.
#[inline]
fn extent(namespace: &Namespace, count: Blocks) -> (u16, u32) {
    let len = namespace.block_size.len(count).and_then(|len| u32::try_from(len.0).ok());
    (zero_based(count), len.expect("a command's data is below 4 GiB"))
}

#[inline]
fn zero_based(count: Blocks) -> u16 {
    let zero_based = count.0.checked_sub(1).and_then(|last| u16::try_from(last).ok());
    zero_based.expect("a command is of 1 to 65,536 blocks")
}
