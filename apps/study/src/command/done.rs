//! The summary of a run that is printed at its end.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};

use super::{INTERRUPTED, trimmed};
use crate::report::{Chapter, Written};
use crate::result::Results;
use crate::run::Ended;

/// Conclusions printed per study; the report has the rest.
const SAID_PER_STUDY_MAX: usize = 3;

/// The summary of a run.
pub struct Done {
    pub(super) ended: Ended,
    /// Whether a point of this program, or of a `--target`, could not be measured. Failures of
    /// peers are reported, but do not count.
    pub(super) has_failed: bool,
    lines: Vec<Line>,
    conclusions: Vec<String>,
    out_dir: PathBuf,
    written: Written,
}

/// The counts of one study.
struct Line {
    study: String,
    measured: usize,
    failed: usize,
    doubtful: usize,
    pending: usize,
    unable: usize,
}

impl Line {
    fn new(chapter: &Chapter, results: &Results) -> Self {
        let failed = chapter.failed().count();
        let doubtful = chapter.points.iter().filter(|end| results.is_doubtful(&end.id)).count();
        Self {
            study: chapter.study.clone(),
            measured: chapter.points.len() - failed,
            failed,
            doubtful,
            pending: chapter.pending.len(),
            unable: chapter.unable.len(),
        }
    }
}

/// The first conclusion of each of a chapter's first exhibits.
fn conclusions(chapters: &[&Chapter]) -> Vec<String> {
    let of = |chapter: &&Chapter| {
        let said = chapter.exhibits.iter().filter_map(|exhibit| exhibit.conclusions.first());
        said.take(SAID_PER_STUDY_MAX)
            .map(|said| format!("{}: {said}", chapter.study))
            .collect::<Vec<_>>()
    };
    chapters.iter().flat_map(of).collect()
}

impl Done {
    /// Summarizes the named chapters. `out_dir` and `written` are the folder and files of the
    /// report.
    pub(super) fn new(
        ended: Ended,
        has_failed: bool,
        chapters: &[&Chapter],
        results: &Results,
        (out_dir, written): (PathBuf, Written),
    ) -> Self {
        Self {
            ended,
            has_failed,
            lines: chapters.iter().map(|chapter| Line::new(chapter, results)).collect(),
            conclusions: conclusions(chapters),
            out_dir,
            written,
        }
    }

    /// 0 if every point was measured, 1 if points failed, 130 if the run was interrupted.
    pub(super) fn exit_code(&self) -> ExitCode {
        match (self.ended.is_interrupted, self.has_failed) {
            (true, _) => INTERRUPTED.into(),
            (false, true) => ExitCode::FAILURE,
            (false, false) => ExitCode::SUCCESS,
        }
    }

    pub(super) fn to_text(&self, took: Duration) -> String {
        let mut text = format!("{}\n\n", self.table());
        for conclusion in &self.conclusions {
            text.push_str(conclusion);
            text.push('\n');
        }
        if !self.conclusions.is_empty() {
            text.push('\n');
        }
        if self.ended.is_interrupted {
            text.push_str(&format!(
                "interrupted: repeat the command with --out {} to resume\n",
                self.out_dir.display()
            ));
        }
        text.push_str(&format!(
            "{} points measured in {} s; report: {}",
            self.ended.measured,
            took.as_secs(),
            self.written.page.display()
        ));
        text
    }

    fn table(&self) -> String {
        let mut table = Table::new();
        table
            .load_style(presets::NOTHING)
            .set_header(["STUDY", "MEASURED", "FAILED", "DOUBTFUL", "LEFT", "UNABLE"]);
        for line in &self.lines {
            let Line { measured, failed, doubtful, pending, unable, .. } = line;
            let counts = [measured, failed, doubtful, pending, unable];
            let counts = counts.iter().map(|count| count.to_string());
            table.add_row(std::iter::once(line.study.clone()).chain(counts));
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        trimmed(&table)
    }
}
