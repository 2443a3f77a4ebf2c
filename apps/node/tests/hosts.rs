//! Keys of NVMe hosts and NVMe/TCP doors of a node, with cores that only record their messages.
#![allow(clippy::unwrap_used)] // a failed test says where

use crate::common;

use std::sync::Arc;

use common::Recorder;
use nearflash_api::client::ask;
use nearflash_api::{
    Call, ControllerKey, HostAdd, HostAllow, HostDeny, HostList, HostRemove, HostRotate,
    HostUnlist, HostVolume, KeyedHost, SecretText, StatusShow,
};
use nearflash_config::{Config, ServeArgs};
use nearflash_node::{Running, StartError};
use nearflash_nvme::auth::Key;
use nearflash_nvme::{HostName as NvmeHostName, Nqn};
use nearflash_request::{HostRight, VolumeId};

const APP: &str = "nqn.2026-11.test:app";

/// A directory for nodes.
struct Bench(tempfile::TempDir);

impl Bench {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn start(&self, address: &str, hosts: &[&str]) -> Result<(Running, Arc<Recorder>), StartError> {
        self.start_with(address, hosts, None)
    }

    /// A node whose hosts without a list see all volumes.
    fn start_open(&self) -> (Running, Arc<Recorder>) {
        self.start_with("127.0.0.1:0", &[], Some("all")).unwrap()
    }

