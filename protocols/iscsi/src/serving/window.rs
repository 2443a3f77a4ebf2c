//! The order of commands: a command that arrives before its turn waits here.
//!
//! Spec: RFC 7143, 4.2.2.1. Commands of a session are numbered over all its connections, and begin
//! in that order. On each connection they come in increasing order (error recovery level 0), so
//! that only a session with several connections makes any wait.

use std::collections::VecDeque;

use super::numbers::Turn;
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

/// The part of an early request that is kept.
#[derive(Debug)]
enum Waiting {
    /// A SCSI command without data, which has no slot yet.
    Command(ScsiCommand),
    /// A SCSI command whose data is received already.
    Slot(u16),
    /// Any other request, with its data.
    Other(Box<([u8; HEADER_LEN], Vec<u8>)>),
    /// An immediate task management function, which comes before the command of that number.
    Function(Box<TaskRequest>),
}

/// The maximum length of the data of all waiting requests together, in bytes: pings and text have
/// little.
const DATA_LEN_MAX: usize = 64 * 1024;

/// The commands of a connection that wait for others, in the order of their numbers.
#[derive(Debug, Default)]
pub(super) struct EarlyCommands {
    queue: VecDeque<Early>,
    /// The data of waiting requests other than SCSI commands, in bytes.
    data_len: usize,
}

impl EarlyCommands {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    fn last_number(&self) -> Option<Serial> {
        let has_number = |early: &&Early| !matches!(early.what, Waiting::Function(_));
        self.queue.iter().rev().find(has_number).map(|early| early.number)
    }

    /// Removes the first early command that matches, and returns its number.
    fn remove(&mut self, is_meant: impl Fn(&Waiting) -> bool) -> Option<Serial> {
        let place = self.queue.iter().position(|early| is_meant(&early.what))?;
        self.queue.remove(place).map(|early| early.number)
    }
}

impl TargetSession {
    /// The turn of a command's number. A number that is held already is not taken twice.
    #[inline]
    pub(super) fn turn_of(&self, number: Serial) -> Turn {
        let turn = self.shared.numbers.take_turn(number);
        if turn == Turn::Later
            && self.early.last_number().is_some_and(|last| !last.is_before(number))
        {
            return Turn::Never;
        }
        turn
    }

    fn hold_until(&mut self, number: Serial, what: Waiting) {
        self.early.queue.push_back(Early { number, what });
        self.shared.numbers.early_came();
    }

    /// Holds a SCSI command without data.
    pub(super) fn hold_command(&mut self, command: &ScsiCommand) {
        self.hold_until(Serial::of(command.cmd_sn), Waiting::Command(*command));
    }

    /// Holds a SCSI command with data; its data is received nevertheless.
    pub(super) fn hold_slot(&mut self, number: Serial, index: u16) {
        self.tasks.slots[index].is_due = false;
        self.hold_until(number, Waiting::Slot(index));
    }

    /// Holds another request.
    pub(super) fn hold_other(
        &mut self,
        number: Serial,
        header: &[u8; HEADER_LEN],
        data: &[u8],
    ) -> Result<(), PeerError> {
        self.early.data_len += data.len();
        if self.early.data_len > DATA_LEN_MAX {
            return Err(PeerError::WindowOverrun(self.shared.numbers.window));
        }
        self.hold_until(number, Waiting::Other(Box::new((*header, data.to_vec()))));
        Ok(())
    }

    /// Whether commands with lower numbers are on their way, by other connections of the session.
    pub(super) fn comes_before_its_turn(&self, number: Serial) -> bool {
        let expected = self.shared.numbers.expected();
        self.shared.is_multiple
            && expected.is_before(number)
            && number.since(expected) <= self.shared.numbers.window
    }

    /// Holds a task management function until the commands that it affects have arrived.
    pub(super) fn hold_function(&mut self, number: Serial, request: &TaskRequest) {
        self.hold_until(number, Waiting::Function(Box::new(*request)));
    }

    /// Skips a number that no command will use: in its turn it is passed over, and a waiting
    /// command on any connection may be next. Returns whether the number was ahead.
    pub(super) fn skip(&mut self, number: Serial) -> bool {
        let is_ahead = self.shared.numbers.skip(number);
        self.siblings.is_concerned |= is_ahead;
        is_ahead
    }

