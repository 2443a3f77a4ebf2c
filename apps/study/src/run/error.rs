//! Why a point was not measured.

use nearflash_bench::BenchError;
use nearflash_bench::compare::FioError;
use nearflash_bench::subject::TargetError;

/// Why a point was not measured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PointError {
    /// The measuring.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// A place.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The machine is too small.
    #[error("needs {needed} cores, and {there} may be used")]
    Cores { needed: usize, there: usize },
    /// The wire is one direction.
    #[error("the bare exchange is measured with reads or writes, not with a mix")]
    MixedWire,
    /// Nothing ended.
    #[error("no operation ended within {counted_ms} ms")]
    Nothing { counted_ms: u64 },
    /// There is no such medium without a node.
    #[error("memory, and what answers after a delay, are a node's: nothing to measure without one")]
    NodeOnly,
    /// fio has one load for all its jobs.
    #[error("fio measures one load at a time")]
    OneLoad,
    /// fio did not measure.
    #[error(transparent)]
    Fio(#[from] FioError),
    /// A peer that is not there.
    #[error("{peer} is not installed")]
    Absent { peer: &'static str },
    /// A peer that does not start.
    #[error("{peer} does not listen")]
    NotListening { peer: &'static str },
    /// A peer cannot serve everything.
    #[error("{peer} does not serve {medium}")]
    NotServed { peer: &'static str, medium: &'static str },
}
