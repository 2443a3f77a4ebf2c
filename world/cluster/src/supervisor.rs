//! Supervision: a thread that starts this machine's etcd whenever it does not run.
//!
//! It adopts an etcd that runs already, and leaves it running when it stops: a restart of the node
//! is no failure of etcd. One process supervises at a time; another one takes over when that ends.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nearflash_data_dir::Owner;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::client::Store;
use super::error::ClusterError;
use super::etcd;
use super::full::Repair;
use super::member::{Folder, FolderLock, Member};
use super::status::remember;

/// The pause before the first restart; it doubles with each further one.
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// After a run of this length, the pause is the first one again.
const SOUND_RUN: Duration = Duration::from_secs(60);
/// The interval at which the addresses of the members are read, and a lock is tried again.
const REFRESH: Duration = Duration::from_secs(5);

/// A thread that supervises etcd. etcd runs on when this is dropped.
#[derive(Debug)]
pub struct Supervisor {
    stop: Arc<OwnedFd>,
}

impl Supervisor {
    /// Supervises the etcd of a data directory. `None` if this machine runs none.
    ///
    /// # Errors
    /// When the files of the folder cannot be read, or there is no thread.
    pub fn start(data_dir: &Path) -> Result<Option<Self>, ClusterError> {
        let folder = Folder::of(data_dir);
        match folder.member()? {
            Some(member) if member.is_ready && member.runs_etcd() => {
                Self::start_thread(folder).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Supervises the etcd of a machine that has to run one.
    ///
    /// # Errors
    /// As [`Self::start`]; also when the machine belongs to no cluster, or is a client only.
    pub fn start_required(data_dir: &Path) -> Result<Self, ClusterError> {
        if Folder::of(data_dir).joined()?.external.is_some() {
            return Err(ClusterError::External);
        }
        Self::start(data_dir)?.ok_or(ClusterError::ClientOnly)
    }

    fn start_thread(folder: Folder) -> Result<Self, ClusterError> {
        let failed = |source| ClusterError::System { action: "start a thread", source };
        let stop = eventfd(0, EventfdFlags::CLOEXEC).map_err(|errno| failed(errno.into()))?;
        let stop = Arc::new(stop);
        let watch = Watch { folder, stop: Arc::clone(&stop), pause: PAUSE_MIN };
        let thread = std::thread::Builder::new().name("etcd".to_owned()).spawn(|| watch.run());
        thread.map_err(failed)?;
        Ok(Self { stop })
    }
}

/// Tells the thread to stop. It is not waited for: it may be waiting for an etcd that is silent.
impl Drop for Supervisor {
    fn drop(&mut self) {
        // An eventfd takes any number of eight bytes; it is not full, since only this writes to it.
        let _ = rustix::io::write(&*self.stop, &[1; 8]);
    }
}

/// The thread's state.
struct Watch {
    folder: Folder,
    stop: Arc<OwnedFd>,
    pause: Duration,
}

/// Whether the thread goes on.
type GoesOn = bool;

impl Watch {
    fn run(mut self) {
        let Some(_lock) = self.lock() else { return };
        loop {
            let begun = Instant::now();
            let goes_on = match self.run_once() {
                Ok(goes_on) => goes_on,
                Err(error) => {
                    tracing::error!("{error}");
                    true
                }
            };
            if begun.elapsed() > SOUND_RUN {
                self.pause = PAUSE_MIN;
            }
            if !goes_on || self.is_stopped_within(self.pause) {
                return;
            }
            self.pause = (self.pause * 2).min(PAUSE_MAX);
        }
    }

    /// The lock of the supervisor; `None` when the thread is stopped first.
    fn lock(&self) -> Option<FolderLock> {
        loop {
            match self.folder.try_lock("supervisor.lock") {
                Ok(Some(lock)) => return Some(lock),
                Ok(None) => {}
                Err(error) => tracing::error!("{error}"),
            }
            if self.is_stopped_within(REFRESH) {
                return None;
            }
        }
    }

    /// Starts etcd or adopts it, and waits until it ends.
    fn run_once(&self) -> Result<GoesOn, ClusterError> {
        let member = self.folder.joined()?;
        let Some(owner) = etcd::running(&self.folder) else {
            let child = etcd::start(&self.folder, &member)?;
            tracing::info!(pid = child.id(), "started etcd");
            return self.wait(Owner::of(child.id()), Some(child));
        };
        tracing::info!(pid = owner.pid, "etcd runs already");
        self.wait(owner, None)
    }

    /// Waits until the process ends, and reads the addresses of the members meanwhile.
    fn wait(&self, owner: Owner, mut child: Option<Child>) -> Result<GoesOn, ClusterError> {
        let pid = i32::try_from(owner.pid).ok().and_then(Pid::from_raw);
        let process = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        let mut repair = Repair::default();
        // Without a descriptor the process has ended.
        while let Some(process) = process.as_ref().filter(|_| owner.is_alive()) {
            match self.wait_for(process.as_fd(), REFRESH) {
                Event::Stopped => return Ok(false),
                Event::Ended => break,
                Event::Elapsed => refresh(&self.folder, &mut repair),
            }
        }
        if let Some(child) = &mut child {
            let _ = child.wait();
        }
        let reason = etcd::last_reason(&self.folder.log());
        let log = self.folder.log();
        tracing::warn!("etcd has ended, and is started again: {reason}: see {}", log.display());
        Ok(true)
    }

    fn is_stopped_within(&self, time: Duration) -> bool {
        let mut files = [PollFd::new(&*self.stop, PollFlags::IN)];
        poll(&mut files, Some(&timespec(time))).is_ok_and(|count| count > 0)
    }

    fn wait_for(&self, process: std::os::fd::BorrowedFd<'_>, time: Duration) -> Event {
        let mut files = [
            PollFd::new(&*self.stop, PollFlags::IN),
            PollFd::from_borrowed_fd(process, PollFlags::IN),
        ];
        // An interruption counts as time that has elapsed.
        let _ = poll(&mut files, Some(&timespec(time)));
        match files.map(|file| !file.revents().is_empty()) {
            [true, _] => Event::Stopped,
            [_, true] => Event::Ended,
            _ => Event::Elapsed,
        }
    }
}

enum Event {
    Stopped,
    Ended,
    Elapsed,
}

/// Keeps the addresses of the members, for a time when this machine's etcd does not run, and repairs an
/// etcd that is full.
fn refresh(folder: &Folder, repair: &mut Repair) {
    let read = |member: &Member| Store::of(folder, member).ok()?.members().ok();
    let Ok(member) = folder.joined() else { return };
    if let Some(listed) = read(&member) {
        remember(folder, &member, &listed);
    }
    if let Err(error) = repair.look(folder, &member) {
        tracing::error!("etcd's database is full and cannot be repaired yet: {error}");
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}
