//! `tenants`: one, two and three tenants on one remote device, compared with a device of one's own.

use nearflash_bench::workload::Pattern;

use super::chart::{axis, bars, cell, exhibit, heading, index_x, lines, text, x_of};
use super::claims::{ALIKE, Claim, Show, case, count, difference};
use super::sweep::{
    KIOPS, Measure, P95_US, P99_US, P999_US, Step, load, mark, measure_axis, point, point_id,
};
use super::ways::{FILE, Way, local, node, targets};
use super::{Setting, Study, cores_note};
use crate::exhibit::{Cell, Exhibit, Mark, Origin, Scale, Series, Table};
use crate::finding::Finding;
use crate::number::quantity;
use crate::plan::{Door, Load, Plan};
use crate::published::disaggregation as paper;
use crate::result::Results;

/// See the module.
pub(super) struct Tenants;

const NAME: &str = "tenants";
const SOURCE: &str = "flash disaggregation, multi-tenancy loaded latency";
const TENANTS_MAX: usize = 3;
/// The rate that each tenant requests in the open-loop points.
const DEMAND_IOPS: u64 = 5000;
/// Its maximum queue depth.
const DEMAND_DEPTH: u32 = 32;
/// The queue depth at which tenants are compared.
const DEPTH: u32 = 16;

impl Study for Tenants {
    fn name(&self) -> &'static str {
        NAME
    }

    fn question(&self) -> &'static str {
        "How much rate and tail latency do tenants lose by sharing a device?"
    }

    fn source(&self) -> &'static str {
        SOURCE
    }

    fn plan(&self, setting: &Setting) -> Plan {
        let mut points = Vec::new();
        let alone = local(FILE);
        let of = |way: &Way, tenants: usize| {
            let steps = closed_steps(setting, tenants).into_iter().chain([demand_step(tenants)]);
            steps.map(|step| point(NAME, way, &step)).collect::<Vec<_>>()
        };
        points.extend(of(&alone, 1));
        for way in shared(setting) {
            points.extend((1..=TENANTS_MAX).flat_map(|tenants| of(&way, tenants)));
        }
        Plan { points, unable: Vec::new() }
    }

    fn exhibits(&self, setting: &Setting, results: &Results) -> Vec<Exhibit> {
        let of = |way: &Way| [by_rate(setting, results, way), by_demand(setting, results, way)];
        shared(setting).iter().flat_map(of).collect()
    }
}

fn shared(setting: &Setting) -> Vec<Way> {
    let mut ways = vec![node(Door::NvmeTcp, FILE), node(Door::Direct, FILE)];
    if !setting.is_quick {
        ways.insert(0, node(Door::Iscsi, FILE));
    }
    ways.extend(targets(setting));
    ways
}

fn depths(setting: &Setting) -> &'static [u32] {
    if setting.is_quick { &[1, DEPTH] } else { &[1, 4, DEPTH, 64] }
}

fn closed_step(tenants: usize, depth: u32) -> Step {
    let load = Load { depth, ..load(Pattern::RandRead, 4096) };
    let tag = format!("tenants={tenants}/depth={depth}");
    Step { x: f64::from(depth), tag, loads: vec![load; tenants] }
}

fn closed_steps(setting: &Setting, tenants: usize) -> Vec<Step> {
    depths(setting).iter().map(|&depth| closed_step(tenants, depth)).collect()
}

fn demand_step(tenants: usize) -> Step {
    let load =
        Load { depth: DEMAND_DEPTH, rate_iops: Some(DEMAND_IOPS), ..load(Pattern::RandRead, 4096) };
    let tag = format!("tenants={tenants}/rate={DEMAND_IOPS}");
    Step { x: x_of(DEMAND_IOPS), tag, loads: vec![load; tenants] }
}

/// The marks of a point's tenants.
fn each(results: &Results, way: &Way, step: &Step, measure: Measure) -> Vec<Mark> {
    let id = point_id(NAME, way, step);
    let of = |tenant: usize| mark(results, &id, tenant, measure, index_x(tenant));
    (0..step.loads.len()).filter_map(of).collect()
}

/// The sum of all tenants' rates; `None` unless all were measured.
fn total(results: &Results, way: &Way, step: &Step) -> Option<f64> {
    let rates = each(results, way, step, KIOPS);
    (rates.len() == step.loads.len()).then(|| rates.iter().map(|mark| mark.y).sum())
}

fn worst(results: &Results, way: &Way, step: &Step, measure: Measure) -> Option<Mark> {
    each(results, way, step, measure).into_iter().max_by(|a, b| a.y.total_cmp(&b.y))
}

