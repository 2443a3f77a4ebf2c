//! A session against a client that is written here byte by byte.

use std::ops::Range;
use std::sync::Arc;

use nearflash_request::{Completion, Operation, Outcome, Payload};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use super::*;
use crate::Secret;
use crate::check::target::{
    Bench, CREDITS, EPOCH, KEY, LEN_MAX, NAME, Stand, VOLUME_LEN, config, exports, hello, message,
    secret,
};
use crate::check::volume::VOLUME;
use crate::digest::Digests;
use crate::proof::{client_proof, node_proof};
use crate::wire::{
    AnswerHeader, AttachRequest, Features, HEADER_LEN, HelloAnswer, NEW_HANDLE, NO_TAG, Opcode,
    OpenAnswer, RequestHeader, Rights, SEGMENT_LEN_MAX, Status, VERSION,
};

/// A stream to an open door.
const OPEN: Stand =
    Stand { digests: Digests::NONE, with_key: false, local: false, is_in: true, by_rings: false };
/// One whose client has a key.
const KEYED: Stand = Stand { with_key: true, ..OPEN };
const RINGS: Stand = Stand { local: true, by_rings: true, ..OPEN };
/// Before the handshake.
const OUTSIDE: Stand = Stand { is_in: false, ..OPEN };

fn header(tag: u32, offset: u64, len: u32) -> RequestHeader {
    RequestHeader {
        tag: U32::new(tag),
        offset: U64::new(offset),
        len: U32::new(len),
        epoch: U32::new(EPOCH),
        ..RequestHeader::default()
    }
}

fn read(tag: u32, offset: u64, len: u32) -> Vec<u8> {
    message(Opcode::READ, header(tag, offset, len), &[], Digests::NONE)
}

fn write(tag: u32, offset: u64, payload: &[u8]) -> Vec<u8> {
    message(Opcode::WRITE, header(tag, offset, 0), payload, Digests::NONE)
}

impl Bench {
    /// What was sent since the last look, with its payload.
    fn answers(&mut self) -> Vec<(AnswerHeader, Vec<u8>)> {
        self.send();
        let sent = std::mem::take(&mut self.sent);
        let mut rest = &sent[..];
        let mut answers = Vec::new();
        while !rest.is_empty() {
            let (header, after) = AnswerHeader::read_from_prefix(rest).unwrap();
            let (payload, after) = after.split_at(crate::length(header.len.get()));
            answers.push((header, payload.to_vec()));
            rest = after;
        }
        answers
    }

    fn answer(&mut self) -> (AnswerHeader, Vec<u8>) {
        let mut answers = self.answers();
        assert_eq!(answers.len(), 1, "one answer: {answers:?}");
        answers.remove(0)
    }

    /// What one message is answered.
    fn ask(&mut self, message: &[u8]) -> (AnswerHeader, Vec<u8>) {
        self.feed(message);
        self.settle();
        self.answer()
    }

    fn status_of(&mut self, message: &[u8]) -> Status {
        self.ask(message).0.status()
    }

    /// The last words of a session that has ended.
    fn goodbye(&mut self) -> (Status, u32, u64) {
        assert!(self.target.is_closing(), "the session has ended");
        let (header, _) = self.answer();
        assert_eq!(header.opcode, Opcode::GOODBYE.answer().0);
        (header.status(), header.tag.get(), header.value.get())
    }

    fn fail_one(&mut self, outcome: Outcome) {
        let request = self.requests.pop_front().unwrap();
        if let Operation::Write { payload, .. } | Operation::WriteBytes { payload, .. } =
            request.operation
        {
            self.memory.give_back(payload);
        }
        let done = Completion { tag: request.tag, outcome, payload: Payload::None };
        self.target.handle_completion(done, &[]);
    }
}

fn granted(grants: &[(Range<u64>, Rights)], expired: bool) -> Arc<Exports> {
    let credential = CredentialExport {
        secret: secret(),
        expired,
        access: [(VOLUME, Arc::new(Access::new(grants.to_vec())))].into(),
    };
    Arc::new(Exports::new([(NAME.into(), export())], [(KEY.into(), credential)]))
}

fn export() -> Export {
    Export {
        volume: VOLUME,
        bytes: VOLUME_LEN,
        block_size: nearflash_units::BlockSize::B512,
        epoch: EPOCH,
        uuid: [9; 16],
    }
}

fn prove(bench: &mut Bench, stand: Stand, key_secret: &Secret) -> Vec<u8> {
    let hello = hello(stand);
    bench.feed(&hello);
    bench.send();
    let transcript = [&hello[..], &bench.sent[..]].concat();
    bench.sent.clear();
    let proof = client_proof(key_secret, &transcript);
    let prove = message(Opcode::PROVE, RequestHeader::default(), &proof, Digests::NONE);
    bench.feed(&prove);
    transcript
}

mod handshake {
    use super::*;

    #[test]
    fn an_anonymous_client_is_let_in_while_no_credential_exists() {
        let mut bench = Bench::new(OUTSIDE);
        let (header, payload) = bench.ask(&hello(OUTSIDE));
        let (answer, _) = HelloAnswer::ref_from_prefix(&payload).unwrap();
        assert_eq!(header.status(), Status::OK);
        assert_eq!((answer.version.get(), answer.proof_wanted), (VERSION, 0));
        assert_eq!((answer.len_max.get(), answer.credits_max.get()), (LEN_MAX, CREDITS));
        assert!(bench.target.is_ready() && bench.target.key().is_none());
        assert_eq!(bench.target.poll_timeout(), None, "the handshake is over");
    }

