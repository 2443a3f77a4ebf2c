//! One volume's device, or one peer, that does not answer delays nothing on other volumes.

use nearflash_sim::{Mix, Plan, Sim, WorkerPlan};
use nearflash_units::{BlockSize, ByteLen, KIB, MIB, Nanos};

use crate::shared::some;

const SECOND: Nanos = Nanos::from_secs(1);

/// The other volume that hosts read and write; only the first one changes its size.
const SECOND_VOLUME: u32 = 1;

#[test]
fn a_device_that_never_answers_holds_up_no_change_of_another_volume() {
    for seed in some(4) {
        let workers = vec![WorkerPlan::plain(2_000); 3];
        let mut sim = Sim::new(Plan { workers, ..Plan::calm(seed) });
        sim.run_for(Nanos::from_millis(20));
        sim.hang(SECOND_VOLUME);
        assert!(sim.run_until(SECOND, Sim::hangs), "seed {seed}: nothing is asked of it");
        let before = sim.now();
        sim.resize();
        assert!(sim.now().since(before) < SECOND, "seed {seed}: a change waits for another volume");
        assert!(sim.hangs(), "seed {seed}: it was answered before its time");
        sim.calm();
        sim.finish_work();
        sim.rest();
        sim.drain();
        sim.check_disks();
    }
}

#[test]
fn a_host_that_asks_for_little_is_served_beside_one_that_floods() {
    for seed in some(2) {
        let flood = WorkerPlan {
            io_queues: 4,
            entries: 129,
            think: (Nanos(100), Nanos::from_micros(1)),
            ..WorkerPlan::plain(20_000)
        };
        let little = WorkerPlan { io_queues: 1, entries: 3, ..WorkerPlan::plain(100) };
        let mut plan = Plan { workers: vec![flood, little], ..Plan::calm(seed) };
        plan.node.cores = 1;
        plan.node.device_depth = 4;
        let mut sim = Sim::new(plan);
        let is_served = sim.run_until(Nanos::from_secs(600), |sim| sim.is_done(1));
        // Served in order of arrival, each of its commands would wait for all of the flood's
        // commands in flight.
        assert!(is_served && !sim.is_done(0), "seed {seed}: it waited for the flood to end");
        sim.finish_work();
        sim.rest();
        sim.drain();
        sim.check_disks();
    }
}

const LONG: (ByteLen, ByteLen) = (ByteLen(MIB), ByteLen(MIB));
/// Writes of these lengths are in their capsules.
const SHORT: (ByteLen, ByteLen) = (ByteLen(4 * KIB), ByteLen(8 * KIB));

/// One host keeps the pool busy. The pool has room for three of the longest transfers. Another host
/// has six commands; they take a few milliseconds more than the 15 that both hosts need to connect.
/// Each host reads and writes in the given proportion and lengths.
fn assert_is_served_in_a_flood(
    (flood_mix, flood_lens): ((u32, u32), (ByteLen, ByteLen)),
    (few_mix, few_lens): ((u32, u32), (ByteLen, ByteLen)),
) {
    let mix = |(reads, writes)| Mix { reads, writes, ..Mix::default() };
    for seed in some(2) {
        let flood = WorkerPlan {
            io_queues: 4,
            entries: 129,
            think: (Nanos(100), Nanos::from_micros(1)),
            mix: mix(flood_mix),
            lens: Some(flood_lens),
            ..WorkerPlan::plain(u32::MAX)
        };
        let few = WorkerPlan {
            io_queues: 1,
            entries: 3,
            mix: mix(few_mix),
            lens: Some(few_lens),
            ..WorkerPlan::plain(6)
        };
        let mut plan = Plan { workers: vec![flood, few], ..Plan::calm(seed) };
        plan.node.cores = 1;
        plan.node.block_size = BlockSize::B4096;
        plan.command_len_max = ByteLen(MIB);
        let mut sim = Sim::new(plan);
        let is_served = sim.run_until(Nanos::from_millis(60), |sim| sim.is_done(1));
        assert!(is_served, "seed {seed}: {} ms were not enough", sim.now().0 / 1_000_000);
        sim.drain();
        sim.rest();
        sim.check_disks();
    }
}

