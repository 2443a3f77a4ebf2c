//! The volumes of a configuration, and the text form of one on a device: `NAME=SIZE@DEVICE[,block-size=…][,subsystem=…][,provisioning=…]`.

use nearflash_space::{Name, Provisioning, VolumeRequest};
use nearflash_units::{BlockSize, ByteLen, parse_size};

use super::ValueError;

/// A volume of a configuration.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum VolumeSpec {
    OnDevice(VolumeRequest),
    Unplaced(UnplacedVolume),
}

/// A volume without a device: the node puts it into the space of its cluster. Only a file has such volumes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UnplacedVolume {
    /// Its name.
    pub name: Name,
    /// Its size.
    pub len: ByteLen,
    /// The subsystem; by default one with the volume's name.
    pub subsystem: Option<Name>,
    /// Whether it releases the storage of blocks that hosts deallocate.
    pub provisioning: Provisioning,
    /// The number of nodes that have each byte.
    pub replicas: Option<u8>,
    /// The length on one mirror before the next one follows.
    pub stripe_unit: Option<ByteLen>,
    /// The number of mirrors of a row.
    pub width: Option<u32>,
    /// `spread`, `local:NODE` or `central:NODE`.
    pub placement: Option<String>,
}

impl VolumeSpec {
    pub(super) fn name(&self) -> &Name {
        match self {
            Self::OnDevice(volume) => &volume.name,
            Self::Unplaced(volume) => &volume.name,
        }
    }
}

/// The volumes on devices, and those without a device.
pub(super) fn by_place(volumes: Vec<VolumeSpec>) -> (Vec<VolumeRequest>, Vec<UnplacedVolume>) {
    let (mut placed, mut unplaced) = (Vec::new(), Vec::new());
    for volume in volumes {
        match volume {
            VolumeSpec::OnDevice(volume) => placed.push(volume),
            VolumeSpec::Unplaced(volume) => unplaced.push(volume),
        }
    }
    (placed, unplaced)
}

/// The parts of a volume on a device, as text.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct VolumeParts<'a> {
    pub(super) name: &'a str,
    pub(super) size: &'a str,
    pub(super) device: &'a str,
    pub(super) block_size: Option<&'a str>,
    pub(super) subsystem: Option<&'a str>,
    pub(super) provisioning: Option<&'a str>,
}

impl VolumeParts<'_> {
    pub(super) fn volume(self) -> Result<VolumeRequest, ValueError> {
        Ok(VolumeRequest {
            name: self.name.parse()?,
            len: parse_size(self.size)?,
            device: self.device.parse()?,
            block_size: self.block_size.map(parse_block_size).transpose()?,
            subsystem: self.subsystem.map(str::parse).transpose()?,
            provisioning: self.provisioning.map_or(Ok(Provisioning::Thin), str::parse)?,
        })
    }
}

/// Parses a volume.
///
/// # Errors
/// When the text is not a volume.
pub fn parse_volume(text: &str) -> Result<VolumeRequest, ValueError> {
    let form = || ValueError::Volume(text.into());
    let (name, rest) = text.split_once('=').ok_or_else(form)?;
    let (place, options) = rest.split_once(',').unwrap_or((rest, ""));
    let (size, device) = place.split_once('@').ok_or_else(form)?;
    let mut parts = VolumeParts { name, size, device, ..VolumeParts::default() };
    for option in options.split(',').filter(|option| !option.is_empty()) {
        match option.split_once('=') {
            Some(("block-size", value)) => parts.block_size = Some(value),
            Some(("subsystem", value)) => parts.subsystem = Some(value),
            Some(("provisioning", value)) => parts.provisioning = Some(value),
            _ => return Err(form()),
        }
    }
    parts.volume()
}

/// Parses the block size of a volume.
///
/// # Errors
/// When the text is not a block size that volumes have.
pub fn parse_block_size(text: &str) -> Result<BlockSize, ValueError> {
    match parse_size(text).map(|len| len.0) {
        Ok(512) => Ok(BlockSize::B512),
        Ok(4096) => Ok(BlockSize::B4096),
        _ => Err(ValueError::BlockSize(text.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearflash_units::ByteLen;

    #[test]
    fn volumes_are_read_as_people_write_them() {
        let plain = parse_volume("data=8GiB@flash").unwrap();
        assert_eq!(plain.name.as_str(), "data");
        assert_eq!(plain.len, ByteLen(8 << 30));
        assert_eq!(plain.device.as_str(), "flash");
        assert_eq!((plain.block_size, plain.subsystem), (None, None));
        assert_eq!(plain.provisioning, Provisioning::Thin);
        let full = parse_volume("a=1m@b,block-size=512,subsystem=all,provisioning=thick").unwrap();
        assert_eq!(full.block_size, Some(BlockSize::B512));
        assert_eq!(full.subsystem.unwrap().as_str(), "all");
        assert_eq!(full.provisioning, Provisioning::Thick);
    }

    #[test]
    fn what_is_no_volume_is_refused_with_what_to_write() {
        let refused = |text| parse_volume(text).unwrap_err().to_string();
        for text in ["", "data", "data=8GiB", "data@flash", "data=8GiB@flash,speed=9"] {
            assert!(refused(text).contains("write NAME=SIZE@DEVICE"), "{text}");
        }
        assert!(refused("data=eight@flash").starts_with("'eight' is not a size"));
        assert!(refused("da ta=8G@flash").starts_with("'da ta' is not a valid name"));
        assert_eq!(
            refused("data=8G@flash,block-size=1k"),
            "'1k' is not a valid block size: use 512 or 4096"
        );
        assert_eq!(
            refused("data=8G@flash,provisioning=fat"),
            "'fat' is not a valid provisioning: write thin or thick"
        );
    }
}
