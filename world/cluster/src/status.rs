//! `nearflash cluster status`: every member is asked, and one line judges.

use std::collections::BTreeMap;
use std::path::Path;

use nearflash_cluster::{Level, NodeSummary, Part, summary};
use nearflash_records::{ClusterState, Endpoint, listed as names};
use nearflash_units::ByteLen;
use serde::Serialize;
use uuid::Uuid;

use super::client::{Listed, Reported, Store};
use super::error::{ClusterError, StoreError};
use super::full::{REMEDY, is_full};
use super::join::endpoints;
use super::member::{Folder, Member, Role};

/// The state of the cluster.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct ClusterStatus {
    /// The cluster.
    pub cluster: Uuid,
    /// Its name.
    pub name: String,
    /// This machine's name in etcd.
    pub machine: String,
    /// This machine's role.
    pub role: Role,
    /// Whether nearflash does not run the cluster's etcd.
    pub is_external: bool,
    /// The judgement.
    pub verdict: Level,
    /// The judgement's reason and remedy.
    pub reason: String,
    /// The judgement on etcd alone.
    pub etcd: StatusPart,
    /// The judgement on the nodes, slices and volumes.
    pub data: StatusPart,
    /// The reason why the node of this machine waits. Absent if it does not wait, or if no node runs here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<StatusPart>,
    /// The nodes, in the order of their numbers; empty if they are unknown.
    pub nodes: Vec<NodeStatus>,
    /// The number of members that must answer.
    pub majority: usize,
    /// The members.
    pub members: Vec<MemberStatus>,
}

/// A part of the judgement.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct StatusPart {
    /// How bad it is.
    pub verdict: Level,
    /// The reason and the remedy.
    pub reason: String,
}

/// The state of one node.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct NodeStatus {
    /// Its name.
    pub name: String,
    /// Its UUID.
    pub uuid: Uuid,
    /// Whether it counts as running. It does for some seconds after it was killed.
    pub is_running: bool,
    /// The version of its program.
    pub version: String,
    /// The bytes of its slices for volumes, used and free.
    pub data_bytes: u64,
    /// The bytes of these that new volumes can use.
    pub free_bytes: u64,
    /// The replicas on its slices.
    pub replicas: u64,
    /// The mirrors whose primary is one of them.
    pub primaries: u64,
}

/// The state of one member.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct MemberStatus {
    /// Its name; empty before its first start.
    pub name: String,
    /// The node of its machine. Absent for a witness, and if the nodes are unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Its address for clients, if known.
    pub address: Option<Endpoint>,
    /// Whether it votes; a learner is about to.
    pub is_voter: bool,
    /// Whether it answers.
    pub is_reachable: bool,
    /// Whether it leads.
    pub is_leader: bool,
    /// Whether it knows a leader.
    pub has_leader: bool,
    /// The version of its etcd.
    pub version: Option<String>,
    /// The length of its database.
    pub db_bytes: Option<u64>,
    /// Its alarms.
    pub errors: Vec<String>,
    /// The reason why it does not answer.
    pub silence: Option<String>,
}

/// The state of the cluster that the data directory belongs to. `waits` returns the reasons why the
/// node of this machine waits.
///
/// # Errors
/// When it belongs to none, or its files cannot be read.
pub fn status(
    data_dir: &Path,
    waits: impl FnOnce() -> Vec<String>,
) -> Result<ClusterStatus, ClusterError> {
    let folder = Folder::of(data_dir);
    let member = folder.joined()?;
    let store = Store::of(&folder, &member)?;
    let listed = match store.members() {
        Ok(listed) if member.external.is_some() => reached(&folder, &member, listed)?,
        Ok(listed) => {
            remember(&folder, &member, &listed);
            listed
        }
        Err(_) => member.endpoints.iter().map(unlisted).collect(),
    };
    let mut members = ask_all(&folder, &member, &listed)?;
    let state = store.state(member.cluster);
    let nodes = state.as_ref().map(node_statuses).unwrap_or_default();
    name_nodes(&mut members, state.as_ref().ok());
    let (verdict, reason) = match &member.external {
        Some(_) => judge_external(&members, &member.endpoints, state.as_ref().err()),
        None => judge(&members),
    };
    let etcd = StatusPart { verdict, reason };
    let data = match state {
        Ok(state) => StatusPart::from(nearflash_cluster::data(&state)),
        Err(error) => {
            let reason = format!("nodes and volumes are unknown: {error}");
            StatusPart { verdict: Level::AtRisk, reason }
        }
    };
    let node = held_up(&waits());
    let mut worst = &etcd;
    for part in [Some(&data), node.as_ref()].into_iter().flatten() {
        worst = if part.verdict > worst.verdict { part } else { worst };
    }
    let StatusPart { verdict, reason } = worst.clone();
    Ok(ClusterStatus {
        etcd,
        data,
        node,
        cluster: member.cluster,
        name: member.name,
        machine: member.machine,
        role: member.role,
        is_external: member.external.is_some(),
        verdict,
        reason,
        nodes,
        majority: majority(&members),
        members,
    })
}

