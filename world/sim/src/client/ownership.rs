//! The possible values of bytes that only one client writes.
//!
//! A client has no two changes of one byte in flight, and reads no byte that it is changing. A read
//! therefore returns one of these: the value written last; a value of a change that failed since
//! then; a value of a change whose connection was lost, until the node has no operation under way.
//! After a loss of power, a byte has its last value known to be durable, or any value written
//! since.
//!
//! Values are a function of the write and of the place, and are below 64: a set of values is one
//! word.

use std::ops::Range;

use crate::witness::Tick;

/// The result of a change.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Ending {
    /// The change was done; it is durable, if that was requested.
    Done { durable: bool },
    /// The change was not done at all.
    NotDone,
    /// The change failed: done, not done, or done in part.
    Failed,
    /// The connection was lost before the answer.
    Lost,
}

/// The value that a change writes to its bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fill {
    /// A pattern derived from this number and the place.
    Pattern(u64),
    /// A deallocation: zeroes, or the previous value.
    Discard,
}

impl Fill {
    /// The byte at a place; never zero.
    pub(crate) fn byte(number: u64, at: u64) -> u8 {
        u8::try_from(1 + (number.wrapping_mul(17) + at) % 63).expect("below 64")
    }
}

/// A set of values.
type Values = u64;

#[derive(Clone, Copy, Debug)]
struct Cell {
    /// The value written last.
    known: u8,
    /// Possible values left by changes that failed since.
    loose: Values,
    /// Possible values, now or later, of changes whose connection was lost.
    lost: Values,
    /// All values since the byte was last known to be durable.
    since: Values,
    /// When its last change was answered.
    ended: Tick,
}

const ZERO: Cell = Cell { known: 0, loose: 0, lost: 0, since: 1, ended: Tick(0) };

impl Cell {
    fn allowed(&self) -> Values {
        set(self.known) | self.loose | self.lost
    }
}

fn set(value: u8) -> Values {
    if value < 64 { 1 << value } else { 0 }
}

/// The bytes of one client.
#[derive(Debug)]
pub(crate) struct Ownership {
    ranges: Vec<Range<u64>>,
    cells: Vec<Vec<Cell>>,
    /// The devices keep writes that they have acknowledged.
    steady: bool,
    /// When an operator last cleared a device.
    cleared: Tick,
    /// The number of bytes checked.
    pub(crate) judged: u64,
}

impl Ownership {
    pub(crate) fn new(ranges: Vec<Range<u64>>, steady: bool) -> Self {
        let cells = ranges.iter().map(|range| vec![ZERO; len(range)]).collect();
        Self { ranges, cells, steady, cleared: Tick(0), judged: 0 }
    }

    /// The cells of `range` that this client owns, each with its place.
    fn cells(&mut self, range: &Range<u64>) -> impl Iterator<Item = (u64, &mut Cell)> {
        let range = range.clone();
        self.ranges.iter().zip(&mut self.cells).flat_map(move |(owned, cells)| {
            let (start, end) = (range.start.max(owned.start), range.end.min(owned.end));
            let first = index(start.min(end) - owned.start.min(start.min(end)));
            let count = index(end.saturating_sub(start));
            let cells = if count == 0 { &mut [][..] } else { &mut cells[first..first + count] };
            (start..).zip(cells)
        })
    }

    /// The client knows the result of a change that was sent at the first of these moments.
    pub(crate) fn ended(
        &mut self,
        range: &Range<u64>,
        fill: Fill,
        ending: Ending,
        (sent, now): (Tick, Tick),
    ) {
        let steady = self.steady;
        let flushable_from = if sent < self.cleared { Tick::NEVER } else { now };
        for (at, cell) in self.cells(range) {
            let values = match fill {
                Fill::Pattern(number) => set(Fill::byte(number, at)),
                Fill::Discard => set(0),
            };
            // A flush sent before this change does not cover it. Only a change that is known to have
            // replaced the byte ends the doubt about an earlier one.
            cell.ended = match (ending, fill) {
                (Ending::NotDone, _) => cell.ended,
                (Ending::Done { .. }, Fill::Pattern(_)) => flushable_from,
                _ => cell.ended.max(flushable_from),
            };
            match (ending, fill) {
                (Ending::NotDone, _) => {}
                (Ending::Done { durable }, Fill::Pattern(number)) => {
                    cell.known = Fill::byte(number, at);
                    cell.loose = 0;
                    cell.since = if durable || steady { values } else { cell.since | values };
                }
                (Ending::Done { .. } | Ending::Failed, _) => {
                    cell.loose |= values;
                    cell.since |= values;
                }
                (Ending::Lost, _) => {
                    cell.lost |= values;
                    cell.since |= values;
                }
            }
        }
    }

