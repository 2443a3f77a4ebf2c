//! The kernel: its version, and its limits for the node's process.

use super::Finding;
use super::machine::Machine;

/// The oldest version of Linux that has all that the node needs.
const VERSION_MIN: (u32, u32) = (6, 1);

/// Open files below which a node soon refuses hosts, and below which it does so with many hosts. Each
/// connection takes one.
const FILES_FEW: u64 = 1024;
const FILES_ENOUGH: u64 = 16 << 10;

pub(super) fn version(machine: &Machine) -> Option<Vec<Finding>> {
    let release = machine.read("proc/sys/kernel/osrelease")?;
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    let version = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    let finding = || {
        let (major, minor) = VERSION_MIN;
        let finding = format!("Linux {release} lacks parts of io_uring that the node needs");
        Finding::problem(finding, format!("Linux {major}.{minor} or newer"))
    };
    Some((version < VERSION_MIN).then(finding).into_iter().collect())
}

pub(super) fn io_uring(machine: &Machine) -> Option<Vec<Finding>> {
    // Kernels before 6.6 do not have the setting, and allow io_uring.
    let Some(disabled) = machine.number("proc/sys/kernel/io_uring_disabled") else {
        return machine.read("proc/sys/kernel/osrelease").map(|_| Vec::new());
    };
    let remedy = "sysctl kernel.io_uring_disabled=0";
    Some(match disabled {
        0 => vec![],
        1 => vec![Finding::problem(
            "kernel.io_uring_disabled is 1: only processes of one group may use io_uring",
            format!("{remedy}, or put the node's user into the group kernel.io_uring_group"),
        )],
        _ => vec![Finding::problem(
            format!("kernel.io_uring_disabled is {disabled}: no process may use io_uring"),
            remedy,
        )],
    })
}

pub(super) fn open_files(machine: &Machine) -> Option<Vec<Finding>> {
    let limits = machine.read("proc/self/limits")?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    // The node raises the soft limit to the hard one.
    let hard = line.split_whitespace().nth(1)?;
    let Ok(hard) = hard.parse::<u64>() else { return Some(Vec::new()) };
    let finding = format!(
        "the hard limit of open files is {hard} in this shell, and each connection takes one"
    );
    let remedy = format!("LimitNOFILE={} in the unit, or ulimit -Hn", 4 * FILES_ENOUGH);
    Some(if hard <= FILES_FEW {
        vec![Finding::problem(finding, remedy)]
    } else if hard < FILES_ENOUGH {
        vec![Finding::advice(finding, remedy)]
    } else {
        vec![]
    })
}