/// The nodes; none if a record is damaged, which the verdict names.
fn node_statuses(state: &ClusterState) -> Vec<NodeStatus> {
    let status = |node: NodeSummary| NodeStatus {
        name: node.name.to_string(),
        uuid: node.uuid,
        is_running: node.is_running,
        version: node.version,
        data_bytes: node.space.data.0,
        free_bytes: node.space.free.0,
        replicas: node.replicas,
        primaries: node.primaries,
    };
    summary(state).unwrap_or_default().into_iter().map(status).collect()
}

/// Names the node of each member's machine.
fn name_nodes(members: &mut [MemberStatus], state: Option<&ClusterState>) {
    for member in members.iter_mut().filter(|it| !it.name.is_empty()) {
        let mut nodes = state.into_iter().flat_map(|state| state.nodes().values());
        member.node = nodes.find(|it| it.machine == member.name).map(|it| it.name.to_string());
    }
}

/// The judgement on the node of this machine, if anything holds it up.
fn held_up(waits: &[String]) -> Option<StatusPart> {
    let part = StatusPart { verdict: Level::Degraded, reason: waits.join("; ") };
    (!waits.is_empty()).then_some(part)
}

impl From<Part> for StatusPart {
    fn from(part: Part) -> Self {
        let reason = match part.remedy.as_str() {
            "" => part.reason,
            remedy => format!("{}: {remedy}", part.reason),
        };
        Self { verdict: part.level, reason }
    }
}

/// A member that only its address is known of.
fn unlisted(endpoint: &Endpoint) -> Listed {
    let clients = vec![endpoint.clone()];
    Listed { id: 0, name: String::new(), peers: vec![], clients, is_learner: false }
}

/// The members of an external etcd, with the addresses at which this machine reaches them: those that
/// the operator named come before those that the members announce.
fn reached(
    folder: &Folder,
    member: &Member,
    mut listed: Vec<Listed>,
) -> Result<Vec<Listed>, ClusterError> {
    let asked = at_once(&member.endpoints, |endpoint| {
        let way = (folder, member.external.as_ref());
        let answer = Store::open(way, std::slice::from_ref(endpoint))?.report();
        Ok(answer.ok().map(|it| (it.member, endpoint.clone())))
    })?;
    let mut named: BTreeMap<u64, Vec<Endpoint>> = BTreeMap::new();
    for (id, endpoint) in asked.into_iter().flatten() {
        named.entry(id).or_default().push(endpoint);
    }
    for member in &mut listed {
        let mut clients = named.remove(&member.id).unwrap_or_default();
        clients.append(&mut member.clients);
        member.clients = clients;
    }
    Ok(listed)
}

/// Keeps the addresses of the members for a time when this machine's etcd does not run. A user who
/// may only read the folder keeps none.
pub(super) fn remember(folder: &Folder, member: &Member, listed: &[Listed]) {
    let endpoints = endpoints(listed, member);
    if !endpoints.is_empty()
        && endpoints != member.endpoints
        && let Ok(_lock) = folder.lock()
    {
        let _ = folder.keep_member(&Member { endpoints, ..member.clone() });
    }
}

/// Asks all members at the same time.
fn ask_all(
    folder: &Folder,
    member: &Member,
    listed: &[Listed],
) -> Result<Vec<MemberStatus>, ClusterError> {
    at_once(listed, |it| ask_one(folder, member, it))
}

/// Does the same for all of them, in threads.
fn at_once<T: Sync, R: Send>(
    all: &[T],
    ask: impl Fn(&T) -> Result<R, ClusterError> + Sync,
) -> Result<Vec<R>, ClusterError> {
    std::thread::scope(|scope| {
        let ask = &ask;
        let asked: Vec<_> = all.iter().map(|it| scope.spawn(move || ask(it))).collect();
        asked.into_iter().map(|it| it.join().expect("asking does not panic")).collect()
    })
}

