//! Credentials and grants of a running node, with cores that only remember what they were told:
//! what the control socket makes of them, what the cores hear, and what a restart keeps.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, SystemTime};

use nearflash_access::Rights;
use nearflash_node::api::{Answer, Command, CredentialInfo, GrantInfo};
use nearflash_node::config::{Config, ServeArgs};
use nearflash_node::control::ask;
use nearflash_node::{
    AskedBy, Connected, DirectAccess, DirectCredential, IscsiAccess, NodeError, Published, Running,
    Runtime, RuntimeConfig, RuntimeStatus,
};
use nearflash_request::{ChangeResult, Raised};
use nearflash_space::VolumeTable;

const MIB: u64 = 1 << 20;

/// Cores that remember what direct clients may do.
#[derive(Default)]
struct Recorder {
    told: Mutex<Vec<Arc<DirectAccess>>>,
    changed: Condvar,
}

impl Runtime for Recorder {
    fn publish(&self, published: Published) {
        self.publish_direct(published.direct);
    }

    fn publish_direct(&self, direct: Arc<DirectAccess>) {
        self.told.lock().unwrap().push(direct);
        self.changed.notify_all();
    }

    fn publish_iscsi(&self, _iscsi: Arc<IscsiAccess>) {}

    fn publish_volumes(&self, _volumes: Arc<VolumeTable>) {}

    fn raise(&self, _raised: Vec<Raised>) {}

    fn answer(&self, _by: AskedBy, _result: ChangeResult) {}

    fn status(&self) -> RuntimeStatus {
        RuntimeStatus::default()
    }

    fn connected(&self) -> Option<Connected> {
        Some(Connected::default())
    }

    fn drain_and_join(&self) -> bool {
        true
    }
}

impl Recorder {
    fn last(&self) -> Arc<DirectAccess> {
        Arc::clone(self.told.lock().unwrap().last().unwrap())
    }

    fn credential(&self, id: &str) -> DirectCredential {
        let last = self.last();
        last.credentials.iter().find(|c| c.id.as_str() == id).unwrap().clone()
    }

    /// Waits until what was told last is such.
    fn wait(&self, is_such: impl Fn(&DirectAccess) -> bool) {
        let told = self.told.lock().unwrap();
        let waiting = |told: &mut Vec<Arc<DirectAccess>>| !is_such(told.last().unwrap());
        let waited = self.changed.wait_timeout_while(told, Duration::from_secs(30), waiting);
        assert!(!waited.unwrap().1.timed_out(), "the cores are not told");
    }
}

/// A folder that nodes run in.
struct Bench(tempfile::TempDir);

impl Bench {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn data_dir(&self) -> PathBuf {
        self.0.path().join("data")
    }

    fn start(
        &self,
        direct: &[&str],
        hosts: &[&str],
    ) -> Result<(Running, Arc<Recorder>), NodeError> {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let config = Config::resolve(ServeArgs {
            devices: vec![format!("flash=file:{}/flash.img,size=16MiB", self.0.path().display())],
            nvme_tcp: vec!["127.0.0.1:0".to_owned()],
            direct: owned(direct),
            direct_local: Some(self.0.path().join("direct.sock")),
            hosts: owned(hosts),
            data_dir: Some(self.data_dir()),
            ..ServeArgs::default()
        });
        let cores = Arc::new(Recorder::default());
        let given = Arc::clone(&cores);
        let started = Running::start(&config.unwrap(), move |runtime: RuntimeConfig| {
            given.publish(runtime.published);
            Ok(given)
        });
        started.map(|running| (running, cores))
    }

    fn ask(&self, command: Command) -> Answer {
        ask(&self.data_dir(), command).unwrap()
    }

    fn refused(&self, command: Command) -> String {
        ask(&self.data_dir(), command).unwrap_err().to_string()
    }

    fn volume(&self, name: &str, bytes: u64) {
        let (name, device) = (name.to_owned(), "flash".to_owned());
        self.ask(Command::VolumeCreate {
            name,
            bytes,
            device,
            block_size: None,
            subsystem: None,
            provisioning: None,
        });
    }

    /// The secret of a fresh credential.
    fn credential(&self, id: &str, expires_at: Option<u64>) -> String {
        match self.ask(Command::CredentialCreate { id: id.to_owned(), expires_at }) {
            Answer::CredentialMade { secret, .. } => secret.0.clone(),
            other => panic!("a credential, not {other:?}"),
        }
    }

