//! A core that only records its messages, and on whose devices requests can hang.

#![allow(dead_code)] // no test needs all of it

use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use nearflash_config::Config;
use nearflash_direct::serving as direct;
use nearflash_engine::CoreId;
use nearflash_iscsi::serving as iscsi;
use nearflash_media::Device;
use nearflash_node::runtime::start_with;
use nearflash_node::{Begun, Running, RuntimeConfig, StartError};
use nearflash_nvme::serving::{ControllerKind, HostStatus};
use nearflash_nvme::{ControllerId, HostName, Nqn, QueueId};
use nearflash_publish::{Publication, SILENT_AFTER, Served};
use nearflash_reactor::{Mailbox, NoticeSink};
use nearflash_request::{Tag, VolumeId};
use nearflash_shard::{
    ConnectedClient, ConnectedHost, ConnectedInitiator, Message, Notice, ShardStatus,
};
use nearflash_units::Nanos;

/// The core.
const CORE: CoreId = CoreId(0);

/// A core that records its messages.
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
    /// The hosts of an earlier status, which took long. A status that is asked for after the users of a volume has
    /// the hosts of the moment.
    pub(crate) hosts_before: Mutex<Option<Vec<ConnectedHost>>>,
    was_asked_for_users: Mutex<bool>,
    /// The core does not report who is connected.
    pub(crate) is_silent: Mutex<bool>,
    hung: Mutex<Hung>,
    /// Signals that a publication waits: for older requests, or at the gate.
    pub(crate) waits: Mutex<Option<Sender<()>>>,
    /// The answered changes.
    pub(crate) answers: Mutex<Option<Sender<Tag>>>,
    /// Until it ends, the core does not get on with the next change for direct clients.
    pub(crate) gate: Mutex<Option<Receiver<()>>>,
    pub(crate) drained: Mutex<bool>,
    /// Where the core tells its notices.
    notices: Mutex<Option<NoticeSink>>,
}

/// The volume whose device hangs: publications that concern it are not over until [`Recorder::recover`].
#[derive(Default)]
struct Hung {
    volume: Option<VolumeId>,
    publications: Vec<u64>,
}

/// A mailbox that is full with one message, so that no question waits behind the gate.
struct Small(SyncSender<Message>);

impl Mailbox for Small {
    fn put(&self, message: Message) -> Result<(), Message> {
        self.0.try_send(message).map_err(|error| match error {
            TrySendError::Full(message) | TrySendError::Disconnected(message) => message,
        })
    }
}

impl Recorder {
    /// Starts a node with this core.
    pub(crate) fn start(config: &Config) -> Result<(Running, Arc<Self>), StartError> {
        Self::start_with(config, SILENT_AFTER)
    }

    /// The same, with a core that is silent after this time.
    pub(crate) fn start_with(
        config: &Config,
        silent_after: Nanos,
    ) -> Result<(Running, Arc<Self>), StartError> {
        let core = Arc::new(Self::default());
        let given = Arc::clone(&core);
        let started = Running::start(config, move |mut runtime: RuntimeConfig| {
            given.devices.lock().unwrap().clone_from(&runtime.devices);
            given.served.lock().unwrap().push(Arc::new(runtime.served.clone()));
            runtime.cores.truncate(1);
            runtime.silent_after = silent_after;
            start_with(runtime, |notices| {
                *given.notices.lock().unwrap() = notices.into_iter().next();
                let (mailbox, messages) = sync_channel(1);
                let run = move || given.run(&messages);
                Begun {
                    threads: vec![std::thread::spawn(run)],
                    mailboxes: vec![Box::new(Small(mailbox))],
                }
            })
        });
        started.map(|running| (running, core))
    }

    fn run(&self, messages: &Receiver<Message>) {
        for message in messages {
            match message {
                Message::Serve(publication) => self.serve(&publication),
                Message::Changed(_, (_, tag), _) => {
                    if let Some(answers) = &*self.answers.lock().unwrap() {
                        answers.send(tag).unwrap();
                    }
                }
                Message::ReportStatus(number) => {
                    self.report(Notice::Status(CORE, number, Box::new(self.status())));
                }
                Message::TellUsers(number, _) => {
                    *self.was_asked_for_users.lock().unwrap() = true;
                    let clients = self.clients.lock().unwrap().clone();
                    self.report(Notice::Users(CORE, number, clients.into()));
                }
                Message::Mirrors(number, _) => self.tell(Notice::MirrorsShown(CORE, number)),
                Message::AwaitMirrors(number, _) => {
                    self.tell(Notice::MirrorsDrained(CORE, number));
                }
                Message::Drain => {
                    self.recover();
                    *self.drained.lock().unwrap() = true;
                    self.tell(Notice::Drained(CORE));
                }
                Message::Stop => return,
                _ => {}
            }
        }
    }

    fn serve(&self, publication: &Publication) {
        let Publication { number, served, quiesce, .. } = publication;
        let last = self.last();
        if !Arc::ptr_eq(&served.direct, &last.direct)
            && let Some(gate) = self.gate.lock().unwrap().take()
        {
            self.waits();
            gate.recv().unwrap();
        }
        self.served.lock().unwrap().push(Arc::clone(served));
        self.changed.notify_all();
        self.tell(Notice::Shown(CORE, *number));
        let changed = served.volumes.changed_since(&last.volumes);
        let mut hung = self.hung.lock().unwrap();
        if hung.volume.is_some_and(|hung| quiesce.contains(&hung) || changed.contains(&hung)) {
            hung.publications.push(*number);
            drop(hung);
            self.waits();
        } else {
            drop(hung);
            self.tell(Notice::Quiesced(CORE, *number));
        }
    }

    fn status(&self) -> ShardStatus {
        let asked = std::mem::take(&mut *self.was_asked_for_users.lock().unwrap());
        let before = self.hosts_before.lock().unwrap().clone().filter(|_| !asked);
        let hosts = before.unwrap_or_else(|| self.hosts.lock().unwrap().clone());
        let initiators = self.initiators.lock().unwrap().clone();
        ShardStatus { hosts, initiators, ..ShardStatus::default() }
    }

    fn report(&self, notice: Notice) {
        if !*self.is_silent.lock().unwrap() {
            self.tell(notice);
        }
    }

    /// Tells a notice of the core.
    pub(crate) fn tell(&self, notice: Notice) {
        if let Some(notices) = &mut *self.notices.lock().unwrap() {
            notices(notice);
        }
    }

    fn waits(&self) {
        if let Some(waits) = &*self.waits.lock().unwrap() {
            waits.send(()).unwrap();
        }
    }

    pub(crate) fn hang(&self, volume: u32) {
        self.hung.lock().unwrap().volume = Some(VolumeId(volume));
    }

    /// Lets the device answer.
    pub(crate) fn recover(&self) {
        let hung = std::mem::take(&mut *self.hung.lock().unwrap());
        for number in hung.publications {
            self.tell(Notice::Quiesced(CORE, number));
        }
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

/// A host that is connected to a subsystem.
pub(crate) fn connected(host: HostName, subsystem: Nqn) -> ConnectedHost {
    let status = HostStatus {
        controller: ControllerId(1),
        kind: ControllerKind::Io,
        subsystem,
        host,
        host_id: uuid::Uuid::nil(),
        ready: true,
        keep_alive: None,
        queues: vec![QueueId(1)],
    };
    ConnectedHost { peer: "127.0.0.1:9".parse().unwrap(), status }
}
