//! The place where `nearflash umount` waits for the end of a mount.
//!
//! The kernel unmounts a FUSE file system without waiting for its process. The command therefore
//! connects to an abstract Unix socket of the process first. The process answers one line when
//! everything is durable, or the reason why it is not.
//!
//! The command finds the socket in the kernel's table, by the number of the mount's device in its name. It
//! asks the file system itself only if there is none: a file system whose node is silent does not answer.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::net::sockopt::socket_peercred;

use crate::mount_point::Mounted;
use crate::session::{Event, PATIENCE};

/// The number of commands that can wait; more are not answered.
const WAITING_MAX: usize = 16;
/// The process has noticed the command, and will answer it.
const NOTICED: u8 = b'+';
/// The command has unmounted the file system.
const DETACHED: u8 = b'd';
/// The same, and the process gives up soon on a node that does not answer.
const FORCED: u8 = b'f';
/// The answer when everything is durable.
const DURABLE: &str = "durable";
/// The longest answer.
const ANSWER_LEN_MAX: u64 = 4096;
/// The time in which a process notices a command, unless it is stopped.
const NOTICED_WITHIN: Duration = Duration::from_secs(5);
/// The start of the sockets' names.
const PREFIX: &str = "nearflash-mount-";
/// The kernel's table of Unix sockets; proc_net(5).
const SOCKETS: &str = "/proc/net/unix";

/// The commands that wait for the end of this mount.
#[derive(Debug)]
pub(crate) struct Waiting {
    place: String,
    connections: Arc<Mutex<Vec<UnixStream>>>,
}

impl Waiting {
    /// Accepts commands from now on, on threads that end with the process. `device` is the number of the
    /// mount's device.
    pub(crate) fn listen(device: &str, events: Sender<Event>) -> io::Result<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let place = format!("{PREFIX}{}-{}-{device}", std::process::id(), now.as_nanos());
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&place)?)?;
        let connections = Arc::new(Mutex::new(Vec::new()));
        let accepted = Arc::clone(&connections);
        thread::Builder::new().name("umount".to_owned()).spawn(move || {
            for mut connection in listener.incoming().flatten() {
                let mut accepted = accepted.lock().unwrap_or_else(PoisonError::into_inner);
                let Ok(words) = connection.try_clone() else { continue };
                if accepted.len() < WAITING_MAX && connection.write_all(&[NOTICED]).is_ok() {
                    accepted.push(connection);
                    hear(words, events.clone());
                }
            }
        })?;
        Ok(Self { place, connections })
    }

    /// The name of the socket.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// Answers every command that waits. A command that has gone is not an error.
    pub(crate) fn answer(&self, failure: Option<&str>) {
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        for mut connection in connections.drain(..) {
            let _ = connection.write_all(failure.unwrap_or(DURABLE).as_bytes());
            // The other end of the thread that hears the command.
            let _ = connection.shutdown(std::net::Shutdown::Both);
        }
    }
}

/// Passes on what a command says. Only commands of this user and of root are obeyed.
fn hear(mut words: UnixStream, events: Sender<Event>) {
    let own = rustix::process::geteuid();
    let is_obeyed = socket_peercred(&words).is_ok_and(|peer| peer.uid == own || peer.uid.is_root());
    if !is_obeyed {
        return;
    }
    thread::spawn(move || {
        let mut word = [0];
        while words.read_exact(&mut word).is_ok() {
            let event = match word[0] {
                DETACHED => Event::Detached,
                FORCED => Event::Forced,
                _ => return,
            };
            // The receiver is gone when the process ends.
            let _ = events.send(event);
        }
    });
}

/// The name of the socket of the process that serves this file system.
pub(crate) fn place_of(mounted: &Mounted) -> io::Result<Option<Vec<u8>>> {
    Ok(named(&fs::read(SOCKETS)?, &mounted.device))
}

/// The latest name in the table of sockets for this device: the process of a former mount may still be ending.
fn named(table: &[u8], device: &str) -> Option<Vec<u8>> {
    let begun_at = |name: &str| name.split('-').nth(3).and_then(|at| at.parse::<u128>().ok());
    let names = table.split(|byte| *byte == b'\n').filter_map(|line| {
        let (_, name) = std::str::from_utf8(line).ok()?.rsplit_once(" @")?;
        let is_ours = name.starts_with(PREFIX) && name.ends_with(&format!("-{device}"));
        is_ours.then_some(name)
    });
    names.max_by_key(|name| begun_at(name)).map(|name| name.as_bytes().to_vec())
}

