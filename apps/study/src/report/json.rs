//! Results as JSON: writes and reads `results.json`.

use std::fs;
use std::io;
use std::path::Path;

use super::names::{PAGE_FILE, RESULTS_FILE};
use super::{About, Document, ReportError, SCHEMA};
use crate::folder::POINTS_FILE;
use crate::plan::PointId;
use crate::result::{Outcome, PointEnd};

#[derive(serde::Serialize)]
struct Encoded<'a> {
    schema: u64,
    #[serde(flatten)]
    document: &'a Document,
}

/// The whole document. Numbers that are not finite (no operation was counted) become `null`.
pub(super) fn encode(document: &Document) -> String {
    let mut text = serde_json::to_string(&Encoded { schema: SCHEMA, document })
        .expect("names of a document are strings, and it is written to memory");
    text.push('\n');
    text
}

/// A run read from `results.json`: its description and its points, without exhibits.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// Description of the run.
    pub about: About,
    /// Each study's name and points.
    pub studies: Vec<(String, Vec<PointEnd>)>,
}

#[derive(serde::Deserialize)]
struct Head {
    schema: u64,
}

#[derive(serde::Deserialize)]
struct Body {
    about: About,
    chapters: Vec<BodyChapter>,
}

#[derive(serde::Deserialize)]
struct BodyChapter {
    study: String,
    points: Vec<BodyPoint>,
}

#[derive(serde::Deserialize)]
struct BodyPoint {
    id: PointId,
    outcome: serde_json::Value,
}

impl From<BodyPoint> for PointEnd {
    /// A point whose numbers cannot be read becomes a failed one; the others are unaffected.
    fn from(BodyPoint { id, outcome }: BodyPoint) -> Self {
        let outcome = serde_json::from_value(outcome).unwrap_or_else(|error| {
            Outcome::Failed(format!("its numbers cannot be read: {error}"))
        });
        Self { id, outcome }
    }
}

/// Reads the results of a run from its folder.
///
/// # Errors
///
/// When the folder has no results, or results of another schema.
pub fn read(out_dir: &Path) -> Result<Kept, ReportError> {
    let path = out_dir.join(RESULTS_FILE);
    let text = fs::read_to_string(&path).map_err(|source| unreadable(out_dir, source))?;
    let malformed = |source| ReportError::Malformed { path: path.clone(), source };
    let head: Head = serde_json::from_str(&text).map_err(malformed)?;
    if head.schema != SCHEMA {
        return Err(ReportError::Schema { path, found: head.schema });
    }
    let body: Body = serde_json::from_str(&text).map_err(malformed)?;
    let studies = body.chapters.into_iter().map(|chapter| {
        let points = chapter.points.into_iter().map(PointEnd::from).collect();
        (chapter.study, points)
    });
    Ok(Kept { about: body.about, studies: studies.collect() })
}

/// The reason why `results.json` is missing, judging by the other files in the folder.
fn unreadable(out_dir: &Path, source: io::Error) -> ReportError {
    let has = |name: &str| out_dir.join(name).is_file();
    let path = out_dir.to_owned();
    match source.kind() {
        io::ErrorKind::NotFound if has(POINTS_FILE) => ReportError::Unwritten { path },
        io::ErrorKind::NotFound if has(PAGE_FILE) => ReportError::Published { path },
        _ => ReportError::Read { path: path.join(RESULTS_FILE), source },
    }
}
