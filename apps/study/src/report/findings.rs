//! Findings on the page: a row of verdicts for each study, and a table of claims with small charts.

use maud::{Markup, html};

use super::names::file_stem;
use super::typography::unbroken;
use super::{Chapter, Document};
use crate::finding::{Case, Finding, Tally, Verdict};
use crate::number::quantity;

/// Size of a small chart.
const CHART: [f64; 2] = [120.0, 14.0];
/// Distance of its marks from the ends.
const MARGIN: f64 = 5.0;

/// The verdicts of all studies, and then every claim.
pub(super) fn summary(document: &Document) -> Markup {
    let all = || document.chapters.iter().flat_map(Chapter::findings);
    html! {
        section #summary {
            h2 { "Findings" }
            p { "Claims of the papers, and a few of the studies themselves: " (Tally::of(all()).words()) "." }
            div.scroll { table.studies { tbody { @for chapter in &document.chapters { (study(chapter)) } } } }
            @if all().next().is_some() {
                div.scroll {
                    table.findings {
                        thead { tr { th { "claim" } th { "paper" } th { "here" } th { "verdict" } th { "figure" } } }
                        @for chapter in &document.chapters { (claims_of(chapter)) }
                    }
                }
            }
        }
    }
}

/// One study: its question, and the shares of its verdicts.
fn study(chapter: &Chapter) -> Markup {
    let tally = Tally::of(chapter.findings());
    html! {
        tr {
            td { a href={ "#" (file_stem(&chapter.study)) } { (chapter.study) } }
            td { (unbroken(&chapter.question)) }
            td { (bar(tally)) }
            td.quiet { (tally.words()) }
        }
    }
}

fn claims_of(chapter: &Chapter) -> Markup {
    html! {
        @if chapter.findings().next().is_some() {
            tbody {
                tr.head { th colspan="5" { a href={ "#" (file_stem(&chapter.study)) } { (chapter.study) } } }
                @for exhibit in &chapter.exhibits {
                    @for finding in &exhibit.findings {
                        tr {
                            (cells(finding))
                            td { a href={ "#" (file_stem(&exhibit.slug)) } { (unbroken(&exhibit.title)) } }
                        }
                    }
                }
            }
        }
    }
}

/// The findings of one exhibit.
pub(super) fn table(findings: &[Finding]) -> Markup {
    html! {
        @if !findings.is_empty() {
            div.scroll {
                table.findings {
                    thead { tr { th { "claim" } th { "paper" } th { "here" } th { "verdict" } } }
                    tbody { @for finding in findings { tr { (cells(finding)) } } }
                }
            }
        }
    }
}

fn cells(finding: &Finding) -> Markup {
    let Finding { claim, source, paper, here, verdict, .. } = finding;
    html! {
        td { (unbroken(claim)) " " span.quiet { "(" (unbroken(source)) ")" } }
        td { @if paper.is_empty() { "–" } @else { (unbroken(paper)) } }
        td { @if here.is_empty() { "–" } @else { (unbroken(here)) " " (chart(finding)) } }
        td class=(class(*verdict)) { (unbroken(&finding.verdict_text())) }
    }
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "holds",
        Verdict::HoldsPartly => "partly",
        Verdict::DoesNot => "fails",
        Verdict::Unknown { .. } => "unknown",
    }
}

/// The shares of verdicts as a bar.
fn bar(tally: Tally) -> Markup {
    let Tally { holds, partly, does_not, unknown } = tally;
    let parts = [(holds, "holds"), (partly, "partly"), (does_not, "fails"), (unknown, "unknown")];
    let all = holds + partly + does_not + unknown;
    let [width, height] = CHART;
    let mut at = 0;
    let rectangles = parts.map(|(count, class)| {
        let from = share(at, all) * width;
        at += count;
        (from, share(count, all) * width, class)
    });
    html! {
        @if all > 0 {
            svg.chart width=(width) height=(height) role="img" aria-label=(tally.words()) {
                @for (x, part, class) in rectangles {
                    @if part > 0.0 { rect class=(class) x=(pixels(x)) y="2" width=(pixels(part)) height="10" {} }
                }
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a report has few findings")]
fn share(count: usize, all: usize) -> f64 {
    count as f64 / all.max(1) as f64
}

/// The cases of a claim as dots on a line, hollow where it does not hold, and its limit as a tick.
fn chart(finding: &Finding) -> Markup {
    let Finding { cases, limit, unit, .. } = finding;
    let values = || cases.iter().map(|case| case.value).chain(*limit);
    let low = values().fold(f64::INFINITY, f64::min);
    let high = values().fold(f64::NEG_INFINITY, f64::max);
    let [width, height] = CHART;
    let x = |value: f64| pixels(MARGIN + (value - low) / (high - low) * (width - 2.0 * MARGIN));
    html! {
        // A single value has no scale.
        @if low < high && (high - low).is_finite() {
            svg.chart width=(width) height=(height) role="img" aria-label=(finding.verdict_text()) {
                line.axis x1=(MARGIN) x2=(width - MARGIN) y1="7" y2="7" {}
                @if let Some(limit) = limit { line.limit x1=(x(*limit)) x2=(x(*limit)) y1="1" y2="13" {} }
                @for Case { name, value, holds } in cases {
                    circle class=(if *holds { "holds" } else { "fails open" }) cx=(x(*value)) cy="7" r="3" {
                        title { (name) ": " (quantity(*value, unit)) }
                    }
                }
            }
        }
    }
}

fn pixels(value: f64) -> String {
    format!("{value:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(values: &[(f64, bool)], limit: Option<f64>) -> Finding {
        let case = |(value, holds): &(f64, bool)| Case {
            name: "<direct>".to_owned(),
            value: *value,
            holds: *holds,
        };
        Finding {
            claim: "It is so",
            source: "this study".to_owned(),
            paper: String::new(),
            here: "so".to_owned(),
            verdict: Verdict::HoldsPartly,
            is_doubtful: false,
            figure: "a".to_owned(),
            unit: "%",
            limit,
            cases: values.iter().map(case).collect(),
        }
    }

    #[test]
    fn a_chart_has_a_dot_for_each_case_and_a_tick_for_the_limit() {
        let picture = chart(&finding(&[(0.0, true), (10.0, false)], Some(5.0))).into_string();
        assert_eq!(picture.matches("<circle").count(), 2);
        assert!(picture.contains(r#"class="holds" cx="5.0""#), "{picture}");
        assert!(picture.contains(r#"class="fails open" cx="115.0""#), "{picture}");
        assert!(picture.contains(r#"class="limit" x1="60.0""#), "{picture}");
        assert!(picture.contains("&lt;direct&gt;: 10 %"), "{picture}");
    }

    #[test]
    fn numbers_without_a_scale_have_no_chart() {
        for (values, limit) in [
            (&[][..], None),
            (&[(1.0, true)], None),
            (&[(1.0, true), (1.0, true)], Some(1.0)),
            (&[(f64::MAX, true), (f64::MIN, true)], None),
        ] {
            assert_eq!(chart(&finding(values, limit)).into_string(), "");
        }
    }

    #[test]
    fn a_bar_has_a_part_for_each_verdict_that_occurs() {
        let tally = Tally { holds: 1, partly: 0, does_not: 3, unknown: 0 };
        let picture = bar(tally).into_string();
        assert_eq!(picture.matches("<rect").count(), 2);
        assert!(picture.contains(r#"class="fails" x="30.0" y="2" width="90.0""#), "{picture}");
        assert_eq!(bar(Tally::default()).into_string(), "");
    }
}
