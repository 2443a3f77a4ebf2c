//! The volume of `nearflash volume create`. The node decides where a volume without a device lies.

use nearflash_api::VolumeCreate;
use nearflash_config::{Config, UnplacedVolume, ValueError, parse_block_size, parse_volume};
use nearflash_space::{Name, Provisioning, VolumeRequest};
use nearflash_units::{BlockSize, ByteLen, parse_size};

/// The help of the argument that is a name, or the short form.
pub(crate) const VOLUME_HELP: &str = "\
NAME, with --size. Without --device, a node of a cluster puts it into the space of the cluster, and any other node on \
its only device. Short for NAME with --size and --device: \
NAME=SIZE@DEVICE[,block-size=512|4096][,subsystem=NAME][,provisioning=thin|thick]";

/// The size and the place of a volume whose name stands alone.
#[derive(Debug, clap::Args)]
pub(crate) struct NewVolumeArgs {
    /// Size, for example 100GiB
    #[arg(long, value_parser = parse_size)]
    pub(crate) size: Option<ByteLen>,
    /// Subsystem that exports it [default: one with the volume's name]
    #[arg(long, value_name = "NAME", requires = "size")]
    pub(crate) subsystem: Option<String>,
    /// thin or thick [default: thin]
    #[arg(long, value_name = "KIND", requires = "size")]
    pub(crate) provisioning: Option<String>,
    /// Device of this node that holds the volume
    #[arg(long, value_name = "NAME", requires = "size", help_heading = ON_DEVICE)]
    pub(crate) device: Option<String>,
    /// Size of its blocks: 512 or 4096 [default: 512]
    #[arg(long, value_name = "SIZE", requires = "size", help_heading = ON_DEVICE)]
    pub(crate) block_size: Option<String>,
    /// Number of nodes that have each byte: 1 or 2 [default: 2 if several nodes have slices]
    #[arg(long, value_name = "N", requires = "size", help_heading = IN_CLUSTER)]
    pub(crate) replicas: Option<u8>,
    /// Bytes on one mirror before the next one follows [default: 64KiB]
    #[arg(
        long, alias = "stripe", value_name = "SIZE", value_parser = parse_size, requires = "size",
        help_heading = IN_CLUSTER
    )]
    pub(crate) stripe_unit: Option<ByteLen>,
    /// Number of mirrors to stripe over [default: one on each node, at most 8]
    #[arg(long, value_name = "N", requires = "size", help_heading = IN_CLUSTER)]
    pub(crate) width: Option<u32>,
    /// spread: over all nodes; local:NODE: primaries on this node; central:NODE: everything on this
    /// node, with 1 replica [default: spread]
    #[arg(long, requires = "size", help_heading = IN_CLUSTER)]
    pub(crate) placement: Option<String>,
}

/// The options of volumes that are not the cluster's.
const ON_DEVICE: &str = "A volume on a device of the node";

/// The options of volumes of a cluster.
const IN_CLUSTER: &str = "A volume in the space of the cluster";

/// The reason why a description of a volume is not valid.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NewVolumeError {
    /// A name alone.
    #[error("volume '{name}' has no size: add --size SIZE")]
    NoSize { name: String },
    /// The short form, with flags.
    #[error("'{text}' has a size and a device already: leave out --size, or write only the name")]
    SizeTwice { text: String },
    /// A part is not valid.
    #[error(transparent)]
    Value(#[from] ValueError),
}

/// The volume that the arguments describe.
///
/// # Errors
/// When they lack a part, or a part is not valid. The node checks the rest.
pub(crate) fn new_volume(
    text: String,
    given: NewVolumeArgs,
) -> Result<VolumeCreate, NewVolumeError> {
    let Some(size) = given.size else {
        return match text.parse::<Name>() {
            Ok(_) => Err(NewVolumeError::NoSize { name: text }),
            Err(_) => Ok(on_device(&parse_volume(&text)?)),
        };
    };
    if text.contains('=') {
        return Err(NewVolumeError::SizeTwice { text });
    }
    text.parse::<Name>().map_err(ValueError::from)?;
    let block_size = given.block_size.as_deref().map(parse_block_size).transpose()?;
    Ok(VolumeCreate {
        name: text,
        bytes: size.0,
        device: given.device,
        block_size: block_size.map(BlockSize::bytes),
        subsystem: given.subsystem,
        provisioning: given.provisioning,
        replicas: given.replicas,
        stripe_unit: given.stripe_unit.map(|unit| unit.0),
        width: given.width,
        placement: given.placement,
    })
}

/// The calls that create the volumes of a file: those on devices first.
pub(crate) fn declared_volumes(config: &Config) -> Vec<VolumeCreate> {
    let unplaced = config.unplaced.iter().map(unplaced);
    config.volumes.iter().map(on_device).chain(unplaced).collect()
}

fn unplaced(volume: &UnplacedVolume) -> VolumeCreate {
    VolumeCreate {
        name: volume.name.to_string(),
        bytes: volume.len.0,
        subsystem: volume.subsystem.as_ref().map(ToString::to_string),
        provisioning: not_thin(volume.provisioning),
        replicas: volume.replicas,
        stripe_unit: volume.stripe_unit.map(|unit| unit.0),
        width: volume.width,
        placement: volume.placement.clone(),
        ..VolumeCreate::default()
    }
}

/// The call that creates a volume with a device.
pub(crate) fn on_device(volume: &VolumeRequest) -> VolumeCreate {
    VolumeCreate {
        name: volume.name.to_string(),
        bytes: volume.len.0,
        device: Some(volume.device.to_string()),
        block_size: volume.block_size.map(BlockSize::bytes),
        subsystem: volume.subsystem.as_ref().map(ToString::to_string),
        provisioning: not_thin(volume.provisioning),
        ..VolumeCreate::default()
    }
}

fn not_thin(provisioning: Provisioning) -> Option<String> {
    (provisioning != Provisioning::Thin).then(|| provisioning.to_string())
}
