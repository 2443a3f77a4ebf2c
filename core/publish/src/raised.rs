//! The events that sessions are told after a change of the space.

use std::collections::BTreeMap;

use nearflash_request::{Addressees, Attention, Raised, VolumeId};
use nearflash_space::{Name, Space, Volume};

/// The events to report to sessions after a change of a space's volumes: new sizes, and targets
/// whose logical units have changed.
pub fn raised_by(old: &Space, new: &Space) -> Vec<Raised> {
    let (units_before, units) = (units(old), units(new));
    let mut raised = Vec::new();
    let tell = |volume: &Volume, attention| Raised {
        volume: Some(volume.id),
        to: Addressees::All,
        attention,
    };
    for volume in new.served() {
        let before = old.volume(&volume.name);
        let before = before.filter(|before| before.id == volume.id && !before.is_empty());
        let Some(before) = before else { continue };
        if before.blocks != volume.blocks {
            raised.push(tell(volume, Attention::CapacityChanged));
        }
        if units_before.get(&volume.subsystem) != units.get(&volume.subsystem) {
            raised.push(tell(volume, Attention::UnitsChanged));
        }
    }
    raised
}

/// The volumes of each subsystem, which are the logical units of its target.
fn units(space: &Space) -> BTreeMap<&Name, Vec<VolumeId>> {
    let mut units: BTreeMap<&Name, Vec<VolumeId>> = BTreeMap::new();
    for volume in space.served() {
        units.entry(&volume.subsystem).or_default().push(volume.id);
    }
    units
}
