use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::*;

fn volume() -> VolumeInfo {
    VolumeInfo {
        name: "data".to_owned(),
        nqn: "nqn.2026-11.io.nearflash:data".to_owned(),
        nsid: 1,
        uuid: Uuid::from_u128(0x21),
        bytes: 8 << 30,
        block_size: 4096,
        device: "flash".to_owned(),
        provisioning: "thin".to_owned(),
        job: None,
        state: None,
        files: None,
    }
}

fn device() -> DeviceInfo {
    DeviceInfo {
        name: "flash".to_owned(),
        kind: "file".to_owned(),
        source: None,
        uuid: Uuid::from_u128(2),
        bytes: 16 << 30,
        data_bytes: (16 << 30) - (1 << 20),
        free_bytes: (8 << 30) - (1 << 20),
        block_size: 512,
        volatile_cache: true,
        suspect: false,
        truncated: false,
        backing: None,
        flash: None,
        pcm: None,
    }
}

fn status() -> Status {
    Status {
        version: "0.1.0".to_owned(),
        commit: None,
        node: Uuid::from_u128(1),
        pid: 77,
        generation: 9,
        verdict: Verdict::default(),
        uptime_seconds: 5,
        cluster: None,
        nvme_tcp: vec!["127.0.0.1:4420".parse().unwrap()],
        direct: vec!["127.0.0.1:4421".parse().unwrap()],
        nvme_tcp_tls: vec![],
        direct_tls: vec![],
        direct_local: None,
        iscsi: vec!["127.0.0.1:3260".parse().unwrap()],
        http: None,
        http_local: None,
        iscsi_clashes: vec![],
        open_to_everyone: vec![],
        closed: vec![],
        files_faults: vec![],
        devices: vec![device()],
        volumes: vec![volume()],
        cores: vec![CoreInfo {
            core: 0,
            connections: 2,
            in_flight: 0,
            reads: 10,
            writes: 20,
            read_bytes: 40_960,
            written_bytes: 81_920,
            errors: 0,
            pool_free_bytes: 32 << 20,
            clients: 1,
        }],
        silent_cores: vec![],
        hosts: vec![HostInfo {
            host: "nqn.2014-08.org.nvmexpress:uuid:1".to_owned(),
            nqn: "nqn.2026-11.io.nearflash:data".to_owned(),
            address: "127.0.0.1:50000".parse().unwrap(),
            io_queues: 1,
        }],
        clients: vec![ClientInfo {
            from: "process 12 of user 1000".to_owned(),
            credential: Some("app".to_owned()),
            is_in: true,
            core: 0,
            in_flight: 3,
        }],
        initiators: vec![InitiatorInfo {
            initiator: "iqn.2004-10.com.ubuntu:a".to_owned(),
            target: Some("iqn.2026-11.io.nearflash:data".to_owned()),
            user: None,
            address: "127.0.0.1:50003".parse().unwrap(),
            connections: 2,
            core: 0,
        }],
        places: vec![PlaceInfo {
            kind: "nvme-controllers".to_owned(),
            used: 1,
            places: 1024,
            holder: Some("nqn.host".to_owned()),
            held: 1,
        }],
        volume_io: vec![],
        refused_logins: None,
        jobs: vec![],
    }
}

/// Formats a document for the snapshots, and checks that its line can be parsed back.
fn document<T: Serialize + for<'a> Deserialize<'a> + PartialEq + std::fmt::Debug>(
    body: T,
) -> String {
    let document = Document::new(body);
    let line = document.to_line();
    assert!(!line.contains('\n'));
    assert_eq!(serde_json::from_str::<Document<T>>(&line).unwrap(), document);
    serde_json::to_string_pretty(&document).unwrap()
}

fn request<C: Call>(call: C) -> String {
    let request: Request = call.into();
    assert_eq!(request.name(), C::NAME);
    let line = Document::new(request.clone()).to_line();
    assert_eq!(parse_request(line.as_bytes()), Ok(request.clone().into()));
    document(request)
}

