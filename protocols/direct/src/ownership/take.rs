//! Taking a volume: from the first look at its owner block to the new term.
//!
//! The taker reads the block, and watches it until it has been unchanged for [`SILENCE_MAX`], or does
//! not wait if it was asked to take over or the volume has no owner. Then it increments the term with
//! a compare-and-swap, and flushes. The flush is needed: if the node lost the new term with its power,
//! the former owner would find its own term again, and would go on.

use nearflash_units::Nanos;

use super::block::{OWNER_BLOCK_LEN, OwnerBlock, OwnerRecord, RecordError, Term};

/// The interval at which an owner changes its record.
pub const BEAT_INTERVAL: Nanos = Nanos::from_secs(2);
/// An owner whose block has not changed for this long is considered dead.
pub const SILENCE_MAX: Nanos = Nanos::from_secs(10);
/// The interval at which a taker reads the block.
const LOOK_INTERVAL: Nanos = Nanos::from_millis(500);

/// The next step of a taker.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum TakeStep {
    /// Read the owner block, not before this time; then call [`Take::handle_read`].
    Read {
        /// The earliest time.
        at: Nanos,
    },
    /// Replace the term by compare-and-swap; then call [`Take::handle_swapped`].
    Swap {
        /// The term that was read.
        expected: Term,
        /// The taker's term.
        new: Term,
    },
    /// Flush over the connection of the swap; then call [`Take::handle_flushed`]. If the flush fails or
    /// that connection is lost, the attempt is over: a flush over a later connection does not report
    /// that the node has lost the term.
    Flush,
    /// The term is the taker's. It claims the roles next, see [`super::Tenure`].
    Taken(Term),
    /// The attempt is over.
    Refused(Refusal),
}

/// The reason for which a volume cannot be taken.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Refusal {
    /// The volume has an owner that is alive.
    Held {
        /// The owner; `None` if it has not written its record yet.
        owner: Option<OwnerRecord>,
        /// The time since its last sign of life, at most.
        seen: Nanos,
    },
    /// Another process took the volume at the same time.
    Raced,
    /// The owner block is not one.
    Unreadable(RecordError),
    /// The last term is in use.
    Exhausted,
}

/// One attempt to become the owner.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Take {
    takes_over: bool,
    state: State,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum State {
    /// The block is watched.
    Looking(Option<Look>),
    Swapping {
        expected: Term,
        new: Term,
    },
    Flushing(Term),
    Taken(Term),
    Refused(Refusal),
}

/// A block that has not changed so far.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Look {
    block: Box<[u8; OWNER_BLOCK_LEN]>,
    /// The time of the first read.
    since: Nanos,
    /// The time of the last read.
    at: Nanos,
}

impl Take {
    /// An attempt that takes the volume from an owner that is alive only if `takes_over` is set.
    pub fn new(takes_over: bool) -> Self {
        Self { takes_over, state: State::Looking(None) }
    }

    /// The next step.
    pub fn step(&self) -> TakeStep {
        match &self.state {
            State::Looking(None) => TakeStep::Read { at: Nanos(0) },
            State::Looking(Some(look)) => TakeStep::Read { at: look.at.plus(LOOK_INTERVAL) },
            State::Swapping { expected, new } => TakeStep::Swap { expected: *expected, new: *new },
            State::Flushing(_) => TakeStep::Flush,
            State::Taken(term) => TakeStep::Taken(*term),
            State::Refused(refusal) => TakeStep::Refused(refusal.clone()),
        }
    }

    /// The owner block was read.
    pub fn handle_read(&mut self, now: Nanos, bytes: &[u8; OWNER_BLOCK_LEN]) {
        let State::Looking(look) = &mut self.state else { return };
        let look = look.take();
        let block = OwnerBlock::decode(bytes);
        self.state = match (block.term.next(), &block.record) {
            (None, _) => State::Refused(Refusal::Exhausted),
            (Some(new), _) if self.takes_over || block.is_free() => {
                State::Swapping { expected: block.term, new }
            }
            (_, Err(error)) => State::Refused(Refusal::Unreadable(*error)),
            (Some(new), Ok(_)) => watched(look, now, bytes, &block, new),
        };
    }

    /// The compare-and-swap is answered: the word was `found`.
    pub fn handle_swapped(&mut self, found: Term) {
        let State::Swapping { expected, new } = self.state else { return };
        self.state = match found == expected {
            true => State::Flushing(new),
            false => State::Refused(Refusal::Raced),
        };
    }

    /// The flush is answered.
    pub fn handle_flushed(&mut self) {
        let State::Flushing(term) = self.state else { return };
        self.state = State::Taken(term);
    }
}

