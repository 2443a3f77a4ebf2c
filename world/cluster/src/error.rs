//! The errors of etcd, and of the cluster's commands.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use nearflash_records::Endpoint;
use nearflash_records::record::FEATURE_LEVEL;
use uuid::Uuid;

use super::TXN_OPS_MAX;
use super::token::TokenError;

/// The reason why etcd did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum StoreError {
    /// No endpoint answers.
    #[error("etcd does not answer:{tried}: check that it runs and that this machine reaches it")]
    Unreachable { tried: String },
    /// No endpoint of an external etcd answers.
    #[error(
        "external etcd does not answer:{tried}: check that it runs, that this machine reaches it, and \
         {tls}"
    )]
    ExternalUnreachable {
        tried: String,
        /// The remedy if it was tried with the wrong protection.
        tls: &'static str,
    },
    /// An endpoint is not a member of this cluster.
    #[error(
        "etcd at {endpoint} belongs to another cluster, or the token does: {reason}: take the \
         token of the cluster that runs there"
    )]
    Foreign { endpoint: Endpoint, reason: String },
    /// The certificates of an external etcd, or those that were named for it, do not fit.
    #[error(
        "external etcd at {endpoint}: {reason}: compare its certificate with the file after ca=, and if \
         it asks for a certificate, name one that it accepts with cert= and key="
    )]
    Certificate { endpoint: Endpoint, reason: String },
    /// etcd refuses the call.
    #[error("etcd at {endpoint} refuses: {reason}")]
    Refused { endpoint: Endpoint, reason: String },
}

