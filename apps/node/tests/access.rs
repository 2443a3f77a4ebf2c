//! Credentials and grants of a running node, with cores that only record their messages: the effect
//! of the control socket's calls, the messages to the cores, and the state after a restart.
#![allow(clippy::unwrap_used)] // a failed test says where

use crate::common;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use common::Recorder;
use nearflash_access::Secret;
use nearflash_api::client::ask;
use nearflash_api::{
    Call, CredentialCreate, CredentialInfo, CredentialList, CredentialRemove, GrantAdd, GrantInfo,
    GrantList, GrantRevoke, OneGrant, StatusShow, VolumeCreate, VolumeRemove, VolumeResize,
};
use nearflash_config::{Config, ServeArgs};
use nearflash_direct::wire::Rights;
use nearflash_node::{Running, StartError};

const MIB: u64 = 1 << 20;

/// A data directory for nodes.
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
    ) -> Result<(Running, Arc<Recorder>), StartError> {
        self.start_with(direct, hosts, None)
    }

    fn start_with(
        &self,
        direct: &[&str],
        hosts: &[&str],
        anonymous: Option<&str>,
    ) -> Result<(Running, Arc<Recorder>), StartError> {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let config = Config::resolve(ServeArgs {
            devices: vec![format!("flash=file:{}/flash.img,size=16MiB", self.0.path().display())],
            nvme_tcp: vec!["127.0.0.1:0".to_owned()],
            direct: owned(direct),
            direct_local: Some(self.0.path().join("direct.sock").display().to_string()),
            hosts: owned(hosts),
            anonymous: anonymous.map(str::to_owned),
            data_dir: Some(self.data_dir()),
            ..ServeArgs::default()
        });
        Recorder::start(&config.unwrap())
    }

    fn ask<C: Call>(&self, call: C) -> C::Answer {
        ask(&self.data_dir(), call).unwrap()
    }

    fn refused<C: Call>(&self, call: C) -> String {
        ask(&self.data_dir(), call).unwrap_err().to_string()
    }

    fn volume(&self, name: &str, bytes: u64) {
        let (name, device) = (name.to_owned(), "flash".to_owned());
        self.ask(VolumeCreate { name, bytes, device: Some(device), ..VolumeCreate::default() });
    }

    /// The secret of a new credential.
    fn credential(&self, id: &str, expires_at: Option<u64>) -> String {
        self.ask(CredentialCreate { id: id.to_owned(), expires_at }).secret.0.clone()
    }

    fn credentials(&self) -> Vec<CredentialInfo> {
        self.ask(CredentialList {}).credentials
    }

    fn grant<C: Call<Answer = OneGrant>>(&self, call: C) -> GrantInfo {
        self.ask(call).grant
    }

    fn grants(&self) -> Vec<GrantInfo> {
        self.ask(GrantList { credential: None }).grants
    }
}

