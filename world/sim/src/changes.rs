//! The control side's part in state that sessions share, as in production. It decides on a change
//! and records it, publishes it to every core if a core or a session must learn of it, and answers
//! when the older requests of its volumes have ended. Changes of one volume run one after
//! another; changes of different volumes run concurrently.
//!
//! Checked with each answer that promises it: no operation that was under way on the volume's
//! devices before the change is still under way. Once the older requests have ended, a peer that
//! has lost its access has no operation under way.

use std::collections::VecDeque;

use nearflash_engine::{CoreId, Owner};
use nearflash_request::{Change, ChangeKind, ChangeResult, ResetScope, Tag, VolumeId};
use nearflash_shard::Message;

use crate::judge::{Checks, EndingId};
use crate::machine::NodeId;
use crate::node::{Applied, node_of};
use crate::reservations::Ends;
use crate::sim::Sim;

/// A change that a session waits for.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub node: NodeId,
    pub core: CoreId,
    pub owner: Owner,
    pub tag: Tag,
    pub change: Box<Change>,
}

/// A change being made.
#[derive(Debug)]
struct UnderWay {
    wanted: Wanted,
    result: ChangeResult,
    volumes: Vec<VolumeId>,
    /// The publication that every core must confirm; `None` if no core must learn of the change.
    published: Option<u64>,
    /// Device operations under way on the affected volumes when the change began, if they must be
    /// over when it is answered.
    older: Vec<(usize, u64)>,
    /// Commands sent before the answer may be aborted.
    ending: Option<EndingId>,
}

/// All changes that sessions wait for.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    waiting: VecDeque<Wanted>,
    under_way: Vec<UnderWay>,
}

impl Changes {
    pub(crate) fn want(&mut self, wanted: Wanted) {
        self.waiting.push_back(wanted);
    }

    /// A node is gone, and with it all sessions that waited.
    pub(crate) fn forget(&mut self, node: NodeId) {
        self.waiting.retain(|wanted| wanted.node != node);
        self.under_way.retain(|under_way| under_way.wanted.node != node);
    }

    /// The number of changes not yet answered.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len() + self.under_way.len()
    }
}

impl Sim {
    /// Advances all changes as far as possible without waiting for cores.
    pub(crate) fn go_on_with_changes(&mut self) {
        for under_way in std::mem::take(&mut self.changes.under_way) {
            if self.is_over(&under_way) {
                self.answer(under_way);
            } else {
                self.changes.under_way.push(under_way);
            }
        }
        let busy = self.changes.under_way.iter().flat_map(|it| it.volumes.iter().copied());
        let mut busy: Vec<VolumeId> = busy.collect();
        for wanted in std::mem::take(&mut self.changes.waiting) {
            let volumes = self.nodes[wanted.node.0].volumes_of(&wanted.change);
            if volumes.iter().any(|volume| busy.contains(volume)) {
                self.changes.waiting.push_back(wanted);
            } else {
                self.begin_change(wanted);
            }
            busy.extend(volumes);
        }
    }

    /// Whether a change can be answered: every core serves by it, and the older requests have ended.
    fn is_over(&self, under_way: &UnderWay) -> bool {
        let node = &self.nodes[under_way.wanted.node.0];
        under_way.published.is_none_or(|it| node.has_shown(it) && node.has_quiesced(it))
    }

    fn begin_change(&mut self, wanted: Wanted) {
        let (id, volume) = (wanted.node, wanted.change.volume.0);
        let now = self.outside.tick();
        let Applied { result, raised, restricts } = self.nodes[id.0].apply(&wanted.change);
        let ends = self.checks.reservations.begins(&wanted.change, now);
        assert_eq!(Ends::of(&result), ends, "{:?}", wanted.change);
        let report = self.nodes[id.0].report(volume);
        assert!(self.checks.reservations.agrees_with(volume, &report), "{report:?}");
        self.outside.note(name_of(wanted.change.kind, &result), &[u64::from(volume)]);
        self.rights_changed(volume);
        let waits = must_wait(wanted.change.kind);
        // Preemption with abort ends commands, as task management functions do.
        let ending = waits.then(|| self.checks.endings.begins(id, None));
        let volumes = self.nodes[id.0].volumes_of(&wanted.change);
        let older = volumes.iter().filter(|_| waits || restricts);
        let older: Vec<_> = older.flat_map(|it| self.operations_of(it.0)).collect();
        let preempts =
            ends == Ends::Done && matches!(wanted.change.kind, ChangeKind::Preempt { .. });
        if preempts && !older.is_empty() {
            self.outside.note("preemption under load", &[]);
        }
        let quiesce = if waits { &volumes[..] } else { &[] };
        let is_published = restricts || waits || !raised.is_empty();
        let published = is_published.then(|| {
            self.nodes[id.0].publish_change(restricts, raised, quiesce, &mut self.outside)
        });
        let under_way = UnderWay { wanted, result, volumes, published, older, ending };
        if self.is_over(&under_way) {
            self.answer(under_way);
        } else {
            self.changes.under_way.push(under_way);
        }
    }

