//! Cases that chance seldom reaches, each over a few seeds.

use crate::shared;

use nearflash_nvme_tcp::Digests;
use nearflash_sim::{ClientPlan, Misbehaviour, MisfitPlan, Plan, Sim, WorkerPlan};
use nearflash_units::{BlockSize, ByteLen, KIB, MIB, Nanos};

use shared::{assert_nothing_waits_for_the_sweep, end, some};

const SECOND: Nanos = Nanos::from_secs(1);

fn plan(seed: u64, workers: Vec<WorkerPlan>) -> Plan {
    Plan { workers, ..Plan::calm(seed) }
}

#[test]
fn a_calm_world_loses_nothing_and_fails_nothing() {
    for seed in some(4) {
        let mut sim = Sim::new(plan(seed, vec![WorkerPlan::plain(300); 3]));
        sim.finish_work();
        let report = sim.report();
        assert_eq!((report.lost, report.joined), (0, 3));
        end(sim);
    }
}

#[test]
fn nothing_waits_for_the_sweep() {
    for seed in some(24) {
        let workers = vec![
            WorkerPlan::plain(200),
            WorkerPlan { digests: Digests::BOTH, ..WorkerPlan::plain(200) },
            WorkerPlan { in_capsule_len_max: 0, ..WorkerPlan::plain(200) },
        ];
        assert_nothing_waits_for_the_sweep(seed, plan(seed, workers));
    }
}

#[test]
fn a_core_with_little_memory_goes_on() {
    for seed in some(8) {
        let worker = WorkerPlan { entries: 33, in_capsule_len_max: 0, ..WorkerPlan::plain(200) };
        let mut plan = plan(seed, vec![worker; 4]);
        plan.node.pool_len = ByteLen(3 * MIB);
        plan.node.block_size = BlockSize::B4096;
        plan.command_len_max = ByteLen(128 * KIB);
        let mut sim = Sim::new(plan);
        let done = sim.run_until(Nanos::from_secs(20), Sim::is_work_done);
        assert!(done, "seed {seed}: something waits");
        end(sim);
    }
}

/// Requested data follows a small command in the stream whose data needs a buffer, too.
#[test]
fn a_connection_that_holds_its_share_for_data_behind_a_capsule_goes_on() {
    for seed in some(8) {
        let mut worker = WorkerPlan {
            entries: 33,
            io_queues: 1,
            in_capsule_len_max: 512,
            ..WorkerPlan::plain(300)
        };
        worker.think.1 = Nanos::from_micros(50);
        worker.mix.writes = 200;
        let mut plan = plan(seed, vec![worker; 2]);
        plan.node.cores = 1;
        plan.node.pool_len = ByteLen(2 * MIB);
        plan.command_len_max = ByteLen(128 * KIB);
        plan.faults.network.latency.1 = Nanos::from_millis(2);
        let mut sim = Sim::new(plan);
        let done = sim.run_until(Nanos::from_secs(30), Sim::is_work_done);
        assert!(done, "seed {seed}: a connection waits for itself");
        end(sim);
    }
}

/// Hosts that request much and receive nothing, together with one that works.
fn with_deaf_hosts(seed: u64, command_len_max: ByteLen) -> Sim {
    let deaf = WorkerPlan {
        entries: 129,
        think: (Nanos(100), Nanos::from_micros(20)),
        deaf_permille: 1_000,
        deaf: Nanos::from_secs(3_600),
        ..WorkerPlan::plain(4_000).reading()
    };
    let mut workers = vec![deaf; 4];
    // Its writes wait as in-capsule data or for an R2T.
    let in_capsule_len_max = if seed.is_multiple_of(2) { 0 } else { 8_192 };
    let mut working = WorkerPlan { in_capsule_len_max, ..WorkerPlan::plain(300) };
    working.mix.writes = 150;
    workers.push(working);
    let mut plan = plan(seed, workers);
    plan.node.pool_len = ByteLen(2 * MIB);
    plan.command_len_max = command_len_max;
    plan.faults.network.buffer_len = 8_192;
    Sim::new(plan)
}