    fn credentials(&self) -> Vec<CredentialInfo> {
        match self.ask(Command::CredentialList) {
            Answer::Credentials { credentials } => credentials,
            other => panic!("credentials, not {other:?}"),
        }
    }

    fn grant(&self, command: Command) -> GrantInfo {
        match self.ask(command) {
            Answer::Grant { grant } => grant,
            other => panic!("a grant, not {other:?}"),
        }
    }

    fn grants(&self) -> Vec<GrantInfo> {
        match self.ask(Command::GrantList { credential: None }) {
            Answer::Grants { grants } => grants,
            other => panic!("grants, not {other:?}"),
        }
    }
}

fn add(credential: &str, volume: &str, start: u64, end: Option<u64>, rights: &str) -> Command {
    Command::GrantAdd {
        credential: credential.to_owned(),
        volume: volume.to_owned(),
        start,
        end,
        rights: rights.to_owned(),
        expires_at: None,
    }
}

fn in_seconds(seconds: u64) -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() + seconds
}

#[test]
fn every_change_is_told_to_the_cores_before_it_is_answered() {
    let bench = Bench::new();
    let (running, cores) = bench.start(&[], &[]).unwrap();
    assert_eq!(*cores.last(), DirectAccess::default());
    bench.volume("data", 4 * MIB);
    assert_eq!(cores.last().volumes[0].name.as_str(), "data");
    let secret = bench.credential("app", None);
    let told = cores.credential("app");
    assert_eq!((told.secret.to_hex(), told.is_expired), (secret, false));
    assert!(told.grants.is_empty());
    let half = bench.grant(add("app", "data", 0, Some(2 * MIB), "r"));
    let rest = bench.grant(add("app", "data", 2 * MIB, None, "rw"));
    let told = cores.credential("app").grants;
    assert_eq!(told.len(), 2);
    assert_eq!((told[0].start.0, told[0].end.0, told[0].rights), (0, 2 * MIB, Rights::Read));
    assert_eq!((told[1].start.0, told[1].end.0), (2 * MIB, 4 * MIB));
    assert_eq!(told[1].volume, cores.last().volumes[0].volume);
    assert_eq!(bench.grant(Command::GrantRevoke { number: half.number }), half);
    assert_eq!(cores.credential("app").grants.len(), 1);
    assert_eq!(bench.grants(), [rest]);
    bench.ask(Command::CredentialRemove { id: "app".to_owned() });
    assert!(cores.last().credentials.is_empty());
    assert_eq!(bench.grants(), []);
    running.stop().unwrap();
}

#[test]
fn a_grant_without_an_end_grows_with_its_volume_and_a_grant_with_one_does_not() {
    let bench = Bench::new();
    let (running, cores) = bench.start(&[], &[]).unwrap();
    bench.volume("data", 4 * MIB);
    bench.credential("app", None);
    bench.grant(add("app", "data", 0, Some(4 * MIB), "rw"));
    bench.grant(add("app", "data", 0, None, "r"));
    let before = cores.last();
    let grow = Command::VolumeResize { name: "data".to_owned(), bytes: 8 * MIB, shrink: false };
    bench.ask(grow);
    let ends: Vec<u64> = cores.credential("app").grants.iter().map(|g| g.end.0).collect();
    assert_eq!(ends, [4 * MIB, 8 * MIB]);
    let after = cores.last();
    assert_eq!(after.volumes[0].len.0, 8 * MIB);
    assert!(after.volumes[0].epoch > before.volumes[0].epoch);
    running.stop().unwrap();
}

#[test]
fn a_removed_volume_takes_its_grants_along_and_a_new_one_of_its_name_gets_none() {
    let bench = Bench::new();
    let (running, cores) = bench.start(&[], &[]).unwrap();
    bench.volume("data", 4 * MIB);
    bench.credential("app", None);
    bench.grant(add("app", "data", 0, None, "rw"));
    bench.ask(Command::VolumeRemove { name: "data".to_owned(), force: false });
    bench.volume("data", 4 * MIB);
    assert!(cores.credential("app").grants.is_empty());
    assert_eq!(bench.grants(), []);
    running.stop().unwrap();
}