    #[test]
    fn an_anonymous_client_is_refused_where_a_credential_exists() {
        let config = SessionConfig { anonymous: true, ..config(OUTSIDE) };
        let mut bench = Bench::with(config, Arc::new(exports(true, EPOCH)));
        bench.feed(&hello(OUTSIDE));
        assert_eq!(bench.error, Some(PeerError::Unauthenticated));
        assert_eq!(bench.goodbye().0, Status::AUTHENTICATION_FAILED);
    }

    #[test]
    fn an_anonymous_client_is_refused_at_a_door_for_credentials_alone() {
        let config = SessionConfig { anonymous: false, ..config(OUTSIDE) };
        let mut bench = Bench::with(config, Arc::new(exports(false, EPOCH)));
        bench.feed(&hello(OUTSIDE));
        assert_eq!(bench.error, Some(PeerError::Unauthenticated));
    }

    #[test]
    fn a_client_that_proves_itself_gets_the_nodes_proof_too() {
        let mut bench = Bench::new(Stand { is_in: false, ..KEYED });
        let transcript = prove(&mut bench, KEYED, &secret());
        let (header, proof) = bench.answer();
        assert_eq!(header.status(), Status::OK);
        assert_eq!(proof, node_proof(&secret(), &transcript));
        assert_eq!(bench.target.key(), Some(KEY));
    }

    #[test]
    fn a_wrong_secret_and_an_unknown_key_are_refused_alike() {
        let mut wrong = Bench::new(Stand { is_in: false, ..KEYED });
        prove(&mut wrong, KEYED, &Secret::new([1; 32]));
        let unknown_key = Arc::new(Exports::new([(NAME.into(), export())], []));
        let mut unknown = Bench::with(config(KEYED), unknown_key);
        prove(&mut unknown, KEYED, &secret());
        assert_eq!(wrong.error, Some(PeerError::Unauthenticated));
        assert_eq!(unknown.error, wrong.error);
        assert_eq!(wrong.goodbye(), (Status::AUTHENTICATION_FAILED, NO_TAG, 0));
        assert_eq!(unknown.goodbye(), (Status::AUTHENTICATION_FAILED, NO_TAG, 0));
    }

    #[test]
    fn nobody_is_let_in_with_the_secret_that_unknown_keys_are_checked_against() {
        let mut bench = Bench::with(config(KEYED), Arc::new(Exports::new([], [])));
        prove(&mut bench, KEYED, &Secret::new([0; 32]));
        assert_eq!(bench.error, Some(PeerError::Unauthenticated));
    }

    #[test]
    fn a_proof_of_another_connection_is_no_proof() {
        let mut first = Bench::new(Stand { is_in: false, ..KEYED });
        let transcript = prove(&mut first, KEYED, &secret());
        assert!(first.target.is_ready());
        let replayed = SessionConfig { nonce: [3; 16], ..config(KEYED) };
        let mut second = Bench::with(replayed, Arc::new(exports(true, EPOCH)));
        second.feed(&hello(KEYED));
        let proof = client_proof(&secret(), &transcript);
        second.feed(&message(Opcode::PROVE, RequestHeader::default(), &proof, Digests::NONE));
        assert_eq!(second.error, Some(PeerError::Unauthenticated));
    }

    #[test]
    fn that_a_credential_has_expired_is_told_only_to_who_has_it() {
        for (secret, error, status) in [
            (secret(), PeerError::CredentialExpired, Status::CREDENTIAL_EXPIRED),
            (Secret::new([1; 32]), PeerError::Unauthenticated, Status::AUTHENTICATION_FAILED),
        ] {
            let mut bench = Bench::with(config(KEYED), granted(&[], true));
            prove(&mut bench, KEYED, &secret);
            assert_eq!(bench.error, Some(error));
            assert_eq!(bench.goodbye().0, status);
        }
    }

    #[test]
    fn a_client_without_a_version_in_common_is_told_the_nodes() {
        let mut bench = Bench::new(OUTSIDE);
        let mut bytes = hello(OUTSIDE);
        bytes[HEADER_LEN + 8..HEADER_LEN + 12].copy_from_slice(&[7, 0, 9, 0]);
        bench.feed(&bytes);
        assert_eq!(bench.error, Some(PeerError::Version { min: 7, max: 9 }));
        assert_eq!(bench.goodbye(), (Status::VERSION, NO_TAG, VERSION.into()));
    }

    #[test]
    fn who_speaks_another_protocol_is_told_nothing() {
        for bytes in [&b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..], &[0; 128]] {
            let mut bench = Bench::new(OUTSIDE);
            bench.feed(bytes);
            assert_eq!(bench.error, Some(PeerError::NotDirect));
            assert!(bench.target.is_closing() && bench.answers().is_empty());
        }
    }

    #[test]
    fn a_request_before_the_proof_is_out_of_sequence() {
        let mut bench = Bench::new(Stand { is_in: false, ..KEYED });
        bench.feed(&hello(KEYED));
        bench.answer();
        bench.feed(&read(0, 0, 512));
        assert_eq!(bench.error, Some(PeerError::Sequence { opcode: Opcode::READ }));
        assert_eq!(bench.goodbye().0, Status::SEQUENCE);
    }

    #[test]
    fn a_second_hello_is_out_of_sequence() {
        let mut bench = Bench::new(OPEN);
        bench.feed(&hello(OPEN));
        assert_eq!(bench.error, Some(PeerError::Sequence { opcode: Opcode::HELLO }));
    }

    #[test]
    fn a_client_that_is_not_in_in_time_is_told_so() {
        let mut bench = Bench::new(OUTSIDE);
        let until = bench.target.poll_timeout().unwrap();
        assert_eq!(bench.target.handle_timeout(Nanos(until.0 - 1)), Ok(()));
        assert_eq!(bench.target.handle_timeout(until), Err(PeerError::Silent));
        assert_eq!(bench.goodbye().0, Status::TIMEOUT);
    }

    #[test]
    fn only_what_both_want_is_agreed() {
        let none = SessionConfig { digests: Digests::NONE, ..config(OUTSIDE) };
        let mut bench = Bench::with(none, Arc::new(exports(false, EPOCH)));
        let wants = Stand { digests: Digests::BOTH, by_rings: true, ..OUTSIDE };
        let (_, payload) = bench.ask(&hello(wants));
        let (answer, _) = HelloAnswer::ref_from_prefix(&payload).unwrap();
        assert_eq!(answer.features, Features::default());
    }
}

