//! Claims, judged by numbers.

use super::chart::{len_text, x_of};
use crate::exhibit::{Exhibit, Mark};
use crate::finding::{self, Finding, Verdict};
use crate::number::{change, percent, quantity, times};
use crate::published::{Paper, Stated};

/// Up to this difference, in per cent, numbers count as alike.
pub(super) const ALIKE: f64 = 10.0;

/// The form in which a claim's numbers are shown.
#[derive(Clone, Copy, Debug)]
pub(super) enum Show {
    Unit(&'static str),
    /// A difference in per cent, with its sign.
    Change,
    /// A share in per cent.
    Percent,
    /// A factor.
    Times,
    /// A length in bytes.
    Len,
}

impl Show {
    pub(super) fn text(self, value: f64) -> String {
        match self {
            Self::Unit(unit) => quantity(value, unit),
            Self::Change => change(value),
            Self::Percent => percent(value),
            Self::Times => times(value),
            Self::Len => (0..=40)
                .map(|shift| 1 << shift)
                .find(|&len| x_of(len) == value)
                .map_or_else(|| quantity(value, "B"), len_text),
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::Unit(unit) => unit,
            Self::Change | Self::Percent => "%",
            Self::Times => "times",
            Self::Len => "B",
        }
    }
}

/// A claim, before it is judged.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    text: &'static str,
    source: String,
    paper: String,
    limit: Option<f64>,
    show: Show,
}

impl Claim {
    /// A claim of a paper, with the words of its numbers.
    pub(super) fn of(
        paper: &Paper,
        place: &str,
        text: &'static str,
        show: Show,
        numbers: impl Into<String>,
    ) -> Self {
        let source = format!("{}, {place}", paper.name);
        Self { text, source, paper: numbers.into(), limit: None, show }
    }

    /// A claim that a number is at most as large as one of a paper.
    pub(super) fn at_most(paper: &Paper, stated: &Stated, text: &'static str, show: Show) -> Self {
        let words = format!("at most {}", show.text(stated.value));
        Self::of(paper, stated.place, text, show, words).limited(stated.value)
    }

    /// A claim that this study adds, because its question asks for it.
    pub(super) fn own(text: &'static str, show: Show) -> Self {
        let source = "this study".to_owned();
        Self { text, source, paper: String::new(), limit: None, show }
    }

    /// With the number with which the cases are compared.
    pub(super) fn limited(self, limit: f64) -> Self {
        Self { limit: Some(limit), ..self }
    }

    /// The verdict: whether the claim holds for all, some or none of these cases.
    pub(super) fn judge(self, holds: impl Fn(f64) -> bool, cases: Vec<Case>) -> Finding {
        let known = || cases.iter().filter(|case| case.value.is_finite());
        let judged: Vec<finding::Case> = known()
            .map(|Case { name, value, .. }| finding::Case {
                name: name.clone(),
                value: *value,
                holds: holds(*value),
            })
            .collect();
        let held = judged.iter().filter(|case| case.holds).count();
        let verdict = match (held, judged.len()) {
            (_, 0) => Verdict::Unknown { reason: "not measured" },
            (0, _) => Verdict::DoesNot,
            (held, all) if held == all => Verdict::Holds,
            _ => Verdict::HoldsPartly,
        };
        Finding {
            claim: self.text,
            source: self.source,
            paper: self.paper,
            here: range(&judged, |value| self.show.text(value)).unwrap_or_default(),
            verdict,
            is_doubtful: known().any(|case| case.is_doubtful),
            figure: String::new(),
            unit: self.show.unit(),
            limit: self.limit,
            cases: judged,
        }
    }
}

/// A number to which a claim applies.
#[derive(Clone, Debug)]
pub(super) struct Case {
    name: String,
    value: f64,
    is_doubtful: bool,
}

/// A number that is doubtful or not.
pub(super) fn plain_case(name: impl Into<String>, value: f64, is_doubtful: bool) -> Case {
    Case { name: name.into(), value, is_doubtful }
}

/// A number that was calculated from these marks.
pub(super) fn case<'a>(
    name: impl Into<String>,
    value: f64,
    marks: impl IntoIterator<Item = &'a Mark>,
) -> Case {
    plain_case(name, value, marks.into_iter().any(|mark| mark.is_doubtful))
}

impl Finding {
    /// Names the place of the numbers: `16 jobs: −3 % (direct) to +12 % (iSCSI)`.
    pub(super) fn at(self, place: Option<String>) -> Self {
        match place {
            Some(place) if !self.here.is_empty() => {
                Self { here: format!("{place}: {}", self.here), ..self }
            }
            _ => self,
        }
    }

    /// The reason why there are no cases, if there are none.
    pub(super) fn because(self, reason: &'static str) -> Self {
        match self.verdict {
            Verdict::Unknown { .. } => Self { verdict: Verdict::Unknown { reason }, ..self },
            _ => self,
        }
    }
}

