//! Tables for people.

use std::fmt::Write;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use nearflash_access::GrantRange;
use nearflash_node::api::{
    ChapInfo, CoreInfo, CredentialInfo, DeviceInfo, GrantInfo, HostInfo, ReservationInfo, Status,
    VolumeInfo,
};
use nearflash_units::{ByteLen, ByteOffset};

use crate::calendar::show_moment;

/// All volumes.
pub(crate) fn volumes(volumes: &[VolumeInfo]) -> String {
    if volumes.is_empty() {
        return "no volumes: make one with 'nearflash volume create NAME=SIZE@DEVICE'\n".to_owned();
    }
    let header = ["VOLUME", "SIZE", "BLOCK", "DEVICE", "PROVISIONED", "NSID", "SUBSYSTEM NQN"];
    let mut table = table(&header, &[1, 2, 5]);
    for volume in volumes {
        table.add_row([
            volume.name.clone(),
            size(volume.bytes),
            volume.block_size.to_string(),
            volume.device.clone(),
            volume.provisioning.clone(),
            volume.nsid.to_string(),
            volume.nqn.clone(),
        ]);
    }
    rendered(&table)
}

/// All credentials.
pub(crate) fn credentials(credentials: &[CredentialInfo]) -> String {
    if credentials.is_empty() {
        return "no credentials: make one with 'nearflash credential create ID'\n".to_owned();
    }
    let mut table = table(&["CREDENTIAL", "GRANTS", "EXPIRES"], &[1]);
    for credential in credentials {
        table.add_row([
            credential.id.clone(),
            credential.grants.to_string(),
            end(credential.expires_at, credential.expired),
        ]);
    }
    rendered(&table)
}

/// Grants.
pub(crate) fn grants(grants: &[GrantInfo]) -> String {
    if grants.is_empty() {
        return "no grants: make one with 'nearflash grant add ID VOLUME'\n".to_owned();
    }
    let header = ["GRANT", "CREDENTIAL", "VOLUME", "RANGE", "RIGHTS", "EXPIRES"];
    let mut table = table(&header, &[0]);
    for grant in grants {
        table.add_row([
            grant.number.to_string(),
            grant.credential.clone(),
            grant.volume.clone(),
            range(grant),
            grant.rights.clone(),
            end(grant.expires_at, grant.expired),
        ]);
    }
    rendered(&table)
}

/// All CHAP users.
pub(crate) fn accounts(accounts: &[ChapInfo]) -> String {
    if accounts.is_empty() {
        return "no CHAP users: make one with 'nearflash chap add USER'\n".to_owned();
    }
    let mut table = table(&["CHAP USER", "IN RETURN"], &[]);
    for account in accounts {
        let mutual = account.mutual_user.clone().unwrap_or_else(|| "-".to_owned());
        table.add_row([account.user.clone(), mutual]);
    }
    rendered(&table)
}

/// Registrations and reservations: a line for each registrant.
pub(crate) fn reservations(reservations: &[ReservationInfo]) -> String {
    let has_none = |info: &ReservationInfo| info.kind.is_none() && info.registrants.is_empty();
    if reservations.iter().all(has_none) {
        return "nothing is reserved, and nobody has registered\n".to_owned();
    }
    let header = ["VOLUME", "RESERVATION", "LASTS", "KEY", "HOLDS", "REGISTRANT"];
    let mut table = table(&header, &[]);
    for info in reservations {
        let lasts = if info.persists { "for ever" } else { "this run" };
        let kind = info.kind.as_deref().unwrap_or("-");
        let row = |key: &str, holds, who: &str| {
            let holds = if holds { "yes" } else { "no" };
            [&info.volume, kind, lasts, key, holds, who].map(str::to_owned)
        };
        if info.registrants.is_empty() {
            table.add_row(row("-", false, "-"));
        }
        for registrant in &info.registrants {
            table.add_row(row(&registrant.key, registrant.holds, &registrant.who));
        }
    }
    rendered(&table)
}

/// A grant's range, as it is written.
pub(crate) fn range(grant: &GrantInfo) -> String {
    let end = grant.end.map(ByteOffset);
    GrantRange::new(ByteOffset(grant.start), end).map_or_else(
        // From a node that is of another mind about what a range is.
        |_| "?".to_owned(),
        |range| range.to_string(),
    )
}

fn end(expires_at: Option<u64>, is_expired: bool) -> String {
    match expires_at {
        _ if is_expired => "expired".to_owned(),
        None => "never".to_owned(),
        Some(at) => show_moment(at),
    }
}

