//! The syntax that the URLs of all targets share: `SCHEME://HOST[:PORT][/NAME][?KEY=VALUE[&...]]`,
//! a subset of RFC 3986.
//!
//! Invariant: each part is percent-decoded once, after the URL has been divided at its separators.
//! A `%2F` is therefore never a separator.

use std::fmt::{self, Write as _};
use std::net::Ipv6Addr;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// A scheme of URLs that name a TCP address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Scheme {
    /// The text before `://`.
    pub name: &'static str,
    /// The default port.
    pub port: u16,
    /// The description of the path in messages: `VOLUME` or `NAME`.
    pub path: &'static str,
}

/// The error of a text that is not a valid URL.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum UrlError {
    /// The scheme is missing or another one.
    #[error(
        "'{text}' is not a valid direct URL: write direct://HOST:PORT/VOLUME, \
         direct+tls://HOST:PORT/VOLUME or direct+local:PATH.sock/VOLUME"
    )]
    Scheme { text: String },
    /// The host is missing.
    #[error("'{text}' names no host: write {}", form(.scheme))]
    NoHost { text: String, scheme: &'static Scheme },
    /// The host is neither a name nor an address.
    #[error(
        "'{host}' is not a valid host: an IPv6 address is in brackets, and nothing else has \
         colons; write {}", form(.scheme)
    )]
    Host { host: String, scheme: &'static Scheme },
    /// The port is not valid.
    #[error(
        "'{text}' is not a valid TCP port: write a number from 1 to 65535, usually {}",
        .scheme.port
    )]
    Port { text: String, scheme: &'static Scheme },
    /// The path does not end in `.sock`.
    #[error(
        "'{text}' names no socket: write direct+local:PATH.sock/VOLUME, the path ending in .sock"
    )]
    NoSocket { text: String },
    /// A percent sign is not followed by two digits, or the decoded bytes are not UTF-8.
    #[error(
        "'{part}' is not percent-encoded UTF-8: write two hexadecimal digits after each percent \
         sign, and %25 for the percent sign itself"
    )]
    Encoding { part: String },
    /// The option does not exist.
    #[error("'{key}' is not a valid option of this URL: use {expected}")]
    UnknownKey { key: String, expected: &'static str },
    /// The token of the seal is not one.
    #[error(transparent)]
    Seal(nearflash_direct::wire::TokenError),
    /// The option does not have this value.
    #[error("'{value}' is not a valid value of {key}: use {expected}")]
    Value { key: &'static str, value: String, expected: &'static str },
}

fn form(Scheme { name, port, path }: &Scheme) -> String {
    format!("{name}://HOST:PORT/{path}, for example {name}://[::1]:{port}/data")
}

impl Scheme {
    /// Divides `rest`, which follows the scheme in the URL `text`, into the host, the port and the
    /// encoded path.
    ///
    /// # Errors
    /// When the host is missing, or the host or the port is not valid.
    pub fn divide<'a>(
        &'static self,
        text: &str,
        rest: &'a str,
    ) -> Result<(String, u16, &'a str), UrlError> {
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        // An IPv6 address is in brackets, since it has colons itself.
        let host_end = match authority.starts_with('[') {
            true => authority.find(']').map_or(0, |at| at + 1),
            false => authority.rfind(':').unwrap_or(authority.len()),
        };
        let (host, port) = authority.split_at(host_end);
        if host.is_empty() {
            return Err(UrlError::NoHost { text: text.to_owned(), scheme: self });
        }
        Ok((self.host(host)?, self.port(port)?, path))
    }

    fn host(&'static self, text: &str) -> Result<String, UrlError> {
        let address = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let host = decode(address.unwrap_or(text))?;
        let is_ipv6 = address_of_zone(&host).parse::<Ipv6Addr>().is_ok();
        let is_valid = if address.is_some() { is_ipv6 } else { !host.contains(':') };
        is_valid
            .then_some(host)
            .ok_or_else(|| UrlError::Host { host: text.to_owned(), scheme: self })
    }

    /// The port in the text after the host.
    fn port(&'static self, text: &str) -> Result<u16, UrlError> {
        if text.is_empty() {
            return Ok(self.port);
        }
        let port = text.strip_prefix(':').and_then(|digits| digits.parse().ok());
        port.filter(|port| *port != 0).ok_or_else(|| UrlError::Port {
            text: text.trim_start_matches(':').to_owned(),
            scheme: self,
        })
    }
}

