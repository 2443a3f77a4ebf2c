//! The summary of a run that is printed at its end.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::terminal::{INTERRUPTED, trimmed};
use crate::finding::Finding;
use crate::report::{Chapter, Written};
use crate::result::Results;
use crate::run::Ended;

/// The summary of a run.
pub struct Done {
    pub(super) ended: Ended,
    /// Whether a point of this program, or of a `--target`, could not be measured. Failures of
    /// peers are reported, but do not count.
    pub(super) has_failed: bool,
    lines: Vec<Line>,
    /// The findings as a table; empty without findings.
    findings: String,
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

/// The findings of these chapters, as in the report.
fn findings(chapters: &[&Chapter]) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(["STUDY", "CLAIM", "PAPER", "HERE", "VERDICT", "FIGURE"]);
    for chapter in chapters {
        for finding in chapter.findings() {
            let Finding { claim, paper, here, figure, .. } = finding;
            let or_dash = |text: &String| if text.is_empty() { "–".into() } else { text.clone() };
            table.add_row([
                chapter.study.clone(),
                (*claim).to_owned(),
                or_dash(paper),
                or_dash(here),
                finding.verdict_text(),
                figure.clone(),
            ]);
        }
    }
    if table.is_empty() { String::new() } else { trimmed(&table) }
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
            findings: findings(chapters),
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
        if !self.findings.is_empty() {
            text.push_str(&format!("{}\n\n", self.findings));
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
