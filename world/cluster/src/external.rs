//! An etcd that exists already. nearflash uses it, and neither starts nor supervises it.
//!
//! Without TLS, anyone on the network between could read the cluster's state and change it. So an
//! etcd without TLS is used only over the loopback network, or if the operator asks for it.

use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use nearflash_records::token::{Certificates, ENDPOINTS_MAX, External, Keyed, Tls};
use nearflash_records::{Endpoint, ParseEndpointError};

use super::error::ClusterError;
use super::member::Folder;

const PREFIX_LEN_MAX: usize = 200;

/// An etcd that exists already: the value of `--etcd`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EtcdUrl {
    /// Its addresses.
    pub(super) endpoints: Vec<Endpoint>,
    /// Before the name of each key.
    pub(super) prefix: String,
    ca: Option<PathBuf>,
    own: Option<(PathBuf, PathBuf)>,
}

/// Error: a text is not the URL of an etcd.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ParseEtcdUrlError {
    /// It has another form.
    #[error(
        "write etcd://HOST:PORT,HOST:PORT[?ca=FILE&cert=FILE&key=FILE&prefix=/NAME], with 1 to {ENDPOINTS_MAX} addresses"
    )]
    Form,
    /// An address is not one.
    #[error(transparent)]
    Endpoint(#[from] ParseEndpointError),
    /// A parameter is unknown, or is there twice.
    #[error("'{0}' is not a parameter, or is there twice: write ca, cert, key, prefix or insecure")]
    Parameter(Box<str>),
    /// The certificate and its key belong together, and to TLS.
    #[error(
        "cert=FILE and key=FILE belong together, and need ca=FILE, which makes the connections TLS"
    )]
    Pair,
    /// The prefix is not the start of a key.
    #[error(
        "prefix={0}: write a path such as /lab, without a slash at its end, of 200 characters at most"
    )]
    Prefix(Box<str>),
    /// The connections would have no TLS.
    #[error(
        "{0} is not on this machine, and without TLS anyone on the network could read and change the \
         cluster: name etcd's authority with ca=FILE, or add 'insecure' if nobody else uses the network"
    )]
    NoTls(Endpoint),
    /// There is a certificate and a permission to do without.
    #[error("ca=FILE and insecure contradict each other: leave one of them out")]
    Contradiction,
}

impl FromStr for EtcdUrl {
    type Err = ParseEtcdUrlError;

    fn from_str(text: &str) -> Result<Self, ParseEtcdUrlError> {
        let rest = text.strip_prefix("etcd://").ok_or(ParseEtcdUrlError::Form)?;
        let (addresses, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let addresses = addresses.strip_suffix('/').unwrap_or(addresses);
        if addresses.is_empty() {
            return Err(ParseEtcdUrlError::Form);
        }
        let mut endpoints: Vec<Endpoint> = Vec::new();
        for address in addresses.split(',') {
            let endpoint = address.parse()?;
            if !endpoints.contains(&endpoint) {
                endpoints.push(endpoint);
            }
        }
        if endpoints.len() > ENDPOINTS_MAX {
            return Err(ParseEtcdUrlError::Form);
        }
        Parameters::parse(parameters)?.url(endpoints)
    }
}

/// The parameters of a URL.
#[derive(Default)]
struct Parameters<'a> {
    ca: Option<&'a str>,
    cert: Option<&'a str>,
    key: Option<&'a str>,
    prefix: Option<&'a str>,
    insecure: Option<&'a str>,
}

impl<'a> Parameters<'a> {
    fn parse(text: &'a str) -> Result<Self, ParseEtcdUrlError> {
        let mut found = Self::default();
        for parameter in text.split('&').filter(|it| !it.is_empty()) {
            let unknown = || ParseEtcdUrlError::Parameter(parameter.into());
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let place = match name {
                "ca" => &mut found.ca,
                "cert" => &mut found.cert,
                "key" => &mut found.key,
                "prefix" => &mut found.prefix,
                "insecure" => &mut found.insecure,
                _ => return Err(unknown()),
            };
            if value.is_empty() != (name == "insecure") || place.replace(value).is_some() {
                return Err(unknown());
            }
        }
        Ok(found)
    }

    fn url(self, endpoints: Vec<Endpoint>) -> Result<EtcdUrl, ParseEtcdUrlError> {
        let prefix = self.prefix.unwrap_or_default();
        check_prefix(prefix)?;
        let own = match (self.ca, self.cert, self.key) {
            (_, None, None) => None,
            (Some(_), Some(cert), Some(key)) => Some((cert.into(), key.into())),
            _ => return Err(ParseEtcdUrlError::Pair),
        };
        if self.ca.is_some() && self.insecure.is_some() {
            return Err(ParseEtcdUrlError::Contradiction);
        }
        let far = endpoints.iter().find(|it| !it.is_loopback());
        if let Some(far) = far.filter(|_| self.ca.is_none() && self.insecure.is_none()) {
            return Err(ParseEtcdUrlError::NoTls(far.clone()));
        }
        Ok(EtcdUrl { endpoints, prefix: prefix.to_owned(), ca: self.ca.map(PathBuf::from), own })
    }
}

