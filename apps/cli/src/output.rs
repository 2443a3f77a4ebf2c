//! The output of answers: tables for people, documents for programs.

use std::io::{self, Write};

use nearflash_api::{
    CredentialInfo, Document, GrantInfo, HostVolume, JobInfo, KeyedHosts, OneAccount, OneKeyedHost,
    ReservationInfo, SecretText, TokenInfo, VolumeInfo, VolumesOfHost,
};
use nearflash_units::ByteLen;
use serde::Serialize;

use crate::calendar::show_moment;
use crate::tables;

/// The output of an answer, its document for programs or its text for people, with a final newline.
pub(crate) fn show<A: Serialize>(
    answer: &A,
    json: bool,
    text: impl FnOnce(&A) -> String,
) -> String {
    if json { escaped(&Document::new(answer).to_line()) + "\n" } else { text(answer) }
}

/// A document without control characters, which a terminal would obey. JSON leaves only DEL and those beyond
/// ASCII as they are, and only in strings.
fn escaped(document: &str) -> String {
    let mut text = String::with_capacity(document.len());
    for letter in document.chars() {
        match letter.is_control() {
            true => text += &format!("\\u{:04x}", u32::from(letter)),
            false => text.push(letter),
        }
    }
    text
}

/// The result of a change to a volume.
pub(crate) fn volume(done: &str, volume: &VolumeInfo, job: Option<&JobInfo>) -> String {
    let waiting = job.map_or(String::new(), |job| {
        format!("job {} prepares it: 'nearflash job wait {}' waits for the job\n", job.id, job.id)
    });
    format!("{done} {}\n{waiting}", sentence(volume))
}

/// A volume that a job gives another size.
pub(crate) fn resizing(volume: &VolumeInfo, to: ByteLen, job: &JobInfo) -> String {
    let VolumeInfo { name, bytes, .. } = volume;
    let (from, id) = (ByteLen(*bytes), job.id);
    format!(
        "volume '{name}' has {from}, and gets {to} by job {id}: 'nearflash job wait {id}' waits for \
         the job\n"
    )
}

/// A new credential.
pub(crate) fn credential_made(credential: &CredentialInfo) -> String {
    format!("created {}\n", named(credential))
}

pub(crate) fn credential_removed(credential: &CredentialInfo) -> String {
    format!("removed credential '{}'{}\n", credential.id, grants_of(credential))
}

/// The result of a change to a grant.
pub(crate) fn grant(done: &str, grant: &GrantInfo) -> String {
    format!("{done} {}\n", permission(grant))
}

/// The state of a job.
pub(crate) fn job(job: &JobInfo) -> String {
    let JobInfo { id, kind, volume, state, done_bytes, total_bytes, error, .. } = job;
    let (done, total) = (tables::size(*done_bytes), tables::size(*total_bytes));
    let why = error.as_ref().map_or(String::new(), |error| format!(": {error}"));
    let (state, waits) = (state.as_str(), crate::job::waits(job));
    format!("job {id}, {kind} of '{volume}': {state}, {done} of {total}{waits}{why}\n")
}

/// A volume with its size and place. The devices of a volume of a cluster are its mirrors, `NAME.0` and so on: their
/// names say nothing more.
pub(crate) fn sentence(volume: &VolumeInfo) -> String {
    let VolumeInfo { name, nqn, nsid, bytes, device, .. } = volume;
    let mut parts = device.split(',').enumerate();
    let is_of_cluster = parts.all(|(number, part)| part == format!("{name}.{number}"));
    let place = match device.is_empty() || is_of_cluster {
        true => String::new(),
        false => format!(" on device '{device}'"),
    };
    format!("volume '{name}': {}{place}, namespace {nsid} of {nqn}", ByteLen(*bytes))
}

/// A new credential with its secret.
pub(crate) fn with_secret(credential: &CredentialInfo, secret: &str) -> String {
    format!(
        "created {}\nsecret: {secret}\nThe secret is not shown again. Without a grant, the \
         credential has no rights: add one with 'nearflash grant add {} VOLUME'\n",
        named(credential),
        credential.id
    )
}

