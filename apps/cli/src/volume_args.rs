//! The arguments of `nearflash volume`.

use nearflash_units::{ByteLen, parse_size};

use crate::new_volume::{NewVolumeArgs, VOLUME_HELP};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum VolumeSubcommand {
    /// Create a volume; connected hosts see it at once
    #[command(alias = "add")]
    Create {
        /// The volume to create.
        #[arg(help = VOLUME_HELP)]
        volume: String,
        #[command(flatten)]
        given: NewVolumeArgs,
        /// Return at once if a job has to prepare the volume ('nearflash job wait' waits for it)
        #[arg(long)]
        no_wait: bool,
    },
    /// List all volumes
    #[command(visible_alias = "ls")]
    List,
    /// Show a volume, and where it lies in the cluster
    Show {
        /// The volume
        name: String,
    },
    /// Grow a volume, or shrink it with --shrink; connected hosts see it at once
    Resize {
        /// The volume
        name: String,
        /// Its new size, for example 512MiB or 8GiB
        #[arg(value_parser = parse_size)]
        size: ByteLen,
        /// Allow the volume to shrink: the data past the new end is lost
        #[arg(long)]
        shrink: bool,
        /// With --shrink, shrink the volume even while hosts, initiators or clients use it, or if it holds a
        /// file system
        #[arg(long, requires = "shrink")]
        force: bool,
        /// Do not ask on a terminal before a shrink
        #[arg(long)]
        yes: bool,
        /// Return at once if a job has to prepare the new part ('nearflash job wait' waits for it)
        #[arg(long)]
        no_wait: bool,
    },
    /// Move the replicas of a volume of the cluster from one node to others, while hosts use it
    Move {
        /// The volume, which has two replicas
        name: String,
        /// The node that they leave
        #[arg(long, value_name = "NODE")]
        from: String,
        /// The node that gets them [default: for each, the node with the most free space]
        #[arg(long, value_name = "NODE")]
        to: Option<String>,
        /// Return at once ('nearflash job wait' waits for the job)
        #[arg(long)]
        no_wait: bool,
    },
    /// Remove a volume and its data
    #[command(visible_alias = "rm", alias = "delete")]
    Remove {
        /// The volume
        name: String,
        /// Remove the volume even while hosts, initiators or clients use it
        #[arg(long)]
        force: bool,
        /// Do not ask on a terminal
        #[arg(long)]
        yes: bool,
    },
}
