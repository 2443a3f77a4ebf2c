//! CHAP accounts, as the control socket changes and lists them. A change is effective when it is
//! answered: logins use it, and the sessions of a removed user have ended.

use std::sync::Arc;

use nearflash_access::{Accounts, CHAP_SECRET_LEN_MAX, ChapAccount, ChapSecret, ChapUser, Mutual};
use nearflash_api::{ChapAdd, ChapInfo, ChapMutual, OneAccount, SecretText};

use super::Node;
use crate::InitiatorName;
use crate::Update;
use crate::error::NodeError;
use crate::exports::iscsi_access;
use nearflash_config::ValueError;

/// The alphabet of generated secrets: 64 characters, so that the low six bits of a random byte
/// select one.
const SECRET_ALPHABET: &[u8; 64] =
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The length of a generated secret: 144 bits. Some initiators accept at most 16 characters; their
/// users must supply a secret of their own.
const DRAWN_LEN: usize = 24;
const _: () = assert!(DRAWN_LEN <= CHAP_SECRET_LEN_MAX);

impl Node {
    pub(super) fn chap_add(&self, call: &ChapAdd) -> Result<OneAccount, NodeError> {
        let (secret, drawn) = given_or_drawn(call.secret.as_ref())?;
        let (mutual, mutual_drawn) = call.mutual.as_ref().map(mutual_of).transpose()?.unzip();
        let names = call.initiators.iter().map(|name| parse_initiator(name));
        let initiators = names.collect::<Result<_, _>>()?;
        let account = ChapAccount { user: parse_user(&call.user)?, secret, mutual, initiators };
        let account = self.change_accounts(|accounts| {
            if call.replace && accounts.iter().any(|old| old.user == account.user) {
                accounts.remove(&account.user)?;
            }
            accounts.add(account.clone())?;
            Ok(account)
        })?;
        tracing::debug!(user = account.user.as_str(), "CHAP account added");
        let mutual_secret = mutual_drawn.flatten();
        Ok(OneAccount { account: chap_info(&account), secret: drawn, mutual_secret })
    }

    pub(super) fn chap_list(&self) -> Vec<ChapInfo> {
        self.served().recorded.accounts.iter().map(chap_info).collect()
    }

    pub(super) fn chap_remove(&self, user: &str) -> Result<ChapInfo, NodeError> {
        let user = parse_user(user)?;
        let account = self.change_accounts(|accounts| Ok(accounts.remove(&user)?))?;
        tracing::debug!(user = account.user.as_str(), "CHAP account removed");
        if !self.served().recorded.closes_iscsi() {
            tracing::warn!("no CHAP account is left: initiators log in without one");
        }
        self.report_closed();
        Ok(chap_info(&account))
    }

    /// Makes a change on a copy; if that succeeds, records it and publishes it to the cores.
    fn change_accounts<T>(
        &self,
        change: impl FnOnce(&mut Accounts) -> Result<T, NodeError>,
    ) -> Result<T, NodeError> {
        let one = self.one_change_of_a_caller()?;
        let mut fresh = self.copy();
        let changed = change(&mut fresh.accounts)?;
        self.record(&mut fresh)?;
        let iscsi = Some(Arc::new(iscsi_access(&fresh, &self.devices())));
        let ticket = self.runtime.serve(Update { iscsi, ..Update::default() });
        self.adopt(fresh);
        drop(one);
        self.wait_for(&ticket)?;
        Ok(changed)
    }
}

fn parse_user(text: &str) -> Result<ChapUser, ValueError> {
    text.parse().map_err(ValueError::from)
}

fn parse_initiator(text: &str) -> Result<InitiatorName, ValueError> {
    text.parse().map_err(|_| ValueError::InitiatorName(text.into()))
}

/// The given secret, or a generated one together with its text, which the answer must show.
fn given_or_drawn(
    given: Option<&SecretText>,
) -> Result<(ChapSecret, Option<SecretText>), NodeError> {
    let drawn = if given.is_none() { Some(draw()?) } else { None };
    let text = given.or(drawn.as_ref()).map_or("", |text| text.0.as_str());
    Ok((text.parse().map_err(ValueError::from)?, drawn))
}

fn mutual_of(mutual: &ChapMutual) -> Result<(Mutual, Option<SecretText>), NodeError> {
    let (secret, drawn) = given_or_drawn(mutual.secret.as_ref())?;
    Ok((Mutual { user: parse_user(&mutual.user)?, secret }, drawn))
}

fn draw() -> Result<SecretText, NodeError> {
    let mut bytes = zeroize::Zeroizing::new([0; DRAWN_LEN]);
    super::access::fill_random(bytes.as_mut_slice())?;
    let letter = |byte: &u8| char::from(SECRET_ALPHABET[usize::from(byte & 63)]);
    Ok(SecretText(bytes.iter().map(letter).collect()))
}

fn chap_info(account: &ChapAccount) -> ChapInfo {
    ChapInfo {
        user: account.user.to_string(),
        mutual_user: account.mutual.as_ref().map(|mutual| mutual.user.to_string()),
        initiators: account.initiators.iter().map(ToString::to_string).collect(),
    }
}
