//! The start of a run: the participants, the blocks they work on, and the time of each one's first
//! step.

use nearflash_units::{BlockSize, ByteLen, Nanos};

use crate::Dice;
use crate::changes::Changes;
use crate::client::grants::Grants;
use crate::client::ground::Ground;
use crate::client::worker::{Client, Common};
use crate::disk::Disk;
use crate::failures::Failures;
use crate::faults::Faults;
use crate::files_owner::FilesOwners;
use crate::host::misfit::Misfit;
use crate::host::worker::Worker;
use crate::host::worker_plan::WorkerPlan;
use crate::initiator::initiator_plan::InitiatorPlan;
use crate::initiator::worker::Initiator;
use crate::judge::Checks;
use crate::machine::{Clock, Machine, NodeId};
use crate::network::{HostId, Network, Route};
use crate::node::{DISKS, Node, SimVolume};
use crate::outside::Outside;
use crate::plan::Plan;
use crate::rivalry::Rival;
use crate::sim::Sim;
use crate::workload::Field;

/// The blocks on which a node's peers work, around those of `hot`.
fn field(plan: &Plan, node: &Node, half: u64) -> Field {
    let block_size: BlockSize = plan.node.block_size;
    let seam = block_size.blocks_in(nearflash_space::GRANULE).0;
    let is_checked = |volume: &&SimVolume| volume.is_checked() && volume.id != node.id.shared_id();
    let checked = node.volumes().iter().filter(is_checked);
    Field {
        block_size,
        volumes: checked.map(|volume| (volume.id, volume.namespace)).collect(),
        hot: (seam - half, seam + half),
        counters: [seam + 40, seam + 41],
        tail: (2 * seam + 8, 2 * seam + 44),
        blocks: (1, block_size.blocks_in(plan.command_len_max).0.max(1)),
    }
}

/// The direct clients' layout: around the seam of their volume.
fn ground(plan: &Plan) -> Ground {
    let clients = u64::try_from(plan.clients.len()).expect("few clients");
    let block_len = u64::from(plan.node.block_size.bytes());
    Ground::new(nearflash_space::GRANULE.0, clients, plan.command_len_max.0, block_len)
}

/// The fields of all nodes, and the place of each host: hosts of a kind are given to the nodes in turn.
struct Places {
    fields: Vec<Field>,
    /// The node of each host.
    homes: Vec<NodeId>,
}

impl Places {
    /// The next host, the `number`th of its kind, with the field on which it works.
    fn next(&mut self, number: u32) -> (Route, Field) {
        let index = usize::try_from(number).expect("few hosts");
        let node = NodeId(index % self.fields.len());
        let route = Route { host: HostId(self.homes.len()), node };
        self.homes.push(node);
        (route, self.fields[node.0].clone())
    }
}

fn workers(
    plan: &Plan,
    rivals: &mut impl Iterator<Item = Rival>,
    places: &mut Places,
    dice: &mut Dice,
) -> Vec<Worker> {
    let worker = |((number, worker), rival): ((u32, &WorkerPlan), Rival)| {
        let (route, field) = places.next(number);
        let blocks = |len| field.block_size.blocks_in(len).0.max(1);
        let own = worker.lens.map(|(least, most)| (blocks(least), blocks(most)));
        let field = Field { blocks: own.unwrap_or(field.blocks), ..field };
        Worker::new((number, route, rival), worker.clone(), field, dice.fork())
    };
    (0..).zip(&plan.workers).zip(&mut *rivals).map(worker).collect()
}

/// Hosts that work on the volumes of each node over the one before it.
fn far_workers(
    plan: &Plan,
    rivals: &mut impl Iterator<Item = Rival>,
    places: &mut Places,
    dice: &mut Dice,
) -> Vec<Worker> {
    let first = u32::try_from(plan.workers.len()).expect("few hosts");
    let worker = |((number, worker), rival): ((u32, &WorkerPlan), Rival)| {
        let (route, _) = places.next(number);
        let field = places.fields[route.node.next(places.fields.len()).0].clone();
        Worker::new((number, route, rival), worker.clone(), field, dice.fork())
    };
    (first..).zip(&plan.far).zip(&mut *rivals).map(worker).collect()
}

fn initiators(
    plan: &Plan,
    rivals: &mut impl Iterator<Item = Rival>,
    places: &mut Places,
    dice: &mut Dice,
) -> Vec<Initiator> {
    let initiator = |((number, initiator), rival): ((u32, &InitiatorPlan), Rival)| {
        let (route, field) = places.next(number);
        Initiator::new((number, route, rival), initiator.clone(), field, dice.fork())
    };
    (0..).zip(&plan.initiators).zip(rivals).map(initiator).collect()
}