/// An IPv6 address without its zone: RFC 4007, 11.
fn address_of_zone(host: &str) -> &str {
    host.split_once('%').map_or(host, |(address, _)| address)
}

/// The options of a URL: keys and decoded values, in their order.
pub type Options<'a> = Vec<(&'a str, String)>;

/// Divides a URL at the question mark: the encoded text before it, and the options behind it, with
/// their values decoded.
///
/// # Errors
/// When a value is not percent-encoded.
pub fn split_options(text: &str) -> Result<(&str, Options<'_>), UrlError> {
    let (body, query) = text.split_once('?').unwrap_or((text, ""));
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let options = pairs.map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        Ok((key, decode(value)?))
    });
    Ok((body, options.collect::<Result<_, _>>()?))
}

/// Decodes a part of a URL that is text: RFC 3986, 2.1.
///
/// # Errors
/// When it is not percent-encoded UTF-8.
pub fn decode(part: &str) -> Result<String, UrlError> {
    let bytes = decode_bytes(part)?;
    String::from_utf8(bytes).map_err(|_| UrlError::Encoding { part: part.to_owned() })
}

/// Decodes a part of a URL that need not be text: `%FF` is a byte.
///
/// # Errors
/// When a percent sign is not followed by two hexadecimal digits.
pub fn decode_bytes(part: &str) -> Result<Vec<u8>, UrlError> {
    let wrong = || UrlError::Encoding { part: part.to_owned() };
    let mut pieces = part.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let (digits, rest) = piece.split_at_checked(2).ok_or_else(wrong)?;
        let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let byte = u8::from_str_radix(digits, 16).ok().filter(|_| is_hex);
        bytes.push(byte.ok_or_else(wrong)?);
        bytes.extend(rest.bytes());
    }
    Ok(bytes)
}

/// Encodes a path of any bytes, so that only unreserved characters and slashes are left: RFC 3986, 2.3.
pub fn encode_bytes(path: &[u8]) -> String {
    let mut text = String::with_capacity(path.len());
    for byte in path {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                text.push(char::from(*byte));
            }
            _ => text += &format!("%{byte:02X}"),
        }
    }
    text
}

/// A part of a URL, encoded where it would not be read as it is written.
#[derive(Clone, Copy, Debug)]
pub enum Encoded<'a> {
    /// A host, in brackets if it is an IPv6 address.
    Host(&'a str),
    /// A name, whose slashes are encoded.
    Name(&'a str),
    /// A path of the file system, whose slashes are not.
    Path(&'a str),
}

impl fmt::Display for Encoded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Host(text) | Self::Name(text) | Self::Path(text)) = *self;
        if matches!(self, Self::Host(_)) && text.contains(':') {
            return write!(f, "[{}]", Self::Name(text));
        }
        for letter in text.chars() {
            let is_plain = match letter {
                '/' => matches!(self, Self::Path(_)),
                '%' | '?' | '&' => false,
                _ => !letter.is_ascii_control() && letter != ' ',
            };
            match is_plain {
                true => f.write_char(letter)?,
                // Only ASCII is encoded, so the letter is one byte.
                false => write!(f, "%{:02X}", u32::from(letter))?,
            }
        }
        Ok(())
    }
}

/// Reads the option `digest`: whether headers are digested, and whether data is.
///
/// # Errors
/// When it names anything else.
pub fn digests(value: &str) -> Result<(bool, bool), UrlError> {
    let (mut header, mut data) = (false, false);
    for digest in value.split(',') {
        match digest {
            "header" => header = true,
            "data" => data = true,
            _ => return Err(refused("digest", value, "header, data or header,data")),
        }
    }
    Ok((header, data))
}