#[test]
fn long_writes_are_served_in_a_flood_of_short_reads_and_writes() {
    assert_is_served_in_a_flood(((1, 1), SHORT), ((0, 1), LONG));
}

#[test]
fn long_writes_are_served_in_a_flood_of_short_writes() {
    assert_is_served_in_a_flood(((0, 1), SHORT), ((0, 1), LONG));
}

#[test]
fn long_reads_are_served_in_a_flood_of_short_reads_and_writes() {
    assert_is_served_in_a_flood(((1, 1), SHORT), ((1, 0), LONG));
}

#[test]
fn short_reads_and_writes_are_served_in_a_flood_of_long_ones() {
    assert_is_served_in_a_flood(((1, 1), LONG), ((1, 1), SHORT));
}

/// Hosts that request much more than they receive.
fn with_slow_readers(seed: u64, slow: WorkerPlan) -> Sim {
    let slow =
        WorkerPlan { entries: 129, think: (Nanos(100), Nanos::from_micros(20)), ..slow.reading() };
    let mut plan = Plan { workers: vec![slow; 2], ..Plan::calm(seed) };
    plan.node.pool_len = ByteLen(2 * MIB);
    plan.command_len_max = ByteLen(16 * KIB);
    plan.faults.network.buffer_len = 8_192;
    Sim::new(plan)
}

#[test]
fn requests_that_wait_for_a_host_to_read_hold_up_no_change() {
    for seed in some(4) {
        let deaf = Nanos::from_secs(3_600);
        let deaf = WorkerPlan { deaf_permille: 1_000, deaf, ..WorkerPlan::plain(4_000) };
        let mut sim = with_slow_readers(seed, deaf);
        sim.run_for(Nanos::from_millis(500));
        let before = sim.now();
        sim.resize();
        assert!(sim.now().since(before) < SECOND, "seed {seed}: a change waits for a host");
        sim.drain();
        sim.check_disks();
    }
}

#[test]
fn a_host_that_takes_next_to_nothing_is_given_up() {
    for seed in some(4) {
        let trickle = Some((1_024, Nanos::from_secs(2)));
        let mut sim = with_slow_readers(seed, WorkerPlan { trickle, ..WorkerPlan::plain(4_000) });
        let given_up = |sim: &Sim| (0..2).all(|host| sim.is_given_up(host));
        assert!(sim.run_until(Nanos::from_secs(30), given_up), "seed {seed}: it holds on for ever");
        sim.drain();
        sim.check_disks();
    }
}

/// A queue is deleted with reads in flight (NVMe over Fabrics, Disconnect). Nobody takes the data of
/// those that end, and the ones that wait need the host's share of the pool.
#[test]
fn reads_of_a_deleted_queue_hold_no_memory_that_its_other_reads_wait_for() {
    for seed in some(8) {
        let worker = WorkerPlan {
            io_queues: 1,
            entries: 129,
            think: (Nanos(100), Nanos::from_micros(1)),
            lens: Some((ByteLen(64 * KIB), ByteLen(64 * KIB))),
            leave_permille: 20,
            ..WorkerPlan::plain(2_000).reading()
        };
        let mut plan = Plan { workers: vec![worker; 2], ..Plan::calm(seed) };
        plan.node.cores = 1;
        plan.node.block_size = BlockSize::B4096;
        plan.node.pool_len = ByteLen(4 * MIB);
        plan.command_len_max = ByteLen(64 * KIB);
        let mut sim = Sim::new(plan);
        assert!(sim.run_until(Nanos::from_secs(60), Sim::is_work_done), "seed {seed}: it waits");
        sim.rest();
        sim.drain();
        sim.check_disks();
    }
}
