//! The state of a node as text.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::wear;
use super::{listed, rendered, size, table, volumes};
use comfy_table::Table;
use nearflash_api::{
    ClusterView, CopyInfo, CoreInfo, DeviceInfo, HostInfo, Io, JobInfo, Latency, PlaceInfo, Status,
    Verdict, VolumeIo,
};

/// The state of a node.
pub(crate) fn status(status: &Status) -> String {
    let mut text = String::new();
    let Status { node, version, pid, uptime_seconds, .. } = status;
    let commit = status.commit.as_ref().map_or(String::new(), |commit| format!(" ({commit})"));
    // Writing to a string does not fail.
    let _ = write!(
        text,
        "node {node}, version {version}{commit}, process {pid}, serving for {}\n{}{}",
        uptime(*uptime_seconds),
        verdict(&status.verdict),
        [cluster(status), doors(status)].concat()
    );
    for part in [
        devices(&status.devices),
        volumes(&status.volumes),
        io(&status.volume_io),
        cores(&status.cores, &status.silent_cores),
        hosts(&status.hosts),
        clients(status),
        initiators(status),
        places(&status.places),
        running(&status.jobs),
    ] {
        if !part.is_empty() {
            text.push('\n');
            text.push_str(&part);
        }
    }
    text
}

/// The health of the node, and the findings, each in a line.
fn verdict(Verdict { level, reasons }: &Verdict) -> String {
    let reasons: String = reasons.iter().map(|reason| format!("  {reason}\n")).collect();
    format!("health: {}\n{reasons}", level.as_str())
}

/// The node's place in its cluster, and the verdict on it; empty without one.
fn cluster(status: &Status) -> String {
    let Some(view) = &status.cluster else { return String::new() };
    let ClusterView { uuid, node, verdict, reason, copies, .. } = view;
    let copies = copies.iter().map(|CopyInfo { volume, mirror, done_bytes, bytes }| {
        let (done, all) = (size(*done_bytes), size(*bytes));
        format!("mirror {mirror} of '{volume}' is compared and copied: {done} of {all}\n")
    });
    let copies: String = copies.collect();
    let space = match view.space() {
        (0, _) => String::new(),
        (data, free) => format!("space: {} of {} free\n", size(free), size(data)),
    };
    format!("node '{node}' of cluster {uuid}\n{verdict}: {reason}\n{space}{copies}")
}

fn doors(status: &Status) -> String {
    let shown = |all: &[SocketAddr], only_tls: &[SocketAddr], local: Option<&PathBuf>| {
        let address = |address: &SocketAddr| match only_tls.contains(address) {
            true => format!("{address} (TLS required)"),
            false => address.to_string(),
        };
        let local = local.map(|path| path.display().to_string());
        all.iter().map(address).chain(local).collect::<Vec<String>>()
    };
    let http = status.http.as_slice();
    let doors = [
        ("NVMe/TCP", shown(&status.nvme_tcp, &status.nvme_tcp_tls, None)),
        ("direct", shown(&status.direct, &status.direct_tls, status.direct_local.as_ref())),
        ("iSCSI", shown(&status.iscsi, &[], None)),
        ("HTTP", shown(http, http, status.http_local.as_ref())),
    ];
    let open = doors.iter().filter(|(_, addresses)| !addresses.is_empty());
    open.map(|(name, addresses)| format!("{name} on {}\n", addresses.join(", "))).collect()
}

fn devices(devices: &[DeviceInfo]) -> String {
    let mut table = table(&["DEVICE", "KIND", "SIZE", "FREE", "BLOCK", "CACHE"], &[2, 3, 4]);
    for device in devices {
        table.add_row([
            device.name.clone(),
            device.kind.clone(),
            size(device.bytes),
            size(device.free_bytes),
            device.block_size.to_string(),
            cache(device).to_owned(),
        ]);
    }
    rendered(&table) + &conditions(devices)
}

