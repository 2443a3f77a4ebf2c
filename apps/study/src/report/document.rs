//! Everything that a report says.

use std::collections::BTreeSet;

use nearflash_bench::placement::Place;

use crate::exhibit::Exhibit;
use crate::plan::{Plan, PointId, Unable};
use crate::result::{Outcome, PointEnd, Results};
use crate::studies::{Setting, Study};

/// A run, or the part of it that is done.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Document {
    /// Where and how it was measured.
    pub about: About,
    /// One per study, in the order in which they ran.
    pub chapters: Vec<Chapter>,
}

/// Where and how a run was measured.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct About {
    /// The version of nearflash.
    pub version: String,
    /// When it began, for people: `2026-03-01 14:05 UTC`.
    pub started_at: String,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Its command lines, a line each: that which began it, and those that went on with it.
    pub command: String,
    /// Fewer points and shorter ones: figures of a first look.
    pub is_quick: bool,
    /// The machine: processor, cores, memory, kernel, devices; in the order in which they are shown.
    pub machine: Vec<Fact>,
    /// Versions of everything that took part.
    pub versions: Vec<Fact>,
    /// How points were measured: repeats, time counted and not counted, cores.
    pub settings: Vec<Fact>,
}

/// A name and what it stands for.
#[derive(Clone, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct Fact {
    /// What is told.
    pub name: String,
    /// What it is here.
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
    /// Its name, as on the command line.
    pub study: String,
    /// Its question, in one line.
    pub question: String,
    /// The paper and its figures or tables.
    pub source: String,
    /// What was found.
    pub exhibits: Vec<Exhibit>,
    /// What belongs to it and cannot be measured here.
    pub unable: Vec<Unable>,
    /// The points that ended, well or not, in the order of the plan.
    pub points: Vec<PointEnd>,
    /// The points that were planned and are not measured yet: the run was interrupted.
    pub pending: Vec<PointId>,
    /// Where the cores lay in most runs of all chapters.
    #[serde(skip)]
    pub home: Option<Place>,
}

impl Chapter {
    /// The chapter of a study with everything that has been measured of its plan.
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

    /// The points that could not be measured, and why.
    pub fn failed(&self) -> impl Iterator<Item = (&PointId, &str)> {
        self.points.iter().filter_map(|end| match &end.outcome {
            Outcome::Failed(why) => Some((&end.id, why.as_str())),
            Outcome::Measured(_) => None,
        })
    }
}
