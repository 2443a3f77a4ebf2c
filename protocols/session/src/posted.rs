//! The commands in flight of a requesting end, from submission until their completion is taken.
//!
//! Buffers belong to the caller. A command therefore completes only when all of its buffer is sent,
//! even if it is answered earlier.
//!
//! Invariant: every command that has begun completes once, or [`Posted::in_flight`] returns it.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

use nearflash_request::BufferId;

use crate::slots::SlotTable;

/// The data of a command that is submitted.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[allow(missing_docs, reason = "the names say what the fields are")]
pub enum CommandData {
    /// No data.
    #[default]
    None,
    /// Received into a buffer of the caller's, which must hold `len` bytes until the command
    /// completes.
    Incoming { buffer: BufferId, len: u32 },
    /// Sent from a buffer of the caller's, whose bytes must not change until the command completes.
    Outgoing { buffer: BufferId, len: u32 },
    /// Received into the command's completion.
    SmallIncoming(u32),
    /// Sent from these bytes.
    SmallOutgoing(Vec<u8>),
}

/// A command's data, with its source or destination.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Data {
    /// The command has no data.
    #[default]
    None,
    /// Received into a buffer of the caller's.
    Incoming(BufferId),
    /// Sent from a buffer of the caller's.
    Outgoing(BufferId),
    /// Received into this vector.
    SmallIncoming(Vec<u8>),
    /// Sent from this vector.
    SmallOutgoing(Vec<u8>),
}

impl Data {
    /// Whether it comes from the other end.
    #[inline]
    pub const fn is_incoming(&self) -> bool {
        matches!(self, Self::Incoming(_) | Self::SmallIncoming(_))
    }

    /// Whether it goes to the other end.
    #[inline]
    pub const fn is_outgoing(&self) -> bool {
        matches!(self, Self::Outgoing(_) | Self::SmallOutgoing(_))
    }
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Stage {
    /// Not answered.
    InFlight,
    /// Answered before all of its buffer was sent.
    AnsweredEarly,
    /// Over, or not begun.
    #[default]
    Completed,
}

/// One command.
#[derive(Debug, Default)]
pub struct PostedCommand<A> {
    stage: Stage,
    /// Data came damaged.
    pub damaged: bool,
    /// Its data.
    pub data: Data,
    /// Of the data.
    pub len: u32,
    /// The number of bytes that were received, requested, or sent unsolicited.
    pub moved: u32,
    /// The position in the stream at which the last part of the command's buffer ends.
    pub sent_until: u64,
    /// The protocol's own state of the command, and its answer.
    pub answer: A,
}

/// The commands in flight of a connection.
#[derive(Debug)]
pub struct Posted<A> {
    slots: SlotTable<PostedCommand<A>>,
    completed: VecDeque<u16>,
    early: Vec<u16>,
}

impl<A: Default> Posted<A> {
    /// Room for so many.
    pub fn new(count: u16) -> Self {
        Self {
            slots: SlotTable::new(count, PostedCommand::default),
            completed: VecDeque::with_capacity(usize::from(count)),
            early: Vec::new(),
        }
    }
}

impl<A> Posted<A> {
    /// The number of commands whose completion has not been taken yet.
    #[inline]
    pub const fn in_use(&self) -> usize {
        self.slots.in_use()
    }

    /// Whether there is no room for another.
    #[inline]
    pub const fn is_full(&self) -> bool {
        self.slots.is_full()
    }

    /// A number for a new command, if there is room; [`Self::begin`] is next.
    #[inline]
    pub fn take(&mut self) -> Option<u16> {
        self.slots.take()
    }

    /// A command is on its way.
    #[inline]
    pub fn begin(&mut self, index: u16, data: Data, len: u32) -> &mut PostedCommand<A> {
        let command = &mut self.slots[index];
        command.stage = Stage::InFlight;
        command.damaged = false;
        command.moved = 0;
        command.sent_until = 0;
        command.data = data;
        command.len = len;
        command
    }

    /// The command in flight under a number that the peer chose.
    #[inline]
    pub fn find(&self, index: u16) -> Option<&PostedCommand<A>> {
        let found = self.slots.get(usize::from(index));
        found.filter(|command| command.stage == Stage::InFlight)
    }

