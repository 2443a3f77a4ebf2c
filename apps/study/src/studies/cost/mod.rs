//! `cost`: when is it cheaper to buy flash and processors separately?

mod model;

use nearflash_bench::workload::Pattern;

use super::say::{self, against, number, percent, quantity};
use super::sweep::{
    KIOPS, Measure, Step, Sweep, axis, cell, exhibit, heading, lines, load, mark, point_id, text,
};
use super::ways::{FILE, local, node};
use super::{Setting, Study, cores_note};
use crate::exhibit::{Axis, Exhibit, Figure, Kind, Mark, Origin, Scale, Series, Table};
use crate::plan::{Door, Load, Plan};
use crate::published::disaggregation as paper;
use crate::result::Results;

pub use model::{CostError, Model};

/// See the module.
pub(super) struct Cost;

const NAME: &str = "cost";
const SOURCE: &str = "flash disaggregation, when does disaggregation make sense";
/// Queue depth of a busy tenant.
const DEPTH: u32 = 16;
const SAVING: &str = "saved by disaggregation";

impl Study for Cost {
    fn name(&self) -> &'static str {
        NAME
    }

    fn question(&self) -> &'static str {
        "When does disaggregated flash cost less, with the overhead measured here?"
    }

    fn source(&self) -> &'static str {
        SOURCE
    }

    fn plan(&self, _: &Setting) -> Plan {
        let ways = vec![local(FILE), node(Door::NvmeTcp, FILE)];
        let points = Sweep { study: NAME, ways, steps: vec![step()] }.points();
        Plan { points, unable: Vec::new() }
    }

    fn exhibits(&self, setting: &Setting, results: &Results) -> Vec<Exhibit> {
        let measured = measured_overhead(results);
        let mut exhibits = vec![overhead_exhibit(setting, measured.as_ref())];
        let is_example = setting.costs.is_none();
        let model = setting.costs.clone().unwrap_or_else(Model::example);
        let view = View { is_example, model, measured };
        exhibits.extend([view.today(), view.forecast()]);
        exhibits.extend(view.shares().iter().map(|share| view.surface(share)));
        exhibits
    }
}

fn step() -> Step {
    let load = Load { depth: DEPTH, ..load(Pattern::RandRead, 4096) };
    Step::new(0.0, format!("randread/4KiB/depth={DEPTH}"), load)
}

/// The rate of NVMe/TCP compared with that of the device.
#[derive(Clone, Debug)]
struct Measured {
    /// The loss as a fraction; 0 if there is a gain.
    share: f64,
    alone: Mark,
    remote: Mark,
}

fn measured_overhead(results: &Results) -> Option<Measured> {
    let rate =
        |measure: Measure, way| mark(results, &point_id(NAME, &way, &step()), 0, measure, 0.0);
    let alone = rate(KIOPS, local(FILE)).filter(|mark| mark.y > 0.0)?;
    let remote = rate(KIOPS, node(Door::NvmeTcp, FILE))?;
    Some(Measured { share: (1.0 - remote.y / alone.y).max(0.0), alone, remote })
}

/// The measured overhead, compared with the paper's.
fn overhead_exhibit(setting: &Setting, measured: Option<&Measured>) -> Exhibit {
    let theirs = paper::OVERHEAD * 100.0;
    let share = measured.map(|measured| measured.share * 100.0);
    let rows = vec![
        vec![text("the paper's application"), cell(Some(theirs)), cell(None), cell(None)],
        vec![
            text("this machine, NVMe/TCP"),
            cell(share),
            cell(measured.map(|measured| measured.alone.y)),
            cell(measured.map(|measured| measured.remote.y)),
        ],
    ];
    let columns = vec![
        "overhead of".to_owned(),
        heading("share", "%"),
        heading("local", KIOPS.unit),
        heading("remote", KIOPS.unit),
    ];
    let sentence = measured.map(|Measured { share, alone, remote }| {
        let overhead = match *share {
            share if share > 0.0 => format!("an overhead of {}", percent(share * 100.0)),
            _ => "no overhead".to_owned(),
        };
        format!(
            "NVMe/TCP serves {}, {} ({}): {overhead}, where the paper counts with {}{}.",
            quantity(remote.y, KIOPS.unit),
            against(remote.y, alone.y, "the device alone"),
            quantity(alone.y, KIOPS.unit),
            percent(theirs),
            say::doubt([alone, remote]),
        )
    });
    Exhibit {
        slug: format!("{NAME}-overhead"),
        title: "The part of a device's rate that remote access loses".into(),
        source: SOURCE.into(),
        figure: None,
        table: Table { columns, rows },
        conclusions: say::conclude(sentence, []),
        notes: vec![
            cores_note(setting, 1),
            format!(
                "Measured with 4 KiB random reads, {DEPTH} in flight; the paper's is what an \
                 application (RocksDB) loses in queries, which is another thing."
            ),
        ],
    }
}

