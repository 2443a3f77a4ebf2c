//! The run itself: what comes next happens, who is concerned looks, and what was noticed is judged.

use std::collections::BTreeSet;

use nearflash_engine::CoreId;
use nearflash_nvme::target::DisconnectReason;
use nearflash_shard::{Event, Message, Notice};
use nearflash_units::{BlockSize, Blocks, ByteLen, Nanos};

use crate::Dice;
use crate::changes::{Changes, Wanted};
use crate::client::grants::Grants;
use crate::client::ground::Ground;
use crate::client::worker::{Client, Common};
use crate::disk::Disk;
use crate::faults::Faults;
use crate::history::Block;
use crate::host::misfit::Misfit;
use crate::host::pending::Checks;
use crate::host::worker::{Leaving, Life, Worker};
use crate::host::worker_plan::WorkerPlan;
use crate::host::workload::Field;
use crate::initiator::initiator_plan::InitiatorPlan;
use crate::initiator::worker::Initiator;
use crate::network::{LinkId, Network};
use crate::node::{CHECKED, DISKS, Node, SHARED_ID, SimVolume};
use crate::outside::{Happening, Outside};
use crate::plan::Plan;
use crate::rivalry::Rival;
use crate::stamp::Value;

/// How long anything may take that must end: far more than all the faults together need.
pub(crate) const PATIENCE: Nanos = Nanos::from_secs(600);

/// A node, its hosts, and everything between and around them.
#[derive(Debug)]
pub struct Sim {
    pub(crate) plan: Plan,
    pub(crate) dice: Dice,
    pub(crate) outside: Outside,
    pub(crate) node: Node,
    pub(crate) workers: Vec<Worker>,
    pub(crate) misfits: Vec<Misfit>,
    pub(crate) clients: Vec<Client>,
    pub(crate) initiators: Vec<Initiator>,
    pub(crate) changes: Changes,
    pub(crate) common: Common,
    pub(crate) ground: Ground,
    pub(crate) checks: Checks,
    /// When each host looks around next, by its place: workers first, then misfits, clients and
    /// initiators.
    looks: Vec<Nanos>,
    writers: u32,
    /// The block that is changed by compare-and-write alone.
    counter: u64,
    notices_judged: usize,
    drained: BTreeSet<CoreId>,
    volumes_taken: BTreeSet<(u64, CoreId)>,
    namespaces_taken: u64,
    iscsi_taken: BTreeSet<(u64, CoreId)>,
    pub(crate) direct_taken: BTreeSet<(u64, CoreId)>,
}

fn field(plan: &Plan, node: &Node, dice: &mut Dice) -> Field {
    let block_size: BlockSize = plan.node.block_size;
    let seam = block_size.blocks_in(nearflash_space::GRANULE).0;
    let half = dice.between(2, 8);
    let is_checked = |volume: &&SimVolume| {
        let subsystem = volume.subsystem.as_ref();
        subsystem.is_some_and(|name| name.as_str() == CHECKED) && volume.id != SHARED_ID
    };
    let checked = node.volumes().iter().filter(is_checked);
    Field {
        block_size,
        volumes: checked.map(|volume| (volume.id, volume.namespace)).collect(),
        hot: (seam - half, seam + half),
        counters: [seam + 40, seam + 41],
        tail: (2 * seam + 8, 2 * seam + 44),
        blocks_max: block_size.blocks_in(plan.command_len_max).0.max(1),
    }
}

/// What direct clients share: around the seam of their volume.
fn ground(plan: &Plan) -> Ground {
    let clients = u64::try_from(plan.clients.len()).expect("few clients");
    let block_len = u64::from(plan.node.block_size.bytes());
    Ground::new(nearflash_space::GRANULE.0, clients, plan.command_len_max.0, block_len)
}

fn workers(
    plan: &Plan,
    rivals: &mut impl Iterator<Item = Rival>,
    field: &Field,
    dice: &mut Dice,
) -> Vec<Worker> {
    let worker = |((number, worker), rival): ((u32, &WorkerPlan), Rival)| {
        Worker::new((number, rival), worker.clone(), field.clone(), dice.fork())
    };
    (0..).zip(&plan.workers).zip(rivals).map(worker).collect()
}

