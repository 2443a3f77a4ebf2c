//! The demands of a session, made from the slots when they are polled.

use nearflash_request::{
    BlockRange, BufferId, Change, ChangeKind, Operation, Request, Tag, VolumeId,
};

use super::slots::{FunctionTask, Kind, Stage};
use super::{Demand, TargetSession};

impl TargetSession {
    /// The next demand, oldest first.
    #[inline]
    pub fn poll_demand(&mut self) -> Option<Demand> {
        if let Some(index) = self.tasks.ready.pop_front() {
            if let Kind::Read { volume, range } = self.tasks.slots[index].kind {
                let operation = Operation::Read;
                return Some(Demand::Request(request(index, volume, range, operation)));
            }
            return Some(self.demand_of(index));
        }
        self.login.demand.take().map(Demand::Login)
    }

    /// Everything but plain reads.
    fn demand_of(&mut self, index: u16) -> Demand {
        let slot = &mut self.tasks.slots[index];
        match &slot.kind {
            &Kind::Write { volume, range, force_unit_access } => {
                let [Some(payload), None] = slot.buffers.take() else {
                    panic!("a write is handed out with its payload")
                };
                let operation = Operation::Write { payload, force_unit_access };
                Demand::Request(request(index, volume, range, operation))
            }
            Kind::Request { volume, task } => {
                let taken = slot.buffers.take();
                let buffers: &[BufferId] = match taken {
                    [None, _] => &[],
                    [Some(first), None] => &[first],
                    [Some(first), Some(second)] => &[first, second],
                };
                let operation =
                    task.operation(buffers).expect("the request has all of its buffers");
                Demand::Request(request(index, *volume, task.range, operation))
            }
            Kind::Series(series) => {
                let piece = &series.piece;
                let buffers: Vec<_> = slot.buffers.take().into_iter().flatten().collect();
                let operation =
                    piece.task.operation(&buffers).expect("the request has all of its buffers");
                Demand::Request(request(index, piece.volume, piece.task.range, operation))
            }
            Kind::Change { volume, task } => {
                let (volume, kind) = (*volume, task.kind);
                self.change(index, volume, kind)
            }
            &Kind::Function(FunctionTask { volume, kind, .. }) => self.change(index, volume, kind),
            Kind::Read { .. } | Kind::Parameters { .. } | Kind::Ready { .. } => {
                unreachable!("nobody else has a part in these")
            }
        }
    }

    fn change(&self, index: u16, volume: VolumeId, kind: ChangeKind) -> Demand {
        let (nexus, identity) = (self.shared.nexus, self.shared.identity.clone());
        Demand::Change(tag_of(index), Box::new(Change { volume, nexus, identity, kind }))
    }

    /// Submits a command whose data is complete, or that has none: it is answered, or handed out.
    #[inline]
    pub(super) fn submit(&mut self, index: u16) {
        let slot = &mut self.tasks.slots[index];
        slot.stage = Stage::Submitted;
        if let (None, Kind::Parameters { cdb, data }) = (slot.failed, &mut slot.kind) {
            // These never require further parameters.
            let (cdb, data) = (*cdb, std::mem::take(data));
            self.plan_parameters(index, cdb, &data);
        }
        let slot = &mut self.tasks.slots[index];
        match (slot.failed, &mut slot.kind) {
            (Some(failure), _) => self.fail(index, failure),
            (None, Kind::Ready { data }) => {
                let data = std::mem::take(data);
                self.answer_data(index, &data);
            }
            _ => self.tasks.ready.push_back(index),
        }
    }
}

#[inline]
fn request(index: u16, volume: VolumeId, range: BlockRange, operation: Operation) -> Request {
    Request { tag: tag_of(index), volume, range, operation, sent_in: None }
}

/// The request's tag is the slot.
#[inline]
fn tag_of(index: u16) -> Tag {
    Tag(u32::from(index))
}
