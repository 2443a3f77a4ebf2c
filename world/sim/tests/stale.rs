//! Nodes that stand still while commands lie in their sockets and rings, and hosts that give these up meanwhile:
//! no such command is executed when the node goes on. The witness checks every write that reaches a device.

use nearflash_sim::{
    ClientPlan, Clock, Cut, GiveUp, InitiatorPlan, Mix, NodeId, Plan, Report, Sim, WorkerPlan,
};
use nearflash_units::{ByteLen, KIB, MIB, Nanos};

const WRITES: Mix = Mix {
    reads: 1,
    writes: 8,
    zeroes: 1,
    deallocations: 0,
    flushes: 0,
    compares: 0,
    steps: 0,
    overwrites: 0,
    touches: 0,
    tails: 0,
};

/// A standstill of which all input is too old for volumes of several nodes, and one of which none is.
const LONG: Nanos = Nanos::from_secs(3);
const YOUNGER: Nanos = Nanos::from_millis(1_800);

/// Slow enough to have work left at each standstill.
const THINK: (Nanos, Nanos) = (Nanos::from_micros(100), Nanos::from_micros(2_000));

fn host() -> WorkerPlan {
    WorkerPlan { mix: WRITES, think: THINK, ..WorkerPlan::plain(300) }
}

fn initiator() -> InitiatorPlan {
    InitiatorPlan { mix: WRITES, think: THINK, ..InitiatorPlan::plain(300) }
}

fn client(rings: bool) -> ClientPlan {
    let field_permille = 1_000;
    ClientPlan { mix: WRITES, think: THINK, rings, field_permille, ..ClientPlan::plain(300) }
}

/// One node stands still several times, and its hosts give up what they have sent.
fn stand_still(plan: Plan, span: Nanos, how: GiveUp) -> Report {
    let mut sim = Sim::new(plan);
    sim.expect_swift_nodes();
    for round in 0..4 {
        sim.run_for(Nanos::from_millis(20 + round));
        sim.pause(NodeId(0), span);
        sim.run_for(Nanos::from_millis(100));
        sim.give_up(NodeId(0), how);
        sim.run_for(span);
    }
    sim.finish_work();
    let report = sim.report();
    sim.calm();
    sim.rest();
    sim.drain();
    sim.rest();
    sim.check_disks();
    report
}

/// In all runs of a test: commands that lay in sockets or rings when their hosts gave them up, standstills that
/// cores noticed, and connections whose end was seen before their input was executed.
#[derive(Debug, Default)]
struct Count {
    given_up: u64,
    standstills: u64,
    unexecuted: u64,
}

impl Count {
    fn add(&mut self, report: Report) {
        self.given_up += report.lost + report.direct_lost;
        self.standstills += report.count("stood still");
        self.unexecuted += report.count("end seen before execution");
    }
}

/// Ends and resets that arrive behind commands. A client with rings has commands there, and only its end on the
/// socket.
fn close_and_reset(span: Nanos, plan: impl Fn(u64) -> Plan) -> Count {
    let mut count = Count::default();
    for seed in 0..4 {
        let how = if seed % 2 == 0 { GiveUp::Close } else { GiveUp::Reset };
        count.add(stand_still(plan(seed), span, how));
    }
    println!("{count:?}");
    // A core that sleeps when a shorter one begins need not notice it.
    let standstills = if span == LONG { 16 } else { 1 };
    assert!(count.given_up >= 40 && count.standstills >= standstills, "{count:?}");
    count
}

#[test]
fn what_nvme_hosts_have_given_up_is_not_executed_after_a_standstill() {
    let count = close_and_reset(LONG, |seed| Plan { workers: vec![host(); 2], ..Plan::calm(seed) });
    assert!(count.unexecuted >= 8, "{count:?}");
}

#[test]
fn what_initiators_have_given_up_is_not_executed_after_a_standstill() {
    let initiators = || vec![initiator(); 2];
    let count = close_and_reset(LONG, |seed| Plan { initiators: initiators(), ..Plan::calm(seed) });
    assert!(count.unexecuted >= 5, "{count:?}");
}

#[test]
fn what_direct_clients_have_given_up_is_not_executed_after_a_standstill() {
    let clients = || vec![client(false); 2];
    let count = close_and_reset(LONG, |seed| Plan { clients: clients(), ..Plan::calm(seed) });
    assert!(count.unexecuted >= 6, "{count:?}");
}

#[test]
fn what_clients_with_rings_have_given_up_is_not_executed_after_a_standstill() {
    close_and_reset(LONG, |seed| Plan { clients: vec![client(true); 2], ..Plan::calm(seed) });
}

#[test]
fn a_controller_whose_timer_has_expired_executes_nothing_that_came_before() {
    let mut count = Count::default();
    for seed in 0..4 {
        let worker = WorkerPlan { keep_alive_ms: 2_000, ..host() };
        let plan = Plan { workers: vec![worker; 2], ..Plan::calm(seed) };
        count.add(stand_still(plan, Nanos::from_secs(6), GiveUp::Vanish));
    }
    println!("{count:?}");
    assert!(count.given_up >= 40 && count.standstills >= 16, "{count:?}");
}

