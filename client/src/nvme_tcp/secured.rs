//! TLS of a host: its configured PSK, from which each connection's key and identity are derived.
//!
//! Spec: NVMe/TCP Transport 1.0, 3.6.1. The names in an identity are those of the host and of the
//! subsystem, so the queues of one controller share an identity, and discovery has another one.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nearflash_nvme::Nqn;
use nearflash_nvme::tls::{Derivation, DeriveError, Psk, PskError, Suite, Version};
use nearflash_tls::PskKey;
use zeroize::Zeroizing;

use crate::builders::builders;
use crate::stream::TlsKey;

/// The maximum number of bytes that are read from a PSK's file, which holds the PSK and a line end.
const FILE_LEN_MAX: u64 = 4096;

/// TLS 1.3 with a pre-shared key.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Tls {
    /// The configured PSK, which the target has for this host.
    pub psk: Psk,
    /// The derivation of the key, which must be that of the target.
    pub derivation: Derivation,
    /// The version of the identity.
    pub version: Version,
}

impl Tls {
    /// This PSK, with the standard derivation and an identity of version 1.
    pub fn new(psk: Psk) -> Self {
        Self { psk, derivation: Derivation::Standard, version: Version::One }
    }

    /// The PSK in a file, in the form that `nvme gen-tls-key` prints.
    ///
    /// # Errors
    /// When the file cannot be read or does not hold a PSK.
    pub fn from_file(path: &Path) -> Result<Self, PskFileError> {
        let text = read_start(path).map_err(|source| PskFileError::File {
            path: path.to_owned(),
            source: Arc::new(source),
        })?;
        let psk = text.trim().parse();
        let psk = psk.map_err(|source| PskFileError::Psk { path: path.to_owned(), source })?;
        Ok(Self::new(psk))
    }

    /// The name of the cipher suite, which the PSK selects.
    pub const fn suite(&self) -> &'static str {
        suite_of(&self.psk).name()
    }

    /// The key between a host and a subsystem.
    pub(super) fn key(&self, host: &Nqn, subsystem: &Nqn) -> Result<TlsKey, DeriveError> {
        let Self { psk, derivation, version } = self;
        let identity = psk.identity(*derivation, *version, host, subsystem)?;
        let key = psk.tls_key(*derivation, &identity)?;
        Ok(TlsKey {
            identity: identity.to_string().into_bytes(),
            key: PskKey::new(suite_of(psk), key.bytes()),
        })
    }
}

builders!(Tls { psk: Psk, derivation: Derivation, version: Version });

const fn suite_of(psk: &Psk) -> nearflash_tls::Suite {
    match psk.suite() {
        Suite::Aes128Sha256 => nearflash_tls::Suite::Aes128Sha256,
        Suite::Aes256Sha384 => nearflash_tls::Suite::Aes256Sha384,
    }
}

/// The error of a file with a PSK. It never shows the file's contents.
#[derive(Clone, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum PskFileError {
    /// The file cannot be read.
    #[error("cannot read the PSK in {path}: {source}: correct the path or the file's permissions")]
    File { path: PathBuf, source: Arc<io::Error> },
    /// The file's contents are not a PSK.
    #[error("{path} does not hold a valid PSK: {source}")]
    Psk { path: PathBuf, source: PskError },
}

fn read_start(path: &Path) -> io::Result<Zeroizing<String>> {
    let mut text = Zeroizing::new(String::new());
    std::fs::File::open(path)?.take(FILE_LEN_MAX).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PSK: &str = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";

    /// A file that is removed with this value.
    struct File(PathBuf);

    impl File {
        fn new(name: &str, text: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("nearflash-{name}-{}", std::process::id()));
            std::fs::write(&path, text).unwrap();
            Self(path)
        }
    }

    impl Drop for File {
        fn drop(&mut self) {
            std::fs::remove_file(&self.0).unwrap();
        }
    }

    #[test]
    fn the_identity_names_the_host_and_the_subsystem_of_the_connection() {
        let file = File::new("psk", &format!("{PSK}\n"));
        let tls = Tls::from_file(&file.0).unwrap();
        assert_eq!(tls.suite(), "TLS_AES_128_GCM_SHA256");
        let nqn = Nqn::new("nqn.2014-08.org.example:host").unwrap();
        let subsystem = Nqn::new("nqn.2014-08.org.example:nvme").unwrap();
        let identity = |tls: &Tls, subsystem: &Nqn| {
            String::from_utf8(tls.key(&nqn, subsystem).unwrap().identity).unwrap()
        };
        let names = "nqn.2014-08.org.example:host nqn.2014-08.org.example:nvme";
        let digest = "pGfVZR7R9eHQ5fQlm+pX+/IU6hualhtXpSdo9GZ8zAg=";
        assert_eq!(identity(&tls, &subsystem), format!("NVMe1R01 {names} {digest}"));
        let zero = tls.clone().version(Version::Zero);
        assert_eq!(identity(&zero, &subsystem), format!("NVMe0R01 {names}"));
        assert!(identity(&tls, &Nqn::discovery()).contains(Nqn::discovery().as_str()));
        let legacy = tls.clone().derivation(Derivation::Legacy);
        assert_ne!(identity(&legacy, &subsystem), identity(&tls, &subsystem));
    }

    #[test]
    fn a_file_without_a_psk_is_named_without_its_contents() {
        let file = File::new("not-psk", &PSK.replace("VRLb", "VRLc"));
        let message = Tls::from_file(&file.0).unwrap_err().to_string();
        assert!(message.contains(&*file.0.to_string_lossy()), "{message}");
        assert!(message.contains("checksum") && !message.contains("VRLc"), "{message}");
        let missing = Tls::from_file(Path::new("/nowhere/psk")).unwrap_err().to_string();
        assert!(missing.contains("/nowhere/psk"), "{missing}");
    }
}