#[test]
fn the_ready_line_is_as_it_always_was() {
    let ready = Ready {
        http: None,
        http_local: None,
        event: "ready".to_owned(),
        nvme_tcp: vec!["127.0.0.1:4420".parse().unwrap(), "[::1]:4421".parse().unwrap()],
        direct: vec!["127.0.0.1:4421".parse().unwrap()],
        direct_local: Some("/run/nearflash/direct.sock".into()),
        iscsi: vec!["127.0.0.1:3260".parse().unwrap()],
        control: "/var/lib/nearflash/control.sock".into(),
        volumes: vec![volume()],
        pid: 77,
    };
    insta::assert_snapshot!(document(ready), @r#"
        {
          "schema": 1,
          "event": "ready",
          "nvme_tcp": [
            "127.0.0.1:4420",
            "[::1]:4421"
          ],
          "direct": [
            "127.0.0.1:4421"
          ],
          "direct_local": "/run/nearflash/direct.sock",
          "iscsi": [
            "127.0.0.1:3260"
          ],
          "control": "/var/lib/nearflash/control.sock",
          "volumes": [
            {
              "name": "data",
              "nqn": "nqn.2026-11.io.nearflash:data",
              "nsid": 1,
              "uuid": "00000000-0000-0000-0000-000000000021",
              "bytes": 8589934592,
              "block_size": 4096,
              "device": "flash",
              "provisioning": "thin"
            }
          ],
          "pid": 77
        }
        "#);
}

#[test]
fn answers_are_as_they_always_were() {
    insta::assert_snapshot!(document(OneVolume { volume: volume(), job: None, note: None }), @r#"
        {
          "schema": 1,
          "volume": {
            "name": "data",
            "nqn": "nqn.2026-11.io.nearflash:data",
            "nsid": 1,
            "uuid": "00000000-0000-0000-0000-000000000021",
            "bytes": 8589934592,
            "block_size": 4096,
            "device": "flash",
            "provisioning": "thin"
          }
        }
        "#);
    insta::assert_snapshot!(document(Volumes { volumes: vec![volume()] }), @r#"
        {
          "schema": 1,
          "volumes": [
            {
              "name": "data",
              "nqn": "nqn.2026-11.io.nearflash:data",
              "nsid": 1,
              "uuid": "00000000-0000-0000-0000-000000000021",
              "bytes": 8589934592,
              "block_size": 4096,
              "device": "flash",
              "provisioning": "thin"
            }
          ]
        }
        "#);
}

#[test]
#[allow(clippy::too_many_lines, reason = "it is one document")]
fn a_status_is_as_it_always_was() {
    insta::assert_snapshot!(document(Status { clients: vec![], initiators: vec![], places: vec![], ..status() }), @r#"
        {
          "schema": 1,
          "version": "0.1.0",
          "node": "00000000-0000-0000-0000-000000000001",
          "pid": 77,
          "generation": 9,
          "verdict": {
            "level": "ok"
          },
          "uptime_seconds": 5,
          "nvme_tcp": [
            "127.0.0.1:4420"
          ],
          "direct": [
            "127.0.0.1:4421"
          ],
          "direct_local": null,
          "iscsi": [
            "127.0.0.1:3260"
          ],
          "devices": [
            {
              "name": "flash",
              "kind": "file",
              "uuid": "00000000-0000-0000-0000-000000000002",
              "bytes": 17179869184,
              "data_bytes": 17178820608,
              "free_bytes": 8588886016,
              "block_size": 512,
              "volatile_cache": true
            }
          ],
          "volumes": [
            {
              "name": "data",
              "nqn": "nqn.2026-11.io.nearflash:data",
              "nsid": 1,
              "uuid": "00000000-0000-0000-0000-000000000021",
              "bytes": 8589934592,
              "block_size": 4096,
              "device": "flash",
              "provisioning": "thin"
            }
          ],
          "cores": [
            {
              "core": 0,
              "connections": 2,
              "in_flight": 0,
              "reads": 10,
              "writes": 20,
              "read_bytes": 40960,
              "written_bytes": 81920,
              "errors": 0,
              "pool_free_bytes": 33554432,
              "clients": 1
            }
          ],
          "hosts": [
            {
              "host": "nqn.2014-08.org.nvmexpress:uuid:1",
              "nqn": "nqn.2026-11.io.nearflash:data",
              "address": "127.0.0.1:50000",
              "io_queues": 1
            }
          ],
          "clients": [],
          "initiators": []
        }
        "#);
}

#[test]
fn requests_are_as_they_always_were() {
    let create = VolumeCreate {
        name: "data".to_owned(),
        bytes: 1 << 30,
        device: Some("flash".to_owned()),
        block_size: Some(512),
        ..VolumeCreate::default()
    };
    insta::assert_snapshot!(request(create), @r#"
        {
          "schema": 1,
          "command": "volume-create",
          "name": "data",
          "bytes": 1073741824,
          "device": "flash",
          "block_size": 512
        }
        "#);
    let resize = VolumeResize { name: "data".to_owned(), bytes: 4096, shrink: true, force: false };
    insta::assert_snapshot!(request(resize), @r#"
        {
          "schema": 1,
          "command": "volume-resize",
          "name": "data",
          "bytes": 4096,
          "shrink": true
        }
        "#);
    let remove = VolumeRemove { name: "data".to_owned(), force: false };
    insta::assert_snapshot!(request(remove), @r#"
        {
          "schema": 1,
          "command": "volume-remove",
          "name": "data",
          "force": false
        }
        "#);
    insta::assert_snapshot!(request(VolumeList {}), @r#"
        {
          "schema": 1,
          "command": "volume-list"
        }
        "#);
    insta::assert_snapshot!(request(StatusShow {}), @r#"
        {
          "schema": 1,
          "command": "status"
        }
        "#);
}

fn credential() -> CredentialInfo {
    let id = "app".to_owned();
    CredentialInfo { id, expires_at: Some(1_900_000_000), expired: false, grants: 2 }
}

fn grant() -> GrantInfo {
    GrantInfo {
        number: 7,
        credential: "app".to_owned(),
        seal: false,
        volume: "data".to_owned(),
        path: None,
        start: 0,
        end: Some(8 << 30),
        rights: "rw".to_owned(),
        expires_at: None,
        expired: false,
    }
}

#[test]
fn answers_about_credentials_and_grants_are_as_they_always_were() {
    let secret = SecretText("a5".repeat(32));
    assert_eq!(format!("{secret:?}"), "SecretText(…)");
    insta::assert_snapshot!(document(NewCredential { unconfirmed: Vec::new(), credential: credential(), secret }), @r#"
        {
          "schema": 1,
          "credential": {
            "id": "app",
            "expires_at": 1900000000,
            "expired": false,
            "grants": 2
          },
          "secret": "a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5"
        }
        "#);
    insta::assert_snapshot!(document(OneCredential { unconfirmed: Vec::new(), credential: credential() }), @r#"
        {
          "schema": 1,
          "credential": {
            "id": "app",
            "expires_at": 1900000000,
            "expired": false,
            "grants": 2
          }
        }
        "#);
    let without_end = CredentialInfo { expires_at: None, ..credential() };
    let credentials = Credentials { credentials: vec![without_end] };
    insta::assert_snapshot!(document(credentials), @r#"
        {
          "schema": 1,
          "credentials": [
            {
              "id": "app",
              "expired": false,
              "grants": 2
            }
          ]
        }
        "#);
    insta::assert_snapshot!(document(OneGrant { unconfirmed: Vec::new(), grant: grant() }), @r#"
        {
          "schema": 1,
          "grant": {
            "number": 7,
            "credential": "app",
            "volume": "data",
            "start": 0,
            "end": 8589934592,
            "rights": "rw",
            "expired": false
          }
        }
        "#);
    let to_the_end = GrantInfo { end: None, expires_at: Some(1), expired: true, ..grant() };
    insta::assert_snapshot!(document(Grants { grants: vec![to_the_end] }), @r#"
        {
          "schema": 1,
          "grants": [
            {
              "number": 7,
              "credential": "app",
              "volume": "data",
              "start": 0,
              "rights": "rw",
              "expires_at": 1,
              "expired": true
            }
          ]
        }
        "#);
}

#[test]
fn requests_about_credentials_and_grants_are_as_they_always_were() {
    let id = || "app".to_owned();
    let create = CredentialCreate { id: id(), expires_at: Some(1_900_000_000) };
    insta::assert_snapshot!(request(create), @r#"
        {
          "schema": 1,
          "command": "credential-create",
          "id": "app",
          "expires_at": 1900000000
        }
        "#);
    insta::assert_snapshot!(request(CredentialList {}), @r#"
        {
          "schema": 1,
          "command": "credential-list"
        }
        "#);
    insta::assert_snapshot!(request(CredentialRemove { id: id() }), @r#"
        {
          "schema": 1,
          "command": "credential-remove",
          "id": "app"
        }
        "#);
    let add = GrantAdd {
        credential: id(),
        volume: "data".to_owned(),
        path: None,
        start: 0,
        end: Some(8 << 30),
        rights: "r".to_owned(),
        expires_at: None,
    };
    insta::assert_snapshot!(request(add), @r#"
        {
          "schema": 1,
          "command": "grant-add",
          "credential": "app",
          "volume": "data",
          "start": 0,
          "end": 8589934592,
          "rights": "r"
        }
        "#);
    insta::assert_snapshot!(request(GrantList { credential: None }), @r#"
        {
          "schema": 1,
          "command": "grant-list"
        }
        "#);
    insta::assert_snapshot!(request(GrantList { credential: Some(id()) }), @r#"
        {
          "schema": 1,
          "command": "grant-list",
          "credential": "app"
        }
        "#);
    insta::assert_snapshot!(request(GrantRevoke { number: 7 }), @r#"
        {
          "schema": 1,
          "command": "grant-revoke",
          "number": 7
        }
        "#);
}

#[test]
fn a_request_for_a_seal_is_as_it_always_was() {
    let (volume, rights) = ("data".to_owned(), "r".to_owned());
    let end = Some(1 << 20);
    let seal = GrantSeal { volume, start: 0, end, rights, expires_at: 1_900_000_000 };
    insta::assert_snapshot!(request(seal), @r#"
        {
          "schema": 1,
          "command": "grant-seal",
          "volume": "data",
          "start": 0,
          "end": 1048576,
          "rights": "r",
          "expires_at": 1900000000
        }
        "#);
}

#[test]
fn clients_and_initiators_of_a_status_are_as_they_always_were() {
    insta::assert_snapshot!(document(status().clients.remove(0)), @r#"
        {
          "schema": 1,
          "from": "process 12 of user 1000",
          "credential": "app",
          "is_in": true,
          "core": 0,
          "in_flight": 3
        }
        "#);
    insta::assert_snapshot!(document(status().initiators.remove(0)), @r#"
        {
          "schema": 1,
          "initiator": "iqn.2004-10.com.ubuntu:a",
          "target": "iqn.2026-11.io.nearflash:data",
          "address": "127.0.0.1:50003",
          "connections": 2,
          "core": 0
        }
        "#);
}

#[test]
fn reservations_are_as_they_always_were() {
    let registrant = RegistrantInfo {
        who: "iqn.2004-10.com.ubuntu:a,i,0x400001370000".to_owned(),
        key: "0x000000000000abcd".to_owned(),
        holds: true,
    };
    let reservation = ReservationInfo {
        volume: "data".to_owned(),
        kind: Some("write-exclusive".to_owned()),
        persists: true,
        registrants: vec![registrant],
    };
    let empty = ReservationInfo { kind: None, registrants: vec![], ..reservation.clone() };
    insta::assert_snapshot!(document(Reservations { reservations: vec![reservation] }), @r#"
        {
          "schema": 1,
          "reservations": [
            {
              "volume": "data",
              "kind": "write-exclusive",
              "persists": true,
              "registrants": [
                {
                  "who": "iqn.2004-10.com.ubuntu:a,i,0x400001370000",
                  "key": "0x000000000000abcd",
                  "holds": true
                }
              ]
            }
          ]
        }
        "#);
    insta::assert_snapshot!(document(OneReservation { reservation: empty }), @r#"
        {
          "schema": 1,
          "reservation": {
            "volume": "data",
            "persists": true,
            "registrants": []
          }
        }
        "#);
}

#[test]
fn chap_users_are_as_they_always_were() {
    let account = |mutual_user: Option<&str>| ChapInfo {
        user: "app".to_owned(),
        mutual_user: mutual_user.map(str::to_owned),
        initiators: vec![],
    };
    let secret = |text: &str| Some(SecretText(text.to_owned()));
    let made = OneAccount {
        unconfirmed: Vec::new(),
        account: account(Some("node")),
        secret: secret("drawn-for-it"),
        mutual_secret: secret("drawn-for-us"),
    };
    assert!(!format!("{made:?}").contains("drawn"));
    insta::assert_snapshot!(document(made), @r#"
        {
          "schema": 1,
          "account": {
            "user": "app",
            "mutual_user": "node"
          },
          "secret": "drawn-for-it",
          "mutual_secret": "drawn-for-us"
        }
        "#);
    let removed = OneAccount {
        unconfirmed: Vec::new(),
        account: account(None),
        secret: None,
        mutual_secret: None,
    };
    insta::assert_snapshot!(document(removed), @r#"
        {
          "schema": 1,
          "account": {
            "user": "app"
          }
        }
        "#);
    insta::assert_snapshot!(document(Accounts { accounts: vec![account(None)] }), @r#"
        {
          "schema": 1,
          "accounts": [
            {
              "user": "app"
            }
          ]
        }
        "#);
    let bound = ChapInfo { initiators: vec!["iqn.2026-11.test:a".to_owned()], ..account(None) };
    insta::assert_snapshot!(Document::new(bound).to_line(), @r#"{"schema":1,"user":"app","initiators":["iqn.2026-11.test:a"]}"#);
    let mutual = Some(ChapMutual { user: "node".to_owned(), secret: None });
    let add = ChapAdd {
        user: "app".to_owned(),
        secret: secret("geheimgeheim"),
        mutual,
        initiators: vec![],
        replace: false,
    };
    assert!(!format!("{add:?}").contains("geheim"));
    let add: Request = add.into();
    insta::assert_snapshot!(Document::new(add).to_line(), @r#"{"schema":1,"command":"chap-add","user":"app","secret":"geheimgeheim","mutual":{"user":"node"}}"#);
}

#[test]
fn tokens_are_as_they_always_were() {
    let token = |expires_at| TokenInfo {
        name: "deploy".to_owned(),
        scope: TokenScope::Operate,
        expires_at,
        expired: false,
    };
    let secret = SecretText("nft_geheim".to_owned());
    let made = NewToken { unconfirmed: Vec::new(), token: token(Some(1_795_269_350)), secret };
    assert!(!format!("{made:?}").contains("geheim"));
    insta::assert_snapshot!(document(made), @r#"
        {
          "schema": 1,
          "token": {
            "name": "deploy",
            "scope": "operate",
            "expires_at": 1795269350,
            "expired": false
          },
          "secret": "nft_geheim"
        }
        "#);
    let all = Document::new(Tokens { tokens: vec![token(None)] }).to_line();
    insta::assert_snapshot!(all, @r#"{"schema":1,"tokens":[{"name":"deploy","scope":"operate","expired":false}]}"#);
    let create = TokenCreate { name: "a".to_owned(), scope: TokenScope::Read, expires_at: None };
    let create: Request = create.into();
    insta::assert_snapshot!(Document::new(create).to_line(), @r#"{"schema":1,"command":"token-create","name":"a","scope":"read"}"#);
    for scope in TokenScope::ALL {
        assert_eq!(serde_json::to_value(scope).unwrap(), scope.as_str());
        assert_eq!(scope.as_str().parse(), Ok(scope));
    }
    assert!("root".parse::<TokenScope>().is_err());
}

#[test]
fn hosts_with_keys_are_as_they_always_were() {
    let host = |is_restricted: bool| KeyedHost {
        dhchap: true,
        nqn: "nqn.2026-11.test:app".to_owned(),
        mutual: is_restricted,
        hash: is_restricted.then(|| "sha384".to_owned()),
        group: is_restricted.then(|| "ffdhe4096".to_owned()),
        ..KeyedHost::default()
    };
    let key = |text: &str| Some(SecretText(text.to_owned()));
    let made = OneKeyedHost {
        unconfirmed: Vec::new(),
        host: host(true),
        key: key("drawn-for-it"),
        controller_key: key("drawn-for-us"),
    };
    assert!(!format!("{made:?}").contains("drawn"));
    insta::assert_snapshot!(document(made), @r#"
        {
          "schema": 1,
          "host": {
            "nqn": "nqn.2026-11.test:app",
            "dhchap": true,
            "mutual": true,
            "hash": "sha384",
            "group": "ffdhe4096"
          },
          "key": "drawn-for-it",
          "controller_key": "drawn-for-us"
        }
        "#);
    let unlisted = "all".to_owned();
    let hosts = vec![host(false)];
    let removed = vec!["nqn.2026-11.test:old".to_owned()];
    insta::assert_snapshot!(document(KeyedHosts { hosts, lists: vec![], removed, unlisted }), @r#"
        {
          "schema": 1,
          "hosts": [
            {
              "nqn": "nqn.2026-11.test:app",
              "dhchap": true,
              "mutual": false
            }
          ],
          "removed": [
            "nqn.2026-11.test:old"
          ],
          "unlisted": "all"
        }
        "#);
    let add = HostAdd {
        nqn: "nqn.2026-11.test:app".to_owned(),
        key: key("DHHC-1:00:geheim:"),
        controller: Some(ControllerKey::default()),
        volumes: None,
        hash: None,
        group: Some("null".to_owned()),
        replace: false,
        psk: key("NVMeTLSkey-1:00:geheim:"),
        psk_derivation: Some("legacy".to_owned()),
        tls: None,
    };
    assert!(!format!("{add:?}").contains("geheim"));
    let add: Request = add.into();
    insta::assert_snapshot!(Document::new(add).to_line(), @r#"{"schema":1,"command":"host-add","nqn":"nqn.2026-11.test:app","key":"DHHC-1:00:geheim:","controller":{},"group":"null","psk":"NVMeTLSkey-1:00:geheim:","psk_derivation":"legacy"}"#);
}

#[test]
fn lists_of_hosts_are_as_they_always_were() {
    let volume = |rights: &str| HostVolume { volume: "data".to_owned(), rights: rights.to_owned() };
    let host = "iqn.2026-11.test:app".to_owned();
    let list = VolumesOfHost { host: host.clone(), volumes: vec![volume("r")] };
    let unlisted = "none".to_owned();
    let lists = KeyedHosts { hosts: vec![], lists: vec![list], removed: vec![], unlisted };
    insta::assert_snapshot!(Document::new(lists).to_line(), @r#"{"schema":1,"hosts":[],"lists":[{"host":"iqn.2026-11.test:app","volumes":[{"volume":"data","rights":"r"}]}],"unlisted":"none"}"#);
    let allow = HostAllow { host: host.clone(), volumes: vec![volume("rw")], only: true };
    let calls: [(Request, &str); 3] = [
        (
            allow.into(),
            r#"{"command":"host-allow","host":"iqn.2026-11.test:app","volumes":[{"volume":"data","rights":"rw"}],"only":true}"#,
        ),
        (
            HostDeny { host: host.clone(), volumes: vec![] }.into(),
            r#"{"command":"host-deny","host":"iqn.2026-11.test:app"}"#,
        ),
        (HostUnlist { host }.into(), r#"{"command":"host-unlist","host":"iqn.2026-11.test:app"}"#),
    ];
    for (call, line) in calls {
        assert_eq!(serde_json::to_string(&call).unwrap(), line);
        assert_eq!(serde_json::from_str::<Request>(line).unwrap(), call);
    }
    // The rights are rw by default.
    let line = r#"{"command":"host-allow","host":"a","volumes":[{"volume":"data"}]}"#;
    let allow = HostAllow { host: "a".to_owned(), volumes: vec![volume("rw")], only: false };
    assert_eq!(serde_json::from_str::<Request>(line).unwrap(), allow.into());
}

#[test]
fn the_earlier_call_for_a_volume_of_a_cluster_is_the_one_for_every_volume() {
    let line = r#"{"schema":1,"command":"cluster-volume-create","name":"data","bytes":4096,"replicas":2,
        "stripe_unit":65536,"width":3,"placement":"local:n1","subsystem":"s","provisioning":"thick"}"#;
    let expected = VolumeCreate {
        name: "data".to_owned(),
        bytes: 4096,
        replicas: Some(2),
        stripe_unit: Some(65536),
        width: Some(3),
        placement: Some("local:n1".to_owned()),
        subsystem: Some("s".to_owned()),
        provisioning: Some("thick".to_owned()),
        ..VolumeCreate::default()
    };
    assert_eq!(parse_request(line.as_bytes()).unwrap().request, expected.into());
}

fn job() -> JobInfo {
    JobInfo {
        id: 3,
        kind: VolumeCreate::NAME.to_owned(),
        volume: "data".to_owned(),
        state: JobState::Running,
        waits_for: Vec::new(),
        done_bytes: 1 << 20,
        total_bytes: 8 << 30,
        started_at: 1_795_269_350,
        ended_at: None,
        error: None,
    }
}

#[test]
fn a_job_names_the_nodes_that_it_waits_for() {
    let waits_for = vec![AwaitedNode { node: "n2".to_owned(), reason: AwaitedReason::Down }];
    let undoing = JobInfo { state: JobState::Undoing, waits_for, ..job() };
    insta::assert_snapshot!(document(OneJob { job: undoing }), @r#"
        {
          "schema": 1,
          "job": {
            "id": 3,
            "kind": "volume-create",
            "volume": "data",
            "state": "undoing",
            "waits_for": [
              {
                "node": "n2",
                "reason": "down"
              }
            ],
            "done_bytes": 1048576,
            "total_bytes": 8589934592,
            "started_at": 1795269350
          }
        }
        "#);
}

#[test]
fn jobs_are_as_they_always_were() {
    insta::assert_snapshot!(document(OneJob { job: job() }), @r#"
        {
          "schema": 1,
          "job": {
            "id": 3,
            "kind": "volume-create",
            "volume": "data",
            "state": "running",
            "done_bytes": 1048576,
            "total_bytes": 8589934592,
            "started_at": 1795269350
          }
        }
        "#);
    let error = ApiError::new(ErrorCode::DeviceFailed, "device 'flash': cannot zero blocks");
    let ended_at = Some(1_795_269_400);
    let failed = JobInfo { state: JobState::Failed, ended_at, error: Some(error), ..job() };
    insta::assert_snapshot!(document(Jobs { jobs: vec![failed] }), @r#"
        {
          "schema": 1,
          "jobs": [
            {
              "id": 3,
              "kind": "volume-create",
              "volume": "data",
              "state": "failed",
              "done_bytes": 1048576,
              "total_bytes": 8589934592,
              "started_at": 1795269350,
              "ended_at": 1795269400,
              "error": {
                "code": "device-failed",
                "message": "device 'flash': cannot zero blocks",
                "remedy": "check the device; see 'dmesg'"
              }
            }
          ]
        }
        "#);
    let preparing = VolumeInfo { job: Some(3), ..volume() };
    let made = OneVolume { volume: preparing, job: Some(job()), note: None };
    assert!(document(made).contains("\"state\": \"running\""));
    insta::assert_snapshot!(request(JobWait { id: 3, seconds: 1 }), @r#"
        {
          "schema": 1,
          "command": "job-wait",
          "id": 3,
          "seconds": 1
        }
        "#);
    for state in JobState::ALL {
        assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
    }
}

#[test]
fn a_status_says_more_only_when_there_is_more_to_say() {
    let latency = Latency { count: 1, p50_ns: 1, ..Latency::default() };
    let io = Io { reads: 1, read_bytes: 4096, read_latency: Some(latency), ..Io::default() };
    let hosts = vec![HostIo { host: None, several: true, io }];
    let io = VolumeIo { volume: "data".to_owned(), io, hosts };
    assert_eq!(serde_json::from_str::<VolumeIo>(&serde_json::to_string(&io).unwrap()).unwrap(), io);
    let mut more = Status {
        commit: Some("0123456789ab".to_owned()),
        silent_cores: vec![1],
        volume_io: vec![io],
        jobs: vec![job()],
        ..status()
    };
    more.devices[0].suspect = true;
    let (plain, more) = (document(status()), document(more));
    for field in ["commit", "silent_cores", "volume_io", "several", "jobs", "suspect"] {
        let field = format!("\"{field}\"");
        assert!(more.contains(&field) && !plain.contains(&field), "{field}");
    }
}

#[test]
fn an_address_that_is_open_to_everyone_is_a_warning_with_the_remedy() {
    let open = |protocol: &str| OpenAddress {
        protocol: protocol.to_owned(),
        address: "192.0.2.1:4421".parse().unwrap(),
    };
    let open_to_everyone = ["direct", "iscsi", "nvme-tcp"].map(open).into();
    let verdict = Verdict::of(&Status { open_to_everyone, ..status() });
    assert_eq!(verdict.level, Level::Warning);
    insta::assert_snapshot!(verdict.reasons.join("\n"), @r#"
        everybody who reaches 192.0.2.1:4421 (direct) may read and write the volumes: create a credential with 'nearflash credential create'
        everybody who reaches 192.0.2.1:4421 (iscsi) may read and write the volumes: add a CHAP account with 'nearflash chap add', or name the initiators with --host
        everybody who reaches 192.0.2.1:4421 (nvme-tcp) may read and write the volumes: name the hosts with --host NQN, or require keys with ,auth=required
        "#);
}

#[test]
fn a_protocol_that_nobody_can_use_is_a_warning_and_files_that_are_not_served_are_a_problem() {
    let closed = ["direct", "iscsi"].map(str::to_owned).into();
    let verdict = Verdict::of(&Status { closed, ..status() });
    assert_eq!(verdict.level, Level::Warning);
    insta::assert_snapshot!(verdict.reasons.join("\n"), @r#"
        nobody can use direct, because its last key was removed: add a credential with 'nearflash credential create', or start the node with --anonymous direct
        nobody can use iscsi, because its last key was removed: add a CHAP account with 'nearflash chap add', or start the node with --anonymous iscsi
        "#);
    let files_faults = vec!["metadata of volume 'f' is damaged: restore it".to_owned()];
    let verdict = Verdict::of(&Status { files_faults, ..status() });
    assert_eq!(verdict.level, Level::Problem);
    let said = "files are not served: metadata of volume 'f' is damaged: restore it";
    assert_eq!(verdict.reasons, [said]);
}

#[test]
fn a_verdict_is_the_worst_finding_with_every_reason() {
    assert_eq!(Verdict::of(&status()), Verdict::default());
    let view = |verdict: &str| ClusterView {
        uuid: Uuid::from_u128(9),
        node: "a".to_owned(),
        verdict: verdict.to_owned(),
        reason: "etcd on c is down".to_owned(),
        nodes: vec![],
        copies: vec![],
        withdrawals: vec![],
        hung_cores: vec![],
    };
    let degraded = Status { cluster: Some(view("degraded")), ..status() };
    let found = Verdict::of(&degraded);
    assert_eq!((found.level, found.reasons.len()), (Level::Warning, 1));
    let mut broken = Status { silent_cores: vec![3], ..degraded };
    broken.devices[0].suspect = true;
    let found = Verdict::of(&broken);
    assert_eq!(found.level, Level::Problem);
    let said = found.reasons.join("; ");
    for part in ["core 3 does not answer", "device clear flash", "degraded: etcd on c is down"] {
        assert!(said.contains(part), "{said} lacks {part}");
    }
    assert_eq!(Verdict::of(&Status { cluster: Some(view("ok")), ..status() }), Verdict::default());
    let backing =
        |state| Some(BackingInfo { state, free_bytes: 3 << 19, unallocated_bytes: 40 << 20 });
    let with = |truncated, state| {
        let mut status = status();
        let device = &mut status.devices[0];
        (device.truncated, device.backing) = (truncated, backing(state));
        let health = device.health();
        (health, Verdict::of(&status))
    };
    assert_eq!(with(false, BackingState::Enough), ("good", Verdict::default()));
    let (health, found) = with(false, BackingState::Overcommitted);
    assert_eq!((health, found.level), ("overcommitted", Level::Warning));
    let said = "has 1MiB free, less than its files may still need (40MiB for this one)";
    assert!(found.reasons[0].contains(said), "{found:?}");
    let (health, found) = with(false, BackingState::Full);
    assert_eq!((health, found.level), ("full", Level::Problem));
    assert!(found.reasons[0].contains("its file system is full (1MiB free"), "{found:?}");
    let freed = BackingInfo { free_bytes: 41 << 20, ..backing(BackingState::Full).unwrap() };
    let (_, said) = freed.fault("flash").unwrap();
    assert!(said.contains("although its file system has 41MiB free now"), "{said}");
    let (health, found) = with(true, BackingState::Full);
    assert_eq!((health, found.level, found.reasons.len()), ("truncated", Level::Problem, 2));
    let (volumes, devices) = (vec!["data".to_owned()], vec!["flash".to_owned()]);
    let withdrawals = vec![WithdrawalInfo { volumes, devices, seconds: 12 }];
    let waits = ClusterView { withdrawals, ..view("ok") };
    let found = Verdict::of(&Status { cluster: Some(waits), ..status() });
    assert_eq!(found.level, Level::Warning);
    let part = "'data' was removed or moved 12 s ago, and requests on it have not ended";
    assert!(found.reasons[0].contains(part), "{found:?}");
    let hung_cores = vec![HungCoreInfo { core: 3, seconds: 7 }];
    let hangs = ClusterView { hung_cores, ..view("ok") };
    let found = Verdict::of(&Status { cluster: Some(hangs), ..status() });
    assert!(found.reasons[0].contains("core 3 has not turned for 7 s"), "{found:?}");
    assert_eq!(serde_json::to_value(Level::Problem).unwrap(), Level::Problem.as_str());
}

#[test]
fn replies_are_as_they_always_were() {
    let subject = Some(Subject::new("volume", "x"));
    let error = ApiError::new(ErrorCode::VolumeNotFound, "no volume 'x'");
    let refused: Reply<OneVolume> = Reply::Error(ApiError { subject, ..error });
    insta::assert_snapshot!(document(refused), @r#"
        {
          "schema": 1,
          "error": {
            "code": "volume-not-found",
            "message": "no volume 'x'",
            "subject": {
              "kind": "volume",
              "name": "x"
            },
            "remedy": "list the volumes"
          }
        }
        "#);
    let answer = Reply::Answer(Accounts { accounts: vec![] });
    insta::assert_snapshot!(Document::new(answer).to_line(), @r#"{"schema":1,"answer":{"accounts":[]}}"#);
}

#[test]
fn each_code_has_its_own_row_and_one_of_a_later_version_is_unknown() {
    let texts: std::collections::BTreeSet<_> =
        ErrorCode::TABLE.iter().map(|(_, text, _)| *text).collect();
    assert_eq!(texts.len(), ErrorCode::TABLE.len());
    for (code, text, remedy) in ErrorCode::TABLE {
        assert_eq!((code.as_str(), code.remedy()), (text, remedy));
        assert_eq!(serde_json::from_value::<ErrorCode>(text.into()).unwrap(), code);
    }
    let later = serde_json::from_str::<ErrorCode>("\"of-a-later-version\"").unwrap();
    assert_eq!(later, ErrorCode::Unknown);
}

#[test]
fn the_message_of_an_error_is_one_line_whatever_name_it_quotes() {
    let message = format!("'{}' is not a valid name", "a\nb\u{1b}[2J");
    let error = ApiError::new(ErrorCode::InvalidValue, message);
    assert_eq!(error.message, "'a\\nb\\u{1b}[2J' is not a valid name");
}

#[test]
fn every_code_and_every_call_is_documented() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/control-socket.md");
    let document = std::fs::read_to_string(path).unwrap();
    for (_, code, remedy) in ErrorCode::TABLE {
        let row = format!("| `{code}` | {remedy} |");
        assert!(document.contains(&row), "docs/control-socket.md lacks {row}");
    }
    for call in Request::NAMES {
        assert!(document.contains(&format!("`{call}`")), "docs/control-socket.md lacks {call}");
    }
}

#[test]
fn a_build_is_named_by_its_version_and_commit() {
    match COMMIT {
        Some(commit) => assert_eq!(BUILD, format!("{VERSION} ({commit})")),
        None => assert_eq!(BUILD, VERSION),
    }
}
