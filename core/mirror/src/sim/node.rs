//! A node of the simulation: its cores, its membership, its clock; and its deaths.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use nearflash_device::{DeviceId, Health, MirrorKey};
use nearflash_units::{ByteLen, ByteOffset, Nanos, index};

use super::history::Time;
use super::planner::Places;
use super::pulses::node_key;
use super::store::Call;
use super::world::{Copy, Device};
use super::{
    At, BLOCK, BLOCKS, Event, LAST_OP, MICRO, MILLI, MIRRORS, PRIMARY_FACES, REPLICA_FACES, Run,
    mirror_key,
};
use crate::membership::{
    Action, Known, Membership, MirrorConfig, Note, NoteVerdict, RemoteView, Replica, Scope,
    SliceState, View,
};
use crate::mutant::Mutant;
use crate::{
    Core, Heartbeats, Local, MirrorEntry, MirrorId, MirrorTable, Mirrors, REMOTES_MAX, Role,
    Written,
};

/// The time between two looks at a node that leaves.
const LEAVE_PERIOD: Time = MILLI;

/// The time after which a node ends although it has not handed its mirrors over.
const LEAVE_MAX: Time = 5_000 * MILLI;

#[derive(Debug)]
pub(super) struct Node {
    pub(super) is_up: bool,
    /// It was asked to end.
    pub(super) is_stopping: bool,
    /// Its hosts begin nothing any more.
    pub(super) is_closed: bool,
    /// The number of the process.
    pub(super) life: u64,
    pub(super) core_count: u16,
    pub(super) cores: Vec<Mirrors>,
    /// By mirror: whether answered writes may be lost.
    pub(super) health: Vec<Arc<Health>>,
    pub(super) membership: Option<Membership>,
    pub(super) table: MirrorTable,
    pub(super) views: BTreeMap<u32, View>,
    /// By core: when the last message of the control plane arrives there.
    mail: Vec<Time>,
    pub(super) timeouts: Vec<Option<Time>>,
    timeout: Option<Time>,
    /// By mirror and session: what cores have told of their writes, and how many have not yet.
    scopes: BTreeMap<(MirrorId, u32), (Written, usize)>,
    /// Publications that not every core has.
    shown: VecDeque<(u64, usize)>,
    pub(super) paused_until: Time,
    /// By core: until when it does not turn.
    pub(super) stalled_until: Vec<Time>,
    /// By core: its turns, as far as anybody looked at them.
    pub(super) turns: Vec<u64>,
    pub(super) heartbeats: Heartbeats,
    /// The clock is fast by so many parts of a thousand.
    rate: u64,
    pub(super) device: Device,
    /// The last copy of the device.
    pub(super) copy: Option<Copy>,
    /// When the last note is on the device.
    noted_at: Time,
    pub(super) incarnation: u64,
    pub(super) power: u64,
    /// It has died by a loss of power.
    pub(super) has_lost_power: bool,
    /// By mirror: where the replicas are, as far as the cores know.
    pub(super) places: BTreeMap<u32, Places>,
    /// By mirror: the places that the membership knows, with the records of that time.
    pub(super) told: BTreeMap<u32, (Places, Known)>,
    /// The mirrors that it knows to be gone.
    pub(super) gone: BTreeSet<u32>,
    /// When the last operation of the device ends.
    pub(super) busy_until: Time,
}

impl Node {
    pub(super) fn new(core_count: u16, rate: u64) -> Self {
        Self {
            is_up: false,
            is_stopping: false,
            is_closed: false,
            life: 0,
            core_count,
            cores: Vec::new(),
            health: Vec::new(),
            membership: None,
            table: MirrorTable::new(),
            views: BTreeMap::new(),
            mail: Vec::new(),
            timeouts: Vec::new(),
            timeout: None,
            scopes: BTreeMap::new(),
            shown: VecDeque::new(),
            paused_until: 0,
            stalled_until: Vec::new(),
            turns: Vec::new(),
            heartbeats: Heartbeats::default(),
            rate,
            device: Device::default(),
            copy: None,
            noted_at: 0,
            incarnation: 0,
            power: 1,
            has_lost_power: false,
            places: BTreeMap::new(),
            told: BTreeMap::new(),
            gone: BTreeSet::new(),
            busy_until: 0,
        }
    }

