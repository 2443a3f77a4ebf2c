//! The command line.

mod cluster;

use std::ffi::OsString;
use std::path::PathBuf;

use nearflash_access::{GrantRange, ParseRightsError, Rights};
use nearflash_api::TokenScope;
use nearflash_bench::BenchArgs;
use nearflash_config::ServeArgs;

use crate::apply::ApplyArgs;
use crate::calendar::{Lifetime, parse_lifetime};
use crate::config_check::CheckArgs;
use crate::demo::DemoArgs;
use crate::doctor::DoctorArgs;
use crate::help::{HELP, NOTES};
use crate::interpose::RunArgs;
use crate::mount::MountArgs;
use crate::trace::TraceArgs;
use crate::volume_args::VolumeSubcommand;

pub(crate) use cluster::ClusterSubcommand;

/// Serve flash over NVMe/TCP, iSCSI and nearflash's own protocol, and measure it
#[derive(Debug, clap::Parser)]
#[command(name = "nearflash", version = nearflash_api::BUILD, about, help_template = HELP, after_help = NOTES, max_term_width = 100)]
pub(crate) struct Cli {
    /// The node's data directory. clap hands it on to the command, whose own flag takes precedence
    #[arg(long, value_name = "DIR", global = true, hide = true)]
    pub(crate) data_dir: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) subcommand: Subcommand,
}

