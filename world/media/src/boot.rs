//! The number by which other nodes learn that this node may have lost writes.

use std::sync::Arc;

use uuid::Uuid;

use crate::{Device, Kind};

/// A number that differs from the last start's if writes that no flush followed may have been lost
/// since then. Memory loses them with the process, and a volatile cache with the machine's power. With
/// volumes of other nodes, the process alone remembers whether these nodes have lost any.
pub fn boot(devices: &[Arc<Device>], has_remotes: bool) -> u64 {
    let is_memory = |device: &Arc<Device>| matches!(device.kind(), Kind::Ram(_));
    let is_of_process = has_remotes || devices.iter().any(is_memory);
    if !is_of_process && !devices.iter().any(|device| device.properties().volatile_cache) {
        return 1;
    }
    let machine = || std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
    let of_machine = || machine().and_then(|text| text.trim().parse::<Uuid>().ok());
    let number = if is_of_process { None } else { of_machine() };
    number.unwrap_or_else(Uuid::new_v4).as_u64_pair().0.max(1)
}
