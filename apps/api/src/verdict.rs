//! The health of a node in one word, with the reasons.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    ClusterView, DeviceInfo, HungCoreInfo, OpenAddress, RefusedLogins, Status, WithdrawalInfo,
};

/// The health of a node.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct Verdict {
    /// The worst of the findings.
    pub level: Level,
    /// The findings, each in one line with its remedy; empty if all is well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
}

/// The level of a verdict.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize, ToSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// All is well.
    #[default]
    Ok,
    /// The node serves, but with less redundancy or life left than it should have.
    Warning,
    /// Requests fail or wait, or data is at risk.
    Problem,
}

impl Level {
    /// The level's name in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

type Finding = (Level, String);

/// A part of a device's life after which it should be replaced.
const LIFE_USED_MAX: f64 = 0.9;

impl Verdict {
    /// The verdict on a state, whose own field is not looked at.
    pub fn of(status: &Status) -> Self {
        let parts = [
            cores(status),
            devices(status),
            names(status),
            addresses(status),
            closed(status),
            files(status),
            refusals(status),
            cluster(status),
        ];
        let findings = parts.concat();
        let level = findings.iter().map(|(level, _)| *level).max().unwrap_or_default();
        Self { level, reasons: findings.into_iter().map(|(_, reason)| reason).collect() }
    }
}

fn cores(status: &Status) -> Vec<Finding> {
    let finding = |core: &usize| {
        let reason = format!("core {core} does not answer: check the log for a device that hangs");
        (Level::Problem, reason)
    };
    status.silent_cores.iter().map(finding).collect()
}

fn devices(status: &Status) -> Vec<Finding> {
    status.devices.iter().flat_map(device).collect()
}

fn device(device: &DeviceInfo) -> Vec<Finding> {
    let name = &device.name;
    let mut findings = device.faults();
    let flash = device.flash.as_ref().map(|wear| (wear.worn_out, wear.life_used));
    let pcm = device.pcm.as_ref().map(|wear| (wear.worn_out, wear.life_used));
    match flash.or(pcm) {
        Some((true, _)) => {
            let reason = format!("device '{name}' is worn out and refuses writes: replace it");
            findings.push((Level::Problem, reason));
        }
        Some((false, used)) if used >= LIFE_USED_MAX => {
            let reason = format!("device '{name}' is nearly worn out: replace it");
            findings.push((Level::Warning, reason));
        }
        _ => {}
    }
    findings
}

fn names(status: &Status) -> Vec<Finding> {
    status.iscsi_clashes.iter().map(|clash| (Level::Warning, clash.sentence())).collect()
}

fn refusals(status: &Status) -> Vec<Finding> {
    let sentence = status.refused_logins.as_ref().and_then(RefusedLogins::sentence);
    sentence.into_iter().map(|sentence| (Level::Warning, sentence)).collect()
}

fn addresses(status: &Status) -> Vec<Finding> {
    let finding = |open: &OpenAddress| (Level::Warning, open.sentence());
    status.open_to_everyone.iter().map(finding).collect()
}

fn closed(status: &Status) -> Vec<Finding> {
    let finding = |protocol: &String| {
        let add = match protocol.as_str() {
            "iscsi" => "a CHAP account with 'nearflash chap add'",
            _ => "a credential with 'nearflash credential create'",
        };
        let reason = format!(
            "nobody can use {protocol}, because its last key was removed: add {add}, or start the node with \
             --anonymous {protocol}"
        );
        (Level::Warning, reason)
    };
    status.closed.iter().map(finding).collect()
}

fn files(status: &Status) -> Vec<Finding> {
    let finding = |fault: &String| (Level::Problem, format!("files are not served: {fault}"));
    status.files_faults.iter().map(finding).collect()
}

fn cluster(status: &Status) -> Vec<Finding> {
    let Some(view) = &status.cluster else { return Vec::new() };
    let level = match view.verdict.as_str() {
        "ok" => None,
        "degraded" => Some(Level::Warning),
        _ => Some(Level::Problem),
    };
    let found = |level| (level, format!("the cluster is {}: {}", view.verdict, view.reason));
    let waits = view.waits().into_iter().map(|reason| (Level::Warning, reason));
    level.map(found).into_iter().chain(waits).collect()
}

impl ClusterView {
    /// The waits that hold this node up, each in one line with its remedy.
    pub fn waits(&self) -> Vec<String> {
        let cores = self.hung_cores.iter().map(|HungCoreInfo { core, seconds }| {
            format!(
                "core {core} has not turned for {seconds} s, and this node leaves its mirrors to their \
                 other nodes until it does: check the log for a device that hangs, or restart the node"
            )
        });
        cores.chain(self.withdrawals.iter().map(withdrawal)).collect()
    }
}

fn withdrawal(it: &WithdrawalInfo) -> String {
    let (volumes, seconds) = (it.volumes.join(", "), it.seconds);
    let place = match &it.devices[..] {
        [] => String::new(),
        devices => format!(" on {}", devices.join(", ")),
    };
    format!(
        "'{volumes}' was removed or moved {seconds} s ago, and requests on it have not ended: its \
         space{place} is not used again before; check the log for a device that hangs"
    )
}