    /// Its clock.
    pub(super) fn clock(&self, now: Time) -> Nanos {
        Nanos(1_000_000_000 + now + now / 1000 * self.rate)
    }

    /// When its clock shows this time.
    pub(super) fn real(&self, clock: Nanos) -> Time {
        clock.0.saturating_sub(1_000_000_000) / (1000 + self.rate) * 1000 + 1001
    }

    /// Whether the process that the element counts on has ended.
    pub(super) fn has_crashed_since(&self, incarnation: u64) -> bool {
        !self.is_up || self.incarnation != incarnation
    }

    pub(super) fn has_lost_power_since(&self, incarnation: u64) -> bool {
        self.has_lost_power || self.power > incarnation
    }

    /// A new process has shown nothing.
    fn forget_views(&mut self) {
        self.heartbeats = Heartbeats::default();
        (self.timeout, self.views) = (None, BTreeMap::new());
        self.shown.clear();
        self.scopes.clear();
    }
}

impl Run {
    /// Starts a process, when the store is there and nothing of the last one is under way.
    pub(super) fn start(&mut self, node: usize) {
        let busy_until = self.nodes[node].busy_until;
        let waits = busy_until >= self.now && self.mutant != Some(Mutant::GhostWrites);
        if self.nodes[node].is_up {
            return;
        }
        if waits || self.now < self.store.unreachable[node] {
            let at = self.now + 10 * MILLI;
            return self.later(at, Event::Start(node));
        }
        self.restore_slice(node);
        if !self.may_use_slice(node) {
            let at = self.now + 50 * MILLI;
            return self.later(at, Event::Start(node));
        }
        self.answered.retain(|(known, _), _| *known != node);
        let mutant = self.mutant;
        let rate_now = self.nodes[node].clock(self.now);
        let it = &mut self.nodes[node];
        (it.is_up, it.is_stopping, it.is_closed) = (true, false, false);
        it.life += 1;
        it.incarnation += 1;
        if std::mem::take(&mut it.has_lost_power) {
            it.power = it.incarnation;
        }
        it.table = MirrorTable::new();
        let shared = Arc::new(it.table.clone());
        it.health = (0..MIRRORS).map(|_| Arc::default()).collect();
        let health = it.health.clone();
        let core = |core| {
            let mut mirrors = Mirrors::new(Core(core), shared.clone());
            mirrors.mutant = mutant;
            for (mirror, health) in (0..).map(MirrorId).zip(&health) {
                mirrors.set_health(mirror, Arc::clone(health));
            }
            mirrors
        };
        it.cores = (0..it.core_count).map(core).collect();
        it.mail = vec![self.now; it.cores.len()];
        it.timeouts = vec![None; it.cores.len()];
        (it.stalled_until, it.turns) = (vec![0; it.cores.len()], vec![0; it.cores.len()]);
        it.forget_views();
        let sharing = self.sharing();
        let current = (0..).zip(self.store.places.iter().cloned()).collect();
        let it = &mut self.nodes[node];
        it.places = current;
        it.told.clear();
        it.gone.clone_from(&self.store.removed);
        if node < sharing {
            let (incarnation, power) = (it.incarnation, it.power);
            let slice = SliceState { slice: node_key(node), incarnation, power };
            let run = it.life;
            let mut membership = Membership::new(node_key(node), run, vec![slice], rate_now);
            membership.mutant = mutant;
            it.membership = Some(membership);
            self.store.slices[node] = incarnation;
            // It may hear of other nodes before it hears of its mirrors.
            let late = if self.random.below(3) == 0 { 300 * MILLI } else { MILLI };
            let at = self.now + self.random.below(late);
            self.later(at, Event::Learn(node, run));
            for other in (0..sharing).filter(|other| *other != node) {
                self.connect_pulse(node, other);
                self.later(self.now + 20 * MILLI, Event::PulseConnect(other, node));
            }
        } else {
            for mirror in 0..MIRRORS {
                let known = self.store.records[index(mirror)].clone();
                self.watched(node, mirror, known);
            }
        }
    }

