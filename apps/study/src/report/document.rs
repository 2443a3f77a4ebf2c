//! The content of a report.

use std::collections::BTreeSet;

use nearflash_bench::placement::Place;

use crate::exhibit::Exhibit;
use crate::finding::Finding;
use crate::plan::{Plan, PointId, Unable};
use crate::result::{Outcome, PointEnd, Results};
use crate::studies::{Setting, Study};

/// Incremented when a program that reads an older file would misread a newer one.
pub const SCHEMA: u64 = 1;

/// A run, or the part of it that is done.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Document {
    /// Description of the run.
    pub about: About,
    /// One chapter per study, in the order in which they ran.
    pub chapters: Vec<Chapter>,
}

/// Description of a run.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct About {
    /// The version of nearflash.
    pub version: String,
    /// Start time in human-readable form: `2026-03-01 14:05 UTC`.
    pub started_at: String,
    /// Duration in seconds.
    pub seconds: f64,
    /// The command lines that started and continued the run, one per line.
    pub command: String,
    /// Whether `--quick` was given: fewer and shorter points.
    pub is_quick: bool,
    /// The machine (processor, cores, memory, kernel, devices), in the order of presentation.
    pub machine: Vec<Fact>,
    /// Versions of all programs that took part.
    pub versions: Vec<Fact>,
    /// Parameters of the measurement: runs per point, warm-up and counted time, cores.
    pub settings: Vec<Fact>,
}

/// A name and its value.
#[derive(Clone, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct Fact {
    /// The name.
    pub name: String,
    /// The value.
    pub value: String,
}

impl Fact {
    /// A fact.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into() }
    }
}

/// One study.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Chapter {
    /// Its name on the command line.
    pub study: String,
    /// Its question, in one line.
    pub question: String,
    /// The paper and its figures or tables.
    pub source: String,
    /// Its results.
    pub exhibits: Vec<Exhibit>,
    /// Its parts that cannot be measured here.
    pub unable: Vec<Unable>,
    /// The points that were measured or failed, in the order of the plan.
    pub points: Vec<PointEnd>,
    /// The points not measured yet, if the run was interrupted.
    pub pending: Vec<PointId>,
    /// The most frequent place of the cores over the sound runs of all chapters.
    #[serde(skip)]
    pub home: Option<Place>,
}

impl Chapter {
    /// The chapter of a study, with the outcomes so far of its plan.
    pub fn new(study: &dyn Study, setting: &Setting, plan: Plan, results: &Results) -> Self {
        let mut points = Vec::new();
        let mut pending = Vec::new();
        let mut seen = BTreeSet::new();
        for point in plan.points {
            if !seen.insert(point.id.clone()) {
                continue;
            }
            match results.outcomes.get(&point.id) {
                Some(outcome) => points.push(PointEnd { id: point.id, outcome: outcome.clone() }),
                None => pending.push(point.id),
            }
        }
        Self {
            study: study.name().to_owned(),
            question: study.question().to_owned(),
            source: study.source().to_owned(),
            exhibits: study.exhibits(setting, results),
            unable: plan.unable,
            points,
            pending,
            home: results.home(),
        }
    }

    /// The findings of all its exhibits.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.exhibits.iter().flat_map(|exhibit| &exhibit.findings)
    }

    /// The points that failed, each with the reason.
    pub fn failed(&self) -> impl Iterator<Item = (&PointId, &str)> {
        self.points.iter().filter_map(|end| match &end.outcome {
            Outcome::Failed(why) => Some((&end.id, why.as_str())),
            Outcome::Measured(_) | Outcome::Simulated(_) => None,
        })
    }
}
