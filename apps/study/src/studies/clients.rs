//! `iops-clients` and `bandwidth-clients`: does remote flash serve many clients, each with one
//! operation in flight, as fast as local flash?

use nearflash_bench::workload::Pattern;

use super::chart::{axis, exhibit, labelled, len_tag, level, lines, peak};
use super::claims::{Claim, Show, case, count};
use super::lineup::{Lineup, cases_of};
use super::sweep::{KIOPS, MB_S, Measure, Step, Sweep, load, measure_axis};
use super::ways::{
    DOORS, FILE, NULL, Way, absent_peers, local, medium_names, nbdkit_note, node, others,
    series_of, too_long, wire,
};
use super::{Setting, Study, cores_note, wire_note};
use crate::exhibit::{Exhibit, Scale, Series};
use crate::finding::Finding;
use crate::number::{percent, quantity};
use crate::plan::{Door, Load, Medium, Plan};
use crate::published::{Stated, networked_flash as paper};
use crate::result::Results;

/// Label of the bare exchange.
const WIRE: &str = "wire";

/// `iops-clients`.
pub(super) struct IopsClients;
/// `bandwidth-clients`.
pub(super) struct BandwidthClients;

/// The differences between the two studies.
struct Ask {
    study: &'static str,
    source: &'static str,
    title: &'static str,
    op_len: u64,
    measure: Measure,
    published: &'static [Stated],
    /// Published units per unit of ours.
    published_unit: f64,
    loss_max: Stated,
}

const IOPS: Ask = Ask {
    study: "iops-clients",
    source: "networked-flash study, figure 1",
    title: "IOPS by clients, 1 KiB random reads, one outstanding each",
    op_len: 1 << 10,
    measure: KIOPS,
    published: &paper::PEAK_IOPS,
    published_unit: 1e3,
    loss_max: paper::IOPS_LOSS_MAX,
};

const BANDWIDTH: Ask = Ask {
    study: "bandwidth-clients",
    source: "networked-flash study, figure 2",
    title: "Bandwidth by clients, 64 KiB random reads, one outstanding each",
    op_len: 64 << 10,
    measure: MB_S,
    published: &paper::PEAK_BANDWIDTH,
    published_unit: 1.0,
    loss_max: paper::BANDWIDTH_LOSS_MAX,
};

impl Study for IopsClients {
    fn name(&self) -> &'static str {
        IOPS.study
    }

    fn question(&self) -> &'static str {
        "How does the rate of small operations grow with the number of clients, local and remote?"
    }

    fn source(&self) -> &'static str {
        IOPS.source
    }

    fn plan(&self, setting: &Setting) -> Plan {
        IOPS.plan(setting)
    }

    fn exhibits(&self, setting: &Setting, results: &Results) -> Vec<Exhibit> {
        IOPS.exhibits(setting, results)
    }
}

impl Study for BandwidthClients {
    fn name(&self) -> &'static str {
        BANDWIDTH.study
    }

    fn question(&self) -> &'static str {
        "How does bandwidth grow with the number of clients, local and remote?"
    }

    fn source(&self) -> &'static str {
        BANDWIDTH.source
    }

    fn plan(&self, setting: &Setting) -> Plan {
        BANDWIDTH.plan(setting)
    }

    fn exhibits(&self, setting: &Setting, results: &Results) -> Vec<Exhibit> {
        BANDWIDTH.exhibits(setting, results)
    }
}

impl Ask {
    fn plan(&self, setting: &Setting) -> Plan {
        let sweeps = MEDIA.map(|medium| self.sweep(setting, medium));
        let mut unable = absent_peers(setting);
        unable.extend(too_long(setting, &[self.op_len]));
        Plan { points: sweeps.iter().flat_map(Sweep::points).collect(), unable }
    }

    /// The sweep of one figure: a medium alone and through every protocol. A quick run of the
    /// device has one protocol only.
    fn sweep(&self, setting: &Setting, medium: Medium) -> Sweep {
        let mut ways = vec![local(medium)];
        if medium == NULL {
            ways.extend(wire(Door::Direct).map(|way| way.called(WIRE)));
        }
        let is_brief = setting.is_quick && medium == FILE;
        let doors = if is_brief { &DOORS[1..2] } else { &DOORS[..] };
        ways.extend(doors.iter().map(|&door| node(door, medium)));
        if medium == FILE {
            ways.extend(others(setting, medium));
        }
        let counts: &[u32] = if setting.is_quick { &[1, 8, 64] } else { &[1, 2, 4, 8, 16, 32, 64] };
        let step = |&clients: &u32| {
            let load = Load { clients, ..load(Pattern::RandRead, self.op_len) };
            let tag = format!("randread/{}/clients={clients}", len_tag(self.op_len));
            Step::new(f64::from(clients), tag, load)
        };
        Sweep { study: self.study, ways, steps: counts.iter().map(step).collect() }
    }

    fn exhibits(&self, setting: &Setting, results: &Results) -> Vec<Exhibit> {
        MEDIA.map(|medium| self.exhibit(setting, results, medium)).into()
    }

