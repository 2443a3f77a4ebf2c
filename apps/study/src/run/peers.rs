//! Other programs that serve flash, started for the run if they are installed.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nearflash_bench::compare::{Tgt, find};
use nearflash_bench::placement::{CoreId, pin};
use nearflash_units::{ByteLen, Nanos};

use super::error::PointError;
use crate::local::Disk;
use crate::plan::{Medium, Peer};

/// How long a program may take until it listens.
const START_SPAN_MAX: Duration = Duration::from_secs(5);

/// A program that serves a medium; stopped on drop.
#[derive(Debug)]
pub(super) enum Served {
    Tgt(Tgt),
    Nbdkit(Nbdkit),
}

impl Served {
    /// Starts it on a core.
    pub(super) fn start(
        peer: Peer,
        medium: Medium,
        disk: &Disk,
        dir: &Path,
        core: CoreId,
    ) -> Result<Self, PointError> {
        match peer {
            Peer::Tgt => start_tgt(medium, disk, core).map(Self::Tgt),
            Peer::Nbdkit => Nbdkit::start(medium, disk, dir, core).map(Self::Nbdkit),
            Peer::Fio => unreachable!("fio serves nothing"),
        }
    }

    pub(super) fn process_id(&self) -> u32 {
        match self {
            Self::Tgt(tgt) => tgt.process_id(),
            Self::Nbdkit(nbdkit) => nbdkit.daemon.id(),
        }
    }
}

fn start_tgt(medium: Medium, disk: &Disk, core: CoreId) -> Result<Tgt, PointError> {
    let started = match medium {
        Medium::Memory(_) => Tgt::start(core, disk.volume_len())?,
        Medium::File(index) => {
            let raw = disk.raw(index);
            if !disk.is_scratch() {
                return Err(PointError::NotServed { peer: "tgt", medium: "a part of --local" });
            }
            Tgt::start_on(core, &raw.path)?
        }
        Medium::Null { .. } => {
            return Err(PointError::NotServed { peer: "tgt", medium: "the null device" });
        }
    };
    started.ok_or(PointError::Absent { peer: "tgt" })
}

/// nbdkit, on a Unix socket.
#[derive(Debug)]
pub(super) struct Nbdkit {
    daemon: Child,
    pub(super) socket: PathBuf,
    pub(super) len: ByteLen,
}

impl Nbdkit {
    fn start(medium: Medium, disk: &Disk, dir: &Path, core: CoreId) -> Result<Self, PointError> {
        let program = find("nbdkit").ok_or(PointError::Absent { peer: "nbdkit" })?;
        let socket = dir.join("nbd.sock");
        let len = disk.volume_len();
        let mut command = Command::new(program);
        command.arg("--foreground").arg("--unix").arg(&socket);
        match medium {
            Medium::File(index) => {
                let raw = disk.raw(index);
                command.args(["--filter=offset", "file"]).arg(&raw.path);
                command.arg(format!("offset={}", raw.offset.0));
                command.arg(format!("range={}", raw.len.0));
            }
            Medium::Memory(_) => {
                command.args(["memory", &len.0.to_string()]);
            }
            Medium::Null { read_delay: Nanos(0), write_delay: Nanos(0) } => {
                command.args(["null", &len.0.to_string()]);
            }
            Medium::Null { .. } => {
                return Err(PointError::NotServed { peer: "nbdkit", medium: "a delay" });
            }
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // A process inherits the affinity of the thread that starts it.
        let daemon = std::thread::scope(|scope| {
            let starting = scope.spawn(|| pin(core).is_ok().then(|| command.spawn()));
            starting.join().expect("the starting thread has no panic")
        });
        let Some(Ok(daemon)) = daemon else {
            return Err(PointError::Absent { peer: "nbdkit" });
        };
        let mut nbdkit = Self { daemon, socket, len };
        let end = Instant::now() + START_SPAN_MAX;
        while !nbdkit.socket.exists() {
            let is_over = !matches!(nbdkit.daemon.try_wait(), Ok(None));
            if is_over || Instant::now() > end {
                return Err(PointError::NotListening { peer: "nbdkit" });
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(nbdkit)
    }
}

impl Drop for Nbdkit {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
        let _ = std::fs::remove_file(&self.socket);
    }
}
