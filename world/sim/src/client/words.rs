//! Words that clients change by atomic operations only, and the check that some order of these
//! operations explains their answers.
//!
//! A word of sums grows by one at a time. So no two additions found the same sum. An addition sent
//! after another's answer found more than that one did. In the end the sum is at least the number
//! of answered additions and at most the number sent. A word of swaps holds a series of numbers
//! that are used once: no two swaps replaced the same number, and the successful swaps form one
//! chain.

use std::collections::BTreeMap;

use crate::client::ground::WordUse;
use crate::witness::Tick;

/// An addition that was answered.
#[derive(Clone, Copy, Debug)]
struct Added {
    found: u64,
    sent: Tick,
    ended: Tick,
}

#[derive(Debug, Default)]
struct Sum {
    /// The value after the last loss of power.
    base: u64,
    added: BTreeMap<u64, Added>,
    sent: u64,
    /// Additions whose result is unknown.
    open: u64,
    /// A lower bound of the value after a loss of power.
    durable: u64,
}

/// The result of a swap.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fate {
    Open,
    Done { sent: Tick, ended: Tick, durable: bool },
    Refused,
}

#[derive(Clone, Copy, Debug)]
struct Swap {
    /// The value that it replaced, or would have replaced.
    expected: u64,
    fate: Fate,
}

#[derive(Debug, Default)]
struct Chain {
    base: u64,
    /// Swaps by their new value.
    swaps: BTreeMap<u64, Swap>,
}

impl Chain {
    /// The values from the current one back to the base: every swap that had its value in the word,
    /// the last one first.
    ///
    /// # Panics
    /// When one of these swaps was refused, or no swap wrote the current value.
    fn way_to(&self, word: u64, found: u64) -> Vec<u64> {
        let (mut at, mut way) = (found, Vec::new());
        while at != self.base {
            let swap = self.swaps.get(&at);
            let swap = swap.unwrap_or_else(|| panic!("word {word}: nobody put {at} there"));
            assert_ne!(swap.fate, Fate::Refused, "word {word}: {at} was refused and was there");
            way.push(at);
            at = swap.expected;
        }
        way
    }

    /// A swap that meets the condition and is not in the chain.
    fn missing(&self, way: &[u64], is_meant: impl Fn(Fate) -> bool) -> Option<u64> {
        let mut meant = self.swaps.iter().filter(|(_, swap)| is_meant(swap.fate));
        meant.find(|(new, _)| !way.contains(new)).map(|(new, _)| *new)
    }
}

/// The words of a run.
#[derive(Debug, Default)]
pub(crate) struct Words {
    sums: BTreeMap<u64, Sum>,
    chains: BTreeMap<u64, Chain>,
    /// When an operator last cleared a device: no flush after it saves operations that were sent before.
    cleared: Tick,
    /// Numbers for swaps: each is used once.
    swap_count: u64,
    /// Operations that were answered.
    pub(crate) judged: u64,
}

impl Words {
    /// A number that no swap has used.
    pub(crate) fn fresh(&mut self) -> u64 {
        self.swap_count += 1;
        self.swap_count
    }

    /// An addition of one is sent.
    pub(crate) fn add_sent(&mut self, word: u64) {
        let sum = self.sums.entry(word).or_default();
        sum.sent += 1;
        sum.open += 1;
    }

    /// An addition was answered with the value that it found.
    ///
    /// # Panics
    /// When no order of operations explains the value.
    pub(crate) fn added(
        &mut self,
        word: u64,
        found: u64,
        (sent, now): (Tick, Tick),
        durable: bool,
    ) {
        let sum = self.sums.get_mut(&word).expect("it was sent");
        self.judged += 1;
        sum.open -= 1;
        assert!(
            (sum.base..sum.base + sum.sent).contains(&found),
            "word {word}: an addition found {found}, between {} and {} were ever there",
            sum.base,
            sum.base + sum.sent
        );
        let before = sum.added.values().filter(|added| added.ended < sent);
        let least = before.map(|added| added.found + 1).max().unwrap_or(sum.base);
        assert!(
            found >= least,
            "word {word}: an addition found {found}, which was {least} already"
        );
        let twin = sum.added.insert(found, Added { found, sent, ended: now });
        assert!(twin.is_none(), "word {word}: two additions found {found}: one of them is lost");
        if durable {
            sum.durable = sum.durable.max(found + 1);
        }
    }

