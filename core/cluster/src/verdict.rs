//! One verdict on the cluster, for `cluster status`: never `ok` while anything is wrong.

mod mirrors;

use std::fmt;

use nearflash_records::record::VolumeState;
use nearflash_records::state::ClusterState;
use nearflash_space::Name;
use nearflash_units::Nanos;
use serde::Serialize;
use uuid::Uuid;

use crate::agent::StoreHealth;
use crate::compile::{SlicePlace, Tables, VolumeLayout, compile};

/// How bad it is; the worst part counts.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Nothing is wrong.
    Ok,
    /// Everything works, but the next failure may be one too many.
    Degraded,
    /// I/O goes on; nothing can be changed, or nobody can know.
    AtRisk,
    /// Some data cannot be used.
    Unavailable,
}

/// A part of the verdict.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Part {
    /// How bad it is.
    pub level: Level,
    /// The reason.
    pub reason: String,
    /// The remedy; empty if nothing is wrong.
    pub remedy: String,
}

/// The verdict.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Verdict {
    /// The connection from here to the store.
    pub connection: Part,
    /// The members of the store.
    pub quorum: Part,
    /// The nodes, slices and volumes.
    pub data: Part,
}

impl Level {
    /// The program's exit code.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Ok => 0,
            // 1 is a command that failed, and 2 one that was not understood.
            Self::Degraded => 3,
            Self::AtRisk => 4,
            Self::Unavailable => 5,
        }
    }

    /// The word for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Degraded => "degraded",
            Self::AtRisk => "at risk",
            Self::Unavailable => "unavailable",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Part {
    fn new(level: Level, reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { level, reason: reason.into(), remedy: remedy.into() }
    }
}

impl Verdict {
    /// The worst part; of equally bad ones the one that comes first.
    pub fn worst(&self) -> &Part {
        let parts = [&self.data, &self.quorum, &self.connection];
        parts.into_iter().max_by_key(|part| part.level).unwrap_or(&self.connection)
    }

    /// How bad it is altogether.
    pub fn level(&self) -> Level {
        self.worst().level
    }
}

/// The verdict line: `ok`, or how bad it is, the reason and the remedy.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Part { level, reason, remedy } = self.worst();
        match level {
            Level::Ok => write!(f, "{level}"),
            _ => write!(f, "{level}: {reason}: {remedy}"),
        }
    }
}

/// The verdict on what is known now. `endpoints`: the names of the store's endpoints.
pub fn verdict(
    now: Nanos,
    health: &StoreHealth,
    endpoints: &[String],
    state: &ClusterState,
) -> Verdict {
    Verdict {
        connection: connection(now, health, endpoints),
        quorum: quorum(health),
        data: if health.is_read {
            data(state)
        } else {
            Part::new(Level::Unavailable, "the cluster's state is unknown", "reach the store first")
        },
    }
}

fn connection(now: Nanos, health: &StoreHealth, endpoints: &[String]) -> Part {
    let name = |index: &usize| endpoints.get(*index).map_or("an endpoint", String::as_str);
    let failures: Vec<String> = health
        .failures
        .iter()
        .map(|(index, reason)| format!("{} ({reason})", name(index)))
        .collect();
    let failures = match &failures[..] {
        [] => "no endpoint has answered yet".to_owned(),
        failures => failures.join(", "),
    };
    let remedy = "start etcd there, or check the network and the certificates";
    if let Some(rolled_back) = &health.rolled_back {
        let (level, effect) = match health.is_read {
            true => (Level::AtRisk, "I/O goes on, nothing is changed"),
            false => (Level::Unavailable, "this node does not use its slices"),
        };
        let reason = format!(
            "etcd has been restored from an older snapshot, or has lost the cluster ({rolled_back}): \
             {effect}"
        );
        let remedy = "give etcd its newest state back; `nearflash cluster accept-restored` says what is \
                      lost without it";
        return Part::new(level, reason, remedy);
    }
    if let Some(since) = health.silent_since {
        let seconds = now.since(since).to_duration().as_secs();
        let effect = if health.is_read {
            "I/O goes on, nothing can be changed"
        } else {
            "the cluster's state is unknown"
        };
        let level = if health.is_read { Level::AtRisk } else { Level::Unavailable };
        let reason = format!("etcd unreachable for {seconds} s: {effect}: {failures}");
        return Part::new(level, reason, remedy);
    }
    if !health.is_read {
        let reason = "the cluster's state is still being read";
        return Part::new(Level::Unavailable, reason, "wait a moment");
    }
    if let Some(run) = health.other_run {
        let reason = format!("another process runs as this node (run {run:016x})");
        let remedy = "end it; if this machine is a copy, `nearflash cluster join` anew";
        return Part::new(Level::AtRisk, reason, remedy);
    }
    if health.is_outcome_unknown {
        let reason = "a change got no answer, and is being sent again";
        return Part::new(Level::AtRisk, reason, "wait until etcd answers");
    }
    if !health.failures.is_empty() {
        return Part::new(Level::Degraded, format!("no answer from {failures}"), remedy);
    }
    Part::new(Level::Ok, "etcd answers", "")
}

