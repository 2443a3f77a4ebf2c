//! Cores that only record their messages.

#![allow(dead_code)] // no test needs all of it

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use nearflash_media::Device;
use nearflash_node::config::Config;
use nearflash_node::{
    AskedBy, Connected, ConnectedHost, DirectAccess, DirectCredential, IscsiAccess, NodeError,
    Published, Running, Runtime, RuntimeConfig, RuntimeStatus, Ticket,
};
use nearflash_request::{ChangeResult, Raised, VolumeId};
use nearflash_space::VolumeTable;

/// Cores that record their messages.
#[derive(Default)]
pub(crate) struct Recorder {
    published: Mutex<Vec<Published>>,
    direct: Mutex<Vec<Arc<DirectAccess>>>,
    direct_changed: Condvar,
    pub(crate) devices: Mutex<Vec<Arc<Device>>>,
    iscsi: Mutex<Vec<Arc<IscsiAccess>>>,
    pub(crate) hosts: Mutex<Vec<ConnectedHost>>,
    /// The hosts of an earlier status, which took long.
    pub(crate) hosts_before: Mutex<Option<Vec<ConnectedHost>>>,
    /// No core reports who is connected.
    pub(crate) is_silent: Mutex<bool>,
    pub(crate) drained: Mutex<bool>,
}

impl Runtime for Recorder {
    fn publish(&self, published: Published) -> Ticket {
        let direct = self.publish_direct(Arc::clone(&published.direct));
        let iscsi = self.publish_iscsi(Arc::clone(&published.iscsi));
        self.published.lock().unwrap().push(published);
        Ticket::all([direct, iscsi])
    }

    fn publish_direct(&self, direct: Arc<DirectAccess>) -> Ticket {
        self.direct.lock().unwrap().push(direct);
        self.direct_changed.notify_all();
        Ticket::over()
    }

    fn publish_iscsi(&self, iscsi: Arc<IscsiAccess>) -> Ticket {
        self.iscsi.lock().unwrap().push(iscsi);
        Ticket::over()
    }

    fn publish_volumes(&self, _volumes: Arc<VolumeTable>) -> Ticket {
        Ticket::over()
    }

    fn quiesce(&self, _volumes: &[VolumeId]) -> Ticket {
        Ticket::over()
    }

    fn raise(&self, _raised: Vec<Raised>) {}

    fn answer(&self, _by: AskedBy, _result: ChangeResult) {}

    fn status(&self) -> RuntimeStatus {
        let before = self.hosts_before.lock().unwrap().clone();
        let hosts = before.unwrap_or_else(|| self.hosts.lock().unwrap().clone());
        RuntimeStatus { hosts, ..RuntimeStatus::default() }
    }

    fn connected(&self) -> Option<Connected> {
        let (hosts, initiators) = (self.hosts.lock().unwrap().clone(), Vec::new());
        (!*self.is_silent.lock().unwrap()).then_some(Connected { hosts, initiators })
    }

    fn silent(&self) -> Option<usize> {
        None
    }

    fn drain_and_join(&self) -> bool {
        *self.drained.lock().unwrap() = true;
        true
    }
}

impl Recorder {
    /// Starts a node with these cores.
    pub(crate) fn start(config: &Config) -> Result<(Running, Arc<Self>), NodeError> {
        let cores = Arc::new(Self::default());
        let given = Arc::clone(&cores);
        let started = Running::start(config, move |runtime: RuntimeConfig| {
            *given.devices.lock().unwrap() = runtime.devices;
            let _ = given.publish(runtime.published);
            Ok(given)
        });
        started.map(|running| (running, cores))
    }

    pub(crate) fn publications(&self) -> usize {
        self.published.lock().unwrap().len()
    }

    pub(crate) fn last(&self) -> Published {
        self.published.lock().unwrap().last().unwrap().clone()
    }

    pub(crate) fn direct_publications(&self) -> usize {
        self.direct.lock().unwrap().len()
    }

    pub(crate) fn last_direct(&self) -> Arc<DirectAccess> {
        Arc::clone(self.direct.lock().unwrap().last().unwrap())
    }

    pub(crate) fn credential(&self, id: &str) -> DirectCredential {
        let last = self.last_direct();
        last.credentials.iter().find(|c| c.id.as_str() == id).unwrap().clone()
    }

    /// Waits until the last published access satisfies the predicate.
    pub(crate) fn wait_direct(&self, is_such: impl Fn(&DirectAccess) -> bool) {
        let told = self.direct.lock().unwrap();
        let waiting = |told: &mut Vec<Arc<DirectAccess>>| !is_such(told.last().unwrap());
        let waited = self.direct_changed.wait_timeout_while(told, Duration::from_secs(30), waiting);
        assert!(!waited.unwrap().1.timed_out(), "the cores are not told");
    }

    pub(crate) fn last_iscsi(&self) -> Arc<IscsiAccess> {
        Arc::clone(self.iscsi.lock().unwrap().last().unwrap())
    }
}