fn initiators(
    plan: &Plan,
    rivals: &mut impl Iterator<Item = Rival>,
    field: &Field,
    dice: &mut Dice,
) -> Vec<Initiator> {
    let initiator = |((number, initiator), rival): ((u32, &InitiatorPlan), Rival)| {
        Initiator::new((number, rival), initiator.clone(), field.clone(), dice.fork())
    };
    (0..).zip(&plan.initiators).zip(rivals).map(initiator).collect()
}

impl Sim {
    /// The beginning of a run.
    pub fn new(plan: Plan) -> Self {
        let mut dice = Dice::new(plan.seed ^ 0x5EED);
        let Faults { network, disk, core } = plan.faults;
        let network = Network::new(network, dice.fork());
        let device = Node::device(&plan.node);
        let disks = (0..DISKS).map(|_| Disk::new(device, disk, dice.fork())).collect();
        let block_len = ByteLen(u64::from(plan.node.block_size.bytes())).to_usize();
        let mut outside = Outside::new(dice.fork(), network, disks, core, block_len);
        outside.has_cold_resets = plan.initiators.iter().any(|plan| plan.cold_permille > 0);
        let keeps = plan.clients.iter().map(|client| client.crooked.is_none()).collect();
        let ground = ground(&plan);
        let grants = Grants::new(ground.clone(), keeps);
        let node = Node::new(plan.node.clone(), grants, &mut outside);
        let field = field(&plan, &node, &mut dice);
        let rival_count = plan.workers.len() + plan.initiators.len();
        let mut rivals = Rival::several(u64::try_from(rival_count).expect("few hosts"));
        let workers = workers(&plan, &mut rivals, &field, &mut dice);
        let misfits: Vec<Misfit> = (0..)
            .zip(&plan.misfits)
            .map(|(number, misfit)| Misfit::new(number, *misfit, dice.fork()))
            .collect();
        let traits = (plan.node.keys, !plan.node.volatile_cache);
        let clients: Vec<Client> = (0..)
            .zip(&plan.clients)
            .map(|(number, client)| {
                let places = (ground.clone(), field.clone());
                Client::new(number, client.clone(), places, traits, dice.fork())
            })
            .collect();
        let common = Common { disks_fail: disk.can_fail(), ..Common::default() };
        let checks = Checks { disks_fail: disk.can_fail(), ..Checks::default() };
        let initiators = initiators(&plan, &mut rivals, &field, &mut dice);
        let hosts = workers.len() + misfits.len() + clients.len() + initiators.len();
        let looks = vec![Nanos::NEVER; hosts];
        let mut sim = Self {
            plan,
            dice,
            outside,
            node,
            workers,
            misfits,
            clients,
            initiators,
            changes: Changes::default(),
            common,
            ground,
            checks,
            looks,
            writers: 0,
            counter: field.counters[0],
            notices_judged: 0,
            drained: BTreeSet::new(),
            volumes_taken: BTreeSet::new(),
            namespaces_taken: 0,
            iscsi_taken: BTreeSet::new(),
            direct_taken: BTreeSet::new(),
        };
        sim.outside.size = Some((sim.outside.tick(), sim.node.volumes()[0].blocks.0));
        for host in 0..sim.looks.len() {
            let at = Nanos::from_micros(sim.dice.between(100, 20_000));
            sim.look_at(host, at);
        }
        sim
    }

    /// Now.
    pub fn now(&self) -> Nanos {
        self.outside.now
    }

    fn look_at(&mut self, host: usize, at: Nanos) {
        if at < self.looks[host] {
            self.looks[host] = at;
            self.outside.agenda.push(at, Happening::Host(host));
        }
    }

    /// The next thing happens. `false` when nothing is left.
    pub fn step(&mut self) -> bool {
        let Some((at, happening)) = self.outside.agenda.pop() else { return false };
        self.outside.now = at;
        match happening {
            Happening::Wire(delivery) => {
                self.outside.network.deliver(at, delivery);
                self.outside.settle_network();
            }
            Happening::DiskPart(disk, number) => self.outside.disks[disk].take_part(number),
            Happening::DiskDone(disk, number) => self.end_operation(disk, number),
            Happening::Mail(road) => self.outside.deliver_mail(road),
            Happening::Turn(core, ticket) => self.node.turn(core, ticket, &mut self.outside),
            Happening::Host(host) => self.look(host),
        }
        self.node.wake(&mut self.outside);
        self.judge_steps();
        self.stir();
        self.judge_notices();
        self.go_on_with_changes();
        true
    }

