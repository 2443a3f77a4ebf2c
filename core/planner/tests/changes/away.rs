//! Nodes that are down, and slices that their nodes have not opened.

use nearflash_planner::model::begin;
use nearflash_planner::{Awaited, accept_restored, waits_for};
use nearflash_records::record::HistoryRecord;
use nearflash_records::state::ClusterState;
use nearflash_records::store::TXN_OPERATIONS_MAX;

use super::replicas::{mirrored, more_space};
use super::*;

/// The nodes under a volume.
fn nodes(model: &Model, spec: &VolumeSpec) -> BTreeSet<Uuid> {
    let state = model.state();
    let slices =
        state.mirrors_of(spec.uuid).flat_map(|it| state.slices_under(it).collect::<Vec<_>>());
    slices.filter_map(|slice| state.node_of(&slice)).collect()
}

fn waiting(state: &ClusterState, job: u64) -> Vec<(String, Awaited)> {
    waits_for(state, job).into_iter().map(|(node, awaited)| (node.to_string(), awaited)).collect()
}

#[test]
fn a_new_volume_lies_on_nodes_that_run() {
    let mut model = cluster_of(3, ByteLen(40 * GIB));
    model.set_alive(3, false);
    for spec in [volume(1, ByteLen(8 * GIB)), mirrored(2, ByteLen(8 * GIB))] {
        create(&mut model, &spec).unwrap();
        assert_eq!(nodes(&model, &spec), [node(1), node(2)].into(), "{}", spec.name);
    }
    model.set_alive(3, true);
    let spec = volume(3, ByteLen(8 * GIB));
    create(&mut model, &spec).unwrap();
    assert!(nodes(&model, &spec).contains(&node(3)), "it has the most free space");
    check_store(&model);
}

#[test]
fn a_volume_that_needs_a_node_that_is_down_is_refused_with_its_name() {
    let mut model = cluster_of(3, ByteLen(40 * GIB));
    [2, 3].iter().for_each(|number| model.set_alive(*number, false));
    let before = model.revision;
    let mut refused = |spec: VolumeSpec| create(&mut model, &spec).unwrap_err().to_string();
    assert_eq!(
        refused(mirrored(1, ByteLen(GIB))),
        "node 'n2' is down, node 'n3' is down: start what is missing, and repeat this. At present, 2 replicas need \
         slices on 2 nodes, and only 'n1' has one: start another node with --slice"
    );
    let wide = VolumeSpec { width: Some(2), ..volume(1, ByteLen(GIB)) };
    assert!(refused(wide).ends_with("At present, width 2 is not possible: use 1"));
    let local = VolumeSpec { placement: Placement::Central(node(2)), ..volume(1, ByteLen(GIB)) };
    assert!(refused(local).starts_with("node 'n2' is down: start"));
    let long = refused(volume(1, ByteLen(60 * GIB)));
    assert!(long.contains("'n3' is down") && long.contains("free per node: n1 "), "{long}");
    // The nodes that are down would not help.
    let longer = refused(volume(1, ByteLen(150 * GIB)));
    assert!(longer.starts_with("150GiB more is needed") && longer.contains("n3 "), "{longer}");
    let wider = VolumeSpec { width: Some(4), ..volume(1, ByteLen(GIB)) };
    assert_eq!(refused(wider), "width 4 is not possible: use 1 to 3");
    assert_eq!(model.revision, before);
}

#[test]
fn a_slice_that_its_node_has_not_opened_since_it_started_takes_nothing() {
    let mut model = cluster_of(2, ByteLen(40 * GIB));
    model.carry_out(&more_space(2, 9, ByteLen(80 * GIB))).unwrap();
    // The node starts again, and only with its larger slice.
    model.carry_out(&register(2)).unwrap();
    let refused = create(&mut model, &mirrored(1, ByteLen(GIB))).unwrap_err().to_string();
    assert!(
        refused.starts_with("node 'n2' runs without its slice 'flash': start what is missing, and"),
        "{refused}"
    );
    let Change::OpenSlice(larger) = more_space(2, 9, ByteLen(80 * GIB)) else { unreachable!() };
    model.carry_out(&Change::OpenSlice(SliceSpec { incarnation: 2, ..larger })).unwrap();
    let spec = mirrored(1, ByteLen(GIB));
    create(&mut model, &spec).unwrap();
    let state = model.state();
    let under: BTreeSet<Uuid> = state
        .mirrors_of(spec.uuid)
        .flat_map(|it| state.slices_under(it).collect::<Vec<_>>())
        .collect();
    assert_eq!(under, [slice(1), slice(9)].into());
}

