//! The direct client against a model, which is a vector: for any operations in flight together,
//! each read returns the model's bytes, and in the end both are equal.
#![allow(clippy::unwrap_used, reason = "tests")]

#[allow(dead_code, reason = "shared with other tests")]
use crate::fake_node;

use std::collections::HashMap;
use std::time::Duration;

use fake_node::{BLOCK_LEN, FakeNode, Script, VOLUME, VOLUME_LEN};
use nearflash::direct::{Buffer, Client, Completion, Credentials, QueueOptions, QueuePair, Token};
use proptest::prelude::*;
use proptest::sample::Index;

/// Operations in flight together are in separate zones, so that their order does not matter.
const ZONES: usize = 24;
const ZONE_LEN: usize = VOLUME_LEN / ZONES;

/// An operation, at an offset within its zone; a vectored one has two buffers, the first of which
/// has `first` bytes.
#[derive(Clone, Copy, Debug)]
enum Op {
    Read { at: usize, len: usize },
    Write { at: usize, len: usize, byte: u8, durable: bool },
    ReadVectored { at: usize, len: usize, first: usize },
    WriteVectored { at: usize, len: usize, first: usize, byte: u8 },
    WriteZeroes { at: usize, len: usize },
    Discard { at: usize, len: usize },
    Zero { block: usize, blocks: usize },
    CompareAndSwap { word: usize, expected: u64, new: u64 },
    FetchAdd { word: usize, addend: u64 },
    Flush,
}

fn extent() -> impl Strategy<Value = (usize, usize)> {
    let len = prop_oneof![1usize..64, 4000usize..4200, Just(8192), 1usize..200_000];
    let at = prop_oneof![0usize..20_000, (0usize..8).prop_map(|block| block * BLOCK_LEN)];
    (at, len)
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => extent().prop_map(|(at, len)| Op::Read { at, len }),
        4 => (extent(), 1u8.., any::<bool>()).prop_map(|((at, len), byte, durable)| {
            Op::Write { at, len, byte, durable }
        }),
        1 => extent().prop_map(|(at, len)| Op::Discard { at, len }),
        1 => (0usize..8, 1usize..50).prop_map(|(block, blocks)| Op::Zero { block, blocks }),
        1 => (0usize..4, 0u64..3, 0u64..3).prop_map(|(word, expected, new)| {
            Op::CompareAndSwap { word, expected, new }
        }),
        1 => (0usize..4, any::<u64>()).prop_map(|(word, addend)| Op::FetchAdd { word, addend }),
        1 => Just(Op::Flush),
        1 => (extent(), any::<Index>()).prop_map(|((at, len), first)| {
            Op::ReadVectored { at, len, first: first.index(len + 1) }
        }),
        1 => (extent(), any::<Index>(), 1u8..255).prop_map(|((at, len), first, byte)| {
            Op::WriteVectored { at, len, first: first.index(len + 1), byte }
        }),
        1 => extent().prop_map(|(at, len)| Op::WriteZeroes { at, len }),
    ]
}

/// The expected completion: a value, and the bytes of a read.
type Expected = (u64, Option<Vec<u8>>);