fn check_prefix(prefix: &str) -> Result<(), ParseEtcdUrlError> {
    let is_plain = prefix.chars().all(|c| c.is_ascii_graphic());
    let is_path = prefix.starts_with('/') && !prefix.ends_with('/') && !prefix.contains("//");
    let is_prefix = is_plain && is_path && prefix.len() <= PREFIX_LEN_MAX;
    if prefix.is_empty() || is_prefix {
        return Ok(());
    }
    Err(ParseEtcdUrlError::Prefix(prefix.into()))
}

impl EtcdUrl {
    /// The kind of the connections.
    pub(super) fn external(&self) -> External {
        let tls = match (&self.ca, &self.own) {
            (None, _) => Tls::None,
            (Some(_), None) => Tls::Server,
            (Some(_), Some(_)) => Tls::Mutual,
        };
        External { prefix: self.prefix.clone(), tls }
    }

    /// Reads the files that it names.
    pub(super) fn read(&self) -> Result<Certificates, ClusterError> {
        let read = |name, path: &Option<&PathBuf>, kind: &str| match path {
            None => Ok(String::new()),
            Some(path) => read_pem(name, path, kind),
        };
        let (certificate, key) = self.own.as_ref().map(|(cert, key)| (cert, key)).unzip();
        Ok(Certificates {
            authority: read("ca", &self.ca.as_ref(), "CERTIFICATE")?,
            own: Keyed {
                certificate: read("cert", &certificate, "CERTIFICATE")?,
                key: read("key", &key, "PRIVATE KEY")?,
            },
        })
    }
}

fn read_pem(name: &'static str, path: &Path, kind: &str) -> Result<String, ClusterError> {
    let failed = |source| ClusterError::EtcdFile { name, path: path.to_owned(), source };
    let text = std::fs::read_to_string(path).map_err(failed)?;
    let is_begin = |line: &str| line.starts_with("-----BEGIN ") && line.contains(kind);
    if text.lines().any(is_begin) {
        return Ok(text);
    }
    let missing = io::Error::other(format!("it has no '{kind}' in PEM"));
    Err(failed(missing))
}

/// Keeps the certificates in the folder, where [`super::access::Way`] finds them.
pub(super) fn keep(
    external: &External,
    folder: &Folder,
    files: &Certificates,
) -> Result<(), ClusterError> {
    if external.tls != Tls::None {
        folder.keep(&folder.authority(), files.authority.as_bytes())?;
    }
    if external.tls == Tls::Mutual {
        folder.keep(&folder.key(), files.own.key.as_bytes())?;
        folder.keep(&folder.certificate(), files.own.certificate.as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        text.parse::<EtcdUrl>().unwrap_err().to_string()
    }

    #[test]
    fn a_url_names_addresses_certificates_and_a_prefix() {
        let url: EtcdUrl =
            "etcd://a.example:2379,192.0.2.2?ca=/c&cert=/d&key=/e&prefix=/lab".parse().unwrap();
        let endpoints: Vec<String> = url.endpoints.iter().map(ToString::to_string).collect();
        assert_eq!(endpoints, ["a.example:2379", "192.0.2.2:2379"]);
        assert_eq!(url.external(), External { prefix: "/lab".to_owned(), tls: Tls::Mutual });
        let url: EtcdUrl = "etcd://192.0.2.2?ca=/c".parse().unwrap();
        assert_eq!(url.external(), External { prefix: String::new(), tls: Tls::Server });
        for plain in ["etcd://127.0.0.1:2379", "etcd://localhost/", "etcd://192.0.2.2?insecure"] {
            assert_eq!(plain.parse::<EtcdUrl>().unwrap().external().tls, Tls::None, "{plain}");
        }
    }

    #[test]
    fn connections_without_tls_to_other_machines_are_asked_for() {
        let far = refused("etcd://127.0.0.1,192.0.2.2?prefix=/lab");
        assert!(far.contains("192.0.2.2:2379") && far.contains("ca=FILE"), "{far}");
        assert!(refused("etcd://192.0.2.2?ca=/c&insecure").contains("contradict"));
    }

    #[test]
    fn another_text_is_refused_by_name() {
        for wrong in ["", "etcd://", "http://127.0.0.1", "127.0.0.1:2379"] {
            assert!(refused(wrong).starts_with("write etcd://"), "{wrong}");
        }
        assert!(refused("etcd://127.0.0.1,,").contains("'' is not the address"));
        for wrong in ["ca=", "insecure=1", "colour=red", "ca=/a&ca=/b"] {
            let message = refused(&format!("etcd://127.0.0.1?{wrong}"));
            assert!(message.contains("is not a parameter"), "{message}");
        }
        for wrong in ["cert=/c", "cert=/c&key=/k", "ca=/a&cert=/c", "ca=/a&key=/k"] {
            let message = refused(&format!("etcd://127.0.0.1?{wrong}"));
            assert!(message.contains("belong together"), "{message}");
        }
        for wrong in ["lab", "/lab/", "/a//b", "/", "/ü"] {
            let message = refused(&format!("etcd://127.0.0.1?prefix={wrong}"));
            assert!(message.contains("write a path such as /lab"), "{message}");
        }
    }
}
