//! The node's state as records of its catalog, and back.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use nearflash_catalog::{Catalog, CatalogError};
use nearflash_media::{Device, DeviceSpec, Kind, KnownDevice};
use nearflash_publish::{Draft, Missing, Records, Unread};
use nearflash_records::AccessRecords;
use nearflash_records::local::{DeviceRecord, HostRecord, LocalState, Revisions};
use nearflash_records::store::Txn;
use nearflash_space::{Name, Space};
use nearflash_units::ByteLen;
use uuid::Uuid;

use crate::StartError;

/// The catalog, and the revisions of the records that the node knows. It changes the records that it knows, and
/// no others.
#[derive(Debug)]
pub(crate) struct Recorder {
    catalog: Catalog,
    known: Mutex<Revisions>,
}

impl Deref for Recorder {
    type Target = Catalog;

    fn deref(&self) -> &Catalog {
        &self.catalog
    }
}

impl Recorder {
    /// A recorder of what was read from the catalog.
    pub(crate) fn new(catalog: Catalog, read: Recorded) -> Self {
        Self { catalog, known: Mutex::new(read.state.revisions) }
    }

    /// Makes the change from the old records to the new ones durable, and returns its generation.
    pub(crate) fn record(&self, old: &Records, new: &Records) -> Result<u64, CatalogError> {
        self.commit(|known| Draft::between(old, new, known))
    }

    /// Records how these devices are, and which there are, with the change from the old records to the new ones.
    pub(crate) fn record_given<'a>(
        &self,
        (old, new): (&Records, &Records),
        devices: impl IntoIterator<Item = &'a Device>,
    ) -> Result<u64, CatalogError> {
        let before = Recorded::read(&self.catalog)?;
        self.commit(|known| before.given(Draft::between(old, new, known), devices, known))
    }

    /// Records how these devices are, and nothing else.
    pub(crate) fn record_health<'a>(
        &self,
        devices: impl IntoIterator<Item = &'a Device>,
    ) -> Result<u64, CatalogError> {
        let before = Recorded::read(&self.catalog)?;
        self.commit(|known| before.given(Draft::default(), devices, known))
    }

    /// An empty change is not written.
    fn commit(&self, draft: impl FnOnce(&Revisions) -> Draft) -> Result<u64, CatalogError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let txn: Txn = draft(&known).into_txn(&known);
        if txn.puts.is_empty() && txn.deletes.is_empty() {
            return Ok(known.newest());
        }
        let revision = self.catalog.commit(&txn)?;
        known.note(&txn, revision);
        Ok(revision)
    }
}

/// The records of a catalog.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorded {
    /// The path of the catalog, for messages.
    path: PathBuf,
    state: LocalState,
}

impl Recorded {
    /// Every record of the catalog.
    pub(crate) fn read(catalog: &Catalog) -> Result<Self, CatalogError> {
        let (path, content) = (catalog.path().to_owned(), catalog.read()?);
        match LocalState::of(&content) {
            Ok(state) => Ok(Self { path, state }),
            Err(error) => Err(CatalogError::Damaged { path, what: error.key }),
        }
    }

    /// The devices that hold volumes: [`nearflash_media::open`] must find them again.
    pub(crate) fn devices_in_use(&self) -> Vec<KnownDevice> {
        let is_of =
            |uuid| self.state.volumes.values().any(|volume| volume.devices().any(|it| it == uuid));
        let in_use = self.state.devices.iter().filter(|(_, it)| it.labelled && is_of(it.uuid));
        let known = |(name, device): (&Name, &DeviceRecord)| KnownDevice {
            name: name.clone(),
            uuid: device.uuid,
            len: ByteLen(device.bytes),
        };
        in_use.map(known).collect()
    }

    /// The recorded UUID of a device without a label, if the catalog knows the device.
    pub(crate) fn unlabelled_uuid(&self, name: &Name) -> Option<Uuid> {
        self.state.devices.get(name).filter(|device| !device.labelled).map(|device| device.uuid)
    }

