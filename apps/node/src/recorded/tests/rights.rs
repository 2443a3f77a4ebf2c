//! Credentials, grants, accounts, tokens, keys of hosts and lists of volumes.

use super::*;

#[test]
fn credentials_and_grants_are_there_after_a_restart_and_for_the_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let ram = device("r=ram:16MiB");
    let mut space = space(&ram);
    space.create(&request("data=3MiB@r"), Uuid::from_u128(21)).unwrap();
    let mut grants = grants(&space);
    grants.revoke(GrantNumber(2)).unwrap();
    let (holder, expires) = (Holder::Seal(Secret::new([0x5A; 32])), Some(UnixTime(80_000)));
    let covers = Covered::Range("0..1MiB".parse().unwrap());
    let seal = GrantRequest { holder, covers, rights: Rights::Read, expires };
    let data = space.volume(&name("data")).unwrap();
    grants.add(seal, data, UnixTime(1)).unwrap();
    let (holder, covers) =
        (Holder::Credential(name("app")), Covered::Files("/a b".parse().unwrap()));
    let files = GrantRequest { holder, covers, rights: Rights::Read, expires: None };
    grants.add(files, data, UnixTime(1)).unwrap();
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    assert_eq!(read(&catalog).rights().unwrap().grants, Grants::default());
    commit(&catalog, &records(&space, &grants), &[&ram]);
    drop(catalog);
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    assert_eq!(read(&catalog).rights().unwrap().grants, grants);
    let file = std::fs::metadata(folder.path().join("catalog.redb")).unwrap();
    assert_eq!(file.permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_damaged_credential_or_grant_is_refused_by_name_and_shows_no_secret() {
    let refused = |key: &str, text: &str| {
        let (_folder, catalog) = fresh();
        insert(&catalog, key, text);
        read(&catalog).rights().unwrap_err().to_string()
    };
    let message = refused("credential/app", r#"{"secret":"5ec2e7"}"#);
    assert!(message.contains("the record of 'credential/app' is damaged"), "{message}");
    assert!(!message.contains("5ec2e7"), "{message}");
    let record = r#"{"credential":"app","volume":"00000000-0000-0000-0000-000000000015","start":9,"end":9,"rights":"r"}"#;
    let message = refused("grant/1", record);
    assert!(message.contains("the record of 'grant/1' is damaged"), "{message}");
    let message = refused("grant/1", &record.replace("\"end\":9,", ""));
    assert!(message.contains("grant 1 is for the unknown credential 'app'"), "{message}");
}

/// Every later version reads records of this schema.
#[test]
fn records_of_grants_stand_in_the_catalog_as_they_always_did() {
    let ram = device("r=ram:16MiB");
    let mut space = space(&ram);
    space.create(&request("data=3MiB@r"), Uuid::from_u128(21)).unwrap();
    let (_folder, catalog) = fresh();
    commit(&catalog, &records(&space, &grants(&space)), &[&ram]);
    insta::assert_snapshot!(text(&catalog, "credential/app"), @r#"{"secret":"a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5","expires_at":2000000000}"#);
    insta::assert_snapshot!(text(&catalog, "grant/1"), @r#"{"credential":"app","volume":"00000000-0000-0000-0000-000000000015","start":0,"end":1048576,"rights":"rw","expires_at":1900000000}"#);
    insta::assert_snapshot!(text(&catalog, "grant/2"), @r#"{"credential":"app","volume":"00000000-0000-0000-0000-000000000015","start":1048576,"rights":"r"}"#);
    insta::assert_snapshot!(text(&catalog, "last/grant"), @r#"{"schema":1,"number":2}"#);
}

#[test]
fn accounts_are_kept_over_a_restart() {
    let ram = device("r=ram:16MiB");
    let mut recorded = records(&space(&ram), &Grants::default());
    let account = |user: &str, mutual| ChapAccount {
        user: user.parse().unwrap(),
        secret: "geheimgeheim".parse().unwrap(),
        mutual,
        initiators: BTreeSet::new(),
    };
    let (user, secret) = ("node".parse().unwrap(), "anderesanderes".parse().unwrap());
    recorded.accounts.add(account("iqn.2026-11.test:a", None)).unwrap();
    recorded.accounts.add(account("b", Some(Mutual { user, secret }))).unwrap();
    let (_folder, catalog) = fresh();
    assert!(read(&catalog).has_no_account());
    commit(&catalog, &recorded, &[&ram]);
    let contents = read(&catalog);
    assert_eq!(contents.rights().unwrap().accounts, recorded.accounts);
    let shown = format!("{contents:?}");
    assert!(!shown.contains("geheim") && !shown.contains("anderes"), "{shown}");
    insta::assert_snapshot!(text(&catalog, "chap/b"), @r#"{"secret":"geheimgeheim","mutual_user":"node","mutual_secret":"anderesanderes"}"#);
}

#[test]
fn tokens_are_kept_over_a_restart() {
    let ram = device("r=ram:16MiB");
    let mut recorded = records(&space(&ram), &Grants::default());
    let token = |text: &str, scope, expires| Token {
        name: name(text),
        hash: Token::hash_of(text),
        scope,
        expires,
    };
    recorded.tokens.add(token("a", TokenScopeRecord::Read, None), UnixTime(1)).unwrap();
    let expires = Some(UnixTime(2_000_000_000));
    recorded.tokens.add(token("b", TokenScopeRecord::Admin, expires), UnixTime(1)).unwrap();
    let (_folder, catalog) = fresh();
    commit(&catalog, &recorded, &[&ram]);
    assert_eq!(read(&catalog).rights().unwrap().tokens, recorded.tokens);
    insta::assert_snapshot!(text(&catalog, "token/b"), @r#"{"sha256":"3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d","scope":"admin","expires_at":2000000000}"#);
    for damaged in [r#"{"sha256":"00","scope":"read"}"#, r#"{"sha256":"","scope":"root"}"#] {
        insert(&catalog, "token/a", damaged);
        let contents = Recorded::read(&catalog);
        let refused = contents.map_err(StartError::from).and_then(|it| it.rights()).unwrap_err();
        assert!(refused.to_string().contains("'token/a'"), "{refused}");
    }
}

#[test]
fn keys_of_hosts_are_kept_over_a_restart() {
    let ram = device("r=ram:16MiB");
    let mut recorded = records(&space(&ram), &Grants::default());
    let key = |byte| HostKey::new(Some(Hash::Sha256), &[byte; 32]).unwrap();
    let policy = Policy { hash: Some(Hash::Sha384), group: Some(DhGroup::Ffdhe4096) };
    let one = HostKeys::new(key(7), None, Policy::default()).unwrap();
    let both = HostKeys::new(key(7), Some(key(8)), policy).unwrap();
    recorded.hosts.add(&Nqn::new("nqn.2026-11.test:a").unwrap(), one.into()).unwrap();
    recorded.hosts.add(&Nqn::new("nqn.2026-11.test:b").unwrap(), both.into()).unwrap();
    let psk = Psk::new(Some(Hash::Sha256), &[9; 32]).unwrap();
    let (derivation, demand) = (Derivation::Legacy, Demand::Required);
    let tls = TlsHost { psk, previous: None, derivation, demand };
    let until = Some(UnixTime(2_000_000_000));
    let rotated = HostSecrets {
        dhchap: Some(HostKeys::new(key(1), None, policy).unwrap().replaced(key(2), until).unwrap()),
        tls: Some(tls.clone().replaced(Psk::new(None, &[3; 32]).unwrap(), until)),
    };
    recorded.hosts.add(&Nqn::new("nqn.2026-11.test:d").unwrap(), rotated).unwrap();
    let secrets = HostSecrets { dhchap: None, tls: Some(tls) };
    recorded.hosts.add(&Nqn::new("nqn.2026-11.test:c").unwrap(), secrets).unwrap();
    let (_folder, catalog) = fresh();
    assert!(read(&catalog).has_no_keyed_host());
    commit(&catalog, &recorded, &[&ram]);
    let contents = read(&catalog);
    assert_eq!(contents.rights().unwrap().hosts, recorded.hosts);
    let shown = format!("{contents:?}");
    assert!(!shown.contains("DHHC") && !shown.contains("NVMeTLS"), "{shown}");
    insta::assert_snapshot!(text(&catalog, "host/nqn.2026-11.test:c"), @r#"{"psk":"NVMeTLSkey-1:01:CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQlGwA0N:","psk_derivation":"legacy","tls":"required"}"#);
    insta::assert_snapshot!(text(&catalog, "host/nqn.2026-11.test:a"), @r#"{"key":"DHHC-1:01:BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwfLJNij:"}"#);
    insta::assert_snapshot!(text(&catalog, "host/nqn.2026-11.test:b"), @r#"{"key":"DHHC-1:01:BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwfLJNij:","controller_key":"DHHC-1:01:CAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgnCjZ2:","hash":"sha384","group":"ffdhe4096"}"#);
}

#[test]
fn lists_of_hosts_are_kept_over_a_restart() {
    let ram = device("r=ram:16MiB");
    let mut recorded = records(&space(&ram), &Grants::default());
    let list = [(Uuid::from_u128(1), Rights::Read), (Uuid::from_u128(2), Rights::ReadWrite)];
    let (nqn, iqn) = ("nqn.2026-11.test:a", "iqn.2026-11.test:a");
    recorded.host_volumes.set(&nqn.parse().unwrap(), VolumeList::from(list)).unwrap();
    recorded.host_volumes.set(&iqn.parse().unwrap(), VolumeList::new()).unwrap();
    let (_folder, catalog) = fresh();
    commit(&catalog, &recorded, &[&ram]);
    assert_eq!(read(&catalog).rights().unwrap().host_volumes, recorded.host_volumes);
    insta::assert_snapshot!(text(&catalog, &format!("list/{nqn}")), @r#"{"volumes":{"00000000-0000-0000-0000-000000000001":"r","00000000-0000-0000-0000-000000000002":"rw"}}"#);
    insta::assert_snapshot!(text(&catalog, &format!("list/{iqn}")), @r#"{"volumes":{}}"#);
    let damaged = r#"{"volumes":{"00000000-0000-0000-0000-000000000001":"x"}}"#;
    insert(&catalog, &format!("list/{nqn}"), damaged);
    let refused = read(&catalog).rights().unwrap_err().to_string();
    assert!(refused.contains("the record of 'list/nqn.2026-11.test:a' is damaged"), "{refused}");
}

#[test]
fn what_the_node_has_had_is_remembered_after_it_is_gone_and_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let ram = device("r=ram:16MiB");
    let (host, key) =
        (Nqn::new("nqn.2026-11.test:a").unwrap(), HostKey::new(None, &[7; 32]).unwrap());
    let keys = HostKeys::new(key, None, Policy::default()).unwrap();
    let mut recorded = records(&space(&ram), &Grants::default());
    let had = |catalog: &Catalog| {
        let found = read(catalog).records(space(&ram)).unwrap();
        let had = (
            found.grants.has_had_credential(),
            found.accounts.has_had_account(),
            found.host_volumes.has_had_list(),
        );
        (had, found.hosts.removed().cloned().collect::<Vec<_>>())
    };
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    assert_eq!(had(&catalog), ((false, false, false), vec![]));
    recorded.grants.create(&name("app"), Secret::new([7; 32]), None, UnixTime(1)).unwrap();
    recorded.host_volumes.set(&"iqn.a:b".parse().unwrap(), VolumeList::new()).unwrap();
    let account = ChapAccount {
        user: "app".parse().unwrap(),
        secret: "geheimgeheim".parse().unwrap(),
        mutual: None,
        initiators: ["iqn.a:b".parse().unwrap()].into(),
    };
    recorded.accounts.add(account).unwrap();
    recorded.hosts.add(&host, keys.into()).unwrap();
    commit(&catalog, &recorded, &[&ram]);
    assert_eq!(read(&catalog).rights().unwrap().accounts, recorded.accounts);
    insta::assert_snapshot!(text(&catalog, "chap/app"), @r#"{"secret":"geheimgeheim","initiators":["iqn.a:b"]}"#);
    recorded.grants.remove(&name("app")).unwrap();
    recorded.host_volumes.unlist(&"iqn.a:b".parse().unwrap());
    recorded.accounts.remove(&"app".parse().unwrap()).unwrap();
    recorded.hosts.remove(&host).unwrap();
    commit(&catalog, &recorded, &[&ram]);
    drop(catalog);
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    assert_eq!(had(&catalog), ((true, true, true), vec![host.clone()]));
    assert!(read(&catalog).has_no_keyed_host());
    insta::assert_snapshot!(text(&catalog, &format!("host/{host}")), @r#"{"removed":true}"#);
    recorded.hosts.forget(&host);
    commit(&catalog, &recorded, &[&ram]);
    assert_eq!(had(&catalog), ((true, true, true), vec![]));
}

/// A previous key without its end.
const HALF_PREVIOUS: &str = r#"{"key":"DHHC-1:01:BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwfLJNij:","previous_key":"DHHC-1:01:BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwfLJNij:"}"#;

#[test]
fn damaged_keys_of_a_host_are_named() {
    let (_folder, catalog) = fresh();
    let removed = r#"{"removed":true,"group":"ffdhe4096"}"#;
    for damaged in [
        r#"{"key":"DHHC-1:01:AAAA:"}"#,
        r#"{"key":"x","group":"none"}"#,
        HALF_PREVIOUS,
        removed,
        "{}",
    ] {
        insert(&catalog, "host/nqn.a", damaged);
        let refused = read(&catalog).rights().unwrap_err().to_string();
        assert!(refused.contains("the record of 'host/nqn.a' is damaged"), "{refused}");
    }
}

#[test]
fn a_damaged_account_is_named() {
    let (_folder, catalog) = fresh();
    for damaged in [r#"{"secret":"short"}"#, r#"{"secret":"geheimgeheim","mutual_user":"a"}"#] {
        insert(&catalog, "chap/app", damaged);
        let refused = read(&catalog).rights().unwrap_err().to_string();
        assert!(refused.contains("the record of 'chap/app' is damaged"), "{refused}");
    }
}

#[test]
fn a_damaged_number_is_refused_by_name() {
    for of in ["last/grant", "last/job"] {
        let (_folder, catalog) = fresh();
        insert(&catalog, of, r#"{"schema":1,"number":"x"}"#);
        let message = Recorded::read(&catalog).unwrap_err().to_string();
        assert!(message.contains(&format!("the record of '{of}' is damaged")), "{message}");
    }
}