    fn exhibit(&self, setting: &Setting, results: &Results, medium: Medium) -> Exhibit {
        let sweep = self.sweep(setting, medium);
        let ours = sweep.series(results, self.measure);
        let (key, label) = medium_names(medium);
        let findings = self.findings(medium, &sweep.ways, &ours);
        let mut series = ours;
        if medium == FILE {
            series.extend(self.published.iter().map(|stated| {
                let label = format!("published: {}", stated.what);
                level(label, stated.value / self.published_unit, [1.0, 64.0])
            }));
        }
        let x = axis("clients", "", Scale::Log2);
        let figure = lines(x, measure_axis(self.measure, Scale::Linear), series);
        let slug = format!("{}-{key}", self.study);
        let title = format!("{}: {label}", self.title);
        let mut exhibit = exhibit(slug, title, self.source, figure).found(findings);
        exhibit.notes.push(cores_note(setting, 1));
        exhibit.notes.extend(self.notes(medium));
        exhibit.notes.extend(match medium {
            FILE => nbdkit_note(setting),
            _ => wire_note(setting),
        });
        exhibit
    }

    /// The losses to the network, and the highest rates.
    fn findings(&self, medium: Medium, ways: &[Way], series: &[Series]) -> Vec<Finding> {
        let doors = series_of(ways, series, Way::is_node);
        let clients = |lineup: &Lineup<'_>| count(lineup.x, "client");
        // A null device without a node only measures the client's own loop, so its limit is the
        // wire. The paper has no bound for it.
        if medium != FILE {
            let lineup = labelled(series, WIRE).and_then(|wire| Lineup::last(&doors, wire));
            let claim = "With the most clients, the rate is at least 90 % of the wire's";
            return vec![
                Claim::rates_alike(claim, lineup.as_ref()).at(lineup.as_ref().map(clients)),
            ];
        }
        let alone = labelled(series, &local(FILE).label);
        let lineup = alone.and_then(|alone| Lineup::last(&doors, alone));
        let stated = &self.loss_max;
        let claim = "The network costs no larger share of the device's rate than in the paper";
        let numbers = format!("at least {}", Show::Change.text(-stated.value));
        let lost = Claim::of(&paper::PAPER, stated.place, claim, Show::Change, numbers)
            .limited(-stated.value)
            .judge(|it| it >= -stated.value, cases_of(lineup.as_ref()))
            .at(lineup.as_ref().map(clients));
        vec![lost, self.peaks(&doors)]
    }

    /// The highest rates through the protocols, compared with the paper's highest.
    fn peaks(&self, doors: &[&Series]) -> Finding {
        let most = self.published.iter().max_by(|a, b| a.value.total_cmp(&b.value));
        let stated = most.expect("the paper states levels");
        let level = stated.value / self.published_unit;
        let show = Show::Unit(self.measure.unit);
        let numbers = format!("{} ({})", show.text(level), stated.what);
        let claim = "Clients of remote flash reach the highest rate of the paper";
        let peaks = doors.iter().filter_map(|door| Some((door, peak(door)?)));
        let cases = peaks.map(|(door, peak)| case(door.label.as_str(), peak.y, [peak])).collect();
        Claim::of(&paper::PAPER, stated.place, claim, show, numbers)
            .limited(level)
            .judge(|it| it >= level, cases)
    }

    fn notes(&self, medium: Medium) -> Vec<String> {
        let mut notes = vec![format!(
            "The paper's clients are separate machines behind {}. Here, the clients share this \
             machine's processors with the node, and use the loopback interface.",
            paper::NETWORKS.map(|network| network.name).join(", ")
        )];
        if medium != FILE {
            notes.push("The wire is the bare exchange, with a connection for each client.".into());
            return notes;
        }
        notes.push(
            "The paper's figures print no numbers. Its curves are shown as the levels that its \
             text states, without the number of clients at which each is reached."
                .into(),
        );
        let sata = &paper::DEVICES[0];
        notes.push(if self.op_len == IOPS.op_len {
            format!(
                "The paper gives two peaks of random 1 KiB reads for {}: {} in table 1, and {} in \
                 the text of figure 1. It also gives two maximum costs of the network: {}, and a \
                 third.",
                sata.name,
                quantity(sata.read_kiops[1], "kIOPS"),
                quantity(paper::PEAK_IOPS[0].value / 1e3, "kIOPS"),
                percent(paper::IOPS_LOSS_MAX.value),
            )
        } else {
            format!(
                "The paper gives two bandwidths of random reads for {}: {} in table 1, and {} in \
                 the text of figure 2. For HS4-blk, it gives {} and {}.",
                sata.name,
                quantity(sata.read_mb_s[1], "MB/s"),
                quantity(paper::PEAK_BANDWIDTH[1].value, "MB/s"),
                quantity(paper::DEVICES[2].read_mb_s[1], "MB/s"),
                quantity(paper::PEAK_BANDWIDTH[3].value, "MB/s"),
            )
        });
        notes
    }
}

/// The media: a null device, which shows the node's own rate, and flash.
const MEDIA: [Medium; 2] = [NULL, FILE];
