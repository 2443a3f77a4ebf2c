use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;

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
use nearflash_records::local::TokenScopeRecord;
use nearflash_records::store::Put;
use nearflash_request::{
    Change, ChangeKind, ChangeResult, Expected, Identity, Nexus, ReservationType,
};
use nearflash_space::{Name, Space, VolumeRequest, empty_device};
use nearflash_units::{BlockSize, ByteLen};

use super::*;
use crate::records::Records;
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
        unlisted_hosts: None,
        anonymous: Anonymous::default(),
        elsewhere: Arc::default(),
        peers: None,
        files: None,
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
    let contents = read(&catalog);
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
    let left = read(&catalog).volumes_on(&space).unwrap();
    assert_eq!(left.iter().map(|v| v.name.as_str()).collect::<Vec<_>>(), ["b"]);
}

#[test]
fn a_damaged_record_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    insert(&catalog, &format!("volume/{DATA}"), "{}");
    let message = Recorded::read(&catalog).unwrap_err().to_string();
    assert!(message.contains(&format!("the record of 'volume/{DATA}' is damaged")), "{message}");
}

#[test]
fn a_device_with_volumes_must_be_given_as_long_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let ram = device("r=ram:16MiB");
    let mut space = space(&ram);
    space.create(&request("data=3MiB@r"), Uuid::new_v4()).unwrap();
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    commit(&catalog, &records(&space, &Grants::default()), &[&ram]);
    let contents = read(&catalog);
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
    let text = |key: &str| text(&catalog, key);
    let owner = r#"{"schema":1,"owner":"00000000-0000-0000-0000-000000000015"}"#;
    insta::assert_snapshot!(text("device/r"), @r#"{"uuid":"00000000-0000-0000-0000-000000000007","bytes":16777216,"labelled":false}"#);
    insta::assert_snapshot!(text(&format!("volume/{DATA}")), @r#"{"schema":2,"name":"data","subsystem":"data","nsid":1,"block_size":4096,"blocks":768,"epoch":1,"provisioning":"thin","state":"ready","layout":{"runs":[{"device":"00000000-0000-0000-0000-000000000007","runs":[[0,3145728]]}]}}"#);
    assert_eq!((&*text("name/volume/data"), &*text("nsid/data/1")), (owner, owner));
    insta::assert_snapshot!(text("room/00000000-0000-0000-0000-000000000007"), @r#"{"schema":1,"state":"in","version":1}"#);
    let keys = catalog.read().unwrap().found.len();
    assert_eq!((keys, read(&catalog).state.revisions.newest()), (5, 1));
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
    assert_eq!(read(&catalog).grants().unwrap(), Grants::default());
    commit(&catalog, &records(&space, &grants), &[&ram]);
    drop(catalog);
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    assert_eq!(read(&catalog).grants().unwrap(), grants);
    let file = std::fs::metadata(folder.path().join("catalog.redb")).unwrap();
    assert_eq!(file.permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_damaged_credential_or_grant_is_refused_by_name_and_shows_no_secret() {
    let refused = |key: &str, text: &str| {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::open(folder.path(), FRESH).unwrap();
        insert(&catalog, key, text);
        read(&catalog).grants().unwrap_err().to_string()
    };
    let message = refused("credential/app", r#"{"secret":"5ec2e7"}"#);
    assert!(message.contains("the record of 'credential/app' is damaged"), "{message}");
    assert!(!message.contains("5ec2e7"), "{message}");
    let record = r#"{"credential":"app","volume":"00000000-0000-0000-0000-000000000015","start":9,"end":9,"rights":"r"}"#;
    let message = refused("grant/1", record);
    assert!(message.contains("the record of 'grant/1' is damaged"), "{message}");
    let message = refused("grant/1", &record.replace("\"end\":9,", ""));
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
    insta::assert_snapshot!(text(&catalog, "credential/app"), @r#"{"secret":"a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5","expires_at":2000000000}"#);
    insta::assert_snapshot!(text(&catalog, "grant/1"), @r#"{"credential":"app","volume":"00000000-0000-0000-0000-000000000015","start":0,"end":1048576,"rights":"rw","expires_at":1900000000}"#);
    insta::assert_snapshot!(text(&catalog, "grant/2"), @r#"{"credential":"app","volume":"00000000-0000-0000-0000-000000000015","start":1048576,"rights":"r"}"#);
    insta::assert_snapshot!(text(&catalog, "last/grant"), @r#"{"schema":1,"number":2}"#);
}

#[test]
fn accounts_are_kept_over_a_restart() {
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
    assert!(read(&catalog).has_no_account());
    commit(&catalog, &recorded, &[&ram]);
    let contents = read(&catalog);
    assert_eq!(contents.accounts().unwrap(), recorded.accounts);
    let shown = format!("{contents:?}");
    assert!(!shown.contains("geheim") && !shown.contains("anderes"), "{shown}");
    insta::assert_snapshot!(text(&catalog, "chap/b"), @r#"{"secret":"geheimgeheim","mutual_user":"node","mutual_secret":"anderesanderes"}"#);
}

#[test]
fn tokens_are_kept_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let ram = device("r=ram:16MiB");
    let mut recorded = records(&space(&ram), &Grants::default());
    let token = |text: &str, scope, expires| Token {
        name: name(text),
        hash: Token::hash_of(text),
        scope,
        expires,
    };
    recorded.tokens.add(token("a", TokenScopeRecord::Read, None), UnixTime(1)).unwrap();
    let expires = Some(UnixTime(2_000_000_000));
    recorded.tokens.add(token("b", TokenScopeRecord::Admin, expires), UnixTime(1)).unwrap();
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    commit(&catalog, &recorded, &[&ram]);
    assert_eq!(read(&catalog).tokens().unwrap(), recorded.tokens);
    insta::assert_snapshot!(text(&catalog, "token/b"), @r#"{"sha256":"3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d","scope":"admin","expires_at":2000000000}"#);
    for damaged in [r#"{"sha256":"00","scope":"read"}"#, r#"{"sha256":"","scope":"root"}"#] {
        insert(&catalog, "token/a", damaged);
        let contents = Recorded::read(&catalog);
        let refused = contents.and_then(|contents| contents.tokens()).unwrap_err();
        assert!(refused.to_string().contains("'token/a'"), "{refused}");
    }
}

#[test]
fn keys_of_hosts_are_kept_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let ram = device("r=ram:16MiB");
    let mut recorded = records(&space(&ram), &Grants::default());
    let key = |byte| HostKey::new(Some(Hash::Sha256), &[byte; 32]).unwrap();
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
    assert!(read(&catalog).has_no_keyed_host());
    commit(&catalog, &recorded, &[&ram]);
    let contents = read(&catalog);
    assert_eq!(contents.hosts().unwrap(), recorded.hosts);
    let shown = format!("{contents:?}");
    assert!(!shown.contains("DHHC") && !shown.contains("NVMeTLS"), "{shown}");
    insta::assert_snapshot!(text(&catalog, "host/nqn.2026-11.test:c"), @r#"{"psk":"NVMeTLSkey-1:01:CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQlGwA0N:","psk_derivation":"legacy","tls":"required"}"#);
    insta::assert_snapshot!(text(&catalog, "host/nqn.2026-11.test:a"), @r#"{"key":"DHHC-1:01:BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwfLJNij:"}"#);
    insta::assert_snapshot!(text(&catalog, "host/nqn.2026-11.test:b"), @r#"{"key":"DHHC-1:01:BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwfLJNij:","controller_key":"DHHC-1:01:CAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgnCjZ2:","hash":"sha384","group":"ffdhe4096"}"#);
}

#[test]
fn lists_of_hosts_are_kept_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let ram = device("r=ram:16MiB");
    let mut recorded = records(&space(&ram), &Grants::default());
    let list = [(Uuid::from_u128(1), Rights::Read), (Uuid::from_u128(2), Rights::ReadWrite)];
    let (nqn, iqn) = ("nqn.2026-11.test:a", "iqn.2026-11.test:a");
    recorded.host_volumes.set(&nqn.parse().unwrap(), VolumeList::from(list)).unwrap();
    recorded.host_volumes.set(&iqn.parse().unwrap(), VolumeList::new()).unwrap();
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    commit(&catalog, &recorded, &[&ram]);
    assert_eq!(read(&catalog).host_volumes().unwrap(), recorded.host_volumes);
    insta::assert_snapshot!(text(&catalog, &format!("list/{nqn}")), @r#"{"volumes":{"00000000-0000-0000-0000-000000000001":"r","00000000-0000-0000-0000-000000000002":"rw"}}"#);
    insta::assert_snapshot!(text(&catalog, &format!("list/{iqn}")), @r#"{"volumes":{}}"#);
    let damaged = r#"{"volumes":{"00000000-0000-0000-0000-000000000001":"x"}}"#;
    insert(&catalog, &format!("list/{nqn}"), damaged);
    let refused = read(&catalog).host_volumes().unwrap_err().to_string();
    assert!(refused.contains("the record of 'list/nqn.2026-11.test:a' is damaged"), "{refused}");
}

#[test]
fn what_the_node_has_had_is_remembered_after_it_is_gone_and_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let ram = device("r=ram:16MiB");
    let (host, key) =
        (Nqn::new("nqn.2026-11.test:a").unwrap(), HostKey::new(None, &[7; 32]).unwrap());
    let keys = HostKeys::new(key, None, Policy::default()).unwrap();
    let mut recorded = records(&space(&ram), &Grants::default());
    let had = |catalog: &Catalog| {
        let found = read(catalog).records(space(&ram)).unwrap();
        let had = (
            found.grants.has_had_credential(),
            found.accounts.has_had_account(),
            found.host_volumes.has_had_list(),
        );
        (had, found.hosts.removed().cloned().collect::<Vec<_>>())
    };
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    assert_eq!(had(&catalog), ((false, false, false), vec![]));
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
    assert_eq!(read(&catalog).accounts().unwrap(), recorded.accounts);
    insta::assert_snapshot!(text(&catalog, "chap/app"), @r#"{"secret":"geheimgeheim","initiators":["iqn.a:b"]}"#);
    recorded.grants.remove(&name("app")).unwrap();
    recorded.host_volumes.unlist(&"iqn.a:b".parse().unwrap());
    recorded.accounts.remove(&"app".parse().unwrap()).unwrap();
    recorded.hosts.remove(&host).unwrap();
    commit(&catalog, &recorded, &[&ram]);
    drop(catalog);
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    assert_eq!(had(&catalog), ((true, true, true), vec![host.clone()]));
    assert!(read(&catalog).has_no_keyed_host());
    insta::assert_snapshot!(text(&catalog, &format!("host/{host}")), @r#"{"removed":true}"#);
    recorded.hosts.forget(&host);
    commit(&catalog, &recorded, &[&ram]);
    assert_eq!(had(&catalog), ((true, true, true), vec![]));
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
        insert(&catalog, "host/nqn.a", damaged);
        let refused = read(&catalog).hosts().unwrap_err().to_string();
        assert!(refused.contains("the record of 'host/nqn.a' is damaged"), "{refused}");
    }
}

#[test]
fn a_damaged_account_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    for damaged in [r#"{"secret":"short"}"#, r#"{"secret":"geheimgeheim","mutual_user":"a"}"#] {
        insert(&catalog, "chap/app", damaged);
        let refused = read(&catalog).accounts().unwrap_err().to_string();
        assert!(refused.contains("the record of 'chap/app' is damaged"), "{refused}");
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
    let file = include_bytes!("../../../../world/catalog/fixtures/catalog-schema-1.redb");
    std::fs::write(folder.path().join("catalog.redb"), file).unwrap();
    let (r, s) = (device_of("r=ram:16MiB", 7), device_of("s=ram:8MiB", 8));
    for _ in 0..2 {
        let catalog = Catalog::open(folder.path(), Uuid::from_u128(99)).unwrap();
        assert_eq!(catalog.node(), FRESH);
        let contents = read(&catalog);
        let found = contents.records(space_on(&[&r, &s])).unwrap();
        assert_eq!(found.generation, 2);
        let known = &contents.state.revisions;
        let draft = Draft::between(&found, &recorded_in_schema_1(&[&r, &s]), known);
        let change = contents.given(draft, [&r, &s], known).into_txn(known);
        assert!(is_empty(&change), "{change:?}");
    }
}

/// The records of schema 1 are in the file, and those that a node added.
#[test]
fn a_catalog_of_schema_3_is_brought_to_this_schema_and_says_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let file = include_bytes!("../../../../world/catalog/fixtures/catalog-schema-3.redb");
    std::fs::write(folder.path().join("catalog.redb"), file).unwrap();
    let catalog = Catalog::open(folder.path(), Uuid::from_u128(99)).unwrap();
    let contents = read(&catalog);
    let n = contents.state.devices[&name("n")].uuid.as_u128();
    let (r, s) = (device_of("r=ram:16MiB", 7), device_of("s=ram:8MiB", 8));
    let n = device_of("n=null:64GiB", n);
    let found = contents.records(space_on(&[&r, &s, &n])).unwrap();
    for (volume, job, blocks) in [("grown", 3, 2048), ("made", 4, 0)] {
        let volume = found.space.volume(&name(volume)).unwrap();
        let preparing = volume.preparing.unwrap();
        assert_eq!((preparing.job, preparing.blocks.0, volume.blocks.0), (job, 3 << 21, blocks));
    }
    assert!(contents.was_removed(&name("gone")) && !contents.was_removed(&name("made")));
    assert_eq!((found.tokens.iter().count(), found.hosts.iter().count()), (1, 1));
    assert_eq!((found.hosts.removed().count(), found.host_volumes.iter().count()), (1, 1));
    assert_eq!((found.grants.grants().count(), found.grants.last_number()), (3, 4));
    // Nothing was lost of the records of schema 1.
    let old = recorded_in_schema_1(&[&r, &s]);
    let change =
        Draft::between(&old, &found, &Revisions::default()).into_txn(&Revisions::default());
    let is_of_n = |key: &Key| match key {
        Key::Volume(uuid) | Key::Room(uuid) => uuid.as_u128() > u128::from(u64::MAX),
        Key::VolumeName(name) | Key::Nsid(name, _) => ["grown", "made"].contains(&name.as_str()),
        key => matches!(key, Key::Job(_)),
    };
    let changed = change.puts.iter().map(|put| &put.key).filter(|key| !is_of_n(key));
    let changed: Vec<String> = changed.map(ToString::to_string).collect();
    assert_eq!(
        changed,
        [
            "grant/4",
            "token/a",
            "host/nqn.2026-11.test:a",
            "host/nqn.2026-11.test:b",
            "list/nqn.2026-11.test:a",
            "last/grant",
            "last/job",
            "had/list",
        ]
    );
    assert!(change.deletes.is_empty(), "{change:?}");
}

#[test]
fn a_change_writes_the_records_that_differ_and_no_others() {
    let ram = device("r=ram:16MiB");
    let mut space = space(&ram);
    for (text, uuid) in [("data=3MiB@r", 0x15), ("logs=1MiB@r", 0x16), ("tmp=1MiB@r", 0x17)] {
        space.create(&request(text), Uuid::from_u128(uuid)).unwrap();
    }
    let old = records(&space, &grants(&space));
    let folder = tempfile::tempdir().unwrap();
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    commit(&catalog, &old, &[&ram]);
    assert!(is_empty(&change(&catalog, &old, &old)));
    space.resize(&name("logs"), ByteLen(2 << 20), false).unwrap();
    space.remove(&name("tmp")).unwrap();
    // Another volume of the same name.
    space.remove(&name("data")).unwrap();
    space.create(&request("data=3MiB@r"), Uuid::from_u128(0x18)).unwrap();
    let mut new = records(&space, &old.grants);
    new.grants.revoke(GrantNumber(2)).unwrap();
    let change = change(&catalog, &old, &new);
    let texts = |keys: Vec<&Key>| keys.iter().map(ToString::to_string).collect::<Vec<_>>();
    let volume = |number| format!("volume/{}", Uuid::from_u128(number));
    assert_eq!(
        texts(change.puts.iter().map(|put| &put.key).collect()),
        [
            "nsid/data/1",
            "room/00000000-0000-0000-0000-000000000007",
            &volume(0x16),
            &volume(0x18),
            "removed/volume/tmp",
            "name/volume/data",
        ]
    );
    assert_eq!(
        texts(change.deletes.iter().collect()),
        ["nsid/tmp/1", &volume(0x15), &volume(0x17), "name/volume/tmp", "grant/2"]
    );
    let compared: Vec<u64> = change.compares.iter().map(|it| it.mod_revision.0).collect();
    assert_eq!(compared, [1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1], "every key that it changes");
}

#[test]
fn the_first_removed_volumes_are_forgotten_beyond_a_number() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    let ram = device("r=ram:16MiB");
    for numbers in [0..1u64, 1..4096] {
        let value = br#"{"schema":1}"#.to_vec();
        let put = |number| Put {
            key: key(&format!("removed/volume/v{number}")),
            value: value.clone().into(),
            lease: None,
        };
        let puts = numbers.map(put).collect();
        catalog.commit(&Txn { puts, ..Txn::default() }).unwrap();
    }
    let mut space = space(&ram);
    for text in ["v4096=1MiB@r", "v4097=1MiB@r"] {
        space.create(&request(text), Uuid::new_v4()).unwrap();
    }
    commit(&catalog, &records(&space, &Grants::default()), &[&ram]);
    for text in ["v4096", "v4097"] {
        space.remove(&name(text)).unwrap();
        commit(&catalog, &records(&space, &Grants::default()), &[&ram]);
    }
    let contents = read(&catalog);
    let known = |text: &str| contents.was_removed(&name(text));
    assert!(!known("v0") && known("v4096") && known("v4097"));
    assert_eq!((0..4096).filter(|number| known(&format!("v{number}"))).count(), 4094);
}

#[test]
fn a_change_of_records_that_are_no_longer_those_is_refused_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let ram = device("r=ram:16MiB");
    let mut space = space(&ram);
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    let old = records(&space, &Grants::default());
    space.create(&request("data=3MiB@r"), Uuid::from_u128(0x15)).unwrap();
    let unknown = Revisions::default();
    let first = change(&catalog, &old, &records(&space, &Grants::default()));
    assert_eq!(catalog.commit(&first).unwrap(), 1);
    let other = Draft::between(&records(&space, &Grants::default()), &old, &unknown);
    let refused = catalog.commit(&other.into_txn(&unknown)).unwrap_err();
    assert!(matches!(&refused, CatalogError::Overtaken { expected: 0, found: 1, .. }), "{refused}");
    assert_eq!(read(&catalog).state.volumes.len(), 1);
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
    let found = read(&catalog).records(self::space(&ram)).unwrap();
    assert_eq!(found, Records { generation: 1, ..recorded });
    let shown = text(&catalog, &format!("volume/{DATA}"));
    assert!(shown.contains(r#""state":"ready","planned":1280,"job":1"#), "{shown}");
    insta::assert_snapshot!(text(&catalog, "job/1"), @r#"{"schema":1,"kind":"grow-volume","subject":{"volume":"00000000-0000-0000-0000-000000000015"},"state":"running"}"#);
    insta::assert_snapshot!(text(&catalog, "job/2"), @r#"{"schema":1,"kind":"create-volume","subject":{"volume":"00000000-0000-0000-0000-000000000016"},"state":"running"}"#);
}

#[test]
fn a_damaged_number_is_refused_by_name() {
    for of in ["last/grant", "last/job"] {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::open(folder.path(), FRESH).unwrap();
        insert(&catalog, of, r#"{"schema":1,"number":"x"}"#);
        let message = Recorded::read(&catalog).unwrap_err().to_string();
        assert!(message.contains(&format!("the record of '{of}' is damaged")), "{message}");
    }
}

#[test]
fn an_index_of_names_that_is_not_that_of_the_volumes_is_refused() {
    let other = "00000000-0000-0000-0000-000000000016";
    for (key, owner) in [
        ("name/volume/data", other),
        ("name/volume/logs", DATA),
        ("nsid/data/1", other),
        ("nsid/data/2", DATA),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let ram = device("r=ram:16MiB");
        let mut space = space(&ram);
        space.create(&request("data=3MiB@r"), Uuid::from_u128(0x15)).unwrap();
        let catalog = Catalog::open(folder.path(), FRESH).unwrap();
        commit(&catalog, &records(&space, &Grants::default()), &[&ram]);
        insert(&catalog, key, &format!(r#"{{"schema":1,"owner":"{owner}"}}"#));
        let message = Recorded::read(&catalog).unwrap_err().to_string();
        assert!(message.contains(&format!("the record of '{key}' is damaged")), "{message}");
    }
}

#[test]
fn reservations_that_persist_are_a_record_until_the_volume_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let ram = device("r=ram:16MiB");
    let mut space = space(&ram);
    let volume = space.create(&request("data=3MiB@r"), Uuid::from_u128(0x15)).unwrap().id;
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    commit(&catalog, &records(&space, &Grants::default()), &[&ram]);
    let rights = key(&format!("rights/{DATA}"));
    assert!(!catalog.read().unwrap().found.contains_key(&rights));
    let identity = Identity::Iscsi { initiator: "a".into(), isid: [0; 6], portal_group: 1 };
    for (expected, new, persist) in
        [(Expected::Nothing, 7, Some(true)), (Expected::Anything, 8, Some(false))]
    {
        let kind = ChangeKind::Register { expected, new, persist };
        let change = Change { volume, nexus: Nexus(0xA), identity: identity.clone(), kind };
        assert_eq!(space.apply(&change).0, ChangeResult::Done);
        commit(&catalog, &records(&space, &Grants::default()), &[&ram]);
        let found = read(&catalog).records(self::space(&ram)).unwrap();
        let found = found.space.volume(&name("data")).unwrap().reservations.persistent();
        assert_eq!(found, space.volume(&name("data")).unwrap().reservations.persistent());
        let contents = read(&catalog);
        assert_eq!(
            contents.state.rights[&Uuid::from_u128(0x15)].version,
            contents.state.revisions.newest()
        );
    }
    space.remove(&name("data")).unwrap();
    commit(&catalog, &records(&space, &Grants::default()), &[&ram]);
    assert!(!catalog.read().unwrap().found.contains_key(&rights));
}
