//! The control side's part in state that sessions share. Each node decides as in production
//! ([`Requests`]); the simulation carries out the steps: it publishes a change to every core if a core
//! or a session must learn of it, and answers when the older requests of its volumes have ended.
//!
//! Checked with each answer that promises it: no operation that was under way on the volume's
//! devices before the change is still under way. Once the older requests have ended, a peer that
//! has lost its access has no operation under way.

use nearflash_control::{Requests, Steps, Volumes};
use nearflash_engine::{CoreId, Owner};
use nearflash_request::{
    Change, ChangeKind, ChangeResult, Identity, Nexus, ResetScope, Tag, VolumeId,
};
use nearflash_shard::Message;

use crate::judge::{Checks, EndingId};
use crate::machine::NodeId;
use crate::node::node_of;
use crate::reservations::Ends;
use crate::sim::Sim;

/// The session that waits for a change.
pub(crate) type Asker = (CoreId, Owner, (VolumeId, Tag));

/// A request whose steps are being carried out.
#[derive(Debug)]
struct UnderWay {
    node: NodeId,
    number: u64,
    /// The publication that every core must confirm; `None` if no core must learn of the change.
    published: Option<u64>,
    /// `None` for the end of a session.
    checked: Option<Checked>,
}

/// A change, as the checks know it.
#[derive(Debug)]
struct Checked {
    change: Change,
    ends: Ends,
    /// Device operations under way on the affected volumes when the change began, if they must be
    /// over when it is answered.
    older: Vec<(usize, u64)>,
    /// Commands sent before the answer may be aborted.
    ending: Option<EndingId>,
}

/// All changes that sessions wait for.
#[derive(Debug)]
pub(crate) struct Changes {
    /// By node.
    requests: Vec<Requests<Asker>>,
    under_way: Vec<UnderWay>,
}

impl Changes {
    pub(crate) fn new(nodes: usize) -> Self {
        let requests = (0..nodes).map(|_| Requests::default()).collect();
        Self { requests, under_way: Vec::new() }
    }

    pub(crate) fn want(&mut self, node: NodeId, by: Asker, change: Box<Change>) {
        self.requests[node.0].handle_change(by, change);
    }

    /// A session and all of its requests have ended.
    pub(crate) fn end_session(&mut self, node: NodeId, nexus: Nexus, identity: Identity) {
        self.requests[node.0].handle_session_over(nexus, identity);
    }

    /// A node is gone, and with it all sessions that waited.
    pub(crate) fn forget(&mut self, node: NodeId) {
        self.requests[node.0] = Requests::default();
        self.under_way.retain(|under_way| under_way.node != node);
    }

    /// The number of changes not yet answered.
    pub(crate) fn len(&self) -> usize {
        self.requests.iter().map(Requests::len).sum()
    }
}

impl Sim {
    /// Advances all changes as far as possible without waiting for cores.
    pub(crate) fn go_on_with_changes(&mut self) {
        for under_way in std::mem::take(&mut self.changes.under_way) {
            self.end_if_over(under_way);
        }
        for node in self.node_ids() {
            while let Some(number) = self.changes.requests[node.0].poll_request(&self.nodes[node.0])
            {
                self.begin_change(node, number);
            }
        }
    }

    /// Answers a change if every core serves by it, and the older requests have ended.
    fn end_if_over(&mut self, under_way: UnderWay) {
        let UnderWay { node, number, published, .. } = under_way;
        let machine = &self.nodes[node.0];
        if !published.is_none_or(|it| machine.has_shown(it) && machine.has_quiesced(it)) {
            return self.changes.under_way.push(under_way);
        }
        self.changes.requests[node.0].handle_over(number);
        if let Some(checked) = under_way.checked {
            let answer = self.changes.requests[node.0].poll_answer();
            self.answer(node, checked, answer.expect("a change is answered"));
        }
    }

    fn begin_change(&mut self, node: NodeId, number: u64) {
        let now = self.outside.tick();
        let requests = &mut self.changes.requests[node.0];
        let steps = requests.decide(number, &mut self.nodes[node.0]);
        let change = requests.change(number).cloned();
        let checked = change.map(|change| {
            let ends = self.checks.reservations.begins(&change, now);
            self.check(node, change, ends, &steps)
        });
        let published = steps
            .concern_cores()
            .then(|| self.nodes[node.0].publish_change(steps, &mut self.outside));
        self.end_if_over(UnderWay { node, number, published, checked });
    }

    /// Compares a change with the rules, and notes what must be over when it is answered.
    fn check(&mut self, node: NodeId, change: Change, ends: Ends, steps: &Steps) -> Checked {
        let volume = change.volume.0;
        let report = self.nodes[node.0].report(volume);
        assert!(self.checks.reservations.agrees_with(volume, &report), "{report:?}");
        self.outside.note(name_of(change.kind, ends), &[u64::from(volume)]);
        self.rights_changed(volume);
        let waits = must_wait(change.kind);
        // Preemption with abort ends commands, as task management functions do.
        let ending = waits.then(|| self.checks.endings.begins(node, None));
        let volumes = match change.kind {
            ChangeKind::Reset(ResetScope::Target | ResetScope::TargetAndSessions) => {
                self.nodes[node.0].of_target(change.volume)
            }
            _ => vec![change.volume],
        };
        let older = volumes.iter().filter(|_| waits || steps.restricts);
        let older: Vec<_> = older.flat_map(|it| self.operations_of(it.0)).collect();
        let preempts = ends == Ends::Done && matches!(change.kind, ChangeKind::Preempt { .. });
        if preempts && !older.is_empty() {
            self.outside.note("preemption under load", &[]);
        }
        Checked { change, ends, older, ending }
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

    fn answer(&mut self, node: NodeId, checked: Checked, (by, result): (Asker, ChangeResult)) {
        let Checked { change, ends, older, ending } = checked;
        assert_eq!(Ends::of(&result), ends, "{change:?}");
        let now = self.outside.tick();
        if let Some(ending) = ending {
            self.checks.endings.is_over(ending, now);
        }
        let disks = &self.outside.machine(node).disks;
        let is_under_way = |&(disk, number): &(usize, u64)| disks[disk].has(number);
        let left = older.iter().find(|it| is_under_way(it));
        assert!(left.is_none(), "{change:?} is answered, and {left:?} is under way");
        self.goes_by(change.volume.0);
        let (core, owner, of) = by;
        self.outside.post(node, None, core, Message::Changed(owner, of, result));
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
fn name_of(kind: ChangeKind, ends: Ends) -> &'static str {
    match (ends, kind) {
        (Ends::Conflict, _) => "change in conflict",
        (Ends::Refused, _) => "change refused",
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