/// Nodes of which each serves the next one's volumes to these hosts, too. The first one stands still, and neither
/// has their blocks nor orders their writes.
fn far(seed: u64, nodes: usize) -> Plan {
    Plan {
        clocks: vec![Clock::default(); nodes],
        far: vec![host().far(); nodes],
        ..Plan::calm(seed)
    }
}

/// The same with volumes that two nodes keep.
fn mirrored(seed: u64, nodes: usize) -> Plan {
    let far_initiators = vec![initiator().far(); nodes];
    Plan { far_initiators, ..far(seed, nodes) }.mirrored()
}

#[test]
fn what_hosts_of_another_nodes_volumes_have_given_up_is_not_forwarded() {
    let count = close_and_reset(YOUNGER, |seed| far(seed, 2));
    assert!(count.unexecuted >= 4, "{count:?}");
}

#[test]
fn what_hosts_of_mirrors_have_given_up_is_not_forwarded() {
    let count = close_and_reset(YOUNGER, |seed| mirrored(seed, 3));
    assert!(count.unexecuted >= 8, "{count:?}");
}

/// No end arrives, and no timer expires.
#[test]
fn a_change_of_a_volume_of_several_nodes_that_is_two_seconds_old_is_not_begun() {
    let mut count = Count::default();
    for seed in 0..4 {
        let plan = if seed % 2 == 0 { far(seed, 2) } else { mirrored(seed, 3) };
        count.add(stand_still(plan, Nanos::from_secs(3), GiveUp::Vanish));
    }
    println!("{count:?}");
    assert!(count.given_up >= 40 && count.standstills >= 16, "{count:?}");
}

/// The writes of an initiator wait in its node, which does not reach the node that orders them, and use up its
/// share of the pool. So nobody reads the connection while it ends.
#[test]
fn what_an_initiator_gives_up_while_its_node_does_not_read_it_is_not_forwarded() {
    let mix = Mix { writes: 1, ..Mix::default() };
    let think = (Nanos(100), Nanos::from_micros(1));
    let writer = InitiatorPlan { mix, think, depth: 64, ..InitiatorPlan::plain(1_000) }.far();
    let mut given_up = 0;
    for seed in 0..4 {
        let mut plan = mirrored(seed, 3);
        (plan.far, plan.far_initiators) = (vec![WorkerPlan::plain(0).far()], vec![writer.clone()]);
        plan.node.cores = 1;
        plan.command_len_max = ByteLen(256 * KIB);
        let pool_len = plan.node.pool_len.0;
        let mut sim = Sim::new(plan);
        sim.expect_swift_nodes();
        sim.part_nodes((NodeId(0), NodeId(1)), Cut::Both, Nanos::from_millis(700));
        sim.run_for(Nanos::from_millis(200));
        let held = pool_len - sim.pool_free_min().0;
        assert!(held > MIB, "seed {seed}: its share is not used up: {held}");
        let how = if seed % 2 == 0 { GiveUp::Close } else { GiveUp::Reset };
        sim.give_up_for_good(NodeId(0), how);
        sim.run_for(Nanos::from_secs(2));
        given_up += sim.report().lost;
        sim.calm();
        sim.rest();
        sim.drain();
        sim.rest();
        sim.check_disks();
    }
    assert!(given_up >= 100, "{given_up}");
}

/// Hosts with a path by each of two nodes. The nodes stand still in turn; the hosts of the one that does come back over
/// the other one, repeat what was not answered, and write on. The history knows that the host goes on from there.
fn switch_paths(plan: Plan, how: GiveUp) -> Report {
    let mut sim = Sim::new(plan);
    sim.expect_swift_nodes();
    for round in 0..4 {
        sim.run_for(Nanos::from_millis(20));
        let node = NodeId(round % 2);
        // The end of what vanishes is not seen, but its age is.
        sim.pause(node, if how == GiveUp::Vanish { LONG } else { YOUNGER });
        sim.run_for(Nanos::from_millis(100));
        sim.give_up(node, how);
        sim.run_for(Nanos::from_secs(4));
    }
    sim.finish_work();
    let report = sim.report();
    sim.calm();
    sim.rest();
    sim.drain();
    sim.rest();
    sim.check_disks();
    report
}

#[test]
fn a_write_that_was_repeated_over_another_node_does_not_overwrite_what_followed() {
    let mut repeated = 0;
    for seed in 0..8 {
        let how =
            [GiveUp::Close, GiveUp::Reset, GiveUp::Vanish][usize::try_from(seed % 3).unwrap()];
        let mix = Mix { reads: 8, ..WRITES };
        let worker = WorkerPlan { switches: true, mix, ..host().far() };
        let plan = Plan { far: vec![worker; 3], ..far(seed, 3) };
        let plan = if seed % 2 == 0 { plan.mirrored() } else { plan };
        repeated += switch_paths(plan, how).count("repeated over another node");
    }
    println!("{repeated}");
    assert!(repeated >= 60, "{repeated}");
}
