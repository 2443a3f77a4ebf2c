//! Our load generator compared with fio: the same loads on the same file, in turns.
//!
//! The figures of a generator are only credible if another one confirms them. Each round runs both
//! shortly after one another on the same core; every second round reverses the order. The result is
//! the median of the rounds' ratios, with their quartiles.

use std::fmt::Write;
use std::path::Path;

use nearflash_units::ByteLen;
use serde::Serialize;

use crate::fio::{FioSpec, LoadFigure, measure_fio};
use nearflash_bench::BenchError;
use nearflash_bench::compare::Timing;
use nearflash_bench::engine::FileOptions;
use nearflash_bench::job::{DriveSpec, JobSpec, Spin};
use nearflash_bench::placement::CoreId;
use nearflash_bench::recorder::Record;
use nearflash_bench::report::{SCHEMA, count, micros};
use nearflash_bench::run::{self, Jobs, RunSpec, Threads};
use nearflash_bench::stats::Quartiles;
use nearflash_bench::workload::Pattern;

/// A load that both generators run.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct AgreementLoad {
    /// Its description.
    pub what: &'static str,
    #[serde(skip)]
    pattern: Pattern,
    #[serde(skip)]
    op_len: ByteLen,
    #[serde(skip)]
    depth: u32,
}

/// The loads: each pattern once, with small and large depths and operations.
pub const AGREEMENT_LOADS: [AgreementLoad; 6] = [
    load("randread 4 KiB, depth 1", Pattern::RandRead, 4, 1),
    load("randread 4 KiB, depth 32", Pattern::RandRead, 4, 32),
    load("randwrite 4 KiB, depth 8", Pattern::RandWrite, 4, 8),
    load("randrw 70:30 4 KiB, depth 16", Pattern::RandRw, 4, 16),
    load("read 64 KiB, depth 4", Pattern::Read, 64, 4),
    load("write 64 KiB, depth 4", Pattern::Write, 64, 4),
];

/// Share of reads in the mixed load, in per cent.
const READ_PERCENT: u8 = 70;

const fn load(what: &'static str, pattern: Pattern, kib: u64, depth: u32) -> AgreementLoad {
    AgreementLoad { what, pattern, op_len: ByteLen(kib << 10), depth }
}

/// The results of both generators in one round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AgreementRound {
    /// Our generator.
    pub ours: LoadFigure,
    /// fio.
    pub fio: LoadFigure,
}

/// The rounds of a load.
#[derive(Clone, Debug)]
pub struct Agreement {
    /// The load.
    pub load: AgreementLoad,
    /// All rounds.
    pub rounds: Vec<AgreementRound>,
}

/// Runs a load in turns on `path`, which is created and filled if it does not exist.
///
/// # Errors
/// When either generator cannot run.
pub fn measure_agreement(
    load: AgreementLoad,
    path: &Path,
    range_len: ByteLen,
    core: CoreId,
    timing: Timing,
) -> Result<Agreement, BenchError> {
    let file = FileOptions {
        path: path.to_owned(),
        direct: true,
        writes: load.pattern.writes(),
        len_min: Some(range_len),
        // fio's default batch.
        batch: 1,
    };
    file.prepare()?;
    let spec = load.run_spec(range_len, core, timing);
    let theirs = load.fio_spec(path, range_len, core, timing);
    let ours = || -> Result<LoadFigure, BenchError> {
        Ok(figure_of(&run::run(&file, &spec, &mut |_, _| {})?.0))
    };
    let mut rounds = Vec::new();
    for round in 0..timing.rounds {
        rounds.push(if round.is_multiple_of(2) {
            AgreementRound { ours: ours()?, fio: measure_fio(&theirs)? }
        } else {
            let fio = measure_fio(&theirs)?;
            AgreementRound { ours: ours()?, fio }
        });
    }
    Ok(Agreement { load, rounds })
}

impl AgreementLoad {
    fn run_spec(self, range_len: ByteLen, core: CoreId, timing: Timing) -> RunSpec {
        let mut job = JobSpec::endless(self.pattern, self.op_len, range_len, self.depth);
        job.workload.read_percent = READ_PERCENT;
        // fio waits in the kernel.
        let (ramp, runtime) = (timing.ramp, Some(timing.span));
        let drive = DriveSpec { ramp, runtime, spin: Spin::Never, ..DriveSpec::default() };
        RunSpec { jobs: Jobs::new(job, 1), drive, threads: Threads::one(core) }
    }

    fn fio_spec(self, path: &Path, range_len: ByteLen, core: CoreId, timing: Timing) -> FioSpec {
        FioSpec {
            path: path.to_owned(),
            pattern: self.pattern,
            read_percent: READ_PERCENT,
            op_len: self.op_len,
            depth: self.depth,
            range_len,
            ramp: timing.ramp,
            runtime: timing.span,
            core,
        }
    }
}

