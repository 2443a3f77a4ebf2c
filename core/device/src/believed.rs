//! Whether a device that reports a flush or a durable write as done can be believed.
//!
//! One core keeps the operations that it has under way, and those whose success cannot be trusted yet. The
//! record of the device's failures is in [`Health`], which all cores share.
//!
//! Invariant: an operation that makes data durable succeeds only if no other one of its device has failed
//! since it began, as far as any core knew when the operations before its success had ended.

use std::sync::Arc;

use nearflash_units::{Nanos, index};

use crate::device::{
    DeviceId, DeviceOperation, DeviceProperties, DeviceRequest, DeviceResult, OperationId,
};
use crate::health::{DOUBT_MAX, Health, Promise, Success};

/// The flushes and durable writes of one core.
#[derive(Debug, Default)]
pub struct Believed {
    under_way: Vec<UnderWay>,
    unproven: Vec<Unproven>,
}

/// An operation that was submitted.
#[derive(Debug)]
struct UnderWay {
    id: OperationId,
    device: DeviceId,
    operation: DeviceOperation,
    is_volatile: bool,
    promise: Promise,
}

/// An operation whose success cannot be trusted yet.
#[derive(Debug)]
struct Unproven {
    id: OperationId,
    device: DeviceId,
    success: Success,
    since: Nanos,
}

impl Believed {
    /// Whether no operation is under way, and none waits.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.under_way.is_empty() && self.unproven.is_empty()
    }

    /// An operation is about to be submitted to one of these devices.
    #[inline]
    pub fn begin(
        &mut self,
        request: &DeviceRequest,
        health: &[Arc<Health>],
        devices: &[DeviceProperties],
    ) {
        let DeviceRequest { id, device, operation, .. } = *request;
        if operation.makes_durable() {
            let is_volatile = devices[index(device.0)].volatile_cache;
            let promise = health[index(device.0)].begin();
            self.under_way.push(UnderWay { id, device, operation, is_volatile, promise });
        }
    }

    /// The result of an operation that has ended; `None` while its success cannot be trusted yet, until
    /// [`Self::poll_proven`] returns it. `health` is that of each device.
    ///
    /// # Panics
    /// When the operation has ended before, which is a bug of the caller.
    #[inline]
    pub fn weigh(
        &mut self,
        id: OperationId,
        result: DeviceResult,
        health: &[Arc<Health>],
        now: Nanos,
    ) -> Option<DeviceResult> {
        let Some(place) = self.under_way.iter().position(|it| it.id == id) else {
            let waits = self.unproven.iter().any(|it| it.id == id);
            assert!(!waits, "{id:?} ends once, after it was submitted");
            return Some(result);
        };
        let UnderWay { device, operation, is_volatile, promise, .. } =
            self.under_way.swap_remove(place);
        let health = &health[index(device.0)];
        if operation.loses(result) {
            health.fail(promise);
            return Some(result);
        }
        let success = health.end(promise);
        if !result.is_done() {
            return Some(result);
        }
        // Without a volatile cache, no acknowledged write can be lost.
        let known = if is_volatile { health.judge(success) } else { Some(!health.is_suspect()) };
        if known.is_none() {
            self.unproven.push(Unproven { id, device, success, since: now });
        }
        known.map(result_of)
    }

    /// Whether operations wait for those of other cores to end.
    #[inline]
    pub fn awaits_others(&self) -> bool {
        !self.unproven.is_empty()
    }

    /// The next operation that need not wait any longer, and its result.
    #[inline]
    pub fn poll_proven(
        &mut self,
        health: &[Arc<Health>],
        now: Nanos,
    ) -> Option<(OperationId, DeviceResult)> {
        let known = |it: &Unproven| {
            let health = &health[index(it.device.0)];
            let is_overdue = now.since(it.since) >= DOUBT_MAX;
            let known = health.judge(it.success);
            known.or_else(|| is_overdue.then(|| health.judge_overdue(it.success)))
        };
        let mut judged = self.unproven.iter().enumerate();
        let (place, is_true) = judged.find_map(|(place, it)| Some((place, known(it)?)))?;
        Some((self.unproven.swap_remove(place).id, result_of(is_true)))
    }
}

