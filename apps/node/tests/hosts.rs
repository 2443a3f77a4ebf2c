//! Keys of NVMe hosts and NVMe/TCP doors of a node, with cores that only record their messages.
#![allow(clippy::unwrap_used)] // a failed test says where

mod common;

use std::sync::Arc;

use common::Recorder;
use nearflash_api::client::ask;
use nearflash_api::{Call, ControllerKey, HostAdd, HostList, HostRemove, SecretText, StatusShow};
use nearflash_node::config::{Config, ServeArgs};
use nearflash_node::{NodeError, Running};
use nearflash_nvme::auth::Key;

const APP: &str = "nqn.2026-11.test:app";

/// A directory for nodes.
struct Bench(tempfile::TempDir);

impl Bench {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn start(&self, address: &str, hosts: &[&str]) -> Result<(Running, Arc<Recorder>), NodeError> {
        let config = Config::resolve(ServeArgs {
            devices: vec![format!("flash=file:{}/flash.img,size=16MiB", self.0.path().display())],
            nvme_tcp: vec![address.to_owned()],
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
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

fn add(nqn: &str) -> HostAdd {
    HostAdd {
        nqn: nqn.to_owned(),
        key: None,
        controller: None,
        hash: None,
        group: None,
        replace: false,
    }
}

fn remove(nqn: &str) -> HostRemove {
    HostRemove { nqn: nqn.to_owned() }
}

fn text(byte: u8) -> SecretText {
    SecretText(Key::new(None, &[byte; 48]).unwrap().to_text().as_str().to_owned())
}

fn keyed(cores: &Recorder) -> Vec<String> {
    cores.keyed_hosts.lock().unwrap().iter().map(ToString::to_string).collect()
}

#[test]
fn a_host_with_keys_is_told_to_the_cores_and_kept_over_a_restart() {
    let bench = Bench::new();
    let (running, cores) = bench.start("127.0.0.1:0", &[]).unwrap();
    assert!(keyed(&cores).is_empty() && bench.ask(HostList {}).hosts.is_empty());
    let made = bench.ask(HostAdd { controller: Some(ControllerKey::default()), ..add(APP) });
    let (key, controller_key) = (made.key.unwrap(), made.controller_key.unwrap());
    assert!(key.0.parse::<Key>().is_ok() && controller_key.0.parse::<Key>().is_ok());
    assert!(made.host.mutual && key != controller_key);
    let given = bench.ask(HostAdd {
        key: Some(text(1)),
        hash: Some("sha384".to_owned()),
        group: Some("null".to_owned()),
        ..add("nqn.2026-11.test:b")
    });
    assert_eq!((given.key, given.host.mutual), (None, false));
    assert_eq!(keyed(&cores), [APP, "nqn.2026-11.test:b"]);
    running.stop().unwrap();
    let (running, cores) = bench.start("127.0.0.1:0", &[]).unwrap();
    assert_eq!(keyed(&cores), [APP, "nqn.2026-11.test:b"]);
    let hosts = bench.ask(HostList {}).hosts;
    assert_eq!(
        (hosts[1].hash.as_deref(), hosts[1].group.as_deref()),
        (Some("sha384"), Some("null"))
    );
    assert_eq!(bench.ask(remove(APP)).host.nqn, APP);
    assert_eq!(keyed(&cores), ["nqn.2026-11.test:b"]);
    running.stop().unwrap();
}

#[test]
fn keys_replace_earlier_ones_on_request_and_in_one_change() {
    let bench = Bench::new();
    let (running, cores) = bench.start("127.0.0.1:0", &[]).unwrap();
    let new = |hash: &str| HostAdd {
        key: Some(text(1)),
        hash: Some(hash.to_owned()),
        replace: true,
        ..add(APP)
    };
    bench.ask(new("sha256"));
    let before = bench.ask(StatusShow {}).generation;
    bench.ask(new("sha512"));
    assert_eq!(bench.ask(StatusShow {}).generation, before + 1);
    let hosts = bench.ask(HostList {}).hosts;
    assert_eq!((hosts.len(), hosts[0].hash.as_deref()), (1, Some("sha512")));
    assert_eq!(keyed(&cores), [APP]);
    running.stop().unwrap();
}

#[test]
fn keys_that_cannot_be_are_refused_in_one_line_and_not_repeated() {
    let bench = Bench::new();
    let (running, cores) = bench.start("127.0.0.1:0", &[]).unwrap();
    bench.ask(add(APP));
    let other = || add("nqn.2026-11.test:b");
    let given = |key: &str| HostAdd { key: Some(SecretText(key.to_owned())), ..other() };
    let both = |byte| {
        let controller = Some(ControllerKey { key: Some(text(byte)) });
        HostAdd { key: Some(text(1)), controller, ..other() }
    };
    for (call, reason) in [
        (add(APP), "host 'nqn.2026-11.test:app' has keys already"),
        (add("iqn.x"), "'iqn.x' is not a valid host NQN"),
        (given("hush"), "a DH-HMAC-CHAP key has the form"),
        (given("DHHC-1:09:hush:"), "a DH-HMAC-CHAP key begins with"),
        (both(1), "the two keys are the same"),
        (HostAdd { hash: Some("md5".to_owned()), ..other() }, "'md5' is not a hash"),
        (HostAdd { group: Some("ffdhe1".to_owned()), ..other() }, "'ffdhe1' is not a Diffie"),
    ] {
        let refused = bench.refused(call);
        assert!(refused.starts_with(reason), "{refused}");
        assert!(!refused.contains("hush") && !refused.contains('\n'), "{refused}");
    }
    let refused = bench.refused(remove("nqn.2026-11.test:b"));
    assert!(refused.starts_with("no host 'nqn.2026-11.test:b' with keys"), "{refused}");
    assert_eq!(keyed(&cores), [APP]);
    running.stop().unwrap();
}

#[test]
fn a_door_that_demands_authentication_opens_with_keys_or_when_hosts_are_named() {
    let bench = Bench::new();
    for address in ["0.0.0.0:0", "127.0.0.1:0,auth=required"] {
        let Err(refused) = bench.start(address, &[]).map(|_| ()) else { panic!("refused") };
        let message = refused.to_string();
        assert!(message.starts_with("--nvme-tcp: hosts must authenticate at"), "{message}");
        assert_eq!(refused.exit_code(), 2);
    }
    for hosts in ["any", "nqn.2026-11.test:app"] {
        let (running, _) = bench.start("0.0.0.0:0", &[hosts]).unwrap();
        running.stop().unwrap();
    }
    let (running, _) = bench.start("127.0.0.1:0", &[]).unwrap();
    bench.ask(add(APP));
    running.stop().unwrap();
    for address in ["0.0.0.0:0", "127.0.0.1:0,auth=required"] {
        let (running, _) = bench.start(address, &[]).unwrap();
        running.stop().unwrap();
    }
}