#[test]
fn hosts_that_stop_reading_leave_room_for_others_and_are_given_up() {
    for seed in some(4) {
        // Each takes at most half of the free memory, which leaves more than such a command needs.
        let mut sim = with_deaf_hosts(seed, ByteLen(16 * KIB));
        let done = sim.run_until(Nanos::from_secs(3), |sim| sim.is_done(4));
        assert!(done, "seed {seed}: a host that reads waits for those that do not");
        assert!(sim.pool_free_min().0 > 0, "what the others hold is not everything");
        let given_up = |sim: &Sim| (0..4).all(|host| sim.is_given_up(host));
        assert!(
            sim.run_until(Nanos::from_secs(15), given_up),
            "seed {seed}: nobody holds memory forever"
        );
        sim.drain();
        sim.check_disks();
    }
}

#[test]
fn a_host_whose_commands_wait_for_our_memory_is_not_said_to_stall() {
    for seed in some(12) {
        // More than the others leave: it waits until they are given up, longer than a host may take
        // to send promised data.
        let mut sim = with_deaf_hosts(seed, ByteLen(128 * KIB));
        let done = sim.run_until(Nanos::from_secs(15), |sim| sim.is_done(4));
        assert!(done, "seed {seed}: it goes on once there is memory");
        assert!(!sim.is_given_up(4));
        sim.drain();
        sim.check_disks();
    }
}

#[test]
fn a_host_that_says_nothing_is_given_up_and_another_notices_nothing() {
    for sent in [0, 1, 127, 128, 129, 200] {
        let mut plan = plan(7, vec![WorkerPlan::plain(100)]);
        plan.misfits = vec![MisfitPlan { how: Misbehaviour::Silence(sent), visits: 1 }; 3];
        let mut sim = Sim::new(plan);
        sim.finish_work();
        assert!(sim.connections() >= 3 + 3, "three say nothing, and one has three queues");
        sim.run_for(Nanos::from_secs(8));
        assert_eq!(sim.connections(), 3, "those of the host that works");
        assert_eq!(sim.report().lost, 0);
        end(sim);
    }
}

#[test]
fn a_host_whose_machine_died_is_given_up_when_its_keep_alive_time_is_over() {
    for seed in some(4) {
        let dying =
            WorkerPlan { keep_alive_ms: 2_000, leave_permille: 5, ..WorkerPlan::plain(300) };
        let mut sim = Sim::new(plan(seed, vec![dying, WorkerPlan::plain(300)]));
        sim.finish_work();
        sim.rest();
        sim.check_silence_ends();
        end(sim);
    }
}

#[test]
fn nonsense_from_one_host_disturbs_no_other() {
    for seed in some(8) {
        let mut plan = plan(seed, vec![WorkerPlan::plain(200); 2]);
        let misfits = [Misbehaviour::Noise(0), Misbehaviour::Noise(128), Misbehaviour::Damage(20)];
        plan.misfits = misfits.map(|how| MisfitPlan { how, visits: 20 }).to_vec();
        let mut sim = Sim::new(plan);
        sim.finish_work();
        sim.run_for(SECOND);
        let report = sim.report();
        assert_eq!((report.lost, report.joined), (0, 2), "seed {seed}");
        end(sim);
    }
}

#[test]
fn a_thousand_connections_that_come_to_nothing_leave_nothing() {
    let mut plan = plan(1, vec![WorkerPlan::plain(50)]);
    plan.misfits = vec![MisfitPlan { how: Misbehaviour::Noise(1), visits: 1_000 }];
    let mut sim = Sim::new(plan);
    sim.finish_work();
    sim.run_for(Nanos::from_secs(60));
    assert_eq!(sim.connections(), 3);
    end(sim);
}

#[test]
fn every_compare_and_write_of_hosts_on_several_cores_counts_once() {
    for seed in some(6) {
        let worker = WorkerPlan { io_queues: 3, ..WorkerPlan::plain(300).counting() };
        let mut plan = plan(seed, vec![worker; 3]);
        plan.node.cores = 3;
        plan.faults.disk.latency.1 = Nanos::from_millis(1);
        plan.faults.core.mail.1 = Nanos::from_micros(300);
        let mut sim = Sim::new(plan);
        sim.finish_work();
        assert!(sim.report().counted > 20, "{:?}", sim.report());
        end(sim);
    }
}

