//! CHAP accounts and iSCSI doors of a node, with cores that only record their messages.
#![allow(clippy::unwrap_used)] // a failed test says where

use crate::common;

use std::sync::Arc;

use common::Recorder;
use nearflash_api::client::ask;
use nearflash_api::{
    Call, ChapAdd, ChapList, ChapMutual, ChapRemove, SecretText, StatusShow, VolumeCreate,
    VolumeRemove,
};
use nearflash_config::{Config, ServeArgs};
use nearflash_iscsi::chap::Secret;
use nearflash_node::{Running, StartError};

/// A directory for nodes.
struct Bench(tempfile::TempDir);

impl Bench {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn start(&self, iscsi: &str, hosts: &[&str]) -> Result<(Running, Arc<Recorder>), StartError> {
        self.start_with(iscsi, hosts, None)
    }

    fn start_with(
        &self,
        iscsi: &str,
        hosts: &[&str],
        anonymous: Option<&str>,
    ) -> Result<(Running, Arc<Recorder>), StartError> {
        let config = Config::resolve(ServeArgs {
            devices: vec![format!("flash=file:{}/flash.img,size=16MiB", self.0.path().display())],
            volumes: vec![
                "Data=1MiB@flash".to_owned(),
                "logs=1MiB@flash,subsystem=Data".to_owned(),
            ],
            nvme_tcp: vec!["127.0.0.1:0".to_owned()],
            iscsi: vec![iscsi.to_owned()],
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            anonymous: anonymous.map(str::to_owned),
            data_dir: Some(self.0.path().join("data")),
            ..ServeArgs::default()
        });
        Recorder::start(&config.unwrap())
    }

    fn ask<C: Call>(&self, call: C) -> C::Answer {
        ask(&self.0.path().join("data"), call).unwrap()
    }

    fn refused<C: Call>(&self, call: C) -> String {
        ask(&self.0.path().join("data"), call).unwrap_err().to_string()
    }
}

fn add(user: &str, secret: Option<&str>, mutual: Option<ChapMutual>) -> ChapAdd {
    let secret = secret.map(|text| SecretText(text.to_owned()));
    ChapAdd { user: user.to_owned(), secret, mutual, initiators: Vec::new(), replace: false }
}

fn secret(text: &str) -> Secret {
    Secret::new(text.as_bytes().to_vec()).unwrap()
}

fn remove(user: &str) -> ChapRemove {
    ChapRemove { user: user.to_owned() }
}

#[test]
fn an_account_replaces_the_one_of_its_user_on_request() {
    let bench = Bench::new();
    let (running, cores) = bench.start("127.0.0.1:0", &[]).unwrap();
    bench.ask(add("app", Some("geheimgeheim"), None));
    let other = || add("app", Some("anderesgeheimnis"), None);
    assert!(bench.refused(other()).contains("app"));
    bench.ask(ChapAdd { replace: true, ..other() });
    let told = cores.last_iscsi();
    assert!(told.account("app").unwrap().initiator().secret == secret("anderesgeheimnis"));
    running.stop().unwrap();
}

#[test]
fn a_node_that_has_had_a_chap_user_stays_closed_until_its_start_says_otherwise() {
    let bench = Bench::new();
    let (running, cores) = bench.start("127.0.0.1:0", &[]).unwrap();
    assert!(!cores.last_iscsi().wants_chap() && bench.ask(StatusShow {}).closed.is_empty());
    bench.ask(add("app", None, None));
    assert!(cores.last_iscsi().wants_chap());
    bench.ask(remove("app"));
    assert!(cores.last_iscsi().wants_chap(), "the removal of the last one opens nothing");
    assert_eq!(bench.ask(StatusShow {}).closed, ["iscsi"]);
    running.stop().unwrap();
    for (anonymous, is_closed) in [(None, true), (Some("direct"), true), (Some("iscsi"), false)] {
        let (running, cores) = bench.start_with("127.0.0.1:0", &[], anonymous).unwrap();
        assert_eq!(cores.last_iscsi().wants_chap(), is_closed, "{anonymous:?}");
        running.stop().unwrap();
    }
}

