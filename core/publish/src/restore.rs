//! The records of the node's store as its state.

use std::sync::Arc;

use nearflash_access::{
    Accounts, Anonymous, ChapUser, Grants, HostName, HostVolumes, RestoreGrantsError, Token,
    Tokens, recorded,
};
use nearflash_device::DeviceId;
use nearflash_nvme::Nqn;
use nearflash_nvme::hosts::HostTable;
use nearflash_records::key::{Closing, Text};
use nearflash_records::local::{HostRecord, LocalState, VolumeRecord};
use nearflash_records::{AccessRecords, Key};
use nearflash_space::{Name, Reservations, RestoreError, Space, Volume};
use uuid::Uuid;

use crate::records::Records;

/// Error: the records are no state of a node on the given devices.
#[derive(Debug, thiserror::Error)]
pub enum Unread {
    /// The record of this key cannot be read.
    #[error("record '{0}' is damaged")]
    Damaged(Key),
    /// A volume lies on a device that is not given.
    #[error("volume '{}' lies on a device that is not given", .0.volume)]
    Missing(Missing),
    /// The volumes do not fit the devices.
    #[error(transparent)]
    Space(RestoreError),
    /// The credentials and grants do not fit together.
    #[error(transparent)]
    Grants(RestoreGrantsError),
}

/// A device that is not given, and a volume that lies on it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Missing {
    /// The volume.
    pub volume: Name,
    /// The name of the device; `None` if it is unknown.
    pub device: Option<Name>,
    /// Its UUID.
    pub uuid: Uuid,
}

impl Missing {
    /// This device, on which this volume lies.
    pub fn of(state: &LocalState, volume: &VolumeRecord, uuid: Uuid) -> Self {
        let device = state.devices.iter().find(|(_, device)| device.uuid == uuid);
        let device = device.map(|(name, _)| name.clone());
        Self { volume: volume.name.clone(), device, uuid }
    }
}

impl Records {
    /// The recorded state, with the volumes placed on these devices.
    ///
    /// # Errors
    /// If the records are none on these devices.
    pub fn restore(state: &LocalState, mut space: Space) -> Result<Self, Unread> {
        for volume in volumes_on(state, &space)? {
            space.restore(volume).map_err(Unread::Space)?;
        }
        Ok(Self {
            generation: state.revisions.newest(),
            last_job: state.last_job(),
            space,
            grants: grants(&state.access)?,
            keeps_all_grants: false,
            accounts: accounts(&state.access)?,
            tokens: tokens(&state.access)?,
            hosts: hosts(&state.access)?,
            host_volumes: host_volumes(&state.access)?,
            list: state.access.list,
            unlisted_hosts: None,
            anonymous: Anonymous::default(),
            portals: Arc::default(),
            elsewhere: Arc::default(),
            peers: None,
            files: None,
        })
    }

    /// Takes the list of access that the nodes of a cluster share, in place of what was there.
    ///
    /// # Errors
    /// If no version writes such a record. Nothing is taken then.
    pub fn take_access(&mut self, list: &AccessRecords) -> Result<(), Unread> {
        let (grants, accounts, tokens) = (grants(list)?, accounts(list)?, tokens(list)?);
        let (hosts, host_volumes) = (hosts(list)?, host_volumes(list)?);
        (self.grants, self.accounts, self.tokens) = (grants, accounts, tokens);
        (self.hosts, self.host_volumes, self.list) = (hosts, host_volumes, list.list);
        Ok(())
    }
}

