//! The run of one seed: the agenda, and the cores.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::device::CopyBuffers;
use super::node::Node;
use super::pulses::PulseLink;
use super::store::Store;
use super::world::Random;
use super::{
    At, BLOCK, BLOCKS, CALM, Counts, Event, FORWARDED, LAST_OP, MICRO, MILLI, MIRRORS, NODES,
    REPLICA_NODES, REST, Run, Time, mirror_key,
};
use crate::membership::Token;
use crate::mutant::Mutant;
use crate::{Core, DigestKey, MirrorId, MirrorMessage, Mirrors, Role, Written};

impl Run {
    pub(super) fn new(seed: u64, mutant: Option<Mutant>, has_planner: bool) -> Self {
        let mut random = Random::new(seed);
        let mut node = |_| {
            let cores = 1 + u16::try_from(random.below(3)).expect("it is small");
            Node::new(cores, random.below(10))
        };
        let nodes = (0..NODES).map(&mut node).collect();
        let lossy = if random.below(3) == 0 { 0 } else { 1 + random.below(8) };
        let errors = [0, 0, 1, 6][usize::try_from(random.below(4)).expect("it is small")];
        let scratches = if random.below(4) == 0 { 10 } else { 0 };
        let slow = if random.below(3) == 0 { 25 } else { 2 };
        let late = if random.below(3) == 0 { 20 } else { 2 };
        let sharing = if has_planner { NODES } else { REPLICA_NODES };
        let pulses = |_| (0..sharing).map(|_| PulseLink::default()).collect();
        Self {
            random,
            now: 0,
            agenda: BTreeMap::new(),
            events: 0,
            mutant,
            has_planner,
            has_moves: false,
            has_removals: false,
            has_stalls: false,
            stall: None,
            nodes,
            store: Store::default(),
            pulses: (0..sharing).map(pulses).collect(),
            cuts: BTreeMap::new(),
            mail: BTreeMap::new(),
            devices_epoch: vec![0; NODES],
            links: BTreeMap::new(),
            sent: Vec::new(),
            ops: Vec::new(),
            buffers: BTreeMap::new(),
            copies: 0,
            orders: BTreeMap::new(),
            uses: BTreeMap::new(),
            open: 0,
            blocks: BTreeMap::new(),
            answered: BTreeMap::new(),
            counts: Counts::new(),
            problem: None,
            lossy,
            errors,
            scratches,
            scratched_only: None,
            slow,
            late,
            is_cruel: seed % 2 == 1,
            restores: seed % 3 != 2,
            store_restores: if seed % 4 == 1 && !has_planner { 2 } else { 0 },
            is_orderly: false,
            is_dark: false,
            tears: false,
            power_at: 0,
            is_traced: std::env::var_os("SIM_TRACE").is_some(),
        }
    }

    /// The run of a seed in which a node leaves, and nothing fails.
    pub(super) fn orderly(seed: u64) -> Self {
        let mut run = Self::new(seed, None, false);
        (run.lossy, run.errors, run.scratches, run.slow, run.late) = (0, 0, 0, 0, 0);
        (run.is_cruel, run.is_orderly) = (false, true);
        (run.restores, run.store_restores) = (false, 0);
        run
    }

    /// The run of a seed in which some answers come from a store that was restored from an earlier snapshot.
    pub(super) fn with_older_store(seed: u64, mutant: Option<Mutant>) -> Self {
        let mut run = Self::new(seed, mutant, false);
        (run.store.older, run.store_restores) = (150, 0);
        run
    }

    /// The run of a seed in which volumes are removed under load.
    pub(super) fn removing(seed: u64, mutant: Option<Mutant>) -> Self {
        Self { has_removals: true, ..Self::new(seed, mutant, false) }
    }

    /// The run of a seed in which replicas move to other nodes.
    pub(super) fn moving(seed: u64, mutant: Option<Mutant>) -> Self {
        Self { has_moves: true, ..Self::new(seed, mutant, true) }
    }

    /// The run of a seed in which cores do not turn for a while; in every second seed, nothing else fails.
    pub(super) fn stalling(seed: u64, mutant: Option<Mutant>) -> Self {
        let mut run = Self { has_stalls: true, ..Self::new(seed, mutant, false) };
        if seed.is_multiple_of(2) {
            (run.lossy, run.errors, run.scratches, run.slow, run.late) = (0, 0, 0, 0, 0);
        }
        run
    }

