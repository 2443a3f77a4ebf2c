//! The command line.

use std::path::PathBuf;

use nearflash_access::{GrantRange, Rights};
use nearflash_bench::BenchArgs;
use nearflash_node::config::ServeArgs;
use nearflash_study::StudyCommand;
use nearflash_units::{ByteLen, parse_size};

use crate::calendar::{Lifetime, parse_lifetime};
use crate::demo::DemoArgs;

const EXAMPLES: &str = "\
Examples:
  nearflash serve --device flash=file:/srv/flash.img,size=16GiB --volume data=8GiB@flash
  nvme connect -t tcp -a 127.0.0.1 -s 4420 -n nqn.2026-11.io.nearflash:data
  nearflash volume list
  nearflash bench nvme-tcp://127.0.0.1:4420/data --rw randread --bs 4k --iodepth 32";

const SERVE_EXAMPLES: &str = "\
Examples:
  # 8 GiB of a file, for hosts on this machine
  nearflash serve --device flash=file:/srv/flash.img,size=16GiB --volume data=8GiB@flash

  # A whole disk on two processors, for one host of the network
  nearflash serve --device nvme=block:/dev/nvme0n1 --volume data=1TiB@nvme --cores 0-1 \\
    --nvme-tcp 192.0.2.1:4420 --host nqn.2014-08.org.nvmexpress:uuid:…

  # The same from a file, where flags have the same names and values:
  #   device = [\"nvme=block:/dev/nvme0n1\"]
  #   volume = [\"data=1TiB@nvme\"]
  #   nvme-tcp = [\"192.0.2.1:4420\"]
  #   host = [\"nqn.2014-08.org.nvmexpress:uuid:…\"]
  #   cores = \"0-1\"
  nearflash serve --config /etc/nearflash.toml

  # For iSCSI initiators as well: the volume is LUN 0 of iqn.2026-11.io.nearflash:data
  nearflash serve --device flash=file:/srv/flash.img --iscsi 127.0.0.1:3260

  # For applications as well: by TCP, and through memory that they share with the node
  nearflash serve --device flash=file:/srv/flash.img --direct 127.0.0.1:4421 \\
    --direct-local /run/nearflash/direct.sock

Once hosts can connect, one line of JSON on stdout says so, and where. SIGTERM drains and ends.";

const VOLUME_EXAMPLES: &str = "\
Examples:
  nearflash volume create logs=1GiB@flash
  nearflash volume create boot=64MiB@flash,block-size=512,subsystem=data
  nearflash volume resize logs 2GiB
  nearflash volume remove logs";

const CREDENTIAL_EXAMPLES: &str = "\
Examples:
  nearflash credential create app
  nearflash credential create guest --expires 30d --secret-file guest.secret
  nearflash credential remove guest

A credential may do nothing until it is granted something: see 'nearflash grant --help'.";

const GRANT_EXAMPLES: &str = "\
Examples:
  nearflash grant add app data --rights rw
  nearflash grant add guest data --range 0..8GiB --rights r --expires 12h
  nearflash grant list guest
  nearflash grant revoke 2

A revoked grant is without effect when the command returns.";

const CHAP_EXAMPLES: &str = "\
Examples:
  nearflash chap add app
  nearflash chap add iqn.2004-10.com.ubuntu:01:9d2e --secret-file app.secret
  nearflash chap add app --secret-file app.secret --mutual-user node --mutual-secret-file node.secret
  nearflash chap remove app

As soon as there is a user, no initiator logs in without one.";

const BENCH_EXAMPLES: &str = "\
Examples:
  nearflash bench file:/srv/flash.img --size 1GiB --rw randread --iodepth 32 --runtime 10s
  nearflash bench nvme-tcp://127.0.0.1:4420/data --rw randrw --rwmixread 70 --bs 16k
  nearflash bench 'iscsi://127.0.0.1:3260/data?connections=4' --rw randread --iodepth 32
  nearflash bench floor:// --iodepth 128";

const STUDY_EXAMPLES: &str = "\
Examples:
  nearflash study list
  nearflash study run all --quick
  nearflash study run latency-sum iops-clients --out results
  nearflash study run quicksan-latency --local /dev/nvme0n1 --destroy
  nearflash study report results
  nearflash study compare results other-results

An interrupted run goes on when the same command is given again. Exits with 1 when points could not
be measured, and with 130 when it was interrupted.";