/// A new token with its secret.
pub(crate) fn token_with_secret(token: &TokenInfo, secret: &str) -> String {
    format!("{}token: {secret}\nThe token is not shown again.\n", self::token("created", token))
}

/// The result of a change to a token.
pub(crate) fn token(done: &str, token: &TokenInfo) -> String {
    let end = match token.expires_at {
        None => "which does not expire".to_owned(),
        Some(at) => format!("until {}", show_moment(at)),
    };
    format!("{done} token '{}' of scope '{}', {end}\n", token.name, token.scope)
}

/// The nodes that have not confirmed a change of access.
pub(crate) fn unconfirmed(nodes: &[String]) -> String {
    let names: Vec<String> = nodes.iter().map(|name| format!("'{name}'")).collect();
    let (nodes, go) = if names.len() == 1 { ("node", "goes") } else { ("nodes", "go") };
    format!(
        "the change is made, but {nodes} {} may still {go} by the rights before it: a node that runs is cut off \
         or has requests under way; one that does not run takes the change when it starts and reaches etcd",
        names.join(", ")
    )
}

/// A new CHAP account with the secrets that the node generated.
pub(crate) fn chap_made(made: &OneAccount) -> String {
    let OneAccount { account, secret, mutual_secret, .. } = made;
    let mutual = account.mutual_user.as_deref();
    let in_return = mutual.map_or(String::new(), |user| format!(", mutual user '{user}'"));
    let names = account.initiators.join(", ");
    let only = if names.is_empty() { names } else { format!(", for {names} alone") };
    let mut text = format!("added CHAP account '{}'{in_return}{only}\n", account.user);
    for (whose, secret) in [("secret", secret), ("mutual secret", mutual_secret)] {
        if let Some(secret) = secret {
            text += &format!("{whose}: {}\n", secret.0);
        }
    }
    if secret.is_some() || mutual_secret.is_some() {
        text += "Secrets are not shown again.\n";
    }
    text
}

pub(crate) fn chap_removed(removed: &OneAccount) -> String {
    format!("removed CHAP account '{}' and its sessions\n", removed.account.user)
}

/// A host with new keys, and those that the node generated.
pub(crate) fn host_made(made: &OneKeyedHost) -> String {
    let OneKeyedHost { host, key, controller_key, .. } = made;
    let directions = if host.mutual { ", for both directions" } else { "" };
    let text = format!("added keys of host '{}'{directions}\n", host.nqn);
    text + &generated(key.as_ref(), controller_key.as_ref())
}

/// A host whose keys are replaced.
pub(crate) fn host_rotated(made: &OneKeyedHost) -> String {
    let OneKeyedHost { host, key, controller_key, .. } = made;
    let text = format!("replaced keys of host '{}'\n", host.nqn);
    text + &tables::previous_keys(host) + &generated(key.as_ref(), controller_key.as_ref())
}

/// The keys that the node has generated.
fn generated(key: Option<&SecretText>, controller_key: Option<&SecretText>) -> String {
    let mut text = String::new();
    for (whose, key) in [("host key", key), ("controller key", controller_key)] {
        if let Some(key) = key {
            text += &format!("{whose}: {}\n", key.0);
        }
    }
    if key.is_some() || controller_key.is_some() {
        text += "Keys are not shown again.\n";
    }
    text
}

/// A host that is removed, and what it can do now.
pub(crate) fn host_removed(removed: &OneKeyedHost, left: &KeyedHosts) -> String {
    let nqn = &removed.host.nqn;
    let mut text = format!("removed host '{nqn}': its keys and its list of volumes\n");
    if left.removed.contains(nqn) {
        text += &format!(
            "It does not enter without keys any more: 'nearflash host add {nqn}' gives it new ones, and 'nearflash \
             host remove {nqn} --forget' makes it a host that never had any.\n"
        );
    } else if left.unlisted == "all" {
        text +=
            "Like every host without a list, it sees every volume, at addresses that admit it.\n";
    }
    text + no_list_left(left)
}