    /// The slice of a node is restored from a copy of its last run, if the node is out of sync.
    fn restore_slice(&mut self, node: usize) {
        let is_out = |(places, known): (&Places, &Known)| {
            let own = places.list.iter().find(|(_, home)| *home == node);
            own.is_none_or(|(ordinal, _)| known.record.element(*ordinal).is_none())
        };
        let it = &self.nodes[node];
        let is_of_last_run =
            it.copy.as_ref().is_some_and(|it| it.incarnation == self.nodes[node].incarnation);
        let mut mirrors = self.store.places.iter().zip(&self.store.records);
        let may_happen = self.restores && !self.store.has_older_state() && !self.may_be_added(node);
        if !may_happen || !is_of_last_run || !mirrors.all(is_out) {
            return;
        }
        let it = &mut self.nodes[node];
        let copy = it.copy.take();
        if copy.is_some_and(|copy| it.device.restore(&copy)) {
            self.count("slices restored");
        }
    }

    /// Compares what the slice knows with the records, as a start does.
    fn may_use_slice(&mut self, node: usize) -> bool {
        for (mirror, places) in (0..).zip(&self.store.places) {
            let Some((ordinal, _)) = places.list.iter().find(|(_, home)| *home == node) else {
                continue;
            };
            let record = &self.store.records[index(mirror)].record;
            let note = self.nodes[node].device.notes.get(&mirror);
            let verdict = Note::verdict(note, *ordinal, record);
            if verdict != NoteVerdict::Good {
                if !self.store.is_older {
                    let found = format!("{verdict:?}: {note:?} and {record:?}");
                    self.wrong(format!("node {node} does not start: mirror {mirror}: {found}"));
                }
                self.count("starts refused");
                return false;
            }
        }
        true
    }

    /// A copy is made of the slice of a node that runs.
    pub(super) fn copy_slice(&mut self, node: usize) {
        // One from long ago lacks more.
        let keeps = self.random.below(8) > 0;
        let it = &mut self.nodes[node];
        let has_one = it.copy.as_ref().is_some_and(|copy| copy.incarnation == it.incarnation);
        if it.is_up && !(keeps && has_one) {
            it.copy = Some(it.device.copy(it.incarnation));
        }
    }

    /// Notes are on the device.
    pub(super) fn noted(&mut self, node: usize, notes: &[(MirrorKey, Note)]) {
        let mutant = self.mutant;
        for (key, mut note) in notes.iter().copied() {
            if mutant == Some(Mutant::TermsForgotten) {
                note.term = crate::Term(0);
            }
            self.nodes[node].device.notes.insert(key.number, note);
        }
        self.with_membership(node, |membership| membership.handle_noted(notes));
    }

    /// A process learns of its mirrors.
    pub(super) fn learn(&mut self, node: usize) {
        let current = (0..).zip(self.store.places.iter().cloned()).collect();
        self.nodes[node].places = current;
        let known = |mirror: usize| self.store.records[mirror].clone();
        let told = (0..).zip(self.store.places.iter().cloned());
        let told = told.map(|(mirror, places)| (mirror, (places, known(index(mirror))))).collect();
        self.nodes[node].told = told;
        self.nodes[node].gone.clone_from(&self.store.removed);
        self.tell_membership(node);
        let shown = if self.has_planner { MIRRORS } else { 0 };
        for mirror in 0..shown {
            self.watched(node, mirror, self.store.records[index(mirror)].clone());
        }
    }

    /// Gives the membership the mirrors that it has been told of.
    pub(super) fn tell_membership(&mut self, node: usize) {
        let it = &self.nodes[node];
        let (told, gone) = (&it.told, &it.gone);
        let own =
            told.iter().filter(|(mirror, (places, _))| places.has(node) && !gone.contains(mirror));
        let note = |mirror: &u32| it.device.notes.get(mirror).copied();
        let configs = own.map(|(mirror, (places, known))| MirrorConfig {
            note: note(mirror),
            ..config(*mirror, places, known)
        });
        let configs = configs.collect();
        self.with_membership(node, |membership| membership.set_mirrors(configs));
    }

