//! Records are read back as they were written; hostile values are errors with a name.

use std::fmt::Debug;

use nearflash_units::{ByteLen, ByteOffset, KIB};
use proptest::prelude::*;

use super::*;

fn volume() -> VolumeRecord {
    VolumeRecord {
        schema: Schema,
        name: "data".parse().unwrap(),
        block_size: 4096,
        blocks: 1 << 20,
        stripe_unit: ByteLen(64 * KIB),
        width: 3,
        rows: 1,
        zeroed_rows: 1,
        replicas: 1,
        placement: Placement::Central(Uuid::from_u128(7)),
        subsystem: "shared".parse().unwrap(),
        nsid: 1,
        provisioning: nearflash_space::Provisioning::Thin,
        epoch: 1,
        state: VolumeState::Ready,
        planned: None,
        job: None,
    }
}

fn mirror() -> MirrorRecord {
    let in_sync = vec![InSyncRecord { replica: 0, incarnation: 4 }];
    let (schema, len, kept_since, token) = (Schema, TRACT_LEN, 0, 0);
    MirrorRecord { schema, len, term: 1, primary: 0, in_sync, kept_since, token }
}

fn is_read_back<R: Record + Debug + PartialEq>(record: &R) {
    assert_eq!(&R::decode(&record.encode()).unwrap(), record);
}

#[test]
fn records_are_read_back_as_they_were_written() {
    let (uuid, name) = (Uuid::from_u128(1), "n1".parse().unwrap());
    let addresses = [(Door::Direct, vec!["10.0.0.1:4421".parse().unwrap()])].into();
    is_read_back(&NodeRecord {
        schema: Schema,
        name,
        ordinal: 3,
        addresses,
        tls: [("10.0.0.1:4420".parse().unwrap(), AddressTls::Required)].into(),
        version: "0.1.0".to_owned(),
        machine: "m1@192.0.2.1:2379".to_owned(),
    });
    let (name, machine) = ("n1".parse().unwrap(), String::new());
    is_read_back(&RemovedRecord { schema: Schema, name, machine, slices: vec![uuid] });
    let name = "c".parse().unwrap();
    is_read_back(&ClusterRecord { schema: Schema, name, uuid, feature_level: 1, created: 5 });
    let name = "flash".parse().unwrap();
    let len = ByteLen(1 << 40);
    is_read_back(&SliceRecord { schema: Schema, node: uuid, name, len, incarnation: 2 });
    is_read_back(&RoomRecord { schema: Schema, state: RoomState::In, version: 9 });
    is_read_back(&HistoryRecord { schema: Schema, id: uuid, began: 7 });
    is_read_back(&SeenRecord { schema: Schema, revision: 9 });
    is_read_back(&AliveRecord { schema: Schema, run: 11, access: None });
    is_read_back(&OwnerRecord { schema: Schema, owner: uuid });
    is_read_back(&volume());
    is_read_back(&mirror());
    let replica = ReplicaRecord { ordinal: 0, slice: uuid, start: DATA_START };
    is_read_back(&ReplicasRecord {
        schema: Schema,
        replicas: vec![replica],
        next_ordinal: 3,
        moving: None,
    });
}

#[test]
fn the_text_of_a_record_is_permanent() {
    let text = String::from_utf8(volume().encode()).unwrap();
    let expected = concat!(
        r#"{"schema":1,"name":"data","block_size":4096,"blocks":1048576,"stripe_unit":65536,"#,
        r#""width":3,"rows":1,"zeroed_rows":1,"replicas":1,"#,
        r#""placement":"central:00000000-0000-0000-0000-000000000007","subsystem":"shared","#,
        r#""nsid":1,"provisioning":"thin","epoch":1,"state":"ready"}"#,
    );
    assert_eq!(text, expected);
}

#[test]
fn a_record_of_a_later_version_is_refused_by_its_schema() {
    let refused = VolumeRecord::decode(br#"{"schema":2,"shape":"round"}"#).unwrap_err();
    assert_eq!(refused, RecordError::TooNew(2));
}

#[test]
fn a_value_beyond_64_kib_is_not_parsed() {
    let refused = OwnerRecord::decode(&vec![b' '; VALUE_LEN_MAX + 1]).unwrap_err();
    assert_eq!(refused, RecordError::TooLong(VALUE_LEN_MAX + 1));
}

#[test]
fn fields_out_of_range_are_refused() {
    let refused = |record: &VolumeRecord| {
        assert!(matches!(VolumeRecord::decode(&record.encode()), Err(RecordError::Range(_))));
    };
    refused(&VolumeRecord { blocks: 0, ..volume() });
    refused(&VolumeRecord { blocks: u64::MAX, ..volume() });
    refused(&VolumeRecord { block_size: 3, ..volume() });
    refused(&VolumeRecord { width: 0, ..volume() });
    refused(&VolumeRecord { stripe_unit: ByteLen(3 * KIB), ..volume() });
    let mirror = MirrorRecord { len: ByteLen(5), ..mirror() };
    assert!(matches!(MirrorRecord::decode(&mirror.encode()), Err(RecordError::Range(_))));
    let replica = ReplicaRecord { ordinal: 0, slice: Uuid::nil(), start: ByteOffset(0) };
    let replicas =
        ReplicasRecord { schema: Schema, replicas: vec![replica], next_ordinal: 3, moving: None };
    assert!(matches!(ReplicasRecord::decode(&replicas.encode()), Err(RecordError::Range(_))));
}

proptest! {
    #[test]
    fn hostile_values_are_errors_and_not_panics(value in any::<Vec<u8>>()) {
        prop_assert!(VolumeRecord::decode(&value).is_err());
        prop_assert!(MirrorRecord::decode(&value).is_err());
    }

    /// A record with some bytes overwritten is refused, or is a record within its ranges.
    #[test]
    fn a_damaged_record_is_refused_or_in_range(
        at in any::<prop::sample::Index>(), byte in any::<u8>()
    ) {
        let mut value = volume().encode();
        let at = at.index(value.len());
        value[at] = byte;
        if let Ok(record) = VolumeRecord::decode(&value) {
            prop_assert!(record.check().is_ok());
        }
    }
}
