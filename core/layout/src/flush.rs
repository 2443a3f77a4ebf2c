//! The flushes of one device: at most one under way and one waiting, however many IOs ask.
//!
//! Invariant: a flush completes only the IOs that asked before it was submitted, since a write may
//! have ended, and been acknowledged, between its submission and a later request.

use nearflash_device::{DeviceId, DeviceOperation, DeviceRequest, OperationId};
use nearflash_units::{ByteLen, ByteOffset};

use crate::io::IoId;

/// Operation numbers from this one on identify flushes of devices; those of IOs are smaller.
const FLUSHES: u32 = 1 << 31;

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum State {
    #[default]
    Idle,
    /// Requested but not submitted; further IOs can join.
    Ready,
    Submitted,
}

#[derive(Debug, Default)]
pub(crate) struct Flushes {
    generation: u16,
    state: State,
    /// IOs that the flush answers.
    joined: Vec<IoId>,
    /// IOs that were added after it was submitted: the next flush answers them.
    waiting: Vec<IoId>,
}

impl Flushes {
    /// The device that the operation flushes; `None` for an operation that is no flush.
    #[inline]
    pub(crate) fn device_of(id: OperationId) -> Option<DeviceId> {
        (id.io >= FLUSHES).then_some(DeviceId(id.io & !FLUSHES))
    }

    /// Adds an IO. Returns the id of the flush if it is a new one.
    pub(crate) fn ask(&mut self, device: DeviceId, io: IoId) -> Option<OperationId> {
        if self.state == State::Submitted {
            self.waiting.push(io);
            return None;
        }
        self.joined.push(io);
        let is_new = self.state == State::Idle;
        is_new.then(|| self.begin(device))
    }

    fn begin(&mut self, device: DeviceId) -> OperationId {
        self.state = State::Ready;
        self.generation = self.generation.wrapping_add(1);
        OperationId { io: FLUSHES | device.0, op: 0, generation: self.generation }
    }

    pub(crate) fn submit(&mut self, id: OperationId) -> DeviceRequest {
        self.check(id, State::Ready);
        self.state = State::Submitted;
        let device = DeviceId(id.io & !FLUSHES);
        let (operation, offset, len) = (DeviceOperation::Flush, ByteOffset(0), ByteLen(0));
        DeviceRequest { id, device, operation, offset, len }
    }

    /// Records the end of the flush. Returns the IOs that it answers, and the next flush if any IO
    /// waits.
    pub(crate) fn end(&mut self, id: OperationId) -> (Vec<IoId>, Option<OperationId>) {
        self.check(id, State::Submitted);
        self.state = State::Idle;
        let answered = std::mem::replace(&mut self.joined, std::mem::take(&mut self.waiting));
        let next = !self.joined.is_empty();
        (answered, next.then(|| self.begin(DeviceId(id.io & !FLUSHES))))
    }

    fn check(&self, id: OperationId, state: State) {
        let found = (self.generation, self.state);
        assert_eq!(found, (id.generation, state), "{id:?} ends once, after it was submitted");
    }
}
