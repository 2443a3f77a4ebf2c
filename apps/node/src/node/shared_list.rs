//! The list of access that the nodes of a cluster share. A change of it is decided on this node's copy, and takes
//! effect in the cluster's store. Each node keeps the list in its own catalog, serves by it, and confirms its version
//! when no request of an earlier one is under way any more. So a node that starts while the store is away serves by
//! the last list that it has confirmed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nearflash_planner::{AccessChange, Change, Refusal, adopted};
use nearflash_publish::{Draft, Records};
use nearflash_records::{AccessRecords, ClusterState};
use uuid::Uuid;

use super::cluster::CHANGE_MAX;
use super::quiesce::PATIENCE;
use super::{Node, Served};
use crate::cluster::{ChangeError, Follower};
use crate::error::NodeError;
use crate::recorded::Recorded;

/// The time that the other nodes have to confirm a change. The answer names those that need longer.
const CONFIRM_MAX: Duration = Duration::from_secs(5);

/// A change of access that has been made, and the names of the nodes that may not serve by it yet.
pub(super) type Changed<T> = (T, Vec<String>);

/// Whether changes of access are those of the cluster's list.
pub(super) fn is_shared(node: &Node) -> bool {
    node.served().recorded.list.is_some() || node.shared().tables.access.is_some()
}

