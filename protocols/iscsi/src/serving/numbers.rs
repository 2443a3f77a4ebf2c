//! The numbers of a session's commands: the next one, and the last one that is allowed.
//!
//! Spec: RFC 7143, 4.2.2.1 (command numbering).
//!
//! Invariants: ExpCmdSN and MaxCmdSN never decrease; the commands taken and not answered never
//! exceed the window; a skipped number lies in the window, and no command uses it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::pdu::Serial;

/// The position of a command number relative to ExpCmdSN.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Turn {
    /// It is the next one, and is taken now.
    Now,
    /// Others come first.
    Later,
    /// It was taken earlier, or is outside the window. The command is ignored.
    Never,
}

/// The command numbers of a session.
#[derive(Debug)]
pub(super) struct Numbers {
    /// How many commands may be under way.
    pub(super) window: u32,
    expected: AtomicU32,
    last: AtomicU32,
    /// The numbers ahead that no command will use: bits by their low bits, and their count.
    skipped: Box<[AtomicU64]>,
    skipped_count: AtomicU32,
    /// Requests that wait for their turn, on all connections.
    early_count: AtomicU32,
}

impl Numbers {
    /// The numbers of a session whose first command has the number `first`.
    pub(super) fn new(first: Serial, window: u32) -> Self {
        // A power of two, so that a number's bit stays the same when numbers wrap to zero.
        let words = window.next_power_of_two().div_ceil(64);
        Self {
            window,
            expected: AtomicU32::new(first.0),
            last: AtomicU32::new(first.plus(window - 1).0),
            skipped: (0..words).map(|_| AtomicU64::new(0)).collect(),
            skipped_count: AtomicU32::new(0),
            early_count: AtomicU32::new(0),
        }
    }

    /// ExpCmdSN: the next command.
    #[inline]
    pub(super) fn expected(&self) -> Serial {
        Serial(self.expected.load(Ordering::Relaxed))
    }

    /// MaxCmdSN: the last command that is taken now.
    #[inline]
    pub(super) fn last(&self) -> Serial {
        Serial(self.last.load(Ordering::Relaxed))
    }

    /// The turn of a command number. If it is the next one, ExpCmdSN advances.
    #[inline]
    pub(super) fn take_turn(&self, number: Serial) -> Turn {
        let expected = self.expected();
        if self.last().next() == expected {
            return Turn::Never; // the window is closed
        }
        let skips = self.skipped_count.load(Ordering::Relaxed) > 0;
        if number == expected {
            self.expected.store(expected.next().0, Ordering::Relaxed);
            if skips {
                self.pass_skipped();
            }
            Turn::Now
        } else if number.since(expected) > self.last().since(expected)
            || skips && self.is_skipped(number)
        {
            Turn::Never
        } else {
            Turn::Later
        }
    }

    /// Records that a command was answered: there is room for one more.
    #[inline]
    pub(super) fn give_back(&self) {
        self.last.store(self.last().next().0, Ordering::Relaxed);
    }

    /// Skips an unused number, which counts as answered in its turn. Returns whether it is ahead.
    pub(super) fn skip(&self, number: Serial) -> bool {
        let (expected, last) = (self.expected(), self.last());
        if last.next() == expected || number.since(expected) > last.since(expected) {
            return false;
        }
        let (word, bit) = self.skip_bit(number);
        if word.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
            self.skipped_count.fetch_add(1, Ordering::Relaxed);
            self.pass_skipped();
        }
        true
    }

    /// Advances past skipped numbers that are next.
    #[cold]
    fn pass_skipped(&self) {
        let mut expected = self.expected();
        while self.is_skipped(expected) {
            let (word, bit) = self.skip_bit(expected);
            word.fetch_and(!bit, Ordering::Relaxed);
            self.skipped_count.fetch_sub(1, Ordering::Relaxed);
            expected = expected.next();
            self.expected.store(expected.0, Ordering::Relaxed);
            self.give_back();
        }
    }

    fn is_skipped(&self, number: Serial) -> bool {
        let (word, bit) = self.skip_bit(number);
        word.load(Ordering::Relaxed) & bit != 0
    }

    /// Where a number of the window is in [`Self::skipped`].
    fn skip_bit(&self, number: Serial) -> (&AtomicU64, u64) {
        let index = usize::try_from(number.0 / 64).expect("usize is at least 32 bits wide");
        // As many words as a power of two.
        (&self.skipped[index & (self.skipped.len() - 1)], 1 << (number.0 % 64))
    }

    /// One more request waits for its turn.
    pub(super) fn early_came(&self) {
        self.early_count.fetch_add(1, Ordering::Relaxed);
    }

    /// Records that a request no longer waits for its turn.
    pub(super) fn early_left(&self) {
        self.early_count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether any request waits for its turn, on any connection.
    #[inline]
    pub(super) fn is_any_early(&self) -> bool {
        self.early_count.load(Ordering::Relaxed) > 0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// A model of the numbers, without wrapping.
    #[derive(Debug, Default)]
    struct Model {
        expected: u32,
        answered: u32,
        skipped: BTreeSet<u32>,
    }

    impl Model {
        fn is_ahead(&self, number: u32, window: u32) -> bool {
            (self.expected..self.answered + window).contains(&number)
        }

        fn pass(&mut self) {
            while self.skipped.remove(&self.expected) {
                self.expected += 1;
                self.answered += 1;
            }
        }

        fn take(&mut self, number: u32, window: u32) -> Turn {
            if !self.is_ahead(number, window) || self.skipped.contains(&number) {
                return Turn::Never;
            }
            if number != self.expected {
                return Turn::Later;
            }
            self.expected += 1;
            self.pass();
            Turn::Now
        }

        fn skip(&mut self, number: u32, window: u32) -> bool {
            let is_ahead = self.is_ahead(number, window);
            if is_ahead {
                self.skipped.insert(number);
                self.pass();
            }
            is_ahead
        }
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Take(u32),
        Skip(u32),
        Answer,
    }

    fn any_step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => Just(Step::Take(0)),
            2 => (0u32..150).prop_map(Step::Take),
            2 => (0u32..150).prop_map(Step::Skip),
            3 => Just(Step::Answer),
        ]
    }

    proptest! {
        /// Steps say how far ahead of the expected number they are.
        #[test]
        fn numbers_stand_as_a_plain_count_of_them_says(
            window in prop::sample::select(&[1u32, 8, 64, 100][..]),
            first in prop::sample::select(&[0u32, 77, u32::MAX - 5][..]),
            steps in prop::collection::vec(any_step(), 1..300),
        ) {
            let numbers = Numbers::new(Serial(first), window);
            let mut model = Model::default();
            for step in steps {
                let of = |ahead: u32| model.expected + ahead;
                match step {
                    Step::Take(ahead) => {
                        let number = of(ahead);
                        let turn = numbers.take_turn(Serial(first).plus(number));
                        prop_assert_eq!(turn, model.take(number, window));
                    }
                    Step::Skip(ahead) => {
                        let number = of(ahead);
                        let is_ahead = numbers.skip(Serial(first).plus(number));
                        prop_assert_eq!(is_ahead, model.skip(number, window));
                    }
                    Step::Answer if model.answered < model.expected => {
                        numbers.give_back();
                        model.answered += 1;
                    }
                    Step::Answer => {}
                }
                prop_assert_eq!(numbers.expected(), Serial(first).plus(model.expected));
                let last = model.answered + window;
                prop_assert_eq!(numbers.last().next(), Serial(first).plus(last));
            }
        }
    }
}
