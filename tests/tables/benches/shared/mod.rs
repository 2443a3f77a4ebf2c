//! The parts that the tables share: the command line, the node, and the folders.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use nearflash_bench::BenchError;
use nearflash_bench::compare::{NodeSpec, Timing};
use nearflash_bench::floor::FloorCores;
use nearflash_units::{Nanos, parse_duration};

/// The command line of a table.
#[derive(Parser)]
pub(crate) struct TableArgs {
    /// Passed by `cargo bench`.
    #[arg(long, hide = true)]
    bench: bool,
    /// Rounds of each row
    #[arg(long, default_value_t = 9)]
    rounds: u32,
    /// Counted time of each side of a round
    #[arg(long, default_value = "1s", value_parser = parse_duration)]
    span: Nanos,
    /// Cores of the node and of the client
    #[arg(long, default_value = "0,1")]
    pub(crate) cores: FloorCores,
    /// Measure only rows whose description contains this text
    #[arg(default_value = "")]
    pub(crate) filter: String,
    /// Folder for the files of devices, which must not be on a RAM file system
    #[arg(long)]
    dir: Option<PathBuf>,
    /// File for the JSON
    #[arg(long)]
    json: Option<PathBuf>,
}

impl TableArgs {
    /// Duration and number of rounds.
    pub(crate) fn timing(&self) -> Timing {
        Timing { ramp: Nanos(self.span.0 / 10), span: self.span, rounds: self.rounds }
    }

    /// A node on the server's core: the release build, or the program in NEARFLASH_BIN.
    #[allow(dead_code, reason = "not every table starts one")]
    pub(crate) fn node(&self, dir: &Path, args: &[&str]) -> NodeSpec {
        let binary = std::env::var_os("NEARFLASH_BIN")
            .map_or_else(|| target_dir().join("release/nearflash"), PathBuf::from);
        let core = self.cores.server.0.to_string();
        let args = args.iter().chain(&["--cores", &core]).map(|word| (*word).to_owned()).collect();
        NodeSpec { binary, args, data_dir: dir.join("data") }
    }
}

/// The result of a table.
pub(crate) struct Outcome {
    pub(crate) markdown: String,
    pub(crate) json: String,
    pub(crate) is_reached: bool,
}

/// Measures a table in a temporary folder and prints the result. `name` is that of the bench.
pub(crate) fn main(
    name: &str,
    measure: impl FnOnce(&TableArgs, &Path) -> Result<Outcome, BenchError>,
) -> ExitCode {
    let args = TableArgs::parse();
    if !args.bench {
        println!("measures a release build: run it with `cargo bench -p nearflash-tables`");
        return ExitCode::SUCCESS;
    }
    match run(name, &args, measure) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(
    name: &str,
    args: &TableArgs,
    measure: impl FnOnce(&TableArgs, &Path) -> Result<Outcome, BenchError>,
) -> Result<bool, BenchError> {
    let parent = args.dir.clone().unwrap_or_else(|| target_dir().join(name));
    let output = |path: &Path, source| BenchError::Output { path: path.to_owned(), source };
    let dir = TempDir::new_in(&parent).map_err(|source| output(&parent, source))?;
    let outcome = measure(args, &dir.0)?;
    println!("{}", outcome.markdown);
    if let Some(path) = &args.json {
        std::fs::write(path, outcome.json).map_err(|source| output(path, source))?;
    }
    Ok(outcome.is_reached)
}

/// Cargo's target folder, three levels above this program.
fn target_dir() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    program.ancestors().nth(3).map_or_else(|| "target".into(), Path::to_owned)
}

/// A folder that is removed on drop.
struct TempDir(PathBuf);

impl TempDir {
    fn new_in(parent: &Path) -> std::io::Result<Self> {
        let dir = parent.join(std::process::id().to_string());
        std::fs::create_dir_all(&dir)?;
        Ok(Self(dir))
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
