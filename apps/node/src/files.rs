//! The owner of the files of volumes: a part of the control side, and a direct client of this node's own
//! cores, over a socket in the data directory.
//!
//! Cores pass messages of clients on. Those of a connection are carried out by one thread, in their order,
//! so that its end comes after them. A thread for each volume keeps its files open, and makes changes
//! durable from time to time.
//!
//! Only the owner writes the blocks of these volumes: the sessions of the cores see to that. So the owner
//! takes a volume at once, even from another owner.

mod volume;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use nearflash::direct::{Options, Place, Url};
use nearflash::{Client, Credentials};
use nearflash_direct::Status;
use nearflash_direct::serving::FilesDemand;
use nearflash_direct::wire::Rights;
use nearflash_files_service::{Allowed, Below, ConnectionId, Path as FilesPath};
use nearflash_publish::{FILES_KEY, FilesAccess};
use nearflash_request::VolumeId;
use nearflash_shard::{ClientPlace, Message};
use nearflash_space::Name;

use crate::end_of_panic::EndOfPanic;
use crate::runtime::{Cores, FilesNews, On};
use volume::Volume;

/// The socket of the owner, in the data directory.
const SOCKET: &str = "files.sock";

/// The threads that carry out messages.
const WORKERS: usize = 8;

/// The most messages that wait, which bounds the memory that they take. Further ones are refused as busy.
const WAITING_MAX: usize = 1024;

/// The most messages of the clients with one key that wait, so that others find a place.
const WAITING_OF_KEY_MAX: usize = WAITING_MAX / 4;

/// The path of the owner's socket.
pub(crate) fn socket_path(data_dir: &Path) -> PathBuf {
    data_dir.join(SOCKET)
}

/// The work of a thread.
#[derive(Debug)]
enum Job {
    Asked {
        place: ClientPlace,
        demand: Box<FilesDemand>,
    },
    /// There were too many messages.
    Refuse {
        place: ClientPlace,
        number: u32,
    },
    Gone(ClientPlace),
    /// The jobs before this one are done.
    Report(Sender<()>),
}

type Senders = Arc<Mutex<Vec<Sender<Job>>>>;

/// The messages that wait, or are being carried out.
#[derive(Debug, Default)]
struct Waiting {
    all: usize,
    /// By the name of the key. Anonymous clients are not told apart.
    by_key: HashMap<Box<str>, usize>,
}

impl Waiting {
    /// Takes a place for a message. Returns `false` if there is none.
    fn enter(&mut self, demand: &FilesDemand) -> bool {
        if self.all >= WAITING_MAX {
            return false;
        }
        if let Some(key) = &demand.key {
            let of_key = self.by_key.entry(key.clone()).or_default();
            if *of_key >= WAITING_OF_KEY_MAX {
                return false;
            }
            *of_key += 1;
        }
        self.all += 1;
        true
    }

    /// Gives the place of a message back.
    fn leave(&mut self, demand: &FilesDemand) {
        self.all -= 1;
        let Some(key) = &demand.key else { return };
        let of_key = self.by_key.get_mut(key).expect("the message has a place");
        *of_key -= 1;
        if *of_key == 0 {
            self.by_key.remove(key);
        }
    }
}

/// The ends of the queues to the threads.
pub(crate) struct Queues {
    senders: Senders,
    receivers: Vec<Receiver<Job>>,
    waiting: Arc<Mutex<Waiting>>,
}

/// The queues from the cores to the threads.
pub(crate) fn queues() -> (On<FilesNews>, Queues) {
    let waiting = Arc::<Mutex<Waiting>>::default();
    let (senders, receivers): (Vec<Sender<Job>>, Vec<Receiver<Job>>) =
        (0..WORKERS).map(|_| channel()).unzip();
    let counted = Arc::clone(&waiting);
    let senders: Senders = Arc::new(Mutex::new(senders));
    let all = Arc::clone(&senders);
    let take = move |news| {
        let (place, job) = match news {
            FilesNews::Gone(place) => (place, Job::Gone(place)),
            FilesNews::Asked { place, demand } => {
                let mut counted = counted.lock().unwrap_or_else(PoisonError::into_inner);
                match counted.enter(&demand) {
                    true => (place, Job::Asked { place, demand }),
                    false => (place, Job::Refuse { place, number: demand.number }),
                }
            }
        };
        let senders = all.lock().unwrap_or_else(PoisonError::into_inner);
        // The threads have ended when the node stops.
        let _ = senders[worker_of(place)].send(job);
    };
    (On::new(take), Queues { senders, receivers, waiting })
}

