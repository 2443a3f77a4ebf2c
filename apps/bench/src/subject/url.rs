//! A target as a URL that can be given again, with its options.

use std::path::Path;

use nearflash::direct::Url;
use nearflash::nvme_tcp::Derivation;
use nearflash::url::Encoded;

use super::{IscsiTarget, NvmeTcpTarget, Target};

impl Target {
    /// The target with its options, except for defaults. Accounts are omitted, since they are not
    /// part of the target's identity. TLS is part of it, since it changes the results.
    pub fn url(&self) -> String {
        let options = match self {
            Self::NvmeTcp(target) => nvme_tcp(target),
            Self::Iscsi(target) => iscsi(target),
            Self::Direct(url) => direct(url),
            Self::File(_) | Self::Null(_) | Self::Floor(_) | Self::Relay(_) => Vec::new(),
        };
        match options.is_empty() {
            true => self.to_string(),
            false => format!("{self}?{}", options.join("&")),
        }
    }
}

fn nvme_tcp(target: &NvmeTcpTarget) -> Vec<String> {
    let NvmeTcpTarget { namespace, queues, header_digest, data_digest, host_nqn, tls, .. } = target;
    let name = |key: &str, value: &str| format!("{key}={}", Encoded::Name(value));
    let options = [
        (*namespace != 1).then(|| format!("ns={namespace}")),
        digest(*header_digest, *data_digest),
        (*queues != 1).then(|| format!("queues={queues}")),
        host_nqn.as_ref().map(|nqn| name("host-nqn", nqn)),
        tls.as_ref().map(|tls| format!("psk-file={}", path(&tls.path))),
        tls.as_ref()
            .filter(|tls| tls.derivation != Derivation::default())
            .map(|tls| format!("psk-derivation={}", tls.derivation)),
    ];
    options.into_iter().flatten().collect()
}

fn iscsi(target: &IscsiTarget) -> Vec<String> {
    let IscsiTarget { sessions, connections, header_digest, data_digest, .. } = target;
    let options = [
        (*sessions != 1).then(|| format!("sessions={sessions}")),
        (*connections != 1).then(|| format!("connections={connections}")),
        digest(*header_digest, *data_digest),
    ];
    options.into_iter().flatten().collect()
}

fn direct(url: &Url) -> Vec<String> {
    digest(url.header_digest, url.data_digest).into_iter().collect()
}

/// The path of a URL, which is UTF-8.
fn path(path: &Path) -> String {
    Encoded::Path(&path.to_string_lossy()).to_string()
}

fn digest(header: bool, data: bool) -> Option<String> {
    let names = match (header, data) {
        (false, false) => return None,
        (true, false) => "header",
        (false, true) => "data",
        (true, true) => "header,data",
    };
    Some(format!("digest={names}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> String {
        let target: Target = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        let url = target.url();
        assert_eq!(url.parse(), Ok(target), "it can be typed again");
        url
    }

    #[test]
    fn options_that_make_another_target_are_in_its_url_in_one_order() {
        for (text, meant) in [
            (
                "nvme-tcp://a/data?queues=4",
                "nvme-tcp://a:4420/nqn.2026-11.io.nearflash:data?queues=4",
            ),
            (
                "nvme-tcp://a/nqn.x?queues=2&digest=data,header&ns=3",
                "nvme-tcp://a:4420/nqn.x?ns=3&digest=header,data&queues=2",
            ),
            (
                "iscsi://[::1]/iqn.x/2?digest=data&connections=4&sessions=2",
                "iscsi://[::1]:3260/iqn.x/2?sessions=2&connections=4&digest=data",
            ),
            (
                "nvme-tcp://a/nqn.x?psk-file=/run/a%26b&host-nqn=nqn.h&psk-derivation=legacy",
                "nvme-tcp://a:4420/nqn.x?host-nqn=nqn.h&psk-file=/run/a%26b&psk-derivation=legacy",
            ),
            ("nvme-tcp://[::1]/nqn.x%3F?ns=2", "nvme-tcp://[::1]:4420/nqn.x%3F?ns=2"),
            ("iscsi://a/iqn.x%2Fy/2?digest=data", "iscsi://a:3260/iqn.x%2Fy/2?digest=data"),
            ("direct://a/data?digest=header", "direct://a:4421/data?digest=header"),
            (
                "direct+local:/run/n.sock/data?digest=data",
                "direct+local:/run/n.sock/data?digest=data",
            ),
        ] {
            assert_eq!(url(text), meant);
        }
    }

    #[test]
    fn a_target_without_options_is_called_as_ever() {
        for (text, meant) in [
            ("nvme-tcp://a/data", "nvme-tcp://a:4420/nqn.2026-11.io.nearflash:data"),
            (
                "nvme-tcp://a:4420/data?queues=1&ns=1",
                "nvme-tcp://a:4420/nqn.2026-11.io.nearflash:data",
            ),
            ("iscsi://a/data?sessions=1", "iscsi://a:3260/iqn.2026-11.io.nearflash:data/0"),
            ("direct://[::1]:7400/data", "direct://[::1]:7400/data"),
            ("file:/tmp/a?b", "file:/tmp/a?b"),
            ("null:1GiB", "null:1GiB"),
            ("floor://?headers=48", "floor://?headers=48,48"),
            ("floor://relay?headers=48", "floor://relay?headers=48,48"),
        ] {
            assert_eq!(url(text), meant);
        }
    }

    #[test]
    fn who_asks_is_not_in_it() {
        let target: Target = "iscsi://a/data?user=u&secret-file=/run/u".parse().unwrap();
        assert_eq!(target.url(), "iscsi://a:3260/iqn.2026-11.io.nearflash:data/0");
        let target: Target = "direct://a/data?key=app&secret-file=/run/u".parse().unwrap();
        assert_eq!(target.url(), "direct://a:4421/data");
    }
}
