//! The faults of a run. The rates themselves are drawn from the seed, so that some runs are calm,
//! some are bad in one way, and some in all.

use nearflash_units::{ByteLen, KIB, Nanos};

use crate::Dice;

/// The timing, limits and faults of networks.
#[derive(Clone, Copy, Debug)]
pub struct NetworkFaults {
    /// From send to arrival.
    pub latency: (Nanos, Nanos),
    /// The longest piece in which bytes arrive.
    pub piece_len_max: usize,
    /// Bytes in transit, after which nothing more can be sent.
    pub buffer_len: usize,
    /// A send or receive moves fewer bytes than it could.
    pub short_permille: u32,
    /// A piece, and all bytes after it, come late.
    pub stall_permille: u32,
    /// The delay of such a piece.
    pub stall: Nanos,
    /// A send finds its connection reset.
    pub reset_permille: u32,
}

impl NetworkFaults {
    /// The mean rate, in bytes per second, of a stream that keeps the network's buffer full.
    pub fn mean_rate(&self) -> ByteLen {
        let buffer = ByteLen::from_usize(self.buffer_len).0;
        // A piece has half of the greatest length on average.
        let pieces = (2 * buffer / ByteLen::from_usize(self.piece_len_max).0).max(1);
        let stalls = self.stall.0 * u64::from(self.stall_permille) * pieces / 1000;
        // The buffer is free again after the way there and back.
        ByteLen(buffer * Nanos::from_secs(1).0 / (2 * self.latency.1.0 + stalls).max(1))
    }
}

/// The faults of devices.
#[derive(Clone, Copy, Debug)]
pub struct DiskFaults {
    /// From submission to completion.
    pub latency: (Nanos, Nanos),
    /// An operation takes much longer.
    pub slow_permille: u32,
    /// How much longer.
    pub slow: Nanos,
    /// An operation ends while it is being submitted.
    pub at_once_permille: u32,
    /// An operation's blocks take effect at two moments rather than one.
    pub split_permille: u32,
    /// A read fails.
    pub read_error_permille: u32,
    /// A write, a flush, zeroes or a deallocation fails; any part of it may have taken effect.
    pub write_error_permille: u32,
    /// A write finds no space.
    pub no_space_permille: u32,
    /// An operation finds the device gone.
    pub gone_permille: u32,
    /// A block that is written cannot be read from then on, until it is written again.
    pub latent_permille: u32,
    /// Operations on these bytes, from the first to the one after the last, hang until the run
    /// becomes calm.
    pub hung: Option<(u64, u64)>,
    /// Faults that the device reports to nobody, and that the node does not promise to detect.
    pub betrayal: Betrayal,
}

/// Silent faults of a device. No seed draws them: runs with them show that the checkers detect
/// them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Betrayal {
    /// A block is acknowledged and not written.
    pub lost_permille: u32,
    /// A block is written to another place.
    pub misdirected_permille: u32,
    /// A bit of a block is written wrongly.
    pub corrupt_permille: u32,
}

impl DiskFaults {
    /// Whether any operation can fail.
    pub fn can_fail(&self) -> bool {
        self.read_error_permille
            + self.write_error_permille
            + self.no_space_permille
            + self.gone_permille
            + self.latent_permille
            > 0
    }
}

/// How cores take turns.
#[derive(Clone, Copy, Debug)]
pub struct CoreFaults {
    /// From one turn to the next while awake.
    pub turn: (Nanos, Nanos),
    /// A turn comes late, as on a machine that is shared.
    pub pause_permille: u32,
    /// The delay of such a turn.
    pub pause: Nanos,
    /// How long a core turns without work before it sleeps.
    pub spin: Nanos,
    /// From a message's sending to its arrival.
    pub mail: (Nanos, Nanos),
    /// Events taken in one turn.
    pub events_per_turn_max: usize,
}

/// The number of faults of single machines.
#[derive(Clone, Copy, Debug, Default)]
pub struct MachineFaults {
    /// One machine loses its power.
    pub power_losses: u32,
    /// A host and its node do not hear each other for a while, in one direction or in both.
    pub partitions: u32,
    /// A node and all its hosts do not hear each other for a while.
    pub isolations: u32,
    /// Two nodes do not hear each other for a while, in one direction or in both.
    pub node_partitions: u32,
    /// A node takes no turns for a while.
    pub pauses: u32,
}

