//! Tokens of the HTTP interface.

use nearflash_access::{SECRET_LEN, Token, UnixTime, is_expired};
use nearflash_api::{
    ApiError, NewToken, OneToken, SecretText, Serve, TokenCreate, TokenInfo, TokenList,
    TokenRemove, TokenScope, Tokens,
};
use nearflash_records::local::TokenScopeRecord;
use nearflash_space::Name;

use super::{drawn, parsed};
use crate::node::{Node, now};

impl Serve<TokenCreate> for Node {
    fn serve(&self, call: TokenCreate) -> Result<NewToken, ApiError> {
        let name: Name = parsed(&call.name)?;
        let secret = Token::text_of(&*drawn::<SECRET_LEN>()?);
        let scope = match call.scope {
            TokenScope::Read => TokenScopeRecord::Read,
            TokenScope::Operate => TokenScopeRecord::Operate,
            TokenScope::Admin => TokenScopeRecord::Admin,
        };
        let expires = call.expires_at.map(UnixTime);
        let token = Token { name, hash: Token::hash_of(&secret), scope, expires };
        let info = token_info(&token);
        let ((), unconfirmed) =
            self.change_access(|fresh| Ok(fresh.tokens.add(token.clone(), now())?))?;
        tracing::debug!(token = info.name, scope = %call.scope, "token created");
        Ok(NewToken { token: info, secret: SecretText(secret.to_string()), unconfirmed })
    }
}

impl Serve<TokenList> for Node {
    fn serve(&self, _: TokenList) -> Result<Tokens, ApiError> {
        let tokens = self.served().recorded.tokens.iter().map(token_info).collect();
        Ok(Tokens { tokens })
    }
}

impl Serve<TokenRemove> for Node {
    fn serve(&self, call: TokenRemove) -> Result<OneToken, ApiError> {
        let name: Name = parsed(&call.name)?;
        let (token, unconfirmed) = self.change_access(|fresh| Ok(fresh.tokens.remove(&name)?))?;
        tracing::debug!(token = token.name.as_str(), "token removed");
        Ok(OneToken { token: token_info(&token), unconfirmed })
    }
}

/// The calls that a token permits.
pub(in crate::node) fn scope_of(token: &Token) -> TokenScope {
    match token.scope {
        TokenScopeRecord::Read => TokenScope::Read,
        TokenScopeRecord::Operate => TokenScope::Operate,
        TokenScopeRecord::Admin => TokenScope::Admin,
    }
}

fn token_info(token: &Token) -> TokenInfo {
    TokenInfo {
        name: token.name.to_string(),
        scope: scope_of(token),
        expires_at: token.expires.map(|at| at.0),
        expired: is_expired(token.expires, now()),
    }
}
