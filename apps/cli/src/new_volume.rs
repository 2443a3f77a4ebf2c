//! The volume of `nearflash volume create`: on a device of the node, or in the space of its cluster.

use nearflash_api::{ClusterVolumeCreate, VolumeCreate};
use nearflash_config::{ValueError, parse_block_size, parse_volume};
use nearflash_space::{Name, Provisioning};
use nearflash_units::BlockSize;

use crate::args::NewVolumeArgs;

/// The call that creates a volume.
#[derive(Debug)]
pub(crate) enum NewVolume {
    /// On a device of the node.
    OnDevice(VolumeCreate),
    /// In the space of the cluster.
    InCluster(ClusterVolumeCreate),
}

/// The reason why a description of a volume is not valid.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NewVolumeError {
    /// A name alone.
    #[error(
        "volume '{name}' has no size: add --size SIZE, with --device DEVICE for a device of this node, or \
         with --replicas N for the space of a cluster"
    )]
    NoSize { name: String },
    /// A name with a size.
    #[error(
        "volume '{name}' has no place: add --device DEVICE for a device of this node, or --replicas N for \
         the space of its cluster"
    )]
    NoPlace { name: String },
    /// The short form, with flags.
    #[error("'{text}' has a size and a device already: leave out --size, or write only the name")]
    SizeTwice { text: String },
    /// A part is not valid.
    #[error(transparent)]
    Value(#[from] ValueError),
}

impl NewVolume {
    /// The volume that the arguments describe.
    ///
    /// # Errors
    /// When they lack a part, or a part is not valid. The node checks the rest.
    pub(crate) fn of(text: String, given: NewVolumeArgs) -> Result<Self, NewVolumeError> {
        let NewVolumeArgs { size, device, replicas, .. } = given;
        if size.is_some() && text.contains('=') {
            return Err(NewVolumeError::SizeTwice { text });
        }
        if size.is_some() {
            text.parse::<Name>().map_err(ValueError::from)?;
        }
        match (size, device, replicas) {
            (Some(size), Some(device), _) => Ok(Self::OnDevice(VolumeCreate {
                name: text,
                bytes: size.0,
                device,
                block_size: block_size(given.block_size.as_deref())?,
                subsystem: given.subsystem,
                provisioning: given.provisioning,
            })),
            (Some(size), None, Some(replicas)) => Ok(Self::InCluster(ClusterVolumeCreate {
                name: text,
                bytes: size.0,
                replicas,
                stripe_unit: given.stripe.map(|unit| unit.0),
                width: given.width,
                placement: given.placement,
                subsystem: given.subsystem,
                provisioning: given.provisioning,
            })),
            (Some(_), None, None) => Err(NewVolumeError::NoPlace { name: text }),
            (None, ..) if text.parse::<Name>().is_ok() => {
                Err(NewVolumeError::NoSize { name: text })
            }
            (None, ..) => short(&text),
        }
    }
}

fn block_size(text: Option<&str>) -> Result<Option<u32>, ValueError> {
    Ok(text.map(parse_block_size).transpose()?.map(BlockSize::bytes))
}

/// The form `NAME=SIZE@DEVICE`.
fn short(text: &str) -> Result<NewVolume, NewVolumeError> {
    let volume = parse_volume(text)?;
    Ok(NewVolume::OnDevice(VolumeCreate {
        name: volume.name.to_string(),
        bytes: volume.len.0,
        device: volume.device.to_string(),
        block_size: volume.block_size.map(BlockSize::bytes),
        subsystem: volume.subsystem.map(|name| name.to_string()),
        provisioning: (volume.provisioning != Provisioning::Thin)
            .then(|| volume.provisioning.to_string()),
    }))
}
