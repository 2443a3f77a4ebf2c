//! The URL of a node's direct door.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The default port of `nearflash serve --direct`.
const PORT_DEFAULT: u16 = 4421;
/// The end of a Unix socket's path, which separates it from the volume.
const SOCKET_SUFFIX: &str = ".sock";

/// `direct://HOST:PORT[/VOLUME]` or `direct+local:PATH.sock[/VOLUME]`, optionally followed by a
/// question mark and the options `digest=header,data`, `key=ID` and `secret-file=PATH`, separated
/// by `&`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Url {
    /// The node's address.
    pub place: Place,
    /// The volume, if one is named.
    pub volume: Option<String>,
    /// Whether every header has a checksum.
    pub header_digest: bool,
    /// Whether all payload has a checksum.
    pub data_digest: bool,
    /// The key id of the credential.
    pub key: Option<String>,
    /// The file of its secret.
    pub secret_file: Option<PathBuf>,
}

/// The address of a node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Place {
    /// A TCP address.
    Tcp {
        /// The host name or IP address.
        host: String,
        /// TCP port.
        port: u16,
    },
    /// A Unix socket on this machine, over which shared memory can be set up.
    Local(PathBuf),
}

/// The error of a text that is not a direct URL.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum UrlError {
    /// The scheme is missing or another one.
    #[error(
        "'{text}' is not a valid direct URL: write direct://HOST:PORT/VOLUME or \
         direct+local:PATH.sock/VOLUME"
    )]
    Scheme {
        /// The text.
        text: String,
    },
    /// The host is missing.
    #[error(
        "'{text}' names no host: write direct://HOST:PORT/VOLUME, for example \
         direct://[::1]:4421/data"
    )]
    NoHost {
        /// The text.
        text: String,
    },
    /// The port is not valid.
    #[error("'{text}' is not a valid TCP port: write a number from 1 to 65535, usually 4421")]
    Port {
        /// The text.
        text: String,
    },
    /// The path does not end in `.sock`.
    #[error(
        "'{text}' names no socket: write direct+local:PATH.sock/VOLUME, the path ending in .sock"
    )]
    NoSocket {
        /// The text.
        text: String,
    },
    /// The option does not exist.
    #[error(
        "'{key}' is not a valid option of a direct URL: use digest=header,data, key=ID or \
         secret-file=PATH"
    )]
    UnknownKey {
        /// The option.
        key: String,
    },
    /// The option does not have this value.
    #[error("'{value}' is not a valid value of {key}: use {expected}")]
    Value {
        /// The option.
        key: &'static str,
        /// The value.
        value: String,
        /// The valid values.
        expected: &'static str,
    },
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let (body, query) = text.split_once('?').unwrap_or((text, ""));
        let (place, volume) = if let Some(rest) = body.strip_prefix("direct://") {
            parse_tcp(text, rest)?
        } else if let Some(rest) = body.strip_prefix("direct+local:") {
            parse_local(text, rest)?
        } else {
            return Err(UrlError::Scheme { text: text.to_owned() });
        };
        let volume = Some(volume).filter(|name| !name.is_empty()).map(str::to_owned);
        let mut url = Self {
            place,
            volume,
            header_digest: false,
            data_digest: false,
            key: None,
            secret_file: None,
        };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            url.apply_option(key, value)?;
        }
        Ok(url)
    }
}

impl Url {
    fn apply_option(&mut self, key: &str, value: &str) -> Result<(), UrlError> {
        let refused = |key, expected| UrlError::Value { key, value: value.to_owned(), expected };
        match key {
            "digest" => {
                for digest in value.split(',') {
                    match digest {
                        "header" => self.header_digest = true,
                        "data" => self.data_digest = true,
                        _ => return Err(refused("digest", "header, data or header,data")),
                    }
                }
            }
            "key" if value.is_empty() => {
                return Err(refused("key", "the ID given to `nearflash credential create`"));
            }
            "key" => self.key = Some(value.to_owned()),
            "secret-file" if value.is_empty() => {
                return Err(refused("secret-file", "the path of a file that holds the secret"));
            }
            "secret-file" => self.secret_file = Some(PathBuf::from(value)),
            _ => return Err(UrlError::UnknownKey { key: key.to_owned() }),
        }
        Ok(())
    }
}

