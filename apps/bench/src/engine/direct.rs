//! A volume over the direct protocol, through our own client.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nearflash::direct::{
    Buffer, Client, Completion, Credentials, Error, Handle, Options, QueueOptions, QueuePair, Seal,
    Url, VolumeInfo,
};
use nearflash_units::{ByteLen, Nanos};
use rustix::event::PollFd;

use super::{Done, Engine, EngineError, Needs, Opener, Slot, waker};
use crate::BenchError;
use crate::options_error::OptionsError;
use crate::workload::{Direction, Op};

/// A connection to a node and the volume to measure; opens [`DirectEngine`]s.
pub struct DirectRemote {
    client: Client,
    volume: String,
    info: VolumeInfo,
    /// Each engine opens this seal so many times, and uses the handles in turn.
    handles: Option<(Seal, usize)>,
    /// Shared with the engines.
    neighbours: Arc<Neighbours>,
}

/// How often the engines looked whether the node's core was on their processor, and how often it was.
#[derive(Debug, Default)]
struct Neighbours {
    looks: AtomicU64,
    found: AtomicU64,
}

impl DirectRemote {
    /// Connects, and checks that the target supports the run.
    ///
    /// # Errors
    /// When the target cannot be reached, refuses, or does not support the run.
    pub fn connect(url: &Url, needs: Needs) -> Result<Self, BenchError> {
        let volume = url.volume.clone().ok_or(Error::NoVolume)?;
        let client = Client::connect_to(url.clone(), Credentials::NONE, Options::default())?;
        let pair = client.queue_pair(&volume, queue_options(needs.depth, needs.op_len))?;
        check(&pair, needs)?;
        Ok(Self { info: pair.info(), client, volume, handles: None, neighbours: Arc::default() })
    }

    /// The same, over so many handles of the seal in the URL.
    #[must_use]
    pub fn over_handles(self, url: &Url, count: usize) -> Self {
        let handles = url.seal.as_ref().map(|token| (token.seal().clone(), count));
        Self { handles, ..self }
    }

    /// Whether the engines, which are closed, mostly ran on the processor of the node's core.
    pub fn shared_processor(&self) -> bool {
        let Neighbours { looks, found } = &*self.neighbours;
        found.load(Ordering::Relaxed) > looks.load(Ordering::Relaxed) / 2
    }

    /// The volume's size.
    pub fn len(&self) -> ByteLen {
        ByteLen(self.info.len)
    }

    /// Whether the volume has no bytes.
    pub fn is_empty(&self) -> bool {
        self.info.len == 0
    }
}

fn check(pair: &QueuePair, needs: Needs) -> Result<(), OptionsError> {
    let max = ByteLen(u64::from(pair.len_max()));
    if needs.op_len > max {
        return Err(OptionsError::OpTooLong { op_len: needs.op_len, max });
    }
    let depth_max = usize::try_from(pair.depth()).expect("usize is at least 32 bits wide");
    if needs.depth > depth_max {
        return Err(OptionsError::DeeperThanPair { depth: needs.depth, max: depth_max });
    }
    Ok(())
}

impl Opener for DirectRemote {
    type Engine = DirectEngine;

    fn open(&self, depth: usize, op_len: ByteLen) -> Result<DirectEngine, BenchError> {
        let mut pair = self.client.queue_pair(&self.volume, queue_options(depth, op_len))?;
        let buffers = (0..depth).map(|_| pair.buffer(op_len.to_usize()).map(Some));
        let buffers = buffers.collect::<Result<Vec<_>, Error>>()?;
        let handles = match &self.handles {
            None => Vec::new(),
            Some((seal, count)) => {
                (0..*count).map(|_| pair.open_sealed(seal)).collect::<Result<Vec<_>, Error>>()?
            }
        };
        Ok(DirectEngine {
            handles,
            turn: 0,
            neighbours: Arc::clone(&self.neighbours),
            polls: 0,
            slots: vec![0; depth],
            refused: Vec::new(),
            completions: Vec::with_capacity(depth),
            pair,
            buffers,
        })
    }
}

fn queue_options(depth: usize, op_len: ByteLen) -> QueueOptions {
    QueueOptions::default()
        .depth(u32::try_from(depth).unwrap_or(u32::MAX))
        // Buffers are whole pages.
        .shared_len(depth * op_len.to_usize().next_multiple_of(4096))
}

/// A poll takes at most this many completions, or half of the operations in flight if that is more.
const PART_MIN: usize = 16;

