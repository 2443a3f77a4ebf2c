//! Writes of bytes and operations on words, on several cores, with device operations that take
//! effect when they end: blocks are the finest that a device writes, so two changes to one block that
//! are not kept apart lose one of the two.

use super::*;
use crate::Kind;

impl Node {
    /// Writes bytes of the volume, as a session would ask for it.
    fn submit_bytes(&mut self, core: usize, tag: u32, at: usize, bytes: &[u8]) {
        let (range, operation) = self.write_bytes(core, at, bytes);
        self.submit(core, tag, range, operation);
    }

    fn write_bytes(&mut self, core: usize, at: usize, bytes: &[u8]) -> ((u64, u64), Operation) {
        let (first, skip) = (at / BLOCK, at % BLOCK);
        let count = (skip + bytes.len()).div_ceil(BLOCK);
        // The rest of the buffer holds arbitrary bytes.
        let mut range = vec![0xA5; count * BLOCK];
        range[skip..skip + bytes.len()].copy_from_slice(bytes);
        let operation = Operation::WriteBytes {
            payload: self.payload(core, &range),
            skip: u32::try_from(skip).unwrap(),
            len: u32::try_from(bytes.len()).unwrap(),
            force_unit_access: false,
        };
        ((first as u64, count as u64), operation)
    }

    /// The volume's bytes: its second extent lies before its first.
    fn volume(&self) -> Vec<u8> {
        let mib = 1 << 20;
        [&self.device[2 * mib..3 * mib], &self.device[mib..2 * mib]].concat()
    }

    fn outcomes(&mut self) -> BTreeMap<u32, Completion> {
        let answers = self.answers.drain(..);
        answers.map(|(_, answer)| (answer.completion.tag.0, answer.completion)).collect()
    }
}

const SEAM_BYTE: usize = 1 << 20;

#[test]
fn bytes_within_blocks_are_written_and_what_is_beside_them_is_kept() {
    let mut node = Node::new(2, 1);
    node.device.fill(0x11);
    // Three blocks around the seam, the first and the last in part.
    node.submit_bytes(1, 1, SEAM_BYTE - 700, &[0x22; 1000]);
    assert_eq!(node.finish().0.outcome, Outcome::Success);
    let mut expected = vec![0x11; 2 << 20];
    expected[SEAM_BYTE - 700..SEAM_BYTE + 300].fill(0x22);
    assert!(node.volume() == expected);
    node.assert_all_returned();
}

#[test]
fn a_word_is_swapped_if_it_is_the_expected_one_and_answered_as_it_was() {
    let mut node = Node::new(2, 1);
    let swap = |expected, new| Operation::CompareAndSwap {
        word: 504,
        expected,
        new,
        force_unit_access: true,
    };
    node.submit(1, 1, (SEAM, 1), swap(0, 7));
    let (done, _) = node.finish();
    assert_eq!((done.outcome, done.payload), (Outcome::Success, Payload::Word(0)));
    node.submit(0, 2, (SEAM, 1), swap(0, 9));
    let (done, _) = node.finish();
    assert_eq!((done.outcome, done.payload), (Outcome::Miscompare, Payload::Word(7)));
    let add = Operation::FetchAdd { word: 504, addend: u64::MAX, force_unit_access: false };
    node.submit(0, 3, (SEAM, 1), add);
    let (done, _) = node.finish();
    assert_eq!((done.outcome, done.payload), (Outcome::Success, Payload::Word(7)));
    assert_eq!(node.volume()[SEAM_BYTE + 504..][..8], 6u64.to_le_bytes());
    let figures = node.figures(|_, _| true);
    let write = figures.of(Kind::Write);
    assert_eq!((write.done, write.errors), (3, 0), "a swap that came too late is no error");
    node.assert_all_returned();
}

