//! Makes the steps of a plan, each as a call to the node.
//!
//! Every call has the condition that the state is still the one that the step was decided on, except for changes of
//! volumes of a cluster, which have no generation: a volume that exists is not created again, and none shrinks. After each
//! step, and when the condition does not hold, the state is read again and planned again. The rest of the
//! plan must then be the same; so no step is made on a state that nobody has seen, and changes that do not
//! concern the plan do not disturb it.

use std::path::Path;

use nearflash_access::Covered;
use nearflash_api::client::{ControlError, ask, ask_if};
use nearflash_api::{
    ApiError, Call, ChapAdd, ChapMutual, ChapRemove, ControllerKey, CredentialCreate,
    CredentialRemove, ErrorCode, GrantAdd, GrantRevoke, HostAdd, HostAllow, HostRemove, HostUnlist,
    JobWait, OneVolume, VolumeRemove, VolumeResize,
};
use nearflash_config::{ChapSpec, CredentialSpec, GrantSpec, HostSpec};
use nearflash_units::ByteLen;

use super::plan::{Permission, Plan, Step, listed};
use super::state::{Declared, Running, Volume};
use crate::failure::Failure;
use crate::job;
use crate::secret::{SecretFile, read_secret};

/// The number of times that a step is tried while others change the node. Each of their changes takes
/// longer than reading the state, so it is never reached by accident.
const TRIES_MAX: usize = 64;

/// The end of a plan.
pub(super) enum End {
    /// All steps are made.
    Made,
    /// A step has failed.
    Failed(Failure),
    /// The state is not the one that was planned on.
    Overtaken,
}

/// Makes the steps of a plan, in order; returns the number of those that are made.
pub(super) fn make(
    data_dir: &Path,
    (declared, may): (&Declared, Permission),
    (mut generation, steps): (u64, &[Step]),
) -> (usize, End) {
    let mut tries = 0;
    for (made, step) in steps.iter().enumerate() {
        loop {
            if made + tries > 0 {
                let running = match Running::read(data_dir, &declared.volumes) {
                    Ok(running) => running,
                    Err(error) => return (made, End::Failed(error.into())),
                };
                if Plan::of(declared, &running, may).steps != steps[made..] {
                    return (made, End::Overtaken);
                }
                generation = running.generation;
            }
            match make_step(At { data_dir, generation }, may, step) {
                Ok(()) => break,
                Err(error) if is_overtaken(&error) && tries < TRIES_MAX => tries += 1,
                Err(error) if is_overtaken(&error) => return (made, End::Overtaken),
                Err(error) => return (made, End::Failed(error)),
            }
        }
    }
    (steps.len(), End::Made)
}

fn is_overtaken(error: &Failure) -> bool {
    let is_such = |error: &ApiError| error.code == ErrorCode::GenerationDiffers;
    matches!(error, Failure::Control(ControlError::Refused(error)) if is_such(error))
}

/// A node, in the state that a step was decided on.
struct At<'a> {
    data_dir: &'a Path,
    generation: u64,
}

impl At<'_> {
    fn ask<C: Call>(&self, call: C) -> Result<C::Answer, Failure> {
        Ok(ask_if(self.data_dir, call, self.generation)?)
    }

    /// Changes a volume, and waits for the job that completes the change.
    fn change<C: Call<Answer = OneVolume>>(
        &self,
        call: C,
        condition: Condition,
    ) -> Result<(), Failure> {
        let done = match condition {
            Condition::SameState => self.ask(call)?,
            Condition::None => ask(self.data_dir, call)?,
        };
        let Some(job) = done.job else { return Ok(()) };
        await_job(self.data_dir, job.id)
    }
}

/// Waits until a job has ended.
pub(super) fn await_job(data_dir: &Path, id: u64) -> Result<(), Failure> {
    job::wait(id, |call: JobWait| Ok(ask(data_dir, call)?.job)).map(drop)
}

/// The condition of a change of a volume.
enum Condition {
    /// The state is the one that the step was decided on.
    SameState,
    /// The change has no condition, because the volume may be the cluster's.
    None,
}