    fn judge_steps(&mut self) {
        for disk in &mut self.outside.disks {
            for (to, before) in disk.replaced.drain(..) {
                self.checks.increments.took_effect(to, before);
            }
        }
    }

    fn end_operation(&mut self, disk: usize, number: u64) {
        let core = self.outside.disks[disk].core_of(number);
        let ended = self.outside.end_operation(disk, number, self.node.pool(core));
        self.outside.drop_in(core, Event::Device(ended.request.id, ended.result));
    }

    fn look(&mut self, host: usize) {
        let now = self.outside.now;
        if self.looks[host] != now {
            return; // it looked, or will look, at another moment instead
        }
        self.looks[host] = Nanos::NEVER;
        let (workers, misfits) = (self.workers.len(), self.misfits.len());
        let clients = self.clients.len();
        let outside = &mut self.outside;
        let next = if let Some(worker) = self.workers.get_mut(host) {
            worker.look(&mut self.writers, &mut self.checks, outside)
        } else if let Some(misfit) = self.misfits.get_mut(host - workers) {
            misfit.look(outside)
        } else if let Some(client) = self.clients.get_mut(host - workers - misfits) {
            client.look(&mut self.writers, &mut self.common, &mut self.checks, outside)
        } else {
            let initiator = &mut self.initiators[host - workers - misfits - clients];
            initiator.look(&mut self.writers, &mut self.checks, outside)
        };
        if let Some(next) = next {
            self.look_at(host, next.max(now.plus(Nanos(1))));
        }
    }

    /// Hosts at whose connections something happened look around soon. Misfits look when they like.
    fn stir(&mut self) {
        for link in std::mem::take(&mut self.outside.stirred) {
            let client = self.clients.iter().position(|client| client.has(link));
            let client = client.map(|client| self.workers.len() + self.misfits.len() + client);
            let initiator = self.initiators.iter().position(|initiator| initiator.has(link));
            let initiator = initiator.map(|initiator| self.first_initiator() + initiator);
            let worker = self.workers.iter().position(|worker| worker.has(link));
            let host = worker.or(client).or(initiator);
            if let Some(host) = host {
                let soon = Nanos(self.dice.between(1, 5_000));
                self.look_at(host, self.outside.now.plus(soon));
            }
        }
    }

    /// The place of the first initiator among all hosts.
    fn first_initiator(&self) -> usize {
        self.workers.len() + self.misfits.len() + self.clients.len()
    }

    /// How many cores go by the volumes of that number.
    pub(crate) fn cores_with_volumes(&self, number: u64) -> usize {
        self.volumes_taken.iter().filter(|(taken, _)| *taken == number).count()
    }

    fn is_misfit(&self, link: LinkId) -> bool {
        self.misfits.iter().flat_map(|misfit| &misfit.links).any(|(_, of)| *of == link)
    }