#[test]
fn plain_writes_do_not_come_between_compare_and_write() {
    for seed in some(6) {
        let mut workers = vec![WorkerPlan::plain(200).counting(); 2];
        // This host loses its connections again and again, with steps of the counters under way.
        workers.push(WorkerPlan { leave_permille: 60, ..WorkerPlan::plain(200).counting() });
        let mut plan = plan(seed, workers);
        plan.node.cores = 3;
        plan.faults.disk.latency.1 = Nanos::from_millis(1);
        let mut sim = Sim::new(plan);
        sim.finish_work();
        end(sim);
    }
}

#[test]
fn a_host_that_comes_back_finds_that_its_last_writes_have_ended() {
    for seed in some(6) {
        let worker = WorkerPlan { leave_permille: 50, ..WorkerPlan::plain(200) };
        let mut plan = plan(seed, vec![worker; 2]);
        plan.faults.disk.slow_permille = 300;
        plan.faults.disk.slow = Nanos::from_millis(100);
        let mut sim = Sim::new(plan);
        sim.finish_work();
        assert!(sim.report().joined > 10);
        end(sim);
    }
}

#[test]
fn connections_that_break_at_every_turn_lose_no_acknowledged_write() {
    for seed in some(6) {
        let mut plan = plan(seed, vec![WorkerPlan::plain(200); 2]);
        plan.faults.network.reset_permille = 20;
        let mut sim = Sim::new(plan);
        sim.finish_work();
        assert!(sim.report().lost > 0);
        end(sim);
    }
}

/// Its slot stays until they have ended; its socket is closed, and its id may be reused.
#[test]
fn a_connection_that_dies_with_requests_under_way_is_left_alone_by_a_core_that_sleeps() {
    for seed in some(6) {
        let worker = WorkerPlan { leave_permille: 20, ..WorkerPlan::plain(200) };
        let mut plan = plan(seed, vec![worker; 4]);
        plan.faults.core.spin = Nanos(0);
        plan.faults.disk.latency = (Nanos::from_micros(10), Nanos::from_millis(20));
        plan.faults.network.reset_permille = 10;
        let mut sim = Sim::new(plan);
        sim.finish_work();
        end(sim);
    }
}

#[test]
fn power_that_goes_again_and_again_takes_nothing_durable() {
    for seed in some(6) {
        let mut plan = plan(seed, vec![WorkerPlan::plain(600); 2]);
        plan.node.block_size = BlockSize::B4096;
        plan.faults.disk.split_permille = 500;
        let mut sim = Sim::new(plan);
        for _ in 0..10 {
            sim.run_for(Nanos::from_millis(4));
            sim.lose_power();
        }
        sim.finish_work();
        end(sim);
    }
}

/// The flush of one core fails, and with it data is lost that another core acknowledged.
#[test]
fn a_device_that_fails_a_flush_is_not_believed_by_the_next_one() {
    let mut failed = 0;
    for seed in some(8) {
        let mut worker = WorkerPlan::plain(600);
        worker.mix.flushes = 200;
        let mut plan = plan(seed, vec![worker; 3]);
        plan.faults.disk.write_error_permille = 10;
        let mut sim = Sim::new(plan);
        for _ in 0..6 {
            sim.run_for(Nanos::from_millis(3));
            sim.lose_power();
        }
        sim.finish_work();
        failed += sim.report().failed;
        end(sim);
    }
    assert!(failed > 100, "{failed}");
}

#[test]
fn every_host_is_told_of_a_new_size() {
    let mut sim = Sim::new(plan(5, vec![WorkerPlan::plain(50); 3]));
    sim.finish_work();
    for resized in 1..=3 {
        sim.resize();
        sim.run_for(SECOND);
        for host in 0..3 {
            assert_eq!(sim.events(host), resized);
        }
    }
    end(sim);
}

