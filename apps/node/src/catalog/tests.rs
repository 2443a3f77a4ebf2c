use std::os::unix::fs::PermissionsExt;

use nearflash_access::{
    Accounts, ChapAccount, GrantNumber, GrantRequest, Mutual, Rights, Secret, UnixTime,
};
use nearflash_media::{Claim, open};
use nearflash_request::{Change, ChangeKind, ChangeResult, Expected, Identity, Nexus};
use nearflash_space::{SpaceDevice, VolumeRequest, empty_device};
use nearflash_units::BlockSize;

use super::*;

const FRESH: Uuid = Uuid::from_u128(1);

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn spec(text: &str) -> DeviceSpec {
    text.parse().unwrap()
}

fn device(text: &str) -> Device {
    open(&spec(text), Claim { node: FRESH, known: &[] }).unwrap().take(Uuid::from_u128(7)).unwrap()
}

fn space(device: &Device) -> Space {
    let (name, uuid) = (device.name().clone(), device.uuid());
    let place: SpaceDevice =
        empty_device(DeviceId(0), name, uuid, BlockSize::B512, device.data_area());
    Space::new(vec![place])
}

fn records(space: &Space, grants: &Grants) -> Records {
    Records { space: space.clone(), grants: grants.clone(), accounts: Accounts::default() }
}

/// A record as it stands in the file.
fn text(
    catalog: &Catalog,
    table: TableDefinition<'static, &'static str, &'static str>,
    key: &str,
) -> String {
    let transaction = catalog.database.begin_read().unwrap();
    let table = transaction.open_table(table).unwrap();
    table.get(key).unwrap().unwrap().value().to_owned()
}

fn request(text: &str) -> VolumeRequest {
    crate::config::parse_volume(text).unwrap()
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
    catalog.commit(&records(&space, &Grants::default()), &[&ram]).unwrap();
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
    catalog.commit(&records(&space, &Grants::default()), &[&ram]).unwrap();
    space.remove(&name("a")).unwrap();
    catalog.commit(&records(&space, &Grants::default()), &[&ram]).unwrap();
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
            "data directory {} is in use by another node (process {}): stop that one, or give this \
             one its own --data-dir",
            folder.path().display(),
            std::process::id()
        )
    );
}

#[test]
fn a_data_directory_that_cannot_be_made_is_refused() {
    let message = Catalog::open(Path::new("/dev/null/x"), FRESH).unwrap_err().to_string();
    assert!(message.starts_with("data directory /dev/null/x: "), "{message}");
    assert!(message.ends_with("choose another with --data-dir"), "{message}");
}

#[test]
fn a_catalog_of_a_later_version_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    let transaction = catalog.begin().unwrap();
    catalog.set_meta(&transaction, "schema", "2").unwrap();
    transaction.commit().unwrap();
    drop(catalog);
    for _ in 0..2 {
        let refused = Catalog::open(folder.path(), FRESH).unwrap_err();
        assert!(matches!(&refused, CatalogError::Schema { found, .. } if &**found == "2"));
    }
}