#[test]
fn a_change_that_is_no_part_of_its_range_is_refused() {
    let mut node = Node::new(1, 1);
    let bytes = |node: &mut Node, skip, len| Operation::WriteBytes {
        payload: node.payload(0, &[0; 2 * BLOCK]),
        skip,
        len,
        force_unit_access: false,
    };
    let add = |word| Operation::FetchAdd { word, addend: 1, force_unit_access: false };
    let parts = [(512, 10), (0, 0), (0, 512), (511, 514), (u32::MAX, u32::MAX)];
    for (tag, (skip, len)) in (0..).zip(parts) {
        let operation = bytes(&mut node, skip, len);
        node.submit(0, tag, (0, 2), operation);
        assert_eq!(node.finish().0.outcome, Outcome::OutOfRange, "{skip} {len}");
    }
    for (tag, (word, count)) in (10..).zip([(4, 1), (512, 1), (0, 2), (0, 0), (u32::MAX, 1)]) {
        node.submit(0, tag, (0, count), add(word));
        assert_eq!(node.finish().0.outcome, Outcome::OutOfRange, "{word} {count}");
    }
    node.submit(0, 20, (2 * SEAM, 1), add(0));
    assert_eq!(node.finish().0.outcome, Outcome::OutOfRange);
    node.assert_all_returned();
}

#[test]
fn a_block_that_cannot_be_read_is_not_written_and_its_fence_is_lifted() {
    let mut node = Node::new(1, 1);
    let add = Operation::FetchAdd { word: 0, addend: 1, force_unit_access: false };
    node.submit(0, 1, (0, 1), add.clone());
    while node.in_flight.is_empty() {
        assert!(node.step(&mut |_, _| {}));
        node.collect();
    }
    let (_, read) = node.in_flight.pop().unwrap();
    node.engines[0].handle_device(read.id, DeviceResult::MediumError, &mut node.pools[0]);
    let (done, _) = node.finish();
    assert_eq!((done.outcome, done.payload), (Outcome::UnrecoveredRead, Payload::None));
    node.submit(0, 2, (0, 1), add);
    assert_eq!(node.finish().0.outcome, Outcome::Success);
    node.assert_all_returned();
}

#[test]
fn changes_go_on_when_the_pool_is_full_of_what_waits_to_be_written() {
    let mut node = Node::new(1, 1);
    let writes: Vec<_> = (0..256).map(|at| node.write_bytes(0, at * 100 + 1, &[1; 50])).collect();
    assert_eq!(node.pools[0].free_len(), ByteLen(0));
    for (tag, (range, operation)) in (0..).zip(writes) {
        node.submit(0, tag, range, operation);
    }
    node.run();
    let outcomes = node.outcomes();
    assert_eq!(outcomes.len(), 256);
    assert!(outcomes.values().all(|done| done.outcome == Outcome::Success));
    node.assert_all_returned();
}

#[test]
fn a_plain_write_asks_nobody_and_waits_only_where_something_is_changed() {
    let mut node = Node::new(2, 1);
    let plain = |node: &mut Node| Operation::Write {
        payload: node.payload(0, &[3; BLOCK]),
        force_unit_access: false,
    };
    let operation = plain(&mut node);
    node.submit(0, 1, (0, 1), operation);
    node.collect();
    assert_eq!((node.in_flight.len(), node.messages.len()), (1, 0));
    node.run();
    // A change of block 0 is under way: writes to it wait, writes to other blocks do not.
    node.submit_bytes(0, 2, 10, &[7; 10]);
    while node.in_flight.is_empty() {
        assert!(node.step(&mut |_, _| {}));
        node.collect();
    }
    for (tag, lba) in [(3, 0), (4, 1)] {
        let operation = plain(&mut node);
        node.submit(0, tag, (lba, 1), operation);
    }
    node.collect();
    let writes = |node: &Node| {
        let write = |r: &DeviceRequest| matches!(r.operation, DeviceOperation::Write { .. });
        node.in_flight.iter().filter(|(_, r)| write(r)).count()
    };
    assert_eq!(writes(&node), 1, "the write beside it");
    node.run();
    assert_eq!(node.outcomes().len(), 4);
    assert_eq!(node.volume()[..BLOCK], [3; BLOCK], "the plain write came last");
    node.assert_all_returned();
}