/// An overhead to calculate with.
struct Share {
    key: &'static str,
    label: String,
    share: f64,
    is_doubtful: bool,
}

impl Share {
    /// The suffix of a sentence that uses it.
    fn doubt(&self) -> &'static str {
        if self.is_doubtful { " (doubtful)" } else { "" }
    }
}

struct View {
    is_example: bool,
    model: Model,
    measured: Option<Measured>,
}

impl View {
    /// The stated overhead and, if there is one, the measured one.
    fn shares(&self) -> Vec<Share> {
        let stated = self.model.overhead.share;
        let label =
            |what: &str, share: f64| format!("overhead of {} ({what})", percent(share * 100.0));
        let mut shares = vec![Share {
            key: "stated",
            label: label("stated", stated),
            share: stated,
            is_doubtful: false,
        }];
        shares.extend(self.measured.as_ref().map(|measured| Share {
            key: "measured",
            label: label("measured", measured.share),
            share: measured.share,
            is_doubtful: measured.alone.is_doubtful || measured.remote.is_doubtful,
        }));
        shares
    }

    /// One sentence per overhead: the measured first, then the stated.
    fn of_shares(&self, say: impl Fn(&Share) -> String) -> [Option<String>; 2] {
        let shares = self.shares();
        ["measured", "stated"].map(|key| shares.iter().find(|it| it.key == key).map(&say))
    }

    /// The costs of today's needs.
    fn today(&self) -> Exhibit {
        let model = &self.model;
        let needs = model.needs;
        let direct = model.direct(needs);
        let mut rows = vec![vec![
            text("direct"),
            cell(Some(model.storage_servers(needs).max(model.compute_servers(needs)))),
            cell(Some(model.storage_servers(needs).max(model.compute_servers(needs)))),
            cell(Some(direct)),
            cell(None),
        ]];
        rows.extend(self.shares().iter().map(|share| {
            vec![
                text(format!("disaggregated, {}", share.label)),
                cell(Some(model.storage_servers(needs))),
                cell(Some(model.compute_servers(needs))),
                cell(Some(model.disaggregated(needs, share.share))),
                cell(Some(model.saving(needs, share.share))),
            ]
        }));
        let columns = ["bought", "servers' flash", "servers' processors", "cost", "saved (%)"];
        let [measured, stated] = self.of_shares(|share| self.saving_sentence(share));
        let pays = model.break_even(needs).map(|share| match share {
            share if share > 0.0 => format!(
                "Disaggregation pays for these needs as long as its overhead is below {} of the \
                 price of flash.",
                percent(share * 100.0)
            ),
            _ => {
                "Disaggregation never pays for these needs: they need flash and processors in the \
                  proportion in which servers have them."
                    .to_owned()
            }
        });
        Exhibit {
            slug: format!("{NAME}-today"),
            title: "Cost of servers with flash, and of flash and processors apart".into(),
            source: SOURCE.into(),
            figure: None,
            table: Table { columns: columns.map(str::to_owned).into(), rows },
            conclusions: say::conclude(measured, [stated, pays]),
            notes: self.notes(),
        }
    }

    fn saving_sentence(&self, share: &Share) -> String {
        let needs = self.model.needs;
        let saving = self.model.saving(needs, share.share);
        let changes = match say::in_times(-saving) {
            Some(times) => format!("costs {times} as much"),
            None if saving < 0.0 => format!("costs {} more", percent(-saving)),
            None => format!("saves {}", percent(saving)),
        };
        format!(
            "With an {} disaggregation {changes}: {} instead of {}{}.",
            share.label,
            number(self.model.disaggregated(needs, share.share)),
            number(self.model.direct(needs)),
            share.doubt(),
        )
    }

