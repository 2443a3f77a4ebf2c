//! The load that other programs put on the machine.

use std::time::{Duration, Instant};

use nearflash_bench::cpu::{self, ProcessTime};
use nearflash_units::Nanos;

/// Counts processor time of the whole machine and of some processes over a span.
pub(super) struct Watch {
    start: Instant,
    programs: Nanos,
    own: Vec<(u32, ProcessTime)>,
}

/// The result of a [`Watch`].
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// Length of the span.
    pub(super) span: Nanos,
    /// Processor time of all other programs, as a fraction of one core.
    pub(super) others: f64,
    /// Time of each watched process, in the order given to [`Watch::start`].
    pub(super) own: Vec<ProcessTime>,
}

/// The system counts processor time in ticks, so a smaller difference is noise.
const NOISE: Nanos = Nanos::from_millis(40);

impl Watch {
    pub(super) fn start(process_ids: &[u32]) -> Self {
        let own = process_ids.iter().map(|id| (*id, time_of(*id))).collect();
        Self { start: Instant::now(), programs: cpu::of_programs(), own }
    }

    pub(super) fn stop(&self) -> Seen {
        let programs = cpu::of_programs().since(self.programs);
        let own: Vec<ProcessTime> =
            self.own.iter().map(|(id, before)| time_of(*id).since(*before)).collect();
        let span = Nanos(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        let ours = own.iter().fold(Nanos(0), |sum, own| sum.plus(own.cpu.total));
        let others = programs.since(ours).since(NOISE);
        Seen { span, others: others.0 as f64 / span.0.max(1) as f64, own }
    }
}

/// A process's times; zero once it has ended.
fn time_of(process_id: u32) -> ProcessTime {
    cpu::of_process(process_id).unwrap_or_default()
}

/// Processor time that other processes use during `span`, as a fraction of one core.
pub(crate) fn others_share(span: Duration) -> f64 {
    let watch = Watch::start(&[std::process::id()]);
    std::thread::sleep(span);
    watch.stop().others
}
