//! The targets and accounts of iSCSI sessions.

use std::collections::BTreeMap;
use std::sync::Arc;

use nearflash_access::{ChapAccount, ChapSecret, ChapUser};
use nearflash_device::DeviceProperties;
use nearflash_iscsi::chap;
use nearflash_iscsi::serving::{Exports, RemotePortal};
use nearflash_request::HostRights;
use nearflash_scsi::{LogicalUnit, LogicalUnits, Provisioning as Reported};
use nearflash_space::{Home, Name, Provisioning, Volume};

use crate::hosts::{portal_group, portals};
use crate::iscsi_names::target_iqn;
use crate::namespaces::Medium;
use crate::records::{Portals, Records};

/// The targets and accounts, for initiators with these rights.
pub(crate) fn exports(
    records: &Records,
    devices: &[DeviceProperties],
    rights: Arc<HostRights>,
) -> Exports {
    let Portals { addresses, ordinal, initiators } = &*records.portals;
    let group = portal_group(*ordinal);
    let elsewhere: Arc<[RemotePortal]> = records.elsewhere.iter().flat_map(portals).collect();
    let other_groups: Arc<[u16]> = elsewhere.iter().map(|portal| portal.group).collect();
    let target = |(subsystem, units): (&Name, Vec<LogicalUnit>)| {
        let name = target_iqn(subsystem);
        let units = LogicalUnits::new(&name, group, units);
        (name.into(), Arc::new(units.with_other_groups(Arc::clone(&other_groups))))
    };
    let targets = units(records, devices).into_iter().map(target);
    let exports = Exports::new(targets, addresses.iter().copied())
        .with_nodes(group, elsewhere)
        .with_accounts(records.accounts.iter().map(account))
        .with_rights(rights);
    let exports = if records.closes_iscsi() { exports.closed() } else { exports };
    match initiators {
        None => exports,
        Some(names) => exports.with_initiators(names.iter().map(|name| name.as_str().into())),
    }
}

/// The logical units of each subsystem.
fn units<'a>(
    records: &'a Records,
    devices: &[DeviceProperties],
) -> BTreeMap<&'a Name, Vec<LogicalUnit>> {
    let mut units: BTreeMap<&Name, Vec<LogicalUnit>> = BTreeMap::new();
    let names = records.target_names();
    for volume in records.for_hosts().filter(|volume| names.is_named(&volume.subsystem)) {
        if let Some(unit) = logical_unit(volume, devices) {
            units.entry(&volume.subsystem).or_default().push(unit);
        }
    }
    units
}

fn logical_unit(volume: &Volume, devices: &[DeviceProperties]) -> Option<LogicalUnit> {
    let (medium, modes) = (Medium::of(volume, devices), volume.reservations.modes());
    Some(LogicalUnit {
        // Logical unit numbers begin at 0, namespace identifiers at 1.
        lun: u16::try_from(volume.nsid.saturating_sub(1)).ok()?,
        volume: volume.id,
        uuid: *volume.uuid.as_bytes(),
        name: volume.name.to_string(),
        block_size: volume.block_size,
        blocks: volume.blocks,
        volatile_cache: medium.volatile_cache,
        provisioning: match (volume.provisioning, medium.deallocates) {
            (Provisioning::Thick, _) => Reported::Resource,
            (Provisioning::Thin, true) => Reported::Thin,
            (Provisioning::Thin, false) => Reported::Full,
        },
        support: volume.home.support(),
        on_every_node: volume.home == Home::Cluster,
        write_protected: false,
        software_write_protected: modes.write_protected,
        descriptor_sense: modes.descriptor_sense,
        epoch: volume.epoch.0,
    })
}

fn account(account: &ChapAccount) -> chap::Account {
    let credential = |user: &ChapUser, secret: &ChapSecret| {
        let secret = chap::Secret::new(secret.as_str().as_bytes().to_vec());
        let secret = secret.expect("accounts have secrets that initiators take");
        chap::Credential { user: user.to_string(), secret }
    };
    let target = account.mutual.as_ref().map(|mutual| credential(&mutual.user, &mutual.secret));
    let made = chap::Account::new(credential(&account.user, &account.secret), target);
    let made = made.expect("an account's two secrets are not the same");
    made.for_initiators(account.initiators.iter().map(|name| name.as_str().into()))
}