#[test]
fn a_clients_memory_goes_to_the_device_as_it_is_and_is_handed_back() {
    let mut node = Node::new(1, 1);
    let memory = Foreign { region: 1, offset: 4096, len: 512 };
    let lent = node.pools[0].lend(memory);
    node.submit(0, 1, (0, 1), Operation::Write { payload: lent, force_unit_access: false });
    let into = node.pools[0].lend(memory);
    node.submit(0, 2, (0, 1), Operation::ReadInto { buffer: into });
    node.collect();
    let requests: Vec<DeviceRequest> = node.in_flight.drain(..).map(|(_, r)| r).collect();
    assert_eq!(requests.len(), 2);
    for request in requests {
        node.engines[0].handle_device(request.id, DeviceResult::Done, &mut node.pools[0]);
    }
    node.collect();
    let outcomes = node.outcomes();
    assert_eq!(outcomes[&1].payload, Payload::None);
    assert_eq!(outcomes[&2].payload, Payload::Buffer(into), "as for a read");
    assert_eq!(node.pools[0].foreign_count(), 1);
    node.pools[0].give_back(into);
    // A failed request gives its memory back itself.
    let into = node.pools[0].lend(memory);
    node.submit(0, 3, (2 * SEAM, 1), Operation::ReadInto { buffer: into });
    assert_eq!(node.finish().0.outcome, Outcome::OutOfRange);
    assert_eq!(node.pools[0].foreign_count(), 0);
    node.assert_all_returned();
}

/// Writers that each own every third byte of a few blocks, word adders in the same blocks, and
/// plain writes of whole blocks elsewhere: in any order of events, each finds its own changes in
/// the end.
fn check_nothing_is_lost(seed: u64, cores: u16, requests: u32) {
    const WORDS: usize = 4;
    const LEN: usize = 3 * BLOCK;
    let start = SEAM_BYTE - BLOCK;
    let mut node = Node::new(cores, seed);
    // Words at the front of each block's second half; bytes everywhere else.
    let is_word = |at: usize| (at % BLOCK) >= BLOCK - 8 * WORDS;
    let mut model = vec![0u8; LEN];
    let mut sums = [[0u64; WORDS]; 3];
    let mut busy = vec![None; LEN];
    let mut tag = 0;
    while tag < requests {
        let core = node.dice.below(usize::from(cores));
        if node.dice.below(3) == 0 {
            let (block, word) = (node.dice.below(3), node.dice.below(WORDS));
            let addend = node.dice.below(1 << 30) as u64;
            sums[block][word] = sums[block][word].wrapping_add(addend);
            let word = u32::try_from(BLOCK - 8 * WORDS + 8 * word).unwrap();
            let add = Operation::FetchAdd { word, addend, force_unit_access: false };
            node.submit(core, tag, ((start / BLOCK + block) as u64, 1), add);
            tag += 1;
        } else {
            let at = node.dice.below(LEN);
            let len = 1 + node.dice.below(40);
            let place = at..(at + len).min(LEN);
            // Two writes of one byte in flight have no order.
            if !busy[place.clone()].iter().any(Option::is_some) && !place.clone().any(is_word) {
                let fill = u8::try_from(1 + node.dice.below(255)).unwrap();
                model[place.clone()].fill(fill);
                busy[place.clone()].fill(Some(tag));
                node.submit_bytes(core, tag, start + at, &vec![fill; place.len()]);
                tag += 1;
            }
        }
        for _ in 0..node.dice.below(8) {
            node.step(&mut |_, _| {});
        }
        for (_, answer) in &node.answers {
            let ended = Some(answer.completion.tag.0);
            busy.iter_mut().filter(|of| **of == ended).for_each(|of| *of = None);
        }
    }
    node.run();
    let outcomes = node.outcomes();
    assert_eq!(outcomes.len(), usize::try_from(requests).unwrap(), "each is answered once");
    assert!(outcomes.values().all(|done| done.outcome == Outcome::Success));
    for (block, sums) in sums.iter().enumerate() {
        for (word, sum) in sums.iter().enumerate() {
            let at = (block + 1) * BLOCK - 8 * (WORDS - word);
            model[at..at + 8].copy_from_slice(&sum.to_le_bytes());
        }
    }
    let volume = node.volume();
    let found = &volume[start..start + LEN];
    let differs = (0..LEN).find(|at| found[*at] != model[*at]);
    assert_eq!(differs, None, "byte of the three blocks that was lost");
    node.assert_all_returned();
}