fn ask_one(
    folder: &Folder,
    member: &Member,
    listed: &Listed,
) -> Result<MemberStatus, ClusterError> {
    let way = (folder, member.external.as_ref());
    let reported = match &listed.clients[..] {
        [] if listed.name.is_empty() => Err("it has not started yet".to_owned()),
        [] => Err("it announces no address that this machine can use".to_owned()),
        clients => Store::open(way, clients)?.report().map_err(|error| error.to_string()),
    };
    // An announced address may be that of another machine's etcd.
    let is_its =
        |it: &Reported| listed.id == 0 || member.external.is_none() || it.member == listed.id;
    let reported = reported.and_then(|it| match is_its(&it) {
        true => Ok(it),
        false => Err("another member answers at its address".to_owned()),
    });
    let state = reported.as_ref().ok();
    Ok(MemberStatus {
        name: listed.name.clone(),
        node: None,
        address: listed.clients.first().cloned(),
        is_voter: !listed.is_learner,
        is_reachable: state.is_some(),
        is_leader: state.is_some_and(|it| it.leader != 0 && it.leader == listed.id),
        has_leader: state.is_some_and(|it| it.leader != 0),
        version: state.map(|it| it.version.clone()),
        db_bytes: state.map(|it| it.db_bytes),
        errors: state.map(|it: &Reported| it.errors.clone()).unwrap_or_default(),
        silence: reported.err(),
    })
}

fn majority(members: &[MemberStatus]) -> usize {
    members.iter().filter(|it| it.is_voter).count() / 2 + 1
}

fn judge(members: &[MemberStatus]) -> (Level, String) {
    let voters: Vec<_> = members.iter().filter(|it| it.is_voter).collect();
    let answering = voters.iter().filter(|it| it.is_reachable).count();
    let led = voters.iter().filter(|it| it.has_leader).count();
    let silent: Vec<String> = members.iter().filter(|it| !it.is_reachable).map(name_of).collect();
    let silent = silent.join(", ");
    if answering == 0 {
        return (Level::Unavailable, format!("no member of etcd answers: start {silent}"));
    }
    if answering < majority(members) {
        let reason = format!(
            "etcd has lost its majority ({answering} of {} answer), and no changes are possible: \
             start {silent}",
            voters.len()
        );
        return (Level::AtRisk, reason);
    }
    if led < majority(members) {
        let reason = "etcd has no leader: if that lasts, check the network between its members";
        return (Level::AtRisk, reason.to_owned());
    }
    if let Some(full) = full(members) {
        let reason = format!(
            "{full}: the nodes compact it; if it stays full, {REMEDY}, and let a node or 'nearflash \
             cluster run' supervise each etcd"
        );
        return (Level::AtRisk, reason);
    }
    if let Some(error) = members.iter().find_map(|it| it.errors.first()) {
        return (Level::AtRisk, format!("etcd reports '{error}': see 'etcdctl alarm list'"));
    }
    if !silent.is_empty() {
        let reason = format!("{answering} of {} voters answer: start {silent}", voters.len());
        return (Level::Degraded, reason);
    }
    if members.len() > voters.len() {
        return (Level::Degraded, "a member does not vote yet: repeat its 'join'".to_owned());
    }
    match voters.len() {
        1 => (
            Level::Degraded,
            "etcd survives no failure: join a second and a third (a witness needs no flash)".into(),
        ),
        2 => (
            Level::Degraded,
            "etcd survives no failure: join a third (a witness needs no flash)".into(),
        ),
        count => (Level::Ok, format!("all {count} members of etcd answer")),
    }
}

/// Judges the members of an external etcd. `failure` is that of a read, which needs a majority of them:
/// so a member that this machine does not reach may be well.
fn judge_external(
    members: &[MemberStatus],
    endpoints: &[Endpoint],
    failure: Option<&StoreError>,
) -> (Level, String) {
    let voters: Vec<_> = members.iter().filter(|it| it.is_voter).collect();
    let answering = voters.iter().filter(|it| it.is_reachable).count();
    let silent: Vec<String> = members.iter().filter(|it| !it.is_reachable).map(name_of).collect();
    let silent = silent.join(", ");
    if answering == 0 {
        let reason = format!("no member of etcd answers at {}: start one there", names(endpoints));
        return (Level::Unavailable, reason);
    }
    match failure {
        Some(_) if answering < majority(members) => {
            let reason = format!(
                "etcd has lost its majority ({answering} of {} answer), and no changes are possible: \
                 start {silent}",
                voters.len()
            );
            return (Level::AtRisk, reason);
        }
        Some(error) => {
            return (
                Level::AtRisk,
                format!("its members answer, and nothing can be read: {error}"),
            );
        }
        None => {}
    }
    if let Some(full) = full(members) {
        let reason = format!(
            "{full}: use 'etcdctl compact', 'etcdctl defrag' and then 'etcdctl alarm disarm'; its members \
             need automatic compaction"
        );
        return (Level::AtRisk, reason);
    }
    if let Some(error) = members.iter().find_map(|it| it.errors.first()) {
        return (Level::AtRisk, format!("etcd reports '{error}': see 'etcdctl alarm list'"));
    }
    if !silent.is_empty() {
        let reason = format!(
            "{answering} of {} voters answer this machine: start {silent}, or check the network",
            voters.len()
        );
        return (Level::Degraded, reason);
    }
    match voters.len() {
        1 | 2 => {
            (Level::Degraded, "etcd survives no failure: let it have three members".to_owned())
        }
        count => (Level::Ok, format!("all {count} members of etcd answer")),
    }
}