    /// The process dies; by a loss of power, its device forgets what was not flushed.
    pub(super) fn kill(&mut self, node: usize, by_power: bool) {
        if !self.nodes[node].is_up {
            return;
        }
        self.count(if by_power { "losses of power" } else { "kills" });
        let it = &mut self.nodes[node];
        it.is_up = false;
        it.cores.clear();
        it.membership = None;
        it.paused_until = 0;
        if by_power {
            it.has_lost_power = true;
            it.busy_until = 0;
            self.devices_epoch[node] += 1;
            let device = &mut self.nodes[node].device;
            for block in std::mem::take(&mut device.torn_by_power) {
                *self.counts.entry("repairs that were torn").or_default() += 1;
                device.scratched.remove(&block);
                device.cell(block).tear();
            }
            for cell in self.nodes[node].device.blocks.values_mut() {
                let lost = cell.log.len() - cell.durable;
                let kept = self.random.below(lost as u64 + 1);
                cell.log.truncate(cell.durable + index(u32::try_from(kept).expect("few")));
            }
        }
        let sharing = self.sharing();
        for other in (0..sharing).filter(|other| node < sharing && *other != node) {
            if by_power {
                self.pulses[node][other].lose();
            } else {
                self.end_pulse(node, other, true);
            }
            self.end_pulse(other, node, false);
        }
        self.links_die(node);
        self.hosts_lose(node);
        self.excuse();
    }

    /// The process is asked to end: it hands its mirrors over first.
    pub(super) fn stop(&mut self, node: usize) {
        if !self.nodes[node].is_up || self.nodes[node].is_stopping {
            return;
        }
        self.count("nodes that left");
        let (life, until) = (self.nodes[node].life, self.now + LEAVE_MAX);
        self.nodes[node].is_stopping = true;
        self.with_membership(node, Membership::leave);
        self.later(self.now + LEAVE_PERIOD, Event::Leave(node, life, until));
    }

    /// It ends when it has handed its mirrors over, and the operations of its hosts have ended.
    pub(super) fn leave(&mut self, node: usize, until: Time) {
        let it = &mut self.nodes[node];
        let has_left = it.membership.as_ref().is_some_and(Membership::has_left);
        it.is_closed |= has_left;
        // Requests of others to a process that has ended are lost paths.
        let may_end = !self.is_orderly || self.now > LAST_OP + 1_000 * MILLI;
        let has_ended = has_left && !self.has_open_ops(node) || self.now > until;
        if has_ended && may_end {
            let back = self.now + 20 * MILLI + self.random.below(600 * MILLI);
            self.later(back, Event::Start(node));
            return self.kill(node, false);
        }
        let life = self.nodes[node].life;
        self.later(self.now + LEAVE_PERIOD, Event::Leave(node, life, until));
    }

    pub(super) fn pause(&mut self, node: usize, span: Time) {
        self.count("pauses");
        self.nodes[node].paused_until = self.now + span;
    }

    pub(super) fn watched(&mut self, node: usize, mirror: u32, known: Known) {
        if !self.nodes[node].is_up || self.nodes[node].gone.contains(&mirror) {
            return;
        }
        if self.nodes[node].places[&mirror].has(node) {
            let key = mirror_key(mirror);
            return self.with_membership(node, |it| it.handle_record(key, known));
        }
        let view = View {
            term: known.record.term,
            role: Role::Elsewhere,
            primary: known.record.primary,
            remotes: [None; REMOTES_MAX],
            needs_lease: false,
            session: 0,
            stay: 0,
            kept_since: known.record.kept_since,
        };
        let is_later = self.nodes[node].views.get(&mirror).is_none_or(|it| it.term < view.term);
        if is_later {
            self.show(node, 0, vec![(mirror_key(mirror), view)]);
        }
    }

    /// Lets the membership of a node do something, and takes all that results.
    pub(super) fn with_membership(&mut self, node: usize, act: impl FnOnce(&mut Membership)) {
        let clock = self.nodes[node].clock(self.now);
        let Some(membership) = self.nodes[node].membership.as_mut() else { return };
        membership.set_now(clock);
        act(membership);
        while let Some(action) =
            self.nodes[node].membership.as_mut().and_then(|it| it.poll_action())
        {
            self.act(node, action);
        }
        let it = &mut self.nodes[node];
        let Some(at) = it.membership.as_ref().map(|membership| membership.poll_timeout()) else {
            return;
        };
        let at = it.real(at).max(self.now + 1);
        if it.timeout.is_none_or(|known| known > at) {
            it.timeout = Some(at);
            let life = it.life;
            self.later(at, Event::MembershipTimeout(node, life));
        }
    }

