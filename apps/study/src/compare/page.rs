//! A comparison as a page.

use maud::{Markup, html};

use super::text::{ratio, sum};
use super::{Change, Comparison, Pair, Verdict};
use crate::plan::PointId;
use crate::plot::number::three_digits;
use crate::report::frame;

/// The comparison as one file that needs nothing else.
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
                p { (sum(comparison)) }
                (table(&comparison.pairs))
                p.quiet {
                    "Medians. “Same”: the middle halves of both points' runs overlap. “Doubtful”: in every \
                     run of one of them something else used its cores, or the virtual machine moved."
                }
            }
        }
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
                ul { @for point in points { li { code { (point.0) } } } }
            }
        }
    }
}

fn table(pairs: &[Pair]) -> Markup {
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