/// All faults of a run.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// Of the network.
    pub network: NetworkFaults,
    /// Of the devices.
    pub disk: DiskFaults,
    /// Of the cores.
    pub core: CoreFaults,
}

const MICRO: Nanos = Nanos::from_micros(1);

fn micros(range: (u64, u64)) -> (Nanos, Nanos) {
    (Nanos::from_micros(range.0), Nanos::from_micros(range.1))
}

impl Faults {
    /// No faults, and short latencies.
    pub fn none() -> Self {
        let piece_len_max = 64 * 1024;
        Self {
            network: NetworkFaults {
                latency: micros((10, 30)),
                piece_len_max,
                buffer_len: 4 * piece_len_max,
                short_permille: 0,
                stall_permille: 0,
                stall: Nanos(0),
                reset_permille: 0,
            },
            disk: DiskFaults {
                latency: micros((10, 100)),
                slow_permille: 0,
                slow: Nanos(0),
                at_once_permille: 0,
                split_permille: 0,
                read_error_permille: 0,
                write_error_permille: 0,
                no_space_permille: 0,
                gone_permille: 0,
                latent_permille: 0,
                betrayal: Betrayal::default(),
                hung: None,
            },
            core: CoreFaults {
                turn: micros((1, 5)),
                pause_permille: 0,
                pause: Nanos(0),
                spin: Nanos::from_micros(50),
                mail: micros((1, 5)),
                events_per_turn_max: 512,
            },
        }
    }

    /// Rates drawn from the seed.
    pub fn draw(dice: &mut Dice) -> Self {
        let latency_max = dice.pick(&[20, 200, 2_000]);
        let network = NetworkFaults {
            latency: micros((5, latency_max)),
            piece_len_max: dice.pick(&[7, 100, 1_460, 9_000, 65_536]),
            buffer_len: dice.len(1, 16) * dice.pick(&[512, 4_096, 65_536]),
            short_permille: dice.pick(&[0, 50, 500]),
            stall_permille: dice.pick(&[0, 0, 2, 10]),
            stall: Nanos::from_millis(dice.between(1, 300)),
            reset_permille: dice.pick(&[0, 0, 1, 3]),
        };
        let error_permille = |dice: &mut Dice| dice.pick(&[0, 0, 0, 5, 50]);
        let disk = DiskFaults {
            latency: micros((1, dice.pick(&[20, 500, 5_000]))),
            slow_permille: dice.pick(&[0, 5, 30]),
            slow: Nanos::from_millis(dice.between(1, 200)),
            at_once_permille: dice.pick(&[0, 0, 100, 900]),
            split_permille: dice.pick(&[0, 300, 900]),
            read_error_permille: error_permille(dice),
            write_error_permille: error_permille(dice),
            no_space_permille: error_permille(dice) / 2,
            gone_permille: error_permille(dice) / 5,
            latent_permille: 0,
            betrayal: Betrayal::default(),
            hung: None,
        };
        let core = CoreFaults {
            turn: (MICRO, Nanos::from_micros(dice.pick(&[2, 20, 100]))),
            pause_permille: dice.pick(&[0, 1, 5]),
            pause: Nanos::from_millis(dice.between(1, 20)),
            spin: Nanos::from_micros(dice.pick(&[0, 10, 100, 600])),
            mail: micros((0, dice.pick(&[1, 50, 1_000]))),
            events_per_turn_max: dice.pick(&[4, 32, 512]),
        };
        Self { network, disk, core }
    }

    /// The same latencies, but no losses and no failures any more: operations under way can end.
    #[must_use]
    pub fn calmed(mut self) -> Self {
        self.network.reset_permille = 0;
        self.network.stall_permille = 0;
        self.network.buffer_len =
            self.network.buffer_len.max(usize::try_from(4 * KIB).expect("4 KiB"));
        self.disk.read_error_permille = 0;
        self.disk.write_error_permille = 0;
        self.disk.no_space_permille = 0;
        self.disk.gone_permille = 0;
        self.disk.latent_permille = 0;
        self.disk.betrayal = Betrayal::default();
        self.disk.hung = None;
        self
    }
}
