//! The events that sessions are told after a change of the space.

use nearflash_request::{Addressees, Attention, Raised, VolumeId};
use nearflash_space::{Space, Volume};

/// The events to report to sessions after a change of a space's volumes: new sizes, and targets
/// whose logical units have changed.
pub(super) fn raised_by(old: &Space, new: &Space) -> Vec<Raised> {
    let mut raised = Vec::new();
    let tell = |volume: &Volume, attention| Raised {
        volume: Some(volume.id),
        to: Addressees::All,
        attention,
    };
    for volume in new.served() {
        let before = old.volume(&volume.name);
        let before = before.filter(|before| before.id == volume.id && !before.is_empty());
        if before.is_some_and(|before| before.blocks != volume.blocks) {
            raised.push(tell(volume, Attention::CapacityChanged));
        }
        let units = |space: &Space| -> Vec<VolumeId> {
            let same = space.served().filter(|other| other.subsystem == volume.subsystem);
            same.map(|other| other.id).collect()
        };
        if before.is_some() && units(old) != units(new) {
            raised.push(tell(volume, Attention::UnitsChanged));
        }
    }
    raised
}
