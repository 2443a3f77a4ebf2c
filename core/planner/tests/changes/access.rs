//! The list of access that the nodes of a cluster share.

use std::collections::BTreeMap;

use nearflash_planner::{AccessChange, adopted};
use nearflash_records::access::{CredentialRecord, GrantRecord, HostRecord, HostVolumesRecord};
use nearflash_records::key::{Closing, Key, Numbered, Text};
use nearflash_records::record::LastRecord;
use nearflash_records::store::{ModRevision, Put, TXN_OPERATIONS_MAX};
use nearflash_records::{AccessRecords, ClusterState};

use super::*;
use crate::replicas::mirrored;

fn put<R: serde::Serialize>(key: Key, record: &R) -> Put {
    Put { key, value: serde_json::to_vec(record).unwrap().into(), lease: None }
}

fn id(name: &str) -> Key {
    Key::Credential(name.parse().unwrap())
}

fn credential(name: &str, digit: u8) -> Put {
    put(id(name), &CredentialRecord { secret: digit.to_string().repeat(64), expires_at: None })
}

fn grant_of(holder: &str, on: Uuid, start: u64) -> GrantRecord {
    let (seal, credential) = match holder {
        "seal" => (Some("7".repeat(64)), String::new()),
        credential => (None, credential.to_owned()),
    };
    let (path, end, expires_at) = (None, None, None);
    GrantRecord {
        credential,
        seal,
        volume: on,
        path,
        start,
        end,
        rights: "r".to_owned(),
        expires_at,
    }
}

fn grant(number: u64, record: &GrantRecord) -> Put {
    put(Key::Grant(number), record)
}

fn list(host: &str, volumes: &[Uuid]) -> Put {
    let volumes = volumes.iter().map(|it| (*it, "rw".to_owned())).collect();
    put(Key::List(Text::new(host)), &HostVolumesRecord { volumes })
}

fn change(number: u128, on: u64, puts: Vec<Put>, deletes: Vec<Key>) -> AccessChange {
    AccessChange { id: Uuid::from_u128(number), on, puts, deletes }
}

fn version(state: &ClusterState) -> u64 {
    state.access().version()
}

/// The next transaction of a change.
fn next(model: &Model, change: &AccessChange, begun: bool) -> Option<Txn> {
    match Change::Access(change.clone()).plan(&model.state(), begun).unwrap() {
        Step::Submit(txn) => Some(txn),
        Step::Done => None,
    }
}

/// A list with a credential that has that many grants.
fn with_grants(count: u64) -> Model {
    let mut model = cluster_of(2, ByteLen(40 * GIB));
    let grants =
        (1..=count).map(|number| grant(number, &grant_of("app", Uuid::from_u128(5), number)));
    let puts = std::iter::once(credential("app", 1)).chain(grants).collect();
    model.carry_out(&Change::Access(change(1, 0, puts, Vec::new()))).unwrap();
    assert_eq!(model.state().access().grants.len() as u64, count);
    model
}

#[test]
fn a_change_of_many_records_goes_on_where_it_was_interrupted_and_leaves_no_right_without_a_holder()
{
    let mut model = with_grants(250);
    let on = version(&model.state());
    assert_eq!(on, 3, "251 records, 100 at a time");
    let grants = (1..=250).map(Key::Grant);
    let removal = change(2, on, Vec::new(), std::iter::once(id("app")).chain(grants).collect());
    let mut steps = 0;
    while let Some(txn) = next(&model, &removal, steps > 0) {
        assert!(txn.compares.len() <= TXN_OPERATIONS_MAX);
        assert!(txn.puts.len() + txn.deletes.len() <= TXN_OPERATIONS_MAX);
        assert!(
            model.txn(&txn) && !model.txn(&txn),
            "it takes effect once, however late a copy arrives"
        );
        let state = model.state();
        let has_holder = state.access().credentials.len() == 1;
        assert!(has_holder || state.access().grants.is_empty(), "no grant without its credential");
        assert_eq!(version(&state), on + steps + 1);
        // Somebody who decided on the list before, or in the middle of it.
        for decided_on in [on, version(&state)] {
            let other = change(3, decided_on, vec![credential("late", 2)], Vec::new());
            let planned = Change::Access(other).plan(&state, false);
            assert_eq!(planned.is_ok(), decided_on == version(&state), "{planned:?}");
        }
        steps += 1;
    }
    assert_eq!((steps, model.state().access().grants.len()), (3, 0));
    assert!(model.state().access().credentials.is_empty());
}

