mod power_cuts;

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use nearflash_access::{
    Accounts, ChapAccount, Covered, GrantNumber, GrantRequest, Grants, Holder, HostVolumes, Mutual,
    Rights, Secret, UnixTime, VolumeList,
};
use nearflash_api::TokenScope;
use nearflash_device::DeviceId;
use nearflash_media::{Claim, Device, DeviceSpec, open};
use nearflash_nvme::Nqn;
use nearflash_nvme::auth::{DhGroup, Hash, HostKeys, Key, Policy};
use nearflash_nvme::hosts::{HostSecrets, HostTable};
use nearflash_nvme::tls::{Demand, Derivation, Psk, TlsHost};
use nearflash_request::{
    Change, ChangeKind, ChangeResult, Expected, Identity, Nexus, ReservationType,
};
use nearflash_space::{Name, Space, VolumeRequest, empty_device};
use nearflash_units::{BlockSize, ByteLen};
use redb::TableDefinition;

use super::*;
use crate::records::Records;
use crate::tokens::{Token, Tokens, hash_of};
use nearflash_config::Anonymous;

const FRESH: Uuid = Uuid::from_u128(1);

const META: TableDefinition<'static, &str, &str> = Table::Meta.definition();
const DEVICES: TableDefinition<'static, &str, &str> = Table::Devices.definition();
const VOLUMES: TableDefinition<'static, &str, &str> = Table::Volumes.definition();
const VOLUME_NAMES: TableDefinition<'static, &str, &str> = Table::VolumeNames.definition();
const CREDENTIALS: TableDefinition<'static, &str, &str> = Table::Credentials.definition();
const GRANTS: TableDefinition<'static, &str, &str> = Table::Grants.definition();
const NVME_HOSTS: TableDefinition<'static, &str, &str> = Table::NvmeHosts.definition();
const HOST_VOLUMES: TableDefinition<'static, &str, &str> = Table::HostVolumes.definition();
const CHAP_ACCOUNTS: TableDefinition<'static, &str, &str> = Table::ChapAccounts.definition();

const TOKENS: TableDefinition<'static, &str, &str> = Table::Tokens.definition();

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
        unlisted_hosts: None,
        anonymous: Anonymous::default(),
        elsewhere: Arc::default(),
        peers: None,
        files: None,
    }
}

/// Commits these records in place of the recorded ones.
fn commit(catalog: &Catalog, new: &Records, devices: &[&Device]) {
    let contents = catalog.read().unwrap();
    let old = contents.records(space_on(devices)).unwrap();
    let change = contents.given(Transaction::between(&old, new), devices.iter().copied());
    assert_eq!(catalog.commit(&change).unwrap(), old.generation + u64::from(!change.is_empty()));
}

/// The JSON text of a record in the file.
fn text(
    catalog: &Catalog,
    table: TableDefinition<'static, &'static str, &'static str>,
    key: &str,
) -> String {
    let transaction = catalog.store.begin_read().unwrap();
    let table = transaction.open_table(table).unwrap();
    table.get(key).unwrap().unwrap().value().to_owned()
}

/// The records in these tests and the fixture of schema 1 have blocks of 4096 bytes.
fn request(text: &str) -> VolumeRequest {
    let asked = nearflash_config::parse_volume(text).unwrap();
    VolumeRequest { block_size: asked.block_size.or(Some(BlockSize::B4096)), ..asked }
}

#[test]
fn a_node_keeps_its_identity_and_its_volumes_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let ram = device("r=ram:16MiB");
    let mut space = space(&ram);
    space.create(&request("data=3MiB@r"), Uuid::from_u128(21)).unwrap();
    space
        .create(&request("logs=5MiB@r,block-size=512,subsystem=data"), Uuid::from_u128(22))
        .unwrap();
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    commit(&catalog, &records(&space, &Grants::default()), &[&ram]);
    drop(catalog);
    let catalog = Catalog::open(folder.path(), Uuid::from_u128(99)).unwrap();
    assert_eq!(catalog.node(), FRESH);
    let contents = catalog.read().unwrap();
    assert_eq!(contents.unlabelled_uuid(&name("r")), Some(ram.uuid()));
    let mut restored = self::space(&ram);
    for volume in contents.volumes_on(&restored).unwrap() {
        restored.restore(volume).unwrap();
    }
    assert_eq!(restored, space);
}

#[test]
fn a_removed_volume_is_gone_from_the_catalog() {
    let folder = tempfile::tempdir().unwrap();
    let ram = device("r=ram:16MiB");
    let mut space = space(&ram);
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    for text in ["a=1MiB@r", "b=1MiB@r"] {
        space.create(&request(text), Uuid::new_v4()).unwrap();
    }
    commit(&catalog, &records(&space, &Grants::default()), &[&ram]);
    space.remove(&name("a")).unwrap();
    commit(&catalog, &records(&space, &Grants::default()), &[&ram]);
    let left = catalog.read().unwrap().volumes_on(&space).unwrap();
    assert_eq!(left.iter().map(|v| v.name.as_str()).collect::<Vec<_>>(), ["b"]);
}

#[test]
fn a_data_directory_in_use_is_refused_with_the_other_process() {
    let folder = tempfile::tempdir().unwrap();
    let _first = Catalog::open(folder.path(), FRESH).unwrap();
    let message = Catalog::open(folder.path(), FRESH).unwrap_err().to_string();
    assert_eq!(
        message,
        format!(
            "data directory {} is in use by another node (process {}): stop that node, or choose \
             another directory with --data-dir",
            folder.path().display(),
            std::process::id()
        )
    );
}

