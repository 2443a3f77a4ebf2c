//! Waiting until the requests that are older than a change have ended, volume by volume.
//!
//! A change concerns some volumes. It does not wait for requests on other volumes: a device that
//! hangs delays only changes of its own volumes.
//!
//! Invariant: each request that a wait has counted is reported once, when it ends or is given up.

use std::collections::VecDeque;

use nearflash_request::{Operation, VolumeId};

/// The requests that a wait counts.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Older {
    /// The volumes on which it counts the requests that the engine has begun. A request that still waits
    /// in front of the engine is checked against the new state when it begins.
    pub begun: Box<[VolumeId]>,
    /// The volumes on which it counts every request that a session handed out, also those that wait in
    /// front of the engine.
    pub came: Box<[VolumeId]>,
}

impl Older {
    pub(crate) fn counts_begun(&self, volumes: (VolumeId, Option<VolumeId>)) -> bool {
        is_about(volumes, &self.begun) || self.counts_came(volumes)
    }

    pub(crate) fn counts_came(&self, volumes: (VolumeId, Option<VolumeId>)) -> bool {
        is_about(volumes, &self.came)
    }

    fn sort(&mut self) {
        self.begun.sort_unstable();
        self.came.sort_unstable();
    }
}

/// Whether a request on these volumes is about one of the list, which is in ascending order.
fn is_about((volume, source): (VolumeId, Option<VolumeId>), list: &[VolumeId]) -> bool {
    let has = |volume| list.binary_search(&volume).is_ok();
    has(volume) || source.is_some_and(has)
}

/// The generations of the waits when a request was handed out, and when the engine began it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Age {
    pub(crate) came: u64,
    pub(crate) begun: u64,
}

#[derive(Debug)]
struct Wait {
    number: u64,
    generation: u64,
    older: Older,
    left: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Waits {
    /// How many waits have begun.
    generation: u64,
    waits: Vec<Wait>,
    over: VecDeque<u64>,
}

impl Waits {
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Begins a wait for the requests that `count` finds.
    pub(crate) fn begin(
        &mut self,
        number: u64,
        mut older: Older,
        count: impl FnOnce(&Older) -> usize,
    ) {
        self.generation += 1;
        older.sort();
        let left = count(&older);
        if left == 0 {
            return self.over.push_back(number);
        }
        self.waits.push(Wait { number, generation: self.generation, older, left });
    }

    /// A request on these volumes has ended.
    #[inline]
    pub(crate) fn ended(&mut self, volumes: (VolumeId, Option<VolumeId>), age: Age) {
        if age.came < self.generation && !self.waits.is_empty() {
            self.count_off(volumes, age);
        }
    }

    #[cold]
    fn count_off(&mut self, volumes: (VolumeId, Option<VolumeId>), age: Age) {
        let over = &mut self.over;
        self.waits.retain_mut(|wait| {
            let Wait { generation, older, .. } = &*wait;
            let is_begun = age.begun < *generation && older.counts_begun(volumes);
            if is_begun || age.came < *generation && older.counts_came(volumes) {
                wait.left -= 1;
            }
            if wait.left == 0 {
                over.push_back(wait.number);
            }
            wait.left > 0
        });
    }

    #[inline]
    pub(crate) fn poll_over(&mut self) -> Option<u64> {
        self.over.pop_front()
    }
}

/// The volumes of a request: its own, and the source of a copy.
#[inline]
pub(crate) fn volumes_of(volume: VolumeId, operation: &Operation) -> (VolumeId, Option<VolumeId>) {
    match *operation {
        Operation::Copy { source, .. } => (volume, Some(source)),
        _ => (volume, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: VolumeId = VolumeId(1);
    const B: VolumeId = VolumeId(2);

    fn wait(begun: &[VolumeId], came: &[VolumeId]) -> Older {
        Older { begun: begun.into(), came: came.into() }
    }

    fn begun(generation: u64) -> Age {
        Age { came: generation, begun: generation }
    }

    #[test]
    fn requests_on_other_volumes_and_newer_ones_are_not_counted() {
        let mut waits = Waits::default();
        waits.begin(7, wait(&[A], &[]), |_| 1);
        waits.ended((B, None), begun(0));
        waits.ended((A, None), begun(1));
        assert_eq!(waits.poll_over(), None);
        waits.ended((A, None), begun(0));
        assert_eq!(waits.poll_over(), Some(7));
        assert_eq!(waits.poll_over(), None);
    }

    #[test]
    fn a_copy_is_about_its_source_too_and_counts_once() {
        let mut waits = Waits::default();
        waits.begin(7, wait(&[B, A], &[]), |_| 2);
        waits.ended((B, Some(A)), begun(0));
        assert_eq!(waits.poll_over(), None);
        waits.ended((A, None), begun(0));
        assert_eq!(waits.poll_over(), Some(7));
    }

    #[test]
    fn a_request_that_began_after_it_came_is_counted_by_what_came_alone() {
        let mut waits = Waits::default();
        waits.begin(1, wait(&[A], &[]), |_| 1);
        waits.begin(2, wait(&[], &[A]), |_| 2);
        waits.ended((A, None), Age { came: 0, begun: 2 });
        assert_eq!(waits.poll_over(), None);
        waits.ended((A, None), begun(0));
        assert_eq!((waits.poll_over(), waits.poll_over()), (Some(1), Some(2)));
    }

    #[test]
    fn a_request_that_both_lists_mean_counts_once() {
        let mut waits = Waits::default();
        waits.begin(4, wait(&[B, A], &[A]), |_| 2);
        waits.ended((B, None), Age { came: 0, begun: 1 });
        waits.ended((A, None), begun(0));
        assert_eq!(waits.poll_over(), None);
        waits.ended((A, None), Age { came: 0, begun: 1 });
        assert_eq!(waits.poll_over(), Some(4));
    }

    #[test]
    fn a_wait_for_nothing_is_over_at_once() {
        let mut waits = Waits::default();
        waits.begin(3, wait(&[], &[A]), |_| 0);
        assert_eq!(waits.poll_over(), Some(3));
    }
}
