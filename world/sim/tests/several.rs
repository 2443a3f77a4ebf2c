//! Several nodes, each with its own machine, volumes and hosts: what happens to one does not concern
//! the others.

use crate::shared;

use nearflash_sim::{Clock, Cut, NodeId, Plan, Report, Sim, WorkerPlan, run};
use nearflash_units::Nanos;

use shared::{assert_nothing_waits_for_the_sweep, end, seeds, some};

const SECOND: Nanos = Nanos::from_secs(1);

/// A host at each of so many nodes.
fn plan(seed: u64, nodes: usize, worker: WorkerPlan) -> Plan {
    let drift = |node| [0, 10_000, -10_000][node % 3];
    let clock = |node| Clock { base: Nanos::from_secs(7), drift_ppm: drift(node) };
    let clocks = (0..nodes).map(clock).collect();
    Plan { clocks, workers: vec![worker; nodes], ..Plan::calm(seed) }
}

#[test]
fn nodes_in_a_calm_world_serve_their_own_hosts() {
    for seed in some(3) {
        let mut sim = Sim::new(plan(seed, 3, WorkerPlan::plain(200)));
        sim.finish_work();
        let report = sim.report();
        assert_eq!((report.lost, report.joined), (0, 3));
        end(sim);
    }
}

#[test]
fn nothing_waits_for_the_sweep_of_a_clock_that_runs_too_slow() {
    for seed in some(6) {
        assert_nothing_waits_for_the_sweep(seed, plan(seed, 3, WorkerPlan::plain(200)));
    }
}

#[test]
fn power_that_one_machine_loses_takes_nothing_durable_and_another_runs_on() {
    for seed in some(4) {
        let mut plan = plan(seed, 2, WorkerPlan::plain(3_000));
        plan.faults.disk.split_permille = 500;
        let mut sim = Sim::new(plan);
        for _ in 0..8 {
            sim.run_for(Nanos::from_millis(60));
            sim.lose_power_of(NodeId(1));
        }
        sim.finish_work();
        assert_eq!(sim.joined(0), 1, "seed {seed}: the other machine lost its power");
        assert!(sim.joined(1) > 4, "seed {seed}");
        end(sim);
    }
}

/// In each direction: what does not arrive, and what is not answered.
#[test]
fn a_host_that_is_cut_off_gives_up_comes_back_and_reads_what_it_wrote() {
    for (seed, cut) in (0..6).zip([Cut::ToNode, Cut::ToHost, Cut::Both].into_iter().cycle()) {
        let mut sim = Sim::new(plan(seed, 2, WorkerPlan::plain(2_000)));
        sim.run_for(Nanos::from_millis(20));
        let before = sim.report().reads;
        sim.part(&[0], cut, SECOND.plus(Nanos::from_secs(9)));
        sim.run_for(Nanos::from_secs(9));
        let (lost, others) = (sim.report().lost, sim.is_done(1));
        assert!(lost > 0 && !sim.is_done(0), "seed {seed}: it has given up");
        assert!(others, "seed {seed}: the other host waited for it");
        sim.finish_work();
        assert!(sim.joined(0) > 1, "seed {seed}: it came back");
        assert_eq!(sim.joined(1), 1, "seed {seed}");
        assert!(sim.report().reads > before + 100);
        end(sim);
    }
}

/// Two hosts, one on each node: `disturb` costs neither its connection.
fn keeps_its_connections(worker: WorkerPlan, disturb: impl Fn(&mut Sim)) {
    for seed in some(4) {
        let mut sim = Sim::new(plan(seed, 2, worker.clone()));
        disturb(&mut sim);
        sim.finish_work();
        let report = sim.report();
        assert_eq!((report.lost, report.joined), (0, 2), "seed {seed}");
        end(sim);
    }
}

#[test]
fn a_partition_that_is_short_costs_no_connection() {
    keeps_its_connections(WorkerPlan::plain(400), |sim| {
        for _ in 0..5 {
            sim.run_for(Nanos::from_millis(3));
            sim.isolate(NodeId(0), Nanos::from_millis(500));
            sim.run_for(SECOND);
        }
    });
}

#[test]
fn a_node_that_pauses_goes_on_where_it_was() {
    let worker = WorkerPlan { keep_alive_ms: 5_000, ..WorkerPlan::plain(400) };
    keeps_its_connections(worker, |sim| {
        for _ in 0..5 {
            sim.run_for(Nanos::from_millis(3));
            sim.pause(NodeId(0), SECOND);
            sim.run_for(Nanos::from_millis(1_100));
        }
    });
}

/// The bytes that its hosts sent meanwhile wait in its sockets, keep-alives among them. The hosts may have given them
/// up.
#[test]
fn a_node_that_pauses_for_longer_than_a_keep_alive_time_ends_its_controllers_before_it_hears_them()
{
    let worker = WorkerPlan { keep_alive_ms: 2_000, ..WorkerPlan::plain(400) };
    for seed in some(4) {
        let mut sim = Sim::new(plan(seed, 2, worker.clone()));
        sim.run_for(Nanos::from_millis(20));
        sim.pause(NodeId(0), SECOND.plus(SECOND).plus(SECOND));
        sim.finish_work();
        assert_eq!(sim.report().count("keep-alive expired"), 1, "seed {seed}");
        assert_eq!((sim.joined(0), sim.joined(1)), (2, 1), "seed {seed}");
        end(sim);
    }
}

/// The number of all seeds, and how often each event must occur in all of them: far less often than it does.
const SEEDS: u64 = 32;
const FLOOR: [(&str, u64); 6] = [
    ("partition", 20),
    ("partition over", 15),
    ("host gives up", 5),
    ("pause", 8),
    ("power lost", 40),
    ("reads judged", 5_000),
];

#[test]
fn whatever_one_machine_does_nothing_is_lost_stale_or_left_on_any() {
    let seeds = seeds(SEEDS);
    let count = seeds.end - seeds.start;
    let reports: Vec<Report> = seeds.map(|seed| run(Plan::draw_several(seed))).collect();
    let of = |what| match what {
        "reads judged" => reports.iter().map(|report| report.reads).sum::<u64>(),
        what => reports.iter().map(|report| report.count(what)).sum(),
    };
    for (what, least) in FLOOR {
        println!("{what}: {}", of(what));
        assert!(count < SEEDS || of(what) >= least, "{what}: {} in {count} runs", of(what));
    }
}

#[test]
fn a_seed_of_several_nodes_is_the_same_run_every_time() {
    for seed in 1..3 {
        let [one, two] = [0, 1].map(|_| run(Plan::draw_several(seed)));
        assert_eq!(one, two, "seed {seed}");
    }
}