    pub(super) fn membership_timeout(&mut self, node: usize) {
        self.nodes[node].timeout = None;
        let is_stalled = self.has_stalls && self.look_at_cores(node);
        self.with_membership(node, |membership| {
            membership.set_stalled(is_stalled);
            membership.handle_timeout();
        });
    }

    fn act(&mut self, node: usize, action: Action) {
        let life = self.nodes[node].life;
        let (incarnation, epoch) = (self.nodes[node].incarnation, self.store.epoch);
        match action {
            Action::Send(to, pulse) => self.pulse(node, to[0].into(), pulse),
            Action::Publish(number, views) => self.show(node, number, views),
            Action::Note(_, notes) => {
                let is_slow = self.random.below(20) == 0;
                let longest = if is_slow { 20 * MILLI } else { 400 * MICRO };
                let delay = self.random.below(longest);
                let last = &mut self.nodes[node].noted_at;
                *last = (self.now + delay).max(*last + 1);
                let at = *last;
                self.later(at, Event::Noted(node, life, notes));
            }
            Action::Drain(number, key) => {
                let at = self.now + self.random.below(100 * MICRO);
                self.later(at, Event::Drain(node, life, number, key.number));
            }
            Action::Leases(leases) => {
                let leases: Vec<_> =
                    leases.iter().map(|(key, until)| (MirrorId(key.number), *until)).collect();
                for core in 0..self.nodes[node].cores.len() {
                    let at = self.mail_time(node, core);
                    self.later(at, Event::Leases((node, core), life, leases.clone()));
                }
            }
            Action::Read(key, number) => self.call(Call {
                node,
                life,
                mirror: key.number,
                number,
                proposal: None,
                incarnation,
                epoch,
            }),
            Action::Propose(key, number, proposal) => self.call(Call {
                node,
                life,
                mirror: key.number,
                number,
                proposal: Some(proposal),
                incarnation,
                epoch,
            }),
            Action::EndHosts(..) => {
                panic!("no clock stands still here, and a pause is no such case")
            }
            Action::Resync(key, session, Scope::All) => {
                self.copy(node, MirrorId(key.number), session, None);
            }
            Action::Resync(key, session, Scope::Written) => {
                self.count("copies of what was written");
                let (mirror, cores) = (MirrorId(key.number), self.nodes[node].cores.len());
                self.nodes[node].scopes.insert((mirror, session), (Written::default(), cores));
                for core in 0..cores {
                    let at = self.mail_time(node, core);
                    self.later(at, Event::TellWritten((node, core), life, mirror, session));
                }
            }
        }
    }

    /// A core tells what it has written. When all have, the copy begins.
    pub(super) fn tell_written(&mut self, at: At, mirror: MirrorId, session: u32) {
        let it = &mut self.nodes[at.0];
        let Some((scope, left)) = it.scopes.get_mut(&(mirror, session)) else { return };
        scope.unite(&it.cores[at.1].written(mirror));
        *left -= 1;
        if *left == 0 {
            let scope = it.scopes.remove(&(mirror, session)).map(|(scope, _)| scope);
            self.copy(at.0, mirror, session, scope);
        }
    }

    fn copy(&mut self, node: usize, mirror: MirrorId, session: u32, scope: Option<Written>) {
        let life = self.nodes[node].life;
        for core in 0..self.nodes[node].cores.len() {
            let at = self.mail_time(node, core);
            self.later(at, Event::Copy((node, core), life, mirror, session, scope.clone()));
        }
    }

    /// When the next message of the control plane arrives at a core.
    fn mail_time(&mut self, node: usize, core: usize) -> Time {
        let longest = if self.random.below(20) == 0 { 20 * MILLI } else { 200 * MICRO };
        let delay = self.random.below(longest);
        let last = &mut self.nodes[node].mail[core];
        *last = (self.now + delay).max(*last + 1);
        *last
    }

