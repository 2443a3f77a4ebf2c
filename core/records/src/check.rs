//! The properties of outside input, as functions for tests and fuzzers. Each panics when its property does
//! not hold.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nearflash_units::UnixTime;

use crate::token::{MAGIC, Token};

/// Any file is refused, or is a token that is written as it was read.
///
/// # Panics
/// When the property does not hold.
pub fn check_token(file: &[u8]) {
    // The sum is made right, so that the content is examined, too.
    let json = std::str::from_utf8(file).unwrap_or_default().as_bytes();
    let sum = crc32c::crc32c(json).to_be_bytes();
    let text = STANDARD.encode([&MAGIC[..], &sum, json].concat());
    for file in [file, text.as_bytes()] {
        if let Ok(token) = Token::decode(file) {
            let _ = token.check_time(UnixTime(0));
            assert_eq!(Token::decode(token.encode().as_bytes()), Ok(token));
        }
    }
}
