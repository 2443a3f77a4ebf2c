//! Initiators, alone and together with hosts and direct clients: cases that chance seldom reaches,
//! each over a few seeds.

use crate::shared;

use nearflash_sim::{ClientPlan, InitiatorPlan, Mix, Plan, Report, Sim, WorkerPlan};
use nearflash_units::{BlockSize, ByteLen, KIB, MIB, Nanos};

use shared::{assert_nothing_waits_for_the_sweep, end, some};

fn plan(seed: u64, initiators: Vec<InitiatorPlan>) -> Plan {
    Plan { initiators, ..Plan::calm(seed) }
}

/// Several connections, digests, and every way to transfer data.
fn ways(commands: u32) -> Vec<InitiatorPlan> {
    let plain = InitiatorPlan::plain(commands);
    vec![
        plain.clone(),
        InitiatorPlan { connections: 3, digests: (true, true), ..plain.clone() },
        InitiatorPlan { initial_r2t: false, bursts: (512, 2048), ..plain.clone() },
        InitiatorPlan { immediate_data: false, connections: 2, receive_len_max: 512, ..plain },
    ]
}

#[test]
fn initiators_in_a_calm_world_lose_nothing_and_fail_nothing() {
    for seed in some(4) {
        let mut sim = Sim::new(plan(seed, ways(200)));
        sim.finish_work();
        let report = sim.report();
        assert_eq!((report.lost, report.logged_in), (0, 4));
        end(sim);
    }
}

#[test]
fn initiators_do_not_wait_for_the_sweep() {
    for seed in some(16) {
        assert_nothing_waits_for_the_sweep(seed, plan(seed, ways(150)));
    }
}

#[test]
fn what_one_door_writes_the_others_read() {
    for seed in some(8) {
        let mut plan = plan(seed, ways(150));
        plan.workers = vec![WorkerPlan::plain(150); 2];
        plan.clients = by_all_ways(500);
        plan.faults.disk.slow_permille = 20;
        plan.faults.disk.slow = Nanos::from_millis(3);
        let mut sim = Sim::new(plan);
        sim.finish_work();
        let report = sim.report();
        assert_eq!((report.lost, report.direct_lost), (0, 0));
        assert!(report.counted > 3, "seed {seed}: hosts and initiators count in one block");
        assert_each_read_the_others(seed, &report);
        end(sim);
    }
}

/// Direct clients on the shared blocks, over TCP and over rings.
fn by_all_ways(requests: u32) -> Vec<ClientPlan> {
    let think = (Nanos::from_micros(1), Nanos::from_micros(200));
    let client = ClientPlan { field_permille: 900, think, ..ClientPlan::plain(requests) };
    vec![client.clone(), ClientPlan { rings: true, ..client }]
}

fn assert_each_read_the_others(seed: u64, report: &Report) {
    let all = report.across.iter().flatten().all(|count| *count > 0);
    assert!(all, "seed {seed}: by each door is read what each wrote: {:?}", report.across);
}

#[test]
fn what_one_door_writes_durably_every_door_reads_after_the_power_was_lost() {
    for seed in some(8) {
        let mut plan = plan(seed, ways(300));
        plan.workers = vec![WorkerPlan::plain(800); 2];
        plan.clients = by_all_ways(1_000);
        plan.node.block_size = [BlockSize::B512, BlockSize::B4096][usize::from(seed % 2 == 1)];
        plan.faults.disk.split_permille = 300;
        let mut sim = Sim::new(plan);
        for _ in 0..5 {
            sim.run_for(Nanos::from_millis(2));
            sim.lose_power();
        }
        sim.finish_work();
        assert_each_read_the_others(seed, &sim.report());
        end(sim);
    }
}

/// Long writes across the seam where the node splits a direct request: the second part is under way
/// while the size, and with it the epoch, changes.
#[test]
fn what_a_change_of_size_meets_half_done_is_done_or_was_not_begun() {
    let mut met = 0;
    for seed in some(8) {
        let mut plan = plan(seed, vec![InitiatorPlan::plain(100)]);
        let mix = Mix { writes: 10, reads: 5, ..Mix::default() };
        let client = ClientPlan { field_permille: 1_000, mix, ..ClientPlan::plain(200) };
        plan.clients = vec![client; 2];
        plan.command_len_max = ByteLen(64 * KIB);
        plan.node.block_size = BlockSize::B4096;
        plan.faults.network.latency.1 = Nanos::from_micros(300);
        plan.faults.network.piece_len_max = 1_460;
        plan.faults.network.buffer_len = 2_048;
        let mut sim = Sim::new(plan);
        for _ in 0..16 {
            sim.run_for(Nanos::from_millis(25));
            sim.resize();
        }
        sim.finish_work();
        met += sim.report().count("parts around a change of size");
        end(sim);
    }
    assert!(met > 0, "some are under way while the size becomes another");
}

