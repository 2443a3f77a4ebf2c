//! The command line of `nearflash study`.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use nearflash_bench::subject::Target;
use nearflash_units::{Nanos, parse_duration};

use crate::plan::Peer;
use crate::studies::{CORE_WATTS, catalogue};

/// The subcommands of `nearflash study`.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum StudyCommand {
    /// List the studies, their questions and the papers that they come from
    List,
    /// Measure, and write a report with findings, figures and tables
    Run(Box<RunArgs>),
    /// Rewrite the report from the points measured so far; measures nothing
    Report(ReportArgs),
    /// Compare two runs: show the differences that exceed their spread
    Compare(CompareArgs),
}

/// Arguments of `nearflash study report`.
#[derive(Clone, Debug, clap::Args)]
pub struct ReportArgs {
    /// Folder of the run's results; the run may still be in progress
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// As for 'study run' [default: the value given to the run]
    #[arg(long, value_name = "FILE")]
    pub costs: Option<PathBuf>,
    /// As for 'study run' [default: the value given to the run]
    #[arg(long, value_name = "WATTS", value_parser = watts)]
    pub core_watts: Option<f64>,
    /// Write a copy for publication to this folder instead: pages, figures as SVG and tables as
    /// CSV, without results.json
    #[arg(long, value_name = "OUT")]
    pub publish: Option<PathBuf>,
}

/// Arguments of `nearflash study compare`.
#[derive(Clone, Debug, clap::Args)]
pub struct CompareArgs {
    /// Folder of the first run's results
    #[arg(value_name = "A")]
    pub first: PathBuf,
    /// Folder of the second run's results
    #[arg(value_name = "B")]
    pub second: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Write an HTML page as well
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Arguments of `nearflash study run`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct RunArgs {
    /// Studies, or 'all'
    #[arg(required = true, value_name = "NAME", value_parser = names(), hide_possible_values = true)]
    pub names: Vec<String>,
    /// Measure fewer and shorter points, for an overview within minutes
    #[arg(long)]
    pub quick: bool,
    /// Number of runs of each point [default: 5, with --quick 2]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repeats: Option<u32>,
    /// Measured time of each run [default: 500ms, with --quick 100ms]
    #[arg(long, value_name = "TIME", value_parser = runtime)]
    pub runtime: Option<Nanos>,
    /// Remote volume to measure as well (repeatable), in the form that 'nearflash bench' takes.
    /// Studies that write to it need --destroy
    #[arg(long = "target", value_name = "URL")]
    pub targets: Vec<Target>,
    /// File or device to measure instead of scratch files. Refused if it holds data, unless
    /// --destroy is given
    #[arg(long, value_name = "PATH")]
    pub local: Option<PathBuf>,
    /// Allow the data on --local and on each --target to be overwritten
    #[arg(long)]
    pub destroy: bool,
    /// Program to measure as well (repeatable) [default: those that are installed]
    #[arg(long = "peer", value_name = "PROGRAM", value_enum)]
    pub peers: Vec<Peer>,
    /// Folder for results and scratch files; an interrupted run resumes from it [default:
    /// nearflash-study-DATE, with --quick nearflash-study-DATE-quick]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Discard earlier results and measure every point again
    #[arg(long)]
    pub fresh: bool,
    /// TOML file of capacities, needs and prices, for the study 'cost'
    #[arg(long, value_name = "FILE")]
    pub costs: Option<PathBuf>,
    /// Power of a busy core in watts, for the study 'energy' on machines without an energy counter
    #[arg(long, value_name = "WATTS", default_value_t = CORE_WATTS, value_parser = watts)]
    pub core_watts: f64,
}

/// The names of all studies, and `all`.
fn names() -> PossibleValuesParser {
    let studies = catalogue().iter().map(|study| study.name());
    PossibleValuesParser::new(std::iter::once("all").chain(studies))
}

/// The range of `--runtime`. In a shorter run no operation may complete; a longer one is a mistake.
const RUNTIMES: std::ops::RangeInclusive<Nanos> = Nanos::from_millis(10)..=Nanos::from_secs(3600);

fn runtime(text: &str) -> Result<Nanos, String> {
    let span = parse_duration(text).map_err(|error| error.to_string())?;
    match RUNTIMES.contains(&span) {
        true => Ok(span),
        false => Err("use a time between 10ms and 1h".to_owned()),
    }
}

fn watts(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(watts) if watts > 0.0 && watts < 1e4 => Ok(watts),
        _ => Err("write a number of watts, for example 7.5".to_owned()),
    }
}