/// What a later version writes, and this one would serve without.
#[test]
fn a_table_or_a_field_of_a_later_version_is_refused_and_left_alone() {
    const LATER: TableDefinition<'_, &str, &str> = TableDefinition::new("quotas");
    let folder = tempfile::tempdir().unwrap();
    let ram = device("r=ram:16MiB");
    let mut space = space(&ram);
    space.create(&request("data=3MiB@r"), Uuid::from_u128(21)).unwrap();
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    catalog.commit(&records(&space, &Grants::default()), &[&ram]).unwrap();
    let known = text(&catalog, VOLUMES, "data");
    let later = known.replacen('{', r#"{"encryption":"xts","#, 1);
    let transaction = catalog.begin().unwrap();
    transaction.open_table(VOLUMES).unwrap().insert("data", later.as_str()).unwrap();
    transaction.commit().unwrap();
    let message = catalog.read().unwrap_err().to_string();
    assert!(message.contains("'data' is damaged, or of a later version"), "{message}");
    assert_eq!(text(&catalog, VOLUMES, "data"), later);
    let transaction = catalog.begin().unwrap();
    transaction.open_table(LATER).unwrap().insert("data", "1").unwrap();
    transaction.commit().unwrap();
    drop(catalog);
    for _ in 0..2 {
        let message = Catalog::open(folder.path(), FRESH).unwrap_err().to_string();
        assert!(message.contains("has the table 'quotas', which this version"), "{message}");
    }
}

/// The next schema, as its version will do it: reservations get another form, for one.
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
    catalog.commit(&records(&space, &Grants::default()), &[&ram]).unwrap();
    let before = text(&catalog, VOLUMES, "data");
    assert!(before.contains(r#""reservations":{"registrations":[{"#), "{before}");
    drop(catalog);
    let opened = |step: Upgrade| Catalog::open_with(folder.path(), FRESH, &[step]);
    // One that fails half-way has changed nothing.
    let refused = opened(|transaction| {
        mark(transaction, "half");
        Err(CatalogError::Damaged { path: PathBuf::new(), what: "data".into() })
    });
    assert!(refused.is_err());
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    assert_eq!(text(&catalog, VOLUMES, "data"), before);
    drop(catalog);
    for _ in 0..2 {
        let catalog = opened(|transaction| {
            mark(transaction, "+");
            Ok(())
        });
        let after = text(&catalog.unwrap(), VOLUMES, "data");
        assert_eq!(after, format!("{before}+"), "each step is made once");
    }
    let refused = Catalog::open(folder.path(), FRESH).unwrap_err();
    assert!(matches!(&refused, CatalogError::Schema { found, .. } if &**found == "2"));
}

/// Writes something behind the record of `data`.
fn mark(transaction: &WriteTransaction, mark: &str) {
    let mut volumes = transaction.open_table(VOLUMES).unwrap();
    let text = format!("{}{mark}", volumes.get("data").unwrap().unwrap().value());
    volumes.insert("data", text.as_str()).unwrap();
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
    catalog.commit(&records(&space, &Grants::default()), &[&ram]).unwrap();
    let contents = catalog.read().unwrap();
    let refused = |text| contents.check_given(&[spec(text)]).unwrap_err().to_string();
    assert_eq!(
        refused("s=ram:16MiB"),
        "volume 'data' lies on device 'r' (00000000-0000-0000-0000-000000000007), which is not \
         among those given: add it with --device"
    );
    assert_eq!(
        refused("r=ram:15MiB"),
        "device 'r' is 15MiB, shorter than the catalog says (16MiB): give it its former size"
    );
    assert!(contents.check_given(&[spec("r=ram:17MiB")]).is_ok());
}

/// What was written once must be read for ever.
#[test]
fn records_stand_in_the_catalog_as_they_always_did() {
    let folder = tempfile::tempdir().unwrap();
    let ram = device("r=ram:16MiB");
    let mut space = space(&ram);
    space.create(&request("data=3MiB@r"), Uuid::from_u128(21)).unwrap();
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    catalog.commit(&records(&space, &Grants::default()), &[&ram]).unwrap();
    let text = |table, key| text(&catalog, table, key);
    insta::assert_snapshot!(text(DEVICES, "r"), @r#"{"uuid":"00000000-0000-0000-0000-000000000007","bytes":16777216,"labelled":false}"#);
    insta::assert_snapshot!(text(VOLUMES, "data"), @r#"{"uuid":"00000000-0000-0000-0000-000000000015","block_size":4096,"blocks":768,"subsystem":"data","nsid":1,"device":"00000000-0000-0000-0000-000000000007","epoch":1,"extents":[[0,3145728]],"provisioning":"thin"}"#);
    assert_eq!((&*text(META, "schema"), &*text(META, "generation")), ("1", "1"));
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
        let range = range.parse().unwrap();
        let asked = GrantRequest { credential: app.clone(), range, rights, expires };
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
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    assert_eq!(catalog.read().unwrap().grants().unwrap(), Grants::default());
    catalog.commit(&records(&space, &grants), &[&ram]).unwrap();
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
    assert!(message.contains("grant 1 is for 'app', which is no credential"), "{message}");
}

/// What was written once must be read for ever.
#[test]
fn records_of_grants_stand_in_the_catalog_as_they_always_did() {
    let folder = tempfile::tempdir().unwrap();
    let ram = device("r=ram:16MiB");
    let mut space = space(&ram);
    space.create(&request("data=3MiB@r"), Uuid::from_u128(21)).unwrap();
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    catalog.commit(&records(&space, &grants(&space)), &[&ram]).unwrap();
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
    };
    let (user, secret) = ("node".parse().unwrap(), "anderesanderes".parse().unwrap());
    recorded.accounts.add(account("iqn.2026-11.test:a", None)).unwrap();
    recorded.accounts.add(account("b", Some(Mutual { user, secret }))).unwrap();
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    assert!(catalog.read().unwrap().has_no_account());
    catalog.commit(&recorded, &[&ram]).unwrap();
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