/// All of a node.
pub(crate) fn status(status: &Status) -> String {
    let mut text = String::new();
    let Status { node, version, pid, uptime_seconds, .. } = status;
    // Writing to a string does not fail.
    let _ = write!(
        text,
        "node {node}, version {version}, process {pid}, serving for {}\n{}",
        uptime(*uptime_seconds),
        doors(status)
    );
    for part in [
        devices(&status.devices),
        volumes(&status.volumes),
        cores(&status.cores),
        hosts(&status.hosts),
        clients(status),
        initiators(status),
    ] {
        if !part.is_empty() {
            text.push('\n');
            text.push_str(&part);
        }
    }
    text
}

fn doors(status: &Status) -> String {
    let nvme_tcp: Vec<String> = status.nvme_tcp.iter().map(ToString::to_string).collect();
    let direct = status.direct.iter().map(ToString::to_string);
    let local = status.direct_local.iter().map(|path| path.display().to_string());
    let direct: Vec<String> = direct.chain(local).collect();
    let iscsi: Vec<String> = status.iscsi.iter().map(ToString::to_string).collect();
    let doors = [("NVMe/TCP", nvme_tcp), ("direct", direct), ("iSCSI", iscsi)];
    let open = doors.iter().filter(|(_, addresses)| !addresses.is_empty());
    open.map(|(name, addresses)| format!("{name} on {}\n", addresses.join(", "))).collect()
}

fn devices(devices: &[DeviceInfo]) -> String {
    let mut table = table(&["DEVICE", "KIND", "SIZE", "FREE", "BLOCK", "CACHE"], &[2, 3, 4]);
    for device in devices {
        let cache = if device.volatile_cache { "volatile" } else { "none" };
        table.add_row([
            device.name.clone(),
            device.kind.clone(),
            size(device.bytes),
            size(device.free_bytes),
            device.block_size.to_string(),
            cache.to_owned(),
        ]);
    }
    rendered(&table)
}

fn cores(cores: &[CoreInfo]) -> String {
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
    rendered(&table)
}

fn hosts(hosts: &[HostInfo]) -> String {
    if hosts.is_empty() {
        return "no hosts are connected\n".to_owned();
    }
    let mut table = table(&["HOST NQN", "FROM", "I/O QUEUES", "SUBSYSTEM NQN"], &[2]);
    for host in hosts {
        table.add_row([
            host.host.clone(),
            host.address.to_string(),
            host.io_queues.to_string(),
            host.nqn.clone(),
        ]);
    }
    rendered(&table)
}

/// Direct clients; nothing where none can come in.
fn clients(status: &Status) -> String {
    let Status { direct, direct_local, clients, .. } = status;
    if clients.is_empty() {
        let is_open = !direct.is_empty() || direct_local.is_some();
        let said = if is_open { "no direct clients are connected\n" } else { "" };
        return said.to_owned();
    }
    let mut table = table(&["CLIENT", "CREDENTIAL", "CORE", "IN FLIGHT"], &[2, 3]);
    for client in clients {
        let credential = match &client.credential {
            Some(id) => id,
            None if client.is_in => "anonymous",
            None => "not in yet",
        };
        table.add_row([
            client.from.clone(),
            credential.to_owned(),
            client.core.to_string(),
            client.in_flight.to_string(),
        ]);
    }
    let mut text = rendered(&table);
    let listed = u64::try_from(clients.len()).unwrap_or(u64::MAX);
    let count: u64 = status.cores.iter().map(|core| core.clients).sum();
    if count > listed {
        // Writing to a string does not fail.
        let _ = writeln!(text, "and {} more", count - listed);
    }
    text
}

/// iSCSI sessions; nothing where none can come in.
fn initiators(status: &Status) -> String {
    if status.initiators.is_empty() {
        let said = if status.iscsi.is_empty() { "" } else { "no iSCSI initiators are logged in\n" };
        return said.to_owned();
    }
    let header = ["INITIATOR", "FROM", "CHAP USER", "CORE", "CONNECTIONS", "TARGET"];
    let mut table = table(&header, &[3, 4]);
    for session in &status.initiators {
        table.add_row([
            session.initiator.clone(),
            session.address.to_string(),
            session.user.clone().unwrap_or_else(|| "-".to_owned()),
            session.core.to_string(),
            session.connections.to_string(),
            session.target.clone().unwrap_or_else(|| "discovery".to_owned()),
        ]);
    }
    rendered(&table)
}

