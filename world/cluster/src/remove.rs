//! `nearflash cluster remove` and `nearflash cluster repair`: a node that is lost for good leaves the
//! cluster, and its replicas are replaced. `nearflash cluster upgrade` raises the feature level.
//!
//! Each step is a transaction that is computed from the state of the store, so an interrupted command can
//! be repeated. The node's records go first, and its membership of etcd last.

use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use nearflash_planner::{Affected, Change, Step, lost_by_removal};
use nearflash_records::ClusterState;
use nearflash_records::record::Door;
use nearflash_space::Name;
use serde::Serialize;
use uuid::Uuid;

use super::Say;
use super::client::{Listed, Store, TOO_EARLY};
use super::error::{ClusterError, StoreError};
use super::member::{Folder, Member};
use super::status::remember;

/// The time that a node has to accept a connection, if it runs.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// The time that a removal waits for etcd, which admits it when the other members have been connected for 5 s.
const CONNECTED_FOR: Duration = Duration::from_secs(15);

/// The interval between two attempts.
const POLL: Duration = Duration::from_millis(200);

/// The most transactions in a row that find another state than they were decided on.
const ATTEMPTS_MAX: u32 = 50;

/// The result of a removal.
#[derive(Clone, Debug, Serialize)]
pub struct Removed {
    /// The node's name.
    pub node: String,
    /// The number of its replicas that have a new place.
    pub replaced: usize,
    /// The number of mirrors that have one replica only: there is no room for a second one.
    pub lacking: usize,
    /// The volumes of which data was given up. They stay until they are removed.
    pub lost: BTreeSet<String>,
    /// Whether its machine was a member of etcd, which the removal has ended.
    pub was_member: bool,
}

/// The result of the removal of a machine without a node.
#[derive(Clone, Debug, Serialize)]
pub struct RemovedMachine {
    /// Its name in etcd.
    pub machine: String,
}

/// The result of a repair.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Repaired {
    /// The number of mirrors that have a second replica now, to which the data is being copied.
    pub replaced: usize,
}

/// The result of an upgrade.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Upgraded {
    /// The feature level before.
    pub before: u32,
    /// The feature level now.
    pub level: u32,
}

/// A way to the cluster's store.
pub(super) struct Way {
    folder: Folder,
    member: Member,
    store: Store,
}

/// The node that a command names.
struct Subject {
    uuid: Uuid,
    /// The name of its machine in etcd.
    machine: String,
}

/// The data that is lost if the node is removed, in words; `None` if it has no only copy.
///
/// # Errors
/// When the cluster has no such node, or etcd does not answer.
pub fn loss(data_dir: &Path, node: &Name) -> Result<Option<String>, ClusterError> {
    let way = Way::of(data_dir)?;
    let state = way.state()?;
    let subject = subject(&state, node)?;
    if !state.nodes().contains_key(&subject.uuid) {
        return Ok(None);
    }
    let lost = lost_by_removal(&state, subject.uuid)?;
    Ok((lost.count > 0).then(|| lost.to_string()))
}

/// Removes a node that does not run. `gives_up`: also if data is lost with it.
///
/// # Errors
/// When the node runs or is needed, or etcd does not answer. An interrupted removal can be repeated.
pub fn remove(
    data_dir: &Path,
    node: &Name,
    gives_up: bool,
    say: Say<'_>,
) -> Result<Removed, ClusterError> {
    let way = Way::of(data_dir)?;
    let before = way.state()?;
    let subject = subject(&before, node)?;
    let change = Change::RemoveNode { node: subject.uuid, gives_up };
    // The reasons of the records come before those of the network.
    change.plan(&before, false)?;
    if let Some(address) = answers(&before, subject.uuid) {
        return Err(ClusterError::NodeAnswers { node: node.as_str().into(), address });
    }
    let leaving = way.leaving_member(node, &subject)?;
    let lost = match before.nodes().contains_key(&subject.uuid) {
        true => lost_by_removal(&before, subject.uuid)?,
        false => Affected::default(),
    };
    let replaced = way.carry_out(&change, say)?;
    if let Some(member) = &leaving {
        way.remove_member(member.id, say)?;
    }
    if way.member.external.is_none()
        && let Ok(listed) = way.store.members()
    {
        remember(&way.folder, &way.member, &listed);
    }
    let lacking = lacking(&way.state()?);
    let lost = lost.volumes.iter().map(ToString::to_string).collect();
    let was_member = leaving.is_some();
    Ok(Removed { node: node.to_string(), replaced, lacking, lost, was_member })
}