#[test]
fn an_account_is_bound_to_initiators_and_that_is_kept_over_a_restart() {
    let bench = Bench::new();
    let (running, _) = bench.start("127.0.0.1:0", &[]).unwrap();
    let named = |names: &[&str]| ChapAdd {
        initiators: names.iter().map(|name| (*name).to_owned()).collect(),
        ..add("app", None, None)
    };
    let refused = bench.refused(named(&["app"]));
    assert!(refused.starts_with("'app' is not a valid initiator"), "{refused}");
    let made = bench.ask(named(&["IQN.2026-11.Test:B", "iqn.2026-11.test:a"]));
    let names = ["iqn.2026-11.test:a", "iqn.2026-11.test:b"];
    assert_eq!(made.account.initiators, names);
    running.stop().unwrap();
    let (running, cores) = bench.start("127.0.0.1:0", &[]).unwrap();
    assert_eq!(bench.ask(ChapList {}).accounts[0].initiators, names);
    let told = cores.last_iscsi();
    let is_for = |name| told.account("app").unwrap().is_for(name);
    assert!(names.into_iter().all(is_for) && !is_for("iqn.2026-11.test:c"));
    running.stop().unwrap();
}

#[test]
fn a_subsystem_is_a_target_and_its_volumes_are_logical_units_from_zero() {
    let bench = Bench::new();
    let (running, cores) = bench.start("127.0.0.1:0", &[]).unwrap();
    let access = cores.last_iscsi();
    let targets: Vec<&str> = access.targets().collect();
    assert_eq!(targets, ["iqn.2026-11.io.nearflash:data"]);
    let units = access.target(targets[0]).unwrap().iter();
    let units: Vec<(u16, &str)> = units.map(|unit| (unit.lun, &*unit.name)).collect();
    assert_eq!(units, [(0, "Data"), (1, "logs")]);
    assert_eq!(running.ready().body.iscsi.len(), 1);
    assert_ne!(running.ready().body.iscsi[0].port(), 0);
    running.stop().unwrap();
}

#[test]
fn a_chap_user_is_told_to_the_cores_and_kept_over_a_restart() {
    let bench = Bench::new();
    let (running, cores) = bench.start("127.0.0.1:0", &[]).unwrap();
    let given = bench.ask(add("app", Some("geheimgeheim"), None));
    assert!(given.secret.is_none(), "{given:?}");
    let told = cores.last_iscsi();
    assert!(told.account("app").unwrap().initiator().secret == secret("geheimgeheim"));
    let mutual = Some(ChapMutual { user: "node".to_owned(), secret: None });
    let made = bench.ask(add("b", None, mutual));
    let (own, mutual_secret) = (made.secret.unwrap(), made.mutual_secret.unwrap());
    assert_eq!(made.account.mutual_user.as_deref(), Some("node"));
    assert!((12..=64).contains(&own.0.len()) && own != mutual_secret);
    let told = cores.last_iscsi();
    let of_node = told.account("b").unwrap().target().unwrap();
    assert!(of_node.secret == secret(&mutual_secret.0));
    running.stop().unwrap();
    let (running, cores) = bench.start("127.0.0.1:0", &[]).unwrap();
    for user in ["app", "b"] {
        assert_eq!(cores.last_iscsi().account(user), told.account(user));
    }
    bench.ask(remove("b"));
    let left = cores.last_iscsi();
    assert!(left.has_account("app") && !left.has_account("b"));
    assert_eq!(bench.ask(ChapList {}).accounts[0].user, "app");
    running.stop().unwrap();
}

#[test]
fn a_chap_user_that_cannot_be_is_refused_in_one_line_and_its_secret_not_repeated() {
    let bench = Bench::new();
    let (running, cores) = bench.start("127.0.0.1:0", &[]).unwrap();
    bench.ask(add("app", Some("geheimgeheim"), None));
    let mutual = |secret: &str| {
        let secret = Some(SecretText(secret.to_owned()));
        Some(ChapMutual { user: "node".to_owned(), secret })
    };
    let check = |refused: String, reason: &str| {
        assert!(refused.starts_with(reason), "{refused}");
        assert!(!refused.contains("hush") && !refused.contains('\n'), "{refused}");
    };
    for (call, reason) in [
        (add("app", None, None), "CHAP account 'app' exists already"),
        (add("a b", None, None), "'a b' is not a valid name of a CHAP account"),
        (add("c", Some("hushhushhus"), None), "a CHAP secret has 12 to 64 printable characters"),
        (add("c", None, mutual("hush")), "a CHAP secret has 12 to 64 printable characters"),
        (add("c", Some("hushhushhush"), mutual("hushhushhush")), "the two secrets are the same"),
    ] {
        check(bench.refused(call), reason);
    }
    check(bench.refused(remove("c")), "no CHAP account 'c'");
    let told = cores.last_iscsi();
    assert!(told.has_account("app") && !told.has_account("c") && !told.has_account("a b"));
    running.stop().unwrap();
}