    fn forecast(&self) -> Exhibit {
        let model = &self.model;
        let years = || 0..=model.forecast.years;
        let of = |label: String, cost: &dyn Fn(u32) -> f64, is_doubtful: bool| {
            let mark = |year| Mark { x: f64::from(year), y: cost(year), spread: None, is_doubtful };
            Series { label, origin: Origin::Model, points: years().map(mark).collect() }
        };
        let mut series = vec![of("direct".into(), &|year| model.direct(model.after(year)), false)];
        let shares = self.shares();
        series.extend(shares.iter().map(|share| {
            let label = format!("disaggregated, {}", share.label);
            let cost = |year| model.disaggregated(model.after(year), share.share);
            of(label, &cost, share.is_doubtful)
        }));
        let x = axis("years from now", "", Scale::Linear);
        let figure = lines(x, axis("cost", "", Scale::Linear), series);
        let title = "Cost over time, as needs grow".to_owned();
        let mut exhibit = exhibit(format!("{NAME}-forecast"), title, SOURCE, figure);
        let [measured, stated] = self.of_shares(|share| self.forecast_sentence(share));
        exhibit.conclusions = say::conclude(measured, [stated]);
        exhibit.notes = self.notes();
        exhibit
    }

    fn forecast_sentence(&self, share: &Share) -> String {
        let model = &self.model;
        let at = |year: u32| model.saving(model.after(year), share.share);
        let last = model.forecast.years;
        let pays = (0..=last).filter(|&year| at(year) > 0.0).count();
        format!(
            "With an {} disaggregation costs less in {pays} of {} years: the saving goes from {} now \
             to {} after {}{}.",
            share.label,
            last + 1,
            percent(at(0)),
            percent(at(last)),
            say::count(f64::from(last), "year"),
            share.doubt(),
        )
    }

    fn surface(&self, share: &Share) -> Exhibit {
        let mut factors = self.model.surface.factors.clone();
        factors.sort_by(f64::total_cmp);
        factors.dedup();
        let row = |&storage: &f64| {
            let mark = |&queries: &f64| Mark {
                x: queries,
                y: self.model.saving(self.model.scaled(storage, queries), share.share),
                spread: None,
                is_doubtful: share.is_doubtful,
            };
            let points = factors.iter().map(mark).collect();
            Series { label: format!("× {storage}"), origin: Origin::Model, points }
        };
        let series: Vec<_> = factors.iter().map(row).collect();
        let conclusion = surface_sentence(share, &series);
        let plain = |label: &str, scale| axis(label, "", scale);
        let figure = Figure {
            kind: Kind::Heat,
            x: plain("needs of queries, times today's", Scale::Log2),
            y: plain("needs of storage, times today's", Scale::Log2),
            shade: Some(Axis { label: SAVING.into(), unit: "%".into(), scale: Scale::Linear }),
            series,
        };
        let title = format!("Where disaggregation pays: {}", share.label);
        let mut exhibit = exhibit(format!("{NAME}-surface-{}", share.key), title, SOURCE, figure);
        for column in exhibit.table.columns.iter_mut().skip(1) {
            *column = heading(&format!("{SAVING}, storage {column}"), "%");
        }
        exhibit.conclusions = say::conclude(conclusion, []);
        exhibit.notes = self.notes();
        exhibit
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = vec![
            "A model: C_direct = max(GB_t/GB_s, IOPS_t/IOPS_s, QPS_t/QPS_s) (f + c), C_disagg = \
             max(GB_t/GB_s, IOPS_t/IOPS_s) (f + δ) + (QPS_t/QPS_s) c, in parts of servers. The paper \
             writes δ beside f and calls it 20 %: here it is that share of f."
                .to_owned(),
        ];
        if self.is_example {
            notes.push(
                "Capacities, needs and prices are those of the example that is installed, \
                 cost.toml: write your own."
                    .into(),
            );
        }
        notes
    }
}

/// The part of the surface that saves costs, and its extremes.
fn surface_sentence(share: &Share, series: &[Series]) -> Option<String> {
    let all = || series.iter().flat_map(|row| row.points.iter().map(move |mark| (row, mark)));
    let pays = all().filter(|(_, mark)| mark.y > 0.0).count();
    let best = all().max_by(|a, b| a.1.y.total_cmp(&b.1.y));
    let worst = all().min_by(|a, b| a.1.y.total_cmp(&b.1.y));
    let ((best_row, best), (worst_row, worst)) = best.zip(worst)?;
    Some(format!(
        "With an {} disaggregation pays at {pays} of {} places; it saves most, {}, with storage {} and \
         queries × {}, and least, {}, with storage {} and queries × {}{}.",
        share.label,
        all().count(),
        percent(best.y),
        best_row.label,
        best.x,
        percent(worst.y),
        worst_row.label,
        worst.x,
        share.doubt(),
    ))
}
