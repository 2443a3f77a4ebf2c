//! A working host: it connects to a controller, uses its queues, and reconnects when it lost them.

mod answers;

use nearflash_nvme::feature::{FeatureId, QueueCount};
use nearflash_nvme::property::{Configuration, offset};
use nearflash_nvme::{AdminOpcode, Command, CommandId, ControllerId, NamespaceId, Nqn, QueueId};
use nearflash_nvme_tcp::host::{CommandData, HostConfig};
use nearflash_nvme_tcp::pdu::DataAlignment;
use nearflash_units::Nanos;
use uuid::Uuid;

use crate::Dice;
use crate::history::WriteId;
use crate::host::pending::{AdminStep, Pending};
use crate::host::queue::Queue;
use crate::host::rivalry::fight;
use crate::host::worker_plan::WorkerPlan;
use crate::judge::{Asker, Checks, Io, What};
use crate::line::Fate;
use crate::machine::NodeId;
use crate::network::{LinkId, Route, Side};
use crate::node::{node_of, subsystem_of};
use crate::outside::Outside;
use crate::rivalry::{Move, Rival};
use crate::stamp::Writer;
use crate::witness::{Door, Opened, Who};
use crate::workload::{Field, Run, Workload};

/// KATO is rounded up to a multiple of this.
const KEEP_ALIVE_GRANULE: Nanos = Nanos::from_millis(100);

/// The phase of a host's life.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Life {
    /// Not connected until then.
    Away(Nanos),
    /// It is connecting its admin queue.
    Joining,
    /// It is enabling its controller.
    Preparing,
    /// It is connecting its I/O queues.
    Opening,
    Working,
    /// It does not come back.
    Gone,
}

/// The way in which a host leaves its connections.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Leaving {
    /// It closes them, like a program that exits.
    Closing,
    /// It resets them.
    Resetting,
    /// It vanishes: its machine lost its power.
    Silently,
    /// It resets its controller, and the node ends the I/O queues.
    ResettingController,
    /// It deletes one of its queues with a Disconnect, and then closes the others.
    DeletingQueue,
}

#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) plan: WorkerPlan,
    pub(crate) life: Life,
    number: u32,
    pub(crate) route: Route,
    /// The node by which it came first, if it switches.
    other: NodeId,
    rival: Rival,
    dice: Dice,
    workload: Workload,
    admin: Option<Queue>,
    queues: Vec<Queue>,
    controller: Option<ControllerId>,
    /// The start of the node at which it connected.
    pub(crate) node_life: u32,
    /// It has reset its controller, which executes few commands since.
    resets: bool,
    keep_alive_at: Nanos,
    think_until: Nanos,
    left: u32,
    /// It starts nothing new.
    pub(crate) resting: bool,
    /// The number of events that its controller reported.
    pub(crate) events: u32,
    /// The number of times that it connected.
    pub(crate) joined: u32,
    /// Writes over an earlier path that were not answered, and their blocks.
    unanswered: Vec<(Run, Vec<WriteId>)>,
    /// Links that it left silently, and when.
    pub(crate) silenced: Vec<(Nanos, LinkId)>,
}

impl Worker {
    pub(crate) fn new(
        (number, route, rival): (u32, Route, Rival),
        plan: WorkerPlan,
        field: Field,
        dice: Dice,
    ) -> Self {
        let workload = Workload { mix: plan.mix, field, known: Default::default() };
        Self {
            life: Life::Away(Nanos(0)),
            left: plan.commands,
            plan,
            number,
            other: route.node,
            route,
            rival,
            dice,
            workload,
            admin: None,
            queues: Vec::new(),
            controller: None,
            node_life: 0,
            resets: false,
            keep_alive_at: Nanos(0),
            think_until: Nanos(0),
            resting: false,
            events: 0,
            joined: 0,
            unanswered: Vec::new(),
            silenced: Vec::new(),
        }
    }

    /// Commands that have not been answered.
    pub(crate) fn in_flight(&self) -> usize {
        let waits_for_event =
            |pending: &&Pending| !matches!(pending, Pending::Admin(AdminStep::Event));
        let all = self.admin.iter().chain(&self.queues);
        all.map(|queue| queue.pending.values().filter(waits_for_event).count()).sum()
    }

    /// Commands that it has yet to submit.
    pub(crate) fn commands_left(&self) -> u32 {
        self.left
    }

    pub(crate) fn controller(&self) -> Option<ControllerId> {
        self.controller
    }

    /// Whether it uses this link.
    pub(crate) fn has(&self, link: LinkId) -> bool {
        self.admin.iter().chain(&self.queues).any(|queue| queue.link == link)
    }

