//! A working initiator: it logs in, adds connections to its session, and works on them. When it
//! loses them, it logs in again by session reinstatement, with the same name and ISID.

use std::collections::BTreeMap;
use std::sync::Arc;

use nearflash_iscsi::chap::{CHALLENGE_LEN, Challenge};
use nearflash_iscsi::initiator::{CommandWindow, Event, InitiatorConfig};
use nearflash_iscsi::login::{LoginConfig, SessionKind};
use nearflash_iscsi::params::{DigestWish, Offer, SessionParams};
use nearflash_iscsi::pdu::TaskFunction;
use nearflash_request::Nexus;
use nearflash_units::Nanos;

use crate::Dice;
use crate::host::worker::{Leaving, Life};
use crate::initiator::connection::{Connection, Task};
use crate::initiator::initiator_plan::InitiatorPlan;
use crate::initiator::rivalry::fight;
use crate::initiator::work::Begin;
use crate::judge::{Answer, Asker, Checks};
use crate::line::Fate;
use crate::network::{LinkId, Route, Side};
use crate::node::{FAR_TARGET, TARGET, node_of};
use crate::outside::Outside;
use crate::reservations::Ends;
use crate::rivalry::{Move, Rival};
use crate::stamp::Writer;
use crate::witness::{Door, Opened, Tick, Who};
use crate::workload::{Field, Workload};

/// ILLEGAL REQUEST, INVALID FIELD IN PARAMETER LIST and related codes: 5h, 26h.
const ILLEGAL_PARAMETER: u32 = 0x526;

#[derive(Debug)]
pub(crate) struct Initiator {
    pub(crate) plan: InitiatorPlan,
    pub(crate) life: Life,
    number: u32,
    pub(crate) route: Route,
    rival: Rival,
    dice: Dice,
    workload: Workload,
    window: Arc<CommandWindow>,
    connections: Vec<Connection>,
    think_until: Nanos,
    left: u32,
    /// It starts nothing new.
    pub(crate) resting: bool,
    /// The number of its logins.
    pub(crate) joined: u32,
    /// Links that it left silently, and when.
    pub(crate) silenced: Vec<(Nanos, LinkId)>,
    /// The number of unit attentions received, by code.
    told: BTreeMap<u16, u32>,
}

impl Initiator {
    pub(crate) fn new(
        (number, route, rival): (u32, Route, Rival),
        plan: InitiatorPlan,
        field: Field,
        dice: Dice,
    ) -> Self {
        let workload = Workload { mix: plan.mix, field, known: Default::default() };
        Self {
            life: Life::Away(Nanos(0)),
            left: plan.commands,
            plan,
            number,
            route,
            rival,
            dice,
            workload,
            window: Arc::new(CommandWindow::new(1)),
            connections: Vec::new(),
            think_until: Nanos(0),
            resting: false,
            joined: 0,
            silenced: Vec::new(),
            told: BTreeMap::new(),
        }
    }

    /// The number of unit attentions with this code.
    pub(crate) fn told(&self, code: u16) -> u32 {
        self.told.get(&code).copied().unwrap_or_default()
    }

    /// Commands that have not been answered.
    pub(crate) fn in_flight(&self) -> usize {
        self.connections.iter().map(|connection| connection.tasks.len()).sum()
    }

    /// Commands that it has yet to submit.
    pub(crate) fn commands_left(&self) -> u32 {
        self.left
    }

    /// It submits nothing more, and does not come back once it has left.
    pub(crate) fn retire(&mut self) {
        (self.resting, self.left) = (true, 0);
    }

    /// Whether it uses this link.
    pub(crate) fn has(&self, link: LinkId) -> bool {
        self.connections.iter().any(|connection| connection.link == link)
    }

    /// Whether it works on volumes of another node than the one that it is connected to.
    pub(crate) fn is_far(&self) -> bool {
        let (volume, _) = self.workload.field.volumes[0];
        node_of(volume) != self.route.node
    }

