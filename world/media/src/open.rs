//! Taking a device: inspect it, refuse foreign data, write the label.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use nearflash_device::{DeviceProperties, OnDiskError};
use nearflash_space::{GRANULE, LABEL_AREA_LEN, LABEL_LEN, LABEL_OFFSETS, Label, Name};
use nearflash_units::{BlockSize, ByteLen, ByteOffset};
use rustix::fs::fdatasync;
use uuid::Uuid;

use crate::NullDelays;
use crate::device::{Device, FileState, Kind, UringDevice};
use crate::error::OpenError;
use crate::file::{Asked, OpenFile, block_discards, punches, releases, write_at};
use crate::probe::what_it_holds;
use crate::{Backing, DeviceSpec, ModelDevice, RamRegion};

/// The smallest device: the label area and one granule of data.
const LEN_MIN: ByteLen = ByteLen(2 * GRANULE.0);

/// The catalog's record of a device that holds volumes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KnownDevice {
    /// Its name.
    pub name: Name,
    /// The UUID in its label.
    pub uuid: Uuid,
    /// Its length.
    pub len: ByteLen,
}

/// The installation that opens devices.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// The identity of the installation.
    pub node: Uuid,
    /// Every device that holds its volumes.
    pub known: &'a [KnownDevice],
    /// The cluster for which slices are opened; `None` for devices of the node alone.
    pub cluster: Option<Uuid>,
}

/// A device that can be taken. Nothing has been written to it yet.
#[derive(Debug)]
pub struct Candidate {
    pub(crate) spec: DeviceSpec,
    node: Uuid,
    cluster: Option<Uuid>,
    pub(crate) medium: Medium,
}

#[derive(Debug)]
pub(crate) enum Medium {
    File {
        file: OpenFile,
        /// The label of this installation, if the device has one.
        label: Option<Label>,
        /// The offsets of the label's copies that must be written, in this order.
        stale_copies: Vec<ByteOffset>,
    },
    Ram(RamRegion),
    Null(ByteLen, NullDelays),
    Model(Box<ModelDevice>),
}

/// Opens a device and checks whether it can be taken. It creates an absent file, and writes nothing
/// else.
///
/// # Errors
/// When the device cannot be taken: the message names the device, the fault and the remedy.
pub fn open(spec: &DeviceSpec, claim: Claim<'_>) -> Result<Candidate, OpenError> {
    open_after(spec, claim, None)
}

/// [`open`] after a node was killed: waits until the operations of that process, `ended`, are over.
///
/// # Errors
/// As [`open`], and when those operations are not over within a minute.
pub fn open_after(
    spec: &DeviceSpec,
    claim: Claim<'_>,
    ended: Option<u32>,
) -> Result<Candidate, OpenError> {
    let name = &spec.name;
    let medium = match &spec.backing {
        Backing::File { path, size } => {
            let asked = Asked { name, path, is_block: false, page_cache: spec.page_cache, ended };
            let file = open_or_create(&asked, *size, claim)?;
            let (len, block_size) = (file.len, file.block_size);
            let medium = inspect(spec, &asked, file, claim)?;
            let blocks = |len| block_size.blocks_in(len);
            if let Some(size) = size.filter(|size| blocks(*size) != blocks(len)) {
                let (name, path) = (name.clone(), path.clone());
                return Err(OpenError::SizeDiffers { name, path, len, size });
            }
            medium
        }
        Backing::Block { path } => {
            let asked = Asked { name, path, is_block: true, page_cache: spec.page_cache, ended };
            let file = asked.open()?.ok_or_else(|| absent(&asked, claim))?;
            inspect(spec, &asked, file, claim)?
        }
        Backing::Ram { size } => {
            check_fits(name, *size, GRANULE)?;
            Medium::Ram(RamRegion::reserve(name, *size)?)
        }
        Backing::Null { size, delays } => {
            check_fits(name, *size, GRANULE)?;
            Medium::Null(*size, *delays)
        }
        Backing::Model(model) => {
            check_fits(name, model.len(), GRANULE)?;
            Medium::Model(Box::new(ModelDevice::open(name, model)?))
        }
    };
    let (node, cluster) = (claim.node, claim.cluster);
    Ok(Candidate { spec: spec.clone(), node, cluster, medium })
}

fn open_or_create(
    asked: &Asked<'_>,
    size: Option<ByteLen>,
    claim: Claim<'_>,
) -> Result<OpenFile, OpenError> {
    if let Some(file) = asked.open()? {
        return Ok(file);
    }
    let size = size.filter(|_| !is_known(asked.name, claim)).ok_or_else(|| absent(asked, claim))?;
    check_fits(asked.name, size, LEN_MIN)?;
    asked.create(size)?;
    asked.open()?.ok_or_else(|| absent(asked, claim))
}

