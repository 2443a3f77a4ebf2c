//! Counter blocks, which hosts increment by compare-and-write: each step takes effect on exactly
//! the block with which it was compared. Where nothing else writes, all successes are one chain
//! without forks.

use std::collections::BTreeMap;

use crate::history::Block;
use crate::machine::NodeId;
use crate::node::node_of;
use crate::stamp::{Stamp, Value};

/// The result of one compare-and-write.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Step {
    /// Not known, perhaps permanently.
    Open,
    Won,
    /// The comparison failed.
    Refused,
}

/// The steps of all counters.
#[derive(Debug, Default)]
pub(crate) struct Increments {
    steps: BTreeMap<Block, BTreeMap<Stamp, (Value, Step)>>,
    won: u64,
}

impl Increments {
    /// A step from the block as read to `to` is sent.
    pub(crate) fn sent(&mut self, block: Block, from: Value, to: Stamp) {
        self.steps.entry(block).or_default().insert(to, (from, Step::Open));
    }

    /// A step succeeded.
    ///
    /// # Panics
    /// When another step succeeded from the same block: a write came between compare and write.
    pub(crate) fn won(&mut self, block: Block, to: Stamp) {
        let Some(steps) = self.steps.get_mut(&block) else { return };
        let Some((from, _)) = steps.get(&to).copied() else { return };
        // Zeroes can recur, where they are written.
        let is_unique = matches!(from, Value::Written(_));
        let twin = steps.iter().find(|(_, step)| is_unique && **step == (from, Step::Won));
        assert_eq!(twin, None, "{block:?}: {to:?} and another both succeeded from {from:?}");
        steps.insert(to, (from, Step::Won));
        self.won += 1;
    }

    /// A step's comparison failed.
    pub(crate) fn refused(&mut self, block: Block, to: Stamp) {
        if let Some((_, step)) = self.steps.get_mut(&block).and_then(|steps| steps.get_mut(&to)) {
            *step = Step::Refused;
        }
    }

    /// A step takes effect on its device.
    ///
    /// # Panics
    /// When the block differs from the compared one: a write came between.
    pub(crate) fn took_effect(&self, to: Stamp, before: Value) {
        if before == Value::Written(to) {
            return; // rewritten with its own content
        }
        let block = Block { volume: to.volume, lba: to.lba };
        let Some((from, _)) = self.steps.get(&block).and_then(|steps| steps.get(&to)) else {
            return;
        };
        assert_eq!(*from, before, "{to:?}: something came between compare and write");
    }

    /// No step is under way, and the counter holds `now`: exactly the successes led there, and
    /// perhaps steps whose answers were lost.
    ///
    /// # Panics
    /// When a success is missing, or a refusal had an effect.
    pub(crate) fn check(&self, block: Block, now: Value) {
        let Some(steps) = self.steps.get(&block) else { return };
        let mut at = now;
        let mut won = 0;
        let mut taken: u32 = 0;
        while let Value::Written(stamp) = at {
            let Some((from, step)) = steps.get(&stamp) else { break };
            assert_ne!(*step, Step::Refused, "{block:?}: {stamp:?} was refused and is there");
            won += usize::from(*step == Step::Won);
            taken += 1;
            assert_eq!(from.count() + 1, stamp.count, "{block:?} is counted one by one");
            at = *from;
        }
        let all_won = steps.values().filter(|(_, step)| *step == Step::Won).count();
        assert_eq!(won, all_won, "{block:?}: {taken} steps lead to {now:?}; every success is one");
    }

    /// A node restarted: the content of its disks begins new chains.
    pub(crate) fn restart(&mut self, node: NodeId) {
        self.steps.retain(|block, _| node_of(block.volume) != node);
    }

    /// The number of steps that succeeded.
    pub(crate) fn won_count(&self) -> u64 {
        self.won
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamp::Writer;
    use nearflash_units::Lba;

    const BLOCK: Block = Block { volume: 0, lba: Lba(0) };

    fn stamp(sequence: u32, count: u32) -> Stamp {
        Stamp { volume: 0, lba: Lba(0), writer: Writer(1), sequence, count }
    }

    #[test]
    #[should_panic(expected = "both succeeded")]
    fn two_successes_from_one_value_are_found() {
        let mut increments = Increments::default();
        let from = Value::Written(stamp(7, 1));
        increments.sent(BLOCK, from, stamp(1, 2));
        increments.sent(BLOCK, from, stamp(2, 2));
        increments.won(BLOCK, stamp(1, 2));
        increments.won(BLOCK, stamp(2, 2));
    }

    #[test]
    #[should_panic(expected = "came between")]
    fn a_step_on_another_value_than_it_was_compared_with_is_found() {
        let mut increments = Increments::default();
        increments.sent(BLOCK, Value::Zero, stamp(1, 1));
        increments.took_effect(stamp(1, 1), Value::Written(stamp(9, 0)));
    }

    #[test]
    #[should_panic(expected = "every success is one")]
    fn a_success_that_left_no_trace_is_found() {
        let mut increments = Increments::default();
        increments.sent(BLOCK, Value::Zero, stamp(1, 1));
        increments.won(BLOCK, stamp(1, 1));
        increments.check(BLOCK, Value::Zero);
    }

    #[test]
    fn a_step_whose_answer_was_lost_may_count() {
        let mut increments = Increments::default();
        increments.sent(BLOCK, Value::Zero, stamp(1, 1));
        increments.sent(BLOCK, Value::Written(stamp(1, 1)), stamp(2, 2));
        increments.won(BLOCK, stamp(2, 2));
        increments.check(BLOCK, Value::Written(stamp(2, 2)));
    }
}
