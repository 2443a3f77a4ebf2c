//! The users of a volume of the cluster at all nodes: the question before it is removed, and this node's answer
//! to the questions of others. Both go through the cluster's store ([`nearflash_records::users`]), because every
//! node follows it, also one that others cannot reach.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::{self, Builder};
use std::time::{Duration, Instant};

use nearflash_planner::Change;
use nearflash_records::users::{Answers, answers, next_number};
use nearflash_space::Name;
use uuid::Uuid;

use super::cluster::{CHANGE_MAX, PAUSE};
use super::{Lost, Node};
use crate::error::NodeError;

/// The time for the answers of the other nodes. A node that was killed ends for the others sooner: its lease in
/// the store has 5 seconds.
const ANSWER_MAX: Duration = Duration::from_secs(8);
/// The time for nodes that do not count as up. One that has just started serves a moment before it does.
const START_MAX: Duration = Duration::from_secs(2);

impl Node {
    /// Refuses to destroy a volume of the cluster that has users at other nodes, or at a node that runs and
    /// does not answer. The users of this node have been looked at before.
    pub(super) fn check_elsewhere(
        &self,
        volume: Uuid,
        name: &Name,
        lost: Lost,
    ) -> Result<(), NodeError> {
        let follower = self.cluster()?;
        let (node, number) = (self.catalog.node(), next_number(&follower.state(), volume));
        let asked = Change::TellUsers { volume, node, number, users: String::new() };
        follower.change(asked, CHANGE_MAX)?;
        let since = Instant::now();
        let found = loop {
            let waited = since.elapsed();
            let found = answers(&follower.state(), volume, number, waited < START_MAX);
            if found.silent.is_empty() || waited >= ANSWER_MAX {
                break found;
            }
            thread::sleep(PAUSE);
        };
        judge(&found, name, lost)
    }

    /// Answers other nodes, in a thread of its own: a core that hangs must not hold up the tables.
    pub(super) fn answer_questions(self: &Arc<Self>, questions: BTreeMap<Uuid, u64>) {
        if questions.is_empty() {
            return;
        }
        let node = Arc::clone(self);
        let answer = move || {
            for (volume, number) in questions {
                node.answer(volume, number);
            }
        };
        if let Err(error) = Builder::new().name("users".to_owned()).spawn(answer) {
            tracing::warn!("another node is not told who uses its volume: no thread: {error}");
        }
    }

    fn answer(&self, volume: Uuid, number: u64) {
        let served = self.served().recorded.space.served().find(|it| it.uuid == volume).cloned();
        // A volume that this node does not serve has no users at this node.
        let users = served.map_or_else(String::new, |it| self.usage(&it, false).told());
        let told = Change::TellUsers { volume, node: self.catalog.node(), number, users };
        let Ok(follower) = self.cluster() else { return };
        if let Err(error) = follower.change(told, CHANGE_MAX) {
            // Usually, the volume is being removed.
            tracing::debug!("another node is not told who uses its volume: {error}");
        }
    }
}

fn judge(found: &Answers, name: &Name, lost: Lost) -> Result<(), NodeError> {
    let name = name.clone();
    match (&found.users[..], &found.silent[..]) {
        ([], []) => Ok(()),
        ([], [node, ..]) => Err(NodeError::NodeSaysNothing { name, node: node.clone(), lost }),
        (users, _) => {
            let by: Vec<String> =
                users.iter().map(|(node, users)| format!("{users} at node {node}")).collect();
            Err(NodeError::InUse { name, by: by.join("; ").into(), lost })
        }
    }
}

#[cfg(test)]
mod tests {
    use nearflash_units::ByteLen;

    use super::*;

    #[test]
    fn users_elsewhere_are_named_with_their_nodes_and_a_node_that_does_not_answer_by_name() {
        let name = |text: &str| text.parse::<Name>().unwrap();
        let check = |found: Answers| judge(&found, &name("data"), Lost::All(ByteLen(1 << 20)));
        assert!(check(Answers::default()).is_ok());
        let users = |node: &str, users: &str| (name(node), users.to_owned());
        let by = vec![users("n2", "NVMe host a, NVMe host b"), users("n3", "NVMe host c")];
        let refused = check(Answers { users: by, silent: vec![name("n4")] }).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "volume 'data' is in use by NVMe host a, NVMe host b at node n2; NVMe host c at node n3: \
             disconnect these first, or add --force, which destroys all of its 1MiB under them"
        );
        let refused = check(Answers { users: Vec::new(), silent: vec![name("n4")] }).unwrap_err();
        let refused = refused.to_string();
        assert!(
            refused.contains("at node n4, which runs") && refused.contains("--force"),
            "{refused}"
        );
    }
}