fn is_known(name: &Name, claim: Claim<'_>) -> bool {
    claim.known.iter().any(|known| known.name == *name)
}

fn absent(asked: &Asked<'_>, claim: Claim<'_>) -> OpenError {
    let (name, path) = (asked.name.clone(), asked.path.to_owned());
    if is_known(asked.name, claim) {
        OpenError::Lost { name, path }
    } else if asked.is_block {
        let source = rustix::io::Errno::NOENT.into();
        OpenError::Io { name, action: "open", path, source }
    } else {
        OpenError::Absent { name, path }
    }
}

fn check_fits(name: &Name, len: ByteLen, len_min: ByteLen) -> Result<(), OpenError> {
    if len < len_min {
        return Err(OpenError::TooSmall { name: name.clone(), len, len_min });
    }
    Ok(())
}

/// Reads the device's contents, and checks whether it can be taken.
fn inspect(
    spec: &DeviceSpec,
    asked: &Asked<'_>,
    file: OpenFile,
    claim: Claim<'_>,
) -> Result<Medium, OpenError> {
    let read = |offset, len: ByteLen| {
        file.read(offset, len.to_usize()).map_err(|source| OpenError::Io {
            name: asked.name.clone(),
            action: "read",
            path: asked.path.to_owned(),
            source,
        })
    };
    // A device that was cut to less than 1 MiB may still have a label, which identifies it.
    let head = read(ByteOffset(0), ByteLen(file.len.0.min(LABEL_AREA_LEN.0)))?;
    let copies = copies_in(&head);
    let [first, second] = copies.clone();
    match Label::choose(first, second) {
        Ok(label) if label.node == claim.node && label.cluster == claim.cluster => {
            check_ours(asked, file.len, &label, claim)?;
            let stale_copies = stale_copies(&label, asked.name, &copies);
            return Ok(Medium::File { file, label: Some(label), stale_copies });
        }
        Ok(label) => refuse_foreign(spec, asked, &label, claim)?,
        Err(OnDiskError::Absent) => {}
        Err(source) => refuse_damaged(spec, asked, source, claim)?,
    }
    refuse_instead_of_known(asked, claim)?;
    check_fits(asked.name, file.len, LEN_MIN)?;
    let tail_start = ByteOffset((file.len.0 - GRANULE.0) / 65_536 * 65_536);
    let tail = read(tail_start, ByteLen(file.len.0 - tail_start.0))?;
    match what_it_holds(&head, &tail, file.len.0) {
        Some(what) if !spec.wipe => Err(OpenError::Holds { spec: Box::new(spec.clone()), what }),
        _ => Ok(Medium::File { file, label: None, stale_copies: LABEL_OFFSETS.into() }),
    }
}

/// The copies of the label that must be rewritten, the invalid ones first, so that one copy is
/// valid at any moment.
fn stale_copies(
    label: &Label,
    name: &Name,
    copies: &[Result<Label, OnDiskError>; 2],
) -> Vec<ByteOffset> {
    let (counting, others): (Vec<_>, Vec<_>) =
        LABEL_OFFSETS.iter().zip(copies).partition(|(_, copy)| copy.as_ref() == Ok(label));
    // A device without volumes may be renamed, and then every copy is stale.
    let counting = counting.into_iter().filter(|_| label.name != *name);
    others.into_iter().chain(counting).map(|(offset, _)| *offset).collect()
}

fn copies_in(head: &[u8]) -> [Result<Label, OnDiskError>; 2] {
    LABEL_OFFSETS.map(|offset| decode_at(head, ByteLen(offset.0).to_usize()))
}

fn decode_at(head: &[u8], offset: usize) -> Result<Label, OnDiskError> {
    let bytes = head.get(offset..).and_then(|rest| rest.first_chunk::<LABEL_LEN>());
    bytes.map_or(Err(OnDiskError::Absent), Label::decode)
}

/// Checks that a label of this installation agrees with the catalog and with the device's length.
fn check_ours(
    asked: &Asked<'_>,
    len: ByteLen,
    label: &Label,
    claim: Claim<'_>,
) -> Result<(), OpenError> {
    let (name, path) = (asked.name.clone(), asked.path.to_owned());
    let by_uuid = claim.known.iter().find(|known| known.uuid == label.device);
    if let Some(known) = by_uuid.filter(|known| known.name != name) {
        return Err(OpenError::Renamed { name, recorded: known.name.clone() });
    }
    if by_uuid.is_none() {
        refuse_instead_of_known(asked, claim)?;
    }
    let recorded = by_uuid.map_or(label.device_len, |known| known.len);
    match len.cmp(&recorded) {
        std::cmp::Ordering::Less => Err(OpenError::Shorter { name, path, len, recorded }),
        std::cmp::Ordering::Greater => Err(OpenError::Longer { name, path, len, recorded }),
        std::cmp::Ordering::Equal => Ok(()),
    }
}

