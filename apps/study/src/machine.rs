//! The machine that was measured: enough facts to judge the figures, without names of hosts or
//! users.

use std::fs;
use std::path::Path;
use std::process::Command;

use jiff::Timestamp;
use nearflash_bench::compare::find;
use nearflash_bench::placement::allowed_cores;
use nearflash_units::{ByteLen, KIB};

use crate::report::Fact;

/// The facts about the machine that a report shows.
pub(crate) fn machine(local: &Path) -> Vec<Fact> {
    let mut facts = vec![
        Fact::new("processor", processor()),
        Fact::new("cores", cores()),
        Fact::new("caches", caches()),
        Fact::new("memory", memory().to_string()),
        Fact::new("kernel", kernel()),
        Fact::new("virtual machine", if is_virtual() { "yes" } else { "not that it says so" }),
        Fact::new(
            "clock",
            read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        ),
        Fact::new("TCP congestion control", read("/proc/sys/net/ipv4/tcp_congestion_control")),
    ];
    facts.extend(disk(local));
    facts
}

/// Identifies the machine: runs are comparable only if this string is the same.
pub(crate) fn identity() -> String {
    format!("{}, {}, {}, Linux {}", processor(), cores(), memory(), kernel())
}

/// Versions of all programs that take part.
pub(crate) fn versions() -> Vec<Fact> {
    let mut facts = vec![Fact::new("nearflash", env!("CARGO_PKG_VERSION"))];
    for (program, flag) in [("fio", "--version"), ("tgtd", "--version"), ("nbdkit", "--version")] {
        let value = find(program).and_then(|path| first_line(&path, flag));
        facts.push(Fact::new(program, value.unwrap_or_else(|| "not installed".to_owned())));
    }
    facts
}

/// Today's date in UTC: `2026-11-21`.
pub(crate) fn today() -> String {
    now()[..10].to_owned()
}

/// The current time in UTC: `2026-11-21 13:55 UTC`.
pub(crate) fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%d %H:%M UTC").to_string()
}

fn processor() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = ["model name", "Model", "uarch"].iter().find_map(|key| field(&cpuinfo, key));
    name.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

fn cores() -> String {
    let there = allowed_cores().len();
    format!("{there}{USABLE}")
}

/// The words behind the number of cores.
const USABLE: &str = " that may be used";

/// The number of cores in an [`identity`].
pub(crate) fn core_count(identity: &str) -> Option<usize> {
    let (before, _) = identity.split_once(USABLE)?;
    before.rsplit(' ').next()?.parse().ok()
}

fn caches() -> String {
    let dir = Path::new("/sys/devices/system/cpu/cpu0/cache");
    let mut caches: Vec<String> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let part = |name: &str| {
                fs::read_to_string(entry.path().join(name)).ok().map(|text| text.trim().to_owned())
            };
            let kind = match part("type")?.as_str() {
                "Data" => " data",
                "Instruction" => " instructions",
                _ => "",
            };
            Some(format!("L{}{kind} {}", part("level")?, part("size")?))
        })
        .collect();
    caches.sort();
    or_unknown(caches.join(", "))
}

fn memory() -> ByteLen {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = field(&meminfo, "MemTotal").and_then(|text| {
        text.split_whitespace().next().and_then(|digits| digits.parse::<u64>().ok())
    });
    // Rounded to MiB: `MemTotal` varies a little from boot to boot.
    ByteLen(kib.unwrap_or(0) / KIB * KIB * KIB)
}

fn kernel() -> String {
    read("/proc/sys/kernel/osrelease")
}

fn is_virtual() -> bool {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = field(&cpuinfo, "flags").unwrap_or_default();
    flags.split_whitespace().any(|flag| flag == "hypervisor")
}