#[test]
fn credentials_and_grants_are_there_after_a_restart_with_their_numbers() {
    let bench = Bench::new();
    let (running, cores) = bench.start(&[], &[]).unwrap();
    bench.volume("data", 4 * MIB);
    bench.credential("app", Some(in_seconds(3_600)));
    let first = bench.grant(add("app", "data", 0, Some(MIB), "rw"));
    let second = bench.grant(add("app", "data", MIB, None, "r"));
    bench.ask(Command::GrantRevoke { number: second.number });
    let before = (cores.last().credentials.clone(), bench.credentials(), bench.grants());
    running.stop().unwrap();
    let (running, cores) = bench.start(&[], &[]).unwrap();
    assert_eq!(before, (cores.last().credentials.clone(), bench.credentials(), bench.grants()));
    assert_eq!(bench.grants(), [first]);
    assert_eq!(bench.grant(add("app", "data", 0, None, "r")).number, second.number + 1);
    running.stop().unwrap();
}

#[test]
fn what_expires_is_told_to_the_cores_without_being_asked() {
    let bench = Bench::new();
    let (running, cores) = bench.start(&[], &[]).unwrap();
    bench.volume("data", 4 * MIB);
    bench.credential("app", None);
    let soon = Some(in_seconds(2));
    bench.credential("guest", soon);
    let mut short = add("app", "data", 0, None, "r");
    if let Command::GrantAdd { expires_at, .. } = &mut short {
        *expires_at = soon;
    }
    let short = bench.grant(short);
    assert_eq!(cores.credential("app").grants.len(), 1);
    cores.wait(|told| told.credentials.iter().all(|credential| credential.grants.is_empty()));
    assert!(cores.credential("guest").is_expired && !cores.credential("app").is_expired);
    assert_eq!(bench.grants(), [GrantInfo { expired: true, ..short }]);
    assert!(bench.credentials()[1].expired);
    running.stop().unwrap();
}

#[test]
fn what_is_refused_changes_nothing() {
    let bench = Bench::new();
    let (running, cores) = bench.start(&[], &[]).unwrap();
    bench.volume("data", 4 * MIB);
    bench.credential("app", None);
    let before = cores.told.lock().unwrap().len();
    let create = |id: &str, expires_at| Command::CredentialCreate { id: id.to_owned(), expires_at };
    assert!(bench.refused(create("app", None)).starts_with("credential 'app' exists already"));
    assert!(bench.refused(create("a b", None)).starts_with("'a b' is not a name"));
    assert!(bench.refused(create("late", Some(1))).contains("would have expired already"));
    assert!(bench.refused(add("app", "none", 0, None, "r")).starts_with("no volume 'none'"));
    assert!(bench.refused(add("none", "data", 0, None, "r")).starts_with("no credential 'none'"));
    assert!(bench.refused(add("app", "data", 0, None, "w")).contains("write r or rw"));
    assert!(bench.refused(add("app", "data", 5, Some(5), "r")).contains("is empty"));
    let beyond = bench.refused(add("app", "data", 0, Some(4 * MIB + 1), "r"));
    assert!(beyond.starts_with("volume 'data' has 4MiB, the range 0..4194305B goes further"));
    let revoke = Command::GrantRevoke { number: 1 };
    assert_eq!(bench.refused(revoke), "no grant 1: 'nearflash grant list' numbers all");
    assert_eq!(cores.told.lock().unwrap().len(), before);
    running.stop().unwrap();
}

#[test]
fn a_door_to_other_machines_opens_when_there_is_a_credential_or_everyone_may_come_in() {
    let bench = Bench::new();
    let Err(refused) = bench.start(&["0.0.0.0:0"], &[]) else { panic!("it started") };
    assert_eq!(
        refused.to_string(),
        "--direct: 0.0.0.0:0 can be reached from other machines, and there is no credential: start \
         without it, make one with 'nearflash credential create ID', and start again; or let in \
         everyone with --host any"
    );
    assert_eq!(refused.exit_code(), 2);
    assert!(!bench.0.path().join("flash.img").exists(), "no device was touched");
    assert!(!bench.0.path().join("direct.sock").exists(), "nothing is left behind");
    bench.start(&["0.0.0.0:0"], &["any"]).unwrap().0.stop().unwrap();
    let (running, _) = bench.start(&["127.0.0.1:0"], &[]).unwrap();
    let ready = running.ready().body;
    assert_ne!(ready.direct[0].port(), 0);
    assert!(ready.direct_local.unwrap().exists());
    bench.credential("app", None);
    running.stop().unwrap();
    bench.start(&["0.0.0.0:0"], &[]).unwrap().0.stop().unwrap();
}
