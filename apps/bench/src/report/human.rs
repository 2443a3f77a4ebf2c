//! The summary as text.

use std::fmt::Write;

use nearflash_units::{MIB, Nanos};

use super::{FloorComparison, Report};
use crate::placement::Place;
use crate::recorder::{Stream, per_second};

/// The percentiles of the summary.
const PERCENTILES: [f64; 5] = [50.0, 90.0, 99.0, 99.9, 99.99];

/// Said of a run on the processor of the node's core, with the remedy.
const SHARED_PROCESSOR: &str = "the client and the node's core ran on the same processor, and waited for each other: \
    start one of them on another (taskset -c, serve --cores)";

pub(super) fn text(report: &Report) -> String {
    let mut text = String::new();
    let options: Vec<String> =
        report.options.iter().map(|(name, value)| format!("{name}={value}")).collect();
    line(&mut text, format_args!("{}: {}  {}", report.name, report.target, options.join(" ")));
    for (label, stream) in [("read", &report.record.read), ("write", &report.record.write)] {
        if stream.ops > 0 {
            direction(&mut text, label, stream, report);
        }
    }
    if report.record.ops() == 0 {
        line(&mut text, format_args!("  no operation completed in the counted time"));
        return text;
    }
    cpu(&mut text, report);
    if let Some(comparison) = &report.floor {
        floor(&mut text, comparison);
    }
    if let Some(breakdown) = &report.breakdown {
        text += &breakdown.to_string();
    }
    if report.shared_processor {
        line(&mut text, format_args!("  {SHARED_PROCESSOR}"));
    }
    text
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    writeln!(text, "{arguments}").expect("a string takes everything");
}

fn direction(text: &mut String, label: &str, stream: &Stream, report: &Report) {
    let elapsed = report.record.elapsed;
    let bandwidth = per_second(stream.len.0, elapsed);
    line(
        text,
        format_args!(
            "  {label:<5} {} IOPS, {:.1} MiB/s ({:.1} MB/s): {} operations in {:.2} s",
            count(per_second(stream.ops, elapsed)),
            bandwidth / MIB as f64,
            bandwidth / 1e6,
            stream.ops,
            elapsed.0 as f64 / 1e9,
        ),
    );
    let histogram = &stream.latency;
    line(
        text,
        format_args!(
            "        latency mean {}, deviation {}, min {}, max {}",
            micros(histogram.mean()),
            micros(histogram.stdev()),
            micros(histogram.min() as f64),
            micros(histogram.max() as f64),
        ),
    );
    let listed = &report.percentiles.0;
    let is_default = *listed == super::PercentileList::default().0;
    let shown: &[f64] = if is_default { &PERCENTILES } else { listed };
    let parts: Vec<String> = shown
        .iter()
        .map(|p| format!("p{p} {}", micros(histogram.value_at_percentile(*p) as f64)))
        .collect();
    line(text, format_args!("        {}", parts.join(", ")));
}

fn cpu(text: &mut String, report: &Report) {
    let cpu = report.record.cpu;
    let share = |time: Nanos| 100.0 * time.0 as f64 / report.record.elapsed.0.max(1) as f64;
    line(
        text,
        format_args!(
            "  cpu   {} per operation on this side ({:.0} % user, {:.0} % system, {} job{})",
            micros(cpu.total.0 as f64 / report.record.ops() as f64),
            share(cpu.user),
            share(cpu.system),
            report.job_count,
            if report.job_count == 1 { "" } else { "s" },
        ),
    );
}

fn floor(text: &mut String, floor: &FloorComparison) {
    line(
        text,
        format_args!(
            "  floor {} IOPS, latency mean {}: IOPS / floor {:.3}, latency / floor {:.3}",
            count(floor.iops),
            micros(floor.latency_ns),
            floor.iops_ratio,
            floor.latency_ratio,
        ),
    );
    let [before, after] = floor.core_to_core;
    let verdict =
        if floor.is_comparable() { "" } else { ": the cores moved between the two, run it again" };
    line(
        text,
        format_args!(
            "        core to core {} ns ({}) before, {} ns ({}) after{verdict}",
            before.0,
            Place::of(before),
            after.0,
            Place::of(after),
        ),
    );
}

/// A rate in human-readable form, with the significant digits.
pub fn count(rate: f64) -> String {
    match rate {
        rate if rate >= 1e6 => format!("{:.3} M", rate / 1e6),
        rate if rate >= 1e4 => format!("{:.1} k", rate / 1e3),
        rate => format!("{rate:.0}"),
    }
}

/// A latency in human-readable form.
pub fn micros(nanos: f64) -> String {
    match nanos {
        nanos if nanos >= 1e9 => format!("{:.2} s", nanos / 1e9),
        nanos if nanos >= 1e6 => format!("{:.2} ms", nanos / 1e6),
        nanos if nanos >= 1e3 => format!("{:.2} us", nanos / 1e3),
        nanos => format!("{nanos:.0} ns"),
    }
}
