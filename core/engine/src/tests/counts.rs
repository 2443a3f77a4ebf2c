//! Every request is counted once: for its host, its volume and its kind, with its times.

use super::*;
use crate::{Asking, Figures, Kind, KindFigures, Meter, Opened, PAIRS_MAX, Totals};
use nearflash_units::Nanos;

const OTHER_VOLUME: VolumeId = VolumeId(5);

impl Node {
    /// The meters that were opened since the last call.
    fn opened(&mut self) -> Vec<Opened> {
        let engines = self.engines.iter_mut();
        engines.flat_map(|engine| std::iter::from_fn(|| engine.poll_opened())).collect()
    }

    /// The sum over the meters that were opened since the last call and are meant.
    pub(super) fn figures(&mut self, meant: impl Fn(Option<VolumeId>, &Asking) -> bool) -> Figures {
        let mut figures = Figures::default();
        for Opened { volume, host, meter } in self.opened() {
            if meant(volume, &host) {
                figures.read(&meter);
            }
        }
        figures
    }

    /// The meter that was opened last.
    fn meter(&mut self) -> Arc<Meter> {
        self.opened().pop().expect("one was opened").meter
    }

    fn set_now(&mut self, micros: u64) {
        self.engines[0].set_now(Nanos::from_micros(micros));
    }

    /// A device operation ends.
    fn end_one(&mut self, result: DeviceResult) {
        self.collect();
        let (core, request) = self.in_flight.remove(0);
        self.engines[core].handle_device(request.id, result, &mut self.pools[core]);
        self.collect();
    }

    fn read_of(&mut self, account: AccountId, volume: VolumeId) {
        let range = BlockRange { start: Lba(0), count: Blocks(8) };
        let request =
            Request { tag: Tag(0), volume, range, operation: Operation::Read, sent_in: None };
        let asker = Asker { owner: Owner(0), account, nexus: Nexus::NONE, begin_by: Nanos::NEVER };
        self.engines[0].submit(asker, request, &mut self.pools[0]);
    }
}

fn read(meter: &Meter) -> Figures {
    let mut figures = Figures::default();
    figures.read(meter);
    figures
}

/// (done, bytes, errors)
fn counts(figures: &KindFigures) -> (u64, u64, u64) {
    (figures.done, figures.bytes, figures.errors)
}

fn two_volumes() -> Arc<VolumeTable> {
    Arc::new(VolumeTable::new([(VOLUME, map()), (OTHER_VOLUME, map())]))
}

#[test]
fn requests_are_counted_by_kind_with_their_bytes_and_failed_ones_as_errors() {
    let mut node = Node::new(1, 1);
    let payload = |node: &mut Node| node.payload(0, &[0; 2 * BLOCK]);
    let write =
        |node: &mut Node| Operation::Write { payload: payload(node), force_unit_access: false };
    let operation = write(&mut node);
    node.submit(0, 1, (0, 2), operation);
    node.submit(0, 2, (0, 2), Operation::Read);
    node.submit(
        0,
        3,
        (0, 8),
        Operation::WriteZeroes { deallocate: false, force_unit_access: true },
    );
    node.submit(0, 4, (0, 1), Operation::Flush);
    let compare = payload(&mut node);
    node.submit(0, 5, (0, 2), Operation::Compare { payload: compare });
    node.run();
    // A comparison that fails is an error, and so is a range that does not exist.
    let differs = node.payload(0, &[1; 2 * BLOCK]);
    node.submit(0, 6, (0, 2), Operation::Compare { payload: differs });
    node.submit(0, 7, (2 * SEAM, 2), Operation::Read);
    node.run();
    let meters = node.opened();
    let is_expected = |it: &Opened| (it.volume, &it.host) == (Some(VOLUME), &Asking::Unnamed);
    assert!(meters.len() == 1 && meters.iter().all(is_expected), "{meters:?}");
    let figures = read(&meters[0].meter);
    assert_eq!(counts(figures.of(Kind::Read)), (1, 1024, 1));
    assert_eq!(counts(figures.of(Kind::Write)), (1, 1024, 0));
    assert_eq!(counts(figures.of(Kind::Other)), (3, 4096 + 1024, 1));
    assert_eq!((figures.in_flight, figures.waiting), (0, 0));
    let traffic = meters[0].meter.traffic();
    assert_eq!((traffic.reads, traffic.read_bytes), (2, 2048), "the read and a comparison");
    assert_eq!((traffic.writes, traffic.written_bytes, traffic.media_errors), (1, 1024, 0));
}

