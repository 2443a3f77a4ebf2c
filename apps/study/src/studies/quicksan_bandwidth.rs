//! `quicksan-bandwidth`: bandwidth of each client over the length of random accesses.

use nearflash_bench::workload::Pattern;

use super::chart::{at, axis, exhibit, labelled, len_tag, len_text, lines, peak, x_of};
use super::claims::{Claim, Show, case};
use super::sweep::{MB_S, Step, Sweep, load, measure_axis};
use super::ways::{DOORS, Way, door_names, node_of, targets, wire};
use super::{Setting, Study, cores_note, quicksan_distributed, wire_note};
use crate::exhibit::{Exhibit, Origin, Scale, Series};
use crate::finding::Finding;
use crate::plan::{Door, Load, Medium, Plan, SessionOptions};
use crate::published::quicksan as paper;
use crate::result::Results;

/// See the module.
pub(super) struct QuicksanBandwidth;

const NAME: &str = "quicksan-bandwidth";
/// Queue depth of each client, enough to keep every protocol busy.
const DEPTH: u32 = 16;
const LENS: [u64; 6] = [512, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10];
const QUICK_LENS: [u64; 3] = [512, 4 << 10, 256 << 10];

/// An arrangement of clients and devices of one node. The distributed one is in `quicksan_distributed.rs`.
struct Arrangement {
    name: &'static str,
    clients: u32,
    media: &'static [Medium],
}

/// Four devices in the memory of the node.
const MEMORY: [Medium; 4] =
    [Medium::Memory(0), Medium::Memory(1), Medium::Memory(2), Medium::Memory(3)];

const ARRANGEMENTS: [Arrangement; 1] =
    [Arrangement { name: "centralized", clients: 4, media: &MEMORY }];

#[derive(Clone, Copy)]
struct Mix {
    name: &'static str,
    pattern: Pattern,
    /// The paper's gain of QuickSAN-D over iSCSI at 512 B and at 256 KiB.
    gains: Option<[f64; 2]>,
}

const MIXES: [Mix; 3] = [
    Mix {
        name: "reads",
        pattern: Pattern::RandRead,
        gains: Some([paper::GAIN_512.read, paper::GAIN_256K.read]),
    },
    Mix {
        name: "writes",
        pattern: Pattern::RandWrite,
        gains: Some([paper::GAIN_512.write, paper::GAIN_256K.write]),
    },
    Mix { name: "mixed", pattern: Pattern::RandRw, gains: None },
];

impl Mix {
    fn lens(self, setting: &Setting) -> &'static [u64] {
        match (setting.is_quick, self.pattern) {
            (false, _) => &LENS,
            (true, Pattern::RandRw) => &QUICK_LENS[1..2],
            (true, _) => &QUICK_LENS,
        }
    }

    fn text(self) -> &'static str {
        match self.pattern {
            Pattern::RandRw => "mixed reads and writes",
            _ => self.name,
        }
    }
}

impl Arrangement {
    fn ways(&self, setting: &Setting) -> Vec<Way> {
        let of = |door: Door| node_of(door, self.media.to_vec(), SessionOptions::default());
        DOORS.into_iter().map(of).chain(targets(setting)).collect()
    }

    fn step(&self, mix: Mix, len: u64, clients: u32, x: f64) -> Step {
        let load = Load { clients, depth: DEPTH, ..load(mix.pattern, len) };
        let name = self.name;
        let tag = format!("{name}/{}/{}/clients={clients}", mix.pattern.name(), len_tag(len));
        Step::new(x, tag, load)
    }

    /// Figure 5: the sweep over the length, with all clients.
    fn lengths(&self, setting: &Setting, mix: Mix) -> Sweep {
        let mut ways = self.ways(setting);
        if mix.pattern != Pattern::RandRw {
            ways.extend(wire(Door::Direct).map(|way| way.called("wire")));
        }
        let step = |&len: &u64| self.step(mix, len, self.clients, x_of(len));
        Sweep { study: NAME, ways, steps: mix.lens(setting).iter().map(step).collect() }
    }

    /// The sweep over the number of clients, with 4 KiB reads.
    fn clients(&self, setting: &Setting) -> Sweep {
        let counts =
            (1..=self.clients).filter(|&it| !setting.is_quick || it == 1 || it == self.clients);
        let step = |clients| self.step(MIXES[0], 4 << 10, clients, f64::from(clients));
        Sweep { study: NAME, ways: self.ways(setting), steps: counts.map(step).collect() }
    }

    fn sweeps(&self, setting: &Setting) -> Vec<Sweep> {
        let mut clients = self.clients(setting);
        // The first sweep already has the point with all clients.
        clients.steps.pop();
        let mut sweeps: Vec<_> = MIXES.iter().map(|&mix| self.lengths(setting, mix)).collect();
        sweeps.push(clients);
        sweeps
    }
}

impl Study for QuicksanBandwidth {
    fn name(&self) -> &'static str {
        NAME
    }

    fn question(&self) -> &'static str {
        "How does the bandwidth of each client depend on the length of access and the protocol?"
    }

    fn source(&self) -> &'static str {
        "QuickSAN, figure 5"
    }

    fn plan(&self, setting: &Setting) -> Plan {
        let sweeps = ARRANGEMENTS.iter().flat_map(|it| it.sweeps(setting));
        let points = sweeps.flat_map(|sweep| sweep.points());
        let points = points.chain(quicksan_distributed::points(setting)).collect();
        Plan { points, unable: quicksan_distributed::unable(setting) }
    }

    fn exhibits(&self, setting: &Setting, results: &Results) -> Vec<Exhibit> {
        let of = |it: &Arrangement| {
            let mut exhibits: Vec<_> =
                MIXES.iter().map(|&mix| it.by_length(setting, results, mix)).collect();
            exhibits.push(it.by_clients(setting, results));
            exhibits
        };
        let distributed = quicksan_distributed::exhibits(setting, results);
        ARRANGEMENTS.iter().flat_map(of).chain(distributed).collect()
    }
}

