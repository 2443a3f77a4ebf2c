//! The users of a volume of the cluster at all nodes: the question before it is removed, and this node's answer
//! to the questions of others. Both go through the cluster's store ([`nearflash_records::users`]), because every
//! node follows it, also one that others cannot reach.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use nearflash_planner::{Change, Lost};
use nearflash_records::ClusterState;
use nearflash_records::users::{answers, next_number};
use nearflash_space::Name;
use uuid::Uuid;

use super::Node;
use super::cluster::CHANGE_MAX;
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
        let all_answer = |state: &ClusterState, starting| {
            let found = answers(state, volume, number, starting);
            found.silent.is_empty().then_some(found)
        };
        let found = follower.wait_for(START_MAX, |state| all_answer(state, true));
        let found = found
            .or_else(|| follower.wait_for(ANSWER_MAX - START_MAX, |state| all_answer(state, false)))
            .unwrap_or_else(|| answers(&follower.state(), volume, number, false));
        Ok(nearflash_planner::usage::check_elsewhere(&found, name, lost)?)
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
