//! The report as Markdown, readable as plain text; it embeds the figures.

use std::fmt::Write;

use super::names::file_stem;
use super::summary::{Counts, WORDS, all_unable, run_words};
use super::tables::show;
use super::{Chapter, Document, Fact};
use crate::exhibit::{Cell, Exhibit, Table};
use crate::finding::{Finding, Tally};
use crate::plan::Unable;

/// The whole document.
pub(super) fn render(document: &Document) -> String {
    let about = &document.about;
    let mut out = String::from("# Remote flash, measured\n\n");
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "{}: {}.\n",
        escape(&run_words(about)),
        Counts::all(&document.chapters).words()
    );
    if about.is_quick {
        out += "This is an overview (`--quick`). Its points are few and short: enough to see \
                shapes, too little to base a decision on.\n\n";
    }
    summary(&mut out, document);
    unable(&mut out, document);
    machine(&mut out, document);
    for chapter in &document.chapters {
        study(&mut out, chapter);
    }
    out += "## How to read figures and tables\n\n";
    for (word, meaning) in WORDS {
        let _ = writeln!(out, "- **{word}**: {meaning}");
    }
    out
}

/// Every claim, with a link to its figure.
fn summary(out: &mut String, document: &Document) {
    let all = || document.chapters.iter().flat_map(Chapter::findings);
    let _ = writeln!(out, "## Findings\n\nClaims: {}.\n", Tally::of(all()).words());
    if all().next().is_none() {
        return;
    }
    *out += "| study | claim | paper | here | verdict | figure |\n| --- | --- | --- | --- | --- | --- |\n";
    for chapter in &document.chapters {
        let study = escape(&chapter.study);
        for exhibit in &chapter.exhibits {
            let kind = if exhibit.figure.is_some() { "svg" } else { "csv" };
            let title = escape(&exhibit.title);
            let (dir, stem) = (file_stem(&chapter.study), file_stem(&exhibit.slug));
            for finding in &exhibit.findings {
                let cells = finding_cells(finding).join(" | ");
                let _ = writeln!(out, "| {study} | {cells} | [{title}]({dir}/{stem}.{kind}) |");
            }
        }
    }
    out.push('\n');
}

/// Claim, paper, here, verdict.
fn finding_cells(finding: &Finding) -> [String; 4] {
    let Finding { claim, source, paper, here, .. } = finding;
    let or_dash = |text: &str| if text.is_empty() { "–".to_owned() } else { escape(text) };
    let claim = escape(&format!("{claim} ({source})"));
    [claim, or_dash(paper), or_dash(here), escape(&finding.verdict_text())]
}

fn unable(out: &mut String, document: &Document) {
    let row = |(studies, unable): (Vec<&str>, &Unable)| {
        let cells = [&studies.join(", "), &unable.what, &unable.why, &unable.needs];
        cells.map(|cell| Cell::Text(cell.clone())).to_vec()
    };
    let rows: Vec<Vec<Cell>> = all_unable(&document.chapters).into_iter().map(row).collect();
    if rows.is_empty() {
        return;
    }
    let columns = ["study", "part", "reason", "required"].map(str::to_owned).to_vec();
    *out += "## What could not run\n\n";
    table(out, &Table { columns, rows });
}

fn machine(out: &mut String, document: &Document) {
    let about = &document.about;
    *out += "## Machine, versions, settings\n\n";
    for Fact { name, value } in about.machine.iter().chain(&about.versions).chain(&about.settings) {
        let _ = writeln!(out, "- {}: {}", escape(name), escape(value));
    }
    let commands: Vec<String> = about.command.lines().map(code).collect();
    if !commands.is_empty() {
        let _ = writeln!(out, "- measured with {}", commands.join(", then "));
    }
    out.push('\n');
}

fn study(out: &mut String, chapter: &Chapter) {
    let _ = writeln!(out, "## {}\n\n{}\n", escape(&chapter.study), escape(&chapter.question));
    if !chapter.source.is_empty() {
        let _ = writeln!(out, "After {}.\n", escape(&chapter.source));
    }
    for exhibit in &chapter.exhibits {
        show_exhibit(out, chapter, exhibit);
    }
    let failed: Vec<_> = chapter.failed().collect();
    if !failed.is_empty() {
        *out += "Points that failed:\n\n";
        for (id, why) in failed {
            let _ = writeln!(out, "- {}: {}", code(&id.0), escape(why));
        }
        out.push('\n');
    }
}

fn show_exhibit(out: &mut String, chapter: &Chapter, exhibit: &Exhibit) {
    let Exhibit { slug, title, figure, notes, .. } = exhibit;
    let _ = writeln!(out, "### {}\n", escape(title));
    if figure.is_some() {
        let stem = format!("{}/{}", file_stem(&chapter.study), file_stem(slug));
        let _ = writeln!(out, "![{}]({stem}.svg)\n", escape(title));
    }
    table(out, &exhibit.table);
    list(out, notes);
}

fn list(out: &mut String, lines: &[String]) {
    for line in lines {
        let _ = writeln!(out, "- {}", escape(line));
    }
    if !lines.is_empty() {
        out.push('\n');
    }
}

fn table(out: &mut String, table: &Table) {
    if table.columns.is_empty() {
        return;
    }
    let names: Vec<String> = table.columns.iter().map(|name| escape(name)).collect();
    let rule = |column: usize| {
        let is_of_numbers =
            table.rows.iter().any(|row| row.get(column).is_some_and(Cell::is_number));
        if is_of_numbers { "---:" } else { "---" }
    };
    let rules: Vec<&str> = (0..names.len()).map(rule).collect();
    let _ = writeln!(out, "| {} |\n| {} |", names.join(" | "), rules.join(" | "));
    for row in &table.rows {
        let cells: Vec<String> = row.iter().map(|cell| escape(&show(cell))).collect();
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    out.push('\n');
}

/// Escapes characters that Markdown or HTML would interpret.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '\\' | '|' | '*' | '_' | '`' | '[' | ']' => {
                out.push('\\');
                out.push(letter);
            }
            other if other.is_control() => out.push(' '),
            other => out.push(other),
        }
    }
    out
}

/// An inline code span.
fn code(text: &str) -> String {
    format!("`{}`", text.replace(['`', '\n', '\r'], " "))
}
