//! Cores that only record their messages, and on which a device can hang.

#![allow(dead_code)] // no test needs all of it

use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use nearflash_config::Config;
use nearflash_media::Device;
use nearflash_mirror::{MirrorId, MirrorTable, Written};
use nearflash_node::{
    AskedBy, Asker, Connected, ConnectedClient, ConnectedHost, ConnectedInitiator, CoreTrace,
    DirectAccess, DirectCredential, IscsiAccess, Published, Running, Runtime, RuntimeConfig,
    RuntimeStatus, StartError, Ticket, TraceSpec, Update,
};
use nearflash_nvme::hosts::HostTable;
use nearflash_request::{ChangeResult, Tag, VolumeId};

/// Cores that record their messages.
#[derive(Default)]
pub(crate) struct Recorder {
    published: Mutex<Vec<Published>>,
    direct: Mutex<Vec<Arc<DirectAccess>>>,
    direct_changed: Condvar,
    pub(crate) devices: Mutex<Vec<Arc<Device>>>,
    iscsi: Mutex<Vec<Arc<IscsiAccess>>>,
    pub(crate) hosts: Mutex<Vec<ConnectedHost>>,
    pub(crate) initiators: Mutex<Vec<ConnectedInitiator>>,
    /// The clients that have any volume open.
    pub(crate) clients: Mutex<Vec<ConnectedClient>>,
    /// The hosts of an earlier status, which took long.
    pub(crate) hosts_before: Mutex<Option<Vec<ConnectedHost>>>,
    /// No core reports who is connected.
    pub(crate) is_silent: Mutex<bool>,
    /// The volume whose device hangs: tickets that concern it wait until [`Self::recover`].
    hung: Mutex<Option<VolumeId>>,
    tickets: Mutex<Vec<Ticket>>,
    /// Signals that a ticket waits, or a publication at the gate.
    pub(crate) waits: Mutex<Option<Sender<()>>>,
    /// The answered changes.
    pub(crate) answers: Mutex<Option<Sender<Tag>>>,
    pub(crate) asker: Mutex<Option<Asker>>,
    /// The processor of a core that takes no messages.
    pub(crate) silent: Mutex<Option<usize>>,
    /// Ends the next publication for direct clients, which waits for that core.
    pub(crate) gate: Mutex<Option<Receiver<()>>>,
    pub(crate) drained: Mutex<bool>,
    pub(crate) traced: Mutex<Vec<TraceSpec>>,
    pub(crate) keyed_hosts: Mutex<HostTable>,
}

impl Runtime for Recorder {
    fn serve(&self, update: Update) -> Ticket {
        let Update { volumes, namespaces, hosts, elsewhere, direct, iscsi, .. } = update;
        if let Some(hosts) = update.keyed_hosts {
            *self.keyed_hosts.lock().unwrap() = hosts;
        }
        if let Some(direct) = &direct {
            self.serve_direct(Arc::clone(direct));
        }
        if let Some(iscsi) = &iscsi {
            self.iscsi.lock().unwrap().push(Arc::clone(iscsi));
        }
        let mut concerned = update.quiesce;
        if let (Some(namespaces), Some(volumes)) = (namespaces, volumes) {
            let (hosts, elsewhere) = (hosts.unwrap(), elsewhere.unwrap());
            let (direct, iscsi) = (direct.unwrap(), iscsi.unwrap());
            let mut all = self.published.lock().unwrap();
            let changed = all.last().map(|last| volumes.changed_since(&last.volumes));
            concerned.extend(changed.unwrap_or_default());
            all.push(Published { volumes, namespaces, hosts, elsewhere, direct, iscsi });
        }
        self.ticket(&concerned)
    }

    fn publish_mirrors(&self, _table: Arc<MirrorTable>, then: nearflash_node::Then) {
        then();
    }

    fn drain_mirror(&self, _mirror: MirrorId, then: nearflash_node::Then) {
        then();
    }

