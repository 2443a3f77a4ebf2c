//! The node's side of the control socket.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use nearflash_api::socket::{REQUEST_LEN_MAX, socket_path};
use nearflash_api::{
    ApiError, Conditional, Document, ErrorCode, Reply, TokenScope, parse_request, rule,
};
use nearflash_rest::Audit;
use nearflash_ring::ShortPath;
use rustix::net::sockopt::socket_peercred;
use zeroize::Zeroizing;

use super::listen_privately;
use crate::node::Node;

/// The maximum number of connections at a time; a further one is refused as busy and closed.
const CONNECTIONS_MAX: usize = 16;

/// The time that a peer has to send its request, and to take its answer.
const PEER_TIMEOUT: Duration = Duration::from_secs(5);

/// The pause after a failed `accept`, so that a lasting cause (no descriptors left) does not fill
/// the log.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The line of an answer, which may hold a secret, or an error.
type Done = Result<Zeroizing<String>, ApiError>;

/// The function that answers requests.
type Handler = dyn Fn(Conditional) -> Done + Send + Sync;

/// A listening control socket.
#[derive(Debug)]
pub(crate) struct ControlServer {
    path: PathBuf,
    listener: Arc<UnixListener>,
    stopping: Arc<AtomicBool>,
    open: Arc<Connections>,
    thread: JoinHandle<()>,
}

impl ControlServer {
    /// Listens in that data directory, whose lock the caller holds: an existing socket is therefore
    /// left over from a node that has ended.
    pub(crate) fn start(data_dir: &Path, node: Arc<Node>) -> io::Result<Self> {
        Self::start_with(data_dir, Arc::new(move |asked| node.serve_line(asked)))
    }

    fn start_with(data_dir: &Path, handler: Arc<Handler>) -> io::Result<Self> {
        let path = socket_path(data_dir);
        let listener = Arc::new(listen(data_dir)?);
        let stopping = Arc::new(AtomicBool::new(false));
        let open = Arc::new(Connections::default());
        let (accepting, told, count) = (listener.clone(), stopping.clone(), open.clone());
        let thread = Builder::new()
            .name("control".to_owned())
            .spawn(move || accept(&accepting, &told, &count, &handler))?;
        Ok(Self { path, listener, stopping, open, thread })
    }