fn quorum(health: &StoreHealth) -> Part {
    let Some(status) = &health.status else {
        let reason = "the members of etcd are unknown";
        return Part::new(Level::AtRisk, reason, "reach one of them first");
    };
    let (voters, healthy) = (status.voters, status.healthy);
    let majority = voters / 2 + 1;
    if healthy < majority {
        let reason = format!("etcd has lost its majority: {healthy} of {voters} members answer");
        return Part::new(Level::AtRisk, reason, "start the others");
    }
    if status.alarms.iter().any(|alarm| alarm.eq_ignore_ascii_case(NO_SPACE)) {
        let reason = "etcd's database is full, and no changes are possible";
        return Part::new(Level::AtRisk, reason, "see `nearflash cluster status`");
    }
    if !status.alarms.is_empty() {
        let reason = format!("etcd raises {}", status.alarms.join(", "));
        return Part::new(Level::AtRisk, reason, "see `etcdctl alarm list`");
    }
    if healthy < voters {
        let reason = format!("{healthy} of {voters} members of etcd answer");
        return Part::new(Level::Degraded, reason, "start the others");
    }
    if voters < 3 && status.is_external {
        let reason = format!("external etcd has {voters} of 3 members, and survives no failure");
        return Part::new(Level::Degraded, reason, "let it have three members");
    }
    if voters < 3 {
        let reason = format!("etcd has {voters} of 3 members, and survives no failure");
        let remedy = "`nearflash cluster join` on a third machine; a witness needs no flash";
        return Part::new(Level::Degraded, reason, remedy);
    }
    Part::new(Level::Ok, format!("{voters} members of etcd answer"), "")
}

/// The alarm of an etcd that is full.
const NO_SPACE: &str = "NOSPACE";

/// The most volumes or mirrors that a reason names.
const NAMES_MAX: usize = 3;

/// The verdict on the nodes, slices and volumes.
pub fn data(state: &ClusterState) -> Part {
    if state.cluster().is_none() {
        let reason = format!("the store has no cluster {}", state.uuid());
        return Part::new(Level::Unavailable, reason, "check the token, or `cluster init`");
    }
    let tables = compile(state, Uuid::nil());
    if let Some(part) = lost(state, &tables) {
        return part;
    }
    if let Some((name, fault)) = tables.left_out.values().next() {
        let count = tables.left_out.len();
        let reason = format!("{count} volumes cannot be served, the first is {name}");
        return Part::new(Level::Unavailable, reason, fault.to_string());
    }
    if let Some(part) = only_copies(state, &tables).or_else(|| mirrors::unserved(state, &tables)) {
        return part;
    }
    if let Some(fault) = state.damaged().next() {
        let reason = format!("{} records are damaged", state.damaged().count());
        return Part::new(Level::AtRisk, reason, fault.to_string());
    }
    if let Some(part) = mirrors::lacking(state, &tables) {
        return part;
    }
    let is_down = |node: &Uuid| !state.alive().contains_key(node);
    if let Some((_, node)) = state.nodes().iter().find(|(uuid, _)| is_down(uuid)) {
        let remedy = format!("start {}", node.name);
        return Part::new(Level::Degraded, format!("{} is down", node.name), remedy);
    }
    if let Some(volume) = state.volumes().values().find(|it| it.state != VolumeState::Ready) {
        let (name, remedy): (&Name, _) = (&volume.name, "wait, or remove it again");
        let reason = format!("volume '{name}' is being created or removed");
        return Part::new(Level::Degraded, reason, remedy);
    }
    let counted =
        |count: usize, what| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let nodes = counted(state.nodes().len(), "node");
    let volumes = counted(state.volumes().len(), "volume");
    Part::new(Level::Ok, format!("{nodes}, {volumes}"), "")
}

/// The number of mirrors of volumes with two replicas that have no copy, one copy, and two copies in
/// sync on nodes that run.
pub fn mirrors_by_copies(state: &ClusterState) -> [usize; 3] {
    let tables = compile(state, Uuid::nil());
    let mut counts = [0; 3];
    for layout in &tables.mirrors {
        counts[mirrors::copies(state, &tables, layout).min(2)] += 1;
    }
    counts
}

/// The volumes that have lost data with a node that was removed.
fn lost(state: &ClusterState, tables: &Tables) -> Option<Part> {
    let lost_by = |volume: &Uuid| {
        let rows = state.rows(*volume, state.volumes().get(volume)?).ok()?;
        let replicas = rows.iter().flatten().flat_map(|view| &view.replicas.replicas);
        let slices: Vec<Uuid> = replicas.map(|it| it.slice).collect();
        state.removed().values().find(|it| it.slices.iter().any(|it| slices.contains(it)))
    };
    let mut lost = tables.left_out.iter();
    let (removed, name) = lost.find_map(|(uuid, (name, _))| Some((lost_by(uuid)?, name)))?;
    let reason = format!("parts of {name} were lost with {}, which was removed", removed.name);
    let remedy = format!("`nearflash volume remove {name}`, and restore its data from a backup");
    Some(Part::new(Level::Unavailable, reason, remedy))
}

/// The volumes with one replica that have parts on a node that is down.
fn only_copies(state: &ClusterState, tables: &Tables) -> Option<Part> {
    let is_down = |place: &&SlicePlace| !state.alive().contains_key(&place.node);
    tables.slices.values().filter(is_down).find_map(|place| {
        let on = |slice: &Uuid| tables.slices.get(slice).is_some_and(|it| it.node == place.node);
        let uses = |volume: &&VolumeLayout| {
            let mut mirrors = volume.rows.iter().flat_map(|row| &row.mirrors);
            volume.replicas == 1 && mirrors.any(|it| on(&it.slice))
        };
        let names: Vec<&str> =
            tables.volumes.iter().filter(uses).map(|volume| volume.name.as_str()).collect();
        let more = if names.len() > NAMES_MAX { ", …" } else { "" };
        let named = names[..names.len().min(NAMES_MAX)].join(", ");
        let node = &place.node_name;
        let reason =
            format!("parts of {named}{more} have their only copy on {node}, which is down");
        let part = Part::new(Level::Unavailable, reason, format!("start {node}"));
        (!names.is_empty()).then_some(part)
    })
}

#[cfg(test)]
mod tests;
