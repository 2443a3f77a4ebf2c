//! The metrics of devices, and of the wear of models.

use std::fmt;

use nearflash_api::{BackingInfo, BackingState, DeviceInfo, FlashInfo, PcmInfo};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::family::{Family, Labels};
use super::label::Label;
use crate::node::Node;

const SIZE: Family = Family::bytes("nearflash_device_size", "Size of the device");
const DATA: Family =
    Family::bytes("nearflash_device_data", "Bytes of the device for volumes, used and free");
const FREE: Family =
    Family::bytes("nearflash_device_free", "Bytes of the device that no volume uses");
const SUSPECT: Family = Family::plain(
    "nearflash_device_suspect",
    "1 if a flush or a durable write failed: all of them fail until an operator clears the device",
);
const TRUNCATED: Family = Family::plain(
    "nearflash_device_truncated",
    "1 if the file of the device ends before the device does: all writes fail",
);
const UNALLOCATED: Family = Family::bytes(
    "nearflash_device_unallocated",
    "Bytes of the device that have no storage in the file system of its file yet",
);
const ROOM: Family = Family::bytes(
    "nearflash_device_file_system_free",
    "Bytes that are free in the file system of the device's file",
);
const OVERCOMMITTED: Family = Family::plain(
    "nearflash_device_overcommitted",
    "1 if less is free in the file system than the devices in it have not allocated yet",
);
const FULL: Family = Family::plain(
    "nearflash_device_full",
    "1 if the file system of the device's file is full: writes to blocks without storage fail",
);
const VOLATILE: Family = Family::plain(
    "nearflash_device_volatile_cache",
    "1 if a loss of power loses writes that were answered and not flushed",
);
const WRITTEN: Family =
    Family::bytes("nearflash_device_written", "Bytes that were written to the model");
const MOVED: Family = Family::plain(
    "nearflash_device_moved_units",
    "Pages or lines that the model moved for garbage collection and wear levelling",
);
const AMPLIFICATION: Family = Family::plain(
    "nearflash_device_write_amplification_ratio",
    "Bytes that the model of flash programmed for each byte that was written",
);
const LIFE: Family = Family::plain(
    "nearflash_device_life_used_ratio",
    "The part of the model's endurance that is used; 1 is all of it",
);
const REPLACEMENTS: Family = Family::plain(
    "nearflash_device_replacement_blocks",
    "Blocks of the model of flash that can still replace worn ones",
);
const WORN_OUT: Family =
    Family::plain("nearflash_device_worn_out", "1 if the model is worn out, and refuses writes");

/// A snapshot of all devices.
#[derive(Debug)]
pub(super) struct DeviceMetrics {
    devices: Vec<OneDevice>,
}

#[derive(Debug)]
struct OneDevice {
    label: Label,
    kind: Label,
    info: DeviceInfo,
    wear: Option<Wear>,
}

/// The figures that models of flash and of phase-change memory share.
#[derive(Debug)]
struct Wear {
    written: u64,
    moved: u64,
    life_used: f64,
    is_worn_out: bool,
}

impl Wear {
    fn of_flash(it: &FlashInfo) -> Self {
        Self {
            written: it.host_bytes,
            moved: it.moved_pages + it.levelled_pages,
            life_used: it.life_used,
            is_worn_out: it.worn_out,
        }
    }

    fn of_pcm(it: &PcmInfo) -> Self {
        Self {
            written: it.host_bytes,
            moved: it.moved_lines,
            life_used: it.life_used,
            is_worn_out: it.worn_out,
        }
    }
}

impl Node {
    pub(super) fn device_metrics(&self) -> DeviceMetrics {
        DeviceMetrics { devices: self.device_infos().into_iter().map(OneDevice::of).collect() }
    }
}

impl OneDevice {
    fn of(info: DeviceInfo) -> Self {
        let pcm = || info.pcm.as_ref().map(Wear::of_pcm);
        let wear = info.flash.as_ref().map(Wear::of_flash).or_else(pcm);
        Self { label: Label::of(&info.name), kind: Label::of(&info.kind), info, wear }
    }
}

impl DeviceMetrics {
    fn each<V>(
        &self,
        value: impl Fn(&DeviceInfo) -> V,
    ) -> impl Iterator<Item = (Labels<'_, 1>, V)> {
        self.some(move |it| Some(value(&it.info)))
    }

    fn backings<V>(
        &self,
        value: impl Fn(&BackingInfo) -> V,
    ) -> impl Iterator<Item = (Labels<'_, 1>, V)> {
        self.some(move |it| it.info.backing.as_ref().map(&value))
    }

    /// For each device that is a file, whether its file system is in this state.
    fn are(&self, state: BackingState) -> impl Iterator<Item = (Labels<'_, 1>, u32)> {
        self.backings(move |it| u32::from(it.state == state))
    }

    fn worn<V>(&self, value: impl Fn(&Wear) -> V) -> impl Iterator<Item = (Labels<'_, 1>, V)> {
        self.some(move |it| it.wear.as_ref().map(&value))
    }

    fn flash<V>(
        &self,
        value: impl Fn(&FlashInfo) -> V,
    ) -> impl Iterator<Item = (Labels<'_, 1>, V)> {
        self.some(move |it| it.info.flash.as_ref().map(&value))
    }

    fn some<V>(
        &self,
        value: impl Fn(&OneDevice) -> Option<V>,
    ) -> impl Iterator<Item = (Labels<'_, 1>, V)> {
        self.devices.iter().filter_map(move |it| Some(([("device", &it.label)], value(it)?)))
    }
}

impl Collector for DeviceMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        let sizes = self.devices.iter();
        let sizes = sizes.map(|it| ([("device", &it.label), ("kind", &it.kind)], it.info.bytes));
        SIZE.gauges(encoder, sizes)?;
        DATA.gauges(encoder, self.each(|it| it.data_bytes))?;
        FREE.gauges(encoder, self.each(|it| it.free_bytes))?;
        SUSPECT.gauges(encoder, self.each(|it| u32::from(it.suspect)))?;
        TRUNCATED.gauges(encoder, self.each(|it| u32::from(it.truncated)))?;
        UNALLOCATED.gauges(encoder, self.backings(|it| it.unallocated_bytes))?;
        ROOM.gauges(encoder, self.backings(|it| it.free_bytes))?;
        OVERCOMMITTED.gauges(encoder, self.are(BackingState::Overcommitted))?;
        FULL.gauges(encoder, self.are(BackingState::Full))?;
        VOLATILE.gauges(encoder, self.each(|it| u32::from(it.volatile_cache)))?;
        WRITTEN.counters(encoder, self.worn(|it| it.written))?;
        MOVED.counters(encoder, self.worn(|it| it.moved))?;
        AMPLIFICATION.gauges(encoder, self.flash(|it| it.write_amplification))?;
        LIFE.gauges(encoder, self.worn(|it| it.life_used))?;
        REPLACEMENTS.gauges(encoder, self.flash(|it| it.replacement_blocks))?;
        WORN_OUT.gauges(encoder, self.worn(|it| u32::from(it.is_worn_out)))
    }
}