/// The consequence of the removal of the last list.
fn no_list_left(left: &KeyedHosts) -> &'static str {
    match left.lists.is_empty() && left.unlisted == "none" {
        true => {
            "warning: no host has a list, so no host sees a volume: give hosts lists with 'nearflash host allow', \
             or start the node with --unlisted-hosts all\n"
        }
        false => "",
    }
}

/// The list of a host after a change.
pub(crate) fn volumes_of(list: &VolumesOfHost) -> String {
    let VolumesOfHost { host, volumes } = list;
    match volumes.is_empty() {
        true => format!("host '{host}' sees no volume\n"),
        false => format!("host '{host}' sees {}\n", listed_volumes(volumes)),
    }
}

/// Volumes with the rights on them, in one word.
pub(crate) fn listed_volumes(volumes: &[HostVolume]) -> String {
    let word = |it: &HostVolume| format!("{}:{}", it.volume, it.rights);
    volumes.iter().map(word).collect::<Vec<_>>().join(",")
}

/// A host whose list is taken away.
pub(crate) fn unlisted(list: &VolumesOfHost, left: &KeyedHosts) -> String {
    let sees = if left.unlisted == "all" { "every volume" } else { "no volume" };
    let text = format!("host '{}' has no list of volumes any more, and sees {sees}\n", list.host);
    text + no_list_left(left)
}

pub(crate) fn cleared(reservation: &ReservationInfo) -> String {
    let ReservationInfo { volume, kind, registrants, .. } = reservation;
    let count = registrants.len();
    let registrations = if count == 1 { "registration" } else { "registrations" };
    match kind {
        Some(kind) => format!(
            "cleared the reservations of volume '{volume}': {kind}, and {count} {registrations}\n"
        ),
        None => {
            format!("cleared the reservations of volume '{volume}': {count} {registrations}\n")
        }
    }
}

fn named(credential: &CredentialInfo) -> String {
    let end = match credential.expires_at {
        None => "which does not expire".to_owned(),
        Some(at) => format!("until {}", show_moment(at)),
    };
    format!("credential '{}', {end}", credential.id)
}

fn grants_of(credential: &CredentialInfo) -> String {
    match credential.grants {
        0 => ", which had no grants".to_owned(),
        1 => " and its grant".to_owned(),
        count => format!(" and its {count} grants"),
    }
}

fn permission(grant: &GrantInfo) -> String {
    let GrantInfo { number, credential, volume, rights, expires_at, .. } = grant;
    let what = if rights == "r" { "read" } else { "read and write" };
    let range = match (&grant.path, grant.start, grant.end) {
        (Some(path), ..) => format!("the files in {path}"),
        (None, 0, None) => "all".to_owned(),
        _ => tables::range(grant),
    };
    let until = expires_at.map(|at| format!(", until {}", show_moment(at))).unwrap_or_default();
    let holder = if grant.seal { "a seal".to_owned() } else { format!("'{credential}'") };
    format!("grant {number} of {holder}: {what} {range} of volume '{volume}'{until}")
}

