//! Volumes and devices, their names and numbers, jobs and reservations.

use super::*;

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
    assert_eq!(contents.records(self::space(&ram)).unwrap().space, space);
}

#[test]
fn a_removed_volume_is_gone_from_the_catalog() {
    let ram = device("r=ram:16MiB");
    let mut space = space(&ram);
    let (_folder, catalog) = fresh();
    for text in ["a=1MiB@r", "b=1MiB@r"] {
        space.create(&request(text), Uuid::new_v4()).unwrap();
    }
    commit(&catalog, &records(&space, &Grants::default()), &[&ram]);
    space.remove(&name("a")).unwrap();
    commit(&catalog, &records(&space, &Grants::default()), &[&ram]);
    let left = read(&catalog).records(space_on(&[&ram])).unwrap().space;
    assert_eq!(left.volumes().map(|v| v.name.as_str()).collect::<Vec<_>>(), ["b"]);
}

#[test]
fn a_damaged_record_is_refused_by_name() {
    let (_folder, catalog) = fresh();
    insert(&catalog, &format!("volume/{DATA}"), "{}");
    let message = Recorded::read(&catalog).unwrap_err().to_string();
    assert!(message.contains(&format!("the record of 'volume/{DATA}' is damaged")), "{message}");
}

#[test]
fn a_device_with_volumes_must_be_given_as_long_as_it_was() {
    let ram = device("r=ram:16MiB");
    let mut space = space(&ram);
    space.create(&request("data=3MiB@r"), Uuid::new_v4()).unwrap();
    let (_folder, catalog) = fresh();
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
    let ram = device("r=ram:16MiB");
    let mut space = space(&ram);
    space.create(&request("data=3MiB@r,block-size=4096"), Uuid::from_u128(21)).unwrap();
    let (_folder, catalog) = fresh();
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

#[test]
fn a_change_writes_the_records_that_differ_and_no_others() {
    let ram = device("r=ram:16MiB");
    let mut space = space(&ram);
    for (text, uuid) in [("data=3MiB@r", 0x15), ("logs=1MiB@r", 0x16), ("tmp=1MiB@r", 0x17)] {
        space.create(&request(text), Uuid::from_u128(uuid)).unwrap();
    }
    let old = records(&space, &grants(&space));
    let (_folder, catalog) = fresh();
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
    let (_folder, catalog) = fresh();
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
    let ram = device("r=ram:16MiB");
    let mut space = space(&ram);
    let (_folder, catalog) = fresh();
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
    let ram = device("r=ram:16MiB");
    let mut space = space(&ram);
    space.create(&request("data=3MiB@r,block-size=4096"), Uuid::from_u128(0x15)).unwrap();
    space.reserve_growth(&name("data"), ByteLen(5 << 20), 1).unwrap();
    space.reserve(&request("logs=1MiB@r"), Uuid::from_u128(0x16), 2).unwrap();
    let recorded = Records { last_job: 2, ..records(&space, &Grants::default()) };
    let (_folder, catalog) = fresh();
    commit(&catalog, &recorded, &[&ram]);
    let found = read(&catalog).records(self::space(&ram)).unwrap();
    assert_eq!(found, Records { generation: 1, ..recorded });
    let shown = text(&catalog, &format!("volume/{DATA}"));
    assert!(shown.contains(r#""state":"ready","planned":1280,"job":1"#), "{shown}");
    insta::assert_snapshot!(text(&catalog, "job/1"), @r#"{"schema":1,"kind":"grow-volume","subject":{"volume":"00000000-0000-0000-0000-000000000015"},"state":"running"}"#);
    insta::assert_snapshot!(text(&catalog, "job/2"), @r#"{"schema":1,"kind":"create-volume","subject":{"volume":"00000000-0000-0000-0000-000000000016"},"state":"running"}"#);
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
        let ram = device("r=ram:16MiB");
        let mut space = space(&ram);
        space.create(&request("data=3MiB@r"), Uuid::from_u128(0x15)).unwrap();
        let (_folder, catalog) = fresh();
        commit(&catalog, &records(&space, &Grants::default()), &[&ram]);
        insert(&catalog, key, &format!(r#"{{"schema":1,"owner":"{owner}"}}"#));
        let message = Recorded::read(&catalog).unwrap_err().to_string();
        assert!(message.contains(&format!("the record of '{key}' is damaged")), "{message}");
    }
}

#[test]
fn reservations_that_persist_are_a_record_until_the_volume_is_gone() {
    let ram = device("r=ram:16MiB");
    let mut space = space(&ram);
    let volume = space.create(&request("data=3MiB@r"), Uuid::from_u128(0x15)).unwrap().id;
    let (_folder, catalog) = fresh();
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