    /// A flush that was sent at `sent` has succeeded.
    pub(crate) fn flushed(&mut self, sent: Tick) {
        for cell in self.cells.iter_mut().flatten().filter(|cell| cell.ended < sent) {
            cell.since = cell.allowed();
        }
    }

    /// An operator has cleared a device: no later flush saves volatile bytes that were sent before.
    pub(crate) fn cleared(&mut self, now: Tick) {
        self.cleared = now;
        for cell in self.cells.iter_mut().flatten() {
            cell.ended = Tick::NEVER;
        }
    }

    /// A read has returned these bytes.
    ///
    /// # Panics
    /// When an owned byte has an impossible value.
    pub(crate) fn read(&mut self, client: usize, start: u64, bytes: &[u8]) {
        let range = start..start + u64::try_from(bytes.len()).expect("a length in memory");
        let mut judged = 0;
        for (at, cell) in self.cells(&range) {
            let found = bytes[index(at - start)];
            let is_allowed = cell.allowed() & set(found) != 0;
            assert!(
                is_allowed,
                "client {client}: byte {at} is {found}, which is stale, lost or damaged: {cell:?}"
            );
            judged += 1;
            if cell.lost == 0 {
                cell.known = found;
                cell.loose = 0;
            }
        }
        self.judged += judged;
    }

    /// The client has returned, and its lost connections have nothing under way: later writes are
    /// final.
    pub(crate) fn claimed(&mut self) {
        for cell in self.cells.iter_mut().flatten() {
            // It may have taken effect after a later change that is durable.
            cell.since |= cell.lost;
            cell.loose |= std::mem::take(&mut cell.lost);
        }
    }

    /// The node has nothing under way, and the disk holds these bytes.
    ///
    /// # Panics
    /// When an owned byte has an impossible value.
    pub(crate) fn at_rest(&mut self, client: usize, start: u64, bytes: &[u8]) {
        self.read(client, start, bytes);
        let end = start + u64::try_from(bytes.len()).expect("a length in memory");
        for (at, cell) in self.cells(&(start..end)) {
            let known = bytes[index(at - start)];
            // That of a lost change, which has followed a durable one, may be durable, too.
            let since = cell.since | set(known);
            *cell = Cell { known, loose: 0, lost: 0, since, ..*cell };
        }
    }

    /// The power is back, and the disk holds these bytes.
    ///
    /// # Panics
    /// When something durable is lost.
    pub(crate) fn power_lost(&mut self, client: usize, start: u64, bytes: &[u8]) {
        let end = start + u64::try_from(bytes.len()).expect("a length in memory");
        for (at, cell) in self.cells(&(start..end)) {
            let found = bytes[index(at - start)];
            let is_allowed = (cell.since | cell.lost) & set(found) != 0;
            assert!(
                is_allowed,
                "client {client}: the power was lost, and byte {at} is {found}: something durable \
                 is lost: {cell:?}"
            );
            *cell = Cell { known: found, loose: 0, lost: 0, since: set(found), ended: Tick(0) };
        }
    }

    /// Whether the devices keep writes that they have acknowledged.
    pub(crate) fn keeps_all(&self) -> bool {
        self.steady
    }

    pub(crate) fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }
}

fn len(range: &Range<u64>) -> usize {
    index(range.end - range.start)
}