/// Ends the membership of a machine that runs etcd and no node, such as a witness. It does not run either.
///
/// # Errors
/// When no such machine is there, when it runs or is needed, or etcd does not answer.
pub fn remove_machine(
    data_dir: &Path,
    machine: SocketAddr,
    say: Say<'_>,
) -> Result<RemovedMachine, ClusterError> {
    let way = Way::of(data_dir)?;
    let listed = if way.member.external.is_none() { way.store.members()? } else { Vec::new() };
    let own = listed.iter().find(|it| it.clients.contains(&machine.into()));
    let Some(own) = own else {
        let addresses: Vec<String> =
            listed.iter().flat_map(|it| &it.clients).map(ToString::to_string).collect();
        return Err(ClusterError::NoSuchMember { machine, addresses: addresses.join(", ").into() });
    };
    let state = way.state()?;
    if let Some(node) = state.nodes().values().find(|it| it.machine == own.name) {
        return Err(ClusterError::MemberOfNode { machine, node: node.name.as_str().into() });
    }
    if way.has_leader(own) {
        return Err(ClusterError::MemberAnswers { machine });
    }
    way.check_majority(&machine.to_string(), own, &listed)?;
    way.remove_member(own.id, say)?;
    remember(&way.folder, &way.member, &way.store.members()?);
    Ok(RemovedMachine { machine: own.name.clone() })
}

/// Gives mirrors with one replica a second one, on another node.
///
/// # Errors
/// When there is no room for one, or etcd does not answer.
pub fn repair(data_dir: &Path, say: Say<'_>) -> Result<Repaired, ClusterError> {
    let replaced = Way::of(data_dir)?.carry_out(&Change::Repair, say)?;
    Ok(Repaired { replaced })
}

/// Raises the feature level of the cluster to that of this program.
///
/// # Errors
/// When a node has an older program, or etcd does not answer.
pub fn upgrade(data_dir: &Path, say: Say<'_>) -> Result<Upgraded, ClusterError> {
    let way = Way::of(data_dir)?;
    let level = |state: &ClusterState| state.cluster().map_or(0, |it| it.feature_level);
    let before = level(&way.state()?);
    way.carry_out(&Change::RaiseLevel, say)?;
    Ok(Upgraded { before, level: level(&way.state()?) })
}

impl Way {
    pub(super) fn of(data_dir: &Path) -> Result<Self, ClusterError> {
        let folder = Folder::of(data_dir);
        let member = folder.joined()?;
        let store = Store::of(&folder, &member)?;
        Ok(Self { folder, member, store })
    }

    pub(super) fn cluster(&self) -> Uuid {
        self.member.cluster
    }

    pub(super) fn state(&self) -> Result<ClusterState, ClusterError> {
        Ok(self.store.state(self.member.cluster)?)
    }

    /// Ends the membership of a machine in etcd, once etcd has known for long enough that the others are
    /// connected.
    fn remove_member(&self, member: u64, say: Say<'_>) -> Result<(), ClusterError> {
        let begun = Instant::now();
        let mut has_said = false;
        loop {
            let removed = self.store.remove_member(member);
            let is_early = |reason: &str| reason.contains(TOO_EARLY);
            match removed {
                Err(StoreError::Refused { reason, .. })
                    if is_early(&reason) && begun.elapsed() < CONNECTED_FOR =>
                {
                    if !has_said {
                        say("waiting until etcd admits the removal of a member");
                    }
                    has_said = true;
                    std::thread::sleep(POLL);
                }
                removed => return Ok(removed?),
            }
        }
    }

