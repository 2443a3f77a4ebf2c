//! Whether a local device that said that a replica's bytes are on stable media can be believed.
//!
//! The layout does this for the operations of volumes, and does not see those of mirrors. Both use the same
//! record of the device's health: see [`Health`].

use std::sync::Arc;

use nearflash_device::{
    DOUBT_MAX, DeviceId, DeviceOperation, DeviceRequest, DeviceResult, Health, OperationId,
    Promise, Success,
};
use nearflash_units::{Nanos, index};

/// Flushes and durable writes of mirrors on local devices.
#[derive(Debug, Default)]
pub(super) struct Promises {
    under_way: Vec<(OperationId, DeviceId, DeviceOperation, Promise)>,
    /// Those whose success cannot be trusted yet.
    unproven: Vec<(OperationId, DeviceId, Success, Nanos)>,
}

impl Promises {
    /// An operation is about to be submitted.
    #[inline]
    pub(super) fn begin(&mut self, request: &DeviceRequest, health: &[Arc<Health>]) {
        let DeviceRequest { id, device, operation, .. } = *request;
        if operation.makes_durable() {
            let promise = health[index(device.0)].begin();
            self.under_way.push((id, device, operation, promise));
        }
    }

    /// The result of an operation that has ended; `None` while its success cannot be trusted yet.
    #[inline]
    pub(super) fn weigh(
        &mut self,
        id: OperationId,
        result: DeviceResult,
        health: &[Arc<Health>],
        now: Nanos,
    ) -> Option<DeviceResult> {
        let place = self.under_way.iter().position(|(promised, ..)| *promised == id);
        let Some(place) = place else { return Some(result) };
        let (_, device, operation, promise) = self.under_way.swap_remove(place);
        let health = &health[index(device.0)];
        if operation.loses(result) {
            health.fail(promise);
            return Some(result);
        }
        let success = health.end(promise);
        if !result.is_done() {
            return Some(result);
        }
        let known = health.judge(success);
        if known.is_none() {
            self.unproven.push((id, device, success, now));
        }
        known.map(believed)
    }

    /// Whether operations wait for those of other cores.
    pub(super) fn awaits_others(&self) -> bool {
        !self.unproven.is_empty()
    }

    /// Ends the operations that need not wait any longer.
    pub(super) fn prove(
        &mut self,
        health: &[Arc<Health>],
        now: Nanos,
        mut end: impl FnMut(OperationId, DeviceResult),
    ) {
        self.unproven.retain(|(id, device, success, since)| {
            let health = &health[index(device.0)];
            let is_overdue = now.since(*since) >= DOUBT_MAX;
            let known = health.judge(*success);
            let known = known.or_else(|| is_overdue.then(|| health.judge_overdue(*success)));
            if let Some(is_true) = known {
                end(*id, believed(is_true));
            }
            known.is_none()
        });
    }
}

/// A success that is not trusted counts as a failure.
fn believed(is_true: bool) -> DeviceResult {
    if is_true { DeviceResult::Done } else { DeviceResult::MediumError }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearflash_units::{ByteLen, ByteOffset};

    fn flush(number: u32) -> DeviceRequest {
        let id = OperationId { io: number, op: 0, generation: 0 };
        let (operation, offset, len) = (DeviceOperation::Flush, ByteOffset(0), ByteLen(0));
        DeviceRequest { id, device: DeviceId(0), operation, offset, len }
    }

    #[test]
    fn a_flush_is_believed_when_those_before_it_have_not_failed() {
        for fails in [false, true] {
            let health = [Arc::new(Health::default())];
            let mut promises = Promises::default();
            promises.begin(&flush(0), &health);
            let other = health[0].begin();
            assert_eq!(promises.weigh(flush(0).id, DeviceResult::Done, &health, Nanos(0)), None);
            promises.prove(&health, Nanos(1), |_, _| unreachable!("the other one is under way"));
            if fails {
                health[0].fail(other)
            } else {
                _ = health[0].end(other)
            }
            let mut ended = Vec::new();
            promises.prove(&health, Nanos(2), |_, result| ended.push(result));
            assert_eq!(ended, [believed(!fails)]);
            assert!(!promises.awaits_others());
        }
    }

    #[test]
    fn a_failed_flush_makes_the_device_suspect() {
        let health = [Arc::new(Health::default())];
        let mut promises = Promises::default();
        promises.begin(&flush(0), &health);
        let result = promises.weigh(flush(0).id, DeviceResult::MediumError, &health, Nanos(0));
        assert_eq!(result, Some(DeviceResult::MediumError));
        assert!(health[0].is_suspect());
        promises.begin(&flush(1), &health);
        let result = promises.weigh(flush(1).id, DeviceResult::Done, &health, Nanos(0));
        assert_eq!(result, Some(DeviceResult::MediumError), "until it is cleared");
    }
}