/// The number of polls with completions between two looks at the processor.
const POLLS_PER_LOOK: u32 = 64;

/// The engine: a queue pair and a buffer for each slot.
pub struct DirectEngine {
    pair: QueuePair,
    /// Used in turn; without any, the queue pair's own volume is.
    handles: Vec<Handle>,
    turn: usize,
    /// By slot; `None` while in flight, when the queue pair has the buffer.
    buffers: Vec<Option<Buffer>>,
    /// The slot by token index.
    slots: Vec<Slot>,
    /// Slots whose operations could not be posted, and the reasons.
    refused: Vec<(Slot, Error)>,
    completions: Vec<Completion>,
    neighbours: Arc<Neighbours>,
    /// Polls with completions.
    polls: u32,
}

impl DirectEngine {
    fn look_for_neighbour(&mut self) {
        let Neighbours { looks, found } = &*self.neighbours;
        looks.fetch_add(1, Ordering::Relaxed);
        found.fetch_add(self.pair.shares_processor().into(), Ordering::Relaxed);
    }

    #[inline]
    fn next_handle(&mut self) -> Option<Handle> {
        let handle = *self.handles.get(self.turn)?;
        self.turn = if self.turn + 1 == self.handles.len() { 0 } else { self.turn + 1 };
        Some(handle)
    }
}

impl Engine for DirectEngine {
    fn buffer(&self, slot: Slot) -> &[u8] {
        self.buffers[slot].as_deref().expect("the slot is not in flight")
    }

    fn buffer_mut(&mut self, slot: Slot) -> &mut [u8] {
        self.buffers[slot].as_deref_mut().expect("the slot is not in flight")
    }

    #[inline]
    fn submit(&mut self, slot: Slot, op: Op) {
        let mut buffer = self.buffers[slot].take().expect("the slot is not in flight");
        buffer.set_len(op.len.to_usize());
        let posted = match (op.direction, self.next_handle()) {
            (Direction::Read, None) => self.pair.post_read_at(buffer, op.offset.0),
            (Direction::Write, None) => self.pair.post_write_at(buffer, op.offset.0),
            (Direction::Read, Some(handle)) => self.pair.post_read_on(handle, buffer, op.offset.0),
            (Direction::Write, Some(handle)) => {
                self.pair.post_write_on(handle, buffer, op.offset.0)
            }
        };
        match posted {
            Ok(token) => self.slots[token.index()] = slot,
            Err(refused) => {
                self.buffers[slot] = Some(refused.buffer);
                self.refused.push((slot, refused.error));
            }
        }
    }

    #[inline]
    fn poll(&mut self, done: &mut Vec<Done>) -> Result<(), EngineError> {
        let half = usize::try_from(self.pair.in_flight() / 2).unwrap_or(usize::MAX);
        self.pair.poll_up_to(&mut self.completions, half.max(PART_MIN))?;
        if !self.completions.is_empty() {
            if self.polls.is_multiple_of(POLLS_PER_LOOK) {
                self.look_for_neighbour();
            }
            self.polls = self.polls.wrapping_add(1);
        }
        for completion in self.completions.drain(..) {
            let slot = self.slots[completion.token.index()];
            self.buffers[slot] = completion.buffer;
            let result = completion.result.map(|_| ()).map_err(EngineError::Direct);
            done.push(Done { slot, result });
        }
        let refused = self.refused.drain(..);
        done.extend(refused.map(|(slot, error)| Done { slot, result: Err(error.into()) }));
        Ok(())
    }

    #[inline]
    fn hand_over(&mut self) -> Result<(), EngineError> {
        // If the connection is lost, the next poll reports the outcome of the operations.
        let _ = self.pair.submit();
        Ok(())
    }

    fn doze(&mut self) -> Result<bool, EngineError> {
        Ok(self.pair.doze() && self.refused.is_empty())
    }

    fn wakers<'a>(&'a self, wakers: &mut Vec<PollFd<'a>>) {
        wakers.push(waker(self.pair.socket(), self.pair.has_unsent()));
        wakers.extend(self.pair.bell().map(|bell| waker(bell, false)));
    }

    fn awake(&mut self) {
        self.pair.awake();
    }

    fn flush(&mut self) -> Result<(), EngineError> {
        self.pair.post_flush()?;
        let mut done = Vec::new();
        while self.pair.poll(&mut done)? == 0 {
            self.pair.wait(Nanos::from_secs(1).to_duration())?;
        }
        done.remove(0).result?;
        Ok(())
    }
}