/// Operations under way at a preemption are slow, on several cores, over every protocol.
#[test]
fn nothing_of_whom_a_preemption_shuts_out_lands_after_it_is_answered() {
    let (mut refused, mut under_load) = (0, 0);
    for seed in some(32) {
        let mut plan = fight(seed);
        plan.clients.extend(by_all_ways(300));
        plan.node.cores = 3;
        plan.faults.disk.slow_permille = 300;
        plan.faults.disk.slow = Nanos::from_millis(5);
        plan.faults.disk.split_permille = 300;
        plan.faults.core.mail.1 = Nanos::from_micros(200);
        let mut sim = Sim::new(plan);
        sim.finish_work();
        let report = sim.report();
        refused += report.reserved.1;
        under_load += report.count("preemption under load");
        end(sim);
    }
    assert!(refused > 100, "many are shut out: {refused}");
    assert!(under_load > 5, "with something under way on devices: {under_load}");
}

/// Commands carry part of their data, and the target requests the rest: it follows the next
/// commands in the stream, whose data needs buffers, too.
#[test]
fn initiators_that_want_more_than_the_pool_at_once_go_on() {
    for seed in some(8) {
        let mut greedy = InitiatorPlan { depth: 64, ..InitiatorPlan::plain(300) };
        greedy.bursts = (4096, 8192);
        greedy.think.1 = Nanos::from_micros(10);
        greedy.mix = Mix { writes: 20, reads: 1, ..Mix::default() };
        let several = InitiatorPlan { connections: 4, initial_r2t: false, ..greedy.clone() };
        let mut plan = plan(seed, vec![greedy, several]);
        plan.workers = vec![WorkerPlan::plain(100)];
        plan.node.pool_len = ByteLen(3 * MIB);
        plan.node.block_size = BlockSize::B4096;
        plan.command_len_max = ByteLen(128 * KIB);
        let mut sim = Sim::new(plan);
        let done = sim.run_until(Nanos::from_secs(20), Sim::is_work_done);
        assert!(done, "seed {seed}: something waits");
        assert!(sim.report().turned_away > 0, "seed {seed}: the pool was never full");
        end(sim);
    }
}

#[test]
fn aborts_and_resets_end_what_they_say_and_nothing_else() {
    for seed in some(16) {
        let restless = |plan| InitiatorPlan { manage_permille: 150, depth: 16, ..plan };
        let mut plan = plan(seed, ways(200).into_iter().map(restless).collect());
        plan.faults.disk.slow_permille = 100;
        plan.faults.disk.slow = Nanos::from_millis(2);
        let mut sim = Sim::new(plan);
        sim.finish_work();
        let report = sim.report();
        assert_eq!((report.lost, report.logged_in), (0, 4));
        assert!(report.aborted > 0, "seed {seed}");
        end(sim);
    }
}

/// On the same unit, over several cores, with slow writes: an aborted write never took effect,
/// which every read checks.
#[test]
fn what_initiators_end_of_one_another_is_never_done() {
    for seed in some(16) {
        let several = InitiatorPlan { connections: 3, ..InitiatorPlan::plain(200) };
        let early = InitiatorPlan { initial_r2t: false, ..several.clone() };
        let slow_to_send = InitiatorPlan { bursts: (512, 512), ..several.clone() };
        let restless = |plan| InitiatorPlan { manage_permille: 100, depth: 16, ..plan };
        let all = vec![several.clone(), several, early, slow_to_send];
        let mut plan = plan(seed, all.into_iter().map(restless).collect());
        plan.workers = vec![WorkerPlan::plain(100)];
        plan.node.cores = 3;
        plan.faults.disk.slow_permille = 200;
        plan.faults.disk.slow = Nanos::from_millis(2);
        let mut sim = Sim::new(plan);
        let done = sim.run_until(Nanos::from_secs(60), Sim::is_work_done);
        assert!(done, "seed {seed}: something waits");
        let report = sim.report();
        assert_eq!((report.lost, report.logged_in), (0, 4));
        assert!(report.aborted > 0, "seed {seed}");
        end(sim);
    }
}

#[test]
fn a_target_that_is_reset_as_if_switched_on_loses_its_sessions_and_nothing_else() {
    for seed in some(8) {
        let restless =
            |plan| InitiatorPlan { manage_permille: 40, cold_permille: 400, depth: 16, ..plan };
        let mut plan = plan(seed, ways(200).into_iter().map(restless).collect());
        plan.workers = vec![WorkerPlan::plain(100)];
        plan.faults.disk.slow_permille = 100;
        plan.faults.disk.slow = Nanos::from_millis(2);
        let mut sim = Sim::new(plan);
        let done = sim.run_until(Nanos::from_secs(60), Sim::is_work_done);
        assert!(done, "seed {seed}: something waits");
        assert!(sim.report().logged_in > 4, "seed {seed}: sessions end, and begin again");
        end(sim);
    }
}

#[test]
fn an_initiator_that_comes_back_finds_that_its_last_writes_have_ended() {
    for seed in some(16) {
        let restless = |plan| InitiatorPlan { leave_permille: 40, ..plan };
        let mut plan = plan(seed, ways(200).into_iter().map(restless).collect());
        plan.faults.disk.slow_permille = 200;
        plan.faults.disk.slow = Nanos::from_millis(30);
        let mut sim = Sim::new(plan);
        sim.finish_work();
        assert!(sim.report().logged_in > 8, "seed {seed}");
        end(sim);
    }
}

