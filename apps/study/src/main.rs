//! The program `nearflash-study`, which `nearflash study` starts: parses the command line, and
//! reports failures in one line.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser as _};
use nearflash_api::usage_line;
use nearflash_study::{StudyCommand, StudyError};
use nearflash_units::OneLine;

const EXAMPLES: &str = "\
Examples:
  nearflash study list
  nearflash study run all --quick
  nearflash study run latency-sum iops-clients --out results
  nearflash study run quicksan-latency --local /dev/nvme0n1 --destroy
  nearflash study report results
  nearflash study compare results other-results

Repeat the command to continue an interrupted run. The exit code is 1 when points could not be
measured, and 130 when the run was interrupted. The studied node is the program 'nearflash' next to
this one, or in PATH; NEARFLASH_BIN names another.";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  nearflash study completions bash >~/.local/share/bash-completion/completions/nearflash-study
  nearflash study completions zsh >~/.zfunc/_nearflash-study";

/// Repeat published measurements of remote flash on this machine
#[derive(Debug, clap::Parser)]
#[command(name = "nearflash-study", bin_name = "nearflash study", version = nearflash_api::BUILD, about, after_help = EXAMPLES, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    subcommand: Subcommand,
}

#[derive(Debug, clap::Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one, on the main thread's stack")]
enum Subcommand {
    #[command(flatten)]
    Study(StudyCommand),
    /// Print a shell's completion script for the program nearflash-study
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write a manual page for each command to a directory
    #[command(hide = true)]
    ManualPages {
        /// The directory
        dir: PathBuf,
    },
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    let done = match cli.subcommand {
        Subcommand::Study(command) => nearflash_study::run(&command),
        Subcommand::Completions { shell } => completions(shell),
        Subcommand::ManualPages { dir } => manual_pages(dir),
    };
    done.unwrap_or_else(|error| {
        eprintln!("nearflash-study: {}", OneLine(&error));
        if error.is_usage() { 2.into() } else { ExitCode::FAILURE }
    })
}

/// Prints the help that was asked for, or says in one line what is wrong with the command line.
fn refuse(error: &clap::Error) -> ExitCode {
    let is_help = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if is_help || !error.use_stderr() {
        // Nobody is left to tell if this fails.
        let _ = error.print();
    } else {
        eprintln!("nearflash-study: {}", OneLine(&usage_line(&error.render().to_string())));
    }
    if error.use_stderr() { 2.into() } else { ExitCode::SUCCESS }
}

fn completions(shell: clap_complete::Shell) -> Result<ExitCode, StudyError> {
    let mut script = Vec::new();
    let mut command = Cli::command().bin_name("nearflash-study");
    clap_complete::generate(shell, &mut command, "nearflash-study", &mut script);
    nearflash_study::print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

fn manual_pages(dir: PathBuf) -> Result<ExitCode, StudyError> {
    clap_mangen::generate_to(Cli::command(), &dir).map_err(|source| StudyError::Io {
        action: "write manual pages to",
        path: dir,
        source,
    })?;
    Ok(ExitCode::SUCCESS)
}