    fn judge_notices(&mut self) {
        while let Some(noted) = self.outside.notices.get(self.notices_judged) {
            self.notices_judged += 1;
            let (now, core) = (noted.at, noted.core);
            match noted.notice.clone() {
                Notice::PeerError { peer, error } => {
                    let link = self.outside.network.link_of(peer).expect("peers have links");
                    let is_crooked = self.clients.iter().any(|client| client.is_crooked_at(link));
                    let is_due = error.is_silence() || is_crooked || self.is_misfit(link);
                    assert!(is_due, "{link:?} was said to have broken the protocol: {error}");
                }
                Notice::Stalled { peer } => {
                    let link = self.outside.network.link_of(peer).expect("peers have links");
                    let reads =
                        |worker: &Worker| worker.has(link) && worker.plan.deaf_permille == 0;
                    let takes = |client: &Client| {
                        client.has(link) && !client.is_deaf() && client.plan.crooked.is_none()
                    };
                    let is_due = !self.workers.iter().any(reads)
                        && !self.clients.iter().any(takes)
                        && !self.initiators.iter().any(|initiator| initiator.has(link));
                    assert!(is_due, "{link:?} was said to stall");
                }
                Notice::Disconnecting {
                    controller,
                    reason: DisconnectReason::KeepAliveExpired,
                    ..
                } => {
                    let is_heard = |worker: &Worker| {
                        worker.life == Life::Working
                            && worker.node_life == self.outside.starts
                            && worker.controller() == Some(controller)
                    };
                    let is_due = !self.workers.iter().any(is_heard);
                    assert!(
                        is_due,
                        "{controller:?} was given up at {now:?}, and its host is there"
                    );
                }
                Notice::VolumesTaken(core, number) => {
                    self.volumes_taken.insert((number, core));
                }
                Notice::DirectTaken(core, number) => {
                    self.direct_taken.insert((number, core));
                }
                Notice::Change { core, owner, tag, change } => {
                    self.changes.want(Wanted { core, owner, tag, change });
                }
                Notice::IscsiTaken(core, number) => {
                    self.iscsi_taken.insert((number, core));
                }
                Notice::NamespacesTaken(number) => self.namespaces_taken = number,
                Notice::Drained(of) => {
                    assert_eq!(core, of, "a core speaks for itself");
                    self.drained.insert(of);
                }
                _ => {}
            }
        }
    }

    /// Goes on until `done`, or until nothing happens any more, at most for `span`. Whether it is
    /// done.
    pub fn run_until(&mut self, span: Nanos, done: impl Fn(&Self) -> bool) -> bool {
        let end = self.outside.now.plus(span);
        loop {
            if done(self) {
                return true;
            }
            match self.outside.agenda.next_at() {
                Some(at) if at <= end => {
                    self.step();
                }
                _ => {
                    self.outside.now = end;
                    return false;
                }
            }
        }
    }

    /// Commands that hosts have not submitted yet.
    pub(crate) fn commands_left(&self) -> u32 {
        let commands: u32 = self.workers.iter().map(Worker::commands_left).sum();
        let requests: u32 = self.clients.iter().map(Client::requests_left).sum();
        let tasks: u32 = self.initiators.iter().map(Initiator::commands_left).sum();
        commands + requests + tasks
    }

    /// How many commands are to be left at each of `count` moments.
    pub(crate) fn draw_shares_of_work(&mut self, count: u32) -> Vec<u32> {
        let all = u64::from(self.commands_left());
        let draw = |_| u32::try_from(self.dice.between(0, all)).expect("a share of a u32");
        let mut shares: Vec<u32> = (0..count).map(draw).collect();
        shares.sort_unstable_by(|a, b| b.cmp(a));
        shares
    }

    pub(crate) fn draw_coin(&mut self) -> bool {
        self.dice.coin()
    }

    /// Goes on for `span`.
    pub fn run_for(&mut self, span: Nanos) {
        self.run_until(span, |_| false);
    }

    /// Whether every working host has done all that it had to do.
    pub fn is_work_done(&self) -> bool {
        self.workers.iter().all(|worker| worker.commands_left() == 0 && worker.in_flight() == 0)
            && self.initiators.iter().all(|it| it.commands_left() == 0 && it.in_flight() == 0)
            && self.clients.iter().all(|client| {
                client.is_deaf() || (client.requests_left() == 0 && client.in_flight() == 0)
            })
    }

    /// Goes on until all work is done.
    ///
    /// # Panics
    /// When some command is never answered.
    pub fn finish_work(&mut self) {
        let is_done = self.run_until(PATIENCE, Self::is_work_done);
        let left: Vec<_> =
            self.workers.iter().map(|w| (w.life, w.commands_left(), w.in_flight())).collect();
        let clients: Vec<_> =
            self.clients.iter().map(|c| (c.requests_left(), c.in_flight(), c.link())).collect();
        let initiators: Vec<_> = self
            .initiators
            .iter()
            .map(|initiator| (initiator.life, initiator.commands_left(), initiator.in_flight()))
            .collect();
        let now = self.now();
        assert!(is_done, "not done at {now:?}: {left:?}, {clients:?}, {initiators:?}");
    }