fn post(pair: &mut QueuePair, model: &mut [u8], zone: usize, op: Op) -> (Token, Expected) {
    let start = zone * ZONE_LEN;
    let offset = |at: usize| u64::try_from(start + at).unwrap();
    match op {
        Op::Read { at, len } => {
            let token = pair.post_read_at(Buffer::from(vec![0xA5; len]), offset(at)).unwrap();
            (token, (0, Some(model[start + at..][..len].to_vec())))
        }
        Op::Write { at, len, byte, durable } => {
            let buffer = Buffer::from(vec![byte; len]);
            model[start + at..][..len].fill(byte);
            let posted = match durable {
                true => pair.post_write_durable_at(buffer, offset(at)),
                false => pair.post_write_at(buffer, offset(at)),
            };
            (posted.unwrap(), (0, None))
        }
        Op::Discard { at, len } => {
            // Whole blocks only.
            let first = (start + at).next_multiple_of(BLOCK_LEN);
            let end = (start + at + len) / BLOCK_LEN * BLOCK_LEN;
            if first < end {
                model[first..end].fill(0);
            }
            (pair.post_discard(offset(at), u64::try_from(len).unwrap()).unwrap(), (0, None))
        }
        Op::Zero { block, blocks } => {
            let (at, len) = (block * BLOCK_LEN, blocks * BLOCK_LEN);
            model[start + at..][..len].fill(0);
            (pair.post_write_zeroes(offset(at), u64::try_from(len).unwrap()).unwrap(), (0, None))
        }
        Op::CompareAndSwap { word, expected, new } => {
            let place = &mut model[start + word * 8..][..8];
            let was = u64::from_le_bytes((&*place).try_into().unwrap());
            if was == expected {
                place.copy_from_slice(&new.to_le_bytes());
            }
            (pair.post_compare_and_swap(offset(word * 8), expected, new).unwrap(), (was, None))
        }
        Op::FetchAdd { word, addend } => {
            let place = &mut model[start + word * 8..][..8];
            let was = u64::from_le_bytes((&*place).try_into().unwrap());
            place.copy_from_slice(&was.wrapping_add(addend).to_le_bytes());
            (pair.post_fetch_add(offset(word * 8), addend).unwrap(), (was, None))
        }
        Op::Flush => (pair.post_flush().unwrap(), (0, None)),
        Op::ReadVectored { at, len, first } => {
            let buffers = [first, len - first].map(|len| Buffer::from(vec![0xA5; len])).into();
            let token = pair.post_read_vectored_at(buffers, offset(at)).unwrap();
            (token, (0, Some(model[start + at..][..len].to_vec())))
        }
        Op::WriteVectored { at, len, first, byte } => {
            let parts = [vec![byte; first], vec![byte + 1; len - first]];
            model[start + at..][..len].copy_from_slice(&parts.concat());
            let buffers = parts.map(Buffer::from).into();
            (pair.post_write_vectored_at(buffers, offset(at)).unwrap(), (0, None))
        }
        Op::WriteZeroes { at, len } => {
            model[start + at..][..len].fill(0);
            (pair.post_write_zeroes(offset(at), u64::try_from(len).unwrap()).unwrap(), (0, None))
        }
    }
}

fn finish(pair: &mut QueuePair, expected: &mut HashMap<Token, Expected>) {
    let mut done = Vec::new();
    while pair.in_flight() > 0 {
        if pair.poll(&mut done).unwrap() == 0 {
            pair.wait(Duration::from_secs(5)).unwrap();
        }
    }
    for Completion { token, result, buffer, buffers, .. } in done {
        let (value, bytes) = expected.remove(&token).expect("each completes once");
        assert_eq!(result.unwrap(), value);
        if let Some(bytes) = bytes {
            let read = buffers.iter().chain(&buffer).flat_map(|part| part.to_vec());
            assert!(read.eq(bytes.iter().copied()), "{} bytes", bytes.len());
        }
    }
    assert!(expected.is_empty(), "each completes");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_volume_is_a_vector(
        batches in prop::collection::vec(prop::collection::vec(op(), 1..ZONES), 1..12),
        swaps in any::<bool>(),
        digests in prop::sample::select(vec!["", "?digest=data", "?digest=header,data"]),
    ) {
        let node = FakeNode::start(&[Script { swaps, ..Script::default() }]);
        let url = format!("{}{digests}", node.url);
        let client = Client::connect(&url, Credentials::NONE).unwrap();
        let mut pair = client.queue_pair(VOLUME, QueueOptions::default()).unwrap();
        let mut model = vec![0; VOLUME_LEN];
        for (number, batch) in batches.into_iter().enumerate() {
            if number % 3 == 2 {
                node.next_epoch();
            }
            let mut expected = HashMap::new();
            for (zone, op) in batch.into_iter().enumerate() {
                let (token, outcome) = post(&mut pair, &mut model, zone, op);
                prop_assert!(expected.insert(token, outcome).is_none(), "tokens are distinct");
            }
            finish(&mut pair, &mut expected);
        }
        prop_assert!(*node.bytes() == model);
    }
}
