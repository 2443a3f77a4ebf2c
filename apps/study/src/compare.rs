//! Comparison of two runs: separates changes from noise.
//!
//! Points are matched by name. A difference counts when the interquartile ranges of both points'
//! runs do not overlap. If the machines, versions or settings differ, a difference need not come
//! from the subject: the comparison lists these first.

mod comparison;
mod page;
mod text;

use std::collections::BTreeMap;
use std::path::Path;

use nearflash_bench::placement::Place;
use nearflash_bench::stats::Quartiles;

use crate::plan::PointId;
use crate::report::{Fact, Kept, ReportError, read};
use crate::result::{Measurement, Outcome, PointEnd, Results, Run};

pub use comparison::{Change, Comparison, Pair, SCHEMA, Verdict};
pub use page::page;
pub use text::text;

/// Reads the results of two folders and compares them.
///
/// # Errors
///
/// When a folder has no results, or results of another schema.
pub fn directories(first: &Path, second: &Path) -> Result<Comparison, ReportError> {
    let names = [first, second].map(|path| path.display().to_string());
    Ok(compare(names, &read(first)?, &read(second)?))
}

/// Compares two runs.
pub fn compare(names: [String; 2], first: &Kept, second: &Kept) -> Comparison {
    let other = by_name(second);
    let mine = by_name(first);
    let homes = [&mine, &other].map(home);
    let mut pairs = Vec::new();
    let mut only_first = Vec::new();
    for (study, ends) in &first.studies {
        for end in ends {
            let Some(measured) = measurement(end) else { continue };
            match other.get(&end.id) {
                Some(theirs) => pairs.extend(loads(study, &end.id, [measured, theirs], homes)),
                None => only_first.push(end.id.clone()),
            }
        }
    }
    let ends = second.studies.iter().flat_map(|(_, ends)| ends);
    let only_second = ends
        .filter(|end| measurement(end).is_some() && !mine.contains_key(&end.id))
        .map(|end| end.id.clone())
        .collect();
    let mut remarks = remarks(first, second);
    if let [Some(first), Some(second)] = homes
        && first != second
    {
        remarks.push(format!("cores: {first} in most runs of the first, {second} of the second"));
    }
    if [first, second].into_iter().any(has_single_runs) {
        remarks.push("points with a single run have no spread: any difference counts".to_owned());
    }
    Comparison { schema: SCHEMA, names, remarks, pairs, only_first, only_second }
}

fn measurement(end: &PointEnd) -> Option<&Measurement> {
    match &end.outcome {
        Outcome::Measured(measurement) => Some(measurement),
        // Models do not differ between machines.
        Outcome::Simulated(_) | Outcome::Failed(_) => None,
    }
}

fn by_name(run: &Kept) -> BTreeMap<&PointId, &Measurement> {
    let ends = run.studies.iter().flat_map(|(_, ends)| ends);
    ends.filter_map(|end| Some((&end.id, measurement(end)?))).collect()
}

/// The most frequent place of the cores over the sound runs.
fn home(points: &BTreeMap<&PointId, &Measurement>) -> Option<Place> {
    let outcome = |measurement: &Measurement| Outcome::Measured(measurement.clone());
    let outcomes = points.iter().map(|(id, measurement)| ((*id).clone(), outcome(measurement)));
    Results::new(outcomes.collect()).home()
}

/// Pairs the loads that both measurements of a point have.
fn loads(
    study: &str,
    id: &PointId,
    both: [&Measurement; 2],
    homes: [Option<Place>; 2],
) -> Vec<Pair> {
    let is_one_of_several = both[0].tenants.len() > 1;
    let results = [0, 1].map(|index| {
        let outcome = Outcome::Measured(both[index].clone());
        Results::at(homes[index], BTreeMap::from([(id.clone(), outcome)]))
    });
    let pair = |load| {
        let change = |figure: fn(&Run) -> f64| {
            let [first, second] = &results;
            Some(Change::new(first.spread(id, load, figure)?, second.spread(id, load, figure)?))
        };
        let is_doubtful = [0, 1].map(|index| results[index].is_doubtful(id));
        Some(Pair {
            study: study.to_owned(),
            id: id.clone(),
            load,
            is_one_of_several,
            is_doubtful,
            iops: change(|run| run.iops)?,
            p50_us: change(|run| run.latency.p50)?,
            p99_us: change(|run| run.latency.p99)?,
            cpu_us: change(|run| run.cpu.total())?,
        })
    };
    (0..both[0].tenants.len().min(both[1].tenants.len())).filter_map(pair).collect()
}

impl Change {
    fn new(first: Quartiles, second: Quartiles) -> Self {
        let ratio = second.median / first.median;
        let spreads_overlap = first.low <= second.high && second.low <= first.high;
        Self { first, second, ratio: ratio.is_finite().then_some(ratio), spreads_overlap }
    }
}

/// Whether any point was run only once.
fn has_single_runs(run: &Kept) -> bool {
    let mut measured = run.studies.iter().flat_map(|(_, ends)| ends).filter_map(measurement);
    measured.any(|measurement| measurement.tenants.iter().any(|runs| runs.len() == 1))
}

/// The differences of the runs other than their results.
fn remarks(first: &Kept, second: &Kept) -> Vec<String> {
    let (a, b) = (&first.about, &second.about);
    let mut remarks = Vec::new();
    if a.version != b.version {
        remarks.push(format!("nearflash: {} against {}", a.version, b.version));
    }
    if a.is_quick != b.is_quick {
        let word = |is_quick| if is_quick { "quick" } else { "full" };
        remarks.push(format!(
            "a {} run against a {} one: short points vary more",
            word(a.is_quick),
            word(b.is_quick)
        ));
    }
    for (what, a, b) in [
        ("machine", &a.machine, &b.machine),
        ("version of", &a.versions, &b.versions),
        ("setting", &a.settings, &b.settings),
    ] {
        remarks.extend(differences(what, a, b));
    }
    remarks
}

fn differences(what: &str, first: &[Fact], second: &[Fact]) -> Vec<String> {
    let value = |facts: &[Fact], name: &str| {
        let fact = facts.iter().find(|fact| fact.name == name);
        fact.map_or_else(|| "nothing".to_owned(), |fact| fact.value.clone())
    };
    let mut names: Vec<&str> = first.iter().map(|fact| fact.name.as_str()).collect();
    names.extend(second.iter().map(|fact| fact.name.as_str()).filter(|name| {
        let is_known = first.iter().any(|fact| fact.name == *name);
        !is_known
    }));
    let line = |name: &str| {
        let (a, b) = (value(first, name), value(second, name));
        (a != b).then(|| format!("{what} {name}: {a} against {b}"))
    };
    names.into_iter().filter_map(line).collect()
}

#[cfg(test)]
mod tests;