#[test]
fn a_volume_that_changes_its_size_under_load_ends_where_it_should() {
    for seed in some(6) {
        let mut worker = WorkerPlan::plain(400);
        worker.mix.tails = 60;
        let mut sim = Sim::new(plan(seed, vec![worker; 3]));
        for _ in 0..8 {
            sim.run_for(Nanos::from_millis(2));
            sim.resize();
        }
        sim.finish_work();
        end(sim);
    }
}

#[test]
fn a_node_that_drains_under_load_answers_and_empties() {
    for seed in some(12) {
        let worker = WorkerPlan { entries: 33, ..WorkerPlan::plain(100_000) };
        let mut plan = plan(seed, vec![worker; 3]);
        plan.command_len_max = ByteLen(64 * KIB);
        plan.faults.disk.slow_permille = 50;
        plan.faults.disk.slow = Nanos::from_millis(20);
        let mut sim = Sim::new(plan);
        assert!(sim.run_until(SECOND, |sim| sim.report().succeeded > 20 * (seed + 1)));
        sim.drain();
        sim.rest();
        sim.check_disks();
    }
}

/// Direct clients only.
fn clients(seed: u64, clients: Vec<ClientPlan>) -> Plan {
    Plan { clients, ..Plan::calm(seed) }
}

#[test]
fn direct_clients_in_a_calm_world_are_all_answered() {
    for seed in some(6) {
        let mut plan = clients(seed, vec![ClientPlan::plain(300); 3]);
        plan.node.keys = seed.is_multiple_of(2);
        let mut sim = Sim::new(plan);
        sim.finish_work();
        let report = sim.report();
        assert_eq!((report.direct_lost, report.direct_refused), (0, 0));
        assert_eq!(report.direct_succeeded, 900);
        end(sim);
    }
}

#[test]
fn a_direct_client_that_comes_back_finds_that_its_last_writes_have_ended() {
    for seed in some(8) {
        let rings = seed.is_multiple_of(4);
        let client = ClientPlan { leave_permille: 50, rings, ..ClientPlan::plain(300) };
        let mut plan = clients(seed, vec![client; 2]);
        plan.node.keys = seed.is_multiple_of(2);
        plan.node.cores = [1, 3][usize::try_from(seed / 2 % 2).unwrap()];
        plan.faults.disk.slow_permille = 300;
        plan.faults.disk.slow = Nanos::from_millis(100);
        plan.faults.network.stall_permille = 20;
        plan.faults.network.stall = Nanos::from_millis(20);
        let mut sim = Sim::new(plan);
        sim.finish_work();
        assert!(sim.report().direct_lost > 0);
        end(sim);
    }
}

/// After a missed wake-up, a request would wait for the shard's sweep, once a second.
#[test]
fn direct_clients_do_not_wait_for_the_sweep() {
    for seed in some(12) {
        let whole = nearflash_direct::Digests { header: true, data: true };
        let plain = ClientPlan::plain(200);
        assert_nothing_waits_for_the_sweep(
            seed,
            clients(seed, vec![plain.clone(), ClientPlan { digests: whole, ..plain }]),
        );
    }
}

#[test]
fn direct_clients_on_a_core_with_little_memory_go_on() {
    for seed in some(8) {
        let client = ClientPlan { depth: 32, ..ClientPlan::plain(200) };
        let mut plan = clients(seed, vec![client; 4]);
        plan.node.cores = 1;
        plan.node.credits = 32;
        plan.node.pool_len = ByteLen(3 * MIB);
        plan.node.block_size = BlockSize::B4096;
        plan.command_len_max = ByteLen(64 * KIB);
        let mut sim = Sim::new(plan);
        let done = sim.run_until(Nanos::from_secs(20), Sim::is_work_done);
        assert!(done, "seed {seed}: something waits");
        end(sim);
    }
}