    /// From now on nothing is lost and nothing fails.
    pub fn calm(&mut self) {
        let calmed = self.plan.faults.calmed();
        self.outside.network.faults = calmed.network;
        for disk in &mut self.outside.disks {
            disk.faults = calmed.disk;
        }
    }

    /// Gives the first volume another size, as the control plane does: first every core knows, then
    /// hosts.
    ///
    /// # Panics
    /// When the cores do not confirm.
    pub fn resize(&mut self) {
        let seam = self.plan.node.block_size.blocks_in(nearflash_space::GRANULE).0;
        let blocks = Blocks(self.dice.between(2 * seam + 8, 2 * seam + 40));
        self.outside.size = None;
        let number = self.node.resize(0, blocks, &mut self.outside);
        let cores = self.node.core_count();
        assert!(
            self.run_until(PATIENCE, |sim| sim.cores_with_volumes(number) == cores),
            "every core takes the volumes"
        );
        self.node.export(&mut self.outside);
        let exported = self.run_until(PATIENCE, |sim| {
            let initiators = sim.iscsi_taken.iter().filter(|(taken, _)| *taken >= number).count();
            sim.namespaces_taken >= number && initiators >= cores
        });
        assert!(exported, "hosts see the new size");
        self.export_direct();
        self.node.tell_of_capacity(&mut self.outside);
        self.outside.size = Some((self.outside.tick(), blocks.0));
    }

    /// The power goes: what is left on the disks is checked, and the node starts again.
    ///
    /// # Panics
    /// When something durable is lost.
    pub fn lose_power(&mut self) {
        for host in 0..self.workers.len() {
            if !matches!(self.workers[host].life, Life::Away(_) | Life::Gone) {
                let next = self.workers[host].leave(
                    Leaving::Resetting,
                    &mut self.checks,
                    &mut self.outside,
                );
                next.into_iter().for_each(|at| self.look_at(host, at));
            }
        }
        for misfit in &mut self.misfits {
            misfit.leave(&mut self.outside);
        }
        for number in 0..self.clients.len() {
            let (checks, outside) = (&mut self.checks, &mut self.outside);
            let next = self.clients[number].leave(true, &mut self.common, checks, outside);
            self.clients[number].forget();
            let host = self.workers.len() + self.misfits.len() + number;
            next.into_iter().for_each(|at| self.look_at(host, at));
        }
        let first = self.first_initiator();
        for number in 0..self.initiators.len() {
            let initiator = &mut self.initiators[number];
            if !matches!(initiator.life, Life::Away(_) | Life::Gone) {
                let (checks, outside) = (&mut self.checks, &mut self.outside);
                let next = initiator.leave(Leaving::Resetting, checks, outside);
                next.into_iter().for_each(|at| self.look_at(first + number, at));
            }
        }
        self.outside.lose_node();
        self.forget_changes();
        self.judge_steps();
        self.outside.note("power lost", &[]);
        self.check_disks_after_power_loss();
        self.drained.clear();
        self.node.start(&mut self.outside);
    }

    fn check_disks_after_power_loss(&mut self) {
        let volatile = self.plan.node.volatile_cache;
        for block in self.checks.history.blocks() {
            let bytes = self.block_bytes(block);
            self.checks.history.power_lost(block, &bytes, volatile, &self.outside.witness);
        }
        self.checks.history.forget_flushes();
        self.check_clients_after_power_loss();
        self.checks.increments.restart();
    }

    /// What a block holds on its device.
    fn block_bytes(&self, block: Block) -> Vec<u8> {
        let piece = self.node.locate(block.volume, block.lba).expect("the block is the volume's");
        let disk = usize::try_from(piece.device.0).expect("few devices");
        self.outside.disks[disk].bytes(piece.offset, piece.len).to_vec()
    }

    /// Whether a working host has done all that it had to do.
    pub fn is_done(&self, host: usize) -> bool {
        let worker = &self.workers[host];
        worker.commands_left() == 0 && worker.in_flight() == 0
    }

    /// Whether the node has closed an I/O queue that a host still thinks it has.
    pub fn is_given_up(&self, host: usize) -> bool {
        let mut links = self.workers[host].io_links();
        links.any(|link| self.outside.network.is_closed_by_node(link))
    }