    /// Stops accepting requests, and waits a bounded time for those in progress. A request that is
    /// cut off then has no effect or its whole effect, since a change of the catalog is atomic.
    pub(crate) fn stop(self) {
        self.stopping.store(true, Ordering::Release);
        // The shutdown wakes the thread from `accept`.
        let woken = rustix::net::shutdown(&*self.listener, rustix::net::Shutdown::Both);
        if woken.is_ok() && self.thread.join().is_err() {
            tracing::error!("the control thread has panicked");
        }
        self.open.wait_until_closed(PEER_TIMEOUT);
        // The file may be gone already, which is no error.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn listen(data_dir: &Path) -> io::Result<UnixListener> {
    let short = ShortPath::to(&socket_path(data_dir))?;
    match std::fs::remove_file(short.path()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    listen_privately(short.path(), i32::try_from(CONNECTIONS_MAX).unwrap_or(i32::MAX))
}

fn accept(
    listener: &UnixListener,
    stopping: &AtomicBool,
    open: &Arc<Connections>,
    handler: &Arc<Handler>,
) {
    loop {
        let accepted = listener.accept();
        if stopping.load(Ordering::Acquire) {
            return;
        }
        let served = accepted.and_then(|(stream, _)| serve(stream, open, handler));
        if let Err(error) = served {
            tracing::warn!("control socket: {error}");
            std::thread::sleep(ACCEPT_PAUSE);
        }
    }
}

/// Serves a connection on its own thread, up to [`CONNECTIONS_MAX`] of them.
fn serve(
    mut stream: UnixStream,
    open: &Arc<Connections>,
    handler: &Arc<Handler>,
) -> io::Result<()> {
    stream.set_write_timeout(Some(PEER_TIMEOUT))?;
    let Some(one) = open.begin() else {
        let message = "the node has too many control requests: try again";
        // A peer that has disconnected needs no answer.
        let _ = write_answer(&mut stream, Err(ApiError::new(ErrorCode::Busy, message)));
        return Ok(());
    };
    let handler = Arc::clone(handler);
    Builder::new().name("control-peer".to_owned()).spawn(move || {
        if let Err(error) = answer(&mut stream, &*handler) {
            tracing::debug!("control connection: {error}");
        }
        // In this order: once the count is 0, no thread holds the node.
        drop(handler);
        drop(one);
    })?;
    Ok(())
}

/// The connections that are being served.
#[derive(Debug, Default)]
struct Connections {
    count: Mutex<usize>,
    /// Signals that one has closed.
    closed: Condvar,
}

impl Connections {
    /// Counts a connection, until the result is dropped. `None` if there are too many.
    fn begin(self: &Arc<Self>) -> Option<OpenConnection> {
        let mut count = self.count();
        let has_room = *count < CONNECTIONS_MAX;
        *count += usize::from(has_room);
        has_room.then(|| OpenConnection(Arc::clone(self)))
    }

    fn wait_until_closed(&self, patience: Duration) {
        // After that time, the peers that are left are cut off.
        drop(self.closed.wait_timeout_while(self.count(), patience, |count| *count > 0));
    }

    fn count(&self) -> MutexGuard<'_, usize> {
        // No code panics while the lock is held.
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a connection until dropped.
struct OpenConnection(Arc<Connections>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        *self.0.count() -= 1;
        self.0.closed.notify_all();
    }
}

fn answer(stream: &mut UnixStream, handler: &Handler) -> io::Result<()> {
    let line = read_line(stream, Instant::now() + PEER_TIMEOUT)?;
    let done = parse_request(&line).and_then(|asked| audited(stream, handler, asked));
    write_answer(stream, done)
}

/// Executes a request. A change leaves a line in the log.
fn audited(stream: &UnixStream, handler: &Handler, asked: Conditional) -> Done {
    let (call, (scope, subject)) = (asked.request.name(), rule(&asked.request));
    let done = handler(asked);
    if scope != TokenScope::Read {
        let uid = socket_peercred(stream).map(|peer| peer.uid.as_raw().to_string());
        let who = format!("uid {}", uid.as_deref().unwrap_or("unknown"));
        let audit = Audit { through: "control socket", who: &who, peer: "" };
        audit.log(call, &subject, done.as_ref().map(drop));
    }
    done
}

/// The line of a request, or the bytes that came before the peer closed or the bound was reached.
fn read_line(stream: &mut UnixStream, deadline: Instant) -> io::Result<Zeroizing<Vec<u8>>> {
    // The line may hold a secret, so the buffer never reallocates.
    let mut line = Zeroizing::new(Vec::with_capacity(REQUEST_LEN_MAX + 4096));
    let mut part = Zeroizing::new([0; 4096]);
    while line.len() < REQUEST_LEN_MAX && !line.contains(&b'\n') {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut *part)? {
            0 => break,
            count => line.extend_from_slice(&part[..count]),
        }
    }
    let end = line.iter().position(|byte| *byte == b'\n').unwrap_or(line.len());
    line.truncate(end);
    Ok(line)
}

fn write_answer(stream: &mut UnixStream, done: Done) -> io::Result<()> {
    let line = done.unwrap_or_else(|error| {
        tracing::debug!("refused: {error}");
        Zeroizing::new(Document::new(Reply::<()>::Error(error)).to_line())
    });
    stream.write_all(line.as_bytes())?;
    stream.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearflash_api::client::{ControlError, ask};
    use nearflash_api::{StatusShow, VolumeList};
    use std::io::BufRead;
    use std::os::unix::fs::PermissionsExt;

    fn echo() -> Arc<Handler> {
        Arc::new(|asked: Conditional| Err(ApiError::new(ErrorCode::Busy, asked.request.name())))
    }

    fn raw(data_dir: &Path, request: &[u8]) -> String {
        let mut stream = UnixStream::connect(socket_path(data_dir)).unwrap();
        stream.write_all(request).unwrap();
        let mut answer = String::new();
        io::BufReader::new(stream).read_line(&mut answer).unwrap();
        answer
    }

    #[test]
    fn the_socket_is_for_its_user_alone_and_goes_with_the_node() {
        let folder = tempfile::tempdir().unwrap();
        // A socket left over from a node that was killed.
        drop(UnixListener::bind(socket_path(folder.path())).unwrap());
        let server = ControlServer::start_with(folder.path(), echo()).unwrap();
        let mode = std::fs::metadata(socket_path(folder.path())).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let refused = ask(folder.path(), StatusShow {}).unwrap_err();
        assert_eq!(refused.to_string(), "status");
        server.stop();
        assert!(!socket_path(folder.path()).exists());
        let gone = ask(folder.path(), StatusShow {}).unwrap_err();
        assert!(matches!(gone, ControlError::NotRunning { .. }));
    }

    #[test]
    fn a_data_directory_with_a_long_path_has_a_socket_too() {
        let folder = tempfile::tempdir().unwrap();
        let long = folder.path().join("x".repeat(120));
        std::fs::create_dir(&long).unwrap();
        let server = ControlServer::start_with(&long, echo()).unwrap();
        assert_eq!(ask(&long, VolumeList {}).unwrap_err().to_string(), "volume-list");
        server.stop();
    }

    #[test]
    fn what_is_no_request_is_answered_and_the_next_one_served() {
        let folder = tempfile::tempdir().unwrap();
        let server = ControlServer::start_with(folder.path(), echo()).unwrap();
        let answer = |request: &[u8]| raw(folder.path(), request);
        assert!(answer(b"hello\n").contains("invalid request"));
        assert!(answer(b"[]\n").contains("a request needs schema 1"));
        assert!(answer(b"{\"schema\":2,\"command\":\"status\"}\n").contains("schema 1"));
        assert!(
            answer(b"{\"schema\":1,\"command\":\"dance\"}\n").contains("unknown variant `dance`")
        );
        assert!(answer(b"{\"schema\":1,\"command\":\"a\\nb\"}\n").contains("variant `a\\\\nb`"));
        let unknown =
            b"{\"schema\":1,\"command\":\"volume-remove\",\"name\":\"x\",\"sure\":true}\n";
        assert!(answer(unknown).contains("unknown field `sure`"));
        let long = vec![b' '; REQUEST_LEN_MAX];
        assert!(answer(&long).contains("at most 65536 bytes"));
        assert!(answer(b"{\"schema\":1,\"command\":\"status\"}\n").contains("status"));
        server.stop();
    }

    #[test]
    fn peers_that_say_nothing_do_not_keep_others_out_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let server = ControlServer::start_with(folder.path(), echo()).unwrap();
        let silent: Vec<UnixStream> = (0..CONNECTIONS_MAX)
            .map(|_| UnixStream::connect(socket_path(folder.path())).unwrap())
            .collect();
        let refused = raw(folder.path(), b"{\"schema\":1,\"command\":\"status\"}\n");
        assert!(refused.contains("too many control requests"), "{refused}");
        drop(silent);
        server.stop();
    }
}
