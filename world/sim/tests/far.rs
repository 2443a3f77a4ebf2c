//! Nodes that serve volumes of other nodes: the hosts of both see one volume, whatever happens to either
//! node and between them.

use nearflash_sim::{Clock, Cut, Mix, NodeId, Plan, Report, Sim, WorkerPlan, run};
use nearflash_units::Nanos;

use crate::shared::{seeds, some};

/// Two nodes, each with a host of its own and one on the volumes of the other.
fn plan(seed: u64, commands: u32) -> Plan {
    let clocks = vec![Clock::default(); 2];
    let worker = WorkerPlan::plain(commands);
    let far = vec![worker.clone().far(); 2];
    Plan { clocks, workers: vec![worker; 2], far, ..Plan::calm(seed) }
}

/// All work ends, and nothing is left on any node.
fn end(mut sim: Sim) {
    sim.finish_work();
    sim.calm();
    sim.rest();
    sim.drain();
    sim.rest();
    sim.check_disks();
    sim.lose_power();
}

#[test]
fn in_a_calm_world_the_hosts_of_two_nodes_share_a_volume() {
    for seed in some(4) {
        let mut sim = Sim::new(plan(seed, 400));
        sim.finish_work();
        let report = sim.report();
        assert_eq!((report.lost, report.joined), (0, 4));
        assert_eq!((report.count("node lost"), report.count("path lost")), (0, 0));
        assert!(report.count("node reached") >= 2);
        end(sim);
    }
}

#[test]
fn a_write_whose_connection_is_lost_ends_with_a_path_error_and_takes_no_effect_later() {
    let mut lost = 0;
    for (seed, cut) in (0..6).zip([Cut::ToNode, Cut::ToHost, Cut::Both].into_iter().cycle()) {
        let mut sim = Sim::new(plan(seed, 1_000));
        for _ in 0..3 {
            sim.run_for(Nanos::from_millis(10));
            sim.part_nodes((NodeId(0), NodeId(1)), cut, Nanos::from_secs(6));
            sim.run_for(Nanos::from_secs(8));
        }
        sim.finish_work();
        lost += sim.report().count("path lost");
        end(sim);
    }
    assert!(lost > 5, "{lost}");
}

#[test]
fn a_write_that_cannot_be_sent_within_a_second_is_answered_and_never_sent() {
    for seed in some(3) {
        let mut plan = plan(seed, 0);
        plan.far =
            vec![WorkerPlan { mix: Mix { writes: 1, ..Mix::default() }, ..plan.far[0].clone() }];
        plan.far[0].commands = 4;
        plan.far[0].leave_permille = 0;
        let mut sim = Sim::new(plan);
        sim.part_nodes((NodeId(0), NodeId(1)), Cut::Both, Nanos::from_secs(4));
        sim.run_for(Nanos::from_millis(2_500));
        assert_eq!((sim.report().failed, sim.report().succeeded), (4, 0), "seed {seed}");
        end(sim);
    }
}

#[test]
fn a_flush_fails_after_the_other_node_lost_writes_that_it_should_have_saved() {
    let (mut lost, mut failed) = (0, 0);
    for seed in 0..8 {
        let mut sim = Sim::new(plan(seed, 1_000));
        for _ in 0..3 {
            sim.run_for(Nanos::from_millis(20));
            sim.lose_power_of(NodeId(1));
        }
        sim.finish_work();
        lost += sim.report().count("writes lost");
        failed += sim.report().count("flush failed over lost writes");
        end(sim);
    }
    assert!(lost > 4 && failed > 4, "{lost} {failed}");
}

#[test]
fn a_volume_that_changes_is_opened_again_while_operations_are_under_way() {
    for seed in some(4) {
        let mut sim = Sim::new(plan(seed, 1_000));
        for _ in 0..8 {
            sim.run_for(Nanos::from_millis(5));
            sim.resize();
        }
        sim.finish_work();
        assert_eq!(sim.report().count("path lost"), 0);
        end(sim);
    }
}

#[test]
fn a_node_that_pauses_for_a_short_time_costs_no_path() {
    for seed in some(4) {
        let mut sim = Sim::new(plan(seed, 400));
        sim.run_for(Nanos::from_millis(10));
        // Writes that have not been sent after two seconds never are.
        sim.pause(NodeId(1), Nanos::from_millis(1_800));
        sim.finish_work();
        assert_eq!((sim.report().count("path lost"), sim.report().count("node lost")), (0, 0));
        end(sim);
    }
}

/// The number of all seeds, and how often each event must occur in all of them: far less often than it does.
const SEEDS: u64 = 32;
const FLOOR: [(&str, u64); 7] = [
    ("nodes parted", 5),
    ("node lost", 5),
    ("node reached", 20),
    ("path lost", 5),
    ("writes lost", 1),
    ("flush failed over lost writes", 1),
    ("power lost", 10),
];

#[test]
fn whatever_one_node_does_no_volume_that_two_serve_is_stale_or_torn() {
    let seeds = seeds(SEEDS);
    let (first, count) = (seeds.start, seeds.end - seeds.start);
    let reports: Vec<Report> = seeds.map(|seed| run(Plan::draw_far(seed))).collect();
    for (what, least) in FLOOR {
        let of = reports.iter().map(|report| report.count(what)).sum::<u64>();
        println!("{what}: {of}");
        // The seeds of this file bring up all of it; others bring up what they do.
        assert!((first, count) != (1, SEEDS) || of >= least, "{what}: {of} in {count} runs");
    }
}
