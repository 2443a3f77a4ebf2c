//! Which reads are answered next, as far as can be told: in the order in which they were asked.
//!
//! A controller may answer in any order, and then what was received by forecast is in the wrong
//! place and must be moved. So a forecast that failed is not repeated for a while.

use std::collections::VecDeque;

use nearflash_request::BufferId;

/// So many receives go without a forecast after one that failed.
const RECEIVES_AFTER_MISS: u32 = 256;

/// Shorter payload is staged and copied: to the kernel, a place more costs what copying a kilobyte
/// does.
const PAYLOAD_LEN_MIN: usize = 2048;

/// Where one read's data belongs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Place {
    pub(crate) buffer: BufferId,
    pub(crate) len: usize,
}

/// The reads in flight of which no data has come, oldest first. Others must not be among them: what
/// is received by forecast would be written over their data.
#[derive(Debug, Default)]
pub(crate) struct Forecast {
    expected: VecDeque<Place>,
    /// By buffer: whether it is among them. Most that are answered are not, and need no search.
    is_expected: Vec<bool>,
    /// Where in `expected` the read was whose data is coming.
    current: usize,
    silent_for: u32,
}

impl Forecast {
    #[inline]
    pub(crate) fn asked(&mut self, place: Place) {
        let at = index(place.buffer);
        if self.is_expected.len() <= at {
            self.is_expected.resize(at + 1, false);
        }
        self.is_expected[at] = true;
        self.expected.push_back(place);
    }

    /// The first data of a read is coming.
    #[inline]
    pub(crate) fn begun(&mut self, buffer: BufferId) {
        if let Some(at) = self.remove(buffer) {
            self.current = at;
        }
    }

    /// A read is over, whether its data came or not.
    #[inline]
    pub(crate) fn answered(&mut self, buffer: BufferId) {
        if let Some(at) = self.remove(buffer) {
            self.current -= usize::from(at < self.current);
        }
    }

    /// Where it was.
    #[inline]
    fn remove(&mut self, buffer: BufferId) -> Option<usize> {
        let is_expected = self.is_expected.get_mut(index(buffer))?;
        if !std::mem::take(is_expected) {
            return None;
        }
        let at = self.expected.iter().position(|place| place.buffer == buffer)?;
        self.expected.remove(at);
        Some(at)
    }

    /// Whether it is worth asking.
    #[inline]
    pub(crate) fn is_worth(&mut self, reads_min: usize) -> bool {
        if self.silent_for > 0 {
            self.silent_for -= 1;
            return false;
        }
        let is_long = |place: &Place| place.len >= PAYLOAD_LEN_MIN;
        self.expected.len() >= reads_min && self.expected.get(self.current).is_some_and(is_long)
    }

    /// How many reads are in flight of which no data has come.
    pub(crate) fn len(&self) -> usize {
        self.expected.len()
    }

    /// It was wrong.
    pub(crate) fn missed(&mut self) {
        self.silent_for = RECEIVES_AFTER_MISS;
    }

    /// What comes after the read whose data is coming.
    #[inline]
    pub(crate) fn next(&self) -> impl Iterator<Item = Place> {
        self.expected.iter().copied().skip(self.current)
    }
}

#[inline]
fn index(buffer: BufferId) -> usize {
    usize::try_from(buffer.0).expect("usize is at least 32 bits wide")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(buffer: u32) -> Place {
        Place { buffer: BufferId(buffer), len: 4096 }
    }

    #[test]
    fn what_was_asked_next_is_expected_next() {
        let mut forecast = Forecast::default();
        (0..4).for_each(|buffer| forecast.asked(place(buffer)));
        let next = |forecast: &Forecast| forecast.next().collect::<Vec<_>>();
        forecast.begun(BufferId(1));
        assert_eq!(next(&forecast), [place(2), place(3)]);
        forecast.answered(BufferId(0));
        assert_eq!(next(&forecast), [place(2), place(3)]);
        forecast.answered(BufferId(2));
        assert_eq!(next(&forecast), [place(3)]);
    }

    #[test]
    fn a_read_whose_data_has_come_is_not_expected_again() {
        let mut forecast = Forecast::default();
        (0..4).for_each(|buffer| forecast.asked(place(buffer)));
        forecast.begun(BufferId(2));
        forecast.begun(BufferId(0));
        assert_eq!(forecast.next().collect::<Vec<_>>(), [place(1), place(3)]);
    }

    #[test]
    fn a_forecast_that_failed_is_not_repeated_for_a_while() {
        let mut forecast = Forecast::default();
        (0..4).for_each(|buffer| forecast.asked(place(buffer)));
        assert!(forecast.is_worth(4) && !forecast.is_worth(5));
        forecast.missed();
        let silent = (0..1000).take_while(|_| !forecast.is_worth(4)).count();
        assert_eq!(u32::try_from(silent).unwrap(), RECEIVES_AFTER_MISS);
    }
}
