//! `iops-clients` and `bandwidth-clients`: does remote flash serve many clients, each with one
//! operation in flight, as fast as local flash?

use nearflash_bench::workload::Pattern;

use super::say::{self, Lineup, against, percent, quantity, signed};
use super::sweep::{
    KIOPS, MB_S, Measure, Step, Sweep, at, axis, exhibit, len_tag, level, lines, load, measure_axis,
};
use super::ways::{
    DOORS, FILE, NULL, Way, absent_peers, local, medium_names, nbdkit_note, node, others,
    series_of, too_long, wire,
};
use super::{Setting, Study, cores_note, wire_note};
use crate::exhibit::{Exhibit, Scale, Series};
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
        "How do small operations per second grow with clients, local and networked?"
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
        "How does bandwidth grow with clients, local and networked?"
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
        let conclusions = self.conclusions(medium, &sweep.ways, &ours);
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
        let mut exhibit = exhibit(slug, title, self.source, figure);
        exhibit.conclusions = conclusions;
        exhibit.notes.push(cores_note(setting, 1));
        exhibit.notes.extend(self.notes(medium));
        exhibit.notes.extend(match medium {
            FILE => nbdkit_note(setting),
            _ => wire_note(setting),
        });
        exhibit
    }

    /// The growth of the best protocol, the losses of all protocols, and the results of other
    /// servers.
    fn conclusions(&self, medium: Medium, ways: &[Way], series: &[Series]) -> Vec<String> {
        let unit = self.measure.unit;
        let doors = series_of(ways, series, Way::is_node);
        // A null device without a node only measures the client's own loop, so its limit is the
        // wire.
        let (limit, name) = match medium {
            FILE => (say::labelled(series, &local(FILE).label), "the device alone"),
            _ => (say::labelled(series, WIRE), "the wire alone"),
        };
        let lineup = limit.and_then(|limit| Lineup::last(&doors, limit));
        let lead = lineup.as_ref().filter(|lineup| lineup.x > 1.0).and_then(|lineup| {
            let (label, most) = lineup.best()?;
            let one = at(say::labelled(series, label)?, 1.0)?;
            Some(format!(
                "From one client to {} the best door to the {}, {label}, goes from {} to {}, {} ({}){}.",
                lineup.x,
                medium_names(medium).1,
                quantity(one.y, unit),
                quantity(most.y, unit),
                against(most.y, lineup.limit.y, name),
                quantity(lineup.limit.y, unit),
                say::doubt([one, most, lineup.limit]),
            ))
        });
        let lost = lineup.as_ref().and_then(|lineup| self.lost(medium, lineup, name));
        let others = series_of(ways, series, Way::is_other);
        let others = limit.and_then(|limit| Lineup::last(&others, limit)).and_then(|lineup| {
            Some(format!(
                "Others serve {} with {}{}.",
                say::range(&lineup.values(), |value| quantity(value, unit))?,
                say::count(lineup.x, "client"),
                lineup.doubt(),
            ))
        });
        let published = || (medium == FILE).then(|| self.beside_published(&doors)).flatten();
        say::conclude(lead, [lost, others.or_else(published)])
    }

    /// The losses, and whether they are within the paper's bound.
    fn lost(&self, medium: Medium, lineup: &Lineup<'_>, name: &str) -> Option<String> {
        let changes = lineup.changes();
        let stated = &self.loss_max;
        // The paper has no bound for a null device.
        let claim = match medium {
            FILE => format!(
                "; that the network takes {} at most, as in the paper ({}), {}",
                percent(stated.value),
                stated.place,
                say::holds_for(
                    say::held(&changes, |it| -it <= stated.value),
                    changes.len(),
                    "doors"
                ),
            ),
            _ => String::new(),
        };
        Some(format!(
            "With {} doors differ from {name} by {}{claim}{}.",
            say::count(lineup.x, "client"),
            say::range(&changes, signed)?,
            lineup.doubt(),
        ))
    }

    /// Our best result through a protocol, compared with the paper's highest.
    fn beside_published(&self, doors: &[&Series]) -> Option<String> {
        let peaks = doors.iter().filter_map(|door| Some((*door, say::peak(door)?)));
        let (ours, peak) = peaks.max_by(|a, b| a.1.y.total_cmp(&b.1.y))?;
        let theirs = self.published.iter().max_by(|a, b| a.value.total_cmp(&b.value))?;
        let level = theirs.value / self.published_unit;
        Some(format!(
            "The most through a door, {} ({}), is {} the paper's highest level, {} ({}){}.",
            quantity(peak.y, self.measure.unit),
            ours.label,
            say::part_of(peak.y, level),
            quantity(level, self.measure.unit),
            theirs.what,
            say::doubt([peak]),
        ))
    }

    fn notes(&self, medium: Medium) -> Vec<String> {
        let mut notes = vec![format!(
            "The paper's clients are separate machines behind {}; ours share this machine's \
             processors with the node, over the loopback interface.",
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
                "The paper has two peaks of random 1 KiB reads of {}: {} in table 1, {} in the text \
                 of figure 1. And it says both that the network takes {} at most and that it takes \
                 up to a third.",
                sata.name,
                say::quantity(sata.read_kiops[1], "kIOPS"),
                say::quantity(paper::PEAK_IOPS[0].value / 1e3, "kIOPS"),
                say::percent(paper::IOPS_LOSS_MAX.value),
            )
        } else {
            format!(
                "The paper has two bandwidths of random reads of {}: {} in table 1, {} in the text \
                 of figure 2; of HS4-blk {} and {}.",
                sata.name,
                say::quantity(sata.read_mb_s[1], "MB/s"),
                say::quantity(paper::PEAK_BANDWIDTH[1].value, "MB/s"),
                say::quantity(paper::DEVICES[2].read_mb_s[1], "MB/s"),
                say::quantity(paper::PEAK_BANDWIDTH[3].value, "MB/s"),
            )
        });
        notes
    }
}

/// The media: a null device, which shows the node's own rate, and flash.
const MEDIA: [Medium; 2] = [NULL, FILE];
