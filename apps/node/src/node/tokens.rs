//! Tokens of the HTTP interface, as calls create, list and remove them. No core needs to know.

use nearflash_access::{SECRET_LEN, UnixTime, is_expired};
use nearflash_api::{NewToken, SecretText, TokenInfo, TokenScope};
use nearflash_space::Name;
use zeroize::Zeroizing;

use super::access::fill_random;
use super::{Node, now};
use crate::error::NodeError;
use crate::tokens::{Token, Tokens, hash_of, text_of};
use nearflash_config::ValueError;

impl Node {
    pub(super) fn token_create(
        &self,
        name: &str,
        scope: TokenScope,
        expires_at: Option<u64>,
    ) -> Result<NewToken, NodeError> {
        let name: Name = name.parse().map_err(ValueError::from)?;
        let mut bytes = Zeroizing::new([0; SECRET_LEN]);
        fill_random(bytes.as_mut_slice())?;
        let secret = text_of(&bytes);
        let expires = expires_at.map(UnixTime);
        let token = Token { name, hash: hash_of(&secret), scope, expires };
        let token = self.change_tokens(|tokens| {
            tokens.add(token.clone(), now())?;
            Ok(token)
        })?;
        tracing::debug!(token = token.name.as_str(), %scope, "token created");
        Ok(NewToken { token: token_info(&token), secret: SecretText(secret.to_string()) })
    }

    pub(super) fn token_list(&self) -> Vec<TokenInfo> {
        self.served().recorded.tokens.iter().map(token_info).collect()
    }

    pub(super) fn token_remove(&self, name: &str) -> Result<TokenInfo, NodeError> {
        let name: Name = name.parse().map_err(ValueError::from)?;
        let token = self.change_tokens(|tokens| Ok(tokens.remove(&name)?))?;
        tracing::debug!(token = token.name.as_str(), "token removed");
        Ok(token_info(&token))
    }

    /// Makes a change on a copy; if that succeeds, records it. The next request is checked against it.
    fn change_tokens(
        &self,
        change: impl FnOnce(&mut Tokens) -> Result<Token, NodeError>,
    ) -> Result<Token, NodeError> {
        let _one = self.one_change_of_a_caller()?;
        let mut fresh = self.copy();
        let changed = change(&mut fresh.tokens)?;
        self.record(&mut fresh)?;
        self.adopt(fresh);
        Ok(changed)
    }
}

fn token_info(token: &Token) -> TokenInfo {
    TokenInfo {
        name: token.name.to_string(),
        scope: token.scope,
        expires_at: token.expires.map(|at| at.0),
        expired: is_expired(token.expires, now()),
    }
}
