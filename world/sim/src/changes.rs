//! The control side's part in what sessions share: one change at a time, as in production. It is
//! decided and recorded, shown to every core when it restricts somebody, told to the sessions that it
//! concerns, waited for when what was under way before is to be over, and then answered.
//!
//! Checked with each answer that says so: nothing that was under way on the volume's devices before is
//! so any more. And once cores go by a change, nothing is of whoever has lost its right to write.

use std::collections::VecDeque;

use nearflash_engine::{CoreId, Owner};
use nearflash_request::{Change, ChangeKind, ChangeResult, Raised, ResetScope, Tag};
use nearflash_shard::Message;

use crate::judge::{Checks, EndingId};
use crate::node::Applied;
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

/// Something that every core has to confirm.
#[derive(Debug)]
enum Step {
    /// What restricts whom.
    Show,
    /// What sessions hear of it.
    Tell(Vec<Raised>),
}

#[derive(Clone, Copy, Debug)]
enum Awaited {
    Shown(u64),
    Told(u64),
}

/// The one that is made.
#[derive(Debug)]
struct UnderWay {
    wanted: Wanted,
    result: ChangeResult,
    steps: VecDeque<Step>,
    awaited: Option<Awaited>,
    /// What was under way on devices when it began, on the volumes that it is about, if that is to be
    /// over when it is answered.
    older: Vec<(usize, u64)>,
    /// Commands that were sent before it is answered may be aborted.
    ending: Option<EndingId>,
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
            let Some(mut under_way) = self.changes.under_way.take() else {
                let Some(wanted) = self.changes.waiting.pop_front() else { return };
                self.begin_change(wanted);
                continue;
            };
            if under_way.awaited.is_some_and(|awaited| !self.is_confirmed(awaited)) {
                self.changes.under_way = Some(under_way);
                return;
            }
            if let Some(Awaited::Shown(_)) = under_way.awaited.take() {
                self.goes_by(under_way.wanted.change.volume.0);
            }
            match under_way.steps.pop_front() {
                None => self.answer(under_way),
                Some(step) => {
                    under_way.awaited = Some(self.take_step(step));
                    self.changes.under_way = Some(under_way);
                }
            }
        }
    }

    fn is_confirmed(&self, awaited: Awaited) -> bool {
        let cores = match awaited {
            Awaited::Shown(number) => self.confirmed.volumes(number),
            Awaited::Told(number) => self.confirmed.told(number),
        };
        cores == self.node.core_count()
    }

    fn take_step(&mut self, step: Step) -> Awaited {
        match step {
            Step::Show => Awaited::Shown(self.node.tell_volumes(&mut self.outside)),
            Step::Tell(raised) => Awaited::Told(self.node.raise(&raised.into(), &mut self.outside)),
        }
    }

    fn begin_change(&mut self, wanted: Wanted) {
        let volume = wanted.change.volume.0;
        let now = self.outside.tick();
        let Applied { result, raised, restricts } = self.node.apply(&wanted.change);
        let ends = self.checks.reservations.begins(&wanted.change, now);
        assert_eq!(Ends::of(&result), ends, "{:?}", wanted.change);
        let report = self.node.report(volume);
        assert!(self.checks.reservations.agrees_with(volume, &report), "{report:?}");
        self.outside.note(name_of(wanted.change.kind, &result), &[u64::from(volume)]);
        self.rights_changed(volume);
        let waits = must_wait(wanted.change.kind);
        // Preempting and aborting as well as any of the functions for that.
        let ending = waits.then(|| self.checks.endings.begins(None));
        let volumes = self.node.volumes_of(&wanted.change);
        let older = volumes.iter().filter(|_| waits || restricts);
        let older: Vec<_> = older.flat_map(|it| self.operations_of(it.0)).collect();
        let preempts =
            ends == Ends::Done && matches!(wanted.change.kind, ChangeKind::Preempt { .. });
        if preempts && !older.is_empty() {
            self.outside.note("preemption under load", &[]);
        }
        let steps = [
            restricts.then_some(Step::Show),
            (!raised.is_empty()).then_some(Step::Tell(raised)),
            // Sessions give up commands first; what of these is with a device is then waited for.
            waits.then_some(Step::Show),
        ];
        let steps = steps.into_iter().flatten().collect();
        self.changes.under_way =
            Some(UnderWay { wanted, result, steps, awaited: None, older, ending });
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

    /// Every core goes by the newest state of a volume.
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
        let is_under_way = |&(disk, number): &(usize, u64)| self.outside.disks[disk].has(number);
        let left = older.iter().find(|it| is_under_way(it));
        assert!(left.is_none(), "{:?} is answered, and {left:?} is under way", wanted.change);
        self.goes_by(wanted.change.volume.0);
        let Wanted { core, owner, tag, .. } = wanted;
        self.outside.post(None, core, Message::Changed(owner, tag, result));
    }

    /// The power is gone: nobody waits any more, and what was not recorded is as if it never was.
    pub(crate) fn forget_changes(&mut self) {
        self.changes.forget();
        let now = self.outside.tick();
        self.checks.reservations.power_lost(now);
        self.checks.endings.are_over(now);
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

/// What a change is called among all that happens.
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

/// Whether everything that was under way before is over when this is answered.
fn must_wait(kind: ChangeKind) -> bool {
    matches!(
        kind,
        ChangeKind::Reset(_) | ChangeKind::EndTasks(_) | ChangeKind::Preempt { abort: true, .. }
    )
}
