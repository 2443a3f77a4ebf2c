//! CHAP accounts of iSCSI initiators.

use nearflash_access::{CHAP_SECRET_LEN_MAX, ChapAccount, ChapSecret, Mutual};
use nearflash_api::{
    Accounts, ApiError, ChapAdd, ChapInfo, ChapList, ChapMutual, ChapRemove, OneAccount,
    SecretText, Serve,
};
use nearflash_config::ValueError;
use nearflash_planner::access::add_account;

use super::{drawn, parsed};
use crate::InitiatorName;
use crate::error::NodeError;
use crate::node::Node;

/// The alphabet of generated secrets: 64 characters, so that the low six bits of a random byte
/// select one.
const SECRET_ALPHABET: &[u8; 64] =
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The length of a generated secret: 144 bits. Some initiators accept at most 16 characters; their
/// users must supply a secret of their own.
const DRAWN_LEN: usize = 24;
const _: () = assert!(DRAWN_LEN <= CHAP_SECRET_LEN_MAX);

impl Serve<ChapAdd> for Node {
    fn serve(&self, call: ChapAdd) -> Result<OneAccount, ApiError> {
        let (secret, drawn) = given_or_drawn(call.secret.as_ref())?;
        let (mutual, mutual_drawn) = call.mutual.as_ref().map(mutual_of).transpose()?.unzip();
        let names = call.initiators.iter().map(|name| parse_initiator(name));
        let initiators = names.collect::<Result<_, _>>()?;
        let account = ChapAccount { user: parsed(&call.user)?, secret, mutual, initiators };
        let info = chap_info(&account);
        let ((), unconfirmed) = self.change_access(|fresh| {
            add_account(&mut fresh.accounts, account.clone(), call.replace)
        })?;
        tracing::debug!(user = info.user, "CHAP account added");
        let mutual_secret = mutual_drawn.flatten();
        Ok(OneAccount { account: info, secret: drawn, mutual_secret, unconfirmed })
    }
}

impl Serve<ChapList> for Node {
    fn serve(&self, _: ChapList) -> Result<Accounts, ApiError> {
        let accounts = self.served().recorded.accounts.iter().map(chap_info).collect();
        Ok(Accounts { accounts })
    }
}

impl Serve<ChapRemove> for Node {
    fn serve(&self, call: ChapRemove) -> Result<OneAccount, ApiError> {
        let user = parsed(&call.user)?;
        let (account, unconfirmed) =
            self.change_access(|fresh| Ok(fresh.accounts.remove(&user)?))?;
        tracing::debug!(user = account.user.as_str(), "CHAP account removed");
        if !self.served().recorded.closes_iscsi() {
            tracing::warn!("no CHAP account is left: initiators log in without one");
        }
        self.report_closed();
        let account = chap_info(&account);
        Ok(OneAccount { account, secret: None, mutual_secret: None, unconfirmed })
    }
}

fn parse_initiator(text: &str) -> Result<InitiatorName, NodeError> {
    Ok(text.parse().map_err(|_| ValueError::InitiatorName(text.into()))?)
}

/// The given secret, or a generated one together with its text, which the answer must show.
fn given_or_drawn(
    given: Option<&SecretText>,
) -> Result<(ChapSecret, Option<SecretText>), NodeError> {
    let drawn = if given.is_none() { Some(draw()?) } else { None };
    let text = given.or(drawn.as_ref()).map_or("", |text| text.0.as_str());
    Ok((parsed(text)?, drawn))
}

fn mutual_of(mutual: &ChapMutual) -> Result<(Mutual, Option<SecretText>), NodeError> {
    let (secret, drawn) = given_or_drawn(mutual.secret.as_ref())?;
    Ok((Mutual { user: parsed(&mutual.user)?, secret }, drawn))
}

fn draw() -> Result<SecretText, NodeError> {
    let letter = |byte: &u8| char::from(SECRET_ALPHABET[usize::from(byte & 63)]);
    Ok(SecretText(drawn::<DRAWN_LEN>()?.iter().map(letter).collect()))
}

fn chap_info(account: &ChapAccount) -> ChapInfo {
    ChapInfo {
        user: account.user.to_string(),
        mutual_user: account.mutual.as_ref().map(|mutual| mutual.user.to_string()),
        initiators: account.initiators.iter().map(ToString::to_string).collect(),
    }
}