/// Remote flash as near as local: serves flash over NVMe/TCP, iSCSI and to direct clients, and
/// measures it
#[derive(Debug, clap::Parser)]
#[command(name = "nearflash", version = nearflash_api::BUILD, about, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) subcommand: Subcommand,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    /// Run a node: serve volumes of devices to hosts
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(ServeArgs),
    /// Make, list, resize and remove volumes of a running node
    #[command(subcommand, after_help = VOLUME_EXAMPLES)]
    Volume(VolumeSubcommand),
    /// Make, list and remove what direct clients prove themselves with
    #[command(subcommand, after_help = CREDENTIAL_EXAMPLES)]
    Credential(CredentialSubcommand),
    /// Let credentials read and write ranges of volumes, and no longer
    #[command(subcommand, after_help = GRANT_EXAMPLES)]
    Grant(GrantSubcommand),
    /// Make, list and remove what iSCSI initiators prove themselves with
    #[command(subcommand, after_help = CHAP_EXAMPLES)]
    Chap(ChapSubcommand),
    /// Show and end what hosts and initiators have reserved
    #[command(subcommand)]
    Reservation(ReservationSubcommand),
    /// Show how a running node is: devices, volumes, cores, hosts
    Status(NodeArgs),
    /// Measure a file, a remote volume, or the bare wire
    #[command(after_help = BENCH_EXAMPLES)]
    Bench(Box<BenchArgs>),
    /// Ask the questions that papers on remote flash ask, of this machine
    #[command(subcommand, after_help = STUDY_EXAMPLES)]
    Study(StudyCommand),
    /// See a node serve flash, beside the disk it is on and the wire it goes over
    Demo(DemoArgs),
    /// Print a shell's completions for this command
    Completions {
        /// For which shell
        shell: clap_complete::Shell,
    },
}

/// Which running node, and how its answer is shown.
#[derive(Debug, clap::Args)]
pub(crate) struct NodeArgs {
    /// The node's data directory [default: /var/lib/nearflash for root, otherwise
    /// $XDG_STATE_HOME/nearflash]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// For programs: one line of JSON, with "schema":1
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum VolumeSubcommand {
    /// Make a volume; connected hosts see it at once
    Create {
        /// What to make.
        #[arg(help = "NAME=SIZE@DEVICE[,block-size=512|4096][,subsystem=NAME]")]
        volume: String,
        #[command(flatten)]
        node: NodeArgs,
    },
    /// List all volumes
    List {
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Make a volume longer, or shorter with --shrink; connected hosts see it at once
    Resize {
        /// Which volume
        name: String,
        /// Its new size, as 512MiB or 8GiB
        #[arg(value_parser = parse_size)]
        size: ByteLen,
        /// It may become shorter: what lies behind the new end is lost
        #[arg(long)]
        shrink: bool,
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Remove a volume and all that is in it
    Remove {
        /// Which volume
        name: String,
        /// Although hosts are connected to its subsystem
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        node: NodeArgs,
    },
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum CredentialSubcommand {
    /// Make a credential and show its secret, this once. As soon as there is one, nobody is let in
    /// without
    Create {
        /// Its key id, which the client names
        id: String,
        /// It ends after this time, as 12h or 30d; never, unless said
        #[arg(long, value_name = "TIME", value_parser = parse_lifetime)]
        expires: Option<Lifetime>,
        /// Write the secret to this new file, for its owner alone, instead of showing it
        #[arg(long, value_name = "FILE")]
        secret_file: Option<PathBuf>,
        #[command(flatten)]
        node: NodeArgs,
    },
    /// List all credentials
    List {
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Remove a credential and every grant of it; its clients have lost all rights when this returns
    Remove {
        /// Which credential
        id: String,
        #[command(flatten)]
        node: NodeArgs,
    },
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum GrantSubcommand {
    /// Let a credential read, or read and write, a range of a volume
    Add {
        /// Which credential
        id: String,
        /// Which volume
        volume: String,
        /// Which bytes, as 0..8GiB or 8GiB.. (the end is not meant itself) [default: all, also when
        /// the volume grows]
        #[arg(long, value_name = "START..END")]
        range: Option<GrantRange>,
        /// r to read, rw to write as well
        #[arg(long, default_value_t = Rights::Read)]
        rights: Rights,
        /// It ends after this time, as 12h or 30d; never, unless said
        #[arg(long, value_name = "TIME", value_parser = parse_lifetime)]
        expires: Option<Lifetime>,
        #[command(flatten)]
        node: NodeArgs,
    },
    /// List all grants, or those of one credential
    List {
        /// Of this credential alone
        id: Option<String>,
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Take a grant away; it is without effect when this returns
    Revoke {
        /// Which, as 'nearflash grant list' numbers it
        number: u64,
        #[command(flatten)]
        node: NodeArgs,
    },
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum ChapSubcommand {
    /// Make a user. Without a file for it, a secret is drawn and shown, this once
    Add {
        /// What the initiator calls itself
        user: String,
        /// File with the secret, of 12 to 64 characters
        #[arg(long, value_name = "FILE")]
        secret_file: Option<PathBuf>,
        /// What the node calls itself, to initiators that ask for a proof in return
        #[arg(long, value_name = "USER")]
        mutual_user: Option<String>,
        /// File with the secret that the node proves itself with
        #[arg(long, value_name = "FILE", requires = "mutual_user")]
        mutual_secret_file: Option<PathBuf>,
        #[command(flatten)]
        node: NodeArgs,
    },
    /// List all users
    List {
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Remove a user; its sessions have ended when this returns
    Remove {
        /// Which user
        user: String,
        #[command(flatten)]
        node: NodeArgs,
    },
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum ReservationSubcommand {
    /// List who has registered with volumes and reserved them
    List {
        /// With this volume alone
        volume: Option<String>,
        #[command(flatten)]
        node: NodeArgs,
    },
    /// End every registration and reservation of a volume, whoever holds them; they are told
    Clear {
        /// Which volume
        volume: String,
        #[command(flatten)]
        node: NodeArgs,
    },
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