/// A connection to the process of a mount.
#[derive(Debug)]
pub(crate) struct Wait(UnixStream);

impl Wait {
    /// Returns when the process has noticed it, so that unmounting is not too early. The process is that of a
    /// mount of this user: anybody can create a socket with its name.
    pub(crate) fn connect(place: &[u8], user: Option<u32>) -> io::Result<Self> {
        let mut stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(place)?)?;
        let peer = socket_peercred(&stream)?.uid;
        if user.is_some_and(|user| user != peer.as_raw()) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        stream.set_read_timeout(Some(NOTICED_WITHIN))?;
        stream.read_exact(&mut [0])?;
        Ok(Self(stream))
    }

    /// Tells the process that its file system was unmounted, and waits until everything is durable; otherwise
    /// returns the reason.
    pub(crate) fn finish(mut self, is_forced: bool) -> Result<(), String> {
        let mut answer = String::new();
        let word = if is_forced { FORCED } else { DETACHED };
        let read = (self.0.write_all(&[word]))
            .and_then(|()| self.0.set_read_timeout(Some(PATIENCE + NOTICED_WITHIN)))
            .and_then(|()| self.0.take(ANSWER_LEN_MAX).read_to_string(&mut answer));
        match read {
            Ok(_) if answer == DURABLE => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Err("its process does not answer; see its log, and kill it".to_owned())
            }
            Ok(0) | Err(_) => Err("its process ended without an answer; see its log".to_owned()),
            Ok(_) => Err(answer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, channel};

    fn listen() -> (Waiting, Receiver<Event>) {
        let (sender, events) = channel();
        (Waiting::listen("0:1", sender).unwrap(), events)
    }

    fn waited(act: impl FnOnce(Waiting)) -> Result<(), String> {
        let (waiting, _events) = listen();
        let wait = Wait::connect(waiting.place().as_bytes(), None).unwrap();
        act(waiting);
        wait.finish(false)
    }

    #[test]
    fn a_process_learns_that_its_mount_was_unmounted_and_how() {
        let (waiting, events) = listen();
        let own = rustix::process::geteuid().as_raw();
        for is_forced in [false, true] {
            let wait = Wait::connect(waiting.place().as_bytes(), Some(own)).unwrap();
            let finished = thread::spawn(move || wait.finish(is_forced));
            let event = events.recv().unwrap();
            assert_eq!(matches!(event, Event::Forced), is_forced, "{event:?}");
            waiting.answer(None);
            assert_eq!(finished.join().unwrap(), Ok(()));
        }
        let foreign = Wait::connect(waiting.place().as_bytes(), Some(own + 1)).unwrap_err();
        assert_eq!(foreign.kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn the_latest_socket_of_a_device_is_found_in_the_table() {
        let table = b"Num RefCount Protocol Flags Type St Inode Path\n\
            0: 2 0 10000 1 01 7 @nearflash-mount-9-1000-0:42\n\
            0: 2 0 10000 1 01 8 @nearflash-mount-7-2000-0:42\n\
            0: 2 0 10000 1 01 8 @nearflash-mount-8-3000-0:421\n\
            0: 2 0 10000 1 01 9 /run/\xff\n\
            0: 3 0 0 1 03 10\n";
        assert_eq!(named(table, "0:42"), Some(b"nearflash-mount-7-2000-0:42".to_vec()));
        assert_eq!(named(table, "0:2"), None);
        let (waiting, _events) = listen();
        let found = named(&fs::read(SOCKETS).unwrap(), "0:1");
        assert_eq!(found.as_deref(), Some(waiting.place().as_bytes()));
    }

    #[test]
    fn a_command_learns_that_everything_is_durable_or_why_not() {
        assert_eq!(waited(|waiting| waiting.answer(None)), Ok(()));
        let failed = waited(|waiting| waiting.answer(Some("the node is gone")));
        assert_eq!(failed, Err("the node is gone".to_owned()));
    }

    #[test]
    fn a_process_that_ends_without_an_answer_is_not_success() {
        let ended = waited(|waiting| waiting.connections.lock().unwrap().clear());
        assert!(ended.unwrap_err().contains("without an answer"));
    }
}