mod volumes {
    use super::*;

    fn open(volume: u16, name: &str) -> Vec<u8> {
        let header = RequestHeader { volume: U16::new(volume), ..header(77, 0, 0) };
        message(Opcode::OPEN, header, name.as_bytes(), Digests::NONE)
    }

    #[test]
    fn an_opened_volume_says_what_it_is() {
        let mut bench = Bench::new(KEYED);
        let (header, payload) = bench.ask(&open(NEW_HANDLE, NAME));
        let (answer, _) = OpenAnswer::ref_from_prefix(&payload).unwrap();
        assert_eq!((header.value.get(), header.tag.get()), (1, 77));
        assert_eq!((answer.bytes.get(), answer.block_size.get()), (VOLUME_LEN, 512));
        assert_eq!((answer.epoch.get(), answer.uuid), (EPOCH, [9; 16]));
        assert_eq!(answer.rights, Rights::READ_WRITE);
    }

    #[test]
    fn an_unknown_volume_is_not_opened() {
        let mut bench = Bench::new(OPEN);
        assert_eq!(bench.status_of(&open(NEW_HANDLE, "date")), Status::NO_SUCH_VOLUME);
        assert_eq!(bench.status_of(&open(NEW_HANDLE, "")), Status::NO_SUCH_VOLUME);
    }

    #[test]
    fn a_volume_without_a_grant_is_not_opened() {
        let mut bench = Bench::with(config(KEYED), granted(&[], false));
        prove(&mut bench, KEYED, &secret());
        bench.answer();
        assert_eq!(bench.status_of(&open(NEW_HANDLE, NAME)), Status::NOT_GRANTED);
    }

    #[test]
    fn more_volumes_than_agreed_are_not_open_at_a_time() {
        let mut bench = Bench::new(OPEN);
        for _ in 1..4 {
            assert_eq!(bench.status_of(&open(NEW_HANDLE, NAME)), Status::OK);
        }
        assert_eq!(bench.status_of(&open(NEW_HANDLE, NAME)), Status::BUSY);
        let close = RequestHeader { volume: U16::new(2), ..header(0, 0, 0) };
        let close = message(Opcode::CLOSE, close, &[], Digests::NONE);
        assert_eq!(bench.status_of(&close), Status::OK);
        assert_eq!(bench.ask(&open(NEW_HANDLE, NAME)).0.value.get(), 2);
    }

    #[test]
    fn a_closed_handle_is_no_volume() {
        let mut bench = Bench::new(OPEN);
        let close = message(Opcode::CLOSE, header(0, 0, 0), &[], Digests::NONE);
        assert_eq!(bench.status_of(&close), Status::OK);
        assert_eq!(bench.status_of(&close), Status::NO_SUCH_VOLUME);
        assert_eq!(bench.status_of(&read(0, 0, 512)), Status::NO_SUCH_VOLUME);
    }

    #[test]
    fn a_stale_epoch_is_told_the_current_one_and_cured_by_opening_again() {
        let mut bench = Bench::new(OPEN);
        bench.target.set_exports(Arc::new(exports(false, EPOCH + 1)));
        let (answer, _) = bench.ask(&read(1, 0, 512));
        assert_eq!(answer.status(), Status::STALE_EPOCH);
        assert_eq!(answer.value.get(), u64::from(EPOCH) + 1);
        let (opened, payload) = bench.ask(&open(0, NAME));
        let (info, _) = OpenAnswer::ref_from_prefix(&payload).unwrap();
        assert_eq!((opened.value.get(), info.epoch.get()), (0, EPOCH + 1));
        let header = RequestHeader { epoch: info.epoch, ..header(1, 0, 512) };
        let again = message(Opcode::READ, header, &[], Digests::NONE);
        assert_eq!(bench.status_of(&again), Status::OK);
    }

    /// STALE_EPOCH says that nothing was done: no answer to what is half done.
    #[test]
    fn a_write_that_has_begun_goes_on_when_the_epoch_changes() {
        let mut bench = Bench::new(OPEN);
        let seam = u64::from(SEGMENT_LEN_MAX);
        let bytes = write(1, seam - 512, &[7; 1024]);
        let first = bytes.len() - 512;
        bench.feed(&bytes[..first]);
        bench.settle();
        assert_eq!(bench.demanded.len(), 1, "all but the last block is on its way");
        bench.target.set_exports(Arc::new(exports(false, EPOCH + 1)));
        bench.feed(&bytes[first..]);
        bench.settle();
        assert_eq!(bench.answer().0.status(), Status::OK);
        assert_eq!(bench.status_of(&read(1, 0, 512)), Status::STALE_EPOCH, "what comes then");
        bench.end();
    }

