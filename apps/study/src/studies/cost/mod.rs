//! `cost`: when is it cheaper to buy flash and processors separately?

mod model;

use nearflash_bench::workload::Pattern;

use super::chart::{axis, cell, exhibit, heading, lines, text};
use super::claims::{Case, Claim, Show, case, plain_case};
use super::sweep::{KIOPS, Measure, Step, Sweep, load, mark, point_id};
use super::ways::{FILE, local, node};
use super::{Setting, Study, cores_note};
use crate::exhibit::{Axis, Exhibit, Figure, Kind, Mark, Origin, Scale, Series, Table};
use crate::finding::Finding;
use crate::number::percent;
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
    let of = |Measured { share, alone, remote }: &Measured| {
        case("NVMe/TCP", share * 100.0, [alone, remote])
    };
    let claim = "Remote access costs no larger share of the device's rate than in the paper";
    let numbers = format!("at most {}", percent(theirs));
    let finding = Claim::of(&paper::PAPER, "slide on costs", claim, Show::Percent, numbers)
        .limited(theirs)
        .judge(|it| it <= theirs, measured.map(of).into_iter().collect());
    Exhibit {
        slug: format!("{NAME}-overhead"),
        title: "The share of a device's rate that remote access costs".into(),
        source: SOURCE.into(),
        figure: None,
        table: Table { columns, rows },
        findings: Vec::new(),
        notes: vec![
            cores_note(setting, 1),
            format!(
                "The overhead here is that of 4 KiB random reads, {DEPTH} in flight. The paper's \
                 is the loss of queries in an application (RocksDB), so the two are not directly \
                 comparable."
            ),
        ],
    }
    .found([finding])
}

/// An overhead to calculate with.
struct Share {
    key: &'static str,
    label: String,
    share: f64,
    is_doubtful: bool,
}

impl Share {
    /// A saving in per cent with this overhead, at a place of the model.
    fn case(&self, place: &str, saving: f64) -> Case {
        plain_case(format!("{}{place}", self.label), saving, self.is_doubtful)
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
        Exhibit {
            slug: format!("{NAME}-today"),
            title: "Cost of servers with flash, compared with separate flash and processors".into(),
            source: SOURCE.into(),
            figure: None,
            table: Table { columns: columns.map(str::to_owned).into(), rows },
            findings: Vec::new(),
            notes: self.break_even().into_iter().chain(self.notes()).collect(),
        }
        .found([self.saves_today()])
    }

    /// The overhead at which both cost the same.
    fn break_even(&self) -> Option<String> {
        let share = self.model.break_even(self.model.needs)?;
        Some(match share {
            share if share > 0.0 => format!(
                "For these needs, both forms cost the same at an overhead of {} of the price of \
                 flash.",
                percent(share * 100.0)
            ),
            _ => "For these needs, disaggregation never costs less: the needs of flash and \
                 processors are in the same proportion as in a server."
                .to_owned(),
        })
    }

    /// With every overhead.
    fn saves_today(&self) -> Finding {
        let (model, needs) = (&self.model, self.model.needs);
        let shares = self.shares();
        let cases =
            shares.iter().map(|share| share.case("", model.saving(needs, share.share))).collect();
        Claim::own("Disaggregation costs less for today's needs", Show::Percent)
            .limited(0.0)
            .judge(|it| it > 0.0, cases)
    }

    /// Now and after the last year, with every overhead.
    fn saves_each_year(&self) -> Finding {
        let model = &self.model;
        let shares = self.shares();
        let cases = shares.iter().flat_map(|share| {
            (0..=model.forecast.years).map(move |year| {
                let place = format!(", year {year}");
                share.case(&place, model.saving(model.after(year), share.share))
            })
        });
        Claim::own("Disaggregation costs less in every year", Show::Percent)
            .limited(0.0)
            .judge(|it| it > 0.0, cases.collect())
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
        exhibit.notes = self.notes();
        exhibit.found([self.saves_each_year()])
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
        let finding = saves_where_unbalanced(&series);
        let plain = |label: &str, scale| axis(label, "", scale);
        let figure = Figure {
            kind: Kind::Heat,
            x: plain("queries needed, as a multiple of today's", Scale::Log2),
            y: plain("storage needed, as a multiple of today's", Scale::Log2),
            shade: Some(Axis { label: SAVING.into(), unit: "%".into(), scale: Scale::Linear }),
            series,
        };
        let title = format!("Where disaggregation pays: {}", share.label);
        let mut exhibit = exhibit(format!("{NAME}-surface-{}", share.key), title, SOURCE, figure);
        for column in exhibit.table.columns.iter_mut().skip(1) {
            *column = heading(&format!("{SAVING}, storage {column}"), "%");
        }
        exhibit.notes = self.notes();
        exhibit.found([finding])
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = vec![
            "This is a model, in fractions of servers: C_direct = max(GB_t/GB_s, IOPS_t/IOPS_s, \
             QPS_t/QPS_s) (f + c), C_disagg = max(GB_t/GB_s, IOPS_t/IOPS_s) (f + δ) + \
             (QPS_t/QPS_s) c. The paper adds δ to f and gives it as 20 %; here, δ is that share of \
             f."
            .to_owned(),
        ];
        if self.is_example {
            notes.push(
                "Capacities, needs and prices are those of the installed example, cost.toml. Use \
                 --costs to replace them with your own."
                    .into(),
            );
        }
        notes
    }
}

/// The saving where needs differ most from the proportion of servers: much storage and few queries,
/// and the reverse.
fn saves_where_unbalanced(series: &[Series]) -> Finding {
    let corner = |row: Option<&Series>, of: fn(&Series) -> Option<&Mark>| {
        let row = row?;
        let mark = of(row)?;
        let name = format!("storage {}, queries × {}", row.label, mark.x);
        Some(case(name, mark.y, [mark]))
    };
    let cases = [
        corner(series.last(), |row| row.points.first()),
        corner(series.first(), |row| row.points.last()),
    ];
    let claim = "Disaggregation costs less where the needs are out of proportion";
    Claim::own(claim, Show::Percent)
        .limited(0.0)
        .judge(|it| it > 0.0, cases.into_iter().flatten().collect())
}
