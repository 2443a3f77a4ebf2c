//! Findings: claims, compared with the numbers of a run.

/// A claim and its verdict. Every form of a report shows the same columns: claim, paper, here,
/// verdict, figure.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Finding {
    /// The claim. The numbers that it compares are in the other columns.
    pub claim: &'static str,
    /// The claim's place in a paper; `this study` if the claim is ours.
    pub source: String,
    /// The paper's numbers; empty if it states none.
    pub paper: String,
    /// The range of this run's numbers; empty if there are none.
    pub here: String,
    /// The verdict.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// Whether a number of it is doubtful.
    pub is_doubtful: bool,
    /// The slug of the exhibit whose figure and table have the numbers.
    pub figure: String,
    /// The unit of the cases and of the limit.
    pub unit: &'static str,
    /// The number with which the cases are compared, if it is one.
    pub limit: Option<f64>,
    /// The numbers from which the verdict follows.
    pub cases: Vec<Case>,
}

/// A number of this run to which a claim applies.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Case {
    /// The way, curve or load.
    pub name: String,
    /// Its number.
    pub value: f64,
    /// Whether the claim holds for it.
    pub holds: bool,
}

/// Whether a claim holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// In every case.
    Holds,
    /// In some cases.
    HoldsPartly,
    /// In no case.
    DoesNot,
    /// There are no cases.
    Unknown {
        /// The reason.
        reason: &'static str,
    },
}

impl Verdict {
    /// The verdict without its reason, in a word or two.
    pub fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::HoldsPartly => "holds partly",
            Self::DoesNot => "does not hold",
            Self::Unknown { .. } => "unknown",
        }
    }
}

impl Finding {
    /// The verdict for a table: `holds for 3 of 4 (doubtful)`.
    pub fn verdict_text(&self) -> String {
        let held = self.cases.iter().filter(|case| case.holds).count();
        let text = match self.verdict {
            Verdict::HoldsPartly => format!("holds for {held} of {}", self.cases.len()),
            Verdict::Unknown { reason } => format!("unknown: {reason}"),
            Verdict::Holds | Verdict::DoesNot => self.verdict.name().to_owned(),
        };
        if self.is_doubtful { format!("{text} (doubtful)") } else { text }
    }
}

/// The number of findings per verdict.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Tally {
    /// Claims that hold.
    pub holds: usize,
    /// Claims that hold in some cases.
    pub partly: usize,
    /// Claims that do not hold.
    pub does_not: usize,
    /// Claims without numbers.
    pub unknown: usize,
}

impl Tally {
    /// Counts findings.
    pub fn of<'a>(findings: impl IntoIterator<Item = &'a Finding>) -> Self {
        let mut tally = Self::default();
        for finding in findings {
            match finding.verdict {
                Verdict::Holds => tally.holds += 1,
                Verdict::HoldsPartly => tally.partly += 1,
                Verdict::DoesNot => tally.does_not += 1,
                Verdict::Unknown { .. } => tally.unknown += 1,
            }
        }
        tally
    }

    /// In words: `3 hold, 1 holds partly, 2 do not, 1 unknown`.
    pub fn words(self) -> String {
        let verb = |count: usize, one: &str, more: &str| {
            let verb = if count == 1 { one } else { more };
            (count > 0).then(|| format!("{count} {verb}"))
        };
        let parts = [
            verb(self.holds, "holds", "hold"),
            verb(self.partly, "holds partly", "hold partly"),
            verb(self.does_not, "does not", "do not"),
            verb(self.unknown, "unknown", "unknown"),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() { "no claims".to_owned() } else { parts.join(", ") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(verdict: Verdict, is_doubtful: bool) -> Finding {
        let case = |holds| Case { name: "a".to_owned(), value: 1.0, holds };
        Finding {
            claim: "It is so",
            source: "this study".to_owned(),
            paper: String::new(),
            here: String::new(),
            verdict,
            is_doubtful,
            figure: "a".to_owned(),
            unit: "µs",
            limit: None,
            cases: vec![case(true), case(false), case(true)],
        }
    }

    #[test]
    fn a_verdict_names_the_share_of_cases_the_reason_and_the_doubt() {
        let text = |verdict, is_doubtful| finding(verdict, is_doubtful).verdict_text();
        assert_eq!(text(Verdict::Holds, false), "holds");
        assert_eq!(text(Verdict::HoldsPartly, true), "holds for 2 of 3 (doubtful)");
        assert_eq!(text(Verdict::DoesNot, false), "does not hold");
        let unknown = Verdict::Unknown { reason: "not measured" };
        assert_eq!(text(unknown, false), "unknown: not measured");
    }

    #[test]
    fn verdicts_are_counted() {
        let unknown = Verdict::Unknown { reason: "not measured" };
        let verdicts = [Verdict::Holds, Verdict::Holds, Verdict::DoesNot, unknown];
        let findings = verdicts.map(|verdict| finding(verdict, false));
        assert_eq!(Tally::of(&findings).words(), "2 hold, 1 does not, 1 unknown");
        assert_eq!(Tally::of(&[]).words(), "no claims");
    }

    #[test]
    fn programs_read_verdict_reason_and_numbers() {
        let unknown = Verdict::Unknown { reason: "not measured" };
        let json = serde_json::to_value(finding(unknown, false)).unwrap();
        assert_eq!(
            (&json["verdict"], &json["reason"]),
            (&"unknown".into(), &"not measured".into())
        );
        let json = serde_json::to_value(finding(Verdict::HoldsPartly, false)).unwrap();
        assert_eq!(json["verdict"], "holds_partly");
        assert_eq!(
            json["cases"][1],
            serde_json::json!({"name": "a", "value": 1.0, "holds": false})
        );
    }
}
