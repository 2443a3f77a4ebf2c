//! The processors of the node: their clock and their frequency.

use super::Finding;
use super::machine::{Machine, processors};

/// The clocks that a process reads without a system call. The last ones are those of hypervisors.
const FAST_CLOCKS: [&str; 3] = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page"];

/// The drivers whose governor `powersave` follows the load, instead of the lowest frequency.
const SCALING_DRIVERS: [&str; 2] = ["intel_pstate", "amd-pstate-epp"];

/// The memory of rings, as /proc names it.
const RINGS: &str = "memfd:nearflash-rings";

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

/// Clients that share memory with a node, and may run only on its processors. An end that waits spins there in
/// front of the other one, or both sleep and wake for each request.
pub(super) fn clients(machine: &Machine) -> Option<Vec<Finding>> {
    let processes = machine.list("proc");
    let is_shared = |process: &str| {
        let maps = machine.read(format!("proc/{process}/maps"));
        maps.is_some_and(|maps| maps.contains(RINGS))
    };
    let confined = |process: &String| {
        let process: u32 = process.parse().ok()?;
        let client = is_shared(&process.to_string()).then(|| client(machine, process))??;
        Some(beside_node(machine, process, &client))
    };
    (!processes.is_empty()).then(|| processes.iter().filter_map(confined).collect())
}

/// The name of a process that may run only on the node's processors; `None` for any other one, and for the node.
fn client(machine: &Machine, process: u32) -> Option<String> {
    let threads = machine.list(format!("proc/{process}/task"));
    let of = |thread: &String, file| machine.read(format!("proc/{process}/task/{thread}/{file}"));
    let is_core = |thread: &String| of(thread, "comm").is_some_and(|it| it.starts_with("core-"));
    let is_confined = |thread: &String| {
        let status = of(thread, "status").unwrap_or_default();
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let allowed = processors(allowed.unwrap_or_default());
        !allowed.is_empty() && allowed.iter().all(|it| machine.cores.contains(it))
    };
    let is_client = !threads.iter().any(is_core) && threads.iter().any(is_confined);
    is_client.then(|| machine.read(format!("proc/{process}/comm")).unwrap_or_default())
}

fn beside_node(machine: &Machine, process: u32, name: &str) -> Finding {
    let online = machine.read("sys/devices/system/cpu/online").unwrap_or_default();
    let others = processors(&online).into_iter().filter(|it| !machine.cores.contains(it));
    let others: Vec<String> = others.map(|it| it.to_string()).collect();
    let finding = format!(
        "process {process} ({name}) shares memory with a node, and may run only on processors that serve: \
         its requests take several times as long as from another processor"
    );
    let remedy = match &others[..] {
        [] => "serve with fewer processors (--cores)".to_owned(),
        others => format!("taskset -acp {} {process}", others.join(",")),
    };
    Finding::advice(finding, remedy)
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
