//! The report of a run: one page, with the figures, tables and raw results that it links to.
//!
//! A report is made from a [`Document`] alone, so it can be made again from stored results, and for
//! any part of a run. This module does not depend on how points are measured.

mod csv;
mod document;
pub(crate) mod files;
mod findings;
mod json;
mod markdown;
mod page;
mod summary;
mod tables;
mod typography;

use std::path::{Path, PathBuf};

use crate::exhibit::Exhibit;
use crate::folder::POINTS_FILE;
use crate::plot;

pub use document::{About, Chapter, Document, Fact};
pub use json::{Kept, SCHEMA, read};
pub(crate) use page::frame;

/// The reason why a report could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The folder is missing, full, or not writable.
    #[error("cannot write {}: {source}: choose another directory with --out", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file is missing or not readable.
    #[error("cannot read {}: {source}: name the folder that a run wrote to", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A run that is in progress, or that ended before it wrote its report.
    #[error(
        "{path} has no results.json yet: 'nearflash study report {path}' writes it",
        path = .path.display()
    )]
    Unwritten {
        /// The folder.
        path: PathBuf,
    },
    /// A published copy, which has no results.
    #[error(
        "{} is a published report, without results.json: name the directory that it was published from, \
         or measure with 'nearflash study run'",
        path.display()
    )]
    Published {
        /// The folder.
        path: PathBuf,
    },
    /// The file is not a report, or is damaged.
    #[error("{} is not a report of nearflash study: {source}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The decoder's error.
        source: serde_json::Error,
    },
    /// The file has the schema of another version.
    #[error("{} has schema {found}, but this version reads {SCHEMA}: use the version that wrote it", path.display())]
    Schema {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: u64,
    },
}

/// The files written.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Written {
    /// The page.
    pub page: PathBuf,
    /// The same report as Markdown, with links to the figures.
    pub text: PathBuf,
}

/// Name of the page.
const PAGE_FILE: &str = "report.html";
/// Name of the Markdown file.
const TEXT_FILE: &str = "report.md";

/// The files next to a page, to which it can link.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Edition {
    /// All files of a run.
    Run,
    /// A published copy, without the results of every run.
    Published,
}

/// Writes the report to a folder, which is created if necessary. Files of an earlier report are
/// replaced, each atomically.
///
/// # Errors
///
/// When a file cannot be written.
pub fn write(document: &Document, out_dir: &Path) -> Result<Written, ReportError> {
    // First the file from which all others can be made again.
    files::write(&out_dir.join(json::FILE), json::encode(document).as_bytes())?;
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
    [POINTS_FILE, json::FILE].iter().any(|name| out_dir.join(name).exists())
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

/// Maximum length of a stem; with a longer one the file name could exceed the 255 bytes that file
/// systems allow.
const STEM_LEN_MAX: usize = 200;

/// Converts a name to the stem of a file or folder, or to an anchor of a page. The middle of a long
/// name, such as a target's URL, is replaced by a hash.
fn file_stem(name: &str) -> String {
    let letter = |letter: char| {
        if letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_') { letter } else { '-' }
    };
    let stem: String = name.chars().map(letter).collect();
    if stem.len() <= STEM_LEN_MAX {
        return stem;
    }
    // FNV-1a.
    let hash = name.bytes().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    });
    // The stem is ASCII, so every index is a character boundary.
    format!("{}-{hash:016x}-{}", &stem[..STEM_LEN_MAX / 2], &stem[stem.len() - STEM_LEN_MAX / 4..])
}

#[cfg(test)]
mod tests {
    use super::{STEM_LEN_MAX, file_stem};

    #[test]
    fn names_of_files_are_short_enough_and_differ_as_what_they_name() {
        assert_eq!(
            file_stem("tenants-url=nvme-tcp://[::1]:4420/a b"),
            "tenants-url-nvme-tcp------1--4420-a-b"
        );
        let long = |middle: &str| {
            let name = format!("{}{middle}{}-demand", "ä".repeat(150), "b".repeat(150));
            file_stem(&name)
        };
        assert!(long("x").len() <= STEM_LEN_MAX && long("x").ends_with("b-demand"));
        assert_ne!(long("x"), long("y"));
    }
}
