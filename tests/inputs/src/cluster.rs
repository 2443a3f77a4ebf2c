//! Input of a cluster: records of its store, which people and other programs can damage, messages of
//! nodes, and tokens.

use std::collections::BTreeMap;

use nearflash_cluster::{compile, data};
use nearflash_mirror::check as mirror;
use nearflash_records::check as records;
use nearflash_records::{ClusterState, Found, Key, ModRevision, prefix};
use uuid::Uuid;

const CLUSTER: Uuid = Uuid::from_u128(7);

/// Checks any input of a cluster. The first byte selects its kind.
pub fn check_cluster(input: &[u8]) {
    let Some((selector, bytes)) = input.split_first() else { return };
    match selector % 3 {
        0 => check_records(bytes),
        1 => mirror::check_pulse(bytes),
        _ => records::check_token(bytes),
    }
}

/// Checks any records, one in a line: a key, a space and a value. The order in which they come does not
/// matter, and the state can be used: every volume has a place, or its fault has a name.
fn check_records(bytes: &[u8]) {
    let lines = bytes.split(|byte| *byte == b'\n').take(64);
    let by_key: BTreeMap<String, Found> = lines.map(found).map(|it| (it.key.clone(), it)).collect();
    let found: Vec<Found> = by_key.into_values().collect();
    let mut state = ClusterState::new(CLUSTER);
    state.replace(&found);
    let mut applied = ClusterState::new(CLUSTER);
    found.iter().rev().for_each(|it| applied.apply(it));
    for it in &found {
        if let Ok(key) = Key::parse(CLUSTER, &it.key) {
            assert_eq!(key.path(CLUSTER), it.key);
        }
    }
    assert_eq!(state, applied);
    let node = state.nodes().keys().next().copied().unwrap_or_default();
    let tables = compile(&state, node);
    assert!(tables.left_out.values().all(|(_, fault)| !fault.to_string().is_empty()));
    assert!(!data(&state).reason.is_empty());
    assert!(state.damaged().all(|fault| !fault.to_string().is_empty()));
}

fn found(line: &[u8]) -> Found {
    let end = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
    let key = format!("{}{}", prefix(CLUSTER), String::from_utf8_lossy(&line[..end]));
    let mod_revision = ModRevision(1 + u64::try_from(line.len()).unwrap_or_default());
    Found { key, value: line.get(end + 1..).map(<[u8]>::to_vec), mod_revision }
}
