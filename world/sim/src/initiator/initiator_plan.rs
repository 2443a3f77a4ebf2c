//! The plan of an initiator: given by a scenario, or drawn from the seed.

use nearflash_units::Nanos;

use crate::Dice;
use crate::workload::Mix;

/// The plan of an initiator.
#[derive(Clone, Debug)]
pub struct InitiatorPlan {
    /// Connections of its session.
    pub connections: u16,
    /// Commands in flight on each.
    pub depth: u16,
    /// HeaderDigest and DataDigest that it offers.
    pub digests: (bool, bool),
    /// InitialR2T that it offers.
    pub initial_r2t: bool,
    /// ImmediateData that it offers.
    pub immediate_data: bool,
    /// FirstBurstLength and MaxBurstLength that it offers.
    pub bursts: (u32, u32),
    /// MaxRecvDataSegmentLength that it declares.
    pub receive_len_max: u32,
    /// The total number of commands that it submits.
    pub commands: u32,
    /// The time between two steps.
    pub think: (Nanos, Nanos),
    /// The share of steps in which it loses all its connections.
    pub leave_permille: u32,
    /// The share of commands with which it requests a reset or an abort: of its own commands, or of
    /// everybody's.
    pub manage_permille: u32,
    /// The share of these requests that reset the target and end all sessions.
    pub cold_permille: u32,
    /// The share of steps in which it registers, reserves, preempts or releases.
    pub rival_permille: u32,
    /// The mix of its other commands.
    pub mix: Mix,
}

impl InitiatorPlan {
    /// A plain initiator with this many commands to submit.
    pub fn plain(commands: u32) -> Self {
        Self {
            connections: 1,
            depth: 8,
            digests: (false, false),
            initial_r2t: true,
            immediate_data: true,
            bursts: (65_536, 262_144),
            receive_len_max: 65_536,
            commands,
            think: (Nanos::from_micros(1), Nanos::from_micros(200)),
            leave_permille: 0,
            manage_permille: 0,
            cold_permille: 0,
            rival_permille: 0,
            mix: Mix { tails: 0, ..Mix::USUAL },
        }
    }

    /// From the seed.
    pub fn draw(dice: &mut Dice) -> Self {
        let first_burst = dice.pick(&[512, 4096, 65_536]);
        Self {
            connections: dice.pick(&[1, 1, 2, 3]),
            depth: dice.pick(&[2, 4, 16, 64]),
            digests: (dice.coin(), dice.coin()),
            initial_r2t: dice.coin(),
            immediate_data: dice.coin(),
            bursts: (first_burst, first_burst * dice.pick(&[1, 4])),
            receive_len_max: dice.pick(&[512, 8192, 65_536]),
            commands: dice.pick(&[50, 300]),
            think: (Nanos(100), Nanos::from_micros(dice.pick(&[5, 200, 5_000]))),
            leave_permille: dice.pick(&[0, 0, 1, 5]),
            manage_permille: dice.pick(&[0, 5, 50]),
            cold_permille: dice.pick(&[0, 0, 100]),
            rival_permille: dice.pick(&[0, 0, 20, 100]),
            mix: Mix::draw(dice),
        }
    }

    /// On volumes of another node: see [`crate::WorkerPlan::far`].
    pub fn far(mut self) -> Self {
        self.mix = Mix { steps: 0, overwrites: 0, touches: 0, tails: 0, ..self.mix };
        (self.rival_permille, self.manage_permille) = (0, 0);
        self
    }

    /// Compare-and-writes and the reads that they need.
    pub fn counting(mut self) -> Self {
        self.mix = Mix { steps: 5, overwrites: 1, ..Mix::default() };
        self
    }
}
