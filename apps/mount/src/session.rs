//! A mount: from taking the volume to its last durable change.

use std::mem::{self, ManuallyDrop};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fuser::{Config, MountOption, Session, SessionACL};
use nearflash::direct::{Options, Place, Url};
use nearflash::{Client, Credentials};
use nearflash_files_service::{AnyFiles, Taker, open};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::ending::Waiting;
use crate::event::{Event, PATIENCE};
use crate::gate::Gate;
use crate::mount_point;
use crate::options::MountOptions;
use crate::translator::{Kept, Translator};
use crate::unmounting::detach;
use crate::{MountError, UnmountError};

/// The interval at which changes become durable that no program has synchronised.
const SYNC_PERIOD: Duration = Duration::from_secs(5);

/// The time after which the owner in the node knows that a file was written without it.
const TELL_PERIOD: Duration = Duration::from_secs(1);

/// The time for which the kernel keeps names and attributes of files that only this mount changes. Any
/// time is safe; this one bounds how long the number of blocks is that before the space behind a file's
/// end was returned, and costs one request a second for each file that is in use.
const ATTRIBUTES_FOR: Duration = Duration::from_secs(1);

/// The patience after `nearflash umount --force` and a second signal.
const LITTLE_PATIENCE: Duration = Duration::from_secs(2);

/// A mounted volume.
#[derive(Debug)]
pub struct Mount {
    dir: PathBuf,
    source: String,
    files: Arc<Gate>,
    waiting: Waiting,
    own_events: Sender<Event>,
    events: Receiver<Event>,
}

impl Mount {
    /// Takes a volume, and mounts it on a directory. Programs can use it once this returns.
    ///
    /// # Errors
    /// When the directory cannot be mounted on, FUSE is not available, or the volume cannot be taken.
    pub fn new(url: Url, dir: &Path, options: MountOptions) -> Result<Self, MountError> {
        let dir = mount_point::checked(dir)?;
        mount_point::check_fuse()?;
        let source = mount_point::source(&url);
        let url = absolute(url);
        let client = Client::connect_to(url.clone(), Credentials::NONE, Options::default())?;
        // As the volume is known to the node.
        let volume = client.open_named()?.name().to_owned();
        let files = open(&client, &volume, Some(&Taker::mount(options.take_over)))?;
        // Several mounts share the files of a node.
        let is_shared = matches!(files, AnyFiles::Remote(_));
        let attributes_for = options.attributes_for.unwrap_or(if is_shared {
            Duration::ZERO
        } else {
            ATTRIBUTES_FOR
        });
        let kept = Kept { cache: options.cache, is_shared, attributes_for };
        let (sender, events) = channel();
        let files = Arc::new(Gate::new(Box::new(files), sender.clone()));
        watch_signals(sender.clone()).map_err(MountError::Signals)?;
        let translator = Translator::new(Arc::clone(&files), kept, &url);
        let waiting_place = translator.waiting_place();
        let refused = |source| MountError::Refused { dir: dir.clone(), source };
        let config = config(source.clone(), options);
        let session = Session::new(translator, &dir, &config).map_err(refused)?;
        let mounted = mount_point::mounted_on(&dir).map_err(MountError::Listen)?;
        let identity = mounted.map(|mounted| mounted.identity()).unwrap_or_default();
        let waiting = Waiting::listen(&identity, sender.clone()).map_err(MountError::Listen)?;
        waiting_place.get_or_init(|| waiting.place().to_owned());
        let guard = serve(session).map_err(MountError::Kernel)?;
        sync_by_and_by(&files);
        tidy_by_and_by(&files);
        if is_shared {
            tell_by_and_by(&files);
        }
        let own_events = sender.clone();
        thread::spawn(move || {
            let ended = guard.join().unwrap_or_else(|_| Err(std::io::Error::other("a panic")));
            // The receiver is gone when the process ends.
            let _ = sender.send(Event::Unmounted(ended));
        });
        Ok(Self { dir, source, files, waiting, own_events, events })
    }

    /// The directory on which the volume is mounted.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Makes [`Self::run`] unmount, as SIGTERM does.
    pub fn end(&self) {
        // The receiver is part of this mount.
        let _ = self.own_events.send(Event::Signal);
    }

    /// Answers the kernel until the file system is unmounted, which SIGTERM and SIGINT also do. Then
    /// waits for the calls under way, and makes everything durable. Gives up on a node that does not answer.
    ///
    /// # Errors
    /// When changes cannot be made durable, or another process has taken the volume over. The mount
    /// point of such a mount stays, and every call fails, so that no program writes to the directory
    /// below.
    pub fn run(self) -> Result<(), MountError> {
        let mut ending = Ending::default();
        let ended = match self.wait(&mut ending) {
            Err(error @ MountError::NoAnswer { .. }) => Err(error),
            ended => ended.and(self.close(ending)),
        };
        let failure = ended.as_ref().err().map(ToString::to_string);
        self.waiting.answer(failure.as_deref());
        ended
    }