/// The result of a successful operation: a success that is not trusted counts as a failure.
fn result_of(is_trusted: bool) -> DeviceResult {
    if is_trusted { DeviceResult::Done } else { DeviceResult::MediumError }
}

#[cfg(test)]
mod tests {
    use nearflash_units::{BlockSize, ByteLen, ByteOffset};
    use proptest::prelude::*;

    use super::*;

    fn request(number: u32, operation: DeviceOperation) -> DeviceRequest {
        let id = OperationId { io: number, op: 0, generation: 0 };
        let (offset, len) = (ByteOffset(0), ByteLen(0));
        DeviceRequest { id, device: DeviceId(0), operation, offset, len }
    }

    fn flush(number: u32) -> DeviceRequest {
        request(number, DeviceOperation::Flush)
    }

    fn health() -> [Arc<Health>; 1] {
        [Arc::new(Health::default())]
    }

    fn devices(volatile_cache: bool) -> [DeviceProperties; 1] {
        let block_size = BlockSize::from_bytes(4096).unwrap();
        let (len, reads_as_zeroes, deallocates) = (ByteLen(1 << 20), false, false);
        [DeviceProperties { len, block_size, volatile_cache, reads_as_zeroes, deallocates }]
    }

    #[test]
    fn a_flush_is_believed_when_those_before_it_have_not_failed() {
        for fails in [false, true] {
            let (health, mut believed) = (health(), Believed::default());
            believed.begin(&flush(0), &health, &devices(true));
            let other = health[0].begin();
            assert_eq!(believed.weigh(flush(0).id, DeviceResult::Done, &health, Nanos(0)), None);
            assert_eq!(believed.poll_proven(&health, Nanos(1)), None, "the other one is under way");
            if fails {
                health[0].fail(other)
            } else {
                _ = health[0].end(other)
            }
            assert_eq!(
                believed.poll_proven(&health, Nanos(2)),
                Some((flush(0).id, result_of(!fails)))
            );
            assert!(!believed.awaits_others() && believed.is_idle());
        }
    }

    #[test]
    fn a_failed_flush_makes_the_device_suspect() {
        let (health, mut believed) = (health(), Believed::default());
        for (number, result) in [(0, DeviceResult::MediumError), (1, DeviceResult::Done)] {
            believed.begin(&flush(number), &health, &devices(true));
            let result = believed.weigh(flush(number).id, result, &health, Nanos(0));
            assert_eq!(result, Some(DeviceResult::MediumError), "until it is cleared");
        }
        assert!(health[0].is_suspect() && health[0].clear());
        believed.begin(&flush(2), &health, &devices(true));
        let result = believed.weigh(flush(2).id, DeviceResult::Done, &health, Nanos(0));
        assert_eq!(result, Some(DeviceResult::Done));
    }

    #[test]
    fn without_a_volatile_cache_a_success_waits_for_no_other_operation() {
        let (health, mut believed) = (health(), Believed::default());
        let other = health[0].begin();
        believed.begin(&flush(0), &health, &devices(false));
        let result = believed.weigh(flush(0).id, DeviceResult::Done, &health, Nanos(0));
        assert_eq!(result, Some(DeviceResult::Done));
        health[0].fail(other);
        believed.begin(&flush(1), &health, &devices(false));
        let result = believed.weigh(flush(1).id, DeviceResult::Done, &health, Nanos(0));
        assert_eq!(result, Some(DeviceResult::MediumError), "the device is suspect");
    }