    fn answer_files(
        &self,
        _place: nearflash_shard::ClientPlace,
        _number: u32,
        _answer: Result<Box<[u8]>, nearflash_direct::Status>,
    ) {
    }

    fn answer_authentication(&self, _asked: nearflash_node::Authentication) {}

    fn end_hosts(&self) {}

    fn set_leases(&self, _leases: &[(MirrorId, nearflash_units::Nanos)]) {}

    fn ask_written(&self, _mirror: MirrorId, _session: u32) {}

    fn copy_mirror(&self, _mirror: MirrorId, _session: u32, _scope: Option<Arc<Written>>) {}

    fn core_count(&self) -> u16 {
        1
    }

    fn answer(&self, by: AskedBy, _result: ChangeResult) {
        if let Some(answers) = &*self.answers.lock().unwrap() {
            answers.send(by.tag).unwrap();
        }
    }

    fn status(&self) -> RuntimeStatus {
        let before = self.hosts_before.lock().unwrap().clone();
        let hosts = before.unwrap_or_else(|| self.hosts.lock().unwrap().clone());
        RuntimeStatus { hosts, ..RuntimeStatus::default() }
    }

    fn connected(&self, _volume: VolumeId) -> Option<Connected> {
        let hosts = self.hosts.lock().unwrap().clone();
        let (initiators, clients) =
            (self.initiators.lock().unwrap().clone(), self.clients.lock().unwrap().clone());
        (!*self.is_silent.lock().unwrap()).then_some(Connected { hosts, initiators, clients })
    }

    fn readings(&self) -> Vec<(usize, nearflash_shard::Reading)> {
        Vec::new()
    }

    fn begin_trace(&self, spec: &TraceSpec) -> Ticket {
        self.traced.lock().unwrap().push(*spec);
        Ticket::over()
    }

    fn end_trace(&self) -> Vec<CoreTrace> {
        vec![CoreTrace { processor: 3, traced: None }]
    }

    fn silent(&self) -> Option<usize> {
        *self.silent.lock().unwrap()
    }

    fn drain_and_join(&self) -> bool {
        self.recover();
        *self.drained.lock().unwrap() = true;
        true
    }
}

impl Recorder {
    /// Starts a node with these cores.
    pub(crate) fn start(config: &Config) -> Result<(Running, Arc<Self>), StartError> {
        let cores = Arc::new(Self::default());
        let given = Arc::clone(&cores);
        let started = Running::start(config, move |runtime: RuntimeConfig| {
            *given.devices.lock().unwrap() = runtime.devices;
            *given.asker.lock().unwrap() = Some(runtime.changes);
            let keyed_hosts = Some(runtime.keyed_hosts);
            let _ = given.serve(Update { keyed_hosts, ..runtime.published.into() });
            Ok(given)
        });
        started.map(|running| (running, cores))
    }

    fn serve_direct(&self, direct: Arc<DirectAccess>) {
        if let Some(gate) = self.gate.lock().unwrap().take() {
            self.waits();
            gate.recv().unwrap();
        }
        self.direct.lock().unwrap().push(direct);
        self.direct_changed.notify_all();
    }

    fn ticket(&self, volumes: &[VolumeId]) -> Ticket {
        if !self.hung.lock().unwrap().is_some_and(|hung| volumes.contains(&hung)) {
            return Ticket::over();
        }
        let ticket = Ticket::waiting(1);
        self.tickets.lock().unwrap().push(ticket.clone());
        self.waits();
        ticket
    }

    fn waits(&self) {
        if let Some(waits) = &*self.waits.lock().unwrap() {
            waits.send(()).unwrap();
        }
    }

    pub(crate) fn hang(&self, volume: u32) {
        *self.hung.lock().unwrap() = Some(VolumeId(volume));
    }

    /// Lets the device answer.
    pub(crate) fn recover(&self) {
        *self.hung.lock().unwrap() = None;
        let tickets = std::mem::take(&mut *self.tickets.lock().unwrap());
        tickets.iter().for_each(Ticket::settle);
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
