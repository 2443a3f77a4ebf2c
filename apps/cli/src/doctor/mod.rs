//! `nearflash doctor`: settings of this machine that cost speed or safety, each with its remedy.
//!
//! It reads /sys and /proc, changes nothing, and needs no node. Each check is a row of [`CHECKS`].
//! A setting that the system does not show, as in many guests, is unknown, and is no finding.

mod disks;
mod kernel;
mod machine;
mod memory;
mod network;
mod processors;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::process::ExitCode;

use nearflash_config::{Config, ServeArgs};
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{print, show};
use machine::Machine;

/// The node whose machine is checked.
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// The node's configuration, whose processors and devices are checked
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Device to check (repeatable), as for 'nearflash serve'
    #[arg(long = "device", value_name = "NAME=KIND:WHAT")]
    devices: Vec<String>,
    /// Processors to check, as for 'nearflash serve' [default: the first that the process may use]
    #[arg(long, value_name = "LIST")]
    cores: Option<String>,
    /// Print one line of JSON, with "schema":1, for programs
    #[arg(long)]
    json: bool,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Level {
    /// Nothing was found.
    Ok,
    /// The system does not show the setting.
    Unknown,
    /// The node works; it could be faster, or its times more even.
    Advice,
    /// The node does not work, or loses much of its speed.
    Problem,
}

impl Level {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Unknown => "unknown",
            Self::Advice => "advice",
            Self::Problem => "problem",
        }
    }
}

/// A setting that costs something.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
struct Finding {
    level: Level,
    /// The setting, and what it costs.
    finding: String,
    /// The change that ends it.
    remedy: String,
}

impl Finding {
    fn advice(finding: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { level: Level::Advice, finding: finding.into(), remedy: remedy.into() }
    }

    fn problem(finding: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { level: Level::Problem, finding: finding.into(), remedy: remedy.into() }
    }
}

/// A look at one setting. `None` if the system does not show it.
struct Check {
    name: &'static str,
    run: fn(&Machine) -> Option<Vec<Finding>>,
}

const CHECKS: &[Check] = &[
    Check { name: "kernel", run: kernel::version },
    Check { name: "io-uring", run: kernel::io_uring },
    Check { name: "open-files", run: kernel::open_files },
    Check { name: "clock", run: processors::clock },
    Check { name: "clients", run: processors::clients },
    Check { name: "governor", run: processors::governor },
    Check { name: "turbo", run: processors::turbo },
    Check { name: "interrupts", run: network::interrupts },
    Check { name: "mtu", run: network::mtu },
    Check { name: "write-cache", run: disks::write_cache },
    Check { name: "scheduler", run: disks::scheduler },
    Check { name: "numa", run: memory::numa },
    Check { name: "huge-pages", run: memory::huge_pages },
    Check { name: "swap", run: memory::swap },
];

/// The result of a check.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
struct Checked {
    check: &'static str,
    /// The worst of the findings.
    level: Level,
    findings: Vec<Finding>,
}

/// The results of all checks.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
struct Report {
    /// The number of findings of the level "problem".
    problems: usize,
    checks: Vec<Checked>,
}

impl Report {
    fn of(machine: &Machine) -> Self {
        let checks: Vec<Checked> = CHECKS.iter().map(|check| check.look_at(machine)).collect();
        let findings = checks.iter().flat_map(|checked| &checked.findings);
        let problems = findings.filter(|it| it.level == Level::Problem).count();
        Self { problems, checks }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for Checked { check, findings, .. } in &self.checks {
            for Finding { level, finding, remedy } in findings {
                text += &format!("{:7}  {check}: {finding}\n", level.as_str());
                text += &format!("         remedy: {remedy}\n");
            }
        }
        let of = |level: Level| self.checks.iter().filter(move |it| it.level == level);
        let unknown: Vec<&str> = of(Level::Unknown).map(|it| it.check).collect();
        if !unknown.is_empty() {
            text += &format!("unknown  the system does not show: {}\n", unknown.join(", "));
        }
        let good = of(Level::Ok).count();
        text + &format!("{good} of {} checks found nothing\n", self.checks.len())
    }
}

impl Check {
    fn look_at(&self, machine: &Machine) -> Checked {
        let found = (self.run)(machine);
        let nothing = if found.is_some() { Level::Ok } else { Level::Unknown };
        let findings = found.unwrap_or_default();
        let level = findings.iter().map(|finding| finding.level).max().unwrap_or(nothing);
        Checked { check: self.name, level, findings }
    }
}

/// Checks this machine. The exit code is 1 if there is a problem.
pub(crate) fn run_doctor(args: DoctorArgs) -> Result<ExitCode, Failure> {
    let DoctorArgs { config, mut devices, cores, json } = args;
    if config.is_none() && devices.is_empty() {
        // A configuration needs a device. This one has no disk.
        devices.push("none=null:2MiB".to_owned());
    }
    let args = ServeArgs { config, devices, cores, ..ServeArgs::default() };
    let config = Config::resolve(args).map_err(nearflash_node::StartError::from)?;
    let slices = config.cluster.iter().flat_map(|cluster| &cluster.slices);
    let devices = config.devices.iter().chain(slices);
    let paths = devices.map(|device| (device.name.to_string(), device.path().to_owned()));
    let report = Report::of(&Machine::this(config.cores.clone(), paths));
    print(&show(&report, json, Report::text))?;
    Ok(ExitCode::from(u8::from(report.problems > 0)))
}
