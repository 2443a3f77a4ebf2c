use proptest::prelude::*;
use zerocopy::FromZeros;
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U32, U64};

use crate::answer::{
    self, Answer, EntryRecord, MESSAGE_TEXT_LEN_MAX, encode_names, entries, names, push_entry,
};
use crate::check::{check_answer, check_request};
use crate::{DATA_LEN_MAX, MESSAGE_LEN_MAX, MessageError, NAME_LEN_MAX, Operation};
use crate::{Request, RequestHead};

#[test]
fn the_document_has_every_operation_with_its_number_and_effect() {
    let document = include_str!("../../../docs/files-calls.md");
    let rows: Vec<Vec<&str>> = document
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    assert_eq!(rows.len(), Operation::all().count());
    for (operation, row) in Operation::all().zip(rows) {
        let (name, effect) = operation.known().unwrap();
        assert_eq!(row[1], format!("`{name}`"));
        assert_eq!(row[2], operation.0.to_string(), "{name}");
        assert!(row[3].starts_with(effect), "{name}: {} {effect}", row[3]);
    }
}

#[test]
fn operations_are_distinct_and_those_that_change_come_last() {
    let mut all: Vec<u8> = Operation::all().map(|operation| operation.0).collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), Operation::all().count());
    assert!(!Operation::READ.is_change() && Operation::CREATE.is_change());
    assert!(Operation(0xFF).is_change(), "an unknown operation needs all rights");
    assert_eq!(Operation(0xFF).name(), "unknown");
}

#[test]
fn the_longest_message_holds_the_longest_parts() {
    let (name, data) = ([7; NAME_LEN_MAX], vec![7; DATA_LEN_MAX]);
    let request = Request { name: &name, second: &name, data: &data, ..Request::default() };
    assert!(request.encode().unwrap().len() <= MESSAGE_LEN_MAX);
    assert!(Answer::done(0, &data).encode().unwrap().len() <= MESSAGE_LEN_MAX);
}

#[test]
fn parts_that_are_too_long_are_refused_at_both_ends() {
    let (name, data) = ([7; NAME_LEN_MAX + 1], vec![7; DATA_LEN_MAX + 1]);
    for request in [
        Request { name: &name, ..Request::default() },
        Request { second: &name, ..Request::default() },
        Request { data: &data, ..Request::default() },
    ] {
        assert_eq!(request.encode(), Err(MessageError::TooLong));
    }
    assert_eq!(Answer::done(0, &data).encode(), Err(MessageError::TooLong));
    let mut head = RequestHead::new_zeroed();
    head.data_len = U32::new(u32::MAX);
    assert_eq!(Request::decode(head.as_bytes()), Err(MessageError::TooLong));
}

#[test]
fn a_message_of_another_length_than_its_parts_is_refused() {
    let request = Request { name: b"name", data: b"data", ..Request::new(Operation::CREATE, 7) };
    let bytes = request.encode().unwrap();
    for len in 0..bytes.len() {
        assert_eq!(Request::decode(&bytes[..len]), Err(MessageError::Length), "{len}");
    }
    let answer = Answer::done(7, b"payload").encode().unwrap();
    for len in 0..answer.len() {
        assert_eq!(Answer::decode(&answer[..len]), Err(MessageError::Length), "{len}");
    }
}

#[test]
fn the_message_of_an_error_is_cut_to_its_bound() {
    let text = "x".repeat(MESSAGE_TEXT_LEN_MAX + 1);
    assert_eq!(Answer::failed(5, &text).payload.len(), MESSAGE_TEXT_LEN_MAX);
}

#[test]
fn a_payload_takes_entries_until_it_is_full() {
    let name = [b'n'; NAME_LEN_MAX];
    let entry = EntryRecord { inode: 1, kind: 1, name: &name };
    let mut payload = Vec::new();
    while push_entry(&mut payload, &entry) {}
    assert!(payload.len() <= DATA_LEN_MAX && payload.len() > DATA_LEN_MAX - 300);
    assert!(!push_entry(&mut Vec::new(), &EntryRecord { name: b"", ..entry }));
    assert!(encode_names(&[Vec::new()]).is_none());
}

proptest! {
    #[test]
    fn a_request_is_read_as_it_was_written(
        numbers in any::<[u64; 6]>(),
        words in any::<[u32; 5]>(),
        (operation, variant) in any::<(u8, u8)>(),
        name in prop::collection::vec(any::<u8>(), 0..=NAME_LEN_MAX),
        second in prop::collection::vec(any::<u8>(), 0..=NAME_LEN_MAX),
        data in prop::collection::vec(any::<u8>(), 0..3000),
    ) {
        let [inode, other, offset, len, accessed_at, modified_at] = numbers.map(U64::new);
        let [set, mode, uid, gid, device] = words.map(U32::new);
        let head = RequestHead {
            operation, variant, inode, other, offset, len, accessed_at, modified_at,
            set, mode, uid, gid, device, ..RequestHead::default()
        };
        let request = Request { head, name: &name, second: &second, data: &data };
        let bytes = request.encode().unwrap();
        prop_assert_eq!(Request::decode(&bytes), Ok(request));
    }

    #[test]
    fn an_answer_is_read_as_it_was_written(
        (errno, value) in any::<(u32, u64)>(),
        payload in prop::collection::vec(any::<u8>(), 0..3000),
    ) {
        let answer = Answer { errno, value, payload: &payload };
        let bytes = answer.encode().unwrap();
        prop_assert_eq!(Answer::decode(&bytes), Ok(answer));
    }

    #[test]
    fn entries_and_names_are_read_as_they_were_written(
        given in prop::collection::vec(
            (any::<u64>(), any::<u8>(), prop::collection::vec(any::<u8>(), 1..=NAME_LEN_MAX)),
            0..20,
        ),
    ) {
        let given_entries: Vec<EntryRecord<'_>> = given
            .iter()
            .map(|(inode, kind, name)| EntryRecord { inode: *inode, kind: *kind, name })
            .collect();
        let mut payload = Vec::new();
        prop_assert!(given_entries.iter().all(|entry| push_entry(&mut payload, entry)));
        prop_assert_eq!(entries(&payload), Ok(given_entries));
        let given_names: Vec<Vec<u8>> = given.iter().map(|(_, _, name)| name.clone()).collect();
        let payload = encode_names(&given_names).unwrap();
        prop_assert_eq!(names(&payload), Ok(given_names));
    }

    #[test]
    fn no_bytes_break_a_decoder(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        check_request(&bytes);
        check_answer(&bytes);
        let answer = Answer::done(0, &bytes).encode().unwrap();
        check_answer(&answer);
        let _ = answer::InodeRecord::decode(&bytes);
    }
}
