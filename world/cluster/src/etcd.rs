//! The process etcd: its command line, its start, and the process that runs already.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nearflash_data_dir::Owner;
use rustix::process::{Pid, Signal, kill_process};

use super::client::Store;
use super::error::ClusterError;
use super::member::{Folder, Member, Origin};
use super::{Say, TXN_OPS_MAX};

/// The time for which a started etcd may be silent.
const START_PATIENCE: Duration = Duration::from_secs(60);

/// The interval between two questions to an etcd that starts.
const POLL: Duration = Duration::from_millis(100);

/// The length of its log from which a start empties it.
const LOG_LEN_MAX: u64 = 16 << 20;

/// The part of the log in which the reason of an end is looked for.
const TAIL_LEN: u64 = 4096;

/// The bytes that etcd may store.
const QUOTA: u64 = 2 << 30;

/// The variable with another quota, for tests.
const QUOTA_VARIABLE: &str = "NEARFLASH_ETCD_QUOTA";

/// The bytes that an etcd which this process starts may store.
pub(super) fn quota() -> u64 {
    let named = std::env::var(QUOTA_VARIABLE).ok();
    named.and_then(|text| text.parse().ok()).unwrap_or(QUOTA)
}

pub(super) fn arguments(folder: &Folder, member: &Member) -> Vec<OsString> {
    let client = format!("https://{}", member.listen.client);
    let peer = format!("https://{}", member.listen.peer());
    let state = match member.origin {
        Origin::Init => "new",
        Origin::Join => "existing",
    };
    let cluster = member.cluster.to_string();
    let (authority, certificate, key) = (folder.authority(), folder.certificate(), folder.key());
    let (data, operations, quota) = (folder.data(), TXN_OPS_MAX.to_string(), quota().to_string());
    let valued: [(&str, &std::ffi::OsStr); 26] = [
        ("--name", member.machine.as_ref()),
        ("--data-dir", data.as_ref()),
        ("--listen-client-urls", client.as_ref()),
        ("--advertise-client-urls", client.as_ref()),
        ("--listen-peer-urls", peer.as_ref()),
        ("--initial-advertise-peer-urls", peer.as_ref()),
        ("--initial-cluster", member.initial_cluster.as_ref()),
        ("--initial-cluster-state", state.as_ref()),
        ("--initial-cluster-token", cluster.as_ref()),
        ("--cert-file", certificate.as_ref()),
        ("--key-file", key.as_ref()),
        ("--trusted-ca-file", authority.as_ref()),
        ("--peer-cert-file", certificate.as_ref()),
        ("--peer-key-file", key.as_ref()),
        ("--peer-trusted-ca-file", authority.as_ref()),
        ("--heartbeat-interval", "50".as_ref()),
        ("--election-timeout", "500".as_ref()),
        ("--auto-compaction-mode", "periodic".as_ref()),
        ("--auto-compaction-retention", "10m".as_ref()),
        ("--quota-backend-bytes", quota.as_ref()),
        ("--max-txn-ops", operations.as_ref()),
        ("--logger", "zap".as_ref()),
        ("--log-level", "warn".as_ref()),
        ("--log-outputs", "stderr".as_ref()),
        // Only JSON over HTTP, which nothing uses, goes through it.
        ("--enable-grpc-gateway", "false".as_ref()),
        ("--strict-reconfig-check", "true".as_ref()),
    ];
    let switches = [
        "--client-cert-auth",
        "--peer-client-cert-auth",
        // A machine with several addresses connects from any of them.
        "--experimental-peer-skip-client-san-verification",
        "--pre-vote",
        "--experimental-initial-corrupt-check",
    ];
    let joined = valued.into_iter().map(|(flag, value)| {
        let mut argument = OsString::from(flag);
        argument.push("=");
        argument.push(value);
        argument
    });
    joined.chain(switches.into_iter().map(OsString::from)).collect()
}

/// The running etcd of the folder, whichever process started it.
pub(super) fn running(folder: &Folder) -> Option<Owner> {
    let named = File::open(folder.pid()).ok().and_then(|mut file| Owner::read(&mut file));
    named.filter(|owner| owner.is_alive()).or_else(|| unrecorded(folder))
}

/// Ends the etcd of this machine, if it runs: for a cluster that is thrown away.
pub fn kill_etcd(data_dir: &Path) {
    let owner = running(&Folder::of(data_dir));
    let pid = owner.and_then(|owner| Pid::from_raw(i32::try_from(owner.pid).ok()?));
    if let Some(pid) = pid {
        // An error means that it has ended meanwhile.
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// An etcd of the folder that the folder does not name: the process that started it was killed
/// before it could record it. Its arguments tell.
fn unrecorded(folder: &Folder) -> Option<Owner> {
    let mut wanted = OsString::from("--data-dir=");
    wanted.push(folder.data());
    let is_wanted = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|&byte| byte == 0).any(|argument| argument == wanted.as_bytes())
    };
    let entries = std::fs::read_dir("/proc").ok()?.filter_map(Result::ok);
    let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let owner = Owner::of(pids.find(is_wanted)?);
    record(folder, owner).ok()?;
    Some(owner)
}

