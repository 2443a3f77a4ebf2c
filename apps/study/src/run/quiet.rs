//! Whether the machine is quiet: what others work on it.

use std::time::{Duration, Instant};

use nearflash_bench::cpu::{self, ProcessTime};
use nearflash_units::Nanos;

/// The machine and some processes of ours, watched for a while.
pub(super) struct Watch {
    start: Instant,
    programs: Nanos,
    own: Vec<(u32, ProcessTime)>,
}

/// What was seen.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// How long it took.
    pub(super) span: Nanos,
    /// What other programs worked, as a share of one core.
    pub(super) others: f64,
    /// Each process's own, in the order in which they were named.
    pub(super) own: Vec<ProcessTime>,
}

/// Processor time of others is counted in ticks, and so is much of ours: less than this is noise.
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

/// Of a process; nothing once it is gone.
fn time_of(process_id: u32) -> ProcessTime {
    cpu::of_process(process_id).unwrap_or_default()
}

/// What other processes work now, as a share of one core, watched for a while.
pub(crate) fn others_share(span: Duration) -> f64 {
    let watch = Watch::start(&[std::process::id()]);
    std::thread::sleep(span);
    watch.stop().others
}
