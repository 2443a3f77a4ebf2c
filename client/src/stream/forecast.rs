//! A forecast of the reads that are answered next: in the order in which they were sent.
//!
//! A controller may answer in any order, and then the data received by a forecast is in the wrong
//! place and must be moved. So after a failed forecast, none is made for a while.

use std::collections::VecDeque;

use nearflash_request::BufferId;

/// The number of receives without a forecast after a failed one.
const RECEIVES_AFTER_MISS: u32 = 256;

/// The shortest payload to forecast; shorter payload is staged and copied, since a further buffer
/// costs the kernel as much as copying a kilobyte.
const PAYLOAD_LEN_MIN: usize = 2048;

/// The buffer and the length of one read's data.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Place {
    pub(crate) buffer: BufferId,
    pub(crate) len: usize,
}

/// The reads in flight whose data has not begun to arrive, oldest first. Other reads must not be
/// among them, since a receive by forecast would overwrite their data.
#[derive(Debug, Default)]
pub(crate) struct Forecast {
    expected: VecDeque<Place>,
    /// Whether a read is expected, by buffer. Most answered reads are not, and need no search.
    is_expected: Vec<bool>,
    /// The former index in `expected` of the read whose data is arriving.
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

    /// Records that the data of a read begins to arrive.
    #[inline]
    pub(crate) fn begun(&mut self, buffer: BufferId) {
        if let Some(at) = self.remove(buffer) {
            self.current = at;
        }
    }

    /// Records that a read has ended, with or without data.
    #[inline]
    pub(crate) fn answered(&mut self, buffer: BufferId) {
        if let Some(at) = self.remove(buffer) {
            self.current -= usize::from(at < self.current);
        }
    }

    /// Removes a read. Returns its index.
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

    #[inline]
    pub(crate) fn is_worth(&mut self, reads_min: usize) -> bool {
        if self.silent_for > 0 {
            self.silent_for -= 1;
            return false;
        }
        let is_long = |place: &Place| place.len >= PAYLOAD_LEN_MIN;
        self.expected.len() >= reads_min && self.expected.get(self.current).is_some_and(is_long)
    }

    /// The number of reads in flight without any received data.
    pub(crate) fn len(&self) -> usize {
        self.expected.len()
    }

    /// Records a failed forecast.
    pub(crate) fn missed(&mut self) {
        self.silent_for = RECEIVES_AFTER_MISS;
    }

    /// The expected reads after the one whose data is arriving.
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