fn figure_of(record: &Record) -> LoadFigure {
    let latency = if record.read.ops > 0 { &record.read.latency } else { &record.write.latency };
    LoadFigure {
        iops: record.iops(),
        p50_ns: latency.value_at_quantile(0.5) as f64,
        p99_ns: latency.value_at_quantile(0.99) as f64,
    }
}

/// The compared figures.
const SCORES: [fn(&LoadFigure) -> f64; 3] =
    [|figure| figure.iops, |figure| figure.p50_ns, |figure| figure.p99_ns];

impl Agreement {
    /// Quartiles of the ratio of ours to fio's: IOPS, p50 and p99.
    pub fn ratios(&self) -> [Quartiles; 3] {
        SCORES.map(|score| {
            let ratios = self.rounds.iter().map(|round| score(&round.ours) / score(&round.fio));
            Quartiles::or_nan(ratios)
        })
    }

    fn median(&self, score: impl Fn(&AgreementRound) -> f64) -> f64 {
        Quartiles::or_nan(self.rounds.iter().map(score)).median
    }
}

/// The results as a Markdown table.
pub fn agreements_to_markdown(agreements: &[Agreement]) -> String {
    let mut text = String::from(
        "| load | IOPS, ours and fio's | ratio (quartiles) | p50, ours and fio's | ratio (quartiles) \
         | p99, ours and fio's | ratio (quartiles) | rounds |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    let pair = |Quartiles { low, median, high }| format!("{median:.3} ({low:.3} to {high:.3})");
    for agreement in agreements {
        let [iops, p50, p99] = agreement.ratios();
        let both = |tell: fn(f64) -> String, score: fn(&LoadFigure) -> f64| {
            let ours = agreement.median(|round| score(&round.ours));
            let fio = agreement.median(|round| score(&round.fio));
            format!("{}, {}", tell(ours), tell(fio))
        };
        writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            agreement.load.what,
            both(count, SCORES[0]),
            pair(iops),
            both(micros, SCORES[1]),
            pair(p50),
            both(micros, SCORES[2]),
            pair(p99),
            agreement.rounds.len(),
        )
        .expect("a text takes all that is written to it");
    }
    text
}

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    rows: Vec<RowPart<'a>>,
}

#[derive(Serialize)]
struct RowPart<'a> {
    #[serde(flatten)]
    load: &'a AgreementLoad,
    rounds: Vec<RoundPart>,
}

#[derive(Serialize)]
struct RoundPart {
    ours: FigurePart,
    fio: FigurePart,
}

#[derive(Serialize)]
struct FigurePart {
    iops: f64,
    p50_ns: f64,
    p99_ns: f64,
}

impl From<LoadFigure> for FigurePart {
    fn from(figure: LoadFigure) -> Self {
        let LoadFigure { iops, p50_ns, p99_ns } = figure;
        Self { iops, p50_ns, p99_ns }
    }
}

/// The results as JSON, with every round.
pub fn agreements_to_json(agreements: &[Agreement]) -> String {
    let rows = agreements.iter().map(|agreement| RowPart {
        load: &agreement.load,
        rounds: agreement
            .rounds
            .iter()
            .map(|round| RoundPart { ours: round.ours.into(), fio: round.fio.into() })
            .collect(),
    });
    let document = Document { schema: SCHEMA, rows: rows.collect() };
    serde_json::to_string_pretty(&document).expect("numbers and strings serialize") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agreement() -> Agreement {
        let figure = |iops: f64| LoadFigure { iops, p50_ns: 1e9 / iops, p99_ns: 2e9 / iops };
        let rounds = [900.0, 1000.0, 1050.0]
            .map(|ours| AgreementRound { ours: figure(ours), fio: figure(1000.0) });
        Agreement { load: AGREEMENT_LOADS[0], rounds: rounds.to_vec() }
    }

    #[test]
    fn ratios_are_those_of_the_same_round() {
        let [iops, p50, _] = agreement().ratios();
        assert_eq!(iops, Quartiles { low: 0.95, median: 1.0, high: 1.025 });
        assert!((p50.median - 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_table_and_the_document_say_both_sides() {
        insta::assert_snapshot!(agreements_to_markdown(&[agreement()]));
        let document: serde_json::Value =
            serde_json::from_str(&agreements_to_json(&[agreement()])).unwrap();
        assert_eq!(document["schema"], 1);
        assert_eq!(document["rows"][0]["what"], "randread 4 KiB, depth 1");
        assert_eq!(document["rows"][0]["rounds"][0]["ours"]["iops"], 900.0);
    }
}
