//! A plan as text for people and as a document for programs.

use nearflash_api::{HostVolume, VolumeCreate};
use nearflash_config::{ChapSpec, HostSpec};
use nearflash_units::ByteLen;
use serde::Serialize;

use super::plan::{Plan, Step, account, keyed, listed, terms};
use super::state::Terms;
use crate::output::listed_volumes;

/// A step in words.
struct Words {
    action: &'static str,
    kind: &'static str,
    name: String,
    detail: String,
}

const CREATE: &str = "create";
const CHANGE: &str = "change";
const REMOVE: &str = "remove";

/// The signs of the actions, in the order of the summary.
const SIGNS: [(&str, char); 3] = [(CREATE, '+'), (CHANGE, '~'), (REMOVE, '-')];

fn words(step: &Step) -> Words {
    let of =
        |action, kind, name: &str, detail| Words { action, kind, name: name.to_owned(), detail };
    let none = String::new;
    match step {
        Step::VolumeCreate(it) => of(CREATE, "volume", &it.name, volume(it)),
        Step::VolumeGrow { volume, to } => {
            of(CHANGE, "volume", &volume.name, format!("grows from {} to {to}", volume.len))
        }
        Step::VolumeShrink { volume: it, to } => {
            let lost =
                format!("shrinks from {} to {to}: the data past the new end is lost", it.len);
            of(CHANGE, "volume", &it.name, lost)
        }
        Step::VolumeRemove(it) => {
            let lost = format!("{} on device '{}': its data is lost", it.len, it.device);
            of(REMOVE, "volume", &it.name, lost)
        }
        Step::HostAdd(it) => of(CREATE, "host", it.nqn.as_str(), host(it)),
        Step::HostChange { spec, .. } => of(CHANGE, "host", spec.nqn.as_str(), keys(spec)),
        Step::HostVolumes { nqn, volumes } => of(CHANGE, "host", nqn, sees(volumes)),
        Step::HostUnlist { nqn } => of(CHANGE, "host", nqn, "loses its list of volumes".to_owned()),
        Step::HostRemove { nqn } => of(REMOVE, "host", nqn, none()),
        Step::ChapAdd(it) => of(CREATE, "chap", it.user.as_str(), chap(it)),
        Step::ChapChange { spec, .. } => of(CHANGE, "chap", spec.user.as_str(), chap(spec)),
        Step::ChapRemove { user } => of(REMOVE, "chap", user, none()),
        Step::CredentialCreate(it) => {
            let file = format!("its secret to {}", it.secret_file.display());
            of(CREATE, "credential", it.id.as_str(), file)
        }
        Step::CredentialRemove { id } => of(REMOVE, "credential", id, none()),
        Step::GrantAdd(it) => of(CREATE, "grant", it.credential.as_str(), grant(&terms(it))),
        Step::GrantRevoke { number, terms } => {
            of(REMOVE, "grant", &terms.credential, format!("{}, number {number}", grant(terms)))
        }
    }
}

/// A volume in words, without its name.
pub(crate) fn volume(it: &VolumeCreate) -> String {
    let mut text = ByteLen(it.bytes).to_string();
    if let Some(device) = &it.device {
        text += &format!(" on device '{device}'");
    }
    if let Some(size) = it.block_size {
        text += &format!(", blocks of {size}");
    }
    if let Some(replicas) = it.replicas {
        text += &format!(", replicas: {replicas}");
    }
    if let Some(unit) = it.stripe_unit {
        text += &format!(", stripe unit {}", ByteLen(unit));
    }
    if let Some(width) = it.width {
        text += &format!(", width {width}");
    }
    if let Some(placement) = &it.placement {
        text += &format!(", placement {placement}");
    }
    if let Some(subsystem) = &it.subsystem {
        text += &format!(", in subsystem '{subsystem}'");
    }
    if let Some(provisioning) = &it.provisioning {
        text += &format!(", {provisioning}");
    }
    text
}