fn name_of(tenants: usize) -> String {
    count(index_x(tenants), "tenant")
}

/// Tail latency over the rate, with growing queue depth.
fn curve(
    setting: &Setting,
    results: &Results,
    way: &Way,
    (tenants, label, origin): (usize, String, Origin),
) -> Series {
    let point = |step: Step| {
        let tail = worst(results, way, &step, P95_US)?;
        Some(Mark { x: total(results, way, &step)? / index_x(tenants), ..tail })
    };
    let mut points: Vec<_> = closed_steps(setting, tenants).into_iter().filter_map(point).collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    Series { label, origin, points }
}

fn by_rate(setting: &Setting, results: &Results, way: &Way) -> Exhibit {
    let alone = local(FILE);
    let mut series = vec![curve(setting, results, &alone, (1, alone.label.clone(), Origin::Limit))];
    series.extend((1..=TENANTS_MAX).map(|tenants| {
        curve(setting, results, way, (tenants, name_of(tenants), Origin::Measured))
    }));
    let x = axis("rate of each tenant", KIOPS.unit, Scale::Linear);
    let figure = lines(x, measure_axis(P95_US, Scale::Log10), series);
    let title =
        format!("Tail latency by rate, 4 KiB random reads, tenants on one device: {}", way.label);
    let mut exhibit = exhibit(format!("{NAME}-{}", way.key), title, SOURCE, figure);
    exhibit.table = table(setting, results, way, false);
    exhibit.notes.extend(notes(setting));
    exhibit.notes.push(
        "Along a curve, the depth grows. The rate is the mean of all tenants, and the latency is \
         that of the worst tenant."
            .into(),
    );
    exhibit.found(rates(results, way))
}

/// Closed-loop tenants, compared with one that has the local device, and with each other.
fn rates(results: &Results, way: &Way) -> [Finding; 3] {
    let (alone, alone_step) = (local(FILE), closed_step(1, DEPTH));
    let rate_alone = total(results, &alone, &alone_step).filter(|rate| *rate > 0.0);
    let tail_alone = worst(results, &alone, &alone_step, P95_US).filter(|tail| tail.y > 0.0);
    let steps = || (1..=TENANTS_MAX).map(|tenants| (tenants, closed_step(tenants, DEPTH)));
    let of_rate = |(tenants, step): (usize, Step)| {
        let change = difference(total(results, way, &step)?, rate_alone?);
        Some(case(name_of(tenants), change, &each(results, way, &step, KIOPS)))
    };
    let of_tail = |(tenants, step): (usize, Step)| {
        let (tail, tail_alone) = (worst(results, way, &step, P95_US)?, tail_alone?);
        Some(case(name_of(tenants), difference(tail.y, tail_alone.y), [&tail, &tail_alone]))
    };
    let stated = &paper::THROUGHPUT_LOSS;
    let lost = Claim::of(
        &paper::PAPER,
        stated.place,
        "All tenants together lose no larger share of the device's rate than in the paper",
        Show::Change,
        Show::Change.text(-stated.value),
    )
    .limited(-stated.value)
    .judge(|it| it >= -stated.value, steps().filter_map(of_rate).collect());
    let tail = Claim::own(
        "The 95th percentile is at most 10 % above that of one tenant on the local device",
        Show::Change,
    )
    .limited(ALIKE)
    .judge(|it| it <= ALIKE, steps().filter_map(of_tail).collect());
    [lost, tail, fairness(results, way)]
}

/// The excess of the highest over the lowest rate of the tenants.
fn fairness(results: &Results, way: &Way) -> Finding {
    let rates = each(results, way, &closed_step(TENANTS_MAX, DEPTH), KIOPS);
    let ys = || rates.iter().map(|mark| mark.y);
    let ends = ys().reduce(f64::min).zip(ys().reduce(f64::max));
    let ends = ends.filter(|(low, _)| rates.len() == TENANTS_MAX && *low > 0.0);
    let of = |(low, high)| case(name_of(TENANTS_MAX), difference(high, low), &rates);
    Claim::own("The fastest tenant has at most 10 % more than the slowest", Show::Change)
        .limited(ALIKE)
        .judge(|it| it <= ALIKE, ends.map(of).into_iter().collect())
}