    /// The run of a seed in which blocks of one node cannot be read, and nothing else fails.
    pub(super) fn scratched(seed: u64) -> Self {
        let mut run = Self::orderly(seed);
        (run.scratches, run.scratched_only) = (30, Some(run.draw(REPLICA_NODES)));
        run
    }

    /// A run with scratched blocks in which the node loses its power while it writes such blocks back.
    pub(super) fn torn(seed: u64, mutant: Option<Mutant>) -> Self {
        let mut run = Self::scratched(seed);
        (run.mutant, run.tears) = (mutant, true);
        run
    }

    /// The run of a seed in which both replicas lose their power at the same time, or one of them after the other
    /// one is out of sync.
    pub(super) fn dark(seed: u64, mutant: Option<Mutant>) -> Self {
        let mut run = Self::orderly(seed);
        (run.mutant, run.is_dark) = (mutant, true);
        run
    }

    fn begin_dark(&mut self, are_both_there: bool) {
        let last = self.draw(REPLICA_NODES);
        let at = 5_000 * MILLI + self.random.below(50 * MILLI);
        let out = if are_both_there { at + self.random.below(MILLI) } else { 1_000 * MILLI };
        for (node, at, by_power) in [(last, at, true), (1 - last, out, are_both_there)] {
            self.later(at, Event::Kill(node, by_power));
            self.later(at.max(6_000 * MILLI), Event::Start(node));
        }
    }

    /// A node loses its power while an operation that begins now is under way at its device, if it has had its
    /// power for a second.
    pub(super) fn lose_power_soon(&mut self, node: usize) {
        if self.now < self.power_at {
            return;
        }
        let at = self.now + self.random.below(20 * MICRO);
        let back = at + 20 * MILLI + self.random.below(600 * MILLI);
        self.power_at = back + 1_000 * MILLI;
        self.later(at, Event::Kill(node, true));
        self.later(back, Event::Start(node));
    }

    pub(super) fn run(mut self) -> Result<Counts, String> {
        self.begin();
        while let Some(((time, _), event)) = self.agenda.pop_first() {
            if time > REST {
                break;
            }
            self.now = time;
            if !matches!(event, Event::Table(..)) {
                self.trace(|| format!("{event:?}"));
            }
            self.handle(event);
            if let Some(problem) = self.problem.take() {
                return Err(format!("at {time}: {problem}"));
            }
        }
        self.check_rest()?;
        Ok(self.counts)
    }

    fn begin(&mut self) {
        for _ in 0..MIRRORS {
            let primary = u32::try_from(self.random.below(2)).expect("it is small");
            self.store.add(primary);
        }
        (0..NODES).for_each(|node| self.start(node));
        (0..8).for_each(|_| self.later(MILLI, Event::NextOp));
        if self.scratched_only.is_some() {
            return;
        }
        if self.is_dark {
            let are_both_there = self.random.below(2) == 0;
            return self.begin_dark(are_both_there);
        }
        if self.is_orderly {
            let (node, at) = (self.draw(REPLICA_NODES), self.random.below(LAST_OP));
            return self.later(at, Event::Stop(node));
        }
        if self.has_stalls && self.begin_stalls() {
            return;
        }
        for _ in 0..self.random.below(6) {
            self.draw_fault();
        }
        if self.has_planner {
            self.begin_plans();
        }
        for _ in 0..if self.restores { 60 } else { 0 } {
            let (node, at) = (self.draw(REPLICA_NODES), self.random.below(CALM));
            self.later(at, Event::CopySlice(node));
        }
        if self.store_restores > 0 {
            let at = 500 * MILLI + self.random.below(CALM - 4_000 * MILLI);
            self.later(at, Event::StoreBack);
        }
        if self.has_removals {
            self.begin_removals();
        }
    }

    /// The nodes that may have replicas: the first ones.
    pub(super) fn sharing(&self) -> usize {
        if self.has_planner { NODES } else { REPLICA_NODES }
    }

    /// In half of the seeds, the process of a node dies soon after something that makes it worth while.
    pub(super) fn tempt(&mut self, node: usize, by_power: bool, one_of: u64, within: Time) {
        if self.is_cruel && !self.is_calm() && self.random.below(one_of) == 0 {
            let at = self.now + self.random.below(within);
            let back = at + 20 * MILLI + self.random.below(600 * MILLI);
            self.later(at, Event::Kill(node, by_power));
            self.later(back, Event::Start(node));
        }
    }

