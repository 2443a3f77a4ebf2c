use super::*;
use crate::GRANULE;
use nearflash_request::{
    Access, ChangeKind, Expected, Identity, Modes, Nexus, Outcome, ReservationType, ResetScope,
    Support, TaskSet,
};

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn granules(count: u64) -> ByteLen {
    ByteLen(count * GRANULE.0)
}

/// A device of `count` granules behind the label, writing `block_size` at once.
fn device(id: u32, text: &str, count: u64, block_size: BlockSize) -> SpaceDevice {
    let uuid = Uuid::from_u128(u128::from(id) + 100);
    let area = (ByteOffset(GRANULE.0), granules(count));
    empty_device(DeviceId(id), name(text), uuid, block_size, area)
}

fn space() -> Space {
    let small = device(0, "small", 4, BlockSize::B512);
    Space::new(vec![small, device(1, "large", 64, BlockSize::B4096)])
}

fn asked(text: &str, count: u64, on: &str) -> VolumeRequest {
    VolumeRequest {
        name: name(text),
        len: granules(count),
        device: name(on),
        block_size: Some(BlockSize::B4096),
        subsystem: None,
        provisioning: Provisioning::Thin,
    }
}

#[test]
fn a_volume_is_made_grown_and_removed_and_its_space_comes_back() {
    let mut space = space();
    let before = space.clone();
    let made = space.create(&asked("data", 2, "large"), Uuid::from_u128(1)).unwrap();
    assert_eq!((made.nsid, made.subsystem.as_str(), made.epoch), (1, "data", Epoch(1)));
    let grown = space.resize(&name("data"), granules(3), false).unwrap();
    assert_eq!((grown.len(), grown.extents.len(), grown.epoch), (granules(3), 1, Epoch(2)));
    let id = grown.id;
    assert_eq!(space.table().get(id).unwrap().blocks, Blocks(3 * 256));
    space.remove(&name("data")).unwrap();
    assert_eq!(space.devices(), before.devices());
    assert_eq!(space.table().get(id), None);
}

#[test]
fn extents_behind_a_length_begin_within_an_extent() {
    let mut space = space();
    for (text, uuid) in [("a", 1), ("b", 2)] {
        space.create(&asked(text, 1, "small"), Uuid::from_u128(uuid)).unwrap();
    }
    let volume = space.resize(&name("a"), granules(2), false).unwrap();
    assert_eq!(volume.extents.len(), 2);
    let behind = |len| -> Vec<(u64, u64)> {
        let extents = volume.extents_behind(ByteLen(len));
        extents.iter().map(|extent| (extent.start.0, extent.len.0)).collect()
    };
    let [first, second] = [volume.extents[0].start.0, volume.extents[1].start.0];
    assert_eq!(behind(0), [(first, GRANULE.0), (second, GRANULE.0)]);
    assert_eq!(behind(4096), [(first + 4096, GRANULE.0 - 4096), (second, GRANULE.0)]);
    assert_eq!(behind(GRANULE.0), [(second, GRANULE.0)]);
    assert_eq!(behind(2 * GRANULE.0 - 512), [(second + GRANULE.0 - 512, 512)]);
    assert_eq!(behind(2 * GRANULE.0), []);
}

#[test]
fn a_volume_is_seen_when_its_job_is_finished_and_leaves_nothing_when_that_is_cancelled() {
    let mut space = space();
    let empty = space.clone();
    let volume = space.reserve(&asked("a", 2, "small"), Uuid::from_u128(1), 7).unwrap();
    assert_eq!((volume.len(), volume.planned_len()), (ByteLen(0), granules(2)));
    assert_eq!(volume.extents_behind(volume.len()), volume.extents);
    assert_eq!(space.served().count(), 0);
    assert_eq!(space.table().iter().count(), 0);
    let refused = space.resize(&name("a"), granules(1), true).unwrap_err();
    assert_eq!(refused, VolumeError::Preparing { name: name("a"), job: 7 });
    assert_eq!(space.remove(&name("a")).unwrap_err(), refused);
    let mut cancelled = space.clone();
    assert!(cancelled.cancel(6).is_none());
    assert_eq!(cancelled.cancel(7).unwrap().name, name("a"));
    assert_eq!(cancelled.devices(), empty.devices());
    assert_eq!(cancelled.volumes().len(), 0);
    let volume = space.finish(7).unwrap();
    assert_eq!((volume.len(), volume.epoch, volume.preparing), (granules(2), Epoch(1), None));
    assert_eq!(space.finish(7), None);
}

#[test]
fn growth_is_seen_when_its_job_is_finished() {
    let mut space = space();
    space.create(&asked("a", 1, "small"), Uuid::from_u128(1)).unwrap();
    let before = space.clone();
    let volume = space.reserve_growth(&name("a"), granules(3), 8).unwrap();
    assert_eq!((volume.len(), volume.planned_len()), (granules(1), granules(3)));
    assert_eq!(volume.map().unwrap().blocks(), Blocks(256));
    let mut cancelled = space.clone();
    cancelled.cancel(8).unwrap();
    assert_eq!(cancelled, before);
    let volume = space.finish(8).unwrap();
    assert_eq!((volume.len(), volume.epoch), (granules(3), Epoch(2)));
    assert_eq!(space.device(DeviceId(0)).free.free_len(), granules(1));
}

