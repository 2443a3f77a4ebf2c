//! Answered writes of a mirror that a loss of power may have taken.
//!
//! If the last replica in sync loses its power, so do the writes that no flush has followed. Hosts of that node see
//! their connections break, and hosts of other nodes do not. So every node counts the writes that its own hosts
//! were answered, as it does for volumes of other nodes, and in which *start* each of them was done: the term
//! since which no answered write was lost. When a table shows a later start, and a write was not flushed,
//! the device that stands for the mirror becomes suspect.
//!
//! A flush carries the term in which it is done, so it comes after the table of that term. Writes and
//! flushes that other nodes have forwarded are counted there.

use std::collections::VecDeque;
use std::sync::Arc;

use nearflash_device::{DeviceOperation, DeviceResult, Health};
use nearflash_units::index;

use super::Mirrors;
use crate::job::{Job, Stage};
use crate::mutant::Mutant;
use crate::table::{MirrorId, Term};

/// The health of the mirrors.
#[derive(Debug, Default)]
pub(super) struct Losses {
    /// By mirror: the health of the device that stands for it, which all cores share.
    health: Vec<Option<Arc<Health>>>,
    /// Mirrors of which writes may be lost, and were not told yet.
    lost: VecDeque<MirrorId>,
}

/// The interface to the caller.
impl Mirrors {
    /// Tells the health of the device that stands for a mirror.
    pub fn set_health(&mut self, mirror: MirrorId, health: Arc<Health>) {
        let all = &mut self.losses.health;
        if all.len() <= index(mirror.0) {
            all.resize(index(mirror.0) + 1, None);
        }
        all[index(mirror.0)] = Some(health);
        self.look_for_loss(mirror);
    }

    /// The next mirror of which answered writes may be lost. Its device is suspect.
    pub fn poll_lost(&mut self) -> Option<MirrorId> {
        self.losses.lost.pop_front()
    }
}

impl Mirrors {
    fn health(&self, mirror: MirrorId) -> Option<&Health> {
        self.losses.health.get(index(mirror.0))?.as_deref()
    }

    /// Compares the starts of a new table with the former ones.
    pub(super) fn look_for_losses(&mut self) {
        let known = (0..).map(MirrorId).zip(&self.losses.health);
        let mirrors: Vec<MirrorId> = known.filter(|(_, it)| it.is_some()).map(|it| it.0).collect();
        mirrors.into_iter().for_each(|mirror| self.look_for_loss(mirror));
    }

    fn look_for_loss(&mut self, mirror: MirrorId) {
        if self.is(Mutant::LossUntold) {
            return;
        }
        let since = self.entry(mirror).map(|entry| entry.kept_since);
        let health = self.health(mirror);
        if since.zip(health).is_some_and(|(since, health)| health.note_later_start(start(since))) {
            self.losses.lost.push_back(mirror);
        }
    }

    /// The writes that a flush covers which begins now.
    pub(super) fn covered(&self, mirror: MirrorId) -> u64 {
        self.health(mirror).map_or(0, Health::covered)
    }

    /// An operation ends. Keeps in mind whether its host has an answer that a loss of power makes untrue.
    pub(super) fn note_answer(&self, job: &Job, result: DeviceResult) {
        use DeviceOperation as Op;
        let is_done_here = matches!(job.stage, Stage::Writing | Stage::Passing(_));
        let Some(health) = self.health(job.mirror).filter(|_| result.is_done()) else { return };
        match job.request.operation {
            _ if job.is_forwarded() => {}
            Op::Flush => health.note_flushed(job.covered),
            Op::Write { durable: false, .. } | Op::WriteZeroes { .. } | Op::Deallocate
                if is_done_here =>
            {
                health.note_written(start(job.kept_since));
            }
            _ => {}
        }
    }

    /// The start in which an operation that is sent now is done.
    pub(super) fn note_start(&mut self, slot: usize) {
        let since = self.entry(self.jobs[slot].mirror).map(|entry| entry.kept_since);
        self.jobs[slot].kept_since = since.unwrap_or(Term::first());
    }
}

fn start(since: Term) -> u64 {
    since.0.into()
}