fn make_step(at: At<'_>, may: Permission, step: &Step) -> Result<(), Failure> {
    let resize = |volume: &Volume, to: ByteLen, shrink: bool| {
        let (name, force) = (volume.name.clone(), shrink && may.force);
        let condition = volume.layout.as_ref().map_or(Condition::SameState, |_| Condition::None);
        at.change(VolumeResize { name, bytes: to.0, shrink, force }, condition)
    };
    match step {
        Step::GrantRevoke { number, .. } => at.ask(GrantRevoke { number: *number }).map(drop),
        Step::VolumeRemove(it) => {
            let call = VolumeRemove { name: it.name.clone(), force: may.force };
            at.change(call, Condition::SameState)
        }
        Step::VolumeShrink { volume, to } => resize(volume, *to, true),
        Step::VolumeGrow { volume, to } => resize(volume, *to, false),
        Step::VolumeCreate(call) => {
            // The node decides whether a volume without a device is the cluster's.
            let condition = call.device.as_ref().map_or(Condition::None, |_| Condition::SameState);
            at.change(call.clone(), condition)
        }
        Step::HostAdd(spec) => {
            let volumes = listed(spec);
            at.ask(HostAdd { volumes, ..host(spec, false)? }).map(drop)
        }
        Step::HostChange { spec, .. } => at.ask(host(spec, true)?).map(drop),
        Step::ChapAdd(spec) => at.ask(chap(spec, false)?).map(drop),
        Step::ChapChange { spec, .. } => at.ask(chap(spec, true)?).map(drop),
        Step::CredentialCreate(spec) => create_credential(&at, spec),
        Step::GrantAdd(spec) => at.ask(grant(spec)).map(drop),
        Step::HostVolumes { nqn, volumes } => {
            let (host, volumes) = (nqn.clone(), volumes.clone());
            at.ask(HostAllow { host, volumes, only: true }).map(drop)
        }
        Step::HostUnlist { nqn } => at.ask(HostUnlist { host: nqn.clone() }).map(drop),
        Step::HostRemove { nqn } => {
            at.ask(HostRemove { nqn: nqn.clone(), forget: false }).map(drop)
        }
        Step::ChapRemove { user } => at.ask(ChapRemove { user: user.clone() }).map(drop),
        Step::CredentialRemove { id } => at.ask(CredentialRemove { id: id.clone() }).map(drop),
    }
}

/// The call that adds or replaces the keys of a host. It leaves the list of the host as it is.
fn host(spec: &HostSpec, replace: bool) -> Result<HostAdd, Failure> {
    let HostSpec { nqn, dhchap, psk, .. } = spec;
    let keys = dhchap.as_ref();
    let controller = keys.and_then(|keys| keys.controller_key_file.as_deref());
    let controller = controller.map(read_secret).transpose()?;
    Ok(HostAdd {
        nqn: nqn.to_string(),
        key: keys.map(|keys| read_secret(&keys.key_file)).transpose()?,
        controller: controller.map(|key| ControllerKey { key: Some(key) }),
        hash: keys.and_then(|keys| keys.hash).map(|hash| hash.to_string()),
        group: keys.and_then(|keys| keys.group).map(|group| group.to_string()),
        replace,
        volumes: None,
        psk: psk.as_ref().map(|psk| read_secret(&psk.file)).transpose()?,
        psk_derivation: psk.as_ref().map(|psk| psk.derivation.to_string()),
        tls: psk.as_ref().map(|psk| psk.demand.to_string()),
    })
}

fn chap(spec: &ChapSpec, replace: bool) -> Result<ChapAdd, Failure> {
    let mutual = match &spec.mutual {
        None => None,
        Some((user, file)) => {
            Some(ChapMutual { user: user.to_string(), secret: Some(read_secret(file)?) })
        }
    };
    let secret = Some(read_secret(&spec.secret_file)?);
    let initiators = spec.initiators.iter().map(ToString::to_string).collect();
    Ok(ChapAdd { user: spec.user.to_string(), secret, mutual, initiators, replace })
}

/// Creates a credential. Its file is created first, since a secret that cannot be stored would be lost.
fn create_credential(at: &At<'_>, spec: &CredentialSpec) -> Result<(), Failure> {
    let file = SecretFile::create(&spec.secret_file)?;
    let made = at.ask(CredentialCreate { id: spec.id.to_string(), expires_at: None })?;
    Ok(file.keep(&made.secret)?)
}

fn grant(spec: &GrantSpec) -> GrantAdd {
    let (path, start, end) = match &spec.covers {
        Covered::Range(range) => (None, range.start().0, range.end().map(|end| end.0)),
        Covered::Files(path) => (Some(path.to_string()), 0, None),
    };
    GrantAdd {
        credential: spec.credential.to_string(),
        volume: spec.volume.to_string(),
        path,
        start,
        end,
        rights: spec.rights.to_string(),
        expires_at: None,
    }
}

/// Checks the files that steps need, so that a missing one stops the command before the first step.
///
/// # Errors
/// When a secret cannot be read, or the file for a new secret exists.
pub(super) fn check_files(steps: &[Step]) -> Result<(), Failure> {
    for step in steps {
        match step {
            Step::HostAdd(spec) | Step::HostChange { spec, .. } => drop(host(spec, false)?),
            Step::ChapAdd(spec) | Step::ChapChange { spec, .. } => drop(chap(spec, false)?),
            // The file is removed again, because there is no secret yet.
            Step::CredentialCreate(spec) => drop(SecretFile::create(&spec.secret_file)?),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
