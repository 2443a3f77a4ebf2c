//! The plan of a run: derived from the seed, or given by a scenario.

use nearflash_engine::DEVICE_DEPTH;
use nearflash_nvme_tcp::Digests;
use nearflash_nvme_tcp::pdu::DataAlignment;
use nearflash_nvme_tcp::serving::SessionConfig;
use nearflash_units::{BlockSize, ByteLen, KIB, MIB, Nanos};

use crate::client::client_plan::ClientPlan;
use crate::host::misfit::MisfitPlan;
use crate::host::worker_plan::WorkerPlan;
use crate::initiator::initiator_plan::InitiatorPlan;
use crate::machine::Clock;
use crate::misbehaviour::Misbehaviour;
use crate::node::NodeConfig;
use crate::{Dice, Faults, MachineFaults};

/// A connection that carries writes has room for so many bytes in transit.
const CARRIES_WRITES: usize = 64 * 1024;

/// A run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed of all random choices.
    pub seed: u64,
    /// The faults of the run.
    pub faults: Faults,
    /// The nodes, all alike.
    pub node: NodeConfig,
    /// The clock of each node's machine. Hosts of each kind are given to the nodes in turn.
    pub clocks: Vec<Clock>,
    /// The faults of machines.
    pub machine_faults: MachineFaults,
    /// Hosts that work.
    pub workers: Vec<WorkerPlan>,
    /// Hosts that work on the volumes of a node over the next one, which serves them as volumes of
    /// another node. Only where there are several nodes.
    pub far: Vec<WorkerPlan>,
    /// iSCSI initiators that work.
    pub initiators: Vec<InitiatorPlan>,
    /// The same on the volumes of a node over the next one. Only where there are mirrors.
    pub far_initiators: Vec<InitiatorPlan>,
    /// Direct clients.
    pub clients: Vec<ClientPlan>,
    /// The number of times that a direct client loses its grants for a while. Only where there are
    /// keys.
    pub revocations: u32,
    /// Hosts that misbehave.
    pub misfits: Vec<MisfitPlan>,
    /// The number of size changes of a volume.
    pub resizes: u32,
    /// The number of times that an operator clears suspect devices.
    pub clearings: u32,
    /// The number of power losses, each followed by a restart.
    pub power_losses: u32,
    /// The number of times that all mirrors get another term, and all replicas another session, with the
    /// same members.
    pub terms: u32,
    /// The node is told to drain while hosts are at work.
    pub drain_while_busy: bool,
    /// The longest command.
    pub command_len_max: ByteLen,
}

impl Plan {
    /// No faults, and no peers yet.
    pub fn calm(seed: u64) -> Self {
        Self {
            seed,
            faults: Faults::none(),
            node: NodeConfig {
                cores: 2,
                pool_len: ByteLen(4 * MIB),
                block_size: BlockSize::B512,
                device_block_size: BlockSize::B512,
                volatile_cache: true,
                session: SessionConfig {
                    in_capsule_len_max: 8192,
                    handshake_timeout: Nanos::from_secs(3),
                    ..SessionConfig::default()
                },
                keys: true,
                credits: 16,
                stall_timeout: Nanos::from_secs(5),
                device_depth: DEVICE_DEPTH,
                mirrored: None,
            },
            clocks: vec![Clock::default()],
            machine_faults: MachineFaults::default(),
            workers: Vec::new(),
            far: Vec::new(),
            initiators: Vec::new(),
            far_initiators: Vec::new(),
            clients: Vec::new(),
            revocations: 0,
            misfits: Vec::new(),
            resizes: 0,
            clearings: 0,
            power_losses: 0,
            terms: 0,
            drain_while_busy: false,
            command_len_max: ByteLen(16 * KIB),
        }
    }

