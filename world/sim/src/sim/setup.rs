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
use crate::host::misfit::Misfit;
use crate::host::worker::Worker;
use crate::host::worker_plan::WorkerPlan;
use crate::initiator::initiator_plan::InitiatorPlan;
use crate::initiator::worker::Initiator;
use crate::judge::Checks;
use crate::network::Network;
use crate::node::{DISKS, Node, SHARED_ID, SimVolume};
use crate::outside::Outside;
use crate::plan::Plan;
use crate::rivalry::Rival;
use crate::sim::Sim;
use crate::sim::notices::Confirmed;
use crate::workload::Field;

fn field(plan: &Plan, node: &Node, dice: &mut Dice) -> Field {
    let block_size: BlockSize = plan.node.block_size;
    let seam = block_size.blocks_in(nearflash_space::GRANULE).0;
    let half = dice.between(2, 8);
    let is_checked = |volume: &&SimVolume| volume.is_checked() && volume.id != SHARED_ID;
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

fn workers(
    plan: &Plan,
    rivals: &mut impl Iterator<Item = Rival>,
    field: &Field,
    dice: &mut Dice,
) -> Vec<Worker> {
    let worker = |((number, worker), rival): ((u32, &WorkerPlan), Rival)| {
        let blocks = |len| field.block_size.blocks_in(len).0.max(1);
        let own = worker.lens.map(|(least, most)| (blocks(least), blocks(most)));
        let field = Field { blocks: own.unwrap_or(field.blocks), ..field.clone() };
        Worker::new((number, rival), worker.clone(), field, dice.fork())
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
    /// The start of a run.
    pub fn new(plan: Plan) -> Self {
        let mut dice = Dice::new(plan.seed ^ 0x5EED);
        let Faults { network, disk, core } = plan.faults;
        let network = Network::new(network, dice.fork());
        let device = Node::device(&plan.node);
        let block_len = ByteLen(u64::from(plan.node.block_size.bytes())).to_usize();
        let disks = (0..DISKS).map(|_| Disk::new(device, block_len, disk, dice.fork())).collect();
        let mut outside = Outside::new(dice.fork(), network, disks, core, block_len);
        let keeps = plan.clients.iter().map(|client| client.crooked.is_none()).collect();
        let ground = ground(&plan);
        let grants = Grants::new(ground.clone(), keeps);
        let node = Node::new(plan.node.clone(), grants, &mut outside);
        outside.failures = Failures::new(node.parts());
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
        let (common, checks) = (Common::default(), Checks::default());
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
            confirmed: Confirmed::default(),
        };
        sim.outside.size = Some((sim.outside.tick(), sim.node.volumes()[0].blocks.0));
        for host in 0..sim.looks.len() {
            let at = Nanos::from_micros(sim.dice.between(100, 20_000));
            sim.look_at(host, at);
        }
        sim
    }
}
