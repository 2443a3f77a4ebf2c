//! The order of commands: those that came before their turn wait here.
//!
//! Spec: RFC 7143, 4.2.2.1. Commands of a session are numbered over all its connections, and begin
//! in that order. On each connection they come in increasing order (error recovery level 0), so
//! that only a session with several connections makes any wait.

use std::collections::VecDeque;

use super::shared::Turn;
use super::slots::Stage;
use super::{State, TargetSession};
use crate::error::PeerError;
use crate::pdu::{HEADER_LEN, ScsiCommand, Serial, TaskRequest};

/// A command before its turn.
#[derive(Debug)]
pub(super) struct Early {
    number: Serial,
    what: Waiting,
}

/// What of it is kept.
#[derive(Debug)]
enum Waiting {
    /// A SCSI command without data: nothing was done for it yet.
    Command(ScsiCommand),
    /// A SCSI command whose data is received already.
    Slot(u16),
    /// Any other request, with its data.
    Other(Box<([u8; HEADER_LEN], Vec<u8>)>),
    /// An immediate task management function, which comes before the command of that number.
    Function(Box<TaskRequest>),
    /// Nothing but the number: the command was given up.
    GivenUp,
}

/// Data of requests that wait, together. More is not held: pings and text have little.
const DATA_LEN_MAX: usize = 64 * 1024;

/// The commands of a connection that wait for others, in the order of their numbers.
#[derive(Debug, Default)]
pub(super) struct EarlyCommands {
    queue: VecDeque<Early>,
    /// How much data the others have.
    data_len: usize,
}

impl EarlyCommands {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.queue.clear();
        self.data_len = 0;
    }

    /// The latest number that was taken up here.
    fn last_number(&self) -> Option<Serial> {
        let has_number = |early: &&Early| !matches!(early.what, Waiting::Function(_));
        self.queue.iter().rev().find(has_number).map(|early| early.number)
    }

    /// Commands without a slot are given up. Their numbers are still taken when they are next. How
    /// many there were.
    pub(super) fn forget_command(&mut self, is_meant: impl Fn(&ScsiCommand) -> bool) -> usize {
        let mut count = 0;
        for early in &mut self.queue {
            if matches!(&early.what, Waiting::Command(command) if is_meant(command)) {
                early.what = Waiting::GivenUp;
                count += 1;
            }
        }
        count
    }

    /// Its slot was given up. Its number is still taken when it is next.
    pub(super) fn forget_slot(&mut self, index: u16) {
        for early in &mut self.queue {
            if matches!(early.what, Waiting::Slot(slot) if slot == index) {
                early.what = Waiting::GivenUp;
            }
        }
    }
}

impl TargetSession {
    /// Where a command stands, by its number. On a connection numbers only grow: one that was held
    /// already is not taken twice.
    #[inline]
    pub(super) fn turn_of(&self, number: Serial) -> Turn {
        let turn = self.shared.take_turn(number);
        if turn == Turn::Later
            && self.early.last_number().is_some_and(|last| !last.is_before(number))
        {
            return Turn::Never;
        }
        turn
    }

    /// A SCSI command without data has to wait.
    pub(super) fn hold_command(&mut self, command: &ScsiCommand) {
        let number = Serial::of(command.cmd_sn);
        self.early.queue.push_back(Early { number, what: Waiting::Command(*command) });
    }

    /// A SCSI command with data has to wait; its data is received all the same.
    pub(super) fn hold_slot(&mut self, number: Serial, index: u16) {
        self.slots[index].is_due = false;
        self.early.queue.push_back(Early { number, what: Waiting::Slot(index) });
    }

    /// Another request has to wait.
    pub(super) fn hold_other(
        &mut self,
        number: Serial,
        header: &[u8; HEADER_LEN],
        data: &[u8],
    ) -> Result<(), PeerError> {
        self.early.data_len += data.len();
        if self.early.data_len > DATA_LEN_MAX {
            return Err(PeerError::WindowOverrun { window: self.shared.window() });
        }
        let what = Waiting::Other(Box::new((*header, data.to_vec())));
        self.early.queue.push_back(Early { number, what });
        Ok(())
    }

    /// Whether commands with lower numbers are on their way, by other connections of the session.
    pub(super) fn comes_before_its_turn(&self, number: Serial) -> bool {
        let expected = self.shared.expected();
        self.shared.is_multiple()
            && expected.is_before(number)
            && number.since(expected) <= self.shared.window()
    }

    /// A task management function has to wait for commands that it is about.
    pub(super) fn hold_function(&mut self, number: Serial, request: &TaskRequest) {
        let what = Waiting::Function(Box::new(*request));
        self.early.queue.push_back(Early { number, what });
    }

    /// Whether it is the turn of the first that waits; it is taken then.
    fn takes_turn(&self, first: &Early) -> bool {
        match first.what {
            Waiting::Function(_) => !self.shared.expected().is_before(first.number),
            _ => self.shared.take_turn(first.number) == Turn::Now,
        }
    }

    /// Whether commands of other connections of the session may wait for what this one has taken:
    /// [`Self::resume`] is to be called for each of them. Asking makes it forget.
    #[inline]
    pub fn stirs(&mut self) -> bool {
        std::mem::take(&mut self.has_stirred)
    }

    /// Other connections of the session have taken commands, or it is to close: takes what waited
    /// for that.
    ///
    /// # Errors
    /// When the initiator broke the protocol: the session is closing.
    pub fn resume(&mut self) -> Result<(), PeerError> {
        self.close_if_told();
        self.settle_functions();
        if self.early.is_empty() {
            return Ok(());
        }
        let resumed = self.take_early();
        if let Err(error) = &resumed {
            self.terminate(*error);
        }
        resumed
    }

    /// Begins the early commands whose turn it is.
    pub(super) fn take_early(&mut self) -> Result<(), PeerError> {
        while self.state == State::FullFeature
            && let Some(first) = self.early.queue.front()
            && self.takes_turn(first)
        {
            self.count_taken();
            let Some(early) = self.early.queue.pop_front() else { break };
            match early.what {
                Waiting::Command(command) => self.begin_command(&command)?,
                Waiting::Slot(index) => {
                    self.slots[index].is_due = true;
                    if self.slots[index].stage == Stage::AwaitingTurn {
                        self.go_on(index);
                    }
                }
                Waiting::Other(other) => {
                    self.early.data_len -= other.1.len();
                    self.on_request(&other.0, &other.1)?;
                }
                Waiting::Function(request) => self.on_function(&request),
                Waiting::GivenUp => self.shared.give_back(),
            }
        }
        Ok(())
    }

    /// A command of this connection was taken: others may be next.
    #[inline]
    pub(super) fn count_taken(&mut self) {
        self.has_stirred |= self.shared.is_multiple();
    }
}
