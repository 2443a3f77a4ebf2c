//! The bytes of a call in requests: long calls have several in flight.

use std::time::{Duration, Instant};

use nearflash::direct::Handle;
use nearflash::{Buffer, Error, Token};

use super::node::{DEPTH, Node, NodeTrouble, PIECE_LEN};
use crate::work::Memory;

/// The shortest buffer: buffers are kept, and fit the next call.
const BUFFER_LEN_MIN: usize = 16 << 10;
/// The time for which a call spins before it sleeps: a wake-up costs more than a whole exchange.
const SPIN_MAX: Duration = Duration::from_micros(100);
/// The number of polls between two looks at the clock.
const POLLS_PER_CLOCK: u32 = 16;

/// The requests of a call.
struct Flight {
    /// The bytes before the next request.
    posted: usize,
    /// The starts of the requests in flight, by the index of their tokens.
    starts: [usize; DEPTH as usize],
    trouble: Option<NodeTrouble>,
}

impl Flight {
    const fn new() -> Self {
        Self { posted: 0, starts: [0; DEPTH as usize], trouble: None }
    }

    /// The next request, if there is one.
    fn next(&self, len: usize) -> Option<usize> {
        let left = len - self.posted;
        (left > 0 && self.trouble.is_none()).then(|| left.min(PIECE_LEN))
    }

    fn was_posted(&mut self, token: Token, len: usize) {
        self.starts[token.index()] = self.posted;
        self.posted += len;
    }

    fn note(&mut self, trouble: NodeTrouble) {
        self.trouble = Some(self.trouble.map_or(trouble, |known| known.and(trouble)));
    }
}

impl Node {
    /// Reads the bytes from `offset` on.
    pub(super) fn read(
        &mut self,
        handle: Handle,
        memory: Memory<'_>,
        offset: u64,
    ) -> Result<(), NodeTrouble> {
        let post = |node: &mut Self, start: usize, len: usize| {
            let buffer = buffer(node, len)?;
            Ok(node.pair.post_read_on(handle, buffer, offset + wide(start))?)
        };
        fly(self, memory.len(), post, |start, bytes| memory.store(start, bytes))
    }

    /// Writes the bytes from `offset` on.
    pub(super) fn write(
        &mut self,
        handle: Handle,
        memory: Memory<'_>,
        offset: u64,
        is_durable: bool,
    ) -> Result<(), NodeTrouble> {
        let post = |node: &mut Self, start: usize, len: usize| {
            let mut buffer = buffer(node, len)?;
            memory.load(start, &mut buffer);
            let offset = offset + wide(start);
            Ok(match is_durable {
                true => node.pair.post_write_durable_on(handle, buffer, offset),
                false => node.pair.post_write_on(handle, buffer, offset),
            }?)
        };
        fly(self, memory.len(), post, |_, _| {})
    }

    /// Makes all bytes durable that the volume of a sealed object has.
    pub(super) fn flush(&mut self, handle: Handle) -> Result<(), NodeTrouble> {
        self.pair.post_flush_on(handle).map_err(|error| NodeTrouble::from(&error))?;
        while self.pair.in_flight() > 0 {
            await_some(self).map_err(|_| NodeTrouble::Lost)?;
            for done in self.done.drain(..) {
                done.result.map_err(|error| NodeTrouble::from(&error))?;
            }
        }
        Ok(())
    }
}

/// Posts all requests of a call, and waits for them. When this returns, none is in flight.
fn fly(
    node: &mut Node,
    len: usize,
    mut post: impl FnMut(&mut Node, usize, usize) -> Result<Token, Error>,
    mut take: impl FnMut(usize, &[u8]),
) -> Result<(), NodeTrouble> {
    let mut flight = Flight::new();
    loop {
        while node.pair.in_flight() < DEPTH.min(node.pair.depth())
            && let Some(piece) = flight.next(len)
        {
            match post(node, flight.posted, piece) {
                Ok(token) => flight.was_posted(token, piece),
                Err(Error::NoMemory { .. }) if node.pair.in_flight() > 0 => break,
                Err(error) => flight.note(NodeTrouble::from(&error)),
            }
        }
        if node.pair.in_flight() == 0 {
            return flight.trouble.map_or(Ok(()), Err);
        }
        if await_some(node).is_err() {
            flight.note(NodeTrouble::Lost);
        }
        for mut done in node.done.drain(..) {
            match (&done.result, &done.buffer) {
                (Ok(_), Some(buffer)) => take(flight.starts[done.token.index()], buffer),
                (Ok(_), None) => {}
                (Err(error), _) => flight.note(NodeTrouble::from(error)),
            }
            node.buffers.extend(done.buffer.take());
        }
    }
}

fn await_some(node: &mut Node) -> Result<(), Error> {
    let mut spinning_since = None;
    let mut polls = 0_u32;
    while node.pair.poll(&mut node.done)? == 0 {
        polls = polls.wrapping_add(1);
        // Spinning would delay the node's core.
        if node.pair.shares_processor() {
            node.pair.wait(Duration::MAX)?;
        } else if polls.is_multiple_of(POLLS_PER_CLOCK) {
            let now = Instant::now();
            if now.duration_since(*spinning_since.get_or_insert(now)) >= SPIN_MAX {
                node.pair.wait(Duration::MAX)?;
            }
        }
    }
    Ok(())
}

fn buffer(node: &mut Node, len: usize) -> Result<Buffer, Error> {
    let fitting = node.buffers.iter().position(|buffer| buffer.capacity() >= len);
    let mut buffer = match fitting {
        Some(at) => node.buffers.swap_remove(at),
        None => {
            // Shorter ones make room.
            node.buffers.clear();
            node.pair.buffer(len.next_power_of_two().max(BUFFER_LEN_MIN))?
        }
    };
    buffer.set_len(len);
    Ok(buffer)
}

fn wide(len: usize) -> u64 {
    u64::try_from(len).expect("usize is at most 64 bits wide")
}
