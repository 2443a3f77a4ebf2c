//! The layout of the tables.

use nearflash_api::{
    AwaitedNode, AwaitedReason, ClientInfo, CoreInfo, DeviceInfo, ErrorCode, HostInfo, HostIo,
    InitiatorInfo, Io, JobState, Latency, Level, PlaceInfo, RegistrantInfo, Status, Verdict,
    VolumeIo,
};
use uuid::Uuid;

use super::*;
use crate::tables::status::uptime;

fn volume(name: &str, bytes: u64) -> VolumeInfo {
    VolumeInfo {
        name: name.to_owned(),
        nqn: format!("nqn.2026-11.io.nearflash:{name}"),
        nsid: 1,
        uuid: Uuid::nil(),
        bytes,
        block_size: 4096,
        device: "flash".to_owned(),
        provisioning: "thin".to_owned(),
        job: None,
        state: None,
        files: None,
    }
}

fn client(from: &str, credential: Option<&str>, is_in: bool) -> ClientInfo {
    let credential = credential.map(str::to_owned);
    ClientInfo { from: from.to_owned(), credential, is_in, core: 0, in_flight: 3 }
}

fn initiator(target: Option<&str>, user: Option<&str>) -> InitiatorInfo {
    InitiatorInfo {
        initiator: "iqn.2004-10.com.ubuntu:a".to_owned(),
        target: target.map(str::to_owned),
        user: user.map(str::to_owned),
        address: "127.0.0.1:50003".parse().unwrap(),
        connections: 2,
        core: 1,
    }
}

