//! `quicksan-bandwidth`: bandwidth of each client over the length of random accesses.

use nearflash_bench::workload::Pattern;

use super::say::{self, labelled, quantity};
use super::sweep::{
    MB_S, Step, Sweep, at, axis, exhibit, len_tag, len_text, lines, load, measure_axis, x_of,
};
use super::ways::{DOORS, Way, door_names, node_of, targets, wire};
use super::{Setting, Study, cores_note, wire_note};
use crate::exhibit::{Exhibit, Mark, Origin, Scale, Series};
use crate::plan::{Door, Load, Medium, Plan, SessionOptions, Unable};
use crate::published::quicksan as paper;
use crate::result::Results;

/// See the module.
pub(super) struct QuicksanBandwidth;

const NAME: &str = "quicksan-bandwidth";
/// Queue depth of each client, enough to keep every protocol busy.
const DEPTH: u32 = 16;
const LENS: [u64; 6] = [512, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10];
const QUICK_LENS: [u64; 3] = [512, 4 << 10, 256 << 10];

/// An arrangement of clients and devices. A distributed one can be added once several nodes form
/// one address space.
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
        "What bandwidth does each client get, by length of access and by door?"
    }

    fn source(&self) -> &'static str {
        "QuickSAN, figure 5"
    }

    fn plan(&self, setting: &Setting) -> Plan {
        let sweeps = ARRANGEMENTS.iter().flat_map(|it| it.sweeps(setting));
        let points = sweeps.flat_map(|sweep| sweep.points()).collect();
        let unable = vec![Unable {
            what: "the distributed arrangement, scaling and mirrors (figures 5 to 7)".into(),
            why: "a node serves the devices of its own machine only".into(),
            needs: "a space over several nodes".into(),
        }];
        Plan { points, unable }
    }

    fn exhibits(&self, setting: &Setting, results: &Results) -> Vec<Exhibit> {
        let of = |it: &Arrangement| {
            let mut exhibits: Vec<_> =
                MIXES.iter().map(|&mix| it.by_length(setting, results, mix)).collect();
            exhibits.push(it.by_clients(setting, results));
            exhibits
        };
        ARRANGEMENTS.iter().flat_map(of).collect()
    }
}

impl Arrangement {
    fn by_length(&self, setting: &Setting, results: &Results, mix: Mix) -> Exhibit {
        let mut series = self.lengths(setting, mix).series(results, MB_S);
        for mark in series.iter_mut().flat_map(|series| &mut series.points) {
            mark.y /= f64::from(self.clients);
            mark.spread = mark.spread.map(|both| both.map(|y| y / f64::from(self.clients)));
        }
        let gain = |door| gain(&series, mix, door);
        let details = [gain(Door::NvmeTcp), peaks(&series)];
        let conclusions = say::conclude(gain(Door::Direct), details);
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
        exhibit.conclusions = conclusions;
        exhibit.notes.extend(self.notes(setting));
        exhibit.notes.extend(wire_note(setting));
        exhibit
    }