/// Refuses a device without the expected label in place of one that holds volumes.
fn refuse_instead_of_known(asked: &Asked<'_>, claim: Claim<'_>) -> Result<(), OpenError> {
    match claim.known.iter().find(|known| known.name == *asked.name) {
        Some(known) => Err(OpenError::NotTheOne {
            name: asked.name.clone(),
            path: asked.path.to_owned(),
            recorded: known.uuid,
        }),
        None => Ok(()),
    }
}

fn refuse_foreign(
    spec: &DeviceSpec,
    asked: &Asked<'_>,
    label: &Label,
    claim: Claim<'_>,
) -> Result<(), OpenError> {
    refuse_instead_of_known(asked, claim)?;
    let has_volumes = claim.known.iter().any(|known| known.uuid == label.device);
    if spec.wipe && !has_volumes {
        return Ok(());
    }
    let (spec, its_name) = (Box::new(spec.clone()), label.name.clone());
    match (label.cluster, claim.cluster) {
        (Some(cluster), None) => return Err(OpenError::IsSlice { spec, cluster }),
        (Some(cluster), Some(own)) if cluster != own => {
            return Err(OpenError::OfOtherCluster { spec, cluster });
        }
        (None, Some(_)) if label.node == claim.node => return Err(OpenError::IsDevice { spec }),
        _ => {}
    }
    let node = label.node;
    Err(match claim.known.is_empty() {
        true => OpenError::Unclaimed { spec, node, its_name },
        false => OpenError::Foreign { spec, node, its_name },
    })
}

fn refuse_damaged(
    spec: &DeviceSpec,
    asked: &Asked<'_>,
    source: OnDiskError,
    claim: Claim<'_>,
) -> Result<(), OpenError> {
    let remedy = match source {
        OnDiskError::Version { .. } => "use the nearflash that wrote it, or a later one",
        _ if is_known(asked.name, claim) => "restore the device's first MiB from a backup",
        _ => "restore its first MiB, or add ',wipe' to erase it",
    };
    if spec.wipe && !is_known(asked.name, claim) && !matches!(source, OnDiskError::Version { .. }) {
        return Ok(());
    }
    Err(OpenError::Label { spec: Box::new(spec.clone()), source, remedy })
}

impl Candidate {
    /// The device's name.
    pub fn name(&self) -> &Name {
        &self.spec.name
    }

    /// Takes the device: erases its contents if that is configured, and writes the label where
    /// there is no valid copy. `fresh` becomes the UUID of a device that has none.
    ///
    /// # Errors
    /// When the device cannot be written.
    pub fn take(self, fresh: Uuid) -> Result<Device, OpenError> {
        let (name, path) = (self.spec.name.clone(), self.spec.path().to_owned());
        let (mut device, labelling) = self.hold(fresh);
        let Some(labelling) = labelling else { return Ok(device) };
        let taken = labelling.write(&device).and_then(|()| match &device.kind {
            // The label's own area is the one place where this trial destroys no data.
            Kind::Uring(file) if !file.is_block => {
                releases(&file.fd, ByteOffset(LABEL_AREA_LEN.0 - 65_536))
            }
            _ => Ok(device.properties.deallocates),
        });
        device.properties.deallocates = taken.map_err(|source| OpenError::Io {
            name,
            action: "write the label of",
            path,
            source,
        })?;
        Ok(device)
    }

    /// The device, to which nothing has been written yet, and its label, unless it has none. `fresh`
    /// becomes the UUID of a device that has none.
    pub(crate) fn hold(self, fresh: Uuid) -> (Device, Option<Labelling>) {
        let spec = DeviceSpec { wipe: false, ..self.spec.clone() }.to_string();
        let (mut device, labelling) = self.held(fresh);
        device.source = spec.split_once('=').map(|(_, source)| source.into());
        (device, labelling)
    }

