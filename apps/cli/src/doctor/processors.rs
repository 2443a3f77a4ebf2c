//! The processors of the node: their clock and their frequency.

use super::Finding;
use super::machine::Machine;

/// The clocks that a process reads without a system call. The last ones are those of hypervisors.
const FAST_CLOCKS: [&str; 3] = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page"];

/// The drivers whose governor `powersave` follows the load, instead of the lowest frequency.
const SCALING_DRIVERS: [&str; 2] = ["intel_pstate", "amd-pstate-epp"];

pub(super) fn clock(machine: &Machine) -> Option<Vec<Finding>> {
    let clock = machine.read("sys/devices/system/clocksource/clocksource0/current_clocksource")?;
    if FAST_CLOCKS.contains(&clock.as_str()) {
        return Some(Vec::new());
    }
    let finding = format!(
        "the clock is {clock}: the node reads it in every turn, each time by a system call"
    );
    let remedy = "see the reason in dmesg; if the processor's counter is sound, boot with \
                  clocksource=tsc tsc=reliable";
    Some(vec![Finding::problem(finding, remedy)])
}

pub(super) fn governor(machine: &Machine) -> Option<Vec<Finding>> {
    let of = |core: &usize| {
        let file = |name| format!("sys/devices/system/cpu/cpu{core}/cpufreq/{name}");
        let governor = machine.read(file("scaling_governor"))?;
        Some((*core, governor, machine.read(file("scaling_driver")).unwrap_or_default()))
    };
    let governors: Vec<_> = machine.cores.iter().filter_map(of).collect();
    let slow = governors.iter().filter(|(_, governor, _)| governor != "performance");
    let finding = |(core, governor, driver): &(usize, String, String)| {
        let remedy = format!("cpupower -c {core} frequency-set -g performance");
        if governor == "powersave" && !SCALING_DRIVERS.contains(&driver.as_str()) {
            let finding = format!("processor {core} stays at its lowest frequency ({governor})");
            return Finding::problem(finding, remedy);
        }
        let finding = format!(
            "processor {core} has the governor {governor}: after a pause, the first requests find \
             it slow"
        );
        Finding::advice(finding, remedy)
    };
    (!governors.is_empty()).then(|| slow.map(finding).collect())
}

pub(super) fn turbo(machine: &Machine) -> Option<Vec<Finding>> {
    // The two drivers have opposite switches.
    let off = [
        ("sys/devices/system/cpu/intel_pstate/no_turbo", 1),
        ("sys/devices/system/cpu/cpufreq/boost", 0),
    ];
    let (path, off) = off.into_iter().find(|(path, _)| machine.number(path).is_some())?;
    let finding = || {
        let finding = "turbo frequencies are off: a core that spins runs slower than it could";
        let remedy = format!("echo {} >/{path}; leave it off for repeatable measurements", 1 - off);
        Finding::advice(finding, remedy)
    };
    Some((machine.number(path)? == off).then(finding).into_iter().collect())
}
