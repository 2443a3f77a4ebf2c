//! Taking a volume, so that one process at a time changes its files.

use nearflash::Client;
use nearflash::direct::{OwnerOptions, Ownership};
use nearflash_files::OWNER_BLOCK_OFFSET;

use crate::{Disk as _, FilesError, VolumeDisk, format};

/// Takes a volume that is formatted for files. A volume with other contents is not written.
pub(crate) fn take(
    client: &Client,
    volume: &str,
    take_over: bool,
) -> Result<VolumeDisk, FilesError> {
    let disk = VolumeDisk::new(client.open(volume)?);
    format::superblock(&disk)?;
    let properties = disk.properties();
    if !properties.is_writable {
        return Err(FilesError::NotWritable { volume: properties.name });
    }
    let options = OwnerOptions::new("nearflash files", process());
    let options = options.offset(OWNER_BLOCK_OFFSET.0).take_over(take_over);
    Ok(VolumeDisk::owned(Ownership::take(client, volume, &options)?))
}

/// This process, for people.
fn process() -> String {
    let machine = rustix::system::uname();
    let machine = machine.nodename().to_string_lossy();
    format!("{machine}, process {}", std::process::id())
}