    /// Whether that device failed to make something durable, in this run or an earlier one, and nobody
    /// has cleared that.
    pub(crate) fn is_suspect(&self, uuid: Uuid) -> bool {
        self.state.devices.values().any(|device| device.uuid == uuid && device.suspect)
    }

    /// Checks that every device that holds volumes is given, and is no smaller than it was.
    pub(crate) fn check_given(&self, given: &[DeviceSpec]) -> Result<(), CatalogError> {
        for volume in self.state.volumes.values() {
            for uuid in volume.devices() {
                let device = self.state.devices.iter().find(|(_, device)| device.uuid == uuid);
                let spec = device.and_then(|(name, _)| given.iter().find(|it| it.name == *name));
                let ((name, device), spec) = device
                    .zip(spec)
                    .ok_or_else(|| missing(Missing::of(&self.state, volume, uuid)))?;
                let is_shorter = |size: &ByteLen| size.0 < device.bytes;
                if let Some(size) = spec.memory_size().filter(is_shorter) {
                    let (device, recorded) = (name.clone(), ByteLen(device.bytes));
                    return Err(CatalogError::Shrunk { device, size, recorded });
                }
            }
        }
        Ok(())
    }

    /// The recorded state, with the volumes placed on these devices.
    pub(crate) fn records(&self, space: Space) -> Result<Records, StartError> {
        Records::restore(&self.state, space).map_err(|error| self.unread(error))
    }

    /// Adds to a change the differences between the recorded devices and these.
    fn given<'a>(
        &self,
        draft: Draft,
        devices: impl IntoIterator<Item = &'a Device>,
        known: &Revisions,
    ) -> Draft {
        // A volume of another node is recorded there.
        let own = |device: &&Device| !matches!(device.kind(), Kind::Remote);
        let devices = devices.into_iter().filter(own);
        let devices = devices.map(|it| (it.name().clone(), device_record(it))).collect();
        draft.with_devices(&self.state.devices, &devices, known)
    }

    /// Whether a volume of that name was removed since the last one of that name was created.
    pub(crate) fn was_removed(&self, name: &Name) -> bool {
        self.state.was_removed(name)
    }

    /// The records of access.
    pub(crate) fn access(&self) -> &AccessRecords {
        &self.state.access
    }

    /// Whether there are no credentials, so that no direct client can authenticate.
    pub(crate) fn has_no_credential(&self) -> bool {
        self.state.access.credentials.is_empty()
    }

    /// Whether there are no CHAP accounts, so that no initiator can authenticate.
    pub(crate) fn has_no_account(&self) -> bool {
        self.state.access.accounts.is_empty()
    }

    /// Whether no NVMe host has keys, so that none can authenticate.
    pub(crate) fn has_no_keyed_host(&self) -> bool {
        self.state.access.hosts.values().all(HostRecord::is_removed)
    }

    fn unread(&self, error: Unread) -> StartError {
        match error {
            Unread::Damaged(key) => {
                let (path, what) = (self.path.clone(), key.to_string().into());
                CatalogError::Damaged { path, what }.into()
            }
            Unread::Missing(missing) => self::missing(missing).into(),
            Unread::Space(error) => error.into(),
            Unread::Grants(error) => error.into(),
        }
    }
}

fn missing(Missing { volume, device, uuid }: Missing) -> CatalogError {
    let device = device.as_ref().map_or("?", Name::as_str).into();
    CatalogError::DeviceMissing { volume: volume.as_str().into(), device, uuid }
}

fn device_record(device: &Device) -> DeviceRecord {
    let labelled = matches!(device.kind(), Kind::Uring(_));
    let (bytes, suspect) = (device.properties().len.0, device.health().is_suspect());
    DeviceRecord { uuid: device.uuid(), bytes, labelled, suspect }
}

#[cfg(test)]
mod tests;