/// The recorded volumes, in the order of their names.
fn volumes_on(state: &LocalState, space: &Space) -> Result<Vec<Volume>, Unread> {
    let id = |uuid: Uuid| {
        let mut devices = (0u32..).zip(space.devices());
        devices.find(|(_, device)| device.uuid == uuid).map(|(id, _)| DeviceId(id))
    };
    let volume = |(uuid, record): (&Uuid, &VolumeRecord)| {
        if let Some(missing) = record.devices().find(|device| id(*device).is_none()) {
            return Err(Unread::Missing(Missing::of(state, record, missing)));
        }
        let rights = state.rights.get(uuid);
        let reservations = rights.map_or(Some(Reservations::default()), |it| it.reservations());
        let reservations = reservations.ok_or(Unread::Damaged(Key::Rights(*uuid)))?;
        let volume = record.volume(*uuid, reservations, id);
        volume.ok_or(Unread::Damaged(Key::Volume(*uuid)))
    };
    let volumes: Result<Vec<Volume>, _> = state.volumes.iter().map(volume).collect();
    let mut volumes = volumes?;
    volumes.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(volumes)
}

/// The recorded credentials and grants.
fn grants(list: &AccessRecords) -> Result<Grants, Unread> {
    let credential = |(id, record)| {
        let found = recorded::credential(id, record);
        found.ok_or_else(|| Unread::Damaged(Key::Credential(id.clone())))
    };
    let grant = |(number, record): (&u64, _)| {
        let found = recorded::grant(*number, record);
        found.ok_or(Unread::Damaged(Key::Grant(*number)))
    };
    let credentials: Result<Vec<_>, _> = list.credentials.iter().map(credential).collect();
    let grants: Result<Vec<_>, _> = list.grants.iter().map(grant).collect();
    let restored = Grants::restore(credentials?, grants?, list.last_grant());
    let restored = restored.map_err(Unread::Grants)?;
    Ok(restored.with_had_credential(list.has_had(Closing::Credential)))
}

/// The recorded CHAP accounts.
fn accounts(list: &AccessRecords) -> Result<Accounts, Unread> {
    let account = |(user, record): (&Text, _)| {
        let parsed: Option<ChapUser> = user.as_str().parse().ok();
        let found = parsed.and_then(|parsed| recorded::account(&parsed, record));
        found.ok_or_else(|| Unread::Damaged(Key::Chap(user.clone())))
    };
    let accounts: Result<Vec<_>, _> = list.accounts.iter().map(account).collect();
    Ok(Accounts::restore(accounts?).with_had_account(list.has_had(Closing::Account)))
}

/// The recorded tokens.
fn tokens(list: &AccessRecords) -> Result<Tokens, Unread> {
    let token = |(name, record): (&Name, _)| {
        let found = Token::recorded(name, record);
        found.ok_or_else(|| Unread::Damaged(Key::Token(name.clone())))
    };
    let tokens: Result<Vec<Token>, _> = list.tokens.iter().map(token).collect();
    Ok(Tokens::restore(tokens?))
}

/// The recorded keys of hosts.
fn hosts(list: &AccessRecords) -> Result<HostTable, Unread> {
    let nqn = |host: &Text| {
        let nqn = Nqn::new(host.as_str()).ok();
        nqn.ok_or_else(|| Unread::Damaged(Key::Host(host.clone())))
    };
    let removed = list.hosts.iter().filter(|(_, record)| record.is_removed());
    let removed: Result<Vec<Nqn>, _> = removed.map(|(host, _)| nqn(host)).collect();
    let host = |(host, record): (&Text, &HostRecord)| {
        let keys = recorded::host_secrets(record);
        let keys = keys.ok_or_else(|| Unread::Damaged(Key::Host(host.clone())))?;
        Ok::<_, Unread>((nqn(host)?, keys))
    };
    let hosts: Result<Vec<_>, _> =
        list.hosts.iter().filter(|(_, record)| !record.is_removed()).map(host).collect();
    Ok(HostTable::restore(hosts?, removed?))
}

/// The recorded lists of hosts.
fn host_volumes(list: &AccessRecords) -> Result<HostVolumes, Unread> {
    let volumes = |(host, record): (&Text, _)| {
        let name: Option<HostName> = host.as_str().parse().ok();
        let found = name.zip(recorded::list(record));
        found.ok_or_else(|| Unread::Damaged(Key::List(host.clone())))
    };
    let lists: Result<Vec<_>, _> = list.lists.iter().map(volumes).collect();
    Ok(HostVolumes::restore(lists?).with_had_list(list.has_had(Closing::List)))
}