/// The alarm of an etcd that is full.
fn full(members: &[MemberStatus]) -> Option<String> {
    let longest = members.iter().filter_map(|it| it.db_bytes).max().map(ByteLen);
    members.iter().any(|it| is_full(&it.errors)).then(|| {
        let len = longest.map(|len| format!(" ({len})")).unwrap_or_default();
        format!("etcd's database is full{len}, and no changes are possible")
    })
}

/// The name of a member for people: while nothing answers, only its address is known.
fn name_of(member: &MemberStatus) -> String {
    match &member.address {
        Some(address) if member.name.is_empty() => address.to_string(),
        _ => member.name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(states: &[(bool, bool)]) -> Vec<MemberStatus> {
        let member = |(number, &(is_voter, is_reachable)): (usize, &(bool, bool))| MemberStatus {
            name: format!("n{number}"),
            node: None,
            address: None,
            is_voter,
            is_reachable,
            is_leader: false,
            has_leader: is_reachable,
            version: None,
            db_bytes: None,
            errors: vec![],
            silence: None,
        };
        states.iter().enumerate().map(member).collect()
    }

    fn judged(states: &[(bool, bool)]) -> String {
        let (verdict, reason) = judge(&members(states));
        format!("{} ({}): {reason}", verdict.as_str(), verdict.exit_code())
    }

    #[test]
    fn the_verdict_follows_from_the_voters_that_answer() {
        let (up, down, learner) = ((true, true), (true, false), (false, true));
        let table = [
            &[up, up, up][..],
            &[up, down, up],
            &[up, down, down],
            &[down, down, down],
            &[up, up],
            &[up, down],
            &[up],
            &[up, learner],
        ];
        let lines: Vec<String> = table.into_iter().map(judged).collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
            ok (0): all 3 members of etcd answer
            degraded (3): 2 of 3 voters answer: start n1
            at risk (4): etcd has lost its majority (1 of 3 answer), and no changes are possible: start n1, n2
            unavailable (5): no member of etcd answers: start n0, n1, n2
            degraded (3): etcd survives no failure: join a third (a witness needs no flash)
            at risk (4): etcd has lost its majority (1 of 2 answer), and no changes are possible: start n1
            degraded (3): etcd survives no failure: join a second and a third (a witness needs no flash)
            degraded (3): a member does not vote yet: repeat its 'join'
            "#);
    }

    fn judged_external(states: &[(bool, bool)], has_read: bool) -> String {
        let endpoints = ["192.0.2.1".parse().unwrap(), "etcd.example".parse().unwrap()];
        let failure = StoreError::Unreachable { tried: " x".to_owned() };
        let failure = Some(&failure).filter(|_| !has_read);
        let (verdict, reason) = judge_external(&members(states), &endpoints, failure);
        format!("{}: {reason}", verdict.as_str())
    }

    #[test]
    fn an_external_etcd_is_judged_by_its_members_and_by_a_read() {
        let (up, down) = ((true, true), (true, false));
        let table = [
            (&[up, up, up][..], true),
            (&[up, up, down], true),
            (&[up, down, down], true),
            (&[up], true),
            (&[up, up, up], false),
            (&[up, down, down], false),
            (&[down, down, down], false),
        ];
        let lines: Vec<String> =
            table.into_iter().map(|(states, has_read)| judged_external(states, has_read)).collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
            ok: all 3 members of etcd answer
            degraded: 2 of 3 voters answer this machine: start n2, or check the network
            degraded: 1 of 3 voters answer this machine: start n1, n2, or check the network
            degraded: etcd survives no failure: let it have three members
            at risk: its members answer, and nothing can be read: etcd does not answer: x: check that it runs and that this machine reaches it
            at risk: etcd has lost its majority (1 of 3 answer), and no changes are possible: start n1, n2
            unavailable: no member of etcd answers at 192.0.2.1:2379, etcd.example:2379: start one there
            "#);
    }

    #[test]
    fn a_cluster_without_a_leader_or_with_an_alarm_is_at_risk() {
        let mut all = members(&[(true, true); 3]);
        all[1].errors.push("memberID:1 alarm:NOSPACE".to_owned());
        assert_eq!(judge(&all).0, Level::AtRisk);
        // `etcdctl endpoint health` calls such members healthy, and a read succeeds.
        let (level, reason) = judge_external(&all, &[], None);
        assert!(level == Level::AtRisk && reason.contains("etcd's database is full"), "{reason}");
        let mut all = members(&[(true, true); 3]);
        all.iter_mut().for_each(|it| it.has_leader = false);
        assert_eq!(judge(&all).0, Level::AtRisk);
    }
}