/// The thread for the messages of a connection.
fn worker_of(place: ClientPlace) -> usize {
    let number = place.owner.0.wrapping_add(place.owner.0 >> 32).wrapping_add(place.core.0.into());
    usize::try_from(number % WORKERS as u64).expect("few threads")
}

/// The owner of the files of volumes.
pub(crate) struct FilesOwner {
    volumes: Vec<(VolumeId, Arc<Volume>)>,
    senders: Senders,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl FilesOwner {
    /// Starts the threads.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub(crate) fn start(
        access: &FilesAccess,
        ids: Vec<(Name, VolumeId)>,
        data_dir: &Path,
        queues: Queues,
        cores: &Arc<Cores>,
    ) -> io::Result<Arc<Self>> {
        let (socket, secret) = (socket_path(data_dir), access.secret.to_hex());
        let volume = |(name, id): (Name, VolumeId)| {
            let (socket, secret) = (socket.clone(), secret.clone());
            let connect = move || connect(&socket, &secret);
            (id, Arc::new(Volume::new(name.to_string(), Box::new(connect))))
        };
        let volumes: Vec<(VolumeId, Arc<Volume>)> = ids.into_iter().map(volume).collect();
        let mut threads = Vec::new();
        let mut spawn = |name: String, run: Box<dyn FnOnce() + Send>| {
            let guarded = move || {
                let _guard = EndOfPanic;
                run();
            };
            threads.push(Builder::new().name(name).spawn(guarded)?);
            Ok::<(), io::Error>(())
        };
        for (_, volume) in &volumes {
            let kept = Arc::clone(volume);
            spawn(format!("files-{}", volume.name()), Box::new(move || kept.keep()))?;
        }
        for (number, receiver) in queues.receivers.into_iter().enumerate() {
            let worker = Worker {
                volumes: volumes.clone(),
                cores: Arc::clone(cores),
                waiting: Arc::clone(&queues.waiting),
            };
            spawn(format!("files-calls-{number}"), Box::new(move || worker.run(&receiver)))?;
        }
        let senders = queues.senders;
        Ok(Arc::new(Self { volumes, senders, threads: Mutex::new(threads) }))
    }

    /// Ends the rights of earlier messages: waits until the messages that have arrived are carried out, and
    /// then voids the seals that clients were given. Returns whether this was done, after `patience` at
    /// most for the messages.
    pub(crate) fn end_earlier_rights(&self, patience: Duration) -> bool {
        let are_done = self.wait_for_earlier(patience);
        self.volumes.iter().fold(are_done, |are_done, (_, volume)| volume.unseal_all() && are_done)
    }

    fn wait_for_earlier(&self, patience: Duration) -> bool {
        let (done, reports) = channel();
        let senders = self.senders.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let asked = senders.iter().filter(|sender| sender.send(Job::Report(done.clone())).is_ok());
        let (count, deadline) = (asked.count(), Instant::now() + patience);
        let left = || deadline.saturating_duration_since(Instant::now());
        (0..count).all(|_| reports.recv_timeout(left()).is_ok())
    }

    /// The state of the files of a volume, for people; `None` if this node does not own them.
    pub(crate) fn state_of(&self, volume: VolumeId) -> Option<String> {
        let found = self.volumes.iter().find(|(id, _)| *id == volume);
        found.map(|(_, volume)| volume.state())
    }

    /// Why the files of volumes are not served, although they were formatted.
    pub(crate) fn faults(&self) -> Vec<String> {
        self.volumes.iter().filter_map(|(_, volume)| volume.fault()).collect()
    }

    /// Makes everything durable, and releases the volumes. Later messages get no answer.
    pub(crate) fn stop(&self) {
        self.volumes.iter().for_each(|(_, volume)| volume.end());
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        // The other threads wait for messages until the process ends.
        for thread in threads.drain(..self.volumes.len()) {
            if thread.join().is_err() {
                tracing::error!("a thread that owns files has panicked");
            }
        }
    }
}

/// Connects to this node as the owner of files.
fn connect(socket: &Path, secret: &str) -> Result<Client, nearflash::Error> {
    let url = Url {
        place: Place::Local(socket.to_owned()),
        volume: None,
        header_digest: false,
        data_digest: false,
        seal: None,
        key: None,
        secret_file: None,
    };
    Client::connect_to(url, Credentials::new(FILES_KEY, secret)?, Options::default())
}

/// A thread that carries out messages.
struct Worker {
    volumes: Vec<(VolumeId, Arc<Volume>)>,
    cores: Arc<Cores>,
    waiting: Arc<Mutex<Waiting>>,
}

