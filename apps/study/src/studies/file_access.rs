//! `file-access`: the latency of reads and writes of a file, by the way from the program to its bytes:
//! through the kernel, past it, and by the client library.

use super::chart::{bars, exhibit, index_x};
use super::claims::{Claim, Show, case, difference};
use super::direction::{DIRECTIONS, Direction};
use super::sweep::{MEAN_US, Sweep, mark, measure_axis, point_id};
use super::ways::{FILE, Way, medium_names, node};
use super::{Setting, Study, cores_note};
use crate::exhibit::{Exhibit, Mark, Origin, Scale, Series};
use crate::finding::Finding;
use crate::plan::{Door, FileWay, Medium, Plan, Subject, Unable};
use crate::published::quicksan as paper;
use crate::result::Results;

/// See the module.
pub(super) struct FileAccess;

const NAME: &str = "file-access";
const SOURCE: &str = "QuickSAN, table 2";
const MEDIA: [Medium; 2] = [Medium::Memory(0), FILE];

/// The longest latency past the kernel, as a multiple of the client library's.
const PAST_KERNEL_MAX: f64 = 1.3;

/// All ways to a medium, the shortest first.
fn ways(setting: &Setting, medium: Medium) -> Vec<Way> {
    let mut ways = Vec::new();
    if medium == FILE {
        ways.push(file(FileWay::Kernel, medium));
    }
    ways.push(node(Door::DirectLocal, medium).called("client library"));
    if setting.has_fuse {
        ways.push(file(FileWay::Interposed, medium));
        ways.push(file(FileWay::Mount, medium));
    }
    ways
}

fn file(way: FileWay, medium: Medium) -> Way {
    let (key, label, origin) = match way {
        FileWay::Kernel => ("kernel", "local file", Origin::Limit),
        FileWay::Mount => ("mount", "mount", Origin::Measured),
        FileWay::Interposed => ("interposed", "mount, nearflash run", Origin::Measured),
    };
    let (medium_key, _) = medium_names(medium);
    let subject = Subject::File { way, medium };
    Way { key: format!("{key}-{medium_key}"), label: label.to_owned(), origin, subject }
}

impl Study for FileAccess {
    fn name(&self) -> &'static str {
        NAME
    }

    fn question(&self) -> &'static str {
        "How long does a program wait for 4 KiB of a file, through the kernel and past it?"
    }

    fn source(&self) -> &'static str {
        SOURCE
    }

    fn plan(&self, setting: &Setting) -> Plan {
        let steps = || DIRECTIONS.map(Direction::step).to_vec();
        let of = |medium| Sweep { study: NAME, ways: ways(setting, medium), steps: steps() };
        let points = MEDIA.into_iter().flat_map(|medium| of(medium).points()).collect();
        let no_fuse = (!setting.has_fuse).then(|| Unable {
            what: "a mounted volume, through the kernel and past it".into(),
            why: "the kernel has no FUSE".into(),
            needs: "/dev/fuse".into(),
        });
        Plan { points, unable: no_fuse.into_iter().collect() }
    }

    fn exhibits(&self, setting: &Setting, results: &Results) -> Vec<Exhibit> {
        MEDIA.map(|medium| Latencies { setting, results, medium }.exhibit()).into()
    }
}

/// The latencies of all ways to one medium.
struct Latencies<'a> {
    setting: &'a Setting,
    results: &'a Results,
    medium: Medium,
}

impl Latencies<'_> {
    fn of(&self, way: &Way, direction: Direction) -> Option<Mark> {
        mark(self.results, &point_id(NAME, way, &direction.step()), 0, MEAN_US, 0.0)
    }

    fn exhibit(&self) -> Exhibit {
        let ways = ways(self.setting, self.medium);
        let series = DIRECTIONS.map(|direction| {
            let points = ways.iter().enumerate().filter_map(|(index, way)| {
                Some(Mark { x: index_x(index), ..self.of(way, direction)? })
            });
            let (label, origin) = (format!("{}s", direction.name), Origin::Measured);
            Series { label, origin, points: points.collect() }
        });
        let names = ways.iter().map(|way| way.label.clone()).collect();
        let figure = bars("way", names, measure_axis(MEAN_US, Scale::Linear), series.into());
        let (key, label) = medium_names(self.medium);
        let title = format!("Latency of 4 KiB of a file: {label}");
        let mut exhibit = exhibit(format!("{NAME}-{key}"), title, SOURCE, figure);
        exhibit.notes.push(cores_note(self.setting, 1));
        exhibit.notes.push(
            "The program makes one call of pread(2) or pwrite(2) at a time. The mount's threads \
             share the cores with it."
                .into(),
        );
        exhibit.found([self.past_kernel(), self.like_client()])
    }

    /// Pairs of latencies past the kernel and on another way, by direction.
    fn pairs(&self, other: &Way) -> Vec<(&'static str, Mark, Mark)> {
        let interposed = file(FileWay::Interposed, self.medium);
        let of = |direction: &Direction| {
            let (ours, theirs) = (self.of(&interposed, *direction)?, self.of(other, *direction)?);
            (ours.y > 0.0 && theirs.y > 0.0).then_some((direction.name, ours, theirs))
        };
        DIRECTIONS.iter().filter_map(of).collect()
    }

    /// The latency past the kernel, compared with that through the kernel, here and in the paper.
    fn past_kernel(&self) -> Finding {
        let [_, os, direct] = paper::LATENCIES;
        let numbers = DIRECTIONS.map(|Direction { name, of, .. }| {
            let change = Show::Change.text(difference(of(&direct.remote), of(&os.remote)));
            format!("{change} ({name}s)")
        });
        let pairs = self.pairs(&file(FileWay::Mount, self.medium));
        let cases = pairs
            .iter()
            .map(|(name, ours, theirs)| case(*name, difference(ours.y, theirs.y), [ours, theirs]));
        let claim = "Access past the kernel takes less time than through it";
        Claim::of(&paper::PAPER, "table 2", claim, Show::Change, numbers.join(", "))
            .limited(0.0)
            .judge(|it| it < 0.0, cases.collect())
    }

    /// The latency past the kernel as a multiple of the client library's.
    fn like_client(&self) -> Finding {
        let pairs = self.pairs(&node(Door::DirectLocal, self.medium));
        let cases =
            pairs.iter().map(|(name, ours, theirs)| case(*name, ours.y / theirs.y, [ours, theirs]));
        let claim =
            "Past the kernel, a program waits at most 1.3 times as long as with the client library";
        Claim::own(claim, Show::Times)
            .limited(PAST_KERNEL_MAX)
            .judge(|it| it <= PAST_KERNEL_MAX, cases.collect())
    }
}
