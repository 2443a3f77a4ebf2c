//! The `nearflash` command: reads the command line, calls the library that does it, and says in
//! one line what went wrong.
//!
//! Knows nothing of devices, protocols or catalogs.

mod args;
mod demo;
mod failure;
mod output;
mod tables;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use nearflash_node::api::{Answer, Command};
use nearflash_node::config::{Config, ServeArgs, default_data_dir, parse_volume};
use nearflash_node::control::ask;

use args::{Cli, NodeArgs, Subcommand, VolumeSubcommand};
use failure::Failure;
use output::{Shown, print, show};

fn main() -> ExitCode {
    match run(Cli::parse().subcommand) {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("nearflash: {failure}");
            failure.exit_code()
        }
    }
}

fn run(subcommand: Subcommand) -> Result<ExitCode, Failure> {
    match subcommand {
        Subcommand::Serve(args) => serve(args),
        Subcommand::Volume(volume) => run_volume(volume),
        Subcommand::Status(node) => control(&node, Command::Status, Shown::Status),
        Subcommand::Bench(args) => Ok(nearflash_bench::run(&args)?),
        Subcommand::Demo(args) => {
            print(&format!("{}\n", demo::demo(&args)?))?;
            Ok(ExitCode::SUCCESS)
        }
        Subcommand::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "nearflash", &mut script);
            print(&String::from_utf8_lossy(&script))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn serve(args: ServeArgs) -> Result<ExitCode, Failure> {
    let config = Config::resolve(args).map_err(nearflash_node::NodeError::from)?;
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .with_max_level(config.log)
        .init();
    nearflash_node::serve(&config)?;
    Ok(ExitCode::SUCCESS)
}

fn run_volume(subcommand: VolumeSubcommand) -> Result<ExitCode, Failure> {
    match subcommand {
        VolumeSubcommand::Create { volume, node } => {
            let volume = parse_volume(&volume).map_err(Failure::Volume)?;
            let command = Command::VolumeCreate {
                name: volume.name.to_string(),
                bytes: volume.len.0,
                device: volume.device.to_string(),
                block_size: Some(volume.block_size.bytes()),
                subsystem: volume.subsystem.map(|name| name.to_string()),
            };
            control(&node, command, Shown::Made)
        }
        VolumeSubcommand::List { node } => control(&node, Command::VolumeList, Shown::List),
        VolumeSubcommand::Resize { name, size, shrink, node } => {
            let command = Command::VolumeResize { name, bytes: size.0, shrink };
            control(&node, command, Shown::Resized)
        }
        VolumeSubcommand::Remove { name, force, node } => {
            control(&node, Command::VolumeRemove { name, force }, Shown::Removed)
        }
    }
}

/// Asks the node, and shows its answer.
fn control(node: &NodeArgs, command: Command, shown: Shown) -> Result<ExitCode, Failure> {
    let data_dir = match &node.data_dir {
        Some(data_dir) => data_dir.clone(),
        None => default_data_dir().map_err(nearflash_node::NodeError::from)?,
    };
    let answer: Answer = ask(&data_dir, command)?;
    print(&show(answer, shown, node.json))?;
    Ok(ExitCode::SUCCESS)
}
