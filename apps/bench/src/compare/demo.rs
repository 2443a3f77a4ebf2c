//! The measurement of `nearflash demo`.

use std::path::PathBuf;

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, Table};
use indicatif::{ProgressBar, ProgressStyle};
use nearflash_units::{ByteLen, KIB};

use super::arena::{Arena, FILL, Ops, Side};
use super::round::{Figure, Ratio, Round};
use crate::BenchError;
use crate::engine::Remote;
use crate::floor::Headers;
use crate::report::{count, micros};
use crate::subject::NvmeTcpTarget;
use crate::workload::Direction;

const OP_LEN: ByteLen = ByteLen(4 * KIB);

/// The targets of the demonstration.
#[derive(Clone, Debug)]
pub struct DemoTargets {
    /// A volume on the null device: only the wire and the node.
    pub null: NvmeTcpTarget,
    /// A volume on a file.
    pub file: NvmeTcpTarget,
    /// A local file on the same disk: the device without the network.
    pub local: PathBuf,
}

/// The device of a volume.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Device {
    Null,
    File,
}

/// The rows of the demonstration: latencies at depth 1, rates at depth 32.
const LOADS: [(Device, Direction, u32); 8] = [
    (Device::File, Direction::Read, 1),
    (Device::File, Direction::Write, 1),
    (Device::File, Direction::Read, 32),
    (Device::File, Direction::Write, 32),
    (Device::Null, Direction::Read, 1),
    (Device::Null, Direction::Write, 1),
    (Device::Null, Direction::Read, 32),
    (Device::Null, Direction::Write, 32),
];

/// Measures 4 KiB random reads and writes of a file and of the null device, locally and through the
/// node, with progress on a terminal. Returns a table and a line on its reliability.
///
/// # Errors
/// When a side cannot be measured.
pub fn demo(arena: &Arena<'_>, targets: &DemoTargets) -> Result<String, BenchError> {
    let progress = progress(arena.timing.rounds);
    progress.set_message("writing the file and the volume");
    let DemoTargets { null, file, local } = targets;
    let floor = Headers::NVME_TCP;
    arena.fill_file(local)?;
    arena.fill(&Remote::connect(file, FILL.needs())?)?;
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY);
    table.set_header(["", "local", "remote", "predicted", "floor", "remote / predicted"]);
    let (mut counted, mut dropped) = (0, 0);
    for (device, direction, depth) in LOADS {
        progress.set_message(describe(device, direction, depth));
        let sides: &[&dyn Side] = match device {
            Device::File => &[local, &floor, file],
            Device::Null => &[&floor, null],
        };
        let ops = Ops { direction, ..Ops::reads(OP_LEN, depth) };
        let rounds = arena.rounds(sides, ops, &mut |_| progress.inc(1))?;
        let line = Line::of(&rounds, depth);
        counted += line.ratio.counted * usize::from(!line.ratio.is_doubtful);
        dropped += line.ratio.dropped + line.ratio.counted * usize::from(line.ratio.is_doubtful);
        table.add_row(line.cells(describe(device, direction, depth)));
    }
    progress.finish_and_clear();
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    Ok(format!("{table}\n{}", legend(counted, dropped)))
}

fn progress(rounds: u32) -> ProgressBar {
    let steps = u64::from(rounds) * ByteLen::from_usize(LOADS.len()).0;
    let style = ProgressStyle::with_template("{bar:30} {elapsed}  {msg}");
    ProgressBar::new(steps).with_style(style.expect("the template is well formed"))
}

fn describe(device: Device, direction: Direction, depth: u32) -> String {
    let device = match device {
        Device::File => "file",
        Device::Null => "null device",
    };
    let direction = match direction {
        Direction::Read => "read",
        Direction::Write => "write",
    };
    format!("{device}, 4 KiB random {direction}, depth {depth}")
}

fn legend(counted: usize, dropped: usize) -> String {
    let mut lines = vec![
        "predicted: the sum of device and floor (depth 1), or the slower of the two (depth 32)",
        "floor: the bare exchange of the same bytes over loopback TCP, which a protocol can hardly beat",
    ];
    let doubt = format!(
        "{dropped} of {} rounds were disturbed (cores moved or were shared): figures vary",
        counted + dropped
    );
    if dropped > counted {
        lines.push(&doubt);
    }
    lines.join("\n") + "\n"
}

/// The figure of the device without the network, which a file's round begins with.
fn local_of(round: &Round) -> Option<Figure> {
    match round.parts[..] {
        [local, _, _] => Some(local.figure),
        _ => None,
    }
}

/// The medians of one row.
struct Line {
    is_latency: bool,
    local: Option<f64>,
    remote: f64,
    predicted: f64,
    floor: f64,
    ratio: Ratio,
}

impl Line {
    fn of(rounds: &[Round], depth: u32) -> Self {
        let is_latency = depth == 1;
        let value = move |figure: Figure| if is_latency { figure.latency_ns } else { figure.iops };
        let median = |score: &dyn Fn(&Round) -> f64| Ratio::of(rounds, score).median;
        let remote = |round: &Round| value(round.subject().figure);
        let floor = |round: &Round| round.base().map_or(f64::NAN, |part| value(part.figure));
        let predicted = |round: &Round| match local_of(round).map(value) {
            None => floor(round),
            Some(local) if is_latency => local + floor(round),
            Some(local) => local.min(floor(round)),
        };
        let has_local = rounds.iter().all(|round| local_of(round).is_some());
        let local = |round: &Round| local_of(round).map_or(f64::NAN, value);
        Self {
            is_latency,
            local: has_local.then(|| median(&local)),
            remote: median(&remote),
            predicted: median(&predicted),
            floor: median(&floor),
            ratio: Ratio::of(rounds, |round| remote(round) / predicted(round)),
        }
    }

    fn cells(&self, name: String) -> Vec<String> {
        let show = |value: f64| match self.is_latency {
            true => micros(value),
            false => format!("{} IOPS", count(value)),
        };
        vec![
            name,
            self.local.map_or_else(|| "-".to_owned(), show),
            show(self.remote),
            show(self.predicted),
            show(self.floor),
            format!("{:.2}", self.ratio.median),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::super::round::{OwnTime, Part};
    use super::*;
    use nearflash_units::Nanos;

    fn round(local: Option<f64>) -> Round {
        let part = |latency_ns| Part {
            figure: Figure { iops: 1e9 / latency_ns, latency_ns, core_share: 1.0 },
            cpu_ns: f64::NAN,
            own_ns: OwnTime::NONE,
        };
        let parts = local.into_iter().chain([8_000.0, 56_000.0]).map(part).collect();
        Round { parts, before: Nanos(30), after: Nanos(30) }
    }

    #[test]
    fn the_prediction_at_depth_1_is_device_and_wire() {
        let line = Line::of(&[round(Some(48_000.0))], 1);
        assert!((line.predicted - 56_000.0).abs() < 1e-6);
        assert!((line.ratio.median - 1.0).abs() < 1e-9);
        assert_eq!(line.cells("x".to_owned())[1..3], ["48.00 us", "56.00 us"]);
    }

    #[test]
    fn the_prediction_at_depth_32_is_the_slower_of_device_and_wire() {
        let line = Line::of(&[round(Some(48_000.0))], 32);
        assert!((line.predicted - 1e9 / 48_000.0).abs() < 1e-6);
        let line = Line::of(&[round(None)], 32);
        assert!((line.predicted - 1e9 / 8_000.0).abs() < 1e-6);
        assert_eq!(line.cells("x".to_owned())[1], "-");
    }
}
