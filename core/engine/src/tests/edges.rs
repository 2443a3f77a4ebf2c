//! A volume with eight blocks in each block of its device: in any order of events, a write leaves
//! the neighbours in the same device block unchanged.

use super::*;

/// Two blocks of the device, on both sides of the seam.
const FIRST: u64 = SEAM - 8;
const COUNT: usize = 16;

/// An operation on a free range, and the expected content of each of its blocks.
fn any_write(node: &mut Node, core: usize, range: (u64, u64), fill: u8) -> (Operation, u8) {
    let len = usize::try_from(range.1).unwrap() * BLOCK;
    let force_unit_access = node.dice.below(2) == 0;
    let ranges = Box::new([BlockRange { start: Lba(range.0), count: Blocks(range.1) }]);
    match node.dice.below(7) {
        0 => (Operation::WriteZeroes { deallocate: true, force_unit_access }, 0),
        1 => (Operation::Deallocate { ranges, zeroes: true }, 0),
        2 => {
            let payload = node.payload(core, &[fill; BLOCK]);
            (Operation::WriteSame { payload, force_unit_access }, fill)
        }
        3 => {
            let payload = node.payload(core, &vec![fill; len]);
            (Operation::WriteAndVerify { payload, compare: true }, fill)
        }
        4 => {
            // From blocks that nobody writes.
            let from = BlockRange { start: Lba(3), count: Blocks(range.1) };
            (Operation::Copy { source: VOLUME, from }, 0xEE)
        }
        _ => {
            let payload = node.payload(core, &vec![fill; len]);
            (Operation::Write { payload, force_unit_access }, fill)
        }
    }
}

/// Writes of every kind, of ranges that no other write in flight touches.
fn check_neighbours_are_kept(seed: u64, requests: u32) {
    // Even: the device's blocks are large.
    let mut node = Node::new(2, seed << 1);
    let source = usize::try_from(2 * MIB).unwrap();
    node.device[source..source + 16 * BLOCK].fill(0xEE);
    let mut model = [0_u8; COUNT];
    let mut busy = [None; COUNT];
    for tag in 0..requests {
        let core = node.dice.below(2);
        let start = node.dice.below(COUNT);
        let free = busy[start..].iter().take(6).take_while(|of| of.is_none()).count();
        if free > 0 {
            let count = 1 + node.dice.below(free);
            let range = (FIRST + start as u64, count as u64);
            let fill = u8::try_from(1 + node.dice.below(200)).unwrap();
            let (operation, becomes) = any_write(&mut node, core, range, fill);
            model[start..start + count].fill(becomes);
            busy[start..start + count].fill(Some(tag));
            node.submit(core, tag, range, operation);
        }
        for _ in 0..node.dice.below(12) {
            node.step(&mut |_, _| {});
        }
        for (_, answer) in node.answers.drain(..) {
            assert_eq!(answer.completion.outcome, Outcome::Success);
            let ended = Some(answer.completion.tag.0);
            busy.iter_mut().filter(|of| **of == ended).for_each(|of| *of = None);
        }
    }
    node.run();
    node.answers.clear();
    node.submit(1, requests, (FIRST - 1, 18), Operation::Read);
    let (completion, bytes) = node.finish();
    assert_eq!(completion.outcome, Outcome::Success);
    for (block, fill) in model.iter().enumerate() {
        let found = &bytes[(block + 1) * BLOCK..][..BLOCK];
        assert!(found.iter().all(|byte| byte == fill), "block {block}: {fill} became {}", found[0]);
    }
    node.assert_all_returned();
}

#[test]
fn a_failed_read_of_an_edge_fails_the_write_and_changes_nothing() {
    let mut node = Node::new(1, 2);
    let payload = node.payload(0, &[7; BLOCK]);
    let write = Operation::Write { payload, force_unit_access: false };
    node.submit(0, 1, (3, 1), write);
    while node.in_flight.is_empty() {
        assert!(node.step(&mut |_, _| {}));
        node.collect();
    }
    let (_, read) = node.in_flight.pop().unwrap();
    assert!(matches!(read.operation, DeviceOperation::Read { .. }));
    node.engines[0].handle_device(read.id, DeviceResult::MediumError, &mut node.pools[0]);
    assert_eq!(node.finish().0.outcome, Outcome::UnrecoveredRead);
    assert!(node.device.iter().all(|byte| *byte == 0));
    node.assert_all_returned();
}

#[test]
fn edges_go_on_one_by_one_when_the_pool_is_full() {
    let mut node = Node::new(1, 2);
    let mut taken = Vec::new();
    let payloads: Vec<BufferId> = (0..20).map(|fill| node.payload(0, &[fill; BLOCK])).collect();
    while let Some(buffer) = node.pools[0].take(ByteLen(4096)) {
        taken.push(buffer);
    }
    for (tag, payload) in (0..).zip(payloads) {
        let write = Operation::Write { payload, force_unit_access: false };
        node.submit(0, tag, (u64::from(tag) * 16 + 3, 1), write);
    }
    node.run();
    assert_eq!(node.answers.drain(..).count(), 20);
    taken.into_iter().for_each(|buffer| node.pools[0].give_back(buffer));
    node.assert_all_returned();
}

proptest! {
    #[test]
    fn neighbours_in_a_block_of_the_device_are_kept(seed: u64) {
        check_neighbours_are_kept(seed, 80);
    }
}

#[test]
fn a_longest_transfer_finds_room_behind_all_reserves() {
    for runs in 3..=32 {
        let device = DeviceProperties {
            len: ByteLen(4 * MIB),
            block_size: BlockSize::B4096,
            volatile_cache: true,
            reads_as_zeroes: false,
            deallocates: true,
        };
        let mut pool = Pool::new(ByteLen(runs * MIB));
        let config = EngineConfig {
            core: CoreId::FIRST,
            core_count: 1,
            devices: Arc::from([device]),
            health: Arc::new([Arc::default()]),
            volumes: table(),
            device_depth: DEVICE_DEPTH,
        };
        let mut engine = Engine::new(config, &mut pool);
        engine.reserve_for_faces(&mut pool);
        assert!(pool.take(Pool::LEN_MAX).is_some(), "a pool of {runs} MiB");
    }
}