    /// Whether it receives nothing from a link, or did so until recently.
    pub(crate) fn is_deaf_at(&self, link: LinkId, now: Nanos) -> bool {
        let mut queues = self.queues.iter().filter(|queue| queue.link == link);
        queues.any(|queue| now < queue.deaf_until.plus(Nanos::from_secs(2)))
    }

    pub(crate) fn links(&self) -> impl Iterator<Item = LinkId> {
        self.admin.iter().chain(&self.queues).map(|queue| queue.link)
    }

    pub(crate) fn io_links(&self) -> impl Iterator<Item = LinkId> {
        self.queues.iter().map(|queue| queue.link)
    }

    fn config(&self, queue: QueueId) -> HostConfig {
        let plan = &self.plan;
        HostConfig {
            digests: plan.digests,
            alignment: DataAlignment(plan.alignment),
            queue,
            sq_entries: if queue.is_admin() { 32 } else { plan.entries },
            flow_control: plan.flow_control,
            in_capsule_len_max: plan.in_capsule_len_max,
            controller: self.controller.unwrap_or(ControllerId::DYNAMIC),
            keep_alive_ms: if queue.is_admin() { plan.keep_alive_ms } else { 0 },
            host_id: Uuid::from_u128(u128::from(self.number) + 1),
            host: Nqn::new(&format!("nqn.2026-11.io.nearflash:host-{}", self.number))
                .expect("a name"),
            subsystem: Nqn::new(self.subsystem()).expect("a name"),
        }
    }

