//! Fused operations.

use super::*;

#[test]
fn a_compare_and_write_is_one_request_and_two_answers() {
    let mut bench = bench(Stage::Io);
    bench.send(in_capsule(compare(1)).with_fused(Fused::First), &[0; 512]);
    bench.send(in_capsule(write(2)).with_fused(Fused::Second), &[5; 512]);
    assert!(matches!(
        &bench.demands[..],
        [Demand::Request(request)] if matches!(request.operation, Operation::CompareAndWrite { .. })
    ));
    bench.answer_all();
    let success = Status::SUCCESS;
    let expected =
        [(1, 2), (2, 3)].map(|(cid, head)| format!("CapsuleResp cid={cid} sqhd={head} {success}"));
    assert_eq!(bench.sent(), expected);
    bench.end();
}

#[test]
fn a_miscompare_fails_the_write_too() {
    let mut bench = bench(Stage::Io);
    bench.send(in_capsule(compare(1)).with_fused(Fused::First), &[9; 512]);
    bench.send(in_capsule(write(2)).with_fused(Fused::Second), &[5; 512]);
    bench.answer_all();
    let (first, second) = (Status::COMPARE_FAILURE.dnr(), Status::ABORTED_FUSED_FAILED);
    let expected =
        [format!("CapsuleResp cid=1 sqhd=2 {first}"), format!("CapsuleResp cid=2 sqhd=3 {second}")];
    assert_eq!(bench.sent(), expected);
}

#[test]
fn a_write_that_may_not_be_fails_its_compare() {
    for outcome in [Outcome::ReservationConflict, Outcome::WriteProtected, Outcome::WriteFault] {
        let mut bench = bench(Stage::Io);
        bench.send(in_capsule(compare(1)).with_fused(Fused::First), &[0; 512]);
        bench.send(in_capsule(write(2)).with_fused(Fused::Second), &[5; 512]);
        let Some(Demand::Request(request)) = bench.demands.pop() else { panic!("a request") };
        let done = Completion { tag: request.tag, outcome, payload: Payload::None };
        bench.end.session.handle_completion(done, &[]);
        let (first, second) = (Status::ABORTED_FUSED_FAILED, Status::from(outcome));
        let expected = [
            format!("CapsuleResp cid=1 sqhd=2 {first}"),
            format!("CapsuleResp cid=2 sqhd=3 {second}"),
        ];
        assert_eq!(bench.sent(), expected);
    }
}

#[test]
fn a_fused_command_without_its_other_is_aborted() {
    let missing = Status::ABORTED_FUSED_MISSING.dnr();
    let mut lonely = bench(Stage::Io);
    lonely.send(in_capsule(write(2)).with_fused(Fused::Second), &[5; 512]);
    assert_eq!(lonely.sent(), [format!("CapsuleResp cid=2 sqhd=2 {missing}")]);

    // The compare's data is in the capsule, not requested yet, or requested.
    for (first, has_buffer) in
        [(in_capsule(compare(1)), false), (compare(1), false), (compare(1), true)]
    {
        let mut bench = bench(Stage::Io);
        let data: &[u8] =
            if first.sgl.identifier == SglDescriptor::IN_CAPSULE { &[0; 512] } else { &[] };
        bench.send(first.with_fused(Fused::First), data);
        if has_buffer {
            bench.provide_buffers();
            bench.drain_output();
        }
        bench.send(read(3), &[]);
        if has_buffer {
            bench.send_data(1, 0, PduFlags::LAST, &[0; 512]);
        }
        assert_eq!(bench.sent(), [format!("CapsuleResp cid=1 sqhd=2 {missing}")]);
        assert_eq!(bench.end.session.wants_buffer(), None);
        assert_eq!(bench.end.session.commands_in_flight(), 1);
        bench.end();
    }
}

#[test]
fn a_refused_half_fails_the_other() {
    let failed = Status::ABORTED_FUSED_FAILED;
    let invalid = Status::INVALID_FIELD.dnr();
    let mut first_refused = bench(Stage::Io);
    first_refused.send(read(1).with_fused(Fused::First), &[]);
    first_refused.send(in_capsule(write(2)).with_fused(Fused::Second), &[5; 512]);
    let expected = [
        format!("CapsuleResp cid=1 sqhd=2 {invalid}"),
        format!("CapsuleResp cid=2 sqhd=3 {failed}"),
    ];
    assert_eq!(first_refused.sent(), expected);

    let mut other_blocks = bench(Stage::Io);
    other_blocks.send(in_capsule(compare(1)).with_fused(Fused::First), &[0; 512]);
    let second = with_cid(Command::write(NSID, Lba(1), 0, 512), 2);
    other_blocks.send(in_capsule(second).with_fused(Fused::Second), &[5; 512]);
    let expected = [
        format!("CapsuleResp cid=1 sqhd=2 {failed}"),
        format!("CapsuleResp cid=2 sqhd=3 {invalid}"),
    ];
    assert_eq!(other_blocks.sent(), expected);
    other_blocks.end();
}

#[test]
fn the_data_of_fused_commands_may_come_in_either_order() {
    let mut bench = bench(Stage::Io);
    bench.send(compare(1).with_fused(Fused::First), &[]);
    bench.send(write(2).with_fused(Fused::Second), &[]);
    bench.provide_buffers();
    bench.drain_output();
    bench.send_data(2, 1, PduFlags::LAST, &[5; 512]);
    assert_eq!(bench.demands.len(), 0);
    bench.send_data(1, 0, PduFlags::LAST, &[0; 512]);
    assert_eq!(bench.demands.len(), 1);
    bench.answer_all();
    assert_eq!(bench.sent().len(), 2);
    bench.end();
}