/// Initiators that return reinstate their sessions; those that do not get a NOP-In, and are given
/// up.
#[test]
fn an_initiator_whose_machine_died_is_asked_and_given_up() {
    let mut given_up = 0;
    for seed in 0..12 {
        let dying = |plan| InitiatorPlan { leave_permille: 150, ..plan };
        let mut sim = Sim::new(plan(seed, ways(40).into_iter().map(dying).collect()));
        sim.finish_work();
        sim.rest();
        sim.check_silence_ends();
        given_up += sim.report().count("silence given up");
        end(sim);
    }
    assert!(given_up > 0, "some do not come back");
}

#[test]
fn every_initiator_is_told_of_a_new_size_once() {
    const CAPACITY_CHANGED: u16 = 0x2A09;
    for seed in some(2) {
        let mut sim = Sim::new(plan(seed, ways(1_500)));
        assert!(sim.run_until(Nanos::from_secs(1), |sim| sim.report().logged_in == 4));
        sim.run_for(Nanos::from_millis(2));
        for resized in 1..=3 {
            sim.resize();
            let is_told =
                |sim: &Sim| (0..4).all(|number| sim.told(number, CAPACITY_CHANGED) == resized);
            assert!(sim.run_until(Nanos::from_secs(1), is_told), "seed {seed}: {resized}");
        }
        sim.finish_work();
        assert!((0..4).all(|number| sim.told(number, CAPACITY_CHANGED) == 3), "seed {seed}");
        end(sim);
    }
}

#[test]
fn a_volume_that_changes_its_size_ends_for_initiators_where_it_should() {
    for seed in some(4) {
        let mut plan = plan(seed, ways(200));
        for initiator in &mut plan.initiators {
            initiator.mix.tails = 60;
        }
        let mut sim = Sim::new(plan);
        for _ in 0..8 {
            sim.run_for(Nanos::from_millis(2));
            sim.resize();
        }
        sim.finish_work();
        end(sim);
    }
}

/// All peers compete with each other over all protocols that have reservations; direct clients only
/// bear them.
fn fight(seed: u64) -> Plan {
    let initiator = |plan| InitiatorPlan { rival_permille: 100, leave_permille: 2, ..plan };
    let mut plan = plan(seed, ways(300).into_iter().map(initiator).collect());
    plan.workers = vec![WorkerPlan { rival_permille: 100, ..WorkerPlan::plain(200) }; 2];
    plan.clients = vec![ClientPlan::plain(300); 2];
    plan.faults.disk.slow_permille = 50;
    plan.faults.disk.slow = Nanos::from_millis(2);
    plan
}

#[test]
fn whom_a_reservation_shuts_out_is_shut_out_by_every_door() {
    let mut direct_refused = 0;
    for seed in some(16) {
        let mut sim = Sim::new(fight(seed));
        sim.finish_work();
        let report = sim.report();
        let (judged, refused) = report.reserved;
        assert!(judged > refused && refused > 0, "seed {seed}: {report:?}");
        direct_refused += report.direct_refused;
        end(sim);
    }
    assert!(direct_refused > 0, "direct clients are shut out, too");
}

#[test]
fn reservations_that_are_to_last_survive_the_loss_of_power_and_others_do_not() {
    for seed in some(8) {
        let mut sim = Sim::new(fight(seed));
        for _ in 0..4 {
            sim.run_for(Nanos::from_millis(3));
            sim.lose_power();
        }
        sim.finish_work();
        assert!(sim.report().reserved.1 > 0, "seed {seed}");
        end(sim);
    }
}

/// Writes with an outstanding R2T hold buffers for which reads wait: their data never comes.
#[test]
fn a_node_that_drains_with_its_pool_full_of_half_received_writes_answers_what_it_has() {
    for seed in some(8) {
        let mix = Mix { writes: 10, reads: 5, ..Mix::default() };
        let deep =
            InitiatorPlan { depth: 64, bursts: (512, 2_048), mix, ..InitiatorPlan::plain(5_000) };
        let mut plan = plan(seed, vec![deep; 2]);
        plan.node.pool_len = ByteLen(3 << 20);
        plan.node.block_size = BlockSize::B4096;
        plan.command_len_max = ByteLen(128 * KIB);
        let mut sim = Sim::new(plan);
        assert!(sim.run_until(Nanos::from_secs(1), |sim| sim.report().succeeded > 20));
        sim.drain();
        sim.rest();
        sim.check_disks();
    }
}

#[test]
fn initiators_are_told_when_the_node_drains() {
    for seed in some(8) {
        let mut sim = Sim::new(plan(seed, ways(2_000)));
        let busy = sim.run_until(Nanos::from_secs(1), |sim| sim.report().succeeded > 300);
        assert!(busy);
        sim.drain();
        sim.rest();
        sim.check_disks();
        sim.lose_power();
    }
}
