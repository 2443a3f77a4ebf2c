//! The disks of the node.

use super::Finding;
use super::machine::{Disk, Machine};

pub(super) fn write_cache(machine: &Machine) -> Option<Vec<Finding>> {
    each(machine, "write_cache", |disk, cache| {
        (cache == "write back").then(|| {
            let finding = format!(
                "the disk of device '{}' has a volatile write cache: each flush waits for the medium, \
                 and a loss of power loses writes that no host has flushed",
                disk.device
            );
            let remedy = "a disk with power-loss protection; it shows 'write through'. Do not set \
                          the file write_cache by hand: that only ends the flushes";
            Finding::advice(finding, remedy)
        })
    })
}

pub(super) fn scheduler(machine: &Machine) -> Option<Vec<Finding>> {
    each(machine, "scheduler", |disk, schedulers| {
        // The one in brackets is in use; a file without brackets has one only.
        let active = schedulers.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        let active = active.map_or(schedulers, |(active, _)| active);
        (active != "none").then(|| {
            let finding = format!(
                "the disk of device '{}' has the scheduler {active}, which costs time for each \
                 request of a fast disk",
                disk.device
            );
            let remedy = format!("echo none >/sys/dev/block/{}/queue/scheduler", disk.number);
            Finding::advice(finding, remedy)
        })
    })
}

/// Looks at a setting of the queue of each disk. `None` if no disk shows it.
fn each(
    machine: &Machine,
    setting: &str,
    judge: impl Fn(&Disk, &str) -> Option<Finding>,
) -> Option<Vec<Finding>> {
    let read = |disk| {
        let queue = machine.folder_of(disk)?.join("queue");
        Some((disk, machine.read(queue.join(setting))?))
    };
    let known: Vec<(&Disk, String)> = machine.disks.iter().filter_map(read).collect();
    let findings = known.iter().filter_map(|(disk, value)| judge(disk, value)).collect();
    (!known.is_empty()).then_some(findings)
}
