//! The owner's record, which a thread changes to show that the owner is alive.

use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};

use nearflash_direct::ownership::{BEAT_INTERVAL, OwnerRecord};

use super::super::error::{Error, Lost};
use super::super::volume::Volume;
use super::holding::Holding;

/// The thread that writes the record.
pub(super) struct Beats {
    stop: Arc<Stop>,
    thread: JoinHandle<OwnerRecord>,
    writer: Writer,
}

/// Tells the thread to end.
#[derive(Default)]
struct Stop {
    is_set: Mutex<bool>,
    changed: Condvar,
}

#[derive(Clone)]
struct Writer {
    volume: Volume,
    /// The offset of the record in the volume.
    place: u64,
}

impl Beats {
    /// Writes the record, and starts the thread.
    pub(super) fn start(
        volume: Volume,
        holding: Arc<Holding>,
        record: OwnerRecord,
        place: u64,
    ) -> Result<Self, Error> {
        let writer = Writer { volume: volume.with_timeout(BEAT_INTERVAL.to_duration()), place };
        writer.write(&record)?;
        let stop = Arc::new(Stop::default());
        let thread = {
            let (stop, writer) = (Arc::clone(&stop), writer.clone());
            thread::Builder::new()
                .name("nearflash-owner".to_owned())
                .spawn(move || beat(&stop, &writer, &holding, record))
                .map_err(|error| Error::ConnectionLost(Lost::System(error.kind())))?
        };
        Ok(Self { stop, thread, writer })
    }

    /// Ends the thread, and records that the volume has no owner.
    pub(super) fn release(self) -> Result<(), Error> {
        self.stop.set();
        let mut record = self.thread.join().expect("the thread does not panic");
        record.is_released = true;
        self.writer.write(&record)
    }
}

impl Stop {
    fn set(&self) {
        *self.is_set.lock().expect(UNPOISONED) = true;
        self.changed.notify_one();
    }

    /// Waits for one interval. Returns whether the thread must end.
    fn wait(&self) -> bool {
        let is_set = self.is_set.lock().expect(UNPOISONED);
        let interval = BEAT_INTERVAL.to_duration();
        let waited = self.changed.wait_timeout_while(is_set, interval, |is_set| !*is_set);
        *waited.expect(UNPOISONED).0
    }
}

const UNPOISONED: &str = "nothing panics while it holds the flag";

impl Writer {
    fn write(&self, record: &OwnerRecord) -> Result<(), Error> {
        self.volume.write_at(&record.encode(), self.place)
    }
}

/// Changes the record in every interval, as long as the volume is this process's. Returns the last
/// record.
fn beat(stop: &Stop, writer: &Writer, holding: &Holding, mut record: OwnerRecord) -> OwnerRecord {
    while !holding.is_over() && !stop.wait() {
        record.beat = record.beat.wrapping_add(1);
        if writer.write(&record).is_err() {
            // The connection may be lost. The second write connects again, or finds another owner.
            let _ = writer.write(&record);
        }
    }
    record
}