    #[test]
    fn a_removed_volume_is_gone_even_if_another_has_its_name() {
        let mut bench = Bench::new(OPEN);
        let other = Export { volume: nearflash_request::VolumeId(8), ..export() };
        bench.target.set_exports(Arc::new(Exports::new([(NAME.into(), other)], [])));
        assert_eq!(bench.status_of(&read(0, 0, 512)), Status::NO_SUCH_VOLUME);
    }
}

mod requests {
    use super::*;

    fn refused(message: &[u8]) -> (Status, u64) {
        let mut bench = Bench::new(OPEN);
        let (answer, payload) = bench.ask(message);
        assert!(payload.is_empty() && bench.demanded.is_empty(), "nothing was done");
        assert_eq!(answer.flags, 0);
        // Whatever followed it was passed over.
        assert_eq!(bench.status_of(&read(5, 0, 512)), Status::OK);
        bench.end();
        (answer.status(), answer.value.get())
    }

    #[test]
    fn a_length_of_zero_is_refused() {
        assert_eq!(refused(&read(5, 0, 0)), (Status::INVALID_FIELD, 16));
        assert_eq!(refused(&write(5, 0, &[])), (Status::INVALID_FIELD, 16));
    }

    #[test]
    fn a_length_beyond_the_limit_is_refused() {
        assert_eq!(refused(&read(5, 0, LEN_MAX + 1)), (Status::INVALID_FIELD, 16));
        assert_eq!(refused(&read(5, 0, u32::MAX)), (Status::INVALID_FIELD, 16));
        let payload = vec![1; crate::length(LEN_MAX) + 1];
        assert_eq!(refused(&write(5, 0, &payload)), (Status::INVALID_FIELD, 16));
    }

    #[test]
    fn a_range_past_the_end_is_refused() {
        assert_eq!(refused(&read(5, VOLUME_LEN - 511, 512)), (Status::OUT_OF_RANGE, 0));
        assert_eq!(refused(&write(5, VOLUME_LEN, &[1])), (Status::OUT_OF_RANGE, 0));
    }

    #[test]
    fn an_offset_that_overflows_is_refused() {
        assert_eq!(refused(&read(5, u64::MAX, 512)), (Status::OUT_OF_RANGE, 0));
        assert_eq!(refused(&write(5, u64::MAX - 3, &[1; 9])), (Status::OUT_OF_RANGE, 0));
    }

    #[test]
    fn an_unknown_opcode_is_answered_and_its_payload_passed_over() {
        let bare = message(Opcode(0x0F), header(5, 0, 900), &[], Digests::NONE);
        assert_eq!(refused(&bare), (Status::INVALID_OPCODE, 0));
        let loaded = message(Opcode(0x4F), header(5, 0, 0), &[7; 900], Digests::NONE);
        assert_eq!(refused(&loaded), (Status::INVALID_OPCODE, 0));
    }

    #[test]
    fn unknown_flags_are_refused() {
        let header = RequestHeader { flags: 2, ..header(5, 0, 512) };
        let message = message(Opcode::READ, header, &[], Digests::NONE);
        assert_eq!(refused(&message), (Status::INVALID_FIELD, 1));
    }

    #[test]
    fn a_word_that_is_not_aligned_or_not_whole_is_refused() {
        let odd = message(Opcode::FETCH_ADD, header(5, 12, 0), &[0; 8], Digests::NONE);
        assert_eq!(refused(&odd), (Status::INVALID_FIELD, 8));
        for (opcode, operands) in
            [(Opcode::FETCH_ADD, 16), (Opcode::COMPARE_AND_SWAP, 8), (Opcode::FETCH_ADD, 0)]
        {
            let payload = vec![0; operands];
            let message = message(opcode, header(5, 8, 0), &payload, Digests::NONE);
            assert_eq!(refused(&message), (Status::INVALID_FIELD, 16), "{opcode:?}");
        }
    }

    #[test]
    fn a_tag_in_flight_names_one_request_alone() {
        let mut bench = Bench::new(OPEN);
        bench.feed(&[read(3, 0, 512), read(3, 512, 512)].concat());
        assert_eq!(bench.error, Some(PeerError::DuplicateTag { tag: 3 }));
        assert_eq!(bench.goodbye(), (Status::DUPLICATE_TAG, 3, 0));
        bench.end();
    }

    #[test]
    fn more_requests_than_credits_end_the_connection() {
        let mut bench = Bench::new(OPEN);
        (0..CREDITS).for_each(|tag| bench.feed(&read(tag, 0, 512)));
        assert_eq!(bench.target.requests_in_flight(), 8);
        bench.feed(&read(CREDITS, 0, 512));
        let error = PeerError::CreditsExceeded { tag: CREDITS, credits: CREDITS };
        assert_eq!(bench.error, Some(error));
        assert_eq!(bench.goodbye(), (Status::CREDITS_EXCEEDED, CREDITS, CREDITS.into()));
    }

    #[test]
    fn a_tag_is_free_once_it_is_answered() {
        let mut bench = Bench::new(OPEN);
        assert_eq!(bench.status_of(&read(3, 0, 512)), Status::OK);
        assert_eq!(bench.status_of(&read(3, 0, 512)), Status::OK);
    }

    #[test]
    fn small_payload_beyond_its_bound_ends_the_connection() {
        let mut bench = Bench::new(OPEN);
        bench.feed(&message(Opcode::OPEN, header(0, 0, 0), &[b'a'; 1025], Digests::NONE));
        let error = PeerError::HeaderField { opcode: Opcode::OPEN, offset: 16 };
        assert_eq!(bench.error, Some(error));
        assert_eq!(bench.goodbye().0, Status::INVALID_FIELD);
    }

