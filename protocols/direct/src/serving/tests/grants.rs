//! A client's rights, and their end.

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
        message(Opcode::ZERO, header(0, 0, 512), &[], Digests::NONE),
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
    bench.end.session.set_exports(granted(&[(512..1024, Rights::READ_WRITE)], false));
    bench.settle();
    assert!(bench.demanded.is_empty(), "nothing is done any more");
    let statuses: Vec<Status> = bench.answers().iter().map(|(header, _)| header.status()).collect();
    assert_eq!(statuses, [Status::NOT_GRANTED, Status::NOT_GRANTED]);
    assert_eq!(bench.status_of(&read(0, 512, 512)), Status::OK, "the rest still is granted");
    bench.end();
}

#[test]
fn a_write_is_refused_whose_grant_is_revoked_while_its_payload_comes() {
    let mut bench = bench(&[(0..VOLUME_LEN, Rights::READ_WRITE)]);
    let bytes = write(1, 0, &[1; 4096]);
    bench.feed(&bytes[..2000]);
    bench.end.session.set_exports(granted(&[], false));
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
    bench.end.session.set_exports(granted(&all, true));
    assert_eq!(bench.status_of(&read(0, 0, 512)), Status::CREDENTIAL_EXPIRED);
    let credential = CredentialExport {
        secret: Secret::new([1; 32]),
        expired: false,
        access: [(VOLUME, Arc::new(Access::full()))].into(),
    };
    let other = Exports::new([(NAME.into(), export())], [(KEY.into(), credential)]);
    bench.end.session.set_exports(Arc::new(other));
    assert_eq!(bench.status_of(&read(0, 0, 512)), Status::NOT_GRANTED);
    bench.end.session.set_exports(granted(&all, false));
    assert_eq!(bench.status_of(&read(0, 0, 512)), Status::OK);
}

#[test]
fn the_first_credential_ends_what_anonymous_clients_may_do() {
    let mut bench = Bench::new(OPEN);
    assert_eq!(bench.status_of(&read(0, 0, 512)), Status::OK);
    bench.end.session.set_exports(Arc::new(exports(true, EPOCH)));
    assert_eq!(bench.status_of(&read(0, 0, 512)), Status::NOT_GRANTED);
}
