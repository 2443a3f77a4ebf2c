//! Questions who uses a volume, and the answers.

use nearflash_records::store::TXN_OPERATIONS_MAX;

use super::*;
use nearflash_records::users::{Answers, answers, next_number};

fn tell(number: u64, at: u16, users: &str) -> Change {
    let (volume, users) = (volume(1, ByteLen(GIB)).uuid, users.to_owned());
    Change::TellUsers { volume, node: node(at), number, users }
}

/// Nodes of which the first ones run, and a volume.
fn running(nodes: u16, of: u16) -> (Model, Uuid) {
    let mut model = cluster_of(of, ByteLen(64 * GIB));
    let spec = volume(1, ByteLen(GIB));
    create(&mut model, &spec).unwrap();
    (nodes + 1..=of).for_each(|number| model.set_alive(number, false));
    (model, spec.uuid)
}

fn asked(model: &Model, at: u16) -> Option<u64> {
    compile(&model.state(), node(at)).questions.values().next().copied()
}

fn names(numbers: &[u16]) -> Vec<nearflash_space::Name> {
    numbers.iter().map(|number| format!("n{number}").parse().unwrap()).collect()
}

#[test]
fn every_node_that_runs_answers_a_question_and_none_is_taken_for_an_earlier_one() {
    let (mut model, volume) = running(3, 4);
    assert_eq!((next_number(&model.state(), volume), asked(&model, 2)), (1, None));
    model.carry_out(&tell(1, 1, "")).unwrap();
    assert_eq!([1, 2, 3].map(|at| asked(&model, at)), [None, Some(1), Some(1)]);
    model.carry_out(&tell(1, 2, "NVMe host a")).unwrap();
    let found = answers(&model.state(), volume, 1, false);
    let users = vec![(names(&[2])[0].clone(), "NVMe host a".to_owned())];
    assert_eq!(found, Answers { users, silent: names(&[3]) });
    // The node that does not answer ends.
    model.set_alive(3, false);
    assert!(answers(&model.state(), volume, 1, false).silent.is_empty());
    let silent = answers(&model.state(), volume, 1, true).silent;
    assert_eq!(silent, names(&[3, 4]), "both may have just started");
    // The host has gone. Its node is asked again.
    model.set_alive(3, true);
    assert_eq!(next_number(&model.state(), volume), 2);
    model.carry_out(&tell(2, 1, "")).unwrap();
    assert_eq!(answers(&model.state(), volume, 2, false).silent, names(&[2, 3]));
    model.carry_out(&tell(1, 3, "late")).unwrap();
    assert_eq!(answers(&model.state(), volume, 2, false).silent, names(&[2, 3]));
    for at in [2, 3] {
        assert_eq!(asked(&model, at), Some(2));
        model.carry_out(&tell(2, at, "")).unwrap();
        assert_eq!(asked(&model, at), None);
    }
    assert_eq!(answers(&model.state(), volume, 2, false), Answers::default());
    // An older answer that comes late replaces none.
    model.carry_out(&tell(1, 2, "late")).unwrap();
    assert_eq!(answers(&model.state(), volume, 2, false), Answers::default());
}

#[test]
fn two_nodes_that_ask_at_the_same_time_get_the_answers_of_all_others() {
    let (mut model, volume) = running(3, 3);
    let state = model.state();
    for at in [1, 2] {
        let Ok(Step::Submit(txn)) = tell(1, at, "").plan(&state, false) else { unreachable!() };
        assert!(model.txn(&txn));
    }
    assert_eq!(answers(&model.state(), volume, 1, false).silent, names(&[3]));
    model.carry_out(&tell(1, 3, "NVMe host a")).unwrap();
    assert_eq!(answers(&model.state(), volume, 1, false).users.len(), 1);
}

#[test]
fn the_answers_about_a_volume_go_with_it_however_many_there_are_and_do_not_come_back() {
    let (mut model, volume) = running(3, 3);
    let Ok(Step::Submit(late)) = tell(1, 2, "").plan(&model.state(), false) else { unreachable!() };
    for at in 1..=250 {
        model.carry_out(&tell(1, at, "")).unwrap();
    }
    model.carry_out(&remove(volume)).unwrap();
    let next = model.carry_on(volume);
    while let Ok(Step::Submit(txn)) = next.plan(&model.state(), false) {
        assert!(txn.compares.len() <= TXN_OPERATIONS_MAX);
        assert!(txn.puts.len() + txn.deletes.len() <= TXN_OPERATIONS_MAX);
        assert!(model.txn(&txn) && !model.txn(&txn));
        assert!(!model.txn(&late));
        assert!(tell(1, 251, "").plan(&model.state(), false).is_err());
    }
    assert!(!model.records.keys().any(|key| key.contains("/users/")));
    check_store(&model);
}
