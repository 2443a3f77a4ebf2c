//! The records of a catalog as they are read, and their conversion into the node's state.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use nearflash_access::{Accounts, ChapUser, Credential, Grant, Grants, HostName, HostVolumes};
use nearflash_device::DeviceId;
use nearflash_media::{Device, DeviceSpec, Kind, KnownDevice};
use nearflash_nvme::Nqn;
use nearflash_nvme::hosts::HostTable;
use nearflash_space::{Name, Space, Volume};
use nearflash_units::ByteLen;
use uuid::Uuid;

use super::chap_record::ChapRecord;
use super::grant_record::{CredentialRecord, GrantRecord};
use super::host_record::HostRecord;
use super::host_volumes_record::HostVolumesRecord;
use super::record::{DeviceRecord, VolumeRecord};
use super::token_record::TokenRecord;
use super::{CatalogError, Transaction};
use crate::NodeError;
use crate::records::Records;
use crate::tokens::{Token, Tokens};
use nearflash_config::Anonymous;

/// The kinds of keys that the node has had at least once. Since then, it is closed to peers without one.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct HasHad {
    pub(super) credential: bool,
    pub(super) account: bool,
    pub(super) list: bool,
}

/// The records of a catalog.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contents {
    /// The path of the catalog, for messages.
    pub(super) path: PathBuf,
    pub(super) generation: u64,
    pub(super) devices: BTreeMap<Name, DeviceRecord>,
    pub(super) volumes: BTreeMap<Uuid, VolumeRecord>,
    pub(super) credentials: BTreeMap<Name, CredentialRecord>,
    /// By grant number.
    pub(super) grants: BTreeMap<Name, GrantRecord>,
    pub(super) last_grant: u64,
    pub(super) last_job: u64,
    /// Whether there has been a credential, an account, a list of a host.
    pub(super) has_had: HasHad,
    pub(super) accounts: BTreeMap<ChapUser, ChapRecord>,
    pub(super) tokens: BTreeMap<Name, TokenRecord>,
    pub(super) hosts: BTreeMap<Nqn, HostRecord>,
    pub(super) host_volumes: BTreeMap<HostName, HostVolumesRecord>,
    /// The generation of the removal, by the name of the volume.
    pub(super) removed_volumes: BTreeMap<Name, u64>,
}

impl Contents {
    /// Checks that the index of names matches the volumes.
    pub(super) fn check_names(&self, names: &BTreeMap<String, String>) -> Result<(), CatalogError> {
        let named = self.volumes.iter().map(|(uuid, record)| (&record.name, uuid.to_string()));
        for (name, uuid) in named {
            if names.get(name) != Some(&uuid) {
                return Err(self.damaged(name));
            }
        }
        let is_left = |name: &&String| !self.volumes.values().any(|record| record.name == **name);
        match names.keys().find(is_left) {
            Some(name) => Err(self.damaged(name)),
            None => Ok(()),
        }
    }

    /// The devices that hold volumes: [`nearflash_media::open`] must find them again.
    pub(crate) fn devices_in_use(&self) -> Vec<KnownDevice> {
        let is_of =
            |uuid| self.volumes.values().any(|volume| volume.devices().any(|it| it == uuid));
        let in_use = self.devices.iter().filter(|(_, it)| it.labelled && is_of(it.uuid));
        in_use.map(|(name, device)| device.known(name)).collect()
    }

    /// The recorded UUID of a device without a label, if the catalog knows the device.
    pub(crate) fn unlabelled_uuid(&self, name: &Name) -> Option<Uuid> {
        self.devices.get(name).filter(|device| !device.labelled).map(|device| device.uuid)
    }

    /// Whether that device failed to make something durable, in this run or an earlier one, and nobody
    /// has cleared that.
    pub(crate) fn is_suspect(&self, uuid: Uuid) -> bool {
        self.devices.values().any(|device| device.uuid == uuid && device.suspect)
    }