    fn target(&self) -> &'static str {
        if self.is_far() { FAR_TARGET } else { TARGET }
    }

    fn name(&self) -> String {
        format!("iqn.2026-11.io.nearflash:initiator-{}", self.number)
    }

    fn isid(&self) -> [u8; 6] {
        let [.., high, low] = self.number.to_be_bytes();
        [0x80, 0, 0, 0, high, low]
    }

    fn who(&self) -> Who {
        Who { door: Door::Iscsi, number: self.number }
    }

    fn nexus(&self) -> Nexus {
        let (name, isid) = (self.name(), self.isid());
        let parts: [&[u8]; 3] = [name.as_bytes(), &isid, self.target().as_bytes()];
        nearflash_session::nexus("iscsi", &parts)
    }

    fn config(&self, tsih: u16, cid: u16) -> InitiatorConfig {
        let plan = &self.plan;
        let wish = |wanted| if wanted { DigestWish::PreferCrc } else { DigestWish::PreferNone };
        let session = SessionParams {
            max_connections: u32::from(plan.connections),
            initial_r2t: plan.initial_r2t,
            immediate_data: plan.immediate_data,
            first_burst_len: plan.bursts.0,
            max_burst_len: plan.bursts.1,
            ..SessionParams::default()
        };
        let offer = Offer {
            session,
            receive_len_max: plan.receive_len_max,
            header_digest: wish(plan.digests.0),
            data_digest: wish(plan.digests.1),
        };
        let login = LoginConfig {
            initiator: self.name(),
            initiator_alias: None,
            isid: self.isid(),
            tsih,
            cid,
            kind: SessionKind::Normal { target: self.target().to_owned() },
            account: None,
            challenge: Challenge { identifier: 0, bytes: [0; CHALLENGE_LEN] },
            offer,
        };
        InitiatorConfig { login, window: Arc::clone(&self.window), task_count: plan.depth }
    }

    fn open(&mut self, tsih: u16, writers: &mut u32, outside: &mut Outside) {
        let cid = u16::try_from(self.connections.len()).expect("few connections");
        *writers += 1;
        let writer = Writer(*writers);
        let config = self.config(tsih, cid);
        let nexus = self.nexus();
        let connection = Connection::connect(config, Asker { writer, nexus }, self.route, outside);
        let (who, link) = (self.who(), connection.link);
        let over = self.is_far().then_some(self.route.node);
        outside
            .witness
            .opens(writer, Opened { who, nexus, link, admin: None, over, is_bearers: false });
        self.connections.push(connection);
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
            Life::Away(_) => {
                self.joined += 1;
                self.window = Arc::new(CommandWindow::new(self.joined));
                self.open(0, writers, outside);
                self.life = Life::Joining;
            }
            _ => {}
        }
        if self.pump(outside) == Fate::Lost {
            return self.leave(Leaving::Closing, checks, outside);
        }
        self.take_completions(checks, outside);
        self.go_on(writers, outside);
        if self.life == Life::Working && !self.resting {
            if self.dice.permille(self.plan.leave_permille) {
                let how =
                    self.dice.pick(&[Leaving::Closing, Leaving::Resetting, Leaving::Silently]);
                return self.leave(how, checks, outside);
            }
            self.work(checks, outside);
        }
        if self.pump(outside) == Fate::Lost {
            return self.leave(Leaving::Closing, checks, outside);
        }
        self.take_completions(checks, outside);
        Some(self.next_look(now))
    }

    fn has_room(&self, connection: &Connection) -> bool {
        connection.session.is_ready()
            && connection.session.tasks_in_flight() < usize::from(self.plan.depth)
            && self.window.is_open()
    }

    fn next_look(&self, now: Nanos) -> Nanos {
        // With all connections full it waits for answers, which wake it.
        let has_room = self.connections.iter().any(|connection| self.has_room(connection));
        if self.life == Life::Working && !self.resting && self.left > 0 && has_room {
            return self.think_until.max(now.plus(Nanos(1)));
        }
        now.plus(Nanos::from_secs(1))
    }

    fn pump(&mut self, outside: &mut Outside) -> Fate {
        for connection in &mut self.connections {
            if connection.pump(outside) == Fate::Lost {
                return Fate::Lost;
            }
        }
        Fate::Lives
    }

    /// The next step towards working, once the previous one is done.
    fn go_on(&mut self, writers: &mut u32, outside: &mut Outside) {
        let is_ready = self.connections.iter().all(|connection| connection.session.is_ready());
        let Some(established) =
            self.connections.first().and_then(|leading| leading.session.established().copied())
        else {
            return;
        };
        match self.life {
            Life::Joining if is_ready => {
                let now = outside.tick();
                outside.witness.is_back(self.who(), self.connections[0].link, now);
                let granted = established.session.max_connections;
                for _ in 1..u32::from(self.plan.connections).min(granted) {
                    self.open(established.tsih, writers, outside);
                }
                self.life = Life::Opening;
                // Without other connections, no event would wake it.
                self.go_on(writers, outside);
            }
            Life::Opening if is_ready => {
                self.life = Life::Working;
                self.think_until = outside.now;
            }
            _ => {}
        }
    }

    fn work(&mut self, checks: &mut Checks, outside: &mut Outside) {
        if outside.now < self.think_until {
            return;
        }
        self.think_until = outside.now.plus(self.dice.span(self.plan.think));
        for _ in 0..self.dice.between(1, 4) {
            let index = self.dice.index(self.connections.len());
            if self.left == 0 || !self.has_room(&self.connections[index]) {
                continue;
            }
            self.left -= 1;
            let fights = self.dice.permille(self.plan.rival_permille);
            let (connection, dice) = (&mut self.connections[index], &mut self.dice);
            if fights {
                let lun = dice.pick(&[0, 0, 1, 2]);
                let wanted = Move::draw(dice, &self.rival);
                fight(connection, &self.rival, wanted, lun);
            } else {
                Begin { connection, dice, checks, outside }.work(&mut self.workload);
            }
            if self.dice.permille(self.plan.manage_permille) {
                self.manage(index, checks, outside);
            }
        }
    }

    /// Requests one task management function: aborts a command, aborts its own commands or
    /// everybody's, or resets a unit or the target.
    fn manage(&mut self, index: usize, checks: &mut Checks, outside: &mut Outside) {
        let functions = [
            TaskFunction::ABORT_TASK,
            TaskFunction::ABORT_TASK_SET,
            TaskFunction::CLEAR_TASK_SET,
            TaskFunction::LOGICAL_UNIT_RESET,
            TaskFunction::TARGET_WARM_RESET,
        ];
        let ends_sessions = self.dice.permille(self.plan.cold_permille);
        let function = match ends_sessions {
            true => TaskFunction::TARGET_COLD_RESET,
            false => self.dice.pick(&functions),
        };
        let connection = &mut self.connections[index];
        let task = connection.tasks.keys().next().copied();
        if function == TaskFunction::ABORT_TASK && task.is_none() {
            return;
        }
        // Another function may be under way.
        if let Ok(managing) = connection.session.manage(function, 0, task) {
            let own = [TaskFunction::ABORT_TASK, TaskFunction::ABORT_TASK_SET].contains(&function);
            let of = own.then_some(connection.asker.nexus);
            let id = checks.endings.begins(self.route.node, of);
            connection.managing = Some((managing, id));
            outside.machine_mut(self.route.node).ends_sessions |= ends_sessions;
        }
    }

    /// Commands that a function aborted are over on all connections.
    fn conclude(&mut self, checks: &mut Checks, now: Tick) {
        let mut ended = Vec::new();
        for connection in &mut self.connections {
            while let Some(event) = connection.session.poll_event() {
                match event {
                    Event::Managed(result) => {
                        let (managing, id) = connection.managing.take().expect("it was asked for");
                        checks.endings.is_over(id, now);
                        ended.push((managing, result));
                    }
                    // The target reports a changed volume size by itself.
                    Event::Reported(Some(_)) => {}
                    other => panic!("{other:?} was not asked for"),
                }
            }
        }
        for (managing, result) in ended {
            for connection in &mut self.connections {
                connection.session.conclude(&managing, result);
            }
        }
    }

    fn take_completions(&mut self, checks: &mut Checks, outside: &mut Outside) {
        self.conclude(checks, outside.tick());
        for connection in &mut self.connections {
            while let Some((completion, task)) = connection.poll() {
                let link = u64::from(connection.link.0);
                outside.note("answer", &[u64::from(completion.id.0), link]);
                let answer = Answer::of_scsi(&completion);
                if let (Answer::Attention, Some(sense)) = (answer, completion.sense) {
                    *self.told.entry(u16::from_be_bytes([sense.asc, sense.ascq])).or_default() += 1;
                }
                match task {
                    Task::Io(io) => {
                        let seen = io.judge(answer, &mut connection.memory, checks, outside);
                        self.workload.learn(seen);
                    }
                    Task::Step(mut state, buffer) => {
                        connection.memory.give_back(buffer);
                        (state.first, state.second) = (Some(answer), Some(answer));
                        state.judge(false, checks, outside);
                    }
                    Task::Rivalry => judge_rivalry(connection.asker.nexus, answer, checks),
                }
            }
        }
    }

    /// Closes all connections. Unanswered commands are lost.
    pub(crate) fn leave(
        &mut self,
        how: Leaving,
        checks: &mut Checks,
        outside: &mut Outside,
    ) -> Option<Nanos> {
        let now = outside.tick();
        outside.note("initiator leaves", &[u64::from(self.number)]);
        for connection in std::mem::take(&mut self.connections) {
            match how {
                Leaving::Resetting => {
                    outside.network.abort(outside.now, connection.link, Side::Caller);
                }
                Leaving::Silently => {
                    let is_shared = self.is_far() || outside.is_mirrored;
                    let at = is_shared.then(|| outside.too_old_at());
                    outside.network.silence(connection.link, at);
                    self.silenced.push((outside.now, connection.link));
                }
                _ => outside.network.close(outside.now, connection.link, Side::Caller),
            }
            outside.settle_network();
            for task in connection.tasks.into_values() {
                match task {
                    Task::Io(io) => io.lose(checks, now),
                    Task::Step(state, _) => state.judge(true, checks, outside),
                    Task::Rivalry => {}
                }
            }
        }
        // Blocks may have changed since the last read: an initiator that returns reads again.
        self.workload.known.clear();
        let away = Nanos::from_micros(self.dice.pick(&[10, 1_000, 50_000]));
        let until = outside.now.plus(away);
        self.life = Life::Away(until);
        Some(until)
    }
}

/// A change of reservations was answered: with its expected result, or it was not executed.
fn judge_rivalry(nexus: Nexus, answer: Answer, checks: &mut Checks) {
    match answer {
        Answer::Done => checks.reservations.answered(nexus, Ends::Done),
        Answer::Conflict => checks.reservations.answered(nexus, Ends::Conflict),
        Answer::Unexpected(ILLEGAL_PARAMETER) => {
            checks.reservations.answered(nexus, Ends::Refused);
        }
        Answer::Attention | Answer::Aborted | Answer::Full => {}
        _ => panic!("a change of reservations was answered {answer:?}"),
    }
}