fn parse_tcp<'a>(text: &str, rest: &'a str) -> Result<(Place, &'a str), UrlError> {
    let (authority, volume) = rest.split_once('/').unwrap_or((rest, ""));
    let no_host = || UrlError::NoHost { text: text.to_owned() };
    // An IPv6 address is in brackets, since it has colons itself.
    let (host, port) = match authority.strip_prefix('[') {
        Some(inside) => {
            let (host, after) = inside.split_once(']').ok_or_else(no_host)?;
            (host, after.strip_prefix(':'))
        }
        None => match authority.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    if host.is_empty() {
        return Err(no_host());
    }
    let port = port.map_or(Ok(PORT_DEFAULT), |digits| {
        let port = digits.parse().ok().filter(|port| *port != 0);
        port.ok_or_else(|| UrlError::Port { text: digits.to_owned() })
    })?;
    Ok((Place::Tcp { host: host.to_owned(), port }, volume))
}

/// The path ends with the last `.sock` that is followed by a slash, or with the text.
fn parse_local<'a>(text: &str, rest: &'a str) -> Result<(Place, &'a str), UrlError> {
    let (path, volume) = match rest.rfind(&format!("{SOCKET_SUFFIX}/")) {
        Some(at) => {
            let end = at + SOCKET_SUFFIX.len();
            (&rest[..end], &rest[end + 1..])
        }
        None => (rest, ""),
    };
    let is_socket = path.ends_with(SOCKET_SUFFIX) && path != SOCKET_SUFFIX;
    if !is_socket || volume.contains('/') {
        return Err(UrlError::NoSocket { text: text.to_owned() });
    }
    Ok((Place::Local(PathBuf::from(path)), volume))
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "direct://[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "direct://{host}:{port}"),
            Self::Local(path) => write!(f, "direct+local:{}", path.display()),
        }
    }
}

/// Shows the address and the volume; options are left out.
impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.volume {
            Some(volume) => write!(f, "{}/{volume}", self.place),
            None => write!(f, "{}", self.place),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn tcp(host: &str, port: u16) -> Place {
        Place::Tcp { host: host.to_owned(), port }
    }

    #[test]
    fn every_form_of_url_is_read() {
        let parsed = url("direct://[::1]:4500/data?digest=header,data&key=app&secret-file=/s");
        assert_eq!(parsed.place, tcp("::1", 4500));
        assert_eq!(parsed.volume.as_deref(), Some("data"));
        assert!(parsed.header_digest && parsed.data_digest);
        assert_eq!(parsed.key.as_deref(), Some("app"));
        assert_eq!(parsed.secret_file, Some("/s".into()));
        assert_eq!(url("direct://flash").place, tcp("flash", PORT_DEFAULT));
        assert_eq!(url("direct://flash:1/").volume, None);
        let local = url("direct+local:/run/a.sock/data");
        assert_eq!(local.place, Place::Local("/run/a.sock".into()));
        assert_eq!(local.volume.as_deref(), Some("data"));
        assert_eq!(url("direct+local:a.sock").volume, None);
    }

    #[test]
    fn a_url_is_written_as_it_is_read() {
        for text in ["direct://[::1]:4500/data", "direct://flash:1", "direct+local:a.sock/data"] {
            assert_eq!(url(text).to_string(), text);
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_remedy_on_one_line() {
        let cases = [
            ("nvme-tcp://a/data", "direct://HOST:PORT/VOLUME"),
            ("direct://:1/data", "direct://HOST:PORT/VOLUME"),
            ("direct://[::1/data", "direct://HOST:PORT/VOLUME"),
            ("direct://a:0", "1 to 65535"),
            ("direct://a:http", "1 to 65535"),
            ("direct+local:/run/a", "ending in .sock"),
            ("direct+local:.sock", "ending in .sock"),
            ("direct+local:a.sock/b/c", "ending in .sock"),
            ("direct://a?depth=3", "secret-file=PATH"),
            ("direct://a?digest=both", "header,data"),
            ("direct://a?key=", "credential create"),
            ("direct://a?secret-file", "path of a file"),
        ];
        for (text, remedy) in cases {
            let message = text.parse::<Url>().unwrap_err().to_string();
            assert!(message.contains(remedy), "{text}: {message}");
            assert!(!message.contains('\n'), "{text}: {message}");
        }
    }
}