/// Both are found again after a restart as they were.
#[test]
fn a_volume_that_is_being_prepared_is_restored() {
    let mut space = space();
    space.create(&asked("a", 1, "small"), Uuid::from_u128(1)).unwrap();
    space.reserve_growth(&name("a"), granules(2), 8).unwrap();
    space.reserve(&asked("b", 1, "large"), Uuid::from_u128(2), 9).unwrap();
    let mut restored = self::space();
    for volume in space.volumes() {
        restored.restore(volume.clone()).unwrap();
    }
    assert_eq!(restored, space);
    let volume = space.volume(&name("a")).unwrap();
    let preparing = Some(Preparation { blocks: volume.blocks, job: 8 });
    let refused = self::space().restore(Volume { preparing, ..volume.clone() }).unwrap_err();
    assert!(matches!(refused, RestoreError::Field { field: "the number of blocks", .. }));
}

#[test]
fn a_volume_has_blocks_of_512_bytes_by_default_whatever_its_device_writes_at_once() {
    let mut space = space();
    for device in ["small", "large"] {
        let asked = VolumeRequest { block_size: None, ..asked(device, 1, device) };
        let made = space.create(&asked, Uuid::from_u128(1)).unwrap();
        assert_eq!((made.block_size, made.blocks), (BlockSize::B512, Blocks(2048)));
    }
}

#[test]
fn a_number_is_not_given_to_another_volume_in_the_same_run() {
    let mut space = space();
    let first = space.create(&asked("a", 1, "small"), Uuid::from_u128(1)).unwrap().id;
    space.remove(&name("a")).unwrap();
    let second = space.create(&asked("a", 1, "small"), Uuid::from_u128(2)).unwrap().id;
    assert_ne!(first, second);
}

#[test]
fn a_shared_subsystem_numbers_its_namespaces_upwards() {
    let mut space = space();
    let shared = |text| VolumeRequest { subsystem: Some(name("all")), ..asked(text, 1, "large") };
    for (text, nsid) in [("a", 1), ("b", 2), ("c", 3)] {
        let made = space.create(&shared(text), Uuid::from_u128(nsid.into())).unwrap();
        assert_eq!(made.nsid, nsid);
    }
    space.remove(&name("b")).unwrap();
    assert_eq!(space.create(&shared("d"), Uuid::from_u128(4)).unwrap().nsid, 4);
}

#[test]
fn what_cannot_be_made_is_refused_by_name_and_changes_nothing() {
    let mut space = space();
    space.create(&asked("data", 1, "small"), Uuid::from_u128(1)).unwrap();
    let before = space.clone();
    let mut refused =
        |asked: VolumeRequest| space.create(&asked, Uuid::from_u128(2)).unwrap_err().to_string();
    assert_eq!(
        refused(asked("data", 1, "small")),
        "volume 'data' exists already: choose another name, or resize or remove it"
    );
    assert_eq!(
        refused(asked("x", 1, "none")),
        "volume 'x': no device 'none': choose one of: small, large"
    );
    assert_eq!(
        refused(asked("x", 4, "small")),
        "volume 'x': device 'small' is full: 4MiB requested, 3MiB free"
    );
    assert_eq!(
        refused(VolumeRequest { len: ByteLen(5000), ..asked("x", 1, "small") }),
        "volume 'x': 5000B is not a whole number of 4096-byte blocks"
    );
    let small_blocks =
        VolumeRequest { block_size: Some(BlockSize::B512), ..asked("x", 1, "large") };
    assert_eq!(
        refused(VolumeRequest { len: ByteLen((1 << 20) + 512), ..small_blocks }),
        "volume 'x': 1049088B is not a whole number of 4096-byte blocks"
    );
    assert!(refused(asked("x", 0, "small")).contains("not a whole number"));
    assert_eq!(space, before);
}

#[test]
fn a_volume_shrinks_only_when_told_to() {
    let mut space = space();
    space.create(&asked("data", 3, "small"), Uuid::from_u128(1)).unwrap();
    let refused = space.resize(&name("data"), granules(1), false).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "volume 'data' has 3MiB, and shrinking it loses the data beyond 1MiB: add --shrink to \
         confirm"
    );
    assert_eq!(space.resize(&name("data"), granules(1), true).unwrap().len(), granules(1));
    assert_eq!(space.device(DeviceId(0)).free.free_len(), granules(3));
    let full = space.resize(&name("data"), granules(5), false).unwrap_err();
    assert!(matches!(full, VolumeError::NoSpace { .. }));
    let epoch = space.volume(&name("data")).unwrap().epoch;
    assert_eq!(space.resize(&name("data"), granules(1), false).unwrap().epoch, epoch);
    assert!(matches!(space.resize(&name("x"), granules(1), false), Err(VolumeError::NotFound(_))));
}