#[test]
fn a_start_that_fails_names_no_process_whose_operations_the_next_one_awaits() {
    let folder = tempfile::tempdir().unwrap();
    let lock = folder.path().join("lock");
    let left = || std::fs::read_to_string(&lock).unwrap();
    drop(Catalog::open(folder.path(), FRESH).unwrap());
    assert_eq!(left(), "");
    // A process that was killed, and whose number no process has.
    std::fs::write(&lock, "4294967295 7\n").unwrap();
    drop(Catalog::open(folder.path(), FRESH).unwrap());
    assert_eq!(left(), "4294967295 7\n");
    let serving = Catalog::open(folder.path(), FRESH).unwrap();
    assert_eq!(serving.ended(), Some(u32::MAX));
    serving.serve();
    drop(serving);
    assert!(left().starts_with(&format!("{} ", std::process::id())), "{}", left());
}

/// A power cut during the very first start leaves such a file.
#[test]
fn a_part_of_a_first_catalog_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("catalog.redb.part"), [0; 5000]).unwrap();
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    assert_eq!(catalog.node(), FRESH);
    let left = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut left: Vec<_> = left.collect();
    left.sort();
    assert_eq!(left, ["catalog.redb", "lock"]);
    let mode = std::fs::metadata(folder.path().join("catalog.redb")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn an_empty_catalog_is_named_and_not_taken_for_a_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalog.redb");
    std::fs::write(&path, "").unwrap();
    for _ in 0..2 {
        let message = Catalog::open(folder.path(), FRESH).unwrap_err().to_string();
        assert!(message.contains("catalog.redb is empty: restore the file from a"), "{message}");
        assert!(std::fs::read(&path).unwrap().is_empty(), "it is left alone");
    }
}

#[test]
fn a_damaged_catalog_is_an_error_that_names_it_and_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalog.redb");
    let ram = device("r=ram:16MiB");
    let mut space = space(&ram);
    space.create(&request("data=3MiB@r"), Uuid::from_u128(0x15)).unwrap();
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    commit(&catalog, &records(&space, &Grants::default()), &[&ram]);
    drop(catalog);
    let sound = std::fs::read(&path).unwrap();
    let examine = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        Catalog::open(folder.path(), FRESH)?.read().map(|found| found.generation)
    };
    let is_damage = |error: &CatalogError| {
        let message = error.to_string();
        matches!(error, CatalogError::DamagedFile { .. })
            && message.contains("catalog.redb is damaged: ")
            && message.ends_with("stop the node, and restore the file from a backup")
    };
    let (mut damaged, mut count) = (0, 0);
    for at in (0..sound.len()).step_by(4096) {
        if sound[at..at + 4096].iter().all(|byte| *byte == 0) {
            continue;
        }
        let mut bytes = sound.clone();
        bytes[at..at + 64].iter_mut().for_each(|byte| *byte ^= 0x55);
        count += 1;
        match examine(&bytes) {
            Ok(generation) => assert!(generation == 1 || at < 8192, "at {at}"),
            Err(error) => {
                assert!(is_damage(&error), "at {at}: {error}");
                damaged += 1;
            }
        }
    }
    assert!(damaged > 3 && damaged < count, "{damaged} of {count} blocks");
    for len in [100, 4096, 8192, sound.len() - 1, sound.len() - 4096] {
        let error = examine(&sound[..len]).unwrap_err();
        assert!(is_damage(&error), "{len}: {error}");
    }
    assert_eq!(examine(&sound).unwrap(), 1);
}

#[test]
fn a_data_directory_that_cannot_be_made_is_refused() {
    let message = Catalog::open(Path::new("/dev/null/x"), FRESH).unwrap_err().to_string();
    assert!(message.starts_with("data directory /dev/null/x: "), "{message}");
    assert!(message.ends_with("choose another with --data-dir"), "{message}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, b"").unwrap();
    let message = Catalog::open(&file, FRESH).unwrap_err().to_string();
    assert!(message.contains("it must be a directory: choose another"), "{message}");
    let path = std::path::PathBuf::from("locked");
    let source = std::io::ErrorKind::PermissionDenied.into();
    let message = DataDirError::Unusable { path, source }.to_string();
    assert!(
        message.starts_with("data directory locked: permission denied: run this as"),
        "{message}"
    );
    // Another directory would be another node.
    let path = std::path::PathBuf::from("full");
    let full = DataDirError::Unusable { path, source: std::io::ErrorKind::StorageFull.into() };
    let message = full.to_string();
    assert!(message.ends_with("make space in its file system"), "{message}");
}

#[test]
fn a_catalog_of_a_later_version_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    let transaction = catalog.begin().unwrap();
    catalog.set_meta(&transaction, "schema", "4").unwrap();
    transaction.commit().unwrap();
    drop(catalog);
    for _ in 0..2 {
        let refused = Catalog::open(folder.path(), FRESH).unwrap_err();
        assert!(matches!(&refused, CatalogError::Schema { found, .. } if &**found == "4"));
    }
}

