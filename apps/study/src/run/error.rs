//! Errors of points.

use nearflash_bench::BenchError;
use nearflash_bench::compare::FioError;
use nearflash_bench::subject::TargetError;

/// The reason why a point was not measured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PointError {
    /// The measurement failed.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// A target's URL is not valid.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The machine has too few cores.
    #[error("needs {needed} cores, but only {there} may be used")]
    Cores { needed: usize, there: usize },
    /// The bare exchange has only one direction.
    #[error("the bare exchange is measured with reads or writes, not with a mix")]
    MixedWire,
    /// No operation completed.
    #[error("no operation completed within {counted_ms} ms")]
    Nothing { counted_ms: u64 },
    /// The medium exists only behind a node.
    #[error(
        "memory and null devices exist only behind a node, so they cannot be measured without one"
    )]
    NodeOnly,
    /// fio runs one load for all its jobs.
    #[error("fio measures one load at a time")]
    OneLoad,
    /// fio failed.
    #[error(transparent)]
    Fio(#[from] FioError),
    /// A volume cannot be mounted.
    #[error("a volume of files is not mounted: {0}")]
    Mount(String),
    /// A file is measured by our own program.
    #[error("the program nearflash is not there, which measures files")]
    NoProgram,
    /// Our own program fails when it measures a file.
    #[error("{0}")]
    OfFile(String),
    /// A space of several nodes cannot be started.
    #[error("a space of several nodes does not start: {source}")]
    Space { source: std::io::Error },
    /// A peer is not installed.
    #[error("{peer} is not installed")]
    Absent { peer: &'static str },
    /// A peer does not start to listen.
    #[error("{peer} does not listen")]
    NotListening { peer: &'static str },
    /// A peer cannot serve the medium.
    #[error("{peer} does not serve {medium}")]
    NotServed { peer: &'static str, medium: &'static str },
}
