//! Catalogs of earlier schemas.

use super::*;

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
    let file = include_bytes!("../../../../../world/catalog/fixtures/catalog-schema-1.redb");
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
    let file = include_bytes!("../../../../../world/catalog/fixtures/catalog-schema-3.redb");
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