    #[test]
    fn a_damaged_header_ends_the_connection() {
        let stand = Stand { digests: Digests { header: true, data: false }, ..OPEN };
        let mut bench = Bench::new(stand);
        let mut bytes = message(Opcode::READ, header(1, 0, 512), &[], stand.digests);
        bytes[9] ^= 4;
        bench.feed(&bytes);
        assert!(matches!(bench.error, Some(PeerError::HeaderDigest { .. })));
        assert_eq!(bench.goodbye().0, Status::HEADER_DIGEST);
    }

    #[test]
    fn a_client_that_says_goodbye_is_let_go_with_its_reason() {
        let mut bench = Bench::new(OPEN);
        let header = RequestHeader { volume: U16::new(Status::ABORTED.0), ..header(0, 0, 0) };
        bench.feed(&message(Opcode::GOODBYE, header, &[], Digests::NONE));
        assert_eq!(bench.error, Some(PeerError::Goodbye { status: Status::ABORTED }));
        assert!(bench.target.is_closing() && bench.answers().is_empty());
    }

    #[test]
    fn a_client_that_reads_no_answers_is_not_listened_to() {
        let mut bench = Bench::new(OPEN);
        let ping = message(Opcode::PING, header(0, 0, 0), &[], Digests::NONE);
        let pings = ping.repeat(OUTPUT_BYTES_MAX / HEADER_LEN + 100);
        let taken = bench.target.handle_input(&pings).unwrap();
        assert!(taken < pings.len() && bench.target.receiving() == crate::Receiving::Paused);
        assert!(bench.target.output_len() <= OUTPUT_BYTES_MAX + HEADER_LEN);
        bench.send();
        assert_eq!(bench.target.receiving(), crate::Receiving::Bytes);
    }

    #[test]
    fn every_answer_says_how_many_requests_may_be_in_flight() {
        let mut bench = Bench::new(OPEN);
        assert_eq!(bench.ask(&read(0, 0, 512)).0.credits.get(), CREDITS);
        assert_eq!(bench.ask(&write(1, 0, &[1; 512])).0.credits.get(), CREDITS);
    }
}

mod data {
    use super::*;

    #[test]
    fn whole_blocks_are_written_as_such_and_others_by_their_bytes() {
        let mut bench = Bench::new(OPEN);
        bench.feed(&write(0, 512, &[1; 1024]));
        bench.feed(&write(1, 1000, &[2; 100]));
        bench.take_demands();
        assert!(
            matches!(bench.requests[0].operation, Operation::Write { .. })
                && bench.requests[0].range.start.0 == 1
                && bench.requests[0].range.count.0 == 2
        );
        let Operation::WriteBytes { skip, len, .. } = bench.requests[1].operation else {
            panic!("{:?}", bench.requests[1])
        };
        assert_eq!((skip, len), (488, 100));
        assert_eq!(bench.requests[1].range.count.0, 2, "both blocks that it is in");
        bench.settle();
        bench.answers();
        let (_, payload) = bench.ask(&read(0, 990, 120));
        assert_eq!(payload, [&[1; 10][..], &[2; 100], &[1; 10]].concat());
        bench.end();
    }

    #[test]
    fn a_request_across_a_mebibyte_is_two_and_answered_in_two_parts() {
        let mut bench = Bench::new(OPEN);
        let edge = 1 << 20;
        assert_eq!(bench.status_of(&write(0, edge - 100, &[7; 300])), Status::OK);
        assert_eq!(bench.demanded.len(), 2);
        bench.feed(&read(1, edge - 100, 300));
        bench.take_demands();
        bench.requests.swap(0, 1);
        bench.settle();
        let answers = bench.answers();
        let parts: Vec<_> = answers
            .iter()
            .map(|(header, payload)| (header.flags, header.value.get(), payload.len()))
            .collect();
        assert_eq!(parts, [(AnswerHeader::MORE, 100, 200), (0, 0, 100)]);
        assert!(answers.iter().all(|(_, payload)| payload.iter().all(|byte| *byte == 7)));
    }

    #[test]
    fn a_read_of_which_a_part_fails_has_failed() {
        for last_fails in [false, true] {
            let mut bench = Bench::new(OPEN);
            bench.feed(&write(0, (1 << 20) - 100, &[7; 300]));
            bench.settle();
            bench.answers();
            bench.feed(&read(1, (1 << 20) - 100, 300));
            bench.take_demands();
            if last_fails {
                bench.answer_one();
            }
            bench.fail_one(Outcome::UnrecoveredRead);
            bench.settle();
            let answers = bench.answers();
            let (last, payload) = answers.last().unwrap();
            assert_eq!((last.status(), last.flags), (Status::UNRECOVERED_READ, 0));
            assert!(payload.is_empty());
            assert_eq!(answers.len(), if last_fails { 2 } else { 1 });
            bench.end();
        }
    }

    #[test]
    fn a_write_of_which_a_part_was_damaged_has_failed_and_that_part_is_not_written() {
        let stand = Stand { digests: Digests { header: false, data: true }, ..OPEN };
        let mut bench = Bench::new(stand);
        let mut bytes =
            message(Opcode::WRITE, header(0, (1 << 20) - 512, 0), &[7; 1024], stand.digests);
        *bytes.last_mut().unwrap() ^= 1;
        bench.feed(&bytes);
        bench.settle();
        assert_eq!(bench.demanded.len(), 1, "the part that was sound");
        let (answer, _) = bench.answer();
        assert_eq!(answer.status(), Status::DATA_DIGEST);
        bench.end();
    }

