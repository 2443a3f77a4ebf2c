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
    }
}

fn status() -> Status {
    Status {
        version: "0.1.0".to_owned(),
        node: Uuid::from_u128(1),
        pid: 77,
        uptime_seconds: 5,
        nvme_tcp: vec!["127.0.0.1:4420".parse().unwrap()],
        devices: vec![DeviceInfo {
            name: "flash".to_owned(),
            kind: "file".to_owned(),
            uuid: Uuid::from_u128(2),
            bytes: 16 << 30,
            data_bytes: (16 << 30) - (1 << 20),
            free_bytes: (8 << 30) - (1 << 20),
            block_size: 512,
            volatile_cache: true,
        }],
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
        }],
        hosts: vec![HostInfo {
            host: "nqn.2014-08.org.nvmexpress:uuid:1".to_owned(),
            nqn: "nqn.2026-11.io.nearflash:data".to_owned(),
            address: "127.0.0.1:50000".parse().unwrap(),
            io_queues: 1,
        }],
    }
}

/// The document, spread out for the reader; and that its line reads back as itself.
fn document<T: Serialize + for<'a> Deserialize<'a> + PartialEq + std::fmt::Debug>(
    body: T,
) -> String {
    let document = Document::new(body);
    let line = document.to_line();
    assert!(!line.contains('\n'));
    assert_eq!(serde_json::from_str::<Document<T>>(&line).unwrap(), document);
    serde_json::to_string_pretty(&document).unwrap()
}

#[test]
fn the_ready_line_is_as_it_always_was() {
    let ready = Ready {
        event: "ready".to_owned(),
        nvme_tcp: vec!["127.0.0.1:4420".parse().unwrap(), "[::1]:4421".parse().unwrap()],
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
          "control": "/var/lib/nearflash/control.sock",
          "volumes": [
            {
              "name": "data",
              "nqn": "nqn.2026-11.io.nearflash:data",
              "nsid": 1,
              "uuid": "00000000-0000-0000-0000-000000000021",
              "bytes": 8589934592,
              "block_size": 4096,
              "device": "flash"
            }
          ],
          "pid": 77
        }
        "#);
}

#[test]
fn answers_are_as_they_always_were() {
    insta::assert_snapshot!(document(Answer::Error { error: "no volume 'x'".to_owned() }), @r#"
        {
          "schema": 1,
          "error": "no volume 'x'"
        }
        "#);
    insta::assert_snapshot!(document(Answer::Volume { volume: volume() }), @r#"
        {
          "schema": 1,
          "volume": {
            "name": "data",
            "nqn": "nqn.2026-11.io.nearflash:data",
            "nsid": 1,
            "uuid": "00000000-0000-0000-0000-000000000021",
            "bytes": 8589934592,
            "block_size": 4096,
            "device": "flash"
          }
        }
        "#);
    insta::assert_snapshot!(document(Answer::Volumes { volumes: vec![volume()] }), @r#"
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
              "device": "flash"
            }
          ]
        }
        "#);
}

#[test]
fn a_status_is_as_it_always_was() {
    insta::assert_snapshot!(document(Answer::Status(Box::new(status()))), @r#"
        {
          "schema": 1,
          "version": "0.1.0",
          "node": "00000000-0000-0000-0000-000000000001",
          "pid": 77,
          "uptime_seconds": 5,
          "nvme_tcp": [
            "127.0.0.1:4420"
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
              "device": "flash"
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
              "pool_free_bytes": 33554432
            }
          ],
          "hosts": [
            {
              "host": "nqn.2014-08.org.nvmexpress:uuid:1",
              "nqn": "nqn.2026-11.io.nearflash:data",
              "address": "127.0.0.1:50000",
              "io_queues": 1
            }
          ]
        }
        "#);
}

#[test]
fn requests_are_as_they_always_were() {
    let create = Command::VolumeCreate {
        name: "data".to_owned(),
        bytes: 1 << 30,
        device: "flash".to_owned(),
        block_size: Some(512),
        subsystem: None,
    };
    insta::assert_snapshot!(document(create), @r#"
        {
          "schema": 1,
          "command": "volume-create",
          "name": "data",
          "bytes": 1073741824,
          "device": "flash",
          "block_size": 512
        }
        "#);
    let resize = Command::VolumeResize { name: "data".to_owned(), bytes: 4096, shrink: true };
    insta::assert_snapshot!(document(resize), @r#"
        {
          "schema": 1,
          "command": "volume-resize",
          "name": "data",
          "bytes": 4096,
          "shrink": true
        }
        "#);
    let remove = Command::VolumeRemove { name: "data".to_owned(), force: false };
    insta::assert_snapshot!(document(remove), @r#"
        {
          "schema": 1,
          "command": "volume-remove",
          "name": "data",
          "force": false
        }
        "#);
    insta::assert_snapshot!(document(Command::VolumeList), @r#"
        {
          "schema": 1,
          "command": "volume-list"
        }
        "#);
    insta::assert_snapshot!(document(Command::Status), @r#"
        {
          "schema": 1,
          "command": "status"
        }
        "#);
}
