//! The control side's part in what sessions share: one change at a time, as in production. It is
//! decided, recorded, told to every core, and answered when each goes by it.
//!
//! Checked with each answer: nothing that was under way on the volume's devices before is so any
//! more, and nothing of whoever has lost its right to write.

use std::collections::VecDeque;

use nearflash_engine::{CoreId, Owner};
use nearflash_request::{Change, ChangeKind, ChangeResult, Raised, Tag};
use nearflash_shard::Message;

use crate::judge::Checks;
use crate::reservations::Ends;
use crate::sim::Sim;

/// A change that a session waits for.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub core: CoreId,
    pub owner: Owner,
    pub tag: Tag,
    pub change: Box<Change>,
}

/// The one that is told to the cores.
#[derive(Debug)]
struct UnderWay {
    wanted: Wanted,
    /// With which cores confirm.
    number: u64,
    result: ChangeResult,
    /// Sessions are told when they have.
    raised: Vec<Raised>,
    /// What was under way on devices when it began: over when it is answered.
    older: Vec<(usize, u64)>,
}

/// All that sessions wait for.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    waiting: VecDeque<Wanted>,
    under_way: Option<UnderWay>,
}

impl Changes {
    pub(crate) fn want(&mut self, wanted: Wanted) {
        self.waiting.push_back(wanted);
    }

    /// The node is gone, and everybody who waited.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }
}

impl Sim {
    /// Goes on with changes, as far as that goes without waiting for cores.
    pub(crate) fn go_on_with_changes(&mut self) {
        loop {
            if let Some(under_way) = self.changes.under_way.take() {
                if self.confirmed.volumes(under_way.number) < self.node.core_count() {
                    self.changes.under_way = Some(under_way);
                    return;
                }
                self.answer(under_way);
            }
            let Some(wanted) = self.changes.waiting.pop_front() else { return };
            self.begin_change(wanted);
        }
    }

    fn begin_change(&mut self, wanted: Wanted) {
        let volume = wanted.change.volume.0;
        let now = self.outside.tick();
        let (result, raised) = self.node.apply(&wanted.change);
        let ends = self.checks.reservations.begins(&wanted.change, now);
        assert_eq!(Ends::of(&result), ends, "{:?}", wanted.change);
        let report = self.node.report(volume);
        assert!(self.checks.reservations.agrees_with(volume, &report), "{report:?}");
        self.outside.note("change", &[u64::from(volume), u64::from(result == ChangeResult::Done)]);
        self.rights_changed(volume);
        let older = self.operations_of(volume);
        let mut raised = raised;
        if ends_commands(wanted.change.kind) {
            // Sessions give up commands first; what of these is with a device is then waited for.
            self.tell_sessions(std::mem::take(&mut raised));
        }
        let number = self.node.tell_volumes(&mut self.outside);
        self.changes.under_way = Some(UnderWay { wanted, number, result, raised, older });
    }

    /// Operations of a volume that are under way on devices.
    fn operations_of(&self, volume: u32) -> Vec<(usize, u64)> {
        let disks = self.outside.disks.iter().enumerate();
        let all = disks.flat_map(|(index, disk)| disk.under_way().map(move |it| (index, it)));
        all.filter(|(index, (_, request))| self.node.is_of(volume, *index, request.offset))
            .map(|(index, (number, _))| (index, number))
            .collect()
    }

    /// Other reservations are in force than before, or other grants: who is shut out by all of them
    /// has nothing under way, and what it sent has no effect any more.
    pub(crate) fn rights_changed(&mut self, volume: u32) {
        let now = self.outside.tick();
        let Checks { reservations, history, .. } = &mut self.checks;
        let witness = &mut self.outside.witness;
        witness.goes_by(volume, reservations.in_force(volume));
        history.rights_changed(volume, |writer| witness.may_write(volume, writer), now);
    }

    fn answer(&mut self, done: UnderWay) {
        let UnderWay { wanted, result, raised, older, .. } = done;
        let is_under_way = |&(disk, number): &(usize, u64)| self.outside.disks[disk].has(number);
        let left = older.iter().find(|it| is_under_way(it));
        assert!(left.is_none(), "{:?} is answered, and {left:?} is under way", wanted.change);
        let now = self.outside.tick();
        let volume = wanted.change.volume.0;
        self.checks.reservations.counts(volume, now);
        self.rights_changed(volume);
        self.tell_sessions(raised);
        let Wanted { core, owner, tag, .. } = wanted;
        self.outside.post(None, core, Message::Changed(owner, tag, result));
    }

    fn tell_sessions(&mut self, raised: Vec<Raised>) {
        if !raised.is_empty() {
            self.node.raise(&raised.into(), &mut self.outside);
        }
    }

    /// The power is gone: nobody waits any more, and what was not recorded is as if it never was.
    pub(crate) fn forget_changes(&mut self) {
        self.changes.forget();
        let now = self.outside.tick();
        self.checks.reservations.power_lost(now);
        for volume in self.checks.reservations.volumes() {
            self.rights_changed(volume);
        }
        for volume in self.node.forget_changes() {
            let report = self.node.report(volume);
            let agrees = self.checks.reservations.agrees_with(volume, &report);
            assert!(agrees, "after a loss of power: {report:?}");
        }
    }
}

/// Whether commands end by it that sessions have taken.
fn ends_commands(kind: ChangeKind) -> bool {
    matches!(kind, ChangeKind::Reset(_) | ChangeKind::EndTasks(_))
}
