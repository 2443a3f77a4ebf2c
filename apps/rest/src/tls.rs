//! The certificate and the key of the network's door. TLS 1.2 and 1.3.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use tokio_rustls::rustls::{Error, ServerConfig};

/// The reason why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is not PEM, or cannot be read.
    #[error("{option} {}: {source}: name a readable file with {content} in PEM", path.display())]
    File {
        /// The option that names it.
        option: &'static str,
        /// The file.
        path: PathBuf,
        /// The content that it should have.
        content: &'static str,
        /// The cause.
        source: pem::Error,
    },
    /// The certificate and the key do not fit together.
    #[error("--http-cert and --http-key: {0}: name a certificate and the key that belongs to it")]
    Pair(Error),
}

/// Reads a certificate, with those of its issuers, and its key.
///
/// # Errors
/// When a file cannot be used.
pub fn read(cert: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
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
