//! Who uses a volume, as the nodes tell each other before it is removed.
//!
//! Each node has one key for each volume, with its answer to the last question. A node asks by an answer of its
//! own with a [number](next_number) that no answer has; each other node that runs then answers with that number.
//! Two nodes that ask at the same time may choose the same number: each of them has looked at its own users
//! before, and all others answer both.
//!
//! An answer is true when it is given. Nothing keeps a user from coming later.

use std::collections::BTreeMap;

use nearflash_space::Name;
use uuid::Uuid;

use crate::record::{UsersRecord, VolumeState};
use crate::state::ClusterState;

/// The answers to a question.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Answers {
    /// The nodes with users, and these in a few words.
    pub users: Vec<(Name, String)>,
    /// The nodes that run and have not answered.
    pub silent: Vec<Name>,
}

/// The number of the next question about a volume.
pub fn next_number(state: &ClusterState, volume: Uuid) -> u64 {
    let last = answers_of(state, volume).map(|(_, answer)| answer.number).max();
    last.unwrap_or_default().saturating_add(1)
}

/// The answers to a question. A node that does not count as up has no users, unless it says so. But one that has
/// just started may serve before it counts as up: `starting` names the nodes that are not up as silent, too.
pub fn answers(state: &ClusterState, volume: Uuid, number: u64, starting: bool) -> Answers {
    let mut answers = Answers::default();
    for (node, record) in state.nodes() {
        match state.users().get(&(volume, *node)).filter(|answer| answer.number >= number) {
            None if starting || state.alive().contains_key(node) => {
                answers.silent.push(record.name.clone());
            }
            Some(answer) if !answer.users.is_empty() => {
                answers.users.push((record.name.clone(), answer.users.clone()));
            }
            None | Some(_) => {}
        }
    }
    answers
}

/// The questions that a node has not answered: the volumes, and the number of the last question about each.
pub fn questions(state: &ClusterState, node: Uuid) -> BTreeMap<Uuid, u64> {
    let mut questions = BTreeMap::new();
    for ((volume, _), UsersRecord { number, .. }) in state.users() {
        let last = questions.entry(*volume).or_insert(0);
        *last = (*number).max(*last);
    }
    questions.retain(|volume, number| {
        let known = state.volumes().get(volume);
        let answered = state.users().get(&(*volume, node)).map_or(0, |answer| answer.number);
        known.is_some_and(|it| it.state != VolumeState::Removing) && answered < *number
    });
    questions
}

/// The answers of all nodes to the questions about a volume.
pub fn answers_of(
    state: &ClusterState,
    volume: Uuid,
) -> impl Iterator<Item = (Uuid, &UsersRecord)> {
    let of = |node| (volume, node);
    let answers = state.users().range(of(Uuid::nil())..=of(Uuid::max()));
    answers.map(|((_, node), answer)| (*node, answer))
}
