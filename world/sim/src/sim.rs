//! The run itself: it takes the next event, lets the hosts concerned act, and checks the notices.

mod control;
pub(crate) mod machines;
pub(crate) mod notices;
mod places;
mod power;
mod rest;
mod setup;

use nearflash_engine::CoreId;
use nearflash_shard::Event;
use nearflash_units::{ByteLen, Nanos};

use crate::Dice;
use crate::changes::Changes;
use crate::client::ground::Ground;
use crate::client::worker::{Client, Common};
use crate::files_owner::FilesOwners;
use crate::host::misfit::Misfit;
use crate::host::worker::Worker;
use crate::initiator::worker::Initiator;
use crate::judge::Checks;
use crate::machine::NodeId;
use crate::network::LinkId;
use crate::node::Node;
use crate::outside::{Happening, Outside};
use crate::plan::Plan;

/// The time limit for anything that must end: far more than all the faults together need.
pub(crate) const PATIENCE: Nanos = Nanos::from_secs(600);

/// Nodes, their hosts, and everything between and around them.
#[derive(Debug)]
pub struct Sim {
    pub(crate) plan: Plan,
    pub(crate) dice: Dice,
    pub(crate) outside: Outside,
    /// By [`NodeId`], as `commons`.
    pub(crate) nodes: Vec<Node>,
    pub(crate) workers: Vec<Worker>,
    pub(crate) misfits: Vec<Misfit>,
    pub(crate) clients: Vec<Client>,
    pub(crate) initiators: Vec<Initiator>,
    pub(crate) changes: Changes,
    pub(crate) files: FilesOwners,
    /// State that the direct clients of a node share, by node.
    pub(crate) commons: Vec<Common>,
    pub(crate) ground: Ground,
    pub(crate) checks: Checks,
    /// When each host takes its next step, in this order: workers, misfits, clients, initiators.
    looks: Vec<Nanos>,
    /// The node of each host, in the same order.
    homes: Vec<NodeId>,
    writers: u32,
    /// The block of each first volume that only compare-and-writes change.
    counter: u64,
    notices_judged: usize,
}

impl Sim {
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

    /// Executes the next event. Returns `false` when there is none.
    pub fn step(&mut self) -> bool {
        let Some((at, happening)) = self.outside.agenda.pop() else { return false };
        self.outside.now = at;
        match happening {
            Happening::Wire(delivery) => {
                self.outside.network.deliver(at, delivery);
                self.outside.settle_network();
            }
            Happening::FilesAnswer => self.answer_files(),
            Happening::DiskPart(node, disk, number) => {
                self.outside.machine_mut(node).disks[disk].take_part(number);
            }
            Happening::DiskDone(node, disk, number) => self.end_operation(node, disk, number),
            Happening::Mail(node, road) => self.outside.machine_mut(node).deliver_mail(road),
            Happening::Turn(node, core, ticket) => self.turn(node, core, ticket),
            Happening::Heal(partition) => {
                self.outside.note("partition over", &[]);
                self.outside.network.heal(at, partition);
                self.outside.settle_network();
            }
            Happening::Host(host) => self.look(host),
        }
        self.nodes.iter_mut().for_each(|node| node.wake(&mut self.outside));
        self.judge_steps();
        self.wake_hosts();
        self.judge_notices();
        self.go_on_with_changes();
        true
    }

    /// A core takes its turn, if its machine is not paused.
    fn turn(&mut self, node: NodeId, core: CoreId, ticket: u64) {
        let paused_until = self.outside.machine(node).paused_until;
        if self.outside.now < paused_until {
            let later = Happening::Turn(node, core, ticket);
            return self.outside.agenda.push(paused_until, later);
        }
        self.nodes[node.0].turn(core, ticket, &mut self.outside);
    }

    fn judge_steps(&mut self) {
        for disk in self.outside.machines.iter_mut().flat_map(|machine| &mut machine.disks) {
            for (to, before) in disk.replaced.drain(..) {
                self.checks.increments.took_effect(to, before);
            }
        }
    }

    fn end_operation(&mut self, node: NodeId, disk: usize, number: u64) {
        let core = self.outside.machine(node).disks[disk].core_of(number);
        let pool = self.nodes[node.0].pool(core);
        let ended = self.outside.end_operation(node, disk, number, pool);
        let event = Event::Device(ended.request.id, ended.result);
        self.outside.machine_mut(node).drop_in(core, event);
    }