    /// Waits for the end of the file system.
    fn wait(&self, ending: &mut Ending) -> Result<(), MountError> {
        loop {
            match self.event(ending.until)? {
                Event::Unmounted(ended) => return ended.map_err(MountError::Kernel),
                Event::Failed(reason) => return Err(MountError::Failed(reason)),
                Event::Detached => ending.begin(PATIENCE),
                Event::Signal if ending.is_first_signal() => {
                    let is_detached = ending.until.is_some();
                    ending.begin(PATIENCE);
                    if !is_detached && !self.is_detached() {
                        return Ok(());
                    }
                }
                // The session ends with this process.
                Event::Forced | Event::Signal => {
                    ending.begin(LITTLE_PATIENCE);
                    return Ok(());
                }
                Event::Closed(_) => {}
            }
        }
    }

    /// Unmounts the file system. The kernel then ends the session, unless the file system is in use.
    fn is_detached(&self) -> bool {
        match detach(&self.dir, false) {
            Ok(()) => return true,
            Err(UnmountError::Busy(dir)) => {
                tracing::warn!("{} is in use: its open files fail now", dir.display());
                let _ = detach(&dir, true);
            }
            Err(error) => tracing::warn!("{error}"),
        }
        false
    }

    /// Makes everything durable, in time.
    fn close(&self, mut ending: Ending) -> Result<(), MountError> {
        ending.begin(PATIENCE);
        let (files, events) = (Arc::clone(&self.files), self.own_events.clone());
        thread::spawn(move || events.send(Event::Closed(files.close())));
        loop {
            match self.event(ending.until)? {
                Event::Closed(closed) => return Ok(closed?),
                Event::Signal if ending.is_first_signal() => {}
                Event::Forced | Event::Signal => ending.begin(LITTLE_PATIENCE),
                Event::Unmounted(_) | Event::Failed(_) | Event::Detached => {}
            }
        }
    }

    /// The next event, at the time `until` at the latest.
    fn event(&self, until: Option<Instant>) -> Result<Event, MountError> {
        let event = match until {
            None => self.events.recv().map_err(RecvTimeoutError::from),
            Some(until) => {
                self.events.recv_timeout(until.saturating_duration_since(Instant::now()))
            }
        };
        // A sender exists as long as the mount.
        event.map_err(|_| MountError::NoAnswer { url: self.source.clone() })
    }
}

/// How a mount ends.
#[derive(Debug, Default)]
struct Ending {
    /// The time at which it gives up, once it is ending.
    until: Option<Instant>,
    is_signalled: bool,
}

impl Ending {
    /// It gives up after this time, if not sooner.
    fn begin(&mut self, patience: Duration) {
        let at = Instant::now() + patience;
        self.until = Some(self.until.map_or(at, |until| until.min(at)));
    }

    /// Notes a signal. The first one asks for the end, and a second one for less patience.
    fn is_first_signal(&mut self) -> bool {
        !mem::replace(&mut self.is_signalled, true)
    }
}

/// The same place for a process that leaves its directory: the mount connects again later.
fn absolute(mut url: Url) -> Url {
    if let Place::Local(path) = &mut url.place
        && let Ok(absolute) = std::path::absolute(&*path)
    {
        *path = absolute;
    }
    url
}

fn config(source: String, options: MountOptions) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(source),
        MountOption::Subtype("nearflash".to_owned()),
        MountOption::DefaultPermissions,
    ];
    config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(options.threads.get());
    config
}

/// Answers on threads of the session.
///
/// The session's own unmounting is never used: it does not notice that the file system was unmounted
/// already, and would unmount what another process has mounted on the directory since.
fn serve(session: Session<Translator>) -> std::io::Result<JoinHandle<std::io::Result<()>>> {
    let mut session = ManuallyDrop::new(session.spawn()?);
    Ok(mem::replace(&mut session.guard, thread::spawn(|| Ok(()))))
}

/// Makes changes durable that no program has synchronised, until the mount ends.
fn sync_by_and_by(files: &Arc<Gate>) {
    let files = Arc::downgrade(files);
    thread::spawn(move || {
        loop {
            thread::sleep(SYNC_PERIOD);
            let Some(files) = files.upgrade() else { return };
            files.sync();
        }
    });
}

/// Moves files of several runs to one, until the mount ends. No sync waits for that.
fn tidy_by_and_by(files: &Arc<Gate>) {
    let files = Arc::downgrade(files);
    thread::spawn(move || {
        loop {
            thread::sleep(SYNC_PERIOD);
            let Some(files) = files.upgrade() else { return };
            files.tidy();
        }
    });
}

/// Tells the owner of files that programs have written without it, until the mount ends.
fn tell_by_and_by(files: &Arc<Gate>) {
    let files = Arc::downgrade(files);
    thread::spawn(move || {
        loop {
            thread::sleep(TELL_PERIOD);
            let Some(files) = files.upgrade() else { return };
            files.tell_owner();
        }
    });
}

fn watch_signals(events: Sender<Event>) -> std::io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for _ in signals.forever() {
            // The receiver is gone when the process ends.
            let _ = events.send(Event::Signal);
        }
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_of_a_node_is_found_from_any_directory() {
        let place = |text: &str| absolute(text.parse().unwrap()).place;
        let here = std::env::current_dir().unwrap();
        assert_eq!(place("direct+local:n.sock/data"), Place::Local(here.join("n.sock")));
        assert_eq!(place("direct+local:/run/n.sock/data"), Place::Local("/run/n.sock".into()));
        assert!(matches!(place("direct://n/data"), Place::Tcp { .. }));
    }
}