    /// The plan of this seed.
    pub fn draw(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let dice = &mut dice;
        let faults = Faults::draw(dice);
        let session = SessionConfig {
            anonymous: true,
            in_capsule_len_max: 8192,
            h2c_data_len_max: dice.pick(&[4096, 65_536, 1_048_576]),
            handshake_timeout: Nanos::from_secs(dice.between(2, 5)),
            digests: dice.pick(&[Digests::BOTH, Digests::BOTH, Digests::NONE]),
            alignment: DataAlignment(dice.pick(&[0, 0, 7])),
        };
        let (cores, pool_len) = (dice.pick(&[1, 2, 2, 3]), dice.pick(&[2, 2, 4, 8]) * MIB);
        let block_size = dice.pick(&[BlockSize::B512, BlockSize::B4096]);
        // With its own dice, as `latent_permille` below, so that the rest of each seed's run does not
        // depend on it.
        let larger = Dice::new(seed ^ 0xB10C).pick(&[block_size, block_size, BlockSize::B4096]);
        let node = NodeConfig {
            cores,
            pool_len: ByteLen(pool_len).max(pool_min(larger)),
            block_size,
            device_block_size: larger,
            volatile_cache: !dice.permille(250),
            session,
            keys: false,
            credits: 16,
            stall_timeout: Nanos::from_secs(dice.between(3, 6)),
            device_depth: Dice::new(seed ^ 0xDE97).pick(&[1, 2, 4, 16, DEVICE_DEPTH]),
            mirrored: None,
        };
        let mut workers: Vec<_> = (0..dice.between(1, 4)).map(|_| WorkerPlan::draw(dice)).collect();
        let misfit_count = dice.between(0, 2);
        let misfit = |_| MisfitPlan {
            how: Misbehaviour::draw(dice, 200, &[0, 128, 200]),
            visits: dice.pick(&[1, 2, 5]),
        };
        let misfits = (0..misfit_count).map(misfit).collect();
        // A stream in small pieces is slow to simulate, and a short one tests the same.
        let piece = ByteLen::from_usize(faults.network.piece_len_max).0;
        let command_len_max = ByteLen((piece * 64).clamp(4 * KIB, 128 * KIB));
        for worker in workers.iter_mut().filter(|_| piece <= 100) {
            worker.commands = worker.commands.min(10 * u32::try_from(piece).unwrap_or(u32::MAX));
        }
        let mut plan = Self {
            seed,
            faults,
            node,
            clocks: vec![Clock::default()],
            machine_faults: MachineFaults::default(),
            workers,
            far: Vec::new(),
            initiators: Vec::new(),
            far_initiators: Vec::new(),
            clients: Vec::new(),
            revocations: 0,
            misfits,
            resizes: dice.pick(&[0, 0, 2, 6]),
            clearings: 0,
            power_losses: dice.pick(&[0, 0, 1, 3]),
            terms: 0,
            drain_while_busy: dice.coin(),
            command_len_max,
        };
        plan.draw_clients(dice);
        plan.draw_initiators(dice);
        if plan.faults.disk.write_error_permille > 0 {
            plan.clearings = Dice::new(seed ^ 0xC1EA).pick(&[0, 1, 3]);
        }
        // The history assumes that an answer from before a clearing arrives before it; pauses delay answers.
        if plan.clearings == 0 {
            plan.machine_faults.pauses = Dice::new(seed ^ 0x9A05E).pick(&[0, 0, 1, 2]);
        }
        let mut latent = Dice::new(seed ^ 0x1A7E);
        plan.faults.disk.latent_permille = latent.pick(&[0, 0, 0, 5]);
        plan
    }

    /// The plan of this seed with several nodes, whose clocks drift, and with faults of single machines.
    /// Each node has at least one host.
    pub fn draw_several(seed: u64) -> Self {
        let mut plan = Self::draw(seed);
        let mut dice = Dice::new(seed ^ 0x5E7E_7A15);
        let nodes = dice.len(2, 3);
        let clock = |_| Clock {
            base: Nanos::from_millis(dice.between(0, 1 << 40)),
            drift_ppm: i32::try_from(dice.between(0, 20_000)).expect("a small drift") - 10_000,
        };
        plan.clocks = (0..nodes).map(clock).collect();
        while plan.workers.len() < nodes {
            let next = plan.workers[0].clone();
            plan.workers.push(next);
        }
        // The history assumes that an answer from before a clearing arrives before it; pauses and
        // partitions delay answers for longer.
        plan.clearings = 0;
        plan.machine_faults = MachineFaults {
            power_losses: dice.pick(&[0, 1, 3]),
            partitions: dice.pick(&[0, 1, 4]),
            isolations: dice.pick(&[0, 1, 2]),
            node_partitions: 0,
            pauses: dice.pick(&[0, 1, 3]),
        };
        plan
    }

