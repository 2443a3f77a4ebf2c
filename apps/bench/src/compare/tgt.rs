//! Debian's `tgt` as a peer: a target with one logical unit on a file in a RAM file system.
//!
//! It runs unprivileged, with its control socket and lock in a temporary folder. It uses one I/O
//! thread, and both its threads share one core; more threads made it slower.

use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nearflash_units::ByteLen;

use super::programs::find;
use super::tgt_error::TgtError;
use crate::BenchError;
use crate::placement::{CoreId, pin};
use crate::subject::IscsiTarget;

/// The message about rows that need it, if it is not installed.
pub const TGT_NOT_INSTALLED: &str = "tgt is not installed (Debian: tgt)";
/// How long it may take until it listens.
const START_SPAN_MAX: Duration = Duration::from_secs(5);
/// A folder on a RAM file system.
const RAM_DIR: &str = "/dev/shm";
/// The target's name.
const NAME: &str = "iqn.2026-11.io.nearflash.peer:ram";
/// LUN 0 is the controller, which stores nothing.
const LUN: u16 = 1;
/// The control socket is in a private folder, so its number cannot collide.
const CONTROL_PORT: &str = "1";

/// A running target; it and its file are removed on drop.
#[derive(Debug)]
pub struct Tgt {
    daemon: Child,
    dir: PathBuf,
    port: u16,
}

impl Tgt {
    /// Starts it on a core, with a filled logical unit of this length and blocks of 4 KiB. `None`
    /// if it is not installed.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start(core: CoreId, len: ByteLen) -> Result<Option<Self>, BenchError> {
        let Some((tgt, admin)) = Self::spawn(core)? else { return Ok(None) };
        let store = tgt.dir.join("store.img");
        write_full(&store, len).map_err(io_error("its store"))?;
        tgt.configure(&admin, &store, &["--blocksize", "4096"])?;
        Ok(Some(tgt))
    }

    /// Starts it on a core, with this file as its logical unit, opened with O_DIRECT. `None` if it
    /// is not installed.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start_on(core: CoreId, store: &Path) -> Result<Option<Self>, BenchError> {
        let Some((tgt, admin)) = Self::spawn(core)? else { return Ok(None) };
        tgt.configure(&admin, store, &["--blocksize", "512", "--bsoflags", "direct"])?;
        Ok(Some(tgt))
    }

    /// The daemon without targets, and the path of `tgtadm`.
    fn spawn(core: CoreId) -> Result<Option<(Self, PathBuf)>, BenchError> {
        let (Some(daemon), Some(admin)) = (find("tgtd"), find("tgtadm")) else { return Ok(None) };
        let dir = Path::new(RAM_DIR).join(format!("nearflash-bench-{}", std::process::id()));
        std::fs::create_dir_all(&dir).map_err(io_error("its folder"))?;
        let port = free_port().map_err(io_error("a free port"))?;
        let mut command = Command::new(daemon);
        command
            .args(["-f", "-t", "1", "-C", CONTROL_PORT, "--iscsi"])
            .arg(format!("portal=127.0.0.1:{port}"))
            .env("TGT_IPC_SOCKET", control_socket(&dir))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // A process inherits the affinity of the thread that starts it.
        let started = std::thread::scope(|scope| {
            let starting = scope.spawn(|| {
                pin(core)?;
                Ok::<_, BenchError>(command.spawn().map_err(io_error("its daemon"))?)
            });
            starting.join().expect("the starting thread has no panic")
        });
        match started {
            Ok(daemon) => Ok(Some((Self { daemon, dir, port }, admin))),
            Err(error) => {
                let _ = std::fs::remove_dir_all(&dir);
                Err(error)
            }
        }
    }

    /// Its process ID, for its processor time.
    pub fn process_id(&self) -> u32 {
        self.daemon.id()
    }

    /// Its logical unit.
    pub fn target(&self) -> IscsiTarget {
        IscsiTarget {
            host: "127.0.0.1".to_owned(),
            port: self.port,
            name: NAME.to_owned(),
            lun: LUN,
            header_digest: false,
            data_digest: false,
            sessions: 1,
            connections: 1,
            account: None,
            mutual: None,
        }
    }

    fn configure(&self, admin: &Path, store: &Path, more: &[&str]) -> Result<(), TgtError> {
        self.tell_first(admin)?;
        let store = store.display().to_string();
        let lun = LUN.to_string();
        let unit = ["--mode", "logicalunit", "--op", "new", "--tid", "1", "--lun", &lun];
        let kind = ["--backing-store", &store, "--bstype", "rdwr"];
        self.tell(admin, &[&unit[..], &kind[..], more].concat())?;
        let all = ["--mode", "target", "--op", "bind", "--tid", "1", "--initiator-address", "ALL"];
        self.tell(admin, &all)
    }

    /// Creates the target as soon as the daemon accepts commands.
    fn tell_first(&self, admin: &Path) -> Result<(), TgtError> {
        let words = ["--mode", "target", "--op", "new", "--tid", "1", "--targetname", NAME];
        let end = Instant::now() + START_SPAN_MAX;
        loop {
            match self.tell(admin, &words) {
                Err(_) if Instant::now() < end => std::thread::sleep(Duration::from_millis(50)),
                result => return result,
            }
        }
    }

    fn tell(&self, admin: &Path, words: &[&str]) -> Result<(), TgtError> {
        let said = Command::new(admin)
            .args(["-C", CONTROL_PORT, "--lld", "iscsi"])
            .args(words)
            .env("TGT_IPC_SOCKET", control_socket(&self.dir))
            .output()
            .map_err(io_error("tgtadm"))?;
        match said {
            Output { status, .. } if status.success() => Ok(()),
            Output { stderr, .. } => {
                let said = String::from_utf8_lossy(&stderr).trim().to_owned();
                Err(TgtError::Refused { command: words.join(" "), said })
            }
        }
    }
}

impl Drop for Tgt {
    fn drop(&mut self) {
        // It ignores SIGTERM while it has a target; its data is temporary.
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn io_error(what: &'static str) -> impl Fn(io::Error) -> TgtError {
    move |source| TgtError::Io { what, source }
}

fn control_socket(dir: &Path) -> PathBuf {
    dir.join("control")
}

/// A port that was free a moment ago.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Writes every block, so that reads never meet a hole.
fn write_full(path: &Path, len: ByteLen) -> io::Result<()> {
    let mut file = std::fs::File::create(path)?;
    let source = io::Read::take(io::repeat(0x6E), len.0);
    io::copy(&mut { source }, &mut file)?;
    Ok(())
}