#[test]
fn a_door_to_other_machines_opens_with_a_chap_user_or_when_it_is_said_who_may_come_in() {
    let bench = Bench::new();
    let Err(refused) = bench.start("0.0.0.0:0", &[]).map(|_| ()) else { panic!("refused") };
    assert_eq!(
        refused.to_string(),
        "--iscsi: 0.0.0.0:0 can be reached from other machines, and there is no CHAP account: start \
         without this address, add one with 'nearflash chap add USER', and start again; or name \
         the initiators that may connect with --host NAME (repeatable), or use --host any"
    );
    assert_eq!(refused.exit_code(), 2);
    for hosts in ["any", "iqn.2026-11.test:a"] {
        let (running, _) = bench.start("0.0.0.0:0", &[hosts]).unwrap();
        running.stop().unwrap();
    }
    let (running, _) = bench.start("127.0.0.1:0", &[]).unwrap();
    bench.ask(add("app", None, None));
    running.stop().unwrap();
    let (running, _) = bench.start("0.0.0.0:0", &[]).unwrap();
    running.stop().unwrap();
}

#[test]
fn a_volume_whose_iscsi_name_another_has_is_refused_where_iscsi_is_served() {
    let bench = Bench::new();
    let (running, _) = bench.start("127.0.0.1:0", &[]).unwrap();
    let create = |name: &str, subsystem: Option<&str>| VolumeCreate {
        name: name.to_owned(),
        bytes: 1 << 20,
        device: Some("flash".to_owned()),
        subsystem: subsystem.map(str::to_owned),
        ..VolumeCreate::default()
    };
    let refused = bench.refused(create("data", None));
    assert!(refused.contains("iqn.2026-11.io.nearflash:data"), "{refused}");
    assert!(refused.contains("subsystem 'Data'"), "{refused}");
    bench.ask(create("data", Some("other")));
    bench.ask(create("more", Some("Data")));
    bench.ask(create("my_vol", None));
    assert!(bench.refused(create("my-vol", None)).contains("'my_vol'"));
    running.stop().unwrap();
}

/// Names that were made while no node served iSCSI.
#[test]
fn volumes_that_iscsi_does_not_tell_apart_are_left_out_and_the_status_says_so() {
    let bench = Bench::new();
    let args = |volumes: &[&str], iscsi: &[&str]| {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Config::resolve(ServeArgs {
            devices: vec![format!("flash=file:{}/flash.img,size=16MiB", bench.0.path().display())],
            volumes: owned(volumes),
            nvme_tcp: vec!["127.0.0.1:0".to_owned()],
            iscsi: owned(iscsi),
            data_dir: Some(bench.0.path().join("data")),
            ..ServeArgs::default()
        })
        .unwrap()
    };
    let volumes = ["Backup=1MiB@flash", "backup=1MiB@flash", "my_vol=1MiB@flash"];
    let Err(refused) = Recorder::start(&args(&volumes, &["127.0.0.1:0"])) else {
        panic!("a start makes no such volumes")
    };
    assert!(refused.to_string().contains("iqn.2026-11.io.nearflash:backup"), "{refused}");
    let (running, _) = Recorder::start(&args(&volumes, &[])).unwrap();
    assert!(bench.ask(StatusShow {}).iscsi_clashes.is_empty(), "nobody serves iSCSI");
    running.stop().unwrap();
    let (running, cores) = Recorder::start(&args(&volumes, &["127.0.0.1:0"])).unwrap();
    let told = cores.last_iscsi();
    assert_eq!(told.targets().collect::<Vec<_>>(), ["iqn.2026-11.io.nearflash:my-vol"]);
    let status = bench.ask(StatusShow {});
    assert_eq!(status.iscsi_clashes[0].left_out, ["Backup", "backup"]);
    assert!(status.verdict.reasons.iter().any(|it| it.contains("'Backup' and 'backup'")));
    bench.ask(VolumeRemove { name: "Backup".to_owned(), force: false });
    assert!(bench.ask(StatusShow {}).iscsi_clashes.is_empty());
    assert_eq!(cores.last_iscsi().targets().count(), 2, "the other one has the name now");
    running.stop().unwrap();
}
