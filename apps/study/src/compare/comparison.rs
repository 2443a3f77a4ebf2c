//! The result of a comparison.

use nearflash_bench::stats::Quartiles;

use crate::plan::PointId;

/// Version of the JSON form; incremented when a program that reads an older form would misread the
/// new one.
pub const SCHEMA: u64 = 1;

/// A comparison of two runs.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Comparison {
    /// See [`SCHEMA`].
    pub schema: u64,
    /// Folders of the two runs, as the user gave them.
    pub names: [String; 2],
    /// Differences other than the results (machine, versions, settings), one line each.
    pub remarks: Vec<String>,
    /// Points of both runs, in the order of the first.
    pub pairs: Vec<Pair>,
    /// Points that only the first run measured.
    pub only_first: Vec<PointId>,
    /// Points that only the second run measured.
    pub only_second: Vec<PointId>,
}

/// One load of a point that both runs measured.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Pair {
    /// The study's name.
    pub study: String,
    /// The point's name.
    pub id: PointId,
    /// Index of the load within the point, from 0.
    pub load: usize,
    /// Whether the point has more than one load.
    pub is_one_of_several: bool,
    /// For the first and the second run, whether none of the point's runs is comparable.
    pub is_doubtful: [bool; 2],
    /// Operations per second.
    pub iops: Change,
    /// Median latency, in µs.
    pub p50_us: Change,
    /// 99th percentile of the latency, in µs.
    pub p99_us: Change,
    /// Processor time per operation on both sides, in µs.
    pub cpu_us: Change,
}

/// A figure in both runs.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Change {
    /// Quartiles in the first run.
    pub first: Quartiles,
    /// Quartiles in the second run.
    pub second: Quartiles,
    /// The second median divided by the first; `None` if that is not a finite number.
    pub ratio: Option<f64>,
    /// Whether the interquartile ranges overlap. If so, no change is shown.
    pub spreads_overlap: bool,
}

/// The result of comparing a pair.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The spreads overlap.
    Same,
    /// The second run has a higher rate.
    More,
    /// The second run has a lower rate.
    Less,
    /// One of the two points is not comparable.
    Doubtful,
}

impl Pair {
    /// The verdict on the rate.
    pub fn verdict(&self) -> Verdict {
        match self.iops.ratio {
            _ if self.is_doubtful != [false, false] => Verdict::Doubtful,
            _ if self.iops.spreads_overlap => Verdict::Same,
            Some(ratio) if ratio > 1.0 => Verdict::More,
            Some(_) => Verdict::Less,
            None => Verdict::Doubtful,
        }
    }

    /// The point's name, and the number of the load if the point has several.
    pub fn name(&self) -> String {
        if self.is_one_of_several {
            format!("{}, load {}", self.id.0, self.load + 1)
        } else {
            self.id.0.clone()
        }
    }
}

impl Verdict {
    /// The verdict in one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::More => "more",
            Self::Less => "less",
            Self::Doubtful => "doubtful",
        }
    }
}

impl Comparison {
    /// The JSON form, with a final newline.
    pub fn json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self)
            .expect("a comparison has no keys but names, and it is written to memory");
        text.push('\n');
        text
    }

    /// The number of pairs with this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.pairs.iter().filter(|pair| pair.verdict() == verdict).count()
    }
}
