//! Tables of resources.

mod status;
mod wear;

use std::collections::BTreeSet;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use nearflash_access::GrantRange;
use nearflash_api::{
    ChapInfo, CredentialInfo, GrantInfo, JobInfo, KeyedHost, KeyedHosts, ReservationInfo,
    TokenInfo, VolumeDetail, VolumeInfo, VolumeLayout, VolumeState,
};
use nearflash_cluster_store::{MemberStatus, NodeStatus};
use nearflash_units::{ByteLen, ByteOffset};

use crate::calendar::show_moment;
use crate::config_check::Resource;
use crate::output::listed_volumes;

pub(crate) use status::{device_list, status, time, uptime};

pub(crate) fn volumes(volumes: &[VolumeInfo]) -> String {
    if volumes.is_empty() {
        return "no volumes: create one with 'nearflash volume create NAME --size SIZE'\n"
            .to_owned();
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
    let mut text = rendered(&table);
    for volume in volumes {
        if let Some(job) = volume.job {
            let verb = match volume.state {
                None => "changes",
                Some(VolumeState::Making) => "creates",
                Some(VolumeState::Removing) => "removes",
            };
            text += &format!("job {job} {verb} volume '{}'\n", volume.name);
        }
        if let Some(state) = &volume.files {
            // The reason why they are not served names the volume itself.
            let names_it = state.contains(&format!("volume '{}'", volume.name));
            let of = if names_it {
                String::new()
            } else {
                format!("files of volume '{}': ", volume.name)
            };
            text += &format!("{of}{state}\n");
        }
    }
    text
}

/// A volume, and the place of each of its mirrors.
pub(crate) fn volume_detail(detail: &VolumeDetail) -> String {
    let head = volumes(std::slice::from_ref(&detail.volume));
    let Some(layout) = &detail.layout else { return head };
    let header = ["MIRROR", "ROW", "SIZE", "TERM", "NODE", "SLICE", "START", "ROLE", "STATE"];
    let mut table = table(&header, &[0, 1, 2, 3, 6]);
    for mirror in &layout.mirrors {
        for replica in &mirror.replicas {
            let role = if replica.is_primary { "primary" } else { "secondary" };
            let state = match (replica.is_in_sync, replica.is_up) {
                (true, true) => "in sync",
                (true, false) => "in sync, node down",
                (false, true) => "absent",
                (false, false) => "absent, node down",
            };
            table.add_row([
                mirror.number.to_string(),
                mirror.row.to_string(),
                size(mirror.bytes),
                mirror.term.to_string(),
                replica.node.clone(),
                replica.slice.clone(),
                size(replica.start),
                role.to_owned(),
                state.to_owned(),
            ]);
        }
    }
    let VolumeLayout { replicas, stripe_unit, width, placement, .. } = layout;
    format!(
        "{head}\nreplicas {replicas}, stripe unit {}, width {width}, placement {placement}\n\n{}",
        size(*stripe_unit),
        rendered(&table)
    )
}

/// The members of etcd.
pub(crate) fn members(members: &[MemberStatus]) -> String {
    let mut table = table(&["ETCD OF", "ADDRESS", "ROLE", "STATE", "VERSION", "STORED"], &[5]);
    for member in members {
        let role = if member.is_voter { "voter" } else { "learner" };
        let state = match (member.is_reachable, member.is_leader) {
            (false, _) => "does not answer",
            (true, true) => "leads",
            (true, false) => "answers",
        };
        // The rest of the name is the address.
        let machine = || member.name.split('@').next().unwrap_or_default().to_owned();
        table.add_row([
            member.node.clone().unwrap_or_else(machine),
            member.address.as_ref().map(ToString::to_string).unwrap_or_default(),
            role.to_owned(),
            state.to_owned(),
            member.version.clone().unwrap_or_default(),
            member.db_bytes.map(size).unwrap_or_default(),
        ]);
    }
    rendered(&table)
}

/// The nodes of a cluster; empty if they are unknown.
pub(crate) fn nodes(nodes: &[NodeStatus]) -> String {
    if nodes.is_empty() {
        return String::new();
    }
    let header = ["NODE", "STATE", "SPACE", "FREE", "REPLICAS", "PRIMARIES", "VERSION"];
    let mut table = table(&header, &[2, 3, 4, 5]);
    let mut nodes: Vec<&NodeStatus> = nodes.iter().collect();
    nodes.sort_by_key(|node| &node.name);
    for node in nodes {
        table.add_row([
            node.name.clone(),
            if node.is_running { "runs" } else { "is down" }.to_owned(),
            size(node.data_bytes),
            size(node.free_bytes),
            node.replicas.to_string(),
            node.primaries.to_string(),
            node.version.clone(),
        ]);
    }
    rendered(&table)
}

/// The resources of a configuration file.
pub(crate) fn declared(resources: &[Resource]) -> String {
    let none = "the file declares nothing\n";
    listed(resources, none, (&["KIND", "NAME", "DETAILS"], &[]), |it| {
        [it.kind, &it.name, &it.detail].map(str::to_owned)
    })
}

pub(crate) fn credentials(credentials: &[CredentialInfo]) -> String {
    let none = "no credentials: create one with 'nearflash credential create ID'\n";
    listed(credentials, none, (&["CREDENTIAL", "GRANTS", "EXPIRES"], &[1]), |it| {
        [it.id.clone(), it.grants.to_string(), end(it.expires_at, it.expired)]
    })
}

pub(crate) fn grants(grants: &[GrantInfo]) -> String {
    let none = "no grants: add one with 'nearflash grant add ID VOLUME'\n";
    let header = ["GRANT", "CREDENTIAL", "VOLUME", "RANGE", "RIGHTS", "EXPIRES"];
    listed(grants, none, (&header, &[0]), |grant| {
        [
            grant.number.to_string(),
            if grant.seal { "(seal)".to_owned() } else { grant.credential.clone() },
            grant.volume.clone(),
            grant.path.clone().unwrap_or_else(|| range(grant)),
            grant.rights.clone(),
            end(grant.expires_at, grant.expired),
        ]
    })
}

/// The columns for the keys of a host.
fn keys_of(host: &KeyedHost) -> [String; 4] {
    let (dhchap, any) = match (host.dhchap, host.mutual) {
        (true, true) => ("mutual", "any"),
        (true, false) => ("host", "any"),
        (false, _) => ("-", "-"),
    };
    let word = |word: &Option<String>, other: &str| word.clone().unwrap_or_else(|| other.into());
    [dhchap.into(), word(&host.hash, any), word(&host.group, any), word(&host.tls, "-")]
}

/// The cells of a host without keys.
fn no_keys() -> [String; 4] {
    std::array::from_fn(|_| "-".to_owned())
}

/// All hosts with keys or a list of volumes. A host has a dash for what it does not have.
pub(crate) fn hosts(answer: &KeyedHosts) -> String {
    let KeyedHosts { hosts, lists, .. } = answer;
    if hosts.is_empty() && lists.is_empty() {
        let none =
            "no hosts with keys or a list of volumes: add one with 'nearflash host add NQN'\n";
        return none.to_owned() + &others(answer);
    }
    let mut table = table(&["HOST", "DHCHAP", "HASH", "GROUP", "TLS", "VOLUMES"], &[]);
    let named = hosts.iter().map(|host| &host.nqn).chain(lists.iter().map(|list| &list.host));
    for name in named.collect::<BTreeSet<_>>() {
        let keys = hosts.iter().find(|host| host.nqn == *name).map_or_else(no_keys, keys_of);
        let volumes = match lists.iter().find(|list| list.host == *name) {
            Some(list) if list.volumes.is_empty() => "none".to_owned(),
            Some(list) => listed_volumes(&list.volumes),
            None => "-".to_owned(),
        };
        table.add_row([vec![name.clone()], keys.to_vec(), vec![volumes]].concat());
    }
    rendered(&table) + &hosts.iter().map(previous_keys).collect::<String>() + &others(answer)
}

/// The rule for the hosts that are not in the table.
fn others(answer: &KeyedHosts) -> String {
    let removed = |nqn: &String| {
        format!("host '{nqn}': its keys were removed, and it does not enter without keys\n")
    };
    let mut text: String = answer.removed.iter().map(removed).collect();
    if answer.unlisted == "none" {
        text += "hosts without a list see no volume\n";
    }
    text
}

/// A line for each replaced key of a host that is still valid.
pub(crate) fn previous_keys(host: &KeyedHost) -> String {
    let KeyedHost { nqn, previous_key_until, previous_psk_until, .. } = host;
    let ends = [("DH-HMAC-CHAP key", previous_key_until), ("PSK", previous_psk_until)];
    let line = |(kind, until): (&str, &Option<u64>)| {
        let until = show_moment((*until)?);
        Some(format!("host '{nqn}': its old {kind} is valid until {until}\n"))
    };
    ends.into_iter().filter_map(line).collect()
}

pub(crate) fn accounts(accounts: &[ChapInfo]) -> String {
    let none = "no CHAP accounts: add one with 'nearflash chap add USER'\n";
    listed(accounts, none, (&["CHAP ACCOUNT", "MUTUAL USER", "INITIATORS"], &[]), |account| {
        let mutual = account.mutual_user.clone().unwrap_or_else(|| "-".to_owned());
        let names = account.initiators.join(",");
        let names = if names.is_empty() { "any".to_owned() } else { names };
        [account.user.clone(), mutual, names]
    })
}

pub(crate) fn tokens(tokens: &[TokenInfo]) -> String {
    let none = "no tokens: create one with 'nearflash token create NAME --scope read'\n";
    listed(tokens, none, (&["TOKEN", "SCOPE", "EXPIRES"], &[]), |it| {
        [it.name.clone(), it.scope.to_string(), end(it.expires_at, it.expired)]
    })
}

/// Registrations and reservations, one line per registrant.
pub(crate) fn reservations(reservations: &[ReservationInfo]) -> String {
    let has_none = |info: &ReservationInfo| info.kind.is_none() && info.registrants.is_empty();
    if reservations.iter().all(has_none) {
        return "no registrations and no reservations\n".to_owned();
    }
    let header = ["VOLUME", "RESERVATION", "LASTS", "KEY", "HOLDS", "REGISTRANT"];
    let mut table = table(&header, &[]);
    for info in reservations {
        let lasts = if info.persists { "permanent" } else { "this run" };
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

pub(crate) fn jobs(jobs: &[JobInfo]) -> String {
    let header = ["JOB", "KIND", "VOLUME", "STATE", "DONE", "OF", "STARTED"];
    let table = listed(jobs, "no jobs\n", (&header, &[0, 4, 5]), |job| {
        [
            job.id.to_string(),
            job.kind.clone(),
            job.volume.clone(),
            job.state.as_str().to_owned(),
            size(job.done_bytes),
            size(job.total_bytes),
            show_moment(job.started_at),
        ]
    });
    let waiting = jobs.iter().filter(|job| !job.waits_for.is_empty());
    let awaited: String =
        waiting.map(|job| format!("job {} waits for {}\n", job.id, awaited(job))).collect();
    let failed = jobs.iter().filter_map(|job| job.error.as_ref().map(|error| (job.id, error)));
    let reasons: String = failed.map(|(id, error)| format!("job {id}: {error}\n")).collect();
    table + &awaited + &reasons
}

/// The nodes that a job waits for, for example `'n1' (zeroing), 'n2' (down)`.
pub(crate) fn awaited(job: &JobInfo) -> String {
    let nodes = job.waits_for.iter().map(|it| format!("'{}' ({})", it.node, it.reason.as_str()));
    nodes.collect::<Vec<_>>().join(", ")
}

/// A grant's range in the form of the command line.
pub(crate) fn range(grant: &GrantInfo) -> String {
    let end = grant.end.map(ByteOffset);
    GrantRange::new(ByteOffset(grant.start), end).map_or_else(
        // The node's range is not valid in this version.
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

/// A table without lines, with columns as wide as needed, so that `awk` can parse it.
pub(crate) fn table(header: &[&str], right_aligned: &[usize]) -> Table {
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

/// A table that has a row for each item. If there are no items, the text is `none`.
fn listed<T, const COLUMNS: usize>(
    items: &[T],
    none: &str,
    (header, right_aligned): (&[&str; COLUMNS], &[usize]),
    row: impl Fn(&T) -> [String; COLUMNS],
) -> String {
    if items.is_empty() {
        return none.to_owned();
    }
    let mut table = table(header, right_aligned);
    table.add_rows(items.iter().map(row));
    rendered(&table)
}

pub(crate) fn rendered(table: &Table) -> String {
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A size in human-readable form: exact if a unit divides it, otherwise with one decimal.
pub(crate) fn size(bytes: u64) -> String {
    let exact = ByteLen(bytes).to_string();
    let digits = exact.find(|c: char| !c.is_ascii_digit()).unwrap_or(exact.len());
    if digits <= 4 {
        return exact;
    }
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.iter().find(|(shift, _)| bytes >> shift != 0) {
        None => exact,
        Some((shift, unit)) => {
            // Rounded down, so that free space is never overstated.
            let tenths = (u128::from(bytes) * 10) >> shift;
            format!("{}.{}{unit}", tenths / 10, tenths % 10)
        }
    }
}

#[cfg(test)]
mod tests;