impl Worker {
    fn run(&self, jobs: &Receiver<Job>) {
        while let Ok(job) = jobs.recv() {
            match job {
                Job::Asked { place, demand } => {
                    let answer = self.answer(place, &demand);
                    self.waiting.lock().unwrap_or_else(PoisonError::into_inner).leave(&demand);
                    self.tell(place, (demand.number, answer));
                }
                Job::Refuse { place, number } => self.tell(place, (number, Err(Status::BUSY))),
                Job::Report(done) => {
                    // Nobody waits any more after a while.
                    let _ = done.send(());
                }
                Job::Gone(place) => {
                    let connection = connection_of(place);
                    self.volumes.iter().for_each(|(_, volume)| volume.gone(connection));
                }
            }
        }
    }

    fn tell(&self, place: ClientPlace, answer: (u32, Result<Box<[u8]>, Status>)) {
        self.cores.tell(place.core, Message::FilesAnswered(place.owner, answer));
    }

    fn answer(&self, place: ClientPlace, demand: &FilesDemand) -> Result<Box<[u8]>, Status> {
        let found = self.volumes.iter().find(|(id, _)| *id == demand.volume);
        let (_, volume) = found.ok_or(Status::NO_SUCH_VOLUME)?;
        volume.serve(connection_of(place), &allowed(demand), &demand.payload)
    }
}

/// The calls that a client may make.
fn allowed(demand: &FilesDemand) -> Allowed {
    let below = demand.files.iter().filter_map(|grant| {
        // A grant whose path no volume can have allows nothing.
        let path = FilesPath::parse(&grant.path).ok()?;
        Some(Below { path, may_write: grant.rights.has(Rights::WRITE) })
    });
    Allowed {
        may_read: demand.rights.has(Rights::READ),
        may_write: demand.rights.has(Rights::READ) && demand.rights.has(Rights::WRITE),
        below: below.collect(),
    }
}

fn connection_of(place: ClientPlace) -> ConnectionId {
    ConnectionId { core: place.core.0, number: place.owner.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearflash_engine::{CoreId, Owner};

    fn place(number: u64) -> ClientPlace {
        ClientPlace { core: CoreId(1), owner: Owner(number << 32 | 7) }
    }

    fn asked(number: u64) -> FilesNews {
        asked_by(None, number)
    }

    fn asked_by(key: Option<&str>, number: u64) -> FilesNews {
        let (volume, rights, payload) = (VolumeId(0), Rights::READ, Box::default());
        let (key, files) = (key.map(Box::from), Arc::default());
        let demand = Box::new(FilesDemand { number: 5, volume, key, rights, files, payload });
        FilesNews::Asked { place: place(number), demand }
    }

    #[test]
    fn the_messages_of_a_connection_are_carried_out_in_their_order_before_its_end() {
        let (on_files, queues) = queues();
        for number in 0..100 {
            on_files.tell(asked(number));
            on_files.tell(FilesNews::Gone(place(number)));
        }
        let mut count = 0;
        for receiver in &queues.receivers {
            let mut jobs = receiver.try_iter();
            while let Some(first) = jobs.next() {
                let Job::Asked { place, .. } = first else { panic!("{first:?}") };
                assert!(matches!(jobs.next(), Some(Job::Gone(gone)) if gone == place));
                count += 1;
            }
        }
        assert_eq!(count, 100);
    }

    #[test]
    fn messages_beyond_the_bound_are_refused_and_take_no_memory() {
        let (on_files, queues) = queues();
        let max = u64::try_from(WAITING_MAX).unwrap();
        (0..max + 3).for_each(|number| on_files.tell(asked(number)));
        let jobs = queues.receivers.iter().flat_map(|receiver| receiver.try_iter());
        let refused = jobs.filter(|job| matches!(job, Job::Refuse { number: 5, .. })).count();
        assert_eq!(refused, 3);
    }

    #[test]
    fn the_clients_of_one_key_leave_places_to_others() {
        let (on_files, queues) = queues();
        let max = u64::try_from(WAITING_OF_KEY_MAX).unwrap();
        (0..max + 3).for_each(|number| on_files.tell(asked_by(Some("a"), number)));
        for key in [Some("b"), None] {
            on_files.tell(asked_by(key, 0));
        }
        let jobs = queues.receivers.iter().flat_map(|receiver| receiver.try_iter());
        let (refused, taken): (Vec<Job>, Vec<Job>) =
            jobs.partition(|job| matches!(job, Job::Refuse { .. }));
        assert_eq!((refused.len(), taken.len()), (3, WAITING_OF_KEY_MAX + 2));
        let mut waiting = queues.waiting.lock().unwrap();
        for job in taken {
            let Job::Asked { demand, .. } = job else { panic!("{job:?}") };
            waiting.leave(&demand);
        }
        assert!(waiting.all == 0 && waiting.by_key.is_empty());
    }
}
