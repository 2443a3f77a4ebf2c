//! Which reads are answered next, as far as can be told: in the order in which they were asked.
//!
//! A controller may answer in any order, and then what was received by forecast is in the wrong
//! place and must be moved. So a forecast that failed is not repeated for a while.

use std::collections::VecDeque;

use nearflash_request::BufferId;

/// So many receives go without a forecast after one that failed.
const RECEIVES_AFTER_MISS: u32 = 256;

/// Where one read's data belongs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Place {
    pub(super) buffer: BufferId,
    pub(super) len: usize,
}

/// The reads in flight, oldest first.
#[derive(Debug, Default)]
pub(super) struct Forecast {
    expected: VecDeque<Place>,
    silent_for: u32,
}

impl Forecast {
    #[inline]
    pub(super) fn asked(&mut self, place: Place) {
        self.expected.push_back(place);
    }

    /// A read is over, whether it was forecast or not.
    #[inline]
    pub(super) fn answered(&mut self, buffer: BufferId) {
        if let Some(at) = self.expected.iter().position(|place| place.buffer == buffer) {
            self.expected.remove(at);
        }
    }

    /// Whether it is worth asking.
    #[inline]
    pub(super) fn is_worth(&mut self, reads_min: usize) -> bool {
        if self.silent_for > 0 {
            self.silent_for -= 1;
            return false;
        }
        self.expected.len() >= reads_min
    }

    /// It was wrong.
    pub(super) fn missed(&mut self) {
        self.silent_for = RECEIVES_AFTER_MISS;
    }

    /// What comes after the read into `buffer`.
    #[inline]
    pub(super) fn after(&self, buffer: BufferId) -> impl Iterator<Item = Place> {
        let expected = self.expected.iter().copied();
        expected.skip_while(move |place| place.buffer != buffer).skip(1)
    }
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
        assert_eq!(forecast.after(BufferId(1)).collect::<Vec<_>>(), [place(2), place(3)]);
        forecast.answered(BufferId(2));
        assert_eq!(forecast.after(BufferId(0)).collect::<Vec<_>>(), [place(1), place(3)]);
        assert_eq!(forecast.after(BufferId(9)).count(), 0);
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
