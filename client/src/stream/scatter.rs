//! The buffers of a call that receives the data of many reads.

use nearflash_request::BufferId;

use super::forecast::Place;

/// The maximum number of payloads of one call after the first. The actual number is that of the
/// last calls, plus some more: an unused buffer costs as much as a short copy.
pub(super) const AHEAD_MAX: usize = 64;
pub(super) const AHEAD_MIN: usize = 4;
/// The maximum number of bytes of one call after the first payload.
const AHEAD_LEN_MAX: usize = 1 << 20;

/// The length that is staged after expected payload: a header, and the beginning of the following
/// bytes.
pub(super) const STAGED_BEHIND_PAYLOAD_LEN: usize = 4096;

/// The buffers of one call after the first payload.
#[derive(Debug)]
pub(super) struct Scatter {
    /// The headers, one after the other.
    pub(super) headers: Vec<u8>,
    pub(super) ahead: Vec<Place>,
    /// The number of payloads in the next call.
    pub(super) ahead_max: usize,
    /// The buffer numbers of the first and the following payloads in the high halves, and their
    /// positions in the call in the low ones: single words are sorted faster than pairs.
    pub(super) order: Vec<u64>,
}

impl Default for Scatter {
    fn default() -> Self {
        let (headers, ahead, order) = (Vec::new(), Vec::new(), Vec::new());
        Self { headers, ahead, ahead_max: AHEAD_MIN, order }
    }
}

impl Scatter {
    /// Takes the part of the forecast that one call may receive.
    pub(super) fn plan(
        &mut self,
        header_len: usize,
        most: usize,
        forecast: impl Iterator<Item = Place>,
    ) {
        self.ahead.clear();
        let mut len = 0;
        for place in forecast.take(self.ahead_max.min(most)) {
            len += header_len + place.len;
            if len > AHEAD_LEN_MAX {
                break;
            }
            self.ahead.push(place);
        }
        self.headers.resize(AHEAD_MAX * header_len, 0);
    }

    /// Sorts the buffers by number. A buffer that two reads share has one position only, and the
    /// forecast ends before the second.
    pub(super) fn sort(&mut self, first: BufferId) {
        let ahead = self.ahead.iter().map(|place| place.buffer);
        self.order.clear();
        let numbers = std::iter::once(first).chain(ahead).map(|buffer| u64::from(buffer.0) << 32);
        self.order.extend(numbers.zip(0..).map(|(number, place)| number | place));
        self.order.sort_unstable();
        let twice = self.order.windows(2).filter(|pair| pair[0] >> 32 == pair[1] >> 32);
        if let Some(cut) = twice.map(|pair| low_half(pair[1])).min() {
            self.order.retain(|word| low_half(*word) < cut);
            self.ahead.truncate(cut - 1);
        }
    }

    /// Adapts the number of payloads to the number that was reached.
    pub(super) fn learn(&mut self, reached: usize) {
        let is_all = reached == self.ahead.len();
        let wanted = if is_all { reached.max(self.ahead_max) } else { reached };
        self.ahead_max = (2 * wanted).clamp(AHEAD_MIN, AHEAD_MAX);
    }
}

#[inline]
pub(super) fn low_half(word: u64) -> usize {
    usize::try_from(word & 0xFFFF_FFFF).expect("usize is at least 32 bits wide")
}
