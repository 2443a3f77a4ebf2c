//! Tests of the folder's parts that need no etcd.
#![allow(clippy::unwrap_used)] // a failed test says where

use nearflash_records::token::{Certificates, Keyed, Token};
use uuid::Uuid;

use super::member::{Folder, Member, Origin, Role};
use super::*;

fn token() -> Token {
    let join = Keyed { certificate: "join certificate".to_owned(), key: "join key".to_owned() };
    let endpoints = vec!["192.0.2.1:2379".parse().unwrap()];
    Token::new(Uuid::from_u128(7), "lab", endpoints, "authority".to_owned(), (join, [9; 32]))
}

#[test]
fn a_real_token_is_short() {
    let cluster = Uuid::from_u128(7);
    let (authority, join) = pki::authorities(cluster).unwrap();
    let endpoints = vec!["[2001:db8::1]:2379".parse().unwrap(); 3];
    let token = Token::new(cluster, "lab", endpoints, authority.certificate, (join, [255; 32]));
    assert!(token.encode().len() < 4096, "{}", token.encode().len());
}

#[test]
fn a_token_of_an_external_etcd_carries_the_way_to_it() {
    let url: EtcdUrl = "etcd://etcd.example?ca=/c&prefix=/lab".parse().unwrap();
    let way = (&url.endpoints[..], url.external());
    let own = Keyed { certificate: String::new(), key: String::new() };
    let files = Certificates { authority: "authority".to_owned(), own };
    let token = Token::of_external((Uuid::from_u128(7), "lab"), way, files, [9; 32]);
    assert_eq!(Token::decode(token.encode().as_bytes()), Ok(token.clone()));
    assert_eq!(token.external, Some(url.external()));
    assert!(!serde_json::to_string(&self::token()).unwrap().contains("external"));
}

fn member() -> (Folder, Member) {
    let listen = "192.0.2.1".parse().unwrap();
    let mut member = Member::new((Uuid::from_u128(7), "lab"), (Role::Member, Origin::Init), listen);
    member.machine = "n1@192.0.2.1:2379".to_owned();
    member.initial_cluster = "n1@192.0.2.1:2379=https://192.0.2.1:2380".to_owned();
    (Folder::of("/data".as_ref()), member)
}

#[test]
fn etcd_gets_the_addresses_the_certificates_and_the_bounds() {
    let (folder, member) = member();
    let arguments = etcd::arguments(&folder, &member);
    let lines: Vec<_> = arguments.iter().map(|it| it.to_str().unwrap()).collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
            --name=n1@192.0.2.1:2379
            --data-dir=/data/etcd/data
            --listen-client-urls=https://192.0.2.1:2379
            --advertise-client-urls=https://192.0.2.1:2379
            --listen-peer-urls=https://192.0.2.1:2380
            --initial-advertise-peer-urls=https://192.0.2.1:2380
            --initial-cluster=n1@192.0.2.1:2379=https://192.0.2.1:2380
            --initial-cluster-state=new
            --initial-cluster-token=00000000-0000-0000-0000-000000000007
            --cert-file=/data/etcd/machine.pem
            --key-file=/data/etcd/machine.key
            --trusted-ca-file=/data/etcd/ca.pem
            --peer-cert-file=/data/etcd/machine.pem
            --peer-key-file=/data/etcd/machine.key
            --peer-trusted-ca-file=/data/etcd/ca.pem
            --heartbeat-interval=50
            --election-timeout=500
            --auto-compaction-mode=periodic
            --auto-compaction-retention=10m
            --quota-backend-bytes=2147483648
            --max-txn-ops=512
            --logger=zap
            --log-level=warn
            --log-outputs=stderr
            --enable-grpc-gateway=false
            --strict-reconfig-check=true
            --client-cert-auth
            --peer-client-cert-auth
            --experimental-peer-skip-client-san-verification
            --pre-vote
            --experimental-initial-corrupt-check
            "#);
}

#[test]
fn an_address_has_a_port_for_clients_and_the_next_one_for_members() {
    for (text, client, peer) in [
        ("192.0.2.1", "192.0.2.1:2379", "192.0.2.1:2380"),
        ("192.0.2.1:3000", "192.0.2.1:3000", "192.0.2.1:3001"),
        ("2001:db8::1", "[2001:db8::1]:2379", "[2001:db8::1]:2380"),
        ("[2001:db8::1]:3000", "[2001:db8::1]:3000", "[2001:db8::1]:3001"),
    ] {
        let listen: Listen = text.parse().unwrap();
        assert_eq!(
            (listen.client.to_string(), listen.peer().to_string()),
            (client.into(), peer.into())
        );
    }
    for wrong in ["", "host", "192.0.2.1:0", "192.0.2.1:65535", "192.0.2.1:", "[2001:db8::1"] {
        assert_eq!(wrong.parse::<Listen>(), Err(ParseListenError), "{wrong}");
    }
}

#[test]
fn a_damaged_record_of_the_machine_is_named() {
    let place = tempfile::tempdir().unwrap();
    let folder = Folder::of(place.path());
    folder.create().unwrap();
    let (_, member) = member();
    assert_eq!(folder.member().unwrap(), None);
    assert!(folder.joined().unwrap_err().to_string().contains("belongs to no cluster"));
    folder.keep_member(&member).unwrap();
    assert_eq!(folder.member().unwrap(), Some(member));
    std::fs::write(folder.path().join("member.json"), "{}").unwrap();
    assert!(folder.member().unwrap_err().to_string().contains("member.json is damaged"));
}