    #[test]
    fn damaged_operands_are_not_used() {
        let stand = Stand { digests: Digests { header: false, data: true }, ..OPEN };
        let mut bench = Bench::new(stand);
        let mut bytes = message(Opcode::FETCH_ADD, header(0, 0, 0), &[7; 8], stand.digests);
        bytes[HEADER_LEN] ^= 1;
        assert_eq!(bench.status_of(&bytes), Status::DATA_DIGEST);
        assert!(bench.demanded.is_empty());
    }

    #[test]
    fn words_are_swapped_and_added_to_and_the_word_before_is_the_answer() {
        let mut bench = Bench::new(OPEN);
        let add = message(Opcode::FETCH_ADD, header(0, 8, 0), &5u64.to_le_bytes(), Digests::NONE);
        assert_eq!(bench.ask(&add).0.value.get(), 0);
        let operands = [5u64.to_le_bytes(), 9u64.to_le_bytes()].concat();
        let swap = message(Opcode::COMPARE_AND_SWAP, header(0, 8, 0), &operands, Digests::NONE);
        let (answer, _) = bench.ask(&swap);
        assert_eq!((answer.status(), answer.value.get()), (Status::OK, 5));
        let (answer, _) = bench.ask(&swap);
        assert_eq!((answer.status(), answer.value.get()), (Status::OK, 9), "it differed");
    }

    #[test]
    fn only_whole_blocks_are_discarded() {
        let mut bench = Bench::new(OPEN);
        let discard =
            |offset, len| message(Opcode::DISCARD, header(0, offset, len), &[], Digests::NONE);
        assert_eq!(bench.status_of(&discard(100, 1500)), Status::OK);
        assert!(
            bench.demanded[0].contains("start: Lba(1), count: Blocks(2)"),
            "{:?}",
            bench.demanded
        );
        bench.demanded.clear();
        assert_eq!(bench.status_of(&discard(100, 900)), Status::OK);
        assert!(bench.demanded.is_empty(), "no whole block");
    }

    #[test]
    fn durable_writes_are_handed_out_as_such() {
        let mut bench = Bench::new(OPEN);
        let header = RequestHeader { flags: RequestHeader::DURABLE, ..header(0, 0, 0) };
        bench.feed(&message(Opcode::WRITE, header, &[1; 512], Digests::NONE));
        bench.settle();
        assert!(bench.demanded[0].contains("force_unit_access: true"), "{:?}", bench.demanded);
    }

    #[test]
    fn every_outcome_has_its_status() {
        for (outcome, status) in [
            (Outcome::OutOfRange, Status::OUT_OF_RANGE),
            (Outcome::VolumeGone, Status::NO_SUCH_VOLUME),
            (Outcome::CapacityExceeded, Status::CAPACITY_EXCEEDED),
            (Outcome::WriteFault, Status::WRITE_FAULT),
            (Outcome::DeviceUnavailable, Status::DEVICE_UNAVAILABLE),
            (Outcome::Unsupported, Status::UNSUPPORTED),
            (Outcome::Aborted, Status::ABORTED),
            (Outcome::ReservationConflict, Status::RESERVED),
            (Outcome::WriteProtected, Status::WRITE_PROTECTED),
        ] {
            let mut bench = Bench::new(OPEN);
            bench.feed(&write(0, 0, &[1; 512]));
            bench.take_demands();
            bench.fail_one(outcome);
            assert_eq!(bench.answer().0.status(), status);
            bench.end();
        }
    }
}

mod grants {
    use super::*;

    fn bench(grants: &[(Range<u64>, Rights)]) -> Bench {
        let mut bench = Bench::with(config(KEYED), granted(grants, false));
        bench.let_in(KEYED);
        bench
    }

    #[test]
    fn half_a_volume_ends_at_its_byte() {
        let half = VOLUME_LEN / 2;
        let mut bench = bench(&[(0..half, Rights::READ_WRITE)]);
        assert_eq!(bench.status_of(&read(0, half - 512, 512)), Status::OK);
        assert_eq!(bench.status_of(&read(0, half - 511, 512)), Status::NOT_GRANTED);
        assert_eq!(bench.status_of(&write(0, half - 1, &[1])), Status::OK);
        assert_eq!(bench.status_of(&write(0, half, &[1])), Status::NOT_GRANTED);
        bench.end();
    }

    #[test]
    fn who_may_only_read_can_do_nothing_else() {
        let mut bench = bench(&[(0..VOLUME_LEN, Rights::READ)]);
        assert_eq!(bench.status_of(&read(0, 0, 512)), Status::OK);
        for message in [
            write(0, 0, &[1; 512]),
            message(Opcode::FLUSH, header(0, 0, 0), &[], Digests::NONE),
            message(Opcode::DISCARD, header(0, 0, 512), &[], Digests::NONE),
            message(Opcode::FETCH_ADD, header(0, 0, 0), &[0; 8], Digests::NONE),
            message(Opcode::COMPARE_AND_SWAP, header(0, 0, 0), &[0; 16], Digests::NONE),
        ] {
            assert_eq!(bench.status_of(&message), Status::NOT_GRANTED);
        }
    }

    #[test]
    fn words_need_both_rights() {
        let mut bench = bench(&[(0..512, Rights::WRITE), (512..1024, Rights::READ_WRITE)]);
        let add = |offset| message(Opcode::FETCH_ADD, header(0, offset, 0), &[0; 8], Digests::NONE);
        assert_eq!(bench.status_of(&add(0)), Status::NOT_GRANTED);
        assert_eq!(bench.status_of(&add(512)), Status::OK);
        let flush = message(Opcode::FLUSH, header(0, 0, 0), &[], Digests::NONE);
        assert_eq!(bench.status_of(&flush), Status::OK);
    }