    #[test]
    fn an_operation_that_hangs_delays_others_for_a_bounded_time() {
        let (health, mut believed) = (health(), Believed::default());
        let _hangs = health[0].begin();
        believed.begin(&flush(0), &health, &devices(true));
        assert_eq!(believed.weigh(flush(0).id, DeviceResult::Done, &health, Nanos(5)), None);
        assert_eq!(believed.poll_proven(&health, Nanos(4 + DOUBT_MAX.0)), None);
        let ended = believed.poll_proven(&health, Nanos(5 + DOUBT_MAX.0));
        assert_eq!(ended, Some((flush(0).id, DeviceResult::Done)));
    }

    #[test]
    fn what_makes_nothing_durable_is_not_weighed() {
        let (health, mut believed) = (health(), Believed::default());
        let zeroes = request(0, DeviceOperation::WriteZeroes { deallocate: false });
        believed.begin(&zeroes, &health, &devices(true));
        assert!(believed.is_idle());
        let result = believed.weigh(zeroes.id, DeviceResult::MediumError, &health, Nanos(0));
        assert_eq!(result, Some(DeviceResult::MediumError));
        assert!(!health[0].is_suspect());
    }

    #[test]
    #[should_panic(expected = "ends once")]
    fn an_operation_whose_success_waits_does_not_end_again() {
        let (health, mut believed) = (health(), Believed::default());
        let _other = health[0].begin();
        believed.begin(&flush(0), &health, &devices(true));
        believed.weigh(flush(0).id, DeviceResult::Done, &health, Nanos(0));
        believed.weigh(flush(0).id, DeviceResult::Done, &health, Nanos(0));
    }

    const CORES: usize = 3;

    /// Two or more cores that share one device, and what is known of each operation.
    #[derive(Default)]
    struct Model {
        cores: [Believed; CORES],
        begun: u32,
        open: Vec<(usize, u32)>,
        /// The operations whose success waits, with those that were open then.
        waiting: Vec<(u32, Vec<u32>)>,
        failures: u32,
    }

    impl Model {
        fn end(&mut self, place: usize, fails: bool, health: &[Arc<Health>]) {
            let (core, number) = self.open.swap_remove(place % self.open.len());
            self.failures += u32::from(fails);
            let result = if fails { DeviceResult::MediumError } else { DeviceResult::Done };
            let result = self.cores[core].weigh(flush(number).id, result, health, Nanos(0));
            match result {
                None => {
                    let open = self.open.iter().map(|(_, number)| *number).collect();
                    self.waiting.push((number, open));
                }
                Some(result) => assert_eq!(result, result_of(self.failures == 0), "{number}"),
            }
        }

        fn poll(&mut self, core: usize, health: &[Arc<Health>]) {
            while let Some((id, result)) = self.cores[core].poll_proven(health, Nanos(0)) {
                let place = self.waiting.iter().position(|(number, _)| *number == id.io);
                let (number, before) =
                    self.waiting.swap_remove(place.expect("it waits, and ends once"));
                let is_open = |it: &u32| self.open.iter().any(|(_, number)| number == it);
                assert!(!before.iter().any(is_open), "{number} waits for those before its success");
                assert_eq!(result, result_of(self.failures == 0), "{number}");
            }
        }
    }

    proptest! {
        /// Whatever the order in which operations of several cores begin and end: a success is believed only
        /// when all that was under way has ended without a failure, each operation ends once, and none waits
        /// forever.
        #[test]
        fn no_success_is_believed_after_a_failure(
            events in proptest::collection::vec((0..CORES, 0..8_usize, 0..16_u8), 1..64)
        ) {
            let (health, mut model) = (health(), Model::default());
            for (core, place, what) in events {
                match what {
                    0..7 => {
                        let request = flush(model.begun);
                        model.cores[core].begin(&request, &health, &devices(true));
                        model.open.push((core, model.begun));
                        model.begun += 1;
                    }
                    7..14 if !model.open.is_empty() => model.end(place, what == 13, &health),
                    _ => model.poll(core, &health),
                }
            }
            while !model.open.is_empty() {
                model.end(0, false, &health);
            }
            (0..CORES).for_each(|core| model.poll(core, &health));
            prop_assert!(model.waiting.is_empty() && model.cores.iter().all(Believed::is_idle));
        }
    }
}