/// File system and device of a file, or the device itself.
fn disk(path: &Path) -> Vec<Fact> {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let Ok(metadata) = path.metadata() else { return Vec::new() };
    if metadata.file_type().is_block_device() {
        return vec![Fact::new("disk", device(metadata.rdev()))];
    }
    // Names of directories need not be UTF-8; they are not looked at.
    let mounts = fs::read("/proc/self/mountinfo").unwrap_or_default();
    let (major, minor) = numbers(metadata.dev());
    let kind = mount_type(&String::from_utf8_lossy(&mounts), major, minor)
        .unwrap_or_else(|| "unknown".to_owned());
    vec![Fact::new("file system", kind), Fact::new("disk", device(metadata.dev()))]
}

/// The file system mounted from a device, by proc_pid_mountinfo(5).
fn mount_type(mounts: &str, major: u32, minor: u32) -> Option<String> {
    let number = format!("{major}:{minor}");
    let line = mounts.lines().find(|line| line.split(' ').nth(2) == Some(&number))?;
    let (_, after) = line.split_once(" - ")?;
    after.split(' ').next().map(str::to_owned)
}

fn device(number: u64) -> String {
    let (major, minor) = numbers(number);
    let mut dir = Path::new("/sys/dev/block").join(format!("{major}:{minor}"));
    // A partition's parent in sysfs is its disk.
    if dir.join("partition").exists() {
        dir = dir.join("..");
    }
    let part = |name: &str| fs::read_to_string(dir.join(name)).ok().map(|t| t.trim().to_owned());
    let Some(rotates) = part("queue/rotational") else { return "none of its own".to_owned() };
    let name = part("device/model").or_else(|| {
        let real = dir.canonicalize().ok()?;
        Some(real.file_name()?.to_string_lossy().into_owned())
    });
    let kind = if rotates == "1" { "rotating (as reported by the kernel)" } else { "not rotating" };
    let cache = part("queue/write_cache").unwrap_or_else(|| "unknown".to_owned());
    format!("{}, {kind}, write cache: {cache}", name.unwrap_or_else(|| "a device".to_owned()))
}

fn numbers(device: u64) -> (u32, u32) {
    (rustix::fs::major(device), rustix::fs::minor(device))
}

/// The value of `KEY:` in a file of /proc.
fn field(text: &str, key: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim().to_owned())
    })
}

fn read(path: &str) -> String {
    or_unknown(fs::read_to_string(path).unwrap_or_default().trim().to_owned())
}

fn or_unknown(text: String) -> String {
    if text.is_empty() { "unknown".to_owned() } else { text }
}

fn first_line(program: &Path, flag: &str) -> Option<String> {
    let said = Command::new(program).arg(flag).output().ok()?;
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    text.lines().next().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_shown_to_the_minute_in_utc() {
        let now = now();
        let form: String = now.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        assert_eq!(form, "0000-00-00 00:00 UTC");
        assert_eq!(today().len(), 10);
    }

    #[test]
    fn the_identity_of_a_machine_says_its_cores() {
        assert_eq!(core_count(&identity()), Some(allowed_cores().len()));
        assert_eq!(core_count("a processor, 64 that may be used, 1GiB, Linux 6"), Some(64));
        assert_eq!(core_count("something else"), None);
    }

    #[test]
    fn a_file_system_is_found_by_its_device() {
        let mounts = "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw\n\
                      23 22 0:21 / /proc rw - proc proc rw\n";
        assert_eq!(mount_type(mounts, 254, 0).as_deref(), Some("ext4"));
        assert_eq!(mount_type(mounts, 8, 0), None);
    }

    #[test]
    fn the_machine_is_told_without_the_names_of_host_and_user() {
        let facts = machine(Path::new("."));
        let text: String =
            facts.iter().map(|fact| format!("{}={}\n", fact.name, fact.value)).collect();
        assert!(text.contains("processor=") && text.contains("kernel="), "{text}");
        assert!(facts.iter().all(|fact| !fact.value.is_empty()), "{text}");
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host = host.trim();
        assert!(host.is_empty() || facts.iter().all(|fact| fact.value != host), "{text}");
    }
}
