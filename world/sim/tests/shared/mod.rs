//! Helpers that several scenarios share.

use std::ops::Range;

use nearflash_sim::{Plan, Sim};
use nearflash_units::Nanos;

/// The end of every run: operations under way end, the node drains, and the disks are checked.
pub(crate) fn end(mut sim: Sim) {
    sim.calm();
    sim.rest();
    sim.drain();
    sim.check_disks();
    sim.lose_power();
}

/// Cores that sleep early or never, and a network of small pieces. After a missed wake-up, work
/// would wait for the shard's sweep, once a second.
pub(crate) fn assert_nothing_waits_for_the_sweep(seed: u64, mut plan: Plan) {
    let choice = usize::try_from(seed).expect("seeds are small");
    plan.faults.core.spin = Nanos::from_micros([0, 3, 40][choice % 3]);
    plan.faults.network.buffer_len = [2_048, 16_384][choice % 2];
    plan.faults.network.piece_len_max = 1_460;
    let mut sim = Sim::new(plan);
    let done = sim.run_until(Nanos::from_millis(900), Sim::is_work_done);
    assert!(done, "seed {seed}: something waits");
    end(sim);
}

/// The number that a variable of the environment holds.
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

/// The seed `SIM_SEED`, or `SIM_SEEDS` of them from `SIM_FIRST` on: by default a quarter of `all`, and with
/// `ALL_SEEDS` this many.
pub(crate) fn seeds(all: u64) -> Range<u64> {
    if let Some(seed) = number("SIM_SEED") {
        return seed..seed + 1;
    }
    let first = number("SIM_FIRST").unwrap_or(1);
    first..first + number("SIM_SEEDS").unwrap_or(some(all).end)
}

/// The seeds of one scenario: by default a quarter of `all`, and with `ALL_SEEDS` this many.
pub(crate) fn some(all: u64) -> Range<u64> {
    0..if std::env::var_os("ALL_SEEDS").is_some() { all } else { all.div_ceil(4) }
}
