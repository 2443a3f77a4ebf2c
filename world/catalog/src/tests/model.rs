//! A transaction on the catalog equals the same one on the modelled store.

use nearflash_records::model::{CLUSTER, ModelStore};
use proptest::prelude::*;

use super::*;

const KEYS: [&str; 5] = ["last/job", "last/grant", "had/list", "grant/1", "host/nqn.a%2Fb"];

/// The part of a transaction about one key: whether it compares it, with the revision that it has or another one, and
/// what it writes.
type Step = (usize, Option<bool>, Option<Option<u8>>);

fn any_txn() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec((0..KEYS.len(), any::<Option<bool>>(), any::<Option<Option<u8>>>()), 1..4)
}

/// The content of the modelled store, as that of a catalog.
fn content(model: &ModelStore) -> Content {
    let found = model.range().into_iter().map(|it| {
        let key = Key::parse(CLUSTER, &it.key).unwrap();
        (key, (it.value.unwrap().into(), it.mod_revision))
    });
    Content { revision: model.revision, found: found.collect() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn a_transaction_on_the_catalog_is_that_on_the_model(
        txns in prop::collection::vec((any_txn(), any::<bool>()), 1..12)
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut catalog = Catalog::open(folder.path(), FRESH).unwrap();
        let mut model = ModelStore::default();
        for (steps, restarts) in txns {
            let known = content(&model);
            let mut txn = Txn::default();
            let mut written = std::collections::BTreeSet::new();
            for (at, compared, write) in steps {
                let key = key(KEYS[at]);
                let revision = known.found.get(&key).map_or(0, |(_, revision)| revision.0);
                if let Some(is_known) = compared {
                    let mod_revision = ModRevision(revision + u64::from(!is_known));
                    txn.compares.push(Compare { key: key.clone(), mod_revision });
                }
                match write.filter(|_| written.insert(at)) {
                    Some(Some(byte)) => {
                        txn.puts.push(Put { key, value: vec![byte; 3].into(), lease: None });
                    }
                    Some(None) => txn.deletes.push(key),
                    None => {}
                }
            }
            let has_succeeded = model.txn(&txn);
            prop_assert_eq!(catalog.commit(&txn).is_ok(), has_succeeded);
            prop_assert_eq!(catalog.read().unwrap(), content(&model));
            if restarts {
                drop(catalog);
                catalog = Catalog::open(folder.path(), FRESH).unwrap();
            }
        }
    }
}