#[test]
fn a_read_that_the_medium_fails_is_an_error_of_the_medium() {
    let mut node = Node::new(1, 1);
    node.submit(0, 1, (0, 2), Operation::Read);
    node.end_one(DeviceResult::MediumError);
    let meter = node.meter();
    assert_eq!(counts(read(&meter).of(Kind::Read)), (0, 0, 1));
    assert_eq!(meter.traffic().media_errors, 1);
}

#[test]
fn the_times_of_a_request_that_waits_go_from_its_arrival_and_what_waits_is_seen_meanwhile() {
    let mut node = Node::new(1, 1);
    let taken = node.payload(0, &vec![0; 1 << 20]);
    node.set_now(100);
    node.submit(0, 1, (0, 8), Operation::Read);
    let meter = node.meter();
    assert_eq!((read(&meter).in_flight, read(&meter).waiting), (1, 1));
    node.set_now(130);
    node.pools[0].give_back(taken);
    node.collect();
    assert_eq!((read(&meter).in_flight, read(&meter).waiting), (1, 0));
    node.set_now(200);
    node.end_one(DeviceResult::Done);
    // The next one does not wait.
    node.set_now(300);
    node.submit(0, 2, (0, 8), Operation::Read);
    node.set_now(310);
    node.end_one(DeviceResult::Done);
    let figures = read(&meter);
    let mut totals = Totals::default();
    totals.read(&meter);
    let read = figures.of(Kind::Read);
    let micros = Nanos::from_micros;
    assert_eq!((read.waited.count(), read.waited.sum()), (1, micros(30)));
    assert_eq!(
        (read.took.count(), read.took.sum(), read.took.max()),
        (2, micros(110), micros(100))
    );
    let sums = totals.kinds[Kind::Read as usize];
    assert_eq!((sums.done, sums.bytes, sums.errors), counts(read));
    assert_eq!((sums.took, sums.waited), (micros(110), micros(30)));
    assert_eq!((figures.in_flight, figures.waiting), (0, 0));
}

#[test]
fn a_request_that_is_cancelled_while_it_waits_is_an_error_and_has_waited() {
    let mut node = Node::new(1, 1);
    let _taken = node.payload(0, &vec![0; 1 << 20]);
    node.submit(0, 1, (0, 8), Operation::Read);
    node.set_now(7);
    node.engines[0].cancel_waiting(Owner(0), |_| true, &mut node.pools[0]);
    let meter = node.meter();
    let figures = read(&meter);
    assert_eq!(counts(figures.of(Kind::Read)), (0, 0, 1));
    assert_eq!(figures.of(Kind::Read).waited.sum(), Nanos::from_micros(7));
    assert_eq!((figures.in_flight, figures.waiting), (0, 0));
}

