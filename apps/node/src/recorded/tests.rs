//! The records of a node, written and read again.

mod rights;
mod upgrades;
mod volumes;

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use nearflash_access::{
    Accounts, ChapAccount, Covered, GrantNumber, GrantRequest, Grants, Holder, HostVolumes, Mutual,
    Rights, Secret, Token, Tokens, UnixTime, VolumeList,
};
use nearflash_device::DeviceId;
use nearflash_media::{Claim, Device, DeviceSpec, open};
use nearflash_nvme::Nqn;
use nearflash_nvme::auth::{DhGroup, Hash, HostKeys, Key as HostKey, Policy};
use nearflash_nvme::hosts::{HostSecrets, HostTable};
use nearflash_nvme::tls::{Demand, Derivation, Psk, TlsHost};
use nearflash_publish::Records;
use nearflash_records::Key;
use nearflash_records::local::TokenScopeRecord;
use nearflash_records::store::Put;
use nearflash_request::{
    Change, ChangeKind, ChangeResult, Expected, Identity, Nexus, ReservationType,
};
use nearflash_space::{Name, Space, VolumeRequest, empty_device};
use nearflash_units::{BlockSize, ByteLen};

use super::*;
use nearflash_config::Anonymous;

const FRESH: Uuid = Uuid::from_u128(1);

/// The UUID of most volumes in these tests.
const DATA: &str = "00000000-0000-0000-0000-000000000015";

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn spec(text: &str) -> DeviceSpec {
    text.parse().unwrap()
}

fn device(text: &str) -> Device {
    device_of(text, 7)
}

fn device_of(text: &str, uuid: u128) -> Device {
    let candidate = open(&spec(text), Claim { node: FRESH, known: &[], cluster: None }).unwrap();
    candidate.take(Uuid::from_u128(uuid)).unwrap()
}

fn space(device: &Device) -> Space {
    space_on(&[device])
}

fn space_on(devices: &[&Device]) -> Space {
    let place = |(id, device): (u32, &&Device)| {
        let (name, uuid) = (device.name().clone(), device.uuid());
        empty_device(DeviceId(id), name, uuid, BlockSize::B512, device.data_area())
    };
    Space::new((0..).zip(devices).map(place).collect())
}

fn records(space: &Space, grants: &Grants) -> Records {
    let (space, grants, accounts) = (space.clone(), grants.clone(), Accounts::default());
    Records {
        generation: 0,
        last_job: 0,
        space,
        grants,
        keeps_all_grants: false,
        accounts,
        tokens: Tokens::default(),
        hosts: HostTable::default(),
        host_volumes: HostVolumes::default(),
        list: None,
        unlisted_hosts: None,
        anonymous: Anonymous::default(),
        portals: Arc::default(),
        elsewhere: Arc::default(),
        peers: None,
        files: None,
    }
}

impl Recorded {
    /// The records of rights. The volumes are left out, because they need their devices.
    fn rights(&self) -> Result<Records, StartError> {
        let mut without = self.clone();
        without.state.volumes.clear();
        without.records(Space::new(Vec::new()))
    }
}

fn read(catalog: &Catalog) -> Recorded {
    Recorded::read(catalog).unwrap()
}

/// The change from the old records to the new ones, on what the catalog has.
fn change(catalog: &Catalog, old: &Records, new: &Records) -> Txn {
    let known = &read(catalog).state.revisions;
    Draft::between(old, new, known).into_txn(known)
}

/// Commits these records in place of the recorded ones.
fn commit(catalog: &Catalog, new: &Records, devices: &[&Device]) {
    let contents = read(catalog);
    let old = contents.records(space_on(devices)).unwrap();
    let known = &contents.state.revisions;
    let draft = Draft::between(&old, new, known);
    let change = contents.given(draft, devices.iter().copied(), known).into_txn(known);
    if !is_empty(&change) {
        assert_eq!(catalog.commit(&change).unwrap(), old.generation + 1);
    }
}

fn is_empty(change: &Txn) -> bool {
    change.puts.is_empty() && change.deletes.is_empty()
}

fn key(text: &str) -> Key {
    text.parse().unwrap()
}

/// Writes a record as by hand.
fn insert(catalog: &Catalog, of: &str, value: &str) {
    let puts = vec![Put { key: key(of), value: value.as_bytes().to_vec().into(), lease: None }];
    catalog.commit(&Txn { puts, ..Txn::default() }).unwrap();
}

/// The JSON text of a record in the file.
fn text(catalog: &Catalog, of: &str) -> String {
    let content = catalog.read().unwrap();
    let (value, _) = &content.found[&key(of)];
    String::from_utf8(value.to_vec()).unwrap()
}

/// A catalog of a new node, in a folder that goes with the test.
fn fresh() -> (tempfile::TempDir, Catalog) {
    let folder = tempfile::tempdir().unwrap();
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    (folder, catalog)
}

/// The records in these tests and the fixture of schema 1 have blocks of 4096 bytes.
fn request(text: &str) -> VolumeRequest {
    let asked = nearflash_config::parse_volume(text).unwrap();
    VolumeRequest { block_size: asked.block_size.or(Some(BlockSize::B4096)), ..asked }
}

/// A credential and two grants on a volume of that space.
fn grants(space: &Space) -> Grants {
    let mut grants = Grants::default();
    let (app, now) = (name("app"), UnixTime(1));
    grants.create(&app, Secret::new([0xA5; 32]), Some(UnixTime(2_000_000_000)), now).unwrap();
    let volume = space.volume(&name("data")).unwrap();
    for (range, rights, expires) in [
        ("0..1MiB", Rights::ReadWrite, Some(UnixTime(1_900_000_000))),
        ("1MiB..", Rights::Read, None),
    ] {
        let covers = Covered::Range(range.parse().unwrap());
        let asked =
            GrantRequest { holder: Holder::Credential(app.clone()), covers, rights, expires };
        grants.add(asked, volume, now).unwrap();
    }
    grants
}