#[test]
fn a_registration_whose_answer_is_lost_is_not_repeated() {
    let mut model = cluster_of(1, ByteLen(40 * GIB));
    let Ok(Step::Submit(txn)) = register(1).plan(&model.state(), false) else { unreachable!() };
    assert!(model.txn(&txn) && !model.txn(&txn));
    assert_eq!(register(1).plan(&model.state(), true), Ok(Step::Done));
    model.carry_out(&open_slice(1, ByteLen(40 * GIB), 2)).unwrap();
    assert!(!model.txn(&txn) && model.state().is_open(&slice(1)));
}

#[test]
fn a_growth_is_refused_while_a_node_that_it_needs_is_down() {
    let mut model = cluster_of(2, ByteLen(40 * GIB));
    let spec = mirrored(1, ByteLen(GIB));
    create(&mut model, &spec).unwrap();
    model.set_alive(2, false);
    let before = model.revision;
    let wanted = grow(spec.uuid, Blocks(2 * GIB / 4096));
    let refused = model.carry_out(&wanted).unwrap_err().to_string();
    assert!(refused.starts_with("node 'n2' is down: start"), "{refused}");
    assert_eq!(model.revision, before);
    model.set_alive(2, true);
    model.carry_out(&wanted).unwrap();
    model.finish(spec.uuid).unwrap();
    check_store(&model);
}

#[test]
fn a_job_says_which_nodes_it_waits_for() {
    let mut model = cluster_of(3, ByteLen(40 * GIB));
    let spec = VolumeSpec { width: Some(3), ..volume(1, ByteLen(8 * GIB)) };
    model.carry_out(&Change::CreateVolume(spec.clone())).unwrap();
    model.set_alive(3, false);
    model.carry_out(&register(2)).unwrap();
    let expected = [
        ("n1".to_owned(), Awaited::Zeroing),
        ("n2".to_owned(), Awaited::SliceClosed),
        ("n3".to_owned(), Awaited::Down),
    ];
    assert_eq!(waiting(&model.state(), 2), expected);
    let own = model.state().places_to_zero().filter(|it| it.slice == slice(1)).collect();
    model.carry_out(&Change::NoteZeroed { places: own }).unwrap();
    assert_eq!(waiting(&model.state(), 2), expected[1..]);
    model.carry_out(&Change::CancelJob { job: 2 }).unwrap();
    assert_eq!(waiting(&model.state(), 2), [], "it is being undone");
    assert_eq!(waiting(&model.state(), 4), []);
}

#[test]
fn a_job_whose_further_rows_need_a_node_that_is_down_waits_for_it() {
    let mut model = cluster_of(2, ByteLen(200 * GIB));
    let spec = mirrored(1, ByteLen(150 * GIB));
    model.carry_out(&Change::CreateVolume(spec.clone())).unwrap();
    model.zero_all().unwrap();
    model.set_alive(2, false);
    let step = Change::CarryOn { job: 2, by: begin(1) };
    let refused = model.carry_out(&step).unwrap_err();
    assert!(matches!(refused, Refusal::Away { .. }), "{refused}");
    assert_eq!(waiting(&model.state(), 2), [("n2".to_owned(), Awaited::Down)]);
    model.set_alive(2, true);
    assert_eq!(waiting(&model.state(), 2), []);
    model.finish(spec.uuid).unwrap();
    check_store(&model);
}

#[test]
fn an_accepted_snapshot_has_no_note_of_a_zeroed_place() {
    let mut model = cluster_of(2, ByteLen(100 * GIB));
    let volumes: Vec<VolumeSpec> = (1..=40).map(|it| mirrored(it, ByteLen(2 * GIB))).collect();
    for spec in &volumes {
        model.carry_out(&Change::CreateVolume(spec.clone())).unwrap();
    }
    model.zero_all().unwrap();
    let snapshot = model.clone();
    // Since then, the volumes were used and removed. Their places are no longer zero.
    volumes.iter().for_each(|spec| model.remove(spec.uuid).unwrap());
    let mut model = snapshot;
    [1, 2].iter().for_each(|number| model.set_alive(*number, false));
    let history = HistoryRecord { schema: Schema, id: node(9), began: 7 };
    let txns = accept_restored(&model.state(), &history);
    assert_eq!(txns.len(), 3);
    let mut other = model.clone();
    other.set_alive(1, true);
    assert!(!other.txn(&txns[0]), "no node may run");
    for txn in &txns {
        assert!(txn.puts.len() + txn.deletes.len() <= TXN_OPERATIONS_MAX);
        assert!(model.txn(txn));
    }
    let state = model.state();
    assert_eq!((state.zeroed().count(), state.history()), (0, Some(&history)));
    assert_eq!(state.places_to_zero().count(), 160, "all of them are zeroed again");
    assert!(!model.txn(&txns[2]));
}