    fn subsystem(&self) -> &'static str {
        subsystem_of(self.workload.field.volumes[0].0, self.route.node)
    }

    /// Whether its node serves volumes of another node to it.
    pub(crate) fn is_far(&self) -> bool {
        node_of(self.workload.field.volumes[0].0) != self.route.node
    }

    fn who(&self) -> Who {
        Who { door: Door::NvmeTcp, number: self.number }
    }

    fn connect(&self, queue: QueueId, writer: Writer, outside: &mut Outside) -> Queue {
        let config = self.config(queue);
        let parts: [&[u8]; 2] = [&config.host_id.into_bytes(), self.subsystem().as_bytes()];
        let nexus = nearflash_session::nexus("nvme", &parts);
        Queue::connect(config, Asker { writer, nexus }, self.route, outside)
    }

    /// Takes its next step. Returns when to take another if no event comes earlier.
    pub(crate) fn look(
        &mut self,
        writers: &mut u32,
        checks: &mut Checks,
        outside: &mut Outside,
    ) -> Option<Nanos> {
        let now = outside.now;
        match self.life {
            Life::Gone => return None,
            Life::Away(until) if until > now => return Some(until),
            Life::Away(_) if self.resting && self.left == 0 => {
                self.life = Life::Gone;
                return None;
            }
            Life::Away(_) => self.join(writers, outside),
            _ => {}
        }
        if self.pump(outside) == Fate::Lost {
            return self.leave(Leaving::Closing, checks, outside);
        }
        self.take_completions(checks, outside);
        self.go_on(writers, outside);
        if self.life == Life::Working && !self.resting {
            if self.dice.permille(self.plan.leave_permille) {
                match self.draw_leaving() {
                    Leaving::ResettingController => self.reset_controller(),
                    Leaving::DeletingQueue => self.delete_queue(),
                    how => return self.leave(how, checks, outside),
                }
            }
            self.work(checks, outside);
        }
        self.keep_alive(outside);
        if self.pump(outside) == Fate::Lost {
            return self.leave(Leaving::Closing, checks, outside);
        }
        self.take_completions(checks, outside);
        Some(self.next_look(now))
    }

    fn draw_leaving(&mut self) -> Leaving {
        let mut ways = vec![
            Leaving::Closing,
            Leaving::Resetting,
            Leaving::ResettingController,
            Leaving::DeletingQueue,
        ];
        if self.plan.keep_alive_ms > 0 {
            ways.push(Leaving::Silently);
        }
        self.dice.pick(&ways)
    }

    fn reset_controller(&mut self) {
        self.resets = true;
        self.ask(Command::property_set(offset::CONFIGURATION, 0), AdminStep::Reset);
    }

    fn delete_queue(&mut self) {
        let index = self.dice.index(self.queues.len());
        let queue = &mut self.queues[index];
        if queue.has_room(self.plan.entries, 1) {
            let pending = Pending::Admin(AdminStep::Reset);
            queue.submit(&Command::disconnect(), CommandData::None, pending);
        }
    }

    fn next_look(&mut self, now: Nanos) -> Nanos {
        let deaf = self.queues.iter().map(|queue| queue.deaf_until).filter(|until| *until > now);
        let mut at = deaf.min().unwrap_or(Nanos::NEVER);
        // Without a controller there is nothing to keep alive: an answer of the node wakes it.
        if self.plan.keep_alive_ms > 0 && self.controller.is_some() {
            at = at.min(self.keep_alive_at.max(now.plus(Nanos(1))));
        }
        // With all queues full it waits for answers, which wake it.
        let has_room = self.queues.iter().any(|queue| queue.has_room(self.plan.entries, 2));
        if self.life == Life::Working && !self.resting && self.left > 0 && has_room {
            at = at.min(self.think_until.max(now.plus(Nanos(1))));
        }
        at.min(now.plus(Nanos::from_secs(1)))
    }

    fn join(&mut self, writers: &mut u32, outside: &mut Outside) {
        self.joined += 1;
        self.node_life = outside.machine(self.route.node).starts;
        self.controller = None;
        self.resets = false;
        let writer = next_writer(writers);
        let admin = self.connect(QueueId::ADMIN, writer, outside);
        outside.witness.joins(self.who(), admin.link);
        self.admin = Some(admin);
        self.life = Life::Joining;
        self.keep_alive_at = outside.now.plus(self.keep_alive_span());
    }

    fn keep_alive_span(&self) -> Nanos {
        Nanos::from_millis(u64::from(self.plan.keep_alive_ms) / 4)
    }

    /// When its controller has ended, or its writes are too old, if it is silent from now on.
    fn given_up_at(&self, outside: &Outside) -> Option<Nanos> {
        let span = Nanos::from_millis(u64::from(self.plan.keep_alive_ms));
        let expiry = (span > Nanos(0)).then(|| outside.now.plus(span).plus(KEEP_ALIVE_GRANULE));
        let is_shared = self.is_far() || outside.is_mirrored;
        expiry.into_iter().chain(is_shared.then(|| outside.too_old_at())).min()
    }

    fn pump(&mut self, outside: &mut Outside) -> Fate {
        for queue in self.admin.iter_mut().chain(&mut self.queues) {
            if queue.pump(outside) == Fate::Lost {
                return Fate::Lost;
            }
        }
        Fate::Lives
    }

    /// The next step towards working, once the previous one is done.
    fn go_on(&mut self, writers: &mut u32, outside: &mut Outside) {
        let Some(admin) = &mut self.admin else { return };
        match self.life {
            Life::Joining if admin.session.is_ready() => {
                self.controller = admin.session.controller();
                let queues = QueueCount::pairs(self.plan.io_queues).to_value();
                let enable = Command::property_set(offset::CONFIGURATION, Configuration::ENABLE.0);
                let count = Command::set_features(FeatureId::NUMBER_OF_QUEUES, queues);
                self.life = Life::Preparing;
                self.ask(enable, AdminStep::Enable);
                self.ask(count, AdminStep::Queues);
                self.ask(Command::async_event_request(), AdminStep::Event);
            }
            Life::Preparing if self.in_flight() == 0 => {
                self.life = Life::Opening;
                for queue in 1..=self.plan.io_queues {
                    let writer = next_writer(writers);
                    let queue = self.connect(QueueId(queue), writer, outside);
                    let admin = self.admin.as_ref().map(|admin| admin.link);
                    let (who, nexus, link) = (self.who(), queue.asker.nexus, queue.link);
                    let over = self.is_far().then_some(self.route.node);
                    outside
                        .witness
                        .opens(writer, Opened { who, nexus, link, admin, over, is_bearers: false });
                    self.queues.push(queue);
                }
            }
            Life::Opening if self.queues.iter().all(|queue| queue.session.is_ready()) => {
                self.life = Life::Working;
                self.think_until = outside.now;
            }
            _ => {}
        }
    }

    /// Submits an admin command.
    fn ask(&mut self, command: Command, step: AdminStep) {
        let Some(admin) = &mut self.admin else { return };
        if admin.has_room(32, 1) {
            let len = command.sgl.length.get();
            let data = if len > 0 { CommandData::SmallIncoming(len) } else { CommandData::None };
            admin.submit(&command, data, Pending::Admin(step));
        }
    }

    fn keep_alive(&mut self, outside: &Outside) {
        let is_due = self.plan.keep_alive_ms > 0 && outside.now >= self.keep_alive_at;
        if is_due && self.controller.is_some() {
            self.keep_alive_at = outside.now.plus(self.keep_alive_span());
            self.ask(Command::keep_alive(), AdminStep::KeepAlive);
        }
    }

    fn work(&mut self, checks: &mut Checks, outside: &mut Outside) {
        if outside.now < self.think_until {
            return;
        }
        self.think_until = outside.now.plus(self.dice.span(self.plan.think));
        let burst = self.dice.between(1, 4);
        for _ in 0..burst {
            let index = self.dice.index(self.queues.len());
            let queue = &mut self.queues[index];
            if self.left == 0 || !queue.has_room(self.plan.entries, 2) {
                continue;
            }
            if let Some((run, lost)) = self.unanswered.pop() {
                self.workload.repeat(queue, (run, lost), checks, outside);
                continue;
            }
            self.left -= 1;
            if self.dice.permille(self.plan.rival_permille) {
                let nsid = NamespaceId(self.dice.pick(&[1, 1, 2, 3]));
                let wanted = Move::draw(&mut self.dice, &self.rival);
                fight(queue, &self.rival, wanted, nsid);
            } else {
                self.workload.begin(queue, &mut self.dice, checks, outside);
            }
            queue.trickle = self.plan.trickle;
            if self.dice.permille(self.plan.deaf_permille) {
                queue.deaf_until = outside.now.plus(self.plan.deaf);
            }
            if self.dice.permille(20) {
                let aborted = CommandId(u16::try_from(self.dice.between(0, 40)).expect("small"));
                self.ask(abort(QueueId(1), aborted), AdminStep::Abort);
            }
        }
    }

    /// Keeps an unanswered write in mind, to repeat it.
    pub(super) fn keep(&mut self, io: &Io) {
        let What::Write(writes) = &io.what else { return };
        if !self.plan.switches {
            return;
        }
        let volumes = self.workload.field.volumes.iter();
        let nsid = volumes.clone().find(|(volume, _)| *volume == io.first.volume);
        let Some((_, nsid)) = nsid.copied() else { return };
        let count = u64::try_from(writes.len()).expect("commands are bounded");
        let run = Run { block: io.first, nsid, count, in_tail: io.in_tail };
        self.unanswered.push((run, [&io.repeats[..], writes].concat()));
    }

    /// From now on it uses the other one of its volumes' node and the node before that.
    fn switch(&mut self) {
        let home = node_of(self.workload.field.volumes[0].0);
        self.route.node = if self.is_far() { home } else { self.other };
    }

    /// Gives up all connections. Unanswered commands are lost.
    pub(crate) fn leave(
        &mut self,
        how: Leaving,
        checks: &mut Checks,
        outside: &mut Outside,
    ) -> Option<Nanos> {
        let now = outside.tick();
        outside.note("host leaves", &[u64::from(self.number)]);
        for queue in self.admin.take().into_iter().chain(std::mem::take(&mut self.queues)) {
            match how {
                Leaving::Closing | Leaving::ResettingController | Leaving::DeletingQueue => {
                    outside.network.close(outside.now, queue.link, Side::Caller);
                }
                Leaving::Resetting => outside.network.abort(outside.now, queue.link, Side::Caller),
                Leaving::Silently => {
                    outside.network.silence(queue.link, self.given_up_at(outside));
                    self.silenced.push((outside.now, queue.link));
                }
            }
            outside.settle_network();
            for pending in queue.pending.into_values() {
                match pending {
                    Pending::Io(io) if is_step(&io.what) => {}
                    Pending::Io(io) => {
                        self.keep(&io);
                        io.lose(checks, now);
                    }
                    Pending::Admin(_) | Pending::Rivalry => {}
                }
            }
            for step in queue.steps.into_values() {
                step.judge(true, checks, outside);
            }
        }
        self.controller = None;
        // Blocks may have changed since the last read: a host that returns reads again.
        self.workload.known.clear();
        if self.plan.switches {
            self.switch();
        }
        let away = Nanos::from_micros(self.dice.pick(&[10, 1_000, 50_000]));
        let until = outside.now.plus(away);
        self.life = Life::Away(until);
        Some(until)
    }
}

fn is_step(what: &What) -> bool {
    matches!(what, What::StepCompare(_) | What::StepWrite(_))
}

fn next_writer(writers: &mut u32) -> Writer {
    *writers += 1;
    Writer(*writers)
}

/// Aborts a command of that queue. NVMe Base 2.0, 5.1.
fn abort(queue: QueueId, command: CommandId) -> Command {
    let dword = u32::from(command.0) << 16 | u32::from(queue.0);
    Command { cdw10: dword.into(), ..Command::new(AdminOpcode::ABORT.0, NamespaceId::NONE) }
}
