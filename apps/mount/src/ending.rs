//! The place where `nearflash umount` waits for the end of a mount.
//!
//! The kernel unmounts a FUSE file system without waiting for its process. The command therefore
//! connects to an abstract Unix socket of the process first. The process answers one line when
//! everything is durable, or the reason why it is not.
//!
//! The command finds the socket in the kernel's table, by the identity of the mount in its name. It
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

use crate::event::{Event, PATIENCE};
use crate::mount_point::Mounted;

/// The number of commands that can wait; more are not answered.
const WAITING_MAX: usize = 16;
/// The process has noticed the command, and will answer it.
const NOTICED: u8 = b'+';
/// The command has unmounted the file system.
const DETACHED: u8 = b'd';
/// The command has unmounted the file system, and the process gives up soon on a node that does not answer.
const FORCED: u8 = b'f';
/// The answer when everything is durable.
const DURABLE: &str = "durable";
const ANSWER_LEN_MAX: usize = 4096;
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
    connections: Connections,
}

/// The connections of the commands, each with its number.
type Connections = Arc<Mutex<Vec<(u64, UnixStream)>>>;

impl Waiting {
    /// Accepts commands from now on, on threads that end with the process. `identity` is that of the
    /// mount.
    pub(crate) fn listen(identity: &str, events: Sender<Event>) -> io::Result<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let place = format!("{PREFIX}{}-{}-{identity}", std::process::id(), now.as_nanos());
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&place)?)?;
        let connections = Connections::default();
        let accepted = Arc::clone(&connections);
        thread::Builder::new().name("umount".to_owned()).spawn(move || {
            for (number, mut connection) in (0..).zip(listener.incoming().flatten()) {
                let Ok(words) = connection.try_clone() else { continue };
                let mut waiting = accepted.lock().unwrap_or_else(PoisonError::into_inner);
                let is_heard = waiting.len() < WAITING_MAX && is_obeyed(&connection);
                if is_heard && connection.write_all(&[NOTICED]).is_ok() {
                    waiting.push((number, connection));
                    let (accepted, events) = (Arc::clone(&accepted), events.clone());
                    thread::spawn(move || {
                        hear(words, &events);
                        let mut waiting = accepted.lock().unwrap_or_else(PoisonError::into_inner);
                        waiting.retain(|(other, _)| *other != number);
                    });
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
        for (_, mut connection) in connections.drain(..) {
            let _ = connection.write_all(failure.unwrap_or(DURABLE).as_bytes());
            // The other end of the thread that hears the command.
            let _ = connection.shutdown(std::net::Shutdown::Both);
        }
    }
}

/// Whether it is a command of this user or of root.
fn is_obeyed(connection: &UnixStream) -> bool {
    let own = rustix::process::geteuid();
    socket_peercred(connection).is_ok_and(|peer| peer.uid == own || peer.uid.is_root())
}

/// Passes on what a command says, until it has gone.
fn hear(mut words: UnixStream, events: &Sender<Event>) {
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
}

/// The name of the socket of the process that serves this file system.
pub(crate) fn place_of(mounted: &Mounted) -> io::Result<Option<Vec<u8>>> {
    Ok(named(&fs::read(SOCKETS)?, &mounted.identity()))
}

/// The latest name in the table of sockets for this mount: the process of a former mount may still be ending.
fn named(table: &[u8], identity: &str) -> Option<Vec<u8>> {
    let begun_at = |name: &str| name.split('-').nth(3).and_then(|at| at.parse::<u128>().ok());
    let names = table.split(|byte| *byte == b'\n').filter_map(|line| {
        let (_, name) = std::str::from_utf8(line).ok()?.rsplit_once(" @")?;
        let is_ours = name.starts_with(PREFIX) && name.ends_with(&format!("-{identity}"));
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
        let failed = |source: io::Error| source.to_string();
        self.0.set_read_timeout(Some(PATIENCE + NOTICED_WITHIN)).map_err(failed)?;
        // The process may have answered, and ended, before it is told.
        let _ = self.0.write_all(&[if is_forced { FORCED } else { DETACHED }]);
        let (mut answer, mut part) = (Vec::new(), [0; ANSWER_LEN_MAX]);
        while answer.len() < ANSWER_LEN_MAX {
            match self.0.read(&mut part) {
                Ok(0) => break,
                Ok(len) => answer.extend_from_slice(&part[..len]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err("its process does not answer; see its log, and kill it".to_owned());
                }
                // The end of a process that has not read the word.
                Err(_) => break,
            }
        }
        match &*answer {
            b"" => Err("its process ended without an answer; see its log".to_owned()),
            answer if answer == DURABLE.as_bytes() => Ok(()),
            answer => Err(String::from_utf8_lossy(answer).into_owned()),
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
    fn commands_that_have_gone_keep_no_place() {
        let (waiting, _events) = listen();
        for _ in 0..3 * WAITING_MAX {
            drop(Wait::connect(waiting.place().as_bytes(), None).unwrap());
            while !waiting.connections.lock().unwrap().is_empty() {
                thread::yield_now();
            }
        }
    }

    #[test]
    fn the_latest_socket_of_a_mount_is_found_in_the_table() {
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
        let ended = waited(|waiting| {
            for (_, connection) in &*waiting.connections.lock().unwrap() {
                connection.shutdown(std::net::Shutdown::Both).unwrap();
            }
        });
        assert!(ended.unwrap_err().contains("without an answer"));
    }
}