    /// Gives up a waiting command that has no slot. Returns whether there was one.
    pub(super) fn skip_command(&mut self, is_meant: impl Fn(&ScsiCommand) -> bool) -> bool {
        self.skip_early(|what| matches!(what, Waiting::Command(command) if is_meant(command)))
    }

    /// Gives up a waiting command whose slot is given up.
    pub(super) fn skip_slot(&mut self, index: u16) {
        self.skip_early(|what| matches!(what, Waiting::Slot(slot) if *slot == index));
    }

    fn skip_early(&mut self, is_meant: impl Fn(&Waiting) -> bool) -> bool {
        let number = self.early.remove(is_meant);
        if let Some(number) = number {
            self.shared.numbers.early_left();
            self.skip(number);
        }
        number.is_some()
    }

    /// Gives up all waiting commands: the session may continue without this connection.
    pub(super) fn skip_all(&mut self) {
        for early in std::mem::take(&mut self.early).queue {
            self.shared.numbers.early_left();
            if !matches!(early.what, Waiting::Function(_)) {
                self.skip(early.number);
            }
        }
    }

    /// The turn of the first command that waits here.
    fn turn_of_first(&self) -> Turn {
        match self.early.queue.front() {
            None => Turn::Later,
            Some(Early { number, what: Waiting::Function(_) }) => {
                match self.shared.numbers.expected().is_before(*number) {
                    true => Turn::Later,
                    false => Turn::Now,
                }
            }
            Some(first) => self.shared.numbers.take_turn(first.number),
        }
    }

    /// Whether commands on other connections of the session may wait for a command that this one
    /// has taken. The driver must then call [`Self::resume`] for each of them. The call resets the
    /// flag.
    #[inline]
    pub fn concerns_siblings(&mut self) -> bool {
        std::mem::take(&mut self.siblings.is_concerned)
    }

    /// Whether it has commands that wait for others of the session, so that they are older than what it receives
    /// now.
    #[inline]
    pub fn holds_commands(&self) -> bool {
        !self.early.is_empty()
    }

    /// Takes the commands that waited for other connections of the session to take theirs, or for
    /// the session to close.
    ///
    /// # Errors
    /// When the initiator violated the protocol: the session is closing.
    pub fn resume(&mut self) -> Result<(), PeerError> {
        self.close_if_over();
        self.settle_functions();
        if self.early.is_empty() {
            return Ok(());
        }
        self.take_early().map_err(|error| self.terminate(error))
    }

    /// Begins the early commands whose turn it is.
    pub(super) fn take_early(&mut self) -> Result<(), PeerError> {
        while self.state == State::FullFeature {
            let turn = self.turn_of_first();
            if turn == Turn::Later {
                break;
            }
            let Some(Early { what, .. }) = self.early.queue.pop_front() else { break };
            self.shared.numbers.early_left();
            self.count_taken();
            match turn {
                Turn::Now => self.begin_early(what)?,
                _ => self.forget_early(what),
            }
        }
        Ok(())
    }

    fn begin_early(&mut self, what: Waiting) -> Result<(), PeerError> {
        match what {
            Waiting::Command(command) => self.begin_command(&command)?,
            Waiting::Slot(index) => {
                self.tasks.slots[index].is_due = true;
                if self.tasks.slots[index].stage == Stage::AwaitingTurn {
                    self.go_on(index);
                }
            }
            Waiting::Other(other) => {
                self.early.data_len -= other.1.len();
                self.on_request(&other.0, &other.1)?;
            }
            Waiting::Function(request) => self.on_function(&request),
        }
        Ok(())
    }

    /// Drops an early command whose number another connection used or gave up: it is a duplicate.
    fn forget_early(&mut self, what: Waiting) {
        match what {
            Waiting::Slot(index) => self.give_up(index),
            Waiting::Other(other) => self.early.data_len -= other.1.len(),
            Waiting::Command(_) | Waiting::Function(_) => {}
        }
    }

    /// Records that a command of this connection was taken: waiting ones may be next.
    #[inline]
    pub(super) fn count_taken(&mut self) {
        self.siblings.is_concerned |= self.shared.numbers.is_any_early();
    }
}
