//! How a session ends.

use super::*;

#[test]
fn answers_that_come_after_the_end_give_their_buffers_back() {
    let mut bench = Bench::new(OPEN);
    bench.feed(&write(0, 0, &[7; 512]));
    bench.settle();
    bench.feed(&[read(1, 0, 512), write(2, 0, &[1; 1024])[..800].to_vec()].concat());
    bench.take_demands();
    bench.end.session.terminate(PeerError::ShuttingDown);
    bench.answers();
    bench.answer_one();
    assert!(bench.answers().is_empty(), "the last words were said");
    bench.end();
}

#[test]
fn the_reason_is_told_once() {
    let mut bench = Bench::new(OPEN);
    bench.end.session.terminate(PeerError::ShuttingDown);
    bench.end.session.terminate(PeerError::Silent);
    assert_eq!(bench.goodbye().0, Status::SHUTTING_DOWN);
    assert_eq!(bench.end.session.handle_input(&read(0, 0, 512)), Ok(0));
}
