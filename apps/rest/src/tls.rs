//! The certificate and the key of the network's door. TLS 1.2 and 1.3.
//!
//! [`Certified`] reads the files again when they have changed, so that a renewed certificate needs no restart. A pair
//! that cannot be used, for example because only one of the files is written yet, leaves the old pair.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use tokio_rustls::rustls::{Error, ServerConfig};

/// The time between two looks at the files.
const PAUSE: Duration = Duration::from_secs(1);

/// The reason why there is no TLS.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum TlsError {
    /// A file is not PEM, or cannot be read.
    #[error("{option} {}: {source}: name a readable file with {content} in PEM", path.display())]
    File { option: &'static str, path: PathBuf, content: &'static str, source: pem::Error },
    /// The certificate and the key do not fit together.
    #[error("--http-cert and --http-key: {0}: name a certificate and the key that belongs to it")]
    Pair(Error),
}

/// The version of a file: a file that is written or replaced has another one. `None` if it cannot be looked at.
type Version = Option<(u64, u64, u64, i64, i64)>;

/// A certificate and its key, as their files have them.
#[derive(Debug)]
pub struct Certified {
    cert: PathBuf,
    key: PathBuf,
    /// The last pair that could be used.
    config: Arc<ServerConfig>,
    /// The versions of the files that were read last.
    versions: [Version; 2],
    looked_at: Instant,
}

impl Certified {
    /// Reads a certificate, with those of its issuers, and its key.
    ///
    /// # Errors
    /// When a file cannot be used.
    pub fn read(cert: &Path, key: &Path, now: Instant) -> Result<Self, TlsError> {
        // Before the files are read: a file that changes meanwhile is read again.
        let versions = [version(cert), version(key)];
        let config = read(cert, key)?;
        Ok(Self { cert: cert.to_owned(), key: key.to_owned(), config, versions, looked_at: now })
    }

    /// The pair for a connection that is accepted at `now`. The files are looked at once a second at most.
    pub(crate) fn current(&mut self, now: Instant) -> Arc<ServerConfig> {
        if now.saturating_duration_since(self.looked_at) >= PAUSE {
            self.looked_at = now;
            self.follow();
        }
        Arc::clone(&self.config)
    }

    /// Reads the files again if they have changed. Each change is tried, and logged, once.
    fn follow(&mut self) {
        let versions = [version(&self.cert), version(&self.key)];
        if versions == self.versions {
            return;
        }
        self.versions = versions;
        match read(&self.cert, &self.key) {
            Ok(config) => {
                self.config = config;
                tracing::info!("http: new connections use the new certificate");
            }
            Err(error) => tracing::warn!("http: the certificate stays as it was: {error}"),
        }
    }
}

fn version(path: &Path) -> Version {
    let of = |it: Metadata| (it.dev(), it.ino(), it.len(), it.mtime(), it.mtime_nsec());
    std::fs::metadata(path).ok().map(of)
}

fn read(cert: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let refused = |option, path: &Path, content| {
        let path = path.to_owned();
        move |source| TlsError::File { option, path, content, source }
    };
    let content = "a certificate";
    let certs = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .and_then(|certs| match certs.is_empty() {
            true => Err(pem::Error::NoItemsFound),
            false => Ok(certs),
        })
        .map_err(refused("--http-cert", cert, content))?;
    let key =
        PrivateKeyDer::from_pem_file(key).map_err(refused("--http-key", key, "a private key"))?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Pair)?
        .with_no_client_auth()
        .with_single_cert(certs, key);
    let mut config = config.map_err(TlsError::Pair)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The files of a certificate.
    struct Files(tempfile::TempDir);

    impl Files {
        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        /// Replaces files by new ones, as a program that renews certificates does.
        fn renew(&self, texts: &[(&str, &str)]) {
            for (name, text) in texts {
                let fresh = self.path("fresh");
                std::fs::write(&fresh, text).unwrap();
                std::fs::rename(fresh, self.path(name)).unwrap();
            }
        }
    }

    fn made() -> (String, String) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[test]
    fn a_renewed_pair_is_used_after_a_second_and_one_that_cannot_be_leaves_the_old_one() {
        let files = Files(tempfile::tempdir().unwrap());
        let [(old_cert, old_key), (cert, key)] = [made(), made()];
        files.renew(&[("cert", &old_cert), ("key", &old_key)]);
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut certified =
            Certified::read(&files.path("cert"), &files.path("key"), start).unwrap();
        let old = certified.current(start);
        assert!(Arc::ptr_eq(&old, &certified.current(at(1_000))), "the files are the same");
        // Only one of the files is there yet.
        files.renew(&[("cert", &cert)]);
        assert!(Arc::ptr_eq(&old, &certified.current(at(1_999))), "nobody looks");
        assert!(Arc::ptr_eq(&old, &certified.current(at(2_000))), "the pair does not fit");
        assert_eq!(certified.versions[0], version(&files.path("cert")), "it is not tried again");
        files.renew(&[("key", &key)]);
        let new = certified.current(at(3_000));
        assert!(!Arc::ptr_eq(&old, &new));
        // A file that is gone.
        std::fs::remove_file(files.path("key")).unwrap();
        assert!(Arc::ptr_eq(&new, &certified.current(at(4_000))));
        files.renew(&[("key", &key)]);
        assert!(!Arc::ptr_eq(&new, &certified.current(at(5_000))), "it is read again");
    }
}
