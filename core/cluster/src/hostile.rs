//! States of hostile records: nothing that reads them panics, and the fault has a name.

use nearflash_planner::model::{
    CLUSTER, GIB, Model, cluster_of, grow, node, open_slice, register, remove, volume,
};
use nearflash_planner::{Change, VolumeSpec};
use nearflash_records::prefix;
use nearflash_records::state::ClusterState;
use nearflash_units::{Blocks, ByteLen, Nanos};
use proptest::prelude::*;

use crate::agent::{Agent, AgentConfig};
use crate::compile::compile;
use crate::verdict::verdict;

fn served() -> Model {
    let mut model = cluster_of(2, ByteLen(80 * GIB));
    for number in [1, 2] {
        let replicas = u8::try_from(number).unwrap();
        let spec = VolumeSpec { replicas, ..volume(number, ByteLen(20 * GIB)) };
        model.carry_out(&Change::CreateVolume(spec)).unwrap();
    }
    model
}

/// Reads the state in every way.
fn use_state(state: &ClusterState) {
    compile(state, node(1));
    let (cluster, node) = (CLUSTER, node(1));
    let config = AgentConfig { cluster, node, run: None, endpoints: 1, seen: None };
    let mut health = Agent::new(config, Nanos(0)).health();
    health.is_read = true;
    assert!(!verdict(Nanos(1), &health, &[], state).to_string().is_empty());
    let uuid = volume(1, ByteLen(0)).uuid;
    let changes = [
        register(1),
        register(3),
        open_slice(1, ByteLen(90 * GIB), 3),
        Change::CreateVolume(volume(3, ByteLen(GIB))),
        grow(uuid, Blocks(30 * GIB / 4096)),
        remove(uuid),
        Change::CreateVolume(VolumeSpec { replicas: 2, ..volume(4, ByteLen(GIB)) }),
        remove(volume(2, ByteLen(0)).uuid),
    ];
    for change in changes {
        if let Err(refusal) = change.plan(state, false) {
            assert!(!refusal.to_string().is_empty());
        }
    }
}

#[test]
fn the_newest_value_of_a_key_counts_however_often_events_come() {
    let model = served();
    let mut state = ClusterState::new(CLUSTER);
    for _ in 0..2 {
        let history = model.history.iter().flat_map(|(_, changes)| changes);
        history.for_each(|it| state.apply(it));
        assert_eq!(state, model.state());
    }
}

#[test]
fn a_key_that_is_not_ours_is_reported_by_name_until_it_is_gone() {
    let mut model = served();
    let path = format!("{}shoe/size", prefix(CLUSTER));
    model.write(vec![(path.clone(), Some(b"43".to_vec()))]);
    let mut state = model.state();
    assert!(state.damaged().next().unwrap().to_string().contains("shoe/size"));
    model.write(vec![(path, None)]);
    state.apply(&model.history.last().unwrap().1[0]);
    assert_eq!(state.damaged().count(), 0);
}

proptest! {
    /// Records with other numbers, records of other keys, and missing ones.
    #[test]
    fn hostile_records_are_named_and_nothing_panics(
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0..6u8, any::<u64>()), 1..6)
    ) {
        let mut model = served();
        for (index, kind, number) in edits {
            let keys: Vec<String> = model.records.keys().cloned().collect();
            let key = keys[index.index(keys.len())].clone();
            let text = String::from_utf8(model.records[&key].0.clone()).unwrap_or_default();
            // The last number of the record, or the one after its schema.
            let digits = |c: char| c.is_ascii_digit();
            let at = match kind {
                0 => text.rfind(digits),
                1 => text.find(':').and_then(|at| Some(at + 2 + text[at + 2..].find(digits)?)),
                _ => None,
            };
            let value = match (kind, at) {
                (0 | 1, Some(at)) => {
                    let rest = text[at..].trim_start_matches(digits);
                    Some(format!("{}{number}{rest}", &text[..at]).into_bytes())
                }
                (2, _) => None,
                (3, _) => Some(vec![b'{'; 100]),
                (4, _) => Some(text.replace(":16", &format!(":{}", u64::MAX)).into_bytes()),
                _ => model.records.values().next().map(|it| it.0.clone()),
            };
            model.write(vec![(key, value)]);
            use_state(&model.state());
        }
    }
}