    /// Carries a change out, step by step. Returns the number of replicas that got a place.
    pub(super) fn carry_out(&self, change: &Change, say: Say<'_>) -> Result<usize, ClusterError> {
        let (mut begun, mut missed, mut replaced) = (false, 0, 0);
        loop {
            let Step::Submit(txn) = change.plan(&self.state()?, begun)? else {
                return Ok(replaced);
            };
            begun = true;
            let is_placed =
                txn.puts.iter().any(|put| matches!(put.key, nearflash_records::Key::On(..)));
            if self.store.txn(self.member.cluster, &txn)? {
                missed = 0;
                replaced += usize::from(is_placed);
                if is_placed && replaced.is_multiple_of(100) {
                    say(&format!("{replaced} replicas have a new place"));
                }
            } else {
                missed += 1;
                if missed > ATTEMPTS_MAX {
                    return Err(ClusterError::Contended);
                }
            }
        }
    }

    /// The membership of the node's machine in etcd, if it may end.
    fn leaving_member(
        &self,
        node: &Name,
        subject: &Subject,
    ) -> Result<Option<Listed>, ClusterError> {
        if subject.machine.is_empty() || self.member.external.is_some() {
            return Ok(None);
        }
        let listed = self.store.members()?;
        let Some(own) = listed.iter().find(|it| it.name == subject.machine) else {
            return Ok(None);
        };
        self.check_majority(node.as_str(), own, &listed)?;
        Ok(Some(own.clone()))
    }

    /// Whether the others have a majority without this member.
    fn check_majority(
        &self,
        subject: &str,
        own: &Listed,
        listed: &[Listed],
    ) -> Result<(), ClusterError> {
        let voters: Vec<&Listed> =
            listed.iter().filter(|it| it.id != own.id && !it.is_learner).collect();
        let silent = voters.iter().filter(|voter| !self.has_leader(voter));
        let silent: Vec<&str> = silent.map(|voter| voter.name.as_str()).collect();
        if voters.len() - silent.len() < voters.len() / 2 + 1 {
            let (subject, silent) = (subject.into(), silent.join(", ").into());
            return Err(ClusterError::MajorityLost { subject, silent });
        }
        Ok(())
    }

    /// Whether a member answers, and knows a leader.
    fn has_leader(&self, member: &Listed) -> bool {
        let store = Store::open((&self.folder, None), &member.clients);
        let reported = store.map(|store| store.report());
        matches!(reported, Ok(Ok(reported)) if reported.leader != 0)
    }
}

/// The node of that name, or the one that had it last and was removed.
fn subject(state: &ClusterState, name: &Name) -> Result<Subject, ClusterError> {
    let known = state.nodes().iter().find(|(_, it)| it.name == *name);
    let known = known.map(|(uuid, it)| Subject { uuid: *uuid, machine: it.machine.clone() });
    let removed = state.removed().iter().find(|(_, it)| it.name == *name);
    let removed = removed.map(|(uuid, it)| Subject { uuid: *uuid, machine: it.machine.clone() });
    known.or(removed).ok_or_else(|| {
        let names: BTreeSet<&str> = state.nodes().values().map(|it| it.name.as_str()).collect();
        let names: Vec<&str> = names.into_iter().collect();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        ClusterError::NoSuchNode { node: name.as_str().into(), names: names.into() }
    })
}

/// The address at which a node accepts connections, though its key in etcd has ended. Another node may
/// have the address now.
pub(super) fn answers(state: &ClusterState, node: Uuid) -> Option<SocketAddr> {
    let record = state.nodes().get(&node)?;
    let doors = [Door::Pulse, Door::Direct];
    let addresses = doors.iter().filter_map(|door| record.addresses.get(door)).flatten();
    let is_of_another = |address: &SocketAddr| {
        let others = state.nodes().iter().filter(|(uuid, _)| **uuid != node);
        others.flat_map(|(_, it)| it.addresses.values().flatten()).any(|it| it == address)
    };
    let mut own = addresses.copied().filter(|address| !is_of_another(address));
    own.find(|address| TcpStream::connect_timeout(address, PROBE_TIMEOUT).is_ok())
}

/// The number of mirrors with one replica, of volumes that want two.
fn lacking(state: &ClusterState) -> usize {
    let volumes = state.volumes().iter().filter(|(_, volume)| volume.replicas > 1);
    let rows = volumes.filter_map(|(uuid, volume)| state.rows(*uuid, volume).ok());
    rows.flatten().flatten().filter(|view| view.replicas.replicas.len() < 2).count()
}
