//! The report as HTML: one self-contained file that loads nothing from the network.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::names::{Edition, RESULTS_FILE, TEXT_FILE, file_stem};
use super::summary::{Counts, WORDS, all_unable, run_words};
use super::tables::{fact_list, points_table, table};
use super::typography::unbroken;
use super::{Chapter, Document, findings};
use crate::exhibit::Exhibit;
use crate::plan::Unable;
use crate::plot::{self, Setting};

/// Longer tables are folded.
const ROWS_OPEN_MAX: usize = 24;

/// The whole page.
pub(super) fn render(document: &Document, edition: Edition) -> String {
    let about = &document.about;
    let body = html! {
        header {
            h1 { "Remote flash, measured" }
            p.lead { (lead(document)) }
            @if about.is_quick {
                p.quick {
                    strong { "This is an overview. " }
                    "Its points are few and short (" code { "--quick" } "): enough to see shapes, too little \
                     to base a decision on. For that, run without this option."
                }
            }
        }
        (findings::summary(document))
        (contents(document))
        (unable(document))
        (how_to_read())
        (machine(document))
        @for chapter in &document.chapters { (chapter_section(chapter)) }
        footer {
            p {
                @if edition == Edition::Run {
                    "Every number, with all digits and every run: " a href=(RESULTS_FILE) { (RESULTS_FILE) } ". "
                }
                "The same report as text: " a href=(TEXT_FILE) { (TEXT_FILE) } "."
            }
            @if edition == Edition::Published {
                p {
                    "A published copy, without the results of every run (" code { (RESULTS_FILE) } "). " code { "nearflash study run" } " makes a report of your machine."
                }
            }
        }
    };
    frame("Remote flash, measured", &body)
}

/// An HTML page with the report's style.
pub(crate) fn frame(title: &str, body: &Markup) -> String {
    let style = format!(
        "{}{}@media screen and (prefers-color-scheme:dark){{{}}}",
        include_str!("page.css"),
        plot::light_rules(),
        plot::dark_rules()
    );
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(style)) }
            }
            body { main { (body) } }
        }
    };
    page.into_string()
}

fn lead(document: &Document) -> String {
    let studies = match document.chapters.len() {
        1 => "One study".to_owned(),
        count => format!("{count} studies"),
    };
    let counts = Counts::all(&document.chapters).words();
    format!("{studies} with {}: {counts}.", run_words(&document.about))
}