fn by_demand(setting: &Setting, results: &Results, way: &Way) -> Exhibit {
    let places = || {
        let alone = std::iter::once((local(FILE), 1));
        alone.chain((1..=TENANTS_MAX).map(|tenants| (way.clone(), tenants)))
    };
    let tail = |measure: Measure| {
        let points = places().enumerate().filter_map(|(index, (way, tenants))| {
            let worst = worst(results, &way, &demand_step(tenants), measure)?;
            Some(Mark { x: index_x(index), ..worst })
        });
        let label = measure.label.replace(" of latency", "");
        Series { label, origin: Origin::Measured, points: points.collect() }
    };
    let series: Vec<_> = [P95_US, P99_US, P999_US].map(tail).into();
    let names = std::iter::once("local, alone".to_owned()).chain((1..=TENANTS_MAX).map(name_of));
    let y = axis("latency of the worst tenant", P95_US.unit, Scale::Log10);
    let figure = bars("tenants", names.collect(), y, series);
    let title = format!(
        "Tail latency of tenants that each request {DEMAND_IOPS} 4 KiB reads a second: {}",
        way.label
    );
    let mut exhibit = exhibit(format!("{NAME}-{}-demand", way.key), title, SOURCE, figure);
    exhibit.table = table(setting, results, way, true);
    exhibit.notes.extend(notes(setting));
    exhibit.notes.extend(overloaded(results, way));
    exhibit.found([added(results, way)])
}

/// The increase of the tail latency over that of the local device.
fn added(results: &Results, way: &Way) -> Finding {
    let alone = worst(results, &local(FILE), &demand_step(1), P95_US);
    let of = |tenants: usize| {
        let (tail, alone) = (worst(results, way, &demand_step(tenants), P95_US)?, alone?);
        Some(case(name_of(tenants), tail.y - alone.y, [&tail, &alone]))
    };
    let stated = &paper::P95_ADDED;
    let claim = "Remote flash adds no more to the 95th percentile than in the paper";
    Claim::at_most(&paper::PAPER, stated, claim, Show::Unit(stated.unit))
        .judge(|it| it <= stated.value, (1..=TENANTS_MAX).filter_map(of).collect())
}

/// The smallest number of tenants that did not reach the requested rate, so that their latency is
/// that of an overloaded device.
fn overloaded(results: &Results, way: &Way) -> Option<String> {
    let of = |tenants: usize| {
        let rate = total(results, way, &demand_step(tenants))?;
        let wanted = x_of(DEMAND_IOPS) * index_x(tenants) / 1e3;
        (rate < 0.95 * wanted).then_some((tenants, rate, wanted))
    };
    let (tenants, rate, wanted) = (1..=TENANTS_MAX).find_map(of)?;
    Some(format!(
        "{} together got {} of the {} that they requested. From that number on, the latency is \
         that of an overloaded device.",
        name_of(tenants),
        quantity(rate, KIOPS.unit),
        quantity(wanted, KIOPS.unit),
    ))
}

/// Every tenant of every point.
fn table(setting: &Setting, results: &Results, way: &Way, is_demand: bool) -> Table {
    let measures = [KIOPS, P95_US, P99_US, P999_US];
    let mut columns: Vec<_> = ["way", "tenants", "requested", "tenant"].map(str::to_owned).into();
    columns.extend(measures.map(|measure| heading(measure.label, measure.unit)));
    let places =
        std::iter::once((local(FILE), 1)).chain((1..=TENANTS_MAX).map(|it| (way.clone(), it)));
    let mut rows = Vec::new();
    for (way, tenants) in places {
        let steps =
            if is_demand { vec![demand_step(tenants)] } else { closed_steps(setting, tenants) };
        for step in steps {
            let load = &step.loads[0];
            let asked = load
                .rate_iops
                .map_or_else(|| format!("depth {}", load.depth), |rate| format!("{rate} a second"));
            let id = point_id(NAME, &way, &step);
            for tenant in 0..tenants {
                let mut row: Vec<Cell> = vec![
                    text(way.label.as_str()),
                    Cell::Number(index_x(tenants)),
                    text(asked.as_str()),
                    Cell::Number(index_x(tenant + 1)),
                ];
                row.extend(measures.map(|measure| {
                    cell(mark(results, &id, tenant, measure, 0.0).map(|mark| mark.y))
                }));
                rows.push(row);
            }
        }
    }
    Table { columns, rows }
}

fn notes(setting: &Setting) -> [String; 2] {
    [
        cores_note(setting, 1),
        format!(
            "The paper's tenants run RocksDB, and the paper counts its queries. Here, the tenants \
             read blocks. The paper's hardware: {}.",
            paper::PAPER.hardware
        ),
    ]
}
