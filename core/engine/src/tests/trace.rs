//! The moments of traced requests: their order, their bounds, and nothing without an order.

use super::*;
use crate::{Asking, Moment, Moments, TRACE_RECORDS_MAX, TraceOrder, TraceRecord};
use nearflash_units::Nanos;

const OTHER_VOLUME: VolumeId = VolumeId(5);

/// An engine that is driven as a shard drives it, with a device that the test ends operations of.
struct Driven {
    node: Node,
    now: u64,
}

impl Driven {
    fn new(seed: u64) -> Self {
        Self { node: Node::new(1, seed), now: 0 }
    }

    fn traced(seed: u64, order: TraceOrder) -> Self {
        let mut driven = Self::new(seed);
        driven.engine().begin_trace(order);
        driven
    }

    fn engine(&mut self) -> &mut Engine {
        &mut self.node.engines[0]
    }

    /// So much time passes.
    fn pass(&mut self, nanos: u64) {
        self.now += nanos;
        let now = Nanos(self.now);
        self.engine().tracer().tick(now);
    }

    fn receive(&mut self) {
        let now = Nanos(self.now);
        self.engine().tracer().receive(now);
    }

    /// Submits a request as that of a connection, with a record if it is due. Returns whether it has one.
    fn ask(&mut self, owner: Owner, request: Request) -> bool {
        let (engine, pool) = (&mut self.node.engines[0], &mut self.node.pools[0]);
        let is_due = engine.tracer().is_due(request.volume);
        let trace = if is_due { engine.trace((owner, 2), &request) } else { TraceId::NONE };
        let account = engine.accounts().open(Some("a host"));
        let asker = Asker { owner, account, nexus: Nexus::NONE, begin_by: Nanos::NEVER };
        engine.submit_traced(asker, request, trace, pool);
        is_due
    }

    fn read(&mut self, volume: VolumeId) -> bool {
        let request = request(volume, (0, 8), Operation::Read);
        self.ask(Owner(7), request)
    }

    /// Fences are granted, and operations go to the device, `between` before each.
    fn submit(&mut self, between: u64) {
        let (engine, pool) = (&mut self.node.engines[0], &mut self.node.pools[0]);
        while let Some((_, message)) = engine.poll_fence() {
            engine.handle_fence(message, pool);
        }
        while let Some((request, _)) = self.engine().poll_device() {
            self.pass(between);
            self.engine().trace_submission(&request);
            self.node.in_flight.push((0, request));
        }
    }

    /// The device ends its oldest operation.
    fn complete(&mut self) {
        let (_, request) = self.node.in_flight.remove(0);
        let result = self.node.apply(0, &request, &mut |_, _| {});
        let (engine, pool) = (&mut self.node.engines[0], &mut self.node.pools[0]);
        engine.handle_device(request.id, result, pool);
        engine.resume(pool);
    }

    /// Sessions get their answers, `between` before each. Their buffers come back.
    fn answer(&mut self, between: u64) {
        while let Some(answer) = self.engine().poll_answer() {
            self.pass(between);
            if answer.trace.is_some() {
                self.engine().tracer().answered(answer.owner, answer.trace);
            }
            if let Payload::Buffer(buffer) = answer.completion.payload {
                self.node.pools[0].give_back(buffer);
            }
        }
        let (engine, pool) = (&mut self.node.engines[0], &mut self.node.pools[0]);
        engine.resume(pool);
    }

    /// Returns whether the last record is complete.
    fn send(&mut self, owner: Owner) -> bool {
        self.engine().tracer().has_unsent() && self.engine().tracer().sent(owner) == Some(9)
    }

    fn records(&mut self) -> Vec<TraceRecord> {
        self.engine().end_trace().records
    }

    /// Everything under way ends, with time between.
    fn finish(&mut self) {
        loop {
            self.submit(3);
            self.answer(5);
            if self.node.in_flight.is_empty() {
                return;
            }
            self.pass(11);
            self.complete();
        }
    }
}

fn request(volume: VolumeId, (start, count): (u64, u64), operation: Operation) -> Request {
    let range = BlockRange { start: Lba(start), count: Blocks(count) };
    Request { tag: Tag(0), volume, range, operation, sent_in: None }
}

fn every_one() -> TraceOrder {
    TraceOrder::new(9, 1, None, 64)
}

