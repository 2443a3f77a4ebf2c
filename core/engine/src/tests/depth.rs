//! The bound on the requests that a device has, where a volume lies on two devices.

use super::*;

/// The volume's second MiB is on the second device, each of which takes one request at a time.
fn engine() -> (Engine, Pool) {
    let device = DeviceProperties {
        len: ByteLen(4 * MIB),
        block_size: BlockSize::B512,
        volatile_cache: true,
        reads_as_zeroes: false,
        deallocates: true,
    };
    let extent =
        |device| Extent { device: DeviceId(device), start: ByteOffset(MIB), len: ByteLen(MIB) };
    let extents = [extent(0), extent(1)];
    let map = Map::new(Epoch(1), BlockSize::B512, Blocks(2 * SEAM), &extents).unwrap();
    let config = EngineConfig {
        core: CoreId(0),
        core_count: 1,
        devices: Arc::from([device; 2]),
        health: Arc::new([Arc::default(), Arc::default()]),
        volumes: Arc::new(VolumeTable::new([(VOLUME, map)])),
        device_depth: 1,
    };
    let mut pool = Pool::new(ByteLen(2 * MIB));
    (Engine::new(config, &mut pool), pool)
}

/// The devices of the operations that the engine has after these requests.
fn devices_of(asked: &[(Operation, u64, u64)]) -> Vec<DeviceId> {
    let (mut engine, mut pool) = engine();
    for (tag, (operation, start, count)) in (0..).zip(asked.iter().cloned()) {
        let range = BlockRange { start: Lba(start), count: Blocks(count) };
        let account = engine.accounts().open(None);
        let asker = Asker { owner: Owner(0), account, nexus: Nexus::NONE };
        let request = Request { tag: Tag(tag), volume: VOLUME, range, operation };
        engine.submit(asker, request, &mut pool);
    }
    std::iter::from_fn(|| engine.poll_device()).map(|request| request.device).collect()
}

#[test]
fn a_request_counts_for_each_device_that_it_has_blocks_on() {
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
