//! The report of a run: one page, with the figures, tables and raw results that it links to.
//!
//! A report is made from a [`Document`] alone, so it can be made again from stored results, and for
//! any part of a run. This module does not depend on how points are measured.

mod csv;
mod document;
mod error;
pub(crate) mod files;
mod findings;
mod json;
mod markdown;
mod names;
mod page;
mod summary;
mod tables;
mod typography;

use std::path::{Path, PathBuf};

use names::{Edition, PAGE_FILE, RESULTS_FILE, TEXT_FILE, file_stem};

use crate::exhibit::Exhibit;
use crate::folder::POINTS_FILE;
use crate::plot;

pub use document::{About, Chapter, Document, Fact, SCHEMA};
pub use error::ReportError;
pub use json::{Kept, read};
pub(crate) use page::frame;

/// The files written.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Written {
    /// The page.
    pub page: PathBuf,
    /// The same report as Markdown, with links to the figures.
    pub text: PathBuf,
}

/// Writes the report to a folder, which is created if necessary. Files of an earlier report are
/// replaced, each atomically.
///
/// # Errors
///
/// When a file cannot be written.
pub fn write(document: &Document, out_dir: &Path) -> Result<Written, ReportError> {
    // First the file from which all others can be made again.
    files::write(&out_dir.join(RESULTS_FILE), json::encode(document).as_bytes())?;
    write_pages(document, out_dir, Edition::Run)
}

/// Writes a copy of the report for publication, small enough to be stored with other documents: its
/// pages, figures as SVG and tables as CSV. It links to no other files.
///
/// # Errors
///
/// When a file cannot be written.
pub fn publish(document: &Document, out_dir: &Path) -> Result<Written, ReportError> {
    write_pages(document, out_dir, Edition::Published)
}

/// Whether a folder holds the results of a run.
pub(crate) fn is_run(out_dir: &Path) -> bool {
    [POINTS_FILE, RESULTS_FILE].iter().any(|name| out_dir.join(name).exists())
}

fn write_pages(
    document: &Document,
    out_dir: &Path,
    edition: Edition,
) -> Result<Written, ReportError> {
    let written = Written { page: out_dir.join(PAGE_FILE), text: out_dir.join(TEXT_FILE) };
    for chapter in &document.chapters {
        let dir = out_dir.join(file_stem(&chapter.study));
        for exhibit in &chapter.exhibits {
            write_exhibit(exhibit, &dir)?;
        }
    }
    files::write(&written.text, markdown::render(document).as_bytes())?;
    files::write(&written.page, page::render(document, edition).as_bytes())?;
    Ok(written)
}

/// Writes the table and the figure of an exhibit.
fn write_exhibit(exhibit: &Exhibit, dir: &Path) -> Result<(), ReportError> {
    let Exhibit { slug, title, figure, table, .. } = exhibit;
    let path = |kind: &str| dir.join(format!("{}.{kind}", file_stem(slug)));
    files::write(&path("csv"), csv::encode(table).as_bytes())?;
    let Some(figure) = figure else { return Ok(()) };
    files::write(&path("svg"), plot::svg(slug, title, figure).as_bytes())
}