    /// How often a working host was told that something happened.
    pub fn events(&self, host: usize) -> u32 {
        self.workers[host].events
    }

    /// How often a working initiator was told this, by unit attentions: ASC and ASCQ.
    pub fn told(&self, initiator: usize, code: u16) -> u32 {
        self.initiators[initiator].told(code)
    }

    /// The least that is free in any core's pool, in bytes.
    pub fn pool_free_min(&self) -> ByteLen {
        self.node.pools_free().min().expect("a node has a core")
    }

    /// How many connections the node has.
    pub fn connections(&self) -> usize {
        self.outside.network.open_at_node().count()
    }

    /// Tells the node to drain, and waits until it has. Hosts may be at work.
    ///
    /// # Panics
    /// When it does not, or keeps anything.
    pub fn drain(&mut self) {
        self.outside.is_draining = true;
        self.node.tell_all(&mut self.outside, || Message::Drain);
        let cores = self.node.core_count();
        let drained = self.run_until(PATIENCE, |sim| sim.drained.len() == cores);
        assert!(drained, "the node is told to drain and does: {:?}", self.drained);
        // One that was on its way, to the first core or from core to core, is closed where it arrives.
        self.run_until(Nanos::from_secs(10), |sim| sim.connections() == 0);
        let open: Vec<LinkId> = self.outside.network.open_at_node().collect();
        assert!(open.is_empty(), "a drained node has no connections: {open:?}");
        assert_eq!(self.outside.rings.count(), 0, "no memory is shared without a connection");
        assert!(self.node.pools_are_whole(), "all buffers are back once all connections are gone");
        let in_flight: usize = self.outside.disks.iter().map(Disk::in_flight).sum();
        assert_eq!(in_flight, 0, "a drained node has nothing on its devices");
    }

    /// Everybody stops doing anything new; what is under way ends.
    ///
    /// # Panics
    /// When some command is never answered, or a connection that should have ended is there.
    pub fn rest(&mut self) {
        for worker in &mut self.workers {
            worker.resting = true;
        }
        for misfit in &mut self.misfits {
            misfit.stop();
        }
        for client in &mut self.clients {
            client.resting = true;
        }
        for initiator in &mut self.initiators {
            initiator.resting = true;
        }
        let idle = self.run_until(PATIENCE, |sim| {
            sim.workers.iter().all(|w| w.in_flight() == 0)
                && sim.initiators.iter().all(|initiator| initiator.in_flight() == 0)
                && sim.clients.iter().all(|client| client.in_flight() == 0)
        });
        assert!(idle, "every command is answered, or its connection lost");
    }

    /// Connections on which the node hears nothing have been closed, once there was time for it.
    ///
    /// # Panics
    /// When one is there.
    pub fn check_silence_ends(&mut self) {
        let node = &self.plan.node;
        // The longest keep-alive time-out that hosts ask for, and a second or two for each look.
        let longest =
            Nanos::from_secs(5).max(node.stall_timeout).max(node.session.handshake_timeout);
        self.run_for(longest.plus(Nanos::from_secs(15)));
        let silenced = self.workers.iter().flat_map(|worker| &worker.silenced);
        for (since, link) in silenced.chain(self.misfits.iter().flat_map(|misfit| &misfit.links)) {
            let is_closed = self.outside.network.is_closed_by_node(*link);
            assert!(
                is_closed,
                "{link:?} is silent since {since:?}, and the node has not closed it"
            );
        }
    }

    /// The node has nothing under way: every block holds what it may, and counters count all.
    ///
    /// # Panics
    /// When one does not.
    pub fn check_disks(&mut self) {
        let now = self.outside.tick();
        self.checks.history.all_ended(now);
        let (sent, now) = (self.outside.tick(), self.outside.tick());
        for block in self.checks.history.blocks() {
            let value = Value::of(&self.block_bytes(block));
            self.checks.history.read(block, value, (sent, now), &self.outside.witness);
            if block.lba.0 == self.counter {
                self.checks.increments.check(block, value);
            }
        }
        self.check_clients_at_rest();
    }
}