/// A table or a field of a later version that this version would ignore.
#[test]
fn a_table_or_a_field_of_a_later_version_is_refused_and_left_alone() {
    const LATER: TableDefinition<'_, &str, &str> = TableDefinition::new("quotas");
    let folder = tempfile::tempdir().unwrap();
    let ram = device("r=ram:16MiB");
    let mut space = space(&ram);
    space.create(&request("data=3MiB@r"), Uuid::from_u128(21)).unwrap();
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    commit(&catalog, &records(&space, &Grants::default()), &[&ram]);
    let known = text(&catalog, VOLUMES, DATA);
    let later = known.replacen('{', r#"{"encryption":"xts","#, 1);
    let transaction = catalog.begin().unwrap();
    transaction.open_table(VOLUMES).unwrap().insert(DATA, later.as_str()).unwrap();
    transaction.commit().unwrap();
    let message = catalog.read().unwrap_err().to_string();
    assert!(
        message.contains(&format!("'{DATA}' is damaged, or a later version wrote it")),
        "{message}"
    );
    assert_eq!(text(&catalog, VOLUMES, DATA), later);
    let transaction = catalog.begin().unwrap();
    transaction.open_table(LATER).unwrap().insert("data", "1").unwrap();
    transaction.commit().unwrap();
    drop(catalog);
    for _ in 0..2 {
        let message = Catalog::open(folder.path(), FRESH).unwrap_err().to_string();
        assert!(message.contains("has the table 'quotas', which this version"), "{message}");
    }
}

/// An upgrade to the next schema, which could for example store reservations in another form.
#[test]
fn the_next_version_takes_over_what_persists_and_this_one_refuses_it_from_then_on() {
    let folder = tempfile::tempdir().unwrap();
    let ram = device("r=ram:16MiB");
    let mut space = space(&ram);
    let volume = space.create(&request("data=3MiB@r"), Uuid::from_u128(21)).unwrap().id;
    let change = Change {
        volume,
        nexus: Nexus(0xA),
        identity: Identity::Iscsi { initiator: "a".into(), isid: [0; 6], portal_group: 1 },
        kind: ChangeKind::Register { expected: Expected::Nothing, new: 7, persist: Some(true) },
    };
    assert_eq!(space.apply(&change).0, ChangeResult::Done);
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    commit(&catalog, &records(&space, &Grants::default()), &[&ram]);
    let before = text(&catalog, VOLUMES, DATA);
    assert!(before.contains(r#""reservations":{"registrations":[{"#), "{before}");
    drop(catalog);
    let opened = |step: Upgrade| {
        Catalog::open_with(folder.path(), FRESH, &[&UPGRADES[..], &[step]].concat())
    };
    // A step that fails half-way changes nothing.
    let refused = opened(|transaction| {
        mark(transaction, "half");
        Err(CatalogError::Damaged { path: PathBuf::new(), what: "data".into() })
    });
    assert!(refused.is_err());
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    assert_eq!(text(&catalog, VOLUMES, DATA), before);
    drop(catalog);
    for _ in 0..2 {
        let catalog = opened(|transaction| {
            mark(transaction, "+");
            Ok(())
        });
        let after = text(&catalog.unwrap(), VOLUMES, DATA);
        assert_eq!(after, format!("{before}+"), "each step is made once");
    }
    let refused = Catalog::open(folder.path(), FRESH).unwrap_err();
    assert!(matches!(&refused, CatalogError::Schema { found, .. } if &**found == "4"));
}

/// Appends a mark to the record of `data`.
fn mark(transaction: &WriteTransaction, mark: &str) {
    let mut volumes = transaction.open_table(VOLUMES).unwrap();
    let text = format!("{}{mark}", volumes.get(DATA).unwrap().unwrap().value());
    volumes.insert(DATA, text.as_str()).unwrap();
}

#[test]
fn a_damaged_record_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    let transaction = catalog.begin().unwrap();
    transaction.open_table(VOLUMES).unwrap().insert("data", "{}").unwrap();
    transaction.commit().unwrap();
    let message = catalog.read().unwrap_err().to_string();
    assert!(message.contains("the record of 'data' is damaged"), "{message}");
}

#[test]
fn a_device_with_volumes_must_be_given_as_long_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let ram = device("r=ram:16MiB");
    let mut space = space(&ram);
    space.create(&request("data=3MiB@r"), Uuid::new_v4()).unwrap();
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    commit(&catalog, &records(&space, &Grants::default()), &[&ram]);
    let contents = catalog.read().unwrap();
    let refused = |text| contents.check_given(&[spec(text)]).unwrap_err().to_string();
    assert_eq!(
        refused("s=ram:16MiB"),
        "volume 'data' is on device 'r' (00000000-0000-0000-0000-000000000007), which is not \
         configured: add it with --device"
    );
    assert_eq!(
        refused("r=ram:15MiB"),
        "device 'r' is 15MiB long, shorter than the 16MiB in the catalog: restore its former size"
    );
    assert!(contents.check_given(&[spec("r=ram:17MiB")]).is_ok());
}

/// Every later version reads records of this schema.
#[test]
fn records_stand_in_the_catalog_as_they_always_did() {
    let folder = tempfile::tempdir().unwrap();
    let ram = device("r=ram:16MiB");
    let mut space = space(&ram);
    space.create(&request("data=3MiB@r,block-size=4096"), Uuid::from_u128(21)).unwrap();
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    commit(&catalog, &records(&space, &Grants::default()), &[&ram]);
    let text = |table, key| text(&catalog, table, key);
    insta::assert_snapshot!(text(DEVICES, "r"), @r#"{"uuid":"00000000-0000-0000-0000-000000000007","bytes":16777216,"labelled":false}"#);
    insta::assert_snapshot!(text(VOLUMES, DATA), @r#"{"name":"data","block_size":4096,"blocks":768,"subsystem":"data","nsid":1,"epoch":1,"extents":[{"device":"00000000-0000-0000-0000-000000000007","runs":[[0,3145728]]}],"provisioning":"thin"}"#);
    assert_eq!(text(VOLUME_NAMES, "data"), DATA);
    assert_eq!((&*text(META, "schema"), &*text(META, "generation")), ("3", "1"));
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

#[test]
fn credentials_and_grants_are_there_after_a_restart_and_for_the_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let ram = device("r=ram:16MiB");
    let mut space = space(&ram);
    space.create(&request("data=3MiB@r"), Uuid::from_u128(21)).unwrap();
    let mut grants = grants(&space);
    grants.revoke(GrantNumber(2)).unwrap();
    let (holder, expires) = (Holder::Seal(Secret::new([0x5A; 32])), Some(UnixTime(80_000)));
    let covers = Covered::Range("0..1MiB".parse().unwrap());
    let seal = GrantRequest { holder, covers, rights: Rights::Read, expires };
    let data = space.volume(&name("data")).unwrap();
    grants.add(seal, data, UnixTime(1)).unwrap();
    let (holder, covers) =
        (Holder::Credential(name("app")), Covered::Files("/a b".parse().unwrap()));
    let files = GrantRequest { holder, covers, rights: Rights::Read, expires: None };
    grants.add(files, data, UnixTime(1)).unwrap();
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    assert_eq!(catalog.read().unwrap().grants().unwrap(), Grants::default());
    commit(&catalog, &records(&space, &grants), &[&ram]);
    drop(catalog);
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    assert_eq!(catalog.read().unwrap().grants().unwrap(), grants);
    let file = std::fs::metadata(folder.path().join("catalog.redb")).unwrap();
    assert_eq!(file.permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_catalog_from_before_there_were_grants_is_brought_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    let transaction = catalog.begin().unwrap();
    for table in [CREDENTIALS, GRANTS] {
        transaction.delete_table(table).unwrap();
    }
    transaction.commit().unwrap();
    drop(catalog);
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    assert_eq!(catalog.read().unwrap().grants().unwrap(), Grants::default());
}

#[test]
fn a_damaged_credential_or_grant_is_refused_by_name_and_shows_no_secret() {
    let insert = |table: TableDefinition<'static, &'static str, &'static str>, key, text| {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::open(folder.path(), FRESH).unwrap();
        let transaction = catalog.begin().unwrap();
        transaction.open_table(table).unwrap().insert(key, text).unwrap();
        transaction.commit().unwrap();
        catalog.read().unwrap().grants().unwrap_err().to_string()
    };
    let message = insert(CREDENTIALS, "app", r#"{"secret":"5ec2e7"}"#);
    assert!(message.contains("the record of 'app' is damaged"), "{message}");
    assert!(!message.contains("5ec2e7"), "{message}");
    let record = r#"{"credential":"app","volume":"00000000-0000-0000-0000-000000000015","start":9,"end":9,"rights":"r"}"#;
    let message = insert(GRANTS, "1", record);
    assert!(message.contains("the record of '1' is damaged"), "{message}");
    let message = insert(GRANTS, "1", &record.replace("\"end\":9,", ""));
    assert!(message.contains("grant 1 is for the unknown credential 'app'"), "{message}");
}

/// Every later version reads records of this schema.
#[test]
fn records_of_grants_stand_in_the_catalog_as_they_always_did() {
    let folder = tempfile::tempdir().unwrap();
    let ram = device("r=ram:16MiB");
    let mut space = space(&ram);
    space.create(&request("data=3MiB@r"), Uuid::from_u128(21)).unwrap();
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    commit(&catalog, &records(&space, &grants(&space)), &[&ram]);
    insta::assert_snapshot!(text(&catalog, CREDENTIALS, "app"), @r#"{"secret":"a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5","expires_at":2000000000}"#);
    insta::assert_snapshot!(text(&catalog, GRANTS, "1"), @r#"{"credential":"app","volume":"00000000-0000-0000-0000-000000000015","start":0,"end":1048576,"rights":"rw","expires_at":1900000000}"#);
    insta::assert_snapshot!(text(&catalog, GRANTS, "2"), @r#"{"credential":"app","volume":"00000000-0000-0000-0000-000000000015","start":1048576,"rights":"r"}"#);
    assert_eq!(&*text(&catalog, META, "last_grant"), "2");
}

#[test]
fn accounts_are_kept_over_a_restart_and_an_older_catalog_has_none() {
    let folder = tempfile::tempdir().unwrap();
    let ram = device("r=ram:16MiB");
    let mut recorded = records(&space(&ram), &Grants::default());
    let account = |user: &str, mutual| ChapAccount {
        user: user.parse().unwrap(),
        secret: "geheimgeheim".parse().unwrap(),
        mutual,
        initiators: BTreeSet::new(),
    };
    let (user, secret) = ("node".parse().unwrap(), "anderesanderes".parse().unwrap());
    recorded.accounts.add(account("iqn.2026-11.test:a", None)).unwrap();
    recorded.accounts.add(account("b", Some(Mutual { user, secret }))).unwrap();
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    assert!(catalog.read().unwrap().has_no_account());
    commit(&catalog, &recorded, &[&ram]);
    let contents = catalog.read().unwrap();
    assert_eq!(contents.accounts().unwrap(), recorded.accounts);
    let shown = format!("{contents:?}");
    assert!(!shown.contains("geheim") && !shown.contains("anderes"), "{shown}");
    insta::assert_snapshot!(text(&catalog, CHAP_ACCOUNTS, "b"), @r#"{"secret":"geheimgeheim","mutual_user":"node","mutual_secret":"anderesanderes"}"#);
    let transaction = catalog.begin().unwrap();
    transaction.delete_table(CHAP_ACCOUNTS).unwrap();
    transaction.commit().unwrap();
    drop(catalog);
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    assert!(catalog.read().unwrap().has_no_account());
}

#[test]
fn tokens_are_kept_over_a_restart_and_an_older_catalog_has_none() {
    let folder = tempfile::tempdir().unwrap();
    let ram = device("r=ram:16MiB");
    let mut recorded = records(&space(&ram), &Grants::default());
    let token = |text: &str, scope, expires| Token {
        name: name(text),
        hash: hash_of(text),
        scope,
        expires,
    };
    recorded.tokens.add(token("a", TokenScope::Read, None), UnixTime(1)).unwrap();
    let expires = Some(UnixTime(2_000_000_000));
    recorded.tokens.add(token("b", TokenScope::Admin, expires), UnixTime(1)).unwrap();
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    commit(&catalog, &recorded, &[&ram]);
    assert_eq!(catalog.read().unwrap().tokens().unwrap(), recorded.tokens);
    insta::assert_snapshot!(text(&catalog, TOKENS, "b"), @r#"{"sha256":"3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d","scope":"admin","expires_at":2000000000}"#);
    for damaged in [r#"{"sha256":"00","scope":"read"}"#, r#"{"sha256":"","scope":"root"}"#] {
        let transaction = catalog.begin().unwrap();
        transaction.open_table(TOKENS).unwrap().insert("a", damaged).unwrap();
        transaction.commit().unwrap();
        let refused = catalog.read().and_then(|contents| contents.tokens()).unwrap_err();
        assert!(refused.to_string().contains("'a'"), "{refused}");
    }
    let transaction = catalog.begin().unwrap();
    transaction.delete_table(TOKENS).unwrap();
    transaction.commit().unwrap();
    drop(catalog);
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    assert_eq!(catalog.read().unwrap().tokens().unwrap(), Tokens::default());
}

#[test]
fn keys_of_hosts_are_kept_over_a_restart_and_an_older_catalog_has_none() {
    let folder = tempfile::tempdir().unwrap();
    let ram = device("r=ram:16MiB");
    let mut recorded = records(&space(&ram), &Grants::default());
    let key = |byte| Key::new(Some(Hash::Sha256), &[byte; 32]).unwrap();
    let policy = Policy { hash: Some(Hash::Sha384), group: Some(DhGroup::Ffdhe4096) };
    let one = HostKeys::new(key(7), None, Policy::default()).unwrap();
    let both = HostKeys::new(key(7), Some(key(8)), policy).unwrap();
    recorded.hosts.add(&Nqn::new("nqn.2026-11.test:a").unwrap(), one.into()).unwrap();
    recorded.hosts.add(&Nqn::new("nqn.2026-11.test:b").unwrap(), both.into()).unwrap();
    let psk = Psk::new(Some(Hash::Sha256), &[9; 32]).unwrap();
    let (derivation, demand) = (Derivation::Legacy, Demand::Required);
    let tls = TlsHost { psk, previous: None, derivation, demand };
    let until = Some(UnixTime(2_000_000_000));
    let rotated = HostSecrets {
        dhchap: Some(HostKeys::new(key(1), None, policy).unwrap().replaced(key(2), until).unwrap()),
        tls: Some(tls.clone().replaced(Psk::new(None, &[3; 32]).unwrap(), until)),
    };
    recorded.hosts.add(&Nqn::new("nqn.2026-11.test:d").unwrap(), rotated).unwrap();
    let secrets = HostSecrets { dhchap: None, tls: Some(tls) };
    recorded.hosts.add(&Nqn::new("nqn.2026-11.test:c").unwrap(), secrets).unwrap();
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    assert!(catalog.read().unwrap().has_no_keyed_host());
    commit(&catalog, &recorded, &[&ram]);
    let contents = catalog.read().unwrap();
    assert_eq!(contents.hosts().unwrap(), recorded.hosts);
    let shown = format!("{contents:?}");
    assert!(!shown.contains("DHHC") && !shown.contains("NVMeTLS"), "{shown}");
    insta::assert_snapshot!(text(&catalog, NVME_HOSTS, "nqn.2026-11.test:c"), @r#"{"psk":"NVMeTLSkey-1:01:CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQlGwA0N:","psk_derivation":"legacy","tls":"required"}"#);
    insta::assert_snapshot!(text(&catalog, NVME_HOSTS, "nqn.2026-11.test:a"), @r#"{"key":"DHHC-1:01:BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwfLJNij:"}"#);
    insta::assert_snapshot!(text(&catalog, NVME_HOSTS, "nqn.2026-11.test:b"), @r#"{"key":"DHHC-1:01:BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwfLJNij:","controller_key":"DHHC-1:01:CAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgnCjZ2:","hash":"sha384","group":"ffdhe4096"}"#);
    let transaction = catalog.begin().unwrap();
    transaction.delete_table(NVME_HOSTS).unwrap();
    transaction.commit().unwrap();
    drop(catalog);
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    assert!(catalog.read().unwrap().has_no_keyed_host());
}

#[test]
fn lists_of_hosts_are_kept_over_a_restart_and_an_older_catalog_has_none() {
    let folder = tempfile::tempdir().unwrap();
    let ram = device("r=ram:16MiB");
    let mut recorded = records(&space(&ram), &Grants::default());
    let list = [(Uuid::from_u128(1), Rights::Read), (Uuid::from_u128(2), Rights::ReadWrite)];
    let (nqn, iqn) = ("nqn.2026-11.test:a", "iqn.2026-11.test:a");
    recorded.host_volumes.set(&nqn.parse().unwrap(), VolumeList::from(list)).unwrap();
    recorded.host_volumes.set(&iqn.parse().unwrap(), VolumeList::new()).unwrap();
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    commit(&catalog, &recorded, &[&ram]);
    assert_eq!(catalog.read().unwrap().host_volumes().unwrap(), recorded.host_volumes);
    insta::assert_snapshot!(text(&catalog, HOST_VOLUMES, nqn), @r#"{"volumes":{"00000000-0000-0000-0000-000000000001":"r","00000000-0000-0000-0000-000000000002":"rw"}}"#);
    insta::assert_snapshot!(text(&catalog, HOST_VOLUMES, iqn), @r#"{"volumes":{}}"#);
    let damaged = r#"{"volumes":{"00000000-0000-0000-0000-000000000001":"x"}}"#;
    let transaction = catalog.begin().unwrap();
    transaction.open_table(HOST_VOLUMES).unwrap().insert(nqn, damaged).unwrap();
    transaction.commit().unwrap();
    let refused = catalog.read().unwrap().host_volumes().unwrap_err().to_string();
    assert!(refused.contains("the record of 'nqn.2026-11.test:a' is damaged"), "{refused}");
    let transaction = catalog.begin().unwrap();
    transaction.delete_table(HOST_VOLUMES).unwrap();
    transaction.commit().unwrap();
    drop(catalog);
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    let without = HostVolumes::default().with_had_list(true);
    assert_eq!(catalog.read().unwrap().host_volumes().unwrap(), without);
}

#[test]
fn what_the_node_has_had_is_remembered_after_it_is_gone_and_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let ram = device("r=ram:16MiB");
    let (host, key) = (Nqn::new("nqn.2026-11.test:a").unwrap(), Key::new(None, &[7; 32]).unwrap());
    let keys = HostKeys::new(key, None, Policy::default()).unwrap();
    let mut recorded = records(&space(&ram), &Grants::default());
    let read = |catalog: &Catalog| {
        let found = catalog.read().unwrap().records(space(&ram)).unwrap();
        let had = (
            found.grants.has_had_credential(),
            found.accounts.has_had_account(),
            found.host_volumes.has_had_list(),
        );
        (had, found.hosts.removed().cloned().collect::<Vec<_>>())
    };
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    assert_eq!(read(&catalog), ((false, false, false), vec![]));
    recorded.grants.create(&name("app"), Secret::new([7; 32]), None, UnixTime(1)).unwrap();
    recorded.host_volumes.set(&"iqn.a:b".parse().unwrap(), VolumeList::new()).unwrap();
    let account = ChapAccount {
        user: "app".parse().unwrap(),
        secret: "geheimgeheim".parse().unwrap(),
        mutual: None,
        initiators: ["iqn.a:b".parse().unwrap()].into(),
    };
    recorded.accounts.add(account).unwrap();
    recorded.hosts.add(&host, keys.into()).unwrap();
    commit(&catalog, &recorded, &[&ram]);
    assert_eq!(catalog.read().unwrap().accounts().unwrap(), recorded.accounts);
    insta::assert_snapshot!(text(&catalog, CHAP_ACCOUNTS, "app"), @r#"{"secret":"geheimgeheim","initiators":["iqn.a:b"]}"#);
    recorded.grants.remove(&name("app")).unwrap();
    recorded.host_volumes.unlist(&"iqn.a:b".parse().unwrap());
    recorded.accounts.remove(&"app".parse().unwrap()).unwrap();
    recorded.hosts.remove(&host).unwrap();
    commit(&catalog, &recorded, &[&ram]);
    drop(catalog);
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    assert_eq!(read(&catalog), ((true, true, true), vec![host.clone()]));
    assert!(catalog.read().unwrap().has_no_keyed_host());
    insta::assert_snapshot!(text(&catalog, NVME_HOSTS, host.as_str()), @r#"{"removed":true}"#);
    recorded.hosts.forget(&host);
    commit(&catalog, &recorded, &[&ram]);
    assert_eq!(read(&catalog), ((true, true, true), vec![]));
}

#[test]
fn a_catalog_of_schema_2_with_credentials_and_lists_is_closed_to_those_without() {
    let folder = tempfile::tempdir().unwrap();
    let ram = device("r=ram:16MiB");
    let mut recorded = records(&space(&ram), &Grants::default());
    recorded.grants.create(&name("app"), Secret::new([7; 32]), None, UnixTime(1)).unwrap();
    recorded.host_volumes.set(&"iqn.a:b".parse().unwrap(), VolumeList::new()).unwrap();
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    commit(&catalog, &recorded, &[&ram]);
    let transaction = catalog.begin().unwrap();
    for fact in [HAD_CREDENTIAL, HAD_ACCOUNT, HAD_LIST] {
        transaction.open_table(META).unwrap().remove(fact).unwrap();
    }
    catalog.set_meta(&transaction, "schema", "2").unwrap();
    transaction.commit().unwrap();
    drop(catalog);
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    let found = catalog.read().unwrap().records(space(&ram)).unwrap();
    assert!(found.grants.has_had_credential() && found.host_volumes.has_had_list());
    assert!(!found.accounts.has_had_account());
    assert_eq!(found, Records { generation: 1, ..recorded });
}

/// A previous key without its end.
const HALF_PREVIOUS: &str = r#"{"key":"DHHC-1:01:BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwfLJNij:","previous_key":"DHHC-1:01:BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwfLJNij:"}"#;

#[test]
fn damaged_keys_of_a_host_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    let removed = r#"{"removed":true,"group":"ffdhe4096"}"#;
    for damaged in [
        r#"{"key":"DHHC-1:01:AAAA:"}"#,
        r#"{"key":"x","group":"none"}"#,
        HALF_PREVIOUS,
        removed,
        "{}",
    ] {
        let transaction = catalog.begin().unwrap();
        transaction.open_table(NVME_HOSTS).unwrap().insert("nqn.a", damaged).unwrap();
        transaction.commit().unwrap();
        let refused = catalog.read().unwrap().hosts().unwrap_err().to_string();
        assert!(refused.contains("the record of 'nqn.a' is damaged"), "{refused}");
    }
}

#[test]
fn a_damaged_account_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    for damaged in [r#"{"secret":"short"}"#, r#"{"secret":"geheimgeheim","mutual_user":"a"}"#] {
        let transaction = catalog.begin().unwrap();
        transaction.open_table(CHAP_ACCOUNTS).unwrap().insert("app", damaged).unwrap();
        transaction.commit().unwrap();
        let refused = catalog.read().unwrap().accounts().unwrap_err().to_string();
        assert!(refused.contains("the record of 'app' is damaged"), "{refused}");
    }
}

/// The records of the fixture, which the last version of schema 1 wrote.
fn recorded_in_schema_1(devices: &[&Device]) -> Records {
    let mut space = space_on(devices);
    let mut create = |text: &str, uuid| {
        space.create(&request(text), Uuid::from_u128(uuid)).unwrap();
    };
    create("data=3MiB@r,block-size=4096", 0x15);
    create("gone=1MiB@r,block-size=4096", 0x16);
    create("logs=2MiB@r,block-size=512,subsystem=data,provisioning=thick", 0x17);
    create("Boot=1MiB@s,subsystem=boot,block-size=4096", 0x18);
    space.remove(&name("gone")).unwrap();
    space.resize(&name("data"), ByteLen(5 << 20), false).unwrap();
    let iscsi = Identity::Iscsi {
        initiator: "iqn.2026-11.org.example:a".into(),
        isid: [0x80, 1, 2, 3, 0, 1],
        portal_group: 1,
    };
    let controller = Identity::NO_CONTROLLER;
    let nvme = Identity::Nvme { host_id: *b"sixteen bytes of", controller };
    let register =
        |new| ChangeKind::Register { expected: Expected::Nothing, new, persist: Some(true) };
    let reservation = ReservationType::WriteExclusiveRegistrantsOnly;
    let volume = space.volume(&name("data")).unwrap().id;
    for (nexus, identity, kind) in [
        (0xA, iscsi, register(u64::MAX)),
        (0xB, nvme.clone(), register(7)),
        (0xB, nvme, ChangeKind::Reserve { key: 7, reservation }),
    ] {
        let change = Change { volume, nexus: Nexus(nexus), identity, kind };
        assert_eq!(space.apply(&change).0, ChangeResult::Done);
    }
    let mut grants = grants(&space);
    let logs = space.volume(&name("logs")).unwrap();
    let (covers, rights) = (Covered::Range("0..".parse().unwrap()), Rights::Read);
    let asked =
        GrantRequest { holder: Holder::Credential(name("app")), covers, rights, expires: None };
    grants.add(asked, logs, UnixTime(1)).unwrap();
    grants.revoke(GrantNumber(3)).unwrap();
    let mut recorded = records(&space, &grants);
    let account = |user: &str, mutual| ChapAccount {
        user: user.parse().unwrap(),
        secret: "geheimgeheim".parse().unwrap(),
        mutual,
        initiators: BTreeSet::new(),
    };
    let (user, secret) = ("node".parse().unwrap(), "anderesanderes".parse().unwrap());
    recorded.accounts.add(account("iqn.2026-11.test:a", None)).unwrap();
    recorded.accounts.add(account("b", Some(Mutual { user, secret }))).unwrap();
    recorded
}

#[test]
fn a_catalog_of_schema_1_is_brought_to_this_schema_and_says_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let file = include_bytes!("../../fixtures/catalog-schema-1.redb");
    std::fs::write(folder.path().join("catalog.redb"), file).unwrap();
    let (r, s) = (device_of("r=ram:16MiB", 7), device_of("s=ram:8MiB", 8));
    for _ in 0..2 {
        let catalog = Catalog::open(folder.path(), Uuid::from_u128(99)).unwrap();
        assert_eq!(catalog.node(), FRESH);
        let contents = catalog.read().unwrap();
        let found = contents.records(space_on(&[&r, &s])).unwrap();
        assert_eq!(found.generation, 2);
        let change = Transaction::between(&found, &recorded_in_schema_1(&[&r, &s]));
        assert!(contents.given(change, [&r, &s]).is_empty());
    }
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    insta::assert_snapshot!(text(&catalog, VOLUMES, DATA), @r#"{"block_size":4096,"blocks":1280,"epoch":2,"extents":[{"device":"00000000-0000-0000-0000-000000000007","runs":[[0,4194304],[6291456,1048576]]}],"name":"data","nsid":1,"provisioning":"thin","reservations":{"registrations":[{"identity":{"initiator":"iqn.2026-11.org.example:a","isid":[128,1,2,3,0,1],"portal_group":1,"protocol":"iscsi"},"key":18446744073709551615,"nexus":"0000000000000000000000000000000a"},{"identity":{"host_id":"73697874-6565-6e20-6279-746573206f66","protocol":"nvme"},"key":7,"nexus":"0000000000000000000000000000000b"}],"reservation":{"holder":"0000000000000000000000000000000b","kind":"write-exclusive-registrants-only"}},"subsystem":"data"}"#);
}

#[test]
fn a_change_writes_the_records_that_differ_and_no_others() {
    let ram = device("r=ram:16MiB");
    let mut space = space(&ram);
    for (text, uuid) in [("data=3MiB@r", 0x15), ("logs=1MiB@r", 0x16), ("tmp=1MiB@r", 0x17)] {
        space.create(&request(text), Uuid::from_u128(uuid)).unwrap();
    }
    let old = records(&space, &grants(&space));
    assert!(Transaction::between(&old, &old).is_empty());
    space.resize(&name("logs"), ByteLen(2 << 20), false).unwrap();
    space.remove(&name("tmp")).unwrap();
    // Another volume of the same name.
    space.remove(&name("data")).unwrap();
    space.create(&request("data=3MiB@r"), Uuid::from_u128(0x18)).unwrap();
    let mut new = records(&space, &old.grants);
    new.grants.revoke(GrantNumber(2)).unwrap();
    let change = Transaction::between(&old, &new);
    let uuid = |number| Uuid::from_u128(number).to_string();
    let puts = change.puts.iter().map(|put| (put.table, put.key.clone()));
    assert_eq!(
        puts.collect::<Vec<_>>(),
        [
            (Table::Volumes, uuid(0x16)),
            (Table::Volumes, uuid(0x18)),
            (Table::VolumeNames, "data".to_owned()),
            (Table::RemovedVolumes, "tmp".to_owned()),
        ]
    );
    assert_eq!(
        change.deletes,
        [
            (Table::Volumes, uuid(0x15)),
            (Table::Volumes, uuid(0x17)),
            (Table::VolumeNames, "tmp".to_owned()),
            (Table::Grants, "2".to_owned()),
        ]
    );
}

#[test]
fn the_first_removed_volumes_are_forgotten_beyond_a_number() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    let put = |number: u64| Put {
        table: Table::RemovedVolumes,
        key: format!("v{number}"),
        value: zeroize::Zeroizing::new(number.to_string()),
    };
    let puts = (0..REMOVED_MAX + 2).map(put).collect();
    catalog.commit(&Transaction { puts, ..Transaction::default() }).unwrap();
    let contents = catalog.read().unwrap();
    for (text, is_known) in [("v0", false), ("v1", false), ("v2", true), ("v4097", true)] {
        assert_eq!(contents.was_removed(&name(text)), is_known, "{text}");
    }
}

#[test]
fn a_change_of_records_that_are_no_longer_those_is_refused_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let ram = device("r=ram:16MiB");
    let mut space = space(&ram);
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    let old = records(&space, &Grants::default());
    space.create(&request("data=3MiB@r"), Uuid::from_u128(0x15)).unwrap();
    let change = Transaction::between(&old, &records(&space, &Grants::default()));
    assert_eq!(catalog.commit(&change).unwrap(), 1);
    let other = Transaction::between(&records(&space, &Grants::default()), &old);
    let refused = catalog.commit(&other).unwrap_err();
    assert!(
        matches!(&refused, CatalogError::Overtaken { expected: 0, found, .. } if &**found == "1")
    );
    assert_eq!(catalog.read().unwrap().volumes.len(), 1);
}

#[test]
fn a_volume_that_is_being_prepared_is_found_again_and_its_job_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let ram = device("r=ram:16MiB");
    let mut space = space(&ram);
    space.create(&request("data=3MiB@r,block-size=4096"), Uuid::from_u128(0x15)).unwrap();
    space.reserve_growth(&name("data"), ByteLen(5 << 20), 1).unwrap();
    space.reserve(&request("logs=1MiB@r"), Uuid::from_u128(0x16), 2).unwrap();
    let recorded = Records { last_job: 2, ..records(&space, &Grants::default()) };
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    commit(&catalog, &recorded, &[&ram]);
    let found = catalog.read().unwrap().records(self::space(&ram)).unwrap();
    assert_eq!(found, Records { generation: 1, ..recorded });
    let shown = text(&catalog, VOLUMES, DATA);
    assert!(shown.contains(r#""preparing":{"blocks":1280,"job":1}"#), "{shown}");
}

#[test]
fn a_damaged_number_is_refused_by_name() {
    for fact in ["generation", "last_grant", "last_job"] {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::open(folder.path(), FRESH).unwrap();
        let transaction = catalog.begin().unwrap();
        catalog.set_meta(&transaction, fact, "1x").unwrap();
        transaction.commit().unwrap();
        let message = catalog.read().unwrap_err().to_string();
        assert!(message.contains(&format!("the record of '{fact}' is damaged")), "{message}");
    }
}

#[test]
fn an_index_of_names_that_is_not_that_of_the_volumes_is_refused() {
    for (key, value) in [("data", "00000000-0000-0000-0000-000000000016"), ("logs", DATA)] {
        let folder = tempfile::tempdir().unwrap();
        let ram = device("r=ram:16MiB");
        let mut space = space(&ram);
        space.create(&request("data=3MiB@r"), Uuid::from_u128(0x15)).unwrap();
        let catalog = Catalog::open(folder.path(), FRESH).unwrap();
        commit(&catalog, &records(&space, &Grants::default()), &[&ram]);
        let transaction = catalog.begin().unwrap();
        transaction.open_table(VOLUME_NAMES).unwrap().insert(key, value).unwrap();
        transaction.commit().unwrap();
        let message = catalog.read().unwrap_err().to_string();
        assert!(message.contains(&format!("the record of '{key}' is damaged")), "{message}");
    }
}

#[test]
fn the_number_in_a_cluster_is_that_of_this_cluster_alone() {
    let place = tempfile::tempdir().unwrap();
    let (cluster, other) = (Uuid::from_u128(20), Uuid::from_u128(21));
    let catalog = Catalog::open(place.path(), FRESH).unwrap();
    assert_eq!(catalog.ordinal(cluster).unwrap(), None);
    let generation = catalog.read().unwrap().generation;
    catalog.keep_ordinal(cluster, 7).unwrap();
    assert_eq!(catalog.read().unwrap().generation, generation, "no record has changed");
    drop(catalog);
    let catalog = Catalog::open(place.path(), FRESH).unwrap();
    let found = [cluster, other].map(|it| catalog.ordinal(it).unwrap());
    assert_eq!(found, [Some(7), None]);
    catalog.keep_ordinal(other, 9).unwrap();
    let found = [cluster, other].map(|it| catalog.ordinal(it).unwrap());
    assert_eq!(found, [None, Some(9)]);
    let transaction = catalog.begin().unwrap();
    catalog.set_meta(&transaction, ORDINAL, "nonsense").unwrap();
    transaction.commit().unwrap();
    assert!(catalog.ordinal(other).unwrap_err().to_string().contains("damaged"));
}

#[test]
fn the_newest_that_the_node_has_seen_of_its_clusters_store_is_kept() {
    let place = tempfile::tempdir().unwrap();
    let (cluster, other) = (Uuid::from_u128(20), Uuid::from_u128(21));
    let catalog = Catalog::open(place.path(), FRESH).unwrap();
    assert_eq!(catalog.seen().unwrap(), None);
    let state = nearflash_records::ClusterState::new(cluster);
    let seen = |revision| nearflash_records::Seen {
        store: nearflash_records::store::StoreId(3),
        revision,
        history: None,
    };
    catalog.keep_seen(&SeenRecord::of(seen(7), &state)).unwrap();
    catalog.keep_seen(&SeenRecord::of(seen(5), &state)).unwrap();
    drop(catalog);
    let catalog = Catalog::open(place.path(), FRESH).unwrap();
    let kept = catalog.seen().unwrap().unwrap();
    assert_eq!([cluster, other].map(|it| kept.seen(it)), [Some(seen(7)), None]);
    let schema = nearflash_records::record::Schema;
    let history = nearflash_records::record::HistoryRecord { schema, id: cluster, began: 1 };
    let accepted = nearflash_records::Seen { history: Some(history), ..seen(6) };
    catalog.keep_seen(&SeenRecord::of(accepted, &state)).unwrap();
    assert_eq!(catalog.seen().unwrap().unwrap().seen(cluster), Some(accepted));
}
