//! The answers to the question who uses a volume: see [`nearflash_records::users`].

use nearflash_records::key::Key;
use nearflash_records::record::{Schema, UsersRecord, VolumeState};
use nearflash_records::state::ClusterState;
use nearflash_records::users::answers_of;
use uuid::Uuid;

use super::{Draft, Refusal, Step};

/// The most answers that one transaction deletes.
const FORGOTTEN_MAX: usize = 100;

/// See [`super::Change::TellUsers`].
pub(super) fn tell(
    state: &ClusterState,
    (volume, node): (Uuid, Uuid),
    number: u64,
    users: &str,
) -> Result<Step, Refusal> {
    let known = state.volumes().get(&volume).ok_or(Refusal::NoVolume(volume))?;
    if known.state == VolumeState::Removing {
        return Err(Refusal::Removed(volume));
    }
    if state.users().get(&(volume, node)).is_some_and(|answer| answer.number >= number) {
        return Ok(Step::Done);
    }
    let mut draft = Draft::new(state)?;
    // A late copy does not bring an answer back that was deleted with the volume.
    draft.decided_on(Key::Volume(volume))?;
    let record = UsersRecord { schema: Schema, number, users: users.to_owned() };
    draft.put(Key::Users(volume, node), &record)?;
    draft.submit()
}

/// Deletes answers about a volume that is being removed. Returns whether there were any.
pub(super) fn forget(draft: &mut Draft<'_>, volume: Uuid) -> Result<bool, Refusal> {
    let nodes: Vec<Uuid> =
        answers_of(draft.state, volume).map(|(node, _)| node).take(FORGOTTEN_MAX).collect();
    for node in &nodes {
        draft.delete(Key::Users(volume, *node))?;
    }
    Ok(!nodes.is_empty())
}
