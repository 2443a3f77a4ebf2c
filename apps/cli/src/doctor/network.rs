//! The network: where its interrupts go, and the length of its frames.

use std::collections::BTreeSet;

use super::Finding;
use super::machine::{Machine, processors};

/// The MTU of jumbo frames.
const MTU_LONG: i64 = 9000;

/// Interrupts of a network interface on a processor that serves take time from its core. Those of
/// NVMe disks are left out: the kernel sends each to the processor that sent the request, and accepts
/// no other place.
pub(super) fn interrupts(machine: &Machine) -> Option<Vec<Finding>> {
    let known: Vec<(String, Vec<Interrupt>)> = machine
        .interfaces()
        .into_iter()
        .map(|name| (name.clone(), interrupts_of(machine, &name)))
        .filter(|(_, interrupts)| !interrupts.is_empty())
        .collect();
    let finding = |(name, interrupts): &(String, Vec<Interrupt>)| {
        let serves = |processor: &&usize| machine.cores.contains(processor);
        let met: BTreeSet<usize> =
            interrupts.iter().flat_map(|it| it.targets.iter().filter(serves)).copied().collect();
        let meant = interrupts.iter().filter(|it| it.targets.iter().any(|to| met.contains(to)));
        let numbers: Vec<&str> = meant.map(|it| it.number.as_str()).collect();
        let met: Vec<String> = met.iter().map(ToString::to_string).collect();
        let finding =
            format!("interrupts of {name} arrive on processors that serve: {}", met.join(", "));
        let remedy = format!(
            "send the interrupts {} to other processors of the same NUMA node, in \
             /proc/irq/N/smp_affinity_list, and keep irqbalance from changing it",
            numbers.join(", ")
        );
        (!numbers.is_empty()).then(|| Finding::advice(finding, remedy))
    };
    (!known.is_empty()).then(|| known.iter().filter_map(finding).collect())
}

/// An interrupt, and the processors at which it arrives.
struct Interrupt {
    number: String,
    targets: Vec<usize>,
}

/// The interrupts of a network interface that have a place.
fn interrupts_of(machine: &Machine, interface: &str) -> Vec<Interrupt> {
    let device = format!("sys/class/net/{interface}/device");
    // Those of a virtual interface belong to the device above it.
    let folders = [format!("{device}/msi_irqs"), format!("{device}/../msi_irqs")];
    let numbers = folders.iter().map(|folder| machine.list(folder));
    let numbers = numbers.into_iter().find(|numbers| !numbers.is_empty()).unwrap_or_default();
    let placed = |number: String| {
        let targets = machine.read(format!("proc/irq/{number}/effective_affinity_list"))?;
        Some(Interrupt { number, targets: processors(&targets) })
    };
    let placed = numbers.into_iter().filter_map(placed);
    placed.filter(|interrupt| !interrupt.targets.is_empty()).collect()
}

pub(super) fn mtu(machine: &Machine) -> Option<Vec<Finding>> {
    let mtu = |name: String| {
        let mtu = machine.number(format!("sys/class/net/{name}/mtu"))?;
        Some((name, mtu))
    };
    let known: Vec<(String, i64)> = machine.interfaces().into_iter().filter_map(mtu).collect();
    let short = known.iter().filter(|(_, mtu)| *mtu < MTU_LONG);
    let finding = |(name, mtu): &(String, i64)| {
        let finding = format!("{name} has an MTU of {mtu}: large transfers take more packets");
        let remedy = format!(
            "ip link set {name} mtu {MTU_LONG}, if every machine and switch of this network allows it"
        );
        Finding::advice(finding, remedy)
    };
    (!known.is_empty()).then(|| short.map(finding).collect())
}
