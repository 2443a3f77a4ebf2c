//! The `nearflash` command: reads the command line, calls the library that does it, and says in
//! one line what went wrong.
//!
//! Knows nothing of devices, protocols or catalogs.

mod args;
mod calendar;
mod demo;
mod failure;
mod output;
mod secret;
mod tables;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use nearflash_access::GrantRange;
use nearflash_node::api::{Answer, ChapMutual, Command};
use nearflash_node::config::{Config, ServeArgs, default_data_dir, parse_volume};
use nearflash_node::control::ask;
use nearflash_space::Provisioning;
use nearflash_units::OneLine;

use args::{
    ChapSubcommand, Cli, CredentialSubcommand, GrantSubcommand, NodeArgs, ReservationSubcommand,
    Subcommand, VolumeSubcommand,
};
use calendar::Lifetime;
use failure::Failure;
use output::{Shown, print, show};
use secret::{SecretFile, read_secret};

fn main() -> ExitCode {
    match run(Cli::parse().subcommand) {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("nearflash: {}", OneLine(&failure));
            failure.exit_code()
        }
    }
}

fn run(subcommand: Subcommand) -> Result<ExitCode, Failure> {
    match subcommand {
        Subcommand::Serve(args) => serve(args),
        Subcommand::Volume(volume) => run_volume(volume),
        Subcommand::Credential(credential) => run_credential(credential),
        Subcommand::Grant(grant) => run_grant(grant),
        Subcommand::Chap(chap) => run_chap(chap),
        Subcommand::Reservation(reservation) => run_reservation(reservation),
        Subcommand::Status(node) => control(&node, Command::Status, Shown::Status),
        Subcommand::Bench(args) => Ok(nearflash_bench::run(&args)?),
        Subcommand::Study(command) => Ok(nearflash_study::run(&command)?),
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
    // Whoever reads the log may be slow, and stop. Lines are dropped then; no core waits.
    let (writer, _written_at_the_end) = tracing_appender::non_blocking(std::io::stderr());
    tracing_subscriber::fmt()
        .with_writer(writer)
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
                provisioning: (volume.provisioning != Provisioning::Thin)
                    .then(|| volume.provisioning.to_string()),
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

fn run_credential(subcommand: CredentialSubcommand) -> Result<ExitCode, Failure> {
    match subcommand {
        CredentialSubcommand::Create { id, expires, secret_file, node } => {
            let command = Command::CredentialCreate { id, expires_at: expires.map(Lifetime::end) };
            match secret_file {
                None => control(&node, command, Shown::Made),
                Some(path) => create_with_file(&node, command, &path),
            }
        }
        CredentialSubcommand::List { node } => control(&node, Command::CredentialList, Shown::List),
        CredentialSubcommand::Remove { id, node } => {
            control(&node, Command::CredentialRemove { id }, Shown::Removed)
        }
    }
}

/// Makes a credential whose secret goes to a file. The file comes first: a secret that could not
/// be written down would be lost.
fn create_with_file(node: &NodeArgs, command: Command, path: &Path) -> Result<ExitCode, Failure> {
    let file = SecretFile::create(path)?;
    match answer(node, command)? {
        Answer::CredentialMade { credential, secret } => {
            file.keep(&secret)?;
            print(&show(Answer::Credential { credential }, Shown::Made, node.json))?;
            Ok(ExitCode::SUCCESS)
        }
        other => {
            print(&show(other, Shown::Made, node.json))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn run_grant(subcommand: GrantSubcommand) -> Result<ExitCode, Failure> {
    match subcommand {
        GrantSubcommand::Add { id, volume, range, rights, expires, node } => {
            let range = range.unwrap_or(GrantRange::WHOLE);
            let command = Command::GrantAdd {
                credential: id,
                volume,
                start: range.start().0,
                end: range.end().map(|end| end.0),
                rights: rights.to_string(),
                expires_at: expires.map(Lifetime::end),
            };
            control(&node, command, Shown::Made)
        }
        GrantSubcommand::List { id, node } => {
            control(&node, Command::GrantList { credential: id }, Shown::List)
        }
        GrantSubcommand::Revoke { number, node } => {
            control(&node, Command::GrantRevoke { number }, Shown::Removed)
        }
    }
}

fn run_chap(subcommand: ChapSubcommand) -> Result<ExitCode, Failure> {
    match subcommand {
        ChapSubcommand::Add { user, secret_file, mutual_user, mutual_secret_file, node } => {
            let read = |path: Option<PathBuf>| path.as_deref().map(read_secret).transpose();
            let (secret, mutual_secret) = (read(secret_file)?, read(mutual_secret_file)?);
            let mutual = mutual_user.map(|user| ChapMutual { user, secret: mutual_secret });
            control(&node, Command::ChapAdd { user, secret, mutual }, Shown::Made)
        }
        ChapSubcommand::List { node } => control(&node, Command::ChapList, Shown::List),
        ChapSubcommand::Remove { user, node } => {
            control(&node, Command::ChapRemove { user }, Shown::Removed)
        }
    }
}

fn run_reservation(subcommand: ReservationSubcommand) -> Result<ExitCode, Failure> {
    match subcommand {
        ReservationSubcommand::List { volume, node } => {
            control(&node, Command::ReservationList { volume }, Shown::List)
        }
        ReservationSubcommand::Clear { volume, node } => {
            control(&node, Command::ReservationClear { volume }, Shown::Removed)
        }
    }
}

/// Asks the node, and shows its answer.
fn control(node: &NodeArgs, command: Command, shown: Shown) -> Result<ExitCode, Failure> {
    print(&show(answer(node, command)?, shown, node.json))?;
    Ok(ExitCode::SUCCESS)
}

fn answer(node: &NodeArgs, command: Command) -> Result<Answer, Failure> {
    let data_dir = match &node.data_dir {
        Some(data_dir) => data_dir.clone(),
        None => default_data_dir().map_err(nearflash_node::NodeError::from)?,
    };
    Ok(ask(&data_dir, command)?)
}