    fn start_with(
        &self,
        address: &str,
        hosts: &[&str],
        unlisted: Option<&str>,
    ) -> Result<(Running, Arc<Recorder>), StartError> {
        let config = Config::resolve(ServeArgs {
            devices: vec![format!("flash=file:{}/flash.img,size=16MiB", self.0.path().display())],
            volumes: vec!["a=1MiB@flash".to_owned(), "b=1MiB@flash".to_owned()],
            nvme_tcp: vec![address.to_owned()],
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            unlisted_hosts: unlisted.map(str::to_owned),
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
        volumes: None,
        hash: None,
        group: None,
        replace: false,
        psk: None,
        psk_derivation: None,
        tls: None,
    }
}

fn remove(nqn: &str) -> HostRemove {
    HostRemove { nqn: nqn.to_owned(), forget: false }
}

fn text(byte: u8) -> SecretText {
    SecretText(Key::new(None, &[byte; 48]).unwrap().to_text().as_str().to_owned())
}

/// The hosts of these tests.
const HOSTS: [&str; 2] = [APP, "nqn.2026-11.test:b"];

/// Those of them that have keys, as the cores know them.
fn keyed(cores: &Recorder) -> Vec<&'static str> {
    let keyed = Arc::clone(&cores.last().keyed);
    HOSTS.into_iter().filter(|host| keyed.has(&Nqn::new(host).unwrap())).collect()
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

fn with_psk(text: &str) -> HostAdd {
    HostAdd { psk: Some(SecretText(text.to_owned())), ..add(APP) }
}

const PSK: &str = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";

#[test]
fn a_host_with_a_psk_has_another_key_only_if_it_is_given_one() {
    let bench = Bench::new();
    let (running, cores) = bench.start("127.0.0.1:0", &[]).unwrap();
    let made = bench.ask(with_psk(PSK));
    assert_eq!((made.key, made.host.dhchap), (None, false));
    assert_eq!(made.host.tls.as_deref(), Some("required"));
    assert_eq!(made.host.psk_derivation.as_deref(), Some("standard"));
    assert_eq!(keyed(&cores), [APP]);
    bench.ask(remove(APP));
    let legacy = Some("legacy".to_owned());
    let both = HostAdd { key: Some(text(1)), psk_derivation: legacy, ..with_psk(PSK) };
    let both = bench.ask(HostAdd { tls: Some("allowed".to_owned()), ..both });
    assert!(both.host.dhchap);
    running.stop().unwrap();
    let (running, _) = bench.start("127.0.0.1:0,tls=required", &[]).unwrap();
    assert_eq!(bench.ask(HostList {}).hosts, [both.host]);
    running.stop().unwrap();
}

#[test]
fn psks_that_cannot_be_are_refused_in_one_line_and_not_repeated() {
    let bench = Bench::new();
    let (running, cores) = bench.start("127.0.0.1:0", &[]).unwrap();
    let word = |word: &str| Some(word.to_owned());
    for (call, reason) in [
        (with_psk("hush"), "a PSK of NVMe over TLS has the form"),
        (with_psk("NVMeTLSkey-1:09:hush:"), "a PSK of NVMe over TLS begins with"),
        (HostAdd { psk_derivation: word("new"), ..with_psk(PSK) }, "'new' is not a derivation"),
        (HostAdd { tls: word("off"), ..with_psk(PSK) }, "'off' does not say whether"),
        (HostAdd { hash: word("sha256"), ..with_psk(PSK) }, "'hash' is for DH-HMAC-CHAP"),
        (HostAdd { tls: word("allowed"), ..add(APP) }, "'tls' is for the PSK of a host"),
    ] {
        let refused = bench.refused(call);
        assert!(refused.starts_with(reason), "{refused}");
        assert!(!refused.contains("hush") && !refused.contains('\n'), "{refused}");
    }
    assert!(keyed(&cores).is_empty());
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

fn rotate() -> HostRotate {
    HostRotate { nqn: APP.to_owned(), key: None, psk: None, previous_until: None }
}

/// A second in the year 2100.
const LATE: u64 = 4_102_444_800;

#[test]
fn replaced_keys_are_valid_until_their_time_which_is_kept_over_a_restart() {
    let bench = Bench::new();
    let (running, cores) = bench.start("127.0.0.1:0", &[]).unwrap();
    bench.ask(HostAdd { key: Some(text(1)), hash: Some("sha384".to_owned()), ..with_psk(PSK) });
    let before = bench.ask(HostList {}).hosts.remove(0);
    let late = HostRotate { previous_until: Some(LATE), ..rotate() };
    let made = bench.ask(late.clone());
    let key = made.key.expect("the node draws a key");
    assert!(key.0.parse::<Key>().is_ok());
    let of_key = KeyedHost { previous_key_until: Some(LATE), ..before.clone() };
    assert_eq!(made.host, of_key);
    let psk = Some(SecretText(
        "NVMeTLSkey-1:01:CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQlGwA0N:".into(),
    ));
    let made = bench.ask(HostRotate { psk, ..late });
    let of_both = KeyedHost { previous_psk_until: Some(LATE), ..of_key };
    assert_eq!((made.key, made.host), (None, of_both.clone()));
    assert_eq!(keyed(&cores), [APP]);
    running.stop().unwrap();
    let (running, _) = bench.start("127.0.0.1:0,tls=required", &[]).unwrap();
    assert_eq!(bench.ask(HostList {}).hosts, [of_both]);
    // Without a time, the old key ends at once. The PSK has its own time.
    let made = bench.ask(HostRotate { key: Some(text(2)), ..rotate() });
    assert_eq!(made.host, KeyedHost { previous_psk_until: Some(LATE), ..before });
    running.stop().unwrap();
}

#[test]
fn keys_that_a_host_does_not_have_are_not_replaced() {
    let bench = Bench::new();
    let (running, _) = bench.start("127.0.0.1:0", &[]).unwrap();
    let psk = || HostRotate { psk: Some(SecretText(PSK.to_owned())), ..rotate() };
    let key = |key: &str| HostRotate { key: Some(SecretText(key.to_owned())), ..rotate() };
    let refused = bench.refused(rotate());
    assert!(refused.starts_with("no host 'nqn.2026-11.test:app' with keys"), "{refused}");
    bench.ask(with_psk(PSK));
    let refused = bench.refused(rotate());
    assert!(
        refused.starts_with("host 'nqn.2026-11.test:app' has no key for DH-HMAC-CHAP"),
        "{refused}"
    );
    bench.ask(remove(APP));
    let controller = Some(ControllerKey { key: Some(text(2)) });
    bench.ask(HostAdd { key: Some(text(1)), controller, ..add(APP) });
    let before = bench.ask(StatusShow {}).generation;
    for (call, reason) in [
        (psk(), "host 'nqn.2026-11.test:app' has no PSK to replace"),
        (key("hush"), "a DH-HMAC-CHAP key has the form"),
        (key(&text(2).0), "the two keys are the same"),
        (HostRotate { previous_until: Some(1), ..rotate() }, "the time until which the old key"),
    ] {
        let refused = bench.refused(call);
        assert!(refused.starts_with(reason), "{refused}");
        assert!(!refused.contains("hush") && !refused.contains('\n'), "{refused}");
    }
    assert_eq!(bench.ask(StatusShow {}).generation, before);
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

/// The rights that the cores have last been told of, on the volumes `a` and `b`.
fn told(cores: &Recorder, host: Option<&str>) -> [Option<HostRight>; 2] {
    let published = cores.last();
    assert_eq!(*published.rights, *published.iscsi.rights(), "one rule for all doors");
    [0, 1].map(|volume| published.rights.on(host, VolumeId(volume)))
}

fn volume(name: &str, rights: &str) -> HostVolume {
    HostVolume { volume: name.to_owned(), rights: rights.to_owned() }
}

fn allow(host: &str, volumes: &[HostVolume]) -> HostAllow {
    HostAllow { host: host.to_owned(), volumes: volumes.to_vec(), only: false }
}

fn deny(host: &str, volumes: &[&str]) -> HostDeny {
    let volumes = volumes.iter().map(|name| (*name).to_owned()).collect();
    HostDeny { host: host.to_owned(), volumes }
}

const READ: Option<HostRight> = Some(HostRight::Read);
const WRITE: Option<HostRight> = Some(HostRight::ReadWrite);

#[test]
fn a_host_whose_keys_are_removed_is_remembered_until_it_is_forgotten() {
    let bench = Bench::new();
    let removed = |cores: &Recorder| -> Vec<&'static str> {
        let keyed = Arc::clone(&cores.last().keyed);
        let name = |host| NvmeHostName::Named(Nqn::new(host).unwrap());
        HOSTS.into_iter().filter(|host| keyed.is_removed(&name(host))).collect()
    };
    let (running, cores) = bench.start("127.0.0.1:0", &[]).unwrap();
    bench.ask(add(APP));
    bench.ask(remove(APP));
    assert_eq!(removed(&cores), [APP]);
    assert_eq!(bench.ask(HostList {}).removed, [APP]);
    running.stop().unwrap();
    let (running, cores) = bench.start("127.0.0.1:0", &[]).unwrap();
    assert_eq!((removed(&cores), keyed(&cores)), (vec![APP], vec![]));
    bench.ask(add(APP));
    assert_eq!((removed(&cores), keyed(&cores)), (vec![], vec![APP]));
    bench.ask(remove(APP));
    let forget = || HostRemove { forget: true, ..remove(APP) };
    assert!(bench.refused(remove(APP)).starts_with("no host"));
    bench.ask(forget());
    assert!(bench.refused(forget()).starts_with("no host"));
    assert_eq!(removed(&cores), [""; 0]);
    bench.ask(add(APP));
    bench.ask(forget());
    assert_eq!(bench.ask(HostList {}).removed, [""; 0]);
    running.stop().unwrap();
    let (running, cores) = bench.start("127.0.0.1:0", &[]).unwrap();
    assert_eq!((removed(&cores), keyed(&cores)), (vec![], vec![]));
    running.stop().unwrap();
}

#[test]
fn once_a_host_has_had_a_list_others_see_no_volume_until_the_start_says_otherwise() {
    let bench = Bench::new();
    let (running, cores) = bench.start("127.0.0.1:0", &[]).unwrap();
    assert_eq!(bench.ask(HostList {}).unlisted, "all");
    assert_eq!(told(&cores, None), [WRITE, WRITE]);
    bench.ask(allow(APP, &[volume("a", "r")]));
    assert_eq!((told(&cores, Some(APP)), told(&cores, None)), ([READ, None], [None, None]));
    bench.ask(HostUnlist { host: APP.to_owned() });
    assert_eq!(told(&cores, Some(APP)), [None, None], "the last list opens nothing");
    assert_eq!(bench.ask(HostList {}).unlisted, "none");
    running.stop().unwrap();
    for (flag, seen) in [(None, None), (Some("all"), WRITE), (Some("none"), None)] {
        let (running, cores) = bench.start_with("127.0.0.1:0", &[], flag).unwrap();
        assert_eq!(told(&cores, None), [seen, seen], "{flag:?}");
        running.stop().unwrap();
    }
}

#[test]
fn the_first_list_takes_no_volumes_from_hosts_that_are_connected() {
    let bench = Bench::new();
    let (running, cores) = bench.start("127.0.0.1:0", &[]).unwrap();
    let other = "nqn.2026-11.test:other";
    let connected = |host: &str, subsystem: &str| {
        let host = NvmeHostName::Named(Nqn::new(host).unwrap());
        common::connected(host, Nqn::new(subsystem).unwrap())
    };
    let data = "nqn.2026-11.io.nearflash:a";
    *cores.hosts.lock().unwrap() = vec![connected(APP, data), connected(other, data)];
    let refused = bench.refused(allow(APP, &[volume("a", "r")]));
    assert!(refused.contains("'nqn.2026-11.test:other' would lose theirs"), "{refused}");
    assert_eq!(told(&cores, Some(APP)), [WRITE, WRITE]);
    // Its own list may cost the host its volumes. A discovery loses nothing.
    let discovery = "nqn.2014-08.org.nvmexpress.discovery";
    *cores.hosts.lock().unwrap() = vec![connected(APP, data), connected(other, discovery)];
    bench.ask(allow(APP, &[volume("a", "r")]));
    *cores.hosts.lock().unwrap() = vec![connected(other, data)];
    bench.ask(allow(APP, &[volume("a", "rw")]));
    running.stop().unwrap();
}

#[test]
fn lists_of_hosts_are_told_to_the_cores_and_repeated_calls_change_nothing() {
    let bench = Bench::new();
    let (running, cores) = bench.start_open();
    let iqn = "iqn.2026-11.test:app";
    for host in [APP, "IQN.2026-11.Test:App"] {
        for _ in 0..2 {
            let made = bench.ask(allow(host, &[volume("a", "r"), volume("b", "rw")])).list;
            assert_eq!(made.volumes, [volume("a", "r"), volume("b", "rw")]);
        }
    }
    for host in [APP, iqn] {
        assert_eq!(told(&cores, Some(host)), [READ, WRITE]);
    }
    assert_eq!(told(&cores, None), [WRITE, WRITE]);
    let before = cores.publications();
    bench.ask(allow(APP, &[volume("b", "rw")]));
    assert_eq!(cores.publications(), before, "nothing has changed");
    bench.ask(allow(APP, &[volume("b", "r")]));
    assert_eq!(told(&cores, Some(APP)), [READ, READ]);
    bench.ask(HostAllow { only: true, ..allow(APP, &[volume("b", "rw")]) });
    assert_eq!(told(&cores, Some(APP)), [None, WRITE]);
    for _ in 0..2 {
        assert_eq!(bench.ask(deny(APP, &["b"])).list.volumes, []);
    }
    assert_eq!(told(&cores, Some(APP)), [None, None]);
    bench.ask(deny("nqn.2026-11.test:c", &[]));
    assert_eq!(told(&cores, Some("nqn.2026-11.test:c")), [None, None]);
    running.stop().unwrap();
    let (running, cores) = bench.start_open();
    assert_eq!(told(&cores, Some(APP)), [None, None]);
    assert_eq!(told(&cores, Some(iqn)), [READ, WRITE]);
    for _ in 0..2 {
        bench.ask(HostUnlist { host: APP.to_owned() });
    }
    assert_eq!(told(&cores, Some(APP)), [WRITE, WRITE]);
    assert_eq!(bench.ask(remove(iqn)).host.nqn, iqn);
    assert_eq!(told(&cores, Some(iqn)), [WRITE, WRITE]);
    let lists = bench.ask(HostList {}).lists;
    assert_eq!(lists.iter().map(|list| &list.host[..]).collect::<Vec<_>>(), ["nqn.2026-11.test:c"]);
    running.stop().unwrap();
}

#[test]
fn a_host_is_added_with_keys_and_a_list_at_once_and_removed_with_both() {
    let bench = Bench::new();
    let (running, cores) = bench.start_open();
    bench.ask(HostAdd { volumes: Some(vec![volume("b", "r")]), ..add(APP) });
    assert_eq!((keyed(&cores), told(&cores, Some(APP))), (vec![APP], [None, READ]));
    let refused = bench
        .refused(HostAdd { volumes: Some(vec![volume("x", "r")]), ..add("nqn.2026-11.test:b") });
    assert!(refused.starts_with("no volume 'x'"), "{refused}");
    assert_eq!(keyed(&cores), [APP]);
    bench.ask(remove(APP));
    assert_eq!((keyed(&cores), told(&cores, Some(APP))), (vec![], [WRITE, WRITE]));
    running.stop().unwrap();
}

#[test]
fn lists_that_cannot_be_are_refused_in_one_line() {
    let bench = Bench::new();
    let (running, cores) = bench.start("127.0.0.1:0", &[]).unwrap();
    let before = cores.publications();
    for (refused, reason) in [
        (bench.refused(allow("app", &[volume("a", "r")])), "'app' is not a valid host"),
        (bench.refused(allow(APP, &[volume("x", "r")])), "no volume 'x'"),
        (bench.refused(allow(APP, &[volume("a", "ro")])), "'ro' is not a valid set of rights"),
        (bench.refused(deny(APP, &["a"])), "host 'nqn.2026-11.test:app' has no list of volumes"),
        (bench.refused(deny(APP, &["x"])), "no volume 'x'"),
    ] {
        assert!(refused.starts_with(reason) && !refused.contains('\n'), "{refused}");
    }
    assert_eq!(cores.publications(), before);
    running.stop().unwrap();
}

#[test]
fn a_change_of_rights_waits_for_the_requests_that_it_forbids() {
    let bench = Bench::new();
    let (running, cores) = bench.start_open();
    let (waits, is_waiting) = std::sync::mpsc::channel();
    *cores.waits.lock().unwrap() = Some(waits);
    cores.hang(0);
    // More rights end no request, and lesser rights on another volume do not wait for this one.
    bench.ask(allow(APP, &[volume("a", "rw"), volume("b", "r")]));
    assert!(is_waiting.try_recv().is_err());
    std::thread::scope(|scope| {
        let change = scope.spawn(|| bench.ask(allow(APP, &[volume("a", "r")])));
        is_waiting.recv().unwrap();
        assert_eq!(told(&cores, Some(APP)), [READ, READ], "it applies to new requests");
        assert!(!change.is_finished());
        cores.recover();
    });
    running.stop().unwrap();
}
