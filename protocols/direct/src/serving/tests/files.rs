//! Messages for the owner of the files of a volume.

use super::*;
use crate::serving::{FILES_IN_FLIGHT_MAX, FilesGrant};
use crate::wire::{FILES_LEN_MAX, SMALL_LEN_MAX};

const OWNER: &str = "~owner";

/// The exports of a node that owns the files of the volume.
fn owned(grants: Option<&[(Range<u64>, Rights)]>) -> Arc<Exports> {
    Arc::new(owned_with(grants.map(|grants| Access::new(grants.to_vec()))))
}

fn owned_with(access: Option<Access>) -> Exports {
    let credential = |access| CredentialExport {
        secret: secret(),
        expired: false,
        access: [(VOLUME, Arc::new(access))].into(),
    };
    let clients = access.map(|access| (KEY.into(), credential(access)));
    let exports = Exports::new([(NAME.into(), export())], clients);
    let all = credential(Access::new([(0..VOLUME_LEN, Rights::READ_WRITE)]));
    exports.with_files_owner(OWNER, all, [VOLUME])
}

fn files(tag: u32, payload: &[u8]) -> Vec<u8> {
    message(Opcode::FILES, header(tag, 0, 0), payload, Digests::NONE)
}

/// The demands that a session makes of this message, and the status that it answers itself.
fn asked(bench: &mut Bench, message: &[u8]) -> (Vec<FilesDemand>, Option<Status>) {
    assert_eq!(bench.end.session.handle_input(message), Ok(message.len()));
    let demands =
        std::iter::from_fn(|| bench.end.session.poll_demand()).map(|demand| match demand {
            Demand::Files(demand) => demand,
            demand => panic!("{demand:?}"),
        });
    let demands = demands.collect();
    (demands, bench.answers().first().map(|(header, _)| header.status()))
}

#[test]
fn a_message_reaches_the_owner_with_the_rights_on_the_whole_volume() {
    let all = 0..VOLUME_LEN;
    let half = 0..VOLUME_LEN / 2;
    for (grants, expected) in [
        (None, Ok(Rights::READ_WRITE)),
        (Some(vec![(all.clone(), Rights::READ_WRITE)]), Ok(Rights::READ_WRITE)),
        (Some(vec![(all.clone(), Rights::READ)]), Ok(Rights::READ)),
        (Some(vec![(all, Rights::READ), (half.clone(), Rights::WRITE)]), Ok(Rights::READ)),
        (Some(vec![(half, Rights::READ_WRITE)]), Err(Status::NOT_GRANTED)),
    ] {
        let stand = if grants.is_some() { KEYED } else { OPEN };
        let mut bench = Bench::new(stand);
        bench.end.session.set_exports(owned(grants.as_deref()));
        let (demands, status) = asked(&mut bench, &files(7, b"request"));
        match expected {
            Ok(rights) => {
                let payload = b"request"[..].into();
                let files = Arc::default();
                let key = grants.is_some().then(|| KEY.into());
                let demand = FilesDemand { number: 7, volume: VOLUME, key, rights, files, payload };
                assert_eq!((demands, status), (vec![demand], None), "{grants:?}");
                bench.end.session.handle_files(7, Ok(b"answer"));
                let (answer, payload) = bench.answer();
                assert_eq!((answer.status(), answer.tag.get()), (Status::OK, 7));
                assert_eq!(payload, b"answer");
            }
            Err(refused) => assert_eq!((demands, status), (vec![], Some(refused)), "{grants:?}"),
        }
    }
}

