//! The command line of `nearflash study`.

use std::path::PathBuf;

use nearflash_bench::subject::Target;
use nearflash_units::{Nanos, parse_duration};

use crate::plan::Peer;
use crate::studies::CORE_WATTS;

/// What to do with studies.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum StudyCommand {
    /// List the studies: their questions, and where the papers ask them
    List,
    /// Measure, and write a report: figures, tables, and what they say
    Run(Box<RunArgs>),
    /// Write the report anew from what has been measured so far, and measure nothing
    Report(ReportArgs),
    /// Put two runs side by side: what both measured, and what differs beyond their spread
    Compare(CompareArgs),
}

/// One run's results.
#[derive(Clone, Debug, clap::Args)]
pub struct ReportArgs {
    /// Folder of the run's results; it may still be under way
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// As of 'study run' [default: what the run was given]
    #[arg(long, value_name = "FILE")]
    pub costs: Option<PathBuf>,
    /// As of 'study run' [default: what the run was given]
    #[arg(long, value_name = "WATTS", value_parser = watts)]
    pub core_watts: Option<f64>,
    /// Write a copy for others to read into this folder instead: pages, figures as SVG and tables as
    /// CSV, without results.json and PNG
    #[arg(long, value_name = "OUT")]
    pub publish: Option<PathBuf>,
}

/// Two runs.
#[derive(Clone, Debug, clap::Args)]
pub struct CompareArgs {
    /// Folder of one run's results
    #[arg(value_name = "A")]
    pub first: PathBuf,
    /// Folder of the other's
    #[arg(value_name = "B")]
    pub second: PathBuf,
    /// For programs
    #[arg(long)]
    pub json: bool,
    /// Write a page as well
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// What to measure, and where results go.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct RunArgs {
    /// Studies, or 'all'
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
    /// Fewer and shorter points: a first look within minutes
    #[arg(long)]
    pub quick: bool,
    /// Measure each point so often [default: 5, with --quick 2]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repeats: Option<u32>,
    /// Count for this long each time [default: 500ms, with --quick 100ms]
    #[arg(long, value_name = "TIME", value_parser = runtime)]
    pub runtime: Option<Nanos>,
    /// Remote volume to measure as well (repeatable), as 'nearflash bench' names them. Writes to it,
    /// and so needs --destroy, if the studies do
    #[arg(long = "target", value_name = "URL")]
    pub targets: Vec<Target>,
    /// File or device to measure instead of scratch files. Refused when it holds something, unless
    /// --destroy
    #[arg(long, value_name = "PATH")]
    pub local: Option<PathBuf>,
    /// What is on --local and on each --target may be overwritten
    #[arg(long)]
    pub destroy: bool,
    /// Program to measure as well (repeatable) [default: those that are installed]
    #[arg(long = "peer", value_name = "PROGRAM", value_enum)]
    pub peers: Vec<PeerName>,
    /// Folder for results and scratch files; a run that was interrupted goes on where it was
    /// [default: nearflash-study-DATE, with --quick nearflash-study-DATE-quick]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Measure everything again
    #[arg(long)]
    pub fresh: bool,
    /// TOML file of capacities, needs and prices, for the study 'cost'
    #[arg(long, value_name = "FILE")]
    pub costs: Option<PathBuf>,
    /// Watts of a busy core, for the study 'energy' on machines that do not tell
    #[arg(long, value_name = "WATTS", default_value_t = CORE_WATTS, value_parser = watts)]
    pub core_watts: f64,
}

/// A peer, as it is named.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
#[value(rename_all = "lower")]
pub enum PeerName {
    /// fio on the medium itself
    Fio,
    /// Debian's iSCSI target
    Tgt,
    /// nbdkit, over NBD
    Nbdkit,
}

impl From<PeerName> for Peer {
    fn from(name: PeerName) -> Self {
        match name {
            PeerName::Fio => Self::Fio,
            PeerName::Tgt => Self::Tgt,
            PeerName::Nbdkit => Self::Nbdkit,
        }
    }
}

/// Shorter, and nothing ends within it; longer, and nobody waits for it.
const RUNTIMES: std::ops::RangeInclusive<Nanos> = Nanos::from_millis(10)..=Nanos::from_secs(3600);

fn runtime(text: &str) -> Result<Nanos, String> {
    let span = parse_duration(text).map_err(|error| error.to_string())?;
    match RUNTIMES.contains(&span) {
        true => Ok(span),
        false => Err("between 10ms and 1h".to_owned()),
    }
}

fn watts(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(watts) if watts > 0.0 && watts < 1e4 => Ok(watts),
        _ => Err("write a number of watts, as 7.5".to_owned()),
    }
}
