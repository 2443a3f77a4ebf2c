//! The places on slices that a node zeroes for jobs of its cluster: which one is next on each device, and whether the work
//! on it goes on.
//!
//! Each device has a queue of its own, so that one that hangs holds up no other one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use nearflash_device::DeviceId;
use nearflash_units::ByteLen;

/// The places that jobs wait for. `P` names one use of a place, and `W` is what the work on it needs.
#[derive(Debug)]
pub struct Places<P, W> {
    /// Those that jobs wait for, also when the work on them has ended, with the bytes that were zeroed.
    wanted: BTreeMap<P, ByteLen>,
    /// Those on which no work has begun.
    waiting: BTreeMap<DeviceId, VecDeque<(P, W)>>,
    is_ending: bool,
}

impl<P, W> Default for Places<P, W> {
    fn default() -> Self {
        Self { wanted: BTreeMap::new(), waiting: BTreeMap::new(), is_ending: false }
    }
}

impl<P: Copy + Ord, W> Places<P, W> {
    /// Jobs wait for these places, and for no others. Returns the works on the others that have not begun.
    pub fn handle_wanted(&mut self, wanted: &BTreeSet<P>) -> Vec<W> {
        self.wanted.retain(|place, _| wanted.contains(place));
        let mut unbegun = Vec::new();
        for queue in self.waiting.values_mut() {
            let all = std::mem::take(queue).into_iter();
            let (kept, gone): (VecDeque<_>, VecDeque<_>) =
                all.partition(|(place, _)| wanted.contains(place));
            *queue = kept;
            unbegun.extend(gone.into_iter().map(|(_, work)| work));
        }
        unbegun
    }

    /// Work on a place that a job waits for.
    pub fn handle_work(&mut self, (place, device): (P, DeviceId), work: W) {
        self.wanted.insert(place, ByteLen(0));
        self.waiting.entry(device).or_default().push_back((place, work));
    }

    /// Whether there is or was work on the place.
    pub fn has(&self, place: &P) -> bool {
        self.wanted.contains_key(place)
    }

    /// Whether a thread of the device has to wait for work.
    pub fn waits(&self, device: DeviceId) -> bool {
        !self.is_ending && self.waiting.get(&device).is_none_or(VecDeque::is_empty)
    }

    /// The next work on the device; `None` if no work waits, or the node ends.
    pub fn poll_work(&mut self, device: DeviceId) -> Option<W> {
        let queue = self.waiting.get_mut(&device).filter(|_| !self.is_ending)?;
        queue.pop_front().map(|(_, work)| work)
    }

    /// These bytes more are zeroed. Returns whether the work goes on.
    pub fn handle_progress(&mut self, place: &P, len: ByteLen) -> bool {
        let done = self.wanted.get_mut(place);
        let is_wanted = done.is_some();
        done.into_iter().for_each(|done| done.0 = done.0.saturating_add(len.0));
        is_wanted && !self.is_ending
    }

    /// The bytes of a place that are zeroed.
    pub fn done(&self, place: &P) -> ByteLen {
        self.wanted.get(place).copied().unwrap_or_default()
    }

    /// The node ends.
    pub fn handle_stop(&mut self) {
        self.is_ending = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: DeviceId = DeviceId(0);
    const FAST: DeviceId = DeviceId(1);

    #[test]
    fn a_device_that_hangs_holds_up_no_other_one() {
        let mut places = Places::default();
        for place in 0..9 {
            places.handle_work((place, SLOW), place);
        }
        // The threads that zero this device hang.
        while !places.waits(SLOW) {
            places.poll_work(SLOW).unwrap();
        }
        assert!(places.waits(FAST));
        places.handle_work((9, FAST), 9);
        assert!(places.waits(SLOW) && !places.waits(FAST));
        assert_eq!((places.poll_work(FAST), places.poll_work(FAST)), (Some(9), None));
    }

    #[test]
    fn work_that_no_job_waits_for_does_not_begin_and_does_not_go_on() {
        let mut places = Places::default();
        for place in 0..3 {
            places.handle_work((place, FAST), place);
        }
        assert_eq!(places.poll_work(FAST), Some(0));
        assert!(places.handle_progress(&0, ByteLen(7)) && places.done(&0) == ByteLen(7));
        assert_eq!(places.handle_wanted(&[2].into()), [1]);
        assert!(!places.handle_progress(&0, ByteLen(7)), "it is stopped");
        assert!(!places.has(&0) && places.has(&2) && places.done(&0) == ByteLen(0));
        assert_eq!((places.poll_work(FAST), places.poll_work(FAST)), (Some(2), None));
        assert!(places.has(&2) && places.handle_progress(&2, ByteLen(0)));
        places.handle_work((3, FAST), 3);
        places.handle_stop();
        assert!(!places.waits(FAST) && !places.waits(SLOW) && places.poll_work(FAST).is_none());
        assert!(!places.handle_progress(&2, ByteLen(1)));
    }
}
