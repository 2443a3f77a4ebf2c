//! Errors of studies.

use std::io;
use std::path::PathBuf;

use nearflash_media::OpenError;
use nearflash_units::ByteLen;

use crate::report::ReportError;
use crate::studies::CostError;

/// The reason why points were not measured. Each message is one line and names a remedy.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum StudyError {
    /// No study has that name.
    #[error("there is no study '{name}': use all, or some of {}", known.join(", "))]
    Unknown { name: String, known: Vec<&'static str> },
    /// A file or folder of the run cannot be accessed.
    #[error("cannot {action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    /// There is no program `nearflash`, which is the node of most points.
    #[error(
        "cannot find the program 'nearflash' next to this one or in PATH: install it, or name it in \
         NEARFLASH_BIN"
    )]
    NoNode,
    /// One of the programs that take part cannot be read.
    #[error("cannot read {}: {source}: name the program 'nearflash' in NEARFLASH_BIN", path.display())]
    Program { path: PathBuf, source: io::Error },
    /// A point was measured and cannot be stored.
    #[error(
        "cannot write to {}: {source}: make room, then repeat the command to resume",
        path.display()
    )]
    NotKept { path: PathBuf, source: io::Error },
    /// The folder's results are not comparable with those of this run.
    #[error(
        "{} holds results of {what}: name another folder with --out, or start over with --fresh",
        path.display()
    )]
    OtherRun { path: PathBuf, what: String },
    /// Another run writes to the folder.
    #[error(
        "{} is being written to by another run: wait for its end, or name another folder with --out",
        path.display()
    )]
    Busy { path: PathBuf },
    /// The folder holds no results.
    #[error("{} holds no results: name the folder that a run wrote to", path.display())]
    NoRun { path: PathBuf },
    /// The stored points cannot be read.
    #[error(
        "{} is not a list of measured points (line {line}): name another folder with --out, or \
         start over with --fresh",
        path.display()
    )]
    Damaged {
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// No room for scratch files.
    #[error(
        "{} has {free} free, and scratch files need {needed}: name a folder on another disk with \
         --out",
        path.display()
    )]
    DiskFull {
        path: PathBuf,
        /// Free bytes.
        free: ByteLen,
        /// Required bytes.
        needed: ByteLen,
    },
    /// A study writes to a remote volume, and `--destroy` is not given.
    #[error(
        "--target {target}: these studies write to it: give --destroy if its data may be overwritten"
    )]
    TargetWritten { target: String },
    /// A `--target` is a file or device of this machine.
    #[error(
        "--target {target}: not a remote volume: use a nvme-tcp://, iscsi:// or direct:// URL, or \
         name a file or device of this machine with --local"
    )]
    TargetNotServed { target: String },
    /// A `--target` is named twice.
    #[error("--target {target}: named twice, so its points cannot be told apart: name it once")]
    TargetTwice { target: String },
    /// The stored arguments of the run cannot be read.
    #[error(
        "{} cannot be used: {source}: remove it, and repeat --costs and --core-watts if the run \
         had these options",
        path.display()
    )]
    Asked { path: PathBuf, source: AskedError },
    /// `--publish` names a folder that holds the results of a run.
    #[error("--publish {}: the folder holds results of a run: name another folder", path.display())]
    PublishedOverRun { path: PathBuf },
    /// `--local` cannot be used.
    #[error(transparent)]
    Local(#[from] LocalError),
    /// `--costs` does not hold valid prices.
    #[error("--costs: {0}")]
    Costs(#[from] CostError),
    /// The report cannot be written.
    #[error(transparent)]
    Report(#[from] ReportError),
}

impl StudyError {
    /// Whether the command line is wrong, as opposed to its environment.
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

/// The reason why the file cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum AskedError {
    /// The file has the schema of another version.
    #[error("it has schema {found}, but this version reads {known}")]
    Schema { found: u64, known: u64 },
    /// The file is not valid JSON, or lacks a field.
    #[error("{0}")]
    Malformed(#[from] serde_json::Error),
    /// A capacity, need or price is not valid.
    #[error("{0}")]
    Costs(#[from] CostError),
}

/// The reason why a user's file or device is not measured.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum LocalError {
    /// It is in use, or cannot be opened.
    #[error("--local: {0}")]
    Refused(Box<OpenError>),
    /// It holds data.
    #[error(
        "--local: {} holds {what}: name another, or give --destroy to erase it",
        path.display()
    )]
    Holds { path: PathBuf, what: &'static str },
    /// It is too short.
    #[error("--local: {} is {len} long: it must be at least {len_min} long", path.display())]
    TooSmall { path: PathBuf, len: ByteLen, len_min: ByteLen },
    /// It is neither a file nor a block device.
    #[error("--local: {}: {source}: name a file or a block device", path.display())]
    Absent { path: PathBuf, source: io::Error },
}
