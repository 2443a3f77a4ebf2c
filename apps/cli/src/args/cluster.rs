//! `nearflash cluster` on the command line.

use std::path::PathBuf;

use nearflash_cluster_store::{EtcdUrl, Listen};
use nearflash_space::Name;

use super::NodeArgs;
use crate::calendar::{Lifetime, parse_lifetime};
use crate::leaver::Leaver;

const ETCD_HELP: &str = "\
An etcd that exists already, which nearflash uses and does not run: \
etcd://HOST:PORT[,HOST:PORT…][?ca=FILE][&cert=FILE&key=FILE][&prefix=/NAME][&insecure]. ca=FILE makes \
the connections TLS; without it, the addresses must be those of this machine, or 'insecure' admits others";

#[derive(Debug, clap::Subcommand)]
pub(crate) enum ClusterSubcommand {
    /// Create a cluster, with this machine as the first member of its etcd, or with an etcd that exists
    /// already
    Init {
        /// The cluster's name [default: nearflash]
        #[arg(long)]
        name: Option<Name>,
        /// An external etcd.
        #[arg(long, value_name = "URL", help = ETCD_HELP)]
        etcd: Option<EtcdUrl>,
        #[command(flatten)]
        valid: ValidArgs,
        #[command(flatten)]
        listen: ListenArgs,
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Join a cluster: as a member of its etcd, or as a client of three members; repeat the command
    /// if it was interrupted
    Join {
        /// The file with the cluster's token, with an @ before its path
        #[arg(value_name = "@FILE")]
        token: String,
        /// Run etcd on this machine, and no node
        #[arg(long)]
        witness: bool,
        #[command(flatten)]
        listen: ListenArgs,
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Make the token of this machine's cluster valid for a time from now, and name its file
    Token {
        #[command(flatten)]
        valid: ValidArgs,
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Remove a node that is lost for good; its replicas are replaced by new ones on other nodes. Any
    /// machine of the cluster can run this
    #[command(visible_alias = "rm", alias = "delete")]
    Remove {
        /// The node, which does not run; or the IP or IP:PORT of the etcd of a machine without a node, such as
        /// a witness
        #[arg(value_name = "NODE")]
        subject: Leaver,
        /// Remove the node also if it has the only copy of data, which is lost then. The volumes of that
        /// data stay until they are removed
        #[arg(long)]
        force: bool,
        /// Do not ask on a terminal
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Move all replicas from a node to others, while hosts use them, and place none there any more. The node that
    /// carries this out runs on this machine
    Drain {
        /// The node to drain
        #[arg(value_name = "NODE")]
        subject: String,
        /// Place replicas on the node again, after it was drained
        #[arg(long, conflicts_with = "no_wait")]
        undo: bool,
        /// Return at once ('nearflash job wait' waits for the job)
        #[arg(long)]
        no_wait: bool,
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Give mirrors with one replica a second one, when another node has room for it
    Repair(NodeArgs),
    /// Let the cluster use what this version can do and earlier ones cannot, once every node has this version.
    /// There is no way back
    Upgrade(NodeArgs),
    /// Add the hosts, credentials, grants, accounts and tokens that this machine's node has of its own to the list
    /// that the nodes of the cluster share. The node must not run
    AdoptAccess {
        /// Only say what would be added, and what differs
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Compare an etcd that was restored from an older snapshot with what this machine's node has seen, and
    /// say what is lost; with --force, go on with the restored state. No node may run
    AcceptRestored {
        /// Go on with the state that etcd has now: what was changed since is lost
        #[arg(long)]
        force: bool,
        /// Do not ask on a terminal
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Show the verdict on the cluster, its nodes and the members of its etcd; the exit code is 0 (ok), 3
    /// (degraded), 4 (at risk) or 5 (unavailable), and 1 if the command fails
    Status(NodeArgs),
    /// Run this machine's etcd, and start it again when it ends, until SIGTERM; a node does this
    /// itself
    Run {
        /// The data directory [default: $NEARFLASH_DATA_DIR; otherwise /var/lib/nearflash for root,
        /// $XDG_STATE_HOME/nearflash for others]
        #[arg(long, value_name = "DIR")]
        data_dir: Option<PathBuf>,
    },
}

/// The lifetime of a token.
#[derive(Debug, clap::Args)]
pub(crate) struct ValidArgs {
    /// The time for which machines can join with the token, for example 90m, 12h or 7d
    #[arg(long, alias = "expires", value_name = "TIME", value_parser = parse_lifetime, default_value = "24h")]
    pub(crate) valid: Lifetime,
}

/// The address of a member.
#[derive(Debug, clap::Args)]
pub(crate) struct ListenArgs {
    /// The address of this machine that the others reach [default: that of the route to them]; an
    /// etcd of this machine uses PORT (2379) for clients and PORT + 1 for members
    #[arg(long, value_name = "IP[:PORT]")]
    pub(crate) listen: Option<Listen>,
}
