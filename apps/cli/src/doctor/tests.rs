//! Each check, on machines that are folders.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;

use super::machine::Disk;
use super::*;

/// A machine with two processors, a network interface and an NVMe disk with a partition, in which
/// nothing is wrong.
const SOUND: &[(&str, &str)] = &[
    ("proc/sys/kernel/osrelease", "6.12.3-amd64\n"),
    ("proc/sys/kernel/io_uring_disabled", "0\n"),
    (
        "proc/self/limits",
        "Max open files            1024                 65536               files\n",
    ),
    ("proc/77/comm", "reader\n"),
    ("proc/77/maps", "7f00-7f01 rw-s 0 00:01 9 /memfd:nearflash-rings (deleted)\n"),
    ("proc/77/task/77/comm", "reader\n"),
    ("proc/77/task/77/status", "Name:\treader\nCpus_allowed_list:\t0-1\n"),
    ("proc/78/maps", "7f00-7f01 rw-s 0 00:01 9 /memfd:nearflash-rings (deleted)\n"),
    ("proc/78/task/79/comm", "core-0\n"),
    ("proc/78/task/79/status", "Cpus_allowed_list:\t0\n"),
    ("proc/swaps", "Filename\t\tType\t\tSize\n"),
    ("proc/irq/40/effective_affinity_list", "1\n"),
    ("proc/irq/41/effective_affinity_list", "\n"),
    ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
    ("sys/devices/system/cpu/online", "0-1\n"),
    ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n"),
    ("sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", "intel_pstate\n"),
    ("sys/devices/system/cpu/intel_pstate/no_turbo", "0\n"),
    ("sys/devices/system/node/node0/cpulist", "0-1\n"),
    ("sys/devices/system/node/node1/cpulist", "2-3\n"),
    ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
    ("sys/class/net/eth0/operstate", "up\n"),
    ("sys/class/net/eth0/mtu", "9000\n"),
    ("sys/class/net/eth0/device/numa_node", "0\n"),
    ("sys/class/net/eth0/device/msi_irqs/40", "msix\n"),
    ("sys/class/net/eth0/device/msi_irqs/41", "msix\n"),
    ("sys/class/net/lo/operstate", "unknown\n"),
    ("sys/class/net/lo/mtu", "65536\n"),
    ("sys/devices/nvme0n1/queue/write_cache", "write through\n"),
    ("sys/devices/nvme0n1/queue/scheduler", "[none] mq-deadline\n"),
    ("sys/devices/nvme0n1/device/numa_node", "0\n"),
    ("sys/devices/nvme0n1/nvme0n1p1/partition", "1\n"),
];

/// A machine that differs from the sound one in some files; a file without a text is missing.
fn machine(changes: &[(&str, Option<&str>)]) -> (tempfile::TempDir, Machine) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let write = |path: &str, text: &str| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    SOUND.iter().for_each(|(path, text)| write(path, text));
    for (path, text) in changes {
        match text {
            Some(text) => write(path, text),
            None => fs::remove_file(root.join(path)).unwrap(),
        }
    }
    fs::create_dir_all(root.join("sys/dev/block")).unwrap();
    symlink("../../devices/nvme0n1/nvme0n1p1", root.join("sys/dev/block/259:1")).unwrap();
    let disk = Disk { device: "flash".to_owned(), number: "259:1".to_owned() };
    let machine = Machine::at(root.to_owned(), vec![0], vec![disk]);
    (folder, machine)
}

/// The findings of a machine that differs in one file, as check, level and text.
fn found(path: &str, text: &str) -> Vec<(&'static str, Level, String)> {
    let (_folder, machine) = machine(&[(path, Some(text))]);
    let report = Report::of(&machine);
    let each = report.checks.into_iter().flat_map(|checked| {
        let of =
            move |it: Finding| (checked.check, it.level, format!("{} {}", it.finding, it.remedy));
        checked.findings.into_iter().map(of)
    });
    each.collect()
}

