//! A client's messages for the owner of the files of a volume. Each is answered once, with the answer
//! to this very message, in any order.

use std::collections::BTreeMap;

use nearflash_direct::Status;
use nearflash_direct::client::ClientEvent;
use nearflash_direct::serving::FILES_IN_FLIGHT_MAX;
use nearflash_direct::wire::{FILES_LEN_MAX, SMALL_LEN_MAX};

use super::{Client, Common, Life};
use crate::Dice;
use crate::files_owner::answer_to;
use crate::outside::Outside;
use crate::witness::Tick;

/// The share of its steps with messages.
const STEPS_PERMILLE: u32 = 60;
/// The share of its messages with the greatest length.
const LONGEST_PERMILLE: u32 = 5;

/// The most by which short sends divide the rate of a network, roughly.
const SHORT_SENDS: u64 = 32;

/// A client's messages.
#[derive(Debug)]
pub(super) struct Messages {
    dice: Dice,
    /// Those without an answer, with the time at which they were sent, and how many others had none.
    asked: BTreeMap<u32, (Vec<u8>, Tick, usize)>,
}

impl Messages {
    pub(super) fn new(dice: Dice) -> Self {
        Self { dice, asked: BTreeMap::new() }
    }

    /// The connection has ended.
    pub(super) fn end(&mut self) {
        self.asked.clear();
    }

    /// The bytes of those without an answer.
    fn unanswered_len(&self) -> usize {
        self.asked.values().map(|(message, ..)| message.len()).sum()
    }

    fn draw(&mut self, len_max: usize) -> Vec<u8> {
        let is_longest = self.dice.permille(LONGEST_PERMILLE);
        let short = self.dice.pick(&[1, 40, 40, 40, SMALL_LEN_MAX + 1]);
        let len = if is_longest { FILES_LEN_MAX } else { short };
        let len = usize::try_from(len).expect("a length").min(len_max);
        let mut from = self.dice.fork();
        let words = std::iter::repeat_with(|| from.roll().to_le_bytes()).flatten();
        words.take(len).collect()
    }
}

impl Client {
    /// Sends messages, sometimes more than the node takes at a time.
    pub(super) fn work_on_files(&mut self, outside: &mut Outside) {
        let is_used = self.plan.files && self.plan.crooked.is_none() && !self.is_deaf();
        let is_working = self.life == Life::Working && !self.is_bearer();
        if !is_used || !is_working || !self.messages.dice.permille(STEPS_PERMILLE) {
            return;
        }
        let Some(connection) = &mut self.connection else { return };
        let Some(handle) = connection.volumes.get(&self.route.node.files_id()) else { return };
        // No more at a time than a slow network carries in a second, or all other requests would wait
        // for minutes. With short sends, each of which may stall, it carries a small part of
        // its mean rate.
        let network = &outside.network.faults;
        let are_short = network.short_permille > 0 && network.stall_permille > 0;
        let len_max = network.mean_rate().0 / if are_short { SHORT_SENDS } else { 1 };
        let len_max = usize::try_from(len_max).unwrap_or(usize::MAX);
        for _ in 0..self.messages.dice.pick(&[1, 1, 1, 1, 3, 3, FILES_IN_FLIGHT_MAX + 2]) {
            let left = len_max.saturating_sub(self.messages.unanswered_len());
            if left == 0 {
                return;
            }
            let message = self.messages.draw(left);
            // A connection that is closing fails by itself.
            let Ok(number) = connection.session.files(*handle, &message) else { return };
            let others = self.messages.asked.len();
            self.messages.asked.insert(number, (message, outside.tick(), others));
        }
    }

    /// Checks an answer.
    pub(super) fn judge_files(&mut self, event: ClientEvent, common: &mut Common) {
        let ClientEvent::Files { number, result } = event else { return };
        let asked = self.messages.asked.remove(&number);
        let (message, sent, others) = asked.expect("a message is answered once");
        let due = answer_to(&message);
        match &result {
            Err(Status::BUSY) if others >= FILES_IN_FLIGHT_MAX => common.files_refused += 1,
            Err(Status::NOT_GRANTED | Status::NO_SUCH_VOLUME) if sent < self.refusable_until => {
                common.files_refused += 1;
            }
            answer => {
                let is_due = *answer == due;
                let status = answer.as_ref().err();
                assert!(is_due, "client {}: message {number}, the answer {status:?}", self.number);
                common.files += 1;
            }
        }
    }
}
