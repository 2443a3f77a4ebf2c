//! The control socket and its path.

use std::path::{Path, PathBuf};

/// Maximum length of a request, including its line terminator.
pub const REQUEST_LEN_MAX: usize = 64 << 10;

/// Maximum length of an answer, including its line terminator. The longest answers are the metrics of
/// a thousand volumes.
pub const ANSWER_LEN_MAX: u64 = 64 << 20;

/// The control socket of a data directory.
pub fn socket_path(data_dir: &Path) -> PathBuf {
    data_dir.join("control.sock")
}

/// The variable of the environment that names the data directory.
pub const DATA_DIR_VARIABLE: &str = "NEARFLASH_DATA_DIR";

/// The default data directory cannot be derived from the environment.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "no default data directory: HOME is not set: add --data-dir DIR, or set NEARFLASH_DATA_DIR"
)]
pub struct NoDataDir;

fn folder(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The data directory that the environment names. A flag takes precedence over it, and it over a file.
pub fn data_dir_of_environment() -> Option<PathBuf> {
    folder(DATA_DIR_VARIABLE)
}

/// The data directory without a flag or a file: that of the environment, or the user's.
///
/// # Errors
/// When no variable names one, and neither `XDG_STATE_HOME` nor `HOME` is set, for a user other than
/// root.
pub fn default_data_dir() -> Result<PathBuf, NoDataDir> {
    if let Some(named) = data_dir_of_environment() {
        return Ok(named);
    }
    if rustix::process::geteuid().is_root() {
        return Ok("/var/lib/nearflash".into());
    }
    let state = folder("XDG_STATE_HOME").filter(|path| path.is_absolute());
    let state = state.or_else(|| folder("HOME").map(|home| home.join(".local/state")));
    state.map(|state| state.join("nearflash")).ok_or(NoDataDir)
}