#[test]
fn recorded_volumes_come_back_where_they_were() {
    let mut space = space();
    space.create(&asked("a", 2, "large"), Uuid::from_u128(1)).unwrap();
    space.create(&asked("b", 1, "small"), Uuid::from_u128(2)).unwrap();
    let mut restored = self::space();
    for volume in space.volumes() {
        restored.restore(volume.clone()).unwrap();
    }
    assert_eq!(restored, space);
}

#[test]
fn a_record_with_shared_blocks_or_numbers_is_refused() {
    let mut space = space();
    let volume = space.create(&asked("a", 2, "large"), Uuid::from_u128(1)).unwrap().clone();
    let twice = space.restore(volume.clone()).unwrap_err();
    assert_eq!(twice, RestoreError::Twice(name("a")));
    let other =
        Volume { name: name("b"), subsystem: name("b"), uuid: Uuid::from_u128(9), ..volume };
    assert!(matches!(space.restore(other.clone()), Err(RestoreError::Extent { .. })));
    let short = Volume { blocks: Blocks(1 << 40), ..other };
    assert!(matches!(space.restore(short), Err(RestoreError::Map { .. })));
}

#[test]
fn a_record_of_what_no_volume_is_is_refused() {
    let mut space = space();
    let volume = space.create(&asked("a", 2, "large"), Uuid::from_u128(1)).unwrap().clone();
    space.remove(&name("a")).unwrap();
    let beyond = NAMESPACES_PER_SUBSYSTEM_MAX + 1;
    for record in [
        Volume { nsid: 0, ..volume.clone() },
        Volume { nsid: beyond, ..volume.clone() },
        Volume { blocks: Blocks(0), ..volume.clone() },
    ] {
        let refused = space.restore(record).unwrap_err();
        assert!(matches!(refused, RestoreError::Field { .. }), "{refused}");
    }
    assert!(space.restore(volume).is_ok());
}

#[test]
fn a_change_is_one_of_its_volume_and_seen_in_the_table() {
    let mut space = space();
    let id = space.create(&asked("data", 1, "large"), Uuid::from_u128(1)).unwrap().id;
    let other = space.create(&asked("other", 1, "large"), Uuid::from_u128(2)).unwrap().id;
    let identity = Identity::Nvme { host_id: [1; 16], controller: 1 };
    let asked = |volume, kind| Change { volume, nexus: Nexus(1), identity: identity.clone(), kind };
    let reservation = ReservationType::ExclusiveAccess;
    for kind in [
        ChangeKind::Register { expected: Expected::Nothing, new: 5, persist: Some(true) },
        ChangeKind::Reserve { key: 5, reservation },
    ] {
        assert_eq!(space.apply(&asked(id, kind)).0, ChangeResult::Done);
    }
    let table = space.table();
    let restriction = table.get(id).unwrap().restriction.as_ref().unwrap();
    let refusal = restriction.refusal(Nexus(2), Access::Read);
    assert_eq!(refusal, Some(Outcome::ReservationConflict));
    assert_eq!(table.get(other).unwrap().restriction, None);
    let gone = ChangeResult::Refused(Refusal::VolumeGone);
    assert_eq!(space.apply(&asked(VolumeId(99), ChangeKind::Report)).0, gone);
    assert!(space.clear_reservations(&name("nothing")).is_err());
    assert_eq!(space.clear_reservations(&name("data")).unwrap().len(), 1);
    assert_eq!(space.table().get(id).unwrap().restriction, None);
}

#[test]
fn a_volume_that_other_nodes_serve_too_has_no_reservations_and_its_tasks_can_be_ended() {
    let mut space = space();
    let made = space.create(&asked("data", 1, "large"), Uuid::from_u128(1)).unwrap().clone();
    let identity = Identity::Nvme { host_id: [1; 16], controller: 1 };
    for home in [Home::Node, Home::OtherNode, Home::Cluster] {
        space.volumes.get_mut(&made.name).unwrap().home = home;
        let support = home.support();
        assert_eq!(support, if home == Home::Node { Support::ALL } else { Support::NONE });
        let mut apply = |kind| {
            let (volume, nexus, identity) = (made.id, Nexus(1), identity.clone());
            space.apply(&Change { volume, nexus, identity, kind }).0
        };
        let refused = ChangeResult::Refused(Refusal::Unsupported);
        for kind in [
            ChangeKind::Register { expected: Expected::Nothing, new: 5, persist: None },
            ChangeKind::Report,
            ChangeKind::SetPersistence(false),
            ChangeKind::SetModes(Modes::default()),
        ] {
            assert_eq!(apply(kind) == refused, !support.reservations, "{home:?} {kind:?}");
        }
        for kind in [
            ChangeKind::Reset(ResetScope::LogicalUnit),
            ChangeKind::EndTasks(TaskSet::All),
            ChangeKind::NexusLost,
        ] {
            assert_eq!(apply(kind), ChangeResult::Done, "{home:?} {kind:?}");
        }
    }
}
