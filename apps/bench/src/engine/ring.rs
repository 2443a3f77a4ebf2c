//! An io_uring that reads and writes one file with one buffer per slot.
//!
//! This is the only module of the crate with `unsafe`: the kernel accesses a slot's buffer while
//! the slot is in flight, which the compiler cannot see.
//!
//! Invariants: a slot in flight cannot be borrowed; the buffers outlive every operation in flight.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use io_uring::types::{Fixed, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use nearflash_units::{ByteLen, ByteOffset, Nanos};
use rustix::event::{EventfdFlags, eventfd};

use super::Slot;
use super::aligned::SlotBuffers;
use crate::workload::{Direction, Op};

/// The file's index in the ring's file table.
const FILE: Fixed = Fixed(0);

/// The ring, its file and its buffers.
pub(super) struct Ring {
    uring: IoUring,
    buffers: SlotBuffers,
    in_flight: Box<[bool]>,
    in_flight_count: usize,
    registered: bool,
    /// An eventfd. It slows every completion down, so it is only created when needed.
    bell: Option<OwnedFd>,
    /// Kept open as long as the ring refers to it.
    _file: File,
}

/// One completion.
pub(super) struct Reaped {
    pub(super) slot: Slot,
    pub(super) moved: io::Result<ByteLen>,
}

impl Ring {
    /// A ring over `file` with `depth` slots of `op_len` bytes. Belongs to the calling thread.
    pub(super) fn new(file: File, depth: usize, op_len: ByteLen) -> io::Result<Self> {
        let entries = u32::try_from(depth).map_err(|_| io::ErrorKind::InvalidInput)?;
        let uring = build(entries)?;
        uring.submitter().register_files(&[file.as_raw_fd()])?;
        let buffers = SlotBuffers::new(depth, op_len);
        let registered = register(&uring, &buffers, depth);
        Ok(Self {
            uring,
            buffers,
            in_flight: vec![false; depth].into_boxed_slice(),
            in_flight_count: 0,
            registered,
            bell: None,
            _file: file,
        })
    }

    pub(super) fn buffer(&self, slot: Slot) -> &[u8] {
        assert!(!self.in_flight[slot], "slot {slot} belongs to the kernel");
        self.buffers.get(slot)
    }

    pub(super) fn buffer_mut(&mut self, slot: Slot) -> &mut [u8] {
        assert!(!self.in_flight[slot], "slot {slot} belongs to the kernel");
        self.buffers.get_mut(slot)
    }

    /// Queues an operation; [`Self::enter`] submits it.
    pub(super) fn start(&mut self, slot: Slot, op: Op) {
        assert!(!self.in_flight[slot], "slot {slot} is started once");
        let buffer = self.buffers.get_mut(slot);
        assert_eq!(ByteLen::of(buffer), op.len, "an operation fills its slot's buffer");
        let entry = entry(op.direction, op.offset, buffer, self.registered.then_some(slot));
        let user_data = u64::try_from(slot).expect("usize is at most 64 bits wide");
        // SAFETY: the buffer lies in `self.buffers`, which is neither moved nor freed before the
        // completion is reaped (see `drop`), and while `in_flight` is set nobody can borrow it.
        let pushed = unsafe { self.uring.submission().push(&entry.user_data(user_data)) };
        pushed.expect("the ring has an entry for every slot");
        self.in_flight[slot] = true;
        self.in_flight_count += 1;
    }

    /// Number of operations that are queued and not submitted.
    pub(super) fn queued(&mut self) -> usize {
        self.uring.submission().len()
    }

    /// Submits the queued operations and lets the kernel run its pending completion work: at most
    /// one system call, and none if there is nothing to do.
    pub(super) fn enter(&mut self) -> io::Result<()> {
        let submission = self.uring.submission();
        let needed = !submission.is_empty() || submission.taskrun() || submission.cq_overflow();
        drop(submission);
        if !needed {
            return Ok(());
        }
        unless_interrupted(self.uring.submit())
    }

    /// Sleeps until there is a completion, or for `span`.
    pub(super) fn wait(&mut self, span: Nanos) -> io::Result<()> {
        let secs = span.0 / 1_000_000_000;
        let nanos = u32::try_from(span.0 % 1_000_000_000).expect("below a second");
        let timeout = Timespec::new().sec(secs).nsec(nanos);
        let args = SubmitArgs::new().timespec(&timeout);
        let waited = self.uring.submitter().submit_with_args(1, &args);
        match waited {
            Err(error) if error.raw_os_error() == Some(libc::ETIME) => Ok(()),
            other => unless_interrupted(other),
        }
    }