    /// The change that records how these devices are, and nothing else.
    pub(crate) fn health_of<'a>(
        &self,
        devices: impl IntoIterator<Item = &'a Device>,
    ) -> Transaction {
        let change = Transaction { expected: self.generation, ..Transaction::default() };
        self.given(change, devices)
    }

    /// Checks that every device that holds volumes is given, and is no smaller than it was.
    pub(crate) fn check_given(&self, given: &[DeviceSpec]) -> Result<(), CatalogError> {
        for volume in self.volumes.values() {
            for uuid in volume.devices() {
                let device = self.devices.iter().find(|(_, device)| device.uuid == uuid);
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
    pub(crate) fn records(&self, mut space: Space) -> Result<Records, NodeError> {
        for volume in self.volumes_on(&space)? {
            space.restore(volume)?;
        }
        let (grants, accounts, tokens) = (self.grants()?, self.accounts()?, self.tokens()?);
        let (hosts, host_volumes) = (self.hosts()?, self.host_volumes()?);
        let (generation, last_job) = (self.generation, self.last_job);
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
            elsewhere: Arc::default(),
            peers: None,
            files: None,
        })
    }

    /// Adds to `change` the differences between the recorded devices and these.
    pub(crate) fn given<'a>(
        &self,
        change: Transaction,
        devices: impl IntoIterator<Item = &'a Device>,
    ) -> Transaction {
        // A volume of another node is recorded there.
        let own = |device: &&Device| !matches!(device.kind(), Kind::Remote);
        let devices = devices.into_iter().filter(own);
        let devices = devices.map(|it| (it.name().clone(), DeviceRecord::of(it))).collect();
        change.with_devices(&self.devices, &devices)
    }

    /// The recorded volumes, in the order of their names.
    pub(super) fn volumes_on(&self, space: &Space) -> Result<Vec<Volume>, CatalogError> {
        let id = |uuid: Uuid| {
            let mut devices = (0u32..).zip(space.devices());
            devices.find(|(_, device)| device.uuid == uuid).map(|(id, _)| DeviceId(id))
        };
        let volume = |(uuid, record): (&Uuid, &VolumeRecord)| {
            if let Some(missing) = record.devices().find(|device| id(*device).is_none()) {
                return Err(self.missing(record, missing));
            }
            record.volume(*uuid, id).ok_or_else(|| self.damaged(&record.name))
        };
        let volumes: Result<Vec<Volume>, _> = self.volumes.iter().map(volume).collect();
        let mut volumes = volumes?;
        volumes.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(volumes)
    }

    /// Whether a volume of that name was removed since the last one of that name was created.
    pub(crate) fn was_removed(&self, name: &Name) -> bool {
        self.removed_volumes.contains_key(name)
    }

    /// Whether there are no credentials, so that no direct client can authenticate.
    pub(crate) fn has_no_credential(&self) -> bool {
        self.credentials.is_empty()
    }

    /// The recorded credentials and grants.
    pub(super) fn grants(&self) -> Result<Grants, NodeError> {
        let credential = |(id, record): (&Name, &CredentialRecord)| {
            record.credential(id).ok_or_else(|| self.damaged(id.as_str()))
        };
        let grant = |(number, record): (&Name, &GrantRecord)| {
            record.grant(number).ok_or_else(|| self.damaged(number.as_str()))
        };
        let credentials: Result<Vec<Credential>, _> =
            self.credentials.iter().map(credential).collect();
        let grants: Result<Vec<Grant>, _> = self.grants.iter().map(grant).collect();
        let restored = Grants::restore(credentials?, grants?, self.last_grant)?;
        Ok(restored.with_had_credential(self.has_had.credential))
    }

    /// The recorded CHAP accounts.
    pub(super) fn accounts(&self) -> Result<Accounts, CatalogError> {
        let account = |(user, record): (&ChapUser, &ChapRecord)| {
            record.account(user).ok_or_else(|| self.damaged(user.as_str()))
        };
        let accounts: Result<Vec<_>, _> = self.accounts.iter().map(account).collect();
        Ok(Accounts::restore(accounts?).with_had_account(self.has_had.account))
    }

    /// The recorded tokens.
    pub(super) fn tokens(&self) -> Result<Tokens, CatalogError> {
        let token = |(name, record): (&Name, &TokenRecord)| {
            record.token(name).ok_or_else(|| self.damaged(name.as_str()))
        };
        let tokens: Result<Vec<Token>, _> = self.tokens.iter().map(token).collect();
        Ok(Tokens::restore(tokens?))
    }

    /// Whether there are no CHAP accounts, so that no initiator can authenticate.
    pub(crate) fn has_no_account(&self) -> bool {
        self.accounts.is_empty()
    }

    /// The recorded keys of hosts.
    pub(super) fn hosts(&self) -> Result<HostTable, CatalogError> {
        let removed = self.hosts.iter().filter(|(_, record)| record.is_removed());
        let removed: Vec<Nqn> = removed.map(|(host, _)| host.clone()).collect();
        let host = |(host, record): (&Nqn, &HostRecord)| {
            let keys = record.secrets().ok_or_else(|| self.damaged(host.as_str()))?;
            Ok::<_, CatalogError>((host.clone(), keys))
        };
        let hosts: Result<Vec<_>, _> = self.keyed_hosts().map(host).collect();
        Ok(HostTable::restore(hosts?, removed))
    }

    fn keyed_hosts(&self) -> impl Iterator<Item = (&Nqn, &HostRecord)> {
        self.hosts.iter().filter(|(_, record)| !record.is_removed())
    }

    /// The recorded lists of hosts.
    pub(super) fn host_volumes(&self) -> Result<HostVolumes, CatalogError> {
        let list = |(host, record): (&HostName, &HostVolumesRecord)| {
            let list = record.list().ok_or_else(|| self.damaged(host.as_str()))?;
            Ok::<_, CatalogError>((host.clone(), list))
        };
        let lists: Result<Vec<_>, _> = self.host_volumes.iter().map(list).collect();
        Ok(HostVolumes::restore(lists?).with_had_list(self.has_had.list))
    }

    /// Whether no NVMe host has keys, so that none can authenticate.
    pub(crate) fn has_no_keyed_host(&self) -> bool {
        self.keyed_hosts().next().is_none()
    }

    fn missing(&self, volume: &VolumeRecord, uuid: Uuid) -> CatalogError {
        let device = self.devices.iter().find(|(_, device)| device.uuid == uuid);
        let device = device.map_or("?", |(name, _)| name.as_str()).into();
        CatalogError::DeviceMissing { volume: volume.name.as_str().into(), device, uuid }
    }

    fn damaged(&self, what: &str) -> CatalogError {
        CatalogError::Damaged { path: self.path.clone(), what: what.into() }
    }
}
