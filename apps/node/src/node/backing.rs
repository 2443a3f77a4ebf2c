//! Devices that are files: whether their file system has room for what they have not allocated yet, and whether
//! their files are still whole. A thread looks at them every two seconds, and logs what changes.
//!
//! A sparse file promises more than it has. Its device is *overcommitted* while the file system has less free than all
//! devices in it may still need, and *full* from the first write that fails for lack of room.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use nearflash_api::{BackingInfo, BackingState, Level};
use nearflash_media::{Device, FileRoom};
use nearflash_units::ByteLen;
use uuid::Uuid;

use super::Node;

/// The time between two looks.
const PERIOD: Duration = Duration::from_secs(2);

/// A file system with less than this has no room: what is left may be out of reach, for example metadata.
const FREE_MIN: ByteLen = ByteLen(1 << 20);

/// The time for which a device counts as full after a write that failed for lack of room. It covers quotas and
/// limits, which the free space of the file system does not show.
const FULL_FOR: Duration = Duration::from_secs(60);

/// The stack of the thread, which does little.
const STACK_LEN: usize = 128 << 10;

/// The findings of the last look.
#[derive(Debug, Default)]
pub(super) struct Backings(Mutex<Looked>);

#[derive(Clone, Debug, Default)]
struct Looked {
    rooms: BTreeMap<Uuid, Found>,
    truncated: BTreeSet<Uuid>,
}

#[derive(Clone, Copy, Debug)]
struct Found {
    info: BackingInfo,
    refused: Refused,
}

/// The writes of a device that failed for lack of room.
#[derive(Clone, Copy, Debug, Default)]
struct Refused {
    count: u32,
    /// When the last ones were seen.
    at: Option<Instant>,
}

impl Refused {
    fn seen(self, count: u32, now: Instant) -> Self {
        if count == self.count { self } else { Self { count, at: Some(now) } }
    }

    fn is_recent(self, now: Instant) -> bool {
        self.at.is_some_and(|at| now.saturating_duration_since(at) < FULL_FOR)
    }
}

impl Backings {
    /// The room for each device that is a file.
    pub(super) fn found(&self) -> BTreeMap<Uuid, BackingInfo> {
        self.looked().rooms.iter().map(|(device, found)| (*device, found.info)).collect()
    }

    fn looked(&self) -> MutexGuard<'_, Looked> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread that looks at the files.
pub(crate) struct BackingWatch {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl BackingWatch {
    /// Looks at the files once, and from then on in a thread, if there are any or may be later.
    pub(crate) fn start(node: &Arc<Node>, is_in_cluster: bool) -> io::Result<Option<Self>> {
        node.look_at_files();
        let is_needed = node.devices().iter().any(|device| device.file_room().is_some());
        if !is_needed && !is_in_cluster {
            return Ok(None);
        }
        let is_over = Arc::new(AtomicBool::new(false));
        let (told, node) = (Arc::clone(&is_over), Arc::clone(node));
        let watch = move || {
            while !told.load(Ordering::SeqCst) {
                std::thread::park_timeout(PERIOD);
                node.look_at_files();
            }
        };
        let builder = Builder::new().name("backing".to_owned()).stack_size(STACK_LEN);
        Ok(Some(Self { is_over, thread: builder.spawn(watch)? }))
    }

    /// Stops the thread.
    pub(crate) fn stop(self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.thread.thread().unpark();
        if self.thread.join().is_err() {
            tracing::error!("the thread that looks at files has panicked");
        }
    }
}

impl Node {
    fn look_at_files(&self) {
        let (now, before) = (Instant::now(), self.backings.looked().clone());
        let mut truncated = BTreeSet::new();
        let mut rooms = Vec::new();
        for device in self.devices() {
            if !device.look() {
                self.report_truncated(&device, &before);
                truncated.insert(device.uuid());
            }
            rooms.extend(room(&device).map(|room| (device, room)));
        }
        let refused: Vec<Refused> = rooms
            .iter()
            .map(|(device, room)| {
                let before =
                    before.rooms.get(&device.uuid()).map(|it| it.refused).unwrap_or_default();
                before.seen(room.refusals, now)
            })
            .collect();
        let recent = refused.iter().map(|it| it.is_recent(now));
        let judged = judge(rooms.iter().map(|(_, room)| *room).zip(recent));
        let mut after = Looked { rooms: BTreeMap::new(), truncated };
        for (((device, _), info), refused) in rooms.iter().zip(judged).zip(refused) {
            report_backing(device, before.rooms.get(&device.uuid()), info);
            after.rooms.insert(device.uuid(), Found { info, refused });
        }
        *self.backings.looked() = after;
    }