    fn look(&mut self, host: usize) {
        let now = self.outside.now;
        if self.looks[host] != now {
            return; // its step has moved to another moment
        }
        self.looks[host] = Nanos::NEVER;
        if self.gives_up(host) {
            return;
        }
        let first_misfit = self.workers.len();
        let (first_client, first_initiator) = (self.first_client(), self.first_initiator());
        let outside = &mut self.outside;
        let next = if let Some(worker) = self.workers.get_mut(host) {
            worker.look(&mut self.writers, &mut self.checks, outside)
        } else if let Some(misfit) = self.misfits.get_mut(host - first_misfit) {
            misfit.look(outside)
        } else if let Some(client) = self.clients.get_mut(host - first_client) {
            let common = &mut self.commons[client.route.node.0];
            client.look(&mut self.writers, common, &mut self.checks, outside)
        } else {
            let initiator = &mut self.initiators[host - first_initiator];
            initiator.look(&mut self.writers, &mut self.checks, outside)
        };
        if let Some(next) = next {
            self.look_at(host, next.max(now.plus(Nanos(1))));
        }
        self.note_home(host);
    }

    /// A host may have switched to another node.
    fn note_home(&mut self, host: usize) {
        if let Some(worker) = self.workers.get(host) {
            self.homes[host] = worker.route.node;
        }
    }

    /// Hosts with an event on a connection take a step soon. Misfits keep their own times.
    fn wake_hosts(&mut self) {
        for link in std::mem::take(&mut self.outside.signalled) {
            if let Some(host) = self.host_at(link) {
                let soon = Nanos(self.dice.between(1, 5_000));
                self.look_at(host, self.outside.now.plus(soon));
            }
        }
    }

    /// The host that uses a link now. Misfits keep theirs for themselves.
    fn host_at(&self, link: LinkId) -> Option<usize> {
        let worker = self.workers.iter().position(|worker| worker.has(link));
        let client = self.clients.iter().position(|client| client.has(link));
        let client = client.map(|client| self.first_client() + client);
        let initiator = self.initiators.iter().position(|initiator| initiator.has(link));
        let initiator = initiator.map(|initiator| self.first_initiator() + initiator);
        worker.or(client).or(initiator)
    }

    /// The index of the first client among all hosts.
    fn first_client(&self) -> usize {
        self.workers.len() + self.misfits.len()
    }

    /// The index of the first initiator.
    fn first_initiator(&self) -> usize {
        self.first_client() + self.clients.len()
    }

    /// Runs until `done`, at most for `span`, or until there is no event. Returns whether it is
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

    /// Draws, for each of `count` moments, how many commands are left at it.
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

    /// Runs for `span`.
    pub fn run_for(&mut self, span: Nanos) {
        self.run_until(span, |_| false);
    }

    /// Whether a working host has done all its commands.
    pub fn is_done(&self, host: usize) -> bool {
        let worker = &self.workers[host];
        worker.commands_left() == 0 && worker.in_flight() == 0
    }

    /// Whether the node has closed an I/O queue that a host still regards as open.
    pub fn is_given_up(&self, host: usize) -> bool {
        let mut links = self.workers[host].io_links();
        links.any(|link| self.outside.network.is_closed_by_node(link))
    }

    /// The number of times that a working host connected.
    pub fn joined(&self, host: usize) -> u32 {
        self.workers[host].joined
    }

    /// The number of events reported to a working host.
    pub fn events(&self, host: usize) -> u32 {
        self.workers[host].events
    }

    /// The number of unit attentions with this ASC and ASCQ that a working initiator received.
    pub fn told(&self, initiator: usize, code: u16) -> u32 {
        self.initiators[initiator].told(code)
    }

    /// The fewest free bytes in any core's pool.
    pub fn pool_free_min(&self) -> ByteLen {
        let pools = self.nodes.iter().flat_map(Node::pools_free);
        pools.min().expect("a node has a core")
    }

    /// The number of connections of the nodes.
    pub fn connections(&self) -> usize {
        self.node_ids().map(|node| self.outside.network.open_at(node).count()).sum()
    }

    /// All nodes.
    pub(crate) fn node_ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes.len()).map(NodeId)
    }

    /// Any of the nodes: draws only if there are several.
    fn draw_node(&mut self) -> NodeId {
        let count = self.nodes.len();
        NodeId(if count > 1 { self.dice.index(count) } else { 0 })
    }
}