    fn held(self, fresh: Uuid) -> (Device, Option<Labelling>) {
        let name = self.spec.name.clone();
        match self.medium {
            Medium::Ram(region) => {
                let properties = in_memory(region.len(), false);
                (Device::unlabelled(name, fresh, properties, Kind::Ram(region)), None)
            }
            Medium::Null(len, delays) => {
                let properties = in_memory(len, true);
                (Device::unlabelled(name, fresh, properties, Kind::Null(delays)), None)
            }
            Medium::Model(model) => {
                let properties = in_memory(model.spec().len(), model.contents().is_none());
                (Device::unlabelled(name, fresh, properties, Kind::Model(model)), None)
            }
            Medium::File { file, label: own, stale_copies } => {
                let fresh = Label {
                    cluster: self.cluster,
                    ..fresh_label(&name, self.node, fresh, file.len)
                };
                let deallocates = if file.is_block {
                    block_discards(&file.fd)
                } else {
                    punches(&file.fd, file.len)
                };
                let device = labelled(file, next_label(own.clone(), fresh.clone()), deallocates);
                (device, Some(Labelling { own, fresh, stale_copies }))
            }
        }
    }
}

/// The label that a device is going to have.
#[derive(Debug)]
pub(crate) struct Labelling {
    /// The label of this installation, if the device has one.
    own: Option<Label>,
    fresh: Label,
    stale_copies: Vec<ByteOffset>,
}

impl Labelling {
    /// Writes the label where there is no valid copy.
    pub(crate) fn write(self, device: &Device) -> io::Result<()> {
        let Kind::Uring(file) = &device.kind else { return Ok(()) };
        write_label(&file.fd, self.own, self.fresh, &self.stale_copies).map(drop)
    }
}

/// The label of a device that has none.
fn fresh_label(name: &Name, node: Uuid, device: Uuid, device_len: ByteLen) -> Label {
    let behind_label = device_len.0.saturating_sub(LABEL_AREA_LEN.0);
    Label {
        generation: 1,
        device,
        node,
        cluster: None,
        name: name.clone(),
        device_len,
        data_start: ByteOffset(LABEL_AREA_LEN.0),
        data_len: ByteLen(behind_label / GRANULE.0 * GRANULE.0),
    }
}

/// The medium of a label. Only synced writes are sure to survive a power cut.
trait LabelMedium {
    fn write(&self, offset: ByteOffset, from: &[u8]) -> io::Result<()>;
    fn sync(&self) -> io::Result<()>;
}

impl LabelMedium for OwnedFd {
    fn write(&self, offset: ByteOffset, from: &[u8]) -> io::Result<()> {
        write_at(self, offset, from)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(fdatasync(self)?)
    }
}

/// The label that a device gets: its own one, with the name that it has now, or a fresh one.
fn next_label(own: Option<Label>, fresh: Label) -> Label {
    match own {
        Some(own) if own.name != fresh.name => {
            Label { generation: own.generation + 1, name: fresh.name, ..own }
        }
        Some(own) => own,
        None => fresh,
    }
}

/// Writes the stale copies one after the other, so that one copy is valid at any moment. Returns
/// the written label.
fn write_label(
    medium: &impl LabelMedium,
    own: Option<Label>,
    fresh: Label,
    stale_copies: &[ByteOffset],
) -> io::Result<Label> {
    if own.is_none() {
        erase_ends(medium, fresh.device_len)?;
    }
    let label = next_label(own, fresh);
    for offset in stale_copies {
        medium.write(*offset, &label.encode())?;
        medium.sync()?;
    }
    Ok(label)
}

/// Zeroes the places of signatures durably, so that no tool finds an old signature next to the
/// label.
fn erase_ends(medium: &impl LabelMedium, len: ByteLen) -> io::Result<()> {
    let zeroes = vec![0; GRANULE.to_usize()];
    medium.write(ByteOffset(0), &zeroes)?;
    let tail_start = ByteOffset((len.0 - GRANULE.0) / 65_536 * 65_536);
    medium.write(tail_start, &vec![0; ByteLen(len.0 - tail_start.0).to_usize()])?;
    medium.sync()
}

fn labelled(file: OpenFile, label: Label, deallocates: bool) -> Device {
    let properties = DeviceProperties {
        len: file.len,
        block_size: file.block_size,
        volatile_cache: file.volatile_cache,
        reads_as_zeroes: false,
        deallocates,
    };
    let OpenFile { fd, is_block, direct, .. } = file;
    Device {
        name: label.name,
        uuid: label.device,
        properties,
        health: Arc::default(),
        data_start: label.data_start,
        data_len: label.data_len,
        kind: Kind::Uring(UringDevice { fd, is_block, direct }),
        file: FileState::default(),
        source: None,
    }
}

/// The properties of RAM, the null device and the models, which have no volatile cache that a flush could save.
fn in_memory(len: ByteLen, reads_as_zeroes: bool) -> DeviceProperties {
    DeviceProperties {
        len,
        block_size: BlockSize::B512,
        volatile_cache: false,
        reads_as_zeroes,
        deallocates: true,
    }
}

#[cfg(test)]
mod tests;