    /// Logs that a device is truncated, once.
    fn report_truncated(&self, device: &Device, before: &Looked) {
        if before.truncated.contains(&device.uuid()) {
            return;
        }
        tracing::error!(
            "device '{}' is truncated: its file ends before the device does, and all writes fail: stop the \
             node, and restore the file from a backup",
            device.name()
        );
        // What it has lost was acknowledged. The next start must know, even if the file is extended again.
        device.health().note_failure();
        self.record_suspects();
    }
}

/// Logs how the room for a device has changed since the last look.
fn report_backing(device: &Device, before: Option<&Found>, info: BackingInfo) {
    let state = before.map(|it| it.info.state).unwrap_or_default();
    if state == info.state {
        return;
    }
    match info.fault(device.name().as_str()) {
        None => tracing::info!("device '{}' has room again", device.name()),
        Some((Level::Problem, fault)) => tracing::error!("{fault}"),
        Some((_, fault)) => tracing::warn!("{fault}"),
    }
}

fn room(device: &Device) -> Option<FileRoom> {
    let room = device.file_room()?;
    room.inspect_err(|error| tracing::warn!("device '{}': its file system: {error}", device.name()))
        .ok()
}

/// Judges the room for each device, and whether a write to it was refused lately.
fn judge(rooms: impl Iterator<Item = (FileRoom, bool)> + Clone) -> Vec<BackingInfo> {
    let mut needed = BTreeMap::<u64, u64>::new();
    for (room, _) in rooms.clone() {
        let sum = needed.entry(room.file_system).or_default();
        *sum = sum.saturating_add(room.unallocated.0);
    }
    let one = |(room, was_refused): (FileRoom, bool)| {
        let FileRoom { free, unallocated, file_system, .. } = room;
        let state = match unallocated.0 {
            _ if was_refused => BackingState::Full,
            0 => BackingState::Enough,
            _ if free < FREE_MIN => BackingState::Full,
            _ if free.0 < needed[&file_system] => BackingState::Overcommitted,
            _ => BackingState::Enough,
        };
        BackingInfo { state, free_bytes: free.0, unallocated_bytes: unallocated.0 }
    };
    rooms.map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn states(rooms: &[(u64, u64, u64, bool)]) -> Vec<BackingState> {
        let rooms = rooms.iter().map(|(file_system, free, unallocated, was_refused)| {
            let (free, unallocated) = (ByteLen(free * MIB), ByteLen(unallocated * MIB));
            (FileRoom { file_system: *file_system, free, unallocated, refusals: 0 }, *was_refused)
        });
        judge(rooms).into_iter().map(|it| it.state).collect()
    }

    #[test]
    fn a_device_is_overcommitted_when_all_files_of_its_file_system_need_more_than_is_free() {
        use BackingState::{Enough, Full, Overcommitted};
        assert_eq!(states(&[(1, 100, 60, false)]), [Enough]);
        assert_eq!(states(&[(1, 100, 60, false), (1, 100, 41, false)]), [Overcommitted; 2]);
        assert_eq!(states(&[(1, 100, 60, false), (2, 100, 41, false)]), [Enough; 2]);
        assert_eq!(states(&[(1, 100, 160, false), (1, 100, 0, false)]), [Overcommitted, Enough]);
        assert_eq!(states(&[(1, 0, 1, false), (1, 0, 0, false)]), [Full, Enough]);
        assert_eq!(states(&[(1, 100, 60, true)]), [Full], "a quota");
    }

    #[test]
    fn a_refused_write_counts_for_a_minute() {
        let start = Instant::now();
        let refused = Refused::default().seen(0, start);
        assert!(!refused.is_recent(start));
        let refused = refused.seen(3, start);
        assert!(refused.is_recent(start) && refused.is_recent(start + FULL_FOR / 2));
        let later = refused.seen(3, start + FULL_FOR);
        assert!(!later.is_recent(start + FULL_FOR));
        assert!(later.seen(4, start + FULL_FOR).is_recent(start + FULL_FOR));
    }
}