fn times(moments: Moments) -> Vec<u64> {
    Moment::ALL.iter().filter_map(|moment| moments.at(*moment)).map(|at| at.0).collect()
}

fn are_in_order(moments: Moments) -> bool {
    times(moments).is_sorted()
}

/// The lengths of the stages; one that is not passed has none.
fn stages(moments: Moments) -> Vec<u64> {
    times(moments).windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[test]
fn each_moment_has_its_time_and_the_stages_add_up_to_the_whole() {
    let mut driven = Driven::traced(1, every_one());
    driven.pass(100);
    driven.receive();
    driven.pass(10);
    assert!(driven.read(VOLUME));
    driven.submit(20);
    driven.pass(300);
    driven.complete();
    driven.answer(40);
    driven.pass(50);
    driven.send(Owner(7));
    let traced = driven.engine().end_trace();
    let record = traced.records[0];
    assert_eq!(times(record.moments), [100, 110, 110, 130, 430, 470, 520]);
    assert_eq!(stages(record.moments).iter().sum::<u64>(), 520 - 100);
    assert_eq!((record.owner, record.protocol, record.volume), (Owner(7), 2, VOLUME));
    assert_eq!((record.operation, record.len, record.in_flight), ("read", ByteLen(4096), 0));
    assert_eq!(traced.host(&record), Asking::Host("a host".into()));
}

#[test]
fn the_wait_for_a_buffer_counts_as_admission() {
    let mut driven = Driven::traced(1, every_one());
    // The pool has one largest buffer for reads.
    for _ in 0..2 {
        let read = request(VOLUME, (0, SEAM), Operation::Read);
        driven.ask(Owner(7), read);
    }
    driven.submit(1);
    driven.pass(1000);
    driven.complete();
    driven.answer(0);
    driven.finish();
    let records = driven.records();
    let wait = |record: &TraceRecord| {
        let at = |moment| record.moments.at(moment).unwrap().0;
        at(Moment::Admitted) - at(Moment::Decoded)
    };
    assert_eq!(wait(&records[0]), 0);
    assert!(wait(&records[1]) >= 1000, "{:?}", records[1]);
    assert_eq!(records[1].in_flight, 1);
}

#[test]
fn a_flush_that_waits_for_that_of_another_has_no_submission_of_its_own() {
    let mut driven = Driven::traced(1, every_one());
    let flush = request(VOLUME, (0, 0), Operation::Flush);
    driven.ask(Owner(7), flush);
    driven.finish();
    let moments = driven.records()[0].moments;
    assert!(moments.at(Moment::Submitted).is_none());
    assert!(moments.at(Moment::Completed) > moments.at(Moment::Admitted));
}

#[test]
fn nothing_is_traced_without_an_order_nor_after_its_end() {
    let mut driven = Driven::new(1);
    for _ in 0..2 {
        assert!(!driven.read(VOLUME));
        driven.finish();
        assert!(!driven.engine().tracer().is_on() && !driven.engine().tracer().has_unsent());
        assert!(driven.records().is_empty());
        // The second time, a trace has ended with no request in it.
        driven.engine().begin_trace(every_one());
        assert!(driven.records().is_empty());
    }
}

#[test]
fn one_in_a_number_of_requests_is_traced_and_those_of_other_volumes_do_not_count() {
    let mut driven = Driven::traced(1, TraceOrder::new(9, 3, Some(VOLUME), 64));
    let table = VolumeTable::new([(VOLUME, map()), (OTHER_VOLUME, map())]);
    driven.engine().set_volumes(Arc::new(table));
    let mut traced = Vec::new();
    for _ in 0..7 {
        assert!(!driven.read(OTHER_VOLUME));
        traced.push(driven.read(VOLUME));
        driven.finish();
    }
    assert_eq!(traced, [false, false, true, false, false, true, false]);
    assert!(driven.records().iter().all(|record| record.volume == VOLUME));
}

#[test]
fn a_trace_that_is_full_takes_no_memory_and_no_further_request() {
    let mut driven = Driven::traced(1, TraceOrder::new(9, 1, None, 3));
    let mut ended = Vec::new();
    let traced: Vec<bool> = (0..5)
        .map(|_| {
            let is_traced = driven.read(VOLUME);
            driven.finish();
            ended.push(driven.send(Owner(7)));
            is_traced
        })
        .collect();
    assert_eq!(traced, [true, true, true, false, false]);
    assert_eq!(ended, [false, false, true, false, false], "the end is told once");
    let records = driven.records();
    assert_eq!((records.len(), records.capacity()), (3, 3));
    let mut empty = Driven::traced(1, TraceOrder::new(9, 1, None, 0));
    assert!(!empty.read(VOLUME));
}

#[test]
#[should_panic(expected = "bounded")]
fn a_trace_has_a_maximum_number_of_records() {
    TraceOrder::new(9, 1, None, TRACE_RECORDS_MAX + 1);
}

#[test]
fn a_request_that_outlives_its_trace_marks_nothing_in_the_next_one() {
    let mut driven = Driven::traced(1, every_one());
    driven.read(VOLUME);
    driven.submit(1);
    assert_eq!(driven.records().len(), 1);
    driven.engine().begin_trace(every_one());
    driven.read(VOLUME);
    driven.pass(10);
    driven.complete();
    driven.answer(1);
    driven.send(Owner(7));
    let moments = driven.records()[0].moments;
    assert_eq!(moments.at(Moment::Completed), None, "only the first read has ended");
    assert_eq!(moments.at(Moment::Answered), None);
}

#[test]
fn the_numbers_of_records_begin_again_after_many_traces() {
    let mut driven = Driven::new(1);
    for _ in 0..5 {
        driven.engine().begin_trace(TraceOrder::new(9, 1, None, TRACE_RECORDS_MAX));
        let mut last = TraceId::NONE;
        for _ in 0..TRACE_RECORDS_MAX {
            let read = request(VOLUME, (0, 8), Operation::Read);
            assert!(driven.engine().tracer().is_due(VOLUME));
            last = driven.engine().trace((Owner(0), 0), &read);
            assert!(last.is_some());
        }
        driven.pass(1);
        driven.engine().tracer().mark(last, Moment::Admitted);
        let records = driven.records();
        assert_eq!(records.len(), TRACE_RECORDS_MAX);
        let admitted = records.iter().filter(|it| it.moments.at(Moment::Admitted).is_some());
        assert_eq!(admitted.count(), 1);
        assert!(records[TRACE_RECORDS_MAX - 1].moments.at(Moment::Admitted).is_some());
    }
}

/// Submits a request of some kind. One that brings payload is left out if the pool has no room for it.
fn submit_drawn(driven: &mut Driven, kind: usize, owner: Owner) {
    let len = ByteLen::from_usize(8 * BLOCK);
    let operation = match kind {
        0 => Operation::Read,
        1 => Operation::Flush,
        2 => Operation::WriteZeroes { deallocate: true, force_unit_access: true },
        3 => Operation::Verify,
        _ => match driven.node.pools[0].take(len) {
            Some(payload) => Operation::Write { payload, force_unit_access: kind == 4 },
            None => return,
        },
    };
    let range = if kind == 1 { (0, 0) } else { (SEAM - 4, 8) };
    driven.ask(owner, request(VOLUME, range, operation));
}

proptest! {
    /// Whatever happens between, in any order.
    #[test]
    fn the_moments_of_every_traced_request_are_in_order(
        events in proptest::collection::vec((0..5usize, 0..6usize, 0..50u64), 1..200),
        seed in 0..8u64,
    ) {
        let mut driven = Driven::traced(seed, TraceOrder::new(9, 2, None, 8));
        let (mut was_full, mut is_full_once) = (false, true);
        for (event, kind, nanos) in events {
            driven.pass(nanos);
            match event {
                0 => driven.receive(),
                1 => submit_drawn(&mut driven, kind, Owner(kind as u64)),
                2 => driven.submit(nanos),
                3 if !driven.node.in_flight.is_empty() => driven.complete(),
                3 => {}
                _ => {
                    driven.answer(nanos);
                    let is_full = driven.send(Owner(kind as u64));
                    is_full_once &= !(is_full && was_full);
                    was_full |= is_full;
                }
            }
        }
        driven.finish();
        for owner in 0..6 {
            driven.send(Owner(owner));
        }
        prop_assert!(is_full_once);
        for record in driven.records() {
            prop_assert!(are_in_order(record.moments), "{record:?}");
            let times = times(record.moments);
            let whole = times[times.len() - 1] - times[0];
            prop_assert_eq!(stages(record.moments).iter().sum::<u64>(), whole);
            prop_assert!(record.moments.at(Moment::Sent).is_some(), "{:?}", record);
        }
    }
}