/// Makes a change of the cluster's list, and waits until the nodes have confirmed it. If changes of other nodes come
/// first, it is decided again.
pub(super) fn change<T>(
    node: &Node,
    change: impl Fn(&mut Records) -> Result<T, Refusal>,
) -> Result<Changed<T>, NodeError> {
    let follower = node.cluster()?;
    let began = Instant::now();
    loop {
        drop(node.one_change_of_a_caller()?);
        let (old, mut fresh) = (node.copy(), node.copy());
        let on = old.list.ok_or(Refusal::OwnAccess)?.version;
        let changed = change(&mut fresh)?;
        node.check_first_list(&fresh)?;
        let (puts, deletes) = Draft::of_access(&old, &fresh);
        if puts.is_empty() && deletes.is_empty() {
            return Ok((changed, Vec::new()));
        }
        let asked = AccessChange { id: Uuid::new_v4(), on, puts, deletes };
        match follower.change(Change::Access(asked), CHANGE_MAX) {
            Ok(()) => {
                let newer =
                    |state: &ClusterState| Some(state.access().version()).filter(|it| *it > on);
                let version = follower.wait_for(CONFIRM_MAX, newer).unwrap_or(on + 1);
                return Ok((changed, await_confirmation(follower, version)));
            }
            Err(ChangeError::Refused(Refusal::AccessChanged)) if began.elapsed() < CHANGE_MAX => {
                await_newer(node, on);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits until this node has a newer list than that.
fn await_newer(node: &Node, on: u64) {
    let is_old = |served: &mut Served| served.recorded.list.is_some_and(|it| it.version <= on);
    // Without one, the next attempt is refused, too.
    drop(node.changed.wait_timeout_while(node.served(), CONFIRM_MAX, is_old));
}

/// Waits until the running nodes serve by that version of the list. Returns the names of those that may not do so
/// yet, and of those that do not run: they may serve volumes of their own by an earlier list if they start
/// while the store is away.
fn await_confirmation(follower: &Follower, version: u64) -> Vec<String> {
    let late = |state: &ClusterState, is_counted: fn(&ClusterState, &Uuid) -> bool| {
        let is_late =
            |uuid: &Uuid| state.alive().get(uuid).and_then(|it| it.access) < Some(version);
        let nodes =
            state.nodes().iter().filter(|(uuid, _)| is_late(uuid) && is_counted(state, uuid));
        let names: BTreeSet<String> = nodes.map(|(_, node)| node.name.to_string()).collect();
        names.into_iter().collect::<Vec<_>>()
    };
    let runs = |state: &ClusterState, uuid: &Uuid| state.alive().contains_key(uuid);
    let _ = follower.wait_for(CONFIRM_MAX, |state| late(state, runs).is_empty().then_some(()));
    late(&follower.state(), |_, _| true)
}

/// Serves by the newest list of the cluster, if it has one and the node does not do so already.
pub(super) fn follow(node: &Node) {
    let (list, shown) = {
        let shared = node.shared();
        (shared.tables.access.clone(), shared.access_shown.clone())
    };
    let Some((list, follower)) = list.zip(node.cluster.get()) else { return };
    let (version, cluster) = (list.version(), follower.state().uuid());
    if shown.as_ref() == Some(&list) || !join_lists(node, follower, &list, cluster) {
        return;
    }
    let one = node.one_change();
    let mut fresh = node.copy();
    let taken = fresh.take_access(&whole(node, follower, &list)).map_err(|it| it.to_string());
    fresh.list = Some(list.list_of(cluster));
    let kept = taken.and_then(|()| node.record(&mut fresh).map_err(|it| it.to_string()));
    if let Err(error) = kept {
        tracing::error!("the last list of access stays in force: {error}");
        return;
    }
    let ticket = node.show_access(fresh);
    drop(one);
    node.shared().access_shown = Some(list);
    let (files, follower) = (node.files.get().cloned(), Arc::downgrade(follower));
    ticket.when_over(move || {
        let confirm = move || {
            if let Some(follower) = follower.upgrade() {
                follower.confirm_access(version);
            }
        };
        match files {
            None => confirm(),
            Some(files) => drop(std::thread::spawn(move || {
                if files.end_earlier_rights(PATIENCE) {
                    confirm();
                }
            })),
        }
    });
}

/// The list, with the records of the node's copy in place of those that are damaged in the store.
fn whole(node: &Node, follower: &Follower, list: &AccessRecords) -> AccessRecords {
    let (mut whole, damaged) = (list.clone(), follower.state().damaged_access());
    if !damaged.is_empty() {
        let copy = Recorded::read(&node.catalog).map(|read| read.access().clone());
        whole.mend(&damaged, &copy.unwrap_or_default());
    }
    whole
}

/// When the cluster gets its list, a node that runs adds its own records. Returns whether the node may take the
/// list: it keeps its own if the two contradict each other.
fn join_lists(node: &Node, follower: &Follower, list: &AccessRecords, cluster: Uuid) -> bool {
    let own = node.served().recorded.list;
    if own.is_some_and(|it| it.cluster == cluster) {
        return true;
    }
    let own = match Recorded::read(&node.catalog) {
        Ok(read) => read.access().clone(),
        Err(error) => {
            tracing::error!("cannot read the node's own access: {error}");
            return false;
        }
    };
    let puts = match adopted(list, &own) {
        Ok(puts) if puts.is_empty() => return true,
        Ok(puts) => puts,
        Err(keys) => {
            let keys = keys.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            tracing::error!(
                "this node goes on by its own access, which contradicts the list of the cluster ({keys}): make them \
                 equal here or there, and restart the node"
            );
            return false;
        }
    };
    let asked = AccessChange { id: Uuid::new_v4(), on: list.version(), puts, deletes: Vec::new() };
    if let Err(error) = follower.change(Change::Access(asked), CHANGE_MAX) {
        tracing::warn!("the node's own access is not in the list of the cluster yet: {error}");
    }
    // The next tables have the new list.
    false
}

/// Takes the rights on a volume of this node that was removed.
pub(super) fn forget_rights_on(node: &Node, volume: Uuid) {
    if node.served().recorded.list.is_none() {
        return;
    }
    let forget = |records: &mut Records| {
        records.forget_rights_on(volume);
        Ok(())
    };
    if let Err(error) = change(node, forget) {
        tracing::warn!(
            "the rights on the removed volume {volume} stay in the list of the cluster, where no later volume gets \
             them: {error}"
        );
    }
}