/// Writes to stdout. A closed pipe is not an error.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearflash_api::{ChapInfo, KeyedHost};

    fn credential(grants: usize, expires_at: Option<u64>) -> CredentialInfo {
        CredentialInfo { id: "app".to_owned(), expires_at, expired: false, grants }
    }

    fn grant(end: Option<u64>, rights: &str, expires_at: Option<u64>) -> GrantInfo {
        GrantInfo {
            number: 7,
            credential: "app".to_owned(),
            seal: false,
            volume: "data".to_owned(),
            path: None,
            start: 0,
            end,
            rights: rights.to_owned(),
            expires_at,
            expired: false,
        }
    }

    #[test]
    fn a_credential_is_made_and_removed_in_words() {
        let secret = SecretText("5ec2e7".to_owned());
        insta::assert_snapshot!(with_secret(&credential(0, None), &secret.0), @r#"
            created credential 'app', which does not expire
            secret: 5ec2e7
            The secret is not shown again. Without a grant, the credential has no rights: add one with 'nearflash grant add app VOLUME'
            "#);
        let made = credential_made(&credential(0, Some(1_795_269_350)));
        insta::assert_snapshot!(made, @r#"created credential 'app', until 2026-11-21 13:55Z"#);
        let removed = credential_removed(&credential(2, None));
        insta::assert_snapshot!(removed, @r#"removed credential 'app' and its 2 grants"#);
    }

    #[test]
    fn a_host_is_made_and_removed_in_words() {
        let host = |mutual| KeyedHost {
            nqn: "nqn.2026-11.test:app".to_owned(),
            dhchap: true,
            mutual,
            ..KeyedHost::default()
        };
        let given = OneKeyedHost {
            unconfirmed: Vec::new(),
            host: host(false),
            key: None,
            controller_key: None,
        };
        insta::assert_snapshot!(host_made(&given), @"added keys of host 'nqn.2026-11.test:app'");
        let left = |removed: &[&str], unlisted: &str| KeyedHosts {
            hosts: vec![],
            lists: vec![],
            removed: removed.iter().map(|nqn| (*nqn).to_owned()).collect(),
            unlisted: unlisted.to_owned(),
        };
        insta::assert_snapshot!(host_removed(&given, &left(&[], "none")), @r#"
            removed host 'nqn.2026-11.test:app': its keys and its list of volumes
            warning: no host has a list, so no host sees a volume: give hosts lists with 'nearflash host allow', or start the node with --unlisted-hosts all
            "#);
        let list = VolumesOfHost { host: "nqn.2026-11.test:app".to_owned(), volumes: vec![] };
        insta::assert_snapshot!(unlisted(&list, &left(&[], "all")), @"host 'nqn.2026-11.test:app' has no list of volumes any more, and sees every volume");
        let others = KeyedHosts { lists: vec![list.clone()], ..left(&[], "none") };
        insta::assert_snapshot!(unlisted(&list, &others), @"host 'nqn.2026-11.test:app' has no list of volumes any more, and sees no volume");
        insta::assert_snapshot!(unlisted(&list, &left(&[], "none")), @r#"
            host 'nqn.2026-11.test:app' has no list of volumes any more, and sees no volume
            warning: no host has a list, so no host sees a volume: give hosts lists with 'nearflash host allow', or start the node with --unlisted-hosts all
            "#);
        insta::assert_snapshot!(host_removed(&given, &left(&["nqn.2026-11.test:app"], "all")), @r#"
            removed host 'nqn.2026-11.test:app': its keys and its list of volumes
            It does not enter without keys any more: 'nearflash host add nqn.2026-11.test:app' gives it new ones, and 'nearflash host remove nqn.2026-11.test:app --forget' makes it a host that never had any.
            "#);
        insta::assert_snapshot!(host_removed(&given, &left(&[], "all")), @r#"
            removed host 'nqn.2026-11.test:app': its keys and its list of volumes
            Like every host without a list, it sees every volume, at addresses that admit it.
            "#);
        let key = |text: &str| Some(SecretText(text.to_owned()));
        let drawn = OneKeyedHost {
            unconfirmed: Vec::new(),
            host: host(true),
            key: key("DHHC-1:01:a:"),
            controller_key: key("DHHC-1:01:b:"),
        };
        insta::assert_snapshot!(host_made(&drawn), @r#"
            added keys of host 'nqn.2026-11.test:app', for both directions
            host key: DHHC-1:01:a:
            controller key: DHHC-1:01:b:
            Keys are not shown again.
            "#);
    }

    #[test]
    fn a_host_with_new_keys_is_shown_with_the_end_of_the_old_ones() {
        let host = KeyedHost { nqn: "nqn.2026-11.test:app".to_owned(), ..KeyedHost::default() };
        let made = |key: Option<&str>, previous_key_until, previous_psk_until| OneKeyedHost {
            unconfirmed: Vec::new(),
            host: KeyedHost { previous_key_until, previous_psk_until, ..host.clone() },
            key: key.map(|key| SecretText(key.to_owned())),
            controller_key: None,
        };
        insta::assert_snapshot!(host_rotated(&made(None, None, None)), @"replaced keys of host 'nqn.2026-11.test:app'");
        let drawn = made(Some("DHHC-1:01:a:"), Some(1_795_269_350), None);
        insta::assert_snapshot!(host_rotated(&drawn), @r#"
            replaced keys of host 'nqn.2026-11.test:app'
            host 'nqn.2026-11.test:app': its old DH-HMAC-CHAP key is valid until 2026-11-21 13:55Z
            host key: DHHC-1:01:a:
            Keys are not shown again.
            "#);
        let psk = made(None, None, Some(1_795_269_350));
        insta::assert_snapshot!(host_rotated(&psk), @r#"
            replaced keys of host 'nqn.2026-11.test:app'
            host 'nqn.2026-11.test:app': its old PSK is valid until 2026-11-21 13:55Z
            "#);
    }

    #[test]
    fn a_chap_user_is_made_and_removed_in_words() {
        let account = |mutual_user: Option<&str>| ChapInfo {
            user: "app".to_owned(),
            mutual_user: mutual_user.map(str::to_owned),
            initiators: mutual_user.map(|_| "iqn.a:b".to_owned()).into_iter().collect(),
        };
        let made = OneAccount {
            unconfirmed: Vec::new(),
            account: account(None),
            secret: None,
            mutual_secret: None,
        };
        insta::assert_snapshot!(chap_made(&made), @"added CHAP account 'app'");
        insta::assert_snapshot!(chap_removed(&made), @"removed CHAP account 'app' and its sessions");
        let drawn = OneAccount {
            unconfirmed: Vec::new(),
            account: account(Some("node")),
            secret: Some(SecretText("5ec2e7".to_owned())),
            mutual_secret: Some(SecretText("07e2".to_owned())),
        };
        insta::assert_snapshot!(chap_made(&drawn), @r#"
            added CHAP account 'app', mutual user 'node', for iqn.a:b alone
            secret: 5ec2e7
            mutual secret: 07e2
            Secrets are not shown again.
            "#);
    }

    #[test]
    fn a_grant_is_made_and_revoked_in_words() {
        let made = super::grant("added", &grant(Some(8 << 30), "r", Some(1_795_269_350)));
        insta::assert_snapshot!(made, @r#"added grant 7 of 'app': read 0..8GiB of volume 'data', until 2026-11-21 13:55Z"#);
        let path = Some("/models".to_owned());
        let made = super::grant("added", &GrantInfo { path, ..grant(None, "r", None) });
        insta::assert_snapshot!(made, @"added grant 7 of 'app': read the files in /models of volume 'data'");
        let removed = super::grant("removed", &grant(None, "rw", None));
        insta::assert_snapshot!(removed, @r#"removed grant 7 of 'app': read and write all of volume 'data'"#);
    }

    #[test]
    fn a_token_is_made_and_removed_in_words() {
        let scope = nearflash_api::TokenScope::Operate;
        let info =
            |expires_at| TokenInfo { name: "deploy".to_owned(), scope, expires_at, expired: false };
        insta::assert_snapshot!(token_with_secret(&info(None), "nft_x"), @r#"
            created token 'deploy' of scope 'operate', which does not expire
            token: nft_x
            The token is not shown again.
            "#);
        let removed = token("removed", &info(Some(1_795_269_350)));
        insta::assert_snapshot!(removed, @"removed token 'deploy' of scope 'operate', until 2026-11-21 13:55Z");
    }

    #[test]
    fn programs_get_the_document_and_people_the_text() {
        let made = credential(1, None);
        let json = show(&made, true, |_| unreachable!("no text for programs"));
        assert!(json.starts_with("{\"schema\":1,\"id\":\"app\"") && json.ends_with("}\n"));
        assert_eq!(show(&made, false, |made| made.id.clone()), "app");
        let name = "\u{9b}2J\u{7f}";
        let json = show(&serde_json::json!({ "name": name }), true, |_| unreachable!());
        assert!(json.contains(r#""name":"\u009b2J\u007f""#), "{json}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap()["name"], name);
    }
}
