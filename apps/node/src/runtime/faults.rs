//! Faults of devices, as log lines: the first one at once, then one per period with the number of
//! faults since. A medium that dies fails every request.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nearflash_device::DeviceId;
use nearflash_media::Device;
use nearflash_space::Name;
use nearflash_units::ByteOffset;

/// The period without further lines on a device.
const QUIET: Duration = Duration::from_secs(10);

/// The lines that one core has logged on its devices.
pub(super) struct Faults {
    /// A `DeviceId` is an index into this list.
    names: Vec<Name>,
    said: HashMap<DeviceId, Said>,
    /// Those that are known to be worn out, which they stay.
    worn_out: HashSet<DeviceId>,
}

struct Said {
    at: Instant,
    /// The number of faults since then.
    more: u64,
}

impl Faults {
    pub(super) fn new(devices: &[Arc<Device>]) -> Self {
        Self::of(devices.iter().map(|device| device.name().clone()).collect())
    }

    fn of(names: Vec<Name>) -> Self {
        Self { names, said: HashMap::new(), worn_out: HashSet::new() }
    }

    /// The line for a device that failed a flush or a durable write.
    pub(super) fn loss(&self, device: DeviceId) -> String {
        let name = self.name(device);
        format!(
            "device '{name}' may have lost writes that it had acknowledged: flushes and durable \
             writes fail until 'nearflash device clear {name}'"
        )
    }

    /// The line for a device that is worn out, once.
    pub(super) fn worn_out(&mut self, device: DeviceId) -> Option<String> {
        let is_new = self.worn_out.insert(device);
        is_new.then(|| {
            let name = self.name(device);
            format!(
                "device '{name}' is worn out, and refuses writes: read its volumes, and copy them to \
                 another device"
            )
        })
    }

    /// The name of a device.
    fn name(&self, device: DeviceId) -> &str {
        let place = usize::try_from(device.0).ok();
        place.and_then(|place| self.names.get(place)).map_or("?", Name::as_str)
    }

    /// The line for a fault, unless the device has had one within [`QUIET`].
    pub(super) fn note(
        &mut self,
        now: Instant,
        device: DeviceId,
        offset: ByteOffset,
        errno: i32,
    ) -> Option<String> {
        let more = match self.said.get_mut(&device) {
            Some(said) if now.saturating_duration_since(said.at) < QUIET => {
                said.more += 1;
                return None;
            }
            Some(said) => said.more,
            None => 0,
        };
        self.said.insert(device, Said { at: now, more: 0 });
        let name = self.name(device);
        let before = match more {
            0 => String::new(),
            more => format!(" ({more} more since the last line)"),
        };
        Some(format!("device '{name}' failed a request: {}{before}", cause(offset, errno)))
    }
}

fn cause(ByteOffset(offset): ByteOffset, errno: i32) -> String {
    match errno {
        0 => format!("it ends too early, at byte {offset}: it has been truncated"),
        errno => {
            let error = io::Error::from_raw_os_error(errno);
            format!("{error} at byte {offset}: see 'dmesg'")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dying_device_is_named_at_once_and_then_once_in_a_while() {
        let mut faults = Faults::of(vec!["flash".parse().unwrap(), "other".parse().unwrap()]);
        let start = Instant::now();
        let mut note =
            |at, device, errno| faults.note(at, DeviceId(device), ByteOffset(4096), errno);
        let first = note(start, 0, 5).unwrap();
        assert_eq!(
            first,
            "device 'flash' failed a request: Input/output error (os error 5) at byte 4096: see \
             'dmesg'"
        );
        for _ in 0..7 {
            assert_eq!(note(start + QUIET / 2, 0, 5), None);
        }
        let other = note(start, 1, 0).unwrap();
        let said = "device 'other' failed a request: it ends too early, at byte 4096";
        assert!(other.starts_with(said), "{other}");
        let later = note(start + QUIET, 0, 5).unwrap();
        assert!(later.ends_with("(7 more since the last line)"), "{later}");
        assert_eq!(note(start + QUIET, 0, 5), None);
    }
    #[test]
    fn a_worn_out_device_is_named_once() {
        let mut faults = Faults::of(vec!["flash".parse().unwrap(), "other".parse().unwrap()]);
        assert_eq!(
            faults.worn_out(DeviceId(0)).unwrap(),
            "device 'flash' is worn out, and refuses writes: read its volumes, and copy them to \
             another device"
        );
        assert_eq!(faults.worn_out(DeviceId(0)), None);
        assert!(faults.worn_out(DeviceId(1)).is_some());
    }
}