/// The state after another look at a block that has an owner.
fn watched(
    look: Option<Look>,
    now: Nanos,
    bytes: &[u8; OWNER_BLOCK_LEN],
    block: &OwnerBlock,
    new: Term,
) -> State {
    let Some(look) = look else {
        return State::Looking(Some(Look { block: Box::new(*bytes), since: now, at: now }));
    };
    if *look.block != *bytes {
        let seen = now.since(look.at);
        return State::Refused(Refusal::Held { owner: block.owner().cloned(), seen });
    }
    if now.since(look.since) >= SILENCE_MAX {
        return State::Swapping { expected: block.term, new };
    }
    State::Looking(Some(Look { at: now, ..look }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ownership::RECORD_OFFSET;

    fn block(term: u64, beat: u64) -> [u8; OWNER_BLOCK_LEN] {
        let mut record = OwnerRecord::new(Term(term), "files", "web1");
        record.beat = beat;
        written(term, &record)
    }

    fn written(term: u64, record: &OwnerRecord) -> [u8; OWNER_BLOCK_LEN] {
        let mut bytes = [0; OWNER_BLOCK_LEN];
        bytes[..RECORD_OFFSET].copy_from_slice(&term.to_le_bytes());
        bytes[RECORD_OFFSET..].copy_from_slice(&record.encode());
        bytes
    }

    fn swap(expected: u64) -> TakeStep {
        TakeStep::Swap { expected: Term(expected), new: Term(expected + 1) }
    }

    #[test]
    fn a_volume_without_an_owner_is_taken_at_once() {
        let mut take = Take::new(false);
        assert_eq!(take.step(), TakeStep::Read { at: Nanos(0) });
        take.handle_read(Nanos::from_secs(5), &[0; OWNER_BLOCK_LEN]);
        assert_eq!(take.step(), swap(0));
        take.handle_swapped(Term(0));
        assert_eq!(take.step(), TakeStep::Flush);
        take.handle_flushed();
        assert_eq!(take.step(), TakeStep::Taken(Term(1)));
    }

    #[test]
    fn a_released_volume_is_taken_at_once() {
        let mut record = OwnerRecord::new(Term(4), "files", "web1");
        record.is_released = true;
        let mut take = Take::new(false);
        take.handle_read(Nanos(0), &written(4, &record));
        assert_eq!(take.step(), swap(4));
    }

    #[test]
    fn an_owner_that_ends_while_it_is_watched_is_not_waited_for() {
        let mut take = Take::new(false);
        take.handle_read(Nanos(0), &block(4, 1));
        let mut record = OwnerRecord::new(Term(4), "files", "web1");
        record.is_released = true;
        take.handle_read(Nanos::from_millis(500), &written(4, &record));
        assert_eq!(take.step(), swap(4));
    }

    #[test]
    fn an_owner_whose_beat_moves_is_named_and_not_disturbed() {
        let mut take = Take::new(false);
        take.handle_read(Nanos::from_secs(1), &block(4, 1));
        assert_eq!(take.step(), TakeStep::Read { at: Nanos::from_millis(1_500) });
        take.handle_read(Nanos::from_secs(10), &block(4, 1));
        take.handle_read(Nanos::from_secs(12), &block(4, 2));
        let TakeStep::Refused(Refusal::Held { owner, seen }) = take.step() else {
            panic!("{:?}", take.step())
        };
        assert_eq!(owner.unwrap().name(), "files");
        assert_eq!(seen, Nanos::from_secs(2));
    }

    #[test]
    fn an_owner_that_has_only_swapped_the_term_is_alive_too() {
        let mut take = Take::new(false);
        take.handle_read(Nanos(0), &block(4, 1));
        let mut record = OwnerRecord::new(Term(4), "files", "web1");
        record.beat = 1;
        take.handle_read(Nanos::from_secs(1), &written(5, &record));
        let seen = Nanos::from_secs(1);
        assert_eq!(take.step(), TakeStep::Refused(Refusal::Held { owner: None, seen }));
    }

    #[test]
    fn a_silent_owner_loses_the_volume_after_ten_seconds() {
        let mut take = Take::new(false);
        take.handle_read(Nanos::from_secs(1), &block(4, 1));
        take.handle_read(Nanos(SILENCE_MAX.0 + 999_999_999), &block(4, 1));
        assert!(matches!(take.step(), TakeStep::Read { .. }));
        take.handle_read(Nanos::from_secs(11), &block(4, 1));
        assert_eq!(take.step(), swap(4));
    }

    #[test]
    fn a_living_owner_is_taken_over_on_request() {
        let mut take = Take::new(true);
        take.handle_read(Nanos(0), &block(4, 1));
        assert_eq!(take.step(), swap(4));
    }

    #[test]
    fn the_slower_of_two_takers_is_refused() {
        let mut take = Take::new(true);
        take.handle_read(Nanos(0), &block(4, 1));
        take.handle_swapped(Term(5));
        assert_eq!(take.step(), TakeStep::Refused(Refusal::Raced));
        take.handle_flushed();
        assert_eq!(take.step(), TakeStep::Refused(Refusal::Raced));
    }

    #[test]
    fn other_data_is_not_overwritten_by_itself() {
        let mut take = Take::new(false);
        take.handle_read(Nanos(0), &[0xA5; OWNER_BLOCK_LEN]);
        let refusal = Refusal::Unreadable(RecordError::Foreign);
        assert_eq!(take.step(), TakeStep::Refused(refusal));
    }

    #[test]
    fn the_last_term_is_never_exceeded() {
        let mut take = Take::new(true);
        take.handle_read(Nanos(0), &[0xFF; OWNER_BLOCK_LEN]);
        assert_eq!(take.step(), TakeStep::Refused(Refusal::Exhausted));
    }
}