    fn notes(&self, setting: &Setting) -> [String; 4] {
        let gains = paper::SMALL_ACCESS_GAIN.map(|it| format!("{} ({})", it.value, it.place));
        [
            cores_note(setting, 1),
            format!(
                "Each client has {DEPTH} accesses in flight; all {} devices are in the node's memory. \
                 The wire is the bare exchange with a connection for each client, its rate divided by \
                 them.",
                self.media.len()
            ),
            format!(
                "For the gain of small accesses over iSCSI the paper has three numbers: {}; it \
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
        let conclusions = say::conclude(grows(&series, self.clients), []);
        let x = axis("clients", "", Scale::Linear);
        let y = measure_axis(MB_S, Scale::Linear);
        let slug = format!("{NAME}-{}-clients", self.name);
        let title = "Bandwidth of all clients together, 4 KiB random reads".to_owned();
        let mut exhibit = exhibit(slug, title, "QuickSAN, figure 5", lines(x, y, series));
        exhibit.conclusions = conclusions;
        exhibit.notes.extend([
            cores_note(setting, 1),
            format!(
                "Of distributed scaling, which is not measured here, the paper's text says both {} \
                 and {} times from two to eight nodes.",
                paper::SCALING_TWO_TO_EIGHT[0].value,
                paper::SCALING_TWO_TO_EIGHT[1].value
            ),
        ]);
        exhibit
    }
}

/// The gain of a protocol over iSCSI, at the shortest and the longest access that both have.
fn gain(series: &[Series], mix: Mix, door: Door) -> Option<String> {
    let label = |door: Door| door_names(door).1;
    let (ours, iscsi) = (labelled(series, label(door))?, labelled(series, label(Door::Iscsi))?);
    let pair = |len: u64| {
        let pair: (&Mark, &Mark) = (at(ours, x_of(len))?, at(iscsi, x_of(len))?);
        (pair.1.y > 0.0).then_some((len, pair))
    };
    let all: Vec<_> = LENS.into_iter().filter_map(pair).collect();
    let (first, last) = (all.first()?, all.last().filter(|_| all.len() > 1));
    let theirs = |len: u64| {
        let place = [LENS[0], LENS[LENS.len() - 1]].iter().position(|end| *end == len)?;
        let gains = mix.gains.filter(|_| door == Door::Direct)?;
        Some(format!(", in the paper {}", say::times(gains[place])))
    };
    let ends = || std::iter::once(first).chain(last);
    let said: Vec<_> = ends()
        .map(|(len, (ours, iscsi))| {
            let (times, len_text) = (say::times(ours.y / iscsi.y), len_text(*len));
            let theirs = theirs(*len).unwrap_or_default();
            let [ours, iscsi] = [ours, iscsi].map(|mark| quantity(mark.y, MB_S.unit));
            format!("{times} as much as iSCSI at {len_text} ({ours} and {iscsi}{theirs})")
        })
        .collect();
    Some(format!(
        "Of {} {} moves {}{}.",
        mix.text(),
        label(door),
        said.join(" and "),
        say::doubt(ends().flat_map(|(_, (ours, iscsi))| [*ours, *iscsi])),
    ))
}

/// The access lengths with the highest bandwidth, and whether the paper's is among them.
fn peaks(series: &[Series]) -> Option<String> {
    let ours = series.iter().filter(|one| one.origin == Origin::Measured);
    let peaks: Vec<_> = ours
        .filter(|one| one.points.len() > 1)
        .filter_map(|one| Some((one.label.as_str(), say::peak(one)?)))
        .collect();
    let lens: Vec<_> = peaks.iter().map(|(label, mark)| (*label, mark.x)).collect();
    let len =
        |x: f64| LENS.into_iter().find(|&len| x_of(len) == x).map_or_else(String::new, len_text);
    Some(format!(
        "Bandwidth is highest at {}; that it is at {} {}{}.",
        say::range(&lens, len)?,
        len_text(paper::PEAK_LEN),
        say::holds_for(say::held(&lens, |x| x == x_of(paper::PEAK_LEN)), lens.len(), "curves"),
        say::doubt(peaks.iter().map(|(_, mark)| *mark)),
    ))
}

/// The gain of all clients over one.
fn grows(series: &[Series], clients: u32) -> Option<String> {
    let both = |one: &Series| Some([*at(one, 1.0)?, *at(one, f64::from(clients))?]);
    let all: Vec<_> = series
        .iter()
        .filter_map(|one| Some((one.label.as_str(), both(one)?)))
        .filter(|(_, [one, _])| one.y > 0.0)
        .collect();
    let times: Vec<_> = all.iter().map(|(label, [one, all])| (*label, all.y / one.y)).collect();
    Some(format!(
        "All {clients} clients together have {} the bandwidth of one{}.",
        say::range(&times, say::times)?,
        say::doubt(all.iter().flat_map(|(_, both)| both)),
    ))
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