/// An error of a command about the cluster. Every message names the thing and the remedy.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum ClusterError {
    /// The nodes do not share a list of access.
    #[error(
        "the nodes of this cluster do not share a list of access yet: finish the upgrade first, with 'nearflash \
         cluster upgrade'"
    )]
    NoList,
    /// The token cannot be used.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// etcd does not answer, or refuses.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file cannot be read or written.
    #[error("{}: {source}: check the data directory", path.display())]
    File { path: PathBuf, source: io::Error },
    /// A file has an unexpected content.
    #[error("{} is damaged: restore it from a backup", path.display())]
    Damaged { path: PathBuf },
    /// The data directory belongs to no cluster.
    #[error(
        "data directory {} belongs to no cluster: create one with 'nearflash cluster init', or join \
         one with 'nearflash cluster join @FILE'", path.display()
    )]
    NoCluster { path: PathBuf },
    /// The data directory belongs to a cluster already.
    #[error(
        "data directory {} already belongs to cluster '{name}' ({cluster}): 'nearflash cluster \
         status' shows it; choose another --data-dir for another cluster", path.display()
    )]
    Belongs { path: PathBuf, name: Box<str>, cluster: Uuid },
    /// An earlier command of another kind has not been finished.
    #[error("an earlier 'nearflash cluster {command}' was not finished here: repeat it first")]
    Unfinished { command: &'static str },
    /// The token is that of another cluster.
    #[error(
        "the etcd at {endpoint} does not hold cluster '{name}' ({cluster}), which the token names: \
         take the token of the cluster that runs there"
    )]
    OtherCluster { endpoint: Endpoint, name: Box<str>, cluster: Uuid },
    /// Another command changes the cluster on this machine.
    #[error("another 'nearflash cluster' command is changing {}: wait until it ends", path.display())]
    Busy { path: PathBuf },
    /// No address to listen on was named, and none follows from the routes.
    #[error("cannot tell which address other machines reach: name it with --listen IP")]
    NoAddress,
    /// The address cannot be that of a member.
    #[error(
        "--listen {address}: other machines cannot connect to it: name one address of this machine"
    )]
    Address { address: IpAddr },
    /// Something listens there already.
    #[error(
        "--listen {address}: {source}: etcd cannot listen there; if another etcd does, for example \
         that of the package etcd-server, stop it or choose another port with --listen IP:PORT"
    )]
    Bind { address: SocketAddr, source: io::Error },
    /// A record in etcd cannot be read.
    #[error("the record '{key}' in etcd {source}")]
    Record { key: nearflash_records::Key, source: nearflash_records::RecordError },
    /// The nodes of the cluster run a later version.
    #[error(
        "cluster '{name}' has feature level {level}, and this program supports {FEATURE_LEVEL}: \
         install the version that the other machines run"
    )]
    Later { name: Box<str>, level: u32 },
    /// etcd is not installed.
    #[error(
        "cannot start the program 'etcd': {source}: install it, for example with 'apt-get install \
         etcd-server', and see that it is in PATH, or for root in /usr/local/bin or /usr/bin"
    )]
    NoEtcd { source: io::Error },
    /// etcd has ended instead of answering.
    #[error("etcd has ended: {reason}: see {}", log.display())]
    Ended { reason: Box<str>, log: PathBuf },
    /// etcd runs and does not answer.
    #[error("etcd does not answer at {address} after {seconds} s: see {}", log.display())]
    Silent { address: SocketAddr, seconds: u64, log: PathBuf },
    /// Another machine is about to join.
    #[error(
        "machine '{machine}' is joining, and etcd admits one at a time: wait, or repeat the command \
         on that machine"
    )]
    Joining { machine: Box<str> },
    /// A member with this address has lost its data.
    #[error(
        "the cluster has a member at {address} already, and its data is not in {}: restore the folder, \
         or run 'nearflash cluster remove {address}' on another machine and join again",
        path.display()
    )]
    LostData { address: SocketAddr, path: PathBuf },
    /// A fourth machine would be a witness.
    #[error(
        "the cluster has three voting members, and a further witness would not help: leave this \
         machine out, or join it as a node without --witness"
    )]
    NeedlessWitness,
    /// The new member does not catch up.
    #[error(
        "this machine's etcd has not caught up after {seconds} s: check the network, and repeat the command"
    )]
    Behind { seconds: u64 },
    /// The machine votes not, so there is no etcd to run.
    #[error("this machine runs no etcd: three other machines vote, and it is a client of theirs")]
    ClientOnly,
    /// The cluster's etcd is external, so there is no etcd to run.
    #[error(
        "the cluster's etcd is external, and nearflash does not run it: leave this command out, and \
         see 'nearflash cluster status'"
    )]
    External,
    /// A witness of a cluster whose etcd is external.
    #[error(
        "the cluster's etcd is external, so a witness has nothing to do: leave this machine out, or \
         join it as a node without --witness"
    )]
    ExternalWitness,
    /// A file of the argument `--etcd` cannot be used.
    #[error("--etcd: {name}={}: {source}: correct the path, the file or its permissions", path.display())]
    EtcdFile { name: &'static str, path: PathBuf, source: io::Error },
    /// The certificates of an external etcd do not fit into a token.
    #[error(
        "--etcd: the files of ca, cert and key make a token of {len} bytes, and {max} are possible: \
         leave only the certificates in them that etcd and this machine need"
    )]
    LongToken { len: usize, max: usize },
    /// The external etcd holds a cluster, or something else at its place.
    #[error(
        "the etcd at {endpoint} already holds {holds} under {place}: join that cluster with its token, \
         or choose another place with prefix=/NAME in --etcd"
    )]
    Occupied {
        endpoint: Endpoint,
        /// The cluster, or the key that is there.
        holds: Box<str>,
        place: Box<str>,
    },
    /// The external etcd admits too few operations in a transaction.
    #[error(
        "the etcd at {endpoint} admits fewer than {TXN_OPS_MAX} operations in a transaction, which large \
         volumes need: start its members with --max-txn-ops={TXN_OPS_MAX}"
    )]
    FewOperations { endpoint: Endpoint },
    /// The cluster has no node of that name.
    #[error("the cluster has no node '{node}': its nodes are {names}")]
    NoSuchNode { node: Box<str>, names: Box<str> },
    /// A node that is to be removed accepts connections.
    #[error(
        "{node} is not known to etcd as running, and something answers at its address {address}: stop it \
         first"
    )]
    NodeAnswers { node: Box<str>, address: SocketAddr },
    /// No member of etcd that nearflash runs has that address.
    #[error("no member of the cluster's etcd has the address {machine}: they have {addresses}")]
    NoSuchMember { machine: SocketAddr, addresses: Box<str> },
    /// The machine that is to be removed runs a node.
    #[error("node {node} runs on the machine of etcd {machine}: remove the node")]
    MemberOfNode { machine: SocketAddr, node: Box<str> },
    /// A member of etcd that is to be removed answers.
    #[error("etcd at {machine} answers: stop it first")]
    MemberAnswers { machine: SocketAddr },
    /// Without the machine, etcd has no majority.
    #[error(
        "{subject} runs a member of etcd, and without it the others are no majority, because these do not \
         answer: {silent}: start them first"
    )]
    MajorityLost {
        /// The node, or the address of its etcd.
        subject: Box<str>,
        silent: Box<str>,
    },
    /// A change is not possible.
    #[error(transparent)]
    Refused(#[from] nearflash_planner::Refusal),
    /// The kept state of this machine's node cannot be read.
    #[error("{0}")]
    Kept(Box<dyn std::error::Error + Send + Sync>),
    /// Others change the cluster all the time.
    #[error("the cluster's records change too often at the moment: repeat the command")]
    Contended,
    /// A certificate cannot be made.
    #[error("cannot make a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// A thread or a random number is not available.
    #[error("cannot {action}: {source}")]
    System { action: &'static str, source: io::Error },
}

impl ClusterError {
    /// A file's error, for `map_err`.
    pub(super) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { path: path.to_owned(), source }
    }

    /// The process's exit code: 2 when the command line is wrong, 1 otherwise.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Token(_) | Self::Address { .. } | Self::NoAddress | Self::EtcdFile { .. } => 2,
            _ => 1,
        }
    }
}