/// Initiators that work on the volumes of each node over the one before it.
fn far_initiators(
    plan: &Plan,
    rivals: &mut impl Iterator<Item = Rival>,
    places: &mut Places,
    dice: &mut Dice,
) -> Vec<Initiator> {
    let first = u32::try_from(plan.initiators.len()).expect("few hosts");
    let initiator = |((number, initiator), rival): ((u32, &InitiatorPlan), Rival)| {
        let (route, _) = places.next(number);
        let field = places.fields[route.node.next(places.fields.len()).0].clone();
        Initiator::new((number, route, rival), initiator.clone(), field, dice.fork())
    };
    (first..).zip(&plan.far_initiators).zip(rivals).map(initiator).collect()
}

/// The machines, each with its devices.
fn machines(plan: &Plan, block_len: usize, dice: &mut Dice) -> Vec<Machine> {
    let Faults { disk, core, .. } = plan.faults;
    let device = Node::device(&plan.node);
    let machine = |clock: &Clock| {
        let disks = (0..DISKS).map(|_| Disk::new(device, block_len, disk, dice.fork())).collect();
        Machine::new(*clock, disks, core)
    };
    plan.clocks.iter().map(machine).collect()
}

fn nodes(plan: &Plan, ground: &Ground, outside: &mut Outside) -> Vec<Node> {
    let keeps: Vec<bool> = plan.clients.iter().map(|client| client.crooked.is_none()).collect();
    let node = |id| {
        let mut grants = Grants::new(id, ground.clone(), keeps.clone());
        grants.admits_nodes = !plan.far.is_empty();
        Node::new(id, plan.node.clone(), grants, outside)
    };
    (0..plan.clocks.len()).map(NodeId).map(node).collect()
}

impl Sim {
    /// The start of a run.
    pub fn new(plan: Plan) -> Self {
        let mut dice = Dice::new(plan.seed ^ 0x5EED);
        let network = Network::new(plan.faults.network, plan.clocks.len(), dice.fork());
        let block_len = ByteLen(u64::from(plan.node.block_size.bytes())).to_usize();
        let machines = machines(&plan, block_len, &mut dice);
        let mut outside = Outside::new(dice.fork(), network, machines, block_len);
        outside.is_mirrored = plan.node.mirrored.is_some();
        outside.witness.is_mirrored = outside.is_mirrored;
        let ground = ground(&plan);
        let nodes = nodes(&plan, &ground, &mut outside);
        outside.failures = Failures::new(nodes.iter().flat_map(Node::parts).collect());
        let half = dice.between(2, 8);
        let fields = nodes.iter().map(|node| field(&plan, node, half)).collect();
        let mut places = Places { fields, homes: Vec::new() };
        let initiator_count = plan.initiators.len() + plan.far_initiators.len();
        let files = FilesOwners::new(nodes.len(), Dice::new(plan.seed ^ 0xF11E5));
        let rival_count = plan.workers.len() + plan.far.len() + initiator_count;
        let mut rivals = Rival::several(u64::try_from(rival_count).expect("few hosts"));
        let mut workers = workers(&plan, &mut rivals, &mut places, &mut dice);
        workers.extend(far_workers(&plan, &mut rivals, &mut places, &mut dice));
        let misfits: Vec<Misfit> = (0..)
            .zip(&plan.misfits)
            .map(|(number, misfit)| {
                let (route, _) = places.next(number);
                Misfit::new((number, route), *misfit, dice.fork())
            })
            .collect();
        let traits = (plan.node.keys, !plan.node.volatile_cache);
        let clients: Vec<Client> = (0..)
            .zip(&plan.clients)
            .map(|(number, client)| {
                let (route, field) = places.next(number);
                let number = usize::try_from(number).expect("few clients");
                let field = (ground.clone(), field);
                Client::new((number, route), client.clone(), field, traits, dice.fork())
            })
            .collect();
        let mut initiators = initiators(&plan, &mut rivals, &mut places, &mut dice);
        initiators.extend(far_initiators(&plan, &mut rivals, &mut places, &mut dice));
        let changes = Changes::new(nodes.len());
        let mut sim = Self {
            dice,
            outside,
            commons: nodes.iter().map(|_| Common::default()).collect(),
            nodes,
            workers,
            misfits,
            clients,
            initiators,
            changes,
            files,
            ground,
            checks: Checks::default(),
            looks: vec![Nanos::NEVER; places.homes.len()],
            homes: places.homes,
            writers: 0,
            counter: places.fields[0].counters[0],
            notices_judged: 0,
            plan,
        };
        for node in sim.node_ids() {
            let size = (sim.outside.tick(), sim.nodes[node.0].volumes()[0].blocks.0);
            sim.outside.machine_mut(node).size = Some(size);
        }
        for host in 0..sim.looks.len() {
            let at = Nanos::from_micros(sim.dice.between(100, 20_000));
            sim.look_at(host, at);
        }
        sim
    }
}