/// The slowest requests are the longest, and half of them wait for memory before they reach the
/// engine when the grants are revoked.
#[test]
fn what_a_revoked_client_had_under_way_is_over_when_the_revocation_is_confirmed() {
    for seed in some(12) {
        let long_read_permille = if seed.is_multiple_of(2) { 800 } else { 0 };
        let client = ClientPlan { depth: 32, long_read_permille, ..ClientPlan::plain(400) };
        let mut plan = clients(seed, vec![client; 3]);
        plan.node.cores = [1, 2][usize::try_from(seed / 2 % 2).unwrap()];
        plan.node.credits = 32;
        plan.node.pool_len = ByteLen(2 * MIB);
        plan.command_len_max = ByteLen(64 * KIB);
        plan.faults.disk.slow_permille = 200;
        plan.faults.disk.slow = Nanos::from_millis(80);
        plan.faults.disk.split_permille = 500;
        let mut sim = Sim::new(plan);
        for _ in 0..4 {
            sim.run_for(Nanos::from_millis(3));
            sim.revoke();
        }
        sim.finish_work();
        assert!(sim.report().direct_refused > 0, "seed {seed}: nobody noticed");
        end(sim);
    }
}

#[test]
fn a_direct_client_that_takes_no_answers_is_given_up_and_others_notice_nothing() {
    for seed in some(4) {
        let deaf = ClientPlan { deaf_after: Some(20), depth: 32, ..ClientPlan::plain(300) };
        let mut plan = clients(seed, vec![deaf, ClientPlan::plain(300)]);
        plan.node.credits = 32;
        plan.faults.network.buffer_len = 4_096;
        let mut sim = Sim::new(plan);
        sim.finish_work();
        sim.run_for(Nanos::from_secs(12));
        assert_eq!(sim.connections(), 1, "seed {seed}: the one that takes its answers");
        end(sim);
    }
}

#[test]
fn direct_clients_that_keep_no_protocol_disturb_nobody() {
    let crooked = [
        Misbehaviour::Silence(0),
        Misbehaviour::Silence(40),
        Misbehaviour::Noise(0),
        Misbehaviour::Noise(64),
        Misbehaviour::Damage(20),
    ];
    for seed in some(6) {
        let crooked = crooked.map(|how| ClientPlan { crooked: Some(how), ..ClientPlan::plain(60) });
        let mut all = vec![ClientPlan::plain(200); 2];
        all.extend(crooked);
        let mut plan = clients(seed, all);
        plan.workers = vec![WorkerPlan::plain(100)];
        let mut sim = Sim::new(plan);
        sim.finish_work();
        sim.run_for(Nanos::from_secs(12));
        let report = sim.report();
        assert_eq!((report.direct_lost, report.lost, report.joined), (0, 0, 1));
        end(sim);
    }
}

#[test]
fn a_node_that_drains_answers_its_direct_clients_and_says_goodbye() {
    for seed in some(12) {
        let mut plan = clients(seed, vec![ClientPlan::plain(2_000); 3]);
        plan.faults.disk.slow_permille = 100;
        plan.faults.disk.slow = Nanos::from_millis(20);
        let mut sim = Sim::new(plan);
        let busy = sim.run_until(SECOND, |sim| sim.report().direct_succeeded > 300);
        assert!(busy);
        sim.drain();
        sim.rest();
        sim.check_disks();
        sim.lose_power();
    }
}

#[test]
fn direct_clients_with_rings_lose_nothing_when_they_go_or_the_node_does() {
    for seed in some(12) {
        let leave_permille = if seed.is_multiple_of(2) { 30 } else { 0 };
        let ringed = ClientPlan { rings: true, leave_permille, ..ClientPlan::plain(300) };
        let mut plan = clients(seed, vec![ringed.clone(), ringed, ClientPlan::plain(200)]);
        plan.faults.core.spin = Nanos::from_micros([0, 3, 40][usize::try_from(seed % 3).unwrap()]);
        plan.faults.disk.slow_permille = 50;
        plan.faults.disk.slow = Nanos::from_millis(5);
        plan.faults.disk.at_once_permille = 100;
        let mut sim = Sim::new(plan);
        sim.run_until(SECOND, |sim| sim.report().direct_succeeded > 150);
        sim.revoke();
        let done = sim.run_until(Nanos::from_secs(2), Sim::is_work_done);
        assert!(done, "seed {seed}: something waits");
        assert!(sim.report().direct_by_ring > 100, "seed {seed}: rings are used");
        end(sim);
    }
}