#[test]
fn a_change_that_took_effect_is_done_although_another_one_followed() {
    let mut model = with_grants(1);
    let first = change(2, 1, vec![credential("one", 2)], vec![Key::Grant(1)]);
    let txn = next(&model, &first, false).unwrap();
    assert!(model.txn(&txn));
    model.carry_out(&Change::Access(change(3, 2, vec![credential("two", 3)], Vec::new()))).unwrap();
    assert_eq!(next(&model, &first, true), None);
}

#[test]
fn a_change_on_an_older_list_is_refused_and_says_how_to_go_on() {
    let mut model = with_grants(1);
    let first = change(2, 1, vec![credential("one", 2)], Vec::new());
    model.carry_out(&Change::Access(first)).unwrap();
    let late = change(3, 1, vec![credential("two", 3)], Vec::new());
    let refused = model.carry_out(&Change::Access(late)).unwrap_err();
    assert_eq!(refused, Refusal::AccessChanged);
    assert!(refused.to_string().contains("repeat the call"));
    assert_eq!(model.state().access().credentials.len(), 2);
    model.set_level(2);
    let early = change(4, 2, vec![credential("three", 4)], Vec::new());
    let refused = model.carry_out(&Change::Access(early)).unwrap_err();
    assert_eq!(refused, Refusal::LevelTooLow { level: 2, needed: 3 });
}

#[test]
fn the_rights_on_a_volume_go_with_it_however_many_they_are() {
    let mut model = cluster_of(2, ByteLen(40 * GIB));
    let (spec, other) = (mirrored(1, ByteLen(GIB)), Uuid::from_u128(9));
    create(&mut model, &spec).unwrap();
    let grants = (1..=130).map(|number| grant(number, &grant_of("app", spec.uuid, number)));
    let lists = (0..70).map(|host| list(&format!("nqn.2026-11.test:{host}"), &[spec.uuid, other]));
    let kept = [credential("app", 1), grant(131, &grant_of("app", other, 0))];
    let puts = kept.into_iter().chain(grants).chain(lists).collect();
    model.carry_out(&Change::Access(change(1, 0, puts, Vec::new()))).unwrap();
    model.carry_out(&remove(spec.uuid)).unwrap();
    model.finish(spec.uuid).unwrap();
    let state = model.state();
    assert!(state.volumes().is_empty());
    assert_eq!(state.access().grants.keys().collect::<Vec<_>>(), [&131]);
    assert_eq!(state.access().lists.len(), 70);
    let is_other = |it: &HostVolumesRecord| it.volumes.keys().eq([&other]);
    assert!(state.access().lists.values().all(is_other));
    check_store(&model);
}

#[test]
fn a_damaged_record_is_named_and_the_earlier_one_stays_in_force() {
    let mut model = with_grants(1);
    let mut state = model.state();
    let path = id("app").path(CLUSTER);
    model.write(vec![(path.clone(), Some(b"{\"secret\":5}".to_vec()))]);
    model.history.last().unwrap().1.iter().for_each(|found| state.apply(found));
    assert_eq!(state.access().credentials.len(), 1);
    let damaged: Vec<String> = state.damaged().map(|it| it.to_string()).collect();
    assert!(matches!(&damaged[..], [one] if one.contains("credential/app")), "{damaged:?}");
    // It can be written anew.
    let removal = change(2, 1, Vec::new(), vec![id("app"), Key::Grant(1)]);
    assert!(Change::Access(removal).plan(&state, false).is_ok());
    let sealed = br#"{"schema":1,"key":1,"nonce":"","sealed":""}"#;
    model.write(vec![(path, Some(sealed.to_vec()))]);
    model.history.last().unwrap().1.iter().for_each(|found| state.apply(found));
    let damaged: Vec<String> = state.damaged().map(|it| it.to_string()).collect();
    assert!(damaged[0].contains("does not open"), "{damaged:?}");
}

