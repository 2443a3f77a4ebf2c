//! A requesting end whose peer sends anything.

use std::collections::BTreeMap;
use std::fmt::Debug;

use nearflash_request::BufferId;

use super::Requesting;
use crate::length;
use crate::requesting::RequestingEnd;

/// The check's record of a request under way.
#[derive(Clone, Copy, Debug, Default)]
pub struct InFlight {
    /// The request's buffer.
    pub buffer: Option<BufferId>,
    /// The length of its data.
    pub len: u32,
    /// Whether the data is received into the buffer.
    pub is_read: bool,
    /// The offset that a conforming peer sends or requests next.
    pub moved: u32,
    /// The number of parts that it has sent or requested.
    pub parts: u32,
}

/// A requesting end, and its requests under way by their numbers.
#[derive(Debug)]
pub struct Trial<R: RequestingEnd, I> {
    /// The end.
    pub end: Requesting<R>,
    /// Whether only whole messages were sent, so that the data of a read is known.
    pub is_sound: bool,
    in_flight: BTreeMap<I, InFlight>,
}

impl<R: RequestingEnd, I: Copy + Debug + Ord> Trial<R, I> {
    /// A session without requests.
    pub fn new(session: R) -> Self {
        Self { end: Requesting::new(session), is_sound: true, in_flight: BTreeMap::new() }
    }

    /// Passes in all of `bytes`, unless the session fails or pauses.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.end.error.is_none() {
            let Some(taken) = self.end.receive(bytes) else {
                // A pause cuts a message off.
                self.is_sound &= self.end.error.is_some();
                break;
            };
            bytes = &bytes[taken..];
        }
    }

    /// Records a request, or returns the buffer of one that was refused.
    pub fn submitted<E>(&mut self, id: Result<I, E>, request: InFlight) {
        match id {
            Ok(id) => {
                let twin = self.in_flight.insert(id, request);
                assert!(twin.is_none(), "{id:?} names one request under way");
            }
            Err(_) => request.buffer.into_iter().for_each(|it| self.end.memory.give_back(it)),
        }
    }

    /// The record of a request, if it is under way.
    pub fn get(&self, id: I) -> Option<InFlight> {
        self.in_flight.get(&id).copied()
    }

    /// The part of a request's data to send or to request, as offset and length: usually the one of
    /// a conforming peer, which is at most `most` long.
    pub fn part_of(&self, id: I, len: u32, choice: u8, most: u32) -> (u32, u32) {
        const UNIT: u32 = 512;
        let (moved, all) = self.get(id).map_or((0, UNIT), |request| (request.moved, request.len));
        match choice {
            0..128 => (moved, (all - moved).min(most)),
            128..224 => (moved, len.min(all - moved)),
            224..240 => (moved, len),
            _ => (u32::from(choice) * UNIT, len),
        }
    }

    /// Records that the peer has sent or requested a part of `len` bytes.
    pub fn count(&mut self, id: I, len: u32) {
        if let Some(request) = self.in_flight.get_mut(&id) {
            request.moved = request.moved.saturating_add(len).min(request.len);
            request.parts += 1;
        }
    }

    /// A request has completed. If it succeeded, `moved` bytes were received; by default all.
    ///
    /// # Panics
    /// When it was not under way, or a read has succeeded without its data.
    pub fn completed(&mut self, id: I, is_good: bool, moved: Option<u32>) {
        let request = self.in_flight.remove(&id).expect("it ends once");
        let Some(buffer) = request.buffer else { return };
        if request.is_read && is_good && self.is_sound {
            let moved = moved.unwrap_or(request.len);
            let received = &self.end.memory.bytes(buffer)[..length(moved)];
            assert!(!received.contains(&0xA5), "a read that succeeds has all its data");
        }
        self.end.memory.give_back(buffer);
    }

    /// Checks that the session names those that never complete.
    pub fn check_left(&self, left: impl Iterator<Item = I>) {
        let left: Vec<I> = left.collect();
        let known: Vec<I> = self.in_flight.keys().copied().collect();
        assert_eq!(left, known, "every request has ended or is named");
    }
}