    /// Gives a node's cores a table, each at a time of its own.
    pub(super) fn show(&mut self, node: usize, number: u64, views: Vec<(MirrorKey, View)>) {
        for (key, view) in views {
            self.nodes[node].views.insert(key.number, view);
            let entry = self.entry_of(node, key.number, view);
            let it = &mut self.nodes[node];
            if !it.gone.contains(&key.number) {
                it.table = it.table.with(MirrorId(key.number), Some(entry));
            }
        }
        self.send_table(node, number);
    }

    /// Gives a node's cores its table.
    pub(super) fn send_table(&mut self, node: usize, number: u64) {
        self.count("tables");
        let (life, cores) = (self.nodes[node].life, self.nodes[node].cores.len());
        let table = Arc::new(self.nodes[node].table.clone());
        self.nodes[node].shown.push_back((number, cores));
        for core in 0..cores {
            let at = self.mail_time(node, core);
            self.later(at, Event::Table((node, core), life, table.clone(), number));
        }
    }

    pub(super) fn table_shown(&mut self, at: At, table: Arc<MirrorTable>, number: u64) {
        self.with_core(at, |core| core.set_table(table));
        let it = &mut self.nodes[at.0];
        let is_open = |(shown, left): &&mut (u64, usize)| *shown == number && *left > 0;
        if let Some((_, left)) = it.shown.iter_mut().find(is_open) {
            *left -= 1;
        }
        let done = it.shown.iter().take_while(|(_, left)| *left == 0).count();
        let last = it.shown.drain(..done).map(|(number, _)| number).max();
        let life = it.life;
        if let Some(number) = last {
            self.later(self.now + 20 * MICRO, Event::Shown(at.0, life, number));
        }
    }

    pub(super) fn drain(&mut self, node: usize, number: u64, mirror: u32) {
        let id = MirrorId(mirror);
        let turns = self.nodes[node].stalled_until.iter().all(|until| *until <= self.now);
        if turns && self.nodes[node].cores.iter().all(|core| core.is_drained(id)) {
            return self.with_membership(node, |membership| membership.handle_drained(number));
        }
        self.count("changes that waited for the device");
        let life = self.nodes[node].life;
        self.later(self.now + 100 * MICRO, Event::Drain(node, life, number, mirror));
    }

    fn entry_of(&self, node: usize, mirror: u32, view: View) -> MirrorEntry {
        let face = |base: u32, node: usize| {
            DeviceId(base + u32::try_from(node).expect("they are few") * MIRRORS + mirror)
        };
        let start = ByteOffset(u64::from(mirror) * BLOCKS * BLOCK);
        let local = Local { device: DeviceId(0), start, volatile_cache: true };
        let places = &self.nodes[node].places[&mirror];
        let remote = |it: RemoteView| Some(it.on(face(REPLICA_FACES, places.home(it.ordinal)?)));
        let primary = places.home(view.primary);
        let is_of_replica = matches!(view.role, Role::Primary | Role::Secondary);
        let role = if is_of_replica && !places.has(node) { Role::Nobody } else { view.role };
        MirrorEntry {
            key: mirror_key(mirror),
            term: view.term,
            len: ByteLen(BLOCKS * BLOCK),
            role,
            owner: Core(u16::try_from(mirror % u32::from(self.nodes[node].core_count)).expect("")),
            local: places.has(node).then_some(local),
            remotes: view.remotes.map(|view| view.and_then(remote)),
            primary: primary.filter(|it| *it != node).map(|it| face(PRIMARY_FACES, it)),
            session: view.session,
            needs_lease: view.needs_lease,
            stay: view.stay,
            kept_since: view.kept_since,
            zeroes: true,
            deallocates: false,
        }
    }
}

fn config(mirror: u32, places: &Places, known: &Known) -> MirrorConfig {
    let replica = |(ordinal, node): &(u32, usize)| {
        let key = node_key(*node);
        Replica { ordinal: *ordinal, slice: key, node: key }
    };
    let Places { revision, list, leaving, .. } = places;
    let replicas = list.iter().map(replica).collect();
    let (key, places, known) = (mirror_key(mirror), *revision, known.clone());
    MirrorConfig { key, replicas, leaving: *leaving, places, known, note: None }
}
