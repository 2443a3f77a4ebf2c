//! `docs/internals/cluster-records.md` and `catalog-records.md` have every key of both stores, a sample of each
//! record, and the meaning of each field.
//!
//! The code decodes each sample and encodes it again, which must give the same text. The fields of a record are
//! those that its structure asks for.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::collections::BTreeSet;

use nearflash_records::local::{
    ChapRecord, CredentialRecord, DeviceRecord, FactRecord, GrantRecord, HostRecord,
    HostVolumesRecord, JobRecord as LocalJob, LastRecord, RightsRecord, TokenRecord,
    VolumeRecord as Local,
};
use nearflash_records::record::{
    AliveRecord, ClusterRecord, HistoryRecord, JobRecord, MirrorRecord, NodeRecord, OwnerRecord,
    RemovedRecord, ReplicasRecord, RoomRecord, SeenRecord, SliceRecord, UsersRecord, VolumeRecord,
};
use nearflash_records::{AccessRecord, Key};
use serde::de::value::Error as Asked;
use serde::de::{Deserializer, Error as _, Visitor};
use serde::{Deserialize, Serialize, forward_to_deserialize_any};

const CLUSTER: &str = include_str!("../../../docs/internals/cluster-records.md");
const CATALOG: &str = include_str!("../../../docs/internals/catalog-records.md");

/// A section about a record.
struct Section {
    /// The keys of its heading, with examples in the places of `<…>`.
    keys: Vec<Key>,
    samples: Vec<&'static str>,
    fields: BTreeSet<&'static str>,
}

fn sections(document: &'static str) -> Vec<Section> {
    document.split("\n## ").skip(1).map(section).collect()
}

fn section(text: &'static str) -> Section {
    let (heading, text) = text.split_once('\n').unwrap();
    let patterns = heading.split('`').filter(|it| it.contains(|c: char| c.is_alphabetic()));
    let block = text.split_once("```json\n").map(|(_, rest)| rest.split_once("```").unwrap().0);
    let rows = text.lines().skip_while(|line| !line.starts_with("| field |")).skip(2);
    let field = |row: &'static str| row.split('|').nth(1).unwrap().trim();
    Section {
        keys: patterns.map(|pattern| key(pattern).parse().unwrap()).collect(),
        samples: block.map(|block| block.lines().collect()).unwrap_or_default(),
        fields: rows.take_while(|row| row.starts_with("| ")).map(field).collect(),
    }
}

/// A key of a pattern.
fn key(pattern: &str) -> String {
    let uuid = "77777777-7777-7777-7777-777777777777";
    let example = |part: &str| -> String {
        match part {
            "<uuid>" | "<node>" | "<volume>" | "<slice>" | "<device>" => uuid.to_owned(),
            "<n>" | "<ordinal>" => "7".to_owned(),
            "<name>" | "<subsystem>" | "<id>" | "<user>" | "<nqn>" | "<host>" => "data".to_owned(),
            other => other.to_owned(),
        }
    };
    pattern.split('/').map(example).collect::<Vec<_>>().join("/")
}

/// Reads the names of the fields that a structure asks for, and no value.
struct Fields<'a>(&'a mut BTreeSet<&'static str>);

impl<'de> Deserializer<'de> for Fields<'_> {
    type Error = Asked;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Asked> {
        panic!("a record is a structure");
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Asked> {
        self.0.extend(fields);
        Err(Asked::custom("the fields are known"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

fn check<R: Serialize + for<'de> Deserialize<'de>>(key: &Key, section: &Section) {
    let mut expected = BTreeSet::new();
    let _ = R::deserialize(Fields(&mut expected));
    expected.remove("schema");
    assert_eq!(section.fields, expected, "{key}: the fields");
    let mut shown = BTreeSet::new();
    for sample in &section.samples {
        let record: R = serde_json::from_str(sample).unwrap_or_else(|e| panic!("{key}: {e}"));
        assert_eq!(serde_json::to_string(&record).unwrap(), *sample, "{key}: the sample");
        let object: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(sample).unwrap();
        shown.extend(object.keys().filter(|field| *field != "schema").cloned());
    }
    let fields: BTreeSet<String> = section.fields.iter().map(|it| (*it).to_owned()).collect();
    assert_eq!(shown, fields, "{key}: a sample has each field");
}

/// The number of kinds of keys, which [`compare`] counts.
const KINDS: usize = 31;

/// Compares a section with the record of a key. Returns the number of the key's kind: a new kind gets the next one,
/// and [`KINDS`] grows.
fn compare(key: &Key, is_cluster: bool, section: &Section) -> usize {
    assert!(!is_cluster || key.is_of_cluster(), "{key}");
    let (kind, check): (usize, fn(&Key, &Section)) = match key {
        Key::Cluster => (0, check::<ClusterRecord>),
        Key::History => (1, check::<HistoryRecord>),
        Key::Node(_) => (2, check::<NodeRecord>),
        Key::NodeName(_) => (3, check::<OwnerRecord>),
        Key::Ordinal(_) => (4, check::<OwnerRecord>),
        Key::VolumeName(_) => (5, check::<OwnerRecord>),
        Key::Nsid(..) => (6, check::<OwnerRecord>),
        Key::Slice(_) => (7, check::<SliceRecord>),
        Key::Room(_) => (8, check::<RoomRecord>),
        Key::Volume(_) if is_cluster => (9, check::<VolumeRecord>),
        Key::Volume(_) => (9, check::<Local>),
        Key::Mirror(_) => (10, check::<MirrorRecord>),
        Key::Replicas(_) => (11, check::<ReplicasRecord>),
        Key::On(..) => (12, check_empty),
        Key::Alive(_) => (13, check::<AliveRecord>),
        Key::Seen(_) => (14, check::<SeenRecord>),
        Key::Removed(_) => (15, check::<RemovedRecord>),
        Key::Users(..) => (16, check::<UsersRecord>),
        Key::Device(_) => (17, check::<DeviceRecord>),
        Key::Rights(_) => (18, check::<RightsRecord>),
        Key::Credential(_) => (19, check::<CredentialRecord>),
        Key::Grant(_) => (20, check::<GrantRecord>),
        Key::Chap(_) => (21, check::<ChapRecord>),
        Key::Host(_) => (22, check::<HostRecord>),
        Key::List(_) => (23, check::<HostVolumesRecord>),
        Key::Token(_) => (24, check::<TokenRecord>),
        Key::Job(_) if is_cluster => (25, check::<JobRecord>),
        Key::Job(_) => (25, check::<LocalJob>),
        Key::Last(_) => (26, check::<LastRecord>),
        Key::Had(_) => (27, check::<FactRecord>),
        Key::RemovedVolume(_) => (28, check::<FactRecord>),
        Key::Zeroed(..) => (29, check_empty),
        Key::Access => (30, check::<AccessRecord>),
    };
    check(key, section);
    kind
}

fn check_empty(key: &Key, section: &Section) {
    assert!(section.samples.is_empty() && section.fields.is_empty(), "{key} has no value");
}

#[test]
fn each_record_has_the_fields_and_the_text_that_the_documents_show() {
    let mut kinds = BTreeSet::new();
    for (document, is_cluster) in [(CLUSTER, true), (CATALOG, false)] {
        for section in sections(document) {
            kinds.extend(section.keys.iter().map(|key| compare(key, is_cluster, &section)));
        }
    }
    assert_eq!(kinds, (0..KINDS).collect(), "each kind of key has a section");
}
