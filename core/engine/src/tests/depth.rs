//! The bound on the requests that a device has, where a volume lies on several devices.

use super::*;

/// The volume's second MiB is on the second device.
fn in_order() -> Map {
    let extents = [0, 1].map(extent);
    Map::new(Epoch(1), BlockSize::B512, Blocks(2 * SEAM), &extents).unwrap()
}

/// Each device has every third 4 KiB of the volume.
fn striped() -> Map {
    let (unit, device_block_size) = (ByteLen(4096), BlockSize::B512);
    let stripes = Stripes { width: 3, unit, device_block_size };
    let size = (BlockSize::B512, Blocks(3 * SEAM));
    Map::striped(Epoch(1), size, stripes, &[0, 1, 2].map(extent)).unwrap()
}

fn extent(device: u32) -> Extent {
    Extent { device: DeviceId(device), start: ByteOffset(MIB), len: ByteLen(MIB) }
}

/// The devices take one request at a time.
fn engine(map: Map) -> (Engine, Pool) {
    let device = DeviceProperties {
        len: ByteLen(4 * MIB),
        block_size: BlockSize::B512,
        volatile_cache: true,
        reads_as_zeroes: false,
        deallocates: true,
    };
    let config = EngineConfig {
        core: CoreId(0),
        core_count: 1,
        devices: Arc::from([device; 3]),
        health: Arc::new([Arc::default(), Arc::default(), Arc::default()]),
        volumes: Arc::new(VolumeTable::new([(VOLUME, map)])),
        device_depth: 1,
    };
    let mut pool = Pool::new(ByteLen(2 * MIB));
    (Engine::new(config, &mut pool), pool)
}

/// The devices of the operations that the engine has after these requests.
fn devices_of(map: Map, asked: &[(Operation, u64, u64)]) -> Vec<DeviceId> {
    let (mut engine, mut pool) = engine(map);
    for (tag, (operation, start, count)) in (0..).zip(asked.iter().cloned()) {
        let range = BlockRange { start: Lba(start), count: Blocks(count) };
        let account = engine.accounts().open(None);
        let asker = Asker { owner: Owner(0), account, nexus: Nexus::NONE, begin_by: Nanos::NEVER };
        let request = Request { tag: Tag(tag), volume: VOLUME, range, operation, sent_in: None };
        engine.submit(asker, request, &mut pool);
    }
    std::iter::from_fn(|| engine.poll_device()).map(|(request, _)| request.device).collect()
}

#[test]
fn a_request_counts_for_each_device_that_it_has_blocks_on() {
    let devices_of = |asked: &[_]| devices_of(in_order(), asked);
    let read = |start, count| (Operation::Read, start, count);
    let (one, other) = (DeviceId(0), DeviceId(1));
    assert_eq!(devices_of(&[read(0, 8), read(SEAM, 8)]), [one, other]);
    assert_eq!(devices_of(&[read(SEAM - 1, 2), read(SEAM, 8)]), [one, other], "the second waits");
    assert_eq!(devices_of(&[read(SEAM, 8), read(SEAM - 1, 2)]), [other], "the second waits");
    let ranges = [SEAM, 0].map(|start| BlockRange { start: Lba(start), count: Blocks(8) });
    let discard = Operation::Deallocate { ranges: Box::new(ranges), zeroes: false };
    assert_eq!(devices_of(&[read(SEAM, 8), (discard, 0, 0)]), [other], "the discard waits");
    assert_eq!(devices_of(&[read(SEAM, 8), (Operation::Flush, 0, 0)]), [other], "so does a flush");
}

#[test]
fn a_striped_request_counts_once_for_each_device_however_many_units_it_has() {
    let devices_of = |asked: &[_]| devices_of(striped(), asked);
    let read = |start, count| (Operation::Read, start, count);
    let [one, two, three] = [0, 1, 2].map(DeviceId);
    assert_eq!(devices_of(&[read(0, 8), read(8, 8), read(16, 8)]), [one, two, three]);
    assert_eq!(devices_of(&[read(0, 16), read(16, 8)]), [one, two, three]);
    assert_eq!(devices_of(&[read(0, 16), read(24, 8)]), [one, two], "the second waits");
    let all = devices_of(&[read(0, SEAM), read(0, 8), read(8, 8), read(16, 8)]);
    assert_eq!(all.len(), 64, "the others wait");
    let zeroes = Operation::WriteZeroes { deallocate: false, force_unit_access: false };
    assert_eq!(devices_of(&[(zeroes, 0, 3 * SEAM), read(0, 8)]), [one, two, three]);
}
