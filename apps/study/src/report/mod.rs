//! What a run leaves for its reader: one page, and behind it the figures, tables and raw results.
//!
//! Everything is made from a [`Document`] alone, so that it can be made again from kept results, and
//! of any part of a run. Knows nothing of how points are measured.

mod document;
mod files;
mod json;

use std::path::{Path, PathBuf};

pub use document::{About, Chapter, Document, Fact, PointEnd};
pub use json::{Kept, SCHEMA, read};

/// Why a report could not be written, or read back.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The directory is missing, full, or not ours.
    #[error("cannot write {}: {source}. Choose another directory with --out", path.display())]
    Write {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// There is no such file, or it is not ours to read.
    #[error("cannot read {}: {source}. Name the directory that --out of a run named", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// It is no report, or a damaged one.
    #[error("{} is not a report of nearflash study: {source}", path.display())]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// What the decoder says.
        source: serde_json::Error,
    },
    /// It was written by a version that keeps results otherwise.
    #[error("{} has schema {found}, this version reads {SCHEMA}: compare with the version that wrote it", path.display())]
    Schema {
        /// Which file.
        path: PathBuf,
        /// What it says it is.
        found: u64,
    },
}

/// What was written.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Written {
    /// The page to open.
    pub page: PathBuf,
    /// The results, for programs.
    pub results: PathBuf,
}

/// Writes the report into a directory, which is made if need be; what an earlier report left there
/// under the same names is replaced, each file whole or not at all.
///
/// # Errors
///
/// A file that cannot be written.
pub fn write(document: &Document, out_dir: &Path) -> Result<Written, ReportError> {
    let results = out_dir.join("results.json");
    files::write(&results, json::encode(document).as_bytes())?;
    let page = out_dir.join("report.html");
    Ok(Written { page, results })
}
