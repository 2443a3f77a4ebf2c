//! Memory: its nodes, its pages, and whether it can be swapped out.

use std::path::PathBuf;

use super::Finding;
use super::machine::{Machine, processors};

/// The processors of the node and its disks and network interfaces should be at the same memory.
pub(super) fn numa(machine: &Machine) -> Option<Vec<Finding>> {
    let nodes = machine.list("sys/devices/system/node").into_iter().filter_map(|name| {
        let number = name.strip_prefix("node")?.parse::<i64>().ok()?;
        let list = machine.read(format!("sys/devices/system/node/{name}/cpulist"))?;
        Some((number, processors(&list)))
    });
    let nodes: Vec<(i64, Vec<usize>)> = nodes.collect();
    let node_of = |core: &usize| nodes.iter().find(|(_, of)| of.contains(core)).map(|(it, _)| *it);
    let mut used: Vec<i64> = machine.cores.iter().filter_map(node_of).collect();
    used.sort_unstable();
    used.dedup();
    let &[first, ref more @ ..] = &used[..] else { return None };
    if !more.is_empty() {
        let finding = "the node's processors are at several NUMA nodes: cores exchange messages and \
                       buffers between them";
        let remedy = "choose --cores of one NUMA node, or run one nearflash for each";
        return Some(vec![Finding::advice(finding, remedy)]);
    }
    let disks = machine.disks.iter().filter_map(|disk| {
        let file: PathBuf = machine.folder_of(disk)?.join("device/numa_node");
        Some((format!("the disk of device '{}'", disk.device), machine.number(file)?))
    });
    let interfaces = machine.interfaces().into_iter().filter_map(|name| {
        let node = machine.number(format!("sys/class/net/{name}/device/numa_node"))?;
        Some((name, node))
    });
    // Without several NUMA nodes, the number is -1.
    let far = disks.chain(interfaces).filter(|(_, node)| *node >= 0 && *node != first);
    let finding = |(name, node): (String, i64)| {
        let finding =
            format!("{name} is at NUMA node {node}, and the node's processors are at {first}");
        Finding::advice(finding, format!("choose --cores of NUMA node {node}"))
    };
    Some(far.map(finding).collect())
}

pub(super) fn huge_pages(machine: &Machine) -> Option<Vec<Finding>> {
    let enabled = machine.read("sys/kernel/mm/transparent_hugepage/enabled")?;
    let finding = || {
        let finding = "transparent huge pages are on for all memory: a core may wait while the kernel \
                       makes one";
        let remedy = "echo madvise >/sys/kernel/mm/transparent_hugepage/enabled";
        Finding::advice(finding, remedy)
    };
    Some(enabled.contains("[always]").then(finding).into_iter().collect())
}

pub(super) fn swap(machine: &Machine) -> Option<Vec<Finding>> {
    // The first line has the names of the columns.
    let swaps = machine.read("proc/swaps")?.lines().count().saturating_sub(1);
    let finding = || {
        let finding = "swap is on: a core waits for each page of its memory that was swapped out";
        let remedy = "swapoff -a, or MemorySwapMax=0 in the node's unit";
        Finding::advice(finding, remedy)
    };
    Some((swaps > 0).then(finding).into_iter().collect())
}