#[test]
fn rights_on_files_reach_the_owner_and_are_rights_on_no_block() {
    let grant = |path: &str, rights| FilesGrant { path: path.as_bytes().into(), rights };
    let grants = [grant("/a", Rights::READ), grant("/b", Rights::READ_WRITE)];
    let access = || Access::new([]).with_files(grants.clone());
    let mut bench = Bench::new(KEYED);
    bench.end.session.set_exports(Arc::new(owned_with(Some(access()))));
    let (demands, status) = asked(&mut bench, &files(7, b"request"));
    assert_eq!(status, None);
    assert_eq!((demands[0].rights, &demands[0].files[..]), (Rights::NONE, &grants[..]));
    bench.end.session.handle_files(7, Ok(b"answer"));
    assert_eq!(bench.answer().0.status(), Status::OK);
    for opcode in [Opcode::FLUSH, Opcode::SEAL_KEY] {
        let asked = message(opcode, header(0, 0, 0), &[], Digests::NONE);
        assert_eq!(bench.status_of(&asked), Status::NOT_GRANTED, "{opcode:?}");
    }
    for asked in [read(0, 0, 512), write(0, 0, &[1; 512])] {
        assert_eq!(bench.status_of(&asked), Status::NOT_GRANTED);
    }
    // Other rights on files are other rights on the volume.
    let (old, new) = (owned_with(Some(access())), owned_with(Some(Access::new([]))));
    assert_eq!(*new.changed_since(&old), [VOLUME]);
    assert!(owned_with(Some(access())).changed_since(&old).is_empty());
    bench.end.session.set_exports(Arc::new(new));
    assert_eq!(asked(&mut bench, &files(8, b"x")), (vec![], Some(Status::NOT_GRANTED)));
}

#[test]
fn only_the_owner_writes_the_blocks_of_files() {
    let mut bench = Bench::new(OPEN);
    assert_eq!(bench.status_of(&write(0, 0, &[1; 512])), Status::OK);
    bench.end.session.set_exports(owned(None));
    assert_eq!(bench.status_of(&write(0, 0, &[1; 512])), Status::NOT_GRANTED);
    assert_eq!(bench.status_of(&read(0, 0, 512)), Status::OK);
    let flush = message(Opcode::FLUSH, header(0, 0, 0), &[], Digests::NONE);
    assert_eq!(bench.status_of(&flush), Status::NOT_GRANTED);
    bench.end();
}

#[test]
fn a_volume_without_an_owner_refuses_messages() {
    let mut bench = Bench::new(OPEN);
    assert_eq!(asked(&mut bench, &files(1, b"x")), (vec![], Some(Status::UNSUPPORTED)));
    assert!(!bench.end.session.has_files());
}

#[test]
fn messages_beyond_the_bound_are_refused_until_one_is_answered() {
    let mut bench = Bench::new(OPEN);
    bench.end.session.set_exports(owned(None));
    for tag in 0..u32::try_from(FILES_IN_FLIGHT_MAX).unwrap() {
        assert_eq!(asked(&mut bench, &files(tag, b"x")).0.len(), 1);
    }
    assert_eq!(asked(&mut bench, &files(99, b"x")), (vec![], Some(Status::BUSY)));
    bench.end.session.handle_files(3, Err(Status::BUSY));
    assert_eq!(bench.answer().0.tag.get(), 3);
    assert_eq!(asked(&mut bench, &files(99, b"x")).0.len(), 1);
}

#[test]
fn a_message_may_be_longer_than_others_but_not_than_its_bound() {
    let mut bench = Bench::new(OPEN);
    bench.end.session.set_exports(owned(None));
    let longest = vec![7; crate::length(FILES_LEN_MAX)];
    let (demands, _) = asked(&mut bench, &files(1, &longest));
    assert_eq!(demands[0].payload[..], longest[..]);
    bench.end.session.handle_files(1, Ok(&longest));
    assert_eq!(bench.answer().1, longest);
    let small = crate::length(SMALL_LEN_MAX);
    assert!(bench.end.session.small.capacity() <= small, "the memory of long messages is not kept");
    let _ = bench.end.session.handle_input(&files(1, &[&longest[..], b"x"].concat()));
    assert_eq!(bench.goodbye().0, Status::INVALID_FIELD);
}

#[test]
fn an_answer_after_the_end_of_the_session_is_dropped() {
    let mut bench = Bench::new(OPEN);
    bench.end.session.set_exports(owned(None));
    assert_eq!(asked(&mut bench, &files(1, b"x")).0.len(), 1);
    bench.end.session.shut_down();
    bench.answers();
    bench.end.session.handle_files(1, Ok(b"late"));
    assert!(bench.answers().is_empty() && bench.end.session.has_files());
}
