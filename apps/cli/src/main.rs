//! The `nearflash` command: parses the command line, calls the library in charge, and reports
//! failures in one line.
//!
//! It does not depend on devices, protocols or catalogs.

mod apply;
mod args;
mod calendar;
mod cluster;
mod config_check;
mod confirm;
mod control;
mod demo;
mod doctor;
mod events;
mod failure;
mod files;
mod help;
mod interpose;
mod job;
mod leaver;
mod manual;
mod mount;
mod new_volume;
mod output;
mod seal_url;
mod secret;
mod study;
mod tables;
mod top;
mod trace;
mod usage;
mod volume_args;
mod waiting;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use nearflash_config::{Config, ServeArgs};
use nearflash_units::OneLine;
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::prelude::*;

use args::{Cli, ConfigSubcommand, Subcommand};
use failure::Failure;
use output::print;

fn main() -> ExitCode {
    let parsed = match Cli::try_parse() {
        Ok(parsed) => parsed,
        Err(error) => return usage::report(&error),
    };
    match run(parsed) {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("nearflash: {}", OneLine(&failure));
            failure.exit_code()
        }
    }
}

fn run(Cli { data_dir, subcommand }: Cli) -> Result<ExitCode, Failure> {
    if data_dir.is_some() && !subcommand.takes_data_dir() {
        return Err(Failure::NoUseForDataDir);
    }
    match subcommand {
        Subcommand::Serve(args) => serve(args),
        Subcommand::Apply(args) => apply::run_apply(&args),
        Subcommand::Config(ConfigSubcommand::Check(args)) => config_check::run_check(&args),
        Subcommand::Volume(it) => control::run_volume(&it.node, it.subcommand),
        Subcommand::Credential(it) => control::run_credential(&it.node, it.subcommand),
        Subcommand::Grant(it) => control::run_grant(&it.node, it.subcommand),
        Subcommand::Host(it) => control::run_host(&it.node, it.subcommand),
        Subcommand::Chap(it) => control::run_chap(&it.node, it.subcommand),
        Subcommand::Token(it) => control::run_token(&it.node, it.subcommand),
        Subcommand::Reservation(it) => control::run_reservation(&it.node, it.subcommand),
        Subcommand::Device(it) => control::run_device(&it.node, it.subcommand),
        Subcommand::Job(it) => control::run_job(&it.node, it.subcommand),
        Subcommand::Status(node) => control::run_status(&node),
        Subcommand::Top(node) => top::run_top(&node),
        Subcommand::Trace(args) => trace::run_trace(&args),
        Subcommand::Metrics(node) => control::run_metrics(&node),
        Subcommand::Events(args) => events::run_events(&args),
        Subcommand::Cluster(cluster) => cluster::run_cluster(cluster),
        Subcommand::Files(it) => files::run_files(it.subcommand, it.json),
        Subcommand::Mount(args) => mount::run_mount(&args),
        Subcommand::Umount { dir, force } => mount::run_unmount(&dir, force),
        Subcommand::Run(args) => Err(interpose::become_program(&args).into()),
        Subcommand::Bench(args) => Ok(nearflash_bench::run(&args)?),
        Subcommand::Study { arguments } => Err(study::become_study(&arguments).into()),
        Subcommand::Doctor(args) => doctor::run_doctor(args),
        Subcommand::Demo(args) => {
            demo::run_demo(&args)?;
            Ok(ExitCode::SUCCESS)
        }
        Subcommand::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "nearflash", &mut script);
            print(&String::from_utf8_lossy(&script))?;
            Ok(ExitCode::SUCCESS)
        }
        Subcommand::ManualPages { dir } => {
            manual::write(Cli::command(), &dir).map_err(Failure::ManualPages)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn serve(args: ServeArgs) -> Result<ExitCode, Failure> {
    let config = Config::resolve(args).map_err(nearflash_node::StartError::from)?;
    let _written_at_the_end = log_to_stderr(config.log);
    nearflash_node::serve(&config)?;
    Ok(ExitCode::SUCCESS)
}

/// The lines of the log that wait for their reader. Their places take memory from the start on.
const LOG_LINES_MAX: usize = 4096;

/// Writes the log to stderr, until the guard is dropped. A slow or stopped reader of the log must
/// not block a core: lines are dropped instead.
fn log_to_stderr(level: impl Into<tracing_subscriber::filter::LevelFilter>) -> WorkerGuard {
    let lines = NonBlockingBuilder::default().buffered_lines_limit(LOG_LINES_MAX);
    let (writer, guard) = lines.finish(std::io::stderr());
    let dropped = writer.error_counter();
    nearflash_journal::events::count_dropped(move || dropped.dropped_lines());
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(writer)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .with_filter(level.into());
    tracing_subscriber::registry().with(lines).with(nearflash_journal::events::recorder()).init();
    guard
}
