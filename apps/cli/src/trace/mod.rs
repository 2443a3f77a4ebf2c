//! `nearflash trace`: where requests to a running node spend their time, as a table or for a viewer of traces.

mod chrome;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use nearflash_api::client::ask;
use nearflash_api::{TRACE_REQUESTS_MAX, TRACE_SECONDS_MAX, TraceRun};

use crate::args::NodeArgs;
use crate::control::data_dir;
use crate::failure::Failure;
use crate::output::{print, show};

/// The requests to trace, and the form of the answer.
#[derive(Debug, clap::Args)]
pub(crate) struct TraceArgs {
    /// Length of the trace in seconds
    #[arg(
        long,
        value_name = "S",
        default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..=TRACE_SECONDS_MAX)
    )]
    seconds: u64,
    /// Trace one in N requests
    #[arg(
        long,
        value_name = "N",
        default_value_t = 100,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    every: u32,
    /// Maximum number of requests, divided among the cores
    #[arg(
        long,
        value_name = "M",
        default_value_t = 1000,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(TRACE_REQUESTS_MAX))
    )]
    records: u32,
    /// Trace only requests to this volume
    #[arg(long, value_name = "VOLUME")]
    volume: Option<String>,
    /// Also write the trace to FILE, as JSON for chrome://tracing or ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    chrome: Option<PathBuf>,
    #[command(flatten)]
    node: NodeArgs,
}

pub(crate) fn run_trace(args: &TraceArgs) -> Result<ExitCode, Failure> {
    let TraceArgs { seconds, every, records, volume, chrome, node } = args;
    let call =
        TraceRun { seconds: *seconds, every: *every, records: *records, volume: volume.clone() };
    let trace = ask(&data_dir(node)?, call)?;
    if let Some(path) = chrome {
        std::fs::write(path, chrome::document(&trace))
            .map_err(|source| Failure::TraceFile { path: path.clone(), source })?;
    }
    print(&show(&trace, node.json, table::text))?;
    Ok(ExitCode::SUCCESS)
}
