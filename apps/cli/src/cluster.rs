//! `nearflash cluster`: the commands about this machine's part in a cluster. They need no running
//! node.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use nearflash_api::StatusShow;
use nearflash_api::client::ask_within;
use nearflash_api::socket::default_data_dir;
use nearflash_cluster_store::{
    Adopted, ClusterError, ClusterStatus, InitOptions, Initialized, JoinOptions, Joined, Removed,
    RemovedMachine, Renewed, Repaired, Restored, Role, StatusPart, Supervisor, Upgraded,
    accept_restored, adopt_access, init, join, loss, read_token, remove, remove_machine, repair,
    status, token, upgrade,
};
use nearflash_node::{Catalog, StartError, kept};
use nearflash_space::Name;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use uuid::Uuid;

use crate::args::{ClusterSubcommand, NodeArgs};
use crate::calendar::show_moment;
use crate::confirm::confirm;
use crate::control::{data_dir, run_drain};
use crate::failure::Failure;
use crate::leaver::Leaver;
use crate::output::{print, show};
use crate::{log_to_stderr, tables};

type Done = Result<ExitCode, Failure>;

/// The time for which the node of this machine is waited for.
const NODE_MAX: Duration = Duration::from_secs(3);

pub(crate) fn run_cluster(subcommand: ClusterSubcommand) -> Done {
    match subcommand {
        ClusterSubcommand::Init { name, etcd, valid, listen, node } => {
            let (data_dir, listen) = (data_dir(&node)?, listen.listen);
            let expires_at = valid.valid.end();
            let options = InitOptions { data_dir, name, listen, etcd, expires_at };
            let made = init(&options, &mut say)?;
            print(&show(&made, node.json, initialized))?;
            Ok(ExitCode::SUCCESS)
        }
        ClusterSubcommand::Join { token, witness, listen, node } => {
            let token = read_token(&token).map_err(ClusterError::from)?;
            let data_dir = data_dir(&node)?;
            let options = JoinOptions { data_dir, is_witness: witness, listen: listen.listen };
            let made = join(&token, &options, &mut say)?;
            print(&show(&made, node.json, joined))?;
            Ok(ExitCode::SUCCESS)
        }
        ClusterSubcommand::Token { valid, node } => {
            let made = token(&data_dir(&node)?, valid.valid.end())?;
            print(&show(&made, node.json, renewed))?;
            Ok(ExitCode::SUCCESS)
        }
        ClusterSubcommand::Remove { subject: Leaver::Node(name), force, yes, node } => {
            let data_dir = data_dir(&node)?;
            confirm(yes, || question(&data_dir, &name, force))?;
            let done = remove(&data_dir, &name, force, &mut say)?;
            print(&show(&done, node.json, removed))?;
            Ok(ExitCode::SUCCESS)
        }
        ClusterSubcommand::Remove { subject: Leaver::Machine(address), yes, node, .. } => {
            let data_dir = data_dir(&node)?;
            confirm(yes, || Ok(format!("Remove the machine of etcd {address} for good?")))?;
            let done = remove_machine(&data_dir, address, &mut say)?;
            print(&show(&done, node.json, removed_machine))?;
            Ok(ExitCode::SUCCESS)
        }
        ClusterSubcommand::Drain { subject, undo, no_wait, node } => {
            run_drain(&node, subject, undo, no_wait)
        }
        ClusterSubcommand::Repair(node) => {
            let done = repair(&data_dir(&node)?, &mut say)?;
            print(&show(&done, node.json, repaired))?;
            Ok(ExitCode::SUCCESS)
        }
        ClusterSubcommand::Upgrade(node) => {
            let done = upgrade(&data_dir(&node)?, &mut say)?;
            print(&show(&done, node.json, upgraded))?;
            Ok(ExitCode::SUCCESS)
        }
        ClusterSubcommand::AdoptAccess { dry_run, node } => run_adopt(&node, dry_run),
        ClusterSubcommand::AcceptRestored { force, yes, node } => {
            let data_dir = data_dir(&node)?;
            if force {
                confirm(yes, || {
                    let lost = losses(&accept_restored(&data_dir, false, kept)?);
                    Ok(format!("{lost}Go on with the restored state? What it lacks is lost."))
                })?;
            }
            let done = accept_restored(&data_dir, force, kept)?;
            print(&show(&done, node.json, restored))?;
            Ok(if done.is_accepted { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        ClusterSubcommand::Status(node) => {
            let status = cluster_status(&data_dir(&node)?)?;
            print(&show(&status, node.json, described))?;
            Ok(status.verdict.exit_code().into())
        }
        ClusterSubcommand::Run { data_dir } => run(data_dir),
    }
}

/// Adds the access of this machine's node to the list of its cluster.
fn run_adopt(node: &NodeArgs, is_dry: bool) -> Done {
    let data_dir = data_dir(node)?;
    let catalog = Catalog::open(&data_dir, Uuid::new_v4()).map_err(StartError::from)?;
    let own = catalog.access().map_err(StartError::from)?;
    let (done, cluster) = adopt_access(&data_dir, &own, is_dry, &mut say)?;
    if done.is_done {
        catalog.note_list(cluster).map_err(StartError::from)?;
    }
    print(&show(&done, node.json, adopted))?;
    Ok(if done.contradictions.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn adopted(Adopted { added, contradictions, is_done }: &Adopted) -> String {
    let mut text = String::new();
    for key in contradictions {
        text += &format!("{key} differs from the list of the cluster\n");
    }
    if !contradictions.is_empty() {
        return text
            + "Nothing is added. Change or remove each of these, on this node without '--cluster' or on another \
               node, and repeat the command.\n";
    }
    for key in added {
        text += &format!("{} {key}\n", if *is_done { "added" } else { "would add" });
    }
    if added.is_empty() {
        text += "the list of the cluster has everything that this node has\n";
    }
    text
}

/// The state of the cluster that the data directory belongs to, and what holds up the node of this machine.
pub(crate) fn cluster_status(data_dir: &Path) -> Result<ClusterStatus, ClusterError> {
    status(data_dir, || {
        let node = ask_within(data_dir, StatusShow {}, NODE_MAX).ok();
        node.and_then(|it| it.cluster).map(|it| it.waits()).unwrap_or_default()
    })
}

/// Supervises etcd until a signal; etcd runs on.
fn run(data_dir: Option<PathBuf>) -> Done {
    let failed = |source| StartError::System { action: "receive signals", source };
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(failed)?;
    let _written_at_the_end = log_to_stderr(tracing_subscriber::filter::LevelFilter::INFO);
    let data_dir = data_dir.map_or_else(default_data_dir, Ok)?;
    let supervisor = Supervisor::start_required(&data_dir)?;
    signals.forever().next();
    drop(supervisor);
    Ok(ExitCode::SUCCESS)
}

/// Progress goes to stderr, so that the answer alone is on stdout.
fn say(progress: &str) {
    eprintln!("nearflash: {progress}");
}

/// The question before a node is removed.
fn question(data_dir: &Path, node: &Name, force: bool) -> Result<String, Failure> {
    let lost = if force { loss(data_dir, node)? } else { None };
    Ok(match lost {
        Some(lost) => {
            format!("Remove node {node}, and give up its only copy of {lost}? This data is lost.")
        }
        None => format!("Remove node {node} for good?"),
    })
}

fn removed(done: &Removed) -> String {
    let Removed { node, replaced, lacking, lost, was_member } = done;
    let mut text = format!("removed node {node}");
    if *was_member {
        text += ", and its machine from the members of etcd";
    }
    text += "\n";
    if *replaced > 0 {
        text += &format!(
            "{} a new place on other nodes, and the data is being copied: see 'nearflash cluster status'\n",
            counted(*replaced, "replica has", "replicas have")
        );
    }
    if *lacking > 0 {
        text += &format!(
            "{} one replica, because no other node that is up has room: start a node with --slice, then \
             'nearflash cluster repair'\n",
            counted(*lacking, "mirror has", "mirrors have")
        );
    }
    if !lost.is_empty() {
        let names: Vec<&str> = lost.iter().map(String::as_str).collect();
        text += &format!(
            "data is lost of: {}: remove each with 'nearflash volume remove', and restore it from a \
             backup\n",
            names.join(", ")
        );
    }
    text
}

fn removed_machine(done: &RemovedMachine) -> String {
    format!("removed machine {} from the members of etcd\n", done.machine)
}

fn repaired(done: &Repaired) -> String {
    match done.replaced {
        0 => "every mirror has its replicas\n".to_owned(),
        count => format!(
            "{} a second replica, and the data is being copied: see 'nearflash cluster status'\n",
            counted(count, "mirror has", "mirrors have")
        ),
    }
}

fn upgraded(Upgraded { before, level }: &Upgraded) -> String {
    match before == level {
        true => {
            format!("the cluster has feature level {level}, the highest that this program knows\n")
        }
        false => format!(
            "the cluster has feature level {level} now: older programs can no longer join\n"
        ),
    }
}

/// The differences between a store and what was seen of it.
fn losses(found: &Restored) -> String {
    let Restored { proof, was_seen, lost, back, resized, .. } = found;
    let mut text = match (proof, was_seen) {
        (Some(proof), _) => format!("etcd was restored from an older snapshot: {proof}\n"),
        (None, true) => "etcd lacks nothing that this machine's node has noted\n".to_owned(),
        (None, false) => "this machine's node has noted nothing of this etcd\n".to_owned(),
    };
    let parts = [
        ("lost, with all data", lost),
        ("removed since, and back with whatever lies there now", back),
        ("as long as before again", resized),
    ];
    for (what, volumes) in parts.into_iter().filter(|(_, volumes)| !volumes.is_empty()) {
        text += &format!("volumes {what}: {}\n", volumes.join(", "));
    }
    text
}

fn restored(done: &Restored) -> String {
    let what = losses(done);
    match done.is_accepted {
        true => format!("{what}The restored state is accepted: start the nodes.\n"),
        false => format!(
            "{what}Other nodes may have seen more: run this on their machines, too. Nothing was changed. Give \
             etcd its newest state back, or repeat this with --force to go on with the restored one.\n"
        ),
    }
}

fn counted(count: usize, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

fn initialized(made: &Initialized) -> String {
    let Initialized { cluster, name, etcd, is_external, token, expires_at, .. } = made;
    let (which, others) = match is_external {
        true => ("the external etcd", "the other machines"),
        false => ("its etcd", "the second and the third machine"),
    };
    let etcd: Vec<String> = etcd.iter().map(ToString::to_string).collect();
    let (etcd, token, until) = (etcd.join(", "), token.display(), show_moment(*expires_at));
    format!(
        "created cluster '{name}' ({cluster}), with {which} at {etcd}\n\
         token: {token}\n\
         Machines can join with it until {until}. The token is the cluster's root secret. Copy it to {others} over a secure connection, and use \
         'nearflash cluster join @FILE' there.\n"
    )
}

fn renewed(made: &Renewed) -> String {
    let Renewed { cluster, name, token, expires_at } = made;
    let (token, until) = (token.display(), show_moment(*expires_at));
    format!(
        "token of cluster '{name}' ({cluster}): {token}\n\
         Machines can join with it until {until}. Its copies from before are not changed.\n"
    )
}

fn joined(made: &Joined) -> String {
    let Joined { cluster, name, role, listen, is_external } = made;
    let at = listen.map(|listen| format!(", with its etcd at {listen}")).unwrap_or_default();
    let next = match role {
        Role::Member => "A node with this data directory supervises etcd.",
        Role::Witness => "'nearflash cluster run' supervises etcd on this machine.",
        Role::Client if *is_external => "Its etcd is external, and nearflash does not run it.",
        Role::Client => "Three other machines run etcd, and this one uses theirs.",
    };
    format!("joined cluster '{name}' ({cluster}){at}\n{next}\n")
}

fn described(status: &ClusterStatus) -> String {
    let ClusterStatus { cluster, name, verdict, reason, members, etcd, data, .. } = status;
    let ClusterStatus { node, nodes, is_external, .. } = status;
    let part =
        |name, part: &StatusPart| format!("{name} {}: {}\n", part.verdict.as_str(), part.reason);
    let (which, external) = match is_external {
        true => ("external etcd:", ", whose etcd is external"),
        false => ("etcd:", ""),
    };
    let node: String = node.iter().map(|it| part("this node:", it)).collect();
    let parts = part(which, etcd) + &part("data:", data) + &node;
    let nodes = match tables::nodes(nodes) {
        table if table.is_empty() => table,
        table => table + "\n",
    };
    let table = tables::members(members);
    format!(
        "cluster '{name}' ({cluster}){external}\n{}: {reason}\n\n{parts}\n{nodes}{table}",
        verdict.as_str()
    )
}
