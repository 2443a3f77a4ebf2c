//! The operator, who sees everything and changes who is primary and in sync.

use std::sync::Arc;

use nearflash_device::DeviceId;
use nearflash_units::{ByteLen, ByteOffset, index};

use super::history::Time;
use super::run::{BLOCK, BLOCKS, Event, MIRRORS, NODES, PRIMARY_FACES, REPLICA_FACES, Run};
use crate::{Core, Local, MirrorEntry, MirrorId, MirrorKey, Remote, Role, Term};

/// The node that is primary at first, and the one that has the other replica.
const FIRST_PRIMARY: usize = 0;
const OTHER: usize = 1;

/// The membership of a mirror.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) term: Term,
    pub(super) members: Vec<usize>,
    pub(super) primary: usize,
    /// The primary of this term may have answered something.
    pub(super) is_open: bool,
}

/// The steps of the operator with a mirror.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Plan {
    Nothing,
    /// The other replica is given up.
    Drop,
    /// Nobody is primary for so long.
    Pause(Time),
    Resume,
    /// The other replica takes over alone: it stops, drains and opens.
    Takeover,
    /// Both have stopped when all cores have these tables.
    Stopping,
    Opening,
}

impl Run {
    pub(super) fn begin_operator(&mut self) {
        for mirror in 0..MIRRORS {
            let members = vec![FIRST_PRIMARY, OTHER];
            let primary = FIRST_PRIMARY;
            self.records.push(Record { term: Term(1), members, primary, is_open: true });
            let pause = self.random.below(2_500_000_000);
            let plan = match self.random.below(5) {
                0 => Plan::Nothing,
                1 => Plan::Drop,
                2 => Plan::Pause(pause),
                _ => Plan::Takeover,
            };
            self.plans.push(plan);
            (0..NODES).for_each(|node| self.publish(node, mirror, false));
            // A pause that comes late leaves its traces until the end.
            let span = if matches!(plan, Plan::Pause(_)) { 25_000_000 } else { 12_000_000 };
            let time = 300_000 + self.random.below(span);
            self.later(time, Event::Operator(mirror));
        }
    }

    /// Whether all cores know all mirrors.
    pub(super) fn has_begun(&self) -> bool {
        let first_of_last = u64::from(MIRRORS - 1) * NODES as u64 + 1;
        self.versions.iter().flatten().all(|(seen, _)| *seen >= first_of_last)
    }

    /// Gives a node's cores a table, each at a time of its own.
    fn publish(&mut self, node: usize, mirror: u32, is_stopped: bool) {
        let entry = self.entry_of(node, mirror, is_stopped);
        self.tables[node] = self.tables[node].with(MirrorId(mirror), Some(entry));
        let table = Arc::new(self.tables[node].clone());
        self.count("tables");
        let version = self.counts["tables"];
        for core in 0..self.nodes[node].len() {
            let delay = self.random.below(400_000);
            let (_, last) = &mut self.versions[node][core];
            *last = (self.now + delay).max(*last + 1);
            let time = *last;
            self.later(time, Event::Table((node, core), table.clone(), version));
        }
    }

    fn entry_of(&self, node: usize, mirror: u32, is_stopped: bool) -> MirrorEntry {
        let record = &self.records[index(mirror)];
        let role = match (node == record.primary, record.members.contains(&node)) {
            _ if is_stopped => Role::Nobody,
            (true, _) => Role::Primary,
            (false, true) => Role::Secondary,
            (false, false) => Role::Elsewhere,
        };
        let face = |base: u32, node: usize| {
            DeviceId(base + u32::try_from(node).expect("they are few") * MIRRORS + mirror)
        };
        let start = ByteOffset(u64::from(mirror) * BLOCKS * BLOCK);
        let local = Local { device: DeviceId(0), start, volatile_cache: true };
        let other = record.members.iter().copied().find(|other| *other != node);
        let remote =
            |other| Remote { device: face(REPLICA_FACES, other), session: 7, volatile_cache: true };
        let cores = u32::try_from(self.nodes[node].len()).expect("they are few");
        MirrorEntry {
            key: MirrorKey { volume: [1; 16], number: mirror },
            term: record.term,
            len: ByteLen(BLOCKS * BLOCK),
            role,
            owner: Core(u16::try_from(mirror % cores).expect("they are few")),
            local: (node <= OTHER).then_some(local),
            remote: other.filter(|_| role == Role::Primary).map(remote),
            primary: (node != record.primary).then(|| face(PRIMARY_FACES, record.primary)),
            session: 7,
            zeroes: true,
            deallocates: false,
        }
    }

    /// The next step.
    pub(super) fn operate(&mut self, mirror: u32) {
        let at = index(mirror);
        let mut again = None;
        let plan = self.plans[at];
        match plan {
            Plan::Nothing => {}
            Plan::Drop => {
                self.count("replicas dropped");
                self.records[at].term.0 += 1;
                self.records[at].members = vec![FIRST_PRIMARY];
                (0..NODES).for_each(|node| self.publish(node, mirror, false));
            }
            Plan::Pause(pause) => {
                self.count("pauses");
                (0..NODES).for_each(|node| self.publish(node, mirror, true));
                self.plans[at] = Plan::Resume;
                again = Some(pause);
            }
            Plan::Resume => {
                self.records[at].term.0 += 1;
                (0..NODES).for_each(|node| self.publish(node, mirror, false));
            }
            Plan::Takeover => {
                self.count("takeovers");
                self.publish(FIRST_PRIMARY, mirror, true);
                self.publish(OTHER, mirror, true);
                self.plans[at] = Plan::Stopping;
                again = Some(10_000);
            }
            Plan::Stopping if !self.has_stopped(mirror) => again = Some(20_000),
            Plan::Stopping => {
                self.plans[at] = Plan::Opening;
                let record = &mut self.records[at];
                (record.primary, record.members, record.is_open) = (OTHER, vec![OTHER], true);
                record.term.0 += 1;
                (0..NODES).for_each(|node| self.publish(node, mirror, false));
            }
            Plan::Opening => {}
        }
        if let Some(delay) = again {
            self.later(self.now + delay, Event::Operator(mirror));
        }
    }

    /// Whether no core of the two is primary or secondary any more, no read is under way, and the other
    /// one has applied what it accepted.
    fn has_stopped(&mut self, mirror: u32) -> bool {
        let id = MirrorId(mirror);
        let is_out = |node: usize| {
            self.nodes[node]
                .iter()
                .all(|core| core.role(id).is_some_and(|(role, _)| role == Role::Nobody))
        };
        let is_drained = self.nodes[OTHER].iter().all(|core| core.is_drained(id));
        let reads = self.reads.get(&(FIRST_PRIMARY, mirror)).copied().unwrap_or(0);
        let is_ready = is_out(FIRST_PRIMARY) && is_out(OTHER) && reads == 0;
        if is_ready && !is_drained {
            self.count("takeovers that waited for what was accepted");
        }
        is_ready && is_drained
    }
}
