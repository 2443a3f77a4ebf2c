//! Traces of requests of every protocol, in simulated time.

use std::collections::BTreeSet;

use nearflash_engine::{Moment, TraceRecord, Traced};
use nearflash_sim::{ClientPlan, InitiatorPlan, Plan, Sim, WorkerPlan};
use nearflash_units::Nanos;

use crate::shared::some;

fn plan(seed: u64) -> Plan {
    let mut plan = Plan {
        workers: vec![WorkerPlan::plain(150); 2],
        initiators: vec![InitiatorPlan::plain(150); 2],
        clients: vec![ClientPlan::plain(300), ClientPlan { rings: true, ..ClientPlan::plain(300) }],
        ..Plan::calm(seed)
    };
    plan.faults.disk.slow_permille = 20;
    plan.faults.disk.slow = Nanos::from_millis(3);
    plan
}

fn records(traces: &[Traced]) -> impl Iterator<Item = &TraceRecord> {
    traces.iter().flat_map(|traced| &traced.records)
}

#[test]
fn the_moments_of_requests_of_every_protocol_are_in_order_and_each_is_passed() {
    let (mut protocols, mut operations) = (BTreeSet::new(), BTreeSet::new());
    let mut device_times = 0;
    for seed in some(6) {
        let mut sim = Sim::new(plan(seed));
        sim.begin_trace(3);
        sim.finish_work();
        let traces = sim.end_trace();
        assert!(records(&traces).count() > 50, "seed {seed}: requests are traced");
        for record in records(&traces) {
            let times: Vec<Nanos> =
                Moment::ALL.iter().filter_map(|moment| record.moments.at(*moment)).collect();
            assert!(times.is_sorted(), "seed {seed}: {record:?}");
            assert!(record.moments.at(Moment::Sent).is_some(), "seed {seed}: {record:?}");
            let [submitted, completed] =
                [Moment::Submitted, Moment::Completed].map(|it| record.moments.at(it));
            if record.operation == "read" {
                let took = completed.zip(submitted).map(|(end, begin)| end.since(begin));
                device_times += usize::from(took.is_some_and(|took| took > Nanos(0)));
            }
            protocols.insert(record.protocol);
            operations.insert(record.operation);
        }
        sim.drain();
    }
    assert_eq!(protocols.len(), 3, "each protocol is traced");
    assert!(operations.is_superset(&["read", "write", "flush"].into()), "{operations:?}");
    assert!(device_times > 100, "reads take their time on the device");
}