    /// An addition was refused: it was not done.
    pub(crate) fn add_refused(&mut self, word: u64) {
        let sum = self.sums.get_mut(&word).expect("it was sent");
        sum.open -= 1;
        sum.sent -= 1;
    }

    /// A flush that was sent at `flush` has succeeded.
    pub(crate) fn flushed(&mut self, flush: Tick) {
        let cleared = self.cleared;
        let is_saved = |sent: Tick, ended: Tick| ended < flush && sent >= cleared;
        for sum in self.sums.values_mut() {
            let saved = sum.added.values().filter(|added| is_saved(added.sent, added.ended));
            let least = saved.map(|added| added.found + 1).max().unwrap_or(sum.base);
            sum.durable = sum.durable.max(least);
        }
        for swap in self.chains.values_mut().flat_map(|chain| chain.swaps.values_mut()) {
            if let Fate::Done { sent, ended, durable } = &mut swap.fate {
                *durable |= is_saved(*sent, *ended);
            }
        }
    }

    /// An operator has cleared a device.
    pub(crate) fn cleared(&mut self, now: Tick) {
        self.cleared = now;
    }

    /// A swap is sent.
    pub(crate) fn swap_sent(&mut self, word: u64, expected: u64, new: u64) {
        let swap = Swap { expected, fate: Fate::Open };
        self.chains.entry(word).or_default().swaps.insert(new, swap);
    }

    /// A swap was answered with the value that it found.
    ///
    /// # Panics
    /// When no order of operations explains the value.
    pub(crate) fn swapped(
        &mut self,
        word: u64,
        new: u64,
        found: u64,
        (sent, now): (Tick, Tick),
        durable: bool,
    ) {
        let chain = self.chains.get_mut(&word).expect("it was sent");
        self.judged += 1;
        let was_put = |swap: &Swap| swap.fate != Fate::Refused;
        let is_known = found == chain.base || chain.swaps.get(&found).is_some_and(was_put);
        assert!(is_known, "word {word}: a swap found {found}, which nobody put there");
        let expected = chain.swaps[&new].expected;
        let fate = if found == expected {
            let is_twin =
                |it: &Swap| it.expected == expected && matches!(it.fate, Fate::Done { .. });
            let twin = chain.swaps.iter().find(|(_, swap)| is_twin(swap));
            assert!(twin.is_none(), "word {word}: {new} and {twin:?} both replaced {expected}");
            Fate::Done { sent, ended: now, durable }
        } else {
            Fate::Refused
        };
        chain.swaps.insert(new, Swap { expected, fate });
    }

    /// A swap was refused: it was not done.
    pub(crate) fn swap_refused(&mut self, word: u64, new: u64) {
        let chain = self.chains.get_mut(&word).expect("it was sent");
        if let Some(swap) = chain.swaps.get_mut(&new) {
            swap.fate = Fate::Refused;
        }
    }

    /// The node has nothing under way, and a word has this value.
    ///
    /// # Panics
    /// When an operation is missing, or one that nobody requested was done.
    pub(crate) fn at_rest(&self, word: u64, kind: WordUse, found: u64) {
        match kind {
            WordUse::Sum => {
                let Some(sum) = self.sums.get(&word) else { return };
                let done = u64::try_from(sum.added.len()).expect("a count");
                let range = sum.base + done..=sum.base + done + sum.open;
                assert!(range.contains(&found), "word {word} is {found}, not in {range:?}");
            }
            WordUse::Chain => {
                let Some(chain) = self.chains.get(&word) else { return };
                let way = chain.way_to(word, found);
                let missing = chain.missing(&way, |fate| matches!(fate, Fate::Done { .. }));
                assert_eq!(missing, None, "word {word} is {found}: every swap is one step to it");
            }
        }
    }