    fn draw_fault(&mut self) {
        let at = 100 * MILLI + self.random.below(CALM - 2500 * MILLI);
        let span = 50 * MILLI + self.random.below(2400 * MILLI);
        let sharing = self.sharing();
        let node = self.draw(sharing);
        let partner = (node + 1) % sharing;
        let other = (node + 1 + self.draw(2)) % NODES;
        let event = match self.random.below(18) {
            0..5 => {
                self.later(at + span, Event::Start(node));
                Event::Kill(node, self.random.below(3) == 0)
            }
            5..7 => Event::Pause(node, span),
            7..10 => Event::Cut(node, other, span, self.random.below(3) == 0),
            10 => {
                let both = at + self.random.below(300 * MILLI);
                let by_power = self.random.below(3) == 0;
                let back = at + self.random.below(2400 * MILLI);
                self.later(both, Event::Kill(partner, by_power));
                self.later(both + span, Event::Start(partner));
                self.later(back, Event::Start(node));
                Event::Kill(node, self.random.below(3) == 0)
            }
            11..13 => Event::StoreDown(self.draw(NODES), span),
            13 => Event::StoreDown(NODES, span),
            14..16 => Event::PulseReset(node, partner),
            _ => Event::Stop(node),
        };
        self.later(at, event);
    }

    pub(super) fn draw(&mut self, end: usize) -> usize {
        usize::try_from(self.random.below(end as u64)).expect("it is small")
    }

    pub(super) fn is_calm(&self) -> bool {
        self.now > CALM || self.stall.is_some()
    }

    pub(super) fn count(&mut self, name: &'static str) {
        *self.counts.entry(name).or_default() += 1;
    }

    /// Prints a line, when the environment asks for a trace.
    pub(super) fn trace(&self, line: impl FnOnce() -> String) {
        if self.is_traced {
            eprintln!("{} {}", self.now, line());
        }
    }

    pub(super) fn wrong(&mut self, problem: String) {
        self.problem.get_or_insert(problem);
    }

    pub(super) fn later(&mut self, time: Time, event: Event) {
        self.events += 1;
        self.agenda.insert((time.max(self.now), self.events), event);
    }

    /// The node that an event is for, and its process.
    fn target(&self, event: &Event) -> Option<(usize, Option<u64>)> {
        Some(match event {
            Event::Timeout(at, life)
            | Event::Mail(at, life, _)
            | Event::Table(at, life, ..)
            | Event::Leases(at, life, _)
            | Event::TellWritten(at, life, ..)
            | Event::Copy(at, life, ..)
            | Event::Result(at, life, ..) => (at.0, Some(*life)),
            Event::Shown(node, life, _)
            | Event::Drain(node, life, ..)
            | Event::MembershipTimeout(node, life)
            | Event::Learn(node, life)
            | Event::Leave(node, life, _)
            | Event::Noted(node, life, ..)
            | Event::Copied(node, life, ..) => (*node, Some(*life)),
            Event::StoreAnswer(call, _) => (call.node, Some(call.life)),
            Event::Pulse(_, to, ..) | Event::PulseEnd(_, to, ..) => (*to, None),
            Event::Watch(node, ..) | Event::Moved(node, ..) | Event::Gone(node, _) => (*node, None),
            Event::Follow(node, life, ..) => (*node, Some(*life)),
            Event::Arrive(sent) => (self.sent[*sent].link.to, None),
            Event::Back(sent, _) => {
                let link = self.sent[*sent].link;
                (link.at.0, Some(link.life))
            }
            _ => return None,
        })
    }

    fn handle(&mut self, event: Event) {
        if let Some((node, life)) = self.target(&event) {
            let it = &self.nodes[node];
            if life.is_some_and(|life| life != it.life) || life.is_some() && !it.is_up {
                return;
            }
            if it.paused_until > self.now {
                return self.later(it.paused_until, event);
            }
        }
        if let Some(at) = self.core_of(&event)
            && self.stalled_until(at) > self.now
        {
            return self.later(self.stalled_until(at), event);
        }
        match event {
            Event::Timeout(at, _) => {
                self.nodes[at.0].timeouts[at.1] = None;
                self.with_core(at, Mirrors::handle_timeout);
            }
            Event::Mail(at, _, message) => self.with_core(at, |core| core.handle_message(message)),
            Event::Table(at, _, table, number) => self.table_shown(at, table, number),
            Event::Leases(at, _, leases) => self.with_core(at, |core| core.set_leases(&leases)),
            Event::TellWritten(at, _, mirror, session) => self.tell_written(at, mirror, session),
            Event::Copy(at, _, mirror, session, scope) => {
                self.begin_copy(at, mirror, session, scope);
            }
            Event::Device(at, life, epoch, submission, covered) => {
                self.device_done(at, (life, epoch), submission, &covered);
            }
            Event::Shown(node, _, number) => {
                self.with_membership(node, |it| it.handle_shown(number));
            }
            Event::Drain(node, _, number, mirror) => self.drain(node, number, mirror),
            Event::MembershipTimeout(node, _) => self.membership_timeout(node),
            Event::Copied(node, _, mirror, session) => {
                let token = Token(1 + self.random.below(u64::MAX - 1));
                let key = mirror_key(mirror);
                self.with_membership(node, |it| it.handle_resynced(key, session, token));
            }
            Event::Pulse(from, to, connection, pulse) => {
                self.pulse_arrives(from, to, connection, pulse);
            }
            Event::PulseEnd(from, to, connection, is_proof) => {
                self.pulse_ended(from, to, connection, is_proof);
            }
            Event::PulseConnect(from, to) => self.connect_pulse(from, to),
            event => self.handle_of_world(event),
        }
    }