fn index(raw: u64) -> usize {
    usize::try_from(raw).expect("less than a volume")
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGE: Range<u64> = 100..110;

    fn owned(ending: Ending) -> Ownership {
        let mut owned = Ownership::new(vec![RANGE], false);
        owned.ended(&RANGE, Fill::Pattern(1), Ending::Done { durable: true }, (Tick(5), Tick(5)));
        owned.ended(&RANGE, Fill::Pattern(2), ending, (Tick(9), Tick(9)));
        owned
    }

    fn bytes(number: u64) -> Vec<u8> {
        RANGE.map(|at| Fill::byte(number, at)).collect()
    }

    #[test]
    fn a_lost_write_may_follow_a_durable_one_and_outlive_the_power() {
        let settled: [fn(&mut Ownership); 2] =
            [Ownership::claimed, |owned| owned.at_rest(0, 100, &bytes(1))];
        for settle in settled {
            let mut owned = Ownership::new(vec![RANGE], false);
            owned.ended(&RANGE, Fill::Pattern(1), Ending::Lost, (Tick(5), Tick(5)));
            let done = Ending::Done { durable: true };
            owned.ended(&RANGE, Fill::Pattern(2), done, (Tick(9), Tick(9)));
            settle(&mut owned);
            owned.read(0, 100, &bytes(1));
            owned.power_lost(0, 100, &bytes(1));
        }
    }

    #[test]
    #[should_panic(expected = "stale")]
    fn what_was_overwritten_is_not_read_again() {
        owned(Ending::Done { durable: false }).read(0, 100, &bytes(1));
    }

    #[test]
    #[should_panic(expected = "stale")]
    fn what_was_refused_is_not_read() {
        owned(Ending::NotDone).read(0, 100, &bytes(2));
    }

    #[test]
    #[should_panic(expected = "stale")]
    fn a_byte_that_is_not_where_it_was_written_is_found() {
        let mut shifted = bytes(2);
        shifted.rotate_left(1);
        owned(Ending::Done { durable: false }).read(0, 100, &shifted);
    }

    #[test]
    fn a_failed_change_after_a_device_was_cleared_makes_no_earlier_one_durable() {
        let mut owned = Ownership::new(vec![RANGE], false);
        owned.ended(&RANGE, Fill::Pattern(1), Ending::Done { durable: true }, (Tick(4), Tick(5)));
        owned.ended(&RANGE, Fill::Pattern(2), Ending::Done { durable: false }, (Tick(6), Tick(7)));
        owned.cleared(Tick(8));
        owned.ended(&RANGE, Fill::Pattern(3), Ending::Failed, (Tick(9), Tick(10)));
        owned.flushed(Tick(11));
        owned.power_lost(0, RANGE.start, &bytes(1));
    }

    #[test]
    #[should_panic(expected = "something durable is lost")]
    fn a_change_after_a_device_was_cleared_is_durable_after_a_flush() {
        let mut owned = Ownership::new(vec![RANGE], false);
        owned.ended(&RANGE, Fill::Pattern(1), Ending::Done { durable: true }, (Tick(4), Tick(5)));
        owned.cleared(Tick(8));
        owned.ended(&RANGE, Fill::Pattern(2), Ending::Done { durable: false }, (Tick(9), Tick(10)));
        owned.flushed(Tick(11));
        owned.power_lost(0, RANGE.start, &bytes(1));
    }

    #[test]
    fn what_failed_is_there_or_not_and_then_stays() {
        let mut owned = owned(Ending::Failed);
        owned.read(0, 95, &[&[9; 5], &bytes(2)[..4], &bytes(1)[4..]].concat());
        let again = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            owned.read(0, 100, &bytes(1)[..4]);
        }));
        assert!(again.is_err(), "it was seen");
    }

    #[test]
    fn what_was_lost_may_come_late() {
        let mut owned = owned(Ending::Lost);
        owned.ended(
            &RANGE,
            Fill::Pattern(3),
            Ending::Done { durable: false },
            (Tick(12), Tick(12)),
        );
        owned.read(0, 100, &bytes(3));
        owned.read(0, 100, &bytes(2));
    }

    #[test]
    #[should_panic(expected = "stale")]
    fn what_was_lost_does_not_come_after_what_is_written_when_the_client_is_back() {
        let mut owned = owned(Ending::Lost);
        owned.claimed();
        owned.read(0, 100, &bytes(2)[..5]);
        owned.ended(
            &RANGE,
            Fill::Pattern(3),
            Ending::Done { durable: false },
            (Tick(12), Tick(12)),
        );
        owned.read(0, 100, &bytes(3)[..5]);
        owned.read(0, 105, &bytes(2)[5..]);
    }

    #[test]
    #[should_panic(expected = "durable is lost")]
    fn a_flushed_byte_survives_the_loss_of_power() {
        let mut owned = owned(Ending::Done { durable: false });
        owned.flushed(Tick(10));
        owned.power_lost(0, 100, &bytes(1));
    }

    #[test]
    fn a_discard_that_came_after_a_flush_was_sent_may_be_lost() {
        let mut owned = owned(Ending::Done { durable: true });
        owned.ended(&RANGE, Fill::Discard, Ending::Done { durable: false }, (Tick(20), Tick(20)));
        owned.read(0, 100, &[0; 10]);
        owned.flushed(Tick(15));
        owned.power_lost(0, 100, &bytes(2));
    }

    #[test]
    fn a_byte_that_was_not_flushed_may_be_lost() {
        let mut owned = owned(Ending::Done { durable: false });
        owned.flushed(Tick(8));
        owned.power_lost(0, 100, &bytes(1));
    }
}
