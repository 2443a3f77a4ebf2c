//! Namespaces that are published one list after another.

use proptest::prelude::*;

use super::*;

const NAMES: [&str; 3] = ["data", "less", "more"];

/// Namespaces in the order of the control side, each with a size of its own.
fn list() -> impl Strategy<Value = Vec<NamespaceConfig>> {
    let one = prop::option::of(1..3_u64);
    prop::collection::vec(one, NAMES.len() * 3).prop_map(|sizes| {
        let places = NAMES.iter().flat_map(|name| (1..=3).map(move |nsid| (name, nsid)));
        let some = places.zip(sizes).filter_map(|(place, blocks)| Some((place, blocks?)));
        let config = |((name, nsid), blocks): ((&&str, u32), u64)| NamespaceConfig {
            blocks: Blocks(blocks << 10),
            ..namespace(name, nsid)
        };
        some.map(config).collect()
    })
}

fn all(target: &Target) -> BTreeMap<Nqn, Namespaces> {
    let subsystems = target.subsystems.iter();
    subsystems.map(|(nqn, it)| (nqn.clone(), it.all.namespaces.clone())).collect()
}

proptest! {
    /// Only what differs is replaced, and the whole is as if it had been published at once.
    #[test]
    fn a_list_replaces_everything_that_differs_and_nothing_else(
        lists in prop::collection::vec(list(), 1..6),
    ) {
        let mut target = Target::new(config());
        for list in lists {
            let (before, generation) = (all(&target), target.discovery_generation);
            let generations: BTreeMap<_, _> = target.subsystems.iter()
                .map(|(nqn, it)| (nqn.clone(), it.generation)).collect();
            target.publish(list.clone()).unwrap();
            let mut fresh = Target::new(config());
            fresh.publish(list).unwrap();
            let after = all(&target);
            prop_assert_eq!(&after, &all(&fresh));
            for (nqn, subsystem) in &target.subsystems {
                let is_same = before.get(nqn) == after.get(nqn);
                let kept = generations.get(nqn) == Some(&subsystem.generation);
                prop_assert_eq!(is_same, kept, "{} is new exactly if it differs", nqn);
            }
            let has_changed = target.discovery_generation != generation;
            prop_assert_eq!(!before.keys().eq(after.keys()), has_changed);
        }
    }
}
