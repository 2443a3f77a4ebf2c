//! The node's state as records of its catalog, and back.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use nearflash_access::{
    Accounts, ChapUser, Grants, HostName, HostVolumes, Token, Tokens, recorded,
};
use nearflash_catalog::{Catalog, CatalogError};
use nearflash_device::DeviceId;
use nearflash_media::{Device, DeviceSpec, Kind, KnownDevice};
use nearflash_nvme::Nqn;
use nearflash_nvme::hosts::HostTable;
use nearflash_publish::{Draft, Records};
use nearflash_records::Key;
use nearflash_records::key::{Closing, Numbered, Text};
use nearflash_records::local::{DeviceRecord, HostRecord, LocalState, Revisions, VolumeRecord};
use nearflash_records::store::Txn;
use nearflash_space::{Name, Reservations, Space, Volume};
use nearflash_units::ByteLen;
use uuid::Uuid;

use crate::StartError;
use nearflash_config::Anonymous;

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
                let ((name, device), spec) =
                    device.zip(spec).ok_or_else(|| self.missing(volume, uuid))?;
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
    pub(crate) fn records(&self, mut space: Space) -> Result<Records, StartError> {
        for volume in self.volumes_on(&space)? {
            space.restore(volume)?;
        }
        let (grants, accounts, tokens) = (self.grants()?, self.accounts()?, self.tokens()?);
        let (hosts, host_volumes) = (self.hosts()?, self.host_volumes()?);
        let generation = self.state.revisions.newest();
        let last_job = self.state.last(Numbered::Job);
        Ok(Records {
            generation,
            last_job,
            space,
            grants,
            keeps_all_grants: false,
            accounts,
            hosts,
            host_volumes,
            unlisted_hosts: None,
            anonymous: Anonymous::default(),
            tokens,
            portals: Arc::default(),
            elsewhere: Arc::default(),
            peers: None,
            files: None,
        })
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

    /// The recorded volumes, in the order of their names.
    fn volumes_on(&self, space: &Space) -> Result<Vec<Volume>, CatalogError> {
        let id = |uuid: Uuid| {
            let mut devices = (0u32..).zip(space.devices());
            devices.find(|(_, device)| device.uuid == uuid).map(|(id, _)| DeviceId(id))
        };
        let volume = |(uuid, record): (&Uuid, &VolumeRecord)| {
            if let Some(missing) = record.devices().find(|device| id(*device).is_none()) {
                return Err(self.missing(record, missing));
            }
            let rights = self.state.rights.get(uuid);
            let reservations = rights.map_or(Some(Reservations::default()), |it| it.reservations());
            let reservations = reservations.ok_or_else(|| self.damaged(&Key::Rights(*uuid)))?;
            let volume = record.volume(*uuid, reservations, id);
            volume.ok_or_else(|| self.damaged(&Key::Volume(*uuid)))
        };
        let volumes: Result<Vec<Volume>, _> = self.state.volumes.iter().map(volume).collect();
        let mut volumes = volumes?;
        volumes.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(volumes)
    }

    /// Whether a volume of that name was removed since the last one of that name was created.
    pub(crate) fn was_removed(&self, name: &Name) -> bool {
        self.state.was_removed(name)
    }

    /// Whether there are no credentials, so that no direct client can authenticate.
    pub(crate) fn has_no_credential(&self) -> bool {
        self.state.credentials.is_empty()
    }

    /// The recorded credentials and grants.
    fn grants(&self) -> Result<Grants, StartError> {
        let state = &self.state;
        let credential = |(id, record)| {
            let found = recorded::credential(id, record);
            found.ok_or_else(|| self.damaged(&Key::Credential(id.clone())))
        };
        let grant = |(number, record): (&u64, _)| {
            let found = recorded::grant(*number, record);
            found.ok_or_else(|| self.damaged(&Key::Grant(*number)))
        };
        let credentials: Result<Vec<_>, _> = state.credentials.iter().map(credential).collect();
        let grants: Result<Vec<_>, _> = state.grants.iter().map(grant).collect();
        let restored = Grants::restore(credentials?, grants?, state.last(Numbered::Grant))?;
        Ok(restored.with_had_credential(state.has_had(Closing::Credential)))
    }

    /// The recorded CHAP accounts.
    fn accounts(&self) -> Result<Accounts, CatalogError> {
        let account = |(user, record): (&Text, _)| {
            let parsed: Option<ChapUser> = user.as_str().parse().ok();
            let found = parsed.and_then(|parsed| recorded::account(&parsed, record));
            found.ok_or_else(|| self.damaged(&Key::Chap(user.clone())))
        };
        let accounts: Result<Vec<_>, _> = self.state.accounts.iter().map(account).collect();
        Ok(Accounts::restore(accounts?).with_had_account(self.state.has_had(Closing::Account)))
    }

    /// The recorded tokens.
    fn tokens(&self) -> Result<Tokens, CatalogError> {
        let token = |(name, record): (&Name, _)| {
            let found = Token::recorded(name, record);
            found.ok_or_else(|| self.damaged(&Key::Token(name.clone())))
        };
        let tokens: Result<Vec<Token>, _> = self.state.tokens.iter().map(token).collect();
        Ok(Tokens::restore(tokens?))
    }

    /// Whether there are no CHAP accounts, so that no initiator can authenticate.
    pub(crate) fn has_no_account(&self) -> bool {
        self.state.accounts.is_empty()
    }

    /// The recorded keys of hosts.
    fn hosts(&self) -> Result<HostTable, CatalogError> {
        let nqn = |host: &Text| {
            let nqn = Nqn::new(host.as_str()).ok();
            nqn.ok_or_else(|| self.damaged(&Key::Host(host.clone())))
        };
        let removed = self.state.hosts.iter().filter(|(_, record)| record.is_removed());
        let removed: Result<Vec<Nqn>, _> = removed.map(|(host, _)| nqn(host)).collect();
        let host = |(host, record): (&Text, &HostRecord)| {
            let keys = recorded::host_secrets(record);
            let keys = keys.ok_or_else(|| self.damaged(&Key::Host(host.clone())))?;
            Ok::<_, CatalogError>((nqn(host)?, keys))
        };
        let hosts: Result<Vec<_>, _> = self.keyed_hosts().map(host).collect();
        Ok(HostTable::restore(hosts?, removed?))
    }

    fn keyed_hosts(&self) -> impl Iterator<Item = (&Text, &HostRecord)> {
        self.state.hosts.iter().filter(|(_, record)| !record.is_removed())
    }

    /// The recorded lists of hosts.
    fn host_volumes(&self) -> Result<HostVolumes, CatalogError> {
        let list = |(host, record): (&Text, _)| {
            let name: Option<HostName> = host.as_str().parse().ok();
            let found = name.zip(recorded::list(record));
            found.ok_or_else(|| self.damaged(&Key::List(host.clone())))
        };
        let lists: Result<Vec<_>, _> = self.state.lists.iter().map(list).collect();
        Ok(HostVolumes::restore(lists?).with_had_list(self.state.has_had(Closing::List)))
    }

    /// Whether no NVMe host has keys, so that none can authenticate.
    pub(crate) fn has_no_keyed_host(&self) -> bool {
        self.keyed_hosts().next().is_none()
    }

    fn missing(&self, volume: &VolumeRecord, uuid: Uuid) -> CatalogError {
        let device = self.state.devices.iter().find(|(_, device)| device.uuid == uuid);
        let device = device.map_or("?", |(name, _)| name.as_str()).into();
        CatalogError::DeviceMissing { volume: volume.name.as_str().into(), device, uuid }
    }

    fn damaged(&self, key: &Key) -> CatalogError {
        CatalogError::Damaged { path: self.path.clone(), what: key.to_string().into() }
    }
}

fn device_record(device: &Device) -> DeviceRecord {
    let labelled = matches!(device.kind(), Kind::Uring(_));
    let (bytes, suspect) = (device.properties().len.0, device.health().is_suspect());
    DeviceRecord { uuid: device.uuid(), bytes, labelled, suspect }
}

#[cfg(test)]
mod tests;