/// A host in words: its keys and its list.
pub(crate) fn host(spec: &HostSpec) -> String {
    let list = listed(spec).map(|list| sees(&list));
    let has_keys = spec.dhchap.is_some() || spec.psk.is_some();
    let parts = [has_keys.then(|| keys(spec)), list];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The keys of a host in words.
fn keys(spec: &HostSpec) -> String {
    let host = keyed(spec);
    let mut parts = Vec::new();
    if host.dhchap {
        let directions = if host.mutual { "keys for both directions" } else { "a key" };
        let any = |word: Option<String>| word.unwrap_or_else(|| "any".to_owned());
        parts.push(format!("{directions}, hash {}, group {}", any(host.hash), any(host.group)));
    }
    if let (Some(tls), Some(derivation)) = (host.tls, host.psk_derivation) {
        parts.push(format!("a PSK, TLS {tls}, derivation {derivation}"));
    }
    parts.join(", ")
}

/// The list of a host in words.
fn sees(volumes: &[HostVolume]) -> String {
    match volumes.is_empty() {
        true => "sees no volume".to_owned(),
        false => format!("sees {}", listed_volumes(volumes)),
    }
}

/// An account in words.
pub(crate) fn chap(spec: &ChapSpec) -> String {
    let account = account(spec);
    let way = match &account.mutual_user {
        Some(user) => format!("mutual user '{user}'"),
        None => "one-way".to_owned(),
    };
    match &account.initiators[..] {
        [] => way,
        names => format!("{way}, for {}", names.join(", ")),
    }
}

pub(super) fn grant(terms: &Terms) -> String {
    let rights = if terms.rights == "rw" { "read and write" } else { "read" };
    let place = if terms.place == "0.." { "all" } else { &terms.place };
    format!("{rights} {place} of volume '{}'", terms.volume)
}

/// A step on one line: a sign, the resource and its details.
pub(super) fn line(step: &Step) -> String {
    let Words { action, kind, name, detail } = words(step);
    let sign = SIGNS.iter().find(|(known, _)| *known == action).map_or('?', |(_, sign)| *sign);
    let detail = if detail.is_empty() { detail } else { format!(": {detail}") };
    format!("{sign} {kind} '{name}'{detail}")
}

/// A step in a sentence, for messages.
pub(super) fn phrase(step: &Step) -> String {
    let Words { action, kind, name, .. } = words(step);
    format!("{action} {kind} '{name}'")
}

/// A plan with a line for each difference.
pub(super) fn plan(plan: &Plan) -> String {
    let mut text = String::new();
    for step in plan.steps.iter().chain(&plan.withheld) {
        text += &format!("{}\n", line(step));
    }
    for (volume, job) in &plan.jobs {
        text += &format!(
            "volume '{volume}': job {job} is under way, and is waited for: see 'nearflash job show \
             {job}'\n"
        );
    }
    for restart in &plan.restarts {
        text += &format!("! {restart}: needs a restart of the node\n");
    }
    for warning in &plan.warnings {
        text += &format!("warning: {warning}\n");
    }
    text
}

/// The number of steps of each kind.
pub(super) fn summary(plan: &Plan) -> String {
    let count = |action: &str| {
        let all = plan.steps.iter().chain(&plan.withheld);
        all.filter(|step| words(step).action == action).count()
    };
    let [create, change, remove] = SIGNS.map(|(action, _)| count(action));
    format!("{create} to create, {change} to change, {remove} to remove")
}

#[derive(Serialize)]
pub(super) struct PlanDocument<'a> {
    steps: Vec<StepDocument>,
    /// The jobs of earlier commands that make or change declared volumes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    jobs: Vec<JobDocument<'a>>,
    /// The differences that need a restart.
    restarts: &'a [String],
    /// Consequences that are easily overlooked.
    warnings: &'a [&'static str],
}

#[derive(Serialize)]
struct JobDocument<'a> {
    job: u64,
    volume: &'a str,
}

#[derive(Serialize)]
struct StepDocument {
    action: &'static str,
    kind: &'static str,
    name: String,
    detail: String,
    destroys: bool,
    made: bool,
}

impl<'a> PlanDocument<'a> {
    /// The document of a plan of which the first steps are made.
    pub(super) fn of(plan: &'a Plan, made: usize) -> Self {
        let step = |(place, step): (usize, &Step)| {
            let Words { action, kind, name, detail } = words(step);
            let (destroys, made) = (step.destroys(), place < made);
            StepDocument { action, kind, name, detail, destroys, made }
        };
        let steps = plan.steps.iter().chain(&plan.withheld).enumerate().map(step).collect();
        let jobs = plan.jobs.iter().map(|(volume, job)| JobDocument { job: *job, volume });
        let jobs = jobs.collect();
        Self { steps, jobs, restarts: &plan.restarts, warnings: &plan.warnings }
    }
}