#[test]
fn a_record_that_is_damaged_when_a_node_starts_lets_nobody_in() {
    let host = Key::Host(Text::new("nqn.2026-11.test:a"));
    let mut record = HostRecord::default();
    record.tls = Some("x".to_owned());
    let keys = put(host.clone(), &record);
    let had = Key::Had(Closing::Credential);
    let right = grant(1, &grant_of("app", Uuid::from_u128(5), 0));
    let copy = records(&[credential("app", 1), right.clone(), keys.clone()]);
    let damaged = [id("app"), host.clone(), had.clone()];
    let mut known = records(std::slice::from_ref(&right));
    known.mend(&damaged, &copy);
    assert!(known.holds(&id("app"), &credential("app", 1).value) && known.grants.len() == 1);
    assert!(known.holds(&host, &keys.value) && known.has(&had));
    // A new node has no copy.
    let mut known = records(&[right]);
    known.mend(&damaged, &AccessRecords::default());
    assert!(known.grants.is_empty() && known.hosts[&Text::new("nqn.2026-11.test:a")].is_removed());
    assert!(known.has_had(Closing::Credential));
}

fn records(puts: &[Put]) -> AccessRecords {
    let mut records = AccessRecords::default();
    puts.iter().for_each(|put| records.set(&put.key, &put.value).unwrap());
    records
}

#[test]
fn a_node_adds_what_the_list_lacks_and_contradicts_nothing() {
    let (one, two) = (Uuid::from_u128(1), Uuid::from_u128(2));
    let last = |number| put(Key::Last(Numbered::Grant), &LastRecord { schema: Schema, number });
    let list = records(&[
        credential("app", 1),
        grant(1, &grant_of("app", one, 0)),
        grant(2, &grant_of("app", one, 4096)),
        last(2),
    ]);
    let own = [
        credential("app", 1),
        credential("own", 2),
        grant(1, &grant_of("own", two, 0)),
        // The same as grant 1 of the list.
        grant(3, &grant_of("app", one, 0)),
        grant(7, &grant_of("own", two, 8192)),
        last(9),
    ];
    let puts = adopted(&list, &records(&own)).unwrap();
    let expected =
        [credential("own", 2), grant(10, &grant_of("own", two, 0)), own[4].clone(), last(10)];
    assert_eq!(puts, expected);
    let mut after = list.clone();
    puts.iter().for_each(|put| after.set(&put.key, &put.value).unwrap());
    assert!(adopted(&after, &records(&own)).unwrap().is_empty(), "it is done");
    // A seal names its number, and secrets that differ have no right answer.
    let own = [credential("app", 9), grant(2, &grant_of("seal", two, 0))];
    assert_eq!(adopted(&list, &records(&own)), Err(vec![id("app"), Key::Grant(2)]));
}

proptest! {
    /// Callers who see the list late change it, and repeat what was refused: the list is as if the changes that
    /// were answered had been made one after the other.
    #[test]
    fn the_list_is_what_the_answered_changes_make_of_it(
        calls in prop::collection::vec((0..3usize, 0..4u8, 0..9u8, any::<bool>()), 1..40),
    ) {
        let mut model = cluster_of(1, ByteLen(40 * GIB));
        let mut seen = [model.state(), model.state(), model.state()];
        let mut expected: BTreeMap<String, u8> = BTreeMap::new();
        for (number, (caller, name, digit, is_fresh)) in (10..).zip(calls) {
            if is_fresh {
                seen[caller] = model.state();
            }
            let (on, name) = (version(&seen[caller]), format!("c{name}"));
            let (puts, deletes) = match digit {
                0 if seen[caller].revision(&id(&name)) == ModRevision(0) => continue,
                0 => (Vec::new(), vec![id(&name)]),
                digit => (vec![credential(&name, digit)], Vec::new()),
            };
            let asked = Change::Access(change(number, on, puts, deletes));
            match model.carry_out(&asked) {
                Ok(()) if digit == 0 => drop(expected.remove(&name)),
                Ok(()) => drop(expected.insert(name, digit)),
                Err(refused) => prop_assert_eq!(refused, Refusal::AccessChanged),
            }
        }
        let state = model.state();
        let found = state.access().credentials.iter();
        let found: BTreeMap<String, u8> =
            found.map(|(id, it)| (id.to_string(), it.secret.as_bytes()[0] - b'0')).collect();
        prop_assert_eq!(found, expected);
    }
}