    /// The operations of a volume that are under way on devices.
    fn operations_of(&self, volume: u32) -> Vec<(usize, u64)> {
        let node = node_of(volume);
        let disks = self.outside.machine(node).disks.iter().enumerate();
        let all = disks.flat_map(|(index, disk)| disk.under_way().map(move |it| (index, it)));
        all.filter(|(index, (_, request))| self.nodes[node.0].is_of(volume, *index, request.offset))
            .map(|(index, (number, _))| (index, number))
            .collect()
    }

    /// The reservations or grants in force have changed. A peer excluded by all of them has no
    /// operation under way, and its earlier requests no longer take effect.
    pub(crate) fn rights_changed(&mut self, volume: u32) {
        let now = self.outside.tick();
        let Checks { reservations, history, .. } = &mut self.checks;
        let witness = &mut self.outside.witness;
        witness.goes_by(volume, reservations.in_force(volume));
        history.rights_changed(volume, |writer| witness.may_write(volume, writer), now);
    }

    /// Every core uses the newest state of a volume.
    fn goes_by(&mut self, volume: u32) {
        let now = self.outside.tick();
        self.checks.reservations.counts(volume, now);
        self.rights_changed(volume);
    }

    fn answer(&mut self, done: UnderWay) {
        let UnderWay { wanted, result, older, ending, .. } = done;
        let now = self.outside.tick();
        if let Some(ending) = ending {
            self.checks.endings.is_over(ending, now);
        }
        let disks = &self.outside.machine(wanted.node).disks;
        let is_under_way = |&(disk, number): &(usize, u64)| disks[disk].has(number);
        let left = older.iter().find(|it| is_under_way(it));
        assert!(left.is_none(), "{:?} is answered, and {left:?} is under way", wanted.change);
        self.goes_by(wanted.change.volume.0);
        let Wanted { node, core, owner, tag, change } = wanted;
        let volume = change.volume;
        self.outside.post(node, None, core, Message::Changed(owner, (volume, tag), result));
    }

    /// A node's power is gone: no session waits any more, and unrecorded changes are undone.
    pub(crate) fn forget_changes(&mut self, id: NodeId) {
        self.changes.forget(id);
        let now = self.outside.tick();
        self.checks.reservations.power_lost(id, now);
        self.checks.endings.are_over(id, now);
        for volume in self.checks.reservations.volumes(id) {
            self.rights_changed(volume);
        }
        for volume in self.nodes[id.0].forget_changes() {
            let report = self.nodes[id.0].report(volume);
            let agrees = self.checks.reservations.agrees_with(volume, &report);
            assert!(agrees, "after a loss of power: {report:?}");
        }
    }
}

/// The name of a change in the trace.
fn name_of(kind: ChangeKind, result: &ChangeResult) -> &'static str {
    match (result, kind) {
        (ChangeResult::Conflict, _) => "change in conflict",
        (ChangeResult::Refused(_), _) => "change refused",
        (_, ChangeKind::Register { .. }) => "register",
        (_, ChangeKind::Reserve { .. }) => "reserve",
        (_, ChangeKind::Release { .. }) => "release",
        (_, ChangeKind::Clear { .. }) => "clear",
        (_, ChangeKind::Preempt { .. }) => "preempt",
        (_, ChangeKind::Reset(ResetScope::LogicalUnit)) => "unit reset",
        (_, ChangeKind::Reset(ResetScope::Target)) => "target reset",
        (_, ChangeKind::Reset(ResetScope::TargetAndSessions)) => "cold reset",
        (_, ChangeKind::EndTasks(_)) => "end tasks",
        _ => "change",
    }
}

/// Whether all operations under way before the change must be over when it is answered.
fn must_wait(kind: ChangeKind) -> bool {
    matches!(
        kind,
        ChangeKind::Reset(_) | ChangeKind::EndTasks(_) | ChangeKind::Preempt { abort: true, .. }
    )
}