#[derive(Debug, clap::Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one, on the main thread's stack")]
pub(crate) enum Subcommand {
    /// Run a node: serve volumes to hosts, initiators and direct clients
    #[command(after_help = include_str!("help/serve.txt"))]
    Serve(ServeArgs),
    /// Make a running node match a file: volumes, hosts with keys, CHAP accounts, credentials and
    /// grants. Show the differences first
    #[command(after_help = include_str!("help/apply.txt"))]
    Apply(ApplyArgs),
    /// Check a configuration file without a node
    #[command(subcommand, after_help = include_str!("help/config.txt"))]
    Config(ConfigSubcommand),
    /// Create, list, resize and remove volumes of a running node
    #[command(after_help = include_str!("help/volume.txt"))]
    Volume(OfNode<VolumeSubcommand>),
    /// Create, list and remove the credentials of direct clients
    #[command(after_help = include_str!("help/credential.txt"))]
    Credential(OfNode<CredentialSubcommand>),
    /// Grant credentials access to ranges and files of volumes, and take it away
    #[command(after_help = include_str!("help/grant.txt"))]
    Grant(OfNode<GrantSubcommand>),
    /// Hosts: the volumes that each sees, and the keys with which NVMe/TCP hosts authenticate (DH-HMAC-CHAP)
    #[command(after_help = include_str!("help/host.txt"))]
    Host(OfNode<HostSubcommand>),
    /// Create, list and remove the CHAP accounts of iSCSI initiators
    #[command(after_help = include_str!("help/chap.txt"))]
    Chap(OfNode<ChapSubcommand>),
    /// Create, list and remove the tokens of programs that use HTTP (REST) over the network
    #[command(after_help = include_str!("help/token.txt"))]
    Token(OfNode<TokenSubcommand>),
    /// List and clear the reservations of volumes
    #[command(after_help = include_str!("help/reservation.txt"))]
    Reservation(OfNode<ReservationSubcommand>),
    /// List devices, and return a suspect one to service after a failed flush
    #[command(after_help = include_str!("help/device.txt"))]
    Device(OfNode<DeviceSubcommand>),
    /// List, wait for and cancel long-running changes
    #[command(after_help = include_str!("help/job.txt"))]
    Job(OfNode<JobSubcommand>),
    /// Show the state of a running node: devices, volumes, cores, hosts
    #[command(after_help = include_str!("help/status.txt"))]
    Status(NodeArgs),
    /// Show a running node live: requests and latencies of the last two minutes, by volume and host
    #[command(after_help = include_str!("help/top.txt"))]
    Top(NodeArgs),
    /// Show the last events of a running node: its log, with who made each change
    #[command(after_help = include_str!("help/events.txt"))]
    Events(EventsArgs),
    /// Trace some requests to a running node, and show where they spend their time
    #[command(after_help = include_str!("help/trace.txt"))]
    Trace(TraceArgs),
    /// Print the metrics of a running node, in the text format of OpenMetrics
    #[command(after_help = include_str!("help/metrics.txt"))]
    Metrics(NodeArgs),
    /// Create, join and show a cluster: etcd, which several nodes will share
    #[command(subcommand, after_help = include_str!("help/cluster.txt"))]
    Cluster(ClusterSubcommand),
    /// Keep files in a volume: copy them in and out, list, rename and remove them
    #[command(after_help = include_str!("help/files.txt"))]
    Files(FilesCommand),
    /// Mount a volume of files on a directory, for all programs of this machine
    #[command(after_help = include_str!("help/mount.txt"))]
    Mount(MountArgs),
    /// Unmount a volume of files, and wait until all its changes are durable
    #[command(after_help = include_str!("help/umount.txt"))]
    Umount {
        /// The directory on which the volume is mounted
        dir: PathBuf,
        /// Unmount also if it is in use, and wait 2 s at most for a node that does not answer
        #[arg(long)]
        force: bool,
    },
    /// Run a program whose reads and writes of mounted files go to the node without the mount
    #[command(after_help = include_str!("help/run.txt"))]
    Run(RunArgs),
    /// Measure a file, a remote volume, or the network alone
    #[command(after_help = include_str!("help/bench.txt"))]
    Bench(Box<BenchArgs>),
    /// Repeat published measurements of remote flash on this machine
    #[command(disable_help_flag = true, after_help = include_str!("help/study.txt"))]
    Study {
        /// Arguments for nearflash-study
        #[arg(value_name = "ARGUMENT", trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Look for settings of this machine that cost speed or safety; the exit code is 1 if there is a
    /// problem
    #[command(after_help = include_str!("help/doctor.txt"))]
    Doctor(DoctorArgs),
    /// Start a node on a temporary file and compare it with its disk and with the network alone, or show
    /// a cluster that loses a node
    #[command(after_help = include_str!("help/demo.txt"))]
    Demo(DemoArgs),
    /// Print a shell's completion script
    #[command(after_help = include_str!("help/completions.txt"))]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages of all commands into a folder, for packages
    #[command(hide = true)]
    ManualPages {
        /// The folder, which exists
        dir: PathBuf,
    },
}

impl Subcommand {
    /// Whether the command uses the data directory of a node.
    pub(crate) fn takes_data_dir(&self) -> bool {
        !matches!(
            self,
            Self::Config(_)
                | Self::Files(_)
                | Self::Mount(_)
                | Self::Umount { .. }
                | Self::Run(_)
                | Self::Study { .. }
                | Self::Doctor(_)
                | Self::Demo(_)
                | Self::Completions { .. }
                | Self::ManualPages { .. }
        )
    }
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum ConfigSubcommand {
    /// Print all errors of a file with their lines, or list what it declares; the exit code is 2 if there is
    /// an error
    Check(CheckArgs),
}

const PLACE_HELP: &str = "\
direct://HOST:PORT/VOLUME/PATH, direct+tls://HOST:PORT/VOLUME/PATH or \
direct+local:PATH.sock/VOLUME/PATH, percent-encoded, optionally followed by ?key=ID&secret-file=PATH";

/// The way in which a command gets a volume for itself.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct OwnerArgs {
    /// Take the volume from the process that changes its files now; that process then fails
    #[arg(long)]
    pub(crate) take_over: bool,
}

/// Whether an existing file is replaced.
#[derive(Debug, clap::Args)]
pub(crate) struct ReplaceArgs {
    /// Replace an existing file
    #[arg(long)]
    pub(crate) replace: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct FilesCommand {
    /// Print one line of JSON, with "schema":1, for programs
    #[arg(long, global = true, display_order = LAST)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) subcommand: FilesSubcommand,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum FilesSubcommand {
    /// Make a blank volume a volume of files
    Format {
        /// direct://HOST:PORT/VOLUME, direct+tls://HOST:PORT/VOLUME or direct+local:PATH.sock/VOLUME
        #[arg(value_name = "URL")]
        volume: String,
        /// Erase a volume that is not blank
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        owner: OwnerArgs,
    },
    /// List a directory
    #[command(visible_alias = "list")]
    Ls {
        #[arg(value_name = "URL", help = PLACE_HELP)]
        place: String,
    },
    /// Copy a file of this machine into the volume
    Put {
        /// The file, or - for stdin
        file: PathBuf,
        #[arg(value_name = "URL", help = PLACE_HELP)]
        place: String,
        #[command(flatten)]
        replace: ReplaceArgs,
        #[command(flatten)]
        owner: OwnerArgs,
    },
    /// Copy a file of the volume to this machine
    Get {
        #[arg(value_name = "URL", help = PLACE_HELP)]
        place: String,
        /// The file to create, a folder, or - for stdout
        file: PathBuf,
        #[command(flatten)]
        replace: ReplaceArgs,
    },
    /// Remove a file, or an empty directory
    #[command(visible_alias = "remove")]
    Rm {
        #[arg(value_name = "URL", help = PLACE_HELP)]
        place: String,
        #[command(flatten)]
        owner: OwnerArgs,
    },
    /// Rename a file or a directory within its volume
    Mv {
        #[arg(value_name = "URL", help = PLACE_HELP)]
        from: String,
        /// The new path from the root of the volume, or its URL
        to: String,
        #[command(flatten)]
        replace: ReplaceArgs,
        #[command(flatten)]
        owner: OwnerArgs,
    },
    /// Create a directory
    Mkdir {
        #[arg(value_name = "URL", help = PLACE_HELP)]
        place: String,
        #[command(flatten)]
        owner: OwnerArgs,
    },
    /// Show a file's or a directory's properties, and its place in the volume
    Stat {
        #[arg(value_name = "URL", help = PLACE_HELP)]
        place: String,
    },
    /// Check all metadata of a volume of files; the exit code is 1 if there are faults
    Check {
        /// direct://HOST:PORT/VOLUME, direct+tls://HOST:PORT/VOLUME or direct+local:PATH.sock/VOLUME
        #[arg(value_name = "URL")]
        volume: String,
    },
}

/// The place of arguments of a group in the help: behind those of its commands.
const LAST: usize = 900;

/// The running node, and the form of its answer.
#[derive(Debug, clap::Args)]
pub(crate) struct NodeArgs {
    /// The node's data directory [default: $NEARFLASH_DATA_DIR; otherwise /var/lib/nearflash for root,
    /// $XDG_STATE_HOME/nearflash for others]
    #[arg(long, value_name = "DIR", global = true, display_order = LAST)]
    pub(crate) data_dir: Option<PathBuf>,
    /// Print one line of JSON, with "schema":1, for programs
    #[arg(long, global = true, display_order = LAST)]
    pub(crate) json: bool,
}

/// A command to a running node.
#[derive(Debug, clap::Args)]
pub(crate) struct OfNode<S: clap::Subcommand> {
    #[command(flatten)]
    pub(crate) node: NodeArgs,
    #[command(subcommand)]
    pub(crate) subcommand: S,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum CredentialSubcommand {
    /// Create a credential and show its secret once. As soon as one credential exists, the node
    /// refuses clients without one
    #[command(alias = "add")]
    Create {
        /// The credential's key ID, which the client presents
        id: String,
        /// Expire after this time, for example 12h or 30d [default: never]
        #[arg(long, value_name = "TIME", value_parser = parse_lifetime)]
        expires: Option<Lifetime>,
        /// Write the secret to this new file, readable only by its owner, instead of showing it
        #[arg(long, value_name = "FILE")]
        secret_file: Option<PathBuf>,
    },
    /// List all credentials
    #[command(visible_alias = "ls")]
    List,
    /// Remove a credential and its grants; when the command returns, its clients have lost all
    /// rights
    #[command(visible_alias = "rm", alias = "delete")]
    Remove {
        /// The credential
        id: String,
    },
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum GrantSubcommand {
    /// Grant a credential access to a range of a volume, or to a directory of its files
    #[command(alias = "create")]
    Add {
        /// The credential
        id: String,
        /// The volume
        volume: String,
        /// The bytes, for example 0..8GiB or 8GiB.. (the end is excluded) [default: the whole
        /// volume, also after it grows]
        #[arg(long, value_name = "START..END")]
        range: Option<GrantRange>,
        /// The files in this directory, and below it, instead of bytes, for example /models; of a
        /// volume whose files the node owns
        #[arg(long, value_name = "PATH", conflicts_with = "range")]
        path: Option<String>,
        /// r to read, rw to read and write
        #[arg(long, default_value_t = Rights::Read)]
        rights: Rights,
        /// Expire after this time, for example 12h or 30d [default: never]
        #[arg(long, value_name = "TIME", value_parser = parse_lifetime)]
        expires: Option<Lifetime>,
    },
    /// Print a URL with which a job uses a range of a volume without a credential, for a limited time
    ///
    /// To the job, the range is a volume of its own, which begins at 0. Everyone with the URL has the
    /// rights, so pass it on as you would pass on a password. 'nearflash grant list' shows the seal, and
    /// 'nearflash grant remove' voids it at once.
    Seal {
        /// The volume
        volume: String,
        /// The bytes, in whole blocks, for example 1GiB..2GiB (the end is excluded) [default: the whole
        /// volume, as long as it is now]
        #[arg(long, value_name = "START..END")]
        range: Option<GrantRange>,
        /// r to read, rw to read and write
        #[arg(long, default_value_t = Rights::Read)]
        rights: Rights,
        /// How long the seal is good, for example 30m; 24h at most
        #[arg(long = "for", alias = "expires", value_name = "TIME", value_parser = parse_lifetime, default_value = "1h")]
        lifetime: Lifetime,
        /// The address of the node in the URL, as the job reaches it; direct+tls:// in front of it is for an
        /// address with TLS [default: the first TCP address of --direct, or the Unix socket]
        #[arg(long, value_name = "[direct+tls://]HOST:PORT")]
        at: Option<String>,
    },
    /// List all grants, or those of one credential
    #[command(visible_alias = "ls")]
    List {
        /// List only the grants of this credential
        id: Option<String>,
    },
    /// Remove a grant; when the command returns, the grant has no effect
    #[command(visible_aliases = ["revoke", "rm"], alias = "delete")]
    Remove {
        /// The grant's number, as 'nearflash grant list' shows it
        #[arg(value_parser = parse_number)]
        number: u64,
    },
}

fn parse_number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("'{text}' is not a number: 'list' shows the numbers"))
}

/// A volume, and the right of a host on it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct VolumeRight {
    pub(crate) volume: String,
    pub(crate) rights: Rights,
}

impl std::str::FromStr for VolumeRight {
    type Err = ParseRightsError;

