//! Why a study could not be run.

use std::io;
use std::path::PathBuf;

use nearflash_units::ByteLen;

use crate::report::ReportError;

/// Why nothing, or not all, was measured. Each is one line with its remedy.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// No study of that name.
    #[error("there is no study '{name}': use all, or some of {}", known.join(", "))]
    Unknown {
        /// As written.
        name: String,
        /// All there are, the likeliest first.
        known: Vec<&'static str>,
    },
    /// A file or folder of the run.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A point was measured and cannot be kept.
    #[error(
        "cannot write to {}: {source}: make room, and the same command goes on with what has been \
         measured",
        path.display()
    )]
    NotKept {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// What is kept there cannot stand beside what would be measured now.
    #[error(
        "{} holds results of {what}: name another folder with --out, or start over with --fresh",
        path.display()
    )]
    OtherRun {
        /// The folder.
        path: PathBuf,
        /// Of which other run.
        what: String,
    },
    /// Somebody measures into it.
    #[error(
        "{} is being written to by another run: wait for its end, or name another folder with --out",
        path.display()
    )]
    Busy {
        /// The folder.
        path: PathBuf,
    },
    /// Nothing is kept there.
    #[error("{} holds no results: name the folder that a run wrote to", path.display())]
    NoRun {
        /// The folder.
        path: PathBuf,
    },
    /// What is kept there cannot be read.
    #[error(
        "{} is no list of measured points (line {line}): name another folder with --out, or start \
         over with --fresh",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where.
        line: usize,
    },
    /// No room for scratch files.
    #[error(
        "{} has {free} free, and scratch files need {needed}: name a folder on another disk with \
         --out",
        path.display()
    )]
    DiskFull {
        /// The folder.
        path: PathBuf,
        /// How much there is.
        free: ByteLen,
        /// How much there must be.
        needed: ByteLen,
    },
    /// A remote volume would be written to.
    #[error(
        "--target {target}: these studies write to it; give --destroy if nothing on it is needed"
    )]
    TargetWritten {
        /// Which.
        target: String,
    },
    /// A target is nobody's volume.
    #[error(
        "--target {target}: nobody serves it: name a volume by nvme-tcp://, iscsi:// or direct://, and a \
         file or device of this machine by --local"
    )]
    TargetNotServed {
        /// Which.
        target: String,
    },
    /// A target is there already.
    #[error("--target {target}: named twice, and nothing tells its points apart: name it once")]
    TargetTwice {
        /// Which.
        target: String,
    },
    /// What a run was asked for cannot be read back.
    #[error(
        "{} is of no use: {source}: remove it, and say --costs and --core-watts again if the run had \
         them",
        path.display()
    )]
    Asked {
        /// The file.
        path: PathBuf,
        /// Why.
        source: crate::asked::AskedError,
    },
    /// A report would be published among a run's own results.
    #[error("--publish {}: holds results of a run: name another folder", path.display())]
    PublishedOverRun {
        /// The folder.
        path: PathBuf,
    },
    /// `--local` is not ours to write to.
    #[error(transparent)]
    Local(#[from] crate::local::LocalError),
    /// `--costs` is no file of prices.
    #[error("--costs: {0}")]
    Costs(#[from] crate::studies::CostError),
    /// The report.
    #[error(transparent)]
    Report(#[from] ReportError),
}

impl StudyError {
    /// Whether what the user wrote is wrong, and not the world.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Unknown { .. }
                | Self::OtherRun { .. }
                | Self::NoRun { .. }
                | Self::TargetWritten { .. }
                | Self::TargetNotServed { .. }
                | Self::TargetTwice { .. }
                | Self::PublishedOverRun { .. }
                | Self::Local(_)
                | Self::Costs(_)
        )
    }
}