    /// Submits the queued operations and arms the eventfd. Returns whether there is no completion
    /// yet; only then may the thread sleep on [`Self::bell`].
    pub(super) fn doze(&mut self) -> io::Result<bool> {
        if self.bell.is_none() {
            let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            self.uring.submitter().register_eventfd(bell.as_raw_fd())?;
            self.bell = Some(bell);
        }
        self.enter()?;
        let has_work = self.uring.submission().taskrun();
        Ok(!has_work && self.uring.completion().is_empty())
    }

    /// The eventfd, which becomes readable with a completion; `None` before the first
    /// [`Self::doze`].
    pub(super) fn bell(&self) -> Option<BorrowedFd<'_>> {
        self.bell.as_ref().map(AsFd::as_fd)
    }

    /// Resets the eventfd.
    pub(super) fn awake(&mut self) {
        if let Some(bell) = &self.bell {
            // The read fails with EAGAIN if there was no event.
            let _ = rustix::io::read(bell, &mut [0; 8]);
        }
    }

    /// The next completion, if there is one.
    pub(super) fn reap(&mut self) -> Option<Reaped> {
        let entry = self.uring.completion().next()?;
        let slot = usize::try_from(entry.user_data()).expect("we put a slot there");
        self.in_flight[slot] = false;
        self.in_flight_count -= 1;
        let moved = match u64::try_from(entry.result()) {
            Ok(len) => Ok(ByteLen(len)),
            Err(_) => Err(io::Error::from_raw_os_error(-entry.result())),
        };
        Some(Reaped { slot, moved })
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight_count
    }
}

impl Drop for Ring {
    /// Waits until the kernel no longer uses the buffers.
    fn drop(&mut self) {
        while self.in_flight_count > 0 {
            if self.wait(Nanos::from_secs(1)).is_err() {
                // Leaking the buffers is sound, freeing them is not.
                std::mem::forget(std::mem::replace(
                    &mut self.buffers,
                    SlotBuffers::new(0, ByteLen(0)),
                ));
                return;
            }
            while self.reap().is_some() {}
        }
    }
}

/// A ring for one submitting thread with deferred task work: completions are finished on request,
/// so a spinning thread is not interrupted, and a flag shows whether there are any, so spinning
/// needs no system call. Kernels before 6.1 get a plain ring.
fn build(entries: u32) -> io::Result<IoUring> {
    let modern = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag()
        .build(entries);
    match modern {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => IoUring::new(entries),
        other => other,
    }
}

/// Registers the buffers, which pins them once instead of per operation. Returns whether it
/// succeeded: if the limit on locked memory is too low, every operation pins its own buffer.
fn register(uring: &IoUring, buffers: &SlotBuffers, depth: usize) -> bool {
    let vectors: Vec<libc::iovec> = (0..depth)
        .map(|slot| {
            let buffer = buffers.get(slot);
            libc::iovec { iov_base: buffer.as_ptr().cast_mut().cast(), iov_len: buffer.len() }
        })
        .collect();
    // SAFETY: the vectors name `buffers`, which live as long as the ring; the ring only touches
    // them through operations that `start` makes.
    unsafe { uring.submitter().register_buffers(&vectors) }.is_ok()
}

fn entry(
    direction: Direction,
    offset: ByteOffset,
    buffer: &mut [u8],
    registered: Option<Slot>,
) -> squeue::Entry {
    let len = u32::try_from(buffer.len()).expect("an operation is below 4 GiB");
    let start = buffer.as_mut_ptr();
    let index = registered.and_then(|slot| u16::try_from(slot).ok());
    match (direction, index) {
        (Direction::Read, Some(index)) => {
            opcode::ReadFixed::new(FILE, start, len, index).offset(offset.0).build()
        }
        (Direction::Read, None) => opcode::Read::new(FILE, start, len).offset(offset.0).build(),
        (Direction::Write, Some(index)) => {
            opcode::WriteFixed::new(FILE, start, len, index).offset(offset.0).build()
        }
        (Direction::Write, None) => opcode::Write::new(FILE, start, len).offset(offset.0).build(),
    }
}

fn unless_interrupted(result: io::Result<usize>) -> io::Result<()> {
    match result {
        Ok(_) => Ok(()),
        // Interrupted, or the completion queue is full: the caller reaps and tries again.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EBUSY)) => Ok(()),
        Err(error) => Err(error),
    }
}