    /// The power is back, and a word has this value, which is its new base.
    ///
    /// # Panics
    /// When something durable is lost.
    pub(crate) fn power_lost(&mut self, word: u64, kind: WordUse, found: u64) {
        match kind {
            WordUse::Sum => {
                let sum = self.sums.entry(word).or_default();
                let range = sum.durable.max(sum.base)..=sum.base + sum.sent;
                assert!(
                    range.contains(&found),
                    "the power was lost, and word {word} is {found}, not in {range:?}"
                );
                *sum = Sum { base: found, durable: found, ..Sum::default() };
            }
            WordUse::Chain => {
                let chain = self.chains.entry(word).or_default();
                let way = chain.way_to(word, found);
                let missing =
                    chain.missing(&way, |fate| matches!(fate, Fate::Done { durable: true, .. }));
                assert_eq!(
                    missing, None,
                    "the power was lost, and word {word} is {found}: a durable swap is lost"
                );
                *chain = Chain { base: found, ..Chain::default() };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_sent() -> Words {
        let mut words = Words::default();
        words.add_sent(8);
        words.add_sent(8);
        words
    }

    #[test]
    #[should_panic(expected = "one of them is lost")]
    fn two_additions_to_one_sum_are_found() {
        let mut words = two_sent();
        words.added(8, 0, (Tick(1), Tick(9)), false);
        words.added(8, 0, (Tick(2), Tick(8)), false);
    }

    #[test]
    #[should_panic(expected = "already")]
    fn an_addition_that_came_later_finds_more() {
        let mut words = two_sent();
        words.added(8, 1, (Tick(1), Tick(3)), false);
        words.added(8, 0, (Tick(4), Tick(5)), false);
    }

    #[test]
    #[should_panic(expected = "not in")]
    fn an_addition_without_effect_is_found() {
        let mut words = two_sent();
        words.added(8, 0, (Tick(1), Tick(3)), false);
        words.add_refused(8);
        words.at_rest(8, WordUse::Sum, 0);
    }

    #[test]
    fn an_addition_whose_answer_was_lost_may_count() {
        let mut words = two_sent();
        words.added(8, 1, (Tick(1), Tick(3)), false);
        words.at_rest(8, WordUse::Sum, 2);
    }

    #[test]
    #[should_panic(expected = "both replaced")]
    fn two_swaps_of_one_word_are_found() {
        let mut words = Words::default();
        words.swap_sent(8, 0, 1);
        words.swap_sent(8, 0, 2);
        words.swapped(8, 1, 0, (Tick(3), Tick(3)), false);
        words.swapped(8, 2, 0, (Tick(4), Tick(4)), false);
    }

    #[test]
    #[should_panic(expected = "every swap is one step")]
    fn a_swap_without_effect_is_found() {
        let mut words = Words::default();
        words.swap_sent(8, 0, 1);
        words.swapped(8, 1, 0, (Tick(3), Tick(3)), false);
        words.at_rest(8, WordUse::Chain, 0);
    }

    #[test]
    #[should_panic(expected = "was lost")]
    fn a_durable_addition_survives_the_loss_of_power() {
        let mut words = two_sent();
        words.added(8, 0, (Tick(1), Tick(3)), true);
        words.power_lost(8, WordUse::Sum, 0);
    }
    /// One swap that was done from 1 to 3, and nothing else.
    fn one_swap(durable: bool) -> Words {
        let mut words = Words::default();
        words.swap_sent(8, 0, 1);
        words.swapped(8, 1, 0, (Tick(3), Tick(3)), durable);
        words
    }

    #[test]
    #[should_panic(expected = "a durable swap is lost")]
    fn a_durable_swap_survives_the_loss_of_power() {
        one_swap(true).power_lost(8, WordUse::Chain, 0);
    }

    #[test]
    #[should_panic(expected = "a durable swap is lost")]
    fn a_flushed_swap_survives_the_loss_of_power() {
        let mut words = one_swap(false);
        words.flushed(Tick(4));
        words.power_lost(8, WordUse::Chain, 0);
    }

    #[test]
    fn a_swap_that_was_not_flushed_may_be_lost() {
        let mut words = one_swap(false);
        words.flushed(Tick(2));
        words.power_lost(8, WordUse::Chain, 0);
    }
}
