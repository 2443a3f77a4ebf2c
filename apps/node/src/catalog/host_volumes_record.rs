//! The catalog's record of the volumes of a host. The names and meanings of these fields are permanent; a
//! field that a later version adds has a default.

use std::collections::BTreeMap;

use nearflash_access::VolumeList;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The volumes of a host.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HostVolumesRecord {
    /// The rights, `r` or `rw`, by the UUID of the volume.
    volumes: BTreeMap<Uuid, String>,
}

impl HostVolumesRecord {
    pub(super) fn of(list: &VolumeList) -> Self {
        let volumes = list.iter().map(|(volume, rights)| (*volume, rights.to_string())).collect();
        Self { volumes }
    }

    /// The list; `None` when a field holds a value that no version writes.
    pub(super) fn list(&self) -> Option<VolumeList> {
        let volume = |(volume, rights): (&Uuid, &String)| Some((*volume, rights.parse().ok()?));
        self.volumes.iter().map(volume).collect()
    }
}
