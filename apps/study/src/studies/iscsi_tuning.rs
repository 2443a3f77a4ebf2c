//! `iscsi-tuning`: the effect of connections, cores and digests on iSCSI.

use nearflash_bench::workload::Pattern;

use super::chart::{bars, exhibit, index_x, labelled, len_tag};
use super::claims::{ALIKE, Claim, Show, case, difference};
use super::sweep::{KIOPS, MB_S, Measure, Step, Sweep, load, mark, measure_axis, point_id};
use super::ways::{NULL, Way, node_of, targets, wire};
use super::{Setting, Study, cores_note, more_cores_note};
use crate::exhibit::{Exhibit, Mark, Origin, Scale, Series};
use crate::finding::Finding;
use crate::plan::{Door, Load, Plan, SessionOptions, Unable};
use crate::published::disaggregation as paper;
use crate::result::Results;

/// See the module.
pub(super) struct IscsiTuning;

const NAME: &str = "iscsi-tuning";
const SOURCE: &str = "flash disaggregation, network optimizations";
const DEPTH: u32 = 32;

/// The options and the number of sessions.
struct Tuning {
    key: String,
    label: String,
    session: SessionOptions,
    sessions: u32,
    is_quick: bool,
}

fn tuning(key: &str, label: &str, session: SessionOptions) -> Tuning {
    Tuning { key: key.into(), label: label.into(), session, sessions: 1, is_quick: false }
}

/// All tunings, the untuned session first.
fn tunings(setting: &Setting) -> Vec<Tuning> {
    let none = SessionOptions::default();
    let quick = |tuning: Tuning| Tuning { is_quick: true, ..tuning };
    let mut all = vec![quick(tuning("plain", "one connection", none))];
    all.extend([2, 4, 8].map(|connections| {
        let session = SessionOptions { connections, ..none };
        let of = tuning(
            &format!("connections={connections}"),
            &format!("{connections} connections"),
            session,
        );
        Tuning { is_quick: connections == 4, ..of }
    }));
    let header = SessionOptions { header_digest: true, ..none };
    let data = SessionOptions { data_digest: true, ..none };
    all.push(tuning("header-digest", "header digests", header));
    all.push(quick(tuning("data-digest", "data digests", data)));
    all.push(tuning("digests", "both digests", SessionOptions { data_digest: true, ..header }));
    all.extend([2, 4, 8].map(|sessions| Tuning {
        sessions,
        is_quick: sessions == 8,
        ..tuning(&format!("sessions={sessions}"), &format!("{sessions} sessions"), none)
    }));
    let cores = [2, 4, 8].into_iter().filter(|&it| usize::from(it) < setting.core_count);
    all.extend(cores.map(|cores| Tuning {
        sessions: u32::from(cores) * 2,
        ..tuning(
            &format!("cores={cores}"),
            &format!("{cores} cores of the node, {} sessions", cores * 2),
            SessionOptions { node_cores: cores, ..none },
        )
    }));
    all.retain(|tuning| tuning.is_quick || !setting.is_quick);
    all
}

impl Tuning {
    fn way(&self) -> Way {
        let way = node_of(Door::Iscsi, vec![NULL], self.session);
        Way { key: format!("{}-{}", way.key, self.key), label: self.label.clone(), ..way }
    }
}

#[derive(Clone, Copy)]
struct Size {
    name: &'static str,
    text: &'static str,
    len: u64,
    measure: Measure,
}

const SIZES: [Size; 2] = [
    Size { name: "iops", text: "4 KiB", len: 4 << 10, measure: KIOPS },
    Size { name: "bandwidth", text: "64 KiB", len: 64 << 10, measure: MB_S },
];

impl Size {
    fn step(self, clients: u32) -> Step {
        let load = Load { depth: DEPTH, clients, ..load(Pattern::RandRead, self.len) };
        Step::new(0.0, format!("randread/{}", len_tag(self.len)), load)
    }
}

/// The wire, and the user's targets.
fn beside_ours(setting: &Setting) -> Vec<Way> {
    let wire = wire(Door::Iscsi).map(|way| way.called("wire"));
    wire.into_iter().chain(targets(setting)).collect()
}

impl Study for IscsiTuning {
    fn name(&self) -> &'static str {
        NAME
    }

    fn question(&self) -> &'static str {
        "How do connections, sessions, cores and digests affect iSCSI?"
    }

    fn source(&self) -> &'static str {
        SOURCE
    }

    fn plan(&self, setting: &Setting) -> Plan {
        let mut points = Vec::new();
        for size in SIZES {
            let of = |ways, sessions| {
                Sweep { study: NAME, ways, steps: vec![size.step(sessions)] }.points()
            };
            points.extend(of(beside_ours(setting), 1));
            let ours = tunings(setting);
            points.extend(ours.iter().flat_map(|it| of(vec![it.way()], it.sessions)));
        }
        Plan { points, unable: unable(setting) }
    }

    fn exhibits(&self, setting: &Setting, results: &Results) -> Vec<Exhibit> {
        SIZES.map(|size| by_tuning(setting, results, size)).into()
    }
}

fn unable(setting: &Setting) -> Vec<Unable> {
    let mut unable = vec![Unable {
        what: "segmentation and receive offload, jumbo frames, interrupt affinity".into(),
        why: "the node listens on the loopback interface, which has no network card with settings \
              to compare"
            .into(),
        needs:
            "a node on another machine as --target, and ethtool -K as root on the network cards of \
             both machines"
                .into(),
    }];
    if setting.core_count < 3 {
        unable.push(Unable {
            what: "several cores of the node".into(),
            why: format!("this run may use {} cores, one of them for clients", setting.core_count),
            needs: "3 cores".into(),
        });
    }
    unable
}

