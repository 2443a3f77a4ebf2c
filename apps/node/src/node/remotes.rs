//! Volumes of other nodes: a thread waits for the nodes that could not be reached at the start, and
//! attaches their volumes when they answer. A size that has changed on the other node changes here.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use nearflash_api::VolumeInfo;
use nearflash_config::RemoteSpec;
use nearflash_device::DeviceId;
use nearflash_media::Device;
use nearflash_planner::Refusal;
use nearflash_space::{Home, Space};
use nearflash_units::ByteLen;

use super::Node;
use crate::error::NodeError;
use crate::prepare::Outfit;
use crate::remote::{self, Remote, add_peer, place_of};

/// The time between two attempts.
const PERIOD: Duration = Duration::from_millis(500);

/// The thread that waits for other nodes.
pub(crate) struct RemoteWatch {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl RemoteWatch {
    /// Waits for the nodes of these volumes.
    pub(crate) fn start(node: Arc<Node>, absent: Vec<RemoteSpec>) -> io::Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&is_over);
        let watch = move || node.await_remotes(absent, &told);
        Ok(Self { is_over, thread: Builder::new().name("remotes".to_owned()).spawn(watch)? })
    }

    /// Stops the thread. An attempt that is under way ends first: its wait is bounded.
    pub(crate) fn stop(self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.thread.thread().unpark();
        if self.thread.join().is_err() {
            tracing::error!("the thread that waits for other nodes has panicked");
        }
    }
}

impl Node {
    /// The devices, by number.
    pub(super) fn devices(&self) -> Vec<Arc<Device>> {
        self.outfit().all.clone()
    }

    /// Gives the cores all devices. No volume lies on a new one yet, so no older request matters.
    pub(super) fn serve_devices(&self, outfit: &Outfit) {
        let mut next = self.next();
        next.devices = Arc::new(outfit.devices());
        let _ = self.cores.serve(next, Vec::new(), Vec::new());
    }

    pub(super) fn outfit(&self) -> MutexGuard<'_, Outfit> {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn await_remotes(&self, mut absent: Vec<RemoteSpec>, is_over: &AtomicBool) {
        for spec in &absent {
            tracing::warn!(
                "volume '{}' is absent: its node does not answer: {}",
                spec.name,
                spec.url.place
            );
        }
        while !absent.is_empty() && !is_over.load(Ordering::SeqCst) {
            absent.retain(|spec| !self.try_to_attach(spec));
            std::thread::park_timeout(PERIOD);
        }
    }

    /// Returns whether nothing remains to be done.
    fn try_to_attach(&self, spec: &RemoteSpec) -> bool {
        match remote::open(spec) {
            Ok(remote) => match self.attach(&remote) {
                Ok(_) => tracing::info!("volume '{}' is there", spec.name),
                Err(error) => tracing::error!("volume '{}' stays absent: {error}", spec.name),
            },
            Err(error) if error.is_transient() => return false,
            Err(error) => tracing::error!("volume '{}' stays absent: {error}", spec.name),
        }
        true
    }

    /// Serves a volume of another node from now on.
    fn attach(&self, remote: &Remote) -> Result<VolumeInfo, NodeError> {
        let one = self.one_change();
        let mut devices = self.devices();
        devices.push(Arc::new(remote.device()));
        let name = &remote.spec().name;
        let attach = |space: &mut Space| {
            self.check_iscsi_name((name, name), space)?;
            let attached = space.attach(place_of(&devices), |device| remote.volume(device));
            attached.cloned().map_err(|clash| NodeError::from(Refusal::RemoteClash(clash)))
        };
        // If the volume is refused, the cores must not learn of its device.
        attach(&mut self.copy().space)?;
        {
            let mut outfit = self.outfit();
            add_peer(&mut outfit.peers, remote, &devices);
            outfit.all.clone_from(&devices);
            self.serve_devices(&outfit);
        }
        // No older request concerns it.
        self.change_at_once(one, attach).map(|(info, ..)| info)
    }

    /// The volume on this device has another size on its own node.
    pub(super) fn follow(&self, device: DeviceId, bytes: u64) {
        let one = self.one_change();
        let is_new = self.served().recorded.space.volumes().any(|volume| {
            volume.home == Home::OtherNode
                && volume.devices() == [device]
                && volume.len().0 != bytes
        });
        if !is_new {
            return; // another core has said so before
        }
        // Nothing is freed, so nobody waits for older requests.
        let follow = |space: &mut Space| Ok(space.follow(device, ByteLen(bytes))?.clone());
        let followed = self.change_at_once(one, follow).map(|(info, ..)| info);
        match followed {
            Ok(VolumeInfo { name, bytes, .. }) => {
                tracing::info!("volume '{name}' has {} now", ByteLen(bytes));
            }
            Err(error) => tracing::error!("a volume of another node has another size: {error}"),
        }
    }
}
