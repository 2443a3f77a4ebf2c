//! The errors of reports.

use std::path::PathBuf;

use super::SCHEMA;

/// The reason why a report could not be written or read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum ReportError {
    /// The folder is missing, full, or not writable.
    #[error("cannot write {}: {source}: choose another directory with --out", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    /// The file is missing or not readable.
    #[error("cannot read {}: {source}: name the folder that a run wrote to", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// A run that is in progress, or that ended before it wrote its report.
    #[error(
        "{path} has no results.json yet: 'nearflash study report {path}' writes it",
        path = .path.display()
    )]
    Unwritten { path: PathBuf },
    /// A published copy, which has no results.
    #[error(
        "{} is a published report, without results.json: name the directory that it was published from, \
         or measure with 'nearflash study run'",
        path.display()
    )]
    Published { path: PathBuf },
    /// The file is not a report, or is damaged.
    #[error("{} is not a report of nearflash study: {source}", path.display())]
    Malformed { path: PathBuf, source: serde_json::Error },
    /// The file has the schema of another version.
    #[error("{} has schema {found}, but this version reads {SCHEMA}: use the version that wrote it", path.display())]
    Schema { path: PathBuf, found: u64 },
}