fn add(credential: &str, volume: &str, start: u64, end: Option<u64>, rights: &str) -> GrantAdd {
    GrantAdd {
        credential: credential.to_owned(),
        volume: volume.to_owned(),
        path: None,
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
    assert!(cores.last_direct().is_open() && cores.last_direct().volume("data").is_none());
    bench.volume("data", 4 * MIB);
    let volume = cores.last_direct().volume("data").unwrap().volume;
    let secret: Secret = bench.credential("app", None).parse().unwrap();
    let told = cores.credential("app");
    assert!(told.secret == nearflash_direct::Secret::new(*secret.bytes()) && !told.expired);
    assert!(told.access.is_empty());
    let half = bench.grant(add("app", "data", 0, Some(2 * MIB), "r"));
    let rest = bench.grant(add("app", "data", 2 * MIB, None, "rw"));
    let told = Arc::clone(&cores.credential("app").access[&volume]);
    assert!(told.allows(0..4 * MIB, Rights::READ) && !told.allows(0..4 * MIB + 1, Rights::READ));
    assert!(told.allows(2 * MIB..4 * MIB, Rights::READ_WRITE));
    assert!(!told.allows(2 * MIB - 1..2 * MIB, Rights::WRITE));
    assert_eq!(bench.grant(GrantRevoke { number: half.number }), half);
    let told = Arc::clone(&cores.credential("app").access[&volume]);
    assert!(told.allows(2 * MIB..4 * MIB, Rights::READ_WRITE));
    assert!(!told.allows(2 * MIB - 1..2 * MIB, Rights::READ));
    assert_eq!(bench.grants(), [rest]);
    bench.ask(CredentialRemove { id: "app".to_owned() });
    assert!(cores.last_direct().credential("app").is_none());
    assert_eq!(bench.grants(), []);
    running.stop().unwrap();
}

#[test]
fn a_node_that_has_had_a_credential_stays_closed_until_its_start_says_otherwise() {
    let bench = Bench::new();
    let (running, cores) = bench.start(&[], &[]).unwrap();
    assert!(cores.last_direct().is_open() && bench.ask(StatusShow {}).closed.is_empty());
    bench.credential("app", None);
    assert!(!cores.last_direct().is_open());
    bench.ask(CredentialRemove { id: "app".to_owned() });
    assert!(!cores.last_direct().is_open(), "the removal of the last one opens nothing");
    assert_eq!(bench.ask(StatusShow {}).closed, ["direct"]);
    running.stop().unwrap();
    for (anonymous, is_closed) in
        [(None, true), (Some("iscsi"), true), (Some("iscsi,direct"), false), (None, true)]
    {
        let (running, cores) = bench.start_with(&[], &[], anonymous).unwrap();
        assert_eq!(!cores.last_direct().is_open(), is_closed, "{anonymous:?}");
        assert_eq!(bench.ask(StatusShow {}).closed.is_empty(), !is_closed);
        bench.credential("more", None);
        assert!(!cores.last_direct().is_open(), "a credential closes it in any case");
        bench.ask(CredentialRemove { id: "more".to_owned() });
        assert_eq!(!cores.last_direct().is_open(), is_closed, "{anonymous:?}");
        running.stop().unwrap();
    }
}

#[test]
fn an_address_at_which_everybody_enters_is_in_the_verdict_if_other_machines_reach_it() {
    let bench = Bench::new();
    let open = |direct: &str| {
        let (running, _) = bench.start(&[direct], &["any"]).unwrap();
        let status = bench.ask(StatusShow {});
        let open: Vec<String> =
            status.open_to_everyone.iter().map(|it| it.protocol.clone()).collect();
        assert_eq!(status.verdict.reasons.len(), open.len(), "{:?}", status.verdict);
        (running, open)
    };
    let (running, found) = open("127.0.0.1:0");
    assert_eq!(found, [""; 0]);
    running.stop().unwrap();
    let (running, found) = open("0.0.0.0:0");
    assert_eq!(found, ["direct"]);
    bench.credential("app", None);
    bench.ask(CredentialRemove { id: "app".to_owned() });
    let status = bench.ask(StatusShow {});
    assert!(status.open_to_everyone.is_empty());
    let [reason] = &status.verdict.reasons[..] else { panic!("{:?}", status.verdict) };
    assert!(reason.starts_with("nobody can use direct, "), "{reason}");
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
    let before = *cores.last_direct().volume("data").unwrap();
    let grow =
        VolumeResize { name: "data".to_owned(), bytes: 8 * MIB, shrink: false, force: false };
    bench.ask(grow);
    let after = *cores.last_direct().volume("data").unwrap();
    let told = Arc::clone(&cores.credential("app").access[&after.volume]);
    assert!(told.allows(0..8 * MIB, Rights::READ) && !told.allows(0..8 * MIB + 1, Rights::READ));
    assert!(told.allows(0..4 * MIB, Rights::WRITE));
    assert!(!told.allows(4 * MIB..4 * MIB + 1, Rights::WRITE));
    assert_eq!(after.bytes, 8 * MIB);
    assert!(after.epoch > before.epoch);
    running.stop().unwrap();
}

#[test]
fn a_removed_volume_takes_its_grants_along_and_a_new_one_of_its_name_gets_none() {
    let bench = Bench::new();
    let (running, cores) = bench.start(&[], &[]).unwrap();
    bench.volume("data", 4 * MIB);
    bench.credential("app", None);
    bench.grant(add("app", "data", 0, None, "rw"));
    bench.ask(VolumeRemove { name: "data".to_owned(), force: false });
    bench.volume("data", 4 * MIB);
    assert!(cores.credential("app").access.is_empty());
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
    bench.ask(GrantRevoke { number: second.number });
    let before = (cores.credential("app"), bench.credentials(), bench.grants());
    running.stop().unwrap();
    let (running, cores) = bench.start(&[], &[]).unwrap();
    assert_eq!(before, (cores.credential("app"), bench.credentials(), bench.grants()));
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
    short.expires_at = soon;
    let short = bench.grant(short);
    assert_eq!(cores.credential("app").access.len(), 1);
    cores.wait_direct(|told| {
        ["app", "guest"].iter().all(|id| told.credential(id).unwrap().access.is_empty())
    });
    assert!(cores.credential("guest").expired && !cores.credential("app").expired);
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
    let before = cores.direct_publications();
    let create = |id: &str, expires_at| CredentialCreate { id: id.to_owned(), expires_at };
    assert!(bench.refused(create("app", None)).starts_with("credential 'app' exists already"));
    assert!(bench.refused(create("a b", None)).starts_with("'a b' is not a valid name"));
    assert!(bench.refused(create("late", Some(1))).contains("the expiry is in the past"));
    assert!(bench.refused(add("app", "none", 0, None, "r")).starts_with("no volume 'none'"));
    assert!(bench.refused(add("none", "data", 0, None, "r")).starts_with("no credential 'none'"));
    assert!(bench.refused(add("app", "data", 0, None, "w")).contains("write r or rw"));
    assert!(bench.refused(add("app", "data", 5, Some(5), "r")).contains("is empty"));
    let beyond = bench.refused(add("app", "data", 0, Some(4 * MIB + 1), "r"));
    assert!(beyond.starts_with("volume 'data' has 4MiB, and the range 0..4194305B exceeds it"));
    let revoke = GrantRevoke { number: 1 };
    assert_eq!(bench.refused(revoke), "no grant 1: 'nearflash grant list' lists them");
    assert_eq!(cores.direct_publications(), before);
    running.stop().unwrap();
}

#[test]
fn a_door_to_other_machines_opens_when_there_is_a_credential_or_everyone_may_come_in() {
    let bench = Bench::new();
    let Err(refused) = bench.start(&["0.0.0.0:0"], &[]) else { panic!("it started") };
    assert_eq!(
        refused.to_string(),
        "--direct: 0.0.0.0:0 can be reached from other machines, and there is no credential: start \
         without this address, create one with 'nearflash credential create ID', and start again; \
         or admit every client with --host any"
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
