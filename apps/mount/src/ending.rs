//! The place where `nearflash umount` waits for the end of a mount.
//!
//! The kernel unmounts a FUSE file system without waiting for its process. The command therefore
//! connects to an abstract Unix socket of the process first. The process answers one line when
//! everything is durable, or the reason why it is not.

use std::io::{self, Read as _, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

/// The number of commands that can wait; more are not answered.
const WAITING_MAX: usize = 16;
/// The process has noticed the command, and will answer it.
const NOTICED: u8 = b'+';
/// The answer when everything is durable.
const DURABLE: &str = "durable";
/// The longest answer.
const ANSWER_LEN_MAX: u64 = 4096;

/// The commands that wait for the end of this mount.
#[derive(Debug)]
pub(crate) struct Waiting {
    place: String,
    connections: Arc<Mutex<Vec<UnixStream>>>,
}

impl Waiting {
    /// Accepts commands from now on, on a thread that ends with the process.
    pub(crate) fn listen() -> io::Result<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let place = format!("nearflash-mount-{}-{}", std::process::id(), now.as_nanos());
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&place)?)?;
        let connections = Arc::new(Mutex::new(Vec::new()));
        let accepted = Arc::clone(&connections);
        thread::Builder::new().name("umount".to_owned()).spawn(move || {
            for mut connection in listener.incoming().flatten() {
                let mut accepted = accepted.lock().unwrap_or_else(PoisonError::into_inner);
                if accepted.len() < WAITING_MAX && connection.write_all(&[NOTICED]).is_ok() {
                    accepted.push(connection);
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
        }
    }
}

/// A connection to the process of a mount.
#[derive(Debug)]
pub(crate) struct Wait(UnixStream);

impl Wait {
    /// Returns when the process has noticed it, so that unmounting is not too early.
    pub(crate) fn connect(place: &[u8]) -> io::Result<Self> {
        let mut stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(place)?)?;
        stream.read_exact(&mut [0])?;
        Ok(Self(stream))
    }

    /// Waits until everything is durable; otherwise returns the reason.
    pub(crate) fn finish(self) -> Result<(), String> {
        let mut answer = String::new();
        let read = self.0.take(ANSWER_LEN_MAX).read_to_string(&mut answer);
        match read {
            Ok(_) if answer == DURABLE => Ok(()),
            Ok(0) | Err(_) => Err("its process ended without an answer; see its log".to_owned()),
            Ok(_) => Err(answer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waited(act: impl FnOnce(Waiting)) -> Result<(), String> {
        let waiting = Waiting::listen().unwrap();
        let wait = Wait::connect(waiting.place().as_bytes()).unwrap();
        act(waiting);
        wait.finish()
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