fn by_tuning(setting: &Setting, results: &Results, size: Size) -> Exhibit {
    let measure = size.measure;
    let tunings = tunings(setting);
    let mut names: Vec<_> = tunings.iter().map(|it| it.label.clone()).collect();
    let at = |way: &Way, index: usize| {
        let id = point_id(NAME, way, &size.step(1));
        mark(results, &id, 0, measure, index_x(index))
    };
    let ours: Vec<_> = tunings.iter().enumerate().map(|(i, it)| at(&it.way(), i)).collect();
    let points = ours.iter().flatten().copied().collect();
    let mut series = vec![Series { label: "nearflash".into(), origin: Origin::Measured, points }];
    for way in beside_ours(setting) {
        let mark = at(&way, names.len());
        names.push(way.label.clone());
        let points = mark.into_iter().collect();
        series.push(Series { label: way.label, origin: way.origin, points });
    }
    let findings = findings(size, &tunings, &ours, &series);
    if measure.unit == KIOPS.unit {
        series.push(published(&mut names));
    }
    let figure = bars("setting", names, measure_axis(measure, Scale::Linear), series);
    let title = format!("iSCSI by setting, random reads of {}, depth {DEPTH} each", size.text);
    let mut exhibit = exhibit(format!("{NAME}-{}", size.name), title, SOURCE, figure);
    exhibit.notes.push(cores_note(setting, 1));
    if tunings.iter().any(|it| it.session.node_cores > 1) {
        exhibit.notes.push(more_cores_note());
    }
    exhibit.notes.push(
        "The device is the null device, so that only the protocol is measured; the paper's device \
         is flash. The paper's threads in a session correspond to several connections or cores \
         here, because a connection belongs to one core."
            .into(),
    );
    exhibit.notes.push(format!(
        "The wire is one connection with {DEPTH} requests in flight. The paper's hardware: {}.",
        paper::PAPER.hardware
    ));
    exhibit.found(findings)
}

/// The paper's three steps; their names are appended to ours.
fn published(names: &mut Vec<String>) -> Series {
    let base = paper::BASELINE_IOPS.value / 1e3;
    let [low, high] = paper::THREADS_GAIN.map(|times| base * times);
    let levels = [
        ("paper: one tenant, untuned", base, None),
        ("paper: several threads", f64::midpoint(low, high), Some([low, high])),
        ("paper: eight tenants", paper::EIGHT_TENANTS_IOPS.value / 1e3, None),
    ];
    let points = levels.map(|(name, y, spread)| {
        names.push(name.to_owned());
        Mark { x: index_x(names.len() - 1), y, spread, is_doubtful: false }
    });
    Series { label: "published".into(), origin: Origin::Published, points: points.into() }
}

/// One connection compared with the paper's and with the wire, the gain of several connections, and
/// the cost of digests.
fn findings(
    size: Size,
    tunings: &[Tuning],
    ours: &[Option<Mark>],
    series: &[Series],
) -> Vec<Finding> {
    let plain = ours.first().copied().flatten().filter(|mark| mark.y > 0.0);
    let cases = |is_so: &dyn Fn(&Tuning) -> bool, of: &dyn Fn(f64, f64) -> f64| {
        let tuned = tunings.iter().zip(ours).skip(1).filter(|(tuning, _)| is_so(tuning));
        let case = |(tuning, mark): (&Tuning, &Option<Mark>)| {
            let (mark, plain) = ((*mark)?, plain?);
            Some(case(tuning.label.as_str(), of(mark.y, plain.y), [&mark, &plain]))
        };
        tuned.filter_map(case).collect::<Vec<_>>()
    };
    let [low, high] = paper::THREADS_GAIN;
    let numbers = format!("{low} to {high} times (threads)");
    let claim =
        "Several connections gain at least as much as several threads in the paper's session";
    let several = Claim::of(&paper::PAPER, "slide on threads", claim, Show::Times, numbers)
        .limited(low)
        .judge(|it| it >= low, cases(&|it| it.session.connections > 1, &|a, b| a / b));
    let has_digest = |it: &Tuning| it.session.header_digest || it.session.data_digest;
    let digests = Claim::own("Digests cost at most 10 % of the rate", Show::Change)
        .limited(-ALIKE)
        .judge(|it| it >= -ALIKE, cases(&has_digest, &difference));
    let wire = labelled(series, "wire").and_then(|wire| wire.points.first());
    let of_wire = || {
        let (plain, wire) = (plain?, wire.filter(|wire| wire.y > 0.0)?);
        Some(case("one connection", difference(plain.y, wire.y), [&plain, wire]))
    };
    let claim = "One connection reaches at least 90 % of the wire's rate at the same depth";
    let wire = Claim::own(claim, Show::Change)
        .limited(-ALIKE)
        .judge(|it| it >= -ALIKE, of_wire().into_iter().collect());
    let mut findings = vec![several, digests, wire];
    if size.measure.unit == KIOPS.unit {
        let stated = &paper::BASELINE_IOPS;
        let level = stated.value / 1e3;
        let show = Show::Unit(KIOPS.unit);
        let claim = "One untuned connection serves at least as much as the paper's tenant";
        let cases = plain.map(|plain| case("one connection", plain.y, [&plain]));
        let untuned = Claim::of(&paper::PAPER, stated.place, claim, show, show.text(level))
            .limited(level)
            .judge(|it| it >= level, cases.into_iter().collect());
        findings.insert(0, untuned);
    }
    findings
}
