//! What a run leaves for its reader: one page, and behind it the figures, tables and raw results.
//!
//! Everything is made from a [`Document`] alone, so that it can be made again from kept results, and
//! of any part of a run. Knows nothing of how points are measured.

mod csv;
mod document;
mod files;
mod json;
mod markdown;
mod page;
mod summary;
mod tables;

use std::path::{Path, PathBuf};

use crate::exhibit::Exhibit;
use crate::plot::{self, PlotError};

pub use document::{About, Chapter, Document, Fact, PointEnd};
pub use json::{Kept, SCHEMA, read};
pub(crate) use page::frame;

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
    /// A figure has no picture.
    #[error(transparent)]
    Plot(#[from] PlotError),
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
    /// The same as text, with links to the figures.
    pub text: PathBuf,
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
    let written = Written {
        page: out_dir.join("report.html"),
        text: out_dir.join("report.md"),
        results: out_dir.join("results.json"),
    };
    // What cannot be made again comes first.
    files::write(&written.results, json::encode(document).as_bytes())?;
    for chapter in &document.chapters {
        let dir = out_dir.join(file_stem(&chapter.study));
        for exhibit in &chapter.exhibits {
            write_exhibit(exhibit, &dir)?;
        }
    }
    files::write(&written.text, markdown::render(document).as_bytes())?;
    files::write(&written.page, page::render(document).as_bytes())?;
    Ok(written)
}

/// The table and the figure of an exhibit.
fn write_exhibit(exhibit: &Exhibit, dir: &Path) -> Result<(), ReportError> {
    let Exhibit { slug, title, figure, table, .. } = exhibit;
    let path = |kind: &str| dir.join(format!("{}.{kind}", file_stem(slug)));
    files::write(&path("csv"), csv::encode(table).as_bytes())?;
    if let Some(figure) = figure {
        files::write(&path("svg"), plot::svg(slug, title, figure).as_bytes())?;
        files::write(&path("png"), &plot::png(slug, title, figure)?)?;
    }
    Ok(())
}

/// A name as the name of a file, a directory or a place of a page.
fn file_stem(name: &str) -> String {
    let letter = |letter: char| {
        if letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_') { letter } else { '-' }
    };
    name.chars().map(letter).collect()
}