    /// Events of the store, the network, the hosts and the machines.
    fn handle_of_world(&mut self, event: Event) {
        match event {
            Event::StoreCall(call) => self.store_call(call),
            Event::StoreAnswer(call, answer) => {
                let key = mirror_key(call.mirror);
                self.with_membership(call.node, |it| it.handle_store(key, call.number, answer));
            }
            Event::Watch(_, epoch, ..) if epoch != self.store.epoch => {}
            Event::Watch(node, _, mirror, known) => self.watched(node, mirror, known),
            Event::Noted(node, _, notes) => self.noted(node, &notes),
            Event::CopySlice(node) => self.copy_slice(node),
            Event::StoreBack => self.restore_store(),
            Event::StoreForward => self.forward_store(),
            Event::Plan => self.plan(),
            Event::Move(mirror) => self.go_on_moving(mirror),
            Event::Remove(mirror) => self.remove(mirror),
            Event::Gone(node, mirror) => self.gone(node, mirror),
            Event::Moved(node, mirror, places, known) => self.moved(node, mirror, places, known),
            Event::Follow(node, _, mirror, heard) => self.follow(node, mirror, heard),
            Event::Arrive(sent) => self.arrive(sent),
            Event::Back(sent, result) => self.back(sent, result),
            Event::Claim(link) => self.try_claim(link),
            Event::Lose(link) => self.reset(link),
            Event::GiveUp(link, sent) => self.give_up(link, &sent),
            Event::NextOp => self.next_op(),
            Event::Submit(op) => self.submit(op),
            Event::Result(at, _, request, result) => self.result(at, request, result),
            Event::Start(node) => self.start(node),
            Event::Learn(node, _) => self.learn(node),
            Event::Kill(node, by_power) => self.kill(node, by_power),
            Event::Stop(node) => self.stop(node),
            Event::Leave(node, _, until) => self.leave(node, until),
            Event::Pause(node, span) => self.pause(node, span),
            Event::Stall(at, span) => self.stall(at, span),
            Event::Cut(from, to, span, is_one_way) => self.cut(from, to, span, is_one_way),
            Event::Healed(from, to) => self.healed(from, to),
            Event::StoreDown(node, span) => self.store_down(node, span),
            Event::PulseReset(from, to) => self.end_pulse(from, to, false),
            _ => unreachable!("an event of a core or of a membership"),
        }
    }

    fn begin_copy(&mut self, at: At, mirror: MirrorId, session: u32, scope: Option<Written>) {
        let mut key = DigestKey::default();
        key[..8].copy_from_slice(&self.now.to_le_bytes());
        self.with_core(at, |core| core.begin_copy(mirror, session, scope.map(Arc::new), key));
    }

    /// The store cannot be reached from a node, or from all.
    fn store_down(&mut self, node: usize, span: Time) {
        self.count("store outages");
        let nodes = if node == NODES { 0..NODES } else { node..node + 1 };
        nodes.for_each(|node| self.store.unreachable[node] = self.now + span);
    }

