//! One direction of a connection: bytes in order, in pieces, after a while.
//!
//! Invariant: what arrives is what was sent, whole and in order, until the pipe breaks.

use std::collections::VecDeque;

use nearflash_units::Nanos;

use crate::Dice;
use crate::faults::NetworkFaults;

/// Something that happens to one end of a link when its time comes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Arrival {
    /// A piece of the stream.
    Piece,
    /// The end of the stream.
    End,
    /// Room to send this many bytes more.
    Room(usize),
    /// A reset.
    Reset,
}

/// One direction.
#[derive(Debug)]
pub(crate) struct Pipe {
    /// The number of bytes that its sender may still put in.
    room: usize,
    flight: VecDeque<Vec<u8>>,
    arrived: VecDeque<u8>,
    /// Later bytes arrive after this moment, so that nothing overtakes.
    last_arrival: Nanos,
    end_sent: bool,
    end_arrived: bool,
}

impl Pipe {
    pub(crate) fn new(room: usize) -> Self {
        Self {
            room,
            flight: VecDeque::new(),
            arrived: VecDeque::new(),
            last_arrival: Nanos(0),
            end_sent: false,
            end_arrived: false,
        }
    }

    pub(crate) fn room(&self) -> usize {
        self.room
    }

    pub(crate) fn unread(&self) -> usize {
        self.arrived.len()
    }

    pub(crate) fn has_end_arrived(&self) -> bool {
        self.end_arrived
    }

    pub(crate) fn is_end_sent(&self) -> bool {
        self.end_sent
    }

    /// Adds an event for the receiver.
    pub(crate) fn is_readable(&self) -> bool {
        !self.arrived.is_empty() || self.end_arrived
    }

    /// The arrival time of bytes sent now: not before earlier bytes.
    pub(crate) fn arrival(&mut self, now: Nanos, faults: &NetworkFaults, dice: &mut Dice) -> Nanos {
        let mut at = now.plus(dice.span(faults.latency));
        if dice.permille(faults.stall_permille) {
            at = at.plus(faults.stall);
        }
        self.last_arrival = self.last_arrival.max(at);
        self.last_arrival
    }

    /// Puts in `bytes`, for which there is room, and returns the moments at which pieces arrive.
    pub(crate) fn send(
        &mut self,
        bytes: &[u8],
        now: Nanos,
        faults: &NetworkFaults,
        dice: &mut Dice,
        due: &mut impl FnMut(Nanos),
    ) {
        assert!(bytes.len() <= self.room, "no more is sent than there is room for");
        assert!(!self.end_sent, "nothing is sent after the end");
        self.room -= bytes.len();
        let mut rest = bytes;
        while !rest.is_empty() {
            let len =
                if dice.coin() { faults.piece_len_max } else { dice.len(1, faults.piece_len_max) };
            let (piece, behind) = rest.split_at(len.min(rest.len()));
            self.flight.push_back(piece.to_vec());
            due(self.arrival(now, faults, dice));
            rest = behind;
        }
    }

    pub(crate) fn send_end(&mut self) {
        self.end_sent = true;
    }

    pub(crate) fn arrive_piece(&mut self) {
        let piece = self.flight.pop_front().expect("a piece arrives once");
        self.arrived.extend(piece);
    }

    pub(crate) fn arrive_end(&mut self) {
        self.end_arrived = true;
    }

    pub(crate) fn add_room(&mut self, len: usize) {
        self.room += len;
    }

    /// Takes the next bytes; fills all of `into`.
    pub(crate) fn receive(&mut self, into: &mut [u8]) {
        for (byte, place) in self.arrived.drain(..into.len()).zip(into) {
            *place = byte;
        }
    }

    /// Discards bytes that have arrived and were not read.
    pub(crate) fn forget(&mut self) {
        self.arrived.clear();
    }
}
