//! Runs drawn from seeds: `SIM_SEEDS` of them, from `SIM_FIRST` on, or the one seed `SIM_SEED`.

use std::collections::BTreeMap;
use std::panic::{catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use nearflash_sim::{Plan, Report, run};

use crate::shared::seeds;

/// Runs all seeds on every processor; the first failure ends the test.
fn run_all(seeds: &[u64]) -> Total {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut total = Total::default();
        while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
            let report = catch_unwind(|| run(Plan::draw(*seed))).unwrap_or_else(|panic| {
                next.store(seeds.len(), Ordering::Relaxed);
                resume_unwind(panic)
            });
            if std::env::var_os("SIM_REPORT").is_some() {
                println!("{seed}: {report:?}");
            }
            total.add(report);
        }
        total
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut total = work();
        for other in others {
            total.merge(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        total
    })
}

/// The number of runs with `ALL_SEEDS`. This many runs together reach all of [`FLOOR`]; fewer are not
/// compared with it.
const MANY: u64 = 64;

/// How often each event must occur in this many runs: far less often than it does, so that no set
/// of seeds falls short by chance, and often enough that no missing check, protocol or fault goes
/// unnoticed.
const FLOOR: [(&str, u64); 55] = [
    ("reads judged", 10_000),
    ("writes acknowledged to hosts", 900),
    ("writes acknowledged to initiators", 100),
    ("writes acknowledged to direct clients", 70),
    ("of hosts, read by hosts", 3_000),
    ("of initiators, read by hosts", 300),
    ("of direct clients, read by hosts", 100),
    ("of hosts, read by initiators", 200),
    ("of initiators, read by initiators", 300),
    ("of direct clients, read by initiators", 20),
    ("of hosts, read by direct clients", 100),
    ("of initiators, read by direct clients", 20),
    ("of direct clients, read by direct clients", 100),
    ("compare-and-writes", 70),
    ("comparisons that did not hold", 70),
    ("blocks written back as they were", 40),
    ("bytes and words of direct clients judged", 3_000_000),
    ("requests by rings", 300),
    ("requests through seals", 150),
    ("requests through void seals", 50),
    ("seals revoked", 150),
    ("requests of clients with bearers", 200),
    ("messages on files", 500),
    ("messages on files refused", 20),
    ("owner of files held up", 5),
    ("commands lost", 700),
    ("commands failed", 500),
    ("commands aborted", 5),
    ("direct requests lost", 20),
    ("direct requests refused", 100),
    ("trespasses refused", 3),
    ("answers held against reservations", 900),
    ("refusals because of reservations", 200),
    ("connections broken", 40),
    ("host leaves", 100),
    ("initiator leaves", 40),
    ("client leaves", 30),
    ("pause", 10),
    ("power lost", 10),
    ("torn block", 4),
    ("resize", 9),
    ("revoke", 3),
    ("drain under load", 1),
    ("drain", 2),
    ("device failed", 80),
    ("register", 30),
    ("reserve", 7),
    ("preempt", 1),
    ("change in conflict", 50),
    ("unit reset", 1),
    ("end tasks", 1),
    ("protocol broken", 4),
    ("silence given up", 1),
    ("keep-alive expired", 1),
    ("target reset", 1),
];

/// The counts of several runs, added up.
#[derive(Default)]
struct Total(BTreeMap<&'static str, u64>);

impl Total {
    fn add(&mut self, report: Report) {
        let [by_hosts, by_initiators, by_clients] = report.across;
        let counts = [
            ("reads judged", report.reads),
            ("writes acknowledged to hosts", report.acknowledged[0]),
            ("writes acknowledged to initiators", report.acknowledged[1]),
            ("writes acknowledged to direct clients", report.acknowledged[2]),
            ("of hosts, read by hosts", by_hosts[0]),
            ("of initiators, read by hosts", by_hosts[1]),
            ("of direct clients, read by hosts", by_hosts[2]),
            ("of hosts, read by initiators", by_initiators[0]),
            ("of initiators, read by initiators", by_initiators[1]),
            ("of direct clients, read by initiators", by_initiators[2]),
            ("of hosts, read by direct clients", by_clients[0]),
            ("of initiators, read by direct clients", by_clients[1]),
            ("of direct clients, read by direct clients", by_clients[2]),
            ("compare-and-writes", report.counted),
            ("comparisons that did not hold", report.differed),
            ("blocks written back as they were", report.touched),
            ("bytes and words of direct clients judged", report.direct_judged),
            ("requests by rings", report.direct_by_ring),
            ("requests through seals", report.seals[0]),
            ("requests through void seals", report.seals[1]),
            ("seals revoked", report.seals[2]),
            ("requests of clients with bearers", report.seals[3]),
            ("messages on files", report.files[0]),
            ("messages on files refused", report.files[1]),
            ("commands lost", report.lost),
            ("commands failed", report.failed),
            ("commands aborted", report.aborted),
            ("commands that there was no room for", report.turned_away),
            ("direct requests lost", report.direct_lost),
            ("direct requests refused", report.direct_refused),
            ("trespasses refused", report.direct_trespasses),
            ("answers held against reservations", report.reserved.0),
            ("refusals because of reservations", report.reserved.1),
            ("connections broken", report.broken),
        ];
        for (what, count) in counts.into_iter().chain(report.events) {
            *self.0.entry(what).or_default() += count;
        }
    }

    fn merge(&mut self, other: Self) {
        for (what, count) in other.0 {
            *self.0.entry(what).or_default() += count;
        }
    }

    fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or_default()
    }
}

#[test]
fn whatever_the_world_does_nothing_is_lost_stale_or_left() {
    let seeds: Vec<u64> = seeds(MANY).collect();
    println!("{} seeds from {}", seeds.len(), seeds[0]);
    let total = run_all(&seeds);
    println!("{:#?}", total.0);
    if seeds.len() < usize::try_from(MANY).unwrap_or(usize::MAX) {
        println!("how often each thing occurs is checked from {MANY} seeds on");
        return;
    }
    for (what, least) in FLOOR {
        let count = total.of(what);
        assert!(count >= least, "{what}: {count} in {} runs, at least {least}", seeds.len());
    }
}

/// Over every protocol, with a loss of power and all other faults.
#[test]
fn a_seed_is_the_same_run_every_time() {
    let is_rich = |seed: &u64| {
        let plan = Plan::draw(*seed);
        let all_doors = !plan.initiators.is_empty() && !plan.clients.is_empty();
        all_doors && plan.power_losses > 0
    };
    for seed in (1..).filter(is_rich).take(4) {
        assert_eq!(run(Plan::draw(seed)), run(Plan::draw(seed)), "seed {seed}");
    }
}