/// All devices, with their sources.
pub(crate) fn device_list(devices: &[DeviceInfo]) -> String {
    let none =
        "no devices: add one with 'nearflash serve --device', or to the configuration file\n";
    let header = ["DEVICE", "SIZE", "FREE", "BLOCK", "CACHE", "HEALTH", "SOURCE"];
    let table = listed(devices, none, (&header, &[1, 2, 3]), |device| {
        [
            device.name.clone(),
            size(device.bytes),
            size(device.free_bytes),
            device.block_size.to_string(),
            cache(device).to_owned(),
            device.health().to_owned(),
            device.source.clone().unwrap_or_else(|| device.kind.clone()),
        ]
    });
    table + &conditions(devices)
}

fn cache(device: &DeviceInfo) -> &'static str {
    if device.volatile_cache { "volatile" } else { "none" }
}

/// The faults of the devices, and the wear of the models.
fn conditions(devices: &[DeviceInfo]) -> String {
    let faults = devices.iter().flat_map(DeviceInfo::faults).map(|(_, fault)| fault + "\n");
    let worn = devices.iter().map(wear::of);
    faults.collect::<String>() + &worn.collect::<String>()
}

/// Counters of the volumes that had requests, and of each of their hosts; empty if none had any.
fn io(volumes: &[VolumeIo]) -> String {
    let used: Vec<&VolumeIo> = volumes.iter().filter(|it| it.io != Io::default()).collect();
    if used.is_empty() {
        return String::new();
    }
    let mut table = io_table(&["VOLUME"], &[]);
    for volume in &used {
        table.add_row([vec![volume.volume.clone()], io_row(&volume.io)].concat());
    }
    let mut hosts = io_table(&["VOLUME"], &["HOST"]);
    for (volume, host) in used.iter().flat_map(|it| it.hosts.iter().map(|host| (&it.volume, host)))
    {
        let name = match &host.host {
            Some(name) => name,
            None if host.several => "several others",
            None => "anonymous",
        };
        hosts.add_row([vec![volume.clone()], io_row(&host.io), vec![name.to_owned()]].concat());
    }
    format!("{}\n{}", rendered(&table), rendered(&hosts))
}

/// The columns of [`io_row`] between others.
fn io_table(before: &[&str], behind: &[&str]) -> Table {
    let header = [
        "READS",
        "WRITES",
        "OTHERS",
        "READ",
        "WRITTEN",
        "ERRORS",
        "WAITING",
        "READ P50",
        "P99",
        "WRITE P50",
        "P99",
    ];
    let right: Vec<usize> = (0..header.len()).map(|column| before.len() + column).collect();
    table(&[before, &header, behind].concat(), &right)
}

fn io_row(io: &Io) -> Vec<String> {
    let latency = |latency: Option<Latency>, of: fn(Latency) -> u64| {
        latency.map_or("-".to_owned(), |latency| time(of(latency)))
    };
    vec![
        io.reads.to_string(),
        io.writes.to_string(),
        io.others.to_string(),
        size(io.read_bytes),
        size(io.written_bytes),
        io.errors.to_string(),
        io.waiting.to_string(),
        latency(io.read_latency, |latency| latency.p50_ns),
        latency(io.read_latency, |latency| latency.p99_ns),
        latency(io.write_latency, |latency| latency.p50_ns),
        latency(io.write_latency, |latency| latency.p99_ns),
    ]
}

/// Jobs that have not ended; empty if there are none.
fn running(jobs: &[JobInfo]) -> String {
    if jobs.is_empty() { String::new() } else { super::jobs(jobs) }
}

fn cores(cores: &[CoreInfo], silent: &[usize]) -> String {
    let header =
        ["CORE", "CONNECTIONS", "IN FLIGHT", "READS", "WRITES", "READ", "WRITTEN", "ERRORS"];
    let mut table = table(&header, &[0, 1, 2, 3, 4, 5, 6, 7]);
    for core in cores {
        table.add_row([
            core.core.to_string(),
            core.connections.to_string(),
            core.in_flight.to_string(),
            core.reads.to_string(),
            core.writes.to_string(),
            size(core.read_bytes),
            size(core.written_bytes),
            core.errors.to_string(),
        ]);
    }
    let silent = silent.iter().map(|core| {
        format!(
            "core {core} does not answer: its counters, hosts and clients are not shown; check the \
             log for a device that hangs\n"
        )
    });
    rendered(&table) + &silent.collect::<String>()
}