    /// Lets a core do something, and takes all that results.
    pub(super) fn with_core(&mut self, at: At, act: impl FnOnce(&mut Mirrors)) {
        let clock = self.nodes[at.0].clock(self.now);
        let life = self.nodes[at.0].life;
        let Some(core) = self.nodes[at.0].cores.get_mut(at.1) else { return };
        core.set_now(clock);
        act(core);
        let Self { buffers, copies, mutant, .. } = self;
        let (may_take, mutant) = (true, *mutant);
        core.copy(&mut CopyBuffers { buffers, next: copies, may_take, mutant });
        while let Some(device) = self.nodes[at.0].cores[at.1].poll_abandoned() {
            self.abandon(at, device);
        }
        while let Some(submission) = self.nodes[at.0].cores[at.1].poll_device() {
            self.submission(at, submission);
        }
        while let Some((Core(to), message)) = self.nodes[at.0].cores[at.1].poll_message() {
            let delay = self.random.below(20 * MICRO);
            let last = self.mail.entry((at.0, at.1, to.into())).or_default();
            *last = (self.now + delay).max(*last + 1);
            let time = *last;
            self.count("messages between cores");
            if matches!(message, MirrorMessage::Locked { is_held: false, .. }) {
                self.count("locks that waited");
            }
            self.later(time, Event::Mail((at.0, to.into()), life, message));
        }
        while let Some((mirror, _, side)) = self.nodes[at.0].cores[at.1].poll_failure() {
            self.count("parts that failed");
            let key = mirror_key(mirror.0);
            self.with_membership(at.0, |it| it.handle_failure(key, side));
        }
        while self.nodes[at.0].cores[at.1].poll_repaired().is_some() {
            self.count("reads repaired");
        }
        while let Some(copied) = self.nodes[at.0].cores[at.1].poll_copied() {
            self.count("copies");
            *self.counts.entry("blocks compared").or_default() += copied.compared / BLOCK;
            *self.counts.entry("blocks copied").or_default() += copied.written / BLOCK;
            let (mirror, session) = (copied.mirror.0, copied.session);
            self.later(self.now + 30 * MICRO, Event::Copied(at.0, life, mirror, session));
        }
        while let Some((id, result)) = self.nodes[at.0].cores[at.1].poll_ended() {
            match id.io.checked_sub(FORWARDED) {
                Some(sent) => self.answer(usize::try_from(sent).expect("an index"), result),
                None => self.ended(usize::try_from(id.io).expect("an index"), result),
            }
        }
        let it = &mut self.nodes[at.0];
        let Some(time) = it.cores.get(at.1).and_then(Mirrors::poll_timeout) else { return };
        let time = it.real(time).max(self.now + 1);
        if it.timeouts[at.1].is_none_or(|known| known > time) {
            it.timeouts[at.1] = Some(time);
            self.later(time, Event::Timeout(at, life));
        }
    }

    fn check_rest(&mut self) -> Result<(), String> {
        if self.open > 0 {
            let hanging: Vec<_> = self.ops.iter().filter(|op| op.is_open()).collect();
            let cores: Vec<_> = self.nodes.iter().map(|node| &node.cores).collect();
            return Err(format!("operations hang: {hanging:?} {cores:?}"));
        }
        for (node, it) in self.nodes.iter().enumerate() {
            if !it.is_up {
                return Err(format!("node {node} is down at rest"));
            }
            if !it.cores.iter().all(Mirrors::is_idle) {
                return Err(format!("node {node} is not idle at rest: {:?}", it.cores));
            }
        }
        for mirror in (0..MIRRORS).filter(|mirror| !self.store.removed.contains(mirror)) {
            let place = usize::try_from(mirror).expect("small");
            let record = &self.store.records[place].record;
            if record.in_sync.len() < REPLICA_NODES {
                let memberships: Vec<_> =
                    self.nodes.iter().filter_map(|node| node.membership.as_ref()).collect();
                return Err(format!("mirror {mirror} at rest: {record:?}: {memberships:#?}"));
            }
            let id = MirrorId(mirror);
            let primaries = self.nodes.iter().map(|node| {
                node.cores.iter().all(|core| core.role(id).is_some_and(|it| it.0 == Role::Primary))
            });
            if primaries.filter(|is_primary| *is_primary).count() != 1 {
                let memberships: Vec<_> =
                    self.nodes.iter().filter_map(|node| node.membership.as_ref()).collect();
                return Err(format!("mirror {mirror} at rest: no primary: {memberships:#?}"));
            }
            for block in u64::from(mirror) * BLOCKS..u64::from(mirror + 1) * BLOCKS {
                let homes = self.store.places[place].list.iter().map(|(_, node)| *node);
                let stamps: Vec<u64> =
                    homes.map(|node| self.nodes[node].device.cell(block).stamp()).collect();
                if stamps.windows(2).any(|pair| pair[0] != pair[1]) {
                    return Err(format!("replicas differ at rest in block {block}: {stamps:?}"));
                }
            }
        }
        Ok(())
    }
}
