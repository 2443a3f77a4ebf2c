//! The keys of a connection's records, for a kernel that encrypts and decrypts them.
//!
//! OpenSSL does not return these keys. It reports the secrets that they are derived from, for programs that decode captured
//! packets. A report is one line, "LABEL CLIENT_RANDOM SECRET", in hexadecimal digits. RFC 9850.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Sha256, Sha384};
use zeroize::{Zeroize, Zeroizing};

use crate::key::{DirectionKeys, IV_LEN, Suite, TrafficKeys};

const CLIENT_LABEL: &[u8] = b"CLIENT_TRAFFIC_SECRET_0";
const SERVER_LABEL: &[u8] = b"SERVER_TRAFFIC_SECRET_0";

/// The application traffic secrets of a connection. RFC 8446, 7.1.
#[derive(Default)]
pub(crate) struct Secrets {
    client: Option<Zeroizing<Vec<u8>>>,
    server: Option<Zeroizing<Vec<u8>>>,
}

impl Secrets {
    /// Keeps the secret of a line, if it is one of the two.
    pub(crate) fn read(&mut self, line: &[u8]) {
        let mut words = line.split(u8::is_ascii_whitespace);
        let place = match words.next() {
            Some(CLIENT_LABEL) => &mut self.client,
            Some(SERVER_LABEL) => &mut self.server,
            _ => return,
        };
        *place = words.nth(1).and_then(bytes_of);
    }

    /// The keys of the server's records; `None` if a secret is missing or not one of this suite.
    pub(crate) fn of_server(&self, suite: Suite) -> Option<TrafficKeys> {
        let [client, server] = [&self.client, &self.server].map(|secret| {
            let secret = secret.as_deref()?;
            (secret.len() == digest_len(suite)).then(|| direction(suite, secret))
        });
        Some(TrafficKeys { suite, send: server?, receive: client? })
    }
}

/// The key and the initialization vector of one direction. RFC 8446, 7.3.
fn direction(suite: Suite, secret: &[u8]) -> DirectionKeys {
    let mut iv = Zeroizing::new([0; IV_LEN]);
    iv.copy_from_slice(&expand(suite, secret, b"iv", IV_LEN));
    DirectionKeys { key: expand(suite, secret, b"key", suite.key_len()), iv }
}

/// HKDF-Expand-Label without a context, to at most one digest. RFC 8446, 7.1; RFC 5869, 2.3.
fn expand(suite: Suite, secret: &[u8], label: &[u8], len: usize) -> Zeroizing<Vec<u8>> {
    let [one, two] = u16::try_from(len).expect("a key is short").to_be_bytes();
    let label = [b"tls13 ", label].concat();
    let label_len = u8::try_from(label.len()).expect("a label is short");
    let info = [&[one, two, label_len], &label[..], &[0, 1]].concat();
    let mut expanded = match suite {
        Suite::Aes128Sha256 => digest::<Hmac<Sha256>>(secret, &info),
        Suite::Aes256Sha384 => digest::<Hmac<Sha384>>(secret, &info),
    };
    expanded.truncate(len);
    expanded
}

fn digest<M: Mac + KeyInit>(key: &[u8], bytes: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut mac = <M as KeyInit>::new_from_slice(key).expect("HMAC has keys of any length");
    mac.update(bytes);
    let mut digest = mac.finalize().into_bytes();
    let kept = Zeroizing::new(digest.to_vec());
    digest.as_mut_slice().zeroize();
    kept
}

const fn digest_len(suite: Suite) -> usize {
    match suite {
        Suite::Aes128Sha256 => 32,
        Suite::Aes256Sha384 => 48,
    }
}

/// The bytes of hexadecimal digits.
fn bytes_of(digits: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let (pairs, []) = digits.as_chunks::<2>() else { return None };
    let mut bytes = Zeroizing::new(Vec::with_capacity(pairs.len()));
    for pair in pairs {
        let [high, low] = pair.map(|digit| char::from(digit).to_digit(16));
        bytes.push(u8::try_from(high? * 16 + low?).ok()?);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The connection of RFC 8448, 3.
    const LINES: [&[u8]; 3] = [
        b"SERVER_HANDSHAKE_TRAFFIC_SECRET 00 11",
        b"CLIENT_TRAFFIC_SECRET_0 00 \
          9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5",
        b"SERVER_TRAFFIC_SECRET_0 00 \
          a11af9f05531f856ad47116b45a950328204b4f44bfb6b3a4b4f1f3fcb631643",
    ];

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn the_keys_are_those_of_rfc_8448() {
        let mut secrets = Secrets::default();
        LINES.iter().for_each(|line| secrets.read(line));
        let keys = secrets.of_server(Suite::Aes128Sha256).unwrap();
        assert_eq!(hex(&keys.send.key), "9f02283b6c9c07efc26bb9f2ac92e356");
        assert_eq!(hex(&*keys.send.iv), "cf782b88dd83549aadf1e984");
        assert_eq!(hex(&keys.receive.key), "17422dda596ed5d9acd890e3c63f5051");
        assert_eq!(hex(&*keys.receive.iv), "5b78923dee08579033e523d9");
    }

    #[test]
    fn secrets_that_are_missing_or_broken_or_of_another_suite_have_no_keys() {
        let mut secrets = Secrets::default();
        assert!(secrets.of_server(Suite::Aes128Sha256).is_none());
        LINES.iter().for_each(|line| secrets.read(line));
        assert!(secrets.of_server(Suite::Aes256Sha384).is_none());
        for line in [&b"CLIENT_TRAFFIC_SECRET_0 00 9"[..], b"CLIENT_TRAFFIC_SECRET_0 00 zz", b""] {
            secrets.read(line);
        }
        assert!(secrets.of_server(Suite::Aes128Sha256).is_none());
    }
}
