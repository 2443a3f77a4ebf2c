//! Cores that only record their messages, and on which a device can hang.

#![allow(dead_code)] // no test needs all of it

use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use nearflash_config::Config;
use nearflash_direct::serving as direct;
use nearflash_iscsi::serving as iscsi;
use nearflash_media::Device;
use nearflash_mirror::{MirrorId, MirrorTable, Written};
use nearflash_node::{
    AskedBy, Asker, Connected, ConnectedClient, ConnectedHost, ConnectedInitiator, CoreTrace,
    Running, Runtime, RuntimeConfig, RuntimeStatus, StartError, Ticket, TraceSpec,
};
use nearflash_nvme::tls::TlsHosts;
use nearflash_publish::Served;
use nearflash_request::{ChangeResult, Raised, Tag, VolumeId};

/// Cores that record their messages.
#[derive(Default)]
pub(crate) struct Recorder {
    /// The first state, and every later one.
    served: Mutex<Vec<Arc<Served>>>,
    changed: Condvar,
    pub(crate) devices: Mutex<Vec<Arc<Device>>>,
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
}

impl Runtime for Recorder {
    fn served(&self) -> Arc<Served> {
        self.last()
    }

    fn serve(&self, served: Served, _raised: Vec<Raised>, quiesce: Vec<VolumeId>) -> Ticket {
        let last = self.last();
        if !Arc::ptr_eq(&served.direct, &last.direct)
            && let Some(gate) = self.gate.lock().unwrap().take()
        {
            self.waits();
            gate.recv().unwrap();
        }
        let mut concerned = quiesce;
        concerned.extend(served.volumes.changed_since(&last.volumes));
        self.served.lock().unwrap().push(Arc::new(served));
        self.changed.notify_all();
        self.ticket(&concerned)
    }

    fn set_tls_hosts(&self, _hosts: TlsHosts) {}

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
            given.served.lock().unwrap().push(Arc::new(runtime.served));
            Ok(given)
        });
        started.map(|running| (running, cores))
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

    /// How often the volumes, or the view of hosts of them, have changed.
    pub(crate) fn publications(&self) -> usize {
        self.changes(|one, next| {
            Arc::ptr_eq(&one.volumes, &next.volumes) && Arc::ptr_eq(&one.rights, &next.rights)
        })
    }

    /// How often the access of direct clients has changed.
    pub(crate) fn direct_publications(&self) -> usize {
        self.changes(|one, next| Arc::ptr_eq(&one.direct, &next.direct))
    }

    fn changes(&self, is_same: impl Fn(&Served, &Served) -> bool) -> usize {
        let served = self.served.lock().unwrap();
        served.windows(2).filter(|pair| !is_same(&pair[0], &pair[1])).count()
    }

    pub(crate) fn last(&self) -> Arc<Served> {
        Arc::clone(self.served.lock().unwrap().last().unwrap())
    }

    pub(crate) fn last_direct(&self) -> Arc<direct::Exports> {
        Arc::clone(&self.last().direct)
    }

    pub(crate) fn credential(&self, id: &str) -> Arc<direct::CredentialExport> {
        Arc::clone(self.last_direct().credential(id).unwrap())
    }

    /// Waits until the last published access satisfies the predicate.
    pub(crate) fn wait_direct(&self, is_such: impl Fn(&direct::Exports) -> bool) {
        let told = self.served.lock().unwrap();
        let waiting = |told: &mut Vec<Arc<Served>>| !is_such(&told.last().unwrap().direct);
        let waited = self.changed.wait_timeout_while(told, Duration::from_secs(30), waiting);
        assert!(!waited.unwrap().1.timed_out(), "the cores are not told");
    }

    pub(crate) fn last_iscsi(&self) -> Arc<iscsi::Exports> {
        Arc::clone(&self.last().iscsi)
    }
}
