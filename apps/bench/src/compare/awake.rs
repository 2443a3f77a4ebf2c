//! A core kept busy during a measurement.
//!
//! The remote run has two spinning cores, so the local run that it is compared with gets a second
//! one too: cores share their clock's headroom, and a virtual machine's disk is served by the
//! processors that its cores run on. (Alone, the local loop was a tenth faster on the development
//! machine.)

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
    /// Starts to spin. If the core cannot be used, nothing happens.
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
            // The thread only spins and cannot fail.
            let _ = thread.join();
        }
    }
}