impl Exhibit {
    /// With these findings, whose numbers its figure and table show.
    pub(super) fn found(self, findings: impl IntoIterator<Item = Finding>) -> Self {
        let slug = self.slug.clone();
        let of = |finding| Finding { figure: slug.clone(), ..finding };
        Self { findings: findings.into_iter().map(of).collect(), ..self }
    }
}

/// The range of named numbers: `−3 % (direct) to +12 % (iSCSI)`.
fn range(cases: &[finding::Case], show: impl Fn(f64) -> String) -> Option<String> {
    let least = cases.iter().min_by(|a, b| a.value.total_cmp(&b.value))?;
    let most = cases.iter().max_by(|a, b| a.value.total_cmp(&b.value))?;
    let [low, high] = [least, most].map(|case| show(case.value));
    // Names can have parentheses themselves: `tgt (iSCSI)`.
    let [least, most] = [least, most].map(|case| case.name.replace(" (", ", ").replace(')', ""));
    Some(match cases.len() {
        1 => format!("{low} ({least})"),
        _ if low == high => format!("{low} (all {})", cases.len()),
        _ => format!("{low} ({least}) to {high} ({most})"),
    })
}

/// A count with its noun: `1 job`, `16 jobs`.
pub(super) fn count(value: f64, one: &str) -> String {
    if value == 1.0 { format!("1 {one}") } else { format!("{value} {one}s") }
}

/// The difference of `value` from `reference`, in per cent.
pub(super) fn difference(value: f64, reference: f64) -> f64 {
    (value / reference - 1.0) * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::networked_flash::PAPER;

    const DOUBTFUL: Mark = Mark { x: 1.0, y: 1.0, spread: None, is_doubtful: true };

    fn cases(values: &[(&str, f64)]) -> Vec<Case> {
        values.iter().map(|(name, value)| case(*name, *value, [])).collect()
    }

    fn judged(values: &[(&str, f64)]) -> Finding {
        let stated = Stated { what: "", value: 8.0, unit: "%", place: "section 2.1" };
        let claim = Claim::at_most(&PAPER, &stated, "It adds little", Show::Change);
        claim.judge(|it| it <= stated.value, cases(values))
    }

    #[test]
    fn a_claim_holds_for_all_for_some_or_for_none() {
        let verdict = |values: &[(&str, f64)]| judged(values).verdict;
        assert_eq!(verdict(&[("a", 8.0), ("b", -4.0)]), Verdict::Holds);
        assert_eq!(verdict(&[("a", 8.1), ("b", -4.0)]), Verdict::HoldsPartly);
        assert_eq!(verdict(&[("a", 8.1)]), Verdict::DoesNot);
        assert_eq!(verdict(&[]), Verdict::Unknown { reason: "not measured" });
        assert_eq!(verdict(&[("a", f64::NAN)]), Verdict::Unknown { reason: "not measured" });
    }

    #[test]
    fn a_finding_has_the_papers_numbers_and_ours() {
        let finding = judged(&[("b", 12.0), ("a", -3.0), ("c", 1.0)]);
        assert_eq!(finding.source, "networked-flash study, section 2.1");
        assert_eq!((finding.paper.as_str(), finding.limit), ("at most +8 %", Some(8.0)));
        assert_eq!(finding.here, "−3 % (a) to +12 % (b)");
        assert_eq!(judged(&[("b", 12.0)]).here, "+12 % (b)");
        assert_eq!(judged(&[("tgt (iSCSI)", 12.0)]).here, "+12 % (tgt, iSCSI)");
        assert_eq!(judged(&[("a", 5.01), ("b", 4.99)]).here, "+5 % (all 2)");
        assert_eq!(judged(&[("a", 5.0)]).at(Some("1 job".into())).here, "1 job: +5 % (a)");
        assert_eq!(judged(&[]).at(Some("1 job".into())).here, "");
        let reason = judged(&[]).because("one core only").verdict;
        assert_eq!(reason, Verdict::Unknown { reason: "one core only" });
        assert_eq!(judged(&[("a", 5.0)]).because("one core only").verdict, Verdict::Holds);
    }

    #[test]
    fn a_doubtful_number_makes_the_finding_doubtful() {
        let claim = || Claim::own("It is so", Show::Times);
        assert!(claim().judge(|_| true, vec![case("a", 1.0, [&DOUBTFUL])]).is_doubtful);
        assert!(!claim().judge(|_| true, cases(&[("a", 1.0)])).is_doubtful);
        // A number that is not known is not part of it.
        assert!(!claim().judge(|_| true, vec![case("a", f64::NAN, [&DOUBTFUL])]).is_doubtful);
    }

    #[test]
    fn lengths_are_shown_with_their_unit() {
        assert_eq!(
            [512.0, 4096.0, 1e6].map(|len| Show::Len.text(len)),
            ["512 B", "4 KiB", "1\u{202f}000\u{202f}000 B"]
        );
    }
}
