//! Files with the token of a cluster.

use std::io::Read as _;
use std::path::PathBuf;

use nearflash_records::token::{Defect, Expired, TOKEN_LEN_MAX, Token};
use zeroize::Zeroize;

/// The reason why a token cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum TokenError {
    /// The argument is not of the form `@FILE`.
    #[error(
        "write @FILE: a token is a file, because all users of a machine can see its command lines"
    )]
    NoFile,
    /// The file cannot be read.
    #[error("token file {}: {source}: correct the path or its permissions", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// The file is something else.
    #[error(
        "token file {}: it is not a token: copy the file that 'nearflash cluster init' named",
        path.display()
    )]
    NotAToken { path: PathBuf },
    /// The file is incomplete or changed.
    #[error("token file {}: it is damaged or incomplete: copy it again", path.display())]
    Damaged { path: PathBuf },
    /// The file has a later form.
    #[error(
        "token file {}: it was made by a later version of nearflash: install that version here",
        path.display()
    )]
    Later { path: PathBuf },
    /// The token is too old.
    #[error(transparent)]
    Expired(#[from] Expired),
}

/// Reads the token that the argument `@FILE` names.
///
/// # Errors
/// When there is no such file, or it is not a token.
pub fn read_token(argument: &str) -> Result<Token, TokenError> {
    let path = PathBuf::from(argument.strip_prefix('@').ok_or(TokenError::NoFile)?);
    let mut bytes = Vec::new();
    let limit = u64::try_from(TOKEN_LEN_MAX).unwrap_or(u64::MAX) + 1;
    let read = std::fs::File::open(&path).and_then(|file| file.take(limit).read_to_end(&mut bytes));
    if let Err(source) = read {
        return Err(TokenError::Read { path, source });
    }
    let decoded = Token::decode(&bytes);
    bytes.zeroize();
    decoded.map_err(|defect| match defect {
        Defect::NotAToken => TokenError::NotAToken { path },
        Defect::Damaged => TokenError::Damaged { path },
        Defect::Later => TokenError::Later { path },
    })
}