/// Reads the value of the option `key`, a number within `valid`, which `expected` describes.
///
/// # Errors
/// When it is not.
pub fn number<T: FromStr + PartialOrd>(
    (key, value): (&'static str, &str),
    valid: RangeInclusive<T>,
    expected: &'static str,
) -> Result<T, UrlError> {
    let number = value.parse().ok().filter(|number| valid.contains(number));
    number.ok_or_else(|| refused(key, value, expected))
}

/// The value of the option `key`, which must not be empty.
///
/// # Errors
/// When it is; `expected` describes the valid values.
pub fn not_empty(
    (key, value): (&'static str, String),
    expected: &'static str,
) -> Result<String, UrlError> {
    match value.is_empty() {
        true => Err(refused(key, &value, expected)),
        false => Ok(value),
    }
}

fn refused(key: &'static str, value: &str, expected: &'static str) -> UrlError {
    UrlError::Value { key, value: value.to_owned(), expected }
}

#[cfg(test)]
mod tests {
    use super::*;

    static SCHEME: Scheme = Scheme { name: "direct", port: 4421, path: "VOLUME" };

    fn divided(rest: &str) -> Result<(String, u16, &str), UrlError> {
        SCHEME.divide(rest, rest)
    }

    #[test]
    fn an_ipv6_address_is_in_brackets_with_its_zone() {
        for (text, host, port) in [
            ("[::1]", "::1", 4421),
            ("[fe80::1%25eth0]:1", "fe80::1%eth0", 1),
            ("a:65535", "a", 65535),
            ("192.0.2.1", "192.0.2.1", 4421),
        ] {
            assert_eq!(divided(text), Ok((host.to_owned(), port, "")));
            let shown = Encoded::Host(host).to_string();
            assert_eq!(divided(&shown), Ok((host.to_owned(), 4421, "")));
        }
        for text in ["::1", "::1:4421", "[a]", "[::g]:1", "a:b:1", "a%3Ab"] {
            assert!(matches!(divided(text), Err(UrlError::Host { .. })), "{text}");
        }
        for text in ["", ":1", "[::1", "[", "/data"] {
            assert!(matches!(divided(text), Err(UrlError::NoHost { .. })), "{text}");
        }
        for text in ["[::1]4421", "a:", "a:65536", "a:0", "a:-1", "[::1]:http"] {
            assert!(matches!(divided(text), Err(UrlError::Port { .. })), "{text}");
        }
    }

    #[test]
    fn a_part_is_decoded_once_and_after_the_division() {
        let text = "a/b%2Fc%3F%252F?key=%26&other=%3D=+";
        let (body, options) = split_options(text).unwrap();
        assert_eq!(options, [("key", "&".to_owned()), ("other", "==+".to_owned())]);
        let (_, _, path) = divided(body).unwrap();
        assert_eq!(decode(path).unwrap(), "b/c?%2F");
        assert_eq!(decode("gr%C3%BCn/é").unwrap(), "grün/é");
        for text in ["%", "a%2", "%zz", "%+1", "%é0", "%ff", "100%.sock"] {
            let message = decode(text).unwrap_err().to_string();
            assert!(message.contains(text) && message.contains("%25"), "{message}");
        }
    }

    #[test]
    fn any_bytes_are_encoded_and_decoded_to_themselves() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decode_bytes(&encode_bytes(&all)).unwrap(), all);
        assert_eq!(encode_bytes(b"/a b/\xFF\n%?~"), "/a%20b/%FF%0A%25%3F~");
        for text in ["%", "a%2", "%zz", "%+1"] {
            assert!(decode_bytes(text).unwrap_err().to_string().contains(text));
        }
    }

    #[test]
    fn what_is_encoded_is_decoded_to_itself() {
        for text in ["data", "iqn.x:a,b", "a/b?c&d=e%20f", "a b\n", "grün", ""] {
            for shown in [Encoded::Name(text), Encoded::Path(text)].map(|part| part.to_string()) {
                assert_eq!(decode(&shown).unwrap(), text);
                assert!(!shown.contains(['?', '&', ' ', '\n']), "{shown}");
            }
        }
        assert_eq!(Encoded::Name("iqn.x:a").to_string(), "iqn.x:a");
        assert_eq!(Encoded::Name("a/b").to_string(), "a%2Fb");
        assert_eq!(Encoded::Path("/run/a b.sock").to_string(), "/run/a%20b.sock");
    }
}
