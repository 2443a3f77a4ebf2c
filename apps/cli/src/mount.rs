//! `nearflash mount` and `nearflash umount`.
//!
//! By default, the command starts itself again as a process of its own session, waits until that one
//! says that the volume is mounted, and passes its errors on. With `--foreground`, this process mounts.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Write};
use std::num::NonZero;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Mutex;

use nearflash::direct::Url;
use nearflash::url::UrlError;
use nearflash_mount::{Cache, Mount, MountError, MountOptions, Unmount, UnmountError};
use nearflash_units::{Nanos, OneLine};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::prelude::*;

use crate::args::OwnerArgs;
use crate::failure::Failure;
use crate::output::print;
use crate::waiting::{saying_what_for, waiting_for};

/// The daemon's line when the volume is mounted.
const READY: &str = "ready";
/// The socket of the system's log.
const SYSTEM_LOG: &str = "/dev/log";
/// A message of a daemon, with the severity notice; RFC 3164, 4.1.1.
const PRIORITY: &str = "<29>";

/// The reason why a volume cannot be mounted or unmounted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MountFailure {
    /// The URL is not valid.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// Mounting failed, or the mount has ended.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// Unmounting failed.
    #[error(transparent)]
    Unmount(#[from] UnmountError),
    /// The log cannot be written.
    #[error("cannot write the log {}: {source}", .path.display())]
    Log { path: PathBuf, source: io::Error },
    /// The process in the background cannot be started.
    #[error("cannot start the process of the mount: {0}")]
    Start(io::Error),
    /// The process in the background has failed, with this message and exit code.
    #[error("{message}")]
    Daemon { message: String, code: u8 },
}

impl MountFailure {
    /// 2 if the command line is wrong, 1 otherwise.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Url(_) => 2,
            Self::Daemon { code, .. } => *code,
            _ => 1,
        }
    }
}

/// The contents that the kernel keeps.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum CacheArg {
    /// Every read and write of a program is one of the volume
    None,
    /// The kernel keeps pages that were read; writes go to the volume at once
    Read,
}

/// The arguments of `nearflash mount`.
#[derive(Debug, clap::Args)]
pub(crate) struct MountArgs {
    /// direct://HOST:PORT/VOLUME, direct+tls://HOST:PORT/VOLUME or direct+local:PATH.sock/VOLUME, optionally
    /// followed by ?key=ID&secret-file=PATH
    #[arg(value_name = "URL")]
    volume: String,
    /// The directory on which the volume is mounted
    dir: PathBuf,
    /// The file contents that the kernel keeps
    #[arg(long, value_enum, default_value_t = CacheArg::None)]
    cache: CacheArg,
    /// Let other users use the files, as far as the permissions allow
    #[arg(long)]
    allow_other: bool,
    /// The number of requests that are answered at a time
    #[arg(long, value_name = "N", default_value_t = MountOptions::THREADS)]
    threads: NonZero<usize>,
    /// The time for which the kernel keeps names and attributes [default: 1s; 0s if the node owns the
    /// files, so that each mount sees the changes of the others at once]
    #[arg(long, value_name = "TIME", value_parser = nearflash_units::parse_duration)]
    attribute_cache: Option<Nanos>,
    #[command(flatten)]
    owner: OwnerArgs,
    /// The file to which the log is appended [default: the system's log; stderr with --foreground]
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Stay in the foreground until the volume is unmounted
    #[arg(long)]
    foreground: bool,
    /// Say when the volume is mounted, then go to the background
    #[arg(long, hide = true)]
    daemon: bool,
}

