//! An IO in flight: its operations, each with its own state, and the ranges not laid out yet.
//!
//! Invariant: an operation ends once, after it was submitted, with the id that it was submitted
//! with. Anything else is a bug in this program, and would complete another IO.

use nearflash_device::{Cause, DeviceId, DeviceOperation, DeviceRequest, OperationId};
use nearflash_request::{BlockRange, VolumeId};
use nearflash_space::Piece;
use nearflash_units::{ByteLen, ByteOffset};

use crate::io::{IoId, IoResult};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    /// Laid out, not yet submitted to the device.
    Ready,
    /// Submitted to the device.
    Submitted,
    /// The device has returned a result.
    Ended,
}

#[derive(Clone, Copy, Debug)]
struct Op {
    request: DeviceRequest,
    state: State,
}

/// Blocks of an IO that have no operations yet.
#[derive(Debug)]
pub(crate) struct Rest {
    pub(crate) volume: VolumeId,
    pub(crate) ranges: Vec<BlockRange>,
    /// The operation on the first of these blocks, with its offset in the buffer.
    pub(crate) operation: DeviceOperation,
    /// The bytes at the end of the last of these blocks that the operation leaves out.
    pub(crate) tail: u32,
}

/// The IO with one number, or the free place between two IOs.
#[derive(Debug)]
pub(crate) struct Flight {
    /// Distinguishes the operations of this IO from those of earlier IOs with the same number.
    generation: u16,
    /// Operations that have not ended.
    pending: u16,
    result: IoResult,
    /// The request that it is for.
    cause: Cause,
    /// The only operation of most IOs.
    first: Op,
    /// The others, if there are any.
    more: Vec<Op>,
    pub(crate) rest: Option<Box<Rest>>,
}

impl Flight {
    /// A place in which no IO is.
    pub(crate) fn idle() -> Self {
        let (id, device) = (OperationId { io: 0, op: 0, generation: 0 }, DeviceId(0));
        let (operation, offset, len) = (DeviceOperation::Flush, ByteOffset(0), ByteLen(0));
        let request = DeviceRequest { id, device, operation, offset, len };
        Self {
            generation: 0,
            pending: 0,
            result: IoResult::Done,
            cause: Cause::NONE,
            first: Op { request, state: State::Ended },
            more: Vec::new(),
            rest: None,
        }
    }

    /// Begins an IO.
    ///
    /// # Panics
    /// When the previous IO of this number has not ended, which is a bug of the caller.
    #[inline]
    pub(crate) fn begin(&mut self, cause: Cause) {
        assert!(!self.is_busy(), "a number has one IO at a time");
        (self.result, self.cause) = (IoResult::Done, cause);
        self.begin_operations();
    }

    /// Continues an IO whose operations have ended with further ones, which have new ids.
    #[inline]
    pub(crate) fn begin_operations(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        if !self.more.is_empty() {
            self.more = Vec::new();
        }
    }

    /// Its operations become parts of the request: none of them covers the whole range.
    pub(crate) fn divide(&mut self) {
        self.cause.is_whole = false;
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.pending > 0
    }

    /// The number of operations that were laid out and have not ended.
    pub(crate) fn pending(&self) -> u16 {
        self.pending
    }

    /// Adds the next operation, on this piece. Returns its id.
    #[inline]
    pub(crate) fn add(
        &mut self,
        io: IoId,
        operation: DeviceOperation,
        piece: Piece,
    ) -> OperationId {
        let id = OperationId { io: io.0, op: self.pending, generation: self.generation };
        let Piece { device, offset, len } = piece;
        let request = DeviceRequest { id, device, operation, offset, len };
        let op = Op { request, state: State::Ready };
        if self.pending == 0 {
            self.first = op;
        } else {
            self.more.push(op);
        }
        self.pending += 1;
        id
    }

    /// Leaves out the first bytes of the first operation, none of which is submitted yet.
    pub(crate) fn trim_start(&mut self, skip: u32) {
        let request = &mut self.first.request;
        let skip = ByteLen(skip.into());
        request.offset.0 += skip.0;
        request.len.0 -= skip.0;
        request.operation = further(request.operation, skip);
    }

    /// Leaves out the last bytes of the operation that was added last.
    pub(crate) fn trim_end(&mut self, tail: u32) {
        let last = self.more.last_mut().unwrap_or(&mut self.first);
        last.request.len.0 -= u64::from(tail);
    }

    /// Waits for the flush of a device, which has an id of its own.
    pub(crate) fn await_flush(&mut self) {
        self.pending += 1;
    }

    /// The operation with this id, which has not been submitted yet.
    #[inline]
    pub(crate) fn peek(&self, id: OperationId) -> Option<&DeviceRequest> {
        match usize::from(id.op).checked_sub(1) {
            None => Some(&self.first.request),
            Some(index) => self.more.get(index).map(|op| &op.request),
        }
    }

    /// Records that the operation with this id is submitted.
    #[inline]
    pub(crate) fn submit(&mut self, id: OperationId) -> (DeviceRequest, Cause) {
        let op = self.op(id);
        op.state = State::Submitted;
        (op.request, self.cause)
    }

    /// Records that the operation with this id has ended. Returns the operation.
    #[inline]
    pub(crate) fn end(&mut self, id: OperationId) -> DeviceRequest {
        let op = self.op(id);
        assert_eq!(op.state, State::Submitted, "{id:?} ends once, after it was submitted");
        op.state = State::Ended;
        op.request
    }

    #[inline]
    fn op(&mut self, id: OperationId) -> &mut Op {
        assert_eq!(id.generation, self.generation, "{id:?} is of an IO that has ended");
        match usize::from(id.op).checked_sub(1) {
            None => &mut self.first,
            Some(index) => self.more.get_mut(index).expect("an operation that was laid out"),
        }
    }

    /// Records the result of an operation or flush that the IO waits for.
    #[inline]
    pub(crate) fn end_one(&mut self, result: IoResult) {
        self.pending -= 1;
        self.note(result);
    }

    /// Records a result. The first failure counts.
    #[inline]
    pub(crate) fn note(&mut self, result: IoResult) {
        if result != IoResult::Done && !self.has_failed() {
            self.result = result;
        }
    }

    pub(crate) fn has_failed(&self) -> bool {
        matches!(self.result, IoResult::Failed(_))
    }

    pub(crate) fn result(&self) -> IoResult {
        self.result
    }
}

/// The same operation, for bytes at a later place in the buffer.
#[inline]
pub(crate) fn further(operation: DeviceOperation, by: ByteLen) -> DeviceOperation {
    let at = |buffer_offset: ByteLen| ByteLen(buffer_offset.0 + by.0);
    match operation {
        DeviceOperation::Read { buffer, buffer_offset } => {
            DeviceOperation::Read { buffer, buffer_offset: at(buffer_offset) }
        }
        DeviceOperation::Write { buffer, buffer_offset, durable } => {
            DeviceOperation::Write { buffer, buffer_offset: at(buffer_offset), durable }
        }
        other => other,
    }
}