#[test]
fn each_setting_that_costs_something_is_found_by_its_check_alone() {
    use Level::{Advice, Problem};
    let cpu = "sys/devices/system/cpu";
    let governor = format!("{cpu}/cpu0/cpufreq/scaling_governor");
    let turbo = format!("{cpu}/intel_pstate/no_turbo");
    let clock = "sys/devices/system/clocksource/clocksource0/current_clocksource";
    let limits = |hard: u32| format!("Max open files            1024        {hard}      files\n");
    let (few, less) = (limits(1024), limits(8192));
    let expected = [
        ("proc/sys/kernel/osrelease", "5.15.0", "kernel", Problem),
        ("proc/sys/kernel/osrelease", "6.0.9", "kernel", Problem),
        ("proc/sys/kernel/io_uring_disabled", "2", "io-uring", Problem),
        ("proc/sys/kernel/io_uring_disabled", "1", "io-uring", Problem),
        ("proc/self/limits", &few, "open-files", Problem),
        ("proc/self/limits", &less, "open-files", Advice),
        (clock, "hpet", "clock", Problem),
        ("proc/77/task/77/status", "Cpus_allowed_list:\t0", "clients", Advice),
        (&governor, "powersave", "governor", Advice),
        (&turbo, "1", "turbo", Advice),
        ("proc/irq/40/effective_affinity_list", "0-1", "interrupts", Advice),
        ("sys/class/net/eth0/mtu", "1500", "mtu", Advice),
        ("sys/devices/nvme0n1/queue/write_cache", "write back", "write-cache", Advice),
        ("sys/devices/nvme0n1/queue/scheduler", "none [mq-deadline]", "scheduler", Advice),
        ("sys/devices/nvme0n1/device/numa_node", "1", "numa", Advice),
        ("sys/class/net/eth0/device/numa_node", "1", "numa", Advice),
        ("sys/kernel/mm/transparent_hugepage/enabled", "[always] never", "huge-pages", Advice),
        ("proc/swaps", "Filename\n/swap.img file 2097148\n", "swap", Advice),
    ];
    for (path, text, check, level) in expected {
        let found = found(path, text);
        let found: Vec<_> = found.iter().map(|(check, level, _)| (*check, *level)).collect();
        assert_eq!(found, [(check, level)], "{path}: {text}");
    }
    let covered: BTreeSet<&str> = expected.iter().map(|(_, _, check, _)| *check).collect();
    assert_eq!(covered, CHECKS.iter().map(|check| check.name).collect());
}

#[test]
fn a_sound_machine_has_no_finding_and_nothing_unknown() {
    let (_folder, machine) = machine(&[]);
    let report = Report::of(&machine);
    assert!(report.checks.iter().all(|it| it.level == Level::Ok), "{report:?}");
    assert_eq!(report.text(), "14 of 14 checks found nothing\n");
}

#[test]
fn a_machine_that_shows_nothing_has_no_problem() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::at(folder.path().to_owned(), vec![0], Vec::new());
    let report = Report::of(&machine);
    assert!(report.checks.iter().all(|it| it.level == Level::Unknown), "{report:?}");
    assert_eq!(report.problems, 0);
    assert!(report.text().starts_with("unknown  the system does not show: kernel, io-uring, "));
}

#[test]
fn a_governor_that_keeps_the_lowest_frequency_is_a_problem_and_names_its_processor() {
    let (_folder, machine) = machine(&[
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", Some("powersave")),
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", Some("acpi-cpufreq")),
    ]);
    let report = Report::of(&machine);
    assert_eq!(report.problems, 1);
    let expected = "problem  governor: processor 0 stays at its lowest frequency (powersave)\n         \
                    remedy: cpupower -c 0 frequency-set -g performance\n13 of 14 checks found nothing\n";
    assert_eq!(report.text(), expected);
}

#[test]
fn a_client_beside_the_node_is_named_with_a_processor_for_it() {
    let found = found("proc/77/task/77/status", "Cpus_allowed_list:\t0\n");
    let [(_, _, text)] = &found[..] else { panic!("{found:?}") };
    assert!(text.starts_with("process 77 (reader) shares memory with a node"), "{text}");
    assert!(text.ends_with(" taskset -acp 1 77"), "{text}");
}

#[test]
fn the_interrupts_to_move_are_named_and_those_without_a_target_are_not() {
    let found = found("proc/irq/40/effective_affinity_list", "0");
    let [(_, _, text)] = &found[..] else { panic!("{found:?}") };
    assert!(
        text.contains("eth0 arrive on processors that serve: 0 send the interrupts 40 to"),
        "{text}"
    );
}

#[test]
fn a_kernel_without_the_switch_of_io_uring_allows_it() {
    let (_folder, machine) = machine(&[("proc/sys/kernel/io_uring_disabled", None)]);
    assert_eq!(kernel::io_uring(&machine), Some(Vec::new()));
}

#[test]
fn processors_of_several_memory_nodes_are_found() {
    let (_folder, mut machine) = machine(&[]);
    machine.cores = vec![0, 2];
    let found = memory::numa(&machine).unwrap();
    assert!(found.len() == 1 && found[0].finding.contains("several NUMA nodes"), "{found:?}");
}

#[test]
fn a_file_lies_on_a_disk_or_has_none_and_a_device_without_a_file_has_none() {
    let names = [("file", "/proc/self/exe"), ("ram", ""), ("absent", "/nonexistent/file")];
    let devices = names.map(|(name, path)| (name.to_owned(), PathBuf::from(path)));
    let machine = Machine::this(vec![0], devices.into_iter());
    let disks: Vec<&str> = machine.disks.iter().map(|disk| disk.device.as_str()).collect();
    assert_eq!(disks, ["file"]);
}

#[test]
fn a_report_has_the_levels_of_each_check_for_programs() {
    let (_folder, machine) = machine(&[("sys/class/net/eth0/mtu", Some("1500"))]);
    let document = serde_json::to_value(Report::of(&machine)).unwrap();
    assert_eq!(document["problems"], 0);
    let mtu = &document["checks"][8];
    assert_eq!((&mtu["check"], &mtu["level"]), (&"mtu".into(), &"advice".into()));
    assert!(mtu["findings"][0]["remedy"].is_string());
}