/// Every successful swap replaced the word of the previous one: the words form one chain.
fn check_swaps_are_one_chain(seed: u64, requests: u32) {
    let mut node = Node::new(3, seed);
    let mut guess = 0;
    for tag in 1..=requests {
        let core = node.dice.below(3);
        let swap = Operation::CompareAndSwap {
            word: 0,
            expected: guess,
            new: tag.into(),
            force_unit_access: false,
        };
        node.submit(core, tag, (SEAM, 1), swap);
        for _ in 0..node.dice.below(30) {
            node.step(&mut |_, _| {});
        }
        if let Some((_, answer)) = node.answers.last() {
            let done = &answer.completion;
            let Payload::Word(previous) = done.payload else { panic!("{done:?}") };
            guess = if done.outcome == Outcome::Success { done.tag.0.into() } else { previous };
        }
    }
    node.run();
    let mut follows = BTreeMap::new();
    for (tag, done) in node.outcomes() {
        let Payload::Word(previous) = done.payload else { panic!("{done:?}") };
        if done.outcome == Outcome::Success {
            assert_eq!(follows.insert(previous, u64::from(tag)), None, "two replaced one word");
        }
    }
    let mut word = 0;
    while let Some(next) = follows.remove(&word) {
        word = next;
    }
    assert!(follows.is_empty(), "a swap replaced what was never there");
    assert_eq!(node.volume()[SEAM_BYTE..][..8], word.to_le_bytes());
    node.assert_all_returned();
}

proptest! {
    #[test]
    fn no_byte_and_no_addition_is_lost_on_one_core(seed: u64) {
        check_nothing_is_lost(seed, 1, 80);
    }

    #[test]
    fn no_byte_and_no_addition_is_lost_on_several_cores(seed: u64) {
        check_nothing_is_lost(seed, 3, 80);
    }

    #[test]
    fn swaps_of_a_word_happen_one_after_the_other(seed: u64) {
        check_swaps_are_one_chain(seed, 60);
    }
}

/// The node that has the blocks keeps the other bytes: this one neither reads them nor fences them.
#[test]
fn on_a_volume_of_another_node_bytes_are_forwarded_and_words_are_refused() {
    let mut node = Node::new(1, 1);
    let entry = nearflash_space::VolumeEntry {
        sharing: nearflash_space::Sharing::Forwarded,
        ..map().into()
    };
    node.engines[0].set_volumes(Arc::new(VolumeTable::new([(VOLUME, entry)])));
    let (range, operation) = node.write_bytes(0, SEAM_BYTE - 700, &[0x22; 1000]);
    node.submit(0, 1, range, operation);
    let mut asked = Vec::new();
    while let Some((request, _)) = node.engines[0].poll_device() {
        assert!(matches!(request.operation, DeviceOperation::Write { .. }));
        asked.push((request.offset.0, request.len.0));
        node.engines[0].handle_device(request.id, DeviceResult::Done, &mut node.pools[0]);
    }
    assert_eq!(asked, [(3 * MIB - 700, 700), (MIB, 300)]);
    assert!(node.engines[0].poll_fence().is_none());
    let answer = node.engines[0].poll_answer().unwrap();
    assert_eq!(answer.completion.outcome, Outcome::Success);
    let add = Operation::FetchAdd { word: 0, addend: 1, force_unit_access: false };
    node.submit(0, 2, (0, 1), add);
    let answer = node.engines[0].poll_answer().unwrap();
    assert_eq!(answer.completion.outcome, Outcome::Unsupported);
}