    #[test]
    fn what_was_taken_and_not_handed_out_is_refused_once_it_is_revoked() {
        let mut bench = bench(&[(0..VOLUME_LEN, Rights::READ_WRITE)]);
        bench.feed(&read(0, 0, 512));
        bench.feed(&write(1, 0, &[1; 512]));
        bench.target.set_exports(granted(&[(512..1024, Rights::READ_WRITE)], false));
        bench.settle();
        assert!(bench.demanded.is_empty(), "nothing is done any more");
        let statuses: Vec<Status> =
            bench.answers().iter().map(|(header, _)| header.status()).collect();
        assert_eq!(statuses, [Status::NOT_GRANTED, Status::NOT_GRANTED]);
        assert_eq!(bench.status_of(&read(0, 512, 512)), Status::OK, "the rest still is granted");
        bench.end();
    }

    #[test]
    fn a_write_is_refused_whose_grant_is_revoked_while_its_payload_comes() {
        let mut bench = bench(&[(0..VOLUME_LEN, Rights::READ_WRITE)]);
        let bytes = write(1, 0, &[1; 4096]);
        bench.feed(&bytes[..2000]);
        bench.target.set_exports(granted(&[], false));
        bench.feed(&bytes[2000..]);
        bench.settle();
        assert!(bench.demanded.is_empty());
        assert_eq!(bench.answer().0.status(), Status::NOT_GRANTED);
        bench.end();
    }

    #[test]
    fn a_credential_that_expires_or_gets_another_secret_is_good_for_nothing_more() {
        let all = [(0..VOLUME_LEN, Rights::READ_WRITE)];
        let mut bench = bench(&all);
        bench.target.set_exports(granted(&all, true));
        assert_eq!(bench.status_of(&read(0, 0, 512)), Status::CREDENTIAL_EXPIRED);
        let credential = CredentialExport {
            secret: Secret::new([1; 32]),
            expired: false,
            access: [(VOLUME, Arc::new(Access::full()))].into(),
        };
        let other = Exports::new([(NAME.into(), export())], [(KEY.into(), credential)]);
        bench.target.set_exports(Arc::new(other));
        assert_eq!(bench.status_of(&read(0, 0, 512)), Status::NOT_GRANTED);
        bench.target.set_exports(granted(&all, false));
        assert_eq!(bench.status_of(&read(0, 0, 512)), Status::OK);
    }

    #[test]
    fn the_first_credential_ends_what_anonymous_clients_may_do() {
        let mut bench = Bench::new(OPEN);
        assert_eq!(bench.status_of(&read(0, 0, 512)), Status::OK);
        bench.target.set_exports(Arc::new(exports(true, EPOCH)));
        assert_eq!(bench.status_of(&read(0, 0, 512)), Status::NOT_GRANTED);
    }
}

mod closing {
    use super::*;

    #[test]
    fn answers_that_come_after_the_end_give_their_buffers_back() {
        let mut bench = Bench::new(OPEN);
        bench.feed(&write(0, 0, &[7; 512]));
        bench.settle();
        bench.feed(&[read(1, 0, 512), write(2, 0, &[1; 1024])[..800].to_vec()].concat());
        bench.take_demands();
        bench.target.terminate(PeerError::ShuttingDown);
        bench.answers();
        bench.answer_one();
        assert!(bench.answers().is_empty(), "the last words were said");
        bench.end();
    }

    #[test]
    fn the_reason_is_told_once() {
        let mut bench = Bench::new(OPEN);
        bench.target.terminate(PeerError::ShuttingDown);
        bench.target.terminate(PeerError::Silent);
        assert_eq!(bench.goodbye().0, Status::SHUTTING_DOWN);
        assert_eq!(bench.target.handle_input(&read(0, 0, 512)), Ok(0));
    }
}

mod rings {
    use super::*;

    fn attach(entries: u32, data_len: u64) -> Vec<u8> {
        let request = AttachRequest {
            entries: U32::new(entries),
            reserved: U32::new(0),
            data_len: U64::new(data_len),
        };
        message(Opcode::ATTACH, header(9, 0, 0), request.as_bytes(), Digests::NONE)
    }

    fn entry(opcode: Opcode, header: RequestHeader) -> [u8; HEADER_LEN] {
        zerocopy::transmute!(RequestHeader { opcode: opcode.0, ..header })
    }

    fn placed(tag: u32, offset: u64, len: u32, place: u32) -> RequestHeader {
        RequestHeader { place: U32::new(place), ..header(tag, offset, len) }
    }

    impl Bench {
        fn ring_answer(&mut self, entry: &[u8; HEADER_LEN]) -> AnswerHeader {
            self.feed_entry(entry);
            self.settle();
            assert_eq!(self.entries.len(), 1, "one answer");
            AnswerHeader::read_from_bytes(&self.entries.pop().unwrap()).unwrap()
        }
    }

    #[test]
    fn rings_are_for_clients_of_this_machine() {
        let mut bench = Bench::new(OPEN);
        assert_eq!(bench.status_of(&attach(8, 4096)), Status::UNSUPPORTED);
    }

    #[test]
    fn rings_that_cannot_be_are_refused() {
        for (entries, data_len) in
            [(0, 4096), (3, 4096), (16, 4096), (8, 0), (8, 4095), (8, u64::MAX), (8, 1 << 33)]
        {
            let mut bench = Bench::new(Stand { local: true, ..OPEN });
            let status = bench.status_of(&attach(entries, data_len));
            assert_eq!(status, Status::INVALID_FIELD, "{entries} {data_len}");
            assert_eq!(bench.status_of(&read(0, 0, 512)), Status::OK, "the stream goes on");
        }
    }