    /// Records an answer. The command completes once the stream is sent to the end of its buffer.
    #[inline]
    pub fn complete(&mut self, index: u16, position: u64) {
        let command = &mut self.slots[index];
        if command.sent_until > position {
            command.stage = Stage::AnsweredEarly;
            self.early.push(index);
        } else {
            command.stage = Stage::Completed;
            self.completed.push_back(index);
        }
    }

    /// Records progress of the output. Commands that were answered earlier may complete now.
    #[inline]
    pub fn sent(&mut self, position: u64) {
        if !self.early.is_empty() {
            let early = std::mem::take(&mut self.early);
            early.into_iter().for_each(|index| self.complete(index, position));
        }
    }

    /// The next completed command. Its number is free from now on; its slot keeps its contents.
    #[inline]
    pub fn poll(&mut self) -> Option<(u16, &mut PostedCommand<A>)> {
        let index = self.completed.pop_front()?;
        self.slots.give_back(index);
        Some((index, &mut self.slots[index]))
    }

    /// A command is over, and nobody is told.
    #[inline]
    pub fn give_back(&mut self, index: u16) {
        self.slots[index].stage = Stage::Completed;
        self.slots.give_back(index);
    }

    /// Every command that has not completed.
    pub fn in_flight(&self) -> impl Iterator<Item = u16> {
        self.at(|stage| matches!(stage, Stage::InFlight | Stage::AnsweredEarly))
    }

    /// Every command that was not answered.
    pub fn unanswered(&self) -> impl Iterator<Item = u16> {
        self.at(|stage| stage == Stage::InFlight)
    }

    fn at(&self, is_meant: impl Fn(Stage) -> bool) -> impl Iterator<Item = u16> {
        let meant = self.slots.iter().filter(move |(_, command)| is_meant(command.stage));
        meant.map(|(index, _)| index)
    }
}

impl<A> PostedCommand<A> {
    /// Takes the small data that was received.
    #[inline]
    pub fn take_small(&mut self) -> Vec<u8> {
        match self.data {
            // Nothing in it must go.
            Data::None | Data::Incoming(_) | Data::Outgoing(_) => Vec::new(),
            Data::SmallIncoming(_) | Data::SmallOutgoing(_) => self.take_small_slowly(),
        }
    }

    #[cold]
    fn take_small_slowly(&mut self) -> Vec<u8> {
        match std::mem::take(&mut self.data) {
            Data::SmallIncoming(data) => data,
            _ => Vec::new(),
        }
    }
}

impl<A> Index<u16> for Posted<A> {
    type Output = PostedCommand<A>;

    #[inline]
    fn index(&self, index: u16) -> &PostedCommand<A> {
        &self.slots[index]
    }
}

impl<A> IndexMut<u16> for Posted<A> {
    #[inline]
    fn index_mut(&mut self, index: u16) -> &mut PostedCommand<A> {
        &mut self.slots[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_over_once_it_is_answered_and_its_buffer_sent() {
        let mut posted = Posted::<()>::new(2);
        let (early, late) = (posted.take().unwrap(), posted.take().unwrap());
        posted.begin(early, Data::Outgoing(BufferId(0)), 512).sent_until = 600;
        posted.begin(late, Data::Incoming(BufferId(1)), 512);
        assert!(posted.is_full() && posted.find(early).is_some());
        posted.complete(early, 599);
        assert!(posted.find(early).is_none(), "a second answer is for nobody");
        assert!(posted.poll().is_none());
        assert_eq!(posted.in_flight().count(), 2);
        assert_eq!(posted.unanswered().collect::<Vec<_>>(), [late]);
        posted.sent(600);
        assert_eq!(posted.poll().map(|(index, _)| index), Some(early));
        assert_eq!(posted.in_flight().collect::<Vec<_>>(), [late]);
        assert_eq!(posted.in_use(), 1);
    }

    #[test]
    fn small_data_is_taken_out_once() {
        let mut posted = Posted::<()>::new(1);
        let index = posted.take().unwrap();
        posted.begin(index, Data::SmallIncoming(vec![1, 2]), 2);
        assert_eq!(posted[index].take_small(), [1, 2]);
        assert_eq!(posted[index].take_small(), []);
    }
}
