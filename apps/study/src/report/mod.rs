//! What a run leaves for its reader: one page, and behind it the figures, tables and raw results.
//!
//! Everything is made from a [`Document`] alone, so that it can be made again from kept results, and
//! of any part of a run. Knows nothing of how points are measured.

mod csv;
mod document;
pub(crate) mod files;
mod json;
mod markdown;
mod page;
mod summary;
mod tables;
mod typography;

use std::path::{Path, PathBuf};

use crate::exhibit::Exhibit;
use crate::folder::POINTS_FILE;
use crate::plot::{self, PlotError};

pub use document::{About, Chapter, Document, Fact};
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
    /// A run is under way there, or was ended before it wrote its report.
    #[error(
        "{path} has no results.json yet: 'nearflash study report {path}' writes it",
        path = .path.display()
    )]
    Unwritten {
        /// The directory.
        path: PathBuf,
    },
    /// A copy for others, without its results.
    #[error(
        "{} is a published report, without results.json: name the directory that it was published from, \
         or measure with 'nearflash study run'",
        path.display()
    )]
    Published {
        /// The directory.
        path: PathBuf,
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
}

/// The page's name.
const PAGE_FILE: &str = "report.html";
/// The text's.
const TEXT_FILE: &str = "report.md";

/// What lies beside a page, and so what it can lead to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Beside {
    /// Of a run: everything.
    Everything,
    /// Of a copy for others to read: what is large and can be made again is left out.
    Published,
}

impl Beside {
    /// The forms of a figure.
    fn pictures(self) -> &'static [&'static str] {
        match self {
            Self::Everything => &["svg", "png"],
            Self::Published => &["svg"],
        }
    }
}

/// Writes the report into a directory, which is made if need be; what an earlier report left there
/// under the same names is replaced, each file whole or not at all.
///
/// # Errors
///
/// A file that cannot be written.
pub fn write(document: &Document, out_dir: &Path) -> Result<Written, ReportError> {
    // What cannot be made again comes first.
    files::write(&out_dir.join(json::FILE), json::encode(document).as_bytes())?;
    write_pages(document, out_dir, Beside::Everything)
}

/// Writes a copy of the report for others to read, small enough to be kept with other documents: its
/// pages, figures as SVG and tables as CSV, and links to nothing else.
///
/// # Errors
///
/// A file that cannot be written.
pub fn publish(document: &Document, out_dir: &Path) -> Result<Written, ReportError> {
    write_pages(document, out_dir, Beside::Published)
}

/// Whether a run keeps its results in a directory.
pub(crate) fn is_run(out_dir: &Path) -> bool {
    [POINTS_FILE, json::FILE].iter().any(|name| out_dir.join(name).exists())
}

fn write_pages(
    document: &Document,
    out_dir: &Path,
    beside: Beside,
) -> Result<Written, ReportError> {
    let written = Written { page: out_dir.join(PAGE_FILE), text: out_dir.join(TEXT_FILE) };
    for chapter in &document.chapters {
        let dir = out_dir.join(file_stem(&chapter.study));
        for exhibit in &chapter.exhibits {
            write_exhibit(exhibit, &dir, beside)?;
        }
    }
    files::write(&written.text, markdown::render(document).as_bytes())?;
    files::write(&written.page, page::render(document, beside).as_bytes())?;
    Ok(written)
}

/// The table and the figure of an exhibit.
fn write_exhibit(exhibit: &Exhibit, dir: &Path, beside: Beside) -> Result<(), ReportError> {
    let Exhibit { slug, title, figure, table, .. } = exhibit;
    let path = |kind: &str| dir.join(format!("{}.{kind}", file_stem(slug)));
    files::write(&path("csv"), csv::encode(table).as_bytes())?;
    let Some(figure) = figure else { return Ok(()) };
    for &kind in beside.pictures() {
        let bytes = match kind {
            "png" => plot::png(slug, title, figure)?,
            _ => plot::svg(slug, title, figure).into_bytes(),
        };
        files::write(&path(kind), &bytes)?;
    }
    Ok(())
}

/// A longer name of a file would be refused by file systems, once its ending stands behind it.
const STEM_LEN_MAX: usize = 200;

/// A name as the name of a file, a directory or a place of a page. Of long ones, as those of targets can
/// be, the middle is a number that tells them apart.
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
    // It is ASCII throughout.
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