#[test]
fn volumes_are_shown_in_columns() {
    insta::assert_snapshot!(volumes(&[volume("data", 8 << 30), volume("a-longer-name", 4096)]), @r#"
        VOLUME         SIZE  BLOCK  DEVICE  PROVISIONED  NSID  SUBSYSTEM NQN
        data           8GiB   4096  flash   thin            1  nqn.2026-11.io.nearflash:data
        a-longer-name  4KiB   4096  flash   thin            1  nqn.2026-11.io.nearflash:a-longer-name
        "#);
    assert!(volumes(&[]).starts_with("no volumes: create one with"));
}

#[test]
fn the_state_of_the_files_of_a_volume_names_the_volume_once() {
    let reason = "volume 'b' is not formatted for files: 'nearflash files format' does that";
    let states = [("a", "served to 2 clients"), ("b", reason)];
    let volumes = volumes(&states.map(|(name, state)| VolumeInfo {
        files: Some(state.to_owned()),
        ..volume(name, 8 << 30)
    }));
    let lines: Vec<&str> = volumes.lines().skip(3).collect();
    assert_eq!(lines, ["files of volume 'a': served to 2 clients", reason]);
}

#[test]
fn members_are_shown_with_their_state() {
    let member = |name: &str, is_reachable: bool| MemberStatus {
        name: format!("{name}@192.0.2.1:2379"),
        node: (name != "c").then(|| format!("node-{name}")),
        address: Some("192.0.2.1:2379".parse().unwrap()),
        is_voter: true,
        is_reachable,
        is_leader: is_reachable,
        has_leader: is_reachable,
        version: is_reachable.then(|| "3.4.23".to_owned()),
        db_bytes: is_reachable.then_some(20 << 10),
        errors: vec![],
        silence: None,
    };
    let learner = MemberStatus { is_voter: false, is_leader: false, ..member("c", true) };
    insta::assert_snapshot!(members(&[member("a", true), member("b", false), learner]), @r#"
        ETCD OF  ADDRESS         ROLE     STATE            VERSION  STORED
        node-a   192.0.2.1:2379  voter    leads            3.4.23    20KiB
        node-b   192.0.2.1:2379  voter    does not answer
        c        192.0.2.1:2379  learner  answers          3.4.23    20KiB
        "#);
    assert_eq!(nodes(&[]), "");
    let node = |name: &str, is_running| NodeStatus {
        name: name.to_owned(),
        uuid: Uuid::nil(),
        is_running,
        version: "0.1.0".to_owned(),
        data_bytes: 12 << 30,
        free_bytes: 5 << 30,
        replicas: 3,
        primaries: u64::from(is_running),
    };
    insta::assert_snapshot!(nodes(&[node("n1", true), node("n2", false)]), @r#"
        NODE  STATE    SPACE  FREE  REPLICAS  PRIMARIES  VERSION
        n1    runs     12GiB  5GiB         3          1  0.1.0
        n2    is down  12GiB  5GiB         3          0  0.1.0
        "#);
}

fn core() -> CoreInfo {
    CoreInfo {
        core: 0,
        connections: 2,
        in_flight: 3,
        reads: 1_000_000,
        writes: 20,
        read_bytes: 4_096_000_000,
        written_bytes: 81_920,
        errors: 0,
        pool_free_bytes: 32 << 20,
        clients: 5,
    }
}

fn whole_status() -> Status {
    Status {
        version: "0.1.0".to_owned(),
        commit: None,
        node: Uuid::from_u128(1),
        pid: 77,
        generation: 1,
        verdict: Verdict {
            level: Level::Warning,
            reasons: vec!["device 'flash' is nearly worn out: replace it".to_owned()],
        },
        uptime_seconds: 3_700,
        cluster: None,
        nvme_tcp: vec!["127.0.0.1:4420".parse().unwrap(), "[::1]:4420".parse().unwrap()],
        direct: vec!["127.0.0.1:4421".parse().unwrap()],
        nvme_tcp_tls: vec!["[::1]:4420".parse().unwrap()],
        direct_tls: vec![],
        direct_local: Some("/run/nearflash/direct.sock".into()),
        iscsi: vec!["127.0.0.1:3260".parse().unwrap()],
        http: Some("192.0.2.1:8443".parse().unwrap()),
        http_local: Some("/run/nearflash/http.sock".into()),
        iscsi_clashes: vec![],
        open_to_everyone: vec![],
        closed: vec![],
        files_faults: vec![],
        devices: vec![DeviceInfo {
            name: "flash".to_owned(),
            kind: "file".to_owned(),
            source: Some("file:/srv/flash.img,size=16GiB".to_owned()),
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
        }],
        volumes: vec![volume("data", 8 << 30)],
        cores: vec![core()],
        hosts: vec![HostInfo {
            host: "nqn.2014-08.org.nvmexpress:uuid:1".to_owned(),
            nqn: "nqn.2026-11.io.nearflash:data".to_owned(),
            address: "127.0.0.1:50000".parse().unwrap(),
            io_queues: 1,
        }],
        clients: vec![
            client("127.0.0.1:50001", Some("app"), true),
            client("process 12 of user 1000", None, true),
            client("192.0.2.7:50002", None, false),
        ],
        initiators: vec![
            initiator(Some("iqn.2026-11.io.nearflash:data"), Some("app")),
            initiator(None, None),
        ],
        silent_cores: vec![],
        places: vec![],
        volume_io: vec![],
        refused_logins: None,
        jobs: vec![],
    }
}

#[test]
fn a_status_shows_devices_volumes_cores_hosts_and_clients() {
    let status = whole_status();
    insta::assert_snapshot!(super::status(&status), @r#"
        node 00000000-0000-0000-0000-000000000001, version 0.1.0, process 77, serving for 1h 1m
        health: warning
          device 'flash' is nearly worn out: replace it
        NVMe/TCP on 127.0.0.1:4420, [::1]:4420 (TLS required)
        direct on 127.0.0.1:4421, /run/nearflash/direct.sock
        iSCSI on 127.0.0.1:3260
        HTTP on 192.0.2.1:8443 (TLS required), /run/nearflash/http.sock

        DEVICE  KIND   SIZE     FREE  BLOCK  CACHE
        flash   file  16GiB  8191MiB    512  volatile

        VOLUME  SIZE  BLOCK  DEVICE  PROVISIONED  NSID  SUBSYSTEM NQN
        data    8GiB   4096  flash   thin            1  nqn.2026-11.io.nearflash:data

        CORE  CONNECTIONS  IN FLIGHT    READS  WRITES    READ  WRITTEN  ERRORS
           0            2          3  1000000      20  3.8GiB    80KiB       0

        HOST NQN                           FROM             I/O QUEUES  SUBSYSTEM NQN
        nqn.2014-08.org.nvmexpress:uuid:1  127.0.0.1:50000           1  nqn.2026-11.io.nearflash:data

        CLIENT                   CREDENTIAL  CORE  IN FLIGHT
        127.0.0.1:50001          app            0          3
        process 12 of user 1000  anonymous      0          3
        1 connection is logging in
        and 2 more

        INITIATOR                 FROM             CHAP ACCOUNT  CORE  CONNECTIONS  TARGET
        iqn.2004-10.com.ubuntu:a  127.0.0.1:50003  app              1            2  iqn.2026-11.io.nearflash:data
        iqn.2004-10.com.ubuntu:a  127.0.0.1:50003  -                1            2  discovery
        "#);
}

#[test]
fn reservations_are_shown_by_registrant() {
    let registrant = |who: &str, holds| RegistrantInfo {
        who: who.to_owned(),
        key: "0x000000000000abcd".to_owned(),
        holds,
    };
    let shown = reservations(&[
        ReservationInfo {
            volume: "data".to_owned(),
            kind: Some("write-exclusive".to_owned()),
            persists: true,
            registrants: vec![
                registrant("iqn.2026-11.test:a,i,0x400001370000", true),
                registrant("b", false),
            ],
        },
        ReservationInfo {
            volume: "logs".to_owned(),
            kind: Some("exclusive-by-session".to_owned()),
            persists: false,
            registrants: vec![],
        },
    ]);
    insta::assert_snapshot!(shown, @r#"
        VOLUME  RESERVATION           LASTS      KEY                 HOLDS  REGISTRANT
        data    write-exclusive       permanent  0x000000000000abcd  yes    iqn.2026-11.test:a,i,0x400001370000
        data    write-exclusive       permanent  0x000000000000abcd  no     b
        logs    exclusive-by-session  this run   -                   no     -
        "#);
    assert_eq!(reservations(&[]), "no registrations and no reservations\n");
}

#[test]
fn credentials_and_grants_are_shown_in_columns() {
    let credential = |id: &str, expires_at, expired, grants| CredentialInfo {
        id: id.to_owned(),
        expires_at,
        expired,
        grants,
    };
    let shown = credentials(&[
        credential("app", None, false, 2),
        credential("guest", Some(1_795_269_350), false, 1),
        credential("old", Some(1), true, 0),
    ]);
    insta::assert_snapshot!(shown, @r#"
        CREDENTIAL  GRANTS  EXPIRES
        app              2  never
        guest            1  2026-11-21 13:55Z
        old              0  expired
        "#);
    let grant = |number, end, rights: &str| GrantInfo {
        number,
        credential: "app".to_owned(),
        seal: false,
        volume: "data".to_owned(),
        path: (number == 13).then(|| "/models".to_owned()),
        start: 0,
        end,
        rights: rights.to_owned(),
        expires_at: Some(1_795_269_350),
        expired: number == 12,
    };
    let shown =
        grants(&[grant(7, Some(8 << 30), "r"), grant(12, None, "rw"), grant(13, None, "r")]);
    insta::assert_snapshot!(shown, @r#"
        GRANT  CREDENTIAL  VOLUME  RANGE    RIGHTS  EXPIRES
            7  app         data    0..8GiB  r       2026-11-21 13:55Z
           12  app         data    0..      rw      expired
           13  app         data    /models  r       2026-11-21 13:55Z
        "#);
    assert!(credentials(&[]).starts_with("no credentials: create one with"));
    assert!(grants(&[]).starts_with("no grants: add one with"));
}

#[test]
fn sizes_are_exact_or_rounded_down() {
    for (bytes, text) in [
        (0, "0B"),
        (512, "512B"),
        (8 << 30, "8GiB"),
        (1536, "1536B"),
        (17_178_820_608, "15.9GiB"),
        (81_920, "80KiB"),
        (u64::MAX, "16777215.9TiB"),
    ] {
        assert_eq!(size(bytes), text);
    }
}

#[test]
fn uptimes_have_two_units() {
    for (seconds, text) in [(5, "5s"), (65, "1m 5s"), (3_700, "1h 1m"), (90_000, "1d 1h")] {
        assert_eq!(uptime(seconds), text);
    }
}

fn job(id: u64, state: JobState) -> JobInfo {
    JobInfo {
        id,
        kind: "volume-create".to_owned(),
        volume: "data".to_owned(),
        state,
        waits_for: Vec::new(),
        done_bytes: 3 << 30,
        total_bytes: 8 << 30,
        started_at: 1_795_269_350,
        ended_at: None,
        error: None,
    }
}

#[test]
fn jobs_are_shown_with_their_progress_and_why_they_failed() {
    let error = nearflash_api::ApiError::new(ErrorCode::DeviceFailed, "device 'flash' failed");
    let failed = JobInfo { error: Some(error), ..job(2, JobState::Failed) };
    let waits_for = [("n1", AwaitedReason::Zeroing), ("n2", AwaitedReason::Down)]
        .map(|(node, reason)| AwaitedNode { node: node.to_owned(), reason })
        .to_vec();
    let waiting = JobInfo { waits_for, ..job(1, JobState::Running) };
    insta::assert_snapshot!(jobs(&[waiting.clone(), failed, job(3, JobState::Undoing)]), @r#"
        JOB  KIND           VOLUME  STATE    DONE    OF  STARTED
          1  volume-create  data    running  3GiB  8GiB  2026-11-21 13:55Z
          2  volume-create  data    failed   3GiB  8GiB  2026-11-21 13:55Z
          3  volume-create  data    undoing  3GiB  8GiB  2026-11-21 13:55Z
        job 1 waits for 'n1' (zeroing), 'n2' (down)
        job 2: device 'flash' failed
        "#);
    assert_eq!(
        crate::output::job(&waiting),
        "job 1, volume-create of 'data': running, 3GiB of 8GiB, waits for 'n1' (zeroing), 'n2' \
         (down)\n"
    );
    let resizing = crate::output::resizing(&volume("data", 1 << 30), ByteLen(8 << 30), &waiting);
    assert!(resizing.starts_with("volume 'data' has 1GiB, and gets 8GiB by job 1: "), "{resizing}");
    let made =
        VolumeInfo { job: Some(1), state: Some(VolumeState::Making), ..volume("data", 1 << 30) };
    assert!(volumes(&[made]).ends_with("job 1 creates volume 'data'\n"));
    assert_eq!(jobs(&[]), "no jobs\n");
}

#[test]
fn a_status_names_what_does_not_answer_and_what_is_suspect() {
    let latency = Latency { p50_ns: 80_000, p99_ns: 1_000_000, ..Latency::default() };
    let io = Io { reads: 10, read_bytes: 40_960, read_latency: Some(latency), ..Io::default() };
    let host = |host: Option<&str>, several| HostIo { host: host.map(str::to_owned), several, io };
    let mut status = whole_status();
    status.commit = Some("0123456789ab".to_owned());
    status.silent_cores = vec![1];
    status.devices[0].suspect = true;
    status.jobs = vec![job(1, JobState::Running)];
    let place = |kind: &str, used| PlaceInfo {
        kind: kind.to_owned(),
        used,
        places: 1024,
        holder: Some("nqn.host".to_owned()),
        held: 256,
    };
    status.places = vec![place("nvme-controllers", 1000), place("iscsi-sessions", 300)];
    let hosts = vec![host(Some("nqn.host"), false), host(None, false), host(None, true)];
    let unused = VolumeIo { volume: "unused".to_owned(), ..VolumeIo::default() };
    status.volume_io = vec![VolumeIo { volume: "data".to_owned(), io, hosts }, unused];
    let shown = super::status(&status);
    for line in [
        "version 0.1.0 (0123456789ab), process",
        "\ncore 1 does not answer: its counters,",
        "\ndevice 'flash' failed a flush or a durable write:",
        "\n  1  volume-create  data    running",
        "80µs",
        "nqn.host\n",
        "anonymous\n",
        "several others\n",
        "\n1000 of 1024 places of nvme-controllers are taken; nqn.host has 256\n",
    ] {
        assert!(shown.contains(line), "{line} in {shown}");
    }
    assert!(!shown.contains("unused") && !shown.contains("iscsi-sessions"), "{shown}");
}

#[test]
fn devices_are_listed_with_their_sources_and_their_health() {
    let of = |name: &str, source: Option<&str>, suspect| DeviceInfo {
        name: name.to_owned(),
        source: source.map(str::to_owned),
        suspect,
        ..whole_status().devices.remove(0)
    };
    let far = DeviceInfo { kind: "remote".to_owned(), ..of("far", None, false) };
    let file = "file:/srv/flash.img,size=16GiB";
    let devices = [of("flash", Some(file), false), far, of("disk", Some("block:/dev/sdb"), true)];
    insta::assert_snapshot!(device_list(&devices), @r#"
        DEVICE   SIZE     FREE  BLOCK  CACHE     HEALTH   SOURCE
        flash   16GiB  8191MiB    512  volatile  good     file:/srv/flash.img,size=16GiB
        far     16GiB  8191MiB    512  volatile  good     remote
        disk    16GiB  8191MiB    512  volatile  suspect  block:/dev/sdb
        device 'disk' failed a flush or a durable write: both fail until 'nearflash device clear disk'
        "#);
    let none = device_list(&[]);
    assert!(none.starts_with("no devices: add one with"), "{none}");
}