/// Records the process of the folder's etcd.
fn record(folder: &Folder, owner: Owner) -> Result<(), ClusterError> {
    let path = folder.pid();
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    let recorded = options.open(&path).and_then(|mut file| owner.write(&mut file));
    recorded.map_err(ClusterError::file(&path))
}

/// Starts etcd, and records its process.
pub(super) fn start(folder: &Folder, member: &Member) -> Result<Child, ClusterError> {
    let child =
        command(folder, member)?.spawn().map_err(|source| ClusterError::NoEtcd { source })?;
    record(folder, Owner::of(child.id()))?;
    Ok(child)
}

/// The command. `setsid` makes a session and then becomes etcd, so that the process keeps its number
/// and no signal for the node's session reaches it. Descriptors of this program are not inherited:
/// all are opened with O_CLOEXEC.
fn command(folder: &Folder, member: &Member) -> Result<Command, ClusterError> {
    let etcd = program("etcd").map_err(|source| ClusterError::NoEtcd { source })?;
    let path = folder.log();
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600);
    let log = options.open(&path).map_err(ClusterError::file(&path))?;
    if log.metadata().is_ok_and(|metadata| metadata.len() > LOG_LEN_MAX) {
        log.set_len(0).map_err(ClusterError::file(&path))?;
    }
    let setsid = program("setsid").map_err(|source| ClusterError::NoEtcd { source })?;
    let mut command = Command::new(setsid);
    command
        .arg(etcd)
        .args(arguments(folder, member))
        .current_dir(folder.path())
        // Variables named ETCD_… would contradict the flags.
        .env_clear()
        .env("PATH", search_path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    if cfg!(target_arch = "aarch64") {
        // etcd 3.4 starts there only if it is told so.
        command.env("ETCD_UNSUPPORTED_ARCH", "arm64");
    }
    Ok(command)
}

/// A program of this machine.
fn program(name: &str) -> io::Result<std::path::PathBuf> {
    let path = search_path();
    let mut candidates = std::env::split_paths(&path).map(|folder| folder.join(name));
    candidates.find(|path| path.is_file()).ok_or_else(|| rustix::io::Errno::NOENT.into())
}

/// The folders in which root looks for programs. Its PATH may have some that others write.
const ROOT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The folders in which programs are looked for.
fn search_path() -> OsString {
    path_of(rustix::process::geteuid().is_root(), std::env::var_os("PATH"))
}

fn path_of(is_root: bool, path: Option<OsString>) -> OsString {
    if is_root { ROOT_PATH.into() } else { path.unwrap_or_else(|| ROOT_PATH.into()) }
}

/// Starts etcd unless it runs, and waits until it answers.
pub(super) fn ensure(folder: &Folder, member: &Member, say: Say<'_>) -> Result<(), ClusterError> {
    let mut child = None;
    let owner = match running(folder) {
        Some(owner) => owner,
        None => {
            let started = start(folder, member)?;
            let owner = Owner::of(started.id());
            child = Some(started);
            owner
        }
    };
    let store = Store::own(folder, member)?;
    let (begun, mut has_said) = (Instant::now(), false);
    while store.report().is_err() {
        let is_over = child.as_mut().is_some_and(|it| it.try_wait().is_ok_and(|end| end.is_some()));
        if is_over || !owner.is_alive() {
            let reason = last_reason(&folder.log()).into();
            return Err(ClusterError::Ended { reason, log: folder.log() });
        }
        if begun.elapsed() > START_PATIENCE {
            let (address, seconds) = (member.listen.client, START_PATIENCE.as_secs());
            return Err(ClusterError::Silent { address, seconds, log: folder.log() });
        }
        if begun.elapsed() > Duration::from_secs(1) && !has_said {
            say("waiting until etcd answers");
            has_said = true;
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

/// The reason in the last line of etcd's log: its `error`, or its `msg`.
pub(super) fn last_reason(log: &Path) -> String {
    let Some(tail) = tail(log) else { return "it wrote no log".to_owned() };
    let lines = tail.lines().rev();
    let fatal = |line: &&str| ["fatal", "panic"].iter().any(|level| line.contains(level));
    let line = lines.clone().find(fatal).or_else(|| lines.into_iter().next()).unwrap_or_default();
    let json: Option<serde_json::Value> = serde_json::from_str(line).ok();
    let field = |name| json.as_ref()?.get(name)?.as_str().map(str::to_owned);
    field("error").or_else(|| field("msg")).unwrap_or_else(|| line.to_owned())
}

fn tail(log: &Path) -> Option<String> {
    let mut file = File::open(log).ok()?;
    let len = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(len.saturating_sub(TAIL_LEN))).ok()?;
    let mut bytes = Vec::new();
    file.take(TAIL_LEN).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_looks_for_programs_in_folders_that_nobody_else_writes() {
        let path = || Some(OsString::from("/home/me/bin:/usr/bin"));
        assert_eq!(path_of(true, path()), ROOT_PATH);
        assert_eq!(path_of(true, None), ROOT_PATH);
        assert_eq!(path_of(false, path()), "/home/me/bin:/usr/bin");
    }
}