fn hosts(hosts: &[HostInfo]) -> String {
    let header = ["HOST NQN", "FROM", "I/O QUEUES", "SUBSYSTEM NQN"];
    listed(hosts, "no hosts are connected\n", (&header, &[2]), |it| {
        [it.host.clone(), it.address.to_string(), it.io_queues.to_string(), it.nqn.clone()]
    })
}

/// Clients of the direct protocol; empty if the node does not serve it.
fn clients(status: &Status) -> String {
    let Status { direct, direct_local, clients, .. } = status;
    if clients.is_empty() {
        let is_open = !direct.is_empty() || direct_local.is_some();
        let said = if is_open { "no direct clients are connected\n" } else { "" };
        return said.to_owned();
    }
    let mut table = table(&["CLIENT", "CREDENTIAL", "CORE", "IN FLIGHT"], &[2, 3]);
    // Those that say nothing would fill the screen.
    for client in clients.iter().filter(|client| client.is_in) {
        table.add_row([
            client.from.clone(),
            client.credential.clone().unwrap_or_else(|| "anonymous".to_owned()),
            client.core.to_string(),
            client.in_flight.to_string(),
        ]);
    }
    let mut text = if table.is_empty() { String::new() } else { rendered(&table) };
    let newcomers = clients.iter().filter(|client| !client.is_in).count();
    // Writing to a string does not fail.
    match newcomers {
        0 => {}
        1 => text += "1 connection is logging in\n",
        _ => drop(writeln!(text, "{newcomers} connections are logging in")),
    }
    let listed = u64::try_from(clients.len()).unwrap_or(u64::MAX);
    let count: u64 = status.cores.iter().map(|core| core.clients).sum();
    if count > listed {
        let _ = writeln!(text, "and {} more", count - listed);
    }
    text
}

/// iSCSI sessions; empty if the node does not serve iSCSI.
fn initiators(status: &Status) -> String {
    let none = if status.iscsi.is_empty() { "" } else { "no iSCSI initiators are logged in\n" };
    let header = ["INITIATOR", "FROM", "CHAP ACCOUNT", "CORE", "CONNECTIONS", "TARGET"];
    listed(&status.initiators, none, (&header, &[3, 4]), |session| {
        [
            session.initiator.clone(),
            session.address.to_string(),
            session.user.clone().unwrap_or_else(|| "-".to_owned()),
            session.core.to_string(),
            session.connections.to_string(),
            session.target.clone().unwrap_or_else(|| "discovery".to_owned()),
        ]
    })
}

/// The places of which at least half are taken.
fn places(places: &[PlaceInfo]) -> String {
    let is_short = |it: &&PlaceInfo| it.used > 0 && it.used >= it.places / 2;
    let sentence = |it: &PlaceInfo| {
        let PlaceInfo { kind, used, places, holder, held } = it;
        let holder = holder.as_ref().map(|name| format!("; {name} has {held}"));
        format!("{used} of {places} places of {kind} are taken{}\n", holder.unwrap_or_default())
    };
    places.iter().filter(is_short).map(sentence).collect()
}

/// A latency, rounded down.
pub(crate) fn time(nanos: u64) -> String {
    match nanos {
        0..10_000 => format!("{nanos}ns"),
        10_000..10_000_000 => format!("{}µs", nanos / 1_000),
        _ => format!("{}ms", nanos / 1_000_000),
    }
}

/// A duration in its two largest units.
pub(crate) fn uptime(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {}s", seconds % 60),
        (0, _, _) => format!("{hours}h {minutes}m"),
        _ => format!("{days}d {hours}h"),
    }
}
