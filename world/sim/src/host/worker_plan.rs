//! The plan of a working host: given by a scenario, or drawn from the seed.

use nearflash_nvme_tcp::Digests;
use nearflash_units::{ByteLen, Nanos};

use crate::Dice;
use crate::workload::Mix;

/// The plan of a host: its work and its misbehaviour.
#[derive(Clone, Debug)]
pub struct WorkerPlan {
    /// I/O queues.
    pub io_queues: u16,
    /// Entries of each I/O queue.
    pub entries: u16,
    /// Digests that it requests.
    pub digests: Digests,
    /// The data alignment that it requests (HPDA), in dwords, 0's based.
    pub alignment: u8,
    /// Whether it uses SQ flow control.
    pub flow_control: bool,
    /// The maximum length of the data in a capsule.
    pub in_capsule_len_max: u32,
    /// KATO; 0 turns the timer off.
    pub keep_alive_ms: u32,
    /// The total number of commands that it submits.
    pub commands: u32,
    /// The time between two steps.
    pub think: (Nanos, Nanos),
    /// The share of steps in which it loses all its connections.
    pub leave_permille: u32,
    /// It comes back over the other node that serves its volumes, and repeats its unanswered writes there.
    pub switches: bool,
    /// The share of steps in which it stops reading one of its queues for a while.
    pub deaf_permille: u32,
    /// The duration of that pause.
    pub deaf: Nanos,
    /// Once it has submitted a command to a queue, it receives this many bytes at a time from it,
    /// with pauses of this length.
    pub trickle: Option<(usize, Nanos)>,
    /// The share of steps in which it registers, reserves, preempts or releases.
    pub rival_permille: u32,
    /// The mix of its other commands.
    pub mix: Mix,
    /// The least and greatest length of its reads and writes, if it does not use all lengths.
    pub lens: Option<(ByteLen, ByteLen)>,
}

impl WorkerPlan {
    /// A plain host with this many commands to submit.
    pub fn plain(commands: u32) -> Self {
        Self {
            io_queues: 2,
            entries: 9,
            digests: Digests::NONE,
            alignment: 0,
            flow_control: true,
            in_capsule_len_max: 8192,
            keep_alive_ms: 0,
            commands,
            think: (Nanos::from_micros(1), Nanos::from_micros(200)),
            leave_permille: 0,
            switches: false,
            deaf_permille: 0,
            deaf: Nanos(0),
            trickle: None,
            rival_permille: 0,
            mix: Mix { tails: 0, ..Mix::USUAL },
            lens: None,
        }
    }

    /// From the seed.
    pub fn draw(dice: &mut Dice) -> Self {
        Self {
            io_queues: dice.pick(&[1, 2, 3, 4]),
            entries: dice.pick(&[3, 4, 9, 33]),
            digests: Digests { header: dice.coin(), data: dice.coin() },
            alignment: dice.pick(&[0, 0, 3, 31]),
            flow_control: dice.coin(),
            in_capsule_len_max: dice.pick(&[0, 512, 4096, 8192]),
            keep_alive_ms: dice.pick(&[0, 2_000, 5_000]),
            commands: dice.pick(&[50, 300, 1_000]),
            think: (Nanos(100), Nanos::from_micros(dice.pick(&[5, 200, 5_000]))),
            leave_permille: dice.pick(&[0, 0, 1, 5]),
            switches: false,
            deaf_permille: dice.pick(&[0, 0, 5, 20]),
            deaf: Nanos::from_millis(dice.pick(&[5, 200, 2_000])),
            trickle: None,
            rival_permille: dice.pick(&[0, 0, 20, 100]),
            mix: Mix::draw(dice),
            lens: None,
        }
    }

    /// On volumes of another node, which have no compound operations, and of which other nodes do not
    /// learn reservations and sizes.
    pub fn far(mut self) -> Self {
        let own = Mix { steps: 0, overwrites: 0, touches: 0, tails: 0, ..self.mix };
        (self.mix, self.rival_permille) = (own, 0);
        self
    }

    /// Reads only.
    pub fn reading(mut self) -> Self {
        self.mix = Mix { reads: 1, ..Mix::default() };
        self
    }

    /// Compare-and-writes and the reads that they need.
    pub fn counting(mut self) -> Self {
        self.mix = Mix { steps: 5, overwrites: 1, ..Mix::default() };
        self
    }
}