/// The table of contents: sections, studies and figures.
fn contents(document: &Document) -> Markup {
    let has_unable = document
        .chapters
        .iter()
        .any(|chapter| !chapter.unable.is_empty() || chapter.failed().next().is_some());
    html! {
        nav #contents aria-label="Contents" {
            details {
                summary { h2 { "Contents" } }
                ul {
                    li { a href="#summary" { "Findings" } }
                    @if has_unable { li { a href="#unable" { "What could not run" } } }
                    li { a href="#words" { "How to read figures and tables" } }
                    li { a href="#machine" { "Machine, versions, settings" } }
                    @for chapter in &document.chapters {
                        li {
                            a href={ "#" (file_stem(&chapter.study)) } { (chapter.study) }
                            @if !chapter.exhibits.is_empty() {
                                ul {
                                    @for Exhibit { slug, title, .. } in &chapter.exhibits {
                                        li { a href={ "#" (file_stem(slug)) } { (unbroken(title)) } }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn unable(document: &Document) -> Markup {
    let failed: usize = document.chapters.iter().map(|chapter| chapter.failed().count()).sum();
    let all = all_unable(&document.chapters);
    html! {
        @if failed > 0 || !all.is_empty() {
            section #unable {
                h2 { "What could not run" }
                @if failed > 0 {
                    p {
                        (failed) @if failed == 1 { " point" } @else { " points" }
                        " failed. Each is named under its study, with the reason."
                    }
                }
                @if !all.is_empty() {
                    div.scroll {
                        table {
                            thead { tr { th { "study" } th { "part" } th { "reason" } th { "required" } } }
                            tbody {
                                @for (studies, Unable { what, why, needs }) in all {
                                    tr { td { (studies.join(", ")) } td { (what) } td { (why) } td { (needs) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn how_to_read() -> Markup {
    html! {
        section #words {
            details {
                summary { h2 { "How to read figures and tables" } }
                dl.words { @for (word, meaning) in WORDS { dt { (word) } dd { (meaning) } } }
            }
        }
    }
}

fn machine(document: &Document) -> Markup {
    let about = &document.about;
    html! {
        section #machine {
            h2 { "Machine, versions, settings" }
            div.columns {
                @for (name, facts) in [
                    ("Machine", &about.machine),
                    ("Versions", &about.versions),
                    ("How points were measured", &about.settings),
                ] {
                    @if !facts.is_empty() { div { h3 { (name) } (fact_list(facts)) } }
                }
            }
            @if !about.command.is_empty() {
                p { @if about.command.lines().count() > 1 { "Measured with, in this order" } @else { "Measured with" } }
                pre { code { (about.command) } }
            }
        }
    }
}

fn chapter_section(chapter: &Chapter) -> Markup {
    let counts = Counts::of(chapter);
    html! {
        section.study #(file_stem(&chapter.study)) {
            h2 { (chapter.study) }
            p.question { (chapter.question) }
            p.quiet {
                @if !chapter.source.is_empty() { "After " (chapter.source) ". " }
                (capital(&counts.words())) "."
            }
            @for exhibit in &chapter.exhibits { (exhibit_article(chapter, exhibit)) }
            (failures(chapter))
            @if !chapter.points.is_empty() {
                details {
                    summary { "All points of this study, and the command lines that repeat them" }
                    (points_table(chapter))
                }
            }
        }
    }
}

fn failures(chapter: &Chapter) -> Markup {
    let failed: Vec<_> = chapter.failed().collect();
    html! {
        @if !failed.is_empty() {
            div.failed {
                h3 { "Points that failed" }
                ul { @for (id, why) in failed { li { code { (id.0) } ": " (why) } } }
            }
        }
        @if !chapter.pending.is_empty() {
            details {
                summary { "Points not measured yet; repeat the command to continue with them" }
                ul { @for id in &chapter.pending { li { code { (id.0) } } } }
            }
        }
    }
}

fn exhibit_article(chapter: &Chapter, exhibit: &Exhibit) -> Markup {
    let Exhibit { slug, title, source, figure, findings, notes, .. } = exhibit;
    let stem = format!("{}/{}", file_stem(&chapter.study), file_stem(slug));
    let mut files = vec!["csv"];
    if figure.is_some() {
        files.push("svg");
    }
    html! {
        article id=(file_stem(slug)) {
            h3 { (unbroken(title)) }
            (findings::table(findings))
            @if let Some(figure) = figure {
                figure.scroll { (PreEscaped(plot::draw(slug, title, figure, Setting::Page))) }
            }
            (folded_table(exhibit))
            @if !notes.is_empty() { ul.notes { @for note in notes { li { (unbroken(note)) } } } }
            p.files {
                @if !source.is_empty() { "After " (source) ". " }
                "Files: "
                @for (index, kind) in files.iter().enumerate() {
                    @if index > 0 { ", " }
                    a href={ (stem) "." (kind) } { (kind.to_uppercase()) }
                }
            }
        }
    }
}

fn folded_table(exhibit: &Exhibit) -> Markup {
    let count = exhibit.table.rows.len();
    html! {
        @if exhibit.table.columns.is_empty() {
        } @else if exhibit.figure.is_some() && count > ROWS_OPEN_MAX {
            details { summary { "The table: " (count) " rows" } (table(&exhibit.table)) }
        } @else {
            (table(&exhibit.table))
        }
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().collect::<String>() + letters.as_str()
    })
}