    /// The plan of this seed with several nodes, of which each serves volumes of the next one too, to
    /// hosts of its own.
    pub fn draw_far(seed: u64) -> Self {
        let mut plan = Self::draw_several(seed);
        let mut dice = Dice::new(seed ^ 0xFA5);
        let worker = |_| WorkerPlan::draw(&mut dice).far();
        plan.far = plan.clocks.iter().map(worker).collect();
        for far in &mut plan.far {
            far.commands = far.commands.min(300);
        }
        plan.machine_faults.node_partitions = dice.pick(&[0, 2, 5]);
        plan
    }

    /// The plan of this seed with two or three nodes, which keep the volumes of their peers twice: on the
    /// node itself, and on another one.
    pub fn draw_mirrored(seed: u64) -> Self {
        let mut plan = Self::draw_far(seed).mirrored();
        let mut dice = Dice::new(seed ^ 0x3144_0454);
        let away = dice.len(1, plan.clocks.len() - 1);
        plan.node.mirrored = Some(away);
        plan.terms = dice.pick(&[0, 2, 6]);
        let initiator = |_| InitiatorPlan::draw(&mut dice).far();
        plan.far_initiators = plan.clocks.iter().map(initiator).collect();
        plan
    }

    /// The same with mirrors, and without what a node with a static membership cannot stand: losses of
    /// power, devices that fail writes, and a drain that waits for a node that is drained. Of the compound
    /// operations, only those are left of which all requests come to the primary.
    pub fn mirrored(mut self) -> Self {
        self.node.mirrored = Some(1);
        self.node.device_block_size = self.node.block_size;
        // A shorter pool has no reserves for other nodes.
        self.node.pool_len = self.node.pool_len.max(ByteLen(5 * MIB));
        self.power_losses = 0;
        self.machine_faults.power_losses = 0;
        self.drain_while_busy = false;
        self.clearings = 0;
        // A write is tried again until its bytes have arrived, and connections that live for some hundred
        // bytes carry none.
        if self.faults.network.buffer_len < CARRIES_WRITES {
            self.faults.network.reset_permille = 0;
        }
        let disk = &mut self.faults.disk;
        (disk.write_error_permille, disk.no_space_permille) = (0, 0);
        (disk.gone_permille, disk.latent_permille) = (0, 0);
        let mixes = self.workers.iter_mut().map(|worker| &mut worker.mix);
        let mixes = mixes.chain(self.initiators.iter_mut().map(|initiator| &mut initiator.mix));
        for mix in mixes.chain(self.clients.iter_mut().map(|client| &mut client.mix)) {
            mix.touches = 0;
        }
        self
    }

    fn draw_initiators(&mut self, dice: &mut Dice) {
        self.initiators = (0..dice.between(0, 3)).map(|_| InitiatorPlan::draw(dice)).collect();
        let piece = self.faults.network.piece_len_max;
        for initiator in self.initiators.iter_mut().filter(|_| piece <= 100) {
            initiator.commands = initiator.commands.min(40);
        }
    }

    fn draw_clients(&mut self, dice: &mut Dice) {
        self.clients = (0..dice.between(0, 4)).map(|_| ClientPlan::draw(dice)).collect();
        let piece = self.faults.network.piece_len_max;
        for client in self.clients.iter_mut().filter(|_| piece <= 100) {
            client.requests = client.requests.min(40);
        }
        self.node.keys = dice.permille(700);
        self.node.credits = dice.pick(&[1, 4, 32]);
        self.revocations = if self.node.keys { dice.pick(&[0, 1, 3]) } else { 0 };
    }
}

/// The least pool. The engine keeps a longest buffer for itself, and a part of another one if devices have
/// large blocks. One must be left.
fn pool_min(device_block_size: BlockSize) -> ByteLen {
    ByteLen(if device_block_size > BlockSize::B512 { 3 * MIB } else { 2 * MIB })
}
