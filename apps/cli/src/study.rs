//! `nearflash study`: this process becomes the program `nearflash-study`, which has the figures, the
//! reports and their dependencies. The program that serves does not contain them.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use nearflash_bench::compare::find;

/// The program's name.
const PROGRAM: &str = "nearflash-study";
/// Names the node's program to it.
const NODE: &str = "NEARFLASH_BIN";

/// The reason why the program does not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StudyError {
    #[error(
        "cannot find the program '{PROGRAM}' next to this one or in PATH: 'make install' installs it"
    )]
    Missing,
    #[error("cannot start {}: {source}", program.display())]
    Start { program: PathBuf, source: io::Error },
}

/// Replaces this process; returns only if that fails. Signals and the exit code are then those of
/// the program. It measures the program that was called, unless another one is named.
pub(crate) fn become_study(arguments: &[OsString]) -> StudyError {
    let own = std::env::current_exe().ok();
    let sibling = own.as_ref().map(|own| own.with_file_name(PROGRAM)).filter(|it| it.is_file());
    let Some(program) = sibling.or_else(|| find(PROGRAM)) else { return StudyError::Missing };
    let mut command = Command::new(&program);
    command.args(arguments);
    if let (Some(own), None) = (own, std::env::var_os(NODE)) {
        command.env(NODE, own);
    }
    StudyError::Start { source: command.exec(), program }
}
