//! A comparison as an HTML page.

use maud::{Markup, html};

use super::text::{ratio, sum, times};
use super::{Change, Comparison, Pair, Verdict};
use crate::number::three_digits;
use crate::plan::PointId;
use crate::report::frame;

/// The comparison as one self-contained HTML file.
pub fn page(comparison: &Comparison) -> String {
    let [first, second] = &comparison.names;
    let body = html! {
        header {
            h1 { "Two runs side by side" }
            p.lead { strong { "A" } " is " code { (first) } ", " strong { "B" } " is " code { (second) } "." }
        }
        @if !comparison.remarks.is_empty() {
            div.quick {
                strong { "The runs differ in more than their results." }
                ul { @for remark in &comparison.remarks { li { (remark) } } }
            }
        }
        section {
            h2 { "Points of both" }
            @if comparison.pairs.is_empty() {
                p { "No point was measured in both." }
            } @else {
                p.conclusion { (sum(comparison)) }
                (overview(comparison))
                p.quiet {
                    "Operations per second: how many points of each study have more in B, less, or the same; \
                     and the median of B/A of those that can be compared. “Same”: the middle halves of both \
                     points' runs overlap. “Doubtful”: in every run of one of them something else used its \
                     cores, or the virtual machine moved, or had its cores elsewhere than in most runs."
                }
            }
        }
        @for (study, pairs) in studies(comparison) { (study_section(study, &pairs)) }
        (only("A", &comparison.only_first))
        (only("B", &comparison.only_second))
    };
    frame("Two runs side by side", &body)
}

fn only(name: &str, points: &[PointId]) -> Markup {
    html! {
        @if !points.is_empty() {
            section {
                h2 { "Only in " (name) }
                details {
                    summary { (points.len()) @if points.len() == 1 { " point" } @else { " points" } }
                    ul { @for point in points { li { code { (point.0) } } } }
                }
            }
        }
    }
}

/// The pairs grouped by study, in order.
fn studies(comparison: &Comparison) -> Vec<(&str, Vec<&Pair>)> {
    let mut studies: Vec<(&str, Vec<&Pair>)> = Vec::new();
    for pair in &comparison.pairs {
        match studies.iter_mut().find(|(study, _)| *study == pair.study) {
            Some((_, pairs)) => pairs.push(pair),
            None => studies.push((&pair.study, vec![pair])),
        }
    }
    studies
}

/// A table with one row per study.
fn overview(comparison: &Comparison) -> Markup {
    html! {
        div.scroll {
            table {
                thead {
                    tr {
                        th { "study" } th.n { "points" } th.n { "more" } th.n { "less" }
                        th.n { "same" } th.n { "doubtful" } th.n { "B/A" }
                    }
                }
                tbody {
                    @for (study, pairs) in studies(comparison) {
                        tr {
                            td { a href={ "#" (study) } { (study) } }
                            td.n { (pairs.len()) }
                            @for verdict in [Verdict::More, Verdict::Less, Verdict::Same, Verdict::Doubtful] {
                                td.n { (of(&pairs, verdict).len()) }
                            }
                            td.n { (middle(&pairs)) }
                        }
                    }
                }
            }
        }
    }
}

fn of<'a>(pairs: &[&'a Pair], verdict: Verdict) -> Vec<&'a Pair> {
    pairs.iter().copied().filter(|pair| pair.verdict() == verdict).collect()
}

/// The median ratio of the rates, over comparable pairs.
fn middle(pairs: &[&Pair]) -> String {
    let sound = pairs.iter().filter(|pair| pair.verdict() != Verdict::Doubtful);
    let mut ratios: Vec<f64> = sound.filter_map(|pair| pair.iops.ratio).collect();
    ratios.sort_by(f64::total_cmp);
    let half = ratios.len() / 2;
    match ratios.len() {
        0 => "–".to_owned(),
        len if len.is_multiple_of(2) => times(f64::midpoint(ratios[half - 1], ratios[half])),
        _ => times(ratios[half]),
    }
}

/// The section of one study: pairs that differ are shown, the rest are folded.
fn study_section(study: &str, pairs: &[&Pair]) -> Markup {
    let is_news = |pair: &&&Pair| matches!(pair.verdict(), Verdict::More | Verdict::Less);
    let news: Vec<&Pair> = pairs.iter().filter(is_news).copied().collect();
    let rest: Vec<&Pair> = pairs.iter().filter(|pair| !is_news(pair)).copied().collect();
    html! {
        section id=(study) {
            h3 { (study) }
            @if news.is_empty() { p.quiet { "No difference is known." } } @else { (table(&news)) }
            @if !rest.is_empty() {
                details {
                    summary { (rest.len()) " with no known difference" }
                    (table(&rest))
                }
            }
        }
    }
}

fn table(pairs: &[&Pair]) -> Markup {
    html! {
        div.scroll {
            table.points {
                thead {
                    tr {
                        th { "point" }
                        th.n { "IOPS A" } th.n { "IOPS B" } th.n { "B/A" } th { "" }
                        th.n { "p99 A, µs" } th.n { "p99 B, µs" } th.n { "B/A" }
                    }
                }
                tbody { @for pair in pairs { (row(pair)) } }
            }
        }
    }
}

fn row(pair: &Pair) -> Markup {
    let verdict = pair.verdict();
    let numbers = |change: &Change| {
        html! {
            td.n { (three_digits(change.first.median)) }
            td.n { (three_digits(change.second.median)) }
            td.n { (ratio(change)) }
        }
    };
    let is_news = matches!(verdict, Verdict::More | Verdict::Less);
    html! {
        tr {
            td { (pair.name()) }
            (numbers(&pair.iops))
            td { @if is_news { strong { (verdict.word()) } } @else { (verdict.word()) } }
            (numbers(&pair.p99_us))
        }
    }
}
