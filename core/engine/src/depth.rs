//! Queue depth: the number of a core's requests on each device at a time, which is bounded.

use nearflash_device::DeviceId;
use nearflash_request::{BlockRange, Operation, Request};
use nearflash_space::{Map, VolumeEntry, VolumeTable};
use nearflash_units::index;

/// The devices on which the blocks of a request lie, without duplicates.
#[derive(Debug)]
pub(crate) enum Devices {
    None,
    One(DeviceId),
    /// Two or more.
    Several(Box<[DeviceId]>),
}

/// The number of requests under way, by device.
#[derive(Debug)]
pub(crate) struct Depths {
    max: u32,
    begun: Vec<u32>,
}

impl Devices {
    /// The devices of a request on the volume of `entry`. Allocates only if there are several.
    #[inline]
    pub(crate) fn of(request: &Request, entry: &VolumeEntry, volumes: &VolumeTable) -> Self {
        let mut devices = entry.map.devices();
        match &request.operation {
            Operation::Admit(_) => Self::None,
            Operation::Copy { source, from } => {
                let source = volumes.get(*source).map(|entry| (&entry.map, *from));
                Self::of_ranges([(&entry.map, request.range)].into_iter().chain(source))
            }
            _ if devices.len() < 2 => devices.next().map_or(Self::None, Self::One),
            Operation::Flush => Self::collect(devices),
            Operation::Deallocate { ranges, .. } => {
                Self::of_ranges(ranges.iter().map(|range| (&entry.map, *range)))
            }
            _ => match entry.map.locate_whole(request.range) {
                Some(piece) => Self::One(piece.device),
                None => Self::of_ranges([(&entry.map, request.range)].into_iter()),
            },
        }
    }

    fn of_ranges<'a>(ranges: impl Iterator<Item = (&'a Map, BlockRange)>) -> Self {
        // A range may have any number of stripe units, but only one run on each extent.
        let rows = ranges.filter_map(|(map, range)| map.rows(range)).flatten();
        Self::collect(rows.flat_map(|part| part.runs()).map(|run| run.device))
    }

    fn collect(devices: impl Iterator<Item = DeviceId>) -> Self {
        let mut all = Self::None;
        for device in devices {
            if all.as_slice().contains(&device) {
                continue;
            }
            all = match all {
                Self::None => Self::One(device),
                _ => Self::Several([all.as_slice(), &[device]].concat().into_boxed_slice()),
            };
        }
        all
    }

    #[inline]
    fn as_slice(&self) -> &[DeviceId] {
        match self {
            Self::None => &[],
            Self::One(device) => std::slice::from_ref(device),
            Self::Several(devices) => devices,
        }
    }
}

impl Depths {
    pub(crate) fn new(max: u32, devices: usize) -> Self {
        Self { max: max.max(1), begun: vec![0; devices] }
    }

    /// There are so many devices from now on, no fewer than before.
    pub(crate) fn grow(&mut self, devices: usize) {
        self.begun.resize(devices, 0);
    }

    /// Whether each of the devices has room for one more request.
    #[inline]
    pub(crate) fn have_room(&self, devices: &Devices) -> bool {
        devices.as_slice().iter().all(|device| self.begun[index(device.0)] < self.max)
    }

    /// Counts a request on these devices that has begun.
    #[inline]
    pub(crate) fn begin(&mut self, devices: &Devices) {
        devices.as_slice().iter().for_each(|device| self.begun[index(device.0)] += 1);
    }

    /// Counts a request on these devices that has ended.
    #[inline]
    pub(crate) fn end(&mut self, devices: &Devices) {
        devices.as_slice().iter().for_each(|device| self.begun[index(device.0)] -= 1);
    }
}