    #[test]
    fn rings_are_attached_once_and_when_nothing_is_in_flight() {
        let mut bench = Bench::new(Stand { local: true, ..OPEN });
        bench.feed(&[read(0, 0, 512), attach(8, 4096)].concat());
        assert_eq!(bench.answer().0.status(), Status::BUSY);
        bench.settle();
        bench.answer();
        assert_eq!(bench.status_of(&attach(8, 4096)), Status::OK);
        assert_eq!(bench.status_of(&attach(8, 4096)), Status::BUSY);
    }

    #[test]
    fn nothing_is_taken_while_rings_are_made() {
        let mut bench = Bench::new(Stand { local: true, ..OPEN });
        let taken = bench.target.handle_input(&[attach(8, 4096), read(0, 0, 512)].concat());
        assert_eq!(taken, Ok(attach(8, 4096).len()));
        assert_eq!(bench.target.receiving(), crate::Receiving::Paused);
        bench.settle();
        assert_eq!(bench.answer().0.status(), Status::OK);
        assert_eq!(bench.target.receiving(), crate::Receiving::Bytes);
    }

    #[test]
    fn with_rings_a_request_by_the_stream_ends_the_connection() {
        let mut bench = Bench::new(RINGS);
        bench.feed(&read(0, 0, 512));
        assert_eq!(bench.error, Some(PeerError::Sequence { opcode: Opcode::READ }));
    }

    #[test]
    fn the_sessions_messages_still_go_by_the_stream_and_by_it_alone() {
        let mut bench = Bench::new(RINGS);
        let ping = message(Opcode::PING, header(0, 0, 0), &[], Digests::NONE);
        assert_eq!(bench.status_of(&ping), Status::OK);
        let answer = bench.ring_answer(&entry(Opcode::PING, header(0, 0, 0)));
        assert_eq!(answer.status(), Status::INVALID_OPCODE);
    }

    #[test]
    fn whole_blocks_at_aligned_places_go_straight_and_others_by_a_copy() {
        let mut bench = Bench::new(RINGS);
        bench.memory.area[..2048].fill(7);
        for (tag, offset, len, place) in
            [(0, 512, 1024, 512), (1, 4096, 512, 513), (2, 5000, 10, 0)]
        {
            let header = placed(tag, offset, len, place);
            assert!(bench.ring_answer(&entry(Opcode::WRITE, header)).status().is_ok());
        }
        let kinds: Vec<&str> =
            bench.demanded.iter().map(|demand| demand.split('(').next().unwrap()).collect();
        assert_eq!(kinds, ["Lend", "CopyIn", "CopyIn"]);
        bench.demanded.clear();
        for (tag, offset, len, place) in
            [(0, 512, 1024, 8192), (1, 4096, 512, 9999), (2, 5000, 10, 11_000)]
        {
            bench.memory.area[crate::length(place)..][..crate::length(len)].fill(0);
            let header = placed(tag, offset, len, place);
            assert!(bench.ring_answer(&entry(Opcode::READ, header)).status().is_ok());
            let found = &bench.memory.area[crate::length(place)..][..crate::length(len)];
            assert!(found.iter().all(|byte| *byte == 7), "{tag}");
        }
        let kinds: Vec<&str> =
            bench.demanded.iter().map(|demand| demand.split('(').next().unwrap()).collect();
        assert_eq!(kinds, ["Lend", "Request", "Request"]);
        bench.end();
    }

    #[test]
    fn a_place_past_the_data_area_is_refused() {
        let mut bench = Bench::new(RINGS);
        for (opcode, place, len) in [
            (Opcode::READ, (64 << 10) - 511, 512),
            (Opcode::WRITE, u32::MAX, 512),
            (Opcode::READ, 1 << 16, 1),
            (Opcode::COMPARE_AND_SWAP, (64 << 10) - 15, 16),
            (Opcode::FETCH_ADD, u32::MAX - 3, 8),
        ] {
            let answer = bench.ring_answer(&entry(opcode, placed(1, 0, len, place)));
            assert_eq!((answer.status(), answer.value.get()), (Status::INVALID_FIELD, 24));
        }
        assert!(bench.demanded.is_empty());
    }

    #[test]
    fn grants_are_checked_as_on_the_stream() {
        let mut bench = Bench::new(Stand { with_key: true, ..RINGS });
        let half = VOLUME_LEN / 2;
        let answer = bench.ring_answer(&entry(Opcode::WRITE, placed(1, half - 511, 512, 0)));
        assert_eq!(answer.status(), Status::NOT_GRANTED);
        let answer = bench.ring_answer(&entry(Opcode::READ, placed(1, 0, 512, 0)));
        assert_eq!(answer.status(), Status::OK);
    }

    #[test]
    fn a_tag_in_flight_twice_ends_the_connection() {
        let mut bench = Bench::new(RINGS);
        let twice = entry(Opcode::READ, header(1, 0, 512));
        bench.feed_entry(&twice);
        bench.feed_entry(&twice);
        assert_eq!(bench.error, Some(PeerError::DuplicateTag { tag: 1 }));
        assert_eq!(bench.goodbye().0, Status::DUPLICATE_TAG, "by the stream");
        bench.end();
    }

    #[test]
    fn entries_are_not_taken_while_answers_are_not() {
        let mut bench = Bench::new(RINGS);
        let invalid = entry(Opcode::PING, header(0, 0, 0));
        let mut taken = 0;
        while bench.target.takes_entries() {
            bench.target.handle_entry(&invalid, &mut |_, _| {}).unwrap();
            taken += 1;
        }
        assert_eq!(taken, 4 * CREDITS);
        bench.send();
        assert!(bench.target.takes_entries());
    }
}
