//! How a node's answers are shown: tables for people, the document itself for programs.

use std::io::{self, Write};

use nearflash_node::api::{
    Answer, ChapInfo, CredentialInfo, Document, GrantInfo, ReservationInfo, SecretText, VolumeInfo,
};
use nearflash_units::ByteLen;

use crate::calendar::show_moment;
use crate::tables;

/// What an answer is shown as.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Shown {
    Made,
    Resized,
    Removed,
    List,
    Status,
}

/// An answer as text, its last line ended.
pub(crate) fn show(answer: Answer, shown: Shown, json: bool) -> String {
    if json {
        return Document::new(answer).to_line() + "\n";
    }
    match (answer, shown) {
        (Answer::Volume { volume }, Shown::Removed) => format!("removed {}\n", sentence(&volume)),
        (Answer::Volume { volume }, Shown::Resized) => format!("resized {}\n", sentence(&volume)),
        (Answer::Volume { volume }, _) => format!("made {}\n", sentence(&volume)),
        (Answer::Volumes { volumes }, _) => tables::volumes(&volumes),
        (Answer::CredentialMade { credential, secret }, _) => with_secret(&credential, &secret.0),
        (Answer::Credential { credential }, Shown::Removed) => {
            format!("removed credential '{}'{}\n", credential.id, grants_of(&credential))
        }
        (Answer::Credential { credential }, _) => format!("made {}\n", named(&credential)),
        (Answer::Credentials { credentials }, _) => tables::credentials(&credentials),
        (Answer::Grant { grant }, Shown::Removed) => format!("revoked {}\n", permission(&grant)),
        (Answer::Grant { grant }, _) => format!("made {}\n", permission(&grant)),
        (Answer::Grants { grants }, _) => tables::grants(&grants),
        (Answer::Account { account, .. }, Shown::Removed) => {
            format!("removed CHAP user '{}' and its sessions\n", account.user)
        }
        (Answer::Account { account, secret, mutual_secret }, _) => {
            chap_made(&account, secret.as_ref(), mutual_secret.as_ref())
        }
        (Answer::Accounts { accounts }, _) => tables::accounts(&accounts),
        (Answer::Reservation { reservation }, _) => cleared(&reservation),
        (Answer::Reservations { reservations }, _) => tables::reservations(&reservations),
        (Answer::Status(status), _) => tables::status(&status),
        (Answer::Error { error }, _) => format!("{error}\n"),
    }
}

fn sentence(volume: &VolumeInfo) -> String {
    let VolumeInfo { name, nqn, nsid, bytes, device, .. } = volume;
    format!("volume '{name}': {} on device '{device}', namespace {nsid} of {nqn}", ByteLen(*bytes))
}

fn with_secret(credential: &CredentialInfo, secret: &str) -> String {
    format!(
        "made {}\nsecret: {secret}\nIt is not shown again. Without a grant the credential may do \
         nothing: 'nearflash grant add {} VOLUME'\n",
        named(credential),
        credential.id
    )
}

fn chap_made(
    account: &ChapInfo,
    secret: Option<&SecretText>,
    mutual_secret: Option<&SecretText>,
) -> String {
    let mutual = account.mutual_user.as_deref();
    let in_return = mutual.map_or(String::new(), |user| format!(", answered by '{user}'"));
    let mut text = format!("made CHAP user '{}'{in_return}\n", account.user);
    for (whose, secret) in [("secret", secret), ("secret in return", mutual_secret)] {
        if let Some(secret) = secret {
            text += &format!("{whose}: {}\n", secret.0);
        }
    }
    if secret.or(mutual_secret).is_some() {
        text += "It is not shown again.\n";
    }
    text
}

fn cleared(reservation: &ReservationInfo) -> String {
    let ReservationInfo { volume, kind, registrants, .. } = reservation;
    let count = registrants.len();
    let registrations = if count == 1 { "registration" } else { "registrations" };
    match kind {
        Some(kind) => {
            format!("cleared volume '{volume}': {kind}, and {count} {registrations}\n")
        }
        None => format!("cleared volume '{volume}': {count} {registrations}\n"),
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
    let range = match (grant.start, grant.end) {
        (0, None) => "all".to_owned(),
        _ => tables::range(grant),
    };
    let until = expires_at.map(|at| format!(", until {}", show_moment(at))).unwrap_or_default();
    format!("grant {number} of '{credential}': {what} {range} of volume '{volume}'{until}")
}

/// Writes to stdout. A reader that has seen enough is no error.
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

    fn credential(grants: usize, expires_at: Option<u64>) -> CredentialInfo {
        CredentialInfo { id: "app".to_owned(), expires_at, expired: false, grants }
    }

    fn grant(end: Option<u64>, rights: &str, expires_at: Option<u64>) -> GrantInfo {
        GrantInfo {
            number: 7,
            credential: "app".to_owned(),
            volume: "data".to_owned(),
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
        let made = Answer::CredentialMade { credential: credential(0, None), secret };
        insta::assert_snapshot!(show(made, Shown::Made, false), @r#"
            made credential 'app', which does not expire
            secret: 5ec2e7
            It is not shown again. Without a grant the credential may do nothing: 'nearflash grant add app VOLUME'
            "#);
        let made = Answer::Credential { credential: credential(0, Some(1_795_269_350)) };
        insta::assert_snapshot!(show(made, Shown::Made, false), @r#"made credential 'app', until 2026-11-21 13:55Z"#);
        let removed = Answer::Credential { credential: credential(2, None) };
        insta::assert_snapshot!(show(removed, Shown::Removed, false), @r#"removed credential 'app' and its 2 grants"#);
    }

    #[test]
    fn a_chap_user_is_made_and_removed_in_words() {
        let account = |mutual_user: Option<&str>| ChapInfo {
            user: "app".to_owned(),
            mutual_user: mutual_user.map(str::to_owned),
        };
        let made = Answer::Account { account: account(None), secret: None, mutual_secret: None };
        insta::assert_snapshot!(show(made.clone(), Shown::Made, false), @"made CHAP user 'app'");
        insta::assert_snapshot!(show(made, Shown::Removed, false), @"removed CHAP user 'app' and its sessions");
        let drawn = Answer::Account {
            account: account(Some("node")),
            secret: Some(SecretText("5ec2e7".to_owned())),
            mutual_secret: Some(SecretText("07e2".to_owned())),
        };
        insta::assert_snapshot!(show(drawn, Shown::Made, false), @r#"
            made CHAP user 'app', answered by 'node'
            secret: 5ec2e7
            secret in return: 07e2
            It is not shown again.
            "#);
    }

    #[test]
    fn a_grant_is_made_and_revoked_in_words() {
        let made = Answer::Grant { grant: grant(Some(8 << 30), "r", Some(1_795_269_350)) };
        insta::assert_snapshot!(show(made, Shown::Made, false), @r#"made grant 7 of 'app': read 0..8GiB of volume 'data', until 2026-11-21 13:55Z"#);
        let revoked = Answer::Grant { grant: grant(None, "rw", None) };
        insta::assert_snapshot!(show(revoked, Shown::Removed, false), @r#"revoked grant 7 of 'app': read and write all of volume 'data'"#);
    }
}
