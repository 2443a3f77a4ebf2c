//! A core kept busy beside a measurement.
//!
//! The remote run has two cores that spin, so the local one beside it gets the same company: cores
//! share their clock's head-room, and a virtual machine's disk is worked for by the processors that
//! its cores run on. (Alone, the local loop made a tenth more on the development machine.)

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crate::placement::{CoreId, pin};

/// Spins on a core until dropped.
#[derive(Debug)]
pub struct KeptAwake {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl KeptAwake {
    /// Begins. A core that is not there stays as it is.
    pub fn start(core: CoreId) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            if pin(core).is_ok() {
                while !told.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for KeptAwake {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It only spins: there is nothing that it could fail in.
            let _ = thread.join();
        }
    }
}