/// Columns without lines, as wide as they need: so that `awk` reads them too.
fn table(header: &[&str], right_aligned: &[usize]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header.iter().copied());
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    for index in right_aligned {
        if let Some(column) = table.column_mut(*index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn rendered(table: &Table) -> String {
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A size for people: exact where a unit divides it, otherwise with one decimal.
fn size(bytes: u64) -> String {
    let exact = ByteLen(bytes).to_string();
    let digits = exact.find(|c: char| !c.is_ascii_digit()).unwrap_or(exact.len());
    if digits <= 4 {
        return exact;
    }
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.iter().find(|(shift, _)| bytes >> shift != 0) {
        None => exact,
        Some((shift, unit)) => {
            // One decimal, downwards: free space is never shown larger than it is.
            let tenths = (u128::from(bytes) * 10) >> shift;
            format!("{}.{}{unit}", tenths / 10, tenths % 10)
        }
    }
}

fn uptime(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {}s", seconds % 60),
        (0, _, _) => format!("{hours}h {minutes}m"),
        _ => format!("{days}d {hours}h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearflash_node::api::{ClientInfo, InitiatorInfo, RegistrantInfo};
    use uuid::Uuid;

    fn volume(name: &str, bytes: u64) -> VolumeInfo {
        VolumeInfo {
            name: name.to_owned(),
            nqn: format!("nqn.2026-11.io.nearflash:{name}"),
            nsid: 1,
            uuid: Uuid::nil(),
            bytes,
            block_size: 4096,
            device: "flash".to_owned(),
            provisioning: "thin".to_owned(),
        }
    }

    fn client(from: &str, credential: Option<&str>, is_in: bool) -> ClientInfo {
        let credential = credential.map(str::to_owned);
        ClientInfo { from: from.to_owned(), credential, is_in, core: 0, in_flight: 3 }
    }

    fn initiator(target: Option<&str>, user: Option<&str>) -> InitiatorInfo {
        InitiatorInfo {
            initiator: "iqn.2004-10.com.ubuntu:a".to_owned(),
            target: target.map(str::to_owned),
            user: user.map(str::to_owned),
            address: "127.0.0.1:50003".parse().unwrap(),
            connections: 2,
            core: 1,
        }
    }

    #[test]
    fn volumes_are_shown_in_columns() {
        insta::assert_snapshot!(volumes(&[volume("data", 8 << 30), volume("a-longer-name", 4096)]), @r#"
            VOLUME         SIZE  BLOCK  DEVICE  PROVISIONED  NSID  SUBSYSTEM NQN
            data           8GiB   4096  flash   thin            1  nqn.2026-11.io.nearflash:data
            a-longer-name  4KiB   4096  flash   thin            1  nqn.2026-11.io.nearflash:a-longer-name
            "#);
        assert!(volumes(&[]).starts_with("no volumes: make one with"));
    }

    #[test]
    fn a_status_shows_devices_volumes_cores_hosts_and_clients() {
        let status = Status {
            version: "0.1.0".to_owned(),
            node: Uuid::from_u128(1),
            pid: 77,
            uptime_seconds: 3_700,
            nvme_tcp: vec!["127.0.0.1:4420".parse().unwrap(), "[::1]:4420".parse().unwrap()],
            direct: vec!["127.0.0.1:4421".parse().unwrap()],
            direct_local: Some("/run/nearflash/direct.sock".into()),
            iscsi: vec!["127.0.0.1:3260".parse().unwrap()],
            devices: vec![DeviceInfo {
                name: "flash".to_owned(),
                kind: "file".to_owned(),
                uuid: Uuid::from_u128(2),
                bytes: 16 << 30,
                data_bytes: (16 << 30) - (1 << 20),
                free_bytes: (8 << 30) - (1 << 20),
                block_size: 512,
                volatile_cache: true,
            }],
            volumes: vec![volume("data", 8 << 30)],
            cores: vec![CoreInfo {
                core: 0,
                connections: 2,
                in_flight: 3,
                reads: 1_000_000,
                writes: 20,
                read_bytes: 4_096_000_000,
                written_bytes: 81_920,
                errors: 0,
                pool_free_bytes: 32 << 20,
                clients: 5,
            }],
            hosts: vec![HostInfo {
                host: "nqn.2014-08.org.nvmexpress:uuid:1".to_owned(),
                nqn: "nqn.2026-11.io.nearflash:data".to_owned(),
                address: "127.0.0.1:50000".parse().unwrap(),
                io_queues: 1,
            }],
            clients: vec![
                client("127.0.0.1:50001", Some("app"), true),
                client("process 12 of user 1000", None, true),
                client("192.0.2.7:50002", None, false),
            ],
            initiators: vec![
                initiator(Some("iqn.2026-11.io.nearflash:data"), Some("app")),
                initiator(None, None),
            ],
        };
        insta::assert_snapshot!(super::status(&status), @r#"
            node 00000000-0000-0000-0000-000000000001, version 0.1.0, process 77, serving for 1h 1m
            NVMe/TCP on 127.0.0.1:4420, [::1]:4420
            direct on 127.0.0.1:4421, /run/nearflash/direct.sock
            iSCSI on 127.0.0.1:3260

            DEVICE  KIND   SIZE     FREE  BLOCK  CACHE
            flash   file  16GiB  8191MiB    512  volatile

            VOLUME  SIZE  BLOCK  DEVICE  PROVISIONED  NSID  SUBSYSTEM NQN
            data    8GiB   4096  flash   thin            1  nqn.2026-11.io.nearflash:data

            CORE  CONNECTIONS  IN FLIGHT    READS  WRITES    READ  WRITTEN  ERRORS
               0            2          3  1000000      20  3.8GiB    80KiB       0

            HOST NQN                           FROM             I/O QUEUES  SUBSYSTEM NQN
            nqn.2014-08.org.nvmexpress:uuid:1  127.0.0.1:50000           1  nqn.2026-11.io.nearflash:data

            CLIENT                   CREDENTIAL  CORE  IN FLIGHT
            127.0.0.1:50001          app            0          3
            process 12 of user 1000  anonymous      0          3
            192.0.2.7:50002          not in yet     0          3
            and 2 more

            INITIATOR                 FROM             CHAP USER  CORE  CONNECTIONS  TARGET
            iqn.2004-10.com.ubuntu:a  127.0.0.1:50003  app           1            2  iqn.2026-11.io.nearflash:data
            iqn.2004-10.com.ubuntu:a  127.0.0.1:50003  -             1            2  discovery
            "#);
    }

    #[test]
    fn reservations_are_shown_by_registrant() {
        let registrant = |who: &str, holds| RegistrantInfo {
            who: who.to_owned(),
            key: "0x000000000000abcd".to_owned(),
            holds,
        };
        let shown = reservations(&[
            ReservationInfo {
                volume: "data".to_owned(),
                kind: Some("write-exclusive".to_owned()),
                persists: true,
                registrants: vec![
                    registrant("iqn.2026-11.test:a,i,0x400001370000", true),
                    registrant("b", false),
                ],
            },
            ReservationInfo {
                volume: "logs".to_owned(),
                kind: Some("exclusive-by-session".to_owned()),
                persists: false,
                registrants: vec![],
            },
        ]);
        insta::assert_snapshot!(shown, @r#"
            VOLUME  RESERVATION           LASTS     KEY                 HOLDS  REGISTRANT
            data    write-exclusive       for ever  0x000000000000abcd  yes    iqn.2026-11.test:a,i,0x400001370000
            data    write-exclusive       for ever  0x000000000000abcd  no     b
            logs    exclusive-by-session  this run  -                   no     -
            "#);
        assert_eq!(reservations(&[]), "nothing is reserved, and nobody has registered\n");
    }

    #[test]
    fn credentials_and_grants_are_shown_in_columns() {
        let credential = |id: &str, expires_at, expired, grants| CredentialInfo {
            id: id.to_owned(),
            expires_at,
            expired,
            grants,
        };
        let shown = credentials(&[
            credential("app", None, false, 2),
            credential("guest", Some(1_795_269_350), false, 1),
            credential("old", Some(1), true, 0),
        ]);
        insta::assert_snapshot!(shown, @r#"
            CREDENTIAL  GRANTS  EXPIRES
            app              2  never
            guest            1  2026-11-21 13:55Z
            old              0  expired
            "#);
        let grant = |number, end, rights: &str| GrantInfo {
            number,
            credential: "app".to_owned(),
            volume: "data".to_owned(),
            start: 0,
            end,
            rights: rights.to_owned(),
            expires_at: Some(1_795_269_350),
            expired: number == 12,
        };
        let shown = grants(&[grant(7, Some(8 << 30), "r"), grant(12, None, "rw")]);
        insta::assert_snapshot!(shown, @r#"
            GRANT  CREDENTIAL  VOLUME  RANGE    RIGHTS  EXPIRES
                7  app         data    0..8GiB  r       2026-11-21 13:55Z
               12  app         data    0..      rw      expired
            "#);
        assert!(credentials(&[]).starts_with("no credentials: make one with"));
        assert!(grants(&[]).starts_with("no grants: make one with"));
    }

    #[test]
    fn sizes_are_exact_or_rounded_down() {
        for (bytes, text) in [
            (0, "0B"),
            (512, "512B"),
            (8 << 30, "8GiB"),
            (1536, "1536B"),
            (17_178_820_608, "15.9GiB"),
            (81_920, "80KiB"),
            (u64::MAX, "16777215.9TiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn uptimes_have_two_units() {
        for (seconds, text) in [(5, "5s"), (65, "1m 5s"), (3_700, "1h 1m"), (90_000, "1d 1h")] {
            assert_eq!(uptime(seconds), text);
        }
    }
}