impl Arrangement {
    fn by_length(&self, setting: &Setting, results: &Results, mix: Mix) -> Exhibit {
        let mut series = self.lengths(setting, mix).series(results, MB_S);
        for mark in series.iter_mut().flat_map(|series| &mut series.points) {
            mark.y /= f64::from(self.clients);
            mark.spread = mark.spread.map(|both| both.map(|y| y / f64::from(self.clients)));
        }
        let findings = [gain(&series, mix), peaks(&series)];
        let x = axis("length of access", "B", Scale::Log2);
        let y = axis("mean bandwidth of a client", MB_S.unit, Scale::Log10);
        let slug = format!("{NAME}-{}-{}", self.name, mix.name);
        let title = format!(
            "Bandwidth of each of {} clients, random {}, {} devices behind one node",
            self.clients,
            mix.text(),
            self.media.len()
        );
        let mut exhibit = exhibit(slug, title, "QuickSAN, figure 5", lines(x, y, series));
        exhibit.notes.extend(self.notes(setting));
        exhibit.notes.extend(wire_note(setting));
        exhibit.found(findings)
    }

    fn notes(&self, setting: &Setting) -> [String; 4] {
        let gains = paper::SMALL_ACCESS_GAIN.map(|it| format!("{} ({})", it.value, it.place));
        [
            cores_note(setting, 1),
            format!(
                "Each client has {DEPTH} accesses in flight. All {} devices are in the node's \
                 memory. The wire is the bare exchange with a connection for each client; its rate \
                 is divided by the number of clients.",
                self.media.len()
            ),
            format!(
                "The paper gives three numbers for the gain over iSCSI in small accesses: {}. It \
                 compares its distributed form, in hardware, with the kernel's iSCSI of 2013.",
                gains.join(", ")
            ),
            format!(
                "The paper prints no numbers for this figure. Its hardware: {}.",
                paper::PAPER.hardware
            ),
        ]
    }

    fn by_clients(&self, setting: &Setting, results: &Results) -> Exhibit {
        let series = self.clients(setting).series(results, MB_S);
        let finding = grows(&series, self.clients);
        let x = axis("clients", "", Scale::Linear);
        let y = measure_axis(MB_S, Scale::Linear);
        let slug = format!("{NAME}-{}-clients", self.name);
        let title = "Bandwidth of all clients together, 4 KiB random reads".to_owned();
        let mut exhibit = exhibit(slug, title, "QuickSAN, figure 5", lines(x, y, series));
        exhibit.notes.extend([
            cores_note(setting, 1),
            format!(
                "For scaling from two to eight nodes, the paper's text gives both {} and {} times.",
                paper::SCALING_TWO_TO_EIGHT[0].value,
                paper::SCALING_TWO_TO_EIGHT[1].value
            ),
        ]);
        exhibit.found([finding])
    }
}

/// The gain of direct over iSCSI at every length, and the paper's at the shortest and the longest.
fn gain(series: &[Series], mix: Mix) -> Finding {
    let label = |door: Door| door_names(door).1;
    let ours = labelled(series, label(Door::Direct));
    let iscsi = labelled(series, label(Door::Iscsi));
    let of = |len: u64| {
        let (ours, iscsi) = (at(ours?, x_of(len))?, at(iscsi?, x_of(len))?);
        (iscsi.y > 0.0).then(|| case(len_text(len), ours.y / iscsi.y, [ours, iscsi]))
    };
    let claim = "Direct has more bandwidth than iSCSI at every length of access";
    let claim = match mix.gains {
        None => Claim::own(claim, Show::Times),
        Some([small, large]) => {
            let [small, large] = [small, large].map(|gain| Show::Times.text(gain));
            let ends = [LENS[0], LENS[LENS.len() - 1]].map(len_text);
            let numbers = format!("{small} ({}), {large} ({})", ends[0], ends[1]);
            Claim::of(&paper::PAPER, "figure 5, text", claim, Show::Times, numbers)
        }
    };
    claim.limited(1.0).judge(|it| it > 1.0, LENS.into_iter().filter_map(of).collect())
}

/// Whether bandwidth is highest at the paper's length.
fn peaks(series: &[Series]) -> Finding {
    let ours = series.iter().filter(|one| one.origin == Origin::Measured && one.points.len() > 1);
    let of = |one: &Series| {
        let peak = peak(one)?;
        Some(case(one.label.as_str(), peak.x, [peak]))
    };
    let claim = "Bandwidth is highest at the paper's length of access";
    let theirs = x_of(paper::PEAK_LEN);
    Claim::of(&paper::PAPER, "figure 5", claim, Show::Len, len_text(paper::PEAK_LEN))
        .limited(theirs)
        .judge(|it| it == theirs, ours.filter_map(of).collect())
}

/// The gain of all clients over one.
fn grows(series: &[Series], clients: u32) -> Finding {
    let of = |one: &Series| {
        let first = at(one, 1.0).filter(|first| first.y > 0.0)?;
        let all = at(one, f64::from(clients))?;
        Some(case(one.label.as_str(), all.y / first.y, [first, all]))
    };
    Claim::own("All clients together have more bandwidth than one", Show::Times)
        .limited(1.0)
        .judge(|it| it > 1.0, series.iter().filter_map(of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_and_devices_of_the_centralized_form_are_the_papers_four() {
        let [central] = ARRANGEMENTS;
        assert_eq!((central.clients, central.media.len()), (4, 4));
    }
}
