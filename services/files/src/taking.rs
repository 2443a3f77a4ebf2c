//! Taking a volume, so that one process at a time changes its files.

use nearflash::Client;
use nearflash::direct::{OwnerOptions, Ownership};
use nearflash_files::OWNER_BLOCK_OFFSET;

use crate::{Disk as _, FilesError, RemoteFiles, VolumeDisk, format};

/// Who takes a volume, and how.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Taker {
    name: &'static str,
    address: String,
    take_over: bool,
}

impl Taker {
    /// This process. `take_over`: a process that has the volume, and is alive, loses it.
    pub fn process(take_over: bool) -> Self {
        Self { name: "nearflash files", address: process(), take_over }
    }

    /// This process, which mounts the volume.
    pub fn mount(take_over: bool) -> Self {
        Self { name: "nearflash mount", ..Self::process(take_over) }
    }

    /// The node of the volume, which is this process. Nobody else can write the volume meanwhile, so it is
    /// taken over at once.
    pub fn node() -> Self {
        Self { name: "the node itself", address: process(), take_over: true }
    }
}

/// Takes a volume that is formatted for files. A volume with other contents is not written.
pub(crate) fn take(client: &Client, volume: &str, taker: &Taker) -> Result<VolumeDisk, FilesError> {
    let disk = VolumeDisk::new(client.open(volume)?);
    let properties = disk.properties();
    if !properties.is_writable && RemoteFiles::has_owner(client, volume)? {
        return Err(FilesError::OfNode { volume: properties.name });
    }
    format::superblock(&disk)?;
    if !properties.is_writable {
        return Err(FilesError::NotWritable { volume: properties.name });
    }
    own(client, volume, taker)
}

/// A volume to format. If it holds files, it is taken first, so that no process goes on with them.
///
/// # Errors
/// When another process changes the files, unless `taker` takes over.
pub fn take_to_format(
    client: &Client,
    volume: &str,
    taker: &Taker,
) -> Result<VolumeDisk, FilesError> {
    refuse_seal(client, volume)?;
    let disk = VolumeDisk::new(client.open(volume)?);
    match disk.properties().is_writable && format::holds_files(&disk)? {
        true => own(client, volume, taker),
        false => Ok(disk),
    }
}

/// Refuses a seal where a volume is expected: a sealed object covers bytes of files, and is not a volume.
pub(crate) fn refuse_seal(client: &Client, volume: &str) -> Result<(), FilesError> {
    match client.is_sealed(volume) {
        true => Err(FilesError::Sealed { volume: volume.to_owned() }),
        false => Ok(()),
    }
}

fn own(client: &Client, volume: &str, taker: &Taker) -> Result<VolumeDisk, FilesError> {
    refuse_seal(client, volume)?;
    let options = OwnerOptions::new(taker.name, taker.address.clone());
    let options = options.offset(OWNER_BLOCK_OFFSET.0).take_over(taker.take_over);
    Ok(VolumeDisk::owned(Ownership::take(client, volume, &options)?))
}

/// This process, for people.
fn process() -> String {
    let machine = rustix::system::uname();
    let machine = machine.nodename().to_string_lossy();
    format!("{machine}, process {}", std::process::id())
}