#[test]
fn each_host_has_a_meter_for_each_volume_which_it_finds_again_after_a_reconnect() {
    let mut node = Node::new(1, 1);
    node.engines[0].set_volumes(two_volumes());
    let one = node.engines[0].accounts().open(None);
    node.engines[0].accounts().join(one, "one");
    let other = node.engines[0].accounts().open(Some("other"));
    for (account, volume) in [(one, VOLUME), (one, OTHER_VOLUME), (other, VOLUME), (one, VOLUME)] {
        node.read_of(account, volume);
    }
    node.run();
    // All of what its connection holds goes back with it.
    node.engines[0].accounts().clear(one);
    node.engines[0].accounts().close(one);
    let again = node.engines[0].accounts().open(Some("one"));
    node.read_of(again, VOLUME);
    node.run();
    let named = |name: &str| Asking::Host(name.into());
    let mut found: Vec<_> = node.opened();
    found.sort_by_key(|it| (it.volume, it.host.clone()));
    let found: Vec<_> = found
        .iter()
        .map(|it| (it.volume, it.host.clone(), read(&it.meter).of(Kind::Read).done))
        .collect();
    let expected = [
        (Some(VOLUME), named("one"), 3),
        (Some(VOLUME), named("other"), 1),
        (Some(OTHER_VOLUME), named("one"), 1),
    ];
    assert_eq!(found, expected);
}

#[test]
fn the_meters_of_a_removed_volume_are_dropped_and_late_requests_belong_to_nobody() {
    let mut node = Node::new(1, 1);
    let account = node.engines[0].accounts().open(Some("host"));
    node.read_of(account, VOLUME);
    node.run();
    node.read_of(account, VOLUME);
    let meter = node.meter();
    node.engines[0].set_volumes(Arc::default());
    assert!(Arc::strong_count(&meter) > 1, "a request is under way");
    node.run();
    node.engines[0].set_volumes(Arc::default());
    assert_eq!(Arc::strong_count(&meter), 1);
    assert_eq!(read(&meter).of(Kind::Read).done, 2);
    node.read_of(account, VOLUME);
    let late = node.opened().pop().unwrap();
    assert_eq!((late.volume, late.host), (None, Asking::Others));
    assert_eq!(counts(read(&late.meter).of(Kind::Read)), (0, 0, 1));
}

#[test]
fn hosts_beyond_the_bound_share_a_meter_and_a_volumes_sum_is_whole() {
    let mut node = Node::new(1, 1);
    let unproved = PAIRS_MAX - PAIRS_MAX / 4;
    let hosts = PAIRS_MAX + 20;
    for host in 0..hosts {
        let account = node.engines[0].accounts().open(Some(&host.to_string()));
        if host >= unproved + 10 {
            node.engines[0].accounts().set_proved(account);
        }
        node.read_of(account, VOLUME);
        node.run();
        let (_, answer) = node.answers.pop().unwrap();
        let Payload::Buffer(buffer) = answer.completion.payload else { panic!("a read failed") };
        node.pools[0].give_back(buffer);
    }
    let opened = node.opened();
    assert_eq!(opened.len(), PAIRS_MAX);
    let done = |it: &Opened| read(&it.meter).of(Kind::Read).done;
    let others: Vec<u64> = opened.iter().filter(|it| it.host == Asking::Others).map(done).collect();
    assert_eq!(others, [21], "10 without a proof, and those beyond the bound");
    assert_eq!(opened.iter().map(done).sum::<u64>(), u64::try_from(hosts).unwrap());
}

#[test]
fn a_connection_that_uses_many_volumes_finds_the_meter_of_each() {
    let mut node = Node::new(1, 1);
    let volumes: Vec<VolumeId> = (0..200).map(|number| VolumeId(number * 3)).collect();
    let table = VolumeTable::new(volumes.iter().map(|volume| (*volume, map())));
    node.engines[0].set_volumes(Arc::new(table));
    let account = node.engines[0].accounts().open(Some("host"));
    for volume in volumes.iter().chain(&volumes) {
        node.read_of(account, *volume);
    }
    let opened = node.opened();
    let came = |it: &Opened| (it.volume, read(&it.meter).in_flight);
    let mut found: Vec<_> = opened.iter().map(came).collect();
    found.sort_unstable();
    let expected: Vec<_> = volumes.iter().map(|volume| (Some(*volume), 2)).collect();
    assert_eq!(found, expected);
}