    fn from_str(text: &str) -> Result<Self, ParseRightsError> {
        // The name of a volume has no colon.
        let (volume, rights) = text.split_once(':').unwrap_or((text, "rw"));
        Ok(Self { volume: volume.to_owned(), rights: rights.parse()? })
    }
}

/// Keys for DH-HMAC-CHAP.
#[derive(clap::Args, Debug)]
pub(crate) struct DhchapArgs {
    /// File with the host's key, of the form DHHC-1:...; - is stdin
    #[arg(long, value_name = "FILE")]
    pub(crate) dhchap_key: Option<PathBuf>,
    /// File with the controller's key, for hosts that ask the controller to authenticate, too
    #[arg(long, value_name = "FILE")]
    pub(crate) dhchap_ctrl_key: Option<PathBuf>,
    /// Generate the controller's key and show it once
    #[arg(long, conflicts_with = "dhchap_ctrl_key")]
    pub(crate) mutual: bool,
    /// The only hash to use: sha256, sha384 or sha512 [default: the first of these that the host supports]
    #[arg(long, value_name = "HASH")]
    pub(crate) hash: Option<String>,
    /// The only Diffie-Hellman group to use: null, ffdhe2048, ffdhe3072, ffdhe4096, ffdhe6144 or ffdhe8192
    /// [default: ffdhe3072, or another one that the host supports]
    #[arg(long, value_name = "GROUP")]
    pub(crate) group: Option<String>,
}

impl DhchapArgs {
    pub(crate) fn is_given(&self) -> bool {
        let keys = self.dhchap_key.is_some() || self.dhchap_ctrl_key.is_some() || self.mutual;
        keys || self.hash.is_some() || self.group.is_some()
    }
}

/// The PSK for TLS.
#[derive(clap::Args, Debug)]
pub(crate) struct PskArgs {
    /// File with the host's PSK for TLS, of the form NVMeTLSkey-1:...; - is stdin
    #[arg(long, value_name = "FILE")]
    pub(crate) psk_file: Option<PathBuf>,
    /// How the host derives TLS PSKs: standard, or legacy for libnvme before 1.15 [default: standard]
    #[arg(long, value_name = "DERIVATION", requires = "psk_file")]
    pub(crate) psk_derivation: Option<String>,
    /// Whether the host must use TLS: required, or allowed, where the address permits connections without TLS
    /// [default: required]
    #[arg(long, value_name = "DEMAND", requires = "psk_file")]
    pub(crate) tls: Option<String>,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum HostSubcommand {
    /// Add the keys of a host. The host must authenticate, or use TLS, from then on, and a connection without is
    /// ended. By default, the node generates a key for DH-HMAC-CHAP and shows it once. An iSCSI initiator has a
    /// CHAP account instead of keys ('nearflash chap'); for it, name its volumes with --volume
    #[command(alias = "create")]
    Add {
        /// The host's NQN, or an iSCSI initiator's name
        #[arg(value_name = "NQN|INITIATOR")]
        host: String,
        /// A volume that the host sees (repeatable), read-only with :r; it sees no others [default: its
        /// list as it is, or as 'nearflash serve --unlisted-hosts' says]
        #[arg(long = "volume", value_name = "VOLUME[:r|rw]")]
        volumes: Vec<VolumeRight>,
        #[command(flatten)]
        dhchap: DhchapArgs,
        #[command(flatten)]
        psk: PskArgs,
    },
    /// Replace the key for DH-HMAC-CHAP of a host, its PSK, or both; the host stays connected. Without
    /// --dhchap-key and --psk-file the node generates a key for DH-HMAC-CHAP and shows it once
    Rotate {
        /// The host's NQN
        nqn: String,
        /// File with the host's new key, of the form DHHC-1:...; - is stdin
        #[arg(long, value_name = "FILE")]
        dhchap_key: Option<PathBuf>,
        /// File with the host's new PSK for TLS, of the form NVMeTLSkey-1:...; - is stdin
        #[arg(long, value_name = "FILE")]
        psk_file: Option<PathBuf>,
        /// The time for which the old keys stay valid, for example 1h [default: none]
        #[arg(long, value_name = "TIME", value_parser = parse_lifetime)]
        overlap: Option<Lifetime>,
    },
    /// Let a host use volumes: it sees the volumes of its list from then on, and no others. A connected host
    /// is told at once
    Allow {
        /// The host's NQN, or an iSCSI initiator's name
        #[arg(value_name = "NQN|INITIATOR")]
        host: String,
        /// Volumes to add to its list, read-only with :r; a volume of the list gets these rights
        #[arg(required = true, value_name = "VOLUME[:r|rw]")]
        volumes: Vec<VolumeRight>,
        /// Make these volumes the whole list
        #[arg(long)]
        only: bool,
    },
    /// Take volumes out of the list of a host, or all of them: a host with an empty list sees no volume
    Deny {
        /// The host's NQN, or an iSCSI initiator's name
        #[arg(value_name = "NQN|INITIATOR")]
        host: String,
        /// The volumes [default: all]
        #[arg(value_name = "VOLUME")]
        volumes: Vec<String>,
    },
    /// Take the list of a host away: it sees no volume then, unless the node was started with
    /// --unlisted-hosts all
    Unlist {
        /// The host's NQN, or an iSCSI initiator's name
        #[arg(value_name = "NQN|INITIATOR")]
        host: String,
    },
    /// List all hosts with keys or a list of volumes
    #[command(visible_alias = "ls")]
    List,
    /// Remove a host: its list of volumes and its keys. A host with keys is disconnected, and does not enter
    /// without keys from then on
    #[command(visible_alias = "rm", alias = "delete")]
    Remove {
        /// The host's NQN, or an iSCSI initiator's name
        #[arg(value_name = "NQN|INITIATOR")]
        host: String,
        /// Forget that the host had keys: it enters without them where other hosts do
        #[arg(long)]
        forget: bool,
    },
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum ChapSubcommand {
    /// Create an account. Without --secret-file the node generates a secret and shows it once
    #[command(alias = "create")]
    Add {
        /// The initiator's user name
        user: String,
        /// Initiator (iqn., eui. or naa. name) that may log in with this account (repeatable) [default: every
        /// initiator]
        #[arg(long = "initiator", value_name = "NAME", value_delimiter = ',')]
        initiators: Vec<String>,
        /// File with the initiator's secret, of 12 to 64 characters
        #[arg(long, value_name = "FILE")]
        secret_file: Option<PathBuf>,
        /// The node's user name, for initiators that request mutual CHAP
        #[arg(long, value_name = "USER")]
        mutual_user: Option<String>,
        /// File with the node's own secret
        #[arg(long, value_name = "FILE", requires = "mutual_user")]
        mutual_secret_file: Option<PathBuf>,
    },
    /// List all accounts
    #[command(visible_alias = "ls")]
    List,
    /// Remove an account; when the command returns, its sessions have ended
    #[command(visible_alias = "rm", alias = "delete")]
    Remove {
        /// The account's user name
        user: String,
    },
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum TokenSubcommand {
    /// Create a token and show it once
    #[command(alias = "add")]
    Create {
        /// The token's name, which the log shows with each change
        name: String,
        /// The requests that it permits: read, operate or admin
        #[arg(long)]
        scope: TokenScope,
        /// Expire after this time, for example 12h or 30d [default: never]
        #[arg(long, alias = "for", value_name = "TIME", value_parser = parse_lifetime)]
        expires: Option<Lifetime>,
        /// Write the token to this new file, readable only by its owner, instead of showing it
        #[arg(long, value_name = "FILE")]
        secret_file: Option<PathBuf>,
    },
    /// List all tokens
    #[command(visible_alias = "ls")]
    List,
    /// Remove a token; when the command returns, no request is accepted with it
    #[command(visible_alias = "rm", alias = "delete")]
    Remove {
        /// The token
        name: String,
    },
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum ReservationSubcommand {
    /// List registrations and reservations
    #[command(visible_alias = "ls")]
    List {
        /// List only the registrations and reservations of this volume
        volume: Option<String>,
    },
    /// Remove the reservation and all registrations of a volume, and notify the registered hosts
    Clear {
        /// The volume
        volume: String,
    },
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum DeviceSubcommand {
    /// List all devices, with their sizes, health and options, and the wear of models
    #[command(visible_alias = "ls")]
    List,
    /// Clear the suspect state of a device, so that flushes and durable writes to it succeed again.
    /// Before that, check the data that hosts wrote to it: lost writes stay lost
    Clear {
        /// The device
        name: String,
    },
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum JobSubcommand {
    /// List the running jobs and the most recent ended ones
    #[command(visible_alias = "ls")]
    List,
    /// Show one job
    Show(JobArgs),
    /// Cancel a job and undo its change
    Cancel(JobArgs),
    /// Wait until a job has ended; the exit code is 1 unless it is complete
    Wait(JobArgs),
}

/// A job.
#[derive(Debug, clap::Args)]
pub(crate) struct JobArgs {
    /// The number of the job, as 'nearflash job list' shows it
    #[arg(value_parser = parse_number)]
    pub(crate) id: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_does_not_contradict_itself() {
        Cli::command().debug_assert();
    }
}

/// The flags of `nearflash events`.
#[derive(Debug, clap::Args)]
pub(crate) struct EventsArgs {
    /// Wait for further events, also while the node is restarted
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Only warnings and errors
    #[arg(long, conflicts_with = "changes")]
    pub(crate) warnings: bool,
    /// The changes that the data directory has recorded, with who made each; also while no node runs
    #[arg(long, conflicts_with = "follow")]
    pub(crate) changes: bool,
    /// Only the events after the one with this number
    #[arg(long, value_name = "NUMBER")]
    pub(crate) after: Option<u64>,
    #[command(flatten)]
    pub(crate) node: NodeArgs,
}
