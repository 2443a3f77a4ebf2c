//! Catalogs of earlier schemas.

use nearflash_records::key::Closing;
use nearflash_records::local::{JobKind, Layout, Runs};
use nearflash_records::record::VolumeState;

use super::*;

const SCHEMA_1: &[u8] = include_bytes!("../../fixtures/catalog-schema-1.redb");
const SCHEMA_3: &[u8] = include_bytes!("../../fixtures/catalog-schema-3.redb");

fn opened(bytes: &[u8]) -> (tempfile::TempDir, Catalog) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("catalog.redb"), bytes).unwrap();
    let catalog = Catalog::open(folder.path(), Uuid::from_u128(99)).unwrap();
    (folder, catalog)
}

/// A catalog of an earlier schema with these entries of its tables.
fn with_tables(schema: &str, entries: &[(&str, &str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let database = store::create(&folder.path().join("catalog.redb")).unwrap();
    let mut write = database.begin_write().unwrap();
    write.set_two_phase_commit(true);
    let node = FRESH.to_string();
    let meta = [("meta", "schema", schema), ("meta", "node", &node), ("meta", "generation", "5")];
    for (table, key, text) in meta.iter().chain(entries) {
        let definition: TableDefinition<'_, &str, &str> = TableDefinition::new(table);
        write.open_table(definition).unwrap().insert(*key, *text).unwrap();
    }
    write.commit().unwrap();
    folder
}

#[test]
fn a_catalog_of_schema_1_is_brought_to_this_schema_and_says_the_same() {
    let (folder, catalog) = opened(SCHEMA_1);
    assert_eq!(catalog.node(), FRESH);
    let content = catalog.read().unwrap();
    assert_eq!(content.revision, 2);
    let state = LocalState::of(&content).unwrap();
    let data = &state.volumes[&Uuid::from_u128(0x15)];
    assert_eq!((data.name.as_str(), data.blocks, data.epoch), ("data", 1280, 2));
    let runs = vec![(0, 4_194_304), (6_291_456, 1_048_576)];
    assert_eq!(data.layout, Layout::Runs(vec![Runs { device: Uuid::from_u128(7), runs }]));
    let rights = &state.rights[&Uuid::from_u128(0x15)];
    assert!(rights.reservations().unwrap().persistent().is_some());
    let names: Vec<&str> = state.volumes.values().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["data", "logs", "Boot"]);
    assert_eq!(
        (state.access.credentials.len(), state.access.grants.len(), state.access.accounts.len()),
        (1, 2, 2)
    );
    assert_eq!(state.access.last_grant(), 3);
    assert!(state.access.has_had(Closing::Credential) && state.access.has_had(Closing::Account));
    assert!(!state.access.has_had(Closing::List));
    drop(catalog);
    let again = Catalog::open(folder.path(), FRESH).unwrap();
    assert_eq!(again.read().unwrap(), content);
}

/// A node of the last version of schema 3 made this file from that of schema 1. It was killed while two jobs ran.
#[test]
fn each_record_of_schema_3_has_its_key() {
    let (_folder, catalog) = opened(SCHEMA_3);
    let content = catalog.read().unwrap();
    let state = LocalState::of(&content).unwrap();
    let keys = content.found.keys().map(ToString::to_string);
    let is_new = |key: &String| {
        let uuid = key.rsplit('/').next().and_then(|part| part.parse::<Uuid>().ok());
        uuid.is_some_and(|uuid| uuid.as_u128() > u128::from(u64::MAX))
    };
    let (new, keys): (Vec<String>, Vec<String>) = keys.partition(is_new);
    let expected = [
        "name/volume/Boot",
        "name/volume/data",
        "name/volume/grown",
        "name/volume/logs",
        "name/volume/made",
        "nsid/boot/1",
        "nsid/data/1",
        "nsid/data/2",
        "nsid/grown/1",
        "nsid/made/1",
        "room/00000000-0000-0000-0000-000000000007",
        "room/00000000-0000-0000-0000-000000000008",
        "volume/00000000-0000-0000-0000-000000000015",
        "volume/00000000-0000-0000-0000-000000000017",
        "volume/00000000-0000-0000-0000-000000000018",
        "device/n",
        "device/r",
        "device/s",
        "rights/00000000-0000-0000-0000-000000000015",
        "credential/app",
        "grant/1",
        "grant/2",
        "grant/4",
        "chap/b",
        "chap/iqn.2026-11.test:a",
        "host/nqn.2026-11.test:a",
        "host/nqn.2026-11.test:b",
        "list/nqn.2026-11.test:a",
        "token/a",
        "job/3",
        "job/4",
        "last/grant",
        "last/job",
        "had/credential",
        "had/account",
        "had/list",
        "removed/volume/gone",
    ];
    assert_eq!(keys, expected);
    let kinds: Vec<&str> = new.iter().map(|key| key.split('/').next().unwrap()).collect();
    assert_eq!(kinds, ["room", "volume", "volume"]);
    let volume = |name: &str| state.volumes.values().find(|it| it.name.as_str() == name).unwrap();
    let (grown, made) = (volume("grown"), volume("made"));
    let planned = Some(3 << 21);
    assert_eq!((grown.state, grown.planned, grown.job), (VolumeState::Ready, planned, Some(3)));
    assert_eq!((made.state, made.planned, made.job), (VolumeState::Making, planned, Some(4)));
    let kinds: Vec<JobKind> = state.jobs.values().map(|job| job.kind).collect();
    assert_eq!(kinds, [JobKind::GrowVolume, JobKind::CreateVolume]);
    assert!(state.rights[&Uuid::from_u128(0x15)].reservations().is_some());
    let removed: Vec<bool> = state.access.hosts.values().map(|host| host.is_removed()).collect();
    assert_eq!(removed, [false, true]);
    assert_eq!((state.access.last_grant(), state.last_job()), (4, 4));
    // A name that was removed keeps the moment of that.
    let revision = |text: &str| content.found[&key(text)].1.0;
    assert_eq!(revision("grant/1"), content.revision);
    assert!((1..content.revision).contains(&revision("removed/volume/gone")));
}

#[test]
fn what_a_node_knows_of_its_cluster_and_of_a_suspect_device_stays_as_it_is() {
    let device = r#"{"uuid":"00000000-0000-0000-0000-000000000007","bytes":9,"labelled":true,"suspect":true}"#;
    let cluster = Uuid::from_u128(20);
    let seen = format!(r#"{{"cluster":"{cluster}","store":3,"revision":7,"volumes":[]}}"#);
    let folder = with_tables(
        "3",
        &[
            ("devices", "r", device),
            ("meta", "ordinal", &format!("{cluster} 7")),
            ("meta", "cluster_seen", &seen),
        ],
    );
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    assert_eq!(text(&catalog, "device/r"), device);
    assert_eq!(catalog.ordinal(cluster).unwrap(), Some(7));
    assert_eq!(catalog.seen().unwrap().unwrap().seen(cluster).unwrap().revision, 7);
}

#[test]
fn a_catalog_of_schema_2_with_credentials_and_lists_is_closed_to_those_without() {
    let folder = with_tables(
        "2",
        &[
            ("credentials", "app", &format!(r#"{{"secret":"{}"}}"#, "07".repeat(32))),
            ("host_volumes", "iqn.a:b", r#"{"volumes":{}}"#),
        ],
    );
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    let state = LocalState::of(&catalog.read().unwrap()).unwrap();
    assert!(state.access.has_had(Closing::Credential) && state.access.has_had(Closing::List));
    assert!(!state.access.has_had(Closing::Account));
    assert_eq!((state.access.credentials.len(), state.access.lists.len()), (1, 1));
}

#[test]
fn a_table_or_a_record_of_schema_3_that_no_version_writes_is_refused_and_left_alone() {
    let volume = r#"{"name":"data","block_size":4096,"blocks":1,"subsystem":"data","nsid":1,"epoch":1,"extents":[]"#;
    let unknown = format!(r#"{volume},"encryption":"xts"}}"#);
    let uuid = "00000000-0000-0000-0000-000000000015";
    for (table, key, text, named) in [
        ("quotas", "a", "{}", "the table 'quotas'"),
        ("volumes", uuid, &*unknown, uuid),
        ("volumes", "data", &*format!("{volume}}}"), "'data'"),
        ("volumes", uuid, &*format!(r#"{volume},"provisioning":"wide"}}"#), uuid),
        ("devices", "a b", "{}", "'a b'"),
        ("grants", "x", "{}", "'x'"),
        ("removed_volumes", "gone", "x", "'gone'"),
        ("meta", "last_job", "1x", "'last_job'"),
    ] {
        let folder = with_tables("3", &[(table, key, text)]);
        let path = folder.path().join("catalog.redb");
        for _ in 0..2 {
            let message = Catalog::open(folder.path(), FRESH).unwrap_err().to_string();
            assert!(message.contains(named), "{table} {key}: {message}");
            assert!(message.contains("catalog.redb"), "{message}");
        }
        let left = Store::in_file(&path).unwrap();
        assert_eq!(left.schema().unwrap(), Some(3), "{table}");
    }
}

#[test]
fn the_former_file_is_kept_until_a_run_has_ended_in_order() {
    let (folder, catalog) = opened(SCHEMA_3);
    let kept = folder.path().join("catalog.redb.schema3");
    assert_eq!(kept.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let former = Store::in_file(&kept).unwrap();
    assert_eq!(former.schema().unwrap(), Some(3));
    drop(former);
    // A run that is killed.
    drop(catalog);
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    assert!(kept.exists());
    catalog.devices_released();
    assert!(!kept.exists() && folder.path().join("catalog.redb").exists());
    drop(catalog);
    drop(Catalog::open(folder.path(), FRESH).unwrap());
    assert!(!kept.exists(), "nothing was upgraded");
}
