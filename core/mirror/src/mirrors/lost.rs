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

use crate::job::{Job, Stage};
use crate::table::{MirrorId, MirrorTable, Term};

/// The health of the mirrors.
#[derive(Debug, Default)]
pub(super) struct Losses {
    /// By mirror: the health of the device that stands for it, which all cores share.
    health: Vec<Option<Arc<Health>>>,
    /// Mirrors of which writes may be lost, and were not told yet.
    lost: VecDeque<MirrorId>,
}

impl Losses {
    /// Tells the health of the device that stands for a mirror.
    pub(super) fn set_health(&mut self, mirror: MirrorId, health: Arc<Health>) {
        let place = index(mirror.0);
        if self.health.len() <= place {
            self.health.resize(place + 1, None);
        }
        self.health[place] = Some(health);
    }

    /// The next mirror of which answered writes may be lost. Its device is suspect.
    pub(super) fn poll(&mut self) -> Option<MirrorId> {
        self.lost.pop_front()
    }

    fn health(&self, mirror: MirrorId) -> Option<&Health> {
        self.health.get(index(mirror.0))?.as_deref()
    }

    /// Compares the starts of a new table with the former ones.
    pub(super) fn look(&mut self, table: &MirrorTable) {
        let mirrors = (0..).map(MirrorId).take(self.health.len());
        mirrors.for_each(|mirror| self.look_at(mirror, table));
    }

    /// Compares the starts of one mirror. A caller tells the health of thousands, one after the other.
    pub(super) fn look_at(&mut self, mirror: MirrorId, table: &MirrorTable) {
        let since = table.entry(mirror).map(|entry| entry.kept_since);
        let known = since.zip(self.health(mirror));
        if known.is_some_and(|(since, health)| health.note_later_start(start(since))) {
            self.lost.push_back(mirror);
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
}

fn start(since: Term) -> u64 {
    since.0.into()
}