pub(crate) fn run_mount(args: &MountArgs) -> Result<ExitCode, Failure> {
    let url: Url = args.volume.parse().map_err(MountFailure::from)?;
    if args.foreground || args.daemon {
        mount(args, url)?;
    } else {
        let reason = "for the mount: 10 s, if a process that had the volume may be alive";
        waiting_for(reason, start)?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn run_unmount(dir: &Path, force: bool) -> Result<ExitCode, Failure> {
    let unmount = Unmount::of(dir).map_err(MountFailure::from)?;
    let reason = format!(
        "for the node of {} until everything is durable, {} s at most; Ctrl-C ends this command alone, and with \
         --force it waits 2 s",
        unmount.source(),
        unmount.time_max().as_secs()
    );
    saying_what_for(&reason, || unmount.run(force)).map_err(MountFailure::from)?;
    Ok(ExitCode::SUCCESS)
}

/// Mounts, and answers the kernel until the volume is unmounted.
fn mount(args: &MountArgs, url: Url) -> Result<(), Failure> {
    log_to(args)?;
    let shown = url.to_string();
    let options = MountOptions {
        cache: match args.cache {
            CacheArg::None => Cache::None,
            CacheArg::Read => Cache::Read,
        },
        allow_other: args.allow_other,
        threads: args.threads,
        take_over: args.owner.take_over,
        attributes_for: args.attribute_cache.map(Nanos::to_duration),
    };
    if args.daemon {
        // A session of its own keeps the terminal's signals and its end from the daemon. The call fails
        // only in the leader of a process group, which the daemon is not.
        let _ = rustix::process::setsid();
    }
    let mount = Mount::new(url, &args.dir, options).map_err(MountFailure::from)?;
    let dir = mount.dir().display().to_string();
    tracing::info!("{shown} is mounted on {dir}");
    let said = print(&format!("{READY}\n"));
    if said.is_err() || (args.daemon && to_background().is_err()) {
        // Nobody waits for the mount any more.
        mount.end();
    }
    let ended = mount.run();
    match &ended {
        Ok(()) => tracing::info!("{shown} is unmounted from {dir}"),
        Err(error) => tracing::error!("{dir}: {}", OneLine(error)),
    }
    Ok(ended.map_err(MountFailure::from)?)
}

/// Lets go of the terminal and of the directory that the command was called in.
fn to_background() -> io::Result<()> {
    let nothing = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    rustix::stdio::dup2_stderr(&nothing)?;
    std::env::set_current_dir("/")
}

/// Starts the daemon, and waits until it has mounted the volume.
fn start() -> Result<(), MountFailure> {
    let mut words: Vec<OsString> = std::env::args_os().skip(1).collect();
    // In front of a `--`, behind which everything is a place.
    words.insert(1, "--daemon".into());
    let program = std::env::current_exe().map_err(MountFailure::Start)?;
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(MountFailure::Start)?;
    let mut line = String::new();
    let stdout = child.stdout.take().expect("it is a pipe");
    BufReader::new(stdout).read_line(&mut line).map_err(MountFailure::Start)?;
    match line.trim_end() == READY {
        true => Ok(()),
        false => Err(failed(child)),
    }
}

/// The failure of a daemon that has ended.
fn failed(mut child: Child) -> MountFailure {
    let mut message = String::new();
    let stderr = child.stderr.take().expect("it is a pipe");
    // Without its text, the exit code remains.
    let _ = stderr.take(1 << 16).read_to_string(&mut message);
    let code = child.wait().ok().and_then(|status| status.code());
    let message = message.trim_end().strip_prefix("nearflash: ").unwrap_or(&message).trim_end();
    let message = if message.is_empty() { "the process of the mount has ended" } else { message };
    let code = code.and_then(|code| u8::try_from(code).ok()).filter(|code| *code != 0);
    MountFailure::Daemon { message: message.to_owned(), code: code.unwrap_or(1) }
}

/// Where the log of a mount is written.
enum Log {
    File(Mutex<File>),
    System(UnixDatagram),
    Stderr,
    Nowhere,
}

fn log_to(args: &MountArgs) -> Result<(), MountFailure> {
    let log = match &args.log {
        Some(path) => {
            let file = OpenOptions::new().append(true).create(true).open(path);
            let failed = |source| MountFailure::Log { path: path.clone(), source };
            Log::File(Mutex::new(file.map_err(failed)?))
        }
        None if args.foreground => Log::Stderr,
        None => system_log().map_or(Log::Nowhere, Log::System),
    };
    let is_system = matches!(log, Log::System(_));
    let layer = tracing_subscriber::fmt::layer().with_ansi(false).with_target(false);
    // Messages of the system's log have a time of their own.
    let layer = match is_system {
        true => layer.with_writer(log).without_time().boxed(),
        false => layer.with_writer(log).boxed(),
    };
    // Operations that the kernel does itself are no news.
    let levels =
        Targets::new().with_default(LevelFilter::INFO).with_target("fuser", LevelFilter::OFF);
    tracing_subscriber::registry().with(layer.with_filter(levels)).init();
    Ok(())
}

fn system_log() -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.connect(SYSTEM_LOG)?;
    Ok(socket)
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> &'a Self {
        self
    }
}

/// Each call writes one message.
impl Write for &Log {
    fn write(&mut self, message: &[u8]) -> io::Result<usize> {
        match self {
            Log::File(file) => match file.lock() {
                Ok(mut file) => file.write_all(message)?,
                Err(_) => return Err(io::ErrorKind::Other.into()),
            },
            Log::System(socket) => {
                let text = String::from_utf8_lossy(message);
                let id = std::process::id();
                socket.send(format!("{PRIORITY}nearflash[{id}]: {}", text.trim()).as_bytes())?;
            }
            Log::Stderr => io::stderr().write_all(message)?,
            Log::Nowhere => {}
        }
        Ok(message.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
