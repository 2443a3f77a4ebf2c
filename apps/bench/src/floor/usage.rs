//! The use of its core by a side.

use std::time::Instant;

use nearflash_units::Nanos;

use super::spec::Waits;
use crate::cpu::CpuMeter;
use crate::placement::elapsed;
use crate::recorder::CpuTime;

/// The use of its core by a side that answers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    pub(super) cpu: CpuTime,
    pub(super) core_share: f64,
}

impl Usage {
    /// Of a side that is not there.
    pub(super) fn none() -> Self {
        Self { cpu: CpuTime::default(), core_share: 1.0 }
    }

    /// From the start of a side until now.
    pub(super) fn since(start: Instant, cpu: &CpuMeter, waits: Waits) -> Self {
        let cpu = cpu.used();
        Self { cpu, core_share: share(cpu.total, elapsed(start), waits) }
    }
}

/// The fraction of a time that a thread ran; 1 if it slept whenever it had nothing to do.
pub(super) fn share(cpu: Nanos, elapsed: Nanos, waits: Waits) -> f64 {
    if elapsed.0 == 0 || waits == Waits::Asleep { 1.0 } else { cpu.0 as f64 / elapsed.0 as f64 }
}
